//! Requests to save the state of ranks, and what ranks have told about it (`PMIX_JOB_CTRL_CHECKPOINT`).
//!
//! The launcher saves nothing. The rank or the request names how a rank is told: an event or a signal. The rank then
//! saves its state, and raises `PMIX_JCTRL_CHECKPOINT_COMPLETE` for the requester.

use std::collections::{BTreeMap, BTreeSet};

use super::LaunchedJob;
use crate::run::control_request::{CheckpointMethod, ControlRefusal};
use crate::run::life_events;
use crate::run::rank_id::RankId;

/// The directives of ranks about saved states and preemption.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    methods: BTreeMap<RankId, CheckpointMethod>,
    preemptible: BTreeSet<RankId>,
}

impl Checkpoints {
    /// Notes how ranks want to be told, and whether they want an alert before they are asked to end.
    pub(super) fn note(
        &mut self,
        ranks: &BTreeSet<RankId>,
        method: Option<CheckpointMethod>,
        is_preemptible: Option<bool>,
    ) {
        if let Some(method) = method {
            self.methods.extend(ranks.iter().map(|rank| (*rank, method)));
        }
        match is_preemptible {
            Some(true) => self.preemptible.extend(ranks),
            Some(false) => self.preemptible.retain(|rank| !ranks.contains(rank)),
            None => {}
        }
    }

    /// Forgets a rank that has ended.
    pub(super) fn remove(&mut self, rank: RankId) {
        self.methods.remove(&rank);
        self.preemptible.remove(&rank);
    }
}

impl LaunchedJob {
    /// Tells ranks to save their state, or none of them.
    pub(super) fn checkpoint(
        &self,
        targets: &BTreeSet<RankId>,
        name: &str,
        method: Option<CheckpointMethod>,
    ) -> Result<(), ControlRefusal> {
        let way = |rank: &RankId| {
            let method = method.or_else(|| self.checkpoints.methods.get(rank).copied());
            method.map(|method| (*rank, method)).ok_or(ControlRefusal::NoMethod(*rank))
        };
        let ways = targets.iter().map(way).collect::<Result<Vec<_>, _>>()?;
        let mut notified = Vec::new();
        let mut is_permitted = true;
        for (rank, method) in ways {
            match method {
                CheckpointMethod::Event => notified.extend(self.jobs.proc(rank)),
                CheckpointMethod::Signal(signal) => {
                    is_permitted &= self.children.signal_ranks(&[rank].into(), signal);
                }
            }
        }
        if !notified.is_empty() {
            self.raise(&life_events::of_checkpoint(notified, name));
        }
        if is_permitted { Ok(()) } else { Err(ControlRefusal::Forbidden) }
    }

    /// Tells the ranks that want it that they have to end.
    pub(super) fn alert(&self, targets: &BTreeSet<RankId>) {
        let preempted = targets.intersection(&self.checkpoints.preemptible);
        let notified: Vec<_> = preempted.filter_map(|rank| self.jobs.proc(*rank)).collect();
        if !notified.is_empty() {
            self.raise(&life_events::of_preemption(notified));
        }
    }
}
