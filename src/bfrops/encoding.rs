use super::{DecodeError, EncodeError, Reader, Writer};
use crate::types::DataType;

/// The wire form of one data type: written and read in the same place.
///
/// Implemented by the records of `types` themselves and, for numbers and strings, by the names in [`super::wire`].
pub trait Encoding {
    /// The Rust type of the value.
    type Value;

    /// The type's number in described buffers.
    const TYPE: DataType;

    /// Appends a value, without count or type.
    ///
    /// # Errors
    /// [`EncodeError`] if the peer could not read it.
    fn write(writer: &mut Writer, value: &Self::Value) -> Result<(), EncodeError>;

    /// Takes a value, without count or type.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not one.
    fn read(reader: &mut Reader<'_>) -> Result<Self::Value, DecodeError>;
}
