//! Reads a fence's result: the parts of any number of servers, in both forms, process by process, with borrowed values.
//!
//! The frames of all parts are checked first, so a truncated result yields nothing. A part is given out only after it
//! was read to its end. Then its form is certain, and a damaged part yields nothing.

use std::ops::ControlFlow;

use super::fence::{COLLECTED, HAS_KEYS};
use super::{BlobError, COMMIT_NUMBER, Contributor, FenceBlock, codec_of, commit_number, newest};
use crate::bfrops::wire::{Bool, Byte, Proc, Uint32};
use crate::bfrops::{Codec, DecodeError, DecodeLimits, DecodeProblem, InflatedPieces, Reader, declared_bytes, inflate};
use crate::types::{LentEntry, LentKey, Rank, RankError};

/// Data of one process in a fence's result, borrowed from the bytes.
#[derive(Clone, Copy, Debug)]
pub struct LentBlock<'a> {
    /// The process.
    pub contributor: &'a Contributor,
    /// The last of the process's commits in the entries, if its server sent it.
    pub commit: Option<u64>,
    /// The entries.
    pub entries: &'a [LentEntry<'a>],
}

/// Takes the data of one process; returns whether to go on.
type TakeBlock<'t> = dyn FnMut(LentBlock<'_>) -> Flow + 't;

type Flow = ControlFlow<()>;

/// Reads a fence's result whole.
///
/// # Errors
/// [`BlobError`] if a part is in no known form.
pub fn decode_fence(blob: &[u8], limits: &DecodeLimits) -> Result<Vec<FenceBlock>, BlobError> {
    let mut blocks = Vec::new();
    read_fence(blob, limits, &mut |block| {
        let mut entries = block.entries.iter().map(LentEntry::to_kval).collect();
        commit_number::restore(&mut entries, block.commit);
        blocks.push(FenceBlock { contributor: block.contributor.clone(), entries });
        ControlFlow::Continue(())
    })?;
    Ok(blocks)
}

/// Checks the frames of a fence's result: afterwards no part is truncated.
///
/// # Errors
/// [`BlobError`] if there is anything but parts.
pub fn check_frames(blob: &[u8], limits: &DecodeLimits) -> Result<(), BlobError> {
    let mut reader = Reader::new(blob, codec_of(blob), limits)?;
    while !reader.is_at_end() {
        next_part(&mut reader)?;
    }
    Ok(())
}

/// Gives out a fence's result, process by process, until the end or until `take` stops it.
///
/// # Errors
/// [`BlobError`] if a part is in no known form. The parts before it were given out, and nothing of it, unless its bytes
/// have changed during the read.
pub fn read_fence(blob: &[u8], limits: &DecodeLimits, take: &mut TakeBlock<'_>) -> Result<(), BlobError> {
    let mut reader = Reader::new(blob, codec_of(blob), limits)?;
    let mut blocks = Blocks::new(take);
    while !reader.is_at_end() {
        let (codec, part) = next_part(&mut reader)?;
        // PRRTE 3.0 puts directives in front of the servers' parts. Usually there are none.
        if part.is_empty() {
            continue;
        }
        if read_part(&mut reader, part, codec, &mut blocks)?.is_break() {
            break;
        }
    }
    Ok(())
}

/// The next part, and its likely encoding.
fn next_part<'a>(reader: &mut Reader<'a>) -> Result<(Codec, &'a [u8]), DecodeError> {
    let codec = codec_of(reader.peek());
    reader.switch_to(codec);
    Ok((codec, reader.unpack_object("fence part")?))
}

/// Gives out one part, in either form.
fn read_part<'a>(
    reader: &mut Reader<'a>,
    part: &'a [u8],
    codec: Codec,
    blocks: &mut Blocks<'a, '_>,
) -> Result<Flow, BlobError> {
    let mut older = |codec| {
        blocks.give_out(part, |blocks| match blocks.mode {
            // A second read counts once against the limits.
            Mode::PassOver => reader.clone().inside(part, codec, |reader| read_older(reader, blocks)),
            Mode::Keep | Mode::GiveOut => reader.inside(part, codec, |reader| read_older(reader, blocks)),
        })
    };
    let error = match older(codec) {
        Ok(flow) => return Ok(flow),
        Err(error) => error,
    };
    if let Ok(flow) = older(newest(codec)) {
        return Ok(flow);
    }
    // The older form is more likely, so its error is reported.
    let limits = *reader.limits();
    let Some((is_compressed, content)) = open_envelope(part, codec, &limits) else { return Err(error.into()) };
    if !is_compressed {
        return read_newer(content, codec, &limits, blocks).map_err(|_| error.into());
    }
    // A zlib stream follows the length, or this never was compressed data.
    if content.get(4) != Some(&ZLIB_FIRST_BYTE) {
        return Err(error.into());
    }
    let bytes_max = inflated_bytes_max(content.len()).min(limits.message_bytes_max);
    if declared_bytes(content).is_some_and(|(declared, _)| declared > KEPT_BYTES_MAX) {
        return read_in_pieces(content, bytes_max, codec, &limits, blocks.take);
    }
    let content = inflate(content, bytes_max)?;
    Ok(read_newer(&content, codec, &limits, &mut Blocks::new(blocks.take))?)
}

/// As [`read_newer`], for compressed content too large to be kept. It is unpacked twice, process by process. The first
/// pass gives nothing out, so damaged content yields nothing.
fn read_in_pieces(
    compressed: &[u8],
    bytes_max: usize,
    codec: Codec,
    limits: &DecodeLimits,
    take: &mut TakeBlock<'_>,
) -> Result<Flow, BlobError> {
    let mut read = |codec, mode| {
        let mut pieces = InflatedPieces::new(compressed, bytes_max)?;
        read_pieces(&mut pieces, mode, codec, limits, take)
    };
    let codec = match read(newest(codec), Mode::PassOver) {
        Ok(_) => newest(codec),
        Err(error) => read(codec, Mode::PassOver).map_err(|_| error).map(|_| codec)?,
    };
    read(codec, Mode::GiveOut)
}

fn read_pieces(
    pieces: &mut InflatedPieces<'_>,
    mode: Mode,
    codec: Codec,
    limits: &DecodeLimits,
    take: &mut TakeBlock<'_>,
) -> Result<Flow, BlobError> {
    let mut is_begun = false;
    loop {
        // The step is at least as large as the present window, so that a large object is not scanned again for each
        // piece.
        let more = pieces.unpack_more(PIECE_BYTES.max(pieces.window().len()))?;
        let window = pieces.window();
        let mut reader = Reader::new(window, codec, limits)?;
        if !is_begun {
            reader.unpack::<Byte>("fence info")?;
            is_begun = true;
        }
        let begin = window.len().saturating_sub(reader.remaining());
        let mut end = begin;
        let cut_off = loop {
            if reader.is_at_end() {
                break None;
            }
            match reader.unpack_object("fence values") {
                Ok(_) => end = window.len().saturating_sub(reader.remaining()),
                Err(error) => break Some(error),
            }
        };
        let mut whole = Reader::new(window.get(begin..end).unwrap_or_default(), codec, limits)?;
        let mut blocks = Blocks { mode, ..Blocks::new(take) };
        if read_entries(&mut whole, named, &mut blocks)?.is_break() {
            return Ok(Flow::Break(()));
        }
        match cut_off {
            Some(error) if more == 0 || window.len().saturating_sub(end) > OBJECT_BYTES_MAX => return Err(error.into()),
            None if more == 0 => return Ok(Flow::Continue(())),
            _ => pieces.forget(end),
        }
    }
}

/// A process given by its name.
fn named(reader: &mut Reader<'_>) -> Result<Contributor, DecodeError> {
    Ok(Contributor::Process(reader.unpack::<Proc>("fence process")?))
}

/// Data read from a part and not given out yet.
struct Blocks<'a, 't> {
    take: &'t mut TakeBlock<'t>,
    /// Action for a process whose end was read.
    mode: Mode,
    /// Process, commit, and end of its entries.
    ends: Vec<(Contributor, Option<u64>, usize)>,
    entries: Vec<LentEntry<'a>>,
}

#[derive(Clone, Copy)]
enum Mode {
    Keep,
    PassOver,
    GiveOut,
}

impl<'a, 't> Blocks<'a, 't> {
    fn new(take: &'t mut TakeBlock<'_>) -> Self {
        Self { take, mode: Mode::Keep, ends: Vec::new(), entries: Vec::new() }
    }

    /// Gives out the data that `read` finds in these bytes, once it has reached their end.
    fn give_out(
        &mut self,
        bytes: &[u8],
        mut read: impl FnMut(&mut Self) -> Result<Flow, DecodeError>,
    ) -> Result<Flow, DecodeError> {
        let is_kept = bytes.len() <= KEPT_BYTES_MAX;
        let mut read_as = |blocks: &mut Self, mode| {
            blocks.mode = mode;
            blocks.ends.clear();
            blocks.entries.clear();
            read(blocks)
        };
        let flow = read_as(self, if is_kept { Mode::Keep } else { Mode::PassOver })?;
        if is_kept { Ok(self.give_kept(flow)) } else { read_as(self, Mode::GiveOut) }
    }

    fn give_kept(&mut self, mut flow: Flow) -> Flow {
        let (mut left, mut start) = (self.entries.as_slice(), 0);
        for &(ref contributor, commit, end) in &self.ends {
            let (entries, behind) = left.split_at_checked(end.saturating_sub(start)).unwrap_or_default();
            (left, start) = (behind, end);
            flow = (self.take)(LentBlock { contributor, commit, entries });
            if flow.is_break() {
                break;
            }
        }
        flow
    }

    /// The entries since the last call are this process's.
    ///
    /// Inlined, so that the contributor is built in its final place. Passed through memory, it would be read at once in
    /// other pieces than written, and the processor waits for that.
    #[inline(always)]
    fn end(&mut self, contributor: Contributor, commit: Option<u64>) -> Flow {
        if !matches!(self.mode, Mode::Keep) {
            return self.end_at_once(contributor, commit);
        }
        self.ends.push((contributor, commit, self.entries.len()));
        ControlFlow::Continue(())
    }

    #[inline(never)]
    fn end_at_once(&mut self, contributor: Contributor, commit: Option<u64>) -> Flow {
        let mut flow = ControlFlow::Continue(());
        if matches!(self.mode, Mode::GiveOut) {
            flow = (self.take)(LentBlock { contributor: &contributor, commit, entries: &self.entries });
        }
        self.entries.clear();
        flow
    }
}

/// Largest part whose data is kept until its end was read. A larger part is read twice, so that its memory does not
/// grow with the number of processes.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// A part as releases 3.2 to 5.0 write it.
fn read_older<'a>(reader: &mut Reader<'a>, blocks: &mut Blocks<'a, '_>) -> Result<Flow, DecodeError> {
    let info = reader.unpack::<Byte>("fence info")?;
    // Nothing collected, nothing behind it: so bytes that begin with a false flag are the newer form.
    if info & COLLECTED == 0 && !reader.is_at_end() {
        let found = i64::try_from(reader.remaining()).unwrap_or(i64::MAX);
        return Err(reader.error(DecodeProblem::WrongCount { expected: 0, found }));
    }
    if info & HAS_KEYS == 0 {
        return read_entries(reader, relative, blocks);
    }
    let keys = match reader.unpack::<Uint32>("fence key count")? {
        0 => Vec::new(),
        count => reader.unpack_lent_keys("fence keys", count.into())?,
    };
    let note = keys.first().map_or(&[][..], |(_, note)| note);
    read_values(reader, &keys, note, blocks)
}

/// One object for each process up to the end of the part: the process, then entries.
fn read_entries<'a>(
    reader: &mut Reader<'a>,
    who: impl Fn(&mut Reader<'a>) -> Result<Contributor, DecodeError>,
    blocks: &mut Blocks<'a, '_>,
) -> Result<Flow, DecodeError> {
    // The first key of the process before: usually the next process has it too.
    let mut first_key = None;
    while !reader.is_at_end() {
        let object = reader.unpack_object("fence values")?;
        let before = blocks.entries.len();
        let (contributor, commit) = reader.within(object, |reader| {
            let contributor = who(reader)?;
            let mut commit = None;
            while !reader.is_at_end() {
                let is_first = blocks.entries.len() == before;
                let likely = first_key.filter(|_| is_first);
                let is_value = |key: &LentKey<'_>| !is_number(key);
                let (key, note) = reader.unpack_lent_entry("fence entries", likely, is_value, &mut blocks.entries)?;
                first_key = is_first.then_some(key).or(first_key);
                commit = commit.or_else(|| commit_number::read_note(note).next().flatten());
            }
            Ok((contributor, commit))
        })?;
        if blocks.end(contributor, commit).is_break() {
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
    blocks: &mut Blocks<'a, '_>,
) -> Result<Flow, DecodeError> {
    let mut numbers = commit_number::read_note(note);
    let keys: Vec<Option<LentKey<'a>>> = keys.iter().map(|&(key, _)| (!is_number(&key)).then_some(key)).collect();
    while !reader.is_at_end() {
        let object = reader.unpack_object("fence values")?;
        let number = reader.within(object, |reader| {
            let number = relative_rank(reader)?;
            while !reader.is_at_end() {
                let index = reader.unpack::<Uint32>("fence key index")?;
                let key = usize::try_from(index).ok().and_then(|index| keys.get(index));
                let key = key.ok_or_else(|| reader.error(DecodeProblem::KeyIndex { index, count: keys.len() }))?;
                reader.unpack_lent_value("fence value", *key, &mut blocks.entries)?;
            }
            Ok(number)
        })?;
        if blocks.end(Contributor::Relative(number), numbers.next().flatten()).is_break() {
            return Ok(Flow::Break(()));
        }
    }
    Ok(Flow::Continue(()))
}

/// A commit number is never an entry on the wire; an entry with its key is left out.
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

/// Contents of a part as releases 6.0 and 6.1 write it, in either encoding.
fn read_newer<'a>(
    content: &'a [u8],
    codec: Codec,
    limits: &DecodeLimits,
    blocks: &mut Blocks<'a, '_>,
) -> Result<Flow, DecodeError> {
    let mut read = |codec| {
        blocks.give_out(content, |blocks| {
            let mut reader = Reader::new(content, codec, limits)?;
            reader.unpack::<Byte>("fence info")?;
            read_entries(&mut reader, named, blocks)
        })
    };
    read(newest(codec)).or_else(|error| read(codec).map_err(|_| error))
}

/// First byte of every zlib stream with the usual window size.
const ZLIB_FIRST_BYTE: u8 = 0x78;

/// Bound on the unpacked size of one server's compressed part. Data for connections repeats little. A quarter of a GiB
/// allows for processes that post one byte again and again. Beyond it the compressed size sets the bound.
fn inflated_bytes_max(compressed_bytes: usize) -> usize {
    INFLATED_BYTES_FREE.max(compressed_bytes.saturating_mul(INFLATED_RATIO_MAX)).min(INFLATED_BYTES_MAX)
}

const INFLATED_BYTES_FREE: usize = 256 << 20;
const INFLATED_RATIO_MAX: usize = 128;
const INFLATED_BYTES_MAX: usize = 1 << 30;
/// Bytes that are unpacked at once, unless one process has more.
const PIECE_BYTES: usize = 256 << 10;
/// Bound on one process's data in a part that is unpacked in pieces: the largest message that could post it.
const OBJECT_BYTES_MAX: usize = DecodeLimits::MESSAGE_BYTES_MAX * 2;

/// A flag and one object that ends where the part ends.
fn open_envelope<'a>(part: &'a [u8], codec: Codec, limits: &DecodeLimits) -> Option<(bool, &'a [u8])> {
    let mut reader = Reader::new(part, codec, limits).ok()?;
    let is_compressed = reader.unpack::<Bool>("compressed").ok()?;
    let content = reader.unpack_object("fence content").ok()?;
    reader.is_at_end().then_some((is_compressed, content))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bfrops::deflated;
    use crate::bfrops::wire::ByteObject;
    use crate::bfrops::{Generation, Writer};
    use crate::proto::blob::encode_fence_of_release_6;
    use crate::types::{Key, Kval, Namespace, ProcId, Value};

    const CODEC: Codec = Codec { generation: Generation::V61, described: false };

    fn blocks(ranks: u32, value_bytes: usize) -> Vec<(ProcId, Vec<Kval>)> {
        let entry = |byte| Kval { key: Key::from_static("k"), value: Value::ByteObject(vec![byte; value_bytes]) };
        let entries = |rank: u32| vec![entry(rank.to_le_bytes()[0])];
        (0..ranks).map(|rank| (ProcId::new(Namespace::new("job").unwrap(), rank), entries(rank))).collect()
    }

    /// A result with one compressed part with this content.
    fn compressed(content: &[u8], declared: usize) -> Vec<u8> {
        let mut part = Writer::new(CODEC);
        part.pack::<Bool>(&true).unwrap();
        part.pack::<ByteObject>(&deflated(content, u32::try_from(declared).unwrap())).unwrap();
        let mut blob = Writer::new(CODEC);
        blob.pack::<ByteObject>(&part.into_bytes()).unwrap();
        blob.into_bytes()
    }

    /// Regression: a part of 0.9 MB took 2.8 GB of memory, unpacked to one piece of 1 GiB that grew by doubling. Now
    /// memory holds no more of it than one process has.
    #[test]
    fn a_large_part_is_read_in_pieces_and_comes_whole() {
        for (ranks, value_bytes) in [(100, 40_000), (3, 3 << 20), (40_000, 40)] {
            let blocks = blocks(ranks, value_bytes);
            let blob = encode_fence_of_release_6(&blocks, CODEC).unwrap();
            assert!(blob.len() * 4 < usize::try_from(ranks).unwrap() * value_bytes);
            let mut next = blocks.iter();
            let limits = DecodeLimits::EXCHANGE;
            read_fence(&blob, &limits, &mut |block| {
                let (proc, entries) = next.next().unwrap();
                assert_eq!(block.contributor, &Contributor::Process(proc.clone()));
                assert_eq!(block.entries.iter().map(LentEntry::to_kval).collect::<Vec<_>>(), *entries);
                Flow::Continue(())
            })
            .unwrap();
            assert_eq!(next.next(), None);
        }
    }

    #[test]
    fn nothing_comes_of_a_large_part_that_is_cut_off_or_longer_than_declared() {
        let whole = encode_fence_of_release_6(&blocks(100, 40_000), CODEC).unwrap();
        let mut reader = Reader::new(&whole, CODEC, &DecodeLimits::EXCHANGE).unwrap();
        let part = reader.unpack_object("part").unwrap();
        let (_, content) = open_envelope(part, CODEC, &DecodeLimits::EXCHANGE).unwrap();
        let content = inflate(content, 1 << 30).unwrap();
        for (cut, declared) in [(content.len() - 1, content.len() - 1), (content.len(), content.len() - 1)] {
            let blob = compressed(&content[..cut], declared);
            let read = read_fence(&blob, &DecodeLimits::EXCHANGE, &mut |_| panic!("nothing is given out"));
            assert!(read.is_err(), "{cut} {declared}");
        }
    }

    #[test]
    fn the_inflated_size_of_a_part_is_bounded_by_its_own_size() {
        assert_eq!(inflated_bytes_max(900_000), INFLATED_BYTES_FREE);
        assert_eq!(inflated_bytes_max(4 << 20), 512 << 20);
        assert_eq!(inflated_bytes_max(usize::MAX), INFLATED_BYTES_MAX);
        let blob = compressed(&[0; 5000], INFLATED_BYTES_FREE + 1);
        let read = read_fence(&blob, &DecodeLimits::EXCHANGE, &mut |_| panic!("nothing is given out"));
        assert!(matches!(read, Err(BlobError::Inflate(_))), "{read:?}");
    }
}
