//! What a rank puts: values of many types and sizes that any other rank can compute for itself.

use crate::types::{Info, Key, Scope, Text, Value};

/// The values of one rank in one round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern {
    rank: u32,
    round: u32,
    size_bytes: usize,
}

impl Pattern {
    /// Of this rank, with largest values of `size_bytes`.
    pub(super) const fn of(rank: u32, round: u32, size_bytes: usize) -> Self {
        Self { rank, round, size_bytes }
    }

    /// Scope, key and value, in the order to put them.
    pub(super) fn entries(&self) -> Vec<(Scope, &'static str, Value)> {
        let seed = u64::from(self.rank) << 32 | u64::from(self.round);
        let [everyone, this_node, other_nodes] = super::SCOPES;
        vec![
            (everyone, "demo.bool", Value::Bool(seed.is_multiple_of(2))),
            (everyone, "demo.u16", Value::Uint16(u16::try_from(self.rank & 0xFFFF).unwrap_or_default())),
            (everyone, "demo.u32", Value::Uint32(self.rank.wrapping_mul(2_654_435_761).wrapping_add(self.round))),
            (everyone, "demo.u64", Value::Uint64(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))),
            (everyone, "demo.i32", Value::Int32(-i32::try_from(self.rank & 0xFFFF).unwrap_or_default())),
            (everyone, "demo.double", Value::Double(f64::from(self.rank) + 0.5)),
            (everyone, "demo.string", Value::String(Text::from(format!("rank {} round {}", self.rank, self.round)))),
            (everyone, "demo.empty", Value::ByteObject(Vec::new())),
            (everyone, "demo.bytes.8", Value::ByteObject(self.bytes(8))),
            (everyone, "demo.bytes.1024", Value::ByteObject(self.bytes(1024))),
            (everyone, "demo.bytes.max", Value::ByteObject(self.bytes(self.size_bytes))),
            (everyone, "demo.nested", self.nested()),
            (this_node, "demo.local", Value::Uint32(self.rank)),
            (other_nodes, "demo.remote", Value::Uint32(self.rank)),
        ]
    }

    fn bytes(&self, count: usize) -> Vec<u8> {
        let seed = u64::from(self.rank) << 32 | u64::from(self.round);
        let mut bytes = vec![0; count.next_multiple_of(8)];
        for (number, word) in (1_u64..).zip(bytes.chunks_exact_mut(8)) {
            // Any generator does, as long as both sides use it. Each rank makes the values of all others to check them,
            // so it had better be a cheap one, whose numbers do not wait for each other.
            word.copy_from_slice(&(seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_le_bytes());
        }
        bytes.truncate(count);
        bytes
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
    fn every_key_may_be_put_by_an_application() {
        assert!(Pattern::of(0, 0, 8).entries().iter().all(|(_, key, _)| Key::for_put(*key).is_ok()));
    }
}
