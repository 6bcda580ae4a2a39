//! Holds the place of branch `registration` until it is merged here: the same names, and a parser that refuses.

use super::job_record::JobRecord;
use super::publish::AsStatus;
use crate::types::{Info, Namespace, Status};

/// What a registration depends on besides the description.
#[derive(Clone, Debug)]
pub struct Context {
    /// Name of the node this server runs on.
    pub hostname: String,
}

impl Context {
    /// A server on the node `hostname`.
    pub fn new(hostname: impl Into<String>) -> Self {
        Self { hostname: hostname.into() }
    }
}

/// Why a host's description was refused.
#[derive(Clone, Debug, thiserror::Error)]
#[error("this build cannot parse registrations yet; use Store::register_record")]
pub struct RegisterError;

impl AsStatus for RegisterError {
    fn status(&self) -> Status {
        Status::ERR_NOT_SUPPORTED
    }
}

/// Refuses every description.
///
/// # Errors
/// Always.
pub const fn parse(_: &Namespace, _: &Context, _: &[Info], _: Option<&JobRecord>) -> Result<JobRecord, RegisterError> {
    Err(RegisterError)
}
