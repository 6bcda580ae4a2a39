use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as Socket};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};

use super::socket_owner::SocketOwners;
use super::{OwnerError, PeerCredentials, Stream, StreamLimits};

/// Whether and how clients of other PMIx libraries can connect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForeignClients {
    /// Over the loopback interface: 127.0.0.1, or ::1 where there is no IPv4.
    #[default]
    Welcome,
    /// Over 127.0.0.1 alone.
    OverIpv4,
    /// Over ::1 alone.
    OverIpv6,
    /// Not at all: there is no TCP socket.
    Refused,
}

/// A listening TCP socket on the loopback interface, for clients of other libraries.
///
/// Every process of the node can connect. The kernel names the owner of its socket; the peer's claim does not count.
#[derive(Debug)]
pub struct TcpListener {
    socket: Socket,
    address: SocketAddr,
    owners: SocketOwners,
}

impl TcpListener {
    /// Listens at a port that the kernel chooses. `None` if no client may connect.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn bind(clients: ForeignClients) -> io::Result<Option<Self>> {
        let (ipv4, ipv6) = (Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
        let socket = match clients {
            ForeignClients::Refused => return Ok(None),
            ForeignClients::OverIpv4 => listener(ipv4)?,
            ForeignClients::OverIpv6 => listener(ipv6)?,
            // The error for IPv6 adds nothing.
            ForeignClients::Welcome => listener(ipv4).or_else(|error| listener(ipv6).map_err(|_| error))?,
        };
        let address = socket.local_addr()?;
        Ok(Some(Self { socket, address, owners: SocketOwners::new() }))
    }

    /// The address that clients connect to.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes the next waiting connection, or `None` if there is none. It comes with its owner, or with the reason why
    /// the owner is unknown; drop it then.
    ///
    /// # Errors
    /// Out of descriptors or memory; the caller should stop accepting for a while.
    pub fn accept(&self, limits: StreamLimits) -> io::Result<Option<(Stream, Result<PeerCredentials, OwnerError>)>> {
        loop {
            let (socket, peer) = match self.socket.accept() {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) => continue,
                Err(e) => return Err(e),
            };
            let owner = self.owners.owner(&socket, self.address, peer);
            let credentials = owner.map(|uid| PeerCredentials { pid: None, uid, gid: None });
            return Ok(Some((Stream::over_tcp(socket, limits)?, credentials)));
        }
    }
}

impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn listener(address: IpAddr) -> io::Result<Socket> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    bind(&socket, &SocketAddr::new(address, 0))?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Bound on connections that wait to be accepted: all ranks of a node connect at once. The kernel retries a connection
/// beyond the bound only after a second. The kernel has an upper bound of its own (`net.core.somaxconn`, 4096).
const BACKLOG: i32 = 4096;

#[cfg(test)]
mod tests {
    use super::super::{Endpoint, Flushed, Received};
    use super::*;

    #[test]
    fn a_peer_of_this_user_is_known_by_the_kernel_and_bytes_go_both_ways() {
        let listener = TcpListener::bind(ForeignClients::default()).unwrap().unwrap();
        assert!(listener.address().ip().is_loopback());
        assert!(listener.accept(StreamLimits::default()).unwrap().is_none());
        let limits = StreamLimits::default();
        let mut client = Stream::connect(&Endpoint::Tcp(listener.address()), limits).unwrap();
        let (mut server, credentials) = listener.accept(limits).unwrap().unwrap();
        let uid = nix::unistd::geteuid().as_raw();
        assert_eq!(credentials.unwrap(), PeerCredentials { pid: None, uid, gid: None });
        assert!(!server.carries_descriptors() && !client.carries_descriptors());

        let (descriptor, _write) = std::io::pipe().unwrap();
        server.queue(b"without".to_vec(), Some(std::sync::Arc::new(descriptor.into()))).unwrap();
        client.queue(b"hello".to_vec(), None).unwrap();
        assert_eq!(client.flush(), Ok(Flushed::All));
        assert_eq!(server.flush(), Ok(Flushed::All));
        let mut buffer = [0; 16];
        assert_eq!(server.receive(&mut buffer), Ok(Received::Bytes(5)));
        assert_eq!(client.receive(&mut buffer), Ok(Received::Bytes(7)));
        assert!(client.take_descriptor().is_none());
        drop(client);
        assert_eq!(server.receive(&mut buffer), Ok(Received::End));
    }

    #[test]
    fn a_peer_that_left_before_it_was_accepted_has_no_owner() {
        let listener = TcpListener::bind(ForeignClients::default()).unwrap().unwrap();
        drop(Stream::connect(&Endpoint::Tcp(listener.address()), StreamLimits::default()).unwrap());
        let (_, credentials) = listener.accept(StreamLimits::default()).unwrap().unwrap();
        assert!(matches!(credentials, Err(OwnerError::Closed { .. })), "{credentials:?}");
    }

    #[test]
    fn who_wants_one_family_gets_that_or_none() {
        assert!(TcpListener::bind(ForeignClients::Refused).unwrap().is_none());
        let listener = TcpListener::bind(ForeignClients::OverIpv4).unwrap().unwrap();
        assert_eq!(listener.address().ip(), Ipv4Addr::LOCALHOST);
        // A node may be without IPv6.
        if let Ok(listener) = TcpListener::bind(ForeignClients::OverIpv6) {
            assert_eq!(listener.unwrap().address().ip(), Ipv6Addr::LOCALHOST);
        }
    }
}
