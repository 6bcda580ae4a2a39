//! The launcher's waits: signals, output of ranks, news from the server's threads, and time.

use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use modex::runtime::poller::{self, Interest, Token};
use nix::sys::signal::{SigSet, Signal};
use signal_hook::flag;

pub(super) use modex::runtime::poller::Waker as Bell;

use super::rank_id::RankId;

/// The end of a child, and the signals that users send to the launcher.
const SIGNALS: [Signal; 8] = [
    Signal::SIGCHLD,
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTSTP,
];

/// The longest wait. The byte that announces a child's end or news is lost if the kernel has no memory.
pub(super) const LOOKS_AFTER: Duration = Duration::from_secs(5);

/// The first token of the output streams. Smaller tokens are the sources below.
const STREAM_FIRST: u64 = 16;
/// The bit of the tokens of inputs. Above it is the number of the job, below it the rank. Numbers of streams do not get
/// so high.
const INPUT: u64 = 1 << 31;
const NEWS: u64 = 0;
const SIGNAL_FIRST: u64 = 1;

/// Something to check.
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
    /// The user has a signal for the ranks.
    Forward {
        /// The signal.
        signal: Signal,
    },
    /// The user stops the job for a while.
    Suspend,
    /// The stream with this index is readable.
    Stream {
        /// Its index.
        index: usize,
    },
    /// The input of a rank has room, or the rank has closed it.
    Input {
        /// The rank.
        rank: RankId,
    },
}

/// All sources of wake-ups.
#[derive(Debug)]
pub(super) struct Poller {
    poll: poller::Poller,
    news: Bell,
    signals: Vec<(Signal, UnixStream)>,
}

impl Poller {
    /// Starts listening to signals and returns the bell for other threads. Whoever started the launcher may have
    /// blocked the signals.
    pub(super) fn new() -> io::Result<(Self, Bell)> {
        SIGNALS.into_iter().collect::<SigSet>().thread_unblock()?;
        // A file at its largest size (`ulimit -f`) fails to be written then, and the launcher goes on.
        flag::register(Signal::SIGXFSZ as i32, Arc::default())?;
        let is_hangup_ignored = is_ignored(Signal::SIGHUP);
        let heard = SIGNALS.into_iter().filter(|signal| *signal != Signal::SIGHUP || !is_hangup_ignored);
        let poll = poller::Poller::new()?;
        let news = Bell::new(&poll, Token(NEWS))?;
        let mut signals = Vec::new();
        for (token, signal) in (SIGNAL_FIRST..).zip(heard) {
            let stream = signal_stream(signal)?;
            poll.watch(&stream, Token(token))?;
            signals.push((signal, stream));
        }
        let bell = news.clone();
        Ok((Self { poll, news, signals }, bell))
    }

    /// Listens to the stream with this index.
    pub(super) fn watch(&self, index: usize, stream: BorrowedFd<'_>) -> io::Result<()> {
        let token = u64::try_from(index).map_err(io::Error::other)?.saturating_add(STREAM_FIRST);
        Ok(self.poll.watch(stream, Token(token))?)
    }

    /// Waits for room in the input of a rank.
    pub(super) fn watch_input(&self, rank: RankId, input: BorrowedFd<'_>) -> io::Result<()> {
        let token = u64::from(rank.job) << 32 | INPUT | u64::from(rank.rank);
        Ok(self.poll.watch_for(input, Token(token), Interest { readable: false, writable: true })?)
    }

    /// Stops listening to a stream, or waiting for an input.
    pub(super) fn forget(&self, stream: BorrowedFd<'_>) -> io::Result<()> {
        Ok(self.poll.forget(stream)?)
    }

    /// Waits until an event happens, or until `limit` or [`LOOKS_AFTER`] has passed, which gives an empty list. An
    /// event in the list may be known already, and an event may be missing from the list.
    pub(super) fn wait(&mut self, limit: Option<Duration>) -> io::Result<Vec<Wakeup>> {
        let limit = limit.map_or(LOOKS_AFTER, |limit| limit.min(LOOKS_AFTER));
        self.poll.wait(Some(limit))?.into_iter().map(|ready| self.wakeup(ready.token.0)).collect()
    }

    fn wakeup(&self, token: u64) -> io::Result<Wakeup> {
        if token == NEWS {
            self.news.reset();
            return Ok(Wakeup::News);
        }
        if token & INPUT != 0 {
            let number = |bits: u64| u32::try_from(bits).map_err(io::Error::other);
            return Ok(Wakeup::Input {
                rank: RankId { job: number(token >> 32)?, rank: number(token & (INPUT - 1))? },
            });
        }
        if let Some(stream) = token.checked_sub(STREAM_FIRST) {
            return Ok(Wakeup::Stream { index: usize::try_from(stream).map_err(io::Error::other)? });
        }
        let position = usize::try_from(token - SIGNAL_FIRST).map_err(io::Error::other)?;
        let (signal, stream) = self.signals.get(position).ok_or_else(|| io::Error::other("unknown signal token"))?;
        drain(stream)?;
        Ok(match *signal {
            Signal::SIGCHLD => Wakeup::Child,
            Signal::SIGUSR1 | Signal::SIGUSR2 => Wakeup::Forward { signal: *signal },
            Signal::SIGTSTP => Wakeup::Suspend,
            signal => Wakeup::Stop { signal: signal as i32 },
        })
    }
}

/// Whether this process ignores a signal, as a process that `nohup` has started ignores the hangup
/// (proc_pid_status(5)).
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal as i32 - 1)) != 0)
}

fn signal_stream(signal: Signal) -> io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    reader.set_nonblocking(true)?;
    writer.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(signal as i32, writer)?;
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
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn the_bell_wakes_the_launcher_once() {
        let (mut poller, bell) = Poller::new().unwrap();
        bell.wake();
        bell.wake();
        assert_eq!(poller.wait(None).unwrap(), vec![Wakeup::News]);
        assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap(), vec![]);
    }

    /// Regression: the bell for the last output is a byte in a socket, and the byte may be lost. A launcher whose job
    /// had ended waited for it for ever.
    #[test]
    fn a_wait_ends_although_the_byte_of_the_last_output_is_lost() {
        let (mut poller, _bell) = Poller::new().unwrap();
        for timeout in [None, Some(Duration::MAX)] {
            // The children of other tests belong to this process, too.
            let others = poller.wait(timeout).unwrap().into_iter().filter(|wakeup| *wakeup != Wakeup::Child);
            assert_eq!(others.collect::<Vec<_>>(), vec![]);
        }
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
