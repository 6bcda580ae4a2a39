/* A process without a launcher: calls that fail before PMIx_Init, Init's -25 with an id, the local services, the count
 * of Init, and a second session after the last PMIx_Finalize. */
#include "check.h"

static void before(void)
{
    pmix_proc_t proc = proc_of("nobody", 0);
    pmix_value_t value, *found = NULL;
    char **none = NULL, *nodes = NULL;
    pmix_proc_t *peers = NULL;
    size_t count = 0;

    memset(&value, 0, sizeof value);
    value.type = PMIX_INT;
    CHECK_NUMBER(0, PMIx_Initialized());
    /* Stock returns SUCCESS and counts below zero, so that the next Init does not count. */
    if (!stock()) CHECK_STATUS(PMIX_ERR_INIT, PMIx_Finalize(NULL, 0));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Put(PMIX_GLOBAL, "key", &value));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Commit());
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Get(&proc, "key", NULL, 0, &found));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Get_nb(&proc, "key", NULL, 0, NULL, NULL));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Fence(NULL, 0, NULL, 0));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Fence_nb(NULL, 0, NULL, 0, op_done, NULL));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Publish(NULL, 0));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Lookup(NULL, 0, NULL, 0));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Unpublish(none, NULL, 0));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Spawn(NULL, 0, NULL, 0, NULL));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Connect(&proc, 1, NULL, 0));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Disconnect(&proc, 1, NULL, 0));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Resolve_peers(NULL, proc.nspace, &peers, &count));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Resolve_nodes(proc.nspace, &nodes));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Log(NULL, 0, NULL, 0));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Abort(1, "no", NULL, 0));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Store_internal(&proc, "key", &value));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Job_control_nb(NULL, 0, NULL, 0, NULL, NULL));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Notify_event(-500, &proc, PMIX_RANGE_PROC_LOCAL, NULL, 0, NULL, NULL));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Deregister_event_handler(SIZE_MAX, NULL, NULL));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Group_destruct("group", NULL, 0));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_server_finalize());
    /* Calls that need no Init. */
    CHECK(PMIx_Get_version() != NULL && PMIx_Get_version()[0] >= '3');
    CHECK(PMIx_Error_string(PMIX_ERR_NOT_FOUND) != NULL);
}

static void alone(pmix_proc_t *me)
{
    pmix_proc_t wild = *me, other = proc_of("another-job", 3), again;
    pmix_value_t value, *found;
    struct done done = DONE;
    char host[256] = "";

    wild.rank = PMIX_RANK_WILDCARD;
    gethostname(host, sizeof host - 1);
    CHECK_NUMBER(1, PMIx_Initialized());
    CHECK(strncmp(me->nspace, "singleton.", 10) == 0);
    CHECK(strstr(me->nspace, host) != NULL);
    CHECK_NUMBER(0, me->rank);
    GET_TEXT(host, me, PMIX_HOSTNAME);
    GET_NUMBER(0, me, PMIX_LOCAL_RANK, PMIX_UINT16, uint16);
    GET_NUMBER(1, &wild, PMIX_JOB_SIZE, PMIX_UINT32, uint32);
    GET_NUMBER(0, me, PMIX_APPNUM, PMIX_UINT32, uint32);
    /* No process could put these: not found, and at once. */
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, get_status(&wild, "pmix.no.such.key", NULL));
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, get_status(me, "no-such-key", NULL));
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, get_status(me, "no-such-key", PMIX_OPTIONAL));
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, get_status(me, PMIX_LOCALITY_STRING, PMIX_OPTIONAL));
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, get_status(&wild, PMIX_HWLOC_XML_V2, PMIX_IMMEDIATE));

    /* Data of the process itself. */
    CHECK_STATUS(PMIX_SUCCESS, put_text(PMIX_GLOBAL, "mine", "first"));
    CHECK_STATUS(PMIX_SUCCESS, put_text(PMIX_GLOBAL, "mine", "second"));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Commit());
    GET_TEXT("second", me, "mine");
    memset(&value, 0, sizeof value);
    value.type = PMIX_UINT16;
    value.data.uint16 = 77;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Store_internal(me, PMIX_LOCALITY, &value));
    GET_NUMBER(77, me, PMIX_LOCALITY, PMIX_UINT16, uint16);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Store_internal(&other, "of.another", &value));
    found = NULL;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(&other, "of.another", NULL, 0, &found));
    if (found) CHECK_NUMBER(77, found->data.uint16);
    value_free(found);
    /* A string that is NULL is a value, too. */
    value.type = PMIX_STRING;
    value.data.string = NULL;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Store_internal(me, "null.string", &value));
    found = get(me, "null.string", PMIX_STRING);
    if (found) CHECK(found->data.string == NULL);
    value_free(found);

    /* An empty namespace, and a NULL process, mean the process itself. */
    again = proc_of("", 0);
    GET_TEXT("second", &again, "mine");
    found = NULL;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(NULL, PMIX_PROCID, NULL, 0, &found));
    if (found) CHECK(found->type == PMIX_PROC && PMIX_CHECK_PROCID(found->data.proc, me));
    value_free(found);
    found = NULL;
    CHECK_UNLESS_STOCK("the key came with 5.0", PMIx_Get(NULL, "pmix.vers.num", NULL, 0, &found) == PMIX_SUCCESS);
    if (found) CHECK_NUMBER(PMIX_UINT32, found->type);
    value_free(found);

    /* Cleanup requests have no server; a fence with oneself is over at once. */
    CHECK_STATUS(PMIX_ERR_UNREACH, PMIx_Job_control_nb(me, 1, NULL, 0, NULL, NULL));
    pmix_status_t status = PMIx_Fence_nb(NULL, 0, NULL, 0, op_done, &done);
    CHECK_UNLESS_STOCK("a singleton's fence is refused", done_result(&done, status) == PMIX_SUCCESS);
}

/* Stock ignores the mark. */
static void required(pmix_proc_t *me)
{
    bool yes = true;
    pmix_info_t info;

    if (stock()) return;
    PMIX_INFO_LOAD(&info, "vendor.thing", &yes, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&info);
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, PMIx_Finalize(&info, 1));
    CHECK_NUMBER(1, PMIx_Initialized());
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, PMIx_Notify_event(-500, me, PMIX_RANGE_PROC_LOCAL, &info, 1, NULL, NULL));
    PMIX_INFO_DESTRUCT(&info);
}

static void counted(pmix_proc_t *me)
{
    pmix_proc_t second = proc_of("wrong", 9);

    /* Releases differ: a repeated Init of a singleton repeats the status of the first, or returns SUCCESS. */
    CHECK_EITHER(PMIX_SUCCESS, PMIX_ERR_UNREACH, PMIx_Init(&second, NULL, 0));
    CHECK(PMIX_CHECK_PROCID(&second, me));
    CHECK_EITHER(PMIX_SUCCESS, PMIX_ERR_UNREACH, PMIx_Init(NULL, NULL, 0));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    CHECK_NUMBER(1, PMIx_Initialized());
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    CHECK_NUMBER(1, PMIx_Initialized());
    GET_TEXT("second", me, "mine");
}

/* The launcher's server is gone. Init still returns the name, and our library prints the reason on standard error. */
static void of_a_dead_launcher(void)
{
    static const char *const variables[][2] = {
        {"PMIX_NAMESPACE", "gone"},
        {"PMIX_RANK", "3"},
        {"PMIX_SERVER_URI41", "server.0;tcp4://127.0.0.1:9"},
        {"PMIX_SECURITY_MODE", "native"},
        {"PMIX_BFROP_BUFFER_TYPE", "PMIX_BFROP_BUFFER_NON_DESC"},
    };
    size_t count = sizeof variables / sizeof variables[0];
    pmix_proc_t me;
    char said[4096] = "";
    int said_by[2], err = dup(2);

    memset(&me, 0x5a, sizeof me);
    for (size_t i = 0; i < count; i++) setenv(variables[i][0], variables[i][1], 1);
    if (pipe(said_by) != 0) abort();
    dup2(said_by[1], 2);
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    dup2(err, 2);
    close(err);
    close(said_by[1]);
    if (read(said_by[0], said, sizeof said - 1) < 0) abort();
    close(said_by[0]);
    for (size_t i = 0; i < count; i++) unsetenv(variables[i][0]);
    CHECK_TEXT("gone", me.nspace);
    CHECK_NUMBER(3, me.rank);
    CHECK(status != PMIX_SUCCESS);
    CHECK_UNLESS_STOCK("each rank of the job goes on as if it were alone", !PMIx_Initialized());
    if (PMIx_Initialized()) CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    if (!stock()) CHECK(strstr(said, "modex[") == said && strstr(said, "PMIx_Init failed: ") && strstr(said, "127.0.0.1:9"));
}

int main(void)
{
    pmix_proc_t me = proc_of("wrong", 9);

    before();
    for (int life = 0; life < 2; life++) {
        CHECK_STATUS(PMIX_ERR_UNREACH, PMIx_Init(&me, NULL, 0));
        alone(&me);
        required(&me);
        counted(&me);
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
        CHECK_NUMBER(0, PMIx_Initialized());
        CHECK_STATUS(PMIX_ERR_INIT, get_status(&me, "mine", NULL));
        CHECK_STATUS(PMIX_ERR_INIT, PMIx_Deregister_event_handler(SIZE_MAX, NULL, NULL));
        if (!stock()) CHECK_STATUS(PMIX_ERR_INIT, PMIx_Finalize(NULL, 0));
    }
    of_a_dead_launcher();
    return finish();
}
