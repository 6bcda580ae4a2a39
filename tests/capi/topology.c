/* The hardware: the topology, the process's processors, sets and localities as texts and back, the common part of two
 * localities, and distances of devices. It runs in a server and in its client, because Open MPI asks both. */
#include "host.h"

#include <dlfcn.h>
#include <sched.h>

/* Binds the thread to the first `count` of its allowed processors; returns their number. */
static int bind_to(int count, cpu_set_t *before)
{
    cpu_set_t now;
    int bound = 0;

    CHECK_NUMBER(0, sched_getaffinity(0, sizeof *before, before));
    CPU_ZERO(&now);
    for (int i = 0; i < CPU_SETSIZE && bound < count; i++)
        if (CPU_ISSET(i, before)) CPU_SET(i, &now), bound++;
    CHECK_NUMBER(0, sched_setaffinity(0, sizeof now, &now));
    return bound;
}

static int first_of(const cpu_set_t *set)
{
    int first = 0;
    while (!CPU_ISSET(first, set)) first++;
    return first;
}

/* Reads the process's binding, and converts it there and back. */
static void sets(pmix_bind_envelope_t envelope)
{
    cpu_set_t before;
    pmix_cpuset_t set = {NULL, NULL}, again = {NULL, NULL};
    char *text = NULL, *same = NULL, expected[32];

    bind_to(1, &before);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get_cpuset(&set, envelope));
    CHECK(set.bitmap && set.source && strncmp(set.source, "hwloc", 5) == 0);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_generate_cpuset_string(&set, &text));
    snprintf(expected, sizeof expected, "hwloc:%d", first_of(&before));
    CHECK_TEXT(expected, text);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Parse_cpuset_string(text, &again));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_generate_cpuset_string(&again, &same));
    CHECK_TEXT(expected, same);
    free(text);
    free(same);
    PMIx_Cpuset_destruct(&set);
    PMIx_Cpuset_destruct(&again);
    CHECK_NUMBER(0, sched_setaffinity(0, sizeof before, &before));
}

/* A thread on one processor has a locality, and shares all of it with itself. A thread on all processors has no
 * locality. */
static void localities(void)
{
    cpu_set_t before;
    pmix_cpuset_t set = {NULL, NULL};
    pmix_locality_t shared = 0;
    char *bound = NULL, *unbound = (char *)"untouched";
    int all = (int)sysconf(_SC_NPROCESSORS_CONF);

    bind_to(1, &before);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get_cpuset(&set, PMIX_CPUBIND_THREAD));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_generate_locality_string(&set, &bound));
    PMIx_Cpuset_destruct(&set);
    if (all == 1) CHECK(bound == NULL);
    else {
        CHECK_UNLESS_STOCK("leaves the source out", bound && strncmp(bound, "hwloc:", 6) == 0);
        CHECK(bound && strstr(bound, "CR") && strstr(bound, "HT"));
    }
    CHECK_NUMBER(0, sched_setaffinity(0, sizeof before, &before));
    if (CPU_COUNT(&before) == all) {
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Get_cpuset(&set, PMIX_CPUBIND_THREAD));
        CHECK_STATUS(PMIX_SUCCESS, PMIx_server_generate_locality_string(&set, &unbound));
        CHECK_UNLESS_STOCK("describes it all the same", unbound == NULL);
        if (stock()) free(unbound);
        PMIx_Cpuset_destruct(&set);
    }
    if (bound && !stock()) { /* stock does not accept its own text */
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Get_relative_locality(bound, bound, &shared));
        CHECK(shared & PMIX_LOCALITY_SHARE_NODE && shared & PMIX_LOCALITY_SHARE_CORE && shared & PMIX_LOCALITY_SHARE_HWTHREAD);
    }
    free(bound);
    if (stock()) return; /* stock reads only its own texts */
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get_relative_locality("hwloc:SK0:L30:L20:L10:CR0:HT0-1:NM0",
                                                          "hwloc:SK0:L30:L21:L11:CR1:HT2-3:NM0", &shared));
    CHECK(shared & PMIX_LOCALITY_SHARE_NODE && shared & PMIX_LOCALITY_SHARE_PACKAGE && shared & PMIX_LOCALITY_SHARE_L3CACHE);
    CHECK(!(shared & (PMIX_LOCALITY_SHARE_L2CACHE | PMIX_LOCALITY_SHARE_CORE | PMIX_LOCALITY_SHARE_HWTHREAD)));
}

static struct done computed = DONE;
static void on_distances(pmix_status_t status, pmix_device_distance_t *distances, size_t n, void *data,
                         pmix_release_cbfunc_t release, void *release_data)
{
    CHECK(data == &computed);
    for (size_t i = 0; i < n; i++) CHECK(distances[i].uuid && distances[i].mindist <= distances[i].maxdist);
    if (release) release(release_data);
    done_with(data, status, n);
}

static void hardware(void)
{
    pmix_topology_t topology = {NULL, NULL}, again = {NULL, NULL}, other = {(char *)"another", NULL};
    pmix_cpuset_t set = {NULL, NULL};
    pmix_device_distance_t *distances = NULL;
    pmix_info_t info;
    pmix_device_type_t kinds = PMIX_DEVTYPE_NETWORK;
    size_t count = 0, networks = 0;

    CHECK_STATUS(PMIX_SUCCESS, PMIx_Load_topology(&topology));
    CHECK(topology.topology && topology.source && strncmp(topology.source, "hwloc", 5) == 0);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Load_topology(&again));
    CHECK(again.topology == topology.topology);
    if (!stock()) CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, PMIx_Load_topology(&other));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get_cpuset(&set, PMIX_CPUBIND_PROCESS));
    if (!stock()) { /* stock finds no devices of a kind without a name, and leaks its result */
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Compute_distances(&topology, &set, NULL, 0, &distances, &count));
        for (size_t i = 0; i < count; i++) {
            CHECK(distances[i].uuid && distances[i].osname && distances[i].mindist <= distances[i].maxdist);
            networks += distances[i].type == PMIX_DEVTYPE_NETWORK;
            free(distances[i].uuid);
            free(distances[i].osname);
        }
        free(distances);
        /* NULL means the own node. */
        size_t same = 0;
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Compute_distances(NULL, &set, NULL, 0, &distances, &same));
        CHECK_NUMBER(count, same);
        PMIX_DEVICE_DIST_FREE(distances, same);
        struct done refused = DONE;
        PMIX_INFO_LOAD(&info, PMIX_DEVICE_TYPE, &kinds, PMIX_DEVTYPE);
        int before = computed.count;
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Compute_distances_nb(&topology, &set, &info, 1, on_distances, &computed));
        done_wait_for(&computed, before + 1);
        CHECK_STATUS(PMIX_SUCCESS, computed.status);
        CHECK_NUMBER(networks, computed.reference);
        PMIX_INFO_DESTRUCT(&info);
        CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Compute_distances_nb(&topology, &set, NULL, 0, NULL, &refused));
        PMIX_INFO_LOAD(&info, "vendor.thing", NULL, PMIX_BOOL);
        PMIX_INFO_REQUIRED(&info);
        CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED,
                     PMIx_Compute_distances(&topology, &set, &info, 1, &distances, &count));
        PMIX_INFO_DESTRUCT(&info);
        CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Compute_distances(&topology, NULL, NULL, 0, &distances, &count));
        CHECK(PMIx_Compute_distances(&other, &set, NULL, 0, &distances, &count) != PMIX_SUCCESS);
    }
    PMIx_Cpuset_destruct(&set);
    free(topology.source);
    free(again.source);
}

static void refused(void)
{
    static const char *const texts[] = {"", ":", "hwloc", "hwloc:-", "hwloc:3-1", "hwloc:99999999999999999999",
                                        "hwloc:0-4294967295", "hwloc:x", "other:0", "hwloc:0,,1"};
    pmix_cpuset_t set = {NULL, NULL};
    pmix_locality_t shared = 0;
    char *text = NULL;

    if (stock()) return; /* stock crashes on NULL */
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        pmix_status_t status = PMIx_Parse_cpuset_string(texts[i], &set);
        if (status == PMIX_SUCCESS) { /* a set that libhwloc understands and that can be written again */
            CHECK(set.bitmap != NULL);
            CHECK_STATUS(PMIX_SUCCESS, PMIx_server_generate_cpuset_string(&set, &text));
            free(text);
            PMIx_Cpuset_destruct(&set);
        } else CHECK(set.bitmap == NULL);
        (void)PMIx_Get_relative_locality(texts[i], "hwloc:SK0:CR0", &shared);
    }
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Load_topology(NULL));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Get_cpuset(NULL, PMIX_CPUBIND_PROCESS));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Get_cpuset(&set, 77));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Parse_cpuset_string(NULL, &set));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Parse_cpuset_string("hwloc:0", NULL));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Get_relative_locality("hwloc:CR0", "hwloc:CR0", NULL));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_server_generate_locality_string(&set, NULL));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_server_generate_cpuset_string(&set, NULL));
}

static void everything(bool is_server)
{
    /* A server has more threads; their binding stays unchanged. */
    if (stock() && !is_server) return; /* stock's clients have no data for the functions of servers */
    if (!is_server) sets(PMIX_CPUBIND_PROCESS);
    sets(PMIX_CPUBIND_THREAD);
    localities();
    hardware();
    refused();
}

static pmix_server_module_t module;

/* The server may read a host's topology until the call returns. Afterwards the host may destroy it, and all results are
 * as if the server had read the machine itself. */
static void given(void)
{
    pmix_topology_t mine = {(char *)"hwloc", NULL}, loaded = {NULL, NULL};
    pmix_info_t info;
    void *library = dlopen("libhwloc.so.15", RTLD_NOW);
    int (*init)(void **) = NULL, (*load)(void *) = NULL;
    void (*destroy)(void *) = NULL;

    CHECK(library != NULL);
    if (!library) return;
    *(void **)&init = dlsym(library, "hwloc_topology_init");
    *(void **)&load = dlsym(library, "hwloc_topology_load");
    *(void **)&destroy = dlsym(library, "hwloc_topology_destroy");
    CHECK_NUMBER(0, init(&mine.topology));
    CHECK_NUMBER(0, load(mine.topology));
    memset(&info, 0, sizeof info);
    strcpy(info.key, PMIX_TOPOLOGY2);
    info.value.type = PMIX_TOPO;
    info.value.data.topo = &mine;
    host_start_with(&module, &info, 1);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Load_topology(&loaded));
    CHECK(loaded.topology && loaded.topology != mine.topology);
    free(loaded.source);
    destroy(mine.topology);
    mine.topology = NULL;
    everything(true);
    host_run("given", 1, 1, "client");
    host_stop();
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        client_start();
        everything(false);
        return client_end();
    }
    host_start(&module);
    everything(true);
    host_run("topology", 1, 1, "client");
    host_stop();
    if (!stock()) given(); /* stock keeps using it */
    return finish();
}
