/* Requests that a scheduler answers: fabrics, sessions and blocks of resources. They come from clients, from a tool, and from
 * the host's own process. */
#include "host.h"

/* 4.2.2 has neither these functions nor these types, so they are found by name. */
typedef struct {
    uint64_t type;
    size_t count;
} unit_t;
typedef pmix_status_t (*session_control_t)(uint32_t, const pmix_info_t *, size_t, pmix_info_cbfunc_t, void *);
typedef pmix_status_t (*resource_block_t)(uint8_t, char *, const unit_t *, size_t, const pmix_info_t *, size_t);
typedef pmix_status_t (*resource_block_nb_t)(uint8_t, char *, const unit_t *, size_t, const pmix_info_t *, size_t,
                                             pmix_op_cbfunc_t, void *);
#define FIND(type, name) ((type)(uintptr_t)dlsym(RTLD_DEFAULT, name))
#define DEFINE 1 /* PMIX_RESOURCE_BLOCK_DEFINE */

/* A server of 4.2.2 reads the directives of a registration into no memory. */
static bool has_directives(void) { return !getenv("NO_DIRECTIVES"); }

/* ---- The host's side. */
static atomic_int upcalls;
static uint32_t rank_expected;

static pmix_status_t answer_infos(pmix_info_cbfunc_t callback, void *data, size_t count, const pmix_info_t *infos)
{
    struct answer *answer = answer_new(give_infos, data, PMIX_SUCCESS);
    pmix_data_array_t *array;
    PMIX_DATA_ARRAY_CREATE(array, count, PMIX_INFO);
    for (size_t i = 0; i < count; i++) PMIX_INFO_XFER(&((pmix_info_t *)array->array)[i], (pmix_info_t *)&infos[i]);
    answer->payload = array;
    answer->call.info = callback;
    answer_later(answer);
    return PMIX_SUCCESS;
}

static pmix_status_t registered(const pmix_info_t info[], size_t n, pmix_info_cbfunc_t callback, void *data)
{
    pmix_info_t found[4];
    size_t devices = 4, index = 7;

    if (info_of(info, n, "at once")) return PMIX_OPERATION_SUCCEEDED;
    if (info_of(info, n, "refused")) return PMIX_ERR_NOT_FOUND;
    if (info_of(info, n, "fails")) return answer_info(callback, data, PMIX_ERR_NO_PERMISSIONS, NULL, NULL);
    if (info_of(info, n, "mistyped")) return answer_info(callback, data, PMIX_SUCCESS, PMIX_FABRIC_INDEX, "seven");
    const pmix_info_t *plane = info_of(info, n, PMIX_FABRIC_PLANE);
    if (has_directives())
        CHECK(plane && plane->value.type == PMIX_STRING && strcmp(plane->value.data.string, "10.0.0.0/8") == 0);
    PMIX_INFO_LOAD(&found[0], PMIX_FABRIC_VENDOR, "Weaver", PMIX_STRING);
    PMIX_INFO_LOAD(&found[1], PMIX_FABRIC_IDENTIFIER, "Slingshot-11", PMIX_STRING);
    PMIX_INFO_LOAD(&found[2], PMIX_FABRIC_NUM_DEVICES, &devices, PMIX_SIZE);
    PMIX_INFO_LOAD(&found[3], PMIX_FABRIC_INDEX, &index, PMIX_SIZE);
    pmix_status_t status = answer_infos(callback, data, 4, found);
    for (int i = 0; i < 4; i++) PMIX_INFO_DESTRUCT(&found[i]);
    return status;
}

static pmix_status_t up_fabric(const pmix_proc_t *proc, pmix_fabric_operation_t operation, const pmix_info_t info[],
                               size_t n, pmix_info_cbfunc_t callback, void *data)
{
    pmix_info_t found[2];
    size_t devices = 5;

    atomic_fetch_add(&upcalls, 1);
    CHECK_NUMBER(rank_expected, proc->rank);
    CHECK_REQUESTER(info, n);
    if (operation == PMIX_FABRIC_REQUEST_INFO) return registered(info, n, callback, data);
    CHECK_NUMBER(PMIX_FABRIC_UPDATE_INFO, operation);
    const pmix_info_t *index = info_of(info, n, PMIX_FABRIC_INDEX);
    CHECK(index && index->value.type == PMIX_SIZE && index->value.data.size == 7);
    PMIX_INFO_LOAD(&found[0], PMIX_FABRIC_VENDOR, "Weaver", PMIX_STRING);
    PMIX_INFO_LOAD(&found[1], PMIX_FABRIC_NUM_DEVICES, &devices, PMIX_SIZE);
    pmix_status_t status = answer_infos(callback, data, 2, found);
    PMIX_INFO_DESTRUCT(&found[0]);
    return status;
}

static pmix_status_t up_session(const pmix_proc_t *proc, uint32_t session, const pmix_info_t info[], size_t n,
                                pmix_info_cbfunc_t callback, void *data)
{
    atomic_fetch_add(&upcalls, 1);
    CHECK_NUMBER(rank_expected, proc->rank);
    CHECK_NUMBER(42, session);
    CHECK_REQUESTER(info, n);
    if (info_of(info, n, "refused")) return PMIX_ERR_NO_PERMISSIONS;
    CHECK(info_of(info, n, "pmix.ssnctrl.id") != NULL);
    return answer_info(callback, data, PMIX_SUCCESS, "session.state", "paused");
}

static pmix_status_t up_block(const pmix_proc_t *proc, uint8_t directive, const char *block, const unit_t *units,
                              size_t nunits, const pmix_info_t info[], size_t n, pmix_op_cbfunc_t callback, void *data)
{
    atomic_fetch_add(&upcalls, 1);
    CHECK_NUMBER(rank_expected, proc->rank);
    CHECK_NUMBER(DEFINE, directive);
    CHECK_REQUESTER(info, n);
    if (!block) return PMIX_ERR_BAD_PARAM;
    CHECK_TEXT("blue", block);
    CHECK(nunits == 2 && units[0].type == PMIX_DEVTYPE_GPU && units[0].count == 3 && units[1].count == 4);
    return answer_op(callback, data, PMIX_SUCCESS);
}

/* The table of 6.1: the headers of 4.2.2 end before its last entries. */
static union {
    pmix_server_module_t module;
    void *entries[32];
} table;

static void start_host(const char *role, bool has_entries)
{
    pmix_info_t info[2];
    size_t size = sizeof table;

    memset(&table, 0, sizeof table);
    if (has_entries) {
        table.module.fabric = up_fabric;
        table.entries[30] = (void *)(uintptr_t)up_session;
        table.entries[31] = (void *)(uintptr_t)up_block;
    }
    PMIX_INFO_LOAD(&info[0], "modex.module_size", &size, PMIX_SIZE);
    PMIX_INFO_LOAD(&info[1], role, NULL, PMIX_BOOL);
    host_start_with(&table.module, info, 2);
}

/* ---- The requesters' side. */
static const pmix_info_t *fact(const pmix_fabric_t *fabric, const char *key)
{
    return info_of(fabric->info, fabric->ninfo, key);
}

static pmix_status_t with_flag(pmix_fabric_t *fabric, const char *key)
{
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, key, NULL, PMIX_BOOL);
    return PMIx_Fabric_register(fabric, &info, 1);
}

static void check_registered(const pmix_fabric_t *fabric)
{
    CHECK_NUMBER(4, fabric->ninfo);
    const pmix_info_t *vendor = fact(fabric, PMIX_FABRIC_VENDOR), *devices = fact(fabric, PMIX_FABRIC_NUM_DEVICES);
    CHECK(vendor && vendor->value.type == PMIX_STRING && strcmp(vendor->value.data.string, "Weaver") == 0);
    CHECK(devices && devices->value.type == PMIX_SIZE && devices->value.data.size == 4);
    CHECK_UNLESS_STOCK("takes no index from the answer", fabric->index == 7);
}

static void check_updated(const pmix_fabric_t *fabric)
{
    CHECK_NUMBER(2, fabric->ninfo);
    const pmix_info_t *devices = fact(fabric, PMIX_FABRIC_NUM_DEVICES);
    CHECK(devices && devices->value.data.size == 5);
}

static void check_empty(const pmix_fabric_t *fabric)
{
    CHECK(fabric->info == NULL && fabric->module == NULL);
    CHECK_NUMBER(0, fabric->ninfo);
}

static void fabrics(void)
{
    pmix_fabric_t fabric;
    pmix_info_t plane;
    size_t count = has_directives() ? 1 : 0;

    PMIX_FABRIC_CONSTRUCT(&fabric);
    PMIX_INFO_LOAD(&plane, PMIX_FABRIC_PLANE, "10.0.0.0/8", PMIX_STRING);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_register(&fabric, &plane, count));
    check_registered(&fabric);
    fabric.index = 7;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_update(&fabric));
    check_updated(&fabric);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_deregister(&fabric));
    CHECK_UNLESS_STOCK("keeps a dangling pointer", fabric.info == NULL);
    PMIX_FABRIC_CONSTRUCT(&fabric);

    struct done done = DONE, updated = DONE;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_register_nb(&fabric, &plane, count, op_done, &done));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&done));
    check_registered(&fabric);
    fabric.index = 7;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_update_nb(&fabric, op_done, &updated));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&updated));
    check_updated(&fabric);
    CHECK_STATUS(PMIX_OPERATION_SUCCEEDED, PMIx_Fabric_deregister_nb(&fabric, op_done, &done));
    CHECK_NUMBER(1, done.count);
    PMIX_INFO_DESTRUCT(&plane);
}

/* What OpenPMIx does not check, or crashes on. */
static void mistakes(void)
{
    pmix_fabric_t fabric;
    struct done done = DONE;

    PMIX_FABRIC_CONSTRUCT(&fabric);
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Fabric_register(NULL, NULL, 0));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Fabric_register_nb(NULL, NULL, 0, op_done, &done));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Fabric_register(&fabric, NULL, 1));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Fabric_register_nb(&fabric, NULL, 0, NULL, NULL));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Fabric_update(NULL));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Fabric_update_nb(NULL, op_done, &done));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Fabric_deregister(NULL));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Fabric_deregister_nb(NULL, NULL, NULL));
    /* Not registered. */
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Fabric_update(&fabric));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Fabric_update_nb(&fabric, op_done, &done));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_deregister(&fabric));
    check_empty(&fabric);
    CHECK_NUMBER(0, done.count);
}

/* Answers of the host without data. */
static void refusals(void)
{
    pmix_fabric_t fabric;
    pmix_info_t plane;
    struct done done = DONE;

    PMIX_FABRIC_CONSTRUCT(&fabric);
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, with_flag(&fabric, "refused"));
    CHECK_STATUS(PMIX_ERR_NO_PERMISSIONS, with_flag(&fabric, "fails"));
    CHECK_STATUS(PMIX_ERR_TYPE_MISMATCH, with_flag(&fabric, "mistyped"));
    check_empty(&fabric);
    /* Registered, without data. */
    CHECK_STATUS(PMIX_SUCCESS, with_flag(&fabric, "at once"));
    CHECK(fabric.info == NULL && fabric.ninfo == 0);
    PMIX_INFO_LOAD(&plane, PMIX_FABRIC_PLANE, "10.0.0.0/8", PMIX_STRING);
    CHECK_STATUS(PMIX_ERR_EXISTS, PMIx_Fabric_register(&fabric, &plane, 1));
    CHECK_STATUS(PMIX_ERR_EXISTS, PMIx_Fabric_register_nb(&fabric, &plane, 1, op_done, &done));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fabric_deregister(&fabric));
    check_empty(&fabric);
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Fabric_update(&fabric));
    CHECK_NUMBER(0, done.count);
    PMIX_INFO_DESTRUCT(&plane);
}

static void on_answer(pmix_status_t status, pmix_info_t *info, size_t n, void *data, pmix_release_cbfunc_t release,
                 void *release_data)
{
    CHECK(status != PMIX_SUCCESS || (n == 1 && strcmp(info[0].value.data.string, "paused") == 0));
    if (release) release(release_data);
    done_with(data, status, n);
}

static void sessions(void)
{
    session_control_t control = FIND(session_control_t, "PMIx_Session_control");
    struct done done = DONE, refused = DONE;
    pmix_info_t info;

    if (!control) return;
    PMIX_INFO_LOAD(&info, "pmix.ssnctrl.id", "mine", PMIX_STRING);
    CHECK_UNLESS_STOCK_SERVER("controls no session", control(42, &info, 1, NULL, NULL) == PMIX_OPERATION_SUCCEEDED);
    CHECK_STATUS(PMIX_SUCCESS, control(42, &info, 1, on_answer, &done));
    CHECK_UNLESS_STOCK_SERVER("controls no session", done_wait(&done) == PMIX_SUCCESS);
    PMIX_INFO_DESTRUCT(&info);
    PMIX_INFO_LOAD(&info, "refused", NULL, PMIX_BOOL);
    CHECK_UNLESS_STOCK_SERVER("controls no session", control(42, &info, 1, NULL, NULL) == PMIX_ERR_NO_PERMISSIONS);
    CHECK_STATUS(PMIX_SUCCESS, control(42, &info, 1, on_answer, &refused));
    CHECK_UNLESS_STOCK_SERVER("controls no session", done_wait(&refused) == PMIX_ERR_NO_PERMISSIONS);
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, control(42, NULL, 1, NULL, NULL));
}

static void blocks(void)
{
    resource_block_t change = FIND(resource_block_t, "PMIx_Resource_block");
    resource_block_nb_t change_nb = FIND(resource_block_nb_t, "PMIx_Resource_block_nb");
    unit_t units[] = {{PMIX_DEVTYPE_GPU, 3}, {PMIX_DEVTYPE_NETWORK, 4}};
    struct done done = DONE;

    if (!change) return;
    if (stock_server()) { /* 4.2.2 has no such request */
        CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, change(DEFINE, "blue", units, 2, NULL, 0));
        return;
    }
    CHECK_STATUS(PMIX_SUCCESS, change(DEFINE, "blue", units, 2, NULL, 0));
    CHECK_STATUS(PMIX_SUCCESS, change_nb(DEFINE, "blue", units, 2, NULL, 0, op_done, &done));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&done));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, change(DEFINE, NULL, units, 2, NULL, 0));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, change(DEFINE, "blue", NULL, 2, NULL, 0));
}

static void everything(void)
{
    fabrics();
    if (!stock()) mistakes();
    if (!stock() && has_directives()) refusals();
    sessions();
    blocks();
}

/* A host without the entries. */
static void nothing(void)
{
    session_control_t control = FIND(session_control_t, "PMIx_Session_control");
    resource_block_t change = FIND(resource_block_t, "PMIx_Resource_block");
    pmix_fabric_t fabric;

    PMIX_FABRIC_CONSTRUCT(&fabric);
    pmix_status_t status = PMIx_Fabric_register(&fabric, NULL, 0);
    CHECK_UNLESS_STOCK("loses a refusal", status == PMIX_ERR_NOT_SUPPORTED);
    check_empty(&fabric);
    if (control) CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, control(42, NULL, 0, NULL, NULL));
    if (change) CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, change(DEFINE, "blue", NULL, 0, NULL, 0));
}

static int client(const char *role)
{
    client_start();
    if (strcmp(role, "nothing") == 0) nothing();
    else everything();
    return client_end();
}

static int tool(void)
{
    tool_start("pmix.cnct.sched");
    everything();
    return tool_end();
}

static int host(void)
{
    if (stock()) setenv("NO_DIRECTIVES", "1", 1);
    start_host(PMIX_SERVER_SCHEDULER, true);
    rank_expected = 0;
    host_run("of-client", 1, 1, "client");
    CHECK(atomic_load(&upcalls) >= 4);
    if (!stock()) everything(); /* 4.2.2 looks for a fabric of its own, and does not ask its host */
    rank_expected = 3;
    if (!stock() && !getenv("CAPI_CLIENT_LIBRARY_PATH")) CHECK_NUMBER(0, host_run_tool("tool"));
    host_stop();
    if (stock()) return finish(); /* a second server of 4.2.2 in one process does not work */

    start_host(PMIX_SERVER_TOOL_SUPPORT, false);
    host_run("in-vain", 1, 1, "nothing");
    nothing();
    host_stop();
    return finish();
}

int main(int argc, char **argv)
{
    if (argc == 1) return host();
    return strcmp(argv[1], "tool") == 0 ? tool() : client(argv[1]);
}
