/* A program in the style of OpenPMIx 4.2 users: it uses every helper macro and every small function of those headers,
 * and checks its effect. It compiles against either set of headers, as C and as C++. On success it prints nothing and
 * returns 0. It needs no server. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <pmix.h>
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

static void ranks_and_codes(void)
{
    CHECK(PMIX_RANK_IS_VALID(0));
    CHECK(!PMIX_RANK_IS_VALID(PMIX_RANK_WILDCARD));
    CHECK(PMIX_SYSTEM_EVENT(PMIX_EVENT_NODE_DOWN));
    CHECK(!PMIX_SYSTEM_EVENT(PMIX_ERR_NOT_FOUND));
    CHECK(PMIX_CHECK_RANK(3, 3));
    CHECK(PMIX_CHECK_RANK(3, PMIX_RANK_WILDCARD));
    CHECK(!PMIX_CHECK_RANK(3, 4));
}

static void names(void)
{
    pmix_key_t key;
    pmix_nspace_t nspace, cluster, job, both;
    pmix_info_t info;

    PMIX_LOAD_KEY(key, "my.key");
    CHECK(strcmp(key, "my.key") == 0);
    PMIX_LOAD_KEY(key, NULL);
    CHECK(key[0] == '\0');
    PMIX_LOAD_NSPACE(nspace, "job7");
    CHECK(PMIX_CHECK_NSPACE(nspace, "job7"));
    CHECK(!PMIX_CHECK_NSPACE(nspace, "job8"));
    CHECK(PMIX_NSPACE_INVALID(""));
    CHECK(!PMIX_NSPACE_INVALID(nspace));
    CHECK(PMIX_CHECK_RESERVED_KEY("pmix.rank"));
    CHECK(!PMIX_CHECK_RESERVED_KEY("my.key"));
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_LOAD_KEY(info.key, PMIX_TIMEOUT);
    CHECK(PMIX_CHECK_KEY(&info, "pmix.timeout"));
    CHECK(!PMIX_CHECK_KEY(&info, PMIX_WAIT));

    memset(cluster, 0, sizeof(cluster));
    memset(job, 0, sizeof(job));
    PMIX_MULTICLUSTER_NSPACE_CONSTRUCT(both, "north", "job7");
    CHECK(strcmp(both, "north:job7") == 0);
    PMIX_MULTICLUSTER_NSPACE_PARSE(both, cluster, job);
    CHECK(strcmp(cluster, "north") == 0 && strcmp(job, "job7") == 0);
    CHECK(pmix_keylen("abc") == 3 && pmix_nslen("") == 0);
    pmix_strncpy(key, "abcdef", 3);
    CHECK(strcmp(key, "abc") == 0);
}

static void processes(void)
{
    static pmix_proc_t fixed = PMIX_PROC_STATIC_INIT;
    static pmix_proc_info_t fixed_info = PMIX_PROC_INFO_STATIC_INIT;
    pmix_proc_t one, two, *many;
    pmix_proc_info_t described, *all;

    CHECK(fixed.rank == PMIX_RANK_UNDEF && fixed.nspace[0] == '\0');
    CHECK(fixed_info.hostname == NULL && fixed_info.state == PMIX_PROC_STATE_UNDEF);
    PMIX_PROC_CONSTRUCT(&one);
    PMIX_PROC_LOAD(&one, "job7", 3);
    CHECK(one.rank == 3 && strcmp(one.nspace, "job7") == 0);
    PMIX_LOAD_PROCID(&two, "job7", PMIX_RANK_WILDCARD);
    CHECK(PMIX_CHECK_PROCID(&one, &two));
    CHECK(!PMIX_PROCID_INVALID(&one));
    PMIX_XFER_PROCID(&two, &one);
    CHECK(two.rank == 3);
    two.rank = 4;
    PMIX_PROCID_XFER(&one, &two);
    CHECK(one.rank == 4);
    PMIX_PROC_DESTRUCT(&one);
    PMIX_PROC_CREATE(many, 2);
    CHECK(many != NULL);
    PMIX_PROC_LOAD(&many[1], "job7", 1);
    PMIX_PROC_FREE(many, 2);
    CHECK(many == NULL);
    PMIX_PROC_CREATE(many, 1);
    PMIX_PROC_RELEASE(many);
    CHECK(many == NULL);

    PMIX_PROC_INFO_CONSTRUCT(&described);
    described.hostname = strdup("node0");
    PMIX_PROC_INFO_DESTRUCT(&described);
    CHECK(described.hostname == NULL);
    PMIX_PROC_INFO_CREATE(all, 2);
    all[1].executable_name = strdup("a.out");
    PMIX_PROC_INFO_FREE(all, 2);
    PMIX_PROC_INFO_CREATE(all, 1);
    PMIX_PROC_INFO_RELEASE(all);
}

static void strings(void)
{
    char **argv = NULL, **copy, *text;
    char **env = NULL;
    pmix_status_t status;
    int count;

    PMIX_ARGV_APPEND(status, argv, "b");
    CHECK(status == PMIX_SUCCESS);
    PMIX_ARGV_PREPEND(status, argv, "a");
    CHECK(status == PMIX_SUCCESS);
    PMIX_ARGV_APPEND_UNIQUE(status, &argv, "b");
    CHECK(status == PMIX_SUCCESS);
    PMIX_ARGV_COUNT(count, argv);
    CHECK(count == 2);
    PMIX_ARGV_COPY(copy, argv);
    PMIX_ARGV_JOIN(text, copy, ',');
    CHECK(strcmp(text, "a,b") == 0);
    PMIX_ARGV_FREE(copy);
    PMIX_ARGV_SPLIT(copy, text, ',');
    CHECK(strcmp(copy[1], "b") == 0 && copy[2] == NULL);
    PMIX_ARGV_FREE(copy);
    free(text);
    PMIX_ARGV_FREE(argv);
    PMIX_SETENV(status, "NAME", "text", &env);
    CHECK(status == PMIX_SUCCESS && strcmp(env[0], "NAME=text") == 0);
    PMIX_ARGV_FREE(env);

    argv = NULL;
    CHECK(pmix_argv_append_nosize(&argv, "x") == PMIX_SUCCESS);
    CHECK(pmix_argv_prepend_nosize(&argv, "w") == PMIX_SUCCESS);
    CHECK(pmix_argv_append_unique_nosize(&argv, "x") == PMIX_SUCCESS);
    CHECK(pmix_argv_count(argv) == 2);
    copy = pmix_argv_copy(argv);
    text = pmix_argv_join(copy, ' ');
    CHECK(strcmp(text, "w x") == 0);
    free(text);
    pmix_argv_free(copy);
    pmix_argv_free(argv);
    argv = pmix_argv_split("a::b", ':');
    CHECK(pmix_argv_count(argv) == 2);
    pmix_argv_free(argv);
    argv = pmix_argv_split_with_empty("a::b", ':');
    CHECK(pmix_argv_count(argv) == 3);
    pmix_argv_free(argv);
    CHECK(pmix_setenv("NAME", "other", true, &environ) == PMIX_SUCCESS);
}

static void values(void)
{
    static pmix_value_t fixed = PMIX_VALUE_STATIC_INIT;
    pmix_value_t value, *copy = NULL, *many;
    pmix_status_t status, found;
    uint32_t number = 77, out;
    bool flag = true;
    char *text = NULL;
    size_t size;

    CHECK(fixed.type == PMIX_UNDEF && fixed.data.ptr == NULL);
    PMIX_VALUE_CONSTRUCT(&value);
    PMIX_VALUE_LOAD(&value, &number, PMIX_UINT32);
    PMIX_VALUE_GET_NUMBER(found, &value, out, uint32_t);
    CHECK(found == PMIX_SUCCESS && out == 77);
    PMIX_VALUE_DESTRUCT(&value);
    PMIX_VALUE_LOAD(&value, "text", PMIX_STRING);
    PMIX_VALUE_GET_NUMBER(status, &value, out, uint32_t);
    CHECK(status == PMIX_ERR_BAD_PARAM);
    PMIX_VALUE_UNLOAD(status, &value, (void **) &text, &size);
    CHECK(status == PMIX_SUCCESS && strcmp(text, "text") == 0);
    free(text);
    PMIX_VALUE_XFER(status, copy, &value);
    CHECK(status == PMIX_SUCCESS && strcmp(copy->data.string, "text") == 0);
    PMIX_VALUE_RELEASE(copy);
    CHECK(copy == NULL);
    PMIX_VALUE_CREATE(many, 2);
    PMIX_VALUE_XFER_DIRECT(status, &many[1], &value);
    CHECK(status == PMIX_SUCCESS && strcmp(many[1].data.string, "text") == 0);
    PMIX_VALUE_FREE(many, 2);
    PMIX_VALUE_DESTRUCT(&value);
    PMIX_VALUE_LOAD(&value, &flag, PMIX_BOOL);
    CHECK(PMIX_CHECK_TRUE(&value) && PMIX_CHECK_BOOL(&value));
    PMIX_VALUE_DESTRUCT(&value);
}

static void infos(void)
{
    static pmix_info_t fixed = PMIX_INFO_STATIC_INIT;
    pmix_info_t one, *many;
    pmix_data_array_t array = PMIX_DATA_ARRAY_STATIC_INIT;
    pmix_status_t status;
    void *list;
    int seconds = 5;

    CHECK(fixed.key[0] == '\0' && fixed.value.type == PMIX_UNDEF);
    PMIX_INFO_CREATE(many, 3);
    CHECK(PMIX_INFO_IS_END(&many[2]) && !PMIX_INFO_IS_END(&many[1]));
    PMIX_INFO_LOAD(&many[0], PMIX_TIMEOUT, &seconds, PMIX_INT);
    PMIX_INFO_LOAD(&many[1], PMIX_WAIT, NULL, PMIX_BOOL);
    CHECK(PMIX_CHECK_KEY(&many[0], PMIX_TIMEOUT) && many[0].value.data.integer == 5);
    CHECK(PMIX_INFO_TRUE(&many[1]));
    PMIX_INFO_XFER(&many[2], &many[0]);
    CHECK(many[2].value.data.integer == 5);
    PMIX_INFO_REQUIRED(&many[0]);
    CHECK(PMIX_INFO_IS_REQUIRED(&many[0]));
    PMIX_INFO_OPTIONAL(&many[0]);
    CHECK(PMIX_INFO_IS_OPTIONAL(&many[0]));
    PMIX_INFO_PROCESSED(&many[0]);
    CHECK(PMIX_INFO_WAS_PROCESSED(&many[0]));
    PMIX_INFO_SET_QUALIFIER(&many[0]);
    CHECK(PMIX_INFO_IS_QUALIFIER(&many[0]));
    PMIX_INFO_FREE(many, 3);
    CHECK(many == NULL);

    PMIX_INFO_CONSTRUCT(&one);
    PMIX_INFO_LOAD(&one, PMIX_HOSTNAME, "node0", PMIX_STRING);
    PMIX_INFO_SET_END(&one);
    CHECK(PMIX_INFO_IS_END(&one));
    PMIX_INFO_LIST_START(list);
    PMIX_INFO_LIST_ADD(status, list, PMIX_TIMEOUT, &seconds, PMIX_INT);
    CHECK(status == PMIX_SUCCESS);
    PMIX_INFO_LIST_XFER(status, list, &one);
    CHECK(status == PMIX_SUCCESS);
    PMIX_INFO_LIST_INSERT(status, list, &one);
    CHECK(status == PMIX_SUCCESS);
    PMIX_INFO_LIST_CONVERT(status, list, &array);
    CHECK(status == PMIX_SUCCESS && array.size == 3 && array.type == PMIX_INFO);
    PMIX_INFO_LIST_RELEASE(list);
    PMIX_DATA_ARRAY_DESTRUCT(&array);
    /* The list only borrowed the inserted info. */
    PMIX_INFO_DESTRUCT(&one);

    PMIX_INFO_CONSTRUCT(&one);
    PMIX_INFO_LOAD(&one, PMIX_HOSTNAME, "node0", PMIX_STRING);
    PMIX_INFO_SET_PERSISTENT(&one);
    CHECK(PMIX_INFO_IS_PERSISTENT(&one));
    one.flags = 0;
    PMIX_INFO_DESTRUCT(&one);
}

static void requests(void)
{
    static pmix_pdata_t fixed_pdata = PMIX_LOOKUP_STATIC_INIT;
    static pmix_app_t fixed_app = PMIX_APP_STATIC_INIT;
    static pmix_query_t fixed_query = PMIX_QUERY_STATIC_INIT;
    static pmix_regattr_t fixed_attribute = PMIX_REGATTR_STATIC_INIT;
    pmix_pdata_t pdata, other, *pdatas;
    pmix_app_t app, *apps;
    pmix_query_t query, *queries;
    pmix_regattr_t attribute, *attributes;
    pmix_proc_t publisher;
    pmix_status_t status;

    CHECK(fixed_pdata.key[0] == '\0' && fixed_app.cmd == NULL);
    CHECK(fixed_query.keys == NULL && fixed_attribute.name == NULL);
    PMIX_LOAD_PROCID(&publisher, "job7", 1);
    PMIX_PDATA_CONSTRUCT(&pdata);
    PMIX_PDATA_CONSTRUCT(&other);
    PMIX_PDATA_LOAD(&pdata, &publisher, "port", "4711", PMIX_STRING);
    PMIX_PDATA_XFER(&other, &pdata);
    CHECK(strcmp(other.value.data.string, "4711") == 0 && other.proc.rank == 1);
    PMIX_PDATA_DESTRUCT(&pdata);
    PMIX_PDATA_DESTRUCT(&other);
    PMIX_PDATA_CREATE(pdatas, 2);
    PMIX_PDATA_FREE(pdatas, 2);
    CHECK(pdatas == NULL);
    PMIX_PDATA_CREATE(pdatas, 1);
    PMIX_PDATA_RELEASE(pdatas);

    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup("a.out");
    PMIX_ARGV_APPEND(status, app.argv, "a.out");
    CHECK(status == PMIX_SUCCESS);
    PMIX_APP_INFO_CREATE(&app, 1);
    CHECK(app.ninfo == 1 && app.info != NULL);
    PMIX_APP_DESTRUCT(&app);
    PMIX_APP_CREATE(apps, 2);
    apps[1].cwd = strdup("/");
    PMIX_APP_FREE(apps, 2);
    PMIX_APP_CREATE(apps, 1);
    PMIX_APP_RELEASE(apps);

    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_QUERY_NAMESPACES);
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
    CHECK(query.nqual == 1 && query.qualifiers != NULL);
    PMIX_QUERY_DESTRUCT(&query);
    PMIX_QUERY_CREATE(queries, 2);
    PMIX_QUERY_FREE(queries, 2);
    PMIX_QUERY_CREATE(queries, 1);
    PMIX_QUERY_RELEASE(queries);

    PMIX_REGATTR_CONSTRUCT(&attribute);
    attribute.name = strdup("PMIX_TIMEOUT");
    PMIX_LOAD_KEY(attribute.string, PMIX_TIMEOUT);
    PMIX_REGATTR_CREATE(attributes, 1);
    PMIX_REGATTR_XFER(attributes, &attribute);
    CHECK(strcmp(attributes[0].string, PMIX_TIMEOUT) == 0);
    PMIX_REGATTR_FREE(attributes, 1);
    PMIX_REGATTR_DESTRUCT(&attribute);
}

static void blocks(void)
{
    static pmix_byte_object_t fixed = PMIX_BYTE_OBJECT_STATIC_INIT;
    static pmix_data_buffer_t fixed_buffer = PMIX_DATA_BUFFER_STATIC_INIT;
    static pmix_envar_t fixed_variable = PMIX_ENVAR_STATIC_INIT;
    pmix_byte_object_t object, *objects;
    pmix_data_buffer_t buffer, *made;
    pmix_data_array_t array, *arrays;
    pmix_envar_t variable, *variables;
    char *bytes = (char *) malloc(4);
    size_t size = 4;

    CHECK(fixed.bytes == NULL && fixed_buffer.base_ptr == NULL && fixed_variable.separator == '\0');
    memcpy(bytes, "data", 4);
    PMIX_BYTE_OBJECT_CONSTRUCT(&object);
    PMIX_BYTE_OBJECT_LOAD(&object, bytes, size);
    CHECK(object.size == 4 && bytes == NULL && size == 0);
    PMIX_BYTE_OBJECT_DESTRUCT(&object);
    CHECK(object.bytes == NULL);
    PMIX_BYTE_OBJECT_CREATE(objects, 2);
    PMIX_BYTE_OBJECT_FREE(objects, 2);

    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);
    PMIX_DATA_BUFFER_CREATE(made);
    bytes = (char *) malloc(4);
    memcpy(bytes, "data", 4);
    PMIX_DATA_BUFFER_LOAD(made, bytes, 4);
    CHECK(made->bytes_used == 4);
    PMIX_DATA_BUFFER_UNLOAD(made, bytes, size);
    CHECK(size == 4 && memcmp(bytes, "data", 4) == 0);
    free(bytes);
    PMIX_DATA_BUFFER_RELEASE(made);

    PMIX_DATA_ARRAY_INIT(&array, PMIX_INT);
    CHECK(array.size == 0 && array.type == PMIX_INT);
    PMIX_DATA_ARRAY_CONSTRUCT(&array, 3, PMIX_INFO);
    CHECK(array.size == 3 && array.array != NULL);
    PMIX_DATA_ARRAY_DESTRUCT(&array);
    PMIX_DATA_ARRAY_CREATE(arrays, 2, PMIX_PROC);
    PMIX_DATA_ARRAY_FREE(arrays);
    CHECK(arrays == NULL);

    PMIX_ENVAR_CONSTRUCT(&variable);
    PMIX_ENVAR_LOAD(&variable, "PATH", "/bin", ':');
    CHECK(strcmp(variable.envar, "PATH") == 0 && variable.separator == ':');
    PMIX_ENVAR_DESTRUCT(&variable);
    PMIX_ENVAR_CREATE(variables, 2);
    PMIX_ENVAR_FREE(variables, 2);
}

static void hardware(void)
{
    static pmix_coord_t fixed_coord = PMIX_COORD_STATIC_INIT;
    static pmix_cpuset_t fixed_cpuset = PMIX_CPUSET_STATIC_INIT;
    static pmix_topology_t fixed_topology = PMIX_TOPOLOGY_STATIC_INIT;
    static pmix_geometry_t fixed_geometry = PMIX_GEOMETRY_STATIC_INIT;
    static pmix_device_distance_t fixed_distance = PMIX_DEVICE_DIST_STATIC_INIT;
    static pmix_endpoint_t fixed_endpoint = PMIX_ENDPOINT_STATIC_INIT;
    static pmix_fabric_t fixed_fabric = PMIX_FABRIC_STATIC_INIT;
    pmix_coord_t coord;
    pmix_cpuset_t cpuset, *cpusets;
    pmix_topology_t topology, *topologies;
    pmix_geometry_t geometry, *geometries;
    pmix_device_distance_t distance, *distances;
    pmix_endpoint_t endpoint, *endpoints;
    pmix_fabric_t fabric;

    CHECK(fixed_coord.coord == NULL && fixed_cpuset.source == NULL && fixed_topology.source == NULL);
    CHECK(fixed_geometry.uuid == NULL && fixed_distance.uuid == NULL);
    CHECK(fixed_endpoint.endpt.bytes == NULL && fixed_fabric.name == NULL);
    PMIX_COORD_CONSTRUCT(&coord);
    coord.coord = (uint32_t *) calloc(2, sizeof(uint32_t));
    PMIX_COORD_DESTRUCT(&coord);
    PMIX_CPUSET_CONSTRUCT(&cpuset);
    PMIX_CPUSET_CREATE(cpusets, 1);
    CHECK(cpuset.bitmap == NULL && cpusets->bitmap == NULL);
    free(cpusets);
    PMIX_TOPOLOGY_CONSTRUCT(&topology);
    PMIX_TOPOLOGY_DESTRUCT(&topology);
    PMIX_TOPOLOGY_CREATE(topologies, 1);
    CHECK(topologies->topology == NULL);
    free(topologies);
    PMIX_GEOMETRY_CONSTRUCT(&geometry);
    geometry.uuid = strdup("u");
    PMIX_GEOMETRY_DESTRUCT(&geometry);
    PMIX_GEOMETRY_CREATE(geometries, 2);
    PMIX_GEOMETRY_FREE(geometries, 2);
    PMIX_DEVICE_DIST_CONSTRUCT(&distance);
    CHECK(distance.maxdist == UINT16_MAX);
    distance.uuid = strdup("u");
    PMIX_DEVICE_DIST_DESTRUCT(&distance);
    PMIX_DEVICE_DIST_CREATE(distances, 2);
    PMIX_DEVICE_DIST_FREE(distances, 2);
    PMIX_ENDPOINT_CONSTRUCT(&endpoint);
    endpoint.osname = strdup("eth0");
    PMIX_ENDPOINT_DESTRUCT(&endpoint);
    PMIX_ENDPOINT_CREATE(endpoints, 2);
    PMIX_ENDPOINT_FREE(endpoints, 2);
    PMIX_FABRIC_CONSTRUCT(&fabric);
    CHECK(fabric.info == NULL);
}

static void statistics(void)
{
    static pmix_disk_stats_t fixed_disk = PMIX_DISK_STATS_STATIC_INIT;
    static pmix_net_stats_t fixed_net = PMIX_NET_STATS_STATIC_INIT;
    static pmix_node_stats_t fixed_node = PMIX_NODE_STATS_STATIC_INIT;
    pmix_proc_stats_t proc, *procs;
    pmix_disk_stats_t disk, *disks;
    pmix_net_stats_t net, *nets;
    pmix_node_stats_t node, *nodes;

    CHECK(fixed_disk.disk == NULL && fixed_net.net_interface == NULL && fixed_node.la == 0);
    PMIX_PROC_STATS_CONSTRUCT(&proc);
    proc.cmd = strdup("a.out");
    PMIX_PROC_STATS_DESTRUCT(&proc);
    PMIX_PROC_STATS_CREATE(procs, 2);
    PMIX_PROC_STATS_FREE(procs, 2);
    PMIX_PROC_STATS_CREATE(procs, 1);
    PMIX_PROC_STATS_RELEASE(procs);
    PMIX_DISK_STATS_CONSTRUCT(&disk);
    disk.disk = strdup("sda");
    PMIX_DISK_STATS_DESTRUCT(&disk);
    PMIX_DISK_STATS_CREATE(disks, 2);
    PMIX_DISK_STATS_FREE(disks, 2);
    PMIX_DISK_STATS_CREATE(disks, 1);
    PMIX_DISK_STATS_RELEASE(disks);
    PMIX_NET_STATS_CONSTRUCT(&net);
    net.net_interface = strdup("eth0");
    PMIX_NET_STATS_DESTRUCT(&net);
    PMIX_NET_STATS_CREATE(nets, 2);
    PMIX_NET_STATS_FREE(nets, 2);
    PMIX_NET_STATS_CREATE(nets, 1);
    PMIX_NET_STATS_RELEASE(nets);
    PMIX_NODE_STATS_CONSTRUCT(&node);
    node.node = strdup("node0");
    PMIX_NODE_STATS_DESTRUCT(&node);
    PMIX_NODE_STATS_CREATE(nodes, 2);
    PMIX_NODE_STATS_FREE(nodes, 2);
    CHECK(nodes == NULL);
}

int main(void)
{
    ranks_and_codes();
    names();
    processes();
    strings();
    values();
    infos();
    requests();
    blocks();
    hardware();
    statistics();
    return failures == 0 ? 0 : 1;
}
