use std::collections::BTreeSet;
use std::sync::Arc;

use super::provider::{Provider, ProviderError, UNKNOWN};
use super::sysfs::{is_nowhere, of_classes};
use crate::fabric::{DeviceDescription, FabricDescription, is_sound};
use crate::topo::device_id;
use crate::topo::inventory::{Device, Inventories, Inventory};
use crate::types::codes::device_type::DEVTYPE_OPENFABRICS;

/// The node and the name of each device that the fabric of inventories leaves out, because it can't be in a fabric.
pub fn left_out(inventories: &Inventories) -> BTreeSet<(String, String)> {
    let of_networks = inventories.iter().flat_map(networks);
    let odd = of_networks.filter(|(_, device)| !is_sound(device));
    odd.map(|(_, device)| (device.node, device.name)).collect()
}

/// `PMIX_FABRIC_IDENTIFIER`.
pub const INVENTORIES: &str = "inventory";

/// The inventories are the description; the text has no effect. As in a listing of `/sys`, adapters are in the plane
/// `infiniband` and other network devices in the plane `net`, except those with an address of zeros. Devices that can't
/// be in a fabric are left out.
impl Provider for Inventories {
    fn describe(&self, _: &str) -> Result<FabricDescription, ProviderError> {
        let [mut interfaces, mut adapters] = [Vec::new(), Vec::new()];
        for inventory in self.iter() {
            for (is_adapter, device) in networks(inventory).filter(|(_, device)| is_sound(device)) {
                let class = if is_adapter { &mut adapters } else { &mut interfaces };
                class.push(device);
            }
        }
        Ok(of_classes(INVENTORIES, interfaces, adapters))
    }
}

/// The devices of a node, and whether they are adapters.
fn networks(inventory: &Inventory) -> impl Iterator<Item = (bool, DeviceDescription)> {
    let devices = inventory.networks().filter(|device| !is_nowhere(address_of(device)));
    devices.map(|device| (device.device_types & DEVTYPE_OPENFABRICS != 0, described(&inventory.node, device)))
}

/// The part of an id that the hardware has. Other libraries' daemons may have ids in other forms.
fn address_of(device: &Device) -> &str {
    device_id::address(&device.uuid).unwrap_or(&device.uuid)
}

fn described(node: &str, device: &Device) -> DeviceDescription {
    let vendor: Arc<str> = device.vendor.map_or(UNKNOWN.to_owned(), |vendor| format!("0x{vendor:04x}")).into();
    let name = device.name.clone();
    let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let (id, bus_address) = (given(&device.uuid), given(&device.bus_address));
    // Without an address a device is known by its name.
    let address = Some(address_of(device)).filter(|address| *address != name && !address.is_empty()).map(str::to_owned);
    DeviceDescription { node: node.to_owned(), name, vendor, id, address, bus_address, ..DeviceDescription::default() }
}
