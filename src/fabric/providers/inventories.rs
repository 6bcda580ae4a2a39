use std::sync::Arc;

use super::provider::{Provider, ProviderError, UNKNOWN};
use super::sysfs::{is_nowhere, of_classes};
use crate::fabric::{DeviceDescription, FabricDescription};
use crate::topo::device_id;
use crate::topo::inventory::{Device, Inventories};
use crate::types::codes::device_type::DEVTYPE_OPENFABRICS;

/// `PMIX_FABRIC_IDENTIFIER`.
pub const INVENTORIES: &str = "inventory";

/// The inventories are the description; the text has no effect. As in a listing of `/sys`, adapters are in the plane
/// `infiniband` and other network devices in the plane `net`, except those with an address of zeros.
impl Provider for Inventories {
    fn describe(&self, _: &str) -> Result<FabricDescription, ProviderError> {
        let [mut interfaces, mut adapters] = [Vec::new(), Vec::new()];
        for inventory in self.iter() {
            let devices = inventory.devices.iter();
            for device in devices.filter(|device| device.is_of_network() && !is_nowhere(address_of(device))) {
                let is_adapter = device.device_types & DEVTYPE_OPENFABRICS != 0;
                let class = if is_adapter { &mut adapters } else { &mut interfaces };
                class.push(described(&inventory.node, device));
            }
        }
        Ok(of_classes(INVENTORIES, interfaces, adapters))
    }
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
