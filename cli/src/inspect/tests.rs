//! Damaged segments: whatever their bytes, there is a report or an error, and the report can be printed.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;

use modex::gds::registration::JobDescription;
use modex::gds::{Datastore, Origin, Posted, Store, StoreOptions};
use modex::shmem::{BackingKind, HEADER_BYTES, ReaderHandle};
use modex::types::{Info, InfoFlags, Key, Namespace, Scope, Value};
use proptest::prelude::*;
use serde_json::Value as Json;

use super::options::Selection;
use super::process::FoundSegment;
use super::{table, view};

/// The bytes of a good segment with values of all kinds.
static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let directory = tempfile::TempDir::new().unwrap();
    let options = StoreOptions {
        backing: BackingKind::File,
        directory: Some(directory.path().to_owned()),
        span_bytes: 1 << 20,
        ..StoreOptions::new("server.0", "n0")
    };
    let namespace = Namespace::new("job").unwrap();
    let mut store = Store::new(options);
    let description = JobDescription::new(&namespace).nodes(["n0", "n1"]).ranks_by_node([vec![0, 2], vec![1, 3]]);
    store.register(&namespace, &description.build().unwrap()).unwrap();
    let nested = Value::info_array(vec![Info::new(Key::from_static("inner"), "text")]);
    let qualifier = Info { flags: InfoFlags::QUALIFIER.bits(), ..Info::new(Key::from_static("of"), 1_u32) };
    let qualified = Value::info_array(vec![Info::new(Key::from_static("several"), 7_u32), qualifier]);
    let described = Info::new(Key::from_static("pmix.qual.val"), qualified.clone());
    store.register(&namespace, &[described]).unwrap();
    store.register(&namespace, &parts()).unwrap();
    for (key, value) in [
        ("a", Value::from("a long string")),
        ("b", nested),
        ("c", Value::ByteObject(vec![1; 50])),
        ("pmix.qual.val", qualified),
    ] {
        let posted = Posted { scope: Scope::Global, key: Key::from_static(key), value };
        store.commit(&namespace, 1, Origin::Local, &[posted]).unwrap();
    }
    let file = fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap();
    fs::read(file.path()).unwrap()
});

/// Two sessions and an application. The first session and the application have a value of a node.
fn parts() -> [Info; 4] {
    let info = |key: &'static str, value: Value| Info::new(Key::from_static(key), value);
    let node = |name: &str, key, value: &str| {
        let of = vec![info("pmix.hname", Value::from(name)), info(key, Value::from(value))];
        info("pmix.node.arr", Value::info_array(of))
    };
    let part = |array, number, id: u32, rest| {
        info(array, Value::info_array([vec![info(number, Value::Uint32(id))], rest].concat()))
    };
    [
        info("pmix.session.id", Value::Uint32(7)),
        part("pmix.ssn.arr", "pmix.session.id", 7, vec![node("n0", "own.node", "of 7")]),
        part("pmix.ssn.arr", "pmix.session.id", 8, vec![info("other", Value::from("of 8"))]),
        part("pmix.app.arr", "pmix.appnum", 0, vec![node("n1", "app.node", "of 0")]),
    ]
}

/// Inspects everything in a segment of these bytes and prints it in both forms. Returns the number of problems.
fn look(bytes: &[u8]) -> usize {
    seen(bytes).problems.len()
}

fn seen(bytes: &[u8]) -> view::Report {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(bytes, 0).unwrap();
    let handle = ReaderHandle::from_descriptor(OwnedFd::from(file));
    let found = FoundSegment { path: "copy".into(), holder_pid: None, backing: BackingKind::File, handle };
    let selection =
        Selection { namespace: None, keys: true, realms: true, rank: Some(1), topology: false, values: true };
    let report = view::report(vec![found], &selection).unwrap();
    assert!(!report.segments.is_empty() || !report.problems.is_empty());
    assert!(!serde_json::to_string(&report).unwrap().is_empty());
    let page = table::render(&report, false);
    assert!(page.chars().all(|c| c == '\n' || !c.is_control()), "{page:?}");
    report
}

/// The page had one line, without a word on what to do.
#[test]
fn a_report_without_segments_says_how_to_get_one() {
    let report = view::report(Vec::new(), &Selection::default()).unwrap();
    let page = table::render(&report, false);
    assert!(page.starts_with("No job ") && page.contains("Start a job with modex run"), "{page}");
}

/// Regression: values that differ in their qualifiers are stored under generated names, and the report showed these
/// names.
#[test]
fn qualified_values_are_shown_under_the_key_that_people_know() {
    let report = seen(&GOOD);
    let (json, page) = (serde_json::to_value(&report).unwrap(), table::render(&report, true));
    let content = &json["segments"][0]["content"];
    let named =
        |list: &Json, name: &str| list.as_array().unwrap().iter().filter(|row| row[name] == "pmix.qual.val").count();
    assert_eq!(named(&content["keys"], "name"), 1, "{content}");
    assert_eq!(named(&content["realms"]["job"], "key"), 1, "{content}");
    let entries: Vec<&Json> =
        content["rank"]["blocks"].as_array().unwrap().iter().map(|block| &block["entries"]).collect();
    assert_eq!(entries.iter().map(|entries| named(entries, "key")).sum::<usize>(), 1, "{content}");
    assert!(!json.to_string().contains("qualified."), "{json}");
    assert!(!page.contains("qualified.") && page.contains("several"), "{page}");
}

/// Regression: the node data of applications and of other sessions was not shown.
#[test]
fn the_report_shows_all_values_of_sessions_and_applications() {
    let report = seen(&GOOD);
    let (json, page) = (serde_json::to_value(&report).unwrap(), table::render(&report, false));
    let realms = &json["segments"][0]["content"]["realms"];
    let of = |list: &Json, key: &str| list.as_array()?.iter().find(|row| row["key"] == key).cloned();
    let of = |list: &Json, key: &str| of(list, key).unwrap_or_else(|| panic!("{key} is not in {list:#}"));
    assert_eq!(of(&realms["session_node_columns"], "own.node")["values"][0], "of 7");
    // The description begins with session 0.
    let other = &realms["other_sessions"][1];
    assert_eq!((&other["number"], &of(&other["values"], "other")["value"]), (&Json::from(8), &Json::from("of 8")));
    assert_eq!(of(&realms["apps"][0]["node_columns"], "app.node")["values"][1], "of 0");
    assert!(["own.node", "of 7", "session 8", "of 8", "app.node", "of 0"].iter().all(|word| page.contains(word)));
}

#[test]
fn an_unchanged_copy_has_no_problems() {
    assert_eq!(look(&GOOD), 0);
}

proptest! {
    #![proptest_config(crate::cases::cases(300))]

    #[test]
    fn changed_bytes_give_a_report_or_an_error(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut bytes = GOOD.clone();
        for (index, byte) in changes {
            // Most of the file is room to grow, which no reader visits.
            let at = index.index(3 * usize::try_from(HEADER_BYTES).unwrap());
            bytes[at] = byte;
        }
        look(&bytes);
    }

    #[test]
    fn changed_words_give_a_report_or_an_error(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u16>(), 0_u32..49), 1..6),
    ) {
        let mut bytes = GOOD.clone();
        for (index, word, shift) in changes {
            let at = index.index(3 * usize::try_from(HEADER_BYTES).unwrap() / 8) * 8;
            bytes[at..at + 8].copy_from_slice(&(u64::from(word) << shift).to_le_bytes());
        }
        look(&bytes);
    }

    #[test]
    fn truncated_files_give_a_report_or_an_error(keep in any::<prop::sample::Index>()) {
        look(&GOOD[..keep.index(GOOD.len())]);
    }
}
