use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process;

use nix::fcntl::OFlag;
use nix::unistd::geteuid;

use super::search::{Belief, ENTRIES_MAX, examine, failed, is_abandoned, is_gone};
use super::{Contents, RendezvousError};

/// Users that may read a server's files, and so find the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Publicity {
    /// The server's user: files 0600, directories 0700.
    #[default]
    Owner,
    /// Everybody: files 0644, directories 0755.
    Everybody,
}

/// Files that a server writes, and their contents.
#[derive(Clone, Debug)]
pub struct Announcement {
    /// The files; their directories are made if they are missing.
    pub paths: Vec<PathBuf>,
    /// Files by which tools find the server of a role. The flag says whether the role is required: it is an error then
    /// if another file has the name.
    pub roles: Vec<(PathBuf, bool)>,
    /// The contents.
    pub contents: Contents,
    /// Their readers.
    pub publicity: Publicity,
    /// Time of writing, in seconds since 1970.
    pub seconds: u64,
}

/// Files of a living server. Its drop removes them, except in a forked copy.
#[derive(Debug, Default)]
pub struct Files {
    held: Vec<Held>,
}

/// One file.
#[derive(Debug)]
struct Held {
    path: PathBuf,
    /// The address in its first line.
    address: String,
    /// A forked copy of the guard must not remove anything its parent still uses.
    creator_pid: u32,
    /// The file, locked until the last copy of this descriptor is closed.
    file: File,
}

impl Files {
    /// Writes the files; none if a living server has one of the names. Files of dead servers are replaced. A name
    /// occupied by another user's file or an unreadable file is reported, and that file is missing. Otherwise any user
    /// could keep servers from starting. A required role fails instead.
    ///
    /// # Errors
    /// [`RendezvousError`].
    pub fn write(announcement: &Announcement) -> Result<Self, RendezvousError> {
        let mut files = Self::default();
        let roles = announcement.roles.iter().map(|(path, is_required)| (path, *is_required));
        for (path, is_required) in announcement.paths.iter().map(|path| (path, false)).chain(roles) {
            if files.paths().any(|written| written == path) {
                continue;
            }
            match Held::write(path, announcement) {
                Ok(held) => files.held.push(held),
                Err(error) if error.is_in_the_way() && !is_required => {
                    tracing::error!(?path, %error, "the server cannot write a rendezvous file; tools that look for it \
                     do not find the server");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    }

    /// Removes the wanted files in a directory that this user's servers left when they were killed. A file with a held
    /// lock stays. A file that never claimed a lock stays too: its server may live where this process can't see it.
    pub fn remove_abandoned(directory: &Path, is_wanted: impl Fn(&str) -> bool) {
        let Ok(entries) = fs::read_dir(directory) else { return };
        for entry in entries.take(ENTRIES_MAX).flatten() {
            if entry.file_name().to_str().is_some_and(&is_wanted) {
                // A file that can't be removed stays: no process waits for it.
                let _ = remove_if_abandoned(&entry.path());
            }
        }
    }

    /// The files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.held.iter().map(|held| held.path.as_path())
    }

    /// Makes this a forked copy.
    #[cfg(test)]
    pub(super) fn forget_creator(&mut self) {
        self.held.iter_mut().for_each(|held| held.creator_pid = 0);
    }
}

impl Held {
    fn write(path: &Path, announcement: &Announcement) -> Result<Self, RendezvousError> {
        let (file_mode, directory_mode) = match announcement.publicity {
            Publicity::Owner => (0o600, 0o700),
            Publicity::Everybody => (0o644, 0o755),
        };
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let made = DirBuilder::new().recursive(true).mode(directory_mode).create(directory);
        made.map_err(|source| failed("make directory", directory, source))?;
        let draft = Draft::write(path, file_mode, announcement)?;
        for attempts_left in (0..ATTEMPTS).rev() {
            if draft.publish(path, attempts_left == 0)? {
                return Ok(draft.into_held(path, announcement.contents.address.clone()));
            }
        }
        Err(in_the_way(path, io::ErrorKind::WouldBlock.into()))
    }

    /// Whether the file is still this one with the same address: servers of release 4 write into an existing file.
    fn is_still_there(&self) -> bool {
        // Reads through the open file: the process may have no free descriptor.
        let read = || examine(&self.path, &self.file, Belief::OwnAndRoot);
        let says_the_same = || read().is_ok_and(|(contents, _)| contents.address == self.address);
        is_at(&self.file, &self.path) && (&self.file).rewind().is_ok() && says_the_same()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // A file that another server put there meanwhile is not ours.
        if process::id() == self.creator_pid && self.is_still_there() {
            // No caller is left for an error: a file that can't be removed stays, and its missing lock marks it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A complete and locked file that has only its temporary name.
struct Draft {
    path: PathBuf,
    file: Option<File>,
}

impl Draft {
    fn write(target: &Path, mode: u32, announcement: &Announcement) -> Result<Self, RendezvousError> {
        // Hidden, no name that tools search, and impossible to guess and occupy.
        let random = random_name().map_err(|source| failed("draw a random name for", target, source))?;
        let path = target.with_file_name(format!(".modex-{random}.new"));
        // Fails on anything that exists, a symbolic link included: the file is new and ours.
        let opened = OpenOptions::new().write(true).read(true).create_new(true).mode(mode).open(&path);
        let file = opened.map_err(|source| failed("make", &path, source))?;
        let mut draft = Self { path, file: None };
        let lock = file.try_lock();
        // If nothing can be locked, the file does not claim a lock.
        let is_locked = lock.is_ok();
        let text = Contents { is_locked, ..announcement.contents.clone() }.render(announcement.seconds);
        // The mask of the process may have taken permissions away.
        let written = file.set_permissions(fs::Permissions::from_mode(mode));
        let written = written.and_then(|()| (&file).write_all(text.as_bytes()));
        written.map_err(|source| failed("write", &draft.path, source))?;
        draft.file = Some(file);
        Ok(draft)
    }

    /// Links the file to its name; `false`: something changed meanwhile, try again.
    fn publish(&self, target: &Path, is_last: bool) -> Result<bool, RendezvousError> {
        match fs::hard_link(&self.path, target) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.replace(target, is_last),
            Err(source) => Err(failed("make", target, source)),
        }
    }

    /// Replaces a file whose server is dead, or that names no process because it is empty or damaged. Servers that do
    /// so at the same time lock it in turn, for a moment. A lock still held at the last attempt is a reader's. It holds
    /// up no server if the file's process is gone.
    fn replace(&self, target: &Path, is_last: bool) -> Result<bool, RendezvousError> {
        let old = match open_in_place(target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            opened => opened.map_err(|source| in_the_way(target, source))?,
        };
        let can_be_a_part = is_server_file(target);
        let contents = match examine(target, &old, Belief::OwnAndRoot) {
            // A server of another library, killed while writing, left a part of its file.
            Err(RendezvousError::Contents { .. }) if can_be_a_part => None,
            examined => Some(examined?.0).filter(|whole| !can_be_a_part || whole.is_locked || whole.pid.is_some()),
        };
        let pid = contents.as_ref().and_then(|contents| contents.pid);
        if contents.as_ref().is_some_and(|contents| !is_abandoned(&old, contents)) {
            // Its server lives where this process can't see it, or a reader has locked a dead server's file.
            return Err(match is_gone(pid) {
                true => in_the_way(target, io::Error::other("it is locked, and its process is not here")),
                false => RendezvousError::Occupied { path: target.to_owned(), pid },
            });
        }
        match old.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) if is_last && is_gone(pid) => {}
            // Another server is about to replace the file, or a tool reads it.
            Err(TryLockError::WouldBlock) => {
                std::thread::yield_now();
                return Ok(false);
            }
            // Nothing can be locked here: the pid has decided.
            Err(TryLockError::Error(_)) => {}
        }
        if !is_at(&old, target) {
            return Ok(false);
        }
        fs::rename(&self.path, target).map_err(|source| in_the_way(target, source))?;
        if contents.is_none() {
            tracing::warn!(path = ?target, "a rendezvous file was empty or damaged; the server has replaced it");
        }
        Ok(true)
    }

    fn into_held(mut self, path: &Path, address: String) -> Held {
        #[expect(clippy::unwrap_used, reason = "set by `write`, taken only here")]
        let file = self.file.take().unwrap();
        Held { path: path.to_owned(), address, creator_pid: process::id(), file }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // The temporary name; already gone after a rename.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes a file whose lock its server has lost.
fn remove_if_abandoned(path: &Path) -> Result<(), RendezvousError> {
    let file = open_in_place(path).map_err(|source| failed("open", path, source))?;
    let (contents, owner) = examine(path, &file, Belief::OwnAndRoot)?;
    // Servers that replace the file take this lock first, so the name still means this file at its removal.
    let is_abandoned = contents.is_locked && owner == geteuid().as_raw() && file.try_lock().is_ok();
    if is_abandoned && is_at(&file, path) {
        fs::remove_file(path).map_err(|source| failed("remove", path, source))?;
    }
    Ok(())
}

/// Opens the file of this name, never the target of a symbolic link. A pipe does not block.
fn open_in_place(path: &Path) -> io::Result<File> {
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Whether only servers use this name. A user may name any other file, even one that is no server's.
fn is_server_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"pmix."))
}

fn in_the_way(path: &Path, source: io::Error) -> RendezvousError {
    RendezvousError::InTheWay { path: path.to_owned(), source }
}

pub(super) fn random_name() -> io::Result<String> {
    let mut bits = [0_u8; 16];
    // The kernel gives so few bytes at once or not at all.
    rustix::rand::getrandom(&mut bits, rustix::rand::GetRandomFlags::empty())?;
    Ok(bits.iter().fold(String::new(), |name, byte| name + &format!("{byte:02x}")))
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(held), Ok(found)) => (held.dev(), held.ino()) == (found.dev(), found.ino()),
        _ => false,
    }
}

/// Bound on lost races with other servers: each loses only microseconds.
const ATTEMPTS: u32 = 256;
