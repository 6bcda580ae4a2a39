//! What a process that is a server has.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::api::Server;
use crate::capi::guard::Failure;
use crate::types::{Info, Key, Namespace, ProcId, Status, Value};

use super::fork::Change;
use super::upcall::Bridge;

/// A server, its host's functions, and what the host has told that is not the server core's.
pub(super) struct ServerProcess {
    server: Server,
    pub(super) bridge: Arc<Bridge>,
    pub(super) own: Mutex<OwnValues>,
    /// What `setup_local_support` has each namespace's processes find in their environment.
    pub(super) environments: Mutex<BTreeMap<Namespace, Vec<Change>>>,
    /// Part of the description of every namespace registered from now on.
    pub(super) resources: Mutex<Vec<Info>>,
    /// Process sets and their members.
    pub(super) process_sets: Mutex<BTreeMap<String, Vec<ProcId>>>,
    /// What the host says it supports: function, then attributes.
    pub(super) attributes: Mutex<BTreeMap<String, Vec<String>>>,
}

/// Values that this process has stored for itself.
pub(super) type OwnValues = BTreeMap<ProcId, BTreeMap<Key, Value>>;

static CURRENT: RwLock<Option<Arc<ServerProcess>>> = RwLock::new(None);

impl ServerProcess {
    pub(super) fn new(server: Server, bridge: Arc<Bridge>) -> Self {
        Self {
            server,
            bridge,
            own: Mutex::default(),
            environments: Mutex::default(),
            resources: Mutex::default(),
            process_sets: Mutex::default(),
            attributes: Mutex::default(),
        }
    }

    pub(super) const fn server(&self) -> &Server {
        &self.server
    }
}

/// The server of this process.
///
/// # Errors
/// `ERR_INIT` before the first and after the last initialization.
pub(super) fn current() -> Result<Arc<ServerProcess>, Failure> {
    CURRENT.read().clone().ok_or(Failure(Status::ERR_INIT))
}

/// Makes it this process's server, or none; gives the one before.
pub(super) fn replace(process: Option<Arc<ServerProcess>>) -> Option<Arc<ServerProcess>> {
    std::mem::replace(&mut CURRENT.write(), process)
}
