use super::array::write_elements;
use super::integer::Integer;
use super::wire::{Byte, DataTypeNumber, Int32, Size};
use super::{Codec, DecodeLimits, EncodeError, Encoding};
use crate::types::{BARE_NESTING_MAX, DataType, Value, descend};

/// Appends pack operations to a buffer.
#[derive(Debug)]
pub struct Writer {
    bytes: Vec<u8>,
    codec: Codec,
    depth: u32,
    /// The innermost levels without an array between them.
    bare: u32,
}

impl Writer {
    /// An empty buffer.
    #[must_use]
    pub const fn new(codec: Codec) -> Self {
        Self { bytes: Vec::new(), codec, depth: 0, bare: 0 }
    }

    /// An empty buffer that reuses memory.
    #[must_use]
    pub fn reusing(codec: Codec, mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        Self { bytes, codec, depth: 0, bare: 0 }
    }

    /// Appends to bytes that mean something else.
    #[must_use]
    pub const fn behind(codec: Codec, bytes: Vec<u8>) -> Self {
        Self { bytes, codec, depth: 0, bare: 0 }
    }

    /// The encoding in use.
    #[must_use]
    pub const fn codec(&self) -> Codec {
        self.codec
    }

    /// Takes memory for so many more bytes, at once.
    pub fn reserve(&mut self, size_bytes: usize) {
        self.bytes.reserve(size_bytes);
    }

    /// Number of bytes packed.
    #[must_use]
    pub const fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The packed bytes.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// One pack operation with one value, or nothing: the bytes of a value that cannot be written completely are
    /// removed.
    ///
    /// # Errors
    /// As [`Writer::pack`], with nothing written.
    pub fn pack_whole<E: Encoding>(&mut self, value: &E::Value) -> Result<(), EncodeError> {
        let size_bytes = self.bytes.len();
        self.pack::<E>(value).inspect_err(|_| self.bytes.truncate(size_bytes))
    }

    /// One pack operation with one value.
    ///
    /// # Errors
    /// [`EncodeError`] if the peer could not read it.
    pub fn pack<E: Encoding>(&mut self, value: &E::Value) -> Result<(), EncodeError> {
        self.begin_operation(E::TYPE, 1)?;
        E::write(self, value)
    }

    /// One pack operation with several values.
    ///
    /// # Errors
    /// [`EncodeError`] if the peer could not read it.
    pub fn pack_all<E: Encoding>(&mut self, values: &[E::Value]) -> Result<(), EncodeError> {
        self.begin_operation(E::TYPE, values.len())?;
        values.iter().try_for_each(|value| E::write(self, value))
    }

    /// One pack operation with values of a type known only at run time.
    ///
    /// # Errors
    /// [`EncodeError`] if the peer could not read it, or a value has another type.
    pub fn pack_elements(&mut self, data_type: DataType, elements: &[Value]) -> Result<(), EncodeError> {
        self.begin_operation(data_type, elements.len())?;
        write_elements(self, data_type, elements)
    }

    /// One pack operation with a buffer of this kind, whose content `write` packs. The content is written where it stays.
    ///
    /// # Errors
    /// [`EncodeError`] if the peer could not read it.
    pub fn pack_buffer(
        &mut self,
        kind: u8,
        write: impl FnOnce(&mut Self) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.begin_operation(DataType::Buffer, 1)?;
        Byte::write(self, &kind)?;
        let start = self.bytes.len();
        write(self)?;
        let count = self.bytes.len().saturating_sub(start);
        let mut size = Self::new(self.codec);
        Size::write(&mut size, &u64::try_from(count).map_err(|_| EncodeError::CountTooLarge { count })?)?;
        self.bytes.splice(start..start, size.bytes);
        Ok(())
    }

    /// Refuses a type that the peer does not know.
    pub(super) const fn require(&self, data_type: DataType) -> Result<(), EncodeError> {
        if self.codec.registers(data_type) {
            return Ok(());
        }
        Err(EncodeError::UnregisteredType { data_type, generation: self.codec.generation })
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn integer<I: Integer>(&mut self, number: I) {
        number.write(self);
    }

    /// Runs `write` one level deeper, for a value of this type.
    pub(super) fn deeper(
        &mut self,
        data_type: DataType,
        write: impl FnOnce(&mut Self) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let bare = if data_type == DataType::DataArray { 0 } else { self.bare + 1 };
        for (found, limit) in [(self.depth + 1, DecodeLimits::NESTING_MAX), (bare, BARE_NESTING_MAX)] {
            if found > limit {
                return Err(EncodeError::TooDeep { limit });
            }
        }
        let outer = (self.depth, std::mem::replace(&mut self.bare, bare));
        self.depth += 1;
        let outcome = descend(|| write(self));
        (self.depth, self.bare) = outer;
        outcome
    }

    pub(super) fn begin_operation(&mut self, data_type: DataType, count: usize) -> Result<(), EncodeError> {
        self.require(data_type)?;
        let count = i32::try_from(count).map_err(|_| EncodeError::CountTooLarge { count })?;
        if self.codec.described {
            DataTypeNumber::write(self, &DataType::Int32.to_raw())?;
        }
        Int32::write(self, &count)?;
        if self.codec.described {
            DataTypeNumber::write(self, &data_type.to_raw())?;
        }
        Ok(())
    }
}
