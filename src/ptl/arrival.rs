use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use super::{Received, StreamError};

/// What one receive brought: bytes in the buffer that it was given, and descriptors.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(super) received: Received,
    /// In the order in which they came.
    pub(super) descriptors: Vec<OwnedFd>,
}

impl Arrival {
    /// Receives what is there.
    pub(super) fn look(socket: impl AsFd, buffer: &mut [u8]) -> Result<Self, StreamError> {
        receive(socket, buffer, RecvFlags::DONTWAIT)
    }

    /// Waits for something to receive, in the same system call. [`Received::Nothing`] without delay from a socket that
    /// others who share it have told not to block.
    ///
    /// # Errors
    /// [`StreamError`] when the connection broke.
    pub(crate) fn wait(socket: impl AsFd, buffer: &mut [u8]) -> Result<Self, StreamError> {
        receive(socket, buffer, RecvFlags::empty())
    }
}

fn receive(socket: impl AsFd, buffer: &mut [u8], flags: RecvFlags) -> Result<Arrival, StreamError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_PER_CALL))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let received = loop {
        match rustix::net::recvmsg(&socket, &mut [IoSliceMut::new(buffer)], &mut ancillary, flags) {
            Ok(message) if message.bytes == 0 => break Received::End,
            Ok(message) => break Received::Bytes(message.bytes),
            Err(Errno::AGAIN) => break Received::Nothing,
            Err(Errno::INTR) => {}
            Err(source) => return Err(StreamError { doing: "receiving", source }),
        }
    };
    let rights = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok(Arrival { received, descriptors: rights.flatten().collect() })
}

/// Room for descriptors in one receive: more than the number that any stream keeps. Our peers send one at a time; the kernel
/// closes what does not fit.
const DESCRIPTORS_PER_CALL: usize = 4;
