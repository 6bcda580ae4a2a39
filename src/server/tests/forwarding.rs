//! Forwarded output.

use std::sync::Arc;

use super::harness::*;
use super::tools;
use crate::gds::model::MapStore;
use crate::proto::{IofDeregister, IofPull, Reply, Request};
use crate::server::{
    Capabilities, Delivery, Forwarded, HostCall, HostCallId, HostReply, HostResult, Input, IofOutput, Limits, Output,
    OutputSettings, PeerId, Requester, ServerConfig, ToolAdmission, Upcall, UpcallId,
};
use crate::types::{Info, ProcId, Status};

const STDIN: u16 = 1;
const STDOUT: u16 = 2;
const STDERR: u16 = 4;
const STDDIAG: u16 = 8;

fn pull(procs: &[ProcId], channels: u16, local_id: u64) -> Request {
    Request::IofPull(IofPull { procs: procs.to_vec(), directives: Vec::new(), channels, local_id: Some(local_id) })
}

fn deliver(rig: &mut Rig, source: &ProcId, channel: u16, text: &str) -> (Vec<(PeerId, u64, String)>, Status) {
    let output = IofOutput { source: source.clone(), channel, bytes: text.as_bytes().to_vec(), info: Vec::new() };
    let outputs = rig.host(HostCall::IofDeliver(Arc::new(output)));
    let status = outputs.iter().find_map(|output| match output {
        Output::Complete(_, HostResult::Status(status)) => Some(*status),
        _ => None,
    });
    (forwarded(&outputs), status.unwrap())
}

/// Receiver, its own number, and the text.
fn forwarded(outputs: &[Output]) -> Vec<(PeerId, u64, String)> {
    let text = |forwarded: &Forwarded| String::from_utf8(forwarded.output.bytes.clone()).unwrap();
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

/// Resource managers write their own words about a process there.
#[test]
fn diagnostics_are_a_channel_of_their_own() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    let peers = rig.job(2, 2);
    for (peer, channel) in [(peers[0], STDDIAG), (peers[1], STDERR)] {
        let (id, call) = upcall(&rig.request(peer, pull(&[everybody()], channel, 7)));
        assert!(matches!(call, Upcall::IofPull(_, pull) if pull.channels == channel));
        granted(&mut rig, id);
    }
    assert_eq!(deliver(&mut rig, &proc(1), STDDIAG, "diag").0, [to(peers[0], 7, "diag")]);
    assert_eq!(deliver(&mut rig, &proc(1), STDERR, "err").0, [to(peers[1], 7, "err")]);
}

#[test]
fn a_channel_forwarded_already_needs_no_second_permission() {
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
fn kept_output_is_bounded_and_goes_with_its_job() {
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
    let outputs = rig.host(HostCall::IofDeliver(Arc::new(output)));
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
    let (id, _) = upcall(&rig.request(peers[0], pull(&[proc(0)], STDOUT, 1)));
    let refused = [(peers[0], Status::ERR_OUT_OF_RESOURCE)];
    assert_eq!(statuses(&rig.request(peers[0], pull(&[proc(0)], STDERR, 2))), refused, "the first waits for the host");
    assert_eq!(replies(&granted(&mut rig, id)), [(peers[0], Reply::IofPulled(1))]);
    assert_eq!(statuses(&rig.request(peers[0], pull(&[proc(0)], STDOUT, 3))), refused);
    let outputs = rig.request(peers[1], pull(&[proc(0)], STDOUT, 4));
    assert_eq!(replies(&outputs), [(peers[1], Reply::IofPulled(2))], "another has its own share");
}

/// Only granted pulls counted. Each pull that waited for the host took memory for all of its processes.
#[test]
fn pulls_that_wait_for_the_host_count() {
    for (pulls_max, participants_max) in [(4, 1000), (100, 16)] {
        let limits = Limits { pulls_max, participants_max, ..Limits::default() };
        let config = ServerConfig { capabilities: Capabilities::IOF_PULL, limits, ..ServerConfig::default() };
        let mut rig = Rig::with(config, MapStore::new());
        let peer = rig.job(4, 1)[0];
        let procs: Vec<ProcId> = (0..4).map(proc).collect();
        // The first asks, and the second follows it.
        let (id, _) = upcall(&rig.request(peer, pull(&procs, STDOUT, 1)));
        assert_eq!(rig.request(peer, pull(&procs, STDOUT, 2)), []);
        for channels in [STDOUT, STDERR] {
            let outputs = rig.request(peer, pull(&procs, channels, 3));
            assert_eq!(statuses(&outputs), [(peer, Status::ERR_OUT_OF_RESOURCE)]);
        }
        assert_eq!(replies(&granted(&mut rig, id)).len(), 2);
    }
}

/// The host that granted a pull after the deadline forwarded for ever. The next pull had no time left.
#[test]
fn a_pull_without_an_answer_stops_and_the_next_has_the_whole_time() {
    let config = ServerConfig {
        capabilities: Capabilities::IOF_PULL,
        host_timeout: Some(std::time::Duration::from_secs(5)),
        ..ServerConfig::default()
    };
    let mut rig = Rig::with(config, MapStore::new());
    let peers = rig.job(2, 2);
    upcall(&rig.request(peers[0], pull(&[everybody()], STDOUT, 1)));
    rig.wait(1);
    assert_eq!(rig.request(peers[1], pull(&[everybody()], STDOUT, 2)), []);
    let outputs = rig.wait(4);
    assert_eq!(statuses(&outputs), [(peers[0], Status::ERR_TIMEOUT)]);
    let (_, second) = upcall(&outputs);
    assert!(
        matches!(second, Upcall::IofPull(_, pull) if pull.directives.iter().all(|info| *info != flag("pmix.iof.stop")))
    );
    assert_eq!(rig.wait(4), []);
    let outputs = rig.wait(1);
    assert_eq!(statuses(&outputs), [(peers[1], Status::ERR_TIMEOUT)]);
    let (_, stop) = upcall(&outputs);
    assert!(matches!(stop, Upcall::IofPull(_, stop) if stop.directives[0] == flag("pmix.iof.stop")));
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
    let outputs = rig.host(HostCall::IofOffer(Arc::new(output)));
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
    assert!(rig.host(HostCall::IofOffer(Arc::new(output))).iter().any(is_refusal));
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
    let keep = |rig: &mut Rig| offer_or_keep(rig, &proc(0), &[b'a'; 700]);
    assert_eq!([keep(&mut rig), keep(&mut rig)], [Delivery::Kept, Delivery::Unwanted]);
    let (id, _) = upcall(&rig.request(peer, pull(&[everybody()], STDOUT, 1)));
    assert_eq!(forwarded(&granted(&mut rig, id)).len(), 1);
    assert_eq!(keep(&mut rig), Delivery::Copied);
}

fn offer_or_keep(rig: &mut Rig, source: &ProcId, bytes: &[u8]) -> Delivery {
    let output = IofOutput { source: source.clone(), channel: STDOUT, bytes: bytes.to_vec(), info: Vec::new() };
    let outputs = rig.host(HostCall::IofOfferOrKeep(Arc::new(output)));
    let fate = outputs.iter().find_map(|output| match output {
        Output::Complete(_, HostResult::Status(status)) => Delivery::of(*status),
        _ => None,
    });
    fate.unwrap()
}

/// The launcher did not show output that it believed kept.
#[test]
fn the_host_hears_of_output_that_the_settings_drop() {
    let mut rig = Rig::with(with_defaults(&[size("pmix.iof.csize", 2)]), MapStore::new());
    rig.job(1, 1);
    let fates = [b"abc".as_slice(), b"d", b""].map(|bytes| offer_or_keep(&mut rig, &proc(0), bytes));
    assert_eq!(fates, [Delivery::Kept, Delivery::Unwanted, Delivery::Kept], "the end is always kept");
}

/// Older output of a channel made room for a piece that did not fit beside the other channels.
#[test]
fn a_piece_that_does_not_fit_drops_nothing() {
    let limits = Limits { kept_output_bytes_max: 1000, ..Limits::default() };
    let directives = [size("pmix.iof.csize", 600), flag("pmix.iof.old")];
    let mut rig = Rig::with(ServerConfig { limits, ..with_defaults(&directives) }, MapStore::new());
    let peer = rig.job(2, 1)[0];
    let large = "x".repeat(600);
    for (source, text) in [(proc(0), "old"), (proc(1), &large), (proc(0), &large)] {
        deliver(&mut rig, &source, STDOUT, text);
    }
    let (id, _) = upcall(&rig.request(peer, pull(&[proc(0)], STDOUT, 1)));
    assert_eq!(texts(&granted(&mut rig, id)), "old");
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

fn size(key: &'static str, size: u32) -> Info {
    Info::new(crate::types::Key::from_static(key), size)
}

/// A pull of all standard output, with directives.
fn pull_as(directives: Vec<Info>, local_id: u64) -> Request {
    Request::IofPull(IofPull { procs: vec![everybody()], directives, channels: STDOUT, local_id: Some(local_id) })
}

fn texts(outputs: &[Output]) -> String {
    forwarded(outputs).into_iter().map(|(_, _, text)| text).collect::<Vec<_>>().join("|")
}

fn with_defaults(directives: &[Info]) -> ServerConfig {
    let output = OutputSettings::of(directives).unwrap();
    ServerConfig { capabilities: Capabilities::IOF_PULL | Capabilities::SPAWN, output, ..ServerConfig::default() }
}

#[test]
fn each_channel_keeps_as_many_bytes_as_was_asked() {
    for (directives, expected) in [
        (vec![size("pmix.iof.csize", 5)], "abcde"),
        (vec![size("pmix.iof.csize", 5), flag("pmix.iof.new")], "abcde"),
        (vec![size("pmix.iof.csize", 5), flag("pmix.iof.old")], "defgh"),
        (vec![size("pmix.iof.csize", 0)], ""),
        (vec![flag("pmix.iof.old")], "abc|def|gh"),
    ] {
        let mut rig = Rig::with(with_defaults(&directives), MapStore::new());
        let peers = rig.job(2, 2);
        for text in ["abc", "def", "gh"] {
            assert_eq!(deliver(&mut rig, &proc(0), STDOUT, text), (vec![], Status::SUCCESS));
        }
        deliver(&mut rig, &proc(1), STDERR, "other");
        let (id, _) = upcall(&rig.request(peers[0], pull(&[everybody()], STDOUT, 1)));
        assert_eq!(texts(&granted(&mut rig, id)), expected, "{directives:?}");
        let kept = expected.len().min(5);
        let (id, _) = upcall(&rig.request(peers[0], pull(&[everybody()], STDERR, 2)));
        assert_eq!(texts(&granted(&mut rig, id)).len(), kept, "another channel has its own room");
    }
}

#[test]
fn a_spawns_directives_precede_the_servers_and_a_pulls_those_of_both() {
    let mut rig = Rig::with(with_defaults(&[size("pmix.iof.csize", 8)]), MapStore::new());
    let peer = rig.job(1, 1)[0];
    let required = Info { flags: 1, ..size("pmix.iof.csize", 4) };
    let spawn = crate::proto::Spawn::new(vec![required, flag("pmix.iof.old"), flag("pmix.fwd.stdout")], Vec::new());
    let (id, call) = upcall(&rig.request(peer, Request::from(spawn)));
    let Upcall::Service(_, crate::proto::Service::Spawn(spawn)) = call else { panic!("{call:?}") };
    assert!(spawn.job.iter().all(|info| info.flags == 0), "the server honours it");
    rig.complete(id, HostReply::Spawned(namespace("child")));
    let child = |rank| ProcId::new(namespace("child"), rank);
    let of = |name: &str, rank| ProcId::new(namespace(name), rank);
    for source in [of("child", 0), of("child", 1), proc(0)] {
        deliver(&mut rig, &source, STDOUT, "0123456789");
    }
    let ask = |procs: &[ProcId], directives: Vec<Info>| {
        Request::IofPull(IofPull { procs: procs.to_vec(), directives, channels: STDOUT, local_id: Some(1) })
    };
    for (source, directives, expected) in [
        (child(0), Vec::new(), "6789"),
        (child(1), vec![size("pmix.iof.csize", 2), flag("pmix.iof.new")], "67"),
        (proc(0), Vec::new(), "01234567"),
    ] {
        let (id, _) = upcall(&rig.request(peer, ask(&[source], directives)));
        assert_eq!(texts(&granted(&mut rig, id)), expected);
    }
}

/// Regression: the launcher could not refuse what it does not honour, because the server had taken the mark off.
#[test]
fn the_host_decides_about_required_settings_of_a_spawn_without_output() {
    let mut rig = Rig::with(with_defaults(&[]), MapStore::new());
    let peer = rig.job(1, 1)[0];
    for (asked, marked) in [(vec![], 1), (vec![flag("pmix.fwd.stderr")], 0)] {
        let required = Info { flags: 1, ..flag("pmix.iof.old") };
        let spawn = crate::proto::Spawn::new([vec![required], asked].concat(), Vec::new());
        let (_, call) = upcall(&rig.request(peer, Request::from(spawn)));
        let Upcall::Service(_, crate::proto::Service::Spawn(spawn)) = call else { panic!("{call:?}") };
        assert_eq!(spawn.job[0].flags, marked);
    }
    let refused = Info { flags: 1, ..size("pmix.iof.csize", u32::MAX) };
    let spawn = crate::proto::Spawn::new(vec![refused], Vec::new());
    let outputs = rig.request(peer, Request::from(spawn));
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_NOT_SUPPORTED)]);
}

/// A pull that the host refused had dropped what was kept for others.
#[test]
fn a_pull_that_waits_for_the_host_drops_nothing() {
    let mut rig = Rig::with(with_defaults(&[]), MapStore::new());
    let peer = rig.job(1, 1)[0];
    deliver(&mut rig, &proc(0), STDOUT, "early");
    let (id, _) = upcall(&rig.request(peer, pull_as(vec![size("pmix.iof.csize", 0), flag("pmix.iof.old")], 1)));
    deliver(&mut rig, &proc(0), STDOUT, "late");
    rig.complete(id, HostReply::Status(Status::ERR_NO_PERMISSIONS));
    let (id, _) = upcall(&rig.request(peer, pull(&[everybody()], STDOUT, 2)));
    assert_eq!(texts(&granted(&mut rig, id)), "early|late");
}

/// The size of a pull was taken from the beginning, whatever the server's directives say.
#[test]
fn kept_output_is_cut_by_the_directives_of_the_pull_and_the_rest_of_the_servers() {
    let mut rig = Rig::with(with_defaults(&[size("pmix.iof.csize", 6), flag("pmix.iof.old")]), MapStore::new());
    let peer = rig.job(1, 1)[0];
    deliver(&mut rig, &proc(0), STDOUT, "abcdefgh");
    let (id, _) = upcall(&rig.request(peer, pull_as(vec![size("pmix.iof.csize", 4)], 1)));
    assert_eq!(texts(&granted(&mut rig, id)), "efgh");
}

/// Output of one channel came before older output of another, as it had joined a piece before both.
#[test]
fn kept_pieces_of_a_source_come_out_in_their_order() {
    let mut rig = Rig::with(with_defaults(&[size("pmix.iof.csize", 100)]), MapStore::new());
    let peer = rig.job(1, 1)[0];
    for (channel, text) in [(STDOUT, "a"), (STDOUT, "b"), (STDERR, "c"), (STDOUT, "d"), (STDOUT, "e")] {
        deliver(&mut rig, &proc(0), channel, text);
    }
    let (id, _) = upcall(&rig.request(peer, pull(&[everybody()], STDOUT | STDERR, 1)));
    assert_eq!(texts(&granted(&mut rig, id)), "ab|c|de");
}

/// Regression: `prun` of PRRTE 4.1 showed no output of its job.
#[test]
fn a_tool_that_counts_on_its_server_gets_the_output_of_its_job_without_a_pull() {
    let off = |name| Info::new(key(name), false);
    for (directives, channels) in [
        (vec![flag("pmix.fwd.stdout")], [true, true]),
        (vec![off("pmix.fwd.stdout")], [false, true]),
        (vec![off("pmix.fwd.stdout"), off("pmix.fwd.stderr")], [false, false]),
        (vec![off("pmix.fwd.stdout"), flag("pmix.fwd.stdout")], [true, true]),
    ] {
        let mut rig = tools::rig(Capabilities::SPAWN, ToolAdmission::Assigned);
        let (tool, _) = tools::tool(&mut rig, 1);
        let spawn = crate::proto::Spawn::new(directives.clone(), Vec::new());
        let (id, _) = upcall(&rig.request(tool, Request::from(spawn)));
        let child = ProcId::new(namespace("child"), 0);
        deliver(&mut rig, &child, STDOUT, "early");
        let outputs = rig.complete(id, HostReply::Spawned(namespace("child")));
        assert!(matches!(replies(&outputs)[..], [(_, Reply::Spawned { .. })]), "{outputs:?}");
        let of = |is_wanted: bool, text| if is_wanted { vec![to(tool, 0, text)] } else { Vec::new() };
        assert_eq!(forwarded(&outputs), of(channels[0], "early"), "{directives:?}");
        assert_eq!(deliver(&mut rig, &child, STDOUT, "out").0, of(channels[0], "out"));
        assert_eq!(deliver(&mut rig, &child, STDERR, "error").0, of(channels[1], "error"));
        assert_eq!(deliver(&mut rig, &proc(0), STDOUT, "another job").0, []);
        assert_eq!(upcalls(&rig.lose(tool)), [], "the host was never asked to forward");
    }
}

#[test]
fn a_tool_that_pulls_the_output_of_its_job_gets_it_once_and_old_jobs_make_room() {
    let mut rig = tools::rig(Capabilities::SPAWN | Capabilities::IOF_PULL, ToolAdmission::Assigned);
    let (tool, _) = tools::tool(&mut rig, 1);
    let pulls_max = ServerConfig::default().limits.pulls_per_process_max;
    for number in 0..=pulls_max {
        let spawn = crate::proto::Spawn::new(Vec::new(), Vec::new());
        let (id, _) = upcall(&rig.request(tool, Request::from(spawn)));
        rig.complete(id, HostReply::Spawned(namespace(&format!("child{number}"))));
    }
    let of = |number: usize| ProcId::new(namespace(&format!("child{number}")), 0);
    assert_eq!(deliver(&mut rig, &of(0), STDOUT, "lost").0, []);
    assert_eq!(deliver(&mut rig, &of(pulls_max), STDOUT, "new").0, [to(tool, 0, "new")]);

    let (id, _) = upcall(&rig.request(tool, pull(&[of(7)], STDOUT, 5)));
    granted(&mut rig, id);
    assert_eq!(deliver(&mut rig, &of(1), STDOUT, "its job runs").0, [to(tool, 0, "its job runs")]);
    assert_eq!(deliver(&mut rig, &of(7), STDOUT, "once").0, [to(tool, 5, "once")]);
    assert_eq!(deliver(&mut rig, &of(7), STDERR, "error").0, [to(tool, 0, "error")]);
}

/// Registers a job with a spawner.
fn spawned_by(rig: &mut Rig, spawner: &ProcId, name: &str, more: Vec<Info>) -> ProcId {
    rig.register(name, Some(1), Some(0));
    let infos = [vec![Info::new(key("pmix.parent"), spawner.clone())], more].concat();
    rig.host(HostCall::ExtendNamespace(namespace(name), infos.into()));
    ProcId::new(namespace(name), 0)
}

/// A tool saw nothing of the jobs that a job under its eyes started.
#[test]
fn a_tool_that_watches_a_process_gets_the_output_of_jobs_that_it_spawns() {
    let mut rig = tools::rig(Capabilities::SPAWN | Capabilities::IOF_PULL, ToolAdmission::Assigned);
    let (tool, _) = tools::tool(&mut rig, 90);
    let peer = rig.job(2, 2)[0];
    for (peer, procs, local_id) in [(tool, [proc(0)], 5), (peer, [everybody()], 6)] {
        let outputs = rig.request(peer, pull(&procs, STDOUT, local_id));
        let (id, _) = upcall(&outputs);
        granted(&mut rig, id);
    }
    let child = spawned_by(&mut rig, &proc(0), "child", Vec::new());
    let grandchild = spawned_by(&mut rig, &child, "grandchild", Vec::new());
    let of_other = spawned_by(&mut rig, &proc(1), "other", Vec::new());
    let refused = spawned_by(&mut rig, &proc(0), "refused", vec![Info::new(key("pmix.iof.inhrt"), false)]);
    for source in [&child, &grandchild] {
        assert_eq!(deliver(&mut rig, source, STDOUT, "x").0, [to(tool, 5, "x")], "an application's process gets none");
        assert_eq!(deliver(&mut rig, source, STDERR, "x").0, []);
    }
    rig.host(HostCall::ExtendNamespace(namespace("refused"), vec![Info::new(key("some.key"), true)].into()));
    for source in [&of_other, &refused] {
        assert_eq!(deliver(&mut rig, source, STDOUT, "x").0, [], "{source}");
    }
    // A pull of the child's own gets the output once.
    let (id, _) = upcall(&rig.request(tool, pull(std::slice::from_ref(&child), STDOUT, 7)));
    granted(&mut rig, id);
    assert_eq!(deliver(&mut rig, &child, STDOUT, "x").0, [to(tool, 7, "x")]);
    let end = Request::IofDeregister(IofDeregister { directives: Vec::new(), reference: 1 });
    assert_eq!(statuses(&rig.request(tool, end)), [(tool, Status::SUCCESS)]);
    assert_eq!(deliver(&mut rig, &grandchild, STDOUT, "x").0, []);
}

/// The job of a spawn may be described before the answer to the spawn.
#[test]
fn the_spawn_decides_about_inheritance_of_output() {
    let (yes, no) = (Info::new(key("pmix.iof.inhrt"), true), Info::new(key("pmix.iof.inhrt"), false));
    let named = Info::new(key("pmix.fwd.stdout"), true);
    for (directives, is_inherited) in
        [(vec![], true), (vec![no], false), (vec![named.clone()], false), (vec![named, yes], true)]
    {
        let mut rig = tools::rig(Capabilities::SPAWN | Capabilities::IOF_PULL, ToolAdmission::Assigned);
        let (tool, _) = tools::tool(&mut rig, 90);
        let peer = rig.job(1, 1)[0];
        let (id, _) = upcall(&rig.request(tool, pull(&[everybody()], STDOUT, 5)));
        granted(&mut rig, id);
        for is_described_first in [true, false] {
            let spawn = crate::proto::Spawn::new(directives.clone(), Vec::new());
            let (id, _) = upcall(&rig.request(peer, Request::from(spawn)));
            let name = if is_described_first { "first" } else { "then" };
            let child = ProcId::new(namespace(name), 0);
            if is_described_first {
                spawned_by(&mut rig, &proc(0), name, Vec::new());
            } else {
                rig.register(name, Some(1), Some(0));
            }
            rig.complete(id, HostReply::Spawned(namespace(name)));
            let expected = if is_inherited { vec![to(tool, 5, "x")] } else { Vec::new() };
            assert_eq!(deliver(&mut rig, &child, STDOUT, "x").0, expected, "{directives:?} {name}");
            // A later description does not ask again.
            rig.host(HostCall::ExtendNamespace(namespace(name), vec![Info::new(key("pmix.parent"), proc(0))].into()));
            assert_eq!(deliver(&mut rig, &child, STDOUT, "x").0, expected, "{directives:?} {name}, extended");
            rig.host(HostCall::DeregisterNamespace(namespace(name)));
        }
    }
}

/// Of a tool that has spawned a job and pulls it, too, one request gets the output of the job's own jobs.
#[test]
fn output_is_inherited_once_and_within_the_share_of_its_tool() {
    let mut rig = tools::rig(Capabilities::SPAWN | Capabilities::IOF_PULL, ToolAdmission::Assigned);
    let (tool, _) = tools::tool(&mut rig, 90);
    let (id, _) = upcall(&rig.request(tool, Request::from(crate::proto::Spawn::new(Vec::new(), Vec::new()))));
    rig.complete(id, HostReply::Spawned(namespace("job")));
    let (id, _) = upcall(&rig.request(tool, pull(&[everybody()], STDOUT, 5)));
    granted(&mut rig, id);
    rig.job(1, 1);
    let pulls_max = ServerConfig::default().limits.pulls_per_process_max;
    let children: Vec<ProcId> =
        (0..=pulls_max).map(|number| spawned_by(&mut rig, &proc(0), &format!("child{number}"), Vec::new())).collect();
    assert_eq!(deliver(&mut rig, &children[0], STDOUT, "lost").0, []);
    assert_eq!(deliver(&mut rig, &children[pulls_max], STDOUT, "x").0, [to(tool, 5, "x")]);
    // The channels that the tool does not pull itself, and the job that it has spawned, are its own.
    assert_eq!(deliver(&mut rig, &children[pulls_max], STDERR, "x").0, [to(tool, 0, "x")]);
    assert_eq!(deliver(&mut rig, &proc(0), STDERR, "x").0, [to(tool, 0, "x")]);
}

#[test]
fn a_described_job_has_settings_until_its_end() {
    let mut rig = Rig::with(with_defaults(&[]), MapStore::new());
    let mut describe = |infos: Vec<Info>| {
        let peer = rig.job(1, 1)[0];
        rig.host(HostCall::ExtendNamespace(namespace("job"), infos.into()));
        deliver(&mut rig, &proc(0), STDOUT, "abc");
        let (id, _) = upcall(&rig.request(peer, pull(&[everybody()], STDOUT, 1)));
        let kept = texts(&granted(&mut rig, id));
        rig.host(HostCall::DeregisterNamespace(namespace("job")));
        kept
    };
    assert_eq!(describe(vec![size("pmix.iof.csize", 1)]), "a");
    assert_eq!(describe(Vec::new()), "abc");
}

fn spawn_with(rig: &mut Rig, peer: PeerId, cache: u32) -> UpcallId {
    let spawn = crate::proto::Spawn::new(vec![size("pmix.iof.csize", cache)], Vec::new());
    upcall(&rig.request(peer, Request::from(spawn))).0
}

/// A directive for one more job dropped that of the first by name, which may run. A job that had ended before the
/// answer to its spawn kept its directives for ever.
#[test]
fn directives_of_registered_jobs_stay_and_those_of_ended_jobs_go() {
    let mut rig = Rig::with(with_defaults(&[]), MapStore::new());
    let peer = rig.job(1, 1)[0];
    for name in ["a", "over"] {
        rig.register(name, Some(1), Some(0));
        rig.host(HostCall::ExtendNamespace(namespace(name), vec![size("pmix.iof.csize", 1)].into()));
    }
    let late = spawn_with(&mut rig, peer, 2);
    rig.host(HostCall::DeregisterNamespace(namespace("over")));
    rig.complete(late, HostReply::Spawned(namespace("over")));
    for number in 0..4096 {
        let id = spawn_with(&mut rig, peer, 2);
        rig.complete(id, HostReply::Spawned(namespace(&format!("child{number}"))));
    }
    let mut is_bounded = |name| {
        let source = ProcId::new(namespace(name), 0);
        [b"xyz", b"abc"].map(|bytes| offer_or_keep(&mut rig, &source, bytes))[1] == Delivery::Unwanted
    };
    let names = ["a", "over", "child0", "child1", "child999"];
    assert_eq!(names.map(&mut is_bounded), [true, false, false, true, true]);
}

/// Kept output of very many sources took as much memory as there was room for all, whatever each had asked for.
#[test]
fn a_thousand_sources_keep_what_was_asked_and_no_more_than_fits() {
    let keep = |cache: u32, kept_output_bytes_max: usize| {
        let limits = Limits { kept_output_bytes_max, ..Limits::default() };
        let mut rig =
            Rig::with(ServerConfig { limits, ..with_defaults(&[size("pmix.iof.csize", cache)]) }, MapStore::new());
        let peer = rig.job(1000, 1)[0];
        for _ in 0..20 {
            (0..1000).for_each(|rank| drop(deliver(&mut rig, &proc(rank), STDOUT, "0123456789")));
        }
        assert!(rig.server.holdings().iter().all(|(name, count)| *name != "pull of output" || *count <= 1000));
        let (id, _) = upcall(&rig.request(peer, pull(&[everybody()], STDOUT, 1)));
        let kept = forwarded(&granted(&mut rig, id));
        (kept.len(), kept.iter().map(|(_, _, text)| text.len()).sum::<usize>())
    };
    assert_eq!(keep(100, 1 << 20), (1000, 100_000));
    let (count, bytes) = keep(100, 50_000);
    assert!(count > 100 && count < 1000 && bytes < 50_000, "{count} {bytes}");
}

#[test]
fn the_end_of_a_channel_is_kept_whatever_is_dropped() {
    for policy in ["pmix.iof.old", "pmix.iof.new"] {
        let mut rig = Rig::with(with_defaults(&[size("pmix.iof.csize", 2), flag(policy)]), MapStore::new());
        let peer = rig.job(1, 1)[0];
        for text in ["abc", ""] {
            deliver(&mut rig, &proc(0), STDOUT, text);
        }
        let (id, _) = upcall(&rig.request(peer, pull(&[everybody()], STDOUT, 1)));
        assert_eq!(ends(&granted(&mut rig, id)), [(2, false), (0, true)], "{policy}");
    }
}

/// Number of bytes, and whether the channel is closed.
/// Each piece of output was written once for each of a thousand pulls of one connection.
#[test]
fn one_connection_pulls_the_output_of_a_process_a_few_times() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    let peers = rig.job(2, 2);
    let (id, _) = upcall(&rig.request(peers[0], pull(&[everybody()], STDOUT, 0)));
    granted(&mut rig, id);
    let refused = [(peers[0], Reply::Status(Status::ERR_OUT_OF_RESOURCE))];
    let pulls = (1..40).filter(|&number| replies(&rig.request(peers[0], pull(&[proc(1)], STDOUT, number))) != refused);
    assert_eq!(pulls.count(), 16);
    assert_eq!(replies(&rig.request(peers[0], pull(&[proc(0)], STDOUT, 50))).len(), 1, "another process");
    assert_eq!(deliver(&mut rig, &proc(1), STDOUT, "x").0.len(), 17);
}

/// Such ends came twice, or never: the host offered the end of each stream that had ended before a pull to all pulls. A
/// pull that needed no host got none.
#[test]
fn each_pull_gets_the_end_of_a_channel_once() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    let peers = rig.job(2, 2);
    let end = |rig: &mut Rig| deliver(rig, &proc(1), STDOUT, "").0;
    assert_eq!(deliver(&mut rig, &proc(1), STDOUT, "kept").0, []);
    assert_eq!(end(&mut rig), []);
    let (id, _) = upcall(&rig.request(peers[0], pull(&[everybody()], STDOUT, 7)));
    assert_eq!(forwarded(&granted(&mut rig, id)), [to(peers[0], 7, "kept"), to(peers[0], 7, "")]);
    assert_eq!(offer(&mut rig, &proc(1), ""), (Vec::new(), Delivery::Unwanted));
    // The host is not asked a second time.
    let second = rig.request(peers[0], pull(&[proc(1)], STDOUT, 8));
    assert_eq!(forwarded(&second), [to(peers[0], 8, "")]);
    // A process of the same rank has started.
    assert_eq!(deliver(&mut rig, &proc(1), STDOUT, "anew").0.len(), 2);
    assert_eq!(end(&mut rig).len(), 2);
    assert_eq!(end(&mut rig), []);
}

/// A pull outlived its job, and its owner got the output of the next job of that name, which may be another user's.
#[test]
fn a_pull_ends_with_the_job_that_it_names() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    let peer = rig.job(2, 2)[0];
    let name = "reused";
    let register = |rig: &mut Rig| rig.register(name, Some(1), Some(0));
    register(&mut rig);
    let reused = |rank| ProcId { namespace: namespace(name), rank };
    let source = reused(crate::types::Rank::Process(0));
    let procs = [reused(crate::types::Rank::Wildcard), proc(1)];
    let (first, _) = upcall(&rig.request(peer, pull(&procs, STDOUT, 7)));
    granted(&mut rig, first);
    let (waiting, _) = upcall(&rig.request(peer, pull(&procs, STDERR, 8)));
    rig.host(HostCall::DeregisterNamespace(namespace(name)));
    register(&mut rig);
    granted(&mut rig, waiting);
    for channel in [STDOUT, STDERR] {
        assert_eq!(deliver(&mut rig, &source, channel, "of another").0, []);
        assert_eq!(deliver(&mut rig, &proc(1), channel, "of the old job").0.len(), 1);
    }
    // Only the job that is left is stopped.
    let outputs = rig.lose(peer);
    let stopped: Vec<Vec<ProcId>> = upcalls(&outputs)
        .into_iter()
        .filter_map(|(_, call)| if let Upcall::IofPull(_, stop) = call { Some(stop.procs) } else { None })
        .collect();
    assert_eq!(stopped, [[proc(1)], [proc(1)]]);
}

fn ends(outputs: &[Output]) -> Vec<(usize, bool)> {
    let end = |output: &Output| match output {
        Output::Forward(_, forwarded) => {
            let is_end = |info: &Info| info.key.as_str() == "pmix.iof.cmp" && info.value.as_bool() == Some(true);
            Some((forwarded.output.bytes.len(), forwarded.output.info.iter().any(is_end)))
        }
        _ => None,
    };
    outputs.iter().filter_map(end).collect()
}

#[test]
fn the_last_delivery_of_a_channel_says_so() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    let peer = rig.job(1, 1)[0];
    let (id, _) = upcall(&rig.request(peer, pull(&[everybody()], STDOUT, 1)));
    granted(&mut rig, id);
    let mut send = |bytes: &[u8], info: Vec<Info>| {
        let output = IofOutput { source: proc(0), channel: STDOUT, bytes: bytes.to_vec(), info };
        ends(&rig.host(HostCall::IofDeliver(Arc::new(output))))
    };
    assert_eq!(send(b"a", Vec::new()), [(1, false)]);
    assert_eq!(send(b"", Vec::new()), [(0, true)]);
    assert_eq!(send(b"b", vec![flag("pmix.iof.cmp")]), [(1, true)]);
    assert_eq!(send(b"c", Vec::new()), [(1, false)]);
    assert_eq!(send(b"", vec![flag("pmix.iof.cmp")]), [(0, true)]);
}

#[test]
fn a_delivery_waits_for_as_many_bytes_as_the_pull_wants() {
    let mut rig = Rig::with(with_defaults(&[]), MapStore::new());
    let peers = rig.job(2, 2);
    let (id, _) = upcall(&rig.request(peers[0], pull_as(vec![size("pmix.iof.bsize", 4)], 1)));
    granted(&mut rig, id);
    rig.request(peers[1], pull_as(Vec::new(), 2));
    let other = |text: &str| to(peers[1], 2, text);
    assert_eq!(deliver(&mut rig, &proc(0), STDOUT, "abc").0, [other("abc")]);
    assert_eq!(deliver(&mut rig, &proc(1), STDOUT, "x").0, [other("x")], "each source waits by itself");
    assert_eq!(deliver(&mut rig, &proc(0), STDOUT, "de").0, [to(peers[0], 1, "abcde"), other("de")]);
    assert_eq!(deliver(&mut rig, &proc(0), STDOUT, "f").0, [other("f")]);
    assert_eq!(deliver(&mut rig, &proc(0), STDOUT, "").0, [to(peers[0], 1, "f"), to(peers[0], 1, ""), other("")]);
    let end = Request::IofDeregister(IofDeregister { directives: Vec::new(), reference: 1 });
    let outputs = rig.request(peers[0], end);
    assert_eq!(texts(&outputs), "x");
    assert!(matches!(outputs[0], Output::Forward(..)), "before the answer");
    assert_eq!(deliver(&mut rig, &proc(1), STDOUT, "y").0, [other("y")]);
}

#[test]
fn a_delivery_waits_no_longer_than_the_pull_wants() {
    let mut rig = Rig::with(with_defaults(&[size("pmix.iof.btime", 9)]), MapStore::new());
    let peer = rig.job(2, 1)[0];
    let directives = vec![size("pmix.iof.bsize", 100), size("pmix.iof.btime", 3)];
    let (id, _) = upcall(&rig.request(peer, pull_as(directives, 1)));
    granted(&mut rig, id);
    assert_eq!(deliver(&mut rig, &proc(0), STDOUT, "a").0, []);
    rig.wait(2);
    assert_eq!(deliver(&mut rig, &proc(1), STDOUT, "b").0, []);
    assert_eq!(deliver(&mut rig, &proc(0), STDOUT, "c").0, []);
    assert_eq!(texts(&rig.wait(1)), "ac|b");
    assert_eq!(rig.server.poll_timeout(), None);
    assert_eq!(deliver(&mut rig, &proc(0), STDOUT, "d").0, []);
    assert_eq!(texts(&rig.host(HostCall::DeregisterNamespace(namespace("else")))), "");
    assert_eq!(texts(&rig.request(peer, Request::Finalize)), "d", "the end of the connection");
    assert_eq!(rig.server.poll_timeout(), None);
}

#[test]
fn the_end_of_a_job_delivers_what_waits() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    let peer = rig.job(1, 1)[0];
    rig.register("other", Some(1), Some(0));
    let procs = [ProcId::new(namespace("other"), 0)];
    let directives = vec![size("pmix.iof.btime", 9)];
    let request = IofPull { procs: procs.to_vec(), directives, channels: STDOUT, local_id: Some(1) };
    let (id, _) = upcall(&rig.request(peer, Request::IofPull(request)));
    granted(&mut rig, id);
    assert_eq!(deliver(&mut rig, &procs[0], STDOUT, "a").0, []);
    assert_eq!(texts(&rig.host(HostCall::DeregisterNamespace(namespace("other")))), "a");
    assert_eq!(rig.server.poll_timeout(), None);
}

/// The harness checks after each input that the counts are those of the pulls.
#[test]
fn pulls_of_an_ended_job_are_ended_one_by_one() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    let peer = rig.job(1, 1)[0];
    rig.register("other", Some(1), Some(0));
    for (number, channel) in [(1, STDOUT), (2, STDERR)] {
        let (id, _) = upcall(&rig.request(peer, pull(&[ProcId::new(namespace("other"), 0)], channel, number)));
        granted(&mut rig, id);
    }
    rig.host(HostCall::DeregisterNamespace(namespace("other")));
    for reference in [1, 2] {
        let end = Request::IofDeregister(IofDeregister { directives: Vec::new(), reference });
        let outputs = rig.request(peer, end);
        assert_eq!(statuses(&outputs), [(peer, Status::SUCCESS)]);
    }
}

/// Regression: output that a pull waited with was lost when the server closed.
#[test]
fn a_closing_server_delivers_what_pulls_wait_with() {
    let mut rig = Rig::with(with_defaults(&[]), MapStore::new());
    let peer = rig.job(1, 1)[0];
    let (id, _) = upcall(&rig.request(peer, pull_as(vec![size("pmix.iof.bsize", 100)], 1)));
    granted(&mut rig, id);
    assert_eq!(deliver(&mut rig, &proc(0), STDOUT, "few").0, []);
    assert_eq!(forwarded(&rig.input(Input::Closing)), [to(peer, 1, "few")]);
    assert_eq!(rig.input(Input::Closing), []);
}

/// Output for the server's own process.
fn handed_over(outputs: &[Output]) -> Vec<(u64, String)> {
    let text = |piece: &Forwarded| String::from_utf8(piece.output.bytes.clone()).unwrap();
    let hand_over = |output: &Output| match output {
        Output::HandOver(piece) => Some((piece.reference, text(piece))),
        _ => None,
    };
    outputs.iter().filter_map(hand_over).collect()
}

/// Pulls output for the server's own process.
fn pull_own(rig: &mut Rig, directives: Vec<Info>, number: u64) -> Vec<Output> {
    let requester = Requester { proc: ProcId::new(namespace("server"), 0), object: 0, uid: OWNER.uid, gid: OWNER.gid };
    let pull = IofPull { procs: vec![everybody()], directives, channels: STDOUT, local_id: Some(number) };
    rig.host(HostCall::IofPull(requester, pull))
}

fn host_status(outputs: &[Output]) -> Status {
    let status = |output: &Output| match output {
        Output::Complete(_, HostResult::Status(status)) => Some(*status),
        _ => None,
    };
    outputs.iter().find_map(status).unwrap()
}

/// Regression: a pull of the server's own process got no kept output, and its directives were refused or ignored.
#[test]
fn a_pull_of_the_servers_own_process_has_kept_output_and_waits_for_more() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    rig.job(2, 1);
    deliver(&mut rig, &proc(0), STDOUT, "kept");
    let required = |info: Info| Info { flags: 1, ..info };
    let directives = [size("pmix.iof.csize", 3), flag("pmix.iof.old"), size("pmix.iof.bsize", 4)].map(required);
    let outputs = pull_own(&mut rig, directives.to_vec(), 7);
    assert!(matches!(outputs[0], Output::Complete(_, HostResult::Status(Status::SUCCESS))), "{outputs:?}");
    assert_eq!(handed_over(&outputs), []);
    let mut send = |text: &str| {
        let output = IofOutput { source: proc(0), channel: STDOUT, bytes: text.into(), info: Vec::new() };
        handed_over(&rig.host(HostCall::IofDeliver(Arc::new(output))))
    };
    assert_eq!(send("x"), [(7, "eptx".to_owned())], "cut, and with the next");
    assert_eq!(send("y"), []);
    let outputs = rig.host(HostCall::IofDeregister(7));
    assert_eq!((handed_over(&outputs), host_status(&outputs)), (vec![(7, "y".to_owned())], Status::SUCCESS));
    assert_eq!(host_status(&rig.host(HostCall::IofDeregister(7))), Status::ERR_NOT_FOUND);
    let outputs = pull_own(&mut rig, vec![required(flag("pmix.iof.xml"))], 8);
    assert_eq!(host_status(&outputs), Status::ERR_NOT_SUPPORTED);
}

#[test]
fn the_host_hears_of_clients_pulls_alone_and_the_servers_own_outlive_jobs() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    let peer = rig.job(2, 1)[0];
    assert_eq!(upcalls(&pull_own(&mut rig, Vec::new(), 1)), []);
    let (id, _) = upcall(&rig.request(peer, pull(&[everybody()], STDOUT, 1)));
    granted(&mut rig, id);
    assert_eq!(offer(&mut rig, &proc(0), "both"), (vec![to(peer, 1, "both")], Delivery::Copied));
    let (_, stop) = upcall(&rig.lose(peer));
    assert!(matches!(stop, Upcall::IofPull(..)), "{stop:?}");
    rig.host(HostCall::DeregisterNamespace(namespace("job")));
    rig.register("job", Some(2), Some(1));
    let output = IofOutput { source: proc(0), channel: STDOUT, bytes: b"later".to_vec(), info: Vec::new() };
    let outputs = rig.host(HostCall::IofDeliver(Arc::new(output)));
    assert_eq!(handed_over(&outputs), [(1, "later".to_owned())]);
    assert_eq!(upcalls(&rig.host(HostCall::IofDeregister(1))), []);
}

/// Memory of deliveries that wait had no bound but the size that the puller named.
#[test]
fn deliveries_do_not_wait_beyond_a_bound() {
    let limits = Limits { collected_output_bytes_max: 1000, ..Limits::default() };
    let mut rig = Rig::with(ServerConfig { limits, ..with_defaults(&[]) }, MapStore::new());
    let peer = rig.job(1, 1)[0];
    let (id, _) = upcall(&rig.request(peer, pull_as(vec![size("pmix.iof.bsize", u32::MAX)], 1)));
    granted(&mut rig, id);
    let large = "x".repeat(999);
    assert_eq!(deliver(&mut rig, &proc(0), STDOUT, &large).0, []);
    let last = IofOutput { source: proc(0), channel: STDOUT, bytes: b"y".to_vec(), info: Vec::new() };
    assert_eq!(texts(&rig.host(HostCall::IofDeliver(Arc::new(last)))), format!("{large}|y"));
    let refused = Info { flags: 1, ..size("pmix.iof.bsize", u32::MAX) };
    let outputs = rig.request(peer, pull_as(vec![refused], 2));
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_NOT_SUPPORTED)]);
}

/// The host got one request to start for each pull of a tool, and one to stop in all.
#[test]
fn pulls_of_the_same_output_ask_the_host_once_and_stop_once() {
    for count in [1, 100] {
        let mut rig = Rig::new(Capabilities::IOF_PULL);
        let peer = rig.job(1, 1)[0];
        let procs: Vec<ProcId> = (0..count).map(proc).collect();
        let (id, _) = upcall(&rig.request(peer, pull(&procs, STDOUT, 1)));
        assert_eq!(rig.request(peer, pull(&procs, STDOUT, 2)), [], "the first is at the host");
        deliver(&mut rig, &proc(0), STDOUT, "kept");
        let outputs = granted(&mut rig, id);
        assert_eq!(replies(&outputs), [(peer, Reply::IofPulled(1)), (peer, Reply::IofPulled(2))]);
        assert_eq!(forwarded(&outputs), [to(peer, 1, "kept")]);
        assert_eq!(replies(&rig.request(peer, pull(&procs, STDOUT, 3))), [(peer, Reply::IofPulled(3))]);
        assert_eq!(deliver(&mut rig, &proc(0), STDOUT, "x").0, [to(peer, 1, "x"), to(peer, 2, "x"), to(peer, 3, "x")]);
        let end = |reference| Request::IofDeregister(IofDeregister { directives: Vec::new(), reference });
        assert_eq!([1, 2, 3].map(|number| upcalls(&rig.request(peer, end(number))).len()), [0, 0, 1]);
    }
}

/// A process that had finalized got kept output, which nobody read.
#[test]
fn output_stays_for_a_process_that_has_not_finalized() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    let peers = rig.job(2, 2);
    deliver(&mut rig, &proc(1), STDOUT, "kept");
    let (id, _) = upcall(&rig.request(peers[0], pull(&[proc(1)], STDOUT, 1)));
    assert_eq!(rig.request(peers[1], pull(&[proc(1)], STDOUT, 2)), [], "it follows");
    rig.request(peers[0], Request::Finalize);
    let outputs = granted(&mut rig, id);
    let answers = [(peers[1], Reply::IofPulled(1)), (peers[0], Reply::Status(Status::ERR_INIT))];
    assert_eq!((replies(&outputs), forwarded(&outputs)), (answers.into(), vec![to(peers[1], 2, "kept")]));
    assert_eq!(upcalls(&outputs), [], "the other one still wants the output");
}

/// A tool that died with several pulls had the host stop the same output for each of them.
#[test]
fn the_end_of_a_tool_stops_output_once() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    let peer = rig.job(1, 1)[0];
    let (id, _) = upcall(&rig.request(peer, pull(&[proc(0)], STDOUT, 1)));
    granted(&mut rig, id);
    rig.request(peer, pull(&[proc(0)], STDOUT, 2));
    let stops = |call: &Upcall| matches!(call, Upcall::IofPull(_, stop) if stop.directives[0] == flag("pmix.iof.stop"));
    assert_eq!(upcalls(&rig.lose(peer)).iter().filter(|(_, call)| stops(call)).count(), 1);
}

#[test]
fn a_refusal_or_the_end_of_the_first_puller_does_not_end_the_others() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    let peers = rig.job(3, 3);
    let ask = |rig: &mut Rig, peer: PeerId| rig.request(peer, pull(&[everybody()], STDOUT, 1));
    let (first, _) = upcall(&ask(&mut rig, peers[0]));
    assert_eq!((ask(&mut rig, peers[1]), ask(&mut rig, peers[2])), (vec![], vec![]));
    let outputs = rig.complete(first, HostReply::Status(Status::ERR_NO_PERMISSIONS));
    assert_eq!(statuses(&outputs), [(peers[0], Status::ERR_NO_PERMISSIONS)]);
    let (second, _) = upcall(&outputs);
    let outputs = rig.lose(peers[1]);
    let (third, call) = upcall(&outputs);
    assert!(matches!(call, Upcall::IofPull(requester, _) if requester.proc == proc(2)), "no stop, as another waits");
    assert_eq!(granted(&mut rig, second), []);
    assert_eq!(replies(&granted(&mut rig, third)), [(peers[2], Reply::IofPulled(1))]);
}

/// A puller that ended before the host's answer left the host forwarding for ever.
#[test]
fn the_host_hears_of_a_puller_that_ends_before_the_answer() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    let peer = rig.job(1, 1)[0];
    upcall(&rig.request(peer, pull(&[everybody()], STDOUT, 1)));
    rig.request(peer, pull(&[everybody()], STDOUT, 2));
    let calls = upcalls(&rig.lose(peer));
    let [(_, Upcall::IofPull(_, stop))] = calls.as_slice() else { panic!("{calls:?}") };
    assert_eq!(stop.directives[0], flag("pmix.iof.stop"));
}

/// The end of a pull stopped output that another pull had just asked for.
#[test]
fn output_that_another_pull_has_asked_for_is_not_stopped() {
    let mut rig = Rig::new(Capabilities::IOF_PULL);
    let peer = rig.job(1, 1)[0];
    let (id, _) = upcall(&rig.request(peer, pull(&[everybody()], STDOUT, 1)));
    granted(&mut rig, id);
    let (id, _) = upcall(&rig.request(peer, pull_with("pmix.iof.cpy", 2)));
    let end = Request::IofDeregister(IofDeregister { directives: Vec::new(), reference: 1 });
    assert_eq!(upcalls(&rig.request(peer, end)), []);
    granted(&mut rig, id);
    assert_eq!(deliver(&mut rig, &proc(0), STDOUT, "x").0, [to(peer, 2, "x")]);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let mut rig = Rig::new(Capabilities::IOF_PULL | Capabilities::IOF_PUSH);
    let peer = rig.job(1, 1)[0];
    let wrong = Info::new(crate::types::Key::from_static("pmix.iof.csize"), "many");
    assert_eq!(statuses(&rig.request(peer, pull_as(vec![wrong], 1))), [(peer, Status::ERR_BAD_PARAM)]);
    let both = vec![flag("pmix.iof.old"), flag("pmix.iof.new")];
    assert_eq!(statuses(&rig.request(peer, pull_as(both, 1))), [(peer, Status::ERR_BAD_PARAM)]);
    let required = Info { flags: 1, ..flag("pmix.iof.old") };
    let push = crate::proto::IofPush { targets: vec![proc(0)], directives: vec![required], bytes: b"x".to_vec() };
    assert_eq!(statuses(&rig.request(peer, Request::from(push))), [(peer, Status::ERR_NOT_SUPPORTED)]);
}
