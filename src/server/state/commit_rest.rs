//! The unpublished rest of a large commit.

use std::collections::VecDeque;
use std::vec::IntoIter;

use super::outputs::Ticket;
use crate::types::{Key, Kval, ProcId, Scope, Value, exceeds};

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
    /// The size of the next value in bytes, if its memory should be prepared before.
    pub(crate) fn next_large_bytes(&self) -> Option<u64> {
        let (_, values) = self.parts.front()?;
        let bytes = values.as_slice().first().map_or(0, |entry| plain_bytes(&entry.value));
        u64::try_from(bytes).ok().filter(|_| bytes > PIECE_BYTES_MAX)
    }

    /// The next values, of one scope or more.
    ///
    /// # Errors
    /// The key of a value with too many parts.
    pub(crate) fn take_piece(&mut self) -> Result<Vec<(Scope, Vec<Kval>)>, Key> {
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
                let Some(bytes) = size_bytes(&entry.value) else { return Err(entry.key) };
                bytes_left = bytes_left.saturating_sub(bytes);
                taken.push(entry);
            }
            piece.push((*scope, taken));
            if values.len() == 0 {
                let part = self.parts.pop_front().filter(|_| self.is_large);
                self.spent.extend(part.map(|(_, values)| values));
            }
        }
        Ok(piece)
    }
}

/// The size of a value in memory; `None`: it has too many parts.
fn size_bytes(value: &Value) -> Option<usize> {
    let mut left = STRUCTURE_BYTES_MAX;
    match plain_bytes(value) {
        0 if exceeds(value, &mut left) => None,
        0 => Some(STRUCTURE_BYTES_MAX - left),
        bytes => Some(bytes),
    }
}

/// The size of a text or byte object, which is copied as it is.
fn plain_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.as_bytes().len(),
        Value::ByteObject(bytes) | Value::CompressedString(bytes) | Value::CompressedByteObject(bytes) => bytes.len(),
        _ => 0,
    }
}

/// Number of values published in one step.
pub(crate) const PIECE_ENTRIES_MAX: usize = 256;
/// A step takes no more values after this many bytes.
const PIECE_BYTES_MAX: usize = 1 << 20;
/// Largest array that a process may post, in bytes of memory: about 60,000 numbers. Its elements are encoded one by one in
/// one step. A byte object of any size is copied as it is.
pub(crate) const STRUCTURE_BYTES_MAX: usize = 2 << 20;
