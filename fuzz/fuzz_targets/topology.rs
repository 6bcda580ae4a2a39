//! Topologies as text: a text of a host or of another library's server is read within bounds or refused. Questions
//! about it have answers.
//!
//! Input: XML.

#![no_main]

use libfuzzer_sys::fuzz_target;
use modex::topo::{CpuSet, Inventory, Kind, Machine, relative_locality};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(machine) = Machine::of_xml(text) else { return };
    assert_eq!(machine.objects().next().map(|object| object.index()), Some(0));
    for object in machine.objects() {
        assert!(object.ancestors().all(|above| above.index() < object.index()));
        assert!(object.remarks().count() <= text.len());
    }
    for list in ["0", "0-3,64", ""] {
        let set: CpuSet = list.parse().expect("a list");
        if let Some(locality) = machine.locality(&set) {
            assert!(relative_locality(&locality, &locality).is_ok(), "{locality}");
        }
        assert!(machine.distances(&set).iter().all(|device| device.nearest <= device.farthest));
    }
    let inventory = Inventory::of("n0", &machine);
    assert_eq!(inventory.devices.len(), machine.of_kind(Kind::OsDevice).count());
    let blob = inventory.encode().expect("a text of this size has few devices");
    assert!(Inventory::decode(&blob).is_ok());
});
