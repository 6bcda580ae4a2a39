//! Infos: load, copy, flags.

use modex::types::codes::boolean::NON_BOOL;
use modex::types::{Info, InfoFlags};

use super::{family, value};
use crate::error::CError;
use crate::form::Form;
use crate::guard::{guard, guard_or};
use crate::types::{
    c_char, c_void, pmix_boolean_t, pmix_data_type_t, pmix_info_directives_t, pmix_info_t, pmix_status_t,
};
use crate::{from_c, memory, pointer};

/// `n` empty infos in one block, the last with the end mark, for `PMIx_Info_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Info_create(n: usize) -> *mut pmix_info_t {
    let first = family::create::<pmix_info_t>(n);
    if !first.is_null() {
        // SAFETY: the block was made just now for `n` infos, at least one.
        unsafe { PMIx_Info_set_end(first.wrapping_add(n - 1)) };
    }
    first
}

/// Sets key and value (a deep copy of the data, as `PMIx_Value_load`). The info's old content is not released.
///
/// Support: implemented.
///
/// # Safety
/// P1: `info` points to storage for an info, `key` is a string, `data` points to an element of the type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_load(
    info: *mut pmix_info_t,
    key: *const c_char,
    data: *const c_void,
    type_: pmix_data_type_t,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let info = unsafe { pointer::unique(info, "info") }?;
        // SAFETY: the caller's contract.
        Ok(unsafe { load(info, key, data, type_) }?)
    })
}

/// [`PMIx_Info_load`] inside the library.
///
/// # Errors
/// [`CError`] when the key is invalid, or as [`value::load`]; the info is then empty.
///
/// # Safety
/// P1: `key` is a string, `data` points to an element of the type.
pub(super) unsafe fn load(
    info: &mut pmix_info_t,
    key: *const c_char,
    data: *const c_void,
    code: pmix_data_type_t,
) -> Result<(), CError> {
    pmix_info_t::construct(info);
    // SAFETY: the caller's contract.
    let name = unsafe { from_c::key_text(key) }?;
    // SAFETY: the caller's contract.
    unsafe { value::load(&mut info.value, data, code) }?;
    pointer::put_fixed_text(name.as_bytes(), &mut info.key, "key")
}

/// Makes an info a deep copy of another; its old content is not released. A persistent value belongs to another owner:
/// the copy points to it.
///
/// Support: implemented.
///
/// # Safety
/// P1: `dest` points to storage for an info, `src` to an info.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_xfer(dest: *mut pmix_info_t, src: *const pmix_info_t) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let from = *unsafe { pointer::shared(src, "info") }?;
        // SAFETY: the caller's contract.
        let to = unsafe { pointer::unique(dest, "info") }?;
        // SAFETY: the caller's contract.
        Ok(unsafe { copy_over(&from, to) }?)
    })
}

/// [`PMIx_Info_xfer`] inside the library.
///
/// # Errors
/// As [`value::copy_over`]; the info is then empty.
///
/// # Safety
/// P1 for every pointer inside `from`.
pub(super) unsafe fn copy_over(from: &pmix_info_t, to: &mut pmix_info_t) -> Result<(), CError> {
    if from.flags & InfoFlags::PERSISTENT.bits() != 0 {
        *to = *from;
        return Ok(());
    }
    pmix_info_t::construct(to);
    // SAFETY: the caller's contract.
    unsafe { value::copy_over(&from.value, &mut to.value) }?;
    to.key = from.key;
    to.flags = from.flags;
    Ok(())
}

/// Size of an info in bytes, with its content.
///
/// Support: implemented.
///
/// # Safety
/// P1: `val` points to an info, `size` to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_get_size(val: *const pmix_info_t, size: *mut usize) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let info = unsafe { pointer::shared(val, "info") }?;
        // SAFETY: the caller's contract.
        let total = unsafe { pointer::unique(size, "place for a size") }?;
        let mut held = 0;
        // SAFETY: the value is the info's.
        let status = unsafe { value::PMIx_Value_get_size(&raw const info.value, &raw mut held) };
        if status != 0 {
            return Err(crate::guard::Failure(modex::types::Status::from_raw(status)));
        }
        *total = held + size_of_val(&info.key) + size_of_val(&info.flags);
        Ok(())
    })
}

/// The truth value of an info; see `PMIx_Value_true`.
///
/// Support: implemented.
///
/// # Safety
/// P1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_true(p: *const pmix_info_t) -> pmix_boolean_t {
    guard_or(NON_BOOL, || {
        // SAFETY: the caller's contract.
        let Ok(info) = (unsafe { pointer::shared(p, "info") }) else { return NON_BOOL };
        // SAFETY: the caller's contract.
        unsafe { value::truth_of(&info.value) }
    })
}

/// A description, for the caller to free; NULL when the pointer is no info.
///
/// Support: implemented.
///
/// # Safety
/// P1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_string(info: *const pmix_info_t) -> *mut c_char {
    guard_or(std::ptr::null_mut(), || {
        // SAFETY: the caller's contract.
        let read = |info: &pmix_info_t| -> Result<Info, CError> { unsafe { from_c::info(info) } };
        // SAFETY: the caller's contract.
        let info = unsafe { pointer::shared(info, "info") }.and_then(read);
        info.map_or(std::ptr::null_mut(), |info| memory::string(super::print::info(&info).as_bytes()))
    })
}

/// Marks the info as required: the operation must fail if the info is not honoured.
///
/// Support: implemented.
///
/// # Safety
/// P1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_required(p: *mut pmix_info_t) {
    // SAFETY: the caller's contract.
    unsafe { change(p, InfoFlags::REQUIRED, with) };
}

/// Marks the info as optional.
///
/// Support: implemented.
///
/// # Safety
/// P1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_optional(p: *mut pmix_info_t) {
    // SAFETY: the caller's contract.
    unsafe { change(p, InfoFlags::REQUIRED, without) };
}

/// Marks the info as honoured.
///
/// Support: implemented.
///
/// # Safety
/// P1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_processed(p: *mut pmix_info_t) {
    // SAFETY: the caller's contract.
    unsafe { change(p, InfoFlags::PROCESSED, with) };
}

/// Marks the info: it qualifies the one before.
///
/// Support: implemented.
///
/// # Safety
/// P1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_qualifier(p: *mut pmix_info_t) {
    // SAFETY: the caller's contract.
    unsafe { change(p, InfoFlags::QUALIFIER, with) };
}

/// Marks the value as another owner's.
///
/// Support: implemented.
///
/// # Safety
/// P1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_persistent(p: *mut pmix_info_t) {
    // SAFETY: the caller's contract.
    unsafe { change(p, InfoFlags::PERSISTENT, with) };
}

/// Marks the info as the last of its array.
///
/// Support: implemented.
///
/// # Safety
/// P1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_set_end(p: *mut pmix_info_t) {
    // SAFETY: the caller's contract.
    unsafe { change(p, InfoFlags::ARRAY_END, with) };
}

/// Whether the operation must fail if the info is not honoured.
///
/// Support: implemented.
///
/// # Safety
/// P1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_is_required(p: *const pmix_info_t) -> bool {
    // SAFETY: the caller's contract.
    unsafe { has(p, InfoFlags::REQUIRED) }
}

/// Whether the info need not be honoured.
///
/// Support: implemented.
///
/// # Safety
/// P1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_is_optional(p: *const pmix_info_t) -> bool {
    // SAFETY: the caller's contract.
    !unsafe { has(p, InfoFlags::REQUIRED) }
}

/// Whether the info has been honoured.
///
/// Support: implemented.
///
/// # Safety
/// P1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_was_processed(p: *const pmix_info_t) -> bool {
    // SAFETY: the caller's contract.
    unsafe { has(p, InfoFlags::PROCESSED) }
}

/// Whether the info qualifies the one before.
///
/// Support: implemented.
///
/// # Safety
/// P1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_is_qualifier(p: *const pmix_info_t) -> bool {
    // SAFETY: the caller's contract.
    unsafe { has(p, InfoFlags::QUALIFIER) }
}

/// Whether the value belongs to another owner.
///
/// Support: implemented.
///
/// # Safety
/// P1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_is_persistent(p: *const pmix_info_t) -> bool {
    // SAFETY: the caller's contract.
    unsafe { has(p, InfoFlags::PERSISTENT) }
}

/// Whether the info is the last of its array.
///
/// Support: implemented.
///
/// # Safety
/// P1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_is_end(p: *const pmix_info_t) -> bool {
    // SAFETY: the caller's contract.
    unsafe { has(p, InfoFlags::ARRAY_END) }
}

/// Whether a flag is set.
///
/// # Safety
/// P1.
unsafe fn has(at: *const pmix_info_t, flag: InfoFlags) -> bool {
    // SAFETY: the caller's contract.
    guard_or(false, || unsafe { pointer::shared(at, "info") }.is_ok_and(|info| info.flags & flag.bits() != 0))
}

/// Changes the flags.
///
/// # Safety
/// P1.
unsafe fn change(
    at: *mut pmix_info_t,
    flag: InfoFlags,
    change: fn(pmix_info_directives_t, pmix_info_directives_t) -> pmix_info_directives_t,
) {
    guard_or((), || {
        // SAFETY: the caller's contract.
        if let Ok(info) = unsafe { pointer::unique(at, "info") } {
            info.flags = change(info.flags, flag.bits());
        }
    });
}

fn with(flags: pmix_info_directives_t, flag: pmix_info_directives_t) -> pmix_info_directives_t {
    flags | flag
}

fn without(flags: pmix_info_directives_t, flag: pmix_info_directives_t) -> pmix_info_directives_t {
    flags & !flag
}
