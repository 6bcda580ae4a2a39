//! Decimal numbers and ranges as maps write them.

use std::fmt::Write as _;
use std::iter::repeat_n;

use super::error::{Excerpt, MapError};

/// Reads `number` or `number-number`; a single number is a range of one. `node` is for the error.
///
/// # Errors
/// If a part is no number, does not fit 64 bits, or the range counts down.
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

/// Reads a number of decimal digits only; `node` is for the error.
///
/// # Errors
/// If `text` is empty, holds anything but digits (a sign included), or does not fit 64 bits.
pub(super) fn parse_number(text: &str, node: u32) -> Result<u64, MapError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(MapError::NotANumber {
            node,
            text: Excerpt::of(text),
        });
    }
    text.parse().map_err(|_| MapError::NumberOverflow {
        node,
        text: Excerpt::of(text),
    })
}

/// Appends `number`, padded with zeros to at least `width` digits.
pub(super) fn push_padded(out: &mut String, number: u64, width: u32) {
    // Padded by hand: the width of a format string must stay below 65536, and this one comes from a peer.
    let digits = number.checked_ilog10().map_or(1, |log| log + 1);
    let zeros = usize::try_from(width.saturating_sub(digits)).unwrap_or(usize::MAX);
    out.extend(repeat_n('0', zeros));
    push_number(out, number);
}

/// Appends `number`.
pub(super) fn push_number(out: &mut String, number: u64) {
    // Writing into a String cannot fail: there is no error to hand on.
    let _ = write!(out, "{number}");
}

/// Appends `first-last`, or `first` alone if they are equal.
pub(super) fn push_range(out: &mut String, first: u64, last: u64) {
    push_number(out, first);
    if last != first {
        out.push('-');
        push_number(out, last);
    }
}
