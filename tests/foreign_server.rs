//! Our client and foreign servers, which this test plays: sessions captured from OpenPMIx, and servers that refuse,
//! close, stammer or keep silent. Each failure ends with a clear error, within the caller's time, and never with a
//! hang.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "a server of the test's own needs a thread")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use modex::client::{CallError, LossReason};
use modex::keys::{self, TypedKey};
use modex::proto::frame::{self, FrameHeader};
use modex::proto::{Command, Dialect, RankData, Reply, Tag, reply};
use modex::types::{AsStatus, Info, Key, Kval, Namespace, ProcId, Rank, Scope, Status, Value};
use modex::{Client, ClientBuilder, ConnectError, FenceError, FenceOptions, GetError, GetOptions, RequestError};

/// A server that lives as long as its script.
struct Server {
    port: u16,
    script: JoinHandle<()>,
}

impl Server {
    fn new(script: impl FnOnce(TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        Self { port, script: std::thread::spawn(move || script(listener.accept().unwrap().0)) }
    }

    /// The variables of a launcher, and variables by which users configure OpenPMIx, which our client ignores.
    fn environment(&self, uri: &str, version: &str) -> Vec<(String, String)> {
        let address = format!("srv.ns.0;tcp4://127.0.0.1:{}", self.port);
        let variables = [
            ("PMIX_NAMESPACE", "testns"),
            ("PMIX_RANK", "0"),
            (uri, &address),
            ("PMIX_VERSION", version),
            ("PMIX_SECURITY_MODE", "munge,native"),
            ("PMIX_HOSTNAME", "node0"),
            ("PMIX_GDS_MODULE", "ds21,ds12,hash"),
            ("PMIX_BFROP_BUFFER_TYPE", "PMIX_BFROP_BUFFER_NON_DESC"),
            ("PMIX_MCA_gds", "ds21"),
            ("PMIX_MCA_psec", "none"),
            ("PMIX_MCA_ptl", "usock"),
            ("PMIX_MCA_bfrops_base_verbose", "9"),
        ];
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }

    fn client(&self) -> ClientBuilder {
        Client::builder().env(self.environment("PMIX_SERVER_URI41", "4.2.2rc2")).timeout(Duration::from_secs(20))
    }

    fn hasty_client(&self) -> ClientBuilder {
        self.client().timeout(Duration::from_millis(100))
    }

    fn ended(self) {
        self.script.join().unwrap();
    }
}

/// Reads the connect message and returns it without its header.
fn read_hello(stream: &mut TcpStream) -> Vec<u8> {
    let mut header = [0; 16];
    stream.read_exact(&mut header).unwrap();
    assert_eq!(header[..8], [0xff; 8]);
    #[expect(clippy::host_endian_bytes, reason = "the header of the connect message is the sender's memory")]
    let size = u32::from_ne_bytes(header[8..12].try_into().unwrap());
    let mut body = vec![0; usize::try_from(size).unwrap()];
    stream.read_exact(&mut body).unwrap();
    body
}

/// Reads a message and returns it with its header.
fn read_message(stream: &mut TcpStream) -> Vec<u8> {
    let mut message = vec![0; FrameHeader::SIZE_BYTES];
    stream.read_exact(&mut message).unwrap();
    let size = u32::from_be_bytes(message[8..12].try_into().unwrap());
    let start = message.len();
    message.resize(start + usize::try_from(size).unwrap(), 0);
    stream.read_exact(&mut message[start..]).unwrap();
    message
}

/// Waits until the client has left.
fn await_end(stream: &mut TcpStream) {
    let mut rest = [0; 64];
    while !matches!(stream.read(&mut rest), Ok(0) | Err(_)) {}
}

fn send(stream: &mut TcpStream, tag: u32, reply: &Reply, command: Command) {
    let payload = reply::encode(reply, command, Dialect::OWN).unwrap();
    stream.write_all(&frame::encode(0, Tag(tag), &payload).unwrap()).unwrap();
}

const WELCOME: [u8; 8] = [0, 0, 0, 0, 0, 0, 0, 1];

fn kval(key: &'static str, value: impl Into<Value>) -> Kval {
    Kval { key: Key::from_static(key), value: value.into() }
}

/// Admits the client and sends it the description of a job of two.
fn admit(stream: &mut TcpStream) {
    read_hello(stream);
    stream.write_all(&WELCOME).unwrap();
    read_message(stream);
    let entries = vec![kval("pmix.job.size", 2_u32)];
    send(stream, 101, &Reply::JobInfo { namespace: "testns".into(), entries }, Command::JobInfo);
}

fn peer() -> ProcId {
    ProcId::new(Namespace::new("testns").unwrap(), 1)
}

/// One direction of a captured session.
struct Session {
    asked: Vec<Vec<u8>>,
    answered: Vec<Vec<u8>>,
}

impl Session {
    fn captured(text: &str) -> Self {
        let of = |mark: char| {
            let lines = text.lines().filter_map(move |line| line.strip_prefix(mark)).map(str::trim);
            lines.filter(|line| *line != "EOF").map(bytes_of).collect()
        };
        Self { asked: of('>'), answered: of('<') }
    }
}

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Plays a server, as OpenPMIx's did. After the handshake, the client's messages equal those of OpenPMIx's client byte
/// for byte.
fn replay(mut stream: TcpStream, session: &Session) {
    let hello = read_hello(&mut stream);
    let position = |needle: &[u8]| hello.windows(needle.len()).any(|window| window == needle);
    assert!(position(b"testns\0\0\0\0\0") && position(b"hash\0"), "{hello:?}");
    stream.write_all(&session.answered[0]).unwrap();
    for (at, expected) in session.asked.iter().enumerate().skip(1) {
        assert_eq!(&read_message(&mut stream), expected, "message {at}");
        match session.answered.get(at) {
            Some(answer) => stream.write_all(answer).unwrap(),
            // Servers of 3.2 close the connection instead of answering the last message.
            None => stream.shutdown(Shutdown::Both).unwrap(),
        }
    }
}

fn play_along(client: Client) {
    assert!(!client.reads_segment());
    assert_eq!(client.get(Rank::Wildcard, keys::JOB_SIZE), Ok(2));
    assert_eq!(client.get(1, keys::LOCAL_RANK), Ok(1));
    assert_eq!(client.get(Rank::Wildcard, keys::LOCAL_SIZE), Ok(2));
    assert_eq!(client.get(1, keys::HOSTNAME).unwrap(), "node0");
    client.put(Scope::Local, "k.local", "hello-local").unwrap();
    client.put(Scope::Remote, "k.remote", "hello-remote").unwrap();
    client.put(Scope::Global, "k.global", 0xdead_beef_u32).unwrap();
    client.commit().unwrap();
    client.fence(&FenceOptions::new().collect(true)).wait().unwrap();
    assert_eq!(client.get(1, TypedKey::<u32>::new("k.global")), Ok(0xdead_beef));
    // This value came with the reply to the first Get.
    assert_eq!(client.get(1, TypedKey::<str>::new("k.local")).unwrap(), "hello-local");
    client.finalize().unwrap();
}

#[test]
fn captured_sessions_of_three_releases_are_conversed_byte_for_byte() {
    let sessions = [
        ("PMIX_SERVER_URI3", "3.2.5a1", include_str!("vectors/v3.2_full_init_to_finalize.hex")),
        ("PMIX_SERVER_URI41", "4.2.2rc2", include_str!("vectors/v4.2.2_full_init_to_finalize.hex")),
        ("PMIX_SERVER_URI61", "6.1.1rc2", include_str!("vectors/v6.1_full_init_to_finalize.hex")),
    ];
    for (uri, version, text) in sessions {
        let session = Session::captured(text);
        let server = Server::new(move |stream| replay(stream, &session));
        let client = Client::builder().env(server.environment(uri, version)).timeout(Duration::from_secs(20));
        play_along(client.connect().unwrap_or_else(|error| panic!("{version}: {error}")));
        server.ended();
    }
}

/// The server's release may be later than all known ones, too large for a number, nonsense or missing.
#[test]
fn a_server_of_unknown_release_is_spoken_to_in_what_its_address_names() {
    for version in ["9.9.9", "v9.0.0rc1", "4294967296.0.0", "nonsense", "", "4", "..", "-1.2.3"] {
        for uri in ["PMIX_SERVER_URI41", "PMIX_SERVER_URI4"] {
            let server = Server::new(|mut stream| {
                admit(&mut stream);
                let message = read_message(&mut stream);
                let header = FrameHeader::decode(message[..FrameHeader::SIZE_BYTES].try_into().unwrap());
                let Tag(tag) = header.tag;
                send(&mut stream, tag, &Reply::Status(Status::SUCCESS), Command::Finalize);
            });
            let client = Client::builder().env(server.environment(uri, version)).timeout(Duration::from_secs(20));
            let client = client.connect().unwrap_or_else(|error| panic!("{uri}, {version:?}: {error}"));
            assert_eq!(client.get(Rank::Wildcard, keys::JOB_SIZE), Ok(2), "{uri}, {version:?}");
            client.finalize().unwrap_or_else(|error| panic!("{uri}, {version:?}: {error}"));
            server.ended();
        }
    }
}

#[test]
fn a_server_that_offers_only_what_nobody_knows_is_an_error_that_says_what_is_missing() {
    let server = Server::new(drop);
    let client =
        Client::builder().env(server.environment("PMIX_SERVER_URI71", "7.1.0")).timeout(Duration::from_secs(20));
    let error = client.connect().unwrap_err().to_string();
    assert!(error.contains("testns") && error.contains("PMIX_SERVER_URI41"), "{error}");
    drop(TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).unwrap());
    server.ended();
}

fn unreachable(error: ConnectError) -> String {
    match error {
        ConnectError::ServerUnreachable { reason, .. } => reason.to_string(),
        other => panic!("{other}"),
    }
}

#[test]
fn a_server_that_closes_is_named_as_unreachable_wherever_it_closes() {
    let scripts: [fn(TcpStream); 5] = [
        drop,
        |mut stream| drop(read_hello(&mut stream)),
        |mut stream| {
            read_hello(&mut stream);
            stream.write_all(&WELCOME[..6]).unwrap();
        },
        |mut stream| {
            read_hello(&mut stream);
            stream.write_all(&WELCOME).unwrap();
        },
        |mut stream| {
            read_hello(&mut stream);
            stream.write_all(&WELCOME).unwrap();
            read_message(&mut stream);
            stream.write_all(&[0, 0, 0, 0, 0, 0, 0, 101, 0, 0]).unwrap();
        },
    ];
    for script in scripts {
        let server = Server::new(script);
        let reason = unreachable(server.client().connect().unwrap_err());
        assert!(reason.contains("closed the connection") || reason.contains("connection lost"), "{reason}");
        server.ended();
    }
}

#[test]
fn a_server_that_keeps_silent_is_given_up_wherever_it_falls_silent() {
    let scripts: [fn(TcpStream); 4] = [
        |mut stream| await_end(&mut stream),
        |mut stream| {
            read_hello(&mut stream);
            stream.write_all(&WELCOME[..4]).unwrap();
            await_end(&mut stream);
        },
        |mut stream| {
            read_hello(&mut stream);
            stream.write_all(&WELCOME).unwrap();
            await_end(&mut stream);
        },
        |mut stream| {
            read_hello(&mut stream);
            stream.write_all(&WELCOME).unwrap();
            read_message(&mut stream);
            stream.write_all(&[0, 0, 0, 0, 0, 0, 0, 101, 0, 0, 1, 0, 0, 0, 0, 0, 2, 14]).unwrap();
            await_end(&mut stream);
        },
    ];
    for script in scripts {
        let server = Server::new(script);
        let reason = unreachable(server.hasty_client().connect().unwrap_err());
        assert!(reason.contains("did not answer within"), "{reason}");
        server.ended();
    }
}

#[test]
fn a_refusal_is_passed_on() {
    let server = Server::new(|mut stream| {
        read_hello(&mut stream);
        stream.write_all(&Status::ERR_INVALID_CRED.to_raw().to_be_bytes()).unwrap();
    });
    match server.client().connect().unwrap_err() {
        ConnectError::Refused { status, .. } => assert_eq!(status, Status::ERR_INVALID_CRED),
        other => panic!("{other}"),
    }
    server.ended();
}

#[test]
fn an_invalid_answer_ends_the_attempt_to_connect() {
    // A message longer than the limit, a nonsense message, and one about another job.
    let other_job = reply::encode(
        &Reply::JobInfo { namespace: "other".into(), entries: Vec::new() },
        Command::JobInfo,
        Dialect::OWN,
    );
    let other_job = frame::encode(0, Tag(101), &other_job.unwrap()).unwrap();
    let nonsense = frame::encode(0, Tag(101), &[0xee; 64]).unwrap();
    let endless = vec![0, 0, 0, 0, 0, 0, 0, 101, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    for (answer, expected) in [
        (endless, "does not have the encoding"),
        (nonsense, "does not have the encoding"),
        (other_job, "job \"other\""),
    ] {
        let server = Server::new(move |mut stream| {
            read_hello(&mut stream);
            stream.write_all(&WELCOME).unwrap();
            read_message(&mut stream);
            stream.write_all(&answer).unwrap();
            await_end(&mut stream);
        });
        let reason = unreachable(server.client().connect().unwrap_err());
        assert!(reason.contains(expected), "{expected}: {reason}");
        server.ended();
    }
}

#[test]
fn an_address_without_a_server_is_an_error_and_no_singleton() {
    let server = Server::new(drop);
    drop(TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).unwrap());
    let client = server.client();
    server.ended();
    let reason = unreachable(client.connect().unwrap_err());
    assert!(reason.contains("cannot connect"), "{reason}");
}

#[test]
fn a_server_that_dies_in_a_call_ends_the_call() {
    let server = Server::new(|mut stream| {
        admit(&mut stream);
        read_message(&mut stream);
    });
    let client = server.client().connect().unwrap();
    match client.fence(&FenceOptions::new()).wait() {
        Err(FenceError::Call(CallError::Lost { reason: LossReason::EndOfFile | LossReason::Broken, .. })) => {}
        other => panic!("{other:?}"),
    }
    // There is no server left to finalize with.
    client.finalize().unwrap();
    server.ended();
}

fn compressed(text: &[u8], declared: u32) -> Value {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(text).unwrap();
    #[expect(clippy::host_endian_bytes, reason = "the form is the sender's memory")]
    let length = declared.to_ne_bytes();
    Value::CompressedString([length.to_vec(), encoder.finish().unwrap()].concat())
}

#[test]
fn strings_that_a_peer_compressed_are_read_and_bombs_are_errors_of_their_own_get() {
    let long = "0123456789".repeat(1000);
    let text = long.clone();
    let server = Server::new(move |mut stream| {
        admit(&mut stream);
        read_message(&mut stream);
        let entries = vec![
            kval("long", compressed(text.as_bytes(), 10_000)),
            kval("bomb", compressed(&vec![0; 1 << 20], u32::MAX)),
            kval("damaged", Value::CompressedString(vec![4, 0, 0, 0, 1, 2, 3])),
            kval("plain", 7_u32),
        ];
        send(&mut stream, 102, &Reply::Data(vec![RankData { proc: peer(), entries }]), Command::Get);
        await_end(&mut stream);
    });
    let client = server.client().connect().unwrap();
    assert_eq!(client.get(1, TypedKey::<str>::new("long")).unwrap(), long);
    for key in ["bomb", "damaged"] {
        let error = client.get_value(&peer(), key, &GetOptions::new()).unwrap_err();
        assert!(matches!(error, GetError::Damaged { .. }), "{key}: {error}");
    }
    assert_eq!(client.get(1, TypedKey::<u32>::new("plain")), Ok(7));
    drop(client);
    server.ended();
}

/// OpenPMIx's clients give the old value. Our clients give the new one, under every server.
#[test]
fn a_value_that_was_replaced_is_asked_for_again_after_a_fence() {
    let server = Server::new(|mut stream| {
        admit(&mut stream);
        for (get, fence, value) in [(102, 103, 1_u32), (104, 105, 2)] {
            read_message(&mut stream);
            let entries = vec![kval("k", value)];
            send(&mut stream, get, &Reply::Data(vec![RankData { proc: peer(), entries }]), Command::Get);
            read_message(&mut stream);
            send(&mut stream, fence, &Reply::Status(Status::SUCCESS), Command::Fence);
        }
        await_end(&mut stream);
    });
    let client = server.client().connect().unwrap();
    for value in [1, 2] {
        assert_eq!(client.get(1, TypedKey::<u32>::new("k")), Ok(value));
        assert_eq!(client.get(1, TypedKey::<u32>::new("k")), Ok(value), "it is not asked for twice");
        client.fence(&FenceOptions::new()).wait().unwrap();
    }
    drop(client);
    server.ended();
}

/// One thread waited for its reply only. Another thread's message that did not fit into the socket was never sent
/// completely. Here the first reply depends on that message.
#[test]
fn a_message_larger_than_the_socket_is_sent_while_another_thread_waits() {
    let (asked, is_asked) = mpsc::channel();
    let server = Server::new(move |mut stream| {
        admit(&mut stream);
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        read_message(&mut stream);
        asked.send(()).unwrap();
        assert!(read_message(&mut stream).len() > LARGE_BYTES);
        send(&mut stream, 103, &Reply::Status(Status::SUCCESS), Command::Publish);
        send(&mut stream, 102, &Reply::Status(Status::SUCCESS), Command::Fence);
        await_end(&mut stream);
    });
    let client = server.client().connect().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.fence(&FenceOptions::new()).wait());
        is_asked.recv().unwrap();
        let (done, is_done) = mpsc::channel();
        let large = vec![Info::new(Key::from_static("large"), Value::ByteObject(vec![7; LARGE_BYTES]))];
        client.publish(large).then(move |result| done.send(result).unwrap()).unwrap();
        is_done.recv().unwrap().unwrap();
        waiting.join().unwrap().unwrap();
    });
    drop(client);
    server.ended();
}

/// More than the buffers of two sockets hold, and less than the limit of a message.
const LARGE_BYTES: usize = 15 << 20;

/// A commit that is too long for one message is sent in two. A request that fits in no message is refused, without harm
/// to others.
#[test]
fn no_message_is_longer_than_the_release_takes() {
    let server = Server::new(|mut stream| {
        read_hello(&mut stream);
        stream.write_all(&WELCOME).unwrap();
        read_message(&mut stream);
        let dialect = Dialect { peer: modex::proto::Version::new(3, 2, 5), ..Dialect::OWN };
        let told = Reply::JobInfo { namespace: "testns".into(), entries: Vec::new() };
        let payload = reply::encode(&told, Command::JobInfo, dialect).unwrap();
        stream.write_all(&frame::encode(0, Tag(101), &payload).unwrap()).unwrap();
        for tag in [102, 103] {
            let commit = read_message(&mut stream);
            assert!(commit.len() < 16 << 20 && commit.len() > 12 << 20, "{} bytes", commit.len());
            send(&mut stream, tag, &Reply::Status(Status::SUCCESS), Command::Commit);
        }
        await_end(&mut stream);
    });
    let client = Client::builder().env(server.environment("PMIX_SERVER_URI41", "3.2.5")).connect().unwrap();
    client.put(Scope::Global, "large", Value::ByteObject(vec![7; 13 << 20])).unwrap();
    client.commit().unwrap();
    let info = vec![Info::new(Key::from_static("too large"), Value::ByteObject(vec![7; 17 << 20]))];
    match client.publish(info).wait().unwrap_err() {
        RequestError::Call(CallError::NotSendable { command: Command::Publish, .. }) => {}
        other => panic!("{other}"),
    }
    drop(client);
    server.ended();
}

/// From 6.0 on, servers of OpenPMIx pass the values of a group's members to those on other nodes. Each member sends its
/// own. Our client did not, and the others found nothing.
#[test]
fn a_request_to_form_a_group_carries_what_its_sender_has_put_for_other_nodes() {
    for (version, is_sent) in [("5.0.9", false), ("6.1.0", true)] {
        let server = Server::new(move |mut stream| {
            admit(&mut stream);
            let request = read_message(&mut stream);
            let names = |name: &[u8]| request.windows(name.len()).any(|part| part == name);
            assert_eq!((names(b"a port"), names(b"a shm")), (is_sent, false), "{version}");
            send(&mut stream, 102, &Reply::Status(Status::ERR_NOT_SUPPORTED), Command::GroupConstruct);
            await_end(&mut stream);
        });
        let client = Client::builder().env(server.environment("PMIX_SERVER_URI41", version)).connect().unwrap();
        client.put(Scope::Remote, "a port", 7_u32).unwrap();
        client.put(Scope::Local, "a shm", 7_u32).unwrap();
        let members = vec![ProcId { rank: Rank::Wildcard, ..peer() }];
        let refused = client.group_construct("g", members, Vec::new()).wait().unwrap_err();
        assert_eq!(refused.status(), Status::ERR_NOT_SUPPORTED);
        drop(client);
        server.ended();
    }
}
