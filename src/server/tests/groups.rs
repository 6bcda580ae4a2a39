//! Groups.

use std::collections::BTreeSet;

use super::harness::*;
use crate::gds::model::MapStore;
use crate::keys;
use crate::proto::{Collective, Commit, ENDPOINT_BYTES_MAX, Get, Group, RankData, Reply, Request, Version};
use crate::server::{
    Capabilities, Credentials, EventDelivery, GroupOperation, GroupRequest, Hello, HostCall, HostReply, Input, Limits,
    Output, PeerId, RegisterClient, ServerConfig, Upcall, UpcallId,
};
use crate::types::{DataArray, DataType, Info, InfoFlags, Kval, ProcId, Rank, Scope, Status, Text, Value};

fn group(id: &str, procs: &[ProcId], directives: &[Info]) -> Group {
    Group { command: 24, id: Some(Text::from(id)), procs: procs.to_vec(), directives: directives.to_vec() }
}

fn construct(id: &str, procs: &[ProcId], directives: &[Info]) -> Request {
    Request::GroupConstruct(group(id, procs, directives))
}

fn destruct(id: &str) -> Request {
    Request::GroupDestruct(group(id, &[], &[]))
}

/// The receivers and members of the only group among the outputs; all receivers get the same.
fn formed(outputs: &[Output]) -> (Vec<PeerId>, Vec<ProcId>, Option<u64>) {
    let mut groups = replies(outputs).into_iter().map(|(peer, reply)| match reply {
        Reply::Group { members, context_id, .. } => (peer, members, context_id),
        other => panic!("not a group: {other:?}"),
    });
    let (first, members, context_id) = groups.next().unwrap();
    let mut peers = vec![first];
    for (peer, same_members, same_id) in groups {
        assert_eq!((&members, context_id), (&same_members, same_id));
        peers.push(peer);
    }
    (peers, members, context_id)
}

#[test]
fn a_group_of_this_node_is_formed_however_its_members_write_it() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(4, 2);
    assert_eq!(rig.request(peers[1], construct("g", &[proc(1), proc(0)], &[])), []);
    let outputs = rig.request(peers[0], construct("g", &[proc(0), proc(1), proc(1)], &[]));
    assert_eq!(formed(&outputs), (vec![peers[0], peers[1]], vec![proc(0), proc(1)], None));
}

#[test]
fn a_wildcard_stands_for_all_processes_of_the_job() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    rig.request(peers[0], construct("g", &[everybody()], &[]));
    let outputs = rig.request(peers[1], construct("g", &[proc(0), proc(1)], &[]));
    assert_eq!(formed(&outputs).1, [proc(0), proc(1)]);
}

/// Two operations of one name were with the host at once, and the later one could end first. A list of ranks was not
/// ordered behind a wildcard.
#[test]
fn operations_on_a_group_end_in_order_however_each_is_written() {
    let ways = [vec![everybody()], [0, 1, 2].map(proc).to_vec()];
    for (first, then) in [(0, 0), (0, 1), (1, 0)] {
        let mut rig = Rig::new(Capabilities::GROUP);
        let peers = rig.job(3, 2);
        let mut begin = |way: usize| {
            rig.request(peers[0], construct("g", &ways[way], &[]));
            upcall(&rig.request(peers[1], construct("g", &ways[way], &[]))).0
        };
        let (earlier, later) = (begin(first), begin(then));
        let done = || HostReply::Infos { status: Status::SUCCESS, info: Vec::new() };
        assert_eq!(replies(&rig.complete(later, done())), [], "way {then} after {first}");
        assert_eq!(replies(&rig.complete(earlier, done())).len(), 4, "way {then} after {first}");
    }
}

#[test]
fn groups_of_other_names_do_not_meet() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    assert_eq!(rig.request(peers[0], construct("g", &[everybody()], &[])), []);
    assert_eq!(rig.request(peers[1], construct("h", &[everybody()], &[])), []);
    assert_eq!(
        rig.request(peers[0], Request::Connect(Collective { procs: vec![everybody()], directives: vec![] })),
        []
    );
    assert_eq!(rig.server.collective_count(), 3);
}

#[test]
fn groups_of_one_name_with_other_members_are_formed_side_by_side() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    for (rank, &peer) in (0..).zip(&peers) {
        assert_eq!(formed(&rig.request(peer, construct("self", &[proc(rank)], &[]))).1, [proc(rank)]);
    }
    for &peer in &peers {
        assert_eq!(statuses(&rig.request(peer, destruct("self"))), [(peer, Status::SUCCESS)]);
    }
}

#[test]
fn the_host_assigns_context_numbers_and_hears_what_each_member_says() {
    let mut rig = Rig::new(Capabilities::GROUP);
    let peers = rig.job(2, 2);
    let (wish, mine) = (flag("pmix.grp.actxid"), flag("pmix.mine"));
    rig.request(peers[0], construct("g", &[everybody()], std::slice::from_ref(&wish)));
    let outputs = rig.request(peers[1], construct("g", &[everybody()], &[wish.clone(), mine.clone()]));
    let (id, call) = upcall(&outputs);
    let (operation, name) = (GroupOperation::Construct, Text::from("g"));
    let procs = vec![everybody()];
    assert_eq!(call, Upcall::Group(GroupRequest { operation, id: name, procs, directives: vec![wish, mine] }));
    let info = vec![Info::new(key("pmix.grp.ctxid"), Value::Size(11))];
    let outputs = rig.complete(id, HostReply::Infos { status: Status::SUCCESS, info });
    assert_eq!(formed(&outputs), (peers, vec![proc(0), proc(1)], Some(11)));
}

/// A host keeps a list of groups. Regression: it did not hear of groups of one node, or of their end if it had not
/// numbered them.
#[test]
fn the_host_hears_of_groups_of_this_node_and_of_their_ends() {
    let mut rig = Rig::new(Capabilities::GROUP);
    let peers = rig.job(2, 2);
    let local = flag("pmix.grp.lcl");
    for wish in [vec![flag("pmix.grp.actxid")], Vec::new()] {
        let of_construct = if wish.is_empty() { vec![local.clone()] } else { wish.clone() };
        let mut ask = |request: Request, operation: GroupOperation, directives: &[Info]| {
            assert_eq!(rig.request(peers[0], request.clone()), []);
            let (id, call) = upcall(&rig.request(peers[1], request));
            let Upcall::Group(asked) = call else { panic!("{call:?}") };
            assert_eq!((asked.operation, asked.id, &asked.directives[..]), (operation, Text::from("g"), directives));
            rig.complete(id, HostReply::Infos { status: Status::SUCCESS, info: Vec::new() })
        };
        let formed_group = ask(construct("g", &[everybody()], &wish), GroupOperation::Construct, &of_construct);
        assert_eq!(formed(&formed_group).1, [proc(0), proc(1)]);
        let ended = ask(destruct("g"), GroupOperation::Destruct, std::slice::from_ref(&local));
        assert_eq!(statuses(&ended), [(peers[0], Status::SUCCESS), (peers[1], Status::SUCCESS)]);
    }
}

#[test]
fn the_host_has_the_last_word_on_the_members() {
    let mut rig = Rig::new(Capabilities::GROUP);
    let peer = rig.job(4, 1)[0];
    let (id, _) = upcall(&rig.request(peer, construct("g", &[everybody()], &[])));
    let elements = [proc(2), proc(0), proc(2)].map(Value::from).into();
    let array = Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements }));
    let info = vec![Info::new(key("pmix.grp.mbrs"), array)];
    let outputs = rig.complete(id, HostReply::Infos { status: Status::SUCCESS, info });
    assert_eq!(formed(&outputs).1, [proc(2), proc(0)]);
}

/// A client of release 6.1 crashed over the context number among the infos.
#[test]
fn clients_of_the_reference_get_of_the_hosts_words_what_members_gave_each_other_and_ours_all() {
    let mut rig = Rig::new(Capabilities::GROUP);
    let foreign = rig.job(2, 2)[0];
    let own = rig.join(&proc(1), SEGMENT);
    let infos = |infos: Vec<Info>| Value::info_array(infos);
    let by = |rank| infos(vec![Info::new(key("pmix.procid"), Value::from(proc(rank))), flag("said")]);
    let said = [
        Info::new(key("pmix.grp.info"), by(0)),
        Info::new(key("pmix.grp.infoarray"), infos(vec![Info::new(key("a"), by(0)), Info::new(key("b"), by(1))])),
    ];
    let other = [
        Info::new(key("host.note"), Value::from("text")),
        Info::new(key("pmix.grp.info"), Value::Bool(true)),
        Info::new(key("pmix.grp.info"), infos(vec![flag("nobody said it")])),
        Info::new(key("pmix.grp.info"), infos(vec![])),
        Info::new(key("pmix.grp.infoarray"), infos(vec![flag("no bundle")])),
        Info::new(key("other"), by(0)),
        Info::new(
            key("pmix.grp.info"),
            Value::DataArray(Box::new(DataArray { element_type: DataType::Size, elements: vec![] })),
        ),
    ];
    for (context, expected) in [(None, &[][..]), (Some(Info::new(key("pmix.grp.ctxid"), Value::Size(3))), &said[..])] {
        let wish = [flag("pmix.grp.actxid")];
        rig.request(own, construct("g", &[everybody()], &wish));
        let (id, _) = upcall(&rig.request(foreign, construct("g", &[everybody()], &wish)));
        let all: Vec<Info> = context.iter().chain(&said).chain(&other).cloned().collect();
        let outputs = rig.complete(id, HostReply::Infos { status: Status::SUCCESS, info: all.clone() });
        for (peer, reply) in replies(&outputs) {
            let Reply::Group { info, .. } = reply else { panic!("not a group: {reply:?}") };
            assert_eq!(info, if peer == own { &all } else { expected });
        }
    }
}

#[test]
fn groups_that_need_the_host_are_not_supported_without_it() {
    let mut rig = Rig::new(Capabilities::CONNECT);
    let peer = rig.job(2, 1)[0];
    for request in [construct("g", &[everybody()], &[]), construct("h", &[proc(0)], &[flag("pmix.grp.actxid")])] {
        // The number would have to be unique among the groups of the job's other nodes, too.
        assert_eq!(statuses(&rig.request(peer, request)), [(peer, Status::ERR_NOT_SUPPORTED)]);
    }
}

#[test]
fn the_hosts_failure_ends_the_construction_for_all() {
    let mut rig = Rig::new(Capabilities::GROUP);
    let peer = rig.job(2, 1)[0];
    let (id, _) = upcall(&rig.request(peer, construct("g", &[everybody()], &[])));
    let outputs = rig.complete(id, HostReply::Status(Status::ERR_UNREACH));
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_UNREACH)]);
    assert_eq!(statuses(&rig.request(peer, destruct("g"))), [(peer, Status::ERR_NOT_FOUND)], "there is no group");
}

#[test]
fn a_group_is_dissolved_by_all_its_members_and_is_gone() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    for &peer in &peers {
        rig.request(peer, construct("g", &[everybody()], &[]));
    }
    assert_eq!(rig.request(peers[0], destruct("g")), []);
    let outputs = rig.request(peers[1], destruct("g"));
    assert_eq!(statuses(&outputs), [(peers[0], Status::SUCCESS), (peers[1], Status::SUCCESS)]);
    assert_eq!(statuses(&rig.request(peers[0], destruct("g"))), [(peers[0], Status::ERR_NOT_FOUND)]);
}

#[test]
fn a_member_lost_on_the_way_aborts_the_construction_unless_that_was_foreseen() {
    let lose_one = |directives: &[Info]| {
        let mut rig = Rig::new(Capabilities::empty());
        let peers = rig.job(2, 2);
        rig.request(peers[0], construct("g", &[everybody()], directives));
        (peers[0], rig.lose(peers[1]))
    };
    let (peer, outputs) = lose_one(&[]);
    assert_eq!(statuses(&outputs), [(peer, Status::GROUP_CONSTRUCT_ABORT)]);
    let (_, outputs) = lose_one(&[flag("pmix.grp.ftcoll")]);
    assert_eq!(formed(&outputs).1, [proc(0)]);
    let (_, outputs) = lose_one(&[flag("pmix.grp.opt")]);
    match &replies(&outputs)[..] {
        [(_, Reply::Partial { status: Status::ERR_PARTIAL_SUCCESS, results })] => {
            assert!(matches!(&**results, Reply::Group { members, .. } if *members == [proc(0)]));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_death_spoils_the_end_of_a_group_unless_its_members_are_told_of_deaths() {
    let lose_one = |directives: &[Info]| {
        let mut rig = Rig::new(Capabilities::empty());
        let peers = rig.job(2, 2);
        for &peer in &peers {
            rig.request(peer, construct("g", &[everybody()], directives));
        }
        rig.lose(peers[1]);
        statuses(&rig.request(peers[0], destruct("g")))[0].1
    };
    assert_eq!(lose_one(&[]), Status::ERR_PARTIAL_SUCCESS);
    assert_eq!(lose_one(&[flag("pmix.grp.notterm")]), Status::SUCCESS);
}

#[test]
fn a_group_stands_for_its_members_in_other_operations() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(3, 3);
    for &peer in &peers[..2] {
        rig.request(peer, construct("g", &[proc(0), proc(1)], &[]));
    }
    assert_eq!(rig.request(peers[0], fence(&[ProcId::new(namespace("g"), Rank::Wildcard)], &[])), []);
    let outputs = rig.request(peers[1], fence(&[proc(0), proc(1)], &[]));
    assert_eq!(statuses(&outputs), [(peers[0], Status::SUCCESS), (peers[1], Status::SUCCESS)]);
    assert_eq!(rig.request(peers[1], fence(&[ProcId::new(namespace("g"), 1), proc(2)], &[])), []);
    let outputs = rig.request(peers[2], fence(&[proc(2), proc(1)], &[]));
    assert_eq!(statuses(&outputs), [(peers[1], Status::SUCCESS), (peers[2], Status::SUCCESS)]);
}

/// A client could form a group of itself alone under the name of another job. Fences of the job were then fences of
/// the group, and the job's own processes were no members.
#[test]
fn a_group_does_not_take_the_name_of_a_job() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    rig.register("other", Some(1), Some(1));
    let other = ProcId::new(namespace("other"), 0);
    rig.register_client(&other);
    let outsider = rig.join(&other, SOCKET);
    let outputs = rig.request(outsider, construct("job", std::slice::from_ref(&other), &[]));
    assert_eq!(statuses(&outputs), [(outsider, Status::ERR_BAD_PARAM)]);
    // A group from before the job does not take its name either.
    formed(&rig.request(outsider, construct("later", std::slice::from_ref(&other), &[])));
    rig.register("later", Some(1), Some(1));
    let first = ProcId::new(namespace("later"), 0);
    rig.register_client(&first);
    let newcomer = rig.join(&first, SOCKET);
    assert_eq!(statuses(&rig.request(newcomer, fence(&[], &[]))), [(newcomer, Status::SUCCESS)]);
    assert_eq!(rig.request(peers[0], fence(&[], &[])), []);
}

/// An outsider that named a group got the first one of that name, of any user. So a process could block another user
/// under the name of a future job. Only groups of the outsider's own user count.
#[test]
fn another_users_group_is_not_meant() {
    let mut rig = Rig::new(Capabilities::CONNECT);
    let peers = rig.job(2, 2);
    let credentials = Credentials { uid: 4321, gid: 4321 };
    let stranger = ProcId::new(namespace("other"), 0);
    rig.register("other", Some(1), Some(1));
    let Credentials { uid, gid } = credentials;
    rig.host(HostCall::RegisterClient(RegisterClient { proc: stranger.clone(), uid, gid, object: 0 }));
    let outsider = PeerId(99);
    let version = Version::new(5, 0, 0);
    let strangers = BTreeSet::new();
    let hello = Hello { proc: stranger.clone(), credentials, store: SOCKET, version, strangers };
    rig.input(Input::Connected(outsider, hello));
    formed(&rig.request(outsider, construct("later", std::slice::from_ref(&stranger), &[])));
    let later = ProcId::new(namespace("later"), Rank::Wildcard);
    let connect = |procs: &[ProcId]| Request::Connect(Collective { procs: procs.to_vec(), directives: Vec::new() });
    assert_eq!(rig.request(peers[0], connect(&[proc(0), later.clone()])), [], "a job that is to come");
    let (_, call) = upcall(&rig.register("later", Some(1), Some(0)));
    assert!(matches!(call, Upcall::Connect(connect) if connect.procs.contains(&later)), "a job elsewhere");
    // A group of the same user is meant.
    formed(&rig.request(peers[1], construct("mine", &[proc(1)], &[])));
    let mine = ProcId::new(namespace("mine"), Rank::Wildcard);
    assert_eq!(rig.request(peers[0], fence(&[proc(0), mine], &[])), []);
    let outputs = rig.request(peers[1], fence(&[proc(0), proc(1)], &[]));
    assert_eq!(statuses(&outputs), [(peers[0], Status::SUCCESS), (peers[1], Status::SUCCESS)]);
}

#[test]
fn a_group_needs_a_name_and_members() {
    let mut rig = Rig::new(Capabilities::empty());
    let peer = rig.job(1, 1)[0];
    let nameless = Request::GroupConstruct(Group { id: None, ..group("", &[proc(0)], &[]) });
    for request in [nameless, construct("", &[proc(0)], &[])] {
        assert_eq!(statuses(&rig.request(peer, request)), [(peer, Status::ERR_BAD_PARAM)]);
    }
}

#[test]
fn groups_end_with_the_jobs_of_their_members() {
    let mut rig = Rig::new(Capabilities::empty());
    let peer = rig.job(1, 1)[0];
    rig.request(peer, construct("g", &[proc(0)], &[]));
    rig.host(HostCall::DeregisterNamespace(namespace("job")));
    let peer = rig.job(1, 1)[0];
    assert_eq!(statuses(&rig.request(peer, destruct("g"))), [(peer, Status::ERR_NOT_FOUND)]);
}

#[test]
fn a_group_that_was_formed_otherwise_is_dissolved_by_those_who_name_its_members() {
    let mut rig = Rig::new(Capabilities::empty());
    let peer = rig.job(1, 1)[0];
    let request = Request::GroupDestruct(group("invited", &[proc(0)], &[]));
    assert_eq!(statuses(&rig.request(peer, request)), [(peer, Status::SUCCESS)]);
}

#[test]
fn the_directives_of_a_group_member_are_bounded() {
    let mut rig = Rig::new(Capabilities::empty());
    let peer = rig.job(1, 1)[0];
    let many = vec![flag("pmix.custom"); 257];
    let outputs = rig.request(peer, construct("g", &[proc(0)], &many));
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_OUT_OF_RESOURCE)]);
}

/// One process could form all groups that the server allows.
#[test]
fn one_process_has_a_share_of_the_groups() {
    let limits = Limits { groups_per_process_max: 1, ..Limits::default() };
    let mut rig = Rig::with(ServerConfig { limits, ..ServerConfig::default() }, MapStore::new());
    let peers = rig.job(2, 2);
    assert_eq!(formed(&rig.request(peers[0], construct("a", &[proc(0)], &[]))).0, [peers[0]]);
    let outputs = rig.request(peers[0], construct("b", &[proc(0)], &[]));
    assert_eq!(statuses(&outputs), [(peers[0], Status::ERR_OUT_OF_RESOURCE)]);
    assert_eq!(formed(&rig.request(peers[1], construct("b", &[proc(1)], &[]))).0, [peers[1]], "another has its own");
    assert_eq!(statuses(&rig.request(peers[0], destruct("a"))), [(peers[0], Status::SUCCESS)]);
    assert_eq!(
        formed(&rig.request(peers[0], construct("b", &[proc(0)], &[]))).0,
        [peers[0]],
        "the share is free again"
    );
}

/// Receivers and events, with the affected process.
pub(super) fn notified(outputs: &[Output]) -> Vec<(PeerId, Status, ProcId)> {
    let notified = |output: &Output| match output {
        Output::Notify(peer, EventDelivery { event, .. }) => {
            let affected = event.info.iter().find(|info| info.key.as_str() == "pmix.evproc")?;
            let Value::Proc(affected) = &affected.value else { return None };
            Some((*peer, event.status, (**affected).clone()))
        }
        _ => None,
    };
    outputs.iter().filter_map(notified).collect()
}

fn listen(rig: &mut Rig, peers: &[PeerId]) {
    let codes = vec![Status::GROUP_MEMBER_FAILED, Status::GROUP_LEADER_FAILED, Status::GROUP_LEFT];
    for &peer in peers {
        let wish = crate::proto::RegisterEvents { codes: codes.clone(), directives: Vec::new() };
        assert_eq!(statuses(&rig.request(peer, Request::RegisterEvents(wish))), [(peer, Status::SUCCESS)]);
    }
}

#[test]
fn the_loss_of_a_member_is_told_to_leaders_or_to_all_and_that_of_a_leader_to_all() {
    let failed = |peer, rank| (peer, Status::GROUP_MEMBER_FAILED, proc(rank));
    for is_deregistered in [false, true] {
        let mut rig = Rig::new(Capabilities::empty());
        let peers = rig.job(4, 4);
        listen(&mut rig, &peers);
        let end = |rig: &mut Rig, rank: u32, peer| match is_deregistered {
            true => rig.host(HostCall::DeregisterClient(proc(rank))),
            false => rig.lose(peer),
        };
        let notify = flag("pmix.grp.notterm");
        rig.request(peers[0], construct("g", &[everybody()], &[notify.clone(), flag("pmix.grp.ldr")]));
        rig.request(peers[1], construct("g", &[everybody()], std::slice::from_ref(&notify)));
        assert_eq!(notified(&end(&mut rig, 3, peers[3])), [failed(peers[0], 3)], "the leader alone");
        let outputs = rig.request(peers[2], construct("g", &[everybody()], std::slice::from_ref(&notify)));
        assert_eq!(formed(&outputs).1, [0, 1, 2].map(proc), "the others go on");
        assert_eq!(notified(&end(&mut rig, 2, peers[2])), [failed(peers[0], 2), failed(peers[1], 2)]);
        rig.request(peers[0], construct("h", &[proc(0), proc(1)], &[]));
        assert_eq!(
            notified(&end(&mut rig, 1, peers[1])),
            [failed(peers[0], 1)],
            "of the first group, as promised there"
        );
    }
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(3, 3);
    listen(&mut rig, &peers);
    rig.request(peers[0], construct("g", &[everybody()], &[flag("pmix.grp.ldr")]));
    rig.request(peers[1], construct("g", &[everybody()], &[]));
    assert_eq!(notified(&rig.lose(peers[0])), [(peers[1], Status::GROUP_LEADER_FAILED, proc(0))]);
}

#[test]
fn the_end_of_a_group_does_not_wait_for_a_leaver() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    let notify = [flag("pmix.grp.notterm")];
    peers.iter().for_each(|&peer| drop(rig.request(peer, construct("g", &[everybody()], &notify))));
    assert_eq!(rig.request(peers[0], destruct("g")), []);
    let leave = Request::GroupOther(Group { command: 27, ..group("g", &[], &[]) });
    let outputs = rig.request(peers[1], leave);
    assert!(statuses(&outputs).contains(&(peers[1], Status::SUCCESS)), "{outputs:?}");
    assert!(statuses(&outputs).iter().any(|(peer, _)| *peer == peers[0]), "{outputs:?}");
    assert_eq!(rig.server.collective_count(), 0);
}

/// The host is asked for each process that does not know the other members. There are a leader, a member that it adds,
/// a leader of another group of this name, and a process that no leader adds. Returns the connections and requests.
fn bootstrapped(rig: &mut Rig) -> Vec<(PeerId, UpcallId, Vec<ProcId>)> {
    let peers = rig.job(4, 4);
    let leads = Info::new(key("pmix.grp.btstrp"), Value::Size(1));
    let requests = [&[proc(0)][..], &[], &[proc(2)], &[]].map(|procs| match procs {
        [] => construct("g", &[], &[]),
        leader => construct("g", leader, std::slice::from_ref(&leads)),
    });
    let asked = peers.into_iter().zip(requests).map(|(peer, request)| match upcall(&rig.request(peer, request)) {
        (id, Upcall::Group(call)) => (peer, id, call.procs),
        (_, other) => panic!("{other:?}"),
    });
    asked.collect()
}

fn members_are(ranks: &[u32]) -> HostReply {
    let elements = ranks.iter().map(|rank| Value::from(proc(*rank))).collect();
    let members = Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements }));
    HostReply::Infos { status: Status::SUCCESS, info: vec![Info::new(key("pmix.grp.mbrs"), members)] }
}

/// PRRTE gives one answer on each node, and all members but one waited for ever.
#[test]
fn members_that_know_of_nobody_else_are_brought_together_by_one_answer_of_the_host() {
    for (first, second) in [(0, 1), (1, 0)] {
        let mut rig = Rig::new(Capabilities::GROUP);
        let asked = bootstrapped(&mut rig);
        assert_eq!(asked.iter().map(|(_, _, procs)| procs.len()).collect::<Vec<_>>(), [1, 0, 1, 0]);
        let [leader, added, other, outsider] = [0, 1, 2, 3].map(|place: usize| (asked[place].0, asked[place].1));
        let outputs = rig.complete(asked[first].1, members_are(&[0, 1]));
        let refused = (outsider.0, Reply::Status(Status::ERR_NOT_A_MEMBER));
        assert!(replies(&outputs).contains(&refused), "{outputs:?}");
        let is_for_outsider = |output: &Output| matches!(output, Output::Answer(peer, ..) if *peer == outsider.0);
        let rest: Vec<Output> = outputs.into_iter().filter(|output| !is_for_outsider(output)).collect();
        let (mut notified, members, number) = formed(&rest);
        notified.sort_unstable();
        assert_eq!((notified, members, number), (vec![leader.0, added.0], vec![proc(0), proc(1)], None));
        assert_eq!(rig.complete(asked[second].1, members_are(&[0, 1])), [], "a host may answer each");
        assert_eq!(formed(&rig.complete(other.1, members_are(&[2]))), (vec![other.0], vec![proc(2)], None));
        assert_eq!(rig.server.collective_count(), 0);
    }
}

/// A leader need not name members, and another job may use the name.
#[test]
fn an_answer_leaves_leaders_and_other_jobs_waiting() {
    let mut rig = Rig::new(Capabilities::GROUP);
    let peers = rig.job(2, 2);
    rig.register("other", Some(1), Some(1));
    let stranger = ProcId::new(namespace("other"), 0);
    rig.register_client(&stranger);
    let of_other_job = rig.join(&stranger, SOCKET);
    let leads = Info::new(key("pmix.grp.btstrp"), Value::Size(1));
    let (first, _) = upcall(&rig.request(peers[0], construct("g", &[proc(0)], std::slice::from_ref(&leads))));
    let (second, _) = upcall(&rig.request(peers[1], construct("g", &[], std::slice::from_ref(&leads))));
    let (third, _) = upcall(&rig.request(of_other_job, construct("g", &[], &[])));
    let outputs = rig.complete(first, members_are(&[0]));
    assert_eq!(formed(&outputs).0, [peers[0]]);
    assert_eq!(formed(&rig.complete(second, members_are(&[1]))).0, [peers[1]]);
    assert_eq!(
        statuses(&rig.complete(third, HostReply::Status(Status::ERR_TIMEOUT))),
        [(of_other_job, Status::ERR_TIMEOUT)]
    );
}

#[test]
fn the_hosts_failure_to_bring_members_together_is_told_to_all() {
    let mut rig = Rig::new(Capabilities::GROUP);
    let asked = bootstrapped(&mut rig);
    let mut notified = statuses(&rig.complete(asked[1].1, HostReply::Status(Status::GROUP_CONSTRUCT_ABORT)));
    notified.sort_unstable_by_key(|(peer, _)| *peer);
    let expected: Vec<_> = asked.iter().map(|(peer, ..)| (*peer, Status::GROUP_CONSTRUCT_ABORT)).collect();
    assert_eq!(notified, expected);
    assert_eq!(rig.server.collective_count(), 0);
}

#[test]
fn a_group_of_a_job_that_is_all_here_is_numbered_here_and_members_learn_what_each_gives_in_its_own_name() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    let given = |claimed: u32, value: u32| {
        let named = Info::new(key("pmix.procid"), proc(claimed));
        Info::new(key("pmix.grp.info"), Value::info_array(vec![named, Info::new(key("port"), value)]))
    };
    let wish = flag("pmix.grp.actxid");
    rig.request(peers[0], construct("g", &[everybody()], &[wish.clone(), given(1, 7)]));
    let outputs = rig.request(peers[1], construct("g", &[everybody()], &[wish, given(1, 8)]));
    assert_eq!(formed(&outputs).2, Some(1));
    let Reply::Group { info, .. } = &replies(&outputs)[0].1 else { panic!("{outputs:?}") };
    let expected: Vec<Info> = info.iter().filter(|info| info.key.as_str() == "pmix.grp.info").cloned().collect();
    assert_eq!(expected, [given(0, 7), given(1, 8)], "whoever it says it is");
}

/// Clients of OpenPMIx 4.2 and 5.0 do not store the members' contributions: they request them from their server. Ours
/// had dropped them, so MPI sessions with their own library did not find a peer's communicator. The rule: the server
/// answers, by the group's context number, even after the group's end.
#[test]
fn the_server_answers_gets_of_contributions_to_a_group() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    let own = |value: u64| Info::new(key("pmix.grp.lclid"), Value::Size(value));
    let given = |value| Info::new(key("pmix.grp.info"), Value::info_array(vec![own(value)]));
    for (rank, peer) in peers.iter().enumerate() {
        rig.request(*peer, construct("g", &[everybody()], &[flag("pmix.grp.actxid"), given(1234 + rank as u64)]));
    }
    let number = |id: u64| {
        let info = Info::new(key("pmix.grp.ctxid"), Value::Size(id));
        Info { flags: InfoFlags::QUALIFIER.bits(), ..info }
    };
    let ask = |rig: &mut Rig, id: u64| {
        let at_once = flag("pmix.immediate");
        let get = Get { proc: proc(1), directives: vec![number(id), at_once], key: Some(key("pmix.grp.lclid")) };
        replies(&rig.request(peers[0], Request::Get(get))).remove(0).1
    };
    let value = Value::info_array(vec![own(1235), number(1)]);
    let entries = vec![Kval { key: key("pmix.qual.val"), value }];
    let answer = Reply::Data(vec![RankData { proc: proc(1), entries }]);
    assert_eq!(ask(&mut rig, 1), answer);
    assert_eq!(ask(&mut rig, 2), Reply::Status(Status::ERR_NOT_FOUND));
    for peer in &peers {
        rig.request(*peer, destruct("g"));
    }
    assert_eq!(ask(&mut rig, 1), answer);
    rig.host(HostCall::DeregisterNamespace(namespace("job")));
    assert!(rig.server.holdings().iter().all(|(_, count)| *count == 0));
}

fn endpoints_of(rank: u32, key_of_bundle: &'static str, entries: &[Info]) -> Info {
    let named = Info::new(key("pmix.procid"), proc(rank));
    let scope = Info::new(key("pmix.scope"), Value::Scope(Scope::Remote.to_raw()));
    Info::new(key(key_of_bundle), Value::info_array([named, scope].iter().chain(entries).cloned().collect()))
}

/// A Get with `PMIX_IMMEDIATE` of a member on another node found nothing, and without it asked that node.
#[test]
fn the_host_passes_what_members_have_put_to_the_members_on_other_nodes() {
    let mut rig = Rig::new(Capabilities::GROUP);
    let peers = rig.job(4, 2);
    for (peer, scope, name) in [(0, Scope::Remote, "port"), (0, Scope::Local, "shm"), (0, Scope::Remote, "pmix.hname")]
    {
        rig.put(peers[peer], scope, name, 7);
    }
    // This client sends its values itself, as those of OpenPMIx do.
    let sent = endpoints_of(1, "pmix.pdata", &[Info::new(key("port"), 8u32)]);
    rig.put(peers[1], Scope::Remote, "port", 8);
    rig.request(peers[1], construct("g", &[everybody()], std::slice::from_ref(&sent)));
    let (id, call) = upcall(&rig.request(peers[0], construct("g", &[everybody()], &[])));
    let Upcall::Group(call) = call else { panic!("{call:?}") };
    assert_eq!(call.directives, [sent, endpoints_of(0, "pmix.pdata", &[Info::new(key("port"), 7u32)])]);

    let immediate = [flag(keys::IMMEDIATE.name())];
    let missing = rig.request(peers[0], get(&proc(2), Some("port"), &immediate));
    assert_eq!(statuses(&missing), [(peers[0], Status::ERR_NOT_FOUND)]);
    let of_stranger = Info::new(
        key("pmix.grp.endpt"),
        Value::info_array(vec![
            Info::new(key("pmix.procid"), ProcId::new(namespace("unknown"), 0)),
            Info::new(key("port"), 1u32),
        ]),
    );
    let ports = [0, 2, 3].map(|rank| endpoints_of(rank, "pmix.grp.endpt", &[Info::new(key("port"), 10 + rank)]));
    let info = ports.into_iter().chain([of_stranger]).collect();
    let outputs = rig.complete(id, HostReply::Infos { status: Status::SUCCESS, info });
    assert_eq!(formed(&outputs).0.len(), 2);
    for (_, reply) in replies(&outputs) {
        assert!(matches!(&reply, Reply::Group { info, .. } if info.is_empty()), "no results for clients: {reply:?}");
    }
    for rank in [2, 3] {
        let found = rig.request(peers[1], get(&proc(rank), Some("port"), &immediate));
        assert_eq!(data(&found), [kval("port", 10 + rank)]);
    }
    let own = rig.request(peers[1], get(&proc(0), Some("port"), &immediate));
    assert_eq!(statuses(&own), [(peers[1], Status::ERR_EXISTS_OUTSIDE_SCOPE)], "the store has a local process's own");
}

/// The values of each member were copied in one step, however large they were.
#[test]
fn the_endpoint_data_of_a_node_have_a_limit() {
    let mut rig = Rig::new(Capabilities::GROUP);
    let peers = rig.job(3, 2);
    rig.put(peers[0], Scope::Remote, "port", 7);
    let large = Kval { key: key("large"), value: Value::from("x".repeat(ENDPOINT_BYTES_MAX)) };
    let parts = vec![(Scope::Remote, vec![large])];
    rig.request(peers[1], Request::Commit(Commit { parts }));
    rig.request(peers[1], construct("g", &[everybody()], &[]));
    let (_, call) = upcall(&rig.request(peers[0], construct("g", &[everybody()], &[])));
    let Upcall::Group(group) = call else { panic!("{call:?}") };
    assert_eq!(group.directives, [endpoints_of(0, "pmix.pdata", &[Info::new(key("port"), 7u32)])]);
}

#[test]
fn a_process_does_not_give_values_in_the_name_of_another() {
    let mut rig = Rig::new(Capabilities::GROUP);
    let peer = rig.job(2, 1)[0];
    let forged = endpoints_of(1, "pmix.pdata", &[Info::new(key("port"), 8u32)]);
    let (_, call) = upcall(&rig.request(peer, construct("g", &[everybody()], &[forged])));
    let Upcall::Group(group) = call else { panic!("{call:?}") };
    let own = endpoints_of(0, "pmix.pdata", &[Info::new(key("port"), 8u32)]);
    assert!(group.directives.contains(&own), "{:?}", group.directives);
}
