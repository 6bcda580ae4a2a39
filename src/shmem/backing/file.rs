//! A file in a directory: for readers that no descriptor can reach, and for segments that outlive their server.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::Backing;
use super::growth::{allocate, map_writable, with_free_name};
use super::handle::{ReaderHandle, named_handle};
use crate::shmem::error::{CreateError, GrowError, HandleError};
use crate::shmem::memory::Memory;
use crate::shmem::options::{Location, Protection};

/// A file that only this user can open, removed when it is dropped.
#[derive(Debug)]
pub(super) struct FileBacking {
    memory: Memory,
    object: File,
    reserved_bytes: u64,
    guard: Unlink,
}

impl FileBacking {
    /// Makes an empty segment in `directory`.
    pub(super) fn create(directory: &Path, label: &str, span_bytes: u64) -> Result<Self, CreateError> {
        let (object, guard) = with_free_name(label, |name| {
            let path = directory.join(format!("{name}.segment"));
            match create_new(&path) {
                Ok(made) => Ok(Some(made)),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(None),
                Err(source) => Err(CreateError::Object { location: Location::Path(path), step: "open", source }),
            }
        })?;
        let memory = map_writable(&object, span_bytes)?;
        Ok(Self { memory, object, reserved_bytes: 0, guard })
    }
}

impl Backing for FileBacking {
    fn memory(&self) -> &Memory {
        &self.memory
    }

    fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes
    }

    fn reserve(&mut self, to: u64) -> Result<(), GrowError> {
        if let Err(error) = allocate(&self.object, self.reserved_bytes, to, &self.location()) {
            // A full file system may have granted a part, which would stay unused. If it cannot be given back, it is
            // kept: readers rely on `published`, not on the size of the file.
            let _ = self.object.set_len(self.reserved_bytes);
            return Err(error);
        }
        self.reserved_bytes = self.reserved_bytes.max(to);
        Ok(())
    }

    fn handle(&self) -> Result<ReaderHandle, HandleError> {
        named_handle(&self.object, self.location(), || ReaderHandle::open_path(&self.guard.path))
    }

    fn protection(&self) -> Protection {
        Protection::ReadOnlyDescriptor
    }

    fn location(&self) -> Location {
        Location::Path(self.guard.path.clone())
    }
}

/// Removes the file when dropped, if the name is still its own.
#[derive(Debug)]
struct Unlink {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl Drop for Unlink {
    fn drop(&mut self) {
        let is_ours = fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.identity);
        if is_ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove a segment; remove it by hand");
        }
    }
}

/// Makes a file that did not exist, for this user alone. `O_EXCL` does not follow a link in the last place either.
fn create_new(path: &Path) -> io::Result<(File, Unlink)> {
    let flags = nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_CLOEXEC;
    let object =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).custom_flags(flags.bits()).open(path)?;
    let found = object.metadata()?;
    Ok((object, Unlink { path: path.to_owned(), identity: (found.dev(), found.ino()) }))
}
