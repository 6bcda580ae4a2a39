use std::collections::BTreeMap;

use super::data_form::DataForm;
use super::peer_profile::PeerProfile;
use super::plain::plain;
use crate::bfrops::{DecodeError, DecodeLimits, EncodeError};
use crate::proto::frame::{Frame, FrameBuffer, FrameError, FrameHeader};
use crate::proto::notification::{EventNotice, OutputHead, OutputNotice, RemovalNotice};
use crate::proto::request::{self, RequestDecodeError};
use crate::proto::{Command, Dialect, Reply, Request, SegmentNotice, Tag, notification, reply};
use crate::types::Status;

/// How messages are written and read on one connection: the dialect of its two ends and the reader's limits.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime) struct MessageCodec {
    dialect: Dialect,
    limits: DecodeLimits,
    /// Largest payload that the peer takes; it closes the connection after a larger one.
    message_bytes_max: usize,
    /// Part of every header; our own peers ignore it.
    index: u32,
    /// Whether the peer is one of ours, and can use maps and compressed strings.
    is_ours: bool,
}

/// A message that can't be sent.
#[derive(Debug, thiserror::Error)]
pub(in crate::runtime) enum MessageEncodeError {
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

impl MessageCodec {
    /// To a client that takes messages of this size. Values for clients of other libraries are plain.
    pub(in crate::runtime) fn to_client(dialect: Dialect, message_bytes_max: usize, is_ours: bool) -> Self {
        let limits = DecodeLimits::default();
        Self { dialect, limits, message_bytes_max, index: SERVER_INDEX, is_ours }
    }

    /// To a server with these manners.
    pub(in crate::runtime) const fn to_server(peer_profile: &PeerProfile, index: u32) -> Self {
        let PeerProfile { dialect, limits, message_bytes_max, .. } = *peer_profile;
        Self { dialect, limits, message_bytes_max, index, is_ours: true }
    }

    /// Whether the peer is one of our own.
    pub(in crate::runtime) const fn is_ours(&self) -> bool {
        self.is_ours
    }

    /// The form of data that the peer packs and unpacks itself.
    pub(in crate::runtime) const fn data_form(&self) -> DataForm {
        DataForm::of_peer(self.dialect.codec, self.is_ours)
    }

    pub(in crate::runtime) fn write_request(&self, tag: Tag, request: &Request) -> Result<Vec<u8>, MessageEncodeError> {
        let room = vec![0; FrameHeader::SIZE_BYTES];
        let mut bytes = if tag == Tag::HEARTBEAT { room } else { request::encode_behind(room, request, self.dialect)? };
        let declared = bytes.len().saturating_sub(FrameHeader::SIZE_BYTES);
        let header = self.write_header(tag, declared)?;
        bytes.iter_mut().zip(header).for_each(|(to, from)| *to = from);
        Ok(bytes)
    }

    /// Reads the server's reply as a message again, after waiting for it asleep.
    pub(in crate::runtime) fn write_awake(&self, request: Tag) -> Result<Vec<u8>, MessageEncodeError> {
        self.framed(Tag::AWAKE, &request.to_bytes())
    }

    /// Reads a request. Returns its memory, too, in bytes.
    pub(in crate::runtime) fn read_request(&self, frame: &Frame<'_>) -> Result<(Request, usize), RequestDecodeError> {
        request::decode_measured(frame.payload, self.dialect, &self.limits)
    }

    /// Writes a reply. A reply that is too large for the peer, or that its encoding has no form for, becomes a status.
    pub(in crate::runtime) fn write_reply(
        &self,
        tag: Tag,
        reply: &Reply,
        command: Command,
    ) -> Result<Vec<u8>, MessageEncodeError> {
        self.framed_or_refused(tag, self.write_payload(reply, command), command)
    }

    /// As [`MessageCodec::write_reply`], for a reply that goes on behind the written payload of the same status.
    pub(in crate::runtime) fn write_reply_behind(
        &self,
        tag: Tag,
        payload: &[u8],
        rest: &Reply,
        command: Command,
    ) -> Result<Vec<u8>, MessageEncodeError> {
        let rest = self.write_rest(rest, command);
        self.framed_or_refused(tag, rest.map(|rest| [payload, rest.as_slice()].concat()), command)
    }

    /// The payload of a successful reply without its status.
    pub(in crate::runtime) fn write_rest(&self, reply: &Reply, command: Command) -> Result<Vec<u8>, EncodeError> {
        let status_bytes = self.write_payload(&Reply::Status(Status::SUCCESS), command)?.len();
        let mut payload = self.write_payload(reply, command)?;
        payload.drain(..status_bytes.min(payload.len()));
        Ok(payload)
    }

    fn framed_or_refused(
        &self,
        tag: Tag,
        payload: Result<Vec<u8>, EncodeError>,
        command: Command,
    ) -> Result<Vec<u8>, MessageEncodeError> {
        let encoded = payload.map_err(MessageEncodeError::from);
        let refusal = match encoded.and_then(|payload| self.framed(tag, &payload)) {
            Ok(framed) => return Ok(framed),
            Err(MessageEncodeError::Frame(error)) => {
                tracing::warn!(?command, %error, peer = %self.dialect.peer, "reply too large for the peer");
                Status::ERR_OUT_OF_RESOURCE
            }
            Err(MessageEncodeError::Encode(error)) => {
                tracing::warn!(?command, %error, peer = %self.dialect.peer, "the peer's encoding has no form for a reply");
                Status::ERR_NOT_SUPPORTED
            }
        };
        self.framed(tag, &reply::encode(&Reply::Status(refusal), command, self.dialect)?)
    }

    /// The payload of a reply, without its header.
    pub(in crate::runtime) fn write_payload(&self, reply: &Reply, command: Command) -> Result<Vec<u8>, EncodeError> {
        let reply = if self.is_ours { reply } else { &plain(reply, UNPACKED_BYTES_MAX) };
        reply::encode(reply, command, self.dialect)
    }

    /// The header of a payload that is written elsewhere. Fails if the payload is too large for the peer.
    pub(in crate::runtime) fn write_header(&self, tag: Tag, declared: usize) -> Result<Vec<u8>, FrameError> {
        let limit = self.message_bytes_max;
        let size_bytes = u32::try_from(declared).ok().filter(|_| declared <= limit);
        let size_bytes = size_bytes.ok_or(FrameError { declared, limit })?;
        Ok(FrameHeader { index: self.index, tag, size_bytes, padding: 0 }.encode().to_vec())
    }

    /// All messages are written here, or their headers by [`MessageCodec::write_header`].
    fn framed(&self, tag: Tag, payload: &[u8]) -> Result<Vec<u8>, MessageEncodeError> {
        let mut bytes = self.write_header(tag, payload.len())?;
        bytes.extend_from_slice(payload);
        Ok(bytes)
    }

    /// The dialect and the largest payload of the peer. Shared replies are the same for equal ones.
    pub(in crate::runtime) const fn reading(&self) -> (Dialect, usize) {
        (self.dialect, self.message_bytes_max)
    }

    pub(in crate::runtime) fn read_reply(&self, frame: &Frame<'_>, command: Command) -> Result<Reply, DecodeError> {
        reply::decode(frame.payload, command, self.dialect, &self.limits)
    }

    pub(in crate::runtime) fn write_event(&self, event: &EventNotice) -> Result<Vec<u8>, MessageEncodeError> {
        self.framed(Tag::NOTIFICATION, &notification::encode_event(event, self.dialect)?)
    }

    pub(in crate::runtime) fn read_event(&self, frame: &Frame<'_>) -> Result<EventNotice, DecodeError> {
        notification::decode_event(frame.payload, self.dialect, &self.limits)
    }

    pub(in crate::runtime) fn write_removal(&self, removal: &RemovalNotice) -> Result<Vec<u8>, MessageEncodeError> {
        self.framed(Tag::REMOVAL, &notification::encode_removal(removal, self.dialect)?)
    }

    pub(in crate::runtime) fn read_removal(&self, frame: &Frame<'_>) -> Result<RemovalNotice, DecodeError> {
        notification::decode_removal(frame.payload, self.dialect, &self.limits)
    }

    /// The announcement of a segment, under the tag of its kind.
    pub(in crate::runtime) fn write_segment(
        &self,
        tag: Tag,
        notice: &SegmentNotice,
    ) -> Result<Vec<u8>, MessageEncodeError> {
        self.framed(tag, &notification::encode_segment(notice)?)
    }

    /// Writes the starts of the messages for this number of bytes of output: each start, and the number of bytes that
    /// follow it. Output is a stream of bytes, and is split if the peer takes no message of that size.
    pub(in crate::runtime) fn write_output(
        &self,
        head: &OutputHead,
        byte_count: usize,
    ) -> Result<Vec<(Vec<u8>, usize)>, MessageEncodeError> {
        let start = |count: usize| {
            let payload = notification::encode_output_head(head, count, self.dialect)?;
            let mut start = self.write_header(Tag::OUTPUT, payload.len().saturating_add(count))?;
            start.extend_from_slice(&payload);
            Ok((start, count))
        };
        // A start does not grow when fewer bytes follow.
        let longest = notification::encode_output_head(head, byte_count, self.dialect)?.len();
        let piece_bytes = self.message_bytes_max.saturating_sub(longest);
        if piece_bytes == 0 || byte_count <= piece_bytes {
            return Ok(vec![start(byte_count)?]);
        }
        let counts = (0..byte_count).step_by(piece_bytes).map(|from| piece_bytes.min(byte_count - from));
        counts.map(start).collect()
    }

    pub(in crate::runtime) fn read_output(&self, frame: &Frame<'_>) -> Result<OutputNotice, DecodeError> {
        notification::decode_output(frame.payload, self.dialect, &self.limits)
    }

    pub(in crate::runtime) fn read_segment(&self, frame: &Frame<'_>) -> Result<SegmentNotice, DecodeError> {
        notification::decode_segment(frame.payload, &self.limits)
    }
}

/// The requests of a connection that wait for their reply: the layout of a reply follows from the command.
#[derive(Debug, Default)]
pub(in crate::runtime) struct OpenRequests(BTreeMap<Tag, Open>);

/// A request's command and memory.
#[derive(Clone, Copy, Debug)]
struct Open {
    command: Command,
    size_bytes: usize,
}

impl OpenRequests {
    /// Notes a request. A tag that is still in use is refused, because its two replies could not be told apart.
    pub(in crate::runtime) fn open(&mut self, tag: Tag, command: Command, size_bytes: usize) -> Result<(), TagInUse> {
        if command.expects_reply() && self.0.insert(tag, Open { command, size_bytes }).is_some() {
            return Err(TagInUse { tag });
        }
        Ok(())
    }

    pub(in crate::runtime) fn command(&self, tag: Tag) -> Option<Command> {
        self.0.get(&tag).map(|open| open.command)
    }

    pub(in crate::runtime) fn size_bytes(&self, tag: Tag) -> usize {
        self.0.get(&tag).map_or(0, |open| open.size_bytes)
    }

    pub(in crate::runtime) fn close(&mut self, tag: Tag) -> Option<Command> {
        self.0.remove(&tag).map(|open| open.command)
    }

    /// Whether a later request still waits for its reply.
    pub(in crate::runtime) fn is_any_open_after(&self, tag: Tag) -> bool {
        self.0.keys().any(|open| open.plain() > tag.plain())
    }
}

/// A peer used the tag of an unanswered request again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("tag {} is in use by a request that is not answered yet", tag.0)]
pub(in crate::runtime) struct TagInUse {
    tag: Tag,
}

/// Headers from a server hold no slot.
const SERVER_INDEX: u32 = 0;

/// Collects messages up to the size that both sides accept.
pub(in crate::runtime) fn message_buffer() -> FrameBuffer {
    FrameBuffer::new(DecodeLimits::MESSAGE_BYTES_MAX)
}

/// Limit of the unpacked strings of one reply, in bytes, because the server's thread unpacks them: the size of the
/// largest value.
const UNPACKED_BYTES_MAX: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bfrops::{Codec, Generation};
    use crate::proto::{RankData, Version};
    use crate::types::{Info, Key, Kval, Namespace, ProcId, Rank, Text, Value};

    #[test]
    fn a_tag_is_free_again_once_its_request_is_answered() {
        let mut open = OpenRequests::default();
        open.open(Tag(101), Command::Fence, 9).unwrap();
        assert_eq!(open.open(Tag(101), Command::Get, 9), Err(TagInUse { tag: Tag(101) }));
        open.close(Tag(101));
        assert_eq!(open.close(Tag(101)), None);
        assert_eq!(open.open(Tag(101), Command::Get, 9), Ok(()));
    }

    fn codec_for(release: Version) -> MessageCodec {
        MessageCodec::to_client(Dialect { peer: release, ..Dialect::OWN }, release.message_bytes_max(), false)
    }

    /// The reply as the peer reads it.
    fn arriving(codec: &MessageCodec, reply: &Reply, command: Command) -> Reply {
        let mut buffer = message_buffer();
        buffer.feed(&codec.write_reply(Tag(101), reply, command).unwrap());
        let frame = buffer.next_frame().unwrap().unwrap();
        codec.read_reply(&frame, command).unwrap()
    }

    /// One rank's large event cost every listener of release 3.2 its connection, and so its life.
    #[test]
    fn an_event_is_not_for_a_peer_that_would_close_the_connection_on_it() {
        let payload = Info::new(Key::from_static("payload"), Value::ByteObject(vec![7; 17 << 20]));
        let event = EventNotice { status: Status::ERROR, source: None, info: vec![payload], range: None };
        assert!(matches!(codec_for(Version::new(3, 2, 5)).write_event(&event), Err(MessageEncodeError::Frame(_))));
        assert!(codec_for(Version::new(6, 1, 1)).write_event(&event).is_ok());
    }

    /// A client whose encoding has no form for the reply lost its connection, and so its life.
    #[test]
    fn a_reply_that_the_peers_encoding_lacks_says_so() {
        let codec = Codec { generation: Generation::V3, described: false };
        let dialect = Dialect { codec, peer: Version::new(3, 2, 5) };
        let codec = MessageCodec::to_client(dialect, DecodeLimits::MESSAGE_BYTES_MAX, false);
        let reply = Reply::Infos(vec![Info::new(Key::from_static("k"), Value::ProcCpuset(None))]);
        assert_eq!(arriving(&codec, &reply, Command::QueryInfo), Reply::Status(Status::ERR_NOT_SUPPORTED));
    }

    /// Our own clients name a release that reads replies of any size. The reply was sent to them and ended the
    /// connection.
    #[test]
    fn a_reply_that_is_too_large_says_so() {
        let codec = MessageCodec::to_client(Dialect::OWN, DecodeLimits::MESSAGE_BYTES_MAX, true);
        let entry = Kval { key: Key::from_static("k"), value: Value::ByteObject(vec![7; 33 << 20]) };
        let reply = Reply::JobInfo { namespace: Text::from("job"), entries: vec![entry] };
        assert_eq!(arriving(&codec, &reply, Command::StoreFallback), Reply::Status(Status::ERR_OUT_OF_RESOURCE));
    }

    #[test]
    fn output_reaches_every_peer_in_messages_that_it_takes() {
        let bytes: Vec<u8> = (0..).flat_map(u32::to_be_bytes).take((16 << 20) + 3).collect();
        let source = ProcId::new(Namespace::new("job").unwrap(), Rank::from(0));
        let head = OutputHead { source, channels: 2, reference: 9, info: Vec::new() };
        let codec = codec_for(Version::new(3, 2, 5));
        let mut buffer = FrameBuffer::new(Version::new(3, 2, 5).message_bytes_max());
        let written = codec.write_output(&head, bytes.len()).unwrap();
        let mut rest = bytes.as_slice();
        for (start, count) in &written {
            buffer.feed(start);
            buffer.feed(rest.split_off(..*count).unwrap());
        }
        let mut read = Vec::new();
        while let Some(frame) = buffer.next_frame().unwrap() {
            let piece = codec.read_output(&frame).unwrap();
            assert_eq!(piece.head, head);
            assert!(!piece.bytes.is_empty(), "that would say that the channel is closed");
            read.extend(piece.bytes);
        }
        assert!(read == bytes && rest.is_empty() && written.len() == 2);
        assert_eq!(codec.write_output(&head, 0).unwrap().len(), 1);
    }

    #[test]
    fn a_request_without_reply_keeps_no_tag() {
        let mut open = OpenRequests::default();
        open.open(Tag(101), Command::DeregisterEvents, 9).unwrap();
        assert_eq!(open.open(Tag(101), Command::Get, 9), Ok(()));
    }

    /// A client of 4.2 crashed after a Get of `pmix.nmap`: its library copies a map with a size that it never set.
    #[test]
    fn maps_are_text_for_clients_of_others() {
        let proc = ProcId::new(Namespace::new("job").unwrap(), Rank::Wildcard);
        let entry = |value| vec![Kval { key: Key::from_static("pmix.nmap"), value }];
        let reply =
            Reply::Data(vec![RankData { proc: proc.clone(), entries: entry(Value::Regex(b"raw:a,b\0".to_vec())) }]);
        let text = Reply::Data(vec![RankData { proc, entries: entry(Value::from("raw:a,b")) }]);
        for (is_ours, expected) in [(true, &reply), (false, &text)] {
            let codec = MessageCodec::to_client(Dialect::OWN, DecodeLimits::MESSAGE_BYTES_MAX, is_ours);
            let mut buffer = message_buffer();
            buffer.feed(&codec.write_reply(Tag(101), &reply, Command::Get).unwrap());
            let frame = buffer.next_frame().unwrap().unwrap();
            assert_eq!(codec.read_reply(&frame, Command::Get).unwrap(), *expected);
        }
    }
}
