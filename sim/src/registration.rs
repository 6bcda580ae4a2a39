//! A host that registers a job with a server only when that server asks for it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::program::Program;
use super::random::{Random, RandomStream};
use super::setup::{JobSetup, Setup, part};

/// A host that registers other jobs with a server only when the server asks to connect to them.
#[derive(Debug)]
pub(super) struct LazyRegistration {
    pub(super) random: Random,
    /// Whether the servers of the second job's processes hear of it late: less than a second after it can be named.
    pub(super) is_late: bool,
    /// Jobs that it has ended: nobody connects to them.
    pub(super) over: BTreeSet<usize>,
}

impl LazyRegistration {
    /// One in four of the small worlds with several jobs has such a host. The jobs are on nodes of their own in half of
    /// them, and they connect.
    pub(super) fn of(seed: u64, setup: &Setup, jobs: &mut [JobSetup], nodes: u32) -> Option<Self> {
        let mut random = Random::of(seed, RandomStream::Registrations);
        if setup.is_large() || jobs.len() < 2 || !random.one_in(4) {
            return None;
        }
        if random.one_in(2) {
            part(jobs, nodes);
        }
        Some(Self { is_late: random.one_in(2), random, over: BTreeSet::new() })
    }

    pub(super) fn plan(&mut self, program: &mut Program, has_group_host: bool) {
        program.connect_jobs(&mut self.random, has_group_host);
    }

    /// The time from its question until a server hears of a job; `None` if it hears with the answer, or later.
    pub(super) fn before_answer(&mut self) -> Option<Duration> {
        self.random.one_in(3).then(|| Duration::from_micros(self.random.between(0, 200)))
    }

    /// How long after the answer, if ever.
    pub(super) fn after_answer(&mut self) -> Option<Duration> {
        match self.random.below(8) {
            0 => None,
            1..=3 => Some(Duration::ZERO),
            _ => Some(Duration::from_micros(self.random.below(REGISTRATION_MAX_US))),
        }
    }
}

/// A job is registered less than a second after the answer to a connect.
pub(super) const REGISTRATION_MAX_US: u64 = 1_000_000;
