//! Values with their type.

use std::borrow::Cow;

use super::text::read_string;
use super::wire::{
    Bool, Byte, ByteObject, Cpuset, DataTypeNumber, Double, Float, Int, Int8, Int16, Int32, Int64, Pid, Size, String,
    Time, Topology, Uint, Uint16, Uint32, Uint64,
};
use super::{DecodeError, DecodeProblem, EncodeError, Encoding, Reader, Writer};
use crate::regex::framed_length;
use crate::types::{
    App, Buffer, Coord, DataArray, DataType, Device, DeviceDistance, DiskStats, Endpoint, Envar, Geometry, Info, Kval,
    LentEntry, LentKey, LentText, LentValue, LocalAddress, Namespace, NetStats, NodePid, NodeStats, Pdata, ProcId,
    ProcInfo, ProcStats, Query, Rank, Regattr, Regex2, ResourceUnit, Timeval, Value,
};

/// A value: its type, then its content.
impl Encoding for Value {
    type Value = Self;
    const TYPE: DataType = DataType::Value;

    fn write(writer: &mut Writer, value: &Self) -> Result<(), EncodeError> {
        DataTypeNumber::write(writer, &value.data_type().to_raw())?;
        write_content(writer, value)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let data_type = reader.data_type()?;
        read_content(reader, data_type)
    }
}

/// Writes a value without its type.
pub(super) fn write_content(writer: &mut Writer, value: &Value) -> Result<(), EncodeError> {
    writer.require(value.data_type())?;
    writer.deeper(value.data_type(), |writer| write_variant(writer, value))
}

/// Reads a value of a type that the encoding has.
pub(super) fn read_content(reader: &mut Reader<'_>, data_type: DataType) -> Result<Value, DecodeError> {
    reader.deeper(data_type, |reader| read_variant(reader, data_type))
}

/// Reads a value and adds it to `entries`, or skips it without a key. The bytes of a string or byte object are
/// borrowed.
///
/// A byte object, the usual posted value, is constructed in its final place. A value returned as a whole would be read
/// again at once in other pieces, which stalls the processor.
#[inline]
pub(super) fn read_lent<'a>(
    reader: &mut Reader<'a>,
    key: Option<LentKey<'a>>,
    entries: &mut Vec<LentEntry<'a>>,
) -> Result<(), DecodeError> {
    let data_type = reader.data_type()?;
    if data_type != DataType::ByteObject {
        let value = read_lent_other(reader, data_type)?;
        entries.extend(key.map(|key| LentEntry { key, value }));
        return Ok(());
    }
    let declared = Size::read(reader)?;
    let length = reader.length(declared)?;
    let bytes = reader.take(length)?;
    if let Some(key) = key {
        entries.push(LentEntry { key, value: LentValue::ByteObject(bytes) });
    }
    Ok(())
}

#[inline(never)]
fn read_lent_other<'a>(reader: &mut Reader<'a>, data_type: DataType) -> Result<LentValue<'a>, DecodeError> {
    if data_type != DataType::String {
        return Ok(LentValue::Value(Cow::Owned(read_content(reader, data_type)?)));
    }
    match read_string(reader)? {
        Some(bytes) => LentText::new(bytes).map(LentValue::String).map_err(|error| reader.error(error)),
        None => Ok(LentValue::Value(Cow::Owned(Value::NullString))),
    }
}

/// The encoding of each variant's content. There are three exceptions. An undefined value has no content. NULL strings
/// are a separate variant. A pointer is only noted as present.
macro_rules! contents {
    ($($variant:ident: $encoding:ty),* $(,)?) => {
        fn write_variant(writer: &mut Writer, value: &Value) -> Result<(), EncodeError> {
            match value {
                Value::Undefined => Ok(()),
                Value::NullString => String::write(writer, &None),
                Value::String(text) => super::wire::CompulsoryString::write(writer, text),
                Value::Pointer(_) => Byte::write(writer, &POINTER_SENTINEL),
                $(Value::$variant(content) => <$encoding as Encoding>::write(writer, content),)*
            }
        }

        fn read_variant(reader: &mut Reader<'_>, data_type: DataType) -> Result<Value, DecodeError> {
            match data_type {
                DataType::Undefined => Ok(Value::Undefined),
                DataType::String => Ok(String::read(reader)?.map_or(Value::NullString, Value::String)),
                DataType::Pointer => Byte::read(reader).map(|_| Value::Pointer(LocalAddress::default())),
                $(DataType::$variant => Ok(Value::$variant(<$encoding as Encoding>::read(reader)?.into())),)*
            }
        }
    };
}

contents! {
    Bool: Bool, Byte: Byte, Size: Size, Pid: Pid, Int: Int, Int8: Int8, Int16: Int16, Int32: Int32, Int64: Int64,
    Uint: Uint, Uint8: Byte, Uint16: Uint16, Uint32: Uint32, Uint64: Uint64, Float: Float, Double: Double,
    Timeval: Timeval, Time: Time, Status: Int32, Value: Value, Proc: ProcId, App: App, Info: Info, Pdata: Pdata,
    Buffer: Buffer, ByteObject: ByteObject, Kval: Kval, Persistence: Byte, Scope: Byte, DataRange: Byte,
    Command: Byte, InfoDirectives: Uint32, DataType: DataTypeNumber, ProcState: Byte, ProcInfo: ProcInfo,
    DataArray: DataArray, ProcRank: Rank, Query: Query, CompressedString: ByteObject, AllocDirective: Byte,
    IofChannel: Uint16, Envar: Envar, Coord: Coord, Regattr: Regattr, Regex: Regex, JobState: Byte, LinkState: Byte,
    ProcCpuset: Cpuset, Geometry: Geometry, DeviceDistance: DeviceDistance, Endpoint: Endpoint, Topology: Topology,
    DeviceType: Uint64, LocalityType: Uint16, CompressedByteObject: ByteObject, ProcNamespace: Namespace,
    ProcStats: ProcStats, DiskStats: DiskStats, NetStats: NetStats, NodeStats: NodeStats, DataBuffer: ByteObject,
    StorageMedium: Uint64, StorageAccess: Uint64, StoragePersistence: Uint64, StorageAccessType: Uint16,
    Device: Device, ResblockDirective: Byte, ResourceUnit: ResourceUnit, NodePid: NodePid, Regex2: Regex2,
}

/// Stands for a pointer, whose value is meaningless elsewhere.
const POINTER_SENTINEL: u8 = 1;

/// A map expression. Its own form determines its end, and its terminating NUL belongs to it.
struct Regex;

impl Encoding for Regex {
    type Value = Vec<u8>;
    const TYPE: DataType = DataType::Regex;

    fn write(writer: &mut Writer, value: &Vec<u8>) -> Result<(), EncodeError> {
        if framed_length(value) == Ok(value.len()) {
            writer.raw(value);
            return Ok(());
        }
        // A host may hand over the text without its terminator.
        if value.contains(&0) {
            return Err(EncodeError::Regex);
        }
        writer.raw(value);
        writer.byte(0);
        Ok(())
    }

    fn read(reader: &mut Reader<'_>) -> Result<Vec<u8>, DecodeError> {
        let length = framed_length(reader.peek()).map_err(|_| reader.error(DecodeProblem::Regex))?;
        Ok(reader.take(length)?.to_vec())
    }
}
