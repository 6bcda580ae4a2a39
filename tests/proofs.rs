//! Peers that prove their identity by more, or by less, than the kernel's facts. A fake service stands for munge.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use modex::proto::handshake::{CONNECT_HEADER_BYTES, native_credential};
use modex::proto::handshake::{Connect, Ids, Role, SECURITY_MUNGE, SECURITY_NATIVE, SECURITY_NONE, STORE_HASH};
use modex::ptl::{Endpoint, ServerAddress};
use modex::types::{Status, Text};
use modex::{Client, ConnectError, LocalHost, ProofError, Prover, Server};
use parking_lot::Mutex;
use support::{TestServer, description, ids, namespace, proc};

/// Accepts "own", and text with a user and a group id; hangs at "silence".
#[derive(Debug)]
struct Fake {
    makes: &'static str,
    silence: Mutex<Receiver<()>>,
}

impl Fake {
    /// It answers again once the sender is dropped.
    fn new(makes: &'static str) -> (Arc<Self>, SyncSender<()>) {
        let (end, silence) = sync_channel(0);
        (Arc::new(Self { makes, silence: Mutex::new(silence) }), end)
    }
}

impl Prover for Fake {
    fn credential(&self) -> Result<Vec<u8>, ProofError> {
        if self.makes.is_empty() { Err(ProofError::Absent) } else { Ok(format!("{}\0", self.makes).into_bytes()) }
    }

    fn check(&self, credential: &[u8]) -> Result<(u32, u32), ProofError> {
        let text = String::from_utf8_lossy(credential);
        match text.trim_end_matches('\0') {
            "own" => Ok(ids()),
            "fault" => panic!("as the test wants it"),
            "silence" => {
                let _ = self.silence.lock().recv();
                Ok(ids())
            }
            text => match text.split_once(' ') {
                _ if !credential.ends_with(b"\0") => Err(ProofError::Garbled { size_bytes: credential.len() }),
                Some((uid, gid)) => Ok((uid.parse().unwrap(), gid.parse().unwrap())),
                None => Err(ProofError::Refused { doing: "check it", reason: "replayed".to_owned() }),
            },
        }
    }
}

fn node(prover: Option<Arc<Fake>>) -> TestServer {
    let directory = tempfile::tempdir().unwrap();
    let builder = Server::builder().tmpdir(directory.path()).hostname("node0");
    let builder = match prover {
        Some(prover) => builder.prover(prover),
        None => builder,
    };
    let node = TestServer { server: builder.start(LocalHost).unwrap().into(), directory };
    node.server.register_namespace(&namespace("job"), 2, description(2, &[("node0", "0,1")])).wait().unwrap();
    let (uid, gid) = ids();
    (0..2).for_each(|rank| node.server.register_client(&proc("job", rank), uid, gid).wait().unwrap());
    node
}

fn variable(node: &TestServer, wanted: &str) -> String {
    let variables = node.server.setup_fork(&proc("job", 0)).unwrap();
    variables.into_iter().find(|(name, _)| name == wanted).unwrap().1
}

fn address(node: &TestServer) -> SocketAddr {
    match variable(node, "PMIX_SERVER_URI41").parse::<ServerAddress>().unwrap().endpoint {
        Endpoint::Tcp(address) => address,
        Endpoint::Unix(path) => panic!("{}", path.display()),
    }
}

fn introduction(version: &str, security: &str, credential: &[u8]) -> Connect {
    Connect {
        security: Text::from(security),
        credential: credential.to_vec(),
        role: Role::Client(proc("job", 0)),
        version: Text::from(version),
        codec: Text::from("v41"),
        described: false,
        store: Text::from(STORE_HASH),
        info: Vec::new(),
    }
}

/// The server's bytes, up to its end or to the size of an admission.
fn answer(node: &TestServer, introduction: &Connect) -> Vec<u8> {
    let mut stream = TcpStream::connect(address(node)).unwrap();
    stream.write_all(&introduction.encode().unwrap()).unwrap();
    let mut said = Vec::new();
    let _ = stream.take(8).read_to_end(&mut said);
    said
}

fn is_admitted(said: &[u8]) -> bool {
    said.len() == 8 && said.starts_with(&[0; 4])
}

#[test]
fn only_a_process_that_proves_its_registered_identity_is_admitted() {
    let (prover, _end) = Fake::new("own");
    let node = node(Some(prover));
    assert_eq!(variable(&node, "PMIX_SECURITY_MODE"), "munge,native");
    let (uid, gid) = ids();
    let said = |credential: &str| answer(&node, &introduction("4.2.2", SECURITY_MUNGE, credential.as_bytes()));
    assert!(is_admitted(&said("own\0")));
    assert_eq!(said("fault\0"), b"");
    assert_eq!(said("replayed\0"), b"");
    assert_eq!(said("no NUL"), b"");
    assert_eq!(said(&format!("{} {gid}\0", uid + 1)), b"", "the kernel knows another user");
    assert_eq!(said(&format!("{uid} {}\0", gid + 1)), b"", "another group was registered");
    // Clients before 4.0 read the reason.
    let told = Status::ERR_INVALID_CRED.to_raw().to_be_bytes();
    assert_eq!(answer(&node, &introduction("3.2.5", SECURITY_MUNGE, b"replayed\0")), told);
    let native = native_credential(Ids { uid, gid });
    assert!(is_admitted(&answer(&node, &introduction("4.2.2", SECURITY_NATIVE, &native))));
}

#[test]
fn a_service_that_hangs_holds_up_nobody_but_its_own() {
    let (prover, end) = Fake::new("own");
    let node = node(Some(prover));
    let mut waiting = TcpStream::connect(address(&node)).unwrap();
    waiting.write_all(&introduction("4.2.2", SECURITY_MUNGE, b"silence\0").encode().unwrap()).unwrap();
    let (uid, gid) = ids();
    let native = native_credential(Ids { uid, gid });
    assert!(is_admitted(&answer(&node, &introduction("4.2.2", SECURITY_NATIVE, &native))));
    node.connect("job", 1).finalize().unwrap();
    drop(end);
    let mut said = [0xff; 8];
    waiting.read_exact(&mut said).unwrap();
    assert!(is_admitted(&said));
}

#[test]
fn a_peer_that_speaks_on_before_it_is_believed_is_dropped() {
    let (prover, _end) = Fake::new("own");
    let node = node(Some(prover));
    let mut stream = TcpStream::connect(address(&node)).unwrap();
    stream.write_all(&introduction("4.2.2", SECURITY_MUNGE, b"silence\0").encode().unwrap()).unwrap();
    let mut said = [0];
    while stream.write_all(&[0; 64]).is_ok() {}
    assert!(!matches!(stream.read(&mut said), Ok(1)));
}

#[test]
fn a_proof_method_that_does_not_work_is_neither_offered_nor_accepted() {
    for prover in [None, Some(Fake::new("").0), Some(Fake::new("1 1").0)] {
        let node = node(prover);
        assert_eq!(variable(&node, "PMIX_SECURITY_MODE"), "native");
        assert_eq!(answer(&node, &introduction("4.2.2", SECURITY_MUNGE, b"own\0")), b"");
    }
}

/// The kernel knows the owner of the socket; an empty credential changes nothing.
#[test]
fn one_that_claims_nothing_is_who_the_kernel_says() {
    let node = node(None);
    assert!(is_admitted(&answer(&node, &introduction("4.2.2", SECURITY_NONE, b""))));
    assert_eq!(answer(&node, &introduction("4.2.2", SECURITY_NONE, b"x")), b"");
    node.server.deregister_client(&proc("job", 0)).wait().unwrap();
    let (uid, gid) = ids();
    node.server.register_client(&proc("job", 0), uid + 1, gid).wait().unwrap();
    assert_eq!(answer(&node, &introduction("4.2.2", SECURITY_NONE, b"")), b"");
}

/// Release 3.2 waits for a status and tries twice more without one.
#[test]
fn old_releases_are_told_of_every_refusal() {
    let node = node(None);
    let refused = |change: &dyn Fn(&mut Connect)| {
        let (uid, gid) = ids();
        let mut connect = introduction("3.2.5", SECURITY_NATIVE, &native_credential(Ids { uid, gid }));
        change(&mut connect);
        Status::from_raw(i32::from_be_bytes(answer(&node, &connect).try_into().unwrap()))
    };
    assert_eq!(refused(&|connect| connect.codec = Text::from("v99")), Status::ERR_NOT_SUPPORTED);
    assert_eq!(refused(&|connect| connect.security = Text::from("munge")), Status::ERR_INVALID_CRED);
    assert_eq!(refused(&|connect| connect.credential.truncate(7)), Status::ERR_INVALID_CRED);
}

/// The security module that a client uses at another library's server with these modes. The error, if it does not
/// connect.
fn shown(modes: &'static str, prover: Option<Arc<Fake>>) -> Result<String, ConnectError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = format!("srv.0;tcp4://{}", listener.local_addr().unwrap());
    let variables =
        [("PMIX_NAMESPACE", "job"), ("PMIX_RANK", "0"), ("PMIX_SERVER_URI41", &address), ("PMIX_SECURITY_MODE", modes)];
    let builder = Client::builder().env(variables).timeout(Duration::from_secs(20));
    let builder = match prover {
        Some(prover) => builder.prover(prover),
        None => builder,
    };
    thread::scope(|scope| {
        let client = scope.spawn(move || builder.connect().map(drop));
        let (mut stream, _) = listener.accept().unwrap();
        let mut header = [0; CONNECT_HEADER_BYTES];
        if stream.read_exact(&mut header).is_err() {
            return Err(client.join().unwrap().unwrap_err());
        }
        let mut body = [0; 16];
        stream.read_exact(&mut body).unwrap();
        Ok(body.split(|byte| *byte == 0).next().map(|name| String::from_utf8_lossy(name).into_owned()).unwrap())
    })
}

#[test]
fn a_client_takes_the_first_way_of_the_servers_list_that_it_has() {
    let works = || Some(Fake::new("own").0);
    let broken = || Some(Fake::new("").0);
    assert_eq!(shown("munge,native", works()).unwrap(), "munge");
    assert_eq!(shown("munge", works()).unwrap(), "munge");
    assert_eq!(shown("native,munge", works()).unwrap(), "native");
    assert_eq!(shown("munge,native", broken()).unwrap(), "native");
    assert_eq!(shown("munge,native", None).unwrap(), "native");
    let error = shown("munge", broken()).unwrap_err();
    assert!(matches!(error, ConnectError::Unproven { reason: ProofError::Absent, .. }), "{error}");
    assert!(error.to_string().contains("PMIX_SECURITY_MODE"), "{error}");
}
