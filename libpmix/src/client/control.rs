//! Control and monitoring of processes.

use modex::keys;
use modex::types::{Info, Key, Status};
use modex::{JobControl, Monitor};

use super::asynchronous::{run_for_infos, start_for_infos, start_with};
use crate::argument::{Count, Counted, In, Items, Out, OutArray};
use crate::callback::Callback;
use crate::client_request::ClientRequest;
use crate::guard::{Failure, guard, guard_or, guard_status};
use crate::pointer::CallerData;
use crate::types::{pmix_info_cbfunc_t, pmix_info_t, pmix_proc_t, pmix_status_t};
use crate::{from_c, process};

/// Pauses, resumes, signals, ends ... processes (none named: the caller's namespace). See the standard's function of
/// the same name.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Job_control<'a>(
    targets: Items<'a, pmix_proc_t>,
    ntargets: Count<'a, pmix_proc_t>,
    directives: Items<'a, pmix_info_t>,
    ndirs: Count<'a, pmix_info_t>,
    results: Out<'a, *mut pmix_info_t>,
    nresults: Out<'a, usize>,
) -> pmix_status_t {
    let mut results = OutArray::cleared(results, nresults);
    guard_status(|| {
        let request = control(targets.counted(ntargets), directives.counted(ndirs))?;
        run_for_infos(request, &mut results)
    })
}

/// As [`PMIx_Job_control`], with a callback.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Job_control_nb<'a>(
    targets: Items<'a, pmix_proc_t>,
    ntargets: Count<'a, pmix_proc_t>,
    directives: Items<'a, pmix_info_t>,
    ndirs: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_info_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| {
        let request = control(targets.counted(ntargets), directives.counted(ndirs))?;
        start_for_infos(request, cbfunc, cbdata)
    })
}

fn control(targets: Counted<'_, pmix_proc_t>, directives: Counted<'_, pmix_info_t>) -> Result<ClientRequest, Failure> {
    let own = process::member()?.proc().namespace;
    let targets = from_c::procs(targets, Some(&own))?;
    let directives = from_c::infos(directives)?;
    Ok(JobControl::new(targets, directives).into())
}

/// Monitors an object; `error` is the event to raise. The server itself monitors heartbeats of the caller
/// (`PMIX_MONITOR_HEARTBEAT`), and the host monitors the rest. See the standard's function of the same name.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Process_monitor<'a>(
    monitor: In<'a, pmix_info_t>,
    error: pmix_status_t,
    directives: Items<'a, pmix_info_t>,
    ndirs: Count<'a, pmix_info_t>,
    results: Out<'a, *mut pmix_info_t>,
    nresults: Out<'a, usize>,
) -> pmix_status_t {
    let mut results = OutArray::cleared(results, nresults);
    guard_status(|| {
        let request = watch(monitor, error, directives.counted(ndirs))?;
        run_for_infos(request, &mut results)
    })
}

/// As [`PMIx_Process_monitor`], with a callback.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Process_monitor_nb<'a>(
    monitor: In<'a, pmix_info_t>,
    error: pmix_status_t,
    directives: Items<'a, pmix_info_t>,
    ndirs: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_info_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| {
        let request = watch(monitor, error, directives.counted(ndirs))?;
        start_for_infos(request, cbfunc, cbdata)
    })
}

fn watch(
    monitor: In<'_, pmix_info_t>,
    error: pmix_status_t,
    directives: Counted<'_, pmix_info_t>,
) -> Result<ClientRequest, Failure> {
    process::member()?;
    let monitor = from_c::info(monitor.get("what to monitor")?)?;
    let directives = from_c::infos(directives)?;
    Ok(Monitor::new(monitor, Status::from_raw(error), directives).into())
}

/// Sends a heartbeat to the server, which may monitor this process. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Heartbeat() {
    guard_or((), || {
        let monitor = Info::new(Key::from_static(keys::SEND_HEARTBEAT.name()), true);
        let beat = Monitor::new(monitor, Status::SUCCESS, Vec::new());
        // A failed heartbeat needs no report: the monitor notices its absence.
        let _ = start_with(beat.into(), drop);
    });
}
