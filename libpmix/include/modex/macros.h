/* Part of modex. Licensed under MIT or Apache-2.0, at your choice. Included by pmix_common.h.
 *
 * The helper macros. Each calls the function with its name, with two habits: results are assigned to an argument, and a
 * macro that frees a block sets its pointer to NULL. Arguments may be evaluated twice. */
#ifndef MODEX_MACROS_H
#define MODEX_MACROS_H

#include "../pmix_common.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Frees by `call` and sets the pointer to NULL. */
#define MODEX_FREE_AND_FORGET(pointer, call)                                                                           \
    do {                                                                                                               \
        call;                                                                                                          \
        (pointer) = NULL;                                                                                              \
    } while (0)

/* Ranks, codes, keys, namespaces, processes. */
#define PMIX_RANK_IS_VALID(number) (PMIX_RANK_VALID > (number))
#define PMIX_SYSTEM_EVENT(code) (PMIX_EVENT_SYS_OTHER <= (code) && (code) <= PMIX_EVENT_SYS_BASE)
#define PMIX_CHECK_KEY(object, name) PMIx_Check_key((object)->key, (name))
#define PMIX_CHECK_RESERVED_KEY(name) PMIx_Check_reserved_key((name))
#define PMIX_CHECK_NSPACE(left, right) PMIx_Check_nspace((left), (right))
#define PMIX_CHECK_RANK(left, right) PMIx_Check_rank((left), (right))
#define PMIX_CHECK_PROCID(left, right) PMIx_Check_procid((left), (right))
#define PMIX_NSPACE_INVALID(name) PMIx_Nspace_invalid((name))
#define PMIX_PROCID_INVALID(process) PMIx_Procid_invalid((process))
#define PMIX_LOAD_KEY(to, name) PMIx_Load_key((to), (const char *) (name))
#define PMIX_LOAD_NSPACE(to, name) PMIx_Load_nspace((to), (name))
#define PMIX_LOAD_PROCID(to, name, number) PMIx_Load_procid((to), (name), (number))
#define PMIX_XFER_PROCID(to, from) PMIx_Xfer_procid((to), (from))
#define PMIX_PROCID_XFER(to, from) PMIX_XFER_PROCID(to, from)
/* The functions take whole namespaces; the macros accept strings of any length. */
static inline void modex_multicluster_construct(char *to, const char *cluster, const char *name)
{
    pmix_nspace_t whole_cluster, whole_name;
    PMIx_Load_nspace(whole_cluster, cluster);
    PMIx_Load_nspace(whole_name, name);
    PMIx_Multicluster_nspace_construct(to, whole_cluster, whole_name);
}

static inline void modex_multicluster_parse(const char *from, char *cluster, char *name)
{
    pmix_nspace_t whole, whole_cluster, whole_name;
    PMIx_Load_nspace(whole, from);
    memset(whole_cluster, 0, sizeof(whole_cluster));
    memset(whole_name, 0, sizeof(whole_name));
    PMIx_Multicluster_nspace_parse(whole, whole_cluster, whole_name);
    strcpy(cluster, whole_cluster);
    strcpy(name, whole_name);
}

#define PMIX_MULTICLUSTER_NSPACE_CONSTRUCT(to, cluster, name) modex_multicluster_construct((to), (cluster), (name))
#define PMIX_MULTICLUSTER_NSPACE_PARSE(from, cluster, name) modex_multicluster_parse((from), (cluster), (name))

/* Arrays of strings that end with a null pointer. */
#define PMIX_ARGV_COUNT(count, array) ((count) = PMIx_Argv_count((array)))
#define PMIX_ARGV_APPEND(status, array, text) ((status) = PMIx_Argv_append_nosize((char ***) &(array), (text)))
#define PMIX_ARGV_PREPEND(status, array, text) ((status) = PMIx_Argv_prepend_nosize((char ***) &(array), (text)))
/* Unlike its neighbours, this macro takes the address of the array. */
#define PMIX_ARGV_APPEND_UNIQUE(status, address, text) ((status) = PMIx_Argv_append_unique_nosize((address), (text)))
#define PMIX_ARGV_FREE(array) MODEX_FREE_AND_FORGET(array, PMIx_Argv_free((array)))
#define PMIX_ARGV_SPLIT(array, text, delimiter) ((array) = PMIx_Argv_split((text), (delimiter)))
#define PMIX_ARGV_JOIN(text, array, delimiter) ((text) = PMIx_Argv_join((array), (delimiter)))
#define PMIX_ARGV_COPY(to, from) ((to) = PMIx_Argv_copy((from)))
#define PMIX_SETENV(status, name, text, environment) ((status) = PMIx_Setenv((name), (text), true, (environment)))

/* pmix_proc_t */
#define PMIX_PROC_CONSTRUCT(process) PMIx_Proc_construct((process))
#define PMIX_PROC_DESTRUCT(process) PMIx_Proc_destruct((process))
#define PMIX_PROC_CREATE(processes, count) ((processes) = PMIx_Proc_create((count)))
#define PMIX_PROC_FREE(processes, count) MODEX_FREE_AND_FORGET(processes, PMIx_Proc_free((processes), (count)))
#define PMIX_PROC_RELEASE(process) MODEX_FREE_AND_FORGET(process, PMIx_Proc_free((process), 1))
#define PMIX_PROC_STATIC_INIT {{0}, PMIX_RANK_UNDEF}
#define PMIX_PROC_LOAD(process, name, number) PMIx_Proc_load((process), (name), (number))

/* pmix_proc_info_t */
#define PMIX_PROC_INFO_CONSTRUCT(description) PMIx_Proc_info_construct((description))
#define PMIX_PROC_INFO_DESTRUCT(description) PMIx_Proc_info_destruct((description))
#define PMIX_PROC_INFO_CREATE(descriptions, count) ((descriptions) = PMIx_Proc_info_create((count)))
#define PMIX_PROC_INFO_FREE(descriptions, count)                                                                       \
    MODEX_FREE_AND_FORGET(descriptions, PMIx_Proc_info_free((descriptions), (count)))
#define PMIX_PROC_INFO_RELEASE(description) MODEX_FREE_AND_FORGET(description, PMIx_Proc_info_free((description), 1))
#define PMIX_PROC_INFO_STATIC_INIT {PMIX_PROC_STATIC_INIT, NULL, NULL, 0, 0, PMIX_PROC_STATE_UNDEF}

/* pmix_value_t */
#define PMIX_VALUE_CONSTRUCT(value) PMIx_Value_construct((value))
#define PMIX_VALUE_DESTRUCT(value) PMIx_Value_destruct((value))
#define PMIX_VALUE_CREATE(values, count) ((values) = PMIx_Value_create((count)))
#define PMIX_VALUE_FREE(values, count) MODEX_FREE_AND_FORGET(values, PMIx_Value_free((values), (count)))
#define PMIX_VALUE_RELEASE(value) MODEX_FREE_AND_FORGET(value, PMIx_Value_free((value), 1))
#ifdef __cplusplus
#define PMIX_VALUE_STATIC_INIT {PMIX_UNDEF, {}}
#else
/* Names the pointer, because the first member is only one byte of the union. */
#define PMIX_VALUE_STATIC_INIT {.type = PMIX_UNDEF, .data = {.ptr = NULL}}
#endif
#define PMIX_CHECK_TRUE(value) (PMIx_Value_true((value)) == PMIX_BOOL_TRUE)
#define PMIX_CHECK_BOOL(value) (PMIx_Value_true((value)) != PMIX_NON_BOOL)
/* Assigns the number in `value`, of any width, to `number`, of the type `kind`. No parameter has the name of a member. */
#define PMIX_VALUE_GET_NUMBER(outcome, value, number, kind)                                                            \
    do {                                                                                                               \
        (outcome) = PMIX_SUCCESS;                                                                                      \
        switch ((value)->type) {                                                                                       \
        case PMIX_SIZE: (number) = (kind) (value)->data.size; break;                                                   \
        case PMIX_PID: (number) = (kind) (value)->data.pid; break;                                                     \
        case PMIX_INT: (number) = (kind) (value)->data.integer; break;                                                 \
        case PMIX_INT8: (number) = (kind) (value)->data.int8; break;                                                   \
        case PMIX_INT16: (number) = (kind) (value)->data.int16; break;                                                 \
        case PMIX_INT32: (number) = (kind) (value)->data.int32; break;                                                 \
        case PMIX_INT64: (number) = (kind) (value)->data.int64; break;                                                 \
        case PMIX_UINT: (number) = (kind) (value)->data.uint; break;                                                   \
        case PMIX_UINT8: (number) = (kind) (value)->data.uint8; break;                                                 \
        case PMIX_UINT16: (number) = (kind) (value)->data.uint16; break;                                               \
        case PMIX_UINT32: (number) = (kind) (value)->data.uint32; break;                                               \
        case PMIX_UINT64: (number) = (kind) (value)->data.uint64; break;                                               \
        case PMIX_FLOAT: (number) = (kind) (value)->data.fval; break;                                                  \
        case PMIX_DOUBLE: (number) = (kind) (value)->data.dval; break;                                                 \
        case PMIX_PROC_RANK: (number) = (kind) (value)->data.rank; break;                                              \
        case PMIX_STATUS: (number) = (kind) (value)->data.status; break;                                               \
        default: (outcome) = PMIX_ERR_BAD_PARAM;                                                                       \
        }                                                                                                              \
    } while (0)

/* pmix_info_t */
#define PMIX_INFO_CONSTRUCT(info) PMIx_Info_construct((info))
#define PMIX_INFO_DESTRUCT(info) PMIx_Info_destruct((info))
#define PMIX_INFO_CREATE(infos, count) ((infos) = PMIx_Info_create((count)))
#define PMIX_INFO_FREE(infos, count) MODEX_FREE_AND_FORGET(infos, PMIx_Info_free((infos), (count)))
#define PMIX_INFO_STATIC_INIT {{0}, 0, PMIX_VALUE_STATIC_INIT}
#define PMIX_INFO_REQUIRED(info) PMIx_Info_required((info))
#define PMIX_INFO_OPTIONAL(info) PMIx_Info_optional((info))
#define PMIX_INFO_PROCESSED(info) PMIx_Info_processed((info))
#define PMIX_INFO_SET_END(info) PMIx_Info_set_end((info))
#define PMIX_INFO_SET_QUALIFIER(info) PMIx_Info_qualifier((info))
#define PMIX_INFO_SET_PERSISTENT(info) PMIx_Info_persistent((info))
#define PMIX_INFO_IS_REQUIRED(info) PMIx_Info_is_required((info))
#define PMIX_INFO_IS_OPTIONAL(info) PMIx_Info_is_optional((info))
#define PMIX_INFO_WAS_PROCESSED(info) PMIx_Info_was_processed((info))
#define PMIX_INFO_IS_END(info) PMIx_Info_is_end((info))
#define PMIX_INFO_IS_QUALIFIER(info) PMIx_Info_is_qualifier((info))
#define PMIX_INFO_IS_PERSISTENT(info) PMIx_Info_is_persistent((info))
#define PMIX_INFO_TRUE(info) (PMIx_Info_true((info)) == PMIX_BOOL_TRUE)

/* pmix_pdata_t */
#define PMIX_PDATA_CONSTRUCT(pdata) PMIx_Pdata_construct((pdata))
#define PMIX_PDATA_DESTRUCT(pdata) PMIx_Pdata_destruct((pdata))
#define PMIX_PDATA_CREATE(pdatas, count) ((pdatas) = PMIx_Pdata_create((count)))
#define PMIX_PDATA_FREE(pdatas, count) MODEX_FREE_AND_FORGET(pdatas, PMIx_Pdata_free((pdatas), (count)))
#define PMIX_PDATA_RELEASE(pdata) MODEX_FREE_AND_FORGET(pdata, PMIx_Pdata_free((pdata), 1))
#define PMIX_LOOKUP_STATIC_INIT {PMIX_PROC_STATIC_INIT, {0}, PMIX_VALUE_STATIC_INIT}

/* pmix_app_t */
#define PMIX_APP_CONSTRUCT(app) PMIx_App_construct((app))
#define PMIX_APP_DESTRUCT(app) PMIx_App_destruct((app))
#define PMIX_APP_CREATE(apps, count) ((apps) = PMIx_App_create((count)))
#define PMIX_APP_FREE(apps, count) MODEX_FREE_AND_FORGET(apps, PMIx_App_free((apps), (count)))
#define PMIX_APP_STATIC_INIT {NULL, NULL, NULL, NULL, 0, NULL, 0}
#define PMIX_APP_INFO_CREATE(app, count) PMIx_App_info_create((app), (count))
#define PMIX_APP_RELEASE(app) MODEX_FREE_AND_FORGET(app, PMIx_App_release((app)))

/* pmix_query_t */
#define PMIX_QUERY_CONSTRUCT(query) PMIx_Query_construct((query))
#define PMIX_QUERY_DESTRUCT(query) PMIx_Query_destruct((query))
#define PMIX_QUERY_CREATE(queries, count) ((queries) = PMIx_Query_create((count)))
#define PMIX_QUERY_FREE(queries, count) MODEX_FREE_AND_FORGET(queries, PMIx_Query_free((queries), (count)))
#define PMIX_QUERY_STATIC_INIT {NULL, NULL, 0}
#define PMIX_QUERY_QUALIFIERS_CREATE(query, count) PMIx_Query_qualifiers_create((query), (count))
#define PMIX_QUERY_RELEASE(query) MODEX_FREE_AND_FORGET(query, PMIx_Query_release((query)))

/* pmix_regattr_t */
#define PMIX_REGATTR_CONSTRUCT(attribute) PMIx_Regattr_construct((attribute))
#define PMIX_REGATTR_DESTRUCT(attribute) PMIx_Regattr_destruct((attribute))
#define PMIX_REGATTR_CREATE(attributes, count) ((attributes) = PMIx_Regattr_create((count)))
#define PMIX_REGATTR_FREE(attributes, count)                                                                           \
    MODEX_FREE_AND_FORGET(attributes, PMIx_Regattr_free((attributes), (count)))
#define PMIX_REGATTR_STATIC_INIT {NULL, {0}, PMIX_UNDEF, NULL}
#define PMIX_REGATTR_LOAD(attribute, name, text, kind, about)                                                          \
    PMIx_Regattr_load((attribute), (name), (text), (kind), (about))
#define PMIX_REGATTR_XFER(to, from) PMIx_Regattr_xfer((to), (from))

/* pmix_data_array_t */
#define PMIX_DATA_ARRAY_STATIC_INIT {PMIX_UNDEF, 0, NULL}
#define PMIX_DATA_ARRAY_INIT(array, kind) PMIx_Data_array_init((array), (kind))
#define PMIX_DATA_ARRAY_CONSTRUCT(array, count, kind) PMIx_Data_array_construct((array), (count), (kind))
#define PMIX_DATA_ARRAY_DESTRUCT(array) PMIx_Data_array_destruct((array))
#define PMIX_DATA_ARRAY_CREATE(array, count, kind) ((array) = PMIx_Data_array_create((count), (kind)))
#define PMIX_DATA_ARRAY_FREE(array) MODEX_FREE_AND_FORGET(array, PMIx_Data_array_free((array)))

/* pmix_byte_object_t */
#define PMIX_BYTE_OBJECT_CONSTRUCT(object) PMIx_Byte_object_construct((object))
#define PMIX_BYTE_OBJECT_DESTRUCT(object) PMIx_Byte_object_destruct((object))
#define PMIX_BYTE_OBJECT_CREATE(objects, count) ((objects) = PMIx_Byte_object_create((count)))
#define PMIX_BYTE_OBJECT_FREE(objects, count) MODEX_FREE_AND_FORGET(objects, PMIx_Byte_object_free((objects), (count)))
#define PMIX_BYTE_OBJECT_STATIC_INIT {NULL, 0}
/* The object takes over the bytes: `data` and `length` are emptied. */
#define PMIX_BYTE_OBJECT_LOAD(object, data, length)                                                                    \
    do {                                                                                                               \
        PMIx_Byte_object_load((object), (char *) (data), (length));                                                    \
        (data) = NULL;                                                                                                 \
        (length) = 0;                                                                                                  \
    } while (0)

/* pmix_data_buffer_t */
#define PMIX_DATA_BUFFER_STATIC_INIT {NULL, NULL, NULL, 0, 0}
#define PMIX_DATA_BUFFER_CREATE(buffer) ((buffer) = PMIx_Data_buffer_create())
#define PMIX_DATA_BUFFER_RELEASE(buffer) MODEX_FREE_AND_FORGET(buffer, PMIx_Data_buffer_release((buffer)))
#define PMIX_DATA_BUFFER_CONSTRUCT(buffer) PMIx_Data_buffer_construct((buffer))
#define PMIX_DATA_BUFFER_DESTRUCT(buffer) PMIx_Data_buffer_destruct((buffer))
#define PMIX_DATA_BUFFER_LOAD(buffer, data, length) PMIx_Data_buffer_load((buffer), (char *) (data), (length))
#define PMIX_DATA_BUFFER_UNLOAD(buffer, data, length)                                                                  \
    do {                                                                                                               \
        char *modex_bytes = NULL;                                                                                      \
        size_t modex_size = 0;                                                                                         \
        PMIx_Data_buffer_unload((buffer), &modex_bytes, &modex_size);                                                  \
        (data) = (__typeof__(data)) modex_bytes;                                                                       \
        (length) = (__typeof__(length)) modex_size;                                                                    \
    } while (0)

/* pmix_envar_t */
#define PMIX_ENVAR_CONSTRUCT(variable) PMIx_Envar_construct((variable))
#define PMIX_ENVAR_DESTRUCT(variable) PMIx_Envar_destruct((variable))
#define PMIX_ENVAR_CREATE(variables, count) ((variables) = PMIx_Envar_create((count)))
#define PMIX_ENVAR_FREE(variables, count) MODEX_FREE_AND_FORGET(variables, PMIx_Envar_free((variables), (count)))
#define PMIX_ENVAR_STATIC_INIT {NULL, NULL, '\0'}
#define PMIX_ENVAR_LOAD(variable, name, text, mark)                                                                    \
    PMIx_Envar_load((variable), (char *) (name), (char *) (text), (mark))

/* pmix_coord_t; the number of coordinates comes before the number of their dimensions. */
#define PMIX_COORD_STATIC_INIT {PMIX_COORD_VIEW_UNDEF, NULL, 0}
#define PMIX_COORD_CONSTRUCT(coordinate) PMIx_Coord_construct((coordinate))
#define PMIX_COORD_DESTRUCT(coordinate) PMIx_Coord_destruct((coordinate))
#define PMIX_COORD_CREATE(coordinates, count, dimensions) ((coordinates) = PMIx_Coord_create((dimensions), (count)))
#define PMIX_COORD_FREE(coordinates, count) MODEX_FREE_AND_FORGET(coordinates, PMIx_Coord_free((coordinates), (count)))

/* pmix_geometry_t */
#define PMIX_GEOMETRY_CONSTRUCT(shape) PMIx_Geometry_construct((shape))
#define PMIX_GEOMETRY_DESTRUCT(shape) PMIx_Geometry_destruct((shape))
#define PMIX_GEOMETRY_CREATE(shapes, count) ((shapes) = PMIx_Geometry_create((count)))
#define PMIX_GEOMETRY_FREE(shapes, count) MODEX_FREE_AND_FORGET(shapes, PMIx_Geometry_free((shapes), (count)))
#define PMIX_GEOMETRY_STATIC_INIT {0, NULL, NULL, NULL, 0}

/* pmix_cpuset_t */
#define PMIX_CPUSET_CONSTRUCT(cpuset) PMIx_Cpuset_construct((cpuset))
#define PMIX_CPUSET_DESTRUCT(cpuset) PMIx_Cpuset_destruct((cpuset))
#define PMIX_CPUSET_CREATE(cpusets, count) ((cpusets) = PMIx_Cpuset_create((count)))
#define PMIX_CPUSET_FREE(cpusets, count) MODEX_FREE_AND_FORGET(cpusets, PMIx_Cpuset_free((cpusets), (count)))
#define PMIX_CPUSET_STATIC_INIT {NULL, NULL}

/* pmix_topology_t */
#define PMIX_TOPOLOGY_CONSTRUCT(topo) PMIx_Topology_construct((topo))
#define PMIX_TOPOLOGY_DESTRUCT(topo) PMIx_Topology_destruct((topo))
#define PMIX_TOPOLOGY_CREATE(topologies, count) ((topologies) = PMIx_Topology_create((count)))
#define PMIX_TOPOLOGY_FREE(topologies, count) MODEX_FREE_AND_FORGET(topologies, PMIx_Topology_free((topologies), (count)))
#define PMIX_TOPOLOGY_STATIC_INIT {NULL, NULL}

/* pmix_endpoint_t */
#define PMIX_ENDPOINT_CONSTRUCT(endpoint) PMIx_Endpoint_construct((endpoint))
#define PMIX_ENDPOINT_DESTRUCT(endpoint) PMIx_Endpoint_destruct((endpoint))
#define PMIX_ENDPOINT_CREATE(endpoints, count) ((endpoints) = PMIx_Endpoint_create((count)))
#define PMIX_ENDPOINT_FREE(endpoints, count) MODEX_FREE_AND_FORGET(endpoints, PMIx_Endpoint_free((endpoints), (count)))
#define PMIX_ENDPOINT_STATIC_INIT {NULL, NULL, PMIX_BYTE_OBJECT_STATIC_INIT}

/* pmix_device_t */
#define PMIX_DEVICE_CONSTRUCT(device) PMIx_Device_construct((device))
#define PMIX_DEVICE_DESTRUCT(device) PMIx_Device_destruct((device))
#define PMIX_DEVICE_CREATE(devices, count) ((devices) = PMIx_Device_create((count)))
#define PMIX_DEVICE_FREE(devices, count) MODEX_FREE_AND_FORGET(devices, PMIx_Device_free((devices), (count)))
#define PMIX_DEVICE_STATIC_INIT {NULL, NULL, PMIX_DEVTYPE_UNKNOWN}

/* pmix_device_distance_t */
#define PMIX_DEVICE_DIST_CONSTRUCT(distance) PMIx_Device_distance_construct((distance))
#define PMIX_DEVICE_DIST_DESTRUCT(distance) PMIx_Device_distance_destruct((distance))
#define PMIX_DEVICE_DIST_CREATE(distances, count) ((distances) = PMIx_Device_distance_create((count)))
#define PMIX_DEVICE_DIST_FREE(distances, count)                                                                        \
    MODEX_FREE_AND_FORGET(distances, PMIx_Device_distance_free((distances), (count)))
#define PMIX_DEVICE_DIST_STATIC_INIT {NULL, NULL, PMIX_DEVTYPE_UNKNOWN, UINT16_MAX, UINT16_MAX}

/* pmix_resource_unit_t */
#define PMIX_RESOURCE_UNIT_CONSTRUCT(unit) PMIx_Resource_unit_construct((unit))
#define PMIX_RESOURCE_UNIT_DESTRUCT(unit) PMIx_Resource_unit_destruct((unit))
#define PMIX_RESOURCE_UNIT_CREATE(units, count) ((units) = PMIx_Resource_unit_create((count)))
#define PMIX_RESOURCE_UNIT_FREE(units, count) MODEX_FREE_AND_FORGET(units, PMIx_Resource_unit_free((units), (count)))
#define PMIX_RESOURCE_UNIT_STATIC_INIT {PMIX_DEVTYPE_UNKNOWN, 0}

/* Types without further macros. */
#define PMIX_NODE_PID_STATIC_INIT {NULL, UINT32_MAX, -1}
#define PMIX_REGEX2_STATIC_INIT {NULL, NULL, 0}
#define PMIX_FABRIC_STATIC_INIT {NULL, 0, NULL, 0, NULL}
#define PMIX_FABRIC_CONSTRUCT(fabric) memset((fabric), 0, sizeof(pmix_fabric_t))

/* pmix_proc_stats_t */
#define PMIX_PROC_STATS_CONSTRUCT(sample) PMIx_Proc_stats_construct((sample))
#define PMIX_PROC_STATS_DESTRUCT(sample) PMIx_Proc_stats_destruct((sample))
#define PMIX_PROC_STATS_CREATE(samples, count) ((samples) = PMIx_Proc_stats_create((count)))
#define PMIX_PROC_STATS_FREE(samples, count) MODEX_FREE_AND_FORGET(samples, PMIx_Proc_stats_free((samples), (count)))
#define PMIX_PROC_STATS_RELEASE(sample) MODEX_FREE_AND_FORGET(sample, PMIx_Proc_stats_free((sample), 1))
#define PMIX_PROC_STATS_STATIC_INIT                                                                                    \
    {NULL, PMIX_PROC_STATIC_INIT, 0, NULL, '\0', {0, 0}, 0, 0, 0, 0, 0, 0, 0, 0, {0, 0}}

/* pmix_disk_stats_t */
#define PMIX_DISK_STATS_CONSTRUCT(sample) PMIx_Disk_stats_construct((sample))
#define PMIX_DISK_STATS_DESTRUCT(sample) PMIx_Disk_stats_destruct((sample))
#define PMIX_DISK_STATS_CREATE(samples, count) ((samples) = PMIx_Disk_stats_create((count)))
#define PMIX_DISK_STATS_FREE(samples, count) MODEX_FREE_AND_FORGET(samples, PMIx_Disk_stats_free((samples), (count)))
#define PMIX_DISK_STATS_RELEASE(sample) MODEX_FREE_AND_FORGET(sample, PMIx_Disk_stats_free((sample), 1))
#define PMIX_DISK_STATS_STATIC_INIT {NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* pmix_net_stats_t */
#define PMIX_NET_STATS_CONSTRUCT(sample) PMIx_Net_stats_construct((sample))
#define PMIX_NET_STATS_DESTRUCT(sample) PMIx_Net_stats_destruct((sample))
#define PMIX_NET_STATS_CREATE(samples, count) ((samples) = PMIx_Net_stats_create((count)))
#define PMIX_NET_STATS_FREE(samples, count) MODEX_FREE_AND_FORGET(samples, PMIx_Net_stats_free((samples), (count)))
#define PMIX_NET_STATS_RELEASE(sample) MODEX_FREE_AND_FORGET(sample, PMIx_Net_stats_free((sample), 1))
#define PMIX_NET_STATS_STATIC_INIT {NULL, 0, 0, 0, 0, 0, 0}

/* pmix_node_stats_t */
#define PMIX_NODE_STATS_CONSTRUCT(sample) PMIx_Node_stats_construct((sample))
#define PMIX_NODE_STATS_DESTRUCT(sample) PMIx_Node_stats_destruct((sample))
#define PMIX_NODE_STATS_CREATE(samples, count) ((samples) = PMIx_Node_stats_create((count)))
#define PMIX_NODE_STATS_FREE(samples, count) MODEX_FREE_AND_FORGET(samples, PMIx_Node_stats_free((samples), (count)))
#define PMIX_NODE_STATS_RELEASE(sample) MODEX_FREE_AND_FORGET(sample, PMIx_Node_stats_free((sample), 1))
#define PMIX_NODE_STATS_STATIC_INIT {NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0, 0}, NULL, 0, NULL, 0}

#ifdef __cplusplus
}
#endif

#endif
