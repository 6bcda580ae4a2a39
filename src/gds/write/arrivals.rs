//! Values of remote processes, as a fence delivers them: a few values from each of very many processes. They are
//! collected in pieces, so that the cost of a process is little more than its bytes.
//!
//! A piece is an image with the blocks of many ranks. Its memory is bounded and reused, so any amount of data is
//! received without a second copy in ordinary memory. A piece has at most one block of each rank.

use super::writer::{NO_BLOCK, NamespaceWriter, push_block};
use crate::gds::error::StoreError;
use crate::gds::layout::block;
use crate::gds::layout::cell::Encoded;
use crate::gds::layout::dictionary::{self, KeyId};
use crate::gds::layout::format::Entry;
use crate::gds::layout::image::Image;
use crate::gds::lookup::{KeyRef, Origin, Posted};
use crate::gds::read::statistics::Section;
use crate::types::{DataType, LentEntry, LentValue, Scope};

/// Received values that are not published yet.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// `None`: no values.
    image: Option<Image>,
    /// The memory of the last image.
    spare: Option<Image>,
    /// The future offset of each rank's newest block, by rank.
    links: Vec<(u32, u64)>,
    payload_bytes: u64,
    /// Number of blocks received since the last publication.
    count: usize,
    /// The ids of keys, by position in the previous block.
    known: Vec<(String, KeyId)>,
    /// Entries of the block in the making.
    entries: Vec<Entry>,
}

impl Arrivals {
    /// Takes over the block of a remote process; the next piece publishes it. Returns the number of blocks not
    /// published yet.
    pub(super) fn take(
        &mut self,
        writer: &mut NamespaceWriter,
        rank: u32,
        entries: &[LentEntry<'_>],
    ) -> Result<usize, StoreError> {
        writer.check_block(rank, entries.len())?;
        let ids = self.ids_of(writer, entries)?;
        if writer.larger_modex_table(rank.saturating_add(1)).is_some() {
            self.publish(writer)?;
            writer.ensure_modex_table(rank.saturating_add(1))?;
        }
        // A block refers to the previous one, which must have been linked.
        if self.links.last().is_some_and(|&(last, _)| rank <= last) {
            self.publish(writer)?;
        }
        let mut image = self.image.take().unwrap_or_else(|| self.next_image(writer));
        let before_bytes = image.size_bytes();
        let mut block = std::mem::take(&mut self.entries);
        block.clear();
        let placed = place_block(writer, &mut image, &mut block, rank, entries, &ids);
        self.known = ids;
        self.entries = block;
        match placed {
            Ok(Placed::At { offset, payload_bytes }) => {
                self.links.push((rank, offset));
                self.payload_bytes = self.payload_bytes.saturating_add(payload_bytes);
            }
            Ok(Placed::Nothing | Placed::Ambiguous) | Err(_) => image.truncate(before_bytes),
        }
        let is_full = image.size_bytes() >= PIECE_BYTES;
        self.keep(image);
        let placed = placed?;
        self.count = if self.image.is_some() { self.count.saturating_add(1) } else { 0 };
        if is_full {
            self.publish(writer)?;
        }
        if matches!(placed, Placed::Ambiguous) {
            let posted = |entry: &LentEntry<'_>| Posted {
                scope: Scope::Remote,
                key: entry.key.to_key(),
                value: entry.value.to_value(),
            };
            let values: Vec<Posted> = entries.iter().map(posted).collect();
            self.publish(writer)?;
            writer.append_block(rank, Origin::Remote, &values)?;
        }
        Ok(self.count)
    }

    /// Publishes the received blocks. Returns their number.
    pub(super) fn publish(&mut self, writer: &mut NamespaceWriter) -> Result<usize, StoreError> {
        let count = std::mem::take(&mut self.count);
        let Some(mut image) = self.image.take() else { return Ok(0) };
        let payload_bytes = std::mem::take(&mut self.payload_bytes);
        let mut links = std::mem::take(&mut self.links);
        let published = writer.publish_image(&image).and_then(|()| {
            let table = writer.ensure_modex_table(0)?;
            links.iter().try_for_each(|&(rank, offset)| Ok(writer.segment.store(table, rank.into(), offset)?))
        });
        let size_bytes = image.size_bytes();
        image.restart(&Image::new(0, 0));
        links.clear();
        (self.spare, self.links) = (Some(image), links);
        published?;
        writer.count(Section::Payload, payload_bytes)?;
        writer.count(Section::Blocks, size_bytes.saturating_sub(payload_bytes))?;
        writer.segment.bump_generation(false);
        Ok(count)
    }

    /// The ids of all keys. A new key needs memory of the segment, so the piece is published first.
    fn ids_of(
        &mut self,
        writer: &mut NamespaceWriter,
        entries: &[LentEntry<'_>],
    ) -> Result<Vec<(String, KeyId)>, StoreError> {
        let mut known = std::mem::take(&mut self.known);
        for (place, entry) in entries.iter().enumerate() {
            let key = entry.key.as_str();
            if known.get(place).is_some_and(|(name, _)| name == key) {
                continue;
            }
            let found = dictionary::find(writer.segment_view(), &KeyRef::new(key))?.map(|found| found.id);
            let id = match found {
                Some(id) => id,
                None => {
                    self.publish(writer)?;
                    writer.intern(key, None)?
                }
            };
            let here = (key.to_owned(), id);
            match known.get_mut(place) {
                Some(other) => *other = here,
                None => known.push(here),
            }
        }
        Ok(known)
    }

    /// An image in memory that was used before.
    fn next_image(&mut self, writer: &NamespaceWriter) -> Image {
        let mut image = writer.image_from_elsewhere();
        if let Some(mut spare) = self.spare.take() {
            spare.restart(&image);
            image = spare;
        }
        image
    }

    /// Keeps the image if it is not empty.
    fn keep(&mut self, image: Image) {
        if image.size_bytes() == 0 {
            self.spare = Some(image);
        } else {
            self.image = Some(image);
        }
    }
}

/// Adds a rank's block to the image, with the values that readers would not find yet.
fn place_block(
    writer: &NamespaceWriter,
    image: &mut Image,
    block: &mut Vec<Entry>,
    rank: u32,
    entries: &[LentEntry<'_>],
    ids: &[(String, KeyId)],
) -> Result<Placed, StoreError> {
    let (before_bytes, scope) = (image.size_bytes(), Scope::Remote.to_raw());
    let table = writer.modex.filter(|table| u64::from(rank) < table.cell_count());
    let newest = table.map(|table| writer.segment.load(table, rank.into())).transpose()?;
    let is_first = newest.unwrap_or(NO_BLOCK) == NO_BLOCK;
    let value_bytes_max = usize::try_from(writer.limits.value_bytes_max).unwrap_or(usize::MAX);
    for (LentEntry { key, value }, &(_, id)) in entries.iter().zip(ids) {
        let cell = match value {
            // The usual case, a new byte object: it is written to its final place.
            LentValue::ByteObject(bytes) if is_first && bytes.len() <= value_bytes_max => {
                image.push_bytes(DataType::ByteObject, bytes, false)?
            }
            _ => {
                let value = Encoded::lent(value, writer.limits.value_bytes_max)
                    .map_err(|reason| StoreError::Value { key: key.to_key(), reason })?;
                // A process without values has none to remove.
                let is_known = match is_first {
                    true => value.is_undefined(),
                    false => writer.is_stored(rank, Origin::Remote, key.as_str(), scope, &value)?,
                };
                if is_known {
                    // It counts if the key occurs twice, and is left out then.
                    block.push(Entry { id: id.0, scope: NOBODY, ..Entry::default() });
                    continue;
                }
                image.push_value(&value)?
            }
        };
        let origin = block::stored_origin(Origin::Remote);
        block.push(Entry { id: id.0, scope, origin, reserved: 0, cell });
    }
    block.sort_unstable_by_key(|entry| entry.id);
    if block.windows(2).any(|pair| matches!(pair, [one, next] if one.id == next.id)) {
        return Ok(Placed::Ambiguous);
    }
    block.retain(|entry| entry.scope != NOBODY);
    if block.is_empty() {
        return Ok(Placed::Nothing);
    }
    let payload_bytes = image.size_bytes().saturating_sub(before_bytes);
    let offset = if is_first { push_block(image, NO_BLOCK, block)? } else { writer.push_block(image, rank, block)? };
    Ok(Placed::At { offset, payload_bytes })
}

/// Scope of an entry that is not written, because readers find its value already.
const NOBODY: u8 = 0;

/// Result of placing a rank's values.
enum Placed {
    /// Offset of its block.
    At { offset: u64, payload_bytes: u64 },
    /// Readers find all of its values already.
    Nothing,
    /// A key occurs twice.
    Ambiguous,
}

/// Size at which a piece is published. It fits a processor's cache, so that the copy in ordinary memory costs little.
const PIECE_BYTES: u64 = 256 << 10;
