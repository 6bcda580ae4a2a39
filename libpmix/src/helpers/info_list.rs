//! Lists of infos that grow, behind an opaque pointer.
//!
//! A list is a Rust object that only this module reads. Callers may read its infos, so they have C's layout and stay in
//! place while the list lives.
//!
//! - **L1** The pointer is NULL or a list from `PMIx_Info_list_start` that is not released yet. The caller uses a list from one
//!   thread at a time. [`ListPointer`] carries this promise.

use std::marker::PhantomData;

use modex::types::{InfoFlags, Status};

use super::info;
use crate::argument::{Data, In, KeyText, Out, TypeCode};
use crate::error::CError;
use crate::form::{Form, Own, data_array};
use crate::guard::{Failure, guard, guard_or};
use crate::to_c::Single;
use crate::types::{c_void, pmix_data_array_t, pmix_info_t, pmix_status_t, pmix_value_t};
use crate::{from_c, pointer};

/// The object behind the pointer.
#[derive(Default)]
struct List(Vec<Entry>);

/// An info that stays in place. The list owns its value, unless the value is persistent.
type Entry = Box<Single<pmix_info_t>>;

/// A list as an argument (L1).
#[repr(transparent)]
pub struct ListPointer<'a>(*mut List, PhantomData<&'a mut List>);

impl<'a> ListPointer<'a> {
    fn get(self) -> Result<&'a mut List, CError> {
        // SAFETY: the list was boxed by `PMIx_Info_list_start`, and no other thread uses it now (L1).
        unsafe { pointer::unique(self.0, "list of infos") }
    }
}

#[cfg(test)]
impl crate::argument::as_c::FromC<*mut c_void> for ListPointer<'_> {
    unsafe fn from_c(list: *mut c_void) -> Self {
        Self(list.cast(), PhantomData)
    }
}

/// An empty list, for `PMIx_Info_list_release`.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_list_start() -> *mut c_void {
    guard_or(std::ptr::null_mut(), || Box::into_raw(Box::<List>::default()).cast())
}

/// Releases a list and its content.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_list_release(ptr: ListPointer<'_>) {
    guard_or((), || {
        if !ptr.0.is_null() {
            // SAFETY: the list was boxed by `PMIx_Info_list_start`, and is not used afterwards (L1).
            drop(unsafe { Box::from_raw(ptr.0) });
        }
    });
}

/// Number of infos.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_list_get_size(ptr: ListPointer<'_>) -> usize {
    guard_or(0, || ptr.get().map_or(0, |list| list.0.len()))
}

/// Appends an info with a deep copy of the data.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_list_add<'a>(
    ptr: ListPointer<'a>,
    key: KeyText<'a>,
    value: Data<'a>,
    type_: TypeCode<'a>,
) -> pmix_status_t {
    guard(|| {
        let list = ptr.get()?;
        list.0.push(loaded(key, value, type_)?);
        Ok(())
    })
}

/// Puts an info with a deep copy of the data before the others.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_list_prepend<'a>(
    ptr: ListPointer<'a>,
    key: KeyText<'a>,
    value: Data<'a>,
    type_: TypeCode<'a>,
) -> pmix_status_t {
    guard(|| {
        let list = ptr.get()?;
        list.0.insert(0, loaded(key, value, type_)?);
        Ok(())
    })
}

/// As `PMIx_Info_list_add`, for a key that occurs only once: an existing entry is replaced if `overwrite`, else kept.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_list_add_unique<'a>(
    ptr: ListPointer<'a>,
    key: KeyText<'a>,
    value: Data<'a>,
    type_: TypeCode<'a>,
    overwrite: bool,
) -> pmix_status_t {
    guard(|| {
        let list = ptr.get()?;
        add_unique(list, loaded(key, value, type_)?, overwrite);
        Ok(())
    })
}

/// Appends an info with a deep copy of the value.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_list_add_value(
    ptr: ListPointer<'_>,
    key: KeyText<'_>,
    value: In<'_, pmix_value_t>,
) -> pmix_status_t {
    guard(|| {
        let list = ptr.get()?;
        list.0.push(with_value(key, value)?);
        Ok(())
    })
}

/// As `PMIx_Info_list_add_value`, for a key that occurs only once.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_list_add_value_unique(
    ptr: ListPointer<'_>,
    key: KeyText<'_>,
    value: In<'_, pmix_value_t>,
    overwrite: bool,
) -> pmix_status_t {
    guard(|| {
        let list = ptr.get()?;
        add_unique(list, with_value(key, value)?, overwrite);
        Ok(())
    })
}

/// Appends a deep copy of an info.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_list_xfer(ptr: ListPointer<'_>, info: In<'_, pmix_info_t>) -> pmix_status_t {
    guard(|| {
        let list = ptr.get()?;
        list.0.push(copied(info)?);
        Ok(())
    })
}

/// As `PMIx_Info_list_xfer`, for a key that occurs only once.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_list_xfer_unique(
    ptr: ListPointer<'_>,
    info: In<'_, pmix_info_t>,
    overwrite: bool,
) -> pmix_status_t {
    guard(|| {
        let list = ptr.get()?;
        add_unique(list, copied(info)?, overwrite);
        Ok(())
    })
}

/// Appends an info whose value still belongs to the caller: it must live as long as the list and the arrays made from
/// it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_list_insert(ptr: ListPointer<'_>, info: In<'_, pmix_info_t>) -> pmix_status_t {
    guard(|| {
        let list = ptr.get()?;
        let mut lent = *info.get("info")?;
        lent.flags |= InfoFlags::PERSISTENT.bits();
        let mut entry = new_entry();
        // SAFETY: a persistent value is not released with its info, and lives as long as the list (the caller's
        // promise).
        unsafe { *entry.get_mut() = lent };
        list.0.push(entry);
        Ok(())
    })
}

/// Makes an array of copies of the infos, for `PMIx_Data_array_destruct`; `PMIX_ERR_EMPTY` when there are none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_list_convert(
    ptr: ListPointer<'_>,
    mut par: Out<'_, pmix_data_array_t>,
) -> pmix_status_t {
    guard(|| {
        let list = ptr.get()?;
        let array = par.place("data array")?;
        pmix_data_array_t::construct(array);
        // Without infos this sets the type alone.
        let outcome = copy_all(list, array);
        if outcome.is_err() {
            // SAFETY: F1: only this function has touched it, and it keeps the array whole.
            pmix_data_array_t::destruct(unsafe { Own::new(array) });
        }
        if list.0.is_empty() {
            return Err(Failure(Status::ERR_EMPTY));
        }
        Ok(outcome?)
    })
}

/// One info of the list: the first for `prev` NULL, else the one at the place that `*next` held after another call.
/// With the last info `*next` becomes NULL.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_list_get_info(
    ptr: ListPointer<'_>,
    prev: *mut c_void,
    mut next: Out<'_, *mut c_void>,
) -> *mut pmix_info_t {
    guard_or(std::ptr::null_mut(), || {
        let (Ok(list), Ok(next)) = (ptr.get(), next.place("place for a pointer")) else {
            return std::ptr::null_mut();
        };
        // A place in the list is a number in the form of a pointer, which is never followed.
        let index = prev.addr();
        let is_last = index.saturating_add(1) >= list.0.len();
        *next = if is_last { std::ptr::null_mut() } else { std::ptr::without_provenance_mut(index + 1) };
        list.0.get_mut(index).map_or(std::ptr::null_mut(), |info| info.as_mut_ptr())
    })
}

/// Adds an info with a new key. If the list has the key already, the superfluous info is released here.
fn add_unique(list: &mut List, mut info: Entry, overwrite: bool) {
    let name = pointer::fixed_text(&info.get().key, "key").unwrap_or_default().to_vec();
    let same = |other: &&mut Entry| pointer::fixed_text(&other.get().key, "key") == Ok(name.as_slice());
    match list.0.iter_mut().find(same) {
        None => list.0.push(info),
        Some(there) if overwrite => std::mem::swap(there, &mut info),
        Some(_) => {}
    }
}

fn new_entry() -> Entry {
    Box::new(Single::constructed())
}

fn loaded<'a>(key: KeyText<'a>, data: Data<'a>, code: TypeCode<'a>) -> Result<Entry, CError> {
    let mut new = new_entry();
    // SAFETY: the info gets copies of its own (F1).
    info::load(unsafe { new.get_mut() }, key, data, code)?;
    Ok(new)
}

fn with_value(key: KeyText<'_>, value: In<'_, pmix_value_t>) -> Result<Entry, CError> {
    let mut new = new_entry();
    let name = from_c::key_text(key)?;
    // SAFETY: the info gets copies of its own (F1).
    let info = unsafe { new.get_mut() };
    pointer::put_fixed_text(name.as_bytes(), &mut info.key, "key")?;
    super::value::copy_over(value.get("value")?, &mut info.value)?;
    Ok(new)
}

fn copied(source: In<'_, pmix_info_t>) -> Result<Entry, CError> {
    let mut new = new_entry();
    // SAFETY: the info gets copies of its own (F1), or a persistent value, which is not released with it.
    info::copy_over(source.get("info")?, unsafe { new.get_mut() })?;
    Ok(new)
}

fn copy_all(list: &List, array: &mut pmix_data_array_t) -> Result<(), CError> {
    let copies = data_array::allocate_infos(list.0.len(), array)?;
    for (from, to) in list.0.iter().zip(copies.iter_mut()) {
        info::copy_over(from.whole(), to)?;
        to.flags &= !InfoFlags::ARRAY_END.bits();
    }
    if let Some(last) = copies.last_mut() {
        last.flags |= InfoFlags::ARRAY_END.bits();
    }
    Ok(())
}
