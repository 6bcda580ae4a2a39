//! Output that a peer has missed, because it did not read earlier messages in time. The next piece of the same output
//! says how much it was, so that a reader knows of the gap.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::proto::notification::OutputHead;
use crate::server::MISSED_OUTPUT;
use crate::types::{Info, Key, ProcId};

/// The missed bytes of each source, channel and pull.
#[derive(Debug, Default)]
pub(super) struct MissedOutput(BTreeMap<Source, u64>);

/// A source, its channels, and the receiver's number of the pull.
type Source = (ProcId, u16, u64);

impl MissedOutput {
    /// Memory of the counts.
    pub(super) fn size_bytes(&self) -> usize {
        self.0.len().saturating_mul(SOURCE_BYTES)
    }

    /// Counts a piece that the peer does not get.
    pub(super) fn add(&mut self, head: &OutputHead, byte_count: usize) {
        let source = source_of(head);
        if self.0.len() < SOURCES_MAX || self.0.contains_key(&source) {
            let missed = self.0.entry(source).or_default();
            *missed = missed.saturating_add(u64::try_from(byte_count).unwrap_or(u64::MAX));
        }
    }

    /// The head of a piece, with the bytes that the peer has missed before it.
    pub(super) fn mark<'h>(&self, head: &'h OutputHead) -> Cow<'h, OutputHead> {
        if self.0.is_empty() {
            return Cow::Borrowed(head);
        }
        let Some(missed) = self.0.get(&source_of(head)) else { return Cow::Borrowed(head) };
        let mut marked = head.clone();
        marked.info.push(Info::new(Key::from_static(MISSED_OUTPUT), *missed));
        Cow::Owned(marked)
    }

    /// The peer gets a piece with its mark.
    pub(super) fn settle(&mut self, head: &OutputHead) {
        if !self.0.is_empty() {
            self.0.remove(&source_of(head));
        }
    }
}

fn source_of(head: &OutputHead) -> Source {
    (head.source.clone(), head.channels, head.reference)
}

/// Bound on the counted outputs of one peer.
const SOURCES_MAX: usize = 4096;
/// Memory of one of them, with its part of the table. The name of a job is shared.
const SOURCE_BYTES: usize = 2 * size_of::<(Source, u64)>();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Namespace, Value};

    #[test]
    fn the_next_piece_of_an_output_says_what_was_missed_before() {
        let head = |rank: u32| {
            let source = ProcId::new(Namespace::new("job").unwrap(), rank);
            OutputHead { source, channels: 2, reference: 1, info: Vec::new() }
        };
        let mut missed = MissedOutput::default();
        missed.add(&head(0), 5);
        missed.add(&head(0), 7);
        assert_eq!(missed.mark(&head(1)).info, []);
        assert_eq!(missed.mark(&head(0)).info, [Info::new(Key::from_static(MISSED_OUTPUT), Value::Uint64(12))]);
        assert_eq!(missed.mark(&OutputHead { reference: 2, ..head(0) }).info, [], "another pull");
        missed.settle(&head(0));
        assert_eq!(missed.mark(&head(0)).info, []);
        let many = u32::try_from(SOURCES_MAX).unwrap();
        (0..=many).for_each(|rank| missed.add(&head(rank), 1));
        assert_eq!(missed.size_bytes(), SOURCES_MAX * SOURCE_BYTES);
        assert_eq!((missed.mark(&head(many - 1)).info.len(), missed.mark(&head(many)).info.len()), (1, 0));
    }
}
