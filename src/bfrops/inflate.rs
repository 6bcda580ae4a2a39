use std::io::{Read, Write};

/// Why compressed data cannot be unpacked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InflateError {
    /// Not even a length.
    #[error("compressed data of {size_bytes} bytes has no length field")]
    NoLength {
        /// Size of the data.
        size_bytes: usize,
    },
    /// Would take more memory than allowed.
    #[error("compressed data unpacks to {declared} bytes, more than the limit of {limit}")]
    TooLarge {
        /// Size that the sender declares.
        declared: usize,
        /// The caller's limit.
        limit: usize,
    },
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
    let no_length = InflateError::NoLength { size_bytes: compressed.len() };
    let (declared, stream) = declared_bytes(compressed).ok_or(no_length)?;
    let limit = size_bytes_max;
    if declared > limit {
        return Err(InflateError::TooLarge { declared, limit });
    }
    // One byte more than declared is asked for, so that a longer stream is noticed.
    let ask = u64::try_from(declared).unwrap_or(u64::MAX).saturating_add(1);
    let mut content = Vec::new();
    let outcome = flate2::read::ZlibDecoder::new(stream).take(ask).read_to_end(&mut content);
    if outcome.is_err() || content.len() != declared {
        return Err(InflateError::Damaged { declared, found: content.len() });
    }
    Ok(content)
}

/// The form that [`inflate`] reads; `None` if that were not smaller. The beginning shows whether it is worth trying; what
/// is larger than a server should spend its time on is left as it is.
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

/// What a client makes of this, or of something of another length.
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
    fn what_was_deflated_comes_back() {
        let text = vec![b'x'; 5000];
        assert_eq!(inflate(&deflated(&text, 5000), 5000), Ok(text));
    }

    #[test]
    fn a_declared_length_beyond_the_limit_is_refused_before_unpacking() {
        let bomb = deflated(&[0; 100], u32::MAX);
        assert!(matches!(inflate(&bomb, 1 << 20), Err(InflateError::TooLarge { limit: 0x10_0000, .. })));
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
