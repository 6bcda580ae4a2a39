//! Bytes to messages.

/// Longest line of PMI-1 in bytes, without its end. The longest command that a library sends has a key and a value.
pub const LINE_BYTES_MAX: usize = 8 << 10;
/// Longest message of PMI-2 in bytes, behind its length. MPICH and Slurm write no longer ones.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Bytes of the length in front of a message of PMI-2: decimal digits and blanks.
pub(super) const LENGTH_BYTES: usize = 6;

/// Why bytes are no message. Nothing behind them can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// A rank sent a line without end.
    #[error("a line is longer than {LINE_BYTES_MAX} bytes")]
    LineTooLong,
    /// A length above the bound.
    #[error("a message is longer than {MESSAGE_BYTES_MAX} bytes")]
    TooLong,
    /// Other bytes in the place of a length.
    #[error("a message of PMI-2 does not begin with its length in {LENGTH_BYTES} bytes")]
    NoLength,
}

/// The form in which messages follow each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Framing {
    /// Lines, as in PMI-1.
    #[default]
    Lines,
    /// A length before each message, as in PMI-2.
    Lengths,
}

/// Bytes of a rank that are not yet taken as messages.
#[derive(Debug, Default)]
pub(super) struct MessageBuffer {
    bytes: Vec<u8>,
    framing: Framing,
    /// The first byte that is not taken.
    start: usize,
    /// Everything before this place was searched for a line end.
    searched: usize,
    /// The place behind the next message, or its error, as far as it is known.
    next: Option<Result<Bounds, MessageError>>,
}

/// The place of a message.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    start: usize,
    end: usize,
    /// The begin of the message behind it.
    next: usize,
}

impl MessageBuffer {
    /// Appends bytes in the order of their arrival. The caller bounds the bytes that wait.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.search();
    }

    /// All bytes that are not taken have this form.
    pub(super) fn set_framing(&mut self, framing: Framing) {
        self.framing = framing;
        self.searched = self.start;
        self.search();
    }

    pub(super) const fn framing(&self) -> Framing {
        self.framing
    }

    /// Whether a message, or the error of one, waits.
    pub(super) const fn is_ready(&self) -> bool {
        self.next.is_some()
    }

    /// The bytes that wait.
    pub(super) const fn pending_bytes(&self) -> usize {
        self.bytes.len().saturating_sub(self.start)
    }

    /// Takes the next message, without its length or line end.
    pub(super) fn next_message(&mut self) -> Result<Option<Vec<u8>>, MessageError> {
        let Some(next) = self.next else { return Ok(None) };
        let Bounds { start, end, next } = next?;
        let message = self.bytes.get(start..end).unwrap_or_default().to_vec();
        (self.start, self.searched) = (next, next);
        if self.start >= self.bytes.len() {
            (self.start, self.searched) = (0, 0);
            self.bytes.clear();
        } else if self.start > LINE_BYTES_MAX {
            self.bytes.drain(..self.start);
            (self.start, self.searched) = (0, 0);
        }
        self.search();
        Ok(Some(message))
    }

    fn search(&mut self) {
        let found = match self.framing {
            Framing::Lines => self.search_line(),
            Framing::Lengths => self.search_length(),
        };
        self.next = found.transpose();
    }

    fn search_line(&mut self) -> Result<Option<Bounds>, MessageError> {
        let unsearched = self.bytes.get(self.searched..).unwrap_or_default();
        let found = unsearched.iter().position(|byte| *byte == b'\n');
        let end = found.map(|position| self.searched.saturating_add(position));
        self.searched = end.unwrap_or(self.bytes.len());
        if self.searched.saturating_sub(self.start) > LINE_BYTES_MAX {
            return Err(MessageError::LineTooLong);
        }
        Ok(end.map(|end| Bounds { start: self.start, end, next: end.saturating_add(1) }))
    }

    fn search_length(&self) -> Result<Option<Bounds>, MessageError> {
        let start = self.start.saturating_add(LENGTH_BYTES);
        let Some(length) = self.bytes.get(self.start..start) else { return Ok(None) };
        let length = std::str::from_utf8(length).ok().and_then(|length| length.trim_matches(' ').parse::<usize>().ok());
        let length = length.ok_or(MessageError::NoLength)?;
        if length > MESSAGE_BYTES_MAX {
            return Err(MessageError::TooLong);
        }
        let end = start.saturating_add(length);
        Ok((end <= self.bytes.len()).then_some(Bounds { start, end, next: end }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(buffer: &mut MessageBuffer) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| buffer.next_message().unwrap()).collect()
    }

    #[test]
    fn a_line_may_be_as_long_as_the_bound_and_no_longer() {
        let longest = vec![b'a'; LINE_BYTES_MAX];
        let mut buffer = MessageBuffer::default();
        buffer.feed(&longest);
        assert_eq!((buffer.is_ready(), buffer.next_message()), (false, Ok(None)));
        buffer.feed(b"\n");
        assert_eq!((buffer.is_ready(), buffer.next_message()), (true, Ok(Some(longest.clone()))));
        for rest in [&b"a"[..], b"a\n"] {
            let mut buffer = MessageBuffer::default();
            buffer.feed(&longest);
            buffer.feed(rest);
            assert_eq!((buffer.is_ready(), buffer.next_message()), (true, Err(MessageError::LineTooLong)));
        }
    }

    #[test]
    fn a_length_is_digits_and_blanks_within_a_bound() {
        let longest = format!("{MESSAGE_BYTES_MAX:<6}{}", "a".repeat(MESSAGE_BYTES_MAX));
        for (text, expected) in [
            ("3     abc", Ok(vec![b"abc".to_vec()])),
            ("     3abc0     2     xy1    ", Ok(vec![b"abc".to_vec(), Vec::new(), b"xy".to_vec()])),
            ("3     ab", Ok(Vec::new())),
            ("3    ", Ok(Vec::new())),
            (longest.as_str(), Ok(vec![vec![b'a'; MESSAGE_BYTES_MAX]])),
            ("65537 ", Err(MessageError::TooLong)),
            ("999999", Err(MessageError::TooLong)),
            ("cmd=in", Err(MessageError::NoLength)),
            ("      ", Err(MessageError::NoLength)),
            ("-1    ", Err(MessageError::NoLength)),
        ] {
            let mut buffer = MessageBuffer::default();
            buffer.set_framing(Framing::Lengths);
            buffer.feed(text.as_bytes());
            let found: Result<Vec<_>, _> = std::iter::from_fn(|| buffer.next_message().transpose()).collect();
            assert_eq!(found, expected, "{text:.20}");
        }
    }

    #[test]
    fn the_form_changes_between_two_messages() {
        let mut buffer = MessageBuffer::default();
        buffer.feed(b"first\n2     x\n");
        assert_eq!(buffer.next_message(), Ok(Some(b"first".to_vec())));
        buffer.set_framing(Framing::Lengths);
        assert_eq!((buffer.next_message(), buffer.pending_bytes()), (Ok(Some(b"x\n".to_vec())), 0));
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_the_pieces_in_which_they_come(
            lines in prop::collection::vec("[a-z =]{0,40}", 0..20),
            cuts in prop::collection::vec(1_usize..50, 1..20),
        ) {
            let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>().into_bytes();
            let mut buffer = MessageBuffer::default();
            let (mut rest, mut found) = (&text[..], Vec::new());
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, behind) = rest.split_at((*cut).min(rest.len()));
                buffer.feed(piece);
                // Lines are also taken in groups.
                if cut % 2 == 0 {
                    found.extend(all(&mut buffer));
                }
                rest = behind;
            }
            found.extend(all(&mut buffer));
            let expected: Vec<Vec<u8>> = lines.iter().map(|line| line.clone().into_bytes()).collect();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(buffer.pending_bytes(), 0);
        }
    }
}
