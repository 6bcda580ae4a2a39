//! Attributes that the host says it supports.

use modex::types::{Status, Text};

use super::state;
use crate::from_c;
use crate::guard::{Failure, guard};
use crate::types::{c_char, pmix_status_t};

/// Notes the attributes that the host supports for one of its functions. Queries for `PMIX_QUERY_ATTRIBUTE_SUPPORT`
/// find them. See the standard's function of the same name.
///
/// Support: implemented.
///
/// # Safety
/// `function` is NULL or NUL-terminated, `attrs` is NULL or an array of strings that a NULL ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Register_attributes(function: *mut c_char, attrs: *mut *mut c_char) -> pmix_status_t {
    guard(|| {
        let process = state::current()?;
        // SAFETY: the caller's contract.
        let function = unsafe { from_c::text(function) }?.ok_or(Failure(Status::ERR_BAD_PARAM))?.to_string_lossy();
        // SAFETY: the caller's contract.
        let attributes = unsafe { from_c::argv(attrs) }?;
        let mut known = process.attributes.lock();
        if known.contains_key(&function) {
            return Err(Failure(Status::ERR_REPEAT_ATTR_REGISTRATION));
        }
        known.insert(function, attributes.iter().map(Text::to_string_lossy).collect());
        Ok(())
    })
}
