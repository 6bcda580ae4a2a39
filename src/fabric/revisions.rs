//! A machine's fabric in one revision, and the current one.

use std::ops::Deref;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use super::description::FabricDescription;
use super::error::FabricError;
use super::plane::{NAME_BYTES_MAX, Plane};
use crate::topo::inventory::Inventories;
use crate::topo::is_name;

/// All planes of a fabric, checked.
#[derive(Debug, PartialEq, Eq)]
pub struct Fabric {
    identifier: String,
    planes: Vec<Plane>,
}

impl Fabric {
    /// Checks a description.
    ///
    /// # Errors
    /// [`FabricError`] names the plane, switch or device.
    pub fn new(description: FabricDescription) -> Result<Self, FabricError> {
        let FabricDescription { identifier, planes } = description;
        let shown = |text: &str| text.chars().take(NAME_BYTES_MAX / 4).collect::<String>();
        if !is_name(&identifier) {
            return Err(FabricError::Name { plane: String::new(), name: shown(&identifier), max: NAME_BYTES_MAX });
        }
        let planes = planes.into_iter().map(Plane::new).collect::<Result<Vec<_>, _>>()?;
        if planes.is_empty() {
            return Err(FabricError::NoPlane);
        }
        let mut names: Vec<&str> = planes.iter().map(Plane::name).collect();
        names.sort_unstable();
        if let Some([plane, _]) = names.array_windows().find(|[one, other]| one == other) {
            return Err(FabricError::TwoPlanes { plane: (*plane).to_owned() });
        }
        let mut devices: Vec<(&str, &str)> = planes.iter().flat_map(Plane::device_names).collect();
        devices.sort_unstable();
        if let Some([(node, device), _]) = devices.array_windows().find(|[one, other]| one == other) {
            return Err(FabricError::TwoDevices { node: (*node).to_owned(), device: (*device).to_owned() });
        }
        Ok(Self { identifier, planes })
    }

    /// A fabric that nothing is known of yet.
    #[must_use]
    pub const fn unknown(identifier: String) -> Self {
        Self { identifier, planes: Vec::new() }
    }

    /// `PMIX_FABRIC_IDENTIFIER`.
    #[must_use]
    pub fn identifier(&self) -> &str {
        &self.identifier
    }

    /// The planes; the first is the default. A fabric from inventories has none before devices were delivered.
    #[must_use]
    pub fn planes(&self) -> &[Plane] {
        &self.planes
    }
}

/// The number of the first revision.
pub(crate) const FIRST_REVISION: u64 = 1;

/// The newest revision of a fabric. Readers hold [`FabricHandle`]s, so an update never waits for them.
#[derive(Debug)]
pub struct CurrentFabric {
    newest: Arc<RwLock<Arc<Revision>>>,
}

/// A fabric in one revision. It stays as it is while somebody holds the handle.
#[derive(Debug, Clone)]
pub struct FabricHandle {
    held: Arc<Revision>,
    newest: Arc<RwLock<Arc<Revision>>>,
}

#[derive(Debug)]
struct Revision {
    number: u64,
    fabric: Fabric,
    /// The devices of each node, encoded for the first question about all of them.
    inventories: OnceLock<Arc<Inventories>>,
}

impl Revision {
    fn new(number: u64, fabric: Fabric) -> Arc<Self> {
        Arc::new(Self { number, fabric, inventories: OnceLock::new() })
    }
}

impl CurrentFabric {
    /// Begins with revision 1.
    #[must_use]
    pub fn new(fabric: Fabric) -> Self {
        Self { newest: Arc::new(RwLock::new(Revision::new(FIRST_REVISION, fabric))) }
    }

    /// A handle of the newest revision.
    #[must_use]
    pub fn handle(&self) -> FabricHandle {
        FabricHandle { held: newest(&self.newest), newest: Arc::clone(&self.newest) }
    }

    /// Replaces the fabric as a whole. The same fabric again is no new revision. The result is the number of the newest
    /// revision.
    pub fn replace(&self, fabric: Fabric) -> u64 {
        let mut newest = self.newest.write().unwrap_or_else(PoisonError::into_inner);
        if newest.fabric != fabric {
            *newest = Revision::new(newest.number + 1, fabric);
        }
        newest.number
    }
}

impl FabricHandle {
    /// The number of the revision. Later ones have greater numbers.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.held.number
    }

    /// Whether both hold the same fabric. Two fabrics may be equal.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.held, &other.held)
    }

    /// Whether a later revision exists.
    #[must_use]
    pub fn is_outdated(&self) -> bool {
        newest(&self.newest).number != self.held.number
    }

    /// The devices of each node, from an earlier call or now.
    pub(super) fn inventories_or(&self, encode: impl FnOnce(&Fabric) -> Inventories) -> &Arc<Inventories> {
        self.held.inventories.get_or_init(|| Arc::new(encode(&self.held.fabric)))
    }

    /// A handle of the newest revision.
    #[must_use]
    pub fn renewed(&self) -> Self {
        Self { held: newest(&self.newest), newest: Arc::clone(&self.newest) }
    }
}

impl PartialEq<Fabric> for FabricHandle {
    fn eq(&self, other: &Fabric) -> bool {
        self.held.fabric == *other
    }
}

impl PartialEq for FabricHandle {
    fn eq(&self, other: &Self) -> bool {
        self.held.number == other.held.number && self.held.fabric == other.held.fabric
    }
}

impl Deref for FabricHandle {
    type Target = Fabric;

    fn deref(&self) -> &Fabric {
        &self.held.fabric
    }
}

fn newest(newest: &RwLock<Arc<Revision>>) -> Arc<Revision> {
    Arc::clone(&newest.read().unwrap_or_else(PoisonError::into_inner))
}
