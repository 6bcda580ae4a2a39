//! What the README says of tests is true: each cell of its table of peers names tests, and those exist.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failing read of the sources fails the test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The table's one cell without a test: there is nothing that could be tried.
const NOTHING_TO_TRY: (&str, &str) = ("process that nobody launched, at our system server", "3.2.5");

#[test]
fn every_cell_of_the_table_of_peers_names_tests_that_exist() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let tests = tests_below(&root().join("tests"));
    assert!(tests.len() > 100, "{} tests found", tests.len());
    let (releases, rows) = table(&readme);
    assert_eq!(releases, ["3.2.5", "4.2.2", "5.0.11", "6.1"]);
    assert_eq!(rows.len(), 7, "{rows:?}");
    for (role, cells) in rows {
        assert_eq!(cells.len(), releases.len(), "{role}");
        for (release, cell) in releases.iter().zip(cells) {
            if (role.as_str(), release.as_str()) == NOTHING_TO_TRY {
                assert_eq!(cell, "-", "{role}, {release}");
                continue;
            }
            let names: Vec<&str> = cell.split(", ").map(|name| name.trim_matches('`')).collect();
            let missing: Vec<&&str> = names.iter().filter(|name| !tests.contains(**name)).collect();
            assert!(missing.is_empty(), "{role}, {release}: the README names tests that do not exist: {missing:?}");
        }
    }
}

/// Its own proof: names of what is no test, or no longer, are not found.
#[test]
fn a_function_that_is_no_test_is_not_found() {
    let counted =
        "#[test]\nfn one() {}\n\nfn two() {}\n\n    #[test]\n    #[should_panic]\n    fn three() {}\n// fn four()\n";
    let left_out = "#[test]\n#[cfg(any())]\nfn five() {}\n"; // A text that is read; it turns off nothing.
    let turned_off = "#[ignore = \"slow\"]\n#[test]\nfn six() {}\n"; // The same: such a test must not count.
    assert_eq!(
        tests_of(&[counted, left_out, turned_off].join("\n")),
        BTreeSet::from(["one".to_owned(), "three".to_owned()])
    );
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The releases, and by role of the peer a cell for each.
fn table(readme: &str) -> (Vec<String>, Vec<(String, Vec<String>)>) {
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()
    };
    let mut lines = readme.lines().skip_while(|line| !line.starts_with("| the peer's role |"));
    let releases = cells(lines.next().unwrap())[1..].to_vec();
    let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
    (releases, rows.map(|line| (cells(line)[0].clone(), cells(line)[1..].to_vec())).collect())
}

/// Names of all test functions in the sources below a directory.
fn tests_below(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let names = entries.flat_map(|path| match path.extension() {
        _ if path.is_dir() => tests_below(&path),
        Some(extension) if extension == "rs" => tests_of(&fs::read_to_string(&path).unwrap()),
        _ => BTreeSet::new(),
    });
    names.collect()
}

/// Functions with the attribute among those right before them, unless another one turns the test off.
fn tests_of(source: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut attributes = Vec::new();
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[") {
            attributes.push(line);
            continue;
        }
        let is_off = |line: &&str| line.starts_with("#[ignore") || line.starts_with("#[cfg");
        if attributes.contains(&"#[test]")
            && !attributes.iter().any(is_off)
            && let Some((name, _)) = line.strip_prefix("fn ").and_then(|rest| rest.split_once('('))
        {
            found.insert(name.to_owned());
        }
        attributes.clear();
    }
    found
}
