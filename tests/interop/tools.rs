//! Tools and singletons of Debian's `libpmix-bin` and of our library, at our servers and at OpenPMIx's.
//!
//! `tool.c` is a tool that does one thing for each word, `tool_server.c` a server that admits tools, `lone.c` a process
//! without a launcher. Each runs with either library. `modex run` is another server.

use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::library::{Library, library, repository, scratch};
use crate::process::{Consumer, Ended, Running, wait_for};

/// A C program of this directory, compiled once in a run with Debian's headers, for either library.
fn program(name: &str) -> PathBuf {
    let program = scratch().join(name);
    if !program.exists() {
        // Compiled under another name first, because tests run side by side.
        let fresh = scratch().join(format!("{name}-{:?}", std::thread::current().id()));
        library().headers()[0].compile(&[repository().join(format!("tests/interop/{name}.c"))], &fresh);
        std::fs::rename(fresh, &program).unwrap();
    }
    program
}

/// The two libraries, ours first.
fn libraries() -> [Library; 2] {
    let ours = library();
    [Library { directory: ours.directory.clone(), file: ours.file.clone() }, Library::stock()]
}

/// A directory for rendezvous files, the temporary directory of a server and of its tools.
fn place() -> TempDir {
    tempfile::Builder::new().prefix("mt-").tempdir_in("/tmp").unwrap()
}

/// A process of this library that looks for its server in `place`.
fn consumer(library: &Library, program: impl AsRef<std::ffi::OsStr>, place: &Path) -> Consumer {
    let consumer = Consumer::new(library, program);
    consumer.env("TMPDIR", place).env("PMIX_SYSTEM_TMPDIR", place)
}

/// Runs `tool.c` and returns its lines. Names of statuses in 5.0 and later are shortened to those of 4.2.
fn tool(library: &Library, place: &Path, words: &[&str]) -> Vec<String> {
    let ended = consumer(library, program("tool"), place).args(words).run();
    ended
        .text()
        .lines()
        .map(|line| line.trim_end().replace("PMIX_ERR_", "").replace("PMIX_", "").replace('_', "-"))
        .collect()
}

/// A server process.
struct Server {
    running: Running,
    place: TempDir,
}

impl Server {
    /// `modex run` with this many idle ranks.
    fn modex_run(ranks: &str) -> Self {
        let place = place();
        let run = consumer(&libraries()[0], crate::command::built("modex"), place.path());
        let running = run.args(["run", "-n", ranks, "--", "sh", "-c", "echo ready; exec sleep 1000"]).start();
        running.wait_for_line("ready");
        Self { running, place }
    }

    /// `modex run` with ranks that wait for a line of a tool.
    fn modex_run_with_input() -> Self {
        let place = place();
        let run = consumer(&libraries()[0], crate::command::built("modex"), place.path());
        let script = "echo ready; read line; echo \"out $line\"; echo error >&2; exec >&- 2>&-; exec sleep 1000";
        let running = run.args(["run", "-n", "1", "--stdin", "tools", "--", "sh", "-c", script]).start();
        running.wait_for_line("ready");
        Self { running, place }
    }

    /// `tool_server.c` with a library. `place` may hold files of earlier servers.
    fn c(library: &Library, place: TempDir, words: &[&str]) -> Self {
        let running = consumer(library, program("tool_server"), place.path()).args(words).input_open().start();
        running.wait_for_line("ready 1");
        Self { running, place }
    }

    fn path(&self) -> &Path {
        self.place.path()
    }

    /// Its process number, from its files.
    fn pid(&self) -> i32 {
        let file = files(self.path()).into_iter().next().expect("a server has files");
        std::fs::read_to_string(file).unwrap().lines().nth(2).unwrap().parse().unwrap()
    }

    /// Ends it as a user does.
    fn stop(self) -> Ended {
        self.running.terminate();
        self.running.wait()
    }

    /// Kills it without a chance to clean up; returns its directory.
    fn destroy(self) -> TempDir {
        kill(Pid::from_raw(self.pid()), Signal::SIGKILL).unwrap();
        self.running.bury();
        self.place
    }
}

/// Rendezvous files anywhere below a directory.
fn files(place: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![place.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().unwrap().is_dir() {
                waiting.push(entry.path());
            } else if entry.file_name().to_string_lossy().starts_with("pmix.") {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn debians_tools_ask_a_job_of_modex_run() {
    let server = Server::modex_run("2");
    let job = format!("modex-{}", server.pid());
    let run = |name: &str, words: &[&str]| {
        consumer(&Library::stock(), format!("/usr/bin/{name}"), server.path()).args(words).run()
    };
    let ended = run("pps", &[]).success();
    assert!(ended.transcript().lines().any(|line| line == format!("Active nspaces: {job}")), "{}", ended.transcript());
    run("pps", &["--pid", &server.pid().to_string(), "--nodes"]).success();
    // The tool of this release can't show all functions: it overflows a column, and crashes.
    let ended = run("pattrs", &["--host", "PMIx_Publish"]).success();
    assert!(ended.transcript().contains("PMIX_PERSISTENCE"), "{}", ended.transcript());
    // A request without support fails with that status.
    let ended = run("pattrs", &["--host", "none"]);
    assert!(ended.transcript().contains("NOT-SUPPORTED"), "{}", ended.transcript());
    server.stop();
}

#[test]
fn an_event_that_debians_tool_raises_reaches_the_servers_handler() {
    let server = Server::c(&libraries()[0], place(), &["session"]);
    let tool = consumer(&Library::stock(), "/usr/bin/pevent", server.path());
    tool.args(["--event", "-117", "--range", "5"]).run().success();
    server.running.wait_for_line("event -117 of assigned-1.0");
    let ended = server.stop();
    assert!(ended.text().contains("event -117 of assigned-1.0\n"), "{}", ended.transcript());
}

/// Two of Debian's tools crash by themselves, at any server: `pquery` before it connects, `plookup` after its reply.
/// The server is not affected.
#[test]
fn tools_that_crash_cost_nobody_anything() {
    let server = Server::c(&libraries()[0], place(), &["session", "system"]);
    let run = |name: &str, words: &[&str]| {
        consumer(&Library::stock(), format!("/usr/bin/{name}"), server.path()).args(words).run()
    };
    for (name, words) in [("pquery", "pmix.qry.ns"), ("plookup", "missing"), ("pattrs", "--server=all")] {
        run(name, &[words]);
        let ended = run("pps", &[]).success();
        assert!(ended.transcript().contains("Active nspaces: interop\n"), "after {name}: {}", ended.transcript());
    }
    server.stop();
}

#[test]
fn tools_of_both_libraries_get_answers_from_servers_of_both() {
    for of_server in libraries() {
        for of_tool in libraries() {
            let server = Server::c(&of_server, place(), &["session"]);
            let lines = tool(&of_tool, server.path(), &["--", "namespaces", "get", "interop", "unknown", "publish"]);
            let expected = [
                "init SUCCESS assigned-1.0",
                "namespaces SUCCESS interop",
                "get SUCCESS 3",
                "unknown NOT-FOUND",
                "publish SUCCESS",
                "lookup SUCCESS tool value",
                "finalize SUCCESS",
            ];
            assert_eq!(lines, expected, "server {}, tool {}", of_server.file.display(), of_tool.file.display());
            let ended = server.stop();
            assert!(ended.text().contains("tool assigned-1.0 mine\n"), "{}", ended.transcript());
        }
    }
}

#[test]
fn the_process_table_of_modex_run_has_the_ranks_as_they_are() {
    let server = Server::modex_run("3");
    let job = format!("modex-{}", server.pid());
    for library in libraries() {
        let lines =
            tool(&library, server.path(), &["--", "namespaces", "size", &job, "get", &job, "table", &job, "unknown"]);
        assert_eq!(lines[1..4], [format!("namespaces SUCCESS {job}"), "size SUCCESS 3".into(), "get SUCCESS 3".into()]);
        assert_eq!(lines[5..], ["unknown NOT-SUPPORTED", "finalize SUCCESS"]);
        let ranks: Vec<&str> = lines[4].strip_prefix("table SUCCESS ").unwrap().split(' ').collect();
        assert_eq!(ranks.len(), 3, "{lines:?}");
        for (number, rank) in ranks.into_iter().enumerate() {
            let [rank, pid, program] = rank.split(':').collect::<Vec<_>>()[..] else { panic!("{lines:?}") };
            assert_eq!((rank, program), (number.to_string().as_str(), "sh"));
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
            let wanted = format!("PMIX_RANK={rank}");
            assert!(environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes()));
        }
    }
    server.stop();
}

#[test]
fn tools_of_both_libraries_hear_the_ranks_of_modex_run_and_talk_to_them() {
    for library in libraries() {
        for (directive, shown) in [("pmix.iof.cpy", true), ("pmix.iof.redir", false)] {
            let server = Server::modex_run_with_input();
            let job = format!("modex-{}", server.pid());
            let lines = tool(&library, server.path(), &["--", "talk", &job, "pmix.iof.xml", "talk", &job, directive]);
            let expected = ["pull NOT-SUPPORTED", "pull SUCCESS", "push SUCCESS", "heard SUCCESS out go", ""];
            assert_eq!(lines[1..6], expected, "{}", library.file.display());
            assert_eq!(lines[6..], ["also SUCCESS error", "", "deregister SUCCESS", "finalize SUCCESS"]);
            let ended = server.stop();
            assert_eq!(ended.text().contains("out go"), shown, "{}", ended.transcript());
        }
    }
}

#[test]
fn a_tool_keeps_its_name_and_nobody_else_gets_it_while_it_lives() {
    for library in libraries() {
        let server = Server::c(&libraries()[0], place(), &["session"]);
        let name = ["pmix.tool.nspace=mine", "pmix.tool.rank=4", "--"];
        let words = |more: &[&'static str]| name.iter().chain(more).copied().collect::<Vec<_>>();
        let first = consumer(&library, program("tool"), server.path()).args(words(&["wait"])).input_open().start();
        wait_for(|| first.transcript().contains("init"));
        assert!(first.transcript().contains("mine.4"), "{}", first.transcript());
        assert_eq!(tool(&library, server.path(), &words(&[])).len(), 1, "the name is taken");
        first.close_input();
        first.wait().success();
        // The name of a tool that dies is free again, too.
        assert_eq!(tool(&library, server.path(), &words(&["die"])), ["init SUCCESS mine.4"]);
        let again = tool(&library, server.path(), &words(&["namespaces"]));
        assert_eq!(again[..2], ["init SUCCESS mine.4", "namespaces SUCCESS interop"]);
        server.stop();
    }
}

#[test]
fn a_host_that_refuses_a_tool_is_obeyed() {
    let server = Server::c(&libraries()[0], place(), &["session"]);
    for library in libraries() {
        let lines =
            tool(&library, server.path(), &["pmix.tool.nspace=unwanted", "pmix.tool.rank=0", "--", "namespaces"]);
        assert!(lines.len() == 1 && !lines[0].contains("SUCCESS"), "{lines:?}");
    }
    server.stop();
    // Without a function for tools, the server gives names itself, and answers requests from its own knowledge.
    let server = Server::c(&libraries()[0], place(), &["session", "mute", "silent"]);
    for library in libraries() {
        for name in [&[][..], &["pmix.tool.nspace=named", "pmix.tool.rank=0"]] {
            let words = [name, &["--", "namespaces", "size", "interop", "unknown"]].concat();
            let lines = tool(&library, server.path(), &words);
            let answers = ["namespaces SUCCESS interop", "size SUCCESS 3", "unknown NOT-SUPPORTED", "finalize SUCCESS"];
            assert_eq!(lines[1..], answers, "{name:?}");
        }
    }
    server.stop();
}

#[test]
fn files_of_a_killed_server_mislead_no_tool_and_let_the_next_start() {
    let left = Server::c(&libraries()[0], place(), &["session", "system"]).destroy();
    let names: Vec<PathBuf> = files(left.path());
    assert_eq!(names.len(), 4, "{names:?}");
    assert_eq!(tool(&libraries()[0], left.path(), &["--", "namespaces"]), ["init UNREACH .0"]);
    let next = Server::c(&libraries()[0], left, &["session", "system"]);
    for library in libraries() {
        let lines = tool(&library, next.path(), &["pmix.cnct.sys", "--", "namespaces"]);
        assert_eq!(lines[1], "namespaces SUCCESS interop");
    }
    // A node has at most one system server.
    let second = consumer(&libraries()[0], program("tool_server"), next.path()).args(["system"]).run().code(1);
    assert!(second.text().contains("init"), "{}", second.transcript());
    assert_eq!(
        tool(&libraries()[0], next.path(), &["pmix.cnct.sys", "--", "namespaces"])[1],
        "namespaces SUCCESS interop"
    );
    let Server { running, place } = next;
    running.close_input();
    running.wait().success();
    let is_system = |file: &PathBuf| file.to_string_lossy().contains("pmix.sys");
    assert!(!files(place.path()).iter().any(is_system), "an orderly server takes its files along");
}

#[test]
fn a_tool_chooses_among_several_servers() {
    let servers = [Server::modex_run("1"), Server::modex_run("2")];
    let [first, second] = [&servers[0], &servers[1]].map(|server| server.pid().to_string());
    let [by_first, by_second] =
        [&servers[0], &servers[1]].map(|server| format!("pmix.tool.attach={}", files(server.path())[0].display()));
    let (run_first, run_second) = (format!("modex-run-{first}"), format!("modex-run-{second}"));
    let words = [
        by_first.as_str(),
        "--",
        "namespaces",
        "attach",
        &by_second,
        "attach",
        &by_second,
        "servers",
        "namespaces",
        "choose",
        &run_second,
        "namespaces",
        "servers",
        "disconnect",
        &run_second,
        "namespaces",
        "choose",
        &run_first,
        "namespaces",
    ];
    let lines = tool(&libraries()[0], servers[0].path(), &words);
    let name = lines[0].strip_prefix("init SUCCESS ").unwrap().to_owned();
    let expected = [
        format!("namespaces SUCCESS modex-{first}"),
        format!("attach SUCCESS {run_second}.0 as {name}"),
        format!("attach SUCCESS {run_second}.0 as {name}"),
        format!("servers SUCCESS {run_first}.0 {run_second}.0"),
        format!("namespaces SUCCESS modex-{first}"),
        format!("choose SUCCESS {run_second}"),
        format!("namespaces SUCCESS modex-{second}"),
        format!("servers SUCCESS {run_second}.0 {run_first}.0"),
        format!("disconnect SUCCESS {run_second}"),
        "namespaces UNREACH".to_owned(),
        format!("choose SUCCESS {run_first}"),
        format!("namespaces SUCCESS modex-{first}"),
        "finalize SUCCESS".to_owned(),
    ];
    assert_eq!(lines[1..], expected);
    for server in servers {
        server.stop();
    }
}

#[test]
fn without_a_choice_one_of_two_servers_is_taken_and_a_pid_or_an_address_is_a_choice() {
    let first = Server::modex_run("1");
    let running = consumer(&libraries()[0], crate::command::built("modex"), first.path())
        .args(["run", "-n", "1", "--", "sh", "-c", "echo ready; exec sleep 1000"])
        .start();
    running.wait_for_line("ready");
    assert_eq!(files(first.path()).len(), 6);
    for library in libraries() {
        let lines = tool(&library, first.path(), &["--", "namespaces"]);
        // OpenPMIx 4.2.2 refuses to choose.
        assert_eq!(lines.len(), if library.is_stock() { 1 } else { 3 }, "{lines:?}");
        let address = std::fs::read_to_string(&files(first.path())[0]).unwrap();
        let (pid, address) = (first.pid(), address.lines().next().unwrap().to_owned());
        for choice in [format!("pmix.srvr.pidinfo={pid}"), format!("pmix.srvr.uri={address}")] {
            let lines = tool(&library, first.path(), &[&choice, "--", "namespaces"]);
            assert_eq!(lines[1], format!("namespaces SUCCESS modex-{pid}"), "{choice}");
        }
    }
    running.terminate();
    running.wait();
    first.stop();
}

#[test]
fn a_process_that_nobody_launched_joins_the_system_server() {
    let server = Server::c(&libraries()[0], place(), &["system"]);
    for library in libraries() {
        let ended = consumer(&library, program("lone"), server.path()).run().success();
        let text = ended.text().replace("PMIX_", "");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("init SUCCESS singleton."), "{}", ended.transcript());
        let rest = [
            "size SUCCESS 1",
            "put SUCCESS",
            "commit SUCCESS",
            "fence SUCCESS",
            "get SUCCESS here",
            "finalize SUCCESS",
        ];
        assert_eq!(lines[1..], rest);
    }
    let ended = server.stop();
    assert_eq!(ended.text().matches("tool singleton.").count(), 2, "{}", ended.transcript());
}

/// A debugger that has no other server starts `modex run` itself. The launcher waits for the debugger, and takes its
/// directives.
#[test]
fn a_debugger_of_either_library_starts_a_launcher_that_waits() {
    for library in libraries() {
        let place = place();
        let debugger = consumer(&library, program("indirect"), place.path());
        let words = ["run", "-n", "2", "--", "sh", "-c", "echo \"$WORD from rank $PMIX_RANK$PMIX_SERVER_NSPACE\""];
        let ended = debugger.arg(crate::command::built("modex")).args(words).run().success();
        let text = ended.text();
        let launcher = text.lines().find_map(|line| line.strip_prefix("started ")).unwrap();
        assert!(text.lines().any(|line| line == format!("-155 {launcher}")), "{}", ended.transcript());
        for code in ["-174", "-145"] {
            assert!(text.lines().any(|line| line.starts_with(&format!("{code} modex-"))), "{}", ended.transcript());
        }
        for rank in 0..2 {
            let line = format!("hello from rank {rank}");
            assert!(text.lines().any(|found| found == line), "{}", ended.transcript());
        }
    }
    let place = place();
    let missing = consumer(library(), program("indirect"), place.path()).arg("/no/such").run().code(1);
    assert_eq!(missing.text(), "PMIx_Spawn: PMIX_ERR_JOB_EXE_NOT_FOUND\n", "{}", missing.transcript());
    assert!(missing.err.contains("/no/such: No such file"), "{}", missing.transcript());
}

/// Regression: the tool waited for an answer of the launcher, which serves others than the tool after its release
/// alone. A launcher with this library did not wait at all.
#[test]
fn a_tool_releases_a_launcher_that_serves_it_on_the_launchers_connection() {
    for of_tool in libraries() {
        for of_launcher in libraries() {
            let place = place();
            let directory = of_launcher.directory.as_ref().map_or_else(String::new, |path| path.display().to_string());
            let debugger = consumer(&of_tool, program("late_launcher"), place.path());
            let ended = debugger.arg(format!("LD_LIBRARY_PATH={directory}")).run().success();
            assert_eq!(ended.text(), "released\nthe launcher has ended\n", "{}", ended.transcript());
        }
    }
}

/// Such a launcher can't be released any more.
#[test]
fn a_launcher_without_its_tool_does_not_start() {
    let [ours, _] = libraries();
    let place = place();
    let launcher = consumer(&ours, program("late_launcher"), place.path());
    let launcher = launcher.env("PMIX_SERVER_NSPACE", "launcher");
    let ended = launcher.env("PMIX_LAUNCHER_RNDZ_URI", "gone.0;tcp4://127.0.0.1:1").run().code(1);
    assert_eq!(ended.text(), "PMIx_server_init: PMIX_ERR_UNREACH\n", "{}", ended.transcript());
    assert!(ended.err.contains("can't reach the tool that has started it"), "{}", ended.transcript());
}

/// Regression: a wrapper may pass the variable without the descriptor. The server closed one of its own of that number.
/// A file counted as an ended starter.
#[test]
fn only_a_pipe_or_socket_from_outside_is_taken_for_the_starters() {
    let [ours, _] = libraries();
    for kind in ["stale", "file"] {
        let place = place();
        let server = consumer(&ours, program("keepalive"), place.path()).args([kind]).env("MODEX_LOG", "warn");
        let ended = server.run().success();
        assert_eq!(ended.text(), "served, its variable is gone\n", "{kind}: {}", ended.transcript());
        let warning = "PMIX_KEEPALIVE_PIPE names no inherited pipe or socket";
        assert!(ended.err.contains(warning), "{kind}: {}", ended.transcript());
    }
}

/// Regression: a server did not hear of the end of its starter, so PRRTE stayed.
#[test]
fn a_server_hears_of_the_end_of_its_starter() {
    for library in libraries() {
        let place = place();
        let ended = consumer(&library, program("keepalive"), place.path()).run().success();
        assert_eq!(ended.text(), "the starter has ended, and so has its variable\n", "{}", ended.transcript());
    }
}
