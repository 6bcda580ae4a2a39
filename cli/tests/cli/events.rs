//! `modex events`, and the events that the launcher raises about its jobs.

use std::sync::mpsc;
use std::time::Duration;

use modex::types::codes::range::{RANGE_NAMESPACE, RANGE_PROC_LOCAL};
use modex::types::{Info, InfoFlags, Key, ProcId, Status, Value};
use modex::{AsStatus, Client, FenceOptions, keys};

use crate::launch::{Ended, Running, modex, role, script};

/// A job that goes on when its file exists.
struct Job {
    running: Running,
    place: tempfile::TempDir,
}

impl Job {
    fn start(options: &[&str], then: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let words = format!("echo; while ! test -e {}/go; do sleep 0.05; done; {then}", place.path().display());
        let mut running = script(options, &words).start();
        // A rank runs, so tools find the server.
        assert_eq!(running.line(), "\n");
        Self { running, place }
    }

    fn name(&self) -> String {
        format!("modex-{}", self.running.child.id())
    }

    /// A `modex events watch` that has registered: the launcher's first event is there.
    fn watch(&self, words: &[&str]) -> Running {
        let watch = modex([&["events", "watch"], words].concat()).env("TMPDIR", self.running.temporary());
        let mut watch = watch.start();
        let first = watch.line();
        assert!(first.contains("PMIX_EVENT_JOB_START") && first.contains(&self.name()), "{first}");
        watch
    }

    fn events(&self, words: &[&str]) -> Ended {
        modex([&["events"], words].concat()).env("TMPDIR", self.running.temporary()).run()
    }

    fn go_on(&self) {
        std::fs::write(self.place.path().join("go"), "").unwrap();
    }
}

/// The word behind `name=` in a line.
fn word<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

#[test]
fn the_stages_of_a_job_are_watched_to_its_end() {
    let job = Job::start(&["-n", "2", "--grace", "20"], "test $PMIX_RANK = 1 && exit 3; exec sleep 1000");
    let mut watch = job.watch(&[]);
    assert!(watch.line().contains(" PMIX_LAUNCH_COMPLETE (-174) "));
    job.go_on();
    let [name, last, first] = [job.name(), format!("{}:0", job.name()), format!("{}:1", job.name())];
    let stages = [
        ("PMIX_EVENT_PROC_TERMINATED (-201)", &first, "PMIX_ERR_EXIT_NONZERO_TERM"),
        ("PMIX_ERR_EXIT_NONZERO_TERM (-404)", &first, "PMIX_ERR_EXIT_NONZERO_TERM"),
        ("PMIX_EVENT_PROC_TERMINATED (-201)", &last, "PMIX_ERR_PROC_KILLED_BY_CMD"),
        ("PMIX_ERR_PROC_KILLED_BY_CMD (-400)", &last, "PMIX_ERR_PROC_KILLED_BY_CMD"),
    ];
    let ended = watch.finish();
    assert_eq!((ended.code(), ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let lines: Vec<&str> = ended.out.lines().collect();
    assert_eq!(lines.len(), 5, "{ended:?}");
    for (line, (code, affected, status)) in lines.iter().zip(stages) {
        assert!(line.contains(code), "{line}");
        assert_eq!(word(line, "affected"), Some(affected.as_str()), "{line}");
        assert_eq!(word(line, "pmix.proc.term.status"), Some(status), "{line}");
    }
    let end = lines[4];
    // Daemons of PRRTE's debuggers look for the job there.
    assert!(end.contains(&format!(" PMIX_EVENT_JOB_END (-145) source={name}:0 ")), "{end}");
    assert_eq!(word(end, "affected"), Some(format!("{name}:*").as_str()), "{end}");
    assert_eq!(word(end, "pmix.job.term.status"), Some("PMIX_ERR_JOB_NON_ZERO_TERM"), "{end}");
    assert_eq!((word(end, "pmix.exit.code"), word(end, "pmix.procid")), (Some("3"), Some(first.as_str())), "{end}");
    assert!(end.ends_with("pmix.evtext=\"rank 1 exited with status 3\""), "{end}");
    assert_eq!(job.running.finish().code(), Some(3));
}

#[test]
fn an_event_is_raised_and_watched() {
    let job = Job::start(&["-n", "2"], "exit 0");
    let mut watch = job.watch(&["--json", "--count", "4"]);
    assert!(watch.line().contains("PMIX_LAUNCH_COMPLETE"));
    let details = ["--info", "PMIX_EVENT_AFFECTED_PROC=other:3", "--info", "PMIX_EVENT_TEXT_MESSAGE=hello you"];
    assert_eq!(job.events(&[&["raise", "4711"], &details[..]].concat()).success(), "");
    // The tool is no rank of the job, so it does not get this one.
    assert_eq!(job.events(&["raise", "4712", "-n", &job.name(), "-r", "0-1"]).success(), "");
    let missing = job.events(&["raise", "4712", "-n", &job.name(), "-r", "0,7"]);
    let said = format!("warning: namespace {} has no rank 7; its ranks are 0 to 1; ", job.name());
    assert!(missing.code() == Some(0) && missing.err.starts_with(&said), "{missing:?}");
    assert_eq!(job.events(&["raise", "event_job_end", "--info", "PMIX_EVENT_NON_DEFAULT"]).success(), "");
    let [first, second] = [watch.line(), watch.line()];
    for part in [
        "\"code\":4711",
        "\"status\":null",
        "\"affected\":[{\"namespace\":\"other\",\"rank\":3}]",
        "\"value\":\"hello you\"",
        "\"source\":{\"namespace\":\"tool-",
    ] {
        assert!(first.contains(part), "{part}: {first}");
    }
    assert!(second.contains("\"status\":\"PMIX_EVENT_JOB_END\""), "{second}");
    watch.finish().success();
    // The server has kept the first event. It is about another job.
    let kept = job.events(&["watch", "4711", "--count", "1"]).success();
    assert!(kept.contains(" unnamed status (4711) source=tool-") && kept.contains(" affected=other:3 "), "{kept}");
    let ended = job.events(&["watch", "4711", "-n", &job.name(), "--count", "1", "--timeout", "0"]);
    assert_eq!((ended.code(), ended.err.as_str()), (Some(1), "modex: 0 of 1 events came\n"), "{ended:?}");
    assert_eq!(job.events(&["watch", "4712", "--timeout", "0"]).success(), "");
    job.go_on();
    job.running.finish();
}

/// The launcher is the host, so it takes the events for the host alone. They were refused.
#[test]
fn an_event_for_the_host_alone_is_accepted() {
    let job = Job::start(&["-n", "1"], "exit 0");
    assert_eq!(job.events(&["raise", "1", "--range", "rm"]).success(), "");
    job.go_on();
    job.running.finish();
}

#[test]
fn a_wrong_word_about_events_is_explained() {
    let job = Job::start(&["-n", "1"], "exit 0");
    for (words, code, said) in [
        (&["raise", "PMIX_EVENT_JBO_END"][..], 2, "is no status code; did you mean PMIX_EVENT_JOB_END?"),
        (&["watch", "PROC_TERMINATET"], 2, "is no status code; did you mean PMIX_PROC_TERMINATED?"),
        (&["raise", "1", "--info", "PMIX_EVENT_AFFECTED_PROC=job"], 2, "\"job\" is not a process"),
        (&["raise", "1", "-n", "job", "-r", "x"], 2, "\"x\" is not a list of ranks"),
        (&["raise", "1", "-r", "0"], 2, "--job <NAMESPACE>"),
        (&["watch", "PMIX_EVENT_NODE_DOWN"], 1, "PMIX_ERR_NOT_SUPPORTED"),
        (&["watch", "--count", "0"], 2, "0 is not in 1.."),
    ] {
        let ended = job.events(words);
        assert!(ended.code() == Some(code) && ended.err.contains(said) && ended.out.is_empty(), "{words:?}: {ended:?}");
    }
    job.go_on();
    job.running.finish();
}

/// A launcher stopped by Ctrl-Z left the commands waiting for ever.
#[test]
fn a_stopped_server_is_not_awaited_for_long() {
    let job = Job::start(&["-n", "1"], "exit 0");
    let pid = job.running.child.id().to_string();
    job.running.signal(nix::sys::signal::Signal::SIGSTOP);
    for words in [&["watch", "--timeout", "1"][..], &["raise", "99"]] {
        let ended = job.events(&[words, &["--pid", &pid]].concat());
        assert!(ended.code() == Some(1) && ended.out.is_empty(), "{ended:?}");
    }
    job.running.signal(nix::sys::signal::Signal::SIGCONT);
    job.go_on();
    job.running.finish();
}

#[test]
fn a_watch_ends_well_when_its_reader_has_gone() {
    let job = Job::start(&["-n", "1"], "exit 0");
    let mut watch = job.watch(&[]);
    assert!(watch.line().contains("PMIX_LAUNCH_COMPLETE"));
    watch.out = std::io::BufReader::new(Box::new(std::io::empty()));
    assert_eq!(job.events(&["raise", "4711"]).success(), "");
    watch.finish().success();
    job.go_on();
    job.running.finish();
}

pub(crate) fn hear_the_end_of_another() {
    let client = Client::connect().unwrap();
    let all = FenceOptions::new();
    if client.proc().rank.process() == Some(1) {
        client.fence(&all).wait().unwrap();
        client.finalize().unwrap();
        return;
    }
    let (sender, heard) = mpsc::channel();
    let by_default = sender.clone();
    let named = client.register_event_handler(&[Status::EVENT_PROC_TERMINATED], &[], move |call| {
        let of = |key: &str| call.info.iter().find(|info| info.key.as_str() == key).map(|info| info.value.clone());
        let about = of(keys::EVENT_AFFECTED_PROC.name());
        let _ = sender.send((call.status, about, of(keys::PROC_TERM_STATUS.name())));
        call.complete(Status::SUCCESS, Vec::new());
    });
    named.wait().unwrap();
    let default = client.register_event_handler(&[], &[], move |call| {
        let _ = by_default.send((call.status, None, None));
        call.complete(Status::SUCCESS, Vec::new());
    });
    default.wait().unwrap();
    client.fence(&all).wait().unwrap();
    let other = ProcId::new(client.proc().namespace.clone(), 1);
    let ended = (Status::EVENT_PROC_TERMINATED, Some(Value::from(other)), Some(Value::Status(0)));
    assert_eq!(heard.recv_timeout(Duration::from_secs(60)), Ok(ended));
    // Handlers run one after the other, so the default handler would have been called before this one.
    client.notify_event(Status::from_raw(4711), None, RANGE_PROC_LOCAL, &[]).wait().unwrap();
    assert_eq!(heard.recv_timeout(Duration::from_secs(60)), Ok((Status::from_raw(4711), None, None)));
    client.finalize().unwrap();
}

/// Programs of MPI end in their default handlers, so these must not see the launcher's events.
#[test]
fn a_rank_hears_of_the_end_of_another_only_by_the_code() {
    let ended = role(&["-n", "2"], "hear the end of another").run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
}

pub(crate) fn raise_what_nobody_honours() {
    let client = Client::connect().unwrap();
    let data = |number: u32| Info::new(Key::new("my.own").unwrap(), number);
    let raise = |info: Info| client.notify_event(Status::from_raw(4711), None, RANGE_NAMESPACE, &[info]).wait();
    let (sender, heard) = mpsc::channel();
    let handler = client.register_event_handler(&[Status::from_raw(4711)], &[], move |call| {
        let _ = sender
            .send(call.info.iter().find(|info| info.key.as_str() == "my.own").and_then(|info| info.value.as_u32()));
        call.complete(Status::SUCCESS, Vec::new());
    });
    handler.wait().unwrap();
    raise(data(1)).unwrap();
    let refused = raise(Info { flags: InfoFlags::REQUIRED.bits(), ..data(2) }).unwrap_err();
    assert_eq!(refused.status(), Status::ERR_NOT_SUPPORTED);
    raise(data(3)).unwrap();
    let numbers = [(); 2].map(|()| heard.recv_timeout(Duration::from_secs(60)).unwrap());
    assert_eq!(numbers, [Some(1), Some(3)]);
    client.finalize().unwrap();
}

/// Regression: the launcher answered with success, and later, handlers got the event before its refusal.
#[test]
fn a_required_info_of_an_event_that_nobody_honours_is_refused() {
    let ended = role(&[], "raise what nobody honours").run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
}
