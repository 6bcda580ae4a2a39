//! Initialization and the end of a server.

use std::sync::Arc;
use std::time::Duration;

use modex::keys;
use modex::types::{AsStatus, Info, ProcId, Status};
use modex::{BuildError, Host, StartError};

use super::hold;
use super::module::{COMMON_SIZE_BYTES, ModulePointer};
use super::options::{MODULE_SIZE, Options};
use super::state::{self, ServerProcess};
use super::text;
use super::upcall::{self, Bridge, ModuleHost};
use crate::argument::{Count, Marked};
use crate::form::List;
use crate::guard::{Failure, guard};
use crate::parent::Keepalive;
use crate::topology::HostTopology;
use crate::types::{pmix_info_t, pmix_server_module_t, pmix_status_t};
use crate::{descriptors, from_c, parent, process, repeated_init, spoken, stand_in, stdin, turns};

/// Makes this process a server with the host functions of `module` (NULL: none). In a server it raises the count of
/// initializations. Clients can connect when this returns. The part of the table that every release since 3.0 has is
/// read. Later entries are read if they can be told from other data, or if the info `modex.module_size` says the size
/// of the table. If a tool has started this process (`PMIX_LAUNCHER_RNDZ_URI`), this waits until the tool releases it
/// with `PMIX_DEBUGGER_RELEASE`. Initializations on other threads do not wait for it. If the wait fails, the server
/// ends for them, too. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_init<'a>(
    module: ModulePointer<'a>,
    info: Marked<'a>,
    ninfo: Count<'a, pmix_info_t>,
) -> pmix_status_t {
    let status = guard(|| {
        let infos = info.counted(ninfo).list("array of infos")?;
        let module = module.copy(module_size(infos)?.or_else(stand_in::module_size_bytes))?;
        let changes = process::begin();
        let is_first = process::read(|state| state.server_count) == 0;
        if is_first {
            text::map_ahead();
            spoken::begin();
            descriptors::occupy_closed();
            let starter = Keepalive::of_starter();
            choose_progress(infos)?;
            let started = Options::read(infos, true).and_then(|options| start(options, module));
            started.inspect_err(|_| turns::end_unless(process::is_initialized()))?;
            let role = process::read(|state| state.server.clone());
            if let (Some(starter), Some(role)) = (starter, role) {
                starter.watch_of_server(&role);
            }
            let directives = readable(infos).collect();
            process::change(|state| state.server_directives = directives);
        } else {
            let _ = Options::read(infos, true)?;
            repeated_init::refuse_new(&process::read(|state| state.server_directives.clone()), readable(infos))?;
        }
        process::change(|state| state.server_count = state.server_count.saturating_add(1));
        drop(changes);
        if is_first && let Err(failure) = hold::wait_for_tool() {
            // Initializations on other threads have raised the count meanwhile.
            process::change(|state| state.server_count = state.server_count.min(1));
            let _ = PMIx_server_finalize();
            return Err(failure);
        }
        Ok(())
    });
    info.mark_if(status, ninfo)
}

/// Lowers the count of initializations; the last call ends the server, disconnects its clients and removes its files.
/// Pending operations end with an error. Their callbacks have run when this returns, unless it is called from a
/// callback. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_finalize() -> pmix_status_t {
    guard(|| {
        let (role, ended) = {
            let _changes = process::begin();
            let (is_last, role) = process::change(|state| {
                state.server_count = state.server_count.checked_sub(1).ok_or(Failure(Status::ERR_INIT))?;
                let is_last = state.server_count == 0;
                Ok::<_, Failure>((is_last, if is_last { state.server.take() } else { None }))
            })?;
            (role, if is_last { state::replace(None) } else { None })
        };
        drop(role);
        turns::finish(move || end(ended));
        turns::end_unless(process::is_initialized());
        Ok(())
    })
}

/// The infos whose values can be read.
fn readable(infos: List<'_, pmix_info_t>) -> impl Iterator<Item = Info> {
    infos.iter().filter_map(|info| from_c::info(info).ok())
}

/// Takes the directive of external progress. Values of other keys are not read.
fn choose_progress(infos: List<'_, pmix_info_t>) -> Result<(), Failure> {
    for info in infos.iter() {
        let key = from_c::key_of(info.get())?;
        if key.as_str() == keys::EXTERNAL_PROGRESS.name() {
            let directive = Info { flags: info.flags, ..Info::new(key, from_c::value(info.value())?) };
            return turns::choose(&[directive], process::is_initialized());
        }
    }
    turns::choose(&[], process::is_initialized())
}

fn end(ended: Option<Arc<ServerProcess>>) {
    let Some(process) = ended else { return };
    process.forked.end();
    // A paused push waits for no host any more.
    process.bridge.flow.end();
    stdin::stop();
    // Nothing waits for the host's answers any more. The second call answers requests that arrive until the server is
    // closed.
    upcall::abandon_all();
    stdin::end();
    process.server().close(CALLBACK_TIME_MAX);
    process.open_work.end();
    upcall::abandon_all();
    process.output.finish();
    process.pulled.finish();
}

/// Time that `PMIx_server_finalize` waits for a running callback: it may be waiting for a lock that the caller holds.
const CALLBACK_TIME_MAX: Duration = Duration::from_secs(1);

/// The size of the host's table, if the host says it.
fn module_size(infos: List<'_, pmix_info_t>) -> Result<Option<usize>, Failure> {
    for info in infos.iter() {
        if from_c::key_in_place(&info.get().key)? == MODULE_SIZE {
            let size_bytes =
                from_c::value(info.value())?.as_u64().and_then(|size_bytes| usize::try_from(size_bytes).ok());
            // Every release's table has the common part, so a smaller size is a mistake of the host.
            let size_bytes = size_bytes.filter(|size_bytes| *size_bytes >= COMMON_SIZE_BYTES);
            return size_bytes.map(Some).ok_or(Failure(Status::ERR_BAD_PARAM));
        }
    }
    Ok(None)
}

/// Makes a tool a server, with the server options among its attributes, and no functions of a host yet.
pub(crate) fn serve_launcher(proc: &ProcId, infos: List<'_, pmix_info_t>) -> Result<(), Failure> {
    if state::current().is_ok() {
        return Ok(());
    }
    let options = Options::read(infos, false)?;
    start(options.for_tool(proc), pmix_server_module_t::default())
}

/// Gives the server in a tool the functions of its host. Makes the tool a server first if necessary.
pub(crate) fn serve_tool(proc: &ProcId, module: pmix_server_module_t) -> Result<(), Failure> {
    let Ok(current) = state::current() else { return start(Options::default().for_tool(proc), module) };
    current.bridge.set_module(module);
    let capabilities = ModuleHost::new(Arc::clone(&current.bridge)).capabilities();
    Ok(current.server().set_capabilities(capabilities).wait()?)
}

/// Ends the server that a tool made, at the end of the tool.
pub(crate) fn end_of_tool() {
    let role = process::change(|state| if state.server_count == 0 { state.server.take() } else { None });
    let Some(role) = role else { return };
    drop(role);
    end(state::replace(None));
}

fn start(mut options: Options, module: pmix_server_module_t) -> Result<(), Failure> {
    options.take_file_of_environment();
    let exchange = options.exchange.or_else(stand_in::exchange_form).unwrap_or_default();
    let bridge = Arc::new(Bridge::new(module, exchange).with_gateway(options.is_gateway));
    let capabilities = ModuleHost::new(Arc::clone(&bridge)).capabilities();
    options.services(capabilities).for_each(|service| bridge.facts.note_service(service));
    let sharing = options.topology.sharing();
    let topology = Arc::new(HostTopology::new(std::mem::take(&mut options.topology).given()));
    let is_order_strict = options.is_order_strict;
    let mut output = std::mem::take(&mut options.output);
    output.is_local.get_or_insert_with(|| !parent::has_starter());
    let builder = options.builder(Arc::clone(&topology), sharing)?;
    let server = builder.start(ModuleHost::new(Arc::clone(&bridge))).map_err(|error| {
        tracing::error!(%error, "the PMIx server can't be started");
        Failure(match (&error, error.status()) {
            (BuildError::Start(StartError::Fabric(_)), status) | (_, status @ Status::ERR_NOT_SUPPORTED) => status,
            _ => Status::ERR_INIT,
        })
    })?;
    let process =
        Arc::new(ServerProcess::new(server, bridge, topology).with_output(output).with_strict_order(is_order_strict));
    state::replace(Some(Arc::clone(&process)));
    process::change(|state| state.server = Some(process));
    Ok(())
}
