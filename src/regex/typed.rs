//! Lists with the name of their encoding beside the bytes: `pmix_regex2_t` of OpenPMIx 6.1.
//!
//! | encoding | bytes |
//! |---|---|
//! | `raw` | the list and its NUL |
//! | `compress` | the payload of a `blob:` map |
//! | `pmix` | `pmix[...]` and its NUL, in OpenPMIx 6.1 |
//!
//! A list may be one of nodes or of ranks: its content is not looked at.

use super::blob;
use super::error::{Excerpt, MapError};
use super::framing::{MapText, unframe};
use super::generate::{BLOB_TEXT_BYTES_MIN, RAW_IDENTIFIER};
use super::limits::MapLimits;

/// A list in one of the encodings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedList {
    /// Name of the encoding.
    pub encoding: &'static str,
    /// The encoded list.
    pub bytes: Vec<u8>,
}

impl TypedList {
    /// Encodes a list: as it is, or compressed if it is long and that makes it shorter.
    #[must_use]
    pub fn of(list: &str) -> Self {
        if list.len() >= BLOB_TEXT_BYTES_MIN
            && let Some(payload) = blob::payload(list).filter(|payload| payload.len() <= list.len())
        {
            return Self { encoding: COMPRESS, bytes: payload };
        }
        Self { encoding: RAW, bytes: [list.as_bytes(), b"\0"].concat() }
    }
}

/// The same list in the form of [`super::generate_nodes`], with an identifier in front.
///
/// # Errors
/// [`MapError::UnknownFraming`] for another encoding, and [`MapError::Unterminated`] for a list without its NUL.
pub fn framed(encoding: &[u8], bytes: &[u8]) -> Result<Vec<u8>, MapError> {
    if encoding == COMPRESS.as_bytes() {
        return Ok(blob::whole(bytes));
    }
    let unterminated = MapError::Unterminated { available: u64::try_from(bytes.len()).unwrap_or(u64::MAX) };
    let list = bytes.strip_suffix(b"\0").ok_or(unterminated)?;
    match encoding {
        b"raw" => Ok([RAW_IDENTIFIER.as_bytes(), list, b"\0"].concat()),
        b"pmix" => Ok(bytes.to_vec()),
        _ => Err(MapError::UnknownFraming { start: Excerpt::of(encoding) }),
    }
}

/// The list inside. A list of `pmix[...]` must be one of nodes.
///
/// # Errors
/// As [`framed`], and for a damaged list.
pub fn list_of(encoding: &[u8], bytes: &[u8], limits: &MapLimits) -> Result<String, MapError> {
    let map = framed(encoding, bytes)?;
    match unframe(&map, limits)? {
        MapText::List(list) => Ok(list.into_owned()),
        MapText::Items(_) => Ok(super::expand_nodes(&map, limits)?.as_text().to_owned()),
    }
}

const RAW: &str = "raw";
const COMPRESS: &str = "compress";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_comes_back_from_its_encoding() {
        let long: Vec<String> = (0..3000).map(|number| format!("node{number:05}")).collect();
        for (list, encoding) in
            [("n1,n2,other", "raw"), ("0,1;2;;3", "raw"), ("", "raw"), (&long.join(","), "compress")]
        {
            let typed = TypedList::of(list);
            assert_eq!(typed.encoding, encoding);
            let back = list_of(typed.encoding.as_bytes(), &typed.bytes, &MapLimits::default());
            assert_eq!(back.as_deref(), Ok(list));
        }
        assert_eq!(TypedList::of("a,b").bytes, b"a,b\0");
        assert_eq!(list_of(b"pmix", b"pmix[n[1:1-3]]\0", &MapLimits::default()).as_deref(), Ok("n1,n2,n3"));
    }

    #[test]
    fn an_unknown_encoding_and_damaged_lists_are_refused() {
        let read = |encoding: &[u8], bytes: &[u8]| list_of(encoding, bytes, &MapLimits::default());
        assert!(matches!(read(b"zip", b"a\0"), Err(MapError::UnknownFraming { .. })));
        for bytes in [&b"a,b"[..], b""] {
            assert!(matches!(read(b"raw", bytes), Err(MapError::Unterminated { .. })));
        }
        assert!(matches!(read(b"compress", b""), Err(MapError::Truncated { .. })));
        assert!(matches!(read(b"compress", b"\x05\0\0\0text"), Err(MapError::DamagedStream)));
        let zstd = [&[5, 0, 0, 0][..], &[0x28, 0xB5, 0x2F, 0xFD], b"rest"].concat();
        assert!(matches!(read(b"compress", &zstd), Err(MapError::Zstd)));
    }
}
