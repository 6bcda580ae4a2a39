/// How many bytes the map expression at the start of `bytes` takes, with its terminator; `None` if it has no end.
///
/// A deflated one says its size in its head, "blob:" NUL "component=zlib:" NUL "size=" number ":" NUL; all others end
/// with NUL.
pub(super) fn regex_length(bytes: &[u8]) -> Option<usize> {
    let Some(blob) = bytes.strip_prefix(BLOB) else {
        return bytes.iter().position(|&byte| byte == 0)?.checked_add(1);
    };
    let digits_and_rest = blob.strip_prefix(BLOB_SIZE)?;
    let digit_count = digits_and_rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = digits_and_rest.split_at_checked(digit_count)?;
    let payload = rest.strip_prefix(b":\0")?;
    let size: usize = std::str::from_utf8(digits).ok()?.parse().ok()?;
    let head = bytes.len().checked_sub(payload.len())?;
    (size <= payload.len()).then(|| head + size)
}

const BLOB: &[u8] = b"blob:\0";
const BLOB_SIZE: &[u8] = b"component=zlib:\0size=";
