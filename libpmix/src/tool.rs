//! Tools: their first connection, and their end. See `tool_servers` for more connections.

use std::io;
use std::sync::Arc;

use modex::runtime;
use modex::types::{AsStatus, Namespace, ProcId, Status};
use modex::{Client, ToolDirections, ToolError};

use super::argument::{Count, Marked, Out};
use super::client::debugger;
use super::form::List;
use super::guard::{Failure, guard, guard_or};
use super::parent::Keepalive;
use super::process::{self, Membership};
use super::tool_directions::Directives;
use super::types::{pmix_info_t, pmix_proc_t, pmix_status_t};
use super::{descriptors, from_c, parent, repeated_init, server, spoken, stdin, to_c, tool_servers, turns};

/// Makes this process a tool; in a tool it raises the count of initializations. The tool connects to the server that
/// the attributes name, else to the server that started it, else to the first server found that admits it. With
/// `PMIX_TOOL_DO_NOT_CONNECT` it connects to none, and without a name `proc` gets an empty namespace and
/// `PMIX_RANK_UNDEF`. The first server to which it attaches later gives it a name. With `PMIX_TOOL_CONNECT_OPTIONAL` it
/// works alone if there is no server.
///
/// A launcher (`PMIX_LAUNCHER`) is a server, too, which tools find; `PMIx_tool_set_server_module` gives it a host's
/// functions. A tool that another tool has started (`PMIX_LAUNCHER_RNDZ_URI`) is attached to that tool's server as
/// well. If the job's description asks for it (`PMIX_DEBUG_STOP_IN_INIT`), this waits for `PMIX_DEBUGGER_RELEASE`. See
/// the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_tool_init<'a>(
    proc: Out<'a, pmix_proc_t>,
    info: Marked<'a>,
    ninfo: Count<'a, pmix_info_t>,
) -> pmix_status_t {
    let status = guard(|| {
        spoken::begin();
        let infos = from_c::infos(info.counted(ninfo))?;
        let raw = info.counted(ninfo).list("array of infos")?;
        let place = proc.optional("place for the process")?;
        let directives = Directives::read(&infos)?;
        descriptors::occupy_closed();
        let changes = process::begin();
        let joined = match process::member() {
            Ok(member) => {
                let earlier = process::read(|state| state.tool_directives.clone());
                repeated_init::refuse_new(&earlier, infos.iter().cloned()).map(|()| (member.proc(), None))
            }
            Err(_) => {
                let starter = Keepalive::of_starter();
                let chosen = turns::choose(&infos, process::is_initialized());
                chosen.and_then(|()| become_tool(&directives, raw, starter))
            }
        };
        if joined.is_err() {
            turns::end_unless(process::is_initialized());
        }
        if let Some(place) = place {
            let is_unnamed = process::read(|state| state.is_unnamed);
            *place = to_c::optional_proc(joined.as_ref().ok().map(|(name, _)| name).filter(|_| !is_unnamed));
        }
        let (_, new) = joined?;
        process::change(|state| {
            state.tool_count = state.tool_count.saturating_add(1);
            if new.is_some() {
                state.tool_directives = infos;
            }
        });
        drop(changes);
        // A launcher that another tool started waits for that tool's orders.
        if let Some(Err(status)) = new.map(|client| debugger::wait_if_held(&client)) {
            let _ = PMIx_tool_finalize();
            return Err(Failure(status));
        }
        Ok(())
    });
    info.mark_if(status, ninfo)
}

/// Connects, becomes a server if the directives say so, and attaches to the tool that started this one. After a failure
/// nothing of it stays.
fn become_tool(
    directives: &Directives,
    infos: List<'_, pmix_info_t>,
    starter: Option<Keepalive>,
) -> Result<Joined, Failure> {
    let client = Arc::new(Membership::of_tool(connect(directives)?));
    let name = client.proc().clone();
    // A tool with a server inside needs a name, because other tools have to find it.
    let is_server = directives.directions.is_launcher || directives.is_server;
    let is_unnamed = directives.is_alone && directives.directions.name.is_none() && !is_server;
    process::change(|state| {
        state.client = Some(Arc::clone(&client));
        state.is_unnamed = is_unnamed;
        state.attached.extend((!client.is_alone()).then(|| Arc::clone(&client)));
        let directions = &directives.directions;
        state.tool_places = [directions.session_tmpdir.clone(), directions.system_tmpdir.clone()];
    });
    let outcome = serve(directives, &name, infos).and_then(|()| attach_to_parent(directives));
    if let Err(failure) = outcome {
        let _ = end();
        return Err(failure);
    }
    if let Some(starter) = starter {
        starter.watch(&client);
    }
    Ok((name, Some(client)))
}

/// A tool's name, and its first connection if it is new.
type Joined = (ProcId, Option<Arc<Membership>>);

/// Makes a launcher a server: tools find it, and it starts processes.
fn serve(directives: &Directives, name: &ProcId, infos: List<'_, pmix_info_t>) -> Result<(), Failure> {
    if !directives.directions.is_launcher && !directives.is_server {
        return Ok(());
    }
    server::serve_launcher(name, infos)
}

/// Attaches to the tool that started this one. The tool's primary server stays, if it has one.
fn attach_to_parent(directives: &Directives) -> Result<(), Failure> {
    let Some(address) = runtime::parent_address(&runtime::environment()).filter(|_| !directives.is_alone) else {
        return Ok(());
    };
    let is_launcher = directives.directions.is_launcher;
    let time_max = directives.directions.time_max;
    let directions = ToolDirections { address: Some(address), is_launcher, time_max, ..ToolDirections::default() };
    let attached = tool_servers::attach(Directives { directions, is_optional: !is_launcher, ..Directives::default() });
    parent::forget_address();
    if is_launcher { attached.map(|_| ()) } else { Ok(()) }
}

fn connect(directives: &Directives) -> Result<Client, Failure> {
    let alone = || match &directives.directions.name {
        Some(proc) => Client::alone_as(proc.clone()),
        None if directives.directions.is_launcher || directives.is_server => Client::alone().and_then(without_dots),
        None => Client::alone(),
    };
    let alone = || alone().map_err(|_| Failure(Status::ERR_OUT_OF_RESOURCE));
    let none_required = || directives.directions.refuse_required("the tool has no server").map_err(refused);
    if directives.is_alone {
        return none_required().and_then(|()| alone());
    }
    match tool_servers::connect(directives) {
        Err(_) if directives.is_optional => none_required().and_then(|()| alone()),
        outcome => outcome,
    }
}

/// A tool as a server: launchers of OpenPMIx read the namespace of an address up to its first dot.
fn without_dots(named: Client) -> io::Result<Client> {
    let ProcId { namespace, rank } = named.proc();
    let namespace = Namespace::new(&namespace.as_str().replace('.', "-")).map_err(io::Error::other)?;
    Client::alone_as(ProcId { namespace, rank: *rank })
}

/// Logs a refusal.
fn refused(error: ToolError) -> Failure {
    tracing::error!(%error, "PMIx_tool_init failed");
    Failure(error.status())
}

/// Lowers the count of initializations; the last call leaves the servers. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_tool_finalize() -> pmix_status_t {
    guard(finalize)
}

/// As [`PMIx_tool_finalize`].
pub(super) fn finalize() -> Result<(), Failure> {
    let is_last = {
        let _changes = process::begin();
        process::change(|state| {
            state.tool_count = state.tool_count.checked_sub(1).ok_or(Failure(Status::ERR_INIT))?;
            if state.tool_count == 0 {
                state.tool_directives.clear();
            }
            Ok::<_, Failure>(state.client_count == 0 && state.tool_count == 0)
        })?
    };
    if is_last { end() } else { Ok(()) }
}

/// Leaves all servers, and ends the server inside the tool.
pub(super) fn end() -> Result<(), Failure> {
    process::drop_lost();
    let (client, others) = process::change(|state| (state.client.take(), std::mem::take(&mut state.attached)));
    stdin::end();
    process::renew_copy();
    let left = turns::finish(move || leave_all(client, others));
    turns::end_unless(process::is_initialized());
    left
}

fn leave_all(client: Option<Arc<Membership>>, others: Vec<Arc<Membership>>) -> Result<(), Failure> {
    server::end_of_tool();
    for other in others.into_iter().filter(|other| !client.as_ref().is_some_and(|client| Arc::ptr_eq(other, client))) {
        // Errors of other servers change nothing.
        let _ = other.leave();
        other.finish_output();
    }
    let Some(client) = client else { return Ok(()) };
    let left = client.leave();
    client.finish_output();
    Ok(left?)
}

/// Whether this process has a server. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_tool_is_connected() -> bool {
    guard_or(false, || match process::member() {
        Ok(process::Member::Client(client)) => !client.is_alone(),
        _ => false,
    })
}
