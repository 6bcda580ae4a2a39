//! Parts of requests: values, infos, published values, applications, queries.

use super::family;
use crate::argument::{Count, Freed, InOut, Out};
use crate::types::{pmix_app_t, pmix_info_t, pmix_pdata_t, pmix_query_t, pmix_value_t};

/// Makes a value empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Value_construct(p: Out<'_, pmix_value_t>) {
    family::construct::<pmix_value_t>(p);
}

/// `n` empty ones in one block, for `PMIx_Value_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Value_create(n: usize) -> *mut pmix_value_t {
    family::create::<pmix_value_t>(n)
}

/// Releases the content of a value and empties it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Value_destruct(p: InOut<'_, pmix_value_t>) {
    family::destruct(p);
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Value_free<'a>(p: Freed<'a, pmix_value_t>, n: Count<'a, pmix_value_t>) {
    family::free(p, n);
}

/// Makes an info empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_construct(p: Out<'_, pmix_info_t>) {
    family::construct::<pmix_info_t>(p);
}

/// Releases the content of an info and empties it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_destruct(p: InOut<'_, pmix_info_t>) {
    family::destruct(p);
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Info_free<'a>(p: Freed<'a, pmix_info_t>, n: Count<'a, pmix_info_t>) {
    family::free(p, n);
}

/// Makes a published value empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Pdata_construct(p: Out<'_, pmix_pdata_t>) {
    family::construct::<pmix_pdata_t>(p);
}

/// `n` empty ones in one block, for `PMIx_Pdata_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Pdata_create(n: usize) -> *mut pmix_pdata_t {
    family::create::<pmix_pdata_t>(n)
}

/// Releases the content of a published value and empties it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Pdata_destruct(p: InOut<'_, pmix_pdata_t>) {
    family::destruct(p);
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Pdata_free<'a>(p: Freed<'a, pmix_pdata_t>, n: Count<'a, pmix_pdata_t>) {
    family::free(p, n);
}

/// Makes an application empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_App_construct(p: Out<'_, pmix_app_t>) {
    family::construct::<pmix_app_t>(p);
}

/// `n` empty ones in one block, for `PMIx_App_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_App_create(n: usize) -> *mut pmix_app_t {
    family::create::<pmix_app_t>(n)
}

/// Releases the content of an application and empties it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_App_destruct(p: InOut<'_, pmix_app_t>) {
    family::destruct(p);
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_App_free<'a>(p: Freed<'a, pmix_app_t>, n: Count<'a, pmix_app_t>) {
    family::free(p, n);
}

/// Makes a query empty.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Query_construct(p: Out<'_, pmix_query_t>) {
    family::construct::<pmix_query_t>(p);
}

/// `n` empty ones in one block, for `PMIx_Query_free`; NULL for none.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Query_create(n: usize) -> *mut pmix_query_t {
    family::create::<pmix_query_t>(n)
}

/// Releases the content of a query and empties it.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Query_destruct(p: InOut<'_, pmix_query_t>) {
    family::destruct(p);
}

/// Releases `n` of them, with their content, and their block.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Query_free<'a>(p: Freed<'a, pmix_query_t>, n: Count<'a, pmix_query_t>) {
    family::free(p, n);
}
