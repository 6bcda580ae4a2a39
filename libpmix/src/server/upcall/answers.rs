//! The callbacks for hosts, one for each kind of answer.
//!
//! Each takes a `cbdata` that is a number (see `slots`), so that any value is safe; the other pointers are the host's
//! promise (P1 of `pointer`).

use modex::Credential;
use modex::types::AsStatus;
use modex::types::Status;

use super::due::{Due, answered};
use super::host_bytes::HostBytes;
use crate::argument::{Counted, In, NamespaceText};
use crate::error::CError;
use crate::guard::guard_or;
use crate::types::{
    c_char, c_void, pmix_byte_object_t, pmix_info_t, pmix_pdata_t, pmix_proc_t, pmix_release_cbfunc_t, pmix_status_t,
};
use crate::{from_c, pointer};

/// `pmix_op_cbfunc_t`.
pub(super) unsafe extern "C" fn status(status: pmix_status_t, cbdata: *mut c_void) {
    guard_or((), || {
        let Some((due, _rest)) = answered(cbdata) else { return };
        match due {
            Due::Status(answer) => answer(settled(status)),
            other => mistaken(other),
        }
    });
}

/// `pmix_modex_cbfunc_t`.
pub(super) unsafe extern "C" fn blob(
    status: pmix_status_t,
    data: *const c_char,
    size_bytes: usize,
    cbdata: *mut c_void,
    mut release: Option<pmix_release_cbfunc_t>,
    release_cbdata: *mut c_void,
) {
    guard_or((), || {
        let Some((due, _rest)) = answered(cbdata) else { return };
        // SAFETY: the host's promise: so many bytes, until it is told to release them.
        let bytes = unsafe { pointer::slice(data.cast::<u8>(), size_bytes, "data of other servers") };
        let bytes = match (settled(status), bytes) {
            (Status::SUCCESS, bytes) => bytes.map_err(|error| refused(&error)),
            (failure, _) => Err(failure),
        };
        match (due, bytes, release) {
            (Due::Blob(answer), bytes, _) => answer(bytes),
            (Due::Fence(answer), Ok(bytes), Some(function)) => {
                release = None;
                // SAFETY: the host's promise: the bytes stay as they are until `function` releases them.
                answer(Ok(unsafe { HostBytes::lent(bytes, function, release_cbdata) }));
            }
            (Due::Fence(answer), bytes, _) => answer(bytes.map(HostBytes::copied)),
            (other, ..) => mistaken(other),
        }
    });
    if let Some(release) = release {
        // SAFETY: the host gave it to be called with this, once, when its data is no longer used.
        unsafe { release(release_cbdata) };
    }
}

/// `pmix_lookup_cbfunc_t`.
pub(super) unsafe extern "C" fn found(
    status: pmix_status_t,
    data: *mut pmix_pdata_t,
    count: usize,
    cbdata: *mut c_void,
) {
    guard_or((), || {
        let Some((due, _rest)) = answered(cbdata) else { return };
        let Due::Found(answer) = due else { return mistaken(due) };
        // SAFETY: the host's promise: so many elements, until this returns.
        match from_c::pdata(unsafe { Counted::new(data, count) }) {
            Ok(found) => answer(settled(status), found),
            Err(error) => answer(refused(&error), Vec::new()),
        }
    });
}

/// `pmix_spawn_cbfunc_t`.
pub(super) unsafe extern "C" fn namespace(status: pmix_status_t, nspace: *mut c_char, cbdata: *mut c_void) {
    guard_or((), || {
        let Some((due, _rest)) = answered(cbdata) else { return };
        let Due::Namespace(answer) = due else { return mistaken(due) };
        match settled(status) {
            Status::SUCCESS => {
                // SAFETY: the host's promise: a string, until this returns.
                let nspace = unsafe { NamespaceText::new(nspace) };
                answer(from_c::namespace(nspace, None).map_err(|error| refused(&error)));
            }
            failure => answer(Err(failure)),
        }
    });
}

/// `pmix_info_cbfunc_t`.
pub(super) unsafe extern "C" fn infos(
    status: pmix_status_t,
    info: *mut pmix_info_t,
    count: usize,
    cbdata: *mut c_void,
    release: Option<pmix_release_cbfunc_t>,
    release_cbdata: *mut c_void,
) {
    guard_or((), || {
        let Some((due, _rest)) = answered(cbdata) else { return };
        // SAFETY: the host's promise: so many elements, until it is told to release them.
        answer_infos(due, status, unsafe { Counted::new(info, count) });
    });
    if let Some(release) = release {
        // SAFETY: the host gave it to be called with this, once, when its infos are no longer used.
        unsafe { release(release_cbdata) };
    }
}

/// `pmix_validation_cbfunc_t`.
pub(super) unsafe extern "C" fn validated(
    status: pmix_status_t,
    info: *mut pmix_info_t,
    count: usize,
    cbdata: *mut c_void,
) {
    guard_or((), || {
        let Some((due, _rest)) = answered(cbdata) else { return };
        // SAFETY: the host's promise: so many elements, until this returns.
        answer_infos(due, status, unsafe { Counted::new(info, count) });
    });
}

/// `pmix_credential_cbfunc_t`.
pub(super) unsafe extern "C" fn credential(
    status: pmix_status_t,
    credential: *mut pmix_byte_object_t,
    info: *mut pmix_info_t,
    count: usize,
    cbdata: *mut c_void,
) {
    guard_or((), || {
        let Some((due, _rest)) = answered(cbdata) else { return };
        let Due::Credential(answer) = due else { return mistaken(due) };
        if settled(status) != Status::SUCCESS {
            return answer(Err(settled(status)));
        }
        // SAFETY: the host's promise: a byte object, until this returns.
        let bytes = from_c::byte_object(unsafe { In::new(credential) });
        // SAFETY: the host's promise: so many elements, until this returns.
        let info = from_c::infos(unsafe { Counted::new(info, count) });
        match (bytes, info) {
            (Ok(bytes), Ok(info)) => answer(Ok(Credential { bytes, info })),
            (Err(error), _) | (_, Err(error)) => answer(Err(refused(&error))),
        }
    });
}

/// `pmix_tool_connection_cbfunc_t`.
pub(super) unsafe extern "C" fn tool(status: pmix_status_t, proc: *mut pmix_proc_t, cbdata: *mut c_void) {
    guard_or((), || {
        let Some((due, _rest)) = answered(cbdata) else { return };
        let Due::Tool(answer) = due else { return mistaken(due) };
        if settled(status) != Status::SUCCESS {
            return answer(Err(settled(status)));
        }
        // SAFETY: the host's promise: NULL or a process, until this returns.
        answer(from_c::proc(unsafe { In::new(proc) }, None).map_err(|error| refused(&error)));
    });
}

fn answer_infos(due: Due, status: pmix_status_t, infos: Counted<'_, pmix_info_t>) {
    let Due::Infos(answer) = due else { return mistaken(due) };
    match from_c::infos(infos) {
        Ok(infos) => answer(settled(status), infos),
        Err(error) => answer(refused(&error), Vec::new()),
    }
}

/// Both success codes mean success, whether a callback was still to come or not.
fn settled(status: pmix_status_t) -> Status {
    match Status::from_raw(status) {
        Status::OPERATION_SUCCEEDED => Status::SUCCESS,
        status => status,
    }
}

fn refused(error: &CError) -> Status {
    tracing::warn!(%error, "the host's answer can't be read");
    error.status()
}

/// The host has used the `cbdata` of one request with the callback of another.
fn mistaken(due: Due) {
    tracing::error!("the host has answered a request with the callback of another kind of request; it fails");
    due.fail(Status::ERR_TYPE_MISMATCH);
}
