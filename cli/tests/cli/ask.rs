//! `modex get` and `modex query` on a running job.

use std::sync::atomic::{AtomicU16, Ordering};

use modex::types::{Info, Key, Scope, Value};
use modex::{Client, FenceOptions};
use serde_json::{Value as Json, json};

use crate::launch::{Ended, Launch, ROLE, Running, modex};
use crate::output::closed;

/// Puts values, reports it, and stays until rank 0's input ends.
pub(crate) fn keep_values() {
    let client = Client::connect().unwrap();
    let rank = client.proc().rank.process().unwrap();
    client.put(Scope::Global, "endpoint", format!("of \u{1b}{rank}")).unwrap();
    client.put(Scope::Remote, "far", 7_u16).unwrap();
    client.put(Scope::Local, "bytes", vec![0xAB_u8, 0]).unwrap();
    let nested = Value::info_array(vec![Info::new(Key::from_static("part"), 1_u32)]);
    client.put(Scope::Global, "nested", nested).unwrap();
    client.commit().unwrap();
    client.fence(&FenceOptions::new()).wait().unwrap();
    if rank == 0 {
        println!("ready");
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
    }
    client.fence(&FenceOptions::new()).wait().unwrap();
    client.finalize().unwrap();
}

/// A job of two ranks that have put their values.
struct Job(Running);

impl Job {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(options: &[&str]) -> Self {
        Self::launched(Self::launch(options))
    }

    /// A job whose server is found in the same place as this one's.
    fn start_beside(&self) -> Self {
        Self::launched(Self::launch(&[]).env("TMPDIR", self.0.temporary()))
    }

    fn launch(options: &[&str]) -> Launch {
        let this = std::env::current_exe().unwrap();
        let program = [this.to_str().unwrap(), "--exact", "client_process", "--nocapture"];
        modex([&["run", "-n", "2"], options, &program].concat()).env(ROLE, "keep values").open_input()
    }

    fn launched(launch: Launch) -> Self {
        let mut running = launch.start();
        while !running.line().contains("ready") {}
        Self(running)
    }

    fn namespace(&self) -> String {
        format!("modex-{}", self.0.child.id())
    }

    /// The command, in the place where it finds this job.
    fn command(&self, words: &[&str]) -> Launch {
        modex(words).env("TMPDIR", self.0.temporary())
    }

    fn get(&self, words: &[&str]) -> Ended {
        self.command(&[&["get", "-n", &self.namespace()], words].concat()).run()
    }

    fn got(&self, words: &[&str]) -> String {
        self.get(words).success()
    }

    fn json(&self, words: &[&str]) -> Json {
        serde_json::from_str(&self.got(&[words, &["--json"]].concat())).unwrap()
    }

    fn end(mut self) {
        drop(self.0.child.stdin.take());
        assert!(self.0.finish().status.success());
    }
}

#[test]
fn values_of_a_live_job_are_got_as_its_processes_get_them() {
    let job = Job::start();
    let name = job.namespace();
    assert_eq!(job.got(&["PMIX_JOB_SIZE"]), "2\n");
    assert_eq!(job.got(&["pmix.job.size"]), "2\n");
    assert_eq!(job.got(&["-r", "1", "endpoint"]), "of \\u{1b}1\n", "nothing steers the terminal");
    assert_eq!(job.got(&["-r", "0", "bytes"]), "ab00\n");
    assert_eq!(job.got(&["--rank", "1", "PMIX_LOCAL_RANK"]), "1\n");
    // The answer has the tool's own name, and nothing else.
    let expected = json!({ "namespace": job.namespace(), "rank": 1 });
    assert_eq!(job.json(&["-r", "1", "PMIX_PROCID"])["value"], expected);
    assert_eq!(job.got(&["PMIX_NSPACE"]), format!("{}\n", job.namespace()));
    assert_eq!(job.got(&["-r", "1", "PMIX_RANK"]), "1\n");
    assert_eq!(job.get(&["-r", "2", "PMIX_PROCID"]).code(), Some(1), "there is none");
    let directory = job.got(&["PMIX_NSDIR"]);
    assert_eq!(job.got(&["PMIX_TMPDIR"]), directory);
    assert_eq!(job.got(&["-r", "1", "PMIX_PROCDIR"]), format!("{}/{name}.1\n", directory.trim_end()));
    let pid = job.0.child.id().to_string();
    assert_eq!(job.got(&["--pid", &pid, "--node-info", "PMIX_LOCAL_SIZE"]), "2\n");
    assert_eq!(job.got(&["--app-info", "--appnum", "0", "PMIX_APP_SIZE"]), "2\n");
    // The session is not that of the asking tool.
    assert_eq!(job.got(&["--session-info", "PMIX_UNIV_SIZE"]), "2\n");
    // Open MPI 5 needs two numbers of 64 bits on Omni-Path.
    let key = job.got(&["PMIX_CREDENTIAL"]);
    let halves: Vec<&str> = key.trim_end().split('-').collect();
    assert!(halves.iter().all(|half| half.len() == 16 && u64::from_str_radix(half, 16).is_ok()), "{key}");
    assert_eq!(halves.len(), 2, "{key}");
    assert_eq!(job.got(&["-r", "1", "--session-info", "PMIX_UNIV_SIZE"]), "2\n");
    let expected = json!({
        "format": 1, "namespace": name, "rank": 1, "key": "nested", "type": "PMIX_DATA_ARRAY",
        "value": [{ "key": "part", "type": "PMIX_UINT32", "value": 1 }],
    });
    assert_eq!(job.json(&["-r", "1", "nested"]), expected);
    let all = job.json(&["-r", "0"]);
    let keys: Vec<&str> =
        all["entries"].as_array().unwrap().iter().map(|entry| entry["key"].as_str().unwrap()).collect();
    assert!(["endpoint", "bytes", "nested"].iter().all(|key| keys.contains(key)), "{all}");
    assert!(job.got(&["-r", "0"]).contains("endpoint: of \\u{1b}0\n"));
    job.end();
}

/// The launcher knows some facts, the server others. One query may mix them.
#[test]
fn queries_find_what_a_host_on_one_machine_knows() {
    let job = Job::start();
    let (name, pid) = (job.namespace(), job.0.child.id());
    let asked = |words: &[&str]| job.command(&[&["query", "--json", "-n", &name], words].concat()).run().success();
    let answer = |words: &[&str]| serde_json::from_str::<Json>(&asked(words)).unwrap();
    let values = |document: &Json| -> Vec<Json> {
        document["results"].as_array().unwrap().iter().map(|result| result["value"].clone()).collect()
    };
    let mixed = answer(&["PMIX_QUERY_JOB_STATUS", "PMIX_QUERY_NAMESPACES"]);
    assert!(values(&mixed).contains(&json!(name)) && values(&mixed).len() == 2, "{mixed}");
    let servers = answer(&["PMIX_QUERY_AVAIL_SERVERS"]).to_string();
    assert!(servers.contains(&format!("modex-run-{pid}")), "{servers}");
    for (key, part) in [
        ("PMIX_QUERY_SPAWN_SUPPORT", "pmix.wdir"),
        ("PMIX_QUERY_SUPPORTED_KEYS", "modex.requests"),
        ("PMIX_QUERY_NAMESPACE_INFO", "pmix.cmd.line"),
        ("PMIX_QUERY_MEMORY_USAGE", "pmix.proc.rss"),
        ("PMIX_DAEMON_MEMORY", "pmix.dmn.mem"),
        ("PMIX_CLIENT_AVG_MEMORY", "pmix.cl.mem.avg"),
    ] {
        let said = answer(&[key]).to_string();
        assert!(said.contains(part), "{key}: {said}");
    }
    assert!(values(&answer(&["PMIX_AVAIL_PHYS_MEMORY"]))[0].as_u64() > Some(1 << 20));
    let no_limit = job.command(&["query", "-n", &name, "PMIX_TIME_REMAINING"]).run();
    assert_eq!(no_limit.code(), Some(1), "the job has no time limit: {no_limit:?}");
    job.end();
}

#[test]
fn an_answer_that_is_cut_off_is_no_error() {
    let job = Job::start();
    let (name, pid) = (job.namespace(), job.0.child.id().to_string());
    for words in [
        &["get", "-n", &name, "-r", "0"][..],
        &["get", "-n", &name, "PMIX_JOB_SIZE", "--json"],
        &["query", "PMIX_QUERY_NAMESPACES"],
        &["inspect", "--pid", &pid],
        &["inspect", "--pid", &pid, "--json"],
    ] {
        assert_eq!(job.command(words).out_to(closed()).run().success(), "", "{words:?}");
    }
    // Regression: the command panicked when it could not print what is missing.
    for words in [["query", "no.such.key"], ["lookup", "nobody.published"]] {
        let ended = job.command(&words).err_to(closed()).run();
        assert_eq!(ended.code(), Some(1), "{ended:?}");
    }
    job.end();
}

#[test]
fn a_missing_value_rank_or_process_is_one_error_line_without_a_wait() {
    let job = Job::start();
    for (words, said) in [
        (&["-r", "0", "never.put"][..], "never.put"),
        (&["-r", "7", "endpoint"][..], "has no rank 7; its ranks are 0 to 1"),
        (&["-r", "7"][..], "has no rank 7; its ranks are 0 to 1"),
        (&["-r", "0", "far"][..], "far"),
        (&["-r", "0", "--timeout", "1", "never.put"][..], "TIMEOUT"),
        (&["--pid", "1", "PMIX_JOB_SIZE"][..], "process 1 has no server that admits tools"),
        (&["--pid", "4000000000", "PMIX_JOB_SIZE"][..], "process 4000000000 does not run"),
        (&["--node-info", "--hostname", "nope", "PMIX_LOCAL_SIZE"][..], "PMIX_NODE_INFO, PMIX_HOSTNAME=nope)"),
        (&["--app-info", "-q", "PMIX_APPNUM=7", "PMIX_APP_SIZE"][..], "(asked for with PMIX_APP_INFO, PMIX_APPNUM=7)"),
        (&["-r", "0", "--scope", "local", "far"][..], "PMIX_DATA_SCOPE=local"),
        (&["--file", "/nowhere", "PMIX_JOB_SIZE"][..], "/nowhere"),
    ] {
        let ended = job.get(words);
        assert_eq!(ended.code(), Some(1), "{words:?}: {ended:?}");
        let one_line = ended.err.lines().count() == 1 && ended.err.starts_with("modex: ");
        assert!(one_line && ended.err.contains(said) && ended.out.is_empty(), "{words:?}: {ended:?}");
    }
    for words in
        [&["-r", "x", "endpoint"][..], &["--scope", "all", "a"], &["-q", "PMIX_NODEID=x", "a"], &["--pid", "a"]]
    {
        assert_eq!(job.get(words).code(), Some(2), "{words:?}");
    }
    job.end();
}

/// A missing namespace, a missing rank and a missing key had the same message.
#[test]
fn an_unknown_namespace_is_named_beside_the_known_ones() {
    let job = Job::start();
    for words in [&["PMIX_JOB_SIZE"][..], &["-r", "0", "endpoint"], &["-r", "0"]] {
        let ended = job.command(&[&["get", "-n", "nope"], words].concat()).run();
        let said = format!(
            "modex: the server has no namespace nope that this user may ask about; it has: {}\n",
            job.namespace()
        );
        assert_eq!((ended.code(), ended.err), (Some(1), said), "{words:?}");
    }
    job.end();
}

/// Regression: the limit was for the value alone, and the connection waited for a minute.
#[test]
fn a_time_limit_is_for_the_connection_too() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("server.0;tcp4://{}", listener.local_addr().unwrap());
    let ended = modex(["get", "-n", "job", "--uri", &uri, "--timeout", "1", "PMIX_JOB_SIZE"]).run();
    assert_eq!((ended.code(), ended.err.lines().count()), (Some(1), 1), "{ended:?}");
    assert!(ended.err.ends_with("can't be reached: it did not answer within 1 seconds\n"), "{ended:?}");
}

/// A port that only this test uses: below those that the kernel gives out.
fn static_port() -> u16 {
    static TRIED: AtomicU16 = AtomicU16::new(0);
    let first = (std::process::id() % 5_000) as u16;
    std::iter::repeat_with(|| 20_000 + (first + TRIED.fetch_add(1, Ordering::Relaxed)) % 10_000)
        .find(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .unwrap()
}

/// Names stand in a file of parameters. A server whose port a parameter sets is named before it starts.
#[test]
fn a_server_is_asked_by_a_name_of_the_file_of_parameters() {
    let port = static_port();
    let directory = tempfile::tempdir().unwrap();
    let (file, report) = (directory.path().join("file"), directory.path().join("report"));
    let report_place = report.to_str().unwrap();
    let launch = Job::launch(&[]).env("PMIX_MCA_ptl_base_ipv4_ports", port.to_string());
    let job = Job::launched(launch.env("PMIX_MCA_ptl_base_report_uri", report_place));
    let address = format!("modex-run-{}.0;tcp4://127.0.0.1:{port}", job.0.child.id());
    assert_eq!(std::fs::read_to_string(&report).unwrap().lines().next(), Some(address.as_str()));

    let lines = format!(
        "modex_server_prod = {address}\nmodex_server_filed = file:{report_place}\nmodex_server_bad = nonsense\nno value\n"
    );
    std::fs::write(&file, lines).unwrap();
    // Without this file the search finds no server here.
    let asked = |name: &str| {
        let command = modex(["get", "-n", &job.namespace(), "--uri", name, "PMIX_JOB_SIZE"]);
        command.env("PMIX_MCA_mca_base_param_files", file.to_str().unwrap()).env("MODEX_LOG", "error").run()
    };
    assert_eq!(asked("prod").success(), "2\n");
    assert_eq!(asked("filed").success(), "2\n");
    let place = file.display();
    let said =
        format!("modex: the server bad ({place}, line 3) has no address: server address \"nonsense\" has no semicolon");
    let bad = asked("bad");
    assert_eq!((bad.code(), bad.err.starts_with(&said)), (Some(1), true), "{bad:?}");
    let unknown = asked("nope");
    let said = format!(
        "modex: \"nope\" is no address, and no parameter modex_server_nope is set; names are bad, filed, prod; \
         {place}, line 4 is ignored: it has no \"=\"\n"
    );
    assert_eq!((unknown.code(), unknown.err), (Some(1), said));
    job.end();
}

/// Regression: the inner launcher wanted the port of the outer one, and did not start.
#[test]
fn a_launcher_in_a_rank_has_another_port() {
    let port = static_port();
    let inner = [env!("CARGO_BIN_EXE_modex"), "run", "-n", "1", "--", "echo", "inner"];
    let launch =
        modex([&["run", "-n", "1", "--"][..], &inner].concat()).env("PMIX_MCA_ptl_base_ipv4_ports", port.to_string());
    assert_eq!(launch.run().success(), "inner\n");
}

#[test]
fn a_rank_finds_its_transport_key_in_a_variable_unless_the_user_sets_one() {
    let launch = || modex(["run", "-n", "1", "--", "sh", "-c", "echo $OMPI_MCA_orte_precondition_transports"]);
    let variable = "OMPI_MCA_orte_precondition_transports";
    assert_eq!(launch().run().success().len(), 34);
    assert_eq!(launch().env(variable, "mine").run().success(), "mine\n");
}

#[test]
fn a_server_is_asked_what_it_knows() {
    let job = Job::start();
    let name = job.namespace();
    let asked = |words: &[&str]| job.command(&[&["query"], words].concat()).run();
    let spaces = asked(&["PMIX_QUERY_NAMESPACES"]).success();
    assert!(spaces.contains(&name), "{spaces}");
    let table = asked(&["-n", &name, "--json", "PMIX_QUERY_PROC_TABLE", "PMIX_JOB_SIZE"]).success();
    let table: Json = serde_json::from_str(&table).unwrap();
    assert_eq!(table["status"], json!("PMIX_SUCCESS"));
    let results = table["results"].as_array().unwrap();
    assert_eq!(results.iter().map(|result| &result["type"]).collect::<Vec<_>>(), ["PMIX_DATA_ARRAY", "PMIX_UINT32"]);
    let storage = asked(&["-q", "PMIX_STORAGE_PATH=/", "PMIX_STORAGE_PATH", "PMIX_STORAGE_CAPACITY_LIMIT"]).success();
    assert!(storage.contains("pmix.strg.path: /\n") && storage.contains("pmix.strg.cap: "), "{storage}");
    let partial = asked(&["PMIX_QUERY_NAMESPACES", "no.such.key"]);
    assert!(partial.code() == Some(1) && partial.out.contains(&name), "{partial:?}");
    let says_what =
        |ended: &Ended, what: &str| ended.err.contains(what) && ended.err.contains("PMIX_QUERY_SUPPORTED_KEYS");
    assert!(says_what(&partial, "the server and its host lack: no.such.key ("), "{partial:?}");
    let unknown = asked(&["no.such.key"]);
    assert!(
        unknown.code() == Some(1) && says_what(&unknown, "neither the server nor its host has this"),
        "{unknown:?}"
    );
    assert_eq!(asked(&["-r", "1", "PMIX_QUERY_PROC_TABLE"]).code(), Some(2), "a rank of what?");
    job.end();
}

/// The command asks the server of the named job, among several servers.
#[test]
fn a_jobs_name_says_which_of_several_servers_is_asked() {
    let first = Job::start();
    let second = first.start_beside();
    let asked = |words: &[&str]| first.command(words).run();
    for job in [&first, &second] {
        assert_eq!(asked(&["get", "-n", &job.namespace(), "PMIX_JOB_SIZE"]).success(), "2\n");
        assert!(
            asked(&["query", "-n", &job.namespace(), "PMIX_QUERY_PROC_TABLE"]).success().contains(&job.namespace())
        );
    }
    let ended = asked(&["get", "-n", "other", "PMIX_JOB_SIZE"]);
    assert!(ended.code() == Some(1) && ended.err.contains("several servers"), "{ended:?}");
    second.end();
    first.end();
}

/// A server reads the hardware at the first question about it, not before.
#[test]
fn a_live_job_tells_its_topology() {
    let job = Job::start();
    let xml = job.got(&["PMIX_HWLOC_XML_V2"]);
    assert!(xml.contains("<topology"), "{xml}");
    let topology = job.json(&["PMIX_TOPOLOGY2"]);
    assert!(topology["value"]["xml"].as_str().unwrap().contains("<topology"), "{topology}");
    job.end();
}

/// Regression: the ranks' processors were not registered, so no value derived from them was known.
#[test]
fn where_bound_ranks_run_can_be_asked() {
    let job = Job::start_with(&["--bind", "core"]);
    let of_rank = |key: &str| job.got(&["-r", "1", key]).trim().to_owned();
    let set = of_rank("PMIX_CPUSET");
    let list = set.strip_prefix("hwloc:").unwrap();
    assert!(of_rank("PMIX_CPUSET_BITMAP").contains(list), "{set}");
    assert!(job.got(&["PMIX_TOPOLOGY2"]).contains("PU"));
    // On a machine with one core, neither process is bound to a part of it.
    let locality = job.get(&["-r", "1", "PMIX_LOCALITY_STRING"]);
    let is_part = job.got(&["-r", "0", "PMIX_CPUSET"]).trim() != set;
    assert_eq!(locality.out.starts_with("hwloc:"), is_part, "{locality:?}");
    job.end();
}

/// A launcher stopped by Ctrl-Z left the command waiting for ever.
#[test]
fn a_query_of_a_stopped_server_ends_after_its_time() {
    let job = Job::start();
    let pid = job.0.child.id().to_string();
    job.0.signal(nix::sys::signal::Signal::SIGSTOP);
    let ended = job.command(&["query", "--timeout", "1", "--pid", &pid, "PMIX_QUERY_NAMESPACES"]).run();
    assert!(ended.code() == Some(1) && ended.err.contains("within 1 s"), "{ended:?}");
    job.0.signal(nix::sys::signal::Signal::SIGCONT);
}
