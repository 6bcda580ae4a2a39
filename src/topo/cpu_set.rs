//! Sets of processors, by the operating system's numbers.

use std::fmt;
use std::str::FromStr;

/// Some of the machine's processors.
///
/// ```
/// let set: modex::topo::CpuSet = "0-3,8".parse()?;
/// assert!(set.contains(2) && !set.contains(4));
/// assert_eq!(set.to_string(), "0-3,8");
/// # Ok::<(), modex::topo::CpuSetError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuSet(Vec<u64>);

/// Limit of processor numbers: more than any machine has.
pub const PROCESSORS_MAX: u32 = 1 << 16;

/// Why a text is not a set of processors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CpuSetError {
    /// The text is not a list of numbers and ranges.
    #[error("{part:?} is not a processor or a range of processors; write a list such as 0-3,8")]
    Part {
        /// The text between two commas.
        part: String,
    },
    /// A number beyond [`PROCESSORS_MAX`].
    #[error("processor {number} is beyond the highest number, {}", PROCESSORS_MAX - 1)]
    Number {
        /// The number.
        number: u32,
    },
    /// The text is not a list of hexadecimal words.
    #[error("{text:?} is not a bit mask of processors such as 0x00000003,0xffffffff")]
    Mask {
        /// The mask.
        text: String,
    },
}

impl CpuSet {
    /// An empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// From words of 64 processors each, the lowest first.
    #[must_use]
    pub fn of_words(words: &[u64]) -> Self {
        let length = words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        Self(words.iter().take(length).copied().collect())
    }

    /// From hwloc's notation: 32-bit words in hexadecimal, the highest first; an empty word is zero.
    ///
    /// # Errors
    /// [`CpuSetError::Mask`], also for infinite sets.
    pub fn of_mask(text: &str) -> Result<Self, CpuSetError> {
        let refuse = || CpuSetError::Mask { text: text.chars().take(64).collect() };
        if text.is_empty() || text.len() > MASK_BYTES_MAX {
            return Err(refuse());
        }
        let mut words = Vec::new();
        for (position, part) in text.rsplit(',').enumerate() {
            let digits = part.strip_prefix("0x").unwrap_or(part);
            let is_hexadecimal = digits.len() <= 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let value = match digits {
                "" => 0,
                digits if is_hexadecimal => u64::from_str_radix(digits, 16).map_err(|_| refuse())?,
                _ => return Err(refuse()),
            };
            match words.last_mut() {
                Some(last) if position % 2 == 1 => *last |= value << 32,
                _ => words.push(value),
            }
        }
        Ok(Self::of_words(&words))
    }

    /// The set as words of 64 processors each, the lowest first, without zeros at the end.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.0
    }

    /// Adds a processor.
    ///
    /// # Errors
    /// [`CpuSetError::Number`].
    pub fn insert(&mut self, number: u32) -> Result<(), CpuSetError> {
        if number >= PROCESSORS_MAX {
            return Err(CpuSetError::Number { number });
        }
        let index = (number / 64) as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        if let Some(word) = self.0.get_mut(index) {
            *word |= 1 << (number % 64);
        }
        Ok(())
    }

    /// Whether a processor is in the set.
    #[must_use]
    pub fn contains(&self, number: u32) -> bool {
        contains(&self.0, number)
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The processors, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        members(&self.0)
    }
}

impl FromStr for CpuSet {
    type Err = CpuSetError;

    /// From the list form, `0-3,8`; an empty text is an empty set.
    fn from_str(text: &str) -> Result<Self, CpuSetError> {
        let mut set = Self::new();
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let refuse = || CpuSetError::Part { part: part.chars().take(64).collect() };
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |digits: &str| {
                let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
                digits.parse::<u32>().ok().filter(|_| is_number)
            };
            let (first, last) = (number(first).ok_or_else(refuse)?, number(last).ok_or_else(refuse)?);
            if first > last {
                return Err(refuse());
            }
            // The highest first, so that a range is refused before it is expanded.
            set.insert(last)?;
            (first..last).try_for_each(|number| set.insert(number))?;
        }
        Ok(set)
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.iter().peekable();
        let mut comma = "";
        while let Some(first) = rest.next() {
            let mut last = first;
            while let Some(next) = rest.next_if(|next| *next == last + 1) {
                last = next;
            }
            write!(f, "{comma}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

pub(super) fn contains(words: &[u64], number: u32) -> bool {
    words.get((number / 64) as usize).is_some_and(|word| word >> (number % 64) & 1 == 1)
}

pub(super) fn intersect(one: &[u64], other: &[u64]) -> bool {
    one.iter().zip(other).any(|(one, other)| one & other != 0)
}

/// Whether all of `one` is in `other`.
pub(super) fn is_within(one: &[u64], other: &[u64]) -> bool {
    let padded = other.iter().chain(std::iter::repeat(&0));
    one.iter().zip(padded).all(|(one, other)| one & !other == 0)
}

pub(super) fn members(words: &[u64]) -> impl Iterator<Item = u32> + '_ {
    (0_u32..).step_by(64).zip(words).flat_map(|(base, word)| {
        let mut rest = *word;
        std::iter::from_fn(move || {
            let bit = rest.trailing_zeros();
            rest &= rest.checked_sub(1)?;
            Some(base + bit)
        })
    })
}

/// Limit of a mask's text: more than [`PROCESSORS_MAX`] processors take.
const MASK_BYTES_MAX: usize = (PROCESSORS_MAX / 32 * 11) as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_masks_are_two_forms_of_a_set() {
        let list = "0-3,8,64-65,127-128";
        let set: CpuSet = list.parse().unwrap();
        assert_eq!(set.to_string(), list);
        assert_eq!(CpuSet::of_mask("0x3,,0x0000010f").unwrap().to_string(), "0-3,8,64-65");
        assert_eq!(("".parse(), CpuSet::of_mask("0x0")), (Ok(CpuSet::new()), Ok(CpuSet::new())));
    }

    #[test]
    fn a_malformed_processor_set_is_refused() {
        for text in ["a", "1-", "-1", "3-1", "1,,2", "+1", "1-2-3", "4294967296"] {
            assert!(matches!(text.parse::<CpuSet>(), Err(CpuSetError::Part { .. })), "{text}");
        }
        assert_eq!("0-70000".parse::<CpuSet>(), Err(CpuSetError::Number { number: 70000 }));
        for text in ["", "0xf...f", "0x123456789", "0xg", "0x+1"] {
            assert!(matches!(CpuSet::of_mask(text), Err(CpuSetError::Mask { .. })), "{text}");
        }
    }

    #[test]
    fn sets_of_different_lengths_are_compared() {
        let words = |text: &str| text.parse::<CpuSet>().unwrap().words().to_vec();
        assert!(is_within(&words("1"), &words("0-70")) && !is_within(&words("70"), &words("0-63")));
        assert!(intersect(&words("1,70"), &words("1")) && !intersect(&words("70"), &words("6")));
        assert_eq!(members(&words("0,63,64")).collect::<Vec<_>>(), [0, 63, 64]);
    }
}
