//! Values: load, unload, copy, compare.

use modex::types::codes::boolean::{BOOL_FALSE, BOOL_TRUE, NON_BOOL};
use modex::types::{DataType, Status, Value, footprint};

use super::compare::{self, Comparison};
use crate::error::CError;
use crate::form::{Depth, Form, bare_regex, element, write_bytes};
use crate::guard::{Failure, guard, guard_or};
use crate::types::{
    c_char, c_uint, c_void, pmix_boolean_t, pmix_data_type_t, pmix_status_t, pmix_value_cmp_t, pmix_value_t,
};
use crate::{from_c, memory, pointer};

/// Makes a value hold a deep copy of the data; its old content is not released. `data` is the string, map expression or
/// pointer itself; for other types it is the element's address. Without data a boolean is true, and every other type is
/// zero.
///
/// Support: implemented.
///
/// # Safety
/// P1: `val` points to storage for a value, `data` to an element of the type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Value_load(
    val: *mut pmix_value_t,
    data: *const c_void,
    type_: pmix_data_type_t,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let value = unsafe { pointer::unique(val, "value") }?;
        // SAFETY: the caller's contract.
        Ok(unsafe { load(value, data, type_) }?)
    })
}

/// [`PMIx_Value_load`] inside the library.
///
/// # Errors
/// [`CError`] when the type is unknown or the data is invalid; the value is then empty.
///
/// # Safety
/// P1: `data` points to an element of the type.
pub unsafe fn load(value: &mut pmix_value_t, data: *const c_void, code: pmix_data_type_t) -> Result<(), CError> {
    pmix_value_t::construct(value);
    let data_type = DataType::from_raw(code).ok_or(CError::UnknownType { code })?;
    if data_type == DataType::Undefined {
        return Ok(());
    }
    element::size(data_type)?;
    if data.is_null() {
        value.type_ = code;
        value.data.flag = u8::from(data_type == DataType::Bool);
        return Ok(());
    }
    // SAFETY: the caller's contract.
    let outcome = unsafe { load_some(value, data, data_type) };
    if outcome.is_err() {
        // SAFETY: F1: only this function has touched it.
        unsafe { pmix_value_t::destruct(value) };
    }
    outcome
}

/// # Safety
/// P1: `data` points to an element of the type.
unsafe fn load_some(value: &mut pmix_value_t, data: *const c_void, data_type: DataType) -> Result<(), CError> {
    match data_type {
        DataType::Pointer => {
            value.type_ = data_type.to_raw();
            value.data.ptr = data.cast_mut();
            Ok(())
        }
        DataType::Regex => {
            // SAFETY: the caller's contract.
            let expression = unsafe { bare_regex(data.cast()) }?;
            value.type_ = data_type.to_raw();
            let mut object = crate::types::pmix_byte_object_t { bytes: std::ptr::null_mut(), size: 0 };
            write_bytes(expression, &mut object)?;
            value.data.bo = object;
            Ok(())
        }
        DataType::String => {
            let string = data;
            // SAFETY: the caller's contract: the data is the string itself.
            unsafe { element::copy_into(data_type, (&raw const string).cast(), value, Depth::TOP) }
        }
        // SAFETY: the caller's contract.
        _ => unsafe { element::copy_into(data_type, data, value, Depth::TOP) },
    }
}

/// Takes the data out of a value:
///
/// - Numbers and processes are copied to the place that `*data` points to.
/// - Strings are copies for the caller to free; a NULL string leaves the outputs unchanged.
/// - Byte objects are lent: pointer and length are the value's own.
/// - Every other type is a deep copy in a new block.
///
/// Support: implemented.
///
/// # Safety
/// P1: `val` points to a value, `data` to a pointer, which points to storage for the value's type where one is needed,
/// `sz` to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Value_unload(
    val: *mut pmix_value_t,
    data: *mut *mut c_void,
    sz: *mut usize,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let value = unsafe { pointer::shared(val.cast_const(), "value") }?;
        // SAFETY: the caller's contract.
        let data = unsafe { pointer::unique(data, "place for data") }?;
        // SAFETY: the caller's contract.
        let size = unsafe { pointer::unique(sz, "place for a size") }?;
        // SAFETY: the caller's contract.
        unsafe { unload(value, data, size) }
    })
}

/// # Safety
/// As [`PMIx_Value_unload`].
unsafe fn unload(value: &pmix_value_t, data: &mut *mut c_void, size: &mut usize) -> Result<(), Failure> {
    let data_type = element::type_of(value)?;
    match data_type {
        DataType::Undefined => Err(Failure(Status::ERR_UNKNOWN_DATA_TYPE)),
        DataType::String => {
            // SAFETY: the value's type says so.
            let string: *const c_char = unsafe { value.data.string };
            // SAFETY: the caller's contract.
            if let Some(text) = unsafe { pointer::text(string, "string") }? {
                *data = memory::new_string(text.to_bytes())?.cast();
                *size = text.count_bytes();
            }
            Ok(())
        }
        DataType::ByteObject | DataType::CompressedString | DataType::CompressedByteObject | DataType::Regex => {
            // SAFETY: the value's type says so.
            let object = unsafe { value.data.bo };
            let is_empty = object.bytes.is_null() || object.size == 0;
            *data = if is_empty { std::ptr::null_mut() } else { object.bytes.cast() };
            *size = if is_empty { 0 } else { object.size };
            Ok(())
        }
        _ => {
            let width = element::size(data_type)?;
            let is_copied_out = matches!(data_type, DataType::Proc | DataType::ProcNamespace);
            if element::is_pointed(data_type) && !is_copied_out {
                *data = memory::zeroed::<u8>(width)?.cast();
            } else if data.is_null() {
                return Err(CError::Null { what: "place for data" }.into());
            }
            // SAFETY: an element may be written there (the caller's contract, or the block made above).
            unsafe { element::construct(data_type, *data) };
            // SAFETY: P1 for the value; an empty element is at the target.
            unsafe { element::copy(data_type, element::address(value, data_type), *data, Depth::TOP) }?;
            *size = width;
            Ok(())
        }
    }
}

/// Makes a value hold a deep copy of another's content; its old content is not released.
///
/// Support: implemented.
///
/// # Safety
/// P1: `dest` points to storage for a value, `src` to a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Value_xfer(dest: *mut pmix_value_t, src: *const pmix_value_t) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let from = *unsafe { pointer::shared(src, "value") }?;
        // SAFETY: the caller's contract.
        let to = unsafe { pointer::unique(dest, "value") }?;
        // SAFETY: the caller's contract.
        Ok(unsafe { copy_over(&from, to) }?)
    })
}

/// Makes a value hold a deep copy of another's content; its old content is not released.
///
/// # Errors
/// As [`Form::copy`]; the value is then empty.
///
/// # Safety
/// P1 for every pointer inside `from`.
pub unsafe fn copy_over(from: &pmix_value_t, to: &mut pmix_value_t) -> Result<(), CError> {
    pmix_value_t::construct(to);
    // A NULL pointer in place of a structure is copied as NULL.
    let is_null =
        element::is_pointed(element::type_of(from)?) && element::address(from, element::type_of(from)?).is_null();
    if is_null {
        to.type_ = from.type_;
        return Ok(());
    }
    // SAFETY: the caller's contract.
    let outcome = unsafe { pmix_value_t::copy(from, to, Depth::TOP) };
    if outcome.is_err() {
        // SAFETY: F1: only `copy` has touched it.
        unsafe { pmix_value_t::destruct(to) };
    }
    outcome
}

/// The greater of two values, if they can be compared.
///
/// Support: implemented.
///
/// # Safety
/// P1 for both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Value_compare(v1: *mut pmix_value_t, v2: *mut pmix_value_t) -> pmix_value_cmp_t {
    let not_available = Comparison::NotAvailable.code();
    guard_or(not_available, || {
        // SAFETY: the caller's contract.
        let (one, other) = (unsafe { from_c::value_at(v1) }, unsafe { from_c::value_at(v2) });
        match (one, other) {
            (Ok(one), Ok(other)) => compare::compare(&one, &other).code(),
            _ => not_available,
        }
    })
}

/// The truth value of a value: booleans, strings with a truth value, and no value at all, which means true.
///
/// Support: implemented.
///
/// # Safety
/// P1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Value_true(v: *const pmix_value_t) -> pmix_boolean_t {
    guard_or(c_uint::from(NON_BOOL), || {
        // SAFETY: the caller's contract.
        let Ok(value) = (unsafe { pointer::shared(v, "value") }) else { return NON_BOOL };
        // SAFETY: the caller's contract.
        unsafe { truth_of(value) }
    })
}

/// [`PMIx_Value_true`] inside the library.
///
/// # Safety
/// P1 for every pointer inside.
pub unsafe fn truth_of(value: &pmix_value_t) -> pmix_boolean_t {
    // SAFETY: the caller's contract.
    let truth = match unsafe { from_c::value(value) } {
        Ok(Value::Undefined) => Some(true),
        Ok(Value::Bool(flag)) => Some(flag),
        Ok(Value::String(text)) => text.to_str().ok().and_then(truth_of_text),
        _ => None,
    };
    match truth {
        Some(true) => BOOL_TRUE,
        Some(false) => BOOL_FALSE,
        None => NON_BOOL,
    }
}

fn truth_of_text(text: &str) -> Option<bool> {
    let text = text.trim();
    if let Ok(number) = text.parse::<i64>() {
        return Some(number != 0);
    }
    match text.to_ascii_lowercase().as_str() {
        "t" | "true" | "y" | "yes" | "on" => Some(true),
        "f" | "false" | "n" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// Size of a value in bytes, with its content.
///
/// Support: implemented.
///
/// # Safety
/// P1: `val` points to a value, `size` to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Value_get_size(val: *const pmix_value_t, size: *mut usize) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let value = unsafe { from_c::value_at(val) }?;
        // SAFETY: the caller's contract.
        let size = unsafe { pointer::unique(size, "place for a size") }?;
        *size = footprint(&value).ok_or(Failure(Status::ERR_BAD_PARAM))?;
        Ok(())
    })
}

/// Converts a number to another type. `PMIX_ERR_LOST_PRECISION` or `PMIX_ERR_CHANGE_SIGN` when it does not fit,
/// `PMIX_ERR_BAD_PARAM` when one is no number.
///
/// Support: implemented.
///
/// # Safety
/// P1: `value` points to a value, `dest` to storage for a number of the type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Value_get_number(
    value: *const pmix_value_t,
    dest: *mut c_void,
    type_: pmix_data_type_t,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let value = unsafe { from_c::value_at(value) }?;
        let data_type = DataType::from_raw(type_).ok_or(CError::UnknownType { code: type_ })?;
        if dest.is_null() {
            return Err(CError::Null { what: "place for a number" }.into());
        }
        let number = super::number::converted(&value, data_type).map_err(Failure)?;
        // SAFETY: an element of the type is there (the caller's contract), and numbers own nothing.
        Ok(unsafe { element::write(&number, dest) }?)
    })
}

/// A description, for the caller to free; NULL when the pointer is no value.
///
/// Support: implemented.
///
/// # Safety
/// P1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Value_string(value: *const pmix_value_t) -> *mut c_char {
    guard_or(std::ptr::null_mut(), || {
        // SAFETY: the caller's contract.
        let value = unsafe { from_c::value_at(value) };
        value.map_or(std::ptr::null_mut(), |value| memory::string(super::print::value(&value).as_bytes()))
    })
}
