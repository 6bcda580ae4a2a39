use std::time::Duration;

use super::burdens::BurdenLimits;

/// Bounds of what clients can hold of the server's sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections that have not yet introduced themselves. One more drops one of them: the oldest of the user who has
    /// most, so that nobody keeps others out. There are fewer where few descriptors are left.
    pub handshakes_max: usize,
    /// How long a connection may take to introduce itself, and to take its last bytes when it is closed.
    pub handshake_time_max: Duration,
    /// How long a client may be silent in the middle of a message.
    pub message_pause_max: Duration,
    /// Bytes that may wait for a client that does not read. Events and output of others take at most half of it: what
    /// exceeds that is lost to the client, which keeps its connection.
    pub queued_bytes_max: usize,
    /// Bytes that all connections together may hold of the server's memory: beginnings of messages, and what waits to be
    /// sent. What many get counts once. Job information that is kept for the next who asks counts, too; it is a quarter of
    /// this at most, and gives way. Beyond half of it events and output wait for nobody who does not read; beyond all of
    /// it the process that holds most loses the connection that holds most.
    pub held_bytes_max: usize,
    /// Requests of one process that the host has not answered, and events of it that the handlers of the host's process
    /// have not got. All users together may have eight times as many; one of them may have half of that at most, and less if
    /// others have some. All tools of one user count as one process, their introductions included. Whatever else it wants of the
    /// host is refused with "out of resource".
    pub host_requests_max: usize,
    /// Bytes of those.
    pub host_bytes_max: usize,
}

impl ConnectionLimits {
    pub(super) const fn burdens(&self) -> BurdenLimits {
        BurdenLimits { count_max: self.host_requests_max, bytes_max: self.host_bytes_max }
    }
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            handshakes_max: 512,
            handshake_time_max: Duration::from_secs(20),
            message_pause_max: Duration::from_secs(120),
            queued_bytes_max: 64 << 20,
            held_bytes_max: 2 << 30,
            host_requests_max: 16_384,
            host_bytes_max: 64 << 20,
        }
    }
}
