//! Passes the ranks' output on, whole lines at a time, and the launcher's input to the ranks that want it.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ChildStdin;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::children::Channel;
use super::lines::LineBuffer;

/// Bytes taken from one rank in one turn, so that a chatty one does not starve the others.
const READ_BYTES_MAX: usize = 64 * 1024;

/// Turns given to a pipe after the job's end. A pipe holds a mebibyte at most unless an administrator made it larger.
const LAST_TURNS_MAX: usize = 17;

/// One output of one rank.
#[derive(Debug)]
pub(super) struct Stream {
    source: OwnedFd,
    channel: Channel,
    prefix: Vec<u8>,
    lines: LineBuffer,
}

/// Whether a stream may have more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It may have more at once.
    Open,
    /// Wait until it is readable again.
    Empty,
    /// It has ended and everything was passed on.
    Ended,
}

impl Stream {
    /// A rank's output. With `tag`, each line begins with `[rank,channel] `.
    pub(super) fn new(source: OwnedFd, rank: u32, channel: Channel, tag: bool) -> Self {
        let name = match channel {
            Channel::Out => "stdout",
            Channel::Error => "stderr",
        };
        let prefix = if tag { format!("[{rank},{name}] ").into_bytes() } else { Vec::new() };
        Self { source, channel, prefix, lines: LineBuffer::default() }
    }

    /// What to wait on.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }

    /// Passes on what has arrived, whole lines of it.
    pub(super) fn pump(&mut self) -> io::Result<Progress> {
        let mut chunk = vec![0u8; READ_BYTES_MAX];
        let mut ready = Vec::new();
        let progress = match nix::unistd::read(&self.source, &mut chunk) {
            Ok(0) => {
                self.lines.finish(&self.prefix, &mut ready);
                Progress::Ended
            }
            Ok(count) => {
                self.lines.feed(chunk.get(..count).unwrap_or_default(), &self.prefix, &mut ready);
                Progress::Open
            }
            Err(Errno::EAGAIN) => Progress::Empty,
            Err(Errno::EINTR) => Progress::Open,
            Err(error) => return Err(error.into()),
        };
        self.write(&ready)?;
        Ok(progress)
    }

    /// Passes on what is left when nobody of the job writes any more, an unfinished line included. Somebody who left
    /// the job's process group and still holds the pipe is not waited for.
    pub(super) fn finish(mut self) -> io::Result<()> {
        for _ in 0..LAST_TURNS_MAX {
            match self.pump()? {
                Progress::Open => {}
                Progress::Empty => break,
                Progress::Ended => return Ok(()),
            }
        }
        let mut ready = Vec::new();
        self.lines.finish(&self.prefix, &mut ready);
        self.write(&ready)
    }

    /// One write for all lines: other writers to the same terminal can't come between.
    fn write(&self, lines: &[u8]) -> io::Result<()> {
        match self.channel {
            Channel::Out => write_all(io::stdout().lock().as_fd(), lines),
            Channel::Error => write_all(io::stderr().lock().as_fd(), lines),
        }
    }
}

/// Writes everything, also where somebody else has made the descriptor non-blocking: it is shared with the shell, and a
/// pipe that is merely full must not be taken for a broken one.
fn write_all(out: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match nix::unistd::write(out, bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => match poll(&mut [PollFd::new(out, PollFlags::POLLOUT)], PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            },
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Copies the launcher's standard input to these ranks until it ends; a rank that has closed its end is left out.
///
/// Blocks, so it has a thread of its own: a terminal's descriptor is shared with the shell and must not be made
/// non-blocking. The thread ends with the process.
pub(super) fn copy_input(mut inputs: Vec<ChildStdin>) {
    let mut chunk = vec![0u8; READ_BYTES_MAX];
    let mut source = io::stdin().lock();
    while !inputs.is_empty() {
        match source.read(&mut chunk) {
            Ok(0) => return,
            Ok(count) => {
                let bytes = chunk.get(..count).unwrap_or_default();
                inputs.retain_mut(|input| input.write_all(bytes).and_then(|()| input.flush()).is_ok());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
