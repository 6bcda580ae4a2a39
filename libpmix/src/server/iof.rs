//! Output of processes, on its way to the clients that have pulled it.

use std::cell::Cell;

use modex::IofOutput;

use super::completion::perform;
use super::state;
use crate::from_c;
use crate::guard::guard_status;
use crate::types::{
    c_void, pmix_byte_object_t, pmix_info_t, pmix_iof_channel_t, pmix_op_cbfunc_t, pmix_proc_t, pmix_status_t,
};

/// Hands over output of a process, for the clients that have pulled it. No bytes mean that the channel is closed.
/// Without such a client the output is kept for a while. See the standard's function of the same name.
///
/// Support: implemented.
///
/// # Safety
/// `source` is NULL or a process, `bo` is NULL or holds bytes, `info` has `ninfo` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_server_IOF_deliver(
    source: *const pmix_proc_t,
    channel: pmix_iof_channel_t,
    bo: *const pmix_byte_object_t,
    info: *const pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t {
    guard_status(|| {
        state::current()?;
        // SAFETY: the caller's contract.
        let source = unsafe { from_c::some_proc(source, None) }?;
        // SAFETY: the caller's contract.
        let bytes = unsafe { from_c::byte_object(bo) }?;
        // SAFETY: the caller's contract.
        let info = unsafe { from_c::infos(info, ninfo) }?;
        // `perform` calls one of the two closures.
        let output = Cell::new(Some(IofOutput { source, channel, bytes, info }));
        perform(
            cbfunc,
            cbdata,
            |server| output.take().map_or(Ok(()), |output| server.iof_deliver(output)),
            |server, done| output.take().map_or(Ok(()), |output| server.iof_deliver_with(output, done)),
        )
    })
}
