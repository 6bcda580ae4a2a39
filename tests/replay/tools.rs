//! Captured tools at our server, and our tool at captured servers.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use modex::bfrops::DecodeLimits;
use modex::proto::frame::{self, FrameHeader};
use modex::proto::handshake::{CONNECT_HEADER_BYTES, Connect, Ids, Role, connect_body_size};
use modex::proto::{Dialect, Reply, Request, Service, Version, reply, request};
use modex::types::{Info, Key, ProcId, Value};
use modex::{
    AddressReport, Capabilities, Host, QueryInfo, Requester, Responder, Server, Tool, ToolAdmission, ToolSupport,
};
use modex::{ToolUpcall, keys};

use crate::meaning::{Meaning, meaning};
use crate::player::Player;
use crate::server_side::compare;
use crate::support::{ids, proc};
use crate::vectors::{Session, Step, V3_2, V5_0, V6_1, read_answer, take_apart};

/// The host of the captured servers.
struct CapturedHost;

impl Host for CapturedHost {
    fn capabilities(&self) -> Capabilities {
        Capabilities::TOOL_CONNECTED | Capabilities::QUERY
    }

    fn tool_connected(&self, tool: ToolUpcall, reply: Responder<Option<ProcId>>) {
        reply.succeed(tool.claimed.is_none().then(|| proc("assigned-tool-ns", 0)));
    }

    fn query(&self, _: Requester, request: QueryInfo, reply: Responder<Vec<Info>>) {
        let keys = request.queries.into_iter().flat_map(|query| query.keys);
        let answers = keys.map(|key| Info::new(Key::from_bytes(key.as_bytes()).unwrap(), Value::from("answer")));
        reply.succeed(answers.collect());
    }
}

#[test]
fn tools_of_every_release_get_from_our_server_what_they_got() {
    let sessions = Session::of_tools();
    assert_eq!(sessions.len(), 3);
    sessions.iter().for_each(|(session, release)| ask(session, *release));
}

/// These were not captured: the messages of a tool of 4.2 and its server, in other encodings.
#[test]
fn tools_that_speak_as_3_2_and_5_0_do_get_from_our_server_what_one_of_4_2_got() {
    for (release, codec) in [(V3_2, "v3"), (V5_0, "v41")] {
        ask(&Session::of_tool_of(release, codec), release);
    }
}

/// A server that admits tools, and its address.
fn server(place: &Path) -> (Server, SocketAddr) {
    let file = place.join("address");
    let report = Some(AddressReport::File(file.clone()));
    let tools = ToolSupport { admission: ToolAdmission::Named, report, ..ToolSupport::default() };
    let server = Server::builder().namespace("srvns").tmpdir(place).tools(tools).start(CapturedHost).unwrap();
    (server, address_in(&file))
}

/// Plays a captured tool at our server.
fn ask(session: &Session, release: Version) {
    let place = tempfile::tempdir().unwrap();
    let (_server, address) = server(place.path());
    let (mut player, welcome) = Player::connect_tool(session, address);
    assert_eq!(welcome, session.welcome, "{release}");
    compare(&release.to_string(), session, release, &player.play(|_| true));
}

/// As in `wire.md` 3.2 and 3.5: flag 9, and since 5.0 the answer for a client. No such session was captured.
#[test]
fn processes_of_5_0_and_6_1_that_nobody_launched_join_our_server() {
    for (release, codec) in [(V5_0, "v41"), (V6_1, "v41"), (V6_1, "v61")] {
        let place = tempfile::tempdir().unwrap();
        let (_server, address) = server(place.path());
        let mut session = Session::of_tool_of(release, codec);
        let (uid, gid) = ids();
        let own = proc("singleton.node0.4711", 0);
        session.connect.role = Role::Singleton(Ids { uid, gid }, own.clone());
        session.welcome.truncate(8);
        let (mut player, welcome) = Player::connect_tool(&session, address);
        assert_eq!(welcome[..4], [0; 4], "{release}");
        let answers = player.play(|step| matches!(step.request, Some(Request::JobInfo | Request::Finalize)));
        assert_eq!(answers.len(), 2, "{release}");
        let read = |(step, answer): &(&Step, Vec<u8>)| {
            let command = step.request.as_ref().unwrap().command();
            meaning(read_answer(answer, command, release, session.dialect()), session.dialect().codec)
        };
        let Meaning::Facts(facts) = read(&answers[0]) else { panic!("{release}: no job information") };
        let size = facts.iter().find(|((_, key), _)| key == keys::JOB_SIZE.name()).map(|(_, value)| value);
        assert_eq!(size, Some(&Value::Uint32(1)), "{release}: {facts:?}");
        assert_eq!(answers[1].1, session.steps.last().unwrap().answer.clone().unwrap(), "{release}");
    }
}

fn address_in(file: &Path) -> SocketAddr {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().next().unwrap().split_once("tcp4://").unwrap().1.parse().unwrap()
}

/// A test without a reply ends with an error instead of never. Nothing else depends on it.
const HANG: Duration = Duration::from_secs(60);

/// Plays the captured server on a new connection, in the dialect of the peer.
fn act(mut stream: TcpStream, session: &Session) {
    let mut header = [0; CONNECT_HEADER_BYTES];
    stream.read_exact(&mut header).unwrap();
    let mut body = vec![0; connect_body_size(header).unwrap()];
    stream.read_exact(&mut body).unwrap();
    let connect = Connect::decode(&body).unwrap();
    match (&connect.role, &session.connect.role) {
        (Role::Tool(_), Role::Tool(_)) => {}
        (Role::NamedTool(_, found), Role::NamedTool(_, expected)) => assert_eq!(found, expected),
        (found, expected) => panic!("{found:?} instead of {expected:?}"),
    }
    stream.write_all(&session.welcome).unwrap();
    let dialect = Dialect { codec: connect.chosen_codec().unwrap(), peer: connect.peer_version() };
    for step in &session.steps {
        let mut message = vec![0; FrameHeader::SIZE_BYTES];
        stream.read_exact(&mut message).unwrap();
        let size = u32::from_be_bytes(message[8..12].try_into().unwrap());
        message.resize(FrameHeader::SIZE_BYTES + usize::try_from(size).unwrap(), 0);
        stream.read_exact(&mut message[FrameHeader::SIZE_BYTES..]).unwrap();
        let (tag, payload) = take_apart(&message);
        let found = request::decode(&payload, dialect, &DecodeLimits::default()).unwrap();
        let expected = step.request.as_ref().unwrap();
        assert_eq!(&found, expected);
        let captured = step.answer.as_ref().unwrap();
        let answer = reply::decode(captured, expected.command(), session.dialect(), &DecodeLimits::default()).unwrap();
        let answer = reply::encode(&answer, expected.command(), dialect).unwrap();
        stream.write_all(&frame::encode(0, tag, &answer).unwrap()).unwrap();
    }
}

#[test]
fn our_tool_asks_servers_of_every_release_as_theirs_did() {
    Session::of_tools().iter().for_each(|(session, release)| ask_captured_server(session, *release));
}

/// As above: the server of 4.2 in the encodings that were not captured.
#[test]
fn our_tool_asks_servers_that_speak_as_3_2_and_5_0_do() {
    for (release, codec) in [(V3_2, "v3"), (V5_0, "v41")] {
        ask_captured_server(&Session::of_tool_of(release, codec), release);
    }
}

fn ask_captured_server(session: &Session, release: Version) {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("address");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = format!("srvns.0;tcp4://{}", listener.local_addr().unwrap());
    std::fs::write(&file, format!("{address}\nv{release}\n")).unwrap();
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            let stream = listener.accept().unwrap().0;
            stream.set_read_timeout(Some(HANG)).unwrap();
            act(stream, session);
        });
        let (builder, expected) = match &session.connect.role {
            Role::NamedTool(_, name) => (Tool::builder().name(name.clone()), name.clone()),
            _ => (Tool::builder(), proc("assigned-tool-ns", 0)),
        };
        let tool = builder.env([("HOME", "/")]).address(format!("file:{}", file.display())).connect().unwrap();
        assert_eq!((tool.proc(), tool.servers()), (&expected, vec![proc("srvns", 0)]), "{release}");
        for step in &session.steps {
            let Some(Request::Service(Service::QueryInfo(request))) = step.request.clone() else { continue };
            let answer = step.answer.as_ref().unwrap();
            let command = modex::proto::Command::QueryInfo;
            let Reply::Infos(expected) = read_answer(answer, command, release, session.dialect()) else { panic!() };
            assert_eq!(tool.client().unwrap().query(request.queries).wait().unwrap().results, expected, "{release}");
        }
        // A value of the tool's job that the server sent.
        let job = ProcId { namespace: tool.proc().namespace.clone(), rank: modex::types::Rank::Wildcard };
        let client = tool.client().unwrap();
        let size = client.get_value(&job, keys::UNIV_SIZE.name(), &modex::GetOptions::new().optional()).unwrap();
        assert_eq!(size.into_value(), Ok(Value::Uint32(1)), "{release}");
        tool.finalize().unwrap();
        server.join().unwrap();
    });
}
