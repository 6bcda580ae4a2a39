//! Commits of local processes.

use std::collections::VecDeque;
use std::vec::IntoIter;

use rustc_hash::FxHashMap;

use super::core::Server;
use super::io::{Garbage, Output, PeerId};
use super::outputs::Ticket;
use super::registry::Job;
use super::slices::Rest;
use crate::gds::qualified::{self, QUALIFIED_VALUE};
use crate::gds::{AsStatus, Audience, Origin, Posted, Publish};
use crate::proto;
use crate::proto::blob::COMMIT_NUMBER;
use crate::types::{Key, Kval, Namespace, ProcId, Rank, Scope, Status, Time, footprint};

/// The unpublished rest of a commit. Its values are published in pieces, in order: readers see them as if they had come in as many
/// commits.
#[derive(Debug)]
pub(super) struct CommitRest {
    pub(super) ticket: Ticket,
    proc: ProcId,
    pub(super) parts: VecDeque<(Scope, IntoIter<Kval>)>,
    /// The memory of published parts, if they are large. That of a million values takes milliseconds to free.
    pub(super) spent: Vec<IntoIter<Kval>>,
    is_large: bool,
    /// Qualified values that are none.
    malformed: usize,
}

impl CommitRest {
    /// The next values, of one scope or more.
    fn take_piece(&mut self) -> Vec<(Scope, Vec<Kval>)> {
        let mut piece = Vec::new();
        let (mut count_left, mut bytes_left) = (PIECE_ENTRIES_MAX, PIECE_BYTES_MAX);
        while count_left > 0
            && bytes_left > 0
            && let Some((scope, values)) = self.parts.front_mut()
        {
            let mut taken = Vec::with_capacity(values.len().min(count_left));
            while count_left > 0
                && bytes_left > 0
                && let Some(entry) = values.next()
            {
                count_left -= 1;
                bytes_left = bytes_left.saturating_sub(footprint(&entry.value).unwrap_or(PIECE_BYTES_MAX));
                taken.push(entry);
            }
            piece.push((*scope, taken));
            if values.len() == 0 {
                let part = self.parts.pop_front().filter(|_| self.is_large);
                self.spent.extend(part.map(|(_, values)| values));
            }
        }
        piece
    }
}

impl<S: Publish> Server<S> {
    pub(super) fn commit(&mut self, now: Time, ticket: Ticket, proc: &ProcId, commit: proto::Commit) {
        if commit.parts.iter().any(|(scope, _)| *scope == Scope::Internal) {
            return self.outputs.reply_status(ticket, Status::ERR_BAD_PARAM);
        }
        let is_large = commit.parts.iter().any(|(_, values)| values.len() > PIECE_ENTRIES_MAX);
        let parts = commit.parts.into_iter().map(|(scope, values)| (scope, values.into_iter())).collect();
        let (peer, proc) = (ticket.peer(), proc.clone());
        let rest = CommitRest { ticket, proc, parts, spent: Vec::new(), is_large, malformed: 0 };
        self.proceed_commit(now, peer, rest);
    }

    /// Publishes the next piece of a commit.
    pub(super) fn proceed_commit(&mut self, now: Time, peer: PeerId, mut rest: CommitRest) {
        let piece = rest.take_piece();
        let published = self.publish_piece(&rest.proc, piece, &mut rest.malformed);
        if let Ok(values) = &published
            && !rest.parts.is_empty()
        {
            self.review_piece(now, &rest.proc, values, false);
            return self.leave_rest(peer, Rest::Commit(rest));
        }
        let CommitRest { ticket, proc, parts, spent, is_large, malformed } = rest;
        self.outputs.reply_status(ticket, published.as_ref().err().copied().unwrap_or(Status::SUCCESS));
        if let Ok(values) = &published {
            self.review_piece(now, &proc, values, true);
        }
        if malformed > 0 {
            tracing::warn!(%proc, malformed, "a process put qualified values that are none; they are left out of its commit");
        }
        if is_large {
            self.outputs.push(Output::Discard(Garbage::new((parts, spent))));
        }
    }

    /// Answers who waits for these values. With the last of its first commit a process has had its say.
    fn review_piece(&mut self, now: Time, proc: &ProcId, values: &[Posted], is_last: bool) {
        match self.registry.client(proc).is_some_and(|client| client.has_spoken) {
            false if is_last => self.note_say(now, proc),
            _ => self.review_keys(now, proc, values),
        }
    }

    fn publish_piece(
        &mut self,
        proc: &ProcId,
        piece: Vec<(Scope, Vec<Kval>)>,
        malformed: &mut usize,
    ) -> Result<Vec<Posted>, Status> {
        let values = merge_parts(piece, malformed)?;
        self.publish_commit(proc, &values)?;
        Ok(values)
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
        let has_committed = self.registry.client(proc).is_some_and(|client| client.commits > 0);
        let is_stored = |posted: &Posted| {
            has_committed && self.store.is_posted(&proc.namespace, rank, Audience::OtherNodes, posted)
        };
        let for_others = values.iter().filter(|posted| posted.scope.is_visible_remotely());
        for_others.filter(|posted| !is_stored(posted)).map(|posted| posted.key.clone()).collect()
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

    /// The same after new values: only requests for their keys may have another verdict. Requests for
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

/// One list out of the parts of a commit, in order: of a key that comes twice the store keeps the last value. A foreign
/// client sends global values twice, as local and as remote; equal ones are global again.
fn merge_parts(parts: Vec<(Scope, Vec<Kval>)>, malformed: &mut usize) -> Result<Vec<Posted>, Status> {
    let mut merged = Vec::with_capacity(parts.iter().map(|(_, values)| values.len()).sum());
    let has_both = [Scope::Local, Scope::Remote].iter().all(|wanted| parts.iter().any(|(scope, _)| scope == wanted));
    for (scope, entries) in parts {
        for Kval { key, value } in entries {
            let (key, value) = qualified::stored(key, value);
            // MPI libraries post some keys of the standard. What the host describes stands before them, and the number
            // of a commit is ours to say.
            if key == COMMIT_NUMBER {
                return Err(Status::ERR_BAD_PARAM);
            }
            // One that is none would be found by nobody. It must not cost its process all others.
            if key.as_str() == QUALIFIED_VALUE {
                *malformed = malformed.saturating_add(1);
                continue;
            }
            merged.push(Posted { scope, key, value });
        }
    }
    if has_both && merged.iter().all(|posted| posted.scope != Scope::Global) {
        unite_scopes(&mut merged);
    }
    Ok(merged)
}

/// Makes one global value of a local and a remote one that are equal and the last ones of their key. It stands where the
/// second stood.
fn unite_scopes(values: &mut Vec<Posted>) {
    let mut last: FxHashMap<&Key, [Option<usize>; 2]> = FxHashMap::default();
    for (place, posted) in values.iter().enumerate() {
        let [local, remote] = last.entry(&posted.key).or_default();
        *(if posted.scope == Scope::Local { local } else { remote }) = Some(place);
    }
    let mut fates: Vec<Option<Scope>> = values.iter().map(|posted| Some(posted.scope)).collect();
    for places in last.into_values() {
        let [Some(local), Some(remote)] = places else { continue };
        let value_at = |place: usize| values.get(place).map(|posted| &posted.value);
        if value_at(local) == value_at(remote) {
            fates.get_mut(local.min(remote)).into_iter().for_each(|fate| *fate = None);
            fates.get_mut(local.max(remote)).into_iter().for_each(|fate| *fate = Some(Scope::Global));
        }
    }
    let mut fates = fates.into_iter();
    values.retain_mut(|posted| match fates.next().flatten() {
        Some(scope) => {
            posted.scope = scope;
            true
        }
        None => false,
    });
}

/// Values that are published in one step.
const PIECE_ENTRIES_MAX: usize = 256;
/// Bytes of values from which on a step takes no more of them.
const PIECE_BYTES_MAX: usize = 1 << 20;
