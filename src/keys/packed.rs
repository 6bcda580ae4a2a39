//! The attribute table in the binary: concatenated texts, and rows of positions in them.
//!
//! A table of `&str` holds thousands of pointers. The loader of a position-independent library adjusts each pointer in
//! every process, so each process has its own copy of these pages. This table is shared from the mapped file, like
//! code. The compiler makes it from the readable form. All look-ups go through it.

use std::ops::Range;

use super::attribute::{Attribute, Realm, Standing, ValueKind};
use super::attributes_table::{BY_MACRO, ROWS};

/// A table of `ROWS` attributes whose texts take `BYTES` bytes.
struct Packed<const ROWS: usize, const BYTES: usize> {
    rows: [Row; ROWS],
    texts: [u8; BYTES],
}

#[derive(Clone, Copy)]
struct Row {
    /// Start of its texts, which are those of [`texts_of`], in that order.
    start: u32,
    lens: [u8; TEXTS_PER_ROW],
    value_type: ValueKind,
    realm: RealmCode,
    standing: StandingCode,
}

/// As [`Realm`], without the text.
#[derive(Clone, Copy)]
enum RealmCode {
    Session,
    Job,
    Application,
    Node,
    Process,
    Other,
}

/// As [`Standing`], without the text.
#[derive(Clone, Copy)]
enum StandingCode {
    Current,
    Deprecated,
    Internal,
    Removed,
}

const TEXTS_PER_ROW: usize = 6;

/// The texts of a row; missing ones are empty.
const fn texts_of(row: &Attribute) -> [&'static str; TEXTS_PER_ROW] {
    let subject = if let Realm::Other(subject) = row.realm { subject } else { "" };
    let last = if let Standing::RemovedAfter(last) = row.standing { last } else { "" };
    [row.name, row.macro_name, row.since, row.meaning, subject, last]
}

/// Total size of a table's texts.
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which refuses an index out of bounds")]
const fn text_bytes(rows: &[Attribute]) -> usize {
    let mut sum = 0;
    let mut at = 0;
    while at < rows.len() {
        let texts = texts_of(&rows[at]);
        let mut number = 0;
        while number < TEXTS_PER_ROW {
            sum += texts[number].len();
            number += 1;
        }
        at += 1;
    }
    sum
}

impl<const ROWS: usize, const BYTES: usize> Packed<ROWS, BYTES> {
    /// Packs a table.
    #[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which refuses an index out of bounds")]
    #[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "checked; `try_from` is not const")]
    const fn of(table: &[Attribute; ROWS]) -> Self {
        assert!(BYTES <= u32::MAX as usize, "positions have 32 bits");
        let mut texts = [0; BYTES];
        let mut rows = [Row::EMPTY; ROWS];
        let (mut end, mut at) = (0, 0);
        while at < ROWS {
            let mut row = Row { start: end as u32, ..Row::of(&table[at]) };
            let parts = texts_of(&table[at]);
            let mut number = 0;
            while number < TEXTS_PER_ROW {
                let part = parts[number].as_bytes();
                assert!(part.len() <= u8::MAX as usize, "a text of an attribute has at most 255 bytes");
                row.lens[number] = part.len() as u8;
                let (_, rest) = texts.split_at_mut(end);
                rest.split_at_mut(part.len()).0.copy_from_slice(part);
                end += part.len();
                number += 1;
            }
            rows[at] = row;
            at += 1;
        }
        assert!(end == BYTES, "BYTES is what `text_bytes` says");
        Self { rows, texts }
    }

    /// The row at a position.
    fn row(&'static self, at: usize) -> Option<Attribute> {
        let row = self.rows.get(at)?;
        let [name, macro_name, since, meaning, subject, last] = self.texts_at(row);
        let realm = match row.realm {
            RealmCode::Session => Realm::Session,
            RealmCode::Job => Realm::Job,
            RealmCode::Application => Realm::Application,
            RealmCode::Node => Realm::Node,
            RealmCode::Process => Realm::Process,
            RealmCode::Other => Realm::Other(subject),
        };
        let standing = match row.standing {
            StandingCode::Current => Standing::Current,
            StandingCode::Deprecated => Standing::Deprecated,
            StandingCode::Internal => Standing::Internal,
            StandingCode::Removed => Standing::RemovedAfter(last),
        };
        Some(Attribute { macro_name, name, value_type: row.value_type, since, standing, meaning, realm })
    }

    /// The bytes of the key string of the row at a position, for searches.
    fn name(&'static self, at: usize) -> Option<&'static [u8]> {
        let row = self.rows.get(at)?;
        Some(self.bytes(row.start, row.lens[0]))
    }

    /// The type of the row at a position.
    fn value_type(&'static self, at: usize) -> Option<ValueKind> {
        self.rows.get(at).map(|row| row.value_type)
    }

    fn texts_at(&'static self, row: &Row) -> [&'static str; TEXTS_PER_ROW] {
        let mut start = row.start;
        row.lens.map(|len| {
            let text = self.text(start, len);
            start += u32::from(len);
            text
        })
    }

    fn text(&'static self, start: u32, len: u8) -> &'static str {
        // Always valid: it was a `str` before it was packed.
        std::str::from_utf8(self.bytes(start, len)).unwrap_or_default()
    }

    fn bytes(&'static self, start: u32, len: u8) -> &'static [u8] {
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        start.checked_add(len.into()).and_then(|end| self.texts.get(start..end)).unwrap_or_default()
    }
}

impl Row {
    const EMPTY: Self = Self {
        start: 0,
        lens: [0; TEXTS_PER_ROW],
        value_type: ValueKind::None,
        realm: RealmCode::Other,
        standing: StandingCode::Current,
    };

    const fn of(row: &Attribute) -> Self {
        let realm = match row.realm {
            Realm::Session => RealmCode::Session,
            Realm::Job => RealmCode::Job,
            Realm::Application => RealmCode::Application,
            Realm::Node => RealmCode::Node,
            Realm::Process => RealmCode::Process,
            Realm::Other(_) => RealmCode::Other,
        };
        let standing = match row.standing {
            Standing::Current => StandingCode::Current,
            Standing::Deprecated => StandingCode::Deprecated,
            Standing::Internal => StandingCode::Internal,
            Standing::RemovedAfter(_) => StandingCode::Removed,
        };
        Self { value_type: row.value_type, realm, standing, ..Self::EMPTY }
    }
}

static ATTRIBUTES: Packed<{ ROWS.len() }, { text_bytes(&ROWS) }> = Packed::of(&ROWS);

/// Rows of the attribute table, one after the other.
#[derive(Debug, Clone)]
pub struct Attributes(Range<usize>);

impl Attributes {
    /// The types alone of these rows: their texts are not looked at.
    pub fn value_types(self) -> impl Iterator<Item = ValueKind> {
        self.0.filter_map(|at| ATTRIBUTES.value_type(at))
    }
}

impl Iterator for Attributes {
    type Item = Attribute;

    fn next(&mut self) -> Option<Attribute> {
        ATTRIBUTES.row(self.0.next()?)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Attributes {}

/// All attributes, sorted by key string; rows that share a string are sorted by preference (see [`rows_with_name`]).
#[must_use]
pub const fn attributes() -> Attributes {
    Attributes(0..ROWS.len())
}

/// The attribute with this key string, or `None` if no version of PMIx defines it.
///
/// Several attributes may have the same string; this is the preferred one: see [`rows_with_name`].
#[must_use]
pub fn by_name(key: &str) -> Option<Attribute> {
    rows_with_name(key).next()
}

/// All attributes with this key string, the preferred one first; possibly none.
///
/// Some strings belong to more than one attribute, mostly an old name and its successor. Current attributes come
/// before others, then older before newer, then by macro name.
#[must_use]
pub fn rows_with_name(key: &str) -> Attributes {
    let key = key.as_bytes();
    let start = partition_point(ROWS.len(), |at| ATTRIBUTES.name(at).is_some_and(|name| name < key));
    let shared = (start..ROWS.len()).take_while(|&at| ATTRIBUTES.name(at) == Some(key)).count();
    Attributes(start..start + shared)
}

/// The attribute with this macro name (`PMIX_JOB_SIZE`), or `None` if no version of PMIx defines it.
#[must_use]
pub fn by_macro(macro_name: &str) -> Option<Attribute> {
    let row_at = |index: &u16| ATTRIBUTES.row(usize::from(*index));
    let start = BY_MACRO.partition_point(|index| row_at(index).is_some_and(|row| row.macro_name < macro_name));
    BY_MACRO.get(start).and_then(row_at).filter(|row| row.macro_name == macro_name)
}

/// The first of `count` positions for which `is_before` does not hold; it holds for all that come before.
fn partition_point(count: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if is_before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_successor_wins_over_the_deprecated_attribute_with_the_same_key() {
        let preferred = |key| by_name(key).unwrap().macro_name;
        assert_eq!(preferred("pmix.pdata"), "PMIX_PROC_INFO_ARRAY");
        assert_eq!(preferred("pmix.alloc.net"), "PMIX_ALLOC_FABRIC");
        assert_eq!(preferred("pmix.dbg.notify"), "PMIX_DEBUG_STOP_IN_APP");
    }

    #[test]
    fn of_two_current_attributes_with_the_same_key_the_older_wins() {
        let preferred = |key| by_name(key).unwrap().macro_name;
        assert_eq!(preferred("pmix.evname"), "PMIX_EVENT_HDLR_NAME");
        assert_eq!(preferred("pmix.fab.coord"), "PMIX_FABRIC_COORDINATES");
        assert_eq!(preferred("pmix.jctrl.ckptsig"), "PMIX_JOB_CTRL_CHECKPOINT_SIGNAL");
        assert_eq!(preferred("pmix.qry.quals"), "PMIX_QUERY_QUALIFIERS");
    }

    #[test]
    fn every_attribute_is_found_by_macro_and_among_the_rows_of_its_key() {
        for attribute in attributes() {
            assert_eq!(by_macro(attribute.macro_name), Some(attribute));
            assert!(rows_with_name(attribute.name).any(|row| row == attribute));
            assert!(by_name(attribute.name).is_some());
        }
    }

    #[test]
    fn unknown_names_are_not_found() {
        for unknown in ["", "pmix", "pmix.job.siz", "pmix.job.size2", "zzz", "PMIX_", "\u{10ffff}"] {
            assert_eq!(by_name(unknown), None, "{unknown}");
            assert_eq!(by_macro(unknown), None, "{unknown}");
            assert!(rows_with_name(unknown).next().is_none(), "{unknown}");
        }
    }

    proptest! {
        #[test]
        fn look_ups_agree_with_a_scan_of_all_rows(
            row in 0..attributes().len(),
            length in 0..40_usize,
            suffix in "[a-z._A-Z]{0,2}",
        ) {
            let cut = |text: &str| text.chars().take(length).chain(suffix.chars()).collect::<String>();
            let row = attributes().nth(row).unwrap();
            let (key, macro_name) = (cut(row.name), cut(row.macro_name));
            let rows: Vec<Attribute> = attributes().filter(|row| row.name == key).collect();
            prop_assert_eq!(rows_with_name(&key).collect::<Vec<_>>(), rows);
            let expected = attributes().find(|row| row.macro_name == macro_name);
            prop_assert_eq!(by_macro(&macro_name), expected);
        }
    }

    #[test]
    fn the_packed_table_yields_all_attributes() {
        assert!(attributes().eq(ROWS));
    }

    #[test]
    fn rows_are_sorted_by_key_and_current_rows_come_first() {
        for pair in attributes().collect::<Vec<_>>().windows(2) {
            assert!(pair[0].name <= pair[1].name, "{} before {}", pair[0].name, pair[1].name);
            if pair[0].name == pair[1].name {
                assert!(pair[0].is_current() || !pair[1].is_current(), "{}", pair[0].macro_name);
            }
        }
    }

    #[test]
    fn every_key_fits_the_key_length_of_the_standard() {
        for attribute in attributes() {
            assert!(!attribute.name.is_empty() && attribute.name.len() <= 511, "{}", attribute.name);
        }
    }
}
