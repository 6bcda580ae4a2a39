/* The standard's forbidden inputs get a status, never a crash: NULL pointers, oversized keys and namespaces, reserved
 * keys, unknown types, scopes and ranks, huge counts. So do the requests to a host that answers late, twice or never. A
 * call that crashes or hangs stock runs with our library only. */
#include "host.h"

static char long_text[4 * PMIX_MAX_KEYLEN];

/* A whole namespace or key without a NUL: memcheck reports a read behind it. */
static char *unterminated(size_t size)
{
    char *text = malloc(size);
    memset(text, 'n', size);
    return text;
}

static void putting(void)
{
    pmix_value_t value;
    memset(&value, 0, sizeof value);
    value.type = PMIX_INT;

    CHECK(PMIx_Put(PMIX_GLOBAL, long_text, &value) != PMIX_SUCCESS);
    CHECK(PMIx_Put(PMIX_GLOBAL, NULL, &value) != PMIX_SUCCESS);
    CHECK_UNLESS_STOCK("accepts any scope", PMIx_Put(77, "key", &value) != PMIX_SUCCESS);
    if (stock()) return;
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Put(PMIX_GLOBAL, "", &value));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Put(PMIX_GLOBAL, "key", NULL));
    value.type = 60000;
    CHECK(PMIx_Put(PMIX_GLOBAL, "key", &value) != PMIX_SUCCESS);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = NULL;
    value.data.bo.size = 12;
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Put(PMIX_GLOBAL, "key", &value));
    value.type = PMIX_PROC;
    value.data.proc = NULL;
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Put(PMIX_GLOBAL, "key", &value));
    value.type = PMIX_DATA_ARRAY;
    value.data.darray = NULL;
    CHECK(PMIx_Put(PMIX_GLOBAL, "key", &value) == PMIX_ERR_BAD_PARAM || get_status(&me, "key", PMIX_OPTIONAL) <= 0);
    value.type = PMIX_INT;
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Store_internal(NULL, "key", &value));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Store_internal(&me, NULL, &value));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Store_internal(&me, "key", NULL));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Store_internal(&me, long_text, &value));
}

static void getting(void)
{
    pmix_proc_t wild = proc_of(me.nspace, PMIX_RANK_WILDCARD), far = proc_of(me.nspace, 4000000);
    pmix_value_t *value = NULL;

    CHECK(get_status(&wild, long_text, PMIX_OPTIONAL) != PMIX_SUCCESS);
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Get(&wild, NULL, NULL, 0, &value));
    CHECK(get_status(&far, "key", PMIX_IMMEDIATE) != PMIX_SUCCESS);
    CHECK(get_status(&far, PMIX_LOCAL_RANK, PMIX_IMMEDIATE) != PMIX_SUCCESS);
    if (stock()) return;
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Get(&me, "key", NULL, 0, NULL));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Get(&me, "key", NULL, 3, &value));
    CHECK(PMIx_Get_nb(&me, "key", NULL, 0, NULL, NULL) != PMIX_SUCCESS);
    memset(wild.nspace, 'n', sizeof wild.nspace); /* no terminator */
    CHECK(get_status(&wild, PMIX_JOB_SIZE, PMIX_IMMEDIATE) != PMIX_SUCCESS);
    /* With the caller's own storage, and without storage. */
    pmix_info_t info;
    pmix_value_t storage, *at = &storage, *none = NULL;
    pmix_proc_t job = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&info, PMIX_GET_STATIC_VALUES, NULL, PMIX_BOOL);
    PMIX_VALUE_CONSTRUCT(&storage);
    pmix_status_t status = PMIx_Get(&job, PMIX_JOB_SIZE, &info, 1, &at);
    CHECK(status == PMIX_SUCCESS ? storage.type == PMIX_UINT32 && storage.data.uint32 == 2
                                 : status == PMIX_ERR_NOT_SUPPORTED);
    CHECK(PMIx_Get(&job, PMIX_JOB_SIZE, &info, 1, &none) != PMIX_SUCCESS);
    PMIX_VALUE_DESTRUCT(&storage);
}

/* A failed call left the pointer unchanged. A program that tests the pointer, as it may with OpenPMIx, then read or
 * freed memory that it did not own. The rule: a result that a failed call does not give is NULL, and its count 0. */
#define CHECK_CLEARED(place, call)                              \
    do {                                                        \
        place = (void *)&untouched;                             \
        count = 77;                                             \
        CHECK(!(call));                                         \
        CHECK(place == NULL && (count == 0 || count == 77));    \
    } while (0)
#define CHECK_ALL_CLEARED(place, call)      \
    do {                                    \
        CHECK_CLEARED(place, call);         \
        CHECK_NUMBER(0, count);             \
    } while (0)

static void clearing(void)
{
    static pmix_value_t untouched;
    pmix_proc_t *procs, job = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    pmix_value_t *value;
    pmix_info_t *results, info;
    pmix_query_t query;
    pmix_device_distance_t *distances;
    pmix_topology_t topology = {NULL, NULL};
    pmix_cpuset_t set = {"no-such-source", &untouched};
    pmix_byte_object_t object;
    char *text;
    uint8_t *bytes;
    size_t count;

    PMIX_INFO_LOAD(&info, PMIX_IMMEDIATE, NULL, PMIX_BOOL);
    CHECK_CLEARED(value, PMIx_Get(&job, "no.such.key", &info, 1, &value) == PMIX_SUCCESS);
    PMIX_INFO_LOAD(&info, PMIX_OPTIONAL, NULL, PMIX_BOOL);
    CHECK_CLEARED(value, PMIx_Get(&job, "no.such.key", &info, 1, &value) == PMIX_SUCCESS);
    CHECK_ALL_CLEARED(procs, PMIx_Resolve_peers(NULL, "no-such-job", &procs, &count) == PMIX_SUCCESS);
    CHECK_CLEARED(text, PMIx_Resolve_nodes("no-such-job", &text) == PMIX_SUCCESS);
    CHECK_ALL_CLEARED(bytes, PMIx_Data_compress((const uint8_t *)"abc", 3, &bytes, &count));
    if (stock()) return; /* stock dereferences some of these, and leaves others unchanged */
    PMIX_INFO_LOAD(&info, PMIX_GET_STATIC_VALUES, NULL, PMIX_BOOL);
    CHECK_CLEARED(value, PMIx_Get(&job, "no.such.key", &info, 1, &value) == PMIX_SUCCESS);
    CHECK_CLEARED(value, PMIx_Get(&job, long_text, NULL, 0, &value) == PMIX_SUCCESS);
    CHECK_ALL_CLEARED(procs, PMIx_Resolve_peers(NULL, long_text, &procs, &count) == PMIX_SUCCESS);
    CHECK_CLEARED(text, PMIx_Resolve_nodes(long_text, &text) == PMIX_SUCCESS);
    CHECK_ALL_CLEARED(distances,
                      PMIx_Compute_distances(&topology, &set, NULL, 0, &distances, &count) == PMIX_SUCCESS);
    CHECK_ALL_CLEARED(bytes, PMIx_Data_decompress((const uint8_t *)"abc", 3, &bytes, &count));
    CHECK_CLEARED(text, PMIx_server_generate_cpuset_string(&set, &text) == PMIX_SUCCESS);
    CHECK_CLEARED(text, PMIx_server_generate_locality_string(&set, &text) == PMIX_SUCCESS);
    memset(&query, 0, sizeof query);
    CHECK_ALL_CLEARED(results, PMIx_Query_info(&query, 1, &results, &count) == PMIX_SUCCESS);
    CHECK_ALL_CLEARED(results, PMIx_Allocation_request(PMIX_ALLOC_NEW, NULL, 3, &results, &count) == PMIX_SUCCESS);
    CHECK_ALL_CLEARED(results, PMIx_Process_monitor(NULL, 0, NULL, 3, &results, &count) == PMIX_SUCCESS);
    CHECK_ALL_CLEARED(results, PMIx_Job_control(NULL, 3, NULL, 0, &results, &count) == PMIX_SUCCESS);
    CHECK_ALL_CLEARED(results, PMIx_Validate_credential(NULL, NULL, 0, &results, &count) == PMIX_SUCCESS);
    CHECK_ALL_CLEARED(results, PMIx_Group_construct(NULL, &me, 1, NULL, 0, &results, &count) == PMIX_SUCCESS);
    CHECK_ALL_CLEARED(results, PMIx_Group_invite(NULL, &me, 1, NULL, 0, &results, &count) == PMIX_SUCCESS);
    CHECK_ALL_CLEARED(results,
                      PMIx_Group_join(NULL, NULL, PMIX_GROUP_ACCEPT, NULL, 0, &results, &count) == PMIX_SUCCESS);
    memset(&untouched, 0, sizeof untouched);
    untouched.type = PMIX_BYTE_OBJECT;
    object.bytes = "x";
    CHECK_ALL_CLEARED(object.bytes, PMIx_Value_unload(&untouched, (void **)&object.bytes, &count) != PMIX_SUCCESS);
}

static void requesting(void)
{
    pmix_proc_t stranger = proc_of("no-such-job", 0), *peers = NULL;
    pmix_nspace_t nspace;
    size_t count = 0;
    char *text = NULL;

    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Publish(NULL, 0));
    CHECK(PMIx_Resolve_peers("no-such-node", me.nspace, &peers, &count) != PMIX_SUCCESS || count == 0);
    if (stock()) return;
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Publish(NULL, 2));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Lookup(NULL, 0, NULL, 0));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Lookup(NULL, 2, NULL, 0));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Spawn(NULL, 0, NULL, 0, nspace));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Spawn(NULL, 0, NULL, 1, nspace));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Connect(NULL, 0, NULL, 0));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Disconnect(NULL, 0, NULL, 0));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Fence(NULL, 2, NULL, 0));
    CHECK(PMIx_Fence(&stranger, 1, NULL, 0) != PMIX_SUCCESS);
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Query_info(NULL, 0, NULL, NULL));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Log(NULL, 0, NULL, 0));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Resolve_peers(NULL, me.nspace, NULL, &count));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Resolve_nodes(me.nspace, NULL));
    CHECK(PMIx_Resolve_nodes("no-such-job", &text) != PMIX_SUCCESS);
    char *whole = unterminated(sizeof(pmix_nspace_t)), *key = unterminated(sizeof(pmix_key_t));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Resolve_peers(NULL, whole, &peers, &count));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Resolve_nodes(whole, &text));
    CHECK_NUMBER(PMIX_ERR_BAD_PARAM, get_status(&me, key, PMIX_OPTIONAL));
    free(whole);
    free(key);
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Group_construct(NULL, &me, 1, NULL, 0, NULL, NULL));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Group_destruct(NULL, NULL, 0));
    CHECK(PMIx_Group_destruct("no-such-group", NULL, 0) != PMIX_SUCCESS);
    CHECK(PMIx_Get_credential(NULL, 0, NULL) != PMIX_SUCCESS);
    CHECK(PMIx_Validate_credential(NULL, NULL, 0, NULL, NULL) != PMIX_SUCCESS);
}

/* The host answers these late, twice or never. */
static void odd_answers(void)
{
    pmix_info_t info;
    char *keys[] = {"late", NULL};

    PMIX_INFO_LOAD(&info, "late", "x", PMIX_STRING);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Publish(&info, 1));
    PMIX_INFO_DESTRUCT(&info);
    if (!stock()) { /* stock's second answer frees the request again */
        PMIX_INFO_LOAD(&info, "twice", "x", PMIX_STRING);
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Publish(&info, 1));
        PMIX_INFO_DESTRUCT(&info);
        /* The connection has survived it, and answers still match their requests. */
        CHECK_STATUS(PMIX_ERR_NOT_FOUND, PMIx_Unpublish(keys, NULL, 0));
        PMIX_INFO_LOAD(&info, "late", "x", PMIX_STRING);
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Publish(&info, 1));
        PMIX_INFO_DESTRUCT(&info);
    }
    static pmix_info_t kept; /* must outlive the request */
    PMIX_INFO_LOAD(&kept, "never", "x", PMIX_STRING);
    static struct done never = DONE; /* its callback may come at the end of the connection */
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Publish_nb(&kept, 1, op_done, &never));
    fence_all(false);
    CHECK_NUMBER(0, never.count);
    /* A request without an answer does not keep a process from ending. */
}

static int client(void)
{
    memset(long_text, 'k', sizeof long_text - 1);
    client_start();
    putting();
    getting();
    clearing();
    requesting();
    odd_answers();
    /* These calls have done no harm. */
    CHECK_STATUS(PMIX_SUCCESS, put_text(PMIX_GLOBAL, "good", "value"));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Commit());
    fence_all(true);
    pmix_proc_t other = proc_of(me.nspace, 1 - me.rank);
    GET_TEXT("value", &other, "good");
    return client_end();
}

/* ---- The host. */
static void give_late(struct answer *answer)
{
    usleep(50000); /* long after the upcall has returned */
    give_op(answer);
}

static pmix_status_t up_publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t n, pmix_op_cbfunc_t callback,
                                void *data)
{
    (void)proc;
    if (info_of(info, n, "never")) return PMIX_SUCCESS;
    struct answer *answer = answer_new(info_of(info, n, "late") ? give_late : give_op, data, PMIX_SUCCESS);
    answer->call.op = callback;
    if (info_of(info, n, "twice")) answer->times = 2;
    answer_later(answer);
    return PMIX_SUCCESS;
}

static pmix_status_t up_unpublish(const pmix_proc_t *proc, char **keys, const pmix_info_t info[], size_t n,
                                  pmix_op_cbfunc_t callback, void *data)
{
    (void)proc, (void)keys, (void)info, (void)n;
    return answer_op(callback, data, PMIX_ERR_NOT_FOUND);
}

static pmix_server_module_t module = {.publish = up_publish, .unpublish = up_unpublish};

static void serving(void)
{
    pmix_nspace_t nspace = "job";
    char **env = NULL, *text = NULL;
    pmix_proc_t proc = proc_of("no-such-job", 0);
    pmix_info_t info;
    struct done done = DONE;

    if (stock()) return;
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_server_register_nspace(NULL, 1, NULL, 0, NULL, NULL));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_server_register_nspace("", 1, NULL, 0, NULL, NULL));
    char *whole = unterminated(sizeof(pmix_nspace_t));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_server_register_nspace(whole, 1, NULL, 0, NULL, NULL));
    PMIx_server_deregister_nspace(whole, NULL, NULL);
    free(whole);
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_server_register_nspace(nspace, 1, NULL, 5, NULL, NULL));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_server_register_client(NULL, 0, 0, NULL, NULL, NULL));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_server_setup_fork(NULL, &env));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_server_setup_fork(&proc, NULL));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_server_dmodex_request(NULL, NULL, NULL));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_generate_regex(NULL, &text));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_generate_ppn(NULL, &text));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_generate_regex("a,b", NULL));
    /* A job of two thousand million ranks on one node, in one short text. */
    PMIX_INFO_LOAD(&info, PMIX_PROC_MAP, "0-2000000000", PMIX_STRING);
    pmix_status_t status = PMIx_server_register_nspace(nspace, 1, &info, 1, op_done, &done);
    (void)done_result(&done, status); /* any status; it must come back */
    PMIX_INFO_DESTRUCT(&info);
    host_forget("job");
    host_forget("never-registered");
    PMIx_server_deregister_client(NULL, NULL, NULL);
    PMIx_server_deregister_client(&proc, NULL, NULL);
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) return client();
    host_start(&module);
    serving();
    host_run("bad", 2, 2, "client");
    host_stop();
    return finish();
}
