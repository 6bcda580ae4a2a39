//! A captured session, taken apart.

use std::collections::BTreeMap;

use modex::bfrops::DecodeLimits;
use modex::proto::frame::{self, Frame, FrameBuffer, FrameHeader};
use modex::proto::handshake::{CONNECT_HEADER_BYTES, Connect};
use modex::proto::notification::EventNotice;
use modex::proto::notification::decode_event;
use modex::proto::{Command, Dialect, Reply, Request, Tag, Version, reply, request};
use modex::types::Text;

/// The messages of one connection, from the connect message on.
pub(crate) struct Session {
    pub(crate) connect: Connect,
    /// Whether the client's machine has the other byte order.
    pub(crate) is_swapped: bool,
    /// Bytes behind the last field of the connect message.
    pub(crate) stray: Vec<u8>,
    pub(crate) steps: Vec<Step>,
    /// Events from the server.
    pub(crate) events: Vec<EventNotice>,
    /// The same events as frames.
    pub(crate) event_frames: Vec<Vec<u8>>,
    /// The server's answer to the connect message.
    pub(crate) welcome: Vec<u8>,
}

/// One message of the client, and its reply.
pub(crate) struct Step {
    pub(crate) frame: Vec<u8>,
    pub(crate) tag: Tag,
    /// `None`: a heartbeat.
    pub(crate) request: Option<Request>,
    pub(crate) answer: Option<Vec<u8>>,
    /// Number of events that the client had got before it sent this.
    pub(crate) events_before: usize,
}

pub(crate) const V3_2: Version = Version::new(3, 2, 5);
pub(crate) const V4_2: Version = Version::new(4, 2, 2);
pub(crate) const V5_0: Version = Version::new(5, 0, 11);
pub(crate) const V6_1: Version = Version::new(6, 1, 1);

impl Session {
    pub(crate) fn read(name: &str, server: Version) -> Self {
        let path = format!("{}/tests/vectors/{name}.hex", env!("CARGO_MANIFEST_DIR"));
        Self::of(&std::fs::read_to_string(path).unwrap(), server)
    }

    /// The sessions of tools, each with the release of both ends.
    pub(crate) fn of_tools() -> Vec<(Self, Version)> {
        let path = format!("{}/tests/vectors/tool_connect.hex", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        let sessions = text.split("# ").filter(|session| !session.is_empty()).map(|session| {
            let (title, lines) = session.split_once('\n').unwrap();
            let release = Version::parse(title.split_whitespace().next().unwrap().as_bytes());
            (Self::of(lines, release), release)
        });
        sessions.collect()
    }

    /// The session of a tool of another release. None was captured, so this is a captured one in the other encoding.
    pub(crate) fn of_tool_of(release: Version, codec: &str) -> Self {
        let (captured, of_captured) = Self::of_tools().into_iter().find(|(_, release)| *release == V4_2).unwrap();
        let connect = Connect {
            version: Text::from(release.to_string().as_str()),
            codec: Text::from(codec),
            ..captured.connect.clone()
        };
        let before = captured.dialect();
        let mut session = Self { connect, stray: Vec::new(), ..captured };
        let after = session.dialect();
        for step in &mut session.steps {
            let request = step.request.as_ref().unwrap();
            let payload = request::encode(request, after).unwrap();
            let index = FrameHeader::decode(step.frame[..FrameHeader::SIZE_BYTES].try_into().unwrap()).index;
            step.frame = frame::encode(index, step.tag, &payload).unwrap();
            let said = read_answer(step.answer.as_ref().unwrap(), request.command(), of_captured, before);
            step.answer = Some(reply::encode(&said, request.command(), after).unwrap());
        }
        session
    }

    fn of(text: &str, server: Version) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.ends_with("EOF"));
        let mut messages = lines.map(|line| (line.starts_with('>'), hex(line.split_whitespace().nth(1).unwrap())));
        let (_, first) = messages.next().unwrap();
        let connect = Connect::decode(&first[CONNECT_HEADER_BYTES..]).unwrap();
        let stray = first[connect.encode().unwrap().len()..].to_vec();
        let is_swapped = first[8] == 0;
        let (_, welcome) = messages.next().unwrap();
        let mut session = Self {
            connect,
            is_swapped,
            stray,
            steps: Vec::new(),
            events: Vec::new(),
            event_frames: Vec::new(),
            welcome,
        };
        let mut places = BTreeMap::new();
        for (is_client, bytes) in messages {
            let (tag, payload) = take_apart(&bytes);
            if is_client {
                let request = (tag != Tag::HEARTBEAT)
                    .then(|| request::decode(&payload, session.dialect(), &DecodeLimits::default()).unwrap());
                places.insert(tag, session.steps.len());
                let events_before = session.events.len();
                session.steps.push(Step { frame: bytes, tag, request, answer: None, events_before });
            } else if tag == Tag::NOTIFICATION {
                session.event_frames.push(bytes);
                let seen = Dialect { peer: server, ..session.dialect() };
                session.events.push(decode_event(&payload, seen, &DecodeLimits::default()).unwrap());
            } else if tag != Tag::HEARTBEAT {
                session.steps[places[&tag]].answer = Some(payload);
            }
        }
        session
    }

    /// The dialect of the connection at the server.
    pub(crate) fn dialect(&self) -> Dialect {
        Dialect { codec: self.connect.chosen_codec().unwrap(), peer: self.connect.peer_version() }
    }
}

/// Reads a server's reply. Servers write in the layout of the client's release.
pub(crate) fn read_answer(payload: &[u8], command: Command, server: Version, dialect: Dialect) -> Reply {
    reply::decode(payload, command, Dialect { peer: server, ..dialect }, &DecodeLimits::default()).unwrap()
}

pub(crate) fn take_apart(bytes: &[u8]) -> (Tag, Vec<u8>) {
    let mut buffer = FrameBuffer::new(DecodeLimits::MESSAGE_BYTES_MAX);
    buffer.feed(bytes);
    let Frame { header, payload } = buffer.next_frame().unwrap().unwrap();
    (header.tag, payload.to_vec())
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}
