//! The keys that each commit of a process changed: its next fence must carry them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::gds::KeySets;
use crate::types::Key;

/// For each key that may leave the node, the last commit that changed it. A repeated put of a key reuses its entry, so
/// the number of keys bounds the memory.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    commits: BTreeMap<Arc<Key>, u64>,
    /// The same by commit: a fence reads only the keys that it carries. A set is small, because a large commit is cut
    /// into pieces with numbers of their own.
    by_commit: BTreeMap<u64, Arc<BTreeSet<Arc<Key>>>>,
}

impl Changes {
    /// A commit has changed a key. Its number is not below those of earlier commits.
    pub(crate) fn note(&mut self, key: Key, commit: u64) {
        let (key, before) = match self.commits.remove_entry(&key) {
            Some((key, before)) => (key, Some(before)),
            None => (Arc::new(key), None),
        };
        if let Some(before) = before
            && let Some(keys) = self.by_commit.get_mut(&before)
        {
            // A fence that has yet to read the set keeps the old one.
            Arc::make_mut(keys).remove(&key);
            if keys.is_empty() {
                self.by_commit.remove(&before);
            }
        }
        Arc::make_mut(self.by_commit.entry(commit).or_default()).insert(Arc::clone(&key));
        self.commits.insert(key, commit);
    }

    /// The keys that changed after a commit.
    pub(crate) fn since(&self, commit: u64) -> KeySets {
        let later = commit.checked_add(1).map(|first| self.by_commit.range(first..));
        later.into_iter().flatten().map(|(_, keys)| Arc::clone(keys)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &'static str) -> Key {
        Key::from_static(text)
    }

    fn names(changes: &Changes, since: u64) -> BTreeSet<String> {
        changes.since(since).iter().flat_map(|keys| keys.iter()).map(|key| key.as_str().to_owned()).collect()
    }

    fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
        names.map(str::to_owned).into()
    }

    #[test]
    fn a_fence_carries_what_changed_since() {
        let mut changes = Changes::default();
        changes.note(key("b"), 1);
        changes.note(key("a"), 2);
        changes.note(key("c"), 2);
        changes.note(key("b"), 3);
        assert_eq!(names(&changes, 0), set(["a", "b", "c"]));
        assert_eq!(names(&changes, 1), set(["a", "b", "c"]));
        assert_eq!(names(&changes, 2), set(["b"]));
        assert!(changes.since(3).is_empty() && changes.since(u64::MAX).is_empty());
    }

    #[test]
    fn keys_that_are_put_again_take_no_more_room() {
        let mut changes = Changes::default();
        for commit in 1..=1000 {
            changes.note(key("a"), commit);
            changes.note(key("b"), commit);
        }
        assert_eq!((changes.commits.len(), changes.by_commit.len()), (2, 1));
        assert_eq!(names(&changes, 999), set(["a", "b"]));
    }
}
