//! Reading a fence's result: the parts of any number of servers, in both forms, process by process, with the values
//! where they lie.
//!
//! All parts are looked through before anything is given out. So it is clear which form each has, and nothing comes out of
//! a result that is damaged. The one who looks need not be the one who reads.

use std::ops::{ControlFlow, Range};

use super::fence::{COLLECTED, HAS_KEYS};
use super::{BlobError, COMMIT_NUMBER, Contributor, FenceBlock, codec_of, commit_number, newest};
use crate::bfrops::wire::{Bool, Byte, Proc, Uint32};
use crate::bfrops::{Codec, DecodeError, DecodeLimits, DecodeProblem, Reader, inflate};
use crate::types::{LentEntry, LentKey, Rank, RankError};

/// Data of one process in a fence's result, where it lies.
#[derive(Clone, Copy, Debug)]
pub struct LentBlock<'a> {
    /// Whose.
    pub contributor: &'a Contributor,
    /// Which of the process's commits the entries include, if its server said so.
    pub commit: Option<u64>,
    /// The entries.
    pub entries: &'a [LentEntry<'a>],
}

/// Takes the data of one process; says whether to go on.
type TakeBlock<'t> = dyn FnMut(LentBlock<'_>) -> ControlFlow<()> + 't;

/// One server's part of a fence's result that was looked through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where it lies.
    place: Range<usize>,
    form: Form,
}

/// How a part is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// As releases 3.2 to 5.0 write.
    Older(Codec),
    /// As releases 6.0 and 6.1 write: the encoding of the envelope and that of its content.
    Newer(Codec, Codec),
}

/// Reads a fence's result whole.
///
/// # Errors
/// [`BlobError`] if a part is in no known form.
pub fn decode_fence(blob: &[u8], limits: &DecodeLimits) -> Result<Vec<FenceBlock>, BlobError> {
    let mut blocks = Vec::new();
    read_parts(blob, &look_through(blob, limits)?, limits, &mut |block| {
        let mut entries = block.entries.iter().map(LentEntry::to_kval).collect();
        commit_number::restore(&mut entries, block.commit);
        blocks.push(FenceBlock { contributor: block.contributor.clone(), entries });
        ControlFlow::Continue(())
    });
    Ok(blocks)
}

/// Looks a fence's result through, to the end: afterwards nothing can be wrong with it.
///
/// # Errors
/// [`BlobError`] if a part is in no known form.
pub fn look_through(blob: &[u8], limits: &DecodeLimits) -> Result<Vec<Part>, BlobError> {
    let mut reader = Reader::new(blob, codec_of(blob), limits)?;
    let mut parts = Vec::new();
    while !reader.is_at_end() {
        let codec = codec_of(reader.peek());
        reader.switch_to(codec);
        let part = reader.unpack_object("fence part")?;
        let end = blob.len().saturating_sub(reader.remaining());
        let mut is_older = |codec| reader.inside(part, codec, |reader| read_part(reader, &mut pass_over));
        let older = is_older(codec).map(|_| Form::Older(codec));
        let older =
            older.or_else(|error| is_older(newest(codec)).map(|_| Form::Older(newest(codec))).map_err(|_| error));
        let form = match older {
            Ok(form) => form,
            // The older form is the likelier one, so its error is the one to report.
            Err(error) => newer_form(part, codec, limits)?.ok_or(error)?,
        };
        parts.push(Part { place: end.saturating_sub(part.len())..end, form });
    }
    Ok(parts)
}

/// Gives out what is in parts that were looked through, process by process, until the end or until `take` wants no more.
pub fn read_parts(
    blob: &[u8],
    parts: &[Part],
    limits: &DecodeLimits,
    take: &mut dyn FnMut(LentBlock<'_>) -> ControlFlow<()>,
) {
    for Part { place, form } in parts {
        let Some(part) = blob.get(place.clone()) else { return };
        let flow = match *form {
            Form::Older(codec) => {
                Reader::new(part, codec, limits).and_then(|mut reader| read_part(&mut reader, take)).map_err(Into::into)
            }
            Form::Newer(envelope, codec) => read_newer_part(part, envelope, codec, limits, take),
        };
        // Bytes that have changed since they were looked through end the reading.
        if !matches!(flow, Ok(Flow::Continue(()))) {
            return;
        }
    }
}

type Flow = ControlFlow<()>;

fn pass_over(_: LentBlock<'_>) -> Flow {
    Flow::Continue(())
}

fn read_part(reader: &mut Reader<'_>, take: &mut TakeBlock<'_>) -> Result<Flow, DecodeError> {
    let info = reader.unpack::<Byte>("fence info")?;
    // Nothing collected, nothing behind it: so what begins with a false flag is the newer form.
    if info & COLLECTED == 0 && !reader.is_at_end() {
        let found = i64::try_from(reader.remaining()).unwrap_or(i64::MAX);
        return Err(reader.error(DecodeProblem::WrongCount { expected: 0, found }));
    }
    if info & HAS_KEYS == 0 {
        return read_entries(reader, relative, take);
    }
    let keys = match reader.unpack::<Uint32>("fence key count")? {
        0 => Vec::new(),
        count => reader.unpack_lent_keys("fence keys", count.into())?,
    };
    let note = keys.first().map_or(&[][..], |(_, note)| note);
    read_values(reader, &keys, note, take)
}

/// One object for each process up to the end of the part: who, then entries.
fn read_entries<'a>(
    reader: &mut Reader<'a>,
    who: impl Fn(&mut Reader<'a>) -> Result<Contributor, DecodeError>,
    take: &mut TakeBlock<'_>,
) -> Result<Flow, DecodeError> {
    let codec = reader.codec();
    let mut entries = Vec::new();
    // The first key of the process before: as a rule it is that of the next, too.
    let mut first_key = None;
    while !reader.is_at_end() {
        let object = reader.unpack_object("fence values")?;
        entries.clear();
        let (contributor, commit) = reader.inside(object, codec, |reader| {
            let contributor = who(reader)?;
            let mut commit = None;
            while !reader.is_at_end() {
                let is_first = entries.is_empty();
                let likely = first_key.filter(|_| is_first);
                let is_value = |key: &LentKey<'_>| !is_number(key);
                let (key, note) = reader.unpack_lent_entry("fence entries", likely, is_value, &mut entries)?;
                first_key = is_first.then_some(key).or(first_key);
                commit = commit.or_else(|| commit_number::read_note(note).next().flatten());
            }
            Ok((contributor, commit))
        })?;
        if take(LentBlock { contributor: &contributor, commit, entries: &entries }).is_break() {
            return Ok(Flow::Break(()));
        }
    }
    Ok(Flow::Continue(()))
}

/// One object for each process up to the end of the part: a relative rank, then pairs of key index and value.
fn read_values<'a>(
    reader: &mut Reader<'a>,
    keys: &[(LentKey<'a>, &'a [u8])],
    note: &[u8],
    take: &mut TakeBlock<'_>,
) -> Result<Flow, DecodeError> {
    let codec = reader.codec();
    let mut entries = Vec::new();
    let mut numbers = commit_number::read_note(note);
    let keys: Vec<Option<LentKey<'a>>> = keys.iter().map(|&(key, _)| (!is_number(&key)).then_some(key)).collect();
    while !reader.is_at_end() {
        let object = reader.unpack_object("fence values")?;
        entries.clear();
        let number = reader.inside(object, codec, |reader| {
            let number = relative_rank(reader)?;
            while !reader.is_at_end() {
                let index = reader.unpack::<Uint32>("fence key index")?;
                let key = usize::try_from(index).ok().and_then(|index| keys.get(index));
                let key = key.ok_or_else(|| reader.error(DecodeProblem::KeyIndex { index, count: keys.len() }))?;
                reader.unpack_lent_value("fence value", *key, &mut entries)?;
            }
            Ok(number)
        })?;
        let (contributor, commit) = (Contributor::Relative(number), numbers.next().flatten());
        if take(LentBlock { contributor: &contributor, commit, entries: &entries }).is_break() {
            return Ok(Flow::Break(()));
        }
    }
    Ok(Flow::Continue(()))
}

/// The number of a commit is never an entry on the wire; what says it is one is left out.
fn is_number(key: &LentKey<'_>) -> bool {
    key.as_str() == COMMIT_NUMBER.as_str()
}

fn relative(reader: &mut Reader<'_>) -> Result<Contributor, DecodeError> {
    relative_rank(reader).map(Contributor::Relative)
}

#[inline]
fn relative_rank(reader: &mut Reader<'_>) -> Result<u32, DecodeError> {
    match reader.unpack::<Rank>("fence rank")? {
        Rank::Process(relative_rank) => Ok(relative_rank),
        special => Err(reader.error(RankError { raw: special.to_raw() })),
    }
}

/// How a part of release 6 is read; `None` if the bytes are no such part either.
fn newer_form(part: &[u8], codec: Codec, limits: &DecodeLimits) -> Result<Option<Form>, BlobError> {
    let Some((is_compressed, content)) = open_envelope(part, codec, limits) else { return Ok(None) };
    if !is_compressed {
        return Ok(content_codec(content, codec, limits).ok().map(|content| Form::Newer(codec, content)));
    }
    // Behind the length there is a zlib stream, or this never was compressed data.
    if content.get(4) != Some(&ZLIB_FIRST_BYTE) {
        return Ok(None);
    }
    let content = inflate(content, INFLATED_BYTES_MAX.min(limits.message_bytes_max))?;
    Ok(Some(Form::Newer(codec, content_codec(&content, codec, limits)?)))
}

fn read_newer_part(
    part: &[u8],
    envelope: Codec,
    codec: Codec,
    limits: &DecodeLimits,
    take: &mut TakeBlock<'_>,
) -> Result<Flow, BlobError> {
    match open_envelope(part, envelope, limits) {
        Some((true, content)) => {
            let content = inflate(content, INFLATED_BYTES_MAX.min(limits.message_bytes_max))?;
            Ok(read_newer_content(&content, codec, limits, take)?)
        }
        Some((false, content)) => Ok(read_newer_content(content, codec, limits, take)?),
        None => Ok(Flow::Break(())),
    }
}

/// First byte of every zlib stream with the usual window size.
const ZLIB_FIRST_BYTE: u8 = 0x78;

/// What one server's compressed part may become.
const INFLATED_BYTES_MAX: usize = 1 << 30;

/// A flag and one object that ends where the part ends.
fn open_envelope<'a>(part: &'a [u8], codec: Codec, limits: &DecodeLimits) -> Option<(bool, &'a [u8])> {
    let mut reader = Reader::new(part, codec, limits).ok()?;
    let is_compressed = reader.unpack::<Bool>("compressed").ok()?;
    let content = reader.unpack_object("fence content").ok()?;
    reader.is_at_end().then_some((is_compressed, content))
}

/// The encoding in which the content can be read.
fn content_codec(content: &[u8], codec: Codec, limits: &DecodeLimits) -> Result<Codec, DecodeError> {
    let can_read = |codec| read_newer_content(content, codec, limits, &mut pass_over).map(|_| codec);
    can_read(newest(codec)).or_else(|error| can_read(codec).map_err(|_| error))
}

fn read_newer_content(
    content: &[u8],
    codec: Codec,
    limits: &DecodeLimits,
    take: &mut TakeBlock<'_>,
) -> Result<Flow, DecodeError> {
    let mut reader = Reader::new(content, codec, limits)?;
    reader.unpack::<Byte>("fence info")?;
    read_entries(&mut reader, |reader| Ok(Contributor::Process(reader.unpack::<Proc>("fence process")?)), take)
}
