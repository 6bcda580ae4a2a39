//! Tools in Rust: their search for servers and the owners that they trust, several servers at once, and servers inside
//! tools.

#![expect(clippy::unwrap_used, reason = "a failing step fails the test")]

mod support;

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use modex::types::{Info, Key, ProcId, Query, Status};
use modex::{AddressReport, AsStatus, AttachError, LocalHost, Server, SystemServer, Tool, ToolAdmission};
use modex::{ToolDirections, ToolError, ToolSupport, keys};
use support::{namespace, proc, this_binary};

/// Plays the role from the environment when a test runs this binary again; otherwise does nothing.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test binary is an edge")]
fn client_process() {
    if support::role().as_deref() == Some("serve") {
        let directory = PathBuf::from(std::env::var_os("PLACE").unwrap());
        let _server = serve(&directory, "theirs", assigning());
        println!("\nserving");
        let _ = std::io::stdin().read(&mut [0]);
    }
    if support::role().as_deref() == Some("system") {
        let tools = ToolSupport { is_system: true, ..assigning() };
        let server = Server::builder().namespace("system").tools(tools).start(LocalHost).unwrap();
        let tool = Tool::builder().system(SystemServer::Only).connect().unwrap();
        assert_eq!(tool.servers(), [server.proc().clone()]);
        tool.finalize().unwrap();
    }
}

fn assigning() -> ToolSupport {
    ToolSupport { admission: ToolAdmission::Assigned, ..ToolSupport::default() }
}

fn serve(directory: &Path, name: &str, tools: ToolSupport) -> Server {
    Server::builder().namespace(name).tmpdir(directory).system_tmpdir(directory).tools(tools).start(LocalHost).unwrap()
}

/// A tool without a launcher, with an empty environment.
fn tool() -> modex::ToolBuilder {
    Tool::builder().env([("HOME", "/")])
}

fn at(directory: &Path) -> ToolDirections {
    ToolDirections { session_tmpdir: Some(directory.to_owned()), ..ToolDirections::default() }
}

#[test]
fn a_tool_is_named_by_its_server_and_asks_it() {
    let place = tempfile::tempdir().unwrap();
    let server = serve(place.path(), "srv", assigning());
    server.register_namespace(&namespace("job"), 0, support::description(1, &[("node0", "0")])).wait().unwrap();
    let tool = tool().session_tmpdir(place.path()).pid(std::process::id()).connect().unwrap();
    assert!(tool.proc().namespace.as_str().starts_with("tool-srv-0-"), "{}", tool.proc());
    assert_eq!(tool.servers(), [proc("srv", 0)]);
    let namespaces = Query { keys: vec![keys::QUERY_NAMESPACES.name().into()], qualifiers: Vec::new() };
    let answer = tool.client().unwrap().query(vec![namespaces]).wait().unwrap();
    assert!(format!("{answer:?}").contains("job"), "{answer:?}");
    tool.finalize().unwrap();
}

#[test]
fn requests_go_to_the_server_that_was_chosen_last() {
    let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let _servers = [serve(places[0].path(), "one", assigning()), serve(places[1].path(), "two", assigning())];
    let (one, two) = (proc("one", 0), proc("two", 0));
    let tool = tool().session_tmpdir(places[0].path()).system_tmpdir(places[0].path()).connect().unwrap();
    let primary = |tool: &Tool| tool.client().map(|client| client.server().clone());
    assert_eq!(tool.attach(&at(places[1].path())).unwrap(), two);
    let again = ToolDirections { namespace: Some(namespace("two")), ..at(places[1].path()) };
    assert_eq!(tool.attach(&again).unwrap(), two, "one that it has is no second connection");
    assert_eq!((tool.servers(), primary(&tool).unwrap()), (vec![one.clone(), two.clone()], one.clone()));
    tool.set_primary(&two).unwrap();
    assert_eq!((tool.servers(), primary(&tool).unwrap()), (vec![two.clone(), one.clone()], two.clone()));
    assert_eq!(tool.client_of(&two).unwrap().proc(), tool.proc(), "it has one name with all");
    tool.disconnect(&two).unwrap();
    assert!(matches!(primary(&tool), Err(AttachError::NoPrimary)));
    assert_eq!(tool.disconnect(&two).unwrap_err().status(), Status::ERR_NOT_FOUND);
    tool.set_primary(&one).unwrap();
    assert_eq!(primary(&tool).unwrap(), one);
    tool.finalize().unwrap();
}

/// Regression: a server that had ended stayed in the list, and an attach by its name gave the dead connection.
#[test]
fn a_server_that_was_started_again_is_attached_again() {
    let [place, beside] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let first = serve(place.path(), "srv", assigning());
    let other = serve(beside.path(), "other", assigning());
    let tool = tool().session_tmpdir(place.path()).system_tmpdir(place.path()).connect().unwrap();
    let (srv, name) = (first.proc().clone(), tool.proc().clone());
    assert_eq!(tool.attach(&at(beside.path())).unwrap(), *other.proc());
    first.shutdown();
    assert_eq!(tool.servers(), [other.proc().clone()]);
    assert_eq!(tool.client().unwrap_err().status(), Status::ERR_UNREACH);
    assert!(matches!(tool.set_primary(&srv), Err(AttachError::NotAttached { .. })));
    let by_name = ToolDirections { namespace: Some(srv.namespace.clone()), ..at(place.path()) };
    assert_eq!(tool.attach(&by_name).unwrap_err().status(), Status::ERR_UNREACH);
    let _second = serve(place.path(), "srv", assigning());
    assert_eq!(tool.attach(&by_name).unwrap(), srv);
    assert_eq!(tool.servers(), [srv.clone(), other.proc().clone()]);
    let client = tool.client().unwrap();
    let namespaces = Query { keys: vec![keys::QUERY_NAMESPACES.name().into()], qualifiers: Vec::new() };
    client.query(vec![namespaces]).wait().unwrap();
    assert_eq!((client.server(), client.proc()), (&srv, &name));
    tool.finalize().unwrap();
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test binary is an edge")]
fn a_tool_that_comes_before_its_server_tries_again() {
    let place = tempfile::tempdir().unwrap();
    let search = || tool().session_tmpdir(place.path()).system_tmpdir(place.path());
    let (begun, delay) = (std::time::Instant::now(), Duration::from_millis(20));
    let missing = search().retries(2, delay).connect();
    assert!(matches!(missing, Err(AttachError::Connect(ToolError::NoServer { .. }))));
    assert!(begun.elapsed() >= 2 * delay, "it tried three times");
    std::thread::scope(|scope| {
        let early = scope.spawn(|| search().retries(u32::MAX, Duration::from_millis(1)).connect());
        let server = serve(place.path(), "late", assigning());
        let tool = early.join().unwrap().unwrap();
        assert_eq!(tool.servers(), [server.proc().clone()]);
        tool.finalize().unwrap();
    });
}

/// The rule: a wait for one server of a namespace attaches no other server of it.
#[test]
fn a_tool_waits_for_the_very_server_that_it_names() {
    let place = tempfile::tempdir().unwrap();
    let named = ToolSupport { admission: ToolAdmission::Named, ..ToolSupport::default() };
    let server = serve(place.path(), "launcher", named);
    let environment = [("HOME", "/"), ("TMPDIR", place.path().to_str().unwrap())];
    let tool = Tool::builder().env(environment).alone().connect().unwrap();
    let late = tool.wait_for_primary(&proc("launcher", 1), Some(Duration::ZERO));
    assert!(matches!(late, Err(AttachError::TimedOut { .. })), "{late:?}");
    assert_eq!(tool.servers(), []);
    tool.wait_for_primary(server.proc(), None).unwrap();
    assert_eq!(tool.client().unwrap().server(), server.proc());
    tool.finalize().unwrap();
}

/// The file holds no process number and no lock, and stays behind.
#[test]
fn a_server_reports_where_it_listens() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("address");
    // Old contents, such as an empty file of a script, are overwritten.
    fs::write(&file, "x".repeat(4096)).unwrap();
    let report = Some(AddressReport::File(file.clone()));
    let server = serve(place.path(), "srv", ToolSupport { report, ..assigning() });
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("srv.0;tcp4://127.0.0.1:") && lines[1] == "v5.0.0" && lines.len() == 2, "{text}");
    for address in [lines[0].to_owned(), format!("file:{}", file.display())] {
        tool().address(address).connect().unwrap().finalize().unwrap();
    }
    server.shutdown();
    let error = tool().address(format!("file:{}", file.display())).connect().unwrap_err();
    assert_eq!(error.status(), Status::ERR_UNREACH, "{error}");
    assert_eq!(["-", "+"].map(AddressReport::parse), [AddressReport::Output, AddressReport::Error]);
}

/// The lock of a copied file is free, so a copy from another node was taken for a dead server's file.
#[test]
fn a_copy_of_a_servers_file_leads_to_it() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("original");
    let _server = serve(place.path(), "srv", ToolSupport { file: Some(file.clone()), ..assigning() });
    let copy = place.path().join("copy");
    fs::copy(&file, &copy).unwrap();
    let tool = tool().file(&copy).connect().unwrap();
    assert_eq!(tool.servers(), [proc("srv", 0)]);
}

/// Regression: a file without a release was taken for that of release 2.0, which tools refuse.
#[test]
fn the_first_line_of_a_servers_file_leads_to_it_whatever_name_it_gives() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("original");
    let _server = serve(place.path(), "srv", ToolSupport { file: Some(file.clone()), ..assigning() });
    let address = fs::read_to_string(&file).unwrap().lines().next().unwrap().to_owned();
    for line in [address.clone(), address.replacen("srv.0", "other.7", 1)] {
        fs::write(&file, line).unwrap();
        let tool = tool().address(format!("file:{}", file.display())).connect().unwrap();
        // The server says its name, as servers of OpenPMIx do.
        assert_eq!(tool.servers(), [proc("srv", 0)]);
        tool.finalize().unwrap();
    }
}

/// A file as a server without a lock leaves it, which leads nowhere.
fn decoy(address: &str, pid: u32) -> String {
    format!("{address}\nv4.2.2\n{pid}\n0:0\nThu Jan  1 00:00:00 1970\n")
}

/// The process number of a process that has ended.
fn dead_pid() -> u32 {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

/// An address at which no process listens.
fn closed() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("closed.0;tcp4://{}", listener.local_addr().unwrap())
}

/// Regression: the status was the first bytes of the answer, here of a web server. It was positive, so programs took it
/// for a success.
#[test]
fn a_peer_that_is_no_server_is_unreachable() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("web.0;tcp4://{}", listener.local_addr().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
            // The tool ends the connection.
            drop(std::io::copy(&mut stream, &mut std::io::sink()));
        });
        let error = tool().address(&address).connect().unwrap_err();
        assert_eq!(error.status(), Status::ERR_UNREACH, "{error}");
    });
}

/// The start of the names of rendezvous files on this node.
fn stem(server: &Path) -> String {
    let pid = std::process::id();
    let files = fs::read_dir(server).unwrap().map(|entry| entry.unwrap().path());
    let file = files.into_iter().find(|path| path.to_string_lossy().ends_with(&format!(".tool.{pid}")));
    modex_host(&file.unwrap(), pid)
}

/// Regression: a second server made the search fail, and so did files that lead nowhere.
#[test]
fn the_first_server_that_admits_the_tool_is_taken_and_decoys_are_passed_over() {
    let place = tempfile::tempdir().unwrap();
    let [refusing, good, late] = ["a-refusing", "b-good", "c-late"].map(|name| place.path().join(name));
    [&refusing, &good, &late].iter().for_each(|directory| fs::create_dir(directory).unwrap());
    let named = ToolSupport { admission: ToolAdmission::Named, ..ToolSupport::default() };
    let search = || tool().session_tmpdir(place.path()).system_tmpdir(place.path());
    let _refusing = serve(&refusing, "refusing", named);
    let stem = stem(&refusing);
    // A tool without a name is not admitted there.
    let alone = search().connect().unwrap_err();
    assert!(matches!(alone, AttachError::Connect(ToolError::Refused { .. })), "{alone}");
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mute = format!("mute.0;tcp4://{}", mute.local_addr().unwrap());
    for (name, text) in [
        ("garbage", "noise".to_owned()),
        ("empty", String::new()),
        ("dead", decoy("dead.0;tcp4://127.0.0.1:1", dead_pid())),
        ("closed", decoy(&closed(), std::process::id())),
        ("mute", decoy(&mute, std::process::id())),
        ("old", format!("old.0;tcp4://127.0.0.1:1\n\n{}\n", std::process::id())),
    ] {
        fs::write(place.path().join(format!("{stem}{name}")), text).unwrap();
    }
    let none = search().timeout(Duration::from_secs(2)).connect().unwrap_err();
    assert!(matches!(none, AttachError::Connect(ToolError::NoneAdmits { .. })), "{none}");
    let servers = [serve(&good, "good", assigning()), serve(&late, "late", assigning())];
    if nix::unistd::geteuid().is_root() {
        // Another user's file leads to a server that would admit the tool.
        let theirs = place.path().join(format!("{stem}a"));
        let file = fs::read_dir(&late).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_file());
        fs::copy(file.unwrap(), &theirs).unwrap();
        std::os::unix::fs::chown(&theirs, Some(65534), Some(65534)).unwrap();
    }
    let tool = search().timeout(Duration::from_secs(8)).connect().unwrap();
    assert_eq!(tool.servers(), [servers[0].proc().clone()]);
    // The search passes over servers that the tool has.
    let directions = ToolDirections { time_max: Some(Duration::from_secs(8)), ..at(place.path()) };
    assert_eq!(tool.attach(&directions).unwrap(), *servers[1].proc());
    let sole = ToolDirections { is_choice_refused: true, ..directions };
    let error = Tool::builder().env([("HOME", "/")]).directions(sole).connect().unwrap_err();
    assert!(matches!(error, AttachError::Connect(ToolError::Ambiguous { .. })), "{error}");
    tool.finalize().unwrap();
}

/// Regression: a server that did not answer held the wait for 60 seconds, whatever its limit.
#[test]
fn a_wait_for_a_server_that_does_not_answer_has_a_limit() {
    let place = tempfile::tempdir().unwrap();
    let server = serve(place.path(), "one", assigning());
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("mute.0;tcp4://{}", mute.local_addr().unwrap());
    let file = place.path().join(format!("{}mute", stem(place.path())));
    fs::write(file, decoy(&address, std::process::id())).unwrap();
    let named = ToolDirections { namespace: Some(namespace("one")), ..at(place.path()) };
    let tool = tool().session_tmpdir(place.path()).system_tmpdir(place.path()).directions(named).connect().unwrap();
    let waiting = std::thread::Builder::new().spawn(move || {
        let waited = tool.wait_for_primary(&ProcId::new(namespace("mute"), 0), Some(Duration::from_secs(1)));
        (waited.map_err(|error| error.status()), tool)
    });
    // The mute server hears the tool, which then gives up.
    let (mut stream, _) = mute.accept().unwrap();
    stream.set_read_timeout(Some(modex::runtime::CONNECT_TIME_MAX / 2)).unwrap();
    assert!(stream.read_to_end(&mut Vec::new()).is_ok(), "the tool goes on waiting");
    let (waited, tool) = waiting.unwrap().join().unwrap();
    assert_eq!(waited, Err(Status::ERR_TIMEOUT));
    tool.finalize().unwrap();
    drop(server);
}

/// Regression: a server that accepts a connection and stays mute held the tool up for 60 seconds and more, whatever its
/// limit.
#[test]
fn a_tool_gives_a_mute_server_up_after_its_time() {
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (time_max, retry_delay) = (Some(Duration::from_millis(200)), Duration::from_secs(86_400));
    let limited = ToolDirections { time_max, retries: u32::MAX, retry_delay, ..ToolDirections::default() };
    let address = Some(format!("mute.0;tcp4://{}", mute.local_addr().unwrap()));
    let by_address = ToolDirections { address, ..limited.clone() };
    assert_eq!(tool().directions(by_address.clone()).connect().unwrap_err().status(), Status::ERR_TIMEOUT);
    let alone = tool().alone().connect().unwrap();
    assert_eq!(alone.attach(&by_address).unwrap_err().status(), Status::ERR_TIMEOUT);
    // The time is that of all attempts.
    let nowhere = tempfile::tempdir().unwrap();
    let missing = ToolDirections { system_tmpdir: Some(nowhere.path().to_owned()), ..limited };
    let missing = ToolDirections { session_tmpdir: Some(nowhere.path().to_owned()), ..missing };
    assert_eq!(tool().directions(missing).connect().unwrap_err().status(), Status::ERR_UNREACH);
}

#[test]
fn a_search_finds_no_server_that_the_tool_has_already() {
    let place = tempfile::tempdir().unwrap();
    let server = serve(place.path(), "one", assigning());
    let tool = tool().session_tmpdir(place.path()).system_tmpdir(place.path()).connect().unwrap();
    let here = ToolDirections { system_tmpdir: Some(place.path().to_owned()), ..at(place.path()) };
    assert_eq!(tool.attach(&here).unwrap_err().status(), Status::ERR_UNREACH);
    let named = ToolDirections { namespace: Some(namespace("one")), ..here };
    assert_eq!(tool.attach(&named).unwrap(), *server.proc());
    assert_eq!(tool.servers(), [server.proc().clone()]);
    tool.finalize().unwrap();
}

/// The order of the standard: file, address, process number, namespace, system server, search. Each choice is final.
#[test]
fn the_first_given_direction_decides_and_no_other_is_tried_after_it() {
    let place = tempfile::tempdir().unwrap();
    let inside = |name: &str| place.path().join(name);
    let system = ToolSupport { is_system: true, ..assigning() };
    let with_file = |name: &str| ToolSupport { file: Some(inside(name)), ..assigning() };
    let build = |name: &str, tools: ToolSupport| {
        fs::create_dir(inside(name)).unwrap();
        let builder = Server::builder().namespace(name).tmpdir(inside(name)).system_tmpdir(place.path()).tools(tools);
        builder.start(LocalHost).unwrap()
    };
    let _servers = [
        build("file", with_file("the-file")),
        build("uri", with_file("the-uri")),
        build("job", assigning()),
        build("system", system),
    ];
    let pid = std::process::id();
    let stem = stem(&inside("job"));
    let all = ToolDirections {
        file: Some(inside("the-file")),
        address: Some(format!("file:{}", inside("the-uri").display())),
        pid: Some(pid),
        namespace: Some(namespace("job")),
        system: SystemServer::Only,
        ..ToolDirections { system_tmpdir: Some(place.path().to_owned()), ..at(&inside("system")) }
    };
    let reached = |directions: &ToolDirections| {
        let tool = Tool::builder().env([("HOME", "/")]).directions(directions.clone()).connect()?;
        let server = tool.servers().remove(0).namespace.to_string();
        tool.finalize().unwrap();
        Ok::<_, AttachError>(server)
    };
    let without_file = ToolDirections { file: None, ..all.clone() };
    let without_address = ToolDirections { address: None, ..without_file.clone() };
    let without_pid = ToolDirections { pid: None, session_tmpdir: Some(inside("job")), ..without_address.clone() };
    let without_namespace = ToolDirections { namespace: None, ..without_pid.clone() };
    let in_order = [&all, &without_file, &without_address, &without_pid, &without_namespace];
    assert_eq!(in_order.map(|directions| reached(directions).unwrap()), ["file", "uri", "system", "job", "system"]);
    let first = ToolDirections { system: SystemServer::First, ..without_namespace.clone() };
    let search = ToolDirections { system: SystemServer::Any, ..without_namespace.clone() };
    assert_eq!([&first, &search].map(|directions| reached(directions).unwrap()), ["system", "job"]);
    // Decoys at each step: the choice is final.
    let garbage = inside("garbage");
    fs::write(&garbage, "noise").unwrap();
    for (directions, what) in [
        (ToolDirections { file: Some(garbage), ..all.clone() }, "file"),
        (ToolDirections { address: Some(closed()), ..without_file }, "address"),
        (ToolDirections { pid: Some(dead_pid()), ..without_address }, "pid"),
        (ToolDirections { namespace: Some(namespace("nobody")), ..without_pid }, "namespace"),
    ] {
        assert_eq!(reached(&directions).unwrap_err().status(), Status::ERR_UNREACH, "{what}");
    }
    // A system server that admits nobody ends one search, and not the other.
    let elsewhere = tempfile::tempdir().unwrap();
    let system_file = stem.strip_prefix("pmix.").unwrap().strip_suffix(".tool.").unwrap();
    let system_file = elsewhere.path().join(format!("pmix.sys.{system_file}"));
    for text in ["noise".to_owned(), decoy(&closed(), pid), decoy("dead.0;tcp4://127.0.0.1:1", dead_pid())] {
        fs::write(&system_file, text).unwrap();
        let directions = |directions: &ToolDirections| ToolDirections {
            system_tmpdir: Some(elsewhere.path().to_owned()),
            ..directions.clone()
        };
        assert_eq!(reached(&directions(&first)).unwrap(), "job");
        assert_eq!(reached(&directions(&without_namespace)).unwrap_err().status(), Status::ERR_UNREACH);
    }
}

#[test]
fn a_launcher_that_a_tool_started_is_attached_to_that_tool() {
    let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let debugger = Tool::builder().env([("HOME", "/")]).name(proc("debugger", 0)).alone().connect().unwrap();
    assert!(!debugger.is_connected() && debugger.servers().is_empty());
    let report = places[0].path().join("uri");
    let tools = ToolSupport { report: Some(AddressReport::File(report.clone())), ..assigning() };
    let inside = debugger.server_builder().tools(tools).tmpdir(places[0].path()).start(LocalHost).unwrap();
    let address = fs::read_to_string(&report).unwrap().lines().next().unwrap().to_owned();
    let _own = serve(places[1].path(), "srv", assigning());
    let started = |launcher: modex::ToolBuilder| {
        launcher.env([("PMIX_LAUNCHER_RNDZ_URI", &address)]).session_tmpdir(places[1].path()).connect()
    };
    let launcher = started(Tool::builder().launcher()).unwrap();
    assert_eq!(launcher.servers(), [proc("srv", 0), proc("debugger", 0)]);
    launcher.finalize().unwrap();
    // Without that tool a launcher has no task and fails; other tools don't need it.
    inside.shutdown();
    assert_eq!(started(Tool::builder().launcher()).unwrap_err().status(), Status::ERR_UNREACH);
    assert_eq!(started(Tool::builder()).unwrap().servers(), [proc("srv", 0)]);
}

/// Tools read `PMIX_SYSTEM_TMPDIR`, `TEMP` and `TMP`, and servers did not.
#[test]
fn a_system_server_is_where_tools_look_for_it() {
    let [place, other] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    for variable in ["PMIX_SYSTEM_TMPDIR", "TMPDIR", "TEMP", "TMP"] {
        let mut command = this_binary("system");
        for unset in ["PMIX_SYSTEM_TMPDIR", "TMPDIR", "TEMP"] {
            command.env_remove(unset);
        }
        command.env("TMP", other.path()).env(variable, place.path());
        let output = command.spawn().unwrap().wait_with_output().unwrap();
        assert!(output.status.success(), "{variable}: {output:?}");
    }
}

#[test]
fn no_server_is_an_error_unless_it_may_be() {
    let place = tempfile::tempdir().unwrap();
    let nowhere = || tool().session_tmpdir(place.path()).system_tmpdir(place.path());
    assert!(matches!(nowhere().connect(), Err(AttachError::Connect(ToolError::NoServer { .. }))));
    let me = ProcId::new(namespace("me"), 3);
    let tool = nowhere().name(me.clone()).optional().connect().unwrap();
    assert_eq!((tool.proc(), tool.client().unwrap_err().status()), (&me, Status::ERR_UNREACH));
}

/// Root found no other user's job. In an unspecific search no user may choose root's server.
#[test]
fn another_users_server_is_taken_if_it_is_named() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    const NOBODY: u32 = 65534;
    let place = tempfile::Builder::new().prefix("mt-").tempdir_in("/tmp").unwrap();
    std::os::unix::fs::chown(place.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let mut command = this_binary("serve");
    command.env("PLACE", place.path()).env("TMPDIR", place.path()).stdin(Stdio::piped()).uid(NOBODY).gid(NOBODY);
    let mut server = command.spawn().unwrap();
    let mut said = std::io::BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    while line != "serving\n" {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut said, &mut line).unwrap() > 0);
    }
    let searched = || tool().session_tmpdir(place.path()).system_tmpdir(place.path());
    let error = searched().connect().unwrap_err();
    assert!(matches!(error, AttachError::Connect(ToolError::OthersServers { owner: NOBODY, .. })), "{error}");
    let file = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path());
    let file = file.filter(|path| path.is_file()).min().unwrap();
    let address = fs::read_to_string(&file).unwrap().lines().next().unwrap().to_owned();
    let named = [
        searched().pid(server.id()),
        searched().server_namespace(namespace("theirs")),
        searched().file(&file),
        searched().address(address),
    ];
    for builder in named {
        let tool = builder.info(Info::new(Key::new("test.info").unwrap(), 1_u32)).connect().unwrap();
        assert_eq!(tool.servers(), [proc("theirs", 0)]);
        tool.finalize().unwrap();
    }
    // A file for a process that its owner does not own: a user pretends to be root's server.
    let host = modex_host(&file, server.id());
    fs::copy(&file, place.path().join(format!("{host}{}", std::process::id()))).unwrap();
    let planted = place.path().join(format!("{host}{}", std::process::id()));
    std::os::unix::fs::chown(&planted, Some(NOBODY), Some(NOBODY)).unwrap();
    let error = searched().pid(std::process::id()).connect().unwrap_err();
    assert!(matches!(error, AttachError::Connect(ToolError::NoServerOf { is_there: true, .. })), "{error}");
    server.kill().unwrap();
    server.wait().unwrap();
}

/// The part before the process number in the name of a server's file.
fn modex_host(file: &Path, pid: u32) -> String {
    file.file_name().unwrap().to_str().unwrap().strip_suffix(&pid.to_string()).unwrap().to_owned()
}
