//! The public structures of the C interface, with the layout that every release has had since 3.0.
//!
//! Field names are the standard's; `type` is `type_`. A C `bool` is a byte here, because a caller may store other
//! numbers than 0 and 1 in it.

use super::scalars::*;

/// Fails the build when a structure's layout differs from the interface: size, alignment, offset of each field.
macro_rules! layout {
    ($name:ident, $size:literal, $align:literal; $($field:ident: $offset:literal),* $(,)?) => {
        const _: () = assert!(size_of::<$name>() == $size && align_of::<$name>() == $align);
        $(const _: () = assert!(std::mem::offset_of!($name, $field) == $offset);)*
    };
}
pub(super) use layout;

/// Bytes and their number.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_byte_object_t {
    pub bytes: *mut c_char,
    pub size: usize,
}

/// An environment variable and the separator of its parts.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_envar_t {
    pub envar: *mut c_char,
    pub value: *mut c_char,
    pub separator: c_char,
}

/// Packed data; the pointers point into one block.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_data_buffer_t {
    pub base_ptr: *mut c_char,
    pub pack_ptr: *mut c_char,
    pub unpack_ptr: *mut c_char,
    pub bytes_allocated: usize,
    pub bytes_used: usize,
}

/// Namespace and rank.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_proc_t {
    pub nspace: pmix_nspace_t,
    pub rank: pmix_rank_t,
}

/// A process, as a tool sees it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_proc_info_t {
    pub proc: pmix_proc_t,
    pub hostname: *mut c_char,
    pub executable_name: *mut c_char,
    pub pid: pid_t,
    pub exit_code: c_int,
    pub state: pmix_proc_state_t,
}

/// Elements of one type in one block.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_data_array_t {
    pub type_: pmix_data_type_t,
    pub size: usize,
    pub array: *mut c_void,
}

/// The payload of a [`pmix_value_t`], whose type selects the member.
#[repr(C)]
#[derive(Clone, Copy)]
pub union pmix_value_data_t {
    pub flag: u8,
    pub byte: u8,
    pub string: *mut c_char,
    pub size: usize,
    pub pid: pid_t,
    pub integer: c_int,
    pub int8: i8,
    pub int16: i16,
    pub int32: i32,
    pub int64: i64,
    pub uint: c_uint,
    pub uint8: u8,
    pub uint16: u16,
    pub uint32: u32,
    pub uint64: u64,
    pub fval: f32,
    pub dval: f64,
    pub tv: timeval,
    pub time: time_t,
    pub status: pmix_status_t,
    pub rank: pmix_rank_t,
    pub proc: *mut pmix_proc_t,
    pub bo: pmix_byte_object_t,
    pub persist: pmix_persistence_t,
    pub scope: pmix_scope_t,
    pub range: pmix_data_range_t,
    pub state: pmix_proc_state_t,
    pub pinfo: *mut pmix_proc_info_t,
    pub darray: *mut pmix_data_array_t,
    pub ptr: *mut c_void,
    pub adir: pmix_alloc_directive_t,
    pub envar: pmix_envar_t,
    pub nspace: *mut pmix_nspace_t,
    pub coord: *mut pmix_coord_t,
    pub linkstate: pmix_link_state_t,
    pub jstate: pmix_job_state_t,
    pub topo: *mut pmix_topology_t,
    pub cpuset: *mut pmix_cpuset_t,
    pub locality: pmix_locality_t,
    pub geometry: *mut pmix_geometry_t,
    pub devtype: pmix_device_type_t,
    pub devdist: *mut pmix_device_distance_t,
    pub endpoint: *mut pmix_endpoint_t,
    pub dbuf: *mut pmix_data_buffer_t,
    pub pstats: *mut pmix_proc_stats_t,
    pub dkstats: *mut pmix_disk_stats_t,
    pub netstats: *mut pmix_net_stats_t,
    pub ndstats: *mut pmix_node_stats_t,
    pub rbdir: pmix_resource_block_directive_t,
    pub device: *mut pmix_device_t,
    pub resunit: *mut pmix_resource_unit_t,
    pub nodepid: *mut pmix_node_pid_t,
    pub regex2: *mut pmix_regex2_t,
    pub inheritance: pmix_alloc_inheritance_t,
}

/// Reads of the payload as one of its members.
macro_rules! members {
    ($($name:ident: $type:ty),* $(,)?) => {
        impl pmix_value_data_t {
            $(
                /// The member of this name, whatever the type of the value.
                #[must_use]
                pub const fn $name(&self) -> $type {
                    // SAFETY: the member is a number or a pointer, for which any bytes are valid. All bytes are
                    // initialised: a payload comes from C, or begins as zero (`Form::construct`).
                    unsafe { self.$name }
                }
            )*
        }
    };
}

members! {
    flag: u8,
    uint16: u16,
    uint32: u32,
    rank: pmix_rank_t,
    string: *mut c_char,
    bo: pmix_byte_object_t,
    darray: *mut pmix_data_array_t,
    topo: *mut pmix_topology_t,
    ptr: *mut c_void,
}

/// A value of any type.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_value_t {
    pub type_: pmix_data_type_t,
    pub data: pmix_value_data_t,
}

/// Key, flags and value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_info_t {
    pub key: pmix_key_t,
    pub flags: pmix_info_directives_t,
    pub value: pmix_value_t,
}

/// A published value and its publisher.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_pdata_t {
    pub proc: pmix_proc_t,
    pub key: pmix_key_t,
    pub value: pmix_value_t,
}

/// An application to start.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_app_t {
    pub cmd: *mut c_char,
    pub argv: *mut *mut c_char,
    pub env: *mut *mut c_char,
    pub cwd: *mut c_char,
    pub maxprocs: c_int,
    pub info: *mut pmix_info_t,
    pub ninfo: usize,
}

/// Keys of a query, and qualifiers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_query_t {
    pub keys: *mut *mut c_char,
    pub qualifiers: *mut pmix_info_t,
    pub nqual: usize,
}

/// Coordinates in a fabric.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_coord_t {
    pub view: pmix_coord_view_t,
    pub coord: *mut u32,
    pub dims: usize,
}

/// A set of processors.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_cpuset_t {
    pub source: *mut c_char,
    pub bitmap: *mut c_void,
}

/// A hardware topology.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_topology_t {
    pub source: *mut c_char,
    pub topology: *mut c_void,
}

/// Place of a device in a fabric.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_geometry_t {
    pub fabric: usize,
    pub uuid: *mut c_char,
    pub osname: *mut c_char,
    pub coordinates: *mut pmix_coord_t,
    pub ncoords: usize,
}

/// Distance of a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_device_distance_t {
    pub uuid: *mut c_char,
    pub osname: *mut c_char,
    pub type_: pmix_device_type_t,
    pub mindist: u16,
    pub maxdist: u16,
}

/// A fabric endpoint.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_endpoint_t {
    pub uuid: *mut c_char,
    pub osname: *mut c_char,
    pub endpt: pmix_byte_object_t,
}

/// Resource usage of a process.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_proc_stats_t {
    pub node: *mut c_char,
    pub proc: pmix_proc_t,
    pub pid: pid_t,
    pub cmd: *mut c_char,
    pub state: c_char,
    pub time: timeval,
    pub percent_cpu: f32,
    pub priority: i32,
    pub num_threads: u16,
    pub pss: f32,
    pub vsize: f32,
    pub rss: f32,
    pub peak_vsize: f32,
    pub processor: u16,
    pub sample_time: timeval,
}

/// Usage of a disk.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_disk_stats_t {
    pub disk: *mut c_char,
    pub num_reads_completed: u64,
    pub num_reads_merged: u64,
    pub num_sectors_read: u64,
    pub milliseconds_reading: u64,
    pub num_writes_completed: u64,
    pub num_writes_merged: u64,
    pub num_sectors_written: u64,
    pub milliseconds_writing: u64,
    pub num_ios_in_progress: u64,
    pub milliseconds_io: u64,
    pub weighted_milliseconds_io: u64,
}

/// Usage of a network interface.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_net_stats_t {
    pub net_interface: *mut c_char,
    pub num_bytes_recvd: u64,
    pub num_packets_recvd: u64,
    pub num_recv_errs: u64,
    pub num_bytes_sent: u64,
    pub num_packets_sent: u64,
    pub num_send_errs: u64,
}

/// Resource usage of a node.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_node_stats_t {
    pub node: *mut c_char,
    pub la: f32,
    pub la5: f32,
    pub la15: f32,
    pub total_mem: f32,
    pub free_mem: f32,
    pub buffers: f32,
    pub cached: f32,
    pub swap_cached: f32,
    pub swap_total: f32,
    pub swap_free: f32,
    pub mapped: f32,
    pub sample_time: timeval,
    pub diskstats: *mut pmix_disk_stats_t,
    pub ndiskstats: usize,
    pub netstats: *mut pmix_net_stats_t,
    pub nnetstats: usize,
}

/// A supported attribute.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_regattr_t {
    pub name: *mut c_char,
    pub string: pmix_key_t,
    pub type_: pmix_data_type_t,
    pub description: *mut *mut c_char,
}

/// A fabric.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_fabric_t {
    pub name: *mut c_char,
    pub index: usize,
    pub info: *mut pmix_info_t,
    pub ninfo: usize,
    pub module: *mut c_void,
}

/// A device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_device_t {
    pub uuid: *mut c_char,
    pub osname: *mut c_char,
    pub type_: pmix_device_type_t,
}

/// A number of devices of a type.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_resource_unit_t {
    pub type_: pmix_device_type_t,
    pub count: usize,
}

/// A process id and its node.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_node_pid_t {
    pub hostname: *mut c_char,
    pub nodeid: u32,
    pub pid: pid_t,
}

/// A compressed expression and its kind.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_regex2_t {
    pub type_: *mut c_char,
    pub bytes: *mut u8,
    pub len: usize,
}

layout!(pmix_byte_object_t, 16, 8; bytes: 0, size: 8);
layout!(pmix_envar_t, 24, 8; envar: 0, value: 8, separator: 16);
layout!(pmix_data_buffer_t, 40, 8; base_ptr: 0, pack_ptr: 8, unpack_ptr: 16, bytes_allocated: 24, bytes_used: 32);
layout!(pmix_proc_t, 260, 4; nspace: 0, rank: 256);
layout!(pmix_proc_info_t, 296, 8; proc: 0, hostname: 264, executable_name: 272, pid: 280, exit_code: 284, state: 288);
layout!(pmix_data_array_t, 24, 8; type_: 0, size: 8, array: 16);
const _: () = assert!(size_of::<pmix_value_data_t>() == 24);
layout!(pmix_value_t, 32, 8; type_: 0, data: 8);
layout!(pmix_info_t, 552, 8; key: 0, flags: 512, value: 520);
layout!(pmix_pdata_t, 808, 8; proc: 0, key: 260, value: 776);
layout!(pmix_app_t, 56, 8; cmd: 0, argv: 8, env: 16, cwd: 24, maxprocs: 32, info: 40, ninfo: 48);
layout!(pmix_query_t, 24, 8; keys: 0, qualifiers: 8, nqual: 16);
layout!(pmix_coord_t, 24, 8; view: 0, coord: 8, dims: 16);
layout!(pmix_cpuset_t, 16, 8; source: 0, bitmap: 8);
layout!(pmix_topology_t, 16, 8; source: 0, topology: 8);
layout!(pmix_geometry_t, 40, 8; fabric: 0, uuid: 8, osname: 16, coordinates: 24, ncoords: 32);
layout!(pmix_device_distance_t, 32, 8; uuid: 0, osname: 8, type_: 16, mindist: 24, maxdist: 26);
layout!(pmix_endpoint_t, 32, 8; uuid: 0, osname: 8, endpt: 16);
layout!(pmix_proc_stats_t, 352, 8; node: 0, proc: 8, pid: 268, cmd: 272, state: 280, time: 288, percent_cpu: 304, priority: 308, num_threads: 312, pss: 316, vsize: 320, rss: 324, peak_vsize: 328, processor: 332, sample_time: 336);
layout!(pmix_disk_stats_t, 96, 8; disk: 0, num_reads_completed: 8, num_reads_merged: 16, num_sectors_read: 24, milliseconds_reading: 32, num_writes_completed: 40, num_writes_merged: 48, num_sectors_written: 56, milliseconds_writing: 64, num_ios_in_progress: 72, milliseconds_io: 80, weighted_milliseconds_io: 88);
layout!(pmix_net_stats_t, 56, 8; net_interface: 0, num_bytes_recvd: 8, num_packets_recvd: 16, num_recv_errs: 24, num_bytes_sent: 32, num_packets_sent: 40, num_send_errs: 48);
layout!(pmix_node_stats_t, 104, 8; node: 0, la: 8, la5: 12, la15: 16, total_mem: 20, free_mem: 24, buffers: 28, cached: 32, swap_cached: 36, swap_total: 40, swap_free: 44, mapped: 48, sample_time: 56, diskstats: 72, ndiskstats: 80, netstats: 88, nnetstats: 96);
layout!(pmix_regattr_t, 536, 8; name: 0, string: 8, type_: 520, description: 528);
layout!(pmix_fabric_t, 40, 8; name: 0, index: 8, info: 16, ninfo: 24, module: 32);
layout!(pmix_device_t, 24, 8; uuid: 0, osname: 8, type_: 16);
layout!(pmix_resource_unit_t, 16, 8; type_: 0, count: 8);
layout!(pmix_node_pid_t, 16, 8; hostname: 0, nodeid: 8, pid: 12);
layout!(pmix_regex2_t, 24, 8; type_: 0, bytes: 8, len: 16);
