//! Ranks that wait for a debugger: where a spawned job stops, and which of its ranks have reached that place.
//!
//! Source: PMIx Standard, chapter on tools and debuggers.

use std::collections::{BTreeMap, BTreeSet};

use modex::types::{Rank, Value};

use super::rank_id::RankId;

/// The name of the place right after exec (`PMIX_BREAKPOINT`).
pub(super) const AT_EXEC: &str = "exec";

/// The places at which ranks of a job stop. Each value names the ranks.
#[derive(Clone, Debug, Default)]
pub(super) struct DebugStops {
    /// Before the first instruction of the program.
    pub(super) on_exec: Option<StoppedRanks>,
    /// In `PMIx_Init`, and the value as the ranks get it.
    pub(super) in_init: Option<(StoppedRanks, Value)>,
    /// At a place that the program chooses: the value as the ranks get it.
    pub(super) in_app: Option<(StoppedRanks, Value)>,
}

impl DebugStops {
    /// Whether a rank stops at its first instruction.
    pub(super) fn stops_on_exec(&self, rank: u32) -> bool {
        self.on_exec.as_ref().is_some_and(|ranks| ranks.has(rank))
    }
}

/// The ranks that a directive names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoppedRanks {
    /// Every rank.
    All,
    /// These ranks.
    Some(BTreeSet<u32>),
}

impl StoppedRanks {
    /// The ranks of a value: true, a rank, or an array of ranks. The outer result is none for a value of another type,
    /// the inner one if it names no rank.
    pub(super) fn of(value: &Value) -> Option<Option<Self>> {
        let of_rank = |rank: Rank| match rank {
            Rank::Wildcard => Some(Some(Self::All)),
            Rank::Process(rank) => Some(Some(Self::Some([rank].into()))),
            _ => None,
        };
        match value {
            Value::ProcRank(rank) => of_rank(*rank),
            // The name of a job that does not exist yet means nothing.
            Value::Proc(proc) => of_rank(proc.rank),
            Value::DataArray(array) => {
                let mut all = BTreeSet::new();
                for element in &array.elements {
                    match Self::of(element).filter(|_| !matches!(element, Value::Bool(_) | Value::DataArray(_)))?? {
                        Self::All => return Some(Some(Self::All)),
                        Self::Some(ranks) => all.extend(ranks),
                    }
                }
                Some((!all.is_empty()).then_some(Self::Some(all)))
            }
            other => match (other.as_bool(), other.as_u32()) {
                (Some(is_all), _) => Some(is_all.then_some(Self::All)),
                (None, Some(rank)) => Some(Some(Self::Some([rank].into()))),
                (None, None) => None,
            },
        }
    }

    pub(super) fn has(&self, rank: u32) -> bool {
        match self {
            Self::All => true,
            Self::Some(ranks) => ranks.contains(&rank),
        }
    }

    /// The highest rank that is named by its number.
    pub(super) fn last(&self) -> Option<u32> {
        match self {
            Self::All => None,
            Self::Some(ranks) => ranks.last().copied(),
        }
    }
}

/// The ranks that have to reach their places before the jobs are ready for a debugger. A job has its places in order.
#[derive(Debug, Default)]
pub(super) struct AwaitedStops(BTreeMap<u32, Vec<AwaitedPlace>>);

/// A place at which ranks of a job stop.
#[derive(Debug)]
struct AwaitedPlace {
    ranks: BTreeSet<u32>,
    /// Its name, from the first rank that has reached it.
    name: Option<String>,
}

impl AwaitedStops {
    /// A job with this many ranks was started, and these of them stop at its next place.
    pub(super) fn expect(&mut self, job: u32, rank_count: u32, stopped: &StoppedRanks) {
        let ranks = (0..rank_count).filter(|rank| stopped.has(*rank)).collect();
        self.0.entry(job).or_default().push(AwaitedPlace { ranks, name: None });
    }

    /// A rank has reached its next place. Returns whether its job is ready with it.
    pub(super) fn reached(&mut self, rank: RankId, name: &str) -> bool {
        for place in self.0.get_mut(&rank.job).into_iter().flatten() {
            if place.ranks.remove(&rank.rank) {
                place.name.get_or_insert_with(|| name.to_owned());
                return place.ranks.is_empty();
            }
        }
        false
    }

    /// A rank has ended. Returns the places at which its job is ready without it.
    pub(super) fn ended(&mut self, rank: RankId) -> Vec<String> {
        let places = self.0.get_mut(&rank.job).into_iter().flatten();
        let ready = |place: &mut AwaitedPlace| {
            let is_last = place.ranks.remove(&rank.rank) && place.ranks.is_empty();
            place.name.clone().filter(|_| is_last)
        };
        places.filter_map(ready).collect()
    }

    /// Forgets a job.
    pub(super) fn remove(&mut self, job: u32) {
        self.0.remove(&job);
    }
}

#[cfg(test)]
mod tests {
    use modex::types::{DataArray, DataType};

    use super::*;

    #[test]
    fn a_value_names_all_ranks_or_some_or_none() {
        let array =
            |elements: Vec<Value>| Value::DataArray(Box::new(DataArray { element_type: DataType::ProcRank, elements }));
        let rank = |rank| Value::ProcRank(Rank::Process(rank));
        let some = |ranks: &[u32]| Some(Some(StoppedRanks::Some(ranks.iter().copied().collect())));
        assert_eq!(StoppedRanks::of(&true.into()), Some(Some(StoppedRanks::All)));
        assert_eq!(StoppedRanks::of(&Value::ProcRank(Rank::Wildcard)), Some(Some(StoppedRanks::All)));
        assert_eq!(StoppedRanks::of(&rank(3)), some(&[3]));
        assert_eq!(StoppedRanks::of(&Value::Uint32(3)), some(&[3]));
        assert_eq!(StoppedRanks::of(&array(vec![rank(1), rank(3), rank(1)])), some(&[1, 3]));
        assert_eq!(StoppedRanks::of(&false.into()), Some(None));
        assert_eq!(StoppedRanks::of(&array(Vec::new())), Some(None));
        for wrong in [Value::from("all"), array(vec![rank(1), "x".into()]), array(vec![array(Vec::new())])] {
            assert_eq!(StoppedRanks::of(&wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_job_is_ready_once_at_each_place_when_its_last_rank_has_stopped_or_ended() {
        let rank = |rank| RankId { job: 2, rank };
        let mut stops = AwaitedStops::default();
        stops.expect(2, 4, &StoppedRanks::Some([1, 3, 9].into()));
        stops.expect(2, 4, &StoppedRanks::Some([0, 1].into()));
        assert_eq!([1, 2].map(|number| stops.reached(rank(number), "init")), [false; 2]);
        assert_eq!([3, 3].map(|number| stops.reached(rank(number), "init")), [true, false]);
        assert!(!stops.reached(rank(1), "main"));
        assert_eq!((stops.ended(rank(0)), stops.ended(rank(0))), (vec!["main".to_owned()], Vec::new()));
        assert!(!stops.reached(RankId { job: 7, rank: 0 }, "init"));
        stops.expect(3, 1, &StoppedRanks::All);
        assert_eq!(stops.ended(RankId { job: 3, rank: 0 }), Vec::<String>::new(), "no rank stops");
    }
}
