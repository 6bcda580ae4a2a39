//! Infos: load, copy, flags.

use modex::types::codes::boolean::NON_BOOL;
use modex::types::{Info, InfoFlags};

use super::value;
use crate::argument::{Data, Filled, In, KeyText, Out, TypeCode};
use crate::error::CError;
use crate::form::{Form, Whole};
use crate::guard::{guard, guard_or};
use crate::to_c::Array;
use crate::types::{c_char, pmix_boolean_t, pmix_info_directives_t, pmix_info_t, pmix_status_t};
use crate::{from_c, memory, pointer};

/// `n` empty infos in one block, the last with the end mark, for `PMIx_Info_free`; NULL for none. An empty info follows
/// the last, because PRRTE 3.0 destructs the second info of an array of one.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_create(n: usize) -> *mut pmix_info_t {
    guard_or(std::ptr::null_mut(), || {
        let Ok(mut infos) = Array::<pmix_info_t>::constructed_with_spare(n) else { return std::ptr::null_mut() };
        infos.mark_end();
        infos.into_raw().0
    })
}

/// Sets key and value (a deep copy of the data, as `PMIx_Value_load`). The info's old content is not released.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_load<'a>(
    mut info: Out<'a, pmix_info_t>,
    key: KeyText<'a>,
    data: Data<'a>,
    type_: TypeCode<'a>,
) -> pmix_status_t {
    guard(|| Ok(load(info.place("info")?, key, data, type_)?))
}

/// [`PMIx_Info_load`] inside the library.
///
/// # Errors
/// [`CError`] when the key is invalid, or as [`value::load`]; the info is then empty.
pub(super) fn load<'a>(
    info: &mut pmix_info_t,
    key: KeyText<'a>,
    data: Data<'a>,
    code: TypeCode<'a>,
) -> Result<(), CError> {
    pmix_info_t::construct(info);
    let name = from_c::key_text(key)?;
    value::load(&mut info.value, data, code)?;
    pointer::put_fixed_text(name.as_bytes(), &mut info.key, "key")
}

/// Makes an info a deep copy of another; its old content is not released. A persistent value belongs to another owner:
/// the copy points to it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_xfer(mut dest: Out<'_, pmix_info_t>, src: In<'_, pmix_info_t>) -> pmix_status_t {
    guard(|| {
        let from = src.get("info")?.shallow();
        Ok(copy_over(from.whole(), dest.place("info")?)?)
    })
}

/// [`PMIx_Info_xfer`] inside the library.
///
/// # Errors
/// As [`value::copy_over`]; the info is then empty.
pub(super) fn copy_over(from: Whole<'_, pmix_info_t>, to: &mut pmix_info_t) -> Result<(), CError> {
    if from.flags & InfoFlags::PERSISTENT.bits() != 0 {
        *to = *from;
        return Ok(());
    }
    pmix_info_t::construct(to);
    value::copy_over(from.value(), &mut to.value)?;
    to.key = from.key;
    to.flags = from.flags;
    Ok(())
}

/// Size of an info in bytes, with its content.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_get_size(val: In<'_, pmix_info_t>, mut size: Out<'_, usize>) -> pmix_status_t {
    guard(|| {
        let info = val.get("info")?;
        let total = size.place("place for a size")?;
        *total = value::size_of_value(info.value())? + size_of_val(&info.key) + size_of_val(&info.flags);
        Ok(())
    })
}

/// The truth value of an info; see `PMIx_Value_true`.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_true(p: In<'_, pmix_info_t>) -> pmix_boolean_t {
    guard_or(NON_BOOL, || p.get("info").map_or(NON_BOOL, |info| value::truth_of(info.value())))
}

/// A description, for the caller to free; NULL when the pointer is no info.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_string(info: In<'_, pmix_info_t>) -> *mut c_char {
    guard_or(std::ptr::null_mut(), || {
        let info: Result<Info, CError> = info.get("info").and_then(from_c::info);
        info.map_or(std::ptr::null_mut(), |info| memory::string(super::print::info(&info).as_bytes()))
    })
}

/// Marks the info as required: the operation must fail if the info is not honoured.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_required(p: Filled<'_, pmix_info_t>) {
    change(p, InfoFlags::REQUIRED, with);
}

/// Marks the info as optional.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_optional(p: Filled<'_, pmix_info_t>) {
    change(p, InfoFlags::REQUIRED, without);
}

/// Marks the info as honoured.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_processed(p: Filled<'_, pmix_info_t>) {
    change(p, InfoFlags::PROCESSED, with);
}

/// Marks the info: it qualifies the one before.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_qualifier(p: Filled<'_, pmix_info_t>) {
    change(p, InfoFlags::QUALIFIER, with);
}

/// Marks the value as another owner's.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_persistent(p: Filled<'_, pmix_info_t>) {
    change(p, InfoFlags::PERSISTENT, with);
}

/// Marks the info as the last of its array.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_set_end(p: Filled<'_, pmix_info_t>) {
    change(p, InfoFlags::ARRAY_END, with);
}

/// Whether the operation must fail if the info is not honoured.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_is_required(p: In<'_, pmix_info_t>) -> bool {
    has(p, InfoFlags::REQUIRED)
}

/// Whether the info need not be honoured.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_is_optional(p: In<'_, pmix_info_t>) -> bool {
    !has(p, InfoFlags::REQUIRED)
}

/// Whether the info has been honoured.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_was_processed(p: In<'_, pmix_info_t>) -> bool {
    has(p, InfoFlags::PROCESSED)
}

/// Whether the info qualifies the one before.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_is_qualifier(p: In<'_, pmix_info_t>) -> bool {
    has(p, InfoFlags::QUALIFIER)
}

/// Whether the value belongs to another owner.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_is_persistent(p: In<'_, pmix_info_t>) -> bool {
    has(p, InfoFlags::PERSISTENT)
}

/// Whether the info is the last of its array.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_is_end(p: In<'_, pmix_info_t>) -> bool {
    has(p, InfoFlags::ARRAY_END)
}

/// Whether a flag is set.
fn has(at: In<'_, pmix_info_t>, flag: InfoFlags) -> bool {
    guard_or(false, || at.get("info").is_ok_and(|info| info.flags & flag.bits() != 0))
}

/// Changes the flags.
fn change(
    mut at: Filled<'_, pmix_info_t>,
    flag: InfoFlags,
    change: fn(pmix_info_directives_t, pmix_info_directives_t) -> pmix_info_directives_t,
) {
    guard_or((), || {
        if let Ok(info) = at.place("info") {
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
