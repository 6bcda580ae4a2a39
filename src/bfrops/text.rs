//! Strings, and types sent as strings: namespaces, keys, sets of processors, floating-point numbers.

use super::{DecodeError, DecodeProblem, EncodeError, Encoding, Reader, Writer};
use crate::types::{DataType, Key, Namespace, Text};

/// A C string; `None` is NULL.
#[derive(Debug)]
pub struct String;

/// A C string that is not NULL.
#[derive(Debug)]
pub struct CompulsoryString;

/// Processors in list form; `None` if unbound.
#[derive(Debug)]
pub struct Cpuset;

/// `float` as decimal text with six places, which loses precision.
#[derive(Debug)]
pub struct Float;

/// `double` as decimal text with six places, which loses precision.
#[derive(Debug)]
pub struct Double;

impl Encoding for String {
    type Value = Option<Text>;
    const TYPE: DataType = DataType::String;

    fn write(writer: &mut Writer, value: &Option<Text>) -> Result<(), EncodeError> {
        match value {
            Some(text) => write_string(writer, text.as_bytes()),
            None => {
                writer.integer(0i32);
                Ok(())
            }
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Option<Text>, DecodeError> {
        match read_string(reader)? {
            Some(bytes) => Text::new(bytes).map(Some).map_err(|e| reader.error(e)),
            None => Ok(None),
        }
    }
}

impl Encoding for CompulsoryString {
    type Value = Text;
    const TYPE: DataType = DataType::String;

    fn write(writer: &mut Writer, value: &Text) -> Result<(), EncodeError> {
        write_string(writer, value.as_bytes())
    }

    fn read(reader: &mut Reader<'_>) -> Result<Text, DecodeError> {
        let bytes = read_compulsory_string(reader)?;
        Text::new(bytes).map_err(|e| reader.error(e))
    }
}

impl Encoding for Cpuset {
    type Value = Option<Text>;
    const TYPE: DataType = DataType::ProcCpuset;

    fn write(writer: &mut Writer, value: &Option<Text>) -> Result<(), EncodeError> {
        String::write(writer, value)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Option<Text>, DecodeError> {
        String::read(reader)
    }
}

impl Encoding for Namespace {
    type Value = Self;
    const TYPE: DataType = DataType::String;

    fn write(writer: &mut Writer, value: &Self) -> Result<(), EncodeError> {
        write_string(writer, value.as_str().as_bytes())
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bytes = read_compulsory_string(reader)?;
        reader.namespace(bytes)
    }
}

impl Encoding for Key {
    type Value = Self;
    const TYPE: DataType = DataType::String;

    fn write(writer: &mut Writer, value: &Self) -> Result<(), EncodeError> {
        write_string(writer, value.as_str().as_bytes())
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bytes = read_compulsory_string(reader)?;
        Self::from_bytes(bytes).map_err(|e| reader.error(e))
    }
}

/// The key of an info, which may be empty.
#[derive(Debug)]
pub(super) struct InfoKey;

impl Encoding for InfoKey {
    type Value = Key;
    const TYPE: DataType = DataType::String;

    fn write(writer: &mut Writer, value: &Key) -> Result<(), EncodeError> {
        Key::write(writer, value)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Key, DecodeError> {
        let bytes = read_compulsory_string(reader)?;
        Key::of_info(bytes).map_err(|e| reader.error(e))
    }
}

macro_rules! floats {
    ($($name:ident: $type:ty),*) => {
        $(impl Encoding for $name {
            type Value = $type;
            const TYPE: DataType = DataType::$name;

            fn write(writer: &mut Writer, value: &$type) -> Result<(), EncodeError> {
                // Rust and C print all numbers alike, but not NaN.
                let text = if value.is_nan() { "nan".to_owned() } else { format!("{value:.6}") };
                write_string(writer, text.as_bytes())
            }

            fn read(reader: &mut Reader<'_>) -> Result<$type, DecodeError> {
                let bytes = read_compulsory_string(reader)?;
                let number = std::str::from_utf8(bytes).ok().and_then(|text| text.trim().parse().ok());
                number.ok_or_else(|| reader.error(DecodeProblem::Float))
            }
        })*
    };
}

floats! { Float: f32, Double: f64 }

/// The length counts the terminating NUL; only NULL has length 0.
pub(super) fn write_string(writer: &mut Writer, text: &[u8]) -> Result<(), EncodeError> {
    let count = text.len();
    let length = i32::try_from(count).ok().and_then(|length| length.checked_add(1));
    writer.integer(length.ok_or(EncodeError::CountTooLarge { count })?);
    writer.raw(text);
    writer.byte(0);
    Ok(())
}

/// The bytes before the terminating NUL; `None` for NULL.
pub(super) fn read_string<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>, DecodeError> {
    let declared: i32 = reader.integer()?;
    if declared == 0 {
        return Ok(None);
    }
    let count = i128::from(declared);
    let declared = u64::try_from(declared).map_err(|_| reader.error(DecodeProblem::ImpossibleCount { count }))?;
    let length = reader.string_length(declared)?;
    match reader.take(length)?.split_last() {
        Some((0, text)) => Ok(Some(text)),
        _ => Err(reader.error(DecodeProblem::Unterminated)),
    }
}

pub(super) fn read_compulsory_string<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    read_string(reader)?.ok_or_else(|| reader.error(DecodeProblem::NullString))
}
