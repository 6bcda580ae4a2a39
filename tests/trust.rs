//! Peers with false identities or senseless messages: each harms only itself.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs::{File, Permissions, set_permissions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use modex::proto::frame::{self, FrameHeader};
use modex::proto::handshake::{Connect, Ids, Role, SECURITY_NATIVE, STORE_HASH, native_credential};
use modex::proto::{Collective, Dialect, RegisterEvents, Request, Tag, request};
use modex::ptl::{Endpoint, ServerAddress};
use modex::types::codes::range;
use modex::types::{Info, Key, ProcId, Rank, Status, Text, Value};
use modex::{
    Client, ConnectError, ConnectionLimits, FenceOptions, ForeignClients, LocalHost, Server, SocketAccess, keys,
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use support::{TestServer, description, ids, namespace, proc, role};

#[test]
fn client_process() {
    match role().as_deref() {
        Some("be admitted") => {
            let client = Client::connect().unwrap();
            assert_eq!(client.get(Rank::Wildcard, keys::JOB_SIZE), Ok(1));
            client.finalize().unwrap();
        }
        Some("be refused") => match Client::connect().unwrap_err() {
            ConnectError::Refused { status, .. } => assert_eq!(status, Status::ERR_INVALID_CRED),
            other => panic!("{other}"),
        },
        Some("be kept out") => {
            let error = Client::connect().unwrap_err();
            assert!(matches!(error, ConnectError::ServerUnreachable { .. }), "{error}");
        }
        Some("run out of descriptors") => run_out_of_descriptors(),
        Some(other) => panic!("unknown role {other}"),
        None => {}
    }
}

/// Another user than the one that runs the tests. Only root can start processes of other users.
fn other_user() -> Option<u32> {
    const NOBODY: u32 = 65_534;
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        eprintln!("not checked: only root can start a process of another user");
    }
    is_root.then_some(NOBODY)
}

/// A server with one job of one process of the given user, with or without TCP for clients of other libraries.
fn server_for(uid: u32, access: SocketAccess, clients: ForeignClients) -> TestServer {
    let directory = tempfile::tempdir().unwrap();
    set_permissions(directory.path(), Permissions::from_mode(0o711)).unwrap();
    let builder = Server::builder().tmpdir(directory.path()).access(access).foreign_clients(clients);
    let server = builder.hostname("node0").start(LocalHost).unwrap();
    server.register_namespace(&namespace("job"), 1, description(1, &[("node0", "0")])).wait().unwrap();
    server.register_client(&proc("job", 0), uid, uid).wait().unwrap();
    TestServer { server: server.into(), directory }
}

#[test]
fn a_process_of_the_registered_user_is_admitted_and_one_of_another_user_is_not() {
    let Some(user) = other_user() else { return };
    let node = server_for(user, SocketAccess::RegisteredUsers, ForeignClients::Refused);
    node.spawn_as("job", 0, "be admitted", user).succeed();
    node.spawn_as("job", 0, "be refused", user - 1).succeed();
    node.spawn("job", 0, "be refused").succeed();
}

#[test]
fn another_user_can_not_even_reach_a_socket_for_its_owner_only() {
    let Some(user) = other_user() else { return };
    let node = server_for(user, SocketAccess::OwnerOnly, ForeignClients::Refused);
    node.spawn_as("job", 0, "be kept out", user).succeed();
}

/// A user who can't reach the socket connects over TCP, where the kernel knows the owner of each connection.
#[test]
fn over_tcp_too_the_registered_user_is_admitted_and_nobody_else() {
    let Some(user) = other_user() else { return };
    let node = server_for(user, SocketAccess::OwnerOnly, ForeignClients::Welcome);
    node.spawn_as("job", 0, "be admitted", user).succeed();
    node.spawn_as("job", 0, "be kept out", user - 1).succeed();
}

fn socket_path(node: &TestServer) -> PathBuf {
    let variables = node.server.setup_fork(&proc("job", 0)).unwrap();
    let (_, uri) = variables.into_iter().find(|(name, _)| name == "MODEX_SERVER_URI").unwrap();
    match uri.parse::<ServerAddress>().unwrap().endpoint {
        Endpoint::Unix(path) => path,
        Endpoint::Tcp(address) => panic!("{address}"),
    }
}

fn stranger(node: &TestServer) -> UnixStream {
    UnixStream::connect(socket_path(node)).unwrap()
}

/// Waits for the server to close the connection. Returns the bytes before that.
fn wait_for_end(mut stream: UnixStream) -> Vec<u8> {
    let mut said = Vec::new();
    // A reset also counts as an end: the server closed without reading everything.
    let _ = stream.read_to_end(&mut said);
    said
}

fn introduction(proc: ProcId) -> Connect {
    let (uid, gid) = ids();
    Connect {
        security: Text::from(SECURITY_NATIVE),
        credential: native_credential(Ids { uid, gid }),
        role: Role::Client(proc),
        version: Text::from("5.0.0"),
        codec: Text::from("v41"),
        described: false,
        store: Text::from(STORE_HASH),
        info: Vec::new(),
    }
}

/// A client by hand, after its handshake.
fn admitted(node: &TestServer) -> UnixStream {
    let mut stream = stranger(node);
    stream.write_all(&introduction(proc("job", 0)).encode().unwrap()).unwrap();
    let mut answer = [0; 8];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..4], [0; 4]);
    stream
}

fn read_frame(stream: &mut UnixStream) -> (FrameHeader, Vec<u8>) {
    let mut header = [0; FrameHeader::SIZE_BYTES];
    stream.read_exact(&mut header).unwrap();
    let header = FrameHeader::decode(header);
    let mut payload = vec![0; header.size_bytes.try_into().unwrap()];
    stream.read_exact(&mut payload).unwrap();
    (header, payload)
}

#[test]
fn garbage_instead_of_an_introduction_costs_only_its_sender() {
    let node = TestServer::local();
    node.register_local_job("job", 1);
    let client = node.connect("job", 0);
    let mut oversized = introduction(proc("job", 0)).encode().unwrap();
    oversized[8..12].copy_from_slice(&[0xff; 4]);
    let mut no_role = introduction(proc("job", 0)).encode().unwrap();
    let role_at = 16 + b"native\0".len() + 4 + 8;
    no_role[role_at] = 99;
    let mut munge = introduction(proc("job", 0));
    munge.security = Text::from("munge");
    let mut unknown_codec = introduction(proc("job", 0));
    unknown_codec.codec = Text::from("v99");
    for garbage in [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        vec![0; 1000],
        vec![0xff; 1000],
        oversized,
        no_role,
        munge.encode().unwrap(),
        unknown_codec.encode().unwrap(),
    ] {
        let mut stream = stranger(&node);
        // The server may close before it has read everything.
        let _ = stream.write_all(&garbage);
        assert_eq!(wait_for_end(stream), b"");
    }
    client.fence(&FenceOptions::new()).wait().unwrap();
}

#[test]
fn a_process_nobody_registered_is_closed_without_an_answer() {
    let node = TestServer::local();
    node.register_local_job("job", 1);
    for claim in [proc("job", 1), proc("unknown", 0)] {
        let mut stream = stranger(&node);
        stream.write_all(&introduction(claim).encode().unwrap()).unwrap();
        assert_eq!(wait_for_end(stream), b"");
    }
    // Our own clients, and those before 4.0, get the reason.
    let mut old = introduction(proc("job", 1));
    old.version = Text::from("3.2.5");
    let mut stream = stranger(&node);
    stream.write_all(&old.encode().unwrap()).unwrap();
    assert_eq!(wait_for_end(stream), Status::ERR_NOT_FOUND.to_raw().to_be_bytes());
}

#[test]
fn an_introduction_in_single_bytes_is_understood() {
    let node = TestServer::local();
    node.register_local_job("job", 1);
    let mut stream = stranger(&node);
    for byte in introduction(proc("job", 0)).encode().unwrap() {
        stream.write_all(&[byte]).unwrap();
    }
    let mut answer = [0; 8];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..4], [0; 4]);
}

#[test]
fn a_message_that_declares_too_much_ends_its_connection_only() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let client = node.connect("job", 1);
    let mut stream = admitted(&node);
    stream.write_all(&FrameHeader { index: 1, tag: Tag(101), size_bytes: u32::MAX, padding: 0 }.encode()).unwrap();
    assert_eq!(wait_for_end(stream), b"");
    client.put(modex::types::Scope::Global, "k", 1_u32).unwrap();
    client.commit().unwrap();
}

#[test]
fn a_request_that_makes_no_sense_is_answered_with_a_status_and_the_next_one_is_served() {
    let node = TestServer::local();
    node.register_local_job("job", 1);
    let mut stream = admitted(&node);
    for (tag, payload) in [(101, vec![]), (102, vec![2, 200]), (103, vec![0xff; 100]), (104, vec![2, 3, 2, 0xff])] {
        stream.write_all(&frame::encode(1, Tag(tag), &payload).unwrap()).unwrap();
        let (header, payload) = read_frame(&mut stream);
        assert_eq!(header.tag, Tag(tag));
        // One status other than success.
        assert_eq!(payload.len(), 2);
        assert_ne!(payload, [2, 0]);
    }
    let fence = Request::Fence(Collective { procs: Vec::new(), directives: Vec::new() });
    let payload = request::encode(&fence, Dialect::OWN).unwrap();
    stream.write_all(&frame::encode(1, Tag(105), &payload).unwrap()).unwrap();
    let (header, payload) = read_frame(&mut stream);
    assert_eq!((header.tag, payload.as_slice()), (Tag(105), [2, 0].as_slice()));
}

#[test]
fn a_tag_used_twice_at_a_time_ends_the_connection() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let mut stream = admitted(&node);
    let fence = Request::Fence(Collective { procs: Vec::new(), directives: Vec::new() });
    let message = frame::encode(1, Tag(101), &request::encode(&fence, Dialect::OWN).unwrap()).unwrap();
    // The fence waits for the other process, so the first tag stays in use.
    stream.write_all(&message).unwrap();
    stream.write_all(&message).unwrap();
    assert_eq!(wait_for_end(stream), b"");
}

#[test]
fn heartbeats_are_not_answered() {
    let node = TestServer::local();
    node.register_local_job("job", 1);
    let mut stream = admitted(&node);
    stream.write_all(&frame::encode(1, Tag::HEARTBEAT, b"").unwrap()).unwrap();
    let fence = Request::Fence(Collective { procs: Vec::new(), directives: Vec::new() });
    let payload = request::encode(&fence, Dialect::OWN).unwrap();
    stream.write_all(&frame::encode(1, Tag(101), &payload).unwrap()).unwrap();
    assert_eq!(read_frame(&mut stream).0.tag, Tag(101));
}

#[test]
fn connections_that_say_nothing_do_not_keep_others_out() {
    let node = TestServer::with_connection_limits(ConnectionLimits { handshakes_max: 3, ..Default::default() });
    node.register_local_job("job", 1);
    // One connection above the limit: the oldest is dropped.
    let mut silent: Vec<UnixStream> = (0..4).map(|_| stranger(&node)).collect();
    assert_eq!(wait_for_end(silent.remove(0)), b"");
    node.connect("job", 0).finalize().unwrap();
}

#[test]
fn a_connection_that_does_not_introduce_itself_is_dropped_in_time_and_one_that_did_stays() {
    let handshake_time_max = Duration::from_secs(1);
    let node = TestServer::with_connection_limits(ConnectionLimits { handshake_time_max, ..Default::default() });
    node.register_local_job("job", 1);
    let client = node.connect("job", 0);
    let (silent, mut slow) = (stranger(&node), stranger(&node));
    slow.write_all(&introduction(proc("job", 0)).encode().unwrap()[..20]).unwrap();
    assert_eq!(wait_for_end(silent), b"");
    assert_eq!(wait_for_end(slow), b"");
    // The connection is older than both and is still served.
    client.fence(&FenceOptions::new()).wait().unwrap();
}

#[test]
fn a_peer_that_does_not_read_is_dropped_and_the_others_are_served() {
    let node =
        TestServer::with_connection_limits(ConnectionLimits { queued_bytes_max: 64 << 10, ..Default::default() });
    node.register_local_job("job", 1);
    let client = node.connect("job", 0);
    let mut deaf = admitted(&node);
    let payload = request::encode(&Request::JobInfo, Dialect::OWN).unwrap();
    // The kernel keeps some replies for the peer; then the server must. A tag may be used again only after its reply,
    // so every request has its own.
    for tag in 101.. {
        if deaf.write_all(&frame::encode(0, Tag(tag), &payload).unwrap()).is_err() {
            break;
        }
    }
    client.fence(&FenceOptions::new()).wait().unwrap();
}

/// A process in a debugger lost its connection because its peers went on sending events. The events filled the queue,
/// which replies need, too. Now it misses the events instead, and gets every reply.
#[test]
fn a_peer_that_does_not_read_loses_events_of_others_and_keeps_its_connection() {
    let node =
        TestServer::with_connection_limits(ConnectionLimits { queued_bytes_max: 256 << 10, ..Default::default() });
    node.register_local_job("job", 2);
    let client = node.connect("job", 1);
    let mut deaf = admitted(&node);
    let code = Status::from_raw(4711);
    let ask = |stream: &mut UnixStream, tag: u32, request: &Request| {
        let payload = request::encode(request, Dialect::OWN).unwrap();
        stream.write_all(&frame::encode(0, Tag(tag), &payload).unwrap()).unwrap();
    };
    ask(&mut deaf, 101, &Request::RegisterEvents(RegisterEvents { codes: vec![code], directives: Vec::new() }));
    assert_eq!(read_frame(&mut deaf).0.tag, Tag(101));
    let text = "x".repeat(32 << 10);
    let info = [Info::new(Key::from_static("text"), Value::from(text.as_str()))];
    for _ in 0..64 {
        client.notify_event(code, None, range::RANGE_LOCAL, &info).wait().unwrap();
    }
    ask(&mut deaf, 102, &Request::JobInfo);
    let heard = std::iter::from_fn(|| (read_frame(&mut deaf).0.tag != Tag(102)).then_some(())).count();
    assert!((1..64).contains(&heard), "{heard}");
    // Later events arrive again.
    client.notify_event(code, None, range::RANGE_LOCAL, &info).wait().unwrap();
    assert!(read_frame(&mut deaf).0.size_bytes > 32 << 10);
}

/// Plays server and clients, because the limit of descriptors belongs to the process.
fn run_out_of_descriptors() {
    let node = TestServer::local();
    node.register_local_job("job", 1);
    let client = node.connect("job", 0);
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    // Above all descriptors in use: a new one gets the lowest free number.
    let above = u64::try_from(File::open("/dev/null").unwrap().as_raw_fd()).unwrap() + 8;
    setrlimit(Resource::RLIMIT_NOFILE, above, hard).unwrap();
    let mut files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    // Room for the client's end of a connection, but not for the server's.
    drop(files.pop());
    let mut waiting = stranger(&node);
    // The server sees the connection no later than this request. So it has failed to accept the connection before its
    // reply.
    client.fence(&FenceOptions::new()).wait().unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
    waiting.write_all(&introduction(proc("job", 0)).encode().unwrap()).unwrap();
    let mut answer = [0; 8];
    waiting.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..4], [0; 4], "taken once there are descriptors again");
    client.finalize().unwrap();
}

#[test]
fn a_server_out_of_descriptors_serves_its_clients_and_takes_new_ones_later() {
    let node = TestServer::local();
    node.register_local_job("job", 1);
    node.spawn("job", 0, "run out of descriptors").succeed();
}

#[test]
fn a_foreign_client_gets_everything_over_the_socket() {
    let node = TestServer::local();
    node.register_local_job("job", 1);
    let mut stream = admitted(&node);
    let payload = request::encode(&Request::JobInfo, Dialect::OWN).unwrap();
    stream.write_all(&frame::encode(1, Tag(101), &payload).unwrap()).unwrap();
    let (_, payload) = read_frame(&mut stream);
    let reply = modex::proto::reply::decode(
        &payload,
        modex::proto::Command::JobInfo,
        Dialect::OWN,
        &modex::bfrops::DecodeLimits::default(),
    );
    match reply.unwrap() {
        modex::proto::Reply::JobInfo { namespace, entries } => {
            assert_eq!(namespace, Text::from("job"));
            assert!(entries.iter().any(|entry| entry.key.as_str() == keys::JOB_SIZE.name()));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_that_is_killed_in_the_middle_disturbs_nobody() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let client = node.connect("job", 1);
    for _ in 0..20 {
        let mut stream = admitted(&node);
        let message = frame::encode(1, Tag(101), &[2, 2, 0, 0, 0]).unwrap();
        stream.write_all(&message[..18]).unwrap();
    }
    client.put(modex::types::Scope::Global, "k", 1_u32).unwrap();
    client.commit().unwrap();
}
