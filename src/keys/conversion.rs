//! Values in the types of attributes: a conversion that loses nothing, and the directives that a reader can't honour.

use std::borrow::Cow;

use super::{ValueKind, WAIT, rows_with_name};
use crate::types::{DataType, Info, InfoFlags, Key, Rank, Text, Value};

/// The key of the first required entry that a reader of the `understood` keys does not honour: it does not know the key, or it
/// can't read the value.
///
/// Source: PMIx Standard, "Data Structures and Types" (`pmix_info_directives_t`).
pub(crate) fn first_unmet<'a>(directives: &'a [Info], understood: &[&str]) -> Option<&'a Key> {
    directives.iter().find(|info| is_unmet(info, |key| understood.contains(&key))).map(|info| &info.key)
}

/// Whether an entry is required, and a reader of certain keys does not honour it.
pub(crate) fn is_unmet(info: &Info, is_understood: impl Fn(&str) -> bool) -> bool {
    info.flags().contains(InfoFlags::REQUIRED) && !(is_understood(info.key.as_str()) && is_readable(info))
}

/// Whether the value fits one of the attributes of its key. Readers take no number for a flag. A key of no attribute takes any
/// value.
fn is_readable(info: &Info) -> bool {
    let key = info.key.as_str();
    let is_flag = info.value.as_bool().is_some();
    let fits = |kind| match kind {
        ValueKind::Bool => is_flag,
        // Open MPI gives a flag where the standard has a number.
        ValueKind::Int if key == WAIT.name() && is_flag => true,
        kind => convert(kind, &info.value).is_ok(),
    };
    let mut rows = rows_with_name(key).peekable();
    rows.peek().is_none() || rows.any(|row| fits(row.value_type))
}

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
        assert_eq!(first_unmet(&required(5_u32.into()), &[]).map(Key::as_str), Some(keys::TIMEOUT.name()));
    }
}
