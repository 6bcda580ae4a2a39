//! Keys of this library.

/// Key used by our own clients; the answer brings the segment of the topology.
pub const TOPOLOGY: &str = "modex.topology";

/// Key of inventories as blobs: of the node in `PMIX_HOSTNAME`, or of all nodes.
pub const INVENTORY: &str = "modex.inventory";

/// Key of queries for the inventory of the server's own node as it is now.
pub const CURRENT_INVENTORY: &str = "modex.inventory.current";

/// Information of a piece of output: the number of bytes before it that the receiver has missed.
pub const MISSED_OUTPUT: &str = "modex.iof.missed";

/// Directive of the collection of all nodes' inventories.
pub const ALL_INVENTORIES: &str = "modex.inventory.global";
