//! The only source of chance: one generator for each concern, all from the seed of the run.

use oorandom::Rand64;

/// The concern of a generator. Each concern has its own stream, so leaving one out does not change the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RandomStream {
    /// The size of a drawn world, and its faults.
    Shape,
    /// The program of the jobs.
    Program,
    /// Invitations to groups, and their answers.
    Invitations,
    /// Whether the host forms groups, and the program where it does not.
    Groups,
    /// Members that leave a group while others end it.
    Leavers,
    /// The servers that the host tells of a job, and the time.
    Registrations,
    /// The scheduler, and the requests for it.
    Allocations,
    /// Pulls of output, and the output.
    Output,
    /// The choices of one process within the program.
    Process(u32),
    /// The duration of everything.
    Network,
    /// The time and the victims of the faults of a kind.
    Fault(u32),
    /// The sample that a large run checks.
    Sample,
    /// The place of a planted defect.
    Canary,
}

/// A seeded generator.
#[derive(Clone, Debug)]
pub(super) struct Random(Rand64);

impl Random {
    pub(super) fn of(seed: u64, stream: RandomStream) -> Self {
        let number: u128 = match stream {
            RandomStream::Program => 1,
            RandomStream::Network => 2,
            RandomStream::Sample => 3,
            RandomStream::Canary => 4,
            RandomStream::Invitations => 5,
            RandomStream::Groups => 6,
            RandomStream::Leavers => 7,
            RandomStream::Registrations => 8,
            RandomStream::Shape => 9,
            RandomStream::Allocations => 10,
            RandomStream::Output => 11,
            RandomStream::Fault(kind) => (1 << 32) | u128::from(kind),
            RandomStream::Process(process) => (1 << 64) | u128::from(process),
        };
        Self(Rand64::new_inc(u128::from(seed) | (number << 64), number))
    }

    /// A number below `bound`; zero if that is zero.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0.rand_range(0..bound.max(1))
    }

    /// As [`Random::below`], for numbers of processes and nodes.
    pub(super) fn below_u32(&mut self, bound: u32) -> u32 {
        u32::try_from(self.below(u64::from(bound))).unwrap_or(0)
    }

    /// True once in `times` calls on average.
    pub(super) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub(super) fn between(&mut self, least: u64, most: u64) -> u64 {
        least.saturating_add(self.below(most.saturating_sub(least).saturating_add(1)))
    }

    pub(super) fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        let place = self.below(u64::try_from(choices.len()).unwrap_or(u64::MAX));
        choices.get(usize::try_from(place).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_one_seed_differ_and_repeat() {
        let draw = |seed, stream| {
            let mut random = Random::of(seed, stream);
            [random.below(u64::MAX), random.below(u64::MAX)]
        };
        assert_eq!(draw(7, RandomStream::Network), draw(7, RandomStream::Network));
        assert_ne!(draw(7, RandomStream::Network), draw(8, RandomStream::Network));
        assert_ne!(draw(7, RandomStream::Network), draw(7, RandomStream::Program));
        assert_ne!(draw(7, RandomStream::Process(0)), draw(7, RandomStream::Process(1)));
    }
}
