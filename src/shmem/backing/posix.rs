//! A named POSIX shared-memory object, made by crate `shared_memory`.
//!
//! The crate opens read-write only and returns no descriptor. So this file opens the object again: once for growth, and
//! once for each reader.

use std::fs::File;
use std::io;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::mman::shm_open;
use nix::sys::stat::Mode;
use nix::unistd::ftruncate;
use shared_memory::{Shmem, ShmemConf, ShmemError};

use super::Backing;
use super::growth::{allocate, largest_span, with_free_name, within_file_size_limit};
use super::handle::{ReaderHandle, named_handle};
use crate::shmem::error::{CreateError, GrowError, HandleError};
use crate::shmem::memory::Memory;
use crate::shmem::options::{Location, Protection};

/// A shared-memory object that only this user can open, removed when it is dropped.
#[derive(Debug)]
pub(super) struct Posix {
    /// Unmaps the memory and removes the name when dropped.
    memory: Memory,
    object: File,
    name: String,
    reserved_bytes: u64,
}

impl Posix {
    /// Makes an empty segment.
    pub(super) fn create(label: &str, span_bytes: u64) -> Result<Self, CreateError> {
        // The crate makes the object as large as the span; it is cut back below.
        within_file_size_limit(span_bytes)?;
        let (name, shmem) = with_free_name(label, |name| {
            let name = format!("/{name}");
            let made = largest_span(span_bytes, |span| make(&name, span))?;
            Ok(made.map(|shmem| (name, shmem)))
        })?;
        let failed =
            |step, source: io::Error| CreateError::Object { location: Location::Name(name.clone()), step, source };
        let invalid = || failed("mapping", io::Error::from(io::ErrorKind::InvalidData));
        let memory = Memory::from_posix(shmem).ok_or_else(invalid)?;
        let flags = OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let object = shm_open(name.as_str(), flags, Mode::empty()).map_err(|e| failed("shm_open", e.into()))?;
        // From here on the object's size is that of its memory; the mapping keeps the span.
        ftruncate(&object, 0).map_err(|e| failed("ftruncate", e.into()))?;
        Ok(Self { memory, object: File::from(object), name, reserved_bytes: 0 })
    }
}

impl Backing for Posix {
    fn memory(&self) -> &Memory {
        &self.memory
    }

    fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes
    }

    fn reserve(&mut self, to: u64) -> Result<(), GrowError> {
        allocate(&self.object, self.reserved_bytes, to, &self.location())?;
        self.reserved_bytes = self.reserved_bytes.max(to);
        Ok(())
    }

    fn handle(&self) -> Result<ReaderHandle, HandleError> {
        named_handle(&self.object, self.location(), || ReaderHandle::open_name(&self.name))
    }

    fn protection(&self) -> Protection {
        Protection::ReadOnlyDescriptor
    }

    fn location(&self) -> Location {
        Location::Name(self.name.clone())
    }
}

/// Makes and maps the object. `Ok(None)`: the name is taken.
fn make(name: &str, span: usize) -> io::Result<Option<Shmem>> {
    match ShmemConf::new().os_id(name).size(span).create() {
        Ok(shmem) => Ok(Some(shmem)),
        Err(ShmemError::MappingIdExists) => Ok(None),
        Err(ShmemError::MapCreateFailed(errno) | ShmemError::UnknownOsError(errno)) => {
            Err(i32::try_from(errno).map_or_else(io::Error::other, |raw| Errno::from_raw(raw).into()))
        }
        Err(other) => Err(io::Error::other(other)),
    }
}
