//! Groups of processes of one node, between real sockets; processes that must die are real, too.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/groups.rs"]
mod common;
mod support;

use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use common::{everybody, hearing, info, job};
use modex::events::Event;
use modex::types::AsStatus;
use modex::types::{DataArray, DataType, Info, InfoFlags, Key, Namespace, ProcId, Rank, Scope, Status, Value};
use modex::{Capabilities, Client, FenceOptions, GetOptions, GroupError, Host, Responder, keys};
use support::{TestServer, description, namespace, proc, role};

/// Makes a client answer every invitation inside its handler; the receiver gets the outcomes.
fn answering(client: &Arc<Client>, is_accepted: bool) -> mpsc::Receiver<Result<Vec<ProcId>, Status>> {
    let (ended, end) = mpsc::channel();
    let weak = Arc::downgrade(client);
    let ended = Mutex::new(ended);
    let handler = move |call: modex::EventCall| {
        let client = weak.upgrade().unwrap();
        let named = |key: &str| call.info.iter().find(|info| info.key.as_str() == key).unwrap().value.clone();
        let id = named(keys::GROUP_ID.name());
        let ended = ended.lock().unwrap().clone();
        let wait = client.group_join(id.as_str().unwrap(), call.source.as_ref(), true, Vec::new()).wait();
        assert_eq!(wait, Err(GroupError::WouldBlock));
        let tell = move |result: Result<Option<modex::Group>, GroupError>| {
            let result = result.map(|group| group.map_or_else(Vec::new, |group| group.members));
            ended.send(result.map_err(|error| error.status())).unwrap();
        };
        client.group_join(id.as_str().unwrap(), call.source.as_ref(), is_accepted, Vec::new()).then(tell).unwrap();
        // The end of the chain does not end the library's own listening.
        call.complete(Status::EVENT_ACTION_COMPLETE, Vec::new());
    };
    client.register_event_handler(&[Status::GROUP_INVITED], &[], handler).wait().unwrap();
    end
}

#[test]
fn an_invitation_that_everybody_accepts_makes_a_group_whose_name_stands_for_it() {
    let (_node, clients) = job(3);
    let ends = [answering(&clients[1], true), answering(&clients[2], true)];
    let all = vec![ProcId { namespace: namespace("job"), rank: Rank::Wildcard }];
    let wish = vec![info(keys::GROUP_ASSIGN_CONTEXT_ID.name(), true)];
    let formed = clients[0].group_invite("g", all, wish).wait().unwrap();
    assert_eq!((formed.members, formed.info), (everybody(3), Vec::new()));
    assert!(formed.context_id.is_some(), "the server numbers groups where there is no host to do it");
    for end in ends {
        assert_eq!(end.recv().unwrap(), Ok(everybody(3)));
    }
    let fence = FenceOptions::new().procs(vec![ProcId { namespace: namespace("g"), rank: Rank::Wildcard }]);
    thread::scope(|scope| {
        let fences: Vec<_> = clients.iter().map(|client| scope.spawn(|| client.fence(&fence).wait())).collect();
        fences.into_iter().for_each(|fence| fence.join().unwrap().unwrap());
    });
    let heard = hearing(&clients[1], &[Status::GROUP_LEFT]);
    clients[2].group_leave("g", Vec::new()).wait().unwrap();
    assert_eq!(heard.recv().unwrap(), (Status::GROUP_LEFT, Some(proc("job", 2))));
    assert_eq!(clients[2].group_leave("g", Vec::new()).wait().unwrap_err().status(), Status::ERR_NOT_FOUND);
    // The name stands for the remaining members.
    thread::scope(|scope| {
        let fences: Vec<_> = clients[..2].iter().map(|client| scope.spawn(|| client.fence(&fence).wait())).collect();
        fences.into_iter().for_each(|fence| fence.join().unwrap().unwrap());
    });
}

/// OpenPMIx's main line has this exchange, and its example `group_invite_endpts` failed here. No value is committed, so
/// a member finds it only by the exchange, already in the handler that hears of the group.
#[test]
fn members_of_a_group_by_invitation_give_each_other_what_they_have_put() {
    let (_node, clients) = job(3);
    for (client, port) in clients.iter().zip(7_u32..) {
        client.put(Scope::Remote, "port", port).unwrap();
    }
    let port = |client: &Client, rank: u32, options: GetOptions| {
        client.get_value(&proc("job", rank), "port", &options.optional()).ok().and_then(|value| value.as_u64())
    };
    let (heard, seen) = mpsc::channel();
    let weak = Arc::downgrade(&clients[1]);
    let heard = Mutex::new(heard);
    let handler = move |call: modex::EventCall| {
        let ports = weak.upgrade().map(|client| [0, 1, 2].map(|rank| port(&client, rank, GetOptions::new())));
        heard.lock().unwrap().send(ports).unwrap();
        call.complete(Status::EVENT_ACTION_COMPLETE, Vec::new());
    };
    clients[1].register_event_handler(&[Status::GROUP_CONSTRUCT_COMPLETE], &[], handler).wait().unwrap();
    let ends = [answering(&clients[1], true), answering(&clients[2], false)];
    let wish = [keys::GROUP_ASSIGN_CONTEXT_ID.name(), keys::GROUP_OPTIONAL.name()].map(|key| info(key, true));
    let formed = clients[0].group_invite("g", everybody(3), wish.to_vec()).wait().unwrap();
    ends.iter().for_each(|end| drop(end.recv().unwrap()));
    let number = Value::Size(formed.context_id.unwrap());
    let of_group = GetOptions::new().qualifier(Key::from_static(keys::GROUP_CONTEXT_ID.name()), number);
    assert_eq!(seen.recv().unwrap(), Some([Some(7), Some(8), None]), "the third process is no member");
    assert_eq!([GetOptions::new(), of_group].map(|options| port(&clients[0], 1, options)), [Some(8); 2]);
    assert_eq!(port(&clients[2], 0, GetOptions::new()), None);
}

/// A member that heard of its group in a handler and began a fence over it was sometimes refused as no member. The
/// fence overtook the library's own message to the server about the group. One of OpenPMIx's examples failed this way.
/// The rule: handlers run after the library has done its part.
#[test]
fn a_fence_from_the_handler_that_hears_of_the_group_is_a_members() {
    let (_node, clients) = job(2);
    let end = answering(&clients[1], true);
    let over_group = || FenceOptions::new().procs(vec![ProcId { namespace: namespace("g"), rank: Rank::Wildcard }]);
    let (ended, fenced) = mpsc::channel();
    let (weak, of_member) = (Arc::downgrade(&clients[1]), Mutex::new(ended.clone()));
    let handler = move |call: modex::EventCall| {
        let ended = of_member.lock().unwrap().clone();
        let tell = move |result: Result<(), _>| ended.send((1, result)).unwrap();
        weak.upgrade().unwrap().fence(&over_group()).then(tell).unwrap();
        call.complete(Status::EVENT_ACTION_COMPLETE, Vec::new());
    };
    clients[1].register_event_handler(&[Status::GROUP_CONSTRUCT_COMPLETE], &[], handler).wait().unwrap();
    clients[0].group_invite("g", everybody(2), Vec::new()).wait().unwrap();
    clients[0].fence(&over_group()).then(move |result| ended.send((0, result)).unwrap()).unwrap();
    for _ in 0..2 {
        let (rank, result) = fenced.recv().unwrap();
        assert_eq!(result, Ok(()), "rank {rank}");
    }
    assert_eq!(end.recv().unwrap(), Ok(everybody(2)));
}

/// Without a fence and without a request to the other member. Programs of OpenPMIx 6 name the group's context number in
/// their Gets, some of them after the group's end. Such Gets found nothing. A local context number is a contribution,
/// too.
#[test]
fn contributions_to_a_group_are_read_by_member_with_and_without_its_number() {
    let (_node, clients) = job(2);
    let give = |port: u32| {
        let given = Value::info_array(vec![info("port", port), info(keys::GROUP_LOCAL_CID.name(), Value::Size(9))]);
        vec![info(keys::GROUP_INFO.name(), given), info(keys::GROUP_ASSIGN_CONTEXT_ID.name(), true)]
    };
    let number = thread::scope(|scope| {
        let construct = |(port, client): (u32, &Arc<Client>)| {
            let client = Arc::clone(client);
            move || client.group_construct("g", everybody(2), give(port)).wait()
        };
        let calls: Vec<_> = (7_u32..).zip(&clients).map(|call| scope.spawn(construct(call))).collect();
        calls.into_iter().map(|call| call.join().unwrap().unwrap().results.context_id.unwrap()).next_back().unwrap()
    });
    let id = keys::GROUP_CONTEXT_ID;
    let ways = [
        GetOptions::new(),
        GetOptions::new().info(info(id.name(), Value::Size(number))),
        GetOptions::new().qualifier(Key::from_static(id.name()), Value::Size(number)),
    ];
    let is_found = || {
        for (client, way) in clients.iter().flat_map(|client| ways.iter().map(move |way| (client, way))) {
            for (rank, port) in [(0, 7), (1, 8)] {
                let found = ["port", keys::GROUP_LOCAL_CID.name()]
                    .map(|key| client.get_value(&proc("job", rank), key, way).unwrap().as_u64());
                assert_eq!(found, [Some(port), Some(9)]);
            }
        }
    };
    is_found();
    thread::scope(|scope| {
        for client in &clients {
            scope.spawn(move || client.group_destruct("g", Vec::new()).wait().unwrap());
        }
    });
    is_found();
}

#[test]
fn a_refusal_aborts_the_construction_for_all_unless_it_is_optional() {
    let (_node, clients) = job(3);
    let (accepted, refused) = (answering(&clients[1], true), answering(&clients[2], false));
    let failures = hearing(&clients[0], &[Status::GROUP_INVITE_FAILED]);
    let error = clients[0].group_invite("g", everybody(3), Vec::new()).wait().unwrap_err();
    let expected = GroupError::Aborted { id: "g".into(), refused: vec![proc("job", 2)] };
    assert_eq!(error, expected, "{error}");
    assert_eq!(accepted.recv().unwrap(), Err(Status::GROUP_CONSTRUCT_ABORT));
    assert_eq!(refused.recv().unwrap(), Ok(Vec::new()));
    assert_eq!(failures.recv().unwrap(), (Status::GROUP_INVITE_FAILED, Some(proc("job", 2))));
    let optional = vec![info(keys::GROUP_OPTIONAL.name(), true)];
    let formed = clients[0].group_invite("g", everybody(3), optional).wait().unwrap();
    assert_eq!(formed.members, everybody(2));
    // The invitation itself has succeeded, as in OpenPMIx: the results name the missing processes.
    let missing = DataArray { element_type: DataType::Proc, elements: vec![proc("job", 2).into()] };
    assert_eq!(formed.info, [info(keys::EVENT_AFFECTED_PROCS.name(), Value::DataArray(Box::new(missing)))]);
    assert_eq!(accepted.recv().unwrap(), Ok(everybody(2)));
}

#[test]
fn silence_ends_an_invitation_with_its_time() {
    let (_node, clients) = job(2);
    let heard = hearing(&clients[1], &[Status::GROUP_CONSTRUCT_ABORT]);
    let limit = vec![info(keys::TIMEOUT.name(), Value::Int(1))];
    let error = clients[0].group_invite("g", everybody(2), limit).wait().unwrap_err();
    assert_eq!(error, GroupError::Aborted { id: "g".into(), refused: vec![proc("job", 1)] });
    assert_eq!(heard.recv().unwrap().0, Status::GROUP_CONSTRUCT_ABORT);
}

#[test]
fn the_end_of_an_invitee_and_of_a_leader_ends_the_wait_for_them() {
    let node = TestServer::local();
    node.register_local_job("job", 2);
    let zero = Arc::new(node.connect("job", 0));
    let mut one = node.spawn("job", 1, "hears an invitation");
    one.wait_for_line("listening");
    let (tell, outcome) = mpsc::channel();
    zero.group_invite("g", everybody(2), Vec::new()).then(move |result| tell.send(result).unwrap()).unwrap();
    one.wait_for_line("invited");
    one.kill();
    let error = outcome.recv().unwrap().unwrap_err();
    assert_eq!(error, GroupError::Aborted { id: "g".into(), refused: vec![proc("job", 1)] });
    // The other way round.
    let end = answering(&zero, true);
    let failures = hearing(&zero, &[Status::GROUP_LEADER_FAILED]);
    node.server.deregister_client(&proc("job", 1)).wait().unwrap();
    node.register_client("job", 1);
    let mut leader = node.spawn("job", 1, "invites three");
    leader.wait_for_line("accepted");
    leader.kill();
    assert_eq!(end.recv().unwrap(), Err(Status::GROUP_LEADER_FAILED));
    assert_eq!(failures.recv().unwrap(), (Status::GROUP_LEADER_FAILED, Some(proc("job", 1))));
}

/// A host that carries events, but no invitations.
struct Uninviting;

impl Host for Uninviting {
    fn capabilities(&self) -> Capabilities {
        Capabilities::NOTIFY_EVENT
    }

    fn notify_event(&self, event: Event, reply: Responder<()>) {
        match event.status {
            Status::GROUP_INVITED => reply.fail(Status::ERR_UNREACH),
            _ => reply.succeed(()),
        }
    }
}

/// The leader failed because its invitation had not reached everybody, but sent no event. A process that had accepted
/// waited for ever. The third process stays silent, so the group can't be complete before the failure.
#[test]
fn an_accepting_process_hears_that_the_invitation_of_the_leader_failed() {
    let node = TestServer::start("node0", Uninviting);
    node.register_local_job("job", 3);
    let clients: Vec<Arc<Client>> = (0..3).map(|rank| Arc::new(node.connect("job", rank))).collect();
    let end = answering(&clients[1], true);
    let error = clients[0].group_invite("g", everybody(3), Vec::new()).wait().unwrap_err();
    assert_eq!(error.status(), Status::ERR_UNREACH);
    assert_eq!(end.recv().unwrap(), Err(Status::GROUP_CONSTRUCT_ABORT));
}

#[test]
fn a_wait_for_a_group_ends_when_the_server_goes() {
    let (node, clients) = job(2);
    let (tell, outcome) = mpsc::channel();
    clients[0].group_invite("g", everybody(2), Vec::new()).then(move |result| tell.send(result).unwrap()).unwrap();
    drop(node);
    assert_eq!(outcome.recv().unwrap().unwrap_err().status(), Status::ERR_LOST_CONNECTION);
}

#[test]
fn an_invitation_to_nobody_is_a_mistake_and_one_to_oneself_a_group() {
    let (_node, clients) = job(1);
    let error = clients[0].group_invite("g", Vec::new(), Vec::new()).wait().unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM);
    let unfilled = ProcId { namespace: Namespace::in_value(b"").unwrap(), rank: Rank::from(0) };
    let error = clients[0].group_invite("g", vec![proc("job", 0), unfilled.clone()], Vec::new()).wait().unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM, "it waited for an answer of nobody");
    let error = clients[0].group_join("g", Some(&unfilled), true, Vec::new()).wait().unwrap_err();
    assert_eq!(error, GroupError::NobodyLeads { id: "g".into() });
    let stranger = ProcId { namespace: namespace("nobody's"), rank: Rank::Wildcard };
    let error = clients[0].group_invite("g", vec![stranger], Vec::new()).wait().unwrap_err();
    assert!(matches!(error, GroupError::UnknownJob { .. }), "{error}");
    let formed = clients[0].group_invite("g", everybody(1), Vec::new()).wait().unwrap();
    assert_eq!(formed.members, everybody(1));
    clients[0].group_destruct("g", Vec::new()).wait().unwrap();
    assert_eq!(clients[0].group_leave("g", Vec::new()).wait().unwrap_err(), GroupError::NotAMember { id: "g".into() });
}

/// The job has a process elsewhere, so that only a host could number groups. A required number was left out in silence.
#[test]
fn an_invitation_fails_if_a_required_number_is_not_to_be_had() {
    let node = TestServer::local();
    let described = description(3, &[("node0", "0,1"), ("node1", "2")]);
    node.server.register_namespace(&namespace("job"), 2, described).wait().unwrap();
    (0..2).for_each(|rank| node.register_client("job", rank));
    let clients: Vec<_> = (0..2).map(|rank| Arc::new(node.connect("job", rank))).collect();
    let wish = |is_required: bool| {
        let flags = if is_required { InfoFlags::REQUIRED.bits() } else { 0 };
        vec![Info { flags, ..info(keys::GROUP_ASSIGN_CONTEXT_ID.name(), true) }]
    };
    let ends = answering(&clients[1], true);
    let error = clients[0].group_invite("g", everybody(2), wish(true)).wait().unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
    assert!(ends.recv().unwrap().is_err(), "the other member is not left waiting");
    let formed = clients[0].group_invite("h", everybody(2), wish(false)).wait().unwrap();
    assert_eq!((formed.members, formed.context_id), (everybody(2), None));
}

/// A handler for the end of a leader or a member, with this answer.
fn deciding(client: &Client, code: Status, status: Status, results: Vec<Info>) {
    let decide = move |call: modex::EventCall| call.complete(status, results.clone());
    client.register_event_handler(&[code], &[], decide).wait().unwrap();
}

/// The outcomes of a group whose leader is killed after its arrival.
fn without_leader(clients: &[Arc<Client>], node: &TestServer) -> Vec<Result<Vec<ProcId>, Status>> {
    let mut leader = node.spawn("job", 0, "leads");
    leader.wait_for_line("leading");
    let (tell, outcome) = mpsc::channel();
    for client in clients {
        let tell = tell.clone();
        let formed = move |result: Result<modex::Answered<modex::Group>, _>| {
            let result = result.map(|formed| formed.results.members);
            tell.send(result.map_err(|error: modex::RequestError| error.status())).unwrap();
        };
        client.group_construct("g", everybody(3), Vec::new()).then(formed).unwrap();
        // The reply comes after the server has handled the earlier request.
        client.resolve_peers(None, None).wait().unwrap();
    }
    leader.kill();
    node.server.deregister_client(&proc("job", 0)).wait().unwrap();
    clients.iter().map(|_| outcome.recv().unwrap()).collect()
}

#[test]
fn one_that_volunteers_leads_when_the_leader_is_killed_and_all_are_told() {
    let node = TestServer::local();
    node.register_local_job("job", 4);
    let clients: Vec<Arc<Client>> = [1, 2].map(|rank| Arc::new(node.connect("job", rank))).into();
    let heard: Vec<_> = clients.iter().map(|client| hearing(client, &[Status::GROUP_LEADER_SELECTED])).collect();
    let volunteers = vec![info(keys::GROUP_LEADER.name(), true)];
    deciding(&clients[0], Status::GROUP_LEADER_FAILED, Status::SUCCESS, Vec::new());
    deciding(&clients[1], Status::GROUP_LEADER_FAILED, Status::EVENT_ACTION_COMPLETE, volunteers);
    let mut leader = node.spawn("job", 0, "leads four");
    leader.wait_for_line("leading");
    let (tell, outcome) = mpsc::channel();
    for client in &clients {
        let tell = tell.clone();
        let formed = move |result: Result<modex::Answered<modex::Group>, _>| {
            tell.send(result.unwrap().results.members).unwrap();
        };
        client.group_construct("g", everybody(4), Vec::new()).then(formed).unwrap();
        client.resolve_peers(None, None).wait().unwrap();
    }
    leader.kill();
    for heard in heard {
        assert_eq!(heard.recv().unwrap(), (Status::GROUP_LEADER_SELECTED, Some(proc("job", 2))));
    }
    let last = node.connect("job", 3);
    last.group_construct("g", everybody(4), Vec::new()).wait().unwrap();
    for _ in &clients {
        assert_eq!(outcome.recv().unwrap(), everybody(4), "what the leader had said before it ended counts");
    }
}

#[test]
fn a_handler_can_give_up_a_group_whose_leader_is_killed() {
    let node = TestServer::local();
    node.register_local_job("job", 3);
    let clients: Vec<Arc<Client>> = vec![Arc::new(node.connect("job", 1))];
    deciding(&clients[0], Status::GROUP_LEADER_FAILED, Status::GROUP_CONSTRUCT_ABORT, Vec::new());
    assert_eq!(without_leader(&clients, &node), [Err(Status::GROUP_CONSTRUCT_ABORT)]);
}

#[test]
fn leaders_who_do_not_know_each_other_and_whom_they_add_form_a_group() {
    let (_node, clients) = job(3);
    let leads =
        |more: Option<Info>| [info(keys::GROUP_BOOTSTRAP.name(), Value::Size(2))].into_iter().chain(more).collect();
    let added = Value::DataArray(Box::new(modex::types::DataArray {
        element_type: modex::types::DataType::Proc,
        elements: vec![Value::from(proc("job", 2))],
    }));
    let adds = info(keys::GROUP_ADD_MEMBERS.name(), added);
    let calls: [(Vec<ProcId>, Vec<Info>); 3] =
        [(vec![proc("job", 0)], leads(Some(adds))), (vec![proc("job", 1)], leads(None)), (Vec::new(), Vec::new())];
    thread::scope(|scope| {
        for (client, (procs, directives)) in clients.iter().zip(calls) {
            scope.spawn(move || {
                let formed = client.group_construct("g", procs, directives).wait().unwrap();
                assert_eq!(formed.results.members, everybody(3));
            });
        }
    });
}

/// Plays a role in a child; does nothing in the parent.
#[test]
fn client_process() {
    match role().as_deref() {
        Some("hears an invitation") => {
            let client = Client::connect().unwrap();
            let heard = hearing(&client, &[Status::GROUP_INVITED]);
            println!("\nlistening");
            heard.recv().unwrap();
            println!("\ninvited");
            loop {
                thread::park();
            }
        }
        Some(role @ ("leads" | "leads four")) => {
            let client = Client::connect().unwrap();
            let size = if role == "leads" { 3 } else { 4 };
            let leads = vec![info(keys::GROUP_LEADER.name(), true)];
            client.group_construct("g", everybody(size), leads).then(|_| {}).unwrap();
            // The reply comes after the server has handled the earlier request.
            client.resolve_peers(None, None).wait().unwrap();
            println!("\nleading");
            loop {
                thread::park();
            }
        }
        Some("invites three") => {
            let client = Client::connect().unwrap();
            let heard = hearing(&client, &[Status::GROUP_INVITE_ACCEPTED]);
            // The third process does not exist, so it never answers.
            let (tell, _outcome) = mpsc::channel();
            client.group_invite("h", everybody(3), Vec::new()).then(move |result| tell.send(result).unwrap()).unwrap();
            heard.recv().unwrap();
            println!("\naccepted");
            loop {
                thread::park();
            }
        }
        Some(other) => panic!("unknown role {other}"),
        None => {}
    }
}
