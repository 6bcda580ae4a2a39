//! The costs of a large fabric, and the nearest devices of one: 100,000 devices in each structure. Then a job of
//! 1,000,000 ranks on 10,000 nodes with a device in each of 4 planes: the times and sizes of its start, printed once.

mod support;

use std::time::Instant;

use criterion::Criterion;
use modex::fabric::CurrentFabric;
use modex::fabric::providers::{Provider, TestFabric};
use modex::fabrics::{DeviceDescription, Fabric, FabricDescription, Links, PlaneDescription};
use modex::gds::registration::JobDescription;
use modex::hardware::{Device, Inventory, NumaMemory};
use modex::types::{Info, Key, Namespace, Value};
use modex::{FabricSource, LocalHost, Server, keys};
use support::{Failure, registered};

const SWITCHES: u32 = 5000;
const DEVICES: u32 = 20 * SWITCHES;

fn main() -> Result<(), Failure> {
    let mut criterion = Criterion::default().sample_size(20).configure_from_args();
    // 5,000 switches with devices below 100, below one.
    let above = |switch: u32| if switch < SWITCHES { Some(SWITCHES + switch / 50) } else { Some(SWITCHES + 100) };
    let tree = (0..SWITCHES + 100).map(above).chain([None]).collect();
    let structures = [
        ("tree", Links::Tree(tree), SWITCHES + 101),
        ("dragonfly", Links::Dragonfly(vec![50; 100]), SWITCHES),
        ("torus", Links::Torus(vec![20, 25, 10]), SWITCHES),
    ];
    for (name, links, switches) in structures {
        let fabric = Fabric::new(described(links, switches))?;
        let Some(plane) = fabric.planes().first() else { continue };
        let mut pair = (0, 0);
        let mut next = || {
            // Numbers without a common factor reach many pairs.
            pair = ((pair.0 + 7919) % DEVICES, (pair.1 + 104_729) % DEVICES);
            pair
        };
        criterion.bench_function(&format!("fabric/{name}/cost"), |bench| {
            bench.iter(|| {
                let (one, other) = next();
                plane.cost(one, other)
            });
        });
        criterion.bench_function(&format!("fabric/{name}/block of 100 x 100"), |bench| {
            bench.iter(|| plane.block(50_000..50_100, 0..100));
        });
        criterion.bench_function(&format!("fabric/{name}/nearest 100"), |bench| {
            bench.iter(|| plane.nearest(next().0, 100));
        });
    }
    criterion.final_summary();
    start_of_a_job()
}

const NODES: u32 = 10_000;
const RANKS: u32 = 100 * NODES;

/// Prints the time of each step of a launch, and the bytes of the job's segment with and without its endpoints.
fn start_of_a_job() -> Result<(), Failure> {
    let text = |nodes: u32| format!("wide:{nodes};plane:d:1;plane:d:1;plane:d:1;plane:d:1");
    let server = timed("read the fabric", || {
        let fabric = FabricSource::parse(&format!("test:{}", text(NODES)))?;
        Ok::<_, Failure>(Server::builder().fabric(fabric).start(LocalHost)?)
    })?;
    let current = CurrentFabric::new(TestFabric.read(&text(NODES - 1))?);
    timed("read and replace it", || Ok::<_, Failure>(current.replace(TestFabric.read(&text(NODES))?)))?;
    let job = Namespace::new("bench-job")?;
    let names = (0..NODES).map(|node| format!("test{node:03}"));
    let blocks = (0..NODES).map(|node| node * 100..(node + 1) * 100);
    let description = JobDescription::new(&job).nodes(names).ranks_by_node(blocks).build()?;
    let infos = timed("assign endpoints", || server.setup_application(&job, &description))?;
    if infos.is_empty() {
        return Err("the job got no endpoints".into());
    }
    let placed = [description.clone(), localities()].concat();
    server.deliver_inventory((0..NODES).map(inventory).collect::<Result<_, _>>()?).wait()?;
    timed("assign endpoints by locality", || server.setup_application(&job, &placed))?;
    let values: Vec<Info> = infos.iter().flat_map(|info| elements(&info.value)).cloned().collect();
    let bytes = |description: &[Info]| Ok::<_, Failure>(registered(description)?.statistics(&job)?.published_bytes);
    let without = timed("register without them", || bytes(&description))?;
    let with = [values, description].concat();
    let with = timed("register with them", || bytes(&with))?;
    let each = |bytes: u64| bytes as f64 / f64::from(RANKS);
    println!("fabric/job: {:.2} bytes a rank, {:.2} of them for the fabric", each(with), each(with - without));
    Ok(())
}

/// A node with 2 packages of 4 NUMA nodes, and a device at every second one.
fn inventory(node: u32) -> Result<Vec<u8>, Failure> {
    let device = |number: u32| Device {
        name: format!("test{node:03}:nic{number:03}"),
        memory: Some(2 * number),
        package: Some(number / 2),
        ..Device::default()
    };
    let memory = (0..8).map(|number| NumaMemory { number, bytes: 1 << 30 }).collect();
    let devices = (0..4).map(device).collect();
    Ok(Inventory { node: format!("test{node:03}"), memory, devices, ..Inventory::default() }.encode()?)
}

/// Each process is at one of the 8 NUMA nodes of its node.
fn localities() -> Vec<Info> {
    let place = |rank: u32| {
        let number = rank % 8;
        let locality = format!("hwloc:SK{}:NM{number}:CR{}:HT{}", number / 4, rank % 100, rank % 100);
        let facts = vec![
            Info::new(Key::from_static(keys::RANK.name()), Value::ProcRank(rank.into())),
            Info::new(Key::from_static(keys::LOCALITY_STRING.name()), locality),
        ];
        Info::new(Key::from_static(keys::PROC_INFO_ARRAY.name()), Value::info_array(facts))
    };
    (0..RANKS).map(place).collect()
}

#[expect(clippy::disallowed_methods, reason = "a bench measures")]
fn timed<T, E>(step: &str, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let start = Instant::now();
    let done = work();
    println!("fabric/job: {step}: {:.3} s", start.elapsed().as_secs_f64());
    done
}

fn elements(value: &Value) -> impl Iterator<Item = &Info> {
    let elements = if let Value::DataArray(array) = value { array.elements.as_slice() } else { &[] };
    elements.iter().filter_map(|element| if let Value::Info(info) = element { Some(&**info) } else { None })
}

fn described(links: Links, switches: u32) -> FabricDescription {
    let device = |index: u32| DeviceDescription {
        node: format!("n{index}"),
        name: "hca0".to_owned(),
        vendor: "bench".into(),
        switch: index / 20,
        ..DeviceDescription::default()
    };
    let plane = PlaneDescription {
        name: "plane".to_owned(),
        vendor: "bench".to_owned(),
        switches: (0..switches).map(|switch| format!("s{switch}")).collect(),
        links,
        devices: (0..DEVICES).map(device).collect(),
    };
    FabricDescription { identifier: "bench".to_owned(), planes: vec![plane] }
}
