//! The effects of every event of a participant on an operation of many processes. One table covers fence, connect,
//! disconnect, and the forming and dissolving of groups. Only this table decides.
//!
//! A participant that finalized may come back (MPI sessions do, ten thousand times), so operations wait for it until
//! the host reports its end. They do not wait for a lost or ended participant. A contribution counts, even if its
//! process ends.

/// The progress of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CollectivePhase {
    /// Local participants are missing.
    Gathering,
    /// The local phase is over: the host works on it, or has answered.
    Closed,
}

/// The standing of a local participant in an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// Has not arrived yet.
    Expected,
    /// Has not arrived, and has finalized; may come back.
    Away,
    /// Has contributed.
    Arrived,
    /// Ended, or left the group, without having arrived.
    Departed,
}

/// Events of a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Happening {
    /// It wants to take part, on a connection that does not wait for this operation.
    Arrive,
    /// It arrives again on a connection that waits for this operation: it has raced ahead.
    Repeat,
    /// Its last connection finalized.
    Finalize,
    /// It connected again.
    Return,
    /// Its last connection broke, or the host reported its end.
    Die,
    /// It left the operation's group.
    Leave,
    /// The operation's timeout.
    TimeOut,
}

/// Effects of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    /// Nothing.
    Nothing,
    /// It has arrived, and waits for the end.
    Count,
    /// It waits for the end along with the first connection: a clone.
    WaitAlong,
    /// It means the next operation of the same participants, which is opened if there is none.
    Next,
    /// The operation no longer waits for it.
    Depart,
    /// The operation ends for all participants, with a timeout.
    End,
}

/// The table.
pub(crate) const fn effect(phase: CollectivePhase, standing: Standing, happening: Happening) -> Effect {
    use CollectivePhase::{Closed, Gathering};
    use Effect::{Count, Depart, End, Next, Nothing, WaitAlong};
    use Happening::{Arrive, Die, Finalize, Leave, Repeat, Return, TimeOut};
    use Standing::{Arrived, Away, Departed, Expected};
    match (phase, standing, happening) {
        (Gathering, Expected | Away | Departed, Arrive) => Count,
        (Gathering, Arrived, Arrive) => WaitAlong,
        (Gathering, Expected | Away | Departed | Arrived, Repeat) => Next,
        (Gathering, Expected | Away, Die | Leave) => Depart,
        (Gathering, Arrived | Departed, Die | Leave) => Nothing,
        (Gathering, Expected | Away | Arrived | Departed, Finalize | Return) => Nothing,
        (Gathering, Expected | Away | Arrived | Departed, TimeOut) => End,
        // The other servers have it already: no process can join, and no loss changes it. The host has a timeout of its
        // own.
        (Closed, Expected | Away | Arrived | Departed, Arrive | Repeat) => Next,
        (Closed, Expected | Away | Arrived | Departed, Finalize | Return | Die | Leave | TimeOut) => Nothing,
    }
}

/// The table that a core uses. Tests insert defects, to see that checks find them.
#[derive(Clone, Copy)]
pub(crate) struct TransitionTable(pub(crate) fn(CollectivePhase, Standing, Happening) -> Effect);

impl Default for TransitionTable {
    fn default() -> Self {
        Self(effect)
    }
}

impl std::fmt::Debug for TransitionTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Table")
    }
}
