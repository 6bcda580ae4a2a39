//! Output of processes, on its way to the clients that have pulled it, and the flow of their input.

use modex::IofOutput;
use modex::keys;
use modex::runtime::understood::OF_DELIVERED_OUTPUT;
use modex::types::codes::iof_channel;
use modex::types::{InfoFlags, Status};

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
/// This process also writes the output to its own. `PMIX_IOF_LOCAL_OUTPUT` = false prevents it: at the server's start
/// for all jobs, in a job's description for the job, and among the infos for this piece. A required true among them
/// makes sure of it. A server that a tool has started writes only on request. Directives in a job's description name
/// the form and the files. Output is written line by line. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_IOF_deliver<'a>(
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
        let mut info = from_c::infos(info.counted(ninfo))?;
        from_c::refuse_others(&info, &OF_DELIVERED_OUTPUT)?;
        process.output.deliver(&source, channel, &bytes, &info);
        // This process honours it, and no other one could.
        for info in info.iter_mut().filter(|info| info.key.as_str() == keys::IOF_LOCAL_OUTPUT.name()) {
            info.flags &= !InfoFlags::REQUIRED.bits();
        }
        let output = IofOutput { source, channel, bytes, info };
        perform(cbfunc, cbdata, |server| server.iof_deliver(output))
    })
}

/// Asks a source of standard input to pause (`xoff`) or to go on; all sources for NULL or an empty namespace.
///
/// The last call for a source decides. The sources are processes that push input through this server, and the server's
/// own standard input. A process that pushes pauses after its present piece; tools of released OpenPMIx push on. An
/// answer `PMIX_ERR_IOF_XOFF` of the host to a push is a pause, too. See the reference implementation's function of the
/// same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_IOF_flow_control<'a>(
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

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;
    use std::sync::Arc;

    use modex::Server;
    use modex::proto::exchange::ExchangeForm;
    use modex::types::{Info, Key, Namespace, ProcId};

    use super::*;
    use crate::argument::as_c::as_c;
    use crate::server::state::ServerProcess;
    use crate::server::upcall::{Bridge, ModuleHost};
    use crate::to_c;
    use crate::topology::{Given, HostTopology};
    use crate::types::pmix_server_module_t;

    #[test]
    fn output_with_a_required_info_without_effect_is_refused() {
        let _only = state::ONLY_SERVER.lock();
        let directory = tempfile::tempdir().unwrap();
        let bridge = Arc::new(Bridge::new(pmix_server_module_t::default(), ExchangeForm::default()));
        let server = Server::builder().tmpdir(directory.path()).start(ModuleHost::new(Arc::clone(&bridge))).unwrap();
        let topology = Arc::new(HostTopology::new(Given::Forbidden));
        state::replace(Some(Arc::new(ServerProcess::new(server, bridge, topology))));
        let source = to_c::proc(&ProcId::new(Namespace::new("job").unwrap(), 0));
        let bytes = pmix_byte_object_t { bytes: null_mut(), size: 0 };
        let deliver = |key: &'static str, flags: InfoFlags, value: bool| {
            let infos =
                to_c::infos(&[Info { flags: flags.bits(), ..Info::new(Key::from_static(key), value) }]).unwrap();
            let (first, count) = (infos.as_ptr(), infos.len());
            let channel = iof_channel::FWD_STDOUT_CHANNEL;
            let source = (&raw const source, &raw const bytes);
            as_c!(PMIx_server_IOF_deliver(source.0, channel, source.1, first, count, None, null_mut()))
        };
        let tags = keys::IOF_TAG_OUTPUT.name();
        assert_eq!(deliver(tags, InfoFlags::REQUIRED, true), Status::ERR_NOT_SUPPORTED.to_raw());
        let taken = deliver(tags, InfoFlags::empty(), true);
        assert!([Status::SUCCESS, Status::OPERATION_SUCCEEDED].map(Status::to_raw).contains(&taken), "{taken}");
        assert_eq!(deliver(keys::IOF_LOCAL_OUTPUT.name(), InfoFlags::REQUIRED, false), taken);
        drop(state::replace(None));
    }
}
