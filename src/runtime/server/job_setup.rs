//! The setup of jobs: data that a job gets in addition to the description by its host.
//!
//! ```text
//! register_resources ─────> resources ───┐   (a described job gets them at once)
//!                                        ├──> description, at the job's first registration
//! setup_application ──> infos            │
//!                        │ (each node)   │
//!                        ▼               │
//! setup_local_support ──> allotments ────┘    (a described job gets them at once)
//!                    └──> changes of the environment, for the host
//! ```

mod allocation;
mod allotments;
mod application;
mod elsewhere;
mod endpoints;
mod environment;
mod fabric_jobs;
mod grants;
mod hardware;
mod harvest;
mod known_devices;
mod layout;
mod models;
mod open_mpi;
mod patterns;
mod ports;
mod resources;
mod setup_queue;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

pub use self::allocation::{AllocationError, NotAvailable};
use self::allocation::{values_of, wants_secret};
use self::allotments::Allotments;
pub use self::elsewhere::Unanswered;
pub(crate) use self::elsewhere::seconds_of;
use self::elsewhere::{MARK, VERSION};
use self::endpoints::FABRIC;
pub use self::endpoints::FabricShortage;
pub(super) use self::environment::ENVIRONMENT_CHANGES;
pub use self::environment::{EnvironmentChange, Variable};
use self::fabric_jobs::ApplicationSetup;
pub use self::fabric_jobs::NoRandomBytes;
pub(super) use self::grants::FabricGrants;
use self::grants::{is_wish, owner_of};
pub(super) use self::harvest::EXCLUDE;
use self::harvest::{CHANGES_MAX, Harvest, Variables};
use self::models::{PERSONALITY_OF_OPEN_MPI, is_of_open_mpi, is_unknown_model, names_model};
pub use self::open_mpi::{Described, variables_of_open_mpi};
pub use self::patterns::{EnvironmentPatterns, PatternError};
pub use self::ports::{PortShortage, StaticPorts, StaticPortsError};
pub use self::setup_queue::QueuedSetup;
use self::setup_queue::SETUPS_MAX;
use super::own_process::OwnProcess;
use super::transport_keys::{TRANSPORT_KEY_VARIABLE, TransportKeys};
use crate::gds::registration::{Description, RegisterError, ResourceChange};
use crate::keys::{self, TypedKey};
use crate::runtime::shared::event_error::Stopped;
use crate::runtime::shared::parameters::ParameterFiles;
use crate::server::{HostCall, HostResult};
use crate::types::{AsStatus, Envar, Info, InfoFlags, Key, Namespace, Status, Text, Value};

/// Data for jobs that the server core does not hold.
pub struct JobSetup {
    own: Arc<OwnProcess>,
    /// Part of every job. The lock is held until all jobs have a change, so that changes reach a job in their order.
    resources: Mutex<Arc<[Info]>>,
    /// Jobs that got values or a description. The lock is held for no call of the core.
    jobs: Mutex<BTreeMap<Namespace, Job>>,
    /// Environments of the jobs that this process sets up.
    harvest: Harvest,
    /// Fabric resources of jobs.
    grants: Arc<FabricGrants>,
    transport_keys: TransportKeys,
    /// Questions so far.
    questions: AtomicU32,
}

#[derive(Default)]
struct Job {
    stage: Stage,
    /// Values for a later description, of at most [`ALLOTMENTS_MAX`] calls.
    left: Allotments,
    /// Changes of the environment of the job's processes here, of all calls.
    changes: Vec<EnvironmentChange>,
    /// Whether the host has described the job with a credential. No setup replaces it.
    has_credential: bool,
    /// Whether Open MPI is its programming model.
    is_of_open_mpi: bool,
}

/// How far a job's first description is.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Unknown,
    /// The end of the registration hands over the values that the job gets meanwhile.
    Registering,
    /// The core has the job and all values of earlier calls.
    Described,
}

/// Limit of calls that give a job values before it is described; hosts need one.
const ALLOTMENTS_MAX: usize = 1024;

/// Why a job can't be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// An info that the setup can't honour is required.
    #[error("nothing honours the required info {key:?}; leave it out, or do not require it")]
    Unknown {
        /// Its key.
        key: Key,
    },
    /// A list of patterns of variables can't be read.
    #[error("{place}: {error}")]
    Pattern {
        /// Where it stands.
        place: Box<str>,
        /// The reason.
        error: PatternError,
    },
    /// The value of `PMIX_PARENT_ID` names no job.
    #[error("PMIX_PARENT_ID must be a process, a namespace, or an array of them")]
    Parent,
    /// A required parent was not set up by this server.
    #[error("the required parent {namespace} was not set up here; set it up first, or do not require it")]
    UnknownParent {
        /// The parent.
        namespace: Namespace,
    },
    /// The environment has too many changes.
    #[error("a job's environment may have {CHANGES_MAX} changes; forward fewer variables")]
    TooManyChanges,
    /// The infos were collected for another job.
    #[error("the infos were collected for {found:?}, not for {namespace}; give each job its own")]
    ForeignJob {
        /// The job that gets them.
        namespace: Namespace,
        /// The job in the infos.
        found: String,
    },
    /// The infos were collected by a later version.
    #[error("the infos have version {found:?}; this library reads {VERSION}. Use the same library on all nodes")]
    Version {
        /// The version.
        found: String,
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
    /// An earlier setup of the job has not ended. It may wait for a scheduler.
    #[error(
        "an earlier setup of {namespace} has not ended within {seconds} s, its own time and that of this one. End it: it may wait for \
         this one"
    )]
    EarlierSetup {
        /// The job.
        namespace: Namespace,
        /// The time.
        seconds: u32,
    },
    /// Too many setups of the job wait.
    #[error(
        "{SETUPS_MAX} setups of {namespace} wait for an earlier one; wait for their answers before you begin others"
    )]
    TooManyAtOnce {
        /// The job.
        namespace: Namespace,
    },
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
            Self::Unknown { .. } | Self::Version { .. } => Status::ERR_NOT_SUPPORTED,
            Self::Variable { .. } | Self::Parent | Self::ForeignJob { .. } => Status::ERR_BAD_PARAM,
            Self::Pattern { error: PatternError::TooMany, .. } => Status::ERR_OUT_OF_RESOURCE,
            Self::Pattern { .. } => Status::ERR_BAD_PARAM,
            Self::UnknownParent { .. } => Status::ERR_NOT_FOUND,
            Self::Allocation(error) => error.status(),
            Self::EarlierSetup { .. } => Status::ERR_TIMEOUT,
            Self::TooOften | Self::TooManyChanges | Self::TooManyAtOnce { .. } => Status::ERR_OUT_OF_RESOURCE,
            Self::Refused { status, .. } => *status,
            Self::Stopped(_) => Status::ERR_INIT,
        }
    }
}

impl JobSetup {
    pub(super) fn new(own: Arc<OwnProcess>, grants: Arc<FabricGrants>) -> Self {
        let (resources, jobs, questions) = (Mutex::new(Arc::default()), Mutex::default(), AtomicU32::default());
        let (harvest, transport_keys) = (Harvest::default(), TransportKeys::default());
        Self { own, resources, jobs, harvest, grants, transport_keys, questions }
    }

    /// Adds resources to every job.
    ///
    /// # Errors
    /// [`RegisterError`] for a value that can't be read or contradicts another resource.
    pub fn register_resources(&self, added: Vec<Info>) -> Result<(), RegisterError> {
        self.change_resources(|resources| resources::keep(resources, added))
    }

    /// Removes resources from every job.
    pub fn deregister_resources(&self, meant: &[Info]) {
        let Ok(()) = self.change_resources(|resources| {
            resources::take_back(resources, meant);
            Ok::<(), Infallible>(())
        });
    }

    fn change_resources<E>(&self, change: impl FnOnce(&mut Vec<Info>) -> Result<(), E>) -> Result<(), E> {
        let mut resources = self.resources.lock();
        let before = Arc::clone(&resources);
        let mut after = before.to_vec();
        change(&mut after)?;
        *resources = after.into();
        let jobs = self.jobs.lock();
        let described = jobs.iter().filter(|(_, job)| job.stage == Stage::Described);
        let described: Vec<Namespace> = described.map(|(namespace, _)| namespace.clone()).collect();
        drop(jobs);
        for namespace in described {
            let change = ResourceChange { before: Arc::clone(&before), after: Arc::clone(&resources) };
            match self.own.call(HostCall::ChangeResources(namespace.clone(), change)) {
                Ok(result) => note_change(&namespace, result),
                Err(Stopped) => break,
            }
        }
        Ok(())
    }

    /// Registers variables of this process that the job gets, except the `unwanted` ones. Calls add up.
    ///
    /// # Errors
    /// [`SetupError::Pattern`]: too many patterns.
    pub fn forward(
        &self,
        namespace: &Namespace,
        wanted: &EnvironmentPatterns,
        unwanted: &EnvironmentPatterns,
    ) -> Result<(), SetupError> {
        self.harvest.forward(namespace, wanted, unwanted)
    }

    /// Puts a setup of a job behind the earlier ones.
    ///
    /// # Errors
    /// [`SetupError::TooManyAtOnce`].
    pub fn queue(&self, namespace: &Namespace, infos: &[Info]) -> Result<QueuedSetup, SetupError> {
        match has_resources(infos) {
            true => self.grants.queue(owner_of(infos), namespace, infos),
            false => Ok(QueuedSetup::unordered()),
        }
    }

    /// Collects the infos that the nodes of a job need for [`JobSetup::setup_local_support`]: changes of the
    /// environment (`harvest`), and fabric resources. It waits for the earlier setups of the job. `variables` is the
    /// environment of this process. `ask` puts a question to the host or the scheduler.
    ///
    /// # Errors
    /// [`SetupError`], before anything is collected. Without it each node's server would report the error.
    pub fn setup_application(
        &self,
        namespace: &Namespace,
        infos: &[Info],
        queued: &QueuedSetup,
        variables: &[(OsString, OsString)],
        ask: impl FnOnce(Vec<Info>) -> Result<Vec<Info>, Unanswered>,
    ) -> Result<Vec<Info>, SetupError> {
        let asked = |key: TypedKey<bool>| infos.iter().any(|info| is_set(info, key.name()));
        let (environment, others) = (asked(keys::SETUP_APP_ENVARS), asked(keys::SETUP_APP_NONENVARS));
        let (is_all, is_neither) = (asked(keys::SETUP_APP_ALL), !environment && !others);
        let counts = |key: &&str| match *key {
            // A process's place counts for endpoints alone.
            key if key == keys::PROC_INFO_ARRAY.name() => self.grants.may_give_endpoints(infos),
            key if key == keys::SERVER_URI.name() => self.grants.asks_elsewhere(infos),
            _ => true,
        };
        refuse_required(infos, &UNDERSTOOD.into_iter().filter(counts).collect::<Vec<_>>())?;
        changes_of(infos)?;
        queued.wait()?;
        if self.own.has_ended() {
            // The host expects no question.
            return Err(Stopped.into());
        }
        let ports = self.grants.ports(namespace, infos);
        let (allocated, application) =
            if has_resources(infos) { self.grants.of_host(namespace, infos, &ports, ask)? } else { Default::default() };
        let changes = if is_all || environment || is_neither {
            // PRRTE's daemons ask for neither, after `prun` has collected the user's variables. Theirs must not win.
            let variables =
                if is_neither && !is_all { Variables::Forwarded(variables) } else { Variables::All(variables) };
            self.harvest.collect(namespace, infos, variables, ParameterFiles::of_process())?
        } else {
            Vec::new()
        };
        ports.keep();
        application.into_iter().for_each(ApplicationSetup::keep);
        let has_key = is_all || others || infos.iter().any(wants_secret);
        let key = has_key.then(|| transport_key(&self.transport_key(owner_of(infos))));
        let key = key.into_iter().flatten();
        let model = is_of_open_mpi(infos)
            .then(|| Info::new(Key::from_static(keys::PERSONALITY.name()), PERSONALITY_OF_OPEN_MPI));
        let changes = changes.iter().map(EnvironmentChange::info);
        let given: Vec<Info> = changes.chain(allocated).chain(key).chain(model).collect();
        if given.is_empty() {
            return Ok(Vec::new());
        }
        let mark = Info::new(Key::from_static(MARK), format!("{VERSION} {namespace}"));
        Ok(std::iter::once(mark).chain(given).collect())
    }

    /// The transport key of a user's jobs, in the form of `PMIX_CREDENTIAL`.
    pub fn transport_key(&self, uid: u32) -> String {
        self.transport_keys.key(uid)
    }

    /// Takes the infos of [`JobSetup::setup_application`] on a node of the job. Fabric resources become part of the
    /// job's description. Returns the changes of the environment for its processes here, of all calls for the job.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn setup_local_support(
        &self,
        namespace: &Namespace,
        infos: &[Info],
    ) -> Result<Vec<EnvironmentChange>, SetupError> {
        check_mark(namespace, infos)?;
        refuse_required(infos, &UNDERSTOOD_OF_LOCAL_SUPPORT)?;
        let is_without_effect = |info: &&Info| names_model(info) && !is_of_open_mpi([*info]);
        let is_required = |info: &&Info| info.flags().contains(InfoFlags::REQUIRED);
        if let Some(Info { key, .. }) = infos.iter().filter(is_required).find(is_without_effect) {
            return Err(SetupError::Unknown { key: key.clone() });
        }
        let changes = changes_of(infos)?;
        let earlier = self.jobs.lock().get(namespace).map_or(0, |job| job.changes.len());
        if earlier.saturating_add(changes.len()) > CHANGES_MAX {
            return Err(SetupError::TooManyChanges);
        }
        self.give(namespace, infos.iter().flat_map(values_of).collect())?;
        let mut jobs = self.jobs.lock();
        let job = jobs.entry(namespace.clone()).or_default();
        job.is_of_open_mpi |= is_of_open_mpi(infos);
        EnvironmentChange::add_up(&mut job.changes, changes);
        Ok(job.changes.clone())
    }

    /// The number of a new question.
    pub fn number_of_question(&self) -> u32 {
        // Relaxed: no other data depends on it.
        self.questions.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes values part of a job's description, now or when it is described.
    fn give(&self, namespace: &Namespace, values: Vec<Info>) -> Result<(), SetupError> {
        if values.is_empty() {
            return Ok(());
        }
        let Some(values) = self.keep_for_description(namespace, values)?.filter(|values| !values.is_empty()) else {
            return Ok(());
        };
        match self.own.call(HostCall::ExtendNamespace(namespace.clone(), values.into()))? {
            HostResult::Status(Status::SUCCESS) | HostResult::Entries(_) | HostResult::Answers(..) => Ok(()),
            // The job was deregistered meanwhile.
            HostResult::Status(Status::ERR_NOT_FOUND) | HostResult::Failed { status: Status::ERR_NOT_FOUND, .. } => {
                Ok(())
            }
            HostResult::Status(status) => Err(SetupError::Refused { status, reason: status.to_string() }),
            HostResult::Failed { status, reason } => Err(SetupError::Refused { status, reason }),
        }
    }

    /// Keeps values for a job's first description. Returns them if the job has it already, without a credential that
    /// the host gave otherwise.
    fn keep_for_description(
        &self,
        namespace: &Namespace,
        mut values: Vec<Info>,
    ) -> Result<Option<Vec<Info>>, SetupError> {
        if let Some(job) = self.jobs.lock().get(namespace).filter(|job| job.stage == Stage::Described) {
            job.leave_credential(&mut values);
            return Ok(Some(values));
        }
        // Endpoints of a large job take long to read.
        let added = Allotments::of(values);
        let mut jobs = self.jobs.lock();
        let job = jobs.entry(namespace.clone()).or_default();
        if job.stage == Stage::Described {
            let mut values = added.into_values();
            job.leave_credential(&mut values);
            return Ok(Some(values));
        }
        if job.left.calls() >= ALLOTMENTS_MAX {
            return Err(SetupError::TooOften);
        }
        job.left.append(added);
        Ok(None)
    }

    /// Begins the registration of a job: its first description gets the resources and the values given to the job.
    /// [`NamespaceRegistration::conclude`] ends it.
    pub fn begin(self: &Arc<Self>, namespace: &Namespace, description: &mut Description) -> NamespaceRegistration {
        let has_credential = description.has_of_job(&Key::from_static(keys::CREDENTIAL.name()));
        let taken = self.take_for_description(namespace);
        if is_of_open_mpi(description.infos_of_job()) {
            self.jobs.lock().entry(namespace.clone()).or_default().is_of_open_mpi = true;
        }
        if let Some(Taken { resources, allotments }) = &taken {
            resources::add(namespace, description, resources);
            resources::add(namespace, description, allotments.values());
            resources::add(namespace, description, allotments.endpoints().as_slice());
        }
        NamespaceRegistration { setup: Arc::clone(self), namespace: namespace.clone(), has_credential, taken }
    }

    /// Takes the values for a job's first description; `None` for later descriptions.
    fn take_for_description(&self, namespace: &Namespace) -> Option<Taken> {
        let resources = Arc::clone(&self.resources.lock());
        let mut jobs = self.jobs.lock();
        let job = jobs.entry(namespace.clone()).or_default();
        if job.stage != Stage::Unknown {
            return None;
        }
        job.stage = Stage::Registering;
        Some(Taken { resources, allotments: std::mem::take(&mut job.left) })
    }

    /// Whether nobody has registered the job.
    pub fn is_unknown(&self, namespace: &Namespace) -> bool {
        self.jobs.lock().get(namespace).is_none_or(|job| job.stage == Stage::Unknown)
    }

    /// Whether Open MPI is the programming model of the job, by its description or its setup.
    pub fn is_of_open_mpi(&self, namespace: &Namespace) -> bool {
        self.jobs.lock().get(namespace).is_some_and(|job| job.is_of_open_mpi)
    }

    /// Forgets a job.
    pub fn forget(&self, namespace: &Namespace) {
        self.jobs.lock().remove(namespace);
        self.harvest.forget(namespace);
        self.grants.forget(namespace);
    }

    /// Takes the values that a job got during its registration. Without any, the job is described from now on.
    fn take_left(&self, namespace: &Namespace) -> Option<Vec<Info>> {
        let mut jobs = self.jobs.lock();
        let job = jobs.get_mut(namespace)?;
        if job.left.is_empty() {
            job.stage = Stage::Described;
            return None;
        }
        let mut values = std::mem::take(&mut job.left).into_values();
        job.leave_credential(&mut values);
        Some(values)
    }

    /// A refused registration gives a job its values back, unless it was deregistered meanwhile.
    fn give_back(&self, namespace: &Namespace, mut taken: Allotments) {
        let mut jobs = self.jobs.lock();
        if let Some(job) = jobs.get_mut(namespace) {
            job.stage = Stage::Unknown;
            taken.append(std::mem::take(&mut job.left));
            job.left = taken;
            if job.left.is_empty() && job.changes.is_empty() && !job.is_of_open_mpi {
                jobs.remove(namespace);
            }
        }
    }
}

impl Job {
    /// Leaves a setup's credential out if the host has described the job with one.
    fn leave_credential(&self, values: &mut Vec<Info>) {
        values.retain(|value| !self.has_credential || value.key.as_str() != keys::CREDENTIAL.name());
    }
}

/// A registration in progress.
#[must_use = "its end must be noted"]
pub struct NamespaceRegistration {
    setup: Arc<JobSetup>,
    namespace: Namespace,
    has_credential: bool,
    /// Additions to the first description of the job; `None` for later descriptions.
    taken: Option<Taken>,
}

/// Additions to a job's first description.
struct Taken {
    resources: Arc<[Info]>,
    allotments: Allotments,
}

impl NamespaceRegistration {
    /// Whether the job was not described before.
    #[must_use]
    pub const fn is_first(&self) -> bool {
        self.taken.is_some()
    }

    /// Notes the end of the registration. After a success, the core gets the values given meanwhile, in the order of
    /// the calls and before those of any later call.
    pub fn conclude(self, is_described: bool) {
        let Self { setup, namespace, has_credential, taken } = self;
        if is_described && has_credential {
            // The job may have been deregistered meanwhile.
            setup.jobs.lock().get_mut(&namespace).into_iter().for_each(|job| job.has_credential = true);
        }
        let Some(taken) = taken else { return };
        if !is_described {
            return setup.give_back(&namespace, taken.allotments);
        }
        while let Some(left) = setup.take_left(&namespace) {
            let call = HostCall::ExtendNamespace(namespace.clone(), left.into());
            // The result is not needed.
            if setup.own.call_with(call, Box::new(drop)).is_err() {
                return tracing::warn!(%namespace, "allocated values can't be added to the job: the server has ended");
            }
        }
        let resources = setup.resources.lock();
        if *resources != taken.resources {
            let change = ResourceChange { before: taken.resources, after: Arc::clone(&resources) };
            let call = HostCall::ChangeResources(namespace.clone(), change);
            // A server that has ended has no more readers.
            let _ = setup.own.call_with(call, Box::new(move |result| note_change(&namespace, result)));
        }
    }
}

/// Logs a failed change of a job's resources. A job that was deregistered meanwhile needs none.
fn note_change(namespace: &Namespace, result: HostResult) {
    if let HostResult::Failed { status, reason } = result
        && status != Status::ERR_NOT_FOUND
    {
        tracing::warn!(%namespace, %status, "resources of a registered job can't be changed: {reason}");
    }
}

/// Refuses required infos that the setup does not honour: others than these and changes of the environment.
fn refuse_required(infos: &[Info], understood: &[&str]) -> Result<(), SetupError> {
    let is_unmet = |info: &Info| keys::is_unmet(info, |key| understood.contains(&key) && !is_unknown_model(info));
    match infos.iter().find(|info| is_unmet(info) && EnvironmentChange::read(info).is_none()) {
        None => Ok(()),
        Some(Info { key, .. }) => Err(SetupError::Unknown { key: key.clone() }),
    }
}

/// Infos that `setup_local_support` takes beside [`ENVIRONMENT_CHANGES`]: parts of an answer of `setup_application`.
pub(super) const UNDERSTOOD_OF_LOCAL_SUPPORT: [&str; 7] = [
    keys::ALLOC_FABRIC.name(),
    keys::CREDENTIAL.name(),
    keys::PROGRAMMING_MODEL.name(),
    keys::MODEL_LIBRARY_NAME.name(),
    keys::PERSONALITY.name(),
    FABRIC,
    MARK,
];

/// Infos that the setup of an application honours beside [`ENVIRONMENT_CHANGES`].
pub(super) const UNDERSTOOD: [&str; 17] = [
    keys::SETUP_APP_ENVARS.name(),
    keys::SETUP_APP_NONENVARS.name(),
    keys::SETUP_APP_ALL.name(),
    keys::PARENT_ID.name(),
    keys::PROGRAMMING_MODEL.name(),
    keys::MODEL_LIBRARY_NAME.name(),
    keys::PERSONALITY.name(),
    keys::ALLOC_FABRIC.name(),
    keys::NODE_MAP.name(),
    keys::PROC_MAP.name(),
    keys::PROC_INFO_ARRAY.name(),
    // The scheduler, and the time in which it must answer.
    keys::SERVER_URI.name(),
    keys::TIMEOUT.name(),
    // Facts about the user. The first one's static ports are a share of all.
    keys::USERID.name(),
    keys::GRPID.name(),
    EXCLUDE,
    MARK,
];

/// Refuses infos that were collected for another job or by a later version.
fn check_mark(namespace: &Namespace, infos: &[Info]) -> Result<(), SetupError> {
    for info in infos.iter().filter(|info| info.key.as_str() == MARK) {
        let text = info.value.as_str().unwrap_or_default();
        match text.split_once(' ') {
            Some((VERSION, found)) if found == namespace.as_str() => {}
            Some((VERSION, found)) => {
                return Err(SetupError::ForeignJob { namespace: namespace.clone(), found: found.to_owned() });
            }
            Some((found, _)) => return Err(SetupError::Version { found: found.to_owned() }),
            None => return Err(SetupError::Version { found: text.to_owned() }),
        }
    }
    Ok(())
}

/// A transport key as a value of the job and as a variable of its processes, unless they have one.
fn transport_key(key: &str) -> [Info; 2] {
    let (name, value) = (Some(TRANSPORT_KEY_VARIABLE.into()), Some(key.into()));
    let variable = Value::Envar(Box::new(Envar { name, value, separator: 0 }));
    [(keys::CREDENTIAL.name(), key.into()), (keys::ADD_ENVAR.name(), variable)]
        .map(|(key, value)| Info::new(Key::from_static(key), value))
}

/// Whether a setup with these infos has fabric resources.
fn has_resources(infos: &[Info]) -> bool {
    let asked = |key: TypedKey<bool>| infos.iter().any(|info| is_set(info, key.name()));
    // PRRTE asks for variables alone, and passes on the fabric resources that the user wants.
    let is_of_variables = asked(keys::SETUP_APP_ENVARS) && !asked(keys::SETUP_APP_NONENVARS);
    !is_of_variables || asked(keys::SETUP_APP_ALL) || infos.iter().any(is_wish)
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
