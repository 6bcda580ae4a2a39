//! Completion of operations: return value or callback.

use modex::types::AsStatus;
use modex::types::Status;
use modex::{Pending, Server, ServerCall, ServerError};

use super::state::{self, ServerProcess};
use crate::callback::{Bound, Callback};
use crate::guard::{Failure, guard_or, guard_status};
use crate::pointer::CallerData;
use crate::types::{pmix_op_cbfunc_t, pmix_status_t};

/// Status of a result, for the callback.
pub(super) fn status_of<E: AsStatus>(result: &Result<(), E>) -> Status {
    result.as_ref().map_or_else(AsStatus::status, |()| Status::SUCCESS)
}

/// Logs the reason of a failure: the host gets a bare status.
fn log_failure(result: &Result<(), ServerError>) {
    if let Err(error) = result {
        tracing::warn!(%error, "a call of this host has failed");
    }
}

/// Runs an operation of the server. Callers without a callback wait for its end.
pub(super) fn perform(
    callback: Callback<pmix_op_cbfunc_t>,
    data: CallerData,
    operation: impl FnOnce(&Server) -> Pending<ServerCall<()>>,
) -> Result<Status, Failure> {
    perform_and(callback, data, operation, || ())
}

/// As [`perform`]; `after` runs at the end, after the callback.
pub(super) fn perform_and(
    callback: Callback<pmix_op_cbfunc_t>,
    data: CallerData,
    operation: impl FnOnce(&Server) -> Pending<ServerCall<()>>,
    after: impl FnOnce() + Send + 'static,
) -> Result<Status, Failure> {
    let process = state::current()?;
    let pending = operation(process.server());
    let Some(callback) = callback.with(data) else {
        let result = pending.wait();
        log_failure(&result);
        after();
        result?;
        return Ok(Status::OPERATION_SUCCEEDED);
    };
    pending.then(|result| {
        log_failure(&result);
        callback.call(status_of(&result));
        after();
    })?;
    Ok(Status::SUCCESS)
}

/// As [`perform`], for operations that end before the function returns; the callback runs afterwards.
pub(super) fn perform_at_once(
    callback: Callback<pmix_op_cbfunc_t>,
    data: CallerData,
    act: impl FnOnce(&ServerProcess) -> Result<(), Failure>,
) -> pmix_status_t {
    guard_status(|| {
        let process = state::current()?;
        act(&process)?;
        let Some(callback) = callback.with(data) else { return Ok(Status::OPERATION_SUCCEEDED) };
        defer_status(&process, callback, Status::SUCCESS)?;
        Ok(Status::SUCCESS)
    })
}

/// For functions that return nothing: every failure goes to the callback.
pub(super) fn perform_always(
    callback: Callback<pmix_op_cbfunc_t>,
    data: CallerData,
    act: impl FnOnce() -> Result<Status, Failure>,
) {
    let outcome = guard_or(Err(Failure(Status::ERROR)), act);
    let Err(Failure(status)) = outcome else { return };
    let is_deferred = match (state::current(), callback.with(data)) {
        (Ok(process), Some(callback)) => defer_status(&process, callback, status).is_ok(),
        _ => false,
    };
    // Without a server there is no other thread to run the callback.
    if !is_deferred && let Some(callback) = callback.with(data) {
        callback.call(status);
    }
}

fn defer_status(process: &ServerProcess, callback: Bound<pmix_op_cbfunc_t>, status: Status) -> Result<(), ServerError> {
    process.server().defer(move || callback.call(status))
}
