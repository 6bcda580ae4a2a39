//! Processes that have left groups with remote members.
//!
//! A server takes part in the end of a group when a local member requests it. After the last local member has left,
//! none does, and the host would wait for that server. So a waiting remote member that hears of the leave asks the
//! server for its part (`GROUP_AWAITED`). The server gives it once for each leave of its members, so that no unneeded
//! end begins.

use std::collections::BTreeMap;

use crate::server::interface::Limits;
use crate::types::{Namespace, ProcId, Text};

/// The groups that each local process has left and not entered again, and whether each survives deaths.
#[derive(Debug, Default)]
pub(crate) struct Leavers {
    left: BTreeMap<ProcId, BTreeMap<Text, bool>>,
    count: usize,
}

impl Leavers {
    /// A process has left a group. The note is dropped if this process, or all together, have reached the bound.
    pub(crate) fn note(&mut self, proc: &ProcId, id: &Text, survives_deaths: bool, limits: &Limits) {
        let own = self.left.get(proc).map_or(0, BTreeMap::len);
        if self.count >= limits.groups_max || own >= limits.groups_per_process_max {
            return;
        }
        if self.left.entry(proc.clone()).or_default().insert(id.clone(), survives_deaths).is_none() {
            self.count = self.count.saturating_add(1);
        }
    }

    /// Whether the group that a process has left survives deaths. `None`: it has left no group of that name.
    pub(crate) fn of(&self, proc: &ProcId, id: &Text) -> Option<bool> {
        self.left.get(proc)?.get(id).copied()
    }

    pub(crate) fn forget(&mut self, proc: &ProcId, id: &Text) {
        let Some(left) = self.left.get_mut(proc) else { return };
        if left.remove(id).is_some() {
            self.count = self.count.saturating_sub(1);
        }
        if left.is_empty() {
            self.left.remove(proc);
        }
    }

    pub(crate) fn forget_namespace(&mut self, namespace: &Namespace) {
        self.left.retain(|proc, _| proc.namespace != *namespace);
        self.count = self.left.values().map(BTreeMap::len).fold(0, usize::saturating_add);
    }

    pub(crate) fn len(&self) -> usize {
        self.left.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_leaves_many_groups_takes_no_place_from_the_others() {
        let limits = Limits { groups_max: 3, groups_per_process_max: 2, ..Limits::default() };
        let namespace = Namespace::new("job").unwrap();
        let [busy, other] = [0, 1].map(|rank| ProcId::new(namespace.clone(), rank));
        let [a, b, c] = ["a", "b", "c"].map(Text::from);
        let mut leavers = Leavers::default();
        [&a, &b, &c].into_iter().for_each(|id| leavers.note(&busy, id, false, &limits));
        leavers.note(&other, &a, true, &limits);
        assert_eq!([&a, &b, &c].map(|id| leavers.of(&busy, id)), [Some(false), Some(false), None]);
        assert_eq!(leavers.of(&other, &a), Some(true));
        leavers.note(&other, &b, true, &limits);
        assert_eq!(leavers.of(&other, &b), None, "there are as many as there may be");
    }
}
