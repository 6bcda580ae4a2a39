//! Values in the types of attributes: a conversion that loses nothing, and the directives that a reader can't honour.

use std::borrow::Cow;

use super::{MONITOR_FILE_ACCESS, MONITOR_FILE_MODIFY, ValueKind, WAIT, rows_with_name};
use crate::types::{DataType, Info, InfoFlags, Key, Rank, Text, Value};

/// The key of the first required entry that a reader of the `understood` keys does not honour: it does not know the
/// key, or it can't read the value.
///
/// A host checks the directives of a request so, before it does what was asked for.
///
/// ```
/// use modex::keys::{self, TIMEOUT};
/// use modex::types::{Info, InfoFlags, Key};
///
/// let required = |value| vec![Info { flags: InfoFlags::REQUIRED.bits(), ..Info::new(Key::from_static(TIMEOUT.name()), value) }];
/// assert_eq!(keys::first_unmet(&required(5_u32), &[TIMEOUT.name()]), None);
/// assert_eq!(keys::first_unmet(&required(5_u32), &[]).map(Key::as_str), Some("pmix.timeout"));
/// ```
///
/// Source: PMIx Standard, "Data Structures and Types" (`pmix_info_directives_t`).
#[must_use]
pub fn first_unmet<'a>(directives: &'a [Info], understood: &[&str]) -> Option<&'a Key> {
    directives.iter().find(|info| is_unmet(info, |key| understood.contains(&key))).map(|info| &info.key)
}

/// Whether an entry is required, and a reader of certain keys does not honour it: as [`first_unmet`] for one entry.
///
/// ```
/// use modex::keys::{self, TIMEOUT};
/// use modex::types::{Info, InfoFlags, Key};
///
/// let required = Info { flags: InfoFlags::REQUIRED.bits(), ..Info::new(Key::from_static(TIMEOUT.name()), "soon") };
/// assert!(keys::is_unmet(&required, |key| key == TIMEOUT.name()), "a time limit is a number");
/// ```
#[must_use]
pub fn is_unmet(info: &Info, is_understood: impl Fn(&str) -> bool) -> bool {
    info.flags().contains(InfoFlags::REQUIRED) && !(is_understood(info.key.as_str()) && is_readable(info))
}

/// Whether readers take the value for its key. They read numbers of any width, one process or a list of processes, and
/// flags alone for flags. A key of no attribute takes any value.
fn is_readable(info: &Info) -> bool {
    let (key, value) = (info.key.as_str(), &info.value);
    let is_flag = value.as_bool().is_some();
    let is_exact = |kind| data_type(kind).is_none_or(|wanted| wanted == value.data_type());
    let is_number = |kind| value.as_u64().is_some() && convert(kind, value).is_ok();
    let fits = |kind| match kind {
        ValueKind::Bool => is_flag,
        ValueKind::String => is_exact(kind) || matches!(value, Value::ProcNamespace(_)),
        ValueKind::Proc | ValueKind::Array => matches!(value, Value::Proc(_) | Value::DataArray(_)),
        // Programs use different types for the codes of ranges.
        ValueKind::Rank | ValueKind::Range | ValueKind::Persistence | ValueKind::Time => {
            is_exact(kind) || is_number(kind)
        }
        ValueKind::Int
        | ValueKind::Int32
        | ValueKind::Uint16
        | ValueKind::Uint32
        | ValueKind::Uint64
        | ValueKind::Size
        | ValueKind::Pid => is_number(kind),
        kind => is_exact(kind),
    };
    let mut rows = rows_with_name(key).peekable();
    ALSO_FLAGS.contains(&key) && is_flag || rows.peek().is_none() || rows.any(|row| fits(row.value_type))
}

/// Keys for which programs give a flag where the standard has a number or a text.
const ALSO_FLAGS: [&str; 3] = [WAIT.name(), MONITOR_FILE_ACCESS.name(), MONITOR_FILE_MODIFY.name()];

/// Why a value does not fit an attribute.
pub(crate) enum Misfit {
    /// The value has this type, which does not convert.
    Type(DataType),
    /// The number is outside the attribute's type.
    Range(i128),
}

/// The value in the type of an attribute of this kind.
pub(crate) fn convert(kind: ValueKind, value: &Value) -> Result<Cow<'_, Value>, Misfit> {
    let Some(wanted) = data_type(kind) else { return Ok(Cow::Borrowed(value)) };
    if value.data_type() == wanted {
        return Ok(Cow::Borrowed(value));
    }
    let unsuitable = || Misfit::Type(value.data_type());
    match (wanted, value) {
        (DataType::Bool, Value::Undefined) => Ok(Cow::Owned(Value::flag())),
        (DataType::Bool, value) => match integer(value) {
            Some(number @ (0 | 1)) => Ok(Cow::Owned(Value::Bool(number == 1))),
            Some(number) => Err(Misfit::Range(number)),
            None => Err(unsuitable()),
        },
        (DataType::String, Value::ProcNamespace(namespace)) => {
            Ok(Cow::Owned(Value::String(Text::from(namespace.as_str()))))
        }
        // Opaque to modex and legal on the wire; readers of the key accept both forms.
        (DataType::String, Value::CompressedString(_))
        | (DataType::ByteObject, Value::CompressedByteObject(_))
        | (DataType::Float, Value::Double(_))
        | (DataType::Double, Value::Float(_)) => Ok(Cow::Borrowed(value)),
        _ => {
            let number = integer(value).ok_or_else(unsuitable)?;
            integer_value(wanted, number).ok_or_else(unsuitable)?.map(Cow::Owned).ok_or(Misfit::Range(number))
        }
    }
}

/// The number in a value of any integer type.
fn integer(value: &Value) -> Option<i128> {
    match *value {
        Value::Int(v) | Value::Int32(v) => Some(v.into()),
        Value::Int8(v) => Some(v.into()),
        Value::Int16(v) => Some(v.into()),
        Value::Int64(v) => Some(v.into()),
        Value::ProcRank(rank) => rank.process().map(i128::from),
        _ => value.as_u64().map(i128::from),
    }
}

/// An integer as a value of another type: outer `None` if that type is not an integer, inner if it does not fit.
fn integer_value(wanted: DataType, number: i128) -> Option<Option<Value>> {
    let value = match wanted {
        DataType::Int => i32::try_from(number).ok().map(Value::Int),
        DataType::Int32 => i32::try_from(number).ok().map(Value::Int32),
        DataType::Status => i32::try_from(number).ok().map(Value::Status),
        DataType::Uint16 => u16::try_from(number).ok().map(Value::Uint16),
        DataType::Uint32 => u32::try_from(number).ok().map(Value::Uint32),
        DataType::Pid => u32::try_from(number).ok().map(Value::Pid),
        DataType::Uint64 => u64::try_from(number).ok().map(Value::Uint64),
        DataType::Size => u64::try_from(number).ok().map(Value::Size),
        DataType::Time => u64::try_from(number).ok().map(Value::Time),
        DataType::ProcRank => u32::try_from(number).ok().and_then(|raw| Rank::from_raw(raw).ok()).map(Value::ProcRank),
        DataType::Scope => u8::try_from(number).ok().map(Value::Scope),
        DataType::DataRange => u8::try_from(number).ok().map(Value::DataRange),
        DataType::Persistence => u8::try_from(number).ok().map(Value::Persistence),
        DataType::ProcState => u8::try_from(number).ok().map(Value::ProcState),
        DataType::LinkState => u8::try_from(number).ok().map(Value::LinkState),
        DataType::DeviceType => u64::try_from(number).ok().map(Value::DeviceType),
        DataType::StorageMedium => u64::try_from(number).ok().map(Value::StorageMedium),
        DataType::StorageAccess => u64::try_from(number).ok().map(Value::StorageAccess),
        DataType::StoragePersistence => u64::try_from(number).ok().map(Value::StoragePersistence),
        DataType::StorageAccessType => u16::try_from(number).ok().map(Value::StorageAccessType),
        _ => return None,
    };
    Some(value)
}

/// The data type of an attribute; `None` if any is legal.
pub(crate) fn data_type(kind: ValueKind) -> Option<DataType> {
    match kind {
        ValueKind::Pointer | ValueKind::EnvironmentVariable => None,
        kind => Some(kind.data_type()).filter(|data_type| *data_type != DataType::Undefined),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;

    #[test]
    fn a_required_value_of_a_type_that_nobody_reads_is_unmet() {
        let required = |value: Value| {
            [Info { flags: InfoFlags::REQUIRED.bits(), ..Info::new(Key::from_static(keys::TIMEOUT.name()), value) }]
        };
        let understood = [keys::TIMEOUT.name()];
        assert_eq!(first_unmet(&required(5_u32.into()), &understood), None);
        assert_eq!(first_unmet(&required("5".into()), &understood).map(Key::as_str), Some(keys::TIMEOUT.name()));
        assert_eq!(first_unmet(&required(Value::Int(-5)), &understood).map(Key::as_str), Some(keys::TIMEOUT.name()));
        assert_eq!(first_unmet(&required(5_u32.into()), &[]).map(Key::as_str), Some(keys::TIMEOUT.name()));
    }
    /// An event with one affected process in place of a list, or the other way round, was refused.
    #[test]
    fn values_that_readers_take_are_met() {
        let proc = || Value::from(crate::types::ProcId::new(crate::types::Namespace::new("job").unwrap(), 0));
        let list = || {
            Value::DataArray(Box::new(crate::types::DataArray { element_type: DataType::Proc, elements: vec![proc()] }))
        };
        for (key, value, is_met) in [
            (keys::EVENT_CUSTOM_RANGE.name(), proc(), true),
            (keys::EVENT_AFFECTED_PROC.name(), list(), true),
            (keys::EVENT_AFFECTED_PROCS.name(), Value::Bool(true), false),
            (keys::WAIT.name(), Value::Bool(true), true),
            (keys::MONITOR_FILE_MODIFY.name(), Value::Bool(true), true),
            (keys::DATA_SCOPE.name(), Value::Scope(1), true),
            (keys::DATA_SCOPE.name(), Value::Uint8(1), false),
            (keys::HOSTNAME.name(), Value::CompressedString(vec![1]), false),
            (keys::RANK.name(), Value::ProcRank(Rank::Wildcard), true),
            (keys::NODEID.name(), Value::Uint8(1), true),
        ] {
            let info = Info { flags: InfoFlags::REQUIRED.bits(), ..Info::new(Key::from_static(key), value) };
            assert_eq!(!is_unmet(&info, |_| true), is_met, "{info:?}");
        }
    }
}
