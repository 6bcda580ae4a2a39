//! A job's description, read from the caller's arrays.

use crate::capi::error::CError;
use crate::capi::from_c;
use crate::capi::types::pmix_info_t;
use crate::types::Info;

/// Reads a description.
///
/// # Safety
/// P1 for the array and every pointer inside.
pub(super) unsafe fn read(infos: *const pmix_info_t, count: usize) -> Result<Vec<Info>, CError> {
    // SAFETY: the caller's contract.
    unsafe { from_c::infos(infos, count) }
}
