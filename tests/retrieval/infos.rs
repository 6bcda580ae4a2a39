//! Questions, and the parts of infos.

use std::collections::BTreeMap;

use modex::types::{Info, Key, Rank, Scope, Value};

/// A question in its parts.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// `None`: a NULL process.
    pub(crate) proc: Option<(String, Rank)>,
    /// `-`: a NULL key.
    pub(crate) key: String,
    pub(crate) qualifiers: Vec<Info>,
}

/// Whether a list of words has this one.
pub(crate) fn is_in(keys: &str, key: &str) -> bool {
    keys.split_whitespace().any(|other| other == key)
}

/// The infos in an array.
pub(crate) fn entries(value: &Value) -> Vec<&Info> {
    let Value::DataArray(array) = value else { return Vec::new() };
    array.elements.iter().filter_map(|one| if let Value::Info(info) = one { Some(&**info) } else { None }).collect()
}

/// The value of a key; the last one counts.
pub(crate) fn find<'a>(infos: &[&'a Info], key: &str) -> Option<&'a Value> {
    infos.iter().rev().find(|info| info.key.as_str() == key).map(|info| &info.value)
}

pub(crate) fn number(value: Option<&Value>) -> Option<u32> {
    value.and_then(Value::as_u32)
}

pub(crate) fn text(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).map(str::to_owned)
}

/// The scope that qualifiers name.
pub(crate) fn scope(qualifiers: &[Info]) -> Option<Scope> {
    qualifiers.iter().find_map(|info| if let Value::Scope(scope) = info.value { Scope::from_raw(scope) } else { None })
}

/// An array of infos, by key.
pub(crate) fn array(entries: BTreeMap<&str, Value>) -> Value {
    let info = |(key, value): (&str, Value)| Info::new(Key::new(key.to_owned()).unwrap(), value);
    Value::info_array(entries.into_iter().map(info).collect())
}
