//! Spawned jobs that wait for a debugger, daemons of a debugger, and jobs that have a time limit.

use std::collections::BTreeSet;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use modex::keys::{self, TypedKey};
use modex::types::codes::range::{RANGE_CUSTOM, RANGE_RM};
use modex::types::{App, Info, InfoFlags, Key, Namespace, ProcId, Query, Rank, Status, Text, Value};
use modex::{AsStatus, Client, GetOptions};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::launch::{Ended, ROLE, role, wait_until};

fn run(options: &[&str], task: &str) -> Ended {
    role(options, task).run()
}

fn info(key: &'static str, value: impl Into<Value>) -> Info {
    Info::new(Key::from_static(key), value)
}

fn app(words: &[&str], count: i32) -> App {
    App {
        command: Some(Text::from(words[0])),
        argv: words.iter().map(|word| Text::from(*word)).collect(),
        environment: Vec::new(),
        working_directory: None,
        processes_max: count,
        info: Vec::new(),
    }
}

fn spawn(client: &Client, job: Vec<Info>, app: App) -> Result<Namespace, Status> {
    client.spawn(job, vec![app]).wait().map_err(|error| error.status())
}

/// The events of these codes from now on.
fn listen(client: &Client, codes: &[Status]) -> Receiver<(Status, Vec<Info>)> {
    let (sender, events) = mpsc::channel();
    let handler = client.register_event_handler(codes, &[], move |call| {
        let _ = sender.send((call.status, call.info.clone()));
        call.complete(Status::SUCCESS, Vec::new());
    });
    handler.wait().unwrap();
    events
}

fn value<'a>(infos: &'a [Info], key: &str) -> Option<&'a Value> {
    infos.iter().find(|info| info.key.as_str() == key).map(|info| &info.value)
}

fn next(events: &Receiver<(Status, Vec<Info>)>) -> (Status, Vec<Info>) {
    events.recv_timeout(Duration::from_secs(20)).unwrap()
}

/// The processes of a job on this node.
fn processes(client: &Client, job: &Namespace) -> Vec<u32> {
    let keys = vec![Text::from(keys::QUERY_LOCAL_PROC_TABLE.name())];
    let query = Query { keys, qualifiers: vec![info(keys::NSPACE.name(), job.as_str())] };
    let found = client.query(vec![query]).wait().unwrap().results;
    let Value::DataArray(table) = &found[0].value else { panic!("{found:?}") };
    let pid = |row: &Value| match row {
        Value::ProcInfo(row) => row.pid,
        other => panic!("{other:?}"),
    };
    table.elements.iter().map(pid).collect()
}

pub(crate) fn spawn_stopped_at_exec() {
    let client = Client::connect().unwrap();
    let events = listen(&client, &[Status::READY_FOR_DEBUG, Status::EVENT_JOB_END]);
    let job = vec![info(keys::DEBUG_STOP_ON_EXEC.name(), true)];
    let job = spawn(&client, job, app(&["sh", "-c", "echo went on; exec sh -c 'kill -STOP $$'"], 2)).unwrap();
    let (status, infos) = next(&events);
    assert_eq!((status, value(&infos, keys::BREAKPOINT.name())), (Status::READY_FOR_DEBUG, Some(&"exec".into())));
    for process in processes(&client, &job) {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{process}/{name}")).unwrap();
        assert!(read("cmdline").starts_with("sh\0-c\0echo"), "{}", read("cmdline"));
        assert!(read("status").contains("TracerPid:\t0\n"));
        wait_until(|| read("stat").contains(" (sh) T "));
    }
    println!("resuming");
    let all = [ProcId { namespace: job.clone(), rank: Rank::Wildcard }];
    let control = |key: &'static str| client.job_control(all.to_vec(), vec![info(key, true)]).wait().unwrap();
    control(keys::JOB_CTRL_RESUME.name());
    for process in processes(&client, &job) {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{process}/{name}")).unwrap();
        wait_until(|| read("cmdline").starts_with("sh\0-c\0kill") && read("stat").contains(" (sh) T "));
    }
    // Ranks that stop themselves go on for their end, as those do that have not been released.
    control(keys::JOB_CTRL_TERMINATE.name());
    assert_eq!(next(&events).0, Status::EVENT_JOB_END);
    client.finalize().unwrap();
}

#[test]
fn ranks_stop_before_their_first_instruction_until_they_are_resumed() {
    let ended = run(&["--grace", "20"], "spawn stopped at exec");
    assert_eq!((ended.code(), ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let (before, after) = ended.out.split_once("resuming\n").unwrap();
    assert!(!before.contains("went on") && after.matches("went on").count() == 2, "{ended:?}");
}

pub(crate) fn spawn_stopped_in_init() {
    let client = Client::connect().unwrap();
    let events = listen(&client, &[Status::READY_FOR_DEBUG, Status::EVENT_JOB_END]);
    let this = std::env::current_exe().unwrap();
    let mut app = app(&[this.to_str().unwrap(), "--exact", "client_process", "--nocapture"], 3);
    app.environment = vec![Text::from(format!("{ROLE}=wait for a debugger").as_str())];
    // A rank that ends is not waited for.
    let ends = self::app(&["sleep", "0.5"], 1);
    let job = vec![info(keys::DEBUG_STOP_IN_INIT.name(), true)];
    let job = client.spawn(job, vec![app, ends]).wait().unwrap();
    let (status, infos) = next(&events);
    assert_eq!((status, value(&infos, keys::BREAKPOINT.name())), (Status::READY_FOR_DEBUG, Some(&"pmix-init".into())));
    let all = ProcId { namespace: job, rank: Rank::Wildcard };
    assert_eq!(value(&infos, keys::EVENT_AFFECTED_PROC.name()), Some(&all.clone().into()));
    let Some(Value::DataArray(affected)) = value(&infos, keys::EVENT_AFFECTED_PROCS.name()) else {
        panic!("{infos:?}")
    };
    assert!(
        affected.elements.contains(&client.server().clone().into()),
        "PRRTE's example waits for events of its server"
    );
    let target = [info(keys::EVENT_CUSTOM_RANGE.name(), all)];
    client.notify_event(Status::DEBUGGER_RELEASE, None, RANGE_CUSTOM, &target).wait().unwrap();
    assert_eq!(next(&events).0, Status::EVENT_JOB_END);
    client.finalize().unwrap();
}

/// As the C library does in `PMIx_Init`.
pub(crate) fn wait_for_a_debugger() {
    let client = Client::connect().unwrap();
    let job = ProcId { namespace: client.proc().namespace.clone(), rank: Rank::Wildcard };
    let told = client.get_value(&job, keys::DEBUG_STOP_IN_INIT.name(), &GetOptions::new()).unwrap();
    assert_eq!(told.into_value().unwrap().as_bool(), Some(true));
    let events = listen(&client, &[Status::DEBUGGER_RELEASE]);
    let required = InfoFlags::REQUIRED.bits();
    let place = [Info { flags: required, ..info(keys::BREAKPOINT.name(), "pmix-init") }];
    client.notify_event(Status::READY_FOR_DEBUG, None, RANGE_RM, &place).wait().unwrap();
    assert_eq!(next(&events).0, Status::DEBUGGER_RELEASE);
    println!("released");
    client.finalize().unwrap();
}

#[test]
fn ranks_wait_in_init_for_a_debugger_that_hears_of_the_last_one() {
    let ended = run(&[], "spawn stopped in init");
    assert_eq!((ended.code(), ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert_eq!(ended.out.matches("released\n").count(), 3, "{ended:?}");
}

pub(crate) fn spawn_daemons() {
    let client = Client::connect().unwrap();
    let events = listen(&client, &[Status::EVENT_JOB_END]);
    let required = |key, value: Value| Info { flags: InfoFlags::REQUIRED.bits(), ..info(key, value) };
    let job = spawn(&client, Vec::new(), app(&["sleep", "1000"], 3)).unwrap();
    let all = ProcId { namespace: job, rank: Rank::Wildcard };
    let target = || required(keys::DEBUG_TARGET.name(), all.clone().into());
    let mark = || required(keys::DEBUGGER_DAEMONS.name(), true.into());
    let daemons = |mut job: Vec<Info>, count: i32| {
        // Daemons do not wait for a debugger.
        job.extend([mark(), info(keys::DEBUG_STOP_ON_EXEC.name(), true)]);
        spawn(&client, job, app(&["sh", "-c", "echo a daemon; exit 3"], count))
    };
    let per = |key: TypedKey<u16>, count: u16| required(key.name(), Value::Uint16(count));
    let of_process = daemons(vec![target(), per(keys::DEBUG_DAEMONS_PER_PROC, 2)], 0).unwrap();
    let (_, infos) = next(&events);
    assert_eq!(value(&infos, keys::NSPACE.name()), Some(&of_process.as_str().into()));
    let failed = Value::Status(Status::ERR_JOB_NON_ZERO_TERM.to_raw());
    assert_eq!(value(&infos, keys::JOB_TERM_STATUS.name()), Some(&failed));
    assert_eq!(value(&infos, keys::EXIT_CODE.name()), Some(&Value::Int(3)));
    daemons(vec![target(), per(keys::DEBUG_DAEMONS_PER_NODE, 1)], 0).unwrap();
    next(&events);
    daemons(Vec::new(), 1).unwrap();
    next(&events);
    assert_eq!(daemons(vec![per(keys::DEBUG_DAEMONS_PER_NODE, 1)], 1), Err(Status::ERR_BAD_PARAM));
    // The failures of the daemons had no effect on their target.
    assert_eq!(processes(&client, &all.namespace).len(), 3);
    client.job_control(vec![all.clone()], vec![info(keys::JOB_CTRL_KILL.name(), true)]).wait().unwrap();
    next(&events);
    assert_eq!(daemons(vec![target()], 1), Err(Status::ERR_NOT_FOUND));
    client.finalize().unwrap();
}

/// `modex run` refused these directives if they were required, and started the daemons as ranks otherwise: without
/// their target, and with an end of all jobs if one failed.
#[test]
fn daemons_of_a_debugger_start_beside_its_target_and_end_alone() {
    let ended = run(&[], "spawn daemons beside a job");
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(ended.out.matches("a daemon\n").count(), 6 + 1 + 1, "{ended:?}");
    let lines: Vec<&str> = ended.err.lines().collect();
    let says = |line: &str, reason: &str| line.contains("can't be spawned: ") && line.contains(reason);
    assert!(says(lines[0], "names no target") && says(lines[1], "does not run") && lines.len() == 2, "{ended:?}");
}

pub(crate) fn spawn_with_time_limits() {
    let client = Client::connect().unwrap();
    let events = listen(&client, &[Status::EVENT_JOB_END]);
    let required = |key| Info { flags: InfoFlags::REQUIRED.bits(), ..info(key, Value::Int(1)) };
    let job = vec![required(keys::JOB_TIMEOUT.name()), info(keys::SPAWN_TIMEOUT.name(), Value::Int(0))];
    spawn(&client, job, app(&["sleep", "1000"], 2)).unwrap();
    let (_, infos) = next(&events);
    assert_eq!(value(&infos, keys::JOB_TERM_STATUS.name()), Some(&Value::Status(Status::ERR_TIMEOUT.to_raw())));
    // The launcher may have started all ranks before the stop reaches it. They then end by themselves.
    while spawn_too_slowly(&client, vec![required(keys::SPAWN_TIMEOUT.name())]).is_ok() {
        next(&events);
    }
    let wrong = |info: Info| spawn(&client, vec![info], app(&["true"], 1)).unwrap_err();
    assert_eq!(wrong(info(keys::JOB_TIMEOUT.name(), Value::Int(-1))), Status::ERR_BAD_PARAM);
    assert_eq!(wrong(info(keys::TIMEOUT.name(), "soon")), Status::ERR_BAD_PARAM);
    assert_eq!(wrong(info(keys::DEBUG_STOP_IN_INIT.name(), "all")), Status::ERR_BAD_PARAM);
    assert_eq!(wrong(info(keys::DEBUG_STOP_ON_EXEC.name(), Value::ProcRank(Rank::Process(1)))), Status::ERR_BAD_PARAM);
    client.finalize().unwrap();
}

/// The launcher stops while it starts the ranks, until their time is over.
fn spawn_too_slowly(client: &Client, job: Vec<Info>) -> Result<Namespace, Status> {
    let launcher = std::os::unix::process::parent_id();
    let path = format!("/proc/{launcher}/task/{launcher}/children");
    let children = || -> BTreeSet<String> {
        std::fs::read_to_string(&path).unwrap().split_whitespace().map(str::to_owned).collect()
    };
    // Ranks of the job before may not be buried yet. Their burial is no start.
    let before = children();
    let (sender, answer) = mpsc::channel();
    let pending = client.spawn(job, vec![app(&["sleep", "3"], 300)]);
    pending.then(move |result| sender.send(result.map_err(|error| error.status())).unwrap()).unwrap();
    while children().is_subset(&before) {}
    let send = |signal| kill(Pid::from_raw(i32::try_from(launcher).unwrap()), signal).unwrap();
    send(Signal::SIGSTOP);
    std::thread::sleep(Duration::from_millis(1100));
    send(Signal::SIGCONT);
    let answer = answer.recv_timeout(Duration::from_secs(20)).unwrap();
    if answer.is_err() {
        assert_eq!(answer, Err(Status::ERR_TIMEOUT));
        wait_until(|| children().is_subset(&before));
    }
    answer
}

#[test]
fn a_job_that_runs_too_long_ends_alone_and_one_that_starts_too_slowly_does_not_run() {
    let ended = run(&["--grace", "20"], "spawn with time limits");
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let lines: Vec<&str> = ended.err.lines().collect();
    assert_eq!(lines[0], "modex: job 1 exceeded its time limit of 1 s; its 2 ranks get 20 s to end", "{ended:?}");
    assert!(lines[1].contains("can't be spawned: it did not start within 1 s"), "{ended:?}");
}
