use std::collections::BTreeMap;

use super::manners::Manners;
use crate::bfrops::{DecodeError, DecodeLimits, EncodeError};
use crate::proto::frame::{self, Frame, FrameBuffer, FrameError, FrameHeader};
use crate::proto::notification::Event;
use crate::proto::request::{self, RequestError};
use crate::proto::{Command, Dialect, Reply, Request, SegmentNotice, Tag, notification, reply};
use crate::types::Status;

/// How messages are written and read on one connection: the dialect of its two ends and the reader's limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines {
    dialect: Dialect,
    limits: DecodeLimits,
    /// Put into every header; means nothing to us.
    index: u32,
}

/// A message that can't be sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

impl Lines {
    pub(super) fn new(dialect: Dialect, index: u32) -> Self {
        Self { dialect, limits: DecodeLimits::default(), index }
    }

    /// As a client of such a server.
    pub(super) const fn to_server(manners: &Manners, index: u32) -> Self {
        Self { dialect: manners.dialect, limits: manners.limits, index }
    }

    pub(super) fn write_request(&self, tag: Tag, request: &Request) -> Result<Vec<u8>, WriteError> {
        Ok(frame::encode(self.index, tag, &request::encode(request, self.dialect)?)?)
    }

    pub(super) fn read_request(&self, frame: &Frame<'_>) -> Result<Request, RequestError> {
        request::decode(frame.payload, self.dialect, &self.limits)
    }

    /// A reply that the peer would not accept for its size becomes a status.
    pub(super) fn write_reply(&self, tag: Tag, reply: &Reply, command: Command) -> Result<Vec<u8>, WriteError> {
        let payload = reply::encode(reply, command, self.dialect)?;
        if payload.len() <= self.dialect.peer.message_bytes_max() {
            return Ok(frame::encode(self.index, tag, &payload)?);
        }
        let (size_bytes, limit) = (payload.len(), self.dialect.peer.message_bytes_max());
        tracing::warn!(?command, size_bytes, limit, peer = %self.dialect.peer, "reply too large for the peer's release");
        let refusal = reply::encode(&Reply::Status(Status::ERR_OUT_OF_RESOURCE), command, self.dialect)?;
        Ok(frame::encode(self.index, tag, &refusal)?)
    }

    /// The header of a reply whose payload is written elsewhere.
    pub(super) fn write_header(&self, tag: Tag, payload: &[u8]) -> Result<Vec<u8>, FrameError> {
        let (declared, limit) = (payload.len(), self.dialect.peer.message_bytes_max());
        let size_bytes = u32::try_from(declared).ok().filter(|_| declared <= limit);
        let size_bytes = size_bytes.ok_or(FrameError { declared, limit })?;
        Ok(FrameHeader { index: self.index, tag, size_bytes }.encode().to_vec())
    }

    pub(super) const fn dialect(&self) -> Dialect {
        self.dialect
    }

    pub(super) fn read_reply(&self, frame: &Frame<'_>, command: Command) -> Result<Reply, DecodeError> {
        reply::decode(frame.payload, command, self.dialect, &self.limits)
    }

    pub(super) fn write_event(&self, event: &Event) -> Result<Vec<u8>, WriteError> {
        Ok(frame::encode(self.index, Tag::NOTIFICATION, &notification::encode_event(event, self.dialect)?)?)
    }

    pub(super) fn read_event(&self, frame: &Frame<'_>) -> Result<Event, DecodeError> {
        notification::decode_event(frame.payload, self.dialect, &self.limits)
    }

    pub(super) fn write_segment(&self, notice: &SegmentNotice) -> Result<Vec<u8>, WriteError> {
        Ok(frame::encode(self.index, Tag::SEGMENT, &notification::encode_segment(notice)?)?)
    }

    pub(super) fn write_output(&self, output: &notification::Output) -> Result<Vec<u8>, WriteError> {
        Ok(frame::encode(self.index, Tag::OUTPUT, &notification::encode_output(output, self.dialect)?)?)
    }

    pub(super) fn read_output(&self, frame: &Frame<'_>) -> Result<notification::Output, DecodeError> {
        notification::decode_output(frame.payload, self.dialect, &self.limits)
    }

    pub(super) fn read_segment(&self, frame: &Frame<'_>) -> Result<SegmentNotice, DecodeError> {
        notification::decode_segment(frame.payload, &self.limits)
    }
}

/// The requests of a connection that wait for their reply: the layout of a reply follows from the command.
#[derive(Debug, Default)]
pub(super) struct OpenRequests(BTreeMap<Tag, Command>);

impl OpenRequests {
    /// Notes a request. A tag that is still in use is refused: its two replies could not be told apart.
    pub(super) fn open(&mut self, tag: Tag, command: Command) -> Result<(), TagInUse> {
        if command.expects_reply() && self.0.insert(tag, command).is_some() {
            return Err(TagInUse { tag });
        }
        Ok(())
    }

    pub(super) fn command(&self, tag: Tag) -> Option<Command> {
        self.0.get(&tag).copied()
    }

    pub(super) fn close(&mut self, tag: Tag) -> Option<Command> {
        self.0.remove(&tag)
    }
}

/// A peer used the tag of a request that is not answered yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("tag {} is in use by a request that is not answered yet", tag.0)]
pub(super) struct TagInUse {
    tag: Tag,
}

/// Collects messages up to the size that both sides accept.
pub(super) fn message_buffer() -> FrameBuffer {
    FrameBuffer::new(DecodeLimits::MESSAGE_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_free_again_once_its_request_is_answered() {
        let mut open = OpenRequests::default();
        open.open(Tag(101), Command::Fence).unwrap();
        assert_eq!(open.open(Tag(101), Command::Get), Err(TagInUse { tag: Tag(101) }));
        open.close(Tag(101));
        assert_eq!(open.close(Tag(101)), None);
        assert_eq!(open.open(Tag(101), Command::Get), Ok(()));
    }

    #[test]
    fn a_request_without_reply_keeps_no_tag() {
        let mut open = OpenRequests::default();
        open.open(Tag(101), Command::DeregisterEvents).unwrap();
        assert_eq!(open.open(Tag(101), Command::Get), Ok(()));
    }
}
