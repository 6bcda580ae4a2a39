//! Data of local processes, for other servers.

use modex::types::AsStatus;
use modex::types::Status;

use super::state;
use crate::from_c;
use crate::guard::{Failure, guard};
use crate::pointer::CallerData;
use crate::types::{c_char, c_void, pmix_dmodex_response_fn_t, pmix_proc_t, pmix_status_t};

/// Asks for the data that a local process posted for other nodes (rank wildcard: the job's data). Waits until the
/// process has committed. The callback gets the data packed, for the `direct_modex` callback of the asking server; the
/// bytes live until the callback returns. See the standard's function of the same name.
///
/// Support: implemented.
///
/// # Safety
/// `proc` is NULL or a process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_server_dmodex_request(
    proc: *const pmix_proc_t,
    cbfunc: Option<pmix_dmodex_response_fn_t>,
    cbdata: *mut c_void,
) -> pmix_status_t {
    guard(|| {
        let process = state::current()?;
        let callback = cbfunc.ok_or(Failure(Status::ERR_BAD_PARAM))?;
        // SAFETY: the caller's contract.
        let proc = unsafe { from_c::some_proc(proc, None) }?;
        let data = CallerData::new(cbdata);
        let form = process.bridge.form;
        process.server().direct_modex_with(&proc, None, None, move |result| {
            let packed = result
                .map_err(|error| error.status())
                .and_then(|entries| form.pack_direct_modex(&entries).map_err(|_| Status::ERR_PACK_FAILURE));
            let (status, mut bytes) = match packed {
                Ok(bytes) => (Status::SUCCESS, bytes),
                Err(status) => (status, Vec::new()),
            };
            let first: *mut c_char = if bytes.is_empty() { std::ptr::null_mut() } else { bytes.as_mut_ptr().cast() };
            // SAFETY: the caller gave the function for this, and its data with it; the bytes live until it returns.
            unsafe { callback(status.to_raw(), first, bytes.len(), data.get()) };
        })?;
        Ok(())
    })
}
