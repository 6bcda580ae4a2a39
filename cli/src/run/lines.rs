//! Cuts a stream of bytes into whole lines, so that the output of many ranks never mixes within a line.

use modex::output::split_after_last_line;

/// The longest line that is kept back, in bytes. A longer line is passed on in pieces. Otherwise a rank that never ends
/// its line would make the launcher hold its output for ever.
pub(super) const LINE_BYTES_MAX: usize = 64 * 1024;

/// Collects the output of one rank until a line is whole.
#[derive(Debug, Default)]
pub(crate) struct LineBuffer {
    partial: Vec<u8>,
    /// Whether the beginning of an unfinished line was handed out.
    is_mid_line: bool,
    /// Whether nothing else is written to the same place, so that the last line can stay as it is.
    is_alone: bool,
    /// Whether the beginning of a line is handed out before its end comes.
    is_raw: bool,
}

impl LineBuffer {
    /// Says whether nothing else is written to the same place. Without this word, something is.
    pub(super) const fn set_alone(&mut self, is_alone: bool) {
        self.is_alone = is_alone;
    }

    /// Says whether the beginning of a line is handed out before its end comes. Without this word, lines come whole.
    pub(super) const fn set_raw(&mut self, is_raw: bool) {
        self.is_raw = is_raw;
    }

    /// Takes bytes as they arrive and hands out every whole line with its newline, each after `prefix`. A line that is
    /// too long to keep is handed out in pieces.
    pub(crate) fn feed(&mut self, bytes: &[u8], prefix: &[u8], out: &mut Vec<u8>) {
        if prefix.is_empty() {
            let (earlier, ready) = self.take_ready(bytes);
            out.extend_from_slice(&earlier);
            out.extend_from_slice(ready);
            return;
        }
        let (whole, rest) = split_after_last_line(bytes);
        for line in whole.split_inclusive(|&byte| byte == b'\n') {
            self.emit(prefix, out);
            out.extend_from_slice(line);
            self.is_mid_line = false;
        }
        if self.keeps(rest) {
            self.partial.extend_from_slice(rest);
        } else {
            self.emit(prefix, out);
            out.extend_from_slice(rest);
            self.is_mid_line = true;
        }
    }

    /// As [`LineBuffer::feed`] without a prefix, but copies no lines. Returns the kept bytes that are due, and the part
    /// of `bytes` that follows them.
    pub(crate) fn take_ready<'a>(&mut self, bytes: &'a [u8]) -> (Vec<u8>, &'a [u8]) {
        let (whole, rest) = split_after_last_line(bytes);
        let earlier = if whole.is_empty() { Vec::new() } else { std::mem::take(&mut self.partial) };
        self.is_mid_line &= whole.is_empty();
        if self.keeps(rest) {
            self.partial.extend_from_slice(rest);
            return (earlier, whole);
        }
        self.is_mid_line = true;
        // `earlier` or `partial` is empty.
        ([earlier, std::mem::take(&mut self.partial)].concat(), bytes)
    }

    /// Whether the beginning of a line is kept until its end comes.
    const fn keeps(&self, rest: &[u8]) -> bool {
        let is_due = self.is_raw || self.is_mid_line || self.partial.len().saturating_add(rest.len()) >= LINE_BYTES_MAX;
        rest.is_empty() || !is_due
    }

    /// Hands out the rest when the stream ends. It is a line with an end, unless it is alone and has no prefix.
    pub(crate) fn finish(&mut self, prefix: &[u8], out: &mut Vec<u8>) {
        if !self.partial.is_empty() {
            self.emit(prefix, out);
            self.is_mid_line = true;
        }
        let line_end = self.cut();
        if !self.is_alone || !prefix.is_empty() {
            out.extend_from_slice(line_end.as_bytes());
        }
    }

    /// The end of a line whose beginning was handed out, if there is one. The rest is a line of its own.
    #[must_use]
    pub(crate) fn cut(&mut self) -> &'static str {
        if std::mem::take(&mut self.is_mid_line) { "\n" } else { "" }
    }

    /// Whether the beginning of an unfinished line was handed out.
    pub(crate) const fn is_mid_line(&self) -> bool {
        self.is_mid_line
    }

    fn emit(&mut self, prefix: &[u8], out: &mut Vec<u8>) {
        if !self.is_mid_line {
            out.extend_from_slice(prefix);
        }
        out.append(&mut self.partial);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn raw_output_does_not_wait_for_the_end_of_its_line() {
        let mut lines = LineBuffer::default();
        lines.set_raw(true);
        let mut out = Vec::new();
        lines.feed(b"a\nname? ", b"[0] ", &mut out);
        assert_eq!((out.as_slice(), lines.is_mid_line()), (&b"[0] a\n[0] name? "[..], true));
        lines.feed(b"yes\n", b"[0] ", &mut out);
        assert_eq!(out, b"[0] a\n[0] name? yes\n");
        assert!(!lines.is_mid_line());
    }

    fn fed(pieces: &[&[u8]], prefix: &[u8]) -> Vec<u8> {
        let mut lines = LineBuffer::default();
        let mut out = Vec::new();
        for piece in pieces {
            lines.feed(piece, prefix, &mut out);
        }
        lines.finish(prefix, &mut out);
        out
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            pieces in vec(vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..20), 0..20),
            prefix in prop_oneof![Just(&b""[..]), Just(&b"[0] "[..])],
        ) {
            let bytes = pieces.concat();
            let lines = bytes.split_inclusive(|&byte| byte == b'\n');
            let mut expected = lines.flat_map(|line| [prefix, line]).collect::<Vec<_>>().concat();
            if bytes.last().is_some_and(|&byte| byte != b'\n') {
                expected.push(b'\n');
            }
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(fed(&pieces, prefix), expected);
        }
    }

    #[test]
    fn a_line_that_arrives_in_pieces_leaves_whole() {
        let mut lines = LineBuffer::default();
        let mut out = Vec::new();
        lines.feed(b"half ", b"", &mut out);
        assert!(out.is_empty());
        lines.feed(b"line\nnext", b"", &mut out);
        assert_eq!(out, b"half line\n");
    }

    #[test]
    fn every_line_carries_the_prefix() {
        assert_eq!(fed(&[b"a\nb\n"], b"[0] "), b"[0] a\n[0] b\n");
    }

    #[test]
    fn the_last_line_gets_its_newline() {
        assert_eq!(fed(&[b"a\nend"], b""), b"a\nend\n");
        assert_eq!(fed(&[], b"[0] "), b"");
    }

    #[test]
    fn the_last_line_of_a_stream_that_is_alone_stays_as_it_is() {
        for (prefix, expected) in [(&b""[..], &b"a\nend"[..]), (b"[0] ", b"[0] a\n[0] end\n")] {
            let (mut lines, mut out) = (LineBuffer::default(), Vec::new());
            lines.set_alone(true);
            lines.feed(b"a\nend", prefix, &mut out);
            lines.finish(prefix, &mut out);
            lines.finish(prefix, &mut out);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn an_endless_line_is_passed_on_in_pieces() {
        let mut lines = LineBuffer::default();
        let mut out = Vec::new();
        lines.feed(&vec![b'x'; LINE_BYTES_MAX - 1], b"", &mut out);
        assert!(out.is_empty() && !lines.is_mid_line());
        lines.feed(b"yz", b"", &mut out);
        assert!(out.len() == LINE_BYTES_MAX + 1 && out.ends_with(b"xyz"));
        assert!(lines.partial.is_empty() && lines.is_mid_line());
        lines.feed(b"!", b"", &mut out);
        assert!(out.ends_with(b"xyz!") && lines.partial.is_empty());
    }

    /// Regression: a newline was put into a rank's output every 64 KiB.
    #[test]
    fn a_long_line_leaves_as_it_came_with_one_prefix() {
        let long = [vec![b'x'; 3 * LINE_BYTES_MAX + 5], b"\nnext".to_vec()].concat();
        let pieces: Vec<&[u8]> = long.chunks(50_000).collect();
        assert!(fed(&pieces, b"") == [&long[..], b"\n"].concat());
        let tagged = [&b"[0] "[..], &long[..3 * LINE_BYTES_MAX + 6], b"[0] next\n"].concat();
        assert!(fed(&pieces, b"[0] ") == tagged);
    }

    #[test]
    fn a_long_line_that_is_cut_goes_on_as_one_of_its_own() {
        let mut lines = LineBuffer::default();
        let mut out = Vec::new();
        assert_eq!(lines.cut(), "");
        lines.feed(&vec![b'x'; LINE_BYTES_MAX], b"[0] ", &mut out);
        assert_eq!((lines.cut(), lines.cut(), out.len()), ("\n", "", LINE_BYTES_MAX + 4));
        out.clear();
        lines.feed(b"rest\n", b"[0] ", &mut out);
        assert_eq!(out, b"[0] rest\n");
    }
}
