//! The file systems of this node.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;
use parking_lot::Mutex;

use super::devices::{Observation, limits_of, path_of_cgroup, work_of_devices};
use super::local_files;
use super::mounts::MountList;
use super::provider::{DeviceNumber, FileError, FileTask, Provider, StorageSystem, Usage};
use crate::types::codes::storage_medium::{
    STORAGE_MEDIUM_HDD, STORAGE_MEDIUM_NVME, STORAGE_MEDIUM_PMEM, STORAGE_MEDIUM_RAM, STORAGE_MEDIUM_SSD,
};

/// The mounted file systems of this node: `/proc/self/mountinfo`, `statvfs`, `/sys/dev/block`, `/proc/diskstats`, and
/// the limits `io.max` of the own cgroup and those above it.
///
/// - The id is the source, such as `/dev/sda1` or `server:/export`. Without one of its own, and for FUSE, it is the kind and the mount
///   point, such as `tmpfs:/dev/shm`.
/// - Present rates are means between two questions that are a second or more apart. The first reading is that of
///   [`MountTable::new`].
/// - The best rate is the limit of the cgroup; without one it is the best that was seen.
#[derive(Debug)]
pub struct MountTable {
    observation: Mutex<Observation>,
}

/// The longest table that is read.
const TABLE_BYTES_MAX: u64 = 16 << 20;

/// The longest other file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Cgroups above one that may limit it, with itself.
const CGROUPS_MAX: usize = 64;

impl MountTable {
    /// Begins to observe the disks.
    #[must_use]
    pub fn new() -> Self {
        let table = Self { observation: Mutex::default() };
        table.observe();
        table
    }

    fn observe(&self) {
        let work = work_of_devices(&text("/proc/diskstats").unwrap_or_default());
        let uptime = text("/proc/uptime").unwrap_or_default();
        if let Some(now) = uptime.split_whitespace().next().and_then(|seconds| seconds.parse().ok()) {
            self.observation.lock().observe(now, work);
        }
    }
}

impl Default for MountTable {
    fn default() -> Self {
        Self::new()
    }
}

impl Provider for MountTable {
    fn systems(&self) -> Vec<StorageSystem> {
        let mut systems = mounts().systems();
        for system in &mut systems {
            system.medium = system.medium.or_else(|| medium_of(&block_device(system.device?)?));
        }
        systems
    }

    fn usage(&self, system: &StorageSystem) -> Usage {
        let mut usage = system.paths.first().map(|path| size_of(Path::new(OsStr::from_bytes(path.as_bytes()))));
        let usage = usage.get_or_insert_default();
        if let Some(device) = system.device.filter(|device| device.0 != 0) {
            self.observe();
            let [reads, writes] = self.observation.lock().rates_of(device);
            let [of_reads, of_writes] = limits_of(whole_disk(device).unwrap_or(device), &limits());
            (usage.reads, usage.writes) = (reads.within(of_reads), writes.within(of_writes));
        }
        *usage
    }

    /// Files of this node are copied, moved and read.
    fn carry_out(&self, task: &FileTask<'_>) -> Option<Result<PathBuf, FileError>> {
        Some(local_files::carry_out(task))
    }
}

fn mounts() -> MountList {
    MountList::read(&bytes("/proc/self/mountinfo", TABLE_BYTES_MAX).unwrap_or_default())
}

/// The figures of `statvfs`. A file system without a count of blocks or inodes says 0.
fn size_of(path: &Path) -> Usage {
    let Ok(found) = statvfs(path) else { return Usage::default() };
    let block = found.fragment_size();
    let bytes = |blocks: u64| blocks.checked_mul(block).filter(|_| found.blocks() > 0);
    let objects = Some(found.files()).filter(|files| *files > 0);
    let best = Some(found.block_size()).filter(|size| *size > 0);
    Usage {
        capacity_bytes: bytes(found.blocks()),
        used_bytes: bytes(found.blocks().saturating_sub(found.blocks_free())),
        objects_max: objects,
        objects_used: objects.map(|files| files.saturating_sub(found.files_free())),
        transfer_bytes_min: Some(block).filter(|size| *size > 0),
        read_bytes_best: best,
        write_bytes_best: best,
        ..Usage::default()
    }
}

/// The directory of a block device in `/sys`; of a part, that of its disk.
fn block_device((major, minor): DeviceNumber) -> Option<PathBuf> {
    let place = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    if place.join("partition").exists() { place.parent().map(Path::to_owned) } else { Some(place) }
}

/// The disk of a part. Limits are those of disks.
fn whole_disk(device: DeviceNumber) -> Option<DeviceNumber> {
    let number = text(block_device(device)?.join("dev"))?;
    let (major, minor) = number.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The medium of a disk by its driver, or by the kernel's word whether it rotates.
fn medium_of(disk: &Path) -> Option<u64> {
    let [model, transport] = ["device/model", "device/transport"].map(|name| text(disk.join(name)).unwrap_or_default());
    medium(disk, text(disk.join("queue/rotational"))?.trim(), &model, transport.trim())
}

/// The medium of a disk at a place in `/sys`. The kernel's word is no more than a default for the disks of a virtual
/// machine, of a network and of files.
fn medium(disk: &Path, rotates: &str, model: &str, transport: &str) -> Option<u64> {
    let name = disk.file_name()?.to_str()?;
    let of_driver = |drivers: &[&str]| drivers.iter().any(|driver| name.starts_with(driver));
    let is_attached = |bus: &str| {
        let rest_of = |part: &std::path::Component<'_>| part.as_os_str().to_str()?.strip_prefix(bus).map(str::to_owned);
        disk.components()
            .filter_map(|part| rest_of(&part))
            .any(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    let is_virtual = VIRTUAL_MODELS.iter().any(|known| model.contains(known));
    match rotates {
        _ if of_driver(&["zram", "ram"]) => Some(STORAGE_MEDIUM_RAM),
        _ if of_driver(&["pmem"]) => Some(STORAGE_MEDIUM_PMEM),
        _ if is_virtual => None,
        _ if of_driver(&["nvme"]) && transport != "pcie" => None,
        // Others are on a network, in a virtual machine, or behind a controller that hides them.
        _ if of_driver(&["sd", "hd"]) && !is_attached("ata") && !is_attached("end_device-") => None,
        _ if !of_driver(&["sd", "hd", "nvme", "mmcblk"]) => None,
        "1" => Some(STORAGE_MEDIUM_HDD),
        "0" if of_driver(&["nvme"]) => Some(STORAGE_MEDIUM_NVME),
        "0" => Some(STORAGE_MEDIUM_SSD),
        _ => None,
    }
}

/// Parts of the models of disks that virtual machines make.
const VIRTUAL_MODELS: [&str; 6] = ["QEMU", "VBOX", "VMware", "Virtual", "Amazon", "Msft"];

/// The files `io.max` of the own cgroup and of those above it.
fn limits() -> Vec<String> {
    let own = text("/proc/self/cgroup").unwrap_or_default();
    let list = mounts();
    let root = list.visible().find(|mount| mount.kind() == b"cgroup2");
    let Some((root, own)) = root.zip(path_of_cgroup(&own)) else { return Vec::new() };
    let root = Path::new(OsStr::from_bytes(root.point()));
    let own = Path::new(own.trim_start_matches('/'));
    own.ancestors().take(CGROUPS_MAX).filter_map(|group| text(root.join(group).join("io.max"))).collect()
}

fn text(path: impl AsRef<Path>) -> Option<String> {
    bytes(path, FILE_BYTES_MAX).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn bytes(path: impl AsRef<Path>, bytes_max: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(bytes_max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A guess was a medium for disks of virtual machines and networks.
    #[test]
    fn a_disk_of_a_network_or_a_virtual_machine_has_no_medium() {
        let of = |place: &str, model: &str| medium(Path::new(place), "1", model, "");
        let ata = "/sys/devices/pci0000:00/0000:00:17.0/ata3/host2/target2:0:0/2:0:0:0/block/sda";
        assert_eq!(of(ata, "ST4000"), Some(STORAGE_MEDIUM_HDD));
        assert_eq!(of(ata, "QEMU HARDDISK"), None);
        assert_eq!(of("/sys/devices/platform/host3/session1/target3:0:0/3:0:0:1/block/sdb", "LUN"), None);
        assert_eq!(of("/sys/devices/pci0000:00/0000:00:04.0/virtio1/host0/target0:0:1/0:0:1:0/block/sda", "x"), None);
        assert_eq!(of("/sys/devices/pci0000:00/0000:00:04.0/virtio1/block/vda", ""), None);
        let nvme = |transport| medium(Path::new("/sys/devices/a/nvme/nvme0/nvme0n1"), "0", "PM983", transport);
        assert_eq!([nvme("pcie"), nvme("tcp")], [Some(STORAGE_MEDIUM_NVME), None]);
    }
}
