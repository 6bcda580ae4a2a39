use std::collections::VecDeque;
use std::fmt::{self, Debug, Formatter};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Once};

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

/// A peer does not read: the bytes that wait for it exceed their bound, and the server must drop it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("peer does not read: {queued_bytes} bytes wait for it and {size_bytes} more exceed the limit of {limit_bytes}")]
pub struct QueueFull {
    /// Bytes already waiting.
    pub queued_bytes: usize,
    /// Bytes that did not fit.
    pub size_bytes: usize,
    /// The limit.
    pub limit_bytes: usize,
}

/// Bytes on their way to a peer: messages in order, each in one or more parts. A part has at most one descriptor, which
/// comes no later than its first byte.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    messages: VecDeque<Outgoing>,
    queued_bytes: usize,
    /// Memory of messages that no other peer shares.
    own_bytes: usize,
    /// Memory of messages that other peers may share.
    shared_bytes: usize,
}

/// Messages that nobody needs any more: they were sent, or their peer has gone. Large ones take long to free.
#[derive(Debug, Default)]
pub struct SpentMessages(Vec<Vec<u8>>);

impl SpentMessages {
    /// Whether there is nothing to free.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps a large message of one peer. Others are freed now: a message of many peers is counted as long as it lives,
    /// so it must not outlive its last peer.
    fn add(&mut self, bytes: Bytes) {
        if let Bytes::Own(bytes) = bytes
            && bytes.len() > FREED_AT_ONCE_BYTES_MAX
        {
            self.0.push(bytes);
        }
    }
}

/// The size of messages that are freed as fast as small ones: the C library's allocator returns larger ones to the
/// kernel, page by page.
const FREED_AT_ONCE_BYTES_MAX: usize = 128 << 10;

/// The line about a message that went without its descriptor. Any process of the user can cause that at will.
static TOLD: Once = Once::new();

/// Bytes of one peer, or of many.
#[derive(Debug)]
enum Bytes {
    Own(Vec<u8>),
    Shared(Arc<[u8]>),
    /// Bytes of many peers that count as each peer's own, because no other place counts them.
    Copied(SharedBytes),
}

/// Bytes, or a part of them, that messages to many peers share.
#[derive(Clone)]
pub struct SharedBytes {
    bytes: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl SharedBytes {
    /// All bytes.
    pub fn whole(bytes: &Arc<impl AsRef<[u8]> + Send + Sync + 'static>) -> Self {
        Self::part(bytes, 0..bytes.as_ref().as_ref().len())
    }

    /// The bytes in this range, or none if the range exceeds them.
    pub fn part(bytes: &Arc<impl AsRef<[u8]> + Send + Sync + 'static>, range: Range<usize>) -> Self {
        let bytes: Arc<dyn AsRef<[u8]> + Send + Sync> = Arc::clone(bytes) as _;
        Self { bytes, range }
    }

    fn as_slice(&self) -> &[u8] {
        self.bytes.as_ref().as_ref().get(self.range.clone()).unwrap_or_default()
    }
}

impl Debug for SharedBytes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedBytes").field(&self.range).finish()
    }
}

#[derive(Debug)]
struct Outgoing {
    bytes: Bytes,
    /// Bytes of `bytes` that the kernel has.
    sent: usize,
    /// Taken when it was sent, with the first byte or with those before it.
    descriptor: Option<Arc<OwnedFd>>,
}

impl Outbox {
    pub(super) fn push(
        &mut self,
        bytes: Vec<u8>,
        descriptor: Option<Arc<OwnedFd>>,
        limit_bytes: usize,
    ) -> Result<(), QueueFull> {
        self.make_room(bytes.len(), limit_bytes)?;
        self.append(Bytes::Own(bytes), descriptor);
        Ok(())
    }

    /// Appends a message whose parts, except the first, go to many peers.
    pub(super) fn push_shared(
        &mut self,
        head: Vec<u8>,
        rest: &[Arc<[u8]>],
        limit_bytes: usize,
    ) -> Result<(), QueueFull> {
        let size_bytes = rest.iter().fold(head.len(), |bytes, part| bytes.saturating_add(part.len()));
        self.make_room(size_bytes, limit_bytes)?;
        self.append(Bytes::Own(head), None);
        rest.iter().for_each(|part| self.append(Bytes::Shared(Arc::clone(part)), None));
        Ok(())
    }

    /// Appends messages, after whose heads many peers get the same bytes. They count as this peer's own, and as one
    /// message.
    pub(super) fn push_copied(
        &mut self,
        messages: Vec<(Vec<u8>, SharedBytes)>,
        limit_bytes: usize,
    ) -> Result<(), QueueFull> {
        let sizes = messages.iter().map(|(head, bytes)| head.len().saturating_add(bytes.as_slice().len()));
        self.make_room(sizes.fold(0, usize::saturating_add), limit_bytes)?;
        for (head, bytes) in messages {
            self.append(Bytes::Own(head), None);
            self.append(Bytes::Copied(bytes), None);
        }
        Ok(())
    }

    fn make_room(&mut self, size_bytes: usize, limit_bytes: usize) -> Result<(), QueueFull> {
        // A message is accepted whole if any room is left. Only bytes that pile up behind a peer that does not read
        // count, not the size of one large reply.
        if self.queued_bytes > 0 && self.queued_bytes.saturating_add(size_bytes) > limit_bytes {
            return Err(QueueFull { queued_bytes: self.queued_bytes, size_bytes, limit_bytes });
        }
        self.queued_bytes = self.queued_bytes.saturating_add(size_bytes);
        Ok(())
    }

    fn append(&mut self, bytes: Bytes, descriptor: Option<Arc<OwnedFd>>) {
        if !bytes.as_slice().is_empty() {
            let memory = self.memory_of(&bytes);
            *memory = memory.saturating_add(bytes.as_slice().len());
            self.messages.push_back(Outgoing { bytes, sent: 0, descriptor });
        }
    }

    pub(super) const fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    pub(super) const fn own_bytes(&self) -> usize {
        self.own_bytes
    }

    pub(super) const fn shared_bytes(&self) -> usize {
        self.shared_bytes
    }

    const fn memory_of(&mut self, bytes: &Bytes) -> &mut usize {
        match bytes {
            Bytes::Own(_) | Bytes::Copied(_) => &mut self.own_bytes,
            Bytes::Shared(_) => &mut self.shared_bytes,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Gives the kernel as much as it takes in one call, at most `bytes_max` bytes, and returns that number of bytes; a
    /// full socket is [`Errno::AGAIN`]. Without the limit one call takes a whole message if the peer reads meanwhile.
    pub(super) fn send_some(
        &mut self,
        socket: &OwnedFd,
        bytes_max: usize,
        spent: &mut SpentMessages,
    ) -> Result<usize, Errno> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = self.gather(&mut slices, bytes_max);
        let slices = slices.get(..count).unwrap_or_default();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let bearer = self.messages.iter().take(count).position(|message| message.descriptor.is_some());
        let descriptor = bearer.and_then(|bearer| self.messages.get(bearer)?.descriptor.as_ref());
        let descriptors = descriptor.map(|descriptor| [descriptor.as_fd()]);
        if let Some(descriptors) = &descriptors {
            let has_room = ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
            debug_assert!(has_room, "the buffer is made for one descriptor");
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let sent = match rustix::net::sendmsg(socket, slices, &mut ancillary, flags) {
            Err(Errno::TOOMANYREFS) => {
                TOLD.call_once(|| {
                    tracing::warn!(
                        "the kernel passes no more descriptors of this user (ulimit -n); clients get their values over the socket"
                    );
                });
                rustix::net::sendmsg(socket, slices, &mut SendAncillaryBuffer::default(), flags)
            }
            sent => sent,
        }?;
        if let Some(message) = bearer.and_then(|bearer| self.messages.get_mut(bearer)) {
            // The descriptor went with the first byte of the call, even if its message is not sent completely.
            message.descriptor = None;
        }
        self.forget(sent, spent);
        Ok(sent)
    }

    /// Collects the front of the queue for one system call, with at most one descriptor. The kernel attaches that to
    /// the first byte of the call: it may come before its message, never later, and in order.
    fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES_MAX], bytes_max: usize) -> usize {
        let mut count = 0;
        let mut left = bytes_max;
        let mut has_descriptor = false;
        for (message, slot) in self.messages.iter().zip(slices) {
            if left == 0 || (has_descriptor && message.descriptor.is_some()) {
                break;
            }
            has_descriptor |= message.descriptor.is_some();
            let unsent = message.bytes.as_slice().get(message.sent..).unwrap_or_default();
            let unsent = unsent.get(..left).unwrap_or(unsent);
            left -= unsent.len();
            *slot = IoSlice::new(unsent);
            count += 1;
        }
        count
    }

    fn forget(&mut self, mut sent: usize, spent: &mut SpentMessages) {
        self.queued_bytes = self.queued_bytes.saturating_sub(sent);
        while sent > 0
            && let Some(message) = self.messages.front_mut()
        {
            let left = message.bytes.as_slice().len() - message.sent;
            if sent < left {
                message.sent += sent;
                return;
            }
            sent -= left;
            if let Some(Outgoing { bytes, .. }) = self.messages.pop_front() {
                let memory = self.memory_of(&bytes);
                *memory = memory.saturating_sub(bytes.as_slice().len());
                spent.add(bytes);
            }
        }
    }

    /// Drops all messages.
    pub(super) fn discard(&mut self, spent: &mut SpentMessages) {
        std::mem::take(self).messages.into_iter().for_each(|message| spent.add(message.bytes));
    }
}

impl Bytes {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
            Self::Copied(bytes) => bytes.as_slice(),
        }
    }
}

/// Parts of messages per system call. The kernel takes up to 1024; replies of one turn to one peer are few.
const SLICES_MAX: usize = 32;
