use std::collections::{BTreeMap, BTreeSet};
use std::process;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crossbeam::channel::{Receiver, Sender, unbounded};
use parking_lot::RwLock;

use crate::proto::frame::FrameHeader;
use crate::proto::handshake::Ids;
use crate::proto::request::RequestDecodeError;
use crate::proto::{Request, Service};
use crate::server::{
    FileLook, FileState, HostCall, HostData, HostReply, HostResult, OpenOperation, PeerId, Requester, UpcallId,
};
use crate::types::{Namespace, ProcId};

use super::job_info::Described;
use super::name_desk::NameCallback;
use super::pmi::{PmiEntry, PmiRefusal};
use super::poller::Waker;
use super::request_quota::Duty;
use crate::runtime::shared::data_form::DataForm;
use crate::runtime::shared::events::Job;
use crate::runtime::shared::launcher_end::{LauncherEnd, ParentConnection};
use crate::runtime::shared::message_codec::MessageEncodeError;
use crate::runtime::shared::prover::ProofError;
use crate::runtime::shared::threads::without_signals;

/// A message of another thread to the server's loop.
pub(super) enum LoopMessage {
    /// The host calls.
    Call(HostCall, ResultReceiver),
    /// The host answers an upcall.
    Completed(UpcallId, HostReply),
    /// The server's own process asks one of the server's own services.
    OwnService(Requester, Box<Service>, NameCallback),
    /// A job for the thread that calls the host.
    Run(Job),
    /// The handlers have got an event.
    Heard(Duty),
    /// The result of a credential check.
    Proven(PeerId, Result<Ids, ProofError>),
    /// The connections with the same name whose processes are strangers to a new connection's process.
    Searched(PeerId, BTreeSet<PeerId>),
    /// A large request was decoded.
    Decoded(PeerId, Box<Decoded>),
    /// A large answer was encoded.
    Encoded(PeerId, Result<Vec<u8>, MessageEncodeError>),
    /// The description of a large job was written.
    Described(Box<Described>),
    /// The reading of the topology has ended.
    TopologyRead,
    /// The state of a watched file.
    FileSeen(FileLook, Option<FileState>),
    /// A rank that speaks PMI-1 or PMI-2 has started. The caller waits for the result.
    ServePmi(PmiEntry, Sender<Result<(), PmiRefusal>>),
    /// Another thread asks for the operations that wait.
    ListOperations(Sender<Vec<OpenOperation>>),
    /// Counts the requests of each connected rank.
    CountRequests(Sender<BTreeMap<ProcId, u64>>),
    /// Another thread asks for the most bytes that a receiver of output has not read.
    MeasureOutput(Sender<usize>),
    /// Another thread asks for the form of data for the processes of a namespace. There is none without a connection.
    FindDataForm(Namespace, Sender<Option<DataForm>>),
    /// Another thread asks for a channel to a launcher, for requests of this process. `None`: no launcher is connected
    /// that serves this process there.
    OpenLauncher(ProcId, Sender<Option<LauncherEnd>>),
    /// Another thread hands over a connection to the tool that started this process. The answer is a channel for
    /// requests to the tool.
    ServeParent(Box<ParentConnection>, Sender<Option<LauncherEnd>>),
    /// A request of this process to the launcher of this connection, or to the tool that started this process.
    ToLauncher(PeerId, Vec<u8>),
    /// Close everything and end.
    Shutdown,
}

/// The receiver of a host call's result.
pub(super) enum ResultReceiver {
    /// A waiting thread.
    Waiter(Sender<HostResult<HostData>>),
    /// A function for the host's thread.
    Callback(HostResultCallback),
}

/// Takes the result of a host's call.
pub(super) type HostResultCallback = Box<dyn FnOnce(HostResult) + Send>;

/// The server's loop between turns, for the next thread that takes one.
pub(super) trait Desk: Send + Sync {
    /// Takes a turn on this thread. Returns false if another thread takes one, or if the loop has ended.
    fn take_turn(&self) -> bool;
}

/// Passes messages to the loop. If no thread takes a turn, a call of the host is handled on the thread that makes it.
/// For most calls this is faster than to wake the loop's thread and wait for it. Otherwise the loop is woken.
///
/// The number of messages is limited by their senders: a waiting caller has one, and the core limits upcalls and held
/// requests.
#[derive(Clone)]
pub(super) struct LoopSender {
    messages: Sender<LoopMessage>,
    /// Whether the loop takes no more messages. Held during a send, so that no message comes after the loop's last
    /// look.
    is_closed: Arc<RwLock<bool>>,
    waker: Waker,
    /// Set before the first turn.
    desk: Arc<OnceLock<Arc<dyn Desk>>>,
    /// A forked child has a copy of the loop, but its sockets belong to the parent.
    creator_pid: u32,
}

/// The loop's end of the queue.
pub(super) struct LoopReceiver {
    messages: Receiver<LoopMessage>,
    is_closed: Arc<RwLock<bool>>,
}

/// The loop has ended and takes no more messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LoopEnded;

impl LoopSender {
    pub(super) fn new(waker: Waker) -> (Self, LoopReceiver) {
        let (messages, receiver) = unbounded();
        let is_closed = Arc::new(RwLock::new(false));
        let receiver = LoopReceiver { messages: receiver, is_closed: Arc::clone(&is_closed) };
        (Self { messages, is_closed, waker, desk: Arc::default(), creator_pid: process::id() }, receiver)
    }

    /// Sets the place of the loop between its turns. The first call counts.
    pub(super) fn set_desk(&self, desk: Arc<dyn Desk>) {
        self.desk.get_or_init(|| desk);
    }

    /// Sends a message. Success means that the loop will handle it.
    pub(super) fn send(&self, message: LoopMessage) -> Result<(), LoopEnded> {
        self.give(message).map_err(|_| LoopEnded)
    }

    /// Whether the loop takes no more messages.
    pub(super) fn is_closed(&self) -> bool {
        *self.is_closed.read()
    }

    /// As [`LoopSender::send`]; a late message is returned.
    pub(super) fn give(&self, message: LoopMessage) -> Result<(), Box<LoopMessage>> {
        let may_take_turn = message.may_take_turn();
        let is_closed = self.is_closed.read();
        if *is_closed {
            return Err(Box::new(message));
        }
        self.messages.send(message).map_err(|unsent| Box::new(unsent.0))?;
        drop(is_closed);
        if !may_take_turn || !self.take_turn() {
            self.waker.wake();
        }
        Ok(())
    }

    /// Takes a turn of the loop on this thread, unless another thread takes one.
    fn take_turn(&self) -> bool {
        let turn = || process::id() == self.creator_pid && self.desk.get().is_some_and(|desk| desk.take_turn());
        without_signals(turn).unwrap_or(false)
    }
}

impl LoopMessage {
    /// Whether the sending thread may take the loop's turn. It may for calls, because a caller waits for the result. An
    /// answer of the host is followed by requests of processes, for which the loop's thread should be awake.
    const fn may_take_turn(&self) -> bool {
        matches!(self, Self::Call(..) | Self::OwnService(..) | Self::Run(_) | Self::ServePmi(..))
    }
}

impl LoopReceiver {
    /// The next message, if there is one.
    pub(super) fn take(&self) -> Option<LoopMessage> {
        self.messages.try_recv().ok()
    }

    /// Takes no more messages. All accepted messages are in the queue now.
    pub(super) fn close(&self) {
        *self.is_closed.write() = true;
    }
}

impl Drop for LoopReceiver {
    fn drop(&mut self) {
        self.close();
    }
}

/// A request after its decoding, or the error. Its bytes are freed on the thread, because that takes milliseconds, too.
pub(super) struct Decoded {
    pub(super) header: FrameHeader,
    /// The request and its memory in bytes.
    pub(super) request: Result<(Request, usize), RequestDecodeError>,
    pub(super) time: Duration,
}

impl Decoded {
    /// Memory of the request.
    pub(super) fn size_bytes(&self) -> usize {
        self.request.as_ref().map_or(0, |(_, size_bytes)| *size_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::server::poller::{Poller, Token};

    /// A message that came behind the loop's last look was accepted and then dropped, so its callback never ran. Now
    /// sending and closing exclude each other.
    #[test]
    fn the_last_look_of_the_loop_finds_every_accepted_message() {
        for _ in 0..50 {
            let poller = Poller::new().unwrap();
            let (sender, receiver) = LoopSender::new(Waker::new(&poller, Token(0)).unwrap());
            let sending = std::thread::Builder::new()
                .spawn(move || (0..).take_while(|_| sender.send(LoopMessage::Shutdown).is_ok()).count());
            while receiver.take().is_none() {}
            receiver.close();
            let taken = std::iter::from_fn(|| receiver.take()).count() + 1;
            let still_there = receiver.take().is_some();
            assert_eq!((sending.unwrap().join().unwrap(), still_there), (taken, false));
        }
    }
}
