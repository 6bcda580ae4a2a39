//! Gets in flight: one request for each process, while other Gets wait for its answer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::hash::{DefaultHasher, Hasher};
use std::time::Duration;

use super::attribute;
use super::call::CallId;
use super::resolve::GetRequest;
use crate::proto::Tag;
use crate::types::{Info, Key, Namespace, ProcId, Rank, Time};

/// The Gets that are sent and those that wait.
///
/// A server usually answers with all values that a process posted. So while one request for a process is in flight,
/// another Get is held back and looks again after the answer. The wait is bounded, because the server may hold the
/// first request until a key appears that never does. Then the Get is sent as soon as the server has room for it, the
/// oldest first.
///
/// The cost of a Get does not depend on the number of Gets. Requests are found by a key made of their content. A Get
/// that has looked in vain waits for twice as many answers each time.
#[derive(Debug)]
pub(super) struct Gets {
    patience: Duration,
    sent_max: usize,
    sent: BTreeMap<Tag, Sent>,
    /// The requests that the server has, by content: nearly always one each.
    tags_by_content: BTreeMap<GetFingerprint, Vec<Tag>>,
    calls: BTreeMap<CallId, Position>,
    /// Processes with Gets that are sent or held back.
    procs: BTreeMap<ProcId, InFlight>,
    /// Gets of processes with no request in flight: they only wait for room.
    first: BTreeSet<Age>,
    /// Gets behind a request for the same process.
    behind: BTreeSet<Age>,
    joined: u64,
    /// Number of comparisons of requests.
    #[cfg(test)]
    pub(super) compared: usize,
}

/// One request that the server has.
#[derive(Debug)]
pub(super) struct Sent {
    /// The request.
    pub(super) request: GetRequest,
    /// The call whose time limit the server knows.
    pub(super) leader: CallId,
    /// The calls that want exactly this answer, in the order of arrival. The leader is among them unless it has given
    /// up.
    pub(super) waiters: BTreeMap<u64, CallId>,
}

/// The place of a new Get.
#[derive(Debug)]
pub(super) enum GetPlacement {
    /// Send it, then call [`Gets::sent`].
    Send(GetRequest),
    /// It waits.
    Waits,
}

/// The content that distinguishes requests; a fingerprint stands for the directives.
type GetFingerprint = (ProcId, Option<Key>, u64);

/// Time since which a call is held back.
type Age = (Time, CallId);

#[derive(Debug)]
enum Position {
    Sent { tag: Tag, number: u64 },
    Queued { request: GetRequest, since: Time, wake_at: u64 },
}

#[derive(Debug, Default)]
struct InFlight {
    sent: usize,
    answers: u64,
    /// The calls held back, by the number of the answer that wakes them.
    queued: BTreeSet<(u64, CallId)>,
    by_age: BTreeSet<Age>,
}

impl Gets {
    /// An eighth of `sent_max` requests is reserved for processes without a request in flight.
    pub(super) const fn new(patience: Duration, sent_max: usize) -> Self {
        Self {
            patience,
            sent_max,
            sent: BTreeMap::new(),
            tags_by_content: BTreeMap::new(),
            calls: BTreeMap::new(),
            procs: BTreeMap::new(),
            first: BTreeSet::new(),
            behind: BTreeSet::new(),
            joined: 0,
            #[cfg(test)]
            compared: 0,
        }
    }

    /// Joins a Get to an equal one, queues it, or has it sent. A Get is queued behind a request for the same process,
    /// or for lack of room.
    pub(super) fn place(&mut self, now: Time, call: CallId, request: GetRequest) -> GetPlacement {
        if let Some(tag) = self.alike(&request) {
            self.join(call, tag);
            return GetPlacement::Waits;
        }
        let is_first = !self.procs.contains_key(&request.proc);
        if is_first && self.first.is_empty() && self.has_room_for_first() {
            return GetPlacement::Send(request);
        }
        let in_flight = self.procs.entry(request.proc.clone()).or_default();
        let sits_out = 1_u64.checked_shl(request.looks).unwrap_or(u64::MAX);
        let wake_at = in_flight.answers.saturating_add(sits_out);
        in_flight.queued.insert((wake_at, call));
        in_flight.by_age.insert((now, call));
        if is_first { &mut self.first } else { &mut self.behind }.insert((now, call));
        self.calls.insert(call, Position::Queued { request, since: now, wake_at });
        GetPlacement::Waits
    }

    /// Notes that the request was sent under this tag.
    pub(super) fn sent(&mut self, tag: Tag, call: CallId, request: GetRequest) {
        self.procs.entry(request.proc.clone()).or_default().sent += 1;
        self.tags_by_content.entry(get_fingerprint(&request)).or_default().push(tag);
        self.sent.insert(tag, Sent { request, leader: call, waiters: BTreeMap::new() });
        self.join(call, tag);
    }

    /// The request without the directive for current values, if the server has it with that directive.
    pub(super) fn without_refresh(&self, tag: Tag) -> Option<GetRequest> {
        let mut request = self.sent.get(&tag)?.request.clone();
        let upward = &mut request.directives.upward;
        let count = upward.len();
        upward.retain(|info| info.key.as_str() != attribute::REFRESH_CACHE);
        (upward.len() < count).then_some(request)
    }

    /// Notes that another form of a request was sent in its place. Its calls wait for the answer to that.
    pub(super) fn resent(&mut self, tag: Tag, next: Tag, request: GetRequest) {
        let Some(sent) = self.take_sent(tag) else { return };
        for (&number, &call) in &sent.waiters {
            self.calls.insert(call, Position::Sent { tag: next, number });
        }
        self.tags_by_content.entry(get_fingerprint(&request)).or_default().push(next);
        self.sent.insert(next, Sent { request, ..sent });
    }

    fn take_sent(&mut self, tag: Tag) -> Option<Sent> {
        let sent = self.sent.remove(&tag)?;
        let content = get_fingerprint(&sent.request);
        if let Some(tags) = self.tags_by_content.get_mut(&content) {
            tags.retain(|&other| other != tag);
            if tags.is_empty() {
                self.tags_by_content.remove(&content);
            }
        }
        Some(sent)
    }

    /// Ends a request. Returns it with its waiting calls, and the calls that were held back behind it and look again.
    pub(super) fn end(&mut self, tag: Tag) -> Option<(Sent, Vec<CallId>)> {
        let sent = self.take_sent(tag)?;
        for call in sent.waiters.values() {
            self.calls.remove(call);
        }
        let mut woken = Vec::new();
        if let Some(in_flight) = self.procs.get_mut(&sent.request.proc) {
            in_flight.sent = in_flight.sent.saturating_sub(1);
            in_flight.answers = in_flight.answers.saturating_add(1);
            let answers = in_flight.answers;
            woken.extend(in_flight.queued.iter().take_while(|&&(at, _)| at <= answers).map(|&(_, call)| call));
        }
        let woken = self.wake(woken);
        self.prefer_oldest(&sent.request.proc);
        self.drop_idle(&sent.request.proc);
        Some((sent, woken))
    }

    /// Releases the Gets held back behind requests for processes of a namespace.
    pub(super) fn wake_namespace(&mut self, namespace: &Namespace) -> Vec<CallId> {
        let start = ProcId::new(namespace.clone(), Rank::Process(0));
        let procs = self.procs.range(start..).take_while(|(proc, _)| proc.namespace == *namespace);
        let calls = procs.flat_map(|(_, in_flight)| in_flight.queued.iter().map(|&(_, call)| call)).collect();
        self.wake(calls)
    }

    /// The next Get that has been held back long enough, and for which there is room: it must be sent now.
    pub(super) fn take_overdue(&mut self, now: Time) -> Option<(CallId, GetRequest)> {
        loop {
            let (due, call) = self.next_in_line()?;
            if due > now {
                return None;
            }
            let (_, request) = self.unqueue(call)?;
            let Some(tag) = self.alike(&request) else { return Some((call, request)) };
            self.join(call, tag);
        }
    }

    /// The time at which [`Gets::take_overdue`] has a result.
    pub(super) fn next_overdue(&self) -> Option<Time> {
        self.next_in_line().map(|(due, _)| due)
    }

    /// Removes a call that has given up. If it was sent, the request stays with the server: its answer is still worth
    /// caching.
    pub(super) fn forget(&mut self, call: CallId) {
        match self.calls.get(&call) {
            Some(&Position::Sent { tag, number }) => {
                self.calls.remove(&call);
                if let Some(sent) = self.sent.get_mut(&tag) {
                    sent.waiters.remove(&number);
                }
            }
            Some(Position::Queued { .. }) => {
                self.unqueue(call);
            }
            None => {}
        }
    }

    /// Number of Gets in flight, and of requests without an answer, including those whose calls have given up.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.calls.len(), self.sent.len())
    }

    /// Removes all Gets.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.patience, self.sent_max);
    }

    /// An equal request that the server has, if there is one.
    fn alike(&mut self, request: &GetRequest) -> Option<Tag> {
        let tags = self.tags_by_content.get(&get_fingerprint(request))?;
        for tag in tags {
            #[cfg(test)]
            {
                self.compared += 1;
            }
            if self.sent.get(tag).is_some_and(|sent| is_same(&sent.request, request)) {
                return Some(*tag);
            }
        }
        None
    }

    fn join(&mut self, call: CallId, tag: Tag) {
        let Some(sent) = self.sent.get_mut(&tag) else { return };
        self.joined = self.joined.saturating_add(1);
        sent.waiters.insert(self.joined, call);
        self.calls.insert(call, Position::Sent { tag, number: self.joined });
    }

    fn next_in_line(&self) -> Option<Age> {
        let has_room = self.sent.len() < self.sent_max - self.sent_max / 8;
        let first = self.first.first().filter(|_| self.has_room_for_first()).copied();
        let behind = self.behind.first().filter(|_| has_room).map(|&(since, call)| (since + self.patience, call));
        first.into_iter().chain(behind).min()
    }

    fn has_room_for_first(&self) -> bool {
        self.sent.len() < self.sent_max
    }

    /// Takes calls out of the queues. Returns them, the oldest first.
    fn wake(&mut self, calls: Vec<CallId>) -> Vec<CallId> {
        let mut woken: Vec<Age> = calls.into_iter().filter_map(|call| Some((self.unqueue(call)?.0, call))).collect();
        woken.sort_unstable();
        woken.into_iter().map(|(_, call)| call).collect()
    }

    /// Moves the oldest call of a process to the queue without delay, if the process has no request in flight.
    fn prefer_oldest(&mut self, proc: &ProcId) {
        let Some(in_flight) = self.procs.get(proc).filter(|in_flight| in_flight.sent == 0) else { return };
        if let Some(age) = in_flight.by_age.first()
            && self.behind.remove(age)
        {
            self.first.insert(*age);
        }
    }

    fn unqueue(&mut self, call: CallId) -> Option<(Time, GetRequest)> {
        let Some(Position::Queued { request, since, wake_at }) = self.calls.remove(&call) else { return None };
        let age = (since, call);
        if !self.behind.remove(&age) {
            self.first.remove(&age);
        }
        if let Some(in_flight) = self.procs.get_mut(&request.proc) {
            in_flight.queued.remove(&(wake_at, call));
            in_flight.by_age.remove(&age);
        }
        self.drop_idle(&request.proc);
        Some((since, request))
    }

    fn drop_idle(&mut self, proc: &ProcId) {
        let is_idle = |in_flight: &InFlight| in_flight.sent == 0 && in_flight.queued.is_empty();
        if self.procs.get(proc).is_some_and(is_idle) {
            self.procs.remove(proc);
        }
    }
}

/// Whether the server would see no difference.
fn is_same(a: &GetRequest, b: &GetRequest) -> bool {
    a.proc == b.proc && a.key == b.key && a.directives.upward == b.directives.upward
}

fn get_fingerprint(request: &GetRequest) -> GetFingerprint {
    (request.proc.clone(), request.key.clone(), fingerprint(&request.directives.upward))
}

/// A hash of the directives' text, because values have no order. If two texts are equal, [`is_same`] compares the
/// values.
fn fingerprint(directives: &[Info]) -> u64 {
    struct Text(DefaultHasher);
    impl Write for Text {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0.write(text.as_bytes());
            Ok(())
        }
    }
    if directives.is_empty() {
        return 0;
    }
    let mut text = Text(DefaultHasher::new());
    // Writing into a hash can't fail.
    let _ = write!(text, "{directives:?}");
    text.0.finish()
}
