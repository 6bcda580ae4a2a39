//! Large replies that wait for the thread that encodes them.
//!
//! Users take turns, and the replies for one user keep their order. A user has room as long as its peers have read most
//! of the earlier replies. Without room its next reply waits, so that a user can't fill the memory with replies that
//! nobody reads. The caller refuses a reply that waited too long for room.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::time::Duration;

use crate::server::PeerId;
use crate::types::Time;

/// The waiting replies.
#[derive(Debug)]
pub(super) struct ReplyLine<R> {
    of_users: BTreeMap<u32, VecDeque<WaitingReply<R>>>,
    /// The user whose reply was taken last.
    last_user: Option<u32>,
    /// The reply that the thread works on, and its memory.
    working_on: Option<(PeerId, usize)>,
    /// Memory of the replies by connection, in bytes.
    bytes: BTreeMap<PeerId, usize>,
}

#[derive(Debug)]
struct WaitingReply<R> {
    peer: PeerId,
    size_bytes: usize,
    since: Time,
    reply: R,
}

impl<R> Default for ReplyLine<R> {
    fn default() -> Self {
        Self { of_users: BTreeMap::new(), last_user: None, working_on: None, bytes: BTreeMap::new() }
    }
}

impl<R> ReplyLine<R> {
    /// Adds a reply for a user.
    pub(super) fn push(&mut self, uid: u32, peer: PeerId, size_bytes: usize, since: Time, reply: R) {
        // A connection in the line counts for something, so that `leave` finds it.
        let size_bytes = size_bytes.max(1);
        let bytes = self.bytes.entry(peer).or_default();
        *bytes = bytes.saturating_add(size_bytes);
        self.of_users.entry(uid).or_default().push_back(WaitingReply { peer, size_bytes, since, reply });
    }

    /// Takes the next reply if the thread is free. The thread is busy until [`ReplyLine::settle`].
    pub(super) fn next(&mut self, has_room: impl Fn(u32) -> bool) -> Option<(PeerId, R)> {
        if self.working_on.is_some() {
            return None;
        }
        let later = self.last_user.map_or(Bound::Unbounded, Bound::Excluded);
        let users = self.of_users.range((later, Bound::Unbounded)).chain(&self.of_users);
        let uid = users.map(|(uid, _)| *uid).find(|uid| has_room(*uid))?;
        let WaitingReply { peer, size_bytes, reply, .. } = self.pop(uid)?;
        self.last_user = Some(uid);
        self.working_on = Some((peer, size_bytes));
        Some((peer, reply))
    }

    /// The thread is free again.
    pub(super) fn settle(&mut self) {
        if let Some((peer, size_bytes)) = self.working_on.take() {
            self.give_back(peer, size_bytes);
        }
    }

    /// Removes a connection. Returns its replies.
    pub(super) fn leave(&mut self, peer: PeerId) -> Vec<R> {
        if self.bytes.remove(&peer).is_none() {
            return Vec::new();
        }
        let mut left = Vec::new();
        for waiting in self.of_users.values_mut() {
            let (gone, kept): (VecDeque<_>, VecDeque<_>) =
                std::mem::take(waiting).into_iter().partition(|reply| reply.peer == peer);
            *waiting = kept;
            left.extend(gone.into_iter().map(|gone| gone.reply));
        }
        self.of_users.retain(|_, waiting| !waiting.is_empty());
        left
    }

    /// Takes a reply that has waited for room longer than `wait_max`.
    pub(super) fn take_late(
        &mut self,
        now: Time,
        wait_max: Duration,
        has_room: impl Fn(u32) -> bool,
    ) -> Option<(PeerId, R)> {
        let is_late = |reply: &WaitingReply<R>| reply.since + wait_max <= now;
        let mut users = self.of_users.iter().filter(|(uid, _)| !has_room(**uid));
        let uid = *users.find(|(_, waiting)| waiting.front().is_some_and(is_late))?.0;
        let WaitingReply { peer, size_bytes, reply, .. } = self.pop(uid)?;
        self.give_back(peer, size_bytes);
        Some((peer, reply))
    }

    /// The time from which on a reply without room is late.
    pub(super) fn late_from(&self, wait_max: Duration, has_room: impl Fn(u32) -> bool) -> Option<Time> {
        let without_room = self.of_users.iter().filter(|(uid, _)| !has_room(**uid));
        without_room.filter_map(|(_, waiting)| Some(waiting.front()?.since + wait_max)).min()
    }

    /// Memory of the replies for a connection, in bytes.
    pub(super) fn size_bytes_of(&self, peer: PeerId) -> usize {
        self.bytes.get(&peer).copied().unwrap_or_default()
    }

    fn pop(&mut self, uid: u32) -> Option<WaitingReply<R>> {
        let waiting = self.of_users.get_mut(&uid)?;
        let first = waiting.pop_front();
        if waiting.is_empty() {
            self.of_users.remove(&uid);
        }
        first
    }

    fn give_back(&mut self, peer: PeerId, size_bytes: usize) {
        if let Some(bytes) = self.bytes.get_mut(&peer) {
            *bytes = bytes.saturating_sub(size_bytes);
            if *bytes == 0 {
                self.bytes.remove(&peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A line with three replies of 10 bytes for each of two users: peers 10 to 12 and 20 to 22.
    fn line() -> ReplyLine<u64> {
        let mut line = ReplyLine::default();
        for peer in [10, 11, 12, 20, 21, 22] {
            line.push(u32::try_from(peer / 10).unwrap(), PeerId(peer), 10, Time::ZERO, peer);
        }
        line
    }

    /// All replies went to the thread at once. Replies for 100 connections that did not read took 3 GB.
    #[test]
    fn a_user_without_room_waits_and_the_others_go_on() {
        let mut line = line();
        let mut taken = Vec::new();
        while let Some((_, reply)) = line.next(|uid| uid == 2) {
            assert_eq!(line.next(|_| true), None, "one at a time");
            line.settle();
            taken.push(reply);
        }
        assert_eq!(taken, [20, 21, 22]);
        assert_eq!(line.next(|_| true), Some((PeerId(10), 10)));
    }

    #[test]
    fn users_take_turns() {
        let mut line = line();
        let next = || line.next(|_| true).inspect(|_| line.settle());
        let taken: Vec<u64> = std::iter::from_fn(next).map(|(_, reply)| reply).collect();
        assert_eq!(taken, [10, 20, 11, 21, 12, 22]);
    }

    #[test]
    fn a_reply_is_counted_until_it_is_encoded() {
        let mut line = line();
        line.push(1, PeerId(10), 5, Time::ZERO, 0);
        line.next(|_| true).unwrap();
        assert_eq!([10, 11].map(|peer| line.size_bytes_of(PeerId(peer))), [15, 10]);
        line.settle();
        assert_eq!(line.size_bytes_of(PeerId(10)), 5);
        assert_eq!((line.leave(PeerId(10)), line.leave(PeerId(10))), (vec![0], vec![]));
        assert_eq!(line.size_bytes_of(PeerId(10)), 0);
    }

    #[test]
    fn a_reply_without_room_is_late_some_time() {
        let mut line = line();
        let has_room = |uid| uid == 2;
        assert_eq!(line.late_from(SECOND, has_room), Some(Time::ZERO + SECOND));
        assert_eq!(line.take_late(Time::ZERO, SECOND, has_room), None);
        let late = || line.take_late(Time::ZERO + SECOND, SECOND, has_room);
        assert_eq!(std::iter::from_fn(late).map(|(_, reply)| reply).collect::<Vec<_>>(), [10, 11, 12]);
        assert_eq!((line.late_from(SECOND, has_room), line.size_bytes_of(PeerId(10))), (None, 0));
        assert_eq!(line.late_from(SECOND, |_| true), None);
    }
}
