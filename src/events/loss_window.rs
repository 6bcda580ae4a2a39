//! A window of time in which the losses of connections give one event about all processes. Without a window each loss
//! gives one.
//!
//! Source: OpenPMIx (`pmix_event_caching_window`), which begins the window anew with each loss.

use std::time::Duration;

use super::event::Event;
use crate::keys;
use crate::types::codes::range;
use crate::types::{DataArray, DataType, Info, Key, ProcId, Status, Time, Value};

/// The window, and the losses that wait.
#[derive(Debug)]
pub struct LossWindow {
    length: Duration,
    /// Processes with a lost connection.
    lost: Vec<ProcId>,
    /// The time of their report.
    due: Option<Time>,
}

impl LossWindow {
    /// A window of this length. Zero: no window.
    #[must_use]
    pub const fn new(length: Duration) -> Self {
        Self { length, lost: Vec::new(), due: None }
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

    fn affected(event: &Event) -> Vec<Rank> {
        event.affected().iter().map(|proc| proc.rank).collect()
    }

    #[test]
    fn losses_in_a_window_give_one_report_about_all() {
        let mut window = LossWindow::new(SECOND);
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
        let mut window = LossWindow::new(SECOND);
        let count = u32::try_from(LOST_MAX).unwrap();
        assert!((1..count).all(|rank| window.lose(at(0), proc(rank)).is_none()));
        assert_eq!(affected(&window.lose(at(1), proc(count)).unwrap()).len(), LOST_MAX);
        assert_eq!(window.due(), None);
    }

    #[test]
    fn without_a_window_each_loss_is_reported_at_once() {
        let mut window = LossWindow::new(Duration::ZERO);
        assert!((0..3).all(|_| window.lose(at(0), proc(1)).is_some_and(|event| event.affected() == [&proc(1)])));
        assert_eq!(window.due(), None);
    }
}
