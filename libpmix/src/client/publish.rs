//! Publication and lookup.

use modex::types::AsStatus;
use modex::types::{Key, Pdata, Status};
use modex::{Lookup, Publish, Unpublish};

use super::asynchronous::{run, start, start_with};
use crate::form::Form;
use crate::guard::{Failure, guard, guard_status};
use crate::operation::{Answer, Operation, Results};
use crate::pointer::CallerData;
use crate::to_c::{self, Array};
use crate::types::{
    c_char, c_void, pmix_info_t, pmix_lookup_cbfunc_t, pmix_op_cbfunc_t, pmix_pdata_t, pmix_status_t, pmix_value_t,
};
use crate::{call, from_c, pointer, process};

/// Publishes data: every info that is not a directive. See the standard's function of the same name.
///
/// Support: passed to the host.
///
/// # Safety
/// `info` has `ninfo` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Publish(info: *const pmix_info_t, ninfo: usize) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        run(unsafe { publication(info, ninfo) }?)
    })
}

/// As [`PMIx_Publish`], with a callback.
///
/// Support: passed to the host.
///
/// # Safety
/// `info` has `ninfo` elements. `cbfunc` is NULL or may be called on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Publish_nb(
    info: *const pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        start(unsafe { publication(info, ninfo) }?, cbfunc, cbdata)
    })
}

/// # Safety
/// `info` has `ninfo` elements.
unsafe fn publication(info: *const pmix_info_t, ninfo: usize) -> Result<Operation, Failure> {
    process::member()?;
    // SAFETY: the caller's contract.
    let info = unsafe { from_c::infos(info, ninfo) }?;
    if info.is_empty() { Err(Failure(Status::ERR_BAD_PARAM)) } else { Ok(Publish::new(info).into()) }
}

/// Finds published data: each element of `data` names a key, and gets publisher and value. A key that was not found
/// keeps the type `PMIX_UNDEF`. See the standard's function of the same name.
///
/// Support: passed to the host.
///
/// # Safety
/// The arrays have as many elements as the counts say. The values in `data` own nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Lookup(
    data: *mut pmix_pdata_t,
    ndata: usize,
    info: *const pmix_info_t,
    ninfo: usize,
) -> pmix_status_t {
    guard_status(|| {
        process::member()?;
        if data.is_null() || ndata == 0 {
            return Err(Failure(Status::ERR_BAD_PARAM));
        }
        // SAFETY: the caller's contract.
        let keys = unsafe { from_c::pdata_keys(data, ndata) }?;
        // SAFETY: the caller's contract.
        let directives = unsafe { from_c::infos(info, ninfo) }?;
        // SAFETY: the caller's contract.
        let places = unsafe { pointer::slice_mut(data, ndata, "array of published values") }?;
        places.iter_mut().for_each(|place| pmix_value_t::construct(&mut place.value));
        let answer = call::run(Lookup::new(keys.clone(), directives).into())?;
        let found = found(answer.results);
        let mut missing = 0_usize;
        for (place, key) in places.iter_mut().zip(&keys) {
            match found.iter().find(|pdata| pdata.key == *key) {
                Some(pdata) => write(pdata, place)?,
                None => missing += 1,
            }
        }
        match missing {
            0 => Ok(answer.status),
            all if all == places.len() => Err(Failure(Status::ERR_NOT_FOUND)),
            _ => Ok(Status::ERR_PARTIAL_SUCCESS),
        }
    })
}

/// As [`PMIx_Lookup`], with a callback, which gets the found values.
///
/// Support: passed to the host.
///
/// # Safety
/// `keys` is an array of strings that a NULL ends; `info` has `ninfo` elements. `cbfunc` may be called on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Lookup_nb(
    keys: *mut *mut c_char,
    info: *const pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_lookup_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t {
    guard(|| {
        process::member()?;
        // SAFETY: the caller's contract.
        let keys = unsafe { from_c::keys(keys) }?;
        // SAFETY: the caller's contract.
        let directives = unsafe { from_c::infos(info, ninfo) }?;
        let Some(callback) = cbfunc.filter(|_| !keys.is_empty()) else {
            return Err(Failure(Status::ERR_BAD_PARAM));
        };
        let data = CallerData::new(cbdata);
        start_with(Lookup::new(keys, directives).into(), move |result| deliver(result, callback, data))
    })
}

fn deliver(result: Result<Answer, Status>, callback: pmix_lookup_cbfunc_t, data: CallerData) {
    let converted = result.and_then(|answer| {
        let array = to_c::pdata(&found(answer.results)).map_err(|error| error.status())?;
        Ok((answer.status, array))
    });
    let (status, mut array) = converted.unwrap_or_else(|status| (status, Array::empty()));
    // SAFETY: the caller gave the function for this, and its data with it; the array lives until it returns.
    unsafe { callback(status.to_raw(), array.as_mut_ptr(), array.len(), data.get()) };
}

fn found(results: Results) -> Vec<Pdata> {
    match results {
        Results::Found(found) => found,
        _ => Vec::new(),
    }
}

fn write(pdata: &Pdata, place: &mut pmix_pdata_t) -> Result<(), Failure> {
    place.proc = to_c::proc(&pdata.proc);
    Ok(to_c::value(&pdata.value, &mut place.value)?)
}

/// Withdraws the data that this process has published under these keys (NULL: all). See the standard's function of the
/// same name.
///
/// Support: passed to the host.
///
/// # Safety
/// `keys` is NULL or an array of strings that a NULL ends; `info` has `ninfo` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Unpublish(
    keys: *mut *mut c_char,
    info: *const pmix_info_t,
    ninfo: usize,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        run(unsafe { withdrawal(keys, info, ninfo) }?)
    })
}

/// As [`PMIx_Unpublish`], with a callback.
///
/// Support: passed to the host.
///
/// # Safety
/// As [`PMIx_Unpublish`]. `cbfunc` is NULL or may be called on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Unpublish_nb(
    keys: *mut *mut c_char,
    info: *const pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        start(unsafe { withdrawal(keys, info, ninfo) }?, cbfunc, cbdata)
    })
}

/// # Safety
/// As [`PMIx_Unpublish`].
unsafe fn withdrawal(keys: *mut *mut c_char, info: *const pmix_info_t, ninfo: usize) -> Result<Operation, Failure> {
    process::member()?;
    // SAFETY: the caller's contract.
    let keys: Vec<Key> = unsafe { from_c::keys(keys) }?;
    // SAFETY: the caller's contract.
    let directives = unsafe { from_c::infos(info, ninfo) }?;
    Ok(Unpublish::new(keys, directives).into())
}
