//! `modex info --features`, and the table behind it: it is true as far as this repository can tell, and the tables of
//! the documents follow from it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use modex::keys;
use modex::types::Status;
use modex_cli::abi::{self, Support};
use modex_cli::features::{Feature, Need, State, features};

use crate::launch::modex;

const TABLE: &str = include_str!("../../../spec/features.tsv");

#[test]
fn features_are_listed_under_their_chapters_with_their_number() {
    let text = modex(["info", "--features"]).run().success();
    let rows: Vec<Feature> = features().collect();
    for row in &rows {
        let line = format!("  {:11}  {:9}  {}\n", row.state.words(), row.need.words(), row.feature);
        assert!(text.contains(&line), "no line for {}", row.feature);
        assert!(row.note.is_none_or(|note| text.contains(&format!(" {note}\n"))), "no remark for {}", row.feature);
    }
    let chapters = text.lines().filter(|line| !line.starts_with(' ') && !line.is_empty()).count() - 1;
    assert_eq!(chapters, chapters_of(&rows).len());
    let count = |state| rows.iter().filter(|row| row.state == state).count();
    let [works, partly, host, not_done] = State::ALL.map(count);
    let summary =
        format!("{} features: works {works}, partly {partly}, host's part {host}, not done {not_done}\n", rows.len());
    assert!(text.ends_with(&format!("\n\n{summary}")), "{text}");
    assert!(modex(["info"]).run().success().ends_with(&format!("standard   {summary}")));
}

#[test]
fn features_are_chosen_by_their_state() {
    let listed = |words: &[&str]| modex([&["info", "--features"], words].concat()).run();
    let text = listed(&["--state", "not-done"]).success();
    let count = features().filter(|row| row.state == State::NotDone).count();
    assert_eq!(text.lines().filter(|line| line.starts_with("  not done ")).count(), count);
    let others = ["  works ", "  partly ", "  host's part "];
    assert!(!text.lines().any(|line| others.iter().any(|other| line.starts_with(other))), "{text}");
    assert!(text.contains(&format!("\n{count} features: works 0, partly 0, host's part 0, not done {count}\n")));
    let document: serde_json::Value =
        serde_json::from_str(&listed(&["--json", "--state", "partly,host"]).success()).unwrap();
    let states: BTreeSet<&str> =
        document["standard"].as_array().unwrap().iter().map(|row| row["state"].as_str().unwrap()).collect();
    assert_eq!(states, BTreeSet::from(["host's part", "partly"]));
    assert_eq!(listed(&["--state", "perhaps"]).code(), Some(2));
    assert_eq!(modex(["info", "--state", "works"]).run().code(), Some(2), "a state is for features");
}

#[test]
fn features_in_json_have_their_names_and_tests() {
    let document: serde_json::Value =
        serde_json::from_str(&modex(["info", "--features", "--json"]).run().success()).unwrap();
    let shown = document["standard"].as_array().unwrap();
    assert_eq!(shown, serde_json::to_value(features().collect::<Vec<_>>()).unwrap().as_array().unwrap());
    let first = &shown[0];
    assert_eq!(
        (&first["names"][0], &first["need"], &first["note"]),
        (&"PMIx_Init".into(), &"required".into(), &().into())
    );
    let plain: serde_json::Value = serde_json::from_str(&modex(["info", "--json"]).run().success()).unwrap();
    assert!(plain["standard"].is_null(), "{plain}");
}

#[test]
fn every_row_of_the_table_is_whole_and_no_two_are_alike() {
    let rows: Vec<Feature> = features().collect();
    assert_eq!(rows.len(), TABLE.lines().count() - 1, "a line has another form");
    let distinct: BTreeSet<(&str, &str)> = rows.iter().map(|row| (row.chapter, row.feature)).collect();
    assert_eq!(distinct.len(), rows.len(), "two rows have the same words");
    let in_turn = rows.chunk_by(|one, next| one.chapter == next.chapter).count();
    assert_eq!(in_turn, chapters_of(&rows).len(), "the rows of a chapter are not together");
    for row in rows {
        let name = row.feature;
        assert!(!name.is_empty() && !row.names.is_empty(), "{row:?}");
        assert_eq!(row.shown_by.is_empty(), row.state == State::NotDone, "{name}: a test shows what is done");
        assert!(row.state == State::Works || row.note.is_some(), "{name}: a reason is missing");
        assert!(row.note.is_none_or(|note| note.ends_with('.')), "{name}: a remark is a sentence");
        assert_eq!(row.chapter == "Beyond the standard", row.need == Need::Extension, "{name}");
    }
}

#[test]
fn the_tests_that_show_a_feature_exist() {
    for row in features() {
        for test in row.shown_by {
            let (file, function) = test.split_once("::").unwrap_or_else(|| panic!("{test} is no file::function"));
            let source = fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            let is_there = if file.ends_with(".rs") {
                is_test(&source, function)
            } else {
                // A test of tests/consumers runs each program of this directory.
                file.starts_with("tests/capi/") && is_function(&source, function)
            };
            assert!(is_there, "{}: there is no test {test}", row.feature);
        }
    }
}

#[test]
fn the_names_of_a_feature_exist_and_agree_with_the_support_of_functions() {
    let unsupported = |name: &&str| {
        let function = abi::functions().iter().find(|function| function.name == *name);
        function.unwrap_or_else(|| panic!("the library has no function {name}")).support == Support::NotSupported
    };
    let mut not_done = BTreeSet::new();
    for row in features() {
        let (functions, others): (Vec<&str>, Vec<&str>) = row.names.iter().partition(|name| name.starts_with("PMIx_"));
        for name in others {
            let is_known = keys::by_macro(name).is_some() || Status::from_name(name).is_some();
            assert!(is_known, "{}: {name} is no attribute and no status", row.feature);
        }
        for name in functions.into_iter().filter(unsupported) {
            assert_eq!(row.state, State::NotDone, "{}: {name} is not supported", row.feature);
            not_done.insert(name);
        }
    }
    let all = abi::functions().iter().filter(|function| function.support == Support::NotSupported);
    assert_eq!(
        not_done,
        all.map(|function| function.name).collect(),
        "functions without support are features not done"
    );
}

/// `MODEX_BLESS=1` writes the tables.
#[test]
fn the_tables_of_the_documents_follow_from_the_features() {
    let rows: Vec<Feature> = features().collect();
    follows("README.md", "| chapter of the standard | required | optional |", &chapter_table(&rows));
    follows("docs/compatibility.md", "| chapter | feature | state | remark |", &open_table(&rows));
}

/// Checks the search itself.
#[test]
fn a_test_is_found_by_its_name_and_attribute() {
    let source = "#[test]\nfn one() {}\n\nfn two() {}\n\n    #[test]\n    #[should_panic]\n    fn three() {}\n";
    let left_out = "#[ignore = \"slow\"]\n#[test]\nfn four() {}\n"; // A text that is read; it turns off nothing.
    let found = ["one", "two", "three", "four"].map(|name| is_test(&[source, left_out].join("\n"), name));
    assert_eq!(found, [true, false, true, false]);
    let program = "static void one(void)\n{\n    two(1);\n}\n\nstatic const char *three(int a)\n";
    assert_eq!(["one", "two", "three"].map(|name| is_function(program, name)), [true, false, true]);
}

/// For each chapter: a mark if all features work, or their number.
fn chapter_table(rows: &[Feature]) -> String {
    let share = |chapter: &str, is_required: bool| {
        let rows = rows.iter().filter(|row| row.chapter == chapter && (row.need == Need::Required) == is_required);
        let states: Vec<State> = rows.map(|row| row.state).collect();
        let working = states.iter().filter(|state| **state == State::Works).count();
        match states.len() {
            0 => "\u{2013}".to_owned(),
            all if all == working => "\u{2713}".to_owned(),
            all => format!("{working} of {all}"),
        }
    };
    let line = |chapter: &&str| format!("| {chapter} | {} | {} |\n", share(chapter, true), share(chapter, false));
    chapters_of(rows).iter().map(line).collect()
}

/// The features that do not wholly work.
fn open_table(rows: &[Feature]) -> String {
    let open = rows.iter().filter(|row| row.state != State::Works);
    let line = |row: &Feature| {
        let [chapter, feature, state] = [row.chapter, row.feature, row.state.words()];
        format!("| {chapter} | {feature} | {state} | {} |\n", row.note.unwrap_or_default())
    };
    open.map(line).collect()
}

/// The chapters in their order.
fn chapters_of(rows: &[Feature]) -> Vec<&'static str> {
    let mut chapters = Vec::new();
    for row in rows {
        if !chapters.contains(&row.chapter) {
            chapters.push(row.chapter);
        }
    }
    chapters
}

/// The document has these rows below the head of a table.
fn follows(document: &str, head: &str, rows: &str) {
    let path = root().join(document);
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(&format!("{head}\n")).unwrap_or_else(|| panic!("{document} lacks {head}"));
    let (ruler, rest) = rest.split_once('\n').unwrap();
    let size: usize = rest.split_inclusive('\n').take_while(|line| line.starts_with('|')).map(str::len).sum();
    let (found, after) = rest.split_at(size);
    if std::env::var_os("MODEX_BLESS").is_some() {
        fs::write(&path, format!("{before}{head}\n{ruler}\n{rows}{after}")).unwrap();
    } else {
        assert_eq!(found, rows, "{document}: write the table with MODEX_BLESS=1");
    }
}

/// The source has a function of this name with the attribute of a test, and no attribute that turns it off.
fn is_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let is_named = |line: &&str| line.strip_prefix("fn ").and_then(|rest| rest.strip_prefix(name)).is_some_and(is_list);
    lines.iter().enumerate().filter(|(_, line)| is_named(line)).any(|(at, _)| {
        let attributes = lines.iter().take(at).rev().take_while(|line| line.starts_with("#["));
        let attributes: Vec<&&str> = attributes.collect();
        let is_off = |line: &&&str| line.starts_with("#[ignore");
        attributes.contains(&&"#[test]") && !attributes.iter().any(is_off)
    })
}

/// The C source defines a function of this name.
fn is_function(source: &str, name: &str) -> bool {
    let begins = |line: &str| line.starts_with(|first: char| first.is_ascii_lowercase()) && !line.ends_with(';');
    source.lines().filter(|line| begins(line)).any(|line| {
        let (head, _) = line.split_once('(').unwrap_or_default();
        head.rsplit([' ', '*']).next() == Some(name)
    })
}

fn is_list(rest: &str) -> bool {
    rest.starts_with('(')
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}
