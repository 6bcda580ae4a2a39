//! Cuts a stream of bytes into whole lines, so that the output of many ranks never mixes within a line.

/// Longest line kept back, in bytes. A longer one is passed on in pieces: a rank that never ends its line must not make
/// the launcher hold its output for ever.
pub(super) const LINE_BYTES_MAX: usize = 64 * 1024;

/// Collects the output of one rank until a line is whole.
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    partial: Vec<u8>,
}

impl LineBuffer {
    /// Takes bytes as they arrive and hands out every whole line, its newline included, each with `prefix` in front.
    pub(super) fn feed(&mut self, bytes: &[u8], prefix: &[u8], out: &mut Vec<u8>) {
        for piece in bytes.split_inclusive(|&b| b == b'\n') {
            self.partial.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.partial.len() >= LINE_BYTES_MAX {
                self.emit(prefix, out);
            }
        }
    }

    /// Hands out what is left when the stream ends, as a line.
    pub(super) fn finish(&mut self, prefix: &[u8], out: &mut Vec<u8>) {
        if !self.partial.is_empty() {
            self.emit(prefix, out);
        }
    }

    fn emit(&mut self, prefix: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(prefix);
        out.append(&mut self.partial);
        if out.last() != Some(&b'\n') {
            out.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(pieces: &[&[u8]], prefix: &[u8]) -> Vec<u8> {
        let mut lines = LineBuffer::default();
        let mut out = Vec::new();
        for piece in pieces {
            lines.feed(piece, prefix, &mut out);
        }
        lines.finish(prefix, &mut out);
        out
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
    fn an_endless_line_is_passed_on_in_pieces() {
        let mut lines = LineBuffer::default();
        let mut out = Vec::new();
        lines.feed(&vec![b'x'; LINE_BYTES_MAX], b"", &mut out);
        assert_eq!(out.len(), LINE_BYTES_MAX + 1);
        assert!(lines.partial.is_empty());
    }
}
