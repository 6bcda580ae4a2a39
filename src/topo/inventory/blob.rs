//! An inventory as bytes.
//!
//! ```text
//! "MDXI"  version u16  zero u16  body length u32  body  XXH3-64 of all before u64
//! body: records, each  tag u16  zero u16  length u32  content
//! ```
//!
//! Numbers are little-endian. A reader skips records with unknown tags, so later versions may add some. The version
//! changes only if old readers must refuse the blob.

use xxhash_rust::xxh3::xxh3_64;

use super::{Caches, Device, Inventory, NumaMemory};

/// Limit of a blob: a node has at most thousands of devices.
pub const BLOB_BYTES_MAX: usize = 1 << 20;

const MAGIC: [u8; 4] = *b"MDXI";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 12;
const CHECK_BYTES: usize = 8;
/// Limit of entries of one kind.
const ENTRIES_MAX: usize = 1 << 14;
/// Limit of a text's bytes.
const TEXT_BYTES_MAX: usize = 1 << 10;
/// Stands for an unknown number.
const NONE: u32 = u32::MAX;

mod tag {
    pub(super) const NODE: u16 = 1;
    pub(super) const TOTALS: u16 = 2;
    pub(super) const MODEL: u16 = 3;
    pub(super) const MEMORY: u16 = 4;
    pub(super) const CACHES: u16 = 5;
    pub(super) const DEVICE: u16 = 6;
}

/// Why bytes are not an inventory, or why an inventory does not fit a blob.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InventoryError {
    /// They begin with other bytes.
    #[error("this is not an inventory: it does not begin with \"MDXI\"")]
    Magic,
    /// A later form.
    #[error("the inventory has version {found}; this library reads version {VERSION}")]
    Version {
        /// Its version.
        found: u16,
    },
    /// The number of bytes is wrong.
    #[error("the inventory announces {expected} bytes, but has {found}")]
    Length {
        /// The declared length.
        expected: usize,
        /// The actual length.
        found: usize,
    },
    /// The bytes differ from the written ones.
    #[error("the inventory is damaged: its bytes do not match their check sum")]
    Check,
    /// A record ends too early.
    #[error("record {tag} of the inventory, at byte {offset}, is too short")]
    Short {
        /// Kind of the record.
        tag: u16,
        /// Its start.
        offset: usize,
    },
    /// A text is too long, or not UTF-8.
    #[error(
        "record {tag} of the inventory, at byte {offset}, has a text that is not UTF-8 or exceeds {TEXT_BYTES_MAX} \
         bytes"
    )]
    Text {
        /// Kind of the record.
        tag: u16,
        /// Its start.
        offset: usize,
    },
    /// Too many of a kind.
    #[error("the inventory has too many {what}; the limit is {max}")]
    TooMany {
        /// The limited quantity.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// The inventory names no node.
    #[error("the inventory does not name its node")]
    Nameless,
    /// One name for two network devices.
    #[error("node '{node}' has two network devices with the name '{device}'")]
    TwoDevices {
        /// The node.
        node: String,
        /// The name.
        device: String,
    },
    /// One call with two inventories of a node.
    #[error("two of the inventories are of node '{node}'; deliver the newest one")]
    TwoOfNode {
        /// The node.
        node: String,
    },
}

#[cfg(test)]
thread_local! {
    static ENCODINGS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Number of encodings on this thread.
#[cfg(test)]
pub(crate) fn encodings() -> u64 {
    ENCODINGS.get()
}

impl Inventory {
    /// The inventory as bytes.
    ///
    /// # Errors
    /// [`InventoryError::TooMany`].
    pub fn encode(&self) -> Result<Vec<u8>, InventoryError> {
        #[cfg(test)]
        ENCODINGS.set(ENCODINGS.get() + 1);
        let mut body = Vec::new();
        record(&mut body, tag::NODE, &text(&self.node));
        let totals = [self.packages, self.cores, self.processors];
        record(&mut body, tag::TOTALS, &totals.map(u32::to_le_bytes).concat());
        record(&mut body, tag::MODEL, &text(&self.model));
        for memory in within("NUMA nodes", &self.memory)? {
            record(&mut body, tag::MEMORY, &[&memory.number.to_le_bytes()[..], &memory.bytes.to_le_bytes()].concat());
        }
        for caches in within("kinds of caches", &self.caches)? {
            let level = u32::from(caches.level).to_le_bytes();
            record(
                &mut body,
                tag::CACHES,
                &[&level[..], &caches.count.to_le_bytes(), &caches.bytes.to_le_bytes()].concat(),
            );
        }
        for device in within("devices", &self.devices)? {
            record(&mut body, tag::DEVICE, &device_bytes(device));
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len() + CHECK_BYTES);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend([0; 2]);
        bytes.extend(u32::try_from(body.len()).unwrap_or(NONE).to_le_bytes());
        bytes.extend(body);
        bytes.extend(xxh3_64(&bytes).to_le_bytes());
        if bytes.len() > BLOB_BYTES_MAX {
            return Err(InventoryError::TooMany { what: "bytes", max: BLOB_BYTES_MAX });
        }
        Ok(bytes)
    }

    /// Reads the result of [`Inventory::encode`], from this or another node.
    ///
    /// # Errors
    /// [`InventoryError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, InventoryError> {
        if bytes.len() > BLOB_BYTES_MAX {
            return Err(InventoryError::TooMany { what: "bytes", max: BLOB_BYTES_MAX });
        }
        let mut header = Fields { rest: bytes, tag: 0, offset: 0 };
        if header.array::<4>().ok() != Some(MAGIC) {
            return Err(InventoryError::Magic);
        }
        let version = header.u16()?;
        if version != VERSION {
            return Err(InventoryError::Version { found: version });
        }
        header.u16()?;
        let body_bytes = usize::try_from(header.u32()?).unwrap_or(usize::MAX);
        let expected = body_bytes.saturating_add(HEADER_BYTES + CHECK_BYTES);
        let wrong_length = InventoryError::Length { expected, found: bytes.len() };
        if expected != bytes.len() {
            return Err(wrong_length);
        }
        let (written, check) = bytes.split_last_chunk::<CHECK_BYTES>().ok_or(wrong_length)?;
        if xxh3_64(written) != u64::from_le_bytes(*check) {
            return Err(InventoryError::Check);
        }
        let mut inventory = Self::default();
        let mut body = written.get(HEADER_BYTES..).unwrap_or_default();
        while !body.is_empty() {
            let offset = written.len() - body.len();
            let mut head = Fields { rest: body, tag: 0, offset };
            let (tag, _, length) = (head.u16()?, head.u16()?, head.u32()?);
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let short = InventoryError::Short { tag, offset };
            let (content, behind) = head.rest.split_at_checked(length).ok_or(short)?;
            inventory.take(Fields { rest: content, tag, offset })?;
            body = behind;
        }
        if inventory.node.is_empty() { Err(InventoryError::Nameless) } else { Ok(inventory) }
    }

    /// Takes a record. Later versions may have added fields behind the known ones.
    fn take(&mut self, mut fields: Fields<'_>) -> Result<(), InventoryError> {
        match fields.tag {
            tag::NODE => self.node = fields.text()?,
            tag::TOTALS => (self.packages, self.cores, self.processors) = (fields.u32()?, fields.u32()?, fields.u32()?),
            tag::MODEL => self.model = fields.text()?,
            tag::MEMORY => {
                let memory = NumaMemory { number: fields.u32()?, bytes: fields.u64()? };
                add(&mut self.memory, memory, "NUMA nodes")?;
            }
            tag::CACHES => {
                let level = u8::try_from(fields.u32()?).unwrap_or(u8::MAX);
                let caches = Caches { level, count: fields.u32()?, bytes: fields.u64()? };
                add(&mut self.caches, caches, "kinds of caches")?;
            }
            tag::DEVICE => add(&mut self.devices, fields.device()?, "devices")?,
            _ => {}
        }
        Ok(())
    }
}

fn within<'a, T>(what: &'static str, entries: &'a [T]) -> Result<&'a [T], InventoryError> {
    if entries.len() > ENTRIES_MAX { Err(InventoryError::TooMany { what, max: ENTRIES_MAX }) } else { Ok(entries) }
}

fn add<T>(entries: &mut Vec<T>, entry: T, what: &'static str) -> Result<(), InventoryError> {
    if entries.len() >= ENTRIES_MAX {
        return Err(InventoryError::TooMany { what, max: ENTRIES_MAX });
    }
    entries.push(entry);
    Ok(())
}

/// A text with its length. A text longer than any name is cut.
fn text(text: &str) -> Vec<u8> {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let kept = text.get(..end).unwrap_or_default();
    let length = u16::try_from(kept.len()).unwrap_or(0).to_le_bytes();
    [&length[..], kept.as_bytes()].concat()
}

fn record(body: &mut Vec<u8>, tag: u16, content: &[u8]) {
    body.extend(tag.to_le_bytes());
    body.extend([0; 2]);
    body.extend(u32::try_from(content.len()).unwrap_or(NONE).to_le_bytes());
    body.extend(content);
}

fn device_bytes(device: &Device) -> Vec<u8> {
    let small = |number: Option<u16>| number.map_or(NONE, u32::from);
    let numbers =
        [small(device.vendor), small(device.model), device.package.unwrap_or(NONE), device.memory.unwrap_or(NONE)];
    let texts = [&device.name, &device.uuid, &device.subtype, &device.bus_address].map(|word| text(word));
    [&device.device_types.to_le_bytes()[..], &numbers.map(u32::to_le_bytes).concat(), &texts.concat()].concat()
}

/// The fields of a record.
struct Fields<'a> {
    rest: &'a [u8],
    tag: u16,
    offset: usize,
}

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], InventoryError> {
        let short = InventoryError::Short { tag: self.tag, offset: self.offset };
        let (first, rest) = self.rest.split_first_chunk::<N>().ok_or(short)?;
        self.rest = rest;
        Ok(*first)
    }

    fn u16(&mut self) -> Result<u16, InventoryError> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, InventoryError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, InventoryError> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<String, InventoryError> {
        let length = usize::from(self.u16()?);
        let short = InventoryError::Short { tag: self.tag, offset: self.offset };
        let (bytes, rest): (&'a [u8], &'a [u8]) = self.rest.split_at_checked(length).ok_or(short)?;
        self.rest = rest;
        let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= TEXT_BYTES_MAX);
        text.map(str::to_owned).ok_or(InventoryError::Text { tag: self.tag, offset: self.offset })
    }

    fn device(&mut self) -> Result<Device, InventoryError> {
        let device_types = self.u64()?;
        let numbers = [self.u32()?, self.u32()?, self.u32()?, self.u32()?];
        let [vendor, model, package, memory] = numbers.map(|number| (number != NONE).then_some(number));
        let small = |number: Option<u32>| number.and_then(|number| u16::try_from(number).ok());
        Ok(Device {
            device_types,
            name: self.text()?,
            uuid: self.text()?,
            subtype: self.text()?,
            bus_address: self.text()?,
            vendor: small(vendor),
            model: small(model),
            package,
            memory,
        })
    }
}
