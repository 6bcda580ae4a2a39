//! The format of a namespace's segment, byte by byte.
//!
//! These structures are a format, not Rust data: fixed widths, offsets instead of pointers, padding spelled out and
//! zero, numbers instead of enums. Sizes and offsets are asserted here and hashed into the segment's layout id (see
//! [`layout`]). So a process of another build never misreads them.
//!
//! All positions are bytes from the start of the segment; zero means "nothing".

use std::mem::{align_of, offset_of, size_of};
use std::sync::LazyLock;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::regex::DEALT_RANKS_MAX;

/// A stored value: a number, a few bytes, or a reference to bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Cell {
    /// The standard's number of the data type.
    pub(crate) data_type: u16,
    /// One of [`form`].
    pub(crate) form: u16,
    /// Bytes of a string (its NUL not counted), byte object or archive.
    pub(crate) len: u32,
    /// The number, the bytes themselves, or their offset.
    pub(crate) payload: u64,
}

/// Content of the payload of a [`Cell`].
pub(crate) mod form {
    /// There is no value.
    pub(crate) const ABSENT: u16 = 0;
    /// A number of the cell's data type, sign-extended; floating point as its bits.
    pub(crate) const SCALAR: u16 = 1;
    /// Up to [`crate::gds::INLINE_BYTES_MAX`] bytes and a NUL, in the payload itself.
    pub(crate) const INLINE: u16 = 2;
    /// The offset of `len` bytes, which a NUL follows.
    pub(crate) const BYTES: u16 = 3;
    /// The offset of an rkyv archive of `types::Value`, aligned on 16 bytes.
    pub(crate) const ARCHIVE: u16 = 4;
    /// A string or cpuset that is a null pointer.
    pub(crate) const NULL: u16 = 5;
    /// The offset of a [`crate::gds::DealtMap`], whose text is the value.
    pub(crate) const DEALT: u16 = 6;
}

/// Maximum number of bytes in the cell itself: its payload less the NUL.
pub(crate) const INLINE_BYTES_MAX: usize = 7;

/// A value under a name. In tables and blocks `id` is a key id; in sparse columns it is the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Entry {
    /// Key id or index. Tables are sorted by it.
    pub(crate) id: u32,
    /// Blocks only: scope as the standard's bit set (1 local, 2 remote).
    pub(crate) scope: u8,
    /// Blocks only: one of [`origin`].
    pub(crate) origin: u8,
    /// Zero.
    pub(crate) reserved: u16,
    /// The value.
    pub(crate) cell: Cell,
}

/// Origin of the value of a block's [`Entry`].
pub(crate) mod origin {
    /// A process on the writer's node.
    pub(crate) const LOCAL: u8 = 0;
    /// Another node.
    pub(crate) const REMOTE: u8 = 1;
}

/// A process map by rule: the ranks below `end` are dealt to the nodes in turns. The host's text has about seven bytes
/// a rank, commas within a node and semicolons between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct DealtMap {
    /// Ranks at a time.
    pub(crate) block: u32,
    /// Number of nodes.
    pub(crate) node_count: u32,
    /// The first rank beyond.
    pub(crate) end: u32,
    /// Zero.
    pub(crate) reserved: u32,
}

/// Position and length of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Array {
    /// Offset of the first element.
    pub(crate) offset: u64,
    /// Number of elements.
    pub(crate) count: u64,
}

/// An interned key. Its text follows, then a NUL. The key's id is this entry's offset divided by [`KEY_ALIGN`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct KeyHead {
    /// XXH3-64 of the text, seed 0.
    pub(crate) hash: u64,
    /// Bytes of the text.
    pub(crate) len: u16,
    /// The key's default realm, one of [`realm`].
    pub(crate) realm: u8,
    /// Whether the key begins with `pmix`.
    pub(crate) reserved_key: u8,
    /// Zero.
    pub(crate) reserved: u32,
}

/// Alignment of a [`KeyHead`], and the unit in which key ids count.
pub(crate) const KEY_ALIGN: u64 = 8;

/// Default realm of a key, as stored.
pub(crate) mod realm {
    /// Job or process, depending on the rank of the lookup.
    pub(crate) const BY_RANK: u8 = 0;
    /// The session.
    pub(crate) const SESSION: u8 = 1;
    /// The application.
    pub(crate) const APPLICATION: u8 = 2;
    /// The node.
    pub(crate) const NODE: u8 = 3;
}

/// Bits of a dictionary slot that hold the key's id; the others hold the upper bits of its hash.
pub(crate) const SLOT_ID_BITS: u32 = 32;

/// The description of the job. Immutable: a new registration makes a new one and swaps the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct JobHead {
    /// Number of processes.
    pub(crate) rank_count: u32,
    /// Number of nodes.
    pub(crate) node_count: u32,
    /// Index of the writer's node, or [`NONE`].
    pub(crate) own_node: u32,
    /// Position of the process column of node ids, or [`NONE`].
    pub(crate) node_id_column: u32,
    /// Position of the process column of application numbers, or [`NONE`].
    pub(crate) app_number_column: u32,
    /// The session's number if `session_known` is 1.
    pub(crate) session_id: u32,
    /// 1 if the session has a number.
    pub(crate) session_known: u32,
    /// 1 if the id of every node is its index.
    pub(crate) node_ids_are_indexes: u32,
    /// Session realm: [`Entry`] by key.
    pub(crate) session: Array,
    /// Job realm: [`Entry`] by key.
    pub(crate) job: Array,
    /// Applications: [`PartHead`] by number.
    pub(crate) apps: Array,
    /// [`ColumnHead`] by key, indexed by node.
    pub(crate) node_columns: Array,
    /// [`ColumnHead`] by key, indexed by rank.
    pub(crate) proc_columns: Array,
    /// [`HostName`] by hash.
    pub(crate) host_names: Array,
    /// [`NodeId`] by id; empty if ids are indexes.
    pub(crate) node_ids: Array,
    /// Sessions with a number, including the job's own: [`PartHead`] by number.
    pub(crate) sessions: Array,
}

/// No such index.
pub(crate) const NONE: u32 = u32::MAX;

/// Limit of processes in a record.
pub(crate) const RANKS_MAX: u32 = DEALT_RANKS_MAX;

/// Limit of nodes in a record.
pub(crate) const NODES_MAX: u32 = 1 << 24;

/// One application, or one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct PartHead {
    /// Its number.
    pub(crate) number: u32,
    /// Zero.
    pub(crate) reserved: u32,
    /// Its values: [`Entry`] by key.
    pub(crate) entries: Array,
    /// Its node values: [`ColumnHead`] by key, indexed by node.
    pub(crate) node_columns: Array,
}

/// A name or alias of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct HostName {
    /// XXH3-64 of the name, seed 0.
    pub(crate) hash: u64,
    /// Offset of the name.
    pub(crate) name: u64,
    /// Its bytes.
    pub(crate) len: u32,
    /// Index of the node.
    pub(crate) node: u32,
}

/// The number of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct NodeId {
    /// The number the host gave it.
    pub(crate) id: u32,
    /// Its index.
    pub(crate) node: u32,
}

/// One key for all ranks or all nodes: a function from the index to a number, and the meaning of the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct ColumnHead {
    /// The key's id.
    pub(crate) key: u32,
    /// Length of the column: an index at or beyond it has no value.
    pub(crate) count: u32,
    /// One of [`function`].
    pub(crate) function: u16,
    /// Bytes of an element of a narrow array: 1, 2, 4 or 8; else zero.
    pub(crate) width: u16,
    /// Data type if the number is the value; zero if it selects a cell.
    pub(crate) data_type: u16,
    /// One of [`meaning`].
    pub(crate) meaning: u16,
    /// The cells that the number selects, counted from 1; number 0 means "absent".
    pub(crate) cells: Array,
    /// See [`function`].
    pub(crate) parameters: [u64; 4],
}

/// Ways to find a column's number.
pub(crate) mod function {
    /// `base + ((index / div) % modulo) * factor`, wrapping; parameters in this order. Constants have factor 0.
    pub(crate) const STRIDE: u16 = 1;
    /// `base + array[index]`; parameters: base, offset of the array.
    pub(crate) const NARROW: u16 = 2;
    /// The [`crate::gds::Run`] of the index; parameters: offset, number of runs.
    pub(crate) const RUNS: u16 = 3;
    /// An [`crate::gds::Entry`] of the index holds the value; parameters: offset, number of entries.
    pub(crate) const SPARSE: u16 = 4;
    /// The value of the process's node under the same key; no parameters.
    pub(crate) const OF_NODE: u16 = 5;
    /// The list of ranks of the index, if the ranks below an end are dealt to the column's indexes in turns.
    /// Parameters: ranks at a time, the end, the index whose list is in the first cell (or [`crate::gds::NONE`]).
    pub(crate) const RANK_LISTS: u16 = 6;
}

/// Meanings of a column's number.
pub(crate) mod meaning {
    /// The value itself.
    pub(crate) const SCALAR: u16 = 0;
    /// The number of a cell.
    pub(crate) const CELL: u16 = 1;
    /// The number of a cell with an array of endpoints. The index, 32 bits wide, comes before the bytes of each
    /// endpoint.
    pub(crate) const ENDPOINTS: u16 = 2;
}

/// Consecutive indexes whose numbers grow by the same step: `base + (index - start) * step`, wrapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Run {
    /// First index; the run ends where the next one starts. The first run starts at 0.
    pub(crate) start: u32,
    /// Zero.
    pub(crate) reserved: u32,
    /// Number at the first index.
    pub(crate) base: u64,
    /// Growth from one index to the next.
    pub(crate) step: u64,
}

/// One commit of one rank, perhaps with entries of its earlier blocks. `entry_count` [`Entry`] follow, sorted by key,
/// the newest of a key first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct BlockHead {
    /// The block before this one: always at a smaller offset, so every chain ends.
    pub(crate) previous: u64,
    /// Number of entries.
    pub(crate) entry_count: u32,
    /// Zero.
    pub(crate) reserved: u32,
}

/// A text with all facts of the layout above; hashed into the segment's layout id.
pub(crate) fn layout() -> &'static str {
    &LAYOUT
}

static LAYOUT: LazyLock<String> = LazyLock::new(|| {
    use crate::types::{ArchivedValue, DataType};
    let archived = format!(
        "ArchivedValue {}/{} isize {} usize {} types {}",
        size_of::<ArchivedValue>(),
        align_of::<ArchivedValue>(),
        size_of::<rkyv::primitive::ArchivedIsize>(),
        size_of::<rkyv::primitive::ArchivedUsize>(),
        DataType::ALL.len(),
    );
    format!("modex gds {FORMAT_REVISION}; {STRUCTURES}; {archived}; keys xxh3-64 seed 0")
});

/// Counts changes of meaning that sizes and offsets don't show.
const FORMAT_REVISION: u32 = 8;

/// Asserts size and offsets of each structure and lists them in one text.
macro_rules! structures {
    ($($name:ident $size:literal { $($field:ident $offset:literal)* })*) => {
        $(const _: () = {
            assert!(size_of::<$name>() == $size);
            $(assert!(offset_of!($name, $field) == $offset);)*
        };)*
        const STRUCTURES: &str = concat!($(
            stringify!($name), " ", $size, " {", $(" ", stringify!($field), " ", $offset,)* " }\n",
        )*);
    };
}

structures! {
    Cell 16 { data_type 0 form 2 len 4 payload 8 }
    Entry 24 { id 0 scope 4 origin 5 reserved 6 cell 8 }
    DealtMap 16 { block 0 node_count 4 end 8 reserved 12 }
    Array 16 { offset 0 count 8 }
    KeyHead 16 { hash 0 len 8 realm 10 reserved_key 11 reserved 12 }
    JobHead 160 {
        rank_count 0 node_count 4 own_node 8 node_id_column 12 app_number_column 16 session_id 20 session_known 24
        node_ids_are_indexes 28 session 32 job 48 apps 64 node_columns 80 proc_columns 96 host_names 112 node_ids 128
        sessions 144
    }
    PartHead 40 { number 0 reserved 4 entries 8 node_columns 24 }
    HostName 24 { hash 0 name 8 len 16 node 20 }
    NodeId 8 { id 0 node 4 }
    ColumnHead 64 { key 0 count 4 function 8 width 10 data_type 12 meaning 14 cells 16 parameters 32 }
    Run 24 { start 0 reserved 4 base 8 step 16 }
    BlockHead 16 { previous 0 entry_count 8 reserved 12 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_names_every_structure_and_the_archive_format() {
        for name in ["Cell 16", "JobHead 160", "ColumnHead 64", "BlockHead 16", "ArchivedValue", "usize 4"] {
            assert!(layout().contains(name), "{name} is missing in {}", layout());
        }
    }

    #[test]
    fn the_document_of_the_format_shows_the_structures_as_they_are() {
        let document = include_str!("../../../docs/segment-format.md");
        for structure in STRUCTURES.lines() {
            assert!(
                document.lines().any(|line| line == structure),
                "docs/segment-format.md lacks the line: {structure}"
            );
        }
    }
}
