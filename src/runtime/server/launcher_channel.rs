//! Requests between a tool and a launcher on the connection that the launcher has made to the tool's server.
//!
//! Launchers of OpenPMIx and PRRTE serve the tool that has started them there, also before they serve anybody else. A
//! server with this library may be either of the two. A client session of this process is one end of a socket pair. Two
//! threads pass its messages on.
//!
//! ```text
//! session ── socket pair ── thread ── loop ──► other side    requests, with other numbers
//! session ◄─ socket pair ── thread ◄─ queue ── other side    answers, events, output
//! ```
//!
//! - **P1** Sessions have the numbers of requests from [`FIRST_OF_PARENT`] on. Below [`FIRST_OF_LAUNCHER`] the launcher asks its tool,
//!   above it the tool asks its launcher. Peers of OpenPMIx choose smaller ones.
//! - **P2** The loop never waits: a session that does not read is cut off, with at most 64 MiB that wait for it.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crossbeam::channel::{Sender, TrySendError, bounded};

use super::loop_messages::{LoopMessage, LoopSender};
use crate::proto::Tag;
use crate::proto::frame::{Frame, FrameHeader};
use crate::runtime::shared::message_codec::message_buffer;
use crate::runtime::shared::threads::spawn;
use crate::server::PeerId;

/// The way of the other side's messages to the session. Its drop ends the session behind the last message.
#[derive(Debug)]
pub(super) struct LauncherChannel {
    numbers: Range<u32>,
    frames: Sender<Vec<u8>>,
    state: Arc<ChannelState>,
    socket: UnixStream,
}

#[derive(Debug, Default)]
struct ChannelState {
    /// Bytes that wait for the session.
    waiting_bytes: AtomicUsize,
    /// Whether the session has gone.
    is_over: AtomicBool,
}

impl LauncherChannel {
    /// Begins to pass messages to and from a launcher. The channel ends with the connection or the session.
    pub(super) fn to_launcher(loop_sender: LoopSender, id: PeerId) -> io::Result<(Self, UnixStream)> {
        Self::begin(loop_sender, id, FIRST_OF_LAUNCHER..u32::MAX)
    }

    /// The same for the tool that started this process.
    pub(super) fn to_parent(loop_sender: LoopSender, id: PeerId) -> io::Result<(Self, UnixStream)> {
        Self::begin(loop_sender, id, FIRST_OF_PARENT..FIRST_OF_LAUNCHER)
    }

    fn begin(loop_sender: LoopSender, id: PeerId, numbers: Range<u32>) -> io::Result<(Self, UnixStream)> {
        let (reading, socket) = UnixStream::pair()?;
        let (mut writing, own) = (reading.try_clone()?, reading.try_clone()?);
        let (sender, frames) = bounded::<Vec<u8>>(FRAMES_MAX);
        let state = Arc::new(ChannelState::default());
        let (written, read) = (Arc::clone(&state), Arc::clone(&state));
        spawn("modex-to-tool", move || {
            for bytes in frames {
                if writing.write_all(&bytes).is_err() {
                    break;
                }
                // Relaxed: the count guards nothing else.
                written.waiting_bytes.fetch_sub(bytes.len(), Ordering::Relaxed);
            }
            // It fails if the session has gone already.
            let _ = writing.shutdown(Shutdown::Both);
        })?;
        let first = numbers.start;
        spawn("modex-to-launcher", move || {
            pass_on(reading, &loop_sender, id, first);
            read.is_over.store(true, Ordering::Relaxed);
        })?;
        Ok((Self { numbers, frames: sender, state, socket: own }, socket))
    }

    /// Whether the session has gone.
    pub(super) fn is_over(&self) -> bool {
        self.state.is_over.load(Ordering::Relaxed)
    }

    /// Ends the session without the messages that wait for it.
    pub(super) fn cut_off(self) {
        // The thread that writes may wait for the session. It fails if the session has gone already.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Passes a message of the other side to the session, if it is one for the session.
    pub(super) fn take(&self, frame: &Frame<'_>) -> Passed {
        let tag = match frame.header.tag {
            tag @ (Tag::NOTIFICATION | Tag::OUTPUT | Tag::REMOVAL) => tag,
            Tag(number) if self.numbers.contains(&number) => Tag(number - self.numbers.start),
            _ => return Passed::NotMeant,
        };
        let bytes = with_tag(frame, tag);
        let count = bytes.len();
        if self.state.waiting_bytes.fetch_add(count, Ordering::Relaxed).saturating_add(count) > WAITING_BYTES_MAX {
            return Passed::Ended;
        }
        match self.frames.try_send(bytes) {
            Ok(()) => Passed::Taken,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => Passed::Ended,
        }
    }
}

/// The fate of a message of the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passed {
    /// It is on its way to the session.
    Taken,
    /// It is for the server.
    NotMeant,
    /// It was for a session that has gone, or does not read.
    Ended,
}

/// Reads the session's messages and gives them to the loop.
fn pass_on(mut socket: UnixStream, loop_sender: &LoopSender, id: PeerId, first: u32) {
    let (mut inbox, mut buffer) = (message_buffer(), vec![0; BUFFER_BYTES]);
    while let Ok(count @ 1..) = socket.read(&mut buffer) {
        inbox.feed(buffer.get(..count).unwrap_or_default());
        loop {
            let frame = match inbox.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(%error, "this process can't send a message to its launcher or tool, and leaves it");
                    // It fails if the session has gone already.
                    let _ = socket.shutdown(Shutdown::Both);
                    return;
                }
            };
            let tag = match frame.header.tag {
                tag if tag < Tag::DYNAMIC_FIRST => tag,
                Tag(number) => Tag(number.saturating_add(first)),
            };
            if loop_sender.send(LoopMessage::ToLauncher(id, with_tag(&frame, tag))).is_err() {
                return;
            }
        }
    }
}

fn with_tag(frame: &Frame<'_>, tag: Tag) -> Vec<u8> {
    [&FrameHeader { tag, padding: 0, ..frame.header }.encode(), frame.payload].concat()
}

/// Number of a launcher's first request at the tool that started it.
const FIRST_OF_PARENT: u32 = 0x2000_0000;
/// Number of a tool's first request at a launcher.
const FIRST_OF_LAUNCHER: u32 = 0x4000_0000;
/// Messages that may wait for the session.
const FRAMES_MAX: usize = 4096;
/// Their bytes.
const WAITING_BYTES_MAX: usize = 64 << 20;
const BUFFER_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::frame;
    use crate::runtime::server::poller::{Poller, Token, Waker};

    #[test]
    fn answers_and_notices_go_to_the_session_and_requests_to_the_server() {
        let (frames_sender, frames) = bounded(1);
        let (socket, _session) = UnixStream::pair().unwrap();
        let numbers = FIRST_OF_PARENT..FIRST_OF_LAUNCHER;
        let channel = LauncherChannel { numbers, frames: frames_sender, state: Arc::default(), socket };
        let take = |number: u32| {
            let bytes = frame::encode(0, Tag(number), b"text").unwrap();
            let mut inbox = message_buffer();
            inbox.feed(&bytes);
            channel.take(&inbox.next_frame().unwrap().unwrap())
        };
        for (number, expected) in [(FIRST_OF_PARENT + 101, 101), (0, 0), (2, 2)] {
            assert_eq!(take(number), Passed::Taken);
            assert_eq!(frames.recv().unwrap(), frame::encode(0, Tag(expected), b"text").unwrap());
        }
        // The other side's session may ask, too.
        assert_eq!([take(101), take(1), take(FIRST_OF_LAUNCHER + 101)], [Passed::NotMeant; 3]);
        assert_eq!([take(0), take(0)], [Passed::Taken, Passed::Ended]);
        assert_eq!(frames.recv().unwrap().len(), frame::encode(0, Tag(0), b"text").unwrap().len());
        channel.state.waiting_bytes.store(WAITING_BYTES_MAX, Ordering::Relaxed);
        assert_eq!(take(0), Passed::Ended, "too much waits");
    }

    /// Regression: the end of a launcher could overtake its last event, so its tool missed the end of the job.
    #[test]
    fn the_last_messages_of_a_connection_precede_the_end_of_the_session() {
        let (loop_sender, _receiver) = LoopSender::new(Waker::new(&Poller::new().unwrap(), Token(0)).unwrap());
        let (channel, mut session) = LauncherChannel::to_launcher(loop_sender, PeerId(1)).unwrap();
        let payload = vec![7; 1 << 20];
        let bytes = frame::encode(0, Tag::NOTIFICATION, &payload).unwrap();
        let mut inbox = message_buffer();
        inbox.feed(&bytes);
        assert_eq!(channel.take(&inbox.next_frame().unwrap().unwrap()), Passed::Taken);
        drop(channel);
        let mut read = Vec::new();
        session.read_to_end(&mut read).unwrap();
        assert!(read == bytes, "{} of {} bytes", read.len(), bytes.len());
    }
}
