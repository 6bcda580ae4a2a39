//! Values of consecutive processes from rank 0 on, which is how nearly every host gives them.

use super::coerce::RecordCell;

/// The values of the first indexes, in little memory.
#[derive(Debug)]
pub(super) enum Front<'a> {
    /// Numbers of the key's own type.
    Numbers(Vec<u64>),
    /// One value, and the number of indexes that have it.
    Same(RecordCell<'a>, u32),
}

impl<'a> Front<'a> {
    pub(super) const fn empty() -> Self {
        Self::Numbers(Vec::new())
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Same(_, count) => usize::try_from(*count).unwrap_or(usize::MAX),
        }
    }

    /// Takes the value of the next index; returns it if it does not fit the others.
    pub(super) fn take(&mut self, cell: RecordCell<'a>) -> Result<(), RecordCell<'a>> {
        match (self, cell) {
            (Self::Numbers(numbers), RecordCell::Number(number)) => numbers.push(number),
            (front @ Self::Numbers(_), cell) if front.len() == 0 && cell.is_exact() => *front = Self::Same(cell, 1),
            (Self::Same(same, count), cell) if *same == cell => *count += 1,
            (_, cell) => return Err(cell),
        }
        Ok(())
    }

    /// Each index with its value.
    pub(super) fn into_entries(self) -> Vec<(u32, RecordCell<'a>)> {
        match self {
            Self::Numbers(numbers) => (0..).zip(numbers.into_iter().map(RecordCell::Number)).collect(),
            Self::Same(cell, count) => (0..count).map(|index| (index, cell.clone())).collect(),
        }
    }
}
