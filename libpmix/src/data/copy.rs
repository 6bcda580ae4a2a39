//! Copies and descriptions of single elements.

use modex::types::{DataType, LocalAddress, Value};

use crate::error::CError;
use crate::form::{Depth, bare_regex, element};
use crate::guard::{Failure, guard};
use crate::types::{c_char, c_void, pmix_data_type_t, pmix_status_t};
use crate::{helpers, memory, pointer};

/// Makes a deep copy of an element, in blocks for the caller to free. `src` is the string, map expression or pointer
/// itself; for other types it is the element's address.
///
/// Support: implemented.
///
/// # Safety
/// P1: `dest` points to a pointer, `src` to an element of the type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Data_copy(
    dest: *mut *mut c_void,
    src: *mut c_void,
    type_: pmix_data_type_t,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let dest = unsafe { pointer::unique(dest, "place for a copy") }?;
        *dest = std::ptr::null_mut();
        let data_type = DataType::from_raw(type_).ok_or(CError::UnknownType { code: type_ })?;
        let width = element::size(data_type)?;
        if src.is_null() {
            return Err(CError::Null { what: data_type.name() }.into());
        }
        // SAFETY: the caller's contract.
        *dest = match direct(data_type) {
            // SAFETY: the caller's contract.
            Some(Direct::Text) => memory::new_string(unsafe { text(src) }?)?.cast(),
            // SAFETY: the caller's contract.
            Some(Direct::Regex) => memory::new_string(unsafe { bare_regex(src.cast()) }?)?.cast(),
            Some(Direct::Pointer) => src,
            // SAFETY: the caller's contract.
            None => unsafe { copied(data_type, src, width) }?,
        };
        Ok(())
    })
}

/// Describes an element, each line behind `prefix`, in a text for the caller to free. `src` is as in `PMIx_Data_copy`;
/// a NULL element is described as NULL.
///
/// Support: implemented.
///
/// # Safety
/// P1: `output` points to a pointer, `prefix` is a string or NULL, `src` points to an element of the type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Data_print(
    output: *mut *mut c_char,
    prefix: *mut c_char,
    src: *mut c_void,
    type_: pmix_data_type_t,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let output = unsafe { pointer::unique(output, "place for a text") }?;
        *output = std::ptr::null_mut();
        let data_type = DataType::from_raw(type_).ok_or(CError::UnknownType { code: type_ })?;
        // SAFETY: the caller's contract.
        let prefix = unsafe { pointer::text(prefix, "prefix") }?.unwrap_or_default().to_string_lossy();
        // SAFETY: the caller's contract.
        let description = unsafe { describe(data_type, src) }?;
        let lines: Vec<String> = description.lines().map(|line| format!("{prefix}{line}")).collect();
        *output = memory::new_string(lines.join("\n").as_bytes())?;
        Ok(())
    })
}

/// Types passed by value, not by address.
enum Direct {
    Text,
    Regex,
    Pointer,
}

const fn direct(data_type: DataType) -> Option<Direct> {
    match data_type {
        DataType::String => Some(Direct::Text),
        DataType::Regex => Some(Direct::Regex),
        DataType::Pointer => Some(Direct::Pointer),
        _ => None,
    }
}

/// # Safety
/// P1: a string.
unsafe fn text<'a>(string: *const c_void) -> Result<&'a [u8], CError> {
    // SAFETY: the caller's contract.
    let text = unsafe { pointer::text(string.cast(), "string") }?;
    Ok(text.ok_or(CError::Null { what: "string" })?.to_bytes())
}

/// # Safety
/// P1: an element of the type.
unsafe fn copied(data_type: DataType, from: *const c_void, width: usize) -> Result<*mut c_void, CError> {
    let block: *mut c_void = memory::zeroed::<u8>(width)?.cast();
    // SAFETY: the block was made just now, zeroed, for one element.
    unsafe { element::construct(data_type, block) };
    // SAFETY: the caller's contract; an empty element is in the block.
    if let Err(error) = unsafe { element::copy(data_type, from, block, Depth::TOP) } {
        // SAFETY: F1: only `copy` has touched it.
        unsafe { element::destruct(data_type, block) };
        // SAFETY: made above.
        unsafe { memory::release(block) };
        return Err(error);
    }
    Ok(block)
}

/// # Safety
/// P1: an element of the type, or NULL.
unsafe fn describe(data_type: DataType, at: *const c_void) -> Result<String, Failure> {
    if at.is_null() {
        return Ok(format!("{}: NULL", data_type.name()));
    }
    let value = match direct(data_type) {
        // SAFETY: the caller's contract.
        Some(Direct::Text) => Value::String(modex::types::Text::until_nul(unsafe { text(at) }?)),
        // SAFETY: the caller's contract.
        Some(Direct::Regex) => Value::Regex(unsafe { bare_regex(at.cast()) }?.to_vec()),
        Some(Direct::Pointer) => Value::Pointer(LocalAddress::default()),
        // SAFETY: the caller's contract.
        None => unsafe { element::read(data_type, at, Depth::TOP) }?,
    };
    Ok(helpers::describe(&value))
}
