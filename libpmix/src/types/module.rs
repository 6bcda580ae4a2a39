//! The table of functions a host gives its server.

use super::callbacks::*;
use super::structs::layout;

/// The entries of a server module of release 6.1. Every caller since release 3.0 has the first 25, and every
/// caller since 4.0 has the first 28. See `server::module`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct pmix_server_module_t {
    pub client_connected: Option<pmix_server_client_connected_fn_t>,
    pub client_finalized: Option<pmix_server_client_finalized_fn_t>,
    pub abort: Option<pmix_server_abort_fn_t>,
    pub fence_nb: Option<pmix_server_fencenb_fn_t>,
    pub direct_modex: Option<pmix_server_dmodex_req_fn_t>,
    pub publish: Option<pmix_server_publish_fn_t>,
    pub lookup: Option<pmix_server_lookup_fn_t>,
    pub unpublish: Option<pmix_server_unpublish_fn_t>,
    pub spawn: Option<pmix_server_spawn_fn_t>,
    pub connect: Option<pmix_server_connect_fn_t>,
    pub disconnect: Option<pmix_server_disconnect_fn_t>,
    pub register_events: Option<pmix_server_register_events_fn_t>,
    pub deregister_events: Option<pmix_server_deregister_events_fn_t>,
    pub listener: Option<pmix_server_listener_fn_t>,
    pub notify_event: Option<pmix_server_notify_event_fn_t>,
    pub query: Option<pmix_server_query_fn_t>,
    pub tool_connected: Option<pmix_server_tool_connection_fn_t>,
    pub log: Option<pmix_server_log_fn_t>,
    pub allocate: Option<pmix_server_alloc_fn_t>,
    pub job_control: Option<pmix_server_job_control_fn_t>,
    pub monitor: Option<pmix_server_monitor_fn_t>,
    pub get_credential: Option<pmix_server_get_cred_fn_t>,
    pub validate_credential: Option<pmix_server_validate_cred_fn_t>,
    pub iof_pull: Option<pmix_server_iof_fn_t>,
    pub push_stdin: Option<pmix_server_stdin_fn_t>,
    pub group: Option<pmix_server_grp_fn_t>,
    pub fabric: Option<pmix_server_fabric_fn_t>,
    pub client_connected2: Option<pmix_server_client_connected2_fn_t>,
    pub tool_connected2: Option<pmix_server_tool_connection2_fn_t>,
    pub log2: Option<pmix_server_log2_fn_t>,
    pub session_control: Option<pmix_server_session_control_fn_t>,
    pub resource_block: Option<pmix_server_resource_block_fn_t>,
}
layout!(pmix_server_module_t, 256, 8; client_connected: 0, client_finalized: 8, abort: 16, fence_nb: 24, direct_modex: 32, publish: 40, lookup: 48, unpublish: 56, spawn: 64, connect: 72, disconnect: 80, register_events: 88, deregister_events: 96, listener: 104, notify_event: 112, query: 120, tool_connected: 128, log: 136, allocate: 144, job_control: 152, monitor: 160, get_credential: 168, validate_credential: 176, iof_pull: 184, push_stdin: 192, group: 200, fabric: 208, client_connected2: 216, tool_connected2: 224, log2: 232, session_control: 240, resource_block: 248);
