//! Keys of this library for questions about hardware.

/// Key used by our own clients; the answer brings the segment of the topology.
pub const TOPOLOGY: &str = "modex.topology";

/// Key of inventories as blobs: of the node in `PMIX_HOSTNAME`, or of all nodes.
pub const INVENTORY: &str = "modex.inventory";

/// Directive of the collection of all nodes' inventories.
pub const ALL_INVENTORIES: &str = "modex.inventory.global";
