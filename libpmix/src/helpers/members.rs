//! Members of structures: load, copy, and operations for a single structure.

use super::{family, info};
use crate::error::CError;
use crate::form::{Argv, Depth, Form};
use crate::guard::guard_or;
use crate::types::{
    c_char, c_void, pmix_app_t, pmix_byte_object_t, pmix_coord_t, pmix_data_type_t, pmix_envar_t, pmix_fabric_t,
    pmix_info_t, pmix_pdata_t, pmix_proc_t, pmix_query_t, pmix_regattr_t, pmix_value_t,
};
use crate::{memory, pointer};

/// Releases one application, its content, and its block.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for its content; the block is libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_App_release(p: *mut pmix_app_t) {
    // SAFETY: the caller's contract.
    unsafe { family::release::<pmix_app_t>(p) };
}

/// Gives an application `n` empty infos.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to an application.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_App_info_create(p: *mut pmix_app_t, n: usize) {
    guard_or((), || {
        // SAFETY: the caller's contract.
        if let Ok(app) = unsafe { pointer::unique(p, "application") } {
            (app.info, app.ninfo) = new_infos(n);
        }
    });
}

/// Releases one query, its content, and its block.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for its content; the block is libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Query_release(p: *mut pmix_query_t) {
    // SAFETY: the caller's contract.
    unsafe { family::release::<pmix_query_t>(p) };
}

/// Gives a query `n` empty qualifiers.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to a query.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Query_qualifiers_create(p: *mut pmix_query_t, n: usize) {
    guard_or((), || {
        // SAFETY: the caller's contract.
        if let Ok(query) = unsafe { pointer::unique(p, "query") } {
            (query.qualifiers, query.nqual) = new_infos(n);
        }
    });
}

fn new_infos(count: usize) -> (*mut pmix_info_t, usize) {
    let first = info::PMIx_Info_create(count);
    (first, if first.is_null() { 0 } else { count })
}

/// Gives a byte object its bytes, which it then owns.
///
/// Support: implemented.
///
/// # Safety
/// P1: `b` points to a byte object; `d` is a block of libc's or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Byte_object_load(b: *mut pmix_byte_object_t, d: *mut c_char, sz: usize) {
    guard_or((), || {
        // SAFETY: the caller's contract.
        if let Ok(object) = unsafe { pointer::unique(b, "byte object") } {
            *object = pmix_byte_object_t { bytes: d, size: if d.is_null() { 0 } else { sz } };
        }
    });
}

/// Sets a variable to copies of its name and value.
///
/// Support: implemented.
///
/// # Safety
/// P1: `e` points to storage for a variable; the strings may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Envar_load(
    e: *mut pmix_envar_t,
    var: *mut c_char,
    value: *mut c_char,
    separator: c_char,
) {
    guard_or((), || {
        // SAFETY: the caller's contract.
        if let Ok(envar) = unsafe { pointer::unique(e, "variable") } {
            let lent = pmix_envar_t { envar: var, value, separator };
            // SAFETY: the caller's contract.
            unsafe { replace::<pmix_envar_t>(&lent, envar) };
        }
    });
}

/// Sets an attribute's description to copies.
///
/// Support: implemented.
///
/// # Safety
/// P1: `info` points to storage for a description; the strings may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Regattr_load(
    info: *mut pmix_regattr_t,
    name: *const c_char,
    key: *const c_char,
    type_: pmix_data_type_t,
    description: *const c_char,
) {
    guard_or((), || {
        // SAFETY: the caller's contract.
        let Ok(regattr) = (unsafe { pointer::unique(info, "attribute's description") }) else { return };
        pmix_regattr_t::construct(regattr);
        // SAFETY: the caller's contract; the name in place is as long as a key.
        unsafe { super::names::PMIx_Load_key(regattr.string.as_mut_ptr(), key) };
        regattr.type_ = type_;
        // SAFETY: the caller's contract.
        let outcome = unsafe { load_texts(regattr, name, description) };
        if outcome.is_err() {
            // SAFETY: F1: only this function has touched it.
            unsafe { pmix_regattr_t::destruct(regattr) };
        }
    });
}

/// # Safety
/// P1: the strings may be NULL.
unsafe fn load_texts(
    regattr: &mut pmix_regattr_t,
    name: *const c_char,
    description: *const c_char,
) -> Result<(), CError> {
    // SAFETY: the caller's contract.
    if let Some(name) = unsafe { pointer::text(name, "name") }? {
        regattr.name = memory::new_string(name.to_bytes())?;
    }
    // SAFETY: the caller's contract.
    if let Some(description) = unsafe { pointer::text(description, "description") }? {
        Argv::write_all(std::iter::once(description.to_bytes()), &mut regattr.description)?;
    }
    Ok(())
}

/// Makes an attribute's description a deep copy of another.
///
/// Support: implemented.
///
/// # Safety
/// P1: `dest` points to storage for a description, `src` to a description.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Regattr_xfer(dest: *mut pmix_regattr_t, src: *const pmix_regattr_t) {
    guard_or((), || {
        // SAFETY: the caller's contract.
        let Ok(from) = (unsafe { pointer::shared(src, "attribute's description") }) else { return };
        let from = *from;
        // SAFETY: the caller's contract.
        if let Ok(to) = unsafe { pointer::unique(dest, "attribute's description") } {
            // SAFETY: the caller's contract.
            unsafe { replace::<pmix_regattr_t>(&from, to) };
        }
    });
}

/// Sets published data to a deep copy of the data, as `PMIx_Value_load`.
///
/// Support: implemented.
///
/// # Safety
/// P1: `dest` points to storage for published data, `p` to a process, `key` is a string, `data` points to an element of
/// the type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Pdata_load(
    dest: *mut pmix_pdata_t,
    p: *const pmix_proc_t,
    key: *const c_char,
    data: *const c_void,
    type_: pmix_data_type_t,
) {
    guard_or((), || {
        // SAFETY: the caller's contract.
        let Ok(pdata) = (unsafe { pointer::unique(dest, "published value") }) else { return };
        pmix_pdata_t::construct(pdata);
        // SAFETY: the caller's contract.
        unsafe { super::names::PMIx_Xfer_procid(&raw mut pdata.proc, p) };
        // SAFETY: the caller's contract; the key in place is as long as a key.
        unsafe { super::names::PMIx_Load_key(pdata.key.as_mut_ptr(), key) };
        // SAFETY: the caller's contract.
        unsafe { super::value::PMIx_Value_load(&raw mut pdata.value, data, type_) };
    });
}

/// Makes published data a deep copy of others.
///
/// Support: implemented.
///
/// # Safety
/// P1: `dest` points to storage for published data, `src` to published data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Pdata_xfer(dest: *mut pmix_pdata_t, src: *mut pmix_pdata_t) {
    guard_or((), || {
        // SAFETY: the caller's contract.
        let Ok(from) = (unsafe { pointer::shared(src.cast_const(), "published value") }) else { return };
        let from = *from;
        // SAFETY: the caller's contract.
        let Ok(to) = (unsafe { pointer::unique(dest, "published value") }) else { return };
        pmix_pdata_t::construct(to);
        (to.proc, to.key) = (from.proc, from.key);
        // SAFETY: the caller's contract. A value that can't be copied is left empty.
        let copied: Result<(), CError> = unsafe { super::value::copy_over(&from.value, &mut to.value) };
        if copied.is_err() {
            pmix_value_t::construct(&mut to.value);
        }
    });
}

/// `number` coordinates with `dims` dimensions each, in one block, for `PMIx_Coord_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Coord_create(dims: usize, number: usize) -> *mut pmix_coord_t {
    guard_or(std::ptr::null_mut(), || {
        let Ok(mut coords) = crate::to_c::Array::<pmix_coord_t>::constructed(number) else {
            return std::ptr::null_mut();
        };
        for coord in coords.as_mut_slice() {
            coord.coord = memory::zeroed_array(dims);
            coord.dims = if coord.coord.is_null() { 0 } else { dims };
        }
        coords.into_raw().0
    })
}

/// Makes a fabric empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to storage for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Fabric_construct(p: *mut pmix_fabric_t) {
    guard_or((), || {
        // SAFETY: the caller's contract.
        if let Ok(fabric) = unsafe { pointer::unique(p, "fabric") } {
            let nothing = std::ptr::null_mut();
            *fabric =
                pmix_fabric_t { name: nothing, index: 0, info: std::ptr::null_mut(), ninfo: 0, module: nothing.cast() };
        }
    });
}

/// Makes a structure a deep copy of another; its old content is not released.
///
/// # Safety
/// P1 for every pointer inside `from`.
unsafe fn replace<F: Form<C = F>>(from: &F, to: &mut F) {
    F::construct(to);
    // SAFETY: the caller's contract.
    if unsafe { F::copy(from, to, Depth::TOP) }.is_err() {
        // SAFETY: F1: only `copy` has touched it.
        unsafe { F::destruct(to) };
    }
}
