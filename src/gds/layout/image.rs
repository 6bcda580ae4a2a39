//! The bytes that one publication will add to a segment, prepared in ordinary memory.
//!
//! A registration or commit is first built here, completely, with its final offsets. Only then is memory of the segment
//! taken, in one piece. Thus every failure on the way leaves the segment untouched. Large values of a commit do not go
//! through here (`writer.rs`).

use std::mem::offset_of;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::cell::Encoded;
use super::format::{Array, Cell, DealtMap, INLINE_BYTES_MAX, form};
use crate::gds::error::StoreError;
use crate::regex::DealtRanks;
use crate::types::DataType;

/// Bytes with a known future place in the segment.
#[derive(Debug)]
pub(crate) struct Image {
    base: u64,
    bytes: Vec<u8>,
    size_bytes_max: u64,
}

impl Image {
    /// Alignment of an image in the segment; every alignment used inside divides it.
    pub(crate) const ALIGN: u64 = 16;

    /// An empty image that will be placed at `base` (a multiple of [`Image::ALIGN`]) and may grow to `size_bytes_max`.
    pub(crate) const fn new(base: u64, size_bytes_max: u64) -> Self {
        Self { base, bytes: Vec::new(), size_bytes_max }
    }

    /// Restarts empty, with another image's base and limit; keeps the memory.
    pub(crate) fn restart(&mut self, other: &Self) {
        (self.base, self.size_bytes_max) = (other.base, other.size_bytes_max);
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_BYTES_MAX {
            self.bytes = Vec::new();
        }
    }

    /// Removes everything behind this size.
    pub(crate) fn truncate(&mut self, size_bytes: u64) {
        self.bytes.truncate(usize::try_from(size_bytes).unwrap_or(usize::MAX));
    }

    /// The bytes so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its future offset in the segment.
    pub(crate) const fn base(&self) -> u64 {
        self.base
    }

    /// Whether the image's base is this offset.
    pub(crate) const fn is_at(&self, base: u64) -> bool {
        self.base == base
    }

    /// Number of bytes so far.
    pub(crate) fn size_bytes(&self) -> u64 {
        u64::try_from(self.bytes.len()).unwrap_or(u64::MAX)
    }

    /// Appends bytes at a multiple of `align` (a power of two up to [`Image::ALIGN`]); returns their future offset.
    pub(crate) fn push(&mut self, align: usize, bytes: &[u8]) -> Result<u64, StoreError> {
        let offset = self.start(align, bytes.len())?;
        self.bytes.extend_from_slice(bytes);
        Ok(offset)
    }

    /// Aligns the end and checks that `len` bytes fit; returns their future offset.
    fn start(&mut self, align: usize, len: usize) -> Result<u64, StoreError> {
        let start = self.bytes.len().next_multiple_of(align);
        let need = start.saturating_add(len);
        let need = self.base.saturating_add(u64::try_from(need).unwrap_or(u64::MAX));
        if need > self.size_bytes_max {
            return Err(StoreError::SegmentFull { need_bytes: need, bytes_max: self.size_bytes_max });
        }
        if start > self.bytes.len() {
            self.bytes.resize(start, 0);
        }
        Ok(self.base.saturating_add(u64::try_from(start).unwrap_or(u64::MAX)))
    }

    /// Appends one structure.
    pub(crate) fn push_record<T: IntoBytes + Immutable>(&mut self, record: &T) -> Result<u64, StoreError> {
        self.push(align_of::<T>(), record.as_bytes())
    }

    /// Appends an array of structures or numbers.
    pub(crate) fn push_array<T: IntoBytes + Immutable>(&mut self, elements: &[T]) -> Result<Array, StoreError> {
        if elements.is_empty() {
            return Ok(Array::default());
        }
        let offset = self.push(align_of::<T>(), elements.as_bytes())?;
        Ok(Array { offset, count: u64::try_from(elements.len()).unwrap_or(u64::MAX) })
    }

    /// Reserves an array of structures to be filled later: the data that they refer to can follow it.
    pub(crate) fn reserve_array<T>(&mut self, count: usize) -> Result<Array, StoreError> {
        if count == 0 {
            return Ok(Array::default());
        }
        let offset = self.push(align_of::<T>(), &vec![0; count.saturating_mul(size_of::<T>())])?;
        Ok(Array { offset, count: u64::try_from(count).unwrap_or(u64::MAX) })
    }

    /// Fills a reserved array.
    pub(crate) fn fill_array<T: IntoBytes + Immutable>(&mut self, room: Array, elements: &[T]) {
        assert!(room.count == u64::try_from(elements.len()).unwrap_or(u64::MAX), "an array must fill its room");
        let start = usize::try_from(room.offset.saturating_sub(self.base)).unwrap_or(usize::MAX);
        let room = self.bytes.get_mut(start..).unwrap_or_default();
        room.iter_mut().zip(elements.as_bytes()).for_each(|(to, from)| *to = *from);
    }

    /// Stores the rule of a process map; returns a cell whose text follows from it.
    pub(crate) fn push_map(&mut self, dealt: DealtRanks) -> Result<Cell, StoreError> {
        let rule = DealtMap { block: dealt.block(), node_count: dealt.node_count(), end: dealt.end(), reserved: 0 };
        let payload = self.push_record(&rule)?;
        Ok(Cell { data_type: DataType::String.to_raw(), form: form::DEALT, len: 0, payload })
    }

    /// Offset of the text of the cell at an index of an array in the image; `None` if the cell has no text.
    pub(crate) fn text_offset(&self, cells: Array, index: u32) -> Option<u64> {
        let size = u64::try_from(size_of::<Cell>()).ok()?;
        let offset = cells.offset.checked_add(u64::from(index).checked_mul(size)?)?;
        let start = usize::try_from(offset.checked_sub(self.base)?).ok().filter(|_| u64::from(index) < cells.count)?;
        let (cell, _) = Cell::read_from_prefix(self.bytes.get(start..)?).ok()?;
        match cell.form {
            form::BYTES => Some(cell.payload),
            form::INLINE => offset.checked_add(u64::try_from(offset_of!(Cell, payload)).ok()?),
            _ => None,
        }
    }

    /// Stores bytes that are a value, at most `u32::MAX`; returns its cell.
    #[inline]
    pub(crate) fn push_bytes(&mut self, data_type: DataType, bytes: &[u8], is_text: bool) -> Result<Cell, StoreError> {
        let (form, payload) = if bytes.len() <= INLINE_BYTES_MAX {
            (form::INLINE, inline(bytes))
        } else {
            // Byte objects are aligned like words, because C programs read them as structures.
            let offset = self.start(if is_text { 1 } else { 8 }, bytes.len().saturating_add(1))?;
            self.bytes.extend_from_slice(bytes);
            self.bytes.push(0);
            (form::BYTES, offset)
        };
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        Ok(Cell { data_type: data_type.to_raw(), form, len, payload })
    }

    /// Stores a value's bytes; returns the cell.
    pub(crate) fn push_value(&mut self, value: &Encoded<'_>) -> Result<Cell, StoreError> {
        let data_type = value.data_type().to_raw();
        let cell = |form, len: usize, payload| {
            // A value longer than `u32::MAX` was refused when the limits were checked.
            Cell { data_type, form, len: u32::try_from(len).unwrap_or(u32::MAX), payload }
        };
        Ok(match value {
            Encoded::Scalar { bits, .. } => cell(form::SCALAR, 0, *bits),
            Encoded::Null { .. } => cell(form::NULL, 0, 0),
            Encoded::Bytes { data_type, bytes, is_text } => self.push_bytes(*data_type, bytes, *is_text)?,
            Encoded::Archive { bytes, .. } => cell(form::ARCHIVE, bytes.len(), self.push(16, bytes)?),
        })
    }
}

/// Memory that an image keeps on restart.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Up to seven bytes as the payload of a cell, zeros after them.
fn inline(bytes: &[u8]) -> u64 {
    let mut payload = [0_u8; 8];
    for (to, from) in payload.iter_mut().zip(bytes) {
        *to = *from;
    }
    zerocopy::transmute!(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushed_bytes_lie_at_the_offset_that_the_image_returns() {
        let mut image = Image::new(640, 4096);
        image.push(1, b"abc").unwrap();
        let at = image.push(16, b"archive").unwrap();
        assert_eq!(at, 656);
        assert_eq!(&image.bytes()[16..], b"archive");
        let numbers = image.push_array(&[1_u32, 2, 3]).unwrap();
        assert_eq!(numbers, Array { offset: 664, count: 3 });
    }

    #[test]
    fn an_array_can_stand_before_what_it_refers_to() {
        let mut image = Image::new(640, 4096);
        let room = image.reserve_array::<u32>(2).unwrap();
        let behind = image.push(1, b"behind").unwrap();
        image.fill_array(room, &[1_u32, 2]);
        assert_eq!((room, behind), (Array { offset: 640, count: 2 }, 648));
        assert_eq!(image.bytes(), b"\x01\0\0\0\x02\0\0\0behind");
        assert_eq!(image.reserve_array::<u32>(0).unwrap(), Array::default());
    }

    #[test]
    fn an_image_that_would_pass_the_limit_is_refused() {
        let mut image = Image::new(64, 128);
        image.push(8, &[0; 64]).unwrap();
        assert!(matches!(image.push(1, &[0]), Err(StoreError::SegmentFull { need_bytes: 129, bytes_max: 128 })));
    }
}
