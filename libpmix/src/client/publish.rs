//! Publication and lookup.

use modex::types::AsStatus;
use modex::types::{Key, Pdata, Status};
use modex::{Lookup, Publish, Unpublish};

use super::asynchronous::{run, start, start_with};
use crate::argument::{Count, Counted, FilledItems, Items, TextArray};
use crate::call;
use crate::callback::{Bound, Callback};
use crate::client_request::{Answer, ClientRequest, Results};
use crate::form::Form;
use crate::guard::{Failure, guard, guard_status};
use crate::pointer::CallerData;
use crate::to_c::{self, Array};
use crate::types::{pmix_info_t, pmix_lookup_cbfunc_t, pmix_op_cbfunc_t, pmix_pdata_t, pmix_status_t, pmix_value_t};
use crate::{from_c, process};

/// Publishes data: every info that is not a directive. See the standard's function of the same name.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Publish<'a>(
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
) -> pmix_status_t {
    guard(|| run(publication(info.counted(ninfo))?))
}

/// As [`PMIx_Publish`], with a callback.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Publish_nb<'a>(
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| start(publication(info.counted(ninfo))?, cbfunc, cbdata))
}

fn publication(info: Counted<'_, pmix_info_t>) -> Result<ClientRequest, Failure> {
    process::member()?;
    let info = from_c::infos(info)?;
    if info.is_empty() { Err(Failure(Status::ERR_BAD_PARAM)) } else { Ok(Publish::new(info).into()) }
}

/// Finds published data: each element of `data` names a key, and gets publisher and value. A key that was not found
/// keeps the type `PMIX_UNDEF`. If only some were found, the host says `PMIX_ERR_PARTIAL_SUCCESS` or `PMIX_SUCCESS`.
/// See the standard's function of the same name.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Lookup<'a>(
    data: FilledItems<'a, pmix_pdata_t>,
    ndata: Count<'a, pmix_pdata_t>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
) -> pmix_status_t {
    guard_status(|| {
        process::member()?;
        if data.is_null() || ndata.get() == 0 {
            return Err(Failure(Status::ERR_BAD_PARAM));
        }
        let places = data.places(ndata, "array of published values")?;
        let keys = from_c::pdata_keys(places)?;
        let directives = from_c::infos(info.counted(ninfo))?;
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
        if missing == places.len() { Err(Failure(Status::ERR_NOT_FOUND)) } else { Ok(answer.status) }
    })
}

/// As [`PMIx_Lookup`], with a callback, which gets the found values.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Lookup_nb<'a>(
    keys: TextArray<'a>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_lookup_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| {
        process::member()?;
        let keys = from_c::keys(keys)?;
        let directives = from_c::infos(info.counted(ninfo))?;
        let Some(callback) = cbfunc.with(cbdata).filter(|_| !keys.is_empty()) else {
            return Err(Failure(Status::ERR_BAD_PARAM));
        };
        start_with(Lookup::new(keys, directives).into(), move |result| deliver(result, callback))
    })
}

fn deliver(result: Result<Answer, Status>, callback: Bound<pmix_lookup_cbfunc_t>) {
    let converted = result.and_then(|answer| {
        let array = to_c::pdata(&found(answer.results)).map_err(|error| error.status())?;
        Ok((answer.status, array))
    });
    let (status, array) = converted.unwrap_or_else(|status| (status, Array::empty()));
    callback.call(status, array);
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
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Unpublish<'a>(
    keys: TextArray<'a>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
) -> pmix_status_t {
    guard(|| run(withdrawal(keys, info.counted(ninfo))?))
}

/// As [`PMIx_Unpublish`], with a callback.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Unpublish_nb<'a>(
    keys: TextArray<'a>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| start(withdrawal(keys, info.counted(ninfo))?, cbfunc, cbdata))
}

fn withdrawal(keys: TextArray<'_>, info: Counted<'_, pmix_info_t>) -> Result<ClientRequest, Failure> {
    process::member()?;
    let keys: Vec<Key> = from_c::keys(keys)?;
    let directives = from_c::infos(info)?;
    Ok(Unpublish::new(keys, directives).into())
}
