//! Faults that peers of other libraries can make over TCP, by accident or on purpose. Each costs the peer its own
//! connection or request, with a reason in the log, and harms no other client.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use modex::proto::frame::{self, FrameHeader};
use modex::proto::handshake::{Connect, Ids, Role, SECURITY_NATIVE, STORE_HASH, native_credential};
use modex::proto::{Collective, Commit, Dialect, Get, Request, Tag, request};
use modex::ptl::{Endpoint, ServerAddress};
use modex::types::{Info, Key, Kval, ProcId, Scope, Text, Value};
use modex::{Client, ConnectionLimits, FenceOptions, ForeignClients, LocalHost, Server, SocketAccess, keys};
use support::{TestServer, description, ids, namespace, proc, role, this_binary};

#[test]
fn client_process() {
    match role().as_deref() {
        Some("claim the rank of another user") => {
            let address = address_of(std::env::vars());
            let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
            for claimed in [Ids { uid: 0, gid: 0 }, Ids { uid, gid }] {
                let mut connect = introduction(proc("job", 0));
                connect.credential = native_credential(claimed);
                assert_eq!(refused(address, &connect.encode().unwrap()), b"", "as {claimed:?}");
            }
        }
        Some("be rank 0") => {
            let _stream = admitted(address_of(std::env::vars()), &introduction(proc("job", 0)));
            let clone = this_binary("be a child of rank 0").output().unwrap();
            assert!(clone.status.success(), "{}", String::from_utf8_lossy(&clone.stderr));
            println!("is rank 0");
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        }
        Some("be a child of rank 0") => {
            drop(admitted(address_of(std::env::vars()), &introduction(proc("job", 0))));
            Client::connect().unwrap().finalize().unwrap();
        }
        Some("claim rank 0") => {
            let said = refused(address_of(std::env::vars()), &introduction(proc("job", 0)).encode().unwrap());
            assert_eq!(said, b"");
            let error = Client::connect().unwrap_err().to_string();
            assert!(error.contains("another process goes by this name"), "{error}");
        }
        Some("read what is there") => {
            let client = Client::connect().unwrap();
            assert_eq!(client.get(modex::types::Rank::Wildcard, keys::JOB_SIZE), Ok(1));
            client.finalize().unwrap();
        }
        Some(other) => panic!("unknown role {other}"),
        None => {}
    }
}

/// The log of this process.
fn log() -> &'static Mutex<Vec<u8>> {
    static LOG: OnceLock<Mutex<Vec<u8>>> = OnceLock::new();
    LOG.get_or_init(|| {
        tracing_subscriber::fmt().with_ansi(false).with_writer(|| Log).init();
        Mutex::default()
    })
}

struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        log().lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Waits until the log holds the reason: the connection may end a moment before.
fn wait_for_log(reason: &str) {
    while !String::from_utf8_lossy(&log().lock().unwrap()).contains(reason) {
        thread::sleep(Duration::from_millis(5));
    }
}

fn node(limits: ConnectionLimits) -> TestServer {
    drop(log().lock());
    let node = TestServer::with_connection_limits(limits);
    node.register_local_job("job", 2);
    node
}

fn address_of(variables: impl IntoIterator<Item = (String, String)>) -> SocketAddr {
    let (_, uri) = variables.into_iter().find(|(name, _)| name == "PMIX_SERVER_URI41").unwrap();
    match uri.parse::<ServerAddress>().unwrap().endpoint {
        Endpoint::Tcp(address) => address,
        Endpoint::Unix(path) => panic!("{path:?}"),
    }
}

fn address(node: &TestServer) -> SocketAddr {
    address_of(node.server.setup_fork(&proc("job", 0)).unwrap())
}

fn introduction(proc: ProcId) -> Connect {
    let (uid, gid) = ids();
    Connect {
        security: Text::from(SECURITY_NATIVE),
        credential: native_credential(Ids { uid, gid }),
        role: Role::Client(proc),
        version: Text::from("4.2.2"),
        codec: Text::from("v41"),
        described: false,
        store: Text::from(STORE_HASH),
        info: Vec::new(),
    }
}

/// Sends bytes and waits for the end of the connection; returns the server's bytes before it.
fn refused(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    // The server may close before it has read everything; a reset also counts as an end.
    let _ = stream.write_all(bytes);
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    said
}

fn admitted(address: SocketAddr, connect: &Connect) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&connect.encode().unwrap()).unwrap();
    let mut answer = [0; 8];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..4], [0; 4]);
    stream
}

/// Sends one request and reads its reply.
fn ask(stream: &mut TcpStream, tag: u32, payload: &[u8]) -> Vec<u8> {
    stream.write_all(&frame::encode(1, Tag(tag), payload).unwrap()).unwrap();
    let mut header = [0; FrameHeader::SIZE_BYTES];
    stream.read_exact(&mut header).unwrap();
    let header = FrameHeader::decode(header);
    assert_eq!(header.tag, Tag(tag));
    let mut reply = vec![0; header.size_bytes.try_into().unwrap()];
    stream.read_exact(&mut reply).unwrap();
    reply
}

/// Both ranks of the job are served: the second over a segment, the first over the given socket.
fn others_are_served(node: &TestServer, first: &mut TcpStream, tag: u32) {
    let client = node.connect("job", 1);
    let fence = Request::Fence(Collective { procs: Vec::new(), directives: Vec::new() });
    let fence = request::encode(&fence, Dialect::OWN).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| client.fence(&FenceOptions::new()).wait().unwrap());
        assert_eq!(ask(first, tag, &fence), [2, 0]);
    });
    client.finalize().unwrap();
}

#[test]
fn an_introduction_that_is_none_ends_its_connection_with_a_reason() {
    let node = node(ConnectionLimits::default());
    let address = address(&node);
    let mut first = admitted(address, &introduction(proc("job", 0)));
    let with = |change: fn(&mut Connect)| {
        let mut connect = introduction(proc("job", 0));
        change(&mut connect);
        connect.encode().unwrap()
    };
    let mut oversized = with(|_| {});
    oversized[8..12].copy_from_slice(&[0xff; 4]);
    let short = with(|connect| connect.credential.truncate(7));
    let unknown = "encoding \"v99\" is not supported";
    for (bytes, reason) in [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), "did not begin with a connect message"),
        (oversized, "exceeds the limit"),
        (with(|connect| connect.codec = Text::from("v99")), unknown),
        (with(|connect| connect.security = Text::from("munge")), "uses the security module \"munge\""),
        (short, "the credential of 7 bytes"),
        (with(|connect| connect.credential = vec![0; 9]), "the credential of 9 bytes"),
        (
            with(|connect| connect.credential = native_credential(Ids { uid: 77_777, gid: 0 })),
            "claims to be user 77777",
        ),
        (with(|connect| connect.role = Role::Client(proc("job", 2))), "job:2 is not registered"),
        (with(|connect| connect.role = Role::Client(proc("other", 0))), "namespace other is not registered"),
    ] {
        assert_eq!(refused(address, &bytes), b"", "{reason}");
        wait_for_log(reason);
    }
    // The client named one encoding and uses another one. The result is a bad request, not the end of the connection.
    let mut old = introduction(proc("job", 0));
    old.codec = Text::from("v3");
    let mut confused = admitted(address, &old);
    let fence = Request::Fence(Collective { procs: Vec::new(), directives: Vec::new() });
    let reply = ask(&mut confused, 101, &request::encode(&fence, Dialect::OWN).unwrap());
    assert_eq!(
        (reply.len(), &reply[..4]),
        (8, &[0, 0, 0, 1][..]),
        "one status, and in the encoding that was agreed on"
    );
    assert_ne!(reply[4..], [0; 4]);
    others_are_served(&node, &mut first, 101);
}

/// Any process of the user could claim rank 0 while rank 0 was connected. A child of rank 0 may do so, as in each
/// release of OpenPMIx.
#[test]
fn a_rank_that_is_connected_already_is_its_own_family_s_alone() {
    let node = node(ConnectionLimits::default());
    let mut first = node.spawn_waiting("job", 0, "be rank 0");
    first.wait_for_line("is rank 0");
    node.spawn("job", 0, "claim rank 0").succeed();
    wait_for_log("job:0 is connected already");
    first.release();
    node.spawn("job", 0, "be a child of rank 0").succeed();
}

/// Two connections of one process, as in each release of OpenPMIx.
#[test]
fn a_rank_that_is_connected_already_may_be_again_and_nobody_is_disturbed() {
    let node = node(ConnectionLimits::default());
    let mut first = admitted(address(&node), &introduction(proc("job", 0)));
    let second = admitted(address(&node), &introduction(proc("job", 0)));
    others_are_served(&node, &mut first, 101);
    drop(second);
    others_are_served(&node, &mut first, 102);
}

#[test]
fn a_process_of_another_user_can_not_claim_a_rank() {
    const NOBODY: u32 = 65_534;
    if !nix::unistd::geteuid().is_root() {
        eprintln!("not checked: only root can start a process of another user");
        return;
    }
    drop(log().lock());
    let directory = tempfile::tempdir().unwrap();
    let builder = Server::builder().tmpdir(directory.path()).access(SocketAccess::RegisteredUsers).hostname("node0");
    let server = builder.start(LocalHost).unwrap();
    server.register_namespace(&namespace("job"), 1, description(1, &[("node0", "0")])).wait().unwrap();
    server.register_client(&proc("job", 0), 0, 0).wait().unwrap();
    let node = TestServer { server: server.into(), directory };
    node.spawn_as("job", 0, "claim the rank of another user", NOBODY).succeed();
    wait_for_log("claims to be user 0, but its socket belongs to user 65534");
    wait_for_log("must run as uid 0 gid 0, but the connection belongs to uid 65534 gid 65534");
    node.spawn("job", 0, "read what is there").succeed();
}

/// COMMAND 6 (publish), user 0, one info with key "k" and this value: v41, not described.
fn publishing(value: &[u8]) -> Vec<u8> {
    [&[2, 6, 2, 0, 2, 1, 2, 4, b'k', 0, 0][..], value].concat()
}

#[test]
fn requests_that_promise_more_than_they_hold_are_refused_one_by_one() {
    let node = node(ConnectionLimits::default());
    let mut first = admitted(address(&node), &introduction(proc("job", 0)));
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    // Arrays of arrays, 10 000 levels deep: type 39, one element of type 39, and so on.
    let mut nested = vec![39];
    (0..10_000).for_each(|_| nested.extend([39, 1]));
    nested.extend([1, 0]);
    let requests = [
        [&[2, 3, 2][..], &huge].concat(),
        [&[2, 6, 2, 0, 2][..], &huge].concat(),
        publishing(&[3, 0xfe, 0xff, 0xff, 0xff, 0x0f]),
        publishing(&[&[27][..], &huge].concat()),
        publishing(&[&[39, 14][..], &huge].concat()),
        publishing(&nested),
        vec![2, 200],
        Vec::new(),
    ];
    for (tag, payload) in (101..).zip(&requests) {
        let reply = ask(&mut first, tag, payload);
        assert_eq!((reply.len(), reply[0]), (2, 2), "request {tag} is answered with one status: {reply:?}");
        assert_ne!(reply[1], 0, "request {tag}");
    }
    wait_for_log("a request can't be read");
    others_are_served(&node, &mut first, 200);
}

/// The peak memory of this process, in KiB.
fn memory_peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}

/// A server never inflates a compressed value.
#[test]
fn a_value_that_would_inflate_without_end_is_kept_as_it_is() {
    let node = node(ConnectionLimits::default());
    let mut first = admitted(address(&node), &introduction(proc("job", 0)));
    // The value declares 1 GiB, and really has 48 MiB of zeros.
    let mut encoder = flate2::write::ZlibEncoder::new(vec![0, 0, 0, 0x40], flate2::Compression::best());
    let zeros = vec![0; 1 << 20];
    (0..48).for_each(|_| encoder.write_all(&zeros).unwrap());
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 1 << 20, "{} bytes", bomb.len());
    let entry = Kval { key: Key::from_static("bomb"), value: Value::CompressedString(bomb) };
    let commit = Request::Commit(Commit { parts: vec![(Scope::Global, vec![entry])] });
    let before = memory_peak();
    assert_eq!(ask(&mut first, 101, &request::encode(&commit, Dialect::OWN).unwrap()), [2, 0]);
    others_are_served(&node, &mut first, 102);
    let grown = memory_peak() - before;
    assert!(grown < 32 << 10, "{grown} KiB");
    // A client that requests it gets the rest, and the log has the reason.
    assert!(ask(&mut first, 103, &getting("bomb")).len() < 1000);
    wait_for_log("a client's compressed value can't be unpacked; clients of other libraries do not get it");
    others_are_served(&node, &mut first, 104);
}

/// A request for a value of rank 0.
fn getting(key: &'static str) -> Vec<u8> {
    let get = Get { proc: proc("job", 0), directives: Vec::new(), key: Some(Key::from_static(key)) };
    request::encode(&Request::Get(get), Dialect::OWN).unwrap()
}

#[test]
fn a_silent_connection_that_was_not_introduced_is_dropped_in_time() {
    let node = node(ConnectionLimits { handshake_time_max: Duration::from_secs(1), ..Default::default() });
    let mut first = admitted(address(&node), &introduction(proc("job", 0)));
    let mut begun = TcpStream::connect(address(&node)).unwrap();
    begun.write_all(&introduction(proc("job", 0)).encode().unwrap()[..20]).unwrap();
    for mut silent in [TcpStream::connect(address(&node)).unwrap(), begun] {
        assert_eq!(silent.read(&mut [0; 8]).unwrap_or(0), 0, "closed");
    }
    others_are_served(&node, &mut first, 101);
}

/// The kernel keeps some replies for the peer; then the server must, up to a limit.
#[test]
fn a_peer_that_does_not_read_is_dropped_and_the_others_are_served() {
    let node = node(ConnectionLimits { queued_bytes_max: 70_001, ..Default::default() });
    let mut first = admitted(address(&node), &introduction(proc("job", 0)));
    let mut deaf = admitted(address(&node), &introduction(proc("job", 0)));
    // A tag may be used again only after its reply, so every request has its own.
    for tag in 101.. {
        if deaf.write_all(&frame::encode(1, Tag(tag), &[2, 0]).unwrap()).is_err() {
            break;
        }
    }
    wait_for_log("more exceed the limit of 70001");
    others_are_served(&node, &mut first, 101);
}

#[test]
fn half_a_message_and_silence_is_an_end_in_time_and_a_slow_one_is_not() {
    let message_pause_max = Duration::from_secs(1);
    let node = node(ConnectionLimits { message_pause_max, ..Default::default() });
    let mut first = admitted(address(&node), &introduction(proc("job", 0)));
    let mut idle = admitted(address(&node), &introduction(proc("job", 0)));
    for half in [&[0; 5][..], &FrameHeader { index: 1, tag: Tag(101), size_bytes: 1000, padding: 0 }.encode()] {
        let mut silent = admitted(address(&node), &introduction(proc("job", 0)));
        silent.write_all(half).unwrap();
        assert_eq!(silent.read(&mut [0; 8]).unwrap_or(0), 0, "closed");
        wait_for_log("did not finish a message");
    }
    // The connection was silent between two messages all the time.
    let unknown = ask(&mut idle, 101, &[2, 200]);
    assert_eq!(unknown.len(), 2);
    others_are_served(&node, &mut first, 101);
}

/// Each connection stayed below its own limit, but all together took all memory.
#[test]
fn the_process_with_the_most_memory_loses_its_connection_at_the_limit() {
    let node = node(ConnectionLimits { held_bytes_max: 8 << 20, ..Default::default() });
    let begin = |rank: u32, size_bytes: usize| {
        let mut stream = admitted(address(&node), &introduction(proc("job", rank)));
        stream.write_all(&FrameHeader { index: 1, tag: Tag(101), size_bytes: 20 << 20, padding: 0 }.encode()).unwrap();
        stream.write_all(&vec![0; size_bytes]).unwrap();
        stream
    };
    let mut other = begin(1, 3 << 20);
    let [mut smaller, mut larger] = [2 << 20, (2 << 20) + 500_000].map(|size_bytes| begin(0, size_bytes));
    smaller.write_all(&vec![0; 400_000]).unwrap();
    other.write_all(&[0]).unwrap();
    // Now the connections hold almost 8 MiB.
    let mut last = admitted(address(&node), &introduction(proc("job", 0)));
    last.write_all(&FrameHeader { index: 1, tag: Tag(101), size_bytes: 20 << 20, padding: 0 }.encode()).unwrap();
    last.write_all(&vec![0; 200_000]).unwrap();
    wait_for_log("above the limit of 8388608, and this process holds the most");
    assert_eq!(larger.read(&mut [0; 8]).unwrap_or(0), 0, "closed");
    for stream in [&mut other, &mut smaller, &mut last] {
        stream.set_nonblocking(true).unwrap();
        assert_eq!(stream.read(&mut [0; 8]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "still there");
    }
}

/// A client chooses its dialect, and each dialect has another reply. The server kept all of these replies. Replies that
/// no client read were not counted.
#[test]
fn a_rank_that_speaks_in_every_tongue_holds_no_more_than_others() {
    let node = node(ConnectionLimits { held_bytes_max: 32 << 20, ..Default::default() });
    let mut described = description(2, &[("node0", "0,1")]);
    described.push(Info::new(Key::from_static("site.table"), Value::from(vec![0xa5; 6 << 20])));
    node.server.register_namespace(&namespace("large"), 2, described).wait().unwrap();
    (0..2).for_each(|rank| node.register_client("large", rank));
    let mut deaf = Vec::new();
    for (codec, ask) in [("v3", &[0, 0, 0, 1, 0][..]), ("v4", &[2, 0]), ("v41", &[2, 0]), ("v51", &[2, 0])] {
        for version in ["4.1.2", "4.2.2"] {
            let mut connect = introduction(proc("large", 0));
            (connect.codec, connect.version) = (Text::from(codec), Text::from(version));
            let mut stream = admitted(address(&node), &connect);
            stream.write_all(&frame::encode(1, Tag(101), ask).unwrap()).unwrap();
            deaf.push(stream);
        }
    }
    wait_for_log("above the limit of 33554432, and this process holds the most");
    let mut other = admitted(address(&node), &introduction(proc("large", 1)));
    assert!(ask(&mut other, 101, &[2, 0]).len() > 6 << 20);
    drop(deaf);
    let mut first = admitted(address(&node), &introduction(proc("job", 0)));
    others_are_served(&node, &mut first, 101);
}

#[test]
fn a_silent_crowd_does_not_keep_anybody_out() {
    let node = node(ConnectionLimits { handshakes_max: 3, ..Default::default() });
    let mut silent: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(address(&node)).unwrap()).collect();
    assert_eq!(silent.remove(0).read(&mut [0; 8]).unwrap_or(0), 0, "the oldest goes");
    wait_for_log("more than 3 connections had not introduced themselves");
    let mut first = admitted(address(&node), &introduction(proc("job", 0)));
    others_are_served(&node, &mut first, 101);
}

/// With TCP off, the server overrides the address variables of an outer job, so that no process follows them.
#[test]
fn a_server_without_tcp_gives_no_address_and_covers_those_that_are_there() {
    let directory = tempfile::tempdir().unwrap();
    let builder = Server::builder().tmpdir(directory.path()).foreign_clients(ForeignClients::Refused);
    let server = builder.start(LocalHost).unwrap();
    let variables = server.variables_of(&proc("job", 0)).unwrap();
    let uris: Vec<&str> = variables
        .iter()
        .filter(|(name, _)| name.starts_with("PMIX_SERVER_URI"))
        .map(|(_, value)| value.as_str())
        .collect();
    assert_eq!(uris, [""; 5]);
}
