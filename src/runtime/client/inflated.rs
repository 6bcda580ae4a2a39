//! Compressed strings in their original form: OpenPMIx clients with zlib compress long strings.

use super::fetched::{FetchError, Fetched};
use crate::runtime::shared::plain::unpacked;
use crate::types::{DataType, Value};

/// The value as its owner put it. Servers and segments keep compressed strings as they are.
///
/// # Errors
/// [`FetchError::Damaged`] if the bytes are no compressed string, or would take too much memory.
#[inline]
pub(super) fn inflated(found: Fetched<'_>) -> Result<Fetched<'_>, FetchError> {
    match found.data_type() {
        DataType::CompressedString => unpack(found.into_value().map_err(|_| FetchError::Damaged)?).map(Fetched::owned),
        _ => Ok(found),
    }
}

/// As [`inflated`], for all values of a process: an array of infos. A damaged one stays as it is.
pub(super) fn inflated_entries(everything: Value) -> Value {
    let Value::DataArray(mut array) = everything else { return everything };
    for element in &mut array.elements {
        if let Value::Info(info) = element
            && let Value::CompressedString(_) = info.value
            && let Ok(value) = unpack(info.value.clone())
        {
            info.value = value;
        }
    }
    Value::DataArray(array)
}

fn unpack(value: Value) -> Result<Value, FetchError> {
    let Value::CompressedString(bytes) = value else { return Ok(value) };
    match unpacked(&bytes, STRING_BYTES_MAX) {
        Ok(text) => Ok(Value::String(text)),
        Err(error) => {
            tracing::warn!(%error, "a value that another process compressed can't be read");
            Err(FetchError::Damaged)
        }
    }
}

/// Longest string after unpacking, in bytes: four times the largest value that our own clients put.
const STRING_BYTES_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bfrops::deflated;
    use crate::types::{Info, Key};

    fn compressed(text: &[u8], declared: u32) -> Value {
        Value::CompressedString(deflated(text, declared))
    }

    #[test]
    fn a_compressed_string_is_found_as_the_string_that_was_put() {
        let text = "x".repeat(5000);
        let found = inflated(Fetched::owned(compressed(text.as_bytes(), 5000))).unwrap();
        assert_eq!(found.into_value(), Ok(Value::from(text.as_str())));
        let all = Value::info_array(vec![Info::new(Key::from_static("k"), compressed(text.as_bytes(), 5000))]);
        let expected = Value::info_array(vec![Info::new(Key::from_static("k"), text.as_str())]);
        assert_eq!(inflated_entries(all), expected);
    }

    #[test]
    fn a_value_that_inflates_without_end_or_wrongly_is_damaged() {
        let bomb = compressed(&vec![0; 1 << 20], u32::MAX);
        assert!(matches!(inflated(Fetched::owned(bomb)), Err(FetchError::Damaged)));
        assert!(matches!(inflated(Fetched::owned(compressed(b"abc", 2))), Err(FetchError::Damaged)));
    }
}
