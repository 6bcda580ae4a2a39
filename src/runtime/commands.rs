use crossbeam::channel::{Receiver, Sender, unbounded};

use crate::server::{HostCall, HostReply, HostResult, UpcallId};

use super::events::Job;
use super::poller::Waker;

/// What other threads want of the server's loop.
pub(super) enum Command {
    /// The host calls.
    Call(HostCall, Completion),
    /// The host answers an upcall.
    Completed(UpcallId, HostReply),
    /// Run something on the thread of the host's functions.
    Run(Job),
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

/// Brings commands to the loop and wakes it. What can be on its way is bounded by who sends: waiting callers have one
/// each, and the core bounds upcalls and held requests.
#[derive(Clone)]
pub(super) struct CommandSender {
    commands: Sender<Command>,
    waker: Waker,
}

/// The loop has ended; nobody takes commands any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LoopEnded;

impl CommandSender {
    pub(super) fn new(waker: Waker) -> (Self, Receiver<Command>) {
        let (commands, receiver) = unbounded();
        (Self { commands, waker }, receiver)
    }

    pub(super) fn send(&self, command: Command) -> Result<(), LoopEnded> {
        self.commands.send(command).map_err(|_| LoopEnded)?;
        self.waker.wake();
        Ok(())
    }
}
