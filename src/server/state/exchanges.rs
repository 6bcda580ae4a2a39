//! Commits that the participants of fences have of each other.

use std::collections::BTreeMap;

use super::signature::Participants;
use crate::types::{Namespace, ProcId};

/// Exchanges of sets of participants: for each local process the commit that the others of the set have.
#[derive(Debug, Default)]
pub(crate) struct Exchanges {
    sets: BTreeMap<Participants, Exchanged>,
    last: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Exchanged {
    pub(crate) commits: BTreeMap<ProcId, u64>,
    /// The last one failed here: other servers may have missed it, too.
    pub(crate) has_failed: bool,
    /// Counter value of the last note.
    noted: u64,
}

impl Exchanges {
    pub(crate) fn len(&self) -> usize {
        self.sets.len()
    }

    pub(crate) fn of(&self, procs: &Participants) -> Option<&Exchanged> {
        self.sets.get(procs)
    }

    pub(crate) fn note(&mut self, procs: &Participants, collected: &[(ProcId, u64)]) {
        let exchanged = self.entry(procs);
        exchanged.has_failed = false;
        for (proc, commit) in collected {
            let newest = exchanged.commits.entry(proc.clone()).or_default();
            *newest = (*commit).max(*newest);
        }
        self.forget_oldest();
    }

    pub(crate) fn note_failed(&mut self, procs: &Participants) {
        let exchanged = self.entry(procs);
        exchanged.has_failed = true;
        exchanged.commits.clear();
        self.forget_oldest();
    }

    fn entry(&mut self, procs: &Participants) -> &mut Exchanged {
        self.last = self.last.saturating_add(1);
        let exchanged = self.sets.entry(procs.clone()).or_default();
        exchanged.noted = self.last;
        exchanged
    }

    fn forget_oldest(&mut self) {
        // A forgotten set exchanges all values once more.
        if self.sets.len() > SETS_MAX
            && let Some(oldest) = self.sets.iter().min_by_key(|(_, exchanged)| exchanged.noted)
        {
            let oldest = oldest.0.clone();
            self.sets.remove(&oldest);
        }
    }

    pub(crate) fn forget_namespace(&mut self, namespace: &Namespace) {
        self.sets.retain(|procs, _| procs.namespaces().all(|named| named != namespace));
    }
}

/// Number of sets whose exchanges are remembered.
const SETS_MAX: usize = 64;
