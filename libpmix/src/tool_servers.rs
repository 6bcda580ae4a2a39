//! A tool with several servers. Client functions use one of them, the primary server. The tool has the same name at all
//! of them.

use std::sync::Arc;
use std::time::Duration;

use modex::keys;
use modex::runtime::understood::OF_CHOICES;
use modex::runtime::{self, Look};
use modex::types::AsStatus;
use modex::types::{ProcId, Status};
use modex::{Client, Tool, ToolDirections, ToolError};

use super::argument::{Count, In, Items, Marked, Out, OutArray};
use super::guard::{Failure, guard};
use super::process::{self, Membership};
use super::server::ModulePointer;
use super::tool_directions::Directives;
use super::types::{pmix_info_t, pmix_proc_t, pmix_status_t};
use super::{from_c, server, to_c};

/// Connects to one more server; `PMIX_PRIMARY_SERVER` makes it the primary one. A server that is attached already
/// counts as success, unless it has ended. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_tool_attach_to_server<'a>(
    myproc: Out<'a, pmix_proc_t>,
    server: Out<'a, pmix_proc_t>,
    info: Marked<'a>,
    ninfo: Count<'a, pmix_info_t>,
) -> pmix_status_t {
    let status = guard(|| {
        let infos = from_c::infos(info.counted(ninfo))?;
        let name_place = myproc.optional("place for the process")?;
        let server_place = server.optional("place for the server")?;
        let directives = Directives::read_of_attached(&infos)?;
        let attached = {
            let _changes = process::begin();
            attach(directives)?
        };
        process::drop_lost();
        if let Some(place) = name_place {
            *place = to_c::proc(attached.proc());
        }
        if let Some(place) = server_place {
            *place = to_c::proc(attached.server());
        }
        Ok(())
    });
    info.mark_if(status, ninfo)
}

/// Connects to another server and leaves the present one. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_tool_connect_to_server<'a>(
    proc: Out<'a, pmix_proc_t>,
    info: Marked<'a>,
    ninfo: Count<'a, pmix_info_t>,
) -> pmix_status_t {
    let status = guard(|| {
        let infos = from_c::infos(info.counted(ninfo))?;
        let place = proc.optional("place for the process")?;
        let directives = Directives { is_primary: true, ..Directives::read_of_attached(&infos)? };
        let left = {
            let _changes = process::begin();
            process::forget_lost()?;
            let before = process::read(|state| state.client.clone());
            let attached = attach(directives)?;
            if let Some(place) = place {
                *place = to_c::proc(attached.proc());
            }
            before.filter(|before| !Arc::ptr_eq(before, &attached)).filter(forget)
        };
        leave(left);
        process::drop_lost();
        Ok(())
    });
    info.mark_if(status, ninfo)
}

/// Leaves a server. If it was the primary one, functions fail until another is chosen. See the standard's function of
/// the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_tool_disconnect(server: In<'_, pmix_proc_t>) -> pmix_status_t {
    guard(|| {
        process::forget_lost()?;
        process::member()?;
        let server = from_c::proc(server, None)?.ok_or(Failure(Status::ERR_BAD_PARAM))?;
        let left = {
            let _changes = process::begin();
            let found = process::change(|state| state.roster().find(&server)).ok_or(Failure(Status::ERR_NOT_FOUND))?;
            let alone = process::alone_beside(&found)?;
            process::change(|state| state.roster().remove(&server, Some(alone)))
        };
        leave(left);
        Ok(())
    })
}

/// The servers this process is connected to: the primary one, then the others, the oldest first. Servers that have
/// ended are not among them. The caller releases the array. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_tool_get_servers<'a>(
    servers: Out<'a, *mut pmix_proc_t>,
    nservers: Out<'a, usize>,
) -> pmix_status_t {
    let mut results = OutArray::cleared(servers, nservers);
    guard(|| {
        process::forget_lost()?;
        process::member()?;
        let (servers, nservers) = results.places("place for the servers", "place for their number")?;
        let found = process::change(|state| {
            let own = state.server.as_ref().map(|role| role.server().proc().clone());
            let is_alone = state.client.as_ref().is_none_or(|client| client.is_alone());
            let mut found = state.roster().servers();
            // A tool with a server inside uses that one if it has chosen no other.
            found.splice(..0, own.filter(|_| is_alone));
            found
        });
        if found.is_empty() {
            return Err(Failure(Status::ERR_UNREACH));
        }
        (*servers, *nservers) = to_c::procs(&found)?.into_raw();
        Ok(())
    })
}

/// Chooses the primary server among the attached ones. With `PMIX_WAIT_FOR_CONNECTION` this waits until the server is
/// attached. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_tool_set_server<'a>(
    server: In<'a, pmix_proc_t>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
) -> pmix_status_t {
    guard(|| {
        process::forget_lost()?;
        process::member()?;
        let server = from_c::proc(server, None)?.ok_or(Failure(Status::ERR_BAD_PARAM))?;
        let infos = from_c::infos(info.counted(ninfo))?;
        from_c::refuse_others(&infos, &OF_CHOICES)?;
        let of = |name: &str| infos.iter().find(|info| info.key.as_str() == name).map(|info| &info.value);
        let is_patient = of(keys::WAIT_FOR_CONNECTION.name()).and_then(|value| value.as_bool()) == Some(true);
        let seconds = of(keys::TIMEOUT.name()).and_then(|value| value.as_u64()).filter(|&seconds| seconds > 0);
        let time_max = if is_patient { seconds.map(Duration::from_secs) } else { Some(Duration::ZERO) };
        let look = |look| Ok::<_, Failure>(choose(&server)? || follow_back(&server, look)?);
        let is_found = runtime::wait_for_server(time_max, look)?;
        match (is_found, is_patient) {
            (true, _) => Ok(()),
            (false, true) => Err(Failure(Status::ERR_TIMEOUT)),
            (false, false) => Err(Failure(Status::ERR_UNREACH)),
        }
    })
}

/// Gives the server inside this tool the functions of its host; a tool without a server becomes one, under its own
/// name. From then on the functions of servers can be called. Client functions call the host's functions if the tool
/// has no other server. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_tool_set_server_module(module: ModulePointer<'_>) -> pmix_status_t {
    guard(|| {
        let proc = process::member()?.proc();
        let module = module.copy(None)?;
        let _changes = process::begin();
        if process::read(|state| state.tool_count) == 0 {
            return Err(Failure(Status::ERR_INIT));
        }
        server::serve_tool(&proc, module)?;
        // Tools find this one under its name from now on.
        process::change(|state| state.is_unnamed = false);
        Ok(())
    })
}

/// Makes this tool its own server, if `server` is this tool. Returns whether it is. Its connections stay. Without a
/// server inside, it then has no server.
fn choose_own(server: &ProcId) -> Result<bool, Failure> {
    let present = process::read(|state| state.client.clone());
    let Some(present) = present.filter(|present| present.proc() == server) else { return Ok(false) };
    let alone = process::alone_beside(&present)?;
    process::change(|state| state.client = Some(alone));
    Ok(true)
}

/// Makes a server the primary one. Returns whether it is attached, or this tool itself.
fn choose(server: &ProcId) -> Result<bool, Failure> {
    let _changes = process::begin();
    process::forget_lost()?;
    Ok(process::change(|state| state.roster().choose(server)) || choose_own(server)?)
}

/// Attaches to a launcher that has attached to the server inside this tool, and chooses it. Launchers of PRRTE serve
/// this tool on their own connection. Others are found by their namespace, under which they have left a file. Returns
/// whether that worked. The launcher has no more time than the call.
fn follow_back(launcher: &ProcId, look: Look) -> Result<bool, Failure> {
    let Some(role) = process::read(|state| state.server.clone()) else { return Ok(false) };
    let server = role.server();
    if let Some(client) = client_of_launcher(launcher) {
        show_output(&keep(client, false))?;
        return choose(launcher);
    }
    let has_come = || matches!(server.data_form(&launcher.namespace), Ok(Some(_)));
    if !look.may_search || !has_come() {
        return Ok(false);
    }
    let time_max = look.left.map(|left| left.max(ANSWER_TIME_MIN));
    let namespace = Some(launcher.namespace.clone());
    let directions = ToolDirections { namespace, time_max, ..ToolDirections::default() };
    // The lock for changes is not held, because the launcher may not answer.
    let attached = attach(Directives { directions, is_optional: true, ..Directives::default() });
    Ok(attached.is_ok() && choose(launcher)?)
}

/// A connection to a launcher that serves this tool on the launcher's own connection.
fn client_of_launcher(launcher: &ProcId) -> Option<Client> {
    let role = process::read(|state| state.server.clone())?;
    role.server().client_of_launcher(launcher).ok().flatten()
}

/// Shows the output of a launcher's job, which comes without a pull.
fn show_output(attached: &Membership) -> Result<(), Failure> {
    attached.show_spawned().map_err(|_| Failure(Status::ERR_OUT_OF_RESOURCE))
}

/// The name of the launcher that the directions may mean: their namespace decides.
fn launcher_named_by(directions: &ToolDirections) -> Option<ProcId> {
    let ToolDirections { file: None, address: None, pid: None, namespace: Some(namespace), .. } = directions else {
        return None;
    };
    Some(ProcId::new(namespace.clone(), 0))
}

/// A launcher that has come has so much time for an answer, also if the call does not wait.
const ANSWER_TIME_MIN: Duration = Duration::from_secs(1);

/// Adds a new connection to the list, unless the tool has ended meanwhile. Its events go to the handlers of the
/// process.
fn keep(client: Client, is_primary: bool) -> Arc<Membership> {
    if let Some(present) = process::read(|state| state.client.clone())
        && let Err(error) = client.share_handlers(&present)
    {
        tracing::error!(%error, server = %client.server(), "no thread can be started for the events of this server");
    }
    let attached = Arc::new(Membership::of_tool(client));
    process::change(|state| {
        if state.client.is_some() {
            state.is_unnamed = false;
            state.roster().add(Arc::clone(&attached), is_primary);
        }
    });
    attached
}

/// Connects this tool, under its present name, and remembers the server.
pub(super) fn attach(mut directives: Directives) -> Result<Arc<Membership>, Failure> {
    process::forget_lost()?;
    process::member()?;
    let present = process::read(|state| state.client.clone()).ok_or(Failure(Status::ERR_NOT_SUPPORTED))?;
    // A client of a job stays in it; a tool keeps the name of its first connection.
    let is_unnamed = process::read(|state| state.is_unnamed);
    directives.directions.name = (!is_unnamed).then(|| present.proc().clone());
    // The directories of the first connection apply unless the attributes name others.
    let [session, system] = process::read(|state| state.tool_places.clone());
    let directions = &mut directives.directions;
    directions.session_tmpdir = directions.session_tmpdir.take().or(session);
    directions.system_tmpdir = directions.system_tmpdir.take().or(system);
    let Directives { directions, is_primary, is_optional, .. } = directives;
    let find = |server: &ProcId| {
        process::change(|state| {
            let known = state.roster().find(server)?;
            if is_primary {
                state.roster().choose(server);
            }
            Some(known)
        })
    };
    let add = |client| keep(client, is_primary);
    if let Some(launcher) = launcher_named_by(&directions) {
        let required = |reason| directions.refuse_required(reason).map_err(|error| missing_server(&error, is_optional));
        if let Some(known) = find(&launcher) {
            return required("the tool is attached to that server already").map(|()| known);
        }
        if let Some(client) = client_of_launcher(&launcher) {
            required("a launcher that this tool has started takes no infos")?;
            let attached = add(client);
            return show_output(&attached).map(|()| attached);
        }
    }
    let servers = process::change(|state| state.roster().servers());
    let attached = Tool::find_or_connect(&directions, &runtime::environment(), &servers, find, add);
    attached.map_err(|error| missing_server(&error, is_optional))
}

/// Connects to the server that the directives name.
pub(super) fn connect(directives: &Directives) -> Result<Client, Failure> {
    let connected = Client::of_tool(&directives.directions);
    connected.map_err(|error| missing_server(&error, directives.is_optional))
}

fn missing_server(error: &ToolError, is_optional: bool) -> Failure {
    if is_optional {
        tracing::info!(%error, "this tool has no server");
    } else {
        tracing::error!(%error, "this tool has no server");
    }
    Failure(error.status())
}

/// Removes a server from the list. Returns whether it was there.
fn forget(left: &Arc<Membership>) -> bool {
    process::change(|state| state.roster().remove(left.server(), None)).is_some()
}

/// Leaves a server. Its answer does not matter: the server is left in any case.
fn leave(left: Option<Arc<Membership>>) {
    process::renew_copy();
    if let Some(left) = left {
        let _ = left.leave();
        left.finish_output();
    }
}
