//! Memory size of values, for limits.

use super::deep::{BARE_NESTING_MAX, NESTING_MAX, descend};
use super::{DataArray, Info, Namespace, ProcId, ProcInfo, Rank, Text, Value};

/// Size of the value in bytes: its data plus the fixed part of each value inside. `None` if it is nested deeper than
/// any peer would decode.
#[must_use]
pub fn footprint(value: &Value) -> Option<usize> {
    measure(value, Bounds { left: DEPTH_MAX, bare_left: BARE_NESTING_MAX, elements_max: usize::MAX })
}

/// As [`footprint`], and `None` if the value is larger than this. The elements of an array with too many are not
/// visited.
pub(crate) fn footprint_up_to(value: &Value, bytes_max: usize) -> Option<usize> {
    let elements_max = bytes_max / size_of::<Value>();
    let bytes = measure(value, Bounds { left: DEPTH_MAX, bare_left: BARE_NESTING_MAX, elements_max })?;
    (bytes <= bytes_max).then_some(bytes)
}

/// Subtracts the size of a value from `left`. Returns whether nothing is left. The elements of an array are visited one
/// by one only until then, so that a large array is not walked through.
pub(crate) fn exceeds(value: &Value, left: &mut usize) -> bool {
    let size = match value {
        Value::DataArray(array) => {
            if array.elements.iter().any(|element| exceeds(element, left)) {
                return true;
            }
            size_of::<Value>()
        }
        value => footprint(value).unwrap_or(usize::MAX),
    };
    *left = left.saturating_sub(size);
    *left == 0
}

/// Subtracts the number of a value's parts from `left`: itself, the elements of arrays, the values inside. Returns
/// whether it has more. Visits no more parts then.
pub(crate) fn has_more_parts(value: &Value, left: &mut usize) -> bool {
    let count = match value {
        Value::App(app) => app.argv.len().saturating_add(app.environment.len()).saturating_add(app.info.len()),
        Value::Query(query) => query.keys.len().saturating_add(query.qualifiers.len()),
        _ => 1,
    };
    let Some(rest) = left.checked_sub(count.max(1)) else { return true };
    *left = rest;
    descend(|| match value {
        Value::DataArray(array) => array.elements.iter().any(|element| has_more_parts(element, left)),
        Value::Value(inner) => has_more_parts(inner, left),
        Value::Info(info) => has_more_parts(&info.value, left),
        Value::Kval(kval) => has_more_parts(&kval.value, left),
        Value::Pdata(pdata) => has_more_parts(&pdata.value, left),
        Value::App(app) => app.info.iter().any(|info| has_more_parts(&info.value, left)),
        Value::Query(query) => query.qualifiers.iter().any(|info| has_more_parts(&info.value, left)),
        _ => false,
    })
}

/// The [`footprint`] of data about a process ([`ProcInfo`]) with these texts.
pub(crate) fn process_footprint(hostname: Option<&Text>, executable: Option<&Text>) -> usize {
    let texts = optional(hostname).saturating_add(optional(executable));
    texts.saturating_add(size_of::<ProcInfo>()).saturating_add(size_of::<Value>())
}

/// Deepest nesting measured; no real value is deeper.
const DEPTH_MAX: u32 = NESTING_MAX;

/// Remaining depth, and the length of arrays.
#[derive(Clone, Copy)]
struct Bounds {
    left: u32,
    /// Remaining levels without an array between them.
    bare_left: u32,
    /// The most elements of one array.
    elements_max: usize,
}

impl Bounds {
    fn below(self, value: &Value) -> Option<Self> {
        let bare_left = match value {
            Value::DataArray(_) => BARE_NESTING_MAX,
            _ => self.bare_left.checked_sub(1)?,
        };
        Some(Self { left: self.left.checked_sub(1)?, bare_left, ..self })
    }
}

fn measure(value: &Value, bounds: Bounds) -> Option<usize> {
    let bounds = bounds.below(value)?;
    let held = match value {
        Value::String(text) => text_size(text),
        Value::ByteObject(bytes)
        | Value::CompressedString(bytes)
        | Value::CompressedByteObject(bytes)
        | Value::Regex(bytes)
        | Value::DataBuffer(bytes) => bytes.len(),
        Value::Buffer(buffer) => buffer.bytes.len(),
        Value::ProcCpuset(cpuset) => optional(cpuset.as_ref()),
        Value::Topology(topology) => optional(topology.xml.as_ref()).saturating_add(topology.support.len()),
        Value::Endpoint(endpoint) => endpoint.bytes.len(),
        Value::Regex2(regex) => regex.bytes.len(),
        Value::Envar(envar) => optional(envar.name.as_ref()).saturating_add(optional(envar.value.as_ref())),
        Value::Value(inner) => descend(|| measure(inner, bounds))?,
        Value::Info(info) => info_size(info, bounds)?,
        Value::Pdata(pdata) => pdata.key.as_str().len().saturating_add(measure(&pdata.value, bounds)?),
        Value::Kval(kval) => kval.key.as_str().len().saturating_add(measure(&kval.value, bounds)?),
        Value::DataArray(array) => descend(|| array_size(array, bounds))?,
        Value::App(app) => {
            let texts = app.argv.iter().chain(&app.environment).map(text_size);
            texts.fold(infos_size(&app.info, bounds)?, usize::saturating_add)
        }
        Value::Query(query) => {
            query.keys.iter().map(text_size).fold(infos_size(&query.qualifiers, bounds)?, usize::saturating_add)
        }
        Value::ProcInfo(info) => return Some(process_footprint(info.hostname.as_ref(), info.executable.as_ref())),
        // All other types have a fixed size, or hold a few names.
        _ => 0,
    };
    Some(held.saturating_add(size_of::<Value>()))
}

fn array_size(array: &DataArray, bounds: Bounds) -> Option<usize> {
    if array.elements.len() > bounds.elements_max {
        return None;
    }
    array.elements.iter().try_fold(0, |sum: usize, element| Some(sum.saturating_add(measure(element, bounds)?)))
}

fn infos_size(infos: &[Info], bounds: Bounds) -> Option<usize> {
    infos.iter().try_fold(0, |sum: usize, info| Some(sum.saturating_add(info_size(info, bounds)?)))
}

fn info_size(info: &Info, bounds: Bounds) -> Option<usize> {
    Some(info.key.as_str().len().saturating_add(measure(&info.value, bounds)?))
}

fn text_size(text: &Text) -> usize {
    text.as_bytes().len().saturating_add(size_of::<Text>())
}

fn optional(text: Option<&Text>) -> usize {
    text.map_or(0, text_size)
}

/// A conversion to a value, with the size known before any copy.
pub trait IntoValue: Into<Value> {
    /// A lower bound of the bytes beside the fixed part of a value; 0 for types that are always small.
    fn held_bytes(&self) -> usize {
        0
    }
}

macro_rules! held_bytes {
    ($($type:ty => $size:expr),* $(,)?) => {
        $(impl IntoValue for $type {
            fn held_bytes(&self) -> usize {
                $size(self)
            }
        })*
    };
}

held_bytes! {
    &str => |text: &&str| text.len(), String => String::len, Vec<u8> => Vec::len,
    Text => |text: &Text| text.as_bytes().len(), Value => |value| footprint(value).unwrap_or_default(),
}

macro_rules! small {
    ($($type:ty),* $(,)?) => {
        $(impl IntoValue for $type {})*
    };
}

small!(bool, u8, u16, u32, u64, i8, i16, i32, i64, f32, f64, Rank, ProcId, Box<ProcId>, Namespace);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{App, DataType, Key};

    #[test]
    fn bytes_count_with_what_surrounds_them() {
        let flat = footprint(&Value::ByteObject(vec![0; 100])).unwrap();
        assert_eq!(flat, 100 + size_of::<Value>());
        let nested = Value::info_array(vec![Info::new(Key::from_static("k"), vec![0u8; 100])]);
        assert!(footprint(&nested).unwrap() > flat);
    }

    /// The rule: empty arrays and the infos of programs count, so that no form hides elements.
    #[test]
    fn every_part_of_a_value_counts() {
        let array = |elements: Vec<Value>| {
            Value::DataArray(Box::new(DataArray { element_type: DataType::DataArray, elements }))
        };
        let empty = array(vec![array(Vec::new()); 9]);
        let info = Info::new(Key::from_static("k"), empty.clone());
        let app = App {
            command: None,
            argv: Vec::new(),
            environment: Vec::new(),
            working_directory: None,
            processes_max: 1,
            info: vec![info.clone()],
        };
        for (value, parts) in
            [(Value::Bool(true), 1), (empty, 10), (Value::Info(Box::new(info)), 11), (Value::App(Box::new(app)), 11)]
        {
            let mut left = parts;
            assert!(!has_more_parts(&value, &mut left) && left == 0, "{value:?}");
            assert!(has_more_parts(&value, &mut (parts - 1)), "{value:?}");
        }
    }

    #[test]
    fn a_value_beyond_a_bound_has_no_size_there() {
        let array = |elements| Value::DataArray(Box::new(DataArray { element_type: DataType::Bool, elements }));
        let value = array(vec![Value::Bool(true); 9]);
        let bytes = footprint(&value).unwrap();
        assert_eq!(footprint_up_to(&value, bytes), Some(bytes));
        assert_eq!(footprint_up_to(&value, bytes - 1), None);
        assert_eq!(footprint_up_to(&array(vec![value; 9]), 8 * size_of::<Value>()), None);
    }

    #[test]
    fn a_bottomless_value_has_no_size() {
        let nested = |bounds| (0..bounds).fold(Value::Bool(true), |inner, _| Value::Value(Box::new(inner)));
        assert_eq!(footprint(&nested(BARE_NESTING_MAX)), None);
        assert!(footprint(&nested(BARE_NESTING_MAX - 1)).is_some());
    }
}
