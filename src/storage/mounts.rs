//! The text of the mount table, `/proc/self/mountinfo`.
//!
//! Users can mount file systems with names of their choice, so the text is untrusted.
//!
//! Source: proc_pid_mountinfo(5).

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::provider::{DeviceNumber, StorageSystem};
use crate::types::Text;
use crate::types::codes::storage_access_type::{STORAGE_ACCESS_RD, STORAGE_ACCESS_RDWR};
use crate::types::codes::storage_accessibility::STORAGE_ACCESSIBILITY_NODE;
use crate::types::codes::storage_medium::STORAGE_MEDIUM_RAM;

/// Mounts of a table that count.
const MOUNTS_MAX: usize = 65_536;

/// Mount points of one system that are listed.
const PATHS_MAX: usize = 64;

/// Kinds without stored data of users: views of the kernel.
const VIEWS: [&[u8]; 26] = [
    b"autofs",
    b"binder",
    b"binfmt_misc",
    b"bpf",
    b"cgroup",
    b"cgroup2",
    b"configfs",
    b"debugfs",
    b"devpts",
    b"devtmpfs",
    b"efivarfs",
    b"fusectl",
    b"functionfs",
    b"hugetlbfs",
    b"mqueue",
    b"nsfs",
    b"proc",
    b"pstore",
    b"resctrl",
    b"rootfs",
    b"rpc_pipefs",
    b"securityfs",
    b"selinuxfs",
    b"smackfs",
    b"sysfs",
    b"tracefs",
];

/// Kinds that keep data in memory.
const OF_MEMORY: [&[u8]; 2] = [b"ramfs", b"tmpfs"];

/// Kinds on a device that this node alone uses. Kinds of clusters, such as gfs2 and ocfs2, have block devices, too.
const OF_NODE: [&[u8]; 15] = [
    b"erofs",
    b"exfat",
    b"ext2",
    b"ext3",
    b"ext4",
    b"f2fs",
    b"iso9660",
    b"jfs",
    b"ntfs3",
    b"ramfs",
    b"squashfs",
    b"tmpfs",
    b"udf",
    b"vfat",
    b"xfs",
];

/// A mounted file system. Names are bytes of the kernel's, without its escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    id: u32,
    parent: u32,
    device: DeviceNumber,
    /// The directory of the file system that is seen.
    root: Vec<u8>,
    point: Vec<u8>,
    kind: Vec<u8>,
    source: Vec<u8>,
    /// Options of the mount and of the file system.
    options: Vec<u8>,
    is_read_only: bool,
}

impl Mount {
    /// Reads a line; `None` for other texts.
    #[must_use]
    pub fn read(line: &[u8]) -> Option<Self> {
        let mut words = line.split(|byte| *byte == b' ');
        let mut number = || text(words.next()?)?.parse::<u32>().ok();
        let (id, parent) = (number()?, number()?);
        let (major, minor) = text(words.next()?)?.split_once(':')?;
        let device = (major.parse().ok()?, minor.parse().ok()?);
        let (root, point) = (unescape(words.next()?), unescape(words.next()?));
        let of_mount = words.next()?;
        // Fields about the propagation of mounts come before the hyphen, any number of them.
        words.find(|word| *word == b"-")?;
        let (kind, source) = (unescape(words.next()?), unescape(words.next()?));
        let of_system = words.next().unwrap_or_default();
        let is_read_only = [of_mount, of_system].iter().any(|options| has_option(options, b"ro"));
        let options = of_system.to_vec();
        Some(Self { id, parent, device, root, point, kind, source, options, is_read_only })
    }

    /// The kind of the file system, such as `cgroup2`.
    #[must_use]
    pub fn kind(&self) -> &[u8] {
        &self.kind
    }

    /// The mount point.
    #[must_use]
    pub fn point(&self) -> &[u8] {
        &self.point
    }

    /// The value of an option of the file system.
    fn option(&self, name: &[u8]) -> Option<&[u8]> {
        let mut options = self.options.split(|byte| *byte == b',');
        options.find_map(|option| option.strip_prefix(name)?.strip_prefix(b"="))
    }

    /// Whether the source is a device or another machine, so that its name means something. Users name the sources of
    /// FUSE.
    fn has_named_source(&self) -> bool {
        let is_of_user = self.kind == b"fuse" || self.kind.starts_with(b"fuse.");
        !is_of_user && (self.source.starts_with(b"/") || self.source.contains(&b':'))
    }
}

/// The mounts of a table, in its order.
#[derive(Clone, Debug, Default)]
pub struct MountList {
    mounts: Vec<Mount>,
}

impl MountList {
    /// Reads a table. Lines of another form are left out.
    #[must_use]
    pub fn read(table: &[u8]) -> Self {
        let lines = table.split(|byte| *byte == b'\n');
        Self { mounts: lines.filter_map(Mount::read).take(MOUNTS_MAX).collect() }
    }

    /// The mounts.
    #[must_use]
    pub fn mounts(&self) -> &[Mount] {
        &self.mounts
    }

    /// The mounts that are not hidden by others.
    pub fn visible(&self) -> impl Iterator<Item = &Mount> {
        let shown = shown(&self.mounts);
        self.mounts.iter().filter(move |mount| shown.as_ref().is_none_or(|shown| shown.contains(&mount.id)))
    }

    /// The storage systems: one for each device, at its visible mount points. One that shows the whole file system is
    /// the main one.
    #[must_use]
    pub fn systems(&self) -> Vec<StorageSystem> {
        let mut by_device: BTreeMap<DeviceNumber, Vec<&Mount>> = BTreeMap::new();
        let mut order = Vec::new();
        for mount in self.visible().filter(|mount| !VIEWS.contains(&&*mount.kind)) {
            let of_device = by_device.entry(mount.device).or_default();
            if of_device.is_empty() {
                order.push(mount.device);
            }
            of_device.push(mount);
        }
        let mut named: BTreeMap<&[u8], usize> = BTreeMap::new();
        for mounts in by_device.values_mut() {
            mounts.sort_by_key(|mount| mount.root != b"/");
            mounts.truncate(PATHS_MAX);
            if let Some(main) = mounts.first().filter(|mount| mount.has_named_source()) {
                *named.entry(&main.source).or_default() += 1;
            }
        }
        let is_unique = |mount: &Mount| mount.has_named_source() && named.get(&*mount.source) == Some(&1);
        order.iter().filter_map(|device| system(by_device.get(device)?, is_unique)).collect()
    }
}

/// The system at these mounts of one device.
fn system(mounts: &[&Mount], is_unique: impl Fn(&Mount) -> bool) -> Option<StorageSystem> {
    let main = mounts.first()?;
    let id = if is_unique(main) { main.source.clone() } else { [&main.kind, &b":"[..], &main.point].concat() };
    let is_memory = OF_MEMORY.contains(&&*main.kind);
    let is_local = OF_NODE.contains(&&*main.kind);
    let version = if main.kind.starts_with(b"nfs") { main.option(b"vers") } else { None };
    let is_read_only = mounts.iter().all(|mount| mount.is_read_only);
    Some(StorageSystem {
        paths: mounts.iter().map(|mount| Text::until_nul(&mount.point)).collect(),
        kind: Some(Text::until_nul(&main.kind)),
        version: version.map(Text::until_nul),
        device: Some(main.device),
        medium: is_memory.then_some(STORAGE_MEDIUM_RAM),
        accessibility: is_local.then_some(STORAGE_ACCESSIBILITY_NODE),
        access: Some(if is_read_only { STORAGE_ACCESS_RD } else { STORAGE_ACCESS_RDWR }),
        ..StorageSystem::new(Text::until_nul(&id))
    })
}

/// The ids of the mounts that a way from the root ends at; `None`: without a root in the table nothing is known to hide
/// them.
///
/// The children of each mount are sorted once, so long paths cost little.
fn shown(mounts: &[Mount]) -> Option<BTreeSet<u32>> {
    let ids: BTreeSet<u32> = mounts.iter().map(|mount| mount.id).collect();
    let is_top = |mount: &&Mount| mount.point == b"/" && (mount.parent == mount.id || !ids.contains(&mount.parent));
    let root = mounts.iter().find(is_top)?;
    let mut children: BTreeMap<u32, Vec<&Mount>> = BTreeMap::new();
    for mount in mounts.iter().filter(|mount| mount.id != mount.parent) {
        children.entry(mount.parent).or_default().push(mount);
    }
    let (mut shown, mut known, mut waiting) = (BTreeSet::new(), BTreeSet::new(), vec![root]);
    while let Some(mount) = waiting.pop() {
        // A table that is no tree may have circles.
        if !known.insert(mount.id) {
            continue;
        }
        let mut above = children.remove(&mount.id).unwrap_or_default();
        above.retain(|child| child.point == mount.point || is_within(&child.point, &mount.point));
        above.sort_by(|one, other| by_name(&one.point, &other.point));
        let mut open: Vec<&Mount> = Vec::new();
        for child in above {
            match open.last() {
                Some(earlier) if is_within(&child.point, &earlier.point) => {}
                Some(earlier) if child.point == earlier.point => {
                    open.pop();
                    open.push(child);
                }
                _ => open.push(child),
            }
        }
        if open.first().is_none_or(|first| first.point != mount.point) {
            shown.insert(mount.id);
        }
        waiting.extend(open);
    }
    Some(shown)
}

/// Whether a path is below a directory.
fn is_within(path: &[u8], directory: &[u8]) -> bool {
    let rest = path.strip_prefix(directory.strip_suffix(b"/").unwrap_or(directory));
    rest.is_some_and(|rest| rest.starts_with(b"/") && rest.len() > 1)
}

/// The order of paths in which everything below a directory comes directly after it.
fn by_name(one: &[u8], other: &[u8]) -> Ordering {
    let is_slash = |byte: &u8| *byte == b'/';
    one.split(is_slash).cmp(other.split(is_slash))
}

/// Whether a list has an option.
fn has_option(options: &[u8], name: &[u8]) -> bool {
    options.split(|byte| *byte == b',').any(|option| option == name)
}

/// A name without the kernel's escapes: a backslash and three octal digits stand for a byte.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, behind)) = rest.split_first() {
        let escaped = (*first == b'\\').then(|| behind.first_chunk().and_then(octal)).flatten();
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { behind.get(3..).unwrap_or_default() } else { behind };
    }
    bytes
}

fn octal(digits: &[u8; 3]) -> Option<u8> {
    let digit = |byte: u8| byte.checked_sub(b'0').filter(|digit| *digit < 8).map(u32::from);
    let [first, second, third] = digits.map(digit);
    u8::try_from(first? * 64 + second? * 8 + third?).ok()
}

fn text(word: &[u8]) -> Option<&str> {
    std::str::from_utf8(word).ok()
}
