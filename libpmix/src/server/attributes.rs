//! Attributes that the host says it supports.

use modex::types::{Status, Text};

use super::state;
use crate::argument::{CText, TextArray};
use crate::from_c;
use crate::guard::{Failure, guard};
use crate::types::pmix_status_t;

/// Notes the attributes that the host supports for one of its functions. Queries for `PMIX_QUERY_ATTRIBUTE_SUPPORT`
/// find them. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Register_attributes(function: CText<'_>, attrs: TextArray<'_>) -> pmix_status_t {
    guard(|| {
        let process = state::current()?;
        let function = from_c::text(function)?.ok_or(Failure(Status::ERR_BAD_PARAM))?.to_string_lossy();
        let attributes = from_c::argv(attrs)?;
        let attributes = attributes.iter().map(Text::to_string_lossy).collect();
        Ok(process.bridge.facts.register_attributes(&function, attributes)?)
    })
}
