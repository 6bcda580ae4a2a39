//! Deadlines.

use std::collections::BTreeSet;
use std::time::Duration;

use super::group::bootstraps::BootstrapId;
use super::operation::OperationId;
use super::reviews::HeldGetId;
use super::watches::WatchId;
use crate::server::interface::UpcallId;
use crate::types::Time;

/// Kinds of deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    HeldGet(HeldGetId),
    Operation(OperationId),
    Upcall(UpcallId),
    /// The wait for registrations: after the host's answer, or before the host is asked.
    Registration(OperationId),
    /// The wait for decisions of handlers.
    Verdicts(OperationId),
    /// The wait for leaders.
    Bootstrap(BootstrapId),
    /// An interval in which a sign of life is due.
    Watch(WatchId),
    /// The next delivery of a pull.
    Output(u64),
    /// The report about lost connections.
    Losses,
    /// Ends of processes that the others do not know yet.
    EndNotices,
    /// Held requests whose review is due.
    Reviews,
    /// Operations whose processes have changed.
    Advances,
    /// Messages for many connections that are left.
    FanOut,
    /// Processes whose generated values are left.
    Generated,
}

/// Delay of the next step of work that is cut into steps. It comes in the next turn of the server: no earlier, and
/// hardly later.
pub(crate) const NEXT_STEP_IN: Duration = Duration::from_nanos(1);

/// Deadlines in order. The owner of a deadline stores its time, so that it can be removed again.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    armed: BTreeSet<(Time, Timer)>,
}

impl Timers {
    pub(crate) fn arm(&mut self, deadline: Option<Time>, timer: Timer) {
        if let Some(deadline) = deadline {
            self.armed.insert((deadline, timer));
        }
    }

    pub(crate) fn disarm(&mut self, deadline: Option<Time>, timer: Timer) {
        if let Some(deadline) = deadline {
            self.armed.remove(&(deadline, timer));
        }
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.armed.first().map(|(deadline, _)| *deadline)
    }

    /// Removes and returns the earliest due timer.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<Timer> {
        let due = *self.armed.first().filter(|(deadline, _)| *deadline <= now)?;
        self.armed.remove(&due);
        Some(due.1)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Time, Timer)> {
        self.armed.iter().copied()
    }
}
