//! The events to come, in order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::sync::Arc;

use modex::proto::notification::EventNotice;
use modex::proto::{Reply, Request, Tag};
use modex::server::{Hello, HostCall, HostReply, PeerId, UpcallId};
use modex::types::{Namespace, Time};

use super::faults::Faults;
use super::value::{Promise, Put};

/// A server in one of its lives. A message for an earlier life does not reach a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ServerId {
    pub(super) node: u32,
    pub(super) epoch: u32,
}

/// Something that happens at a planned time.
#[derive(Debug)]
pub(super) enum QueuedEvent {
    /// A process starts, or starts again.
    Start(u32),
    /// A process takes its next step.
    Wake(u32),
    /// Something arrives at the server's end of a connection.
    ToServer(PeerId, Box<ToServer>),
    /// Something arrives at the client's end.
    ToClient(PeerId, Box<ToClient>),
    /// A server asked to be called.
    ServerTimer(ServerId),
    /// A client asked to be called.
    ClientTimer(PeerId),
    /// The host answers.
    Answer(ServerId, UpcallId, Box<HostReply>),
    /// The host calls, for a fetch of another server or for itself.
    Call(ServerId, Box<HostCall>, Option<(ServerId, UpcallId)>),
    /// The host gives up on an operation of several servers.
    ExchangeTimer(u64),
    /// A fault.
    Strike(Faults),
    /// A new server takes the place of one that was killed.
    Restart(u32),
    /// The host ends all jobs.
    End,
}

#[derive(Debug)]
pub(super) enum ToServer {
    Hello(Hello),
    /// A commit, with its content.
    Request(Tag, Request, Vec<Put>),
    Hangup,
}

#[derive(Debug)]
pub(super) enum ToClient {
    Admitted,
    Refused,
    Segment(Namespace),
    /// Nothing ties it to this job any more.
    Withdrawn(Namespace),
    /// A fence's end, with its promise.
    Reply(Tag, Reply, Option<Rc<Promise>>),
    /// Something has happened.
    Event(Arc<EventNotice>),
    /// The server closed the connection, or is gone.
    Closed,
}

/// All future events. Events of one moment happen in the order in which they were planned.
#[derive(Debug, Default)]
pub(super) struct Queue {
    heap: BinaryHeap<Reverse<Planned>>,
    last: u64,
}

#[derive(Debug)]
struct Planned {
    at: Time,
    number: u64,
    event: QueuedEvent,
}

impl Queue {
    pub(super) fn plan(&mut self, at: Time, event: QueuedEvent) {
        self.last += 1;
        self.heap.push(Reverse(Planned { at, number: self.last, event }));
    }

    pub(super) fn pop(&mut self) -> Option<(Time, QueuedEvent)> {
        self.heap.pop().map(|Reverse(planned)| (planned.at, planned.event))
    }
}

impl Planned {
    const fn order(&self) -> (Time, u64) {
        (self.at, self.number)
    }
}

impl Ord for Planned {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Planned {}
