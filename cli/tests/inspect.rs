//! `modex inspect` as users call it: the test process is the server, and the command inspects it.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that fails here has failed")]

use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use modex::gds::registration::JobDescription;
use modex::gds::{Datastore, Origin, Posted, Store, StoreOptions};
use modex::shmem::{BackingKind, Location, SegmentOptions, SegmentWriter};
use modex::topo::{Inventory, Machine, SharedMachine};
use modex::types::{Key, Namespace, Scope, Text, Topology, Value};
use modex::{FabricSource, LocalHost, Server, ToolAdmission, ToolSupport};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

const SECRET: &str = "a secret endpoint";

/// A store with one job of three ranks on two nodes. Rank 1 has committed twice.
fn server(namespace: &str, options: StoreOptions) -> Store {
    let namespace = Namespace::new(namespace).unwrap();
    let mut store = Store::new(options);
    let description = JobDescription::new(&namespace)
        .nodes(["n0", "n1"])
        .ranks_by_node([vec![0, 1], vec![2]])
        .session_id(7)
        .job_value(Key::from_static("pmix.srvr.uri"), "text with \u{1b}[31m colour")
        .build()
        .unwrap();
    store.register(&namespace, &description).unwrap();
    let first = [
        posted(Scope::Global, "endpoint", SECRET),
        posted(Scope::Remote, "bytes", vec![0xAB_u8; 100]),
        posted(Scope::Local, "number", 7_u32),
    ];
    store.commit(&namespace, 1, Origin::Local, &first).unwrap();
    store.commit(&namespace, 1, Origin::Remote, &[posted(Scope::Global, "late", 1.5_f64)]).unwrap();
    store
}

fn memfd() -> StoreOptions {
    StoreOptions::new("server.0", "n0")
}

/// A store in a separate file, and the path of that file.
fn server_in_file(namespace: &str) -> (Store, PathBuf, TempDir) {
    let directory = TempDir::new().unwrap();
    let options = StoreOptions {
        backing: BackingKind::File,
        directory: Some(directory.path().to_owned()),
        span_bytes: 64 << 20,
        ..memfd()
    };
    let store = server(namespace, options);
    let path = fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
    (store, path, directory)
}

fn posted(scope: Scope, key: &'static str, value: impl Into<Value>) -> Posted {
    Posted { scope, key: Key::from_static(key), value: value.into() }
}

fn inspect(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_modex")).arg("inspect").args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The output of a successful command.
fn text(arguments: &[&str]) -> String {
    let output = inspect(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    assert_eq!(stderr(&output), "");
    stdout(&output)
}

/// The one line on standard error with which the command fails.
fn complaint(arguments: &[&str]) -> String {
    let output = inspect(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}{}", stdout(&output), stderr(&output));
    let line = stderr(&output);
    assert!(line.starts_with("modex: ") && line.lines().count() == 1, "{line:?}");
    line
}

/// The one segment of the JSON document.
fn segment(arguments: &[&str]) -> Json {
    let document: Json = serde_json::from_str(&text(&[arguments, &["--json"]].concat())).unwrap();
    assert_eq!(document["format"], 1);
    assert_eq!(document["problems"], json!([]));
    let [segment] = document["segments"].as_array().unwrap().as_slice() else { panic!("{document:#}") };
    segment.clone()
}

/// The object in an array whose field has a value.
fn entry<'a>(array: &'a Json, field: &str, value: &str) -> &'a Json {
    let found = array.as_array().and_then(|entries| entries.iter().find(|entry| entry[field] == value));
    found.unwrap_or_else(|| panic!("no {field} {value} in {array:#}"))
}

fn own_pid() -> String {
    std::process::id().to_string()
}

fn utf8(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_live_server_is_summarised_by_its_process_id() {
    let store = server("summary", memfd());
    let found = segment(&["--pid", &own_pid(), "--namespace", "summary"]);
    assert_eq!((&found["namespace"], &found["owner"]), (&json!("summary"), &json!("server.0")));
    assert_eq!((&found["creator_pid"], &found["holder_pid"]), (&json!(std::process::id()), &json!(std::process::id())));
    assert_eq!(found["backing"], "memfd");
    assert_eq!(found["protection"], "sealed");
    for seal in ["seal", "shrink", "future-write"] {
        assert!(found["seals"].as_array().unwrap().contains(&json!(seal)), "{seal} is missing in {found:#}");
    }
    assert_eq!((&found["is_layout_ours"], &found["note"]), (&json!(true), &Json::Null));

    let content = &found["content"];
    let statistics = store.statistics(&Namespace::new("summary").unwrap()).unwrap();
    assert_eq!(content["state"], "live");
    assert_eq!(content["published_bytes"], statistics.published_bytes);
    assert_eq!(found["reserved_bytes"].as_u64(), statistics.reserved_bytes);
    assert_eq!(content["key_count"], statistics.key_count);
    assert_eq!(content["job"], json!({ "rank_count": 3, "node_count": 2, "own_node": 0, "session_id": 7 }));
    let sections = content["sections"].as_array().unwrap();
    assert_eq!(sections.iter().map(|s| s["bytes"].as_u64().unwrap()).sum::<u64>(), statistics.published_bytes);
    assert!(content["roots"].as_array().unwrap().iter().all(|root| root["offset"].as_u64() >= Some(4096)));
    assert!(content.get("keys").is_none() && content.get("realms").is_none() && content.get("rank").is_none());
}

#[test]
fn keys_realms_and_a_rank_are_listed_on_request() {
    let _store = server("details", memfd());
    let found = segment(&["--pid", &own_pid(), "--namespace", "details", "--keys", "--realms", "--rank", "1"]);
    let content = &found["content"];
    let expected = json!({ "name": "pmix.job.size", "attribute": "PMIX_JOB_SIZE", "realm": "job" });
    assert_eq!(entry(&content["keys"], "name", "pmix.job.size"), &expected);
    assert_eq!(entry(&content["keys"], "name", "endpoint")["attribute"], Json::Null);
    assert_eq!(entry(&content["keys"], "name", "endpoint")["realm"], "process");
    assert_eq!(entry(&content["keys"], "name", "pmix.hname")["realm"], "node");

    let realms = &content["realms"];
    let expected = json!({ "key": "pmix.job.size", "type": "PMIX_UINT32", "size_bytes": null, "value": 3 });
    assert_eq!(entry(&realms["job"], "key", "pmix.job.size"), &expected);
    assert_eq!(entry(&realms["node_columns"], "key", "pmix.hname")["values"], json!(["n0", "n1"]));
    let peers = entry(&realms["node_columns"], "key", "pmix.lpeers");
    assert_eq!((&peers["encoding"], &peers["values"]), (&json!("rank lists"), &json!(["0,1", "2"])));
    let node_ids = entry(&realms["proc_columns"], "key", "pmix.nodeid");
    assert_eq!((&node_ids["values"], &node_ids["count"]), (&json!([0, 0, 1]), &json!(3)));
    let names = entry(&realms["proc_columns"], "key", "pmix.hname");
    assert_eq!((&names["encoding"], &names["values"]), (&json!("of the node"), &json!(["n0", "n0", "n1"])));

    let rank = &content["rank"];
    assert_eq!(entry(&rank["values"], "key", "pmix.lrank")["value"], 1);
    let blocks = rank["blocks"].as_array().unwrap();
    let [newest, oldest] = blocks.as_slice() else { panic!("{blocks:#?}") };
    assert!(newest["offset"].as_u64() > oldest["offset"].as_u64());
    let late = json!({
        "scope": "global", "origin": "remote", "key": "late", "type": "PMIX_DOUBLE", "size_bytes": null
    });
    assert_eq!(newest["entries"], json!([late]));
    let bytes = entry(&oldest["entries"], "key", "bytes");
    assert_eq!((&bytes["scope"], &bytes["origin"]), (&json!("remote"), &json!("local")));
    assert_eq!((&bytes["type"], &bytes["size_bytes"]), (&json!("PMIX_BYTE_OBJECT"), &json!(100)));
}

#[test]
fn posted_values_are_shown_only_if_asked_for() {
    let _store = server("values", memfd());
    let pid = own_pid();
    let shy = ["--pid", &pid, "--namespace", "values", "--rank", "1", "--realms", "--keys"];
    let open = [&shy[..], &["--values"]].concat();
    for json in [&["--json"][..], &[]] {
        assert!(!text(&[&shy[..], json].concat()).contains(SECRET));
        assert!(text(&[&open[..], json].concat()).contains(SECRET));
    }
}

#[test]
fn the_tables_for_people_name_every_part_and_steer_no_terminal() {
    let _store = server("tables", memfd());
    let page = text(&["--pid", &own_pid(), "--namespace", "tables", "--keys", "--realms", "--rank", "1"]);
    for part in [
        "namespace",
        "tables",
        "server.0",
        "sealed (seals: ",
        "live, generation",
        "3 ranks on 2 nodes",
        "dictionary",
        "job record",
        "columns",
        "modex table",
        "blocks",
        "payload",
        "padding",
        "Keys",
        "PMIX_JOB_SIZE",
        "Session realm",
        "Job realm",
        "Node realm",
        "Process realm",
        "Process realm of rank 1",
        "Block of rank 1 at 0x",
        "(not shown)",
    ] {
        assert!(page.contains(part), "{part:?} is missing in\n{page}");
    }
    assert!(page.contains("\\u{1b}[31m"), "{page}");
    assert!(!page.contains('\u{1b}'), "{page}");
}

#[test]
fn the_next_inspection_shows_values_published_meanwhile() {
    let mut store = server("later", memfd());
    let look = || segment(&["--pid", &own_pid(), "--namespace", "later", "--rank", "2"])["content"].clone();
    let before = look();
    assert_eq!(before["rank"]["blocks"], json!([]));
    store.commit(&Namespace::new("later").unwrap(), 2, Origin::Local, &[posted(Scope::Global, "k", 1_u8)]).unwrap();
    let after = look();
    assert_eq!(after["rank"]["blocks"].as_array().map(Vec::len), Some(1));
    assert!(after["published_bytes"].as_u64() > before["published_bytes"].as_u64());
}

#[test]
fn a_server_is_found_by_its_socket_and_by_its_uri() {
    let _store = server("socket", memfd());
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    for address in [utf8(&path).to_owned(), format!("server.0;unix:{}", utf8(&path))] {
        let found = segment(&["--socket", &address, "--namespace", "socket"]);
        assert_eq!(found["holder_pid"], std::process::id());
        let (mut connection, _) = listener.accept().unwrap();
        let mut received = Vec::new();
        connection.read_to_end(&mut received).unwrap();
        assert_eq!(received, b"", "the server hears nothing but the end");
    }
    drop(listener);
    assert!(complaint(&["--socket", utf8(&path)]).contains("cannot connect to the server at"));
    assert!(complaint(&["--socket", "server.0;tcp4://127.0.0.1:7"]).contains("no Unix socket"));
}

#[test]
fn a_client_that_holds_a_segment_does_not_make_it_appear_twice() {
    let mut store = server("twice", memfd());
    let handle = store.handle(&Namespace::new("twice").unwrap()).unwrap();
    // Waits for the end of its input, with the segment as its standard error.
    let mut client = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::from(handle.into_descriptor().unwrap()))
        .spawn()
        .unwrap();
    // Other servers may run on this machine, and come and go. So the test looks for this namespace only.
    let all: Json = serde_json::from_str(&stdout(&inspect(&["--json", "--namespace", "twice"]))).unwrap();
    let holders: Vec<&Json> = all["segments"].as_array().unwrap().iter().map(|found| &found["holder_pid"]).collect();
    assert_eq!(holders, [&json!(std::process::id())]);

    let held = segment(&["--pid", &client.id().to_string()]);
    assert_eq!((&held["namespace"], &held["holder_pid"]), (&json!("twice"), &json!(client.id())));
    assert_eq!(held["creator_pid"], std::process::id());
    drop(client.stdin.take());
    assert!(client.wait().unwrap().success());
}

#[test]
fn a_segment_in_a_file_is_shown_by_its_path_and_by_the_process() {
    let (_store, path, _directory) = server_in_file("file");
    let by_path = segment(&["--file", utf8(&path)]);
    assert_eq!((&by_path["backing"], &by_path["holder_pid"]), (&json!("file"), &Json::Null));
    assert_eq!((&by_path["protection"], &by_path["seals"]), (&json!("read-only-descriptor"), &json!([])));
    let by_process = segment(&["--pid", &own_pid(), "--namespace", "file"]);
    assert_eq!((&by_process["backing"], &by_process["content"]), (&json!("file"), &by_path["content"]));
}

#[cfg(feature = "posix-shm")]
#[test]
fn a_posix_object_is_shown_by_its_name_and_by_its_path() {
    let options = SegmentOptions {
        backing: BackingKind::Posix,
        span_bytes: 64 << 20,
        ..SegmentOptions::new("posix", "server.0")
    };
    let writer = SegmentWriter::create(&options, "another build").unwrap();
    let Location::Name(name) = writer.location() else { panic!("a POSIX object has a name") };
    for name in [name.clone(), format!("/dev/shm{name}")] {
        let found = segment(&["--file", &name]);
        assert_eq!((&found["namespace"], &found["backing"]), (&json!("posix"), &json!("posix")));
    }
}

#[test]
fn of_another_layout_the_header_is_shown() {
    let options = SegmentOptions { span_bytes: 64 << 20, ..SegmentOptions::new("foreign", "other.3") };
    let _writer = SegmentWriter::create(&options, "another build").unwrap();
    let pid = own_pid();
    let arguments = ["--pid", &pid, "--namespace", "foreign"];
    let found = segment(&arguments);
    assert_eq!((&found["is_layout_ours"], &found["content"]), (&json!(false), &Json::Null));
    assert_eq!((&found["owner"], &found["span_bytes"]), (&json!("other.3"), &json!(64 << 20)));
    assert!(found["note"].as_str().unwrap().contains("another build"));
    assert!(text(&arguments).contains("of another build"));
    assert!(complaint(&[&arguments[..], &["--keys"]].concat()).contains("only the header can be shown"));
}

#[test]
fn a_newer_header_tells_its_first_bytes() {
    let (_store, path, directory) = server_in_file("newer");
    let mut bytes = fs::read(&path).unwrap();
    bytes[16] = 2;
    let copy = directory.path().join("copy");
    fs::write(&copy, bytes).unwrap();
    let found = segment(&["--file", utf8(&copy)]);
    assert_eq!((&found["layout_version"], &found["namespace"]), (&json!(2), &Json::Null));
    assert_eq!((&found["creator_pid"], &found["is_layout_ours"]), (&json!(std::process::id()), &json!(false)));
}

#[test]
fn files_that_are_no_segments_or_damaged_give_an_error_line() {
    let (_store, path, directory) = server_in_file("damaged");
    let good = fs::read(&path).unwrap();
    let copy = directory.path().join("copy");
    let complaint_of = |bytes: &[u8], arguments: &[&str]| {
        fs::write(&copy, bytes).unwrap();
        complaint(&[&["--file", utf8(&copy)], arguments].concat())
    };
    assert!(complaint_of(b"", &[]).contains("fewer than the 4096 of its header"));
    assert!(complaint_of(&good[..100], &["--json"]).contains("fewer than the 4096 of its header"));
    assert!(complaint_of(&vec![b'x'; 8192], &[]).contains("not a segment"));
    assert!(complaint_of(&good[..4096], &[]).contains("but the object has 4096"));

    // The job record's root leads nowhere.
    let mut astray = good;
    astray[1344..1352].copy_from_slice(&[0xFF; 8]);
    let line = complaint_of(&astray, &["--realms"]);
    assert!(line.contains("cannot read its job record"), "{line}");

    let missing = complaint(&["--file", utf8(&directory.path().join("none"))]);
    assert_eq!(missing.matches("No such file").count(), 1, "{missing}");
    assert!(complaint(&["--file", utf8(directory.path())]).contains("is not a file"));
}

#[test]
fn a_damaged_part_does_not_hide_the_others() {
    let (_store, path, directory) = server_in_file("partly");
    let copy = directory.path().join("copy");
    fs::copy(&path, &copy).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&copy).unwrap();
    file.write_all_at(&[0xFF; 8], 1344).unwrap();
    let output = inspect(&["--file", utf8(&copy), "--json", "--keys"]);
    assert_eq!(output.status.code(), Some(1));
    let document: Json = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(document["problems"].as_array().map(Vec::len), Some(1));
    assert_eq!(document["segments"][0]["content"]["job"], Json::Null);
    entry(&document["segments"][0]["content"]["keys"], "name", "endpoint");
}

#[test]
fn errors_name_the_missing_process_namespace_or_rank() {
    let _store = server("here", memfd());
    let pid = own_pid();
    assert!(complaint(&["--pid", "4294967295"]).contains("there is no process 4294967295"));
    let line = complaint(&["--pid", &pid, "--namespace", "elsewhere"]);
    assert!(line.contains("no segment of namespace \"elsewhere\"") && line.contains("here"), "{line}");
    let line = complaint(&["--pid", &pid, "--namespace", "here", "--rank", "3"]);
    assert!(line.contains("namespace here has no rank 3; it has 3 ranks"), "{line}");

    let mut idle = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    assert!(complaint(&["--pid", &idle.id().to_string()]).contains("holds no segment of modex"));
    drop(idle.stdin.take());
    assert!(idle.wait().unwrap().success());
}

#[test]
fn at_most_one_place_can_be_named() {
    assert_eq!(inspect(&["--pid", "1", "--file", "x"]).status.code(), Some(2));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let _store = server("pipe", memfd());
    let (reading, writing) = std::io::pipe().unwrap();
    drop(reading);
    let output = Command::new(env!("CARGO_BIN_EXE_modex"))
        .args(["inspect", "--pid", &own_pid(), "--namespace", "pipe"])
        .stdout(Stdio::from(OwnedFd::from(writing)))
        .output()
        .unwrap();
    assert!(output.status.success());
    assert_eq!(stderr(&output), "");
}

#[test]
fn the_help_documents_every_field_of_the_json_document() {
    let _store = server("fields", memfd());
    let found =
        segment(&["--pid", &own_pid(), "--namespace", "fields", "--keys", "--realms", "--rank", "1", "--values"]);
    let help = text(&["--help"]);
    let mut names = vec!["format".to_owned(), "problems".to_owned(), "message".to_owned()];
    field_names(&found, &mut names);
    for name in names {
        let mut words = help.split(|c: char| !c.is_alphanumeric() && c != '_');
        assert!(words.any(|word| word == name), "{name} is missing in\n{help}");
    }
}

/// Adds the names of all fields, except in values of keys.
fn field_names(json: &Json, names: &mut Vec<String>) {
    match json {
        Json::Object(fields) => {
            for (name, field) in fields {
                names.push(name.clone());
                if name != "value" && name != "values" || field.as_array().is_some_and(|array| array[0].is_object()) {
                    field_names(field, names);
                }
            }
        }
        Json::Array(elements) => elements.iter().for_each(|element| field_names(element, names)),
        _ => {}
    }
}

const MACHINE: &str = "<topology version='2.0'><object type='Machine' cpuset='0x1'><object type='Core' cpuset='0x1'>\
    <object type='PU' os_index='0' cpuset='0x1'/></object><object type='OSDev' name='eth0' osdev_type='2'/></object></topology>";

/// A segment with a topology, its only file in a directory, and the directory.
fn machine(xml: &str) -> (SharedMachine, PathBuf, TempDir) {
    let directory = TempDir::new().unwrap();
    let options = SegmentOptions {
        backing: BackingKind::File,
        directory: Some(directory.path().to_owned()),
        ..SegmentOptions::new("", "server.0")
    };
    let topology = Topology { xml: Some(Text::from(xml)), support: Vec::new() };
    let shared = SharedMachine::publish(&topology, &options).unwrap();
    let path = fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
    (shared, path, directory)
}

/// Its inventory leaves the device out. The terminal gets no control character.
#[test]
fn a_device_with_an_odd_name_is_shown_with_a_warning() {
    let (_shared, path, _directory) = machine(&MACHINE.replace("eth0", "eth\u{1b}0"));
    let shown = inspect(&["--file", utf8(&path), "--topology"]);
    assert!(shown.status.success() && stderr(&shown).contains("eth\\u{1b}0"), "{shown:?}");
    assert!(stdout(&shown).contains("eth\\u{1b}0") && !stdout(&shown).contains('\u{1b}'), "{shown:?}");
}

/// The segment of a node's topology belongs to no job, and the report shows what it is.
#[test]
fn the_topology_of_a_node_and_an_inventory_are_shown() {
    let (_shared, path, directory) = machine(MACHINE);
    let segment = segment(&["--file", utf8(&path), "--topology"]);
    assert_eq!((&segment["namespace"], &segment["is_layout_ours"]), (&json!("modex.topology"), &json!(true)));
    let hardware = &segment["hardware"];
    assert_eq!(
        (&hardware["cores"], &hardware["object_count"], &hardware["node"]),
        (&json!(1), &json!(4), &json!(null))
    );
    assert_eq!(hardware["devices"][0]["kinds"], json!(["network"]));
    assert_eq!(hardware["objects"][2]["kind"], json!("PU"));
    let shown = text(&["--file", utf8(&path), "--topology"]);
    assert!(shown.contains("Parts") && shown.contains("eth0"), "{shown}");

    let blob = Inventory::of("n7", &Machine::of_xml(MACHINE).unwrap()).encode().unwrap();
    let file = directory.path().join("blob");
    fs::write(&file, &blob).unwrap();
    let report: Json = serde_json::from_str(&text(&["--inventory", utf8(&file), "--json"])).unwrap();
    assert_eq!((&report["inventory"]["node"], &report["inventory"]["processors"]), (&json!("n7"), &json!(1)));
    assert!(text(&["--inventory", utf8(&file)]).contains("n7"));
    fs::write(&file, &blob[1..]).unwrap();
    assert!(complaint(&["--inventory", utf8(&file)]).contains("not an inventory"));
}

/// A scheduler's server knows its own node, a delivered one, and the nodes of its fabric.
#[test]
fn the_inventories_of_all_nodes_that_a_server_knows_are_shown() {
    let directory = TempDir::new().unwrap();
    let tools = ToolSupport { admission: ToolAdmission::Assigned, ..ToolSupport::default() };
    let builder = Server::builder().namespace("cluster-server").tmpdir(directory.path()).tools(tools);
    let fabric = FabricSource::parse("test:wide:2;plane:d:1").unwrap();
    let server = builder.fabric(fabric).start(LocalHost).unwrap();
    let delivered = Inventory::of("delivered", &Machine::of_xml(MACHINE).unwrap());
    server.deliver_inventory(vec![delivered.encode().unwrap()]).wait().unwrap();
    // Other servers of this process may come and go, and so the status says nothing.
    let inspect = |options: &[&str]| stdout(&inspect(&[&["--inventory", "--pid", &own_pid()], options].concat()));
    let document: Json = serde_json::from_str(&inspect(&["--json"])).unwrap();
    let cluster = entry(&document["inventories"], "server", "cluster-server:0");
    assert_eq!(cluster["pid"], json!(std::process::id()));
    assert_eq!(cluster["nodes"].as_array().unwrap().len(), 4);
    assert!(entry(&cluster["nodes"], "node", server.hostname())["processors"].as_u64() > Some(0));
    assert_eq!(entry(&cluster["nodes"], "node", "delivered")["devices"][0].get("plane"), None);
    let device = &entry(&cluster["nodes"], "node", "test001")["devices"][0];
    assert_eq!((&device["name"], &device["plane"]), (&json!("test001:nic000"), &json!("plane000")));

    let shown = inspect(&[]);
    assert!(shown.contains("server cluster-server:0, process "), "{shown}");
    assert!(shown.contains("eth0") && shown.contains("plane000"), "{shown}");
    server.close(Duration::ZERO);
}

#[test]
fn an_inventory_of_no_server_is_refused_with_the_reason() {
    assert!(complaint(&["--inventory", "--pid", "1"]).contains("process 1 is no server of this user"));
    for target in ["--pid", "--socket"] {
        let output = inspect(&["--inventory", "blob", target, "1"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("leave out --pid and --socket"), "{}", stderr(&output));
    }
}

/// Clients of a busy server wait for its longest turn, so the command shows it beside the segments.
#[test]
fn the_longest_turn_of_a_server_is_shown_with_its_cause() {
    let server = modex::Server::builder().hostname("n0").start(modex::LocalHost).unwrap();
    let job = Namespace::new("turning").unwrap();
    let description = JobDescription::new(&job).nodes(["n0"]).ranks_by_node([vec![0]]).build().unwrap();
    server.register_namespace(&job, 1, description).wait().unwrap();
    let proc = modex::types::ProcId::new(job, 0);
    let [uid, gid] = [nix::unistd::getuid().as_raw(), nix::unistd::getgid().as_raw()];
    server.register_client(&proc, uid, gid).wait().unwrap();
    // The namespace has a segment from then on, and earlier turns have ended.
    let _client = modex::Client::builder().env(server.setup_fork(&proc).unwrap()).connect().unwrap();
    let pid = std::process::id();
    let report: Json =
        serde_json::from_str(&stdout(&inspect(&["--pid", &pid.to_string(), "--namespace", "turning", "--json"])))
            .unwrap();
    let shown = report["servers"].as_array().unwrap();
    assert_eq!((shown.len(), &shown[0]["pid"]), (1, &json!(pid)));
    assert!(shown[0]["longest_turn_us"].is_u64() && shown[0]["longest_turn_cause_us"].is_u64(), "{report}");
    assert!(!shown[0]["longest_turn_cause"].as_str().unwrap().is_empty(), "{report}");
    let text = stdout(&inspect(&["--pid", &pid.to_string(), "--namespace", "turning"]));
    assert!(text.contains(&format!("server {pid}: longest turn ")), "{text}");
}
