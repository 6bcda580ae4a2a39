//! Locality strings: the parts of the machine that a process may use, and the common parts of two processes.

use crate::types::codes;

/// The source of the numbers of a string.
const SOURCE: &str = "hwloc:";

/// The kinds of parts in locality strings, and their bits for shared parts.
const PARTS: [(&str, u16); 7] = [
    ("HT", codes::locality::LOCALITY_SHARE_HWTHREAD),
    ("CR", codes::locality::LOCALITY_SHARE_CORE),
    ("L1", codes::locality::LOCALITY_SHARE_L1CACHE),
    ("L2", codes::locality::LOCALITY_SHARE_L2CACHE),
    ("L3", codes::locality::LOCALITY_SHARE_L3CACHE),
    ("SK", codes::locality::LOCALITY_SHARE_PACKAGE),
    ("NM", codes::locality::LOCALITY_SHARE_NUMA),
];

/// Why two localities cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocalityError {
    /// The string is another provider's.
    #[error("locality {text:?} does not come from hwloc; both strings must come from the same provider")]
    Source {
        /// The string.
        text: String,
    },
    /// An item is not the name of a part with numbers.
    #[error("locality item {item:?} is not two letters and a list of numbers such as \"CR0-3\"")]
    Item {
        /// The item.
        item: String,
    },
}

/// The locality string of these parts: hwloc's logical indices of each kind, ascending. Kinds without indices are left
/// out.
///
/// Source: PMIx Standard, "Process Locality" (`PMIX_LOCALITY_STRING`).
#[must_use]
pub fn locality_string<'a>(parts: impl IntoIterator<Item = (&'a str, &'a [u32])>) -> String {
    let items = parts.into_iter().filter(|(_, indices)| !indices.is_empty());
    let items: Vec<String> = items.map(|(name, indices)| format!("{name}{}", list(indices))).collect();
    format!("{SOURCE}{}", items.join(":"))
}

/// The common parts of two processes on one node, as `PMIX_LOCALITY_SHARE_*` bits. Strings without a source are
/// hwloc's.
///
/// # Errors
/// [`LocalityError`].
pub fn relative_locality(one: &str, other: &str) -> Result<u16, LocalityError> {
    let (one, other) = (items(one)?, items(other)?);
    let mut shared = codes::locality::LOCALITY_SHARE_NODE;
    for (name, bit) in PARTS {
        let ranges = |items: &[(&str, Vec<(u32, u32)>)]| -> Vec<(u32, u32)> {
            items.iter().filter(|(part, _)| *part == name).flat_map(|(_, ranges)| ranges.clone()).collect()
        };
        let (one, other) = (ranges(&one), ranges(&other));
        if one.iter().any(|(first, last)| other.iter().any(|(from, to)| first <= to && from <= last)) {
            shared |= bit;
        }
    }
    Ok(shared)
}

/// An item: the part's name and its ranges of indices.
type Item<'a> = (&'a str, Vec<(u32, u32)>);

fn items(text: &str) -> Result<Vec<Item<'_>>, LocalityError> {
    let is_foreign = |prefix: &str| !PARTS.iter().any(|(name, _)| prefix.starts_with(name));
    let body = match text.strip_prefix(SOURCE) {
        Some(body) => body,
        None if text.split(':').next().is_some_and(is_foreign) => {
            return Err(LocalityError::Source { text: text.to_owned() });
        }
        None => text,
    };
    body.split(':').filter(|item| !item.is_empty()).map(item).collect()
}

fn item(text: &str) -> Result<Item<'_>, LocalityError> {
    let refuse = || LocalityError::Item { item: text.to_owned() };
    let (name, list) = text.split_at_checked(2).ok_or_else(refuse)?;
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    let ranges: Option<Vec<_>> = list.split(',').map(range).collect();
    Ok((name, ranges.ok_or_else(refuse)?))
}

/// `0-3,8` for ascending numbers.
fn list(indices: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &index in indices {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(index) => *last = index,
            _ => ranges.push((index, index)),
        }
    }
    let texts =
        ranges.iter().map(|(first, last)| if first == last { format!("{first}") } else { format!("{first}-{last}") });
    texts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_lists_the_parts_in_ranges() {
        let parts = [("SK", &[0][..]), ("L2", &[]), ("CR", &[0, 1, 2, 5])];
        assert_eq!(locality_string(parts), "hwloc:SK0:CR0-2,5");
    }

    #[test]
    fn parts_with_a_common_index_are_shared_and_the_node_always_is() {
        let bits = relative_locality("hwloc:SK0:CR0-1:HT0-3", "hwloc:SK0:CR1-2:HT4").unwrap();
        let expected = codes::locality::LOCALITY_SHARE_NODE
            | codes::locality::LOCALITY_SHARE_PACKAGE
            | codes::locality::LOCALITY_SHARE_CORE;
        assert_eq!(bits, expected);
        assert_eq!(relative_locality("hwloc:SK0", "SK1"), Ok(codes::locality::LOCALITY_SHARE_NODE));
    }

    #[test]
    fn a_locality_of_another_source_or_of_wrong_form_is_refused() {
        assert!(matches!(relative_locality("lstopo:SK0", "hwloc:SK0"), Err(LocalityError::Source { .. })));
        assert!(matches!(relative_locality("hwloc:SK0", "hwloc:CR"), Err(LocalityError::Item { .. })));
        assert!(matches!(relative_locality("hwloc:SK0", "hwloc:CR0-x"), Err(LocalityError::Item { .. })));
    }
}
