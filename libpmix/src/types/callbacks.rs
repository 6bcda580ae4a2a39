//! The functions that cross the border as pointers: callbacks, and the entries of a server module.

use super::scalars::*;
use super::structs::*;

/// See the standard's type of the same name.
pub type pmix_release_cbfunc_t = unsafe extern "C" fn(*mut c_void);
/// See the standard's type of the same name.
pub type pmix_modex_cbfunc_t =
    unsafe extern "C" fn(pmix_status_t, *const c_char, usize, *mut c_void, Option<pmix_release_cbfunc_t>, *mut c_void);
/// See the standard's type of the same name.
pub type pmix_spawn_cbfunc_t = unsafe extern "C" fn(pmix_status_t, *mut c_char, *mut c_void);
/// See the standard's type of the same name.
pub type pmix_op_cbfunc_t = unsafe extern "C" fn(pmix_status_t, *mut c_void);
/// See the standard's type of the same name.
pub type pmix_lookup_cbfunc_t = unsafe extern "C" fn(pmix_status_t, *mut pmix_pdata_t, usize, *mut c_void);
/// See the standard's type of the same name.
pub type pmix_event_notification_cbfunc_fn_t =
    unsafe extern "C" fn(pmix_status_t, *mut pmix_info_t, usize, Option<pmix_op_cbfunc_t>, *mut c_void, *mut c_void);
/// See the standard's type of the same name.
pub type pmix_notification_fn_t = unsafe extern "C" fn(
    usize,
    pmix_status_t,
    *const pmix_proc_t,
    *mut pmix_info_t,
    usize,
    *mut pmix_info_t,
    usize,
    Option<pmix_event_notification_cbfunc_fn_t>,
    *mut c_void,
);
/// See the standard's type of the same name.
pub type pmix_hdlr_reg_cbfunc_t = unsafe extern "C" fn(pmix_status_t, usize, *mut c_void);
/// See the standard's type of the same name.
pub type pmix_value_cbfunc_t = unsafe extern "C" fn(pmix_status_t, *mut pmix_value_t, *mut c_void);
/// See the standard's type of the same name.
pub type pmix_info_cbfunc_t = unsafe extern "C" fn(
    pmix_status_t,
    *mut pmix_info_t,
    usize,
    *mut c_void,
    Option<pmix_release_cbfunc_t>,
    *mut c_void,
);
/// See the standard's type of the same name.
pub type pmix_credential_cbfunc_t =
    unsafe extern "C" fn(pmix_status_t, *mut pmix_byte_object_t, *mut pmix_info_t, usize, *mut c_void);
/// See the standard's type of the same name.
pub type pmix_validation_cbfunc_t = unsafe extern "C" fn(pmix_status_t, *mut pmix_info_t, usize, *mut c_void);
/// See the standard's type of the same name.
pub type pmix_iof_cbfunc_t =
    unsafe extern "C" fn(usize, pmix_iof_channel_t, *mut pmix_proc_t, *mut pmix_byte_object_t, *mut pmix_info_t, usize);
/// See the standard's type of the same name.
pub type pmix_connection_cbfunc_t = unsafe extern "C" fn(c_int, *mut c_void);
/// See the standard's type of the same name.
pub type pmix_tool_connection_cbfunc_t = unsafe extern "C" fn(pmix_status_t, *mut pmix_proc_t, *mut c_void);
/// See the standard's type of the same name.
pub type pmix_dmodex_response_fn_t = unsafe extern "C" fn(pmix_status_t, *mut c_char, usize, *mut c_void);
/// See the standard's type of the same name.
pub type pmix_setup_application_cbfunc_t =
    unsafe extern "C" fn(pmix_status_t, *mut pmix_info_t, usize, *mut c_void, Option<pmix_op_cbfunc_t>, *mut c_void);
/// See the standard's type of the same name.
pub type pmix_device_dist_cbfunc_t = unsafe extern "C" fn(
    pmix_status_t,
    *mut pmix_device_distance_t,
    usize,
    *mut c_void,
    Option<pmix_release_cbfunc_t>,
    *mut c_void,
);
/// Entry `client_connected` of the server module.
pub type pmix_server_client_connected_fn_t =
    unsafe extern "C" fn(*const pmix_proc_t, *mut c_void, Option<pmix_op_cbfunc_t>, *mut c_void) -> pmix_status_t;
/// Entry `client_finalized` of the server module.
pub type pmix_server_client_finalized_fn_t =
    unsafe extern "C" fn(*const pmix_proc_t, *mut c_void, Option<pmix_op_cbfunc_t>, *mut c_void) -> pmix_status_t;
/// Entry `abort` of the server module.
pub type pmix_server_abort_fn_t = unsafe extern "C" fn(
    *const pmix_proc_t,
    *mut c_void,
    c_int,
    *const c_char,
    *mut pmix_proc_t,
    usize,
    Option<pmix_op_cbfunc_t>,
    *mut c_void,
) -> pmix_status_t;
/// Entry `fence_nb` of the server module.
pub type pmix_server_fencenb_fn_t = unsafe extern "C" fn(
    *const pmix_proc_t,
    usize,
    *const pmix_info_t,
    usize,
    *mut c_char,
    usize,
    Option<pmix_modex_cbfunc_t>,
    *mut c_void,
) -> pmix_status_t;
/// Entry `direct_modex` of the server module.
pub type pmix_server_dmodex_req_fn_t = unsafe extern "C" fn(
    *const pmix_proc_t,
    *const pmix_info_t,
    usize,
    Option<pmix_modex_cbfunc_t>,
    *mut c_void,
) -> pmix_status_t;
/// Entry `publish` of the server module.
pub type pmix_server_publish_fn_t = unsafe extern "C" fn(
    *const pmix_proc_t,
    *const pmix_info_t,
    usize,
    Option<pmix_op_cbfunc_t>,
    *mut c_void,
) -> pmix_status_t;
/// Entry `lookup` of the server module.
pub type pmix_server_lookup_fn_t = unsafe extern "C" fn(
    *const pmix_proc_t,
    *mut *mut c_char,
    *const pmix_info_t,
    usize,
    Option<pmix_lookup_cbfunc_t>,
    *mut c_void,
) -> pmix_status_t;
/// Entry `unpublish` of the server module.
pub type pmix_server_unpublish_fn_t = unsafe extern "C" fn(
    *const pmix_proc_t,
    *mut *mut c_char,
    *const pmix_info_t,
    usize,
    Option<pmix_op_cbfunc_t>,
    *mut c_void,
) -> pmix_status_t;
/// Entry `spawn` of the server module.
pub type pmix_server_spawn_fn_t = unsafe extern "C" fn(
    *const pmix_proc_t,
    *const pmix_info_t,
    usize,
    *const pmix_app_t,
    usize,
    Option<pmix_spawn_cbfunc_t>,
    *mut c_void,
) -> pmix_status_t;
/// Entry `connect` of the server module.
pub type pmix_server_connect_fn_t = unsafe extern "C" fn(
    *const pmix_proc_t,
    usize,
    *const pmix_info_t,
    usize,
    Option<pmix_op_cbfunc_t>,
    *mut c_void,
) -> pmix_status_t;
/// Entry `disconnect` of the server module.
pub type pmix_server_disconnect_fn_t = unsafe extern "C" fn(
    *const pmix_proc_t,
    usize,
    *const pmix_info_t,
    usize,
    Option<pmix_op_cbfunc_t>,
    *mut c_void,
) -> pmix_status_t;
/// Entry `register_events` of the server module.
pub type pmix_server_register_events_fn_t = unsafe extern "C" fn(
    *mut pmix_status_t,
    usize,
    *const pmix_info_t,
    usize,
    Option<pmix_op_cbfunc_t>,
    *mut c_void,
) -> pmix_status_t;
/// Entry `deregister_events` of the server module.
pub type pmix_server_deregister_events_fn_t =
    unsafe extern "C" fn(*mut pmix_status_t, usize, Option<pmix_op_cbfunc_t>, *mut c_void) -> pmix_status_t;
/// Entry `listener` of the server module.
pub type pmix_server_listener_fn_t =
    unsafe extern "C" fn(c_int, Option<pmix_connection_cbfunc_t>, *mut c_void) -> pmix_status_t;
/// Entry `notify_event` of the server module.
pub type pmix_server_notify_event_fn_t = unsafe extern "C" fn(
    pmix_status_t,
    *const pmix_proc_t,
    pmix_data_range_t,
    *mut pmix_info_t,
    usize,
    Option<pmix_op_cbfunc_t>,
    *mut c_void,
) -> pmix_status_t;
/// Entry `query` of the server module.
pub type pmix_server_query_fn_t = unsafe extern "C" fn(
    *mut pmix_proc_t,
    *mut pmix_query_t,
    usize,
    Option<pmix_info_cbfunc_t>,
    *mut c_void,
) -> pmix_status_t;
/// Entry `tool_connected` of the server module.
pub type pmix_server_tool_connection_fn_t =
    unsafe extern "C" fn(*mut pmix_info_t, usize, Option<pmix_tool_connection_cbfunc_t>, *mut c_void);
/// Entry `tool_connected2` of the server module.
pub type pmix_server_tool_connection2_fn_t =
    unsafe extern "C" fn(*mut pmix_info_t, usize, Option<pmix_tool_connection_cbfunc_t>, *mut c_void) -> pmix_status_t;
/// Entry `log2` of the server module.
pub type pmix_server_log2_fn_t = unsafe extern "C" fn(
    *const pmix_proc_t,
    *const pmix_info_t,
    usize,
    *const pmix_info_t,
    usize,
    Option<pmix_op_cbfunc_t>,
    *mut c_void,
) -> pmix_status_t;
/// Entry `log` of the server module.
pub type pmix_server_log_fn_t = unsafe extern "C" fn(
    *const pmix_proc_t,
    *const pmix_info_t,
    usize,
    *const pmix_info_t,
    usize,
    Option<pmix_op_cbfunc_t>,
    *mut c_void,
);
/// Entry `allocate` of the server module.
pub type pmix_server_alloc_fn_t = unsafe extern "C" fn(
    *const pmix_proc_t,
    pmix_alloc_directive_t,
    *const pmix_info_t,
    usize,
    Option<pmix_info_cbfunc_t>,
    *mut c_void,
) -> pmix_status_t;
/// Entry `job_control` of the server module.
pub type pmix_server_job_control_fn_t = unsafe extern "C" fn(
    *const pmix_proc_t,
    *const pmix_proc_t,
    usize,
    *const pmix_info_t,
    usize,
    Option<pmix_info_cbfunc_t>,
    *mut c_void,
) -> pmix_status_t;
/// Entry `monitor` of the server module.
pub type pmix_server_monitor_fn_t = unsafe extern "C" fn(
    *const pmix_proc_t,
    *const pmix_info_t,
    pmix_status_t,
    *const pmix_info_t,
    usize,
    Option<pmix_info_cbfunc_t>,
    *mut c_void,
) -> pmix_status_t;
/// Entry `get_credential` of the server module.
pub type pmix_server_get_cred_fn_t = unsafe extern "C" fn(
    *const pmix_proc_t,
    *const pmix_info_t,
    usize,
    Option<pmix_credential_cbfunc_t>,
    *mut c_void,
) -> pmix_status_t;
/// Entry `validate_credential` of the server module.
pub type pmix_server_validate_cred_fn_t = unsafe extern "C" fn(
    *const pmix_proc_t,
    *const pmix_byte_object_t,
    *const pmix_info_t,
    usize,
    Option<pmix_validation_cbfunc_t>,
    *mut c_void,
) -> pmix_status_t;
/// Entry `iof_pull` of the server module.
pub type pmix_server_iof_fn_t = unsafe extern "C" fn(
    *const pmix_proc_t,
    usize,
    *const pmix_info_t,
    usize,
    pmix_iof_channel_t,
    Option<pmix_op_cbfunc_t>,
    *mut c_void,
) -> pmix_status_t;
/// Entry `push_stdin` of the server module.
pub type pmix_server_stdin_fn_t = unsafe extern "C" fn(
    *const pmix_proc_t,
    *const pmix_proc_t,
    usize,
    *const pmix_info_t,
    usize,
    *const pmix_byte_object_t,
    Option<pmix_op_cbfunc_t>,
    *mut c_void,
) -> pmix_status_t;
/// Entry `group` of the server module.
pub type pmix_server_grp_fn_t = unsafe extern "C" fn(
    pmix_group_operation_t,
    *mut c_char,
    *const pmix_proc_t,
    usize,
    *const pmix_info_t,
    usize,
    Option<pmix_info_cbfunc_t>,
    *mut c_void,
) -> pmix_status_t;
/// Entry `fabric` of the server module.
pub type pmix_server_fabric_fn_t = unsafe extern "C" fn(
    *const pmix_proc_t,
    pmix_fabric_operation_t,
    *const pmix_info_t,
    usize,
    Option<pmix_info_cbfunc_t>,
    *mut c_void,
) -> pmix_status_t;
/// Entry `session_control` of the server module.
pub type pmix_server_session_control_fn_t = unsafe extern "C" fn(
    *const pmix_proc_t,
    u32,
    *const pmix_info_t,
    usize,
    Option<pmix_info_cbfunc_t>,
    *mut c_void,
) -> pmix_status_t;
/// Entry `resource_block` of the server module.
pub type pmix_server_resource_block_fn_t = unsafe extern "C" fn(
    *const pmix_proc_t,
    pmix_resource_block_directive_t,
    *const c_char,
    *const pmix_resource_unit_t,
    usize,
    *const pmix_info_t,
    usize,
    Option<pmix_op_cbfunc_t>,
    *mut c_void,
) -> pmix_status_t;
/// Entry `client_connected2` of the server module.
pub type pmix_server_client_connected2_fn_t = unsafe extern "C" fn(
    *const pmix_proc_t,
    *mut c_void,
    *mut pmix_info_t,
    usize,
    Option<pmix_op_cbfunc_t>,
    *mut c_void,
) -> pmix_status_t;
