//! The bytes of a piece of output, which all its receivers share. A process may have a thousand pulls, and a copy for each would
//! take most of the server's time.

use std::sync::{Arc, Weak};

use crate::server::IofOutput;

/// The bytes of the piece that was sent last.
#[derive(Debug, Default)]
pub(super) struct SharedOutput {
    /// Does not keep the piece alive, but reserves its address, so no other piece can have the same one.
    output: Weak<IofOutput>,
    bytes: Arc<[u8]>,
}

impl SharedOutput {
    pub(super) fn share(&mut self, output: &Arc<IofOutput>) -> Arc<[u8]> {
        if self.output.as_ptr() != Arc::as_ptr(output) {
            *self = Self { output: Arc::downgrade(output), bytes: output.bytes.as_slice().into() };
        }
        Arc::clone(&self.bytes)
    }

    /// Drops the bytes.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Namespace, ProcId};

    #[test]
    fn receivers_of_one_piece_share_its_bytes() {
        let source = ProcId::new(Namespace::new("job").unwrap(), 0);
        let piece = |bytes: &[u8]| {
            Arc::new(IofOutput { source: source.clone(), channel: 2, bytes: bytes.to_vec(), info: Vec::new() })
        };
        let (one, other) = (piece(b"one"), piece(b"other"));
        let mut shared = SharedOutput::default();
        let first = shared.share(&one);
        assert!(Arc::ptr_eq(&first, &shared.share(&one)));
        assert_eq!((&*first, &*shared.share(&other)), (&b"one"[..], &b"other"[..]));
        shared.forget();
        assert_eq!(Arc::strong_count(&first), 1);
    }
}
