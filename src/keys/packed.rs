//! The attribute table without addresses.
//!
//! Rows with references would be written to when a shared library is loaded, because references are addresses: some
//! twenty pages of private memory in every process that loads it. Here a row holds positions in one text, so the table stays in
//! the file, and is shared by all processes. It is made by the compiler from the rows of `attributes_table`.

use std::ops::Range;

use super::attribute::{Attribute, Realm, Standing, ValueKind};
use super::attributes_table::ATTRIBUTES;

/// The rows' texts one after the other: macro name, key, first version, meaning, last version, subject.
#[derive(Clone, Copy)]
struct Packed {
    start: u32,
    lengths: [u8; TEXTS],
    standing: StandingCode,
    realm: RealmCode,
}

#[derive(Clone, Copy)]
enum StandingCode {
    Current,
    Deprecated,
    Internal,
    RemovedAfter,
}

#[derive(Clone, Copy)]
enum RealmCode {
    Session,
    Job,
    Application,
    Node,
    Process,
    Other,
}

/// How many rows there are.
pub(super) const COUNT: usize = ATTRIBUTES.len();

/// The row at a position.
pub(super) fn row(index: usize) -> Option<Attribute> {
    let packed = ROWS.get(index)?;
    Some(Attribute {
        macro_name: packed.text(MACRO_NAME),
        name: packed.text(NAME),
        value_type: *VALUE_TYPES.get(index)?,
        since: packed.text(SINCE),
        standing: match packed.standing {
            StandingCode::Current => Standing::Current,
            StandingCode::Deprecated => Standing::Deprecated,
            StandingCode::Internal => Standing::Internal,
            StandingCode::RemovedAfter => Standing::RemovedAfter(packed.text(LAST)),
        },
        meaning: packed.text(MEANING),
        realm: match packed.realm {
            RealmCode::Session => Realm::Session,
            RealmCode::Job => Realm::Job,
            RealmCode::Application => Realm::Application,
            RealmCode::Node => Realm::Node,
            RealmCode::Process => Realm::Process,
            RealmCode::Other => Realm::Other(packed.text(SUBJECT)),
        },
    })
}

/// The key of the row at a position; empty beyond the last.
pub(super) fn name(index: usize) -> &'static str {
    ROWS.get(index).map_or("", |row| row.text(NAME))
}

/// The macro's name of the row at a position; empty beyond the last.
pub(super) fn macro_name(index: usize) -> &'static str {
    ROWS.get(index).map_or("", |row| row.text(MACRO_NAME))
}

/// The types of the rows at these positions.
pub(super) fn value_types(indexes: Range<usize>) -> &'static [ValueKind] {
    VALUE_TYPES.get(indexes).unwrap_or_default()
}

impl Packed {
    fn text(&self, which: usize) -> &'static str {
        let before = self.lengths.get(..which).unwrap_or_default().iter().map(|&length| usize::from(length));
        let start = usize::try_from(self.start).unwrap_or(usize::MAX).saturating_add(before.sum());
        let length = self.lengths.get(which).map_or(0, |&length| usize::from(length));
        TEXT.get(start..start.saturating_add(length)).unwrap_or_default()
    }
}

const TEXTS: usize = 6;
const MACRO_NAME: usize = 0;
const NAME: usize = 1;
const SINCE: usize = 2;
const MEANING: usize = 3;
const LAST: usize = 4;
const SUBJECT: usize = 5;

static ROWS: [Packed; COUNT] = rows();
static VALUE_TYPES: [ValueKind; COUNT] = value_types_of_rows();
static TEXT: &str = match std::str::from_utf8(&BYTES) {
    Ok(text) => text,
    Err(_) => panic!("made of whole texts"),
};
const SIZE_BYTES: usize = size_bytes();
static BYTES: [u8; SIZE_BYTES] = bytes();

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which refuses what is out of bounds")]
const fn value_types_of_rows() -> [ValueKind; COUNT] {
    let (mut types, mut index) = ([ValueKind::None; COUNT], 0);
    while index < COUNT {
        types[index] = ATTRIBUTES[index].value_type;
        index += 1;
    }
    types
}

const fn texts(row: &Attribute) -> [&'static str; TEXTS] {
    let last = match row.standing {
        Standing::RemovedAfter(last) => last,
        Standing::Current | Standing::Deprecated | Standing::Internal => "",
    };
    let subject = match row.realm {
        Realm::Other(subject) => subject,
        Realm::Session | Realm::Job | Realm::Application | Realm::Node | Realm::Process => "",
    };
    [row.macro_name, row.name, row.since, row.meaning, last, subject]
}

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which refuses what is out of bounds")]
const fn size_bytes() -> usize {
    let (mut size, mut index) = (0, 0);
    while index < COUNT {
        let texts = texts(&ATTRIBUTES[index]);
        let mut which = 0;
        while which < TEXTS {
            size += texts[which].len();
            which += 1;
        }
        index += 1;
    }
    size
}

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which refuses what is out of bounds")]
const fn bytes() -> [u8; SIZE_BYTES] {
    let mut bytes = [0; SIZE_BYTES];
    let (mut rest, mut index): (&mut [u8], usize) = (&mut bytes, 0);
    while index < COUNT {
        let texts = texts(&ATTRIBUTES[index]);
        let mut which = 0;
        while which < TEXTS {
            let (place, behind) = rest.split_at_mut(texts[which].len());
            place.copy_from_slice(texts[which].as_bytes());
            rest = behind;
            which += 1;
        }
        index += 1;
    }
    bytes
}

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which refuses what is out of bounds")]
#[expect(clippy::cast_possible_truncation, reason = "checked beside")]
const fn rows() -> [Packed; COUNT] {
    assert!(SIZE_BYTES < u32::MAX as usize, "positions have 32 bits");
    let mut rows = [pack(&ATTRIBUTES[0], 0); COUNT];
    let (mut start, mut index) = (0, 0);
    while index < COUNT {
        rows[index] = pack(&ATTRIBUTES[index], start as u32);
        let mut which = 0;
        while which < TEXTS {
            start += rows[index].lengths[which] as usize;
            which += 1;
        }
        index += 1;
    }
    rows
}

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which refuses what is out of bounds")]
#[expect(clippy::cast_possible_truncation, reason = "checked beside")]
const fn pack(row: &Attribute, start: u32) -> Packed {
    let texts = texts(row);
    let (mut lengths, mut which) = ([0; TEXTS], 0);
    while which < TEXTS {
        assert!(texts[which].len() <= u8::MAX as usize, "lengths have 8 bits");
        lengths[which] = texts[which].len() as u8;
        which += 1;
    }
    let standing = match row.standing {
        Standing::Current => StandingCode::Current,
        Standing::Deprecated => StandingCode::Deprecated,
        Standing::Internal => StandingCode::Internal,
        Standing::RemovedAfter(_) => StandingCode::RemovedAfter,
    };
    let realm = match row.realm {
        Realm::Session => RealmCode::Session,
        Realm::Job => RealmCode::Job,
        Realm::Application => RealmCode::Application,
        Realm::Node => RealmCode::Node,
        Realm::Process => RealmCode::Process,
        Realm::Other(_) => RealmCode::Other,
    };
    Packed { start, lengths, standing, realm }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_out_as_it_was() {
        let unpacked: Vec<Attribute> = (0..COUNT).filter_map(row).collect();
        assert_eq!(unpacked, ATTRIBUTES);
        assert_eq!(row(COUNT), None);
    }
}
