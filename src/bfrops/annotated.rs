//! Keys with a note behind the final NUL. The length on the wire includes the note; OpenPMIx reads a C string and
//! ignores it in every release.

use std::ffi::CStr;

use super::text::{read_compulsory_string, write_string};
use super::{DecodeError, EncodeError, Encoding, Reader, Writer};
use crate::types::{DataType, Key, Kval, LentKey, Value};

/// A key and its note; an empty note is a plain key.
#[derive(Debug)]
pub struct AnnotatedKey;

/// Borrows a key and its note.
pub(super) fn read_lent_key<'a>(reader: &mut Reader<'a>) -> Result<(LentKey<'a>, &'a [u8]), DecodeError> {
    read_likely_key(reader, None)
}

/// As [`read_lent_key`]; `likely` is the expected key.
pub(super) fn read_likely_key<'a>(
    reader: &mut Reader<'a>,
    likely: Option<LentKey<'a>>,
) -> Result<(LentKey<'a>, &'a [u8]), DecodeError> {
    let bytes = read_compulsory_string(reader)?;
    let key = CStr::from_bytes_until_nul(bytes).map_or(bytes, CStr::to_bytes);
    let note = bytes.get(key.len() + 1..).unwrap_or_default();
    let key = likely.map_or_else(|| LentKey::new(key), |likely| likely.or_new(key));
    Ok((key.map_err(|error| reader.error(error))?, note))
}

/// An entry whose key may have a note.
#[derive(Debug)]
pub struct AnnotatedKval;

fn write_key(writer: &mut Writer, key: &Key, note: &[u8]) -> Result<(), EncodeError> {
    let key = key.as_str().as_bytes();
    if note.is_empty() { write_string(writer, key) } else { write_string(writer, &[key, &[0], note].concat()) }
}

pub(super) fn write_kval(writer: &mut Writer, entry: &Kval, note: &[u8]) -> Result<(), EncodeError> {
    write_key(writer, &entry.key, note)?;
    Value::write(writer, &entry.value)
}

impl Encoding for AnnotatedKey {
    type Value = (Key, Vec<u8>);
    const TYPE: DataType = DataType::String;

    fn write(writer: &mut Writer, (key, note): &(Key, Vec<u8>)) -> Result<(), EncodeError> {
        write_key(writer, key, note)
    }

    fn read(reader: &mut Reader<'_>) -> Result<(Key, Vec<u8>), DecodeError> {
        let (key, note) = read_lent_key(reader)?;
        Ok((key.to_key(), note.to_vec()))
    }
}

impl Encoding for AnnotatedKval {
    type Value = (Kval, Vec<u8>);
    const TYPE: DataType = DataType::Kval;

    fn write(writer: &mut Writer, (entry, note): &(Kval, Vec<u8>)) -> Result<(), EncodeError> {
        write_kval(writer, entry, note)
    }

    fn read(reader: &mut Reader<'_>) -> Result<(Kval, Vec<u8>), DecodeError> {
        let (key, note) = AnnotatedKey::read(reader)?;
        Ok((Kval { key, value: Value::read(reader)? }, note))
    }
}
