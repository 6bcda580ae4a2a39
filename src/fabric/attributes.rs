//! A fabric in the standard's keys.

use std::collections::{BTreeMap, BTreeSet};

use super::plane::{Device, Plane};
use super::revisions::Fabric;
use crate::keys::{self, TypedKey};
use crate::types::codes::coord_view::{COORD_LOGICAL_VIEW, COORD_PHYSICAL_VIEW};
use crate::types::{Coord, DataArray, DataType, Endpoint, Geometry, Info, Key, Status, Text, Value};

/// Devices of one list. A larger plane is asked for node by node.
pub const LISTED_MAX: usize = 10_000;

/// Key of this library: the costs of a block of devices, `uint16_t`, row by row.
pub(super) const COSTS: &str = "modex.fabric.costs";

/// Key of this library: the cheapest devices from one device.
pub(super) const NEAREST: &str = "modex.fabric.nearest";

/// The keys that a fabric has values of.
pub const KEYS: [&str; 16] = [
    COSTS,
    NEAREST,
    keys::FABRIC_COORDINATES.name(),
    DEVICE_COORDINATES,
    keys::FABRIC_DEVICE.name(),
    keys::FABRIC_DEVICES.name(),
    keys::FABRIC_DIMS.name(),
    keys::FABRIC_GROUPS.name(),
    keys::FABRIC_IDENTIFIER.name(),
    keys::FABRIC_INDEX.name(),
    keys::FABRIC_NUM_DEVICES.name(),
    keys::FABRIC_PLANE.name(),
    keys::FABRIC_SHAPE.name(),
    keys::FABRIC_SHAPE_STRING.name(),
    keys::FABRIC_SWITCH.name(),
    keys::FABRIC_VENDOR.name(),
];

/// `PMIX_FABRIC_DEVICE_COORDINATES` in the main line of OpenPMIx. In its releases the key is that of
/// `PMIX_FABRIC_COORDINATES`.
const DEVICE_COORDINATES: &str = "pmix.fabdev.coord";

/// The keys with lists of devices, nodes or switches.
const LISTS: [&str; 4] = [
    keys::FABRIC_COORDINATES.name(),
    keys::FABRIC_DEVICES.name(),
    keys::FABRIC_GROUPS.name(),
    keys::FABRIC_SWITCH.name(),
];

/// The start of an id of node and name.
const DEVICE_ID: &str = "fab://";

/// The bus of a device without a place on one: the standard wants a word for it.
const BUS: &str = "unknown";
const PCI: &str = "PCI";

/// The list that answers a request. It may be long, so it is written where nothing waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FabricList {
    key: &'static str,
    planes: Vec<usize>,
    node: Option<String>,
    /// Number of devices or switches in the list.
    pub(crate) entry_count: usize,
}

impl Fabric {
    /// The number of the first plane with the `PMIX_FABRIC_PLANE`, `_IDENTIFIER`, `_VENDOR` and `_INDEX` among the
    /// directives. Without these it is 0.
    ///
    /// # Errors
    /// `NOT_FOUND`, or `BAD_PARAM` for a value of another type.
    pub fn select(&self, directives: &[Info]) -> Result<usize, Status> {
        self.meant(directives)?.map(|(number, _)| number).next().ok_or(Status::ERR_NOT_FOUND)
    }

    /// The `info` of a registration of a plane; `None` if it does not exist. Lists of more than [`LISTED_MAX`] devices
    /// are left out.
    #[must_use]
    pub fn registration(&self, number: usize) -> Option<Vec<Info>> {
        let plane = self.planes().get(number)?;
        let names = [
            keys::FABRIC_VENDOR.name(),
            keys::FABRIC_IDENTIFIER.name(),
            keys::FABRIC_NUM_DEVICES.name(),
            keys::FABRIC_INDEX.name(),
            keys::FABRIC_PLANE.name(),
            keys::FABRIC_DIMS.name(),
            keys::FABRIC_SHAPE.name(),
            keys::FABRIC_SHAPE_STRING.name(),
        ];
        let lists = [keys::FABRIC_GROUPS.name(), keys::FABRIC_SWITCH.name()];
        let of_plane = [Info::new(Key::from_static(keys::FABRIC_INDEX.name()), Value::Size(number as u64))];
        let value = |name: &str| match name {
            name if name == keys::FABRIC_PLANE.name() => Some(plane.name().into()),
            name if lists.contains(&name) => self.value(name, &of_plane),
            name => self.fact(name, number, plane),
        };
        let info = |name| Some(Info::new(Key::from_static(name), value(name)?));
        Some(names.into_iter().chain(lists).filter_map(info).collect())
    }

    /// The answer to a Get or a query; `None` for other keys, unknown names, and lists of more than [`LISTED_MAX`]
    /// devices.
    #[must_use]
    pub fn value(&self, key: &str, qualifiers: &[Info]) -> Option<Value> {
        if let Some(list) = self.list(key, qualifiers) {
            return Some(self.write(&list));
        }
        let mut meant = self.meant(qualifiers).ok()?;
        if key == keys::FABRIC_PLANE.name() {
            let planes = self.planes();
            return (!planes.is_empty()).then(|| texts(planes.iter().map(Plane::name)));
        }
        if key == keys::FABRIC_DEVICE.name() {
            let of = |(number, plane)| Some(Value::info_array(described(number, plane, device(plane, qualifiers)?)));
            return meant.find_map(of);
        }
        if key == DEVICE_COORDINATES {
            return meant.find_map(|(number, plane)| Some(geometry(number, plane, device(plane, qualifiers)?)));
        }
        meant.next().and_then(|(number, plane)| self.fact(key, number, plane))
    }

    /// The list that is the answer, if the answer is one.
    pub(crate) fn list(&self, key: &str, qualifiers: &[Info]) -> Option<FabricList> {
        let key = LISTS.into_iter().find(|list| *list == key)?;
        let is_of_plane = [keys::FABRIC_GROUPS.name(), keys::FABRIC_SWITCH.name()].contains(&key);
        let node = if is_of_plane { None } else { text(qualifiers, keys::HOSTNAME).ok()? };
        let planes: Vec<_> = self.meant(qualifiers).ok()?.take(if is_of_plane { 1 } else { usize::MAX }).collect();
        let count = |plane: &Plane| node.map_or(plane.device_count(), |node| plane.devices_of_node(node).count());
        let device_count: usize = planes.iter().map(|(_, plane)| count(plane)).sum();
        if device_count == 0 || node.is_none() && device_count > LISTED_MAX {
            return None;
        }
        let switch_count = planes.first().filter(|_| is_of_plane).map_or(0, |(_, plane)| plane.switches().len());
        Some(FabricList {
            key,
            planes: planes.into_iter().map(|(number, _)| number).collect(),
            node: node.map(str::to_owned),
            entry_count: device_count.max(switch_count),
        })
    }

    /// A list as a value.
    pub(crate) fn write(&self, list: &FabricList) -> Value {
        let FabricList { key, node, .. } = list;
        let mut planes = list.planes.iter().filter_map(|&number| Some((number, self.planes().get(number)?)));
        let mut of_plane =
            |write: fn(&Plane) -> Value| planes.next().map_or(Value::Undefined, |(_, plane)| write(plane));
        match *key {
            key if key == keys::FABRIC_GROUPS.name() => return of_plane(|plane| plane.groups().into()),
            key if key == keys::FABRIC_SWITCH.name() => return of_plane(|plane| texts(plane.switches())),
            _ => {}
        }
        let devices = planes.flat_map(|(number, plane)| {
            let devices: Vec<_> = match node {
                Some(node) => plane.devices_of_node(node).collect(),
                None => (0..).map_while(|index| plane.device(index)).collect(),
            };
            devices.into_iter().map(move |device| (number, plane, device))
        });
        if *key == keys::FABRIC_COORDINATES.name() {
            let elements = devices.map(|(number, plane, device)| geometry(number, plane, device)).collect();
            return Value::DataArray(Box::new(DataArray { element_type: DataType::Geometry, elements }));
        }
        let of_device = |(number, plane, device): (usize, &Plane, Device<'_>)| {
            Info::new(Key::from_static(keys::FABRIC_DEVICE.name()), Value::info_array(described(number, plane, device)))
        };
        Value::info_array(devices.map(of_device).collect())
    }

    /// The planes that directives or qualifiers mean.
    pub(super) fn meant(&self, directives: &[Info]) -> Result<impl Iterator<Item = (usize, &Plane)>, Status> {
        let name = text(directives, keys::FABRIC_PLANE)?.map(str::to_owned);
        let vendor = text(directives, keys::FABRIC_VENDOR)?.map(str::to_owned);
        let identifier = text(directives, keys::FABRIC_IDENTIFIER)?;
        let is_meant = identifier.is_none_or(|identifier| identifier == self.identifier());
        let index = number(directives, keys::FABRIC_INDEX.name())?;
        Ok(self.planes().iter().enumerate().filter(move |&(number, plane)| {
            is_meant
                && name.as_ref().is_none_or(|name| name == plane.name())
                && vendor.as_ref().is_none_or(|vendor| vendor == plane.vendor())
                && index.is_none_or(|index| index == number as u64)
        }))
    }

    /// A fact about a plane.
    fn fact(&self, key: &str, number: usize, plane: &Plane) -> Option<Value> {
        match key {
            key if key == keys::FABRIC_VENDOR.name() => Some(plane.vendor().into()),
            key if key == keys::FABRIC_IDENTIFIER.name() => Some(self.identifier().into()),
            key if key == keys::FABRIC_NUM_DEVICES.name() => Some(Value::Size(plane.device_count() as u64)),
            key if key == keys::FABRIC_INDEX.name() => Some(Value::Size(number as u64)),
            key if key == keys::FABRIC_DIMS.name() => u32::try_from(plane.shape().len()).ok().map(Value::Uint32),
            key if key == keys::FABRIC_SHAPE.name() => {
                let elements = plane.shape().into_iter().map(Value::Uint32).collect();
                Some(Value::DataArray(Box::new(DataArray { element_type: DataType::Uint32, elements })))
            }
            key if key == keys::FABRIC_SHAPE_STRING.name() => {
                Some(plane.shape().iter().map(u32::to_string).collect::<Vec<_>>().join("x").into())
            }
            _ => None,
        }
    }
}

/// The device with the qualifiers' id, name on a node, or index.
pub(super) fn device<'p>(plane: &'p Plane, qualifiers: &[Info]) -> Option<Device<'p>> {
    if let Some(id) = text(qualifiers, keys::DEVICE_ID).ok()? {
        return device_by_id(plane, id, qualifiers);
    }
    if let Some(index) = number(qualifiers, keys::FABRIC_DEVICE_INDEX.name()).ok()? {
        return plane.device(u32::try_from(index).ok()?);
    }
    let node = text(qualifiers, keys::HOSTNAME).ok()??;
    plane.device_by_name(node, text(qualifiers, keys::FABRIC_DEVICE_NAME).ok()??)
}

/// The only device with an id, on the node and with the name that the qualifiers may have. Interfaces of a node may
/// share an address. The id of node and name leads to each device.
fn device_by_id<'p>(plane: &'p Plane, id: &str, qualifiers: &[Info]) -> Option<Device<'p>> {
    let (node, name) = (text(qualifiers, keys::HOSTNAME).ok()?, text(qualifiers, keys::FABRIC_DEVICE_NAME).ok()?);
    let is_meant = |device: &Device<'_>| {
        node.is_none_or(|node| node == device.node) && name.is_none_or(|name| name == device.name)
    };
    // Many nodes may share an id, and a node has few devices.
    let on_node = |node| plane.devices_of_node(node).filter(|device| device.id == Some(id) && is_meant(device));
    let mut known = node.into_iter().flat_map(on_node);
    let mut anywhere = node.is_none().then(|| plane.devices_by_id(id, name)).into_iter().flatten();
    let mut next = || known.next().or_else(|| anywhere.next());
    match (next(), next()) {
        (Some(device), None) => Some(device),
        (Some(_), Some(_)) => None,
        (None, _) => {
            let (node, name) = id.strip_prefix(DEVICE_ID)?.split_once('/')?;
            plane.device_by_name(node, name).filter(is_meant)
        }
    }
}

/// A device in the standard's form: its identity first.
pub(super) fn described(number: usize, plane: &Plane, device: Device<'_>) -> Vec<Info> {
    let info = |key: &'static str, value: Value| Info::new(Key::from_static(key), value);
    let mut infos = vec![
        info(keys::DEVICE_ID.name(), id(device).into()),
        info(keys::HOSTNAME.name(), device.node.into()),
        info(keys::FABRIC_DEVICE_NAME.name(), device.name.into()),
        info(keys::FABRIC_DEVICE_VENDOR.name(), device.vendor.into()),
        info(keys::FABRIC_DEVICE_BUS_TYPE.name(), device.bus_address.map_or(BUS, |_| PCI).into()),
        info(keys::FABRIC_DEVICE_INDEX.name(), device.index.into()),
        info(keys::FABRIC_PLANE.name(), plane.name().into()),
        info(keys::FABRIC_SWITCH.name(), device.switch.into()),
        info(keys::FABRIC_DEVICE_COORDINATES.name(), geometry(number, plane, device)),
    ];
    infos.extend(device.address.map(|address| info(keys::FABRIC_DEVICE_ADDRESS.name(), address.into())));
    infos.extend(device.bus_address.map(|place| info(keys::FABRIC_DEVICE_PCI_DEVID.name(), place.into())));
    infos
}

/// `PMIX_FABRIC_COORDINATES` of a node.
pub(super) fn coordinates_of(planes: &[PlaneDevices<'_>]) -> Info {
    let devices = planes.iter().flat_map(|(number, plane, devices)| devices.iter().map(|of| (*number, *plane, *of)));
    let elements: Vec<Value> = devices.map(|(number, plane, device)| geometry(number, plane, device)).collect();
    let array = Value::DataArray(Box::new(DataArray { element_type: DataType::Geometry, elements }));
    Info::new(Key::from_static(keys::FABRIC_COORDINATES.name()), array)
}

/// An endpoint without its owner. Its bytes are the number of the owner's earlier ones at this device, if there are
/// any.
pub(super) fn endpoint(device: Device<'_>, earlier: u32) -> Value {
    let (uuid, os_name) = (Some(Text::from(id(device))), Some(Text::from(device.name)));
    let bytes = if earlier == 0 { Vec::new() } else { earlier.to_le_bytes().to_vec() };
    Value::Endpoint(Box::new(Endpoint { uuid, os_name, bytes }))
}

/// A plane with its number, and the devices of one node in it.
pub type PlaneDevices<'f> = (usize, &'f Plane, Vec<Device<'f>>);

/// A node, its devices, and its ranks.
type JobNode<'f> = (&'f str, Vec<PlaneDevices<'f>>, Vec<u32>);

/// `PMIX_SWITCH_PEERS` of each node: for each device the ranks of the job at its switch. `None` if the lists would
/// exceed `bytes_max`.
pub(super) fn switch_peers(nodes: &[JobNode<'_>], bytes_max: usize) -> Option<Vec<Info>> {
    let mut ranks_at: BTreeMap<(usize, &str), BTreeSet<u32>> = BTreeMap::new();
    let devices = || nodes.iter().flat_map(|(_, planes, ranks)| planes.iter().map(move |plane| (plane, ranks)));
    let mut rank_count = 0_usize;
    for ((number, _, devices), ranks) in devices() {
        for device in devices {
            rank_count = rank_count.saturating_add(ranks.len());
            // Each rank takes two bytes at least.
            if rank_count > bytes_max / 2 {
                return None;
            }
            ranks_at.entry((*number, device.switch)).or_default().extend(ranks);
        }
    }
    let list = |ranks: BTreeSet<u32>| ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let lists: BTreeMap<_, String> = ranks_at.into_iter().map(|(switch, ranks)| (switch, list(ranks))).collect();
    let of_plane = |((number, _, devices), _): (&PlaneDevices<'_>, _)| {
        devices.iter().filter_map(|device| lists.get(&(*number, device.switch))).map(String::len).sum::<usize>()
    };
    if devices().map(of_plane).sum::<usize>() > bytes_max {
        return None;
    }
    let key = Key::from_static(keys::SWITCH_PEERS.name());
    let of_device = |number: usize, device: &Device<'_>| {
        let facts = vec![
            Info::new(Key::from_static(keys::DEVICE_ID.name()), id(*device)),
            Info::new(Key::from_static(keys::FABRIC_SWITCH.name()), device.switch),
            Info::new(key.clone(), lists.get(&(number, device.switch)).map_or("", String::as_str)),
        ];
        Info::new(key.clone(), Value::info_array(facts))
    };
    let of_node = |(_, planes, _): &JobNode<'_>| {
        let devices = planes.iter().flat_map(|(number, _, devices)| devices.iter().map(|device| (*number, device)));
        let infos = devices.map(|(number, device)| of_device(number, device)).collect();
        Info::new(key.clone(), Value::info_array(infos))
    };
    Some(nodes.iter().map(of_node).collect())
}

fn geometry(number: usize, plane: &Plane, device: Device<'_>) -> Value {
    let positions = plane.coordinates(device.index).unwrap_or_default();
    let logical = Coord { view: COORD_LOGICAL_VIEW, positions };
    let wired = plane.port(device.index);
    let physical = wired.map(|(switch, port)| Coord { view: COORD_PHYSICAL_VIEW, positions: vec![switch, port] });
    Value::Geometry(Box::new(Geometry {
        fabric: number as u64,
        uuid: Some(Text::from(id(device))),
        os_name: Some(Text::from(device.name)),
        coordinates: std::iter::once(logical).chain(physical).collect(),
    }))
}

/// `PMIX_DEVICE_ID`: that of inventories and distances, or node and name. Names are unique on their node.
pub(super) fn id(device: Device<'_>) -> String {
    device.id.map_or_else(|| format!("{DEVICE_ID}{}/{}", device.node, device.name), str::to_owned)
}

fn texts<'t>(texts: impl Iterator<Item = &'t str>) -> Value {
    let elements = texts.map(Value::from).collect();
    Value::DataArray(Box::new(DataArray { element_type: DataType::String, elements }))
}

fn find<'i>(infos: &'i [Info], key: &str) -> Option<&'i Value> {
    infos.iter().find(|info| info.key.as_str() == key).map(|info| &info.value)
}

fn text(infos: &[Info], key: TypedKey<str>) -> Result<Option<&str>, Status> {
    find(infos, key.name()).map(|value| value.as_str().ok_or(Status::ERR_BAD_PARAM)).transpose()
}

fn number(infos: &[Info], key: &str) -> Result<Option<u64>, Status> {
    find(infos, key).map(|value| value.as_u64().ok_or(Status::ERR_BAD_PARAM)).transpose()
}
