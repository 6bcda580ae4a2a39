//! The processes of a fence whose server generates values for the other nodes (`PMIX_COLLECT_GENERATED_JOB_INFO`).

use crate::types::{ProcId, Status};

/// The processes in the order of their wishes: first those without values, then the number of those that wait for the
/// topology.
#[derive(Debug, Default)]
pub(crate) struct GeneratedValues {
    wishes: Vec<ProcId>,
    awaited: usize,
    is_wished: bool,
    is_required: bool,
    failure: Option<Status>,
}

impl GeneratedValues {
    /// A process has arrived with the wish.
    pub(crate) fn wish(&mut self, proc: ProcId, is_required: bool) {
        self.wishes.push(proc);
        self.is_wished = true;
        self.is_required |= is_required;
    }

    /// Whether a process has had the wish.
    pub(crate) const fn is_wished(&self) -> bool {
        self.is_wished
    }

    /// Takes the processes that have come since the last call.
    pub(crate) fn take_wishes(&mut self) -> Vec<ProcId> {
        std::mem::take(&mut self.wishes)
    }

    /// The values of one process wait for the topology.
    pub(crate) const fn await_one(&mut self) {
        self.awaited = self.awaited.saturating_add(1);
    }

    /// The values of one process are there, or it has none.
    pub(crate) const fn note_one(&mut self) {
        self.awaited = self.awaited.saturating_sub(1);
    }

    /// The values of a process can't be generated or stored.
    pub(crate) const fn fail(&mut self, status: Status) {
        self.failure = Some(status);
    }

    /// Why the fence fails: it requires values that are not there.
    pub(crate) fn refusal(&self) -> Option<Status> {
        self.failure.filter(|_| self.is_required)
    }

    /// Whether values of processes wait for the topology.
    pub(crate) const fn are_awaited(&self) -> bool {
        self.awaited > 0
    }
}
