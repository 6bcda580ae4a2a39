use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Shutdown, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use super::arrival::{Arrival, Received, StreamError};
use super::outbox::{Outbox, SharedBytes, SpentMessages};
use super::socket_owner::SocketOwners;
use super::{Endpoint, OwnerError, PeerCredentials, PeerEnd, QueueFull};
use crate::os_error_hint::{explain, is_shortage};

/// Bounds on the memory and descriptors that a peer can make this side keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Bytes that may wait for a peer that does not read.
    pub queued_bytes_max: usize,
    /// Descriptors that may wait for [`Stream::take_descriptor`]. Further descriptors are closed at once.
    pub descriptors_max: usize,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self { queued_bytes_max: 64 << 20, descriptors_max: 0 }
    }
}

/// A connected socket: ordered bytes in both directions, and descriptors where the transport carries them. No operation
/// blocks. Each call sets its own flag for that, because other holders may change the socket's mode.
#[derive(Debug)]
pub struct Stream {
    socket: Arc<OwnedFd>,
    carries_descriptors: bool,
    outbox: Outbox,
    descriptors: VecDeque<OwnedFd>,
    limits: StreamLimits,
    sent_bytes: u64,
    received_bytes: u64,
}

/// Result of [`Stream::flush`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// Nothing waits any more.
    All,
    /// Bytes are left; try again when the socket is writable.
    Blocked,
}

/// Users whose servers a process speaks to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Its own user and root: another user could have written the address.
    #[default]
    OwnAndRoot,
    /// Its own user, root, and one user that the caller expects.
    AlsoOf(u32),
    /// Any user: the process's user has named the server.
    Everybody,
}

impl Trust {
    /// Whether the expected server is neither this user's, nor root's, nor one that the user has named.
    #[must_use]
    pub fn is_of_third_user(self) -> bool {
        let ours = nix::unistd::geteuid().as_raw();
        matches!(self, Self::AlsoOf(uid) if uid != 0 && uid != ours)
    }
}

/// Reason why a server could not be reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// No server listens there, or access is denied.
    #[error("cannot connect to {endpoint}: {}", explain(.source))]
    Unreachable {
        /// The socket.
        endpoint: Endpoint,
        /// The error.
        source: io::Error,
    },
    /// The server there is neither this user's nor root's, and would learn all data put.
    #[error("user {uid}, neither root nor user {ours}, serves socket {endpoint}; it is not trusted")]
    ForeignServer {
        /// The socket.
        endpoint: Endpoint,
        /// The server's user.
        uid: u32,
        /// Our effective user id.
        ours: u32,
    },
}

impl EndpointError {
    /// Whether no server is there, or no server that this process can see.
    #[must_use]
    pub fn is_nothing_there(&self) -> bool {
        use io::ErrorKind::{ConnectionRefused, NotFound, PermissionDenied};
        match self {
            Self::Unreachable { source, .. } => {
                matches!(source.kind(), ConnectionRefused | NotFound | PermissionDenied)
            }
            Self::ForeignServer { .. } => false,
        }
    }

    /// Whether the kernel reports that no server listens there. The server has ended, with or without its directory.
    #[must_use]
    pub fn is_nobody_there(&self) -> bool {
        use io::ErrorKind::{ConnectionRefused, NotFound};
        match self {
            Self::Unreachable { source, .. } => matches!(source.kind(), ConnectionRefused | NotFound),
            Self::ForeignServer { .. } => false,
        }
    }

    /// Whether this process or the system has no descriptor or memory left for a socket.
    #[must_use]
    pub fn is_shortage(&self) -> bool {
        matches!(self, Self::Unreachable { source, .. } if is_shortage(source))
    }

    /// Whether the time ran out.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Unreachable { source, .. } if source.kind() == io::ErrorKind::TimedOut)
    }

    /// Whether a new attempt may succeed a moment later.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted, WouldBlock};
        match self {
            Self::Unreachable { endpoint: Endpoint::Tcp(_), source } => {
                matches!(
                    source.kind(),
                    ConnectionRefused | ConnectionReset | ConnectionAborted | Interrupted | WouldBlock
                )
            }
            // A signal came meanwhile.
            Self::Unreachable { source, .. } => source.kind() == Interrupted,
            Self::ForeignServer { .. } => false,
        }
    }
}

impl Stream {
    /// Connects to a server, waiting as long as the operating system does.
    ///
    /// # Errors
    /// [`EndpointError`]. A UNIX-domain socket must be served by this user or by root.
    pub fn connect(endpoint: &Endpoint, limits: StreamLimits) -> Result<Self, EndpointError> {
        Self::connect_within(endpoint, limits, Duration::MAX, Trust::OwnAndRoot)
    }

    /// Connects to a server of one of these users, and waits at most this long. A stopped server accepts no connection,
    /// also on this node.
    ///
    /// # Errors
    /// As [`Stream::connect`].
    pub fn connect_within(
        endpoint: &Endpoint,
        limits: StreamLimits,
        time_max: Duration,
        trust: Trust,
    ) -> Result<Self, EndpointError> {
        let unreachable = |source| EndpointError::Unreachable { endpoint: endpoint.clone(), source };
        match endpoint {
            Endpoint::Unix(path) => {
                let socket = connect_unix(path, time_max).map_err(unreachable)?;
                check_server(endpoint, PeerCredentials::of_peer(&socket).map_err(unreachable)?.uid, trust)?;
                Ok(Self::new(socket, limits))
            }
            Endpoint::Tcp(address) => Self::connect_tcp(*address, limits, time_max).map_err(unreachable),
        }
    }

    fn connect_tcp(address: SocketAddr, limits: StreamLimits, time_max: Duration) -> io::Result<Self> {
        let socket = match time_max {
            Duration::MAX => TcpStream::connect(address)?,
            Duration::ZERO => return Err(io::ErrorKind::TimedOut.into()),
            // A signal may end the call before the connection has begun.
            time_max => loop {
                match TcpStream::connect_timeout(&address, time_max) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    result => break result?,
                }
            },
        };
        Self::over_tcp(socket, limits)
    }

    /// Checks the owner of the server at the other end of a loopback TCP connection. Returns whether the owner is
    /// known. Call it after the server has answered: a connection not yet accepted has no owner. If the kernel can't
    /// tell (another network or user namespace, another node), nothing is proven and nothing refused: launchers lead
    /// processes there. A server that has closed its end, or half of it, is refused: no owner could be proven.
    ///
    /// # Errors
    /// [`EndpointError::ForeignServer`], [`EndpointError::Unreachable`].
    pub fn check_tcp_server(&self, trust: Trust) -> Result<bool, EndpointError> {
        let Some((own, address)) = self.tcp_addresses() else { return Ok(false) };
        let endpoint = Endpoint::Tcp(address);
        match SocketOwners::new().owner(&self.socket, own, address) {
            Ok(uid) => check_server(&endpoint, uid, trust).map(|()| true),
            Err(error @ OwnerError::Closed { .. }) => {
                let source = io::Error::new(io::ErrorKind::ConnectionAborted, error);
                Err(EndpointError::Unreachable { endpoint, source })
            }
            Err(error) => {
                tracing::debug!(%error, "the user of this server is unknown");
                Ok(false)
            }
        }
    }

    /// Our own address and the peer's, over TCP.
    fn tcp_addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        let address = |found: Option<SocketAddrAny>| SocketAddr::try_from(found?).ok();
        let own = address(rustix::net::getsockname(&self.socket).ok());
        let peer = address(rustix::net::getpeername(&self.socket).ok().flatten());
        own.zip(peer)
    }

    /// The other end, as the search for related processes needs it. Asks the kernel, over TCP.
    #[must_use]
    pub fn peer_end(&self, credentials: PeerCredentials) -> PeerEnd {
        if let Some(pid) = credentials.pid {
            return PeerEnd::Process(pid);
        }
        let inode = self.tcp_addresses().and_then(|(own, peer)| SocketOwners::new().inode(own, peer));
        inode.map_or(PeerEnd::Unknown, |inode| PeerEnd::Socket { inode, uid: credentials.uid })
    }

    /// Takes a connected UNIX-domain socket.
    #[must_use]
    pub fn new(socket: UnixStream, limits: StreamLimits) -> Self {
        Self::of(socket.into(), true, limits)
    }

    /// Takes a connected TCP socket. Small messages go out at once.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn over_tcp(socket: TcpStream, limits: StreamLimits) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        Ok(Self::of(socket.into(), false, limits))
    }

    fn of(socket: OwnedFd, carries_descriptors: bool, limits: StreamLimits) -> Self {
        let (socket, outbox, descriptors) = (Arc::new(socket), Outbox::default(), VecDeque::new());
        Self { socket, carries_descriptors, outbox, descriptors, limits, sent_bytes: 0, received_bytes: 0 }
    }

    /// Whether descriptors can travel here.
    #[must_use]
    pub const fn carries_descriptors(&self) -> bool {
        self.carries_descriptors
    }

    /// Reads the arrived bytes into the caller's buffer, which one thread can use for all its streams.
    ///
    /// Descriptors are kept in order for [`Stream::take_descriptor`]. A descriptor arrives no later than the first byte
    /// of its message.
    ///
    /// # Errors
    /// [`StreamError`] when the connection broke. An orderly end is [`Received::End`].
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<Received, StreamError> {
        Arrival::look(&self.socket, buffer).map(|arrival| self.keep(arrival))
    }

    /// As [`Stream::receive`], for an arrival that the caller received from [`Stream::socket`].
    pub(crate) fn keep(&mut self, arrival: Arrival) -> Received {
        let room = self.limits.descriptors_max.saturating_sub(self.descriptors.len());
        // The drop closes those beyond the limit.
        self.descriptors.extend(arrival.descriptors.into_iter().take(room));
        if let Received::Bytes(count) = arrival.received {
            self.received_bytes = self.received_bytes.wrapping_add(u64::try_from(count).unwrap_or_default());
        }
        arrival.received
    }

    /// Whether a received descriptor waits for [`Stream::take_descriptor`]. The kernel ends a receive at the first
    /// descriptor, so more bytes may be there even if the buffer was not filled.
    pub fn has_descriptor(&self) -> bool {
        !self.descriptors.is_empty()
    }

    /// The oldest descriptor received and not yet taken.
    pub fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.pop_front()
    }

    /// Appends a message, with an optional descriptor that arrives no later than its first byte. Nothing is sent before
    /// [`Stream::flush`]. If the transport carries no descriptors, the message goes without.
    ///
    /// # Errors
    /// [`QueueFull`]: the peer does not read. Drop it.
    pub fn queue(&mut self, bytes: Vec<u8>, descriptor: Option<Arc<OwnedFd>>) -> Result<(), QueueFull> {
        let descriptor = descriptor.filter(|_| self.carries_descriptors);
        self.outbox.push(bytes, descriptor, self.limits.queued_bytes_max)
    }

    /// Appends a message of which only the first part is copied: many streams may share the rest.
    ///
    /// # Errors
    /// As [`Stream::queue`].
    pub fn queue_shared(&mut self, head: Vec<u8>, rest: &[Arc<[u8]>]) -> Result<(), QueueFull> {
        self.outbox.push_shared(head, rest, self.limits.queued_bytes_max)
    }

    /// Appends messages, all or none. Behind the head of each, many streams may share the bytes. They count as this
    /// stream's own.
    ///
    /// # Errors
    /// As [`Stream::queue`]. The messages count as one.
    pub fn queue_copied(&mut self, messages: Vec<(Vec<u8>, SharedBytes)>) -> Result<(), QueueFull> {
        self.outbox.push_copied(messages, self.limits.queued_bytes_max)
    }

    /// Sends the queued bytes, until the socket is full.
    ///
    /// # Errors
    /// [`StreamError`] when the connection broke.
    pub fn flush(&mut self) -> Result<Flushed, StreamError> {
        self.flush_some(usize::MAX, &mut SpentMessages::default())
    }

    /// As [`Stream::flush`], but sends at most `bytes_max` bytes. A peer that reads as fast as this side writes would
    /// get all queued bytes at once. Large messages that were sent are left in `spent`, so that another thread can free
    /// them.
    ///
    /// # Errors
    /// As [`Stream::flush`].
    pub fn flush_some(&mut self, bytes_max: usize, spent: &mut SpentMessages) -> Result<Flushed, StreamError> {
        let mut left = bytes_max;
        while !self.outbox.is_empty() {
            if left == 0 {
                return Ok(Flushed::Blocked);
            }
            match self.outbox.send_some(&self.socket, left, spent) {
                Ok(count) => {
                    left = left.saturating_sub(count);
                    self.sent_bytes = self.sent_bytes.wrapping_add(u64::try_from(count).unwrap_or_default());
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Flushed::Blocked),
                Err(source) => return Err(StreamError { doing: "sending", source }),
            }
        }
        Ok(Flushed::All)
    }

    /// The socket itself, to wait on while another thread may use the stream.
    #[must_use]
    pub fn socket(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.socket)
    }

    /// Ends the connection in both directions for every copy of the socket, also for a forked child's.
    /// The peer can still read the bytes sent before.
    pub fn shutdown(&self) {
        // Fails only if the peer has ended it already.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    /// Ends the direction towards this side: the bytes sent before are received, and then [`Received::End`].
    pub(crate) fn shutdown_receiving(&self) {
        // Fails only if the peer has ended it already.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Read);
    }

    /// Bytes sent so far. A peer that received as many has received all.
    #[must_use]
    pub const fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Bytes received so far.
    #[must_use]
    pub const fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Bytes that wait to be sent.
    #[must_use]
    pub const fn queued_bytes(&self) -> usize {
        self.outbox.queued_bytes()
    }

    /// Memory of the queued messages, in bytes, without memory shared with other streams. A message keeps its memory
    /// until all of it was sent.
    #[must_use]
    pub const fn held_bytes(&self) -> usize {
        self.outbox.own_bytes()
    }

    /// Memory of the queued messages that other streams share, in bytes: a message counts whole until all of it was
    /// sent.
    #[must_use]
    pub const fn shared_bytes(&self) -> usize {
        self.outbox.shared_bytes()
    }

    /// Drops the queued bytes: nothing more will be sent. Large messages are left in `spent`.
    pub fn discard(&mut self, spent: &mut SpentMessages) {
        self.outbox.discard(spent);
    }

    /// Whether bytes wait to be sent.
    #[must_use]
    pub fn has_queued(&self) -> bool {
        !self.outbox.is_empty()
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The kernel blocks a process that finds the queue full, up to the socket's send timeout.
fn connect_unix(path: &Path, time_max: Duration) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    match time_max {
        Duration::MAX => {}
        Duration::ZERO => return Err(io::ErrorKind::TimedOut.into()),
        time_max => set_socket_timeout(&socket, Timeout::Send, Some(time_max))?,
    }
    let address = SocketAddrUnix::new(path)?;
    // A signal ends the wait of a socket with a send timeout, even with `SA_RESTART`. Nothing has begun then.
    match rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &address)) {
        Ok(()) => Ok(socket.into()),
        Err(Errno::AGAIN) => Err(io::ErrorKind::TimedOut.into()),
        Err(errno) => Err(errno.into()),
    }
}

/// A foreign server would learn all data put.
fn check_server(endpoint: &Endpoint, uid: u32, trust: Trust) -> Result<(), EndpointError> {
    let ours = nix::unistd::geteuid().as_raw();
    let is_trusted = match trust {
        Trust::OwnAndRoot => false,
        Trust::AlsoOf(user) => uid == user,
        Trust::Everybody => true,
    };
    if uid == 0 || uid == ours || is_trusted {
        return Ok(());
    }
    Err(EndpointError::ForeignServer { endpoint: endpoint.clone(), uid, ours })
}

#[cfg(test)]
mod tests;
