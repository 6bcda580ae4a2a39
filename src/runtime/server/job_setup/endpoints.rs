//! Endpoints of a job on the server's own fabric: one for each process in each plane.
//!
//! ```text
//! fabric, nodes and ranks of the job, localities of processes, inventories --> modex.fabric.job: values of the description
//! ```

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;

use super::allocation::{AllocationError, FABRIC, elements, secret};
use crate::fabric::{Assignment, Device, Fabric};
use crate::gds::registration::endpoints_info;
use crate::keys;
use crate::topo::{Inventories, relative_locality};
use crate::types::codes::locality::{LOCALITY_SHARE_NUMA, LOCALITY_SHARE_PACKAGE};
use crate::types::{Info, Key, Namespace, Value};

/// The values for the job's description. Empty if no node of the job has a device.
pub(super) fn given<'n>(
    fabric: &Fabric,
    nodes: impl Iterator<Item = (&'n str, Vec<u32>)>,
    infos: &[Info],
    inventories: &Inventories,
) -> Vec<Info> {
    let places = Places::of(infos);
    let place = |rank: u32| places.of_ranks.get(&rank).copied();
    let distance =
        |place: Option<usize>, device: Device<'_>| places.distance(place?, device_place(inventories, device)?);
    let Assignment { lists, numbers, nodes } = fabric.assign(nodes, place, distance);
    let of_nodes = nodes.into_iter().map(|(node, values)| {
        let name = Info::new(Key::from_static(keys::HOSTNAME.name()), node);
        Info::new(Key::from_static(keys::NODE_INFO_ARRAY.name()), Value::info_array([vec![name], values].concat()))
    });
    let of_processes = (!lists.is_empty()).then(|| endpoints_info(lists, numbers.into_iter()));
    of_processes.into_iter().chain(of_nodes).collect()
}

/// The info for the nodes of the job.
pub(super) fn info(mut values: Vec<Info>, secret: Vec<u8>) -> Info {
    values.push(Info::new(Key::from_static(keys::ALLOC_FABRIC_SEC_KEY.name()), Value::ByteObject(secret)));
    Info::new(Key::from_static(FABRIC), Value::info_array(values))
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
        let (mut places, mut known) = (Self::default(), BTreeMap::new());
        for (rank, locality) in infos.iter().filter_map(locality_of) {
            let place = *known.entry(locality).or_insert_with(|| places.place_of(locality));
            places.of_ranks.extend(place.map(|place| (rank, place)));
        }
        places
    }

    /// The number of a locality's place; `None` for a text that is none.
    fn place_of(&mut self, locality: &str) -> Option<usize> {
        relative_locality(locality, "hwloc:").ok()?;
        let items = locality.split(':').filter(|item| item.starts_with("SK") || item.starts_with("NM"));
        let place = format!("hwloc:{}", items.collect::<Vec<_>>().join(":"));
        let found = self.distinct.iter().position(|other| *other == place);
        found.or_else(|| {
            self.distinct.push(place);
            self.distinct.len().checked_sub(1)
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

/// The place of a device; `None` if it is unknown.
fn device_place(inventories: &Inventories, device: Device<'_>) -> Option<DevicePlace> {
    // A port, such as `mlx5_0:1`, is where its adapter is.
    let names = [device.name, device.name.split_once(':').map_or(device.name, |(adapter, _)| adapter)];
    let inventory = inventories.of(device.node)?;
    let found = inventory.devices.iter().find(|other| names.contains(&other.name.as_str()))?;
    // Localities have hwloc's own numbers.
    let memory = inventory.memory.iter().position(|memory| Some(memory.number) == found.memory);
    (found.package.is_some() || memory.is_some()).then_some((found.package, memory))
}

/// The keys of the newest jobs. The applications of a job have the same.
#[derive(Debug, Default)]
pub(super) struct Secrets(Mutex<VecDeque<(Namespace, Vec<u8>)>>);

/// Keys that are kept.
const SECRETS_MAX: usize = 1024;

impl Secrets {
    pub(super) fn of(&self, namespace: &Namespace) -> Result<Vec<u8>, AllocationError> {
        let mut kept = self.0.lock();
        if let Some((_, secret)) = kept.iter().find(|(job, _)| job == namespace) {
            return Ok(secret.clone());
        }
        let made = secret()?;
        kept.truncate(SECRETS_MAX - 1);
        kept.push_front((namespace.clone(), made.clone()));
        Ok(made)
    }

    pub(super) fn forget(&self, namespace: &Namespace) {
        self.0.lock().retain(|(job, _)| job != namespace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::providers::{Provider, TestFabric};
    use crate::gds::registration::{Context, JobDescription, parse};
    use crate::gds::{Datastore, Store, StoreOptions};
    use crate::topo::inventory::{self, Inventory, NumaMemory};

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
        let given = given(&fabric, nodes, &[], &Inventories::default());
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

    #[test]
    fn a_process_gets_the_devices_closest_to_its_binding() {
        let fabric = TestFabric.read("nodes:1;plane:d:2;plane:d:2").unwrap();
        let bound = |rank: u32, locality: &str| {
            info(
                keys::PROC_INFO_ARRAY.name(),
                Value::info_array(vec![
                    info(keys::RANK.name(), Value::ProcRank(rank.into())),
                    info(keys::LOCALITY_STRING.name(), locality),
                ]),
            )
        };
        let bindings = [
            bound(0, "hwloc:SK0:NM0"),
            bound(1, "hwloc:SK1:NM1"),
            bound(2, "hwloc:SK0-1:NM0-1"),
            bound(3, "nonsense:"),
        ];
        let nodes = || std::iter::once(("test000", vec![0, 1, 2, 3, 4, 5]));
        let given = given(&fabric, nodes(), &bindings, &inventories());
        let names = |numbers: [u8; 2]| numbers.map(|number| format!("test000:nic00{number}"));
        assert_eq!(devices(&given, 0), names([1, 3]), "the NUMA node 0 has the number 4");
        assert_eq!(devices(&given, 1), names([0, 2]));
        assert_eq!(devices(&given, 2), names([0, 2]), "both are as close, and it is the third process");
        assert_eq!(devices(&given, 3), names([1, 3]), "in turn");
        assert_eq!((devices(&given, 4), devices(&given, 5)), (names([0, 2]).to_vec(), names([1, 3]).to_vec()));
        assert_eq!(devices(&given, 6), [""; 0]);
        // Nothing is known about the node.
        let unknown = super::given(&fabric, nodes(), &bindings, &Inventories::default());
        assert_eq!(devices(&unknown, 1), names([1, 3]));
    }
}
