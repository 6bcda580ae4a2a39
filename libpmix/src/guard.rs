//! The frame of every exported function: no panic unwinds into C, and errors become status codes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use modex::types::AsStatus;
use modex::types::Status;

use super::types::pmix_status_t;

/// A status to return instead of success. Every error with a status becomes one with `?`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure(pub Status);

impl<E: AsStatus> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.status())
    }
}

/// Runs the body of a function that returns `PMIX_SUCCESS` or an error.
pub fn guard(body: impl FnOnce() -> Result<(), Failure>) -> pmix_status_t {
    guard_status(|| body().map(|()| Status::SUCCESS))
}

/// Runs the body of a function that can succeed in more than one way (`PMIX_OPERATION_SUCCEEDED`, a handler's id).
pub fn guard_status(body: impl FnOnce() -> Result<Status, Failure>) -> pmix_status_t {
    let outcome = guard_or(Err(Failure(Status::ERROR)), body);
    outcome.unwrap_or_else(|Failure(status)| status).to_raw()
}

/// Runs the body of a function with another result; `otherwise` is the result after a panic.
pub fn guard_or<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    // A panic leaves nothing half done for the next call: bodies own the data that they change until they succeed, and
    // locks are not poisoned (parking_lot).
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::CError;

    #[test]
    fn an_error_becomes_its_status() {
        assert_eq!(guard(|| Ok(())), 0);
        assert_eq!(guard(|| Err(CError::Null { what: "proc" }.into())), Status::ERR_BAD_PARAM.to_raw());
        assert_eq!(guard_status(|| Ok(Status::OPERATION_SUCCEEDED)), -157);
    }

    #[test]
    fn a_panic_stays_inside() {
        assert_eq!(guard(|| panic!("inside")), Status::ERROR.to_raw());
        assert_eq!(guard_or(7, || panic!("inside")), 7);
    }
}
