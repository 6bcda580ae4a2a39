use std::io;
use std::os::unix::net::UnixStream;

use nix::sys::socket::{getsockopt, sockopt};

/// The process at the other end of a socket, as the kernel recorded it when the connection was made.
///
/// Nothing here is a claim of the peer, so it can be checked against the host's registrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCredentials {
    /// Process id, in this process's pid namespace. Unknown when the peer lives in a namespace we can't see into, and
    /// over TCP.
    pub pid: Option<u32>,
    /// Effective user id.
    pub uid: u32,
    /// Effective group id. The kernel does not know that of a TCP peer.
    pub gid: Option<u32>,
}

impl PeerCredentials {
    /// A peer on another machine, before it proves its user. The number is that of no user (chown(2)).
    pub const UNPROVEN: Self = Self { pid: None, uid: u32::MAX, gid: None };

    /// These credentials, or those that an unproven peer has proven.
    #[must_use]
    pub const fn or_proven(self, uid: u32, gid: u32) -> Self {
        if self.is_unproven() { Self { pid: None, uid, gid: Some(gid) } } else { self }
    }

    /// Whether the peer must prove its user.
    #[must_use]
    pub const fn is_unproven(&self) -> bool {
        self.uid == Self::UNPROVEN.uid
    }

    /// Asks the kernel (`SO_PEERCRED`).
    ///
    /// # Errors
    /// Any error of the kernel; on a connected UNIX-domain socket it does not fail.
    pub fn of_peer(socket: &UnixStream) -> io::Result<Self> {
        let kernel = getsockopt(socket, sockopt::PeerCredentials)?;
        let pid = u32::try_from(kernel.pid()).ok().filter(|pid| *pid != 0);
        Ok(Self { pid, uid: kernel.uid(), gid: Some(kernel.gid()) })
    }
}
