//! The numbers that distinguish messages.

/// Matches a reply to its request, per connection. Requesters choose numbers from [`Tag::DYNAMIC_FIRST`] upwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u32);

impl Tag {
    /// Server to client: an event.
    pub const NOTIFICATION: Self = Self(0);
    /// Client to server: a heartbeat without payload or reply.
    pub const HEARTBEAT: Self = Self(1);
    /// Server to client: forwarded output.
    pub const OUTPUT: Self = Self(2);
    /// Server to a client of OpenPMIx 7.0: a value that a process has removed
    /// ([`RemovalNotice`](super::notification::RemovalNotice)).
    pub const REMOVAL: Self = Self(4);
    /// Server to a client that reads segments: [`SegmentNotice`](super::SegmentNotice) with the descriptor attached.
    /// Our own peers only.
    pub const SEGMENT: Self = Self(64);
    /// The same for the node's topology; the namespace of the notice does not matter. Our own peers only.
    pub const TOPOLOGY: Self = Self(65);
    /// Client to server: [`Tag::to_bytes`] of a request. Its client no longer sleeps, and reads the answer. Our own
    /// peers only.
    pub const AWAKE: Self = Self(66);
    /// First tag for requests. The reference increments before use, so its first is 101.
    pub const DYNAMIC_FIRST: Self = Self(101);
    /// The connect message.
    pub const CONNECT: Self = Self(u32::MAX);

    /// The tag of a request whose answer may wait for another answer to the same peer, if another is due. A client with
    /// both requests then reads once. Our own peers only; no other request has a number in this range.
    #[must_use]
    pub const fn deferred(self) -> Self {
        if self.0 < !DEFERRED { Self(self.0 | DEFERRED) } else { self }
    }

    /// Whether the tag is deferred.
    #[must_use]
    pub const fn is_deferred(self) -> bool {
        self.0 >= DEFERRED && self.0 < u32::MAX
    }

    /// The tag as the payload of [`Tag::AWAKE`].
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 4] {
        self.0.to_be_bytes()
    }

    /// The tag in such a payload; `None` if the payload is invalid.
    #[must_use]
    pub fn from_bytes(payload: &[u8]) -> Option<Self> {
        payload.try_into().ok().map(|bytes| Self(u32::from_be_bytes(bytes)))
    }

    /// The tag that [`Tag::deferred`] was made from.
    #[must_use]
    pub const fn plain(self) -> Self {
        if self.is_deferred() { Self(self.0 & !DEFERRED) } else { self }
    }
}

/// Marks deferred tags.
const DEFERRED: u32 = 0xC000_0000;
