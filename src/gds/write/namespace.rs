//! All that a server holds of one namespace: the segment, received values that are not in it yet, and the completion
//! table.
//!
//! The place of received values in the segment is fixed in advance. So they are published before anything else is
//! allocated.

use super::arrivals::Arrivals;
use super::completion_table::{CompletionNotice, CompletionTable};
use super::writer::NamespaceWriter;
use crate::gds::datastore::Committed;
use crate::gds::error::StoreError;
use crate::gds::job_record::JobRecord;
use crate::gds::lookup::{Origin, Posted};
use crate::types::LentEntry;

/// The data of one namespace.
#[derive(Debug)]
pub(super) struct NamespaceData {
    /// For calls that allocate nothing in the segment.
    pub(super) writer: NamespaceWriter,
    arrivals: Arrivals,
    /// The completion table, once a connection has a slot.
    completion_table: Option<CompletionTable>,
}

impl NamespaceData {
    /// A namespace without received values and without a completion table.
    pub(super) fn new(writer: NamespaceWriter) -> Self {
        Self { writer, arrivals: Arrivals::default(), completion_table: None }
    }

    /// Replaces the job record.
    pub(super) fn write_record(&mut self, job: &JobRecord) -> Result<(), StoreError> {
        self.publish_arrivals()?;
        self.writer.write_record(job)
    }

    /// Publishes a rank's commit, and returns its effect.
    pub(super) fn append_block(
        &mut self,
        rank: u32,
        origin: Origin,
        values: &[Posted],
    ) -> Result<Committed, StoreError> {
        self.publish_arrivals()?;
        self.writer.append_block(rank, origin, values)
    }

    /// Prepares some of the memory for a large value. Returns whether more is to be prepared.
    pub(super) fn prepare_some(&mut self, size_bytes: u64) -> bool {
        self.writer.prepare_some(size_bytes)
    }

    /// Takes over the block of a remote process. Returns the number of blocks that are not published yet.
    pub(super) fn take_arrival(&mut self, rank: u32, entries: &[LentEntry<'_>]) -> Result<usize, StoreError> {
        self.arrivals.take(&mut self.writer, rank, entries)
    }

    /// Publishes the received blocks. Returns their number.
    pub(super) fn publish_arrivals(&mut self) -> Result<usize, StoreError> {
        self.arrivals.publish(&mut self.writer)
    }

    /// Gives a connection its slot, if the slot is free. The first call makes the completion table, with a size for
    /// about
    /// `connections`.
    pub(super) fn take_slot(&mut self, connection: u32, connections: u32) -> Result<bool, StoreError> {
        if connection == 0 {
            return Ok(false);
        }
        let completion_table = match self.completion_table.take() {
            Some(completion_table) => completion_table,
            None => {
                self.publish_arrivals()?;
                CompletionTable::create(&mut self.writer, connections)?
            }
        };
        self.completion_table.insert(completion_table).take_slot(&mut self.writer.segment, connection)
    }

    /// Takes a slot back. The last verdict stays there until the slot has a new owner.
    pub(super) fn free_slot(&mut self, connection: u32) {
        if let Some(completion_table) = &mut self.completion_table {
            completion_table.free_slot(connection);
        }
    }

    /// Writes verdicts, and wakes their connections if they sleep.
    pub(super) fn complete_waits(&mut self, notices: &[CompletionNotice]) -> Result<(), StoreError> {
        self.completion_table.as_ref().map_or(Ok(()), |table| table.complete_waits(&mut self.writer.segment, notices))
    }
}
