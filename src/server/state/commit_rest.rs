//! The unpublished rest of a large commit.

use std::collections::VecDeque;
use std::vec::IntoIter;

use super::outputs::Ticket;
use crate::types::{Kval, ProcId, Scope, footprint};

/// The unpublished rest of a commit. Its values are published in pieces, in order. To readers these look like separate
/// commits.
#[derive(Debug)]
pub(crate) struct CommitRest {
    pub(crate) ticket: Ticket,
    pub(crate) proc: ProcId,
    pub(crate) parts: VecDeque<(Scope, IntoIter<Kval>)>,
    /// The memory of published parts, if they are large. Freeing a million values takes milliseconds.
    pub(crate) spent: Vec<IntoIter<Kval>>,
    pub(crate) is_large: bool,
    /// Number of invalid qualified values.
    pub(crate) malformed: usize,
}

impl CommitRest {
    /// The next values, of one scope or more.
    pub(crate) fn take_piece(&mut self) -> Vec<(Scope, Vec<Kval>)> {
        let mut piece = Vec::new();
        let (mut count_left, mut bytes_left) = (PIECE_ENTRIES_MAX, PIECE_BYTES_MAX);
        while count_left > 0
            && bytes_left > 0
            && let Some((scope, values)) = self.parts.front_mut()
        {
            let mut taken = Vec::with_capacity(values.len().min(count_left));
            while count_left > 0
                && bytes_left > 0
                && let Some(entry) = values.next()
            {
                count_left -= 1;
                bytes_left = bytes_left.saturating_sub(footprint(&entry.value).unwrap_or(PIECE_BYTES_MAX));
                taken.push(entry);
            }
            piece.push((*scope, taken));
            if values.len() == 0 {
                let part = self.parts.pop_front().filter(|_| self.is_large);
                self.spent.extend(part.map(|(_, values)| values));
            }
        }
        piece
    }
}

/// Number of values published in one step.
pub(crate) const PIECE_ENTRIES_MAX: usize = 256;
/// A step takes no more values after this many bytes.
const PIECE_BYTES_MAX: usize = 1 << 20;
