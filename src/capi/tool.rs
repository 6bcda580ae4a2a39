//! Tools. Until tools can connect to any server, a tool is a process of its own, or a client of the server that started
//! it.

use std::sync::Arc;

use super::guard::{Failure, guard, guard_or};
use super::process::{self, Membership};
use super::types::{pmix_info_t, pmix_proc_t, pmix_server_module_t, pmix_status_t};
use super::{from_c, pointer, to_c};
use crate::api::{Client, ConnectError};
use crate::keys;
use crate::types::{Info, Status};

/// Makes this process a tool, or counts up if it is one. It is connected if a server started it; otherwise it needs
/// `PMIX_TOOL_DO_NOT_CONNECT` or `PMIX_TOOL_CONNECT_OPTIONAL`, and works for itself. See the standard's function of the
/// same name.
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
                let client = Arc::new(Membership::new(connect(&infos)?));
                process::change(|state| state.client = Some(Arc::clone(&client)));
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

fn connect(infos: &[Info]) -> Result<Client, Failure> {
    let is_set = |name: &str| infos.iter().any(|info| info.key.as_str() == name && info.value.as_bool() == Some(true));
    let alone = || Client::alone().map_err(|_| Failure(Status::ERR_OUT_OF_RESOURCE));
    if is_set(keys::TOOL_DO_NOT_CONNECT.name()) {
        return alone();
    }
    match Client::connect() {
        Ok(client) => Ok(client),
        Err(_) if is_set(keys::TOOL_CONNECT_OPTIONAL.name()) => alone(),
        Err(ConnectError::NotLaunched) => Err(Failure(Status::ERR_UNREACH)),
        Err(error) => {
            tracing::error!(%error, "PMIx_tool_init failed");
            Err(Failure(Status::ERR_UNREACH))
        }
    }
}

/// Counts down; the last call leaves. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_tool_finalize() -> pmix_status_t {
    guard(|| {
        let leaving = {
            let _changes = process::begin();
            process::change(|state| {
                state.tool_count = state.tool_count.checked_sub(1).ok_or(Failure(Status::ERR_INIT))?;
                let is_last = state.client_count == 0 && state.tool_count == 0;
                Ok::<_, Failure>(if is_last { state.client.take() } else { None })
            })?
        };
        let Some(client) = leaving else { return Ok(()) };
        process::renew_copy();
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

/// Would connect to another server. See the standard's function of the same name.
///
/// Support: not supported.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_tool_attach_to_server(
    _myproc: *mut pmix_proc_t,
    _server: *mut pmix_proc_t,
    _info: *mut pmix_info_t,
    _ninfo: usize,
) -> pmix_status_t {
    refuse()
}

/// Would connect to another server. See the standard's function of the same name.
///
/// Support: not supported.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_tool_connect_to_server(
    _proc: *mut pmix_proc_t,
    _info: *mut pmix_info_t,
    _ninfo: usize,
) -> pmix_status_t {
    refuse()
}

/// Would disconnect from a server. See the standard's function of the same name.
///
/// Support: not supported.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_tool_disconnect(_server: *const pmix_proc_t) -> pmix_status_t {
    refuse()
}

/// Would list the servers this process is connected to. See the standard's function of the same name.
///
/// Support: not supported.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_tool_get_servers(_servers: *mut *mut pmix_proc_t, _nservers: *mut usize) -> pmix_status_t {
    refuse()
}

/// Would choose one of several servers. See the standard's function of the same name.
///
/// Support: not supported.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_tool_set_server(
    _server: *const pmix_proc_t,
    _info: *mut pmix_info_t,
    _ninfo: usize,
) -> pmix_status_t {
    refuse()
}

/// Would let a tool serve clients of its own. See the standard's function of the same name.
///
/// Support: not supported.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_tool_set_server_module(_module: *mut pmix_server_module_t) -> pmix_status_t {
    refuse()
}

fn refuse() -> pmix_status_t {
    guard(|| {
        process::member()?;
        Err(Failure(Status::ERR_NOT_SUPPORTED))
    })
}
