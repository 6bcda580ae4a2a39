//! A window of time in which the ends of processes give fewer events. Without a window each event is reported at once.
//!
//! - Losses of connections wait for the end of the window, and become one event about all processes.
//! - Equal events about an abnormal end are reported once. The first one is reported at once.
//!
//! Source: OpenPMIx (`pmix_event_caching_window`), which joins losses of connections alone, and begins the window anew with
//! each of them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::cache::size;
use super::event::Event;
use crate::keys;
use crate::types::codes::range;
use crate::types::{DataArray, DataType, Info, Key, ProcId, Status, Time, Value};

/// The window, the losses that wait, and the last events. `O` is the origin of an event.
#[derive(Debug)]
pub struct EventWindow<O> {
    length: Duration,
    /// Processes with a lost connection.
    lost: Vec<ProcId>,
    /// The time of their report.
    due: Option<Time>,
    /// Reported events, the oldest first.
    recent: VecDeque<Recent<O>>,
}

#[derive(Debug)]
struct Recent<O> {
    reported: Time,
    event: Arc<Event>,
    origin: O,
}

impl<O: PartialEq> EventWindow<O> {
    /// A window of this length. Zero: no window.
    #[must_use]
    pub const fn new(length: Duration) -> Self {
        Self { length, lost: Vec::new(), due: None, recent: VecDeque::new() }
    }

    /// The connection of a process is lost. Returns the report if it must not wait.
    pub fn lose(&mut self, now: Time, proc: ProcId) -> Option<Event> {
        if !self.lost.contains(&proc) {
            self.lost.push(proc);
        }
        if self.length.is_zero() || self.lost.len() >= LOST_MAX {
            return self.take_losses();
        }
        self.due.get_or_insert_with(|| now + self.length);
        None
    }

    /// The time of the report about the waiting losses.
    #[must_use]
    pub const fn due(&self) -> Option<Time> {
        self.due
    }

    /// The report about all waiting losses. The first process is its source, as in OpenPMIx.
    pub fn take_losses(&mut self) -> Option<Event> {
        self.due = None;
        let lost = std::mem::take(&mut self.lost);
        let source = Some(lost.first()?.clone());
        let info = match lost.as_slice() {
            [one] => vec![Info::new(Key::from_static(keys::EVENT_AFFECTED_PROC.name()), one.clone())],
            _ => about_many(lost),
        };
        Some(Event { status: Status::ERR_LOST_CONNECTION, source, range: range::RANGE_PROC_LOCAL, info })
    }

    /// Whether an equal event of the same origin was reported within the window, about an abnormal end. The report of
    /// another event is noted.
    pub fn is_repeated(&mut self, now: Time, event: &Arc<Event>, origin: O) -> bool {
        if self.length.is_zero() || !event.is_about_abnormal_end() {
            return false;
        }
        while self.recent.front().is_some_and(|oldest| now.since(oldest.reported) >= self.length) {
            self.recent.pop_front();
        }
        if size(event, COMPARED_BYTES_MAX).is_none() {
            return false;
        }
        if self.recent.iter().any(|recent| recent.origin == origin && recent.event == *event) {
            return true;
        }
        if self.recent.len() >= RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(Recent { reported: now, event: Arc::clone(event), origin });
        false
    }
}

/// The infos of OpenPMIx, the last process first, and that of the standard.
fn about_many(lost: Vec<ProcId>) -> Vec<Info> {
    let others = lost.iter().skip(1).rev();
    let mut info: Vec<Info> =
        others.map(|proc| Info::new(Key::from_static(keys::PROCID.name()), proc.clone())).collect();
    let elements = lost.into_iter().map(Value::from).collect();
    let affected = Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements }));
    info.push(Info::new(Key::from_static(keys::EVENT_AFFECTED_PROCS.name()), affected));
    info
}

/// Processes in one report. Further ones are in the next report.
const LOST_MAX: usize = 1024;
/// Remembered events. Beyond them, a repeated event may be reported again.
const RECENT_MAX: usize = 64;
/// Memory of an event that is remembered. A larger event is always reported.
const COMPARED_BYTES_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Namespace, Rank};

    const SECOND: Duration = Duration::from_secs(1);

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    fn proc(rank: u32) -> ProcId {
        ProcId::new(Namespace::new("job").unwrap(), rank)
    }

    fn aborted(rank: u32) -> Arc<Event> {
        let source = Some(proc(rank));
        Arc::new(Event { status: Status::ERR_PROC_ABORTED, source, range: range::RANGE_GLOBAL, info: Vec::new() })
    }

    fn affected(event: &Event) -> Vec<Rank> {
        event.affected().iter().map(|proc| proc.rank).collect()
    }

    #[test]
    fn losses_in_a_window_give_one_report_about_all() {
        let mut window = EventWindow::<u8>::new(SECOND);
        for rank in 0..10 {
            assert_eq!(window.lose(at(u64::from(rank) * 99), proc(rank)), None);
            assert_eq!(window.lose(at(u64::from(rank) * 99), proc(rank)), None, "it has come and gone again");
        }
        assert_eq!(window.due(), Some(at(1000)), "the window begins with the first");
        let report = window.take_losses().unwrap();
        assert_eq!((report.source.as_ref(), affected(&report).len()), (Some(&proc(0)), 10));
        let listed = report.info.iter().filter(|info| info.key.as_str() == keys::PROCID.name());
        assert_eq!(listed.map(|info| info.value.clone()).next(), Some(Value::from(proc(9))));
        assert_eq!((window.take_losses(), window.due()), (None, None));
        assert_eq!(window.lose(at(2000), proc(0)), None);
        assert_eq!((window.due(), affected(&window.take_losses().unwrap()).len()), (Some(at(3000)), 1));
    }

    #[test]
    fn a_report_has_a_bounded_number_of_processes() {
        let mut window = EventWindow::<u8>::new(SECOND);
        let count = u32::try_from(LOST_MAX).unwrap();
        assert!((1..count).all(|rank| window.lose(at(0), proc(rank)).is_none()));
        assert_eq!(affected(&window.lose(at(1), proc(count)).unwrap()).len(), LOST_MAX);
        assert_eq!(window.due(), None);
    }

    #[test]
    fn without_a_window_each_event_is_reported_at_once() {
        let mut window = EventWindow::new(Duration::ZERO);
        assert!((0..3).all(|_| window.lose(at(0), proc(1)).is_some_and(|event| event.affected() == [&proc(1)])));
        assert!((0..3).all(|_| !window.is_repeated(at(0), &aborted(1), 0)));
        assert_eq!((window.recent.len(), window.due()), (0, None));
    }

    #[test]
    fn equal_aborts_of_one_origin_are_repeated_until_the_window_ends() {
        let mut window = EventWindow::new(SECOND);
        let reports = (0..10).filter(|time| !window.is_repeated(at(time * 100), &aborted(1), 0)).count();
        assert_eq!(reports, 1);
        assert!(!window.is_repeated(at(999), &aborted(2), 0), "another source");
        assert!(!window.is_repeated(at(999), &aborted(1), 1), "another origin");
        let with = |info| Arc::new(Event { info: vec![info], ..(*aborted(1)).clone() });
        assert!(!window.is_repeated(at(999), &with(Info::new(Key::from_static("a"), 1_u32)), 0), "other infos");
        let local = Arc::new(Event { range: range::RANGE_LOCAL, ..(*aborted(1)).clone() });
        assert!(!window.is_repeated(at(999), &local, 0), "another range");
        assert!(!window.is_repeated(at(1000), &aborted(1), 0), "the window does not begin anew with each event");
        assert!(window.is_repeated(at(1001), &aborted(1), 0));
    }

    /// A program may count its own events. OpenPMIx reports each of them.
    #[test]
    fn events_about_no_abnormal_end_are_never_repeated() {
        let mut window = EventWindow::new(SECOND);
        for status in [Status::from_raw(-1001), Status::DEBUGGER_RELEASE, Status::EVENT_PROC_TERMINATED] {
            let event = Arc::new(Event { status, ..(*aborted(1)).clone() });
            assert!((0..3).all(|_| !window.is_repeated(at(0), &event, 0)), "{status}");
        }
    }

    #[test]
    fn the_memory_for_events_is_bounded() {
        let mut window = EventWindow::new(SECOND);
        let count = u32::try_from(RECENT_MAX).unwrap();
        assert!((0..=count).all(|rank| !window.is_repeated(at(0), &aborted(rank), 0)));
        assert_eq!(window.recent.len(), RECENT_MAX);
        assert!(!window.is_repeated(at(0), &aborted(0), 0), "the oldest is forgotten");
        let large = Info::new(Key::from_static("a"), vec![0_u8; COMPARED_BYTES_MAX]);
        let large = Arc::new(Event { info: vec![large], ..(*aborted(1)).clone() });
        assert!((0..2).all(|_| !window.is_repeated(at(0), &large, 0)));
    }
}
