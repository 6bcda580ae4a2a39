/* A host with a description of the fabric prepares a launch: the processes find their endpoints, those of the others, the coordinates of
 * devices, the ranks at their switches, and a key, all under the standard's keys. */
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

static int client(const char *role)
{
    pmix_value_t *value;

    client_start();
    if (strcmp(role, "bare") == 0) {
        CHECK_STATUS(PMIX_ERR_NOT_FOUND, get_now(me.nspace, me.rank, PMIX_FABRIC_ENDPT, &value));
        CHECK_STATUS(PMIX_ERR_NOT_FOUND, get_now(me.nspace, PMIX_RANK_WILDCARD, PMIX_ALLOC_FABRIC_SEC_KEY, &value));
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
    host_stop();
    close(file);
    unlink(path);
    return finish();
}

int main(int argc, char **argv) { return argc == 1 ? host() : client(argv[1]); }
