//! The figures of this machine, its disks and its networks.

use super::process::{kilobytes, text};
use crate::keys;

/// The longest table that is read: some thousand disks or networks.
const TABLE_BYTES_MAX: u64 = 1 << 20;

/// Rows of a table that count.
const ROWS_MAX: usize = 4096;

/// Numbers by key.
type Figures<T> = Vec<(&'static str, T)>;

/// Names of the drivers of physical disks. Others are parts of such disks, or memory.
const DISKS: [&str; 6] = ["sd", "hd", "vd", "xvd", "nvme", "mmcblk"];

/// The columns of `/proc/diskstats` behind the name.
const DISKSTATS_KEYS: [&str; 11] = [
    keys::DISK_READ_COMPLETED.name(),
    keys::DISK_READ_MERGED.name(),
    keys::DISK_READ_SECTORS.name(),
    keys::DISK_READ_MILLISEC.name(),
    keys::DISK_WRITE_COMPLETED.name(),
    keys::DISK_WRITE_MERGED.name(),
    keys::DISK_WRITE_SECTORS.name(),
    keys::DISK_WRITE_MILLISEC.name(),
    keys::DISK_IO_IN_PROGRESS.name(),
    keys::DISK_IO_MILLISEC.name(),
    keys::DISK_IO_WEIGHTED.name(),
];

/// The columns of `/proc/net/dev` behind the name that have a key.
const NET_DEV_KEYS: [(usize, &str); 6] = [
    (0, keys::NET_RECVD_BYTES.name()),
    (1, keys::NET_RECVD_PCKTS.name()),
    (2, keys::NET_RECVD_ERRS.name()),
    (8, keys::NET_SENT_BYTES.name()),
    (9, keys::NET_SENT_PCKTS.name()),
    (10, keys::NET_SENT_ERRS.name()),
];

/// The lines of `/proc/meminfo` that have a key.
const MEMINFO_KEYS: [(&str, &str); 8] = [
    ("MemTotal:", keys::NODE_MEM_TOTAL.name()),
    ("MemFree:", keys::NODE_MEM_FREE.name()),
    ("Buffers:", keys::NODE_MEM_BUFFERS.name()),
    ("Cached:", keys::NODE_MEM_CACHED.name()),
    ("SwapCached:", keys::NODE_MEM_SWAP_CACHED.name()),
    ("SwapTotal:", keys::NODE_SWAP_TOTAL.name()),
    ("SwapFree:", keys::NODE_MEM_SWAP_FREE.name()),
    ("Mapped:", keys::NODE_MEM_MAPPED.name()),
];

/// The numbers of the load, of one, five and fifteen minutes.
const LOADAVG_KEYS: [&str; 3] = [keys::NODE_LOAD_AVG.name(), keys::NODE_LOAD_AVG5.name(), keys::NODE_LOAD_AVG15.name()];

/// The keys of each kind.
pub(super) fn node_keys() -> impl Iterator<Item = &'static str> {
    LOADAVG_KEYS.into_iter().chain(MEMINFO_KEYS.into_iter().map(|(_, key)| key))
}

pub(super) fn disk_keys() -> impl Iterator<Item = &'static str> {
    DISKSTATS_KEYS.into_iter()
}

pub(super) fn network_keys() -> impl Iterator<Item = &'static str> {
    NET_DEV_KEYS.into_iter().map(|(_, key)| key)
}

/// The figures of the node. Memory is in megabytes.
pub(super) fn node() -> Figures<f32> {
    let load = text("/proc/loadavg", TABLE_BYTES_MAX).unwrap_or_default();
    let memory = text("/proc/meminfo", TABLE_BYTES_MAX).unwrap_or_default();
    let of_load = LOADAVG_KEYS.into_iter().zip(load.split_whitespace().map_while(|word| word.parse().ok()));
    let of_memory =
        MEMINFO_KEYS.into_iter().filter_map(|(line, key)| Some((key, megabytes(kilobytes(&memory, line)?))));
    of_load.chain(of_memory).collect()
}

/// The name and the figures of each physical disk, or of the disks that `is_wanted` names.
pub(super) fn disks(is_wanted: Option<&dyn Fn(&str) -> bool>) -> Vec<(String, Figures<u64>)> {
    disks_of(&text("/proc/diskstats", TABLE_BYTES_MAX).unwrap_or_default(), is_wanted)
}

/// The name and the figures of each network, or of the networks that `is_wanted` names.
pub(super) fn networks(is_wanted: Option<&dyn Fn(&str) -> bool>) -> Vec<(String, Figures<u64>)> {
    networks_of(&text("/proc/net/dev", TABLE_BYTES_MAX).unwrap_or_default(), is_wanted)
}

/// Megabytes, as the standard has them.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "the standard's type for sizes")]
pub(super) fn megabytes(kilobytes: u64) -> f32 {
    (kilobytes as f64 / 1024.0) as f32
}

fn disks_of(table: &str, is_wanted: Option<&dyn Fn(&str) -> bool>) -> Vec<(String, Figures<u64>)> {
    let is_physical = |name: &str| DISKS.iter().any(|driver| name.starts_with(driver));
    let row = |line: &str| {
        let mut words = line.split_whitespace().skip(2);
        let name = words.next()?.to_owned();
        let figures: Figures<u64> = DISKSTATS_KEYS.into_iter().zip(words.map_while(|word| word.parse().ok())).collect();
        is_wanted.map_or_else(|| is_physical(&name), |is_wanted| is_wanted(&name)).then_some((name, figures))
    };
    table.lines().filter_map(row).take(ROWS_MAX).collect()
}

fn networks_of(table: &str, is_wanted: Option<&dyn Fn(&str) -> bool>) -> Vec<(String, Figures<u64>)> {
    let row = |line: &str| {
        let (name, numbers) = line.split_once(':')?;
        let name = name.trim().to_owned();
        let numbers: Vec<u64> = numbers.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let figures = NET_DEV_KEYS.into_iter().filter_map(|(at, key)| Some((key, *numbers.get(at)?))).collect();
        is_wanted.is_none_or(|is_wanted| is_wanted(&name)).then_some((name, figures))
    };
    table.lines().filter_map(row).take(ROWS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_disks_and_networks_are_read_by_name() {
        let table = "   8  0 sda 1 2 3 4 5 6 7 8 9 10 11 12\n 7 0 loop0 1 2 3\n 8 1 sdb 1\n junk\n";
        let found = disks_of(table, None);
        assert_eq!(
            found.iter().map(|(name, figures)| (name.as_str(), figures.len())).collect::<Vec<_>>(),
            [("sda", 11), ("sdb", 1)]
        );
        assert_eq!(found[0].1[2], (keys::DISK_READ_SECTORS.name(), 3));
        assert_eq!(disks_of(table, Some(&|name: &str| name == "loop0")).len(), 1);
        let table = "Inter-|  Receive\n face |bytes\n  eth0: 1 2 3 4 5 6 7 8 9 10 11 12\n lo:7\n";
        let found = networks_of(table, None);
        assert_eq!((found.len(), found[0].0.as_str(), found[0].1.len(), found[1].1.len()), (2, "eth0", 6, 1));
        assert_eq!(found[0].1[3], (keys::NET_SENT_BYTES.name(), 9));
        assert!(networks_of(table, Some(&|name: &str| name == "wlan0")).is_empty());
    }

    #[test]
    fn this_machine_has_figures() {
        let figures = node();
        assert!(figures.iter().any(|(key, value)| *key == keys::NODE_MEM_TOTAL.name() && *value > 1.0), "{figures:?}");
        assert!(node_keys().all(|known| figures.iter().any(|(key, _)| *key == known)), "{figures:?}");
    }
}
