//! The machine's limit: the least time of a Get by name from a table in memory.

use std::hint::black_box;

const KEY_BYTES: usize = 48;

/// A table of `SLOTS` slots with half as many named values, and the names to look for. A table of 256 slots fits the
/// first-level cache.
///
/// One probe picks a name at random, hashes it byte by byte, looks for it with open addressing, compares the text and
/// reads a number. There are no bounds checks, no missing entries and no changes.
#[derive(Debug)]
pub(super) struct HashProbe<const SLOTS: usize> {
    slots: Box<[Slot; SLOTS]>,
    names: Box<[[u8; KEY_BYTES]]>,
    random: u64,
}

/// Slots of the table that fits the first-level cache.
pub(super) const L1_SLOTS: usize = 256;
/// Slots of a table of a million names.
pub(super) const LARGE_SLOTS: usize = 1 << 21;

#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u64,
    name: [u8; KEY_BYTES],
    value: [u64; 2],
}

impl<const SLOTS: usize> HashProbe<SLOTS> {
    const KEY_COUNT: usize = SLOTS / 2;

    /// A full table; `None` if there is no such array.
    pub(super) fn new() -> Option<Self> {
        let empty = Slot { hash: 0, name: [0; KEY_BYTES], value: [0; 2] };
        let slots = vec![empty; SLOTS].into_boxed_slice().try_into().ok()?;
        let names = vec![[0; KEY_BYTES]; Self::KEY_COUNT].into_boxed_slice();
        let mut probe = Self { slots, names, random: 88_172_645_463_325_252 };
        for number in 0..Self::KEY_COUNT {
            probe.insert(number);
        }
        Some(probe)
    }

    fn insert(&mut self, number: usize) {
        let text = format!("pmix.key.{number}");
        let mut name = [0; KEY_BYTES];
        name.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
        let hash = hash(&name);
        let mut at = Self::index(hash);
        // At most half of the slots are ever taken.
        while self.slots.get(at).is_some_and(|slot| slot.hash != 0) {
            at = (at + 1) % SLOTS;
        }
        if let (Some(slot), Some(kept)) = (self.slots.get_mut(at), self.names.get_mut(number)) {
            *slot = Slot { hash, name, value: [u64::try_from(number).unwrap_or_default(), 0] };
            *kept = name;
        }
    }

    /// Looks a random name up.
    pub(super) fn run(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let count = black_box(u64::try_from(Self::KEY_COUNT).unwrap_or(1));
        let number = usize::try_from(self.random % count).unwrap_or_default();
        let Some(name) = self.names.get(number) else { return 0 };
        let hash = hash(name);
        let mut at = Self::index(hash);
        loop {
            let Some(slot) = self.slots.get(at) else { return 0 };
            // Names end in zeros, so equal arrays are equal names. This comparison is cheaper than one that stops at
            // the first zero.
            if slot.hash == hash && slot.name == *name {
                return slot.value[0];
            }
            at = (at + 1) % SLOTS;
        }
    }

    fn index(hash: u64) -> usize {
        usize::try_from(hash).unwrap_or_default() % SLOTS
    }
}

/// FNV-1a up to the NUL.
fn hash(name: &[u8; KEY_BYTES]) -> u64 {
    let mut hash = 1_469_598_103_934_665_603_u64;
    for &byte in name.iter().take_while(|byte| **byte != 0) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(1_099_511_628_211);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_with_its_value() {
        let mut probe = HashProbe::<L1_SLOTS>::new().unwrap();
        let mut found = [false; L1_SLOTS / 2];
        for _ in 0..10_000 {
            found[usize::try_from(probe.run()).unwrap()] = true;
        }
        assert!(found.iter().all(|found| *found));
    }
}
