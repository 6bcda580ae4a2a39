//! Messages in the byte stream: a header of 16 bytes, then the payload.

use super::Tag;

/// The header of every message after the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The sender's slot at the server, from the handshake; 0 from servers and tools. Receivers ignore it.
    pub index: u32,
    /// The request or notice that the message belongs to.
    pub tag: Tag,
    /// Size of the payload.
    pub size_bytes: u32,
    /// From our own clients: [`FutexWaitMark`] as a number, or 0. From others: arbitrary bytes.
    pub padding: u32,
}

/// Padding of our client's request when the client sleeps at the completion table of its namespace until the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FutexWaitMark {
    /// Bytes it has received over the connection by then, modulo 2^30. So the server knows whether it has read all sent
    /// bytes.
    received: u32,
    /// Whether the [deferred](Tag::deferred) request before it is from the same client. If so, both answers may come
    /// together.
    pub has_forerunner: bool,
}

impl FutexWaitMark {
    /// For a client that has received so many bytes.
    #[must_use]
    pub fn new(received_bytes: u64, has_forerunner: bool) -> Self {
        let received = u32::try_from(received_bytes & u64::from(RECEIVED)).unwrap_or_default();
        Self { received, has_forerunner }
    }

    /// Whether it has received all of `sent_bytes`.
    #[must_use]
    pub fn has_received(self, sent_bytes: u64) -> bool {
        self == Self::new(sent_bytes, self.has_forerunner)
    }

    /// Reads the padding; `None`: the sender reads its answer.
    #[must_use]
    pub const fn of_padding(padding: u32) -> Option<Self> {
        if padding & FUTEX_WAIT == 0 {
            return None;
        }
        Some(Self { received: padding & RECEIVED, has_forerunner: padding & FORERUNNER != 0 })
    }

    /// Writes it into the header of a message.
    pub fn mark(self, message: &mut [u8]) {
        let forerunner = if self.has_forerunner { FORERUNNER } else { 0 };
        if let Some(padding) = message.get_mut(PADDING_AT..FrameHeader::SIZE_BYTES) {
            padding.copy_from_slice(&(FUTEX_WAIT | forerunner | self.received).to_be_bytes());
        }
    }
}

const FUTEX_WAIT: u32 = 1 << 31;
const FORERUNNER: u32 = 1 << 30;
const RECEIVED: u32 = FORERUNNER - 1;
const PADDING_AT: usize = FrameHeader::SIZE_BYTES - size_of::<u32>();

impl FrameHeader {
    /// Size of a header.
    pub const SIZE_BYTES: usize = 16;

    /// The header's bytes: four numbers in network order, the last as padding.
    #[must_use]
    pub fn encode(self) -> [u8; Self::SIZE_BYTES] {
        let mut bytes = [0; Self::SIZE_BYTES];
        let numbers = [self.index, self.tag.0, self.size_bytes, self.padding];
        for (place, byte) in bytes.iter_mut().zip(numbers.into_iter().flat_map(u32::to_be_bytes)) {
            *place = byte;
        }
        bytes
    }

    /// Reads a header. Every content is valid; the receiver judges the size.
    #[must_use]
    pub const fn decode(bytes: [u8; Self::SIZE_BYTES]) -> Self {
        let [i0, i1, i2, i3, t0, t1, t2, t3, s0, s1, s2, s3, p0, p1, p2, p3] = bytes;
        Self {
            index: u32::from_be_bytes([i0, i1, i2, i3]),
            tag: Tag(u32::from_be_bytes([t0, t1, t2, t3])),
            size_bytes: u32::from_be_bytes([s0, s1, s2, s3]),
            padding: u32::from_be_bytes([p0, p1, p2, p3]),
        }
    }
}

/// Reason why a message cannot be framed or a stream cannot be read on. The next message cannot be found: the
/// connection must be closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("message of {declared} bytes exceeds the limit of {limit}")]
pub struct FrameError {
    /// Size of the payload.
    pub declared: usize,
    /// Largest payload accepted.
    pub limit: usize,
}

/// A message as bytes of the stream.
///
/// # Errors
/// If the payload is larger than a header can declare.
pub fn encode(index: u32, tag: Tag, payload: &[u8]) -> Result<Vec<u8>, FrameError> {
    let declared = payload.len();
    let too_large = |_| FrameError { declared, limit: usize::try_from(u32::MAX).unwrap_or(usize::MAX) };
    let size_bytes = u32::try_from(declared).map_err(too_large)?;
    let mut bytes = Vec::with_capacity(FrameHeader::SIZE_BYTES.saturating_add(declared));
    bytes.extend_from_slice(&FrameHeader { index, tag, size_bytes, padding: 0 }.encode());
    bytes.extend_from_slice(payload);
    Ok(bytes)
}

/// A complete message inside a [`FrameBuffer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its header.
    pub header: FrameHeader,
    /// Its payload.
    pub payload: &'a [u8],
}

/// A complete message that has left its [`FrameBuffer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedFrame {
    /// Its header.
    pub header: FrameHeader,
    /// Ends with the payload.
    bytes: Vec<u8>,
    payload_start: usize,
}

impl OwnedFrame {
    /// The message.
    #[must_use]
    pub fn frame(&self) -> Frame<'_> {
        Frame { header: self.header, payload: self.bytes.get(self.payload_start..).unwrap_or_default() }
    }
}

/// Collects bytes of a stream and gives them back as messages.
///
/// A caller that takes all messages after each [`FrameBuffer::feed`] bounds the memory. The bound is one message of the
/// largest size, one header and the last fed bytes.
///
/// ```
/// use modex::proto::{Tag, frame};
///
/// let mut buffer = frame::FrameBuffer::new(1024);
/// let bytes = frame::encode(0, Tag(101), b"payload")?;
/// buffer.feed(&bytes[..20]);
/// assert!(!buffer.has_frame());
/// buffer.feed(&bytes[20..]);
/// assert_eq!(buffer.next_frame()?.map(|frame| frame.payload), Some(b"payload".as_slice()));
/// # Ok::<(), frame::FrameError>(())
/// ```
#[derive(Debug)]
pub struct FrameBuffer {
    bytes: Vec<u8>,
    /// Bytes at the front that were already returned.
    taken: usize,
    payload_bytes_max: usize,
}

impl FrameBuffer {
    /// An empty buffer that accepts payloads up to the given size.
    #[must_use]
    pub const fn new(payload_bytes_max: usize) -> Self {
        Self { bytes: Vec::new(), taken: 0, payload_bytes_max }
    }

    /// Appends bytes from the stream.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.compact();
        self.bytes.extend_from_slice(bytes);
        if self.is_inside_message() {
            self.prepare();
        }
    }

    /// Takes memory for the whole message that has begun, instead of moving to more and more of it. Memory for bytes
    /// that a peer declares and never sends is not touched.
    fn prepare(&mut self) {
        let pending = self.bytes.get(self.taken..).unwrap_or_default();
        let Some((header, rest)) = pending.split_first_chunk::<{ FrameHeader::SIZE_BYTES }>() else { return };
        let declared = usize::try_from(FrameHeader::decode(*header).size_bytes).unwrap_or(usize::MAX);
        let missing = declared.saturating_sub(rest.len());
        if declared > CAPACITY_KEPT && declared <= self.payload_bytes_max.min(PREPARED_BYTES_MAX) {
            // Where there is none it grows as it comes.
            let _ = self.bytes.try_reserve_exact(missing.saturating_add(CAPACITY_KEPT));
        }
    }

    /// Whether a message has begun but not ended.
    #[must_use]
    pub const fn is_inside_message(&self) -> bool {
        self.bytes.len() > self.taken
    }

    /// Whether [`FrameBuffer::next_frame`] will return a message or an error.
    #[must_use]
    pub fn has_frame(&self) -> bool {
        let pending = self.bytes.get(self.taken..).unwrap_or_default();
        let Some((header, rest)) = pending.split_first_chunk::<{ FrameHeader::SIZE_BYTES }>() else { return false };
        let declared = usize::try_from(FrameHeader::decode(*header).size_bytes).unwrap_or(usize::MAX);
        declared > self.payload_bytes_max || declared <= rest.len()
    }

    /// The next message, if it is complete.
    ///
    /// # Errors
    /// [`FrameError`] as soon as a header declares too large a payload, before any memory is allocated for it.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        let pending = self.bytes.get(self.taken..).unwrap_or_default();
        let Some((header, rest)) = pending.split_first_chunk::<{ FrameHeader::SIZE_BYTES }>() else {
            return Ok(None);
        };
        let header = FrameHeader::decode(*header);
        let limit = self.payload_bytes_max;
        let declared = usize::try_from(header.size_bytes).unwrap_or(usize::MAX);
        if declared > limit {
            return Err(FrameError { declared, limit });
        }
        let Some(payload) = rest.get(..declared) else {
            return Ok(None);
        };
        self.taken += FrameHeader::SIZE_BYTES + declared;
        Ok(Some(Frame { header, payload }))
    }

    /// As [`FrameBuffer::next_frame`], for a message with at least so many bytes of payload; any other stays. It copies
    /// the bytes behind the message, not the message.
    pub fn next_large_frame(&mut self, payload_bytes_min: usize) -> Option<OwnedFrame> {
        let pending = self.bytes.get(self.taken..).unwrap_or_default();
        let (header, rest) = pending.split_first_chunk::<{ FrameHeader::SIZE_BYTES }>()?;
        let header = FrameHeader::decode(*header);
        let declared = usize::try_from(header.size_bytes).ok().filter(|&declared| declared >= payload_bytes_min)?;
        if declared > self.payload_bytes_max || declared > rest.len() {
            return None;
        }
        let payload_start = self.taken + FrameHeader::SIZE_BYTES;
        let behind = self.bytes.split_off(payload_start + declared);
        self.taken = 0;
        Some(OwnedFrame { header, bytes: std::mem::replace(&mut self.bytes, behind), payload_start })
    }

    /// Bytes of messages that are not complete yet, or not yet taken.
    #[must_use]
    pub const fn pending(&self) -> usize {
        self.bytes.len().saturating_sub(self.taken)
    }

    /// Moves the pending bytes to the front once the move costs less than the space it frees. Also releases memory that
    /// only an unusually large message needed.
    fn compact(&mut self) {
        if self.taken < self.pending() {
            return;
        }
        self.bytes.drain(..self.taken);
        self.taken = 0;
        if self.bytes.len() < CAPACITY_KEPT && self.bytes.capacity() > 4 * CAPACITY_KEPT {
            self.bytes.shrink_to(CAPACITY_KEPT);
        }
    }
}

/// Memory taken for a message that has only begun, in bytes.
const PREPARED_BYTES_MAX: usize = 1 << 20;

/// Memory a quiet connection may keep, in bytes: a socket's usual receive chunk.
const CAPACITY_KEPT: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames_of(buffer: &mut FrameBuffer) -> Vec<(FrameHeader, Vec<u8>)> {
        let mut frames = Vec::new();
        while let Some(frame) = buffer.next_frame().unwrap() {
            frames.push((frame.header, frame.payload.to_vec()));
        }
        frames
    }

    #[test]
    fn an_oversized_declaration_is_refused_with_its_header() {
        let mut buffer = FrameBuffer::new(100);
        let at_limit = FrameHeader { index: 0, tag: Tag(101), size_bytes: 100, padding: 0 };
        buffer.feed(&at_limit.encode());
        assert_eq!(buffer.next_frame(), Ok(None));
        let mut buffer = FrameBuffer::new(100);
        buffer.feed(&FrameHeader { size_bytes: 101, ..at_limit }.encode());
        assert_eq!(buffer.next_frame(), Err(FrameError { declared: 101, limit: 100 }));
        assert!(buffer.bytes.capacity() < 1024);
    }

    /// The buffer moved to ever larger memory while a large message came. Where a program runs on several processors,
    /// each such move of many pages makes all of them stop.
    #[test]
    fn a_large_message_has_its_memory_when_it_has_begun() {
        let message = encode(1, Tag(101), &[7; 300_000]).unwrap();
        let mut buffer = FrameBuffer::new(1 << 20);
        let mut chunks = message.chunks(64 << 10);
        buffer.feed(chunks.next().unwrap());
        let (place, capacity) = (buffer.bytes.as_ptr(), buffer.bytes.capacity());
        chunks.for_each(|chunk| buffer.feed(chunk));
        assert_eq!((buffer.bytes.as_ptr(), buffer.bytes.capacity()), (place, capacity));
        assert_eq!(frames_of(&mut buffer).len(), 1);
    }

    #[test]
    fn a_long_session_does_not_grow_the_buffer() {
        let message = encode(1, Tag(101), &[7; 1000]).unwrap();
        let mut buffer = FrameBuffer::new(1000);
        // Each feed across the boundary leaves a rest.
        let stream: Vec<u8> = message.iter().copied().cycle().take(message.len() * 200).collect();
        let count: usize = stream
            .chunks(1500)
            .map(|chunk| {
                buffer.feed(chunk);
                frames_of(&mut buffer).len()
            })
            .sum();
        assert_eq!((count, buffer.pending()), (200, 0));
        assert!(buffer.bytes.capacity() <= 8192, "{}", buffer.bytes.capacity());
    }

    #[test]
    fn memory_of_a_large_message_is_returned() {
        let mut buffer = FrameBuffer::new(8 << 20);
        buffer.feed(&encode(0, Tag(101), &vec![0; 4 << 20]).unwrap());
        assert_eq!(frames_of(&mut buffer).len(), 1);
        buffer.feed(&[]);
        assert!(buffer.bytes.capacity() <= CAPACITY_KEPT);
    }

    #[test]
    fn a_large_message_leaves_the_buffer_and_others_stay() {
        let [small, large] = [[1; 10].as_slice(), [2; 200].as_slice()];
        let mut buffer = FrameBuffer::new(200);
        for (tag, payload) in [(101, small), (102, large), (103, small)] {
            buffer.feed(&encode(0, Tag(tag), payload).unwrap());
        }
        assert_eq!(buffer.next_large_frame(200), None, "the next one is small");
        assert_eq!(buffer.next_frame().unwrap().unwrap().header.tag, Tag(101));
        let taken = buffer.next_large_frame(200).unwrap();
        assert_eq!((taken.frame().header.tag, taken.frame().payload), (Tag(102), large));
        assert_eq!((buffer.next_large_frame(200), buffer.pending()), (None, FrameHeader::SIZE_BYTES + small.len()));
        assert_eq!(buffer.next_frame().unwrap().unwrap().payload, small);
        let message = encode(0, Tag(104), large).unwrap();
        buffer.feed(&message[..message.len() - 1]);
        assert_eq!(buffer.next_large_frame(0), None, "it is not complete");
    }

    proptest! {
        #[test]
        fn fed_in_any_pieces_the_messages_are_the_same(
            messages in prop::collection::vec((any::<u32>(), any::<u32>(), prop::collection::vec(any::<u8>(), 0..50)), 0..10),
            piece in 1usize..40,
        ) {
            let mut stream = Vec::new();
            for (index, tag, payload) in &messages {
                stream.extend(encode(*index, Tag(*tag), payload).unwrap());
            }
            let mut at_once = FrameBuffer::new(64);
            at_once.feed(&stream);
            let expected = frames_of(&mut at_once);
            prop_assert_eq!(expected.len(), messages.len());
            for size in [1, piece] {
                let mut in_pieces = FrameBuffer::new(64);
                let mut found = Vec::new();
                for bytes in stream.chunks(size) {
                    in_pieces.feed(bytes);
                    found.extend(frames_of(&mut in_pieces));
                }
                prop_assert_eq!(&found, &expected);
            }
        }
    }
}
