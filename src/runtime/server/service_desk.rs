//! The common part of the desks that answer the server's own services.

use nix::unistd::geteuid;

use super::loop_messages::{LoopMessage, LoopSender};
use super::name_desk::NameCallback;
use crate::server::{HostReply, UpcallId};

/// The receiver of an answer.
pub(super) enum ReplyTo {
    /// The core, for a process.
    Core(UpcallId),
    /// The server's own process.
    Caller(NameCallback),
}

/// Gives an answer to its receiver.
pub(super) fn answer(loop_sender: &LoopSender, reply_to: ReplyTo, reply: HostReply) {
    match reply_to {
        // A loop that has ended needs no answer.
        ReplyTo::Core(upcall) => drop(loop_sender.send(LoopMessage::Completed(upcall, reply))),
        ReplyTo::Caller(callback) => callback(reply),
    }
}

/// Whether a user has no share: root and the server's own user.
pub(super) fn may_take_all(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw()
}
