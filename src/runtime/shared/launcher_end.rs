use std::os::unix::net::UnixStream;

use crate::proto::Dialect;
use crate::ptl::Stream;
use crate::types::ProcId;

/// The session's end of a channel to a launcher, or to the tool that started this process, and the peer's form of
/// messages.
#[derive(Debug)]
pub struct LauncherEnd {
    pub(in crate::runtime) socket: UnixStream,
    pub(in crate::runtime) dialect: Dialect,
}

/// A connection that this process has made to the tool that started it. A server of this process takes it over.
#[derive(Debug)]
pub struct ParentConnection {
    pub(in crate::runtime) stream: Stream,
    pub(in crate::runtime) dialect: Dialect,
    pub(in crate::runtime) message_bytes_max: usize,
    /// The tool's name.
    pub(in crate::runtime) parent: ProcId,
    /// Bytes that the tool has sent already.
    pub(in crate::runtime) rest: Vec<u8>,
}

impl ParentConnection {
    /// The tool's name.
    #[must_use]
    pub const fn parent(&self) -> &ProcId {
        &self.parent
    }
}
