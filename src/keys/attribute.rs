//! One row of the attribute table, and the look-ups over all rows.

use std::ops::Range;

use super::attributes_table::{BY_MACRO, ROWS};
use super::packed::{Packed, text_bytes};
use crate::types::DataType;

/// The standard's description of one reserved key.
///
/// Source: PMIx Standard, the attribute descriptions of every chapter, gathered over all released versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attribute {
    /// Name of the C macro, for example `PMIX_JOB_SIZE`. Unique.
    pub macro_name: &'static str,
    /// The key string, for example `pmix.job.size`. A few attributes share one: see [`rows_with_name`].
    pub name: &'static str,
    /// Type of the value that belongs to the key.
    pub value_type: ValueKind,
    /// First version of PMIx that had the attribute, for example `4.2` or `7.0-dev`.
    pub since: &'static str,
    /// Whether the attribute is still part of the standard.
    pub standing: Standing,
    /// Meaning of the value, with its unit.
    pub meaning: &'static str,
    /// Data realm of the key, or the subject of a directive.
    pub realm: Realm,
}

impl Attribute {
    /// Whether the attribute is neither deprecated, removed nor internal.
    #[must_use]
    pub const fn is_current(&self) -> bool {
        matches!(self.standing, Standing::Current)
    }
}

/// The realm of an attribute: one of the standard's five data realms, or the subject it serves.
///
/// This is the realm the attribute is listed under. For the realm that a `Get` searches, see [`super::default_realm`].
/// Source: PMIx Standard, chapter "Data Access and Sharing", section on data realms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Realm {
    /// The allocation that contains the jobs.
    Session,
    /// The namespace.
    Job,
    /// One application of a job.
    Application,
    /// One node.
    Node,
    /// One process.
    Process,
    /// No data realm: the subject as the table names it, for example `directive`, `event` or `iof`.
    Other(&'static str),
}

/// Whether an attribute is still part of the standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Standing {
    /// In use.
    Current,
    /// Still defined, but new code should not use it.
    Deprecated,
    /// Used inside the reference library and never part of the standard.
    Internal,
    /// No longer defined; names the last version with it.
    RemovedAfter(&'static str),
}

/// Type of an attribute's value, as the standard states it.
///
/// Kinds with the same Rust type are separate here, because they are different PMIx data types on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ValueKind {
    /// `bool`
    Bool,
    /// `char*`, a string
    String,
    /// `int`
    Int,
    /// `int32_t`
    Int32,
    /// `uint16_t`
    Uint16,
    /// `uint32_t`
    Uint32,
    /// `uint64_t`
    Uint64,
    /// `size_t`
    Size,
    /// `float`
    Float,
    /// `double`
    Double,
    /// `pid_t`
    Pid,
    /// `time_t`, seconds
    Time,
    /// `struct timeval`
    Timeval,
    /// `pmix_status_t`
    Status,
    /// `pmix_rank_t`
    Rank,
    /// `pmix_proc_t*`
    Proc,
    /// `pmix_data_array_t*`
    Array,
    /// `pmix_byte_object_t`
    Bytes,
    /// `pmix_envar_t*`
    Envar,
    /// `pmix_scope_t`
    Scope,
    /// `pmix_data_range_t`
    Range,
    /// `pmix_persistence_t`
    Persistence,
    /// `pmix_proc_state_t`
    ProcState,
    /// `pmix_link_state_t`
    LinkState,
    /// `pmix_device_type_t`
    DeviceType,
    /// `pmix_geometry_t`
    Geometry,
    /// `pmix_cpuset_t*`
    Cpuset,
    /// `pmix_topology_t*`
    Topology,
    /// `pmix_alloc_inheritance_t`
    AllocInheritance,
    /// `pmix_storage_medium_t`
    StorageMedium,
    /// `pmix_storage_accessibility_t`
    StorageAccessibility,
    /// `pmix_storage_persistence_t`
    StoragePersistence,
    /// `pmix_storage_access_type_t`
    StorageAccessType,
    /// An address inside the process that set it; it never travels.
    Pointer,
    /// Several types are legal.
    Varies,
    /// The attribute has no value.
    None,
    /// The key is the name of an environment variable, not of a stored value.
    EnvironmentVariable,
}

impl ValueKind {
    /// The data type of such a value; undefined for none or several.
    #[must_use]
    pub const fn data_type(self) -> DataType {
        match self {
            Self::Bool => DataType::Bool,
            Self::String | Self::EnvironmentVariable => DataType::String,
            Self::Int => DataType::Int,
            Self::Int32 => DataType::Int32,
            Self::Uint16 => DataType::Uint16,
            Self::Uint32 => DataType::Uint32,
            Self::Uint64 => DataType::Uint64,
            Self::Size => DataType::Size,
            Self::Float => DataType::Float,
            Self::Double => DataType::Double,
            Self::Pid => DataType::Pid,
            Self::Time => DataType::Time,
            Self::Timeval => DataType::Timeval,
            Self::Status => DataType::Status,
            Self::Rank => DataType::ProcRank,
            Self::Proc => DataType::Proc,
            Self::Array => DataType::DataArray,
            Self::Bytes => DataType::ByteObject,
            Self::Envar => DataType::Envar,
            Self::Scope => DataType::Scope,
            Self::Range => DataType::DataRange,
            Self::Persistence => DataType::Persistence,
            Self::ProcState => DataType::ProcState,
            Self::LinkState => DataType::LinkState,
            Self::DeviceType => DataType::DeviceType,
            Self::Geometry => DataType::Geometry,
            Self::Cpuset => DataType::ProcCpuset,
            Self::Topology => DataType::Topology,
            Self::StorageMedium => DataType::StorageMedium,
            Self::StorageAccessibility => DataType::StorageAccess,
            Self::StoragePersistence => DataType::StoragePersistence,
            Self::StorageAccessType => DataType::StorageAccessType,
            Self::Pointer => DataType::Pointer,
            Self::AllocInheritance | Self::Varies | Self::None => DataType::Undefined,
        }
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

/// Builds one row; it keeps the generated table at one line per attribute.
pub(super) const fn row(
    macro_name: &'static str,
    name: &'static str,
    value_type: ValueKind,
    since: &'static str,
    standing: Standing,
    realm: Realm,
    meaning: &'static str,
) -> Attribute {
    Attribute { macro_name, name, value_type, since, standing, meaning, realm }
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
    fn what_was_packed_comes_back() {
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
