//! Commits of local processes.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::gds::qualified::{self, QUALIFIED_VALUE};
use crate::gds::{Datastore, Origin, Posted};
use crate::proto;
use crate::proto::blob::COMMIT_NUMBER;
use crate::proto::notification::RemovalNotice;
use crate::server::interface::{Garbage, Output, PeerId};
use crate::server::state::{
    CommitRest, Concerned, PARTS_MAX, PIECE_ENTRIES_MAX, Peer, RegisteredClient, RegisteredJob, Rest, ServerCore,
    Ticket, split_number, take_commit_number,
};
use crate::types::{AsStatus, Key, Kval, Namespace, ProcId, Rank, Scope, Status, Time, Value};

impl<S: Datastore> ServerCore<S> {
    pub(in crate::server) fn commit(&mut self, now: Time, ticket: Ticket, proc: &ProcId, commit: proto::Commit) {
        if commit.parts.iter().any(|(scope, _)| *scope == Scope::Internal) {
            return self.outputs.reply_status(ticket, Status::ERR_BAD_PARAM);
        }
        let is_large = commit.parts.iter().any(|(_, values)| values.len() > PIECE_ENTRIES_MAX);
        let parts = commit.parts.into_iter().map(|(scope, values)| (scope, values.into_iter())).collect();
        let (peer, proc) = (ticket.peer(), proc.clone());
        let rest = CommitRest { ticket, proc, parts, spent: Vec::new(), is_large, goes_on: false, malformed: 0 };
        self.proceed_commit(now, peer, rest);
    }

    /// Publishes the next piece of a commit.
    pub(in crate::server) fn proceed_commit(&mut self, now: Time, peer: PeerId, mut rest: CommitRest) {
        // Each removed value is told to many connections. Ever more must not wait.
        if rest.removes_next() && !self.removals.is_empty() {
            return self.leave_rest(peer, Rest::Commit(rest));
        }
        // The kernel takes milliseconds for the memory of a large value.
        let large_bytes = rest.next_large_bytes();
        if large_bytes.is_some_and(|bytes| self.store.prepare_some(&rest.proc.namespace, bytes)) {
            return self.leave_rest(peer, Rest::Commit(rest));
        }
        rest.is_large |= large_bytes.is_some();
        let published = match rest.take_piece() {
            Ok(piece) => self.publish_piece(&mut rest, piece),
            Err(key) => {
                let proc = &rest.proc;
                tracing::warn!(%proc, %key, parts_max = PARTS_MAX, "an array has too many elements; put a byte object");
                Err(Status::ERR_OUT_OF_RESOURCE)
            }
        };
        if let Ok(values) = &published
            && !rest.parts.is_empty()
        {
            self.review_piece(now, &rest.proc, values, false);
            if large_bytes.is_some() {
                self.outputs.push(Output::Discard(Garbage::new(published)));
            }
            return self.leave_rest(peer, Rest::Commit(rest));
        }
        let CommitRest { ticket, proc, parts, spent, is_large, malformed, .. } = rest;
        self.outputs.reply_status(ticket, published.as_ref().err().copied().unwrap_or(Status::SUCCESS));
        if let Ok(values) = &published {
            self.review_piece(now, &proc, values, true);
        }
        if malformed > 0 {
            tracing::warn!(%proc, malformed, "a process put malformed qualified values; its commit omits them");
        }
        if is_large {
            self.outputs.push(Output::Discard(Garbage::new((parts, spent, published))));
        }
    }

    /// Answers requests that wait for these values. With the last piece of its first commit a process has spoken.
    fn review_piece(&mut self, now: Time, proc: &ProcId, values: &[Posted], is_last: bool) {
        match self.registry.client(proc).is_some_and(|client| client.has_spoken()) {
            false if is_last => self.note_say(now, proc),
            _ => self.review_keys(now, proc, values),
        }
    }

    fn publish_piece(&mut self, rest: &mut CommitRest, piece: Vec<(Scope, Vec<Kval>)>) -> Result<Vec<Posted>, Status> {
        let values = merge_parts(piece, &mut rest.malformed)?;
        self.publish_commit(&rest.proc, &values, rest.goes_on)?;
        rest.goes_on = true;
        Ok(values)
    }

    /// A process has spoken: it has reached the point where others expect its data, perhaps without a commit. A request
    /// that waits for it gets the same bound as after a commit.
    pub(super) fn note_say(&mut self, now: Time, proc: &ProcId) {
        if self.registry.client_mut(proc).is_some_and(RegisteredClient::speak) {
            self.review(now, about(proc));
        }
    }

    /// Stores a local process's commit, and records the keys that are new to other nodes.
    pub(super) fn publish_commit(&mut self, proc: &ProcId, values: &[Posted], goes_on: bool) -> Result<(), Status> {
        let (namespace, rank) = (&proc.namespace, proc.rank.process().ok_or(Status::ERR_BAD_PARAM)?);
        let processes = self.registry.job(namespace).map_or(0, RegisteredJob::local_count);
        self.store.share_among(namespace, processes);
        let committed = self.store.commit(namespace, rank, Origin::Local, values).map_err(|error| {
            tracing::warn!(%proc, %error, "commit refused");
            error.status()
        })?;
        if committed.is_changed {
            self.wake(namespace);
            self.tell_removals(removals(proc, values));
        }
        if let Some(client) = self.registry.client_mut(proc) {
            // Older libraries repeat all their values in each commit, and fences must not carry them each time.
            let is_first = client.last_commit() == 0;
            let keys = if is_first { keys_for_others(values) } else { committed.keys_for_others };
            client.note_commit(keys, goes_on);
        }
        Ok(())
    }

    /// Stores the values of a remote process, unless the stored ones are newer (see `intake`). Publishes nothing for an
    /// empty list.
    pub(super) fn publish_remote(&mut self, proc: &ProcId, mut entries: Vec<Kval>) -> Result<Arrival, Status> {
        let Some(rank) = proc.rank.process() else { return Err(Status::ERR_BAD_PARAM) };
        let (commit, is_all) = split_number(take_commit_number(&mut entries));
        let stored = self.registry.job(&proc.namespace).map_or(0, |job| job.stored().of(rank));
        if commit.is_some_and(|commit| commit < stored) {
            return Ok(Arrival::Overtaken);
        }
        if entries.is_empty() {
            return Ok(Arrival::Changes);
        }
        // The owner's scope, remote or global, is unknown, and makes no difference here.
        let posted = |Kval { key, value }| Posted { scope: Scope::Remote, key, value };
        let values: Vec<Posted> = entries.into_iter().map(posted).collect();
        match self.store.commit(&proc.namespace, rank, Origin::Remote, &values) {
            Ok(committed) if committed.is_changed => {
                self.wake(&proc.namespace);
                self.tell_removals(removals(proc, &values));
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%proc, %error, "data of a process elsewhere can't be stored");
                return Err(error.status());
            }
        }
        if let (Some(commit), Some(job)) = (commit, self.registry.job_mut(&proc.namespace)) {
            job.stored_mut().note(rank, commit);
        }
        Ok(if is_all { Arrival::Everything } else { Arrival::Changes })
    }

    /// Whether a client keeps copies of values.
    pub(super) fn has_copies(&self) -> bool {
        self.peers.iter().any(|(_, peer)| peer.hears_removals())
    }

    /// Tells the clients of a job that keep copies of values about those that its processes have removed. A process
    /// knows of its own ones. Processes of other jobs keep their copies until they ask for newer ones.
    pub(super) fn tell_removals(&mut self, removed: impl IntoIterator<Item = (ProcId, Scope, Key)>) {
        let mut of_jobs: BTreeMap<Namespace, Vec<Arc<RemovalNotice>>> = BTreeMap::new();
        for (proc, scope, key) in removed {
            let of_job = of_jobs.entry(proc.namespace.clone()).or_default();
            of_job.push(Arc::new(RemovalNotice { proc, scope: scope.to_removal(), key }));
        }
        let is_first = self.removals.is_empty();
        for (namespace, notices) in of_jobs {
            let hears = |peer: &Peer| peer.hears_removals() && peer.is_of_job(&namespace);
            let hearers = self.peers.iter().filter(|(_, peer)| hears(peer)).map(|(id, _)| id).collect();
            if self.removals.len() > REMOVALS_MAX {
                tracing::warn!(%namespace, "too many values were removed at once; clients keep old copies of some");
                continue;
            }
            self.removals.push(hearers, notices);
        }
        if is_first {
            self.tell_some_removals();
        }
    }

    /// Sends some notices of removed values.
    pub(in crate::server) fn tell_some_removals(&mut self) {
        for _ in 0..REMOVALS_PER_STEP {
            let Some((peer, notice)) = self.removals.pop() else { return };
            if self.peers.get(peer).is_some_and(|peer| *peer.proc() != notice.proc) {
                self.outputs.push(Output::TellRemoval(peer, notice));
            }
        }
    }

    /// Tells sleepers that something was published.
    pub(super) fn wake(&mut self, namespace: &Namespace) {
        self.outputs.push(Output::Wake(namespace.clone()));
    }

    /// Reviews the requests for new values alone. A review of others would make every commit slow.
    pub(super) fn review_keys(&mut self, now: Time, proc: &ProcId, values: &[Posted]) {
        let on_keys = |target| self.held_gets.on_keys(target, values.iter().map(|posted| &posted.key));
        let concerned = [on_keys(proc), on_keys(&anybody(proc))].concat();
        self.review(now, concerned);
    }
}

/// Notices of removed values that may wait. Only fences can bring more.
const REMOVALS_MAX: usize = 1 << 24;
/// Notices of removed values sent in one step.
const REMOVALS_PER_STEP: usize = 64;

/// The values that a process removes.
fn removals<'v>(proc: &ProcId, values: &'v [Posted]) -> impl Iterator<Item = (ProcId, Scope, Key)> + use<'v> {
    let proc = proc.clone();
    let removed = values.iter().filter(|posted| posted.value == Value::Undefined);
    removed.map(move |posted| (proc.clone(), posted.scope, posted.key.clone()))
}

/// The keys of the values that processes of other nodes may see.
fn keys_for_others(values: &[Posted]) -> Vec<Key> {
    let for_others = values.iter().filter(|posted| posted.scope.is_visible_remotely());
    for_others.map(|posted| posted.key.clone()).collect()
}

/// The requests that wait for a process, by name or by key alone.
pub(super) fn about(proc: &ProcId) -> [Concerned; 2] {
    [Concerned::Process(proc.clone()), Concerned::Process(anybody(proc))]
}

/// The target of requests for a key of any process of the job.
fn anybody(proc: &ProcId) -> ProcId {
    ProcId::new(proc.namespace.clone(), Rank::Undefined)
}

/// The result of storing a remote process's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Newer values were already here.
    Overtaken,
    /// They are stored.
    Changes,
    /// They are stored, and are all the process's values up to their commit.
    Everything,
}

/// Merges the parts of a commit into one list, in order: the store keeps the last value of a repeated key. A foreign
/// client sends global values twice, as local and as remote; equal ones become global again.
fn merge_parts(parts: Vec<(Scope, Vec<Kval>)>, malformed: &mut usize) -> Result<Vec<Posted>, Status> {
    let mut merged = Vec::with_capacity(parts.iter().map(|(_, values)| values.len()).sum());
    let has_both = [Scope::Local, Scope::Remote].iter().all(|wanted| parts.iter().any(|(scope, _)| scope == wanted));
    for (scope, entries) in parts {
        for Kval { key, value } in entries {
            let (key, value) = qualified::stored(key, value);
            // MPI libraries post some keys of the standard; the host's description takes precedence over them. Only
            // this server sets the number of a commit.
            if key == COMMIT_NUMBER {
                return Err(Status::ERR_BAD_PARAM);
            }
            // An invalid qualified value could never be looked up. It must not cost the process its other values.
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

/// Merges a local and a remote value into a global one if they are equal and the last ones of their key. It takes the
/// second one's position.
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
