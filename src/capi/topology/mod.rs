//! Hardware: topologies, processor sets, localities, distances.
//!
//! libhwloc is loaded when a function here is first called ([`super::hwloc`]): most processes of a job never do, and
//! being linked with it would cost each of them more at its start than all else this library does there. Its types are
//! those of `hwlocality-sys`. Without libhwloc on the machine the functions answer `PMIX_ERR_NOT_SUPPORTED`.
//!
//! Source: PMIx Standard, "Process-Related Non-Reserved Keys" and "Device and Topology Support".

mod detect;
mod distances;
mod locality;
#[cfg(test)]
mod tests;

pub use detect::Error;
pub use distances::*;
pub use locality::*;

use std::sync::OnceLock;

use super::guard::{Failure, guard};
use super::types::*;
use super::{hwloc, memory, pointer};
use crate::types::{Status, Text};
use detect::Machine;

/// What names the provider in structures and strings.
const SOURCE: &[u8] = b"hwloc";

/// The topology of this machine, which the library keeps: destructing the structure does not free it.
///
/// Support: implemented.
///
/// # Safety
/// `topo` is writable; its source is NULL or names the provider wanted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Load_topology(topo: *mut pmix_topology_t) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let place = unsafe { pointer::unique(topo, "place for the topology") }?;
        // SAFETY: the caller's contract.
        unsafe { is_ours(place.source, "topology") }?;
        let topology = own()?;
        if place.source.is_null() {
            place.source = memory::new_string(SOURCE)?;
        }
        place.topology = topology;
        Ok(())
    })
}

/// The library's own topology, read at the first call.
fn own() -> Result<*mut c_void, Error> {
    static OWN: OnceLock<Result<usize, Error>> = OnceLock::new();
    let load = || {
        let topology = Machine::get("read the topology of this machine")?.load()?;
        hwloc::keep_topology(topology);
        Ok(topology.expose_provenance())
    };
    OWN.get_or_init(load).clone().map(std::ptr::with_exposed_provenance_mut)
}

/// Refuses what another provider made.
///
/// # Safety
/// `source` is NULL or ends with NUL.
unsafe fn is_ours(source: *const c_char, what: &'static str) -> Result<(), Failure> {
    // SAFETY: the caller's contract.
    match unsafe { pointer::text(source, what) }? {
        Some(source) if !source.to_bytes().starts_with(SOURCE) => {
            Err(Error::Source { what, source_name: source.to_string_lossy().into_owned() }.into())
        }
        _ => Ok(()),
    }
}
