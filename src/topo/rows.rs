//! The rows of a topology, checked once, and their read access.

use super::cpu_set;
use super::format::{NO_DEPTH, NONE, ObjectRow, RemarkRow};
use super::kind::Kind;

/// The tables of a topology, checked by [`Rows::check`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows<'a> {
    pub(super) objects: &'a [ObjectRow],
    pub(super) remarks: &'a [RemarkRow],
    pub(super) sets: &'a [u64],
    pub(super) set_words: u32,
    pub(super) texts: &'a [u8],
}

/// A defect in the rows of a topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
    /// There are no objects.
    #[error("it has no object")]
    Empty,
    /// An object's parent does not come before it.
    #[error("object {index} has the parent {parent}, which does not precede it")]
    Parent {
        /// The object.
        index: u32,
        /// Its stated parent.
        parent: u32,
    },
    /// A set of processors that is not there.
    #[error("object {index} has set {set}, which does not exist")]
    Set {
        /// The object.
        index: u32,
        /// The set.
        set: u32,
    },
    /// An object has remarks outside the table.
    #[error("object {index} has remarks that do not exist")]
    Remarks {
        /// The object.
        index: u32,
    },
    /// A text is outside the table or not UTF-8.
    #[error("row {index} has a text that does not exist or is not UTF-8")]
    Text {
        /// The object or remark.
        index: u32,
    },
}

impl<'a> Rows<'a> {
    /// Confirms that every reference is valid and that no object contains itself.
    pub(super) fn check(self) -> Result<Self, RowError> {
        if self.objects.is_empty() {
            return Err(RowError::Empty);
        }
        for (index, row) in (0_u32..).zip(self.objects) {
            match row.parent {
                NONE if index == 0 => {}
                parent if parent < index => {}
                parent => return Err(RowError::Parent { index, parent }),
            }
            if row.set != NONE && self.set(row.set).is_none() {
                return Err(RowError::Set { index, set: row.set });
            }
            self.remarks_of(row).ok_or(RowError::Remarks { index })?;
            self.text(row.name, row.name_len).ok_or(RowError::Text { index })?;
            self.text(row.subtype, row.subtype_len).ok_or(RowError::Text { index })?;
        }
        for (index, row) in (0_u32..).zip(self.remarks) {
            self.text(row.name, row.name_len).ok_or(RowError::Text { index })?;
            self.text(row.value, row.value_len).ok_or(RowError::Text { index })?;
        }
        Ok(self)
    }

    fn set(self, set: u32) -> Option<&'a [u64]> {
        let words = self.set_words as usize;
        let start = (set as usize).checked_mul(words)?;
        self.sets.get(start..start.checked_add(words)?)
    }

    fn text(self, position: u32, length: u32) -> Option<&'a str> {
        let start = position as usize;
        std::str::from_utf8(self.texts.get(start..start.checked_add(length as usize)?)?).ok()
    }

    fn remarks_of(self, row: &ObjectRow) -> Option<&'a [RemarkRow]> {
        let start = row.first_remark as usize;
        self.remarks.get(start..start.checked_add(row.remark_count as usize)?)
    }
}

/// An object of the machine.
///
/// Each access is a lookup in memory that the server shares, or in this process's copy of a received text.
#[derive(Clone, Copy, Debug)]
pub struct Object<'a> {
    rows: Rows<'a>,
    row: &'a ObjectRow,
    index: u32,
}

impl<'a> Object<'a> {
    pub(super) fn at(rows: Rows<'a>, index: u32) -> Option<Self> {
        rows.objects.get(index as usize).map(|row| Self { rows, row, index })
    }

    pub(super) fn all(rows: Rows<'a>) -> impl DoubleEndedIterator<Item = Self> + Clone {
        // The number fits: see `OBJECTS_MAX`.
        (0..u32::try_from(rows.objects.len()).unwrap_or(0)).filter_map(move |index| Self::at(rows, index))
    }

    /// Its position: 0 is the whole machine, and an object's parent comes before it.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        Kind::of_number(self.row.kind)
    }

    /// Its level in the hierarchy of processors and caches, 0 for the machine; `None` beside the hierarchy.
    #[must_use]
    pub const fn depth(&self) -> Option<u16> {
        match self.row.depth {
            NO_DEPTH => None,
            depth => Some(depth),
        }
    }

    /// Its number among objects of its kind, as hwloc counts.
    #[must_use]
    pub const fn logical_index(&self) -> u32 {
        self.row.logical
    }

    /// The operating system's number, if it has one.
    #[must_use]
    pub const fn os_index(&self) -> Option<u32> {
        match self.row.os_index {
            NONE => None,
            index => Some(index),
        }
    }

    /// The object that contains it.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        Self::at(self.rows, self.row.parent)
    }

    /// Its parent, the parent's parent, and so on up to the machine.
    pub fn ancestors(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(self.parent(), Self::parent)
    }

    /// All objects inside it, at any depth.
    pub fn parts(&self) -> impl Iterator<Item = Self> + use<'a> {
        let index = self.index;
        let is_inside = move |object: &Self| object.ancestors().any(|above| above.index == index);
        Self::all(self.rows).filter(is_inside)
    }

    /// Its processors as words of 64, the lowest first; `None` for a device.
    #[must_use]
    pub fn processors(&self) -> Option<&'a [u64]> {
        self.rows.set(self.row.set)
    }

    /// Whether it has a processor.
    #[must_use]
    pub fn has_processor(&self, number: u32) -> bool {
        self.processors().is_some_and(|words| cpu_set::contains(words, number))
    }

    /// Its name; empty if it has none.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.rows.text(self.row.name, self.row.name_len).unwrap_or_default()
    }

    /// Its subtype; mostly empty.
    #[must_use]
    pub fn subtype(&self) -> &'a str {
        self.rows.text(self.row.subtype, self.row.subtype_len).unwrap_or_default()
    }

    /// Bytes of a cache or of memory; else 0.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.row.size
    }

    /// The kinds of a device of the operating system, `PMIX_DEVTYPE_*` bits; else 0.
    #[must_use]
    pub fn device_types(&self) -> u64 {
        if self.kind() == Kind::OsDevice { self.row.device } else { 0 }
    }

    /// Class, vendor, device and revision of a PCI device.
    #[must_use]
    pub fn pci_numbers(&self) -> Option<[u16; 4]> {
        let number = |shift: u32| u16::try_from(self.row.device >> shift & 0xffff).unwrap_or(0);
        (self.kind() == Kind::PciDevice).then(|| [48, 32, 16, 0].map(number))
    }

    /// hwloc's remarks about it: names and values.
    pub fn remarks(&self) -> impl Iterator<Item = (&'a str, &'a str)> + 'a {
        let rows = self.rows;
        let remarks = rows.remarks_of(self.row).unwrap_or_default().iter();
        remarks.filter_map(move |row| Some((rows.text(row.name, row.name_len)?, rows.text(row.value, row.value_len)?)))
    }

    /// The remark of this name.
    #[must_use]
    pub fn remark(&self, name: &str) -> Option<&'a str> {
        self.remarks().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}
