//! The identity of a state: a hash of the core's `Debug` text.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt::{self, Debug, Write};
use std::hash::{Hash, Hasher};

/// A hash of a value's `Debug` text, with names numbered by their first mention and without counters.
pub(super) fn fingerprint(value: &impl Debug) -> u64 {
    let mut text = Canonical::default();
    write!(text, "{value:?}").unwrap();
    let mut hasher = DefaultHasher::new();
    text.text.hash(&mut hasher);
    hasher.finish()
}

/// Takes the text in the pieces of derived code: names, punctuation and numbers separately.
#[derive(Default)]
struct Canonical {
    text: String,
    state: Expected,
    seen: BTreeMap<(usize, u64), usize>,
}

#[derive(Clone, Copy, Default)]
enum Expected {
    #[default]
    Anything,
    /// The bracket after a name, then its number.
    Bracket(usize),
    Number(usize),
    /// A number of pieces, then a number that only counts.
    Counter(usize),
}

impl Write for Canonical {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        // A tuple is a structure without a name.
        if piece.is_empty() {
            return Ok(());
        }
        let number = || piece.parse::<u64>().ok();
        match self.state {
            Expected::Bracket(name) if piece == "(" => self.state = Expected::Number(name),
            Expected::Number(name) => {
                self.state = Expected::Anything;
                if let Some(number) = number() {
                    let next = self.seen.len();
                    let number = *self.seen.entry((name, number)).or_insert(next);
                    return write!(self.text, "{number}");
                }
            }
            Expected::Counter(0) => {
                self.state = Expected::Anything;
                if number().is_some() {
                    return Ok(());
                }
            }
            Expected::Counter(left) => self.state = Expected::Counter(left - 1),
            // The first letter excludes most pieces.
            _ if !piece.as_bytes().first().is_some_and(|first| b"PUOTlrmos".contains(first)) => {
                self.state = Expected::Anything;
            }
            Expected::Anything | Expected::Bracket(_) => {
                let name = NAMES.iter().position(|name| *name == piece).map(Expected::Bracket);
                let counter = || COUNTERS.iter().find(|(name, _)| *name == piece).map(|(_, n)| Expected::Counter(*n));
                self.state = name.or_else(counter).unwrap_or_default();
            }
        }
        self.text.push_str(piece);
        Ok(())
    }
}

const NAMES: [&str; 5] = ["PeerId", "UpcallId", "OperationId", "Tag", "Time"];
/// Each with the number of pieces between it and its value: a colon, brackets, and the name of a type. The time of a
/// begin is shown to people, and no rule depends on it.
const COUNTERS: [(&str, usize); 7] =
    [("last", 1), ("last_index", 1), ("revision", 1), ("last_number", 1), ("members", 4), ("opened", 3), ("since", 3)];

#[test]
fn names_and_counters_make_no_difference_and_everything_else_does() {
    use crate::server::PeerId;

    #[derive(Debug)]
    #[expect(dead_code, reason = "it is for Debug to read")]
    struct Sample {
        last: u64,
        members: Option<(u64, Vec<PeerId>)>,
        count: u64,
    }
    let of = |last, revision, peers: [u64; 2], count| {
        let peers = peers.into_iter().map(PeerId).collect();
        fingerprint(&Sample { last, members: Some((revision, peers)), count })
    };
    let first = of(1, 1, [4, 7], 3);
    assert_eq!(first, of(9, 12, [1, 2], 3));
    assert_ne!(first, of(1, 1, [4, 4], 3));
    assert_ne!(first, of(1, 1, [4, 7], 4));
}
