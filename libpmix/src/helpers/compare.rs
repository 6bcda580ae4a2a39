//! Comparison of two values.

use std::cmp::Ordering;

use modex::types::Value;
use modex::types::codes::value_cmp::{
    EQUAL, VALUE_COMPARISON_NOT_AVAIL, VALUE_INCOMPATIBLE_OBJECTS, VALUE_TYPE_DIFFERENT, VALUE1_GREATER, VALUE2_GREATER,
};

use crate::types::pmix_value_cmp_t;

/// Result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    /// The first is less, equal or greater.
    Ordered(Ordering),
    /// Values of two types.
    TypesDiffer,
    /// Two different objects, neither of which is greater.
    Incompatible,
    /// The result can't be known.
    NotAvailable,
}

impl Comparison {
    /// The standard's number.
    pub(super) const fn code(self) -> pmix_value_cmp_t {
        match self {
            Self::Ordered(Ordering::Equal) => EQUAL,
            Self::Ordered(Ordering::Greater) => VALUE1_GREATER,
            Self::Ordered(Ordering::Less) => VALUE2_GREATER,
            Self::TypesDiffer => VALUE_TYPE_DIFFERENT,
            Self::Incompatible => VALUE_INCOMPATIBLE_OBJECTS,
            Self::NotAvailable => VALUE_COMPARISON_NOT_AVAIL,
        }
    }
}

/// Numbers by size, strings and bytes in dictionary order, a NULL string before all others; objects are equal or not.
pub(super) fn compare(one: &Value, other: &Value) -> Comparison {
    if one.data_type() != other.data_type() {
        return Comparison::TypesDiffer;
    }
    match (one, other) {
        (Value::NullString, Value::NullString) => Comparison::Ordered(Ordering::Equal),
        (Value::NullString, _) => Comparison::Ordered(Ordering::Less),
        (_, Value::NullString) => Comparison::Ordered(Ordering::Greater),
        (Value::String(one), Value::String(other)) => Comparison::Ordered(one.cmp(other)),
        (Value::Bool(one), Value::Bool(other)) => Comparison::Ordered(one.cmp(other)),
        (Value::Float(one), Value::Float(other)) => floats(f64::from(*one), f64::from(*other)),
        (Value::Double(one), Value::Double(other)) => floats(*one, *other),
        (Value::Timeval(one), Value::Timeval(other)) => {
            Comparison::Ordered((one.seconds, one.microseconds).cmp(&(other.seconds, other.microseconds)))
        }
        (Value::ByteObject(one), Value::ByteObject(other))
        | (Value::CompressedString(one), Value::CompressedString(other))
        | (Value::CompressedByteObject(one), Value::CompressedByteObject(other))
        | (Value::Regex(one), Value::Regex(other)) => Comparison::Ordered(one.cmp(other)),
        (Value::ProcNamespace(one), Value::ProcNamespace(other)) => Comparison::Ordered(one.cmp(other)),
        // The pointers' addresses are not known here.
        (Value::Pointer(_), Value::Pointer(_)) => Comparison::NotAvailable,
        _ => match (super::number::integer(one), super::number::integer(other)) {
            (Some(one), Some(other)) => Comparison::Ordered(one.cmp(&other)),
            _ if one == other => Comparison::Ordered(Ordering::Equal),
            _ => Comparison::Incompatible,
        },
    }
}

fn floats(one: f64, other: f64) -> Comparison {
    one.partial_cmp(&other).map_or(Comparison::NotAvailable, Comparison::Ordered)
}
