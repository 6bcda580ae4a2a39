//! Endpoints of a job on the fabric: those that the job's wishes name, else one for each process in each plane.
//!
//! ```text
//! a wish, nodes and ranks of the job, localities of processes, inventories --> what it gets, or what the fabric lacks
//! fabric, nodes and ranks, endpoints of the wishes --> modex.fabric.job: values of the description
//! ```
//!
//! Each application has its endpoints from the hardware at its setup, so a later change moves none of them. Devices
//! have numbers that stay (`known_devices`), so the answer does not depend on the time of the later setups. Facts about
//! nodes are those of the newest hardware.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::application::{PlacedApplication, Wanted};
use super::hardware::Hardware;
use super::known_devices::{DeviceLists, KnownDevices};
use super::layout::Layout;
use crate::fabric::{Closest, Device, DeviceEndpoint, Plane, PlaneDevices, Turns, numbered};
use crate::gds::job_record::endpoints_of;
use crate::gds::registration::endpoints_info;
use crate::keys;
use crate::topo::inventory::Device as InventoryDevice;
use crate::topo::{Inventories, relative_locality};
use crate::types::codes::device_type::{DEVTYPE_NETWORK, DEVTYPE_OPENFABRICS};
use crate::types::codes::locality::{LOCALITY_SHARE_NUMA, LOCALITY_SHARE_PACKAGE};
use crate::types::{Info, Key, Rank, Value};

/// The info with a job's values on the fabric.
pub(super) const FABRIC: &str = "modex.fabric.job";
/// Endpoints and nodes of all wishes of a job.
pub(super) const ENDPOINTS_MAX: u64 = 1 << 18;
/// Names of planes in an error.
const NAMED_MAX: usize = 8;
/// Characters of a caller's text in an error.
const EXCERPT_MAX: usize = 64;

/// Why the fabric can't give a job what it wants.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FabricShortage {
    /// No plane has the name.
    #[error("no plane of the fabric and no device of node {node} has the name {name:?}; the planes are {planes}")]
    Plane {
        /// The name.
        name: Box<str>,
        /// The node.
        node: Box<str>,
        /// The planes that exist.
        planes: Box<str>,
    },
    /// No device of the planes has the type.
    #[error("node {node} has no device of the type {kind:?} there")]
    Kind {
        /// The type.
        kind: Box<str>,
        /// The node.
        node: Box<str>,
    },
    /// A node of the job has no such device.
    #[error(
        "node {node} has no such device on the fabric; correct PMIX_NODE_MAP or the fabric's description, or deliver the node's inventory"
    )]
    Node {
        /// The node.
        node: Box<str>,
    },
    /// The job has no known process or node.
    #[error("no node or process is known that could have endpoints; add PMIX_NODE_MAP and PMIX_PROC_MAP")]
    NoOwner,
    /// The job would get too many endpoints.
    #[error(
        "the job's requests are for {found} endpoints and nodes, more than {ENDPOINTS_MAX}; ask for fewer endpoints"
    )]
    TooMany {
        /// The number of endpoints and nodes.
        found: u64,
    },
}

/// The fabric for one job.
pub(super) struct JobFabric<'a> {
    newest: &'a Hardware,
    /// The applications that were set up before, and then the one that is set up.
    applications: &'a [PlacedApplication],
    /// The known places of processes.
    places: BTreeMap<u32, ProcessPlace>,
    /// The arrays of each wish.
    given: BTreeMap<Key, Vec<Info>>,
    /// Each node of a wish.
    nodes: BTreeMap<WishKey, WishNode>,
    /// The devices of each node.
    known: BTreeMap<&'a str, KnownDevices<'a>>,
    /// The endpoints of the job's wishes, by known devices.
    of_processes: BTreeMap<u32, Vec<DeviceEndpoint>>,
    of_nodes: BTreeMap<&'a str, Vec<DeviceEndpoint>>,
    /// Node and name of devices with endpoints that the newest fabric lacks.
    lost: BTreeSet<(&'a str, &'a str)>,
    /// Whether the last values have no switch peers.
    lacks_switch_peers: bool,
    /// The endpoints and nodes of all wishes so far.
    count: u64,
    /// A large job has few places, so each of them is compared with each place of a device once.
    distances: RefCell<BTreeMap<(ProcessPlace, DevicePlace), Option<u32>>>,
}

/// The name of a wish, the names of its plane and kind, and the node. Applications may want different devices under one
/// name.
type WishKey = (Key, Option<String>, Option<String>, String);

/// A node of a wish. Applications share its devices.
#[derive(Default)]
struct WishNode {
    lists: DeviceLists,
    turns: Turns<TurnPlace>,
    /// The names of its devices in the newest array.
    names: Option<String>,
    /// The endpoints of the node itself.
    of_node: u64,
}

/// A node whose processes get endpoints without a wish.
#[derive(Default)]
struct UnaskedNode {
    lists: DeviceLists,
    turns: Turns<TurnPlace>,
    /// The numbers of the lists of endpoints.
    numbers: BTreeMap<Vec<DeviceEndpoint>, u32>,
}

/// A list of devices, whether each of its planes has an order, and the place of a process.
type TurnPlace = (usize, bool, Option<ProcessPlace>);

/// The number of an application, and that of a place of it.
type ProcessPlace = (usize, usize);

/// The number of the package, and that of the NUMA node as hwloc counts them.
type DevicePlace = (Option<u32>, Option<usize>);

impl<'a> JobFabric<'a> {
    /// The last application is the one that is set up. The others have got their endpoints before.
    pub(super) fn new(newest: &'a Hardware, applications: &'a [PlacedApplication]) -> Self {
        let of_application = |(number, placed): (usize, &'a PlacedApplication)| {
            placed.application.places.of_all().map(move |(rank, place)| (rank, (number, place)))
        };
        let mut of_job = Self {
            newest,
            applications,
            places: applications.iter().enumerate().flat_map(of_application).collect(),
            given: BTreeMap::new(),
            nodes: BTreeMap::new(),
            known: BTreeMap::new(),
            of_processes: BTreeMap::new(),
            of_nodes: BTreeMap::new(),
            lost: BTreeSet::new(),
            lacks_switch_peers: false,
            count: 0,
            distances: RefCell::default(),
        };
        let earlier = applications.split_last().map_or(&[][..], |(_, earlier)| earlier);
        for placed in earlier {
            for (id, wanted) in &placed.application.wishes {
                // The log of its own setup names a shortage.
                let _ = of_job.add(id, placed, wanted);
            }
        }
        of_job
    }

    /// Takes endpoints for a wish of the application that is set up. Returns the arrays of all applications with this
    /// wish: one for each node, with its devices, and one for each process.
    pub(super) fn take(&mut self, id: &Key, wanted: &Wanted) -> Result<Vec<Info>, FabricShortage> {
        if let Some(placed) = self.applications.last() {
            self.add(id, placed, wanted)?;
        }
        Ok(self.given.get(id).cloned().unwrap_or_default())
    }

    fn add(&mut self, id: &Key, placed: &'a PlacedApplication, wanted: &Wanted) -> Result<(), FabricShortage> {
        let PlacedApplication { application, hardware } = placed;
        let layout = &application.layout;
        // Before the look at many nodes.
        let of_each = if wanted.is_of_planes() { 1 } else { wanted.of_process };
        self.count_with(layout, wanted, of_each.saturating_mul(layout.process_count()))?;
        let nodes = layout.nodes().filter(|(_, ranks)| wanted.of_node > 0 || !ranks.is_empty());
        let nodes: Vec<(&'a str, Vec<u32>)> = nodes.collect();
        if nodes.is_empty() || wanted.of_process > 0 && nodes.iter().all(|(_, ranks)| ranks.is_empty()) {
            return Err(FabricShortage::NoOwner);
        }
        let mut devices = Vec::with_capacity(nodes.len());
        for (node, ranks) in nodes {
            let found = wanted_devices(hardware, wanted, node);
            if found.is_empty() {
                return Err(shortage(hardware, wanted, node));
            }
            devices.push((node, ranks, found));
        }
        let of_node = |(_, ranks, found): &(_, Vec<u32>, Vec<PlaneDevices<'_>>)| {
            let of_each = if wanted.is_of_planes() { found.len() as u64 } else { wanted.of_process };
            of_each.saturating_mul(ranks.len() as u64)
        };
        self.count = self.count_with(layout, wanted, devices.iter().map(of_node).fold(0, u64::saturating_add))?;
        for (node, ranks, devices) in devices {
            let arrays = self.of_node((id, wanted), hardware, (node, &ranks), &devices);
            self.given.entry(id.clone()).or_default().extend(arrays);
        }
        Ok(())
    }

    /// Refuses endpoints beyond the limit. Each node counts, because it has an array. Returns the count with these
    /// endpoints.
    fn count_with(&self, layout: &Layout, wanted: &Wanted, of_processes: u64) -> Result<u64, FabricShortage> {
        let of_nodes = wanted.of_node.saturating_add(1).saturating_mul(layout.node_count());
        let found = of_processes.saturating_add(of_nodes).saturating_add(self.count);
        if found > ENDPOINTS_MAX { Err(FabricShortage::TooMany { found }) } else { Ok(found) }
    }

    /// Whether a wish has got what it is for.
    pub(super) fn has_given(&self) -> bool {
        !self.of_nodes.is_empty()
    }

    /// The values for the job's description. Empty if no node of the job has a device.
    pub(super) fn values(&mut self) -> Vec<Info> {
        let (mut lists, mut numbers) = (Vec::new(), BTreeMap::new());
        let mut nodes: BTreeMap<&str, UnaskedNode> = BTreeMap::new();
        for PlacedApplication { application, hardware } in self.applications {
            for (node, ranks) in application.layout.nodes() {
                let of_node = nodes.entry(node).or_default();
                numbers.extend(self.numbers_of_node(hardware, (node, &ranks), of_node, &mut lists));
            }
        }
        let nodes = self.newest.fabric.facts_of_nodes(nodes_of(self.applications).into_iter());
        let lacks_peers = |infos: &[Info]| infos.iter().all(|info| info.key.as_str() != keys::SWITCH_PEERS.name());
        self.lacks_switch_peers = nodes.iter().any(|(_, infos)| lacks_peers(infos));
        let of_nodes = nodes.into_iter().map(|(node, values)| {
            let name = Info::new(Key::from_static(keys::HOSTNAME.name()), node);
            Info::new(Key::from_static(keys::NODE_INFO_ARRAY.name()), Value::info_array([vec![name], values].concat()))
        });
        let of_processes = (!lists.is_empty()).then(|| endpoints_info(lists, numbers.into_iter()));
        of_processes.into_iter().chain(of_nodes).collect()
    }

    /// Node and name of devices with endpoints that are no longer in the fabric.
    pub(super) const fn lost(&self) -> &BTreeSet<(&'a str, &'a str)> {
        &self.lost
    }

    /// Whether the values have no switch peers, because there would be too many.
    pub(super) const fn lacks_switch_peers(&self) -> bool {
        self.lacks_switch_peers
    }

    /// The list of endpoints of each process of a node. New lists are added.
    fn numbers_of_node(
        &mut self,
        hardware: &'a Hardware,
        (node, ranks): (&'a str, &[u32]),
        of_node: &mut UnaskedNode,
        lists: &mut Vec<Value>,
    ) -> Vec<(u32, u32)> {
        let devices = hardware.fabric.wanted_devices(node, |_, _| true);
        if devices.is_empty() {
            return Vec::new();
        }
        let devices = self.known.entry(node).or_default().numbered(&devices);
        let list = of_node.lists.number_of(&devices);
        let mut given = Vec::with_capacity(ranks.len());
        for &rank in ranks {
            let of_wishes = self.of_processes.get(&rank).filter(|taken| !taken.is_empty());
            let chosen = of_wishes.cloned().unwrap_or_else(|| {
                let place = self.place_of(rank);
                let distance = |device: Device<'_>| self.distance(&hardware.inventories, place, device);
                let closest = || Closest::of_each_plane(&devices, distance);
                let taken = of_node.turns.take((list, true, place), 1, closest).into_iter();
                taken.map(|(_, device)| DeviceEndpoint { device, earlier: 0 }).collect()
            });
            if let Some(number) = of_node.numbers.get(&chosen) {
                given.push((rank, *number));
                continue;
            }
            self.note_lost(hardware, node, chosen.iter().map(|endpoint| endpoint.device));
            lists.extend(self.known.get(node).map(|known| known.endpoints(&chosen)));
            let number = u32::try_from(lists.len()).unwrap_or(u32::MAX);
            of_node.numbers.insert(chosen, number);
            given.push((rank, number));
        }
        given
    }

    /// Notes known devices of a node with endpoints that the newest fabric lacks.
    fn note_lost(&mut self, hardware: &Hardware, node: &str, devices: impl Iterator<Item = u32>) {
        let Some(known) = self.known.get(node).filter(|_| !hardware.is_same(self.newest)) else { return };
        let planes = self.newest.fabric.planes();
        let is_lost =
            |device: &Device<'_>| planes.iter().all(|plane| plane.device_by_name(device.node, device.name).is_none());
        let lost = devices.filter_map(|device| known.device(device)).filter(is_lost);
        self.lost.extend(lost.map(|device| (device.node, device.name)));
    }

    /// The processes of the node that has the most; 1 if no process is known.
    pub(super) fn local_count_max(&self) -> u64 {
        nodes_of(self.applications).iter().map(|(_, ranks)| ranks.len() as u64).fold(1, u64::max)
    }

    /// Takes the endpoints of a node and its processes.
    fn of_node(
        &mut self,
        (id, wanted): (&Key, &Wanted),
        hardware: &'a Hardware,
        (node, ranks): (&'a str, &[u32]),
        devices: &[PlaneDevices<'a>],
    ) -> Vec<Info> {
        let kind = wanted.kind.as_ref().map(|(kind, _)| kind.clone());
        let key = (id.clone(), wanted.plane.clone(), kind, node.to_owned());
        let mut of_wish = self.nodes.remove(&key).unwrap_or_default();
        let devices = &self.known.entry(node).or_default().numbered(devices);
        let taken = Turns::default().take((), count(wanted.of_node), || vec![Closest::of(devices, |_| None)]);
        let taken = taken.get(count(of_wish.of_node)..).unwrap_or_default();
        of_wish.of_node = of_wish.of_node.max(wanted.of_node);
        self.note_lost(hardware, node, taken.iter().map(|(_, device)| *device));
        let earlier = self.of_nodes.entry(node).or_default();
        let given = self.known.get(node).and_then(|known| endpoints(known, taken, earlier, Rank::LocalNode));
        let names = devices.iter().flat_map(|(_, _, devices)| devices).map(|device| device.name);
        let names = names.collect::<Vec<_>>().join(",");
        let mut arrays = Vec::new();
        if given.is_some() || of_wish.names.as_ref() != Some(&names) {
            let name = info(keys::HOSTNAME.name(), node.into());
            let facts = [name, info(keys::FABRIC_DEVICE_NAME.name(), names.as_str().into())].into_iter().chain(given);
            arrays.push(info(keys::NODE_INFO_ARRAY.name(), Value::info_array(facts.collect())));
            of_wish.names = Some(names);
        }
        let list = of_wish.lists.number_of(devices);
        let count = if wanted.is_of_planes() { 1 } else { count(wanted.of_process) };
        for &rank in ranks {
            let place = self.place_of(rank);
            let taken = of_wish.turns.take((list, wanted.is_of_planes(), place), count, || {
                let distance = |device: Device<'_>| self.distance(&hardware.inventories, place, device);
                // A wish without numbers has one endpoint in each of its planes.
                if wanted.is_of_planes() {
                    Closest::of_each_plane(devices, distance)
                } else {
                    vec![Closest::of(devices, distance)]
                }
            });
            let earlier = self.of_processes.entry(rank).or_default();
            let given = self.known.get(node).and_then(|known| endpoints(known, &taken, earlier, Rank::from(rank)));
            arrays.extend(given.map(|given| {
                let facts = vec![info(keys::RANK.name(), Value::ProcRank(rank.into())), given];
                info(keys::PROC_INFO_ARRAY.name(), Value::info_array(facts))
            }));
        }
        self.nodes.insert(key, of_wish);
        arrays
    }

    /// The place of a process, if it is known.
    fn place_of(&self, rank: u32) -> Option<ProcessPlace> {
        self.places.get(&rank).copied()
    }

    /// The distance of a place and a device: a common NUMA node, a common package, or none of both.
    fn distance(&self, inventories: &Inventories, place: Option<ProcessPlace>, device: Device<'_>) -> Option<u32> {
        let (place, device) = (place?, device_place(inventories, device)?);
        *self.distances.borrow_mut().entry((place, device)).or_insert_with(|| {
            let (package, memory) = device;
            let package = package.map(|package| format!(":SK{package}"));
            let memory = memory.map(|memory| format!(":NM{memory}"));
            let of_device = format!("hwloc{}{}", package.unwrap_or_default(), memory.unwrap_or_default());
            let of_process = self.applications.get(place.0)?.application.places.locality(place.1)?;
            let shared = relative_locality(of_process, &of_device).ok()?;
            Some(match shared {
                shared if shared & LOCALITY_SHARE_NUMA != 0 => 0,
                shared if shared & LOCALITY_SHARE_PACKAGE != 0 => 1,
                _ => 2,
            })
        })
    }
}

/// The nodes of applications, each with its ranks.
fn nodes_of(applications: &[PlacedApplication]) -> Vec<(&str, Vec<u32>)> {
    let (mut numbers, mut nodes) = (BTreeMap::new(), Vec::<(&str, Vec<u32>)>::new());
    for (node, ranks) in applications.iter().flat_map(|placed| placed.application.layout.nodes()) {
        let number = *numbers.entry(node).or_insert(nodes.len());
        match nodes.get_mut(number) {
            Some((_, earlier)) => earlier.extend(ranks),
            None => nodes.push((node, ranks)),
        }
    }
    nodes
}

fn wanted_devices<'a>(hardware: &'a Hardware, wanted: &Wanted, node: &str) -> Vec<PlaneDevices<'a>> {
    hardware.fabric.wanted_devices(node, |plane, device| is_wanted(hardware, wanted, plane, device))
}

fn is_wanted(hardware: &Hardware, wanted: &Wanted, plane: &Plane, device: Device<'_>) -> bool {
    let is_named = wanted.plane.as_deref().is_none_or(|name| name == plane.name() || name == device.name);
    is_named
        && wanted.kind.as_ref().is_none_or(|(kind, kinds)| {
            let names = [hardware.fabric.identifier(), plane.name(), plane.vendor()];
            let of_device = || kinds_of(&hardware.inventories, plane, device);
            names.iter().any(|name| name.eq_ignore_ascii_case(kind)) || kinds & of_device() != 0
        })
}

/// The kinds of a device, as its plane or its inventory says them.
fn kinds_of(inventories: &Inventories, plane: &Plane, device: Device<'_>) -> u64 {
    match plane.name() {
        "net" => DEVTYPE_NETWORK,
        "infiniband" => DEVTYPE_OPENFABRICS,
        _ => in_inventory(inventories, device).map_or(0, |found| found.device_types),
    }
}

/// Why nothing on a node is wanted. A look at all devices of a large fabric would take long.
fn shortage(hardware: &Hardware, wanted: &Wanted, node: &str) -> FabricShortage {
    let planes = hardware.fabric.planes();
    let has = |wanted: Wanted| !wanted_devices(hardware, &wanted, node).is_empty();
    let is_unknown = |name: &str| {
        let of_name = Wanted { plane: Some(name.to_owned()), ..Wanted::default() };
        planes.iter().all(|plane| plane.name() != name) && !has(of_name)
    };
    let node = Box::from(node);
    match (&wanted.plane, &wanted.kind) {
        // The inventories are missing, whatever is wanted.
        _ if planes.is_empty() => FabricShortage::Node { node },
        (Some(name), _) if is_unknown(name) => {
            let mut names: Vec<&str> = planes.iter().take(NAMED_MAX).map(Plane::name).collect();
            names.extend((planes.len() > NAMED_MAX).then_some("..."));
            FabricShortage::Plane { name: excerpt(name), node, planes: names.join(", ").into() }
        }
        (_, Some((kind, _))) if has(Wanted { kind: None, ..wanted.clone() }) => {
            FabricShortage::Kind { kind: excerpt(kind), node }
        }
        _ => FabricShortage::Node { node },
    }
}

/// The beginning of a caller's text. Each part that is left out keeps it.
fn excerpt(text: &str) -> Box<str> {
    text.chars().take(EXCERPT_MAX).collect()
}

fn info(key: &'static str, value: Value) -> Info {
    Info::new(Key::from_static(key), value)
}

fn count(wanted: u64) -> usize {
    usize::try_from(wanted).unwrap_or_default()
}

/// New endpoints of an owner as an info; `None` without any. They are added to the earlier ones.
fn endpoints(
    known: &KnownDevices<'_>,
    taken: &[(usize, u32)],
    earlier: &mut Vec<DeviceEndpoint>,
    owner: Rank,
) -> Option<Info> {
    let taken = numbered(taken, earlier);
    let list = (!taken.is_empty()).then(|| endpoints_of(known.endpoints(&taken), owner.to_raw()));
    earlier.extend(taken);
    list.map(|list| Info::new(Key::from_static(keys::FABRIC_ENDPT.name()), list))
}

/// The info for the nodes of the job.
pub(super) fn info_of_job(mut values: Vec<Info>, secret: Vec<u8>) -> Info {
    values.push(Info::new(Key::from_static(keys::ALLOC_FABRIC_SEC_KEY.name()), Value::ByteObject(secret)));
    Info::new(Key::from_static(FABRIC), Value::info_array(values))
}

/// A device in the inventory of its node. A port, such as `mlx5_0:1`, is its adapter.
fn in_inventory<'i>(inventories: &'i Inventories, device: Device<'_>) -> Option<&'i InventoryDevice> {
    let names = [device.name, device.name.split_once(':').map_or(device.name, |(adapter, _)| adapter)];
    inventories.of(device.node)?.devices.iter().find(|other| names.contains(&other.name.as_str()))
}

/// The place of a device; `None` if it is unknown.
fn device_place(inventories: &Inventories, device: Device<'_>) -> Option<DevicePlace> {
    let inventory = inventories.of(device.node)?;
    let found = in_inventory(inventories, device)?;
    // Localities have hwloc's own numbers.
    let memory = inventory.memory.iter().position(|memory| Some(memory.number) == found.memory);
    (found.package.is_some() || memory.is_some()).then_some((found.package, memory))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::application::{Application, Places};
    use super::*;
    use crate::fabric::CurrentFabric;
    use crate::fabric::providers::{Provider, TestFabric};
    use crate::gds::registration::{Context, JobDescription, parse};
    use crate::gds::{Datastore, Store, StoreOptions};
    use crate::regex::MapLimits;
    use crate::topo::inventory::{self, Inventory, NumaMemory};
    use crate::types::Namespace;

    fn info(key: &'static str, value: impl Into<Value>) -> Info {
        Info::new(Key::from_static(key), value)
    }

    /// A job of one application.
    fn application(
        (fabric, inventories): (&str, Inventories),
        (nodes, ranks): (&str, &str),
        bindings: &[Info],
    ) -> [PlacedApplication; 1] {
        let maps = [info("pmix.nmap", nodes), info("pmix.pmap", ranks)];
        let layout = Layout::of(&maps, &MapLimits::default()).unwrap();
        let application = Arc::new(Application { layout, places: Places::of(bindings), wishes: Vec::new() });
        let fabric = CurrentFabric::new(TestFabric.read(fabric).unwrap()).handle();
        [PlacedApplication { application, hardware: Hardware::new(fabric, Arc::new(inventories)) }]
    }

    /// The endpoints of a job without wishes.
    fn values(applications: &[PlacedApplication]) -> Vec<Info> {
        JobFabric::new(&applications[0].hardware, applications).values()
    }

    /// A block of processes on each node, and a device in each plane: the lists of the nodes are all that costs
    /// something.
    #[test]
    fn regular_endpoints_cost_little_a_rank() {
        const NODES: u32 = 50;
        const RANKS_PER_NODE: u32 = 100;
        let fabric = format!("wide:{NODES};plane:d:1;plane:d:1;plane:d:1;plane:d:1");
        let names: Vec<String> = (0..NODES).map(|node| format!("test{node:03}")).collect();
        let ranks = |node: u32| node * RANKS_PER_NODE..(node + 1) * RANKS_PER_NODE;
        let blocks = (0..NODES).map(|node| format!("{}-{}", ranks(node).start, ranks(node).end - 1));
        let maps = (&*names.join(","), &*blocks.collect::<Vec<_>>().join(";"));
        let given = values(&application((&fabric, Inventories::default()), maps, &[]));
        let job = Namespace::new("job").unwrap();
        let described = JobDescription::new(&job).nodes(&names).ranks_by_node((0..NODES).map(ranks)).build().unwrap();
        let bytes = |description: &[Info]| {
            let mut store = Store::new(StoreOptions::new("server", "test000"));
            store.register(&job, description).unwrap();
            store.statistics(&job).unwrap().published_bytes
        };
        let without_peers = given.iter().cloned().map(without_peers).collect();
        let added = bytes(&[without_peers, described.clone()].concat()) - bytes(&described);
        let each = added / u64::from(NODES * RANKS_PER_NODE);
        assert!(each < 16, "{each} bytes a rank");
    }

    /// Larger jobs have no switch peers.
    fn without_peers(mut info: Info) -> Info {
        let is_node = info.key.as_str() == keys::NODE_INFO_ARRAY.name();
        if let (true, Value::DataArray(array)) = (is_node, &mut info.value) {
            array
                .elements
                .retain(|element| !matches!(element, Value::Info(info) if info.key.as_str() == "pmix.speers"));
        }
        info
    }

    /// A node whose NUMA nodes have the system's numbers 4 and 9, with a device at each.
    fn inventories() -> Inventories {
        let device = |name: &str, memory, package| inventory::Device {
            name: format!("test000:{name}"),
            memory: Some(memory),
            package: Some(package),
            ..inventory::Device::default()
        };
        let inventory = Inventory {
            node: "test000".to_owned(),
            memory: [4, 9].map(|number| NumaMemory { number, bytes: 1 }).to_vec(),
            devices: vec![
                device("nic000", 9, 1),
                device("nic001", 4, 0),
                device("nic002", 9, 1),
                device("nic003", 4, 0),
            ],
            ..Inventory::default()
        };
        let mut inventories = Inventories::default();
        inventories.deliver([inventory.encode().unwrap().as_slice()]).unwrap();
        inventories
    }

    /// Names of the devices of a rank, first the closest.
    fn devices(values: &[Info], rank: u32) -> Vec<String> {
        let namespace = Namespace::new("job").unwrap();
        let described = [values, &[info("pmix.job.size", 8_u32)]].concat();
        let record = parse(&namespace, &Context::new("test000"), &described, None).unwrap();
        let column = record.proc_columns.iter().find(|column| column.key.as_str() == "pmix.fab.endpt").unwrap();
        let crate::gds::job_record::ColumnValues::Endpoints(endpoints) = &column.values else { panic!("{column:?}") };
        let Some(Value::DataArray(list)) = endpoints.of(rank) else { return Vec::new() };
        let name = |value: &Value| match value {
            Value::Endpoint(endpoint) => endpoint.os_name.as_ref().unwrap().to_string(),
            other => panic!("{other:?}"),
        };
        list.elements.iter().map(name).collect()
    }

    fn bound(rank: u32, locality: &str) -> Info {
        let facts =
            vec![info(keys::RANK.name(), Value::ProcRank(rank.into())), info(keys::LOCALITY_STRING.name(), locality)];
        info(keys::PROC_INFO_ARRAY.name(), Value::info_array(facts))
    }

    /// Regression: of two equally close devices in each package, ranks that were bound in turn to the packages used
    /// one.
    #[test]
    fn ranks_that_are_bound_in_turn_use_all_close_devices() {
        let bindings: Vec<Info> =
            (0..8).map(|rank| bound(rank, ["hwloc:SK0:NM0", "hwloc:SK1:NM1"][rank as usize % 2])).collect();
        let applications = application(("wide:1;plane:d:4", inventories()), ("test000", "0-7"), &bindings);
        let mut job = JobFabric::new(&applications[0].hardware, &applications);
        let expected = [1, 0, 3, 2, 1, 0, 3, 2].map(|device| format!("test000:nic00{device}"));
        let names = |values: &[Info]| (0..8).flat_map(|rank| devices(values, rank)).collect::<Vec<_>>();
        assert_eq!(names(&job.values()), expected);
        job.take(&Key::from_static("net"), &Wanted { of_process: 1, ..Wanted::default() }).unwrap();
        assert_eq!(names(&job.values()), expected, "of a wish");
    }

    #[test]
    fn a_process_gets_the_devices_closest_to_its_binding() {
        let bindings = [
            bound(0, "hwloc:SK0:NM0"),
            bound(1, "hwloc:SK1:NM1"),
            bound(2, "hwloc:SK0-1:NM0-1"),
            bound(3, "nonsense:"),
        ];
        let of = |known| application(("wide:1;plane:d:2;plane:d:2", known), ("test000", "0-5"), &bindings);
        let given = values(&of(inventories()));
        let names = |numbers: [u8; 2]| numbers.map(|number| format!("test000:nic00{number}"));
        assert_eq!(devices(&given, 0), names([1, 3]), "the NUMA node 0 has the number 4");
        assert_eq!(devices(&given, 1), names([0, 2]));
        assert_eq!(devices(&given, 2), names([0, 2]), "both are as close, and it is the first such process");
        assert_eq!(devices(&given, 3), names([1, 3]), "in turn");
        assert_eq!((devices(&given, 4), devices(&given, 5)), (names([0, 2]).to_vec(), names([1, 3]).to_vec()));
        assert_eq!(devices(&given, 6), [""; 0]);
        // Nothing is known about the node.
        let unknown = values(&of(Inventories::default()));
        assert_eq!(devices(&unknown, 1), names([1, 3]));
    }
}
