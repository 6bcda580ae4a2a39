//! The kernel's facts about a node, for nodes whose topology can't be read.

use std::fs::read_to_string;

use crate::topo::CpuSet;
use crate::topo::inventory::{Inventory, NumaMemory};

/// The node's name, its processors and its memory; facts that the kernel lacks are left out.
pub(super) fn kernel_inventory(node: &str) -> Inventory {
    let read = |path| read_to_string(path).unwrap_or_default();
    said(node, &read("/sys/devices/system/cpu/online"), &read("/proc/meminfo"))
}

fn said(node: &str, processors: &str, memory: &str) -> Inventory {
    let count = processors.trim().parse().map_or(0, |set: CpuSet| set.iter().count());
    let bytes = memory.lines().find_map(|line| {
        let kib = line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim();
        kib.parse::<u64>().ok()?.checked_mul(1024)
    });
    Inventory {
        node: node.to_owned(),
        processors: u32::try_from(count).unwrap_or(u32::MAX),
        memory: bytes.map(|bytes| NumaMemory { number: 0, bytes }).into_iter().collect(),
        ..Inventory::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_kernel_are_read_and_other_texts_left_out() {
        let found = said("n0", "0-3,8\n", "MemFree: 1 kB\nMemTotal:       24684096 kB\n");
        assert_eq!((found.node.as_str(), found.processors), ("n0", 5));
        assert_eq!(found.memory, [NumaMemory { number: 0, bytes: 24_684_096 << 10 }]);
        assert_eq!(said("n0", "", "MemTotal: many"), Inventory { node: "n0".to_owned(), ..Inventory::default() });
        assert!(kernel_inventory("n0").processors > 0);
    }
}
