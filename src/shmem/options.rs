//! A caller's options for a segment, and facts about the segment's memory.

use std::fmt;
use std::path::PathBuf;

/// Options of a new segment.
#[derive(Clone, Debug)]
pub struct SegmentOptions {
    /// Text that names the segment to people and to the layer above; at most [`LABEL_BYTES_MAX`] bytes.
    ///
    /// [`LABEL_BYTES_MAX`]: super::LABEL_BYTES_MAX
    pub label: String,
    /// Opaque identity of the process that writes it; at most [`OWNER_BYTES_MAX`] bytes.
    ///
    /// [`OWNER_BYTES_MAX`]: super::OWNER_BYTES_MAX
    pub owner: String,
    /// Maximum size of the segment in bytes, rounded up to a page. A memfd takes address space as it grows. The other
    /// backings reserve the span at once. If the system refuses it, they try smaller ones, and [`span_bytes`] returns
    /// the one granted.
    ///
    /// [`span_bytes`]: super::SegmentWriter::span_bytes
    pub span_bytes: u64,
    /// Kind of memory.
    pub backing: BackingKind,
    /// The directory of the file. Needed by [`BackingKind::File`], ignored by the others.
    pub directory: Option<PathBuf>,
    /// Time of creation in seconds since 1970, for people who inspect the segment. Zero if unknown.
    pub created_unix_s: u64,
}

impl SegmentOptions {
    /// The default span, in bytes: far more than a job needs.
    pub const SPAN_BYTES_DEFAULT: u64 = 8 << 30;

    /// A segment in a sealed memfd with the default span.
    #[must_use]
    pub fn new(label: impl Into<String>, owner: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            owner: owner.into(),
            span_bytes: Self::SPAN_BYTES_DEFAULT,
            backing: BackingKind::Memfd,
            directory: None,
            created_unix_s: 0,
        }
    }
}

/// Options of attaching to a segment.
#[derive(Clone, Debug)]
pub struct ReaderOptions {
    /// Upper bound of the address space reserved at first, in bytes. Below it a reader reserves
    /// [`ReaderOptions::FACTOR`] times the segment's present size, at least [`ReaderOptions::BYTES_MIN`]. A segment
    /// that outgrows its reservation is mapped again.
    pub reservation_bytes_max: u64,
}

impl ReaderOptions {
    /// Bytes that a reader reserves for each byte of a segment at the first mapping. Later data is faster to read if it
    /// lies in the first mapping.
    pub const FACTOR: u64 = 16;
    /// Minimum reservation of a reader, in bytes: small compared with limits on address space, and enough for most
    /// modexes.
    pub const BYTES_MIN: u64 = 64 << 20;

    /// Bytes to reserve for a segment of `object_bytes`.
    pub(super) fn wish_bytes(&self, object_bytes: u64) -> u64 {
        object_bytes.saturating_mul(Self::FACTOR).max(Self::BYTES_MIN).min(self.reservation_bytes_max)
    }
}

impl Default for ReaderOptions {
    fn default() -> Self {
        Self { reservation_bytes_max: u64::MAX }
    }
}

/// Kind of a segment's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BackingKind {
    /// Anonymous shared memory, reached by descriptor only.
    Memfd,
    /// A named POSIX shared-memory object (feature `posix-shm`).
    Posix,
    /// A file in a directory of the caller's choice.
    File,
    /// Memory of this process, for tests and simulation.
    Heap,
}

impl fmt::Display for BackingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memfd => "memfd",
            Self::Posix => "posix",
            Self::File => "file",
            Self::Heap => "heap",
        })
    }
}

/// Protection of a segment against writes by readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protection {
    /// The kernel refuses every writable mapping, through any descriptor.
    SealedFutureWrite,
    /// Readers hold a descriptor that is open for reading only.
    ReadOnlyDescriptor,
    /// Readers are in the writer's own process.
    ProcessLocal,
}

/// The place of a segment, and the limit of its size.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Location {
    /// Reachable only through a descriptor.
    Anonymous,
    /// A POSIX shared-memory object of this name.
    Name(String),
    /// A file at this path.
    Path(PathBuf),
    /// Inside this process.
    Process,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => f.write_str("anonymous shared memory (limited by the machine's memory and the cgroup)"),
            Self::Name(name) => write!(f, "shared-memory object {name} (limited by the size of /dev/shm)"),
            Self::Path(path) => write!(f, "file {} (limited by its file system and quota)", path.display()),
            Self::Process => f.write_str("memory of this process"),
        }
    }
}

/// Whether the writer may still write to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SegmentState {
    /// The writer may still publish.
    Live,
    /// The writer has finished: no further publication.
    Retired,
}
