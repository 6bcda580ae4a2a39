//! The read interface of a machine's topology.

use super::cpu_set::{self, CpuSet};
use super::device_id;
use super::digest::{Digest, DigestError, XML_BYTES_MAX};
use super::format::{OBJECTS_MAX, ObjectRow, REMARKS_MAX, RemarkRow, SET_WORDS_MAX, TopologyHead, WORDS_MAX, layout};
use super::kind::Kind;
use super::locality::locality_string;
use super::rows::{Object, RowError, Rows};
use crate::shmem::{Corrupt, LayoutId, Offset, ReaderHandle, ReaderOptions, RootIndex, SegmentError, SegmentReader};
use crate::types::codes::device_type::{
    DEVTYPE_BLOCK, DEVTYPE_COPROC, DEVTYPE_GPU, DEVTYPE_NETWORK, DEVTYPE_OPENFABRICS,
};

/// The topology of a node.
///
/// It is in the segment that the server shares with all processes, or in this process's memory if it was received as
/// text.
///
/// ```
/// use modex::topo::{Kind, Machine};
///
/// let machine = Machine::of_xml(
///     r#"<topology version="2.0"><object type="Machine" cpuset="0x3">
///          <object type="Core" cpuset="0x1"><object type="PU" os_index="0" cpuset="0x1"/></object>
///          <object type="Core" cpuset="0x2"><object type="PU" os_index="1" cpuset="0x2"/></object>
///        </object></topology>"#,
/// )?;
/// assert_eq!(machine.of_kind(Kind::Core).count(), 2);
/// assert_eq!(machine.locality(&"1".parse()?), Some("hwloc:CR1:HT1".to_owned()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Machine(Place);

#[derive(Debug)]
enum Place {
    Memory { digest: Digest, xml: String },
    Segment(Box<Mapped>),
}

/// Why a segment is not a topology.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// It cannot be mapped, or has another layout.
    #[error(transparent)]
    Attach(#[from] SegmentError),
    /// A reference leads outside.
    #[error("the topology segment is damaged: {0}")]
    Corrupt(#[from] Corrupt),
    /// It is still empty.
    #[error("the topology segment has no content")]
    Empty,
    /// A count exceeds its limit.
    #[error("the topology segment is damaged: it announces {found} {what}, above the limit of {max}")]
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

/// A device and its distance from some processors.
///
/// Source: PMIx Standard, `pmix_device_distance_t`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceDistance {
    /// Its name in the whole system: a network address or identifier, else its local name.
    pub uuid: String,
    /// The operating system's name.
    pub name: String,
    /// `PMIX_DEVTYPE_*` bits.
    pub device_types: u64,
    /// Levels of the hierarchy between it and the nearest processor; [`DeviceDistance::UNKNOWN`] if unknown.
    pub nearest: u16,
    /// The same for the farthest processor.
    pub farthest: u16,
}

impl DeviceDistance {
    /// A distance that is not known.
    pub const UNKNOWN: u16 = u16::MAX;
}

impl Machine {
    /// Reads the XML that hwloc 2 or 3 writes.
    ///
    /// # Errors
    /// [`DigestError`].
    pub fn of_xml(xml: &str) -> Result<Self, DigestError> {
        Ok(Self(Place::Memory { digest: Digest::of_xml(xml)?, xml: xml.to_owned() }))
    }

    /// Maps a topology segment and checks every number in it.
    ///
    /// # Errors
    /// [`MachineError`].
    pub fn attach(handle: ReaderHandle) -> Result<Self, MachineError> {
        let reader = SegmentReader::attach(handle, layout_id(), &ReaderOptions::default())?;
        let head = *reader.read::<TopologyHead>(reader.root(HEAD).ok_or(MachineError::Empty)?)?;
        let mapped = Mapped { reader, head };
        mapped.check()?;
        Ok(Self(Place::Segment(Box::new(mapped))))
    }

    pub(super) fn rows(&self) -> Rows<'_> {
        match &self.0 {
            Place::Memory { digest, .. } => digest.rows(),
            Place::Segment(mapped) => mapped.rows(),
        }
    }

    /// The text it was read from.
    #[must_use]
    pub fn xml(&self) -> &str {
        match &self.0 {
            Place::Memory { xml, .. } => xml,
            Place::Segment(mapped) => mapped.xml(),
        }
    }

    /// The feature flags of the writer's hwloc, in the bytes that other libraries send; empty if unknown.
    #[must_use]
    pub fn support(&self) -> &[u8] {
        match &self.0 {
            Place::Memory { .. } => &[],
            Place::Segment(mapped) => mapped.support(),
        }
    }

    /// Whether it is in memory shared by the server.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        matches!(self.0, Place::Segment(_))
    }

    /// All objects, the machine first, each behind its parent.
    pub fn objects(&self) -> impl DoubleEndedIterator<Item = Object<'_>> + Clone {
        Object::all(self.rows())
    }

    /// The objects of a kind, in the order of the text. On all but odd machines this is the order of their numbers.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = Object<'_>> + Clone {
        self.objects().filter(move |object| object.kind() == kind)
    }

    /// All processors.
    #[must_use]
    pub fn processors(&self) -> &[u64] {
        self.objects().next().and_then(|machine| machine.processors()).unwrap_or_default()
    }

    /// Whether a set has all processors of the machine, or none of them. A process with such a set is not bound.
    #[must_use]
    pub fn is_unbound(&self, set: &CpuSet) -> bool {
        let all = self.processors();
        cpu_set::is_within(all, set.words()) || !cpu_set::intersect(all, set.words())
    }

    /// The numbers, ascending, of the objects of a kind that share a processor with a set.
    #[must_use]
    pub fn covering(&self, kind: Kind, set: &CpuSet) -> Vec<u32> {
        let shares = |object: &Object<'_>| {
            object.processors().is_some_and(|processors| cpu_set::intersect(processors, set.words()))
        };
        let mut numbers: Vec<u32> = self.of_kind(kind).filter(shares).map(|object| object.logical_index()).collect();
        numbers.sort_unstable();
        numbers
    }

    /// The locality string of a process that may run on these processors; `None` if it is not bound.
    ///
    /// Source: PMIx Standard, `PMIX_LOCALITY_STRING`.
    #[must_use]
    pub fn locality(&self, set: &CpuSet) -> Option<String> {
        if self.is_unbound(set) {
            return None;
        }
        let indices = PARTS.map(|(name, kind)| (name, self.covering(kind, set)));
        Some(locality_string(indices.iter().map(|(name, indices)| (*name, indices.as_slice()))))
    }

    /// The package of these processors; `None` if they belong to several or none.
    #[must_use]
    pub fn package_of(&self, set: &CpuSet) -> Option<u32> {
        match self.covering(Kind::Package, set).as_slice() {
            [package] => Some(*package),
            _ => None,
        }
    }

    /// Each device of the operating system, with its distance from a set of processors.
    #[must_use]
    pub fn distances(&self, set: &CpuSet) -> Vec<DeviceDistance> {
        let leaves = self.of_kind(Kind::Processor).find_map(|object| object.depth()).unwrap_or(0);
        self.of_kind(Kind::OsDevice).map(|device| distance(&device, set, leaves)).collect()
    }
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

fn distance(device: &Object<'_>, set: &CpuSet, leaves: u16) -> DeviceDistance {
    let levels = set.iter().map_while(|processor| {
        let common = device.ancestors().find(|place| place.has_processor(processor))?;
        // Memory is beside the hierarchy, but an ancestor has a level.
        let depth = std::iter::once(common).chain(common.ancestors()).find_map(|place| place.depth())?;
        Some(leaves.saturating_sub(depth))
    });
    let range = levels.fold(None, |range: Option<(u16, u16)>, level| {
        Some(range.map_or((level, level), |(near, far)| (near.min(level), far.max(level))))
    });
    let (nearest, farthest) = range.unwrap_or((DeviceDistance::UNKNOWN, DeviceDistance::UNKNOWN));
    DeviceDistance {
        uuid: identity(device),
        name: device.name().to_owned(),
        device_types: device.device_types(),
        nearest,
        farthest,
    }
}

/// A device's id. A device without one has its name.
pub(super) fn identity(device: &Object<'_>) -> String {
    let kinds = device.device_types();
    let is_of = |kind: u64| kinds & kind != 0;
    let on_node = |scheme| {
        let node = device.ancestors().last()?.remark("HostName")?;
        Some(device_id::on_node(scheme, node, device.name()))
    };
    let id = match kinds {
        _ if is_of(DEVTYPE_OPENFABRICS) => device
            .remark("NodeGUID")
            .zip(device.remark("SysImageGUID"))
            .map(|(node_guid, system_guid)| device_id::of_adapter(node_guid, system_guid)),
        _ if is_of(DEVTYPE_NETWORK) => device.remark("Address").and_then(device_id::of_interface),
        _ if is_of(DEVTYPE_GPU | DEVTYPE_COPROC) => on_node("gpu"),
        _ if is_of(DEVTYPE_BLOCK) => on_node("blk"),
        _ => None,
    };
    id.unwrap_or_else(|| device.name().to_owned())
}

/// Kinds of parts in the order of locality strings.
const PARTS: [(&str, Kind); 7] = [
    ("SK", Kind::Package),
    ("L3", Kind::L3Cache),
    ("L2", Kind::L2Cache),
    ("L1", Kind::L1Cache),
    ("CR", Kind::Core),
    ("HT", Kind::Processor),
    ("NM", Kind::NumaNode),
];

/// The layout id of topology segments of this build.
#[must_use]
pub fn layout_id() -> LayoutId {
    LayoutId::of(layout())
}

/// Root of a topology segment: its head.
pub(super) const HEAD: RootIndex = RootIndex::of::<0>();

/// Limit of support flags: twice as many as any hwloc has.
const SUPPORT_BYTES_MAX: u32 = 64;
