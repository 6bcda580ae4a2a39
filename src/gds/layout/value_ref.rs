//! A stored value, borrowed from the segment.

use std::ffi::CStr;

use zerocopy::IntoBytes;

use super::cell::{
    ValueIdentity, access, is_scalar_of, null_of, size_of_bytes, unsigned_of, value_of_bytes, value_of_scalar,
};
use super::format::{Cell, INLINE_BYTES_MAX, form};
use super::segment_view::{Damage, SegmentView};
use crate::gds::job_record::endpoints_of;
use crate::regex::DealtRanks;
use crate::types::{ArchivedValue, DataType, Value};

/// A value in its stored place. A copy is a copy of the reference.
///
/// Numbers have been checked against their type; strings and archives are checked on access.
#[derive(Clone, Copy, Debug)]
pub struct ValueRef<'a> {
    data_type: DataType,
    body: Body<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Body<'a> {
    Scalar(u64),
    Null,
    /// The bytes and the byte behind them, a NUL unless the segment is damaged. Only readers that need the NUL load it:
    /// it may lie on a cold cache line.
    Bytes {
        with_nul: &'a [u8],
    },
    Archive(&'a [u8]),
    /// The ranks of a node as a string, which is not stored.
    Ranks {
        dealt: DealtRanks,
        node: u32,
    },
    /// The ranks of all nodes likewise.
    Map(DealtRanks),
    /// An archive of endpoints, and the process whose they are.
    Endpoints {
        archive: &'a [u8],
        rank: u32,
    },
}

impl<'a> ValueRef<'a> {
    /// A number computed by a column.
    ///
    /// # Errors
    /// [`Damage`] for an unknown type, or a number outside its range.
    #[doc(hidden)]
    #[inline(always)]
    pub fn from_scalar(data_type: u16, bits: u64) -> Result<Self, Damage> {
        let known = data_type_of(data_type)?;
        if !is_scalar_of(known, bits) {
            return Err(Damage::Number { data_type, bits });
        }
        Ok(Self { data_type: known, body: Body::Scalar(bits) })
    }

    /// Bytes, with the byte behind them.
    #[inline(always)]
    pub(crate) fn from_bytes(data_type: u16, with_nul: &'a [u8]) -> Result<Self, Damage> {
        Ok(Self { data_type: data_type_of(data_type)?, body: Body::Bytes { with_nul } })
    }

    /// The list of a node's ranks, which must not be empty.
    pub(crate) const fn from_ranks(dealt: DealtRanks, node: u32) -> Self {
        Self { data_type: DataType::String, body: Body::Ranks { dealt, node } }
    }

    /// The lists of all nodes' ranks.
    #[doc(hidden)]
    #[must_use]
    pub const fn from_map(dealt: DealtRanks) -> Self {
        Self { data_type: DataType::String, body: Body::Map(dealt) }
    }

    /// Bytes in the cell itself.
    #[inline(always)]
    pub(crate) fn from_inline(cell: &'a Cell) -> Result<Self, Damage> {
        Self::from_bytes(cell.data_type, inline_bytes(cell)?)
    }

    /// The value of a cell; `None` for an absent value.
    #[inline(always)]
    pub(crate) fn from_cell(segment: SegmentView<'a>, cell: &'a Cell) -> Result<Option<Self>, Damage> {
        let body = match cell.form {
            form::ABSENT => return Ok(None),
            form::SCALAR => return Self::from_scalar(cell.data_type, cell.payload).map(Some),
            form::NULL => Body::Null,
            form::INLINE => return Self::from_inline(cell).map(Some),
            form::BYTES => {
                let with_nul = segment.bytes(cell.payload, u64::from(cell.len) + 1)?;
                return Self::from_bytes(cell.data_type, with_nul).map(Some);
            }
            form::ARCHIVE => Body::Archive(segment.bytes(cell.payload, cell.len.into())?),
            other => return Err(Damage::Code { what: "the form of a cell", code: other.into() }),
        };
        Ok(Some(Self { data_type: data_type_of(cell.data_type)?, body }))
    }

    /// A list of endpoints as those of a process; `None` for another value.
    pub(crate) const fn of_process(self, rank: u32) -> Option<Self> {
        match self.body {
            Body::Archive(archive) => Some(Self { body: Body::Endpoints { archive, rank }, ..self }),
            _ => None,
        }
    }

    /// The type of the value.
    #[must_use]
    #[inline]
    pub const fn data_type(&self) -> DataType {
        self.data_type
    }

    /// The value as an unsigned number, if its type is an integer of any width and it is not negative; as
    /// [`Value::as_u64`].
    #[must_use]
    #[inline]
    pub fn as_u64(&self) -> Option<u64> {
        match self.body {
            Body::Scalar(bits) => unsigned_of(self.data_type, bits),
            _ => None,
        }
    }

    /// The value as a 32-bit unsigned number; see [`ValueRef::as_u64`].
    #[must_use]
    pub fn as_u32(&self) -> Option<u32> {
        self.as_u64()?.try_into().ok()
    }

    /// The value as a boolean, if it is one; as [`Value::as_bool`].
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        self.number()?.as_bool()
    }

    /// The value if it fits the cell itself: a number, rank, code, boolean or empty value. Does not allocate.
    #[must_use]
    #[inline]
    pub fn number(&self) -> Option<Value> {
        match self.body {
            Body::Scalar(bits) => value_of_scalar(self.data_type, bits),
            _ => None,
        }
    }

    /// The value if it is computed: a string without bytes in the segment, or endpoints; `None` for all others, and
    /// damage.
    #[must_use]
    pub fn unwritten(&self) -> Option<Value> {
        match self.body {
            Body::Ranks { dealt, node } => Some(Value::from(dealt.text_of(node).unwrap_or_default())),
            Body::Map(dealt) => Some(Value::from(dealt.map_text())),
            Body::Endpoints { .. } => self.to_value().ok(),
            _ => None,
        }
    }

    /// Number of ranks in the text of [`Self::unwritten`], which has at most ten times as many bytes; `None` for values
    /// that are written.
    #[must_use]
    pub const fn unwritten_ranks(&self) -> Option<u32> {
        match self.body {
            Body::Ranks { dealt, .. } | Body::Map(dealt) => Some(dealt.end()),
            _ => None,
        }
    }

    /// The bytes of a string (without its NUL) or byte object. In memory a NUL follows them. `None` for other types,
    /// and for a string that [is not written](Self::unwritten) in the segment.
    #[must_use]
    #[inline]
    pub const fn as_bytes(&self) -> Option<&'a [u8]> {
        match self.body {
            Body::Bytes { with_nul } => Some(before_nul(with_nul)),
            _ => None,
        }
    }

    /// A string with its NUL, for C; `None` for other types, null pointers, strings with a NUL inside, and if
    /// [`ValueRef::as_bytes`] is `None`.
    #[must_use]
    pub fn as_c_str(&self) -> Option<&'a CStr> {
        match self.body {
            Body::Bytes { with_nul } if self.is_text() => CStr::from_bytes_with_nul(with_nul).ok(),
            _ => None,
        }
    }

    /// Bytes of the string, byte object or archive; `None` for a value that fits the cell itself or [is not
    /// written](Self::unwritten).
    #[must_use]
    pub fn payload_bytes(&self) -> Option<u64> {
        match self.body {
            Body::Bytes { with_nul } => Some(size_of_bytes(before_nul(with_nul))),
            Body::Archive(bytes) | Body::Endpoints { archive: bytes, .. } => Some(size_of_bytes(bytes)),
            Body::Scalar(_) | Body::Null | Body::Ranks { .. } | Body::Map(_) => None,
        }
    }

    /// The value as text, if it is a string of UTF-8; `None` if [`ValueRef::as_bytes`] is `None`.
    #[must_use]
    pub fn as_str(&self) -> Option<&'a str> {
        if self.is_text() { std::str::from_utf8(self.as_bytes()?).ok() } else { None }
    }

    const fn is_text(&self) -> bool {
        matches!(self.data_type, DataType::String | DataType::ProcNamespace | DataType::ProcCpuset)
    }

    /// The archive of a value that is neither number nor bytes; `None` otherwise. Validated at this first access.
    ///
    /// # Errors
    /// [`Damage::Archive`].
    pub fn nested(&self) -> Result<Option<&'a ArchivedValue>, Damage> {
        match self.body {
            Body::Archive(bytes) => access(bytes).map(Some),
            _ => Ok(None),
        }
    }

    /// The value, copied out.
    ///
    /// # Errors
    /// [`Damage`] if the stored bytes are invalid for the type.
    pub fn to_value(&self) -> Result<Value, Damage> {
        let code = self.data_type.to_raw();
        match self.body {
            Body::Scalar(bits) => value_of_scalar(self.data_type, bits).ok_or(Damage::Number { data_type: code, bits }),
            Body::Null => {
                null_of(self.data_type).ok_or(Damage::Code { what: "the type of a null value", code: code.into() })
            }
            Body::Bytes { with_nul } => {
                let bytes = before_nul(with_nul);
                value_of_bytes(self.data_type, bytes)
                    .ok_or(Damage::Text { what: self.data_type.name(), len: size_of_bytes(bytes) })
            }
            Body::Archive(bytes) => self.unarchived(bytes),
            Body::Endpoints { archive, rank } => Ok(endpoints_of(self.unarchived(archive)?, rank)),
            Body::Ranks { .. } | Body::Map(_) => self.unwritten().ok_or(Damage::Missing { what: "a list of ranks" }),
        }
    }

    fn unarchived(&self, bytes: &[u8]) -> Result<Value, Damage> {
        let damage = Damage::Archive { len: size_of_bytes(bytes) };
        let value = access(bytes)?.to_value().ok_or(damage)?;
        if value.data_type() == self.data_type { Ok(value) } else { Err(damage) }
    }

    /// The identity of the value; `None` if it [is not written](Self::unwritten), which no posted value is.
    pub(crate) const fn identity(&self) -> Option<ValueIdentity<'a>> {
        Some(match self.body {
            Body::Scalar(bits) => ValueIdentity::of_scalar(self.data_type, bits),
            Body::Null => ValueIdentity::of_scalar(self.data_type, u64::MAX),
            Body::Bytes { with_nul } => ValueIdentity::of_bytes(self.data_type, before_nul(with_nul)),
            Body::Archive(bytes) => ValueIdentity::of_bytes(self.data_type, bytes),
            Body::Ranks { .. } | Body::Map(_) | Body::Endpoints { .. } => return None,
        })
    }
}

#[inline(always)]
fn data_type_of(raw: u16) -> Result<DataType, Damage> {
    DataType::from_raw(raw).ok_or(Damage::Code { what: "a data type", code: raw.into() })
}

/// The bytes in a cell's payload and their NUL.
#[inline(always)]
fn inline_bytes(cell: &Cell) -> Result<&[u8], Damage> {
    let len = usize::try_from(cell.len).unwrap_or(usize::MAX);
    let malformed = Damage::Text { what: "string within a cell", len: cell.len.into() };
    if len > INLINE_BYTES_MAX {
        return Err(malformed);
    }
    cell.payload.as_bytes().get(..=len).ok_or(malformed)
}

/// The bytes before the NUL.
const fn before_nul(with_nul: &[u8]) -> &[u8] {
    match with_nul.split_last() {
        Some((_, bytes)) => bytes,
        None => &[],
    }
}
