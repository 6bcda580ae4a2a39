//! From a table to the bytes of a map.

use super::blob;
use super::decimal::{push_number, push_range};
use super::nodes::NodeList;
use super::ranks::{RankMap, TEXT_BYTES};

/// Writes a node map that every released library reads: `raw:` for short lists, `blob:` for long ones.
///
/// The result of "generate_regex" (PMIx Standard, chapter "Process management: server"). It may hold NULs.
#[must_use]
pub fn generate_nodes(nodes: &NodeList) -> Vec<u8> {
    frame(nodes.as_text())
}

/// Writes a process map that every released library reads: `raw:` for short lists, `blob:` for long ones.
///
/// The result of "generate_ppn" (PMIx Standard, chapter "Process management: server"). It may hold NULs. Ranks are
/// listed one by one, because readers of these forms do not expand runs.
#[must_use]
pub fn generate_ranks(ranks: &RankMap) -> Vec<u8> {
    let expected = usize::try_from(ranks.rank_count()).unwrap_or_default();
    let mut text = String::with_capacity(expected.saturating_mul(TEXT_BYTES));
    for node in 0..ranks.node_count() {
        if node > 0 {
            text.push(';');
        }
        ranks.text_of(node, &mut text);
    }
    if text.is_empty() {
        // One node without ranks. `raw:` NUL alone would include the data packed behind it, see `framing`.
        return generate_ranks_pmix(ranks);
    }
    frame(&text)
}

/// Writes a node map as `pmix[...]`, for readers of names compressed by their numbers.
///
/// Libraries since the main line after v6.1 do not read it; use [`generate_nodes`] unless asked for this form.
#[must_use]
pub fn generate_nodes_pmix(nodes: &NodeList) -> Vec<u8> {
    let mut text = String::from("pmix[");
    let mut open: Option<OpenItem<'_>> = None;
    for (index, name) in nodes.iter().enumerate() {
        let numbered = NumberedName::parse(name);
        // Only the last item may grow: growing an earlier one would change the order.
        if let (Some(item), Some(numbered)) = (&mut open, &numbered)
            && item.try_extend(numbered, &mut text)
        {
            continue;
        }
        close_item(open.take(), &mut text);
        if index > 0 {
            text.push(',');
        }
        match numbered {
            Some(numbered) => open = Some(OpenItem::begin(numbered, &mut text)),
            None => text.push_str(name),
        }
    }
    close_item(open, &mut text);
    text.push_str("]\0");
    text.into_bytes()
}

/// Writes a process map as `pmix[...]`, for readers of ranks compressed into runs.
///
/// Libraries since the main line after v6.1 do not read it; use [`generate_ranks`] unless asked for this form.
#[must_use]
pub fn generate_ranks_pmix(ranks: &RankMap) -> Vec<u8> {
    let mut text = String::from("pmix[");
    for node in 0..ranks.node_count() {
        if node > 0 {
            text.push(';');
        }
        for (index, run) in ranks.runs_of(node).iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            push_range(&mut text, u64::from(run.first()), u64::from(run.last()));
        }
    }
    text.push_str("]\0");
    text.into_bytes()
}

/// Puts a list behind the identifier that suits its length.
fn frame(list: &str) -> Vec<u8> {
    let raw_bytes = RAW_IDENTIFIER.len() + list.len() + 1;
    if list.len() >= BLOB_TEXT_BYTES_MIN
        && let Some(blob) = blob::deflate(list).filter(|blob| blob.len() < raw_bytes)
    {
        return blob;
    }
    [RAW_IDENTIFIER, list, "\0"].concat().into_bytes()
}

/// A name of letters, digits, then letters and digits.
#[derive(Clone, Copy)]
struct NumberedName<'a> {
    prefix: &'a str,
    /// Digits of the number in the name, leading zeros included.
    width: usize,
    number: u64,
    suffix: &'a str,
}

impl<'a> NumberedName<'a> {
    /// `None` if the name is written unchanged.
    fn parse(name: &'a str) -> Option<Self> {
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return None;
        }
        let (prefix, rest) = name.split_at_checked(name.find(|c: char| c.is_ascii_digit())?)?;
        let digits_end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, suffix) = rest.split_at_checked(digits_end)?;
        if digits.len() > NUMBER_DIGITS_MAX {
            return None;
        }
        Some(Self { prefix, width: digits.len(), number: digits.parse().ok()?, suffix })
    }

    fn shares_item_with(&self, other: &Self) -> bool {
        (self.prefix, self.width, self.suffix) == (other.prefix, other.width, other.suffix)
    }
}

/// The open item: `prefix[width:` and all ranges except the last are in the text already.
struct OpenItem<'a> {
    /// The first name of the last range.
    first: NumberedName<'a>,
    last: u64,
}

impl<'a> OpenItem<'a> {
    fn begin(name: NumberedName<'a>, text: &mut String) -> Self {
        text.push_str(name.prefix);
        text.push('[');
        push_number(text, u64::try_from(name.width).unwrap_or(u64::MAX));
        text.push(':');
        Self { first: name, last: name.number }
    }

    /// Adds `name` to this item if it fits.
    fn try_extend(&mut self, name: &NumberedName<'a>, text: &mut String) -> bool {
        if !self.first.shares_item_with(name) {
            return false;
        }
        if name.number != self.last + 1 {
            push_range(text, self.first.number, self.last);
            text.push(',');
            self.first = *name;
        }
        self.last = name.number;
        true
    }
}

fn close_item(item: Option<OpenItem<'_>>, text: &mut String) {
    if let Some(item) = item {
        push_range(text, item.first.number, item.last);
        text.push(']');
        text.push_str(item.first.suffix);
    }
}

pub(super) const RAW_IDENTIFIER: &str = "raw:";

/// Lists of at least this length are deflated; released libraries use the same bound.
pub(super) const BLOB_TEXT_BYTES_MIN: usize = 4096;

/// Longer numbers are written unchanged: released readers use 32-bit signed integers.
const NUMBER_DIGITS_MAX: usize = 9;
