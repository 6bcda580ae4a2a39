//! The read interface of a machine's topology.

use super::cpu_set::{self, CpuSet};
use super::digest::{Digest, DigestError};
use super::kind::Kind;
use super::locality::locality_string;
use super::rows::{Object, Rows};
use super::segment::Mapped;

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

    pub(super) fn mapped(mapped: Mapped) -> Self {
        Self(Place::Segment(Box::new(mapped)))
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

    /// Whether a set has all processors of the machine, or none of them: a process with such a set is not bound.
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
        uuid: identity(device).to_owned(),
        name: device.name().to_owned(),
        device_types: device.device_types(),
        nearest,
        farthest,
    }
}

/// A device's name in the whole system.
pub(super) fn identity<'a>(device: &Object<'a>) -> &'a str {
    let remarks = ["Address", "NodeGUID"].into_iter();
    remarks.filter_map(|name| device.remark(name)).next().unwrap_or_else(|| device.name())
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
