use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::changes::Changes;
use super::io::{Credentials, PeerId};
use crate::types::{Namespace, ProcId, Rank, Text};

/// Who the host told us about, and who of them is here.
#[derive(Debug, Default)]
pub(super) struct Registry {
    jobs: BTreeMap<Namespace, Job>,
    revision: u64,
    /// The commits of processes announced from now on have larger numbers. Other nodes keep the number of the newest that
    /// they have, and may not learn that a job was registered anew here.
    commit_base: u64,
    ended: Ended,
}

/// Jobs that were here and have ended: nothing more comes of them. The youngest are remembered.
#[derive(Debug, Default)]
struct Ended {
    numbers: BTreeMap<Namespace, u64>,
    by_number: BTreeMap<u64, Namespace>,
    last: u64,
}

impl Ended {
    fn note(&mut self, namespace: Namespace, count_max: usize) {
        self.forget(&namespace);
        self.last = self.last.saturating_add(1);
        self.numbers.insert(namespace.clone(), self.last);
        self.by_number.insert(self.last, namespace);
        while self.by_number.len() > count_max
            && let Some((_, oldest)) = self.by_number.pop_first()
        {
            self.numbers.remove(&oldest);
        }
    }

    fn forget(&mut self, namespace: &Namespace) {
        if let Some(number) = self.numbers.remove(namespace) {
            self.by_number.remove(&number);
        }
    }
}

/// One namespace.
#[derive(Debug, Default)]
pub(super) struct Job {
    /// False while only processes of it were announced.
    pub(super) is_registered: bool,
    /// Made for tools, without the host; goes with the last of them.
    pub(super) is_of_tools: bool,
    pub(super) local_count: Option<u32>,
    pub(super) job_size: Option<u32>,
    pub(super) clients: BTreeMap<u32, Client>,
    /// Whose job it is, as the host said in its description.
    pub(super) user: Option<u32>,
    /// The number of the last connection of its processes that was admitted.
    last_number: u32,
    /// For each rank elsewhere the newest of its commits that is stored here, where its server said so.
    pub(super) stored: Commits,
}

/// A number of a commit for each rank, 0 where none is known: in pages, because there may be very many of them.
#[derive(Debug, Default)]
pub(super) struct Commits(FxHashMap<u32, Box<[u64; COMMITS_PER_PAGE as usize]>>);

const COMMITS_PER_PAGE: u32 = 512;

impl Commits {
    pub(super) fn of(&self, rank: u32) -> u64 {
        let page = self.0.get(&(rank / COMMITS_PER_PAGE));
        page.and_then(|page| page.get(Self::place(rank))).copied().unwrap_or_default()
    }

    /// The ranks of which one is known, in order.
    pub(super) fn ranks(&self) -> impl Iterator<Item = u32> {
        let mut pages: Vec<_> = self.0.iter().collect();
        pages.sort_unstable_by_key(|&(&page, _)| page);
        let commits = pages
            .into_iter()
            .flat_map(|(&page, commits)| commits.iter().zip(page.saturating_mul(COMMITS_PER_PAGE)..=u32::MAX));
        commits.filter(|(commit, _)| **commit != 0).map(|(_, rank)| rank)
    }

    pub(super) fn note(&mut self, rank: u32, commit: u64) {
        let page = self.0.entry(rank / COMMITS_PER_PAGE).or_insert_with(|| Box::new([0; COMMITS_PER_PAGE as usize]));
        if let Some(noted) = page.get_mut(Self::place(rank)) {
            *noted = commit;
        }
    }

    fn place(rank: u32) -> usize {
        usize::try_from(rank % COMMITS_PER_PAGE).unwrap_or(usize::MAX)
    }
}

/// One local process.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) credentials: Credentials,
    pub(super) object: u64,
    /// A tool that the host did not announce.
    pub(super) is_guest: bool,
    /// A guest that the host was asked about, and let in under this name.
    pub(super) is_vouched_for: bool,
    /// As the host said.
    pub(super) pid: Option<u32>,
    /// As the host said.
    pub(super) executable: Option<Text>,
    pub(super) presence: Presence,
    /// Connections that are admitted and have not finalized.
    pub(super) connections: BTreeSet<PeerId>,
    /// What the numbers of its commits begin behind.
    pub(super) commit_base: u64,
    /// How many commits were applied.
    pub(super) commits: u64,
    /// Whether it has had its say: it has committed, be it nothing, or has come to a fence that collects. What it has not
    /// put by then it may never put.
    pub(super) has_spoken: bool,
    /// What its next fence has to carry.
    pub(super) changes: Changes,
}

/// What is known of a local process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// Announced, not seen yet.
    Expected,
    /// At least one connection is admitted and has not finalized.
    Connected,
    /// All connections left in order; may come again.
    Finalized,
    /// The last connection broke.
    Lost,
    /// The host says that it has ended. Kept because a wildcard participant counts it.
    Deregistered,
}

impl Client {
    /// A process that the host announced, not seen yet.
    pub(super) fn expected(credentials: Credentials, object: u64, commit_base: u64) -> Self {
        Self {
            credentials,
            object,
            is_guest: false,
            is_vouched_for: false,
            pid: None,
            executable: None,
            presence: Presence::Expected,
            connections: BTreeSet::new(),
            commit_base,
            commits: 0,
            has_spoken: false,
            changes: Changes::default(),
        }
    }

    /// A tool that it did not announce.
    pub(super) fn guest(credentials: Credentials, commit_base: u64) -> Self {
        Self { is_guest: true, ..Self::expected(credentials, 0, commit_base) }
    }

    /// The number of its last commit; 0: there was none.
    pub(super) const fn last_commit(&self) -> u64 {
        if self.commits == 0 { 0 } else { self.commit_base.saturating_add(self.commits) }
    }
}

impl Presence {
    /// Whether the process can no longer arrive at a collective.
    pub(super) const fn is_gone(self) -> bool {
        matches!(self, Self::Lost | Self::Deregistered)
    }

    /// Whether the process can still commit something.
    pub(super) const fn may_commit(self) -> bool {
        matches!(self, Self::Expected | Self::Connected)
    }
}

/// Who must arrive here for a collective to be locally complete.
#[derive(Debug, Default)]
pub(super) struct Membership {
    pub(super) local: BTreeSet<ProcId>,
    pub(super) remote: Remote,
}

/// Whether a collective has members on other nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Remote {
    #[default]
    None,
    /// The size of a job is not known: only the host can tell.
    Unknown,
    Some,
}

impl Job {
    /// The number of the next admitted connection: from 1, in order. Zero, which no connection has for itself, once all are
    /// used up.
    pub(super) const fn next_connection(&mut self) -> u32 {
        match self.last_number.checked_add(1) {
            Some(next) => {
                self.last_number = next;
                next
            }
            None => 0,
        }
    }

    /// How many of its processes are here, as far as is known.
    pub(super) fn local_count(&self) -> u32 {
        let known = u32::try_from(self.clients.len()).unwrap_or(u32::MAX);
        self.local_count.map_or(known, |announced| announced.max(known))
    }

    /// Whether it is known which processes are local: the job is registered, and all announced clients are.
    pub(super) fn is_defined(&self) -> bool {
        let announced = usize::try_from(self.local_count.unwrap_or(0)).unwrap_or(usize::MAX);
        self.is_registered && self.members().count() >= announced
    }

    /// Its local processes. Guests are none where the host announced processes: nobody of the job waits for them.
    fn members(&self) -> impl Iterator<Item = u32> {
        let has_own = self.clients.values().any(|client| !client.is_guest);
        let members = self.clients.iter().filter(move |(_, client)| !(has_own && client.is_guest));
        members.map(|(&rank, _)| rank)
    }

    /// The users of its processes here, and the one that the host has named. Guests count as for [`Self::members`]: a tool in a
    /// job of the host's does not make that its user's.
    pub(super) fn users(&self) -> BTreeSet<u32> {
        let has_own = self.clients.values().any(|client| !client.is_guest);
        let members = self.clients.values().filter(|client| !(has_own && client.is_guest));
        members.map(|client| client.credentials.uid).chain(self.user).collect()
    }

    fn remote(&self) -> Remote {
        let local_count = self.members().count();
        match self.job_size.map(|size| usize::try_from(size).unwrap_or(usize::MAX)) {
            Some(job_size) if job_size > local_count => Remote::Some,
            Some(_) => Remote::None,
            None if local_count == 0 => Remote::Some,
            None => Remote::Unknown,
        }
    }
}

impl Registry {
    /// Knows nobody yet.
    pub(super) fn new(commit_base: u64) -> Self {
        Self { commit_base, ..Self::default() }
    }

    /// Grows whenever the set of local processes has changed, or one of them has gone.
    pub(super) const fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn touch(&mut self) {
        self.revision = self.revision.saturating_add(1);
    }

    pub(super) fn job(&self, namespace: &Namespace) -> Option<&Job> {
        self.jobs.get(namespace)
    }

    /// The job if the host registered it, not merely processes of it.
    pub(super) fn registered(&self, namespace: &Namespace) -> Option<&Job> {
        self.jobs.get(namespace).filter(|job| job.is_registered)
    }

    pub(super) fn job_mut(&mut self, namespace: &Namespace) -> Option<&mut Job> {
        self.jobs.get_mut(namespace)
    }

    pub(super) fn job_or_insert(&mut self, namespace: &Namespace) -> &mut Job {
        self.ended.forget(namespace);
        self.jobs.entry(namespace.clone()).or_default()
    }

    fn remove(&mut self, namespace: &Namespace) -> Option<Job> {
        let job = self.jobs.remove(namespace)?;
        let last = job.clients.values().map(Client::last_commit).max();
        self.commit_base = self.commit_base.max(last.unwrap_or_default());
        Some(job)
    }

    /// Removes a job that has ended, and remembers its name among so many; not those of tools, which could make it
    /// forget the others.
    pub(super) fn end(&mut self, namespace: &Namespace, ended_max: usize) -> Option<Job> {
        let job = self.remove(namespace)?;
        if !job.is_of_tools {
            self.ended.note(namespace.clone(), ended_max);
        }
        Some(job)
    }

    /// Whether a job was here, has ended, and was not announced anew.
    pub(super) fn has_ended(&self, namespace: &Namespace) -> bool {
        self.ended.numbers.contains_key(namespace)
    }

    pub(super) const fn commit_base(&self) -> u64 {
        self.commit_base
    }

    pub(super) fn client(&self, proc: &ProcId) -> Option<&Client> {
        self.jobs.get(&proc.namespace)?.clients.get(&proc.rank.process()?)
    }

    pub(super) fn client_mut(&mut self, proc: &ProcId) -> Option<&mut Client> {
        self.jobs.get_mut(&proc.namespace)?.clients.get_mut(&proc.rank.process()?)
    }

    pub(super) fn is_gone(&self, proc: &ProcId) -> bool {
        self.client(proc).is_none_or(|client| client.presence.is_gone())
    }

    pub(super) fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.jobs.keys()
    }

    pub(super) fn jobs(&self) -> impl Iterator<Item = (&Namespace, &Job)> {
        self.jobs.iter()
    }

    /// The first of the participants whose job has ended here.
    pub(super) fn ended_among<'a>(&self, procs: &'a [ProcId]) -> Option<&'a ProcId> {
        procs.iter().filter(|_| !self.ended.numbers.is_empty()).find(|entry| self.has_ended(&entry.namespace))
    }

    /// Who takes part here; `None` while a participating namespace is not fully defined: it is registered, and all its
    /// processes here are. Those that have ended may count as nobody here.
    pub(super) fn membership(&self, procs: &[ProcId], ended_is_nobody: bool) -> Option<Membership> {
        let mut members = Membership::default();
        // What is known of a job is looked up once, however many of its processes are listed.
        for (namespace, entries) in ProcId::by_namespace(procs) {
            let job = match self.jobs.get(namespace) {
                None if ended_is_nobody && self.has_ended(namespace) => {
                    // Whether it goes on elsewhere only the host can tell.
                    members.remote = members.remote.max(Remote::Unknown);
                    continue;
                }
                job => job.filter(|job| job.is_defined())?,
            };
            for entry in entries {
                match entry.rank {
                    Rank::Process(rank) if job.clients.contains_key(&rank) => {
                        members.local.insert(entry.clone());
                    }
                    Rank::Process(_) => members.remote = Remote::Some,
                    _ => {
                        let local = job.members().map(|rank| ProcId::new(namespace.clone(), rank));
                        members.local.extend(local);
                    }
                }
                if entry.rank == Rank::Wildcard {
                    members.remote = members.remote.max(job.remote());
                }
            }
        }
        Some(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_with_a_commit_come_in_their_order() {
        let mut commits = Commits::default();
        for rank in [70_000, 3, 512, 511, Rank::PROCESS_MAX, 0] {
            commits.note(rank, 1);
        }
        assert_eq!(commits.ranks().collect::<Vec<_>>(), [0, 3, 511, 512, 70_000, Rank::PROCESS_MAX]);
        assert_eq!([512, 513].map(|rank| commits.of(rank)), [1, 0]);
    }
}
