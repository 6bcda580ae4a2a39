//! Data that servers exchange through their hosts: data collected by a fence, and answers to direct modex requests.
//!
//! A fence's result is the data of all servers one after the other, in any order. Each server's part is a byte object
//! in one of two forms, in that server's own encoding:
//!
//! ```text
//! 3.2 to 5.0   info byte, [key count, keys], one object per process: relative rank, then entries
//!              or, with the keys, (key index, value) pairs
//! 6.0, 6.1     compressed flag, object: info byte, one object per process: process, then entries
//! ```
//!
//! All forms are read, part by part. The first bytes decide the encoding; the form is the one that fits the bytes
//! entirely. The caller chooses the form and encoding to write. The older form lists keys once whenever that takes
//! fewer bytes.
//!
//! Source: OpenPMIx wire protocol 3.2 to 6.1, "Data store formats".

mod commit_number;
mod fence;
mod received;

use crate::bfrops::wire::{AnnotatedKval, Kval};
use crate::bfrops::{Codec, DecodeError, DecodeLimits, EncodeError, Generation, InflateError, Reader, Writer};
use crate::types::ProcId;

pub use commit_number::COMMIT_NUMBER;
pub use fence::{encode_fence, encode_fence_of_release_6};
pub use received::{LentBlock, check_frames, decode_fence, read_fence};

/// Data of one process in a fence's result.
#[derive(Clone, Debug, PartialEq)]
pub struct FenceBlock {
    /// The process.
    pub contributor: Contributor,
    /// The entries.
    pub entries: Vec<Kval>,
}

/// A process's name in a fence's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contributor {
    /// By its position: the sizes of the preceding namespaces of the operation, plus its rank.
    Relative(u32),
    /// By its name (servers of 6.0 and 6.1).
    Process(ProcId),
}

/// Reason why data of another server cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlobError {
    /// Damaged, or in neither form.
    #[error("data from another server cannot be read; is its PMIx library of release 3.2 to 6.1? {0}")]
    Decode(#[from] DecodeError),
    /// Compressed data that cannot be unpacked.
    #[error("data from another server: {0}")]
    Inflate(#[from] InflateError),
}

/// The answer to a direct modex request: only entries.
///
/// # Errors
/// [`EncodeError`] if the encoding cannot carry a value.
pub fn encode_direct_modex(entries: &[Kval], codec: Codec) -> Result<Vec<u8>, EncodeError> {
    let mut writer = Writer::new(codec);
    pack_values(&mut writer, entries)?;
    Ok(writer.into_bytes())
}

/// Reads the answer to a direct modex request, in any encoding.
///
/// # Errors
/// [`DecodeError`] if the bytes are none.
pub fn decode_direct_modex(blob: &[u8], limits: &DecodeLimits) -> Result<Vec<Kval>, DecodeError> {
    let codec = codec_of(blob);
    let read = |codec| Reader::new(blob, codec, limits).and_then(|mut reader| unpack_values(&mut reader, "entry"));
    read(codec).or_else(|error| read(newest(codec)).map_err(|_| error))
}

/// The encoding of another server's data. It begins with one value: the count of 1 is `02` in integers of 7-bit groups
/// and `00 00 00 01` in those of fixed width. In described buffers its type 9 stands before it.
fn codec_of(blob: &[u8]) -> Codec {
    let (generation, described) = match blob {
        [0, 9, ..] => (Generation::V3, true),
        [0, ..] => (Generation::V3, false),
        [9, ..] => (Generation::V41, true),
        _ => (Generation::V41, false),
    };
    Codec { generation, described }
}

/// The same encoding with the data types of the latest release, which dropped some earlier types.
const fn newest(codec: Codec) -> Codec {
    match codec.generation {
        Generation::V3 => codec,
        _ => Codec { generation: Generation::V61, ..codec },
    }
}

/// Entries up to the end of an object, the first with the commit number.
fn pack_values(object: &mut Writer, entries: &[Kval]) -> Result<(), EncodeError> {
    let note = commit_number::note(std::iter::once(entries));
    let mut values = commit_number::values(entries);
    if !note.is_empty()
        && let Some(first) = values.next()
    {
        object.pack_annotated(first, &note)?;
    }
    values.try_for_each(|entry| object.pack::<Kval>(entry))
}

fn unpack_values(reader: &mut Reader<'_>, field: &'static str) -> Result<Vec<Kval>, DecodeError> {
    let mut number = None;
    let mut entries = Vec::new();
    for (entry, note) in reader.unpack_rest::<AnnotatedKval>(field)? {
        number = number.or_else(|| commit_number::read_note(&note).next().flatten());
        entries.push(entry);
    }
    commit_number::restore(&mut entries, number);
    Ok(entries)
}
