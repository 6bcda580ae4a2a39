//! Processes that control others (`PMIx_Job_control`).

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use modex::types::{App, Info, InfoFlags, Key, Namespace, ProcId, Rank, Status, Text, Value};
use modex::{AsStatus, Client, GetOptions, keys};
use tempfile::TempDir;

use crate::launch::{Launch, ROLE, modex, wait_until};

/// The variable that names the directory in which a rank tells its processes.
const PLACE: &str = "MODEX_TEST_PLACE";

/// A rank with a child. It shows both numbers, and each SIGUSR1.
const BUSY: &str = "trap 'echo > $MODEX_TEST_PLACE/signalled' USR1
    sleep 1000 &
    echo $$ $! > $MODEX_TEST_PLACE/new.$PMIX_RANK
    mv $MODEX_TEST_PLACE/new.$PMIX_RANK $MODEX_TEST_PLACE/processes.$PMIX_RANK
    while :; do wait; done";

/// Rank 0 is this test binary with a task. The others are this script.
fn run(options: &[&str], task: &str, count: &str, script: &str) -> (Launch, TempDir) {
    let place = tempfile::tempdir().unwrap();
    let this = std::env::current_exe().unwrap();
    let first = ["-n", "1", "--", this.to_str().unwrap(), "--exact", "client_process", "--nocapture", ":"];
    let words = [&["run"], options, &first, &["-n", count, "--", "sh", "-c", script]].concat();
    (modex(words).env(ROLE, task).env(PLACE, place.path()), place)
}

fn control(client: &Client, targets: &[ProcId], key: &'static str, value: impl Into<Value>) -> Result<(), Status> {
    let directive = Info::new(Key::from_static(key), value);
    client.job_control(targets.to_vec(), vec![directive]).wait().map(drop).map_err(|error| error.status())
}

/// The processes of a rank that runs [`BUSY`].
fn processes(rank: u32) -> Vec<i32> {
    let place = PathBuf::from(std::env::var_os(PLACE).unwrap());
    let path = place.join(format!("processes.{rank}"));
    wait_until(|| path.exists());
    fs::read_to_string(path).unwrap().split_whitespace().map(|number| number.parse().unwrap()).collect()
}

fn is_paused(process: i32) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|line| line.contains(") T "))
}

pub(crate) fn control_another() {
    let client = Client::connect().unwrap();
    let namespace = client.proc().namespace.clone();
    let other = [ProcId::new(namespace.clone(), 1)];
    let both = processes(1);
    control(&client, &other, keys::JOB_CTRL_PAUSE.name(), true).unwrap();
    wait_until(|| both.iter().all(|process| is_paused(*process)));
    control(&client, &other, keys::JOB_CTRL_RESUME.name(), true).unwrap();
    wait_until(|| !both.iter().any(|process| is_paused(*process)));
    control(&client, &other, keys::JOB_CTRL_SIGNAL.name(), Value::Int(10)).unwrap();
    let place = PathBuf::from(std::env::var_os(PLACE).unwrap());
    wait_until(|| place.join("signalled").exists());
    let refused = |targets: &[ProcId], key, value: Value| control(&client, targets, key, value).unwrap_err();
    let set = keys::JOB_CTRL_DEFINE_PSET.name();
    control(&client, &[client.proc().clone(), other[0].clone()], set, "pair").unwrap();
    let sets = client.get_value(client.proc(), keys::PSET_NAMES.name(), &GetOptions::new()).unwrap();
    let Value::DataArray(sets) = sets.into_value().unwrap() else { panic!("no array") };
    assert_eq!(sets.elements, [Value::from("pair")]);
    assert_eq!(refused(&other, set, namespace.as_str().into()), Status::ERR_BAD_PARAM);
    let kill = keys::JOB_CTRL_KILL.name();
    let unknown = [other[0].clone(), ProcId::new(namespace, 2)];
    assert_eq!(refused(&unknown, kill, true.into()), Status::ERR_NOT_FOUND);
    let elsewhere = [ProcId { namespace: Namespace::new("elsewhere").unwrap(), rank: Rank::Wildcard }];
    assert_eq!(refused(&elsewhere, kill, true.into()), Status::ERR_NOT_FOUND);
    assert_eq!(refused(&other, keys::JOB_CTRL_SIGNAL.name(), Value::Int(1000)), Status::ERR_BAD_PARAM);
    assert_eq!(refused(&other, keys::JOB_CTRL_CHECKPOINT.name(), "a".into()), Status::ERR_NOT_SUPPORTED);
    let required = Info { flags: InfoFlags::REQUIRED.bits(), ..Info::new(Key::from_static("own.key"), true) };
    let directives = vec![Info::new(Key::from_static(kill), true), required];
    let error = client.job_control(other.to_vec(), directives).wait().unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
    control(&client, &other, kill, true).unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn a_rank_pauses_resumes_signals_and_kills_another_with_its_children() {
    let (launch, _place) = run(&["--grace", "0.2"], "control another", "1", BUSY);
    let ended = launch.run();
    let expected = "rank 1 was killed by SIGKILL at the request of rank 0; the other 1 rank gets 0.2 s to end\n";
    assert_eq!((ended.code(), ended.err.as_str()), (Some(137), &*format!("modex: {expected}")), "{ended:?}");
}

/// Terminates rank 1, which can't end because it is paused or has no ear for it.
pub(crate) fn terminate_another() {
    let client = Client::connect().unwrap();
    let other = [ProcId::new(client.proc().namespace.clone(), 1)];
    let both = processes(1);
    control(&client, &other, keys::JOB_CTRL_PAUSE.name(), true).unwrap();
    wait_until(|| both.iter().all(|process| is_paused(*process)));
    control(&client, &other, keys::JOB_CTRL_TERMINATE.name(), true).unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn a_paused_rank_that_is_terminated_goes_on_to_its_end() {
    let script = format!("trap 'exit 7' TERM; {BUSY}");
    let (launch, _place) = run(&["--grace", "20"], "terminate another", "1", &script);
    let ended = launch.run();
    let expected = "modex: rank 1 exited with status 7 at the request of rank 0; the other 1 rank gets 20 s to end\n";
    assert_eq!((ended.code(), ended.err.as_str()), (Some(7), expected), "{ended:?}");
}

pub(crate) fn stop_and_terminate_another() {
    let client = Client::connect().unwrap();
    let other = [ProcId::new(client.proc().namespace.clone(), 1)];
    let number = processes(1)[0];
    control(&client, &other, keys::JOB_CTRL_SIGNAL.name(), Value::Int(19)).unwrap();
    wait_until(|| is_paused(number));
    control(&client, &other, keys::JOB_CTRL_TERMINATE.name(), true).unwrap();
    loop {
        std::thread::park();
    }
}

/// The rank stayed stopped, so that it did not see SIGTERM and was killed.
#[test]
fn a_rank_that_a_signal_stopped_goes_on_to_its_end() {
    let script = format!("trap 'exit 7' TERM; {BUSY}");
    let (launch, _place) = run(&["--grace", "20"], "stop and terminate another", "1", &script);
    let ended = launch.run();
    assert_eq!(ended.code(), Some(7), "{ended:?}");
}

#[test]
fn a_rank_that_ignores_a_request_to_terminate_is_killed_after_the_grace_period() {
    let script = format!("trap '' TERM; {BUSY}");
    let (launch, _place) = run(&["--grace", "0.2"], "terminate another", "1", &script);
    let ended = launch.run();
    let expected = "modex: rank 1 was killed by SIGKILL at the request of rank 0; the other 1 rank gets 0.2 s to end\n";
    assert_eq!((ended.code(), ended.err.as_str()), (Some(137), expected), "{ended:?}");
}

/// Without targets a request means the requester's job.
pub(crate) fn end_all() {
    let client = Client::connect().unwrap();
    let both = processes(1);
    control(&client, &[ProcId::new(client.proc().namespace.clone(), 1)], keys::JOB_CTRL_PAUSE.name(), true).unwrap();
    wait_until(|| both.iter().all(|process| is_paused(*process)));
    control(&client, &[], &std::env::var("MODEX_TEST_KEY").unwrap().leak()[..], true).unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn a_rank_ends_its_whole_job() {
    let terminate = keys::JOB_CTRL_TERMINATE.name();
    let expected = "modex: rank 0 asked to terminate all ranks; 3 ranks get 20 s to end\n";
    for (key, status, expected) in
        [(terminate, 143, expected), (keys::JOB_CTRL_KILL.name(), 137, "modex: rank 0 asked to kill all ranks\n")]
    {
        let (launch, _place) = run(&["--grace", "20"], "end all", "2", &format!("trap 'exit 0' TERM; {BUSY}"));
        let ended = launch.env("MODEX_TEST_KEY", key).run();
        assert_eq!((ended.code(), ended.err.as_str()), (Some(status), expected), "{ended:?}");
    }
}

pub(crate) fn end_a_spawned_job() {
    let client = Client::connect().unwrap();
    let (sender, ends) = mpsc::channel();
    let handler = client.register_event_handler(&[Status::EVENT_JOB_END], &[], move |call| {
        let status = call.info.iter().find(|info| info.key.as_str() == keys::JOB_TERM_STATUS.name());
        let _ = sender.send(status.map(|info| info.value.clone()));
        call.complete(Status::SUCCESS, Vec::new());
    });
    handler.wait().unwrap();
    for key in [keys::JOB_CTRL_KILL.name(), keys::JOB_CTRL_TERMINATE.name()] {
        let awaited = Info::new(Key::from_static(keys::NOTIFY_COMPLETION.name()), true);
        let app = App {
            command: Some(Text::from("sleep")),
            argv: ["sleep", "1000"].map(Text::from).into(),
            environment: Vec::new(),
            working_directory: None,
            processes_max: 2,
            info: Vec::new(),
        };
        let namespace = client.spawn(vec![awaited], vec![app]).wait().unwrap();
        control(&client, &[ProcId { namespace, rank: Rank::Wildcard }], key, true).unwrap();
        let status = ends.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(status, Some(Value::Status(Status::ERR_JOB_KILLED_BY_CMD.to_raw())));
    }
    client.finalize().unwrap();
}

#[test]
fn a_rank_ends_a_job_that_it_has_spawned_and_goes_on() {
    let (launch, _place) = run(&[], "end a spawned job", "1", "exit 0");
    let ended = launch.run();
    assert_eq!((ended.code(), ended.err.as_str()), (Some(0), ""), "{ended:?}");
}

pub(crate) fn checkpoint_another() {
    let client = Client::connect().unwrap();
    let [own, other] = [0, 1].map(|rank| [ProcId::new(client.proc().namespace.clone(), rank)]);
    let (sender, told) = mpsc::channel();
    let handler = client.register_event_handler(&[Status::JCTRL_CHECKPOINT], &[], move |call| {
        let name = call.info.iter().find(|info| info.key.as_str() == keys::JOB_CTRL_CHECKPOINT.name());
        let _ = sender.send(name.and_then(|info| info.value.as_str()).map(str::to_owned));
        call.complete(Status::SUCCESS, Vec::new());
    });
    handler.wait().unwrap();
    let checkpoint = keys::JOB_CTRL_CHECKPOINT.name();
    assert_eq!(control(&client, &own, checkpoint, "first"), Err(Status::ERR_NOT_SUPPORTED));
    let by_event = Info::new(Key::from_static(keys::JOB_CTRL_CHECKPOINT_EVENT.name()), true);
    control(&client, &own, keys::JOB_CTRL_CHECKPOINT_METHOD.name(), Value::info_array(vec![by_event])).unwrap();
    control(&client, &own, checkpoint, "second").unwrap();
    assert_eq!(told.recv_timeout(Duration::from_secs(20)).unwrap(), Some("second".to_owned()));
    processes(1);
    control(&client, &other, keys::JOB_CTRL_CHECKPOINT_SIGNAL.name(), Value::Int(10)).unwrap();
    control(&client, &other, checkpoint, "third").unwrap();
    let place = PathBuf::from(std::env::var_os(PLACE).unwrap());
    wait_until(|| place.join("signalled").exists());
    let restart = control(&client, &other, keys::JOB_CTRL_RESTART.name(), "third");
    assert_eq!(restart, Err(Status::ERR_NOT_SUPPORTED));
    control(&client, &other, keys::JOB_CTRL_KILL.name(), true).unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn ranks_are_told_to_save_their_state_as_they_want() {
    let (launch, _place) = run(&["--grace", "0.2"], "checkpoint another", "1", BUSY);
    let ended = launch.run();
    assert_eq!((ended.code(), ended.err.lines().count()), (Some(137), 1), "{ended:?}");
}
