/* A host with a description of the fabric prepares a launch: the processes find their endpoints, those of the others, the coordinates of
 * devices, the ranks at their switches, and a key, all under the standard's keys. A job that asks for endpoints finds them under its name,
 * too. */
#include "host.h"

#define SIZE 4
#define LOCAL 2

/* The same layout as that of host_job. */
static void prepare(const char *nspace)
{
    char host[256] = "", nodes[300];
    pmix_info_t info[2];

    gethostname(host, sizeof host - 1);
    snprintf(nodes, sizeof nodes, "%s,elsewhere", host);
    CHECK_NUMBER(2, host_set_up(nspace, nodes, "0,1;2,3", info, 2, PMIX_SUCCESS));
}

#define NETWORK "my.fabric"

/* Asks for two endpoints of each process and one of each node, in a plane. */
static void allocate(const char *nspace, const char *plane, pmix_status_t expected)
{
    char host[256] = "", nodes[300];
    size_t one = 1, two = 2;
    bool yes = true;
    pmix_info_t info[3];
    pmix_data_array_t *wish;

    gethostname(host, sizeof host - 1);
    snprintf(nodes, sizeof nodes, "%s,elsewhere", host);
    PMIX_DATA_ARRAY_CREATE(wish, 5, PMIX_INFO);
    pmix_info_t *parts = wish->array;
    PMIX_INFO_LOAD(&parts[0], "pmix.alloc.netid", NETWORK, PMIX_STRING);
    PMIX_INFO_LOAD(&parts[1], "pmix.alloc.netplane", plane, PMIX_STRING);
    PMIX_INFO_LOAD(&parts[2], "pmix.alloc.endpts", &two, PMIX_SIZE);
    PMIX_INFO_LOAD(&parts[3], "pmix.alloc.endpts.nd", &one, PMIX_SIZE);
    PMIX_INFO_LOAD(&parts[4], "pmix.alloc.nsec", &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[2], "pmix.alloc.net", wish, PMIX_DATA_ARRAY);
    info[2].flags |= PMIX_INFO_REQD;
    PMIX_DATA_ARRAY_FREE(wish);
    host_set_up(nspace, nodes, "0,1;2,3", info, 3, expected);
}

static pmix_status_t get_now(const char *nspace, pmix_rank_t rank, const char *key, pmix_value_t **value)
{
    pmix_proc_t proc = proc_of(nspace, rank);
    bool at_once = true;
    pmix_info_t info;

    *value = NULL;
    PMIX_INFO_LOAD(&info, PMIX_IMMEDIATE, &at_once, PMIX_BOOL);
    pmix_status_t status = PMIx_Get(&proc, key, &info, 1, value);
    PMIX_INFO_DESTRUCT(&info);
    return status;
}

/* An array; NULL if there is none. */
static const pmix_data_array_t *array_of(const pmix_value_t *value, pmix_data_type_t type, size_t size)
{
    CHECK(value && value->type == PMIX_DATA_ARRAY && value->data.darray);
    if (!value || value->type != PMIX_DATA_ARRAY || !value->data.darray) return NULL;
    const pmix_data_array_t *array = value->data.darray;
    CHECK_NUMBER(type, array->type);
    CHECK_NUMBER(size, array->size);
    return array->type == type && array->size == size ? array : NULL;
}

static void id_of(char *text, size_t size, pmix_rank_t rank)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    snprintf(text, size, "fab://%s/nic0", rank < LOCAL ? host : "elsewhere");
}

static void check_endpoint(pmix_rank_t rank)
{
    pmix_value_t *value;
    char id[300];

    CHECK_STATUS(PMIX_SUCCESS, get_now(me.nspace, rank, PMIX_FABRIC_ENDPT, &value));
    const pmix_data_array_t *array = array_of(value, PMIX_ENDPOINT, 1);
    id_of(id, sizeof id, rank);
    if (array) {
        const pmix_endpoint_t *endpoint = array->array;
        const unsigned char *bytes = (const unsigned char *)endpoint->endpt.bytes;
        CHECK_TEXT(id, endpoint->uuid);
        CHECK_TEXT("nic0", endpoint->osname);
        CHECK_NUMBER(4, endpoint->endpt.size);
        CHECK(endpoint->endpt.size == 4 && bytes[0] == rank && !bytes[1] && !bytes[2] && !bytes[3]);
    }
    if (value) PMIX_VALUE_RELEASE(value);
}

static void check_coordinates(pmix_rank_t rank)
{
    pmix_value_t *value;
    char id[300];

    CHECK_STATUS(PMIX_SUCCESS, get_now(me.nspace, rank, PMIX_FABRIC_COORDINATES, &value));
    const pmix_data_array_t *array = array_of(value, PMIX_GEOMETRY, 1);
    id_of(id, sizeof id, rank);
    if (array) {
        const pmix_geometry_t *geometry = array->array;
        CHECK_TEXT(id, geometry->uuid);
        CHECK(geometry->ncoords == 1 && geometry->coordinates[0].dims == 2);
    }
    if (value) PMIX_VALUE_RELEASE(value);
}

static void check_switch_peers(pmix_rank_t rank)
{
    pmix_value_t *value;
    char id[300];

    CHECK_STATUS(PMIX_SUCCESS, get_now(me.nspace, rank, PMIX_SWITCH_PEERS, &value));
    const pmix_data_array_t *array = array_of(value, PMIX_INFO, 1);
    const pmix_info_t *device = array ? array->array : NULL;
    const pmix_data_array_t *facts = device ? array_of(&device->value, PMIX_INFO, 3) : NULL;
    id_of(id, sizeof id, rank);
    if (facts) {
        const pmix_info_t *infos = facts->array;
        CHECK_TEXT(id, infos[0].value.data.string);
        CHECK_TEXT("s0", infos[1].value.data.string);
        CHECK_TEXT("0,1,2,3", infos[2].value.data.string);
    }
    if (value) PMIX_VALUE_RELEASE(value);
}

/* Two endpoints of a process at the only device of its node. The second one has a number after the rank. */
static void check_pair(pmix_rank_t rank, const pmix_value_t *value)
{
    const pmix_data_array_t *array = array_of(value, PMIX_ENDPOINT, 2);
    const pmix_endpoint_t *endpoints = array ? array->array : NULL;
    char id[300];

    id_of(id, sizeof id, rank);
    for (size_t i = 0; endpoints && i < 2; i++) {
        unsigned char expected[8] = {(unsigned char)rank, 0, 0, 0, 1};
        size_t size = i ? 8 : 4;
        CHECK_TEXT(id, endpoints[i].uuid);
        CHECK_TEXT("nic0", endpoints[i].osname);
        CHECK_NUMBER(size, endpoints[i].endpt.size);
        CHECK(endpoints[i].endpt.size == size && memcmp(endpoints[i].endpt.bytes, expected, size) == 0);
    }
}

/* The process's own values, and those under the name: an array for each node and process, then the granted parts. */
static void check_allocation(void)
{
    pmix_value_t *value;
    size_t nodes = 0, processes = 0, count;

    for (pmix_rank_t rank = 0; rank < SIZE; rank++) {
        CHECK_STATUS(PMIX_SUCCESS, get_now(me.nspace, rank, PMIX_FABRIC_ENDPT, &value));
        check_pair(rank, value);
        if (value) PMIX_VALUE_RELEASE(value);
    }
    CHECK_STATUS(PMIX_SUCCESS, get_now(me.nspace, PMIX_RANK_WILDCARD, NETWORK, &value));
    const pmix_data_array_t *parts = array_of(value, PMIX_INFO, 5);
    const pmix_info_t *infos = parts ? parts->array : NULL;
    if (infos) {
        const pmix_info_t *plane = info_of(infos, 5, "pmix.alloc.netplane"), *key = info_of(infos, 5, "pmix.alloc.nsec");
        const pmix_info_t *wanted = info_of(infos, 5, "pmix.alloc.endpts"), *of_node = info_of(infos, 5, "pmix.alloc.endpts.nd");
        CHECK_TEXT(NETWORK, infos[0].key);
        CHECK_TEXT("slurm", plane ? plane->value.data.string : NULL);
        CHECK(key && key->value.type == PMIX_BYTE_OBJECT && key->value.data.bo.size == 16);
        CHECK(wanted && wanted->value.data.size == 2 && of_node && of_node->value.data.size == 1);
    }
    const pmix_data_array_t *arrays = infos ? array_of(&infos[0].value, PMIX_INFO, SIZE + 2) : NULL;
    count = arrays ? arrays->size : 0;
    for (const pmix_info_t *owner = arrays ? arrays->array : NULL; count > 0; count--, owner++) {
        bool is_node = PMIX_CHECK_KEY(owner, PMIX_NODE_INFO_ARRAY);
        const pmix_data_array_t *facts = array_of(&owner->value, PMIX_INFO, is_node ? 3 : 2);
        const pmix_info_t *first = facts ? facts->array : NULL, *last = first ? first + facts->size - 1 : NULL;
        is_node ? nodes++ : processes++;
        CHECK(last && PMIX_CHECK_KEY(last, PMIX_FABRIC_ENDPT));
        if (first && !is_node) check_pair(first->value.data.rank, &last->value);
        if (first && is_node) array_of(&last->value, PMIX_ENDPOINT, 1);
    }
    CHECK(nodes == 2 && processes == SIZE);
    if (value) PMIX_VALUE_RELEASE(value);
}

static int client(const char *role)
{
    pmix_value_t *value;

    client_start();
    if (strcmp(role, "bare") == 0) {
        CHECK_STATUS(PMIX_ERR_NOT_FOUND, get_now(me.nspace, me.rank, PMIX_FABRIC_ENDPT, &value));
        CHECK_STATUS(PMIX_ERR_NOT_FOUND, get_now(me.nspace, PMIX_RANK_WILDCARD, PMIX_ALLOC_FABRIC_SEC_KEY, &value));
        return client_end();
    }
    if (strcmp(role, "allocation") == 0) {
        check_allocation();
        return client_end();
    }
    for (pmix_rank_t rank = 0; rank < SIZE; rank++) {
        check_endpoint(rank);
        check_coordinates(rank);
        check_switch_peers(rank);
    }
    CHECK_STATUS(PMIX_SUCCESS, get_now(me.nspace, PMIX_RANK_WILDCARD, PMIX_ALLOC_FABRIC_SEC_KEY, &value));
    CHECK(value && value->type == PMIX_BYTE_OBJECT && value->data.bo.size == 16);
    if (value) PMIX_VALUE_RELEASE(value);
    return client_end();
}

static int host(void)
{
    static pmix_server_module_t module;
    char path[] = "/tmp/topology-XXXXXX", host[256] = "", text[400], source[64];
    pmix_info_t info;

    if (stock()) return host_idle(); /* it has no fabric */
    gethostname(host, sizeof host - 1);
    int length = snprintf(text, sizeof text, "SwitchName=s0 Nodes=%s,elsewhere\n", host), file = mkstemp(path);
    CHECK(file >= 0 && write(file, text, (size_t)length) == length);
    snprintf(source, sizeof source, "slurm:%s", path);
    PMIX_INFO_LOAD(&info, "modex.fabric", source, PMIX_STRING);
    host_start_with(&module, &info, 1);
    PMIX_INFO_DESTRUCT(&info);
    prepare("placed");
    host_run("placed", SIZE, LOCAL, "client");
    host_run("bare", SIZE, LOCAL, "bare");
    allocate("allocated", "other", PMIX_ERR_NOT_SUPPORTED);
    allocate("allocated", "slurm", PMIX_SUCCESS);
    host_run("allocated", SIZE, LOCAL, "allocation");
    host_stop();
    close(file);
    unlink(path);
    return finish();
}

int main(int argc, char **argv) { return argc == 1 ? host() : client(argv[1]); }
