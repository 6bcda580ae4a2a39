//! Contradictions are refused, and the error names the key and its place in the description.

use super::*;
use crate::gds::{Datastore, KeyRef, Lookup, RealmRequest, Store, StoreOptions};
use crate::keys::ValueKind;
use crate::shmem::BackingKind;
use crate::types::{Envar, InfoFlags, LocalAddress, Text, Timeval};

fn said(description: &[Info]) -> String {
    register(description).unwrap_err().to_string()
}

/// Checks that an error's text begins with `place` and contains `what`.
#[track_caller]
fn stands_at(description: &[Info], place: &str, what: &str) {
    let said = said(description);
    let rest = said.strip_prefix(place).unwrap_or_else(|| panic!("{said:?} does not begin with {place:?}"));
    assert!(rest.contains(what), "{said:?} says nothing of {what:?}");
}

#[test]
fn an_error_names_the_key_and_the_way_to_it() {
    let filler = |count: u32| (0..count).map(|_| info("pmix.jobid", "j"));
    let wrong = array("pmix.node.arr", vec![info("pmix.nodeid", 0_u32), info("pmix.hname", 7_u32)]);
    let description: Vec<Info> = filler(3).chain([job(vec![wrong])]).collect();
    assert_eq!(
        said(&description),
        "job.arr[3].node.arr[0] \"pmix.hname\": expected string, got uint32; load the value with the type of the attribute"
    );
    stands_at(&[info("pmix.job.size", "x")], "\"pmix.job.size\": ", "expected uint32, got string");
    let numbered = node("n0", vec![info("pmix.nodeid", "x")]);
    let in_session = vec![info("pmix.session.id", 1_u32), job(vec![app(0, vec![numbered])])];
    let place = "ssn.arr[0].job.arr[1].app.arr[0].node.arr[1] \"pmix.nodeid\": ";
    stands_at(&[session(in_session)], place, "expected uint32, got string");
    let late = vec![process(0, vec![]), process(1, vec![info("pmix.nodeid", "x")])];
    stands_at(&late, "pdata[1] \"pmix.nodeid\": ", "expected uint32, got string");
    stands_at(&[info("pmix.job.arr", 1_u32)], "\"pmix.job.arr\": ", "expected data array of info");
    let inner = job(vec![info("pmix.node.arr", 1_u32)]);
    stands_at(&[inner], "job.arr[0] \"pmix.node.arr\": ", "expected data array of info");
    let negative = job(vec![info("pmix.job.size", -1_i32)]);
    stands_at(&[negative], "job.arr[0] \"pmix.job.size\": ", "-1 does not fit uint32");
}

#[test]
fn sizes_that_differ_are_named() {
    let sized = |nodes: &str, ranks: &str, size: u32| {
        let mut all = maps(nodes, ranks);
        all.push(info("pmix.job.size", size));
        all
    };
    stands_at(&sized("a,b", "0;1", 3), "\"pmix.job.size\": ", "3 processes, but the process map places 2");
    stands_at(&[job(sized("a,b", "0;1", 3))], "job.arr[0] \"pmix.job.size\": ", "places 2");
    stands_at(&maps("a,b", "0;1;2"), "\"pmix.pmap\": ", "2 nodes but the process map has 3 fields");
    stands_at(&maps("a,b", "0,1;1"), "\"pmix.pmap\": ", "rank 1");
    stands_at(&[job(maps("a,a", "0;1"))], "job.arr[0] \"pmix.nmap\": ", "\"a\" at 0 and at 1");
    stands_at(&maps("huh:x[", "0"), "\"pmix.nmap\": ", "PMIX_NODE_MAP");
    let raw = [info("pmix.nmap.raw", "a,,b"), info("pmix.pmap.raw", "0;1;2")];
    stands_at(&raw, "\"pmix.nmap.raw\": ", "empty name");
    let beyond = [info("pmix.job.size", 2_u32), process(0, vec![]), process(2, vec![])];
    stands_at(&beyond, "pdata[2] \"pmix.rank\": ", "rank 2 is in the process arrays, but the job has 2 processes");
    let apps = [app(0, vec![]), app(1, vec![]), info("pmix.wdir", "/")];
    stands_at(&apps, "\"pmix.wdir\": ", "2 applications");
}

/// Regression: errors in values of the own node outside node arrays lacked the place, and too many aliases even the
/// key.
#[test]
fn errors_in_loose_values_of_the_own_node_name_their_place() {
    let described = |entries: Vec<Info>| [maps("n0,n1", "0;1"), vec![job(entries)]].concat();
    let taken = || [info("vendor.a", 1_u8), info("pmix.nodeid", 0_u32)].into();
    let named = node("n0", vec![info("pmix.nodeid", 0_u32)]);
    stands_at(&[described(taken()), vec![named]].concat(), "job.arr[2] \"pmix.nodeid\": ", "PMIX_NODEID 0 is given");
    let many: String = (0..300).map(|alias| format!("a{alias},")).collect();
    let aliases = || info("pmix.alias", &*many);
    stands_at(&described(vec![aliases()]), "job.arr[2] \"pmix.alias\": ", "300 aliases of one node");
    stands_at(&[node("n0", vec![aliases()])], "node.arr[0] \"pmix.alias\": ", "300 aliases of one node");
}

/// Regression: the error named the key of the earlier map, which was not in the refused description.
#[test]
fn a_contradiction_of_an_earlier_map_names_the_entry_of_the_later_description() {
    let before = record(&maps("n0,n1", "0;1"));
    let said = |entries: Vec<Info>| {
        let later = parse(&namespace(), &context(), &[info("vendor.a", 1_u8), job(entries)], Some(&before));
        later.unwrap_err().to_string()
    };
    let longer = said(vec![info("pmix.nmap", "n0,n1,n2")]);
    assert!(longer.starts_with("job.arr[1] \"pmix.nmap\": the node map has 3 nodes"), "{longer}");
    let longer = said(vec![info("pmix.pmap", "0;1;2")]);
    assert!(longer.starts_with("job.arr[1] \"pmix.pmap\": the node map has 2 nodes"), "{longer}");
    for more in [vec![], vec![info("pmix.nmap", "n0,n1")]] {
        let larger = said([more, vec![info("pmix.job.size", 3_u32)]].concat());
        let place = larger.strip_prefix("job.arr[1] \"pmix.job.size\": ");
        assert!(place.is_some_and(|what| what.contains("the process map places 2")), "{larger}");
    }
}

#[test]
fn arrays_that_do_not_say_whose_they_are_are_named() {
    stands_at(&[job(vec![array("pmix.pdata", vec![info("pmix.lrank", 0_u16)])])], "job.arr[0].pdata[0]: ", "PMIX_RANK");
    stands_at(&[session(vec![])], "ssn.arr[0]: ", "PMIX_SESSION_ID");
    stands_at(&[node("a", vec![]), array("pmix.node.arr", vec![])], "node.arr[1]: ", "PMIX_HOSTNAME");
    stands_at(&[app(3, vec![info("pmix.appnum", 3_u32)])], "app.arr[0] \"pmix.appnum\": ", "twice");
    stands_at(&[node("a", vec![info("pmix.hname", Value::NullString)])], "node.arr[0] \"pmix.hname\": ", "is empty");
    let numbers = [1_u32, 2].map(|number| info("pmix.session.id", number));
    stands_at(&[session(numbers.into())], "ssn.arr[0] \"pmix.session.id\": ", "twice");
    let twice = process(0, vec![info("pmix.rank", Rank::from(0))]);
    stands_at(&[twice], "pdata[0] \"pmix.rank\": ", "twice");
    let nobody = array("pmix.pdata", vec![info("pmix.rank", Rank::Wildcard)]);
    stands_at(&[nobody], "pdata[0] \"pmix.rank\": ", "not a process");
    let mut same_id = maps("a,b", "0;1");
    same_id.extend(["a", "b"].map(|name| node(name, vec![info("pmix.nodeid", 1_u32)])));
    stands_at(&same_id, "node.arr[3] \"pmix.nodeid\": ", "PMIX_NODEID 1");
    stands_at(&[job(vec![info("pmix.nspace", "other")])], "job.arr[0] \"pmix.nspace\": ", "other");
    let of_app = app(0, vec![node("a", vec![info("pmix.nodeid", "x")])]);
    stands_at(&[of_app], "app.arr[0].node.arr[1] \"pmix.nodeid\": ", "got string");
}

/// A qualified value without qualifiers is its first entry. Regression: it was unwrapped after the checks for the
/// entry's key. So a second map replaced the first, a process array had a second rank, and a container was stored as a
/// plain value.
#[test]
fn the_entry_in_a_qualified_value_is_checked_like_any_other() {
    let wrapped = |inner: Info| array("pmix.qual.val", vec![inner]);
    let maps_twice: Vec<Info> = maps("a", "0").into_iter().chain([wrapped(info("pmix.nmap", "b"))]).collect();
    stands_at(&maps_twice, "\"pmix.nmap\": ", "twice");
    stands_at(&[job(vec![wrapped(info("pmix.nspace", "other"))])], "job.arr[0] \"pmix.nspace\": ", "other");
    let rank = || wrapped(info("pmix.rank", Rank::from(1)));
    stands_at(&[process(0, vec![rank()])], "pdata[0] \"pmix.rank\": ", "twice");
    let other = ProcId::new(namespace(), 1);
    stands_at(&[process(0, vec![wrapped(info("pmix.procid", other))])], "pdata[0] \"pmix.procid\": ", "rank 1");
    let number = wrapped(info("pmix.appnum", 1_u32));
    stands_at(&[app(0, vec![number])], "app.arr[0] \"pmix.appnum\": ", "twice");
    stands_at(&[wrapped(node("a", vec![info("pmix.nodeid", "x")]))], "node.arr[0] \"pmix.nodeid\": ", "string");

    let of_each = vec![
        wrapped(node("a", vec![wrapped(info("pmix.local.size", 2_u32))])),
        job(vec![
            wrapped(process(1, vec![wrapped(info("pmix.lrank", 1_u16))])),
            wrapped(info("pmix.univ.size", 5_u32)),
        ]),
    ];
    let record = record(&of_each);
    assert_eq!(node_value(&record, 0, "pmix.local.size"), Some(Value::Uint32(2)));
    assert_eq!(proc_value(&record, 1, "pmix.lrank"), Some(Value::Uint16(1)));
    assert_eq!(session_value(&record, "pmix.univ.size"), Some(Value::Uint32(5)));
}

/// Regression: a qualified value whose inner value has another type was refused. It is kept, as without qualifiers.
#[test]
fn a_qualified_value_holds_a_value_and_no_other_qualified_value() {
    let qualified = |inner: Info| {
        let qualifier = Info { flags: InfoFlags::QUALIFIER.bits(), ..info("q", 1_u32) };
        array("pmix.qual.val", vec![inner, qualifier])
    };
    let nested = |levels: u32| (0..levels).fold(info("k", 1_u32), |inner, _| array("pmix.qual.val", vec![inner]));
    for (wrap, place) in [(None, ""), (Some("node"), "node.arr[0] "), (Some("proc"), "pdata[0] ")] {
        let around = |inner: Info| match wrap {
            None => inner,
            Some("node") => node("a", vec![inner]),
            Some(_) => process(0, vec![inner]),
        };
        let place = format!("{place}\"pmix.qual.val\": ");
        for levels in [2, 3, 100_000] {
            stands_at(&[around(nested(levels))], &place, "another qualified value");
        }
        stands_at(&[around(qualified(array("pmix.qual.val", vec![])))], &place, "another qualified value");
        stands_at(&[around(array("pmix.qual.val", vec![]))], &place, "empty array");
        let wrong = said(&[around(qualified(info("pmix.hname", 1_u32)))]);
        assert!(wrong.contains("\"pmix.hname\": expected string, got uint32"), "{wrong}");
        for given in [Value::from("x"), Value::Uint32(1)] {
            let given = qualified(info("pmix.locstr", given));
            let record = record(&[around(given.clone())]);
            assert!(values_like(&record, "").contains(&given.value), "{place}{given:?}");
        }
    }
}

/// All values under keys with this text in their names, of any realm.
fn values_like(record: &JobRecord, key: &str) -> Vec<Value> {
    let is_meant = |name: &Key| name.as_str().contains(key);
    let apps = record.apps.iter().flat_map(|app| &app.entries);
    let entries = record.session.iter().chain(&record.job).chain(apps).filter(|(name, _)| is_meant(name));
    let entries = entries.map(|(_, value)| value.clone());
    let of = |columns: &[Column], count: u32| -> Vec<Value> {
        let columns = columns.iter().filter(|column| is_meant(&column.key));
        columns.flat_map(|column| (0..count).filter_map(|at| previous::value_at(&column.values, at))).collect()
    };
    let procs = of(&record.proc_columns, record.rank_count);
    entries.chain(of(&record.node_columns, record.node_count)).chain(procs).collect()
}

/// Regression: an array with elements of another type than its key's was refused. It is kept, except under a key that
/// registration itself reads.
#[test]
fn arrays_of_other_elements_than_their_key_lists_are_kept() {
    let of = |element_type, elements| Value::DataArray(Box::new(DataArray { element_type, elements }));
    let numbers = || of(DataType::Uint32, vec![Value::Uint32(1)]);
    let wrong = "expected data array of string, got uint32";
    stands_at(&[node("n0", vec![info("pmix.alias", numbers())])], "node.arr[0] \"pmix.alias\": ", wrong);
    let among = of(DataType::Proc, vec![Value::Uint32(1)]);
    for given in [numbers(), among] {
        let record = record(&[node("n0", vec![info("pmix.lprocs", given.clone())])]);
        assert_eq!(node_value(&record, 0, "pmix.lprocs"), Some(given));
        let said = doubts::doubts(&record);
        assert!(said.len() == 1 && said[0].contains("expected data array of proc, got uint32"), "{said:?}");
    }
    for (key, element) in [
        ("pmix.pgrp.nm", "string"),
        ("pmix.pset.nms", "string"),
        ("pmix.dev.dist", "device dist"),
        ("pmix.fab.endpt", "endpoint"),
    ] {
        let record = record(&[process(0, vec![info(key, numbers())])]);
        assert_eq!(proc_value(&record, 0, key), Some(numbers()));
        let said = doubts::doubts(&record);
        let wanted = format!("\"{key}\": expected data array of {element}, got uint32");
        assert!(said.len() == 1 && said[0].contains(&wanted), "{said:?}");
        let nothing_listed = register(&[process(0, vec![info(key, of(DataType::Uint32, vec![]))])]);
        assert_eq!(doubts::doubts(&nothing_listed.unwrap()), [""; 0], "{key}");
    }
}

#[test]
fn names_are_not_empty_and_may_be_long() {
    stands_at(&[node("", vec![])], "node.arr[0] \"pmix.hname\": ", "empty");
    stands_at(&[process(0, vec![info("pmix.hname", "")])], "pdata[0] \"pmix.hname\": ", "empty");
    stands_at(&[info("pmix.hname", "")], "\"pmix.hname\": ", "empty");
    // Regression: such a name became two in the list of the node's names, and on reading the list, another node.
    let two = node("n0", vec![info("pmix.hname", "n0,n1")]);
    let said = "\"n0,n1\" holds a comma; give one name, and others as PMIX_HOSTNAME_ALIASES";
    stands_at(&[two], "node.arr[0] \"pmix.hname\": ", said);
    stands_at(&[process(0, vec![info("pmix.hname", "n0,")])], "pdata[0] \"pmix.hname\": ", "holds a comma");
    let long = "x".repeat(256);
    for (len, is_fit) in [(255, true), (256, false)] {
        let namespace = Namespace::new(&long[..len]);
        assert_eq!(namespace.is_ok(), is_fit, "{len}");
    }
    assert!(register(&[node(&long, vec![])]).is_ok(), "the length of a node's name has no bound");
    for (len, is_fit) in [(511, true), (512, false)] {
        assert_eq!(Key::new("k".repeat(len)).is_ok(), is_fit, "{len}");
    }
    let key = Key::new("k".repeat(511)).unwrap();
    assert_eq!(job_value(&record(&[Info::new(key.clone(), 1_u8)]), key.as_str()), Some(Value::Uint8(1)));
    assert!(Text::new(*b"a\0b").is_err(), "no string holds a NUL");
    stands_at(&[node("n1\0junk", vec![])], "node.arr[0] \"pmix.hname\": ", "expected string");
    stands_at(&[process(0, vec![info("pmix.hname", "n1\0junk")])], "pdata[0] \"pmix.hname\": ", "expected string");
    let kept = job_value(&record(&[info("vendor.text", "a\0b")]), "vendor.text");
    assert_eq!(kept, Some(Value::ByteObject(b"a\0b".to_vec())), "what is nobody's text is kept whole");
    let with_nul = [info("pmix.nmap", Value::Regex(b"raw:a\0b\0".to_vec())), info("pmix.pmap", "0")];
    stands_at(&with_nul, "\"pmix.nmap\": ", "PMIX_NODE_MAP");
}

#[test]
fn depth_is_bounded_and_its_place_can_be_read() {
    let nested = |levels: u32| (0..levels).fold(info("pmix.jobid", "x"), |inner, _| job(vec![inner]));
    let at_the_bound = job_value(&record(&[nested(1024)]), "pmix.jobid");
    assert_eq!(at_the_bound, Some(Value::from("x")));
    assert!(said(&[nested(1025)]).contains("levels of containers"), "{}", said(&[nested(1025)]));
    let said = said(&[nested(100_000)]);
    assert!(said.starts_with("job.arr[0].job.arr[0].job.arr[0]."), "{said}");
    assert!(said.contains(" and 1017 deeper: "), "{said}");
    assert!(said.len() < 300, "{said}");
}

#[test]
fn positions_count_what_tables_took_away() {
    let mut description = Description::default();
    for rank in 0..4 {
        let table = description.processes();
        let column = table.column(0, &Key::from_static("pmix.appnum")).unwrap();
        let cell = table.cell(column, HostValue::Number(DataType::Uint32, 0)).unwrap();
        table.push(rank, &[cell]);
        if rank % 2 == 1 {
            description.push(info("vendor.key", 1_u32));
        }
    }
    description.push(info("pmix.job.size", 3_u32));
    description.prepend(vec![info("of.resources", 1_u32)]);
    let parsed = |description: &Description| parse_description(&namespace(), &context(), description, None);
    // 0 1 key 2 3 key size
    let error = parsed(&description).unwrap_err().to_string();
    assert!(error.starts_with("pdata[4] \"pmix.rank\": rank 3 is"), "{error}");
    description.push(job(vec![info("pmix.session.id", "x")]));
    let error = parsed(&description).unwrap_err().to_string();
    assert!(error.starts_with("job.arr[7] \"pmix.session.id\": "), "{error}");
}

/// A value of each data type.
fn samples() -> Vec<Value> {
    let rank = Value::ProcRank(Rank::from(1));
    let array = |element_type, elements| Value::DataArray(Box::new(DataArray { element_type, elements }));
    let text = || Some(Text::from("x"));
    vec![
        Value::Undefined,
        Value::Bool(true),
        Value::Byte(1),
        Value::from("x"),
        Value::Size(1),
        Value::Pid(1),
        Value::Int(1),
        Value::Int8(1),
        Value::Int16(1),
        Value::Int32(1),
        Value::Int64(1),
        Value::Uint(1),
        Value::Uint8(1),
        Value::Uint16(1),
        Value::Uint32(1),
        Value::Uint64(1),
        Value::Int64(-1),
        Value::Uint64(u64::MAX),
        Value::Float(1.0),
        Value::Double(1.0),
        Value::Timeval(Timeval { seconds: 1, microseconds: 1 }),
        Value::Time(1),
        Value::Status(-1),
        Value::Value(Box::new(Value::Bool(true))),
        Value::from(ProcId::new(namespace(), 1)),
        Value::Info(Box::new(info("k", 1_u8))),
        Value::ByteObject(vec![1, 2]),
        Value::Persistence(1),
        Value::Pointer(LocalAddress::default()),
        Value::Scope(1),
        Value::DataRange(1),
        Value::Command(1),
        Value::InfoDirectives(1),
        Value::DataType(1),
        Value::ProcState(1),
        array(DataType::Uint32, vec![Value::Uint32(1)]),
        array(DataType::String, vec![Value::from("x")]),
        rank,
        Value::CompressedString(vec![1]),
        Value::AllocDirective(1),
        Value::IofChannel(1),
        Value::Envar(Box::new(Envar { name: text(), value: text(), separator: b':' })),
        Value::Regex(b"raw:x\0".to_vec()),
        Value::JobState(1),
        Value::LinkState(1),
        Value::ProcCpuset(text()),
        Value::DeviceType(1),
        Value::LocalityType(1),
        Value::CompressedByteObject(vec![1]),
        Value::ProcNamespace(namespace()),
        Value::StorageMedium(1),
        Value::StorageAccess(1),
        Value::StoragePersistence(1),
        Value::StorageAccessType(1),
    ]
}

/// Numeric types.
fn is_number(data_type: DataType) -> bool {
    use DataType as T;
    let counts = [
        T::Byte,
        T::Size,
        T::Pid,
        T::Int,
        T::Int8,
        T::Int16,
        T::Int32,
        T::Int64,
        T::Uint,
        T::Uint8,
        T::Uint16,
        T::Uint32,
        T::Uint64,
        T::Time,
        T::ProcRank,
    ];
    counts.contains(&data_type) || is_code(data_type)
}

/// The types that the standard and existing hosts use under a key.
fn suits(key: &str, value: &Value) -> bool {
    use DataType as T;
    let found = value.data_type();
    let is_list = |element| matches!(value, Value::DataArray(array) if array.element_type == element);
    match key {
        "pmix.qual.val" => return is_list(T::Info),
        "pmix.lprocs" => return is_list(T::Proc),
        "pmix.dev.dist" => return is_list(T::DeviceDistance),
        "pmix.fab.endpt" => return is_list(T::Endpoint),
        "pmix.pgrp.nm" => return is_list(T::String),
        "pmix.pset.nms" => return found == T::String || is_list(T::String),
        _ => {}
    }
    let of_key = match key {
        "pmix.nmap" | "pmix.pmap" | "pmix.nmap.raw" | "pmix.pmap.raw" => [T::Regex, T::ByteObject].contains(&found),
        "pmix.lcpus" | "pmix.alias" => found == T::String || is_list(T::String),
        "pmix.lpeers" => is_list(T::Uint32),
        _ => false,
    };
    let kinds = keys::rows_with_name(key).map(|row| row.value_type);
    let any = [ValueKind::Varies, ValueKind::None, ValueKind::Pointer, ValueKind::AllocInheritance];
    let of_kind = |kind: ValueKind| {
        let wanted = kind.data_type();
        let besides = match wanted {
            T::Bool => found == T::Undefined,
            T::String => [T::ProcNamespace, T::CompressedString].contains(&found),
            T::ByteObject => found == T::CompressedByteObject,
            T::Float => found == T::Double,
            T::Double => found == T::Float,
            _ => is_number(wanted) && is_number(found) && !is_code(found),
        };
        wanted == found || any.contains(&kind) || kind == ValueKind::EnvironmentVariable || besides
    };
    of_key || kinds.into_iter().any(of_kind)
}

/// Types whose numbers are codes, which are never counts.
fn is_code(data_type: DataType) -> bool {
    use DataType as T;
    [
        T::Status,
        T::Scope,
        T::DataRange,
        T::Persistence,
        T::ProcState,
        T::LinkState,
        T::DeviceType,
        T::StorageMedium,
        T::StorageAccess,
        T::StoragePersistence,
        T::StorageAccessType,
    ]
    .contains(&data_type)
}

/// Keys that registration itself reads refuse a value of another type. Every other key keeps it.
fn is_needed(key: &str) -> bool {
    let maps = ["pmix.nmap", "pmix.pmap", "pmix.nmap.raw", "pmix.pmap.raw"];
    let names =
        ["pmix.rank", "pmix.procid", "pmix.appnum", "pmix.session.id", "pmix.nodeid", "pmix.hname", "pmix.alias"];
    maps.contains(&key) || names.contains(&key) || ["pmix.job.size", "pmix.reg.nodata", "pmix.qual.val"].contains(&key)
}

/// Whether the values are identical. Equal numbers of two types are not.
fn is_same(one: &Value, other: &Value) -> bool {
    one == other && one.data_type() == other.data_type()
}

/// Every known key with a value of every type, in every kind of array. Regression: every value of another type was
/// refused. This refused the jobs of hosts that every OpenPMIx accepts: its own tests give `PMIX_SPAWNED` as a number.
/// A wrong type is refused by name under the keys that registration itself reads. Under all others it is kept as given.
#[test]
fn a_wrong_type_is_refused_by_name_where_registration_reads_it_and_else_kept() {
    let samples = samples();
    type Wrap = fn(Info) -> Info;
    let around: [(&str, Wrap); 5] = [
        ("", |info| info),
        ("job.arr[0] ", |info| job(vec![info])),
        ("node.arr[0] ", |info| node("n0", vec![info])),
        ("app.arr[0] ", |info| app(0, vec![info])),
        ("pdata[0] ", |info| process(0, vec![info])),
    ];
    let (mut refused, mut kept, mut accepted) = (0, 0, 0);
    let attributes = keys::attributes().filter(|attribute| !is_container(attribute.name));
    let pairs = attributes.flat_map(|attribute| samples.iter().map(move |value| (attribute.name, value)));
    for (number, (key, value)) in pairs.enumerate() {
        // The identity of the process or application is read before its type is checked.
        let is_identity = |place: &str| {
            place.starts_with("pdata") && ["pmix.rank", "pmix.procid", "pmix.nspace"].contains(&key)
                || place.starts_with("app") && key == "pmix.appnum"
        };
        // Two places for each type: over all keys, every type is tried everywhere.
        let places = [around[number % 5], around[(number / 5 + number + 1) % 5]];
        for (place, wrap) in places.iter().filter(|(place, _)| !is_identity(place)) {
            let outcome = register(&[wrap(info(key, value.clone()))]);
            let text = outcome.as_ref().map_or_else(ToString::to_string, |_| "accepted".to_owned());
            let is_of_type = matches!(outcome.as_ref().map_err(RegisterError::cause), Err(RegisterError::Type { .. }));
            let is_fit = suits(key, value) || converts_to_bool(key, value);
            // A number out of range is refused with `Range`.
            let is_out_of_range = key == "pmix.reg.nodata" && is_large(value);
            let is_refused = is_needed(key) && !is_fit && !is_out_of_range;
            assert_eq!(is_of_type, is_refused, "{place}{key} with {value:?}: {text}");
            match outcome {
                Err(_) if is_of_type => {
                    refused += 1;
                    assert!(text.starts_with(&format!("{place}{key:?}: expected ")), "{text}");
                }
                Ok(record) if !is_fit => {
                    kept += 1;
                    let found = values_like(&record, key);
                    assert!(found.iter().any(|at| is_same(at, value)), "{place}{key} with {value:?}: {found:?}");
                    let said = doubts::doubts(&record);
                    assert!(said.len() == 1 && said[0].contains(&format!("{key:?}: ")), "{place}{key}: {said:?}");
                }
                Ok(_) => accepted += 1,
                Err(error) => assert!(is_needed(key) || is_fit, "{place}{key} with {value:?}: {error}"),
            }
        }
    }
    assert!(refused > 500 && kept > 10_000 && accepted > 2_000, "{refused} refused, {kept} kept, {accepted} accepted");
}

/// Sample numbers that exceed most types.
fn is_large(value: &Value) -> bool {
    [Value::Int64(-1), Value::Uint64(u64::MAX)].contains(value)
}

/// An integer that is 0 or 1 under a key of type bool.
fn converts_to_bool(key: &str, value: &Value) -> bool {
    let is_bool = keys::rows_with_name(key).into_iter().any(|row| row.value_type.data_type() == DataType::Bool);
    is_bool && is_number(value.data_type()) && !is_code(value.data_type()) && !is_large(value)
}

/// The same through a segment; each process has a value of another type under the key.
#[test]
fn values_of_other_types_are_read_from_a_segment_as_given() {
    let options = || StoreOptions { backing: BackingKind::Heap, ..StoreOptions::new("server.0", "n1") };
    let is_stored =
        |value: &&Value| Store::new(options()).register(&namespace(), &[info("vendor.key", (*value).clone())]).is_ok();
    let samples = samples();
    let samples: Vec<&Value> = samples.iter().filter(is_stored).collect();
    let is_misfit = |key: &str, value: &Value| !suits(key, value) && !converts_to_bool(key, value);
    let is_tried = |key: &str| !is_container(key) && !is_needed(key) && key != "pmix.nspace";
    let names: Vec<&'static str> =
        keys::attributes().map(|attribute| attribute.name).filter(|key| is_tried(key)).collect();
    let find = |store: &Store, rank: Rank, key: &str| {
        let lookup = Lookup { rank, key: KeyRef::new(key), realm: RealmRequest::Default, audience: None };
        store.lookup(&namespace(), &lookup)
    };
    let mut found_count = 0;
    let mut store = Store::new(options());
    // Job values of one type under all keys, then a column of all types under each key.
    for value in &samples {
        store.deregister(&namespace());
        let names: Vec<&'static str> = names.iter().copied().filter(|key| is_misfit(key, value)).collect();
        let given: Vec<Info> = names.iter().map(|key| info(key, (*value).clone())).collect();
        store.register(&namespace(), &given).unwrap();
        for key in names {
            let found = find(&store, Rank::Wildcard, key).unwrap();
            assert!(is_same(&found, value), "{key} with {value:?}: {found:?}");
            found_count += 1;
        }
    }
    for key in names {
        store.deregister(&namespace());
        let values: Vec<&Value> = samples.iter().copied().filter(|value| is_misfit(key, value)).collect();
        let given = |(rank, value): (u32, &&Value)| process(rank, vec![info(key, (**value).clone())]);
        store.register(&namespace(), &(0..).zip(&values).map(given).collect::<Vec<_>>()).unwrap();
        for (rank, value) in (0..).zip(values) {
            let found = find(&store, Rank::Process(rank), key).unwrap();
            assert!(is_same(&found, value), "{key} of rank {rank} with {value:?}: {found:?}");
            found_count += 1;
        }
    }
    assert!(found_count > 20_000, "{found_count}");
}

fn is_container(key: &str) -> bool {
    ["pmix.ssn.arr", "pmix.job.arr", "pmix.app.arr", "pmix.node.arr", "pmix.pdata"].contains(&key)
}

#[test]
fn a_refused_description_leaves_the_namespace_as_it_was() {
    let options = StoreOptions { backing: BackingKind::Heap, ..StoreOptions::new("server.0", "n1") };
    let mut store = Store::new(options);
    let mut base = maps("n0,n1", "0;1");
    base.push(info("vendor.key", 1_u32));
    store.register(&namespace(), &base).unwrap();
    let seen = |store: &Store| store.reader(&namespace()).unwrap().job_record().unwrap();
    let before = seen(&store);
    let refusals = [
        vec![info("vendor.key", 2_u32), info("pmix.session.id", "x")],
        vec![info("vendor.key", 2_u32), info("pmix.nmap", "a,b,c")],
        vec![info("vendor.key", 2_u32), process(2, vec![])],
        vec![info("vendor.key", 2_u32), job(vec![node("", vec![])])],
        vec![info("vendor.key", 2_u32), info("pmix.job.size", 3_u32)],
        vec![info("vendor.key", 2_u32), process(1, vec![]), process(1, vec![])],
    ];
    for description in refusals {
        store.register(&namespace(), &description).unwrap_err();
        assert_eq!(seen(&store), before);
    }
}
