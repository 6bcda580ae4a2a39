//! Copies and descriptions of single elements.

use modex::types::{LocalAddress, Text, Value};

use crate::argument::{CText, Data, Datum, Out, TypeCode};
use crate::error::CError;
use crate::form::Depth;
use crate::form::element::{self, Element, Place};
use crate::guard::{Failure, guard};
use crate::types::{c_char, c_void, pmix_status_t};
use crate::{helpers, memory};

/// Makes a deep copy of an element, in blocks for the caller to free. `src` is the string, map expression or pointer
/// itself; for other types it is the element's address.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Data_copy<'a>(
    mut dest: Out<'a, *mut c_void>,
    src: Data<'a>,
    type_: TypeCode<'a>,
) -> pmix_status_t {
    guard(|| {
        let dest = dest.place("place for a copy")?;
        *dest = std::ptr::null_mut();
        let data_type = type_.known()?;
        let width = element::size(data_type)?;
        if src.is_null() {
            return Err(CError::Null { what: data_type.name() }.into());
        }
        *dest = match src.datum(type_)? {
            Datum::Text(text) => memory::new_string(text.to_bytes())?.cast(),
            Datum::Regex(expression) => memory::new_string(expression)?.cast(),
            Datum::Pointer(pointer) => pointer,
            Datum::Element(element) => copied(element, width)?,
        };
        Ok(())
    })
}

/// Describes an element, each line behind `prefix`, in a text for the caller to free. `src` is as in `PMIx_Data_copy`;
/// a NULL element is described as NULL.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Data_print<'a>(
    mut output: Out<'a, *mut c_char>,
    prefix: CText<'a>,
    src: Data<'a>,
    type_: TypeCode<'a>,
) -> pmix_status_t {
    guard(|| {
        let output = output.place("place for a text")?;
        *output = std::ptr::null_mut();
        let data_type = type_.known()?;
        let prefix = prefix.get("prefix")?.unwrap_or_default().to_string_lossy();
        let description =
            if src.is_null() { format!("{}: NULL", data_type.name()) } else { describe(src.datum(type_)?)? };
        let lines: Vec<String> = description.lines().map(|line| format!("{prefix}{line}")).collect();
        *output = memory::new_string(lines.join("\n").as_bytes())?;
        Ok(())
    })
}

fn copied(from: Element<'_>, width: usize) -> Result<*mut c_void, CError> {
    let block: *mut c_void = memory::zeroed::<u8>(width)?.cast();
    // SAFETY: the block was made just now, zeroed, for one element.
    let mut place = unsafe { Place::new(from.data_type(), block) };
    place.construct();
    if let Err(error) = place.copy(from, Depth::TOP) {
        // SAFETY: F1: only `copy` has touched it.
        unsafe { place.destruct() };
        // SAFETY: the block was made above, and nobody else has seen it.
        unsafe { memory::release(block) };
        return Err(error);
    }
    Ok(block)
}

fn describe(datum: Datum<'_>) -> Result<String, Failure> {
    let value = match datum {
        Datum::Text(text) => Value::String(Text::until_nul(text.to_bytes())),
        Datum::Regex(expression) => Value::Regex(expression.to_vec()),
        Datum::Pointer(_) => Value::Pointer(LocalAddress::default()),
        Datum::Element(element) => element.read(Depth::TOP)?,
    };
    Ok(helpers::describe(&value))
}
