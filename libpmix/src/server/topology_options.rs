//! Topology options of a host that starts a server.

use modex::TopologySharing;
use modex::keys;
use modex::types::{DataType, Status};

use crate::form::Whole;
use crate::guard::Failure;
use crate::hwloc::RawTopology;
use crate::topology::{Given, is_forbidden};
use crate::types::pmix_value_t;
use crate::{from_c, pointer};

/// Our own info: "none" forbids reading the machine, "discover" allows it. Has precedence over the variable
/// `MODEX_TOPOLOGY`.
pub(super) const TOPOLOGY: &str = "modex.topology";

/// Source of the topology, and permission to share and to read it.
#[derive(Debug, Default)]
pub(super) struct TopologyOptions {
    given: Given,
    is_shared: Option<bool>,
    may_read: Option<bool>,
}

impl TopologyOptions {
    /// Takes an option. Returns false if it is no topology option.
    ///
    /// # Errors
    /// `ERR_NOT_SUPPORTED` for a required topology that can't be used.
    pub(super) fn take(
        &mut self,
        name: &str,
        value: Whole<'_, pmix_value_t>,
        is_required: bool,
    ) -> Result<bool, Failure> {
        // Read here and not on demand: the host's promise about its object ends with this call, and it may walk the
        // object on threads of its own.
        if name == keys::TOPOLOGY2.name() {
            self.give(object_of(value, is_required)?);
        } else if name == keys::TOPOLOGY.name() {
            if value.type_ == DataType::Pointer.to_raw() && !matches!(self.given, Given::Described(_)) {
                let object = value.data.ptr().cast::<RawTopology>();
                // SAFETY: the standard's attribute holds NULL or a loaded topology of libhwloc, which
                // `PMIx_server_init` may read (P1).
                self.give(unsafe { pointer::optional(object, "topology") }?);
            } else if is_required && value.type_ != DataType::Pointer.to_raw() {
                return Err(Failure(Status::ERR_NOT_SUPPORTED));
            }
        } else if name == keys::SERVER_SHARE_TOPOLOGY.name() || name == keys::HWLOC_SHARE_TOPO.name() {
            let value = from_c::value(value)?;
            self.is_shared = Some(value.as_bool().ok_or(Failure(Status::ERR_BAD_PARAM))?);
        } else if name == keys::TOPOLOGY_FILE.name() {
            let value = from_c::value(value)?;
            let path = value.as_str().ok_or(Failure(Status::ERR_BAD_PARAM))?;
            if matches!(self.given, Given::Nothing) {
                self.given = Given::File(path.into());
            }
        } else if name == TOPOLOGY {
            let value = from_c::value(value)?;
            self.may_read = Some(match value.as_str() {
                Some("none") => false,
                Some("discover") => true,
                _ => return Err(Failure(Status::ERR_BAD_PARAM)),
            });
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn give(&mut self, object: Option<&RawTopology>) {
        if let Some(given) = object.and_then(Given::described) {
            self.given = given;
        }
    }

    pub(super) const fn sharing(&self) -> TopologySharing {
        match self.is_shared {
            None => TopologySharing::OnDemand,
            Some(true) => TopologySharing::AtStart,
            Some(false) => TopologySharing::Refused,
        }
    }

    /// The topology that the host gave. The ban on reading the machine leaves a given topology in use.
    pub(super) fn given(self) -> Given {
        let may_read = self.may_read.unwrap_or_else(|| !is_forbidden());
        if may_read || matches!(self.given, Given::Described(_)) { self.given } else { Given::Forbidden }
    }
}

/// The object of libhwloc in a topology value, if there is one.
fn object_of(value: Whole<'_, pmix_value_t>, is_required: bool) -> Result<Option<&RawTopology>, Failure> {
    let unused = || if is_required { Err(Failure(Status::ERR_NOT_SUPPORTED)) } else { Ok(None) };
    if value.type_ != DataType::Topology.to_raw() {
        return unused();
    }
    let Some(topology) = value.topology()? else { return Ok(None) };
    let source = topology.source().text("source of the topology")?;
    let is_hwloc = source.is_none_or(|source| source.to_bytes().starts_with(b"hwloc"));
    if !is_hwloc {
        tracing::warn!(?source, "the host's topology is another provider's and is not used");
        return unused();
    }
    Ok(topology.topology()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::empty;

    /// Regression: an address in the first page was followed, and the host crashed.
    #[test]
    fn an_impossible_address_is_no_topology() {
        let mut value = empty::<pmix_value_t>();
        value.type_ = DataType::Pointer.to_raw();
        value.data.ptr = std::ptr::without_provenance_mut(8);
        // SAFETY: values of this type have no pointer that the form follows.
        let taken = TopologyOptions::default().take(keys::TOPOLOGY.name(), unsafe { Whole::new(&value) }, false);
        assert_eq!(taken.unwrap_err().0, Status::ERR_BAD_PARAM);
    }
}
