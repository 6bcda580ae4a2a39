use std::sync::Arc;

use super::events::{notified, register};
use super::harness::*;
use crate::events::{DEVICE_FOUND, DEVICE_LOST};
use crate::fabric::CurrentFabric;
use crate::fabric::providers::{Provider, TestFabric};
use crate::gds::model::MapStore;
use crate::keys;
use crate::proto::{Get, QueryInfo, Reply, Request, Tag};
use crate::server::{
    Answer, Capabilities, HostCall, HostResult, INVENTORY, Input, Output, OwnGet, OwnQuery, PeerId, Requester,
    ServerConfig, ToolPolicy,
};
use crate::topo::inventory::{Device, Inventory, StoredInventory, encodings};
use crate::types::{Info, InfoFlags, ProcId, Query, Rank, Status, Text, Value};

fn inventory(names: impl IntoIterator<Item = String>) -> HostCall {
    let device = |name: String| Device { device_types: 4, uuid: format!("id-{name}"), name, ..Device::default() };
    let devices = names.into_iter().map(device).collect();
    let inventory = Inventory { node: "n0".to_owned(), devices, ..Inventory::default() };
    HostCall::DeliverInventories(vec![inventory.encode().unwrap()])
}

fn text<'i>(infos: &'i [Info], key: &str) -> Option<&'i str> {
    infos.iter().find(|info| info.key.as_str() == key)?.value.as_str()
}

/// The infos of all events for clients.
fn infos(outputs: &[Output]) -> Vec<&[Info]> {
    outputs
        .iter()
        .filter_map(|output| if let Output::Notify(_, delivery) = output { Some(&*delivery.event.info) } else { None })
        .collect()
}

#[test]
fn the_loss_and_the_return_of_a_device_are_events() {
    // Codes of this library are raised here, so no host is asked for them.
    let mut rig = Rig::new(Capabilities::REGISTER_EVENTS);
    let peer = rig.job(1, 1)[0];
    assert_eq!(statuses(&rig.request(peer, register(&[DEVICE_LOST, DEVICE_FOUND]))), [(peer, Status::SUCCESS)]);
    let names = |names: &[&str]| inventory(names.iter().map(|name| (*name).to_owned()));
    assert_eq!(notified(&rig.host(names(&["eth0", "eth1"]))), []);
    let lost = rig.host(names(&["eth0"]));
    assert_eq!(notified(&lost), [(Some(peer), DEVICE_LOST)]);
    let info = infos(&lost)[0];
    let facts = [keys::HOSTNAME, keys::DEVICE_ID, keys::FABRIC_DEVICE_NAME].map(|key| text(info, key.name()));
    assert_eq!(facts, [Some("n0"), Some("id-eth1"), Some("eth1")]);
    assert!(info.iter().any(|info| info.key.as_str() == keys::EVENT_NON_DEFAULT.name()));
    assert_eq!(notified(&rig.host(names(&["eth0", "eth1"]))), [(Some(peer), DEVICE_FOUND)]);
}

#[test]
fn one_event_stands_for_all_devices_beyond_the_bound() {
    let mut rig = Rig::new(Capabilities::empty());
    let peer = rig.job(1, 1)[0];
    rig.request(peer, register(&[DEVICE_LOST]));
    rig.host(inventory((0..100).map(|number| format!("eth{number}"))));
    let outputs = rig.host(inventory([]));
    let events = infos(&outputs);
    let nameless = events.iter().filter(|info| text(info, keys::DEVICE_ID.name()).is_none()).count();
    assert_eq!((events.len(), nameless), (65, 1));
    assert!(text(events.last().unwrap(), keys::HOSTNAME.name()).is_none());
}

/// A server with a test fabric.
fn with_fabric(description: &str) -> (Rig, PeerId) {
    let tools = ToolPolicy { own_uid: OWNER.uid, ..ToolPolicy::default() };
    let fabric = Some(CurrentFabric::new(TestFabric.read(description).unwrap()).handle());
    let mut rig = Rig::with(ServerConfig { tools, fabric, ..ServerConfig::default() }, MapStore::new());
    let peer = rig.job(1, 1)[0];
    (rig, peer)
}

/// A server that knows 50 nodes of a fabric with 3 devices each, and the inventories of 50 others.
fn of_100_nodes() -> (Rig, PeerId) {
    let (mut rig, peer) = with_fabric("wide:50;plane:d:3");
    let of_node = |number: u32| Inventory { node: format!("n{number}"), processors: 64, ..Inventory::default() };
    let blobs = (0..50).map(|number| of_node(number).encode().unwrap()).collect();
    rig.host(HostCall::DeliverInventories(blobs));
    (rig, peer)
}

fn query(key: &'static str) -> Request {
    Request::from(QueryInfo::new(vec![Query { keys: vec![Text::from(key)], qualifiers: Vec::new() }]))
}

fn get(key: &'static str) -> Request {
    let proc = ProcId { rank: Rank::Wildcard, ..proc(0) };
    Request::Get(Get { proc, directives: Vec::new(), key: Some(self::key(key)) })
}

/// The number of elements in the one value of a reply.
fn count(outputs: &[Output]) -> usize {
    let value = match outputs {
        [Output::Answer(_, _, Answer::Reply(Reply::Infos(infos)))] => &infos[0].value,
        [Output::Answer(_, _, Answer::Reply(Reply::Data(data)))] => &data[0].entries[0].value,
        outputs => panic!("{outputs:?}"),
    };
    let Value::DataArray(array) = value else { panic!("{value:?}") };
    array.elements.len()
}

/// Each request encoded all inventories again, on the server's thread, and beyond the limit of an answer, too.
#[test]
fn requests_about_all_nodes_encode_nothing_again() {
    let (mut rig, peer) = of_100_nodes();
    assert_eq!(count(&rig.request(peer, query(INVENTORY))), 100);
    let before = encodings();
    for request in [query, get] {
        assert_eq!(count(&rig.request(peer, request(INVENTORY))), 100);
    }
    rig.server.config.limits.query_bytes_max = 1000;
    for request in [query, get] {
        let refused = rig.request(peer, request(INVENTORY));
        assert_eq!(statuses(&refused), [(peer, Status::ERR_OUT_OF_RESOURCE)]);
    }
    assert_eq!(encodings() - before, 0);
}

/// The first request about all nodes encoded the devices of all on the server's thread.
#[test]
fn the_inventories_of_a_fabric_are_encoded_by_the_sender_of_an_answer() {
    for request in [query, get] {
        let (mut rig, peer) = of_100_nodes();
        let before = encodings();
        rig.server.handle(rig.now, Input::Request(peer, Tag(7), request(INVENTORY)));
        let answers: Vec<Output> = std::iter::from_fn(|| rig.server.poll_output()).collect();
        let [Output::Answer(_, _, answer)] = answers.as_slice() else { panic!("{answers:?}") };
        assert!(matches!(answer, Answer::Queries(_) | Answer::Hardware(_)), "{answer:?}");
        assert_eq!(encodings() - before, 0);
    }
    let queries = vec![Query { keys: vec![Text::from(INVENTORY)], qualifiers: Vec::new() }];
    let requester = Requester { proc: proc(0), object: 0, uid: OWNER.uid, gid: 0 };
    let own_query = OwnQuery { requester, queries, host_status: None, host_answers: Vec::new(), runtime_refusal: None };
    let own_get =
        OwnGet { proc: ProcId { rank: Rank::Wildcard, ..proc(0) }, key: Some(key(INVENTORY)), directives: Vec::new() };
    for call in [HostCall::Query(own_query), HostCall::Get(own_get)] {
        let (mut rig, _) = of_100_nodes();
        let before = encodings();
        let outputs = rig.host(call);
        assert_eq!(encodings() - before, 0);
        let [Output::Complete(_, result)] = outputs.as_slice() else { panic!("{outputs:?}") };
        let value = match result.clone().read() {
            HostResult::Answers(Status::SUCCESS, mut infos) => infos.remove(0).value,
            HostResult::Entries(mut entries) => entries.remove(0).value,
            result => panic!("{result:?}"),
        };
        assert!(matches!(value, Value::DataArray(array) if array.elements.len() == 100));
    }
}

/// The server's thread writes no list of a whole fabric. The limit counts before anything is written.
#[test]
fn a_list_of_all_devices_is_written_by_its_sender() {
    let (mut rig, peer) = of_100_nodes();
    let devices = keys::FABRIC_DEVICES.name();
    for request in [query, get] {
        rig.server.handle(rig.now, Input::Request(peer, Tag(7), request(devices)));
        let answers: Vec<Output> = std::iter::from_fn(|| rig.server.poll_output()).collect();
        match answers.as_slice() {
            [Output::Answer(_, _, Answer::Queries(answers))] => {
                assert_eq!(answers.infos().count(), 0);
                assert!(answers.unwritten_bytes() > 150 * 1000);
            }
            [Output::Answer(_, _, Answer::Hardware(answer))] => assert!(answer.value_bytes() > 150 * 1000),
            answers => panic!("{answers:?}"),
        }
        assert_eq!(count(&rig.request(peer, request(devices))), 150);
    }
    rig.server.config.limits.query_bytes_max = 1000;
    for request in [query, get] {
        let refused = rig.request(peer, request(devices));
        assert_eq!(statuses(&refused), [(peer, Status::ERR_OUT_OF_RESOURCE)]);
    }
}

/// Costs are computed by the sender of the answer. A block of more than 65,536 is refused.
#[test]
fn costs_are_computed_by_their_sender_within_a_bound() {
    let (mut rig, peer) = of_100_nodes();
    let rows =
        |rows: &'static str| Info { flags: InfoFlags::REQUIRED.bits(), ..Info::new(key("modex.fabric.rows"), rows) };
    let query = |rows| {
        let query = Query { keys: vec![Text::from("modex.fabric.costs")], qualifiers: vec![rows] };
        Request::from(QueryInfo::new(vec![query]))
    };
    let get = |rows| {
        let proc = ProcId { rank: Rank::Wildcard, ..proc(0) };
        Request::Get(Get { proc, directives: vec![rows], key: Some(key("modex.fabric.costs")) })
    };
    rig.server.handle(rig.now, Input::Request(peer, Tag(7), query(rows("0-149"))));
    let answers: Vec<Output> = std::iter::from_fn(|| rig.server.poll_output()).collect();
    let [Output::Answer(_, _, Answer::Queries(answers))] = answers.as_slice() else { panic!("{answers:?}") };
    assert_eq!((answers.infos().count(), answers.unwritten_bytes()), (0, 150 * 150 * size_of::<Value>()));
    assert_eq!(count(&rig.request(peer, query(rows("0-149")))), 150 * 150);
    assert_eq!(count(&rig.request(peer, get(rows("0-149")))), 150 * 150);
    // Two queries for one key differ in their rows. The second one got no answer.
    let queries =
        ["0-2", "0-5"].map(|text| Query { keys: vec![Text::from("modex.fabric.costs")], qualifiers: vec![rows(text)] });
    let outputs = rig.request(peer, Request::from(QueryInfo::new(queries.into())));
    let [Output::Answer(_, _, Answer::Reply(Reply::Infos(infos)))] = outputs.as_slice() else { panic!("{outputs:?}") };
    let counts: Vec<_> = infos
        .iter()
        .map(|info| if let Value::DataArray(array) = &info.value { array.elements.len() } else { 0 })
        .collect();
    assert_eq!(counts, [9, 36]);
    let (mut large, peer) = with_fabric("wide:300;plane:d:1");
    for request in [query, get] {
        assert_eq!(statuses(&large.request(peer, request(rows("0-299")))), [(peer, Status::ERR_OUT_OF_RESOURCE)]);
        for wrong in ["3-1", "many", ""] {
            assert_eq!(
                statuses(&large.request(peer, request(rows(wrong)))),
                [(peer, Status::ERR_BAD_PARAM)],
                "{wrong}"
            );
        }
        assert_eq!(statuses(&large.request(peer, request(rows("0-300")))), [(peer, Status::ERR_NOT_FOUND)]);
    }
}

/// The server's own topology is summed up once.
#[test]
fn the_own_inventory_is_encoded_once() {
    let own = StoredInventory::new(Inventory { node: "here".to_owned(), ..Inventory::default() }).unwrap();
    let config =
        ServerConfig { answers_topology: true, kernel_inventory: Some(Arc::new(own)), ..ServerConfig::default() };
    let mut rig = Rig::with(config, MapStore::new());
    let peer = rig.job(1, 1)[0];
    assert_eq!(rig.request(peer, query(INVENTORY)), [Output::WantTopology]);
    let before = encodings();
    let outputs = rig.input(Input::Topology(super::queries::hardware()));
    assert_eq!((count(&outputs), encodings() - before), (1, 1));
    assert_eq!((count(&rig.request(peer, query(INVENTORY))), encodings() - before), (1, 1));
}
