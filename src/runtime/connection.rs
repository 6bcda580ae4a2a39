use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::codec::{Greeting, GreetingError, Inbox, Lines, ReceiveError};
use super::poller::{Poller, Token};
use crate::proto::{Reply, SegmentNotice, Tag};
use crate::ptl::{Credentials, Flushed, QueueFull, Received, Stream, StreamError};
use crate::server::{Input, PeerId, Refusal};
use nix::errno::Errno;

/// One client's connection, seen from the server.
pub(super) struct Connection {
    stream: Stream,
    credentials: Credentials,
    stage: Stage,
    /// Whether the poller reports when it becomes writable.
    is_write_watched: bool,
}

enum Stage {
    /// It has not yet said who it is.
    Greeting(Greeting),
    /// The core knows it. `Lines` is how it wants to be spoken to.
    Known { lines: Lines, inbox: Inbox, is_admitted: bool },
    /// What it was told still has to reach it; nothing is read any more.
    Closing,
}

/// Why a connection was dropped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum Dropped {
    /// The peer went away.
    #[error("the peer closed the connection")]
    End,
    /// The socket failed.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The peer does not read.
    #[error(transparent)]
    Queue(#[from] QueueFull),
    /// The introduction is not one.
    #[error("the connect message can't be read: {0}")]
    Greeting(#[from] GreetingError),
    /// A message is not one.
    #[error("a message can't be read: {0}")]
    Message(#[from] ReceiveError),
    /// It took too long.
    #[error("the peer did not introduce itself, or did not read its refusal, in time")]
    Deadline,
    /// Others introduced themselves while it did not.
    #[error("more than {handshakes_max} connections had not introduced themselves; this was the oldest")]
    Crowded {
        /// The bound.
        handshakes_max: usize,
    },
}

impl Connection {
    pub(super) fn new(stream: Stream, credentials: Credentials) -> Self {
        Self {
            stream,
            credentials,
            stage: Stage::Greeting(Greeting::default()),
            is_write_watched: false,
        }
    }

    pub(super) fn credentials(&self) -> Credentials {
        self.credentials
    }

    pub(super) fn is_greeting(&self) -> bool {
        matches!(self.stage, Stage::Greeting(_))
    }

    /// Reads once and hands what it says to `deliver`. One buffer per turn and connection: the others come next.
    pub(super) fn receive(
        &mut self,
        id: PeerId,
        buffer: &mut [u8],
        mut deliver: impl FnMut(Input),
    ) -> Result<(), Dropped> {
        let count = match self.stream.receive(buffer)? {
            Received::Bytes(count) => count,
            Received::Nothing => return Ok(()),
            Received::End => return Err(Dropped::End),
        };
        let bytes = buffer.get(..count).unwrap_or_default();
        if let Stage::Greeting(greeting) = &mut self.stage {
            let Some((hello, lines, inbox)) = greeting.push(bytes, self.credentials)? else { return Ok(()) };
            self.stage = Stage::Known { lines, inbox, is_admitted: false };
            deliver(Input::Connected(id, hello));
        } else if let Stage::Known { inbox, .. } = &mut self.stage {
            inbox.push(bytes);
        }
        self.deliver_requests(id, deliver)
    }

    fn deliver_requests(&mut self, id: PeerId, mut deliver: impl FnMut(Input)) -> Result<(), Dropped> {
        let Stage::Known { lines, inbox, .. } = &mut self.stage else { return Ok(()) };
        while let Some(frame) = inbox.next()? {
            if frame.tag == Tag::HEARTBEAT {
                continue;
            }
            match lines.request(&frame)? {
                Ok(request) => deliver(Input::Request(id, frame.tag, request)),
                Err(refusal) => self.stream.queue(lines.reply(frame.tag, &refusal), None)?,
            }
        }
        Ok(())
    }

    /// Tells the peer that it may ask, and reads what it asked too early.
    pub(super) fn admit(&mut self, index: u32) -> Result<(), Dropped> {
        let Stage::Known { lines, is_admitted, .. } = &mut self.stage else { return Ok(()) };
        *is_admitted = true;
        Ok(self.stream.queue(lines.admission(index), None)?)
    }

    /// Tells the peer that it may not, as far as its version wants to know; then closes.
    pub(super) fn refuse(&mut self, refusal: &Refusal) -> Result<(), Dropped> {
        if let Stage::Known { lines, .. } = &self.stage
            && let Some(bytes) = lines.refusal(refusal.status())
        {
            self.stream.queue(bytes, None)?;
        }
        self.close();
        Ok(())
    }

    pub(super) fn reply(&mut self, tag: Tag, reply: &Reply) -> Result<(), Dropped> {
        let Stage::Known { lines, .. } = &self.stage else { return Ok(()) };
        Ok(self.stream.queue(lines.reply(tag, reply), None)?)
    }

    pub(super) fn send_segment(&mut self, notice: &SegmentNotice, descriptor: OwnedFd) -> Result<(), Dropped> {
        let Stage::Known { lines, .. } = &self.stage else { return Ok(()) };
        Ok(self.stream.queue(lines.segment(notice), Some(Arc::new(descriptor)))?)
    }

    /// Reads no more; what is queued still goes out.
    pub(super) fn close(&mut self) {
        self.stage = Stage::Closing;
    }

    /// Writes what is queued. Returns whether the connection is finished.
    pub(super) fn flush(&mut self) -> Result<bool, Dropped> {
        let flushed = self.stream.flush()?;
        Ok(flushed == Flushed::All && matches!(self.stage, Stage::Closing))
    }

    /// Has the poller report room exactly while something waits for it.
    pub(super) fn watch(&mut self, poller: &Poller, token: Token) -> Result<(), Errno> {
        let is_wanted = self.stream.has_queued();
        if is_wanted != self.is_write_watched {
            poller.watch_writable(&self.stream, token, is_wanted)?;
            self.is_write_watched = is_wanted;
        }
        Ok(())
    }
}
