//! Messages that a server sends without a request: events, forwarded output, segments.

use super::layout::{IfPresent, Layout, Many, One, layout};
use super::{Command, Dialect, SegmentNotice, Version};
use crate::bfrops::wire::{
    self, ByteObject, DataRange, Info, IofChannel, Namespace, Proc, Scope, Size, Status, Uint64,
};
use crate::bfrops::{DecodeError, DecodeLimits, DecodeProblem, EncodeError, Reader, Writer};
use crate::types::{Key, ProcId};

/// Key that servers of other libraries add to a relayed event. It is no attribute of the standard: neither hosts nor
/// handlers see it.
pub const RELAYED: &str = "pmix.srvr.internal.notify";

/// An event on its way to a client ([`Tag::NOTIFICATION`](super::Tag::NOTIFICATION)).
///
/// Source: PMIx Standard, chapter "Event Notification".
#[derive(Clone, Debug, PartialEq)]
pub struct EventNotice {
    /// The event's code.
    pub status: Status,
    /// Process that the event is about, or that raised it; `None`: the host, or unknown.
    pub source: Option<ProcId>,
    /// Details. Servers of other libraries add [`RELAYED`] to relayed events.
    pub info: Vec<Info>,
    /// Range code; absent from 3.2 servers and from events replayed out of a cache.
    pub range: Option<u8>,
}

/// Output of a process on its way to a receiver ([`Tag::OUTPUT`](super::Tag::OUTPUT)).
///
/// Source: PMIx Standard, chapter "Tools and Debuggers" (I/O forwarding).
#[derive(Clone, Debug, PartialEq)]
pub struct OutputNotice {
    /// All but the bytes.
    pub head: OutputHead,
    /// The bytes; none: the channel is closed.
    pub bytes: Vec<u8>,
}

/// The parts of an [`OutputNotice`] before its bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputHead {
    /// The process.
    pub source: ProcId,
    /// Channel set, one bit set.
    pub channels: u16,
    /// The receiver's own number for its request; 0: the default handler.
    pub reference: u64,
    /// Details.
    pub info: Vec<Info>,
}

/// A value that a process has removed, for clients that keep a copy ([`Tag::REMOVAL`](super::Tag::REMOVAL)).
///
/// Source: OpenPMIx 7.0, `docs/how-things-work/modex.rst`.
#[derive(Clone, Debug, PartialEq)]
pub struct RemovalNotice {
    /// The process.
    pub proc: ProcId,
    /// The number of the removal's scope.
    pub scope: u8,
    /// The key of the value.
    pub key: Key,
}

layout! {
    EventNotice { status: One<Status>, source: Source, info: Many<Info>, range: IfPresent<DataRange> }
    OutputNotice { head: OutputHead, bytes: One<ByteObject> }
    OutputHead { source: One<Proc>, channels: One<IofChannel>, reference: One<Size>, info: Many<Info> }
    RemovalNotice { proc: One<Proc>, scope: One<Scope>, key: One<Key> }
    SegmentNotice { namespace: One<Namespace>, layout_id: One<Uint64> }
}

/// A process, or none: an empty namespace and the undefined rank.
struct Source;

impl Layout for Source {
    type Value = Option<ProcId>;

    fn pack(value: &Option<ProcId>, writer: &mut Writer, _: Version) -> Result<(), EncodeError> {
        writer.pack::<wire::OptionalProc>(value)
    }

    fn unpack(reader: &mut Reader<'_>, field: &'static str, _: Version) -> Result<Option<ProcId>, DecodeError> {
        reader.unpack::<wire::OptionalProc>(field)
    }
}

/// The payload of an event.
///
/// # Errors
/// [`EncodeError`] if the peer's encoding cannot carry it.
pub fn encode_event(event: &EventNotice, dialect: Dialect) -> Result<Vec<u8>, EncodeError> {
    let mut writer = Writer::new(dialect.codec);
    writer.pack::<wire::Command>(&Command::Notify.to_raw())?;
    EventNotice::pack(event, &mut writer, dialect.peer)?;
    Ok(writer.into_bytes())
}

/// Reads the payload of an event.
///
/// # Errors
/// [`DecodeError`] if the bytes are invalid.
pub fn decode_event(payload: &[u8], dialect: Dialect, limits: &DecodeLimits) -> Result<EventNotice, DecodeError> {
    let mut reader = Reader::new(payload, dialect.codec, limits)?;
    let expected = Command::Notify.to_raw();
    let found = reader.unpack::<wire::Command>("command")?;
    if found != expected {
        return Err(reader.error(DecodeProblem::WrongCommand { expected, found }));
    }
    EventNotice::unpack(&mut reader, "Event", dialect.peer)
}

/// The payload of forwarded output.
///
/// # Errors
/// [`EncodeError`] if the peer's encoding cannot carry it.
pub fn encode_output(output: &OutputNotice, dialect: Dialect) -> Result<Vec<u8>, EncodeError> {
    let mut payload = encode_output_head(&output.head, output.bytes.len(), dialect)?;
    payload.extend_from_slice(&output.bytes);
    Ok(payload)
}

/// The payload of forwarded output up to its bytes. The sender adds `byte_count` bytes.
///
/// # Errors
/// [`EncodeError`] if the peer's encoding cannot carry it.
pub fn encode_output_head(head: &OutputHead, byte_count: usize, dialect: Dialect) -> Result<Vec<u8>, EncodeError> {
    let mut writer = Writer::new(dialect.codec);
    OutputHead::pack(head, &mut writer, dialect.peer)?;
    writer.begin_object(byte_count)?;
    Ok(writer.into_bytes())
}

/// Reads the payload of forwarded output.
///
/// # Errors
/// [`DecodeError`] if the bytes are invalid.
pub fn decode_output(payload: &[u8], dialect: Dialect, limits: &DecodeLimits) -> Result<OutputNotice, DecodeError> {
    decode_whole::<OutputNotice>(payload, dialect, limits)
}

/// The payload of a removal.
///
/// # Errors
/// [`EncodeError`] if the peer's encoding cannot carry it.
pub fn encode_removal(removal: &RemovalNotice, dialect: Dialect) -> Result<Vec<u8>, EncodeError> {
    encode_whole::<RemovalNotice>(removal, dialect)
}

/// Reads the payload of a removal.
///
/// # Errors
/// [`DecodeError`] if the bytes are invalid.
pub fn decode_removal(payload: &[u8], dialect: Dialect, limits: &DecodeLimits) -> Result<RemovalNotice, DecodeError> {
    decode_whole::<RemovalNotice>(payload, dialect, limits)
}

/// The payload that announces a segment, in the dialect of our own peers.
///
/// # Errors
/// [`EncodeError`] if the encoding cannot carry it.
pub fn encode_segment(notice: &SegmentNotice) -> Result<Vec<u8>, EncodeError> {
    encode_whole::<SegmentNotice>(notice, Dialect::OWN)
}

/// Reads the payload that announces a segment.
///
/// # Errors
/// [`DecodeError`] if the bytes are invalid.
pub fn decode_segment(payload: &[u8], limits: &DecodeLimits) -> Result<SegmentNotice, DecodeError> {
    decode_whole::<SegmentNotice>(payload, Dialect::OWN, limits)
}

fn encode_whole<L: Layout>(message: &L::Value, dialect: Dialect) -> Result<Vec<u8>, EncodeError> {
    let mut writer = Writer::new(dialect.codec);
    L::pack(message, &mut writer, dialect.peer)?;
    Ok(writer.into_bytes())
}

fn decode_whole<L: Layout>(payload: &[u8], dialect: Dialect, limits: &DecodeLimits) -> Result<L::Value, DecodeError> {
    let mut reader = Reader::new(payload, dialect.codec, limits)?;
    L::unpack(&mut reader, "message", dialect.peer)
}
