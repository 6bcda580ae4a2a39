//! The keys that each commit of a process changed: its next fence must carry them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::commit_rest::{PIECE_ENTRIES_MAX, STEP_ENTRIES_MAX};
use crate::gds::KeySets;
use crate::types::Key;

/// The last change of each key that may leave the node. A repeated put of a key reuses its entry, so the number of keys
/// bounds the memory.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The number of the set that has a key.
    sets: BTreeMap<Arc<Key>, u64>,
    /// The same by set: a fence reads only the keys that it carries. A set has the number of its first commit.
    by_set: BTreeMap<u64, KeySet>,
}

/// Keys that one commit changed. A large commit is cut into pieces with numbers of their own, and many pieces have one
/// set.
#[derive(Debug, Default)]
struct KeySet {
    /// The last of its commits.
    last: u64,
    keys: Arc<BTreeSet<Arc<Key>>>,
}

/// Largest number of keys of a set that takes another piece. A full set has about as many keys as a piece may have.
const SET_KEYS_MAX: usize = PIECE_ENTRIES_MAX - STEP_ENTRIES_MAX;

impl Changes {
    /// A commit has changed these keys. Its number is above those of earlier commits. If it goes on with the commit
    /// before it, its keys may join that one's set.
    pub(crate) fn note(&mut self, keys: impl IntoIterator<Item = Key>, commit: u64, goes_on: bool) {
        let newest = self.by_set.last_entry().filter(|_| goes_on);
        let joined = newest.filter(|set| set.get().last.saturating_add(1) == commit && set.get().takes_more());
        let number = joined.map_or(commit, |mut set| {
            set.get_mut().last = commit;
            *set.key()
        });
        for key in keys {
            self.move_key(key, number, commit);
        }
    }

    fn move_key(&mut self, key: Key, number: u64, commit: u64) {
        let (key, before) = match self.sets.remove_entry(&key) {
            Some((key, before)) => (key, Some(before)),
            None => (Arc::new(key), None),
        };
        if let Some(before) = before.filter(|before| *before != number)
            && let Some(set) = self.by_set.get_mut(&before)
        {
            // A fence that has yet to read the set keeps the old one.
            Arc::make_mut(&mut set.keys).remove(&key);
            if set.keys.is_empty() {
                self.by_set.remove(&before);
            }
        }
        let set = self.by_set.entry(number).or_insert_with(|| KeySet { last: commit, ..KeySet::default() });
        Arc::make_mut(&mut set.keys).insert(Arc::clone(&key));
        self.sets.insert(key, number);
    }

    /// The keys that changed after a commit. If that is a piece in the middle of a large commit, earlier pieces may
    /// come again.
    pub(crate) fn since(&self, commit: u64) -> KeySets {
        let later = self.by_set.values().rev().take_while(|set| set.last > commit);
        later.map(|set| Arc::clone(&set.keys)).collect()
    }
}

impl KeySet {
    fn takes_more(&self) -> bool {
        self.keys.len() <= SET_KEYS_MAX
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

    fn note<const N: usize>(changes: &mut Changes, names: [&'static str; N], commit: u64) {
        changes.note(names.map(key), commit, false);
    }

    #[test]
    fn a_fence_carries_what_changed_since() {
        let mut changes = Changes::default();
        note(&mut changes, ["b"], 1);
        note(&mut changes, ["a", "c"], 2);
        note(&mut changes, ["b"], 3);
        assert_eq!(names(&changes, 0), set(["a", "b", "c"]));
        assert_eq!(names(&changes, 1), set(["a", "b", "c"]));
        assert_eq!(names(&changes, 2), set(["b"]));
        assert!(changes.since(3).is_empty() && changes.since(u64::MAX).is_empty());
    }

    #[test]
    fn keys_that_are_put_again_take_no_more_room() {
        let mut changes = Changes::default();
        for commit in 1..=1000 {
            note(&mut changes, ["a", "b"], commit);
        }
        assert_eq!((changes.sets.len(), changes.by_set.len()), (2, 1));
        assert_eq!(names(&changes, 999), set(["a", "b"]));
    }

    /// The keys of the pieces of one commit after another, which starts with this number.
    fn note_pieces(changes: &mut Changes, first: u64, pieces: u64) {
        for piece in 0..pieces {
            let keys = (0..32).map(|index| Key::new(format!("{piece}-{index}")).unwrap());
            changes.note(keys, first + piece, piece > 0);
        }
    }

    #[test]
    fn pieces_of_one_commit_share_sets() {
        let mut changes = Changes::default();
        note(&mut changes, ["before"], 1);
        note_pieces(&mut changes, 2, 64);
        note(&mut changes, ["after"], 66);
        // Eight pieces fill a set.
        assert_eq!(changes.since(1).len(), 8 + 1);
        assert_eq!(names(&changes, 1).len(), 64 * 32 + 1);
        assert_eq!(names(&changes, 65), set(["after"]));
        note_pieces(&mut changes, 67, 64);
        assert_eq!(changes.since(0).len(), 1 + 1 + 8);
    }

    #[test]
    fn a_fence_amid_a_commit_loses_no_key() {
        for begun in 2..66 {
            let mut changes = Changes::default();
            note(&mut changes, ["before"], 1);
            note_pieces(&mut changes, 2, 64);
            let later = names(&changes, begun);
            let missing = (begun - 1..64).find(|piece| !later.contains(&format!("{piece}-0")));
            assert_eq!(missing, None, "after commit {begun}");
            assert!(!later.contains("before"));
        }
    }

    #[test]
    fn a_piece_never_joins_the_set_of_an_earlier_commit() {
        let mut changes = Changes::default();
        changes.note([key("a")], 1, false);
        changes.note([key("b")], 3, true);
        assert_eq!(names(&changes, 1), set(["b"]));
    }
}
