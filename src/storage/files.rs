//! Questions about files, beyond the standard: how long their retrieval takes, what programs need, and who may use them.
//!
//! The caller answers for the rights: a question of another user than that of this process must not come here.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::IoSliceMut;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::io::{Errno, ReadWriteFlags, preadv2};

use super::devices::float;
use super::elf::Needs;
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
/// Qualifiers: the user and the group (`uint32_t`).
pub(super) const USER: &str = "modex.storage.uid";
/// See [`USER`].
pub(super) const GROUP: &str = "modex.storage.gid";

/// The keys about files.
pub const FILE_KEYS: [&str; 4] = [RETRIEVAL, STATES, DEPENDENCIES, ACCESS];

/// The most files of a question.
pub(super) const FILES_MAX: usize = 1024;

/// The most libraries of an answer.
const LIBRARIES_MAX: usize = 4096;

/// Pages of a file that are looked at.
const PAGES_MAX: u64 = 64;

const PAGE_BYTES: u64 = 4096;

/// The answer to a question about files; `None`: unknown, or the question is wrong. `rate` is that of a device.
pub(super) fn fact(key: &str, qualifiers: &[Info], rate: impl Fn(DeviceNumber) -> Option<f64>) -> Option<Value> {
    let files = files_of(qualifiers)?;
    match key {
        RETRIEVAL => {
            let given = find(qualifiers, BANDWIDTH).map(|value| match value {
                Value::Double(bytes) if *bytes > 0.0 && bytes.is_finite() => Some(*bytes),
                _ => None,
            });
            let rate = |device| given.unwrap_or_else(|| rate(device));
            retrieval(&files, rate).map(Value::Double)
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
    let path = |value: &Value| match value {
        Value::String(text) => {
            Some(PathBuf::from(OsStr::from_bytes(text.as_bytes()))).filter(|path| path.is_absolute())
        }
        _ => None,
    };
    match find(qualifiers, FILES)? {
        Value::DataArray(array) if (1..=FILES_MAX).contains(&array.elements.len()) => {
            array.elements.iter().map(path).collect()
        }
        one => Some(vec![path(one)?]),
    }
}

fn find<'i>(infos: &'i [Info], key: &str) -> Option<&'i Value> {
    infos.iter().find(|info| info.key.as_str() == key).map(|info| &info.value)
}

fn array(elements: Vec<Value>) -> Value {
    Value::DataArray(Box::new(DataArray { element_type: DataType::String, elements }))
}

/// How much of a file is in memory.
struct Residence {
    size_bytes: u64,
    device: DeviceNumber,
    /// Of the pages that were looked at.
    hot: u64,
    pages: u64,
}

impl Residence {
    /// Reads a byte of some pages without a wait for the storage: the kernel refuses that for a page that is not in memory. A mapping
    /// of the file would show more. But it would end this process if somebody shortens the file.
    fn of(path: &Path) -> Option<Self> {
        // A FIFO or a device may block, or act.
        let flags = nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY;
        let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
        let found = file.metadata().ok().filter(Metadata::is_file)?;
        let (size_bytes, number) = (found.size(), found.dev());
        let device = (nix::sys::stat::major(number), nix::sys::stat::minor(number));
        let device = (u32::try_from(device.0).ok()?, u32::try_from(device.1).ok()?);
        let all = size_bytes.div_ceil(PAGE_BYTES);
        let pages = all.min(PAGES_MAX);
        let mut hot = 0;
        for number in 0..pages {
            let mut byte = [0];
            // Spread evenly, also over a large file.
            let at = (all / pages).checked_mul(number)?.checked_mul(PAGE_BYTES)?;
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

/// Seconds for the parts that are not in memory, one file after the other.
fn retrieval(files: &[PathBuf], rate: impl Fn(DeviceNumber) -> Option<f64>) -> Option<f64> {
    let mut rates = BTreeMap::new();
    files.iter().try_fold(0.0, |seconds, file| {
        let residence = Residence::of(file)?;
        let cold = residence.cold_bytes();
        if cold <= 0.0 {
            return Some(seconds);
        }
        let rate = *rates.entry(residence.device).or_insert_with(|| rate(residence.device));
        Some(seconds + cold / rate?)
    })
}

/// The libraries of programs, and those that these need. One that is not found is a name without a directory.
fn dependencies(programs: &[PathBuf]) -> Option<Vec<Text>> {
    let mut found = Vec::new();
    let mut known = BTreeSet::new();
    let mut waiting: Vec<Needs> = programs.iter().map(|program| Needs::of(program)).collect::<Option<_>>()?;
    while let Some(needs) = waiting.pop() {
        for library in &needs.libraries {
            if !known.insert(library.clone()) {
                continue;
            }
            if found.len() == LIBRARIES_MAX {
                return None;
            }
            let path = needs.find(library, OsStr::new(""));
            waiting.extend(path.as_deref().and_then(Needs::of));
            let name = path.as_ref().map_or(&**library, |path| path.as_os_str());
            found.push(Text::new(name.as_bytes()).ok()?);
        }
    }
    found.sort();
    Some(found)
}

/// The bits of a user and group for a file, from the modes of the file and its directories. With access lists it is unknown.
fn access(file: &Path, user: (u32, u32)) -> Option<u16> {
    let file = fs::canonicalize(file).ok()?;
    let modes = file.ancestors().map(|path| Some((path, fs::metadata(path).ok()?))).collect::<Option<Vec<_>>>()?;
    let has_list = |path: &Path| {
        let mut list = [0_u8; 0];
        !matches!(rustix::fs::getxattr(path, "system.posix_acl_access", &mut list), Err(Errno::NODATA | Errno::NOTSUP))
    };
    if modes.iter().any(|(path, _)| has_list(path)) {
        return None;
    }
    let (_, of_file) = modes.first()?;
    let is_reached = modes.iter().skip(1).all(|(_, mode)| bits(mode, user) & 1 != 0);
    let read = if bits(of_file, user) & 4 == 0 { 0 } else { STORAGE_ACCESS_RD };
    let write = if bits(of_file, user) & 2 == 0 { 0 } else { STORAGE_ACCESS_WR };
    Some(if is_reached { (read | write) & STORAGE_ACCESS_RDWR } else { 0 })
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
        fact(key, &[vec![info(FILES, array(names))], more].concat(), |_| None)
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
        // Some file systems do not tell.
        if let Some(state) = ask(STATES, &[&large], Vec::new()) {
            let seconds = ask(RETRIEVAL, &[&large], vec![info(BANDWIDTH, 1_048_576.0)]);
            let Some(Value::Double(seconds)) = seconds else { panic!("{seconds:?}") };
            assert!((0.0..=1.0).contains(&seconds));
            assert_eq!(seconds == 0.0, state == array(vec!["hot".into()]), "{seconds} {state:?}");
        }
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
    }
}
