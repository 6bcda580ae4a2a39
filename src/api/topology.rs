//! The hardware, for servers and for clients.

use std::fmt;
use std::sync::Arc;

use super::{Client, Server, ServerBuilder};
use crate::runtime::{TopologySharing, TopologySource};
use crate::topo::{self, Machine, SharedMachine, TopologyError};
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
        self.topology = Some(source);
        self
    }

    /// When the topology is read, and for whom; on the first question of anybody if not given.
    pub fn topology_sharing(mut self, sharing: TopologySharing) -> Self {
        self.topology_sharing = sharing;
        self
    }
}

impl Server {
    /// The topology of this node. The first question reads it, and waits for that; clients are handed the same.
    ///
    /// # Errors
    /// [`TopologyError`], the same for ever.
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
