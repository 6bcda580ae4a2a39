//! The topology in a segment: written once by the server, read in place by all other processes.

use zerocopy::IntoBytes;

use super::digest::{Digest, DigestError};
use super::format::{OBJECTS_MAX, ObjectRow, REMARKS_MAX, RemarkRow, SET_WORDS_MAX, TopologyHead, WORDS_MAX, layout};
use super::machine::Machine;
use super::rows::{RowError, Rows};
use super::xml::XML_BYTES_MAX;
use crate::shmem::{
    Align, AttachError, Corrupt, CreateError, GrowError, HandleError, LayoutId, Offset, ReaderHandle, ReaderOptions,
    RootIndex, SegmentOptions, SegmentReader, SegmentWriter, WriteError,
};
use crate::types::Topology;

/// Label of the segment; other segments have a namespace there.
pub const LABEL: &str = "modex.topology";

const HEAD: RootIndex = RootIndex::of::<0>();

/// Why a topology cannot be shared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShareError {
    /// The topology has no XML.
    #[error("the topology has no XML")]
    Absent,
    /// It is not UTF-8.
    #[error("the topology's XML is not UTF-8")]
    NotText,
    /// It cannot be read.
    #[error(transparent)]
    Digest(#[from] DigestError),
    /// The segment could not be made.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The segment could not grow.
    #[error(transparent)]
    Grow(#[from] GrowError),
    /// The writer breaks its own rules.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// No handle for readers could be made.
    #[error(transparent)]
    Handle(#[from] HandleError),
    /// The written segment cannot be read back.
    #[error(transparent)]
    Attach(#[from] MachineError),
}

/// Why a segment is not a topology.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// It cannot be mapped, or has another layout.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// A reference leads outside.
    #[error("the topology segment is damaged: {0}")]
    Corrupt(#[from] Corrupt),
    /// It is still empty.
    #[error("the topology segment has no content")]
    Empty,
    /// A count exceeds its limit.
    #[error("the topology segment is damaged: it says it has {found} {what}, at most {max} can be")]
    Count {
        /// The quantity.
        what: &'static str,
        /// Its value.
        found: u32,
        /// The limit.
        max: u32,
    },
    /// The rows contradict themselves.
    #[error("the topology segment is damaged: {0}")]
    Rows(#[from] RowError),
    /// Its XML is not UTF-8.
    #[error("the topology segment is damaged: its XML is not UTF-8")]
    NotText,
}

/// The segment that a server shares with all processes.
#[derive(Debug)]
pub struct SharedMachine {
    writer: SegmentWriter,
    machine: Machine,
}

impl SharedMachine {
    /// Writes a topology into a new segment. This function sets the label and the span of the options.
    ///
    /// # Errors
    /// [`ShareError`].
    pub fn publish(topology: &Topology, options: &SegmentOptions) -> Result<Self, ShareError> {
        let xml = topology.xml.as_ref().ok_or(ShareError::Absent)?;
        let xml = std::str::from_utf8(xml.as_bytes()).map_err(|_| ShareError::NotText)?;
        let digest = Digest::of_xml(xml)?;
        let parts = Parts { digest: &digest, xml, support: &topology.support };
        let options = SegmentOptions { label: LABEL.to_owned(), span_bytes: parts.span_bytes(), ..options.clone() };
        let mut writer = SegmentWriter::create(&options, layout())?;
        let head = parts.write(&mut writer)?;
        let head = writer.append(head.as_bytes(), Align::Eight)?;
        writer.publish();
        writer.set_root(HEAD, head)?;
        let machine = Machine::attach(writer.handle()?)?;
        Ok(Self { writer, machine })
    }

    /// A handle for a process that is to read it.
    ///
    /// # Errors
    /// [`HandleError`].
    pub fn handle(&self) -> Result<ReaderHandle, HandleError> {
        self.writer.handle()
    }

    /// The machine in the segment.
    #[must_use]
    pub const fn machine(&self) -> &Machine {
        &self.machine
    }
}

struct Parts<'a> {
    digest: &'a Digest,
    xml: &'a str,
    support: &'a [u8],
}

impl Parts<'_> {
    /// Size of the segment: all parts, their alignment, and the header.
    fn span_bytes(&self) -> u64 {
        let Digest { objects, remarks, sets, texts, .. } = self.digest;
        let tables = size_of_val(objects.as_slice()) + size_of_val(remarks.as_slice()) + size_of_val(sets.as_slice());
        let bytes = tables + texts.len() + self.xml.len() + self.support.len() + size_of::<TopologyHead>();
        u64::try_from(bytes).unwrap_or(u64::MAX).saturating_add(SLACK_BYTES).max(SPAN_BYTES_MIN)
    }

    fn write(&self, writer: &mut SegmentWriter) -> Result<TopologyHead, GrowError> {
        let Digest { objects, remarks, sets, texts, set_words } = self.digest;
        let mut put = |bytes: &[u8]| match bytes {
            [] => Ok(0),
            bytes => writer.append(bytes, Align::Eight).map(Offset::get),
        };
        // The limits of a digest keep all of these within 32 bits.
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        Ok(TopologyHead {
            objects: put(objects.as_bytes())?,
            remarks: put(remarks.as_bytes())?,
            sets: put(sets.as_bytes())?,
            texts: put(texts)?,
            xml: put(&[self.xml.as_bytes(), &[0]].concat())?,
            support: put(self.support)?,
            object_count: count(objects.len()),
            remark_count: count(remarks.len()),
            set_count: count(sets.len().checked_div(*set_words as usize).unwrap_or(0)),
            set_words: *set_words,
            text_bytes: count(texts.len()),
            xml_bytes: count(self.xml.len()),
            support_bytes: count(self.support.len()),
            reserved: 0,
        })
    }
}

impl Machine {
    /// Maps a topology segment and checks every number in it.
    ///
    /// # Errors
    /// [`MachineError`].
    pub fn attach(handle: ReaderHandle) -> Result<Self, MachineError> {
        let reader = SegmentReader::attach(handle, layout_id(), &ReaderOptions::default())?;
        let head = *reader.read::<TopologyHead>(reader.root(HEAD).ok_or(MachineError::Empty)?)?;
        let mapped = Mapped { reader, head };
        mapped.check()?;
        Ok(Self::mapped(mapped))
    }
}

/// The layout id of topology segments of this build.
#[must_use]
pub fn layout_id() -> LayoutId {
    LayoutId::of(layout())
}

/// A segment that has been checked.
#[derive(Debug)]
pub(super) struct Mapped {
    reader: SegmentReader,
    head: TopologyHead,
}

impl Mapped {
    fn check(&self) -> Result<(), MachineError> {
        let head = &self.head;
        let limits = [
            ("objects", head.object_count, OBJECTS_MAX),
            ("remarks", head.remark_count, REMARKS_MAX),
            ("words a set", head.set_words, SET_WORDS_MAX),
            ("words of sets", head.set_count.saturating_mul(head.set_words), WORDS_MAX),
            ("bytes of XML", head.xml_bytes, u32::try_from(XML_BYTES_MAX).unwrap_or(u32::MAX)),
            ("bytes of support", head.support_bytes, SUPPORT_BYTES_MAX),
        ];
        for (what, found, max) in limits {
            if found > max {
                return Err(MachineError::Count { what, found, max });
            }
        }
        self.try_rows()?.check()?;
        self.bytes(head.support, head.support_bytes)?;
        std::str::from_utf8(self.bytes(head.xml, head.xml_bytes)?).map_err(|_| MachineError::NotText)?;
        Ok(())
    }

    fn try_rows(&self) -> Result<Rows<'_>, Corrupt> {
        let TopologyHead { objects, remarks, sets, texts, object_count, remark_count, .. } = self.head;
        let word_count = u64::from(self.head.set_count).saturating_mul(self.head.set_words.into());
        Ok(Rows {
            objects: self.array::<ObjectRow>(objects, object_count.into())?,
            remarks: self.array::<RemarkRow>(remarks, remark_count.into())?,
            sets: self.array::<u64>(sets, word_count)?,
            set_words: self.head.set_words,
            texts: self.bytes(texts, self.head.text_bytes)?,
        })
    }

    /// All tables were checked when the segment was attached, and published bytes do not change.
    pub(super) fn rows(&self) -> Rows<'_> {
        self.try_rows().unwrap_or(Rows { objects: &[], remarks: &[], sets: &[], set_words: 0, texts: &[] })
    }

    pub(super) fn xml(&self) -> &str {
        let bytes = self.bytes(self.head.xml, self.head.xml_bytes).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    pub(super) fn support(&self) -> &[u8] {
        self.bytes(self.head.support, self.head.support_bytes).unwrap_or_default()
    }

    fn bytes(&self, offset: u64, length: u32) -> Result<&[u8], Corrupt> {
        match Offset::from_raw(offset).filter(|_| length > 0) {
            Some(offset) => self.reader.slice(offset, length.into()),
            None => Ok(&[]),
        }
    }

    fn array<T: zerocopy::FromBytes + zerocopy::KnownLayout + zerocopy::Immutable>(
        &self,
        offset: u64,
        count: u64,
    ) -> Result<&[T], Corrupt> {
        match Offset::from_raw(offset).filter(|_| count > 0) {
            Some(offset) => self.reader.array(offset, count),
            None => Ok(&[]),
        }
    }
}

/// The segment's header, and the alignment of each part.
const SLACK_BYTES: u64 = 2 * crate::shmem::HEADER_BYTES;
/// Minimum size of a segment.
const SPAN_BYTES_MIN: u64 = 64 << 10;
/// Limit of support flags: twice as many as any hwloc has.
const SUPPORT_BYTES_MAX: u32 = 64;
