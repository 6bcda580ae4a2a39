use std::collections::BTreeMap;
use std::sync::Arc;

use super::hostlist::excerpt;
use super::provider::{Fault, Provider, ProviderError, UNKNOWN, check_name, id_of_port};
use crate::fabric::{DeviceDescription, FabricDescription, Links, PlaneDescription};
use crate::topo::device_id;

/// Files of `/sys/class/net` and `/sys/class/infiniband` of many nodes, one file on a line: `NODE: PATH:CONTENT`.
///
/// `pdsh -w n[0-9] 'grep -H . /sys/class/net/*/address /sys/class/infiniband/*/ports/*/link_layer'` writes such lines.
///
/// Each network interface is a device of the plane `net`, except those with an address of zeros. Each port of an
/// adapter is a device of the plane `infiniband`. Nothing is known of switches, so each plane has one.
#[derive(Debug, Clone, Copy, Default)]
pub struct SysListing;

const NET: &str = "net";
const INFINIBAND: &str = "infiniband";

/// The files of each device: path below the device, content and line.
type Files<'t> = BTreeMap<&'t str, (&'t str, usize)>;

/// Devices by class, node and name.
type Devices<'t> = BTreeMap<(&'static str, &'t str, &'t str), Files<'t>>;

impl Provider for SysListing {
    fn describe(&self, text: &str) -> Result<FabricDescription, ProviderError> {
        let mut devices = Devices::new();
        for (line, whole) in (1..).zip(text.lines()) {
            if !whole.trim().is_empty() {
                read_line(whole.trim(), line, &mut devices).map_err(|fault| fault.on_line(line))?;
            }
        }
        Ok(of_classes("sysfs", interfaces(&devices), ports(&devices)))
    }
}

/// A fabric with a plane for each class that has devices. Nothing is known of switches.
pub(super) fn of_classes(
    identifier: &str,
    interfaces: Vec<DeviceDescription>,
    adapters: Vec<DeviceDescription>,
) -> FabricDescription {
    let classes = [(NET, interfaces), (INFINIBAND, adapters)].into_iter().filter(|(_, devices)| !devices.is_empty());
    let planes = classes.map(|(name, devices)| PlaneDescription {
        name: name.to_owned(),
        vendor: devices.first().map_or(UNKNOWN, |device| &*device.vendor).to_owned(),
        switches: vec![name.to_owned()],
        links: Links::Tree(vec![None]),
        devices,
    });
    FabricDescription { identifier: identifier.to_owned(), planes: planes.collect() }
}

/// Whether an address is that of the loopback interface.
pub(super) fn is_nowhere(address: &str) -> bool {
    !address.is_empty() && address.bytes().all(|byte| matches!(byte, b'0' | b':'))
}

fn read_line<'t>(text: &'t str, line: usize, devices: &mut Devices<'t>) -> Result<(), Fault> {
    let form = || Fault::form(text);
    let (node, file) = text.split_once(": ").ok_or_else(form)?;
    let class = [NET, INFINIBAND].into_iter().find_map(|class| {
        let below = file.strip_prefix("/sys/class/")?.strip_prefix(class)?.strip_prefix('/')?;
        Some((class, below))
    });
    let (class, below) = class.ok_or_else(form)?;
    let (name, file) = below.split_once('/').ok_or_else(form)?;
    let (path, content) = file.split_once(':').ok_or_else(form)?;
    check_name("node", node)?;
    check_name("device", name)?;
    if let Some((port, _)) = path.strip_prefix("ports/").and_then(|path| path.split_once('/')) {
        check_name("device", &format!("{name}:{port}"))?;
    }
    let of_address = |character: char| character.is_ascii_hexdigit() || [':', '.'].contains(&character);
    if ["address", "node_guid", "sys_image_guid"].contains(&path) && !content.trim().chars().all(of_address) {
        return Err(form());
    }
    let earlier = devices.entry((class, node, name)).or_default().insert(path, (content.trim(), line));
    match earlier {
        None => Ok(()),
        Some((_, before)) => Err(Fault::Twice { name: excerpt(&format!("{node} {name}/{path}")), before }),
    }
}

fn interfaces(devices: &Devices<'_>) -> Vec<DeviceDescription> {
    let interface = |(&(class, node, name), files): (&(&str, &str, &str), &Files<'_>)| {
        let address = files.get("address").map(|(address, _)| *address);
        let id = address.and_then(device_id::of_interface);
        (class == NET && !address.is_some_and(is_nowhere)).then(|| device((node, name.to_owned()), files, address, id))
    };
    devices.iter().filter_map(interface).collect()
}

fn ports(devices: &Devices<'_>) -> Vec<DeviceDescription> {
    let of_adapter = |(&(class, node, name), files): (&(&str, &str, &str), &Files<'_>)| {
        let mut numbers: Vec<&str> = files
            .keys()
            .filter_map(|path| path.strip_prefix("ports/")?.split_once('/'))
            .map(|(number, _)| number)
            .filter(|_| class == INFINIBAND)
            .collect();
        numbers.dedup();
        let [guid, system_guid] = ["node_guid", "sys_image_guid"].map(|file| files.get(file).map(|(guid, _)| *guid));
        let adapter = guid.zip(system_guid).map(|(guid, system_guid)| device_id::of_adapter(guid, system_guid));
        let count = numbers.len();
        let port = |port: &str| {
            let id = adapter.as_ref().map(|adapter| id_of_port(adapter, port, count));
            device((node, format!("{name}:{port}")), files, guid, id)
        };
        numbers.into_iter().map(port).collect::<Vec<_>>()
    };
    devices.iter().flat_map(of_adapter).collect()
}

fn device(
    (node, name): (&str, String),
    files: &Files<'_>,
    address: Option<&str>,
    id: Option<String>,
) -> DeviceDescription {
    let vendor: Arc<str> = files.get("device/vendor").map_or(UNKNOWN, |(vendor, _)| vendor).into();
    let address = address.filter(|address| !address.is_empty()).map(str::to_owned);
    let id = id.filter(|_| address.is_some());
    DeviceDescription { node: node.to_owned(), name, vendor, id, address, ..DeviceDescription::default() }
}
