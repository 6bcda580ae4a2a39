//! Registration of jobs, processes and resources by the host.

use modex::Server;
use modex::types::AsStatus;
use nix::libc::{self, gid_t, uid_t};

use super::completion::{perform, perform_always, perform_and, perform_at_once};
use super::{description, misread, state};
use crate::argument::{Count, In, Items, NamespaceText};
use crate::callback::Callback;
use crate::from_c;
use crate::guard::{Failure, guard_status};
use crate::pointer::CallerData;
use crate::types::{c_int, c_void, pmix_info_t, pmix_op_cbfunc_t, pmix_proc_t, pmix_status_t};

/// Descriptions of so many infos leave free memory in libc that is worth giving back.
const LARGE_DESCRIPTION: usize = 4096;

/// Describes a job, before its first local process starts. Jobs without a local process are registered with 0 if jobs
/// here act together with them. Fences wait for the registration; so do groups and disconnects. Connects wait for it
/// once the host has agreed: for a second if the module has `connect`, else without limit.
///
/// A second call adds values and replaces values of the same key. A negative number leaves the number of local
/// processes unchanged; for a job that was not described it means 0. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_register_nspace<'a>(
    nspace: NamespaceText<'a>,
    nlocalprocs: c_int,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard_status(|| {
        let process = state::current()?;
        let namespace = from_c::namespace(nspace, None).inspect_err(|error| {
            tracing::error!(%error, "registration refused: no namespace");
        })?;
        // A negative number marks an update: hosts add data to a job without repeating the number of local processes.
        let local_count = u32::try_from(nlocalprocs).ok();
        let read = description::read(info.counted(ninfo));
        let description = read.inspect_err(|error| {
            let reason = misread::reason(info.counted(ninfo), error);
            tracing::error!(%namespace, "registration refused: {reason}");
        })?;
        process.output.describe(&namespace, info.counted(ninfo))?;
        process.jobs.change(|jobs| jobs.entry(namespace.clone()).or_default().is_registered = true);
        let is_large = ninfo.get() >= LARGE_DESCRIPTION;
        let describe = |server: &Server| server.describe_namespace(&namespace, local_count, description);
        perform_and(cbfunc, cbdata, describe, move || give_back(is_large))
    })
}

/// Removes a job: its pending operations end with an error, its clients are disconnected. Unknown names are harmless.
/// See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_deregister_nspace(
    nspace: NamespaceText<'_>,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) {
    perform_always(cbfunc, cbdata, || {
        let process = state::current()?;
        let namespace = from_c::namespace(nspace, None)?;
        process.jobs.change(|jobs| {
            jobs.remove(&namespace);
        });
        process.output.forget(&namespace);
        process.bridge.flow.forget_job(&namespace);
        perform(cbfunc, cbdata, |server| server.deregister_namespace(&namespace))
    });
}

/// Announces a local process, before it starts. The kernel must report these ids for its connections. Upcalls about the
/// process carry `server_object`. The namespace may be registered later. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_register_client(
    proc: In<'_, pmix_proc_t>,
    uid: uid_t,
    gid: gid_t,
    server_object: *mut c_void,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard_status(|| {
        state::current()?;
        let proc = from_c::some_proc(proc, None)?;
        let object = server_object.expose_provenance() as u64;
        perform(cbfunc, cbdata, |server| server.register_client_object(&proc, uid, gid, object))
    })
}

/// Reports that a local process has ended. Unknown processes are harmless. Usually the kernel or the connection reports
/// it, too. Neither does if a copy of the process lives (a `fork` without `exec` keeps the connection open) and the
/// kernel can't be asked. The kernel can't be asked over TCP, from another pid namespace, or before Linux 5.3. Then
/// other processes wait until the host calls this. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_deregister_client(
    proc: In<'_, pmix_proc_t>,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) {
    perform_always(cbfunc, cbdata, || {
        let process = state::current()?;
        let proc = from_c::some_proc(proc, None)?;
        process.bridge.flow.forget(&proc);
        perform(cbfunc, cbdata, |server| server.deregister_client(&proc))
    });
}

/// Adds data that belong to no job. They become part of every namespace, registered before or after; the description's
/// own values take precedence. An array that names a job (`PMIX_NSPACE`, `PMIX_PROCID` or `PMIX_JOBID`) is for that job
/// alone.
///
/// Refused are values of wrong types, contradictions within the data or with earlier resources, and names of jobs
/// outside arrays. A resource that contradicts a job's own description is left out for that job. A value that can't be
/// stored (nested too deep, too large) fails at the first job. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_register_resources<'a>(
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    perform_at_once(cbfunc, cbdata, |process| {
        let infos = from_c::infos(info.counted(ninfo)).inspect_err(|error| {
            let reason = misread::reason(info.counted(ninfo), error);
            tracing::error!("resources refused: {reason}");
        })?;
        process.server().register_resources(infos).map_err(|error| {
            tracing::error!("resources refused: {error}");
            Failure(error.status())
        })
    })
}

/// Removes resources that [`PMIx_server_register_resources`] added: under these keys, of a node that an array names, or
/// of the device that a lone `PMIX_DEVICE_ID` names. Registered namespaces lose each value that equals the removed one.
/// Clients without the segment keep the values that they have. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_deregister_resources<'a>(
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    perform_at_once(cbfunc, cbdata, |process| {
        let infos = from_c::infos(info.counted(ninfo))?;
        process.server().deregister_resources(&infos);
        Ok(())
    })
}

/// Makes libc return free blocks: a large description has used many.
fn give_back(is_large: bool) {
    if is_large {
        // SAFETY: takes any number and touches free memory alone.
        unsafe { libc::malloc_trim(0) };
    }
}
