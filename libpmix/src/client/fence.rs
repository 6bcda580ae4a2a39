//! Fences.

use super::asynchronous::{run, start};
use crate::argument::{Count, Counted, Items};
use crate::callback::Callback;
use crate::client_request::ClientRequest;
use crate::from_c;
use crate::guard::{Failure, guard};
use crate::pointer::CallerData;
use crate::process;
use crate::types::{pmix_info_t, pmix_op_cbfunc_t, pmix_proc_t, pmix_status_t};

/// Waits until every named process (none: the caller's namespace) has entered the fence. See the standard's function of
/// the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Fence<'a>(
    procs: Items<'a, pmix_proc_t>,
    nprocs: Count<'a, pmix_proc_t>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
) -> pmix_status_t {
    guard(|| run(request(procs.counted(nprocs), info.counted(ninfo))?))
}

/// As [`PMIx_Fence`], with a callback.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Fence_nb<'a>(
    procs: Items<'a, pmix_proc_t>,
    nprocs: Count<'a, pmix_proc_t>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| start(request(procs.counted(nprocs), info.counted(ninfo))?, cbfunc, cbdata))
}

fn request(procs: Counted<'_, pmix_proc_t>, info: Counted<'_, pmix_info_t>) -> Result<ClientRequest, Failure> {
    let own = process::member()?.proc().namespace;
    // A count without an array is an error; an array without a count means the namespace.
    let procs = from_c::procs(procs, Some(&own))?;
    let directives = from_c::infos(info)?;
    Ok(ClientRequest::Fence { procs, directives })
}
