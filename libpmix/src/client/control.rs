//! Control and monitoring of processes.

use modex::keys;
use modex::types::{Info, Key, Status};
use modex::{JobControl, Monitor};

use super::asynchronous::{run_for_infos, start_for_infos, start_with};
use crate::guard::{Failure, guard, guard_or, guard_status};
use crate::operation::Operation;
use crate::types::{c_void, pmix_info_cbfunc_t, pmix_info_t, pmix_proc_t, pmix_status_t};
use crate::{from_c, pointer, process};

/// Pauses, resumes, signals, ends ... processes (none named: the caller's namespace). See the standard's function of the same name.
///
/// Support: passed to the host.
///
/// # Safety
/// The arrays have as many elements as the counts say. `results` and `nresults` are NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Job_control(
    targets: *const pmix_proc_t,
    ntargets: usize,
    directives: *const pmix_info_t,
    ndirs: usize,
    results: *mut *mut pmix_info_t,
    nresults: *mut usize,
) -> pmix_status_t {
    // SAFETY: the caller's contract.
    unsafe { pointer::clear_array(results, nresults) };
    guard_status(|| {
        // SAFETY: the caller's contract.
        let operation = unsafe { control(targets, ntargets, directives, ndirs) }?;
        // SAFETY: the caller's contract.
        unsafe { run_for_infos(operation, results, nresults) }
    })
}

/// As [`PMIx_Job_control`], with a callback.
///
/// Support: passed to the host.
///
/// # Safety
/// The arrays have as many elements as the counts say. `cbfunc` is NULL or may be called on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Job_control_nb(
    targets: *const pmix_proc_t,
    ntargets: usize,
    directives: *const pmix_info_t,
    ndirs: usize,
    cbfunc: Option<pmix_info_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let operation = unsafe { control(targets, ntargets, directives, ndirs) }?;
        start_for_infos(operation, cbfunc, cbdata)
    })
}

/// # Safety
/// The arrays have as many elements as the counts say.
unsafe fn control(
    targets: *const pmix_proc_t,
    ntargets: usize,
    directives: *const pmix_info_t,
    ndirs: usize,
) -> Result<Operation, Failure> {
    let own = process::member()?.proc().namespace;
    // SAFETY: the caller's contract.
    let targets = unsafe { from_c::procs(targets, ntargets, Some(&own)) }?;
    // SAFETY: the caller's contract.
    let directives = unsafe { from_c::infos(directives, ndirs) }?;
    Ok(JobControl::new(targets, directives).into())
}

/// Monitors an object; `error` is the event to raise. The server itself monitors heartbeats of the caller
/// (`PMIX_MONITOR_HEARTBEAT`), and the host monitors the rest. See the standard's function of the same name.
///
/// Support: passed to the host.
///
/// # Safety
/// The arrays have as many elements as the counts say. `results` and `nresults` are NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Process_monitor(
    monitor: *const pmix_info_t,
    error: pmix_status_t,
    directives: *const pmix_info_t,
    ndirs: usize,
    results: *mut *mut pmix_info_t,
    nresults: *mut usize,
) -> pmix_status_t {
    // SAFETY: the caller's contract.
    unsafe { pointer::clear_array(results, nresults) };
    guard_status(|| {
        // SAFETY: the caller's contract.
        let operation = unsafe { watch(monitor, error, directives, ndirs) }?;
        // SAFETY: the caller's contract.
        unsafe { run_for_infos(operation, results, nresults) }
    })
}

/// As [`PMIx_Process_monitor`], with a callback.
///
/// Support: passed to the host.
///
/// # Safety
/// The arrays have as many elements as the counts say. `cbfunc` is NULL or may be called on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Process_monitor_nb(
    monitor: *const pmix_info_t,
    error: pmix_status_t,
    directives: *const pmix_info_t,
    ndirs: usize,
    cbfunc: Option<pmix_info_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let operation = unsafe { watch(monitor, error, directives, ndirs) }?;
        start_for_infos(operation, cbfunc, cbdata)
    })
}

/// # Safety
/// `directives` has `ndirs` elements, `monitor` is NULL or points to one.
unsafe fn watch(
    monitor: *const pmix_info_t,
    error: pmix_status_t,
    directives: *const pmix_info_t,
    ndirs: usize,
) -> Result<Operation, Failure> {
    process::member()?;
    // SAFETY: the caller's contract.
    let monitor = unsafe { pointer::shared(monitor, "what to monitor") }?;
    // SAFETY: the caller's contract.
    let monitor = unsafe { from_c::info(monitor) }?;
    // SAFETY: the caller's contract.
    let directives = unsafe { from_c::infos(directives, ndirs) }?;
    Ok(Monitor::new(monitor, Status::from_raw(error), directives).into())
}

/// Sends a heartbeat to the server, which may monitor this process. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_Heartbeat() {
    guard_or((), || {
        let monitor = Info::new(Key::from_static(keys::SEND_HEARTBEAT.name()), true);
        let beat = Monitor::new(monitor, Status::SUCCESS, Vec::new());
        // A failed heartbeat needs no report: the monitor notices its absence.
        let _ = start_with(beat.into(), drop);
    });
}
