//! The inputs of a registration besides the description.

use crate::regex::MapLimits;

/// The server's own node, and the limits of a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Name of the node this server runs on.
    pub hostname: String,
    /// Other names of this node.
    pub aliases: Vec<String>,
    /// Bounds of a description.
    pub limits: DescriptionLimits,
}

impl Context {
    /// A server on the node `hostname`, without aliases, with default limits.
    #[must_use]
    pub fn new(hostname: impl Into<String>) -> Self {
        Self { hostname: hostname.into(), aliases: Vec::new(), limits: DescriptionLimits::default() }
    }
}

/// Upper bounds of a description. All are inclusive, and checked before the memory they guard is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptionLimits {
    /// Processes of the job.
    pub ranks_max: u32,
    /// Nodes of the node map and of node arrays, together.
    pub nodes_max: u32,
    /// Names of one node besides its host name.
    pub aliases_max: u32,
    /// Applications of the job.
    pub apps_max: u32,
    /// Infos in all containers together.
    pub entries_max: u64,
    /// Nesting depth of containers. A container adds two levels, an array and its infos. No part of modex reads or
    /// writes values deeper than 32 levels, which bounds the recursion's use of the stack.
    pub depth_max: u32,
}

impl DescriptionLimits {
    /// The bounds of the two maps.
    pub(super) fn of_maps(&self) -> MapLimits {
        MapLimits { nodes_max: self.nodes_max, ranks_max: self.ranks_max, ..MapLimits::default() }
    }
}

impl Default for DescriptionLimits {
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
