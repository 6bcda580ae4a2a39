use crate::bfrops;
use crate::types::{Value, footprint};

/// Bytes that a value takes at a reader that unpacks strings compressed by a client: as many as the string declares.
#[must_use]
pub fn unpacked_bytes(value: &Value) -> usize {
    let declared = match value {
        Value::CompressedString(bytes) => bfrops::declared_bytes(bytes).map_or(0, |(declared, _)| declared),
        _ => 0,
    };
    footprint(value).unwrap_or(usize::MAX).max(declared)
}
