//! Requests that are passed up: one of each kind, and its possible results.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::harness::*;
use crate::events::Event;
use crate::gds::model::MapStore;
use crate::keys;
use crate::proto::{
    Allocate, Command, Credential, FabricRegister, FabricUpdate, GetCredential, IofPull, IofPush, JobControl, Log,
    Lookup, Monitor, Publish, QueryInfo, Reply, Request, ResourceBlock, Service, SessionControl, Spawn, Unpublish,
    ValidateCredential,
};
use crate::server::{
    Answer, Capabilities, HostCall, HostReply, Output, PeerId, Requester, ServerConfig, Upcall, UpcallId,
};
use crate::types::codes::range::RANGE_SESSION;
use crate::types::{App, Info, Pdata, ProcId, Query, Status, Text, Value};

const EVERYBODYS_CLAIM: [&str; 2] = ["pmix.euid", "pmix.egid"];

/// Directives in which a client claims to be root.
fn claims() -> Vec<Info> {
    let mut directives: Vec<Info> = EVERYBODYS_CLAIM.map(|name| Info::new(key(name), 0u32)).into();
    directives.push(flag("pmix.custom"));
    directives
}

/// One request of each family, with its capability.
fn requests() -> Vec<(Capabilities, Request)> {
    let wanted = || vec![key("a")];
    let procs = || vec![proc(0)];
    vec![
        (Capabilities::PUBLISH, Request::from(Publish { uid: 0, info: claims() })),
        (Capabilities::LOOKUP, Request::from(Lookup::new(wanted(), claims()))),
        (Capabilities::UNPUBLISH, Request::from(Unpublish::new(wanted(), claims()))),
        (Capabilities::SPAWN, Request::from(Spawn { job: claims(), apps: Vec::new() })),
        (Capabilities::QUERY, query()),
        (Capabilities::LOG, Request::from(Log { timestamp: Some(9), data: Vec::new(), directives: claims() })),
        (Capabilities::ALLOCATE, Request::from(Allocate { directive: 1, info: claims() })),
        (Capabilities::JOB_CONTROL, Request::from(JobControl { targets: procs(), directives: claims() })),
        (
            Capabilities::MONITOR,
            Request::from(Monitor { monitor: flag("pmix.x"), error: Status::ERROR, directives: claims() }),
        ),
        (Capabilities::GET_CREDENTIAL, Request::from(GetCredential::new(claims()))),
        (
            Capabilities::VALIDATE_CREDENTIAL,
            Request::from(ValidateCredential { credential: vec![1], directives: claims() }),
        ),
        (Capabilities::IOF_PULL, pull()),
        (
            Capabilities::IOF_PUSH,
            Request::from(IofPush { targets: procs(), directives: claims(), bytes: b"in".to_vec() }),
        ),
        (Capabilities::FABRIC_REGISTER, Request::from(FabricRegister::new(claims()))),
        (Capabilities::FABRIC_UPDATE, Request::from(FabricUpdate::new(7))),
        (Capabilities::RESOURCE_BLOCK, Request::from(ResourceBlock::new(1, None, Vec::new(), claims()))),
        (Capabilities::SESSION_CONTROL, Request::from(SessionControl::new(3, claims()))),
    ]
}

fn query() -> Request {
    Request::from(QueryInfo::new(vec![Query { keys: vec![Text::from("pmix.qry.qlst")], qualifiers: claims() }]))
}

fn pull() -> Request {
    Request::IofPull(IofPull { procs: vec![proc(0)], directives: claims(), channels: 2, local_id: Some(5) })
}

/// The requester and the directives of any of these upcalls. An update of a fabric has none.
fn parts(upcall: Upcall) -> (Requester, Vec<Info>) {
    match upcall {
        Upcall::IofPull(requester, pull) => (requester, pull.directives),
        Upcall::Service(requester, service) => {
            (requester, service.directives().into_iter().flatten().cloned().collect())
        }
        other => panic!("not passed up as it is: {other:?}"),
    }
}

fn values<'a>(directives: &'a [Info], name: &str) -> Vec<&'a Value> {
    directives.iter().filter(|info| info.key.as_str() == name).map(|info| &info.value).collect()
}

/// A server with these capabilities, and one client that has sent the request. Returns the upcall, too.
fn asked(capabilities: Capabilities, request: Request) -> (Rig, PeerId, UpcallId) {
    let mut rig = Rig::new(capabilities);
    let peer = rig.job(1, 1)[0];
    let outputs = rig.request(peer, request);
    let (id, _) = upcall(&outputs);
    (rig, peer, id)
}

#[test]
fn every_service_is_tested_here() {
    let tested: BTreeSet<Command> = requests().iter().map(|(_, request)| request.command()).collect();
    let missing = Command::ALL.iter().filter(|command| command.is_service() && !tested.contains(command));
    assert_eq!(missing.collect::<Vec<_>>(), [&Command::Commit; 0]);
}

#[test]
fn every_capability_has_a_bit_of_its_own() {
    let bits = <Capabilities as bitflags::Flags>::FLAGS.iter().map(|flag| flag.value().bits());
    assert_eq!(bits.map(u32::count_ones).sum::<u32>(), Capabilities::all().bits().count_ones());
}

#[test]
fn without_the_hosts_capability_nothing_is_passed_up() {
    for (needs, request) in requests() {
        let mut rig = Rig::new(Capabilities::DIRECT_MODEX | Capabilities::ABORT);
        let peer = rig.job(1, 1)[0];
        assert_eq!(statuses(&rig.request(peer, request)), [(peer, Status::ERR_NOT_SUPPORTED)], "{needs:?}");
    }
}

#[test]
fn the_host_learns_who_asks_from_the_kernel_alone() {
    for (needs, request) in requests() {
        let mut rig = Rig::new(needs);
        let peer = rig.job(1, 1)[0];
        let (requester, directives) = parts(upcall(&rig.request(peer, request)).1);
        assert_eq!(requester, Requester { proc: proc(0), object: 77, uid: OWNER.uid, gid: OWNER.gid });
        if needs == Capabilities::FABRIC_UPDATE {
            assert_eq!(directives, []);
            continue;
        }
        assert_eq!(values(&directives, "pmix.euid"), [&Value::Uint32(OWNER.uid)], "{needs:?}");
        assert_eq!(values(&directives, "pmix.egid"), [&Value::Uint32(OWNER.gid)], "{needs:?}");
        assert_eq!(values(&directives, "pmix.custom"), [&Value::Bool(true)], "{needs:?}: the rest is untouched");
    }
}

#[test]
fn the_hosts_failure_is_the_answer() {
    for (needs, request) in requests() {
        let (mut rig, peer, id) = asked(needs, request);
        let outputs = rig.complete(id, HostReply::Status(Status::ERR_NO_PERMISSIONS));
        assert_eq!(statuses(&outputs), [(peer, Status::ERR_NO_PERMISSIONS)], "{needs:?}");
        assert_eq!(rig.complete(id, HostReply::Status(Status::SUCCESS)), [], "{needs:?}: a second answer is ignored");
    }
}

#[test]
fn a_host_that_never_answers_is_a_timeout_and_its_late_answer_ignored() {
    for (needs, request) in requests() {
        let config = ServerConfig {
            capabilities: needs,
            host_timeout: Some(Duration::from_secs(60)),
            ..ServerConfig::default()
        };
        let mut rig = Rig::with(config, MapStore::new());
        let peer = rig.job(1, 1)[0];
        let (id, _) = upcall(&rig.request(peer, request));
        assert_eq!(statuses(&rig.wait(60)), [(peer, Status::ERR_TIMEOUT)], "{needs:?}");
        assert_eq!(rig.complete(id, HostReply::Status(Status::SUCCESS)), [], "{needs:?}");
    }
}

#[test]
fn the_answer_for_one_who_has_died_goes_to_nobody() {
    for (needs, request) in requests() {
        let (mut rig, peer, id) = asked(needs, request);
        rig.lose(peer);
        assert_eq!(rig.server.upcall_count(), 0, "{needs:?}");
        assert_eq!(rig.complete(id, HostReply::Status(Status::SUCCESS)), [], "{needs:?}");
    }
}

#[test]
fn an_answer_of_another_shape_is_an_error() {
    for (needs, request) in requests() {
        let (mut rig, peer, id) = asked(needs, request);
        let outputs = rig.complete(id, HostReply::DirectModex(Vec::new()));
        assert_eq!(statuses(&outputs), [(peer, Status::ERROR)], "{needs:?}");
    }
}

#[test]
fn done_at_once_is_success() {
    for (needs, request) in requests() {
        let (mut rig, peer, id) = asked(needs, request);
        let outputs = rig.complete(id, HostReply::Status(Status::OPERATION_SUCCEEDED));
        let expected = match needs {
            Capabilities::LOOKUP => Reply::Lookup(Vec::new()),
            Capabilities::IOF_PULL => Reply::IofPulled(1),
            Capabilities::GET_CREDENTIAL => Reply::Credential(Credential { bytes: Vec::new(), info: Vec::new() }),
            // A job without a name is an error.
            Capabilities::SPAWN => Reply::Status(Status::ERROR),
            Capabilities::PUBLISH
            | Capabilities::UNPUBLISH
            | Capabilities::LOG
            | Capabilities::IOF_PUSH
            | Capabilities::RESOURCE_BLOCK => Reply::Status(Status::SUCCESS),
            _ => Reply::Infos(Vec::new()),
        };
        assert_eq!(replies(&outputs), [(peer, expected)], "{needs:?}");
    }
}

#[test]
fn results_are_handed_on_with_their_status() {
    let (mut rig, peer, id) = asked(Capabilities::QUERY, query());
    let info = vec![flag("fact")];
    let outputs = rig.complete(id, HostReply::Infos { status: Status::SUCCESS, info: info.clone() });
    assert_eq!(replies(&outputs), [(peer, Reply::Infos(info.clone()))]);

    let (mut rig, peer, id) = asked(Capabilities::QUERY, query());
    let outputs = rig.complete(id, HostReply::Infos { status: Status::ERR_PARTIAL_SUCCESS, info: info.clone() });
    let results = Box::new(Reply::Infos(info));
    assert_eq!(replies(&outputs), [(peer, Reply::Partial { status: Status::ERR_PARTIAL_SUCCESS, results })]);

    let (mut rig, peer, id) = asked(Capabilities::QUERY, query());
    let outputs = rig.complete(id, HostReply::Infos { status: Status::ERR_NOT_FOUND, info: Vec::new() });
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_NOT_FOUND)]);
}

/// The host answered one of two queries for one key, without saying which: it counted for both, and as success. Its
/// answers were lost if only this server could not read a query.
#[test]
fn a_partial_answer_of_the_host_stays_partial_with_its_facts() {
    let wanted = |rank: u32, other: &[Info]| Query {
        keys: vec![Text::from("site.fact")],
        qualifiers: [&[Info::new(key("pmix.procid"), proc(rank))], other].concat(),
    };
    let unreadable = [Info::new(key("pmix.rank"), Value::ProcRank(crate::types::Rank::from(1)))];
    for other in [&[][..], &unreadable] {
        let queries = vec![wanted(0, &[]), wanted(1, other)];
        let (mut rig, peer, id) = asked(Capabilities::QUERY, Request::from(QueryInfo::new(queries)));
        let info = vec![flag("site.fact")];
        let outputs = rig.complete(id, HostReply::Infos { status: Status::ERR_PARTIAL_SUCCESS, info: info.clone() });
        let results = Box::new(Reply::Infos(info));
        assert_eq!(replies(&outputs), [(peer, Reply::Partial { status: Status::ERR_PARTIAL_SUCCESS, results })]);
    }
}

/// A host whose module has no function for queries returns this status, and so does one without the answer.
#[test]
fn the_server_answers_queries_that_the_host_does_not_support() {
    let nothing = HostReply::Infos { status: Status::ERR_NOT_SUPPORTED, info: Vec::new() };
    for reply in [HostReply::Status(Status::ERR_NOT_SUPPORTED), nothing] {
        let wanted = Query { keys: vec![Text::from(keys::QUERY_SUPPORTED_KEYS.name())], qualifiers: Vec::new() };
        let (mut rig, peer, id) = asked(Capabilities::QUERY, Request::from(QueryInfo::new(vec![wanted])));
        let outputs = rig.complete(id, reply);
        let [(to, Reply::Infos(found))] = &replies(&outputs)[..] else { panic!("{outputs:?}") };
        assert_eq!((*to, found[0].key.as_str()), (peer, keys::QUERY_SUPPORTED_KEYS.name()));
    }
}

#[test]
fn published_data_and_credentials_are_handed_on() {
    let lookup = Request::from(Lookup { uid: 0, keys: vec![key("a")], directives: Vec::new() });
    let (mut rig, peer, id) = asked(Capabilities::LOOKUP, lookup);
    let found = vec![Pdata { proc: proc(4), key: key("a"), value: Value::Uint32(7) }];
    let outputs = rig.complete(id, HostReply::Lookup { status: Status::SUCCESS, found: found.clone() });
    assert_eq!(replies(&outputs), [(peer, Reply::Lookup(found))]);

    let (mut rig, peer, id) = asked(Capabilities::GET_CREDENTIAL, Request::from(GetCredential::new(Vec::new())));
    let credential = Credential { bytes: vec![1, 2], info: vec![flag("by")] };
    let outputs = rig.complete(id, HostReply::Credential(credential.clone()));
    assert_eq!(replies(&outputs), [(peer, Reply::Credential(credential))]);
}

#[test]
fn a_spawned_job_knows_its_parent() {
    let mut rig = Rig::new(Capabilities::SPAWN);
    let peer = rig.job(1, 1)[0];
    let lie = vec![Info::new(key("pmix.parent"), Value::from(proc(9)))];
    let (_, upcall) = upcall(&rig.request(peer, Request::from(Spawn { job: lie, apps: Vec::new() })));
    let (_, job) = parts(upcall);
    assert_eq!(values(&job, "pmix.parent"), [&Value::from(proc(0))]);
    assert_eq!(values(&job, "pmix.spawned"), [&Value::Bool(true)]);
    assert_eq!(values(&job, "pmix.req.client"), [&Value::Bool(true)]);
}

/// A parent of a wrong type went on to the host in an application's directives. A host that reads it as a process reads
/// invalid memory. The server checks the values that it does not overwrite.
#[test]
fn a_parent_that_is_no_process_is_refused() {
    let mut rig = Rig::new(Capabilities::SPAWN);
    let peer = rig.job(1, 1)[0];
    let mistyped = || vec![Info::new(key("pmix.parent"), "job")];
    let app = App {
        command: None,
        argv: Vec::new(),
        environment: Vec::new(),
        working_directory: None,
        processes_max: 1,
        info: mistyped(),
    };
    for spawn in [Spawn { job: mistyped(), apps: Vec::new() }, Spawn { job: Vec::new(), apps: vec![app] }] {
        let outputs = rig.request(peer, Request::from(spawn));
        assert_eq!(statuses(&outputs), [(peer, Status::ERR_BAD_PARAM)]);
        assert!(upcalls(&outputs).is_empty(), "{outputs:?}");
    }
}

#[test]
fn the_name_of_a_spawned_job_comes_with_what_is_known_of_it() {
    let spawn = || Request::from(Spawn { job: Vec::new(), apps: Vec::new() });
    let (mut rig, peer, id) = asked(Capabilities::SPAWN, spawn());
    rig.register("child", Some(3), Some(0));
    let outputs = rig.complete(id, HostReply::Spawned(namespace("child")));
    let [(to, Reply::Spawned { namespace: name, entries })] = &replies(&outputs)[..] else { panic!("{outputs:?}") };
    assert_eq!((*to, name), (peer, &Text::from("child")));
    assert!(entries.contains(&crate::types::Kval { key: JOB_SIZE, value: 3u32.into() }), "{entries:?}");

    let (mut rig, peer, id) = asked(Capabilities::SPAWN, spawn());
    let outputs = rig.complete(id, HostReply::Spawned(namespace("elsewhere")));
    let expected = Reply::Spawned { namespace: Text::from("elsewhere"), entries: Vec::new() };
    assert_eq!(replies(&outputs), [(peer, expected)]);
}

#[test]
fn a_log_request_names_its_process_and_its_time() {
    let mut rig = Rig::new(Capabilities::LOG);
    let peer = rig.job(1, 1)[0];
    let directives = vec![Info::new(key("pmix.log.source"), Value::from(ProcId::new(namespace("else"), 3)))];
    let request = Request::from(Log { timestamp: Some(9), data: vec![flag("pmix.log.stderr")], directives });
    let Upcall::Service(_, Service::Log(log)) = upcall(&rig.request(peer, request)).1 else { panic!("not a log") };
    assert_eq!(values(&log.directives, "pmix.log.source"), [&Value::from(proc(0))]);
    assert_eq!(values(&log.directives, "pmix.log.tstmp"), [&Value::Time(9)]);
    assert_eq!(log.data, [flag("pmix.log.stderr")]);
}

/// A connection went on as a process that belonged to another user by then.
#[test]
fn a_connection_ends_when_its_process_is_announced_with_other_ids() {
    let mut rig = Rig::new(Capabilities::PUBLISH);
    let peer = rig.job(1, 1)[0];
    rig.register_client(&proc(0));
    let (requester, _) = parts(upcall(&rig.request(peer, requests().remove(0).1)).1);
    assert_eq!((requester.uid, requester.gid), (OWNER.uid, OWNER.gid), "announced again with the same");
    let client = crate::server::RegisterClient { proc: proc(0), uid: 0, gid: 0, object: 5 };
    let outputs = rig.host(crate::server::HostCall::RegisterClient(client));
    let is_close = |output: &Output| matches!(output, Output::Close(closed, _) if *closed == peer);
    assert_eq!(outputs.iter().filter(|output| is_close(output)).count(), 1, "{outputs:?}");
    assert_eq!(rig.request(peer, requests().remove(0).1), []);
}

#[test]
fn peers_are_resolved_only_in_namespaces_that_are_known() {
    let mut rig = Rig::new(Capabilities::empty());
    let peer = rig.job(1, 1)[0];
    let unknown = Some(Text::from("unknown"));
    let peers = Request::ResolvePeers(crate::proto::ResolvePeers { node: None, namespace: unknown.clone() });
    assert_eq!(statuses(&rig.request(peer, peers)), [(peer, Status::ERR_INVALID_NAMESPACE)]);
    assert_eq!(statuses(&rig.request(peer, Request::ResolveNode(unknown))), [(peer, Status::ERR_INVALID_NAMESPACE)]);
    // Registered without a placement.
    let known = Some(Text::from("job"));
    let peers = Request::ResolvePeers(crate::proto::ResolvePeers { node: None, namespace: known.clone() });
    assert_eq!(statuses(&rig.request(peer, peers)), [(peer, Status::ERR_DATA_VALUE_NOT_FOUND)]);
    assert_eq!(statuses(&rig.request(peer, Request::ResolveNode(known))), [(peer, Status::ERR_DATA_VALUE_NOT_FOUND)]);
    let everywhere = rig.request(peer, Request::ResolveNode(None));
    assert!(
        matches!(&everywhere[..], [Output::Answer(_, _, Answer::Reply(Reply::Nodes(names)))] if names.as_bytes().is_empty())
    );
    // A list of nodes has no placement either.
    rig.host(crate::server::HostCall::RegisterNamespace(crate::server::RegisterNamespace {
        namespace: namespace("job"),
        local_count: None,
        description: vec![Info::new(key("pmix.nlist"), "node0,node1")].into(),
        nodata: false,
    }));
    for node in [None, Some(Text::from("node1"))] {
        let peers = Request::ResolvePeers(crate::proto::ResolvePeers { node, namespace: Some(Text::from("job")) });
        assert_eq!(statuses(&rig.request(peer, peers)), [(peer, Status::ERR_DATA_VALUE_NOT_FOUND)]);
    }
}

/// The runtime of a server that stages files acts, also if the host controls jobs. Otherwise the host decides, also
/// with storage.
#[test]
fn requests_about_files_are_the_runtimes_of_a_server_that_stages_files() {
    let stage = |seconds| {
        let infos = vec![Info::new(key("modex.storage.cache"), "/a/file"), timeout(seconds)];
        Request::from(JobControl { targets: Vec::new(), directives: infos })
    };
    let rig = |capabilities, stages_files| {
        let config = ServerConfig { capabilities, answers_storage: true, stages_files, ..ServerConfig::default() };
        let mut rig = Rig::with(config, MapStore::new());
        rig.register("job", Some(1), Some(1));
        rig.register_client(&proc(0));
        let peer = rig.join(&proc(0), SOCKET);
        (rig, peer)
    };
    for capabilities in [Capabilities::empty(), Capabilities::JOB_CONTROL] {
        let (mut rig, peer) = rig(capabilities, true);
        let (id, asked) = upcall(&rig.request(peer, stage(0)));
        let Upcall::Service(requester, service) = asked else { panic!("{asked:?}") };
        assert_eq!(requester.proc, proc(0));
        assert!(rig.server.is_own_service(&service), "{service:?}");
        let found = vec![Info::new(key("modex.storage.failed"), "/a/file")];
        let reply = HostReply::Infos { status: Status::ERR_NOT_FOUND, info: found.clone() };
        let results = Box::new(Reply::Infos(found));
        let partial = Reply::Partial { status: Status::ERR_NOT_FOUND, results };
        assert_eq!(replies(&rig.complete(id, reply)), [(peer, partial)]);
        // A file system may not answer.
        let (id, _) = upcall(&rig.request(peer, stage(3)));
        assert_eq!(statuses(&rig.wait(3)), [(peer, Status::ERR_TIMEOUT)]);
        assert_eq!(replies(&rig.complete(id, HostReply::Status(Status::SUCCESS))), []);
    }
    let (mut without, peer) = rig(Capabilities::empty(), false);
    assert_eq!(statuses(&without.request(peer, stage(0))), [(peer, Status::ERR_NOT_SUPPORTED)]);
    let (mut hosted, peer) = rig(Capabilities::JOB_CONTROL, false);
    let (_, asked) = upcall(&hosted.request(peer, stage(0)));
    let Upcall::Service(_, service) = asked else { panic!("{asked:?}") };
    assert!(!hosted.server.is_own_service(&service));
}

/// Regression: the areas `event`, `host` and `service` of the log had no line at the level `debug`.
#[test]
fn events_services_and_questions_to_the_host_have_lines_in_the_log() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let lines = tracing_subscriber::fmt().with_ansi(false).with_max_level(tracing::Level::DEBUG);
    let lines = lines.with_writer(Arc::new(log.reopen().unwrap())).finish();
    tracing::subscriber::with_default(lines, || {
        let mut rig = Rig::new(Capabilities::PUBLISH);
        let peer = rig.job(1, 1)[0];
        let (id, _) = upcall(&rig.request(peer, Request::from(Publish { uid: 0, info: Vec::new() })));
        let _ = rig.complete(id, HostReply::Status(Status::SUCCESS));
        let event = Event { status: Status::JCTRL_CHECKPOINT, source: None, range: RANGE_SESSION, info: Vec::new() };
        rig.host(HostCall::NotifyEvent(event));
    });
    let said = std::fs::read_to_string(log.path()).unwrap();
    for line in [
        "modex::server::rules::events: an event goes to",
        "modex::server::rules::host_request: a request for a service",
        "modex::server::rules::upcalls: the host is asked",
        "modex::server::dispatch::answers: the host has answered",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
}
