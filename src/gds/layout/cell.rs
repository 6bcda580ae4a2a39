//! The stored form of values, and the way back.
//!
//! There are three forms: a number in the cell, bytes, or an rkyv archive of the whole value. The data type determines
//! the form, except for a missing string or cpuset. So a reader can ask for the data it expects without decoding.

use std::borrow::Cow;
use std::num::NonZeroUsize;

use rkyv::api::access_with_context;
use rkyv::rancor;
use rkyv::util::AlignedVec;
use rkyv::validation::Validator;
use rkyv::validation::archive::ArchiveValidator;
use rkyv::validation::shared::SharedValidator;

use super::format::{Cell, form};
use super::segment_view::Damage;
use crate::types::{
    ArchivedValue, DataType, LentValue, LocalAddress, Namespace, Rank, Text, Value, footprint, with_stack,
};

/// Longest chain of out-of-line parts in an archive, which bounds the stack of its validation. A level of values takes
/// at most two parts, an array in an array, and there are at most `NESTING_MAX` levels.
const ARCHIVE_DEPTH_MAX: usize = 2 * (2 * 1024 + 1) + 64;

/// A value in the form the segment stores.
#[derive(Debug)]
pub(crate) enum Encoded<'v> {
    /// A number.
    Scalar { data_type: DataType, bits: u64 },
    /// A string or cpuset that is a null pointer.
    Null { data_type: DataType },
    /// A string or byte object.
    Bytes { data_type: DataType, bytes: Cow<'v, [u8]>, is_text: bool },
    /// Anything else.
    Archive { data_type: DataType, bytes: AlignedVec },
}

/// From here on a value is large: a page.
const LARGE_BYTES: usize = 4096;

impl<'v> Encoded<'v> {
    /// Whether it is the undefined value, which removes a posted one.
    pub(crate) fn is_undefined(&self) -> bool {
        self.data_type() == DataType::Undefined
    }

    /// Its bytes, if they are a value that is worth writing to its place at once.
    pub(crate) fn large(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes { bytes, .. } if bytes.len() >= LARGE_BYTES => Some(bytes),
            Self::Archive { bytes, .. } if bytes.len() >= LARGE_BYTES => Some(bytes),
            _ => None,
        }
    }

    /// The cell of bytes that lie at this offset.
    pub(crate) fn cell_at(&self, payload: u64) -> Cell {
        let len = self.large().map_or(0, <[u8]>::len);
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let form = if matches!(self, Self::Archive { .. }) { form::ARCHIVE } else { form::BYTES };
        Cell { data_type: self.data_type().to_raw(), form, len, payload }
    }

    /// Finds the stored form of a value.
    ///
    /// # Errors
    /// [`ValueError`] if the value is larger than `size_bytes_max` or nested too deeply to be validated.
    pub(crate) fn new(value: &'v Value, size_bytes_max: u32) -> Result<Self, ValueError> {
        Self::of(value)?.within(size_bytes_max)
    }

    /// As [`Encoded::new`], for a borrowed value.
    ///
    /// # Errors
    /// As [`Encoded::new`].
    pub(crate) fn lent(value: &'v LentValue<'_>, size_bytes_max: u32) -> Result<Self, ValueError> {
        let bytes = |data_type, bytes, is_text| Self::Bytes { data_type, bytes: Cow::Borrowed(bytes), is_text };
        match value {
            LentValue::String(text) => bytes(DataType::String, text.as_bytes(), true).within(size_bytes_max),
            LentValue::ByteObject(object) => bytes(DataType::ByteObject, object, false).within(size_bytes_max),
            LentValue::Value(value) => Self::new(value, size_bytes_max),
        }
    }

    fn of(value: &'v Value) -> Result<Self, ValueError> {
        let data_type = value.data_type();
        Ok(if let Some(bits) = scalar_of(value) {
            Self::Scalar { data_type, bits }
        } else if let Some((bytes, is_text)) = bytes_of(value) {
            bytes.map_or(Self::Null { data_type }, |bytes| Self::Bytes {
                data_type,
                bytes: Cow::Borrowed(bytes),
                is_text,
            })
        } else {
            Self::Archive { data_type, bytes: archive(value)? }
        })
    }

    /// A text.
    pub(crate) fn text(text: &'v str, size_bytes_max: u32) -> Result<Self, ValueError> {
        let bytes = Cow::Borrowed(text.as_bytes());
        Self::Bytes { data_type: DataType::String, bytes, is_text: true }.within(size_bytes_max)
    }

    fn within(self, size_bytes_max: u32) -> Result<Self, ValueError> {
        let size = self.bytes().len();
        match u32::try_from(size) {
            Ok(size) if size <= size_bytes_max => Ok(self),
            _ => Err(ValueError::TooLarge { size_bytes: size, size_bytes_max }),
        }
    }

    /// Type of the value.
    pub(crate) const fn data_type(&self) -> DataType {
        match self {
            Self::Scalar { data_type, .. }
            | Self::Null { data_type }
            | Self::Bytes { data_type, .. }
            | Self::Archive { data_type, .. } => *data_type,
        }
    }

    /// The bytes stored besides the cell.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Scalar { .. } | Self::Null { .. } => &[],
            Self::Bytes { bytes, .. } => bytes,
            Self::Archive { bytes, .. } => bytes,
        }
    }

    /// The same for equal values, and different for different ones.
    pub(crate) fn identity(&self) -> ValueIdentity<'_> {
        let bits = match self {
            Self::Scalar { bits, .. } => Some(*bits),
            Self::Null { .. } => Some(u64::MAX),
            _ => None,
        };
        ValueIdentity { data_type: self.data_type(), bits, bytes: self.bytes() }
    }
}

/// See [`Encoded::identity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ValueIdentity<'e> {
    data_type: DataType,
    bits: Option<u64>,
    bytes: &'e [u8],
}

impl<'e> ValueIdentity<'e> {
    /// The identity of a stored number.
    pub(crate) const fn of_scalar(data_type: DataType, bits: u64) -> Self {
        Self { data_type, bits: Some(bits), bytes: &[] }
    }

    /// The same as bytes.
    pub(crate) fn hash_bytes(&self) -> Vec<u8> {
        let bits = self.bits.map_or([0; 8], u64::to_le_bytes);
        [&bits[..], self.bytes].concat()
    }

    /// The identity of stored bytes or an archive.
    pub(crate) const fn of_bytes(data_type: DataType, bytes: &'e [u8]) -> Self {
        Self { data_type, bits: None, bytes }
    }
}

fn archive(value: &Value) -> Result<AlignedVec, ValueError> {
    // No peer could send such a value.
    let size_bytes = footprint(value).ok_or(ValueError::TooDeep)?;
    // Memory that grows would be copied each time.
    let memory = AlignedVec::with_capacity(size_bytes);
    let bytes =
        rkyv::api::high::to_bytes_in::<_, rancor::Error>(value, memory).map_err(|_| ValueError::NotArchivable)?;
    // A value that readers would refuse must not be stored.
    access(&bytes).map_err(|_| ValueError::TooDeep)?;
    Ok(bytes)
}

/// The bytes of a text or byte object, which is stored as it is; `None`: it is a number, or is encoded.
pub(crate) fn plain_bytes(value: &Value) -> Option<&[u8]> {
    bytes_of(value)?.0
}

/// The bytes of a value that is a string or byte object (`Some(None)`: a null one), and whether they are text.
fn bytes_of(value: &Value) -> Option<(Option<&[u8]>, bool)> {
    Some(match value {
        Value::String(text) => (Some(text.as_bytes()), true),
        Value::NullString => (None, true),
        Value::ProcCpuset(text) => (text.as_ref().map(Text::as_bytes), true),
        Value::ProcNamespace(namespace) => (Some(namespace.as_str().as_bytes()), true),
        Value::ByteObject(bytes)
        | Value::CompressedString(bytes)
        | Value::Regex(bytes)
        | Value::CompressedByteObject(bytes)
        | Value::DataBuffer(bytes) => (Some(bytes), false),
        _ => return None,
    })
}

/// The value of a type stored as bytes; `None` if the type is stored otherwise or the bytes don't fit it.
pub(crate) fn value_of_bytes(data_type: DataType, bytes: &[u8]) -> Option<Value> {
    Some(match data_type {
        DataType::String => Value::String(Text::new(bytes).ok()?),
        DataType::ProcCpuset => Value::ProcCpuset(Some(Text::new(bytes).ok()?)),
        DataType::ProcNamespace => Value::ProcNamespace(Namespace::in_value(bytes).ok()?),
        DataType::ByteObject => Value::ByteObject(bytes.to_vec()),
        DataType::CompressedString => Value::CompressedString(bytes.to_vec()),
        DataType::Regex => Value::Regex(bytes.to_vec()),
        DataType::CompressedByteObject => Value::CompressedByteObject(bytes.to_vec()),
        DataType::DataBuffer => Value::DataBuffer(bytes.to_vec()),
        _ => return None,
    })
}

/// The null value of a type; `None` if the type has none.
pub(crate) const fn null_of(data_type: DataType) -> Option<Value> {
    match data_type {
        DataType::String => Some(Value::NullString),
        DataType::ProcCpuset => Some(Value::ProcCpuset(None)),
        _ => None,
    }
}

/// The bits of an integer as an unsigned number, unless it is negative. Equals [`Value::as_u64`] of
/// [`value_of_scalar`], without making the value.
#[inline]
pub(crate) fn unsigned_of(data_type: DataType, bits: u64) -> Option<u64> {
    match data_type {
        DataType::Uint32
        | DataType::Uint
        | DataType::Uint64
        | DataType::Size
        | DataType::Uint16
        | DataType::Uint8
        | DataType::Byte
        | DataType::Pid
        | DataType::Time => Some(bits),
        DataType::Int8 | DataType::Int16 | DataType::Int | DataType::Int32 | DataType::Int64 => {
            bits.cast_signed().try_into().ok()
        }
        DataType::ProcRank => value_of_scalar(data_type, bits)?.as_u64(),
        _ => None,
    }
}

/// A number as 64 bits: unsigned zero-extended, signed sign-extended, floating point as its bits.
trait Bits: Sized {
    fn widen(self) -> u64;
    fn narrow(bits: u64) -> Option<Self>;
}

macro_rules! unsigned_bits {
    ($($number:ty)*) => {
        $(impl Bits for $number {
            fn widen(self) -> u64 {
                self.into()
            }
            fn narrow(bits: u64) -> Option<Self> {
                bits.try_into().ok()
            }
        })*
    };
}

macro_rules! signed_bits {
    ($($number:ty)*) => {
        $(impl Bits for $number {
            fn widen(self) -> u64 {
                i64::from(self).cast_unsigned()
            }
            fn narrow(bits: u64) -> Option<Self> {
                bits.cast_signed().try_into().ok()
            }
        })*
    };
}

unsigned_bits! { u8 u16 u32 u64 }
signed_bits! { i8 i16 i32 i64 }

impl Bits for bool {
    fn widen(self) -> u64 {
        self.into()
    }
    fn narrow(bits: u64) -> Option<Self> {
        match bits {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Bits for f32 {
    fn widen(self) -> u64 {
        self.to_bits().into()
    }
    fn narrow(bits: u64) -> Option<Self> {
        u32::try_from(bits).ok().map(Self::from_bits)
    }
}

impl Bits for f64 {
    fn widen(self) -> u64 {
        self.to_bits()
    }
    fn narrow(bits: u64) -> Option<Self> {
        Some(Self::from_bits(bits))
    }
}

impl Bits for Rank {
    fn widen(self) -> u64 {
        self.to_raw().into()
    }
    fn narrow(bits: u64) -> Option<Self> {
        Self::from_raw(u32::try_from(bits).ok()?).ok()
    }
}

macro_rules! scalars {
    ($($variant:ident)*) => {
        /// The number of a value with a numeric type.
        fn scalar_of(value: &Value) -> Option<u64> {
            match *value {
                Value::Undefined | Value::Pointer(_) => Some(0),
                $(Value::$variant(number) => Some(Bits::widen(number)),)*
                _ => None,
            }
        }

        /// Whether a type is numeric and can have these bits; equals whether [`value_of_scalar`] returns a value,
        /// without making it.
        #[inline]
        pub(crate) fn is_scalar_of(data_type: DataType, bits: u64) -> bool {
            fn fits<N: Bits>(bits: u64, _: fn(N) -> Value) -> bool {
                N::narrow(bits).is_some()
            }
            match data_type {
                DataType::Undefined | DataType::Pointer => bits == 0,
                $(DataType::$variant => fits(bits, Value::$variant),)*
                _ => false,
            }
        }

        /// The value of a numeric type; `None` for other types, and for numbers outside the type's range.
        pub(crate) fn value_of_scalar(data_type: DataType, bits: u64) -> Option<Value> {
            match data_type {
                DataType::Undefined => (bits == 0).then_some(Value::Undefined),
                DataType::Pointer => (bits == 0).then(|| Value::Pointer(LocalAddress::default())),
                $(DataType::$variant => Bits::narrow(bits).map(Value::$variant),)*
                _ => None,
            }
        }
    };
}

scalars! {
    Bool Byte Size Pid Int Int8 Int16 Int32 Int64 Uint Uint8 Uint16 Uint32 Uint64 Float Double Time Status Persistence
    Scope DataRange Command InfoDirectives DataType ProcState ProcRank AllocDirective IofChannel JobState LinkState
    DeviceType LocalityType StorageMedium StorageAccess StoragePersistence StorageAccessType ResblockDirective
}

/// Why one value cannot be stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// It is larger than allowed.
    #[error("it has {size_bytes} bytes, the limit is {size_bytes_max}; raise StoreLimits::value_bytes_max")]
    TooLarge {
        /// Its size when stored.
        size_bytes: usize,
        /// The limit.
        size_bytes_max: u32,
    },
    /// It is nested too deeply to be validated by readers.
    #[error("it is nested more than {} levels deep; flatten it", crate::types::NESTING_MAX)]
    TooDeep,
    /// It could not be archived.
    #[error("it is too large to be archived")]
    NotArchivable,
}

/// Validates an archive, with bounded recursion.
pub(crate) fn access(bytes: &[u8]) -> Result<&ArchivedValue, Damage> {
    const SHALLOW_MAX: NonZeroUsize = NonZeroUsize::new(64).expect("the limit is not zero");
    const DEPTH_MAX: NonZeroUsize = NonZeroUsize::new(ARCHIVE_DEPTH_MAX).expect("the limit is not zero");
    // A value of unusual depth is validated again from the start, on a larger stack.
    access_within(bytes, SHALLOW_MAX)
        .or_else(|_| with_stack(VALIDATION_STACK_BYTES, || access_within(bytes, DEPTH_MAX)))
}

fn access_within(bytes: &[u8], depth_max: NonZeroUsize) -> Result<&ArchivedValue, Damage> {
    let mut context = Validator::new(ArchiveValidator::with_max_depth(bytes, Some(depth_max)), SharedValidator::new());
    access_with_context::<ArchivedValue, _, rancor::Error>(bytes, &mut context)
        .map_err(|_| Damage::Archive { len: size_of_bytes(bytes) })
}

/// Stack for validating the deepest archive in a build without optimisation, with a margin. Only used pages are
/// touched.
const VALIDATION_STACK_BYTES: usize = 24 << 20;

pub(crate) fn size_of_bytes(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::DataArray;

    /// Regression: every layer except the store accepted arrays of arrays, so that all later commits of the process
    /// failed.
    #[test]
    fn the_store_accepts_all_values_that_can_be_sent() {
        let array = |value: Value| DataArray { element_type: value.data_type(), elements: vec![value] };
        let nested = |levels| (0..levels).fold(Value::Bool(true), |inner, _| Value::DataArray(Box::new(array(inner))));
        let deepest = (1..4096).rev().map(nested).find(|value| footprint(value).is_some()).unwrap();
        assert!(Encoded::new(&deepest, u32::MAX).is_ok());
    }
}
