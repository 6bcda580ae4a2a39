//! The hardware, for servers and for clients.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Client, Server, ServerBuilder, ServerError};
use crate::gds::AsStatus;
use crate::runtime::{TopologySharing, TopologySource, kernel_inventory};
use crate::server::HostCall;
use crate::topo::{self, Inventory, Machine, SharedMachine, TopologyError};
use crate::types::{Status, Topology};

/// Reads the machine through hwloc, in this process; needs feature `topology`.
///
/// ```no_run
/// use std::sync::Arc;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = modex::Server::builder().topology(Arc::new(modex::Hwloc)).start(modex::LocalHost)?;
/// println!("{} objects", server.topology()?.machine().objects().count());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Hwloc;

impl TopologySource for Hwloc {
    fn read(&self) -> Result<Topology, TopologyError> {
        topo::read()
    }
}

/// A topology that is known already: of a file, or of a host that has read it itself.
pub struct KnownTopology(pub Topology);

impl TopologySource for KnownTopology {
    fn read(&self) -> Result<Topology, TopologyError> {
        Ok(self.0.clone())
    }
}

impl fmt::Debug for KnownTopology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KnownTopology")
    }
}

impl ServerBuilder {
    /// Who reads the topology of this node, at most once; with none, questions about the hardware end with "not
    /// supported".
    pub fn topology(mut self, source: Arc<dyn TopologySource>) -> Self {
        self.topology.source = Some(source);
        self
    }

    /// When the topology is read, and for whom; on the first question of anybody if not given.
    pub fn topology_sharing(mut self, sharing: TopologySharing) -> Self {
        self.topology.sharing = sharing;
        self
    }

    /// How long anybody waits for the topology, from the first question; 10 s if not given. Reading can hang with a
    /// device or a file system. Clients of other libraries then start without it, questions end with
    /// [`TopologyError::TooSlow`], and both find it if it is there later.
    pub fn topology_time_max(mut self, time_max: Duration) -> Self {
        self.topology.time_max = time_max;
        self
    }
}

impl Server {
    /// What hardware this node has, in short. The first question about it reads the topology, and waits for that. Where
    /// there is nothing to read it with, or it may not be read, it is what the kernel says: processors and memory.
    ///
    /// Source: PMIx Standard, `PMIx_server_collect_inventory`.
    ///
    /// # Errors
    /// [`TopologyError`] of a topology that could not be read.
    pub fn collect_inventory(&self) -> Result<Inventory, TopologyError> {
        match self.topology() {
            Ok(shared) => Ok(Inventory::of(self.hostname(), shared.machine())),
            Err(error) if error.status() == Status::ERR_NOT_SUPPORTED => Ok(kernel_inventory(self.hostname())),
            Err(error) => Err(error),
        }
    }

    /// Takes inventories of nodes, as [`Inventory::encode`] wrote them there; that of a node takes the place of its older
    /// one. All are taken or none. Queries for [`Server::INVENTORY`], `PMIX_FABRIC_DEVICES` and `PMIX_FABRIC_DEVICE`, and
    /// Gets of these, are answered from them.
    ///
    /// Source: PMIx Standard, `PMIx_server_deliver_inventory`.
    ///
    /// # Errors
    /// [`ServerError::Refused`] for bytes that are no inventory, and for more nodes than are kept.
    pub fn deliver_inventory(&self, blobs: Vec<Vec<u8>>) -> Result<(), ServerError> {
        self.status("take the inventories", HostCall::DeliverInventories(blobs))
    }

    /// As [`Server::deliver_inventory`], without waiting: `callback` gets the result, on the thread of the host's functions.
    ///
    /// # Errors
    /// [`ServerError::Stopped`]: the callback will not run.
    pub fn deliver_inventory_with(
        &self,
        blobs: Vec<Vec<u8>>,
        callback: impl FnOnce(Result<(), ServerError>) + Send + 'static,
    ) -> Result<(), ServerError> {
        self.status_with("take the inventories", HostCall::DeliverInventories(blobs), callback)
    }

    /// The key of inventories: of the node that `PMIX_HOSTNAME` names, or of all that were delivered.
    pub const INVENTORY: &'static str = crate::server::INVENTORY;

    /// The topology of this node. The first question reads it, and waits for that; clients are handed the same.
    ///
    /// # Errors
    /// [`TopologyError`], the same for ever, except for [`TopologyError::TooSlow`].
    pub fn topology(&self) -> Result<Arc<SharedMachine>, TopologyError> {
        self.handle.topology().wait()
    }
}

impl Client {
    /// The topology of this node, as its server shares it. The first question is a message; nothing is read from the
    /// machine by this process.
    ///
    /// # Errors
    /// [`TopologyError`] when the server has none, or does not share it.
    pub fn topology(&self) -> Result<Arc<Machine>, TopologyError> {
        self.session.machine()
    }
}
