//! Each user's share of common resources.
//!
//! Each process had a bound, and so had the server, but no user had one. Four processes of one user opened as many
//! fences as the server allows, and the fences of all other users were refused meanwhile. Other resources had only a
//! bound on their number. 1,024 fences with a directive of 30 MB each, and as many held Gets with such a qualifier,
//! were 60 GB. Now a user's share depends on the rest for others, and memory is counted in bytes. Found by an attacker
//! with two user ids.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::harness::*;
use crate::gds::model::MapStore;
use crate::proto::{Command, Group, IofPull, Notify, RegisterEvents, Request, Version};
use crate::server::{
    Capabilities, Credentials, Hello, HostCall, HostReply, Input, IofOutput, Limits, Output, PeerId, RegisterClient,
    ServerConfig,
};
use crate::types::codes::{iof_channel, range};
use crate::types::{DataArray, DataType, Info, InfoFlags, Key, ProcId, Rank, Status, Text, Value};

const ALICE: u32 = 2001;
const BOB: u32 = 2002;

/// A server of root with processes of two users: three of Bob's (1 to 3), and one of Alice's (11).
fn rig(limits: Limits) -> Rig {
    let capabilities = Capabilities::FENCE | Capabilities::DIRECT_MODEX | Capabilities::IOF_PULL;
    let mut rig = Rig::with(ServerConfig { capabilities, limits, ..ServerConfig::default() }, MapStore::new());
    rig.register("bobs", Some(1000), Some(3));
    rig.register("alices", Some(1000), Some(2));
    for (id, proc, uid) in [(1, bobs(0), BOB), (2, bobs(1), BOB), (3, bobs(2), BOB), (11, alices(0), ALICE)] {
        rig.host(HostCall::RegisterClient(RegisterClient { proc: proc.clone(), uid, gid: uid, object: 0 }));
        let outputs = connect(&mut rig, id, &proc, uid);
        assert!(matches!(outputs[0], Output::Admit(..)), "{outputs:?}");
    }
    rig
}

fn connect(rig: &mut Rig, id: u64, proc: &ProcId, uid: u32) -> Vec<Output> {
    let version = Version::new(5, 0, 0);
    let credentials = Credentials { uid, gid: uid };
    let hello = Hello { proc: proc.clone(), credentials, store: SOCKET, version, strangers: BTreeSet::new() };
    rig.input(Input::Connected(PeerId(id), hello))
}

fn bobs(rank: u32) -> ProcId {
    ProcId::new(namespace("bobs"), rank)
}

fn alices(rank: u32) -> ProcId {
    ProcId::new(namespace("alices"), rank)
}

/// The status of the reply, if there is one.
fn status(outputs: &[Output]) -> Option<Status> {
    statuses(outputs).first().map(|(_, status)| *status)
}

fn blob(key: &'static str, bytes: usize, flags: InfoFlags) -> Info {
    Info { key: Key::from_static(key), flags: flags.bits(), value: Value::ByteObject(vec![7; bytes]) }
}

fn procs(procs: impl IntoIterator<Item = ProcId>) -> Value {
    let elements = procs.into_iter().map(Value::from).collect();
    Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements }))
}

fn join(id: &str, members: impl IntoIterator<Item = ProcId>) -> Request {
    let members = Info::new(key("pmix.grp.mbrs"), procs(members));
    let command = Command::GroupJoin.to_raw();
    Request::GroupOther(Group { command, id: Some(Text::from(id)), procs: Vec::new(), directives: vec![members] })
}

fn invite(id: &str, targets: Vec<ProcId>) -> Request {
    let info = vec![Info::new(key("pmix.evrange"), procs(targets)), Info::new(key("pmix.grp.id"), id)];
    Request::Notify(Notify { status: Status::GROUP_INVITED, range: range::RANGE_CUSTOM, info })
}

#[test]
fn a_user_leaves_others_operations_fetches_and_pulls() {
    let limits = Limits { collectives_max: 8, direct_modex_max: 8, pulls_max: 8, ..Limits::default() };
    let mut rig = rig(limits);
    let fence_of = |own: ProcId, other: u32| fence(&[own, ProcId::new(namespace("nobodys"), other)], &[]);
    let bobs_peer = |n: u32| PeerId(u64::from(1 + n % 3));
    let opened = (0..8).filter(|&n| status(&rig.request(bobs_peer(n), fence_of(bobs(n % 3), n))).is_none());
    assert_eq!(opened.count(), 4, "one half");
    let opened = (0..8).filter(|&n| status(&rig.request(PeerId(11), fence_of(alices(0), n))).is_none());
    assert_eq!(opened.count(), 2, "one quarter");

    let fetched = (10..18).filter(|&n| status(&rig.request(PeerId(1), get(&bobs(n), Some("a"), &[]))).is_none());
    assert_eq!(fetched.count(), 4);
    assert_eq!(status(&rig.request(PeerId(11), get(&alices(10), Some("a"), &[]))), None);

    let mut pull = |peer, proc: ProcId| {
        let channels = iof_channel::FWD_STDOUT_CHANNEL;
        let pull = IofPull { procs: vec![proc], directives: Vec::new(), channels, local_id: None };
        let outputs = rig.request(PeerId(peer), Request::IofPull(pull));
        for (id, _) in upcalls(&outputs) {
            rig.complete(id, HostReply::Status(Status::SUCCESS));
        }
        status(&outputs)
    };
    assert_eq!((20..28).filter(|&n| pull(1, bobs(n)).is_none()).count(), 4);
    assert_eq!(pull(11, alices(20)), None);
}

/// Regression: the output of one user's job, which nobody pulled, filled all that the server keeps. Nothing of another
/// user's output was kept from then on.
#[test]
fn kept_output_of_the_user_with_most_gives_way() {
    let mut rig = rig(Limits { kept_output_bytes_max: 10_000, ..Limits::default() });
    let channel = iof_channel::FWD_STDOUT_CHANNEL;
    let keep = |rig: &mut Rig, source: ProcId, size: usize| {
        rig.host(HostCall::IofDeliver(Arc::new(IofOutput { source, channel, bytes: vec![7; size], info: Vec::new() })));
    };
    for piece in 0..100 {
        keep(&mut rig, bobs(piece % 3), 500);
    }
    keep(&mut rig, alices(0), 2_000);
    let mut kept_of = |peer, proc: ProcId| {
        let pull = IofPull { procs: vec![proc], directives: Vec::new(), channels: channel, local_id: None };
        let asked = upcalls(&rig.request(PeerId(peer), Request::IofPull(pull)));
        let [(id, _)] = asked.as_slice() else { panic!("{asked:?}") };
        let outputs = rig.complete(*id, HostReply::Status(Status::SUCCESS));
        let sizes = outputs.iter().map(|output| match output {
            Output::Forward(_, forwarded) => forwarded.output.bytes.len(),
            _ => 0,
        });
        sizes.sum::<usize>()
    };
    assert_eq!(kept_of(11, alices(0)), 2_000);
    let of_bob: usize = (0..3).map(|rank| kept_of(1, bobs(rank))).sum();
    assert!((3_000..8_000).contains(&of_bob), "{of_bob} bytes");
}

#[test]
fn the_memory_of_operations_and_held_gets_is_counted_in_bytes() {
    let limits = Limits { collective_bytes_max: 100_000, held_get_bytes_max: 100_000, ..Limits::default() };
    let mut rig = rig(limits);
    let directive = |bytes| [blob("x", bytes, InfoFlags::empty())];
    let other = |n| ProcId::new(namespace("nobodys"), n);
    let kept =
        (0..10).filter(|&n| status(&rig.request(PeerId(1), fence(&[bobs(0), other(n)], &directive(9_000)))).is_none());
    assert_eq!(kept.count(), 5);
    assert_eq!(status(&rig.request(PeerId(11), fence(&[alices(0), other(0)], &directive(9_000)))), None);
    rig.host(HostCall::DeregisterNamespace(namespace("nobodys")));

    let qualified = |bytes| [blob("q", bytes, InfoFlags::QUALIFIER)];
    let kept =
        (0..10).filter(|_| status(&rig.request(PeerId(2), get(&bobs(0), Some("a"), &qualified(9_000)))).is_none());
    assert_eq!(kept.count(), 5);
    assert_eq!(status(&rig.request(PeerId(11), get(&alices(0), Some("a"), &qualified(9_000)))), None);
    rig.lose(PeerId(2));
    assert_eq!(status(&rig.request(PeerId(1), get(&bobs(0), Some("a"), &qualified(9_000)))), None, "room again");
}

/// Groups had a bound on their number, and each on its members, but not all of them together. Each change went through
/// all groups.
#[test]
fn groups_and_their_members_are_counted_together() {
    let mut rig = rig(Limits { groups_max: 8, group_members_max: 1000, ..Limits::default() });
    let many = |own: ProcId| (100..250).map(bobs).chain([own]).collect::<Vec<_>>();
    let joined = (0..4)
        .filter(|n| status(&rig.request(PeerId(1), join(&format!("m{n}"), many(bobs(0))))) == Some(Status::SUCCESS));
    assert_eq!(joined.count(), 3, "151 members each, of 1000");
    let joined =
        (0..8).filter(|n| status(&rig.request(PeerId(2), join(&format!("g{n}"), [bobs(1)]))) == Some(Status::SUCCESS));
    assert_eq!(joined.count(), 1, "four groups of the user, of eight");
    assert_eq!(status(&rig.request(PeerId(11), join("a", [alices(0)]))), Some(Status::SUCCESS));
    let leave = Group {
        command: Command::GroupLeave.to_raw(),
        id: Some(Text::from("m0")),
        procs: Vec::new(),
        directives: Vec::new(),
    };
    assert_eq!(status(&rig.request(PeerId(1), Request::GroupOther(leave))), Some(Status::SUCCESS));
    assert_eq!(status(&rig.request(PeerId(1), join("m4", many(bobs(0))))), Some(Status::SUCCESS), "room again");
}

/// An invitation whose range names a job 60,000 times stored the job's processes 60,000 times, and took the server 0.3
/// s. An invitation to unknown processes stopped the server from helping the invitees of all other leaders.
#[test]
fn an_invitation_counts_each_process_once_and_spoils_no_other() {
    let mut rig = rig(Limits { participants_max: 1500, ..Limits::default() });
    let everybody = |name: &str| ProcId { namespace: namespace(name), rank: Rank::Wildcard };
    rig.request(PeerId(1), invite("g", vec![everybody("bobs"); 60_000]));
    rig.request(PeerId(2), invite("g", vec![everybody("nobodys")]));
    let wish = RegisterEvents { codes: vec![Status::GROUP_CONSTRUCT_ABORT], directives: Vec::new() };
    rig.request(PeerId(3), Request::RegisterEvents(wish));
    // The first leader concludes. A later acceptance gets an answer, although the second leader is unclear.
    let notify = |status, target: ProcId| {
        let info = vec![Info::new(key("pmix.evrange"), procs([target])), Info::new(key("pmix.grp.id"), "g")];
        Request::Notify(Notify { status, range: range::RANGE_CUSTOM, info })
    };
    rig.request(PeerId(1), notify(Status::GROUP_CONSTRUCT_COMPLETE, bobs(0)));
    let outputs = rig.request(PeerId(3), notify(Status::GROUP_INVITE_ACCEPTED, bobs(0)));
    assert!(outputs.iter().any(|output| matches!(output, Output::Notify(PeerId(3), _))), "{outputs:?}");
}

/// Events of one user displaced those of another from the cache before a process registered for them.
#[test]
fn events_of_one_user_push_out_none_of_another() {
    let mut rig = rig(Limits::default());
    rig.host(HostCall::RegisterClient(RegisterClient { proc: alices(1), uid: ALICE, gid: ALICE, object: 0 }));
    let code = Status::from_raw(-3001);
    let raised = Notify { status: code, range: range::RANGE_NAMESPACE, info: Vec::new() };
    rig.request(PeerId(11), Request::Notify(raised.clone()));
    for _ in 0..2000 {
        rig.request(PeerId(1), Request::Notify(raised.clone()));
    }
    connect(&mut rig, 12, &alices(1), ALICE);
    let wish = RegisterEvents { codes: vec![code], directives: Vec::new() };
    let outputs = rig.request(PeerId(12), Request::RegisterEvents(wish));
    assert!(outputs.iter().any(|output| matches!(output, Output::Notify(PeerId(12), _))), "{outputs:?}");
}

/// A leader had 4,096 open invitations. When sixteen leaders with 1,000 each ended, the server was busy for four
/// seconds: for each invitation it went through those of all ended leaders.
#[test]
fn a_leader_has_few_invitations_open_and_its_end_leaves_a_bounded_number_of_places() {
    let mut rig = rig(Limits::default());
    let held = |rig: &Rig, what: &str| rig.server.holdings().iter().find(|(name, _)| *name == what).unwrap().1;
    for number in 0..300 {
        rig.request(PeerId(1), invite(&format!("g{number}"), vec![bobs(1)]));
    }
    assert_eq!(held(&rig, "invitation"), 256);
    rig.lose(PeerId(1));
    assert_eq!((held(&rig, "invitation"), held(&rig, "invitation without a leader")), (0, 256));
}

/// A client's infos about one application went to the host unchanged: a host that reads them there took them for the
/// server's.
#[test]
fn the_server_says_who_asks_for_a_job_also_where_it_describes_programs() {
    use crate::proto::{Service, Spawn};
    use crate::server::Requester;
    use crate::types::App;
    let requester = Requester { proc: bobs(0), object: 0, uid: BOB, gid: BOB };
    let said = vec![
        Info::new(key("pmix.euid"), ALICE),
        Info::new(key("pmix.egid"), ALICE),
        Info::new(key("pmix.parent"), alices(0)),
        Info::new(key("kept"), 1_u32),
    ];
    let app = App {
        command: Some(Text::from("x")),
        argv: Vec::new(),
        environment: Vec::new(),
        working_directory: None,
        processes_max: 1,
        info: said,
    };
    let request = Service::from(Spawn::new(Vec::new(), vec![app])).of_peer(&requester, false).unwrap();
    let Service::Spawn(spawn) = request else { panic!("{request:?}") };
    assert_eq!(spawn.apps[0].info, [Info::new(key("kept"), 1_u32)]);
}
