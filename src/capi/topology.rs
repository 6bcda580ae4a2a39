//! Topology functions of servers.

use super::guard::{Failure, guard};
use super::types::{c_char, pmix_cpuset_t, pmix_status_t};
use crate::types::Status;

/// Would tell what a process shares with its neighbours, from where it may run. See the standard's function of the same
/// name.
///
/// Support: not supported.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_server_generate_locality_string(
    _cpuset: *const pmix_cpuset_t,
    _locality: *mut *mut c_char,
) -> pmix_status_t {
    guard(|| Err(Failure(Status::ERR_NOT_SUPPORTED)))
}

/// Would write a set of processors as text. See the standard's function of the same name.
///
/// Support: not supported.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_server_generate_cpuset_string(
    _cpuset: *const pmix_cpuset_t,
    _cpuset_string: *mut *mut c_char,
) -> pmix_status_t {
    guard(|| Err(Failure(Status::ERR_NOT_SUPPORTED)))
}
