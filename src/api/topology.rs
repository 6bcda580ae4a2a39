//! Hardware topology, for servers and for clients.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Client, Pending, Server, ServerBuilder, ServerCall, ServerError};
use crate::runtime::{TopologySharing, TopologySource};
use crate::server::HostCall;
use crate::topo::{self, Inventory, Machine, SharedMachine, TopologyError};
use crate::types::Topology;

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

/// A topology that is known already: from a file, or from a host that has read it itself.
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
    /// Reader of this node's topology. It reads once for all processes, and again for each
    /// [`Server::collect_current_inventory`]. Without a reader, questions about the hardware end
    /// with "not supported".
    pub fn topology(mut self, source: Arc<dyn TopologySource>) -> Self {
        self.topology.source = Some(source);
        self
    }

    /// Time of reading the topology, and its clients; on the first request if not given.
    pub fn topology_sharing(mut self, sharing: TopologySharing) -> Self {
        self.topology.sharing = sharing;
        self
    }

    /// Time limit of a wait for the topology, from the first request; 10 s if not given. Reading can hang with a device
    /// or a file system. Clients of other libraries then start without it, and requests end with
    /// [`TopologyError::TooSlow`]. A later result reaches both.
    pub fn topology_time_max(mut self, time_max: Duration) -> Self {
        self.topology.time_max = time_max;
        self
    }
}

impl Server {
    /// The hardware inventory of this node. The first request reads the topology, and waits for that. Without a reader,
    /// or if the machine may not be read, it holds the kernel's data: processors and memory.
    ///
    /// Source: PMIx Standard, `PMIx_server_collect_inventory`.
    ///
    /// # Errors
    /// [`TopologyError`] of an unreadable topology.
    pub fn collect_inventory(&self) -> Result<Inventory, TopologyError> {
        self.handle.node_inventory().of_topology()
    }

    /// The hardware inventory of this node as it is now. It is delivered to this server, so lost and found devices are
    /// events. The topology of the processes stays as it was read first. A query for [`Server::CURRENT_INVENTORY`] of
    /// the server's user or root does the same.
    ///
    /// ```
    /// use modex::{LocalHost, Server};
    ///
    /// let server = Server::builder().start(LocalHost)?;
    /// let current = server.collect_current_inventory()?;
    /// assert_eq!(server.collect_inventories()?, [current]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`TopologyError`] of an unreadable topology, and of a reading beyond [`ServerBuilder::topology_time_max`].
    pub fn collect_current_inventory(&self) -> Result<Inventory, TopologyError> {
        let refused = |error: ServerError| TopologyError::Unusable { reason: error.to_string() };
        let deliver = |blob| self.deliver_inventory(vec![blob]).wait().map_err(refused);
        Ok(self.handle.node_inventory().current(deliver)?.inventory().clone())
    }

    /// The inventories of all nodes that this server knows, by name: the delivered ones, its own node's, and for other
    /// nodes of its fabric the fabric's devices. A query for [`Server::INVENTORY`] has the same. The topology is read
    /// only if the own node's inventory was not delivered.
    ///
    /// ```
    /// # use modex::{FabricSource, LocalHost, Server};
    /// let fabric = FabricSource::parse("test:nodes:5;plane:d:3")?;
    /// let server = Server::builder().fabric(fabric).start(LocalHost)?;
    /// assert_eq!(server.collect_inventories()?.len(), 6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`TopologyError`] of this node's unreadable topology.
    pub fn collect_inventories(&self) -> Result<Vec<Inventory>, TopologyError> {
        let (delivered, fabric) = (self.handle.inventories(), self.fabric());
        let known = |inventory: &Inventory| (inventory.node.clone(), inventory.clone());
        let mut nodes: BTreeMap<String, Inventory> = delivered.iter().map(known).collect();
        if delivered.of(self.hostname()).is_none() {
            nodes.extend([self.collect_inventory()?].iter().map(known));
        }
        for node in fabric.iter().flat_map(|fabric| fabric.nodes()) {
            if !nodes.contains_key(node) {
                nodes.extend(fabric.as_ref().and_then(|fabric| Some((node.to_owned(), fabric.inventory_of(node)?))));
            }
        }
        Ok(nodes.into_values().collect())
    }

    /// Takes inventories of nodes in the form of [`Inventory::encode`]; a node's newer inventory replaces its older
    /// one. A call takes all of them or none. Queries and Gets for [`Server::INVENTORY`], `PMIX_FABRIC_DEVICES` and
    /// `PMIX_FABRIC_DEVICE` read them.
    ///
    /// Source: PMIx Standard, `PMIx_server_deliver_inventory`.
    ///
    /// ```
    /// # use modex::{LocalHost, Server};
    /// let server = Server::builder().start(LocalHost)?;
    /// let inventory = server.collect_inventory()?;
    /// server.deliver_inventory(vec![inventory.encode()?]).wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Fails with [`ServerError::Refused`](super::ServerError::Refused) for bytes that are no inventory, and for too
    /// many nodes.
    pub fn deliver_inventory(&self, blobs: Vec<Vec<u8>>) -> Pending<ServerCall<()>> {
        self.call("take the inventories", HostCall::DeliverInventories(blobs))
    }

    /// The key of inventories: of the node that `PMIX_HOSTNAME` names, or of all nodes that the server knows.
    pub const INVENTORY: &'static str = crate::server::INVENTORY;

    /// The key of queries for [`Server::collect_current_inventory`], and the directive of `PMIx_server_collect_inventory`
    /// for it.
    pub const CURRENT_INVENTORY: &'static str = crate::server::CURRENT_INVENTORY;

    /// The directive of `PMIx_server_collect_inventory` for [`Server::collect_inventories`].
    pub const ALL_INVENTORIES: &'static str = crate::server::ALL_INVENTORIES;

    /// The topology of this node. The first request reads it, and waits for that. Clients get the same topology.
    ///
    /// # Errors
    /// [`TopologyError`], the same at every call, except for [`TopologyError::TooSlow`].
    pub fn topology(&self) -> Result<Arc<SharedMachine>, TopologyError> {
        self.handle.topology().wait()
    }
}

impl Client {
    /// The topology of this node, as its server shares it. The first call sends a message; this process does not read
    /// the machine.
    ///
    /// # Errors
    /// [`TopologyError`] when the server has none, or does not share it.
    pub fn topology(&self) -> Result<Arc<Machine>, TopologyError> {
        self.session.machine()
    }
}
