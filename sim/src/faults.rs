//! Faults that a run may have, and defects that can be planted.

use std::fmt;
use std::str::FromStr;

use super::rule::Rule;

bitflags::bitflags! {
    /// Kinds of faults.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Faults: u32 {
        /// Some of the host's answers and messages take long.
        const DELAY = 1;
        /// The host's answers come in any order.
        const REORDER = 1 << 1;
        /// The host never answers an upcall.
        const LOSS = 1 << 2;
        /// The host answers an upcall twice.
        const DUPLICATE = 1 << 3;
        /// The host answers before the server has done anything else.
        const INLINE = 1 << 4;
        /// The host answers when the server has given up.
        const LATE = 1 << 5;
        /// The host says no.
        const REFUSE = 1 << 6;
        /// A process is killed.
        const DIE = 1 << 7;
        /// A process neither acts nor reads any more.
        const HANG = 1 << 8;
        /// A process sends more than a server takes.
        const FLOOD = 1 << 9;
        /// A process is stopped for a minute.
        const STOP = 1 << 10;
        /// A process finalizes and initialises again.
        const REINIT = 1 << 11;
        /// A process replaces itself without finalizing.
        const EXEC = 1 << 12;
        /// A process forks, and its child connects under the same name.
        const CLONE = 1 << 13;
        /// A server is killed, and a new one takes its place.
        const SERVER = 1 << 14;
        /// A node dies with all that runs there.
        const NODE = 1 << 15;
        /// The host takes a process, or a job, away in the middle.
        const DEREGISTER = 1 << 16;
        /// A job is registered late on some nodes.
        const UNREGISTERED = 1 << 17;
        /// A process is killed while a forked child, which never execs, keeps its connection open.
        const FORK = 1 << 18;
    }
}

impl Faults {
    /// Each kind on its own, in order.
    pub fn kinds() -> impl Iterator<Item = Self> {
        Self::all().iter()
    }

    /// The number of a single kind, which selects its stream.
    pub(super) const fn number(self) -> u32 {
        self.bits().trailing_zeros()
    }
}

/// The words that `--faults` takes, besides `none` and `all`.
impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        if self.is_all() {
            return f.write_str("all");
        }
        let words: Vec<String> = self.iter_names().map(|(name, _)| name.to_lowercase()).collect();
        f.write_str(&words.join(","))
    }
}

/// A word that names no fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownFault {
    /// No kind of fault.
    #[error("{word:?} is not a kind of fault; use all, none, canary, canary:KIND, or a list of: {}", Faults::words())]
    Fault {
        /// The word as written.
        word: String,
    },
    /// No planted defect.
    #[error("{word:?} is not a canary; use canary for all of them, or canary: and one of: {}", Canary::words())]
    Canary {
        /// The word as written.
        word: String,
    },
}

impl Faults {
    fn words() -> String {
        Self::all().iter_names().map(|(name, _)| name.to_lowercase()).collect::<Vec<_>>().join(" ")
    }
}

impl FromStr for Faults {
    type Err = UnknownFault;

    fn from_str(text: &str) -> Result<Self, UnknownFault> {
        match text {
            "all" => return Ok(Self::all()),
            "none" => return Ok(Self::empty()),
            _ => {}
        }
        let kind = |word: &str| {
            Self::from_name(&word.trim().to_uppercase()).ok_or_else(|| UnknownFault::Fault { word: word.to_owned() })
        };
        text.split(',').map(kind).try_fold(Self::empty(), |all, kind| Ok(all | kind?))
    }
}

/// A defect planted in the simulation's own wiring, to show that the checker finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// The host leaves the values of one process out of a fence's result.
    FenceData,
    /// A participant is released before the others have come.
    FenceEarly,
    /// A reply never leaves the server.
    ReplyLost,
    /// A reply leaves the server twice.
    ReplyTwice,
    /// A server is not told that a deadline has come.
    Deadline,
    /// The store keeps a value of scope local as one of scope global.
    ScopeLeak,
    /// The store reports a commit as kept, and does not keep it.
    LostCommit,
    /// The store changes a value.
    ChangedValue,
    /// The store keeps a deregistered job.
    Leak,
    /// The same fetch is asked of the host a second time.
    FetchTwice,
    /// A lost client is not noticed by its server.
    DeafServer,
    /// A lost server is not noticed by its clients.
    DeafClient,
    /// An earlier run of the thread changes this one.
    Memory,
    /// The leader of an invitation takes a decline for an acceptance.
    RefusalIgnored,
    /// A member is told another number of its group.
    OtherNumber,
    /// An event never leaves the server for one process that wants it.
    EventLost,
    /// A process that accepts an invitation hears that there is no group.
    GivenUp,
    /// A process that accepts too late hears nothing.
    LateAnswerLost,
    /// A server never hears of the members that the leader of a group adds.
    AddedLost,
    /// An operation does not wait for a job that will be registered later.
    JobUnawaited,
    /// A server whose members have all left a group is not asked for its part in the group's end.
    QuestionLost,
    /// A member of a group over several nodes is told of one member less.
    MemberLost,
    /// A server passes an early answer of the host on before all jobs are registered and their processes have come.
    AheadEarly,
    /// The scheduler believes that an allocation has been returned.
    NodeTwice,
    /// Forwarded output never leaves the server.
    OutputLost,
    /// The same, for a tool.
    ToolOutputLost,
}

impl Canary {
    /// All kinds, with the words for them.
    pub const ALL: [(&'static str, Self); 26] = [
        ("fence-data", Self::FenceData),
        ("fence-early", Self::FenceEarly),
        ("reply-lost", Self::ReplyLost),
        ("reply-twice", Self::ReplyTwice),
        ("deadline", Self::Deadline),
        ("scope-leak", Self::ScopeLeak),
        ("lost-commit", Self::LostCommit),
        ("changed-value", Self::ChangedValue),
        ("leak", Self::Leak),
        ("fetch-twice", Self::FetchTwice),
        ("deaf-server", Self::DeafServer),
        ("deaf-client", Self::DeafClient),
        ("memory", Self::Memory),
        ("refusal-ignored", Self::RefusalIgnored),
        ("other-number", Self::OtherNumber),
        ("event-lost", Self::EventLost),
        ("given-up", Self::GivenUp),
        ("late-answer-lost", Self::LateAnswerLost),
        ("added-lost", Self::AddedLost),
        ("job-unawaited", Self::JobUnawaited),
        ("question-lost", Self::QuestionLost),
        ("member-lost", Self::MemberLost),
        ("ahead-early", Self::AheadEarly),
        ("node-twice", Self::NodeTwice),
        ("output-lost", Self::OutputLost),
        ("tool-output-lost", Self::ToolOutputLost),
    ];

    fn words() -> String {
        Self::ALL.map(|(word, _)| word).join(" ")
    }

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }

    /// The rules that it breaks. A defect counts as found if one of these rules finds it.
    #[must_use]
    pub const fn rules(self) -> &'static [Rule] {
        match self {
            Self::FenceData | Self::FenceEarly | Self::JobUnawaited | Self::AheadEarly => &[Rule::NothingMissing],
            Self::ReplyLost => &[Rule::BeforeDeadline, Rule::NoWaitInVain],
            Self::LateAnswerLost | Self::QuestionLost => &[Rule::NoWaitInVain],
            Self::Deadline => &[Rule::BeforeDeadline],
            Self::ReplyTwice => &[Rule::AnsweredOnce],
            Self::ScopeLeak => &[Rule::Scope],
            Self::NodeTwice => &[Rule::NodesOnce],
            Self::OutputLost | Self::ToolOutputLost => &[Rule::OutputOnce],
            Self::LostCommit => &[Rule::NothingMissing, Rule::StaysReadable, Rule::NoWaitInVain],
            Self::ChangedValue => &[Rule::StaysReadable],
            Self::Leak => &[Rule::NothingRemains],
            Self::FetchTwice => &[Rule::FetchedOnce],
            Self::DeafServer => &[Rule::NoWaitInVain, Rule::AnsweredOnce, Rule::NothingRemains],
            Self::DeafClient => &[Rule::LossReported],
            Self::Memory => &[Rule::SameAgain],
            Self::RefusalIgnored | Self::OtherNumber | Self::GivenUp | Self::AddedLost | Self::MemberLost => {
                &[Rule::Membership]
            }
            // A member's answer to an invitation is an event, too.
            Self::EventLost => &[Rule::EventOnce, Rule::Membership],
        }
    }

    /// The faults that give the defect an opportunity.
    #[must_use]
    pub const fn faults(self) -> Faults {
        match self {
            Self::DeafClient => Faults::SERVER,
            Self::DeafServer => Faults::DIE,
            // With any fault the membership is not counted at the end, so the events must show the defect.
            Self::GivenUp => Faults::DUPLICATE,
            Self::LateAnswerLost => Faults::STOP,
            Self::JobUnawaited => Faults::UNREGISTERED,
            _ => Faults::empty(),
        }
    }
}

impl FromStr for Canary {
    type Err = UnknownFault;

    fn from_str(text: &str) -> Result<Self, UnknownFault> {
        let found = Self::ALL.iter().find(|(word, _)| *word == text);
        found.map(|(_, kind)| *kind).ok_or_else(|| UnknownFault::Canary { word: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_as_they_are_written() {
        for faults in Faults::kinds().chain([Faults::all(), Faults::empty(), Faults::DIE | Faults::LOSS]) {
            assert_eq!(faults.to_string().parse(), Ok(faults));
        }
        assert_eq!("die,fire".parse::<Faults>(), Err(UnknownFault::Fault { word: "fire".to_owned() }));
    }

    #[test]
    fn canaries_are_read_as_they_are_written() {
        for (word, kind) in Canary::ALL {
            assert_eq!((word.parse(), kind.word()), (Ok(kind), word));
        }
    }
}
