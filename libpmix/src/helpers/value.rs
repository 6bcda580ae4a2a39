//! Values: load, unload, copy, compare.

use modex::types::codes::boolean::{BOOL_FALSE, BOOL_TRUE, NON_BOOL};
use modex::types::{DataType, Status, Value, footprint};

use super::compare::{self, Comparison};
use crate::argument::{Data, DataOut, DataPlace, Datum, In, Out, TypeCode};
use crate::error::CError;
use crate::form::element;
use crate::form::{Depth, Form, Own, Whole, copy_anew, write_bytes};
use crate::guard::{Failure, guard, guard_or};
use crate::types::{c_char, c_uint, pmix_boolean_t, pmix_status_t, pmix_value_cmp_t, pmix_value_t};
use crate::{from_c, memory};

/// Makes a value hold a deep copy of the data; its old content is not released. `data` is the string, map expression or
/// pointer itself; for other types it is the element's address. Without data a boolean is true, and every other type is
/// zero.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Value_load<'a>(
    mut val: Out<'a, pmix_value_t>,
    data: Data<'a>,
    type_: TypeCode<'a>,
) -> pmix_status_t {
    guard(|| Ok(load(val.place("value")?, data, type_)?))
}

/// [`PMIx_Value_load`] inside the library.
///
/// # Errors
/// [`CError`] when the type is unknown or the data is invalid; the value is then empty.
pub fn load<'a>(value: &mut pmix_value_t, data: Data<'a>, code: TypeCode<'a>) -> Result<(), CError> {
    pmix_value_t::construct(value);
    let data_type = code.known()?;
    if data_type == DataType::Undefined {
        return Ok(());
    }
    element::size(data_type)?;
    if data.is_null() {
        value.type_ = code.get();
        value.data.flag = u8::from(data_type == DataType::Bool);
        return Ok(());
    }
    let outcome = load_some(value, data.datum(code)?, data_type);
    if outcome.is_err() {
        // SAFETY: F1: only this function has touched it, and it keeps the value whole.
        pmix_value_t::destruct(unsafe { Own::new(value) });
    }
    outcome
}

fn load_some(value: &mut pmix_value_t, datum: Datum<'_>, data_type: DataType) -> Result<(), CError> {
    match datum {
        Datum::Pointer(pointer) => value.data.ptr = pointer,
        Datum::Regex(bytes) => {
            let mut object = crate::types::pmix_byte_object_t { bytes: std::ptr::null_mut(), size: 0 };
            write_bytes(bytes, &mut object)?;
            value.data.bo = object;
        }
        Datum::Text(text) => value.data.string = memory::new_string(text.to_bytes())?,
        Datum::Element(element) => return element::copy_into(element, value, Depth::TOP),
    }
    value.type_ = data_type.to_raw();
    Ok(())
}

/// Takes the data out of a value:
///
/// - Numbers and processes are copied to the place that `*data` points to.
/// - Strings are copies for the caller to free; a NULL string leaves the outputs unchanged.
/// - Byte objects are lent: pointer and length are the value's own.
/// - Every other type is a deep copy in a new block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Value_unload(
    val: In<'_, pmix_value_t>,
    mut data: DataOut<'_>,
    mut sz: Out<'_, usize>,
) -> pmix_status_t {
    guard(|| {
        let value = val.get("value")?;
        data.place("place for data")?;
        unload(value, data, sz.place("place for a size")?)
    })
}

fn unload(value: Whole<'_, pmix_value_t>, mut data: DataOut<'_>, size: &mut usize) -> Result<(), Failure> {
    let what = "place for data";
    let data_type = element::type_of(&value)?;
    match data_type {
        DataType::Undefined => Err(Failure(Status::ERR_UNKNOWN_DATA_TYPE)),
        DataType::String => {
            if let Some(text) = value.string()? {
                *data.place(what)? = memory::new_string(text.to_bytes())?.cast();
                *size = text.count_bytes();
            }
            Ok(())
        }
        DataType::ByteObject | DataType::CompressedString | DataType::CompressedByteObject | DataType::Regex => {
            let object = value.data.bo();
            let is_empty = object.bytes.is_null() || object.size == 0;
            *data.place(what)? = if is_empty { std::ptr::null_mut() } else { object.bytes.cast() };
            *size = if is_empty { 0 } else { object.size };
            Ok(())
        }
        _ => {
            let width = element::size(data_type)?;
            let is_copied_out = matches!(data_type, DataType::Proc | DataType::ProcNamespace);
            if element::is_pointed(data_type) && !is_copied_out {
                *data.place(what)? = memory::zeroed::<u8>(width)?.cast();
            }
            // SAFETY: data of this type is copied out (see `PMIx_Value_unload`), or a block for it was stored above.
            let mut place = unsafe { data.storage(data_type) }?;
            place.construct();
            place.copy(value.element()?, Depth::TOP)?;
            *size = width;
            Ok(())
        }
    }
}

/// Makes a value hold a deep copy of another's content; its old content is not released.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Value_xfer(mut dest: Out<'_, pmix_value_t>, src: In<'_, pmix_value_t>) -> pmix_status_t {
    guard(|| {
        let from = src.get("value")?.shallow();
        Ok(copy_over(from.whole(), dest.place("value")?)?)
    })
}

/// Makes a value hold a deep copy of another's content; its old content is not released.
///
/// # Errors
/// As [`Form::copy`]; the value is then empty.
pub fn copy_over(from: Whole<'_, pmix_value_t>, to: &mut pmix_value_t) -> Result<(), CError> {
    pmix_value_t::construct(to);
    let element = from.element()?;
    // A NULL pointer in place of a structure is copied as NULL.
    if element::is_pointed(element.data_type()) && element.is_null() {
        to.type_ = from.type_;
        return Ok(());
    }
    copy_anew(from, to)
}

/// The greater of two values, if they can be compared.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Value_compare(v1: In<'_, pmix_value_t>, v2: In<'_, pmix_value_t>) -> pmix_value_cmp_t {
    let not_available = Comparison::NotAvailable.code();
    guard_or(not_available, || match (from_c::value_at(v1), from_c::value_at(v2)) {
        (Ok(one), Ok(other)) => compare::compare(&one, &other).code(),
        _ => not_available,
    })
}

/// The truth value of a value: booleans, strings with a truth value, and no value at all, which means true.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Value_true(v: In<'_, pmix_value_t>) -> pmix_boolean_t {
    guard_or(c_uint::from(NON_BOOL), || v.get("value").map_or(NON_BOOL, truth_of))
}

/// [`PMIx_Value_true`] inside the library.
pub fn truth_of(value: Whole<'_, pmix_value_t>) -> pmix_boolean_t {
    let truth = match from_c::value(value) {
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
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Value_get_size(val: In<'_, pmix_value_t>, mut size: Out<'_, usize>) -> pmix_status_t {
    guard(|| {
        let value = val.get("value")?;
        let total = size_of_value(value)?;
        *size.place("place for a size")? = total;
        Ok(())
    })
}

/// [`PMIx_Value_get_size`] inside the library.
///
/// # Errors
/// When it is no value, or its size is unknown.
pub(super) fn size_of_value(value: Whole<'_, pmix_value_t>) -> Result<usize, Failure> {
    footprint(&from_c::value(value)?).ok_or(Failure(Status::ERR_BAD_PARAM))
}

/// Converts a number to another type. `PMIX_ERR_LOST_PRECISION` or `PMIX_ERR_CHANGE_SIGN` when it does not fit,
/// `PMIX_ERR_BAD_PARAM` when one is no number.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Value_get_number<'a>(
    value: In<'a, pmix_value_t>,
    dest: DataPlace<'a>,
    type_: TypeCode<'a>,
) -> pmix_status_t {
    guard(|| {
        let value = from_c::value_at(value)?;
        let data_type = type_.known()?;
        if dest.is_null() {
            return Err(CError::Null { what: "place for a number" }.into());
        }
        let number = super::number::converted(&value, data_type).map_err(Failure)?;
        Ok(dest.place(type_)?.write(&number)?)
    })
}

/// A description, for the caller to free; NULL when the pointer is no value.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Value_string(value: In<'_, pmix_value_t>) -> *mut c_char {
    guard_or(std::ptr::null_mut(), || {
        let value = from_c::value_at(value);
        value.map_or(std::ptr::null_mut(), |value| memory::string(super::print::value(&value).as_bytes()))
    })
}
