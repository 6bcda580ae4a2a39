//! Pack operations: a count, in described buffers also its type and that of the values, and then the values.

use super::annotated::{AnnotatedKval, read_lent_key, read_likely_key, write_kval};
use super::array::{read_elements, read_no_elements, write_elements, write_no_elements};
use super::value::read_lent;
use super::wire::{Byte, DataTypeNumber, Int32, Size};
use super::{DecodeError, DecodeProblem, EncodeError, Encoding, Reader, Writer};
use crate::types::{DataType, Kval, LentEntry, LentKey, Value};

impl Writer {
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
        if elements.is_empty() {
            write_no_elements(self, data_type);
        }
        write_elements(self, data_type, elements)
    }

    /// One pack operation with a buffer of this kind, whose content `write` packs. The content is written where it
    /// stays.
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
        let mut size = Self::new(self.codec());
        Size::write(&mut size, &u64::try_from(count).map_err(|_| EncodeError::CountTooLarge { count })?)?;
        self.bytes.splice(start..start, size.bytes);
        Ok(())
    }

    /// [`Writer::pack`] of a borrowed [`AnnotatedKval`]: a value may be large.
    ///
    /// # Errors
    /// [`EncodeError`] if the peer could not read it.
    pub fn pack_annotated(&mut self, entry: &Kval, note: &[u8]) -> Result<(), EncodeError> {
        self.begin_operation(AnnotatedKval::TYPE, 1)?;
        write_kval(self, entry, note)
    }

    /// One pack operation with one byte object, up to its bytes.
    ///
    /// # Errors
    /// [`EncodeError`] if the peer could not read it.
    pub fn begin_object(&mut self, count: usize) -> Result<(), EncodeError> {
        self.begin_operation(DataType::ByteObject, 1)?;
        Size::write(self, &u64::try_from(count).map_err(|_| EncodeError::CountTooLarge { count })?)
    }

    fn begin_operation(&mut self, data_type: DataType, count: usize) -> Result<(), EncodeError> {
        self.require(data_type)?;
        let count = i32::try_from(count).map_err(|_| EncodeError::CountTooLarge { count })?;
        if self.codec().described {
            DataTypeNumber::write(self, &DataType::Int32.to_raw())?;
        }
        Int32::write(self, &count)?;
        if self.codec().described {
            DataTypeNumber::write(self, &data_type.to_raw())?;
        }
        Ok(())
    }
}

impl<'a> Reader<'a> {
    /// One pack operation with one value; `field` names it in errors.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not such an operation.
    #[inline]
    pub fn unpack<E: Encoding>(&mut self, field: &'static str) -> Result<E::Value, DecodeError> {
        self.enter(field);
        self.begin_operation(E::TYPE, 1)?;
        E::read(self)
    }

    /// One pack operation with exactly `count` values.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not such an operation.
    pub fn unpack_all<E: Encoding>(&mut self, field: &'static str, count: u64) -> Result<Vec<E::Value>, DecodeError> {
        self.enter(field);
        let count = self.listed(count)?;
        self.begin_operation(E::TYPE, count)?;
        self.list(count, E::read)
    }

    /// One pack operation with values of a type that is only known now, as many as it has.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not such an operation.
    pub fn unpack_elements(&mut self, field: &'static str, data_type: DataType) -> Result<Vec<Value>, DecodeError> {
        self.unpack_at_most(field, data_type, usize::MAX).map(|(values, _)| values)
    }

    /// The first `room` values of one pack operation, and the number of values that it has. The reader stands behind
    /// the values that it returned.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not such an operation.
    pub fn unpack_at_most(
        &mut self,
        field: &'static str,
        data_type: DataType,
        room: usize,
    ) -> Result<(Vec<Value>, usize), DecodeError> {
        self.enter(field);
        self.require(data_type)?;
        if self.codec().described {
            self.expect_type(DataType::Int32)?;
        }
        let found = Int32::read(self)?;
        let impossible = DecodeProblem::ImpossibleCount { count: found.into() };
        let declared = u64::try_from(found).map_err(|_| self.error(impossible))?;
        let count = self.count(declared)?;
        if self.codec().described {
            self.expect_type(data_type)?;
        }
        if count == 0 {
            read_no_elements(self, data_type)?;
        }
        Ok((read_elements(self, data_type, count.min(room))?, count))
    }

    /// `count` pack operations with one value each.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not such operations.
    pub fn unpack_each<E: Encoding>(&mut self, field: &'static str, count: u64) -> Result<Vec<E::Value>, DecodeError> {
        self.enter(field);
        let count = self.listed(count)?;
        self.list(count, |reader| reader.unpack::<E>(field))
    }

    /// Pack operations with one value each until the message ends.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not such operations.
    pub fn unpack_rest<E: Encoding>(&mut self, field: &'static str) -> Result<Vec<E::Value>, DecodeError> {
        let mut values = Vec::new();
        while !self.is_at_end() {
            self.spend_elements(1)?;
            self.note_listed(1, size_of::<E::Value>());
            self.check_listed(values.len().saturating_add(1))?;
            values.push(self.unpack::<E>(field)?);
        }
        Ok(values)
    }

    /// One pack operation with one byte object, whose bytes are borrowed.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not such an operation.
    #[inline]
    pub fn unpack_object(&mut self, field: &'static str) -> Result<&'a [u8], DecodeError> {
        self.enter(field);
        self.begin_operation(DataType::ByteObject, 1)?;
        let declared = Size::read(self)?;
        let length = self.length(declared)?;
        self.take(length)
    }

    /// One pack operation with one buffer; its bytes are borrowed. Returns its kind and its bytes.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not such an operation.
    pub fn unpack_buffer(&mut self, field: &'static str) -> Result<(u8, &'a [u8]), DecodeError> {
        self.enter(field);
        self.begin_operation(DataType::Buffer, 1)?;
        let kind = Byte::read(self)?;
        let declared = Size::read(self)?;
        let length = self.length(declared)?;
        Ok((kind, self.take(length)?))
    }

    /// One pack operation with one value; the bytes of a large value are borrowed. It is added to `entries` under this
    /// key, or skipped without a key.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not such an operation.
    #[inline]
    pub fn unpack_lent_value(
        &mut self,
        field: &'static str,
        key: Option<LentKey<'a>>,
        entries: &mut Vec<LentEntry<'a>>,
    ) -> Result<(), DecodeError> {
        self.enter(field);
        self.begin_operation(DataType::Value, 1)?;
        read_lent(self, key, entries)
    }

    /// One pack operation with borrowed keys, each with its note.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not such an operation.
    pub fn unpack_lent_keys(
        &mut self,
        field: &'static str,
        count: u64,
    ) -> Result<Vec<(LentKey<'a>, &'a [u8])>, DecodeError> {
        self.enter(field);
        let count = self.count(count)?;
        self.begin_operation(DataType::String, count)?;
        self.list(count, read_lent_key)
    }

    /// One pack operation with a borrowed entry. It is added to `entries` if `is_wanted`. Returns its key and the note
    /// behind the key; `likely` is the expected key.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not such an operation.
    pub fn unpack_lent_entry(
        &mut self,
        field: &'static str,
        likely: Option<LentKey<'a>>,
        is_wanted: impl FnOnce(&LentKey<'a>) -> bool,
        entries: &mut Vec<LentEntry<'a>>,
    ) -> Result<(LentKey<'a>, &'a [u8]), DecodeError> {
        self.enter(field);
        self.begin_operation(DataType::Kval, 1)?;
        let (key, note) = read_likely_key(self, likely)?;
        read_lent(self, Some(key).filter(is_wanted), entries)?;
        Ok((key, note))
    }

    /// As [`Reader::count`], for a list of the message itself.
    fn listed(&self, declared: u64) -> Result<usize, DecodeError> {
        let count = self.count(declared)?;
        self.check_listed(count)?;
        Ok(count)
    }

    #[inline(always)]
    fn begin_operation(&mut self, expected: DataType, count: usize) -> Result<(), DecodeError> {
        self.require(expected)?;
        // Fast path: nearly every operation has one value, with a count of one byte.
        if count == 1
            && !self.codec().described
            && !self.codec().generation.has_fixed_integers()
            && let [ONE_VALUE, ..] = self.peek()
        {
            self.skip(1);
            return Ok(());
        }
        self.begin_any(expected, count)
    }

    #[inline(never)]
    fn begin_any(&mut self, expected: DataType, count: usize) -> Result<(), DecodeError> {
        if self.codec().described {
            self.expect_type(DataType::Int32)?;
        }
        let found = i64::from(Int32::read(self)?);
        if i64::try_from(count) != Ok(found) {
            return Err(self.error(DecodeProblem::WrongCount { expected: count, found }));
        }
        if self.codec().described {
            self.expect_type(expected)?;
        }
        Ok(())
    }

    #[inline(never)]
    fn expect_type(&mut self, expected: DataType) -> Result<(), DecodeError> {
        let found = DataTypeNumber::read(self)?;
        if found == expected.to_raw() {
            return Ok(());
        }
        Err(self.error(DecodeProblem::WrongType { expected, found }))
    }
}

/// The count 1 on the wire: a signed number in groups of seven bits.
const ONE_VALUE: u8 = 2;
