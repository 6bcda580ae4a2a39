//! Anonymous shared memory, sealed: the default.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::{Mode, fchmod};

use super::Backing;
use super::growth::{allocate, map_writable, plain};
use super::handle::{ReaderHandle, reopen_read_only};
use crate::shmem::error::{CreateError, GrowError, HandleError};
use crate::shmem::memory::Memory;
use crate::shmem::options::{Location, Protection};

/// A memfd that only its creator can write, and that cannot shrink.
#[derive(Debug)]
pub(super) struct Memfd {
    memory: Memory,
    span_bytes: u64,
    object: File,
    reserved_bytes: u64,
    populated_bytes: u64,
    protection: Protection,
}

/// Size of the first mapping: room for most jobs, and small compared with limits on address space.
const MAPPED_BYTES_MIN: u64 = 16 << 20;
/// Minimum size of one populate call: sixteen pages, so that small additions seldom need one.
const POPULATE_BYTES: u64 = 64 << 10;

impl Memfd {
    /// Makes an empty segment. `label` shows up in `/proc/PID/maps`.
    pub(super) fn create(label: &str, span_bytes: u64) -> Result<Self, CreateError> {
        let object = File::from(make(label).map_err(|e| failed("memfd_create", e))?);
        // Prevents other processes of this user from opening `/proc/PID/fd/N` for writing.
        fchmod(&object, Mode::S_IRUSR).map_err(|e| failed("fchmod", e))?;
        // The seal exempts existing mappings and lets them grow, so the mapping comes first.
        let memory = map_writable(&object, span_bytes.min(MAPPED_BYTES_MIN))?;
        let protection = seal(&object).map_err(|e| failed("sealing", e))?;
        Ok(Self { memory, span_bytes, object, reserved_bytes: 0, populated_bytes: 0, protection })
    }
}

impl Memfd {
    /// Extends the mapping to `end`. Its length doubles, so that a large segment is seldom remapped.
    fn map_up_to(&mut self, end: u64) -> Result<(), GrowError> {
        let have = self.memory.len();
        if end <= have {
            return Ok(());
        }
        let generous = have.saturating_mul(2).max(end).min(self.span_bytes);
        let grown = self.memory.grow(generous).or_else(|_| self.memory.grow(end));
        grown.map_err(|source| GrowError::Mapping { need_bytes: end, source })
    }
}

impl Backing for Memfd {
    fn memory(&self) -> &Memory {
        &self.memory
    }

    fn span_bytes(&self) -> u64 {
        self.span_bytes
    }

    fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes
    }

    fn reserve(&mut self, to: u64) -> Result<(), GrowError> {
        self.map_up_to(to)?;
        allocate(&self.object, self.reserved_bytes, to, &Location::Anonymous)?;
        self.reserved_bytes = self.reserved_bytes.max(to);
        Ok(())
    }

    fn populate(&mut self, to: u64) {
        if to > self.populated_bytes {
            let end = to.next_multiple_of(POPULATE_BYTES).min(self.reserved_bytes);
            self.memory.populate(self.populated_bytes, end);
            self.populated_bytes = end;
        }
    }

    fn handle(&self) -> Result<ReaderHandle, HandleError> {
        let reopened = match reopen_read_only(self.object.as_raw_fd()) {
            // Without /proc the writer's own descriptor is used; the seals still keep readers from writing.
            Err(_) if self.protection == Protection::SealedFutureWrite => self.object.try_clone(),
            other => other,
        };
        reopened
            .map(|file| ReaderHandle::from_descriptor(OwnedFd::from(file)))
            .map_err(|source| HandleError::Open { location: Location::Anonymous, source })
    }

    fn protection(&self) -> Protection {
        self.protection
    }

    fn location(&self) -> Location {
        Location::Anonymous
    }
}

/// Longest name the kernel takes for a memfd, in bytes.
const NAME_BYTES_MAX: usize = 249;
/// `MFD_NOEXEC_SEAL` (Linux 6.3, missing in `nix`): the memory can never be executed as a program. With
/// `vm.memfd_noexec=2` the kernel refuses a memfd without it.
const MFD_NOEXEC_SEAL: MFdFlags = MFdFlags::from_bits_retain(0x0008);

/// Makes the memfd, without the newest flag if the kernel does not know it.
fn make(label: &str) -> Result<OwnedFd, Errno> {
    let prefix = "modex:";
    let name = format!("{prefix}{}", plain(label, NAME_BYTES_MAX - prefix.len()));
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    match memfd_create(name.as_str(), flags | MFD_NOEXEC_SEAL) {
        Err(Errno::EINVAL) => memfd_create(name.as_str(), flags),
        other => other,
    }
}

/// Forbids shrinking, new writable mappings, and further seals. A further seal against growth could stop the writer.
fn seal(object: &File) -> Result<Protection, Errno> {
    let always = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_SEAL;
    match fcntl(object, FcntlArg::F_ADD_SEALS(always | SealFlag::F_SEAL_FUTURE_WRITE)) {
        Ok(_) => Ok(Protection::SealedFutureWrite),
        // Before Linux 5.1.
        Err(Errno::EINVAL) => fcntl(object, FcntlArg::F_ADD_SEALS(always)).map(|_| Protection::ReadOnlyDescriptor),
        Err(errno) => Err(errno),
    }
}

/// The error for a system call that failed.
fn failed(step: &'static str, errno: Errno) -> CreateError {
    CreateError::Object { location: Location::Anonymous, step, source: io::Error::from(errno) }
}
