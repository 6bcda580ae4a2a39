//! A correct description can be too large for a segment: the refusal names the entry, too.

use super::*;
use crate::gds::{Datastore, Store, StoreError, StoreLimits, StoreOptions};
use crate::shmem::BackingKind;
use crate::types::InfoFlags;

/// A store that takes little.
fn store(limits: StoreLimits) -> Store {
    let options = StoreOptions { backing: BackingKind::Heap, limits, ..StoreOptions::new("server.0", "n1") };
    Store::new(options)
}

fn small_values() -> StoreLimits {
    StoreLimits { value_bytes_max: 1000, ..StoreLimits::default() }
}

fn deep(key: &'static str) -> Info {
    info(key, (0..100_000).fold(Value::Uint8(1), |inner, _| Value::info_array(vec![info("x", inner)])))
}

fn long(key: &'static str) -> Info {
    info(key, "l".repeat(1001))
}

#[track_caller]
fn refused(store: &mut Store, description: &Description) -> StoreError {
    let reader = |store: &Store| store.reader(&namespace()).map(|reader| reader.job_record().unwrap());
    let before = reader(store);
    let error = store.register_description(&namespace(), description).unwrap_err();
    assert_eq!(reader(store), before, "{error}");
    error
}

#[track_caller]
fn stands_at(description: impl Into<Description>, place: &str, what: &str) {
    let description = description.into();
    let text = refused(&mut store(small_values()), &description).to_string();
    let rest = text.strip_prefix(place).unwrap_or_else(|| panic!("{text:?} does not begin with {place:?}"));
    assert!(rest.starts_with(": ") && rest.contains(what), "{text:?} says nothing of {what:?}");
    let infos = description.to_infos();
    if infos.len() == description.infos().len() {
        let text_of_infos = store(small_values()).register(&namespace(), &infos).unwrap_err().to_string();
        assert_eq!(text_of_infos, text);
    }
}

/// Regression: the refusal of an entry that cannot be stored named only its key, not its place.
#[test]
fn errors_name_the_place_of_too_deep_or_large_values_in_every_realm() {
    let filler = || info("vendor.a", 1_u32);
    type Wrap = fn(Info) -> Info;
    let cases: [(&str, Wrap); 8] = [
        ("", |odd| odd),
        ("job.arr[1] ", |odd| job(vec![info("x.deep.not", 1_u8), odd])),
        ("ssn.arr[1] ", |odd| session(vec![info("pmix.session.id", 1_u32), odd])),
        ("app.arr[1] ", |odd| app(0, vec![odd])),
        ("node.arr[1] ", |odd| node("n7", vec![odd])),
        ("pdata[1] ", |odd| process(3, vec![odd])),
        ("app.arr[1].node.arr[1] ", |odd| app(0, vec![node("n1", vec![odd])])),
        ("ssn.arr[1].job.arr[1].app.arr[0].pdata[1] ", |odd| {
            session(vec![info("pmix.session.id", 1_u32), job(vec![app(0, vec![process(2, vec![odd])])])])
        }),
    ];
    for (place, wrap) in cases {
        stands_at(vec![filler(), wrap(deep("x.deep"))], &format!("{place}\"x.deep\""), "levels deep");
        stands_at(vec![filler(), wrap(long("x.long"))], &format!("{place}\"x.long\""), "1001 bytes, the limit is 1000");
        // A key of the standard, in any realm.
        stands_at(vec![filler(), wrap(long("pmix.locstr"))], &format!("{place}\"pmix.locstr\""), "1001 bytes");
    }
}

#[test]
fn of_many_entries_with_the_key_the_one_that_cannot_be_stored_is_named() {
    let of_process = |rank: u32, value: &str| process(rank, vec![info("vendor.x", 7_u8), info("vendor.k", value)]);
    let long = "l".repeat(1001);
    let infos = vec![of_process(0, "a"), of_process(1, "b"), of_process(2, &long), of_process(3, "c")];
    stands_at(infos, "pdata[2] \"vendor.k\"", "1001 bytes");
    let nodes = vec![node("n0", vec![info("k", "a")]), job(vec![info("k", "b"), node("n1", vec![info("k", &*long)])])];
    stands_at(nodes, "job.arr[1].node.arr[1] \"k\"", "1001 bytes");

    let mut description = Description::default();
    for rank in [5_u32, 6, 7] {
        let table = description.processes();
        let column = table.column(0, &Key::from_static("vendor.k")).unwrap();
        let text = if rank == 6 { long.as_bytes() } else { b"short" };
        let cell = table.cell(column, HostValue::Text(text)).unwrap();
        table.push(rank, &[cell]);
        description.push(info("vendor.key", rank));
    }
    // 0 array of rank 5, 1 key, 2 array of rank 6
    stands_at(description, "pdata[2] \"vendor.k\"", "1001 bytes");
}

#[test]
fn a_qualified_value_that_cannot_be_stored_is_named_as_the_host_has_it() {
    let qualifier = || Info { flags: InfoFlags::QUALIFIER.bits(), ..info("q", 1_u32) };
    let qualified = |first: Info| array("pmix.qual.val", vec![first, qualifier()]);
    let fits = || qualified(info("k", "a"));
    stands_at(vec![fits(), job(vec![qualified(long("k2"))])], "job.arr[1] \"pmix.qual.val\"", "bytes");
    stands_at(vec![fits(), process(0, vec![qualified(deep("k2"))])], "pdata[1] \"pmix.qual.val\"", "levels deep");
    stands_at(vec![array("pmix.qual.val", vec![long("k")])], "\"k\"", "1001 bytes");
}

#[test]
fn a_converted_value_is_checked_in_its_stored_form() {
    let ranks = (0..400).map(Value::Uint32).collect();
    let peers = Value::DataArray(Box::new(DataArray { element_type: DataType::Uint32, elements: ranks }));
    stands_at(vec![node("n1", vec![info("pmix.lpeers", peers)])], "node.arr[0] \"pmix.lpeers\"", "bytes, the limit");
    // A derived value has no place.
    let map = Value::Regex(b"pmix[node[3:0-299]]\0".to_vec());
    stands_at(vec![job(vec![info("pmix.nmap", map)])], "\"pmix.nlist\"", "bytes, the limit");
}

#[test]
fn later_descriptions_and_resources_are_told_apart_from_what_they_join() {
    let mut store = store(small_values());
    store.register(&namespace(), &[info("vendor.k", "short"), job(vec![info("pmix.jobid", "j")])]).unwrap();
    let text = refused(&mut store, &vec![job(vec![long("vendor.k")])].into()).to_string();
    assert!(text.starts_with("job.arr[0] \"vendor.k\": "), "{text}");
    let mut description = Description::from(vec![info("vendor.k", "short")]);
    description.prepend(vec![info("a", 1_u8), node("n0", vec![long("vendor.r")])]);
    let text = refused(&mut store, &description).to_string();
    assert!(text.starts_with("resources.node.arr[1] \"vendor.r\": "), "{text}");
    let mut description = Description::from(vec![node("n0", vec![])]);
    description.prepend(vec![node("n0", vec![info("pmix.local.size", "two")])]);
    // An unusable resource is left out, because it is not part of the job's description.
    let summary = store.register_description(&namespace(), &description).unwrap();
    assert_eq!(summary.node_count, Some(1));
}

#[test]
fn the_key_that_is_too_many_is_named_and_takes_no_room() {
    let mut store = store(StoreLimits { keys_max: 8, ..StoreLimits::default() });
    store.register(&namespace(), &[info("k0", 1_u8)]).unwrap();
    let many = |first: usize| (first..first + 9).map(|key| Info::new(Key::new(format!("k{key}")).unwrap(), 1_u8));
    for first in [100, 200, 300] {
        let text = refused(&mut store, &vec![info("k0", 2_u8), job(many(first).collect())].into()).to_string();
        assert!(text.starts_with(&format!("job.arr[1] \"k{}\": ", first + 7)), "{text}");
        assert!(text.contains("limit of 8"), "{text}");
    }
    store.register(&namespace(), &many(1).take(7).collect::<Vec<_>>()).unwrap();
}

/// Regression: the keys of a refused description stayed in the segment, and used up room of later ones.
#[test]
fn nothing_of_a_refused_description_stays() {
    let mut store = store(StoreLimits { keys_max: 40, ..small_values() });
    store.register(&namespace(), &[info("k0", 1_u8)]).unwrap();
    let before = store.statistics(&namespace()).unwrap();
    for attempt in 0..10 {
        let new_keys = (0..20).map(|key| Info::new(Key::new(format!("k{attempt}.{key}")).unwrap(), 1_u8));
        refused(&mut store, &new_keys.chain([deep("x.deep")]).collect::<Vec<_>>().into());
    }
    assert_eq!(store.statistics(&namespace()).unwrap(), before);
    assert_eq!(store.reader(&namespace()).unwrap().names("k").unwrap(), ["k0"]);
    let fits: Vec<Info> = (0..30).map(|key| Info::new(Key::new(format!("fits.{key}")).unwrap(), 1_u8)).collect();
    store.register(&namespace(), &fits).unwrap();
    assert_eq!(job_value(&store.reader(&namespace()).unwrap().job_record().unwrap(), "fits.29"), Some(Value::Uint8(1)));
}

#[test]
fn an_entry_beyond_a_limit_of_the_store_is_refused_with_its_place() {
    let limits = StoreLimits { ranks_max: 4, nodes_max: 2, ..StoreLimits::default() };
    let said = |description: Vec<Info>| refused(&mut store(limits), &description.into()).to_string();
    let sized = said(vec![job(vec![info("pmix.job.size", 5_u32)])]);
    assert!(sized.starts_with("job.arr[0] \"pmix.job.size\": ") && sized.contains("accepts 4"), "{sized}");
    assert!(said(vec![process(4, vec![])]).starts_with("pdata[0] \"pmix.rank\": "));
    let mapped = said(vec![job(maps("a,b", "0,1;2,3,4"))]);
    assert!(mapped.starts_with("job.arr[0] \"pmix.pmap\": "), "{mapped}");
    let mapped = said(vec![info("pmix.nmap", "a,b,c")]);
    assert!(mapped.starts_with("\"pmix.nmap\": "), "{mapped}");
    let listed = said(["a", "b", "c"].map(|name| node(name, vec![])).into());
    assert!(listed.starts_with("node.arr[2]: "), "{listed}");
}
