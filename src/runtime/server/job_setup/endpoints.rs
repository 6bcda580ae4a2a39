//! Endpoints of a job on the fabric: those that the job's wishes name, else one for each process in each plane.
//!
//! ```text
//! a wish, nodes and ranks of the job, localities of processes, inventories --> what it gets, or what the fabric lacks
//! fabric, nodes and ranks, endpoints of the wishes --> modex.fabric.job: values of the description
//! ```

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::fabric::{Assignment, Closest, Device, DeviceEndpoint, Fabric, Plane, PlaneDevices, Turns, numbered};
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
/// Endpoints and nodes of all wishes of a setup.
pub(super) const ENDPOINTS_MAX: u64 = 1 << 18;
/// Names of planes in an error.
const NAMED_MAX: usize = 8;
/// Characters of a caller's text in an error.
const EXCERPT_MAX: usize = 64;

/// Endpoints that a job wants.
#[derive(Debug, Default)]
pub(super) struct Wanted<'w> {
    /// The name of a plane, or of a device of each node.
    pub(super) plane: Option<&'w str>,
    /// `PMIX_ALLOC_FABRIC_TYPE`, and the kinds of devices that it means.
    pub(super) kind: Option<(&'w str, u64)>,
    /// The number for each process.
    pub(super) of_process: u64,
    /// The number for each node.
    pub(super) of_node: u64,
}

/// Why the fabric can't give a job what it wants.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FabricShortage {
    /// No plane has the name.
    #[error("no plane and no device of the fabric has the name {name:?}; its planes are {planes}")]
    Plane {
        /// The name.
        name: String,
        /// The planes that exist.
        planes: String,
    },
    /// No device of the planes has the type.
    #[error("the fabric has no device of the type {kind:?} there")]
    Kind {
        /// The type.
        kind: String,
    },
    /// A node of the job has no such device.
    #[error(
        "node {node} has no such device on the fabric; correct PMIX_NODE_MAP or the fabric's description, or deliver the node's inventory"
    )]
    Node {
        /// The node.
        node: String,
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

/// The endpoints and nodes of the wishes of a setup so far.
#[derive(Debug, Default)]
pub(super) struct EndpointCount(u64);

impl EndpointCount {
    /// Counts a wish with so many endpoints for each of `process_count` processes and `node_count` nodes. Each node counts, because it has
    /// an array.
    pub(super) fn add(
        &mut self,
        (of_process, process_count): (u64, u64),
        (of_node, node_count): (u64, u64),
    ) -> Result<(), FabricShortage> {
        let of_nodes = of_node.saturating_add(1).saturating_mul(node_count);
        let found = of_process.saturating_mul(process_count).saturating_add(of_nodes).saturating_add(self.0);
        if found > ENDPOINTS_MAX {
            return Err(FabricShortage::TooMany { found });
        }
        self.0 = found;
        Ok(())
    }
}

/// The fabric for one job.
pub(super) struct JobFabric<'a> {
    fabric: &'a Fabric,
    inventories: &'a Inventories,
    places: Places,
    /// The endpoints of the job's wishes.
    of_processes: BTreeMap<u32, Vec<DeviceEndpoint>>,
    of_nodes: BTreeMap<String, Vec<DeviceEndpoint>>,
}

impl<'a> JobFabric<'a> {
    /// `infos` are those of the setup.
    pub(super) fn new(fabric: &'a Fabric, inventories: &'a Inventories, infos: &[Info]) -> Self {
        let (of_processes, of_nodes) = (BTreeMap::new(), BTreeMap::new());
        Self { fabric, inventories, places: Places::of(infos), of_processes, of_nodes }
    }

    /// The endpoints of a process for a wish.
    pub(super) fn of_process(&self, wanted: &Wanted<'_>) -> u64 {
        if wanted.is_of_planes() { self.fabric.planes().len() as u64 } else { wanted.of_process }
    }

    /// Takes endpoints for a wish. Returns an array for each node, with its devices, and for each process.
    pub(super) fn take<'n>(
        &mut self,
        nodes: impl Iterator<Item = (&'n str, Vec<u32>)>,
        wanted: &Wanted<'_>,
    ) -> Result<Vec<Info>, FabricShortage> {
        let nodes: Vec<(&str, Vec<u32>)> = nodes.filter(|(_, ranks)| wanted.of_node > 0 || !ranks.is_empty()).collect();
        if nodes.is_empty() || wanted.of_process > 0 && nodes.iter().all(|(_, ranks)| ranks.is_empty()) {
            return Err(FabricShortage::NoOwner);
        }
        let mut devices = Vec::with_capacity(nodes.len());
        for (node, ranks) in nodes {
            let found = self.fabric.wanted_devices(node, |plane, device| self.is_wanted(wanted, plane, device));
            if found.is_empty() {
                return Err(self.shortage(wanted, node));
            }
            devices.push((node, ranks, found));
        }
        Ok(devices
            .into_iter()
            .flat_map(|(node, ranks, devices)| self.of_node(node, &ranks, &devices, wanted))
            .collect())
    }

    /// Whether a wish has got what it is for.
    pub(super) fn has_given(&self) -> bool {
        !self.of_nodes.is_empty()
    }

    /// The values for the job's description. Empty if no node of the job has a device.
    pub(super) fn values<'n>(&self, nodes: impl Iterator<Item = (&'n str, Vec<u32>)>) -> Vec<Info> {
        let place = |rank| self.places.of_rank(rank);
        let distance = |place, device: Device<'_>| self.distance(place, device);
        let Assignment { lists, numbers, nodes } = self.fabric.assign(nodes, &self.of_processes, place, distance);
        let of_nodes = nodes.into_iter().map(|(node, values)| {
            let name = Info::new(Key::from_static(keys::HOSTNAME.name()), node);
            Info::new(Key::from_static(keys::NODE_INFO_ARRAY.name()), Value::info_array([vec![name], values].concat()))
        });
        let of_processes = (!lists.is_empty()).then(|| endpoints_info(lists, numbers.into_iter()));
        of_processes.into_iter().chain(of_nodes).collect()
    }

    /// Takes the endpoints of a node and its processes.
    fn of_node(&mut self, node: &str, ranks: &[u32], devices: &[PlaneDevices<'_>], wanted: &Wanted<'_>) -> Vec<Info> {
        let info = |key: &'static str, value: Value| Info::new(Key::from_static(key), value);
        let names = devices.iter().flat_map(|(_, _, devices)| devices).map(|device| device.name);
        let names = names.collect::<Vec<_>>().join(",");
        let mut facts =
            vec![info(keys::HOSTNAME.name(), node.into()), info(keys::FABRIC_DEVICE_NAME.name(), names.into())];
        let taken = Turns::default().take((), count(wanted.of_node), || vec![Closest::of(devices, |_| None)]);
        let earlier = self.of_nodes.entry(node.to_owned()).or_default();
        facts.extend(endpoints(self.fabric, &taken, earlier, Rank::LocalNode));
        let mut arrays = vec![info(keys::NODE_INFO_ARRAY.name(), Value::info_array(facts))];
        let mut turns = Turns::default();
        let count = if wanted.is_of_planes() { 1 } else { count(wanted.of_process) };
        for &rank in ranks {
            let place = self.places.of_rank(rank);
            let taken = turns.take(place, count, || {
                let distance = |device: Device<'_>| self.distance(place, device);
                // A wish without numbers has one endpoint in each of its planes.
                if wanted.is_of_planes() {
                    Closest::of_each_plane(devices, distance)
                } else {
                    vec![Closest::of(devices, distance)]
                }
            });
            let earlier = self.of_processes.entry(rank).or_default();
            let given = endpoints(self.fabric, &taken, earlier, Rank::from(rank));
            arrays.extend(given.map(|given| {
                let facts = vec![info(keys::RANK.name(), Value::ProcRank(rank.into())), given];
                info(keys::PROC_INFO_ARRAY.name(), Value::info_array(facts))
            }));
        }
        arrays
    }

    fn is_wanted(&self, wanted: &Wanted<'_>, plane: &Plane, device: Device<'_>) -> bool {
        let is_named = wanted.plane.is_none_or(|name| name == plane.name() || name == device.name);
        is_named
            && wanted.kind.is_none_or(|(kind, kinds)| {
                let names = [self.fabric.identifier(), plane.name(), plane.vendor()];
                names.iter().any(|name| name.eq_ignore_ascii_case(kind)) || kinds & self.kinds(plane, device) != 0
            })
    }

    /// The kinds of a device, as its plane or its inventory says them.
    fn kinds(&self, plane: &Plane, device: Device<'_>) -> u64 {
        match plane.name() {
            "net" => DEVTYPE_NETWORK,
            "infiniband" => DEVTYPE_OPENFABRICS,
            _ => in_inventory(self.inventories, device).map_or(0, |found| found.device_types),
        }
    }

    /// Why nothing on a node is wanted.
    fn shortage(&self, wanted: &Wanted<'_>, node: &str) -> FabricShortage {
        let planes = self.fabric.planes();
        let devices =
            || planes.iter().flat_map(|plane| (0..).map_while(move |index| Some((plane, plane.device(index)?))));
        let is_there = |wanted: &Wanted<'_>| devices().any(|(plane, device)| self.is_wanted(wanted, plane, device));
        match (wanted.plane, wanted.kind) {
            // The inventories are missing, whatever is wanted.
            _ if planes.is_empty() => FabricShortage::Node { node: node.to_owned() },
            (Some(name), _) if !is_there(&Wanted { plane: Some(name), ..Wanted::default() }) => {
                let mut names: Vec<&str> = planes.iter().take(NAMED_MAX).map(Plane::name).collect();
                names.extend((planes.len() > NAMED_MAX).then_some("..."));
                FabricShortage::Plane { name: excerpt(name), planes: names.join(", ") }
            }
            (_, Some((kind, _))) if !is_there(wanted) => FabricShortage::Kind { kind: excerpt(kind) },
            _ => FabricShortage::Node { node: node.to_owned() },
        }
    }

    fn distance(&self, place: Option<usize>, device: Device<'_>) -> Option<u32> {
        self.places.distance(place?, device_place(self.inventories, device)?)
    }
}

impl Wanted<'_> {
    const fn is_of_planes(&self) -> bool {
        self.of_process == 0 && self.of_node == 0 && (self.plane.is_some() || self.kind.is_some())
    }
}

/// The beginning of a caller's text. Each part that is left out keeps it.
fn excerpt(text: &str) -> String {
    text.chars().take(EXCERPT_MAX).collect()
}

fn count(wanted: u64) -> usize {
    usize::try_from(wanted).unwrap_or_default()
}

/// New endpoints of an owner as an info; `None` without any. They are added to the earlier ones.
fn endpoints(fabric: &Fabric, taken: &[(usize, u32)], earlier: &mut Vec<DeviceEndpoint>, owner: Rank) -> Option<Info> {
    let taken = numbered(taken, earlier);
    let list = (!taken.is_empty()).then(|| endpoints_of(fabric.endpoints(&taken), owner.to_raw()));
    earlier.extend(taken);
    list.map(|list| Info::new(Key::from_static(keys::FABRIC_ENDPT.name()), list))
}

/// The info for the nodes of the job.
pub(super) fn info(mut values: Vec<Info>, secret: Vec<u8>) -> Info {
    values.push(Info::new(Key::from_static(keys::ALLOC_FABRIC_SEC_KEY.name()), Value::ByteObject(secret)));
    Info::new(Key::from_static(FABRIC), Value::info_array(values))
}

pub(super) fn elements(value: &Value) -> impl Iterator<Item = &Info> {
    let elements = if let Value::DataArray(array) = value { array.elements.as_slice() } else { &[] };
    elements.iter().filter_map(|element| if let Value::Info(info) = element { Some(&**info) } else { None })
}

/// Rank and `PMIX_LOCALITY_STRING` of a process array.
fn locality_of(info: &Info) -> Option<(u32, &str)> {
    if info.key.as_str() != keys::PROC_INFO_ARRAY.name() {
        return None;
    }
    let value = |key: &str| elements(&info.value).find(|info| info.key.as_str() == key).map(|info| &info.value);
    Some((value(keys::RANK.name())?.as_u32()?, value(keys::LOCALITY_STRING.name())?.as_str()?))
}

/// Where the processes of a job are. A large job has few packages and NUMA nodes, so each of these places is compared with each place of
/// a device once.
#[derive(Default)]
struct Places {
    /// Localities with packages and NUMA nodes alone.
    distinct: Vec<String>,
    of_ranks: BTreeMap<u32, usize>,
    known: RefCell<BTreeMap<(usize, DevicePlace), Option<u32>>>,
}

/// The number of the package, and that of the NUMA node as hwloc counts them.
type DevicePlace = (Option<u32>, Option<usize>);

impl Places {
    fn of(infos: &[Info]) -> Self {
        let (mut places, mut known, mut numbers) = (Self::default(), BTreeMap::new(), BTreeMap::new());
        for (rank, locality) in infos.iter().filter_map(locality_of) {
            let number = || place_of(locality).map(|place| places.number_of(place, &mut numbers));
            let place = *known.entry(locality).or_insert_with(number);
            places.of_ranks.extend(place.map(|place| (rank, place)));
        }
        places
    }

    /// The number of a process's place, if it is known.
    fn of_rank(&self, rank: u32) -> Option<usize> {
        self.of_ranks.get(&rank).copied()
    }

    /// The number of a place among the `numbers` of all.
    fn number_of(&mut self, place: String, numbers: &mut BTreeMap<String, usize>) -> usize {
        *numbers.entry(place).or_insert_with_key(|place| {
            self.distinct.push(place.clone());
            self.distinct.len().saturating_sub(1)
        })
    }

    /// The distance of a place and a device: a common NUMA node, a common package, or none of both.
    fn distance(&self, place: usize, device: DevicePlace) -> Option<u32> {
        *self.known.borrow_mut().entry((place, device)).or_insert_with(|| {
            let (package, memory) = device;
            let package = package.map(|package| format!(":SK{package}"));
            let memory = memory.map(|memory| format!(":NM{memory}"));
            let of_device = format!("hwloc{}{}", package.unwrap_or_default(), memory.unwrap_or_default());
            let shared = relative_locality(self.distinct.get(place)?, &of_device).ok()?;
            Some(match shared {
                shared if shared & LOCALITY_SHARE_NUMA != 0 => 0,
                shared if shared & LOCALITY_SHARE_PACKAGE != 0 => 1,
                _ => 2,
            })
        })
    }
}

/// The packages and NUMA nodes of a locality; `None` for a text that is none.
fn place_of(locality: &str) -> Option<String> {
    relative_locality(locality, "hwloc:").ok()?;
    let items = locality.split(':').filter(|item| item.starts_with("SK") || item.starts_with("NM"));
    Some(format!("hwloc:{}", items.collect::<Vec<_>>().join(":")))
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
    use super::*;
    use crate::fabric::providers::{Provider, TestFabric};
    use crate::gds::registration::{Context, JobDescription, parse};
    use crate::gds::{Datastore, Store, StoreOptions};
    use crate::topo::inventory::{self, Inventory, NumaMemory};
    use crate::types::Namespace;

    fn info(key: &'static str, value: impl Into<Value>) -> Info {
        Info::new(Key::from_static(key), value)
    }

    /// A block of processes on each node, and a device in each plane: the lists of the nodes are all that costs something.
    #[test]
    fn regular_endpoints_cost_little_a_rank() {
        const NODES: u32 = 50;
        const RANKS_PER_NODE: u32 = 100;
        let fabric = TestFabric.read(&format!("nodes:{NODES};plane:d:1;plane:d:1;plane:d:1;plane:d:1")).unwrap();
        let names: Vec<String> = (0..NODES).map(|node| format!("test{node:03}")).collect();
        let ranks = |node: u32| node * RANKS_PER_NODE..(node + 1) * RANKS_PER_NODE;
        let nodes = names.iter().map(String::as_str).zip((0..NODES).map(|node| ranks(node).collect()));
        let given = JobFabric::new(&fabric, &Inventories::default(), &[]).values(nodes);
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

    /// Regression: of two equally close devices in each package, ranks that were bound in turn to the packages used one.
    #[test]
    fn ranks_that_are_bound_in_turn_use_all_close_devices() {
        let fabric = TestFabric.read("nodes:1;plane:d:4").unwrap();
        let known = inventories();
        let bindings: Vec<Info> =
            (0..8).map(|rank| bound(rank, ["hwloc:SK0:NM0", "hwloc:SK1:NM1"][rank as usize % 2])).collect();
        let nodes = || std::iter::once(("test000", (0..8).collect::<Vec<u32>>()));
        let mut job = JobFabric::new(&fabric, &known, &bindings);
        let expected = [1, 0, 3, 2, 1, 0, 3, 2].map(|device| format!("test000:nic00{device}"));
        let names = |values: &[Info]| (0..8).flat_map(|rank| devices(values, rank)).collect::<Vec<_>>();
        assert_eq!(names(&job.values(nodes())), expected);
        job.take(nodes(), &Wanted { of_process: 1, ..Wanted::default() }).unwrap();
        assert_eq!(names(&job.values(nodes())), expected, "of a wish");
    }

    #[test]
    fn a_process_gets_the_devices_closest_to_its_binding() {
        let fabric = TestFabric.read("nodes:1;plane:d:2;plane:d:2").unwrap();
        let bindings = [
            bound(0, "hwloc:SK0:NM0"),
            bound(1, "hwloc:SK1:NM1"),
            bound(2, "hwloc:SK0-1:NM0-1"),
            bound(3, "nonsense:"),
        ];
        let nodes = || std::iter::once(("test000", vec![0, 1, 2, 3, 4, 5]));
        let known = inventories();
        let given = JobFabric::new(&fabric, &known, &bindings).values(nodes());
        let names = |numbers: [u8; 2]| numbers.map(|number| format!("test000:nic00{number}"));
        assert_eq!(devices(&given, 0), names([1, 3]), "the NUMA node 0 has the number 4");
        assert_eq!(devices(&given, 1), names([0, 2]));
        assert_eq!(devices(&given, 2), names([0, 2]), "both are as close, and it is the first such process");
        assert_eq!(devices(&given, 3), names([1, 3]), "in turn");
        assert_eq!((devices(&given, 4), devices(&given, 5)), (names([0, 2]).to_vec(), names([1, 3]).to_vec()));
        assert_eq!(devices(&given, 6), [""; 0]);
        // Nothing is known about the node.
        let unknown = JobFabric::new(&fabric, &Inventories::default(), &bindings).values(nodes());
        assert_eq!(devices(&unknown, 1), names([1, 3]));
    }
}
