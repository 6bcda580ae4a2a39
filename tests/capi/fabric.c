/* A scheduler's server answers for a fabric itself: the test fabric of the PMIx tutorial, Slurm's description of a tree, and
 * inventories of nodes. It knows the inventories of all nodes. */
#include "host.h"

#include <dlfcn.h>
#include <sys/stat.h>

#define SWITCHES 3
#define DEVICES (5 * SWITCHES)

static const pmix_info_t *fact(const pmix_fabric_t *fabric, const char *key)
{
    return info_of(fabric->info, fabric->ninfo, key);
}

static void check_text(const char *expected, const pmix_info_t *info)
{
    CHECK(info && info->value.type == PMIX_STRING);
    if (info) CHECK_TEXT(expected, info->value.data.string);
}

static void check_device_count(size_t expected, const pmix_fabric_t *fabric)
{
    const pmix_info_t *count = fact(fabric, PMIX_FABRIC_NUM_DEVICES);
    CHECK(count && count->value.type == PMIX_SIZE && count->value.data.size == expected);
}

/* The switches of the ring, and the devices of each. */
static void check_shape(const pmix_info_t *shape)
{
    CHECK(shape && shape->value.type == PMIX_DATA_ARRAY && shape->value.data.darray->type == PMIX_UINT32);
    if (!shape) return;
    const uint32_t *sizes = shape->value.data.darray->array;
    CHECK(shape->value.data.darray->size == 2 && sizes[0] == SWITCHES && sizes[1] == 5);
}

static void check_test_fabric(const pmix_fabric_t *fabric)
{
    check_text("TEST", fact(fabric, PMIX_FABRIC_VENDOR));
    check_text("TEST-1", fact(fabric, PMIX_FABRIC_IDENTIFIER));
    check_text("plane000", fact(fabric, PMIX_FABRIC_PLANE));
    check_text("0:test000,test001;1:test001,test002,test003;2:test003,test004", fact(fabric, PMIX_FABRIC_GROUPS));
    check_device_count(DEVICES, fabric);
    const pmix_info_t *dimensions = fact(fabric, PMIX_FABRIC_DIMS), *switches = fact(fabric, PMIX_FABRIC_SWITCH);
    CHECK(dimensions && dimensions->value.type == PMIX_UINT32 && dimensions->value.data.uint32 == 2);
    CHECK(switches && switches->value.type == PMIX_DATA_ARRAY && switches->value.data.darray->size == SWITCHES);
    check_shape(fact(fabric, PMIX_FABRIC_SHAPE));
    check_text("3x5", fact(fabric, PMIX_FABRIC_SHAPE_STRING));
    CHECK_NUMBER(0, fabric->index);
}

/* Rows follow each other. Five devices are at each switch, and each two of the three switches have a link. */
static void check_costs(const pmix_fabric_t *fabric)
{
    const pmix_info_t *matrix = fact(fabric, PMIX_FABRIC_COST_MATRIX);
    CHECK(matrix && matrix->value.type == PMIX_POINTER && matrix->value.data.ptr);
    if (!matrix) return;
    const uint16_t(*costs)[DEVICES] = matrix->value.data.ptr;
    for (int row = 0; row < DEVICES; row++) {
        for (int column = 0; column < DEVICES; column++) {
            int expected = row == column ? 0 : row / 5 == column / 5 ? 2 : 3;
            CHECK_NUMBER(expected, costs[row][column]);
            CHECK_NUMBER(costs[column][row], costs[row][column]);
        }
    }
}

/* The functions of the tutorial: one vertex after the other. Other headers lack them. */
#define TUTORIALS(name) ((name##_fn)(uintptr_t)dlsym(RTLD_DEFAULT, "PMIx_server_" #name))
typedef pmix_status_t (*register_fabric_fn)(pmix_fabric_t *, const pmix_info_t *, size_t);
typedef pmix_status_t (*update_fabric_fn)(pmix_fabric_t *);
typedef pmix_status_t (*deregister_fabric_fn)(pmix_fabric_t *);
typedef pmix_status_t (*get_num_vertices_fn)(pmix_fabric_t *, uint32_t *);
typedef pmix_status_t (*get_comm_cost_fn)(pmix_fabric_t *, uint32_t, uint32_t, uint16_t *);
typedef pmix_status_t (*get_vertex_info_fn)(pmix_fabric_t *, uint32_t, pmix_value_t *, char **);
typedef pmix_status_t (*get_index_fn)(pmix_fabric_t *, const pmix_value_t *, uint32_t *, char **);

static void vertices(void)
{
    pmix_fabric_t fabric;
    pmix_value_t vertex;
    uint32_t count = 0, index = 0;
    uint16_t cost = 9;
    char *node = NULL;

    register_fabric_fn register_fabric = TUTORIALS(register_fabric);
    update_fabric_fn update_fabric = TUTORIALS(update_fabric);
    deregister_fabric_fn deregister_fabric = TUTORIALS(deregister_fabric);
    get_num_vertices_fn get_num_vertices = TUTORIALS(get_num_vertices);
    get_comm_cost_fn get_comm_cost = TUTORIALS(get_comm_cost);
    get_vertex_info_fn get_vertex_info = TUTORIALS(get_vertex_info);
    get_index_fn get_index = TUTORIALS(get_index);
    PMIX_FABRIC_CONSTRUCT(&fabric);
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, get_num_vertices(&fabric, &count));
    CHECK_STATUS(PMIX_SUCCESS, register_fabric(&fabric, NULL, 0));
    CHECK_STATUS(PMIX_SUCCESS, get_num_vertices(&fabric, &count));
    CHECK_NUMBER(DEVICES, count);
    CHECK_STATUS(PMIX_SUCCESS, get_comm_cost(&fabric, 3, 3, &cost));
    CHECK_NUMBER(0, cost);
    CHECK_STATUS(PMIX_SUCCESS, get_comm_cost(&fabric, 0, DEVICES - 1, &cost));
    CHECK_NUMBER(3, cost);
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, get_comm_cost(&fabric, 0, DEVICES, &cost));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, get_comm_cost(&fabric, 0, 1, NULL));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, get_vertex_info(&fabric, DEVICES, &vertex, &node));
    CHECK(node == NULL);
    CHECK_STATUS(PMIX_SUCCESS, get_vertex_info(&fabric, 7, &vertex, &node));
    CHECK(vertex.type == PMIX_DATA_ARRAY);
    /* Programs of the tutorial's time print all of them as texts. */
    pmix_info_t *texts = vertex.data.darray->array;
    for (size_t i = 0; i < vertex.data.darray->size; i++) CHECK_NUMBER(PMIX_STRING, texts[i].value.type);
    CHECK_TEXT("pmix.net.nic", texts[2].key);
    CHECK_TEXT("test002:nic001", texts[2].value.data.string);
    CHECK_TEXT("test002", node);
    free(node);
    CHECK_STATUS(PMIX_SUCCESS, get_index(&fabric, &vertex, &index, &node));
    CHECK_NUMBER(7, index);
    CHECK_TEXT("test002", node);
    free(node);
    PMIX_VALUE_DESTRUCT(&vertex);
    /* An id, and names that no other device has. */
    const char *const names[] = {"fab://test001/test001:nic002", "test001/test001:nic002", "test001:nic002"};
    for (int i = 0; i < 3; i++) {
        PMIX_VALUE_LOAD(&vertex, names[i], PMIX_STRING);
        index = 0;
        CHECK_STATUS(PMIX_SUCCESS, get_index(&fabric, &vertex, &index, &node));
        CHECK_NUMBER(5, index);
        free(node);
        PMIX_VALUE_DESTRUCT(&vertex);
    }
    pmix_info_t nic;
    pmix_data_array_t nics = {.type = PMIX_INFO, .size = 1, .array = &nic};
    PMIX_INFO_LOAD(&nic, "pmix.net.nic", "test001:nic002", PMIX_STRING);
    vertex.type = PMIX_DATA_ARRAY;
    vertex.data.darray = &nics;
    CHECK_STATUS(PMIX_SUCCESS, get_index(&fabric, &vertex, &index, &node));
    CHECK_NUMBER(5, index);
    free(node);
    PMIX_INFO_DESTRUCT(&nic);
    /* A node with one device is enough; the nodes of this fabric have three. */
    PMIX_INFO_LOAD(&nic, PMIX_HOSTNAME, "test001", PMIX_STRING);
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, get_index(&fabric, &vertex, &index, &node));
    PMIX_INFO_DESTRUCT(&nic);
    PMIX_VALUE_LOAD(&vertex, "fab://test009/test009:nic002", PMIX_STRING);
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, get_index(&fabric, &vertex, &index, &node));
    PMIX_VALUE_DESTRUCT(&vertex);
    /* Another holder learns of a change. The first one is told until its own update. */
    pmix_fabric_t other;
    PMIX_FABRIC_CONSTRUCT(&other);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_register(&other, NULL, 0));
    setenv("PMIX_MCA_pnet_test_nverts", "wide:4;plane:d:2", 1);
    CHECK_STATUS(PMIX_SUCCESS, update_fabric(&other));
    CHECK_STATUS(PMIX_FABRIC_UPDATED, get_num_vertices(&fabric, &count));
    CHECK_STATUS(PMIX_FABRIC_UPDATED, get_comm_cost(&fabric, 0, 1, &cost));
    CHECK_STATUS(PMIX_FABRIC_UPDATED, get_vertex_info(&fabric, 0, &vertex, &node));
    CHECK_STATUS(PMIX_SUCCESS, update_fabric(&fabric));
    CHECK_STATUS(PMIX_SUCCESS, get_num_vertices(&fabric, &count));
    CHECK_NUMBER(8, count);
    setenv("PMIX_MCA_pnet_test_nverts", "nodes:5;plane:d:3", 1);
    CHECK_STATUS(PMIX_SUCCESS, update_fabric(&fabric));
    PMIX_INFO_LOAD(&nic, PMIX_HOSTNAME, "test003", PMIX_STRING);
    vertex.type = PMIX_DATA_ARRAY;
    vertex.data.darray = &nics;
    CHECK_STATUS(PMIX_SUCCESS, get_index(&fabric, &vertex, &index, &node));
    CHECK_NUMBER(3, index);
    CHECK_TEXT("test003", node);
    free(node);
    PMIX_INFO_DESTRUCT(&nic);
    setenv("PMIX_MCA_pnet_test_nverts", "wide:5;plane:d:3", 1);
    CHECK_STATUS(PMIX_SUCCESS, update_fabric(&fabric));
    CHECK_STATUS(PMIX_SUCCESS, deregister_fabric(&fabric));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, get_comm_cost(&fabric, 0, 1, &cost));
    CHECK_STATUS(PMIX_SUCCESS, deregister_fabric(&other));
}

static pmix_value_t *get_list(const char *key, const pmix_info_t *qualifiers, size_t count)
{
    pmix_value_t *value = NULL;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(NULL, key, qualifiers, count, &value));
    CHECK(value && value->type == PMIX_DATA_ARRAY);
    return value;
}

static void check_device(pmix_value_t *value, uint32_t index, const char *node, const char *name)
{
    if (!value || value->type != PMIX_DATA_ARRAY) return;
    const pmix_info_t *infos = value->data.darray->array;
    size_t count = value->data.darray->size;
    CHECK_TEXT(PMIX_DEVICE_ID, infos[0].key);
    check_text(node, info_of(infos, count, PMIX_HOSTNAME));
    check_text(name, info_of(infos, count, PMIX_FABRIC_DEVICE_NAME));
    check_text("TEST", info_of(infos, count, PMIX_FABRIC_DEVICE_VENDOR));
    CHECK(info_of(infos, count, PMIX_FABRIC_DEVICE_BUS_TYPE) != NULL);
    const pmix_info_t *number = info_of(infos, count, PMIX_FABRIC_DEVICE_INDEX);
    CHECK(number && number->value.type == PMIX_UINT32 && number->value.data.uint32 == index);
    PMIX_VALUE_RELEASE(value);
}

/* By index, by name and node, and all of a node. */
static void devices(void)
{
    pmix_info_t info[2];
    uint32_t index = 3;

    PMIX_INFO_LOAD(&info[0], PMIX_FABRIC_DEVICE_INDEX, &index, PMIX_UINT32);
    check_device(get_list(PMIX_FABRIC_DEVICE, info, 1), 3, "test001", "test001:nic000");
    index = 4;
    PMIX_INFO_LOAD(&info[0], PMIX_FABRIC_DEVICE_INDEX, &index, PMIX_UINT32);
    check_device(get_list(PMIX_FABRIC_DEVICE, info, 1), 4, "test001", "test001:nic001");
    PMIX_INFO_LOAD(&info[0], PMIX_HOSTNAME, "test002", PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_FABRIC_DEVICE_NAME, "test002:nic002", PMIX_STRING);
    check_device(get_list(PMIX_FABRIC_DEVICE, info, 2), 8, "test002", "test002:nic002");
    pmix_value_t *all = get_list(PMIX_FABRIC_DEVICES, info, 1);
    if (all) {
        CHECK_NUMBER(SWITCHES, all->data.darray->size);
        PMIX_VALUE_RELEASE(all);
    }
    pmix_value_t *shape = NULL;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(NULL, PMIX_FABRIC_SHAPE_STRING, NULL, 0, &shape));
    CHECK(shape && shape->type == PMIX_STRING);
    if (shape) {
        CHECK_TEXT("3x5", shape->data.string);
        PMIX_VALUE_RELEASE(shape);
    }
    pmix_value_t *coordinates = get_list(PMIX_FABRIC_COORDINATES, info, 1);
    if (coordinates) {
        CHECK_NUMBER(PMIX_GEOMETRY, coordinates->data.darray->type);
        CHECK_NUMBER(SWITCHES, coordinates->data.darray->size);
        PMIX_VALUE_RELEASE(coordinates);
    }
    PMIX_INFO_DESTRUCT(&info[0]);
    PMIX_INFO_DESTRUCT(&info[1]);
}

/* Two queries for one key differ in their device. */
static void queries(void)
{
    pmix_query_t query[3];
    pmix_info_t *found = NULL;
    size_t count = 0;
    pmix_status_t status;

    for (uint32_t i = 0; i < 3; i++) PMIX_QUERY_CONSTRUCT(&query[i]);
    PMIX_ARGV_APPEND(status, query[0].keys, PMIX_FABRIC_PLANE);
    PMIX_ARGV_APPEND(status, query[0].keys, PMIX_FABRIC_NUM_DEVICES);
    PMIX_ARGV_APPEND(status, query[0].keys, PMIX_FABRIC_SHAPE);
    PMIX_ARGV_APPEND(status, query[0].keys, PMIX_FABRIC_SHAPE_STRING);
    for (uint32_t i = 1; i < 3; i++) {
        PMIX_ARGV_APPEND(status, query[i].keys, PMIX_FABRIC_DEVICE);
        PMIX_QUERY_QUALIFIERS_CREATE(&query[i], 1);
        PMIX_INFO_LOAD(query[i].qualifiers, PMIX_FABRIC_DEVICE_INDEX, &i, PMIX_UINT32);
    }
    CHECK_STATUS(PMIX_SUCCESS, status);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Query_info(query, 3, &found, &count));
    CHECK_NUMBER(6, count);
    check_shape(info_of(found, count, PMIX_FABRIC_SHAPE));
    check_text("3x5", info_of(found, count, PMIX_FABRIC_SHAPE_STRING));
    const pmix_info_t *planes = info_of(found, count, PMIX_FABRIC_PLANE);
    CHECK(planes && planes->value.type == PMIX_DATA_ARRAY && planes->value.data.darray->size == 1);
    const pmix_info_t *number = info_of(found, count, PMIX_FABRIC_NUM_DEVICES);
    CHECK(number && number->value.data.size == DEVICES);
    PMIX_INFO_FREE(found, count);
    for (uint32_t i = 0; i < 3; i++) PMIX_QUERY_DESTRUCT(&query[i]);
}

static pmix_status_t register_with(pmix_fabric_t *fabric, const char *key, const char *value, bool is_required)
{
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, key, value, PMIX_STRING);
    if (is_required) info.flags |= PMIX_INFO_REQD;
    pmix_status_t status = PMIx_Fabric_register(fabric, &info, 1);
    PMIX_INFO_DESTRUCT(&info);
    return status;
}

/* A plane is selected by its name, and by the fabric's. */
static void selections(void)
{
    pmix_fabric_t fabric;

    PMIX_FABRIC_CONSTRUCT(&fabric);
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, register_with(&fabric, PMIX_FABRIC_PLANE, "plane001", false));
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, register_with(&fabric, PMIX_FABRIC_VENDOR, "Weaver", true));
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, register_with(&fabric, "some.key", "", true));
    CHECK(fabric.info == NULL && fabric.module == NULL);
    CHECK_STATUS(PMIX_SUCCESS, register_with(&fabric, PMIX_FABRIC_PLANE, "plane000", true));
    check_test_fabric(&fabric);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_deregister(&fabric));
    CHECK_STATUS(PMIX_SUCCESS, register_with(&fabric, PMIX_FABRIC_IDENTIFIER, "TEST-1", true));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_deregister(&fabric));
}

/* ---- Updates. */
static atomic_int pending_events, updated_events;

static void changed(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                    pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void)id, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    if (status == PMIX_FABRIC_UPDATE_PENDING) {
        CHECK_NUMBER(atomic_load(&pending_events), atomic_load(&updated_events));
        atomic_fetch_add(&pending_events, 1);
    } else {
        atomic_fetch_add(&updated_events, 1);
        CHECK_NUMBER(atomic_load(&pending_events), atomic_load(&updated_events));
    }
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void wait_for_updates(int count)
{
    while (atomic_load(&updated_events) < count) usleep(1000);
    CHECK_NUMBER(count, atomic_load(&pending_events));
}

static void listen_to_updates(void)
{
    pmix_status_t codes[] = {PMIX_FABRIC_UPDATE_PENDING, PMIX_FABRIC_UPDATED};
    CHECK(PMIx_Register_event_handler(codes, 2, NULL, 0, changed, NULL, NULL) >= 0);
}

static void updates(void)
{
    pmix_fabric_t fabric, older;
    struct done done = DONE;

    PMIX_FABRIC_CONSTRUCT(&fabric);
    PMIX_FABRIC_CONSTRUCT(&older);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_register(&fabric, NULL, 0));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_register(&older, NULL, 0));
    check_costs(&fabric);
    listen_to_updates();
    /* Without a change nothing is raised. */
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_update(&fabric));
    check_costs(&fabric);
    setenv("PMIX_MCA_pnet_test_nverts", "wide:4;plane:d:2", 1);
    check_device_count(DEVICES, &fabric);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_update(&fabric));
    check_device_count(8, &fabric);
    wait_for_updates(1);
    /* A wrong description changes nothing. */
    setenv("PMIX_MCA_pnet_test_nverts", "wide:0;plane:d:2", 1);
    CHECK_STATUS(PMIX_ERR_UNPACK_FAILURE, PMIx_Fabric_update(&fabric));
    check_device_count(8, &fabric);
    /* An older registration gets the newest revision that could be read. */
    check_device_count(DEVICES, &older);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_update(&older));
    check_device_count(8, &older);
    CHECK_STATUS(PMIX_ERR_UNPACK_FAILURE, PMIx_Fabric_update(&older));
    check_device_count(8, &older);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_deregister(&older));
    setenv("PMIX_MCA_pnet_test_nverts", "wide:5;plane:d:3", 1);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_update_nb(&fabric, op_done, &done));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&done));
    check_test_fabric(&fabric);
    check_costs(&fabric);
    wait_for_updates(2);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_deregister(&fabric));
    CHECK(fabric.info == NULL && fabric.ninfo == 0);
}

static const pmix_data_array_t *ask(const char *key, const char *first, const char *second, const char *third,
                                    pmix_info_t **found)
{
    const char *texts[] = {first, second, third};
    pmix_query_t query;
    pmix_status_t status;
    size_t count = 0;

    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, key);
    CHECK_STATUS(PMIX_SUCCESS, status);
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 3);
    for (int i = 0; i < 3; i++) {
        const char *value = strchr(texts[i], '=');
        char name[PMIX_MAX_KEYLEN + 1] = "";
        memcpy(name, texts[i], (size_t)(value - texts[i]));
        PMIX_INFO_LOAD(&query.qualifiers[i], name, value + 1, PMIX_STRING);
    }
    status = PMIx_Query_info(&query, 1, found, &count);
    PMIX_QUERY_DESTRUCT(&query);
    bool is_found = status == PMIX_SUCCESS && count == 1 && (*found)->value.type == PMIX_DATA_ARRAY;
    return is_found ? (*found)->value.data.darray : NULL;
}

/* Blocks of the matrix, and the cheapest devices. */
static void cost_queries(void)
{
    pmix_info_t *found = NULL;
    const char *plane = PMIX_FABRIC_PLANE "=plane000";

    const pmix_data_array_t *costs =
        ask("modex.fabric.costs", plane, "modex.fabric.rows=3-5", "modex.fabric.columns=0-14", &found);
    CHECK(costs && costs->type == PMIX_UINT16 && costs->size == 3 * DEVICES);
    for (int i = 0; costs && i < 3 * DEVICES; i++) {
        int row = 3 + i / DEVICES, column = i % DEVICES;
        int expected = row == column ? 0 : row / 5 == column / 5 ? 2 : 3;
        CHECK_NUMBER(expected, ((const uint16_t *)costs->array)[i]);
    }
    if (found) PMIX_INFO_FREE(found, 1);
    found = NULL;
    const pmix_data_array_t *nearest =
        ask("modex.fabric.nearest", plane, PMIX_DEVICE_ID "=fab://test001/test001:nic000", "modex.fabric.count=5", &found);
    CHECK(nearest && nearest->type == PMIX_INFO && nearest->size == 5);
    for (size_t i = 0; nearest && i < nearest->size; i++) {
        static const uint32_t expected[] = {0, 1, 2, 4, 5};
        const pmix_data_array_t *device = ((const pmix_info_t *)nearest->array)[i].value.data.darray;
        const pmix_info_t *cost = info_of(device->array, device->size, "modex.fabric.cost");
        const pmix_info_t *index = info_of(device->array, device->size, PMIX_FABRIC_DEVICE_INDEX);
        CHECK(index && index->value.data.uint32 == expected[i]);
        CHECK(cost && cost->value.type == PMIX_UINT16 && cost->value.data.uint16 == (i < 4 ? 2 : 3));
    }
    if (found) PMIX_INFO_FREE(found, 1);
    CHECK(ask("modex.fabric.costs", plane, "modex.fabric.rows=3-15", "modex.fabric.columns=0", &found) == NULL);
}

/* Another process gets the facts. The matrix is memory of the server. */
static int client(void)
{
    pmix_fabric_t fabric;

    client_start();
    PMIX_FABRIC_CONSTRUCT(&fabric);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_register(&fabric, NULL, 0));
    check_test_fabric(&fabric);
    CHECK(fact(&fabric, PMIX_FABRIC_COST_MATRIX) == NULL);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_update(&fabric));
    check_device_count(DEVICES, &fabric);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_deregister(&fabric));
    devices();
    cost_queries();
    return client_end();
}

/* The file of the server's fabric. */
#define DESCRIPTION "CAPI_DESCRIPTION"

static void describe(const char *text)
{
    FILE *file = fopen(getenv(DESCRIPTION), "w");
    CHECK(file != NULL);
    fputs(text, file);
    fclose(file);
}

/* While the description is broken, a client with an older fabric gets the newest one. */
static int renewing_client(void)
{
    pmix_fabric_t fabric, older;

    client_start();
    PMIX_FABRIC_CONSTRUCT(&fabric);
    PMIX_FABRIC_CONSTRUCT(&older);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_register(&fabric, NULL, 0));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_register(&older, NULL, 0));
    describe("SwitchName=s0 Nodes=n[0-5]\n");
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_update(&fabric));
    describe("SwitchName");
    CHECK_STATUS(PMIX_ERR_UNPACK_FAILURE, PMIx_Fabric_update(&fabric));
    check_device_count(8, &older);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_update(&older));
    check_device_count(6, &older);
    CHECK_STATUS(PMIX_ERR_UNPACK_FAILURE, PMIx_Fabric_update(&older));
    check_device_count(6, &older);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_deregister(&fabric));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_deregister(&older));
    return client_end();
}

/* ---- Inventories of all nodes. */
struct nodes {
    pmix_info_t *info;
    size_t count;
    struct done done;
};

static void on_inventory(pmix_status_t status, pmix_info_t *info, size_t count, void *data, pmix_release_cbfunc_t release,
                         void *release_data)
{
    struct nodes *nodes = data;
    if (count) PMIX_INFO_CREATE(nodes->info, count);
    for (size_t i = 0; i < count; i++) PMIX_INFO_XFER(&nodes->info[i], &info[i]);
    nodes->count = count;
    if (release) release(release_data);
    done_with(&nodes->done, status, 0);
}

/* One call has a pair of infos for each node of the test fabric, and one for this node. */
static void collect_all(struct nodes *nodes)
{
    pmix_info_t wish;
    size_t of_fabric = 0;

    PMIX_INFO_LOAD(&wish, "modex.inventory.global", NULL, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&wish);
    pmix_status_t status = PMIx_server_collect_inventory(&wish, 1, on_inventory, nodes);
    CHECK_STATUS(PMIX_SUCCESS, done_result(&nodes->done, status));
    CHECK_NUMBER(12, nodes->count);
    for (size_t i = 0; i + 1 < nodes->count; i += 2) {
        CHECK_TEXT(PMIX_HOSTNAME, nodes->info[i].key);
        CHECK_TEXT("modex.inventory", nodes->info[i + 1].key);
        CHECK_NUMBER(PMIX_BYTE_OBJECT, nodes->info[i + 1].value.type);
        if (strncmp(nodes->info[i].value.data.string, "test00", 6) == 0) of_fabric++;
    }
    CHECK_NUMBER(5, of_fabric);
}

static void deliver(const struct nodes *nodes, const char *prefix)
{
    for (size_t i = 0; i + 1 < nodes->count; i += 2) {
        if (strncmp(nodes->info[i].value.data.string, prefix, strlen(prefix)) != 0) continue;
        struct done done = DONE;
        pmix_status_t status = PMIx_server_deliver_inventory(&nodes->info[i], 2, NULL, 0, op_done, &done);
        CHECK_STATUS(PMIX_SUCCESS, status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : done_result(&done, status));
    }
}

#define DEVICE_LOST (-3701)
static atomic_int lost_devices;

static void lost(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                 pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void)id, (void)source, (void)results, (void)nresults;
    CHECK_STATUS(DEVICE_LOST, status);
    check_text("test000", info_of(info, ninfo, PMIX_HOSTNAME));
    check_text("test000:nic002", info_of(info, ninfo, PMIX_FABRIC_DEVICE_NAME));
    CHECK(info_of(info, ninfo, PMIX_DEVICE_ID) != NULL);
    atomic_fetch_add(&lost_devices, 1);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

/* A fabric from the inventories that one scheduler has collected and another one gets. */
static void inventories(const struct nodes *nodes, const struct nodes *fewer)
{
    static pmix_server_module_t module;
    pmix_fabric_t fabric;
    pmix_info_t info;
    pmix_status_t code = DEVICE_LOST;

    PMIX_INFO_LOAD(&info, "modex.fabric", "inventory", PMIX_STRING);
    host_start_with(&module, &info, 1);
    PMIX_INFO_DESTRUCT(&info);
    PMIX_FABRIC_CONSTRUCT(&fabric);
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, PMIx_Fabric_register(&fabric, NULL, 0));
    CHECK(PMIx_Register_event_handler(&code, 1, NULL, 0, lost, NULL, NULL) >= 0);
    deliver(nodes, "test");
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_register(&fabric, NULL, 0));
    check_text("inventory", fact(&fabric, PMIX_FABRIC_IDENTIFIER));
    check_text("net", fact(&fabric, PMIX_FABRIC_PLANE));
    check_device_count(DEVICES, &fabric);
    deliver(fewer, "test000");
    while (atomic_load(&lost_devices) == 0) usleep(1000);
    check_device_count(DEVICES, &fabric);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_update(&fabric));
    check_device_count(DEVICES - 1, &fabric);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_deregister(&fabric));
    host_stop();
}

/* ---- The scheduler asks the servers of other nodes. */

/* The server of a node. It writes its address to its descriptor 3, and serves until its input ends. */
static int daemon_of_node(void)
{
    static pmix_server_module_t module;
    pmix_info_t info[2];
    pmix_proc_t self;
    pmix_value_t *address = NULL;

    PMIX_INFO_LOAD(&info[0], PMIX_SERVER_TOOL_SUPPORT, NULL, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_HOSTNAME, "elsewhere", PMIX_STRING);
    host_start_with(&module, info, 2);
    for (int i = 0; i < 2; i++) PMIX_INFO_DESTRUCT(&info[i]);
    PMIX_LOAD_PROCID(&self, "capi-host", 0);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(&self, PMIX_SERVER_URI, NULL, 0, &address));
    dprintf(3, "%s\n", address->data.string);
    close(3);
    PMIX_VALUE_RELEASE(address);
    while (getchar() != EOF) {}
    host_stop();
    return finish();
}

/* Starts the server of a node. Returns the pipe whose end ends it. */
static int start_daemon(pid_t *pid, char *address, int size)
{
    const char *program = own_program();
    int input[2], output[2];

    CHECK(pipe(input) == 0 && pipe(output) == 0);
    *pid = fork();
    if (*pid == 0) {
        dup2(input[0], 0);
        dup2(output[1], 9);
        for (int i = 0; i < 2; i++) close(input[i]), close(output[i]);
        dup2(9, 3);
        close(9);
        execl(program, program, "daemon", (char *)NULL);
        _exit(127);
    }
    close(input[0]);
    close(output[1]);
    FILE *from = fdopen(output[0], "r");
    CHECK(from && fgets(address, size, from));
    address[strcspn(address, "\n")] = 0;
    fclose(from);
    return input[1];
}

static void asked_daemons(void)
{
    static pmix_server_module_t module;
    static char address[1024];
    const char *addresses[] = {address, "nowhere.0;tcp4://127.0.0.1:1"};
    struct nodes nodes = {.done = DONE};
    pmix_info_t wish[3];
    size_t here = 0, elsewhere = 0, failed = 0;
    pid_t pid;
    int end, ended;

    end = start_daemon(&pid, address, sizeof address);
    host_start_with(&module, NULL, 0);
    PMIX_INFO_LOAD(&wish[0], "modex.inventory.global", NULL, PMIX_BOOL);
    for (int i = 0; i < 2; i++) PMIX_INFO_LOAD(&wish[1 + i], PMIX_SERVER_URI, addresses[i], PMIX_STRING);
    for (int i = 0; i < 3; i++) PMIX_INFO_REQUIRED(&wish[i]);
    pmix_status_t status = PMIx_server_collect_inventory(wish, 3, on_inventory, &nodes);
    CHECK_STATUS(PMIX_ERR_PARTIAL_SUCCESS, done_result(&nodes.done, status));
    for (size_t i = 0; i < nodes.count; i++) {
        const char *text = nodes.info[i].value.type == PMIX_STRING ? nodes.info[i].value.data.string : "";
        if (strcmp(nodes.info[i].key, "modex.inventory.failed") == 0) {
            CHECK(strncmp(text, addresses[1], strlen(addresses[1])) == 0);
            failed++;
        } else if (strcmp(nodes.info[i].key, PMIX_HOSTNAME) == 0) {
            if (strcmp(text, "elsewhere") == 0) elsewhere++;
            else here++;
        }
    }
    CHECK(here == 1 && elsewhere == 1 && failed == 1);
    for (int i = 0; i < 3; i++) PMIX_INFO_DESTRUCT(&wish[i]);
    PMIX_INFO_FREE(nodes.info, nodes.count);
    host_stop();
    close(end);
    CHECK(waitpid(pid, &ended, 0) == pid && WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
}

/* A file of Slurm, named by an info. */
static void slurm(void)
{
    static pmix_server_module_t module;
    char path[] = "/tmp/topology-XXXXXX", source[64];
    pmix_fabric_t fabric;
    pmix_info_t info;
    int file = mkstemp(path);
    const char text[] = "SwitchName=s0 Nodes=n[0-3]\nSwitchName=s1 Nodes=n[4-7]\nSwitchName=top Switches=s[0-1]\n";

    CHECK(file >= 0 && write(file, text, sizeof text - 1) == sizeof text - 1);
    snprintf(source, sizeof source, "slurm:%s", path);
    PMIX_INFO_LOAD(&info, "modex.fabric", source, PMIX_STRING);
    host_start_with(&module, &info, 1);
    PMIX_FABRIC_CONSTRUCT(&fabric);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_register(&fabric, NULL, 0));
    check_device_count(8, &fabric);
    check_text("0:n0,n1,n2,n3;1:n4,n5,n6,n7", fact(&fabric, PMIX_FABRIC_GROUPS));
    const pmix_info_t *matrix = fact(&fabric, PMIX_FABRIC_COST_MATRIX);
    const uint16_t *costs = matrix ? matrix->value.data.ptr : NULL;
    CHECK(costs && costs[0] == 0 && costs[3] == 2 && costs[4] == 4);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_deregister(&fabric));
    setenv(DESCRIPTION, path, 1);
    host_run("of-renewing", 1, 1, "renewing");
    host_stop();
    /* A broken file is no fabric, and so no server. */
    CHECK(ftruncate(file, 10) == 0);
    CHECK_STATUS(PMIX_ERR_UNPACK_FAILURE, PMIx_server_init(&module, &info, 1));
    close(file);
    unlink(path);
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, PMIx_server_init(&module, &info, 1));
    /* A pipe has no end. */
    CHECK(mkfifo(path, 0600) == 0);
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_server_init(&module, &info, 1));
    unlink(path);
    PMIX_INFO_DESTRUCT(&info);
}

/* Named nodes: each has one device in a plane, and a switch has three ports. Both lists have commas. */
static void named_nodes(pmix_info_t *scheduler)
{
    static pmix_server_module_t module;
    pmix_fabric_t fabric;

    unsetenv("PMIX_MCA_pnet_test_nverts");
    setenv("PMIX_MCA_pnet_test_planes", "plane:s:2,plane:d:2:4", 1);
    /* Planes alone have no nodes, so there is no server. */
    CHECK_STATUS(PMIX_ERR_UNPACK_FAILURE, PMIx_server_init(&module, scheduler, 1));
    setenv("PMIX_MCA_pnet_test_nodes", "a,b,n[0-2]", 1);
    host_start_with(&module, scheduler, 1);
    PMIX_FABRIC_CONSTRUCT(&fabric);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_register(&fabric, NULL, 0));
    check_text("0:a,n0,n2;1:b,n1", fact(&fabric, PMIX_FABRIC_GROUPS));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_deregister(&fabric));
    CHECK_STATUS(PMIX_SUCCESS, register_with(&fabric, PMIX_FABRIC_PLANE, "plane001", true));
    check_text("0:a,b,n0,n1;1:n2", fact(&fabric, PMIX_FABRIC_GROUPS));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_deregister(&fabric));
    host_stop();
    unsetenv("PMIX_MCA_pnet_test_planes");
    unsetenv("PMIX_MCA_pnet_test_nodes");
}

static void change_to(const char *description)
{
    pmix_fabric_t fabric;

    PMIX_FABRIC_CONSTRUCT(&fabric);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_register(&fabric, NULL, 0));
    setenv("PMIX_MCA_pnet_test_nverts", description, 1);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_update(&fabric));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_deregister(&fabric));
}

static int host(void)
{
    static pmix_server_module_t module;
    pmix_info_t info;

    if (stock()) return host_idle(); /* it has no data of fabrics */
    setenv("PMIX_MCA_pnet", "test", 1);
    setenv("PMIX_MCA_pnet_test_nverts", "wide:5;plane:d:3", 1);
    PMIX_INFO_LOAD(&info, PMIX_SERVER_SCHEDULER, NULL, PMIX_BOOL);
    host_start_with(&module, &info, 1);
    devices();
    queries();
    selections();
    updates();
    vertices();
    host_run("of-client", 1, 1, "client");
    struct nodes nodes = {.done = DONE}, fewer = {.done = DONE};
    collect_all(&nodes);
    change_to("wide:5;plane:d:2");
    collect_all(&fewer);
    host_stop();
    named_nodes(&info);
    unsetenv("PMIX_MCA_pnet");
    inventories(&nodes, &fewer);
    PMIX_INFO_FREE(nodes.info, nodes.count);
    PMIX_INFO_FREE(fewer.info, fewer.count);
    asked_daemons();
    slurm();
    return finish();
}

int main(int argc, char **argv)
{
    if (argc == 1) return host();
    if (strcmp(argv[1], "daemon") == 0) return daemon_of_node();
    return strcmp(argv[1], "renewing") == 0 ? renewing_client() : client();
}
