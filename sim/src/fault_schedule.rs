//! The times of faults. Each kind has its own stream of random numbers, so the others stay the same if one is left out.

use super::faults::Faults;
use super::random::{Random, RandomStream};
use super::setup::Setup;

#[derive(Debug)]
pub(super) struct FaultSchedule {
    /// Kinds that this run knows, each with its stream.
    kinds: Vec<(Faults, Random)>,
    left: u32,
    struck: u32,
}

impl FaultSchedule {
    /// A run has one in three of the requested kinds, so most runs have few and some have many.
    pub(super) fn new(seed: u64, setup: &Setup) -> Self {
        let kinds = setup.faults.iter().filter_map(|kind| {
            let mut random = Random::of(seed, RandomStream::Fault(kind.number()));
            let is_of_canary = setup.canary.is_some_and(|canary| canary.faults().contains(kind));
            (random.one_in(3) || is_of_canary).then_some((kind, random))
        });
        Self { kinds: kinds.collect(), left: setup.faults_max, struck: 0 }
    }

    /// The stream of a kind that this run knows.
    pub(super) fn stream(&mut self, kind: Faults) -> Option<&mut Random> {
        self.kinds.iter_mut().find(|(known, _)| *known == kind).map(|(_, random)| random)
    }

    /// Whether a fault of the kind happens on this occasion.
    pub(super) fn strikes(&mut self, kind: Faults) -> bool {
        self.stream(kind).is_some_and(|random| random.one_in(OCCASIONS)) && self.spend()
    }

    /// One fault happens, if any may happen yet.
    pub(super) fn spend(&mut self) -> bool {
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        self.struck += u32::from(may);
        may
    }

    pub(super) const fn struck(&self) -> u32 {
        self.struck
    }
}

/// The mean number of occasions for one fault of a kind.
const OCCASIONS: u64 = 12;
