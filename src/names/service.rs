//! The rules of publish, lookup and unpublish.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::directives::{LookupDirectives, PublishDirectives, Range, Wait, unpublish_range};
use super::entries::{Entries, Entry, EntryId, remove_from};
use super::request::{Asker, NameInput, NameRequest, RequestId};
use super::shares::{Account, NameLimits, Payer, Resource};
use crate::proto::{Lookup, Publish, Unpublish};
use crate::server::{HostReply, Requester};
use crate::types::{Key, Pdata, ProcId, Status, Time};

/// Decides whether a process reaches a publisher: the process that asks, and the publisher with its user. Data without
/// permissions of its own can be read by processes that reach the publisher.
pub type Reaches<'a> = &'a dyn Fn(&Asker, &ProcId, u32) -> bool;

/// The published data of a server. See the module's documentation.
#[derive(Debug)]
pub struct Names {
    limits: NameLimits,
    /// The server's own process.
    server: ProcId,
    server_uid: u32,
    entries: Entries,
    waiting: BTreeMap<RequestId, WaitingLookup>,
    /// The lookups to look at when a key is published.
    watchers: BTreeMap<Key, BTreeSet<RequestId>>,
    deadlines: BTreeSet<(Time, RequestId)>,
    /// Lookups to look at again, because one of their keys was published.
    woken: BTreeSet<RequestId>,
    waiting_keys: Resource,
    answers: VecDeque<(RequestId, HostReply)>,
}

/// A lookup that waits.
#[derive(Debug)]
struct WaitingLookup {
    asker: Asker,
    search: Search,
    deadline: Option<Time>,
    watched: Vec<Key>,
}

/// The wanted data of a lookup.
#[derive(Debug)]
struct Search {
    keys: Vec<Key>,
    range: Range,
    /// The number of values that complete a lookup that waits.
    needed: usize,
}

impl Search {
    /// The size of what waits, in keys and listed processes.
    fn units(&self) -> usize {
        self.keys.len().saturating_add(match &self.range {
            Range::Custom(procs) => procs.len(),
            _ => 0,
        })
    }
}

/// The state of a wanted key.
enum Match {
    Found(EntryId),
    /// There is data, but its permissions exclude the requester.
    Denied,
    Missing,
}

impl Names {
    /// Without any data. `server` is the server's own process, and `server_uid` its user.
    #[must_use]
    pub fn new(limits: NameLimits, server: ProcId, server_uid: u32) -> Self {
        Self {
            limits,
            server,
            server_uid,
            entries: Entries::new(&limits),
            waiting: BTreeMap::new(),
            watchers: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            woken: BTreeSet::new(),
            waiting_keys: Resource::new(limits.waiting_keys_max, limits.waiting_keys_per_process_max),
            answers: VecDeque::new(),
        }
    }

    /// Takes one input. `now` never goes back.
    pub fn handle(&mut self, now: Time, input: NameInput, reaches: Reaches<'_>) {
        match input {
            NameInput::Request(id, asker, NameRequest::Publish(request)) => match self.publish(&asker, request) {
                Ok(keys) => {
                    self.answer(id, Status::SUCCESS);
                    self.wake(&keys);
                    self.review_some(reaches);
                }
                Err(status) => self.answer(id, status),
            },
            NameInput::Request(id, asker, NameRequest::Lookup(request)) => {
                if let Err(status) = self.lookup(now, id, asker, request, reaches) {
                    self.answer(id, status);
                }
            }
            NameInput::Request(id, asker, NameRequest::Unpublish(request)) => {
                let status = self.unpublish(&asker, &request).err().unwrap_or(Status::SUCCESS);
                self.answer(id, status);
            }
            NameInput::Cancelled(id) => drop(self.stop_waiting(id)),
            NameInput::ProcessEnded(proc) => self.entries.end_process(&proc),
            NameInput::JobEnded(namespace) => self.entries.end_job(&namespace),
            NameInput::TiesChanged => {
                self.woken.extend(self.waiting.keys());
                self.review_some(reaches);
            }
            NameInput::Timeout => {
                self.expire(now);
                self.review_some(reaches);
            }
        }
    }

    /// The next answer; `None` until the next input.
    #[must_use]
    pub fn poll_answer(&mut self) -> Option<(RequestId, HostReply)> {
        self.answers.pop_front()
    }

    /// When to give [`NameInput::Timeout`]; `None`: no deadline is running. [`Time::ZERO`]: as soon as others had their
    /// turn, because lookups wait to be looked at again.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if !self.woken.is_empty() {
            return Some(Time::ZERO);
        }
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Whether a lookup waits.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Requests that wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> impl Iterator<Item = RequestId> {
        self.waiting.keys().copied()
    }

    fn publish(&mut self, asker: &Asker, request: Publish) -> Result<Vec<Key>, Status> {
        let (directives, data) = PublishDirectives::split(request.info)?;
        if data.is_empty() {
            return Err(Status::ERR_BAD_PARAM);
        }
        if data.len() > self.limits.keys_per_request_max {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        self.entries.add(asker, &self.payer(asker), &directives, data)
    }

    fn lookup(
        &mut self,
        now: Time,
        id: RequestId,
        asker: Asker,
        request: Lookup,
        reaches: Reaches<'_>,
    ) -> Result<(), Status> {
        if request.keys.len() > self.limits.keys_per_request_max {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        let LookupDirectives { range, wait, timeout } = LookupDirectives::read(&request.directives)?;
        let keys = distinct(request.keys);
        if keys.is_empty() {
            return Err(Status::ERR_BAD_PARAM);
        }
        let needed = match wait {
            Wait::No => 0,
            Wait::All => keys.len(),
            Wait::For(count) => count.min(keys.len()),
        };
        let search = Search { keys, range, needed };
        if let Err(missing) = self.try_answer(id, &asker, &search, reaches) {
            let payer = self.payer(&asker);
            if !self.waiting_keys.permits(&payer, search.units()) {
                return Err(Status::ERR_OUT_OF_RESOURCE);
            }
            self.waiting_keys.take(&payer, search.units());
            let deadline = timeout.map(|timeout| now + timeout);
            self.deadlines.extend(deadline.map(|deadline| (deadline, id)));
            self.watch(id, &missing);
            self.waiting.insert(id, WaitingLookup { asker, search, deadline, watched: missing });
        }
        Ok(())
    }

    fn unpublish(&mut self, asker: &Asker, request: &Unpublish) -> Result<(), Status> {
        if request.keys.len() > self.limits.keys_per_request_max {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        let range = unpublish_range(&request.directives)?;
        let uid = asker.requester.uid;
        let keys: BTreeSet<&Key> = request.keys.iter().collect();
        let is_meant = |entry: &Entry| {
            let is_named = keys.is_empty() || keys.contains(&entry.key);
            is_named && entry.uid == uid && range.as_ref().is_none_or(|range| entry.range == *range)
        };
        let own = self.entries.of_publisher(&asker.requester.proc);
        let mut meant: BTreeSet<EntryId> = own.filter(|(_, entry)| is_meant(entry)).map(|(id, _)| id).collect();
        if asker.is_tool {
            // A tool is often a command that ends at once, and another one of its user follows.
            let named = keys.iter().flat_map(|key| self.entries.of_key(key));
            meant.extend(named.filter(|(_, entry)| entry.is_of_tool && is_meant(entry)).map(|(id, _)| id));
        }
        if meant.is_empty() && !keys.is_empty() {
            return Err(Status::ERR_NOT_FOUND);
        }
        meant.into_iter().for_each(|id| self.entries.remove(id));
        Ok(())
    }

    /// Notes the lookups that wait for these keys.
    fn wake(&mut self, keys: &[Key]) {
        self.woken.extend(keys.iter().filter_map(|key| self.watchers.get(key)).flatten());
    }

    /// Looks again at some of the noted lookups, oldest first.
    fn review_some(&mut self, reaches: Reaches<'_>) {
        for _ in 0..REVIEWS_PER_INPUT {
            let Some(id) = self.woken.pop_first() else { return };
            let Some(waiting) = self.stop_waiting(id) else { continue };
            if let Err(missing) = self.try_answer(id, &waiting.asker, &waiting.search, reaches) {
                self.waiting_keys.take(&self.payer(&waiting.asker), waiting.search.units());
                self.deadlines.extend(waiting.deadline.map(|deadline| (deadline, id)));
                self.watch(id, &missing);
                self.waiting.insert(id, WaitingLookup { watched: missing, ..waiting });
            }
        }
    }

    /// Answers a lookup if it has all that it waits for. The error names the keys to watch.
    fn try_answer(
        &mut self,
        id: RequestId,
        asker: &Asker,
        search: &Search,
        reaches: Reaches<'_>,
    ) -> Result<(), Vec<Key>> {
        let needs_all = search.needed == search.keys.len();
        let (mut found, mut missing, mut is_denied) = (Vec::new(), Vec::new(), true);
        for key in &search.keys {
            match self.find(key, asker, &search.range, reaches) {
                Match::Found(entry) => found.push(entry),
                outcome => {
                    is_denied &= matches!(outcome, Match::Denied);
                    missing.push(key.clone());
                    if needs_all {
                        // The lookup waits for this key first. So a publication of another key costs nothing.
                        return Err(missing);
                    }
                }
            }
        }
        if found.len() < search.needed {
            return Err(missing);
        }
        let reply = match (found.is_empty(), missing.is_empty()) {
            (true, _) if is_denied => HostReply::Status(Status::ERR_NO_PERMISSIONS),
            (true, _) => HostReply::Status(Status::ERR_NOT_FOUND),
            (false, true) => self.read(&found, Status::SUCCESS),
            (false, false) => self.read(&found, Status::ERR_PARTIAL_SUCCESS),
        };
        self.answers.push_back((id, reply));
        Ok(())
    }

    /// The entry of a key for a requester. Of several, it prefers its own, then those of its namespace, then the
    /// oldest.
    fn find(&self, key: &Key, asker: &Asker, range: &Range, reaches: Reaches<'_>) -> Match {
        let proc = &asker.requester.proc;
        let mut best = None;
        let mut is_denied = false;
        for (id, entry) in self.entries.of_key(key) {
            if !self.covers(range, proc, &entry.publisher) || !self.covers(&entry.range, &entry.publisher, proc) {
                continue;
            }
            match self.permits(entry, asker, reaches) {
                Ok(()) => {
                    let rank = (entry.publisher != *proc, entry.publisher.namespace != proc.namespace, id);
                    best = Some(best.map_or(rank, |best| rank.min(best)));
                }
                Err(status) => is_denied |= status == Status::ERR_NO_PERMISSIONS,
            }
        }
        match best {
            Some((.., id)) => Match::Found(id),
            None if is_denied => Match::Denied,
            None => Match::Missing,
        }
    }

    /// Whether `other` is in a range of `of`.
    fn covers(&self, range: &Range, of: &ProcId, other: &ProcId) -> bool {
        match range {
            Range::Host => *other == self.server,
            Range::Local | Range::Session | Range::Global => true,
            Range::Namespace => of.namespace == other.namespace,
            Range::Custom(procs) => procs.iter().any(|listed| listed.covers(other)),
            Range::Process => of == other,
        }
    }

    /// Whether a requester may read an entry. To other users data counts as absent, so that they can't find out names.
    fn permits(&self, entry: &Entry, asker: &Asker, reaches: Reaches<'_>) -> Result<(), Status> {
        let Requester { proc, uid, gid, .. } = &asker.requester;
        // A later job of the same name may belong to another user.
        let is_own = *proc == entry.publisher && *uid == entry.uid;
        let is_known = reaches(asker, &entry.publisher, entry.uid);
        match &entry.access {
            _ if is_own => Ok(()),
            Some(access) if access.users.contains(uid) || access.groups.contains(gid) => Ok(()),
            None if is_known => Ok(()),
            Some(_) if is_known => Err(Status::ERR_NO_PERMISSIONS),
            _ => Err(Status::ERR_NOT_FOUND),
        }
    }

    /// The answer with these entries. Entries that are read once go.
    fn read(&mut self, found: &[EntryId], status: Status) -> HostReply {
        let entries = || found.iter().filter_map(|id| self.entries.get(*id));
        let bytes = entries().map(|entry| entry.value_bytes).fold(0, usize::saturating_add);
        if bytes > self.limits.answer_bytes_max {
            return HostReply::Status(Status::ERR_OUT_OF_RESOURCE);
        }
        let data =
            |entry: &Entry| Pdata { proc: entry.publisher.clone(), key: entry.key.clone(), value: entry.value.clone() };
        let data: Vec<Pdata> = entries().map(data).collect();
        let is_read_once = |id: &&EntryId| self.entries.get(**id).is_some_and(Entry::is_read_once);
        let read_once: Vec<EntryId> = found.iter().filter(is_read_once).copied().collect();
        read_once.into_iter().for_each(|id| self.entries.remove(id));
        HostReply::Lookup { status, found: data }
    }

    fn watch(&mut self, id: RequestId, keys: &[Key]) {
        for key in keys {
            self.watchers.entry(key.clone()).or_default().insert(id);
        }
    }

    fn stop_waiting(&mut self, id: RequestId) -> Option<WaitingLookup> {
        let waiting = self.waiting.remove(&id)?;
        waiting.watched.iter().for_each(|key| remove_from(&mut self.watchers, key, id));
        waiting.deadline.map(|deadline| self.deadlines.remove(&(deadline, id)));
        self.woken.remove(&id);
        self.waiting_keys.give_back(&self.payer(&waiting.asker), waiting.search.units());
        Some(waiting)
    }

    fn expire(&mut self, now: Time) {
        for _ in 0..TIMEOUTS_PER_INPUT {
            let Some((deadline, id)) = self.deadlines.first().copied() else { return };
            if deadline > now {
                return;
            }
            self.stop_waiting(id);
            self.answer(id, Status::ERR_TIMEOUT);
        }
    }

    fn answer(&mut self, id: RequestId, status: Status) {
        self.answers.push_back((id, HostReply::Status(status)));
    }

    fn payer(&self, asker: &Asker) -> Payer {
        let Requester { proc, uid, .. } = &asker.requester;
        let account = if asker.is_tool { Account::Tools(*uid) } else { Account::Process(proc.clone()) };
        Payer { account, uid: *uid, is_trusted: *uid == 0 || *uid == self.server_uid }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let is_idle =
            self.waiting.is_empty() && self.woken.is_empty() && self.watchers.is_empty() && self.deadlines.is_empty();
        self.entries.is_empty() && is_idle && self.waiting_keys.is_unused() && self.answers.is_empty()
    }

    #[cfg(test)]
    pub(super) fn entry_count(&self) -> usize {
        self.entries.len()
    }
}

/// The keys in their order, each once.
fn distinct(keys: Vec<Key>) -> Vec<Key> {
    let mut seen = BTreeSet::new();
    keys.into_iter().filter(|key| seen.insert(key.clone())).collect()
}

/// Waiting lookups that one input looks at again. The others wait for [`NameInput::Timeout`].
const REVIEWS_PER_INPUT: usize = 64;

/// Deadlines handled by one [`NameInput::Timeout`]. If there are more, the next one is due at once.
const TIMEOUTS_PER_INPUT: usize = 256;
