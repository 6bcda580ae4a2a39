//! The setup of jobs: data that a job gets in addition to the description by its host.
//!
//! ```text
//! register_resources ─────> resources ───┐
//!                                        ├──> description, at the job's first registration
//! setup_application ──> infos            │
//!                        │ (each node)   │
//!                        ▼               │
//! setup_local_support ──> allotments ────┘    (a described job gets them at once)
//!                    └──> changes of the environment, for the host
//! ```

mod allocation;
mod environment;
mod resources;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::sync::Arc;

use parking_lot::Mutex;

pub use self::allocation::AllocationError;
use self::allocation::{Layout, allocate, values_of};
use self::environment::forwarded;
pub use self::environment::{EnvironmentChange, Variable};
use super::own_process::OwnProcess;
use crate::gds::registration::{Description, RegisterError};
use crate::keys::{self, TypedKey};
use crate::runtime::shared::event_error::Stopped;
use crate::server::{HostCall, HostResult, INVENTORY, OwnGet};
use crate::topo::Inventories;
use crate::types::{AsStatus, Info, InfoFlags, Key, Namespace, Status, Text, Value};

/// Data for jobs that the server core does not hold.
pub struct JobSetup {
    own: OwnProcess,
    /// Part of the description of every job registered from now on.
    resources: Mutex<Vec<Info>>,
    /// Values of jobs that are not described yet, call by call; at most [`ALLOTMENTS_MAX`] calls for each job.
    allotted: Mutex<BTreeMap<Namespace, Vec<Allotment>>>,
    /// Jobs that are described or being described.
    described: Mutex<BTreeSet<Namespace>>,
}

/// Values that one call gave a job.
type Allotment = Arc<[Info]>;

/// Limit of calls that give a job values before it is described; hosts need one.
const ALLOTMENTS_MAX: usize = 1024;

/// Why a job can't be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// An info that is no attribute of the standard, such as one without a key, is required.
    #[error("nothing honours the required info {key:?}; leave it out, or do not require it")]
    Unknown {
        /// Its key.
        key: Key,
    },
    /// A change of the environment names no variable.
    #[error("no variable can have the name {name:?}")]
    Variable {
        /// The name.
        name: Text,
    },
    /// The fabric resources can't be given.
    #[error(transparent)]
    Allocation(#[from] AllocationError),
    /// The host never registers the job.
    #[error("the job was set up {ALLOTMENTS_MAX} times without being registered; register or deregister it")]
    TooOften,
    /// The server refused the values as a part of the job's description.
    #[error("the values for the job can't be added to its description: {reason}")]
    Refused {
        /// The reason, as a status of the standard.
        status: Status,
        /// The reason for people.
        reason: String,
    },
    /// The server has ended.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl AsStatus for SetupError {
    fn status(&self) -> Status {
        match self {
            Self::Unknown { .. } => Status::ERR_NOT_SUPPORTED,
            Self::Variable { .. } => Status::ERR_BAD_PARAM,
            Self::Allocation(error) => error.status(),
            Self::TooOften => Status::ERR_OUT_OF_RESOURCE,
            Self::Refused { status, .. } => *status,
            Self::Stopped(_) => Status::ERR_INIT,
        }
    }
}

impl JobSetup {
    pub(super) fn new(own: OwnProcess) -> Self {
        let (resources, allotted, described) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { own, resources, allotted, described }
    }

    /// Adds resources to the description of every job registered from now on.
    ///
    /// # Errors
    /// [`RegisterError`] for a value that can't be read or contradicts another resource.
    pub fn register_resources(&self, added: Vec<Info>) -> Result<(), RegisterError> {
        resources::keep(&mut self.resources.lock(), added)
    }

    /// Removes resources.
    pub fn deregister_resources(&self, meant: &[Info]) {
        resources::take_back(&mut self.resources.lock(), meant);
    }

    /// Collects the infos that the nodes of a job need for [`JobSetup::setup_local_support`]: forwarded variables of
    /// `environment`, changes of the environment, and fabric resources.
    ///
    /// # Errors
    /// [`SetupError`], before anything is collected. Without it each node's server would report the error.
    pub fn setup_application(
        &self,
        mut infos: Vec<Info>,
        environment: &[(OsString, OsString)],
    ) -> Result<Vec<Info>, SetupError> {
        refuse_unknown(&infos)?;
        changes_of(&infos)?;
        let asked = |key: TypedKey<bool>| infos.iter().any(|info| is_set(info, key.name()));
        let (variables, others) = (asked(keys::SETUP_APP_ENVARS), asked(keys::SETUP_APP_NONENVARS));
        let wants_all = asked(keys::SETUP_APP_ALL) || variables == others;
        let wants_variables = wants_all || variables;
        let allocated = if wants_all || others { self.allocated(&infos)? } else { Vec::new() };
        infos.retain(|info| wants_variables && EnvironmentChange::read(info).is_some());
        if wants_variables {
            infos.splice(0..0, forwarded(environment));
        }
        infos.extend(allocated);
        Ok(infos)
    }

    /// Takes the infos of [`JobSetup::setup_application`] on a node of the job. Fabric resources become part of the
    /// job's description. Returns the changes of the environment for its processes here.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn setup_local_support(
        &self,
        namespace: &Namespace,
        infos: &[Info],
    ) -> Result<Vec<EnvironmentChange>, SetupError> {
        let changes = changes_of(infos)?;
        self.give(namespace, infos.iter().flat_map(values_of).collect())?;
        Ok(changes)
    }

    /// The fabric resources of a job.
    fn allocated(&self, infos: &[Info]) -> Result<Vec<Info>, SetupError> {
        if !infos.iter().any(|info| info.key.as_str() == keys::ALLOC_FABRIC.name()) {
            return Ok(Vec::new());
        }
        let layout = Layout::of(infos)?;
        Ok(allocate(infos, &layout, &self.delivered())?)
    }

    /// The inventories that were delivered to this server.
    fn delivered(&self) -> Inventories {
        let directives = vec![Info::new(Key::from_static(keys::IMMEDIATE.name()), true)];
        let get = OwnGet { proc: self.own.values.proc.clone(), key: Some(Key::from_static(INVENTORY)), directives };
        let found = match self.own.call(HostCall::Get(get)) {
            Ok(HostResult::Entries(entries)) => entries,
            _ => Vec::new(),
        };
        let mut inventories = Inventories::default();
        for entry in found {
            let Value::DataArray(array) = &entry.value else { continue };
            let blobs = array.elements.iter().filter_map(|blob| match blob {
                Value::ByteObject(blob) => Some(blob.as_slice()),
                _ => None,
            });
            // The delivery checked these blobs and their number, so this can't fail.
            let _ = inventories.deliver(blobs);
        }
        inventories
    }

    /// Makes values part of a job's description, now or when it is described. During a registration the state is
    /// unknown: the values stay in `allotted`, and the registration looks there last. Each caller that adds takes all
    /// values left, in the order of the calls. It holds the lock until the core has them, so that no older value
    /// follows a newer one.
    fn give(&self, namespace: &Namespace, values: Vec<Info>) -> Result<(), SetupError> {
        if values.is_empty() {
            return Ok(());
        }
        let mut allotted = self.allotted.lock();
        let left = allotted.entry(namespace.clone()).or_default();
        if left.len() >= ALLOTMENTS_MAX {
            return Err(SetupError::TooOften);
        }
        left.push(Allotment::from(values));
        if !self.described.lock().contains(namespace) {
            return Ok(());
        }
        let error = match self.own.call(HostCall::ExtendNamespace(namespace.clone(), left.concat().into())) {
            Ok(HostResult::Status(Status::SUCCESS) | HostResult::Entries(_)) => {
                allotted.remove(namespace);
                return Ok(());
            }
            Ok(
                HostResult::Status(Status::ERR_NOT_FOUND) | HostResult::Failed { status: Status::ERR_NOT_FOUND, .. },
            ) => return Ok(()),
            Ok(HostResult::Status(status)) => SetupError::Refused { status, reason: status.to_string() },
            Ok(HostResult::Failed { status, reason }) => SetupError::Refused { status, reason },
            Err(stopped) => stopped.into(),
        };
        // Values left by other calls stay.
        left.pop();
        Err(error)
    }

    /// Begins the registration of a job: its first description gets the resources and the values given to the job.
    /// [`Registration::conclude`] ends it.
    pub fn begin(self: &Arc<Self>, namespace: &Namespace, description: &mut Description) -> Registration {
        // A described job keeps the copy of the resources that it has.
        let is_first = self.described.lock().insert(namespace.clone());
        let mut taken = Vec::new();
        if is_first {
            resources::add(namespace, description, &self.resources.lock());
            taken = self.take(namespace);
            resources::add(namespace, description, &taken.concat());
        }
        Registration { setup: Arc::clone(self), namespace: namespace.clone(), taken: is_first.then_some(taken) }
    }

    /// Forgets a job.
    pub fn forget(&self, namespace: &Namespace) {
        self.allotted.lock().remove(namespace);
        self.described.lock().remove(namespace);
    }

    /// Takes the values given to a job.
    fn take(&self, namespace: &Namespace) -> Vec<Allotment> {
        self.allotted.lock().remove(namespace).unwrap_or_default()
    }
}

/// A registration in progress.
#[must_use = "its end must be noted"]
pub struct Registration {
    setup: Arc<JobSetup>,
    namespace: Namespace,
    /// The values that the first description of the job got; `None` for later descriptions.
    taken: Option<Vec<Allotment>>,
}

impl Registration {
    /// Whether the job was not described before.
    #[must_use]
    pub const fn is_first(&self) -> bool {
        self.taken.is_some()
    }

    /// Notes the end of the registration. After a refusal the job is not described and gets its values back, unless it
    /// was deregistered meanwhile. After a success, values given meanwhile are added under the lock, before any other
    /// call adds more.
    pub fn conclude(self, is_described: bool) {
        let Self { setup, namespace, taken: Some(taken) } = self else { return };
        let mut allotted = setup.allotted.lock();
        if !is_described {
            if setup.described.lock().remove(&namespace) && !taken.is_empty() {
                allotted.entry(namespace).or_default().splice(0..0, taken);
            }
            return;
        }
        let Some(left) = allotted.remove(&namespace).filter(|left| !left.is_empty()) else { return };
        let call = HostCall::ExtendNamespace(namespace.clone(), left.concat().into());
        // The result is not needed.
        if setup.own.call_with(call, Box::new(drop)).is_err() {
            tracing::warn!(%namespace, "what was allocated for the job can't be added: the server has ended");
        }
    }
}

/// Refuses required infos that are no attribute of the standard: nothing can honour them.
fn refuse_unknown(infos: &[Info]) -> Result<(), SetupError> {
    let is_required = |info: &&Info| info.flags().contains(InfoFlags::REQUIRED);
    match infos.iter().filter(is_required).find(|info| keys::by_name(info.key.as_str()).is_none()) {
        None => Ok(()),
        Some(Info { key, .. }) => Err(SetupError::Unknown { key: key.clone() }),
    }
}

fn is_set(info: &Info, key: &str) -> bool {
    info.key.as_str() == key && info.value.as_bool() == Some(true)
}

/// The changes of the environment among infos.
fn changes_of(infos: &[Info]) -> Result<Vec<EnvironmentChange>, SetupError> {
    let changes: Vec<EnvironmentChange> = infos.iter().filter_map(EnvironmentChange::read).collect();
    match changes.iter().find_map(EnvironmentChange::impossible_name) {
        None => Ok(changes),
        Some(name) => Err(SetupError::Variable { name: name.clone() }),
    }
}

#[cfg(test)]
mod tests;
