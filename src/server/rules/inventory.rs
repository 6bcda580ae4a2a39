//! The hardware of the nodes, from the fabric and from delivered inventories, and requests about it.

use std::sync::Arc;

use super::get::GetVerdict;
use crate::events::{DEVICE_FOUND, DEVICE_LOST, Event};
use crate::fabric::{self, LISTED_MAX};
use crate::gds::Datastore;
use crate::keys::{self, TypedKey};
use crate::server::interface::{
    AllNodes, Answer, HardwareAnswer, HardwareValue, HostData, HostResult, INVENTORY, Output, described, facts, find,
};
use crate::server::state::{Asker, Hardware, RequestedData, ServerCore};
use crate::topo::inventory::{Device, DeviceChange, Inventories, Inventory, StoredInventory};
use crate::topo::{InventoryError, Machine};
use crate::types::codes::range;
use crate::types::{Info, Key, Status, Time};

/// A query needs the topology.
pub(super) struct TopologyNeeded;

impl<S: Datastore> ServerCore<S> {
    /// Stores inventories, all of them or none. Processes of this node get an event for each device that is lost or
    /// found.
    pub(in crate::server) fn deliver_inventories(&mut self, now: Time, blobs: Vec<Vec<u8>>) -> HostResult {
        let delivered = self.config.inventories.deliver(blobs);
        match delivered {
            Ok(changes) => {
                self.raise_changes(now, &changes);
                self.outputs.push(Output::Inventories);
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

    /// Keeps the inventory of this node from its topology.
    pub(super) fn keep_own_inventory(&mut self, machine: &Machine) {
        if let (None, Some(own)) = (&self.own_inventory, &self.config.kernel_inventory) {
            let full = StoredInventory::new(Inventory::of(&own.inventory().node, machine));
            self.own_inventory = full.ok().map(Arc::new);
        }
    }

    /// This node's own inventory for a query, if the query means it and it was not delivered. `Err`: the topology must
    /// be read first.
    pub(super) fn own_inventory_for(
        &self,
        key: &Key,
        qualifiers: &[Info],
        hardware: Hardware<'_>,
    ) -> Result<Option<Arc<StoredInventory>>, TopologyNeeded> {
        let node = text(qualifiers, keys::HOSTNAME);
        let is_meant = |own: &&Arc<StoredInventory>| {
            let own = &own.inventory().node;
            let is_named = node.is_none_or(|node| node == own);
            key.as_str() == INVENTORY && is_named && self.config.inventories.snapshot().of(own).is_none()
        };
        let Some(of_kernel) = self.config.kernel_inventory.as_ref().filter(is_meant) else { return Ok(None) };
        match (&self.own_inventory, hardware) {
            (Some(own), _) => Ok(Some(Arc::clone(own))),
            (None, Hardware::Unasked) => Err(TopologyNeeded),
            (None, Hardware::Known(_) | Hardware::Absent) => Ok(Some(Arc::clone(of_kernel))),
        }
    }

    /// A value from the fabric or the inventories, among them this node's `own` one; `None` for other keys, and for
    /// missing values.
    pub(super) fn hardware_value(
        &self,
        key: &Key,
        qualifiers: &[Info],
        own: Option<Arc<StoredInventory>>,
    ) -> Option<HardwareValue> {
        let of_fabric = self.config.fabric.as_ref().and_then(|fabric| {
            let key = key.as_str();
            let list = || Some(HardwareValue::List(fabric.clone(), fabric.list(key, qualifiers)?));
            let costs = || Some(HardwareValue::Costs(fabric.clone(), fabric.cost_request(key, qualifiers)?));
            list().or_else(costs).or_else(|| fabric.value(key, qualifiers).map(HardwareValue::Short))
        });
        if of_fabric.is_some() {
            return of_fabric;
        }
        let (node, delivered) = (text(qualifiers, keys::HOSTNAME), self.config.inventories.snapshot());
        match key.as_str() {
            INVENTORY => self.inventories_value(delivered, node, own),
            name if name == keys::FABRIC_DEVICES.name() => {
                let count = node.map_or(delivered.network_count(), |node| {
                    delivered.of(node).map_or(0, |inventory| inventory.networks().count())
                });
                let is_listed = count > 0 && (node.is_some() || count <= LISTED_MAX);
                is_listed.then(|| HardwareValue::Devices(delivered, node.map(str::to_owned)))
            }
            name if name == keys::FABRIC_DEVICE.name() => {
                let (identity, name) = (text(qualifiers, keys::DEVICE_ID), text(qualifiers, keys::FABRIC_DEVICE_NAME));
                let is_wanted = |device: &&Device| {
                    identity.is_none_or(|identity| identity == device.uuid)
                        && name.is_none_or(|name| name == device.name)
                };
                // A device is identified by its id, or by its name on a node.
                let (node, device) = match (node, identity) {
                    (Some(node), _) if identity.or(name).is_some() => {
                        (node, delivered.of(node)?.networks().find(is_wanted)?)
                    }
                    (None, Some(identity)) => delivered.network_device(identity, name)?,
                    _ => return None,
                };
                Some(HardwareValue::Short(described(node, device)))
            }
            _ => None,
        }
    }

    /// The inventories of a node or of all. A large fabric is asked about node by node.
    fn inventories_value(
        &self,
        delivered: Arc<Inventories>,
        node: Option<&str>,
        own: Option<Arc<StoredInventory>>,
    ) -> Option<HardwareValue> {
        let fabric = self.config.fabric.as_ref();
        if let Some(node) = node {
            let own = own.filter(|own| own.inventory().node == node);
            let known = delivered.stored(node).cloned().or(own);
            let of_fabric = || StoredInventory::new(fabric?.inventory_of(node)?).ok().map(Arc::new);
            return known.or_else(of_fabric).map(HardwareValue::Blob);
        }
        let of_fabric = fabric.filter(|fabric| (1..=LISTED_MAX).contains(&fabric.device_count())).cloned();
        let is_known = !delivered.is_empty() || own.is_some() || of_fabric.is_some();
        is_known.then_some(HardwareValue::Blobs(AllNodes { delivered, own, of_fabric }))
    }

    /// Answers a Get from the fabric and the inventories, if no value is registered or posted under that key. Returns
    /// the asker if they have no answer.
    pub(super) fn answer_from_hardware(
        &mut self,
        asker: Asker,
        requested: &RequestedData,
        directives: &[Info],
    ) -> Option<Asker> {
        let is_about_hardware = |key: &&Key| key.as_str() == INVENTORY || fabric::KEYS.contains(&key.as_str());
        let Some(key) = requested.key.as_ref().filter(is_about_hardware) else { return Some(asker) };
        if self.judge(&asker, requested) == GetVerdict::Found {
            return Some(asker);
        }
        if directives.iter().any(fabric::is_malformed) {
            self.refuse(asker, Status::ERR_BAD_PARAM);
            return None;
        }
        let Some(value) = self.hardware_value(key, directives, None) else { return Some(asker) };
        if value.value_bytes().is_none_or(|bytes| bytes > self.config.limits.query_bytes_max) {
            self.refuse(asker, Status::ERR_OUT_OF_RESOURCE);
            return None;
        }
        let answer = HardwareAnswer { proc: requested.proc.clone(), key: key.clone(), value };
        match asker {
            Asker::Peer(ticket) => self.outputs.answer(ticket, Answer::Hardware(Box::new(answer))),
            Asker::Host(ticket) | Asker::Own(ticket) => self.outputs.complete_later(ticket, HostData::Hardware(answer)),
        }
        None
    }
}

fn text(qualifiers: &[Info], key: TypedKey<str>) -> Option<&str> {
    find(qualifiers, key)?.value.as_str()
}

/// Devices of one kind of event in one delivery. A server keeps some recent events, and these must not be all.
const CHANGES_MAX: usize = 64;
