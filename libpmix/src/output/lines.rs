//! Pieces of output, put together to whole lines, so that lines of several processes do not mix.

use std::collections::BTreeMap;

use modex::output::split_after_last_line;
use modex::types::Namespace;

use super::stream::Channel;
use super::style::{Origin, OutputStyle};

/// Beginnings of lines, until their ends come.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    open: BTreeMap<Channel, Vec<u8>>,
}

impl Lines {
    /// The whole lines that a piece completes, in their form: bytes of their own, and a part of the piece that follows
    /// them. No bytes are the end of the stream, which also ends its last line. A very long line comes in parts.
    pub(crate) fn take<'a>(
        &mut self,
        style: &OutputStyle,
        channel: &Channel,
        bytes: &'a [u8],
        origin: Option<&Origin>,
        time: &str,
    ) -> (Vec<u8>, &'a [u8]) {
        let is_end = bytes.is_empty();
        let (lines, rest) = split_after_last_line(bytes);
        let mut start = if lines.is_empty() && !is_end { Vec::new() } else { self.take_open(channel) };
        let mut ready = lines;
        if !rest.is_empty() {
            let open = self.open.entry(channel.clone()).or_default();
            if style.is_raw || open.len().saturating_add(rest.len()) >= LINE_BYTES_MAX {
                // The channel has an open line only if it has no start here.
                start.append(&mut self.take_open(channel));
                ready = bytes;
            } else {
                open.extend_from_slice(rest);
            }
        }
        if !style.changes_lines() {
            return (start, ready);
        }
        start.extend_from_slice(ready);
        let form = |line: &[u8]| style.line(&channel.0, channel.1, origin, time, line);
        (start.split_inclusive(|&byte| byte == b'\n').flat_map(form).collect(), &[])
    }

    /// Whether a channel has an open line.
    pub(crate) fn is_open(&self, channel: &Channel) -> bool {
        self.open.contains_key(channel)
    }

    /// Takes the beginning of a line whose end has not come.
    pub(crate) fn take_open(&mut self, channel: &Channel) -> Vec<u8> {
        self.open.remove(channel).unwrap_or_default()
    }

    /// Channels with an open line: of a job, or all.
    pub(crate) fn open_channels(&self, namespace: Option<&Namespace>) -> Vec<Channel> {
        let is_of = |(source, _): &&Channel| namespace.is_none_or(|namespace| source.namespace == *namespace);
        self.open.keys().filter(is_of).cloned().collect()
    }
}

/// Length from which an unfinished line is written, in bytes.
const LINE_BYTES_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use modex::types::{ProcId, Rank};

    use super::super::stream::Stream;
    use super::*;

    fn channel(rank: u32) -> Channel {
        let namespace = Namespace::new("job").unwrap();
        (ProcId { namespace, rank: Rank::Process(rank) }, Stream::Stdout)
    }

    #[test]
    fn lines_of_two_ranks_do_not_mix_and_the_end_gives_the_rest() {
        let (mut lines, style) = (Lines::default(), OutputStyle::default());
        let mut take = |rank, bytes: &[u8]| {
            let (start, rest) = lines.take(&style, &channel(rank), bytes, None, "");
            String::from_utf8([&start, rest].concat()).unwrap()
        };
        assert_eq!(take(0, b"one\ntw"), "one\n");
        assert_eq!(take(1, b"other"), "");
        assert_eq!(take(0, b"o\n"), "two\n");
        assert_eq!(take(1, b" end"), "");
        assert_eq!(take(1, b""), "other end");
        assert_eq!((take(1, b""), take(0, b"")), (String::new(), String::new()));
        assert_eq!(lines.open_channels(None), []);
    }

    #[test]
    fn raw_output_and_long_lines_do_not_wait() {
        let mut lines = Lines::default();
        let raw = OutputStyle { is_raw: true, ..OutputStyle::default() };
        assert_eq!(lines.take(&raw, &channel(0), b"prompt? ", None, ""), (Vec::new(), b"prompt? ".as_slice()));
        let (style, long) = (OutputStyle::default(), vec![b'x'; LINE_BYTES_MAX - 1]);
        assert_eq!(lines.take(&style, &channel(0), &long, None, ""), (Vec::new(), [].as_slice()));
        assert_eq!(lines.take(&style, &channel(0), b"x", None, ""), (long, b"x".as_slice()));
        assert!(!lines.is_open(&channel(0)));
    }
}
