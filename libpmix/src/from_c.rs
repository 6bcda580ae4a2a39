//! Conversion of foreign memory to owned Rust values. No result refers to foreign memory (M2).
//!
//! Arguments come as the types of [`super::argument`], which carry the promise of the caller.

use modex::types::{App, Info, Key, Namespace, Pdata, ProcId, Query, Rank, Status, Text, Value};

use super::argument::{CText, Counted, In, KeyText, NamespaceText, TextArray};
use super::error::CError;
use super::form::{Depth, Form, Plain, Whole, key_in};
use super::guard::Failure;
use super::pointer;
use super::types::{
    c_char, pmix_app_t, pmix_byte_object_t, pmix_info_t, pmix_pdata_t, pmix_proc_t, pmix_query_t, pmix_status_t,
    pmix_value_t,
};

/// A process; `None` for NULL. An empty namespace means `own`; without it, it is refused.
///
/// # Errors
/// [`CError`] when it is no process.
pub fn proc(proc: In<'_, pmix_proc_t>, own: Option<&Namespace>) -> Result<Option<ProcId>, CError> {
    if proc.is_null() {
        return Ok(None);
    }
    proc_of(proc.get("process")?.get(), own).map(Some)
}

/// A process; NULL is refused.
///
/// # Errors
/// As [`proc`].
pub fn some_proc(process: In<'_, pmix_proc_t>, own: Option<&Namespace>) -> Result<ProcId, CError> {
    proc(process, own)?.ok_or(CError::Null { what: "process" })
}

/// An array of processes. An empty namespace means `own`.
///
/// # Errors
/// As [`proc`], and when NULL has elements.
pub fn procs(array: Counted<'_, pmix_proc_t>, own: Option<&Namespace>) -> Result<Vec<ProcId>, CError> {
    let array = array.list("array of processes")?.get();
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
pub fn namespace(name: NamespaceText<'_>, own: Option<&Namespace>) -> Result<Namespace, CError> {
    match name.get("namespace")? {
        Some(name) => namespace_of(name, own),
        None => own.cloned().ok_or(CError::Null { what: "namespace" }),
    }
}

/// A key.
///
/// # Errors
/// [`CError`] when it is NULL or no key.
pub fn key(name: KeyText<'_>) -> Result<Key, CError> {
    Ok(Key::new(key_text(name)?.to_owned())?)
}

/// A key in place, for look-ups without a copy. The only check is that it is text.
///
/// # Errors
/// [`CError`] when it is NULL, empty, too long or no text.
pub fn key_text(name: KeyText<'_>) -> Result<&str, CError> {
    let name = name.get("key")?.ok_or(CError::Null { what: "key" })?;
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
pub fn text(string: CText<'_>) -> Result<Option<Text>, CError> {
    Ok(string.get("string")?.map(Text::from))
}

/// An array of strings that a NULL ends; none for NULL.
///
/// # Errors
/// [`CError`] when a pointer cannot be a string.
pub fn argv(array: TextArray<'_>) -> Result<Vec<Text>, CError> {
    Ok(array.get("string of an array")?.into_iter().map(Text::from).collect())
}

/// An array of keys that a NULL ends; none for NULL.
///
/// # Errors
/// [`CError`] when one string is no key.
pub fn keys(array: TextArray<'_>) -> Result<Vec<Key>, CError> {
    array.get("key")?.into_iter().map(|text| Ok(Key::from_bytes(text.to_bytes())?)).collect()
}

/// A value.
///
/// # Errors
/// [`CError`] when its type is unknown or has no structure, or its content is impossible.
pub fn value(value: Whole<'_, pmix_value_t>) -> Result<Value, CError> {
    pmix_value_t::read(value, Depth::TOP)
}

/// A value behind a pointer.
///
/// # Errors
/// As [`value`], and when it is NULL.
pub fn value_at(pointer: In<'_, pmix_value_t>) -> Result<Value, CError> {
    value(pointer.get("value")?)
}

/// Key, flags and value.
///
/// # Errors
/// As [`value`], and when the key is invalid.
pub fn info(info: Whole<'_, pmix_info_t>) -> Result<Info, CError> {
    pmix_info_t::read(info, Depth::TOP)
}

/// Refuses required directives, for functions that understand none.
///
/// # Errors
/// `ERR_NOT_SUPPORTED`.
pub fn refuse_required(directives: &[Info]) -> Result<(), Failure> {
    refuse_others(directives, &[])
}

/// Refuses required directives outside `understood`, or of a type that nobody reads.
///
/// # Errors
/// `ERR_NOT_SUPPORTED`.
pub fn refuse_others(directives: &[Info], understood: &[&str]) -> Result<(), Failure> {
    modex::keys::first_unmet(directives, understood).map_or(Ok(()), |_| Err(Failure(Status::ERR_NOT_SUPPORTED)))
}

/// An array of infos.
///
/// # Errors
/// As [`info`], and when NULL has elements.
pub fn infos(array: Counted<'_, pmix_info_t>) -> Result<Vec<Info>, CError> {
    super::form::read_list(array, "array of infos", Depth::TOP)
}

/// An array of queries.
///
/// # Errors
/// As [`infos`].
pub fn queries(array: Counted<'_, pmix_query_t>) -> Result<Vec<Query>, CError> {
    super::form::read_list(array, "array of queries", Depth::TOP)
}

/// An array of applications.
///
/// # Errors
/// As [`infos`].
pub fn apps(array: Counted<'_, pmix_app_t>) -> Result<Vec<App>, CError> {
    super::form::read_list(array, "array of applications", Depth::TOP)
}

/// An array of published values.
///
/// # Errors
/// As [`infos`].
pub fn pdata(array: Counted<'_, pmix_pdata_t>) -> Result<Vec<Pdata>, CError> {
    super::form::read_list(array, "array of published values", Depth::TOP)
}

/// The keys of an array of published values, for a look-up: the other members are not filled in yet.
///
/// # Errors
/// When a key is invalid.
pub fn pdata_keys(array: &[pmix_pdata_t]) -> Result<Vec<Key>, CError> {
    array.iter().map(|pdata| key_in(&pdata.key)).collect()
}

/// Bytes behind a byte object; none for NULL.
///
/// # Errors
/// When NULL has bytes, or a pointer cannot be one.
pub fn byte_object(object: In<'_, pmix_byte_object_t>) -> Result<Vec<u8>, CError> {
    if object.is_null() {
        return Ok(Vec::new());
    }
    Ok(object.get("byte object")?.content("bytes")?.to_vec())
}

/// Bytes and their number.
///
/// # Errors
/// When NULL has bytes.
pub fn bytes(data: Counted<'_, Plain<u8>>) -> Result<Vec<u8>, CError> {
    Ok(data.list("bytes")?.get().to_vec())
}

/// An array of status codes.
///
/// # Errors
/// When NULL has elements.
pub fn statuses(array: Counted<'_, Plain<pmix_status_t>>) -> Result<Vec<Status>, CError> {
    Ok(array.list("array of status codes")?.get().iter().copied().map(Status::from_raw).collect())
}
