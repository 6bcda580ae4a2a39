//! The hardware of the nodes, from the fabric and from delivered inventories, and requests about it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::get::GetVerdict;
use crate::events::{DEVICE_FOUND, DEVICE_LOST, Event};
use crate::fabric::{FabricHandle, LISTED_MAX};
use crate::gds::Datastore;
use crate::keys::{self, TypedKey};
use crate::proto::{RankData, Reply};
use crate::server::interface::{HostCallId, HostResult, INVENTORY, Output, find};
use crate::server::state::{Asker, Hardware, RequestedData, ServerCore};
use crate::topo::InventoryError;
use crate::topo::inventory::{Device, DeviceChange, Inventories, Inventory};
use crate::types::codes::range;
use crate::types::{DataArray, DataType, Info, Key, Kval, Status, Time, Value};

/// A query needs the topology.
pub(super) struct TopologyNeeded;

impl<S: Datastore> ServerCore<S> {
    /// Stores inventories, all of them or none. Processes of this node get an event for each device that is lost or found.
    pub(in crate::server) fn deliver_inventories(
        &mut self,
        now: Time,
        call: HostCallId,
        blobs: &[Vec<u8>],
    ) -> HostResult {
        let delivered = self.config.inventories.lock().deliver(blobs.iter().map(Vec::as_slice));
        match delivered {
            Ok(changes) => {
                self.raise_changes(now, &changes);
                self.outputs.push(Output::Inventories(call));
                HostResult::Status(Status::SUCCESS)
            }
            Err(error) => {
                let is_full = matches!(error, InventoryError::TooMany { .. });
                let status = if is_full { Status::ERR_OUT_OF_RESOURCE } else { Status::ERR_BAD_PARAM };
                HostResult::Failed { status, reason: error.to_string() }
            }
        }
    }

    /// Raises an event for each change. Behind [`CHANGES_MAX`] of one kind comes one without a device, for the rest.
    fn raise_changes(&mut self, now: Time, changes: &[DeviceChange]) {
        let source = self.config.contact.as_ref().map(|contact| contact.proc.clone());
        for (status, is_found) in [(DEVICE_LOST, false), (DEVICE_FOUND, true)] {
            let of_kind = changes.iter().filter(|change| change.is_found == is_found);
            for (count, DeviceChange { node, device, .. }) in of_kind.enumerate().take(CHANGES_MAX + 1) {
                let mut info = if count < CHANGES_MAX { facts(node, device) } else { Vec::new() };
                // MPI libraries abort in default handlers, so these events pass them over.
                info.push(Info::new(Key::from_static(keys::EVENT_NON_DEFAULT.name()), true));
                let event = Event { status, source: source.clone(), range: range::RANGE_LOCAL, info };
                self.notify_of_host(now, &Arc::new(event));
            }
        }
    }

    /// This node's own inventory for a query, if the query means it and it was not delivered. `Err`: the topology must be read first.
    pub(super) fn own_inventory(
        &self,
        key: &Key,
        qualifiers: &[Info],
        hardware: Hardware<'_>,
    ) -> Result<Option<Inventory>, TopologyNeeded> {
        let node = find(qualifiers, keys::HOSTNAME).map(|info| info.value.as_str());
        let is_meant = |own: &&Inventory| {
            let is_named = node.is_none_or(|node| node == Some(&own.node));
            key.as_str() == INVENTORY && is_named && self.config.inventories.lock().of(&own.node).is_none()
        };
        let Some(own) = self.config.kernel_inventory.as_ref().filter(is_meant) else { return Ok(None) };
        match hardware {
            Hardware::Unasked => Err(TopologyNeeded),
            Hardware::Known(machine) => Ok(Some(Inventory::of(&own.node, machine))),
            Hardware::Absent => Ok(Some(own.clone())),
        }
    }

    /// The inventories of a node or of all: the fabric's, this node's own one, and the delivered ones. The later ones count. A large fabric is asked about node by node.
    fn inventories_value(&self, delivered: &Inventories, node: Option<&str>, own: Option<&Inventory>) -> Option<Value> {
        let fabric = self.config.fabric.as_ref();
        if let Some(node) = node {
            let own = own.filter(|own| own.node == node);
            let known = delivered.of(node).or(own).map(Cow::Borrowed);
            return blob(&*known.or_else(|| fabric?.inventory_of(node).map(Cow::Owned))?);
        }
        let is_short = |fabric: &&FabricHandle| fabric.device_count() <= LISTED_MAX;
        let named = fabric.filter(is_short).map(|fabric| fabric.nodes()).unwrap_or_default();
        let of_fabric =
            named.into_iter().filter(|node| delivered.of(node).is_none() && own.is_none_or(|own| own.node != *node));
        let mut blobs: BTreeMap<&str, Value> =
            of_fabric.filter_map(|node| Some((node, blob(&fabric?.inventory_of(node)?)?))).collect();
        let others = own.into_iter().chain(delivered.iter());
        blobs.extend(others.filter_map(|inventory| Some((inventory.node.as_str(), blob(inventory)?))));
        (!blobs.is_empty()).then(|| array(DataType::ByteObject, blobs.into_values().collect()))
    }

    /// A value from the fabric or the inventories, among them this node's `own` one; `None` for other keys, and for missing values.
    pub(super) fn inventory_value(&self, key: &Key, qualifiers: &[Info], own: Option<&Inventory>) -> Option<Value> {
        if let Some(value) = self.config.fabric.as_ref().and_then(|fabric| fabric.value(key.as_str(), qualifiers)) {
            return Some(value);
        }
        let of_inventories = [INVENTORY, keys::FABRIC_DEVICES.name(), keys::FABRIC_DEVICE.name()];
        if !of_inventories.contains(&key.as_str()) {
            return None;
        }
        let text = |key: TypedKey<str>| find(qualifiers, key).and_then(|info| info.value.as_str());
        let (node, inventories) = (text(keys::HOSTNAME), self.config.inventories.lock());
        let nodes = || inventories.iter().filter(move |inventory| node.is_none_or(|node| node == inventory.node));
        let fabric = |inventory: &Inventory| {
            let devices = inventory.devices.iter().filter(|device| device.is_of_network());
            devices.map(|device| (inventory.node.clone(), device.clone())).collect::<Vec<_>>()
        };
        match key.as_str() {
            INVENTORY => self.inventories_value(&inventories, node, own),
            name if name == keys::FABRIC_DEVICES.name() => {
                let found: Vec<_> = nodes().flat_map(fabric).collect();
                let infos = found.iter().map(|(node, device)| {
                    Info::new(Key::from_static(keys::FABRIC_DEVICE.name()), described(node, device))
                });
                (!found.is_empty()).then(|| Value::info_array(infos.collect()))
            }
            name if name == keys::FABRIC_DEVICE.name() => {
                let (identity, name) = (text(keys::DEVICE_ID), text(keys::FABRIC_DEVICE_NAME));
                // A device is identified by its id, or by its name on a node.
                if identity.is_none() && (name.is_none() || node.is_none()) {
                    return None;
                }
                let is_wanted = |(_, device): &(String, Device)| {
                    identity.is_none_or(|identity| identity == device.uuid)
                        && name.is_none_or(|name| name == device.name)
                };
                let (node, device) = nodes().flat_map(fabric).find(is_wanted)?;
                Some(described(&node, &device))
            }
            _ => None,
        }
    }

    /// Answers a Get from the inventories, if no value is registered or posted under that key. Returns the asker if
    /// they have no answer.
    pub(super) fn answer_from_inventories(
        &mut self,
        asker: Asker,
        requested: &RequestedData,
        directives: &[Info],
    ) -> Option<Asker> {
        let found = requested.key.as_ref().and_then(|key| self.inventory_value(key, directives, None));
        let (Some(key), Some(value)) = (&requested.key, found) else { return Some(asker) };
        if self.judge(&asker, requested) == GetVerdict::Found {
            return Some(asker);
        }
        let entries = vec![Kval { key: key.clone(), value }];
        match asker {
            Asker::Peer(ticket) => {
                self.outputs.reply(ticket, Reply::Data(vec![RankData { proc: requested.proc.clone(), entries }]));
            }
            Asker::Host(ticket) | Asker::Own(ticket) => self.outputs.complete(ticket, HostResult::Entries(entries)),
        }
        None
    }
}

fn blob(inventory: &Inventory) -> Option<Value> {
    inventory.encode().ok().map(Value::ByteObject)
}

fn array(element_type: DataType, elements: Vec<Value>) -> Value {
    Value::DataArray(Box::new(DataArray { element_type, elements }))
}

/// A device in the standard's form.
fn described(node: &str, device: &Device) -> Value {
    Value::info_array(facts(node, device))
}

/// The identity of a device, then the known details.
fn facts(node: &str, device: &Device) -> Vec<Info> {
    let text = |key: TypedKey<str>, value: &str| Info::new(Key::from_static(key.name()), value);
    let mut infos = vec![
        text(keys::DEVICE_ID, &device.uuid),
        text(keys::HOSTNAME, node),
        text(keys::FABRIC_DEVICE_NAME, &device.name),
    ];
    if let Some(vendor) = device.vendor {
        infos.push(text(keys::FABRIC_DEVICE_VENDORID, &format!("0x{vendor:04x}")));
    }
    if !device.bus_address.is_empty() {
        infos.push(text(keys::FABRIC_DEVICE_BUS_TYPE, "PCI"));
        infos.push(text(keys::FABRIC_DEVICE_PCI_DEVID, &device.bus_address));
    }
    infos.push(Info::new(Key::from_static(keys::DEVICE_TYPE.name()), Value::DeviceType(device.device_types)));
    infos
}

/// Devices of one kind of event in one delivery. A server keeps some recent events, and these must not be all.
const CHANGES_MAX: usize = 64;
