//! Lines for a writer. They may lie in a piece of output that others share, so that nobody has to copy them.

use std::sync::Arc;

use modex::IofOutput;

/// Bytes that nobody else has, and behind them the first bytes of a piece.
#[derive(Debug, Default)]
pub(super) struct ReadyLines {
    own: Vec<u8>,
    piece: Option<(Arc<IofOutput>, usize)>,
}

impl ReadyLines {
    /// Appends bytes that were kept earlier, and the first bytes of a piece. A small part of a piece is copied, because
    /// the whole piece would keep its memory.
    pub(super) fn add(&mut self, earlier: &[u8], piece: &Arc<IofOutput>, count: usize) {
        self.own_mut().extend_from_slice(earlier);
        if count > piece.bytes.capacity() / 2 {
            self.piece = Some((Arc::clone(piece), count));
        } else {
            self.own.extend_from_slice(piece.bytes.get(..count).unwrap_or_default());
        }
    }

    /// All bytes as its own. The lines of a piece are copied.
    pub(super) fn own_mut(&mut self) -> &mut Vec<u8> {
        if let Some((piece, count)) = self.piece.take() {
            self.own.extend_from_slice(piece.bytes.get(..count).unwrap_or_default());
        }
        &mut self.own
    }

    pub(super) fn len(&self) -> usize {
        let [own, shared] = self.parts();
        own.len().saturating_add(shared.len())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes in order.
    pub(super) fn parts(&self) -> [&[u8]; 2] {
        let shared = self.piece.as_ref().and_then(|(piece, count)| piece.bytes.get(..*count));
        [&self.own, shared.unwrap_or_default()]
    }
}

impl From<Vec<u8>> for ReadyLines {
    fn from(own: Vec<u8>) -> Self {
        Self { own, piece: None }
    }
}

#[cfg(test)]
mod tests {
    use modex::types::{Namespace, ProcId};

    use super::*;

    fn piece(bytes: &[u8]) -> Arc<IofOutput> {
        let source = ProcId::new(Namespace::new("job").unwrap(), 0);
        Arc::new(IofOutput { source, channel: 2, bytes: bytes.to_vec(), info: Vec::new() })
    }

    #[test]
    fn lines_of_a_piece_are_shared_unless_they_are_a_small_part_of_it() {
        let (large, small) = (piece(b"lines\nof"), piece(b"a\nand much more"));
        let mut lines = ReadyLines::default();
        lines.add(b"the ", &large, 6);
        assert_eq!((lines.parts(), Arc::strong_count(&large)), ([b"the ".as_slice(), b"lines\n"], 2));
        lines.add(b"", &small, 2);
        let all: &[u8] = b"the lines\na\n";
        assert_eq!((lines.parts(), Arc::strong_count(&large), Arc::strong_count(&small)), ([all, b""], 1, 1));
    }
}
