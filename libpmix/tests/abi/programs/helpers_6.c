/* The helper macros that the headers of 4.2.3 to 6.1 added; otherwise like helpers_4_2.c. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <pmix_server.h>
#include <pmix_tool.h>

static int failures = 0;

static void check(bool holds, const char *text, int line)
{
    if (!holds) {
        fprintf(stderr, "line %d: not so: %s\n", line, text);
        failures++;
    }
}

#define CHECK(condition) check((condition), #condition, __LINE__)

static void made_by_macro_freed_by_function(void)
{
    pmix_info_t *infos;
    pmix_value_t *value;
    char **argv = NULL, *text;

    PMIX_INFO_CREATE(infos, 2);
    PMIx_Info_load(&infos[0], PMIX_HOSTNAME, "node0", PMIX_STRING);
    PMIx_Info_free(infos, 2);
    value = PMIx_Value_create(1);
    CHECK(PMIx_Value_load(value, "text", PMIX_STRING) == PMIX_SUCCESS);
    PMIX_VALUE_RELEASE(value);
    CHECK(PMIx_Argv_append_nosize(&argv, "a") == PMIX_SUCCESS);
    text = PMIx_Argv_join(argv, ',');
    CHECK(strcmp(text, "a") == 0);
    free(text);
    PMIX_ARGV_FREE(argv);
    CHECK(argv == NULL);
}

static void lists(void)
{
    pmix_data_array_t array;
    pmix_status_t status;
    void *list;
    int seconds = 5;

    PMIX_DATA_ARRAY_INIT(&array, PMIX_INFO);
    PMIX_INFO_LIST_START(list);
    PMIX_INFO_LIST_ADD(status, list, PMIX_TIMEOUT, &seconds, PMIX_INT);
    PMIX_INFO_LIST_PREPEND(status, list, PMIX_HOSTNAME, "node0", PMIX_STRING);
    CHECK(status == PMIX_SUCCESS);
    PMIX_INFO_LIST_CONVERT(status, list, &array);
    CHECK(status == PMIX_SUCCESS && array.size == 2);
    CHECK(PMIX_CHECK_KEY(&((pmix_info_t *) array.array)[0], PMIX_HOSTNAME));
    PMIX_INFO_LIST_RELEASE(list);
    PMIX_DATA_ARRAY_DESTRUCT(&array);
}

static void hardware(void)
{
    static pmix_device_t fixed_device = PMIX_DEVICE_STATIC_INIT;
    static pmix_resource_unit_t fixed_unit = PMIX_RESOURCE_UNIT_STATIC_INIT;
    static pmix_node_pid_t fixed_node_pid = PMIX_NODE_PID_STATIC_INIT;
    static pmix_regex2_t fixed_regex = PMIX_REGEX2_STATIC_INIT;
    pmix_coord_t *coords;
    pmix_cpuset_t cpuset = PMIX_CPUSET_STATIC_INIT, *cpusets;
    pmix_topology_t *topologies;
    pmix_device_t device, *devices;
    pmix_resource_unit_t unit, *units;

    CHECK(fixed_device.uuid == NULL && fixed_unit.count == 0);
    CHECK(fixed_node_pid.nodeid == UINT32_MAX && fixed_regex.bytes == NULL);
    /* In 4.2.2 this macro wrote through a pointer before it was set. */
    PMIX_COORD_CREATE(coords, 2, 3);
    CHECK(coords[0].dims == 3);
    PMIX_COORD_FREE(coords, 2);
    CHECK(coords == NULL);
    PMIX_CPUSET_DESTRUCT(&cpuset);
    PMIX_CPUSET_CREATE(cpusets, 2);
    PMIX_CPUSET_FREE(cpusets, 2);
    PMIX_TOPOLOGY_CREATE(topologies, 2);
    PMIX_TOPOLOGY_FREE(topologies, 2);
    PMIX_DEVICE_CONSTRUCT(&device);
    device.osname = strdup("mlx5_0");
    PMIX_DEVICE_DESTRUCT(&device);
    PMIX_DEVICE_CREATE(devices, 2);
    PMIX_DEVICE_FREE(devices, 2);
    PMIX_RESOURCE_UNIT_CONSTRUCT(&unit);
    PMIX_RESOURCE_UNIT_DESTRUCT(&unit);
    PMIX_RESOURCE_UNIT_CREATE(units, 2);
    PMIX_RESOURCE_UNIT_FREE(units, 2);
}

static void others(void)
{
    /* In 4.2.2 this initializer lacked a comma. */
    static pmix_proc_stats_t fixed = PMIX_PROC_STATS_STATIC_INIT;
    pmix_node_stats_t *nodes;
    pmix_regattr_t attribute;
    uint8_t *bytes = NULL;
    uint32_t size = 0;
    pmix_data_buffer_t buffer = PMIX_DATA_BUFFER_STATIC_INIT;

    CHECK(fixed.cmd == NULL);
    PMIX_NODE_STATS_CREATE(nodes, 1);
    PMIX_NODE_STATS_RELEASE(nodes);
    CHECK(nodes == NULL);
    PMIX_REGATTR_CONSTRUCT(&attribute);
    PMIX_REGATTR_LOAD(&attribute, "PMIX_TIMEOUT", PMIX_TIMEOUT, PMIX_INT, "seconds");
    CHECK(strcmp(attribute.description[0], "seconds") == 0);
    PMIX_REGATTR_DESTRUCT(&attribute);
    /* The bytes of any type, the size in any integer. */
    PMIX_DATA_BUFFER_UNLOAD(&buffer, bytes, size);
    CHECK(bytes == NULL && size == 0);
}

int main(void)
{
    made_by_macro_freed_by_function();
    lists();
    hardware();
    others();
    return failures == 0 ? 0 : 1;
}
