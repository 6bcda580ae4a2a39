//! Hardware: topologies, processor sets, localities, distances.
//!
//! libhwloc is loaded when a function here is first called ([`super::hwloc`]). Most processes of a job never call one.
//! Linking it would cost each of them more at its start than all other work of this library. A client needs
//! libhwloc only to hand out libhwloc's own objects: facts about the machine come from the topology that its server
//! shares (`topo`). Without libhwloc on the server's machine the functions answer `PMIX_ERR_NOT_SUPPORTED`.
//!
//! Source: PMIx Standard, "Process-Related Non-Reserved Keys" and "Device and Topology Support".

mod binding;
mod detect;
mod distances;
mod locality;
mod source;
#[cfg(test)]
mod tests;

pub use distances::*;
pub use locality::*;
use modex::types::AsStatus;
use modex::types::{Status, Text};
pub use source::{Given, HostTopology, is_forbidden};

use super::argument::InOut;
use super::form::{Str, Whole};
use super::guard::{Failure, guard};
use super::types::*;
use super::{hwloc, memory};

/// The provider's name in structures and strings.
const SOURCE: &[u8] = b"hwloc";

/// The topology of this machine, which the library keeps: destructing the structure does not free it. Callers share the
/// object and must not change it. A client gets its server's topology. It reads the machine only if its server is
/// another library's and shares nothing.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Load_topology(topo: InOut<'_, pmix_topology_t>) -> pmix_status_t {
    guard(|| {
        let place = topo.own("place for the topology")?;
        is_ours(place.whole().source(), "topology")?;
        let topology = source::as_object(source::object()?);
        let place = place.into_place();
        if place.source.is_null() {
            place.source = memory::new_string(SOURCE)?;
        }
        place.topology = topology;
        Ok(())
    })
}

/// Another provider's object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {what} comes from {source_name:?}; this library knows hwloc only")]
pub struct SourceError {
    what: &'static str,
    source_name: String,
}

impl AsStatus for SourceError {
    fn status(&self) -> Status {
        Status::ERR_NOT_SUPPORTED
    }
}

/// Refuses objects of another provider.
fn is_ours(source: Whole<'_, Str>, what: &'static str) -> Result<(), Failure> {
    match source.text(what)? {
        Some(source) if !source.to_bytes().starts_with(SOURCE) => {
            Err(SourceError { what, source_name: source.to_string_lossy().into_owned() }.into())
        }
        _ => Ok(()),
    }
}
