use std::os::unix::net::UnixStream;

use crate::proto::Dialect;

/// The session's end of a channel to a launcher, and the launcher's form of messages.
#[derive(Debug)]
pub struct LauncherEnd {
    pub(in crate::runtime) socket: UnixStream,
    pub(in crate::runtime) dialect: Dialect,
}
