//! Plays a captured client on a real connection, one message after the other.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use modex::bfrops::DecodeLimits;
use modex::proto::frame::FrameHeader;
use modex::proto::handshake::{Connect, HandshakeAnswer, Ids, Role, native_credential};
use modex::proto::{Command, Request, Tag};
use modex::types::ProcId;

use crate::support::ids;
use crate::vectors::{Session, Step, take_apart};

trait Connection: Read + Write + Send {}

impl<T: Read + Write + Send> Connection for T {}

/// A captured client with a connection.
pub(crate) struct Player<'a> {
    session: &'a Session,
    stream: Box<dyn Connection>,
    /// Payloads of events between the replies.
    pub(crate) events: Vec<Vec<u8>>,
}

/// A test without a reply ends with an error instead of never. Nothing else depends on it.
const HANG: Duration = Duration::from_secs(60);

impl<'a> Player<'a> {
    /// Connects by the environment of this process: over TCP, like the captured client, if the server has a TCP
    /// address.
    pub(crate) fn connect(session: &'a Session, proc: &ProcId, environment: &[(String, String)]) -> Self {
        let mut stream = open(environment);
        let (uid, gid) = ids();
        let connect = Connect {
            credential: native_credential(Ids { uid, gid }),
            role: Role::Client(proc.clone()),
            ..session.connect.clone()
        };
        stream.write_all(&introduction(session, &connect)).unwrap();
        let mut answer = [0; 8];
        stream.read_exact(&mut answer).unwrap();
        let (answer, _) = HandshakeAnswer::decode(&answer).unwrap();
        assert!(matches!(answer, HandshakeAnswer::Accepted { .. }), "{proc}: {answer:?}");
        Self { session, stream, events: Vec::new() }
    }

    /// Connects like the captured tool, with the ids of the test's user. Returns as many bytes of the server's answer
    /// as were captured.
    pub(crate) fn connect_tool(session: &'a Session, address: SocketAddr) -> (Self, Vec<u8>) {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        let (uid, gid) = ids();
        let own = Ids { uid, gid };
        let role = match session.connect.role.clone() {
            Role::Tool(_) => Role::Tool(own),
            Role::NamedTool(_, proc) => Role::NamedTool(own, proc),
            Role::Singleton(_, proc) => Role::Singleton(own, proc),
            role => panic!("{role:?} is no tool"),
        };
        let connect = Connect { credential: native_credential(own), role, ..session.connect.clone() };
        stream.write_all(&introduction(session, &connect)).unwrap();
        let mut welcome = vec![0; session.welcome.len()];
        stream.read_exact(&mut welcome).unwrap();
        (Self { session, stream: Box::new(stream), events: Vec::new() }, welcome)
    }

    /// Sends every message; returns each reply with its step.
    pub(crate) fn play(&mut self, is_said: impl Fn(&Step) -> bool) -> Vec<(&'a Step, Vec<u8>)> {
        let steps = self.session.steps.iter().filter(|step| is_said(step));
        steps.filter_map(|step| self.say(step).map(|answer| (step, answer))).collect()
    }

    fn say(&mut self, step: &'a Step) -> Option<Vec<u8>> {
        // The captured client waited for these events before it went on.
        while self.events.len() < step.events_before {
            let (tag, payload) = self.next_message().unwrap();
            assert_eq!(tag, Tag::NOTIFICATION, "an answer that nobody asked for");
            self.events.push(payload);
        }
        self.stream.write_all(&step.frame).unwrap();
        if !step.request.as_ref().is_some_and(|request| request.command().expects_reply()) {
            return None;
        }
        loop {
            let (tag, payload) = self.next_message()?;
            if tag == step.tag {
                return Some(payload);
            }
            assert_eq!(tag, Tag::NOTIFICATION, "an answer that nobody asked for");
            self.events.push(payload);
        }
    }

    /// `None`: the server has closed the connection.
    fn next_message(&mut self) -> Option<(Tag, Vec<u8>)> {
        let mut bytes = vec![0; FrameHeader::SIZE_BYTES];
        self.stream.read_exact(&mut bytes).ok()?;
        let size = u32::from_be_bytes(bytes[8..12].try_into().unwrap());
        assert!(usize::try_from(size).unwrap() <= DecodeLimits::MESSAGE_BYTES_MAX);
        bytes.resize(bytes.len() + usize::try_from(size).unwrap(), 0);
        self.stream.read_exact(&mut bytes[FrameHeader::SIZE_BYTES..]).unwrap();
        Some(take_apart(&bytes))
    }
}

/// A connect message in the captured byte order, with the captured bytes behind its last field.
fn introduction(session: &Session, connect: &Connect) -> Vec<u8> {
    let mut message = connect.encode().unwrap();
    message.extend_from_slice(&session.stray);
    let body_bytes = u8::try_from(message.len() - 16).unwrap();
    assert!(message[9..12] == [0; 3] && usize::from(message[8]) + session.stray.len() == usize::from(body_bytes));
    message[8] = body_bytes;
    if session.is_swapped {
        // The header, and the ids in the credential.
        for range in [0..16, 27..35] {
            message[range].chunks_mut(4).for_each(<[u8]>::reverse);
        }
    }
    message
}

/// Whether the process beside the captured one must send this message, so that the captured one can go on.
pub(crate) fn is_for_two(step: &Step) -> bool {
    let Some(request) = &step.request else { return false };
    let together = [
        Command::JobInfo,
        Command::Commit,
        Command::Fence,
        Command::Connect,
        Command::Disconnect,
        Command::GroupConstruct,
        Command::GroupDestruct,
        Command::Finalize,
    ];
    together.contains(&request.command()) && !matches!(request, Request::Abort(_))
}

fn open(environment: &[(String, String)]) -> Box<dyn Connection> {
    let value = |name: &str| environment.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
    let tcp = value("PMIX_SERVER_URI41").and_then(|uri| uri.split_once("tcp4://")).map(|(_, address)| address);
    if let Some(address) = tcp {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        return Box::new(stream);
    }
    let (_, path) = value("MODEX_SERVER_URI").unwrap().split_once("unix:").unwrap();
    let stream = UnixStream::connect(path.split(';').next().unwrap()).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    Box::new(stream)
}
