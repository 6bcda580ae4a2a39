//! Types that stand for PMIx value types in [`super::TypedKey`].
//!
//! A marker has no values: it only gives the compiler the type of a key's value. A marker exists in two cases: two PMIx
//! types map to the same Rust type (`size_t` and `uint64_t`), or the value is a structure.

/// `size_t`: a count or a size, 64 bits wide on the wire.
#[derive(Debug)]
pub enum Size {}

/// `pid_t`: a process identifier of the operating system.
#[derive(Debug)]
pub enum Pid {}

/// `time_t`: seconds since the Unix epoch.
#[derive(Debug)]
pub enum Time {}

/// `struct timeval`: seconds and microseconds.
#[derive(Debug)]
pub enum Timeval {}

/// `pmix_status_t`: a status code.
#[derive(Debug)]
pub enum StatusCode {}

/// `pmix_rank_t`: a rank.
#[derive(Debug)]
pub enum Rank {}

/// `pmix_proc_t*`: a namespace and a rank.
#[derive(Debug)]
pub enum Proc {}

/// `pmix_data_array_t*`: an array of values of one type.
#[derive(Debug)]
pub enum Array {}

/// `pmix_byte_object_t`: bytes without a structure.
#[derive(Debug)]
pub enum Bytes {}

/// `pmix_envar_t*`: an environment variable with value and separator.
#[derive(Debug)]
pub enum Envar {}

/// `pmix_scope_t`: visibility of a value.
#[derive(Debug)]
pub enum Scope {}

/// `pmix_data_range_t`: the audience of published data or an event.
#[derive(Debug)]
pub enum Range {}

/// `pmix_persistence_t`: lifetime of published data.
#[derive(Debug)]
pub enum Persistence {}

/// `pmix_proc_state_t`: the state of a process.
#[derive(Debug)]
pub enum ProcState {}

/// `pmix_link_state_t`: the state of a fabric link.
#[derive(Debug)]
pub enum LinkState {}

/// `pmix_device_type_t`: a set of device classes.
#[derive(Debug)]
pub enum DeviceType {}

/// `pmix_geometry_t`: coordinates of a device in the fabric.
#[derive(Debug)]
pub enum Geometry {}

/// `pmix_cpuset_t*`: a set of CPUs as a bitmap.
#[derive(Debug)]
pub enum Cpuset {}

/// `pmix_topology_t*`: a hardware topology.
#[derive(Debug)]
pub enum Topology {}

/// `pmix_alloc_inheritance_t`: heirs of an allocation's resources.
#[derive(Debug)]
pub enum AllocInheritance {}

/// `pmix_storage_medium_t`: a set of physical media.
#[derive(Debug)]
pub enum StorageMedium {}

/// `pmix_storage_accessibility_t`: reachability of storage.
#[derive(Debug)]
pub enum StorageAccessibility {}

/// `pmix_storage_persistence_t`: lifetime of stored data.
#[derive(Debug)]
pub enum StoragePersistence {}

/// `pmix_storage_access_type_t`: reading, writing or both.
#[derive(Debug)]
pub enum StorageAccessType {}

/// Any type: the standard allows several, or the value is a pointer, or the key has no value.
#[derive(Debug)]
pub enum Any {}

/// The key is the name of an environment variable, so nothing can be read from a store.
#[derive(Debug)]
pub enum EnvironmentVariable {}
