//! Stored values as JSON.

use modex::gds::{Damage, ValueRef};
use modex::types::{Info, ProcId, Value};
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::record::record_to_json;

/// A value, or what may be told about it.
#[derive(Debug, Serialize)]
pub(super) struct ValueReport {
    /// The standard's name of its type.
    #[serde(rename = "type")]
    pub(super) data_type: &'static str,
    /// Bytes of a string, byte object or archive; `None` if it fits its cell or follows from a rule.
    pub(super) size_bytes: Option<u64>,
    /// The value, if it may be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<Json>,
}

impl ValueReport {
    /// Describes a value, and shows it if `is_shown`.
    pub(super) fn new(value: ValueRef<'_>, is_shown: bool) -> Result<Self, Damage> {
        let shown = if is_shown { Some(to_json(&value.to_value()?)) } else { None };
        Ok(Self { data_type: value.data_type().name(), size_bytes: value.payload_bytes(), value: shown })
    }
}

/// A value in the form closest to it that JSON has. Of a pointer only is said that it is one.
pub(crate) fn to_json(value: &Value) -> Json {
    match value {
        Value::Undefined | Value::NullString | Value::ProcCpuset(None) => Json::Null,
        Value::Bool(value) => json!(value),
        Value::Int8(v) => json!(v),
        Value::Int16(v) => json!(v),
        Value::Int(v) | Value::Int32(v) | Value::Status(v) => json!(v),
        Value::Int64(v) => json!(v),
        Value::Float(v) => json!(v),
        Value::Double(v) => json!(v),
        Value::String(text) | Value::ProcCpuset(Some(text)) => json!(text.to_string_lossy()),
        Value::ProcNamespace(namespace) => json!(namespace.as_str()),
        Value::ProcRank(rank) => rank.process().map_or_else(|| json!(rank.to_string()), |rank| json!(rank)),
        Value::Proc(proc) => proc_to_json(proc),
        Value::Info(info) => info_to_json(info),
        Value::Kval(entry) => json!({ "key": entry.key.as_str(), "value": to_json(&entry.value) }),
        Value::Value(value) => to_json(value),
        Value::DataArray(array) => array.elements.iter().map(to_json).collect(),
        Value::ByteObject(bytes)
        | Value::CompressedByteObject(bytes)
        | Value::CompressedString(bytes)
        | Value::DataBuffer(bytes) => json!(hexadecimal(bytes)),
        Value::Regex(bytes) => map_to_json(bytes),
        other => code(other)
            .map(|code| json!(code))
            .or_else(|| record_to_json(other))
            .unwrap_or_else(|| json!(format!("{other:?}"))),
    }
}

/// Unsigned numbers and the codes that are kept as numbers.
fn code(value: &Value) -> Option<u64> {
    match *value {
        Value::Persistence(v)
        | Value::Scope(v)
        | Value::DataRange(v)
        | Value::Command(v)
        | Value::ProcState(v)
        | Value::AllocDirective(v)
        | Value::JobState(v)
        | Value::LinkState(v)
        | Value::ResblockDirective(v) => Some(v.into()),
        Value::DataType(v) | Value::IofChannel(v) | Value::LocalityType(v) | Value::StorageAccessType(v) => {
            Some(v.into())
        }
        Value::InfoDirectives(v) => Some(v.into()),
        Value::DeviceType(v) | Value::StorageMedium(v) | Value::StorageAccess(v) | Value::StoragePersistence(v) => {
            Some(v)
        }
        ref other => other.as_u64(),
    }
}

pub(super) fn proc_to_json(proc: &ProcId) -> Json {
    json!({ "namespace": proc.namespace.as_str(), "rank": to_json(&Value::ProcRank(proc.rank)) })
}

pub(super) fn info_to_json(info: &Info) -> Json {
    json!({ "key": info.key.as_str(), "type": info.value.data_type().name(), "value": to_json(&info.value) })
}

/// A node or process map: as text, with digits only if it is compressed. Maps in text hold more than such digits.
fn map_to_json(bytes: &[u8]) -> Json {
    let text = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    match std::str::from_utf8(text) {
        Ok(text) if !text.contains(char::is_control) => json!(text),
        _ => json!(hexadecimal(bytes)),
    }
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len().saturating_mul(2)), |mut text, byte| {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use modex::types::{DataArray, DataType, Key, LocalAddress, Namespace, Rank};

    use super::*;

    #[test]
    fn values_become_the_json_closest_to_them() {
        let proc = ProcId::new(Namespace::new("job").unwrap(), Rank::Wildcard);
        let array = DataArray { element_type: DataType::Uint8, elements: vec![Value::Uint8(1), Value::Uint8(2)] };
        for (value, expected) in [
            (Value::Undefined, json!(null)),
            (Value::Bool(true), json!(true)),
            (Value::Int64(-5), json!(-5)),
            (Value::Uint64(u64::MAX), json!(u64::MAX)),
            (Value::from("text"), json!("text")),
            (Value::ByteObject(vec![0, 0xAB]), json!("00ab")),
            (Value::ProcRank(Rank::Process(3)), json!(3)),
            (Value::from(proc), json!({ "namespace": "job", "rank": "*" })),
            (Value::DataArray(Box::new(array)), json!([1, 2])),
            (Value::JobState(4), json!(4)),
            (Value::Regex(b"raw:n0,n1\0".to_vec()), json!("raw:n0,n1")),
            (Value::Regex(b"b\0\xff".to_vec()), json!("6200ff")),
            (
                Value::info_array(vec![Info::new(Key::from_static("k"), 7_u32)]),
                json!([{ "key": "k", "type": "PMIX_UINT32", "value": 7 }]),
            ),
        ] {
            assert_eq!(to_json(&value), expected, "{value:?}");
        }
    }

    #[test]
    fn a_type_without_counterpart_is_spelled_out() {
        assert_eq!(to_json(&Value::Pointer(LocalAddress::new(0x1234))), json!("Pointer(_)"));
    }
}
