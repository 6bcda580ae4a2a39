//! A tool with several servers. The functions of clients go to one of them, the primary one; the tool keeps its name with
//! all of them.

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use super::guard::{Failure, guard};
use super::process::{self, Membership, State};
use super::tool_directions::Directives;
use super::types::{pmix_info_t, pmix_proc_t, pmix_server_module_t, pmix_status_t};
use super::{from_c, pointer, spoken, to_c};
use crate::api::Client;
use crate::gds::AsStatus;
use crate::keys;
use crate::types::{ProcId, Status};

/// Connects to one more server; `PMIX_PRIMARY_SERVER` makes it the one that functions go to. One that is attached already
/// is a success. See the standard's function of the same name.
///
/// Support: implemented.
///
/// # Safety
/// `myproc` and `server` are NULL or may be written, `info` has `ninfo` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_tool_attach_to_server(
    myproc: *mut pmix_proc_t,
    server: *mut pmix_proc_t,
    info: *mut pmix_info_t,
    ninfo: usize,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let infos = unsafe { from_c::infos(info, ninfo) }?;
        // SAFETY: the caller's contract.
        let name_place = unsafe { pointer::optional(myproc, "place for the process") }?;
        // SAFETY: the caller's contract.
        let server_place = unsafe { pointer::optional(server, "place for the server") }?;
        let directives = Directives::read(&infos)?;
        let _changes = process::begin();
        let attached = attach(directives)?;
        if let Some(place) = name_place {
            *place = to_c::proc(attached.proc());
        }
        if let Some(place) = server_place {
            *place = to_c::proc(attached.server());
        }
        Ok(())
    })
}

/// Connects to another server and leaves the present one. See the standard's function of the same name.
///
/// Support: implemented.
///
/// # Safety
/// `proc` is NULL or may be written, `info` has `ninfo` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_tool_connect_to_server(
    proc: *mut pmix_proc_t,
    info: *mut pmix_info_t,
    ninfo: usize,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let infos = unsafe { from_c::infos(info, ninfo) }?;
        // SAFETY: the caller's contract.
        let place = unsafe { pointer::optional(proc, "place for the process") }?;
        let directives = Directives { is_primary: true, ..Directives::read(&infos)? };
        let left = {
            let _changes = process::begin();
            let before = process::read(|state| state.client.clone());
            let attached = attach(directives)?;
            if let Some(place) = place {
                *place = to_c::proc(attached.proc());
            }
            before.filter(|before| !Arc::ptr_eq(before, &attached)).filter(forget)
        };
        leave(left);
        Ok(())
    })
}

/// Leaves a server. If functions went to it they fail until another one is chosen. See the standard's function of the
/// same name.
///
/// Support: implemented.
///
/// # Safety
/// `server` points to a process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_tool_disconnect(server: *const pmix_proc_t) -> pmix_status_t {
    guard(|| {
        process::member()?;
        // SAFETY: the caller's contract.
        let server = unsafe { from_c::proc(server, None) }?.ok_or(Failure(Status::ERR_BAD_PARAM))?;
        let left = {
            let _changes = process::begin();
            let found = process::read(|state| find(state, &server)).ok_or(Failure(Status::ERR_NOT_FOUND))?;
            let alone = Client::alone_as(found.proc().clone()).map_err(|_| Failure(Status::ERR_OUT_OF_RESOURCE))?;
            let alone = Arc::new(Membership::new(alone));
            process::change(|state| {
                state.attached.retain(|attached| !Arc::ptr_eq(attached, &found));
                if state.client.as_ref().is_some_and(|client| Arc::ptr_eq(client, &found)) {
                    state.client = Some(alone);
                }
            });
            Some(found)
        };
        leave(left);
        Ok(())
    })
}

/// The servers this process is connected to: the one that functions go to, then the others, the oldest first. The array is
/// the caller's to release. See the standard's function of the same name.
///
/// Support: implemented.
///
/// # Safety
/// `servers` and `nservers` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_tool_get_servers(servers: *mut *mut pmix_proc_t, nservers: *mut usize) -> pmix_status_t {
    guard(|| {
        process::member()?;
        // SAFETY: the caller's contract.
        let servers = unsafe { pointer::unique(servers, "place for the servers") }?;
        // SAFETY: the caller's contract.
        let nservers = unsafe { pointer::unique(nservers, "place for their number") }?;
        (*servers, *nservers) = (std::ptr::null_mut(), 0);
        let found = process::read(|state| {
            let primary = state.client.iter().filter(|client| !client.is_alone());
            let is_primary = |other: &&Arc<Membership>| state.client.iter().any(|client| Arc::ptr_eq(client, other));
            let others = state.attached.iter().filter(|other| !is_primary(other));
            primary.chain(others).map(|client| client.server().clone()).collect::<Vec<ProcId>>()
        });
        if found.is_empty() {
            return Err(Failure(Status::ERR_UNREACH));
        }
        (*servers, *nservers) = to_c::procs(&found)?.into_raw();
        Ok(())
    })
}

/// Chooses the server that functions go to, one of those that are attached. With `PMIX_WAIT_FOR_CONNECTION` it may be
/// attached meanwhile. See the standard's function of the same name.
///
/// Support: implemented.
///
/// # Safety
/// `server` points to a process, `info` has `ninfo` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_tool_set_server(
    server: *const pmix_proc_t,
    info: *mut pmix_info_t,
    ninfo: usize,
) -> pmix_status_t {
    guard(|| {
        process::member()?;
        // SAFETY: the caller's contract.
        let server = unsafe { from_c::proc(server, None) }?.ok_or(Failure(Status::ERR_BAD_PARAM))?;
        // SAFETY: the caller's contract.
        let infos = unsafe { from_c::infos(info, ninfo) }?;
        let of = |name: &str| infos.iter().find(|info| info.key.as_str() == name).map(|info| &info.value);
        let is_patient = of(keys::WAIT_FOR_CONNECTION.name()).and_then(|value| value.as_bool()) == Some(true);
        let seconds = of(keys::TIMEOUT.name()).and_then(|value| value.as_u64()).filter(|&seconds| seconds > 0);
        // Without a time limit whoever waits waits for ever.
        let mut looks_left = seconds.map(|seconds| seconds.saturating_mul(LOOKS_PER_SECOND));
        loop {
            {
                let _changes = process::begin();
                if let Some(found) = process::read(|state| find(state, &server)) {
                    process::change(|state| state.client = Some(found));
                    return Ok(());
                }
            }
            if !is_patient {
                return Err(Failure(Status::ERR_UNREACH));
            }
            looks_left = looks_left.map(|looks| looks.saturating_sub(1));
            if looks_left == Some(0) {
                return Err(Failure(Status::ERR_TIMEOUT));
            }
            sleep(LOOK_INTERVAL);
        }
    })
}

/// Would let a tool serve clients of its own. See the standard's function of the same name.
///
/// Support: not supported.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_tool_set_server_module(_module: *mut pmix_server_module_t) -> pmix_status_t {
    guard(|| {
        process::member()?;
        Err(Failure(Status::ERR_NOT_SUPPORTED))
    })
}

/// Connects this tool, under the name it has, and remembers the server.
fn attach(mut directives: Directives) -> Result<Arc<Membership>, Failure> {
    let process::Member::Client(present) = process::member()? else { return Err(Failure(Status::ERR_NOT_SUPPORTED)) };
    // A client of a job stays in it; a tool is what its first server called it.
    directives.directions.name = Some(present.proc().clone());
    let server = Client::locate_server(&directives.directions).ok().flatten();
    if let Some(known) = server.and_then(|server| process::read(|state| find(state, &server))) {
        if directives.is_primary {
            process::change(|state| state.client = Some(Arc::clone(&known)));
        }
        return Ok(known);
    }
    let client = connect(&directives)?;
    let attached = Arc::new(Membership::new(client));
    process::change(|state| {
        state.attached.push(Arc::clone(&attached));
        // One who had no server has this one now.
        if directives.is_primary || present.is_alone() {
            state.client = Some(Arc::clone(&attached));
        }
    });
    Ok(attached)
}

/// Connects to the server that the directives name.
pub(super) fn connect(directives: &Directives) -> Result<Client, Failure> {
    spoken::begin();
    Client::connect_tool(&directives.directions).map_err(|error| {
        tracing::error!(%error, "no server for this tool");
        Failure(error.status())
    })
}

fn find(state: &State, server: &ProcId) -> Option<Arc<Membership>> {
    state.attached.iter().find(|attached| attached.server() == server).cloned()
}

/// Takes a server off the list; whether it was there.
fn forget(left: &Arc<Membership>) -> bool {
    process::change(|state| {
        let before = state.attached.len();
        state.attached.retain(|attached| !Arc::ptr_eq(attached, left));
        state.attached.len() < before
    })
}

/// What a server has to say to that does not change that it is left.
fn leave(left: Option<Arc<Membership>>) {
    process::renew_copy();
    if let Some(left) = left {
        let _ = left.leave();
    }
}

const LOOKS_PER_SECOND: u64 = 50;
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
