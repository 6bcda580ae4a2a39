//! Data arrays: construct, create, destruct, free.

use modex::types::{DataType, InfoFlags};

use super::family;
use crate::argument::{Freed, InOut, Out};
use crate::form::{Form, data_array};
use crate::guard::guard_or;
use crate::to_c::Array;
use crate::types::{pmix_data_array_t, pmix_data_type_t, pmix_info_t};

/// Makes an array of so many empty elements of a type; of an unknown type, an array of nothing.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Data_array_construct(
    mut p: Out<'_, pmix_data_array_t>,
    num: usize,
    type_: pmix_data_type_t,
) {
    guard_or((), || {
        if let Ok(array) = p.place("data array") {
            fill(array, num, type_);
        }
    });
}

/// Makes an array without elements, of a type.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Data_array_init(mut p: Out<'_, pmix_data_array_t>, type_: pmix_data_type_t) {
    guard_or((), || {
        if let Ok(array) = p.place("data array") {
            pmix_data_array_t::construct(array);
            array.type_ = type_;
        }
    });
}

/// An array of so many empty elements, for `PMIx_Data_array_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Data_array_create(n: usize, type_: pmix_data_type_t) -> *mut pmix_data_array_t {
    guard_or(std::ptr::null_mut(), || {
        if n == 0 {
            return std::ptr::null_mut();
        }
        let Ok(mut arrays) = Array::<pmix_data_array_t>::constructed(1) else { return std::ptr::null_mut() };
        // SAFETY: the elements of the array are a new block of its own (F1).
        unsafe { arrays.as_mut_slice() }.iter_mut().for_each(|array| fill(array, n, type_));
        arrays.into_raw().0
    })
}

/// Releases the elements and empties the array.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Data_array_destruct(d: InOut<'_, pmix_data_array_t>) {
    family::destruct(d);
}

/// Releases the elements and the array.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Data_array_free(p: Freed<'_, pmix_data_array_t>) {
    family::release(p);
}

fn fill(array: &mut pmix_data_array_t, count: usize, code: pmix_data_type_t) {
    pmix_data_array_t::construct(array);
    array.type_ = code;
    let Some(data_type) = DataType::from_raw(code) else { return };
    if count > data_array::ELEMENT_COUNT_MAX {
        return;
    }
    if data_type == DataType::Info {
        let Ok(infos) = data_array::allocate_infos(count, array) else { return };
        infos.iter_mut().for_each(pmix_info_t::construct);
        if let Some(last) = infos.last_mut() {
            last.flags |= InfoFlags::ARRAY_END.bits();
        }
        return;
    }
    let Ok(places) = data_array::allocate(data_type, count, array) else { return };
    places.for_each(|mut place| place.construct());
}
