//! The unpublished rest of a large commit.

use std::collections::VecDeque;
use std::vec::IntoIter;

use super::outputs::Ticket;
use crate::gds::plain_bytes;
use crate::types::{Key, Kval, ProcId, Scope, Value, footprint, has_more_parts};

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
    /// Whether a piece of it is published.
    pub(crate) goes_on: bool,
    /// Number of invalid qualified values.
    pub(crate) malformed: usize,
}

impl CommitRest {
    /// The size of the next value in bytes, if its memory should be prepared before.
    pub(crate) fn next_large_bytes(&self) -> Option<u64> {
        let (bytes, _) = extent(&self.values().next()?.value)?;
        u64::try_from(bytes).ok().filter(|_| bytes > PIECE_BYTES_MAX)
    }

    /// Whether the next piece may remove a value.
    pub(crate) fn removes_next(&self) -> bool {
        self.values().take(self.entries_max()).any(|entry| entry.value == Value::Undefined)
    }

    /// Largest number of values of the next piece. A large commit is cut into small pieces: others wait for each.
    const fn entries_max(&self) -> usize {
        if self.is_large { STEP_ENTRIES_MAX } else { PIECE_ENTRIES_MAX }
    }

    /// The next values, of one scope or more.
    ///
    /// # Errors
    /// The key of the next value, if that has too many parts.
    pub(crate) fn take_piece(&mut self) -> Result<Vec<(Scope, Vec<Kval>)>, Key> {
        let mut left = self.piece_len();
        if left == 0 {
            let refused = self.values().next().filter(|entry| cost_bytes(&entry.value).is_none());
            if let Some(key) = refused.map(|entry| entry.key.clone()) {
                // The array takes long to free.
                self.is_large = true;
                return Err(key);
            }
            left = 1;
        }
        let mut piece = Vec::new();
        while let Some((scope, values)) = self.parts.front_mut()
            && (left > 0 || values.len() == 0)
        {
            let taken: Vec<Kval> = values.by_ref().take(left).collect();
            left -= taken.len();
            piece.push((*scope, taken));
            if values.len() == 0 {
                let part = self.parts.pop_front().filter(|_| self.is_large);
                self.spent.extend(part.map(|(_, values)| values));
            }
        }
        Ok(piece)
    }

    /// Number of the next values that one step publishes. A large value and one with too many parts have a step of
    /// their own: it is 0 if they are next.
    fn piece_len(&self) -> usize {
        let mut left = PIECE_BYTES_MAX;
        let fits = |entry: &&Kval| {
            let cost_bytes = cost_bytes(&entry.value).filter(|&bytes| left > 0 && bytes <= PIECE_BYTES_MAX);
            left = left.saturating_sub(cost_bytes.unwrap_or_default());
            cost_bytes.is_some()
        };
        self.values().take(self.entries_max()).take_while(fits).count()
    }

    /// The unpublished values, in order.
    fn values(&self) -> impl Iterator<Item = &Kval> {
        self.parts.iter().flat_map(|(_, values)| values.as_slice())
    }
}

/// The cost of storing a value, as the bytes that are copied in this time; `None`: it has too many parts.
fn cost_bytes(value: &Value) -> Option<usize> {
    let (bytes, parts) = extent(value)?;
    Some(bytes.saturating_add(parts.saturating_mul(PART_COST_BYTES)))
}

/// The bytes of a value, and the number of parts that are encoded one by one; `None`: it has too many.
fn extent(value: &Value) -> Option<(usize, usize)> {
    if let Some(bytes) = plain_bytes(value) {
        return Some((bytes.len(), 0));
    }
    let mut left = PARTS_MAX;
    if has_more_parts(value, &mut left) {
        return None;
    }
    Some((footprint(value).unwrap_or(PIECE_BYTES_MAX), PARTS_MAX.saturating_sub(left)))
}

/// Largest number of values that one step publishes. A commit with more has smaller steps.
pub(crate) const PIECE_ENTRIES_MAX: usize = 256;
/// Number of values that one step of a large commit publishes. Other processes wait for each step.
pub(super) const STEP_ENTRIES_MAX: usize = 32;
/// A step takes no more values after this many bytes.
const PIECE_BYTES_MAX: usize = 1 << 20;
/// Largest number of parts of a posted value: an array and its 32,768 elements, for example. A step encodes them one by
/// one.
pub(crate) const PARTS_MAX: usize = 1 + (1 << 15);
/// Bytes that are copied in the time in which a part is encoded, about 130 ns.
const PART_COST_BYTES: usize = 256;
