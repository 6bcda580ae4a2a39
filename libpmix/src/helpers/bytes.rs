//! Bytes, variables, map expressions, attributes: construct, create, destruct, free.

use super::family;
use crate::argument::{Count, Freed, InOut, Out};
use crate::types::{pmix_byte_object_t, pmix_envar_t, pmix_regattr_t, pmix_regex2_t};

/// Makes a byte object empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Byte_object_construct(p: Out<'_, pmix_byte_object_t>) {
    family::construct::<pmix_byte_object_t>(p);
}

/// `n` empty ones in one block, for `PMIx_Byte_object_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Byte_object_create(n: usize) -> *mut pmix_byte_object_t {
    family::create::<pmix_byte_object_t>(n)
}

/// Releases the content of a byte object and empties it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Byte_object_destruct(p: InOut<'_, pmix_byte_object_t>) {
    family::destruct(p);
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Byte_object_free<'a>(p: Freed<'a, pmix_byte_object_t>, n: Count<'a, pmix_byte_object_t>) {
    family::free(p, n);
}

/// Makes a variable empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Envar_construct(p: Out<'_, pmix_envar_t>) {
    family::construct::<pmix_envar_t>(p);
}

/// `n` empty ones in one block, for `PMIx_Envar_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Envar_create(n: usize) -> *mut pmix_envar_t {
    family::create::<pmix_envar_t>(n)
}

/// Releases the content of a variable and empties it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Envar_destruct(p: InOut<'_, pmix_envar_t>) {
    family::destruct(p);
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Envar_free<'a>(p: Freed<'a, pmix_envar_t>, n: Count<'a, pmix_envar_t>) {
    family::free(p, n);
}

/// Makes a map expression empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Regex2_construct(p: Out<'_, pmix_regex2_t>) {
    family::construct::<pmix_regex2_t>(p);
}

/// `n` empty ones in one block, for `PMIx_Regex2_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Regex2_create(n: usize) -> *mut pmix_regex2_t {
    family::create::<pmix_regex2_t>(n)
}

/// Releases the content of a map expression and empties it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Regex2_destruct(p: InOut<'_, pmix_regex2_t>) {
    family::destruct(p);
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Regex2_free<'a>(p: Freed<'a, pmix_regex2_t>, n: Count<'a, pmix_regex2_t>) {
    family::free(p, n);
}

/// Makes an attribute's description empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Regattr_construct(p: Out<'_, pmix_regattr_t>) {
    family::construct::<pmix_regattr_t>(p);
}

/// `n` empty ones in one block, for `PMIx_Regattr_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Regattr_create(n: usize) -> *mut pmix_regattr_t {
    family::create::<pmix_regattr_t>(n)
}

/// Releases the content of an attribute's description and empties it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Regattr_destruct(p: InOut<'_, pmix_regattr_t>) {
    family::destruct(p);
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Regattr_free<'a>(p: Freed<'a, pmix_regattr_t>, n: Count<'a, pmix_regattr_t>) {
    family::free(p, n);
}
