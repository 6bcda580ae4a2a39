//! What servers exchange through their hosts: data collected by a fence, and answers to direct modex requests.
//!
//! A fence's result is the data of all servers one after the other, in any order. Each server's part is a byte object
//! in one of two forms:
//!
//! ```text
//! 3.2 to 5.0   info byte, [key count, keys], one object per process: relative rank, then entries
//!              or, with the keys, (key index, value) pairs
//! 6.0, 6.1     compressed flag, object: info byte, one object per process: process, then entries
//! ```
//!
//! Written is the older form, with the keys listed once whenever that is smaller. Read are both, told apart by which
//! one the bytes are, entirely.
//!
//! Source: OpenPMIx wire protocol 3.2 to 6.1, "Data store formats".

use std::collections::BTreeMap;

use super::layout::{pack_entries_of, unpack_entries};
use crate::bfrops::wire::{Bool, Byte, ByteObject, Kval, Proc, Uint32, Value};
use crate::bfrops::{
    Codec, DecodeError, DecodeLimits, DecodeProblem, EncodeError, InflateError, Reader, Writer, inflate,
};
use crate::types::{Key, ProcId, Rank, RankError};

/// Data of one process in a fence's result.
#[derive(Clone, Debug, PartialEq)]
pub struct FenceBlock {
    /// Whose.
    pub contributor: Contributor,
    /// The entries.
    pub entries: Vec<Kval>,
}

/// How a fence's result names a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contributor {
    /// By its position: the sizes of the preceding namespaces of the operation, plus its rank.
    Relative(u32),
    /// By its name (servers of 6.0 and 6.1).
    Process(ProcId),
}

/// Why data of another server cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlobError {
    /// Damaged, or in neither form.
    #[error("data from another server cannot be read; do all servers of the job run the same release? {0}")]
    Decode(#[from] DecodeError),
    /// Compressed data that cannot be unpacked.
    #[error("data from another server: {0}")]
    Inflate(#[from] InflateError),
}

/// One server's part of a fence: the entries of its processes by relative rank.
///
/// # Errors
/// [`EncodeError`] if the encoding cannot carry a value.
pub fn encode_fence(blocks: &[(u32, Vec<Kval>)], codec: Codec) -> Result<Vec<u8>, EncodeError> {
    let (plain, with_keys) = (part_of_entries(blocks, codec)?, part_with_keys(blocks, codec)?);
    let part = if with_keys.len() < plain.len() { with_keys } else { plain };
    let mut writer = Writer::new(codec);
    writer.pack::<ByteObject>(&part)?;
    Ok(writer.into_bytes())
}

/// Reads a fence's result: the parts of any number of servers.
///
/// # Errors
/// [`BlobError`] if a part is in no known form.
pub fn decode_fence(blob: &[u8], codec: Codec, limits: &DecodeLimits) -> Result<Vec<FenceBlock>, BlobError> {
    let mut reader = Reader::new(blob, codec, limits)?;
    let mut blocks = Vec::new();
    while !reader.is_at_end() {
        let part = reader.unpack_object("fence part")?;
        match reader.inside(part, codec, read_part) {
            Ok(read) => blocks.extend(read),
            // The older form is the likelier one, so its error is the one to report.
            Err(error) => blocks.extend(read_newer_part(part, codec, limits)?.ok_or(error)?),
        }
    }
    Ok(blocks)
}

/// The answer to a direct modex request: entries and nothing else.
///
/// # Errors
/// [`EncodeError`] if the encoding cannot carry a value.
pub fn encode_direct_modex(entries: &[Kval], codec: Codec) -> Result<Vec<u8>, EncodeError> {
    let mut writer = Writer::new(codec);
    entries.iter().try_for_each(|entry| writer.pack::<Kval>(entry))?;
    Ok(writer.into_bytes())
}

/// Reads the answer to a direct modex request.
///
/// # Errors
/// [`DecodeError`] if the bytes are none.
pub fn decode_direct_modex(blob: &[u8], codec: Codec, limits: &DecodeLimits) -> Result<Vec<Kval>, DecodeError> {
    Reader::new(blob, codec, limits)?.unpack_rest::<Kval>("entry")
}

/// Info byte: the part holds collected data.
const COLLECTED: u8 = 1;
/// Info byte: keys are listed once, before the processes.
const HAS_KEYS: u8 = 2;

fn part_of_entries(blocks: &[(u32, Vec<Kval>)], codec: Codec) -> Result<Vec<u8>, EncodeError> {
    let mut part = Writer::new(codec);
    part.pack::<Byte>(&COLLECTED)?;
    for (relative_rank, entries) in blocks {
        pack_entries_of::<Rank>(&mut part, &Rank::from(*relative_rank), entries)?;
    }
    Ok(part.into_bytes())
}

fn part_with_keys(blocks: &[(u32, Vec<Kval>)], codec: Codec) -> Result<Vec<u8>, EncodeError> {
    let mut part = Writer::new(codec);
    part.pack::<Byte>(&(COLLECTED | HAS_KEYS))?;
    let (keys, indexes) = list_keys(blocks)?;
    let count = keys.len();
    part.pack::<Uint32>(&u32::try_from(count).map_err(|_| EncodeError::CountTooLarge { count })?)?;
    if !keys.is_empty() {
        part.pack_all::<Key>(&keys)?;
    }
    for (relative_rank, entries) in blocks {
        let mut object = Writer::new(codec);
        object.pack::<Rank>(&Rank::from(*relative_rank))?;
        for entry in entries {
            // Every key has an index: both come from the same blocks.
            object.pack::<Uint32>(indexes.get(&entry.key).unwrap_or(&u32::MAX))?;
            object.pack::<Value>(&entry.value)?;
        }
        part.pack::<ByteObject>(&object.into_bytes())?;
    }
    Ok(part.into_bytes())
}

/// The distinct keys in the order of their first use, and each one's place in it.
fn list_keys(blocks: &[(u32, Vec<Kval>)]) -> Result<(Vec<Key>, BTreeMap<&Key, u32>), EncodeError> {
    let mut keys = Vec::new();
    let mut indexes = BTreeMap::new();
    for entry in blocks.iter().flat_map(|(_, entries)| entries) {
        if !indexes.contains_key(&entry.key) {
            let count = keys.len();
            indexes.insert(&entry.key, u32::try_from(count).map_err(|_| EncodeError::CountTooLarge { count })?);
            keys.push(entry.key.clone());
        }
    }
    Ok((keys, indexes))
}

fn read_part(reader: &mut Reader<'_>) -> Result<Vec<FenceBlock>, DecodeError> {
    let info = reader.unpack::<Byte>("fence info")?;
    if info & HAS_KEYS == 0 {
        let objects = unpack_entries::<Rank>(reader, "fence entries")?;
        return objects.into_iter().map(|(rank, entries)| relative_block(reader, rank, entries)).collect();
    }
    let keys = match reader.unpack::<Uint32>("fence key count")? {
        0 => Vec::new(),
        count => reader.unpack_all::<Key>("fence keys", count.into())?,
    };
    let codec = reader.codec();
    let mut blocks = Vec::new();
    while !reader.is_at_end() {
        let object = reader.unpack_object("fence values")?;
        blocks.push(reader.inside(object, codec, |reader| read_values(reader, &keys))?);
    }
    Ok(blocks)
}

/// A relative rank, then pairs of key index and value.
fn read_values(reader: &mut Reader<'_>, keys: &[Key]) -> Result<FenceBlock, DecodeError> {
    let rank = reader.unpack::<Rank>("fence rank")?;
    let mut entries = Vec::new();
    while !reader.is_at_end() {
        let index = reader.unpack::<Uint32>("fence key index")?;
        let key = usize::try_from(index).ok().and_then(|index| keys.get(index));
        let key = key.ok_or_else(|| reader.error(DecodeProblem::KeyIndex { index, count: keys.len() }))?;
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
    let mut reader = Reader::new(content, codec, limits)?;
    reader.unpack::<Byte>("fence info")?;
    let objects = unpack_entries::<Proc>(&mut reader, "fence entries")?;
    let block = |(proc, entries)| FenceBlock { contributor: Contributor::Process(proc), entries };
    Ok(objects.into_iter().map(block).collect())
}
