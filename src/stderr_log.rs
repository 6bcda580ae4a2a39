//! Messages of the library to the user: each `tracing` event is one line on standard error.
//!
//! The C library installs this subscriber. The command has a subscriber of its own and uses the [`Lines`] here. A Rust
//! program has its own subscriber, or none. This crate has no spans. The registry of `tracing-subscriber` handles
//! spans, and would cost every client 32 KiB.
//!
//! - **N1** A line never holds up the process: if standard error can't take it at once, it is counted and dropped.
//! - **N2** A line never ends the process: nothing is written to a pipe without a reader, or to a closed descriptor.
//! - **N3** A line is one line of printable text, with any text of a peer.
//! - **N4** Peers can cause lines, so their frequency is bounded unless the user set a level.

use std::fmt::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use parking_lot::Mutex;
use tracing::field::{Field, Visit};
pub use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

mod levels;

pub use levels::{AREAS, Area, Levels, VARIABLE};

/// Shows the events of the C library in another program's process from now on, as `modex[PID]: ...`. Without a wish of
/// the user, `levels` has errors alone. A subscriber that the process has already stays.
pub fn install(levels: Levels) {
    let complaints = levels.complaints();
    let lines = Lines::on_stderr(!levels.is_wish());
    if tracing::subscriber::set_global_default(StderrLog { levels, lines }).is_ok() {
        for complaint in complaints {
            tracing::error!("{complaint}");
        }
    }
}

/// A peer's text with control and invisible format characters escaped, so that it stays one line, can't steer a
/// terminal, and shows in the order of its characters.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_format(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Whether a character changes the direction or the line of a text and is invisible itself (Unicode, categories Cf, Zl
/// and Zp).
pub const fn is_format(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Writes lines for events of a level.
struct StderrLog<W> {
    levels: Levels,
    lines: Lines<W>,
}

impl<W: Fn(&str) -> bool + 'static> Subscriber for StderrLog<W> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && self.levels.enables(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.levels.most())
    }

    fn event(&self, event: &Event<'_>) {
        let start = || format!("modex[{}]: ", std::process::id());
        self.lines.put(|unsaid| match unsaid {
            0 => format!("{}{}\n", start(), text_of(event)),
            _ => format!("{}{} {}\n", start(), text_of_unsaid(unsaid), text_of(event)),
        });
    }

    /// This crate has no spans.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// An event in words: `warning: connection refused: not registered (peer 4, pid 7)`.
pub fn text_of(event: &Event<'_>) -> String {
    let mut text = match *event.metadata().level() {
        Level::ERROR => "error: ",
        Level::WARN => "warning: ",
        _ => "",
    }
    .to_owned();
    let mut words = Words::default();
    event.record(&mut words);
    words.append_to(&mut text);
    text
}

/// Words about messages that were not written.
pub fn text_of_unsaid(unsaid: u64) -> String {
    format!("({unsaid} messages before this one were dropped)")
}

/// The place where lines go, under the rules N1, N2 and N4.
#[derive(Debug)]
pub struct Lines<W> {
    /// Writes a line, and returns whether that succeeded.
    write: W,
    pace: Mutex<Pace>,
}

impl Lines<fn(&str) -> bool> {
    /// Lines on standard error.
    pub const fn on_stderr(is_bounded: bool) -> Self {
        Self::new(is_bounded, |line| write_line(std::io::stderr().as_fd(), line))
    }
}

impl<W: Fn(&str) -> bool> Lines<W> {
    /// `is_bounded`: whether the number of lines is limited.
    pub const fn new(is_bounded: bool, write: W) -> Self {
        let pace = Pace { is_bounded, credit: LINES_AT_ONCE_MAX, since: Duration::ZERO, unsaid: 0 };
        Self { write, pace: Mutex::new(pace) }
    }

    /// Writes one line if it is allowed now. `line` gets the number of lines before it that were not written.
    pub fn put(&self, line: impl FnOnce(u64) -> String) {
        // In a forked child, a thread that does not exist there may hold the lock (N1).
        let Some(mut pace) = self.pace.try_lock_for(LOCK_TIME_MAX) else { return };
        if !pace.admits(time()) {
            return;
        }
        let mut line = line(pace.unsaid);
        truncate(&mut line);
        if (self.write)(&line) {
            pace.unsaid = 0;
        } else {
            pace.unsaid = pace.unsaid.saturating_add(1);
        }
    }
}

/// Bounds the number of lines (N4).
#[derive(Debug)]
struct Pace {
    is_bounded: bool,
    /// Number of lines allowed at once.
    credit: u32,
    /// End of the time already credited, since the first line.
    since: Duration,
    /// Number of lines not written.
    unsaid: u64,
}

impl Pace {
    /// Whether a line may be written now.
    fn admits(&mut self, now: Duration) -> bool {
        if !self.is_bounded {
            return true;
        }
        let earned = now.saturating_sub(self.since).as_secs() / LINE_PAUSE.as_secs();
        if earned > 0 {
            self.credit = u32::try_from(earned).unwrap_or(u32::MAX).saturating_add(self.credit).min(LINES_AT_ONCE_MAX);
            self.since = now;
        }
        if self.credit == 0 {
            self.unsaid = self.unsaid.saturating_add(1);
            return false;
        }
        self.credit -= 1;
        true
    }
}

/// An event's parts: message, reasons and other fields.
#[derive(Default)]
struct Words {
    message: String,
    reasons: String,
    others: String,
}

impl Words {
    fn append_to(&self, line: &mut String) {
        for part in [&self.message, &self.reasons] {
            line.push_str(&printable(part));
        }
        if !self.others.is_empty() {
            line.push_str(" (");
            line.push_str(&printable(&self.others));
            line.push(')');
        }
    }
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            "error" | "errno" | "refusal" | "reason" => write!(self.reasons, ": {value:?}"),
            name => {
                let comma = if self.others.is_empty() { "" } else { ", " };
                write!(self.others, "{comma}{name} {value:?}")
            }
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

/// Cuts the line to the size that a pipe takes in one piece.
fn truncate(line: &mut String) {
    if line.len() > LINE_BYTES_MAX {
        line.truncate(line.floor_char_boundary(LINE_BYTES_MAX - 4));
        line.push_str("...\n");
    }
}

/// Writes a line if that needs no waiting (N1, N2). Returns whether it was written.
fn write_line(to: BorrowedFd<'_>, line: &str) -> bool {
    let mut ready = [PollFd::new(to, PollFlags::POLLOUT)];
    let is_ready = poll(&mut ready, PollTimeout::ZERO).is_ok()
        && ready.iter().all(|ready| ready.revents() == Some(PollFlags::POLLOUT));
    is_ready && nix::unistd::write(to, line.as_bytes()).is_ok()
}

/// Time since the first line.
#[expect(clippy::disallowed_methods, reason = "an edge: the frequency of lines is measured here")]
fn time() -> Duration {
    static FIRST: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed()
}

/// POSIX's `PIPE_BUF` on Linux, including the line's end.
pub const LINE_BYTES_MAX: usize = 4096;
/// Longest wait for another thread that writes its line.
const LOCK_TIME_MAX: Duration = Duration::from_millis(100);
/// Number of lines allowed at once while the user has set no level.
const LINES_AT_ONCE_MAX: u32 = 32;
/// Time after which one more line is allowed.
const LINE_PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::Arc;

    use super::*;

    type Written = Arc<Mutex<Vec<String>>>;

    fn notices(level: Option<LevelFilter>) -> (impl Subscriber + Send + Sync, Written) {
        let lines = Written::default();
        let written = Arc::clone(&lines);
        let write = move |line: &str| {
            written.lock().push(line.to_owned());
            true
        };
        let levels = Levels::of(None, level.unwrap_or(LevelFilter::ERROR));
        (StderrLog { levels, lines: Lines::new(level.is_none(), write) }, lines)
    }

    fn of_this_process(text: &str) -> String {
        format!("modex[{}]: {text}\n", std::process::id())
    }

    #[test]
    fn a_warning_is_a_line_that_says_what_why_and_with_what() {
        let (subscriber, lines) = notices(Some(LevelFilter::WARN));
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(peer = 4, refusal = "not registered", pid = 7_u32, "connection refused");
            tracing::info!("not shown");
        });
        let expected = of_this_process("warning: connection refused: not registered (peer 4, pid 7)");
        assert_eq!(*lines.lock(), [expected]);
    }

    #[test]
    fn a_library_says_whose_it_is_and_shows_errors_alone() {
        let (subscriber, lines) = notices(None);
        tracing::subscriber::with_default(subscriber, || {
            tracing::error!("it broke");
            tracing::warn!("not shown");
        });
        assert_eq!(*lines.lock(), [of_this_process("error: it broke")]);
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(printable("a\u{1b}[2Jb\nc\u{9b}2J"), "a\\u{1b}[2Jb\\nc\\u{9b}2J");
        assert_eq!(printable("a\u{202e}b\u{2066}c"), "a\\u{202e}b\\u{2066}c");
        assert_eq!(printable("plain"), "plain");
    }

    /// N3: a peer must not control the terminal of a user.
    #[test]
    fn a_peer_can_not_write_lines_of_its_own() {
        let (subscriber, lines) = notices(Some(LevelFilter::WARN));
        let version = "5.0\n\u{1b}[2Jmodex: all is well";
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(error = %version, name = version, "refused");
            tracing::warn!(error = %"x".repeat(2 * LINE_BYTES_MAX), "refused");
        });
        let lines = lines.lock();
        assert!(lines.iter().all(|line| line.matches('\n').count() == 1 && line.ends_with('\n')), "{lines:?}");
        assert!(!lines[0].contains('\u{1b}') && lines[1].len() <= LINE_BYTES_MAX);
    }

    /// N4.
    #[test]
    fn messages_are_limited_in_rate_unless_the_user_asks_for_them() {
        let mut pace = Pace { is_bounded: true, credit: LINES_AT_ONCE_MAX, since: Duration::ZERO, unsaid: 0 };
        let mut at = |second| (0..100).filter(|_| pace.admits(Duration::from_secs(second))).count();
        assert_eq!([at(0), at(0), at(1), at(4), at(1000)], [32, 0, 1, 3, 32]);
        let (subscriber, lines) = notices(Some(LevelFilter::WARN));
        tracing::subscriber::with_default(subscriber, || (0..100).for_each(|_| tracing::warn!("asked for")));
        assert_eq!(lines.lock().len(), 100);
    }

    /// N1 and N2, and the next line reports the number of lost lines.
    #[test]
    fn messages_that_no_reader_takes_are_counted() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let full = std::io::pipe().unwrap();
        let size = nix::fcntl::fcntl(&full.1, nix::fcntl::FcntlArg::F_GETPIPE_SZ).unwrap();
        std::io::Write::write_all(&mut &full.1, &vec![0; usize::try_from(size).unwrap()]).unwrap();
        assert!(!write_line(full.1.as_fd(), "no room\n"));
        let (unread, broken) = std::io::pipe().unwrap();
        drop(unread);
        assert!(!write_line(broken.as_fd(), "no reader\n"));

        let takes = std::sync::atomic::AtomicBool::new(false);
        let takes = Arc::new(takes);
        let now_takes = Arc::clone(&takes);
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        let write = move |line: &str| now_takes.load(relaxed) && write_line(writer.as_fd(), line);
        let subscriber = StderrLog { levels: Levels::of(None, LevelFilter::WARN), lines: Lines::new(false, write) };
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!("lost");
            tracing::warn!("lost");
            takes.store(true, relaxed);
            tracing::warn!("seen");
            tracing::warn!("seen");
        });
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        let first = of_this_process("(2 messages before this one were dropped) warning: seen");
        assert_eq!(text, first + &of_this_process("warning: seen"));
    }
}
