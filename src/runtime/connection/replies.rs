//! Answers on their way to a peer: at once, with the next one, or told at the board of its namespace.

use std::sync::Arc;

use super::{Connection, Dropped, Known, Stage};
use crate::gds::{REQUESTS_END, Verdict};
use crate::proto::frame::Asleep;
use crate::proto::{Command, Reply, Tag};
use crate::runtime::burdens::Account;
use crate::runtime::lines::{Lines, WriteError};
use crate::types::{Namespace, Status};

/// Which answers wait, and which the peer does not read.
#[derive(Debug, Default)]
pub(super) struct Replies {
    /// Where the peer can be told something, if anywhere.
    seat: Option<(Namespace, u32)>,
    /// Bytes of answers that wait for the next one. More is queued: nothing waits any more.
    patient_bytes: usize,
    /// The last of these answers: only one to a later request is worth waiting for.
    last_patient: Option<Patient>,
    /// The request whose answer the peer awaits asleep.
    asleep: Option<(Tag, Asleep)>,
    /// What it was told last instead of a message, should it not have seen it.
    withheld: Option<Withheld>,
}

#[derive(Clone, Copy, Debug)]
struct Patient {
    tag: Tag,
    /// Whether nothing else waits, and it says that all is well.
    is_lone_success: bool,
}

/// A success that no message tells of.
#[derive(Clone, Copy, Debug)]
struct Withheld {
    tag: Tag,
    /// The commit that was made together with it.
    forerunner: Option<Tag>,
}

impl Replies {
    pub(super) const fn is_seated(&self) -> bool {
        self.seat.is_some()
    }

    /// A request has come.
    pub(super) fn note(&mut self, tag: Tag, command: Command, padding: u32) {
        // Of a fence that succeeded nothing else is to be said; others have results.
        if self.is_seated()
            && command == Command::Fence
            && tag.0 < REQUESTS_END
            && let Some(asleep) = Asleep::of_padding(padding)
        {
            self.asleep = Some((tag, asleep));
            // Who asks for the next one knows what became of the last.
            self.withheld = None;
        }
    }

    /// Its peer sleeps no longer. What it is to be sent that it was told while it woke.
    pub(super) fn wake(&mut self, tag: Tag) -> impl Iterator<Item = (Tag, Command)> {
        self.asleep.take_if(|(asleep, _)| *asleep == tag);
        let withheld = self.withheld.take_if(|withheld| withheld.tag == tag);
        let forerunner = withheld.and_then(|withheld| withheld.forerunner).map(|tag| (tag, Command::Commit));
        forerunner.into_iter().chain(withheld.map(|withheld| (withheld.tag, Command::Fence)))
    }
}

impl Connection {
    /// Answers a request. If its peer sleeps, says what it is to be told at the board.
    pub(in crate::runtime) fn reply(&mut self, tag: Tag, reply: &Reply) -> Result<Option<Verdict>, Dropped> {
        let Stage::Known(known) = &mut self.stage else { return Ok(None) };
        let Some(command) = known.open.close(tag) else { return Ok(None) };
        let is_success = *reply == Reply::Status(Status::SUCCESS);
        let asleep = self.replies.asleep.take_if(|(asleep, _)| *asleep == tag).map(|(_, asleep)| asleep);
        if let Some(asleep) = asleep
            && is_success
            && let Some(withheld) = self.withholdable(tag, asleep)
        {
            self.replies.withheld = Some(withheld);
            self.lose_patience();
            self.stream.discard();
            return Ok(Some(Verdict::Succeeded));
        }
        let Stage::Known(known) = &self.stage else { return Ok(None) };
        let before_bytes = self.stream.queued_bytes();
        self.stream.queue(known.lines.write_reply(tag, reply, command)?, None)?;
        // Peers of other libraries may have any number for a tag.
        if tag.is_patient() && self.stream.carries_descriptors() && before_bytes == self.replies.patient_bytes {
            self.replies.patient_bytes = self.stream.queued_bytes();
            self.replies.last_patient = Some(Patient { tag, is_lone_success: is_success && before_bytes == 0 });
        }
        Ok(asleep.map(|_| Verdict::InMessage))
    }

    /// What no message has to say once a peer was told of a success: nothing, if it has yet to read something that comes before.
    /// If a commit was made together with the fence, the success of that goes without saying.
    fn withholdable(&self, tag: Tag, asleep: Asleep) -> Option<Withheld> {
        let is_all_patient = self.stream.queued_bytes() == self.replies.patient_bytes;
        let waiting = self.replies.last_patient.filter(|_| self.replies.patient_bytes > 0);
        let is_expected = match waiting {
            Some(Patient { tag: before, is_lone_success }) => {
                asleep.has_forerunner && is_lone_success && before.plain().0.checked_add(1) == Some(tag.0)
            }
            None => !asleep.has_forerunner,
        };
        let is_tellable = is_all_patient && is_expected && asleep.has_received(self.stream.sent_bytes());
        is_tellable.then_some(Withheld { tag, forerunner: waiting.map(|waiting| waiting.tag) })
    }

    /// A request is about to be answered by [`Connection::send_encoded`]: what it asked for, and how the answer is written.
    pub(in crate::runtime) fn close_request(&mut self, tag: Tag) -> Option<(Command, Lines)> {
        let Stage::Known(known) = &mut self.stage else { return None };
        Some((known.open.close(tag)?, known.lines))
    }

    /// Sends an answer that was encoded elsewhere.
    pub(in crate::runtime) fn send_encoded(&mut self, encoded: Result<Vec<u8>, WriteError>) -> Result<(), Dropped> {
        if let Stage::Known(_) = &self.stage {
            self.stream.queue(encoded?, None)?;
        }
        Ok(())
    }

    /// As [`Connection::reply`], with a payload in parts that others get, too.
    pub(in crate::runtime) fn reply_shared(&mut self, tag: Tag, payload: &[Arc<[u8]>]) -> Result<(), Dropped> {
        let Stage::Known(known) = &mut self.stage else { return Ok(()) };
        let Some(command) = known.open.close(tag) else { return Ok(()) };
        let size_bytes = payload.iter().fold(0, |bytes: usize, part| bytes.saturating_add(part.len()));
        match known.lines.write_header(tag, size_bytes) {
            Ok(header) => Ok(self.stream.queue_shared(header, payload)?),
            // Clients read a status in the place of data, and our own in that of job information; they go on without.
            Err(error) if matches!(command, Command::Get | Command::StoreFallback) => {
                tracing::warn!(%error, "the description of a job is too large for a client");
                let refusal = Reply::Status(Status::ERR_OUT_OF_RESOURCE);
                Ok(self.stream.queue(known.lines.write_reply(tag, &refusal, command)?, None)?)
            }
            Err(error) => Err(Dropped::ReplyTooLarge(error)),
        }
    }

    /// Whether all that is queued waits for an answer that is due.
    pub(super) fn is_patient(&self) -> bool {
        let Stage::Known(Known { open, .. }) = &self.stage else { return false };
        self.replies.patient_bytes > 0
            && self.replies.patient_bytes == self.stream.queued_bytes()
            && self.replies.last_patient.is_some_and(|last| open.is_any_open_after(last.tag))
    }

    /// Nothing waits for the next answer any more.
    pub(super) const fn lose_patience(&mut self) {
        self.replies.patient_bytes = 0;
    }

    /// Under which number the peer may have a seat at the board of its namespace: one that maps that segment.
    pub(in crate::runtime) fn candidacy(&self) -> Option<(&Namespace, u32)> {
        match &self.stage {
            Stage::Known(Known { account: Account::Process(proc), index, lines, .. })
                if lines.is_ours() && self.stream.carries_descriptors() =>
            {
                Some((&proc.namespace, (*index)?))
            }
            _ => None,
        }
    }

    /// It has the seat that it may have.
    pub(in crate::runtime) fn be_seated(&mut self) {
        self.replies.seat = self.candidacy().map(|(namespace, number)| (namespace.clone(), number));
    }

    /// Where the peer may be told something.
    pub(in crate::runtime) const fn seat(&self) -> Option<&(Namespace, u32)> {
        self.replies.seat.as_ref()
    }

    /// Nobody will be told anything there by this connection.
    pub(in crate::runtime) const fn leave_seat(&mut self) -> Option<(Namespace, u32)> {
        self.replies.seat.take()
    }
}
