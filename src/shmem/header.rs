//! The first page of a segment: a format, not a Rust type.
//!
//! | bytes | what | changes |
//! |---|---|---|
//! | 0..64 | preamble: magic, layout id, version, byte order, sizes; never changes meaning | never |
//! | 64..768 | label and owner, each a length and 320 bytes of text | never |
//! | 1024 | `published`, u64 | atomic |
//! | 1088 | `generation`, u32, also the futex word | atomic |
//! | 1152 | `state`, u32 | atomic |
//! | 1216 | `tables_end`, u64, and `table_count`, u32 | atomic |
//! | 1280..2304 | 16 roots, u64, one per 64-byte line | atomic |
//! | 2304..3328 | 64 table extents: offset u64, cell count u64 | atomic |
//! | 3328..4096 | zero | never |

use core::mem::{offset_of, size_of};

use xxhash_rust::xxh3::Xxh3;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::error::SegmentError;
use super::offset::{ROOT_COUNT, RootIndex};

/// Size of the header in bytes: the first offset data can have.
pub const HEADER_BYTES: u64 = 4096;
/// Longest label, in bytes.
pub const LABEL_BYTES_MAX: usize = 320;
/// Longest owner text, in bytes.
pub const OWNER_BYTES_MAX: usize = 320;
/// Limit of tables of atomic cells in a segment.
pub const TABLE_COUNT_MAX: usize = 64;

/// The first bytes of every segment of any version.
pub(super) const MAGIC: [u8; 8] = *b"MODEXSEG";
/// Version of this layout.
pub(super) const LAYOUT_VERSION: u32 = 1;
/// Reads as this number only in the writer's byte order.
pub(super) const BYTE_ORDER: u32 = 0x0102_0304;
/// Feature bits this build understands: none so far.
const FLAGS_KNOWN: u64 = 0;

pub(super) const PUBLISHED_AT: u64 = 1024;
pub(super) const GENERATION_AT: u64 = 1088;
pub(super) const STATE_AT: u64 = 1152;
pub(super) const TABLES_END_AT: u64 = 1216;
pub(super) const TABLE_COUNT_AT: u64 = 1224;
const ROOTS_AT: u64 = 1280;
const ROOT_STRIDE: u64 = 64;
const EXTENTS_AT: u64 = 2304;
const EXTENT_STRIDE: u64 = 16;

/// `state`: the writer may still publish.
pub(super) const STATE_LIVE: u32 = 0;
/// `state`: no further publication.
pub(super) const STATE_RETIRED: u32 = 1;

/// Position of a root in the header.
pub(super) fn root_at(root: RootIndex) -> u64 {
    ROOTS_AT + u64::from(root.get()) * ROOT_STRIDE
}

/// Positions of the offset and the cell count of table number `slot` in the header.
pub(super) fn extent_at(slot: u64) -> (u64, u64) {
    let at = EXTENTS_AT + slot * EXTENT_STRIDE;
    (at, at + 8)
}

/// The part of the header that is written once, before other processes can see the segment.
#[repr(C, align(64))]
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(super) struct FixedHeader {
    pub(super) magic: [u8; 8],
    pub(super) layout_id: u64,
    pub(super) layout_version: u32,
    pub(super) byte_order: u32,
    pub(super) header_bytes: u32,
    pub(super) creator_pid: u32,
    pub(super) flags: u64,
    pub(super) span_bytes: u64,
    pub(super) created_unix_s: u64,
    pub(super) zero_0: u64,
    pub(super) label_len: u32,
    pub(super) owner_len: u32,
    pub(super) zero_1: [u8; 56],
    pub(super) label: [u8; LABEL_BYTES_MAX],
    pub(super) owner: [u8; OWNER_BYTES_MAX],
}

/// Size of the fixed part in bytes.
pub(super) const FIXED_BYTES: usize = size_of::<FixedHeader>();

const _: () = {
    assert!(FIXED_BYTES == 768);
    assert!(offset_of!(FixedHeader, layout_id) == 8);
    assert!(offset_of!(FixedHeader, layout_version) == 16);
    assert!(offset_of!(FixedHeader, byte_order) == 20);
    assert!(offset_of!(FixedHeader, header_bytes) == 24);
    assert!(offset_of!(FixedHeader, creator_pid) == 28);
    assert!(offset_of!(FixedHeader, flags) == 32);
    assert!(offset_of!(FixedHeader, span_bytes) == 40);
    assert!(offset_of!(FixedHeader, created_unix_s) == 48);
    assert!(offset_of!(FixedHeader, label_len) == 64);
    assert!(offset_of!(FixedHeader, label) == 128);
    assert!(offset_of!(FixedHeader, owner) == 448);
    assert!(FIXED_BYTES as u64 <= PUBLISHED_AT);
    assert!(ROOTS_AT + ROOT_COUNT as u64 * ROOT_STRIDE == EXTENTS_AT);
    assert!(EXTENTS_AT + TABLE_COUNT_MAX as u64 * EXTENT_STRIDE <= HEADER_BYTES);
    assert!(PUBLISHED_AT.is_multiple_of(64) && GENERATION_AT.is_multiple_of(64) && STATE_AT.is_multiple_of(64));
};

/// Identifies a layout: reader and writer must agree on it before any other field is read.
///
/// The id is the XXH3-64 (seed 0) of a text. The text has the sizes and offsets of the header, a line feed, and the
/// same data of the layer above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LayoutId(u64);

impl LayoutId {
    /// The id of a layout with this text of the layer above.
    #[must_use]
    pub fn of(layout: &str) -> Self {
        let mut hash = Xxh3::new();
        hash.update(header_layout().as_bytes());
        hash.update(b"\n");
        hash.update(layout.as_bytes());
        Self(hash.digest())
    }

    /// The id as stored.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The sizes and offsets of the header as text.
fn header_layout() -> String {
    format!(
        "shmem version={LAYOUT_VERSION} header={HEADER_BYTES} fixed={FIXED_BYTES} label={LABEL_BYTES_MAX}@128 \
         owner={OWNER_BYTES_MAX}@448 published=u64@{PUBLISHED_AT} generation=u32@{GENERATION_AT} \
         state=u32@{STATE_AT} tables_end=u64@{TABLES_END_AT} table_count=u32@{TABLE_COUNT_AT} \
         roots={ROOT_COUNT}x{ROOT_STRIDE}@{ROOTS_AT} extents={TABLE_COUNT_MAX}x{EXTENT_STRIDE}@{EXTENTS_AT}"
    )
}

/// The description of a segment in its header.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentInfo {
    /// Its layout.
    pub layout_id: LayoutId,
    /// Process id of its creator, in the creator's own pid namespace.
    pub creator_pid: u32,
    /// Maximum size in bytes.
    pub span_bytes: u64,
    /// When it was made, in seconds since 1970; zero if not known.
    pub created_unix_s: u64,
    /// Text that names it.
    pub label: String,
    /// Identity of its writer.
    pub owner: String,
}

/// The first 64 bytes of a segment, which never change meaning: tools can read them in any version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preamble {
    /// Its layout; see [`LayoutId`].
    pub layout_id: u64,
    /// Version of the header.
    pub layout_version: u32,
    /// Whether this machine has the writer's byte order. Otherwise the other fields have been swapped.
    pub is_byte_order_ours: bool,
    /// Size of the header, in bytes.
    pub header_bytes: u32,
    /// Process id of its creator, in the creator's own pid namespace.
    pub creator_pid: u32,
    /// Features that a reader has to know.
    pub flags: u64,
    /// Maximum size in bytes.
    pub span_bytes: u64,
    /// When it was made, in seconds since 1970; zero if not known.
    pub created_unix_s: u64,
}

/// The preamble of a segment of any version.
pub(super) fn preamble(bytes: &[u8]) -> Result<Preamble, SegmentError> {
    let header = fixed(bytes)?;
    let is_byte_order_ours = header.byte_order == BYTE_ORDER;
    if !is_byte_order_ours && header.byte_order != BYTE_ORDER.swap_bytes() {
        return Err(SegmentError::ByteOrder { found: header.byte_order, ours: BYTE_ORDER });
    }
    let word32 = |word: u32| if is_byte_order_ours { word } else { word.swap_bytes() };
    let word64 = |word: u64| if is_byte_order_ours { word } else { word.swap_bytes() };
    Ok(Preamble {
        layout_id: word64(header.layout_id),
        layout_version: word32(header.layout_version),
        is_byte_order_ours,
        header_bytes: word32(header.header_bytes),
        creator_pid: word32(header.creator_pid),
        flags: word64(header.flags),
        span_bytes: word64(header.span_bytes),
        created_unix_s: word64(header.created_unix_s),
    })
}

/// The fixed part of a foreign header; only the magic number has been checked.
fn fixed(bytes: &[u8]) -> Result<FixedHeader, SegmentError> {
    let Ok((header, _)) = FixedHeader::read_from_prefix(bytes) else {
        return Err(SegmentError::TooSmall {
            found: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            need: HEADER_BYTES,
        });
    };
    if header.magic != MAGIC {
        return Err(SegmentError::Magic { found: header.magic });
    }
    Ok(header)
}

/// The fixed part for a new segment. The texts fit: the caller has checked them.
pub(super) fn compose(info: &SegmentInfo) -> FixedHeader {
    let (label_len, label) = padded(&info.label);
    let (owner_len, owner) = padded(&info.owner);
    FixedHeader {
        magic: MAGIC,
        layout_id: info.layout_id.get(),
        layout_version: LAYOUT_VERSION,
        byte_order: BYTE_ORDER,
        header_bytes: u32::try_from(HEADER_BYTES).unwrap_or(u32::MAX),
        creator_pid: info.creator_pid,
        flags: 0,
        span_bytes: info.span_bytes,
        created_unix_s: info.created_unix_s,
        zero_0: 0,
        label_len,
        owner_len,
        zero_1: [0; 56],
        label,
        owner,
    }
}

/// A text as its length and bytes; a longer text is cut.
fn padded<const MAX: usize>(text: &str) -> (u32, [u8; MAX]) {
    let mut bytes = [0; MAX];
    let mut len = 0_u32;
    for (to, from) in bytes.iter_mut().zip(text.bytes()) {
        *to = from;
        len += 1;
    }
    (len, bytes)
}

/// Checks and reads the fixed part of a foreign header. `ours` is the required layout, if any.
pub(super) fn parse(bytes: &[u8], ours: Option<LayoutId>) -> Result<SegmentInfo, SegmentError> {
    let header = fixed(bytes)?;
    if header.byte_order != BYTE_ORDER {
        return Err(SegmentError::ByteOrder { found: header.byte_order, ours: BYTE_ORDER });
    }
    if header.layout_version != LAYOUT_VERSION {
        return Err(SegmentError::Version { found: header.layout_version, ours: LAYOUT_VERSION });
    }
    if let Some(ours) = ours
        && header.layout_id != ours.get()
    {
        return Err(SegmentError::Layout { found: header.layout_id, ours: ours.get() });
    }
    let unknown = header.flags & !FLAGS_KNOWN;
    if unknown != 0 {
        return Err(SegmentError::Features { unknown });
    }
    if u64::from(header.header_bytes) != HEADER_BYTES {
        return Err(field("header_bytes", u64::from(header.header_bytes)));
    }
    if header.span_bytes < HEADER_BYTES || i64::try_from(header.span_bytes).is_err() {
        return Err(field("span_bytes", header.span_bytes));
    }
    Ok(SegmentInfo {
        layout_id: LayoutId(header.layout_id),
        creator_pid: header.creator_pid,
        span_bytes: header.span_bytes,
        created_unix_s: header.created_unix_s,
        label: text("label_len", header.label_len, &header.label)?,
        owner: text("owner_len", header.owner_len, &header.owner)?,
    })
}

/// The first `len` of `bytes` as text.
fn text(name: &'static str, len: u32, bytes: &[u8]) -> Result<String, SegmentError> {
    usize::try_from(len)
        .ok()
        .and_then(|len| bytes.get(..len))
        .and_then(|bytes| core::str::from_utf8(bytes).ok())
        .map(str::to_owned)
        .ok_or_else(|| field(name, u64::from(len)))
}

/// The error for a field with an impossible value.
fn field(field: &'static str, value: u64) -> SegmentError {
    SegmentError::Field { field, value }
}
