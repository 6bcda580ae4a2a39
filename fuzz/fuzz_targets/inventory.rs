//! Inventories: whatever bytes arrive from another node are read within bounds or refused, and what was read is written and
//! read again the same.
//!
//! Input: a blob, or what stands between its header and its check sum, which mutations would never get past.

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
        known.deliver([blob.as_slice(), written.as_slice()]).expect("both were read");
        assert_eq!((known.len(), known.of(&read.node)), (1, Some(&read)));
    }
});
