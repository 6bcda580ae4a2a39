//! The expanded process map.

use super::decimal::Digits;
use super::error::{MapError, within};
use super::limits::{MapLimits, RANK_END};

/// The ranks each node hosts, in map order, stored as runs of consecutive ranks.
///
/// It has at least one node; a node may have no ranks. Ranks placed in blocks cost eight bytes per node, ranks dealt in
/// turns eight bytes each. Neighbouring runs never continue each other, so equal maps have equal runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankMap {
    runs: Vec<RankRun>,
    /// The end of each node's runs in `runs`.
    ends: Vec<u32>,
    rank_count: u32,
}

/// Consecutive ranks on one node; at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankRun {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl RankRun {
    /// The smallest rank of the run.
    #[must_use]
    pub fn first(self) -> u32 {
        self.first
    }

    /// The largest rank of the run, itself included.
    #[must_use]
    pub fn last(self) -> u32 {
        self.last
    }

    /// Number of ranks; at least one.
    #[must_use]
    pub fn count(self) -> u32 {
        self.last - self.first + 1
    }
}

impl RankMap {
    /// Collects one list of ranks per node, in order.
    ///
    /// # Errors
    /// If there are no nodes, a rank is not below [`RANK_END`], or `limits` are exceeded.
    pub fn from_ranks<R: IntoIterator<Item = u32>>(
        nodes: impl IntoIterator<Item = R>,
        limits: &MapLimits,
    ) -> Result<Self, MapError> {
        let mut builder = RankMapBuilder::new(limits);
        for ranks in nodes {
            for rank in ranks {
                builder.push_range(u64::from(rank), u64::from(rank))?;
            }
            builder.end_node()?;
        }
        builder.finish()
    }

    /// Number of nodes; at least one.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.ends.len()
    }

    /// Number of ranks on all nodes together: the size of the job, if no rank is listed twice.
    #[must_use]
    pub fn rank_count(&self) -> u32 {
        self.rank_count
    }

    /// The runs of the node at index `node`, in map order; none if there is no such node.
    #[must_use]
    pub fn runs_of(&self, node: usize) -> &[RankRun] {
        let end_of = |node: usize| self.ends.get(node).and_then(|&end| usize::try_from(end).ok());
        let start = match node.checked_sub(1) {
            None => Some(0),
            Some(previous) => end_of(previous),
        };
        let runs = start.zip(end_of(node)).and_then(|(start, end)| self.runs.get(start..end));
        runs.unwrap_or_default()
    }

    /// The ranks of the node at index `node`, in map order; none if there is no such node.
    pub fn ranks_of(&self, node: usize) -> impl Iterator<Item = u32> {
        self.runs_of(node).iter().flat_map(|run| run.first..=run.last)
    }

    /// Number of ranks of the node at index `node`; none if there is no such node.
    #[must_use]
    pub fn rank_count_of(&self, node: usize) -> u32 {
        self.runs_of(node).iter().map(|run| run.count()).sum()
    }

    /// Appends the ranks of the node at index `node` to `text`, with a comma between them: the value of the local
    /// peers key.
    pub fn text_of(&self, node: usize, text: &mut String) {
        let expected = usize::try_from(self.rank_count_of(node)).unwrap_or_default();
        let mut bytes = Vec::with_capacity(expected.saturating_mul(TEXT_BYTES));
        push_runs(self.runs_of(node).iter().copied(), &mut bytes);
        // Digits and commas are UTF-8.
        text.push_str(std::str::from_utf8(&bytes).unwrap_or_default());
    }

    /// The texts of all nodes, concatenated, and the end of each; `None` beyond 4 GiB.
    #[must_use]
    pub fn texts(&self) -> Option<(String, Vec<u32>)> {
        let expected_bytes = usize::try_from(self.rank_count).unwrap_or_default().saturating_mul(TEXT_BYTES);
        let (mut bytes, mut ends) = (Vec::with_capacity(expected_bytes), Vec::with_capacity(self.ends.len()));
        for node in 0..self.ends.len() {
            push_runs(self.runs_of(node).iter().copied(), &mut bytes);
            ends.push(u32::try_from(bytes.len()).ok()?);
        }
        Some((String::from_utf8(bytes).ok()?, ends))
    }

    /// Confirms that no rank is listed twice, on one node or on two.
    ///
    /// Costs a bit for each rank up to the largest or, if that far exceeds their number, a sorted copy of the runs.
    ///
    /// # Errors
    /// [`MapError::DuplicateRank`] with the smallest such rank.
    pub fn check_distinct(&self) -> Result<(), MapError> {
        if self.ascends() || self.is_seen_to_be_distinct() {
            return Ok(());
        }
        let mut runs = self.runs.clone();
        runs.sort_unstable_by_key(|run| run.first);
        let neighbours = runs.iter().zip(runs.iter().skip(1));
        // Up to the first overlap each run ends before the next begins, so comparing neighbours is sufficient.
        match neighbours.into_iter().find(|(run, next)| next.first <= run.last) {
            Some((_, next)) => Err(MapError::DuplicateRank { rank: next.first }),
            None => Ok(()),
        }
    }

    /// Whether each run begins above the one before, as in blocks.
    fn ascends(&self) -> bool {
        self.runs.iter().zip(self.runs.iter().skip(1)).all(|(run, next)| run.last < next.first)
    }

    /// Whether a table of bits shows that no rank occurs twice; `false` also if the table would be too large.
    fn is_seen_to_be_distinct(&self) -> bool {
        let highest = self.runs.iter().map(|run| run.last).max().unwrap_or_default();
        if highest / BITS_A_RANK_MAX > self.rank_count {
            return false;
        }
        let mut seen = vec![0_u64; usize::try_from(highest / u64::BITS).unwrap_or_default() + 1];
        self.runs.iter().flat_map(|run| run.first..=run.last).all(|rank| {
            let word = usize::try_from(rank / u64::BITS).ok().and_then(|at| seen.get_mut(at));
            word.is_some_and(|word| {
                let bit = 1 << (rank % u64::BITS);
                let is_new = *word & bit == 0;
                *word |= bit;
                is_new
            })
        })
    }
}

/// Appends ranks with a comma between them.
pub(super) fn push_runs(runs: impl Iterator<Item = RankRun>, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    for run in runs {
        let mut digits = Digits::of(u64::from(run.first));
        for _ in run.first..=run.last {
            bytes.extend_from_slice(digits.as_bytes());
            bytes.push(b',');
            digits.count_up();
        }
    }
    // No comma behind the last.
    bytes.truncate(bytes.len().saturating_sub(1).max(start));
}

/// Bytes of a rank of a large job, and of the comma behind it.
pub(super) const TEXT_BYTES: usize = 8;

/// Bits for each rank of a map in a table of all ranks; a sorted copy of the runs takes as much.
const BITS_A_RANK_MAX: u32 = 64;

/// Collects ranks node by node, within limits.
pub(super) struct RankMapBuilder<'a> {
    map: RankMap,
    /// Start of the current node's runs.
    node_start: usize,
    limits: &'a MapLimits,
}

impl<'a> RankMapBuilder<'a> {
    pub(super) fn new(limits: &'a MapLimits) -> Self {
        let map = RankMap { runs: Vec::new(), ends: Vec::new(), rank_count: 0 };
        Self { map, node_start: 0, limits }
    }

    /// Index of the current node.
    pub(super) fn node(&self) -> u32 {
        u32::try_from(self.map.ends.len()).unwrap_or(u32::MAX)
    }

    /// Appends the ranks from `first` to `last`, both included, to the current node.
    pub(super) fn push_range(&mut self, first: u64, last: u64) -> Result<(), MapError> {
        let node = self.node();
        let (first, last) = (as_rank(first, node)?, as_rank(last, node)?);
        if first > last {
            return Err(MapError::ReversedRange { node, first: u64::from(first), last: u64::from(last) });
        }
        let run = RankRun { first, last };
        let rank_count = u64::from(self.map.rank_count) + u64::from(run.count());
        self.map.rank_count = within("ranks", rank_count, self.limits.ranks_max)?;
        let of_node = self.map.runs.get_mut(self.node_start..).unwrap_or_default();
        match of_node.last_mut() {
            Some(open) if open.last + 1 == first => open.last = last,
            _ => self.map.runs.push(run),
        }
        Ok(())
    }

    /// Closes the current node and begins the next.
    pub(super) fn end_node(&mut self) -> Result<(), MapError> {
        within("nodes", u64::from(self.node()) + 1, self.limits.nodes_max)?;
        self.node_start = self.map.runs.len();
        // Each run has a rank, and ranks are limited: the count fits.
        self.map.ends.push(u32::try_from(self.node_start).unwrap_or(u32::MAX));
        Ok(())
    }

    pub(super) fn finish(self) -> Result<RankMap, MapError> {
        if self.map.ends.is_empty() {
            return Err(MapError::NoNodes);
        }
        Ok(self.map)
    }
}

fn as_rank(number: u64, node: u32) -> Result<u32, MapError> {
    let reserved = MapError::ReservedRank { node, rank: number };
    u32::try_from(number).ok().filter(|&rank| rank < RANK_END).ok_or(reserved)
}
