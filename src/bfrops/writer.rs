use super::{Codec, DecodeLimits, EncodeError};
use crate::types::{BARE_NESTING_MAX, DataType, descend};

/// Appends pack operations to a buffer.
#[derive(Debug)]
pub struct Writer {
    pub(super) bytes: Vec<u8>,
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

    /// Packs the rest in another encoding.
    pub(crate) const fn switch_to(&mut self, codec: Codec) {
        self.codec = codec;
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
}
