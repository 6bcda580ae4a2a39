//! The framing of a map: its kind, its end, and the list inside it.
//!
//! The PMIx Standard puts a NUL behind the identifier ("raw:" NUL list NUL); released libraries put none. Both are
//! read. Only `raw:` NUL followed by other bytes is ambiguous, and is read in the standard's way. In practice a list is
//! never empty, and this module never writes an empty list in that form.

use std::borrow::Cow;
use std::ffi::CStr;

use super::blob;
use super::error::{Excerpt, MapError};
use super::limits::MapLimits;

/// Number of bytes of the map at the start of `bytes`.
///
/// A map of type regex is packed without a length; the PMIx Standard, chapter on data packing, leaves that to the
/// implementation. All framings except `blob:` end with their NUL, which counts; a blob declares its size. Bytes behind
/// the map are ignored. Only the framing is checked, not the list in it.
///
/// # Errors
/// If the framing is unknown or damaged, or `bytes` end before the map does.
pub fn framed_length(bytes: &[u8]) -> Result<usize, MapError> {
    let frame = Frame::at_start_of(bytes)?;
    if !frame.is_terminated {
        return Err(MapError::Unterminated { available: widen(bytes.len()) });
    }
    Ok(frame.length)
}

/// Removes the framing of a map that fills `map`, except for NULs behind it.
///
/// # Errors
/// If the framing is unknown or damaged, if other bytes follow it, or if the list is not UTF-8.
pub(super) fn unframe<'a>(map: &'a [u8], limits: &MapLimits) -> Result<MapText<'a>, MapError> {
    let frame = Frame::at_start_of(map)?;
    let trailing = map.get(frame.length..).unwrap_or_default();
    if trailing.iter().any(|&byte| byte != 0) {
        return Err(MapError::TrailingBytes { length: widen(frame.length) });
    }
    match frame.body {
        Body::List(list) => Ok(MapText::List(Cow::Borrowed(as_text(list)?))),
        Body::Items(items) => Ok(MapText::Items(as_text(items)?)),
        Body::Deflated(payload) => {
            let mut list =
                String::from_utf8(blob::inflate(payload, limits)?).map_err(|error| not_utf8(error.utf8_error()))?;
            // Some senders also deflate the NUL of their C string.
            list.truncate(list.trim_end_matches('\0').len());
            Ok(MapText::List(Cow::Owned(list)))
        }
    }
}

/// The text inside a map.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MapText<'a> {
    /// A plain list.
    List(Cow<'a, str>),
    /// The text between the brackets of `pmix[...]`.
    Items(&'a str),
}

/// A map found at the start of a buffer.
struct Frame<'a> {
    body: Body<'a>,
    /// Bytes from the start of the buffer to the end of the map.
    length: usize,
    /// Whether the end of the map was found, not just the end of the buffer.
    is_terminated: bool,
}

enum Body<'a> {
    List(&'a [u8]),
    Items(&'a [u8]),
    Deflated(&'a [u8]),
}

impl<'a> Frame<'a> {
    fn at_start_of(bytes: &'a [u8]) -> Result<Self, MapError> {
        if bytes.starts_with(blob::IDENTIFIER) {
            let (payload, length) = blob::split(bytes)?;
            return Ok(Self { body: Body::Deflated(payload), length, is_terminated: true });
        }
        if bytes.starts_with(RAW) {
            return Ok(Self::up_to_nul(bytes, list_start(bytes, RAW), Body::List));
        }
        if bytes.starts_with(PMIX) {
            return Self::up_to_nul(bytes, list_start(bytes, PMIX), Body::Items).without_brackets();
        }
        if bytes.starts_with(PMIX_BRACKET) {
            return Self::up_to_nul(bytes, 0, Body::Items).without_brackets();
        }
        let bare = Self::up_to_nul(bytes, 0, Body::List);
        match bare.body {
            Body::List(list) if looks_framed(list) => Err(MapError::UnknownFraming { start: Excerpt::of(list) }),
            _ => Ok(bare),
        }
    }

    /// The text from `start` to the first NUL behind it, or to the end of the buffer.
    fn up_to_nul(bytes: &'a [u8], start: usize, body: fn(&'a [u8]) -> Body<'a>) -> Self {
        let rest = bytes.get(start..).unwrap_or_default();
        match CStr::from_bytes_until_nul(rest) {
            Ok(text) => {
                let text = text.to_bytes();
                Self { body: body(text), length: start + text.len() + 1, is_terminated: true }
            }
            Err(_) => Self { body: body(rest), length: bytes.len(), is_terminated: false },
        }
    }

    /// Strips the outer brackets, which belong to the frame, and a `pmix` before them.
    fn without_brackets(mut self) -> Result<Self, MapError> {
        if let Body::Items(text) = &mut self.body {
            let unbalanced = MapError::Bracket { node: 0, text: Excerpt::of(*text) };
            let bracketed = text.strip_prefix(b"pmix").unwrap_or(text);
            let inner = bracketed.strip_prefix(b"[").and_then(|open| open.strip_suffix(b"]"));
            *text = inner.ok_or(unbalanced)?;
        }
        Ok(self)
    }
}

/// Start of the list: behind the identifier, and behind the standard's NUL.
fn list_start(bytes: &[u8], identifier: &[u8]) -> usize {
    match bytes.get(identifier.len()..) {
        Some([0, next, ..]) if *next != 0 => identifier.len() + 1,
        _ => identifier.len(),
    }
}

/// Whether a list without a known framing must not be read as plain names or ranks. Such a list has brackets, or begins
/// with an identifier and a colon.
fn looks_framed(list: &[u8]) -> bool {
    let identifier = list.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(byte)).count();
    let begins_with_letter = list.first().is_some_and(u8::is_ascii_alphabetic);
    let has_identifier = begins_with_letter && list.get(identifier) == Some(&b':');
    // Piece by piece, for vectorised comparisons.
    let has_bracket = |piece: &[u8]| piece.iter().fold(false, |found, byte| found | matches!(byte, b'[' | b']'));
    has_identifier || list.chunks(PIECE_BYTES).any(has_bracket)
}

fn as_text(bytes: &[u8]) -> Result<&str, MapError> {
    str::from_utf8(bytes).map_err(not_utf8)
}

fn not_utf8(error: std::str::Utf8Error) -> MapError {
    MapError::NotUtf8 { offset: widen(error.valid_up_to()) }
}

fn widen(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

const PIECE_BYTES: usize = 256;

const RAW: &[u8] = b"raw:";
const PMIX: &[u8] = b"pmix:";
const PMIX_BRACKET: &[u8] = b"pmix[";
