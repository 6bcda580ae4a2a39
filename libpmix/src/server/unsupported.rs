//! Functions that are not supported.

use modex::types::Status;

use super::state;
use crate::guard::{Failure, guard};
use crate::types::{pmix_data_buffer_t, pmix_proc_t, pmix_status_t};

/// Would pack a server's data about processes. See the reference implementation's function of the same name.
///
/// Support: not supported.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_collect_job_info(
    _procs: *mut pmix_proc_t,
    _nprocs: usize,
    _dbuf: *mut pmix_data_buffer_t,
) -> pmix_status_t {
    refuse()
}

fn refuse() -> pmix_status_t {
    guard(|| {
        state::current()?;
        Err(Failure(Status::ERR_NOT_SUPPORTED))
    })
}
