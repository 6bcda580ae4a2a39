//! Queries, logging, allocations.

use modex::keys;
use modex::types::{Info, Key, Query, Status};
use modex::{Allocate, Log, QueryInfo};

use super::asynchronous::{
    deliver_infos, infos_of, run, run_for_infos, start, start_for_infos, start_with, store_infos,
};
use crate::guard::{Failure, guard, guard_status};
use crate::operation::{Answer, Operation, Results};
use crate::pointer::CallerData;
use crate::to_c::Array;
use crate::types::{
    c_void, pmix_alloc_directive_t, pmix_info_cbfunc_t, pmix_info_t, pmix_op_cbfunc_t, pmix_query_t, pmix_status_t,
};
use crate::{call, from_c, pointer, process, to_c};

/// Queries the host. Queries about the interface itself are answered here, also before the first initialization. See
/// the standard's function of the same name.
///
/// Support: passed to the host.
///
/// # Safety
/// `queries` has `nqueries` elements. `results` and `nresults` are NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Query_info(
    queries: *mut pmix_query_t,
    nqueries: usize,
    results: *mut *mut pmix_info_t,
    nresults: *mut usize,
) -> pmix_status_t {
    // SAFETY: the caller's contract.
    unsafe { pointer::clear_array(results, nresults) };
    guard_status(|| {
        // SAFETY: the caller's contract.
        let queries = unsafe { questions(queries, nqueries) }?;
        let (known, rest) = divide(queries);
        // SAFETY: the caller's contract.
        unsafe { store_infos(Array::empty(), results, nresults) };
        let answer = match rest.is_empty() {
            true => Answer::complete(Results::Infos(known)),
            false => {
                process::member()?;
                with_known(known, call::run(QueryInfo::new(rest).into())).map_err(Failure)?
            }
        };
        let infos = to_c::infos(&infos_of(answer.results))?;
        // SAFETY: the caller's contract.
        unsafe { store_infos(infos, results, nresults) };
        Ok(answer.status)
    })
}

/// As [`PMIx_Query_info`], with a callback.
///
/// Support: passed to the host.
///
/// # Safety
/// `queries` has `nqueries` elements. `cbfunc` may be called on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Query_info_nb(
    queries: *mut pmix_query_t,
    nqueries: usize,
    cbfunc: Option<pmix_info_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let queries = unsafe { questions(queries, nqueries) }?;
        if cbfunc.is_none() {
            return Err(Failure(Status::ERR_BAD_PARAM));
        }
        let (known, rest) = divide(queries);
        let data = CallerData::new(cbdata);
        if rest.is_empty() {
            let answer = Answer::complete(Results::Infos(known));
            return Ok(process::member()?.defer(move || deliver_infos(Ok(answer), cbfunc, data))?);
        }
        let deliver = move |result| deliver_infos(with_known(known, result), cbfunc, data);
        start_with(QueryInfo::new(rest).into(), deliver)
    })
}

/// # Safety
/// `queries` has `nqueries` elements.
unsafe fn questions(queries: *mut pmix_query_t, nqueries: usize) -> Result<Vec<Query>, Failure> {
    // SAFETY: the caller's contract.
    let queries = unsafe { from_c::queries(queries, nqueries) }?;
    if queries.is_empty() || queries.iter().any(|query| query.keys.is_empty()) {
        return Err(Failure(Status::ERR_BAD_PARAM));
    }
    Ok(queries)
}

/// The answers to queries about the interface itself, and the queries without those keys. No version of the standard's
/// binary interface is stable yet, and this library claims none.
fn divide(queries: Vec<Query>) -> (Vec<Info>, Vec<Query>) {
    let mut known: Vec<Info> = Vec::new();
    let about_interface = [keys::QUERY_STABLE_ABI_VERSION, keys::QUERY_PROVISIONAL_ABI_VERSION];
    let mut rest = Vec::new();
    for mut query in queries {
        query.keys.retain(|wanted| {
            let key = about_interface.iter().find(|key| key.name().as_bytes() == wanted.as_bytes());
            known.extend(key.map(|key| Info::new(Key::from_static(key.name()), "0.0")));
            key.is_none()
        });
        if !query.keys.is_empty() {
            rest.push(query);
        }
    }
    (known, rest)
}

/// The answers found here, then those of the server. If the server has none, the result is partial.
fn with_known(mut known: Vec<Info>, result: Result<Answer, Status>) -> Result<Answer, Status> {
    if known.is_empty() {
        return result;
    }
    let status = match result {
        Ok(answer) => {
            known.extend(infos_of(answer.results));
            answer.status
        }
        Err(_) => Status::ERR_PARTIAL_SUCCESS,
    };
    Ok(Answer { status, results: Results::Infos(known) })
}

/// Logs data, one info for each channel. See the standard's function of the same name.
///
/// Support: passed to the host.
///
/// # Safety
/// The arrays have as many elements as the counts say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Log(
    data: *const pmix_info_t,
    ndata: usize,
    directives: *const pmix_info_t,
    ndirs: usize,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        run(unsafe { entry(data, ndata, directives, ndirs) }?)
    })
}

/// As [`PMIx_Log`], with a callback.
///
/// Support: passed to the host.
///
/// # Safety
/// The arrays have as many elements as the counts say. `cbfunc` is NULL or may be called on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Log_nb(
    data: *const pmix_info_t,
    ndata: usize,
    directives: *const pmix_info_t,
    ndirs: usize,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        start(unsafe { entry(data, ndata, directives, ndirs) }?, cbfunc, cbdata)
    })
}

/// # Safety
/// The arrays have as many elements as the counts say.
unsafe fn entry(
    data: *const pmix_info_t,
    ndata: usize,
    directives: *const pmix_info_t,
    ndirs: usize,
) -> Result<Operation, Failure> {
    process::member()?;
    // SAFETY: the caller's contract.
    let data = unsafe { from_c::infos(data, ndata) }?;
    // SAFETY: the caller's contract.
    let directives = unsafe { from_c::infos(directives, ndirs) }?;
    if data.is_empty() { Err(Failure(Status::ERR_BAD_PARAM)) } else { Ok(Log::new(data, directives).into()) }
}

/// Asks for a change of the allocation. See the standard's function of the same name.
///
/// Support: passed to the host.
///
/// # Safety
/// The arrays have as many elements as the counts say. `results` and `nresults` are NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Allocation_request(
    directive: pmix_alloc_directive_t,
    info: *mut pmix_info_t,
    ninfo: usize,
    results: *mut *mut pmix_info_t,
    nresults: *mut usize,
) -> pmix_status_t {
    // SAFETY: the caller's contract.
    unsafe { pointer::clear_array(results, nresults) };
    guard_status(|| {
        // SAFETY: the caller's contract.
        let operation = unsafe { allocation(directive, info, ninfo) }?;
        // SAFETY: the caller's contract.
        unsafe { run_for_infos(operation, results, nresults) }
    })
}

/// As [`PMIx_Allocation_request`], with a callback.
///
/// Support: passed to the host.
///
/// # Safety
/// The arrays have as many elements as the counts say. `cbfunc` is NULL or may be called on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Allocation_request_nb(
    directive: pmix_alloc_directive_t,
    info: *mut pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_info_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let operation = unsafe { allocation(directive, info, ninfo) }?;
        start_for_infos(operation, cbfunc, cbdata)
    })
}

/// # Safety
/// `info` has `ninfo` elements.
unsafe fn allocation(
    directive: pmix_alloc_directive_t,
    info: *mut pmix_info_t,
    ninfo: usize,
) -> Result<Operation, Failure> {
    process::member()?;
    // SAFETY: the caller's contract.
    let info = unsafe { from_c::infos(info, ninfo) }?;
    Ok(Allocate::new(directive, info).into())
}
