//! A reader's mappings of one segment.
//!
//! Usually there is one mapping, several times as long as the segment. A segment that outgrows it is mapped again from
//! the first byte on, longer than before. If address space is short, the first mapping covers only the present bytes.
//! Earlier mappings stay, because values may be borrowed from them. There is no lock: of two mappings made in a race
//! one is dropped.

use std::io;
use std::sync::OnceLock;

use super::backing::Source;
use super::error::{Corrupt, SegmentError};
use super::header::HEADER_BYTES;
use super::memory::Memory;

/// The bytes of a segment as one process sees them.
#[derive(Debug)]
pub(super) struct Region {
    source: Source,
    span_bytes: u64,
    first: Memory,
    /// Separate, and made on demand: hardly any reader has a second mapping.
    later: OnceLock<Box<Later>>,
}

type Later = [OnceLock<Memory>; REMAP_COUNT_MAX];

/// Maximum number of mappings. Each at least doubles the length while the system allows it, and 33 doublings lead from
/// one page to the largest span. The rest is for systems that allow less.
const REMAP_COUNT_MAX: usize = 64;

impl Region {
    /// Maps `source`, which has `object_bytes` bytes now and at most `span_bytes` ever. Maps `wish_bytes` if the system
    /// grants that, else the present bytes.
    pub(super) fn map(
        source: Source,
        object_bytes: u64,
        span_bytes: u64,
        wish_bytes: u64,
    ) -> Result<Self, SegmentError> {
        let wish = span_bytes.min(wish_bytes).max(HEADER_BYTES);
        let there = object_bytes.min(wish).max(HEADER_BYTES);
        let first = source
            .map(wish)
            .or_else(|_| source.map(there))
            .map_err(|source| SegmentError::Map { bytes: there, source })?;
        Ok(Self { source, span_bytes, first, later: OnceLock::new() })
    }

    /// The mapping that holds the header.
    #[inline]
    pub(super) fn first(&self) -> &Memory {
        &self.first
    }

    /// The mapped source.
    #[inline]
    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    /// A mapping that reaches to `end`, which is readable.
    #[inline(always)]
    pub(super) fn reaching(&self, end: u64) -> Result<&Memory, Corrupt> {
        if end <= self.first.len() {
            return Ok(&self.first);
        }
        self.later_reaching(end)
    }

    /// Number of mappings and bytes of address space they take.
    pub(super) fn mapped(&self) -> (usize, u64) {
        let later = self.later.get().into_iter().flat_map(|later| later.iter().filter_map(OnceLock::get));
        later.fold((1, self.first.len()), |(count, bytes), memory| (count + 1, bytes.saturating_add(memory.len())))
    }

    #[cold]
    fn later_reaching(&self, end: u64) -> Result<&Memory, Corrupt> {
        let mut last = self.first.len();
        for slot in self.later.get_or_init(|| Box::new([const { OnceLock::new() }; REMAP_COUNT_MAX])).iter() {
            if slot.get().is_none() {
                let memory = self.map_again(last, end)?;
                // If another thread was faster, its mapping is used and ours is dropped.
                let _ = slot.set(memory);
            }
            match slot.get() {
                Some(memory) if end <= memory.len() => return Ok(memory),
                Some(memory) => last = memory.len(),
                None => {}
            }
        }
        Err(Corrupt::Unmapped { bytes: end, errno: 0 })
    }

    /// A mapping up to `end` and, if the system allows, far beyond.
    fn map_again(&self, last: u64, end: u64) -> Result<Memory, Corrupt> {
        let generous = last.saturating_mul(2).min(self.span_bytes).max(end);
        self.source
            .map(generous)
            .or_else(|_| self.source.map(end))
            .map_err(|e: io::Error| Corrupt::Unmapped { bytes: end, errno: e.raw_os_error().unwrap_or(0) })
    }
}
