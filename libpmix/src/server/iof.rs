//! Output of processes, on its way to the clients that have pulled it, and the flow of their input.

use modex::IofOutput;
use modex::types::Status;
use modex::types::codes::iof_channel;

use super::completion::{perform, perform_at_once};
use super::state;
use crate::argument::{Count, In, Items};
use crate::callback::Callback;
use crate::from_c;
use crate::guard::{Failure, guard_status};
use crate::pointer::CallerData;
use crate::types::{pmix_byte_object_t, pmix_info_t, pmix_iof_channel_t, pmix_op_cbfunc_t, pmix_proc_t, pmix_status_t};

/// Hands over output of a process, for the clients that have pulled it. No bytes mean that the channel is closed.
/// Without such a client the output is kept for a while.
///
/// This process also writes the output if `PMIX_IOF_LOCAL_OUTPUT` is set at the server's start, or if the job's description
/// has output directives. The directives name the form and the files. Output is written line by line.
/// `PMIX_IOF_LOCAL_OUTPUT` = false among the infos prevents it for this piece. See the standard's function of the same name.
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

/// Asks a source of standard input to pause (`xoff`) or to go on; all sources for NULL or an empty namespace. The last call for a source decides. The sources are processes that push
/// input through this server, and the server's own reading of standard input. A source pauses after its present piece; tools of
/// released OpenPMIx push on. An
/// answer `PMIX_ERR_IOF_XOFF` of the host to a push is a pause, too. See the reference implementation's function of the same
/// name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_server_IOF_flow_control<'a>(
    source: In<'a, pmix_proc_t>,
    channel: pmix_iof_channel_t,
    xoff: bool,
    directives: Items<'a, pmix_info_t>,
    ndirs: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    perform_at_once(cbfunc, cbdata, |process| {
        from_c::refuse_required(&from_c::infos(directives.counted(ndirs))?)?;
        if channel & iof_channel::FWD_STDIN_CHANNEL == 0 {
            return Err(Failure(Status::ERR_NOT_SUPPORTED));
        }
        // An empty namespace names no job, so it means all of them.
        let is_all = source.is_null() || source.get("process")?.get().nspace.first() == Some(&0);
        let source = if is_all { None } else { Some(from_c::some_proc(source, None)?) };
        process.bridge.flow.set(source, xoff);
        Ok(())
    })
}
