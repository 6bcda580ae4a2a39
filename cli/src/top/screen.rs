//! The terminal: a page of its own, and keys without Enter. Everything is as before when the screen ends.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::unistd::read;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::view::Order;
use crate::run::{can_be_continued, stop_this_process};

/// A terminal with a page of its own.
#[derive(Debug)]
pub(super) struct Screen {
    before: Termios,
    /// A byte for each signal that ends the program.
    ends: UnixStream,
    /// A byte for each wish of another process to suspend the program.
    suspends: UnixStream,
    /// A byte for each time when the program goes on after it was stopped. A shell has set the terminal back meanwhile.
    resumes: UnixStream,
    /// A byte for each change of the terminal's size.
    resizes: UnixStream,
}

/// A wish of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    End,
    Order(Order),
    /// Rows down, or up.
    Move(isize),
    /// Half a screen down.
    Page,
    Redraw,
}

/// Another page of the terminal, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// Ctrl-C and Ctrl-Z.
const INTERRUPT: u8 = 0x03;
const SUSPEND: u8 = 0x1a;

impl Screen {
    pub(super) fn enter() -> io::Result<Self> {
        let ends = signals(&[Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT])?;
        let [suspends, resumes, resizes] = [Signal::SIGTSTP, Signal::SIGCONT, Signal::SIGWINCH];
        let (suspends, resumes, resizes) = (signals(&[suspends])?, signals(&[resumes])?, signals(&[resizes])?);
        let screen = Self { before: tcgetattr(io::stdin())?, ends, suspends, resumes, resizes };
        screen.take_over()?;
        Ok(screen)
    }

    /// Rows and columns.
    pub(super) fn size(&self) -> (usize, usize) {
        let size = tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_row > 0 && size.ws_col > 0);
        size.map_or((24, 80), |size| (size.ws_row.into(), size.ws_col.into()))
    }

    /// Shows these lines.
    pub(super) fn draw(&self, lines: &[String]) -> io::Result<()> {
        // The last line has no end, or the page would roll.
        let text = lines.join("\x1b[K\r\n");
        write(&format!("\x1b[H{text}\x1b[K\x1b[J"))
    }

    /// The next key, or `None` when this time is over.
    pub(super) fn key(&mut self, time: Duration) -> io::Result<Option<Key>> {
        let stdin = io::stdin();
        let arrivals = [&self.ends, &self.suspends, &self.resumes, &self.resizes].map(AsFd::as_fd);
        let [ends, suspends, resumes, resizes] = arrivals;
        let mut fds = [stdin.as_fd(), ends, suspends, resumes, resizes].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        // A wait that is a little too long makes the screen no busier than the user wants.
        let limit = PollTimeout::try_from(time.as_millis().saturating_add(1)).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, limit) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(nix::Error::EINTR) => return Ok(Some(Key::Redraw)),
            Err(error) => return Err(error.into()),
        }
        let [keys, ends, suspends, resumes, resizes] = fds.map(|fd| fd.any().unwrap_or(true));
        let mut bytes = [0; 64];
        if ends {
            return Ok(Some(Key::End));
        }
        if suspends {
            let _ = read(&self.suspends, &mut bytes);
            self.suspend()?;
            return Ok(Some(Key::Redraw));
        }
        if resumes {
            let _ = read(&self.resumes, &mut bytes);
            self.take_over()?;
            return Ok(Some(Key::Redraw));
        }
        if resizes {
            let _ = read(&self.resizes, &mut bytes);
            return Ok(Some(Key::Redraw));
        }
        if !keys {
            return Ok(Some(Key::Redraw));
        }
        let count = match read(&stdin, &mut bytes) {
            // The terminal has gone.
            Ok(0) | Err(nix::Error::EIO) => return Ok(Some(Key::End)),
            Ok(count) => count,
            Err(_) => return Ok(Some(Key::Redraw)),
        };
        let bytes = bytes.get(..count).unwrap_or_default();
        if bytes.contains(&SUSPEND) {
            self.suspend()?;
        }
        Ok(Some(key_of(bytes)))
    }

    fn take_over(&self) -> io::Result<()> {
        let mut raw = self.before.clone();
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        // A read returns with the first byte.
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        write(ENTER)
    }

    fn give_back(&self) -> io::Result<()> {
        write(LEAVE)?;
        Ok(tcsetattr(io::stdin(), OptionalActions::Drain, &self.before)?)
    }

    /// Stops this process, as Ctrl-Z does, if a shell can continue it.
    fn suspend(&self) -> io::Result<()> {
        if !can_be_continued() {
            return Ok(());
        }
        self.give_back()?;
        stop_this_process();
        self.take_over()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal may have gone.
        let _ = self.give_back();
    }
}

/// The wish behind the bytes of a key.
fn key_of(bytes: &[u8]) -> Key {
    match bytes {
        [b'q' | b'Q' | INTERRUPT, ..] => Key::End,
        [b'r', ..] => Key::Order(Order::Rank),
        [b'c', ..] => Key::Order(Order::Cpu),
        [b'm', ..] => Key::Order(Order::Memory),
        [b'i', ..] => Key::Order(Order::Io),
        [b'p', ..] => Key::Order(Order::Requests),
        [b'j', ..] | [0x1b, b'[' | b'O', b'B', ..] => Key::Move(1),
        [b'k', ..] | [0x1b, b'[' | b'O', b'A', ..] => Key::Move(-1),
        [b' ', ..] => Key::Page,
        _ => Key::Redraw,
    }
}

/// An end at which a byte arrives for each of these signals.
fn signals(signals: &[Signal]) -> io::Result<UnixStream> {
    let (arrivals, sender) = UnixStream::pair()?;
    arrivals.set_nonblocking(true)?;
    for signal in signals {
        signal_hook::low_level::pipe::register(*signal as i32, sender.try_clone()?)?;
    }
    Ok(arrivals)
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_letters_and_arrows() {
        for (bytes, expected) in [
            (&b"q"[..], Key::End),
            (b"\x03", Key::End),
            (b"c", Key::Order(Order::Cpu)),
            (b"\x1b[A", Key::Move(-1)),
            (b"\x1bOB", Key::Move(1)),
            (b" ", Key::Page),
            (b"\x1b", Key::Redraw),
            (b"\x1a", Key::Redraw),
            (b"", Key::Redraw),
        ] {
            assert_eq!(key_of(bytes), expected, "{bytes:?}");
        }
    }
}
