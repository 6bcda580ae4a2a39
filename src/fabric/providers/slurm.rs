use std::collections::BTreeMap;
use std::sync::Arc;

use super::hostlist::{excerpt, expand, name};
use super::provider::{Fault, Provider, ProviderError, UNKNOWN, number, u32_of};
use crate::fabric::{DEVICES_MAX, DeviceDescription, FabricDescription, Links, PlaneDescription, SWITCHES_MAX};

/// Slurm's `topology.conf`.
///
/// - `SwitchName=` with `Nodes=` or `Switches=` describes a tree. A switch may be below several switches. The links then
///   have no known structure, see [`crate::fabric::TABLE_SWITCHES_MAX`].
/// - The same lines describe a dragonfly (Slurm's `TopologyParam=dragonfly`). Switches with nodes below one switch are
///   a group. The upper switches stand for links and do not exist.
/// - `BlockName=` with `Nodes=`, and `BlockSizes=`, describe blocks. Blocks of each size are below a switch of their own.
/// - `RingName=` with `Nodes=` describes a ring. Each ring is a plane, `slurm/RING`.
///
/// Switches, blocks and rings may be empty: they wait for Slurm's dynamic nodes.
///
/// Each node has one device, `nic0`. `LinkSpeed=` is not used, as in Slurm: each link costs 1.
#[derive(Debug, Clone, Copy, Default)]
pub struct SlurmTopology {
    /// The switches with nodes are those of a dragonfly.
    pub is_dragonfly: bool,
}

/// The identifier of each fabric, and the plane of a `topology.conf`.
pub(super) const SLURM: &str = "slurm";

/// A line of a switch, block or ring.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) line: usize,
    pub(super) name: String,
    pub(super) nodes: Vec<String>,
    pub(super) switches: Vec<String>,
}

#[derive(Default)]
struct Parts {
    switches: Vec<Part>,
    blocks: Vec<Part>,
    rings: Vec<Part>,
    /// The sizes of blocks, with their line.
    sizes: Option<(usize, Vec<u32>)>,
}

impl Provider for SlurmTopology {
    fn describe(&self, text: &str) -> Result<FabricDescription, ProviderError> {
        let parts = parts(text)?;
        let line = |parts: &[Part]| parts.first().map(|part| part.line);
        let of_blocks = line(&parts.blocks).or(parts.sizes.as_ref().map(|(line, _)| *line));
        let mut kinds: Vec<_> = [line(&parts.switches), of_blocks, line(&parts.rings)].into_iter().flatten().collect();
        kinds.sort_unstable();
        if let Some(line) = kinds.get(1) {
            return Err(Fault::TwoKinds.on_line(*line));
        }
        let identifier = SLURM.to_owned();
        if !parts.rings.is_empty() {
            check_names(&parts.rings)?;
            return Ok(FabricDescription { identifier, planes: rings(SLURM, 0, &parts.rings) });
        }
        let described = if of_blocks.is_some() { &parts.blocks } else { &parts.switches };
        check_names(described)?;
        let switches = match &parts.sizes {
            _ if of_blocks.is_none() && self.is_dragonfly => dragonfly(described)?,
            _ if of_blocks.is_none() => tree(described)?,
            sizes => blocks(described, sizes.as_ref())?,
        };
        let plane = plane(SLURM.to_owned(), 0, described, switches);
        Ok(FabricDescription { identifier, planes: vec![plane] })
    }
}

/// A plane with a device for each node.
pub(super) fn plane(
    name: String,
    topology: usize,
    parts: &[Part],
    (switches, links, numbers): Switches,
) -> PlaneDescription {
    let nodes = parts.iter().zip(numbers).flat_map(|(part, switch)| part.nodes.iter().map(move |node| (node, switch)));
    PlaneDescription { name, vendor: UNKNOWN.to_owned(), switches, links, devices: devices(topology, nodes) }
}

/// A plane for each ring with nodes, `TOPOLOGY/RING`.
pub(super) fn rings(topology: &str, number: usize, rings: &[Part]) -> Vec<PlaneDescription> {
    let with_nodes = rings.iter().filter(|ring| !ring.nodes.is_empty());
    let plane = |Part { name, nodes, .. }: &Part| {
        torus_plane(format!("{topology}/{name}"), number, nodes, vec![u32_of(nodes.len())])
    };
    with_nodes.map(plane).collect()
}

/// A plane with a switch for each node.
pub(super) fn torus_plane(name: String, number: usize, nodes: &[String], sizes: Vec<u32>) -> PlaneDescription {
    PlaneDescription {
        switches: nodes.iter().map(|node| format!("switch of {node}")).collect(),
        links: Links::Torus(sizes),
        devices: devices(number, nodes.iter().zip(0..)),
        vendor: UNKNOWN.to_owned(),
        name,
    }
}

/// The device of each node, with its switch: `nic0` in the first topology of a file, `nic1` in the second.
fn devices<'n>(topology: usize, nodes: impl Iterator<Item = (&'n String, u32)>) -> Vec<DeviceDescription> {
    let vendor: Arc<str> = UNKNOWN.into();
    let device = |(node, switch): (&String, u32)| DeviceDescription {
        node: node.clone(),
        name: format!("nic{topology}"),
        vendor: Arc::clone(&vendor),
        switch,
        ..DeviceDescription::default()
    };
    nodes.map(device).collect()
}

/// Reads all lines. A backslash continues a line.
fn parts(text: &str) -> Result<Parts, ProviderError> {
    let mut parts = Parts::default();
    let mut names = 0;
    let mut lines = (1..).zip(text.lines());
    while let Some((line, first)) = lines.next() {
        let mut whole = without_comment(first).to_owned();
        while whole.ends_with('\\') {
            whole.pop();
            whole += lines.next().map_or("", |(_, next)| without_comment(next));
        }
        if whole.is_empty() {
            continue;
        }
        read_line(&whole, line, &mut parts, &mut names).map_err(|fault| fault.on_line(line))?;
    }
    Ok(parts)
}

fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim_end()
}

fn read_line(text: &str, line: usize, parts: &mut Parts, names: &mut usize) -> Result<(), Fault> {
    let mut part = Part { line, name: String::new(), nodes: Vec::new(), switches: Vec::new() };
    let mut kind = None;
    let mut keys: Vec<String> = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (key, value, behind) = pair(rest).ok_or_else(|| Fault::form(rest))?;
        rest = behind.trim_start();
        let mut list = || {
            if value.is_empty() {
                return Ok(Vec::new());
            }
            let list = expand(value, (DEVICES_MAX + SWITCHES_MAX).saturating_sub(*names))?;
            *names += list.len();
            Ok::<_, Fault>(list)
        };
        let lower = key.to_ascii_lowercase();
        if keys.contains(&lower) {
            return Err(Fault::KeyTwice { key: excerpt(key) });
        }
        match lower.as_str() {
            "switchname" | "blockname" | "ringname" if kind.is_none() => {
                (kind, part.name) = (Some(lower.clone()), name(value)?);
            }
            "nodes" => part.nodes = list()?,
            "switches" => part.switches = list()?,
            "linkspeed" => {}
            "blocksizes" if keys.is_empty() && rest.is_empty() => {
                if let Some((before, _)) = parts.sizes {
                    return Err(Fault::Twice { name: key.to_owned(), before });
                }
                let sizes = value.split(',').map(|size| number(size, 1, u32_of(DEVICES_MAX)));
                parts.sizes = Some((line, sizes.collect::<Result<_, _>>()?));
                return Ok(());
            }
            _ => return Err(Fault::Key { key: excerpt(key) }),
        }
        keys.push(lower);
    }
    let list = match kind.as_deref() {
        Some("switchname") => &mut parts.switches,
        Some(_) if !part.switches.is_empty() => return Err(Fault::Key { key: "Switches".to_owned() }),
        Some("blockname") => &mut parts.blocks,
        Some(_) => &mut parts.rings,
        None => return Err(Fault::Missing { key: "SwitchName=, BlockName= or RingName=" }),
    };
    list.push(part);
    Ok(())
}

/// The first key of a text with its value, and the text behind them. As in all files of Slurm, spaces may be around the
/// `=`, and quotes around the value.
fn pair(text: &str) -> Option<(&str, &str, &str)> {
    let (key, rest) = text.split_once('=')?;
    let (key, rest) = (key.trim_end(), rest.trim_start());
    if key.is_empty() || key.contains(char::is_whitespace) {
        return None;
    }
    if let Some((value, behind)) = rest.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
        return Some((key, value, behind));
    }
    let (value, behind) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    Some((key, value, behind))
}

/// Refuses a switch, block or node that is described twice.
pub(super) fn check_names(parts: &[Part]) -> Result<(), ProviderError> {
    let (mut switches, mut nodes) = (BTreeMap::new(), BTreeMap::new());
    for part in parts {
        let twice = |name: &str, before| Fault::Twice { name: name.to_owned(), before }.on_line(part.line);
        if let Some(before) = switches.insert(part.name.as_str(), part.line) {
            return Err(twice(&part.name, before));
        }
        for node in &part.nodes {
            if let Some(before) = nodes.insert(node.as_str(), part.line) {
                return Err(twice(node, before));
            }
        }
    }
    Ok(())
}

/// Names and links of switches, and the number of the switch of each part.
pub(super) type Switches = (Vec<String>, Links, Vec<u32>);

pub(super) fn tree(parts: &[Part]) -> Result<Switches, ProviderError> {
    let pairs = pairs(parts)?;
    let mut above = vec![None; parts.len()];
    let mut is_tree = true;
    for &(upper, lower) in &pairs {
        if let Some(place) = above.get_mut(lower as usize) {
            is_tree &= place.replace(upper).is_none();
        }
    }
    let names = parts.iter().map(|part| part.name.clone()).collect();
    let links = if is_tree { Links::Tree(above) } else { Links::Irregular(pairs) };
    Ok((names, links, (0..u32_of(parts.len())).collect()))
}

/// The upper and lower switch of each link, sorted. Refuses unknown switches and loops.
fn pairs(parts: &[Part]) -> Result<Vec<(u32, u32)>, ProviderError> {
    let numbers: BTreeMap<&str, u32> = parts.iter().map(|part| part.name.as_str()).zip(0..).collect();
    let mut pairs = Vec::new();
    for (upper, part) in (0..).zip(parts) {
        for name in &part.switches {
            let unknown = || Fault::Unknown { name: name.clone() }.on_line(part.line);
            pairs.push((upper, *numbers.get(name.as_str()).ok_or_else(unknown)?));
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    match in_loop(&pairs, parts.len()).and_then(|switch| parts.get(switch as usize)) {
        Some(part) => Err(Fault::Loop { name: part.name.clone() }.on_line(part.line)),
        None => Ok(pairs),
    }
}

/// A switch of a loop. Switches without upper switches leave, one after the other, until only those of loops and below
/// loops are left.
fn in_loop(pairs: &[(u32, u32)], count: usize) -> Option<u32> {
    let mut upper_counts = vec![0_u32; count];
    for &(_, lower) in pairs {
        upper_counts.iter_mut().skip(lower as usize).take(1).for_each(|count| *count += 1);
    }
    let has_none = |(switch, &count): (u32, &u32)| (count == 0).then_some(switch);
    let mut leaving: Vec<u32> = (0..).zip(&upper_counts).filter_map(has_none).collect();
    while let Some(switch) = leaving.pop() {
        let start = pairs.partition_point(|&(upper, _)| upper < switch);
        for &(_, lower) in pairs.iter().skip(start).take_while(|&&(upper, _)| upper == switch) {
            let Some(count) = upper_counts.get_mut(lower as usize) else { continue };
            *count -= 1;
            if *count == 0 {
                leaving.push(lower);
            }
        }
    }
    let is_left = |switch: u32| upper_counts.get(switch as usize).is_some_and(|&count| count > 0);
    let left_above: BTreeMap<u32, u32> =
        pairs.iter().filter(|&&(upper, _)| is_left(upper)).map(|&(upper, lower)| (lower, upper)).collect();
    // Each of them has one above it, so the way upwards ends in a loop.
    let first = *left_above.keys().next()?;
    Some((0..count).fold(first, |switch, _| left_above.get(&switch).copied().unwrap_or(switch)))
}

fn dragonfly(parts: &[Part]) -> Result<Switches, ProviderError> {
    let mut groups: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut above: BTreeMap<u32, u32> = BTreeMap::new();
    for (upper, lower) in pairs(parts)? {
        above.entry(lower).or_insert(upper);
    }
    for (switch, part) in (0..).zip(parts).filter(|(_, part)| !part.nodes.is_empty()) {
        if !part.switches.is_empty() {
            return Err(Fault::Mixed { name: part.name.clone() }.on_line(part.line));
        }
        groups.entry(above.get(&switch).copied().unwrap_or(switch)).or_default().push(switch);
    }
    let mut numbers = vec![0; parts.len()];
    let order = groups.values().flatten();
    let mut names = Vec::new();
    for (number, &switch) in (0..).zip(order) {
        names.extend(parts.get(switch as usize).map(|part| part.name.clone()));
        numbers.iter_mut().skip(switch as usize).take(1).for_each(|place| *place = number);
    }
    let sizes = groups.values().map(|group| u32_of(group.len())).collect();
    Ok((names, Links::Dragonfly(sizes), numbers))
}

/// Blocks below a switch for each larger size, and all below one.
pub(super) fn blocks(parts: &[Part], sizes: Option<&(usize, Vec<u32>)>) -> Result<Switches, ProviderError> {
    let mut names: Vec<String> = parts.iter().map(|part| part.name.clone()).collect();
    let mut above: Vec<Option<u32>> = vec![None; parts.len()];
    let mut level: Vec<usize> = (0..parts.len()).collect();
    let (line, sizes) = sizes.map_or((0, &[][..]), |(line, sizes)| (*line, sizes));
    let ratios = sizes.array_windows().map(|&[part, size]| {
        let ratio = size.checked_div(part).filter(|&ratio| ratio > 1 && ratio * part == size);
        ratio.map(|ratio| (size, ratio as usize)).ok_or(Fault::BlockSizes { size, part })
    });
    let ratios = ratios.collect::<Result<Vec<_>, _>>().map_err(|fault| fault.on_line(line))?;
    let all = (0, usize::MAX);
    for (size, ratio) in ratios.into_iter().chain([all]).take_while(|_| parts.len() > 1) {
        if level.len() == 1 {
            break;
        }
        let mut upper_level = Vec::new();
        for (number, members) in level.chunks(ratio).enumerate() {
            let upper = names.len();
            names.push(if size == 0 { "all blocks".to_owned() } else { format!("block {number} of {size} nodes") });
            above.push(None);
            members.iter().for_each(|&member| {
                above.iter_mut().skip(member).take(1).for_each(|place| *place = Some(u32_of(upper)));
            });
            upper_level.push(upper);
        }
        level = upper_level;
    }
    Ok((names, Links::Tree(above), (0..u32_of(parts.len())).collect()))
}
