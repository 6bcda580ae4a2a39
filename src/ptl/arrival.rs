use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

/// Result of [`Stream::receive`](super::Stream::receive).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Number of bytes, at least one.
    Bytes(usize),
    /// Nothing has arrived yet.
    Nothing,
    /// The peer closed its end; no more bytes will follow.
    End,
}

/// The connection is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("connection lost while {doing}: {source}")]
pub struct StreamError {
    /// The step.
    pub doing: &'static str,
    /// The error.
    pub source: Errno,
}

impl StreamError {
    /// Whether the other end was closed with unread bytes, as that of a killed process is.
    #[must_use]
    pub fn is_end_of_peer(&self) -> bool {
        matches!(self.source, Errno::CONNRESET | Errno::PIPE)
    }
}

/// Result of one receive: bytes in the caller's buffer, and descriptors.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(super) received: Received,
    /// In their order of arrival.
    pub(super) descriptors: Vec<OwnedFd>,
}

/// Reason why a wait inside the receive ended.
#[derive(Debug)]
pub(crate) enum Waited {
    /// Bytes, descriptors or the end of the connection came.
    Came(Arrival),
    /// A signal came. Its handler may have forked: the caller must check its process before it receives again.
    Interrupted,
    /// The wait ended at once, because another holder of the socket made it non-blocking, or after [`WAIT_TIME_MAX`].
    NotBlocking,
}

impl Arrival {
    /// Receives without a wait.
    pub(super) fn look(socket: impl AsFd, buffer: &mut [u8]) -> Result<Self, StreamError> {
        loop {
            match receive(&socket, buffer, RecvFlags::DONTWAIT) {
                Err(Errno::AGAIN) => return Ok(Self { received: Received::Nothing, descriptors: Vec::new() }),
                Err(Errno::INTR) => {}
                result => return result.map_err(broken),
            }
        }
    }

    /// Makes each signal interrupt [`Arrival::wait`]. On a socket without a time limit, the kernel restarts the receive
    /// after a handler with `SA_RESTART`, also in a fork that the handler made. Returns whether signals will interrupt
    /// it.
    pub(crate) fn allow_waits(socket: impl AsFd) -> bool {
        set_socket_timeout(socket, Timeout::Recv, Some(WAIT_TIME_MAX)).is_ok()
    }

    /// Waits for something to receive, in the same system call.
    ///
    /// # Errors
    /// [`StreamError`] when the connection broke.
    pub(crate) fn wait(socket: impl AsFd, buffer: &mut [u8]) -> Result<Waited, StreamError> {
        match receive(socket, buffer, RecvFlags::empty()) {
            Ok(arrival) => Ok(Waited::Came(arrival)),
            Err(Errno::AGAIN) => Ok(Waited::NotBlocking),
            Err(Errno::INTR) => Ok(Waited::Interrupted),
            Err(errno) => Err(broken(errno)),
        }
    }
}

const fn broken(source: Errno) -> StreamError {
    StreamError { doing: "receiving", source }
}

fn receive(socket: impl AsFd, buffer: &mut [u8], flags: RecvFlags) -> Result<Arrival, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_PER_CALL))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let message = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut ancillary, flags)?;
    let received = if message.bytes == 0 { Received::End } else { Received::Bytes(message.bytes) };
    let rights = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok(Arrival { received, descriptors: rights.flatten().collect() })
}

/// Room for descriptors in one receive. Our peers send one at a time; the kernel closes all that do not fit.
const DESCRIPTORS_PER_CALL: usize = 4;
/// Time limit of a receive: longer than any process runs, but not infinite.
const WAIT_TIME_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);
