//! A reader's handle for attaching to a segment. It carries no right to write.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use memmap2::{MmapOptions, MmapRaw};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, SealFlag, fcntl};
use nix::sys::stat::{FileStat, SFlag, fstat};
use nix::sys::uio::pread;

use super::growth::into_memory;
use crate::shmem::error::{HandleError, SegmentError};
use crate::shmem::header::{FIXED_BYTES, HEADER_BYTES};
use crate::shmem::memory::Memory;
use crate::shmem::options::{Location, Protection};
use crate::shmem::sync::{AtomicU64, Ordering};

/// The right to read a segment: a descriptor, or for heap segments a share of the memory.
#[derive(Debug)]
pub struct ReaderHandle {
    source: Source,
}

impl ReaderHandle {
    /// A handle from a descriptor that was received from the writer's process, or inherited.
    #[must_use]
    pub fn from_descriptor(descriptor: OwnedFd) -> Self {
        Self { source: Source::Object(Arc::new(descriptor)) }
    }

    /// Another handle with the same descriptor.
    pub(in crate::shmem) fn again(source: &Source) -> Self {
        Self { source: source.clone() }
    }

    /// A handle to heap memory of this process.
    pub(super) fn from_heap(object: Arc<HeapObject>) -> Self {
        Self { source: Source::Heap(object) }
    }

    /// Opens the file of a segment. A symbolic link in the last place of `path` is refused.
    pub fn open_path(path: &Path) -> Result<Self, HandleError> {
        Self::open(path, OFlag::O_NOFOLLOW)
    }

    /// Opens a segment through another process's descriptor, as in `/proc/PID/fd/N`, which is a link. Not for paths
    /// that an untrusted user may have made.
    pub fn open_descriptor_link(path: &Path) -> Result<Self, HandleError> {
        Self::open(path, OFlag::empty())
    }

    /// Opens a POSIX shared-memory object by name, which starts with a slash.
    pub fn open_name(name: &str) -> Result<Self, HandleError> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        nix::sys::mman::shm_open(name, flags, nix::sys::stat::Mode::empty())
            .map(Self::from_descriptor)
            .map_err(|errno| HandleError::Open { location: Location::Name(name.to_owned()), source: errno.into() })
    }

    /// The descriptor to pass to another process; `None` for heap memory.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.source {
            Source::Object(object) => Some(object.as_fd()),
            Source::Heap(_) => None,
        }
    }

    /// The descriptor, shared with all handles from the same reader; `None` for heap memory.
    #[must_use]
    pub fn share_descriptor(&self) -> Option<Arc<OwnedFd>> {
        match &self.source {
            Source::Object(object) => Some(Arc::clone(object)),
            Source::Heap(_) => None,
        }
    }

    /// A new descriptor; `None` for heap memory, or if none is available.
    #[must_use]
    pub fn into_descriptor(self) -> Option<OwnedFd> {
        match self.source {
            Source::Object(object) => Arc::try_unwrap(object).or_else(|shared| shared.try_clone()).ok(),
            Source::Heap(_) => None,
        }
    }

    /// Device and inode; `None` for heap memory or if they are unavailable.
    #[must_use]
    pub fn identity(&self) -> Option<(u64, u64)> {
        match &self.source {
            Source::Object(object) => fstat(object).ok().map(identity),
            Source::Heap(_) => None,
        }
    }

    /// Lends the source of the handle.
    pub(in crate::shmem) fn source(&self) -> &Source {
        &self.source
    }

    /// Turns the handle into its source.
    pub(in crate::shmem) fn into_source(self) -> Source {
        self.source
    }

    fn open(path: &Path, extra: OFlag) -> Result<Self, HandleError> {
        // O_NONBLOCK: opening a pipe at this path must not wait for its other end.
        let flags = extra | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits())
            .open(path)
            .map(|file| Self::from_descriptor(OwnedFd::from(file)))
            .map_err(|source| HandleError::Open { location: Location::Path(path.to_owned()), source })
    }
}

/// The memory object of a handle. Copies share it.
#[derive(Clone, Debug)]
pub(in crate::shmem) enum Source {
    /// A file or memory object.
    Object(Arc<OwnedFd>),
    /// Memory of this process.
    Heap(Arc<HeapObject>),
}

/// Memory shared by writer and readers.
#[derive(Debug)]
pub(in crate::shmem) struct HeapObject {
    map: Arc<MmapRaw>,
    /// The size of the object.
    reserved_bytes: AtomicU64,
}

impl HeapObject {
    /// An object without any size yet.
    pub(super) fn new(map: MmapRaw) -> Self {
        Self { map: Arc::new(map), reserved_bytes: AtomicU64::new(0) }
    }

    /// Makes the object at least this large. Only its writer calls this.
    pub(super) fn reserve(&self, to: u64) {
        let reserved_bytes = self.size_bytes().max(to);
        // Pairs with the Acquire in `size_bytes`.
        self.reserved_bytes.store(reserved_bytes, Ordering::Release);
    }

    /// The size of the object in bytes.
    pub(super) fn size_bytes(&self) -> u64 {
        // Pairs with the Release in `reserve`, because a reader may not trust `published` beyond it.
        self.reserved_bytes.load(Ordering::Acquire)
    }

    /// The memory, shared.
    pub(super) fn memory(&self) -> Option<Memory> {
        Memory::from_heap(Arc::clone(&self.map))
    }
}

impl Source {
    /// The size of the object: bytes below it can be touched without a fault (I4).
    pub(in crate::shmem) fn size_bytes(&self) -> io::Result<u64> {
        match self {
            Self::Object(object) => Ok(size_bytes(&fstat(object)?)),
            Self::Heap(object) => Ok(object.size_bytes()),
        }
    }

    /// The fixed part of the header. The object is known to be large enough.
    pub(in crate::shmem) fn fixed_header(&self) -> Result<[u8; FIXED_BYTES], SegmentError> {
        let mut fixed = [0; FIXED_BYTES];
        match self {
            Self::Object(object) => {
                read_start(object, &mut fixed).map_err(|e| SegmentError::System { step: "reading", source: e })?;
            }
            Self::Heap(object) => {
                if let (Some(memory), true) = (object.memory(), object.size_bytes() >= HEADER_BYTES) {
                    let len = u64::try_from(FIXED_BYTES).unwrap_or(HEADER_BYTES);
                    // SAFETY: the object has a header (checked) and its fixed part was written before anybody could
                    // get a handle and never changes (I1).
                    fixed.copy_from_slice(unsafe { memory.bytes(0, len) });
                }
            }
        }
        Ok(fixed)
    }

    /// Refuses a source that is not a file or is too small for a header.
    pub(in crate::shmem) fn check(&self) -> Result<u64, SegmentError> {
        let failed = |source| SegmentError::System { step: "fstat", source };
        let found = match self {
            Self::Object(object) => {
                let found = fstat(object).map_err(|errno| failed(errno.into()))?;
                if SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT != SFlag::S_IFREG {
                    return Err(SegmentError::NotAFile { mode: found.st_mode });
                }
                size_bytes(&found)
            }
            Self::Heap(_) => self.size_bytes().map_err(failed)?,
        };
        if found < HEADER_BYTES {
            return Err(SegmentError::TooSmall { found, need: HEADER_BYTES });
        }
        Ok(found)
    }

    /// Maps the first `len` bytes for reading; the object may be shorter. Heap memory is mapped as a whole.
    pub(in crate::shmem) fn map(&self, len: u64) -> io::Result<Memory> {
        match self {
            Self::Object(object) => {
                let len = usize::try_from(len).map_err(io::Error::other)?;
                into_memory(MmapOptions::new().len(len).no_reserve_swap().map_raw_read_only(object.as_raw_fd())?)
            }
            Self::Heap(object) => object.memory().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData)),
        }
    }

    /// The protection against writes by this process.
    pub(in crate::shmem) fn protection(&self) -> Protection {
        match self {
            Self::Heap(_) => Protection::ProcessLocal,
            Self::Object(object) => match fcntl(object, FcntlArg::F_GET_SEALS) {
                Ok(seals) if SealFlag::from_bits_retain(seals).contains(SealFlag::F_SEAL_FUTURE_WRITE) => {
                    Protection::SealedFutureWrite
                }
                _ => Protection::ReadOnlyDescriptor,
            },
        }
    }
}

const fn identity(found: FileStat) -> (u64, u64) {
    (found.st_dev, found.st_ino)
}

/// A file's size is never negative.
fn size_bytes(found: &FileStat) -> u64 {
    u64::try_from(found.st_size).unwrap_or(0)
}

/// Fills `bytes` from the beginning of an object.
fn read_start(object: &OwnedFd, bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match pread(object, rest, i64::try_from(filled).map_err(io::Error::other)?) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// A handle to a named object: from its descriptor or, without /proc, by name if the name still belongs to the object.
pub(super) fn named_handle(
    object: &File,
    location: Location,
    by_name: impl FnOnce() -> Result<ReaderHandle, HandleError>,
) -> Result<ReaderHandle, HandleError> {
    if let Ok(file) = reopen_read_only(object.as_raw_fd()) {
        return Ok(ReaderHandle::from_descriptor(OwnedFd::from(file)));
    }
    let handle = by_name()?;
    let ours = fstat(object).ok().map(identity);
    if ours.is_some() && handle.identity() == ours { Ok(handle) } else { Err(HandleError::Replaced { location }) }
}

/// Opens the file of `descriptor` again, for reading only.
pub(super) fn reopen_read_only(descriptor: RawFd) -> io::Result<File> {
    File::open(format!("/proc/self/fd/{descriptor}"))
}
