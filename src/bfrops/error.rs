use super::Generation;
use crate::types::{DataType, KeyError, NamespaceError, RankError, Status, TextError};

/// Why a peer's bytes are not a valid message.
///
/// No larger than a pointer, so that a result with it fits registers: a large fence returns it a million times.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} at byte {}: {}", .0.field, .0.position, .0.problem)]
pub struct DecodeError(Box<Details>);

const _: () = assert!(size_of::<DecodeError>() == size_of::<usize>(), "it is returned beside each number");

#[derive(Clone, Debug, PartialEq, Eq)]
struct Details {
    field: &'static str,
    position: usize,
    problem: DecodeProblem,
}

/// A defect in received bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeProblem {
    /// The message ends too early.
    #[error("the message announces {needed} more bytes but {left} are left; it is truncated or in another encoding")]
    EndOfMessage {
        /// Bytes that must follow.
        needed: usize,
        /// Bytes that do follow.
        left: usize,
    },
    /// More bytes than the limit.
    #[error("message of {size_bytes} bytes exceeds the limit of {limit}")]
    MessageTooLong {
        /// Size of the message.
        size_bytes: usize,
        /// `DecodeLimits::message_bytes_max`.
        limit: usize,
    },
    /// A length or count below zero or beyond the address space.
    #[error("count {count} is impossible")]
    ImpossibleCount {
        /// The number as received.
        count: i128,
    },
    /// A pack operation has the wrong number of values.
    #[error("found {found} packed values, expected {expected}")]
    WrongCount {
        /// Values expected.
        expected: usize,
        /// Values announced.
        found: i64,
    },
    /// Too many array elements in one message.
    #[error("{count} more elements exceed the limit of {limit} in one message")]
    TooManyElements {
        /// Elements announced.
        count: usize,
        /// `DecodeLimits::element_count_max`.
        limit: usize,
    },
    /// A longer list than this message may have.
    #[error("a list of {count} entries exceeds the limit of {limit} for this request; send it in parts")]
    ListTooLong {
        /// Entries announced.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// A string beyond the limit.
    #[error("string of {size_bytes} bytes exceeds the limit of {limit}")]
    StringTooLong {
        /// Its length.
        size_bytes: usize,
        /// `DecodeLimits::string_bytes_max`.
        limit: usize,
    },
    /// Values nested too deeply.
    #[error("values are nested deeper than {limit} levels")]
    TooDeep {
        /// `DecodeLimits::nesting_max`.
        limit: u32,
    },
    /// A number too large for its type.
    #[error("number {number} does not fit {target:?}")]
    NumberTooLarge {
        /// The number.
        number: i128,
        /// The type that cannot hold it.
        target: DataType,
    },
    /// Described buffers: another type than expected here.
    #[error("found type {found}, expected {expected:?}")]
    WrongType {
        /// The type expected.
        expected: DataType,
        /// The number received.
        found: u16,
    },
    /// A type number without meaning.
    #[error("data type {code} is unknown")]
    UnknownType {
        /// The number received.
        code: u16,
    },
    /// A type that the connection's encoding does not have.
    #[error("data type {data_type:?} does not exist in encoding {generation}")]
    UnregisteredType {
        /// The type.
        data_type: DataType,
        /// The connection's encoding.
        generation: Generation,
    },
    /// An array without a type has elements.
    #[error("array of {count} elements has no element type")]
    UntypedElements {
        /// Elements announced.
        count: usize,
    },
    /// A compulsory string is NULL.
    #[error("a required string is NULL")]
    NullString,
    /// A string does not end with NUL.
    #[error("the string does not end with NUL")]
    Unterminated,
    /// A string with a NUL inside.
    #[error(transparent)]
    Text(#[from] TextError),
    /// An invalid namespace.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// An invalid key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// An invalid rank.
    #[error(transparent)]
    Rank(#[from] RankError),
    /// A floating-point number that is not decimal text.
    #[error("floating-point number is not written in decimal")]
    Float,
    /// A map expression whose end cannot be found.
    #[error("map expression has an unknown form or no end")]
    Regex,
    /// A scope that a commit cannot have.
    #[error("values can't be committed with scope {code}")]
    Scope {
        /// The number received.
        code: u8,
    },
    /// An index beyond the end of the list of keys.
    #[error("the message refers to key {index} but lists {count} keys")]
    KeyIndex {
        /// The index received.
        index: u32,
        /// Keys in the list.
        count: usize,
    },
    /// A message of another command than expected.
    #[error("found command {found}, expected {expected}")]
    WrongCommand {
        /// The command expected.
        expected: u8,
        /// The command received.
        found: u8,
    },
}

impl DecodeError {
    #[cold]
    pub(super) fn new(field: &'static str, position: usize, problem: DecodeProblem) -> Self {
        Self(Box::new(Details { field, position, problem }))
    }

    /// The field being read.
    #[must_use]
    pub fn field(&self) -> &'static str {
        self.0.field
    }

    /// Bytes from the start of the message.
    #[must_use]
    pub fn position(&self) -> usize {
        self.0.position
    }

    /// The defect.
    #[must_use]
    pub fn problem(&self) -> &DecodeProblem {
        &self.0.problem
    }

    /// The status for a peer whose message could not be read.
    #[must_use]
    pub fn status(&self) -> Status {
        match self.problem() {
            DecodeProblem::EndOfMessage { .. } => Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER,
            DecodeProblem::UnknownType { .. } | DecodeProblem::UnregisteredType { .. } => Status::ERR_UNKNOWN_DATA_TYPE,
            DecodeProblem::WrongType { .. } => Status::ERR_PACK_MISMATCH,
            DecodeProblem::MessageTooLong { .. }
            | DecodeProblem::TooManyElements { .. }
            | DecodeProblem::ListTooLong { .. }
            | DecodeProblem::StringTooLong { .. }
            | DecodeProblem::TooDeep { .. } => Status::ERR_OUT_OF_RESOURCE,
            DecodeProblem::ImpossibleCount { .. }
            | DecodeProblem::WrongCount { .. }
            | DecodeProblem::NumberTooLarge { .. }
            | DecodeProblem::UntypedElements { .. }
            | DecodeProblem::NullString
            | DecodeProblem::Unterminated
            | DecodeProblem::Text(_)
            | DecodeProblem::Namespace(_)
            | DecodeProblem::Key(_)
            | DecodeProblem::Rank(_)
            | DecodeProblem::Float
            | DecodeProblem::Regex
            | DecodeProblem::Scope { .. }
            | DecodeProblem::KeyIndex { .. }
            | DecodeProblem::WrongCommand { .. } => Status::ERR_UNPACK_FAILURE,
        }
    }
}

/// Why a message cannot be put into bytes for a peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The peer's encoding has no such type; it would refuse the whole message.
    #[error("data type {data_type:?} does not exist in the peer's encoding {generation}; leave the value out")]
    UnregisteredType {
        /// The type.
        data_type: DataType,
        /// The connection's encoding.
        generation: Generation,
    },
    /// More elements or bytes than a count can express.
    #[error("{count} elements or bytes exceed the largest count of a message")]
    CountTooLarge {
        /// Their number.
        count: usize,
    },
    /// Values nested too deeply for any reader.
    #[error("values are nested deeper than {limit} levels")]
    TooDeep {
        /// `DecodeLimits::NESTING_MAX`.
        limit: u32,
    },
    /// An array holds a value of another type than its own.
    #[error("element {index} of an array of {expected:?} is a {found:?}")]
    MixedArray {
        /// The array's element type.
        expected: DataType,
        /// The element's type.
        found: DataType,
        /// Index of the element.
        index: usize,
    },
    /// A map expression whose end no reader could find.
    #[error("map expression has an unknown form")]
    Regex,
    /// A reply that the request cannot have.
    #[error("the reply does not belong to command {command}")]
    WrongReply {
        /// Command code of the request.
        command: u8,
    },
}

impl EncodeError {
    /// The status for a caller whose data cannot be sent.
    #[must_use]
    pub const fn status(&self) -> Status {
        match self {
            Self::UnregisteredType { .. } => Status::ERR_UNKNOWN_DATA_TYPE,
            Self::MixedArray { .. } => Status::ERR_TYPE_MISMATCH,
            Self::CountTooLarge { .. } | Self::TooDeep { .. } | Self::Regex | Self::WrongReply { .. } => {
                Status::ERR_PACK_FAILURE
            }
        }
    }
}
