//! Lists of infos that grow, behind an opaque pointer.
//!
//! A list is a Rust object that only this module reads. Callers may read its infos, so they have C's layout and stay in
//! place while the list lives.

use modex::types::{DataType, InfoFlags, Status};

use super::info;
use crate::error::CError;
use crate::form::{Form, data_array};
use crate::guard::{Failure, guard, guard_or};
use crate::types::{c_char, c_void, pmix_data_array_t, pmix_data_type_t, pmix_info_t, pmix_status_t, pmix_value_t};
use crate::{from_c, pointer};

/// The object behind the pointer.
#[derive(Default)]
struct List(Vec<Entry>);

/// An info that stays in place.
struct Entry(Box<pmix_info_t>);

impl Drop for List {
    fn drop(&mut self) {
        for info in &mut self.0 {
            // SAFETY: F1; the list owns its infos (persistent values excepted).
            unsafe { pmix_info_t::destruct(&mut info.0) };
        }
    }
}

/// An empty list, for `PMIx_Info_list_release`.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Info_list_start() -> *mut c_void {
    guard_or(std::ptr::null_mut(), || Box::into_raw(Box::<List>::default()).cast())
}

/// Releases a list and its content.
///
/// Support: implemented.
///
/// # Safety
/// L1: `ptr` is NULL or a list from `PMIx_Info_list_start`, not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_list_release(ptr: *mut c_void) {
    guard_or((), || {
        if !ptr.is_null() {
            // SAFETY: the list was boxed by `PMIx_Info_list_start` (L1).
            drop(unsafe { Box::from_raw(ptr.cast::<List>()) });
        }
    });
}

/// Number of infos.
///
/// Support: implemented.
///
/// # Safety
/// L1: `ptr` is a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_list_get_size(ptr: *mut c_void) -> usize {
    // SAFETY: the caller's contract.
    guard_or(0, || unsafe { list(ptr) }.map_or(0, |list| list.0.len()))
}

/// Appends an info with a deep copy of the data.
///
/// Support: implemented.
///
/// # Safety
/// L1; P1 as `PMIx_Info_load`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_list_add(
    ptr: *mut c_void,
    key: *const c_char,
    value: *const c_void,
    type_: pmix_data_type_t,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let list = unsafe { list(ptr) }?;
        // SAFETY: the caller's contract.
        list.0.push(Entry(unsafe { loaded(key, value, type_) }?));
        Ok(())
    })
}

/// Puts an info with a deep copy of the data before the others.
///
/// Support: implemented.
///
/// # Safety
/// As [`PMIx_Info_list_add`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_list_prepend(
    ptr: *mut c_void,
    key: *const c_char,
    value: *const c_void,
    type_: pmix_data_type_t,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let list = unsafe { list(ptr) }?;
        // SAFETY: the caller's contract.
        list.0.insert(0, Entry(unsafe { loaded(key, value, type_) }?));
        Ok(())
    })
}

/// As `PMIx_Info_list_add`, for a key that occurs only once: an existing entry is replaced if `overwrite`, else kept.
///
/// Support: implemented.
///
/// # Safety
/// As [`PMIx_Info_list_add`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_list_add_unique(
    ptr: *mut c_void,
    key: *const c_char,
    value: *const c_void,
    type_: pmix_data_type_t,
    overwrite: bool,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let list = unsafe { list(ptr) }?;
        // SAFETY: the caller's contract.
        add_unique(list, unsafe { loaded(key, value, type_) }?, overwrite);
        Ok(())
    })
}

/// Appends an info with a deep copy of the value.
///
/// Support: implemented.
///
/// # Safety
/// L1; P1: `key` is a string, `value` points to a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_list_add_value(
    ptr: *mut c_void,
    key: *const c_char,
    value: *const pmix_value_t,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let list = unsafe { list(ptr) }?;
        // SAFETY: the caller's contract.
        list.0.push(Entry(unsafe { with_value(key, value) }?));
        Ok(())
    })
}

/// As `PMIx_Info_list_add_value`, for a key that occurs only once.
///
/// Support: implemented.
///
/// # Safety
/// As [`PMIx_Info_list_add_value`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_list_add_value_unique(
    ptr: *mut c_void,
    key: *const c_char,
    value: *const pmix_value_t,
    overwrite: bool,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let list = unsafe { list(ptr) }?;
        // SAFETY: the caller's contract.
        add_unique(list, unsafe { with_value(key, value) }?, overwrite);
        Ok(())
    })
}

/// Appends a deep copy of an info.
///
/// Support: implemented.
///
/// # Safety
/// L1; P1: `info` points to an info.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_list_xfer(ptr: *mut c_void, info: *const pmix_info_t) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let list = unsafe { list(ptr) }?;
        // SAFETY: the caller's contract.
        list.0.push(Entry(unsafe { copied(info) }?));
        Ok(())
    })
}

/// As `PMIx_Info_list_xfer`, for a key that occurs only once.
///
/// Support: implemented.
///
/// # Safety
/// As [`PMIx_Info_list_xfer`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_list_xfer_unique(
    ptr: *mut c_void,
    info: *const pmix_info_t,
    overwrite: bool,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let list = unsafe { list(ptr) }?;
        // SAFETY: the caller's contract.
        add_unique(list, unsafe { copied(info) }?, overwrite);
        Ok(())
    })
}

/// Appends an info whose value still belongs to the caller: it must live as long as the list and the arrays made from
/// it.
///
/// Support: implemented.
///
/// # Safety
/// As [`PMIx_Info_list_xfer`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_list_insert(ptr: *mut c_void, info: *mut pmix_info_t) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let list = unsafe { list(ptr) }?;
        // SAFETY: the caller's contract.
        let mut lent = Box::new(*unsafe { pointer::shared(info.cast_const(), "info") }?);
        lent.flags |= InfoFlags::PERSISTENT.bits();
        list.0.push(Entry(lent));
        Ok(())
    })
}

/// Makes an array of copies of the infos, for `PMIx_Data_array_destruct`; `PMIX_ERR_EMPTY` when there are none.
///
/// Support: implemented.
///
/// # Safety
/// L1; P1: `par` points to storage for an array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_list_convert(ptr: *mut c_void, par: *mut pmix_data_array_t) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let list = unsafe { list(ptr) }?;
        // SAFETY: the caller's contract.
        let array = unsafe { pointer::unique(par, "data array") }?;
        pmix_data_array_t::construct(array);
        array.type_ = DataType::Info.to_raw();
        if list.0.is_empty() {
            return Err(Failure(Status::ERR_EMPTY));
        }
        let outcome = copy_all(list, array);
        if outcome.is_err() {
            // SAFETY: F1: only this function has touched it.
            unsafe { pmix_data_array_t::destruct(array) };
        }
        Ok(outcome?)
    })
}

/// One info of the list: the first for `prev` NULL, else the one at the place that `*next` held after another call.
/// With the last info `*next` becomes NULL.
///
/// Support: implemented.
///
/// # Safety
/// L1; P1: `next` points to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_list_get_info(
    ptr: *mut c_void,
    prev: *mut c_void,
    next: *mut *mut c_void,
) -> *mut pmix_info_t {
    guard_or(std::ptr::null_mut(), || {
        // SAFETY: the caller's contract.
        let (Ok(list), Ok(next)) = (unsafe { list(ptr) }, unsafe { pointer::unique(next, "place for a pointer") })
        else {
            return std::ptr::null_mut();
        };
        // A place in the list is a number in the form of a pointer, which is never followed.
        let index = prev.addr();
        let is_last = index.saturating_add(1) >= list.0.len();
        *next = if is_last { std::ptr::null_mut() } else { std::ptr::without_provenance_mut(index + 1) };
        list.0.get_mut(index).map_or(std::ptr::null_mut(), |info| &raw mut *info.0)
    })
}

/// # Safety
/// L1: `ptr` is a list.
unsafe fn list<'a>(ptr: *mut c_void) -> Result<&'a mut List, CError> {
    // SAFETY: the list was boxed by `PMIx_Info_list_start` (L1), and the caller uses it from one thread at a time.
    unsafe { pointer::unique(ptr.cast::<List>(), "list of infos") }
}

fn add_unique(list: &mut List, mut info: Box<pmix_info_t>, overwrite: bool) {
    let name = pointer::fixed_text(&info.key, "key").unwrap_or_default().to_vec();
    let same = |other: &&mut Entry| pointer::fixed_text(&other.0.key, "key") == Ok(name.as_slice());
    match list.0.iter_mut().find(same) {
        None => return list.0.push(Entry(info)),
        Some(there) if overwrite => std::mem::swap(&mut there.0, &mut info),
        Some(_) => {}
    }
    // SAFETY: F1; the info, old or new, belongs to nobody any more.
    unsafe { pmix_info_t::destruct(&mut info) };
}

fn empty() -> Box<pmix_info_t> {
    // SAFETY: an info may be all zero.
    Box::new(unsafe { std::mem::zeroed() })
}

/// # Safety
/// P1 as `PMIx_Info_load`.
unsafe fn loaded(key: *const c_char, data: *const c_void, code: pmix_data_type_t) -> Result<Box<pmix_info_t>, CError> {
    let mut new = empty();
    // SAFETY: the caller's contract.
    unsafe { info::load(&mut new, key, data, code) }?;
    Ok(new)
}

/// # Safety
/// P1: `key` is a string, `value` points to a value.
unsafe fn with_value(key: *const c_char, value: *const pmix_value_t) -> Result<Box<pmix_info_t>, CError> {
    let mut new = empty();
    // SAFETY: the caller's contract.
    let name = unsafe { from_c::key_text(key) }?;
    pointer::put_fixed_text(name.as_bytes(), &mut new.key, "key")?;
    // SAFETY: the caller's contract.
    let value = unsafe { pointer::shared(value, "value") }?;
    // SAFETY: the caller's contract.
    unsafe { super::value::copy_over(value, &mut new.value) }?;
    Ok(new)
}

/// # Safety
/// P1: `source` points to an info.
unsafe fn copied(source: *const pmix_info_t) -> Result<Box<pmix_info_t>, CError> {
    let mut new = empty();
    // SAFETY: the caller's contract.
    let source = unsafe { pointer::shared(source, "info") }?;
    // SAFETY: the caller's contract.
    unsafe { info::copy_over(source, &mut new) }?;
    Ok(new)
}

fn copy_all(list: &List, array: &mut pmix_data_array_t) -> Result<(), CError> {
    data_array::allocate(DataType::Info, list.0.len(), array)?;
    // SAFETY: the block was made just now for so many infos.
    let copies = unsafe { pointer::slice_mut(array.array.cast::<pmix_info_t>(), array.size, "infos") }?;
    for (from, to) in list.0.iter().zip(copies.iter_mut()) {
        // SAFETY: the list's infos are whole.
        unsafe { info::copy_over(&from.0, to) }?;
        to.flags &= !InfoFlags::ARRAY_END.bits();
    }
    if let Some(last) = copies.last_mut() {
        last.flags |= InfoFlags::ARRAY_END.bits();
    }
    Ok(())
}
