//! State of a process that is a server.
//!
//! Forked children of the server keep a copy of it without its threads. Functions that only read this state work there
//! ([`here_or_in_parent`]); for all others a child is no server ([`current`]). Neither waits for a lock in a child.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use modex::fabrics::FabricHandle;
use modex::types::{Info, Key, Namespace, ProcId, Status};
use modex::{EnvironmentChange, Server, keys};
use parking_lot::Mutex;

use super::children::Forked;
use super::forkable::Forkable;
use super::local_output::LocalOutput;
use super::open_work::OpenWork;
use super::upcall::Bridge;
use crate::client::KeptValues;
use crate::guard::Failure;
use crate::output::{Origin, OutputStyle, PullOutputs};
use crate::topology::HostTopology;

/// A server, its host's functions, and data of the host that the server core does not hold.
pub(super) struct ServerProcess {
    server: Server,
    pub(super) bridge: Arc<Bridge>,
    /// Values that callers look at without owning them.
    pub(super) kept: KeptValues,
    /// The jobs that the host has registered or prepared.
    pub(super) jobs: Forkable<BTreeMap<Namespace, Job>>,
    /// Held while a call adds to the environment of a job.
    pub(super) environment_order: Mutex<()>,
    /// Whether a wrong order of registration, support and fork is an error, as the host asked.
    pub(super) is_order_strict: bool,
    /// Source of the node's topology.
    pub(super) topology: Arc<HostTopology>,
    pub(super) output: LocalOutput,
    /// The pulls whose output this process writes.
    pub(super) pulled: PullOutputs,
    pub(super) forked: Arc<Forked>,
    pub(super) open_work: Arc<OpenWork>,
}

/// Facts about a job that `PMIx_server_setup_fork` needs.
#[derive(Clone, Default)]
pub(super) struct Job {
    /// Whether the host has asked for the registration.
    pub(super) is_registered: bool,
    /// Whether the node is prepared for it.
    pub(super) is_supported: bool,
    /// Changes of the environment that `PMIx_server_setup_local_support` prepared.
    pub(super) changes: Arc<[EnvironmentChange]>,
}

/// This process's server, or none.
type Current = Forkable<Option<Arc<ServerProcess>>>;

/// Null before the first server. Made once in a process and never freed: a forked child still reads its parent's.
static CURRENT: AtomicPtr<Current> = AtomicPtr::new(std::ptr::null_mut());
/// The parent's state, in a forked child that has its own. Unused; it shows a leak checker that the memory is not lost.
static OF_PARENT: AtomicPtr<Current> = AtomicPtr::new(std::ptr::null_mut());

impl ServerProcess {
    pub(super) fn new(server: Server, bridge: Arc<Bridge>, topology: Arc<HostTopology>) -> Self {
        let (jobs, environment_order) = (Forkable::new(BTreeMap::new()), Mutex::default());
        let (output, pulled) = (LocalOutput::new(OutputStyle::default(), origin_of), PullOutputs::default());
        let (kept, forked, open_work) = (KeptValues::default(), Arc::default(), Arc::default());
        let is_order_strict = false;
        Self {
            server,
            bridge,
            kept,
            jobs,
            environment_order,
            is_order_strict,
            topology,
            output,
            pulled,
            forked,
            open_work,
        }
    }

    /// Refuses a wrong order of registration, support and fork.
    pub(super) fn with_strict_order(self, is_order_strict: bool) -> Self {
        Self { is_order_strict, ..self }
    }

    /// With a style for output that the host does not give another one.
    pub(super) fn with_output(self, style: OutputStyle) -> Self {
        Self { output: LocalOutput::new(style, origin_of), ..self }
    }

    pub(super) const fn server(&self) -> &Server {
        &self.server
    }
}

/// The server of this process.
///
/// # Errors
/// `ERR_INIT` before the first and after the last initialization, and in a forked child.
pub(super) fn current() -> Result<Arc<ServerProcess>, Failure> {
    let current = of_this_process().and_then(|current| current.read(Option::clone));
    current.ok_or(Failure(Status::ERR_INIT))
}

/// The fabric for which the server of this process answers.
pub(crate) fn own_fabric() -> Option<FabricHandle> {
    current().ok()?.server().fabric()
}

/// The server of this process, or a forked child's copy of its parent's server, for functions that only read it.
///
/// # Errors
/// `ERR_INIT` if there is neither.
pub(super) fn here_or_in_parent() -> Result<Arc<ServerProcess>, Failure> {
    found().and_then(|current| current.read(Option::clone)).ok_or(Failure(Status::ERR_INIT))
}

/// Makes `process` this process's server; returns the one before.
pub(super) fn replace(process: Option<Arc<ServerProcess>>) -> Option<Arc<ServerProcess>> {
    let current = of_this_process().unwrap_or_else(make);
    let before = current.read(Option::clone);
    current.change(|current| current.clone_from(&process));
    before
}

fn found() -> Option<&'static Current> {
    // Acquire pairs with the Release in `make`.
    let current = CURRENT.load(Ordering::Acquire);
    // SAFETY: null, or leaked by `make`.
    unsafe { current.as_ref() }
}

fn of_this_process() -> Option<&'static Current> {
    found().filter(|current| current.is_of_this_process())
}

/// Servers start and end one at a time (`process::begin`), so no other thread makes one meanwhile.
fn make() -> &'static Current {
    let current = Box::leak(Box::new(Forkable::new(None)));
    OF_PARENT.store(CURRENT.swap(current, Ordering::AcqRel), Ordering::Release);
    current
}

/// Node and process number, as far as the server knows them.
fn origin_of(source: &ProcId) -> Option<Origin> {
    let process = current().ok()?;
    let find = |name: &'static str| {
        let optional = Info::new(Key::from_static(keys::OPTIONAL.name()), true);
        let request = process.server().find(Some(source.clone()), Some(Key::from_static(name)), vec![optional]);
        request.wait().ok()
    };
    let host = find(keys::HOSTNAME.name()).and_then(|host| host.as_str().map(str::to_owned));
    let pid = find(keys::PROC_PID.name()).and_then(|pid| pid.as_u32());
    let unknown = || "unknown".to_owned();
    let pid = pid.map_or_else(unknown, |pid| pid.to_string());
    Some(Origin { host: host.unwrap_or_else(unknown), pid })
}

/// Lock of the tests that make this process a server: it can be one server at a time.
#[cfg(test)]
pub(super) static ONLY_SERVER: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

#[cfg(test)]
mod tests {
    use modex::proto::exchange::ExchangeForm;

    use super::super::upcall::ModuleHost;
    use super::*;
    use crate::types::pmix_server_module_t;

    /// Regression: `PMIx_server_setup_fork` failed in a forked child, where Slurm calls it, and no task found its
    /// server. A child has no thread of the server, so functions that need one fail there at once.
    #[test]
    fn a_forked_child_reads_its_parents_server_and_is_none() {
        let _only = ONLY_SERVER.lock();
        let directory = tempfile::tempdir().unwrap();
        let bridge = Arc::new(Bridge::new(pmix_server_module_t::default(), ExchangeForm::default()));
        let server = Server::builder().tmpdir(directory.path()).start(ModuleHost::new(Arc::clone(&bridge))).unwrap();
        replace(Some(Arc::new(ServerProcess::new(server, bridge, Arc::default()))));
        let proc = ProcId::new(Namespace::new("job").unwrap(), 0);
        let expected = current().ok().unwrap().server().variables_of(&proc).unwrap();
        // SAFETY: the child looks at the state, which takes no lock there, and ends.
        match unsafe { nix::unistd::fork() }.unwrap() {
            nix::unistd::ForkResult::Child => {
                let is_none = matches!(current(), Err(Failure(Status::ERR_INIT)));
                let read = here_or_in_parent().ok().map(|process| process.server().variables_of(&proc));
                let is_same = read == Some(Ok(expected));
                // SAFETY: takes any number.
                unsafe { nix::libc::_exit(i32::from(!is_none || !is_same)) }
            }
            nix::unistd::ForkResult::Parent { child } => {
                let ended = nix::sys::wait::waitpid(child, None).unwrap();
                assert_eq!(ended, nix::sys::wait::WaitStatus::Exited(child, 0));
            }
        }
        assert!(current().is_ok());
        drop(replace(None));
        assert!(here_or_in_parent().is_err());
    }
}
