use std::time::Duration;

use super::request_quota::RequestQuotaLimits;

/// Limits of the server's resources that clients can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections without an introduction. One more drops one of them: the oldest of the user with the most, so that
    /// no user keeps others out. The limit is lower if few descriptors are left.
    pub handshakes_max: usize,
    /// How long a connection may take to introduce itself, and to take its last bytes when it is closed.
    pub handshake_time_max: Duration,
    /// How long a client may be silent in the middle of a message. A large reply waits as long for room, and is then
    /// refused with "out of resource".
    pub message_pause_max: Duration,
    /// Bytes that may wait for a client that does not read. Events and output take at most half of it. The client
    /// misses more of them, but keeps its connection.
    pub queued_bytes_max: usize,
    /// Bytes of the server's memory that all connections together may hold: partial messages and queued output. Shared
    /// messages count once. Kept job information counts too; it takes at most a quarter, and is dropped first.
    ///
    /// Large replies count from the time when they wait for their encoding. The next one for a user waits while the
    /// processes of this user have not read an eighth of the limit.
    ///
    /// Above half of the limit, events and output do not wait for slow readers. Above the limit, the process with the
    /// most bytes loses its largest connection.
    pub held_bytes_max: usize,
    /// Requests of one process that the host has not answered, and its events that handlers in the host's process have
    /// not got.
    ///
    /// All users together may have eight times as many. One user may have at most half of that, and less if others have
    /// some. All tools of one user, with their introductions, count as one process. Further requests to the host are
    /// refused with "out of resource".
    pub host_requests_max: usize,
    /// Memory of these requests and events in bytes.
    pub host_bytes_max: usize,
}

impl ConnectionLimits {
    pub(super) const fn request_quota(&self) -> RequestQuotaLimits {
        RequestQuotaLimits { count_max: self.host_requests_max, bytes_max: self.host_bytes_max }
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
