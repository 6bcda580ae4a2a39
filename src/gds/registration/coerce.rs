//! The type of each key: conversion, acceptance and refusal of values, and values waiting for their record.

use std::borrow::Cow;

use crate::keys::{self, Misfit, ValueKind, convert, data_type};
use crate::regex;
use crate::types::{DataType, Key, Rank, Value};

use super::error::RegisterError;

/// A value on its way into the record. Small, because there is one for every value of every process.
#[derive(Clone, Debug)]
pub(super) enum RecordCell<'a> {
    /// A number of the type the key's [`ValueRule`] has.
    Number(u64),
    /// The host's value as given.
    Borrowed(&'a Value),
    /// A value that was converted or derived.
    Owned(Box<Value>),
}

/// Attributes that share one key, at most.
const KINDS_MAX: usize = 4;

/// The types that a key accepts.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueRule {
    /// Kinds of the attributes that share the key, the preferred one first.
    kinds: [Option<ValueKind>; KINDS_MAX],
    /// For keys that hold an unsigned number: its type.
    number_type: Option<DataType>,
    special: Special,
    /// Whether registration itself reads the value, and so needs a valid one.
    is_needed: bool,
}

/// Keys that registration itself reads: maps, the size, whether there is data, and the names and numbers that identify
/// the subject of values.
const NEEDED: [&str; 13] = [
    keys::NODE_MAP.name(),
    keys::PROC_MAP.name(),
    keys::NODE_MAP_RAW.name(),
    keys::PROC_MAP_RAW.name(),
    keys::JOB_SIZE.name(),
    keys::REGISTER_NODATA.name(),
    keys::RANK.name(),
    keys::PROCID.name(),
    keys::APPNUM.name(),
    keys::SESSION_ID.name(),
    keys::NODEID.name(),
    keys::HOSTNAME.name(),
    keys::HOSTNAME_ALIASES.name(),
];

/// Keys whose values have other forms than those in the table of attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    None,
    /// A node or process map: text or opaque bytes.
    Map,
    /// A list of ranks: text, or an array.
    Peers,
    /// A list of names or masks: text, or an array of strings, kept as given.
    StringList,
    /// The id of a device, or an array of devices, as PRRTE gives those of a process.
    Devices,
    /// The name of a node: not empty, and without a comma, which separates names in lists.
    Name,
    /// An array of elements of one type.
    ArrayOf(Elements),
}

impl ValueRule {
    /// The rule of a key; a key outside the standard accepts any type.
    pub(super) fn of(key: &str) -> Self {
        let mut kinds = [None; KINDS_MAX];
        for (kind, found) in kinds.iter_mut().zip(keys::rows_with_name(key).value_types()) {
            *kind = Some(found);
        }
        let number_type = match kinds {
            [Some(first), ref rest @ ..] if rest.iter().flatten().all(|kind| *kind == first) => number_type(first),
            _ => None,
        };
        Self { kinds, number_type, special: Special::of(key), is_needed: NEEDED.contains(&key) }
    }

    /// Converts a host's value to the type of the attribute if nothing is lost. Any other value stays unchanged,
    /// because OpenPMIx stores any type under any key, and hosts rely on that.
    ///
    /// A string of digits is not converted to a number: no OpenPMIx (4.2.2, 5.0.11) reads one as a number at
    /// registration. Under `PMIX_JOB_SIZE` it takes bytes of the pointer for the size; under other keys it stores the
    /// string as given.
    ///
    /// # Errors
    /// [`RegisterError`] for an unsuitable value of a key that registration itself reads.
    pub(super) fn check<'a>(&self, key: &str, value: &'a Value) -> Result<RecordCell<'a>, RegisterError> {
        match self.fit(key, value) {
            Err(_) if !self.is_needed => Ok(RecordCell::Borrowed(value)),
            checked => checked,
        }
    }

    /// The difference between the value's type and the attribute's, if any.
    pub(super) fn misfit(&self, key: &str, value: &Value) -> Option<RegisterError> {
        self.fit(key, value).err()
    }

    /// The value in the attribute's type.
    fn fit<'a>(&self, key: &str, value: &'a Value) -> Result<RecordCell<'a>, RegisterError> {
        // Fast path: nearly every value of a large job takes it.
        if let (Some(number_type), Some((data_type, number))) = (self.number_type, number_of(value))
            && data_type == number_type
        {
            return Ok(RecordCell::Number(number));
        }
        if let Some(cell) = self.special.accept(value) {
            return Ok(cell);
        }
        self.special.check_elements(key, value)?;
        if self.special == Special::Name {
            check_name(value).map_err(|error| error.about(key))?;
        }
        let mut refusal = None;
        for kind in self.kinds.into_iter().flatten() {
            match convert(kind, value) {
                Ok(Cow::Borrowed(value)) => return Ok(self.cell(value)),
                Ok(Cow::Owned(value)) => return Ok(self.owned_cell(value)),
                Err(misfit) => refusal = refusal.or(Some((misfit, kind))),
            }
        }
        match refusal {
            None => Ok(RecordCell::Borrowed(value)),
            Some((misfit, kind)) => Err(refused(misfit, key, kind)),
        }
    }

    /// The value of a cell of this key.
    pub(super) fn value(&self, cell: RecordCell<'_>) -> Value {
        match cell {
            RecordCell::Number(number) => number_value(self.number_type.unwrap_or(DataType::Uint64), number),
            RecordCell::Borrowed(value) => value.clone(),
            RecordCell::Owned(value) => *value,
        }
    }

    /// A cell for a value that needs no check.
    pub(super) fn owned_cell(&self, value: Value) -> RecordCell<'static> {
        match number_of(&value) {
            Some((data_type, number)) if Some(data_type) == self.number_type => RecordCell::Number(number),
            _ => RecordCell::Owned(Box::new(value)),
        }
    }

    /// The type of this key's numbers, if it has only numbers.
    pub(super) fn number_type(&self) -> Option<DataType> {
        self.number_type
    }

    fn cell<'a>(&self, value: &'a Value) -> RecordCell<'a> {
        match number_of(value) {
            Some((data_type, number)) if Some(data_type) == self.number_type => RecordCell::Number(number),
            _ => RecordCell::Borrowed(value),
        }
    }
}

impl RecordCell<'_> {
    /// Type and number of a cell that holds an unsigned number.
    pub(super) fn number(&self, rule: &ValueRule) -> Option<(DataType, u64)> {
        match self {
            Self::Number(number) => rule.number_type.map(|data_type| (data_type, *number)),
            Self::Borrowed(value) => number_of(value),
            Self::Owned(value) => number_of(value),
        }
    }

    /// Whether the value is this text.
    pub(super) fn is_text(&self, wanted: &str) -> bool {
        let is_text = |value: &Value| matches!(value, Value::String(text) if text.as_bytes() == wanted.as_bytes());
        match self {
            Self::Number(_) => false,
            Self::Borrowed(value) => is_text(value),
            Self::Owned(value) => is_text(value),
        }
    }

    /// Whether equal values are identical. Floating point numbers are not: zeros may differ in sign.
    pub(super) fn is_exact(&self) -> bool {
        let is_exact = |value: &Value| matches!(value, Value::Bool(_) | Value::String(_));
        match self {
            Self::Number(_) => true,
            Self::Borrowed(value) => is_exact(value),
            Self::Owned(value) => is_exact(value),
        }
    }

    /// The value as text.
    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Number(_) => None,
            Self::Borrowed(value) => value.as_str(),
            Self::Owned(value) => value.as_str(),
        }
    }
}

/// Two cells of the same key.
impl PartialEq for RecordCell<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a == b,
            (Self::Number(_), _) | (_, Self::Number(_)) => false,
            (Self::Borrowed(a), Self::Borrowed(b)) => a == b,
            (Self::Owned(a), Self::Owned(b)) => a == b,
            (Self::Borrowed(a), Self::Owned(b)) | (Self::Owned(b), Self::Borrowed(a)) => **a == **b,
        }
    }
}

/// Attributes that are arrays of one type in every release, with that type. The table of attributes lacks it.
const ARRAYS: [(&str, Elements); 4] = [
    (keys::LOCAL_PROCS.name(), Elements { of: DataType::Proc, said: "PMIX_DATA_ARRAY of PMIX_PROC" }),
    (keys::GROUP_NAMES.name(), Elements::STRINGS),
    (
        keys::DEVICE_DISTANCES.name(),
        Elements { of: DataType::DeviceDistance, said: "PMIX_DATA_ARRAY of PMIX_DEVICE_DIST" },
    ),
    (keys::FABRIC_ENDPT.name(), Elements { of: DataType::Endpoint, said: "PMIX_DATA_ARRAY of PMIX_ENDPOINT" }),
];

/// Type of the elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Elements {
    of: DataType,
    /// The type in the words of an error.
    said: &'static str,
}

impl Elements {
    const STRINGS: Self = Self { of: DataType::String, said: "PMIX_DATA_ARRAY of PMIX_STRING" };
}

impl Special {
    fn of(key: &str) -> Self {
        const MAPS: [&str; 4] =
            [keys::NODE_MAP.name(), keys::PROC_MAP.name(), keys::NODE_MAP_RAW.name(), keys::PROC_MAP_RAW.name()];
        const STRING_LISTS: [&str; 3] =
            [keys::LOCAL_CPUSETS.name(), keys::HOSTNAME_ALIASES.name(), keys::PSET_NAMES.name()];
        if MAPS.contains(&key) {
            Self::Map
        } else if key == keys::LOCAL_PEERS.name() {
            Self::Peers
        } else if STRING_LISTS.contains(&key) {
            Self::StringList
        } else if key == keys::DEVICE_ID.name() {
            Self::Devices
        } else if key == keys::HOSTNAME.name() {
            Self::Name
        } else {
            let known = ARRAYS.iter().find(|(name, _)| *name == key);
            known.map_or(Self::None, |(_, element)| Self::ArrayOf(*element))
        }
    }

    /// Refuses an array whose elements have another type than the key's.
    fn check_elements(self, key: &str, value: &Value) -> Result<(), RegisterError> {
        let wanted = match self {
            Self::StringList => Elements::STRINGS,
            Self::ArrayOf(wanted) => wanted,
            _ => return Ok(()),
        };
        let Value::DataArray(array) = value else { return Ok(()) };
        let mut found = array.elements.iter().map(|element| match array.element_type == wanted.of {
            true => element.data_type(),
            false => array.element_type,
        });
        match found.find(|found| *found != wanted.of) {
            None => Ok(()),
            Some(found) => Err(RegisterError::Type { key: key.to_owned(), expected: wanted.said, found: found.name() }),
        }
    }

    /// The legal forms besides the one in the table.
    fn accept<'a>(self, value: &'a Value) -> Option<RecordCell<'a>> {
        match (self, value) {
            (Self::Map, Value::Regex(_) | Value::ByteObject(_)) | (Self::StringList, Value::String(_)) => {
                Some(RecordCell::Borrowed(value))
            }
            // The form that readers of every release know.
            (Self::Map, Value::Regex2(map)) => {
                let encoding = map.encoding.as_ref().map(|encoding| encoding.as_bytes()).unwrap_or_default();
                regex::framed(encoding, &map.bytes).ok().map(|map| RecordCell::Owned(Box::new(Value::Regex(map))))
            }
            (Self::Devices, Value::DataArray(array)) => {
                (array.element_type == DataType::Device).then_some(RecordCell::Borrowed(value))
            }
            (Self::StringList, Value::DataArray(array)) => {
                (array.element_type == DataType::String).then_some(RecordCell::Borrowed(value))
            }
            (Self::Peers, Value::DataArray(array)) => {
                let ranks: Option<Vec<String>> =
                    array.elements.iter().map(|rank| rank.as_u32().map(|rank| rank.to_string())).collect();
                ranks.map(|ranks| RecordCell::Owned(Box::new(Value::from(ranks.join(",")))))
            }
            _ => None,
        }
    }
}

/// The key for the record: keys of the standard cost no memory.
pub(super) fn record_key(key: &Key) -> Key {
    match keys::by_name(key.as_str()) {
        Some(attribute) => Key::from_static(attribute.name),
        None => key.clone(),
    }
}

/// Type and number of a value that fits a column of numbers.
pub(super) fn number_of(value: &Value) -> Option<(DataType, u64)> {
    Some(match value {
        Value::Byte(v) => (DataType::Byte, (*v).into()),
        Value::Uint8(v) => (DataType::Uint8, (*v).into()),
        Value::Uint16(v) => (DataType::Uint16, (*v).into()),
        Value::Uint(v) => (DataType::Uint, (*v).into()),
        Value::Uint32(v) => (DataType::Uint32, (*v).into()),
        Value::Pid(v) => (DataType::Pid, (*v).into()),
        Value::Uint64(v) => (DataType::Uint64, *v),
        Value::Size(v) => (DataType::Size, *v),
        Value::ProcRank(rank) => (DataType::ProcRank, rank.to_raw().into()),
        _ => return None,
    })
}

/// Whether a column of numbers holds values of this type.
pub(in crate::gds) const fn is_of_numbers(data_type: DataType) -> bool {
    use DataType as T;
    matches!(
        data_type,
        T::Byte | T::Uint8 | T::Uint16 | T::Uint | T::Uint32 | T::Pid | T::Uint64 | T::Size | T::ProcRank
    )
}

/// The value of a number of one of the types of [`number_of`]. A number too large for its type saturates; no caller
/// passes one.
pub(super) fn number_value(data_type: DataType, number: u64) -> Value {
    let as_u32 = || u32::try_from(number).unwrap_or(u32::MAX);
    match data_type {
        DataType::Byte => Value::Byte(u8::try_from(number).unwrap_or(u8::MAX)),
        DataType::Uint8 => Value::Uint8(u8::try_from(number).unwrap_or(u8::MAX)),
        DataType::Uint16 => Value::Uint16(u16::try_from(number).unwrap_or(u16::MAX)),
        DataType::Uint => Value::Uint(as_u32()),
        DataType::Uint32 => Value::Uint32(as_u32()),
        DataType::Pid => Value::Pid(as_u32()),
        DataType::Size => Value::Size(number),
        DataType::ProcRank => Value::ProcRank(Rank::from_raw(as_u32()).unwrap_or(Rank::Invalid)),
        _ => Value::Uint64(number),
    }
}

/// Refuses a text that is not the name of one node.
fn check_name(value: &Value) -> Result<(), RegisterError> {
    match text_of(value) {
        Some(name) if name.contains(',') => Err(RegisterError::CommaInName { name }),
        Some(name) if name.is_empty() => Err(RegisterError::EmptyName),
        None if *value == Value::NullString => Err(RegisterError::EmptyName),
        _ => Ok(()),
    }
}

/// The text a value holds: a string, or a namespace.
pub(super) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.to_string_lossy()),
        Value::ProcNamespace(namespace) => Some(namespace.as_str().to_owned()),
        _ => None,
    }
}

fn refused(misfit: Misfit, key: &str, kind: ValueKind) -> RegisterError {
    let (key, expected) = (key.to_owned(), data_type(kind).map_or("any type", DataType::name));
    match misfit {
        Misfit::Type(found) => RegisterError::Type { key, expected, found: found.name() },
        Misfit::Range(number) => RegisterError::Range { key, number, expected },
    }
}

/// The type of an unsigned attribute.
fn number_type(kind: ValueKind) -> Option<DataType> {
    match kind {
        ValueKind::Uint16
        | ValueKind::Uint32
        | ValueKind::Uint64
        | ValueKind::Size
        | ValueKind::Pid
        | ValueKind::Rank => data_type(kind),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_has_room_for_every_attribute_of_a_key() {
        for attribute in keys::attributes() {
            assert!(keys::rows_with_name(attribute.name).len() <= KINDS_MAX, "{}", attribute.name);
        }
    }
}
