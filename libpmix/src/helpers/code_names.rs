//! The standard's names of codes; tests compare them with [`modex::types::codes`], which come from the same list.

/// Name of a code without a name.
pub(super) const UNKNOWN: &str = "UNKNOWN";

/// Declares the names of each kind of code.
macro_rules! names {
    ($($(#[$doc:meta])* $function:ident($type:ty) { $($code:literal => $name:literal,)* })*) => {
        $(
            $(#[$doc])*
            pub(super) const fn $function(code: $type) -> &'static str {
                match code {
                    $($code => $name,)*
                    _ => UNKNOWN,
                }
            }
        )*
    };
}

names! {
    /// Directives for an allocation.
    alloc_directive(u8) {
        1 => "PMIX_ALLOC_NEW",
        2 => "PMIX_ALLOC_EXTEND",
        3 => "PMIX_ALLOC_RELEASE",
        4 => "PMIX_ALLOC_REAQUIRE",
        5 => "PMIX_ALLOC_REQ_CANCEL",
        128 => "PMIX_ALLOC_EXTERNAL",
    }
    /// Ranges.
    data_range(u8) {
        0 => "PMIX_RANGE_UNDEF",
        1 => "PMIX_RANGE_RM",
        2 => "PMIX_RANGE_LOCAL",
        3 => "PMIX_RANGE_NAMESPACE",
        4 => "PMIX_RANGE_SESSION",
        5 => "PMIX_RANGE_GLOBAL",
        6 => "PMIX_RANGE_CUSTOM",
        7 => "PMIX_RANGE_PROC_LOCAL",
        255 => "PMIX_RANGE_INVALID",
    }
    /// Operations on a group.
    group_operation(u32) {
        0 => "PMIX_GROUP_CONSTRUCT",
        1 => "PMIX_GROUP_DESTRUCT",
        2 => "PMIX_GROUP_NONE",
        3 => "PMIX_GROUP_CANCEL",
    }
    /// States of a job.
    job_state(u8) {
        0 => "PMIX_JOB_STATE_UNDEF",
        1 => "PMIX_JOB_STATE_AWAITING_ALLOC",
        2 => "PMIX_JOB_STATE_LAUNCH_UNDERWAY",
        3 => "PMIX_JOB_STATE_RUNNING",
        4 => "PMIX_JOB_STATE_SUSPENDED",
        5 => "PMIX_JOB_STATE_CONNECTED",
        15 => "PMIX_JOB_STATE_UNTERMINATED",
        20 => "PMIX_JOB_STATE_TERMINATED",
        50 => "PMIX_JOB_STATE_TERMINATED_WITH_ERROR",
    }
    /// States of a link.
    link_state(u8) {
        0 => "PMIX_LINK_STATE_UNKNOWN",
        1 => "PMIX_LINK_DOWN",
        2 => "PMIX_LINK_UP",
    }
    /// Persistence of published data.
    persistence(u8) {
        0 => "PMIX_PERSIST_INDEF",
        1 => "PMIX_PERSIST_FIRST_READ",
        2 => "PMIX_PERSIST_PROC",
        3 => "PMIX_PERSIST_APP",
        4 => "PMIX_PERSIST_SESSION",
        255 => "PMIX_PERSIST_INVALID",
    }
    /// States of a process.
    proc_state(u8) {
        0 => "PMIX_PROC_STATE_UNDEF",
        1 => "PMIX_PROC_STATE_PREPPED",
        2 => "PMIX_PROC_STATE_LAUNCH_UNDERWAY",
        3 => "PMIX_PROC_STATE_RESTART",
        4 => "PMIX_PROC_STATE_TERMINATE",
        5 => "PMIX_PROC_STATE_RUNNING",
        6 => "PMIX_PROC_STATE_CONNECTED",
        15 => "PMIX_PROC_STATE_UNTERMINATED",
        20 => "PMIX_PROC_STATE_TERMINATED",
        50 => "PMIX_PROC_STATE_ERROR",
        51 => "PMIX_PROC_STATE_KILLED_BY_CMD",
        52 => "PMIX_PROC_STATE_ABORTED",
        53 => "PMIX_PROC_STATE_FAILED_TO_START",
        54 => "PMIX_PROC_STATE_ABORTED_BY_SIG",
        55 => "PMIX_PROC_STATE_TERM_WO_SYNC",
        56 => "PMIX_PROC_STATE_COMM_FAILED",
        57 => "PMIX_PROC_STATE_SENSOR_BOUND_EXCEEDED",
        58 => "PMIX_PROC_STATE_CALLED_ABORT",
        59 => "PMIX_PROC_STATE_HEARTBEAT_FAILED",
        60 => "PMIX_PROC_STATE_MIGRATING",
        61 => "PMIX_PROC_STATE_CANNOT_RESTART",
        62 => "PMIX_PROC_STATE_TERM_NON_ZERO",
        63 => "PMIX_PROC_STATE_FAILED_TO_LAUNCH",
    }
    /// Directives for a resource block.
    resource_block_directive(u8) {
        1 => "PMIX_RESOURCE_BLOCK_DEFINE",
        2 => "PMIX_RESOURCE_BLOCK_EXTEND",
        3 => "PMIX_RESOURCE_BLOCK_REMOVE",
        4 => "PMIX_RESOURCE_BLOCK_DELETE",
        128 => "PMIX_RESOURCE_BLOCK_EXTERNAL",
    }
    /// Scopes.
    scope(u8) {
        0 => "PMIX_SCOPE_UNDEF",
        1 => "PMIX_LOCAL",
        2 => "PMIX_REMOTE",
        3 => "PMIX_GLOBAL",
        4 => "PMIX_INTERNAL",
        5 => "PMIX_DEL_LOCAL",
        6 => "PMIX_DEL_REMOTE",
        7 => "PMIX_DEL_GLOBAL",
        8 => "PMIX_DEL_INTERNAL",
    }
    /// Results of a comparison.
    value_comparison(u32) {
        0 => "PMIX_EQUAL",
        1 => "PMIX_VALUE1_GREATER",
        2 => "PMIX_VALUE2_GREATER",
        3 => "PMIX_VALUE_TYPE_DIFFERENT",
        4 => "PMIX_VALUE_INCOMPATIBLE_OBJECTS",
        5 => "PMIX_VALUE_COMPARISON_NOT_AVAIL",
    }
    /// Device types; several become a set.
    device_type(u64) {
        0 => "PMIX_DEVTYPE_UNKNOWN",
        1 => "PMIX_DEVTYPE_BLOCK",
        2 => "PMIX_DEVTYPE_GPU",
        4 => "PMIX_DEVTYPE_NETWORK",
        8 => "PMIX_DEVTYPE_OPENFABRICS",
        16 => "PMIX_DEVTYPE_DMA",
        32 => "PMIX_DEVTYPE_COPROC",
        64 => "PMIX_DEVTYPE_MEMORY",
        128 => "PMIX_DEVTYPE_CORE",
        256 => "PMIX_DEVTYPE_HWT",
        512 => "PMIX_DEVTYPE_CPU",
        1024 => "PMIX_DEVTYPE_NODE",
    }
    /// I/O channels; several become a set.
    iof_channel(u16) {
        0 => "PMIX_FWD_NO_CHANNELS",
        1 => "PMIX_FWD_STDIN_CHANNEL",
        2 => "PMIX_FWD_STDOUT_CHANNEL",
        4 => "PMIX_FWD_STDERR_CHANNEL",
        8 => "PMIX_FWD_STDDIAG_CHANNEL",
        255 => "PMIX_FWD_ALL_CHANNELS",
    }
}
