//! The test that distinguishes an abandoned directory from a used one.
//!
//! A process holds a lock (`flock`) on its directory. The kernel releases it when the process ends, for any reason. So
//! a killed process left each directory without a lock, and the next one removes it. Between `mkdir` and lock a
//! directory looks abandoned, and another process may remove it. So its maker, after the lock, checks that it still
//! exists; from then on no other process gets the lock.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;
use nix::unistd::geteuid;

/// Removes the abandoned directories of this user in `parent`. `is_name` chooses them by name. A directory that can't
/// be removed stays: no process waits for it.
pub fn sweep(parent: &Path, is_name: impl Fn(&OsStr) -> bool, remove: impl Fn(&File, &Path)) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    let ours = geteuid().as_raw();
    for entry in entries.take(SWEPT_ENTRIES_MAX).flatten().filter(|entry| is_name(&entry.file_name())) {
        let path = entry.path();
        let Ok(directory) = open(&path) else { continue };
        let is_ours = directory.metadata().is_ok_and(|metadata| metadata.uid() == ours);
        if is_ours && directory.try_lock().is_ok() && is_still_at(&directory, &path) {
            remove(&directory, &path);
        }
    }
}

/// Opens a directory, never the target of a symbolic link.
///
/// # Errors
/// The errors of `open`.
pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags((OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits()).open(path)
}

/// Whether `path` still names this directory.
#[must_use]
pub fn is_still_at(directory: &File, path: &Path) -> bool {
    match (directory.metadata(), fs::symlink_metadata(path)) {
        (Ok(held), Ok(found)) => (held.dev(), held.ino()) == (found.dev(), found.ino()),
        _ => false,
    }
}

/// Bound on new directories lost to other processes: each loses only microseconds.
pub const ATTEMPTS: u32 = 16;
/// Bound on the parent's entries: a temporary directory without cleanup must not hold up a start.
const SWEPT_ENTRIES_MAX: usize = 4096;
