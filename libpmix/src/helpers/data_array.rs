//! Data arrays: construct, create, destruct, free.

use modex::types::{DataType, InfoFlags};

use super::family;
use crate::form::{Form, data_array, element};
use crate::guard::guard_or;
use crate::types::{pmix_data_array_t, pmix_data_type_t, pmix_info_t};
use crate::{memory, pointer};

/// Makes an array of so many empty elements of a type; of an unknown type, an array of nothing.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to storage for an array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Data_array_construct(p: *mut pmix_data_array_t, num: usize, type_: pmix_data_type_t) {
    guard_or((), || {
        // SAFETY: the caller's contract.
        if let Ok(array) = unsafe { pointer::unique(p, "data array") } {
            fill(array, num, type_);
        }
    });
}

/// Makes an array without elements, of a type.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to storage for an array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Data_array_init(p: *mut pmix_data_array_t, type_: pmix_data_type_t) {
    guard_or((), || {
        // SAFETY: the caller's contract.
        if let Ok(array) = unsafe { pointer::unique(p, "data array") } {
            pmix_data_array_t::construct(array);
            array.type_ = type_;
        }
    });
}

/// An array of so many empty elements, for `PMIx_Data_array_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Data_array_create(n: usize, type_: pmix_data_type_t) -> *mut pmix_data_array_t {
    guard_or(std::ptr::null_mut(), || {
        if n == 0 {
            return std::ptr::null_mut();
        }
        let block: *mut pmix_data_array_t = memory::zeroed_array(1);
        // SAFETY: made just now; zero is a valid array.
        if let Ok(array) = unsafe { pointer::unique(block, "data array") } {
            fill(array, n, type_);
        }
        block
    })
}

/// Releases the elements and empties the array.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for its content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Data_array_destruct(d: *mut pmix_data_array_t) {
    // SAFETY: the caller's contract.
    unsafe { family::destruct::<pmix_data_array_t>(d) };
}

/// Releases the elements and the array.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for its content; the block is libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Data_array_free(p: *mut pmix_data_array_t) {
    // SAFETY: the caller's contract.
    unsafe { family::release::<pmix_data_array_t>(p) };
}

fn fill(array: &mut pmix_data_array_t, count: usize, code: pmix_data_type_t) {
    pmix_data_array_t::construct(array);
    array.type_ = code;
    let Some(data_type) = DataType::from_raw(code) else { return };
    if count > data_array::ELEMENT_COUNT_MAX || data_array::allocate(data_type, count, array).is_err() {
        return;
    }
    let Ok(stride) = element::size(data_type) else { return };
    for index in 0..array.size {
        // SAFETY: the block was made just now for so many elements of the type.
        unsafe { element::construct(data_type, array.array.wrapping_byte_add(index * stride)) };
    }
    if data_type == DataType::Info {
        // SAFETY: the elements are infos.
        let infos = unsafe { pointer::slice_mut(array.array.cast::<pmix_info_t>(), array.size, "infos") };
        if let Some(last) = infos.unwrap_or_default().last_mut() {
            last.flags |= InfoFlags::ARRAY_END.bits();
        }
    }
}
