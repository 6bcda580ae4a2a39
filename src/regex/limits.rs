//! Limits of one map: of its cost, and of its ranks.

/// The first number that is not a rank of a process. The PMIx Standard reserves higher ranks for wildcards, local nodes
/// and the like (chapter on data structures, "Rank").
pub const RANK_END: u32 = u32::MAX - 50;

/// Upper bounds for one node map or process map. All are inclusive.
///
/// A map is untrusted: thirty bytes can stand for four billion nodes, and a deflated list can grow a
/// thousandfold. Each bound is checked before the memory it guards is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapLimits {
    /// Number of nodes in a node map, number of fields in a process map.
    pub nodes_max: u32,
    /// Number of ranks in a process map, summed over all nodes.
    pub ranks_max: u32,
    /// Length of one node name in bytes.
    pub name_bytes_max: u32,
    /// Length of all node names of a map together in bytes, one separator per name included.
    pub names_bytes_max: u32,
    /// Length in bytes of the text a `blob:` map inflates to.
    pub inflated_bytes_max: u32,
}

impl Default for MapLimits {
    /// Room for a million nodes and sixteen million ranks; node names as long as the DNS allows.
    fn default() -> Self {
        Self {
            nodes_max: 1 << 20,
            ranks_max: 1 << 24,
            name_bytes_max: 255,
            names_bytes_max: 64 << 20,
            inflated_bytes_max: 256 << 20,
        }
    }
}
