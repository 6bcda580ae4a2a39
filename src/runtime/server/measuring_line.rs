//! The order of measurements: in pieces, by turns of users and processes.
//!
//! A request is measured in pieces. After each one [`Turns`] chooses the next process. So a small request waits for few
//! pieces of large ones. Requests of one process keep their order. A removal waits for no turn.
//!
//! A request with a period waits here for its next round, too.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use super::service_desk::may_take_all;
use super::turns::{Share, Turns};
use crate::server::UserShares;
use crate::types::{ProcId, Time};

/// A request: its process and a number.
pub(super) type RequestId = (ProcId, u64);

/// The requests, each with its state.
pub(super) struct MeasuringLine<T> {
    requests: BTreeMap<RequestId, Request<T>>,
    turns: Turns<RequestId>,
    /// The requests that wait for a time.
    due: BTreeSet<(Time, RequestId)>,
    last: u64,
    /// The processes that requests without a period measure, by user. A request counts as one at least.
    once: UserShares,
    /// The number of requests with a period, and the processes that they measure, by user.
    repeated_count: usize,
    repeated: UserShares,
}

struct Request<T> {
    share: Share,
    /// The number of processes that it measures.
    size: usize,
    is_repeated: bool,
    due: Option<Time>,
    state: T,
}

/// The future of a request after a piece.
pub(super) enum After {
    /// Another piece.
    Resume,
    /// Another round at this time.
    Again(Time),
    Done,
}

/// Requests without a period: those of one process.
const ONCE_PER_PROCESS_MAX: usize = 64;

/// Processes that the requests without a period measure. One user alone may have half of them.
const ONCE_TARGETS_MAX: usize = 1 << 21;

/// Requests with a period of one process, and of all.
const REPEATED_PER_PROCESS_MAX: usize = 16;
const REPEATED_MAX: usize = 1024;

/// Processes that the requests with a period measure: those of one process, those of one user, and all. Root and the
/// server's user may take all.
const TARGETS_PER_PROCESS_MAX: usize = 4096;
const TARGETS_PER_USER_MAX: usize = TARGETS_MAX / 2;
const TARGETS_MAX: usize = 32_768;

impl<T> MeasuringLine<T> {
    pub(super) fn new() -> Self {
        Self {
            requests: BTreeMap::new(),
            turns: Turns::default(),
            due: BTreeSet::new(),
            last: 0,
            once: UserShares::default(),
            repeated_count: 0,
            repeated: UserShares::default(),
        }
    }

    /// Adds a request that measures `size` processes.
    ///
    /// # Errors
    /// The state of the request: its process, its user or all have enough of them.
    pub(super) fn add(
        &mut self,
        asker: ProcId,
        share: Share,
        (size, is_repeated): (usize, bool),
        state: T,
    ) -> Result<(), T> {
        if !self.has_room(&asker, share.uid, size, is_repeated) {
            return Err(state);
        }
        if is_repeated {
            self.repeated_count = self.repeated_count.saturating_add(1);
            self.repeated.take(share.uid, size);
        } else {
            self.once.take(share.uid, size.max(1));
        }
        self.last = self.last.saturating_add(1);
        let id = (asker, self.last);
        self.turns.join(id.clone(), share.clone());
        self.requests.insert(id, Request { share, size, is_repeated, due: None, state });
        Ok(())
    }

    fn has_room(&self, asker: &ProcId, uid: u32, added: usize, is_repeated: bool) -> bool {
        let of_process = self.requests.range(all_of(asker)).map(|(_, request)| request);
        let alike = of_process.filter(|request| request.is_repeated == is_repeated);
        if !is_repeated {
            return alike.count() < ONCE_PER_PROCESS_MAX && self.once.permit(uid, added.max(1), ONCE_TARGETS_MAX);
        }
        let (count, size) = alike.fold((0_usize, added), |(count, size), request| {
            (count.saturating_add(1), size.saturating_add(request.size))
        });
        count < REPEATED_PER_PROCESS_MAX
            && self.repeated_count < REPEATED_MAX
            && size <= TARGETS_PER_PROCESS_MAX
            && (may_take_all(uid) || self.repeated.of(uid).saturating_add(added) <= TARGETS_PER_USER_MAX)
            && self.repeated.sum().saturating_add(added) <= TARGETS_MAX
    }

    /// The time of the next piece; `None` without a request.
    pub(super) fn next_time(&self) -> Option<Time> {
        if self.turns.is_empty() { self.due.first().map(|(due, _)| *due) } else { Some(Time::ZERO) }
    }

    /// The request whose piece is next. [`MeasuringLine::settle`] it afterwards.
    pub(super) fn next(&mut self, now: Time) -> Option<(RequestId, &mut T)> {
        while self.due.first().is_some_and(|(due, _)| *due <= now) {
            let Some((_, id)) = self.due.pop_first() else { break };
            if let Some(request) = self.requests.get_mut(&id) {
                request.due = None;
                self.turns.join(id, request.share.clone());
            }
        }
        let (id, _) = self.turns.next()?;
        let request = self.requests.get_mut(&id)?;
        Some((id, &mut request.state))
    }

    /// Charges a request with the time of its piece.
    pub(super) fn settle(&mut self, id: RequestId, used: Duration, after: After) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        self.turns.charge(&request.share, 1, used);
        match after {
            After::Resume => self.turns.resume(id, request.share.clone()),
            After::Again(due) => {
                request.due = Some(due);
                self.due.insert((due, id));
            }
            After::Done => self.remove(&id),
        }
    }

    /// Removes the requests of a process that are not to be kept.
    pub(super) fn retain(&mut self, asker: &ProcId, mut is_kept: impl FnMut(&mut T) -> bool) {
        let of_process = self.requests.range_mut(all_of(asker));
        let gone = of_process.filter_map(|(id, request)| (!is_kept(&mut request.state)).then(|| id.clone()));
        for id in gone.collect::<Vec<_>>() {
            self.remove(&id);
        }
    }

    fn remove(&mut self, id: &RequestId) {
        let Some(Request { share, size, is_repeated, due, .. }) = self.requests.remove(id) else { return };
        self.turns.leave(id);
        if let Some(due) = due {
            self.due.remove(&(due, id.clone()));
        }
        if is_repeated {
            self.repeated_count = self.repeated_count.saturating_sub(1);
            self.repeated.give_back(share.uid, size);
        } else {
            self.once.give_back(share.uid, size.max(1));
        }
    }
}

/// The possible requests of a process.
fn all_of(asker: &ProcId) -> RangeInclusive<RequestId> {
    (asker.clone(), 0)..=(asker.clone(), u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::server::request_quota::Account;
    use crate::types::Namespace;

    const PIECE: Duration = Duration::from_millis(1);

    fn proc(rank: u32) -> ProcId {
        ProcId::new(Namespace::new("job").unwrap(), rank)
    }

    /// Adds a request that takes some pieces.
    fn add(
        line: &mut MeasuringLine<u32>,
        (uid, rank): (u32, u32),
        size: usize,
        is_repeated: bool,
        pieces: u32,
    ) -> bool {
        let share = Share { uid, account: Account::Process(proc(rank)) };
        line.add(proc(rank), share, (size, is_repeated), pieces).is_ok()
    }

    /// Serves one piece. Returns its process, and whether its request is finished.
    fn serve(line: &mut MeasuringLine<u32>) -> Option<(ProcId, bool)> {
        let (id, left) = line.next(Time::ZERO)?;
        *left -= 1;
        let is_over = *left == 0;
        line.settle(id.clone(), PIECE, if is_over { After::Done } else { After::Resume });
        Some((id.0, is_over))
    }

    /// All requests had one queue. 150 requests of one process held others up for 18 seconds.
    #[test]
    fn a_small_request_waits_for_one_piece_of_each_other_user_and_process() {
        let mut line = MeasuringLine::new();
        for _ in 0..ONCE_PER_PROCESS_MAX {
            assert!(add(&mut line, (66, 1), 1200, false, 150));
        }
        (0..100).for_each(|_| drop(serve(&mut line)));
        assert!(add(&mut line, (66, 2), 1, false, 1) && add(&mut line, (77, 3), 1, false, 1));
        let mut pieces_before = |rank| {
            let mut pieces = std::iter::from_fn(|| serve(&mut line));
            pieces.position(|(of, is_over)| of == proc(rank) && is_over).unwrap()
        };
        let before = pieces_before(3);
        assert!(before <= 1 && before + pieces_before(2) <= 2);
    }

    #[test]
    fn requests_of_one_process_are_finished_one_after_the_other() {
        let mut line = MeasuringLine::new();
        assert!([3, 2, 1].iter().all(|pieces| add(&mut line, (66, 1), 9, false, *pieces)));
        let finished: Vec<bool> = std::iter::from_fn(|| serve(&mut line)).map(|(_, is_over)| is_over).collect();
        assert_eq!(finished, [false, false, true, false, true, true]);
        assert!(line.requests.is_empty() && line.once.sum() == 0);
    }

    #[test]
    fn a_removal_waits_for_no_other_request_and_gives_all_back() {
        let mut line = MeasuringLine::new();
        assert!((0..9).all(|_| add(&mut line, (66, 1), 1000, false, 9)));
        assert!(add(&mut line, (77, 2), 1, false, 1) && add(&mut line, (77, 2), 1, true, 7));
        let (id, _) = line.next(Time::ZERO).unwrap();
        line.settle(id, PIECE, After::Resume);
        line.retain(&proc(2), |pieces| *pieces == 1);
        assert_eq!((line.requests.len(), line.once.of(77), line.repeated.sum(), line.repeated_count), (10, 1, 0, 0));
        line.retain(&proc(1), |_| false);
        assert_eq!(serve(&mut line), Some((proc(2), true)));
        assert_eq!((serve(&mut line), line.next_time(), line.once.sum()), (None, None, 0));
    }

    #[test]
    fn a_request_with_a_period_waits_for_its_time() {
        let mut line = MeasuringLine::new();
        assert!(add(&mut line, (66, 1), 1, true, 1));
        assert_eq!(line.next_time(), Some(Time::ZERO));
        let (id, _) = line.next(Time::ZERO).unwrap();
        let due = Time::ZERO + PIECE;
        line.settle(id, PIECE, After::Again(due));
        assert_eq!((line.next_time(), line.next(Time::ZERO).is_none()), (Some(due), true));
        assert!(line.next(due).is_some());
        line.retain(&proc(1), |_| false);
        assert_eq!(line.next_time(), None);
    }

    #[test]
    fn processes_users_and_all_have_their_bounds() {
        let mut line = MeasuringLine::new();
        let own = nix::unistd::geteuid().as_raw();
        let mut add = |uid, rank| add(&mut line, (uid, rank), TARGETS_PER_PROCESS_MAX, true, 1);
        assert_eq!([add(own + 1, 0), add(own + 1, 0)], [true, false]);
        assert_eq!([1, 2, 3, 4].map(|rank| add(own + 1, rank)), [true, true, true, false]);
        assert_eq!([5, 6, 7, 8, 9].map(|rank| add(own, rank)), [true, true, true, true, false]);
    }

    #[test]
    fn requests_without_a_period_have_bounds_by_process_and_user() {
        let mut line = MeasuringLine::new();
        let added = (0..100).filter(|_| add(&mut line, (66, 0), 0, false, 1)).count();
        assert_eq!(added, ONCE_PER_PROCESS_MAX);
        let added = (1..1000).filter(|rank| add(&mut line, (66, *rank), 4096, false, 1)).count();
        assert!(added < ONCE_TARGETS_MAX / 4096 * 3 / 4, "{added}");
        assert!(add(&mut line, (77, 1000), 4096, false, 1), "another user");
    }
}
