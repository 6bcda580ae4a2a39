//! Replies on their way to a peer: sent at once, sent with the next reply, or written to the completion table of the
//! namespace.

use std::sync::Arc;

use super::{Connection, Dropped, Known, Stage};
use crate::gds::{CompletionStatus, REQUESTS_END};
use crate::proto::frame::FutexWaitMark;
use crate::proto::{Command, Reply, Tag};
use crate::runtime::server::request_quota::Account;
use crate::runtime::shared::message_codec::{MessageCodec, MessageEncodeError};
use crate::types::{Namespace, Status};

/// Replies that wait, and replies that the peer does not read.
#[derive(Debug, Default)]
pub(super) struct Replies {
    /// The peer's slot at the completion table, if it has one.
    slot: Option<(Namespace, u32)>,
    /// Bytes of replies that wait for the next one. If more bytes are queued, nothing waits any more.
    deferred_bytes: usize,
    /// The last of these replies. It waits only while a later request is open.
    last_deferred: Option<DeferredReply>,
    /// The request whose reply the peer awaits at a futex.
    futex_wait: Option<(Tag, FutexWaitMark)>,
    /// The last reply that was written to the completion table. It is sent as a message if the peer did not see it
    /// there.
    withheld: Option<Withheld>,
}

#[derive(Clone, Copy, Debug)]
struct DeferredReply {
    tag: Tag,
    /// Whether nothing else waits, and the reply is a success.
    is_lone_success: bool,
}

/// A success without a message.
#[derive(Clone, Copy, Debug)]
struct Withheld {
    tag: Tag,
    /// The commit that was sent together with the fence.
    forerunner: Option<Tag>,
}

impl Replies {
    pub(super) const fn has_slot(&self) -> bool {
        self.slot.is_some()
    }

    /// Notes a request.
    pub(super) fn note(&mut self, tag: Tag, command: Command, padding: u32) {
        // The reply to a successful fence holds no more than the success; other replies have results.
        if self.has_slot()
            && command == Command::Fence
            && tag.0 < REQUESTS_END
            && let Some(mark) = FutexWaitMark::of_padding(padding)
        {
            self.futex_wait = Some((tag, mark));
            // A peer that sends its next request has seen the result of the last one.
            self.withheld = None;
        }
    }

    /// The peer sleeps no longer. Returns the replies that were written to the completion table while the peer woke;
    /// they must be sent.
    pub(super) fn wake(&mut self, tag: Tag) -> impl Iterator<Item = (Tag, Command)> {
        self.futex_wait.take_if(|(waiting, _)| *waiting == tag);
        let withheld = self.withheld.take_if(|withheld| withheld.tag == tag);
        let forerunner = withheld.and_then(|withheld| withheld.forerunner).map(|tag| (tag, Command::Commit));
        forerunner.into_iter().chain(withheld.map(|withheld| (withheld.tag, Command::Fence)))
    }
}

impl Connection {
    /// Answers a request. If the peer sleeps, returns the verdict for the completion table.
    pub(in crate::runtime) fn reply(&mut self, tag: Tag, reply: &Reply) -> Result<Option<CompletionStatus>, Dropped> {
        if let Stage::Pmi(rank) = &mut self.stage {
            let line = rank.answer(reply);
            return line.map_or(Ok(None), |line| Ok(self.stream.queue(line.into_bytes(), None).map(|()| None)?));
        }
        let Stage::Known(known) = &mut self.stage else { return Ok(None) };
        let Some(command) = known.open.close(tag) else { return Ok(None) };
        let is_success = *reply == Reply::Status(Status::SUCCESS);
        let mark = self.replies.futex_wait.take_if(|(waiting, _)| *waiting == tag).map(|(_, mark)| mark);
        if let Some(mark) = mark
            && is_success
            && let Some(withheld) = self.withholdable(tag, mark)
        {
            self.replies.withheld = Some(withheld);
            self.end_deferral();
            self.stream.discard(&mut self.spent);
            return Ok(Some(CompletionStatus::Succeeded));
        }
        let Stage::Known(known) = &self.stage else { return Ok(None) };
        let before_bytes = self.stream.queued_bytes();
        self.stream.queue(known.codec.write_reply(tag, reply, command)?, None)?;
        // Peers of other libraries may have any number for a tag.
        if tag.is_deferred() && self.stream.carries_descriptors() && before_bytes == self.replies.deferred_bytes {
            self.replies.deferred_bytes = self.stream.queued_bytes();
            self.replies.last_deferred = Some(DeferredReply { tag, is_lone_success: is_success && before_bytes == 0 });
        }
        Ok(mark.map(|_| CompletionStatus::InMessage))
    }

    /// The replies that the verdict on the completion table replaces. `None` if the peer has not yet read an earlier
    /// message. If a commit was sent together with the fence, the verdict also stands for the commit's success.
    fn withholdable(&self, tag: Tag, mark: FutexWaitMark) -> Option<Withheld> {
        let is_all_deferred = self.stream.queued_bytes() == self.replies.deferred_bytes;
        let waiting = self.replies.last_deferred.filter(|_| self.replies.deferred_bytes > 0);
        let is_expected = match waiting {
            Some(DeferredReply { tag: before, is_lone_success }) => {
                mark.has_forerunner && is_lone_success && before.plain().0.checked_add(1) == Some(tag.0)
            }
            None => !mark.has_forerunner,
        };
        let is_tellable = is_all_deferred && is_expected && mark.has_received(self.stream.sent_bytes());
        is_tellable.then_some(Withheld { tag, forerunner: waiting.map(|waiting| waiting.tag) })
    }

    /// Closes a request that [`Connection::send_encoded`] answers soon. Returns its command and how the reply is
    /// written.
    pub(in crate::runtime) fn close_request(&mut self, tag: Tag) -> Option<(Command, MessageCodec)> {
        let Stage::Known(known) = &mut self.stage else { return None };
        Some((known.open.close(tag)?, known.codec))
    }

    /// Sends a reply that was encoded elsewhere.
    pub(in crate::runtime) fn send_encoded(
        &mut self,
        encoded: Result<Vec<u8>, MessageEncodeError>,
    ) -> Result<(), Dropped> {
        if let Stage::Known(_) = &self.stage {
            self.stream.queue(encoded?, None)?;
        }
        Ok(())
    }

    /// As [`Connection::reply`], with a payload in parts that other connections share.
    pub(in crate::runtime) fn reply_shared(&mut self, tag: Tag, payload: &[Arc<[u8]>]) -> Result<(), Dropped> {
        let Stage::Known(known) = &mut self.stage else { return Ok(()) };
        let Some(command) = known.open.close(tag) else { return Ok(()) };
        let size_bytes = payload.iter().fold(0, |bytes: usize, part| bytes.saturating_add(part.len()));
        match known.codec.write_header(tag, size_bytes) {
            Ok(header) => Ok(self.stream.queue_shared(header, payload)?),
            // Clients accept a status in place of data, and our own clients also in place of job information. They
            // continue without it.
            Err(error) if matches!(command, Command::Get | Command::StoreFallback) => {
                tracing::warn!(%error, "the description of a job is too large for a client");
                let refusal = Reply::Status(Status::ERR_OUT_OF_RESOURCE);
                Ok(self.stream.queue(known.codec.write_reply(tag, &refusal, command)?, None)?)
            }
            Err(error) => Err(Dropped::ReplyTooLarge(error)),
        }
    }

    /// Whether all queued bytes wait for a reply that is due.
    pub(super) fn is_deferring(&self) -> bool {
        let Stage::Known(Known { open, .. }) = &self.stage else { return false };
        self.replies.deferred_bytes > 0
            && self.replies.deferred_bytes == self.stream.queued_bytes()
            && self.replies.last_deferred.is_some_and(|last| open.is_any_open_after(last.tag))
    }

    /// Nothing waits for the next reply any more.
    pub(super) const fn end_deferral(&mut self) {
        self.replies.deferred_bytes = 0;
    }

    /// The namespace and number of the slot that the peer may take. Only peers that map the segment have one.
    pub(in crate::runtime) fn candidacy(&self) -> Option<(&Namespace, u32)> {
        match &self.stage {
            Stage::Known(Known { account: Account::Process(proc), index, codec, .. })
                if codec.is_ours() && self.stream.carries_descriptors() =>
            {
                Some((&proc.namespace, (*index)?))
            }
            _ => None,
        }
    }

    /// Gives the peer its slot.
    pub(in crate::runtime) fn assign_slot(&mut self) {
        self.replies.slot = self.candidacy().map(|(namespace, number)| (namespace.clone(), number));
    }

    /// The slot of the peer.
    pub(in crate::runtime) const fn slot(&self) -> Option<&(Namespace, u32)> {
        self.replies.slot.as_ref()
    }

    /// Takes the slot from the peer: this connection no longer writes to the completion table.
    pub(in crate::runtime) const fn free_slot(&mut self) -> Option<(Namespace, u32)> {
        self.replies.slot.take()
    }
}
