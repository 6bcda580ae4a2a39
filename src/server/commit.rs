//! Commits of local processes.

use std::collections::BTreeMap;

use super::core::Server;
use super::io::Output;
use super::outputs::Ticket;
use super::registry::Job;
use crate::gds::qualified::{self, QUALIFIED_VALUE};
use crate::gds::{AsStatus, Audience, Origin, Posted, Publish};
use crate::proto;
use crate::proto::blob::COMMIT_NUMBER;
use crate::types::{Key, Kval, Namespace, ProcId, Rank, Scope, Status, Time, Value};

impl<S: Publish> Server<S> {
    pub(super) fn commit(&mut self, now: Time, ticket: Ticket, proc: &ProcId, commit: proto::Commit) {
        let published = merge_parts(proc, commit.parts).and_then(|values| {
            self.publish_commit(proc, &values)?;
            Ok(values)
        });
        self.outputs.reply_status(ticket, published.as_ref().map_or_else(|&status| status, |_| Status::SUCCESS));
        let Ok(values) = published else { return };
        match self.registry.client(proc).is_some_and(|client| client.has_spoken) {
            true => self.review_keys(now, proc, &values),
            false => self.note_say(now, proc),
        }
    }

    /// A process that need not have committed anything has come to where others expect its data to be. Who waits for it
    /// waits no longer than for one that has committed.
    pub(super) fn note_say(&mut self, now: Time, proc: &ProcId) {
        let Some(client) = self.registry.client_mut(proc).filter(|client| !client.has_spoken) else { return };
        client.has_spoken = true;
        self.review_target(now, proc);
    }

    /// Stores what a local process committed and remembers which of it is new to other nodes.
    fn publish_commit(&mut self, proc: &ProcId, values: &[Posted]) -> Result<(), Status> {
        let (namespace, rank) = (&proc.namespace, proc.rank.process().ok_or(Status::ERR_BAD_PARAM)?);
        let changed_keys = self.keys_new_to_others(proc, rank, values);
        let processes = self.registry.job(namespace).map_or(0, Job::local_count);
        self.store.share_among(namespace, processes);
        match self.store.commit(namespace, rank, Origin::Local, values) {
            Ok(true) => self.wake(namespace),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%proc, %error, "commit refused");
                return Err(error.status());
            }
        }
        if let Some(client) = self.registry.client_mut(proc) {
            client.commits = client.commits.saturating_add(1);
            let commit = client.last_commit();
            changed_keys.into_iter().for_each(|key| client.changes.note(key, commit));
        }
        Ok(())
    }

    /// The keys whose values differ from those that other nodes may see now. Older libraries repeat everything they ever put
    /// in each commit; fences must not carry it again each time. Only the keys of the commit are looked up: what a commit
    /// costs does not depend on what was posted before.
    fn keys_new_to_others(&self, proc: &ProcId, rank: u32, values: &[Posted]) -> Vec<Key> {
        let for_others = || values.iter().filter(|posted| posted.scope.is_visible_remotely());
        let has_committed = self.registry.client(proc).is_some_and(|client| client.commits > 0);
        let stored = if has_committed {
            let keys: Vec<&str> = for_others().map(|posted| posted.key.as_str()).collect();
            self.store.posted_of(&proc.namespace, rank, Audience::OtherNodes, &keys).unwrap_or_default()
        } else {
            Vec::new()
        };
        // By the names that they are stored under: told, all qualified values have one.
        let named = stored.into_iter().map(|Kval { key, value }| qualified::stored(key, value));
        let stored: BTreeMap<Key, Value> = named.collect();
        let changed = for_others().filter(|posted| stored.get(&posted.key) != Some(&posted.value));
        changed.map(|posted| posted.key.clone()).collect()
    }

    /// Stores what a process elsewhere posted, unless what is stored is newer (see `intake`). Nothing is published for
    /// nothing.
    pub(super) fn publish_remote(&mut self, proc: &ProcId, mut entries: Vec<Kval>) -> Result<Arrival, Status> {
        let Some(rank) = proc.rank.process() else { return Err(Status::ERR_BAD_PARAM) };
        let (commit, is_all) = split_number(take_commit_number(&mut entries));
        let stored = self.registry.job(&proc.namespace).map_or(0, |job| job.stored.of(rank));
        if commit.is_some_and(|commit| commit < stored) {
            return Ok(Arrival::Overtaken);
        }
        if entries.is_empty() {
            return Ok(Arrival::Changes);
        }
        // Whether the owner said "remote" or "global" is not told, and makes no difference here.
        let posted = |Kval { key, value }| Posted { scope: Scope::Remote, key, value };
        let values: Vec<Posted> = entries.into_iter().map(posted).collect();
        match self.store.commit(&proc.namespace, rank, Origin::Remote, &values) {
            Ok(true) => self.wake(&proc.namespace),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%proc, %error, "data of a process elsewhere can't be stored");
                return Err(error.status());
            }
        }
        if let (Some(commit), Some(job)) = (commit, self.registry.job_mut(&proc.namespace)) {
            job.stored.note(rank, commit);
        }
        Ok(if is_all { Arrival::Everything } else { Arrival::Changes })
    }

    /// Tells sleepers that something was published.
    pub(super) fn wake(&mut self, namespace: &Namespace) {
        self.outputs.push(Output::Wake(namespace.clone()));
    }

    /// Looks again at the requests that wait for something of this process, by name or by key alone.
    pub(super) fn review_target(&mut self, now: Time, proc: &ProcId) {
        let anybody = ProcId::new(proc.namespace.clone(), Rank::Undefined);
        for wait in self.waiting.on_target(proc).into_iter().chain(self.waiting.on_target(&anybody)) {
            self.review_wait(now, wait);
        }
    }

    /// The same after a commit of a process that has had its say: only new values can change the verdict. Requests for
    /// other keys are not looked at, or many of them would make every commit slow.
    fn review_keys(&mut self, now: Time, proc: &ProcId, values: &[Posted]) {
        let anybody = ProcId::new(proc.namespace.clone(), Rank::Undefined);
        let on_keys = |proc| self.waiting.on_keys(proc, values.iter().map(|posted| &posted.key));
        for wait in on_keys(proc).into_iter().chain(on_keys(&anybody)) {
            self.review_wait(now, wait);
        }
    }
}

/// Which commit values include, and whether they are all that the process had posted until then.
pub(super) fn split_number(number: Option<u64>) -> (Option<u64>, bool) {
    (number.map(|number| number & !EVERYTHING), number.is_some_and(|number| number & EVERYTHING != 0))
}

/// What became of values that a process elsewhere had posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Newer ones were here already.
    Overtaken,
    /// They are here now.
    Changes,
    /// They are here now, and are all that it had posted until then.
    Everything,
}

/// Beside the number of a commit: the values are not only those that changed. Said where somebody may have missed a fence.
pub(super) const EVERYTHING: u64 = 1 << 63;

/// Says which commit a process's values include, so that whoever gets them twice knows which are newer.
pub(super) fn add_commit_number(entries: &mut Vec<Kval>, commit: u64) {
    if !entries.is_empty() {
        entries.push(Kval { key: COMMIT_NUMBER, value: commit.into() });
    }
}

/// Takes out what [`add_commit_number`] has put in; absent in what other libraries send.
pub(super) fn take_commit_number(entries: &mut Vec<Kval>) -> Option<u64> {
    let place = entries.iter().position(|entry| entry.key == COMMIT_NUMBER)?;
    entries.remove(place).value.as_u64()
}

/// One list out of the parts of a commit. Within a scope the last value of a key wins. A foreign client sends global
/// values twice, as local and as remote; equal ones are global again. The order of first mention is kept.
fn merge_parts(proc: &ProcId, parts: Vec<(Scope, Vec<Kval>)>) -> Result<Vec<Posted>, Status> {
    let mut merged: Vec<Option<Posted>> = Vec::new();
    let mut places: BTreeMap<(Key, Scope), usize> = BTreeMap::new();
    let mut malformed: u64 = 0;
    for (scope, entries) in parts {
        if scope == Scope::Internal {
            return Err(Status::ERR_BAD_PARAM);
        }
        for Kval { key, value } in entries {
            let (key, value) = qualified::stored(key, value);
            // MPI libraries post some keys of the standard. What the host describes stands before them, and the number
            // of a commit is ours to say.
            if key == COMMIT_NUMBER {
                return Err(Status::ERR_BAD_PARAM);
            }
            // One that is none would be found by nobody. It must not cost its process all others.
            if key.as_str() == QUALIFIED_VALUE {
                malformed = malformed.saturating_add(1);
                continue;
            }
            let place = *places.entry((key.clone(), scope)).or_insert(merged.len());
            let posted = Some(Posted { scope, key, value });
            match merged.get_mut(place) {
                Some(older) => *older = posted,
                None => merged.push(posted),
            }
        }
    }
    if malformed > 0 {
        tracing::warn!(%proc, malformed, "a process put qualified values that are none; they are left out of its commit");
    }
    for ((key, scope), &remote_place) in &places {
        let Some(&local_place) = places.get(&(key.clone(), Scope::Local)).filter(|_| *scope == Scope::Remote) else {
            continue;
        };
        let value_at = |place: usize| merged.get(place).and_then(Option::as_ref).map(|posted| &posted.value);
        if value_at(local_place) == value_at(remote_place) {
            let (first, second) = (local_place.min(remote_place), local_place.max(remote_place));
            if let Some(Some(posted)) = merged.get_mut(first) {
                posted.scope = Scope::Global;
            }
            if let Some(repeated) = merged.get_mut(second) {
                *repeated = None;
            }
        }
    }
    Ok(merged.into_iter().flatten().collect())
}
