//! Separation of users.
//!
//! On a server with processes of several users, a process of one read the values of another's job over the socket, and
//! raised events in its handlers. Each request had a check of its own, or none: only tools had to prove their user. Now
//! one table (`server::rules::access`) holds all permissions, every request uses it, and this test covers all of it.

use std::collections::BTreeSet;

use super::harness::*;
use crate::gds::model::MapStore;
use crate::proto::{
    Abort, Collective, Command, Group, IofPull, IofPush, JobControl, Monitor, Notify, QueryInfo, RegisterEvents, Reply,
    Request, ResolvePeers, Spawn, Version,
};
use crate::server::rules::access::{Action, Object, Relation, Trust};
use crate::server::{
    Capabilities, Credentials, Hello, HostCall, HostReply, Input, Output, PeerId, RegisterClient, RegisterNamespace,
    Requester, ServerConfig, ToolAdmission, ToolPolicy, UpcallId,
};
use crate::types::codes::range;
use crate::types::{DataArray, DataType, Info, InfoFlags, Namespace, ProcId, Query, Rank, Scope, Status, Text, Value};

const ALICE: u32 = 1001;
const BOB: u32 = 1002;
const SERVER: u32 = 500;
const CODE: Status = Status::from_raw(-3001);
const HEARD: PeerId = PeerId(100);

/// A process or tool that acts on Alice's job.
#[derive(Clone, Copy, Debug)]
struct Who {
    name: &'static str,
    uid: u32,
    is_tool: bool,
    relation: Relation,
}

const fn process(name: &'static str, uid: u32, relation: Relation) -> Who {
    Who { name, uid, is_tool: false, relation }
}

const fn tool(name: &'static str, uid: u32, relation: Relation) -> Who {
    Who { name, uid, is_tool: true, relation }
}

const EVERYBODY: [Who; 11] = [
    process("same", ALICE, Relation::Own),
    process("other", BOB, Relation::Stranger),
    process("tied", BOB, Relation::Tied),
    process("grouped", BOB, Relation::Tied),
    process("parent", BOB, Relation::Parent),
    process("root", 0, Relation::Stranger),
    process("server", SERVER, Relation::Stranger),
    tool("tool-of-alice", ALICE, Relation::Own),
    tool("tool-of-bob", BOB, Relation::Stranger),
    tool("tool-of-root", 0, Relation::Stranger),
    tool("tool-of-server", SERVER, Relation::Stranger),
];

impl Who {
    fn proc(self) -> ProcId {
        ProcId::new(namespace(self.name), 0)
    }

    /// The table's rule, in the words of this test.
    fn may(self, action: Action) -> bool {
        let rule = action.rule();
        let is_trusted = [0, SERVER].contains(&self.uid)
            && match rule.trust {
                Trust::All => true,
                Trust::Tools => self.is_tool,
                Trust::Nobody => false,
            };
        is_trusted || self.relation >= rule.needs
    }
}

fn alices() -> ProcId {
    ProcId::new(namespace("alices"), 0)
}

fn everybody_of(name: &str) -> ProcId {
    ProcId { namespace: namespace(name), rank: Rank::Wildcard }
}

fn announce(rig: &mut Rig, proc: &ProcId, uid: u32) {
    rig.register(proc.namespace.as_str(), Some(1), Some(1));
    rig.host(HostCall::RegisterClient(RegisterClient { proc: proc.clone(), uid, gid: uid, object: 0 }));
}

fn join(rig: &mut Rig, peer: PeerId, proc: &ProcId, uid: u32) {
    announce(rig, proc, uid);
    let credentials = Credentials { uid, gid: uid };
    let version = Version::new(5, 0, 0);
    let hello = Hello { proc: proc.clone(), credentials, store: SOCKET, version, strangers: BTreeSet::new() };
    let outputs = rig.input(Input::Connected(peer, hello));
    assert!(matches!(outputs[0], Output::Admit(..)), "{outputs:?}");
}

fn listen(rig: &mut Rig, peer: PeerId) {
    let wish = RegisterEvents { codes: vec![CODE], directives: Vec::new() };
    rig.request(peer, Request::RegisterEvents(wish));
}

/// A server of an ordinary user, with a job of Alice's, and all kinds of requesters.
fn world_with(capabilities: Capabilities, own_uid: u32) -> (Rig, Vec<(Who, PeerId)>) {
    let tools = ToolPolicy { admission: ToolAdmission::Named, any_user: true, own_uid, name_prefix: "t".to_owned() };
    let capabilities = capabilities | Capabilities::SPAWN | Capabilities::TOOL_CONNECTED;
    let config = ServerConfig { capabilities, tools, ..ServerConfig::default() };
    let mut rig = Rig::with(config, MapStore::new());
    join(&mut rig, HEARD, &alices(), ALICE);
    rig.put(HEARD, Scope::Global, "a", 1);
    listen(&mut rig, HEARD);
    let mut peers = Vec::new();
    for (who, id) in EVERYBODY.into_iter().zip(1..) {
        let peer = PeerId(id);
        if who.is_tool {
            let credentials = Credentials { uid: who.uid, gid: who.uid };
            let hello = super::tools::stranger();
            let hello =
                crate::server::ToolHello { claimed: Some(who.proc()), credentials, claimed_gid: who.uid, ..hello };
            let outputs = super::tools::arrive(&mut rig, id, hello);
            let (upcall, _) = upcall(&outputs);
            let outputs = rig.complete(upcall, HostReply::Tool(None));
            assert!(matches!(outputs[..], [Output::AdmitTool(..)]), "{outputs:?}");
        } else {
            join(&mut rig, peer, &who.proc(), who.uid);
        }
        listen(&mut rig, peer);
        peers.push((who, peer));
    }
    let named = |name: &str| peers.iter().find(|(who, _)| who.name == name).unwrap().1;
    let connect = || Collective { procs: vec![everybody_of("alices"), everybody_of("tied")], directives: Vec::new() };
    for peer in [HEARD, named("tied")] {
        rig.request(peer, Request::Connect(connect()));
    }
    let group = || Group {
        command: Command::GroupConstruct.to_raw(),
        id: Some(Text::from("g")),
        procs: vec![everybody_of("alices"), everybody_of("grouped")],
        directives: Vec::new(),
    };
    for peer in [HEARD, named("grouped")] {
        rig.request(peer, Request::GroupConstruct(group()));
    }
    let spawn = Request::from(Spawn { job: Vec::new(), apps: Vec::new() });
    let (id, _) = upcall(&rig.request(named("parent"), spawn));
    rig.complete(id, HostReply::Spawned(namespace("alices")));
    (rig, peers)
}

fn world() -> (Rig, Vec<(Who, PeerId)>) {
    world_with(Capabilities::all() - Capabilities::CONNECT - Capabilities::GROUP - HOST_FIRST, SERVER)
}

/// Capabilities of requests that would ask the host first.
const HOST_FIRST: Capabilities = Capabilities::CLIENT_CONNECTED
    .union(Capabilities::TOOL_CONNECTED)
    .union(Capabilities::QUERY)
    .union(Capabilities::REGISTERS_ON_CONNECT)
    .union(Capabilities::REGISTER_EVENTS);

/// The refusal of a request, if it is refused.
fn refusal(rig: &mut Rig, peer: PeerId, request: Request) -> Option<Status> {
    let outputs = rig.request(peer, request);
    let asked: Vec<UpcallId> = upcalls(&outputs).into_iter().map(|(id, _)| id).collect();
    for id in asked {
        rig.complete(id, HostReply::Status(Status::SUCCESS));
    }
    replies(&outputs).into_iter().find_map(|(to, reply)| match reply {
        Reply::Status(status) if to == peer && status != Status::SUCCESS => Some(status),
        _ => None,
    })
}

fn custom(targets: &[ProcId]) -> Info {
    let elements = targets.iter().cloned().map(Value::from).collect();
    let value = Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements }));
    Info { key: key("pmix.evrange"), flags: 0, value }
}

fn notify(range: u8, info: Vec<Info>) -> Request {
    Request::Notify(Notify { status: CODE, range, info })
}

fn notified(outputs: &[Output]) -> Vec<PeerId> {
    let notified = |output: &Output| if let Output::Notify(peer, _) = output { Some(*peer) } else { None };
    outputs.iter().filter_map(notified).collect()
}

/// The request for an action on Alice's job. Hearing events and mapping segments have none.
fn request_of(action: Action) -> Option<Request> {
    let (alices, all) = (vec![alices()], everybody_of("alices"));
    let kill = || vec![flag("pmix.jctrl.kill")];
    Some(match action {
        Action::Read => get(&alices[0], Some("a"), &[]),
        Action::Query => {
            let qualifiers = vec![Info::new(key("pmix.nspace"), "alices")];
            Request::from(QueryInfo::new(vec![Query { keys: vec![Text::from("pmix.qry.ptable")], qualifiers }]))
        }
        Action::Resolve => Request::ResolvePeers(ResolvePeers { node: None, namespace: Some(Text::from("alices")) }),
        Action::Raise => notify(range::RANGE_CUSTOM, vec![custom(&alices)]),
        Action::PullOutput => {
            Request::IofPull(IofPull { procs: vec![all], directives: Vec::new(), channels: 2, local_id: Some(1) })
        }
        Action::PushInput => {
            Request::from(IofPush { targets: alices, directives: Vec::new(), bytes: b"text".to_vec() })
        }
        Action::Control => Request::from(JobControl { targets: alices, directives: kill() }),
        Action::Abort => Request::Abort(Abort { status: Status::ERROR, message: None, procs: vec![all] }),
        Action::Monitor => Request::from(Monitor {
            monitor: Info { key: key("pmix.monitor.proc"), flags: 0, value: Value::from(alices[0].clone()) },
            error: CODE,
            directives: Vec::new(),
        }),
        Action::CleanUp | Action::Hear | Action::Map => return None,
    })
}

#[test]
fn every_action_of_the_table_is_permitted_to_those_it_names_and_to_nobody_else() {
    let (rig, peers) = world();
    for action in Action::ALL {
        for (who, peer) in &peers {
            let object = namespace("alices");
            let expected = if who.may(action) { Ok(()) } else { Err(action.rule().refusal) };
            let found = rig.server.permit_peer(*peer, action, Object::Job(&object));
            assert_eq!(found, expected, "{action:?} by {who:?}");
        }
    }
}

/// The same through the public interface: every request uses the table.
#[test]
fn every_request_asks_the_table() {
    for action in Action::ALL {
        let (mut rig, peers) = world();
        for (who, peer) in peers {
            let Some(request) = request_of(action) else { continue };
            let expected = if who.may(action) { None } else { Some(action.rule().refusal) };
            let found = refusal(&mut rig, peer, request);
            // A job without a description has no list of peers, which gives another status.
            let found = found.filter(|status| *status != Status::ERR_DATA_VALUE_NOT_FOUND);
            assert_eq!(found, expected, "{action:?} by {who:?}");
        }
    }
}

/// Queries about the use of resources are answered beside the core, for these processes.
#[test]
fn a_process_has_those_measured_that_it_may_monitor() {
    let (rig, peers) = world();
    for (who, _) in peers {
        let requester = Requester { proc: who.proc(), object: 0, uid: who.uid, gid: who.uid };
        let named = rig.server.monitored(&requester, &[alices()]).map(|found| found.len());
        let expected = if who.may(Action::Monitor) { Ok(1) } else { Err(Status::ERR_NO_PERMISSIONS) };
        let all = rig.server.all_monitored(&requester);
        assert_eq!(named, expected, "{who:?}");
        assert_eq!(all.iter().any(|process| process.proc == alices()), expected.is_ok(), "{who:?}");
    }
}

/// A refusal reveals nothing: it is the same for an unknown name.
#[test]
fn a_strangers_job_looks_as_one_that_does_not_exist() {
    for action in Action::ALL {
        let (mut rig, peers) = world();
        let stranger = peers.iter().find(|(who, _)| who.name == "other").unwrap().1;
        let Some(request) = request_of(action) else { continue };
        let found = refusal(&mut rig, stranger, request);
        rig.host(HostCall::DeregisterNamespace(namespace("alices")));
        assert_eq!(refusal(&mut rig, stranger, request_of(action).unwrap()), found, "{action:?}");
    }
}

/// Regression: a query with two qualifiers for its job went to the host, which could answer about the other job.
#[test]
fn a_query_that_names_a_strangers_job_anywhere_stays_here() {
    let capabilities = Capabilities::all() - Capabilities::CONNECT - Capabilities::GROUP - HOST_FIRST;
    let (mut rig, peers) = world_with(capabilities | Capabilities::QUERY, SERVER);
    let (who, stranger) = *peers.iter().find(|(who, _)| who.name == "other").unwrap();
    let job = |name: &str| Info::new(key("pmix.nspace"), name);
    let process = |proc: ProcId| Info::new(key("pmix.procid"), proc);
    let mut goes_up = |qualifiers: Vec<Info>| {
        let query = Query { keys: vec![Text::from("pmix.qry.ptable")], qualifiers };
        !upcalls(&rig.request(stranger, Request::from(QueryInfo::new(vec![query])))).is_empty()
    };
    assert!(goes_up(vec![job("other")]));
    for qualifiers in [
        vec![job("alices")],
        vec![job("other"), job("alices")],
        vec![job("other"), process(alices())],
        vec![process(who.proc()), process(alices())],
        vec![Info::new(key("pmix.nspace"), 7_u32), job("alices")],
        vec![Info { flags: InfoFlags::REQUIRED.bits(), ..flag("unknown") }, job("alices")],
    ] {
        assert!(!goes_up(qualifiers.clone()), "{qualifiers:?}");
    }
}

#[test]
fn events_reach_no_stranger_in_whatever_range() {
    let ranges = [range::RANGE_LOCAL, range::RANGE_NAMESPACE, range::RANGE_SESSION, range::RANGE_GLOBAL];
    for range in ranges {
        let (mut rig, peers) = world();
        for &(who, peer) in &peers {
            let outputs = rig.request(peer, notify(range, vec![flag("pmix.evnocache")]));
            let reaches = who.may(Action::Raise) && range != range::RANGE_NAMESPACE;
            assert_eq!(notified(&outputs).contains(&HEARD), reaches, "range {range} by {who:?}");
        }
        let outputs = rig.request(HEARD, notify(range, vec![flag("pmix.evnocache")]));
        for (who, peer) in peers {
            let reaches = who.may(Action::Hear) && range != range::RANGE_NAMESPACE;
            assert_eq!(notified(&outputs).contains(&peer), reaches, "range {range} heard by {who:?}");
        }
    }
}

/// A later listener gets no more events than an earlier one.
#[test]
fn kept_events_reach_no_stranger() {
    let (mut rig, peers) = world();
    let code = Status::from_raw(-3002);
    rig.request(HEARD, Request::Notify(Notify { status: code, range: range::RANGE_GLOBAL, info: Vec::new() }));
    for (who, peer) in peers {
        let wish = RegisterEvents { codes: vec![code], directives: Vec::new() };
        let outputs = rig.request(peer, Request::RegisterEvents(wish));
        assert_eq!(notified(&outputs).contains(&peer), who.may(Action::Hear), "{who:?}");
    }
}

/// An event with strangers among its targets goes to the others, here and at the host.
#[test]
fn targets_that_a_process_does_not_reach_are_left_out() {
    let (mut rig, peers) = world();
    let stranger = peers.iter().find(|(who, _)| who.name == "other").unwrap().1;
    let own = ProcId::new(namespace("other"), 0);
    let outputs = rig.request(stranger, notify(range::RANGE_CUSTOM, vec![custom(&[alices(), own.clone()])]));
    let crate::server::Upcall::NotifyEvent(event) = upcall(&outputs).1 else { panic!("{outputs:?}") };
    assert_eq!(event.targets(), [&own]);
    assert_eq!(notified(&outputs), []);
}

/// An event of the host in the name of a process reaches no more than the process's own. An event in the host's own
/// name reaches all processes.
#[test]
fn an_event_of_the_host_about_a_process_reaches_no_stranger_of_that() {
    let (mut rig, peers) = world();
    for (source, is_of_process) in [(Some(ProcId::new(namespace("other"), 0)), true), (None, false)] {
        let event = crate::events::Event { status: CODE, source, range: range::RANGE_GLOBAL, info: Vec::new() };
        let notified = notified(&rig.host(HostCall::NotifyEvent(event)));
        assert_eq!(notified.contains(&HEARD), !is_of_process);
        let same_user = peers.iter().find(|(who, _)| who.name == "tool-of-bob").unwrap().1;
        assert!(notified.contains(&same_user));
    }
}

/// A process's claim to be in a group with Alice's job counts if Alice's process makes the same claim.
#[test]
fn a_claim_to_be_in_a_group_with_somebody_is_no_tie() {
    let (mut rig, peers) = world();
    let other = peers.iter().find(|(who, _)| who.name == "other").unwrap().1;
    let members = vec![alices(), ProcId::new(namespace("other"), 0)];
    let claim = || {
        let elements = members.iter().cloned().map(Value::from).collect();
        let value = Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements }));
        Request::GroupOther(Group {
            command: Command::GroupJoin.to_raw(),
            id: Some(Text::from("claimed")),
            procs: members.clone(),
            directives: vec![Info { key: key("pmix.grp.mbrs"), flags: 0, value }],
        })
    };
    assert_eq!(statuses(&rig.request(other, claim())), [(other, Status::SUCCESS)]);
    assert_eq!(refusal(&mut rig, other, get(&alices(), Some("a"), &[])), Some(Status::ERR_NOT_FOUND));
    assert_eq!(statuses(&rig.request(HEARD, claim())), [(HEARD, Status::SUCCESS)]);
    assert_eq!(refusal(&mut rig, other, get(&alices(), Some("a"), &[])), None);
}

/// An ended process has agreed to nothing. Any process could name it in a group that tolerates deaths, and got its
/// job's data.
#[test]
fn a_group_with_somebody_who_has_gone_ties_nobody_to_its_job() {
    let (mut rig, peers) = world();
    let other = peers.iter().find(|(who, _)| who.name == "other").unwrap().1;
    rig.lose(HEARD);
    let group = Group {
        command: Command::GroupConstruct.to_raw(),
        id: Some(Text::from("dead")),
        procs: vec![alices(), ProcId::new(namespace("other"), 0)],
        directives: vec![flag("pmix.grp.ftcoll")],
    };
    let outputs = rig.request(other, Request::GroupConstruct(group));
    let answers = replies(&outputs);
    assert_eq!(answers.len(), 1, "{outputs:?}");
    assert!(!format!("{answers:?}").contains("alices\", rank: Wildcard"), "{answers:?}");
    assert_eq!(refusal(&mut rig, other, get(&alices(), Some("a"), &[])), Some(Status::ERR_NOT_FOUND));
}

/// A remote job belongs to the user that the host names, else to the server's user, else to an unknown one.
#[test]
fn a_remote_job_belongs_to_its_named_user_or_to_the_server() {
    for own_uid in [0, SERVER] {
        let (mut rig, peers) = world_with(Capabilities::DIRECT_MODEX, own_uid);
        let user = Info::new(key("pmix.euid"), BOB);
        let in_array = DataArray {
            element_type: DataType::Info,
            elements: vec![Value::Info(Box::new(Info::new(key("pmix.euid"), BOB)))],
        };
        let in_array = Info { key: key("pmix.job.arr"), flags: 0, value: Value::DataArray(Box::new(in_array)) };
        for (name, infos) in [("named", vec![user]), ("in-array", vec![in_array]), ("unnamed", Vec::new())] {
            let description = [Info::new(JOB_SIZE, 100_u32)].into_iter().chain(infos).collect::<Vec<_>>().into();
            let namespace = namespace(name);
            rig.host(HostCall::RegisterNamespace(RegisterNamespace {
                namespace,
                local_count: Some(0),
                description,
                nodata: false,
            }));
        }
        let processes = peers.iter().filter(|(who, _)| ["same", "other", "root", "server"].contains(&who.name));
        for (rank, (who, peer)) in (0..).zip(processes) {
            let reads = |rig: &Rig, name: &str| {
                rig.server.permit_peer(*peer, Action::Read, Object::Job(&Namespace::new(name).unwrap())).is_ok()
            };
            let is_trusted = [0, own_uid].contains(&who.uid);
            assert_eq!(reads(&rig, "named"), is_trusted || who.uid == BOB, "{who:?}");
            assert_eq!(reads(&rig, "in-array"), is_trusted || who.uid == BOB, "{who:?}");
            assert_eq!(reads(&rig, "unnamed"), is_trusted, "{who:?} on a server of {own_uid}");
            assert_eq!(reads(&rig, "never-heard-of"), is_trusted, "{who:?} on a server of {own_uid}");
            // A foreign job is not fetched for a stranger.
            let outputs = rig.request(*peer, get(&ProcId::new(namespace("unnamed"), rank), Some("k"), &[]));
            assert_eq!(upcalls(&outputs).len(), usize::from(is_trusted), "{who:?}: {outputs:?}");
        }
    }
}

/// The document has the same table as the code.
#[test]
fn the_document_shows_the_table() {
    let document = include_str!("../../../docs/trust.md");
    for action in Action::ALL {
        let rule = action.rule();
        let needs = match rule.needs {
            Relation::Stranger => "anybody",
            Relation::Tied => "tied",
            Relation::Parent => "parent",
            Relation::Own => "own",
        };
        let trust = match rule.trust {
            Trust::All => "all",
            Trust::Tools => "tools",
            Trust::Nobody => "none",
        };
        let line = format!("| {} | {needs} | {trust} | `{}` |", rule.words, rule.refusal.name().unwrap());
        assert!(document.lines().any(|found| found == line), "docs/trust.md lacks the line: {line}");
    }
}
