//! Recovery of a server that missed the end of a collecting fence.
//!
//! A fence carries the changes since the last one of the same participants. A server that saw that one succeed does not
//! send its values again. A server may have missed it: the host's answer was lost, came too late, or could not be
//! stored. Such a server would answer with older values for good, so it remembers the set of participants. When the
//! next collecting fence of that set succeeds, it fetches every value that may be outdated before it releases any
//! process. These are the stored values of remote processes, unless the fence brought all of a process's values.
//! Servers that saw the fence fail, too, send everything (see [`super::commit::add_commit_number`]), so a fence that
//! failed everywhere costs no fetch. Values that are missing here need no care: a Get finds none and asks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::commit::Arrival;
use super::upcalls::status_of;
use crate::gds::Datastore;
use crate::server::dispatch::core::Server;
use crate::server::interface::config::Capabilities;
use crate::server::interface::host::{HostReply, Upcall};
use crate::server::state::collective::{OperationId, brings_about};
use crate::server::state::pending::Purpose;
use crate::server::state::registry::Registry;
use crate::server::state::signature::Participants;
use crate::types::{Info, Namespace, ProcId, Status, Time};

/// Sets of participants with a fence that this server missed, and the recovery.
#[derive(Debug, Default)]
pub(in crate::server) struct MissedFences {
    sets: BTreeSet<Participants>,
    /// Jobs with too many missed sets: any of their sets counts as missed.
    overrun: BTreeSet<Namespace>,
    running: BTreeMap<OperationId, MissedFence>,
    /// Processes whose values the host is fetching.
    asked: BTreeSet<ProcId>,
}

/// One fence that waits for the values of an earlier one.
#[derive(Debug)]
struct MissedFence {
    /// The fence's result.
    status: Status,
    info: Vec<Info>,
    /// Processes not asked for yet, and the number of open requests.
    left: VecDeque<ProcId>,
    open: usize,
    /// Number of fetches that may bring older values than those already here.
    patience: usize,
    /// The host's time for all fetches.
    deadline: Option<Time>,
}

impl MissedFences {
    pub(in crate::server) fn len(&self) -> usize {
        let Self { sets, overrun, running, asked } = self;
        [sets.len(), overrun.len(), running.len(), asked.len()].into_iter().fold(0, usize::saturating_add)
    }

    pub(super) fn is_missed(&self, procs: &Participants) -> bool {
        self.sets.contains(procs) || procs.namespaces().any(|namespace| self.overrun.contains(namespace))
    }

    pub(in crate::server) fn note(&mut self, procs: &Participants) {
        if self.sets.len() >= SETS_MAX && !self.sets.contains(procs) {
            self.overrun.extend(procs.namespaces().cloned());
        } else {
            self.sets.insert(procs.clone());
        }
    }

    /// Drops the sets without any remaining registered job.
    pub(super) fn forget_namespace(&mut self, namespace: &Namespace, registry: &Registry) {
        let stays = |proc: &ProcId| proc.namespace != *namespace && registry.job(&proc.namespace).is_some();
        self.sets.retain(|procs| procs.iter().any(stays));
        self.overrun.remove(namespace);
    }

    /// Number of open requests to the host for a fence.
    pub(in crate::server) fn open(&self, operation: OperationId) -> Option<usize> {
        self.running.get(&operation).map(|running| running.open)
    }

    /// Whether a fence must still ask for a process, and no open request would continue it.
    pub(in crate::server) fn is_stuck(&self, operation: OperationId) -> bool {
        let is_stuck =
            |running: &MissedFence| running.open == 0 && running.left.iter().all(|proc| !self.asked.contains(proc));
        self.running.get(&operation).is_some_and(is_stuck)
    }
}

impl<S: Datastore> Server<S> {
    /// Starts to fetch the values of a missed earlier fence of these participants. `whole`: processes whose values this
    /// fence brought completely. Returns whether the fence must wait for the fetches.
    pub(super) fn must_catch_up(
        &mut self,
        now: Time,
        id: OperationId,
        status: Status,
        whole: &BTreeSet<ProcId>,
        info: &[Info],
    ) -> bool {
        let is_good = brings_about(status);
        let operation = self.collectives.get(id).filter(|operation| is_good && operation.collects());
        let Some(operation) = operation.filter(|operation| self.missed_fences.is_missed(&operation.signature.procs))
        else {
            return false;
        };
        let mut left = VecDeque::new();
        for namespace in operation.signature.procs.namespaces() {
            let Some(job) = self.registry.job(namespace) else { continue };
            let known = job.stored.ranks().map(|rank| ProcId::new(namespace.clone(), rank));
            let is_outdated = |proc: &ProcId| {
                let is_local = self.registry.client(proc).is_some();
                !is_local && !whole.contains(proc) && operation.signature.covers(proc)
            };
            left.extend(known.filter(is_outdated));
        }
        let patience = left.len().saturating_add(PATIENCE);
        tracing::debug!(operation = id.0, ranks = left.len(), "the server fetches the data of a missed fence");
        let deadline = self.config.host_timeout.map(|timeout| now + timeout);
        let catch_up = MissedFence { status, info: info.to_vec(), left, open: 0, patience, deadline };
        self.missed_fences.running.insert(id, catch_up);
        self.collectives.catch_up(id);
        self.go_on_catching_up(now);
        true
    }

    /// Sends more requests, and ends the fences that have all values.
    pub(super) fn go_on_catching_up(&mut self, now: Time) {
        let can_ask = self.config.capabilities.contains(Capabilities::DIRECT_MODEX);
        let mut done = Vec::new();
        let mut questions = Vec::new();
        let MissedFences { running, asked, .. } = &mut self.missed_fences;
        for (&id, running) in running {
            if running.left.is_empty() && running.open == 0 {
                done.push((id, running.status));
            } else if !can_ask {
                done.push((id, Status::ERR_NOT_SUPPORTED));
            }
            // An answer on its way to another fence may be older than this one, so each process has one open request at
            // most.
            for _ in 0..running.left.len() {
                if !can_ask || running.open >= OPEN_MAX {
                    break;
                }
                let Some(proc) = running.left.pop_front() else { break };
                if asked.insert(proc.clone()) {
                    running.open = running.open.saturating_add(1);
                    questions.push((id, running.deadline, proc));
                } else {
                    running.left.push_back(proc);
                }
            }
        }
        for (id, deadline, proc) in questions {
            let upcall = Upcall::DirectModex { proc: proc.clone(), directives: Vec::new() };
            self.ask_host_until(deadline, Purpose::MissedFence(id, proc), upcall);
        }
        for (id, status) in done {
            self.end_catch_up(now, id, status);
        }
    }

    /// The host has fetched a process's values for a fence, or has failed to.
    pub(super) fn caught_up(&mut self, now: Time, id: OperationId, proc: ProcId, reply: HostReply) {
        self.missed_fences.asked.remove(&proc);
        let result = match reply {
            HostReply::DirectModex(_) if self.registry.client(&proc).is_some() => Ok(Arrival::Changes),
            HostReply::DirectModex(entries) => self.publish_remote(&proc, entries),
            other => Err(Some(status_of(&other)).filter(|status| *status != Status::SUCCESS).unwrap_or(Status::ERROR)),
        };
        self.review_target(now, &proc);
        let Some(running) = self.missed_fences.running.get_mut(&id) else { return self.go_on_catching_up(now) };
        running.open = running.open.saturating_sub(1);
        match result {
            Ok(arrival) => {
                // A newer commit has arrived meanwhile, perhaps only its changes.
                if arrival == Arrival::Overtaken {
                    running.patience = running.patience.saturating_sub(1);
                    running.left.push_back(proc);
                }
                if running.patience == 0 {
                    self.end_catch_up(now, id, Status::ERR_NOT_AVAILABLE);
                }
            }
            Err(status) => {
                tracing::warn!(%proc, %status, "the data of a missed fence can't be fetched");
                self.end_catch_up(now, id, status);
            }
        }
        self.go_on_catching_up(now);
    }

    fn end_catch_up(&mut self, now: Time, id: OperationId, status: Status) {
        let Some(running) = self.missed_fences.running.get_mut(&id) else { return };
        let info = std::mem::take(&mut running.info);
        let is_complete = running.left.is_empty() && running.open == 0;
        if is_complete && let Some(operation) = self.collectives.get(id) {
            self.missed_fences.sets.remove(&operation.signature.procs);
        }
        self.finish_with(now, id, status, info);
    }

    /// A fence has ended; cancels its fetches.
    pub(super) fn abandon_catch_up(&mut self, id: OperationId) {
        if self.missed_fences.running.remove(&id).is_none() {
            return;
        }
        for (upcall, proc) in self.upcalls.catching_up(id) {
            self.cancel_upcall(upcall);
            self.missed_fences.asked.remove(&proc);
        }
    }
}

/// Number of sets remembered individually.
const SETS_MAX: usize = 1024;
/// Number of processes that one fence asks for at a time.
const OPEN_MAX: usize = 64;
/// Number of fetches that may be overtaken, besides one for each process.
const PATIENCE: usize = 8;
