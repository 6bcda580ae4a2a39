//! Output that processes pull, and input that they push (`PMIx_IOF_pull`, `PMIx_IOF_push`, `modex output`).

use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use modex::types::codes::iof_channel;
use modex::types::{App, Info, InfoFlags, Key, Namespace, ProcId, Rank, Status, Text, Value};
use modex::{AsStatus, Client, FenceOptions, IofOutput, Tool, keys};

use crate::launch::{Launch, ROLE, Running, modex, script, wait_until};

const OUT: u16 = iof_channel::FWD_STDOUT_CHANNEL;

/// Time for a piece of output.
const PIECE_TIME_MAX: Duration = Duration::from_secs(20);

fn info(key: &'static str, value: impl Into<Value>) -> Info {
    Info::new(Key::from_static(key), value)
}

fn required(info: Info) -> Info {
    Info { flags: InfoFlags::REQUIRED.bits(), ..info }
}

/// `modex output` for a launcher's job.
fn output(launcher: &Running, words: &[&str]) -> Launch {
    let job = format!("modex-{}", launcher.child.id());
    modex([&["output", &job], words].concat()).env("TMPDIR", launcher.temporary())
}

/// Ranks that are this test binary with a task, and further programs.
fn run(options: &[&str], task: &str, others: &[&str]) -> Launch {
    let this = std::env::current_exe().unwrap();
    let words = [this.to_str().unwrap(), "--exact", "client_process", "--nocapture"];
    modex([&["run"], options, &["--"], &words, others].concat()).env(ROLE, task)
}

/// Waits until a rank has started: its launcher can be found.
fn started(options: &[&str], text: &str) -> Running {
    let mut running = script(options, &format!("echo ready; {text}")).start();
    assert_eq!(running.line(), "ready\n");
    running
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_tool_shows_a_copy_of_what_ranks_print_and_gives_them_input() {
    let launcher = started(&["-n", "1", "--stdin", "tools"], "read a; echo \"out $a\"; echo err >&2; cat");
    let ended = output(&launcher, &["--tag-output", "--stdin"]).input("go\nrest").run();
    assert_eq!((ended.code(), ended.err.as_str()), (Some(0), "[0,stderr] err\n"), "{ended:?}");
    assert_eq!(ended.out, "[0,stdout] out go\n[0,stdout] rest\n");
    let ended = launcher.finish();
    assert_eq!((ended.code(), ended.out.as_str(), ended.err.as_str()), (Some(0), "out go\nrest", "err\n"));
}

#[test]
fn the_other_name_of_the_command_takes_the_job_as_an_option() {
    let launcher = started(&["-n", "1", "--stdin", "tools"], "read a; echo \"out $a\"");
    let job = format!("modex-{}", launcher.child.id());
    let tool = modex(["io", "-n", &job, "-r", "0", "--stdin"]).env("TMPDIR", launcher.temporary());
    let ended = tool.input("go\n").run();
    assert_eq!((ended.code(), ended.out.as_str()), (Some(0), "out go\n"), "{ended:?}");
    assert_eq!(launcher.finish().code(), Some(0));
}

#[test]
fn input_goes_to_all_ranks_and_output_to_some() {
    let text = "while read a && test $a != one -a $a != all; do echo $a; done; echo \"$PMIX_RANK $a\"";
    let mut launcher = started(&["-n", "3", "--stdin", "tools"], text);
    assert_eq!([launcher.line(), launcher.line()], ["ready\n"; 2]);
    let mut watching = output(&launcher, &["-r", "0,2"]).start();
    // The ranks go on until the tool watches them.
    let mut ticking = output(&launcher, &["-r", "0", "--stdin"]).open_input().start();
    let (mut ticks, is_watched) = (ticking.child.stdin.take().unwrap(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_watched.load(Ordering::Relaxed) {
                ticks.write_all(b"tick\n").unwrap();
                // A flood would fill the launcher's own output, which nobody reads yet.
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        assert_eq!(watching.line(), "tick\n");
        is_watched.store(true, Ordering::Relaxed);
    });
    // Input of two tools is not kept apart in lines, so the first one's has to have arrived.
    ticks.write_all(b"last\n").unwrap();
    while watching.line() != "last\n" {}
    let ended = output(&launcher, &["-r", "1", "--stdin"]).input("one\n").run();
    assert_eq!((ended.code(), ended.out.as_str()), (Some(0), "1 one\n"), "{ended:?}");
    let ended = output(&launcher, &["--stdin"]).input("all\n").run();
    assert!(ended.code() == Some(0) && ended.out.contains("0 all\n"), "{ended:?}");
    let watched = watching.finish();
    assert!(watched.code() == Some(0) && !watched.out.contains("1 one"), "{watched:?}");
    // The end of this input would be the end of the rank's.
    drop(ticks);
    let ticked = ticking.finish();
    assert_eq!(ticked.code(), Some(0), "{ticked:?}");
    let mut printed = launcher.finish().success();
    printed = printed.replace("tick\n", "").replace("last\n", "");
    assert_eq!(sorted(&printed), ["0 all", "1 one", "2 all"]);
}

#[test]
fn input_still_goes_to_the_others_when_one_of_its_ranks_has_ended() {
    let text = "read a; echo \"$PMIX_RANK $a\"; test $PMIX_RANK = 0 || { read b; echo \"more $b\"; }";
    let mut launcher = started(&["-n", "3", "--stdin", "tools"], text);
    assert_eq!([launcher.line(), launcher.line()], ["ready\n"; 2]);
    let mut tool = output(&launcher, &["-r", "0,1", "--stdin"]).open_input().start();
    tool.child.stdin.as_mut().unwrap().write_all(b"one\n").unwrap();
    assert_eq!(launcher.line().len() + launcher.line().len(), 12);
    std::thread::sleep(Duration::from_millis(500));
    tool.child.stdin.as_mut().unwrap().write_all(b"two\n").unwrap();
    let ended = tool.finish();
    assert!(ended.code() == Some(0) && ended.out.contains("more two\n"), "{ended:?}");
    launcher.kill_launcher();
}

#[test]
fn redirected_output_comes_back_when_its_tool_has_gone() {
    let launcher = started(&["--stdin", "tools"], "read a; echo one; echo half >&2; read b; echo two");
    let mut tool = output(&launcher, &["-r", "0", "--redirect", "--stdin"]).open_input().start();
    tool.child.stdin.as_mut().unwrap().write_all(b"a\n").unwrap();
    assert_eq!((tool.line(), tool.error_line()), ("one\n".to_owned(), "half\n".to_owned()));
    tool.kill_launcher();
    let ended = output(&launcher, &["--stdin"]).input("b\n").run();
    assert_eq!((ended.code(), ended.out.as_str()), (Some(0), "two\n"), "{ended:?}");
    assert_eq!(launcher.finish().success(), "two\n");
}

/// A reader that never reads must hold up neither ranks nor launcher.
#[test]
fn a_tool_that_does_not_read_holds_up_nobody() {
    let text = "read a; yes $(printf '%01000d' 0) | head -c 60000000; echo end >&2";
    let launcher = script(&["--stdin", "tools"], &format!("echo ready >&2; {text}")).out_to(Stdio::null()).start();
    let mut launcher = launcher;
    assert_eq!(launcher.error_line(), "ready\n");
    let tool = output(&launcher, &["--stdin"]).input("go\n").start();
    let ended = launcher.finish();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(ended.err.ends_with("end\n"), "{}", ended.err);
    let shown = tool.finish();
    assert!(shown.out.len() < 60_000_000, "{}", shown.out.len());
}

/// The gap was silent: nothing said that the file of a reader was not whole.
#[test]
fn a_tool_that_reads_again_says_how_much_it_has_missed() {
    let text = "read a; yes $(printf '%0999d' 0) | head -c 60000000; echo end >&2; read b; echo last";
    let script = script(&["--stdin", "tools"], &format!("echo ready >&2; {text}"));
    let mut launcher = script.out_to(Stdio::null()).start();
    assert_eq!(launcher.error_line(), "ready\n");
    let mut tool = output(&launcher, &["-r", "0", "--stdin"]).open_input().start();
    tool.child.stdin.as_mut().unwrap().write_all(b"a\n").unwrap();
    // Lines of the log about the tool come before.
    let lines = std::iter::from_fn(|| Some(launcher.error_line()).filter(|line| !line.is_empty()));
    assert!(lines.into_iter().any(|line| line == "end\n"));
    // The server has room for the last line when most of what waits was read.
    tool.out.read_exact(&mut vec![0; 30_000_000]).unwrap();
    tool.child.stdin.as_mut().unwrap().write_all(b"b\n").unwrap();
    let shown = tool.finish();
    assert!(shown.code() == Some(0) && shown.out.ends_with("last\n"), "{}", shown.err);
    let mut words = shown.err.lines().find(|line| line.contains("missing")).unwrap().split(' ');
    let missed: usize = words.find_map(|word| word.parse().ok()).unwrap();
    assert_eq!(30_000_000 + shown.out.len() + missed, 60_000_005, "{}", shown.err);
    assert_eq!(launcher.finish().code(), Some(0));
}

#[test]
fn refusals_are_in_words() {
    let launcher = started(&["-n", "1", "--stdin", "none"], "sleep 1000");
    let ended = output(&launcher, &["--stdin"]).input("go\n").run();
    assert_eq!((ended.code(), ended.out.as_str()), (Some(1), ""));
    assert!(ended.err.contains("takes no input, or its input has ended (PMIX_ERR_IOF_COMPLETE"), "{}", ended.err);
    let ended = output(&launcher, &["-r", "7"]).run();
    assert!(ended.code() == Some(1) && ended.err.contains("no such rank runs (PMIX_ERR_NOT_FOUND"), "{ended:?}");
    let ended = modex(["output", "nobodys"]).env("TMPDIR", launcher.temporary()).run();
    assert!(ended.code() == Some(1) && ended.err.contains("no job nobodys of this user runs here"), "{ended:?}");
    launcher.kill_launcher();
}

fn push(client: &Client, target: &ProcId, directives: Vec<Info>, bytes: &[u8]) -> Result<(), Status> {
    let pushed = client.iof_push(vec![target.clone()], directives, bytes.to_vec()).wait();
    pushed.map_err(|error| error.status())
}

/// Pulls standard output, and hands out its pieces.
fn pull(client: &Client, source: ProcId, directives: Vec<Info>) -> Result<(u64, Receiver<IofOutput>), Status> {
    let (sender, pieces) = mpsc::channel();
    let take = move |output| drop(sender.send(output));
    let pulled = client.iof_pull(vec![source], directives, OUT, take).wait();
    pulled.map(|id| (id, pieces)).map_err(|error| error.status())
}

/// The output until its end.
fn text_of(pieces: &Receiver<IofOutput>) -> String {
    let mut text = Vec::new();
    loop {
        let piece = pieces.recv_timeout(PIECE_TIME_MAX).unwrap();
        if piece.bytes.is_empty() {
            assert_eq!(piece.info, [info(keys::IOF_COMPLETE.name(), true)]);
            return String::from_utf8(text).unwrap();
        }
        text.extend(piece.bytes);
    }
}

pub(crate) fn ask_for_what_can_not_be() {
    let client = Client::connect().unwrap();
    if client.proc().rank == Rank::Process(0) {
        ask(&client);
    }
    client.fence(&FenceOptions::new()).wait().unwrap();
    client.finalize().unwrap();
}

fn ask(client: &Client) {
    let rank = |rank: u32| ProcId::new(client.proc().namespace.clone(), rank);
    let everybody = ProcId { namespace: client.proc().namespace.clone(), rank: Rank::Wildcard };
    // The launcher's input has ended at once, and that of rank 0 with it.
    wait_until(|| push(client, &rank(0), Vec::new(), b"a") == Err(Status::ERR_IOF_COMPLETE));
    let drop_oldest = || vec![required(info(keys::IOF_DROP_OLDEST.name(), true))];
    for (target, directives, bytes, expected) in [
        (everybody, vec![], &b"a"[..], Status::ERR_IOF_COMPLETE),
        (rank(1), vec![], b"a", Status::ERR_IOF_COMPLETE),
        (rank(9), vec![], b"a", Status::ERR_NOT_FOUND),
        (rank(0), drop_oldest(), b"a", Status::ERR_NOT_SUPPORTED),
        (rank(0), vec![info(keys::IOF_COMPLETE.name(), "yes")], b"a", Status::ERR_BAD_PARAM),
        (rank(0), vec![], &vec![0; (1 << 20) + 1], Status::ERR_OUT_OF_RESOURCE),
    ] {
        assert_eq!(push(client, &target, directives, bytes), Err(expected), "{target}");
    }
    // Nothing is kept or collected without output for the spawner.
    assert_eq!(spawn(client, "true", drop_oldest()), Err(Status::ERR_NOT_SUPPORTED));
    let shown = [drop_oldest(), vec![info(keys::FWD_STDOUT.name(), true)]].concat();
    assert!(spawn(client, "true", shown).is_ok());
    let [copy, redirect, xml] = [keys::IOF_COPY.name(), keys::IOF_REDIRECT.name(), keys::IOF_XML_OUTPUT.name()]
        .map(|key| required(info(key, true)));
    for (source, directives, expected) in [
        (rank(1), vec![copy, redirect], Status::ERR_BAD_PARAM),
        (rank(1), vec![xml], Status::ERR_NOT_SUPPORTED),
        (rank(9), vec![], Status::ERR_NOT_FOUND),
    ] {
        assert_eq!(pull(client, source, directives).map(|(id, _)| id), Err(expected));
    }
}

#[test]
fn requests_that_can_not_be_fulfilled_are_refused() {
    let ended = run(&["-n", "2"], "ask for what can not be", &[]).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
}

pub(crate) fn pull_what_has_ended() {
    let client = Client::connect().unwrap();
    let source = || ProcId::new(client.proc().namespace.clone(), 1);
    // The rank may have printed before the pull.
    let (id, pieces) = pull(&client, source(), Vec::new()).unwrap();
    assert!(["", "hi\n"].contains(&text_of(&pieces).as_str()));
    client.iof_deregister(id, Vec::new()).wait().unwrap();
    let (_, pieces) = pull(&client, source(), vec![required(info(keys::IOF_REDIRECT.name(), true))]).unwrap();
    assert_eq!(text_of(&pieces), "");
    client.finalize().unwrap();
}

#[test]
fn the_end_of_an_output_is_reported_also_if_it_was_before_the_pull() {
    let ended = run(&["-n", "1"], "pull what has ended", &[":", "-n", "1", "echo", "hi"]).run();
    assert!(ended.code() == Some(0) && ended.out.contains("hi\n"), "{ended:?}");
}

fn spawn(client: &Client, script: &str, job: Vec<Info>) -> Result<Namespace, Status> {
    let app = App {
        command: Some(Text::from("sh")),
        argv: ["sh", "-c", script].map(Text::from).into(),
        environment: Vec::new(),
        working_directory: None,
        processes_max: 2,
        info: Vec::new(),
    };
    client.spawn(job, vec![app]).wait().map_err(|error| error.status())
}

pub(crate) fn talk_to_a_spawned_job() {
    let client = Client::connect().unwrap();
    let target = |rank: Value| required(info(keys::STDIN_TGT.name(), rank));
    let forward = |key: &'static str| required(info(key, true));
    let job = |target: Info| {
        let forwarded = [keys::FWD_STDIN.name(), keys::FWD_STDOUT.name(), keys::IOF_REDIRECT.name()].map(forward);
        [&[target], &forwarded[..]].concat()
    };
    let script = "echo early; if test $PMIX_RANK = 1; then read a; echo \"got $a\"; cat; fi";
    for target in [target(Value::ProcRank(Rank::Process(2))), target("nobody".into())] {
        assert_eq!(spawn(&client, script, job(target)), Err(Status::ERR_BAD_PARAM));
    }
    let diagnostics = vec![forward(keys::FWD_STDDIAG.name())];
    assert_eq!(spawn(&client, script, diagnostics), Err(Status::ERR_NOT_SUPPORTED));
    let namespace = spawn(&client, script, job(target(Value::ProcRank(Rank::Process(1))))).unwrap();
    let [zero, one] = [0, 1].map(|rank| ProcId::new(namespace.clone(), rank));
    let (_, pieces) = pull(&client, one.clone(), Vec::new()).unwrap();
    assert_eq!(push(&client, &zero, Vec::new(), b"no").map_err(|_| ()), Err(()));
    push(&client, &one, Vec::new(), b"go\nre").unwrap();
    push(&client, &one, vec![info(keys::IOF_COMPLETE.name(), true)], b"st\n").unwrap();
    assert_eq!(text_of(&pieces), "early\ngot go\nrest\n");
    // A job may end before its spawner knows its name.
    let job = vec![required(info(keys::FWD_STDOUT.name(), true))];
    let namespace = spawn(&client, "test $PMIX_RANK = 1 || echo short", job).unwrap();
    let (_, pieces) = pull(&client, ProcId::new(namespace, 0), Vec::new()).unwrap();
    assert_eq!(text_of(&pieces), "short\n");
    // Each rank has a pull of its own, also when the job has ended.
    let job = vec![required(info(keys::FWD_STDOUT.name(), true))];
    let namespace = spawn(&client, "echo $PMIX_RANK", job).unwrap();
    for rank in [0, 1] {
        let (_, pieces) = pull(&client, ProcId::new(namespace.clone(), rank), Vec::new()).unwrap();
        assert_eq!(text_of(&pieces), format!("{rank}\n"));
    }
    client.finalize().unwrap();
}

#[test]
fn a_spawner_gets_the_output_of_its_job_from_the_beginning_and_gives_it_input() {
    let ended = run(&[], "talk to a spawned job", &[]).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(ended.out.contains("short\n") && !ended.out.contains("early"), "{ended:?}");
}

pub(crate) fn spawn_under_a_tools_eyes() {
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let client = Client::connect().unwrap();
    let refused = required(info(keys::IOF_INHERIT.name(), false));
    for (said, job) in [("seen", Vec::new()), ("unseen", vec![refused])] {
        let script = format!("until test -e {said}; do sleep 0.02; done; echo {said} $PMIX_RANK");
        let here = info(keys::WDIR.name(), std::env::current_dir().unwrap().to_str().unwrap());
        let job = spawn(&client, &script, [job, vec![here]].concat()).unwrap();
        let pulled = [0, 1].map(|rank| pull(&client, ProcId::new(job.clone(), rank), Vec::new()).unwrap());
        std::fs::write(said, "").unwrap();
        // The end comes after the output, to the tool, too.
        let texts = pulled.map(|(_, pieces)| text_of(&pieces));
        assert_eq!(texts, [0, 1].map(|rank| format!("{said} {rank}\n")));
    }
    client.finalize().unwrap();
}

/// `modex output` showed nothing of the jobs that its ranks started.
#[test]
fn a_tool_shows_the_output_of_jobs_that_its_ranks_spawn() {
    let directory = tempfile::tempdir().unwrap();
    let options = ["--stdin", "tools", "--wdir", directory.path().to_str().unwrap()];
    let mut launcher = run(&options, "spawn under a tool's eyes", &[]).start();
    let lines = std::iter::from_fn(|| Some(launcher.line()).filter(|line| !line.is_empty()));
    assert!(lines.into_iter().any(|line| line.ends_with("ready\n")));
    let shown = output(&launcher, &["--tag-output", "--stdin"]).input("go\n").run();
    let job = format!("modex-{}-1", launcher.child.id());
    let seen: Vec<&str> = shown.out.lines().filter(|line| line.contains("seen")).collect();
    let expected = [0, 1].map(|rank| format!("[{job} {rank},stdout] seen {rank}"));
    assert_eq!(
        (shown.code(), sorted(&seen.join("\n"))),
        (Some(0), expected.iter().map(String::as_str).collect()),
        "{shown:?}"
    );
    let ended = launcher.finish();
    assert!(ended.code() == Some(0) && ended.out.contains("seen 1\n") && ended.out.contains("unseen 0\n"), "{ended:?}");
}

pub(crate) fn spawn_for_a_tool() {
    let client = Client::connect().unwrap();
    spawn(&client, "echo unseen", vec![info(keys::IOF_INHERIT.name(), false)]).unwrap();
    spawn(&client, "echo spawned", Vec::new()).unwrap();
    client.finalize().unwrap();
}

/// Regression: the tool got the output of its own job only with `PMIX_FWD_STDOUT`, and that of further jobs only by a
/// pull.
#[test]
fn a_tool_gets_the_output_of_its_job_and_of_the_jobs_that_this_spawns() {
    let launcher = started(&["-n", "1", "--stdin", "tools"], "read a");
    let tool = Tool::builder().pid(launcher.child.id()).env([("TMPDIR", launcher.temporary())]).connect().unwrap();
    let client = tool.client().unwrap();
    let (sender, pieces) = mpsc::channel();
    client.take_output(move |output| drop(sender.send(output))).unwrap();
    let this = Text::from(std::env::current_exe().unwrap().to_str().unwrap());
    let app = App {
        command: Some(this.clone()),
        argv: [vec![this], ["--exact", "client_process", "--nocapture"].map(Text::from).into()].concat(),
        environment: vec![Text::from(format!("{ROLE}=spawn for a tool").as_str())],
        working_directory: None,
        processes_max: 1,
        info: Vec::new(),
    };
    let job = client.spawn(Vec::new(), vec![app]).wait().unwrap();
    let (mut own, mut of_spawned, mut ends) = (Vec::new(), Vec::new(), 0);
    // Each of the two ranks of the spawned job ends both of its outputs.
    while ends < 4 || !String::from_utf8_lossy(&own).contains("test result") {
        let IofOutput { source, bytes, .. } = pieces.recv_timeout(PIECE_TIME_MAX).unwrap();
        if source.namespace == job {
            own.extend(bytes);
        } else {
            ends += usize::from(bytes.is_empty());
            of_spawned.extend(bytes);
        }
    }
    assert_eq!(String::from_utf8(of_spawned).unwrap(), "spawned\n".repeat(2));
    tool.finalize().unwrap();
    let ended = output(&launcher, &["--stdin"]).input("go\n").run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(launcher.finish().out.contains("unseen"));
}

/// A program that read its input saw the end at once, and OpenPMIx's `prun` hung after the refused push.
#[test]
fn rank_zero_of_a_tools_job_reads_what_the_tool_pushes_until_it_goes() {
    let mut launcher = started(&["-n", "1", "--stdin", "tools"], "read a");
    let connect = |launcher: &Running| {
        Tool::builder().pid(launcher.child.id()).env([("TMPDIR", launcher.temporary())]).connect().unwrap()
    };
    let tool = connect(&launcher);
    let client = tool.client().unwrap();
    let outlives = vec![required(info(keys::NOHUP.name(), true))];
    let job = spawn(&client, "cat; echo \"end of $PMIX_RANK\"", outlives).unwrap();
    let rank = |rank| ProcId::new(job.clone(), rank);
    assert_eq!(push(&client, &rank(1), Vec::new(), b"a"), Err(Status::ERR_IOF_COMPLETE), "no pipe");
    assert_eq!(push(&client, &rank(2), Vec::new(), b"a"), Err(Status::ERR_NOT_FOUND), "no such rank");
    push(&client, &rank(0), Vec::new(), b"pushed\n").unwrap();
    let second = connect(&launcher);
    let without = vec![info(keys::FWD_STDIN.name(), false)];
    let closed = spawn(&second.client().unwrap(), "cat", without).unwrap();
    let closed = ProcId::new(closed, 0);
    wait_until(|| push(&second.client().unwrap(), &closed, Vec::new(), b"a") == Err(Status::ERR_IOF_COMPLETE));
    // The end of another tool changes nothing.
    second.finalize().unwrap();
    push(&client, &rank(0), Vec::new(), b"more\n").unwrap();
    tool.finalize().unwrap();
    let mut lines = [launcher.line(), launcher.line(), launcher.line(), launcher.line()];
    lines.sort_unstable();
    assert_eq!(lines, ["end of 0\n", "end of 1\n", "more\n", "pushed\n"]);
    let third = connect(&launcher);
    wait_until(|| push(&third.client().unwrap(), &rank(0), Vec::new(), b"a") == Err(Status::ERR_IOF_COMPLETE));
    let unknown = ProcId::new(Namespace::new(&format!("modex-{}-9", launcher.child.id())).unwrap(), 0);
    assert_eq!(push(&third.client().unwrap(), &unknown, Vec::new(), b"a"), Err(Status::ERR_NOT_FOUND));
    launcher.kill_launcher();
}

/// A tool at a launcher.
fn tool_at(launcher: &Running) -> Tool {
    Tool::builder().pid(launcher.child.id()).env([("TMPDIR", launcher.temporary())]).connect().unwrap()
}

/// The directives did nothing.
#[test]
fn a_spawn_gives_the_output_of_its_job_a_form() {
    let mut launcher = script(&["-n", "1", "--stdin", "tools", "--tag-output"], "echo ready; read a").start();
    assert_eq!(launcher.line(), "[0,stdout] ready\n");
    let tool = tool_at(&launcher);
    let client = tool.client().unwrap();
    let script = "test $PMIX_RANK = 1 || echo err >&2";
    let set = |key: &'static str, value: bool| required(info(key, value));
    let bare = vec![set(keys::IOF_TAG_OUTPUT.name(), false), set(keys::MERGE_STDERR_STDOUT.name(), true)];
    spawn(&client, script, bare).unwrap();
    assert_eq!(launcher.line(), "err\n", "standard output, without a tag");
    let full = vec![set(keys::IOF_TIMESTAMP_OUTPUT.name(), true), set(keys::IOF_RANK_OUTPUT.name(), true)];
    spawn(&client, script, full).unwrap();
    let line = launcher.error_line();
    assert!(line.starts_with("20") && line.ends_with("Z [2:0,stderr] err\n"), "{line}");
    let detailed =
        vec![set(keys::IOF_TAG_DETAILED_OUTPUT.name(), true), set(keys::IOF_TAG_FULLNAME_OUTPUT.name(), true)];
    let job = spawn(&client, "test $PMIX_RANK = 1 || echo $$", detailed).unwrap();
    let line = launcher.line();
    let pid = line.trim_end().rsplit_once(' ').unwrap().1;
    let (start, end) = (format!("[{job}:0 "), format!(":{pid},stdout] {pid}\n"));
    assert!(line.starts_with(&start) && line.ends_with(&end), "{line}");
    let xml = vec![set(keys::IOF_XML_OUTPUT.name(), true)];
    let job = spawn(&client, "test $PMIX_RANK = 1 || echo \"<$PMIX_RANK>\"", xml).unwrap();
    assert_eq!(launcher.line(), format!("<stdout nspace=\"{job}\" rank=\"0\">&lt;0&gt;&#010;</stdout>\n"));
    let both = vec![set(keys::IOF_XML_OUTPUT.name(), true), set(keys::IOF_TAG_DETAILED_OUTPUT.name(), true)];
    let job = spawn(&client, "test $PMIX_RANK = 1 || echo $$", both).unwrap();
    let line = launcher.line();
    assert!(line.starts_with(&format!("<stdout nspace=\"{job}\" rank=\"0\" hostname=\"")), "{line}");
    let (pid, rest) = line.split_once("pid=\"").unwrap().1.split_once('"').unwrap();
    assert_eq!(rest, format!(">{pid}&#010;</stdout>\n"));
    tool.finalize().unwrap();
    launcher.kill_launcher();
}

/// A question of a spawned job waited for its answer. The launcher refused such a spawn.
#[test]
fn a_spawn_passes_output_on_as_it_comes() {
    let mut launcher = script(&["-n", "1", "--stdin", "tools"], "echo ready; read a").start();
    assert_eq!(launcher.line(), "ready\n");
    let tool = tool_at(&launcher);
    let client = tool.client().unwrap();
    let raw = vec![required(info(keys::IOF_OUTPUT_RAW.name(), true)), info(keys::IOF_TAG_OUTPUT.name(), false)];
    // The ranks go on for ever.
    spawn(&client, "test $PMIX_RANK = 1 || printf 'name? '; sleep 1000", raw).unwrap();
    assert_eq!(launcher.bytes("name? ".len()), "name? ");
    tool.finalize().unwrap();
    launcher.kill_launcher();
}

/// The launcher refused such a spawn.
#[test]
fn a_spawn_writes_the_output_of_its_job_to_files() {
    let mut launcher = started(&["-n", "1", "--stdin", "tools"], "read a");
    let tool = tool_at(&launcher);
    let client = tool.client().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let at = |key: &'static str, name: &str| required(info(key, directory.path().join(name).to_str().unwrap()));
    let set = |key: &'static str| required(info(key, true));
    let await_file = |name: String, text: &str| {
        wait_until(|| std::fs::read_to_string(directory.path().join(&name)).is_ok_and(|found| found == text));
    };
    let script = "test $PMIX_RANK = 1 || { echo out; echo err >&2; printf end; }";
    let alone = [set(keys::OUTPUT_NOCOPY.name()), set(keys::IOF_TAG_OUTPUT.name())];
    let job = [&[at(keys::OUTPUT_TO_DIRECTORY.name(), "new")], &alone[..]].concat();
    let job = spawn(&client, script, job).unwrap();
    await_file(format!("new/{job}/rank.0/stdout"), "[1:0,stdout] out\n[1:0,stdout] end\n");
    await_file(format!("new/{job}/rank.0/stderr"), "[1:0,stderr] err\n");
    await_file(format!("new/{job}/rank.1/stdout"), "");
    let copied = [set(keys::IOF_MERGE_STDERR_STDOUT.name()), at(keys::IOF_OUTPUT_TO_FILE.name(), "f")];
    let job = spawn(&client, script, copied.into()).unwrap();
    assert_eq!([launcher.line(), launcher.line(), launcher.line()], ["out\n", "err\n", "end\n"]);
    await_file(format!("f.{job}.0.out"), "out\nerr\nend");
    assert!(!directory.path().join(format!("f.{job}.0.err")).exists(), "it is merged");
    let unwritable = vec![info(keys::OUTPUT_TO_FILE.name(), "/proc/none/f")];
    assert_eq!(spawn(&client, script, unwritable), Err(Status::ERR_FILE_OPEN_FAILURE));
    assert_eq!(spawn(&client, script, alone.into()), Err(Status::ERR_NOT_SUPPORTED), "no file");
    tool.finalize().unwrap();
    launcher.kill_launcher();
}

/// Text that a rank logs went to the launcher's output alone.
#[test]
fn the_file_of_a_spawned_rank_holds_its_logged_lines() {
    let mut launcher = started(&["-n", "1", "--stdin", "tools"], "read a; echo end");
    let tool = tool_at(&launcher);
    let client = tool.client().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let place = info(keys::IOF_OUTPUT_TO_FILE.name(), directory.path().join("%n").to_str().unwrap());
    let job = [place]
        .into_iter()
        .chain([keys::IOF_FILE_PATTERN.name(), keys::IOF_FILE_ONLY.name()].map(|key| required(info(key, true))));
    let this = std::env::current_exe().unwrap();
    let words = [this.to_str().unwrap(), "--exact", "client_process", "--nocapture"].map(Text::from);
    let app = App {
        command: Some(words[0].clone()),
        argv: words.into(),
        environment: vec![Text::from(format!("{ROLE}=log and print").as_str())],
        working_directory: None,
        processes_max: 2,
        info: Vec::new(),
    };
    let job = client.spawn(job.collect(), vec![app]).wait().unwrap();
    let text = || std::fs::read_to_string(directory.path().join(format!("{job}.out"))).unwrap();
    wait_until(|| text().matches("test result: ok").count() == 2);
    let mut numbers: Vec<u32> = text().lines().filter_map(|line| line.strip_prefix('#')?.parse().ok()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..200).flat_map(|number| [number; 2]).collect::<Vec<_>>());
    push(&client, &rank_zero(&launcher), Vec::new(), b"go\n").unwrap();
    assert_eq!(launcher.line(), "end\n");
    tool.finalize().unwrap();
    assert_eq!(launcher.finish().success(), "");
}

/// The first rank of a launcher's first job.
fn rank_zero(launcher: &Running) -> ProcId {
    ProcId::new(Namespace::new(&format!("modex-{}", launcher.child.id())).unwrap(), 0)
}

pub(crate) fn spawn_and_do_not_listen() {
    let client = Client::connect().unwrap();
    let job = || [keys::FWD_STDOUT.name(), keys::IOF_REDIRECT.name()].map(|key| required(info(key, true))).into();
    let script = "test $PMIX_RANK = 1 || { head -c 3000000 /dev/zero | tr '\\0' '\\n'; echo end; }";
    spawn(&client, script, job()).unwrap();
    // A copy for one process diverts nothing.
    let namespace = spawn(&client, "test $PMIX_RANK = 1 || { echo first; read a; echo copied; }", {
        let mut job: Vec<Info> = job();
        job.push(info(keys::FWD_STDIN.name(), true));
        job
    });
    let rank = ProcId::new(namespace.unwrap(), 0);
    let (_, pieces) = pull(&client, rank.clone(), vec![required(info(keys::IOF_COPY.name(), true))]).unwrap();
    push(&client, &rank, Vec::new(), b"go\n").unwrap();
    assert!(text_of(&pieces).ends_with("copied\n"));
    client.finalize().unwrap();
}

#[test]
fn redirected_output_that_nobody_gets_is_printed() {
    let ended = run(&[], "spawn and do not listen", &[]).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(ended.out.contains("end\n") && ended.out.len() > 1_500_000, "{}", ended.out.len());
    assert!(ended.out.contains("copied\n"));
}
