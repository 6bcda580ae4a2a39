//! Completion of operations: return value or callback.

use modex::types::AsStatus;
use modex::types::Status;
use modex::{Server, ServerError};

use super::state::{self, ServerProcess};
use crate::guard::{Failure, guard_or, guard_status};
use crate::pointer::CallerData;
use crate::types::{c_void, pmix_op_cbfunc_t, pmix_status_t};

/// Status of a result, for the callback.
pub(super) fn status_of<E: AsStatus>(result: &Result<(), E>) -> Status {
    result.as_ref().map_or_else(AsStatus::status, |()| Status::SUCCESS)
}

/// Receives the result of an operation.
pub(super) type Done = Box<dyn FnOnce(Result<(), ServerError>) + Send>;

/// Runs an operation of the server: `wait` for callers without a callback, `begin` for the others.
pub(super) fn perform(
    callback: Option<pmix_op_cbfunc_t>,
    data: *mut c_void,
    wait: impl FnOnce(&Server) -> Result<(), ServerError>,
    begin: impl FnOnce(&Server, Done) -> Result<(), ServerError>,
) -> Result<Status, Failure> {
    let process = state::current()?;
    let Some(callback) = callback else {
        wait(process.server())?;
        return Ok(Status::OPERATION_SUCCEEDED);
    };
    let data = CallerData::new(data);
    let done = move |result: Result<(), ServerError>| {
        // SAFETY: the caller gave the function for this, and its data with it.
        unsafe { callback(status_of(&result).to_raw(), data.get()) };
    };
    begin(process.server(), Box::new(done))?;
    Ok(Status::SUCCESS)
}

/// As [`perform`], for operations that end before the function returns; the callback runs afterwards.
pub(super) fn perform_at_once(
    callback: Option<pmix_op_cbfunc_t>,
    data: *mut c_void,
    act: impl FnOnce(&ServerProcess) -> Result<(), Failure>,
) -> pmix_status_t {
    guard_status(|| {
        let process = state::current()?;
        act(&process)?;
        let Some(callback) = callback else { return Ok(Status::OPERATION_SUCCEEDED) };
        call_later(&process, callback, data, Status::SUCCESS)?;
        Ok(Status::SUCCESS)
    })
}

/// For functions that return nothing: every failure goes to the callback.
pub(super) fn perform_always(
    callback: Option<pmix_op_cbfunc_t>,
    data: *mut c_void,
    act: impl FnOnce() -> Result<Status, Failure>,
) {
    let outcome = guard_or(Err(Failure(Status::ERROR)), act);
    let (Err(Failure(status)), Some(callback)) = (outcome, callback) else { return };
    let is_told = state::current().and_then(|process| Ok(call_later(&process, callback, data, status)?));
    if is_told.is_err() {
        // Without a server there is no other thread to run the callback.
        // SAFETY: as in `perform`.
        unsafe { callback(status.to_raw(), data) };
    }
}

fn call_later(
    process: &ServerProcess,
    callback: pmix_op_cbfunc_t,
    data: *mut c_void,
    status: Status,
) -> Result<(), ServerError> {
    let data = CallerData::new(data);
    process.server().defer(move || {
        // SAFETY: as in `perform`.
        unsafe { callback(status.to_raw(), data.get()) };
    })
}
