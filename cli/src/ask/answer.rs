//! The printed answer.

use modex::stderr_log::printable;
use modex::types::{Info, Value};
use serde_json::{Value as Json, json};

use crate::inspect::to_json;

/// Version of the JSON documents.
pub(super) const FORMAT: u32 = 1;

/// A value for people: text as it is, a composite value as JSON.
pub(super) fn text_of(value: &Value) -> String {
    match (value, to_json(value)) {
        // JSON has no such numbers.
        (Value::Float(number), Json::Null) => number.to_string(),
        (Value::Double(number), Json::Null) => number.to_string(),
        (_, Json::String(text)) => printable(&text),
        (_, other) => printable(&other.to_string()),
    }
}

/// A named value for programs.
pub(super) fn json_of(info: &Info) -> Json {
    json!({ "key": info.key.as_str(), "type": info.value.data_type().name(), "value": to_json(&info.value) })
}

/// One line for each named value.
pub(super) fn lines(infos: &[Info]) -> String {
    infos.iter().map(|info| format!("{}: {}\n", printable(info.key.as_str()), text_of(&info.value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: such numbers were printed as "null".
    #[test]
    fn numbers_that_json_does_not_have_are_shown_by_name() {
        assert_eq!(text_of(&Value::Double(f64::NAN)), "NaN");
        assert_eq!(text_of(&Value::Float(f32::NEG_INFINITY)), "-inf");
        assert_eq!(text_of(&Value::Double(1.5)), "1.5");
        assert_eq!(text_of(&Value::Undefined), "null");
    }
}
