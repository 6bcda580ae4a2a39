//! Keys of the standard without a copy of their text.
//!
//! A host describes a large job in millions of infos under a few keys. The names lie in the attribute table, but a
//! lookup there costs more than a copy. So each thread remembers its latest keys.

use std::cell::Cell;

use modex::keys;
use modex::types::{Key, KeyError};

/// Names remembered by each thread. A power of two.
const REMEMBERED: usize = 64;

thread_local! {
    /// Nothing here needs to be dropped, so a thread may still use it while it ends.
    static RECENT: [Cell<&'static str>; REMEMBERED] = const { [const { Cell::new("") }; REMEMBERED] };
}

/// The key with this text.
///
/// # Errors
/// As [`Key::from_bytes`].
pub(super) fn key(text: &[u8]) -> Result<Key, KeyError> {
    // Only the standard's keys are in the table.
    if !text.starts_with(b"pmix") {
        return Key::from_bytes(text);
    }
    let known = RECENT.with(|recent| {
        let place = recent.get(place_of(text))?;
        if place.get().as_bytes() == text {
            return Some(place.get());
        }
        let name = keys::by_name(std::str::from_utf8(text).ok()?)?.name;
        place.set(name);
        Some(name)
    });
    known.map_or_else(|| Key::from_bytes(text), |name| Ok(Key::from_static(name)))
}

/// Keys differ at their end, rarely at their beginning.
fn place_of(text: &[u8]) -> usize {
    let mix = |sum: usize, byte: &u8| sum.wrapping_mul(31).wrapping_add(usize::from(*byte));
    text.iter().rev().take(6).fold(text.len(), mix) % REMEMBERED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_same_seen_first_or_again_known_or_not() {
        for text in
            ["pmix.rank", "pmix.rank", "pmix.no.such.key", "pmix.no.such.key", "mine", "pmix.appnum", "pmix.rank"]
        {
            assert_eq!(key(text.as_bytes()).unwrap().as_str(), text);
        }
        assert_eq!(key(b""), Err(KeyError::Empty));
        assert_eq!(key(b"pmix.\xff"), Err(KeyError::InvalidByte { position: 5 }));
    }

    #[test]
    fn every_key_of_the_table_is_found_whatever_was_there_before() {
        for attribute in keys::attributes() {
            assert_eq!(key(attribute.name.as_bytes()).unwrap().as_str(), attribute.name);
        }
    }
}
