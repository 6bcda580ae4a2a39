//! Writing one server's part of a fence, in both forms.

use std::collections::BTreeMap;

use super::{commit_number, pack_values};
use crate::bfrops::wire::{AnnotatedKey, Bool, Byte, ByteObject, Kval, Proc, Uint32, Value};
use crate::bfrops::{Codec, EncodeError, Encoding, Writer, deflate};
use crate::types::{Key, ProcId, Rank};

/// One server's part of a fence for servers of 3.2 to 5.0: the entries of its processes by relative rank.
///
/// # Errors
/// [`EncodeError`] if the encoding cannot carry a value.
pub fn encode_fence(blocks: &[(u32, Vec<Kval>)], codec: Codec) -> Result<Vec<u8>, EncodeError> {
    let keys = KeyList::of(blocks)?;
    let part = if keys.is_worthwhile(codec)? {
        part_with_keys(blocks, &keys, codec)?
    } else {
        part_of_entries(blocks, codec)?
    };
    let mut writer = Writer::new(codec);
    writer.pack::<ByteObject>(&part)?;
    Ok(writer.into_bytes())
}

/// One server's part of a fence for servers of 6.0 and 6.1: the entries of its processes by name. Compressed as these
/// servers compress: from 4 KiB on, if that makes it smaller.
///
/// # Errors
/// [`EncodeError`] if the encoding cannot carry a value.
pub fn encode_fence_of_release_6(blocks: &[(ProcId, Vec<Kval>)], codec: Codec) -> Result<Vec<u8>, EncodeError> {
    let mut content = Writer::new(codec);
    content.pack::<Byte>(&COLLECTED)?;
    for (proc, entries) in blocks {
        pack_block::<Proc>(&mut content, proc, entries)?;
    }
    let content = content.into_bytes();
    let compressed = if content.len() >= COMPRESSED_FROM_BYTES { deflate(&content) } else { None };
    let mut part = Writer::new(codec);
    part.pack::<Bool>(&compressed.is_some())?;
    part.pack::<ByteObject>(&compressed.unwrap_or(content))?;
    let mut writer = Writer::new(codec);
    writer.pack::<ByteObject>(&part.into_bytes())?;
    Ok(writer.into_bytes())
}

/// Smaller content is never compressed.
///
/// Source: OpenPMIx wire protocol 3.2 to 6.1, "Compressed data".
const COMPRESSED_FROM_BYTES: usize = 4096;

/// Info byte: the part holds collected data.
pub(super) const COLLECTED: u8 = 1;
/// Info byte: keys are listed once, before the processes.
pub(super) const HAS_KEYS: u8 = 2;

fn part_of_entries(blocks: &[(u32, Vec<Kval>)], codec: Codec) -> Result<Vec<u8>, EncodeError> {
    let mut part = Writer::new(codec);
    part.pack::<Byte>(&COLLECTED)?;
    for (relative_rank, entries) in blocks {
        pack_block::<Rank>(&mut part, &Rank::from(*relative_rank), entries)?;
    }
    Ok(part.into_bytes())
}

fn pack_block<E: Encoding>(part: &mut Writer, owner: &E::Value, entries: &[Kval]) -> Result<(), EncodeError> {
    let mut object = Writer::new(part.codec());
    object.pack::<E>(owner)?;
    pack_values(&mut object, entries)?;
    part.pack::<ByteObject>(&object.into_bytes())
}

/// The distinct keys of all blocks.
struct KeyList<'a> {
    /// In the order of their first use, with their number of uses.
    keys: Vec<(&'a Key, u64)>,
    /// The position of each key.
    places: BTreeMap<&'a Key, usize>,
}

impl<'a> KeyList<'a> {
    fn of(blocks: &'a [(u32, Vec<Kval>)]) -> Result<Self, EncodeError> {
        let mut list = Self { keys: Vec::new(), places: BTreeMap::new() };
        for entry in blocks.iter().flat_map(|(_, entries)| commit_number::values(entries)) {
            let place = *list.places.entry(&entry.key).or_insert(list.keys.len());
            match list.keys.get_mut(place) {
                Some((_, uses)) => *uses += 1,
                None => list.keys.push((&entry.key, 1)),
            }
        }
        let count = list.keys.len();
        u32::try_from(count).map(|_| list).map_err(|_| EncodeError::CountTooLarge { count })
    }

    /// Whether a key list with an index at each use takes fewer bytes than the key at each use. Counted as OpenPMIx
    /// servers count, with each key and index as an operation of its own, so that the same data has the same bytes.
    fn is_worthwhile(&self, codec: Codec) -> Result<bool, EncodeError> {
        let (mut each_time, mut once) = (0_u64, 0_u64);
        for (place, (key, uses)) in self.keys.iter().enumerate() {
            let key_bytes = size_of_operation::<Key>(key, codec)?;
            let index_bytes = size_of_operation::<Uint32>(&index(place), codec)?;
            each_time += uses * key_bytes;
            once += key_bytes + uses * index_bytes;
        }
        Ok(once < each_time)
    }

    fn index_of(&self, key: &Key) -> u32 {
        // Every key has a place: both come from the same blocks.
        self.places.get(key).map_or(u32::MAX, |&place| index(place))
    }
}

fn index(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

fn size_of_operation<E: Encoding>(value: &E::Value, codec: Codec) -> Result<u64, EncodeError> {
    let mut writer = Writer::new(codec);
    writer.pack::<E>(value)?;
    Ok(u64::try_from(writer.into_bytes().len()).unwrap_or(u64::MAX))
}

fn part_with_keys(blocks: &[(u32, Vec<Kval>)], list: &KeyList<'_>, codec: Codec) -> Result<Vec<u8>, EncodeError> {
    let mut part = Writer::new(codec);
    part.pack::<Byte>(&(COLLECTED | HAS_KEYS))?;
    part.pack::<Uint32>(&index(list.keys.len()))?;
    let mut keys: Vec<(Key, Vec<u8>)> = list.keys.iter().map(|(key, _)| ((*key).clone(), Vec::new())).collect();
    // The numbers of all blocks' commits follow the first key.
    if let Some((_, note)) = keys.first_mut() {
        *note = commit_number::note(blocks.iter().map(|(_, entries)| entries.as_slice()));
    }
    if !keys.is_empty() {
        part.pack_all::<AnnotatedKey>(&keys)?;
    }
    for (relative_rank, entries) in blocks {
        let mut object = Writer::new(codec);
        object.pack::<Rank>(&Rank::from(*relative_rank))?;
        for entry in commit_number::values(entries) {
            object.pack::<Uint32>(&list.index_of(&entry.key))?;
            object.pack::<Value>(&entry.value)?;
        }
        part.pack::<ByteObject>(&object.into_bytes())?;
    }
    Ok(part.into_bytes())
}
