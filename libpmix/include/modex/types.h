/* Part of modex. Licensed under MIT or Apache-2.0, at your choice.
 * Generated from spec/abi_structs.md and spec/constants.tsv; to rewrite: MODEX_BLESS=1 cargo test --test abi.
 *
 * The types of arguments. */
#ifndef MODEX_TYPES_H
#define MODEX_TYPES_H

#include "../pmix_common.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Scalars */
typedef char pmix_nspace_t[PMIX_MAX_NSLEN + 1];
typedef char pmix_key_t[PMIX_MAX_KEYLEN + 1];
typedef uint32_t pmix_rank_t;
typedef uint8_t pmix_proc_state_t;
typedef int pmix_status_t;
typedef uint16_t pmix_data_type_t;
typedef uint8_t pmix_scope_t;
typedef uint8_t pmix_data_range_t;
typedef uint8_t pmix_persistence_t;
typedef uint32_t pmix_info_directives_t;
typedef uint8_t pmix_alloc_directive_t;
typedef uint16_t pmix_iof_channel_t;
typedef uint8_t pmix_job_state_t;
typedef enum {
    PMIX_EQUAL = 0,
    PMIX_VALUE1_GREATER = 1,
    PMIX_VALUE2_GREATER = 2,
    PMIX_VALUE_TYPE_DIFFERENT = 3,
    PMIX_VALUE_INCOMPATIBLE_OBJECTS = 4,
    PMIX_VALUE_COMPARISON_NOT_AVAIL = 5
} pmix_value_cmp_t;
typedef enum {
    PMIX_GROUP_DECLINE = 0,
    PMIX_GROUP_ACCEPT = 1
} pmix_group_opt_t;
typedef enum {
    PMIX_GROUP_CONSTRUCT = 0,
    PMIX_GROUP_DESTRUCT = 1,
    PMIX_GROUP_NONE = 2,
    PMIX_GROUP_CANCEL = 3
} pmix_group_operation_t;
typedef uint64_t pmix_storage_medium_t;
typedef uint64_t pmix_storage_accessibility_t;
typedef uint64_t pmix_storage_persistence_t;
typedef uint16_t pmix_storage_access_type_t;
typedef uint8_t pmix_coord_view_t;
typedef uint8_t pmix_link_state_t;
typedef uint8_t pmix_bind_envelope_t;
typedef uint16_t pmix_locality_t;
typedef uint64_t pmix_device_type_t;
typedef enum {
    PMIX_BOOL_TRUE = 0,
    PMIX_BOOL_FALSE = 1,
    PMIX_NON_BOOL = 2
} pmix_boolean_t;
typedef enum {
    PMIX_FABRIC_REQUEST_INFO = 0,
    PMIX_FABRIC_UPDATE_INFO = 1
} pmix_fabric_operation_t;
typedef uint8_t pmix_resource_block_directive_t;
typedef uint8_t pmix_alloc_inheritance_t;

/* Structures */

typedef struct pmix_byte_object {
    char *bytes;
    size_t size;
} pmix_byte_object_t;

typedef struct {
    char *envar;
    char *value;
    char separator;
} pmix_envar_t;

typedef struct pmix_data_buffer {
    char *base_ptr;
    char *pack_ptr;
    char *unpack_ptr;
    size_t bytes_allocated;
    size_t bytes_used;
} pmix_data_buffer_t;

typedef struct pmix_proc {
    pmix_nspace_t nspace;
    pmix_rank_t rank;
} pmix_proc_t;

typedef struct pmix_proc_info {
    pmix_proc_t proc;
    char *hostname;
    char *executable_name;
    pid_t pid;
    int exit_code;
    pmix_proc_state_t state;
} pmix_proc_info_t;

typedef struct pmix_data_array {
    pmix_data_type_t type;
    size_t size;
    void *array;
} pmix_data_array_t;

typedef struct pmix_coord {
    pmix_coord_view_t view;
    uint32_t *coord;
    size_t dims;
} pmix_coord_t;

typedef struct {
    char *source;
    void *topology;
} pmix_topology_t;

typedef struct {
    char *source;
    void *bitmap;
} pmix_cpuset_t;

typedef struct pmix_geometry {
    size_t fabric;
    char *uuid;
    char *osname;
    pmix_coord_t *coordinates;
    size_t ncoords;
} pmix_geometry_t;

typedef struct pmix_device_distance {
    char *uuid;
    char *osname;
    pmix_device_type_t type;
    uint16_t mindist;
    uint16_t maxdist;
} pmix_device_distance_t;

typedef struct pmix_endpoint {
    char *uuid;
    char *osname;
    pmix_byte_object_t endpt;
} pmix_endpoint_t;

typedef struct pmix_proc_stats {
    char *node;
    pmix_proc_t proc;
    pid_t pid;
    char *cmd;
    char state;
    struct timeval time;
    float percent_cpu;
    int32_t priority;
    uint16_t num_threads;
    float pss;
    float vsize;
    float rss;
    float peak_vsize;
    uint16_t processor;
    struct timeval sample_time;
} pmix_proc_stats_t;

typedef struct {
    char *disk;
    uint64_t num_reads_completed;
    uint64_t num_reads_merged;
    uint64_t num_sectors_read;
    uint64_t milliseconds_reading;
    uint64_t num_writes_completed;
    uint64_t num_writes_merged;
    uint64_t num_sectors_written;
    uint64_t milliseconds_writing;
    uint64_t num_ios_in_progress;
    uint64_t milliseconds_io;
    uint64_t weighted_milliseconds_io;
} pmix_disk_stats_t;

typedef struct {
    char *net_interface;
    uint64_t num_bytes_recvd;
    uint64_t num_packets_recvd;
    uint64_t num_recv_errs;
    uint64_t num_bytes_sent;
    uint64_t num_packets_sent;
    uint64_t num_send_errs;
} pmix_net_stats_t;

typedef struct {
    char *node;
    float la;
    float la5;
    float la15;
    float total_mem;
    float free_mem;
    float buffers;
    float cached;
    float swap_cached;
    float swap_total;
    float swap_free;
    float mapped;
    struct timeval sample_time;
    pmix_disk_stats_t *diskstats;
    size_t ndiskstats;
    pmix_net_stats_t *netstats;
    size_t nnetstats;
} pmix_node_stats_t;

typedef struct pmix_device {
    char *uuid;
    char *osname;
    pmix_device_type_t type;
} pmix_device_t;

typedef struct pmix_resource_unit {
    pmix_device_type_t type;
    size_t count;
} pmix_resource_unit_t;

typedef struct pmix_node_pid {
    char *hostname;
    uint32_t nodeid;
    pid_t pid;
} pmix_node_pid_t;

typedef struct pmix_regex2 {
    char *type;
    uint8_t *bytes;
    size_t len;
} pmix_regex2_t;

typedef struct pmix_value {
    pmix_data_type_t type;
    union {
        bool flag;
        uint8_t byte;
        char *string;
        size_t size;
        pid_t pid;
        int integer;
        int8_t int8;
        int16_t int16;
        int32_t int32;
        int64_t int64;
        unsigned int uint;
        uint8_t uint8;
        uint16_t uint16;
        uint32_t uint32;
        uint64_t uint64;
        float fval;
        double dval;
        struct timeval tv;
        time_t time;
        pmix_status_t status;
        pmix_rank_t rank;
        pmix_proc_t *proc;
        pmix_byte_object_t bo;
        pmix_persistence_t persist;
        pmix_scope_t scope;
        pmix_data_range_t range;
        pmix_proc_state_t state;
        pmix_proc_info_t *pinfo;
        pmix_data_array_t *darray;
        void *ptr;
        pmix_alloc_directive_t adir;
        pmix_envar_t envar;
        pmix_nspace_t *nspace;
        pmix_coord_t *coord;
        pmix_link_state_t linkstate;
        pmix_job_state_t jstate;
        pmix_topology_t *topo;
        pmix_cpuset_t *cpuset;
        pmix_locality_t locality;
        pmix_geometry_t *geometry;
        pmix_device_type_t devtype;
        pmix_device_distance_t *devdist;
        pmix_endpoint_t *endpoint;
        pmix_data_buffer_t *dbuf;
        pmix_proc_stats_t *pstats;
        pmix_disk_stats_t *dkstats;
        pmix_net_stats_t *netstats;
        pmix_node_stats_t *ndstats;
        pmix_resource_block_directive_t rbdir;
        pmix_device_t *device;
        pmix_resource_unit_t *resunit;
        pmix_node_pid_t *nodepid;
        pmix_regex2_t *regex2;
        pmix_alloc_inheritance_t inheritance;
    } data;
} pmix_value_t;

typedef struct pmix_info {
    pmix_key_t key;
    pmix_info_directives_t flags;
    pmix_value_t value;
} pmix_info_t;

typedef struct pmix_pdata {
    pmix_proc_t proc;
    pmix_key_t key;
    pmix_value_t value;
} pmix_pdata_t;

typedef struct pmix_app {
    char *cmd;
    char **argv;
    char **env;
    char *cwd;
    int maxprocs;
    pmix_info_t *info;
    size_t ninfo;
} pmix_app_t;

typedef struct pmix_query {
    char **keys;
    pmix_info_t *qualifiers;
    size_t nqual;
} pmix_query_t;

typedef struct pmix_regattr_t {
    char *name;
    pmix_key_t string;
    pmix_data_type_t type;
    char **description;
} pmix_regattr_t;

typedef struct pmix_fabric_s {
    char *name;
    size_t index;
    pmix_info_t *info;
    size_t ninfo;
    void *module;
} pmix_fabric_t;

/* Callbacks. Each runs only after the function that received it has returned. */
typedef void (*pmix_release_cbfunc_t)(void *);
typedef void (*pmix_modex_cbfunc_t)(pmix_status_t, const char *, size_t, void *, pmix_release_cbfunc_t, void *);
typedef void (*pmix_spawn_cbfunc_t)(pmix_status_t, char *, void *);
typedef void (*pmix_op_cbfunc_t)(pmix_status_t, void *);
typedef void (*pmix_lookup_cbfunc_t)(pmix_status_t, pmix_pdata_t *, size_t, void *);
typedef void (*pmix_event_notification_cbfunc_fn_t)(pmix_status_t, pmix_info_t *, size_t, pmix_op_cbfunc_t, void *,
    void *);
typedef void (*pmix_notification_fn_t)(size_t, pmix_status_t, const pmix_proc_t *, pmix_info_t *, size_t, pmix_info_t *,
    size_t, pmix_event_notification_cbfunc_fn_t, void *);
typedef void (*pmix_hdlr_reg_cbfunc_t)(pmix_status_t, size_t, void *);
typedef void (*pmix_evhdlr_reg_cbfunc_t)(pmix_status_t, size_t, void *);
typedef void (*pmix_value_cbfunc_t)(pmix_status_t, pmix_value_t *, void *);
typedef void (*pmix_info_cbfunc_t)(pmix_status_t, pmix_info_t *, size_t, void *, pmix_release_cbfunc_t, void *);
typedef void (*pmix_credential_cbfunc_t)(pmix_status_t, pmix_byte_object_t *, pmix_info_t *, size_t, void *);
typedef void (*pmix_validation_cbfunc_t)(pmix_status_t, pmix_info_t *, size_t, void *);
typedef void (*pmix_iof_cbfunc_t)(size_t, pmix_iof_channel_t, pmix_proc_t *, pmix_byte_object_t *, pmix_info_t *,
    size_t);
typedef void (*pmix_connection_cbfunc_t)(int, void *);
typedef void (*pmix_tool_connection_cbfunc_t)(pmix_status_t, pmix_proc_t *, void *);
typedef void (*pmix_dmodex_response_fn_t)(pmix_status_t, char *, size_t, void *);
typedef void (*pmix_setup_application_cbfunc_t)(pmix_status_t, pmix_info_t *, size_t, void *, pmix_op_cbfunc_t, void *);
typedef void (*pmix_device_dist_cbfunc_t)(pmix_status_t, pmix_device_distance_t *, size_t, void *,
    pmix_release_cbfunc_t, void *);

/* The functions of a host. A null entry means that the host does not support the function. */
typedef pmix_status_t (*pmix_server_client_connected_fn_t)(const pmix_proc_t *, void *, pmix_op_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_client_finalized_fn_t)(const pmix_proc_t *, void *, pmix_op_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_abort_fn_t)(const pmix_proc_t *, void *, int, const char *, pmix_proc_t *, size_t,
    pmix_op_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_fencenb_fn_t)(const pmix_proc_t *, size_t, const pmix_info_t *, size_t, char *,
    size_t, pmix_modex_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_dmodex_req_fn_t)(const pmix_proc_t *, const pmix_info_t *, size_t,
    pmix_modex_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_publish_fn_t)(const pmix_proc_t *, const pmix_info_t *, size_t, pmix_op_cbfunc_t,
    void *);
typedef pmix_status_t (*pmix_server_lookup_fn_t)(const pmix_proc_t *, char **, const pmix_info_t *, size_t,
    pmix_lookup_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_unpublish_fn_t)(const pmix_proc_t *, char **, const pmix_info_t *, size_t,
    pmix_op_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_spawn_fn_t)(const pmix_proc_t *, const pmix_info_t *, size_t, const pmix_app_t *,
    size_t, pmix_spawn_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_connect_fn_t)(const pmix_proc_t *, size_t, const pmix_info_t *, size_t,
    pmix_op_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_disconnect_fn_t)(const pmix_proc_t *, size_t, const pmix_info_t *, size_t,
    pmix_op_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_register_events_fn_t)(pmix_status_t *, size_t, const pmix_info_t *, size_t,
    pmix_op_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_deregister_events_fn_t)(pmix_status_t *, size_t, pmix_op_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_listener_fn_t)(int, pmix_connection_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_notify_event_fn_t)(pmix_status_t, const pmix_proc_t *, pmix_data_range_t,
    pmix_info_t *, size_t, pmix_op_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_query_fn_t)(pmix_proc_t *, pmix_query_t *, size_t, pmix_info_cbfunc_t, void *);
typedef void (*pmix_server_tool_connection_fn_t)(pmix_info_t *, size_t, pmix_tool_connection_cbfunc_t, void *);
typedef void (*pmix_server_log_fn_t)(const pmix_proc_t *, const pmix_info_t *, size_t, const pmix_info_t *, size_t,
    pmix_op_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_alloc_fn_t)(const pmix_proc_t *, pmix_alloc_directive_t, const pmix_info_t *,
    size_t, pmix_info_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_job_control_fn_t)(const pmix_proc_t *, const pmix_proc_t *, size_t,
    const pmix_info_t *, size_t, pmix_info_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_monitor_fn_t)(const pmix_proc_t *, const pmix_info_t *, pmix_status_t,
    const pmix_info_t *, size_t, pmix_info_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_get_cred_fn_t)(const pmix_proc_t *, const pmix_info_t *, size_t,
    pmix_credential_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_validate_cred_fn_t)(const pmix_proc_t *, const pmix_byte_object_t *,
    const pmix_info_t *, size_t, pmix_validation_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_iof_fn_t)(const pmix_proc_t *, size_t, const pmix_info_t *, size_t,
    pmix_iof_channel_t, pmix_op_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_stdin_fn_t)(const pmix_proc_t *, const pmix_proc_t *, size_t, const pmix_info_t *,
    size_t, const pmix_byte_object_t *, pmix_op_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_grp_fn_t)(pmix_group_operation_t, char *, const pmix_proc_t *, size_t,
    const pmix_info_t *, size_t, pmix_info_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_fabric_fn_t)(const pmix_proc_t *, pmix_fabric_operation_t, const pmix_info_t *,
    size_t, pmix_info_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_client_connected2_fn_t)(const pmix_proc_t *, void *, pmix_info_t *, size_t,
    pmix_op_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_tool_connection2_fn_t)(pmix_info_t *, size_t, pmix_tool_connection_cbfunc_t,
    void *);
typedef pmix_status_t (*pmix_server_log2_fn_t)(const pmix_proc_t *, const pmix_info_t *, size_t, const pmix_info_t *,
    size_t, pmix_op_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_session_control_fn_t)(const pmix_proc_t *, uint32_t, const pmix_info_t *, size_t,
    pmix_info_cbfunc_t, void *);
typedef pmix_status_t (*pmix_server_resource_block_fn_t)(const pmix_proc_t *, pmix_resource_block_directive_t,
    const char *, const pmix_resource_unit_t *, size_t, const pmix_info_t *, size_t, pmix_op_cbfunc_t, void *);

/* Releases add entries at the end. The last four have other places in other releases. The library reads them
 * if it knows the release: from modex.module_size, or because the host has tool_connected2 and log2 instead
 * of older ones. */
typedef struct pmix_server_module_4_0_0_t {
    pmix_server_client_connected_fn_t client_connected;
    pmix_server_client_finalized_fn_t client_finalized;
    pmix_server_abort_fn_t abort;
    pmix_server_fencenb_fn_t fence_nb;
    pmix_server_dmodex_req_fn_t direct_modex;
    pmix_server_publish_fn_t publish;
    pmix_server_lookup_fn_t lookup;
    pmix_server_unpublish_fn_t unpublish;
    pmix_server_spawn_fn_t spawn;
    pmix_server_connect_fn_t connect;
    pmix_server_disconnect_fn_t disconnect;
    pmix_server_register_events_fn_t register_events;
    pmix_server_deregister_events_fn_t deregister_events;
    pmix_server_listener_fn_t listener;
    pmix_server_notify_event_fn_t notify_event;
    pmix_server_query_fn_t query;
    pmix_server_tool_connection_fn_t tool_connected;
    pmix_server_log_fn_t log;
    pmix_server_alloc_fn_t allocate;
    pmix_server_job_control_fn_t job_control;
    pmix_server_monitor_fn_t monitor;
    pmix_server_get_cred_fn_t get_credential;
    pmix_server_validate_cred_fn_t validate_credential;
    pmix_server_iof_fn_t iof_pull;
    pmix_server_stdin_fn_t push_stdin;
    pmix_server_grp_fn_t group;
    pmix_server_fabric_fn_t fabric;
    pmix_server_client_connected2_fn_t client_connected2;
    pmix_server_tool_connection2_fn_t tool_connected2;
    pmix_server_log2_fn_t log2;
    pmix_server_session_control_fn_t session_control;
    pmix_server_resource_block_fn_t resource_block;
} pmix_server_module_t;

#ifdef __cplusplus
}
#endif

#endif
