//! Questions about the system, logging, allocations.

use super::asynchronous::{deliver_infos, run, run_for_infos, start, start_for_infos, store_infos};
use crate::capi::guard::{Failure, guard, guard_status};
use crate::capi::operation::{Answer, Operation, Results};
use crate::capi::pointer::CallerData;
use crate::capi::types::{
    c_void, pmix_alloc_directive_t, pmix_info_cbfunc_t, pmix_info_t, pmix_op_cbfunc_t, pmix_query_t, pmix_status_t,
};
use crate::capi::{from_c, process, to_c};
use crate::keys;
use crate::types::{Info, Key, Query, Status};

/// Asks for facts. See the standard's function of the same name. Questions about the interface itself are answered here,
/// also before the first initialization.
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
    guard_status(|| {
        // SAFETY: the caller's contract.
        let queries = unsafe { questions(queries, nqueries) }?;
        if let Some(known) = about_the_interface(&queries) {
            // SAFETY: the caller's contract.
            unsafe { store_infos(to_c::infos(&known)?, results, nresults) };
            return Ok(Status::SUCCESS);
        }
        // SAFETY: the caller's contract.
        unsafe { run_for_infos(Operation::Query { queries }, results, nresults) }
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
        if let Some(known) = about_the_interface(&queries) {
            let data = CallerData::new(cbdata);
            let answer = Answer::complete(Results::Infos(known));
            return Ok(process::member()?.defer(move || deliver_infos(Ok(answer), cbfunc, data))?);
        }
        start_for_infos(Operation::Query { queries }, cbfunc, cbdata)
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

/// The answers, if all questions are about the interface: no version of the standard's binary interface is stable yet,
/// and none is claimed.
fn about_the_interface(queries: &[Query]) -> Option<Vec<Info>> {
    let answer = |key: &crate::types::Text| {
        let known = [keys::QUERY_STABLE_ABI_VERSION, keys::QUERY_PROVISIONAL_ABI_VERSION];
        let known = known.into_iter().find(|known| known.name().as_bytes() == key.as_bytes())?;
        Some(Info::new(Key::from_static(known.name()), "0.0"))
    };
    queries.iter().flat_map(|query| &query.keys).map(answer).collect()
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
    if data.is_empty() { Err(Failure(Status::ERR_BAD_PARAM)) } else { Ok(Operation::Log { data, directives }) }
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
    Ok(Operation::Allocate { directive, info })
}
