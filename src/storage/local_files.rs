//! Files of this node: copies, moves and reads into memory.
//!
//! - A copy has a temporary name until it is complete and on the medium. So a name is never that of a part.
//! - The target's directory is opened once. No link in it is followed: only the names of regular files are replaced.
//! - A moved file loses its old name after its copy has the new one, and only if it did not change meanwhile.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid};
use rustix::io::Errno;

use super::provider::{FileAction, FileError, FileTask};
use crate::types::Status;

/// Bytes between two looks at the time limit and the requester.
const PIECE_BYTES: usize = 1 << 20;

/// Temporary names that are tried. A server that was killed may have left some.
const NAMES_MAX: u32 = 64;

/// A path that can't be used.
#[derive(Debug, thiserror::Error)]
enum PathError<'p> {
    #[error("the target directory {0:?} does not exist on the server's node; create it, or name another one")]
    NoTarget(&'p Path),
    #[error(
        "the target directory {path:?} can't be used: {error}; name one that is no link and that the server's user may write"
    )]
    Target { path: &'p Path, error: Errno },
    #[error(
        "the file system of the target directory {path:?} has no room for {size_bytes} bytes; free some, or name another one"
    )]
    NoRoom { path: &'p Path, size_bytes: u64 },
    #[error("the file {path:?} can't be read: {error}; name a regular file that the server's user may read")]
    File { path: &'p Path, error: io::Error },
    #[error(
        "the file {path:?} can't be moved to {target:?}: {error}; the server's user must have the right to write both directories"
    )]
    Move { path: &'p Path, target: &'p Path, error: Errno },
}

impl<'p> PathError<'p> {
    fn of_target(path: &'p Path, error: Errno) -> Self {
        if error == Errno::NOENT { Self::NoTarget(path) } else { Self::Target { path, error } }
    }

    fn of_file(path: &'p Path, error: impl Into<io::Error>) -> Self {
        Self::File { path, error: error.into() }
    }
}

impl From<PathError<'_>> for FileError {
    fn from(error: PathError<'_>) -> Self {
        let reason = error.to_string();
        let status = match error {
            PathError::NoTarget(_) => Status::ERR_NOT_FOUND,
            PathError::NoRoom { .. } => Status::ERR_OUT_OF_RESOURCE,
            PathError::Target { error, .. } | PathError::Move { error, .. } => Self::from(error).status,
            PathError::File { error, .. } => Self::from(error).status,
        };
        Self::new(status, reason)
    }
}

/// Carries out a task. The result is the file's path afterwards.
pub(super) fn carry_out(task: &FileTask<'_>) -> Result<PathBuf, FileError> {
    task.check()?;
    let main_path =
        || task.system.and_then(|system| system.paths.first()).map(|path| OsStr::from_bytes(path.as_bytes()));
    let target = task.directory.or_else(|| main_path().map(Path::new));
    match (task.action, target) {
        (FileAction::Cache, _) => cache(task).map(|()| task.file.to_owned()),
        (FileAction::Stage | FileAction::Move, Some(target)) => bring(task, target),
        _ => Err(FileError::new(Status::ERR_BAD_PARAM, "no directory is known")),
    }
}

/// Opens a regular file for reading. Others, such as a FIFO, are not touched.
pub(super) fn open_regular(directory: impl AsFd, path: &Path, flags: OFlags) -> io::Result<File> {
    let found = rustix::fs::openat(directory, path, OFlags::PATH | OFlags::CLOEXEC | flags, Mode::empty())?;
    if !is_regular(&rustix::fs::fstat(&found)?) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    // The name may lead to another file by now, and this one not.
    let itself = format!("/proc/self/fd/{}", found.as_raw_fd());
    File::options().read(true).custom_flags(nix::libc::O_NONBLOCK).open(itself)
}

fn is_regular(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
}

/// Reads a file into memory.
fn cache(task: &FileTask<'_>) -> Result<(), FileError> {
    let opened = open_regular(CWD, task.file, OFlags::empty());
    let mut file = opened.map_err(|error| PathError::of_file(task.file, error))?;
    let size_bytes = file.metadata()?.len();
    let (mut piece, mut read) = (vec![0; PIECE_BYTES], 0_u64);
    // A file that grows has no end.
    while read < size_bytes {
        task.check()?;
        match next(&mut file, &mut piece)? {
            0 => break,
            count => read = read.saturating_add(u64::try_from(count).unwrap_or(u64::MAX)),
        }
    }
    Ok(())
}

/// The next bytes; 0 at the end.
fn next(file: &mut File, piece: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// A file that is copied.
struct Source<'t> {
    directory: OwnedFd,
    name: &'t OsStr,
    file: File,
    found: Stat,
}

impl<'t> Source<'t> {
    /// Opens it. The name of a moved file is no link, because the link would be removed.
    fn open(task: &FileTask<'t>) -> Result<Self, FileError> {
        let Some((parent, name)) = task.file.parent().zip(task.file.file_name()) else {
            return Err(FileError::new(Status::ERR_BAD_PARAM, "the path has no name"));
        };
        let directory = rustix::fs::open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| PathError::of_file(task.file, error))?;
        let flags = if task.action == FileAction::Move { OFlags::NOFOLLOW } else { OFlags::empty() };
        let file = open_regular(&directory, Path::new(name), flags);
        let file = file.map_err(|error| PathError::of_file(task.file, error))?;
        let found = rustix::fs::fstat(&file)?;
        Ok(Self { directory, name, file, found })
    }

    /// Checks that it is what it was.
    fn check(&self) -> Result<(), FileError> {
        let has_changed = !is_same_state(&self.found, &rustix::fs::fstat(&self.file)?);
        if has_changed {
            Err(FileError::new(Status::ERR_RESOURCE_BUSY, "the file was changed meanwhile"))
        } else {
            Ok(())
        }
    }

    /// Removes the name, if it is still that of the file.
    fn remove(&self) -> Result<(), FileError> {
        self.check()?;
        let named = rustix::fs::statat(&self.directory, self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        if !is_same_file(&named, &self.found) {
            return Err(FileError::new(Status::ERR_RESOURCE_BUSY, "the name is that of another file by now"));
        }
        Ok(rustix::fs::unlinkat(&self.directory, self.name, AtFlags::empty())?)
    }
}

fn is_same_file(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// Whether the content is the same, as far as the kernel tells. A process may set the time of the content, but not that
/// of the inode.
fn is_same_state(one: &Stat, other: &Stat) -> bool {
    let times = |found: &Stat| (found.st_mtime, found.st_mtime_nsec, found.st_ctime, found.st_ctime_nsec);
    let state = |found: &Stat| (found.st_size, times(found));
    is_same_file(one, other) && state(one) == state(other)
}

/// Brings a file to a directory. A file with the same content is left there.
fn bring(task: &FileTask<'_>, target: &Path) -> Result<PathBuf, FileError> {
    let source = Source::open(task)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // The kernel follows a link before a slash or a dot at the end.
    let target: PathBuf = target.components().collect();
    let opened = rustix::fs::open(&target, flags, Mode::empty());
    let directory = opened.map_err(|error| PathError::of_target(&target, error))?;
    let place = target.join(source.name);
    let is_move = task.action == FileAction::Move;
    let [from, to] = [rustix::fs::fstat(&source.directory)?, rustix::fs::fstat(&directory)?];
    match existing(&directory, source.name)? {
        // The same name is both the old one and the new one.
        Some(_) if is_same_file(&from, &to) => return Ok(place),
        Some(_) if is_move && is_one_directory(&source.directory, &directory)? => return Ok(place),
        Some(found) if is_same_file(&found, &source.found) => {
            if is_move && found.st_nlink < 2 {
                let reason = "the target shows the file itself, whose only name would be removed";
                return Err(FileError::new(Status::ERR_NOT_SUPPORTED, reason));
            }
            if is_move {
                source.remove()?;
            }
            return Ok(place);
        }
        Some(found) if has_same_facts(&found, &source.found) && has_same_content(task, &source, &directory)? => {}
        _ if is_move && rename(task, &source, (&target, &directory))? => return Ok(place),
        _ => copy(task, &source, (&target, &directory))?,
    }
    if is_move {
        task.check()?;
        source.remove()?;
    }
    Ok(place)
}

/// Whether two directories are one, which file systems show with different numbers. A new name in one is in the other,
/// too.
fn is_one_directory(source: &OwnedFd, target: &OwnedFd) -> Result<bool, FileError> {
    let probe = Temporary::new(target)?;
    let name = probe.name.clone();
    let is_shown = || match rustix::fs::statat(source, &name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(FileError::from(error)),
    };
    let is_shown_with_it = is_shown()?;
    drop(probe);
    Ok(is_shown_with_it && !is_shown()?)
}

/// Whether a file belongs to the source's owner or this user, and has the mode of a copy. One of another user might
/// change.
fn has_same_facts(found: &Stat, source: &Stat) -> bool {
    let is_owned = found.st_uid == source.st_uid || found.st_uid == rustix::process::geteuid().as_raw();
    is_owned && found.st_mode & 0o777 == copied_mode(source.st_mode, found.st_gid == source.st_gid) & 0o777
}

/// The mode of a copy. It lends nobody's rights. Another group than the source's has no more rights than everybody.
const fn copied_mode(source: u32, has_group: bool) -> u32 {
    if has_group { source & 0o1777 } else { source & 0o1707 | (source & source << 3) & 0o070 }
}

/// Moves the name within one file system. Returns whether that is possible.
fn rename(task: &FileTask<'_>, source: &Source<'_>, (target, directory): (&Path, &OwnedFd)) -> Result<bool, FileError> {
    match rustix::fs::renameat(&source.directory, source.name, directory, source.name) {
        Err(Errno::XDEV) => return Ok(false),
        renamed => renamed.map_err(|error| PathError::Move { path: task.file, target, error })?,
    }
    let moved = rustix::fs::statat(directory, source.name, AtFlags::SYMLINK_NOFOLLOW)?;
    if !is_same_file(&moved, &source.found) {
        // The owner of the old directory gave the name to another file meanwhile. It goes back, unless the name is
        // taken again.
        let back = rustix::fs::linkat(directory, source.name, &source.directory, source.name, AtFlags::empty());
        let back = back.and_then(|()| rustix::fs::unlinkat(directory, source.name, AtFlags::empty()));
        let reason = match back {
            Ok(()) => "the name is that of another file by now",
            Err(_) => "the name was that of another file, which is at the target now",
        };
        return Err(FileError::new(Status::ERR_RESOURCE_BUSY, reason));
    }
    sync(directory)?;
    Ok(true)
}

/// The regular file that has the name already.
fn existing(directory: &OwnedFd, name: &OsStr) -> Result<Option<Stat>, FileError> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) if is_regular(&found) => Ok(Some(found)),
        Ok(_) => Err(FileError::new(Status::ERR_EXISTS, "the target has something else of that name")),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether the file of that name has the source's bytes. If it has, it is on the medium afterwards.
fn has_same_content(task: &FileTask<'_>, source: &Source<'_>, directory: &OwnedFd) -> Result<bool, FileError> {
    let Ok(mut other) = open_regular(directory, Path::new(source.name), OFlags::NOFOLLOW) else { return Ok(false) };
    if rustix::fs::fstat(&other)?.st_size != source.found.st_size {
        return Ok(false);
    }
    let mut own = source.file.try_clone()?;
    let (mut piece, mut expected) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
    let is_same = loop {
        task.check()?;
        let count = next(&mut own, &mut piece)?;
        let (Some(piece), Some(expected)) = (piece.get(..count), expected.get_mut(..count)) else { break false };
        if count == 0 {
            break next(&mut other, &mut [0])? == 0;
        }
        match other.read_exact(expected) {
            Ok(()) if piece == expected => {}
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error.into()),
            _ => break false,
        }
    };
    // The clone has the place of the file.
    rustix::fs::seek(&source.file, rustix::fs::SeekFrom::Start(0))?;
    source.check()?;
    if is_same {
        other.sync_all()?;
        sync(directory)?;
    }
    Ok(is_same)
}

/// A file with a temporary name. It is removed unless it gets its name.
struct Temporary<'d> {
    directory: &'d OwnedFd,
    name: OsString,
    file: File,
    is_named: bool,
}

impl<'d> Temporary<'d> {
    fn new(directory: &'d OwnedFd) -> Result<Self, Errno> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut tries = 0;
        loop {
            let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
            let name = OsString::from(format!(".modex-{}-{number}", std::process::id()));
            tries += 1;
            match rustix::fs::openat(directory, &name, flags, Mode::RUSR | Mode::WUSR) {
                Ok(file) => return Ok(Self { directory, name, file: file.into(), is_named: false }),
                Err(Errno::EXIST) if tries < NAMES_MAX => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn name(mut self, name: &OsStr) -> Result<(), FileError> {
        rustix::fs::renameat(self.directory, &self.name, self.directory, name)?;
        self.is_named = true;
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.is_named {
            let _ = rustix::fs::unlinkat(self.directory, &self.name, AtFlags::empty());
        }
    }
}

/// Copies a file, with its mode, its time, and its owner if this process may give files away.
fn copy(task: &FileTask<'_>, source: &Source<'_>, (path, directory): (&Path, &OwnedFd)) -> Result<(), FileError> {
    let size_bytes = u64::try_from(source.found.st_size).unwrap_or(u64::MAX);
    let mut target = Temporary::new(directory).map_err(|error| PathError::Target { path, error })?;
    // Before the first byte is there.
    if rustix::fs::fstat(&target.file)?.st_mode & 0o077 != 0 {
        let reason = "the target's file system keeps no modes, so other users could read the copy";
        return Err(FileError::new(Status::ERR_NOT_SUPPORTED, reason));
    }
    let space = rustix::fs::fstatvfs(&target.file)?;
    // Some file systems do not count.
    if space.f_blocks > 0 && space.f_bfree.saturating_mul(space.f_frsize) < size_bytes {
        return Err(PathError::NoRoom { path, size_bytes }.into());
    }
    let (mut file, mut piece, mut copied) = (source.file.try_clone()?, vec![0; PIECE_BYTES], 0_u64);
    loop {
        task.check()?;
        let count = next(&mut file, &mut piece)?;
        copied = copied.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        // A file that grows has no end.
        if count == 0 || copied > size_bytes {
            break;
        }
        target.file.write_all(piece.get(..count).unwrap_or_default())?;
    }
    source.check()?;
    if copied != size_bytes {
        return Err(FileError::new(Status::ERR_RESOURCE_BUSY, "the file has another size than it tells"));
    }
    keep_facts(&source.found, &target.file)?;
    target.file.sync_all()?;
    // The sync may have taken long.
    task.check()?;
    target.name(source.name)?;
    sync(directory)
}

fn keep_facts(found: &Stat, target: &File) -> Result<(), FileError> {
    let (uid, gid) = (Uid::from_raw(found.st_uid), Gid::from_raw(found.st_gid));
    let has_owner = rustix::fs::fchown(target, Some(uid), Some(gid)).is_ok();
    let has_group = has_owner || rustix::fs::fchown(target, None, Some(gid)).is_ok();
    rustix::fs::fchmod(target, Mode::from_bits_truncate(copied_mode(found.st_mode, has_group)))?;
    let time = |tv_sec, nanoseconds| Timespec { tv_sec, tv_nsec: i64::try_from(nanoseconds).unwrap_or_default() };
    let times = Timestamps {
        last_access: time(found.st_atime, found.st_atime_nsec),
        last_modification: time(found.st_mtime, found.st_mtime_nsec),
    };
    Ok(rustix::fs::futimens(target, &times)?)
}

/// Brings a new name to the medium. A directory that may not be read can't be synced.
fn sync(directory: &OwnedFd) -> Result<(), FileError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat(directory, ".", flags, Mode::empty()) {
        Ok(directory) => match rustix::fs::fsync(directory) {
            // Some file systems have no sync of directories.
            Ok(()) | Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
            Err(error) => Err(error.into()),
        },
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A copy of an ordinary file of another user lost the rights of its group alone, and was made again each time.
    #[test]
    fn a_copy_in_another_group_gives_it_the_rights_of_everybody() {
        let modes =
            [0o644, 0o664, 0o640, 0o755, 0o4775, 0o604].map(|mode| [true, false].map(|has| copied_mode(mode, has)));
        let expected = [[0o644, 0o644], [0o664, 0o644], [0o640, 0o600], [0o755, 0o755], [0o775, 0o755], [0o604, 0o604]];
        assert_eq!(modes, expected);
        let source = rustix::fs::fstat(tempfile::tempfile().unwrap()).unwrap();
        let (mut source, mut found) = (source, source);
        source.st_mode = 0o100_664;
        found.st_gid = source.st_gid + 1;
        let is_same = |mode: u32, found: &mut Stat| {
            found.st_mode = 0o100_000 | mode;
            has_same_facts(found, &source)
        };
        assert_eq!([0o644, 0o664, 0o604].map(|mode| is_same(mode, &mut found)), [true, false, false]);
    }
}
