//! Pulls of output, kept output without a pull, and the ends of channels.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::index::take_out;
use super::kept_output::KeptOutput;
use super::output_pull::{Collected, OutputPull, SourceChannel};
use super::pull_shares::PullShares;
use super::registry::Registry;
use super::wanted_output::WantedOutput;
use crate::server::interface::{IofOutput, OutputSettings, PeerId, Upcall, UpcallId};
use crate::types::{Namespace, ProcId, Rank};

/// Pulls of output, kept output without a pull, and the ends of channels.
#[derive(Debug, Default)]
pub(crate) struct Forwarding {
    granted: BTreeMap<u64, OutputPull>,
    asked: BTreeMap<UpcallId, AskedPull>,
    /// The output that granted and asked pulls want.
    wanted: WantedOutput,
    /// The output that the granted pulls of each user and group want, without that of spawned jobs and of long lists.
    granted_to: BTreeMap<(u32, u32), WantedOutput>,
    /// Granted pulls by [`OutputPull::index_keys`].
    by_proc: BTreeMap<ProcId, BTreeSet<u64>>,
    shares: PullShares,
    /// Memory of the output that waits for more.
    collected_bytes: usize,
    /// Directives of spawns and of descriptions.
    jobs: BTreeMap<Namespace, DescribedJob>,
    /// Number of the last described job.
    revision: u64,
    kept: KeptOutput,
    /// Sources and channels of registered jobs that have ended.
    ended: BTreeMap<Namespace, BTreeSet<(Rank, u16)>>,
    last: u64,
}

/// Directives for a job's output.
#[derive(Debug, Default)]
struct DescribedJob {
    settings: OutputSettings,
    /// Whether tools that watch its spawner get none of its output.
    refuses_inheritance: bool,
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

impl Forwarding {
    pub(crate) fn len(&self) -> usize {
        let of_pulls = self.granted.len().saturating_add(self.asked.len()).saturating_add(self.wanted.len());
        let ended = self.ended.values().map(BTreeSet::len).sum();
        of_pulls.saturating_add(self.kept.len()).saturating_add(self.jobs.len()).saturating_add(ended)
    }

    /// Drops kept output, settings and ends of a deregistered job, and takes it out of all pulls. A later job of this
    /// name may be another user's.
    pub(crate) fn forget_namespace(&mut self, namespace: &Namespace) {
        self.kept.forget_namespace(namespace);
        self.jobs.remove(namespace);
        self.ended.remove(namespace);
        let is_meant = |pull: &OutputPull| pull.procs.iter().any(|proc| proc.namespace == *namespace);
        let first = ProcId { namespace: namespace.clone(), rank: Rank::Process(0) };
        let of_job = self.by_proc.range(first..).take_while(|(proc, _)| proc.namespace == *namespace);
        let granted: BTreeSet<u64> = of_job.flat_map(|(_, references)| references).copied().collect();
        for reference in granted {
            let Some(mut pull) = self.remove(reference) else { continue };
            pull.forget_job(namespace);
            // The client still ends a pull of its own.
            if !(pull.is_of_spawn && pull.procs.is_empty()) {
                self.insert(reference, pull);
            }
        }
        for AskedPull { pull, followers } in self.asked.values_mut() {
            if is_meant(pull) {
                self.wanted.remove(pull);
                self.shares.remove(pull);
                pull.forget_job(namespace);
                self.wanted.add(pull);
                self.shares.add(pull);
            }
            for FollowingPull { pull, upcall, .. } in followers.iter_mut().filter(|following| is_meant(&following.pull))
            {
                self.shares.remove(pull);
                pull.forget_job(namespace);
                self.shares.add(pull);
                if let Upcall::IofPull(_, request) = upcall {
                    request.procs.retain(|proc| proc.namespace != *namespace);
                }
            }
        }
    }

    /// Remembers whether the channel of this output has ended. Returns whether the output only repeats the end.
    pub(crate) fn repeats_end(&mut self, registry: &Registry, output: &IofOutput) -> bool {
        let IofOutput { source, channel, .. } = output;
        if output.is_end() && registry.registered(&source.namespace).is_some() {
            let ended = self.ended.entry(source.namespace.clone()).or_default();
            return !ended.insert((source.rank, *channel)) && output.bytes.is_empty();
        }
        // The process may have been started again.
        if let Some(ended) = self.ended.get_mut(&source.namespace) {
            ended.remove(&(source.rank, *channel));
        }
        false
    }

    /// The sources and channels that a pull wants and that have ended.
    pub(crate) fn ended(&self, pull: &OutputPull) -> BTreeSet<SourceChannel> {
        let mut ended = BTreeSet::new();
        for proc in &pull.procs {
            let Some(of_job) = self.ended.get(&proc.namespace) else { continue };
            let ranks = match proc.rank {
                Rank::Wildcard => (Rank::Process(0), Rank::Undefined),
                rank => (rank, rank),
            };
            let of_ranks = of_job.range((ranks.0, u16::MIN)..=(ranks.1, u16::MAX));
            let wanted = of_ranks.filter(|(_, channel)| pull.channels & channel != 0);
            ended.extend(wanted.map(|&(rank, channel)| (ProcId { rank, ..proc.clone() }, channel)));
        }
        ended
    }

    /// Drops late output of an earlier job of this name.
    pub(crate) fn begin_job(&mut self, namespace: &Namespace) {
        self.kept.forget_namespace(namespace);
        self.ended.remove(namespace);
    }

    /// Takes directives for a job's output. Those of a later call have precedence.
    pub(crate) fn describe_job(&mut self, registry: &Registry, namespace: &Namespace, settings: OutputSettings) {
        if settings != OutputSettings::default() {
            let known = &mut self.described(registry, namespace).settings;
            *known = settings.or(*known);
        }
    }

    /// Remembers that a job refuses to let tools inherit its output.
    pub(crate) fn refuse_inheritance(&mut self, registry: &Registry, namespace: &Namespace) {
        self.described(registry, namespace).refuses_inheritance = true;
    }

    /// Whether a job refuses to let tools inherit its output.
    pub(crate) fn refuses_inheritance(&self, namespace: &Namespace) -> bool {
        self.jobs.get(namespace).is_some_and(|job| job.refuses_inheritance)
    }

    fn described(&mut self, registry: &Registry, namespace: &Namespace) -> &mut DescribedJob {
        if self.jobs.len() >= DESCRIBED_JOBS_MAX && !self.jobs.contains_key(namespace) {
            self.forget_oldest_elsewhere(registry);
        }
        self.revision = self.revision.saturating_add(1);
        let described = || DescribedJob { revision: self.revision, ..DescribedJob::default() };
        self.jobs.entry(namespace.clone()).or_insert_with(described)
    }

    /// Forgets the directives of the oldest job that is not registered. A job that is spawned here and runs elsewhere
    /// is never deregistered here.
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

    /// The granted pulls.
    pub(crate) fn granted(&self) -> impl Iterator<Item = &OutputPull> {
        self.granted.values()
    }

    /// The pulls of each user and process, granted or not.
    pub(crate) const fn shares(&self) -> &PullShares {
        &self.shares
    }

    /// Whether a granted pull is of this connection.
    pub(crate) fn is_of(&self, reference: u64, peer: PeerId) -> bool {
        self.granted.get(&reference).is_some_and(|pull| pull.peer == Some(peer))
    }

    /// The numbers of the granted pulls that meet a condition.
    pub(crate) fn numbers_of(&self, is_meant: impl Fn(u64, &OutputPull) -> bool) -> Vec<u64> {
        let meant = self.granted.iter().filter(|&(&reference, pull)| is_meant(reference, pull));
        meant.map(|(&reference, _)| reference).collect()
    }

    /// The numbers of the granted pulls that get output of a process in one of these channels. A process that pulls the
    /// output of its job itself does not get it a second time.
    pub(crate) fn takers_of(&self, source: &ProcId, channels: u16) -> Vec<u64> {
        let pull = |reference: u64| self.granted.get(&reference).map(|pull| (reference, pull));
        let everybody = ProcId { rank: Rank::Wildcard, ..source.clone() };
        let found = [source, &everybody].into_iter().filter_map(|proc| self.by_proc.get(proc));
        let found: BTreeSet<u64> = found.flatten().copied().collect();
        let found = found.into_iter().filter_map(pull);
        let takers: Vec<(u64, &OutputPull)> = found.filter(|(_, pull)| pull.wants(source, channels)).collect();
        let pulling: BTreeSet<Option<PeerId>> =
            takers.iter().filter(|(_, pull)| !pull.is_of_spawn).map(|(_, pull)| pull.peer).collect();
        let is_second = |pull: &OutputPull| pull.is_of_spawn && pulling.contains(&pull.peer);
        takers.into_iter().filter(|(_, pull)| !is_second(pull)).map(|(reference, _)| reference).collect()
    }

    /// Whether this pull has inherited a job's output.
    pub(crate) fn has_inherited(&self, job: &Namespace, from: u64) -> bool {
        let of_job = self.by_proc.get(&ProcId { namespace: job.clone(), rank: Rank::Wildcard });
        let mut pulls = of_job.into_iter().flatten().filter_map(|reference| self.granted.get(reference));
        pulls.any(|pull| pull.inherited_from == Some(from))
    }

    /// The most granted pulls of the same connection that get the output of a process that a pull names.
    pub(crate) fn overlapping(&self, pull: &OutputPull) -> usize {
        let is_own = |reference: &&u64| self.granted.get(reference).is_some_and(|other| other.peer == pull.peer);
        let count = |proc: &ProcId| self.by_proc.get(proc).map_or(0, |pulls| pulls.iter().filter(is_own).count());
        pull.index_keys().iter().map(count).max().unwrap_or_default()
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
        self.wanted.add(&pull);
        self.shares.add(&pull);
        self.asked.insert(upcall, AskedPull { pull, followers: VecDeque::new() });
    }

    /// Lets a pull wait for the answer to another that includes it.
    ///
    /// # Errors
    /// The pull, if there is none among the first of its user.
    pub(crate) fn follow(&mut self, following: FollowingPull) -> Result<(), Box<FollowingPull>> {
        let wanted = &following.pull;
        let of_user = self.asked.values_mut().filter(|asked| asked.pull.is_of_user_of(wanted));
        match of_user.take(PULLS_COMPARED_MAX).find(|asked| asked.pull.includes(wanted)) {
            Some(asked) => {
                self.shares.add(wanted);
                asked.followers.push_back(following);
                Ok(())
            }
            None => Err(Box::new(following)),
        }
    }

    /// Takes a pull that the host has answered.
    pub(crate) fn take_asked(&mut self, upcall: UpcallId) -> Option<AskedPull> {
        let asked = self.asked.remove(&upcall)?;
        self.wanted.remove(&asked.pull);
        self.shares.remove(&asked.pull);
        asked.followers.iter().for_each(|following| self.shares.remove(&following.pull));
        Some(asked)
    }

    /// Forgets pulls that wait for the answer to another.
    pub(crate) fn forget_followers(&mut self, is_over: impl Fn(&FollowingPull) -> bool) {
        for asked in self.asked.values_mut() {
            asked.followers.retain(|following| {
                let is_over = is_over(following);
                if is_over {
                    self.shares.remove(&following.pull);
                }
                !is_over
            });
        }
    }

    /// Adds a granted pull to indices and counts.
    fn index(&mut self, reference: u64, pull: &OutputPull) {
        self.wanted.add(pull);
        self.shares.add(pull);
        for proc in pull.index_keys() {
            self.by_proc.entry(proc).or_default().insert(reference);
        }
        if pull.is_compared() {
            self.granted_to.entry(pull.owner()).or_default().add(pull);
        }
    }

    pub(crate) fn insert(&mut self, reference: u64, pull: OutputPull) {
        self.index(reference, &pull);
        self.collected_bytes = self.collected_bytes.saturating_add(pull.collected.size_bytes());
        self.granted.insert(reference, pull);
    }

    /// Takes out a granted pull.
    pub(crate) fn remove(&mut self, reference: u64) -> Option<OutputPull> {
        let pull = self.granted.remove(&reference)?;
        self.collected_bytes = self.collected_bytes.saturating_sub(pull.collected.size_bytes());
        self.wanted.remove(&pull);
        self.shares.remove(&pull);
        pull.index_keys().iter().for_each(|proc| take_out(&mut self.by_proc, proc, &reference));
        self.forget_granted(&pull);
        Some(pull)
    }

    fn forget_granted(&mut self, pull: &OutputPull) {
        if !pull.is_compared() {
            return;
        }
        let Some(granted) = self.granted_to.get_mut(&pull.owner()) else { return };
        granted.remove(pull);
        if granted.len() == 0 {
            self.granted_to.remove(&pull.owner());
        }
    }

    /// The part of an ended pull that no other pull wants.
    pub(crate) fn without_wanted(&self, mut pull: OutputPull) -> OutputPull {
        pull.procs.retain(|proc| !self.wanted.has_any(proc, pull.channels));
        pull
    }

    /// Whether the host already forwards all of this for the same user. Long lists are only compared as a whole, with
    /// the pulls of the same connection: otherwise the host is asked.
    pub(crate) fn has_granted(&self, wanted: &OutputPull) -> bool {
        if wanted.has_long_list() {
            let is_alike = |pull: &&OutputPull| pull.peer == wanted.peer && pull.procs.len() == wanted.procs.len();
            return self.granted.values().filter(is_alike).take(LISTS_COMPARED_MAX).any(|pull| pull.includes(wanted));
        }
        self.granted_to.get(&wanted.owner()).is_some_and(|granted| granted.covers(wanted))
    }

    /// Checks that indices and counts agree with the pulls.
    pub(crate) fn assert_consistent(&self) {
        let mut built = Self::default();
        for AskedPull { pull, followers } in self.asked.values() {
            built.wanted.add(pull);
            built.shares.add(pull);
            followers.iter().for_each(|following| built.shares.add(&following.pull));
        }
        for (&reference, pull) in &self.granted {
            built.index(reference, pull);
        }
        assert_eq!(built.wanted, self.wanted, "wanted output is that of the pulls");
        assert_eq!(built.granted_to, self.granted_to, "the output of each user is that of the granted pulls");
        assert_eq!(built.by_proc, self.by_proc, "output finds each granted pull");
        assert_eq!(built.shares, self.shares, "each pull counts");
    }

    /// Keeps output if there is room. Returns whether any of it is kept.
    pub(crate) fn keep(
        &mut self,
        registry: &Registry,
        output: IofOutput,
        of_server: OutputSettings,
        kept_bytes_max: usize,
    ) -> bool {
        let job = &output.source.namespace;
        let settings = self.settings(job, OutputSettings::default(), of_server);
        let user = registry.job(job).and_then(|job| job.users().first().copied());
        self.kept.keep(output, user, &settings, kept_bytes_max)
    }

    /// Takes the kept output that a pull wants.
    pub(crate) fn take_kept(&mut self, pull: &OutputPull, of_server: OutputSettings) -> Vec<IofOutput> {
        let mut kept = std::mem::take(&mut self.kept);
        let taken = kept.take(pull, |job| self.settings(job, pull.settings, of_server));
        self.kept = kept;
        taken
    }
}

/// Long lists of processes that one request is compared with.
const LISTS_COMPARED_MAX: usize = 16;

/// Asked pulls of a user that a pull is compared with.
const PULLS_COMPARED_MAX: usize = 16;

/// Jobs with directives for their output. Registered jobs may be more.
const DESCRIBED_JOBS_MAX: usize = 4096;
