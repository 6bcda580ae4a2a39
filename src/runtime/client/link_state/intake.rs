//! Input of a client's connection: turns bytes and descriptors into replies, segments, events and output.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use super::LinkState;
use crate::client::{ClientInput, LossReason};
use crate::events::Event;
use crate::proto::frame::{Frame, FrameBuffer};
use crate::proto::notification::{EventNotice, RELAYED, RemovalNotice};
use crate::proto::{RankData, Tag};
use crate::ptl::{Received, StreamError, Waited};
use crate::types::codes::range;
use crate::types::{Kval, Namespace, Time, Value};

impl LinkState {
    /// Reads the input that has arrived. [`LinkState::advance`] acts on it.
    pub(in crate::runtime) fn receive(&mut self, now: Time) {
        self.notice_fork(now);
        self.has_unread = false;
        for _ in 0..RECEIVES_PER_TURN {
            if self.loss.is_some() {
                return;
            }
            let received = self.stream.receive(&mut self.buffer);
            if !self.take_in(now, received) {
                return;
            }
        }
        self.has_unread = true;
    }

    /// The buffer of a leader that waits without the lock. No other thread receives meanwhile.
    pub(in crate::runtime) fn lend_buffer(&mut self) -> Box<[u8]> {
        std::mem::take(&mut self.buffer)
    }

    /// As [`LinkState::receive`], starting with the leader's input.
    pub(in crate::runtime) fn receive_on(&mut self, now: Time, buffer: Box<[u8]>, waited: Result<Waited, StreamError>) {
        self.buffer = buffer;
        let received = match waited {
            Ok(Waited::Came(arrival)) => Ok(self.stream.keep(arrival)),
            Ok(Waited::Interrupted) => Ok(Received::Nothing),
            Ok(Waited::NotBlocking) => {
                self.is_blocking = false;
                Ok(Received::Nothing)
            }
            Err(error) => Err(error),
        };
        self.has_unread = self.loss.is_none() && self.take_in(now, received);
        if self.has_unread {
            self.receive(now);
        }
    }

    /// Takes the result of one receive. Returns whether there may be more input.
    fn take_in(&mut self, now: Time, received: Result<Received, StreamError>) -> bool {
        let count = match received {
            Ok(Received::Bytes(count)) => count,
            Ok(Received::Nothing) => return false,
            Ok(Received::End) => {
                self.lose(now, LossReason::EndOfFile);
                return false;
            }
            Err(_) => {
                self.lose(now, LossReason::Broken);
                return false;
            }
        };
        let is_full = count == self.buffer.len();
        let may_be_more = is_full || self.stream.has_descriptor();
        self.inbox.feed(self.buffer.get(..count).unwrap_or_default());
        self.digest(now);
        if is_full && count < BUFFER_SIZE_BYTES {
            self.buffer = vec![0; count.saturating_mul(BUFFER_GROWTH).min(BUFFER_SIZE_BYTES)].into();
        }
        may_be_more
    }

    /// Turns received bytes into replies and segments.
    pub(in crate::runtime) fn digest(&mut self, now: Time) {
        // Frames borrow the inbox, and their handling needs the rest of `self`.
        let mut inbox = std::mem::replace(&mut self.inbox, FrameBuffer::new(0));
        while self.loss.is_none() {
            match inbox.next_frame() {
                Ok(Some(frame)) => self.accept(now, &frame),
                Ok(None) => break,
                Err(error) => {
                    tracing::error!(%error, "the server sent bytes that are not a message; closing the connection");
                    self.lose(now, LossReason::Malformed);
                }
            }
        }
        self.inbox = inbox;
    }

    fn accept(&mut self, now: Time, frame: &Frame<'_>) {
        match frame.header.tag {
            Tag::SEGMENT => self.accept_segment(now, frame),
            Tag::TOPOLOGY => self.topology = self.announced(frame).and_then(|(_, descriptor)| descriptor),
            Tag::OUTPUT => self.accept_output(frame),
            Tag::NOTIFICATION => self.accept_event(frame),
            Tag::REMOVAL => self.accept_removal(frame),
            // Servers of OpenPMIx send it if they do not watch this process.
            Tag::HEARTBEAT => {}
            tag => self.accept_reply(now, tag, frame),
        }
    }

    fn accept_reply(&mut self, now: Time, tag: Tag, frame: &Frame<'_>) {
        let tag = tag.plain();
        let read = self.core.command_of(tag).map(|command| self.codec.read_reply(frame, command));
        match read {
            None => tracing::warn!(tag = tag.0, "the server sent a reply without a request"),
            Some(Ok(reply)) => self.core.handle(now, ClientInput::Reply(tag, reply)),
            Some(Err(error)) => {
                tracing::error!(%error, "a reply of the server can't be read; closing the connection");
                self.lose(now, LossReason::Malformed);
            }
        }
    }

    fn accept_output(&mut self, frame: &Frame<'_>) {
        match self.codec.read_output(frame) {
            Ok(output) => {
                if let Some(job) = self.pulls.job_for(output) {
                    self.results.push(job);
                    self.has_unasked = true;
                }
            }
            Err(error) => tracing::warn!(%error, "forwarded output can't be read"),
        }
    }

    fn accept_event(&mut self, frame: &Frame<'_>) {
        match self.codec.read_event(frame) {
            Ok(notification) => self.raise(event_of(notification)),
            Err(error) => tracing::warn!(%error, "an event can't be read; it is lost"),
        }
    }

    /// Drops the copy of a value that another process has removed.
    fn accept_removal(&mut self, frame: &Frame<'_>) {
        match self.codec.read_removal(frame) {
            Ok(RemovalNotice { proc, key, .. }) => {
                let nothing = Kval { key, value: Value::Undefined };
                self.received.receive(&[RankData { proc, entries: vec![nothing] }]);
            }
            Err(error) => tracing::warn!(%error, "the server's notice of a removed value can't be read"),
        }
    }

    /// Reads an announcement. Only an announcement with a layout has a descriptor; any other descriptor belongs to
    /// another message.
    fn announced(&mut self, frame: &Frame<'_>) -> Option<(Namespace, Option<OwnedFd>)> {
        match self.codec.read_segment(frame) {
            Ok(notice) if notice.layout_id == 0 => Some((notice.namespace, None)),
            Ok(notice) => Some((notice.namespace, self.stream.take_descriptor())),
            Err(error) => {
                tracing::warn!(%error, "the announcement of a segment can't be read");
                None
            }
        }
    }

    fn accept_segment(&mut self, now: Time, frame: &Frame<'_>) {
        let Some((namespace, announced)) = self.announced(frame) else { return };
        if announced.is_some() {
            self.core.handle(now, ClientInput::SegmentAvailable(namespace.clone()));
        }
        self.segments.insert(namespace, announced);
        // Release pairs with the Acquire of threads that check for news without the lock.
        self.segment_news.fetch_add(1, Ordering::Release);
    }
}

/// The event of a server's message, without the mark that a server sent it.
fn event_of(notification: EventNotice) -> Event {
    let EventNotice { status, source, mut info, range } = notification;
    info.retain(|info| info.key.as_str() != RELAYED);
    // An event without a range is from the server's cache, which sends only events that this process may see.
    Event { status, source, range: range.unwrap_or(range::RANGE_UNDEF), info }
}

/// Bytes of a read, once that many have come at once: a piece of output.
const BUFFER_SIZE_BYTES: usize = 64 << 10;
/// The factor by which the buffer grows after a read that fills it.
const BUFFER_GROWTH: usize = 8;
/// Bytes of a read until then. Our server's replies mostly have a few bytes, because values are in segments. An
/// untouched page costs a starting process nothing.
pub(super) const BUFFER_SIZE_FIRST_BYTES: usize = 2 << 10;
/// Receives before other threads can look at the input.
const RECEIVES_PER_TURN: usize = 16;

#[cfg(test)]
mod tests {
    use std::io::pipe;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use nix::sys::pthread::{pthread_kill, pthread_self};
    use nix::sys::signal::Signal;

    use super::*;
    use crate::proto::Dialect;
    use crate::ptl::{Arrival, Stream, StreamLimits};
    use crate::runtime::client::received::ReceivedData;
    use crate::runtime::shared::message_codec::MessageCodec;
    use crate::runtime::shared::peer_profile::PeerProfile;
    use crate::types::{Key, ProcId};

    fn connected() -> (LinkState, Stream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let limits = StreamLimits { descriptors_max: 1, ..StreamLimits::default() };
        let received = ReceivedData::new("node0".to_owned(), Dialect::OWN);
        let own = ProcId::new(Namespace::new("job").unwrap(), 0);
        let state = LinkState::new(Stream::new(ours, limits), own, 0, PeerProfile::ours(), received);
        (state, Stream::new(theirs, StreamLimits::default()))
    }

    /// Receives as a leader that waits in the read itself.
    fn wait_and_receive(state: &mut LinkState) {
        let mut buffer = state.lend_buffer();
        let waited = Arrival::wait(&*state.socket(), &mut buffer);
        state.receive_on(Time::ZERO, buffer, waited);
    }

    /// The kernel ends a read at a descriptor. The thread beside the leader does not learn of the bytes behind it.
    #[test]
    fn bytes_behind_a_descriptor_are_read_with_it() {
        let looks: [fn(&mut LinkState); 2] = [|state| state.receive(Time::ZERO), wait_and_receive];
        for look in looks {
            let (mut state, mut theirs) = connected();
            theirs.queue(vec![0; 4], Some(Arc::new(pipe().unwrap().0.into()))).unwrap();
            theirs.flush().unwrap();
            theirs.queue(vec![0; 4], None).unwrap();
            theirs.flush().unwrap();
            look(&mut state);
            assert!(!state.has_unread);
            assert!(state.stream.has_descriptor());
            assert_eq!(state.stream.receive(&mut [0; 8]), Ok(Received::Nothing));
        }
    }

    /// Tag 4, then the process, the scope and the key, as servers of OpenPMIx 7.0 send them.
    #[test]
    fn a_copy_of_a_removed_value_is_dropped() {
        let (mut state, mut theirs) = connected();
        let proc = ProcId::new(Namespace::new("job").unwrap(), 1);
        let key = Key::from_static("k");
        let entries = vec![Kval { key: key.clone(), value: Value::Uint32(1) }];
        state.received.receive(&[RankData { proc: proc.clone(), entries }]);
        assert!(state.received.find(&proc, "k").is_some());
        let notice = RemovalNotice { proc: proc.clone(), scope: 7, key };
        let server = MessageCodec::to_client(Dialect::OWN, 1 << 20, false);
        theirs.queue(server.write_removal(&notice).unwrap(), None).unwrap();
        theirs.flush().unwrap();
        state.receive(Time::ZERO);
        state.digest(Time::ZERO);
        assert_eq!(state.received.find(&proc, "k"), None);
    }

    #[test]
    fn a_leader_that_reads_more_than_its_buffer_holds_reads_on() {
        let (mut state, mut theirs) = connected();
        let grown = BUFFER_SIZE_FIRST_BYTES * BUFFER_GROWTH;
        for (before, then) in [(BUFFER_SIZE_FIRST_BYTES, grown), (grown, BUFFER_SIZE_BYTES)] {
            theirs.queue(vec![0; before + 1], None).unwrap();
            theirs.flush().unwrap();
            wait_and_receive(&mut state);
            assert!(!state.has_unread);
            assert_eq!(state.stream.receive(&mut [0; 8]), Ok(Received::Nothing));
            assert_eq!(state.buffer.len(), then, "more will be read at once from now on");
        }
    }

    #[test]
    fn a_leader_that_waits_sees_the_end() {
        let (mut state, theirs) = connected();
        drop(theirs);
        wait_and_receive(&mut state);
        assert!(state.is_lost());
    }

    /// The handler restarts interrupted calls. If it forks, the child would receive as well as the parent.
    #[test]
    fn a_signal_ends_the_wait_whatever_its_handler_asks_for() {
        let (mut state, _theirs) = connected();
        assert!(state.is_blocking);
        let seen = Arc::<AtomicBool>::default();
        signal_hook::flag::register(nix::libc::SIGUSR2, Arc::clone(&seen)).unwrap();
        let waiter = pthread_self();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Several signals, because the first may come before the wait.
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    pthread_kill(waiter, Signal::SIGUSR2).unwrap();
                    std::thread::yield_now();
                }
            });
            wait_and_receive(&mut state);
            is_over.store(true, Ordering::Relaxed);
        });
        assert!(seen.load(Ordering::Relaxed));
        assert!(state.is_blocking && !state.is_lost());
    }

    /// A process that shares the socket, such as a fork, may make it non-blocking. Then the read would not wait.
    #[test]
    fn a_socket_that_was_told_not_to_block_is_noticed() {
        let (mut state, mut theirs) = connected();
        rustix::io::ioctl_fionbio(&*state.socket(), true).unwrap();
        assert!(state.is_blocking);
        wait_and_receive(&mut state);
        assert!(!state.is_blocking && !state.is_lost());
        theirs.queue(vec![0; 4], None).unwrap();
        theirs.flush().unwrap();
        state.receive(Time::ZERO);
        assert_eq!(state.stream.receive(&mut [0; 8]), Ok(Received::Nothing));
    }
}
