//! The unpublished rest of a large commit.

use std::collections::VecDeque;
use std::vec::IntoIter;

use super::outputs::Ticket;
use crate::types::{Key, Kval, ProcId, Scope, Value, descend, footprint};

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
        let next = self.parts.iter().find_map(|(_, values)| values.as_slice().first());
        let bytes = next.map_or(0, |entry| plain_bytes(&entry.value));
        u64::try_from(bytes).ok().filter(|_| bytes > PIECE_BYTES_MAX)
    }

    /// The next values, of one scope or more. A large value is the first of its piece, so that its memory is prepared.
    ///
    /// # Errors
    /// The key of the next value, if that has too many parts.
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
                && let Some(next) = values.as_slice().first()
            {
                let cost_bytes = cost_bytes(&next.value);
                if count_left < PIECE_ENTRIES_MAX && cost_bytes.is_none_or(|bytes| bytes > PIECE_BYTES_MAX) {
                    bytes_left = 0;
                    break;
                }
                let Some(entry) = values.next() else { break };
                let Some(cost_bytes) = cost_bytes else {
                    let key = entry.key.clone();
                    self.spent.push(vec![entry].into_iter());
                    self.is_large = true;
                    return Err(key);
                };
                count_left -= 1;
                bytes_left = bytes_left.saturating_sub(cost_bytes);
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

/// The cost of storing a value, as the bytes that are copied in this time; `None`: it has too many parts.
fn cost_bytes(value: &Value) -> Option<usize> {
    let mut left = PARTS_MAX;
    if has_more_parts(value, &mut left) {
        return None;
    }
    let parts = PARTS_MAX.saturating_sub(left);
    Some(footprint(value).unwrap_or(PIECE_BYTES_MAX).saturating_add(parts.saturating_mul(PART_COST_BYTES)))
}

/// Subtracts the number of a value's parts from `left`. Returns whether it has more. Visits no more parts then.
fn has_more_parts(value: &Value, left: &mut usize) -> bool {
    let count = match value {
        Value::App(app) => app.argv.len().saturating_add(app.environment.len()).saturating_add(app.info.len()),
        Value::Query(query) => query.keys.len().saturating_add(query.qualifiers.len()),
        _ => 1,
    };
    let Some(rest) = left.checked_sub(count.max(1)) else { return true };
    *left = rest;
    descend(|| match value {
        Value::DataArray(array) => array.elements.iter().any(|element| has_more_parts(element, left)),
        Value::Value(inner) => has_more_parts(inner, left),
        Value::Info(info) => has_more_parts(&info.value, left),
        Value::Kval(kval) => has_more_parts(&kval.value, left),
        Value::Pdata(pdata) => has_more_parts(&pdata.value, left),
        Value::App(app) => app.info.iter().any(|info| has_more_parts(&info.value, left)),
        Value::Query(query) => query.qualifiers.iter().any(|info| has_more_parts(&info.value, left)),
        _ => false,
    })
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
/// Largest number of parts of a posted value: an array and its 32,768 elements, for example. They are encoded one by one in one step.
pub(crate) const PARTS_MAX: usize = 1 + (1 << 15);
/// Bytes that are copied in the time in which a part is encoded, about 130 ns.
const PART_COST_BYTES: usize = 256;
