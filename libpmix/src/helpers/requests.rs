//! Parts of requests: values, infos, published values, applications, queries.

use super::family;
use crate::types::{pmix_app_t, pmix_info_t, pmix_pdata_t, pmix_query_t, pmix_value_t};

/// Makes a value empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to storage for one, with any content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Value_construct(p: *mut pmix_value_t) {
    // SAFETY: the caller's contract.
    unsafe { family::construct::<pmix_value_t>(p) };
}

/// `n` empty ones in one block, for `PMIx_Value_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Value_create(n: usize) -> *mut pmix_value_t {
    family::create::<pmix_value_t>(n)
}

/// Releases the content of a value and empties it.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for its content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Value_destruct(p: *mut pmix_value_t) {
    // SAFETY: the caller's contract.
    unsafe { family::destruct::<pmix_value_t>(p) };
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for their content; the block came from `PMIx_Value_create` or libc's allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Value_free(p: *mut pmix_value_t, n: usize) {
    // SAFETY: the caller's contract.
    unsafe { family::free::<pmix_value_t>(p, n) };
}

/// Makes an info empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to storage for one, with any content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_construct(p: *mut pmix_info_t) {
    // SAFETY: the caller's contract.
    unsafe { family::construct::<pmix_info_t>(p) };
}

/// Releases the content of an info and empties it.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for its content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_destruct(p: *mut pmix_info_t) {
    // SAFETY: the caller's contract.
    unsafe { family::destruct::<pmix_info_t>(p) };
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for their content; the block came from `PMIx_Info_create` or libc's allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Info_free(p: *mut pmix_info_t, n: usize) {
    // SAFETY: the caller's contract.
    unsafe { family::free::<pmix_info_t>(p, n) };
}

/// Makes a published value empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to storage for one, with any content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Pdata_construct(p: *mut pmix_pdata_t) {
    // SAFETY: the caller's contract.
    unsafe { family::construct::<pmix_pdata_t>(p) };
}

/// `n` empty ones in one block, for `PMIx_Pdata_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Pdata_create(n: usize) -> *mut pmix_pdata_t {
    family::create::<pmix_pdata_t>(n)
}

/// Releases the content of a published value and empties it.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for its content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Pdata_destruct(p: *mut pmix_pdata_t) {
    // SAFETY: the caller's contract.
    unsafe { family::destruct::<pmix_pdata_t>(p) };
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for their content; the block came from `PMIx_Pdata_create` or libc's allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Pdata_free(p: *mut pmix_pdata_t, n: usize) {
    // SAFETY: the caller's contract.
    unsafe { family::free::<pmix_pdata_t>(p, n) };
}

/// Makes an application empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to storage for one, with any content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_App_construct(p: *mut pmix_app_t) {
    // SAFETY: the caller's contract.
    unsafe { family::construct::<pmix_app_t>(p) };
}

/// `n` empty ones in one block, for `PMIx_App_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_App_create(n: usize) -> *mut pmix_app_t {
    family::create::<pmix_app_t>(n)
}

/// Releases the content of an application and empties it.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for its content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_App_destruct(p: *mut pmix_app_t) {
    // SAFETY: the caller's contract.
    unsafe { family::destruct::<pmix_app_t>(p) };
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for their content; the block came from `PMIx_App_create` or libc's allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_App_free(p: *mut pmix_app_t, n: usize) {
    // SAFETY: the caller's contract.
    unsafe { family::free::<pmix_app_t>(p, n) };
}

/// Makes a query empty.
///
/// Support: implemented.
///
/// # Safety
/// P1: `p` points to storage for one, with any content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Query_construct(p: *mut pmix_query_t) {
    // SAFETY: the caller's contract.
    unsafe { family::construct::<pmix_query_t>(p) };
}

/// `n` empty ones in one block, for `PMIx_Query_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Query_create(n: usize) -> *mut pmix_query_t {
    family::create::<pmix_query_t>(n)
}

/// Releases the content of a query and empties it.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for its content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Query_destruct(p: *mut pmix_query_t) {
    // SAFETY: the caller's contract.
    unsafe { family::destruct::<pmix_query_t>(p) };
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
///
/// # Safety
/// P1, and F1 for their content; the block came from `PMIx_Query_create` or libc's allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Query_free(p: *mut pmix_query_t, n: usize) {
    // SAFETY: the caller's contract.
    unsafe { family::free::<pmix_query_t>(p, n) };
}
