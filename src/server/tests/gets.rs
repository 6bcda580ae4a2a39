use std::collections::BTreeSet;

use super::harness::*;
use crate::proto::{Commit, RankData, Reply, Request, Version};
use crate::server::{
    Answer, Capabilities, Hello, HostCall, HostReply, HostResult, Input, Output, OwnGet, PeerId, ProcessFacts,
    ToolAdmission,
};
use crate::types::{DataArray, DataType, Info, InfoFlags, Key, Kval, ProcId, Rank, Scope, Status, Value};

#[test]
fn a_neighbours_value_is_answered_at_once_with_all_it_shows_to_neighbours() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    rig.put(peers[0], Scope::Global, "a", 1);
    rig.put(peers[0], Scope::Local, "b", 2);
    rig.put(peers[0], Scope::Remote, "c", 3);
    let outputs = rig.request(peers[1], get(&proc(0), Some("a"), &[]));
    let expected = RankData { proc: proc(0), entries: vec![kval("a", 1), kval("b", 2)] };
    assert_eq!(replies(&outputs), [(peers[1], Reply::Data(vec![expected]))]);
}

#[test]
fn a_get_waits_for_its_key_and_not_for_any_commit() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    assert_eq!(rig.request(peers[1], get(&proc(0), Some("a"), &[])), []);
    assert_eq!(statuses(&rig.put(peers[0], Scope::Global, "other", 1)), [(peers[0], Status::SUCCESS)]);
    let outputs = rig.put(peers[0], Scope::Global, "a", 2);
    assert_eq!(replies(&outputs).len(), 2);
    assert!(matches!(&replies(&outputs)[1], (peer, Reply::Data(_)) if *peer == peers[1]));
}

#[test]
fn an_immediate_get_does_not_wait() {
    let mut rig = Rig::new(Capabilities::DIRECT_MODEX);
    let peers = rig.job(4, 2);
    for target in [proc(0), proc(3), ProcId::new(namespace("job"), Rank::Undefined)] {
        let outputs = rig.request(peers[1], get(&target, Some("a"), &[flag("pmix.immediate")]));
        assert_eq!(statuses(&outputs), [(peers[1], Status::ERR_NOT_FOUND)]);
    }
}

#[test]
fn a_get_with_a_required_directive_that_nobody_knows_is_not_supported() {
    // Such a request was answered, or held, as if the directive were missing. Our own clients refuse it themselves.
    // Clients of other libraries, and the server's own process, leave it to the server. The directive goes no further.
    let mut rig = Rig::new(Capabilities::DIRECT_MODEX);
    let peers = rig.job(4, 2);
    let required = |name| Info { flags: InfoFlags::REQUIRED.bits(), ..flag(name) };
    let unknown = [required("vendor.thing")];
    for (target, key) in
        [(proc(0), "a"), (proc(3), "a"), (ProcId::new(namespace("job"), Rank::Wildcard), "pmix.job.size")]
    {
        let outputs = rig.request(peers[1], get(&target, Some(key), &unknown));
        assert_eq!(statuses(&outputs), [(peers[1], Status::ERR_NOT_SUPPORTED)]);
    }
    let known = [required("pmix.immediate")];
    assert_eq!(statuses(&rig.request(peers[1], get(&proc(0), Some("a"), &known))), [(peers[1], Status::ERR_NOT_FOUND)]);
    let own = OwnGet { proc: proc(0), key: Some(key("a")), directives: unknown.to_vec() };
    let outputs = rig.host(HostCall::Get(own));
    let refused = HostResult::Status(Status::ERR_NOT_SUPPORTED);
    assert!(matches!(&outputs[..], [Output::Complete(_, result)] if *result == refused), "{outputs:?}");
}

#[test]
fn a_get_with_a_timeout_ends_with_it() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    rig.request(peers[1], get(&proc(0), Some("a"), &[timeout(3)]));
    assert_eq!(rig.wait(2), []);
    assert_eq!(statuses(&rig.wait(1)), [(peers[1], Status::ERR_TIMEOUT)]);
    assert_eq!(rig.server.poll_timeout(), None);
}

#[test]
fn a_timeout_of_zero_means_none() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    rig.request(peers[1], get(&proc(0), Some("a"), &[timeout(0)]));
    assert_eq!(rig.server.poll_timeout(), None);
}

/// The Get was held for ever; each OpenPMIx server since 4.2 answers after two seconds.
#[test]
fn a_key_that_a_committed_neighbour_does_not_put_ends_with_a_timeout() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(3, 3);
    rig.request(peers[1], get(&proc(0), Some("a"), &[]));
    assert_eq!(rig.server.poll_timeout(), None, "it may have yet to compute what it puts");
    rig.put(peers[0], Scope::Global, "other", 1);
    assert_eq!(rig.wait(1), []);
    rig.request(peers[2], get(&proc(0), Some("a"), &[]));
    rig.request(peers[2], get(&proc(0), Some("a"), &[timeout(0)]));
    rig.put(peers[0], Scope::Global, "more", 1);
    assert_eq!(statuses(&rig.wait(1)), [(peers[1], Status::ERR_TIMEOUT)]);
    assert_eq!(statuses(&rig.wait(1)), [(peers[2], Status::ERR_TIMEOUT)]);
    assert_eq!(rig.server.poll_timeout(), None);
    let outputs = rig.put(peers[0], Scope::Global, "a", 2);
    assert!(matches!(&replies(&outputs)[1], (peer, Reply::Data(_)) if *peer == peers[2]), "0 is for ever");
}

/// A process that commits nothing, or arrives at a collecting fence without a commit, was awaited until it ended.
#[test]
fn a_neighbour_that_has_had_its_say_is_waited_for_two_seconds_only() {
    let nothing = || Request::Commit(Commit { parts: Vec::new() });
    let collecting = || fence(&[everybody()], &[flag("pmix.collect")]);
    for (say, is_one) in [(nothing(), true), (collecting(), true), (fence(&[everybody()], &[]), false)] {
        let mut rig = Rig::new(Capabilities::empty());
        let peers = rig.job(3, 3);
        rig.request(peers[1], get(&proc(0), Some("a"), &[]));
        assert_eq!(rig.server.poll_timeout(), None, "it may have yet to compute what it puts");
        rig.request(peers[0], say);
        rig.request(peers[2], get(&proc(0), Some("a"), &[]));
        let late = [1, 2].map(|at| (peers[at], Status::ERR_TIMEOUT));
        assert_eq!(statuses(&rig.wait(2)), if is_one { late.to_vec() } else { Vec::new() });
    }
}

/// A process that requests its own key waited for itself.
#[test]
fn a_process_waits_for_itself_and_for_anybody_two_seconds_once_all_have_had_their_say() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    rig.request(peers[0], get(&proc(0), Some("a"), &[]));
    assert_eq!(statuses(&rig.wait(2)), [(peers[0], Status::ERR_TIMEOUT)]);
    let anybody = ProcId::new(namespace("job"), Rank::Undefined);
    rig.request(peers[0], get(&anybody, Some("a"), &[]));
    assert_eq!(rig.server.poll_timeout(), None, "the other may put it");
    rig.request(peers[1], Request::Commit(Commit { parts: Vec::new() }));
    assert_eq!(statuses(&rig.wait(2)), [(peers[0], Status::ERR_TIMEOUT)]);
}

#[test]
fn everything_of_a_process_that_has_had_its_say_without_a_value_is_what_is_registered() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    assert_eq!(replies(&rig.request(peers[0], get(&proc(0), None, &[]))).len(), 1, "nobody waits for itself");
    assert_eq!(rig.request(peers[0], get(&proc(1), None, &[])), []);
    let outputs = rig.request(peers[1], Request::Commit(Commit { parts: Vec::new() }));
    assert!(matches!(&replies(&outputs)[1], (peer, Reply::Data(_)) if *peer == peers[0]), "{outputs:?}");
}

#[test]
fn a_get_finds_a_value_that_a_committed_neighbour_puts_later() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    rig.put(peers[0], Scope::Global, "other", 1);
    rig.request(peers[1], get(&proc(0), Some("a"), &[]));
    assert_eq!(rig.wait(1), []);
    let outputs = rig.put(peers[0], Scope::Global, "a", 2);
    assert!(matches!(&replies(&outputs)[1], (peer, Reply::Data(_)) if *peer == peers[1]));
    assert_eq!(rig.server.poll_timeout(), None);
}

#[test]
fn a_get_whose_target_dies_is_answered_not_found() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    rig.request(peers[1], get(&proc(0), Some("a"), &[]));
    assert_eq!(statuses(&rig.lose(peers[0])), [(peers[1], Status::ERR_NOT_FOUND)]);
    let later = rig.request(peers[1], get(&proc(0), Some("a"), &[]));
    assert_eq!(statuses(&later), [(peers[1], Status::ERR_NOT_FOUND)]);
}

#[test]
fn the_loss_of_one_clone_does_not_end_a_get() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    let clone = rig.join(&proc(0), SOCKET);
    rig.request(peers[1], get(&proc(0), Some("a"), &[]));
    assert_eq!(rig.lose(clone), []);
    assert_eq!(replies(&rig.put(peers[0], Scope::Global, "a", 1)).len(), 2);
}

#[test]
fn a_get_whose_target_finalizes_or_is_deregistered_is_answered_not_found() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(3, 3);
    rig.request(peers[2], get(&proc(0), Some("a"), &[]));
    let outputs = rig.request(peers[0], Request::Finalize);
    assert_eq!(statuses(&outputs), [(peers[0], Status::SUCCESS), (peers[2], Status::ERR_NOT_FOUND)]);
    rig.request(peers[2], get(&proc(1), Some("a"), &[]));
    let outputs = rig.host(HostCall::DeregisterClient(proc(1)));
    assert_eq!(statuses(&outputs), [(peers[2], Status::ERR_NOT_FOUND)]);
}

#[test]
fn a_scope_that_excludes_the_reader_is_said_so_at_once() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    rig.request(peers[1], get(&proc(0), Some("a"), &[]));
    let outputs = rig.put(peers[0], Scope::Remote, "a", 1);
    let expected = [(peers[0], Status::SUCCESS), (peers[1], Status::ERR_EXISTS_OUTSIDE_SCOPE)];
    assert_eq!(statuses(&outputs), expected);
}

#[test]
fn a_get_of_everything_waits_for_the_first_commit() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    assert_eq!(rig.request(peers[1], get(&proc(0), None, &[])), []);
    let outputs = rig.put(peers[0], Scope::Global, "a", 1);
    assert!(matches!(&replies(&outputs)[1], (_, Reply::Data(data)) if data[0].entries == [kval("a", 1)]));
}

/// The host describes some processes of the job alike.
fn describe(rig: &mut Rig, ranks: &[u32], own: &[Info]) {
    let of_rank = |rank: &u32| {
        let infos = std::iter::once(Info::new(key("pmix.rank"), Rank::Process(*rank))).chain(own.iter().cloned());
        Info::new(key("pmix.pdata"), Value::info_array(infos.collect()))
    };
    let description: Vec<Info> = ranks.iter().map(of_rank).collect();
    let namespace = namespace("job");
    let description = description.into();
    let job = crate::server::RegisterNamespace { namespace, local_count: None, description, nodata: false };
    rig.host(HostCall::RegisterNamespace(job));
}

/// Registered values were left out, and posted values were found under any scope.
#[test]
fn everything_is_what_a_process_posted_and_what_is_registered_for_it() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    let own = [("pmix.hname", "node7"), ("vendor", "registered"), ("both", "registered")];
    let own = own.map(|(name, text)| Info::new(key(name), text));
    describe(&mut rig, &[0, 1], &own);
    let everything = |rig: &mut Rig, directives: &[Info]| {
        let mut all = data(&rig.request(peers[1], get(&proc(0), None, directives)));
        all.sort_by(|a, b| a.key.cmp(&b.key));
        all
    };
    let immediate = Info::new(key("pmix.immediate"), true);
    let registered = everything(&mut rig, &[immediate]);
    let keys: Vec<&str> = registered.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(keys, ["both", "pmix.hname", "pmix.rank", "vendor"], "nothing posted, and not waited for");
    assert_eq!(rig.request(peers[1], get(&proc(0), None, &[timeout(9)])), [], "it may post yet");
    rig.put(peers[0], Scope::Global, "both", 5);
    rig.put(peers[0], Scope::Remote, "far", 6);
    let mut expected = registered;
    expected[0] = kval("both", 5);
    assert_eq!(everything(&mut rig, &[]), expected);
    let scope = |scope: Scope| Info::new(key("pmix.scope"), Value::Scope(scope.to_raw()));
    assert_eq!(everything(&mut rig, &[scope(Scope::Remote)]).len(), 2, "both and far, and nothing registered");
    let one = |rig: &mut Rig, name, of| rig.request(peers[1], get(&proc(0), Some(name), &[scope(of)]));
    assert_eq!(data(&one(&mut rig, "far", Scope::Remote)), [kval("far", 6)]);
    assert_eq!(statuses(&one(&mut rig, "far", Scope::Local)), [(peers[1], Status::ERR_EXISTS_OUTSIDE_SCOPE)]);
}

/// A key that is not reserved was searched only among posted values, although the value itself had to be sent.
#[test]
fn a_get_finds_a_registered_value_of_a_process_under_any_key() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(4, 2);
    let qualifier = || Info { flags: InfoFlags::QUALIFIER.bits(), ..Info::new(key("q"), 1) };
    let qualified = || Value::info_array(vec![Info::new(key("vendor"), "of one"), qualifier()]);
    describe(
        &mut rig,
        &[0, 3],
        &[Info::new(key("vendor"), "registered"), Info::new(key("pmix.qual.val"), qualified())],
    );
    let refresh = || flag("pmix.get.refresh");
    let told = Kval { key: key("vendor"), value: Value::from("registered") };
    for (rank, directives) in [(0, vec![]), (0, vec![refresh()]), (3, vec![]), (3, vec![refresh()])] {
        let asked = rig.request(peers[1], get(&proc(rank), Some("vendor"), &directives));
        assert_eq!(data(&asked), std::slice::from_ref(&told), "of {rank}, {directives:?}");
    }
    rig.put(peers[0], Scope::Global, "vendor", 5);
    assert_eq!(data(&rig.request(peers[1], get(&proc(0), Some("vendor"), &[refresh()]))), [kval("vendor", 5)]);
    for directives in [vec![qualifier()], vec![qualifier(), refresh()]] {
        let told = data(&rig.request(peers[1], get(&proc(0), Some("vendor"), &directives)));
        assert!(told.iter().any(|entry| entry.key == key("pmix.qual.val") && entry.value == qualified()), "{told:?}");
    }
}

#[test]
fn a_refresh_of_what_a_process_of_this_node_has_not_posted_does_not_wait() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    for target in [proc(0), proc(1), ProcId::new(namespace("job"), Rank::Undefined)] {
        let asked = rig.request(peers[1], get(&target, Some("a"), &[flag("pmix.get.refresh"), timeout(9)]));
        assert_eq!(statuses(&asked), [(peers[1], Status::ERR_NOT_FOUND)], "of {target}");
    }
}

#[test]
fn a_segment_reader_is_told_to_look_again_in_its_own_namespace_only() {
    let mut rig = Rig::new(Capabilities::empty());
    let other = ProcId::new(namespace("other"), 0);
    let local = rig.job(1, 1)[0];
    rig.register("other", Some(1), Some(1));
    rig.register_client(&other);
    let reader = rig.join(&other, SEGMENT);
    rig.put(local, Scope::Global, "a", 1);
    rig.put(reader, Scope::Global, "b", 2);
    let outputs = rig.request(reader, get(&other, Some("b"), &[]));
    assert_eq!(replies(&outputs), [(reader, Reply::Data(Vec::new()))]);
    let outputs = rig.request(reader, get(&proc(0), Some("a"), &[]));
    let expected = vec![
        RankData { proc: everybody(), entries: vec![kval("pmix.job.size", 1)] },
        RankData { proc: proc(0), entries: vec![kval("a", 1)] },
    ];
    assert_eq!(replies(&outputs), [(reader, Reply::Data(expected))]);
}

#[test]
fn job_level_keys_are_answered_or_not_found_at_once() {
    let mut rig = Rig::new(Capabilities::all());
    rig.register("job", Some(3), Some(1));
    rig.register_client(&proc(0));
    let (peer, outputs) = rig.connect(&proc(0), SOCKET);
    rig.complete(upcall(&outputs).0, crate::server::HostReply::Status(Status::SUCCESS));
    assert_eq!(data(&rig.request(peer, get(&everybody(), Some("pmix.job.size"), &[]))), [kval("pmix.job.size", 3)]);
    for (target, name) in [(everybody(), "pmix.univ.size"), (everybody(), "a"), (proc(2), "pmix.hname")] {
        let outputs = rig.request(peer, get(&target, Some(name), &[]));
        assert_eq!(statuses(&outputs), [(peer, Status::ERR_NOT_FOUND)]);
    }
}

#[test]
fn a_reserved_key_of_a_process_is_answered_alone() {
    let mut rig = Rig::new(Capabilities::empty());
    let peer = rig.job(2, 1)[0];
    describe(&mut rig, &[1], &[Info::new(key("pmix.hname"), "node7")]);
    let entries = data(&rig.request(peer, get(&proc(1), Some("pmix.hname"), &[])));
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].value, Value::from("node7"));
}

#[test]
fn peers_before_4_0_get_the_whole_job() {
    let mut rig = Rig::new(Capabilities::empty());
    rig.job(1, 1);
    let version = Version::new(3, 2, 0);
    let hello = Hello { proc: proc(0), credentials: OWNER, store: SOCKET, version, strangers: BTreeSet::new() };
    rig.input(Input::Connected(PeerId(50), hello));
    rig.host(HostCall::RegisterNamespace(crate::server::RegisterNamespace {
        namespace: namespace("job"),
        local_count: None,
        description: vec![Info::new(key("pmix.univ.size"), 9u32)].into(),
        nodata: false,
    }));
    let entries = data(&rig.request(PeerId(50), get(&everybody(), Some("pmix.job.size"), &[])));
    assert_eq!(entries, [kval("pmix.job.size", 1), kval("pmix.univ.size", 9)]);
}

/// Regression: the request was refused, and clients of OpenPMIx since 6.1 took their old copy for the current value.
#[test]
fn a_refresh_sends_all_that_a_process_has_posted() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    rig.put(peers[1], Scope::Global, "a", 1);
    rig.put(peers[1], Scope::Local, "b", 2);
    rig.put(peers[1], Scope::Remote, "c", 3);
    let refreshed = replies(&rig.request(peers[0], Request::RefreshCache(proc(1))));
    let [(_, Reply::Entries(entries))] = &refreshed[..] else { panic!("{refreshed:?}") };
    assert_eq!(*entries, [kval("a", 1), kval("b", 2)]);
    let nobody = rig.request(peers[0], Request::RefreshCache(everybody()));
    assert_eq!(statuses(&nobody), [(peers[0], Status::ERR_NOT_FOUND)]);
}

/// Regression: tools of OpenPMIx 4.2 ask about the job for values of its ranks, and look for them in the answer.
#[test]
fn the_description_of_another_job_comes_once_in_place_of_a_refusal() {
    let mut rig = super::tools::rig(Capabilities::empty(), ToolAdmission::Assigned);
    let member = rig.job(2, 2)[0];
    let (tool, _) = super::tools::tool(&mut rig, 50);
    // Regression: the description was the answer here too, and a value of the job passed for the node's.
    let of_node = [Info::new(key("pmix.hname"), "elsewhere")];
    let answers = rig.request(tool, get(&everybody(), Some("pmix.max.size"), &of_node));
    assert_eq!(statuses(&answers), [(tool, Status::ERR_NOT_FOUND)]);
    let mut ask = |peer, name| rig.request(peer, get(&everybody(), Some(name), &[]));
    assert_eq!(data(&ask(tool, "pmix.lrank")), [kval("pmix.job.size", 2)]);
    // Another one would tell nothing new. Members have it.
    for (peer, name) in [(tool, "pmix.lrank"), (tool, "pmix.grank"), (member, "pmix.lrank")] {
        assert_eq!(statuses(&ask(peer, name)), [(peer, Status::ERR_NOT_FOUND)]);
    }
}

#[test]
fn the_process_number_is_that_of_the_hosts_description() {
    let mut rig = super::tools::rig(Capabilities::empty(), ToolAdmission::Assigned);
    rig.job(2, 2);
    let (tool, _) = super::tools::tool(&mut rig, 50);
    let facts = ProcessFacts { proc: proc(1), pid: 4711, executable: None };
    rig.host(HostCall::DescribeProcess(facts));
    let entries = data(&rig.request(tool, get(&proc(1), Some("pmix.ppid"), &[])));
    assert_eq!(entries[0].value, Value::Pid(4711));
}

#[test]
fn a_key_of_nobody_in_particular_waits_until_somebody_posts_it() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    let anybody = ProcId::new(namespace("job"), Rank::Undefined);
    assert_eq!(rig.request(peers[0], get(&anybody, Some("root"), &[])), []);
    let outputs = rig.put(peers[1], Scope::Global, "root", 5);
    let expected = Reply::Data(vec![RankData { proc: anybody, entries: vec![kval("root", 5)] }]);
    assert_eq!(replies(&outputs)[1], (peers[0], expected));
}

#[test]
fn a_get_for_somebody_who_may_yet_be_registered_here_waits() {
    let mut rig = Rig::new(Capabilities::DIRECT_MODEX);
    rig.register("job", Some(4), Some(2));
    rig.register_client(&proc(0));
    let peer = rig.join(&proc(0), SOCKET);
    assert_eq!(rig.request(peer, get(&proc(1), Some("a"), &[])), []);
    assert_eq!(rig.request(peer, get(&proc(3), Some("a"), &[])), []);
    let (_, fetched) = upcall(&rig.register_client(&proc(1)));
    assert!(matches!(fetched, crate::server::Upcall::DirectModex(wanted) if wanted.proc == proc(3)));
    let second = rig.join(&proc(1), SOCKET);
    assert_eq!(replies(&rig.put(second, Scope::Global, "a", 1)).len(), 2);
}

#[test]
fn a_rank_beyond_the_job_is_not_found_and_a_special_rank_is_a_bad_parameter() {
    let mut rig = Rig::new(Capabilities::DIRECT_MODEX);
    let peer = rig.job(2, 1)[0];
    assert_eq!(statuses(&rig.request(peer, get(&proc(2), Some("a"), &[]))), [(peer, Status::ERR_NOT_FOUND)]);
    let nobody = ProcId::new(namespace("job"), Rank::LocalPeers);
    assert_eq!(statuses(&rig.request(peer, get(&nobody, Some("a"), &[]))), [(peer, Status::ERR_BAD_PARAM)]);
}

#[test]
fn a_lost_connection_drops_its_requests_and_disturbs_nobody() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(3, 3);
    rig.request(peers[1], get(&proc(0), Some("a"), &[timeout(9)]));
    rig.request(peers[2], get(&proc(0), Some("a"), &[]));
    assert_eq!(rig.lose(peers[1]), []);
    assert_eq!(rig.server.open_request_count(), 1);
    let outputs = rig.put(peers[0], Scope::Global, "a", 1);
    assert_eq!(replies(&outputs).iter().map(|(peer, _)| *peer).collect::<Vec<_>>(), [peers[0], peers[2]]);
}

/// Extending the description of an unregistered job created it: without a size or processes, and requests that waited
/// for the job went on.
#[test]
fn only_a_registered_job_is_extended() {
    let mut rig = Rig::new(Capabilities::empty());
    let extend = || {
        let values = vec![Info::new(key("site.colour"), 7_u32)];
        HostCall::ExtendNamespace(namespace("job"), values.into())
    };
    let status = |outputs: &[Output]| match outputs.last() {
        Some(Output::Complete(_, HostResult::Status(status) | HostResult::Failed { status, .. })) => *status,
        other => panic!("{other:?}"),
    };
    let result = rig.host(extend());
    assert_eq!((status(&result), result.len()), (Status::ERR_NOT_FOUND, 1), "and nothing else came of it");
    rig.register_client(&proc(0));
    assert_eq!(status(&rig.host(extend())), Status::ERR_NOT_FOUND, "its processes may be announced before it");
    rig.register("job", Some(1), Some(1));
    assert_eq!(status(&rig.host(extend())), Status::SUCCESS);
    let peer = rig.join(&proc(0), SOCKET);
    let immediate = [flag("pmix.immediate")];
    assert_eq!(data(&rig.request(peer, get(&everybody(), Some("site.colour"), &immediate))), [kval("site.colour", 7)]);
    assert_eq!(
        data(&rig.request(peer, get(&everybody(), Some("pmix.job.size"), &immediate))),
        [kval("pmix.job.size", 1)]
    );
}

/// The rule: the elements of a posted array are encoded in one turn, so their number is limited. Earlier values of the
/// commit are stored.
#[test]
fn a_huge_array_is_refused() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    let array = |count: u32| {
        let elements = (0..count).map(Value::from).collect();
        Value::DataArray(Box::new(DataArray { element_type: DataType::Uint32, elements }))
    };
    let mut commit = |values: [Value; 2]| {
        let entries = ["a", "b"].into_iter().zip(values).map(|(name, value)| Kval { key: key(name), value });
        replies(&rig.request(peers[0], Request::Commit(Commit { parts: vec![(Scope::Global, entries.collect())] })))
    };
    let status = |status| vec![(peers[0], Reply::Status(status))];
    assert_eq!(commit([array(30_000), array(30_000)]), status(Status::SUCCESS));
    assert_eq!(commit([Value::from("c".repeat(2 << 20)), array(40_000)]), status(Status::ERR_OUT_OF_RESOURCE));
    let elements = vec![Value::ByteObject(vec![7; 3 << 20]); 2];
    let blobs = Value::DataArray(Box::new(DataArray { element_type: DataType::ByteObject, elements }));
    assert_eq!(commit([Value::from(1_u32), blobs]), status(Status::SUCCESS), "the number counts, not the size");
    let empty =
        Value::DataArray(Box::new(DataArray { element_type: DataType::DataArray, elements: vec![array(0); 40_000] }));
    assert_eq!(commit([Value::from(2_u32), empty]), status(Status::ERR_OUT_OF_RESOURCE));
    let stored = rig.request(peers[1], get(&proc(0), Some("a"), &[flag("pmix.immediate")]));
    assert_eq!(data(&stored), [kval("a", 2)], "the values before it are stored");
}

/// Regression: one commit answered all held Gets in one turn, each with a copy of the value.
#[test]
fn one_commit_answers_many_held_gets_in_steps() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    for _ in 0..100 {
        assert_eq!(rig.request(peers[1], get(&proc(0), Some("a"), &[])), []);
    }
    let outputs = rig.put(peers[0], Scope::Global, "a", 1);
    assert_eq!(replies(&outputs).len(), 1 + 64, "the commit and the first step");
    assert_eq!(replies(&rig.wait(1)).len(), 36);
    assert_eq!(rig.wait(1), []);
}

/// Regression: the end of a job refused all held Gets about it in one turn. The rule: all of them are refused, even if
/// another job gets the name meanwhile, and none goes to the host.
#[test]
fn the_end_of_a_job_refuses_many_held_gets_in_steps() {
    let mut rig = Rig::new(Capabilities::DIRECT_MODEX);
    let peers = rig.job(1, 1);
    let other = ProcId::new(namespace("other"), 0);
    let begin = |rig: &mut Rig| {
        rig.register("other", Some(1), Some(1));
        rig.register_client(&other);
        rig.join(&other, SOCKET)
    };
    begin(&mut rig);
    for _ in 0..300 {
        assert_eq!(rig.request(peers[0], get(&other, Some("a"), &[timeout(60)])), []);
    }
    let refusals = |outputs: &[Output]| {
        assert!(!outputs.iter().any(|output| matches!(output, Output::Upcall(..))), "{outputs:?}");
        let refusal = (peers[0], Reply::Status(Status::ERR_NOT_FOUND));
        replies(outputs).into_iter().filter(|reply| *reply == refusal).count()
    };
    let mut refused = refusals(&rig.host(HostCall::DeregisterNamespace(namespace("other"))));
    assert_eq!(refused, 64);
    let writer = begin(&mut rig);
    assert_eq!(rig.request(peers[0], get(&other, Some("a"), &[])), []);
    let found = rig.put(writer, Scope::Global, "a", 1);
    assert!(!replies(&found).iter().any(|(_, reply)| matches!(reply, Reply::Data(_))), "not yet reviewed");
    refused += refusals(&found);
    let mut answers = 0;
    while refused < 300 || answers == 0 {
        let outputs = rig.wait(1);
        assert_ne!(outputs, [], "{refused} refused, {answers} answered");
        refused += refusals(&outputs);
        answers += replies(&outputs).iter().filter(|(_, reply)| matches!(reply, Reply::Data(_))).count();
    }
    assert_eq!((refused, answers), (300, 1), "the last one is about the new job");
}

#[test]
fn large_answers_to_held_gets_end_the_step() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    for _ in 0..10 {
        assert_eq!(rig.request(peers[1], get(&proc(0), Some("a"), &[timeout(1)])), []);
    }
    let value = Value::from("x".repeat(200 << 10));
    let parts = vec![(Scope::Global, vec![Kval { key: key("a"), value: value.clone() }])];
    let outputs = rig.request(peers[0], Request::Commit(Commit { parts }));
    assert_eq!(replies(&outputs).len(), 1 + 6, "the commit, and a little more than 1 MiB");
    let answer = RankData { proc: proc(0), entries: vec![Kval { key: key("a"), value }] };
    let rest = vec![(peers[1], Reply::Data(vec![answer])); 4];
    assert_eq!(replies(&rig.wait(1)), rest, "their time ends before their review");
}

/// Regression: the server's thread copied each large value. A thousand requests for one of 1 MiB took 1 GB.
#[test]
fn a_large_value_is_read_by_the_thread_that_sends_it() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    let entries = vec![kval("b", 1), Kval { key: key("a"), value: Value::from("x".repeat(1 << 20)) }];
    let parts = vec![(Scope::Global, entries.clone())];
    assert_eq!(replies(&rig.request(peers[0], Request::Commit(Commit { parts }))).len(), 1);
    let outputs = rig.request(peers[1], get(&proc(0), Some("a"), &[]));
    let [Output::Answer(_, _, Answer::Process(answer))] = outputs.as_slice() else { panic!("{outputs:?}") };
    assert_eq!(answer.clone().read().unwrap().entries, entries[1..]);
    assert_eq!(data(&rig.request(peers[1], get(&proc(0), Some("b"), &[]))), entries[..1]);
}

/// The rule: a change during the reviews of an earlier equal one begins another pass behind it. So no stream of changes
/// keeps a request from its review.
#[test]
fn changes_during_the_reviews_delay_no_request() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    let qualifier = |number: u32| Info { flags: InfoFlags::QUALIFIER.bits(), ..Info::new(key("q"), number) };
    for number in 0..150 {
        let directives = [qualifier(if number < 100 { 2 } else { 1 }), timeout(60)];
        assert_eq!(rig.request(peers[1], get(&proc(0), Some("a"), &directives)), []);
    }
    let values = vec![Info::new(key("a"), 5_u32), qualifier(1)];
    let qualified = Kval { key: Key::from_static("pmix.qual.val"), value: Value::info_array(values) };
    let mut answered = 0;
    for number in 0..10 {
        let entry = if number == 1 { qualified.clone() } else { kval("b", number) };
        let outputs = rig.request(peers[0], Request::Commit(Commit { parts: vec![(Scope::Global, vec![entry])] }));
        answered += replies(&outputs).len() - 1;
        answered += replies(&rig.wait(1)).len();
    }
    assert_eq!(answered, 50);
}

/// Regression: a step reviewed 64 requests, and a turn ended 256 of them. With qualifiers each took tens of
/// milliseconds.
#[test]
fn a_turn_judges_one_request_with_a_long_search() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    let qualifier = |number: u32| Info { flags: InfoFlags::QUALIFIER.bits(), ..Info::new(key("q"), number) };
    let value = |number| Value::info_array(vec![Info::new(key("a"), 5_u32), qualifier(number)]);
    let values = (0..80).map(|number| Kval { key: Key::from_static("pmix.qual.val"), value: value(number) }).collect();
    rig.request(peers[0], Request::Commit(Commit { parts: vec![(Scope::Global, values)] }));
    for _ in 0..5 {
        assert_eq!(rig.request(peers[1], get(&proc(0), Some("a"), &[qualifier(100), timeout(1)])), []);
    }
    rig.put(peers[0], Scope::Global, "b", 1);
    // The first two are reviewed before their time ends, and the others after it.
    let ended: Vec<usize> = (0..3).map(|_| replies(&rig.wait(1)).len()).collect();
    assert_eq!(ended, [3, 1, 1]);
}

/// Regression: the requests that one process waited for were reviewed behind all those of another one.
#[test]
fn reviews_because_of_one_change_do_not_wait_for_those_of_another() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(3, 3);
    let qualifier = Info { flags: InfoFlags::QUALIFIER.bits(), ..Info::new(key("q"), 1_u32) };
    assert_eq!(rig.request(peers[2], get(&proc(1), Some("a"), &[])), []);
    for _ in 0..400 {
        assert_eq!(rig.request(peers[1], get(&proc(0), Some("a"), &[qualifier.clone(), timeout(60)])), []);
    }
    rig.put(peers[0], Scope::Global, "b", 1);
    rig.put(peers[1], Scope::Global, "a", 2);
    let answered = (0..2).flat_map(|_| replies(&rig.wait(1))).collect::<Vec<_>>();
    assert!(matches!(&answered[..], [(peer, Reply::Data(_))] if *peer == peers[2]), "{answered:?}");
}

fn collecting() -> Request {
    fence(&[everybody()], &[flag("pmix.collect")])
}

/// Such a Get ended with a timeout after two seconds, although its fence still waited for the owner.
#[test]
fn a_get_during_a_collecting_fence_waits_for_a_neighbour_that_has_not_arrived() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(3, 3);
    rig.put(peers[0], Scope::Global, "other", 1);
    rig.request(peers[1], collecting());
    rig.request(peers[1], get(&proc(0), Some("a"), &[]));
    rig.request(peers[2], get(&proc(0), Some("a"), &[]));
    let late = statuses(&rig.wait(2));
    assert_eq!(late, [(peers[2], Status::ERR_TIMEOUT)], "only participants that have arrived wait longer");
    assert_eq!(rig.wait(60), []);
    let outputs = rig.put(peers[0], Scope::Global, "a", 2);
    assert!(matches!(&replies(&outputs)[1], (peer, Reply::Data(_)) if *peer == peers[1]), "{outputs:?}");
    rig.request(peers[1], get(&proc(0), Some("b"), &[]));
    rig.request(peers[0], collecting());
    assert_eq!(statuses(&rig.wait(4)), [(peers[1], Status::ERR_TIMEOUT)], "the owner has arrived without the key");
}

/// Such a Get was refused at once by a server whose host fetches nothing.
#[test]
fn a_get_during_a_collecting_fence_waits_for_what_the_fence_brings_from_other_nodes() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peers = rig.job(4, 2);
    assert_eq!(statuses(&rig.request(peers[1], get(&proc(3), Some("a"), &[]))), [(peers[1], Status::ERR_NOT_FOUND)]);
    rig.request(peers[0], collecting());
    let (upcall, _) = fence_upcall(&rig.request(peers[1], collecting()));
    for directive in ["pmix.immediate", "vendor.hint"] {
        let outputs = rig.request(peers[1], get(&proc(3), Some("a"), &[flag(directive)]));
        let is_immediate = directive == "pmix.immediate";
        let expected = if is_immediate { vec![(peers[1], Status::ERR_NOT_FOUND)] } else { Vec::new() };
        assert_eq!(statuses(&outputs), expected);
    }
    assert_eq!(rig.wait(60), []);
    let outputs = rig.complete(upcall, fenced(vec![(proc(3), vec![kval("a", 3)])]));
    let data = RankData { proc: proc(3), entries: vec![kval("a", 3)] };
    assert!(replies(&outputs).contains(&(peers[1], Reply::Data(vec![data]))), "{outputs:?}");
}

/// The other node had nothing at the time of the Get, and the refusal came before the fence.
#[test]
fn a_failed_fetch_during_a_collecting_fence_waits_for_its_end() {
    for is_good in [true, false] {
        let mut rig = Rig::new(Capabilities::FENCE | Capabilities::DIRECT_MODEX);
        let peers = rig.job(4, 2);
        rig.request(peers[0], collecting());
        let (gathering, _) = fence_upcall(&rig.request(peers[1], collecting()));
        let (fetch, _) = upcall(&rig.request(peers[1], get(&proc(3), Some("a"), &[])));
        assert_eq!(rig.complete(fetch, HostReply::Status(Status::ERR_NOT_FOUND)), []);
        assert_eq!(rig.wait(60), []);
        if is_good {
            let outputs = rig.complete(gathering, fenced(vec![(proc(3), vec![kval("a", 3)])]));
            assert!(matches!(replies(&outputs).last(), Some((_, Reply::Data(_)))), "{outputs:?}");
        } else {
            let failed = [0, 1].map(|at| (peers[at], Status::ERR_UNREACH));
            let outputs = rig.complete(gathering, HostReply::Status(Status::ERR_UNREACH));
            assert_eq!(statuses(&outputs), failed);
            // The other node may know more by now.
            let (fetch, _) = upcall(&outputs);
            let outputs = rig.complete(fetch, HostReply::Status(Status::ERR_NOT_FOUND));
            assert_eq!(statuses(&outputs), [(peers[1], Status::ERR_NOT_FOUND)]);
        }
    }
}

/// Such a Get ended with a timeout, two seconds after its fence.
#[test]
fn the_end_of_a_fence_without_the_value_answers_the_gets_that_waited_for_it() {
    for is_good in [true, false] {
        let mut rig = Rig::new(Capabilities::FENCE);
        let peers = rig.job(4, 2);
        rig.request(peers[0], collecting());
        let (gathering, _) = fence_upcall(&rig.request(peers[1], collecting()));
        assert_eq!(rig.request(peers[1], get(&proc(3), Some("a"), &[])), []);
        let reply = if is_good { fenced(Vec::new()) } else { HostReply::Status(Status::ERR_UNREACH) };
        let outputs = rig.complete(gathering, reply);
        assert!(statuses(&outputs).contains(&(peers[1], Status::ERR_NOT_FOUND)), "{outputs:?}");
    }
}

#[test]
fn a_get_during_a_fence_does_not_wait_for_a_process_that_has_gone() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(3, 3);
    rig.request(peers[1], collecting());
    assert_eq!(rig.request(peers[1], get(&proc(0), Some("a"), &[])), []);
    let outputs = rig.host(HostCall::DeregisterClient(proc(0)));
    assert!(statuses(&outputs).contains(&(peers[1], Status::ERR_NOT_FOUND)), "{outputs:?}");
}

/// Such Gets waited for fences that could not bring their data, some of them for ever.
#[test]
fn a_get_does_not_wait_for_a_fence_that_can_not_bring_its_data() {
    // All processes of another job, which is not registered here.
    let mut rig = Rig::new(Capabilities::FENCE | Capabilities::DIRECT_MODEX);
    let peer = rig.job(1, 1)[0];
    let others = ProcId { namespace: namespace("other"), rank: Rank::Wildcard };
    rig.request(peer, fence(&[proc(0), others.clone()], &[flag("pmix.collect")]));
    let (fetch, _) = upcall(&rig.request(peer, get(&others, Some("a"), &[])));
    let outputs = rig.complete(fetch, HostReply::Status(Status::ERR_NOT_FOUND));
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_NOT_FOUND)]);

    // A fence of this node alone, and one without data.
    let here = ProcId { namespace: namespace("job"), rank: Rank::LocalPeers };
    for request in [fence(&[here], &[flag("pmix.collect")]), fence(&[everybody()], &[])] {
        let mut rig = Rig::new(Capabilities::FENCE);
        let peer = rig.job(4, 2)[0];
        rig.request(peer, request);
        let outputs = rig.request(peer, get(&proc(3), Some("a"), &[]));
        assert_eq!(statuses(&outputs), [(peer, Status::ERR_NOT_FOUND)]);
    }

    // A value that is here, although the newest one is asked for.
    let mut rig = Rig::new(Capabilities::FENCE);
    let peers = rig.job(4, 2);
    rig.request(peers[0], collecting());
    let (gathering, _) = fence_upcall(&rig.request(peers[1], collecting()));
    rig.complete(gathering, fenced(vec![(proc(3), vec![kval("a", 3)])]));
    rig.request(peers[1], collecting());
    let outputs = rig.request(peers[1], get(&proc(3), Some("a"), &[flag("pmix.get.refresh")]));
    assert!(matches!(replies(&outputs)[..], [(_, Reply::Data(_))]), "{outputs:?}");
}

/// Regression: a Get that came before its process's fence ended after two seconds, although the fence could bring the
/// key.
#[test]
fn a_get_before_a_collecting_fence_waits_for_it_too() {
    let mut rig = Rig::new(Capabilities::FENCE);
    let peers = rig.job(2, 2);
    rig.put(peers[1], Scope::Global, "other", 1);
    assert_eq!(rig.request(peers[0], get(&proc(1), Some("late"), &[])), []);
    rig.wait(1);
    rig.request(peers[0], fence(&[everybody()], &[flag("pmix.collect")]));
    assert_eq!(rig.wait(3), []);
    let answers = replies(&rig.put(peers[1], Scope::Global, "late", 7));
    assert!(matches!(&answers[..], [_, (peer, Reply::Data(_))] if *peer == peers[0]), "{answers:?}");
}
