//! Announced jobs and processes, and their presence.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use rustc_hash::FxHashMap;

use super::client::RegisteredClient;
use crate::types::{Namespace, ProcId, Rank};

/// The processes that the host announced, and their presence.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    jobs: BTreeMap<Namespace, RegisteredJob>,
    revision: u64,
    /// Newly announced processes number their commits above this. Other nodes keep the newest number that they have,
    /// and may not learn that a job was registered again here.
    commit_base: u64,
    ended: Ended,
}

/// Jobs that have ended here; no more data comes of them. Only the newest are remembered.
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
pub(crate) struct RegisteredJob {
    is_registered: bool,
    is_of_tools: bool,
    local_count: Option<u32>,
    job_size: Option<u32>,
    clients: BTreeMap<u32, RegisteredClient>,
    /// The result of [`Self::users`], until the processes change.
    known_users: KnownUsers,
    /// The user of the job, from the host's description.
    user: Option<u32>,
    /// The number of the last admitted connection of its processes.
    last_number: u32,
    stored: Commits,
}

/// The users of a job. They are asked for with each permission, and a job may have very many processes.
#[derive(Default)]
struct KnownUsers(OnceCell<BTreeSet<u32>>);

/// The state of a core is compared by this text, and this is no part of it.
impl fmt::Debug for KnownUsers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("KnownUsers")
    }
}

/// A commit number for each rank, 0 if unknown. In pages, because there may be very many ranks.
#[derive(Debug, Default)]
pub(crate) struct Commits(FxHashMap<u32, Box<[u64; COMMITS_PER_PAGE as usize]>>);

const COMMITS_PER_PAGE: u32 = 512;

impl Commits {
    pub(crate) fn of(&self, rank: u32) -> u64 {
        let page = self.0.get(&(rank / COMMITS_PER_PAGE));
        page.and_then(|page| page.get(Self::place(rank))).copied().unwrap_or_default()
    }

    /// The ranks with a known number, in order.
    pub(crate) fn ranks(&self) -> impl Iterator<Item = u32> {
        let mut pages: Vec<_> = self.0.iter().collect();
        pages.sort_unstable_by_key(|&(&page, _)| page);
        let commits = pages
            .into_iter()
            .flat_map(|(&page, commits)| commits.iter().zip(page.saturating_mul(COMMITS_PER_PAGE)..=u32::MAX));
        commits.filter(|(commit, _)| **commit != 0).map(|(_, rank)| rank)
    }

    pub(crate) fn note(&mut self, rank: u32, commit: u64) {
        let page = self.0.entry(rank / COMMITS_PER_PAGE).or_insert_with(|| Box::new([0; COMMITS_PER_PAGE as usize]));
        if let Some(noted) = page.get_mut(Self::place(rank)) {
            *noted = commit;
        }
    }

    fn place(rank: u32) -> usize {
        usize::try_from(rank % COMMITS_PER_PAGE).unwrap_or(usize::MAX)
    }
}

/// The local participants of a collective, and whether there are remote ones.
#[derive(Debug, Default)]
pub(crate) struct Membership {
    pub(crate) local: BTreeSet<ProcId>,
    pub(crate) remote: Remote,
}

/// Whether a collective has members on other nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Remote {
    #[default]
    None,
    /// The size of a job is unknown: only the host can decide.
    Unknown,
    Some,
}

impl RegisteredJob {
    /// The host describes it, perhaps again: missing facts stay. Returns whether it is new.
    pub(crate) fn describe(&mut self, local_count: Option<u32>, job_size: Option<u32>, user: Option<u32>) -> bool {
        if std::mem::take(&mut self.is_of_tools) {
            self.job_size = None;
        }
        self.local_count = local_count.or(self.local_count);
        self.job_size = job_size.or(self.job_size);
        self.user = user.or(self.user);
        self.known_users = KnownUsers::default();
        !std::mem::replace(&mut self.is_registered, true)
    }

    /// Makes it for tools, unless the host registered it. A lone tool is its only process.
    pub(crate) fn describe_for_tools(&mut self, is_lone: bool) {
        if !self.is_registered {
            (self.is_registered, self.is_of_tools) = (true, true);
        }
        if self.is_of_tools {
            self.job_size = is_lone.then_some(1);
        }
    }

    /// Whether it is described. False while only processes of it were announced.
    pub(crate) const fn is_registered(&self) -> bool {
        self.is_registered
    }

    /// Whether it was made for tools, without the host. It is removed with the last tool.
    pub(crate) const fn is_of_tools(&self) -> bool {
        self.is_of_tools
    }

    /// Number of its processes on all nodes, if it is known.
    pub(crate) const fn job_size(&self) -> Option<u32> {
        self.job_size
    }

    /// Its local processes, by rank.
    pub(crate) const fn clients(&self) -> &BTreeMap<u32, RegisteredClient> {
        &self.clients
    }

    /// Enters a process if there is none of this rank.
    pub(crate) fn client_or_insert(
        &mut self,
        rank: u32,
        new: impl FnOnce() -> RegisteredClient,
    ) -> &mut RegisteredClient {
        self.known_users = KnownUsers::default();
        self.clients.entry(rank).or_insert_with(new)
    }

    /// Removes a guest without connections. Returns whether there was one.
    pub(crate) fn remove_guest(&mut self, rank: u32) -> bool {
        let is_gone = |client: &RegisteredClient| client.is_guest() && client.connections().is_empty();
        self.known_users = KnownUsers::default();
        self.clients.get(&rank).is_some_and(is_gone) && self.clients.remove(&rank).is_some()
    }

    /// For each remote rank its newest stored commit, if its server sent the number.
    pub(crate) const fn stored(&self) -> &Commits {
        &self.stored
    }

    pub(crate) const fn stored_mut(&mut self) -> &mut Commits {
        &mut self.stored
    }

    /// The number of the next admitted connection: from 1, in order. Zero, which several connections may share, once
    /// all numbers are used up.
    pub(crate) const fn next_connection(&mut self) -> u32 {
        match self.last_number.checked_add(1) {
            Some(next) => {
                self.last_number = next;
                next
            }
            None => 0,
        }
    }

    /// The known number of its local processes.
    pub(crate) fn local_count(&self) -> u32 {
        let known = u32::try_from(self.clients.len()).unwrap_or(u32::MAX);
        self.local_count.map_or(known, |announced| announced.max(known))
    }

    /// Whether the set of local processes is known: the job is registered, and so are all announced clients.
    pub(crate) fn is_defined(&self) -> bool {
        let announced = usize::try_from(self.local_count.unwrap_or(0)).unwrap_or(usize::MAX);
        self.is_registered && self.members().count() >= announced
    }

    /// Its local processes. Guests do not count if the host announced processes: no process of the job waits for them.
    fn members(&self) -> impl Iterator<Item = u32> {
        let has_own = self.clients.values().any(|client| !client.is_guest());
        let members = self.clients.iter().filter(move |(_, client)| !(has_own && client.is_guest()));
        members.map(|(&rank, _)| rank)
    }

    /// The local processes in a sorted list of its processes, each once. The shorter of both lists is walked through.
    fn among(&self, named: &[ProcId]) -> Vec<ProcId> {
        let is_here = |entry: &&ProcId| entry.rank.process().is_some_and(|rank| self.clients.contains_key(&rank));
        if named.len() <= self.clients.len() {
            return named.iter().filter(is_here).cloned().collect();
        }
        let entry = |rank: &u32| {
            let place = named.binary_search_by_key(&Rank::Process(*rank), |entry| entry.rank);
            place.ok().and_then(|place| named.get(place))
        };
        self.clients.keys().filter_map(entry).cloned().collect()
    }

    /// The users of its local processes, and the user that the host named. Guests count as for [`Self::members`]: a
    /// tool in a job of the host does not make its user an owner.
    pub(crate) fn users(&self) -> &BTreeSet<u32> {
        self.known_users.0.get_or_init(|| {
            let has_own = self.clients.values().any(|client| !client.is_guest());
            let members = self.clients.values().filter(|client| !(has_own && client.is_guest()));
            members.map(|client| client.credentials().uid).chain(self.user).collect()
        })
    }

    /// Whether processes of the job live on other nodes.
    pub(crate) fn remote(&self) -> Remote {
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
    /// An empty registry.
    pub(crate) fn new(commit_base: u64) -> Self {
        Self { commit_base, ..Self::default() }
    }

    /// Grows with every change of the set of local processes, and with every end of one.
    pub(crate) const fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn touch(&mut self) {
        self.revision = self.revision.saturating_add(1);
    }

    pub(crate) fn job(&self, namespace: &Namespace) -> Option<&RegisteredJob> {
        self.jobs.get(namespace)
    }

    /// The job if the host registered it, not only processes of it.
    pub(crate) fn registered(&self, namespace: &Namespace) -> Option<&RegisteredJob> {
        self.jobs.get(namespace).filter(|job| job.is_registered)
    }

    pub(crate) fn job_mut(&mut self, namespace: &Namespace) -> Option<&mut RegisteredJob> {
        self.jobs.get_mut(namespace)
    }

    pub(crate) fn job_or_insert(&mut self, namespace: &Namespace) -> &mut RegisteredJob {
        self.ended.forget(namespace);
        self.jobs.entry(namespace.clone()).or_default()
    }

    fn remove(&mut self, namespace: &Namespace) -> Option<RegisteredJob> {
        let job = self.jobs.remove(namespace)?;
        let last = job.clients.values().map(RegisteredClient::last_commit).max();
        self.commit_base = self.commit_base.max(last.unwrap_or_default());
        Some(job)
    }

    /// Removes an ended job, and remembers its name among the last `ended_max`. Jobs of tools are not remembered,
    /// because they could displace the others.
    pub(crate) fn end(&mut self, namespace: &Namespace, ended_max: usize) -> Option<RegisteredJob> {
        let job = self.remove(namespace)?;
        if !job.is_of_tools {
            self.ended.note(namespace.clone(), ended_max);
        }
        Some(job)
    }

    /// Whether a job has ended here and was not announced again.
    pub(crate) fn has_ended(&self, namespace: &Namespace) -> bool {
        self.ended.numbers.contains_key(namespace)
    }

    pub(crate) const fn commit_base(&self) -> u64 {
        self.commit_base
    }

    pub(crate) fn client(&self, proc: &ProcId) -> Option<&RegisteredClient> {
        self.jobs.get(&proc.namespace)?.clients.get(&proc.rank.process()?)
    }

    pub(crate) fn client_mut(&mut self, proc: &ProcId) -> Option<&mut RegisteredClient> {
        self.jobs.get_mut(&proc.namespace)?.clients.get_mut(&proc.rank.process()?)
    }

    pub(crate) fn is_gone(&self, proc: &ProcId) -> bool {
        self.client(proc).is_none_or(|client| client.presence().is_gone())
    }

    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.jobs.keys()
    }

    pub(crate) fn jobs(&self) -> impl Iterator<Item = (&Namespace, &RegisteredJob)> {
        self.jobs.iter()
    }

    /// The first participant whose job has ended here.
    pub(crate) fn ended_among<'a>(&self, procs: &'a [ProcId]) -> Option<&'a ProcId> {
        procs.iter().filter(|_| !self.ended.numbers.is_empty()).find(|entry| self.has_ended(&entry.namespace))
    }

    /// The local participants in a sorted list; `None` while a participating namespace is not fully defined: it must be
    /// registered with all its local processes. With `ended_is_nobody`, an ended job has no local participants.
    pub(crate) fn membership(&self, procs: &[ProcId], ended_is_nobody: bool) -> Option<Membership> {
        let (mut local, mut remote) = (Vec::new(), Remote::None);
        // Each job is looked up once, however many of its processes are listed.
        for (namespace, entries) in ProcId::by_namespace_sorted(procs) {
            let job = match self.jobs.get(namespace) {
                None if ended_is_nobody && self.has_ended(namespace) => {
                    // Only the host knows whether it goes on elsewhere.
                    remote = remote.max(Remote::Unknown);
                    continue;
                }
                job => job.filter(|job| job.is_defined())?,
            };
            let (named, sets) = entries.split_at(entries.partition_point(|entry| entry.rank.process().is_some()));
            let local_before = local.len();
            local.extend(job.among(named));
            if local.len().saturating_sub(local_before) < named.len() {
                remote = Remote::Some;
            }
            for set in sets {
                local.extend(job.members().map(|rank| ProcId::new(namespace.clone(), rank)));
                if set.rank == Rank::Wildcard {
                    remote = remote.max(job.remote());
                }
            }
        }
        // A set that is made of a whole list is faster than one that grows.
        Some(Membership { local: local.into_iter().collect(), remote })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::interface::Credentials;

    #[test]
    fn local_processes_are_found_from_the_shorter_list() {
        let namespace = Namespace::new("job").unwrap();
        let procs = |ranks: &[u32]| ranks.iter().map(|&rank| ProcId::new(namespace.clone(), rank)).collect::<Vec<_>>();
        let mut registry = Registry::new(0);
        let job = registry.job_or_insert(&namespace);
        job.describe(Some(3), Some(100), None);
        for rank in [2, 5, 9] {
            job.client_or_insert(rank, || RegisteredClient::expected(Credentials { uid: 1, gid: 1 }, 0, 0));
        }
        for (named, local) in [(vec![5], vec![5]), (vec![1, 2, 3, 9, 20], vec![2, 9]), (vec![2, 5, 9], vec![2, 5, 9])] {
            let found = registry.membership(&procs(&named), false).unwrap();
            let remote = if local.len() < named.len() { Remote::Some } else { Remote::None };
            assert_eq!((found.local.into_iter().collect(), found.remote), (procs(&local), remote), "{named:?}");
        }
    }

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
