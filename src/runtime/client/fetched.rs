use std::borrow::Cow;
use std::sync::Arc;

use crate::client::{CallError, GetRequestError};
use crate::gds::{Damage, ValueRef};
use crate::types::{DataType, Status, Value};

/// The value that a Get found: borrowed from the segment if it lies there, else owned.
///
/// Looking at a borrowed value copies nothing.
#[derive(Clone, Debug)]
pub struct Fetched<'a>(Place<'a>);

#[derive(Clone, Debug)]
enum Place<'a> {
    Segment(ValueRef<'a>),
    Shared(Arc<Value>),
    Owned(Value),
}

/// A found value at its place, for callers with their own conversion.
#[derive(Clone, Copy, Debug)]
pub enum Borrowed<'a> {
    /// In the segment.
    Stored(ValueRef<'a>),
    /// In this process.
    Value(&'a Value),
}

impl<'a> Fetched<'a> {
    /// The value at its place.
    #[must_use]
    #[inline]
    pub fn borrow(&self) -> Borrowed<'_> {
        match &self.0 {
            Place::Segment(value) => Borrowed::Stored(*value),
            Place::Shared(value) => Borrowed::Value(value),
            Place::Owned(value) => Borrowed::Value(value),
        }
    }

    /// A value that is written in the segment.
    #[inline]
    pub(super) const fn written(value: ValueRef<'a>) -> Self {
        Self(Place::Segment(value))
    }

    /// A value from a segment. It may be written there, or only follow from other values there.
    pub(super) fn published(value: ValueRef<'a>) -> Self {
        value.unwritten().map_or(Self(Place::Segment(value)), Self::owned)
    }

    pub(super) const fn shared(value: Arc<Value>) -> Self {
        Self(Place::Shared(value))
    }

    pub(super) const fn owned(value: Value) -> Self {
        Self(Place::Owned(value))
    }

    /// The stored type.
    #[must_use]
    #[inline]
    pub fn data_type(&self) -> DataType {
        match &self.0 {
            Place::Segment(value) => value.data_type(),
            Place::Shared(value) => value.data_type(),
            Place::Owned(value) => value.data_type(),
        }
    }

    /// Whether the value was read in place, without a copy.
    #[must_use]
    #[inline]
    pub const fn is_borrowed(&self) -> bool {
        matches!(self.0, Place::Segment(_))
    }

    /// The value as an unsigned number, if it is a non-negative integer of any width.
    #[must_use]
    #[inline]
    pub fn as_u64(&self) -> Option<u64> {
        match &self.0 {
            Place::Segment(value) => value.as_u64(),
            Place::Shared(value) => value.as_u64(),
            Place::Owned(value) => value.as_u64(),
        }
    }

    /// The value as a boolean, if it is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match &self.0 {
            Place::Segment(value) => value.as_bool(),
            Place::Shared(value) => value.as_bool(),
            Place::Owned(value) => value.as_bool(),
        }
    }

    /// The value as text, if it is a UTF-8 string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match &self.0 {
            Place::Segment(value) => value.as_str(),
            Place::Shared(value) => value.as_str(),
            Place::Owned(value) => value.as_str(),
        }
    }

    /// The bytes of a byte object.
    #[must_use]
    #[inline]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match &self.0 {
            Place::Segment(value) => published_bytes(*value),
            Place::Shared(value) => bytes_of(value),
            Place::Owned(value) => bytes_of(value),
        }
    }

    /// The text, borrowed from the segment for as long as the client lives if it lies there.
    #[must_use]
    pub fn into_str(self) -> Option<Cow<'a, str>> {
        match self.0 {
            Place::Segment(value) => value.as_str().map(Cow::Borrowed),
            Place::Shared(value) => value.as_str().map(|text| Cow::Owned(text.to_owned())),
            Place::Owned(value) => value.as_str().map(|text| Cow::Owned(text.to_owned())),
        }
    }

    /// The bytes of a byte object, borrowed from the segment if they lie there.
    #[must_use]
    pub fn into_bytes(self) -> Option<Cow<'a, [u8]>> {
        match self.0 {
            Place::Segment(value) => published_bytes(value).map(Cow::Borrowed),
            Place::Shared(value) => bytes_of(&value).map(|bytes| Cow::Owned(bytes.to_owned())),
            Place::Owned(value) => bytes_of(&value).map(|bytes| Cow::Owned(bytes.to_owned())),
        }
    }

    /// The value, copied out of the segment if it lies there.
    ///
    /// # Errors
    /// [`Damage`] when the stored bytes don't suit the type.
    pub fn into_value(self) -> Result<Value, Damage> {
        match self.0 {
            Place::Segment(value) => value.to_value(),
            Place::Shared(value) => Ok(Arc::unwrap_or_clone(value)),
            Place::Owned(value) => Ok(value),
        }
    }
}

/// Strings have bytes in the segment too, but they are no byte objects.
fn published_bytes(value: ValueRef<'_>) -> Option<&[u8]> {
    value.as_bytes().filter(|_| value.data_type() == DataType::ByteObject)
}

fn bytes_of(value: &Value) -> Option<&[u8]> {
    match value {
        Value::ByteObject(bytes) => Some(bytes),
        _ => None,
    }
}

/// Why a Get failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The value does not exist, or this process may not see it.
    #[error("no value: {status}")]
    NotFound {
        /// Not found, or posted with a scope that excludes this process.
        status: Status,
    },
    /// The server refused or did not answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The stored bytes are damaged.
    #[error("the stored bytes are damaged")]
    Damaged,
    /// The request is invalid, now that the members of its group are known.
    #[error(transparent)]
    Refused(#[from] GetRequestError),
    /// The session was dropped before the value came.
    #[error("the client was dropped before the value came")]
    Dropped,
}

impl FetchError {
    /// Whether the value does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        match self {
            Self::NotFound { status } | Self::Call(CallError::Refused { status, .. }) => {
                *status == Status::ERR_NOT_FOUND
            }
            _ => false,
        }
    }

    /// The error of a lookup with this status.
    pub(super) const fn of(status: Status) -> Self {
        match status {
            Status::ERROR => Self::Damaged,
            status => Self::NotFound { status },
        }
    }
}

/// Takes the result of a Get.
pub(in crate::runtime) type ValueCallback = Box<dyn FnOnce(Result<Value, FetchError>) + Send>;
