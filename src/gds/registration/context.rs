//! What a registration depends on besides the description.

use crate::regex::MapLimits;

/// Who registers: the server's own node, and how much a description may cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Name of the node this server runs on.
    pub hostname: String,
    /// Other names of this node.
    pub aliases: Vec<String>,
    /// Bounds of a description.
    pub limits: Limits,
}

impl Context {
    /// A server on the node `hostname`, without aliases, with default limits.
    #[must_use]
    pub fn new(hostname: impl Into<String>) -> Self {
        Self { hostname: hostname.into(), aliases: Vec::new(), limits: Limits::default() }
    }
}

/// Upper bounds of a description. All are inclusive, and checked before the memory they guard is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Processes of the job.
    pub ranks_max: u32,
    /// Nodes: those of the node map and those only node arrays name, together.
    pub nodes_max: u32,
    /// Names of one node besides its host name.
    pub aliases_max: u32,
    /// Applications of the job.
    pub apps_max: u32,
    /// Infos in all containers together.
    pub entries_max: u64,
    /// How deep containers nest. A container is two levels, an array and the infos in it, and nothing reads or writes
    /// values of more than 32: what that recursion may take of a thread's stack is the bound.
    pub depth_max: u32,
}

impl Limits {
    /// The bounds of the two maps.
    pub(super) fn of_maps(&self) -> MapLimits {
        MapLimits { nodes_max: self.nodes_max, ranks_max: self.ranks_max, ..MapLimits::default() }
    }
}

impl Default for Limits {
    /// Sixteen million processes with sixteen values each, on a million nodes with more names than any host has.
    fn default() -> Self {
        Self {
            ranks_max: 1 << 24,
            nodes_max: 1 << 20,
            aliases_max: 256,
            apps_max: 1 << 16,
            entries_max: 1 << 28,
            depth_max: 1024,
        }
    }
}
