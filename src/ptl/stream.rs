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

use super::arrival::Arrival;
use super::outbox::Outbox;
use super::socket_owner::SocketOwners;
use super::{Credentials, Endpoint, OwnerError, PeerEnd, QueueFull};
use crate::remedy::{explain, is_shortage};

/// What a peer can make this side keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Bytes that may wait for a peer that does not read.
    pub queued_bytes_max: usize,
    /// Descriptors that may wait to be taken. Further ones are closed at once.
    pub descriptors_max: usize,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self { queued_bytes_max: 64 << 20, descriptors_max: 0 }
    }
}

/// A connected socket: bytes in order, in both directions, and descriptors where the transport carries them. No operation
/// blocks, each says so itself: what the socket is set to, others who share it may change.
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

/// What [`Stream::receive`] brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// So many bytes, at least one.
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// The peer closed its end; nothing will follow.
    End,
}

/// What [`Stream::flush`] achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// Nothing waits any more.
    All,
    /// The socket is full; try again when it is writable.
    Blocked,
}

/// The connection is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("connection lost while {doing}: {source}")]
pub struct StreamError {
    /// What was tried.
    pub doing: &'static str,
    /// Why it failed.
    pub source: Errno,
}

/// Whose servers a process speaks to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Its own user's and root's: what led there could have been put there by others.
    #[default]
    OwnAndRoot,
    /// Those and one user's, who the caller knows is meant.
    AlsoOf(u32),
    /// Anybody's: whoever uses this process has named the server.
    Everybody,
}

impl StreamError {
    /// Whether the other end was closed before it had read everything, as that of a killed process is.
    #[must_use]
    pub fn is_end_of_peer(&self) -> bool {
        matches!(self.source, Errno::CONNRESET | Errno::PIPE)
    }
}

/// Why a server could not be reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Nobody listens there, or it may not be entered.
    #[error("cannot connect to {endpoint}: {}", explain(.source))]
    Unreachable {
        /// The socket.
        endpoint: Endpoint,
        /// Why not.
        source: io::Error,
    },
    /// Somebody listens there who is neither this user nor root, and who would learn whatever is put.
    #[error("socket {endpoint} is served by user {uid}, who is neither root nor user {ours}; refusing to talk to it")]
    ForeignServer {
        /// The socket.
        endpoint: Endpoint,
        /// Who serves it.
        uid: u32,
        /// Our effective user id.
        ours: u32,
    },
}

impl ConnectError {
    /// Whether there is nobody at that place, or none that this process can see.
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

    /// Whether the kernel says that nobody listens there: a server that has ended, its directory removed or not.
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

    /// Whether the same may succeed a moment later.
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
    /// [`ConnectError`]. A UNIX-domain socket must be served by this user or by root.
    pub fn connect(endpoint: &Endpoint, limits: StreamLimits) -> Result<Self, ConnectError> {
        Self::connect_within(endpoint, limits, Duration::MAX, Trust::OwnAndRoot)
    }

    /// Connects to a server that one of these users runs; waits no longer than this. One that is stopped takes no
    /// connection, on this node, too.
    ///
    /// # Errors
    /// As [`Stream::connect`].
    pub fn connect_within(
        endpoint: &Endpoint,
        limits: StreamLimits,
        time_max: Duration,
        trust: Trust,
    ) -> Result<Self, ConnectError> {
        let unreachable = |source| ConnectError::Unreachable { endpoint: endpoint.clone(), source };
        match endpoint {
            Endpoint::Unix(path) => {
                let socket = connect_unix(path, time_max).map_err(unreachable)?;
                check_server(endpoint, Credentials::of_peer(&socket).map_err(unreachable)?.uid, trust)?;
                Ok(Self::new(socket, limits))
            }
            Endpoint::Tcp(address) => Self::connect_tcp(*address, limits, time_max).map_err(unreachable),
        }
    }

    fn connect_tcp(address: SocketAddr, limits: StreamLimits, time_max: Duration) -> io::Result<Self> {
        let socket = match time_max {
            Duration::MAX => TcpStream::connect(address)?,
            Duration::ZERO => return Err(io::ErrorKind::TimedOut.into()),
            // A signal may end it before anything has begun.
            time_max => loop {
                match TcpStream::connect_timeout(&address, time_max) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    result => break result?,
                }
            },
        };
        Self::over_tcp(socket, limits)
    }

    /// Checks whose server is at the other end of a loopback TCP connection. To be called once it
    /// has answered, as nobody owns a connection that was not accepted yet. Where the kernel can't tell (another network
    /// or user namespace, another node), nothing is proven and nothing refused: launchers lead processes there. A server
    /// that has closed its end, or half of it, is none: it would be nobody's, whoever it was.
    ///
    /// # Errors
    /// [`ConnectError::ForeignServer`], [`ConnectError::Unreachable`].
    pub fn check_tcp_server(&self, trust: Trust) -> Result<(), ConnectError> {
        let Some((own, address)) = self.tcp_addresses() else { return Ok(()) };
        let endpoint = Endpoint::Tcp(address);
        match SocketOwners::new().owner(&self.socket, own, address) {
            Ok(uid) => check_server(&endpoint, uid, trust),
            Err(error @ OwnerError::Closed { .. }) => {
                let source = io::Error::new(io::ErrorKind::ConnectionAborted, error);
                Err(ConnectError::Unreachable { endpoint, source })
            }
            Err(error) => {
                tracing::debug!(%error, "whose server this is can't be told");
                Ok(())
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

    /// Who is at the other end, as far as it matters who else is its family. Asks the kernel, over TCP.
    #[must_use]
    pub fn peer_end(&self, credentials: Credentials) -> PeerEnd {
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

    /// Reads what is there into the caller's buffer, which one thread can use for all its streams.
    ///
    /// Descriptors that come along are kept in order for [`Stream::take_descriptor`]. A descriptor arrives no later
    /// than the first byte of the message it was attached to.
    ///
    /// # Errors
    /// [`StreamError`] when the connection broke. An orderly end is [`Received::End`].
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<Received, StreamError> {
        Arrival::look(&self.socket, buffer).map(|arrival| self.keep(arrival))
    }

    /// As [`Stream::receive`], for what somebody has received from [`Stream::socket`] meanwhile.
    pub(crate) fn keep(&mut self, arrival: Arrival) -> Received {
        let room = self.limits.descriptors_max.saturating_sub(self.descriptors.len());
        // Those beyond the limit are closed here, by their drop.
        self.descriptors.extend(arrival.descriptors.into_iter().take(room));
        if let Received::Bytes(count) = arrival.received {
            self.received_bytes = self.received_bytes.wrapping_add(u64::try_from(count).unwrap_or_default());
        }
        arrival.received
    }

    /// Whether there is a descriptor received and not yet taken. The kernel gives no more at once than up to the first that it
    /// meets, so that more may be there even if less came than there was room for.
    pub fn has_descriptor(&self) -> bool {
        !self.descriptors.is_empty()
    }

    /// The oldest descriptor received and not yet taken.
    pub fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.pop_front()
    }

    /// Appends a message, with a descriptor that arrives no later than its first byte, if given. Nothing is sent before
    /// [`Stream::flush`]. Where the transport carries no descriptors the message goes without, as if there had been none
    /// to give.
    ///
    /// # Errors
    /// [`QueueFull`]: the peer does not read. Drop it.
    pub fn queue(&mut self, bytes: Vec<u8>, descriptor: Option<Arc<OwnedFd>>) -> Result<(), QueueFull> {
        let descriptor = descriptor.filter(|_| self.carries_descriptors);
        self.outbox.push(bytes, descriptor, self.limits.queued_bytes_max)
    }

    /// Appends a message of which all but the first part is not copied: many streams may have the same queued.
    ///
    /// # Errors
    /// As [`Stream::queue`].
    pub fn queue_shared(&mut self, head: Vec<u8>, rest: &[Arc<[u8]>]) -> Result<(), QueueFull> {
        self.outbox.push_shared(head, rest, self.limits.queued_bytes_max)
    }

    /// Appends a message that many streams may have queued without a copy. It counts as this stream's own.
    ///
    /// # Errors
    /// As [`Stream::queue`].
    pub fn queue_copied(&mut self, bytes: Arc<[u8]>) -> Result<(), QueueFull> {
        self.outbox.push_copied(bytes, self.limits.queued_bytes_max)
    }

    /// Sends what waits, until the socket is full.
    ///
    /// # Errors
    /// [`StreamError`] when the connection broke.
    pub fn flush(&mut self) -> Result<Flushed, StreamError> {
        while !self.outbox.is_empty() {
            match self.outbox.send_some(&self.socket) {
                Ok(count) => self.sent_bytes = self.sent_bytes.wrapping_add(u64::try_from(count).unwrap_or_default()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Flushed::Blocked),
                Err(source) => return Err(StreamError { doing: "sending", source }),
            }
        }
        Ok(Flushed::All)
    }

    /// The socket itself, to wait on while somebody else may use the stream.
    #[must_use]
    pub fn socket(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.socket)
    }

    /// Ends the connection in both directions, for every copy of the socket: one that a forked child inherited, too.
    /// What was sent before can still be read by the peer.
    pub fn shutdown(&self) {
        // Fails only if the peer has ended it already.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    /// Ends the direction towards this side: what was sent before is received, and then [`Received::End`].
    pub(crate) fn shutdown_receiving(&self) {
        // Fails only if the peer has ended it already.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Read);
    }

    /// Bytes sent so far. Once the peer has received as many, it has received all.
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

    /// Memory of what waits to be sent, in bytes, without what is shared with other streams. A message keeps its own until
    /// all of it was sent.
    #[must_use]
    pub const fn held_bytes(&self) -> usize {
        self.outbox.own_bytes()
    }

    /// Memory of what waits to be sent and is shared with other streams, in bytes: a message counts whole until all of it was sent.
    #[must_use]
    pub const fn shared_bytes(&self) -> usize {
        self.outbox.shared_bytes()
    }

    /// Forgets what waits to be sent: nothing more will be.
    pub fn discard(&mut self) {
        self.outbox = Outbox::default();
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

/// The kernel holds up whoever finds the queue full, for as long as the socket may take to send something.
fn connect_unix(path: &Path, time_max: Duration) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    match time_max {
        Duration::MAX => {}
        Duration::ZERO => return Err(io::ErrorKind::TimedOut.into()),
        time_max => set_socket_timeout(&socket, Timeout::Send, Some(time_max))?,
    }
    let address = SocketAddrUnix::new(path)?;
    // A signal ends the wait of a socket that has a time to send, whatever its handler says. Nothing has begun then.
    match rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &address)) {
        Ok(()) => Ok(socket.into()),
        Err(Errno::AGAIN) => Err(io::ErrorKind::TimedOut.into()),
        Err(errno) => Err(errno.into()),
    }
}

/// Whoever else listens there would learn whatever is put.
fn check_server(endpoint: &Endpoint, uid: u32, trust: Trust) -> Result<(), ConnectError> {
    let ours = nix::unistd::geteuid().as_raw();
    let is_trusted = match trust {
        Trust::OwnAndRoot => false,
        Trust::AlsoOf(user) => uid == user,
        Trust::Everybody => true,
    };
    if uid == 0 || uid == ours || is_trusted {
        return Ok(());
    }
    Err(ConnectError::ForeignServer { endpoint: endpoint.clone(), uid, ours })
}

#[cfg(test)]
mod tests;
