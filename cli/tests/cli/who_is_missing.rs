//! The launcher says which ranks an operation waits for.

use std::sync::Mutex;

use modex::gds::registration::JobDescription;
use modex::types::{Info, Namespace};
use modex::{Capabilities, Host, QueryInfo, Requester, Responder, Server, ToolAdmission, ToolSupport};
use nix::sys::signal::Signal;

use crate::launch::{MODEX, modex, script};

/// Ranks 0 and 2 come to a fence, and rank 1 does something else.
#[test]
fn the_operations_and_the_missing_ranks_are_shown_on_request_and_at_the_end() {
    let ranks = format!("if [ $PMIX_RANK = 1 ]; then echo ready; exec sleep 1000; fi; exec {MODEX} demo");
    let mut running = script(&["-n", "3", "--grace", "0.2"], &ranks).start();
    assert_eq!(running.line(), "ready\n");
    let is_report = |line: &str| line.starts_with("modex: fence of all ranks: 2 of 3 arrived, ");
    let line = loop {
        // The report ends no rank: these have no handler for the signal, and do not get it.
        running.signal(Signal::SIGUSR1);
        let line = running.error_line();
        if is_report(&line) {
            break line;
        }
        assert!(line.starts_with("modex: "), "{line}");
    };
    assert!(line.contains(" s; waiting for rank 1 (pid ") && line.contains(", state S"), "{line}");
    running.signal(Signal::SIGINT);
    let ended = running.finish();
    assert_eq!(ended.code(), Some(130), "{ended:?}");
    assert!(ended.err.lines().any(is_report), "{ended:?}");
}

/// `modex ps` finds the jobs of this user by their processes, although it has another temporary directory. It also
/// finds those of other tests, which may end meanwhile, so its status says nothing here.
#[test]
fn a_list_shows_the_job_its_ranks_and_what_waits() {
    let ranks = format!("if [ $PMIX_RANK = 1 ]; then echo ready; exec sleep 1000; fi; exec {MODEX} demo");
    let mut running = script(&["-n", "3", "--grace", "0.2"], &ranks).start();
    assert_eq!(running.line(), "ready\n");
    let pid = running.child.id();
    let name = format!("modex-{pid}");
    let listed = || {
        let out = modex(["ps"]).run().out;
        let mut lines = out.lines().map(str::to_owned).skip_while(|line| !line.contains(&name));
        (lines.next().unwrap_or_default(), lines.next().unwrap_or_default())
    };
    let (mut row, mut operation) = listed();
    while !operation.starts_with("  fence of all ranks: 2 of 3 arrived, ") {
        (row, operation) = listed();
    }
    let cells: Vec<_> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    assert_eq!(cells[..4], [&pid.to_string(), &name, "3", "2 connected, 1 running"], "{row}");
    assert_eq!(cells[5], "1", "{row}");
    assert!(operation.contains(" s; waiting for rank 1 (pid "), "{operation}");
    let document: serde_json::Value = serde_json::from_str(&modex(["ps", "--json"]).run().out).unwrap();
    let servers = document["servers"].as_array().unwrap();
    let server = servers.iter().find(|server| server["pid"] == pid).unwrap();
    assert_eq!((&document["format"], &server["jobs"][0]["name"]), (&1.into(), &name.into()));
    let ranks = server["jobs"][0]["ranks"].as_array().unwrap();
    let states: Vec<_> = ranks.iter().map(|rank| rank["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["connected", "running", "connected"]);
    assert!(ranks[1]["pid"].as_u64().unwrap() > 0 && server["jobs"][0]["age_s"].is_u64(), "{server}");
    assert!(server["operations"][0].as_str().unwrap().starts_with("fence of all ranks: 2 of 3 arrived"), "{server}");
    running.signal(Signal::SIGTERM);
    assert_eq!(running.finish().code(), Some(143));
}

/// The launcher's server knows its own node.
#[test]
fn the_inventory_of_the_node_is_shown_while_a_job_runs() {
    let mut running = script(&["--grace", "0.2"], "echo ready; exec sleep 1000").start();
    assert_eq!(running.line(), "ready\n");
    let pid = running.child.id().to_string();
    let shown = modex(["inspect", "--inventory", "--json", "--pid", &pid]).run().out;
    let document: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let node = &document["inventories"][0]["nodes"][0];
    assert!(node["node"].is_string() && node["processors"].as_u64() > Some(0), "{document}");
    assert_eq!(document["problems"], serde_json::json!([]));
    running.signal(Signal::SIGTERM);
    assert_eq!(running.finish().code(), Some(143));
}

/// A stopped launcher may have jobs, so the list does not say that there is none.
#[test]
fn a_launcher_that_does_not_answer_is_named() {
    let mut running = script(&["-n", "1", "--grace", "0.2"], "echo ready; sleep 1000").start();
    assert_eq!(running.line(), "ready\n");
    let pid = running.child.id();
    running.signal(Signal::SIGSTOP);
    let ended = modex(["ps"]).run();
    running.signal(Signal::SIGCONT);
    let said = format!("modex: cannot ask process {pid}: ");
    assert!(ended.err.lines().any(|line| line.starts_with(&said)) && ended.code() == Some(1), "{ended:?}");
    assert!(!ended.out.contains("No job"), "{ended:?}");
    running.signal(Signal::SIGTERM);
    assert_eq!(running.finish().code(), Some(143));
}

/// A host that answers no queries.
struct QuietHost;

impl Host for QuietHost {
    fn capabilities(&self) -> Capabilities {
        Capabilities::empty()
    }
}

#[test]
fn the_jobs_of_any_host_are_listed() {
    let directory = tempfile::tempdir().unwrap();
    let pid = std::process::id();
    let tools = ToolSupport { admission: ToolAdmission::Assigned, is_session: true, ..ToolSupport::default() };
    let server = Server::builder().namespace(format!("host-{pid}")).tmpdir(directory.path()).tools(tools);
    let server = server.start(QuietHost).unwrap();
    let job = Namespace::new(&format!("job-{pid}")).unwrap();
    let description =
        JobDescription::new(&job).nodes([server.hostname()]).ranks_by_node(std::iter::once(0..2)).build().unwrap();
    server.register_namespace(&job, 2, description).wait().unwrap();
    let out = modex(["ps"]).env("PMIX_SERVER_TMPDIR", directory.path()).run().out;
    let row = out.lines().find(|line| line.contains(job.as_str())).unwrap_or_else(|| panic!("{out}"));
    let cells: Vec<_> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    assert_eq!(cells[..4], [&pid.to_string(), job.as_str(), "2", "2 unknown"], "{row}");
    assert_eq!(cells[5], "-", "the host does not say what waits: {row}");
}

/// A host that keeps queries for ever.
#[derive(Default)]
struct SilentHost(Mutex<Vec<Responder<Vec<Info>>>>);

impl Host for SilentHost {
    fn capabilities(&self) -> Capabilities {
        Capabilities::QUERY
    }

    fn query(&self, _: Requester, _: QueryInfo, reply: Responder<Vec<Info>>) {
        self.0.lock().unwrap().push(reply);
    }
}

/// The list waited for its answer for ever, and hid the servers behind it.
#[test]
fn a_host_that_does_not_answer_a_query_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let pid = std::process::id();
    let tools = ToolSupport { admission: ToolAdmission::Assigned, is_session: true, ..ToolSupport::default() };
    let server = Server::builder().namespace(format!("silent-{pid}")).tmpdir(directory.path()).tools(tools);
    let _server = server.start(SilentHost::default()).unwrap();
    let ended = modex(["ps"]).env("PMIX_SERVER_TMPDIR", directory.path()).run();
    assert!(ended.err.contains("it does not answer a query in time"), "{ended:?}");
}

/// The launcher answers only the query that is meant for it.
#[test]
fn other_queries_are_answered_by_the_server() {
    let mut running = script(&["-n", "1", "--grace", "0.2"], "echo ready; sleep 1000").start();
    assert_eq!(running.line(), "ready\n");
    let query = |key: &str| modex(["query", key]).env("TMPDIR", running.temporary()).run();
    assert_eq!(query("PMIX_QUERY_NAMESPACES").success(), format!("pmix.qry.ns: modex-{}\n", running.child.id()));
    assert_eq!(query("modex.operations").success(), "modex.operations: []\n");
    let ended = query("no.such.key");
    assert!(ended.code() == Some(1) && ended.err.contains("PMIX_ERR_NOT_SUPPORTED"), "{ended:?}");
    running.signal(Signal::SIGTERM);
    assert_eq!(running.finish().code(), Some(143));
}

#[test]
fn a_job_in_which_nothing_waits_says_so_on_request() {
    let mut running = script(&["-n", "2", "--grace", "0.2"], "echo ready; exec sleep 1000").start();
    assert_eq!((running.line(), running.line()), ("ready\n".to_owned(), "ready\n".to_owned()));
    running.signal(Signal::SIGUSR1);
    assert_eq!(running.error_line(), "modex: no operation of the ranks waits\n");
    running.signal(Signal::SIGTERM);
    let ended = running.finish();
    assert_eq!(ended.code(), Some(143));
    assert_eq!(ended.err, "modex: received SIGTERM; 2 ranks get 0.2 s to end\n");
}
