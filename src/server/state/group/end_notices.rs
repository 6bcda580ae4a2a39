//! Ends of processes that other members of their groups do not know yet.
//!
//! An end may concern thousands of groups and operations, and so may the next one. Each is kept once, with the last
//! group or operation whose members were informed.

use std::collections::{BTreeMap, VecDeque};

use crate::server::interface::GroupOperation;
use crate::server::state::operation::OperationId;
use crate::server::state::signature::{CollectiveKind, Signature};
use crate::types::{Namespace, ProcId, Text, Time};

/// Ends of processes that others do not know yet, in order.
#[derive(Debug, Default)]
pub(crate) struct EndNotices {
    ended: VecDeque<EndedProcess>,
    /// The same by job.
    of_jobs: BTreeMap<Namespace, OfJob>,
    /// The next step.
    due: Option<Time>,
}

/// One end of a process.
#[derive(Debug)]
pub(crate) struct EndedProcess {
    pub(crate) proc: ProcId,
    /// The last groups and operations before the end. Later ones are without this process.
    pub(crate) groups_until: u64,
    pub(crate) operations_until: OperationId,
    /// The groups or operations whose members know.
    pub(crate) progress: NoticeProgress,
}

/// The progress of the news of an end. Groups come before operations.
#[derive(Clone, Debug)]
pub(crate) enum NoticeProgress {
    /// Groups up to this name.
    Groups(Option<Text>),
    /// All groups, and operations up to this one.
    Operations(Option<OperationId>),
}

/// Ended processes of one job.
#[derive(Debug)]
struct OfJob {
    count: usize,
    /// The last operation that an end concerns.
    until: OperationId,
}

impl EndNotices {
    pub(crate) fn len(&self) -> usize {
        self.ended.len()
    }

    pub(crate) const fn due(&self) -> Option<Time> {
        self.due
    }

    /// Adds an end.
    pub(crate) fn push(&mut self, ended: EndedProcess) {
        let until = ended.operations_until;
        let of_job = self.of_jobs.entry(ended.proc.namespace.clone()).or_insert(OfJob { count: 0, until });
        of_job.count = of_job.count.saturating_add(1);
        of_job.until = until;
        self.ended.push_back(ended);
    }

    /// The first end.
    pub(crate) fn first(&self) -> Option<&EndedProcess> {
        self.ended.front()
    }

    /// Notes how far the news of the first end has come.
    pub(crate) fn advance(&mut self, progress: NoticeProgress) {
        if let Some(first) = self.ended.front_mut() {
            first.progress = progress;
        }
    }

    /// All know of the first end.
    pub(crate) fn finish(&mut self) {
        let Some(EndedProcess { proc, .. }) = self.ended.pop_front() else { return };
        if let Some(of_job) = self.of_jobs.get_mut(&proc.namespace) {
            of_job.count = of_job.count.saturating_sub(1);
            if of_job.count == 0 {
                self.of_jobs.remove(&proc.namespace);
            }
        }
    }

    /// Takes the time of the next step.
    pub(crate) const fn take_due(&mut self) -> Option<Time> {
        self.due.take()
    }

    /// Sets the time of the next step.
    pub(crate) const fn set_due(&mut self, due: Time) {
        self.due = Some(due);
    }

    /// Whether the processes of an operation do not know yet about an end in one of its jobs. Only constructions of
    /// groups wait for that.
    pub(crate) fn holds_up(&self, id: OperationId, signature: &Signature) -> bool {
        if self.ended.is_empty() || !matches!(signature.kind, CollectiveKind::Group(GroupOperation::Construct, _)) {
            return false;
        }
        match self.of_jobs.len() < signature.procs.len() {
            true => self.of_jobs.keys().any(|namespace| signature.names(namespace) && self.is_ahead(id, namespace)),
            false => signature.procs.namespaces().any(|namespace| self.is_ahead(id, namespace)),
        }
    }

    /// Whether the processes of an operation do not know yet about all ends in a job.
    fn is_ahead(&self, id: OperationId, namespace: &Namespace) -> bool {
        let Some(OfJob { count, until }) = self.of_jobs.get(namespace) else { return false };
        let first = self.ended.front().filter(|first| *count == 1 && first.proc.namespace == *namespace);
        let is_announced =
            |first: &EndedProcess| matches!(first.progress, NoticeProgress::Operations(Some(last)) if id <= last);
        id <= *until && !first.is_some_and(is_announced)
    }
}
