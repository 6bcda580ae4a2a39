use std::borrow::Cow;

use crate::keys::marker;
use crate::runtime::Fetched;
use crate::types::{DataArray, Envar, Geometry, ProcId, Rank, Status, Text, Timeval, Topology, Value};

/// The Rust type of a key's value: implemented for the type parameters of [`TypedKey`](crate::keys::TypedKey).
///
/// Hosts differ in the width they use for a number, so every integer type that holds the value is read.
pub trait KeyType {
    /// The Rust type of the value; may borrow from the segment.
    type Output<'a>;

    /// The expected type, for the error message.
    const EXPECTED: &'static str;

    /// Reads the value; `None` if it has another type.
    fn read(fetched: Fetched<'_>) -> Option<Self::Output<'_>>;
}

macro_rules! key_types {
    ($($key:ty => $output:ty, $expected:literal, $read:expr;)*) => {
        $(impl KeyType for $key {
            type Output<'a> = $output;
            const EXPECTED: &'static str = $expected;

            fn read(fetched: Fetched<'_>) -> Option<Self::Output<'_>> {
                let read: fn(Fetched<'_>) -> Option<Self::Output<'_>> = $read;
                read(fetched)
            }
        })*
    };
}

/// Reads a value of exactly one type.
macro_rules! variant {
    ($variant:ident) => {
        |fetched| match fetched.into_value().ok()? {
            Value::$variant(value) => Some(value),
            _ => None,
        }
    };
    (box $variant:ident) => {
        |fetched| match fetched.into_value().ok()? {
            Value::$variant(value) => Some(*value),
            _ => None,
        }
    };
}

key_types! {
    bool => bool, "a boolean", |fetched| fetched.as_bool();
    u8 => u8, "an unsigned number of 8 bits", |fetched| fetched.as_u64()?.try_into().ok();
    u16 => u16, "an unsigned number of 16 bits", |fetched| fetched.as_u64()?.try_into().ok();
    u32 => u32, "an unsigned number of 32 bits", |fetched| fetched.as_u64()?.try_into().ok();
    u64 => u64, "an unsigned number of 64 bits", |fetched| fetched.as_u64();
    i32 => i32, "a number of 32 bits", |fetched| signed(fetched)?.try_into().ok();
    i64 => i64, "a number of 64 bits", signed;
    marker::Size => u64, "a size", |fetched| fetched.as_u64();
    marker::Pid => u32, "a process number of the operating system", |fetched| fetched.as_u64()?.try_into().ok();
    marker::Time => u64, "seconds since the epoch", |fetched| fetched.as_u64();
    marker::Rank => Rank, "a rank", rank;
    marker::StatusCode => Status, "a status", status;
    marker::Any => Value, "any value", |fetched| fetched.into_value().ok();
    f32 => f32, "a floating-point number", variant!(Float);
    f64 => f64, "a floating-point number", |fetched| match fetched.into_value().ok()? {
        Value::Double(value) => Some(value),
        Value::Float(value) => Some(value.into()),
        _ => None,
    };
    marker::Proc => ProcId, "a process", variant!(box Proc);
    marker::Array => DataArray, "an array", variant!(box DataArray);
    marker::Timeval => Timeval, "a time of day", variant!(Timeval);
    marker::Envar => Envar, "an environment variable", variant!(box Envar);
    marker::Geometry => Geometry, "a geometry", variant!(box Geometry);
    marker::Topology => Topology, "a topology", variant!(box Topology);
    marker::Cpuset => Option<Text>, "a set of processors in list form, or none", variant!(ProcCpuset);
    marker::Scope => u8, "a scope code", variant!(Scope);
    marker::Range => u8, "a range code", variant!(DataRange);
    marker::Persistence => u8, "a persistence code", variant!(Persistence);
    marker::ProcState => u8, "a process state code", variant!(ProcState);
    marker::LinkState => u8, "a link state code", variant!(LinkState);
    marker::DeviceType => u64, "a device type code", variant!(DeviceType);
    marker::StorageMedium => u64, "a storage medium code", variant!(StorageMedium);
    marker::StorageAccessibility => u64, "a storage accessibility code", variant!(StorageAccess);
    marker::StoragePersistence => u64, "a storage persistence code", variant!(StoragePersistence);
    marker::StorageAccessType => u16, "a storage access type code", variant!(StorageAccessType);
}

impl KeyType for str {
    type Output<'a> = Cow<'a, str>;
    const EXPECTED: &'static str = "a UTF-8 string";

    fn read(fetched: Fetched<'_>) -> Option<Cow<'_, str>> {
        fetched.into_str()
    }
}

impl KeyType for marker::Bytes {
    type Output<'a> = Cow<'a, [u8]>;
    const EXPECTED: &'static str = "a byte object";

    fn read(fetched: Fetched<'_>) -> Option<Cow<'_, [u8]>> {
        fetched.into_bytes()
    }
}

fn signed(fetched: Fetched<'_>) -> Option<i64> {
    match fetched.into_value().ok()? {
        Value::Int8(v) => Some(v.into()),
        Value::Int16(v) => Some(v.into()),
        Value::Int(v) | Value::Int32(v) => Some(v.into()),
        Value::Int64(v) => Some(v),
        other => other.as_u64()?.try_into().ok(),
    }
}

/// Older hosts store ranks as plain numbers.
fn rank(fetched: Fetched<'_>) -> Option<Rank> {
    match fetched.into_value().ok()? {
        Value::ProcRank(rank) => Some(rank),
        other => Rank::from_raw(other.as_u32()?).ok(),
    }
}

fn status(fetched: Fetched<'_>) -> Option<Status> {
    match fetched.into_value().ok()? {
        Value::Status(raw) | Value::Int(raw) | Value::Int32(raw) => Some(Status::from_raw(raw)),
        _ => None,
    }
}
