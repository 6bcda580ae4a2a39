//! Decimal numbers and ranges in maps.

use std::iter::repeat_n;

use super::error::{Excerpt, MapError};

/// Reads `number` or `number-number`; a single number is a range of one. `node` is for the error.
///
/// # Errors
/// If a part is not a number, does not fit 64 bits, or the range counts down.
pub(super) fn parse_range(text: &str, node: u32) -> Result<(u64, u64), MapError> {
    let Some((first, last)) = text.split_once('-') else {
        let number = parse_number(text, node)?;
        return Ok((number, number));
    };
    let (first, last) = (parse_number(first, node)?, parse_number(last, node)?);
    if first > last {
        return Err(MapError::ReversedRange { node, first, last });
    }
    Ok((first, last))
}

/// Splits the first `number` or `number-number` off a list with commas; returns it and the list behind its comma. A map
/// of a million ranks has a million of them, so short plain numbers have a fast path. `node` is for the error.
///
/// # Errors
/// As [`parse_range`].
pub(super) fn split_range(list: &str, node: u32) -> Result<((u64, u64), Option<&str>), MapError> {
    let digits = list.bytes().take(SHORT_DIGITS_MAX).take_while(u8::is_ascii_digit);
    let (number, len) = digits.fold((0_u64, 0_usize), |(number, len), digit| {
        // This few digits cannot overflow.
        (number.wrapping_mul(10).wrapping_add(u64::from(digit & 0xF)), len + 1)
    });
    match list.as_bytes().get(len) {
        None if len > 0 => return Ok(((number, number), None)),
        Some(b',') if len > 0 => return Ok(((number, number), list.get(len + 1..))),
        _ => {}
    }
    let (range, rest) = match list.split_once(',') {
        Some((range, rest)) => (range, Some(rest)),
        None => (list, None),
    };
    Ok((parse_range(range, node)?, rest))
}

/// Digits of a number that certainly fits 64 bits.
const SHORT_DIGITS_MAX: usize = 18;

/// Reads a number of decimal digits only; `node` is for the error.
///
/// # Errors
/// If `text` is empty, holds anything but digits (a sign included), or does not fit 64 bits.
pub(super) fn parse_number(text: &str, node: u32) -> Result<u64, MapError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(MapError::NotANumber { node, text: Excerpt::of(text) });
    }
    text.parse().map_err(|_| MapError::NumberOverflow { node, text: Excerpt::of(text) })
}

/// Appends `number`, padded with zeros to at least `width` digits.
pub(super) fn push_padded(out: &mut String, number: u64, width: u32) {
    // Padded manually: the width of a format string must be below 65536, and this one comes from a peer.
    let digits = number.checked_ilog10().map_or(1, |log| log + 1);
    let zeros = usize::try_from(width.saturating_sub(digits)).unwrap_or(usize::MAX);
    out.extend(repeat_n('0', zeros));
    push_number(out, number);
}

/// Appends `number`.
pub(super) fn push_number(out: &mut String, number: u64) {
    // Digits are UTF-8.
    out.push_str(std::str::from_utf8(Digits::of(number).as_bytes()).unwrap_or_default());
}

/// The digits of a number, incremented in place. The rank lists of large jobs have a million numbers, so formatting
/// each would be slow.
pub(super) struct Digits {
    digits: [u8; DIGITS_MAX],
    first: usize,
}

impl Digits {
    pub(super) fn of(mut number: u64) -> Self {
        let (mut digits, mut first) = ([b'0'; DIGITS_MAX], DIGITS_MAX);
        for (at, digit) in digits.iter_mut().enumerate().rev() {
            *digit = b'0' + u8::try_from(number % 10).unwrap_or_default();
            number /= 10;
            first = at;
            if number == 0 {
                break;
            }
        }
        Self { digits, first }
    }

    /// Increments the number.
    pub(super) fn count_up(&mut self) {
        for (at, digit) in self.digits.iter_mut().enumerate().rev() {
            if *digit != b'9' {
                *digit += 1;
                self.first = self.first.min(at);
                return;
            }
            *digit = b'0';
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.digits.get(self.first..).unwrap_or_default()
    }
}

/// Digits of the largest number.
const DIGITS_MAX: usize = 20;

/// Appends `first-last`, or `first` alone if they are equal.
pub(super) fn push_range(out: &mut String, first: u64, last: u64) {
    push_number(out, first);
    if last != first {
        out.push('-');
        push_number(out, last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_written_as_everywhere(number in prop_oneof![any::<u64>(), 0_u64..1000, Just(u64::MAX)]) {
            let mut text = String::from("a");
            push_number(&mut text, number);
            prop_assert_eq!(text, format!("a{number}"));
        }

        #[test]
        fn digits_count_as_numbers_do(
            number in prop_oneof![0..u64::MAX, 0_u64..1000, (0_u32..19).prop_map(|zeros| 10_u64.pow(zeros) - 1)],
        ) {
            let mut digits = Digits::of(number);
            digits.count_up();
            let next = (number + 1).to_string();
            prop_assert_eq!(digits.as_bytes(), next.as_bytes());
        }

        #[test]
        fn a_range_is_split_off_as_if_the_list_were_split_first(
            list in prop_oneof!["[0-9]{0,21}([,-][0-9x]{0,3}){0,4}", "[0-9,;x-]{0,30}"],
        ) {
            let (range, rest) = list.split_once(',').map_or((list.as_str(), None), |(range, rest)| (range, Some(rest)));
            let expected = parse_range(range, 7).map(|range| (range, rest));
            prop_assert_eq!(split_range(&list, 7), expected);
        }
    }
}
