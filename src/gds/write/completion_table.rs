//! The completion table of a namespace: a server wakes sleeping processes through it instead of sending each a message.
//!
//! The root `COMPLETION_TABLE` leads to a table of cells, the *slots*. A slot belongs to one connection as long as the
//! connection lives. It holds one word: the owner, and the last verdict. The futex word `generation` wakes the
//! sleepers, in classes.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use super::writer::NamespaceWriter;
use crate::gds::error::StoreError;
use crate::gds::layout::segment_view::root;
use crate::gds::read::reader::NamespaceReader;
use crate::gds::read::statistics::Section;
use crate::shmem::{CellTable, GenerationWait, SegmentWriter, TableRef};

/// The verdict on a request of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionNotice {
    /// The number that the server gave to the connection.
    pub connection: u32,
    /// The tag of its request: not zero, and below [`REQUESTS_END`].
    pub request: u32,
    /// The verdict.
    pub verdict: CompletionStatus,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionStatus {
    /// The request has succeeded. No message follows.
    Succeeded,
    /// A message brings the outcome.
    InMessage,
}

/// End of the range of tags.
pub const REQUESTS_END: u32 = IN_MESSAGE;
const IN_MESSAGE: u32 = 1 << 31;

impl CompletionNotice {
    const fn word(self) -> u64 {
        let flag = match self.verdict {
            CompletionStatus::Succeeded => 0,
            CompletionStatus::InMessage => IN_MESSAGE,
        };
        owner_word(self.connection) | (self.request | flag) as u64
    }
}

/// The word of a slot before the first verdict.
const fn owner_word(connection: u32) -> u64 {
    (connection as u64) << 32
}

/// The only slot that a connection may have.
fn slot_of(connection: u32, slot_count: u64) -> u64 {
    u64::from(connection).checked_rem(slot_count).unwrap_or_default()
}

/// The wake-up class of a connection.
const fn classes_of(connection: u32) -> NonZeroU32 {
    match NonZeroU32::new(1 << (connection % u32::BITS)) {
        Some(classes) => classes,
        None => NonZeroU32::MIN,
    }
}

/// The server's side of a completion table.
#[derive(Debug)]
pub(super) struct CompletionTable {
    slots: TableRef,
    /// Connections that have their slots.
    owners: BTreeSet<u32>,
}

impl CompletionTable {
    /// Makes a completion table with a size for about `connections`.
    pub(super) fn create(writer: &mut NamespaceWriter, connections: u32) -> Result<Self, StoreError> {
        let slot_count = connections.saturating_mul(SLOTS_PER_CONNECTION).clamp(SLOTS_MIN, SLOTS_MAX);
        let slots = writer.new_table(u64::from(slot_count.next_power_of_two()))?;
        writer.count(Section::CompletionTable, slots.cell_count().saturating_mul(size_of::<u64>() as u64))?;
        writer.set_root(root::COMPLETION_TABLE, slots.offset().get())?;
        Ok(Self { slots, owners: BTreeSet::new() })
    }

    /// Gives a connection its slot, if the slot is free.
    pub(super) fn take_slot(&mut self, segment: &mut SegmentWriter, connection: u32) -> Result<bool, StoreError> {
        let slot = slot_of(connection, self.slots.cell_count());
        let owner = u32::try_from(segment.load(self.slots, slot)? >> 32).unwrap_or_default();
        if self.owners.contains(&owner) {
            return Ok(false);
        }
        segment.store(self.slots, slot, owner_word(connection))?;
        self.owners.insert(connection);
        Ok(true)
    }

    /// Takes a slot back. The last verdict stays there until the slot has a new owner.
    pub(super) fn free_slot(&mut self, connection: u32) {
        self.owners.remove(&connection);
    }

    /// Writes verdicts, and wakes their connections if they sleep.
    pub(super) fn complete_waits(
        &self,
        segment: &mut SegmentWriter,
        notices: &[CompletionNotice],
    ) -> Result<(), StoreError> {
        let mut classes = None;
        for notice in notices.iter().filter(|notice| self.owners.contains(&notice.connection)) {
            segment.store(self.slots, slot_of(notice.connection, self.slots.cell_count()), notice.word())?;
            let own = classes_of(notice.connection);
            classes = Some(classes.map_or(own, |others: NonZeroU32| others | own));
        }
        if let Some(classes) = classes {
            segment.wake_classes(classes);
        }
        Ok(())
    }
}

/// The slot of a connection at the completion table of its namespace.
#[derive(Clone, Copy, Debug)]
pub struct CompletionSlot<'a> {
    reader: &'a NamespaceReader,
    cells: CellTable<'a>,
    connection: u32,
    /// The word of the slot before the current request.
    before: u64,
}

impl NamespaceReader {
    /// A connection's slot at the completion table, if it has one. Take it anew before each request.
    #[must_use]
    pub fn slot(&self, connection: u32) -> Option<CompletionSlot<'_>> {
        let cells = self.segment().root_cells(root::COMPLETION_TABLE).ok().flatten()?;
        let before = cells.load(slot_of(connection, cells.cell_count()))?;
        let is_own = before >> 32 == u64::from(connection) && connection != 0;
        is_own.then_some(CompletionSlot { reader: self, cells, connection, before })
    }
}

impl CompletionSlot<'_> {
    /// The verdict on a request, if there is one.
    #[must_use]
    pub fn look(&self, request: u32) -> Option<CompletionStatus> {
        let word = self.cells.load(slot_of(self.connection, self.cells.cell_count()))?;
        let says = |verdict| CompletionNotice { connection: self.connection, request, verdict }.word() == word;
        // Request numbers repeat. The earlier word was about another request with this number.
        [CompletionStatus::Succeeded, CompletionStatus::InMessage]
            .into_iter()
            .find(|&verdict| word != self.before && says(verdict))
    }

    /// Sleeps until there is a verdict on a request; `None` once `left` returns zero. `left` is called after each other
    /// wake-up.
    pub fn sleep(&self, request: u32, left: impl Fn() -> Duration) -> Option<CompletionStatus> {
        loop {
            // Read before `look`: a later verdict changes the generation.
            let seen = self.reader.segment().generation();
            let left = left();
            if let Some(verdict) = self.look(request) {
                return Some(verdict);
            }
            let classes = classes_of(self.connection);
            if left.is_zero() || self.reader.segment().wait_in_classes(seen, classes, left) == GenerationWait::TimedOut
            {
                return None;
            }
        }
    }
}

/// Number of slots for each connection: processes that connect again get new numbers and need a free slot.
const SLOTS_PER_CONNECTION: u32 = 2;
const SLOTS_MIN: u32 = 64;
const SLOTS_MAX: u32 = 1 << 16;
