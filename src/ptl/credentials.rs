use std::io;
use std::os::unix::net::UnixStream;

use nix::sys::socket::{getsockopt, sockopt};

/// Who is at the other end of a socket, as the kernel knows it since the connection was made.
///
/// Nothing here is what the peer says of itself, so it can be held against what the host registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Process id, in this process's pid namespace; 0 when the peer lives in a namespace we can't see into.
    pub pid: u32,
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
}

impl Credentials {
    /// Asks the kernel (`SO_PEERCRED`).
    ///
    /// # Errors
    /// Whatever the kernel answers; on a connected UNIX-domain socket it does not fail.
    pub fn of_peer(socket: &UnixStream) -> io::Result<Self> {
        let kernel = getsockopt(socket, sockopt::PeerCredentials)?;
        Ok(Self { pid: u32::try_from(kernel.pid()).unwrap_or(0), uid: kernel.uid(), gid: kernel.gid() })
    }
}
