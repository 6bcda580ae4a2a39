//! Operations over jobs that their server has not heard of, where the host tells it of some only when it is asked to connect
//! to them, and of those that have processes there less than a second after anybody can name them, or is told so.
//!
//! What must hold of them there, besides what always does:
//!
//! 1. A connect goes up as soon as nothing but registrations is missing: nobody else could ask for them. Who of those that are
//!    known to be there has gone is missing, and the host is told so.
//! 2. It still gathers then: processes of jobs that are registered meanwhile join it, and its time limit ends it.
//! 3. It ends well, or in part, when the host has agreed and all jobs are registered and all their processes there have come or
//!    gone; or when a second has passed in which it lacked nothing but registrations: then jobs that are not registered have nobody
//!    there. Not earlier, and not later. Who has gone in between is missing.
//! 4. A disconnect goes up when it has lacked nothing but registrations for that second, neither earlier nor later; operations on
//!    groups that the host forms, which have no account, not earlier (`forming`).
//! 5. Fences wait for all registrations. So do all operations where the host is of the usual kind.

use std::collections::BTreeSet;
use std::time::Duration;

use modex::proto::Tag;
use modex::server::{PeerId, UpcallId};
use modex::types::Time;

use super::{Gathering, Gatherings, HOST_TIMEOUT, Kind, ServerId, Stage};

/// What a server knows of who must come to an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Knowledge {
    /// Not all processes of a job are announced, or a job is not registered.
    #[default]
    Little,
    /// All of the jobs that it has heard of, which are these processes: others are not registered.
    ButForJobs(BTreeSet<u32>),
    Whole,
}

/// How an operation stands that lacks registrations.
#[derive(Debug, Default)]
pub(super) struct Lacking {
    /// When the host was asked all the same, and whether it has agreed.
    asked: Option<Time>,
    has_agreed: Option<bool>,
    /// When it first lacked nothing but registrations, and since when that is so without a break; of a connect, once the host has
    /// agreed.
    first: Option<Time>,
    since: Option<Time>,
}

impl Kind {
    /// Whether it does not wait for jobs for ever where the host knows some that servers do not.
    pub(crate) const fn goes_on_without_jobs(&self) -> bool {
        matches!(self, Self::Connect | Self::Disconnect)
    }
}

impl Gathering {
    /// Whether all jobs and processes are registered.
    pub(crate) fn is_defined(&self) -> bool {
        self.knowledge == Knowledge::Whole
    }

    /// Who has not come of those whom its server knows to be there.
    pub(crate) fn missing_known(&self) -> BTreeSet<u32> {
        let known = match &self.knowledge {
            Knowledge::ButForJobs(known) => known,
            Knowledge::Little | Knowledge::Whole => &self.expected,
        };
        known.difference(&self.contributed).copied().collect()
    }

    /// Who of them could have come.
    pub(crate) fn left_out_known(&self) -> Option<u32> {
        self.missing_known().difference(&self.departed).next().copied()
    }

    fn lacks_only_jobs(&self) -> bool {
        matches!(self.knowledge, Knowledge::ButForJobs(_)) && self.left_out_known().is_none()
    }

    fn has_waited(&self, now: Time) -> bool {
        self.lacking.first.is_some_and(|first| first + REGISTERED_WITHIN <= now)
    }

    /// Whether the local phase of one that went up ahead is over.
    pub(super) fn is_closed(&self, now: Time) -> bool {
        let is_complete = self.is_defined() && self.left_out().is_none();
        is_complete || self.has_waited(now) && self.lacks_only_jobs()
    }

    /// Whether it can be joined.
    pub(super) fn takes_more(&self, now: Time) -> bool {
        match self.stage {
            Stage::Gathering => true,
            Stage::Ahead => !self.is_closed(now),
            Stage::AtHost(_) => false,
        }
    }

    /// It goes up, perhaps before all jobs are registered.
    pub(super) fn go_up(&mut self, kind: &Kind, upcall: UpcallId, now: Time) {
        if *kind == Kind::Connect && self.lacks_only_jobs() {
            self.stage = Stage::Ahead;
            self.lacking.asked = Some(now);
        } else {
            self.stage = Stage::AtHost(upcall);
            self.deadline = None;
        }
    }

    /// Whether it goes up, or has gone, before it may.
    pub(crate) fn is_premature(&self, kind: &Kind, now: Time) -> bool {
        match kind {
            _ if self.is_defined() => false,
            Kind::Connect => !self.lacks_only_jobs(),
            Kind::Disconnect => !(self.lacks_only_jobs() && self.has_waited(now)),
            Kind::Fence | Kind::Construct(_) | Kind::Destruct(_) => true,
        }
    }

    /// What is wrong with its end, if it went up ahead and has brought about something.
    pub(super) fn objection(&self, now: Time) -> Option<String> {
        if self.stage != Stage::Ahead {
            return None;
        }
        match self.left_out() {
            _ if self.lacking.has_agreed != Some(true) => Some("before the host has agreed".to_owned()),
            Some(process) => Some(format!("without waiting for process {process}")),
            None => (!self.is_closed(now)).then(|| "before its jobs are registered".to_owned()),
        }
    }

    /// Takes note of what it lacks. A step is over.
    pub(super) fn note_lacking(&mut self, kind: &Kind, now: Time) {
        let is_begun = match self.stage {
            Stage::Gathering => *kind == Kind::Disconnect,
            Stage::Ahead => self.lacking.has_agreed == Some(true),
            Stage::AtHost(_) => false,
        };
        let is_lacking = is_begun && self.lacks_only_jobs();
        self.lacking.since = self.lacking.since.filter(|_| is_lacking).or(is_lacking.then_some(now));
        self.lacking.first = self.lacking.first.or(self.lacking.since);
    }

    /// Whether it should have gone on.
    pub(super) fn is_overdue(&self, kind: &Kind, is_oldest: bool, now: Time) -> bool {
        let has_lacked_long = || self.lacking.since.is_some_and(|since| since + REGISTERED_WITHIN < now);
        match self.stage {
            Stage::Gathering if *kind == Kind::Connect => self.lacks_only_jobs(),
            Stage::Gathering => has_lacked_long(),
            Stage::Ahead => {
                let is_complete = self.is_defined() && self.left_out().is_none();
                is_oldest && self.lacking.has_agreed == Some(true) && (is_complete || has_lacked_long())
            }
            Stage::AtHost(_) => false,
        }
    }

    /// Whether one that went up ahead, and that nobody waits for any more, has ended without a word.
    pub(super) fn has_ended_unseen(&self, is_oldest: bool, now: Time) -> bool {
        let Some(asked) = self.lacking.asked.filter(|_| self.waiting.is_empty()) else { return false };
        match self.lacking.has_agreed {
            Some(true) => self.is_closed(now),
            Some(false) => is_oldest,
            None => is_oldest && asked + HOST_TIMEOUT <= now,
        }
    }
}

impl Gatherings {
    /// The host answers: it agrees to a connect, be it without some, or does not.
    pub(crate) fn answered(&mut self, server: ServerId, upcall: UpcallId, agrees: bool) {
        let Some((signature, number)) = self.by_upcall.get(&(server, upcall)).cloned() else { return };
        let operations = self.places.get_mut(&(server, signature));
        if let Some(operation) = operations.and_then(|all| all.iter_mut().find(|op| op.number == number)) {
            operation.lacking.has_agreed.get_or_insert(agrees);
        }
    }

    /// A connection that waits at an operation which went up ahead, has its answer, and still lacks somebody.
    pub(crate) fn somebody_ahead(&self, server: ServerId, now: Time) -> Option<(PeerId, Tag)> {
        let operations = self.places.iter().filter(|((of, _), _)| *of == server).flat_map(|(_, all)| all);
        let is_ahead =
            |op: &&Gathering| op.stage == Stage::Ahead && op.lacking.has_agreed == Some(true) && !op.is_closed(now);
        let mut waiting = operations.filter(is_ahead).flat_map(|op| &op.waiting);
        waiting.next().map(|(peer, arrival)| (*peer, arrival.tag))
    }
}

/// Within less than this a host tells of a job that has processes where it is named.
pub(crate) const REGISTERED_WITHIN: Duration = Duration::from_secs(1);
