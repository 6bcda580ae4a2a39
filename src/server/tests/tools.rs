use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::harness::*;
use crate::gds::model::MapStore;
use crate::keys;
use crate::proto::{
    IofPull, JobControl, Lookup, Notify, Publish, QueryInfo, RegisterEvents, Reply, Request, Service, Spawn, Tag,
    Version,
};
use crate::server::{
    Answer, Capabilities, Contact, Credentials, HostCall, HostReply, HostResult, Input, IofOutput, Limits, Output,
    PeerId, Reason, Refusal, RegisterClient, ServerConfig, ToolAdmission, ToolHello, ToolKind, ToolPolicy, Upcall,
};
use crate::types::codes::{iof_channel, range};
use crate::types::{Info, Namespace, ProcId, Query, Rank, Scope, Status, Text};

pub(super) fn policy(admission: ToolAdmission) -> ToolPolicy {
    ToolPolicy { admission, any_user: false, own_uid: OWNER.uid, name_prefix: "tool-srv-".to_owned() }
}

pub(super) fn rig(capabilities: Capabilities, admission: ToolAdmission) -> Rig {
    let host_timeout = Some(Duration::from_secs(5));
    Rig::with(
        ServerConfig { capabilities, host_timeout, tools: policy(admission), ..ServerConfig::default() },
        MapStore::new(),
    )
}

/// A tool without a name, of the server's user.
pub(super) fn stranger() -> ToolHello {
    ToolHello {
        kind: ToolKind::Tool,
        claimed: None,
        is_started: false,
        credentials: OWNER,
        claimed_gid: OWNER.gid,
        reads_entries: true,
        version: Version::new(4, 2, 0),
        version_text: "4.2.2rc2".to_owned(),
        info: vec![Info::new(key("pmix.euid"), 0_u32), Info::new(key("pmix.cmd.line"), "./ps")],
        strangers: BTreeSet::new(),
    }
}

fn named(name: &str, rank: u32) -> ToolHello {
    ToolHello { claimed: Some(ProcId::new(namespace(name), rank)), ..stranger() }
}

pub(super) fn arrive(rig: &mut Rig, peer: u64, hello: ToolHello) -> Vec<Output> {
    rig.input(Input::ToolConnected(PeerId(peer), hello))
}

/// Connects a tool that gets its name from the library.
pub(super) fn tool(rig: &mut Rig, peer: u64) -> (PeerId, ProcId) {
    match arrive(rig, peer, stranger()).as_slice() {
        [Output::AdmitTool(id, _, proc)] => (*id, proc.clone()),
        other => panic!("not admitted: {other:?}"),
    }
}

#[test]
fn a_server_that_was_not_told_to_serve_tools_serves_none() {
    for hello in [stranger(), named("t", 0)] {
        let mut rig = rig(Capabilities::empty(), ToolAdmission::Refused);
        assert_eq!(arrive(&mut rig, 1, hello), [Output::Refuse(PeerId(1), Refusal::NoTools)]);
        assert_eq!(rig.server.peer_count(), 0);
    }
}

/// A launched process that called `PMIx_tool_init` with another name was refused, where OpenPMIx gives it that name.
/// The rule: a tool with a name may connect if its user has a process here, even to a server without tool support.
#[test]
fn a_launched_process_may_come_again_as_a_tool_with_a_name() {
    let mut rig = rig(Capabilities::empty(), ToolAdmission::Refused);
    rig.job(1, 1);
    let foreign = ToolHello { credentials: Credentials { uid: 1001, gid: 100 }, ..named("other", 0) };
    assert_eq!(arrive(&mut rig, 61, foreign), [Output::Refuse(PeerId(61), Refusal::NoTools)]);
    assert_eq!(arrive(&mut rig, 62, stranger()), [Output::Refuse(PeerId(62), Refusal::NoTools)]);
    assert!(matches!(arrive(&mut rig, 63, named("t", 3)).as_slice(), [Output::AdmitTool(..)]));
}

#[test]
fn a_tool_without_a_name_gets_one_that_nobody_has() {
    let mut rig = rig(Capabilities::empty(), ToolAdmission::Assigned);
    rig.register("tool-srv-1", Some(1), Some(0));
    assert_eq!(tool(&mut rig, 1).1, ProcId::new(namespace("tool-srv-2"), 0));
    assert_eq!(tool(&mut rig, 2).1, ProcId::new(namespace("tool-srv-3"), 0));
}

#[test]
fn a_tool_with_a_name_keeps_it_and_nobody_else_gets_it() {
    let mut rig = rig(Capabilities::empty(), ToolAdmission::Named);
    assert_eq!(arrive(&mut rig, 1, stranger()), [Output::Refuse(PeerId(1), Refusal::NoName)]);
    let proc = ProcId::new(namespace("t"), 3);
    assert_eq!(arrive(&mut rig, 2, named("t", 3)), [Output::AdmitTool(PeerId(2), 1, proc.clone())]);
    assert_eq!(arrive(&mut rig, 3, named("t", 3)), [Output::Refuse(PeerId(3), Refusal::NameTaken { proc })]);
    assert!(matches!(arrive(&mut rig, 4, named("t", 4)).as_slice(), [Output::AdmitTool(..)]));
    rig.lose(PeerId(2));
    assert!(matches!(arrive(&mut rig, 5, named("t", 3)).as_slice(), [Output::AdmitTool(..)]), "the name is free again");
    let all = ToolHello { claimed: Some(ProcId { namespace: namespace("t"), rank: Rank::Wildcard }), ..stranger() };
    assert!(matches!(arrive(&mut rig, 6, all).as_slice(), [Output::Refuse(_, Refusal::UnknownProcess { .. })]));
}

#[test]
fn a_tool_of_another_user_is_refused_unless_every_user_may_come() {
    let foreign = ToolHello { credentials: Credentials { uid: 1001, gid: 100 }, ..stranger() };
    let root = ToolHello { credentials: Credentials { uid: 0, gid: 0 }, ..stranger() };
    let mut strict = rig(Capabilities::empty(), ToolAdmission::Assigned);
    let refusal = Refusal::ForeignTool { uid: 1001, ours: OWNER.uid };
    assert_eq!(arrive(&mut strict, 1, foreign.clone()), [Output::Refuse(PeerId(1), refusal)]);
    assert!(matches!(arrive(&mut strict, 2, root).as_slice(), [Output::AdmitTool(..)]));
    let tools = ToolPolicy { any_user: true, ..policy(ToolAdmission::Assigned) };
    let mut open = Rig::with(ServerConfig { tools, ..ServerConfig::default() }, MapStore::new());
    assert!(matches!(arrive(&mut open, 1, foreign).as_slice(), [Output::AdmitTool(..)]));
}

/// A launcher serves the tool that has started it before its host can answer.
#[test]
fn the_tool_that_started_this_process_is_admitted_without_the_host_and_gets_output() {
    let mut rig = rig(Capabilities::TOOL_CONNECTED, ToolAdmission::Refused);
    let proc = ProcId::new(namespace("t"), 0);
    let admitted = rig.input(Input::ParentConnected(PeerId(1), named("t", 0)));
    assert_eq!(admitted, [Output::AdmitTool(PeerId(1), 1, proc.clone())]);
    let forward = |tool: ProcId| {
        let channels = iof_channel::FWD_STDOUT_CHANNEL;
        HostCall::ForwardOutput { tool, job: namespace("job"), channels }
    };
    rig.host(forward(proc));
    let source = ProcId::new(namespace("job"), 0);
    let output = |channel| IofOutput { source: source.clone(), channel, bytes: b"hello".to_vec(), info: Vec::new() };
    let mut deliver = |channel| rig.host(HostCall::IofOffer(Arc::new(output(channel))));
    assert!(matches!(deliver(iof_channel::FWD_STDOUT_CHANNEL)[..], [Output::Forward(PeerId(1), _), _]));
    assert!(matches!(deliver(iof_channel::FWD_STDERR_CHANNEL)[..], [Output::Complete(..)]));
    let unknown = rig.host(forward(source.clone()));
    let refusal = HostResult::Status(Status::ERR_NOT_FOUND);
    assert!(matches!(&unknown[..], [Output::Complete(_, result)] if *result == refusal), "{unknown:?}");
}

/// Regression: the tool that started a launcher was refused when it attached to the launcher by itself. A tool of
/// OpenPMIx 4.2 takes a refusal for success, and its next request failed.
#[test]
fn the_tool_that_started_this_process_may_attach_to_it_once_more() {
    for is_later_lost_first in [false, true] {
        let mut rig = rig(Capabilities::empty(), ToolAdmission::Assigned);
        let proc = ProcId::new(namespace("t"), 0);
        let taken = |id| [Output::Refuse(PeerId(id), Refusal::NameTaken { proc: proc.clone() })];
        rig.input(Input::ParentConnected(PeerId(1), named("t", 0)));
        assert_eq!(arrive(&mut rig, 2, named("t", 0)), [Output::AdmitTool(PeerId(2), 2, proc.clone())]);
        assert_eq!(arrive(&mut rig, 3, named("t", 0)), taken(3));
        assert_eq!(rig.input(Input::ParentConnected(PeerId(5), named("t", 0))), taken(5));
        rig.lose(PeerId(if is_later_lost_first { 2 } else { 1 }));
        let next = arrive(&mut rig, 4, named("t", 0));
        if is_later_lost_first {
            assert_eq!(next, [Output::AdmitTool(PeerId(4), 3, proc.clone())]);
        } else {
            assert_eq!(next, taken(4));
        }
    }
}

/// A tool took the name of a job that this server did not know. It was then that job's process: the host was asked to
/// end the whole job, which was another user's on other nodes.
#[test]
fn a_tool_of_another_user_has_no_name_that_nobody_vouches_for() {
    let tools = ToolPolicy { any_user: true, ..policy(ToolAdmission::Named) };
    let foreign = ToolHello { credentials: Credentials { uid: 1001, gid: 100 }, ..named("elsewhere", 0) };
    let mut open = Rig::with(ServerConfig { tools: tools.clone(), ..ServerConfig::default() }, MapStore::new());
    let refusal = Refusal::UnprovenName { proc: ProcId::new(namespace("elsewhere"), 0), uid: 1001 };
    assert_eq!(arrive(&mut open, 1, foreign.clone()), [Output::Refuse(PeerId(1), refusal)]);
    assert!(matches!(arrive(&mut open, 2, named("own", 0))[..], [Output::AdmitTool(..)]), "the server's user");
    let capabilities = Capabilities::TOOL_CONNECTED;
    let mut asked = Rig::with(ServerConfig { capabilities, tools, ..ServerConfig::default() }, MapStore::new());
    let (id, _) = upcall(&arrive(&mut asked, 1, foreign));
    assert!(matches!(asked.complete(id, HostReply::Tool(None))[..], [Output::AdmitTool(..)]), "the host's word");
}

/// The refusals differed, so they showed another user which jobs and processes there are.
#[test]
fn a_tool_of_another_user_does_not_learn_which_names_exist() {
    let tools = ToolPolicy { any_user: true, ..policy(ToolAdmission::Named) };
    let mut open = Rig::with(ServerConfig { tools, ..ServerConfig::default() }, MapStore::new());
    open.job(4, 1);
    for (peer, (name, rank)) in (50..).zip([("job", 0), ("job", 9), ("elsewhere", 0)]) {
        let foreign = ToolHello { credentials: Credentials { uid: 1001, gid: 100 }, ..named(name, rank) };
        let refusal = Refusal::UnprovenName { proc: ProcId::new(namespace(name), rank), uid: 1001 };
        assert_eq!(arrive(&mut open, peer, foreign), [Output::Refuse(PeerId(peer), refusal)]);
    }
}

/// Regression: a tool took the name of the server. Events of the host in that name then counted as the tool user's, and
/// reached nobody else.
#[test]
fn no_tool_is_named_like_the_server() {
    let server = ProcId::new(namespace("srv"), 0);
    let contact = Some(Contact { proc: server.clone(), uri: Text::from("srv.0;place") });
    let capabilities = Capabilities::TOOL_CONNECTED;
    let config =
        ServerConfig { capabilities, contact, tools: policy(ToolAdmission::Assigned), ..ServerConfig::default() };
    let mut rig = Rig::with(config, MapStore::new());
    let taken = |peer| [Output::Refuse(PeerId(peer), Refusal::NameTaken { proc: server.clone() })];
    assert_eq!(arrive(&mut rig, 1, named("srv", 0)), taken(1));
    let (id, _) = upcall(&arrive(&mut rig, 2, stranger()));
    assert_eq!(rig.complete(id, HostReply::Tool(Some(server.clone()))), taken(2));
}

#[test]
fn no_tool_gets_into_a_job() {
    let mut rig = rig(Capabilities::empty(), ToolAdmission::Assigned);
    rig.job(4, 1);
    rig.register_client(&ProcId::new(namespace("coming"), 0));
    let taken = Refusal::NameTaken { proc: proc(0) };
    assert_eq!(arrive(&mut rig, 49, named("job", 0)), [Output::Refuse(PeerId(49), taken)]);
    for (peer, (name, rank)) in (50..).zip([("job", 1), ("job", 9), ("coming", 7)]) {
        let unknown = Refusal::UnknownProcess { proc: ProcId::new(namespace(name), rank) };
        assert_eq!(arrive(&mut rig, peer, named(name, rank)), [Output::Refuse(PeerId(peer), unknown)]);
    }
    // An announced name requires its user.
    rig.register("other", Some(1), Some(1));
    rig.register_client(&ProcId::new(namespace("other"), 0));
    let root = ToolHello { credentials: Credentials { uid: 0, gid: 0 }, claimed_gid: OWNER.gid, ..named("other", 0) };
    let refused = arrive(&mut rig, 60, root);
    assert!(matches!(refused.as_slice(), [Output::Refuse(_, Refusal::Credentials { .. })]), "{refused:?}");
}

#[test]
fn a_tool_that_the_host_announced_is_its_client() {
    let mut rig = rig(Capabilities::empty(), ToolAdmission::Refused);
    rig.register("job", Some(1), Some(1));
    rig.register_client(&proc(0));
    let started = ToolHello { is_started: true, ..named("job", 0) };
    assert_eq!(arrive(&mut rig, 1, started.clone()), [Output::Admit(PeerId(1), 1)]);
    assert_eq!(arrive(&mut rig, 2, started.clone()), [Output::Admit(PeerId(2), 2)], "a fork of it may come, too");
    let strangers = [PeerId(1), PeerId(2)].into();
    let refused = arrive(&mut rig, 3, ToolHello { strangers, ..started });
    assert_eq!(refused, [Output::Refuse(PeerId(3), Refusal::Taken { proc: proc(0) })]);
}

#[test]
fn the_host_decides_about_a_tool_and_names_it() {
    let mut rig = rig(Capabilities::TOOL_CONNECTED, ToolAdmission::Named);
    let (id, call) = upcall(&arrive(&mut rig, 1, stranger()));
    let Upcall::ToolConnected(asked) = call else { panic!("{call:?}") };
    assert_eq!((asked.kind, asked.claimed, asked.credentials), (ToolKind::Tool, None, OWNER));
    let expected = [
        Info::new(key("pmix.cmd.line"), "./ps"),
        Info::new(key("pmix.euid"), OWNER.uid),
        Info::new(key("pmix.egid"), OWNER.gid),
        Info::new(key("pmix.version"), "4.2.2rc2"),
    ];
    assert_eq!(asked.directives, expected, "what it claims of its user does not count");
    let assigned = ProcId::new(namespace("assigned"), 0);
    let outputs = rig.complete(id, HostReply::Tool(Some(assigned.clone())));
    assert_eq!(outputs, [Output::AdmitTool(PeerId(1), 1, assigned)]);
    assert_eq!(rig.complete(id, HostReply::Tool(None)), [], "an answer counts once");
}

#[test]
fn a_host_that_names_nobody_lets_the_tool_keep_its_name_or_the_server_make_one() {
    let mut rig = rig(Capabilities::TOOL_CONNECTED, ToolAdmission::Named);
    let (id, call) = upcall(&arrive(&mut rig, 1, named("t", 2)));
    let Upcall::ToolConnected(asked) = call else { panic!("{call:?}") };
    assert!(asked.directives.contains(&Info::new(key("pmix.nspace"), "t")));
    let other = ProcId::new(namespace("other"), 0);
    let proc = ProcId::new(namespace("t"), 2);
    assert_eq!(rig.complete(id, HostReply::Tool(Some(other))), [Output::AdmitTool(PeerId(1), 1, proc)]);
    let (id, _) = upcall(&arrive(&mut rig, 2, stranger()));
    let made = ProcId::new(namespace("tool-srv-1"), 0);
    assert_eq!(rig.complete(id, HostReply::Status(Status::SUCCESS)), [Output::AdmitTool(PeerId(2), 2, made)]);
}

#[test]
fn a_host_that_refuses_or_never_answers_costs_the_tool_its_connection() {
    let mut rig = rig(Capabilities::TOOL_CONNECTED, ToolAdmission::Named);
    let (id, _) = upcall(&arrive(&mut rig, 1, stranger()));
    let refusal = Refusal::HostForTool { status: Status::ERR_NO_PERMISSIONS };
    let outputs = rig.complete(id, HostReply::Status(Status::ERR_NO_PERMISSIONS));
    assert_eq!(outputs, [Output::Refuse(PeerId(1), refusal)]);
    let (id, _) = upcall(&arrive(&mut rig, 2, stranger()));
    assert_eq!(rig.wait(5), [Output::Refuse(PeerId(2), Refusal::HostForTool { status: Status::ERR_TIMEOUT })]);
    assert_eq!(rig.complete(id, HostReply::Tool(None)), [], "too late");
    assert_eq!(rig.server.upcall_count(), 0);
}

#[test]
fn a_tool_that_goes_while_the_host_thinks_is_forgotten() {
    let mut rig = rig(Capabilities::TOOL_CONNECTED, ToolAdmission::Named);
    let (id, _) = upcall(&arrive(&mut rig, 1, named("t", 0)));
    assert_eq!(rig.lose(PeerId(1)), []);
    assert_eq!(rig.complete(id, HostReply::Tool(None)), []);
    assert_eq!((rig.server.upcall_count(), rig.server.peer_count()), (0, 0));
    let (_, _) = upcall(&arrive(&mut rig, 2, named("t", 0)));
}

#[test]
fn a_tool_that_asks_before_it_is_admitted_is_closed() {
    let mut rig = rig(Capabilities::TOOL_CONNECTED, ToolAdmission::Named);
    arrive(&mut rig, 1, stranger());
    let outputs = rig.input(Input::Request(PeerId(1), Tag(101), Request::JobInfo));
    assert_eq!(outputs, [Output::Close(PeerId(1), Reason::RequestBeforeAdmission)]);
    assert_eq!(rig.server.upcall_count(), 0);
}

#[test]
fn a_connection_introduces_itself_once() {
    let mut rig = rig(Capabilities::TOOL_CONNECTED, ToolAdmission::Named);
    arrive(&mut rig, 1, stranger());
    assert_eq!(arrive(&mut rig, 1, stranger()), [Output::Refuse(PeerId(1), Refusal::Repeated)]);
    assert_eq!(rig.server.upcall_count(), 0);
}

#[test]
fn tools_count_among_the_connections() {
    let limits = Limits { peers_max: 1, ..Limits::default() };
    let tools = policy(ToolAdmission::Assigned);
    let mut rig = Rig::with(ServerConfig { limits, tools, ..ServerConfig::default() }, MapStore::new());
    tool(&mut rig, 1);
    let refusal = Refusal::TooManyPeers { peers_max: 1 };
    assert_eq!(arrive(&mut rig, 2, stranger()), [Output::Refuse(PeerId(2), refusal)]);
}

#[test]
fn the_tools_of_one_user_have_a_share_of_the_connections() {
    let limits = Limits { tools_per_user_max: 1, ..Limits::default() };
    let (tools, capabilities) = (policy(ToolAdmission::Assigned), Capabilities::TOOL_CONNECTED);
    let mut rig = Rig::with(ServerConfig { capabilities, limits, tools, ..ServerConfig::default() }, MapStore::new());
    let (id, _) = upcall(&arrive(&mut rig, 1, stranger()));
    let refused = |peer| [Output::Refuse(PeerId(peer), Refusal::TooManyTools { uid: OWNER.uid, peers_max: 1 })];
    assert_eq!(arrive(&mut rig, 2, stranger()), refused(2), "one waits for the host");
    assert!(matches!(rig.complete(id, HostReply::Tool(None))[..], [Output::AdmitTool(..)]));
    assert_eq!(arrive(&mut rig, 3, stranger()), refused(3), "one is here");
    let root = ToolHello { credentials: Credentials { uid: 0, gid: 0 }, ..stranger() };
    upcall(&arrive(&mut rig, 4, root));
}

#[test]
fn a_tools_namespace_is_there_as_long_as_it_is() {
    let mut rig = rig(Capabilities::empty(), ToolAdmission::Assigned);
    let (id, proc) = tool(&mut rig, 1);
    let outputs = rig.request(id, Request::JobInfo);
    let of = proc.namespace.clone();
    assert!(
        matches!(&outputs[..], [Output::Answer(peer, _, Answer::JobInfo(name))] if *peer == id && *name == of),
        "{outputs:?}"
    );
    assert_eq!(rig.server.namespaces().collect::<Vec<&Namespace>>(), [&proc.namespace]);
    assert_eq!(statuses(&rig.request(id, Request::Finalize)), [(id, Status::SUCCESS)]);
    // A cached reply for the namespace is dropped.
    assert_eq!(rig.lose(id), [Output::Described(proc.namespace)]);
    assert_eq!(rig.server.namespaces().count(), 0);
}

/// Regression: PRRTE waits for this event of every tool. After a debugger had detached, `mpirun` did not end.
#[test]
fn the_host_hears_of_a_tool_that_dies_or_leaves() {
    let mut rig = rig(Capabilities::CLIENT_FINALIZED, ToolAdmission::Assigned);
    let codes = vec![Status::ERR_LOST_CONNECTION];
    rig.host(HostCall::RegisterEvents(crate::server::RegisterEvents { codes, directives: Vec::new() }));
    let (id, proc) = tool(&mut rig, 1);
    assert_eq!(
        statuses(&rig.request(id, Request::Finalize)),
        [(id, Status::SUCCESS)],
        "{proc} is no client of the host's"
    );
    let is_announced = |outputs: &[Output], proc: &ProcId| match outputs {
        [Output::Raise(event), Output::Described(namespace)] => {
            (event.status, event.range) == (Status::ERR_LOST_CONNECTION, range::RANGE_PROC_LOCAL)
                && event.source.as_ref() == Some(proc)
                && *namespace == proc.namespace
        }
        _ => false,
    };
    let outputs = rig.lose(id);
    assert!(is_announced(&outputs, &proc), "{outputs:?}");
    let (id, proc) = tool(&mut rig, 2);
    let outputs = rig.lose(id);
    assert!(is_announced(&outputs, &proc), "{outputs:?}");
    assert_eq!(rig.server.namespaces().count(), 0);
}

#[test]
fn a_tools_requests_go_up_with_its_name() {
    let all = Capabilities::all() - Capabilities::TOOL_CONNECTED;
    let mut rig = rig(all, ToolAdmission::Assigned);
    let (id, proc) = tool(&mut rig, 1);
    let query = Query { keys: vec![Text::from("a")], qualifiers: Vec::new() };
    let spawn = Spawn { job: vec![flag("pmix.req.client")], apps: Vec::new() };
    let lookup = Lookup { uid: 0, keys: vec![key("k")], directives: Vec::new() };
    let control = JobControl { targets: vec![everybody()], directives: Vec::new() };
    let pull = IofPull { procs: vec![everybody()], directives: Vec::new(), channels: 2, local_id: Some(0) };
    let requests = [
        Request::from(QueryInfo::new(vec![query])),
        Request::from(Publish { uid: 0, info: Vec::new() }),
        Request::from(lookup),
        Request::from(control),
        Request::IofPull(pull),
        Request::from(spawn),
    ];
    for request in requests {
        let command = request.command();
        let (id, call) = upcall(&rig.request(id, request));
        let requester = match &call {
            Upcall::Service(requester, Service::Spawn(request)) => {
                let is_set = |name| request.job.iter().any(|info| info.key.as_str() == name);
                assert!(is_set(keys::REQUESTOR_IS_TOOL.name()) && !is_set(keys::REQUESTOR_IS_CLIENT.name()));
                requester
            }
            Upcall::Service(requester, _) | Upcall::IofPull(requester, _) => requester,
            other => panic!("{command:?} became {other:?}"),
        };
        assert_eq!((&requester.proc, requester.uid), (&proc, OWNER.uid));
        assert_eq!(rig.complete(id, HostReply::Status(Status::ERR_NOT_FOUND)).len(), 1, "{command:?}");
    }
    assert_eq!(rig.server.open_request_count(), 0);
}

#[test]
fn the_open_requests_of_a_tool_go_with_it() {
    let mut rig = rig(Capabilities::QUERY, ToolAdmission::Assigned);
    let (id, proc) = tool(&mut rig, 1);
    let query = Query { keys: vec![Text::from("a")], qualifiers: Vec::new() };
    upcall(&rig.request(id, Request::from(QueryInfo::new(vec![query]))));
    assert_eq!(rig.request(id, get(&proc, Some("never"), &[])), [], "as any process's");
    rig.lose(id);
    assert_eq!((rig.server.open_request_count(), rig.server.upcall_count()), (0, 0));
}

#[test]
fn a_tool_sees_a_jobs_events_and_data_and_fences_with_itself() {
    let mut rig = rig(Capabilities::empty(), ToolAdmission::Assigned);
    let peers = rig.job(2, 2);
    rig.put(peers[0], Scope::Global, "a", 1);
    let (id, proc) = tool(&mut rig, 9);
    let found = replies(&rig.request(id, get(&super::harness::proc(0), Some("a"), &[])));
    assert!(matches!(found.as_slice(), [(_, Reply::Data(ranks))] if ranks.len() == 2), "{found:?}");
    let code = Status::from_raw(-3000);
    let register = RegisterEvents { codes: vec![code], directives: Vec::new() };
    assert_eq!(statuses(&rig.request(id, Request::RegisterEvents(register))), [(id, Status::SUCCESS)]);
    let notify = Notify { status: code, range: 5, info: Vec::new() };
    let outputs = rig.request(peers[1], Request::Notify(notify));
    assert!(outputs.iter().any(|output| matches!(output, Output::Notify(peer, _) if *peer == id)), "{outputs:?}");
    let own = ProcId { namespace: proc.namespace, rank: Rank::Wildcard };
    assert_eq!(statuses(&rig.request(id, fence(&[own], &[]))), [(id, Status::SUCCESS)]);
    assert_eq!(rig.request(peers[0], fence(&[everybody()], &[])), [], "a job's fence does not count tools");
}

/// Queries showed it only its own user's jobs, but a Get the data of all users. Now a stranger's job looks like an
/// unknown one.
#[test]
fn a_tool_of_another_user_reads_no_job_but_its_users() {
    let tools = ToolPolicy { any_user: true, ..policy(ToolAdmission::Assigned) };
    let mut rig = Rig::with(ServerConfig { tools, ..ServerConfig::default() }, MapStore::new());
    let peers = rig.job(1, 1);
    rig.put(peers[0], Scope::Global, "a", 1);
    let theirs = ProcId::new(namespace("theirs"), 0);
    rig.register("theirs", Some(1), Some(1));
    let client = RegisterClient { proc: theirs.clone(), uid: 1001, gid: 100, object: 1 };
    rig.host(HostCall::RegisterClient(client));
    let foreign = ToolHello { credentials: Credentials { uid: 1001, gid: 100 }, ..stranger() };
    assert!(matches!(arrive(&mut rig, 51, foreign)[..], [Output::AdmitTool(..)]));
    let id = PeerId(51);
    for of in [proc(0), everybody(), ProcId::new(namespace("elsewhere"), 0)] {
        let outputs = rig.request(id, get(&of, Some("a"), &[]));
        assert_eq!(statuses(&outputs), [(id, Status::ERR_NOT_FOUND)], "{of}");
    }
    let job = ProcId { rank: Rank::Wildcard, ..theirs };
    let found = replies(&rig.request(id, get(&job, Some("pmix.job.size"), &[])));
    assert!(matches!(found.as_slice(), [(_, Reply::Data(_))]), "{found:?}");
}

#[test]
fn a_singleton_is_a_job_of_one() {
    let mut rig = rig(Capabilities::empty(), ToolAdmission::Named);
    let alone = ToolHello { kind: ToolKind::Singleton, ..named("singleton.n.7", 0) };
    let proc = ProcId::new(namespace("singleton.n.7"), 0);
    assert_eq!(arrive(&mut rig, 1, alone), [Output::AdmitTool(PeerId(1), 1, proc.clone())]);
    let (id, job) = (PeerId(1), ProcId { rank: Rank::Wildcard, ..proc.clone() });
    assert_eq!(data(&rig.request(id, get(&job, Some("pmix.job.size"), &[]))), [kval("pmix.job.size", 1)]);
    assert_eq!(statuses(&rig.put(id, Scope::Global, "a", 1)), [(id, Status::SUCCESS)]);
    assert_eq!(data(&rig.request(id, get(&proc, Some("a"), &[]))), [kval("a", 1)]);
}

/// Release 6.1 rejects entries where it expects its own segments, and works without any.
#[test]
fn a_singleton_that_wants_segments_of_its_own_library_is_told_its_name_alone() {
    let mut rig = rig(Capabilities::empty(), ToolAdmission::Named);
    let alone = ToolHello { kind: ToolKind::Singleton, reads_entries: false, ..named("singleton.n.7", 0) };
    arrive(&mut rig, 1, alone);
    let namespace = Text::from("singleton.n.7");
    let outputs = rig.request(PeerId(1), Request::JobInfo);
    assert_eq!(replies(&outputs), [(PeerId(1), Reply::JobInfo { namespace, entries: Vec::new() })]);
}

#[test]
fn a_namespace_that_the_host_describes_later_is_the_hosts() {
    let mut rig = rig(Capabilities::empty(), ToolAdmission::Named);
    arrive(&mut rig, 1, named("t", 0));
    rig.register("t", Some(1), Some(1));
    rig.lose(PeerId(1));
    assert_eq!(rig.server.namespaces().collect::<Vec<&Namespace>>(), [&namespace("t")]);
}

/// A tool used a rank of a job that the host had not registered yet, and went on as that process.
#[test]
fn a_tool_that_took_a_jobs_name_goes_when_the_host_registers_the_job() {
    let mut rig = rig(Capabilities::empty(), ToolAdmission::Named);
    arrive(&mut rig, 51, named("job", 7));
    let outputs = rig.register("job", Some(8), Some(2));
    assert!(outputs.contains(&Output::Close(PeerId(51), Reason::Deregistered)), "{outputs:?}");
    assert_eq!(rig.request(PeerId(51), commit(Scope::Global, "a", 1)), [], "it is nobody any more");
    let peers: Vec<PeerId> = (0..2)
        .map(|rank| {
            rig.register_client(&proc(rank));
            rig.join(&proc(rank), SOCKET)
        })
        .collect();
    rig.register("job", Some(2), Some(2));
    assert_eq!(rig.request(peers[0], fence(&[everybody()], &[])), []);
    assert_eq!(statuses(&rig.request(peers[1], fence(&[everybody()], &[]))).len(), 2, "nobody waits for rank 7");
}

#[test]
fn a_tool_does_not_become_another_users_process() {
    let mut rig = rig(Capabilities::empty(), ToolAdmission::Named);
    arrive(&mut rig, 51, named("job", 7));
    arrive(&mut rig, 52, named("job", 8));
    let client = RegisterClient { proc: proc(7), uid: OWNER.uid + 1, gid: OWNER.gid, object: 1 };
    let outputs = rig.host(HostCall::RegisterClient(client));
    assert_eq!(outputs[0], Output::Close(PeerId(51), Reason::Deregistered), "{outputs:?}");
    assert_eq!(rig.server.peer_count(), 1);
    // A tool of its own user may stay: the host has taken it over.
    let outputs = rig.register_client(&proc(8));
    assert!(matches!(outputs.as_slice(), [Output::Complete(..)]), "{outputs:?}");
    rig.register("job", Some(9), Some(2));
    assert_eq!(statuses(&rig.put(PeerId(52), Scope::Global, "a", 1)), [(PeerId(52), Status::SUCCESS)]);
}

/// Every fence of a whole job waited for a tool that the host had named after the job.
#[test]
fn one_whom_the_host_let_in_stays_and_is_no_member_of_the_job() {
    let mut rig = rig(Capabilities::TOOL_CONNECTED, ToolAdmission::Named);
    let (id, _) = upcall(&arrive(&mut rig, 51, stranger()));
    assert!(matches!(rig.complete(id, HostReply::Tool(Some(proc(0))))[..], [Output::AdmitTool(..)]));
    let outputs = rig.register("job", None, Some(1));
    assert!(!outputs.iter().any(|output| matches!(output, Output::Close(..))), "{outputs:?}");
    let tool_alone = rig.request(PeerId(51), fence(&[everybody()], &[]));
    assert_eq!(statuses(&tool_alone), [(PeerId(51), Status::SUCCESS)], "a job that the host made for it");
    rig.register_client(&proc(1));
    let member = rig.join(&proc(1), SOCKET);
    assert_eq!(statuses(&rig.request(member, fence(&[everybody()], &[]))), [(member, Status::SUCCESS)]);
}

/// A tool alone in its namespace made it a job of one, in which the host could announce no process.
#[test]
fn a_tool_does_not_keep_the_host_from_announcing_processes() {
    let mut rig = rig(Capabilities::empty(), ToolAdmission::Named);
    arrive(&mut rig, 51, named("job", 0));
    let outputs = rig.register_client(&proc(3));
    assert!(matches!(outputs[..], [Output::Complete(_, HostResult::Status(Status::SUCCESS))]), "{outputs:?}");
}

#[test]
fn a_scheduler_is_the_hosts_to_admit() {
    let mut rig = rig(Capabilities::empty(), ToolAdmission::Assigned);
    let scheduler = ToolHello { kind: ToolKind::Scheduler, ..named("sched", 0) };
    assert_eq!(arrive(&mut rig, 1, scheduler), [Output::Refuse(PeerId(1), Refusal::NoTools)]);
}
