//! Standard input of a process that this tool has started itself.
//!
//! It is a pipe. A process that does not read slows its pusher down, and a pusher that waits can be wakened.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// The writing end of the pipe.
#[derive(Debug)]
pub(super) struct ChildInput(OwnedFd);

/// The end of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    All,
    /// The process reads no more.
    Gone,
    /// The pusher was wakened.
    Stopped,
}

impl ChildInput {
    /// The process keeps a pipe that blocks: the flag belongs to this end alone.
    pub(super) fn new(pipe: OwnedFd) -> io::Result<Self> {
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_WRONLY | OFlag::O_NONBLOCK))?;
        Ok(Self(pipe))
    }

    /// Writes all bytes, and waits for room as long as nothing comes from `waker`. The thread must block SIGPIPE.
    pub(super) fn write(&self, mut bytes: &[u8], waker: &UnixStream) -> Written {
        while !bytes.is_empty() {
            match nix::unistd::write(&self.0, bytes) {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) if self.waits_in_vain(waker) => return Written::Stopped,
                Err(Errno::EAGAIN) => {}
                Err(_) => return Written::Gone,
            }
        }
        Written::All
    }

    /// Waits for room. Returns whether the waker came first.
    fn waits_in_vain(&self, waker: &UnixStream) -> bool {
        let mut wanted =
            [PollFd::new(waker.as_fd(), PollFlags::POLLIN), PollFd::new(self.0.as_fd(), PollFlags::POLLOUT)];
        // The write is tried again after an error.
        let _ = poll(&mut wanted, PollTimeout::NONE);
        let [waker, _room] = wanted;
        waker.revents().is_some_and(|events| !events.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn a_write_waits_for_room_and_ends_with_its_reader_or_its_pusher() {
        let (mut reader, writer) = io::pipe().unwrap();
        let input = ChildInput::new(writer.into()).unwrap();
        let (mut waker, wakened) = UnixStream::pair().unwrap();
        let bytes = vec![7; 1 << 20];
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| input.write(&bytes, &wakened));
            let mut read = vec![0; bytes.len()];
            reader.read_exact(&mut read).unwrap();
            assert_eq!(writing.join().unwrap(), Written::All);
            assert!(read == bytes);
        });
        waker.write_all(&[1]).unwrap();
        assert_eq!(input.write(&bytes, &wakened), Written::Stopped);
        drop(reader);
        assert_eq!(input.write(&bytes, &wakened), Written::Gone);
    }
}
