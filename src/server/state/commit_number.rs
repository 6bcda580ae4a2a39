//! The number of the commit that values between servers include.

use crate::proto::blob::COMMIT_NUMBER;
use crate::types::Kval;

/// Flag in the number of a commit: the values are complete, not only the changes. Set if another server may have missed
/// a fence.
pub(crate) const EVERYTHING: u64 = 1 << 63;

/// The commit that values include, and whether they are all the process's values up to it.
pub(crate) fn split_number(number: Option<u64>) -> (Option<u64>, bool) {
    (number.map(|number| number & !EVERYTHING), number.is_some_and(|number| number & EVERYTHING != 0))
}

/// Removes the number from the values of another server; those of other libraries have none.
pub(crate) fn take_commit_number(entries: &mut Vec<Kval>) -> Option<u64> {
    let place = entries.iter().position(|entry| entry.key == COMMIT_NUMBER)?;
    entries.remove(place).value.as_u64()
}
