//! Monitoring that the server shares with its host.

use std::sync::Arc;

use super::harness::*;
use crate::gds::model::MapStore;
use crate::keys;
use crate::proto::{Monitor, Reply, Request, Service};
use crate::server::{Capabilities, HostReply, Output, PeerId, Requester, ServerConfig, Upcall, UpcallId};
use crate::topo::inventory::{Inventory, StoredInventory};
use crate::types::{DataArray, DataType, Info, ProcId, Rank, Status, Value};

const USAGE: &str = keys::MONITOR_PROC_RESOURCE_USAGE.name();
const HERE: &str = "here";

/// A job of four ranks, two of which are here.
fn rig(host: Capabilities) -> (Rig, PeerId) {
    let inventory = Inventory { node: HERE.to_owned(), ..Inventory::default() };
    let config = ServerConfig {
        capabilities: host,
        own_services: Capabilities::MONITOR,
        shares_monitoring: true,
        kernel_inventory: Some(Arc::new(StoredInventory::new(inventory).unwrap())),
        ..ServerConfig::default()
    };
    let mut rig = Rig::with(config, MapStore::new());
    let peer = rig.job(4, 2)[0];
    (rig, peer)
}

fn monitor(key_name: &'static str, directives: Vec<Info>) -> Request {
    Request::from(Monitor { monitor: Info::new(key(key_name), Value::Undefined), error: Status::SUCCESS, directives })
}

fn list(element_type: DataType, elements: Vec<Value>) -> Value {
    Value::DataArray(Box::new(DataArray { element_type, elements }))
}

fn of_procs(procs: &[ProcId]) -> Info {
    let elements = procs.iter().cloned().map(Value::from).collect();
    Info::new(key(keys::MONITOR_TARGET_PROCS.name()), list(DataType::Proc, elements))
}

fn of_nodes(names: &[&str]) -> Info {
    let elements = names.iter().map(|name| Value::from(*name)).collect();
    Info::new(key(keys::MONITOR_TARGET_NODES.name()), list(DataType::String, elements))
}

fn measured(outputs: &[Output]) -> Option<(UpcallId, Requester, Monitor)> {
    match outputs {
        [Output::Measure(id, requester, request)] => Some((*id, requester.clone(), Monitor::clone(request))),
        _ => None,
    }
}

fn asked(outputs: &[Output]) -> Option<(UpcallId, Monitor)> {
    match outputs {
        [Output::Upcall(id, Upcall::Service(_, Service::Monitor(request)))] => Some((*id, request.clone())),
        _ => None,
    }
}

fn has(request: &Monitor, name: &str) -> bool {
    request.directives.iter().any(|info| info.key.as_str() == name)
}

fn samples(names: &[&'static str]) -> Vec<Info> {
    names.iter().map(|name| Info::new(key(name), true)).collect()
}

fn infos(names: &[&'static str]) -> HostReply {
    HostReply::Infos { status: Status::SUCCESS, info: samples(names) }
}

/// Regression: PRRTE counts its other daemons, and a request with none of them had no answer.
#[test]
fn a_request_about_this_node_does_not_reach_the_host() {
    let (mut rig, peer) = rig(Capabilities::MONITOR);
    let local_only = || Info::new(key(keys::MONITOR_LOCAL_ONLY.name()), true);
    for (name, directives) in [
        (USAGE, vec![]),
        (USAGE, vec![of_procs(&[proc(0), proc(1)])]),
        (USAGE, vec![of_nodes(&[HERE])]),
        (USAGE, vec![of_procs(&[proc(3)]), local_only()]),
        (keys::MONITOR_CANCEL.name(), vec![]),
        (keys::MONITOR_FILE.name(), vec![]),
        ("site.monitor", vec![]),
    ] {
        let (id, requester, request) = measured(&rig.request(peer, monitor(name, directives.clone()))).unwrap();
        assert_eq!((requester.proc, request.monitor.key.as_str()), (proc(0), name));
        assert_eq!(replies(&rig.complete(id, infos(&["a"]))), [(peer, Reply::Infos(samples(&["a"])))]);
    }
}

#[test]
fn a_request_about_other_nodes_is_the_hosts_alone() {
    let (mut rig, peer) = rig(Capabilities::MONITOR);
    for directive in [of_procs(&[proc(2), proc(3)]), of_nodes(&["there"])] {
        let (id, request) = asked(&rig.request(peer, monitor(USAGE, vec![directive]))).unwrap();
        assert!(!has(&request, keys::MONITOR_LOCAL_ONLY.name()));
        assert_eq!(replies(&rig.complete(id, infos(&["a"]))), [(peer, Reply::Infos(samples(&["a"])))]);
    }
    let none = list(DataType::Proc, vec![Value::from(7_u32)]);
    let wrong = Info::new(key(keys::MONITOR_TARGET_PROCS.name()), none);
    assert_eq!(statuses(&rig.request(peer, monitor(USAGE, vec![wrong]))), [(peer, Status::ERR_BAD_PARAM)]);
}

#[test]
fn a_request_about_both_has_one_answer() {
    let all = || ProcId { rank: Rank::Wildcard, ..proc(0) };
    for directive in [of_procs(&[proc(1), proc(2)]), of_procs(&[all()]), of_nodes(&["there", HERE])] {
        let (mut rig, peer) = rig(Capabilities::MONITOR);
        let begun = |rig: &mut Rig| {
            let (id, _, share) = measured(&rig.request(peer, monitor(USAGE, vec![directive.clone()]))).unwrap();
            assert!(has(&share, keys::MONITOR_LOCAL_ONLY.name()));
            id
        };
        let own = begun(&mut rig);
        let (id, request) = asked(&rig.complete(own, infos(&["a"]))).unwrap();
        assert!(!has(&request, keys::MONITOR_LOCAL_ONLY.name()));
        assert_eq!(replies(&rig.complete(id, infos(&["b"]))), [(peer, Reply::Infos(samples(&["a", "b"])))]);

        let own = begun(&mut rig);
        let (id, _) = asked(&rig.complete(own, infos(&["a"]))).unwrap();
        let results = Box::new(Reply::Infos(samples(&["a"])));
        let partial = Reply::Partial { status: Status::ERR_PARTIAL_SUCCESS, results };
        let refused = HostReply::Status(Status::ERR_UNREACH);
        assert_eq!(replies(&rig.complete(id, refused.clone())), [(peer, partial)]);

        let own = begun(&mut rig);
        assert_eq!(statuses(&rig.complete(own, refused)), [(peer, Status::ERR_UNREACH)]);
    }
}

#[test]
fn without_a_host_that_monitors_an_answer_about_both_is_partial() {
    let (mut rig, peer) = rig(Capabilities::empty());
    let both = monitor(USAGE, vec![of_procs(&[proc(0), proc(3)])]);
    let (id, ..) = measured(&rig.request(peer, both)).unwrap();
    let results = Box::new(Reply::Infos(samples(&["a"])));
    let partial = Reply::Partial { status: Status::ERR_PARTIAL_SUCCESS, results };
    assert_eq!(replies(&rig.complete(id, infos(&["a"]))), [(peer, partial)]);
    let other = monitor(USAGE, vec![of_procs(&[proc(3)])]);
    assert_eq!(statuses(&rig.request(peer, other)), [(peer, Status::ERR_NOT_SUPPORTED)]);
}

/// The events of a request go to its proxy's process.
#[test]
fn a_client_is_nobodys_proxy() {
    let (mut rig, peer) = rig(Capabilities::MONITOR);
    let proxy = |flags| Info { flags, ..Info::new(key(keys::MONITOR_PROXY.name()), proc(1)) };
    let (_, request) = asked(&rig.request(peer, monitor(USAGE, vec![of_nodes(&["there"]), proxy(0)]))).unwrap();
    assert!(!has(&request, keys::MONITOR_PROXY.name()));
    let required = monitor(USAGE, vec![proxy(crate::types::InfoFlags::REQUIRED.bits())]);
    assert_eq!(statuses(&rig.request(peer, required)), [(peer, Status::ERR_NOT_SUPPORTED)]);
}
