//! Inventories: any bytes from another node are read within bounds or refused. A decoded inventory is written and read
//! again unchanged.
//!
//! Input: a blob, or the bytes between its header and its checksum. Mutations alone would never match the checksum.

#![no_main]

use libfuzzer_sys::fuzz_target;
use modex::topo::{Inventories, Inventory};
use modex_fuzz::signed_inventory;

fuzz_target!(|bytes: &[u8]| {
    for blob in [bytes.to_vec(), signed_inventory(bytes)] {
        let Ok(read) = Inventory::decode(&blob) else { continue };
        assert!(!read.node.is_empty());
        let written = read.encode().expect("what was read fits what is written");
        assert_eq!(Inventory::decode(&written).as_ref(), Ok(&read));
        let mut known = Inventories::default();
        // Two network devices may have one name.
        let Ok(first) = known.deliver([blob.as_slice()]) else { continue };
        assert!(first.is_empty());
        assert_eq!(known.deliver([written.as_slice()]), Ok(Vec::new()));
        assert_eq!((known.len(), known.of(&read.node)), (1, Some(&read)));
    }
});
