//! Fences that this server missed, and the fences that wait for their values.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::operation::OperationId;
use super::registry::Registry;
use super::signature::Participants;
use crate::types::{Info, Namespace, ProcId, Status, Time};

/// Sets of participants with a fence that this server missed, and the recovery.
#[derive(Debug, Default)]
pub(crate) struct MissedFences {
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
    pub(crate) fn len(&self) -> usize {
        let Self { sets, overrun, running, asked } = self;
        [sets.len(), overrun.len(), running.len(), asked.len()].into_iter().fold(0, usize::saturating_add)
    }

    pub(crate) fn is_missed(&self, procs: &Participants) -> bool {
        self.sets.contains(procs) || procs.namespaces().any(|namespace| self.overrun.contains(namespace))
    }

    pub(crate) fn note(&mut self, procs: &Participants) {
        if self.sets.len() >= SETS_MAX && !self.sets.contains(procs) {
            self.overrun.extend(procs.namespaces().cloned());
        } else {
            self.sets.insert(procs.clone());
        }
    }

    /// Drops the sets without any remaining registered job, and the questions about the namespace.
    pub(crate) fn forget_namespace(&mut self, namespace: &Namespace, registry: &Registry) {
        self.asked.retain(|proc| proc.namespace != *namespace);
        let stays = |proc: &ProcId| proc.namespace != *namespace && registry.job(&proc.namespace).is_some();
        self.sets.retain(|procs| procs.iter().any(stays));
        self.overrun.remove(namespace);
    }

    /// A fence waits for the values of these processes.
    pub(crate) fn begin(
        &mut self,
        id: OperationId,
        (status, info): (Status, Vec<Info>),
        left: VecDeque<ProcId>,
        deadline: Option<Time>,
    ) {
        let patience = left.len().saturating_add(PATIENCE);
        self.running.insert(id, MissedFence { status, info, left, open: 0, patience, deadline });
    }

    /// The next processes to ask for, each with its fence and the host's deadline. Busy processes must wait.
    ///
    /// An answer on its way to another fence may be older than this one, so each process has one open request at most.
    pub(crate) fn next_questions(
        &mut self,
        is_busy: impl Fn(&ProcId) -> bool,
    ) -> Vec<(OperationId, Option<Time>, ProcId)> {
        let Self { running, asked, .. } = self;
        let mut questions = Vec::new();
        for (&id, running) in running {
            for _ in 0..running.left.len() {
                if running.open >= OPEN_MAX {
                    break;
                }
                let Some(proc) = running.left.pop_front() else { break };
                if !is_busy(&proc) && asked.insert(proc.clone()) {
                    running.open = running.open.saturating_add(1);
                    questions.push((id, running.deadline, proc));
                } else {
                    running.left.push_back(proc);
                }
            }
        }
        questions
    }

    /// Fences that need not wait any longer, and their results: those with all values, or all if the host can't be
    /// asked.
    pub(crate) fn done(&self, can_ask: bool) -> Vec<(OperationId, Status)> {
        let result = |running: &MissedFence| match running.is_complete() {
            true => Some(running.status),
            false => (!can_ask).then_some(Status::ERR_NOT_SUPPORTED),
        };
        self.running.iter().filter_map(|(&id, running)| Some((id, result(running)?))).collect()
    }

    /// The host has answered a question of a fence. Returns whether the fence still waits.
    pub(crate) fn note_answer(&mut self, id: OperationId) -> bool {
        let running = self.running.get_mut(&id);
        running.is_some_and(|running| {
            running.open = running.open.saturating_sub(1);
            true
        })
    }

    /// A newer commit has arrived meanwhile, perhaps only its changes: asks again.
    pub(crate) fn ask_again(&mut self, id: OperationId, proc: ProcId) {
        if let Some(running) = self.running.get_mut(&id) {
            running.patience = running.patience.saturating_sub(1);
            running.left.push_back(proc);
        }
    }

    /// Whether too many fetches of a fence were overtaken.
    pub(crate) fn is_out_of_patience(&self, id: OperationId) -> bool {
        self.running.get(&id).is_some_and(|running| running.patience == 0)
    }

    /// The results of a fence, and whether it has all values.
    pub(crate) fn take_results(&mut self, id: OperationId) -> Option<(Vec<Info>, bool)> {
        let running = self.running.get_mut(&id)?;
        Some((std::mem::take(&mut running.info), running.is_complete()))
    }

    /// These participants have caught up.
    pub(crate) fn forget(&mut self, procs: &Participants) {
        self.sets.remove(procs);
    }

    /// A fence has ended. Returns whether it was waiting.
    pub(crate) fn abandon(&mut self, id: OperationId) -> bool {
        self.running.remove(&id).is_some()
    }

    /// The question about a process is answered or cancelled.
    pub(crate) fn forget_question(&mut self, proc: &ProcId) {
        self.asked.remove(proc);
    }

    /// Number of open requests to the host for a fence.
    pub(crate) fn open(&self, operation: OperationId) -> Option<usize> {
        self.running.get(&operation).map(|running| running.open)
    }

    /// Whether a fence must still ask for a process, and no open request would continue it.
    pub(crate) fn is_stuck(&self, operation: OperationId, is_busy: impl Fn(&ProcId) -> bool) -> bool {
        let waits = |proc: &ProcId| self.asked.contains(proc) || is_busy(proc);
        let is_stuck = |running: &MissedFence| running.open == 0 && !running.left.iter().any(waits);
        self.running.get(&operation).is_some_and(is_stuck)
    }
}

impl MissedFence {
    fn is_complete(&self) -> bool {
        self.left.is_empty() && self.open == 0
    }
}

/// Number of sets remembered individually.
const SETS_MAX: usize = 1024;

/// Number of processes that one fence asks for at a time.
const OPEN_MAX: usize = 64;

/// Number of fetches that may be overtaken, besides one for each process.
const PATIENCE: usize = 8;
