//! A server's directory: its creation, and its removal.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process;

use nix::sys::stat::{FchmodatFlags, Mode, fchmodat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use super::ServerAddress;
use super::abandoned::{ATTEMPTS, is_still_at, open, sweep};
use crate::os_error_hint::explain;

/// A directory made for one socket, and the guard that removes both.
#[derive(Debug)]
pub(super) struct SocketDirectory {
    directory_path: PathBuf,
    socket_path: PathBuf,
    /// The parent, if it was missing and made for this directory.
    made_parent: Option<PathBuf>,
    /// A forked copy of the guard must not remove anything its parent still uses.
    creator_pid: u32,
    /// The directory, locked until the last copy of this descriptor is closed.
    lock: File,
}

/// Reason why no socket could be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The resulting path would not fit a socket address.
    #[error(
        "socket path {path} has {} bytes, more than the {} the kernel takes; choose a shorter temporary directory",
        path.as_os_str().len(), ServerAddress::PATH_SIZE_BYTES_MAX
    )]
    PathTooLong {
        /// The path.
        path: PathBuf,
    },
    /// Another user owns the directory we made: an attack.
    #[error("directory {path} belongs to user {found} although user {ours} made it; check {path} and its parents")]
    ForeignDirectory {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        found: u32,
        /// Our effective user id.
        ours: u32,
    },
    /// There is no TCP socket as the options want it.
    #[error("can't listen on TCP as the options say: {}", explain(.0))]
    Tcp(#[source] io::Error),
    /// The operating system refused a step.
    #[error("cannot {step} {path}: {}", explain(.source))]
    Io {
        /// The step.
        step: &'static str,
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

impl SocketDirectory {
    /// Makes a directory below `parent`, and removes the leftovers of this user's killed servers. Launchers name a
    /// parent that they have not made: it is made, too.
    pub(super) fn create(parent: &Path) -> Result<Self, ListenError> {
        let (parent, is_new) = match parent.canonicalize() {
            Ok(parent) => (parent, false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => made(parent)?,
            Err(error) => return Err(failed("find the temporary directory", parent, error)),
        };
        sweep(&parent, is_server_name, remove);
        for _ in 0..ATTEMPTS {
            if let Some(mut directory) = Self::attempt(&parent)? {
                directory.made_parent = is_new.then_some(parent);
                return Ok(directory);
            }
        }
        Err(failed("keep others from removing new directories in", &parent, io::ErrorKind::WouldBlock.into()))
    }

    /// `None` if another server took the new directory for an abandoned one.
    fn attempt(parent: &Path) -> Result<Option<Self>, ListenError> {
        let name = random_name().map_err(|e| failed("draw a random name for a directory in", parent, e))?;
        let path = parent.join(name);
        let socket_path = path.join(SOCKET_NAME);
        if !ServerAddress::path_fits(&socket_path) {
            return Err(ListenError::PathTooLong { path: socket_path });
        }
        // `mkdir` fails on anything that exists, a symbolic link included: the directory is new and ours.
        DirBuilder::new().mode(0o700).create(&path).map_err(|e| failed("make directory", &path, e))?;
        let kept = Self::keep(path.clone(), socket_path);
        if !matches!(kept, Ok(Some(_))) {
            // Another server may have removed it; no server ever draws its name again.
            let _ = fs::remove_dir(&path);
        }
        kept
    }

    /// Locks a new directory. `None` as above.
    fn keep(path: PathBuf, socket_path: PathBuf) -> Result<Option<Self>, ListenError> {
        let lock = match open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|e| failed("open directory", &path, e))?,
        };
        match lock.try_lock() {
            Err(fs::TryLockError::WouldBlock) => return Ok(None),
            // If nothing can be locked, nothing is taken for abandoned either.
            Ok(()) | Err(fs::TryLockError::Error(_)) => {}
        }
        if !is_still_at(&lock, &path) {
            return Ok(None);
        }
        let found = lock.metadata().map_err(|e| failed("examine", &path, e))?.uid();
        let (made_parent, creator_pid) = (None, process::id());
        let directory = Self { directory_path: path, socket_path, made_parent, creator_pid, lock };
        let ours = geteuid().as_raw();
        if found != ours {
            return Err(ListenError::ForeignDirectory { path: directory.directory_path.clone(), found, ours });
        }
        Ok(Some(directory))
    }

    #[cfg(test)]
    pub(super) fn path(&self) -> &Path {
        &self.directory_path
    }

    pub(super) fn socket_path(&self) -> &Path {
        &self.socket_path
    }

    /// Sets the modes of the socket and of the directory. A user who may write to the parent may have put something
    /// else in the directory's place: that is not touched.
    pub(super) fn set_modes(&self, directory: u32, socket: u32) -> io::Result<()> {
        fchmodat(&self.lock, SOCKET_NAME, Mode::from_bits_truncate(socket), FchmodatFlags::FollowSymlink)?;
        self.lock.set_permissions(Permissions::from_mode(directory))
    }
}

impl Drop for SocketDirectory {
    fn drop(&mut self) {
        if process::id() != self.creator_pid {
            return;
        }
        // No caller is left for an error: a path that can't be removed (an administrator was faster, say) stays.
        remove(&self.lock, &self.directory_path);
        // Others' files keep it.
        let _ = self.made_parent.take().map(fs::remove_dir);
    }
}

/// Removes the socket in a directory, and the directory if nothing else is in it. A link in the directory's place
/// stays.
fn remove(directory: &File, path: &Path) {
    let _ = unlinkat(directory, SOCKET_NAME, UnlinkatFlags::NoRemoveDir);
    let _ = fs::remove_dir(path);
}

/// Makes a missing directory, with its parents. Returns its real path, and whether it is new.
fn made(path: &Path) -> Result<(PathBuf, bool), ListenError> {
    let refused = |error| failed("make the temporary directory", path, error);
    let make = |path: &Path, with_parents| DirBuilder::new().mode(0o700).recursive(with_parents).create(path);
    path.parent().map_or(Ok(()), |above| make(above, true)).map_err(refused)?;
    // Another process may have made it meanwhile. Then it is not this server's to remove.
    let is_new = match make(path, false) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        made => made.map(|()| true).map_err(refused)?,
    };
    Ok((path.canonicalize().map_err(refused)?, is_new))
}

/// 128 random bits: neither two servers nor an attacker's guess meet.
fn random_name() -> io::Result<String> {
    let mut bits = [0_u8; NAME_BITS_BYTES];
    let mut filled = 0;
    while let Some(rest) = bits.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bits.iter().fold(String::from(NAME_PREFIX), |name, byte| name + &format!("{byte:02x}")))
}

fn is_server_name(name: &OsStr) -> bool {
    name.as_bytes().strip_prefix(NAME_PREFIX.as_bytes()).is_some_and(|bits| {
        bits.len() == 2 * NAME_BITS_BYTES && bits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

fn failed(step: &'static str, path: &Path, source: io::Error) -> ListenError {
    ListenError::Io { step, path: path.to_owned(), source }
}

const NAME_PREFIX: &str = "modex-";
const NAME_BITS_BYTES: usize = 16;
const SOCKET_NAME: &str = "s";

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn names(parent: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(parent).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_next_server_removes_only_directories_of_killed_servers() {
        let parent = tempfile::tempdir().unwrap();
        let living = SocketDirectory::create(parent.path()).unwrap();
        let with_socket = parent.path().join(format!("modex-{}", "0".repeat(32)));
        fs::create_dir(&with_socket).unwrap();
        drop(UnixListener::bind(with_socket.join(SOCKET_NAME)).unwrap());
        fs::create_dir(parent.path().join(format!("modex-{}", "1".repeat(32)))).unwrap();
        let others = ["modex-run-1-a".to_owned(), "modex-x".to_owned(), format!("modex-{}", "A".repeat(32))];
        others.iter().for_each(|name| fs::create_dir(parent.path().join(name)).unwrap());
        let used = format!("modex-{}", "2".repeat(32));
        fs::create_dir(parent.path().join(&used)).unwrap();
        fs::write(parent.path().join(&used).join("notes"), "somebody's").unwrap();
        let link = format!("modex-{}", "3".repeat(32));
        std::os::unix::fs::symlink(&used, parent.path().join(&link)).unwrap();

        let next = SocketDirectory::create(parent.path()).unwrap();
        let name = |directory: &SocketDirectory| directory.path().file_name().unwrap().to_str().unwrap().to_owned();
        let mut expected = vec![name(&living), name(&next), used, link];
        expected.extend(others);
        expected.sort();
        assert_eq!(names(parent.path()), expected);
    }

    /// Regression: `prun` of PRRTE 4.1 names a session's directory that it leaves to the library.
    #[test]
    fn a_missing_parent_is_made_and_goes_with_the_server_unless_others_use_it() {
        let place = tempfile::tempdir().unwrap();
        let parent = place.path().join("session/of-a-tool");
        let directory = SocketDirectory::create(&parent).unwrap();
        assert_eq!(parent.metadata().unwrap().mode() & 0o777, 0o700);
        drop(directory);
        assert!(!parent.exists());
        let directory = SocketDirectory::create(&parent).unwrap();
        fs::write(parent.join("notes"), "somebody's").unwrap();
        drop(directory);
        assert_eq!(names(&parent), ["notes"]);
    }

    #[test]
    fn servers_that_start_side_by_side_do_not_lose_their_directories() {
        let parent = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let directory = SocketDirectory::create(parent.path()).unwrap();
                        drop(UnixListener::bind(directory.socket_path()).unwrap());
                    }
                });
            }
        });
        assert_eq!(names(parent.path()), Vec::<String>::new());
    }
}
