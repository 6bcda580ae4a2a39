use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use super::{Received, StreamError};

/// What one receive brought: bytes in the buffer that it was given, and descriptors.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(super) received: Received,
    /// In the order in which they came.
    pub(super) descriptors: Vec<OwnedFd>,
}

/// How a wait in the receive itself ended.
#[derive(Debug)]
pub(crate) enum Waited {
    /// With something, or with the end.
    Came(Arrival),
    /// With a signal. Its handler may have forked: whoever returns from it must look who it is before it receives again.
    Interrupted,
    /// At once: others who share the socket have told it not to block. Or after [`WAIT_TIME_MAX`].
    NotBlocking,
}

impl Arrival {
    /// Receives what is there.
    pub(super) fn look(socket: impl AsFd, buffer: &mut [u8]) -> Result<Self, StreamError> {
        loop {
            match receive(&socket, buffer, RecvFlags::DONTWAIT) {
                Err(Errno::AGAIN) => return Ok(Self { received: Received::Nothing, descriptors: Vec::new() }),
                Err(Errno::INTR) => {}
                result => return result.map_err(broken),
            }
        }
    }

    /// Has the kernel tell of each signal that comes during [`Arrival::wait`]. From a socket that waits without limit it would
    /// go on receiving behind those handlers that ask for it (`SA_RESTART`), in a fork that such a handler has made, too.
    /// Returns whether it will.
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

/// Room for descriptors in one receive. Our peers send one at a time; the kernel closes what does not fit.
const DESCRIPTORS_PER_CALL: usize = 4;
/// How long a receive waits: longer than anybody runs, and not without limit.
const WAIT_TIME_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);
