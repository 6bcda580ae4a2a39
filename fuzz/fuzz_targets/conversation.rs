//! Whole conversations: bytes of several connections, from the connect message to the last request. They go through
//! handshake, frames and each peer's encoding into the server core, and its replies go back into that encoding. Every
//! request gets one reply, in bytes that its peer can read. At the end no state is left.
//!
//! Input: capabilities, then records: an operation, size of the bytes (2, most significant first), bytes. The lower
//! bits of the operation choose one of four connections. The upper bits say whether it is lost afterwards, the host is
//! slow or time passes.

#![no_main]

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use modex::bfrops::{DecodeLimits, EncodeError};
use modex::gds::model::MapStore;
use modex::proto::frame::FrameBuffer;
use modex::proto::handshake::{CONNECT_HEADER_BYTES, Connect, HandshakeAnswer, Role, connect_body_size};
use modex::proto::{AnswerForm, Command, Credential, Dialect, Reply, Tag, notification, reply, request};
use modex::server::{
    Capabilities, Credentials, Hello, HostCall, HostCallId, HostReply, Input, Output, PeerId, RegisterClient,
    RegisterNamespace, ServerConfig, ServerCore, StoreOffer, Upcall, UpcallId,
};
use modex::types::{Info, Key, Kval, Namespace, ProcId, Status, Time, Value};

fuzz_target!(|input: &[u8]| {
    let [capabilities, records @ ..] = input else { return };
    let mut world = World::new(*capabilities);
    let mut rest = records;
    while let [what, high, low, behind @ ..] = rest {
        let size = usize::from(u16::from_be_bytes([*high, *low])).min(behind.len());
        let (bytes, behind) = behind.split_at(size);
        world.record(*what, bytes);
        rest = behind;
    }
    world.end();
});

const JOB: &str = "testns";
const RANKS: u32 = 2;
const OWNER: Credentials = Credentials { uid: 1000, gid: 1001 };
const LIMITS: DecodeLimits =
    DecodeLimits { message_bytes_max: 1 << 16, string_bytes_max: 1 << 14, element_count_max: 1 << 14, nesting_max: 32 };

struct World {
    server: ServerCore<MapStore>,
    now: Time,
    lines: [Line; 4],
    last_peer: u64,
    upcalls: VecDeque<(UpcallId, Upcall)>,
    host_is_slow: bool,
}

/// One connection.
#[derive(Default)]
enum Line {
    #[default]
    Closed,
    Handshake(Vec<u8>),
    Open(Peer),
}

struct Peer {
    id: PeerId,
    dialect: Dialect,
    is_admitted: bool,
    inbox: FrameBuffer,
    /// Requests without a reply.
    asked: BTreeMap<Tag, Command>,
}

impl World {
    fn new(capabilities: u8) -> Self {
        let capabilities = u32::from(capabilities) | u32::from(capabilities) << 8 | u32::from(capabilities) << 16;
        let config = ServerConfig {
            capabilities: Capabilities::from_bits_truncate(capabilities),
            host_timeout: Some(Duration::from_secs(20)),
            ..ServerConfig::default()
        };
        let mut world = Self {
            server: ServerCore::new(config, MapStore::new()),
            now: Time::ZERO,
            lines: Default::default(),
            last_peer: 0,
            upcalls: VecDeque::new(),
            host_is_slow: false,
        };
        let description = vec![Info::new(Key::from_static("pmix.job.size"), RANKS)].into();
        let local_count = Some(RANKS);
        let registration = RegisterNamespace { namespace: namespace(), local_count, description, nodata: false };
        world.input(Input::Host(HostCallId(1), HostCall::RegisterNamespace(registration)));
        for rank in 0..RANKS {
            let proc = ProcId::new(namespace(), rank);
            let client = RegisterClient { proc, uid: OWNER.uid, gid: OWNER.gid, object: 0 };
            world.input(Input::Host(HostCallId(2 + u64::from(rank)), HostCall::RegisterClient(client)));
        }
        world
    }

    fn record(&mut self, what: u8, bytes: &[u8]) {
        let number = usize::from(what & 3);
        self.host_is_slow = what & 0x20 != 0;
        self.receive(number, bytes);
        if what & 0x40 != 0 {
            self.now = self.now + Duration::from_secs(7);
            self.input(Input::Timeout);
        }
        if what & 0x80 != 0 {
            self.lose(number);
        }
    }

    fn receive(&mut self, number: usize, bytes: &[u8]) {
        let Some(line) = self.lines.get_mut(number) else { return };
        match line {
            Line::Closed => *line = Line::Handshake(bytes.to_vec()),
            Line::Handshake(begun) => begun.extend_from_slice(bytes),
            Line::Open(peer) => peer.inbox.feed(bytes),
        }
        if let Line::Handshake(begun) = line {
            match greet(begun) {
                Ok(None) => return,
                Err(()) => return *line = Line::Closed,
                Ok(Some((hello, mut peer))) => {
                    self.last_peer += 1;
                    peer.id = PeerId(self.last_peer);
                    *line = Line::Open(peer);
                    self.input(Input::Connected(PeerId(self.last_peer), hello));
                }
            }
        }
        while let Some((peer, tag, outcome)) = self.next_request(number) {
            match outcome {
                Ok(request) => self.input(Input::Request(peer, tag, request)),
                // A connection ends with its first unreadable message.
                Err(()) => return self.lose(number),
            }
        }
    }

    fn next_request(&mut self, number: usize) -> Option<(PeerId, Tag, Result<modex::proto::Request, ()>)> {
        let Some(Line::Open(peer)) = self.lines.get_mut(number) else { return None };
        if !peer.is_admitted {
            return None;
        }
        let frame = match peer.inbox.next_frame() {
            Ok(Some(frame)) => frame,
            Ok(None) => return None,
            Err(_) => return Some((peer.id, Tag(0), Err(()))),
        };
        let tag = frame.header.tag;
        let Ok(request) = request::decode(frame.payload, peer.dialect, &LIMITS) else {
            return Some((peer.id, tag, Err(())));
        };
        // A peer that reuses a tag can't tell the replies apart, so its connection ends.
        if tag < Tag::DYNAMIC_FIRST || peer.asked.contains_key(&tag) {
            return Some((peer.id, tag, Err(())));
        }
        if request.command().expects_reply() {
            peer.asked.insert(tag, request.command());
        }
        Some((peer.id, tag, Ok(request)))
    }

    fn input(&mut self, input: Input) {
        self.server.handle(self.now, input);
        self.settle();
        while !self.host_is_slow
            && let Some((id, upcall)) = self.upcalls.pop_front()
        {
            self.server.handle(self.now, Input::Completed(id, answer(upcall)));
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.server.assert_consistent();
        while let Some(output) = self.server.poll_output() {
            self.output(output);
        }
    }

    fn output(&mut self, output: Output) {
        match output {
            Output::Unfinished(id) => self.server.handle(self.now, Input::Proceed(id)),
            Output::Admit(id, index) => {
                let _ = HandshakeAnswer::Accepted { index }.encode();
                self.peer(id).expect("an open connection is admitted").is_admitted = true;
            }
            Output::Answer(id, tag, answer) => {
                let reply = answer.into_reply(self.server.store());
                let peer = self.peer(id).expect("answers go to open connections");
                let command = peer.asked.remove(&tag).unwrap_or_else(|| panic!("{tag:?} was answered once too often"));
                // Job information and topologies have writers of their own in the runtime.
                if let Ok(reply) = reply {
                    readable(&reply, command, peer.dialect);
                }
            }
            Output::Notify(id, delivery) => {
                let dialect = self.peer(id).expect("events go to open connections").dialect;
                match notification::encode_event(&delivery.notice(), dialect) {
                    Ok(bytes) => drop(notification::decode_event(&bytes, dialect, &DecodeLimits::default()).unwrap()),
                    Err(error) => only_foreign_types(&error),
                }
            }
            Output::Forward(id, forwarded) => {
                let bytes = forwarded.output.bytes.clone();
                let output = notification::OutputNotice { head: forwarded.head(), bytes };
                let dialect = self.peer(id).expect("output goes to open connections").dialect;
                match notification::encode_output(&output, dialect) {
                    Ok(bytes) => drop(notification::decode_output(&bytes, dialect, &DecodeLimits::default()).unwrap()),
                    Err(error) => only_foreign_types(&error),
                }
            }
            Output::Refuse(id, _) | Output::Close(id, _) => {
                self.lines.iter_mut().filter(|line| line.is(id)).for_each(|line| *line = Line::Closed);
            }
            Output::Upcall(id, upcall) => self.upcalls.push_back((id, upcall)),
            _ => {}
        }
    }

    fn peer(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.lines.iter_mut().find_map(|line| match line {
            Line::Open(peer) if peer.id == id => Some(peer),
            _ => None,
        })
    }

    fn lose(&mut self, number: usize) {
        if let Some(Line::Open(peer)) = self.lines.get_mut(number).map(std::mem::take) {
            self.input(Input::Lost(peer.id));
        }
    }

    fn end(&mut self) {
        (0..self.lines.len()).for_each(|number| self.lose(number));
        self.host_is_slow = false;
        self.input(Input::Host(HostCallId(100), HostCall::DeregisterNamespace(namespace())));
        self.now = self.now + Duration::from_secs(100_000);
        self.input(Input::Timeout);
        let server = &self.server;
        let counts = (server.open_request_count(), server.open_call_count(), server.collective_count());
        assert_eq!((counts, server.peer_count(), server.upcall_count()), ((0, 0, 0), 0, 0));
    }
}

impl Line {
    fn is(&self, id: PeerId) -> bool {
        matches!(self, Self::Open(peer) if peer.id == id)
    }
}

/// Reads the first bytes of a connection, if the peer is a client.
fn greet(begun: &[u8]) -> Result<Option<(Hello, Peer)>, ()> {
    let Some((header, rest)) = begun.split_first_chunk::<CONNECT_HEADER_BYTES>() else { return Ok(None) };
    let size = connect_body_size(*header).map_err(drop)?;
    let Some((body, rest)) = rest.split_at_checked(size) else { return Ok(None) };
    let connect = Connect::decode(body).map_err(drop)?;
    let (Role::Client(proc), Some(codec)) = (&connect.role, connect.chosen_codec()) else { return Err(()) };
    let peer = connect.peer_version();
    let store = if connect.reads_segments() { StoreOffer::Segment } else { StoreOffer::Socket };
    let hello = Hello {
        proc: proc.clone(),
        credentials: OWNER,
        store,
        version: peer,
        strangers: std::collections::BTreeSet::new(),
    };
    let mut inbox = FrameBuffer::new(LIMITS.message_bytes_max);
    inbox.feed(rest);
    let dialect = Dialect { codec, peer };
    Ok(Some((hello, Peer { id: PeerId(0), dialect, is_admitted: false, inbox, asked: BTreeMap::new() })))
}

/// A client can read its server's reply, unless the client's encoding lacks the type of a value.
fn readable(answer: &Reply, command: Command, dialect: Dialect) {
    match reply::encode(answer, command, dialect) {
        Ok(bytes) => {
            let read = reply::decode(&bytes, command, dialect, &DecodeLimits::default());
            assert!(read.is_ok(), "{answer:?} to {command:?} can't be read: {read:?}");
        }
        Err(error) => only_foreign_types(&error),
    }
}

fn only_foreign_types(error: &EncodeError) {
    assert!(matches!(error, EncodeError::UnregisteredType { .. } | EncodeError::TooDeep { .. }), "{error}");
}

/// A host that grants every upcall.
fn answer(upcall: Upcall) -> HostReply {
    let value = || Value::from("answer");
    match upcall {
        Upcall::Fence(fence) => match fence.read() {
            Ok(fence) => HostReply::Fence { status: Status::SUCCESS, blocks: fence.data.blocks },
            Err(error) => panic!("the server's own segment is damaged: {error}"),
        },
        Upcall::DirectModex { .. } => {
            HostReply::DirectModex(vec![Kval { key: Key::from_static("k.remote"), value: value() }])
        }
        Upcall::Service(_, service) => match service.form() {
            AnswerForm::Status => HostReply::Status(Status::SUCCESS),
            AnswerForm::Lookup => HostReply::Lookup { status: Status::SUCCESS, found: Vec::new() },
            AnswerForm::Namespace => HostReply::Spawned(Namespace::new("childns").expect("a valid name")),
            AnswerForm::Infos => HostReply::Infos {
                status: Status::SUCCESS,
                info: vec![Info::new(Key::from_static("custom.query"), value())],
            },
            AnswerForm::Credential => HostReply::Credential(Credential { bytes: b"secret".to_vec(), info: Vec::new() }),
        },
        Upcall::Group(_) => HostReply::Infos {
            status: Status::SUCCESS,
            info: vec![Info::new(Key::from_static("pmix.grp.ctxid"), Value::Size(77))],
        },
        _ => HostReply::Status(Status::SUCCESS),
    }
}

fn namespace() -> Namespace {
    Namespace::new(JOB).expect("a valid name")
}
