//! The format of a topology segment, byte by byte, behind the common header of segments.
//!
//! These structures are a format, not Rust data, like those of `gds::format`. The layout id of a topology segment is a
//! hash over [`layout`]. `offset` fields are bytes from the start of the segment; zero means "nothing". A test compares
//! `docs/segment-format.md` with them.

use std::mem::{align_of, offset_of, size_of};
use std::sync::LazyLock;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Positions of all parts. The first root leads to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct TopologyHead {
    /// [`ObjectRow`]s, each behind its parent's.
    pub(super) objects: u64,
    /// [`RemarkRow`]s, by object.
    pub(super) remarks: u64,
    /// Sets of processors: words of 64 bits, `set_words` for each.
    pub(super) sets: u64,
    /// Texts, concatenated.
    pub(super) texts: u64,
    /// The topology as hwloc writes it, and a NUL.
    pub(super) xml: u64,
    /// The feature flags of the writer's hwloc, in the form that other libraries send.
    pub(super) support: u64,
    pub(super) object_count: u32,
    pub(super) remark_count: u32,
    pub(super) set_count: u32,
    pub(super) set_words: u32,
    pub(super) text_bytes: u32,
    pub(super) xml_bytes: u32,
    pub(super) support_bytes: u32,
    /// Zero.
    pub(super) reserved: u32,
}

/// A part of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct ObjectRow {
    /// `Kind`; 0 if unknown.
    pub(super) kind: u16,
    /// Its level in the hierarchy of processors, with the machine at 0; [`NO_DEPTH`] for objects beside the hierarchy.
    pub(super) depth: u16,
    /// Index of its parent, which is smaller than its own; [`NONE`] for the machine.
    pub(super) parent: u32,
    /// Its number among objects of its kind.
    pub(super) logical: u32,
    /// The operating system's number, or [`NONE`].
    pub(super) os_index: u32,
    /// Index of its set of processors, or [`NONE`].
    pub(super) set: u32,
    /// Position and length of its name in the texts.
    pub(super) name: u32,
    pub(super) name_len: u32,
    /// Position of its subtype.
    pub(super) subtype: u32,
    pub(super) subtype_len: u32,
    /// Its remarks.
    pub(super) first_remark: u32,
    pub(super) remark_count: u32,
    /// Zero.
    pub(super) reserved: u32,
    /// Bytes of a cache or of memory.
    pub(super) size: u64,
    /// For a device of the operating system: its kinds, as the standard's bits. For a PCI device: class, vendor, device
    /// and revision, 16 bits each, the class uppermost.
    pub(super) device: u64,
}

/// A remark about an object: a name and a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct RemarkRow {
    /// Position and length of the name in the texts.
    pub(super) name: u32,
    pub(super) name_len: u32,
    /// Position of the value.
    pub(super) value: u32,
    pub(super) value_len: u32,
}

/// Stands for no index.
pub(super) const NONE: u32 = u32::MAX;
/// Depth of objects beside the hierarchy.
pub(super) const NO_DEPTH: u16 = u16::MAX;

/// Limit of objects: a machine of [`super::PROCESSORS_MAX`] processors has fewer.
pub(super) const OBJECTS_MAX: u32 = 1 << 18;
/// Limit of remarks.
pub(super) const REMARKS_MAX: u32 = 1 << 20;
/// Limit of words of a set.
pub(super) const SET_WORDS_MAX: u32 = super::PROCESSORS_MAX / 64;
/// Limit of words of all sets: 64 MiB.
pub(super) const WORDS_MAX: u32 = 1 << 23;

macro_rules! structures {
    ($($name:ident $size:literal { $($field:ident $offset:literal)* })*) => {
        $(const _: () = {
            assert!(size_of::<$name>() == $size && align_of::<$name>() <= 8);
            $(assert!(offset_of!($name, $field) == $offset);)*
        };)*
        const STRUCTURES: &str = concat!($(stringify!($name), $size, $(stringify!($field), $offset,)*)*);
    };
}

structures! {
    TopologyHead 80 { objects 0 remarks 8 sets 16 texts 24 xml 32 support 40 object_count 48 remark_count 52 set_count 56 set_words 60 text_bytes 64 xml_bytes 68 support_bytes 72 reserved 76 }
    ObjectRow 64 { kind 0 depth 2 parent 4 logical 8 os_index 12 set 16 name 20 name_len 24 subtype 28 subtype_len 32 first_remark 36 remark_count 40 reserved 44 size 48 device 56 }
    RemarkRow 16 { name 0 name_len 4 value 8 value_len 12 }
}

/// Input of the layout id of a topology segment. The numbers of kinds belong to it.
pub(super) fn layout() -> &'static str {
    static LAYOUT: LazyLock<String> = LazyLock::new(|| format!("modex topology 1 {STRUCTURES}"));
    &LAYOUT
}
