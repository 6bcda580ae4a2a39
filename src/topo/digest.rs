//! From hwloc's XML to the rows of a topology.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use super::cpu_set::{CpuSet, CpuSetError};
use super::format::{NO_DEPTH, NONE, OBJECTS_MAX, ObjectRow, REMARKS_MAX, RemarkRow, WORDS_MAX};
use super::kind::Kind;
use super::levels;
use super::rows::{RowError, Rows};
use crate::types::codes::device_type;

/// The rows of a topology in this process's memory.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Digest {
    pub(super) objects: Vec<ObjectRow>,
    pub(super) remarks: Vec<RemarkRow>,
    pub(super) sets: Vec<u64>,
    pub(super) set_words: u32,
    pub(super) texts: Vec<u8>,
}

/// Why a text is not a topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DigestError {
    /// Longer than [`XML_BYTES_MAX`].
    #[error("the topology is {found} bytes of XML; at most {XML_BYTES_MAX} are read")]
    TooLong {
        /// Its length.
        found: usize,
    },
    /// It is not XML.
    #[error("the topology's XML cannot be read at byte {offset}: {reason}")]
    Malformed {
        /// Start of the element or other part.
        offset: u64,
        /// The XML reader's message.
        reason: String,
    },
    /// The format of another release of hwloc.
    #[error("the topology has the XML format of hwloc {found}; export it with hwloc 2 or 3")]
    Version {
        /// The version in the text; empty if it has none.
        found: String,
    },
    /// An attribute is not a valid number.
    #[error("the topology has {attribute}={value:?} at byte {offset}, which is not a valid number")]
    Number {
        /// The attribute.
        attribute: &'static str,
        /// Its text.
        value: String,
        /// Start of its element.
        offset: u64,
    },
    /// A set of processors is not valid.
    #[error("the topology has a set of processors that can't be read: {0}")]
    Set(#[from] CpuSetError),
    /// Elements are nested too deeply.
    #[error("the topology's elements are more than {DEPTH_MAX} deep")]
    Depth,
    /// Too many of a kind.
    #[error("the topology has more than {max} {what}")]
    TooMany {
        /// The limited quantity.
        what: &'static str,
        /// The limit.
        max: u32,
    },
    /// The rows do not make a machine.
    #[error("the topology is not consistent: {0}")]
    Rows(#[from] RowError),
}

impl Digest {
    /// Reads the XML of hwloc 2 or 3.
    pub(super) fn of_xml(xml: &str) -> Result<Self, DigestError> {
        if xml.len() > XML_BYTES_MAX {
            return Err(DigestError::TooLong { found: xml.len() });
        }
        let mut builder = Builder::default();
        let mut reader = Reader::from_str(xml);
        loop {
            let offset = reader.buffer_position();
            match reader.read_event().map_err(|error| malformed(offset, error))? {
                Event::Eof => break,
                Event::End(_) => {
                    builder.open.pop();
                }
                Event::Empty(element) => {
                    builder.element(&element, offset)?;
                }
                Event::Start(element) => {
                    let inside = builder.element(&element, offset)?;
                    builder.enter(inside)?;
                }
                // Text between elements, declarations and comments.
                _ => {}
            }
        }
        builder.finish()
    }

    pub(super) fn rows(&self) -> Rows<'_> {
        Rows {
            objects: &self.objects,
            remarks: &self.remarks,
            sets: &self.sets,
            set_words: self.set_words,
            texts: &self.texts,
        }
    }
}

#[derive(Default)]
struct Builder {
    /// The open elements, outermost first, each with its object if it has one.
    open: Vec<Option<u32>>,
    release: u32,
    objects: Vec<ObjectRow>,
    /// Kind and subkind of each group: different ones make different levels.
    group_kinds: BTreeMap<u32, (u64, u64)>,
    remarks: Vec<(u32, RemarkRow)>,
    sets: BTreeMap<CpuSet, u32>,
    texts: Vec<u8>,
    known_texts: BTreeMap<String, u32>,
}

/// Attributes of an object element, gathered before the object is made.
#[derive(Default)]
struct Said {
    row: ObjectRow,
    set: Option<CpuSet>,
    name: String,
    subtype: String,
    group: (u64, u64),
    pci_address: Option<String>,
}

impl Builder {
    fn enter(&mut self, object: Option<u32>) -> Result<(), DigestError> {
        if self.open.len() >= DEPTH_MAX {
            return Err(DigestError::Depth);
        }
        self.open.push(object);
        Ok(())
    }

    /// Adds an element; returns its object, if it is one.
    fn element(&mut self, element: &BytesStart<'_>, offset: u64) -> Result<Option<u32>, DigestError> {
        let mut attributes = attributes(element, offset);
        match element.name().as_ref() {
            "topology" => self.topology(attributes).map(|()| None),
            "object" => self.object(attributes, offset).map(Some),
            "info" => self.remark(attributes).map(|()| None),
            _ => {
                attributes.try_for_each(|attribute| attribute.map(drop))?;
                Ok(None)
            }
        }
    }

    fn topology<'a>(&mut self, attributes: impl Attributes<'a>) -> Result<(), DigestError> {
        let mut found = String::new();
        for attribute in attributes {
            let (name, value) = attribute?;
            if name == "version" {
                found = value.chars().take(32).collect();
            }
        }
        self.release = found.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
        if matches!(self.release, 2 | 3) { Ok(()) } else { Err(DigestError::Version { found }) }
    }

    fn object<'a>(&mut self, attributes: impl Attributes<'a>, offset: u64) -> Result<u32, DigestError> {
        if self.release == 0 {
            return Err(DigestError::Version { found: String::new() });
        }
        let index = u32::try_from(self.objects.len()).unwrap_or(u32::MAX);
        if index >= OBJECTS_MAX {
            return Err(DigestError::TooMany { what: "objects", max: OBJECTS_MAX });
        }
        let mut said = Said { row: ObjectRow { os_index: NONE, set: NONE, ..ObjectRow::default() }, ..Said::default() };
        for attribute in attributes {
            let (name, value) = attribute?;
            said.take(name, value, self.release, offset)?;
        }
        let Said { mut row, set, name, subtype, group, pci_address } = said;
        row.parent = self.open.iter().rev().find_map(|inside| *inside).unwrap_or(NONE);
        row.depth = NO_DEPTH;
        (row.name, row.name_len) = self.text(&name)?;
        (row.subtype, row.subtype_len) = self.text(&subtype)?;
        if let Some(set) = set {
            let next = u32::try_from(self.sets.len()).unwrap_or(NONE);
            row.set = *self.sets.entry(set).or_insert(next);
        }
        if Kind::of_number(row.kind) == Kind::Group {
            self.group_kinds.insert(index, group);
        }
        self.objects.push(row);
        if let Some(address) = pci_address {
            self.add_remark(index, PCI_ADDRESS, &address)?;
        }
        Ok(index)
    }

    fn remark<'a>(&mut self, attributes: impl Attributes<'a>) -> Result<(), DigestError> {
        let (mut name, mut value) = (Cow::Borrowed(""), Cow::Borrowed(""));
        for attribute in attributes {
            match attribute? {
                ("name", text) => name = text,
                ("value", text) => value = text,
                _ => {}
            }
        }
        // A remark belongs to the object around it; remarks inside distances are dropped.
        let Some(Some(object)) = self.open.last().copied() else { return Ok(()) };
        self.add_remark(object, &name, &value)
    }

    fn add_remark(&mut self, object: u32, name: &str, value: &str) -> Result<(), DigestError> {
        if self.remarks.len() >= REMARKS_MAX as usize {
            return Err(DigestError::TooMany { what: "remarks", max: REMARKS_MAX });
        }
        let ((name, name_len), (value, value_len)) = (self.text(name)?, self.text(value)?);
        self.remarks.push((object, RemarkRow { name, name_len, value, value_len }));
        Ok(())
    }

    /// Position of a text; equal texts are stored once.
    fn text(&mut self, text: &str) -> Result<(u32, u32), DigestError> {
        let too_many = || DigestError::TooMany { what: "bytes of text", max: u32::MAX };
        let length = u32::try_from(text.len()).map_err(|_| too_many())?;
        if length == 0 {
            return Ok((0, 0));
        }
        if let Some(position) = self.known_texts.get(text) {
            return Ok((*position, length));
        }
        let position = u32::try_from(self.texts.len()).map_err(|_| too_many())?;
        self.texts.extend_from_slice(text.as_bytes());
        self.known_texts.insert(text.to_owned(), position);
        Ok((position, length))
    }

    fn finish(mut self) -> Result<Digest, DigestError> {
        // Each may be a level of its own; machines have two or three.
        if self.group_kinds.values().collect::<BTreeSet<_>>().len() > GROUP_KINDS_MAX as usize {
            return Err(DigestError::TooMany { what: "kinds of groups", max: GROUP_KINDS_MAX });
        }
        self.remarks.sort_by_key(|(object, _)| *object);
        for (position, (object, _)) in (0_u32..).zip(&self.remarks) {
            let Some(row) = self.objects.get_mut(*object as usize) else { continue };
            if row.remark_count == 0 {
                row.first_remark = position;
            }
            row.remark_count += 1;
        }
        let set_words = self.sets.keys().map(|set| set.words().len()).max().unwrap_or(0);
        let word_count = set_words.saturating_mul(self.sets.len());
        if word_count > WORDS_MAX as usize {
            return Err(DigestError::TooMany { what: "words of sets", max: WORDS_MAX });
        }
        let mut sets = vec![0; word_count];
        for (set, index) in &self.sets {
            let place = sets.iter_mut().skip(set_words * *index as usize);
            place.zip(set.words()).for_each(|(place, word)| *place = *word);
        }
        let mut digest = Digest {
            objects: self.objects,
            remarks: self.remarks.into_iter().map(|(_, row)| row).collect(),
            sets,
            // At most `SET_WORDS_MAX`.
            set_words: u32::try_from(set_words).unwrap_or(0),
            texts: self.texts,
        };
        digest.rows().check()?;
        levels::number(&mut digest.objects, &self.group_kinds);
        Ok(digest)
    }
}

impl Said {
    fn take(&mut self, name: &str, value: Cow<'_, str>, release: u32, offset: u64) -> Result<(), DigestError> {
        match name {
            "type" => self.row.kind = Kind::of_name(&value).number(),
            "os_index" => self.row.os_index = u32::try_from(number("os_index", &value, offset)?).unwrap_or(NONE),
            "cpuset" => self.set = Some(CpuSet::of_mask(&value)?),
            "name" => self.name = value.into_owned(),
            "subtype" => self.subtype = value.into_owned(),
            "cache_size" => self.row.size = number("cache_size", &value, offset)?,
            "local_memory" => self.row.size = number("local_memory", &value, offset)?,
            "kind" => self.group.0 = number("kind", &value, offset)?,
            "subkind" => self.group.1 = number("subkind", &value, offset)?,
            "osdev_type" => self.row.device = device_types(release, number("osdev_type", &value, offset)?),
            "pci_type" if self.row.device == 0 => self.row.device = pci_numbers(&value).unwrap_or(0),
            "pci_busid" => self.pci_address = Some(value.into_owned()),
            _ => {}
        }
        Ok(())
    }
}

/// Names and values of an element's attributes.
trait Attributes<'a>: Iterator<Item = Result<(&'a str, Cow<'a, str>), DigestError>> {}
impl<'a, I: Iterator<Item = Result<(&'a str, Cow<'a, str>), DigestError>>> Attributes<'a> for I {}

fn attributes<'a>(element: &'a BytesStart<'_>, offset: u64) -> impl Attributes<'a> {
    let mut attributes = element.attributes();
    // To find a name that stands twice, the reader compares each name with all before it.
    attributes.with_checks(false);
    attributes.map(move |attribute| {
        let attribute = attribute.map_err(|error| malformed(offset, error.into()))?;
        let value = attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|error| malformed(offset, error))?;
        Ok((attribute.key.into_inner(), value))
    })
}

fn malformed(offset: u64, error: quick_xml::Error) -> DigestError {
    DigestError::Malformed { offset, reason: error.to_string() }
}

fn number(attribute: &'static str, value: &str, offset: u64) -> Result<u64, DigestError> {
    let refuse = |_| DigestError::Number { attribute, value: value.chars().take(32).collect(), offset };
    value.parse().map_err(refuse)
}

/// The standard's bits for hwloc's kind of device: a number in form 2, bits in form 3.
fn device_types(release: u32, number: u64) -> u64 {
    if release == 2 {
        let known = [
            device_type::DEVTYPE_BLOCK,
            device_type::DEVTYPE_GPU,
            device_type::DEVTYPE_NETWORK,
            device_type::DEVTYPE_OPENFABRICS,
            device_type::DEVTYPE_DMA,
            device_type::DEVTYPE_COPROC,
        ];
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        return known.get(index).copied().unwrap_or(device_type::DEVTYPE_UNKNOWN);
    }
    let known = [
        (0, device_type::DEVTYPE_BLOCK),
        (2, device_type::DEVTYPE_GPU),
        (3, device_type::DEVTYPE_COPROC),
        (4, device_type::DEVTYPE_NETWORK),
        (5, device_type::DEVTYPE_OPENFABRICS),
        (6, device_type::DEVTYPE_DMA),
    ];
    known.into_iter().filter(|(bit, _)| number >> bit & 1 == 1).map(|(_, kind)| kind).sum()
}

/// `0200 [8086:1572] [...] 02`: class, vendor, device, and the revision at the end.
fn pci_numbers(text: &str) -> Option<u64> {
    let hexadecimal = |digits: &str| u64::from_str_radix(digits, 16).ok().filter(|number| *number <= 0xffff);
    let (class, rest) = text.split_once(" [")?;
    let (ids, rest) = rest.split_once(']')?;
    let (vendor, device) = ids.split_once(':')?;
    let revision = rest.rsplit(' ').next().and_then(hexadecimal).unwrap_or(0);
    Some(hexadecimal(class)? << 48 | hexadecimal(vendor)? << 32 | hexadecimal(device)? << 16 | revision)
}

/// Limit of the XML; the largest machines have a few MiB.
pub const XML_BYTES_MAX: usize = 16 << 20;
/// The remark that holds the address of a PCI device or bridge (`0000:3b:00.0`).
pub(super) const PCI_ADDRESS: &str = "pci_busid";
/// Limit of kinds of groups: each level of a machine costs a pass over all remaining objects.
const GROUP_KINDS_MAX: u32 = 64;
/// Limit of nested elements; machines have about twenty.
const DEPTH_MAX: usize = 128;
