//! Pulls of output, and kept output without a pull.

use std::collections::{BTreeMap, VecDeque};

use super::kept_output::KeptOutput;
use super::output_pull::{Collected, OutputPull, PROCS_COMPARED_MAX};
use super::registry::Registry;
use crate::server::interface::{IofOutput, OutputSettings, PeerId, Upcall, UpcallId};
use crate::types::{Namespace, ProcId, Rank};

/// Pulls of output, and kept output without a pull.
#[derive(Debug, Default)]
pub(crate) struct Forwarding {
    granted: BTreeMap<u64, OutputPull>,
    asked: BTreeMap<UpcallId, AskedPull>,
    wanted: BTreeMap<Namespace, WantedOutput>,
    /// Memory of the output that waits for more.
    collected_bytes: usize,
    /// Directives of spawns and of descriptions.
    jobs: BTreeMap<Namespace, DescribedJob>,
    /// Number of the last described job.
    revision: u64,
    kept: KeptOutput,
    last: u64,
}

/// Directives for a job's output.
#[derive(Debug, Default)]
struct DescribedJob {
    settings: OutputSettings,
    /// Grows from job to job.
    revision: u64,
}

/// A pull that the host has to allow.
#[derive(Debug)]
pub(crate) struct AskedPull {
    pub(crate) pull: OutputPull,
    /// Pulls of the same or less, which wait for the same answer.
    pub(crate) followers: VecDeque<FollowingPull>,
}

/// A pull that waits for the answer to another.
#[derive(Debug)]
pub(crate) struct FollowingPull {
    /// The number of its own request to the host, in case the other is refused.
    pub(crate) id: UpcallId,
    pub(crate) upcall: Upcall,
    pub(crate) pull: OutputPull,
}

/// Number of pulls for a job's output.
#[derive(Debug, Default)]
struct WantedOutput {
    of_any: Counts,
    of_rank: BTreeMap<Rank, Counts>,
}

/// Number of pulls for each channel, by the number of its bit.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts([usize; u16::BITS as usize]);

impl Forwarding {
    pub(crate) fn len(&self) -> usize {
        let of_pulls = self.granted.len().saturating_add(self.asked.len()).saturating_add(self.wanted.len());
        of_pulls.saturating_add(self.kept.len()).saturating_add(self.jobs.len())
    }

    /// Drops kept output and settings of a deregistered job.
    pub(crate) fn forget_namespace(&mut self, namespace: &Namespace) {
        self.kept.forget_namespace(namespace);
        self.jobs.remove(namespace);
    }

    /// Takes directives for a job's output. Those of a later call have precedence.
    pub(crate) fn describe_job(&mut self, registry: &Registry, namespace: &Namespace, settings: OutputSettings) {
        if settings == OutputSettings::default() {
            return;
        }
        if self.jobs.len() >= DESCRIBED_JOBS_MAX && !self.jobs.contains_key(namespace) {
            self.forget_oldest_elsewhere(registry);
        }
        self.revision = self.revision.saturating_add(1);
        let described = || DescribedJob { revision: self.revision, ..DescribedJob::default() };
        let known = &mut self.jobs.entry(namespace.clone()).or_insert_with(described).settings;
        *known = settings.or(*known);
    }

    /// Forgets the directives of the oldest job that is not registered. A job that is spawned here and runs elsewhere is
    /// never deregistered here.
    fn forget_oldest_elsewhere(&mut self, registry: &Registry) {
        let elsewhere = self.jobs.iter().filter(|(name, _)| registry.registered(name).is_none());
        let oldest = elsewhere.min_by_key(|(_, job)| job.revision).map(|(name, _)| name.clone());
        if let Some(oldest) = oldest {
            self.jobs.remove(&oldest);
        }
    }

    /// The settings for a job's output: those of a pull, else those of the job, else those of the server.
    pub(crate) fn settings(
        &self,
        job: &Namespace,
        of_pull: OutputSettings,
        of_server: OutputSettings,
    ) -> OutputSettings {
        of_pull.or(self.jobs.get(job).map_or_else(OutputSettings::default, |job| job.settings)).or(of_server)
    }

    /// A number for the next granted pull.
    pub(crate) const fn next_reference(&mut self) -> u64 {
        self.last = self.last.saturating_add(1);
        self.last
    }

    /// The granted pulls, and those that wait for the host.
    pub(crate) fn pulls(&self) -> impl Iterator<Item = &OutputPull> {
        let following = self.asked.values().flat_map(|asked| &asked.followers).map(|following| &following.pull);
        self.granted.values().chain(self.asked.values().map(|asked| &asked.pull)).chain(following)
    }

    /// Whether a granted pull is of this connection.
    pub(crate) fn is_of(&self, reference: u64, peer: PeerId) -> bool {
        self.granted.get(&reference).is_some_and(|pull| pull.peer == peer)
    }

    /// The numbers of the granted pulls that meet a condition.
    pub(crate) fn numbers_of(&self, is_meant: impl Fn(&OutputPull) -> bool) -> Vec<u64> {
        self.granted.iter().filter(|(_, pull)| is_meant(pull)).map(|(&reference, _)| reference).collect()
    }

    /// The numbers of the granted pulls that get a piece of output. A process that pulls the output of its job itself does
    /// not get it a second time.
    pub(crate) fn takers_of(&self, output: &IofOutput) -> Vec<u64> {
        let wants = |pull: &&OutputPull| pull.wants(&output.source, output.channel);
        let pulls_itself =
            |peer| self.granted.values().filter(wants).any(|pull| !pull.is_of_spawn && pull.peer == peer);
        self.numbers_of(|pull| wants(&pull) && !(pull.is_of_spawn && pulls_itself(pull.peer)))
    }

    pub(crate) fn pull(&self, reference: u64) -> Option<&OutputPull> {
        self.granted.get(&reference)
    }

    /// Changes the output that a pull waits with.
    pub(crate) fn change_collected<T>(
        &mut self,
        reference: u64,
        change: impl FnOnce(&mut Collected) -> T,
    ) -> Option<T> {
        let collected = &mut self.granted.get_mut(&reference)?.collected;
        let rest = self.collected_bytes.saturating_sub(collected.size_bytes());
        let result = change(collected);
        self.collected_bytes = rest.saturating_add(collected.size_bytes());
        Some(result)
    }

    pub(crate) const fn collected_bytes(&self) -> usize {
        self.collected_bytes
    }

    /// Remembers a pull that the host has to allow.
    pub(crate) fn ask(&mut self, upcall: UpcallId, pull: OutputPull) {
        self.want_more(&pull);
        self.asked.insert(upcall, AskedPull { pull, followers: VecDeque::new() });
    }

    /// The request to the host whose answer holds for this pull, too.
    pub(crate) fn asked_like(&mut self, wanted: &OutputPull) -> Option<&mut AskedPull> {
        self.asked.values_mut().find(|asked| asked.pull.is_of_user_of(wanted) && asked.pull.includes(wanted))
    }

    /// Takes a pull that the host has answered.
    pub(crate) fn take_asked(&mut self, upcall: UpcallId) -> Option<AskedPull> {
        let asked = self.asked.remove(&upcall)?;
        self.want_less_of(&asked.pull);
        Some(asked)
    }

    /// Forgets pulls that wait for the answer to another.
    pub(crate) fn forget_followers(&mut self, is_over: impl Fn(&FollowingPull) -> bool) {
        self.asked.values_mut().for_each(|asked| asked.followers.retain(|following| !is_over(following)));
    }

    pub(crate) fn insert(&mut self, reference: u64, pull: OutputPull) {
        self.want_more(&pull);
        self.granted.insert(reference, pull);
    }

    fn want_more(&mut self, pull: &OutputPull) {
        for proc in &pull.procs {
            let wanted = self.wanted.entry(proc.namespace.clone()).or_default();
            wanted.of_any.change(pull.channels, 1);
            wanted.of_rank.entry(proc.rank).or_default().change(pull.channels, 1);
        }
    }

    pub(crate) fn extract(&mut self, is_over: impl Fn(u64, &OutputPull) -> bool) -> Vec<(u64, OutputPull)> {
        let over: Vec<(u64, OutputPull)> = self.granted.extract_if(.., |&id, pull| is_over(id, pull)).collect();
        for (_, pull) in &over {
            self.collected_bytes = self.collected_bytes.saturating_sub(pull.collected.size_bytes());
            self.want_less_of(pull);
        }
        over
    }

    fn want_less_of(&mut self, pull: &OutputPull) {
        pull.procs.iter().for_each(|proc| self.want_less(proc, pull.channels));
    }

    fn want_less(&mut self, proc: &ProcId, channels: u16) {
        let Some(wanted) = self.wanted.get_mut(&proc.namespace) else { return };
        wanted.of_any.change(channels, -1);
        if let Some(counts) = wanted.of_rank.get_mut(&proc.rank) {
            counts.change(channels, -1);
            if *counts == Counts::default() {
                wanted.of_rank.remove(&proc.rank);
            }
        }
        if wanted.of_rank.is_empty() {
            self.wanted.remove(&proc.namespace);
        }
    }

    /// The part of an ended pull that no other pull wants.
    pub(crate) fn without_wanted(&self, mut pull: OutputPull) -> OutputPull {
        pull.procs.retain(|proc| !self.is_wanted(proc, pull.channels));
        pull
    }

    /// Whether any pull wants one of these channels of a process. A wildcard rank means any process of the job.
    fn is_wanted(&self, proc: &ProcId, channels: u16) -> bool {
        let Some(WantedOutput { of_any, of_rank }) = self.wanted.get(&proc.namespace) else { return false };
        let has = |rank: Rank| of_rank.get(&rank).is_some_and(|counts| counts.has(channels));
        if proc.rank == Rank::Wildcard { of_any.has(channels) } else { has(proc.rank) || has(Rank::Wildcard) }
    }

    /// Whether the host already forwards all of this for the same user. Long lists are only compared as a whole, with the
    /// pulls of the same connection: otherwise the host is asked.
    pub(crate) fn has_granted(&self, wanted: &OutputPull) -> bool {
        if wanted.procs.len() > PROCS_COMPARED_MAX {
            let is_alike = |pull: &&OutputPull| pull.peer == wanted.peer && pull.procs.len() == wanted.procs.len();
            return self.granted.values().filter(is_alike).take(LISTS_COMPARED_MAX).any(|pull| pull.includes(wanted));
        }
        let channels = (0..u16::BITS).map(|bit| 1 << bit).filter(|channel| wanted.channels & channel != 0);
        let is_alike = |pull: &&OutputPull| !pull.is_of_spawn && pull.is_of_user_of(wanted);
        let pulls: Vec<&OutputPull> = self.granted.values().filter(is_alike).collect();
        channels
            .into_iter()
            .all(|channel| wanted.procs.iter().all(|proc| pulls.iter().any(|pull| pull.wants(proc, channel))))
    }

    /// Keeps output if there is room. Returns whether any of it is kept.
    pub(crate) fn keep(&mut self, output: IofOutput, of_server: OutputSettings, kept_bytes_max: usize) -> bool {
        let settings = self.settings(&output.source.namespace, OutputSettings::default(), of_server);
        self.kept.keep(output, &settings, kept_bytes_max)
    }

    /// Takes the kept output that a pull wants.
    pub(crate) fn take_kept(&mut self, pull: &OutputPull, of_server: OutputSettings) -> Vec<IofOutput> {
        let mut kept = std::mem::take(&mut self.kept);
        let taken = kept.take(pull, |job| self.settings(job, pull.settings, of_server));
        self.kept = kept;
        taken
    }
}

impl Counts {
    fn change(&mut self, channels: u16, by: isize) {
        for count in self.of(channels) {
            *count = count.saturating_add_signed(by);
        }
    }

    fn of(&mut self, channels: u16) -> impl Iterator<Item = &mut usize> {
        self.0.iter_mut().enumerate().filter(move |(bit, _)| channels & (1 << bit) != 0).map(|(_, count)| count)
    }

    fn has(&self, channels: u16) -> bool {
        self.0.iter().enumerate().any(|(bit, &count)| channels & (1 << bit) != 0 && count > 0)
    }
}

/// Long lists of processes that one request is compared with.
const LISTS_COMPARED_MAX: usize = 16;

/// Jobs with directives for their output. Registered jobs may be more.
const DESCRIBED_JOBS_MAX: usize = 4096;
