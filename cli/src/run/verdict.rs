//! Decides the effect of a rank's end on the job and on the launcher's exit status.
//!
//! No processes here: facts in, decisions out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use modex::stderr_log::printable;
use modex::types::Time;
use nix::sys::signal::Signal;

use super::rank_id::{FIRST_JOB, RankId};

/// The message of `MPI_Abort` in Open MPI 4.1.
const NO_MESSAGE: &str = "N/A";

/// How a rank ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It returned this exit status.
    Exited(u8),
    /// This signal killed it.
    Signaled(i32),
}

impl Ending {
    /// The shell's number for it: the exit status, or 128 + signal.
    pub(super) fn shell_status(self) -> u8 {
        match self {
            Self::Exited(status) => status,
            Self::Signaled(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        }
    }

    pub(super) const fn is_success(self) -> bool {
        matches!(self, Self::Exited(0))
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "exited with status {status}"),
            Self::Signaled(signal) => match Signal::try_from(*signal) {
                Ok(name) => write!(f, "was killed by {name}"),
                Err(_) => write!(f, "was killed by signal {signal}"),
            },
        }
    }
}

/// Why a job is ended before its ranks end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// A rank failed.
    Rank {
        /// The rank.
        rank: RankId,
        /// The kind of end.
        ending: Ending,
        /// The process that asked for it (`PMIx_Job_control`), for people.
        by: Option<String>,
    },
    /// A rank connected and succeeded without finalizing. The others may wait for it for ever.
    Unfinalized {
        /// The rank.
        rank: RankId,
        /// The process that asked for its end, for people.
        by: Option<String>,
    },
    /// A rank failed because another rank had left the job without finalizing before.
    Left {
        /// The rank that left.
        rank: RankId,
        /// The kind of end, if it has ended already.
        ending: Option<Ending>,
        /// The process that asked for its end, for people.
        by: Option<String>,
        /// The rank that failed afterwards.
        failed: RankId,
        /// The kind of end.
        failure: Ending,
    },
    /// A rank asked for it (`PMIx_Abort`).
    Abort {
        /// The requester, for people.
        requester: String,
        /// The rank, if it is one of the launcher's.
        rank: Option<RankId>,
        /// The status it gave.
        status: i32,
        /// Its message.
        message: String,
    },
    /// A process asked for the end of all ranks (`PMIx_Job_control`).
    Asked {
        /// The process, for people.
        by: String,
        /// Whether the ranks get no time to end.
        is_kill: bool,
    },
    /// `--timeout` ran out.
    Timeout(Duration),
    /// A user or process sent the launcher this signal.
    Signal(i32),
    /// The tool that has started the launcher is gone.
    ToolGone,
}

impl Cause {
    /// The launcher's exit status.
    fn shell_status(&self) -> u8 {
        match self {
            Self::Rank { ending, .. } => ending.shell_status(),
            Self::Left { failure, .. } => failure.shell_status(),
            Self::Unfinalized { .. } | Self::ToolGone => 1,
            // Only eight bits reach the shell; a failure must not look like success.
            Self::Abort { status, .. } => u8::try_from(status & 0xFF).ok().filter(|s| *s != 0).unwrap_or(1),
            Self::Asked { .. } => u8::try_from(128 + self.request() as i32).unwrap_or(u8::MAX),
            Self::Timeout(_) => 124,
            Self::Signal(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        }
    }

    /// Whether a rank is the cause, so that the remaining ranks are the others.
    pub(super) const fn is_of_a_rank(&self) -> bool {
        matches!(
            self,
            Self::Rank { .. } | Self::Left { .. } | Self::Unfinalized { .. } | Self::Abort { rank: Some(_), .. }
        )
    }

    /// The signal that asks the ranks to end. An interrupt stays an interrupt, because many programs treat it
    /// differently.
    pub(super) fn request(&self) -> Signal {
        match self {
            Self::Signal(signal) if *signal == Signal::SIGINT as i32 => Signal::SIGINT,
            Self::Asked { is_kill: true, .. } => Signal::SIGKILL,
            _ => Signal::SIGTERM,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank { rank, ending, by } => write!(f, "{rank} {ending}{}", Request(by)),
            Self::Unfinalized { rank, by } => write!(f, "{rank} ended{} without finalizing", Request(by)),
            Self::Left { rank, ending: Some(ending), by, failed, failure } => {
                write!(f, "{rank} {ending}{} without finalizing, then {failed} {failure}", Request(by))
            }
            Self::Left { rank, ending: None, by, failed, failure } => {
                write!(f, "{rank} left the job{} without finalizing, then {failed} {failure}", Request(by))
            }
            Self::Asked { by, is_kill: true } => write!(f, "{} asked to kill all ranks", printable(by)),
            Self::Asked { by, is_kill: false } => write!(f, "{} asked to terminate all ranks", printable(by)),
            Self::Abort { requester, status, message, .. } if message.is_empty() || message == NO_MESSAGE => {
                write!(f, "{requester} aborted the job with status {status}")
            }
            Self::Abort { requester, status, message, .. } => {
                write!(f, "{requester} aborted the job with status {status}: {}", printable(message))
            }
            Self::Timeout(limit) => write!(f, "the job exceeded its time limit of {} s", limit.as_secs_f64()),
            Self::Signal(signal) => match Signal::try_from(*signal) {
                Ok(name) => write!(f, "received {name}"),
                Err(_) => write!(f, "received signal {signal}"),
            },
            Self::ToolGone => f.write_str("the tool that has started this launcher is gone"),
        }
    }
}

/// The words about the process that asked for an end.
struct Request<'a>(&'a Option<String>);

impl fmt::Display for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |by| write!(f, " at the request of {}", printable(by)))
    }
}

/// A request that sent a rank a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EndRequest {
    /// The requester, for people.
    pub(super) by: String,
    /// The signal; none if any end of the rank follows from the request.
    pub(super) signal: Option<i32>,
}

impl EndRequest {
    /// Whether it explains the way in which the rank ended.
    fn explains(&self, ending: Option<Ending>) -> bool {
        match (self.signal, ending) {
            (None, _) => true,
            (Some(signal), Some(Ending::Signaled(fatal))) => signal == fatal,
            (Some(_), _) => false,
        }
    }
}

/// The next step of the launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Tell the user why the job ends and ask the remaining ranks to stop.
    Stop {
        /// The event.
        cause: Cause,
        /// The number of ranks that still run.
        running: usize,
    },
    /// The grace period of an interrupt is over: ask the ranks that ignored it once more, as after a failure.
    Insist {
        /// The number of ranks that still run.
        running: usize,
    },
    /// The grace period is over: kill the remaining ranks.
    Kill,
}

/// The fate of the jobs.
#[derive(Debug)]
pub(super) struct Verdict {
    /// The ranks of all jobs that have not ended as a whole, and how they ended.
    endings: BTreeMap<RankId, Option<Ending>>,
    /// For each of these jobs, the number of ranks that have not ended.
    running: BTreeMap<u32, usize>,
    grace: Duration,
    time_limit: Option<(Time, Duration)>,
    stopped: Option<Stopped>,
    /// Whether a signal asked for the end, as the first cause or a later one.
    interrupted: bool,
    /// Ranks whose connection ended without finalize, in this order.
    left: Vec<RankId>,
    /// Ranks under whose name a process connected.
    connected: BTreeSet<RankId>,
    /// Ranks under whose name a process finalized.
    finalized: BTreeSet<RankId>,
    /// The last request for each rank that was sent a signal.
    requests: BTreeMap<RankId, EndRequest>,
    /// Spawned jobs that end by request. Their end is no failure.
    dismissed: BTreeSet<u32>,
    /// Spawned jobs whose failures have no effect on others.
    apart: BTreeSet<u32>,
}

#[derive(Debug)]
struct Stopped {
    cause: Cause,
    step: Step,
    /// The signals that all ranks were sent.
    sent: Vec<Signal>,
    /// When the next step is due.
    until: Time,
}

/// The stage of the ranks' end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// They were sent SIGINT.
    Interrupted,
    /// They were sent SIGTERM.
    Asked,
    /// They were sent SIGKILL.
    Killed,
}

impl Verdict {
    /// The first job with `rank_count` running ranks. After a failure the others get `grace` before they are killed.
    pub(super) fn new(rank_count: u32, grace: Duration) -> Self {
        let mut verdict = Self {
            endings: BTreeMap::new(),
            running: BTreeMap::new(),
            grace,
            time_limit: None,
            stopped: None,
            interrupted: false,
            left: Vec::new(),
            connected: BTreeSet::new(),
            finalized: BTreeSet::new(),
            requests: BTreeMap::new(),
            dismissed: BTreeSet::new(),
            apart: BTreeSet::new(),
        };
        verdict.add(FIRST_JOB, rank_count);
        verdict
    }

    /// A job with this many running ranks was spawned.
    pub(super) fn add(&mut self, job: u32, rank_count: u32) {
        self.endings.extend((0..rank_count).map(|rank| (RankId { job, rank }, None)));
        self.running.insert(job, usize::try_from(rank_count).unwrap_or(usize::MAX));
    }

    /// Whether all ranks of a job have ended.
    pub(super) fn is_over(&self, job: u32) -> bool {
        self.running.get(&job).is_none_or(|count| *count == 0)
    }

    /// Forgets a spawned job that is over, or could not be started.
    pub(super) fn remove(&mut self, job: u32) {
        self.endings.retain(|id, _| id.job != job);
        self.running.remove(&job);
        self.left.retain(|id| id.job != job);
        self.connected.retain(|id| id.job != job);
        self.finalized.retain(|id| id.job != job);
        self.requests.retain(|id, _| id.job != job);
        self.dismissed.remove(&job);
        self.apart.remove(&job);
    }

    /// The failures of a spawned job have no effect on others.
    pub(super) fn set_apart(&mut self, job: u32) {
        self.apart.insert(job);
    }

    /// The failure of a job that has no effect on others: that of its first failed rank.
    pub(super) fn failure_apart(&self, job: u32) -> Option<(Cause, Ending)> {
        let is_failed = |(_, ending): &(RankId, Option<Ending>)| ending.is_some_and(|ending| !ending.is_success());
        let (rank, ending) = self.ranks_of(job).filter(|_| self.apart.contains(&job)).find(is_failed)?;
        let by = self.requester_of_end(rank, ending);
        ending.map(|ending| (Cause::Rank { rank, ending, by }, ending))
    }

    /// A rank was sent a signal on request.
    pub(super) fn note_request(&mut self, rank: RankId, request: EndRequest) {
        self.requests.insert(rank, request);
    }

    /// Notes that ranks end by request. A spawned job that has no other running rank ends alone, without an effect on
    /// others.
    pub(super) fn dismiss(&mut self, ranks: &BTreeSet<RankId>) {
        let jobs: BTreeSet<u32> = ranks.iter().map(|rank| rank.job).filter(|job| *job != FIRST_JOB).collect();
        for job in jobs {
            if self.ranks_of(job).all(|(rank, ending)| ending.is_some() || ranks.contains(&rank)) {
                self.dismissed.insert(job);
            }
        }
    }

    /// Whether a job ends by request.
    pub(super) fn is_dismissed(&self, job: u32) -> bool {
        self.dismissed.contains(&job)
    }

    /// Whether these are all ranks that run.
    pub(super) fn are_all(&self, ranks: &BTreeSet<RankId>) -> bool {
        self.endings.iter().all(|(rank, ending)| ending.is_some() || ranks.contains(rank))
    }

    fn ranks_of(&self, job: u32) -> impl Iterator<Item = (RankId, Option<Ending>)> {
        let [first, last] = [0, u32::MAX].map(|rank| RankId { job, rank });
        self.endings.range(first..=last).map(|(id, ending)| (*id, *ending))
    }

    /// Ends the job if it still runs `limit` after `now`.
    pub(super) fn limit_time(&mut self, now: Time, limit: Duration) {
        self.time_limit = Some((now + limit, limit));
    }

    /// The time until the limit, if there is one.
    pub(super) fn time_left(&self, now: Time) -> Option<Duration> {
        Some(self.time_limit?.0.since(now))
    }

    /// A rank ended.
    #[must_use]
    pub(super) fn ended(&mut self, now: Time, rank: RankId, ending: Ending) -> Option<Action> {
        if let Some(slot) = self.endings.get_mut(&rank)
            && slot.replace(ending).is_none()
            && let Some(count) = self.running.get_mut(&rank.job)
        {
            *count = count.saturating_sub(1);
        }
        let cause = match self.left.iter().find(|left| left.job == rank.job) {
            _ if self.is_dismissed(rank.job) || self.apart.contains(&rank.job) => return None,
            _ if ending.is_success() && self.harms_others(rank) => {
                Cause::Unfinalized { rank, by: self.requester_of_end(rank, Some(ending)) }
            }
            _ if ending.is_success() => return None,
            Some(&first) if first != rank => {
                let of_first = self.ending_of(first);
                let by = self.requester_of_end(first, of_first);
                Cause::Left { rank: first, ending: of_first, by, failed: rank, failure: ending }
            }
            _ => Cause::Rank { rank, ending, by: self.requester_of_end(rank, Some(ending)) },
        };
        self.stop(now, cause)
    }

    /// The process whose request explains the end of a rank.
    fn requester_of_end(&self, rank: RankId, ending: Option<Ending>) -> Option<String> {
        self.requests.get(&rank).filter(|request| request.explains(ending)).map(|request| request.by.clone())
    }

    /// Whether a rank that succeeded left others behind that may wait for it. A rank that only started a program, or
    /// that never joined, does not.
    fn harms_others(&self, rank: RankId) -> bool {
        let may_wait =
            |(other, ending): (RankId, Option<Ending>)| other != rank && (ending.is_none() || self.is_in(other));
        self.is_in(rank) && self.has_left(rank) && self.ranks_of(rank.job).any(may_wait)
    }

    /// Whether a rank joined the job and has not finalized.
    pub(super) fn is_in(&self, rank: RankId) -> bool {
        self.connected.contains(&rank) && !self.finalized.contains(&rank)
    }

    /// Whether the server has seen the end of this rank's connection, without finalize.
    pub(super) fn has_left(&self, rank: RankId) -> bool {
        self.left.contains(&rank)
    }

    /// A process connected under the name of this rank.
    pub(super) fn connected(&mut self, rank: RankId) {
        self.connected.insert(rank);
    }

    /// Whether the first job has several ranks and none of them joined it.
    pub(super) fn is_joined_by_nobody(&self) -> bool {
        self.ranks_of(FIRST_JOB).nth(1).is_some() && self.connected.is_empty()
    }

    /// Whether a signal is what ended the job. Its ranks may not have had the time to join.
    pub(super) const fn is_cut_short(&self) -> bool {
        matches!(self.stopped, Some(Stopped { cause: Cause::Signal(_), .. }))
    }

    /// A process of this rank finalized.
    pub(super) fn finalized(&mut self, rank: RankId) {
        self.finalized.insert(rank);
    }

    /// A rank's connection to the server ended without finalize. Whether that is a failure shows when ranks end.
    pub(super) fn left(&mut self, rank: RankId) {
        self.left.push(rank);
    }

    /// Sorts ranks that ended together: the ones that left the job come first, in the order of leaving.
    pub(super) fn order_of_leaving(&self, rank: RankId) -> usize {
        self.left.iter().position(|left| *left == rank).unwrap_or(usize::MAX)
    }

    fn ending_of(&self, rank: RankId) -> Option<Ending> {
        *self.endings.get(&rank)?
    }

    /// The job must end. The first cause counts; a second signal from the user ends the grace period.
    #[must_use]
    pub(super) fn stop(&mut self, now: Time, cause: Cause) -> Option<Action> {
        self.interrupted |= matches!(cause, Cause::Signal(_));
        match &mut self.stopped {
            None => {
                let action = Action::Stop { cause: cause.clone(), running: self.running() };
                let step = match cause.request() {
                    Signal::SIGINT => Step::Interrupted,
                    Signal::SIGKILL => Step::Killed,
                    _ => Step::Asked,
                };
                self.stopped = Some(Stopped { sent: vec![cause.request()], cause, step, until: now + self.grace });
                Some(action)
            }
            Some(stopped) if matches!(cause, Cause::Signal(_)) && stopped.step != Step::Killed => {
                stopped.step = Step::Killed;
                stopped.sent.push(Signal::SIGKILL);
                Some(Action::Kill)
            }
            Some(_) => None,
        }
    }

    /// Time has passed.
    #[must_use]
    pub(super) fn tick(&mut self, now: Time) -> Option<Action> {
        let running = self.running();
        match &mut self.stopped {
            Some(stopped) if now < stopped.until => return None,
            Some(stopped) => {
                let (step, signal, action) = match stopped.step {
                    Step::Interrupted => (Step::Asked, Signal::SIGTERM, Action::Insist { running }),
                    Step::Asked => (Step::Killed, Signal::SIGKILL, Action::Kill),
                    Step::Killed => return None,
                };
                (stopped.step, stopped.until) = (step, now + self.grace);
                stopped.sent.push(signal);
                return Some(action);
            }
            None => {}
        }
        match self.time_limit {
            Some((end, limit)) if now >= end => self.stop(now, Cause::Timeout(limit)),
            _ => None,
        }
    }

    /// When [`Verdict::tick`] is due.
    pub(super) fn next_tick(&self) -> Option<Time> {
        match &self.stopped {
            Some(Stopped { step: Step::Killed, .. }) => None,
            Some(stopped) => Some(stopped.until),
            None => self.time_limit.map(|(end, _)| end),
        }
    }

    /// The time from which the launcher does not wait for a stuck reader: at once after a signal, else from the time
    /// limit.
    pub(super) fn patience_ends(&self) -> Option<Time> {
        if self.interrupted { Some(Time::ZERO) } else { self.time_limit.map(|(end, _)| end) }
    }

    /// Whether further jobs may start: nothing has ended the jobs, and ranks run.
    pub(super) fn permits_jobs(&self) -> bool {
        !self.is_stopped() && self.running() > 0
    }

    /// Whether a cause has ended the jobs.
    pub(super) const fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// The cause that has ended the jobs.
    pub(super) fn cause(&self) -> Option<&Cause> {
        self.stopped.as_ref().map(|stopped| &stopped.cause)
    }

    /// Whether all ranks of a job have ended well.
    pub(super) fn has_succeeded(&self, job: u32) -> bool {
        self.ranks_of(job).all(|(_, ending)| ending.is_some_and(Ending::is_success))
    }

    /// Whether a process has asked for this end of a rank.
    pub(super) fn has_request(&self, rank: RankId, ending: Ending) -> bool {
        self.requester_of_end(rank, Some(ending)).is_some()
    }

    /// Whether the launcher has sent this signal to all ranks.
    pub(super) fn has_sent(&self, signal: i32) -> bool {
        self.stopped.as_ref().is_some_and(|stopped| stopped.sent.iter().any(|sent| *sent as i32 == signal))
    }

    /// The ranks that have not ended.
    pub(super) fn running_ranks(&self) -> impl Iterator<Item = RankId> {
        self.endings.iter().filter(|(_, ending)| ending.is_none()).map(|(rank, _)| *rank)
    }

    /// The number of ranks that have not ended.
    pub(super) fn running(&self) -> usize {
        self.running.values().sum()
    }

    /// The number of running ranks besides the rank that is the cause. A rank that aborts the job may still run.
    pub(super) fn others(&self, cause: &Cause) -> usize {
        match cause {
            Cause::Abort { rank: Some(rank), .. } if self.ending_of(*rank).is_none() => {
                self.running().saturating_sub(1)
            }
            _ => self.running(),
        }
    }

    /// The grace period of the others after a failure.
    pub(super) const fn grace(&self) -> Duration {
        self.grace
    }

    /// The launcher's exit status after the end of all ranks: 0, or the status of the first cause.
    pub(super) fn shell_status(&self) -> u8 {
        let Some(stopped) = &self.stopped else { return 0 };
        let status = stopped.cause.shell_status();
        match stopped.cause {
            // The first rank to leave is the first to fail, even if its process ended later. The launcher may have
            // ended the process before it failed by itself.
            Cause::Left { rank, .. } => {
                let is_own = |ending: &Ending| match ending {
                    Ending::Signaled(signal) => !self.has_sent(*signal),
                    Ending::Exited(_) => !ending.is_success(),
                };
                self.ending_of(rank).filter(is_own).map_or(status, Ending::shell_status)
            }
            _ => status,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(2);

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn rank(rank: u32) -> RankId {
        RankId { job: FIRST_JOB, rank }
    }

    #[test]
    fn a_job_whose_ranks_all_succeed_succeeds() {
        let mut verdict = Verdict::new(2, GRACE);
        assert_eq!(verdict.ended(at(0), rank(0), Ending::Exited(0)), None);
        assert_eq!(verdict.ended(at(1), rank(1), Ending::Exited(0)), None);
        assert_eq!((verdict.running(), verdict.shell_status()), (0, 0));
        assert!(verdict.is_over(FIRST_JOB));
    }

    #[test]
    fn the_first_failure_stops_the_others_and_gives_the_status() {
        let mut verdict = Verdict::new(3, GRACE);
        let cause = Cause::Rank { rank: rank(1), ending: Ending::Signaled(9), by: None };
        assert_eq!(verdict.ended(at(0), rank(1), Ending::Signaled(9)), Some(Action::Stop { cause, running: 2 }));
        assert_eq!(verdict.ended(at(0), rank(0), Ending::Exited(3)), None);
        assert_eq!(verdict.ended(at(0), rank(2), Ending::Signaled(15)), None);
        assert_eq!(verdict.shell_status(), 137);
    }

    #[test]
    fn the_failure_of_a_job_that_is_set_apart_has_no_effect_on_others() {
        let mut verdict = Verdict::new(1, GRACE);
        let daemon = |rank| RankId { job: 1, rank };
        verdict.add(1, 2);
        verdict.set_apart(1);
        assert_eq!(verdict.failure_apart(1), None);
        assert_eq!(verdict.ended(at(0), daemon(1), Ending::Signaled(9)), None);
        let ending = Ending::Signaled(9);
        assert_eq!(verdict.failure_apart(1), Some((Cause::Rank { rank: daemon(1), ending, by: None }, ending)));
        assert_eq!(verdict.ended(at(0), daemon(0), Ending::Exited(0)), None);
        verdict.remove(1);
        assert_eq!((verdict.failure_apart(1), verdict.is_stopped()), (None, false));
        assert!(verdict.ended(at(1), rank(0), Ending::Exited(1)).is_some());
        assert_eq!(verdict.failure_apart(FIRST_JOB), None);
    }

    #[test]
    fn ranks_that_ignore_the_request_are_killed_after_the_grace_period() {
        let mut verdict = Verdict::new(2, GRACE);
        assert!(verdict.ended(at(10), rank(0), Ending::Exited(1)).is_some());
        assert_eq!(verdict.next_tick(), Some(at(12)));
        assert_eq!(verdict.tick(at(11)), None);
        assert_eq!(verdict.tick(at(12)), Some(Action::Kill));
        assert_eq!(verdict.tick(at(13)), None);
        assert_eq!(verdict.next_tick(), None);
    }

    /// Regression: a rank died, and the others failed in their fence. They ended before the kernel had finished with
    /// the first, and were blamed. The rank that left the job first is to blame.
    #[test]
    fn the_rank_that_left_first_is_blamed_although_others_end_before_it() {
        let mut verdict = Verdict::new(2, GRACE);
        verdict.left(rank(1));
        let failure = Ending::Exited(9);
        let cause = Cause::Left { rank: rank(1), ending: None, by: None, failed: rank(0), failure };
        assert_eq!(cause.to_string(), "rank 1 left the job without finalizing, then rank 0 exited with status 9");
        assert_eq!(verdict.ended(at(0), rank(0), failure), Some(Action::Stop { cause, running: 1 }));
        assert_eq!(verdict.ended(at(0), rank(1), Ending::Exited(101)), None);
        assert_eq!(verdict.shell_status(), 101);
    }

    /// Two ranks failed in the same fence. The launcher's own signal ended the first of them, and gave the status 143.
    #[test]
    fn the_signal_of_the_launcher_is_no_failure_of_a_rank() {
        let mut verdict = Verdict::new(2, GRACE);
        verdict.left(rank(1));
        assert!(verdict.ended(at(0), rank(0), Ending::Exited(1)).is_some());
        assert_eq!(verdict.ended(at(0), rank(1), Ending::Signaled(15)), None);
        assert_eq!(verdict.shell_status(), 1);
        // The rank ignored the first signal.
        let mut verdict = Verdict::new(2, GRACE);
        verdict.left(rank(1));
        assert!(verdict.ended(at(0), rank(0), Ending::Exited(1)).is_some());
        assert_eq!(verdict.tick(at(2)), Some(Action::Kill));
        assert_eq!(verdict.ended(at(2), rank(1), Ending::Signaled(9)), None);
        assert_eq!(verdict.shell_status(), 1);
    }

    #[test]
    fn a_rank_that_left_but_succeeded_is_named_with_the_status_of_the_one_that_failed() {
        let mut verdict = Verdict::new(2, GRACE);
        verdict.left(rank(1));
        assert_eq!(verdict.ended(at(0), rank(1), Ending::Exited(0)), None);
        let Some(Action::Stop { cause, .. }) = verdict.ended(at(0), rank(0), Ending::Exited(9)) else { panic!() };
        assert_eq!(
            cause.to_string(),
            "rank 1 exited with status 0 without finalizing, then rank 0 exited with status 9"
        );
        assert_eq!(verdict.shell_status(), 9);
    }

    /// A rank of three called `exit(0)` after Init, and the others waited for it in a barrier for ever.
    #[test]
    fn a_rank_that_joins_and_succeeds_without_finalizing_ends_the_job() {
        let mut verdict = Verdict::new(3, GRACE);
        (0..3).for_each(|number| verdict.connected(rank(number)));
        verdict.finalized(rank(0));
        assert_eq!(verdict.ended(at(0), rank(0), Ending::Exited(0)), None);
        verdict.left(rank(1));
        let cause = Cause::Unfinalized { rank: rank(1), by: None };
        assert_eq!(cause.to_string(), "rank 1 ended without finalizing");
        assert_eq!(verdict.ended(at(0), rank(1), Ending::Exited(0)), Some(Action::Stop { cause, running: 1 }));
        assert_eq!(verdict.shell_status(), 1);
    }

    #[test]
    fn a_rank_that_harms_nobody_need_not_finalize() {
        // It is alone, has not joined, has finalized in one of two processes, or its connection lives on in a child.
        let mut alone = Verdict::new(1, GRACE);
        alone.connected(rank(0));
        alone.left(rank(0));
        assert_eq!(alone.ended(at(0), rank(0), Ending::Exited(0)), None);
        let mut verdict = Verdict::new(4, GRACE);
        (1..3).for_each(|number| verdict.connected(rank(number)));
        verdict.left(rank(1));
        verdict.finalized(rank(1));
        for number in 0..3 {
            assert_eq!(verdict.ended(at(0), rank(number), Ending::Exited(0)), None);
        }
    }

    #[test]
    fn a_job_of_one_rank_or_with_a_rank_that_joined_is_joined_by_somebody() {
        let mut verdict = Verdict::new(2, GRACE);
        assert!(verdict.is_joined_by_nobody() && !Verdict::new(1, GRACE).is_joined_by_nobody());
        verdict.connected(rank(1));
        assert!(!verdict.is_joined_by_nobody() && !verdict.is_cut_short());
        assert!(verdict.stop(at(0), Cause::Signal(2)).is_some() && verdict.is_cut_short());
    }

    #[test]
    fn the_time_limit_ends_the_job_with_status_124() {
        let mut verdict = Verdict::new(1, GRACE);
        verdict.limit_time(at(0), Duration::from_secs(5));
        assert_eq!(verdict.tick(at(4)), None);
        assert!(matches!(verdict.tick(at(5)), Some(Action::Stop { cause: Cause::Timeout(_), running: 1 })));
        assert_eq!(verdict.shell_status(), 124);
    }

    #[test]
    fn an_interrupt_is_passed_on_as_one_and_followed_by_what_follows_a_failure() {
        let mut verdict = Verdict::new(2, GRACE);
        let cause = Cause::Signal(2);
        assert_eq!(cause.request(), Signal::SIGINT);
        assert_eq!(verdict.stop(at(0), cause.clone()), Some(Action::Stop { cause, running: 2 }));
        assert_eq!(verdict.ended(at(1), rank(0), Ending::Exited(1)), None);
        assert_eq!((verdict.tick(at(1)), verdict.next_tick()), (None, Some(at(2))));
        let sent = |verdict: &Verdict| [2, 15, 9].map(|signal| verdict.has_sent(signal));
        assert_eq!(sent(&verdict), [true, false, false]);
        assert_eq!(verdict.tick(at(2)), Some(Action::Insist { running: 1 }));
        assert_eq!(sent(&verdict), [true, true, false]);
        assert_eq!((verdict.tick(at(3)), verdict.next_tick()), (None, Some(at(4))));
        assert_eq!(verdict.tick(at(4)), Some(Action::Kill));
        assert_eq!(sent(&verdict), [true; 3]);
        assert_eq!((verdict.tick(at(6)), verdict.next_tick(), verdict.shell_status()), (None, None, 130));
    }

    #[test]
    fn other_signals_and_timeouts_end_a_job_with_sigterm() {
        for cause in [Cause::Signal(15), Cause::Signal(1), Cause::Timeout(GRACE)] {
            assert_eq!(cause.request(), Signal::SIGTERM);
        }
    }

    #[test]
    fn a_second_signal_ends_the_grace_period() {
        let mut verdict = Verdict::new(1, GRACE);
        assert!(matches!(verdict.stop(at(0), Cause::Signal(2)), Some(Action::Stop { .. })));
        assert_eq!(verdict.stop(at(0), Cause::Signal(2)), Some(Action::Kill));
        assert_eq!(verdict.shell_status(), 130);
    }

    #[test]
    fn patience_with_readers_ends_at_the_time_limit_or_with_a_signal_whatever_ended_the_job() {
        let mut verdict = Verdict::new(1, GRACE);
        assert!(verdict.ended(at(0), rank(0), Ending::Exited(1)).is_some());
        assert_eq!(verdict.patience_ends(), None);
        verdict.limit_time(at(0), Duration::from_secs(5));
        assert_eq!(verdict.patience_ends(), Some(at(5)));
        assert_eq!(verdict.stop(at(1), Cause::Signal(2)), Some(Action::Kill));
        assert_eq!((verdict.patience_ends(), verdict.shell_status()), (Some(Time::ZERO), 1));
    }

    fn asked_by(by: &str, signal: Option<i32>) -> EndRequest {
        EndRequest { by: by.to_owned(), signal }
    }

    #[test]
    fn the_cause_names_the_process_that_asked_for_the_end() {
        for (signal, ending, expected) in [
            (Some(9), Ending::Signaled(9), "rank 1 was killed by SIGKILL at the request of rank 0"),
            (Some(10), Ending::Signaled(11), "rank 1 was killed by SIGSEGV"),
            (None, Ending::Exited(3), "rank 1 exited with status 3 at the request of rank 0"),
        ] {
            let mut verdict = Verdict::new(3, GRACE);
            verdict.note_request(rank(1), asked_by("rank 0", signal));
            let Some(Action::Stop { cause, running: 2 }) = verdict.ended(at(0), rank(1), ending) else { panic!() };
            assert_eq!(cause.to_string(), expected);
            assert_eq!(verdict.shell_status(), ending.shell_status());
        }
        let mut verdict = Verdict::new(2, GRACE);
        verdict.note_request(rank(1), asked_by("rank 0", None));
        verdict.left(rank(1));
        let Some(Action::Stop { cause, .. }) = verdict.ended(at(0), rank(0), Ending::Exited(1)) else { panic!() };
        let expected =
            "rank 1 left the job at the request of rank 0 without finalizing, then rank 0 exited with status 1";
        assert_eq!(cause.to_string(), expected);
    }

    #[test]
    fn a_spawned_job_that_ends_by_request_is_no_failure_unless_some_of_its_ranks_remain() {
        let of_job = |rank| RankId { job: 1, rank };
        let mut verdict = Verdict::new(1, GRACE);
        verdict.add(1, 3);
        assert_eq!(verdict.ended(at(0), of_job(0), Ending::Exited(0)), None);
        let some = BTreeSet::from([of_job(1)]);
        verdict.dismiss(&some);
        assert!(!verdict.is_dismissed(1) && !verdict.are_all(&some));
        let all = BTreeSet::from([of_job(1), of_job(2)]);
        verdict.dismiss(&all);
        assert!(verdict.is_dismissed(1) && !verdict.are_all(&all));
        for number in [1, 2] {
            assert_eq!(verdict.ended(at(0), of_job(number), Ending::Signaled(9)), None);
        }
        assert!(verdict.is_over(1) && verdict.are_all(&BTreeSet::from([rank(0)])));
        verdict.dismiss(&BTreeSet::from([rank(0)]));
        assert!(verdict.ended(at(0), rank(0), Ending::Signaled(9)).is_some(), "the first job ends all");
    }

    #[test]
    fn a_request_to_kill_all_leaves_no_time_and_one_to_terminate_does() {
        for (is_kill, status, next) in [(true, 137, None), (false, 143, Some(at(2)))] {
            let mut verdict = Verdict::new(2, GRACE);
            let cause = Cause::Asked { by: "tool\u{1b}.0".into(), is_kill };
            let words = if is_kill { "kill" } else { "terminate" };
            assert!(cause.to_string().ends_with(&format!(" asked to {words} all ranks")));
            assert!(!cause.to_string().contains('\u{1b}'));
            assert_eq!(verdict.stop(at(0), cause.clone()), Some(Action::Stop { cause, running: 2 }));
            assert_eq!((verdict.next_tick(), verdict.shell_status()), (next, status));
        }
    }

    #[test]
    fn an_abort_with_a_status_that_looks_like_success_is_still_a_failure() {
        let mut verdict = Verdict::new(1, GRACE);
        let cause =
            Cause::Abort { requester: "rank 0".into(), rank: Some(rank(0)), status: 256, message: "N/A".into() };
        assert_eq!(cause.to_string(), "rank 0 aborted the job with status 256");
        assert!(verdict.stop(at(0), cause).is_some());
        assert_eq!(verdict.shell_status(), 1);
    }
}
