//! The values of a rank: many types and sizes, which any other rank can compute.

use modex::types::{Info, Key, Scope, Value};

/// The values of one rank in one round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern {
    rank: u32,
    round: u32,
    size_bytes: usize,
}

/// The kind of a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PatternContent {
    /// This one.
    Is(Value),
    /// This text.
    Text(String),
    /// A number of bytes. They are made on demand; a comparison needs no copy of them.
    Bytes(usize),
}

impl Pattern {
    /// The pattern of this rank, with largest values of `size_bytes`.
    pub(super) const fn of(rank: u32, round: u32, size_bytes: usize) -> Self {
        Self { rank, round, size_bytes }
    }

    /// Scope, key and content, in the order to put them.
    pub(super) fn entries(&self) -> [(Scope, &'static str, PatternContent); VALUE_COUNT] {
        use PatternContent::{Bytes, Is, Text};
        let seed = self.seed();
        let [everyone, this_node, other_nodes] = super::SCOPES;
        [
            (everyone, "demo.bool", Is(Value::Bool(seed.is_multiple_of(2)))),
            (everyone, "demo.u16", Is(Value::Uint16(u16::try_from(self.rank & 0xFFFF).unwrap_or_default()))),
            (everyone, "demo.u32", Is(Value::Uint32(self.rank.wrapping_mul(2_654_435_761).wrapping_add(self.round)))),
            (everyone, "demo.u64", Is(Value::Uint64(seed.wrapping_mul(STEP)))),
            (everyone, "demo.i32", Is(Value::Int32(-i32::try_from(self.rank & 0xFFFF).unwrap_or_default()))),
            (everyone, "demo.double", Is(Value::Double(f64::from(self.rank) + 0.5))),
            (everyone, "demo.string", Text(format!("rank {} round {}", self.rank, self.round))),
            (everyone, "demo.empty", Bytes(0)),
            (everyone, "demo.bytes.8", Bytes(8)),
            (everyone, "demo.bytes.1024", Bytes(1024)),
            (everyone, "demo.bytes.max", Bytes(self.size_bytes)),
            (everyone, "demo.nested", Is(self.nested())),
            (this_node, "demo.local", Is(Value::Uint32(self.rank))),
            (other_nodes, "demo.remote", Is(Value::Uint32(self.rank))),
        ]
    }

    /// The values to put.
    pub(super) fn value(&self, content: PatternContent) -> Value {
        match content {
            PatternContent::Is(value) => value,
            PatternContent::Text(text) => Value::String(text.into()),
            PatternContent::Bytes(count) => {
                let mut bytes: Vec<u8> = self.words().take(count.div_ceil(8)).flat_map(u64::to_le_bytes).collect();
                bytes.truncate(count);
                Value::ByteObject(bytes)
            }
        }
    }

    /// Whether these are the bytes of a value of this size.
    pub(super) fn has_bytes(&self, count: usize, found: &[u8]) -> bool {
        let (whole, rest) = found.as_chunks();
        let mut words = self.words();
        // The loop compares all words without a branch for each: nearly always they are all right.
        let difference =
            whole.iter().zip(&mut words).fold(0, |sum, (&found, word)| sum | (u64::from_le_bytes(found) ^ word));
        found.len() == count && difference == 0 && words.next().is_some_and(|word| word.to_le_bytes().starts_with(rest))
    }

    /// The generator of a value's bytes. Any generator serves, as long as both sides use it. It must be cheap, because
    /// each rank computes the values of all others to check them.
    fn words(&self) -> impl Iterator<Item = u64> {
        let seed = self.seed();
        let mut number: u64 = 0;
        std::iter::repeat_with(move || {
            number = number.wrapping_add(STEP);
            seed ^ number
        })
    }

    fn seed(&self) -> u64 {
        u64::from(self.rank) << 32 | u64::from(self.round)
    }

    fn nested(&self) -> Value {
        Value::info_array(vec![
            Info::new(Key::from_static("demo.endpoint"), format!("10.0.0.{}", self.rank % 256)),
            Info::new(
                Key::from_static("demo.ports"),
                Value::info_array(vec![Info::new(Key::from_static("demo.port"), Value::Uint32(self.rank))]),
            ),
        ])
    }
}

/// Values that each rank puts in a round.
pub(super) const VALUE_COUNT: usize = 14;

/// An odd number with its bits well mixed.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ranks_put_different_values_and_one_rank_always_the_same() {
        let entries = Pattern::of(1, 0, 64).entries();
        assert_eq!(entries, Pattern::of(1, 0, 64).entries());
        assert_ne!(entries, Pattern::of(2, 0, 64).entries());
        assert_ne!(entries, Pattern::of(1, 1, 64).entries());
    }

    #[test]
    fn bytes_are_known_again_and_others_are_not() {
        let pattern = Pattern::of(3, 1, 0);
        for count in [0, 1, 7, 8, 9, 4096] {
            let Value::ByteObject(mut bytes) = pattern.value(PatternContent::Bytes(count)) else {
                panic!("bytes are meant")
            };
            assert!(bytes.len() == count && pattern.has_bytes(count, &bytes));
            assert!(!pattern.has_bytes(count + 1, &bytes));
            if let Some(last) = bytes.last_mut() {
                *last ^= 1;
                assert!(!pattern.has_bytes(count, &bytes));
            }
        }
    }

    #[test]
    fn every_key_may_be_put_by_an_application() {
        assert!(Pattern::of(0, 0, 8).entries().iter().all(|(_, key, _)| Key::for_put(*key).is_ok()));
    }
}
