//! Forwarded output.

use super::harness::*;
use crate::gds::model::MapStore;
use crate::proto::{IofDeregister, IofPull, Reply, Request};
use crate::server::{
    Capabilities, Delivery, Forwarded, HostCall, HostCallId, HostReply, HostResult, IofOutput, Limits, Output, PeerId,
    ServerConfig, Upcall, UpcallId,
};
use crate::types::{ProcId, Status};

const STDIN: u16 = 1;
const STDOUT: u16 = 2;
const STDERR: u16 = 4;

fn pull(procs: &[ProcId], channels: u16, local_id: u64) -> Request {
    Request::IofPull(IofPull { procs: procs.to_vec(), directives: Vec::new(), channels, local_id: Some(local_id) })
}

fn deliver(rig: &mut Rig, source: &ProcId, channel: u16, text: &str) -> (Vec<(PeerId, u64, String)>, Status) {
    let output = IofOutput { source: source.clone(), channel, bytes: text.as_bytes().to_vec(), info: Vec::new() };
    let outputs = rig.host(HostCall::IofDeliver(output));
    let status = outputs.iter().find_map(|output| match output {
        Output::Complete(_, HostResult::Status(status)) => Some(*status),
        _ => None,
    });
    (forwarded(&outputs), status.unwrap())
}

/// Receiver, its own number, and the text.
fn forwarded(outputs: &[Output]) -> Vec<(PeerId, u64, String)> {
    let text = |forwarded: &Forwarded| String::from_utf8(forwarded.notification().bytes).unwrap();
    let forward = |output: &Output| match output {
        Output::Forward(peer, output) => Some((*peer, output.reference, text(output))),
        _ => None,
    };
    outputs.iter().filter_map(forward).collect()
}

fn granted(rig: &mut Rig, id: UpcallId) -> Vec<Output> {
    rig.complete(id, HostReply::Status(Status::SUCCESS))
}

fn to(peer: PeerId, id: u64, text: &str) -> (PeerId, u64, String) {
    (peer, id, text.to_owned())
}

#[test]
fn output_goes_to_whom_the_host_allowed_it() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    let peers = rig.job(2, 2);
    let (id, call) = upcall(&rig.request(peers[0], pull(&[everybody()], STDOUT | STDERR, 7)));
    assert!(
        matches!(call, Upcall::IofPull(_, pull) if pull.channels == STDOUT | STDERR && pull.procs == [everybody()])
    );
    assert_eq!(replies(&granted(&mut rig, id)), [(peers[0], Reply::IofPulled(1))]);
    assert_eq!(deliver(&mut rig, &proc(1), STDOUT, "hi"), (vec![to(peers[0], 7, "hi")], Status::SUCCESS));
    assert_eq!(deliver(&mut rig, &proc(1), STDERR, ""), (vec![to(peers[0], 7, "")], Status::SUCCESS));
    // Not requested: another channel, another job.
    assert_eq!(deliver(&mut rig, &proc(1), 8, "diag").0, []);
    assert_eq!(deliver(&mut rig, &ProcId::new(namespace("else"), 1), STDOUT, "no").0, []);
}

#[test]
fn what_is_forwarded_already_needs_no_second_permission() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    let peers = rig.job(2, 2);
    let (id, _) = upcall(&rig.request(peers[0], pull(&[everybody()], STDOUT, 1)));
    granted(&mut rig, id);
    let outputs = rig.request(peers[1], pull(&[proc(0), proc(1)], STDOUT, 2));
    assert_eq!(replies(&outputs), [(peers[1], Reply::IofPulled(2))]);
    assert_eq!(deliver(&mut rig, &proc(0), STDOUT, "x").0, [to(peers[0], 1, "x"), to(peers[1], 2, "x")]);
    // One more channel is a new request.
    assert_eq!(upcalls(&rig.request(peers[1], pull(&[proc(0)], STDOUT | STDERR, 3))).len(), 1);
}

#[test]
fn a_refused_pull_brings_nothing() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    let peer = rig.job(1, 1)[0];
    let (id, _) = upcall(&rig.request(peer, pull(&[everybody()], STDOUT, 1)));
    let outputs = rig.complete(id, HostReply::Status(Status::ERR_NO_PERMISSIONS));
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_NO_PERMISSIONS)]);
    assert_eq!(deliver(&mut rig, &proc(0), STDOUT, "x"), (vec![], Status::SUCCESS));
}

#[test]
fn a_pull_must_make_sense() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    let peer = rig.job(1, 1)[0];
    let cases = [
        (pull(&[everybody()], STDIN | STDOUT, 1), Status::ERR_NOT_SUPPORTED),
        (pull(&[everybody()], 0, 1), Status::ERR_BAD_PARAM),
        (pull(&[], STDOUT, 1), Status::ERR_BAD_PARAM),
    ];
    for (request, expected) in cases {
        assert_eq!(statuses(&rig.request(peer, request)), [(peer, expected)]);
    }
    for channel in [0, STDIN, STDOUT | STDERR, 16] {
        assert_eq!(deliver(&mut rig, &proc(0), channel, "x").1, Status::ERR_BAD_PARAM, "{channel}");
    }
}

#[test]
fn output_nobody_wants_yet_waits_for_the_first_who_does() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    let peers = rig.job(2, 2);
    for text in ["one", "two"] {
        assert_eq!(deliver(&mut rig, &proc(0), STDOUT, text), (vec![], Status::SUCCESS));
    }
    deliver(&mut rig, &proc(1), STDOUT, "another's");
    let (id, _) = upcall(&rig.request(peers[0], pull(&[proc(0)], STDOUT, 4)));
    let outputs = granted(&mut rig, id);
    assert!(matches!(outputs[0], Output::Answer(..)), "the answer to the pull comes first");
    assert_eq!(forwarded(&outputs), [to(peers[0], 4, "one"), to(peers[0], 4, "two")]);
    let (id, _) = upcall(&rig.request(peers[1], pull(&[everybody()], STDOUT, 5)));
    assert_eq!(forwarded(&granted(&mut rig, id)), [to(peers[1], 5, "another's")]);
}

#[test]
fn what_is_kept_is_bounded_and_goes_with_its_job() {
    let limits = Limits { kept_output_bytes_max: 1000, ..Limits::default() };
    let config = ServerConfig { capabilities: Capabilities::IOF_PULL, limits, ..ServerConfig::default() };
    let mut rig = Rig::with(config, MapStore::new());
    rig.job(1, 1);
    let large = |letter: &str| letter.repeat(700);
    for letter in ["a", "b"] {
        assert_eq!(deliver(&mut rig, &proc(0), STDOUT, &large(letter)).1, Status::SUCCESS);
    }
    rig.host(HostCall::DeregisterNamespace(namespace("job")));
    let peer = rig.job(1, 1)[0];
    for letter in ["c", "d"] {
        assert_eq!(deliver(&mut rig, &proc(0), STDOUT, &large(letter)).1, Status::SUCCESS);
    }
    let (id, _) = upcall(&rig.request(peer, pull(&[everybody()], STDOUT, 1)));
    let kept = [to(peer, 1, &large("c"))];
    assert_eq!(forwarded(&granted(&mut rig, id)), kept, "neither what is too much nor the job's before");
    assert_eq!(deliver(&mut rig, &proc(0), STDOUT, &large("e")).0, [to(peer, 1, &large("e"))], "wanted: no bound");
}

#[test]
fn a_pull_ends_when_its_owner_ends_it() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    let peers = rig.job(2, 2);
    let (id, _) = upcall(&rig.request(peers[0], pull(&[everybody()], STDOUT, 1)));
    granted(&mut rig, id);
    let end = |reference| Request::IofDeregister(IofDeregister { directives: Vec::new(), reference });
    assert_eq!(statuses(&rig.request(peers[1], end(1))), [(peers[1], Status::ERR_NOT_FOUND)], "another's");
    assert_eq!(statuses(&rig.request(peers[0], end(1))), [(peers[0], Status::SUCCESS)]);
    assert_eq!(statuses(&rig.request(peers[0], end(1))), [(peers[0], Status::ERR_NOT_FOUND)]);
    assert_eq!(deliver(&mut rig, &proc(0), STDOUT, "x").0, []);
}

/// The host got a notice of new pulls, but not of the end of the last one, so it forwarded for ever.
#[test]
fn the_host_hears_when_nobody_wants_output_any_more() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    let peers = rig.job(3, 3);
    let (id, _) = upcall(&rig.request(peers[0], pull(&[proc(0), proc(2)], STDOUT | STDERR, 1)));
    granted(&mut rig, id);
    let (id, _) = upcall(&rig.request(peers[1], pull(&[everybody()], STDOUT, 2)));
    granted(&mut rig, id);
    let end = |reference| Request::IofDeregister(IofDeregister { directives: Vec::new(), reference });
    assert_eq!(upcalls(&rig.request(peers[0], end(1))), [], "still wanted by another");
    let (id, call) = upcall(&rig.lose(peers[1]));
    let Upcall::IofPull(requester, stop) = call else { panic!("{call:?}") };
    assert_eq!((stop.procs, stop.channels, requester.proc), (vec![everybody()], STDOUT, proc(1)));
    assert_eq!(stop.directives[0], flag("pmix.iof.stop"));
    // Its answer has no effect.
    assert_eq!(rig.complete(id, HostReply::Status(Status::ERR_NOT_SUPPORTED)), []);
    let (id, _) = upcall(&rig.request(peers[0], pull(&[proc(1)], STDOUT, 3)));
    granted(&mut rig, id);
    assert_eq!(upcalls(&rig.request(peers[0], Request::Finalize)).len(), 1);
}

#[test]
fn one_who_has_left_gets_nothing_more() {
    for leave in [Request::Finalize, get(&proc(0), Some("a"), &[])] {
        let mut rig = Rig::new(Capabilities::IOF_PULL);
        let peer = rig.job(1, 1)[0];
        let (id, _) = upcall(&rig.request(peer, pull(&[everybody()], STDOUT, 1)));
        granted(&mut rig, id);
        let is_finalize = leave == Request::Finalize;
        rig.request(peer, leave);
        if !is_finalize {
            rig.lose(peer);
        }
        assert_eq!(deliver(&mut rig, &proc(0), STDOUT, "x").0, []);
    }
}

#[test]
fn pulls_are_bounded() {
    let limits = Limits { pulls_max: 1, ..Limits::default() };
    let config = ServerConfig { capabilities: Capabilities::IOF_PULL, limits, ..ServerConfig::default() };
    let mut rig = Rig::with(config, MapStore::new());
    let peer = rig.job(1, 1)[0];
    let (id, _) = upcall(&rig.request(peer, pull(&[everybody()], STDOUT, 1)));
    granted(&mut rig, id);
    let outputs = rig.request(peer, pull(&[everybody()], STDOUT, 2));
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_OUT_OF_RESOURCE)]);
}

/// Each pull had a copy of each piece before any queue counted them.
#[test]
fn all_who_want_a_piece_of_output_share_it() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    let peer = rig.job(1, 1)[0];
    let (id, _) = upcall(&rig.request(peer, pull(&[everybody()], STDOUT, 1)));
    granted(&mut rig, id);
    rig.request(peer, pull(&[everybody()], STDOUT, 2));
    let output = IofOutput { source: proc(0), channel: STDOUT, bytes: b"x".to_vec(), info: Vec::new() };
    let outputs = rig.host(HostCall::IofDeliver(output));
    let [Output::Forward(_, first), Output::Forward(_, second), _] = outputs.as_slice() else { panic!("{outputs:?}") };
    assert!(std::sync::Arc::ptr_eq(&first.output, &second.output));
    assert_eq!((first.reference, second.reference), (1, 2));
}

#[test]
fn one_process_has_a_share_of_the_pulls() {
    let limits = Limits { pulls_per_process_max: 1, ..Limits::default() };
    let config = ServerConfig { capabilities: Capabilities::IOF_PULL, limits, ..ServerConfig::default() };
    let mut rig = Rig::with(config, MapStore::new());
    let peers = rig.job(2, 2);
    // Both pulls are at the host when the first is granted.
    let [(id, _), (late, _)] = [1, 2].map(|number| upcall(&rig.request(peers[0], pull(&[proc(0)], STDOUT, number))));
    assert_eq!(replies(&granted(&mut rig, id)), [(peers[0], Reply::IofPulled(1))]);
    let refused = [(peers[0], Status::ERR_OUT_OF_RESOURCE)];
    assert_eq!(statuses(&granted(&mut rig, late)), refused);
    assert_eq!(statuses(&rig.request(peers[0], pull(&[proc(0)], STDOUT, 3))), refused);
    let outputs = rig.request(peers[1], pull(&[proc(0)], STDOUT, 4));
    assert_eq!(replies(&outputs), [(peers[1], Reply::IofPulled(2))], "another has its own share");
}

/// For a list of more than 64 processes the host got no notice while any pull of their job was left.
#[test]
fn the_host_hears_of_each_process_that_nobody_wants_any_more_in_lists_of_any_length() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    let peers = rig.job(2, 2);
    let many: Vec<ProcId> = (0..100).map(proc).collect();
    for (peer, procs) in [(peers[0], many.as_slice()), (peers[1], &[proc(99)])] {
        if let [(id, _)] = upcalls(&rig.request(peer, pull(procs, STDOUT, 1))).as_slice() {
            granted(&mut rig, *id);
        }
    }
    let (_, call) = upcall(&rig.lose(peers[0]));
    let Upcall::IofPull(_, stop) = call else { panic!("{call:?}") };
    assert_eq!(stop.procs, many[..99]);
}

/// Offers output. Returns the receivers and the fate.
fn offer(rig: &mut Rig, source: &ProcId, text: &str) -> (Vec<(PeerId, u64, String)>, Delivery) {
    let output =
        IofOutput { source: source.clone(), channel: STDOUT, bytes: text.as_bytes().to_vec(), info: Vec::new() };
    let outputs = rig.host(HostCall::IofOffer(output));
    let delivery = outputs.iter().find_map(|output| match output {
        Output::Complete(_, HostResult::Status(status)) => Delivery::of(*status),
        _ => None,
    });
    (forwarded(&outputs), delivery.unwrap())
}

fn pull_with(directive: &'static str, local_id: u64) -> Request {
    let directives = vec![flag(directive)];
    Request::IofPull(IofPull { procs: vec![everybody()], directives, channels: STDOUT, local_id: Some(local_id) })
}

#[test]
fn offered_output_is_not_kept_and_the_host_hears_who_gets_it() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    let peers = rig.job(2, 2);
    assert_eq!(offer(&mut rig, &proc(0), "before"), (vec![], Delivery::Unwanted));
    let (id, _) = upcall(&rig.request(peers[0], pull(&[everybody()], STDOUT, 1)));
    assert_eq!(forwarded(&granted(&mut rig, id)), []);
    assert_eq!(offer(&mut rig, &proc(0), "a"), (vec![to(peers[0], 1, "a")], Delivery::Copied));
    let (id, call) = upcall(&rig.request(peers[1], pull_with("pmix.iof.redir", 2)));
    assert!(matches!(call, Upcall::IofPull(_, pull) if pull.directives[0] == flag("pmix.iof.redir")));
    granted(&mut rig, id);
    let both = vec![to(peers[0], 1, "b"), to(peers[1], 2, "b")];
    assert_eq!(offer(&mut rig, &proc(0), "b"), (both, Delivery::Redirected));
    rig.lose(peers[1]);
    assert_eq!(offer(&mut rig, &proc(0), "c"), (vec![to(peers[0], 1, "c")], Delivery::Copied), "restored");
    let output = IofOutput { source: proc(0), channel: STDIN, bytes: Vec::new(), info: Vec::new() };
    let refused = Output::Complete(HostCallId(0), HostResult::Status(Status::ERR_BAD_PARAM));
    let is_refusal =
        |output: &Output| matches!((output, &refused), (Output::Complete(_, a), Output::Complete(_, b)) if a == b);
    assert!(rig.host(HostCall::IofOffer(output)).iter().any(is_refusal));
}

/// A required directive was ignored if the same output was forwarded already.
#[test]
fn a_pull_with_a_choice_or_a_requirement_always_asks_the_host() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    let peers = rig.job(2, 2);
    let (id, _) = upcall(&rig.request(peers[0], pull(&[everybody()], STDOUT, 1)));
    granted(&mut rig, id);
    for (number, directive) in [(2, "pmix.iof.cpy"), (3, "pmix.iof.redir")] {
        let (id, _) = upcall(&rig.request(peers[1], pull_with(directive, number)));
        let outputs = rig.complete(id, HostReply::Status(Status::ERR_NOT_SUPPORTED));
        assert_eq!(statuses(&outputs), [(peers[1], Status::ERR_NOT_SUPPORTED)]);
    }
    let required = crate::types::Info { flags: crate::types::InfoFlags::REQUIRED.bits(), ..flag("pmix.iof.xml") };
    let request = IofPull { procs: vec![everybody()], directives: vec![required], channels: STDOUT, local_id: Some(4) };
    assert_eq!(upcalls(&rig.request(peers[1], Request::IofPull(request))).len(), 1);
}

#[test]
fn the_host_hears_whether_output_is_kept() {
    let limits = Limits { kept_output_bytes_max: 1000, ..Limits::default() };
    let config = ServerConfig { capabilities: Capabilities::IOF_PULL, limits, ..ServerConfig::default() };
    let mut rig = Rig::with(config, MapStore::new());
    let peer = rig.job(1, 1)[0];
    let keep = |rig: &mut Rig| {
        let output = IofOutput { source: proc(0), channel: STDOUT, bytes: vec![b'a'; 700], info: Vec::new() };
        let outputs = rig.host(HostCall::IofOfferOrKeep(output));
        let fate = outputs.iter().find_map(|output| match output {
            Output::Complete(_, HostResult::Status(status)) => Delivery::of(*status),
            _ => None,
        });
        fate.unwrap()
    };
    assert_eq!([keep(&mut rig), keep(&mut rig)], [Delivery::Kept, Delivery::Unwanted]);
    let (id, _) = upcall(&rig.request(peer, pull(&[everybody()], STDOUT, 1)));
    assert_eq!(forwarded(&granted(&mut rig, id)).len(), 1);
    assert_eq!(keep(&mut rig), Delivery::Copied);
}

#[test]
fn each_process_of_a_pull_counts_once_and_no_client_stops_forwarding() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    let peer = rig.job(2, 2)[0];
    let procs = [proc(1), proc(0), proc(1), proc(1)];
    let (_, call) = upcall(&rig.request(peer, pull(&procs, STDOUT, 1)));
    assert!(matches!(call, Upcall::IofPull(_, pull) if pull.procs == [proc(0), proc(1)]));
    let directives = vec![flag("pmix.iof.stop")];
    let stop = IofPull { procs: vec![proc(1)], directives, channels: STDOUT, local_id: Some(2) };
    let outputs = rig.request(peer, Request::IofPull(stop));
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_NOT_SUPPORTED)]);
}
