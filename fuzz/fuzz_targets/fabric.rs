//! Descriptions of fabrics: any text is read or refused with a short error. What was read answers queries, and the
//! nearest devices have the costs that the pairs have.
//!
//! Input: a byte that chooses the form, then the text, or the bytes of one inventory.

#![no_main]

use libfuzzer_sys::fuzz_target;
use modex::fabrics::{IbNetDiscover, Plane, Provider, SlurmTopology, SlurmYaml, SysListing, TestFabric};
use modex::topo::Inventories;
use modex_fuzz::signed_inventory;

/// Bytes of an error: a reason, and the starts of some names.
const ERROR_BYTES_MAX: usize = 2048;

fuzz_target!(|bytes: &[u8]| {
    let Some((form, text)) = bytes.split_first() else { return };
    let mut inventories = Inventories::default();
    if form % 7 == 6 && inventories.deliver([signed_inventory(text).as_slice()]).is_err() {
        return;
    }
    let text = String::from_utf8_lossy(text);
    let provider: &dyn Provider = match form % 7 {
        0 => &SlurmTopology { is_dragonfly: false },
        1 => &SlurmTopology { is_dragonfly: true },
        2 => &IbNetDiscover,
        3 => &SysListing,
        4 => &TestFabric,
        5 => &SlurmYaml,
        _ => &inventories,
    };
    match provider.read(&text) {
        Ok(fabric) => fabric.planes().iter().for_each(ask),
        Err(error) => assert!(error.to_string().len() <= ERROR_BYTES_MAX, "{error}"),
    }
});

fn ask(plane: &Plane) {
    let last = u32::try_from(plane.device_count() - 1).expect("the number of devices has a bound");
    for device in [0, last / 2, last] {
        assert_eq!(plane.cost(device, device), Some(0));
        let found = plane.device(device).expect("a device of the plane");
        assert_eq!(plane.device_by_name(found.node, found.name), Some(found));
        assert!(plane.switch_peers(device).any(|peer| peer == found));
        let nearest = plane.nearest(device, 5).expect("a device of the plane");
        assert!(nearest.is_sorted_by_key(|&(other, cost)| (cost, other)));
        for (other, cost) in nearest {
            assert_eq!((plane.cost(device, other), plane.cost(other, device)), (Some(cost), Some(cost)));
        }
    }
    assert!(!plane.groups().is_empty());
}
