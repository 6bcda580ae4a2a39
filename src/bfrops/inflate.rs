use std::io::{self, Read, Write};

use crate::regex::inflater;

/// Why compressed data cannot be unpacked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InflateError {
    /// The data is too short for a length.
    #[error("compressed data of {size_bytes} bytes has no length field")]
    NoLength {
        /// Size of the data.
        size_bytes: usize,
    },
    /// It would take more memory than allowed.
    #[error("compressed data unpacks to {declared} bytes, more than the limit of {limit}")]
    TooLarge {
        /// Size that the sender declares.
        declared: usize,
        /// The caller's limit.
        limit: usize,
    },
    /// A zstd frame, which OpenPMIx 7 writes if it is built with zstd.
    #[error(
        "compressed data is a zstd frame, which this library does not read; set PMIX_MCA_pcompress=zlib for the sender"
    )]
    Zstd,
    /// Not a zlib stream, or one of another length than declared.
    #[error("compressed data is damaged: {found} of {declared} declared bytes could be unpacked")]
    Damaged {
        /// Size that the sender declares.
        declared: usize,
        /// Bytes that could be unpacked (one more than declared stands for any number).
        found: usize,
    },
}

/// Unpacks the content of a compressed string or byte object: its length in the sender's byte order, then a zlib
/// stream. At most `size_bytes_max` bytes are produced. A string's terminating NUL is not part of the content.
///
/// # Errors
/// [`InflateError`]; nothing is unpacked beyond the declared length.
pub fn inflate(compressed: &[u8], size_bytes_max: usize) -> Result<Vec<u8>, InflateError> {
    let (mut stream, declared) = opened(compressed, size_bytes_max)?;
    let mut content = Vec::new();
    let outcome = stream.read_to_end(&mut content);
    if outcome.is_err() || content.len() != declared {
        return Err(InflateError::Damaged { declared, found: content.len() });
    }
    Ok(content)
}

/// Compressed data that is unpacked piece by piece, so that only the window is in memory.
#[derive(Debug)]
pub struct InflatedPieces<'a> {
    content: Bounded<'a>,
    /// Unpacked bytes that are still needed.
    window: Vec<u8>,
    declared: usize,
    found: usize,
}

impl<'a> InflatedPieces<'a> {
    /// Begins to unpack the same content as [`inflate`].
    ///
    /// # Errors
    /// [`InflateError::NoLength`], [`InflateError::TooLarge`].
    pub fn new(compressed: &'a [u8], size_bytes_max: usize) -> Result<Self, InflateError> {
        let (content, declared) = opened(compressed, size_bytes_max)?;
        Ok(Self { content, window: Vec::new(), declared, found: 0 })
    }

    /// Unpacked bytes that are still needed.
    #[must_use]
    pub fn window(&self) -> &[u8] {
        &self.window
    }

    /// Drops this many bytes of the window.
    pub fn forget(&mut self, bytes: usize) {
        self.window.drain(..bytes.min(self.window.len()));
    }

    /// Unpacks up to `bytes` more bytes behind the window; fewer only at the end. Returns their number.
    ///
    /// # Errors
    /// [`InflateError::Damaged`] if the length differs from the declared one.
    pub fn unpack_more(&mut self, bytes: usize) -> Result<usize, InflateError> {
        let ask = u64::try_from(bytes).unwrap_or(u64::MAX);
        let before = self.window.len();
        let outcome = self.content.by_ref().take(ask).read_to_end(&mut self.window);
        let count = self.window.len().saturating_sub(before);
        self.found = self.found.saturating_add(count);
        if outcome.is_err() || (count < bytes && self.found != self.declared) || self.found > self.declared {
            return Err(InflateError::Damaged { declared: self.declared, found: self.found });
        }
        Ok(count)
    }
}

/// A stream with a limited length.
type Bounded<'a> = io::Take<flate2::read::ZlibDecoder<&'a [u8]>>;

/// The stream behind a declared length within the limit. It is cut one byte behind that length, so that a longer stream
/// is noticed.
fn opened(compressed: &[u8], limit: usize) -> Result<(Bounded<'_>, usize), InflateError> {
    let no_length = InflateError::NoLength { size_bytes: compressed.len() };
    let (declared, stream) = declared_bytes(compressed).ok_or(no_length)?;
    if declared > limit {
        return Err(InflateError::TooLarge { declared, limit });
    }
    if stream.starts_with(&ZSTD_MAGIC) {
        return Err(InflateError::Zstd);
    }
    let ask = u64::try_from(declared).unwrap_or(u64::MAX).saturating_add(1);
    Ok((flate2::read::ZlibDecoder::new_with_decompress(stream, inflater()).take(ask), declared))
}

/// First bytes of a zstd frame. No zlib stream begins with these bytes.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// The form that [`inflate`] reads; `None` if it would not be smaller. The beginning decides whether compression is
/// tried. Content beyond the limit is not compressed, because it would cost a server too much time.
#[must_use]
#[expect(clippy::host_endian_bytes, reason = "the wire form is the sender's memory; peers share this node's order")]
pub fn deflate(content: &[u8]) -> Option<Vec<u8>> {
    let declared = u32::try_from(content.len()).ok().filter(|_| content.len() <= DEFLATED_BYTES_MAX)?;
    if let Some(beginning) = content.get(..TRIAL_BYTES).filter(|beginning| beginning.len() < content.len()) {
        deflate(beginning)?;
    }
    let mut encoder = flate2::write::ZlibEncoder::new(declared.to_ne_bytes().to_vec(), flate2::Compression::fast());
    encoder.write_all(content).ok()?;
    encoder.finish().ok().filter(|compressed| compressed.len() < content.len())
}

const TRIAL_BYTES: usize = 64 << 10;
const DEFLATED_BYTES_MAX: usize = 64 << 20;

/// The length that the sender of a compressed value declares, and the stream behind it.
#[must_use]
pub fn declared_bytes(compressed: &[u8]) -> Option<(usize, &[u8])> {
    let (length, stream) = compressed.split_first_chunk::<4>()?;
    #[expect(clippy::host_endian_bytes, reason = "the wire form is the sender's memory; peers share this node's order")]
    let declared = u32::from_ne_bytes(*length);
    Some((usize::try_from(declared).unwrap_or(usize::MAX), stream))
}

/// A client's compressed form of this content, with any declared length.
#[cfg(test)]
pub(crate) fn deflated(content: &[u8], declared: u32) -> Vec<u8> {
    use std::io::Write as _;

    #[expect(clippy::host_endian_bytes, reason = "the wire form is the sender's memory")]
    let mut encoder = flate2::write::ZlibEncoder::new(declared.to_ne_bytes().to_vec(), flate2::Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inflation_returns_the_deflated_bytes() {
        let text = vec![b'x'; 5000];
        assert_eq!(inflate(&deflated(&text, 5000), 5000), Ok(text));
    }

    #[test]
    fn pieces_make_the_whole_and_show_a_wrong_length() {
        let text: Vec<u8> = (0..5000_u32).flat_map(u32::to_le_bytes).collect();
        let compressed = deflated(&text, 20_000);
        let mut pieces = InflatedPieces::new(&compressed, 20_000).unwrap();
        assert_eq!((pieces.unpack_more(8_000), pieces.window()), (Ok(8_000), &text[..8_000]));
        pieces.forget(7_000);
        assert_eq!((pieces.unpack_more(20_000), pieces.window()), (Ok(12_000), &text[7_000..]));
        assert_eq!(pieces.unpack_more(1), Ok(0));
        for declared in [19_999, 20_001] {
            let compressed = deflated(&text, declared);
            let mut pieces = InflatedPieces::new(&compressed, 1 << 20).unwrap();
            assert!(matches!(pieces.unpack_more(1 << 20), Err(InflateError::Damaged { .. })), "{declared}");
        }
        assert!(matches!(InflatedPieces::new(&compressed, 19_999), Err(InflateError::TooLarge { .. })));
    }

    #[test]
    fn a_declared_length_beyond_the_limit_is_refused_before_unpacking() {
        let bomb = deflated(&[0; 100], u32::MAX);
        assert!(matches!(inflate(&bomb, 1 << 20), Err(InflateError::TooLarge { limit: 0x10_0000, .. })));
    }

    #[test]
    fn data_of_zstd_is_refused_by_its_name() {
        assert_eq!(inflate(b"\x05\0\0\0\x28\xb5\x2f\xfd rest", 100), Err(InflateError::Zstd));
    }

    #[test]
    fn a_stream_longer_or_shorter_than_declared_is_damaged() {
        let text = vec![b'x'; 5000];
        assert_eq!(inflate(&deflated(&text, 10), 1 << 20), Err(InflateError::Damaged { declared: 10, found: 11 }));
        assert_eq!(
            inflate(&deflated(&text, 6000), 1 << 20),
            Err(InflateError::Damaged { declared: 6000, found: 5000 })
        );
        assert_eq!(inflate(b"abc", 10), Err(InflateError::NoLength { size_bytes: 3 }));
        assert!(matches!(inflate(b"\x05\0\0\0nonsense", 100), Err(InflateError::Damaged { found: 0, .. })));
    }
}
