//! What a process that is a server has.

use std::collections::{BTreeMap, BTreeSet};
use std::process;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::api::Server;
use crate::capi::client::KeptValues;
use crate::capi::guard::Failure;
use crate::capi::topology::HostTopology;
use crate::types::{Info, Key, Namespace, ProcId, Status, Value};

use super::fork::Change;
use super::upcall::Bridge;

/// A server, its host's functions, and what the host has told that is not the server core's.
pub(super) struct ServerProcess {
    server: Server,
    /// A forked child has a copy of all of this, but not the server's threads.
    owner_pid: u32,
    pub(super) bridge: Arc<Bridge>,
    pub(super) own: Mutex<OwnValues>,
    /// Values that callers look at without owning them.
    pub(super) kept: KeptValues,
    /// What `setup_local_support` has each namespace's processes find in their environment.
    pub(super) environments: Mutex<BTreeMap<Namespace, Vec<Change>>>,
    /// What jobs got of the fabric that have not been described yet, call by call; of [`ALLOTMENTS_MAX`] calls for each at most.
    pub(super) allocated: Mutex<BTreeMap<Namespace, Vec<Allotment>>>,
    /// Part of the description of every namespace registered from now on.
    pub(super) resources: Mutex<Vec<Info>>,
    /// The jobs that have been described, or are just being.
    pub(super) described: Mutex<BTreeSet<Namespace>>,
    /// Process sets and their members.
    pub(super) process_sets: Mutex<BTreeMap<String, Vec<ProcId>>>,
    /// What the host says it supports: function, then attributes.
    pub(super) attributes: Mutex<BTreeMap<String, Vec<String>>>,
    /// Where the node's topology comes from.
    pub(super) topology: Arc<HostTopology>,
}

/// What one call gave a job.
pub(super) type Allotment = Arc<[Info]>;

/// So many calls give a job something before it is described; hosts need one.
pub(super) const ALLOTMENTS_MAX: usize = 1024;

/// Values that this process has stored for itself.
pub(super) type OwnValues = BTreeMap<ProcId, BTreeMap<Key, Value>>;

static CURRENT: RwLock<Option<Arc<ServerProcess>>> = RwLock::new(None);

impl ServerProcess {
    pub(super) fn new(server: Server, bridge: Arc<Bridge>, topology: Arc<HostTopology>) -> Self {
        Self {
            server,
            owner_pid: process::id(),
            bridge,
            own: Mutex::default(),
            kept: KeptValues::default(),
            environments: Mutex::default(),
            allocated: Mutex::default(),
            resources: Mutex::default(),
            described: Mutex::default(),
            process_sets: Mutex::default(),
            attributes: Mutex::default(),
            topology,
        }
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
    let current = CURRENT.read().clone().filter(|current| current.owner_pid == process::id());
    current.ok_or(Failure(Status::ERR_INIT))
}

/// Makes it this process's server, or none; gives the one before.
pub(super) fn replace(process: Option<Arc<ServerProcess>>) -> Option<Arc<ServerProcess>> {
    std::mem::replace(&mut CURRENT.write(), process)
}

/// For tests that make this process a server, which it can be once: one of them at a time.
#[cfg(test)]
pub(super) static ONLY_SERVER: Mutex<()> = Mutex::new(());

#[cfg(test)]
mod tests {
    use super::super::upcall::ModuleHost;
    use super::*;
    use crate::capi::types::pmix_server_module_t;
    use crate::proto::exchange::ExchangeForm;

    /// A child of a host waited for ever for a server's thread that only its parent has.
    #[test]
    fn a_forked_child_is_no_server() {
        let _only = ONLY_SERVER.lock();
        let directory = tempfile::tempdir().unwrap();
        let bridge = Arc::new(Bridge::new(pmix_server_module_t::default(), ExchangeForm::default()));
        let server = Server::builder().tmpdir(directory.path()).start(ModuleHost::new(Arc::clone(&bridge))).unwrap();
        replace(Some(Arc::new(ServerProcess::new(server, bridge, Arc::default()))));
        // SAFETY: the child looks at the state, whose lock nobody holds for long, and ends.
        match unsafe { nix::unistd::fork() }.unwrap() {
            nix::unistd::ForkResult::Child => {
                let is_none = matches!(current(), Err(Failure(Status::ERR_INIT)));
                // SAFETY: takes any number.
                unsafe { nix::libc::_exit(i32::from(!is_none)) }
            }
            nix::unistd::ForkResult::Parent { child } => {
                let ended = nix::sys::wait::waitpid(child, None).unwrap();
                assert_eq!(ended, nix::sys::wait::WaitStatus::Exited(child, 0));
            }
        }
        assert!(current().is_ok());
        drop(replace(None));
    }
}
