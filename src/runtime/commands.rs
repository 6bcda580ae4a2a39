use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::Arc;

use crossbeam::channel::{Receiver, Sender, unbounded};
use parking_lot::{Mutex, RwLock};

use crate::proto::handshake::Ids;
use crate::server::{HostCall, HostReply, HostResult, PeerId, UpcallId};

use super::burdens::Duty;
use super::decoder::Decoded;
use super::events::Job;
use super::lines::WriteError;
use super::poller::Waker;
use super::prover::ProofError;
use super::server_loop::ServerLoop;
use super::threads::without_signals;

/// What other threads want of the server's loop.
pub(super) enum Command {
    /// The host calls.
    Call(HostCall, Completion),
    /// The host answers an upcall.
    Completed(UpcallId, HostReply),
    /// Run something on the thread of the host's functions.
    Run(Job),
    /// The handlers have had an event.
    Heard(Duty),
    /// Whom a peer's credential proves.
    Proven(PeerId, Result<Ids, ProofError>),
    /// Which others under its name are strangers to a new connection's process.
    Searched(PeerId, BTreeSet<PeerId>),
    /// A large request was decoded.
    Decoded(PeerId, Box<Decoded>),
    /// A large answer was encoded.
    Encoded(PeerId, Result<Vec<u8>, WriteError>),
    /// The topology has been read, or could not be.
    TopologyRead,
    /// Close everything and end.
    Shutdown,
}

/// Whom the result of a host's call goes to.
pub(super) enum Completion {
    /// A thread that waits for it.
    Waiter(Sender<HostResult>),
    /// A function to run on the host's thread.
    Callback(Callback),
}

/// Takes the result of a host's call.
pub(super) type Callback = Box<dyn FnOnce(HostResult) + Send>;

/// The server's loop, for the thread that takes a turn. Empty before the first turn and after the last.
pub(super) type Desk = Arc<Mutex<Option<ServerLoop>>>;

/// Brings commands to the loop. A call of the host is handled on the thread that makes it if nobody takes a turn just then: to
/// wake the loop's thread, and to be woken by it, takes longer than most calls. Otherwise it wakes the loop. What can be on its way is bounded by who sends: waiting callers have one
/// each, and the core bounds upcalls and held requests.
#[derive(Clone)]
pub(super) struct CommandSender {
    commands: Sender<Command>,
    /// Whether the loop takes no more. Held while a command is sent, so that none slips in behind the last look.
    is_closed: Arc<RwLock<bool>>,
    waker: Waker,
    desk: Desk,
    /// A forked child has a copy of the loop, and its sockets are the parent's.
    creator_pid: u32,
}

/// The loop's end of it.
pub(super) struct CommandReceiver {
    commands: Receiver<Command>,
    is_closed: Arc<RwLock<bool>>,
}

/// The loop has ended; nobody takes commands any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LoopEnded;

impl CommandSender {
    pub(super) fn new(waker: Waker) -> (Self, CommandReceiver) {
        let (commands, receiver) = unbounded();
        let is_closed = Arc::new(RwLock::new(false));
        let receiver = CommandReceiver { commands: receiver, is_closed: Arc::clone(&is_closed) };
        (Self { commands, is_closed, waker, desk: Desk::default(), creator_pid: process::id() }, receiver)
    }

    /// Where the loop is between its turns.
    pub(super) const fn desk(&self) -> &Desk {
        &self.desk
    }

    /// Success means that the loop looks at it.
    pub(super) fn send(&self, command: Command) -> Result<(), LoopEnded> {
        self.give(command).map_err(|_| LoopEnded)
    }

    /// As [`CommandSender::send`]; what comes too late is given back.
    pub(super) fn give(&self, command: Command) -> Result<(), Box<Command>> {
        let may_take_turn = command.may_take_turn();
        let is_closed = self.is_closed.read();
        if *is_closed {
            return Err(Box::new(command));
        }
        self.commands.send(command).map_err(|unsent| Box::new(unsent.0))?;
        drop(is_closed);
        if !may_take_turn || !self.take_turn() {
            self.waker.wake();
        }
        Ok(())
    }

    /// Has the loop take a turn here, if it is not in one. A panic ends the loop, as one on its own thread does.
    fn take_turn(&self) -> bool {
        let turn = || {
            if process::id() != self.creator_pid {
                return false;
            }
            let Some(mut desk) = self.desk.try_lock() else { return false };
            let Some(server_loop) = &mut *desk else { return false };
            let is_whole = catch_unwind(AssertUnwindSafe(|| server_loop.turn_of_caller())).is_ok();
            if !is_whole {
                *desk = None;
            }
            is_whole
        };
        without_signals(turn).unwrap_or(false)
    }
}

impl Command {
    /// Whether the thread that sends it may take the loop's turn. Somebody waits for what a host calls. After an answer of the host
    /// requests of processes follow, for which the loop's thread should be awake.
    const fn may_take_turn(&self) -> bool {
        matches!(self, Self::Call(..) | Self::Run(_))
    }
}

impl CommandReceiver {
    /// The next command, if there is one.
    pub(super) fn take(&self) -> Option<Command> {
        self.commands.try_recv().ok()
    }

    /// Takes no more: whatever was accepted is here now, and nothing follows it.
    pub(super) fn close(&self) {
        *self.is_closed.write() = true;
    }
}

impl Drop for CommandReceiver {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::poller::{Poller, Token};

    /// What was sent while the loop ended, behind its last look at the queue, was dropped after the sender had been told
    /// that it would be looked at: a callback that never came. Sending and closing exclude each other now.
    #[test]
    fn what_was_accepted_is_there_when_the_loop_looks_for_the_last_time() {
        for _ in 0..50 {
            let poller = Poller::new().unwrap();
            let (sender, receiver) = CommandSender::new(Waker::new(&poller, Token(0)).unwrap());
            let sending = std::thread::Builder::new()
                .spawn(move || (0..).take_while(|_| sender.send(Command::Shutdown).is_ok()).count());
            while receiver.take().is_none() {}
            receiver.close();
            let taken = std::iter::from_fn(|| receiver.take()).count() + 1;
            let still_there = receiver.take().is_some();
            assert_eq!((sending.unwrap().join().unwrap(), still_there), (taken, false));
        }
    }
}
