mod futex_wait;
mod intake;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

pub(super) use self::futex_wait::FutexWait;
use self::futex_wait::FutexWaits;
use self::intake::BUFFER_SIZE_FIRST_BYTES;
use super::forwarding::Pulls;
use super::received::ReceivedData;
use super::results::Results;
use crate::client::{Call, CallId, ClientConfig, ClientCore, ClientInput, ClientOutput, LossReason, Unsendable};
use crate::events::Event;
use crate::proto::frame::{FrameBuffer, FrameError};
use crate::proto::{Command, Request, Tag};
use crate::ptl::{Arrival, Stream};
use crate::runtime::shared::events::EventHub;
use crate::runtime::shared::message_codec::{MessageCodec, MessageEncodeError};
use crate::runtime::shared::peer_profile::PeerProfile;
use crate::shmem::ForkMark;
use crate::types::codes::range;
use crate::types::{Namespace, ProcId, Status, Time};

/// The state that the threads of a client share under one lock: the core, the socket, and the input.
pub(super) struct LinkState {
    core: ClientCore,
    stream: Stream,
    codec: MessageCodec,
    peer_profile: PeerProfile,
    inbox: FrameBuffer,
    buffer: Box<[u8]>,
    next_call: u64,
    /// Number of requests that are no queries, of their ends, and of events.
    activity: u64,
    /// Queries without an answer.
    queries: BTreeSet<CallId>,
    loss: Option<LossReason>,
    /// Segments that are announced, but not mapped yet. `None`: the server has no segment of the namespace, or none any
    /// more.
    segments: BTreeMap<Namespace, Option<OwnedFd>>,
    /// Counts announcements.
    segment_news: Arc<AtomicU64>,
    /// The segment of the node's topology, announced and not taken yet.
    topology: Option<OwnedFd>,
    /// Data from the socket.
    pub(super) received: ReceivedData,
    pub(super) results: Results,
    /// Takers of forwarded output.
    pub(super) pulls: Pulls,
    /// An unrequested message came since the last [`LinkState::advance`].
    has_unasked: bool,
    /// The socket may hold more than the last read took.
    pub(super) has_unread: bool,
    /// A thread waits for the socket.
    pub(super) is_led: bool,
    /// A receive waits for input. Another process that shares the socket may have changed this unnoticed.
    pub(super) is_blocking: bool,
    pub(super) is_shut: bool,
    /// The progress thread runs a job, without the lock.
    pub(super) is_in_callback: bool,
    /// There are event handlers, so unrequested messages must be read.
    pub(super) is_listening: bool,
    /// The progress thread waits for the socket.
    pub(super) beside: Option<Beside>,
    events: Option<EventSink>,
    is_leaving: bool,
    /// Whether replies to the next requests may wait for a later reply.
    defers_replies: bool,
    futex_waits: FutexWaits,
    /// The number that the server gave to the connection.
    pub(super) index: u32,
    /// A forked copy has this state, but not the conversation: its reads and writes would be lost to the parent.
    fork_mark: Arc<ForkMark>,
}

/// The progress thread's knowledge when it began to wait for the socket.
pub(super) struct Beside {
    pub(super) deadline: Option<Time>,
    pub(super) watches_room: bool,
}

/// The receiver of events.
struct EventSink {
    hub: Weak<EventHub>,
    server: ProcId,
}

impl LinkState {
    /// A conversation over a connection whose handshake is done.
    pub(super) fn new(
        stream: Stream,
        own: ProcId,
        index: u32,
        peer_profile: PeerProfile,
        received: ReceivedData,
    ) -> Self {
        let is_blocking = Arrival::allow_waits(&stream);
        let config = ClientConfig { asks_again_after_success: !peer_profile.is_ours, ..ClientConfig::default() };
        Self {
            core: ClientCore::new(own, config),
            stream,
            codec: MessageCodec::to_server(&peer_profile, index),
            inbox: FrameBuffer::new(peer_profile.limits.message_bytes_max),
            peer_profile,
            buffer: vec![0; BUFFER_SIZE_FIRST_BYTES].into(),
            next_call: 0,
            activity: 0,
            queries: BTreeSet::new(),
            loss: None,
            segments: BTreeMap::new(),
            segment_news: Arc::default(),
            topology: None,
            received,
            results: Results::default(),
            pulls: Pulls::default(),
            has_unasked: false,
            has_unread: false,
            is_led: false,
            is_blocking,
            is_shut: false,
            is_in_callback: false,
            is_listening: false,
            beside: None,
            events: None,
            is_leaving: false,
            defers_replies: false,
            futex_waits: FutexWaits::default(),
            index,
            fork_mark: Arc::new(ForkMark::new()),
        }
    }

    pub(super) fn socket(&self) -> Arc<OwnedFd> {
        self.stream.socket()
    }

    pub(super) fn fork_mark(&self) -> Arc<ForkMark> {
        Arc::clone(&self.fork_mark)
    }

    /// The kind and limits of the server.
    pub(super) const fn peer_profile(&self) -> PeerProfile {
        self.peer_profile
    }

    /// Takes the bytes that came with the end of the handshake.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.inbox.feed(bytes);
    }

    /// Grows with each request that is no query, with its end, and with each event. An answer may differ afterwards.
    pub(super) const fn activity(&self) -> u64 {
        self.activity
    }

    pub(super) fn is_lost(&self) -> bool {
        self.loss.is_some()
    }

    pub(super) fn has_queued(&self) -> bool {
        self.stream.has_queued()
    }

    /// Sets the receiver of events; `server` is the source of events about the server itself.
    pub(super) fn set_events(&mut self, hub: Weak<EventHub>, server: ProcId) {
        self.events = Some(EventSink { hub, server });
    }

    /// Whether input may come that the progress thread must handle.
    pub(super) fn has_business(&self) -> bool {
        let is_listening = self.is_listening || !self.pulls.is_empty();
        self.loss.is_none() && (is_listening || !self.results.callbacks.is_empty())
    }

    /// Whether the waiting progress thread must look again, given what it knew.
    pub(super) fn concerns(&self, beside: &Beside) -> bool {
        !self.results.ready.is_empty()
            || !self.has_business()
            || (self.has_queued() && !beside.watches_room)
            || self.poll_timeout().is_some_and(|deadline| beside.deadline.is_none_or(|known| deadline < known))
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.core.poll_timeout()
    }

    /// The segment announced for a namespace, to be mapped by the caller.
    pub(super) fn take_segment(&mut self, namespace: &Namespace) -> Option<OwnedFd> {
        self.segments.remove(namespace).flatten()
    }

    /// The announcements about other jobs: segments to be mapped by the caller, or the end of a segment.
    pub(super) fn take_segments_but(&mut self, own: &Namespace) -> BTreeMap<Namespace, Option<OwnedFd>> {
        let kept = self.segments.remove_entry(own);
        std::mem::replace(&mut self.segments, kept.into_iter().collect())
    }

    /// Grows with each announcement.
    pub(super) fn segment_news(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.segment_news)
    }

    /// The segment of the node's topology, to be mapped by the caller.
    pub(super) const fn take_topology(&mut self) -> Option<OwnedFd> {
        self.topology.take()
    }

    pub(super) fn is_segment_announced(&self, namespace: &Namespace) -> bool {
        self.segments.contains_key(namespace)
    }

    pub(super) fn begin(&mut self, now: Time, call: Call) -> CallId {
        let id = self.enter(now, call);
        self.advance(now);
        id
    }

    /// As [`LinkState::begin`], for a call that another call follows at once. Both messages are sent together, and both
    /// replies may come together. Only our own servers support that.
    pub(super) fn prepare(&mut self, now: Time, call: Call) -> CallId {
        let id = self.enter(now, call);
        self.defers_replies = self.peer_profile.is_ours;
        // The second call notifies the threads that wait for results of this step.
        self.has_unasked |= self.obey(now);
        self.defers_replies = false;
        id
    }

    fn enter(&mut self, now: Time, call: Call) -> CallId {
        self.notice_fork(now);
        self.is_leaving |= matches!(call, Call::Finalize);
        let id = CallId(self.next_call);
        self.next_call += 1;
        if call.command() == Command::QueryInfo {
            self.queries.insert(id);
        } else {
            self.activity += 1;
        }
        self.core.handle(now, ClientInput::Call(id, call));
        id
    }

    /// Ends a call that waited for events.
    pub(super) fn settle(&mut self, now: Time, id: CallId) {
        self.core.handle(now, ClientInput::Settle(id));
        self.advance(now);
    }

    /// Ends the conversation from this side.
    pub(super) fn shut(&mut self, now: Time) {
        self.is_shut = true;
        self.lose(now, LossReason::Closed);
        self.advance(now);
    }

    /// Notes that there is no server.
    pub(super) fn forgo(&mut self, now: Time) {
        self.lose(now, LossReason::Alone);
    }

    /// Lets the core act: on deadlines, then by its outputs. Returns whether a call is done, or whether there is input
    /// for the progress thread.
    pub(super) fn advance(&mut self, now: Time) -> bool {
        self.notice_fork(now);
        if self.core.poll_timeout().is_some_and(|deadline| deadline <= now) {
            self.core.handle(now, ClientInput::Timeout);
        }
        let mut is_any_done = std::mem::take(&mut self.has_unasked);
        loop {
            is_any_done |= self.obey(now);
            if self.loss.is_some() || self.stream.flush().is_ok() {
                return is_any_done;
            }
            self.lose(now, LossReason::Broken);
        }
    }

    /// Executes the core's outputs. Returns whether a call is done.
    fn obey(&mut self, now: Time) -> bool {
        let mut is_any_done = false;
        while let Some(output) = self.core.poll_output() {
            is_any_done |= matches!(output, ClientOutput::Done(..));
            self.execute(now, output);
        }
        is_any_done
    }

    fn execute(&mut self, now: Time, output: ClientOutput) {
        match output {
            ClientOutput::Send(tag, request) => self.send(now, tag, request),
            ClientOutput::Received(data) => self.received.receive(&data),
            ClientOutput::Forget(namespace) => self.received.forget(&namespace),
            ClientOutput::Outdated => self.received.outdate(),
            ClientOutput::Done(id, result) => {
                // A query before the end of another request may not show its effect.
                self.activity += u64::from(!self.queries.remove(&id));
                self.results.deliver(id, result);
            }
            ClientOutput::Report(anomaly) => tracing::warn!(?anomaly, "the server answered against the protocol"),
            ClientOutput::Close => self.lose(now, LossReason::Closed),
        }
    }

    fn send(&mut self, now: Time, tag: Tag, mut request: Request) {
        if self.loss.is_some() {
            return;
        }
        self.peer_profile.complete(&mut request);
        let sent_as = if self.defers_replies && tag != Tag::HEARTBEAT { tag.deferred() } else { tag };
        let mut bytes = match self.codec.write_request(sent_as, &request) {
            Ok(bytes) => bytes,
            Err(MessageEncodeError::Frame(FrameError { declared: size_bytes, limit })) => {
                return self.core.handle(now, ClientInput::NotSent(tag, Unsendable::TooLarge { size_bytes, limit }));
            }
            Err(error) => {
                tracing::error!(%error, command = ?request.command(), "a request can't be written for this server");
                return self.core.handle(now, ClientInput::NotSent(tag, Unsendable::NoForm));
            }
        };
        if let Some(sleep) = self.futex_waits.begins_futex_wait(tag, &request, self.defers_replies) {
            self.mark_futex_wait(sleep, &mut bytes);
        }
        self.queue(now, bytes);
    }

    fn queue(&mut self, now: Time, message: Vec<u8>) {
        if self.stream.queue(message, None).is_err() {
            // Otherwise the server would wait for a request that this process believes to have sent.
            self.lose(now, LossReason::Broken);
        }
    }

    /// Passes an event to the handlers, if there are any.
    fn raise(&mut self, event: Event) {
        self.activity += 1;
        let Some(sink) = self.events.as_ref().filter(|_| self.is_listening) else { return };
        let hub = Weak::clone(&sink.hub);
        self.has_unasked = true;
        self.results.ready.push_back(Box::new(move || {
            if let Some(hub) = hub.upgrade() {
                hub.arrive(event);
            }
        }));
    }

    /// In a forked copy every call fails before it uses the socket.
    fn notice_fork(&mut self, now: Time) {
        if !self.fork_mark.is_of_this_process() {
            self.lose(now, LossReason::Forked);
        }
    }

    fn lose(&mut self, now: Time, reason: LossReason) {
        if self.loss.is_none() {
            self.loss = Some(reason);
            let is_of_server = matches!(reason, LossReason::EndOfFile | LossReason::Broken | LossReason::Malformed)
                && !self.is_leaving;
            if let Some(sink) = self.events.as_ref().filter(|_| is_of_server) {
                let source = Some(sink.server.clone());
                let (status, range) = (Status::ERR_LOST_CONNECTION, range::RANGE_PROC_LOCAL);
                self.raise(Event { status, source, range, info: Vec::new() });
            }
            self.core.handle(now, ClientInput::Lost(reason));
        }
    }
}
