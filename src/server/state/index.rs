//! Indices: sets of ids by key.

use std::collections::{BTreeMap, BTreeSet};

/// Takes an id out of an index. A key without ids goes, too.
pub(super) fn take_out<K: Ord, I: Ord>(index: &mut BTreeMap<K, BTreeSet<I>>, key: &K, id: &I) {
    if let Some(ids) = index.get_mut(key) {
        ids.remove(id);
        if ids.is_empty() {
            index.remove(key);
        }
    }
}
