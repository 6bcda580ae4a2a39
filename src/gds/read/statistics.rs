//! Use of a segment's bytes.

use super::reader::NamespaceReader;
use crate::gds::layout::segment_view::{Damage, SegmentView, root};
use crate::shmem::CellTable;

/// A part of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Section {
    /// Keys and their tables.
    Dictionary,
    /// Session, job and application tables, node indexes.
    JobRecord,
    /// Columns of nodes and processes, their strings included.
    Columns,
    /// The table of each rank's newest block.
    ModexTable,
    /// Heads and entries of blocks.
    Blocks,
    /// Posted strings, byte objects and archives.
    Payload,
    /// Verdicts for connections.
    CompletionTable,
}

impl Section {
    /// All sections, in the order of [`Statistics`].
    pub const ALL: [Self; 7] = [
        Self::Dictionary,
        Self::JobRecord,
        Self::Columns,
        Self::ModexTable,
        Self::Blocks,
        Self::Payload,
        Self::CompletionTable,
    ];

    /// A name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dictionary => "dictionary",
            Self::JobRecord => "job record",
            Self::Columns => "columns",
            Self::ModexTable => "modex table",
            Self::Blocks => "blocks",
            Self::Payload => "payload",
            Self::CompletionTable => "board",
        }
    }

    /// Index of the section's counter in the segment's table of statistics.
    pub(crate) const fn cell(self) -> u64 {
        match self {
            Self::Dictionary => 0,
            Self::JobRecord => 1,
            Self::Columns => 2,
            Self::ModexTable => 3,
            Self::Blocks => 4,
            Self::Payload => 5,
            Self::CompletionTable => 6,
        }
    }
}

/// Cells of the table of statistics: one for each section, and some in reserve.
pub(crate) const STATISTICS_CELLS: u64 = 8;

/// Sizes of a segment, in bytes. Superseded data (old records, absorbed blocks) is counted too: it stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Bytes written for each section, in the order of [`Section::ALL`].
    pub sections: [u64; Section::ALL.len()],
    /// The segment's header.
    pub header_bytes: u64,
    /// Readable bytes, header and padding included.
    pub published_bytes: u64,
    /// Bytes of memory taken; `None` for a reader, which cannot know.
    pub reserved_bytes: Option<u64>,
    /// The protection against writes by readers, for people.
    pub protection: String,
    /// Number of keys.
    pub key_count: u64,
    /// Capacity of the modex table in ranks; 0 before the first posted value.
    pub rank_count: u64,
}

impl Statistics {
    /// Bytes of one section.
    #[must_use]
    pub fn section(&self, section: Section) -> u64 {
        let index = usize::try_from(section.cell()).unwrap_or(usize::MAX);
        self.sections.get(index).copied().unwrap_or_default()
    }
}

impl NamespaceReader {
    /// Sizes of the segment, from the counters in it.
    ///
    /// # Errors
    /// [`Damage`].
    pub fn statistics(&self) -> Result<Statistics, Damage> {
        let segment = self.segment_view();
        let mut sections = [0; Section::ALL.len()];
        for (counter, section) in sections.iter_mut().zip(Section::ALL) {
            *counter = section_bytes(segment, section)?;
        }
        let key_count = crate::gds::layout::dictionary::ids(segment)?.fold(0, |count, _| count + 1);
        Ok(Statistics {
            sections,
            header_bytes: crate::shmem::HEADER_BYTES,
            published_bytes: self.segment().published_bytes()?,
            reserved_bytes: None,
            protection: format!("{:?}", self.segment().protection()),
            key_count,
            rank_count: segment.root_cells(root::MODEX)?.map_or(0, CellTable::cell_count),
        })
    }
}

/// Bytes written for a section so far.
pub(crate) fn section_bytes(segment: SegmentView<'_>, section: Section) -> Result<u64, Damage> {
    match segment.root_cells(root::STATISTICS)? {
        Some(counters) => counters.load(section.cell()).ok_or(Damage::Missing { what: "a counter" }),
        None => Ok(0),
    }
}
