//! Messages for the log of the system, as datagrams to its socket (syslog(3)).

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use crate::stderr_log::printable;

/// The socket of the system's log.
pub const SOCKET: &str = "/dev/log";

/// The longest text of one message. Daemons take at least this size.
const TEXT_BYTES_MAX: usize = 8000;

/// Messages of one text.
const MESSAGES_MAX: usize = 256;

/// The facility of programs of users. The facility of the kernel, 0, is not for them.
const USER_FACILITY: u8 = 1 << 3;

/// The highest severity and facility together.
const PRIORITY_MAX: u8 = 191;

/// The severity "error", the standard's default.
const ERROR: u8 = 3;

/// A severity, and a facility.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority(u8);

impl Default for Priority {
    fn default() -> Self {
        Self(USER_FACILITY | ERROR)
    }
}

impl Priority {
    /// A number as syslog(3) has it. A number without a facility gets that of users.
    #[must_use]
    pub fn new(number: u64) -> Option<Self> {
        let number = u8::try_from(number).ok().filter(|number| *number <= PRIORITY_MAX)?;
        Some(Self(if number < USER_FACILITY { number | USER_FACILITY } else { number }))
    }
}

/// The messages for a text: one for each line, without characters that steer a terminal. Long lines are cut.
#[must_use]
pub fn messages(text: &str, source: &str, priority: Priority) -> Vec<String> {
    let head = format!("<{}>modex[{}]: {}: ", priority.0, std::process::id(), printable(source));
    let lines = text.lines().filter(|line| !line.trim().is_empty()).map(printable);
    let messages = lines.flat_map(|line| pieces(&line).map(|piece| format!("{head}{piece}")).collect::<Vec<_>>());
    // One more than the bound shows that it is exceeded.
    messages.take(MESSAGES_MAX + 1).collect()
}

fn pieces(mut line: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let end = line.floor_char_boundary(TEXT_BYTES_MAX);
        let (piece, rest) = line.split_at_checked(end).filter(|(piece, _)| !piece.is_empty())?;
        line = rest;
        Some(piece)
    })
}

/// Sends messages. The daemon adds the time. A daemon that does not read is an error, because it must not hold up a
/// launcher or server.
///
/// # Errors
/// No daemon, a daemon that does not read, or too many messages.
pub fn send(messages: &[String], socket: &Path) -> io::Result<()> {
    let connection = UnixDatagram::unbound()?;
    connection.set_nonblocking(true)?;
    connection.connect(socket)?;
    if messages.len() > MESSAGES_MAX {
        return Err(io::Error::other(format!("a text of more than {MESSAGES_MAX} lines")));
    }
    messages.iter().try_for_each(|message| connection.send(message.as_bytes()).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_have_a_facility_of_users() {
        let of = |number| Priority::new(number).map(|priority| priority.0);
        assert_eq!([of(0), of(6), of(24), of(191)], [Some(8), Some(14), Some(24), Some(191)]);
        assert_eq!([of(192), of(u64::MAX)], [None, None]);
        assert_eq!(Priority::default(), Priority(11));
    }

    #[test]
    fn each_line_is_a_message_without_escapes() {
        let head = format!("<11>modex[{}]: rank 0: ", std::process::id());
        let found = messages("one\n\n\u{1b}[2Jtwo\n", "rank 0", Priority::default());
        assert_eq!(found, [format!("{head}one"), format!("{head}\\u{{1b}}[2Jtwo")]);
        let long = "\u{e9}".repeat(TEXT_BYTES_MAX / 2 + 1);
        let cut = messages(&long, "rank 0", Priority::default());
        assert_eq!(cut.iter().map(|message| message.len() - head.len()).collect::<Vec<_>>(), [TEXT_BYTES_MAX, 2]);
    }

    #[test]
    fn messages_arrive_and_a_daemon_that_does_not_read_or_run_holds_up_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        assert!(send(&["a".to_owned()], &path).is_err());
        let daemon = UnixDatagram::bind(&path).unwrap();
        send(&["one".to_owned(), "two".to_owned()], &path).unwrap();
        let mut bytes = [0; 16];
        for expected in ["one", "two"] {
            let count = daemon.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..count], expected.as_bytes());
        }
        let flood = vec!["x".repeat(1000); MESSAGES_MAX];
        let mut refused = (0..1000).map(|_| send(&flood, &path)).filter_map(Result::err);
        assert_eq!(refused.next().unwrap().kind(), io::ErrorKind::WouldBlock);
        assert!(send(&vec![String::new(); MESSAGES_MAX + 1], &path).is_err());
    }
}
