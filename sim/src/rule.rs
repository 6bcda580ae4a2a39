//! The rules of the standard and of the cores that a run may break.

use std::fmt;

/// A rule of the standard, or of the cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Every accepted request and every call is answered exactly once.
    AnsweredOnce,
    /// Every accepted request and every call is answered before its deadline.
    BeforeDeadline,
    /// Nobody waits for a value that is there, or for a process that can't come any more.
    NoWaitInVain,
    /// No Get without a time limit misses a value while a collecting fence may still bring it.
    NoEarlyMiss,
    /// No collective operation succeeds with a participant or its values missing.
    NothingMissing,
    /// Nobody reads a value that its scope forbids.
    Scope,
    /// A published value stays readable and unchanged, and no older value ever comes back.
    StaysReadable,
    /// After the last deregistration nothing remains.
    NothingRemains,
    /// Equal fetches share one question to the host.
    FetchedOnce,
    /// The lost server's clients learn of it at once.
    LossReported,
    /// A group has exactly the processes that accepted it or were to form it, and all members hear the same.
    Membership,
    /// Every process that wants an event and is its target gets it once.
    EventOnce,
    /// A node is in one allocation, and returned nodes are free.
    NodesOnce,
    /// Each pull gets each piece of output once.
    OutputOnce,
    /// The cores' own assertions hold.
    Consistent,
    /// The same seed gives the same steps.
    SameAgain,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AnsweredOnce => "every accepted request is answered exactly once",
            Self::BeforeDeadline => "every accepted request is answered before its deadline",
            Self::NoWaitInVain => "no call waits for present data or for an ended process",
            Self::NoEarlyMiss => "no Get misses a value that a fence in progress may bring",
            Self::NothingMissing => "no operation succeeds with a contribution missing",
            Self::Scope => "no process reads a value that its scope forbids",
            Self::StaysReadable => "published values stay readable and unchanged",
            Self::NothingRemains => "nothing remains after the last deregistration",
            Self::FetchedOnce => "equal fetches share one upcall",
            Self::LossReported => "calls end at once when their server is lost",
            Self::Membership => "a group has exactly its expected members, and all learn the same list",
            Self::EventOnce => "an event reaches each of its targets once",
            Self::NodesOnce => "a node is in one allocation, and returned nodes are free",
            Self::OutputOnce => "a pull gets each piece of output once, in order",
            Self::Consistent => "the cores' own assertions hold",
            Self::SameAgain => "a seed replays identically, step for step",
        })
    }
}

/// A rule that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The rule.
    pub rule: Rule,
    /// The event that broke it.
    pub what: String,
}
