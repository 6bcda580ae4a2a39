//! Integers: groups of seven bits since V4, fixed width before.

use super::{Codec, DecodeError, DecodeProblem, EncodeError, Encoding, Reader, Writer};
use crate::types::DataType;

/// A number of 2, 4 or 8 bytes.
pub trait Integer: Copy + Into<i128> {
    fn write(self, writer: &mut Writer);
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError>;
    /// As `read`, for a number of any size.
    fn read_any(reader: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

macro_rules! integers {
    ($($type:ty: $data_type:ident, $to_groups:expr, $from_groups:expr;)*) => {
        $(impl Integer for $type {
            fn write(self, writer: &mut Writer) {
                if writer.codec().generation.has_fixed_integers() {
                    writer.raw(&self.to_be_bytes());
                } else {
                    write_groups(writer, $to_groups(self.into()));
                }
            }

            #[inline(always)]
            fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                if let Some((number, size_bytes)) = reader.small_number()
                    && let Ok(number) = Self::try_from($from_groups(number))
                {
                    reader.skip(size_bytes);
                    return Ok(number);
                }
                Self::read_any(reader)
            }

            #[inline(never)]
            fn read_any(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                if reader.codec().generation.has_fixed_integers() {
                    return reader.take_array().map(Self::from_be_bytes);
                }
                let number = $from_groups(read_groups(reader)?);
                Self::try_from(number).map_err(|_| {
                    let target = DataType::$data_type;
                    reader.error(DecodeProblem::NumberTooLarge { number: number.into(), target })
                })
            }
        })*
    };
}

integers! {
    u16: Uint16, std::convert::identity::<u64>, std::convert::identity::<u64>;
    u32: Uint32, std::convert::identity::<u64>, std::convert::identity::<u64>;
    u64: Uint64, std::convert::identity::<u64>, std::convert::identity::<u64>;
    i16: Int16, zigzag, unzigzag;
    i32: Int32, zigzag, unzigzag;
    i64: Int64, zigzag, unzigzag;
}

/// Small magnitudes of either sign become small numbers: 0, -1, 1, -2 ... are 0, 1, 2, 3 ...
const fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

const fn unzigzag(bits: u64) -> i64 {
    (bits >> 1).cast_signed() ^ -(bits & 1).cast_signed()
}

/// Least significant group first; the top bit means that more follow. The rest after eight groups is a ninth byte
/// without that bit, so that 64 bits take nine bytes and not ten.
fn write_groups(writer: &mut Writer, mut bits: u64) {
    for _ in 0..GROUP_COUNT_MAX {
        let [group, ..] = (bits & GROUP_MASK).to_le_bytes();
        bits >>= GROUP_BITS;
        if bits == 0 {
            writer.byte(group);
            return;
        }
        writer.byte(group | MORE_FOLLOW);
    }
    let [rest, ..] = bits.to_le_bytes();
    writer.byte(rest);
}

impl Writer {
    pub(super) fn integer<I: Integer>(&mut self, number: I) {
        number.write(self);
    }
}

impl Reader<'_> {
    #[inline]
    pub(super) fn integer<I: Integer>(&mut self) -> Result<I, DecodeError> {
        I::read(self)
    }

    /// A data type that the connection's encoding has.
    #[inline]
    pub(super) fn data_type(&mut self) -> Result<DataType, DecodeError> {
        let code = self.integer()?;
        let data_type = DataType::from_raw(code).ok_or_else(|| self.error(DecodeProblem::UnknownType { code }))?;
        self.require(data_type)?;
        Ok(data_type)
    }

    /// The next number and its size in bytes. Nearly every number has one byte to three. `None`: it is longer.
    #[inline(always)]
    fn small_number(&self) -> Option<(u64, usize)> {
        if self.codec().generation.has_fixed_integers() {
            return None;
        }
        let group = |byte: u8| u64::from(byte & !MORE_FOLLOW);
        match *self.peek() {
            [only, ..] if only & MORE_FOLLOW == 0 => Some((only.into(), 1)),
            [low, high, ..] if high & MORE_FOLLOW == 0 => Some((group(low) | group(high) << GROUP_BITS, 2)),
            [low, middle, high, ..] if high & MORE_FOLLOW == 0 => {
                Some((group(low) | group(middle) << GROUP_BITS | group(high) << (2 * GROUP_BITS), 3))
            }
            _ => None,
        }
    }
}

fn read_groups(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    let mut bits = 0;
    for index in 0..GROUP_COUNT_MAX {
        let byte = reader.byte()?;
        bits |= u64::from(byte & !MORE_FOLLOW) << (GROUP_BITS * index);
        if byte & MORE_FOLLOW == 0 {
            return Ok(bits);
        }
    }
    Ok(bits | u64::from(reader.byte()?) << (GROUP_BITS * GROUP_COUNT_MAX))
}

const GROUP_COUNT_MAX: u32 = 8;
const GROUP_BITS: u32 = 7;
const GROUP_MASK: u64 = 0x7F;
const MORE_FOLLOW: u8 = 0x80;

/// A number whose width differs between systems. Old encodings send the width's type before it, once for consecutive
/// numbers in an array.
pub trait Tagged {
    type Value: Copy;
    /// The wire type of this system.
    type Sent: Integer;
    /// Its own type.
    const DATA_TYPE: DataType;
    /// The type of `Sent`.
    const TAG: DataType;
    /// Whether every encoding sends the tag, not only V3.
    const ALWAYS_TAGGED: bool;

    fn to_sent(value: Self::Value) -> Self::Sent;
    /// `None` if it does not fit.
    fn from_received(number: i128) -> Option<Self::Value>;
}

impl<T: Tagged> Encoding for T {
    type Value = T::Value;
    const TYPE: DataType = T::DATA_TYPE;

    fn write(writer: &mut Writer, value: &Self::Value) -> Result<(), EncodeError> {
        write_tag::<T>(writer);
        writer.integer(T::to_sent(*value));
        Ok(())
    }

    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Self::Value, DecodeError> {
        if is_tagged::<T>(reader.codec()) {
            let tag = reader.data_type()?;
            return read_tagged::<T>(reader, tag);
        }
        let number = T::Sent::read(reader)?.into();
        accept::<T>(reader, number)
    }
}

pub(super) fn write_tag<T: Tagged>(writer: &mut Writer) {
    if is_tagged::<T>(writer.codec()) {
        writer.integer(T::TAG.to_raw());
    }
}

const fn is_tagged<T: Tagged>(codec: Codec) -> bool {
    T::ALWAYS_TAGGED || codec.generation.has_fixed_integers()
}

/// The wire type of numbers of kind `T`.
pub(super) fn read_tag<T: Tagged>(reader: &mut Reader<'_>) -> Result<DataType, DecodeError> {
    if is_tagged::<T>(reader.codec()) { reader.data_type() } else { Ok(T::TAG) }
}

pub(super) fn read_tagged<T: Tagged>(reader: &mut Reader<'_>, tag: DataType) -> Result<T::Value, DecodeError> {
    let number: i128 = match tag {
        DataType::Int8 => reader.take_array().map(i8::from_be_bytes)?.into(),
        DataType::Uint8 => reader.byte()?.into(),
        DataType::Int16 => reader.integer::<i16>()?.into(),
        DataType::Int32 => reader.integer::<i32>()?.into(),
        DataType::Int64 => reader.integer::<i64>()?.into(),
        DataType::Uint16 => reader.integer::<u16>()?.into(),
        DataType::Uint32 => reader.integer::<u32>()?.into(),
        DataType::Uint64 => reader.integer::<u64>()?.into(),
        other => return Err(reader.error(DecodeProblem::WrongType { expected: T::TAG, found: other.to_raw() })),
    };
    accept::<T>(reader, number)
}

#[inline]
fn accept<T: Tagged>(reader: &Reader<'_>, number: i128) -> Result<T::Value, DecodeError> {
    T::from_received(number).ok_or_else(|| reader.error(DecodeProblem::NumberTooLarge { number, target: T::DATA_TYPE }))
}
