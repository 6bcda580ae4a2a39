//! The launcher's waits: signals, output of ranks, news from the server's threads, and time.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

/// Signals that ask the launcher to end the job.
const STOP_SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// How long to wait at most: where the kernel has no memory, the byte that tells of a child's end or of news is lost.
pub(super) const LOOKS_AFTER: Duration = Duration::from_secs(5);

/// First token of the output streams; smaller ones are the sources below.
const STREAM_FIRST: u64 = 16;
const CHILD: u64 = 0;
const NEWS: u64 = 1;
const STOP_FIRST: u64 = 2;

/// Something to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wakeup {
    /// A child may have ended.
    Child,
    /// The server's side has news.
    News,
    /// The user wants the job to end.
    Stop {
        /// The signal.
        signal: i32,
    },
    /// The stream with this index is readable.
    Stream {
        /// Its index.
        index: usize,
    },
}

/// Rings the launcher from another thread.
#[derive(Debug)]
pub(super) struct Bell(UnixStream);

impl Bell {
    /// Wakes the launcher up. A bell that is already ringing needs no second ring.
    pub(super) fn ring(&self) {
        let _ = (&self.0).write(&[1]);
    }
}

/// All sources of wake-ups.
#[derive(Debug)]
pub(super) struct Poller {
    poll: Epoll,
    child: UnixStream,
    news: UnixStream,
    stops: Vec<(i32, UnixStream)>,
}

impl Poller {
    /// Starts listening to signals and returns the bell for other threads.
    pub(super) fn new() -> io::Result<(Self, Bell)> {
        let poll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let child = signal_stream(SIGCHLD)?;
        add(&poll, child.as_fd(), CHILD)?;
        let (news, bell) = UnixStream::pair()?;
        news.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        add(&poll, news.as_fd(), NEWS)?;
        let mut stops = Vec::new();
        for (token, signal) in (STOP_FIRST..).zip(STOP_SIGNALS) {
            let stream = signal_stream(signal)?;
            add(&poll, stream.as_fd(), token)?;
            stops.push((signal, stream));
        }
        Ok((Self { poll, child, news, stops }, Bell(bell)))
    }

    /// Listens to the stream with this index.
    pub(super) fn watch(&self, index: usize, stream: BorrowedFd<'_>) -> io::Result<()> {
        let token = u64::try_from(index).map_err(io::Error::other)?.saturating_add(STREAM_FIRST);
        add(&self.poll, stream, token)
    }

    /// Stops listening to a stream.
    pub(super) fn forget(&self, stream: BorrowedFd<'_>) -> io::Result<()> {
        Ok(self.poll.delete(stream)?)
    }

    /// Waits until something happens or `limit` or [`LOOKS_AFTER`] has passed, which gives an empty list. What is said to happen
    /// may have been noticed before, and what happens may go unsaid.
    pub(super) fn wait(&mut self, limit: Option<Duration>) -> io::Result<Vec<Wakeup>> {
        let mut events = [EpollEvent::empty(); 64];
        let limit = limit.map_or(LOOKS_AFTER, |limit| limit.min(LOOKS_AFTER));
        // Rounded up: waking a moment too early would spin until the deadline.
        let milliseconds = limit.as_nanos().div_ceil(1_000_000);
        let timeout = EpollTimeout::try_from(i32::try_from(milliseconds).unwrap_or(i32::MAX));
        let count = match self.poll.wait(&mut events, timeout.unwrap_or(EpollTimeout::MAX)) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(error) => return Err(error.into()),
        };
        events.iter().take(count).map(|event| self.wakeup(event.data())).collect()
    }

    fn wakeup(&self, token: u64) -> io::Result<Wakeup> {
        match token {
            CHILD => drain(&self.child).map(|()| Wakeup::Child),
            NEWS => drain(&self.news).map(|()| Wakeup::News),
            _ if token < STREAM_FIRST => {
                let index = usize::try_from(token - STOP_FIRST).map_err(io::Error::other)?;
                let (signal, stream) = self.stops.get(index).ok_or_else(|| io::Error::other("unknown signal token"))?;
                drain(stream).map(|()| Wakeup::Stop { signal: *signal })
            }
            _ => Ok(Wakeup::Stream { index: usize::try_from(token - STREAM_FIRST).map_err(io::Error::other)? }),
        }
    }
}

fn add(poll: &Epoll, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
    Ok(poll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, token))?)
}

fn signal_stream(signal: i32) -> io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    reader.set_nonblocking(true)?;
    writer.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(signal, writer)?;
    Ok(reader)
}

fn drain(mut stream: &UnixStream) -> io::Result<()> {
    let mut sink = [0u8; 256];
    loop {
        match stream.read(&mut sink) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bell_wakes_the_launcher_once() {
        let (mut poller, bell) = Poller::new().unwrap();
        bell.ring();
        bell.ring();
        assert_eq!(poller.wait(None).unwrap(), vec![Wakeup::News]);
        assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap(), vec![]);
    }

    /// The bell that tells that the last output was written is a byte in a socket, which may be lost: a launcher whose job had ended
    /// waited for it for ever.
    #[test]
    fn nobody_waits_for_ever_for_what_may_have_been_lost() {
        let (mut poller, _bell) = Poller::new().unwrap();
        assert_eq!(poller.wait(None).unwrap(), vec![]);
        assert_eq!(poller.wait(Some(Duration::MAX)).unwrap(), vec![]);
    }

    #[test]
    fn a_readable_stream_is_named_by_its_index() {
        let (mut poller, _bell) = Poller::new().unwrap();
        let (reader, mut writer) = UnixStream::pair().unwrap();
        poller.watch(3, reader.as_fd()).unwrap();
        writer.write_all(b"x").unwrap();
        assert_eq!(poller.wait(None).unwrap(), vec![Wakeup::Stream { index: 3 }]);
        poller.forget(reader.as_fd()).unwrap();
        assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap(), vec![]);
    }
}
