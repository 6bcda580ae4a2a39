//! Errors of segments.

use std::io;

use super::offset::{Offset, RootIndex};
use super::options::{BackingKind, Location};
use crate::os_error_hint::{explain, explain_mapping, is_shortage};

/// Why a segment could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The label or the owner does not fit the header.
    #[error("{what} of a segment is {found} bytes long, at most {max} fit; use a shorter one")]
    TextTooLong {
        /// "label" or "owner".
        what: &'static str,
        /// Length of the text.
        found: usize,
        /// The limit.
        max: usize,
    },
    /// The span asked for is too small or too large to be mapped at all.
    #[error("a segment's span must lie between {min} and {max} bytes, not {found}")]
    Span {
        /// The given value.
        found: u64,
        /// The smallest span.
        min: u64,
        /// The largest span.
        max: u64,
    },
    /// This build lacks the backing.
    #[error("this build has no {backing} backing; enable feature `posix-shm` or choose another backing")]
    Unavailable {
        /// The backing asked for.
        backing: BackingKind,
    },
    /// A file backing needs a directory.
    #[error("a segment in a file needs `SegmentOptions::directory`")]
    NoDirectory,
    /// Every name tried for the object was taken already.
    #[error("{attempts} names for a new segment were all taken, the last was {last}; remove stale ones")]
    NamesTaken {
        /// Number of names tried.
        attempts: u32,
        /// The last of them.
        last: String,
    },
    /// The object behind the segment could not be made.
    #[error("cannot make a segment in {location}: {step} failed: {}", explain(.source))]
    Object {
        /// The place of the segment.
        location: Location,
        /// The failed operation.
        step: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// Not even the smallest span could be mapped.
    #[error("cannot map {span_bytes} bytes for a segment: {}", explain_mapping(.source))]
    Map {
        /// The smallest span tried.
        span_bytes: u64,
        /// The system's error.
        source: io::Error,
    },
    /// There is no memory for the header.
    #[error(transparent)]
    Grow(#[from] GrowError),
}

/// Why a segment could not grow. It is as it was before the call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrowError {
    /// The system has no memory for it.
    #[error(
        "segment needs {need_bytes} bytes but only {have_bytes} are available in {location}; free space or raise \
     its limit"
    )]
    OutOfMemory {
        /// Bytes needed in all.
        need_bytes: u64,
        /// Bytes allocated so far.
        have_bytes: u64,
        /// The memory that ran out.
        location: Location,
        /// The system's error.
        source: io::Error,
    },
    /// The segment can't be mapped further.
    #[error("segment needs {need_bytes} bytes but they can't be mapped: {}", explain_mapping(.source))]
    Mapping {
        /// Bytes needed in all.
        need_bytes: u64,
        /// The system's error.
        source: io::Error,
    },
    /// The process may not make files this large.
    #[error("segment needs {need_bytes} bytes but files of this process are limited to {limit_bytes} (ulimit -f)")]
    FileSizeLimit {
        /// Bytes needed in all.
        need_bytes: u64,
        /// The limit in force.
        limit_bytes: u64,
    },
    /// The address space reserved for the segment is used up.
    #[error("segment needs {need_bytes} bytes but its span is {span_bytes}; make it with a larger span")]
    SpanExhausted {
        /// Bytes needed in all (saturated).
        need_bytes: u64,
        /// The span.
        span_bytes: u64,
    },
    /// The header has no room to list another table of atomic cells.
    #[error("a segment holds at most {max} tables; replace tables by fewer, larger ones")]
    TooManyTables {
        /// The limit.
        max: usize,
    },
}

/// A write that would break the rules of a segment: a bug of the layer above.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// Published bytes never change.
    #[error("write at {offset} but everything below {published:#x} is published and cannot change")]
    Published {
        /// Start of the write.
        offset: u64,
        /// Bytes published.
        published: u64,
    },
    /// The bytes have not been allocated.
    #[error("write of {len} bytes at {offset:#x} ends beyond the {allocated:#x} bytes allocated")]
    Unallocated {
        /// Start of the write.
        offset: u64,
        /// Its length.
        len: u64,
        /// Bytes allocated.
        allocated: u64,
    },
    /// There is no such table, or no such cell in it.
    #[error("no cell {index} in a table at {table}")]
    NoCell {
        /// Start of the table.
        table: Offset,
        /// The cell asked for.
        index: u64,
    },
    /// A root must point to published bytes.
    #[error("root {} cannot point to {target}, which is not below the {published:#x} bytes published", root.get())]
    RootUnpublished {
        /// The root.
        root: RootIndex,
        /// The refused target.
        target: Offset,
        /// Bytes published.
        published: u64,
    },
}

/// Why a handle for readers could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandleError {
    /// The object could not be opened (again) for reading.
    #[error("cannot open {location} for reading: {}", explain(.source))]
    Open {
        /// The object.
        location: Location,
        /// The system's error.
        source: io::Error,
    },
    /// Another object has taken the name.
    #[error("{location} is not the segment it was; another process has replaced it")]
    Replaced {
        /// The place.
        location: Location,
    },
}

/// Why a segment was refused by a reader.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// The descriptor is not a regular file or memory object.
    #[error("the descriptor received as a segment is not a file (mode {mode:#o})")]
    NotAFile {
        /// Type and mode bits the kernel reports.
        mode: u32,
    },
    /// The object is smaller than a header.
    #[error("segment has {found} bytes, fewer than the {need} of its header; it is truncated or still being made")]
    TooSmall {
        /// Its size.
        found: u64,
        /// The size of the header.
        need: u64,
    },
    /// The object does not start like a segment.
    #[error("not a segment: it starts with {found:02x?}")]
    Magic {
        /// Its first bytes.
        found: [u8; 8],
    },
    /// A machine of the other byte order wrote it.
    #[error("segment has byte order mark {found:#010x}, not {ours:#010x}; it was written by another kind of machine")]
    ByteOrder {
        /// The mark found.
        found: u32,
        /// The mark expected.
        ours: u32,
    },
    /// Its version is not ours.
    #[error("segment layout version is {found}, ours is {ours}; use requests over the socket instead")]
    Version {
        /// The version found.
        found: u32,
        /// The version this build reads.
        ours: u32,
    },
    /// Its layout is not ours.
    #[error(
        "segment layout is {found:#018x}, ours is {ours:#018x}; the server runs another build, \
         use requests over the socket instead"
    )]
    Layout {
        /// The layout found.
        found: u64,
        /// The layout expected.
        ours: u64,
    },
    /// It uses features this build does not know.
    #[error("segment uses unknown features {unknown:#x}; use requests over the socket instead")]
    Features {
        /// The unknown bits.
        unknown: u64,
    },
    /// A field of the header has an impossible value.
    #[error("segment header field {field} has the impossible value {value:#x}")]
    Field {
        /// Its name.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// It declares more bytes than the object has.
    #[error("segment declares {published} bytes but the object has {object_bytes}")]
    Truncated {
        /// Bytes declared.
        published: u64,
        /// Bytes of the object.
        object_bytes: u64,
    },
    /// Not even the present bytes could be mapped.
    #[error("cannot map {bytes} bytes of a segment; raise the limit on address space (ulimit -v)")]
    Map {
        /// Number of bytes.
        bytes: u64,
        /// The system's error.
        source: io::Error,
    },
    /// A system call failed.
    #[error("cannot examine a segment: {step} failed: {}", explain(.source))]
    System {
        /// The failed operation.
        step: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl SegmentError {
    /// Whether the process or the system has used up its descriptors or its memory.
    #[must_use]
    pub fn is_shortage(&self) -> bool {
        matches!(self, Self::Map { source, .. } | Self::System { source, .. } if is_shortage(source))
    }
}

impl HandleError {
    /// Whether the process or the system has used up its descriptors.
    #[must_use]
    pub fn is_shortage(&self) -> bool {
        matches!(self, Self::Open { source, .. } if is_shortage(source))
    }
}

/// Why bytes of a segment cannot be read. Nothing was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Corrupt {
    /// The bytes are not between the header and the end of the published bytes.
    #[error("segment has no {len} bytes at {offset:#x}; {published:#x} are published")]
    Range {
        /// Start of the range.
        offset: u64,
        /// Its length.
        len: u64,
        /// Bytes published.
        published: u64,
    },
    /// A number of elements whose size overflows.
    #[error("segment has no {count} elements of {size} bytes at {offset:#x}")]
    Count {
        /// Start of the array.
        offset: u64,
        /// Number of elements.
        count: u64,
        /// The size of each.
        size: u64,
    },
    /// The position does not suit the type.
    #[error("segment data at {offset:#x} is not aligned to {align} bytes")]
    Misaligned {
        /// The position.
        offset: u64,
        /// The alignment required.
        align: u64,
    },
    /// The bytes belong to a table of atomic cells.
    #[error("segment bytes at {offset:#x} ({len} of them) overlap atomic cells")]
    Cells {
        /// Start of the range.
        offset: u64,
        /// Its length.
        len: u64,
    },
    /// No table of cells starts there.
    #[error("segment has no table of atomic cells at {offset:#x}")]
    NotATable {
        /// Start of the word.
        offset: u64,
    },
    /// The table has no such cell.
    #[error("segment table at {table} has {cell_count} cells, not one with index {index}")]
    NoCell {
        /// Start of the table.
        table: Offset,
        /// Number of its cells.
        cell_count: u64,
        /// The cell asked for.
        index: u64,
    },
    /// The segment declares more bytes than there are.
    #[error("segment declares {published} bytes but the object has {object_bytes}")]
    Truncated {
        /// Bytes declared.
        published: u64,
        /// Bytes of the object.
        object_bytes: u64,
    },
    /// The system refused to map published bytes.
    #[error("cannot map {bytes} bytes of a segment (errno {errno}); raise the limit on address space (ulimit -v)")]
    Unmapped {
        /// Number of bytes.
        bytes: u64,
        /// The system's error number; zero if it gave none.
        errno: i32,
    },
    /// The system refused to return the size of the segment.
    #[error("cannot ask for the size of a segment (errno {errno})")]
    Size {
        /// The system's error number.
        errno: i32,
    },
    /// The segment's state is unknown.
    #[error("segment state {found} is unknown")]
    State {
        /// The number found.
        found: u32,
    },
}
