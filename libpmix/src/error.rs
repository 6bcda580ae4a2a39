//! Errors of conversion between C memory and Rust values.

use modex::types::AsStatus;
use modex::types::{DataType, KeyError, NamespaceError, RankError, Status};

/// Reason why foreign memory is no valid Rust value, or a Rust value can't become foreign memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CError {
    /// A pointer that must not be NULL.
    #[error("{what} is NULL; pass a pointer to one")]
    Null {
        /// The expected target.
        what: &'static str,
    },
    /// An impossible address: in the first page, or not aligned.
    #[error("{what} has the invalid address {address:#x}; pass a pointer to one")]
    BadPointer {
        /// The expected target.
        what: &'static str,
        /// The pointer.
        address: usize,
    },
    /// An implausible number of elements.
    #[error("{what}: the count is {count}, above the limit of {limit}")]
    TooMany {
        /// Kind of element.
        what: &'static str,
        /// Elements announced.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// Values in values, too deep.
    #[error("values are nested deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: u32,
    },
    /// A text in a fixed array that fills the array without a NUL, or that does not fit one.
    #[error("{what} does not fit its {size_bytes} bytes together with a NUL")]
    TooLong {
        /// Meaning of the text.
        what: &'static str,
        /// Size of the array.
        size_bytes: usize,
    },
    /// An unknown type number.
    #[error("data type {code} is unknown; the standard's types end at 74")]
    UnknownType {
        /// The number.
        code: u16,
    },
    /// A type that the C interface has no structure for.
    #[error("the C interface has no structure for values of type {data_type:?}")]
    NoForm {
        /// The type.
        data_type: DataType,
    },
    /// An array holds a value of another type than its own.
    #[error("an array of {expected:?} holds a {found:?}")]
    MixedArray {
        /// The array's type.
        expected: DataType,
        /// The element's type.
        found: DataType,
    },
    /// A number that the other side's type can't hold.
    #[error("{what} {number} is out of range")]
    OutOfRange {
        /// Meaning of the number.
        what: &'static str,
        /// The number.
        number: i128,
    },
    /// A map expression whose end cannot be found.
    #[error("map expression has an unknown form or no end")]
    Regex,
    /// An invalid key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// An invalid namespace.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// An invalid rank.
    #[error(transparent)]
    Rank(#[from] RankError),
    /// libhwloc could not be loaded or refused the object.
    #[error("libhwloc.so.15 cannot {what}; install it where the loader finds it, or leave the value out")]
    Hwloc {
        /// The refused operation.
        what: &'static str,
    },
    /// A topology of a libhwloc with another layout of structures.
    #[error(
        "libhwloc.so.15 cannot {what}: it was made by a libhwloc of another layout; link the program with libhwloc.so.15"
    )]
    HwlocLayout {
        /// The refused operation.
        what: &'static str,
    },
    /// libc has no memory left.
    #[error("no memory for {size_bytes} bytes")]
    NoMemory {
        /// Size of the block.
        size_bytes: usize,
    },
}

impl AsStatus for CError {
    fn status(&self) -> Status {
        match self {
            Self::UnknownType { .. } | Self::NoForm { .. } => Status::ERR_UNKNOWN_DATA_TYPE,
            Self::MixedArray { .. } => Status::ERR_TYPE_MISMATCH,
            Self::Hwloc { .. } | Self::HwlocLayout { .. } => Status::ERR_NOT_SUPPORTED,
            Self::NoMemory { .. } => Status::ERR_NOMEM,
            Self::Null { .. }
            | Self::BadPointer { .. }
            | Self::TooMany { .. }
            | Self::TooDeep { .. }
            | Self::TooLong { .. }
            | Self::OutOfRange { .. }
            | Self::Regex
            | Self::Key(_)
            | Self::Namespace(_)
            | Self::Rank(_) => Status::ERR_BAD_PARAM,
        }
    }
}
