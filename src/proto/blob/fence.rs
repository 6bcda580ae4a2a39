//! One server's part of a fence, in both forms.

use std::collections::BTreeMap;

use super::{BlobError, Contributor, FenceBlock, codec_of, commit_number, newest, pack_values, unpack_values};
use crate::bfrops::wire::{AnnotatedKey, Bool, Byte, ByteObject, Kval, Proc, Uint32, Value};
use crate::bfrops::{Codec, DecodeError, DecodeLimits, DecodeProblem, EncodeError, Encoding, Reader, Writer, inflate};
use crate::types::{Key, ProcId, Rank, RankError};

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

/// One server's part of a fence for servers of 6.0 and 6.1: the entries of its processes by name. Never compressed.
///
/// # Errors
/// [`EncodeError`] if the encoding cannot carry a value.
pub fn encode_fence_of_release_6(blocks: &[(ProcId, Vec<Kval>)], codec: Codec) -> Result<Vec<u8>, EncodeError> {
    let mut content = Writer::new(codec);
    content.pack::<Byte>(&COLLECTED)?;
    for (proc, entries) in blocks {
        pack_block::<Proc>(&mut content, proc, entries)?;
    }
    let mut part = Writer::new(codec);
    part.pack::<Bool>(&false)?;
    part.pack::<ByteObject>(&content.into_bytes())?;
    let mut writer = Writer::new(codec);
    writer.pack::<ByteObject>(&part.into_bytes())?;
    Ok(writer.into_bytes())
}

/// Reads a fence's result: the parts of any number of servers, of any release.
///
/// # Errors
/// [`BlobError`] if a part is in no known form.
pub fn decode_fence(blob: &[u8], limits: &DecodeLimits) -> Result<Vec<FenceBlock>, BlobError> {
    let mut reader = Reader::new(blob, codec_of(blob), limits)?;
    let mut blocks = Vec::new();
    while !reader.is_at_end() {
        let codec = codec_of(reader.peek());
        reader.switch_to(codec);
        let part = reader.unpack_object("fence part")?;
        let older = reader.inside(part, codec, read_part);
        match older.or_else(|error| reader.inside(part, newest(codec), read_part).map_err(|_| error)) {
            Ok(read) => blocks.extend(read),
            // The older form is the likelier one, so its error is the one to report.
            Err(error) => blocks.extend(read_newer_part(part, codec, limits)?.ok_or(error)?),
        }
    }
    Ok(blocks)
}

/// Info byte: the part holds collected data.
const COLLECTED: u8 = 1;
/// Info byte: keys are listed once, before the processes.
const HAS_KEYS: u8 = 2;

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
    /// In the order of their first use, and how often each is used.
    keys: Vec<(&'a Key, u64)>,
    /// The place of each.
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

    /// Whether naming each key once and an index at each use takes fewer bytes than naming it each time. Counted as
    /// servers of OpenPMIx count it, so that the same data has the same bytes: each key and each index as an operation
    /// of its own.
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
    // Behind the first stand the numbers of all blocks' commits.
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

fn read_part(reader: &mut Reader<'_>) -> Result<Vec<FenceBlock>, DecodeError> {
    let info = reader.unpack::<Byte>("fence info")?;
    // Nothing collected, nothing behind it: so what begins with a false flag is the newer form.
    if info & COLLECTED == 0 && !reader.is_at_end() {
        let found = i64::try_from(reader.remaining()).unwrap_or(i64::MAX);
        return Err(reader.error(DecodeProblem::WrongCount { expected: 0, found }));
    }
    if info & HAS_KEYS == 0 {
        return unpack_blocks(reader, |reader| {
            let rank = reader.unpack::<Rank>("fence rank")?;
            let entries = unpack_values(reader, "fence entries")?;
            relative_block(reader, rank, entries)
        });
    }
    let keys = match reader.unpack::<Uint32>("fence key count")? {
        0 => Vec::new(),
        count => reader.unpack_all::<AnnotatedKey>("fence keys", count.into())?,
    };
    let numbers = keys.first().map(|(_, note)| commit_number::read_note(note)).unwrap_or_default();
    let mut blocks = unpack_blocks(reader, |reader| read_values(reader, &keys))?;
    for (block, number) in blocks.iter_mut().zip(numbers) {
        commit_number::restore(&mut block.entries, number);
    }
    Ok(blocks)
}

/// One object for each process up to the end of the part.
fn unpack_blocks(
    reader: &mut Reader<'_>,
    read: impl Fn(&mut Reader<'_>) -> Result<FenceBlock, DecodeError>,
) -> Result<Vec<FenceBlock>, DecodeError> {
    let codec = reader.codec();
    let mut blocks = Vec::new();
    while !reader.is_at_end() {
        let object = reader.unpack_object("fence values")?;
        blocks.push(reader.inside(object, codec, &read)?);
    }
    Ok(blocks)
}

/// A relative rank, then pairs of key index and value.
fn read_values(reader: &mut Reader<'_>, keys: &[(Key, Vec<u8>)]) -> Result<FenceBlock, DecodeError> {
    let rank = reader.unpack::<Rank>("fence rank")?;
    let mut entries = Vec::new();
    while !reader.is_at_end() {
        let index = reader.unpack::<Uint32>("fence key index")?;
        let key = usize::try_from(index).ok().and_then(|index| keys.get(index));
        let (key, _) = key.ok_or_else(|| reader.error(DecodeProblem::KeyIndex { index, count: keys.len() }))?;
        entries.push(Kval { key: key.clone(), value: reader.unpack::<Value>("fence value")? });
    }
    relative_block(reader, rank, entries)
}

fn relative_block(reader: &Reader<'_>, rank: Rank, entries: Vec<Kval>) -> Result<FenceBlock, DecodeError> {
    match rank {
        Rank::Process(relative_rank) => Ok(FenceBlock { contributor: Contributor::Relative(relative_rank), entries }),
        special => Err(reader.error(RankError { raw: special.to_raw() })),
    }
}

/// A part of release 6; `None` if the bytes are no such part either.
fn read_newer_part(part: &[u8], codec: Codec, limits: &DecodeLimits) -> Result<Option<Vec<FenceBlock>>, BlobError> {
    let Some((is_compressed, content)) = open_envelope(part, codec, limits) else { return Ok(None) };
    if !is_compressed {
        return Ok(read_newer_content(content, codec, limits).ok());
    }
    // Behind the length there is a zlib stream, or this never was compressed data.
    if content.get(4) != Some(&ZLIB_FIRST_BYTE) {
        return Ok(None);
    }
    let content = inflate(content, limits.message_bytes_max)?;
    Ok(Some(read_newer_content(&content, codec, limits)?))
}

/// First byte of every zlib stream with the usual window size.
const ZLIB_FIRST_BYTE: u8 = 0x78;

/// A flag and one object that ends where the part ends.
fn open_envelope<'a>(part: &'a [u8], codec: Codec, limits: &DecodeLimits) -> Option<(bool, &'a [u8])> {
    let mut reader = Reader::new(part, codec, limits).ok()?;
    let is_compressed = reader.unpack::<Bool>("compressed").ok()?;
    let content = reader.unpack_object("fence content").ok()?;
    reader.is_at_end().then_some((is_compressed, content))
}

fn read_newer_content(content: &[u8], codec: Codec, limits: &DecodeLimits) -> Result<Vec<FenceBlock>, DecodeError> {
    let read = |codec| {
        let mut reader = Reader::new(content, codec, limits)?;
        reader.unpack::<Byte>("fence info")?;
        unpack_blocks(&mut reader, |reader| {
            let contributor = Contributor::Process(reader.unpack::<Proc>("fence process")?);
            Ok(FenceBlock { contributor, entries: unpack_values(reader, "fence entries")? })
        })
    };
    read(newest(codec)).or_else(|error| read(codec).map_err(|_| error))
}
