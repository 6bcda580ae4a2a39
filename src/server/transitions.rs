//! What everything that can happen to a participant does to an operation of many processes: one table for fence, connect,
//! disconnect, and the forming and dissolving of groups. The core asks it; nothing else decides.
//!
//! A participant that left in order may come back (MPI sessions do, ten thousand times), so it is waited for until the
//! host says that it has ended. One that is lost, or that the host says has ended, is not. What somebody contributed
//! counts, whatever becomes of it.

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Local participants are missing.
    Gathering,
    /// The local phase is over: the host works on it, or has answered.
    Closed,
}

/// Where a local participant stands in an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// Has not come yet.
    Expected,
    /// Has not come, and left in order; may come back.
    Away,
    /// Has contributed.
    Arrived,
    /// Ended, or left the group, without having come.
    Departed,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Happening {
    /// It asks to take part, on a connection that does not wait for this operation.
    Arrive,
    /// It asks again on a connection that waits for this operation: it has raced ahead.
    Repeat,
    /// Its last connection left in order.
    Finalize,
    /// It connected again.
    Return,
    /// Its last connection broke, or the host says that it has ended.
    Die,
    /// It left the group that the operation is about.
    Leave,
    /// The operation's time is over.
    TimeOut,
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Effect {
    /// Nothing.
    Nothing,
    /// It has arrived, and waits for the end.
    Count,
    /// It waits for the end along with the connection that came first: a clone.
    WaitAlong,
    /// This is about the next operation of the same participants, which is opened if there is none.
    Next,
    /// It is no longer waited for.
    Depart,
    /// The operation ends for everybody, with a timeout.
    End,
}

/// The table.
pub(super) const fn effect(phase: Phase, standing: Standing, happening: Happening) -> Effect {
    use Effect::{Count, Depart, End, Next, Nothing, WaitAlong};
    use Happening::{Arrive, Die, Finalize, Leave, Repeat, Return, TimeOut};
    use Phase::{Closed, Gathering};
    use Standing::{Arrived, Away, Departed, Expected};
    match (phase, standing, happening) {
        (Gathering, Expected | Away | Departed, Arrive) => Count,
        (Gathering, Arrived, Arrive) => WaitAlong,
        (Gathering, Expected | Away | Departed | Arrived, Repeat) => Next,
        (Gathering, Expected | Away, Die | Leave) => Depart,
        (Gathering, Arrived | Departed, Die | Leave) => Nothing,
        (Gathering, Expected | Away | Arrived | Departed, Finalize | Return) => Nothing,
        (Gathering, Expected | Away | Arrived | Departed, TimeOut) => End,
        // The others have it already: nobody joins any more, and no loss changes it. The host keeps its own time.
        (Closed, Expected | Away | Arrived | Departed, Arrive | Repeat) => Next,
        (Closed, Expected | Away | Arrived | Departed, Finalize | Return | Die | Leave | TimeOut) => Nothing,
    }
}

/// The table that a core goes by. Tests plant defects in it, to see that they are found.
#[derive(Clone, Copy)]
pub(super) struct Table(pub(super) fn(Phase, Standing, Happening) -> Effect);

impl Default for Table {
    fn default() -> Self {
        Self(effect)
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Table")
    }
}
