//! Where a job, or an application of it, runs.

use crate::gds::registration::{RegisterError, maps_among};
use crate::keys;
use crate::regex::{MapLimits, NodeList, RankMap, RankRun};
use crate::types::{Info, Value};

/// Nodes and ranks of a job.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    nodes: Option<NodeList>,
    ranks: Option<RankMap>,
}

impl Layout {
    /// Reads the node map and the process map among `infos`, also inside an array of the job.
    pub(super) fn of(infos: &[Info], limits: &MapLimits) -> Result<Self, RegisterError> {
        let of_job = infos.iter().filter(|info| info.key.as_str() == keys::JOB_INFO_ARRAY.name());
        let inside = of_job.flat_map(|info| elements(&info.value));
        let (nodes, ranks) = maps_among(infos.iter().chain(inside), limits)?;
        Ok(Self { nodes, ranks })
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = (&str, Vec<u32>)> {
        let ranks = |node| self.ranks.as_ref().map(|ranks| ranks.ranks_of(node).collect()).unwrap_or_default();
        self.node_names().enumerate().map(move |(index, node)| (node, ranks(index)))
    }

    pub(super) fn node_names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().flat_map(NodeList::iter)
    }

    pub(super) fn process_count(&self) -> u64 {
        self.ranks.as_ref().map_or(0, |ranks| ranks.rank_count().into())
    }

    pub(super) fn node_count(&self) -> u64 {
        self.nodes.as_ref().map_or(0, |nodes| nodes.len() as u64)
    }

    /// The first and the last rank of each run of processes, in the order of the ranks.
    pub(super) fn sorted_runs(&self) -> Vec<(u32, u32)> {
        let mut runs: Vec<(u32, u32)> = self.runs().collect();
        runs.sort_unstable();
        runs
    }

    /// Whether it has a process of these [`Layout::sorted_runs`].
    pub(super) fn has_process_of(&self, sorted_runs: &[(u32, u32)]) -> bool {
        self.runs().any(|(first, last)| {
            // The runs of a job are distinct, so this is the only one that may reach so far.
            let before = sorted_runs.partition_point(|run| run.0 <= last);
            before.checked_sub(1).and_then(|place| sorted_runs.get(place)).is_some_and(|run| run.1 >= first)
        })
    }

    fn runs(&self) -> impl Iterator<Item = (u32, u32)> {
        let nodes = self.ranks.iter().flat_map(|ranks| (0..ranks.node_count()).map(move |node| ranks.runs_of(node)));
        nodes.flatten().map(|run| (run.first(), run.last()))
    }

    /// The memory that it takes.
    pub(super) fn size_bytes(&self) -> usize {
        let nodes = self.nodes.as_ref().map_or(0, |nodes| nodes.as_text().len() + nodes.len() * size_of::<usize>());
        let of_map = |ranks: &RankMap| {
            let runs = (0..ranks.node_count()).map(|node| ranks.runs_of(node).len());
            runs.sum::<usize>() * size_of::<RankRun>() + ranks.node_count() * size_of::<u32>()
        };
        nodes + self.ranks.as_ref().map_or(0, of_map)
    }
}

/// The infos of an array.
pub(super) fn elements(value: &Value) -> impl Iterator<Item = &Info> {
    let elements = if let Value::DataArray(array) = value { array.elements.as_slice() } else { &[] };
    elements.iter().filter_map(|element| if let Value::Info(info) = element { Some(&**info) } else { None })
}
