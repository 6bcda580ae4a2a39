/// A list of numbers for each of `0..count`, in one piece of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Groups {
    /// The end of each list in `members`.
    ends: Vec<u32>,
    members: Vec<u32>,
}

impl Groups {
    /// Collects pairs of a list's number and a member. Each list keeps the order of the pairs. A pair of a list that
    /// does not exist is left out; the callers have checked their numbers.
    pub(super) fn new(count: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut ends = vec![0_u32; count];
        for (list, _) in pairs.clone() {
            if let Some(size) = ends.get_mut(list as usize) {
                *size += 1;
            }
        }
        let mut total = 0;
        let mut places = Vec::with_capacity(count);
        for end in &mut ends {
            places.push(total);
            total += *end;
            *end = total;
        }
        let mut members = vec![0; total as usize];
        for (list, member) in pairs {
            let Some(place) = places.get_mut(list as usize) else { continue };
            if let Some(slot) = members.get_mut(*place as usize) {
                *slot = member;
            }
            *place += 1;
        }
        Self { ends, members }
    }

    /// The length of the longest list.
    pub(super) fn longest(&self) -> u32 {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(start, end)| end - start).max().unwrap_or_default()
    }

    /// The members of a list; none for a number without a list.
    pub(super) fn of(&self, list: u32) -> &[u32] {
        let end = |list: u32| self.ends.get(list as usize).map(|&end| end as usize);
        let start = list.checked_sub(1).map_or(Some(0), end);
        let range = start.zip(end(list)).map(|(start, end)| start..end);
        range.and_then(|range| self.members.get(range)).unwrap_or_default()
    }
}
