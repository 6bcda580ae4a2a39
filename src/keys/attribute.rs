//! One row of the attribute table.

use crate::types::DataType;

/// The standard's description of one reserved key.
///
/// Source: PMIx Standard, the attribute descriptions of every chapter, gathered over all released versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attribute {
    /// Name of the C macro, for example `PMIX_JOB_SIZE`. Unique.
    pub macro_name: &'static str,
    /// The key string, for example `pmix.job.size`. A few attributes share one: see [`super::rows_with_name`].
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
