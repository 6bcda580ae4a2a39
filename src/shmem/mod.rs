//! Raw shared memory: bytes, offsets and atomics, without any PMIx term.
//!
//! A *segment* is one append-only object with one writer ([`SegmentWriter`]) and any number of readers
//! ([`SegmentReader`]) in other processes. The writer allocates, fills and publishes bytes, then links them from a root
//! or from a cell of a table. A reader follows roots and cells to offsets and borrows the bytes there. Readers take no
//! lock, make no system call and write nothing, so a reader's death has no effect.
//!
//! ```
//! use modex::shmem::{Align, ReaderOptions, RootIndex, SegmentOptions, SegmentReader, SegmentWriter};
//!
//! const GREETING: RootIndex = RootIndex::of::<0>();
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut writer = SegmentWriter::create(&SegmentOptions::new("demo", "example.0"), "greeting=bytes")?;
//! let reader = SegmentReader::attach(writer.handle()?, writer.layout_id(), &ReaderOptions::default())?;
//!
//! let greeting = writer.append(b"hello", Align::Eight)?;
//! assert!(reader.slice(greeting, 5).is_err(), "not published yet");
//! writer.publish();
//! writer.set_root(GREETING, greeting)?;
//!
//! let found = reader.root(GREETING).ok_or("no greeting")?;
//! assert_eq!(reader.slice(found, 5)?, b"hello");
//! # Ok(())
//! # }
//! ```
//!
//! # Invariants
//! The SAFETY comments cite these.
//!
//! - **I1** Bytes below `published` never change, except atomics. The writer hands out mutable access only above it,
//!   and `published` never decreases.
//! - **I2** Atomics are the words of the header from byte 1024 on and the cells of tables. Once other processes can see
//!   them, every access is atomic. Every table is listed in the header before its bytes are published; no reference to
//!   bytes ever covers an atomic.
//! - **I3** Readers touch nothing at or above `published`.
//! - **I4** Every byte below the size of the object has memory behind it and can be touched without a fault; the object
//!   never shrinks. The writer allocates only below its reserved size. A reader believes `published` only up to the
//!   size that the kernel reports. (Memfds are sealed against shrinking. For files and POSIX objects the writer
//!   promises it, and only the writer may write them.)
//! - **I5** A mapping starts at a multiple of 64. It neither moves nor ends before its `Memory` is dropped. A reader
//!   drops no mapping before it is dropped itself.
//!
//! Beside segments there are two files: `fork_mark`, for a separate page, and `hangup`, for a system call that no crate
//! wraps.
//!
//! I1 to I3 hold for segments made by [`SegmentWriter`]. A reader trusts the sender of the segment, but none of the
//! numbers in it.

#![expect(unsafe_code, reason = "mapped memory is reached through addresses; see the invariants above")]

mod backing;
mod cells;
mod error;
mod fetch;
mod fork_mark;
mod futex;
mod hangup;
mod header;
mod memory;
mod offset;
mod options;
mod publication;
mod reader;
mod region;
mod sync;
mod verified_range;
mod writer;

#[cfg(test)]
#[cfg(loom)]
mod loom_model;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use backing::ReaderHandle;
pub use error::{Corrupt, CreateError, GrowError, HandleError, SegmentError, WriteError};
pub use fetch::fetch;
#[doc(hidden)]
pub use fork_mark::ForkMark;
#[doc(hidden)]
pub use hangup::signal_group_on_hangup;
pub use header::{HEADER_BYTES, LABEL_BYTES_MAX, LayoutId, OWNER_BYTES_MAX, Preamble, SegmentInfo, TABLE_COUNT_MAX};
pub use offset::{Align, Offset, ROOT_COUNT, RootIndex, TableRef};
pub use options::{BackingKind, Location, Protection, ReaderOptions, SegmentOptions, SegmentState};
pub use reader::{GenerationWait, SegmentReader};
pub use verified_range::{CellTable, VerifiedRange};
pub use writer::{Mark, SegmentWriter};
