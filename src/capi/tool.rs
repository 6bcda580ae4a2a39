//! Tools: their first connection, and their end. See `tool_servers` for further connections.

use std::sync::Arc;

use super::guard::{Failure, guard, guard_or};
use super::process::{self, Membership};
use super::tool_directions::Directives;
use super::types::{pmix_info_t, pmix_proc_t, pmix_status_t};
use super::{from_c, pointer, to_c, tool_servers};
use crate::api::Client;
use crate::types::Status;

/// Makes this process a tool, or counts up if it is one. It connects to the server that the attributes name, else to the one
/// that started it, else to the only one that can be found; with `PMIX_TOOL_DO_NOT_CONNECT` to none, and with
/// `PMIX_TOOL_CONNECT_OPTIONAL` it works for itself if there is none. See the standard's function of the same name.
///
/// Support: implemented.
///
/// # Safety
/// `proc` is NULL or may be written, `info` has `ninfo` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_tool_init(proc: *mut pmix_proc_t, info: *mut pmix_info_t, ninfo: usize) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let infos = unsafe { from_c::infos(info, ninfo) }?;
        // SAFETY: the caller's contract.
        let place = unsafe { pointer::optional(proc, "place for the process") }?;
        let _changes = process::begin();
        let member = match process::member() {
            Ok(member) => member,
            Err(_) => {
                let client = Arc::new(Membership::new(connect(&Directives::read(&infos)?)?));
                process::change(|state| {
                    state.client = Some(Arc::clone(&client));
                    state.attached.extend((!client.is_alone()).then(|| Arc::clone(&client)));
                });
                process::Member::Client(client)
            }
        };
        process::change(|state| state.tool_count = state.tool_count.saturating_add(1));
        if let Some(place) = place {
            *place = to_c::proc(&member.proc());
        }
        Ok(())
    })
}

fn connect(directives: &Directives) -> Result<Client, Failure> {
    let alone = || match &directives.directions.name {
        Some(proc) => Client::alone_as(proc.clone()),
        None => Client::alone(),
    };
    let alone = || alone().map_err(|_| Failure(Status::ERR_OUT_OF_RESOURCE));
    if directives.is_alone {
        return alone();
    }
    match tool_servers::connect(directives) {
        Err(_) if directives.is_optional => alone(),
        outcome => outcome,
    }
}

/// Counts down; the last call leaves. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_tool_finalize() -> pmix_status_t {
    guard(|| {
        let (leaving, others) = {
            let _changes = process::begin();
            process::change(|state| {
                state.tool_count = state.tool_count.checked_sub(1).ok_or(Failure(Status::ERR_INIT))?;
                let is_last = state.client_count == 0 && state.tool_count == 0;
                let others = if is_last { std::mem::take(&mut state.attached) } else { Vec::new() };
                Ok::<_, Failure>((if is_last { state.client.take() } else { None }, others))
            })?
        };
        let Some(client) = leaving else { return Ok(()) };
        process::renew_copy();
        for other in others.into_iter().filter(|other| !Arc::ptr_eq(other, &client)) {
            // What other servers say to that changes nothing.
            let _ = other.leave();
        }
        Ok(client.leave()?)
    })
}

/// Whether this process has a server. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_tool_is_connected() -> bool {
    guard_or(false, || match process::member() {
        Ok(process::Member::Client(client)) => !client.is_alone(),
        _ => false,
    })
}
