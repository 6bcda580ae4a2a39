//! Gets in flight: one request for each process, the others wait for its answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::call::CallId;
use super::resolve::GetRequest;
use crate::proto::Tag;
use crate::types::{Namespace, ProcId, Time};

/// Which Gets are sent and which wait.
///
/// A server usually answers with all that a process posted, so while one request for it is under way, another one is
/// held back and looks again when the answer is there. It is held back for a bounded time only: the server may hold
/// the first request until a key appears that never does.
#[derive(Debug)]
pub(super) struct Gets {
    patience: Duration,
    sent: BTreeMap<Tag, Sent>,
    calls: BTreeMap<CallId, Position>,
    /// Processes for which something is sent.
    procs: BTreeMap<ProcId, InFlight>,
    by_patience: BTreeSet<(Time, CallId)>,
}

/// One request that the server has.
#[derive(Debug)]
pub(super) struct Sent {
    /// What was asked.
    pub(super) request: GetRequest,
    /// The call whose time limit the server knows.
    pub(super) leader: CallId,
    /// The calls that want exactly this answer, the leader among them unless it has given up.
    pub(super) waiters: Vec<CallId>,
}

/// What to do with a new Get.
#[derive(Debug)]
pub(super) enum Placement {
    /// Send it, then call [`Gets::sent`].
    Send(GetRequest),
    /// It waits.
    Waits,
}

#[derive(Debug)]
enum Position {
    Sent(Tag),
    Queued { request: GetRequest, send_at: Time },
}

#[derive(Debug, Default)]
struct InFlight {
    tags: BTreeSet<Tag>,
    queued: Vec<CallId>,
}

impl Gets {
    pub(super) const fn new(patience: Duration) -> Self {
        Self {
            patience,
            sent: BTreeMap::new(),
            calls: BTreeMap::new(),
            procs: BTreeMap::new(),
            by_patience: BTreeSet::new(),
        }
    }

    /// Joins a Get to an equal one, queues it behind one for the same process, or has it sent.
    pub(super) fn place(&mut self, now: Time, call: CallId, request: GetRequest) -> Placement {
        let Some(in_flight) = self.procs.get_mut(&request.proc) else {
            return Placement::Send(request);
        };
        for tag in &in_flight.tags {
            if let Some(sent) = self.sent.get_mut(tag).filter(|sent| is_same(&sent.request, &request)) {
                sent.waiters.push(call);
                self.calls.insert(call, Position::Sent(*tag));
                return Placement::Waits;
            }
        }
        let send_at = now + self.patience;
        in_flight.queued.push(call);
        self.by_patience.insert((send_at, call));
        self.calls.insert(call, Position::Queued { request, send_at });
        Placement::Waits
    }

    /// Notes that the request was sent under this tag.
    pub(super) fn sent(&mut self, tag: Tag, call: CallId, request: GetRequest) {
        self.procs.entry(request.proc.clone()).or_default().tags.insert(tag);
        self.calls.insert(call, Position::Sent(tag));
        self.sent.insert(tag, Sent { request, leader: call, waiters: vec![call] });
    }

    /// Ends a request: who waited for this answer, and who was held back behind it.
    pub(super) fn end(&mut self, tag: Tag) -> Option<(Sent, Vec<CallId>)> {
        let sent = self.sent.remove(&tag)?;
        for call in &sent.waiters {
            self.calls.remove(call);
        }
        let woken = self.wake(&sent.request.proc);
        if let Some(in_flight) = self.procs.get_mut(&sent.request.proc) {
            in_flight.tags.remove(&tag);
            if in_flight.tags.is_empty() {
                self.procs.remove(&sent.request.proc);
            }
        }
        Some((sent, woken))
    }

    /// Releases the Gets held back behind requests for processes of a namespace.
    pub(super) fn wake_namespace(&mut self, namespace: &Namespace) -> Vec<CallId> {
        let procs: Vec<ProcId> = self.procs.keys().filter(|proc| proc.namespace == *namespace).cloned().collect();
        procs.iter().flat_map(|proc| self.wake(proc)).collect()
    }

    /// The next Get that has been held back long enough and must be sent now.
    pub(super) fn take_overdue(&mut self, now: Time) -> Option<(CallId, GetRequest)> {
        let &(send_at, call) = self.by_patience.first()?;
        if send_at > now {
            return None;
        }
        self.forget(call).map(|request| (call, request))
    }

    /// When [`Gets::take_overdue`] will have something.
    pub(super) fn next_overdue(&self) -> Option<Time> {
        self.by_patience.first().map(|&(send_at, _)| send_at)
    }

    /// Forgets a call that has given up, and gives its request if it was not sent. One that was sent stays with the
    /// server: its answer is still worth caching.
    pub(super) fn forget(&mut self, call: CallId) -> Option<GetRequest> {
        match self.calls.remove(&call)? {
            Position::Sent(tag) => {
                if let Some(sent) = self.sent.get_mut(&tag) {
                    sent.waiters.retain(|&waiter| waiter != call);
                }
                None
            }
            Position::Queued { request, send_at } => {
                self.by_patience.remove(&(send_at, call));
                if let Some(in_flight) = self.procs.get_mut(&request.proc) {
                    in_flight.queued.retain(|&queued| queued != call);
                }
                Some(request)
            }
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.patience);
    }

    fn wake(&mut self, proc: &ProcId) -> Vec<CallId> {
        let woken = self.procs.get_mut(proc).map(|in_flight| std::mem::take(&mut in_flight.queued));
        let woken = woken.unwrap_or_default();
        for call in &woken {
            if let Some(Position::Queued { send_at, .. }) = self.calls.remove(call) {
                self.by_patience.remove(&(send_at, *call));
            }
        }
        woken
    }
}

/// Whether the server would see no difference.
fn is_same(a: &GetRequest, b: &GetRequest) -> bool {
    a.proc == b.proc && a.key == b.key && a.directives.upward == b.directives.upward
}
