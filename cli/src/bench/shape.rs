//! Large jobs to describe: the number of ranks, and their places.

use modex::keys;
use modex::types::{Info, Key, Value};

/// Ranks of the largest job that can be registered, as clap takes the ends of ranges. The limit is
/// [`DescriptionLimits::ranks_max`](modex::gds::registration::DescriptionLimits::ranks_max).
pub(super) const RANKS_MAX: i64 = 1 << 24;

/// A job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) ranks: u32,
    pub(super) ranks_per_node: u32,
    pub(super) placement: RankPlacement,
}

/// How the ranks are dealt to the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum RankPlacement {
    /// Neighbours together.
    Block,
    /// In turns.
    Cyclic,
    /// Neighbours together, but no two nodes have the same number of ranks.
    Uneven,
}

impl std::fmt::Display for RankPlacement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Block => "block",
            Self::Cyclic => "cyclic",
            Self::Uneven => "uneven",
        })
    }
}

impl Shape {
    pub(super) const fn nodes(self) -> u32 {
        self.ranks.div_ceil(self.ranks_per_node)
    }

    /// The ranks of a node, ascending.
    pub(super) fn ranks_of(self, node: u32) -> impl Iterator<Item = u32> {
        let step = if self.placement == RankPlacement::Cyclic { self.nodes() } else { 1 };
        let first = match self.placement {
            RankPlacement::Cyclic => node,
            _ => self.first_of(node),
        };
        let end = match self.placement {
            RankPlacement::Cyclic => self.ranks,
            _ => self.first_of(node.saturating_add(1)),
        };
        (first..end).step_by(usize::try_from(step).unwrap_or(1))
    }

    /// The start of a block.
    fn first_of(self, node: u32) -> u32 {
        let even = node.saturating_mul(self.ranks_per_node);
        let shift = match self.placement {
            RankPlacement::Uneven if node > 0 && node < self.nodes() => {
                node.wrapping_mul(2_654_435_761) % self.ranks_per_node
            }
            _ => 0,
        };
        even.saturating_add(shift).min(self.ranks)
    }

    /// The node of the highest rank.
    pub(super) fn node_of_last(self) -> u32 {
        let last = self.ranks.saturating_sub(1);
        match self.placement {
            RankPlacement::Cyclic => last % self.nodes().max(1),
            _ => (0..self.nodes()).rev().find(|node| self.first_of(*node) <= last).unwrap_or_default(),
        }
    }

    /// Names of the nodes.
    pub(super) fn names(self) -> impl Iterator<Item = String> {
        (0..self.nodes()).map(|node| format!("node{node:05}"))
    }

    /// The job by its size and maps alone, spelled out.
    pub(super) fn maps(self) -> Vec<Info> {
        self.maps_of(self.names())
    }

    /// The same, with this name for the first node.
    pub(super) fn maps_from(self, first: &str) -> Vec<Info> {
        self.maps_of(std::iter::once(first.to_owned()).chain(self.names().skip(1)))
    }

    fn maps_of(self, names: impl Iterator<Item = String>) -> Vec<Info> {
        let names: Vec<String> = names.collect();
        let field = |node| self.ranks_of(node).map(|rank| rank.to_string()).collect::<Vec<_>>().join(",");
        let fields: Vec<String> = (0..self.nodes()).map(field).collect();
        vec![
            Info::new(Key::from_static(keys::JOB_SIZE.name()), self.ranks),
            Info::new(Key::from_static(keys::NODE_MAP.name()), Value::from(names.join(","))),
            Info::new(Key::from_static(keys::PROC_MAP.name()), Value::from(fields.join(";"))),
        ]
    }
}
