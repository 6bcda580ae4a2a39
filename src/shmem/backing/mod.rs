//! Where the bytes of a segment live: one trait, four implementations, and nobody else knows which is in use.
//!
//! A backing is the writer's side: a mapping of which the first [`Backing::reserved_bytes`] have memory behind them. Readers get a [`ReaderHandle`], which carries no right to write.

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
/// Implementations promise (I4): every byte below `reserved_bytes` of `memory` is backed by memory and zero unless
/// written, and never goes away while the backing or a reader's mapping lives. The writer's mapping moves in
/// [`Backing::reserve`] alone.
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
    /// Maps every byte below `to`, which has memory behind it, at once instead of page by page as it is touched. Called
    /// just before it is, so that the kernel's zeros are still in the cache. That is a matter of time alone.
    fn populate(&mut self, _to: u64) {}
    /// What a reader needs to attach.
    fn handle(&self) -> Result<ReaderHandle, HandleError>;
    /// What keeps readers from writing.
    fn protection(&self) -> Protection;
    /// Where it can be found, and what limits it.
    fn location(&self) -> Location;
}

pub(super) use select::create;

mod select;
