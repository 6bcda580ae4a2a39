use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as Socket};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};

use super::socket_owner::SocketOwners;
use super::{Interfaces, OwnerError, PeerCredentials, Ports, Stream, StreamLimits};

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

/// The TCP socket of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// The families of addresses.
    pub clients: ForeignClients,
    /// The ports on IPv4.
    pub ipv4_ports: Ports,
    /// The ports on IPv6.
    pub ipv6_ports: Ports,
    /// The interfaces for connections from other machines; the loopback interface alone if not given.
    pub remote: Option<Interfaces>,
}

impl TcpOptions {
    /// Whether the user asks for other places than any port of the loopback interface.
    #[must_use]
    pub const fn is_particular(&self) -> bool {
        self.remote.is_some() || !self.ipv4_ports.is_empty() || !self.ipv6_ports.is_empty()
    }
}

/// A listening TCP socket, for clients of other libraries and for tools.
///
/// Every process of the node can connect. The kernel names the owner of its socket; the peer's claim does not count. A
/// process on another machine proves its user.
#[derive(Debug)]
pub struct TcpListener {
    socket: Socket,
    address: SocketAddr,
    owners: SocketOwners,
    admits_remote: bool,
}

impl TcpListener {
    /// Listens at the first address that works. `None` if no client may connect.
    ///
    /// # Errors
    /// The operating system refuses, or no interface has a suitable address.
    pub fn bind(options: &TcpOptions) -> io::Result<Option<Self>> {
        let (ipv4, ipv6) = match options.clients {
            ForeignClients::Refused => return Ok(None),
            ForeignClients::OverIpv4 => (true, false),
            ForeignClients::OverIpv6 => (false, true),
            ForeignClients::Welcome => (true, true),
        };
        let mut addresses = match &options.remote {
            Some(interfaces) => interfaces.addresses()?,
            None => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        };
        // A family without ports is no way around taken ports of the other one.
        let has_ports = (!options.ipv4_ports.is_empty(), !options.ipv6_ports.is_empty());
        let (ipv4, ipv6) = (ipv4 && has_ports != (false, true), ipv6 && has_ports != (true, false));
        addresses.retain(|address| if address.is_ipv4() { ipv4 } else { ipv6 });
        let ports = |address: &IpAddr| if address.is_ipv4() { &options.ipv4_ports } else { &options.ipv6_ports };
        let places = addresses.iter().flat_map(|address| ports(address).iter().map(|port| (*address, port)));
        let mut failure = None;
        for (address, port) in places {
            match listener(address, port) {
                Ok(socket) => {
                    let (address, admits_remote) = (socket.local_addr()?, options.remote.is_some());
                    return Ok(Some(Self { socket, address, owners: SocketOwners::new(), admits_remote }));
                }
                // The errors of further places add nothing.
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let nowhere = || io::Error::new(io::ErrorKind::AddrNotAvailable, "no interface has a suitable address");
        Err(failure.unwrap_or_else(nowhere))
    }

    /// The address that clients connect to.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes the next waiting connection, or `None` if there is none. It comes with its owner, or with the reason why
    /// the owner is unknown; drop it then. The owner of one from another machine is [`PeerCredentials::UNPROVEN`].
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
            let credentials = match owner {
                Err(OwnerError::Remote { .. }) if self.admits_remote => Ok(PeerCredentials::UNPROVEN),
                owner => owner.map(|uid| PeerCredentials { pid: None, uid, gid: None }),
            };
            return Ok(Some((Stream::over_tcp(socket, limits)?, credentials)));
        }
    }
}

impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn listener(address: IpAddr, port: u16) -> io::Result<Socket> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    // A server that starts again at its port need not wait for the end of old connections.
    set_socket_reuseaddr(&socket, port != 0)?;
    bind(&socket, &SocketAddr::new(address, port))?;
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
        let listener = TcpListener::bind(&TcpOptions::default()).unwrap().unwrap();
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
        let listener = TcpListener::bind(&TcpOptions::default()).unwrap().unwrap();
        drop(Stream::connect(&Endpoint::Tcp(listener.address()), StreamLimits::default()).unwrap());
        let (_, credentials) = listener.accept(StreamLimits::default()).unwrap().unwrap();
        assert!(matches!(credentials, Err(OwnerError::Closed { .. })), "{credentials:?}");
    }

    #[test]
    fn a_listener_binds_the_wanted_address_family_or_none() {
        let bind = |clients| TcpListener::bind(&TcpOptions { clients, ..TcpOptions::default() });
        assert!(bind(ForeignClients::Refused).unwrap().is_none());
        let listener = bind(ForeignClients::OverIpv4).unwrap().unwrap();
        assert_eq!(listener.address().ip(), Ipv4Addr::LOCALHOST);
        // A node may be without IPv6.
        if let Ok(listener) = bind(ForeignClients::OverIpv6) {
            assert_eq!(listener.unwrap().address().ip(), Ipv6Addr::LOCALHOST);
        }
    }

    #[test]
    fn a_port_is_that_of_the_options_or_an_error() {
        let held = TcpListener::bind(&TcpOptions::default()).unwrap().unwrap();
        let taken = held.address().port();
        let port = |text: String| TcpOptions { ipv4_ports: text.parse().unwrap(), ..TcpOptions::default() };
        let refused = TcpListener::bind(&port(taken.to_string())).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse, "IPv6 is no way around");
        let (first, last) = if taken < 60_000 { (taken + 1, taken + 5000) } else { (taken - 5000, taken - 1) };
        let next = TcpListener::bind(&port(format!("{taken},{first}-{last}"))).unwrap().unwrap();
        assert!((first..=last).contains(&next.address().port()), "{:?}", next.address());
    }

    /// A process of this node is known by the kernel at any address of the node.
    #[test]
    fn a_local_peer_is_known_on_the_interface_for_other_machines() {
        let remote = Some(Interfaces::parse("127.0.0.0/8", "").unwrap());
        let listener = TcpListener::bind(&TcpOptions { remote, ..TcpOptions::default() }).unwrap().unwrap();
        let _client = Stream::connect(&Endpoint::Tcp(listener.address()), StreamLimits::default()).unwrap();
        let (_, credentials) = listener.accept(StreamLimits::default()).unwrap().unwrap();
        assert_eq!(credentials.unwrap().uid, nix::unistd::geteuid().as_raw());
        let nowhere = Some(Interfaces::parse("no-such-interface", "").unwrap());
        let error = TcpListener::bind(&TcpOptions { remote: nowhere, ..TcpOptions::default() }).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
    }
}
