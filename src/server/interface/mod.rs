//! What the outside names: inputs and outputs, calls and upcalls of the host, requests, configuration.

pub(super) mod config;
pub(super) mod directives;
pub(super) mod host;
pub(super) mod io;
pub(super) mod job_data;
pub(super) mod requests;
