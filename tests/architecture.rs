//! The rules of ARCHITECTURE.md that the compiler does not check: edges between modules, length of functions, and
//! places of `unsafe`, sockets, threads and clocks.
//!
//! The checks read the sources as text. They depend on rustfmt's layout, which `make test` checks.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failing read of the sources fails the test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Module, and the modules below it that it may name. `architecture_md_lists_the_same_edges` holds the document to it.
const EDGES: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("keys", &["types"]),
    ("regex", &["types"]),
    ("bfrops", &["regex", "types", "keys"]),
    ("os_error_hint", &[]),
    ("shmem", &["os_error_hint"]),
    ("proto", &["bfrops", "types", "keys"]),
    ("pmi", &[]),
    ("gds", &["shmem", "regex", "types", "keys"]),
    ("events", &["types", "keys"]),
    ("fabric", &["topo", "types", "keys"]),
    ("storage", &["types", "keys"]),
    ("server", &["events", "fabric", "storage", "topo", "usage", "gds", "proto", "regex", "types", "keys"]),
    ("names", &["server", "proto", "types", "keys"]),
    ("usage", &["types", "keys"]),
    ("client", &["gds", "proto", "types", "keys"]),
    ("ptl", &["os_error_hint", "proto", "bfrops", "types"]),
    (
        "runtime",
        &[
            "os_error_hint",
            "output",
            "names",
            "usage",
            "server",
            "client",
            "events",
            "fabric",
            "storage",
            "ptl",
            "topo",
            "gds",
            "pmi",
            "proto",
            "bfrops",
            "regex",
            "shmem",
            "types",
            "keys",
        ],
    ),
    (
        "api",
        &[
            "runtime", "server", "client", "events", "fabric", "storage", "ptl", "topo", "gds", "proto", "bfrops",
            "regex", "shmem", "types", "keys",
        ],
    ),
    ("topo", &["shmem", "types", "keys"]),
    ("output", &["types", "keys"]),
    ("stderr_log", &[]),
    ("syslog", &["stderr_log"]),
];

/// Members of the workspace with code of their own. They name only public items, so the compiler checks their edges.
/// The other rules apply to them, too.
const MEMBERS: &[&str] = &["cli", "libpmix", "sim"];

const FUNCTION_LINES_MAX: usize = 70;
const UNSAFE_ALLOWED: &[&str] = &["shmem", "libpmix"];
const SIDE_EFFECTS_ALLOWED: &[&str] = &["ptl", "runtime", "stderr_log", "syslog", "cli", "libpmix"];
const SIDE_EFFECTS: &[&str] =
    &["std::net", "std::os::unix::net", "std::thread", "Instant::now", "SystemTime::now", "std::env::var"];

struct Source {
    path: PathBuf,
    /// First folder (or file stem) below `src`, or the workspace member.
    module: String,
    /// The text up to the unit tests.
    code: String,
}

#[test]
fn modules_name_only_what_lies_below_them() {
    let edges: BTreeMap<&str, &[&str]> = EDGES.iter().copied().collect();
    let mut offences = Vec::new();
    for source in sources() {
        let Some(permitted) = edges.get(source.module.as_str()) else { continue };
        for named in crate_modules_named(&source.code) {
            if edges.contains_key(named.as_str()) && named != source.module && !permitted.contains(&named.as_str()) {
                offences.push(format!("{}: {} -> {named}", source.path.display(), source.module));
            }
        }
    }
    assert!(offences.is_empty(), "edges that ARCHITECTURE.md does not permit:\n{}", offences.join("\n"));
}

/// Rooms inside modules, and the rooms of the same module that they may not name.
const WALLS: &[(&str, &[&str])] = &[
    ("runtime/client", &["runtime::server"]),
    ("runtime/server", &["runtime::client"]),
    ("runtime/shared", &["runtime::client", "runtime::server"]),
    ("gds/layout", &["gds::read", "gds::write"]),
    ("gds/read", &["gds::write"]),
    ("server/interface", &["server::state", "server::rules", "server::dispatch"]),
    ("server/state", &["server::rules", "server::dispatch"]),
    ("server/rules", &["server::dispatch"]),
];

#[test]
fn rooms_inside_modules_keep_their_walls() {
    for (room, behind) in WALLS {
        let is_inside = |source: &&Source| source.path.starts_with(Path::new("src").join(room));
        let files: Vec<Source> = sources().into_iter().filter(|source| is_inside(&source)).collect();
        assert!(!files.is_empty(), "{room} has no files");
        for source in files {
            let named = |wall: &&&str| source.code.contains(&format!("crate::{wall}::"));
            assert_eq!(behind.iter().find(named), None, "{} names a room behind a wall", source.path.display());
        }
    }
}

#[test]
fn every_module_has_its_edges_listed() {
    let known: Vec<&str> = EDGES.iter().map(|(module, _)| *module).collect();
    let unlisted: Vec<String> = sources()
        .into_iter()
        .map(|source| source.module)
        .filter(|module| module != "lib" && !known.contains(&module.as_str()) && !MEMBERS.contains(&module.as_str()))
        .collect();
    assert!(unlisted.is_empty(), "modules without an entry in EDGES: {unlisted:?}");
}

#[test]
fn architecture_md_lists_the_same_edges() {
    let document = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for (module, permitted) in EDGES {
        let targets = if permitted.is_empty() { "nothing".to_owned() } else { permitted.join(", ") };
        let line = format!("{module} -> {targets}");
        assert!(document.lines().any(|l| l.trim() == line), "ARCHITECTURE.md lacks the line: {line}");
    }
}

#[test]
fn the_document_of_the_segment_format_shows_the_layout_of_the_code() {
    let document = fs::read_to_string(root().join("docs/segment-format.md")).unwrap();
    let header = fs::read_to_string(root().join("src/shmem/header.rs")).unwrap();
    let rows: Vec<&str> = header.lines().filter_map(|line| line.strip_prefix("//! | ")).collect();
    assert!(rows.len() > 5, "src/shmem/header.rs has lost its table");
    for row in rows {
        assert!(document.contains(&format!("| {row}")), "docs/segment-format.md lacks the header's row: | {row}");
    }
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let document = words(&document);
    for file in ["src/gds/layout/format.rs", "src/topo/format.rs"] {
        let format = fs::read_to_string(root().join(file)).unwrap();
        let structures = format.split("\nstructures! {").nth(1).unwrap().split("\n}").next().unwrap();
        for structure in structures.split_inclusive('}').map(words).filter(|text| !text.is_empty()) {
            assert!(document.contains(&structure), "docs/segment-format.md lacks: {structure}");
        }
    }
}

#[test]
fn functions_fit_on_a_screen() {
    let mut offences = Vec::new();
    for source in sources() {
        for (name, lines) in function_lengths(&source.code) {
            if lines > FUNCTION_LINES_MAX {
                offences.push(format!("{}: {name} has {lines} lines", source.path.display()));
            }
        }
    }
    assert!(offences.is_empty(), "functions over {FUNCTION_LINES_MAX} lines:\n{}", offences.join("\n"));
}

#[test]
fn unsafe_stands_only_where_memory_is_mapped() {
    offences_of_word(&["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"], UNSAFE_ALLOWED);
}

#[test]
fn sockets_threads_and_clocks_stay_at_the_edge() {
    offences_of_word(SIDE_EFFECTS, SIDE_EFFECTS_ALLOWED);
}

#[test]
fn the_readers_of_sources_see_what_they_should() {
    let text = "impl A {\n    fn long(\n        x: u8,\n    ) {\n        a();\n    }\n}\nuse crate::gds::{X, Y};\nlet b = crate::shmem::Z;\n";
    assert_eq!(function_lengths(text), vec![("fn long(".to_owned(), 5)]);
    for first in
        ["pub(super) const fn a() {", "pub(in crate::server) fn a(b: (u8, u8)) {", "pub fn a<F: Fn(u8)>(", "fn a() {"]
    {
        assert_eq!(function_lengths(&format!("{first}\n}}\n")), vec![(first.to_owned(), 2)]);
    }
    assert_eq!(function_lengths("foo(fn a)\n}\n"), vec![]);
    assert_eq!(crate_modules_named(text), vec!["gds".to_owned(), "shmem".to_owned()]);
    assert_eq!(crate_modules_named("use crate::{keys, types::Rank};\n"), vec!["keys".to_owned(), "types".to_owned()]);
}

fn offences_of_word(words: &[&str], allowed: &[&str]) {
    let mut offences = Vec::new();
    for source in sources().iter().filter(|source| !allowed.contains(&source.module.as_str())) {
        for (number, line) in source.code.lines().enumerate() {
            let is_comment = line.trim_start().starts_with("//");
            if let Some(word) = words.iter().find(|word| !is_comment && line.contains(**word)) {
                offences.push(format!("{}:{}: {word}", source.path.display(), number + 1));
            }
        }
    }
    assert!(offences.is_empty(), "allowed only in {allowed:?}:\n{}", offences.join("\n"));
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources() -> Vec<Source> {
    let members = MEMBERS.iter().map(|member| (root().join(member).join("src"), Some(*member)));
    let mut found: Vec<Source> =
        members.chain([(root().join("src"), None)]).flat_map(|(src, member)| sources_below(&src, member)).collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn sources_below(src: &Path, member: Option<&str>) -> Vec<Source> {
    let mut pending = vec![src.to_owned()];
    let mut found = Vec::new();
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if path.file_name().is_some_and(|name| name != "tests") {
                    pending.push(path);
                }
            } else if path.extension().is_some_and(|e| e == "rs") && path.file_stem().is_some_and(|s| s != "tests") {
                let first = path.strip_prefix(src).unwrap().components().next().unwrap();
                let first = first.as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned();
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned();
                let path = path.strip_prefix(root()).unwrap().to_owned();
                found.push(Source { path, module: member.map_or(first, str::to_owned), code });
            }
        }
    }
    assert!(found.len() > 10, "the walk found only {} sources in {}", found.len(), src.display());
    found
}

/// The first modules of `crate::...` paths in code (not in comments).
fn crate_modules_named(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    let code: String = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    for rest in code.split("crate::").skip(1) {
        if let Some(list) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut item = String::new();
            for c in list.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => names.push(leading_word(&std::mem::take(&mut item))),
                    _ if depth == 0 => item.push(c),
                    _ => {}
                }
            }
            names.push(leading_word(&item));
        } else {
            names.push(leading_word(rest));
        }
    }
    names.sort();
    names.dedup();
    names.retain(|name| !name.is_empty());
    names
}

fn leading_word(text: &str) -> String {
    text.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// Each function's first line and its number of lines, with signature and braces.
fn function_lengths(code: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    let mut lengths = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let is_visibility = |word: &str| word.starts_with("pub(");
        let mut words = line.split_whitespace().skip_while(|word| is_visibility(word) || *word == "in");
        let words = words.by_ref().skip_while(|word| word.ends_with(')') && !word.contains('('));
        let is_function = words.take_while(|word| !word.contains('(')).any(|word| word == "fn");
        // A macro's pattern for functions is not a function.
        let is_pattern = line.contains("fn $");
        if !is_function || is_pattern || line.trim_start().starts_with("//") || line.trim_end().ends_with(';') {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let closing = format!("{indent}}}");
        if let Some(length) = lines[start..].iter().position(|l| *l == closing) {
            lengths.push((line.trim().to_owned(), length + 1));
        }
    }
    lengths
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let files = sources();
    let graph = Imports::of(&files);
    let circles = (0..files.len()).filter(|file| graph.returns_to(*file));
    let circles: Vec<String> = circles.map(|file| files[file].path.display().to_string()).collect();
    assert!(circles.is_empty(), "these files import each other in a circle:\n{}", circles.join("\n"));
}

/// The imports of files by files of the same package. A module and the modules inside it count as one subject, so
/// imports between them do not count.
struct Imports {
    /// For each file: its package, and its module path in the package.
    modules: Vec<(String, Vec<String>)>,
    /// For each file: the paths that it names.
    named: Vec<Vec<Vec<String>>>,
    /// For each file: the files that it imports.
    edges: Vec<Vec<usize>>,
}

impl Imports {
    fn of(files: &[Source]) -> Self {
        let modules = files.iter().map(|file| module_of(&file.path)).collect();
        let named = files.iter().map(|file| paths_named(&file.code)).collect();
        let mut graph = Self { modules, named, edges: Vec::new() };
        graph.edges = (0..files.len()).map(|file| graph.imported_by(file)).collect();
        graph
    }

    fn imported_by(&self, file: usize) -> Vec<usize> {
        let own = &self.modules[file].1;
        let is_inside = |a: &[String], b: &[String]| a.starts_with(b) || b.starts_with(a);
        let files = self.named[file].iter().filter_map(|path| self.file_of(file, path, REEXPORTS_MAX));
        files.filter(|other| !is_inside(own, &self.modules[*other].1)).collect()
    }

    /// The file that defines the item of a path, through re-exports. `None` for other packages.
    fn file_of(&self, from: usize, path: &[String], reexports_left: u32) -> Option<usize> {
        let (package, own) = &self.modules[from];
        let find = |module: &[String]| self.modules.iter().position(|(of, is)| of == package && is == module);
        let mut module = own.clone();
        let mut rest = path;
        while let [first, others @ ..] = rest {
            match first.as_str() {
                "crate" => module.clear(),
                "self" => {}
                "super" => drop(module.pop()),
                _ => break,
            }
            rest = others;
        }
        if rest.len() == path.len() && find(&[own.as_slice(), rest.get(..1)?].concat()).is_none() {
            return None;
        }
        while let [first, others @ ..] = rest
            && find(&[module.as_slice(), std::slice::from_ref(first)].concat()).is_some()
        {
            module.push(first.clone());
            rest = others;
        }
        let file = find(&module)?;
        let is_reexport = |path: &&Vec<String>| path.len() > 1 && path.last() == rest.first() && file != from;
        let reexport = self.named[file].iter().find(is_reexport).filter(|_| reexports_left > 0 && !rest.is_empty());
        reexport.and_then(|path| self.file_of(file, path, reexports_left - 1)).or(Some(file))
    }

    fn returns_to(&self, file: usize) -> bool {
        let mut seen = vec![false; self.edges.len()];
        let mut pending = self.edges[file].clone();
        while let Some(next) = pending.pop() {
            if !std::mem::replace(&mut seen[next], true) {
                pending.extend(&self.edges[next]);
            }
        }
        seen[file]
    }
}

const REEXPORTS_MAX: u32 = 8;

fn module_of(path: &Path) -> (String, Vec<String>) {
    let words: Vec<String> = path.with_extension("").iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let src = words.iter().position(|word| word == "src").unwrap();
    let is_face = |word: &&String| ["mod", "lib", "main"].contains(&word.as_str());
    let module = words[src + 1..].iter().filter(|word| !is_face(word)).cloned().collect();
    (words[..src].concat(), module)
}

/// The paths of `use` declarations, to their ends, and other paths that begin with `crate`, `self` or `super`.
fn paths_named(code: &str) -> Vec<Vec<String>> {
    let lines = code.lines().map(|line| line.split("//").next().unwrap());
    let code = lines.collect::<Vec<_>>().join(" ");
    let mut paths = Vec::new();
    let mut rest = code.as_str();
    while let Some(at) = ["use ", "crate::", "self::", "super::"].iter().filter_map(|word| rest.find(word)).min() {
        let is_whole = !rest[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
        rest = &rest[at..];
        let tree = rest.strip_prefix("use ").unwrap_or(rest);
        let after = if is_whole { paths_of_tree(tree, &[], &mut paths) } else { &rest[4..] };
        rest = after;
    }
    paths
}

/// Reads a tree as in `a::{b, c::d}`, and returns the text behind it.
fn paths_of_tree<'t>(tree: &'t str, before: &[String], paths: &mut Vec<Vec<String>>) -> &'t str {
    let mut path = before.to_vec();
    let mut rest = tree.trim_start();
    loop {
        let word = leading_word(rest);
        rest = &rest[word.len()..];
        path.extend(Some(word).filter(|word| !word.is_empty()));
        match rest.strip_prefix("::") {
            Some(more) if more.starts_with('{') => {
                rest = &more[1..];
                while !rest.trim_start().starts_with('}') && !rest.is_empty() {
                    let after = paths_of_tree(rest, &path, paths).trim_start();
                    let end = after.find([',', '}']).unwrap_or(after.len());
                    rest = after[end..].trim_start_matches(',');
                }
                return rest.trim_start().trim_start_matches('}');
            }
            Some(more) => rest = more,
            None => break,
        }
    }
    paths.push(path);
    rest
}

#[test]
fn a_circle_of_files_is_seen_through_a_reexport() {
    let file = |path: &str, code: &str| Source { path: path.into(), module: "m".to_owned(), code: code.to_owned() };
    let files = [
        file("m/src/lib.rs", "mod a;\nmod b;\nmod c;\n"),
        file("m/src/a.rs", "use super::b::{self, Thing};\nuse std::fmt;\n"),
        file("m/src/b/mod.rs", "mod inner;\npub use inner::Thing;\n"),
        file("m/src/b/inner.rs", "fn f() { crate::a::g(); }\n"),
        file("m/src/c.rs", "use crate::{a, b::Thing}; // crate::c\n"),
    ];
    let graph = Imports::of(&files);
    let circle: Vec<usize> = (0..files.len()).filter(|file| graph.returns_to(*file)).collect();
    assert_eq!(circle, [1, 3]);
    assert_eq!(graph.edges[4], [1, 3]);
}

/// A number of cases in a suite's configuration overrides `PROPTEST_CASES`. Five suites ignored the number that `make
/// explore` demanded.
#[test]
fn random_suites_try_as_many_cases_as_are_asked_for() {
    let helper = root().join("tests/support/cases.rs");
    let folders = ["src", "tests", "benches"].iter().chain(MEMBERS).map(|folder| root().join(folder));
    let (mut pending, mut offences, mut suites) = (folders.collect::<Vec<_>>(), Vec::new(), 0);
    while let Some(folder) = pending.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") && path != helper {
                let text = fs::read_to_string(&path).unwrap();
                suites += text.matches("proptest! {").count();
                if fixes_its_cases(&text) {
                    offences.push(path.display().to_string());
                }
            }
        }
    }
    assert!(suites > 20, "{suites} random suites found");
    assert!(offences.is_empty(), "a number of cases that is not `cases::cases(..)`:\n{}", offences.join("\n"));
}

/// Whether a source calls the constructor for a number of cases, or names that member of a configuration.
fn fixes_its_cases(text: &str) -> bool {
    let called = ["with", "_cases("].concat(); // This file is looked at, too.
    let configured = text.split("Config {").skip(1).filter_map(|rest| rest.split('}').next());
    let mut members = configured.flat_map(|members| members.split([',', '\n']));
    text.contains(&called) || members.any(|member| ["cases", "cases:"].contains(&leading(member)))
}

fn leading(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

#[test]
fn a_suite_that_fixes_its_cases_is_seen() {
    let of = |members: &str| fixes_its_cases(&["Proptest", "Config ", "{ ", members, " }"].concat());
    assert!(of("cases: 48, ..x") && of("\n    fork: true,\n    cases: N,\n") && of("cases, ..x"));
    assert!(!of("failure_persistence: None, ..cases::cases(48)") && !of("capabilities, ..x }; let cases: u32 = (1"));
    assert!(fixes_its_cases(&["proptest_config(P::with", "_cases(5))"].concat()));
}
