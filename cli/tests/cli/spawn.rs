//! Jobs that ranks spawn.

use std::sync::mpsc;
use std::time::Duration;

use modex::types::{App, Envar, Info, Key, Namespace, ProcId, Query, Rank, Status, Text, Value};
use modex::{AsStatus, Client, FenceOptions, keys};

use crate::launch::{Ended, ROLE, role, wait_until};

fn run(options: &[&str], task: &str) -> Ended {
    role(options, task).run()
}

fn app(words: &[&str], count: i32, info: Vec<Info>) -> App {
    App {
        command: Some(Text::from(words[0])),
        argv: words.iter().map(|word| Text::from(*word)).collect(),
        environment: vec![Text::from("OF_APP=yes")],
        working_directory: None,
        processes_max: count,
        info,
    }
}

fn info(key: &'static str, value: impl Into<Value>) -> Info {
    Info::new(Key::from_static(key), value)
}

fn spawn(client: &Client, job: Vec<Info>, apps: Vec<App>) -> Result<Namespace, Status> {
    client.spawn(job, apps).wait().map_err(|error| error.status())
}

/// An application that is this test binary with another task.
fn this(count: i32, task: &str) -> App {
    let this = std::env::current_exe().unwrap();
    let program = this.to_str().unwrap();
    let mut app = app(&[program, "--exact", "client_process", "--nocapture"], count, Vec::new());
    app.environment = vec![Text::from(format!("{ROLE}={task}").as_str())];
    app
}

pub(crate) fn spawn_scripts() {
    let client = Client::connect().unwrap();
    let show = "echo \"$PMIX_RANK $OF_APP $LIST $PWD\"";
    let envar = Envar { name: Some(Text::from("LIST")), value: Some(Text::from("b")), separator: b':' };
    let job = vec![info(keys::PREPEND_ENVAR.name(), Value::Envar(Box::new(envar)))];
    let in_root = vec![info(keys::WDIR.name(), "/")];
    let namespace = spawn(&client, job, vec![app(&["sh", "-c", show], 2, in_root.clone()), app(&["pwd"], 1, in_root)]);
    assert_eq!(namespace.unwrap().as_str(), format!("{}-1", client.proc().namespace));
    client.finalize().unwrap();
}

#[test]
fn a_rank_spawns_programs_with_changes_of_their_environment() {
    let ended = role(&["--tag-output"], "spawn scripts").env("LIST", "a").run();
    let mut spawned: Vec<&str> = ended.out.lines().filter(|line| line.starts_with("[1:")).collect();
    spawned.sort_unstable();
    assert_eq!(spawned, ["[1:0,stdout] 0 yes b:a /", "[1:1,stdout] 1 yes b:a /", "[1:2,stdout] /"], "{ended:?}");
    assert_eq!((ended.code(), ended.err.as_str()), (Some(0), ""), "{ended:?}");
}

#[test]
fn spawned_ranks_have_files_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let ended = run(&["--output", path, "-x", "LIST=a"], "spawn scripts");
    assert_eq!((ended.code(), ended.out.as_str()), (Some(0), ""), "{ended:?}");
    let files = ["job.1.rank.0.out", "job.1.rank.1.out", "job.1.rank.2.out"];
    let read = files.map(|name| std::fs::read_to_string(directory.path().join(name)).unwrap());
    assert_eq!(read, ["0 yes b:a /\n", "1 yes b:a /\n", "/\n"]);
}

pub(crate) fn spawn_clients() {
    let client = Client::connect().unwrap();
    let job = spawn(&client, Vec::new(), vec![this(2, "meet the parent")]).unwrap();
    meet(&client, &job);
    client.finalize().unwrap();
}

pub(crate) fn meet_the_parent() {
    let client = Client::connect().unwrap();
    assert!(client.get(client.proc().rank, keys::SPAWNED).unwrap());
    let parent = client.get(Rank::Wildcard, keys::PARENT_ID).unwrap();
    assert_eq!(client.get(client.proc().rank, keys::PARENT_ID).unwrap(), parent);
    assert_eq!(client.get(Rank::Wildcard, keys::JOB_SIZE).unwrap(), 2);
    // Rank 0 of the first job has the first number of the session and of the node.
    let rank = client.proc().rank.process().unwrap();
    assert_eq!(client.get(rank, keys::GLOBAL_RANK).unwrap(), Rank::Process(rank + 1));
    assert_eq!(u32::from(client.get(rank, keys::NODE_RANK).unwrap()), rank + 1);
    meet(&client, &parent.namespace);
    client.finalize().unwrap();
}

/// Connects this job with another one, and disconnects it again.
fn meet(client: &Client, other: &Namespace) {
    let all = |namespace: &Namespace| ProcId { namespace: namespace.clone(), rank: Rank::Wildcard };
    let mut both = vec![all(&client.proc().namespace), all(other)];
    both.sort();
    client.connect_processes(both.clone(), Vec::new()).wait().unwrap();
    client.fence(&FenceOptions::new().procs(both.clone())).wait().unwrap();
    client.disconnect_processes(both, Vec::new()).wait().unwrap();
    println!("{} met {other}", client.proc());
}

#[test]
fn a_spawned_job_knows_its_parent_and_meets_it() {
    let ended = run(&[], "spawn clients");
    assert_eq!((ended.code(), ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert_eq!(ended.out.matches(" met modex-").count(), 3, "{ended:?}");
}

pub(crate) fn spawn_what_can_not_be() {
    let client = Client::connect().unwrap();
    for (expected, apps) in [
        (Status::ERR_JOB_NO_EXE_SPECIFIED, vec![]),
        (Status::ERR_JOB_EXE_NOT_FOUND, vec![app(&["no-such-program"], 1, vec![])]),
        (Status::ERR_JOB_APP_NOT_EXECUTABLE, vec![app(&["/etc/passwd"], 1, vec![])]),
        (Status::ERR_JOB_INSUFFICIENT_RESOURCES, vec![app(&["true"], 100_000, vec![])]),
        (Status::ERR_JOB_FAILED_TO_MAP, vec![app(&["true"], 1, vec![info(keys::HOST.name(), "elsewhere")])]),
        (Status::ERR_JOB_WDIR_NOT_FOUND, vec![app(&["true"], 1, vec![info(keys::WDIR.name(), "/no/such")])]),
    ] {
        assert_eq!(spawn(&client, Vec::new(), apps), Err(expected));
    }
    client.finalize().unwrap();
}

#[test]
fn a_job_that_can_not_be_spawned_is_refused_with_the_reason_and_the_first_goes_on() {
    let ended = run(&[], "spawn what can not be");
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(ended.err.matches("can't be spawned: ").count(), 6, "{ended:?}");
    assert!(ended.err.contains("it asks for the host elsewhere; modex run works on one machine"), "{ended:?}");
}

pub(crate) fn spawn_a_failure() {
    let client = Client::connect().unwrap();
    let failing = "test $PMIX_RANK = 1 && exit 3; exec sleep 1000";
    spawn(&client, Vec::new(), vec![app(&["sh", "-c", failing], 2, Vec::new())]).unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn a_spawned_rank_that_fails_ends_all_jobs() {
    let ended = run(&["--grace", "0.2"], "spawn a failure");
    assert_eq!(ended.code(), Some(3), "{ended:?}");
    assert!(
        ended.err.contains("modex: rank 1 of job 1 exited with status 3; the other 2 ranks get 0.2 s"),
        "{ended:?}"
    );
}

fn namespaces() -> Query {
    Query { keys: vec![Text::from(keys::QUERY_NAMESPACES.name())], qualifiers: Vec::new() }
}

pub(crate) fn spawn_one_after_the_other() {
    let client = Client::connect().unwrap();
    let (sender, ends) = mpsc::channel();
    // A default handler gets the event because the spawner asks for it.
    let handler = client.register_event_handler(&[], &[], move |call| {
        let affected = call.info.iter().find(|info| info.key.as_str() == keys::EVENT_AFFECTED_PROC.name());
        let _ = sender.send(affected.map(|info| info.value.clone()));
        call.complete(Status::SUCCESS, Vec::new());
    });
    handler.wait().unwrap();
    let launcher = std::os::unix::process::parent_id();
    let descriptors = || std::fs::read_dir(format!("/proc/{launcher}/fd")).unwrap().count();
    let descriptors_before = descriptors();
    for number in 1..=20 {
        let job = vec![info(keys::NOTIFY_COMPLETION.name(), true)];
        let namespace = spawn(&client, job, vec![app(&["true"], 2, Vec::new())]).unwrap();
        assert_eq!(namespace.as_str(), format!("{}-{number}", client.proc().namespace));
        let ended = ends.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(ended, Some(Value::from(ProcId { namespace, rank: Rank::Wildcard })));
    }
    // The guardian and this rank are left. The last job's ranks may be reaped after the event.
    let children = || std::fs::read_to_string(format!("/proc/{launcher}/task/{launcher}/children")).unwrap();
    wait_until(|| children().split_whitespace().count() == 2);
    // The last job's output may be open for a moment.
    wait_until(|| descriptors() <= descriptors_before);
    let left = client.query(vec![namespaces()]).wait().unwrap().results;
    assert_eq!(left[0].value.as_str(), Some(client.proc().namespace.as_str()));
    client.finalize().unwrap();
}

/// The launcher reaps each spawned job at its end, or a program that spawns for days would use up the process numbers.
#[test]
fn the_end_of_a_spawned_job_is_reported_and_nothing_of_it_stays() {
    let ended = run(&[], "spawn one after the other");
    assert_eq!((ended.code(), ended.err.as_str()), (Some(0), ""), "{ended:?}");
}

pub(crate) fn spawn_behind_much_output() {
    let client = Client::connect().unwrap();
    // More than the pipes and the launcher's queue hold.
    let much = app(&["sh", "-c", "yes 0123456789 | head -c 8000000"], 1, Vec::new());
    spawn(&client, Vec::new(), vec![much]).unwrap();
    wait_until(|| std::fs::exists("started").unwrap());
    spawn(&client, Vec::new(), vec![app(&["echo", "second"], 1, Vec::new())]).unwrap();
    std::fs::write("spawned", "").unwrap();
    client.finalize().unwrap();
}

/// A spawn while the launcher waited for its reader ended all jobs with "File exists".
#[test]
fn a_job_is_spawned_while_the_reader_of_the_output_is_slow() {
    let directory = tempfile::tempdir().unwrap();
    let mut running = role(&["--wdir", directory.path().to_str().unwrap()], "spawn behind much output").start();
    while running.line() != "0123456789\n" {}
    std::fs::write(directory.path().join("started"), "").unwrap();
    wait_until(|| directory.path().join("spawned").exists());
    let ended = running.finish();
    assert_eq!((ended.code(), ended.err.as_str()), (Some(0), ""));
    assert_eq!(ended.out.lines().filter(|line| *line == "second").count(), 1);
}

pub(crate) fn abort_a_child() {
    let client = Client::connect().unwrap();
    let job = spawn(&client, Vec::new(), vec![app(&["sleep", "0.2"], 1, Vec::new())]).unwrap();
    let children = vec![ProcId { namespace: job, rank: Rank::Wildcard }];
    let refused = client.abort(Status::from_raw(3), "away", children).unwrap_err();
    assert_eq!(refused.status(), Status::ERR_PARAM_VALUE_NOT_SUPPORTED);
    client.finalize().unwrap();
}

/// The abort ended the parent, too, and all other jobs.
#[test]
fn an_abort_of_other_jobs_alone_is_refused() {
    let ended = run(&[], "abort a child");
    assert_eq!((ended.code(), ended.err.as_str()), (Some(0), ""), "{ended:?}");
}

pub(crate) fn spawn_a_last_line() {
    let client = Client::connect().unwrap();
    // Descendants keep the pipes. Each pipe holds more than one read, and a last line without an end.
    let much = app(&["sh", "-c", "sleep 5 & head -c 65000 /dev/zero | tr '\\0' x; printf end"], 40, Vec::new());
    spawn(&client, Vec::new(), vec![much]).unwrap();
    std::fs::write("spawned", "").unwrap();
    client.finalize().unwrap();
}

/// The launcher closed the streams of an ended job while it waited for its reader, and read only a part before.
#[test]
fn the_last_output_of_a_spawned_job_is_not_lost() {
    let directory = tempfile::tempdir().unwrap();
    let running = role(&["--wdir", directory.path().to_str().unwrap()], "spawn a last line").start();
    wait_until(|| directory.path().join("spawned").exists());
    // The reader is slow: the job ends before anything is read.
    std::thread::sleep(Duration::from_millis(500));
    let ended = running.finish();
    assert_eq!((ended.code(), ended.err.as_str()), (Some(0), ""));
    assert_eq!(ended.out.lines().filter(|line| line.len() == 65_003 && line.ends_with("xend")).count(), 40);
}

pub(crate) fn leave_a_daemon() {
    let client = Client::connect().unwrap();
    // The rank ends before its daemon.
    let script = "setsid sh -c 'echo $$ > new; mv new daemon; sleep 1' & exit 0";
    let here = vec![info(keys::WDIR.name(), std::env::current_dir().unwrap().to_str().unwrap())];
    spawn(&client, here, vec![app(&["sh", "-c", script], 1, vec![])]).unwrap();
    wait_until(|| std::fs::exists("daemon").unwrap());
    let daemon: u32 = std::fs::read_to_string("daemon").unwrap().trim().parse().unwrap();
    wait_until(|| !std::fs::exists(format!("/proc/{daemon}")).unwrap());
    client.finalize().unwrap();
}

/// The launcher is the parent of such a process, and did not ask for its end.
#[test]
fn a_daemon_of_a_spawned_rank_is_no_zombie_after_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let ended = run(&["--wdir", directory.path().to_str().unwrap()], "leave a daemon");
    assert_eq!((ended.code(), ended.err.as_str()), (Some(0), ""), "{ended:?}");
}
