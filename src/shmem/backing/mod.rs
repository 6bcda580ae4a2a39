//! The memory of a segment: one trait with four implementations. Only this module knows which is in use.
//!
//! A backing is the writer's side: a mapping whose first [`Backing::reserved_bytes`] have memory behind them. Readers
//! get a [`ReaderHandle`], which carries no right to write.

mod file;
mod growth;
mod handle;
mod heap;
mod memfd;
#[cfg(feature = "posix-shm")]
mod posix;

use std::fmt::Debug;

use super::error::{CreateError, GrowError, HandleError};
use super::memory::Memory;
use super::options::{Location, Protection};

pub(super) use growth::{PAGE_BYTES, next_reservation};
pub use handle::ReaderHandle;
pub(super) use handle::Source;

/// Memory that one writer maps and many readers may map.
///
/// Implementations promise (I4): every byte below `reserved_bytes` of `memory` has memory behind it and is zero unless
/// written. It stays while the backing or a reader's mapping lives. Only [`Backing::reserve`] moves the writer's
/// mapping.
pub(super) trait Backing: Send + Sync + Debug {
    /// The writer's mapping. It covers at least the reserved bytes.
    fn memory(&self) -> &Memory;
    /// The most bytes that [`Backing::reserve`] can ever give.
    fn span_bytes(&self) -> u64 {
        self.memory().len()
    }
    /// Bytes that have memory behind them.
    fn reserved_bytes(&self) -> u64;
    /// Puts memory behind every byte below `to`, which is at most the span. On failure nothing has changed.
    fn reserve(&mut self, to: u64) -> Result<(), GrowError>;
    /// Maps the bytes below `to`, which have memory behind them, at once instead of page by page at each first touch.
    /// Called just before the write, so that the kernel's zeros are still in the cache. It only saves time.
    fn populate(&mut self, _to: u64) {}
    /// A reader's handle for attaching.
    fn handle(&self) -> Result<ReaderHandle, HandleError>;
    /// The protection against writes by readers.
    fn protection(&self) -> Protection;
    /// The place of the segment, and the limit of its size.
    fn location(&self) -> Location;
}

pub(super) use select::create;

mod select;
