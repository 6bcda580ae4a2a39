//! The topology in a segment: written once by the server. [`Machine::attach`] reads it in place, in all other
//! processes.

use zerocopy::IntoBytes;

use super::digest::{Digest, DigestError};
use super::format::{TopologyHead, layout};
use super::machine::{HEAD, Machine, MachineError};
use crate::shmem::{
    Align, CreateError, GrowError, HandleError, Offset, ReaderHandle, SegmentOptions, SegmentWriter, WriteError,
};
use crate::types::Topology;

/// Label of the segment; other segments have a namespace there.
pub const LABEL: &str = "modex.topology";

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

    /// A handle for a reading process.
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

/// The segment's header, and the alignment of each part.
const SLACK_BYTES: u64 = 2 * crate::shmem::HEADER_BYTES;
/// Minimum size of a segment.
const SPAN_BYTES_MIN: u64 = 64 << 10;
