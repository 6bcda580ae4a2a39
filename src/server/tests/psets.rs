//! Process sets, and requests about sets and groups.

use super::harness::*;
use crate::proto::{Group, QueryInfo, RegisterEvents, Reply, Request, Version};
use crate::server::{
    Capabilities, Credentials, EventDelivery, Hello, HostCall, HostResult, Input, Output, PeerId, ProcessSet,
    RegisterClient,
};
use crate::types::{DataArray, DataType, Info, ProcId, Query, Rank, Status, Text, Value};

fn server() -> ProcId {
    ProcId::new(namespace("server"), 0)
}

fn define(rig: &mut Rig, name: &str, members: &[ProcId]) -> Vec<Output> {
    let set = ProcessSet { name: Text::from(name), members: members.to_vec(), source: server() };
    rig.host(HostCall::DefineProcessSet(set))
}

fn delete(rig: &mut Rig, name: &str) -> Vec<Output> {
    rig.host(HostCall::DeleteProcessSet { name: Text::from(name), source: server() })
}

fn result(outputs: &[Output]) -> Status {
    let status = outputs.iter().find_map(|output| match output {
        Output::Complete(_, HostResult::Status(status) | HostResult::Failed { status, .. }) => Some(*status),
        _ => None,
    });
    status.unwrap()
}

fn procs(procs: &[ProcId]) -> Value {
    let elements = procs.iter().cloned().map(Value::from).collect();
    Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements }))
}

fn ask(rig: &mut Rig, peer: PeerId, keys: &[&str], qualifiers: &[Info]) -> Result<Vec<Value>, Status> {
    let query = Query { keys: keys.iter().map(|key| Text::from(*key)).collect(), qualifiers: qualifiers.to_vec() };
    match replies(&rig.request(peer, Request::from(QueryInfo::new(vec![query])))).remove(0).1 {
        Reply::Infos(infos) => Ok(infos.into_iter().map(|info| info.value).collect()),
        Reply::Status(status) => Err(status),
        other => panic!("no answer: {other:?}"),
    }
}

fn named(name: &str) -> [Info; 1] {
    [Info::new(key("pmix.pset.nm"), name)]
}

/// The host got only a number.
#[test]
fn a_set_that_is_refused_says_why_and_what_to_do() {
    let mut rig = Rig::new(Capabilities::empty());
    let said = |outputs: Vec<Output>| {
        let reason = outputs.into_iter().find_map(|output| match output {
            Output::Complete(_, HostResult::Failed { reason, .. }) => Some(reason),
            _ => None,
        });
        reason.unwrap()
    };
    assert_eq!(said(define(&mut rig, "", &[proc(1)])), "its name is empty; give it one");
    assert!(said(define(&mut rig, "odd", &[])).contains("\"odd\" has no members; name one"));
    let nobody = ProcId { namespace: namespace("job"), rank: Rank::Undefined };
    assert!(said(define(&mut rig, "odd", &[nobody])).contains("in set \"odd\" is not a process; give its rank"));
    assert!(said(delete(&mut rig, "odd")).contains("no set \"odd\" is defined"));
}

#[test]
fn processes_are_told_of_sets_and_find_them_until_they_are_deleted() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(3, 2);
    let codes = vec![Status::PROCESS_SET_DEFINE, Status::PROCESS_SET_DELETE];
    rig.request(peers[0], Request::RegisterEvents(RegisterEvents { codes, directives: Vec::new() }));
    let outputs = define(&mut rig, "odd", &[proc(1)]);
    assert_eq!(result(&outputs), Status::SUCCESS);
    let told = outputs.iter().find_map(|output| match output {
        Output::Notify(peer, EventDelivery { event, .. }) if *peer == peers[0] => {
            Some((event.status, event.source.clone(), event.info.clone()))
        }
        _ => None,
    });
    let (status, source, info) = told.unwrap();
    assert_eq!((status, source), (Status::PROCESS_SET_DEFINE, Some(server())));
    assert_eq!(info[..2], [Info::new(key("pmix.pset.nm"), "odd"), Info::new(key("pmix.pset.mems"), procs(&[proc(1)]))]);
    define(&mut rig, "even", &[proc(0), proc(2)]);
    let both = ["pmix.qry.psetnum", "pmix.qry.psets"];
    assert_eq!(ask(&mut rig, peers[1], &both, &[]), Ok(vec![Value::Size(2), Value::from("even,odd")]));
    assert_eq!(ask(&mut rig, peers[1], &["pmix.qry.pmems"], &named("even")), Ok(vec![procs(&[proc(0), proc(2)])]));
    assert_eq!(ask(&mut rig, peers[1], &["pmix.qry.pmems"], &named("none")), Err(Status::ERR_NOT_FOUND));
    let outputs = delete(&mut rig, "even");
    let is_deletion = |output: &Output| matches!(output, Output::Notify(_, delivery) if delivery.event.status == Status::PROCESS_SET_DELETE);
    assert!(outputs.iter().any(is_deletion), "{outputs:?}");
    assert_eq!(result(&delete(&mut rig, "even")), Status::ERR_NOT_FOUND);
    assert_eq!(result(&define(&mut rig, "", &[proc(0)])), Status::ERR_BAD_PARAM);
    assert_eq!(result(&define(&mut rig, "empty", &[])), Status::ERR_BAD_PARAM);
    rig.host(HostCall::DeregisterNamespace(namespace("job")));
    let peer = rig.job(1, 1)[0];
    assert_eq!(ask(&mut rig, peer, &["pmix.qry.psetnum"], &[]), Ok(vec![Value::Size(0)]), "it went with its job");
}

/// A requester does not see the names of other users' sets and groups.
#[test]
fn groups_and_process_sets_are_hidden_from_other_users() {
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(2, 2);
    for &peer in &peers {
        let group = Group { command: 24, id: Some(Text::from("g")), procs: vec![everybody()], directives: vec![] };
        rig.request(peer, Request::GroupConstruct(group));
    }
    define(&mut rig, "s", &[everybody()]);
    let stranger = ProcId::new(namespace("other"), 0);
    rig.register("other", Some(1), Some(1));
    let credentials = Credentials { uid: 4321, gid: 4321 };
    let client = RegisterClient { proc: stranger.clone(), uid: 4321, gid: 4321, object: 0 };
    rig.host(HostCall::RegisterClient(client));
    let outsider = PeerId(99);
    let version = Version::new(5, 0, 0);
    rig.input(Input::Connected(
        outsider,
        Hello { proc: stranger, credentials, store: SOCKET, version, strangers: std::collections::BTreeSet::new() },
    ));
    let keys = ["pmix.qry.pgrpnum", "pmix.qry.pgrp", "pmix.qry.psetnum"];
    let texts = |texts: &[&str]| {
        let elements = texts.iter().map(|text| Value::from(*text)).collect();
        Value::DataArray(Box::new(DataArray { element_type: DataType::String, elements }))
    };
    let found = ask(&mut rig, peers[0], &keys, &[]);
    assert_eq!(found, Ok(vec![Value::Size(1), texts(&["g"]), Value::Size(1)]));
    assert_eq!(ask(&mut rig, outsider, &keys, &[]), Ok(vec![Value::Size(0), texts(&[]), Value::Size(0)]));
    let of_group = [Info::new(key("pmix.grp.id"), "g")];
    let membership = ["pmix.qry.pgrpmems"];
    assert_eq!(ask(&mut rig, peers[0], &membership, &of_group), Ok(vec![procs(&[proc(0), proc(1)])]));
    assert_eq!(ask(&mut rig, outsider, &membership, &of_group), Err(Status::ERR_NOT_FOUND));
}

/// The result of a Get for a process: the names, or the status.
fn names(rig: &mut Rig, peer: PeerId, of: &ProcId, wanted: &'static str, directives: &[Info]) -> Result<Value, Status> {
    match replies(&rig.request(peer, get(of, Some(wanted), directives))).remove(0).1 {
        Reply::Data(data) => Ok(data[0].entries[0].value.clone()),
        Reply::Status(status) => Err(status),
        other => panic!("no answer: {other:?}"),
    }
}

fn texts(texts: &[&str]) -> Value {
    let elements = texts.iter().map(|text| Value::from(*text)).collect();
    Value::DataArray(Box::new(DataArray { element_type: DataType::String, elements }))
}

/// A Get of these keys ended with "not found", because the reader looked only into the segment.
#[test]
fn a_get_tells_the_names_of_sets_and_groups_that_a_process_is_in_at_the_moment() {
    const SETS: &str = "pmix.pset.nms";
    const GROUPS: &str = "pmix.pgrp.nm";
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(3, 2);
    let mapping = rig.join(&proc(0), SEGMENT);
    let none = Err(Status::ERR_NOT_FOUND);
    assert_eq!(names(&mut rig, peers[0], &proc(1), SETS, &[]), none);
    define(&mut rig, "odd", &[proc(1)]);
    define(&mut rig, "all", &[everybody()]);
    define(&mut rig, "even", &[proc(0), proc(2)]);
    for peer in [peers[0], mapping] {
        assert_eq!(names(&mut rig, peer, &proc(1), SETS, &[]), Ok(texts(&["all", "odd"])));
        assert_eq!(names(&mut rig, peer, &proc(2), SETS, &[]), Ok(texts(&["all", "even"])), "who runs elsewhere");
        assert_eq!(names(&mut rig, peer, &proc(1), GROUPS, &[]), none);
    }
    delete(&mut rig, "all");
    assert_eq!(names(&mut rig, mapping, &proc(1), SETS, &[]), Ok(texts(&["odd"])));
    for &peer in &peers {
        let directives = vec![flag("pmix.grp.actxid")];
        let procs = vec![proc(0), proc(1)];
        rig.request(peer, Request::GroupConstruct(Group { command: 24, id: Some(Text::from("g")), procs, directives }));
    }
    // The job has remote processes, so no server could number the group.
    assert_eq!(names(&mut rig, mapping, &proc(1), GROUPS, &[]), none);
    for &peer in &peers {
        let procs = vec![proc(0), proc(1)];
        let group = Group { command: 24, id: Some(Text::from("g")), procs, directives: vec![] };
        rig.request(peer, Request::GroupConstruct(group));
    }
    assert_eq!(names(&mut rig, mapping, &proc(1), GROUPS, &[]), Ok(texts(&["g"])));
    assert_eq!(names(&mut rig, mapping, &proc(2), GROUPS, &[]), none);
    let keys = [SETS, GROUPS];
    let asked = ask(&mut rig, peers[0], &keys, &[Info::new(key("pmix.procid"), Value::from(proc(1)))]);
    assert_eq!(asked, Ok(vec![texts(&["odd"]), texts(&["g"])]), "a query tells the same");
}

#[test]
fn a_groups_number_is_found_by_its_name() {
    const NUMBER: &str = "pmix.grp.ctxid";
    let mut rig = Rig::new(Capabilities::empty());
    let peers = rig.job(1, 1);
    for id in ["g", "h"] {
        let directives = vec![flag("pmix.grp.actxid")];
        let group = Group { command: 24, id: Some(Text::from(id)), procs: vec![proc(0)], directives };
        rig.request(peers[0], Request::GroupConstruct(group));
    }
    for (id, number) in [("g", 1), ("h", 2)] {
        let named = [Info::new(key("pmix.grp.id"), id)];
        assert_eq!(names(&mut rig, peers[0], &everybody(), NUMBER, &named), Ok(Value::Size(number)));
        assert_eq!(ask(&mut rig, peers[0], &[NUMBER], &named), Ok(vec![Value::Size(number)]));
    }
    let other = [Info::new(key("pmix.grp.id"), "other")];
    for directives in [&[][..], &other] {
        assert_eq!(names(&mut rig, peers[0], &proc(0), NUMBER, directives), Err(Status::ERR_NOT_FOUND));
    }
}
