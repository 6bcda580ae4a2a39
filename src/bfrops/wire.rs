//! The data types of the wire, under the names of [`DataType`].
//!
//! Records are their own encoding and appear here again, so that a message can be written down in one vocabulary. Every
//! other type is a name without values: `Size` sends a `u64` as a `size_t` of the wire, `Uint64` sends it as a
//! `uint64_t`.

use super::integer::Tagged;
use super::{DecodeError, EncodeError, Encoding, Reader, Writer};
use crate::types::{DataType, Rank, Text};

pub use super::annotated::{AnnotatedKey, AnnotatedKval};
pub use super::text::{CompulsoryString, Cpuset, Double, Float, String};
pub use super::topology::Topology;
pub use crate::types::{
    App, Buffer, DeviceDistance, Info, Key, Kval, Namespace, Pdata, ProcId as Proc, Query, ResourceUnit, Status, Value,
};

/// Declares names for data types whose wire form is a single octet.
macro_rules! octets {
    ($($name:ident: $data_type:ident),* $(,)?) => {
        $(
            #[doc = concat!("One octet of type `", stringify!($data_type), "`.")]
            #[derive(Debug)]
            pub struct $name;

            impl Encoding for $name {
                type Value = u8;
                const TYPE: DataType = DataType::$data_type;

                fn write(writer: &mut Writer, value: &u8) -> Result<(), EncodeError> {
                    writer.byte(*value);
                    Ok(())
                }

                fn read(reader: &mut Reader<'_>) -> Result<u8, DecodeError> {
                    reader.byte()
                }
            }
        )*
    };
}

octets! {
    Byte: Byte, Command: Command, Scope: Scope, DataRange: DataRange, AllocDirective: AllocDirective,
    ResblockDirective: ResblockDirective,
}

/// Declares names for data types whose wire form is an integer.
macro_rules! integers {
    ($($name:ident: $type:ty),* $(,)?) => {
        $(
            #[doc = concat!("An integer of type `", stringify!($name), "`.")]
            #[derive(Debug)]
            pub struct $name;

            impl Encoding for $name {
                type Value = $type;
                const TYPE: DataType = DataType::$name;

                fn write(writer: &mut Writer, value: &$type) -> Result<(), EncodeError> {
                    writer.integer(*value);
                    Ok(())
                }

                #[inline]
                fn read(reader: &mut Reader<'_>) -> Result<$type, DecodeError> {
                    reader.integer()
                }
            }
        )*
    };
}

integers! {
    Int16: i16, Int32: i32, Int64: i64, Uint16: u16, Uint32: u32, Uint64: u64, Time: u64, IofChannel: u16,
}

/// The number of a data type, which need not be a known one.
#[derive(Debug)]
pub struct DataTypeNumber;

impl Encoding for DataTypeNumber {
    type Value = u16;
    const TYPE: DataType = DataType::DataType;

    fn write(writer: &mut Writer, value: &u16) -> Result<(), EncodeError> {
        writer.integer(*value);
        Ok(())
    }

    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<u16, DecodeError> {
        reader.integer()
    }
}

/// True or false. Any octet but zero is true, as for a C reader.
#[derive(Debug)]
pub struct Bool;

impl Encoding for Bool {
    type Value = bool;
    const TYPE: DataType = DataType::Bool;

    fn write(writer: &mut Writer, value: &bool) -> Result<(), EncodeError> {
        writer.byte(u8::from(*value));
        Ok(())
    }

    fn read(reader: &mut Reader<'_>) -> Result<bool, DecodeError> {
        Ok(reader.byte()? != 0)
    }
}

/// A signed octet.
#[derive(Debug)]
pub struct Int8;

impl Encoding for Int8 {
    type Value = i8;
    const TYPE: DataType = DataType::Int8;

    fn write(writer: &mut Writer, value: &i8) -> Result<(), EncodeError> {
        writer.byte(value.cast_unsigned());
        Ok(())
    }

    fn read(reader: &mut Reader<'_>) -> Result<i8, DecodeError> {
        Ok(reader.byte()?.cast_signed())
    }
}

/// `size_t`.
#[derive(Debug)]
pub struct Size;

impl Tagged for Size {
    type Value = u64;
    type Sent = u64;
    const DATA_TYPE: DataType = DataType::Size;
    const TAG: DataType = DataType::Uint64;
    const ALWAYS_TAGGED: bool = false;

    fn to_sent(value: u64) -> u64 {
        value
    }

    fn from_received(number: i128) -> Option<u64> {
        number.try_into().ok()
    }
}

/// `int`.
#[derive(Debug)]
pub struct Int;

impl Tagged for Int {
    type Value = i32;
    type Sent = i32;
    const DATA_TYPE: DataType = DataType::Int;
    const TAG: DataType = DataType::Int32;
    const ALWAYS_TAGGED: bool = false;

    fn to_sent(value: i32) -> i32 {
        value
    }

    fn from_received(number: i128) -> Option<i32> {
        number.try_into().ok()
    }
}

/// `unsigned int`, which the reference sends in the signed form: numbers above 2^31 travel as negative ones.
#[derive(Debug)]
pub struct Uint;

impl Tagged for Uint {
    type Value = u32;
    type Sent = i32;
    const DATA_TYPE: DataType = DataType::Uint;
    const TAG: DataType = DataType::Int32;
    const ALWAYS_TAGGED: bool = false;

    fn to_sent(value: u32) -> i32 {
        value.cast_signed()
    }

    fn from_received(number: i128) -> Option<u32> {
        i32::try_from(number).map(i32::cast_unsigned).or_else(|_| number.try_into()).ok()
    }
}

/// `pid_t`. Every generation sends its width.
#[derive(Debug)]
pub struct Pid;

impl Tagged for Pid {
    type Value = u32;
    type Sent = u32;
    const DATA_TYPE: DataType = DataType::Pid;
    const TAG: DataType = DataType::Uint32;
    const ALWAYS_TAGGED: bool = true;

    fn to_sent(value: u32) -> u32 {
        value
    }

    fn from_received(number: i128) -> Option<u32> {
        number.try_into().ok()
    }
}

impl Encoding for Rank {
    type Value = Self;
    const TYPE: DataType = DataType::ProcRank;

    fn write(writer: &mut Writer, value: &Self) -> Result<(), EncodeError> {
        writer.integer(value.to_raw());
        Ok(())
    }

    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let raw = reader.integer()?;
        Self::from_raw(raw).map_err(|e| reader.error(e))
    }
}

/// A process; an empty namespace, written with the undefined rank, means none.
#[derive(Debug)]
pub struct OptionalProc;

impl Encoding for OptionalProc {
    type Value = Option<Proc>;
    const TYPE: DataType = DataType::Proc;

    fn write(writer: &mut Writer, value: &Option<Proc>) -> Result<(), EncodeError> {
        match value {
            Some(proc) => Proc::write(writer, proc),
            None => {
                CompulsoryString::write(writer, &Text::default())?;
                Rank::write(writer, &Rank::Undefined)
            }
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Option<Proc>, DecodeError> {
        let namespace = String::read(reader)?.filter(|name| !name.as_bytes().is_empty());
        let rank = Rank::read(reader)?;
        let Some(namespace) = namespace else { return Ok(None) };
        let namespace = reader.namespace(namespace.as_bytes())?;
        Ok(Some(Proc { namespace, rank }))
    }
}

impl Encoding for Status {
    type Value = Self;
    const TYPE: DataType = DataType::Status;

    fn write(writer: &mut Writer, value: &Self) -> Result<(), EncodeError> {
        writer.integer(value.to_raw());
        Ok(())
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.integer().map(Self::from_raw)
    }
}

/// Bytes with their number before them.
#[derive(Debug)]
pub struct ByteObject;

impl Encoding for ByteObject {
    type Value = Vec<u8>;
    const TYPE: DataType = DataType::ByteObject;

    fn write(writer: &mut Writer, value: &Vec<u8>) -> Result<(), EncodeError> {
        let count = u64::try_from(value.len()).map_err(|_| EncodeError::CountTooLarge { count: value.len() })?;
        Size::write(writer, &count)?;
        writer.raw(value);
        Ok(())
    }

    fn read(reader: &mut Reader<'_>) -> Result<Vec<u8>, DecodeError> {
        let declared = Size::read(reader)?;
        let length = reader.length(declared)?;
        Ok(reader.take(length)?.to_vec())
    }
}
