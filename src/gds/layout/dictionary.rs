//! The key dictionary: from the text of a key to its number.
//!
//! A table of slots, open addressing with linear probing. A slot holds the upper half of the key's hash, and the key's
//! id. The lower bits of the hash give the first slot of the probing. Slots are filled once and never changed, so a
//! reader that races with an insertion finds the key or does not, and both are correct. The writer keeps the table at
//! most half full: before, it replaces the table by one of twice the size.
//!
//! An id is the position of the key's entry, so finding the text of an id needs no table.

use super::format::{KEY_ALIGN, KeyHead, SLOT_ID_BITS, realm};
use super::segment_view::{Damage, SegmentView, root};
use crate::gds::lookup::KeyRef;
use crate::keys::{DefaultRealm, default_realm};
use crate::shmem::TableRef;

/// The number of a key in its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyId(pub(crate) u32);

impl KeyId {
    /// The id of the key with its entry at `offset`; `None` beyond 32 GiB.
    pub(crate) fn at(offset: u64) -> Option<Self> {
        u32::try_from(offset / KEY_ALIGN).ok().map(Self)
    }

    /// Offset of the key's entry.
    #[inline(always)]
    pub(crate) fn offset(self) -> u64 {
        u64::from(self.0) * KEY_ALIGN
    }

    /// Offset of the key's text.
    #[inline(always)]
    pub(crate) fn text_offset(self) -> u64 {
        const HEAD_BYTES: u64 = 16;
        const { assert!(size_of::<KeyHead>() == 16) };
        self.offset() + HEAD_BYTES
    }
}

/// A key in the dictionary.
///
/// Refers to the entry instead of copying its fields. A value gathered from small fields would be written and read at
/// different widths on the way through `Get`, which stalls processors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownKey<'a> {
    pub(crate) id: KeyId,
    head: &'a KeyHead,
    /// The segment around the key: values are usually stored soon after their key.
    pub(crate) segment: SegmentView<'a>,
}

impl KnownKey<'_> {
    /// The key's realm in the standard.
    #[inline(always)]
    pub(crate) fn realm(self) -> Result<DefaultRealm, Damage> {
        match self.head.realm {
            realm::BY_RANK => Ok(DefaultRealm::ByRank),
            realm::SESSION => Ok(DefaultRealm::Session),
            realm::APPLICATION => Ok(DefaultRealm::Application),
            realm::NODE => Ok(DefaultRealm::Node),
            other => Err(Damage::Code { what: "the realm of a key", code: other.into() }),
        }
    }

    /// Whether it begins with `pmix`.
    #[inline(always)]
    pub(crate) const fn is_reserved(self) -> bool {
        self.head.reserved_key != 0
    }
}

/// Looks a key up.
#[inline(always)]
pub(crate) fn find<'a>(segment: SegmentView<'a>, key: &KeyRef<'_>) -> Result<Option<KnownKey<'a>>, Damage> {
    let Some(slots) = segment.root_cells(root::KEYS)? else { return Ok(None) };
    let mask = mask(slots.cell_count())?;
    for step in 0..slots.cell_count() {
        let slot = slots.load(key.hash.wrapping_add(step) & mask).unwrap_or_default();
        let Some((fragment, id)) = unpack(slot) else { return Ok(None) };
        if fragment != key.hash >> SLOT_ID_BITS {
            continue;
        }
        let segment = segment.around(id.offset());
        let head = head(segment, id)?;
        if head.hash == key.hash && text(segment, id, head)? == key.name.as_bytes() {
            return Ok(Some(KnownKey { id, head, segment }));
        }
    }
    Ok(None)
}

/// The text of a key.
pub(crate) fn name(segment: SegmentView<'_>, id: KeyId) -> Result<&str, Damage> {
    let head = head(segment, id)?;
    std::str::from_utf8(text(segment, id, head)?).map_err(|_| Damage::Text { what: "key", len: head.len.into() })
}

/// Ids of all keys, in the order of the table.
pub(crate) fn ids(segment: SegmentView<'_>) -> Result<impl Iterator<Item = KeyId>, Damage> {
    let slots = segment.root_cells(root::KEYS)?;
    let cells = slots.into_iter().flat_map(|slots| (0..slots.cell_count()).filter_map(move |index| slots.load(index)));
    Ok(cells.filter_map(|slot| unpack(slot).map(|(_, id)| id)))
}

/// The first free slot for a key that is not in the table; `None` if the table is full.
pub(crate) fn free_slot(segment: SegmentView<'_>, table: TableRef, hash: u64) -> Result<Option<u64>, Damage> {
    let mask = mask(table.cell_count())?;
    for step in 0..table.cell_count() {
        let index = hash.wrapping_add(step) & mask;
        if segment.cell(table, index)? == 0 {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// The word of a filled slot.
pub(crate) fn slot(id: KeyId, hash: u64) -> u64 {
    (hash >> SLOT_ID_BITS << SLOT_ID_BITS) | u64::from(id.0)
}

/// The entry of a new key, without its text.
pub(crate) fn new_head(name: &str, hash: u64) -> KeyHead {
    KeyHead {
        hash,
        // A key has at most 511 bytes by construction of `types::Key`.
        len: u16::try_from(name.len()).unwrap_or(u16::MAX),
        realm: match default_realm(name) {
            DefaultRealm::ByRank => realm::BY_RANK,
            DefaultRealm::Session => realm::SESSION,
            DefaultRealm::Application => realm::APPLICATION,
            DefaultRealm::Node => realm::NODE,
        },
        reserved_key: name.starts_with("pmix").into(),
        reserved: 0,
    }
}

/// The full hash of a key in the table.
pub(crate) fn hash(segment: SegmentView<'_>, id: KeyId) -> Result<u64, Damage> {
    Ok(head(segment, id)?.hash)
}

#[inline(always)]
fn head(segment: SegmentView<'_>, id: KeyId) -> Result<&KeyHead, Damage> {
    segment.record::<KeyHead>(id.offset())
}

#[inline(always)]
fn text<'a>(segment: SegmentView<'a>, id: KeyId, head: &KeyHead) -> Result<&'a [u8], Damage> {
    segment.bytes(id.text_offset(), head.len.into())
}

/// Upper half of the hash, and id; `None` for a free slot.
#[inline(always)]
pub(crate) fn unpack(slot: u64) -> Option<(u64, KeyId)> {
    let id = u32::try_from(slot & u64::from(u32::MAX)).unwrap_or_default();
    (id != 0).then_some((slot >> SLOT_ID_BITS, KeyId(id)))
}

#[inline(always)]
fn mask(slot_count: u64) -> Result<u64, Damage> {
    if slot_count.is_power_of_two() {
        Ok(slot_count - 1)
    } else {
        Err(Damage::Code { what: "the size of the key dictionary", code: slot_count })
    }
}
