//! Questions about files, beyond the standard: how long their retrieval takes, what programs need, and who may use
//! them.
//!
//! The caller answers for the rights: a question of another user than that of this process must not come here.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::IoSliceMut;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};
use rustix::fs::{Advice, fadvise, statfs};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use rustix::rand::{GetRandomFlags, getrandom};

use super::devices::float;
use super::elf::{Needs, open};
use super::provider::DeviceNumber;
use crate::types::codes::storage_access_type::{STORAGE_ACCESS_RD, STORAGE_ACCESS_RDWR, STORAGE_ACCESS_WR};
use crate::types::{DataArray, DataType, Info, Text, Value};

/// The seconds that the retrieval of the files takes (`double`).
pub(super) const RETRIEVAL: &str = "modex.storage.retrieval";
/// The state of each file: `hot` in the memory of this node, `cold` on its storage, or `warm` in between.
pub(super) const STATES: &str = "modex.storage.states";
/// The libraries that the programs need.
pub(super) const DEPENDENCIES: &str = "modex.storage.dependencies";
/// Whether a user and group may read or write all files (`pmix_storage_access_type_t`; 0: neither).
pub(super) const ACCESS: &str = "modex.storage.access";

/// Qualifier: a file, or an array of files. Their paths are absolute.
pub(super) const FILES: &str = "modex.storage.files";
/// Qualifier: bytes per second (`double`), in place of the known rate of the storage.
pub(super) const BANDWIDTH: &str = "modex.storage.bandwidth";
/// Qualifier: a node, or an array of nodes, to which the files go.
pub(super) const NODES: &str = "modex.storage.nodes";
/// Qualifier: bytes per second (`double`) from this node to another one.
pub(super) const NODE_BANDWIDTH: &str = "modex.storage.node_bandwidth";
/// Qualifiers: the user and the group (`uint32_t`).
pub(super) const USER: &str = "modex.storage.uid";
/// See [`USER`].
pub(super) const GROUP: &str = "modex.storage.gid";

/// The keys about files.
pub const FILE_KEYS: [&str; 4] = [RETRIEVAL, STATES, DEPENDENCIES, ACCESS];

/// All qualifiers.
pub(super) const QUALIFIERS: [&str; 6] = [FILES, BANDWIDTH, NODES, NODE_BANDWIDTH, USER, GROUP];

/// The most nodes of a question.
const NODES_MAX: usize = 65_536;

/// The most files of a question.
pub(super) const FILES_MAX: usize = 1024;

/// The most libraries of all programs of a question, counted for each program.
const LIBRARIES_MAX: usize = 16_384;

/// The most bytes of their names.
const LIBRARY_BYTES_MAX: usize = 4 << 20;

/// The most links of a path, as in the kernel.
const LINKS_MAX: usize = 40;

/// Kinds of file systems (`f_type` of `statfs`) whose modes this node's kernel checks: ext, xfs, btrfs, f2fs, tmpfs,
/// ramfs, overlay, squashfs, erofs and iso9660. A server elsewhere may decide in others.
const OF_MODES: [u64; 10] = [
    0xEF53,
    0x5846_5342,
    0x9123_683E,
    0xF2F5_2010,
    0x0102_1994,
    0x8584_58F6,
    0x794C_7630,
    0x7371_7368,
    0xE0F5_E1E2,
    0x9660,
];

/// Pages of a file that are looked at.
const PAGES_MAX: u64 = RANDOM_COUNT as u64;
const RANDOM_COUNT: usize = 64;

const PAGE_BYTES: u64 = 4096;

/// The answer to a question about files on this node; `None`: unknown, or the question is wrong. `rate` is that of a
/// device.
pub(super) fn fact(
    key: &str,
    qualifiers: &[Info],
    own_node: &str,
    rate: impl Fn(DeviceNumber) -> Option<f64>,
) -> Option<Value> {
    let files = files_of(qualifiers)?;
    match key {
        RETRIEVAL => {
            // A wrong rate is no answer, also for files that are in memory.
            let given = rate_in(qualifiers, BANDWIDTH).ok()?;
            let between_nodes = rate_in(qualifiers, NODE_BANDWIDTH).ok()?;
            let retrieval = Retrieval::of(&files, |device| given.or_else(|| rate(device)))?;
            let Some(nodes) = find(qualifiers, NODES) else { return Some(Value::Double(retrieval.seconds)) };
            let times = nodes_of(nodes)?.into_iter().map(|node| match node == own_node {
                true => Some(retrieval.seconds),
                false => Some(retrieval.seconds_to_other_node(between_nodes?)),
            });
            let elements = times.map(|seconds| seconds.map(Value::Double)).collect::<Option<_>>()?;
            Some(Value::DataArray(Box::new(DataArray { element_type: DataType::Double, elements })))
        }
        STATES => {
            let names = files.iter().map(|file| Some(Residence::of(file)?.name().into()));
            Some(array(names.collect::<Option<_>>()?))
        }
        DEPENDENCIES => dependencies(&files).map(|paths| array(paths.into_iter().map(Value::String).collect())),
        ACCESS => {
            let number = |key| u32::try_from(find(qualifiers, key)?.as_u64()?).ok();
            let user = (number(USER)?, number(GROUP)?);
            let bits = files.iter().map(|file| access(file, user));
            bits.reduce(|all, one| Some(all? & one?))?.map(Value::StorageAccessType)
        }
        _ => None,
    }
}

fn files_of(qualifiers: &[Info]) -> Option<Vec<PathBuf>> {
    paths_of(find(qualifiers, FILES)?)
}

/// A value that is no rate.
struct NoRate;

/// The rate under a key, in bytes per second.
fn rate_in(qualifiers: &[Info], key: &str) -> Result<Option<f64>, NoRate> {
    match find(qualifiers, key) {
        None => Ok(None),
        Some(Value::Double(bytes)) if *bytes > 0.0 && bytes.is_finite() => Ok(Some(*bytes)),
        Some(_) => Err(NoRate),
    }
}

/// The name of a node, or an array of names.
fn nodes_of(value: &Value) -> Option<Vec<&str>> {
    match value {
        Value::DataArray(array) if array.elements.len() <= NODES_MAX => {
            array.elements.iter().map(Value::as_str).collect()
        }
        one => Some(vec![one.as_str()?]),
    }
}

/// An absolute path, or an array of them.
pub(super) fn paths_of(value: &Value) -> Option<Vec<PathBuf>> {
    match value {
        Value::DataArray(array) if (1..=FILES_MAX).contains(&array.elements.len()) => {
            array.elements.iter().map(path_of).collect()
        }
        one => Some(vec![path_of(one)?]),
    }
}

/// An absolute path.
pub(super) fn path_of(value: &Value) -> Option<PathBuf> {
    match value {
        Value::String(text) => {
            Some(PathBuf::from(OsStr::from_bytes(text.as_bytes()))).filter(|path| path.is_absolute())
        }
        _ => None,
    }
}

fn find<'i>(infos: &'i [Info], key: &str) -> Option<&'i Value> {
    infos.iter().find(|info| info.key.as_str() == key).map(|info| &info.value)
}

pub(super) fn array(elements: Vec<Value>) -> Value {
    Value::DataArray(Box::new(DataArray { element_type: DataType::String, elements }))
}

/// The part of a file in memory.
struct Residence {
    size_bytes: u64,
    device: DeviceNumber,
    /// Of the pages that were looked at.
    hot: u64,
    pages: u64,
}

impl Residence {
    /// Reads a byte of some pages without a wait for the storage: the kernel refuses that for a page that is not in
    /// memory. A mapping of the file would show more. But a file that is shortened meanwhile would end this process.
    /// The kernel reads the refused pages, without those beside them. Each look is at random pages.
    fn of(path: &Path) -> Option<Self> {
        let file = open(path)?;
        let found = file.metadata().ok()?;
        let (size_bytes, number) = (found.size(), found.dev());
        let device = (nix::sys::stat::major(number), nix::sys::stat::minor(number));
        let device = (u32::try_from(device.0).ok()?, u32::try_from(device.1).ok()?);
        let all = size_bytes.div_ceil(PAGE_BYTES);
        let pages = all.min(PAGES_MAX);
        fadvise(&file, 0, None, Advice::Random).ok()?;
        let mut bits = [[0; 8]; RANDOM_COUNT];
        getrandom(bits.as_flattened_mut(), GetRandomFlags::empty()).ok()?;
        let mut hot = 0;
        for (number, bits) in (0..pages).zip(bits) {
            let mut byte = [0];
            let at = place_of(number, pages, u64::from_le_bytes(bits), all).checked_mul(PAGE_BYTES)?;
            match preadv2(&file, &mut [IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT) {
                Ok(_) => hot += 1,
                Err(Errno::AGAIN) => {}
                // The file system does not tell.
                Err(_) => return None,
            }
        }
        Some(Self { size_bytes, device, hot, pages })
    }

    const fn name(&self) -> &'static str {
        match self.hot {
            hot if hot == self.pages => "hot",
            0 => "cold",
            _ => "warm",
        }
    }

    fn cold_bytes(&self) -> f64 {
        if self.pages == 0 { 0.0 } else { float(self.size_bytes) * float(self.pages - self.hot) / float(self.pages) }
    }
}

/// The page of a file that is looked at with a number: a random one of its part. The parts are `pages` equal ones.
fn place_of(number: u64, pages: u64, random: u64, all: u64) -> u64 {
    let start = |number: u64| u128::from(all) * u128::from(number) / u128::from(pages.max(1));
    let (first, next) = (start(number), start(number + 1));
    u64::try_from(first + u128::from(random) % (next - first).max(1)).unwrap_or(u64::MAX)
}

/// The way of files into the memory of this node.
#[derive(Default)]
struct Retrieval {
    /// For the parts that are not in memory, one file after the other.
    seconds: f64,
    /// All bytes of the files.
    size_bytes: f64,
}

impl Retrieval {
    fn of(files: &[PathBuf], rate: impl Fn(DeviceNumber) -> Option<f64>) -> Option<Self> {
        let mut rates = BTreeMap::new();
        files.iter().try_fold(Self::default(), |sum, file| {
            let residence = Residence::of(file)?;
            let (size_bytes, cold) = (sum.size_bytes + float(residence.size_bytes), residence.cold_bytes());
            if cold <= 0.0 {
                return Some(Self { size_bytes, ..sum });
            }
            let rate = *rates.entry(residence.device).or_insert_with(|| rate(residence.device));
            Some(Self { seconds: sum.seconds + cold / rate?, size_bytes })
        })
    }

    /// The time to another node alone. This node reads and sends at the same time, so the longer one counts.
    fn seconds_to_other_node(&self, bytes_per_second: f64) -> f64 {
        self.seconds.max(self.size_bytes / bytes_per_second)
    }
}

/// The libraries of programs, and those that these need. One that is not found is a name without a directory.
fn dependencies(programs: &[PathBuf]) -> Option<Vec<Text>> {
    let mut found = BTreeSet::new();
    let (mut count, mut bytes) = (0, 0_usize);
    for program in programs.iter().collect::<BTreeSet<_>>() {
        Needs::of(program)?;
        // The linker takes a library once for each program.
        let (mut known, mut waiting) = (BTreeSet::new(), vec![program.clone()]);
        while let Some(file) = waiting.pop() {
            let needs = Needs::of(&file).unwrap_or_default();
            for library in &needs.libraries {
                if !known.insert(library.clone()) {
                    continue;
                }
                let path = needs.find(library, OsStr::new(""));
                let name = Text::new(path.as_ref().map_or(&**library, |path| path.as_os_str()).as_bytes()).ok()?;
                bytes = bytes.checked_add(library.len())?.checked_add(name.as_bytes().len())?;
                count += 1;
                if count > LIBRARIES_MAX || bytes > LIBRARY_BYTES_MAX {
                    return None;
                }
                found.insert(name);
                waiting.extend(path);
            }
        }
    }
    Some(found.into_iter().collect())
}

/// The bits of a user and group for a file, from the modes of the file and of all directories on the way, and from its
/// mount. With access lists, or on a file system of a network, it is unknown.
fn access(file: &Path, user: (u32, u32)) -> Option<u16> {
    let (directories, file) = way_to(file)?;
    let of_file = fs::metadata(&file).ok()?;
    let has_list = |path: &Path| {
        let mut list = [0_u8; 0];
        !matches!(rustix::fs::getxattr(path, "system.posix_acl_access", &mut list), Err(Errno::NODATA | Errno::NOTSUP))
    };
    let has_modes = |path: &Path| {
        statfs(path).is_ok_and(|found| u64::try_from(found.f_type).is_ok_and(|kind| OF_MODES.contains(&kind)))
    };
    if directories.iter().chain([&file]).any(|path| has_list(path) || !has_modes(path)) {
        return None;
    }
    let modes = directories.iter().map(|path| fs::metadata(path).ok()).collect::<Option<Vec<_>>>()?;
    let is_reached = modes.iter().all(|mode| bits(mode, user) & 1 != 0);
    let is_read_only = statvfs(&file).ok()?.flags().contains(FsFlags::ST_RDONLY);
    let read = if bits(&of_file, user) & 4 == 0 { 0 } else { STORAGE_ACCESS_RD };
    let write = if is_read_only || bits(&of_file, user) & 2 == 0 { 0 } else { STORAGE_ACCESS_WR };
    Some(if is_reached { (read | write) & STORAGE_ACCESS_RDWR } else { 0 })
}

/// The directories that the kernel searches on the way to a file, also for links, and the file itself.
fn way_to(path: &Path) -> Option<(BTreeSet<PathBuf>, PathBuf)> {
    let mut waiting: Vec<PathBuf> = Vec::new();
    let parts =
        |path: &Path| -> Vec<PathBuf> { path.components().rev().map(|part| PathBuf::from(part.as_os_str())).collect() };
    waiting.extend(parts(path));
    let (mut directories, mut place, mut links) = (BTreeSet::new(), PathBuf::from("/"), 0);
    while let Some(part) = waiting.pop() {
        match part.components().next()? {
            Component::RootDir => {
                place = PathBuf::from("/");
                continue;
            }
            Component::ParentDir => {
                directories.insert(place.clone());
                place.pop();
                continue;
            }
            Component::CurDir | Component::Prefix(_) => continue,
            Component::Normal(_) => {}
        }
        directories.insert(place.clone());
        let next = place.join(&part);
        if fs::symlink_metadata(&next).ok()?.is_symlink() {
            links += 1;
            waiting.extend(parts(&fs::read_link(&next).ok().filter(|_| links <= LINKS_MAX)?));
        } else {
            place = next;
        }
    }
    Some((directories, place))
}

/// The three bits of a mode that count for a user and group.
fn bits(found: &Metadata, (uid, gid): (u32, u32)) -> u32 {
    match found.mode() {
        _ if uid == 0 => 7,
        mode if found.uid() == uid => mode >> 6 & 7,
        mode if found.gid() == gid => mode >> 3 & 7,
        mode => mode & 7,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::types::Key;

    fn info(key: &'static str, value: impl Into<Value>) -> Info {
        Info::new(Key::from_static(key), value)
    }

    fn ask(key: &str, files: &[&Path], more: Vec<Info>) -> Option<Value> {
        let names = files.iter().map(|path| path.to_str().unwrap().into()).collect();
        fact(key, &[vec![info(FILES, array(names))], more].concat(), "here", |_| None)
    }

    #[test]
    fn a_retrieval_takes_the_time_of_the_bytes_that_are_not_in_memory() {
        let residence = |hot, pages| Residence { size_bytes: 1000, device: (8, 1), hot, pages };
        assert_eq!(
            [(4, 4), (1, 4), (0, 4), (0, 0)].map(|(hot, pages)| residence(hot, pages).name()),
            ["hot", "warm", "cold", "hot"]
        );
        assert_eq!(
            [(4, 4), (1, 4), (0, 4), (0, 0)].map(|(hot, pages)| residence(hot, pages).cold_bytes()),
            [0.0, 750.0, 1000.0, 0.0]
        );
        let directory = tempfile::tempdir().unwrap();
        let [empty, large, missing] = ["empty", "large", "missing"].map(|name| directory.path().join(name));
        fs::write(&empty, "").unwrap();
        fs::write(&large, vec![1; 1 << 20]).unwrap();
        assert_eq!(ask(RETRIEVAL, &[&empty], Vec::new()), Some(Value::Double(0.0)));
        assert_eq!(ask(STATES, &[&empty], Vec::new()), Some(array(vec!["hot".into()])));
        assert_eq!(ask(RETRIEVAL, &[&empty, &missing], Vec::new()), None);
        assert_eq!(ask(STATES, &[directory.path()], Vec::new()), None, "a directory");
        // Some file systems do not tell. Pages may leave the memory at any time.
        if let Some(residence) = Residence::of(&large) {
            assert_eq!((residence.size_bytes, residence.pages), (1 << 20, PAGES_MAX));
            let seconds = ask(RETRIEVAL, &[&large], vec![info(BANDWIDTH, 1_048_576.0)]);
            let Some(Value::Double(seconds)) = seconds else { panic!("{seconds:?}") };
            assert!((0.0..=1.0).contains(&seconds));
        }
    }

    /// The files go through this node.
    #[test]
    fn a_retrieval_to_other_nodes_takes_the_longer_of_reading_and_sending() {
        let retrieval = Retrieval { seconds: 2.0, size_bytes: 1000.0 };
        assert_eq!([100.0, 1000.0].map(|rate| retrieval.seconds_to_other_node(rate)), [10.0, 2.0]);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        let nodes = |names: &[&str]| info(NODES, array(names.iter().map(|name| (*name).into()).collect()));
        let seconds = |count| {
            let elements = vec![Value::Double(0.0); count];
            Some(Value::DataArray(Box::new(DataArray { element_type: DataType::Double, elements })))
        };
        let bandwidth = || info(NODE_BANDWIDTH, 1e9);
        assert_eq!(ask(RETRIEVAL, &[&file], vec![nodes(&["here"])]), seconds(1));
        assert_eq!(ask(RETRIEVAL, &[&file], vec![info(NODES, "here")]), seconds(1));
        assert_eq!(ask(RETRIEVAL, &[&file], vec![nodes(&["n0", "here", "n1"]), bandwidth()]), seconds(3));
        // Each time has the place of its node.
        fs::write(&file, vec![1; 1 << 20]).unwrap();
        if Residence::of(&file).is_some() {
            let rates = || vec![info(NODE_BANDWIDTH, 1_048_576.0), info(BANDWIDTH, 1e12)];
            let times = ask(RETRIEVAL, &[&file, &file], [vec![nodes(&["n0", "here"])], rates()].concat());
            let Some(Value::DataArray(times)) = times else { panic!("{times:?}") };
            let [Value::Double(other), Value::Double(own)] = times.elements[..] else { panic!("{times:?}") };
            assert_eq!(other, 2.0);
            assert!(own < 0.001, "{own}");
        }
        fs::write(&file, "").unwrap();
        // Nobody knows the rate of the network, and no other value is a rate or a node.
        for wrong in [
            vec![nodes(&["n0", "here"])],
            vec![nodes(&["n0"]), info(NODE_BANDWIDTH, 0.0)],
            vec![nodes(&["n0"]), info(NODE_BANDWIDTH, 1_u32)],
            vec![info(NODES, 1_u32), bandwidth()],
            // The file is empty, so no rate is needed.
            vec![info(BANDWIDTH, -1.0)],
            vec![info(BANDWIDTH, "1e9")],
        ] {
            assert_eq!(ask(RETRIEVAL, &[&file], wrong.clone()), None, "{wrong:?}");
        }
    }

    /// Regression: the second look was at the pages that the first had brought into memory.
    #[test]
    fn a_look_at_a_cold_file_does_not_make_it_hot_for_the_next_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cold");
        fs::write(&path, vec![1; 16 << 20]).unwrap();
        let file = fs::File::open(&path).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let looks: Vec<Residence> = (0..3).filter_map(|_| Residence::of(&path)).collect();
        // Some file systems do not tell, and others keep all in memory.
        if let Some(first) = looks.first().filter(|first| first.hot == 0) {
            assert_eq!(first.name(), "cold");
            assert!(
                looks.iter().all(|look| look.hot < look.pages / 2),
                "{:?}",
                looks.iter().map(|look| look.hot).collect::<Vec<_>>()
            );
        }
    }

    /// Only the first 64 of 127 pages were looked at.
    #[test]
    fn the_pages_that_are_looked_at_are_spread_over_the_file() {
        let places_at = |all, random| -> Vec<u64> { (0..64).map(|number| place_of(number, 64, random, all)).collect() };
        let places = |all| places_at(all, 0);
        assert_eq!(places(64), (0..64).collect::<Vec<_>>());
        assert_eq!(places(127)[62..], [123, 125]);
        assert_eq!(places(u64::MAX)[63], u64::MAX / 64 * 63 + 62);
        // Each part has four pages.
        let of_random = |random| places_at(256, random)[..2].to_vec();
        assert_eq!([0, 3, 4, u64::MAX].map(of_random), [[0, 4], [3, 7], [0, 4], [3, 7]]);
    }

    #[test]
    fn a_fifo_and_a_relative_path_have_no_state() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(ask(STATES, &[&fifo], Vec::new()), None);
        assert_eq!(ask(STATES, &[Path::new("Cargo.toml")], Vec::new()), None);
        let many = [Path::new("/"); FILES_MAX + 1];
        assert_eq!((ask(ACCESS, &many, Vec::new()), ask(ACCESS, &[], Vec::new())), (None, None));
    }

    #[test]
    fn this_program_depends_on_a_libc() {
        let own = fs::canonicalize("/proc/self/exe").unwrap();
        let Some(Value::DataArray(found)) = ask(DEPENDENCIES, &[&own], Vec::new()) else { panic!("none") };
        let is_libc =
            |value: &Value| value.as_str().is_some_and(|path| path.starts_with('/') && path.contains("/libc.so"));
        assert_eq!(found.elements.iter().filter(|value| is_libc(value)).count(), 1, "{found:?}");
        let twice = ask(DEPENDENCIES, &[&own, &own], Vec::new());
        assert_eq!(twice, Some(Value::DataArray(found)), "a repeated program");
        assert_eq!(ask(DEPENDENCIES, &[Path::new("/etc/passwd")], Vec::new()), None, "no program");
    }

    #[test]
    fn modes_decide_who_may_use_a_file() {
        let directory = tempfile::tempdir_in("/tmp").unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "x").unwrap();
        let (uid, gid) = {
            let found = fs::metadata(&file).unwrap();
            (found.uid(), found.gid())
        };
        let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let of = |uid: u32, gid: u32| ask(ACCESS, &[&file], vec![info(USER, uid), info(GROUP, gid)]);
        let bits = |bits| Some(Value::StorageAccessType(bits));
        mode(directory.path(), 0o755);
        mode(&file, 0o640);
        assert_eq!(of(uid, gid), bits(STORAGE_ACCESS_RDWR));
        assert_eq!([of(uid + 1, gid), of(uid + 1, gid + 1)], [bits(STORAGE_ACCESS_RD), bits(0)]);
        mode(&file, 0o606);
        assert_eq!([of(uid + 1, gid), of(uid + 1, gid + 1)], [bits(0), bits(STORAGE_ACCESS_RDWR)]);
        mode(directory.path(), 0o750);
        assert_eq!(of(uid + 1, gid + 1), bits(0), "the directory is closed");
        assert_eq!(of(0, 0), bits(STORAGE_ACCESS_RDWR));
        assert_eq!(ask(ACCESS, &[&file], vec![info(USER, uid)]), None, "no group");
        assert_eq!(access(Path::new("/proc/self/status"), (uid, gid)), None, "modes of such files do not decide");
        // The directory of a link counts as well as that of the file.
        mode(directory.path(), 0o755);
        let closed = directory.path().join("closed");
        fs::create_dir(&closed).unwrap();
        std::os::unix::fs::symlink("../file", closed.join("link")).unwrap();
        let by_link = |place: &str| access(&directory.path().join(place), (uid + 1, gid + 1));
        mode(&closed, 0o700);
        let all = Some(STORAGE_ACCESS_RDWR);
        assert_eq!([by_link("closed/link"), by_link("closed/../file"), by_link("file")], [Some(0), Some(0), all]);
        mode(&closed, 0o711);
        assert_eq!([by_link("closed/link"), by_link("closed/../file")], [all, all]);
        std::os::unix::fs::symlink("circle", directory.path().join("circle")).unwrap();
        assert_eq!(by_link("circle"), None);
    }
}
