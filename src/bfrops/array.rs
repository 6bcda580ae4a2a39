use super::integer::{Tagged, read_tag, read_tagged, write_tag};
use super::value::{read_content, write_content};
use super::wire::{DataTypeNumber, Int, Pid, Size, Uint};
use super::{DecodeError, DecodeProblem, EncodeError, Encoding, Reader, Writer};
use crate::types::{self, DataArray, DataType, Value};

/// Element type, number of elements, elements.
///
/// Releases differ at an array without a type. Up to 6.1 a count follows, in 6.1 not always, after 6.1 never. All these
/// releases can speak V41, so the generation does not decide. The count is 0, one byte. Without a count no byte 0 can
/// follow, except another array without a type, because keys and lengths are not empty. So a byte 0 is the count. This
/// library never writes such an array: it sends an empty array of bytes instead.
impl Encoding for DataArray {
    type Value = Self;
    const TYPE: DataType = DataType::DataArray;

    fn write(writer: &mut Writer, value: &Self) -> Result<(), EncodeError> {
        let element_type = match value.element_type {
            DataType::Undefined => DataType::Byte,
            declared => declared,
        };
        writer.require(element_type)?;
        DataTypeNumber::write(writer, &element_type.to_raw())?;
        let elements = value.elements.as_slice();
        let count = u64::try_from(elements.len()).map_err(|_| EncodeError::CountTooLarge { count: elements.len() })?;
        Size::write(writer, &count)?;
        write_elements(writer, element_type, elements)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let element_type = reader.data_type()?;
        if element_type == DataType::Undefined && !reader.codec().generation.has_fixed_integers() {
            if reader.peek().first() == Some(&0) {
                Size::read(reader)?;
            }
            return Ok(Self { element_type, elements: Vec::new() });
        }
        let declared = Size::read(reader)?;
        let count = reader.count(declared)?;
        let elements = read_elements(reader, element_type, count)?;
        Ok(Self { element_type, elements })
    }
}

/// Writes values of one type in a row, without their number.
pub(super) fn write_elements(
    writer: &mut Writer,
    element_type: DataType,
    elements: &[Value],
) -> Result<(), EncodeError> {
    require_uniform(elements, element_type)?;
    match element_type {
        DataType::Size => write_run::<Size>(writer, elements, as_size),
        DataType::Int => write_run::<Int>(writer, elements, as_int),
        DataType::Uint => write_run::<Uint>(writer, elements, as_uint),
        DataType::Pid => write_run::<Pid>(writer, elements, as_pid),
        _ => elements.iter().try_for_each(|element| write_content(writer, element)),
    }
}

/// Reads `count` values of one type; [`Reader::count`] has admitted the count.
pub(super) fn read_elements(
    reader: &mut Reader<'_>,
    element_type: DataType,
    count: usize,
) -> Result<Vec<Value>, DecodeError> {
    reader.note_listed(count, boxed_bytes(element_type));
    match element_type {
        DataType::Undefined if count > 0 => Err(reader.error(DecodeProblem::UntypedElements { count })),
        DataType::Size => read_run::<Size>(reader, count, Value::Size),
        DataType::Int => read_run::<Int>(reader, count, Value::Int),
        DataType::Uint => read_run::<Uint>(reader, count, Value::Uint),
        DataType::Pid => read_run::<Pid>(reader, count, Value::Pid),
        _ => reader.list(count, |reader| read_content(reader, element_type)),
    }
}

/// Writes what an operation of no values still has: the width of the numbers. A [`DataArray`] without elements lacks
/// it.
pub(super) fn write_no_elements(writer: &mut Writer, element_type: DataType) {
    match element_type {
        DataType::Size => write_tag::<Size>(writer),
        DataType::Int => write_tag::<Int>(writer),
        DataType::Uint => write_tag::<Uint>(writer),
        DataType::Pid => write_tag::<Pid>(writer),
        _ => {}
    }
}

/// Reads what [`write_no_elements`] writes.
pub(super) fn read_no_elements(reader: &mut Reader<'_>, element_type: DataType) -> Result<(), DecodeError> {
    match element_type {
        DataType::Size => read_tag::<Size>(reader).map(drop),
        DataType::Int => read_tag::<Int>(reader).map(drop),
        DataType::Uint => read_tag::<Uint>(reader).map(drop),
        DataType::Pid => read_tag::<Pid>(reader).map(drop),
        _ => Ok(()),
    }
}

/// The fixed memory that a value of this type has beside itself, in bytes.
const fn boxed_bytes(element_type: DataType) -> usize {
    macro_rules! boxed {
        ($($boxed:ident),* $(,)?) => {
            match element_type {
                DataType::Value => size_of::<Value>(),
                DataType::Proc => size_of::<types::ProcId>(),
                $(DataType::$boxed => size_of::<types::$boxed>(),)*
                _ => 0,
            }
        };
    }
    boxed! {
        App, Info, Pdata, Buffer, Kval, ProcInfo, DataArray, Query, Envar, Coord, Regattr, Geometry, DeviceDistance,
        Endpoint, Topology, ProcStats, DiskStats, NetStats, NodeStats, Device, NodePid, Regex2,
    }
}

fn require_uniform(elements: &[Value], expected: DataType) -> Result<(), EncodeError> {
    match elements.iter().enumerate().find(|(_, element)| element.data_type() != expected) {
        Some((index, element)) => Err(EncodeError::MixedArray { expected, found: element.data_type(), index }),
        None => Ok(()),
    }
}

/// Numbers with one width in front of all of them.
fn write_run<T: Tagged>(
    writer: &mut Writer,
    elements: &[Value],
    number: impl Fn(&Value) -> Option<T::Value>,
) -> Result<(), EncodeError> {
    if !elements.is_empty() {
        write_tag::<T>(writer);
    }
    // `require_uniform` has checked that every element is such a number.
    elements.iter().filter_map(number).for_each(|value| writer.integer(T::to_sent(value)));
    Ok(())
}

fn read_run<T: Tagged>(
    reader: &mut Reader<'_>,
    count: usize,
    value: impl Fn(T::Value) -> Value,
) -> Result<Vec<Value>, DecodeError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let tag = read_tag::<T>(reader)?;
    reader.list(count, |reader| read_tagged::<T>(reader, tag).map(&value))
}

const fn as_size(value: &Value) -> Option<u64> {
    if let Value::Size(number) = value { Some(*number) } else { None }
}

const fn as_int(value: &Value) -> Option<i32> {
    if let Value::Int(number) = value { Some(*number) } else { None }
}

const fn as_uint(value: &Value) -> Option<u32> {
    if let Value::Uint(number) = value { Some(*number) } else { None }
}

const fn as_pid(value: &Value) -> Option<u32> {
    if let Value::Pid(number) = value { Some(*number) } else { None }
}
