use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::provider::{Fault, Provider, ProviderError, check_name, id_of_port, u32_of};
use crate::fabric::{DeviceDescription, FabricDescription, Links, PlaneDescription};
use crate::topo::device_id;
use crate::topo::is_name_in_lists;

/// The output of `ibnetdiscover`: one InfiniBand subnet as a plane.
///
/// Each connected port of a channel adapter is a device, `mlx5_0:1`. Its node is the first of two words of the
/// adapter's description, if the second one is a name with a number at its end (`node7 mlx5_0`). Otherwise the node has
/// the adapter's id. The same holds for descriptions that several adapters have, and for those of a factory, which
/// begin with the number of a chip (`MT4129`). The switches' own adapters for reductions are left out.
#[derive(Debug, Clone, Copy, Default)]
pub struct IbNetDiscover;

const NAME: &str = "infiniband";
/// The name of an adapter whose node has the adapter's id.
const NAMELESS: &str = "ca";
/// The description of the adapter inside a switch (SHARP).
const AGGREGATION: &str = "Aggregation Node";

/// The section of a switch, adapter or router.
#[derive(Clone)]
struct Section<'t> {
    kind: Kind,
    id: &'t str,
    node: &'t str,
    name: &'t str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Switch,
    Adapter,
    /// Routers, and the adapters inside switches.
    Other,
}

#[derive(Default)]
struct Subnet<'t> {
    switches: Vec<String>,
    /// The number and line of each switch.
    numbers: BTreeMap<&'t str, (u32, usize)>,
    /// Links of switches: the line, the switch, and the id of the other one.
    links: Vec<(usize, u32, &'t str)>,
    /// Devices without their switch and id: the line, the id of the switch, the port at the device, and the device.
    devices: Vec<(usize, &'t str, End<'t>, DeviceDescription)>,
    /// `PMIX_DEVICE_ID` of adapters, with the numbers of their devices.
    adapters: BTreeMap<&'t str, (String, usize)>,
    /// The ids of the adapters with each node and name.
    ids: BTreeMap<(&'t str, &'t str), BTreeSet<&'t str>>,
    /// Ports at the other ends of switches' cables, except those of switches, and the line of each.
    ends: Vec<(End<'t>, usize)>,
    /// Described ports, with the other ends of their cables and their lines.
    ports: BTreeMap<End<'t>, (End<'t>, usize)>,
}

/// The id of a switch, adapter or router, and the number of its port.
type End<'t> = (&'t str, &'t str);

impl Provider for IbNetDiscover {
    fn describe(&self, text: &str) -> Result<FabricDescription, ProviderError> {
        let mut subnet = Subnet::read(text)?;
        subnet.tell_apart();
        // The program writes each cable in the sections of both ends. Otherwise the text was cut.
        if let Some((end, line)) = subnet.ends.iter().find(|(end, _)| !subnet.ports.contains_key(end)) {
            return Err(Fault::Unknown { name: shown(*end) }.on_line(*line));
        }
        let back = |end: &End<'_>| subnet.ports.get(end).map(|(back, _)| *back);
        let is_crossed = |(own, (end, _)): &(&End<'_>, &(End<'_>, usize))| back(end).is_some_and(|back| back != **own);
        if let Some((_, (end, line))) = subnet.ports.iter().find(is_crossed) {
            let other = back(end).map(shown).unwrap_or_default();
            return Err(Fault::Cable { end: shown(*end), other }.on_line(*line));
        }
        let number = |line: usize, id: &str| {
            let unknown = || Fault::Unknown { name: id.to_owned() }.on_line(line);
            subnet.numbers.get(id).map(|&(number, _)| number).ok_or_else(unknown)
        };
        let links = subnet.links.iter().map(|&(line, one, other)| Ok((one, number(line, other)?)));
        let links = links.collect::<Result<Vec<_>, ProviderError>>()?;
        let with_switch = |(line, id, (adapter, port), device): (usize, &str, End<'_>, DeviceDescription)| {
            let id_of_device = subnet.adapters.get(adapter).map(|(id, count)| id_of_port(id, port, *count));
            Ok(DeviceDescription { switch: number(line, id)?, id: id_of_device, ..device })
        };
        let devices = subnet.devices.into_iter().map(with_switch).collect::<Result<Vec<_>, ProviderError>>()?;
        let vendor = devices.first().map_or("unknown", |device| &*device.vendor).to_owned();
        let links = Links::Irregular(links);
        let plane = PlaneDescription { name: NAME.to_owned(), vendor, switches: subnet.switches, links, devices };
        Ok(FabricDescription { identifier: NAME.to_owned(), planes: vec![plane] })
    }
}

/// A port as the text has it.
fn shown((id, port): End<'_>) -> String {
    format!("\"{id}\"[{port}]")
}

impl<'t> Subnet<'t> {
    fn read(text: &'t str) -> Result<Self, ProviderError> {
        let mut subnet = Self::default();
        let mut vendor: Arc<str> = "unknown".into();
        let (mut section, mut guid, mut system_guid) = (None, None, None);
        for (line, whole) in (1..).zip(text.lines()) {
            let content = whole.trim();
            if let Some(id) = content.strip_prefix("vendid=") {
                if *vendor != *id {
                    vendor = id.into();
                }
            } else if let Some(text) = content.strip_prefix("caguid=0x") {
                guid = written(text);
            } else if let Some(text) = content.strip_prefix("sysimgguid=0x") {
                system_guid = written(text);
            } else if content.starts_with('[') {
                let section: &Section<'_> =
                    section.as_ref().ok_or_else(|| Fault::Missing { key: "Switch, Ca or Rt" }.on_line(line))?;
                subnet.read_port(content, line, section, &vendor).map_err(|fault| fault.on_line(line))?;
            } else if let Some(next) = Section::read(content) {
                let next = next.map_err(|fault| fault.on_line(line))?;
                if next.kind == Kind::Switch {
                    let number = u32_of(subnet.switches.len());
                    if let Some((_, before)) = subnet.numbers.insert(next.id, (number, line)) {
                        return Err(Fault::Twice { name: next.id.to_owned(), before }.on_line(line));
                    }
                    subnet.switches.push(next.id.to_owned());
                } else if next.kind == Kind::Adapter {
                    subnet.ids.entry((next.node, next.name)).or_default().insert(next.id);
                }
                let guids = (guid.take(), system_guid.take());
                if let (Kind::Adapter, (Some(guid), Some(system_guid))) = (next.kind, guids) {
                    subnet.adapters.insert(next.id, (device_id::of_adapter(&guid, &system_guid), 0));
                }
                section = Some(next);
            } else if !is_ignored(content) {
                return Err(Fault::form(content).on_line(line));
            }
        }
        Ok(subnet)
    }

    /// Gives adapters with the same description their ids. Other machines write it, so it must not end the fabric.
    fn tell_apart(&mut self) {
        let equal = self.ids.iter().filter(|(_, ids)| ids.len() > 1);
        let Some(((node, name), _)) = equal.clone().next() else { return };
        let ids: BTreeSet<&str> = equal.flat_map(|(_, ids)| ids).copied().collect();
        for (_, _, (id, port), device) in self.devices.iter_mut().filter(|(_, _, (id, _), _)| ids.contains(id)) {
            (device.node, device.name) = ((*id).to_owned(), format!("{NAMELESS}:{port}"));
        }
        tracing::warn!(
            "{} InfiniBand adapters are nodes of their own, because others have the same description, such as '{node} {name}'; give each \
             host a name of its own, and restart its rdma-ndd",
            ids.len()
        );
    }

    /// Takes a line like `[1](2c903001) "S-0002c9"[22] # lid 5`.
    fn read_port(&mut self, text: &'t str, line: usize, section: &Section<'t>, vendor: &Arc<str>) -> Result<(), Fault> {
        let form = || Fault::form(text);
        let (port, behind) = text.strip_prefix('[').and_then(|text| text.split_once(']')).ok_or_else(form)?;
        let (own, behind) = behind.split_once('"').ok_or_else(form)?;
        let (peer, behind) = behind.split_once('"').ok_or_else(form)?;
        let (peer_port, _) = behind.strip_prefix('[').and_then(|behind| behind.split_once(']')).ok_or_else(form)?;
        let is_number = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(port) || !is_number(peer_port) {
            return Err(form());
        }
        if let Some((_, before)) = self.ports.insert((section.id, port), ((peer, peer_port), line)) {
            return Err(Fault::Twice { name: shown((section.id, port)), before });
        }
        match section.kind {
            Kind::Switch if peer.starts_with("S-") && peer != section.id => {
                let number = self.numbers.get(section.id).map_or(u32::MAX, |&(number, _)| number);
                self.links.push((line, number, peer));
            }
            Kind::Adapter if peer.starts_with("S-") => {
                let guid = own.trim().strip_prefix('(').and_then(|own| own.strip_suffix(')'));
                let device = DeviceDescription {
                    node: section.node.to_owned(),
                    name: format!("{}:{port}", section.name),
                    vendor: Arc::clone(vendor),
                    address: guid.map(str::to_owned),
                    port: peer_port.parse().ok(),
                    ..DeviceDescription::default()
                };
                self.devices.push((line, peer, (section.id, port), device));
                self.adapters.entry(section.id).and_modify(|(_, count)| *count += 1);
            }
            Kind::Adapter => {
                let device = format!("{} {}:{port}", section.node, section.name);
                return Err(Fault::NoSwitch { device, peer: peer.to_owned() });
            }
            Kind::Switch if peer != section.id => self.ends.push(((peer, peer_port), line)),
            Kind::Switch | Kind::Other => {}
        }
        Ok(())
    }
}

impl<'t> Section<'t> {
    /// Takes a line like `Ca 2 "H-0002c9" # "node7 mlx5_0"`; `None` for other lines.
    fn read(text: &'t str) -> Option<Result<Self, Fault>> {
        let kind = match text.split_whitespace().next()? {
            "Switch" => Kind::Switch,
            "Ca" => Kind::Adapter,
            "Rt" => Kind::Other,
            _ => return None,
        };
        let mut quoted = text.split('"').skip(1).step_by(2);
        let Some(id) = quoted.next().filter(|id| !id.is_empty()) else { return Some(Err(Fault::form(text))) };
        let description = quoted.next().unwrap_or_default();
        let is_inside = kind == Kind::Adapter && description.contains(AGGREGATION);
        let kind = if is_inside { Kind::Other } else { kind };
        let mut words = description.split_whitespace();
        let (node, name) = match (words.next(), words.next(), words.next()) {
            // Other machines write their descriptions. An odd one must not end the fabric.
            (Some(node), Some(name), None) if is_host(node) && is_device(name) => (node, name),
            _ => (id, NAMELESS),
        };
        let checked = match kind {
            Kind::Switch => check_name("switch", id),
            Kind::Adapter => check_name("node", id),
            Kind::Other => Ok(()),
        };
        Some(checked.map(|()| Self { kind, id, node, name }))
    }
}

/// Whether a word is the name of a host, and not the number of a chip (`MT4129`).
fn is_host(word: &str) -> bool {
    let is_chip = word.strip_prefix("MT").is_some_and(|number| number.parse::<u32>().is_ok());
    is_name_in_lists(word) && !is_chip
}

/// Whether a word is a name with a number at its end, as those of devices.
fn is_device(word: &str) -> bool {
    word.ends_with(|last: char| last.is_ascii_digit()) && is_name_in_lists(word)
}

/// A node's GUID as the kernel writes it, such as `506b:4b03:00c4:8d1c`.
fn written(guid: &str) -> Option<String> {
    let guid = u64::from_str_radix(guid, 16).ok()?;
    let part = |shift: u32| format!("{:04x}", guid >> shift & 0xffff);
    Some([48, 32, 16, 0].map(part).join(":"))
}

/// Lines that say nothing about links: comments, warnings, properties and the names of chassis.
fn is_ignored(text: &str) -> bool {
    let is_property = || {
        let keys = ["devid=", "sysimgguid=", "switchguid=", "caguid=", "rtguid="];
        keys.iter().any(|key| text.starts_with(key))
    };
    text.is_empty()
        || ["#", "ibwarn:", "Chassis", "Hostname:", "Non-Chassis"].iter().any(|start| text.starts_with(start))
        || is_property()
}
