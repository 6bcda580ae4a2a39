//! Costs against an explicit graph, errors, and revisions.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use super::providers::{Provider, TestFabric};
use super::*;
use crate::keys;
use crate::topo::inventory::{self, Inventories, Inventory};
use crate::types::codes::device_type::DEVTYPE_NETWORK;
use crate::types::{DataArray, DataType, Info, Key, Status, Value};

/// The links of switches as pairs, made without the code under test.
fn pairs(links: &Links, count: usize) -> Vec<(usize, usize)> {
    match links {
        Links::Tree(above) => {
            above.iter().enumerate().filter_map(|(one, above)| above.map(|other| (one, other as usize))).collect()
        }
        Links::Irregular(pairs) => pairs.iter().map(|&(one, other)| (one as usize, other as usize)).collect(),
        Links::Torus(sizes) => {
            let places: Vec<Vec<u32>> = sizes.iter().fold(vec![vec![]], |places, &size| {
                places.iter().flat_map(|place| (0..size).map(|next| [place.as_slice(), &[next]].concat())).collect()
            });
            let is_linked = |one: usize, other: usize| {
                let differing: Vec<usize> = (0..sizes.len()).filter(|&d| places[one][d] != places[other][d]).collect();
                let [d] = differing[..] else { return false };
                let (a, b) = (places[one][d], places[other][d]);
                (a + 1) % sizes[d] == b || (b + 1) % sizes[d] == a
            };
            all_pairs(count).filter(|&(one, other)| is_linked(one, other)).collect()
        }
        Links::Dragonfly(sizes) => {
            let mut next = 0;
            let groups: Vec<Vec<usize>> = sizes
                .iter()
                .map(|&size| {
                    next += size as usize;
                    (next - size as usize..next).collect()
                })
                .collect();
            let mut gateways = BTreeMap::new();
            for (group, members) in groups.iter().enumerate() {
                let others = (0..groups.len()).filter(|&other| other != group);
                gateways.extend(others.zip(members.iter().cycle()).map(|(other, member)| ((group, other), *member)));
            }
            let inside = groups.iter().flat_map(|members| {
                members
                    .iter()
                    .flat_map(|&one| members.iter().filter(move |&&other| one < other).map(move |&other| (one, other)))
            });
            let between =
                all_pairs(groups.len()).map(|(one, other)| (gateways[&(one, other)], gateways[&(other, one)]));
            inside.chain(between).collect()
        }
    }
}

fn u32_of(number: usize) -> u32 {
    u32::try_from(number).unwrap()
}

fn all_pairs(count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).flat_map(move |one| (one + 1..count).map(move |other| (one, other)))
}

/// The matrix of costs, by breadth-first search over all links with those of the devices.
fn matrix(plane: &PlaneDescription) -> Vec<Vec<u16>> {
    let switches = plane.switches.len();
    let mut linked = vec![Vec::new(); switches + plane.devices.len()];
    let of_devices = plane.devices.iter().enumerate().map(|(device, d)| (switches + device, d.switch as usize));
    for (one, other) in pairs(&plane.links, switches).into_iter().chain(of_devices) {
        linked[one].push(other);
        linked[other].push(one);
    }
    let row = |device: usize| {
        let mut costs = vec![UNREACHABLE; linked.len()];
        costs[switches + device] = 0;
        let mut line = VecDeque::from([switches + device]);
        while let Some(place) = line.pop_front() {
            for &next in &linked[place] {
                if costs[next] == UNREACHABLE {
                    costs[next] = costs[place] + 1;
                    line.push_back(next);
                }
            }
        }
        costs.split_off(switches)
    };
    (0..plane.devices.len()).map(row).collect()
}

fn device(node: usize, name: usize, switch: u32) -> DeviceDescription {
    let (node, name) = (format!("node{node:02}"), format!("hca{name}"));
    DeviceDescription { node, name, vendor: "maker".into(), switch, ..DeviceDescription::default() }
}

fn plane(links: Links, switches: usize, devices: Vec<DeviceDescription>) -> PlaneDescription {
    let switches = (0..switches).map(|number| format!("switch{number}")).collect();
    PlaneDescription { name: "plane0".to_owned(), vendor: "maker".to_owned(), switches, links, devices }
}

fn described(planes: Vec<PlaneDescription>) -> FabricDescription {
    FabricDescription { identifier: "machine".to_owned(), planes }
}

/// A number of switches with links of each kind.
fn links() -> impl Strategy<Value = (usize, Links)> {
    let tree = prop::collection::vec(prop::option::weighted(0.9, any::<prop::sample::Index>()), 1..24);
    let tree = (tree, any::<bool>()).prop_map(|(above, is_reversed)| {
        let count = above.len();
        let number = |switch: usize| if is_reversed { count - 1 - switch } else { switch };
        let mut links = vec![None; count];
        for (switch, above) in above.into_iter().enumerate().skip(1) {
            links[number(switch)] = above.map(|above| u32_of(number(above.index(switch))));
        }
        (count, Links::Tree(links))
    });
    let dragonfly = prop::collection::vec(1_u32..5, 1..8);
    let dragonfly = dragonfly.prop_map(|sizes| (sizes.iter().sum::<u32>() as usize, Links::Dragonfly(sizes)));
    let torus = prop::collection::vec(1_u32..6, 1..4);
    let torus = torus.prop_map(|sizes| (sizes.iter().product::<u32>() as usize, Links::Torus(sizes)));
    let irregular = (1_u32..20).prop_flat_map(|count| {
        prop::collection::vec((0..count, 0..count), 0..40)
            .prop_map(move |pairs| (count as usize, Links::Irregular(pairs)))
    });
    prop_oneof![tree, dragonfly, torus, irregular]
}

fn planes() -> impl Strategy<Value = PlaneDescription> {
    links().prop_flat_map(|(count, links)| {
        let devices = prop::collection::vec((0_usize..6, any::<prop::sample::Index>()), 1..30);
        devices.prop_map(move |devices| {
            let numbered = devices.into_iter().enumerate();
            let devices = numbered.map(|(name, (node, switch))| device(node, name, u32_of(switch.index(count))));
            plane(links.clone(), count, devices.collect())
        })
    })
}

proptest! {
    #[test]
    fn costs_are_those_of_the_explicit_matrix(description in planes()) {
        let matrix = matrix(&description);
        let fabric = Fabric::new(described(vec![description])).unwrap();
        let plane = &fabric.planes()[0];
        let count = u32_of(matrix.len());
        for (row, costs) in (0..).zip(&matrix) {
            let found: Vec<u16> = (0..count).map(|column| plane.cost(row, column).unwrap()).collect();
            prop_assert_eq!(&found, costs, "row {}", row);
        }
        let rows = count / 3..count;
        let expected: Vec<u16> = matrix[count as usize / 3..].iter().flat_map(|row| row[..1].to_vec()).collect();
        prop_assert_eq!(plane.block(rows, 0..1), Some(expected));
    }

    #[test]
    fn the_nearest_devices_are_the_start_of_the_sorted_row(description in planes(), count in 0_usize..40) {
        let matrix = matrix(&description);
        let fabric = Fabric::new(described(vec![description])).unwrap();
        for (index, row) in (0_u32..).zip(matrix) {
            let others = (0_u32..).zip(row).filter(|&(other, cost)| other != index && cost != UNREACHABLE);
            let mut sorted: Vec<(u32, u16)> = others.collect();
            sorted.sort_by_key(|&(other, cost)| (cost, other));
            sorted.truncate(count);
            prop_assert_eq!(fabric.planes()[0].nearest(index, count), Some(sorted));
        }
    }

    #[test]
    fn devices_are_found_by_number_node_name_and_switch(description in planes()) {
        let fabric = Fabric::new(described(vec![description.clone()])).unwrap();
        let plane = &fabric.planes()[0];
        let mut places = Vec::new();
        for (index, expected) in (0_u32..).zip(&description.devices) {
            let found = plane.device(index).unwrap();
            let DeviceDescription { node, name, switch, .. } = expected;
            prop_assert_eq!((found.index, found.node, found.name), (index, node.as_str(), name.as_str()));
            prop_assert_eq!(found.switch, &description.switches[*switch as usize]);
            prop_assert_eq!(plane.device_by_name(node, name), Some(found));
            let numbers_where = |is_wanted: &dyn Fn(&DeviceDescription) -> bool| {
                (0_u32..).zip(&description.devices).filter(|(_, d)| is_wanted(d)).map(|(number, _)| number).collect::<Vec<_>>()
            };
            let of_node: Vec<u32> = plane.devices_of_node(node).map(|device| device.index).collect();
            prop_assert_eq!(of_node, numbers_where(&|device| device.node == *node));
            let peers: Vec<u32> = plane.switch_peers(index).map(|device| device.index).collect();
            prop_assert_eq!(peers, numbers_where(&|device| device.switch == *switch));
            places.push(plane.coordinates(index).unwrap());
        }
        prop_assert!(places.iter().all(|place| place.len() == places[0].len()));
        places.sort();
        let count = u32_of(places.len());
        places.dedup();
        prop_assert_eq!(u32_of(places.len()), count, "coordinates are unique");
        prop_assert!(plane.devices_of_node("no such node").next().is_none());
        prop_assert_eq!((plane.device(count), plane.cost(0, count)), (None, None));
        prop_assert_eq!((plane.nearest(count, 1), plane.coordinates(count)), (None, None));
    }
}

#[test]
fn a_block_of_too_many_cells_is_refused() {
    let devices = (0..3000).map(|name| device(name, 0, 0)).collect();
    let fabric = Fabric::new(described(vec![plane(Links::Tree(vec![None]), 1, devices)])).unwrap();
    let plane = &fabric.planes()[0];
    assert_eq!(plane.block(0..1398, 0..3000).map(|block| block.len()), Some(1398 * 3000));
    assert_eq!((plane.block(0..1399, 0..3000), plane.block(0..u32::MAX, 0..u32::MAX)), (None, None));
    assert_eq!(plane.block(2999..3001, 0..1), None, "a device that does not exist");
}

#[test]
fn groups_are_those_of_a_dragonfly_or_switches_with_devices() {
    let groups = |links: Links, switches: [u32; 4]| {
        let devices = (0..).zip(switches).map(|(node, switch)| device(node, 0, switch)).collect();
        Fabric::new(described(vec![plane(links, 5, devices)])).unwrap().planes()[0].groups()
    };
    let tree = Links::Tree(vec![None, Some(0), Some(0), Some(0), Some(0)]);
    assert_eq!(groups(tree, [1, 1, 3, 4]), "0:node00,node01;1:node02;2:node03");
    assert_eq!(groups(Links::Dragonfly(vec![3, 2]), [1, 4, 3, 0]), "0:node00,node03;1:node01,node02");
}

#[test]
fn a_wrong_description_is_refused_by_name() {
    let tree = |switches: usize| Links::Tree(vec![None; switches]);
    let good = || plane(tree(1), 1, vec![device(0, 0, 0)]);
    let error = |planes| Fabric::new(described(planes)).unwrap_err().to_string();
    let named = |name: &str| PlaneDescription { name: name.to_owned(), ..good() };
    let of = |links, switches| error(vec![plane(links, switches, vec![device(0, 0, 0)])]);

    assert_eq!(error(vec![]), "the fabric has no plane");
    assert_eq!(error(vec![plane(tree(1), 1, vec![])]), "plane 'plane0' has no devices");
    assert!(error(vec![good(), good()]).starts_with("two planes have the name 'plane0'"));
    assert_eq!(error(vec![good(), named("other")]), "node 'node00' has two devices with the name 'hca0'");
    assert!(error(vec![named("a\n")]).contains("has a control character"));
    assert!(error(vec![named(&"x".repeat(NAME_BYTES_MAX + 1))]).contains("is longer than 255 bytes"));
    let twice = PlaneDescription { switches: ["a", "b", "a"].map(String::from).to_vec(), links: tree(3), ..good() };
    assert_eq!(error(vec![twice]), "plane 'plane0': two switches have the name 'a'");
    let astray = error(vec![plane(tree(1), 1, vec![device(0, 0, 0), device(1, 3, 1)])]);
    assert_eq!(astray, "plane 'plane0': device 'hca3' of node 'node01' is at switch 1, and the plane has 1");
    assert!(of(Links::Tree(vec![Some(1)]), 1).contains("a link goes to switch 1"));
    assert!(of(Links::Irregular(vec![(0, 0), (2, 0)]), 2).contains("a link goes to switch 2"));
    assert!(of(Links::Tree(vec![None, Some(2), Some(1)]), 3).contains("switch 'switch1' is above itself"));
    assert!(of(Links::Tree(vec![None]), 2).contains("do not make 2 switches"));
    assert!(of(Links::Dragonfly(vec![2, 0]), 2).contains("the sizes [2, 0] do not make 2 switches"));
    assert!(of(Links::Torus(vec![2, u32::MAX, u32::MAX]), 2).contains("do not make 2 switches"));
}

#[test]
fn sizes_have_bounds() {
    let of = |links, switches, devices: Vec<u32>| {
        let devices = devices.into_iter().enumerate().map(|(name, switch)| device(0, name, switch)).collect();
        Fabric::new(described(vec![plane(links, switches, devices)])).map(drop)
    };
    let chain = |length: usize| Links::Tree((0..u32_of(length)).map(|switch| switch.checked_sub(1)).collect());
    assert_eq!(of(chain(LEVELS_MAX + 1), LEVELS_MAX + 1, vec![0]), Ok(()));
    assert!(matches!(of(chain(LEVELS_MAX + 2), LEVELS_MAX + 2, vec![0]), Err(FabricError::Loop { .. })));
    assert_eq!(of(Links::Torus(vec![130_001]), 130_001, vec![0, 65_000]), Ok(()));
    assert!(matches!(of(Links::Torus(vec![130_002]), 130_002, vec![0]), Err(FabricError::TooFar { .. })));
    let line = |length: u32| Links::Irregular((1..length).map(|switch| (switch, switch - 1)).collect());
    assert_eq!(of(line(255), 255, vec![0, 254]), Ok(()));
    assert!(matches!(of(line(256), 256, vec![0, 255]), Err(FabricError::TooFar { hops: 255, .. })));
    let many = TABLE_SWITCHES_MAX + 1;
    let too_many = |result| matches!(result, Err(FabricError::TooMany { .. }));
    assert!(too_many(of(Links::Irregular(vec![]), many, (0..u32_of(many)).collect())));
    assert!(too_many(of(Links::Tree(vec![]), SWITCHES_MAX + 1, vec![0])));
}

/// Two planes of 2 nodes, as the standard's keys show them.
#[test]
fn a_plane_is_selected_and_shown_in_the_standards_keys() {
    let info = |key: &'static str, value: Value| Info::new(Key::from_static(key), value);
    let fabric = TestFabric.read("wide:2;plane:d:2;plane:s:1").unwrap();
    let by = |key: &'static str, value: Value| fabric.select(&[info(key, value)]);
    let (plane, index) = (keys::FABRIC_PLANE.name(), keys::FABRIC_INDEX.name());
    assert_eq!((fabric.select(&[]), by(plane, "plane001".into()), by(index, Value::Size(1))), (Ok(0), Ok(1), Ok(1)));
    assert_eq!(by(keys::FABRIC_VENDOR.name(), "TEST".into()), Ok(0));
    assert_eq!(by(keys::FABRIC_IDENTIFIER.name(), "other".into()), Err(Status::ERR_NOT_FOUND));
    assert_eq!(
        (by(plane, "plane002".into()), by(index, Value::Size(2))),
        (Err(Status::ERR_NOT_FOUND), Err(Status::ERR_NOT_FOUND))
    );
    assert_eq!(
        (by(plane, Value::Size(1)), by(index, "1".into())),
        (Err(Status::ERR_BAD_PARAM), Err(Status::ERR_BAD_PARAM))
    );

    let names = |infos: &[Info]| infos.iter().map(|info| info.key.as_str().to_owned()).collect::<Vec<_>>();
    let shown = fabric.registration(1).unwrap();
    let expected = ["vndr", "id", "nverts", "idx", "plane", "dims", "shape", "shapestr", "grps", "switch"]
        .map(|name| format!("pmix.fab.{name}"));
    assert_eq!(names(&shown), expected);
    assert_eq!((&shown[2].value, &shown[3].value), (&Value::Size(2), &Value::Size(1)));
    assert_eq!((&shown[4].value, &shown[8].value), (&"plane001".into(), &"0:test000,test001".into()));
    assert_eq!(fabric.registration(2), None);

    let list = |key: &str, qualifiers: &[Info]| match fabric.value(key, qualifiers) {
        Some(Value::DataArray(array)) => array.elements.len(),
        other => panic!("{other:?}"),
    };
    let on = |node: &str| info(keys::HOSTNAME.name(), node.into());
    let devices = keys::FABRIC_DEVICES.name();
    assert_eq!((list(devices, &[]), list(devices, &[on("test001")])), (6, 3));
    assert_eq!(list(devices, &[on("test001"), info(plane, "plane001".into())]), 1);
    assert_eq!((list(plane, &[]), list(keys::FABRIC_COORDINATES.name(), &[on("test000")])), (2, 3));
    assert_eq!((fabric.value(devices, &[on("test002")]), fabric.value("pmix.other", &[])), (None, None));

    let device = keys::FABRIC_DEVICE.name();
    let third = fabric.value(device, &[info(keys::FABRIC_DEVICE_INDEX.name(), 2_u32.into())]).unwrap();
    let by_id = fabric.value(device, &[info(keys::DEVICE_ID.name(), "fab://test001/test001:nic000".into())]);
    let by_name = [on("test001"), info(keys::FABRIC_DEVICE_NAME.name(), "test001:nic000".into())];
    assert_eq!((by_id.as_ref(), fabric.value(device, &by_name).as_ref()), (Some(&third), Some(&third)));
    let coordinates = fabric.value("pmix.fabdev.coord", &by_name).unwrap();
    assert!(matches!(coordinates, Value::Geometry(_)) && format!("{third:?}").contains(&format!("{coordinates:?}")));
    // The name alone names no device, nor does an index behind the last.
    assert_eq!((fabric.value(device, &by_name[1..]), fabric.value(device, &[])), (None, None));
    assert_eq!(fabric.value(device, &[info(keys::FABRIC_DEVICE_INDEX.name(), 4_u32.into())]), None);
}

/// Two switches of three devices each.
#[test]
fn costs_are_answered_in_blocks_and_from_a_device_outwards() {
    let info = |key: &'static str, value: Value| Info::new(Key::from_static(key), value);
    let fabric = TestFabric.read("wide:3;plane:d:2").unwrap();
    let ask = |key: &str, infos: &[Info]| fabric.cost_request(key, infos).map(|request| fabric.costs(&request));
    let costs = |infos: &[Info]| ask("modex.fabric.costs", infos);
    let rows = |text: &'static str| info("modex.fabric.rows", text.into());
    let elements = [0, 2, 3, 2, 0, 3, 3, 3, 0].map(Value::Uint16).to_vec();
    let block = Value::DataArray(Box::new(DataArray { element_type: DataType::Uint16, elements }));
    assert_eq!(costs(&[info("modex.fabric.columns", "1-3".into()), rows("1-3")]), Some(block.clone()));
    assert_eq!(costs(&[rows("1-3")]), Some(block));
    for wrong in ["", "3-1", "1-6", "-", "a-b", "1-99999999999"] {
        assert_eq!(costs(&[rows(wrong)]), None, "{wrong}");
    }
    assert_eq!((costs(&[]), costs(&[rows("1"), info(keys::FABRIC_INDEX.name(), Value::Size(1))])), (None, None));

    let of_device = info(keys::FABRIC_DEVICE_INDEX.name(), 1_u32.into());
    let nearest = |count: Value| ask("modex.fabric.nearest", &[of_device.clone(), info("modex.fabric.count", count)]);
    let found = nearest(4_u32.into());
    assert_eq!(found, nearest("4".into()));
    let Some(Value::DataArray(found)) = found else { panic!("{found:?}") };
    let places = found.elements.iter().map(|device| {
        let Value::Info(device) = device else { panic!("{device:?}") };
        let Value::DataArray(device) = &device.value else { panic!("{device:?}") };
        let fact = |key: &str| {
            let of_key = |fact: &Value| {
                if let Value::Info(info) = fact {
                    (info.key.as_str() == key).then(|| info.value.as_u64())
                } else {
                    None
                }
            };
            device.elements.iter().find_map(of_key).flatten()
        };
        (fact(keys::FABRIC_DEVICE_INDEX.name()), fact("modex.fabric.cost"))
    });
    let expected = [(0, 2), (2, 2), (3, 3), (4, 3)].map(|(index, cost)| (Some(index), Some(cost)));
    assert_eq!(places.collect::<Vec<_>>(), expected);
    assert_eq!(nearest("many".into()), None);
}

/// Larger answers are refused before anything is computed.
#[test]
fn an_answer_has_a_bounded_number_of_costs() {
    let fabric = TestFabric.read("wide:300;plane:d:1").unwrap();
    let count = |key: &str, qualifier: &'static str, value: Value| {
        let device = Info::new(Key::from_static(keys::FABRIC_DEVICE_INDEX.name()), 0_u32);
        fabric.cost_request(key, &[device, Info::new(Key::from_static(qualifier), value)]).unwrap().cost_count()
    };
    let block = |rows: &'static str| count("modex.fabric.costs", "modex.fabric.rows", rows.into());
    assert_eq!((block("0-255"), block("0-256")), (Some(1 << 16), None));
    let nearest = |devices: usize| count("modex.fabric.nearest", "modex.fabric.count", Value::Size(devices as u64));
    assert_eq!((nearest(LISTED_MAX), nearest(LISTED_MAX + 1)), (Some(LISTED_MAX), None));
}

/// A device had another id in the fabric than in inventories and distances.
#[test]
fn a_device_has_the_id_and_place_of_the_inventories() {
    let device = |name: &str, uuid: &str| inventory::Device {
        device_types: DEVTYPE_NETWORK,
        name: name.to_owned(),
        uuid: uuid.to_owned(),
        bus_address: "0000:17:00.0".to_owned(),
        ..inventory::Device::default()
    };
    let devices =
        vec![device("eth0", "52:54:00:12:34:56"), device("bond0", "52:54:00:12:34:57"), device("tun0", "tun0")];
    let inventories =
        ["n0", "n1"].map(|node| Inventory { node: node.to_owned(), devices: devices.clone(), ..Inventory::default() });
    let fabric = Inventories::of_nodes(inventories.into_iter()).read("").unwrap();
    let info = |key: &'static str, value: &str| Info::new(Key::from_static(key), value);
    let on = |node: &str| info(keys::HOSTNAME.name(), node);
    let id = |id: &str| info(keys::DEVICE_ID.name(), id);
    let by = |qualifiers: &[Info]| fabric.value(keys::FABRIC_DEVICE.name(), qualifiers);
    for device in &devices {
        let by_name = by(&[on("n1"), info(keys::FABRIC_DEVICE_NAME.name(), &device.name)]).unwrap();
        let facts = format!("{by_name:?}");
        for fact in [id(&device.uuid), info(keys::FABRIC_DEVICE_PCI_DEVID.name(), "0000:17:00.0")] {
            assert!(facts.contains(&format!("{fact:?}")), "{fact:?} is missing in {facts}");
        }
        let names = [format!("fab://n1/{}", device.name), device.uuid.clone()];
        let [made, known] = names.each_ref().map(|name| by(&[on("n1"), id(name)]));
        assert_eq!((made.as_ref(), known.as_ref()), (Some(&by_name), Some(&by_name)));
        assert_eq!(by(&[id(&device.uuid)]), None, "the other node has it, too");
    }
    assert_eq!(by(&[on("n0"), id("fab://n1/eth0")]), None);
}

#[test]
fn large_planes_are_listed_node_by_node() {
    let fabric = TestFabric.read(&format!("wide:{};plane:1", LISTED_MAX + 1)).unwrap();
    assert_eq!(fabric.value(keys::FABRIC_DEVICES.name(), &[]), None);
    let node = [Info::new(Key::from_static(keys::HOSTNAME.name()), "test10000")];
    assert!(fabric.value(keys::FABRIC_DEVICES.name(), &node).is_some());
    let keys: Vec<_> = fabric.registration(0).unwrap().iter().map(|info| info.key.as_str().to_owned()).collect();
    assert_eq!(keys.len(), 8, "{keys:?}");
}

/// The shape has as many dimensions as the coordinates, and each coordinate is below its size.
#[test]
fn the_shape_of_a_plane_bounds_its_coordinates() {
    let shape = |links, switches, at: &[u32]| {
        let devices = at.iter().enumerate().map(|(name, &switch)| device(name, 0, switch)).collect();
        let fabric = Fabric::new(described(vec![plane(links, switches, devices)])).unwrap();
        let plane = &fabric.planes()[0];
        for index in 0..u32_of(plane.device_count()) {
            let coordinates = plane.coordinates(index).unwrap();
            assert!(coordinates.iter().zip(plane.shape()).all(|(&at, size)| at < size), "{coordinates:?}");
            assert_eq!(coordinates.len(), plane.shape().len());
        }
        let value = |key| fabric.value(key, &[]).unwrap();
        assert_eq!(value(keys::FABRIC_DIMS.name()), Value::Uint32(u32_of(plane.shape().len())));
        let elements: Vec<Value> = plane.shape().into_iter().map(Value::Uint32).collect();
        let array = Value::DataArray(Box::new(DataArray { element_type: DataType::Uint32, elements }));
        assert_eq!(value(keys::FABRIC_SHAPE.name()), array);
        let text = value(keys::FABRIC_SHAPE_STRING.name());
        let registered = fabric.registration(0).unwrap();
        assert!(registered.iter().any(|info| info.value == array) && registered.iter().any(|info| info.value == text));
        text.as_str().unwrap().to_owned()
    };
    assert_eq!(shape(Links::Torus(vec![2, 3]), 6, &[0, 5, 5, 5]), "2x3x3");
    assert_eq!(shape(Links::Dragonfly(vec![1, 3, 2]), 6, &[0, 3, 5, 5]), "3x3x2");
    assert_eq!(shape(Links::Tree(vec![None, Some(0), Some(0)]), 3, &[1, 1, 2]), "3x2");
    assert_eq!(shape(Links::Irregular(vec![(0, 1)]), 2, &[0, 1]), "2x1");
}

/// A plane of one switch. All names and the number of devices come from one number.
fn numbered(number: usize) -> Fabric {
    let devices = (0..number % 7 + 1).map(|name| device(number, name, 0)).collect();
    let plane = PlaneDescription { name: format!("{number}"), ..plane(Links::Torus(vec![1]), 1, devices) };
    Fabric::new(FabricDescription { identifier: format!("{number}"), planes: vec![plane] }).unwrap()
}

#[test]
fn readers_never_see_a_mixture_of_revisions() {
    const UPDATES: usize = 10_000;
    let current = CurrentFabric::new(numbered(1));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut handle = current.handle();
                while !is_over.load(Ordering::Relaxed) {
                    let number = usize::try_from(handle.revision()).unwrap();
                    let plane = &handle.planes()[0];
                    assert_eq!(handle.identifier(), format!("{number}"));
                    assert_eq!((plane.name(), plane.device_count()), (handle.identifier(), number % 7 + 1));
                    assert_eq!(plane.devices_of_node(&format!("node{number:02}")).count(), plane.device_count());
                    assert_eq!(plane.nearest(0, 9).unwrap().len(), number % 7);
                    let later = handle.renewed();
                    assert!(later.revision() >= handle.revision());
                    assert!(later.revision() == handle.revision() || handle.is_outdated());
                    handle = later;
                }
            });
        }
        for number in 2..=UPDATES {
            assert_eq!(current.replace(numbered(number)), number as u64);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(current.handle().revision(), UPDATES as u64);
}

#[test]
fn an_old_handle_stays_and_knows_that_it_is_outdated() {
    let current = CurrentFabric::new(numbered(1));
    let old = current.handle();
    assert_eq!(current.replace(numbered(1)), 1, "the same fabric is no new revision");
    assert!(!old.is_outdated());
    assert_eq!(current.replace(numbered(2)), 2);
    assert!(old.is_outdated() && !old.renewed().is_outdated());
    assert_eq!((old.identifier(), old.renewed().identifier()), ("1", "2"));
}
