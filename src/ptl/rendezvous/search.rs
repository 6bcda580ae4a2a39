use std::collections::VecDeque;
use std::fs::{self, DirEntry, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::signal::kill;
use nix::unistd::{Pid, geteuid};

use super::{Contents, RendezvousError};

/// A server that can be connected to, according to its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Path of the file.
    pub path: PathBuf,
    /// Its contents.
    pub contents: Contents,
    /// Its owner.
    pub owner: u32,
    /// The file holds no lock and names a process that is not visible here. It has ended or lives in another pid
    /// namespace; only a connection shows which.
    pub is_doubtful: bool,
}

/// File owners that are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belief {
    /// This user and root: any user may leave files in the searched directories.
    OwnAndRoot,
    /// Any user: the file, or its server, was named.
    Everybody,
}

/// Reads one file and checks that its server lives.
///
/// # Errors
/// [`RendezvousError`].
pub fn read(path: &Path, belief: Belief) -> Result<Found, RendezvousError> {
    read_open(path, &open(path)?, belief)
}

fn read_open(path: &Path, file: &File, belief: Belief) -> Result<Found, RendezvousError> {
    let (contents, owner) = examine(path, file, belief)?;
    let is_abandoned = is_abandoned(file, &contents);
    if is_abandoned && contents.is_locked {
        return Err(RendezvousError::Abandoned { path: path.to_owned() });
    }
    Ok(Found { path: path.to_owned(), contents, owner, is_doubtful: is_abandoned })
}

/// Reads a named file of any owner. A copy of a server's file, perhaps from another node, is as good: only a connection
/// shows whether its server lives.
///
/// # Errors
/// [`RendezvousError`].
pub fn read_named(path: &Path) -> Result<Found, RendezvousError> {
    let file = open(path)?;
    let (contents, owner) = examine(path, &file, Belief::Everybody)?;
    let is_doubtful = is_abandoned(&file, &contents);
    Ok(Found { path: path.to_owned(), contents, owner, is_doubtful })
}

/// All wanted files of living servers in a directory tree, each server once, shorter paths first. Doubtful files come
/// last. Unreadable files are skipped: they are not meant for this process.
///
/// Directories of this user and of root are searched first, upper levels before lower ones. Those of other users
/// follow. Each of the two has a bound on its entries.
#[must_use]
pub fn search(directory: &Path, belief: Belief, is_wanted: impl Fn(&str) -> bool) -> Vec<Found> {
    search_within(directory, belief, is_wanted, [ENTRIES_MAX, FOREIGN_ENTRIES_MAX])
}

pub(super) fn search_within(
    directory: &Path,
    belief: Belief,
    is_wanted: impl Fn(&str) -> bool,
    entries_max: [usize; 2],
) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    let [mut own, mut foreign] = entries_max.map(|entries_left| Directories { waiting: VecDeque::new(), entries_left });
    own.waiting.push_back((directory.to_owned(), 0));
    loop {
        let is_own = !own.waiting.is_empty();
        let searched = if is_own { &mut own } else { &mut foreign };
        let Some((directory, depth)) = searched.waiting.pop_front() else { return tidy(found) };
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            let searched = if is_own { &mut own } else { &mut foreign };
            if searched.entries_left == 0 {
                tracing::warn!(?directory, "too many entries; the search for servers leaves some out");
                searched.waiting.clear();
                break;
            }
            // Links are not followed: trees stay trees, and no device is opened.
            let Ok(kind) = entry.file_type() else { continue };
            let is_meant = kind.is_file() && entry.file_name().to_str().is_some_and(&is_wanted);
            // Other files in the upper directory cost no more than a look at their names.
            if depth > 0 || kind.is_dir() || is_meant {
                searched.entries_left -= 1;
            }
            if kind.is_dir() && depth < DEPTH_MAX {
                let is_own = belief == Belief::Everybody || is_of_own_or_root(&entry);
                let below = if is_own { &mut own } else { &mut foreign };
                below.waiting.push_back((entry.path(), depth + 1));
            }
            if !is_meant {
                continue;
            }
            let path = entry.path();
            match open_with(&path, OFlag::O_NOFOLLOW).and_then(|file| read_open(&path, &file, belief)) {
                Ok(file) => found.push(file),
                Err(error) => tracing::debug!(%error, "the search skips a rendezvous file"),
            }
        }
    }
}

/// Directories to search.
struct Directories {
    /// Each with its depth.
    waiting: VecDeque<(PathBuf, u32)>,
    entries_left: usize,
}

fn is_of_own_or_root(entry: &DirEntry) -> bool {
    entry.metadata().is_ok_and(|metadata| is_own_or_roots(metadata.uid()))
}

fn is_own_or_roots(owner: u32) -> bool {
    owner == 0 || owner == geteuid().as_raw()
}

/// Shortest paths first, so that the outcome does not depend on the order of directories.
fn tidy(mut found: Vec<Found>) -> Vec<Found> {
    let key = |file: &Found| (file.is_doubtful, file.path.as_os_str().len());
    found.sort_by(|a, b| (key(a), &a.path).cmp(&(key(b), &b.path)));
    let mut servers: Vec<Found> = Vec::new();
    for file in found {
        if !servers.iter().any(|server| server.contents.address == file.contents.address) {
            servers.push(file);
        }
    }
    servers
}

/// Opens a file for reading. A pipe does not block.
pub(super) fn open(path: &Path) -> Result<File, RendezvousError> {
    open_with(path, OFlag::empty())
}

fn open_with(path: &Path, flags: OFlag) -> Result<File, RendezvousError> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY | flags).bits());
    options.open(path).map_err(|source| failed("open", path, source))
}

/// Contents and owner of an open file, if it can be believed.
pub(super) fn examine(path: &Path, file: &File, belief: Belief) -> Result<(Contents, u32), RendezvousError> {
    let metadata = file.metadata().map_err(|source| failed("examine", path, source))?;
    if !metadata.is_file() {
        return Err(RendezvousError::NotAFile { path: path.to_owned() });
    }
    let owner = metadata.uid();
    if belief == Belief::OwnAndRoot && !is_own_or_roots(owner) {
        return Err(RendezvousError::ForeignOwner { path: path.to_owned(), owner, ours: geteuid().as_raw() });
    }
    if metadata.mode() & OTHERS_WRITE != 0 {
        return Err(RendezvousError::Writable { path: path.to_owned() });
    }
    let size_bytes_max = Contents::SIZE_BYTES_MAX as u64;
    let mut bytes = Vec::new();
    let mut bounded = file.take(size_bytes_max + 1);
    bounded.read_to_end(&mut bytes).map_err(|source| failed("read", path, source))?;
    if bytes.len() > Contents::SIZE_BYTES_MAX {
        return Err(RendezvousError::TooLarge { path: path.to_owned(), size_bytes_max });
    }
    let contents = Contents::parse(&bytes);
    let contents = contents.map_err(|problem| RendezvousError::Contents { path: path.to_owned(), problem })?;
    Ok((contents, owner))
}

/// Whether the server that wrote the file has ended. Without an answer from the kernel, it counts as alive.
pub(super) fn is_abandoned(file: &File, contents: &Contents) -> bool {
    if contents.is_locked {
        // Shared: two readers at the same time do not take each other for the server.
        return match file.try_lock_shared() {
            Ok(()) => {
                let _ = file.unlock();
                true
            }
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
        };
    }
    is_gone(contents.pid)
}

/// Whether no such process exists here; a missing or invalid pid is no proof.
pub(super) fn is_gone(pid: Option<u32>) -> bool {
    let pid = pid.and_then(|pid| i32::try_from(pid).ok());
    pid.is_some_and(|pid| kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH))
}

pub(super) fn failed(step: &'static str, path: &Path, source: io::Error) -> RendezvousError {
    RendezvousError::Io { step, path: path.to_owned(), source }
}

/// Permissions of group and others to write.
const OTHERS_WRITE: u32 = 0o022;
/// Bound on the entries of a tree: a temporary directory without cleanup must not hold up a tool.
pub(super) const ENTRIES_MAX: usize = 1 << 16;
/// The same for directories of other users.
const FOREIGN_ENTRIES_MAX: usize = 1 << 12;
/// Sessions keep their files a few levels below the temporary directory.
const DEPTH_MAX: u32 = 8;
