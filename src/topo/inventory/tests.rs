use xxhash_rust::xxh3::xxh3_64;

use super::*;
use crate::topo::Machine;

const XML: &str = r#"<topology version="2.0"><object type="Machine" cpuset="0x3"><info name="CPUModel" value="made up"/>
    <object type="Package" cpuset="0x1"><object type="NUMANode" os_index="4" cpuset="0x1" local_memory="1000"/>
      <object type="L2Cache" cpuset="0x1" cache_size="512"><object type="Core" cpuset="0x1"><object type="PU" cpuset="0x1"/></object></object>
      <object type="PCIDev" pci_busid="0000:01:00.0" pci_type="0200 [8086:1572] [0:0] 02"><object type="OSDev" name="eth0" osdev_type="2"/></object></object>
    <object type="Package" cpuset="0x2"><object type="NUMANode" os_index="5" cpuset="0x2" local_memory="2000"/>
      <object type="L2Cache" cpuset="0x2" cache_size="512"><object type="Core" cpuset="0x2"><object type="PU" cpuset="0x2"/></object></object></object>
    <object type="OSDev" name="card0" subtype="CUDA" osdev_type="1"/></object></topology>"#;

fn inventory(node: &str) -> Inventory {
    Inventory::of(node, &Machine::of_xml(XML).unwrap())
}

fn blob(node: &str) -> Vec<u8> {
    inventory(node).encode().unwrap()
}

/// Bytes with a new check sum, so that the damage behind it is examined.
fn signed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.len() - 8);
    let check = xxh3_64(&bytes);
    bytes.extend(check.to_le_bytes());
    bytes
}

#[test]
fn a_rollup_counts_what_the_topology_has() {
    let found = inventory("n0");
    assert_eq!((found.packages, found.cores, found.processors, found.model.as_str()), (2, 2, 2, "made up"));
    assert_eq!(found.memory, [NumaMemory { number: 4, bytes: 1000 }, NumaMemory { number: 5, bytes: 2000 }]);
    assert_eq!(found.caches, [Caches { level: 2, count: 2, bytes: 512 }]);
    let [network, card] = found.devices.as_slice() else { panic!("{found:?}") };
    assert_eq!(
        (network.name.as_str(), network.device_types, network.bus_address.as_str()),
        ("eth0", 4, "0000:01:00.0")
    );
    assert_eq!((network.vendor, network.model), (Some(0x8086), Some(0x1572)));
    assert_eq!((network.package, network.memory), (Some(0), Some(4)));
    assert_eq!((card.package, card.memory, card.subtype.as_str()), (None, None, "CUDA"));
}

/// Regression: two network devices without a name kept the inventories of all nodes from the scheduler, because a
/// delivery takes all or none. Names that are cut at the limit of a blob did the same.
#[test]
fn a_rollup_leaves_out_devices_with_odd_names() {
    let long = "e".repeat(1 << 12);
    let names =
        ["", "", "a b", "a&#10;b", "a&#27;[31m", "a,b", "a/b", &format!("{long}0"), &format!("{long}1"), "eth1"];
    let devices: String =
        names.iter().map(|name| format!("<object type=\"OSDev\" name=\"{name}\" osdev_type=\"2\"/>")).collect();
    let xml = XML.replace("</object></topology>", &format!("{devices}</object></topology>"));
    let found = Inventory::of("n0", &Machine::of_xml(&xml).unwrap());
    let names: Vec<&str> = found.devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names, ["eth0", "card0", "eth1"]);
    Inventories::default().deliver([found.encode().unwrap()]).unwrap();
}

#[test]
fn a_written_inventory_is_read_and_later_additions_are_skipped() {
    let bytes = blob("n0");
    assert_eq!(Inventory::decode(&bytes), Ok(inventory("n0")));
    let added = [0xff, 0xff, 0, 0, 3, 0, 0, 0, 1, 2, 3];
    let mut later = bytes[..bytes.len() - 8].to_vec();
    later.extend(added);
    let length = u32::from_le_bytes(later[8..12].try_into().unwrap()) + 11;
    later[8..12].copy_from_slice(&length.to_le_bytes());
    later.extend([0; 8]);
    assert_eq!(Inventory::decode(&signed(later)), Ok(inventory("n0")));
}

#[test]
fn a_malformed_inventory_is_refused() {
    let bytes = blob("n0");
    let changed = |position: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[position] = byte;
        bytes
    };
    assert_eq!(Inventory::decode(b"XML"), Err(InventoryError::Magic));
    assert_eq!(Inventory::decode(&changed(4, 2)), Err(InventoryError::Version { found: 2 }));
    assert!(matches!(Inventory::decode(&bytes[..40]), Err(InventoryError::Length { found: 40, .. })));
    assert_eq!(Inventory::decode(&changed(30, 0xff)), Err(InventoryError::Check));
    assert!(matches!(Inventory::decode(&signed(changed(20, 9))), Err(InventoryError::Short { .. })));
    assert!(matches!(Inventory::decode(&signed(changed(22, 0xff))), Err(InventoryError::Text { tag: 1, offset: 12 })));
    let nameless = Inventory::default().encode().unwrap();
    assert_eq!(Inventory::decode(&nameless), Err(InventoryError::Nameless));
    assert!(matches!(
        Inventory::decode(&vec![0; BLOB_BYTES_MAX + 1]),
        Err(InventoryError::TooMany { what: "bytes", .. })
    ));
    let crowded = Inventory { memory: vec![NumaMemory { number: 0, bytes: 0 }; 1 << 15], ..inventory("n0") };
    assert!(matches!(crowded.encode(), Err(InventoryError::TooMany { what: "NUMA nodes", .. })));
}

/// Any value of any byte is read or refused.
#[test]
fn no_byte_makes_a_reader_fail() {
    let bytes = blob("n0");
    for position in 12..bytes.len() - 8 {
        for byte in [0, 1, 0x7f, 0xff] {
            let mut bytes = bytes.clone();
            bytes[position] = byte;
            if let Ok(read) = Inventory::decode(&signed(bytes)) {
                assert_eq!(Inventory::decode(&read.encode().unwrap()), Ok(read));
            }
        }
    }
}

#[test]
fn a_newer_inventory_takes_the_place_of_its_nodes_older_one_alone() {
    let mut known = Inventories::default();
    let blobs = ["n0", "n1", "n2"].map(blob);
    known.deliver(blobs.iter().map(Vec::as_slice)).unwrap();
    assert_eq!(known.iter().map(|inventory| inventory.node.as_str()).collect::<Vec<_>>(), ["n0", "n1", "n2"]);
    let newer = Inventory { processors: 64, ..inventory("n1") };
    known.deliver([newer.encode().unwrap().as_slice()]).unwrap();
    assert_eq!((known.len(), known.of("n1"), known.of("n0")), (3, Some(&newer), Some(&inventory("n0"))));
    let refused = known.deliver([blob("n3").as_slice(), b"none"]);
    assert_eq!((refused, known.of("n3")), (Err(InventoryError::Magic), None));
}

#[test]
fn a_newer_inventory_tells_which_devices_are_lost_and_which_are_found() {
    let mut known = Inventories::default();
    let mut deliver = |inventory: &Inventory| known.deliver([inventory.encode().unwrap().as_slice()]);
    let [network, card] = <[Device; 2]>::try_from(inventory("n0").devices).unwrap();
    let with = |devices: Vec<Device>| Inventory { devices, ..inventory("n0") };
    let change = |device: &Device, is_found| DeviceChange { node: "n0".to_owned(), device: device.clone(), is_found };
    assert_eq!(deliver(&inventory("n0")), Ok(Vec::new()), "nothing was known before");
    let moved = Device { uuid: "02:00:00:00:00:09".to_owned(), ..network.clone() };
    let disk = Device { device_types: 1, name: "sda".to_owned(), ..Device::default() };
    let changes = vec![change(&network, false), change(&card, false), change(&moved, true)];
    assert_eq!(deliver(&with(vec![moved.clone(), disk])), Ok(changes), "a disk counts for nothing");
    assert_eq!(deliver(&with(vec![moved.clone(), card.clone()])), Ok(vec![change(&card, true)]));
    assert_eq!(deliver(&with(vec![card, moved])), Ok(Vec::new()), "their order is nothing");
}

#[test]
fn network_devices_are_found_by_identity_as_long_as_a_node_has_them() {
    let mut known = Inventories::default();
    let [network, card] = <[Device; 2]>::try_from(inventory("n0").devices).unwrap();
    let named = |name: &str| Device { name: name.to_owned(), uuid: "id".to_owned(), ..network.clone() };
    let with = |node: &str, devices: Vec<Device>| Inventory { devices, ..inventory(node) }.encode().unwrap();
    known.deliver([with("n0", vec![named("b"), card.clone()]), with("n1", vec![named("a"), named("b")])]).unwrap();
    let found = |known: &Inventories, name| {
        known.network_device("id", name).map(|(node, device)| (node.to_owned(), device.name.clone()))
    };
    let pair = |node: &str, name: &str| Some((node.to_owned(), name.to_owned()));
    assert_eq!((found(&known, None), known.network_count()), (pair("n1", "a"), 3));
    assert_eq!((found(&known, Some("b")), found(&known, Some("c"))), (pair("n0", "b"), None));
    assert_eq!(known.network_device(&card.uuid, None), None, "it is of no network");
    assert_eq!(known.network_device("i", None), None);
    known.deliver([with("n1", vec![named("c")]), with("n0", Vec::new())]).unwrap();
    assert_eq!((found(&known, Some("b")), found(&known, None), known.network_count()), (None, pair("n1", "c"), 1));
}

/// A fabric of inventories is read again only for other network devices.
#[test]
fn deliveries_with_other_network_devices_raise_the_revision() {
    let mut known = Inventories::default();
    let mut deliver = |inventory: &Inventory| {
        known.deliver([inventory.encode().unwrap().as_slice()]).unwrap();
        known.network_revision()
    };
    let [network, card] = <[Device; 2]>::try_from(inventory("n0").devices).unwrap();
    let with = |devices: Vec<Device>| Inventory { devices, ..inventory("n0") };
    assert_eq!(deliver(&inventory("n0")), 1);
    assert_eq!(deliver(&Inventory { processors: 64, ..inventory("n0") }), 1);
    assert_eq!(deliver(&with(vec![network.clone()])), 1, "the card is of no network");
    let other = Device { vendor: Some(1), ..network };
    assert_eq!(deliver(&with(vec![other])), 2, "the fabric has vendors, too");
    assert_eq!(deliver(&with(vec![card])), 3);
    assert_eq!(deliver(&Inventory { devices: Vec::new(), ..inventory("n1") }), 3);
    assert_eq!(deliver(&inventory("n1")), 4);
}

#[test]
fn duplicate_nodes_or_devices_are_refused_and_the_earlier_state_stays() {
    let mut known = Inventories::default();
    known.deliver([blob("n0").as_slice()]).unwrap();
    let twice = known.deliver(["n1", "n0", "n0"].map(blob).iter().map(Vec::as_slice));
    assert_eq!(twice, Err(InventoryError::TwoOfNode { node: "n0".to_owned() }));
    let network = inventory("n0").devices.remove(0);
    let doubled = Inventory { devices: vec![network.clone(), network], ..inventory("n0") };
    let twice = known.deliver([doubled.encode().unwrap().as_slice()]);
    assert_eq!(twice, Err(InventoryError::TwoDevices { node: "n0".to_owned(), device: "eth0".to_owned() }));
    assert_eq!((known.len(), known.of("n0")), (1, Some(&inventory("n0"))));
}
