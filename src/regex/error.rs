//! Why a map was refused.

use std::fmt;

/// Why a node map or process map could not be read or made.
///
/// `node` is always the index, from zero, of the node at which reading stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// The bytes begin with an unknown framing.
    #[error(
        "map begins with `{start}`, which is neither raw:, blob:, pmix[...] nor a plain list; \
         pass what PMIx_generate_regex or PMIx_generate_ppn returned"
    )]
    UnknownFraming {
        /// The first bytes of the map.
        start: Excerpt,
    },
    /// The header of a `blob:` map differs from that of every known sender.
    #[error("blob map begins with `{start}`, expected blob:, component=zlib: and size=N:, each ended by a NUL")]
    BlobHeader {
        /// The first bytes of the map.
        start: Excerpt,
    },
    /// A `blob:` map ends before its declared size.
    #[error("blob map declares {declared} payload bytes but {available} follow; it was cut short")]
    Truncated {
        /// Payload bytes the header declares, or the least a payload can have.
        declared: u64,
        /// Payload bytes present.
        available: u64,
    },
    /// The compressed list is not a complete zlib stream.
    #[error("blob map does not hold a whole zlib stream; it was damaged or cut short")]
    DamagedStream,
    /// The compressed list is a zstd frame, which OpenPMIx 7 writes if it is built with zstd.
    #[error(
        "the list is compressed with zstd, which this library does not read; set PMIX_MCA_pcompress=zlib for the sender"
    )]
    Zstd,
    /// The inflated list's length differs from the declared one, in both byte orders.
    #[error("blob map declares {declared} bytes of text but inflates to {found} or more")]
    InflatedLength {
        /// Declared length, read in the byte order of this machine.
        declared: u32,
        /// Bytes inflated when the mismatch was certain.
        found: u64,
    },
    /// No NUL ends the map inside a longer buffer, so that its length is unknown.
    #[error("no NUL ends the map in the remaining {available} bytes of the buffer; the buffer was cut short")]
    Unterminated {
        /// Bytes from the start of the map to the end of the buffer.
        available: u64,
    },
    /// Data other than NUL follows the end of the map.
    #[error("map ends after {length} bytes but other data follows; pass the exact bytes of the map")]
    TrailingBytes {
        /// Length of the map with its framing.
        length: u64,
    },
    /// The list is not UTF-8.
    #[error("map is not UTF-8 text at byte {offset} of its list")]
    NotUtf8 {
        /// Offset of the first bad byte, counted from the start of the list.
        offset: u64,
    },
    /// A bracket has no partner, or stands inside another pair.
    #[error("node {node}: brackets do not pair up in `{text}`")]
    Bracket {
        /// Index of the node.
        node: u32,
        /// The item or list with the bracket.
        text: Excerpt,
    },
    /// A numbered item lacks the `width:` that begins it.
    #[error("node {node}: `{text}` has no `width:` behind its bracket")]
    MissingWidth {
        /// Index of the node.
        node: u32,
        /// The item.
        text: Excerpt,
    },
    /// A decimal number was expected.
    #[error("node {node}: `{text}` is not a decimal number")]
    NotANumber {
        /// Index of the node.
        node: u32,
        /// The text in its place.
        text: Excerpt,
    },
    /// A number needs more than 64 bits.
    #[error("node {node}: the number `{text}` does not fit 64 bits")]
    NumberOverflow {
        /// Index of the node.
        node: u32,
        /// The number.
        text: Excerpt,
    },
    /// A range counts down.
    #[error("node {node}: range {first}-{last} counts down; write the smaller number first")]
    ReversedRange {
        /// Index of the node.
        node: u32,
        /// First number as written.
        first: u64,
        /// Last number as written.
        last: u64,
    },
    /// A map without any node.
    #[error("map has no node; a namespace needs at least one")]
    NoNodes,
    /// A node with an empty name: two separators in a row, or one at an end of the list.
    #[error("node {node} has an empty name; remove the spare comma")]
    EmptyName {
        /// Index of the node.
        node: u32,
    },
    /// A node name with a character that separates or frames lists, or that does not print.
    #[error("node {node}: its name holds {character:?}, which no node name may")]
    NameCharacter {
        /// Index of the node.
        node: u32,
        /// The character.
        character: char,
    },
    /// A rank in the range the PMIx Standard reserves for wildcards and the like.
    #[error("node {node}: rank {rank} is not a process; ranks end below {}", super::limits::RANK_END)]
    ReservedRank {
        /// Index of the node.
        node: u32,
        /// The rank as written.
        rank: u64,
    },
    /// A rank on two nodes, or twice on one.
    #[error("rank {rank} is listed more than once in the process map; every rank runs on one node")]
    DuplicateRank {
        /// The smallest such rank.
        rank: u32,
    },
    /// The map is larger than this process accepts.
    #[error("map has {found} {limit}, this process accepts {max}; raise the limit or split the namespace")]
    Limit {
        /// The limited quantity, with its unit.
        limit: &'static str,
        /// The count found so far, or declared.
        found: u64,
        /// The bound, inclusive.
        max: u32,
    },
}

/// Returns `found` if it is within `max`.
///
/// # Errors
/// [`MapError::Limit`], naming `limit`, if it is not.
pub(super) fn within(limit: &'static str, found: u64, max: u32) -> Result<u32, MapError> {
    match u32::try_from(found) {
        Ok(count) if count <= max => Ok(count),
        _ => Err(MapError::Limit { limit, found, max }),
    }
}

/// The first bytes of refused data: short enough to copy, and safe to print.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Excerpt {
    bytes: [u8; EXCERPT_BYTES],
    /// Length of the original; `bytes` may hold only its start.
    original_bytes: usize,
}

impl Excerpt {
    /// Keeps the start of `original`.
    pub(super) fn of(original: impl AsRef<[u8]>) -> Self {
        let original = original.as_ref();
        let mut bytes = [0; EXCERPT_BYTES];
        for (kept, byte) in bytes.iter_mut().zip(original) {
            *kept = *byte;
        }
        Self { bytes, original_bytes: original.len() }
    }
}

impl fmt::Display for Excerpt {
    /// Unprintable bytes appear as escapes; `...` marks an omission.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.bytes.get(..self.original_bytes).unwrap_or(&self.bytes);
        let ellipsis = if self.original_bytes > EXCERPT_BYTES { "..." } else { "" };
        write!(f, "{}{ellipsis}", kept.escape_ascii())
    }
}

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Excerpt(\"{self}\")")
    }
}

/// Enough to recognise a framing or an item, little enough to keep errors cheap to copy.
const EXCERPT_BYTES: usize = 24;
