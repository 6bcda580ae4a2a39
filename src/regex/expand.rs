//! From the bytes of a map to its table.

use super::decimal;
use super::error::{Excerpt, MapError, within};
use super::framing::{MapText, unframe};
use super::limits::MapLimits;
use super::nodes::{NodeList, NodeListBuilder};
use super::ranks::{RankMap, RankMapBuilder};

/// Expands a node map in any known framing into its names, in map order.
///
/// Takes the value of the node map key (PMIx Standard, chapter on reserved keys), a regex or a string. NULs behind
/// the map are ignored.
///
/// # Errors
/// If the framing is unknown or damaged, the list does not follow its grammar, or `limits` are exceeded. Limits are
/// checked before ranges are expanded or text is inflated.
pub fn expand_nodes(map: &[u8], limits: &MapLimits) -> Result<NodeList, MapError> {
    let mut names = NodeListBuilder::new(limits);
    match unframe(map, limits)? {
        MapText::List(list) => {
            for name in list.split(',') {
                names.push_name(name)?;
            }
        }
        MapText::Items(mut items) => loop {
            let (item, rest) = split_item(items, names.count())?;
            push_item(&mut names, item)?;
            match rest {
                Some(rest) => items = rest,
                None => break,
            }
        },
    }
    names.finish()
}

/// Expands a process map in any known framing into the ranks of each node, in map order.
///
/// Takes the value of the process map key (PMIx Standard, chapter on reserved keys), a regex or a string. Runs such
/// as `0-3` are understood in every framing: some hosts pass the input of "generate_ppn" unchanged. NULs behind the
/// map are ignored. A field without ranks is a node without ranks.
///
/// # Errors
/// If the framing is unknown or damaged, the list does not follow its grammar, a rank is reserved, or `limits` are
/// exceeded. [`RankMap::check_distinct`] finds ranks listed twice.
pub fn expand_ranks(map: &[u8], limits: &MapLimits) -> Result<RankMap, MapError> {
    let text = unframe(map, limits)?;
    let list = match &text {
        MapText::List(list) => list,
        MapText::Items(items) => *items,
    };
    let mut ranks = RankMapBuilder::new(limits);
    for field in list.split(';') {
        // An empty field holds no rank; an empty rank between two commas is an error.
        let mut ranges = (!field.is_empty()).then_some(field);
        while let Some(list) = ranges {
            let ((first, last), rest) = decimal::split_range(list, ranks.node())?;
            ranks.push_range(first, last)?;
            ranges = rest;
        }
        ranks.end_node()?;
    }
    ranks.finish()
}

/// Splits the first item off a list, at the first comma outside brackets.
fn split_item(items: &str, node: u32) -> Result<(&str, Option<&str>), MapError> {
    let unbalanced = || MapError::Bracket { node, text: Excerpt::of(items) };
    let mut is_open = false;
    for (position, byte) in items.bytes().enumerate() {
        match byte {
            b'[' | b']' if is_open == (byte == b'[') => return Err(unbalanced()),
            b'[' | b']' => is_open = !is_open,
            b',' if !is_open => {
                let (item, rest) = items.split_at_checked(position).ok_or_else(unbalanced)?;
                return Ok((item, rest.get(1..)));
            }
            _ => {}
        }
    }
    if is_open { Err(unbalanced()) } else { Ok((items, None)) }
}

/// Appends the names of one item: the item itself, or the expansion of `prefix[width:ranges]suffix`.
fn push_item(names: &mut NodeListBuilder<'_>, item: &str) -> Result<(), MapError> {
    let Some((prefix, rest)) = item.split_once('[') else {
        return names.push_name(item);
    };
    let node = names.count();
    let text = Excerpt::of(item);
    let (numbers, suffix) = rest.split_once(']').ok_or(MapError::Bracket { node, text })?;
    if suffix.contains('[') {
        return Err(MapError::Bracket { node, text });
    }
    let (width, ranges) = numbers.split_once(':').ok_or(MapError::MissingWidth { node, text })?;
    let width = within("digits in a node name", decimal::parse_number(width, node)?, u32::MAX)?;
    for range in ranges.split(',') {
        let range = decimal::parse_range(range, names.count())?;
        names.push_numbered((prefix, suffix), width, range)?;
    }
    Ok(())
}
