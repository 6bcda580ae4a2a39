//! Data of local processes, for other servers.

use modex::types::AsStatus;
use modex::types::Status;

use super::state;
use crate::argument::In;
use crate::callback::Callback;
use crate::from_c;
use crate::guard::{Failure, guard};
use crate::pointer::CallerData;
use crate::types::{pmix_dmodex_response_fn_t, pmix_proc_t, pmix_status_t};

/// Asks for the data that a local process posted for other nodes (rank wildcard: the job's data). Waits until the
/// process has committed. The callback gets the data packed, for the `direct_modex` callback of the asking server; the
/// bytes live until the callback returns. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_dmodex_request(
    proc: In<'_, pmix_proc_t>,
    cbfunc: Callback<pmix_dmodex_response_fn_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| {
        let process = state::current()?;
        let callback = cbfunc.with(cbdata).ok_or(Failure(Status::ERR_BAD_PARAM))?;
        let proc = from_c::some_proc(proc, None)?;
        let form = process.bridge.form;
        process.server().direct_modex(&proc, None, None).then(move |result| {
            callback.call(
                result
                    .map_err(|error| error.status())
                    .and_then(|entries| form.pack_direct_modex(&entries).map_err(|_| Status::ERR_PACK_FAILURE)),
            );
        })?;
        Ok(())
    })
}
