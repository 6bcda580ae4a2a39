//! Ends of processes that other members of their groups do not know yet.

use std::collections::VecDeque;

use crate::server::state::operation::OperationId;
use crate::types::{ProcId, Text, Time};

/// Ends of processes that others do not know yet, in order.
#[derive(Debug, Default)]
pub(crate) struct Mourning {
    left: VecDeque<(ProcId, Loss)>,
    /// The next step.
    due: Option<Time>,
}

/// The group or operation that has lost the process.
#[derive(Debug)]
pub(crate) enum Loss {
    Group(Text),
    Operation(OperationId),
}

impl Mourning {
    pub(crate) fn len(&self) -> usize {
        self.left.len()
    }

    pub(crate) const fn due(&self) -> Option<Time> {
        self.due
    }

    /// Adds losses, in order.
    pub(crate) fn extend(&mut self, losses: impl IntoIterator<Item = (ProcId, Loss)>) {
        self.left.extend(losses);
    }

    /// Takes the next loss.
    pub(crate) fn pop(&mut self) -> Option<(ProcId, Loss)> {
        self.left.pop_front()
    }

    /// Takes the time of the next step.
    pub(crate) const fn take_due(&mut self) -> Option<Time> {
        self.due.take()
    }

    /// Sets the time of the next step.
    pub(crate) const fn set_due(&mut self, due: Time) {
        self.due = Some(due);
    }

    /// Whether the others do not know yet about all of these processes.
    pub(crate) fn is_about<'a>(&self, mut procs: impl Iterator<Item = &'a ProcId>) -> bool {
        procs.all(|proc| self.left.iter().any(|(of, _)| of == proc))
    }
}
