//! The `blob:` framing: a header in text, then a length and a zlib stream.
//!
//! ```text
//! blob: NUL component=zlib: NUL size=N: NUL | 4 bytes: length of the text | zlib stream
//!                                             `------------- N bytes ------------------'
//! ```
//!
//! The length is in the writer's byte order, which the header does not state.

use std::io::Write as _;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Decompress, FlushDecompress, Status};

use super::error::{Excerpt, MapError};
use super::limits::MapLimits;
use crate::types::with_stack;

/// The first bytes of a blob, and of no other framing.
pub(super) const IDENTIFIER: &[u8] = b"blob:";

/// Splits a blob into its payload and the count of bytes it occupies, header included.
///
/// # Errors
/// If the header is malformed, or `bytes` end before the payload does.
pub(super) fn split(bytes: &[u8]) -> Result<(&[u8], usize), MapError> {
    let malformed = MapError::BlobHeader { start: Excerpt::of(bytes) };
    let sized = bytes.strip_prefix(PREAMBLE).ok_or(malformed)?;
    let digits = sized.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = sized.split_at_checked(digits).ok_or(malformed)?;
    let rest = rest.strip_prefix(b":\0").ok_or(malformed)?;
    let declared: u64 = str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or(malformed)?;

    let truncated = MapError::Truncated { declared, available: length(rest) };
    let payload = usize::try_from(declared).ok().and_then(|size| rest.get(..size)).ok_or(truncated)?;
    Ok((payload, bytes.len() - rest.len() + payload.len()))
}

/// Inflates the payload of a blob into its list.
///
/// # Errors
/// If the payload declares or produces more than `limits` allow, is not a whole zlib stream, or inflates to another
/// length than declared.
pub(super) fn inflate(payload: &[u8], limits: &MapLimits) -> Result<Vec<u8>, MapError> {
    let too_short = MapError::Truncated { declared: 4, available: length(payload) };
    let (declared, stream) = payload.split_first_chunk::<4>().ok_or(too_short)?;
    if stream.starts_with(&ZSTD_MAGIC) {
        return Err(MapError::Zstd);
    }
    let host_order = length_in_host_order(*declared);
    let acceptable = [host_order, host_order.swap_bytes()]
        .map(|length| Some(length).filter(|&length| length <= limits.inflated_bytes_max));

    // The stream must not exceed the larger acceptable length; the right byte order is not known yet.
    let Some(bound) = acceptable.into_iter().flatten().max() else {
        let (limit, found) = ("bytes of text", u64::from(host_order));
        return Err(MapError::Limit { limit, found, max: limits.inflated_bytes_max });
    };
    let text = inflate_bounded(stream, u64::from(bound))?;

    let found = length(&text);
    if acceptable.into_iter().flatten().all(|length| u64::from(length) != found) {
        return Err(MapError::InflatedLength { declared: host_order, found });
    }
    Ok(text)
}

/// Inflates a whole stream, stopping at the first step that yields more than `bound` bytes.
///
/// # Errors
/// [`MapError::DamagedStream`] if the stream is corrupt, does not end, or is followed by more than NULs.
fn inflate_bounded(stream: &[u8], bound: u64) -> Result<Vec<u8>, MapError> {
    // Not the reader adapter: it accepts a truncated stream as complete.
    let mut inflater = inflater();
    let mut text = Vec::new();
    let mut rest = stream;
    loop {
        text.reserve(INFLATE_STEP_BYTES);
        let before = (rest.len(), text.len());
        let status =
            inflater.decompress_vec(rest, &mut text, FlushDecompress::None).map_err(|_| MapError::DamagedStream)?;
        rest = usize::try_from(inflater.total_in())
            .ok()
            .and_then(|consumed| stream.get(consumed..))
            .ok_or(MapError::DamagedStream)?;
        let is_stuck = before == (rest.len(), text.len());
        match status {
            Status::StreamEnd if rest.iter().all(|&byte| byte == 0) => return Ok(text),
            Status::StreamEnd => return Err(MapError::DamagedStream),
            // There was room for output, so the inflater can only lack input.
            Status::Ok | Status::BufError if is_stuck => return Err(MapError::DamagedStream),
            // One step beyond the bound is enough, because the caller compares lengths.
            Status::Ok | Status::BufError if length(&text) > bound => return Ok(text),
            Status::Ok | Status::BufError => {}
        }
    }
}

/// A decoder of a zlib stream. Its construction moves 43 KiB of state over the stack. A caller may have 64 KiB in all,
/// and callers without a decoder must not pay for its frame.
pub(crate) fn inflater() -> Decompress {
    #[inline(never)]
    fn make() -> Decompress {
        Decompress::new(true)
    }
    with_stack(INFLATER_STACK_BYTES, make)
}

/// Deflates a list into a whole blob; `None` if its length exceeds four bytes.
pub(super) fn deflate(text: &str) -> Option<Vec<u8>> {
    Some(whole(&payload(text)?))
}

/// Deflates a list into the payload of a blob; `None` if its length exceeds four bytes.
pub(super) fn payload(text: &str) -> Option<Vec<u8>> {
    let declared = u32::try_from(text.len()).ok()?;
    let mut payload = bytes_in_host_order(declared).to_vec();
    let mut deflater = ZlibEncoder::new(&mut payload, Compression::new(LEVEL));
    deflater.write_all(text.as_bytes()).ok()?;
    deflater.finish().ok()?;
    Some(payload)
}

/// Puts the header in front of a payload.
pub(super) fn whole(payload: &[u8]) -> Vec<u8> {
    let mut map = PREAMBLE.to_vec();
    map.extend_from_slice(payload.len().to_string().as_bytes());
    map.extend_from_slice(b":\0");
    map.extend_from_slice(payload);
    map
}

fn length_in_host_order(bytes: [u8; 4]) -> u32 {
    if cfg!(target_endian = "big") { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}

fn bytes_in_host_order(length: u32) -> [u8; 4] {
    if cfg!(target_endian = "big") { length.to_be_bytes() } else { length.to_le_bytes() }
}

/// The length of a slice in the width that errors and limits use.
fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// First bytes of a zstd frame. A zlib stream has none of them in this order: its first two bytes are a checked header.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// The header up to the size. Senders write "zlib" here for every compression.
const PREAMBLE: &[u8] = b"blob:\0component=zlib:\0size=";

/// Low, because numbers that count up repeat text a few bytes before. A longer search takes ten times as long (10^6
/// ranks: 467 instead of 40 ms). It also finds less (2.1 instead of 1.7 MB).
const LEVEL: u32 = 2;

/// Stack for making an inflater, which is moved to the heap at the end, and for the functions below that.
const INFLATER_STACK_BYTES: usize = 96 << 10;

/// Size of an inflater's output buffer, which is all its memory besides the list itself.
const INFLATE_STEP_BYTES: usize = 64 << 10;
