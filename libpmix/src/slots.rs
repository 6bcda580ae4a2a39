//! The `cbdata` of hosts: a number, never an address.
//!
//! A host may answer twice, or after its server has ended, or with a `cbdata` of its own making. Such a number names no
//! slot, so the only effect is a log message.

use super::types::c_void;

/// Entries that are taken by number.
#[derive(Debug)]
pub(super) struct Slots<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
}

/// The number of an entry: its place, and the count of earlier entries there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    index: u32,
    generation: u32,
}

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    content: Option<T>,
}

impl Token {
    /// The form for C; never NULL.
    pub(super) fn to_pointer(self) -> *mut c_void {
        let number = (u64::from(self.generation) << INDEX_BITS) | (u64::from(self.index) + 1);
        std::ptr::without_provenance_mut(usize::try_from(number).unwrap_or(0))
    }

    /// The token in a pointer from C; `None` if it can be no token.
    pub(super) fn from_pointer(pointer: *mut c_void) -> Option<Self> {
        let number = u64::try_from(pointer.addr()).ok()?;
        let index = u32::try_from(number & INDEX_MASK).ok()?.checked_sub(1)?;
        Some(Self { index, generation: u32::try_from(number >> INDEX_BITS).ok()? })
    }
}

impl<T> Slots<T> {
    pub(super) const fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }

    pub(super) fn insert(&mut self, content: T) -> Token {
        if let Some(index) = self.free.pop()
            && let Some(entry) = self.entries.get_mut(index as usize)
        {
            entry.content = Some(content);
            return Token { index, generation: entry.generation };
        }
        let index = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        self.entries.push(Entry { generation: 0, content: Some(content) });
        Token { index, generation: 0 }
    }

    /// Takes an entry out; `None` if it was taken before, or the number is unknown.
    pub(super) fn take(&mut self, token: Token) -> Option<T> {
        let entry = self.entries.get_mut(token.index as usize)?;
        if entry.generation != token.generation {
            return None;
        }
        let content = entry.content.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(token.index);
        Some(content)
    }

    pub(super) fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        let entry = self.entries.get_mut(token.index as usize)?;
        if entry.generation == token.generation { entry.content.as_mut() } else { None }
    }

    /// Takes out the entries that fit; their numbers are void.
    pub(super) fn take_if(&mut self, fits: impl Fn(&T) -> bool) -> Vec<T> {
        let mut contents = Vec::new();
        for (index, entry) in (0..).zip(&mut self.entries) {
            if let Some(content) = entry.content.take_if(|content| fits(content)) {
                entry.generation = entry.generation.wrapping_add(1);
                self.free.push(index);
                contents.push(content);
            }
        }
        contents
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().filter_map(|entry| entry.content.as_mut())
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.iter().filter(|entry| entry.content.is_some()).count()
    }
}

const INDEX_BITS: u32 = 32;
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_takes_its_value_once() {
        let mut slots = Slots::new();
        let token = slots.insert("answer");
        assert_eq!(slots.take(token), Some("answer"));
        assert_eq!(slots.take(token), None);
    }

    #[test]
    fn an_old_number_does_not_name_who_came_after() {
        let mut slots = Slots::new();
        let old = slots.insert(1);
        slots.take(old);
        let new = slots.insert(2);
        assert_eq!((old.index, slots.take(old)), (new.index, None));
        assert_eq!(slots.take(new), Some(2));
        assert_eq!(slots.len(), 0);
    }

    #[test]
    fn a_token_survives_being_a_pointer_and_is_never_null() {
        let mut slots = Slots::new();
        for round in 0..3 {
            let token = slots.insert(round);
            let pointer = token.to_pointer();
            assert!(!pointer.is_null());
            assert_eq!(Token::from_pointer(pointer), Some(token));
            slots.take(token);
        }
        assert_eq!(Token::from_pointer(std::ptr::null_mut()), None);
    }

    #[test]
    fn pointers_of_the_hosts_own_making_name_nothing() {
        let mut slots = Slots::new();
        slots.insert(());
        for address in [7_usize, 1 << 40, usize::MAX, 0x7fff_1234_5678] {
            let token = Token::from_pointer(std::ptr::without_provenance_mut(address));
            assert_eq!(token.and_then(|token| slots.take(token)), None, "{address:#x}");
        }
        assert_eq!(slots.len(), 1);
    }

    #[test]
    fn values_taken_by_a_condition_lose_their_tokens() {
        let mut slots = Slots::new();
        let tokens = [slots.insert(1), slots.insert(2), slots.insert(3)];
        assert_eq!(slots.take_if(|number| number % 2 == 1), [1, 3]);
        assert_eq!(tokens.map(|token| slots.take(token)), [None, Some(2), None]);
    }
}
