//! Conversion of numbers between types.

use modex::types::{DataType, Rank, Status, Value};

/// The value as a whole number, if its type is one: an integer of any width, a code, a set of flags.
pub(super) fn integer(value: &Value) -> Option<i128> {
    Some(match *value {
        Value::Byte(v) | Value::Uint8(v) | Value::Persistence(v) | Value::Scope(v) | Value::DataRange(v) => v.into(),
        Value::Command(v) | Value::ProcState(v) | Value::AllocDirective(v) | Value::JobState(v) => v.into(),
        Value::LinkState(v) | Value::ResblockDirective(v) => v.into(),
        Value::Uint16(v) | Value::DataType(v) | Value::IofChannel(v) => v.into(),
        Value::LocalityType(v) | Value::StorageAccessType(v) => v.into(),
        Value::Uint(v) | Value::Uint32(v) | Value::InfoDirectives(v) => v.into(),
        Value::Pid(v) => v.cast_signed().into(),
        Value::Size(v) | Value::Uint64(v) | Value::DeviceType(v) => v.into(),
        Value::StorageMedium(v) | Value::StorageAccess(v) | Value::StoragePersistence(v) => v.into(),
        Value::Time(v) => v.cast_signed().into(),
        Value::Int8(v) => v.into(),
        Value::Int16(v) => v.into(),
        Value::Int(v) | Value::Int32(v) | Value::Status(v) => v.into(),
        Value::Int64(v) => v.into(),
        Value::ProcRank(rank) => rank.to_raw().into(),
        _ => return None,
    })
}

/// A number between types.
#[derive(Clone, Copy)]
enum Number {
    Whole(i128),
    Real(f64),
}

/// The number as a value of another type.
///
/// # Errors
/// `ERR_BAD_PARAM` when a value is no number, `ERR_CHANGE_SIGN` when the target has no negative numbers,
/// `ERR_LOST_PRECISION` when it does not fit for another reason.
pub(super) fn converted(value: &Value, target: DataType) -> Result<Value, Status> {
    let number = match value {
        Value::Float(v) => Number::Real(f64::from(*v)),
        Value::Double(v) => Number::Real(*v),
        other => Number::Whole(integer(other).ok_or(Status::ERR_BAD_PARAM)?),
    };
    match target {
        DataType::Float => real(number).and_then(narrowed).map(Value::Float),
        DataType::Double => real(number).map(Value::Double),
        _ => of_type(whole(number)?, target),
    }
}

/// Whole numbers up to 2^53 are exact.
const EXACT_MAX: i128 = 1 << 53;

fn real(number: Number) -> Result<f64, Status> {
    match number {
        Number::Real(real) => Ok(real),
        #[expect(clippy::cast_precision_loss, reason = "checked: exact up to 2^53")]
        Number::Whole(whole) if whole.abs() <= EXACT_MAX => Ok(whole as f64),
        Number::Whole(_) => Err(Status::ERR_LOST_PRECISION),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "what changes by the cast is refused")]
fn narrowed(real: f64) -> Result<f32, Status> {
    let narrow = real as f32;
    let is_same = f64::from(narrow) == real || real.is_nan();
    if is_same { Ok(narrow) } else { Err(Status::ERR_LOST_PRECISION) }
}

fn whole(number: Number) -> Result<i128, Status> {
    match number {
        Number::Whole(whole) => Ok(whole),
        #[expect(clippy::cast_possible_truncation, reason = "checked: a whole number below 2^64")]
        Number::Real(real) if real.fract() == 0.0 && real.abs() <= 18_446_744_073_709_551_616.0 => Ok(real as i128),
        Number::Real(_) => Err(Status::ERR_LOST_PRECISION),
    }
}

fn of_type(number: i128, target: DataType) -> Result<Value, Status> {
    /// The number in the variant's width, or the error.
    fn fit<T: TryFrom<i128>>(number: i128, is_unsigned: bool, wrap: fn(T) -> Value) -> Result<Value, Status> {
        let why = if is_unsigned && number < 0 { Status::ERR_CHANGE_SIGN } else { Status::ERR_LOST_PRECISION };
        T::try_from(number).map(wrap).map_err(|_| why)
    }
    match target {
        DataType::Byte => fit(number, true, Value::Byte),
        DataType::Uint8 => fit(number, true, Value::Uint8),
        DataType::Uint16 => fit(number, true, Value::Uint16),
        DataType::Uint32 => fit(number, true, Value::Uint32),
        DataType::Uint => fit(number, true, Value::Uint),
        DataType::Uint64 => fit(number, true, Value::Uint64),
        DataType::Size => fit(number, true, Value::Size),
        DataType::Int8 => fit(number, false, Value::Int8),
        DataType::Int16 => fit(number, false, Value::Int16),
        DataType::Int32 => fit(number, false, Value::Int32),
        DataType::Int => fit(number, false, Value::Int),
        DataType::Int64 => fit(number, false, Value::Int64),
        DataType::Status => fit(number, false, Value::Status),
        DataType::Pid => fit::<i32>(number, false, |pid| Value::Pid(pid.cast_unsigned())),
        DataType::Time => fit::<i64>(number, false, |time| Value::Time(time.cast_unsigned())),
        DataType::ProcRank => {
            let raw = u32::try_from(number)
                .map_err(|_| if number < 0 { Status::ERR_CHANGE_SIGN } else { Status::ERR_LOST_PRECISION })?;
            Rank::from_raw(raw).map(Value::ProcRank).map_err(|_| Status::ERR_BAD_PARAM)
        }
        _ => Err(Status::ERR_BAD_PARAM),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_does_not_fit_says_why() {
        assert_eq!(converted(&Value::Int(-1), DataType::Uint32), Err(Status::ERR_CHANGE_SIGN));
        assert_eq!(converted(&Value::Uint64(1 << 40), DataType::Uint32), Err(Status::ERR_LOST_PRECISION));
        assert_eq!(converted(&Value::Double(1.5), DataType::Int), Err(Status::ERR_LOST_PRECISION));
        assert_eq!(converted(&Value::from("1"), DataType::Int), Err(Status::ERR_BAD_PARAM));
        assert_eq!(converted(&Value::Int(1), DataType::String), Err(Status::ERR_BAD_PARAM));
    }

    #[test]
    fn a_number_that_fits_keeps_its_value() {
        assert_eq!(converted(&Value::Int(7), DataType::Size), Ok(Value::Size(7)));
        assert_eq!(converted(&Value::Double(-3.0), DataType::Int8), Ok(Value::Int8(-3)));
        assert_eq!(converted(&Value::ProcRank(Rank::Process(4)), DataType::Uint32), Ok(Value::Uint32(4)));
        assert_eq!(converted(&Value::Float(0.5), DataType::Double), Ok(Value::Double(0.5)));
    }
}
