//! Output of processes, on its way to the clients that have pulled it.

use modex::IofOutput;

use super::completion::perform;
use super::state;
use crate::argument::{Count, In, Items};
use crate::callback::Callback;
use crate::from_c;
use crate::guard::guard_status;
use crate::pointer::CallerData;
use crate::types::{pmix_byte_object_t, pmix_info_t, pmix_iof_channel_t, pmix_op_cbfunc_t, pmix_proc_t, pmix_status_t};

/// Hands over output of a process, for the clients that have pulled it. No bytes mean that the channel is closed.
/// Without such a client the output is kept for a while.
///
/// With `PMIX_IOF_LOCAL_OUTPUT` at the server's start, or output directives in the job's description, this process writes
/// the output as well, line by line, in the form and to the files that the directives name. `PMIX_IOF_LOCAL_OUTPUT` = false
/// among the infos prevents it for this piece. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_server_IOF_deliver<'a>(
    source: In<'a, pmix_proc_t>,
    channel: pmix_iof_channel_t,
    bo: In<'a, pmix_byte_object_t>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard_status(|| {
        let process = state::current()?;
        let source = from_c::some_proc(source, None)?;
        let bytes = from_c::byte_object(bo)?;
        let info = from_c::infos(info.counted(ninfo))?;
        let output = IofOutput { source, channel, bytes, info };
        process.output.deliver(&output);
        perform(cbfunc, cbdata, |server| server.iof_deliver(output))
    })
}
