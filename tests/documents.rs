//! The documents are true: each cell of the table of peers names existing tests, and links and paths lead to files.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failing read of the sources fails the test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The table's one cell without a test, because there is nothing to try.
const NOTHING_TO_TRY: (&str, &str) = ("process without a launcher, at our system server", "3.2.5");

#[test]
fn every_cell_of_the_table_of_peers_names_tests_that_exist() {
    let document = fs::read_to_string(root().join("docs/compatibility.md")).unwrap();
    let tests: BTreeSet<String> =
        ["tests", "cli/tests", "libpmix/tests"].iter().flat_map(|folder| tests_below(&root().join(folder))).collect();
    assert!(tests.len() > 100, "{} tests found", tests.len());
    let (releases, rows) = table(&document);
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
            assert!(missing.is_empty(), "{role}, {release}: the document names tests that do not exist: {missing:?}");
        }
    }
}

/// The README's table has the same roles and releases, and a mark for each cell.
#[test]
fn the_readme_marks_what_the_table_of_peers_shows() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let rows: Vec<&str> = readme.lines().skip_while(|line| !line.starts_with("| the peer is |")).skip(2).collect();
    let rows: Vec<Vec<&str>> = rows
        .iter()
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).skip(1).collect())
        .collect();
    let document = fs::read_to_string(root().join("docs/compatibility.md")).unwrap();
    let shown: Vec<Vec<&str>> = table(&document)
        .1
        .iter()
        .map(|(_, cells)| cells.iter().map(|cell| if cell == "-" { "\u{2013}" } else { "\u{2713}" }).collect())
        .collect();
    assert_eq!(rows, shown);
}

/// Without this test only readers would notice a link to a moved or missing document.
#[test]
fn links_between_documents_lead_to_files() {
    let names = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root().join(name));
    let mut links = 0;
    for path in documents().into_iter().chain(names) {
        let text = fs::read_to_string(&path).unwrap();
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
        for target in targets.filter(|target| !target.starts_with("http")) {
            let file = target.split('#').next().unwrap();
            assert!(path.parent().unwrap().join(file).exists(), "{}: no file {target}", path.display());
            links += 1;
        }
    }
    assert!(links > 10, "only {links} links found: the search is broken");
}

/// Readers find a document through the index.
#[test]
fn the_index_lists_every_document() {
    let index = fs::read_to_string(root().join("docs/README.md")).unwrap();
    for path in documents() {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(name == "README.md" || index.contains(&format!("- [{name}]({name}): ")), "docs/README.md lacks {name}");
    }
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains("](docs/README.md)"), "README.md does not lead to the index");
}

/// A document must not keep the path of a file that was moved.
#[test]
fn paths_in_documents_lead_to_files() {
    let mut paths = 0;
    for document in documents().into_iter().chain([root().join("ARCHITECTURE.md")]) {
        let text = fs::read_to_string(&document).unwrap();
        for word in text.split('`').skip(1).step_by(2) {
            let is_path = ["src/", "sim/", "cli/", "libpmix/", "tests/", "scripts/", "spec/", "docs/"]
                .iter()
                .any(|folder| word.starts_with(folder));
            if is_path && !word.contains([' ', '*', '{']) {
                assert!(root().join(word).exists(), "{}: no file {word}", document.display());
                paths += 1;
            }
        }
    }
    assert!(paths > 50, "only {paths} paths found: the search is broken");
}

/// Checks the search itself: it does not find functions that are no tests.
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

/// All documents in `docs`.
fn documents() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The releases, and for each role of the peer one cell per release.
fn table(document: &str) -> (Vec<String>, Vec<(String, Vec<String>)>) {
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()
    };
    let mut lines = document.lines().skip_while(|line| !line.starts_with("| the peer's role |"));
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

/// Functions with the attribute directly before them, unless another attribute turns the test off.
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
