//! Conversion of foreign memory to owned Rust values. No result refers to foreign memory (M2).
//!
//! Every function is `unsafe` for one reason, P1 (see [`super::pointer`]): the caller's pointers are valid.

use modex::types::{App, Info, Key, Namespace, Pdata, ProcId, Query, Rank, Status, Text, Value};

use super::error::CError;
pub use super::form::bare_regex as regex;
use super::form::{Argv, Depth, Form, KeyText};
use super::pointer;
use super::types::{
    PMIX_MAX_KEYLEN, PMIX_MAX_NSLEN, c_char, pmix_app_t, pmix_byte_object_t, pmix_info_t, pmix_pdata_t, pmix_proc_t,
    pmix_query_t, pmix_status_t, pmix_value_t,
};

/// A process; `None` for NULL. An empty namespace means `own`; without it, it is refused.
///
/// # Errors
/// [`CError`] when it is no process.
///
/// # Safety
/// P1.
pub unsafe fn proc(proc: *const pmix_proc_t, own: Option<&Namespace>) -> Result<Option<ProcId>, CError> {
    if proc.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's contract.
    let proc = unsafe { pointer::shared(proc, "process") }?;
    proc_of(proc, own).map(Some)
}

/// A process; NULL is refused.
///
/// # Errors
/// As [`proc`].
///
/// # Safety
/// P1.
pub unsafe fn some_proc(process: *const pmix_proc_t, own: Option<&Namespace>) -> Result<ProcId, CError> {
    // SAFETY: the caller's contract.
    unsafe { proc(process, own) }?.ok_or(CError::Null { what: "process" })
}

/// An array of processes. An empty namespace means `own`.
///
/// # Errors
/// As [`proc`], and when NULL has elements.
///
/// # Safety
/// P1.
pub unsafe fn procs(array: *const pmix_proc_t, count: usize, own: Option<&Namespace>) -> Result<Vec<ProcId>, CError> {
    // SAFETY: the caller's contract.
    let array = unsafe { pointer::slice(array, count, "array of processes") }?;
    let mut procs: Vec<ProcId> = Vec::with_capacity(array.len());
    for proc in array {
        // Arrays name few namespaces, mostly the one before.
        let namespace = pointer::fixed_text(&proc.nspace, "namespace")?;
        let previous = procs.last().map(|previous| &previous.namespace);
        let known = previous.into_iter().chain(own).find(|known| known.as_str().as_bytes() == namespace);
        let proc = match known {
            Some(known) => ProcId { namespace: known.clone(), rank: Rank::from_raw(proc.rank)? },
            None => proc_of(proc, own)?,
        };
        procs.push(proc);
    }
    Ok(procs)
}

fn proc_of(proc: &pmix_proc_t, own: Option<&Namespace>) -> Result<ProcId, CError> {
    let name = pointer::fixed_text(&proc.nspace, "namespace")?;
    Ok(ProcId { namespace: namespace_of(name, own)?, rank: Rank::from_raw(proc.rank)? })
}

fn namespace_of(name: &[u8], own: Option<&Namespace>) -> Result<Namespace, CError> {
    match own {
        Some(own) if name.is_empty() || name == own.as_str().as_bytes() => Ok(own.clone()),
        _ => Ok(Namespace::from_bytes(name)?),
    }
}

/// A namespace. NULL and the empty one mean `own`; without it, they are refused.
///
/// # Errors
/// [`CError`] when it is no namespace.
///
/// # Safety
/// P1: a string, or a whole `pmix_nspace_t`.
pub unsafe fn namespace(name: *const c_char, own: Option<&Namespace>) -> Result<Namespace, CError> {
    // SAFETY: the caller's contract.
    match unsafe { pointer::text_within(name, PMIX_MAX_NSLEN + 1, "namespace") }? {
        Some(name) => namespace_of(name, own),
        None => own.cloned().ok_or(CError::Null { what: "namespace" }),
    }
}

/// A key.
///
/// # Errors
/// [`CError`] when it is NULL or no key.
///
/// # Safety
/// P1: a string, or a whole `pmix_key_t`.
pub unsafe fn key(name: *const c_char) -> Result<Key, CError> {
    // SAFETY: the caller's contract.
    let name = unsafe { key_text(name) }?;
    Ok(Key::new(name.to_owned())?)
}

/// A key in place, for look-ups without a copy. The only check is that it is text.
///
/// # Errors
/// [`CError`] when it is NULL, empty, too long or no text.
///
/// # Safety
/// P1: a string, or a whole `pmix_key_t`, alive and unchanged as long as the result.
pub unsafe fn key_text<'a>(name: *const c_char) -> Result<&'a str, CError> {
    // SAFETY: the caller's contract.
    let name =
        unsafe { pointer::text_within(name, PMIX_MAX_KEYLEN + 1, "key") }?.ok_or(CError::Null { what: "key" })?;
    if name.is_empty() {
        return Err(CError::Key(modex::types::KeyError::Empty));
    }
    std::str::from_utf8(name)
        .map_err(|e| CError::Key(modex::types::KeyError::InvalidByte { position: e.valid_up_to() }))
}

/// A key in a fixed array, such as that of an info, without a copy.
///
/// # Errors
/// [`CError`] when no NUL ends it, or it is no text.
pub fn key_in_place(name: &[c_char]) -> Result<&str, CError> {
    let name = pointer::fixed_text(name, "key")?;
    std::str::from_utf8(name)
        .map_err(|e| CError::Key(modex::types::KeyError::InvalidByte { position: e.valid_up_to() }))
}

/// The key of an info, which may be empty.
///
/// # Errors
/// [`CError`] when it is no key.
pub fn key_of(info: &pmix_info_t) -> Result<Key, CError> {
    super::form::info_key(&info.key)
}

/// A string; `None` for NULL.
///
/// # Errors
/// [`CError`] when the pointer cannot be a string.
///
/// # Safety
/// P1, and a NUL ends it.
pub unsafe fn text(string: *const c_char) -> Result<Option<Text>, CError> {
    // SAFETY: the caller's contract.
    Ok(unsafe { pointer::text(string, "string") }?.map(Text::from))
}

/// An array of strings that a NULL ends; none for NULL.
///
/// # Errors
/// [`CError`] when a pointer cannot be a string.
///
/// # Safety
/// P1, for the array up to its NULL and each string in it.
pub unsafe fn argv(array: *const *mut c_char) -> Result<Vec<Text>, CError> {
    let array: *mut *mut c_char = array.cast_mut();
    // SAFETY: the caller's contract.
    unsafe { Argv::read(&array, Depth::TOP) }
}

/// An array of keys that a NULL ends; none for NULL.
///
/// # Errors
/// [`CError`] when one string is no key.
///
/// # Safety
/// P1, for the array up to its NULL and each string in it.
pub unsafe fn keys(array: *const *mut c_char) -> Result<Vec<Key>, CError> {
    // SAFETY: the caller's contract.
    let texts = unsafe { pointer::texts(array, "key") }?;
    texts.into_iter().map(|text| Ok(Key::from_bytes(text.to_bytes())?)).collect()
}

/// A value.
///
/// # Errors
/// [`CError`] when its type is unknown or has no structure, or its content is impossible.
///
/// # Safety
/// P1 for every pointer inside.
pub unsafe fn value(value: &pmix_value_t) -> Result<Value, CError> {
    // SAFETY: the caller's contract.
    unsafe { pmix_value_t::read(value, Depth::TOP) }
}

/// A value behind a pointer.
///
/// # Errors
/// As [`value`], and when it is NULL.
///
/// # Safety
/// P1.
pub unsafe fn value_at(pointer: *const pmix_value_t) -> Result<Value, CError> {
    // SAFETY: the caller's contract.
    let foreign = unsafe { pointer::shared(pointer, "value") }?;
    // SAFETY: the caller's contract.
    unsafe { value(foreign) }
}

/// Key, flags and value.
///
/// # Errors
/// As [`value`], and when the key is invalid.
///
/// # Safety
/// P1 for every pointer inside.
pub unsafe fn info(info: &pmix_info_t) -> Result<Info, CError> {
    // SAFETY: the caller's contract.
    unsafe { pmix_info_t::read(info, Depth::TOP) }
}

/// An array of infos.
///
/// # Errors
/// As [`info`], and when NULL has elements.
///
/// # Safety
/// P1.
pub unsafe fn infos(array: *const pmix_info_t, count: usize) -> Result<Vec<Info>, CError> {
    // SAFETY: the caller's contract.
    unsafe { super::form::read_list::<pmix_info_t>(array, count, "array of infos", Depth::TOP) }
}

/// An array of queries.
///
/// # Errors
/// As [`infos`].
///
/// # Safety
/// P1.
pub unsafe fn queries(array: *const pmix_query_t, count: usize) -> Result<Vec<Query>, CError> {
    // SAFETY: the caller's contract.
    unsafe { super::form::read_list::<pmix_query_t>(array, count, "array of queries", Depth::TOP) }
}

/// An array of applications.
///
/// # Errors
/// As [`infos`].
///
/// # Safety
/// P1.
pub unsafe fn apps(array: *const pmix_app_t, count: usize) -> Result<Vec<App>, CError> {
    // SAFETY: the caller's contract.
    unsafe { super::form::read_list::<pmix_app_t>(array, count, "array of applications", Depth::TOP) }
}

/// An array of published values.
///
/// # Errors
/// As [`infos`].
///
/// # Safety
/// P1.
pub unsafe fn pdata(array: *const pmix_pdata_t, count: usize) -> Result<Vec<Pdata>, CError> {
    // SAFETY: the caller's contract.
    unsafe { super::form::read_list::<pmix_pdata_t>(array, count, "array of published values", Depth::TOP) }
}

/// The keys of an array of published values, for a look-up: the other members are not filled in yet.
///
/// # Errors
/// When a key is invalid, or NULL has elements.
///
/// # Safety
/// P1.
pub unsafe fn pdata_keys(array: *const pmix_pdata_t, count: usize) -> Result<Vec<Key>, CError> {
    // SAFETY: the caller's contract.
    let array = unsafe { pointer::slice(array, count, "array of published values") }?;
    // SAFETY: a key has no pointers.
    array.iter().map(|pdata| unsafe { KeyText::read(&pdata.key, Depth::TOP) }).collect()
}

/// Bytes behind a byte object; none for NULL.
///
/// # Errors
/// When NULL has bytes, or a pointer cannot be one.
///
/// # Safety
/// P1.
pub unsafe fn byte_object(object: *const pmix_byte_object_t) -> Result<Vec<u8>, CError> {
    if object.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the caller's contract.
    let object = unsafe { pointer::shared(object, "byte object") }?;
    // SAFETY: the caller's contract.
    unsafe { pmix_byte_object_t::read(object, Depth::TOP) }
}

/// Bytes and their number.
///
/// # Errors
/// When NULL has bytes.
///
/// # Safety
/// P1.
pub unsafe fn bytes(data: *const c_char, size_bytes: usize) -> Result<Vec<u8>, CError> {
    // SAFETY: the caller's contract.
    Ok(unsafe { pointer::slice(data.cast::<u8>(), size_bytes, "bytes") }?.to_vec())
}

/// An array of status codes.
///
/// # Errors
/// When NULL has elements.
///
/// # Safety
/// P1.
pub unsafe fn statuses(array: *const pmix_status_t, count: usize) -> Result<Vec<Status>, CError> {
    // SAFETY: the caller's contract.
    let array = unsafe { pointer::slice(array, count, "array of status codes") }?;
    Ok(array.iter().copied().map(Status::from_raw).collect())
}
