//! Bytes to lines.

/// Longest line in bytes, without its end. The longest command that a library sends has a key and a value.
pub const LINE_BYTES_MAX: usize = 8 << 10;

/// A rank sent a line without end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a line is longer than {LINE_BYTES_MAX} bytes")]
pub struct LineTooLong;

/// Bytes of a rank that are not yet taken as lines.
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    bytes: Vec<u8>,
    /// The first byte that is not taken.
    start: usize,
    /// Everything before this place was searched for a line end.
    searched: usize,
    /// The place of the next line end.
    end: Option<usize>,
}

impl LineBuffer {
    /// Appends bytes in the order of their arrival. The caller bounds the bytes that wait.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.search();
    }

    /// Whether a line, or the error of one that is too long, waits.
    pub(super) fn is_ready(&self) -> bool {
        self.end.is_some() || self.pending_bytes() > LINE_BYTES_MAX
    }

    /// The bytes that wait.
    pub(super) const fn pending_bytes(&self) -> usize {
        self.bytes.len().saturating_sub(self.start)
    }

    /// Takes the next line, without its end.
    pub(super) fn next_line(&mut self) -> Result<Option<Vec<u8>>, LineTooLong> {
        let end = self.end.unwrap_or(self.bytes.len());
        let line = self.bytes.get(self.start..end).unwrap_or_default();
        if line.len() > LINE_BYTES_MAX {
            return Err(LineTooLong);
        }
        if self.end.is_none() {
            return Ok(None);
        }
        let line = line.to_vec();
        self.start = end.saturating_add(1);
        self.searched = self.start;
        if self.start >= self.bytes.len() {
            (self.start, self.searched) = (0, 0);
            self.bytes.clear();
        } else if self.start > LINE_BYTES_MAX {
            self.bytes.drain(..self.start);
            (self.start, self.searched) = (0, 0);
        }
        self.search();
        Ok(Some(line))
    }

    fn search(&mut self) {
        let unsearched = self.bytes.get(self.searched..).unwrap_or_default();
        let found = unsearched.iter().position(|byte| *byte == b'\n');
        self.end = found.map(|position| self.searched.saturating_add(position));
        self.searched = self.end.unwrap_or(self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(buffer: &mut LineBuffer) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| buffer.next_line().unwrap()).collect()
    }

    #[test]
    fn a_line_may_be_as_long_as_the_bound_and_no_longer() {
        let longest = vec![b'a'; LINE_BYTES_MAX];
        let mut buffer = LineBuffer::default();
        buffer.feed(&longest);
        assert_eq!((buffer.is_ready(), buffer.next_line()), (false, Ok(None)));
        buffer.feed(b"\n");
        assert_eq!((buffer.is_ready(), buffer.next_line()), (true, Ok(Some(longest.clone()))));
        for rest in [&b"a"[..], b"a\n"] {
            let mut buffer = LineBuffer::default();
            buffer.feed(&longest);
            buffer.feed(rest);
            assert_eq!((buffer.is_ready(), buffer.next_line()), (true, Err(LineTooLong)));
        }
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_the_pieces_in_which_they_come(
            lines in prop::collection::vec("[a-z =]{0,40}", 0..20),
            cuts in prop::collection::vec(1_usize..50, 1..20),
        ) {
            let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>().into_bytes();
            let mut buffer = LineBuffer::default();
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
