//! The attribute table in the binary: concatenated texts, and rows of positions in them.
//!
//! A table of `&str` holds thousands of pointers. The loader of a position-independent library adjusts each pointer in
//! every process, so each process has its own copy of these pages. This table is shared from the mapped file, like
//! code. The compiler makes it from the readable form.

use super::attribute::{Attribute, Realm, Standing, ValueKind};

/// A table of `ROWS` attributes whose texts take `BYTES` bytes.
pub(super) struct Packed<const ROWS: usize, const BYTES: usize> {
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
pub(super) const fn text_bytes(rows: &[Attribute]) -> usize {
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
    pub(super) const fn of(table: &[Attribute; ROWS]) -> Self {
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
    pub(super) fn row(&'static self, at: usize) -> Option<Attribute> {
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
    pub(super) fn name(&'static self, at: usize) -> Option<&'static [u8]> {
        let row = self.rows.get(at)?;
        Some(self.bytes(row.start, row.lens[0]))
    }

    /// The type of the row at a position.
    pub(super) fn value_type(&'static self, at: usize) -> Option<ValueKind> {
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
