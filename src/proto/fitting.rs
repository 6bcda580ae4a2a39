//! Entries for a peer whose encoding lacks some of their types.
//!
//! A peer refuses a whole message for one unknown type. A process's data or a host's job information may have such
//! types. They are left out, and the peer finds everything else.

use std::borrow::Borrow;

use crate::bfrops::wire::Kval;
use crate::bfrops::{Codec, EncodeError, Generation, Writer};
use crate::types::{self, DataArray, Key, Rank, Value, descend};

/// Packs an entry, or the part that the encoding has types for: of an array of infos, those that it can carry.
pub(super) fn pack_entry(writer: &mut Writer, entry: &types::Kval) -> Result<(), EncodeError> {
    // Release 3.2 would read an array of a process's values as a value of the job.
    let is_packed = writer.codec().generation == Generation::V3 && pack_process(writer, entry)?;
    if is_packed { Ok(()) } else { pack_fitting(writer, entry) }
}

/// Packs the values of one process of a job, if the entry is such an array. The form is that of the reference's
/// servers, which every release reads: bytes with the rank and then the values. Returns whether it is one.
pub(super) fn pack_process(writer: &mut Writer, entry: &types::Kval) -> Result<bool, EncodeError> {
    let Value::DataArray(array) = &entry.value else { return Ok(false) };
    let Some((Value::Info(first), rest)) = array.elements.split_first() else { return Ok(false) };
    let Value::ProcRank(rank) = &first.value else { return Ok(false) };
    if entry.key.as_str() != PROC_DATA || first.key.as_str() != RANK {
        return Ok(false);
    }
    let entries = rest.iter().filter_map(|element| match element {
        Value::Info(info) => Some(types::Kval { key: info.key.clone(), value: info.value.clone() }),
        _ => None,
    });
    pack_values(writer, &mut Vec::new(), *rank, entries)?;
    Ok(true)
}

/// As [`pack_process`], for separate values; `buffer` is working memory.
pub(super) fn pack_values(
    writer: &mut Writer,
    buffer: &mut Vec<u8>,
    rank: Rank,
    entries: impl IntoIterator<Item: Borrow<types::Kval>>,
) -> Result<(), EncodeError> {
    let mut object = Writer::reusing(writer.codec(), std::mem::take(buffer));
    object.pack::<Rank>(&rank)?;
    entries.into_iter().try_for_each(|entry| pack_fitting(&mut object, entry.borrow()))?;
    let entry = types::Kval { key: Key::from_static(PROC_BLOB), value: Value::ByteObject(object.into_bytes()) };
    writer.pack::<Kval>(&entry)?;
    if let Value::ByteObject(bytes) = entry.value {
        *buffer = bytes;
    }
    Ok(())
}

fn pack_fitting(writer: &mut Writer, entry: &types::Kval) -> Result<(), EncodeError> {
    match writer.pack_whole::<Kval>(entry) {
        Err(EncodeError::UnregisteredType { .. }) => match fitting(&entry.value, writer.codec()) {
            Some(value) => writer.pack::<Kval>(&types::Kval { key: entry.key.clone(), value }),
            None => Ok(()),
        },
        outcome => outcome,
    }
}

/// The part of a value that the encoding can carry, if there is one.
fn fitting(value: &Value, codec: Codec) -> Option<Value> {
    match value {
        Value::DataArray(array) if codec.registers(array.element_type) => {
            let elements = array.elements.iter().filter_map(|element| descend(|| fitting(element, codec))).collect();
            Some(Value::DataArray(Box::new(DataArray { element_type: array.element_type, elements })))
        }
        Value::Info(info) => {
            let value = fitting(&info.value, codec)?;
            Some(Value::Info(Box::new(types::Info { key: info.key.clone(), flags: info.flags, value })))
        }
        value => Writer::new(codec).pack::<crate::bfrops::wire::Value>(value).is_ok().then(|| value.clone()),
    }
}

/// The values of a process of a job as an array of infos (the store's form), and as bytes.
pub(super) const PROC_DATA: &str = "pmix.pdata";
const PROC_BLOB: &str = "pmix.pblob";
/// First info of such an array.
const RANK: &str = "pmix.rank";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bfrops::{DecodeLimits, Reader};
    use crate::types::Info;

    fn read_back(entries: &[types::Kval], codec: Codec) -> Vec<types::Kval> {
        let mut writer = Writer::new(codec);
        entries.iter().for_each(|entry| pack_entry(&mut writer, entry).unwrap());
        let bytes = writer.into_bytes();
        Reader::new(&bytes, codec, &DecodeLimits::default()).unwrap().unpack_rest::<Kval>("entry").unwrap()
    }

    /// Regression: a value of a type of release 4 in a job's description ended the connection of every client of
    /// release 3.2.
    #[test]
    fn only_values_of_types_unknown_to_the_peer_are_left_out() {
        let info = |key, value: Value| Info::new(Key::from_static(key), value);
        let known = info("known", Value::Uint32(1));
        let unknown = info("unknown", Value::DeviceType(7));
        let entry = |key, value| types::Kval { key: Key::from_static(key), value };
        let entries = [
            entry("lone", Value::DeviceType(7)),
            entry("array", Value::info_array(vec![unknown.clone(), known.clone()])),
            entry("nested", Value::info_array(vec![info("inner", Value::info_array(vec![unknown, known.clone()]))])),
            entry("plain", Value::Uint32(2)),
        ];
        for described in [false, true] {
            let codec = |generation| Codec { generation, described };
            assert_eq!(read_back(&entries, codec(crate::bfrops::Generation::V41)), entries);
            let rest = [
                entry("array", Value::info_array(vec![known.clone()])),
                entry("nested", Value::info_array(vec![info("inner", Value::info_array(vec![known.clone()]))])),
                entry("plain", Value::Uint32(2)),
            ];
            assert_eq!(read_back(&entries, codec(crate::bfrops::Generation::V3)), rest);
        }
    }
}
