use super::events::{register, told};
use super::harness::*;
use crate::events::{DEVICE_FOUND, DEVICE_LOST};
use crate::keys;
use crate::server::{Capabilities, HostCall, Output};
use crate::topo::inventory::{Device, Inventory};
use crate::types::{Info, Status};

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
    assert_eq!(told(&rig.host(names(&["eth0", "eth1"]))), []);
    let lost = rig.host(names(&["eth0"]));
    assert_eq!(told(&lost), [(Some(peer), DEVICE_LOST)]);
    let info = infos(&lost)[0];
    let facts = [keys::HOSTNAME, keys::DEVICE_ID, keys::FABRIC_DEVICE_NAME].map(|key| text(info, key.name()));
    assert_eq!(facts, [Some("n0"), Some("id-eth1"), Some("eth1")]);
    assert!(info.iter().any(|info| info.key.as_str() == keys::EVENT_NON_DEFAULT.name()));
    assert_eq!(told(&rig.host(names(&["eth0", "eth1"]))), [(Some(peer), DEVICE_FOUND)]);
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
