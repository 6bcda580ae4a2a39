//! Launchers that a tool has started: they wait for the tool and take its directives.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use modex::gds::registration::JobDescription;
use modex::keys;
use modex::types::codes::range::RANGE_CUSTOM;
use modex::types::{Envar, Info, InfoFlags, Key, Namespace, ProcId, Rank, Status, Text, Value};
use modex::{LocalHost, Server, Tool, ToolAdmission, ToolSupport};
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, pipe2};

use crate::launch::{Launch, Running, script};

fn info(key: &'static str, value: impl Into<Value>) -> Info {
    Info::new(Key::from_static(key), value)
}

/// A tool with a server inside that starts a launcher, as a debugger does.
struct Debugger {
    server: Server,
    events: Receiver<(Status, Vec<Info>)>,
    _place: tempfile::TempDir,
}

impl Debugger {
    /// The directives are those of its launcher's job.
    fn new(directives: Vec<Info>) -> Self {
        let place = tempfile::tempdir().unwrap();
        let tools = ToolSupport { admission: ToolAdmission::Named, ..ToolSupport::default() };
        let server =
            Server::builder().namespace("debugger").tmpdir(place.path()).tools(tools).start(LocalHost).unwrap();
        let launcher = Self::launcher();
        let description = JobDescription::new(&launcher.namespace)
            .server(server.proc().clone())
            .nodes([server.hostname()])
            .ranks_by_node(std::iter::once(0..1))
            .job_value(Key::from_static(keys::LAUNCH_DIRECTIVES.name()), Value::info_array(directives))
            .build()
            .unwrap();
        server.register_namespace(&launcher.namespace, 1, description).wait().unwrap();
        let (uid, gid) = (Uid::effective().as_raw(), Gid::effective().as_raw());
        server.register_client(&launcher, uid, gid).wait().unwrap();
        let (sender, events) = mpsc::channel();
        let codes = [
            Status::LAUNCHER_READY,
            Status::EVENT_JOB_START,
            Status::LAUNCH_COMPLETE,
            Status::READY_FOR_DEBUG,
            Status::EVENT_JOB_END,
        ];
        let handler = server.register_event_handler(&codes, &[], move |call| {
            let _ = sender.send((call.status, call.info.clone()));
            call.complete(Status::SUCCESS, Vec::new());
        });
        handler.wait().unwrap();
        Self { server, events, _place: place }
    }

    /// Its launcher's name.
    fn launcher() -> ProcId {
        ProcId::new(Namespace::new("il").unwrap(), 0)
    }

    /// Makes a launcher that of this tool.
    fn direct(&self, launch: Launch) -> Launch {
        let variables = self.server.setup_fork(&Self::launcher()).unwrap();
        let launch = launch.env("PMIX_LAUNCHER_RNDZ_URI", self.server.uri());
        variables.into_iter().fold(launch, |launch, (name, value)| launch.env(&name, value))
    }

    /// Waits for this event, and returns its details.
    fn hears(&self, status: Status) -> Vec<Info> {
        let (found, infos) = self.events.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(found, status, "{infos:?}");
        infos
    }

    /// A launcher that waits.
    fn start(&self, launch: Launch) -> Running {
        let running = self.direct(launch).start();
        self.hears(Status::LAUNCHER_READY);
        running
    }

    fn release(&self) {
        let target = info(keys::EVENT_CUSTOM_RANGE.name(), Self::launcher());
        self.server.notify_event(Status::DEBUGGER_RELEASE, None, RANGE_CUSTOM, &[target]).wait().unwrap();
    }
}

fn value<'a>(infos: &'a [Info], key: &str) -> Option<&'a Value> {
    infos.iter().find(|info| info.key.as_str() == key).map(|info| &info.value)
}

#[test]
fn a_launcher_waits_for_its_tool_and_starts_its_job_as_the_tool_directs() {
    let text = |text: &str| Some(Text::from(text));
    let word = Envar { name: text("WORD"), value: text("hello"), separator: b':' };
    let place = tempfile::tempdir().unwrap();
    let debugger = Debugger::new(vec![
        info(keys::SET_ENVAR.name(), Value::Envar(Box::new(word))),
        info(keys::DEBUG_STOP_ON_EXEC.name(), true),
        info(keys::IOF_OUTPUT_TO_FILE.name(), place.path().join("copy").to_str().unwrap()),
        info(keys::IOF_FILE_PATTERN.name(), true),
    ]);
    let started = place.path().join("started");
    let words = format!("touch {}; echo \"$WORD, $PMIX_LAUNCHER_RNDZ_URI\"", started.display());
    let running =
        debugger.start(script(&["-n", "2"], &words).env("PMIX_LAUNCHER_RNDZ_FILE", place.path().join("address")));
    let job = format!("modex-{}", running.child.id());
    // A tool finds the launcher under the name of the spawned process.
    let tool = Tool::builder().file(place.path().join("address")).connect().unwrap();
    assert_eq!(tool.servers(), [Debugger::launcher()]);
    debugger.release();
    for status in [Status::EVENT_JOB_START, Status::LAUNCH_COMPLETE, Status::READY_FOR_DEBUG] {
        assert_eq!(value(&debugger.hears(status), keys::NSPACE.name()), Some(&job.as_str().into()));
    }
    assert!(!started.exists(), "ranks ran before they were resumed");
    let job = ProcId { namespace: Namespace::new(&job).unwrap(), rank: Rank::Wildcard };
    let resume = vec![info(keys::JOB_CTRL_RESUME.name(), true)];
    tool.client().unwrap().job_control(vec![job], resume).wait().unwrap();
    debugger.hears(Status::EVENT_JOB_END);
    tool.finalize().unwrap();
    let both = "hello, \nhello, \n";
    assert_eq!(running.finish().success(), both);
    assert_eq!(std::fs::read_to_string(place.path().join("copy.out")).unwrap(), both);
}

/// Regression: a tool of OpenPMIx sent its requests to the launcher that it had started, and waited for ever.
#[test]
fn a_launcher_serves_its_tool_on_the_connection_that_it_has_made() {
    let debugger = Debugger::new(Vec::new());
    let running = debugger.start(script(&["-n", "1"], "true"));
    let job = format!("modex-{}", running.child.id());
    let launcher = debugger.server.client_of_launcher(&Debugger::launcher()).unwrap().unwrap();
    let (sender, end) = mpsc::channel();
    let handler = launcher.register_event_handler(&[Status::EVENT_JOB_END], &[], move |call| {
        let _ = sender.send(call.info.clone());
        call.complete(Status::SUCCESS, Vec::new());
    });
    handler.wait().unwrap();
    let target = info(keys::EVENT_CUSTOM_RANGE.name(), Debugger::launcher());
    launcher.notify_event(Status::DEBUGGER_RELEASE, None, RANGE_CUSTOM, &[target]).wait().unwrap();
    let infos = end.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(value(&infos, keys::NSPACE.name()), Some(&job.as_str().into()));
    assert_eq!(running.finish().success(), "");
}

#[test]
fn a_tool_that_attaches_releases_a_launcher_that_does_not_know_it() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("address");
    let launch = script(&["-n", "1"], "echo \"runs $PMIX_LAUNCHER_PAUSE_FOR_TOOL$PMIX_LAUNCHER_RNDZ_FILE\"");
    let launch = launch.env("PMIX_LAUNCHER_PAUSE_FOR_TOOL", "1").env("PMIX_LAUNCHER_RNDZ_FILE", &file);
    let running = launch.start();
    let tool = Tool::builder().file(&file).retries(600, Duration::from_millis(100)).connect().unwrap();
    let (sender, complete) = mpsc::channel();
    let client = tool.client().unwrap();
    let handler = client.register_event_handler(&[Status::LAUNCH_COMPLETE], &[], move |call| {
        let _ = sender.send(call.info.clone());
        call.complete(Status::SUCCESS, Vec::new());
    });
    handler.wait().unwrap();
    let target = info(keys::EVENT_CUSTOM_RANGE.name(), client.server().clone());
    client.notify_event(Status::DEBUGGER_RELEASE, None, RANGE_CUSTOM, &[target]).wait().unwrap();
    let infos = complete.recv_timeout(Duration::from_secs(60)).unwrap();
    let job = format!("modex-{}", running.child.id());
    assert_eq!(value(&infos, keys::NSPACE.name()), Some(&job.as_str().into()));
    tool.finalize().unwrap();
    let ended = running.finish();
    let waits = "modex: the job waits for a tool; to start it: modex events raise PMIX_DEBUGGER_RELEASE\n";
    assert_eq!((ended.code(), ended.out.as_str(), ended.err.as_str()), (Some(0), "runs \n", waits), "{ended:?}");
}

#[test]
fn directives_that_the_launcher_can_not_honour_are_refused_with_words() {
    let required = Info { flags: InfoFlags::REQUIRED.bits(), ..info(keys::SPAWN_TIMEOUT.name(), 3_i32) };
    for (directive, said, status) in [
        (required, "it requires pmix.sp.time, which modex run does not know", Status::ERR_NOT_SUPPORTED),
        (
            info(keys::DEBUG_STOP_IN_INIT.name(), 7_u32),
            "it has no rank 7, which pmix.dbg.init names",
            Status::ERR_BAD_PARAM,
        ),
    ] {
        let debugger = Debugger::new(vec![directive]);
        let running = debugger.start(script(&["-n", "1"], "echo runs"));
        debugger.release();
        let end = debugger.hears(Status::EVENT_JOB_END);
        assert_eq!(value(&end, keys::JOB_TERM_STATUS.name()), Some(&Value::Status(status.to_raw())));
        let ended = running.finish();
        assert_eq!((ended.code(), ended.out.as_str()), (Some(1), ""), "{ended:?}");
        assert_eq!(ended.err, format!("modex: the job can't start as its tool directs: {said}\n"));
    }
}

#[test]
fn a_launcher_that_waits_ends_with_its_tool() {
    let debugger = Debugger::new(Vec::new());
    let running = debugger.start(script(&["-n", "1"], "echo runs"));
    debugger.server.shutdown();
    let ended = running.finish();
    let gone = "modex: the tool that has started this launcher is gone; the job was not started\n";
    assert_eq!((ended.code(), ended.out.as_str(), ended.err.as_str()), (Some(1), "", gone), "{ended:?}");
    let nowhere = script(&["-n", "1"], "echo runs").env("PMIX_LAUNCHER_RNDZ_URI", "gone.0;tcp4://127.0.0.1:1").run();
    assert_eq!((nowhere.code(), nowhere.out.as_str()), (Some(1), ""), "{nowhere:?}");
    assert!(nowhere.err.starts_with("modex: the launcher can't reach the tool that has started it: "), "{nowhere:?}");
}

#[test]
fn a_signal_ends_a_launcher_that_waits() {
    let debugger = Debugger::new(Vec::new());
    let running = debugger.start(script(&["-n", "1"], "echo runs"));
    running.signal(Signal::SIGTERM);
    let ended = running.finish();
    let said = "modex: received SIGTERM; the job was not started\n";
    assert_eq!((ended.code(), ended.out.as_str(), ended.err.as_str()), (Some(143), "", said), "{ended:?}");
}

/// The launcher heard the signal ten seconds later, and then named the tool as the cause.
#[test]
fn a_signal_ends_a_launcher_whose_tool_does_not_answer() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("silent.0;tcp4://{}", silent.local_addr().unwrap());
    let running = script(&["-n", "1"], "echo runs").env("PMIX_LAUNCHER_RNDZ_URI", address).start();
    let (_connection, _) = silent.accept().unwrap();
    running.signal(Signal::SIGTERM);
    let ended = running.finish();
    let said = "modex: received SIGTERM; the job was not started\n";
    assert_eq!((ended.code(), ended.out.as_str(), ended.err.as_str()), (Some(143), "", said), "{ended:?}");
}

/// The pipe of a tool, as the launcher inherits it. OpenPMIx gives it the writing end.
fn inherited_pipe(is_writing_end: bool) -> (OwnedFd, OwnedFd) {
    let (reading, writing) = pipe2(OFlag::O_CLOEXEC).unwrap();
    let (inherited, own) = if is_writing_end { (writing, reading) } else { (reading, writing) };
    fcntl(&inherited, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    (inherited, own)
}

#[test]
fn the_pipe_of_a_tool_ends_the_launcher_and_its_job() {
    for is_writing_end in [false, true] {
        let (inherited, own) = inherited_pipe(is_writing_end);
        let number = inherited.as_raw_fd().to_string();
        let pipe = fs::read_link(format!("/proc/self/fd/{number}")).unwrap();
        // The ranks get neither the variable nor the descriptor.
        let find = format!("ls -l /proc/$$/fd 2>/dev/null | grep -F '{}'", pipe.display());
        let words = format!("{find}; echo \"runs $PMIX_KEEPALIVE_PIPE\"; exec sleep 1000");
        let launch = script(&["-n", "1", "--grace", "20"], &words);
        let mut running = launch.env("PMIX_KEEPALIVE_PIPE", &number).start();
        assert_eq!(running.line(), "runs \n");
        drop(File::from(own));
        let ended = running.finish();
        let gone = "modex: the tool that has started this launcher is gone; 1 rank gets 20 s to end\n";
        assert_eq!((ended.code(), ended.err.as_str()), (Some(1), gone), "{ended:?}");
    }
}
