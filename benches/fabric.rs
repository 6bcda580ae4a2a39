//! The costs of a large fabric, and the nearest devices of one: 100,000 devices in each structure.

use criterion::Criterion;
use modex::fabrics::{DeviceDescription, Fabric, FabricDescription, FabricError, Links, PlaneDescription};

const SWITCHES: u32 = 5000;
const DEVICES: u32 = 20 * SWITCHES;

fn main() -> Result<(), FabricError> {
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
    Ok(())
}

fn described(links: Links, switches: u32) -> FabricDescription {
    let device = |index: u32| DeviceDescription {
        node: format!("n{index}"),
        name: "hca0".to_owned(),
        vendor: "bench".into(),
        address: None,
        switch: index / 20,
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
