//! The work of the server's thread, and its longest turn: a request may wait that long.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::memfd::{MFdFlags, memfd_create};
use parking_lot::Mutex;

use super::poller::Token;
use super::process_ends::ProcessEnds;
use crate::proto::Command;
use crate::server::{Input, PeerId};
use crate::types::Time;

/// The work of a server's thread so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Turns: each handles everything that was ready.
    pub turns: u64,
    /// Handled requests.
    pub requests: u64,
    /// The most requests of other processes that were handled while a process's first request waited. Counts only
    /// processes that had not used more of the server's time than others.
    pub requests_waited_max: u64,
    /// The longest turn since the server's start, or since the last one was taken.
    pub longest: Option<LongestTurn>,
}

/// A turn of the server's thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongestTurn {
    /// Its duration. Other processes may have had the processor meanwhile.
    pub time: Duration,
    /// Its longest part: the work and its process.
    pub cause: String,
    /// The duration of that part.
    pub cause_time: Duration,
}

/// Record of the loop's work, for other threads.
#[derive(Clone, Debug, Default)]
pub(super) struct WorkRecord(Arc<Record>);

#[derive(Debug, Default)]
struct Record {
    turns: AtomicU64,
    requests: AtomicU64,
    waited: AtomicU64,
    longest: Mutex<Option<LongestTurn>>,
}

impl WorkRecord {
    pub(super) fn read(&self) -> Work {
        // Relaxed, here and at the writes: no other data depends on these counts.
        let counts = [&self.0.turns, &self.0.requests, &self.0.waited];
        let [turns, requests, requests_waited_max] = counts.map(|count| count.load(Ordering::Relaxed));
        Work { turns, requests, requests_waited_max, longest: self.0.longest.lock().clone() }
    }

    /// Takes the longest turn. The record starts again with the next turn.
    pub(super) fn take_longest(&self) -> Option<LongestTurn> {
        self.0.longest.lock().take()
    }
}

/// The work of a part of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Request(PeerId, Command),
    /// A later part of a request that takes several.
    Rest(PeerId),
    Introduction(PeerId),
    Loss(PeerId),
    Reading(PeerId),
    ProcessEnd(PeerId),
    Accepting,
    Call(&'static str),
    Deadlines,
    Writing,
}

impl Task {
    pub(super) const fn of_input(input: &Input) -> Self {
        match input {
            Input::Connected(peer, _) | Input::ToolConnected(peer, _) | Input::ParentConnected(peer, _) => {
                Self::Introduction(*peer)
            }
            Input::Proceed(peer) => Self::Rest(*peer),
            Input::Lost(peer) => Self::Loss(*peer),
            Input::Host(..) => Self::Call("a call of the host"),
            Input::Completed(..) => Self::Call("an answer of the host"),
            Input::Topology(_) => Self::Call("the topology"),
            Input::FileSeen(..) => Self::Call("the state of a file"),
            Input::Request(..) | Input::Heartbeat(_) | Input::Timeout | Input::Closing => Self::Deadlines,
        }
    }

    pub(super) const fn of_token(token: Token) -> Self {
        match ProcessEnds::whose(token) {
            Some(peer) => Self::ProcessEnd(peer),
            None => Self::Reading(PeerId(token.0)),
        }
    }

    pub(super) const fn peer(self) -> Option<PeerId> {
        match self {
            Self::Request(peer, _)
            | Self::Rest(peer)
            | Self::Introduction(peer)
            | Self::Loss(peer)
            | Self::Reading(peer)
            | Self::ProcessEnd(peer) => Some(peer),
            Self::Accepting | Self::Call(_) | Self::Deadlines | Self::Writing => None,
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(_, command) => write!(f, "request {command:?}"),
            Self::Rest(_) => f.write_str("rest of a request"),
            Self::Introduction(_) => f.write_str("introduction"),
            Self::Loss(_) => f.write_str("end of a connection"),
            Self::Reading(_) => f.write_str("reading"),
            Self::ProcessEnd(_) => f.write_str("end of a process"),
            Self::Accepting => f.write_str("accepting connections"),
            Self::Call(what) => f.write_str(what),
            Self::Deadlines => f.write_str("deadlines"),
            Self::Writing => f.write_str("writing to connections"),
        }
    }
}

/// Measures the turns of one loop.
#[derive(Debug)]
pub(super) struct WorkMeter {
    record: WorkRecord,
    start: Time,
    last: Time,
    largest: Option<(Duration, Task)>,
    file: Option<File>,
}

impl WorkMeter {
    pub(super) fn new(record: WorkRecord) -> Self {
        // Without it, `modex inspect` shows no turns, but the server works.
        let file = memfd_create(TURNS_REPORT, MFdFlags::MFD_CLOEXEC).ok().map(File::from);
        let (start, last) = (Time::ZERO, Time::ZERO);
        Self { record, start, last, largest: None, file }
    }

    /// Begins a turn.
    pub(super) fn begin(&mut self, now: Time) {
        (self.start, self.last, self.largest) = (now, now, None);
    }

    /// Books the time since the last note on this task.
    pub(super) fn note(&mut self, now: Time, task: Task) {
        let time = now.since(self.last);
        self.last = now;
        if self.largest.is_none_or(|(largest, _)| time > largest) {
            self.largest = Some((time, task));
        }
        if matches!(task, Task::Request(..)) {
            self.record.0.requests.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The time of this turn up to the last note.
    pub(super) fn time(&self) -> Duration {
        self.last.since(self.start)
    }

    /// The time of the last note.
    pub(super) const fn last(&self) -> Time {
        self.last
    }

    /// Ends a turn. `waited` is the most requests that any process has waited for. If the turn was the longest so far,
    /// `name` gives the owner of its longest part.
    pub(super) fn end(&mut self, waited: u64, name: impl FnOnce(PeerId) -> Option<String>) {
        self.record.0.turns.fetch_add(1, Ordering::Relaxed);
        self.record.0.waited.store(waited, Ordering::Relaxed);
        let time = self.last.since(self.start);
        let Some((cause_time, task)) = self.largest else { return };
        let mut record = self.record.0.longest.lock();
        if record.as_ref().is_some_and(|longest| time <= longest.time) {
            return;
        }
        let peer = task.peer().map(|peer| name(peer).unwrap_or_else(|| format!("connection {}", peer.0)));
        let cause = peer.map_or_else(|| task.to_string(), |peer| format!("{task} of {peer}"));
        let longest = LongestTurn { time, cause, cause_time };
        if let Some(file) = &self.file {
            // A reader may get a mixture of two reports, once.
            let report = longest.report();
            let _ = file
                .write_all_at(report.as_bytes(), 0)
                .and_then(|()| file.set_len(report.len().try_into().unwrap_or(0)));
        }
        *record = Some(longest);
    }
}

impl LongestTurn {
    fn report(&self) -> String {
        format!("{} {} {}\n", self.time.as_micros(), self.cause_time.as_micros(), self.cause)
    }

    /// Parses a server's report of its longest turn; times are in microseconds.
    #[must_use]
    pub fn of_report(report: &str) -> Option<Self> {
        let mut parts = report.trim_end().splitn(3, ' ');
        let mut micros = || parts.next()?.parse().ok().map(Duration::from_micros);
        let (time, cause_time) = (micros()?, micros()?);
        Some(Self { time, cause_time, cause: parts.next()?.to_owned() })
    }
}

/// The name of the memory object with a server's report, without the kernel's `memfd:`.
pub const TURNS_REPORT: &str = "modex-turns";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_turn_names_the_part_that_took_longest() {
        let record = WorkRecord::default();
        let mut meter = WorkMeter::new(record.clone());
        let at = |us: u64| Time::from_nanos(us * 1000);
        let (commit, fence) = (Task::Request(PeerId(7), Command::Commit), Task::Request(PeerId(8), Command::Fence));
        for (start, parts) in
            [(0, [(5, commit), (6, fence)]), (100, [(110, fence), (130, commit)]), (200, [(201, fence), (220, fence)])]
        {
            meter.begin(at(start));
            parts.into_iter().for_each(|(end, task)| meter.note(at(end), task));
            meter.end(4, |peer| (peer == PeerId(7)).then(|| "job.3".to_owned()));
        }
        let longest = LongestTurn {
            time: Duration::from_micros(30),
            cause: "request Commit of job.3".to_owned(),
            cause_time: Duration::from_micros(20),
        };
        assert_eq!(LongestTurn::of_report(&longest.report()), Some(longest.clone()));
        let work = Work { turns: 3, requests: 6, requests_waited_max: 4, longest: Some(longest.clone()) };
        assert_eq!((record.read(), record.take_longest()), (work, Some(longest)));
        // A turn shorter than the one that was taken.
        meter.begin(at(300));
        meter.note(at(301), fence);
        meter.end(4, |_| None);
        assert_eq!(record.read().longest.map(|longest| longest.time), Some(Duration::from_micros(1)));
    }

    #[test]
    fn a_malformed_text_is_no_report() {
        for text in ["", "7", "7 8", "x y z"] {
            assert_eq!(LongestTurn::of_report(text), None, "{text:?}");
        }
    }
}
