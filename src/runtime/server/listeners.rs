//! The sockets of a server: a UNIX-domain socket for our own clients, and TCP for clients of other libraries and for
//! tools, on the loopback interface or on one for other machines.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use nix::errno::Errno;

use super::poller::{Poller, Token};
use crate::os_error_hint::explain;
use crate::ptl::{
    ListenError, Listener, OwnerError, PeerCredentials, SocketAccess, Stream, StreamLimits, TcpListener, TcpOptions,
};

/// Directory of the socket if its path would be too long. It is made, locked, swept and removed as elsewhere.
const SHORT_DIRECTORY: &str = "/tmp";

#[derive(Debug)]
pub(super) struct Listeners {
    own: Listener,
    foreign: Option<TcpListener>,
}

impl Listeners {
    pub(super) const OWN: Token = Token(1);
    pub(super) const FOREIGN: Token = Token(2);

    /// Without a loopback interface there is no TCP, and only our own clients can connect. A wish for a port or for
    /// other machines that can't be met is an error.
    pub(super) fn bind(directory: &Path, access: SocketAccess, tcp: &TcpOptions) -> Result<Self, ListenError> {
        let own = match Listener::bind(directory, access) {
            // A socket's address has 108 bytes. The temporary directory of some batch systems needs all of them.
            Err(error @ ListenError::PathTooLong { .. }) => {
                Listener::bind(Path::new(SHORT_DIRECTORY), access).map_err(|_| error)?
            }
            bound => bound?,
        };
        let foreign = match TcpListener::bind(tcp) {
            Err(error) if tcp.is_particular() => {
                return Err(ListenError::Tcp(error));
            }
            Err(error) => {
                let error = explain(&error);
                tracing::warn!(%error, "no TCP socket on the loopback interface: clients of other PMIx libraries can't connect");
                None
            }
            Ok(listener) => listener,
        };
        Ok(Self { own, foreign })
    }

    pub(super) fn path(&self) -> &Path {
        self.own.path()
    }

    pub(super) fn tcp_address(&self) -> Option<SocketAddr> {
        self.foreign.as_ref().map(TcpListener::address)
    }

    pub(super) fn watch(&self, poller: &Poller) -> Result<(), Errno> {
        poller.watch(&self.own, Self::OWN)?;
        let watched = self.foreign.as_ref().map_or(Ok(()), |foreign| poller.watch(foreign, Self::FOREIGN));
        // Both are watched, or neither, so that the caller can try again.
        watched.inspect_err(|_| self.forget(poller))
    }

    pub(super) fn forget(&self, poller: &Poller) {
        // Fails only for a socket that the poller does not know.
        let _ = poller.forget(&self.own);
        let _ = self.foreign.as_ref().map(|foreign| poller.forget(foreign));
    }

    /// The next waiting connection of a socket, and its owner.
    pub(super) fn accept(&self, token: Token, limits: StreamLimits) -> io::Result<Option<Accepted>> {
        match (token, &self.foreign) {
            (Self::FOREIGN, Some(foreign)) => foreign.accept(limits),
            _ => Ok(self.own.accept(limits)?.map(|(stream, credentials)| (stream, Ok(credentials)))),
        }
    }
}

pub(super) type Accepted = (Stream, Result<PeerCredentials, OwnerError>);
