//! The same questions through the C interface. Our library answers like the model. The differences of Debian's OpenPMIx
//! 4.2.2 are explained one by one in `docs/differences-from-openpmix.md`.
//!
//! `make consumers` runs this. It is not a part of a plain `cargo test`, because it needs Debian's OpenPMIx 4.2.2 and
//! builds the C library. `MODEX_LIBPMIX_DIR` names another build of ours to test.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "a test binary is an edge; it has no configuration object")]

mod cases;
mod differences;
mod infos;
#[path = "../consumers/library.rs"]
#[expect(dead_code, reason = "shared with the consumers' tests, which use the rest")]
mod library;
mod model;
mod words;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use cases::{Case, Put, Register, array, info};
use infos::Question;
use library::{Library, repository};
use model::Model;
use modex::types::{Info, Namespace, ProcId, Value};

/// Cases with all questions, for each library.
const CASES: u64 = 4;
const STOCK_CASES: u64 = 6;

fn program() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("retrieval");
        std::fs::create_dir_all(&directory).unwrap();
        let program = directory.join("host");
        let headers = Library::stock().headers();
        headers[0].compile(&[repository().join("tests/retrieval/host.c")], &program);
        program
    })
}

/// The lines that the host prints for a script.
fn run(library: &Library, script: &str) -> Vec<String> {
    if let Some(directory) = std::env::var_os("MODEX_SCRIPTS") {
        let name = format!("{:?}-{}", std::thread::current().name(), script.len());
        std::fs::write(PathBuf::from(directory).join(name), script).unwrap();
    }
    let mut command = Command::new(program());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).env_remove("LD_LIBRARY_PATH");
    if let Some(directory) = &library.directory {
        command.env("LD_LIBRARY_PATH", directory);
    }
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let script = script.to_owned();
    let writer = std::thread::spawn(move || drop(stdin.write_all(script.as_bytes())));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn ours() -> &'static Library {
    let library = library::library();
    assert!(!library.is_stock(), "ours is under test");
    library
}

/// A script that registers, starts rank 0 of the job, and lets it execute `lines`.
fn script(registrations: &[Register], before: &str, lines: &str) -> String {
    let registered: String = registrations.iter().map(words::register).collect();
    format!("{registered}{before}client\tjob\t0\nask\tjob\t0\n{lines}end\n")
}

fn own() -> ProcId {
    ProcId::new(Namespace::new("job").unwrap(), 0)
}

/// Every question with the model's answer and the library's; `None` if the library refuses a description.
fn answers(library: &Library, case: &Case) -> Option<Vec<(Question, String, String)>> {
    let registered: String = case.registrations.iter().map(words::register).collect();
    if library.is_stock() && run(library, &registered).iter().any(|line| line != "register 0") {
        return None;
    }
    let (own_puts, others): (Vec<&Put>, Vec<&Put>) = case.puts.iter().partition(|put| put.rank == 0);
    let put = |puts: &[&Put]| puts.iter().map(|put| words::put(put)).collect::<String>() + "c\n";
    // The neighbour has put its values and ended before the questions.
    let before = others.first().map_or_else(String::new, |first| {
        format!("client\tjob\t{0}\nask\tjob\t{0}\n{1}end\n", first.rank, put(&others))
    });
    let questions: String = case.questions.iter().map(words::question).collect();
    let lines = put(&own_puts) + &questions;
    let mut printed = run(library, &script(&case.registrations, &before, &lines)).into_iter();
    let mut model = Model { hostname: "n0", ..Model::default() };
    for register in &case.registrations {
        assert_eq!(printed.next().unwrap(), "register 0", "{}", cases::description(case));
        model.register(register.namespace, &register.infos);
    }
    for puts in [&others, &own_puts].into_iter().filter(|puts| !puts.is_empty() || puts.len() == own_puts.len()) {
        assert_eq!(printed.next().unwrap(), "client 0");
        // Each put, and the commit.
        assert!(printed.by_ref().take(puts.len() + 1).all(|status| status == "0"), "{}", cases::description(case));
        let of = |put: &Put| ProcId { rank: put.rank.into(), ..own() };
        model.puts.extend(puts.iter().map(|put| (of(put), put.scope, put.key.to_owned(), put.value.clone())));
    }
    let answered: Vec<String> = printed.collect();
    assert_eq!(answered.len(), case.questions.len());
    let expected = |question: &Question| {
        let found = model.get(&own(), question);
        found.map_or_else(|status| status.to_raw().to_string(), |value| format!("0 {}", words::value(&value)))
    };
    let pairs = case.questions.iter().zip(answered);
    Some(pairs.map(|(question, found)| (question.clone(), expected(question), found)).collect())
}

#[test]
fn our_c_library_answers_as_the_standard_says() {
    for seed in 0..CASES + STOCK_CASES {
        let case = if seed < CASES { Case::random(seed) } else { Case::plain(seed - CASES) };
        let wrong: Vec<String> = answers(ours(), &case)
            .unwrap()
            .into_iter()
            .filter(|(_, expected, found)| expected != found)
            .map(|(question, expected, found)| {
                format!("{}: expected {expected}, found {found}", words::question(&question).trim_end())
            })
            .collect();
        assert!(
            wrong.is_empty(),
            "case {seed}: {} wrong answers:\n{}",
            wrong.len(),
            wrong[..wrong.len().min(20)].join("\n")
        );
    }
}

/// The test fails for an unexplained difference, and for an explanation without a difference.
#[test]
fn every_difference_from_openpmix_is_explained() {
    let mut explained: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    let (mut unexplained, mut answered) = (Vec::new(), 0);
    for seed in 0..STOCK_CASES {
        let case = Case::plain(seed);
        // It refuses some descriptions without need; the document says which.
        let Some(answers) = answers(&Library::stock(), &case) else { continue };
        answered += 1;
        for (question, expected, found) in answers {
            if expected == found {
                continue;
            }
            let line = words::question(&question).trim_end().replace('\t', " ");
            let text = without_port(&format!("{line}: the standard has {expected}, 4.2.2 {found}"));
            match differences::reason(&question, &expected, &found) {
                Some(reason) => explained.entry(reason).or_insert((0, text)).0 += 1,
                None => unexplained.push(format!("case {seed}: {text}")),
            }
        }
    }
    if let Ok(path) = std::env::var("MODEX_DIFFERENCES") {
        std::fs::write(path, format!("{}\n{explained:#?}", unexplained.join("\n"))).unwrap();
    }
    assert!(answered >= 2, "4.2.2 has refused all but {answered} cases");
    let shown = &unexplained[..unexplained.len().min(20)];
    assert!(unexplained.is_empty(), "{} unexplained differences:\n{}", unexplained.len(), shown.join("\n"));
    let document = differences::document(&explained);
    let path = repository().join("docs/differences-from-openpmix.md");
    if std::env::var_os("MODEX_BLESS").is_some() {
        std::fs::write(&path, &document).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == document, "{} is out of date: run with MODEX_BLESS=1", path.display());
}

/// The port of a server differs in each run.
fn without_port(text: &str) -> String {
    const ADDRESS: &str = "tcp4://127.0.0.1:";
    let mut parts = text.split(ADDRESS);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + ADDRESS + "PORT" + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}

fn environments(library: &Library) -> Vec<String> {
    let register = Register { namespace: "job", local_count: 1, infos: vec![info("pmix.job.size", 1_u32)] };
    let script = format!("{}client\tjob\t0\nenvironment\tjob\t0\n", words::register(&register));
    run(library, &script)
        .into_iter()
        .filter_map(|line| line.strip_prefix("environment 0 ").map(str::to_owned))
        .collect()
}

/// The child has exactly the variables that its library needs. A second call changes nothing, and other variables stay.
#[test]
fn the_environment_of_a_child_is_exactly_what_its_peers_need() {
    let [once, twice] = <[String; 2]>::try_from(environments(ours())).unwrap();
    assert_eq!(once, twice);
    let variables: Vec<&str> = once.split(' ').collect();
    assert_eq!(variables[0], "ODD=%01%ff=;%0a'\"$(x)%20", "odd bytes survive");
    assert_eq!(variables[1], "PMIX_RANK=0", "what an enclosing job said of rank does not");
    let name = |variable: &str| variable.split('=').next().unwrap().to_owned();
    let mut names: Vec<String> = variables[1..].iter().map(|variable| name(variable)).collect();
    names.sort();
    let mut needed: Vec<String> = "MODEX_SERVER_TCP MODEX_SERVER_URI PMIX_BFROP_BUFFER_TYPE PMIX_GDS_MODULE PMIX_HOSTNAME \
        PMIX_NAMESPACE PMIX_RANK PMIX_SECURITY_MODE PMIX_SERVER_TMPDIR PMIX_SERVER_URI2 PMIX_SERVER_URI21 PMIX_SERVER_URI3 \
        PMIX_SERVER_URI4 PMIX_SERVER_URI41 PMIX_SYSTEM_TMPDIR PMIX_VERSION"
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    needed.sort();
    assert_eq!(names, needed);
    // OpenPMIx adds variables of its own stores, and no others that ours lacks.
    let stock = environments(&Library::stock()).remove(0);
    let missing: Vec<String> =
        stock.split(' ').map(name).filter(|name| name != "ODD" && !needed.contains(name)).collect();
    assert_eq!(missing, ["PMIX_DSTORE_21_BASE_PATH", "PMIX_DSTORE_ESH_BASE_PATH"]);
}

fn job(infos: Vec<Info>) -> Register {
    let mut all = vec![info("pmix.nmap", "n0,n1"), info("pmix.pmap", "0;1")];
    all.extend(infos);
    Register { namespace: "job", local_count: 1, infos: all }
}

/// A process can still read its job after the host has deregistered it.
#[test]
fn a_job_is_read_on_after_its_host_has_forgotten_it() {
    let lines = "g\tjob\t1\tpmix.hname\ng\tjob\t4294967294\tvendor.key\nd\tjob\ng\tjob\t1\tpmix.hname\n\
                 g\tjob\t4294967294\tvendor.key\ng\tjob\t4294967294\tpmix.nonesuch\n";
    let printed = run(ours(), &script(&[job(vec![info("vendor.key", "kept")])], "", lines));
    assert_eq!(printed, ["register 0", "client 0", "0 3:n1", "0 3:kept", "1", "0 3:n1", "0 3:kept", "-46"]);
}

/// Resources are in every job, present and later. The job's own values come before them.
#[test]
fn resources_are_in_every_job_and_give_way() {
    let of_node = |size: u64| array("pmix.node.arr", vec![info("pmix.hname", "n1"), info("pmix.pmem", size)]);
    let resources =
        words::entries(&[info("vendor.a", 1_u32), info("vendor.b", 1_u32), info("vendor.c", 1_u32), of_node(5)]);
    let first = words::register(&job(vec![info("vendor.a", 2_u32)]));
    let again =
        words::register(&Register { namespace: "job", local_count: 1, infos: vec![info("pmix.jobid", "again")] });
    let other =
        Register { namespace: "other", local_count: 0, infos: vec![of_node(6), info("vendor.c", Value::Uint32(7))] };
    let other = words::register(&other);
    let get = |namespace: &str, key: &str, more: &str| format!("g\t{namespace}\t4294967294\t{key}{more}\n");
    let on_node = "\tpmix.node.info\t1\t1\tpmix.hname\t3\tn1";
    let asked: String = [
        get("job", "vendor.a", ""),
        get("job", "vendor.b", "\tpmix.immediate\t1\t1"),
        get("job", "pmix.pmem", on_node),
        get("other", "pmix.pmem", on_node),
        get("other", "vendor.a", "\tpmix.immediate\t1\t1"),
        get("other", "vendor.b", "\tpmix.immediate\t1\t1"),
        get("other", "vendor.c", "\tpmix.immediate\t1\t1"),
    ]
    .concat();
    // `vendor.b` is taken back before the second job is registered; the first job loses it, too.
    let script = format!(
        "resources\n{resources}end\n{first}resources\n{}end\n{again}unresources\n{}end\n{other}client\tjob\t0\nask\tjob\t0\n{asked}end\n",
        words::entries(&[info("vendor.a", 9_u32)]),
        words::entries(&[info("vendor.b", Value::Undefined)]),
    );
    let printed = run(ours(), &script);
    assert_eq!(
        printed[6..],
        ["client 0", "0 14:2", "-46", "0 15:5", "0 15:6", "0 14:9", "-46", "0 14:7"],
        "{printed:?}"
    );
}

/// Resources of a node are taken back by the node's name and their keys, a device by its id.
#[test]
fn resources_of_a_node_are_taken_back_by_name() {
    let node =
        |name: &'static str, more: Vec<Info>| array("pmix.node.arr", [vec![info("pmix.hname", name)], more].concat());
    let memory = || info("pmix.pmem", 5_u64);
    let device = |id: &'static str| array("pmix.fab.dev", vec![info("pmix.dev.id", id)]);
    let resources = words::entries(&[
        node("n0", vec![memory(), info("vendor.x", 1_u32)]),
        node("n1", vec![memory()]),
        device("d1"),
    ]);
    let taken = words::entries(&[node("n0", vec![info("pmix.pmem", Value::Undefined)]), info("pmix.dev.id", "d1")]);
    let script = format!(
        "resources\n{resources}end\nunresources\n{taken}end\n{}client\tjob\t0\nask\tjob\t0\n{}end\n",
        words::register(&job(Vec::new())),
        "g\tjob\t4294967294\tpmix.pmem\tpmix.node.info\t1\t1\tpmix.hname\t3\tn0\n\
         g\tjob\t4294967294\tvendor.x\tpmix.node.info\t1\t1\tpmix.hname\t3\tn0\n\
         g\tjob\t4294967294\tpmix.pmem\tpmix.node.info\t1\t1\tpmix.hname\t3\tn1\n\
         g\tjob\t4294967294\tpmix.fab.dev\tpmix.job.info\t1\t1\n",
    );
    let printed = run(ours(), &script);
    assert_eq!(printed[4..], ["-46", "0 14:1", "0 15:5", "-46"], "{printed:?}");
}

/// One key with several values: the C interface returns them as OpenPMIx does, for the process itself and for a
/// neighbour.
#[test]
fn values_that_differ_in_their_qualifiers_come_back_separately() {
    let puts = "w\tseveral\t14\t101\t!number\t14\t1\nw\tseveral\t14\t102\t!number\t14\t2\t!colour\t3\tred\n\
                u\tseveral\t14\t100\nw\tseveral\t14\t103\t!number\t14\t2\t!colour\t3\tblue\nc\n";
    let gets = |rank: u32| {
        let get = |qualifiers: &str| format!("g\tjob\t{rank}\tseveral{qualifiers}\tpmix.immediate\t1\t1\n");
        let asked =
            ["", "\t!number\t14\t1", "\t!colour\t3\tred", "\t!number\t14\t2\t!colour\t3\tblue", "\t!number\t14\t3"];
        asked.map(get).concat()
    };
    let expected = ["0 14:100", "0 14:101", "0 14:102", "0 14:103", "-46"];
    let register = job(vec![info("pmix.local.size", 2_u32)]);
    let register =
        Register { infos: vec![info("pmix.nmap", "n0"), info("pmix.pmap", "0,1")], local_count: 2, ..register };
    // 4.2.2 takes them and finds none of them again; 5.0.11 and 6.1 answer as ours (tried by hand, 2026-11-22).
    let lost = ["0 14:100", "-46", "-46", "-46", "-46"];
    for (library, expected) in [(ours(), expected), (&Library::stock(), lost)] {
        let before = format!("client\tjob\t1\nask\tjob\t1\n{puts}{}end\n", gets(1));
        let printed = run(library, &script(std::slice::from_ref(&register), &before, &gets(1)));
        assert_eq!(printed[..2], ["register 0", "client 0"]);
        assert_eq!(printed[2..7], ["0"; 5], "put and committed");
        assert_eq!(printed[7..12], expected, "the process's own");
        assert_eq!(printed[13..], expected, "its neighbour's");
    }
}
