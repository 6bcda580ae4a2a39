//! Operations on jobs that are registered here later, or have ended.

use std::collections::BTreeMap;

use super::harness::*;
use crate::proto::{Collective, Group, Reply, Request};
use crate::server::{Capabilities, HostCall, HostReply, Output, PeerId, Upcall, UpcallId};
use crate::types::{DataArray, DataType, Info, ProcId, Rank, Status, Text, Value};

const SUCCESS: Status = Status::SUCCESS;
const HOST: Capabilities = Capabilities::CONNECT.union(Capabilities::DISCONNECT).union(Capabilities::GROUP);
/// As the daemons of Open MPI do.
const LEARNS: Capabilities = HOST.union(Capabilities::REGISTERS_ON_CONNECT);

fn other(rank: u32) -> ProcId {
    ProcId::new(namespace("other"), rank)
}

/// Two processes of two jobs.
fn both() -> Vec<ProcId> {
    vec![proc(0), other(0)]
}

fn collective(directives: &[Info]) -> Collective {
    Collective { procs: both(), directives: directives.to_vec() }
}

fn group(directives: &[Info]) -> Group {
    Group { command: 24, id: Some(Text::from("g")), procs: both(), directives: directives.to_vec() }
}

/// Each kind of operation, over the two processes.
fn kinds(directives: &[Info]) -> BTreeMap<&'static str, Request> {
    BTreeMap::from([
        ("fence", fence(&both(), directives)),
        ("connect", Request::Connect(collective(directives))),
        ("disconnect", Request::Disconnect(collective(directives))),
        ("construct", Request::GroupConstruct(group(directives))),
        ("destruct", Request::GroupDestruct(group(directives))),
    ])
}

/// Registers the other job with one local process, and connects it.
fn other_comes(rig: &mut Rig) -> PeerId {
    assert_eq!(replies(&rig.register("other", Some(1), Some(1))), []);
    assert_eq!(replies(&rig.register_client(&other(0))), []);
    rig.join(&other(0), SOCKET)
}

fn other_goes(rig: &mut Rig) -> Vec<Output> {
    rig.host(HostCall::DeregisterNamespace(namespace("other")))
}

fn ended(outputs: &[Output]) -> Vec<(PeerId, Status)> {
    let status = |(peer, reply)| match reply {
        Reply::Status(status) | Reply::Partial { status, .. } => (peer, status),
        _ => (peer, SUCCESS),
    };
    replies(outputs).into_iter().map(status).collect()
}

/// Lets the host agree to all upcalls.
fn agreed(rig: &mut Rig, outputs: Vec<Output>) -> Vec<(PeerId, Status)> {
    let mut all = ended(&outputs);
    for (id, call) in upcalls(&outputs) {
        let reply = match call {
            Upcall::Group(_) => HostReply::Infos { status: SUCCESS, info: Vec::new() },
            _ => HostReply::Status(SUCCESS),
        };
        all.extend(ended(&rig.complete(id, reply)));
    }
    all
}

/// All kinds except fences counted an unknown job as remote. With a host, the first side had success without the
/// second, which then waited for ever; without a host it was refused.
#[test]
fn operations_of_all_kinds_wait_for_a_job_that_is_registered_later() {
    for capabilities in [Capabilities::empty(), HOST] {
        for (kind, request) in kinds(&[]) {
            let mut rig = Rig::new(capabilities);
            let here = rig.job(1, 1)[0];
            assert_eq!(rig.request(here, request.clone()), [], "{kind} does not wait");
            let there = other_comes(&mut rig);
            let outputs = rig.request(there, request);
            let expected = match kind {
                "disconnect" if capabilities.is_empty() => Status::ERR_INVALID_OPERATION,
                _ => SUCCESS,
            };
            assert_eq!(agreed(&mut rig, outputs), [(here, expected), (there, expected)], "{kind}");
            assert_eq!((rig.server.collective_count(), rig.server.upcall_count()), (0, 0), "{kind}");
        }
    }
}

/// A host that registers a job without local processes says so: then the job is remote, and the host is asked.
#[test]
fn a_job_that_is_registered_without_processes_here_is_elsewhere() {
    for (kind, request) in kinds(&[]) {
        let mut rig = Rig::new(HOST | Capabilities::FENCE);
        let here = rig.job(1, 1)[0];
        assert_eq!(rig.request(here, request), [], "{kind} does not wait");
        let (id, call) = upcall(&rig.register("other", Some(1), Some(0)));
        let reply = match call {
            Upcall::Fence(_) => fenced(Vec::new()),
            Upcall::Group(_) => HostReply::Infos { status: SUCCESS, info: Vec::new() },
            _ => HostReply::Status(SUCCESS),
        };
        assert_eq!(ended(&rig.complete(id, reply)), [(here, SUCCESS)], "{kind}");
    }
}

#[test]
fn one_that_is_deregistered_instead_ends_what_waits_for_it() {
    for (kind, request) in kinds(&[]) {
        let mut rig = Rig::new(HOST);
        let here = rig.job(1, 1)[0];
        assert_eq!(rig.request(here, request), [], "{kind} does not wait");
        assert_eq!(ended(&other_goes(&mut rig)), [(here, Status::ERR_NOT_FOUND)], "{kind}");
    }
}

#[test]
fn a_time_limit_ends_the_wait_for_one_that_never_comes() {
    for capabilities in [Capabilities::empty(), HOST, LEARNS] {
        for (kind, request) in kinds(&[timeout(1)]) {
            let mut rig = Rig::new(capabilities);
            let here = rig.job(1, 1)[0];
            assert_eq!(ended(&rig.request(here, request)), [], "{kind} does not wait");
            assert_eq!(ended(&rig.wait(1)), [(here, Status::ERR_TIMEOUT)], "{kind}");
            assert_eq!((rig.server.collective_count(), rig.server.upcall_count()), (0, 0), "{kind}");
        }
    }
}

/// No data comes of an ended job: new operations with it end at once, with the same status as open ones.
#[test]
fn nothing_begins_with_a_job_that_has_ended_here() {
    for capabilities in [Capabilities::empty(), HOST, LEARNS] {
        let requests = kinds(&[]);
        for kind in ["fence", "connect", "construct"] {
            let mut rig = Rig::new(capabilities);
            let here = rig.job(1, 1)[0];
            other_comes(&mut rig);
            other_goes(&mut rig);
            assert_eq!(ended(&rig.request(here, requests[kind].clone())), [(here, Status::ERR_NOT_FOUND)], "{kind}");
            // Until it is registered again.
            let there = other_comes(&mut rig);
            assert_eq!(rig.request(here, requests[kind].clone()), []);
            let outputs = rig.request(there, requests[kind].clone());
            assert_eq!(agreed(&mut rig, outputs), [(here, SUCCESS), (there, SUCCESS)], "{kind}");
        }
    }
}

/// The others could not disconnect, nor dissolve the group: they would wait for an ended job.
#[test]
fn connections_and_groups_end_without_a_job_that_has_ended() {
    let third = ProcId::new(namespace("third"), 0);
    let procs = [proc(0), other(0), third.clone()];
    for (begin, end) in [("connect", "disconnect"), ("construct", "destruct")] {
        for capabilities in [Capabilities::empty(), HOST] {
            let mut rig = Rig::new(capabilities);
            let here = rig.job(1, 1)[0];
            let there = other_comes(&mut rig);
            rig.register("third", Some(1), Some(1));
            rig.register_client(&third);
            let third = rig.join(&third, SOCKET);
            let widened = |kind: &str| match kinds(&[])[kind].clone() {
                Request::Connect(set) => Request::Connect(Collective { procs: procs.to_vec(), ..set }),
                Request::Disconnect(set) => Request::Disconnect(Collective { procs: procs.to_vec(), ..set }),
                Request::GroupConstruct(group) => Request::GroupConstruct(Group { procs: procs.to_vec(), ..group }),
                Request::GroupDestruct(group) => Request::GroupDestruct(Group { procs: procs.to_vec(), ..group }),
                other => other,
            };
            rig.request(here, widened(begin));
            rig.request(there, widened(begin));
            let outputs = rig.request(third, widened(begin));
            assert_eq!(agreed(&mut rig, outputs).len(), 3, "{begin}");
            other_goes(&mut rig);
            assert_eq!(rig.request(here, widened(end)), []);
            let outputs = rig.request(third, widened(end));
            assert_eq!(upcalls(&outputs).len(), usize::from(!capabilities.is_empty()), "only a host knows of others");
            assert_eq!(agreed(&mut rig, outputs), [(here, SUCCESS), (third, SUCCESS)], "{end}");
        }
    }
}

/// Leaders that knew only their number could name a process of a future job.
#[test]
fn leaders_who_find_each_other_wait_for_the_jobs_of_those_whom_they_add() {
    let added = DataArray { element_type: DataType::Proc, elements: vec![Value::from(other(0))] };
    let added = Info::new(key("pmix.grp.add"), Value::DataArray(Box::new(added)));
    let count = Info::new(key("pmix.grp.btstrp"), Value::Size(1));
    let lead = Group { procs: Vec::new(), ..group(&[count, added]) };
    let member = Request::GroupConstruct(Group { procs: Vec::new(), ..group(&[]) });
    let mut rig = Rig::new(Capabilities::empty());
    let [here, stranger] = rig.job(2, 2)[..] else { panic!("two come") };
    assert_eq!(rig.request(here, Request::GroupConstruct(lead.clone())), []);
    let there = other_comes(&mut rig);
    assert_eq!(ended(&rig.request(there, member.clone())), [(here, SUCCESS), (there, SUCCESS)]);
    other_goes(&mut rig);
    assert_eq!(rig.request(stranger, member), []);
    // For an ended job they get the status at once; an unnamed process gets its own status.
    let outputs = rig.request(here, Request::GroupConstruct(lead));
    assert_eq!(ended(&outputs), [(stranger, Status::ERR_NOT_A_MEMBER), (here, Status::ERR_NOT_FOUND)]);
}

/// A connect to another job, at a host that learns of that job from the request.
fn asked_ahead() -> (Rig, PeerId, UpcallId) {
    let mut rig = Rig::new(LEARNS);
    let here = rig.job(1, 1)[0];
    let (id, call) = upcall(&rig.request(here, kinds(&[])["connect"].clone()));
    assert!(matches!(call, Upcall::Connect(connect) if connect.procs == both() && connect.directives.is_empty()));
    (rig, here, id)
}

/// The daemons of Open MPI 4.1 know the job of another `mpirun` only after a connect request. Two jobs that met through
/// a name server waited for each other's registration for ever.
#[test]
fn a_host_that_registers_on_connect_is_asked_before_the_job_is_registered() {
    let (mut rig, here, id) = asked_ahead();
    assert_eq!(replies(&rig.register("other", Some(1), Some(0))), []);
    assert_eq!(ended(&rig.complete(id, HostReply::Status(SUCCESS))), [(here, SUCCESS)]);
}

/// Daemons that Open MPI 5 starts for a spawned job do not register older jobs, which have no process there.
#[test]
fn at_such_a_host_groups_and_disconnects_wait_a_while_for_jobs_that_may_be_elsewhere() {
    for (kind, request) in kinds(&[]).into_iter().filter(|(kind, _)| *kind != "connect") {
        let mut rig = Rig::new(LEARNS | Capabilities::FENCE);
        let here = rig.job(1, 1)[0];
        assert_eq!(rig.request(here, request.clone()), [], "{kind} does not wait");
        let outputs = rig.wait(1);
        if kind == "fence" {
            assert_eq!(outputs, [], "what it exchanges needs the job's size");
        } else {
            assert_eq!(agreed(&mut rig, outputs), [(here, SUCCESS)], "{kind}");
            assert_eq!((rig.server.collective_count(), rig.server.poll_timeout()), (0, None));
        }
        // An operation waits for a job that comes in time.
        let mut rig = Rig::new(LEARNS | Capabilities::FENCE);
        let here = rig.job(1, 1)[0];
        assert_eq!(rig.request(here, request.clone()), []);
        let there = other_comes(&mut rig);
        assert_eq!(rig.wait(5), []);
        let outputs = rig.request(there, request);
        assert_eq!(agreed(&mut rig, outputs), [(here, SUCCESS), (there, SUCCESS)], "{kind}");
    }
}

#[test]
fn an_early_answer_of_the_host_counts_once_all_local_processes_have_come() {
    for answers_first in [true, false] {
        let (mut rig, here, id) = asked_ahead();
        if answers_first {
            assert_eq!(rig.complete(id, HostReply::Status(SUCCESS)), []);
        }
        let there = other_comes(&mut rig);
        let mut outputs = rig.request(there, kinds(&[])["connect"].clone());
        assert_eq!(upcalls(&outputs), [], "it is asked once");
        if !answers_first {
            outputs.extend(rig.complete(id, HostReply::Status(SUCCESS)));
        }
        assert_eq!(ended(&outputs), [(here, SUCCESS), (there, SUCCESS)]);
        assert_eq!(rig.server.collective_count(), 0);
    }
}

/// Daemons that Open MPI 5 starts for a spawned job do not register older jobs when they connect them, because these
/// have no process there. Both jobs would wait for ever.
#[test]
fn of_a_job_that_is_not_registered_soon_after_the_answer_nobody_is_here() {
    let (mut rig, here, id) = asked_ahead();
    assert_eq!(rig.complete(id, HostReply::Status(SUCCESS)), []);
    assert_eq!(ended(&rig.wait(1)), [(here, SUCCESS)]);
    assert_eq!((rig.server.collective_count(), rig.server.poll_timeout()), (0, None));
    // It waits for processes that are known to be local.
    let mut rig = Rig::new(LEARNS);
    let here = rig.job(1, 1)[0];
    let procs = vec![proc(0), other(0), ProcId::new(namespace("third"), 0)];
    let connect = Request::Connect(Collective { procs, directives: Vec::new() });
    let (id, _) = upcall(&rig.request(here, connect.clone()));
    assert_eq!(rig.complete(id, HostReply::Status(SUCCESS)), []);
    let there = other_comes(&mut rig);
    assert_eq!(rig.wait(5), []);
    assert_eq!(ended(&rig.request(there, connect)), [(here, SUCCESS), (there, SUCCESS)]);
}

/// The host was asked before the process ended.
#[test]
fn one_that_dies_after_the_host_was_asked_ahead_is_missing_whatever_the_host_says() {
    for answers_first in [true, false] {
        let (mut rig, here, id) = asked_ahead();
        if answers_first {
            assert_eq!(rig.complete(id, HostReply::Status(SUCCESS)), []);
        }
        let there = other_comes(&mut rig);
        let mut outputs = rig.lose(there);
        if !answers_first {
            outputs.extend(rig.complete(id, HostReply::Status(SUCCESS)));
        }
        assert_eq!(ended(&outputs), [(here, Status::ERR_PARTIAL_SUCCESS)]);
    }
}

#[test]
fn a_refusal_ends_it_at_once_and_so_does_the_end_of_a_job() {
    let (mut rig, here, id) = asked_ahead();
    let outputs = rig.complete(id, HostReply::Status(Status::ERR_NOT_SUPPORTED));
    assert_eq!(ended(&outputs), [(here, Status::ERR_NOT_SUPPORTED)]);
    let (mut rig, here, id) = asked_ahead();
    assert_eq!(ended(&other_goes(&mut rig)), [(here, Status::ERR_NOT_FOUND)]);
    assert_eq!(rig.complete(id, HostReply::Status(SUCCESS)), []);
    let (mut rig, here, id) = asked_ahead();
    assert_eq!(rig.complete(id, HostReply::Status(SUCCESS)), []);
    let outputs = rig.host(HostCall::DeregisterNamespace(namespace("job")));
    assert_eq!(ended(&outputs), [(here, Status::ERR_NOT_FOUND)]);
}

/// Operations of one signature end in order, and each has its upcall.
#[test]
fn the_next_one_of_that_set_goes_ahead_too_and_ends_after_it() {
    let (mut rig, here, first) = asked_ahead();
    let connect = kinds(&[])["connect"].clone();
    let (second, _) = upcall(&rig.request(here, connect.clone()));
    assert_eq!(rig.complete(second, HostReply::Status(SUCCESS)), []);
    let there = other_comes(&mut rig);
    assert_eq!(rig.request(there, connect.clone()), []);
    assert_eq!(ended(&rig.complete(first, HostReply::Status(SUCCESS))), [(here, SUCCESS), (there, SUCCESS)]);
    assert_eq!(ended(&rig.request(there, connect)), [(here, SUCCESS), (there, SUCCESS)]);
}

/// The host is asked after all processes of known jobs have arrived or ended.
#[test]
fn it_is_not_asked_before_all_who_are_known_have_come() {
    let mut rig = Rig::new(LEARNS);
    let peers = rig.job(2, 2);
    let procs = vec![everybody(), ProcId::new(namespace("other"), Rank::Wildcard)];
    let connect = Request::Connect(Collective { procs, directives: Vec::new() });
    assert_eq!(rig.request(peers[0], connect), []);
    let (id, Upcall::Connect(connect)) = upcall(&rig.lose(peers[1])) else { panic!("not a connect") };
    let status = Value::Status(Status::ERR_PARTIAL_SUCCESS.to_raw());
    assert_eq!(connect.directives, [Info::new(key("pmix.loc.col.st"), status)]);
    // It does not end before all jobs are here, although the host knows that a process is missing.
    assert_eq!(replies(&rig.complete(id, HostReply::Status(Status::ERR_PARTIAL_SUCCESS))), []);
}
