//! The scalar types of the C interface.

pub use std::ffi::{c_char, c_int, c_uint, c_void};

pub use nix::libc::{pid_t, time_t, timeval};

/// Longest namespace, without the closing NUL.
pub const PMIX_MAX_NSLEN: usize = 255;
/// Longest key, without the closing NUL.
pub const PMIX_MAX_KEYLEN: usize = 511;

/// A namespace in place.
pub type pmix_nspace_t = [c_char; PMIX_MAX_NSLEN + 1];
/// A key in place.
pub type pmix_key_t = [c_char; PMIX_MAX_KEYLEN + 1];
/// A rank or one of the special numbers above `0xffff_fff0`.
pub type pmix_rank_t = u32;
/// A status code.
pub type pmix_status_t = c_int;
/// Code of a data type.
pub type pmix_data_type_t = u16;
/// Code of a process state.
pub type pmix_proc_state_t = u8;
/// Code of a job state.
pub type pmix_job_state_t = u8;
/// Code of a scope.
pub type pmix_scope_t = u8;
/// Code of a range.
pub type pmix_data_range_t = u8;
/// Code of a persistence.
pub type pmix_persistence_t = u8;
/// Flags of an info.
pub type pmix_info_directives_t = u32;
/// Code of an allocation directive.
pub type pmix_alloc_directive_t = u8;
/// Code of an inheritance of an allocation.
pub type pmix_alloc_inheritance_t = u8;
/// Set of IO channels.
pub type pmix_iof_channel_t = u16;
/// Set of storage media.
pub type pmix_storage_medium_t = u64;
/// Set of storage accessibilities.
pub type pmix_storage_accessibility_t = u64;
/// Set of storage persistences.
pub type pmix_storage_persistence_t = u64;
/// Set of storage access types.
pub type pmix_storage_access_type_t = u16;
/// Code of a view on coordinates.
pub type pmix_coord_view_t = u8;
/// Code of the state of a link.
pub type pmix_link_state_t = u8;
/// Code of an envelope of a binding.
pub type pmix_bind_envelope_t = u8;
/// Set of localities.
pub type pmix_locality_t = u16;
/// Set of device types.
pub type pmix_device_type_t = u64;
/// Code of a directive about a resource block.
pub type pmix_resource_block_directive_t = u8;
/// Result of a comparison of values.
pub type pmix_value_cmp_t = c_uint;
/// Answer to an invitation into a group.
pub type pmix_group_opt_t = c_uint;
/// Operation on a group.
pub type pmix_group_operation_t = c_uint;
/// A truth value as an info may hold it.
pub type pmix_boolean_t = c_uint;
/// Operation on a fabric.
pub type pmix_fabric_operation_t = c_uint;
