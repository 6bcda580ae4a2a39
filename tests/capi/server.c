/* The server's own calls, with an empty module: maps generated, and read back by a client; registration of nodes,
 * applications and processes; environment of a child; direct modex; end of a job. Every request that needs the host is
 * NOT_SUPPORTED, never a false success. */
#include "host.h"

static void generated(void)
{
    char *text = NULL;

    CHECK_STATUS(PMIX_SUCCESS, PMIx_generate_regex("odin009,odin010,odin011", &text));
    CHECK(text && (strncmp(text, "raw:", 4) == 0 || strncmp(text, "pmix[", 5) == 0 || strncmp(text, "blob:", 5) == 0));
    free(text);
    text = NULL;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_generate_ppn("0,1,2;3,4,5;6-7", &text));
    CHECK(text && (strncmp(text, "raw:", 4) == 0 || strncmp(text, "pmix[", 5) == 0 || strncmp(text, "blob:", 5) == 0));
    free(text);
}

static char *of_env(char **env, const char *name)
{
    size_t length = strlen(name);
    for (; env && *env; env++)
        if (strncmp(*env, name, length) == 0 && (*env)[length] == '=') return *env + length + 1;
    return NULL;
}

static void environment(void)
{
    pmix_proc_t proc = proc_of("described", 1);
    char **env = NULL;

    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_setup_fork(&proc, &env));
    CHECK_TEXT("described", of_env(env, "PMIX_NAMESPACE"));
    CHECK_TEXT("1", of_env(env, "PMIX_RANK"));
    static const char *const names[] = {"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3", "PMIX_SERVER_URI2",
                                        "PMIX_SERVER_URI21"};
    if (stock()) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            char *uri = of_env(env, names[i]);
            CHECK(uri && strncmp(uri, "capi-host.0;tcp4://127.0.0.1:", 29) == 0);
        }
    } else { /* our socket has no port */
        char *uri = of_env(env, "MODEX_SERVER_URI");
        CHECK(uri && strncmp(uri, "capi-host.0;unix:/", 18) == 0);
    }
    CHECK_TEXT("native", of_env(env, "PMIX_SECURITY_MODE"));
    CHECK_TEXT("PMIX_BFROP_BUFFER_NON_DESC", of_env(env, "PMIX_BFROP_BUFFER_TYPE"));
    CHECK(of_env(env, "PMIX_GDS_MODULE") && of_env(env, "PMIX_HOSTNAME") && of_env(env, "PMIX_VERSION"));
    CHECK(of_env(env, "PMIX_SERVER_TMPDIR") && of_env(env, "PMIX_SYSTEM_TMPDIR"));
    PMIX_ARGV_FREE(env);
}

/* Three nodes, two applications, five ranks; the first two ranks are local. */
static void describe(void)
{
    char host[256] = "", nodes[400], *regex, *ppn;
    pmix_info_t info[12], *inner;
    pmix_data_array_t *array;
    struct done done = DONE;
    size_t n = 0;
    uint32_t number;
    pmix_nspace_t nspace = "described";

    gethostname(host, sizeof host - 1);
    snprintf(nodes, sizeof nodes, "%s,node-b,node-c", host);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_generate_regex(nodes, &regex));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_generate_ppn("0,1;2,3;4", &ppn));
    memset(info, 0, sizeof info);
    PMIX_INFO_LOAD(&info[n++], PMIX_NODE_MAP, regex, PMIX_REGEX);
    PMIX_INFO_LOAD(&info[n++], PMIX_PROC_MAP, ppn, PMIX_REGEX);
    number = 5;
    PMIX_INFO_LOAD(&info[n++], PMIX_JOB_SIZE, &number, PMIX_UINT32);
    number = 2;
    PMIX_INFO_LOAD(&info[n++], PMIX_JOB_NUM_APPS, &number, PMIX_UINT32);
    for (uint32_t app = 0; app < 2; app++) {
        PMIX_DATA_ARRAY_CREATE(array, 3, PMIX_INFO);
        inner = array->array;
        PMIX_INFO_LOAD(&inner[0], PMIX_APPNUM, &app, PMIX_UINT32);
        PMIX_INFO_LOAD(&inner[1], PMIX_APP_ARGV, app ? "./b -y" : "./a -x", PMIX_STRING);
        PMIX_INFO_LOAD(&inner[2], PMIX_WDIR, app ? "/tmp" : "/", PMIX_STRING);
        PMIX_INFO_LOAD(&info[n++], PMIX_APP_INFO_ARRAY, array, PMIX_DATA_ARRAY);
        PMIX_DATA_ARRAY_FREE(array);
    }
    for (uint32_t rank = 0; rank < 5; rank++) {
        uint32_t app = rank < 2 ? 0 : 1;
        uint16_t local = (uint16_t)(rank % 2);
        PMIX_DATA_ARRAY_CREATE(array, 4, PMIX_INFO);
        inner = array->array;
        PMIX_INFO_LOAD(&inner[0], PMIX_RANK, &rank, PMIX_PROC_RANK);
        PMIX_INFO_LOAD(&inner[1], PMIX_APPNUM, &app, PMIX_UINT32);
        PMIX_INFO_LOAD(&inner[2], PMIX_LOCAL_RANK, &local, PMIX_UINT16);
        PMIX_INFO_LOAD(&inner[3], PMIX_LOCALITY_STRING, NULL, PMIX_STRING); /* a string that is NULL */
        PMIX_INFO_LOAD(&info[n++], PMIX_PROC_DATA, array, PMIX_DATA_ARRAY);
        PMIX_DATA_ARRAY_FREE(array);
    }
    pmix_status_t status = PMIx_server_register_nspace(nspace, 2, info, n, op_done, &done);
    CHECK_STATUS(PMIX_SUCCESS, done_result(&done, status));
    for (size_t i = 0; i < n; i++) PMIX_INFO_DESTRUCT(&info[i]);
    free(regex);
    free(ppn);
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct done registered = DONE;
        pmix_proc_t proc = proc_of(nspace, rank);
        status = PMIx_server_register_client(&proc, geteuid(), getegid(), (void *)(uintptr_t)(1000 + rank), op_done, &registered);
        CHECK_STATUS(PMIX_SUCCESS, done_result(&registered, status));
    }
    /* An update, as hosts send it: the negative number leaves the number of local processes unchanged. */
    struct done updated = DONE;
    number = 7;
    PMIX_INFO_LOAD(&info[0], "x.later", &number, PMIX_UINT32);
    status = PMIx_server_register_nspace(nspace, -1, info, 1, op_done, &updated);
    CHECK_STATUS(PMIX_SUCCESS, done_result(&updated, status));
    PMIX_INFO_DESTRUCT(&info[0]);
}

/* A client did not find its server's name or address, and a server not its own address or topology, so programs could
 * not pass them to tools. The rule: a process finds its server's data without a request. */
static void of_the_server(void)
{
    char start[64];
    pmix_value_t *value;

    GET_TEXT("capi-host", &me, PMIX_SERVER_NSPACE);
    GET_NUMBER(0, &me, PMIX_SERVER_RANK, PMIX_PROC_RANK, rank);
    snprintf(start, sizeof start, "capi-host.0;");
    value = get(&me, PMIX_SERVER_URI, PMIX_STRING);
    CHECK(value && strncmp(value->data.string, start, strlen(start)) == 0 && strlen(value->data.string) > strlen(start));
    value_free(value);
    CHECK_STATUS(PMIX_SUCCESS, get_status(&me, PMIX_SERVER_URI, PMIX_OPTIONAL));
    CHECK(get_status(&me, PMIX_MYSERVER_URI, PMIX_OPTIONAL) != PMIX_SUCCESS);
}

static void of_itself(void)
{
    pmix_proc_t host = proc_of("capi-host", 0);
    pmix_value_t *own = get(&host, PMIX_MYSERVER_URI, PMIX_STRING), *legacy = get(&host, PMIX_SERVER_URI, PMIX_STRING);
    pmix_value_t *topology;

    CHECK(own && strncmp(own->data.string, "capi-host.0;", 12) == 0);
    if (own && legacy) CHECK_TEXT(own->data.string, legacy->data.string);
    value_free(own);
    value_free(legacy);
    topology = get(&host, PMIX_TOPOLOGY2, PMIX_TOPO);
    CHECK(topology && topology->data.topo && topology->data.topo->topology);
    value_free(topology);
}

static void read_back(void)
{
    pmix_proc_t wild = proc_of(me.nspace, PMIX_RANK_WILDCARD), far = proc_of(me.nspace, 4);
    char host[256] = "", nodes[400];
    pmix_info_t app;
    pmix_value_t *value = NULL;
    uint32_t number = 1;

    gethostname(host, sizeof host - 1);
    GET_NUMBER(5, &wild, PMIX_JOB_SIZE, PMIX_UINT32, uint32);
    GET_NUMBER(3, &wild, PMIX_NUM_NODES, PMIX_UINT32, uint32);
    /* Servers of OpenPMIx accept the update but do not publish it. */
    if (getenv("MODEX_SERVER_URI")) GET_NUMBER(7, &wild, "x.later", PMIX_UINT32, uint32);
    GET_NUMBER(2, &wild, PMIX_JOB_NUM_APPS, PMIX_UINT32, uint32);
    GET_NUMBER(0, &me, PMIX_APPNUM, PMIX_UINT32, uint32);
    GET_NUMBER(1, &far, PMIX_APPNUM, PMIX_UINT32, uint32);
    GET_TEXT("node-c", &far, PMIX_HOSTNAME);
    GET_TEXT("0,1", &wild, PMIX_LOCAL_PEERS);
    snprintf(nodes, sizeof nodes, "%s,node-b,node-c", host);
    GET_TEXT(nodes, &wild, PMIX_NODE_LIST);
    value = get(&me, PMIX_LOCALITY_STRING, PMIX_STRING);
    CHECK(value && value->data.string == NULL);
    value_free(value);
    /* Data of an application: the own one without a qualifier, another one by its number. */
    CHECK_UNLESS_STOCK("wants a qualifier", get_status(&wild, PMIX_APP_ARGV, NULL) == PMIX_SUCCESS);
    PMIX_INFO_LOAD(&app, PMIX_APPNUM, &number, PMIX_UINT32);
    value = NULL;
    pmix_status_t status = PMIx_Get(&wild, PMIX_APP_ARGV, &app, 1, &value);
    CHECK_UNLESS_STOCK("wants APP_INFO besides",
                       status == PMIX_SUCCESS && value->type == PMIX_STRING && strcmp(value->data.string, "./b -y") == 0);
    if (status == PMIX_SUCCESS) value_free(value);
    PMIX_INFO_DESTRUCT(&app);
    /* Without a direct modex, values of another node are missing, and no Get waits for them. */
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, get_status(&far, "card", NULL));
}

static void unsupported(void)
{
    pmix_info_t info, *results = NULL;
    pmix_pdata_t data;
    pmix_query_t query;
    pmix_byte_object_t bytes = {NULL, 0};
    pmix_app_t app;
    pmix_nspace_t nspace;
    pmix_proc_t both[2] = {proc_of(me.nspace, 0), proc_of(me.nspace, 4)};
    size_t count = 0;
    char *keys[] = {"key", NULL};
    int status;

    PMIX_INFO_LOAD(&info, "key", "value", PMIX_STRING);
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, PMIx_Publish(&info, 1));
    PMIX_PDATA_CONSTRUCT(&data);
    strcpy(data.key, "key");
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, PMIx_Lookup(&data, 1, NULL, 0));
    PMIX_PDATA_DESTRUCT(&data);
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, PMIx_Unpublish(keys, NULL, 0));
    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup("./a");
    app.maxprocs = 1;
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, PMIx_Spawn(NULL, 0, &app, 1, nspace));
    PMIX_APP_DESTRUCT(&app);
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, PMIx_Allocation_request(PMIX_ALLOC_NEW, &info, 1, &results, &count));
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, "no.such.query");
    CHECK_NUMBER(PMIX_SUCCESS, status);
    CHECK(PMIx_Query_info(&query, 1, &results, &count) != PMIX_SUCCESS);
    PMIX_QUERY_DESTRUCT(&query);
    CHECK_UNLESS_STOCK_SERVER("says another error", PMIx_Process_monitor(&info, -500, NULL, 0, &results, &count) == PMIX_ERR_NOT_SUPPORTED);
    if (!stock_server()) { /* stock hangs, or makes an empty credential of its own */
        CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, PMIx_Connect(both, 2, NULL, 0));
        CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, PMIx_Fence(NULL, 0, NULL, 0)); /* ranks of other nodes take part */
        CHECK(PMIx_Get_credential(NULL, 0, &bytes) != PMIX_SUCCESS || bytes.bytes != NULL);
        free(bytes.bytes);
        CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, PMIx_Abort(1, "no host function", NULL, 0));
    }
    PMIX_INFO_DESTRUCT(&info);
}

/* A tool that ended with PMIx_Finalize got PMIX_ERR_INIT and stayed connected; its launcher then saw it as failed. The
 * rule: either function ends a tool. */
static int tool(void)
{
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_init(&me, NULL, 0));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    CHECK(!PMIx_Initialized());
    CHECK_UNLESS_STOCK("takes any number of them", PMIx_Finalize(NULL, 0) == PMIX_ERR_INIT);
    return finish();
}

static int client(const char *role)
{
    if (strcmp(role, "tool") == 0) return tool();
    client_start();
    if (strcmp(role, "read") == 0) {
        read_back();
        of_the_server();
        if (me.rank == 0) unsupported();
    }
    if (me.rank == 1) usleep(100000); /* the host's request comes first */
    char text[32];
    snprintf(text, sizeof text, "card of %u", me.rank);
    CHECK_STATUS(PMIX_SUCCESS, put_text(PMIX_GLOBAL, "card", text));
    CHECK_STATUS(PMIX_SUCCESS, put_text(PMIX_LOCAL, "kept here", text));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Commit());
    return client_end();
}

struct modex {
    struct done done;
    size_t size;
    bool remote, local;
};

static void fetched(pmix_status_t status, char *data, size_t size, void *cbdata)
{
    struct modex *modex = cbdata;
    modex->size = size;
    modex->remote = data && memmem(data, size, "card of", 7) != NULL;
    modex->local = data && memmem(data, size, "kept here", 9) != NULL;
    done_with(&modex->done, status, 0);
}

static pmix_server_module_t module; /* nothing */

/* Without a query function of the host, the library answers the host's own queries. Regression: PMIX_ERR_NOT_SUPPORTED. */
static void queries(void)
{
    pmix_query_t query;
    pmix_info_t *results = NULL;
    size_t count = 0;
    int status;

    if (stock()) return; /* it has no such answers */
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_QUERY_NAMESPACES);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_QUERY_LOCAL_PROC_TABLE);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_JOB_SIZE);
    CHECK_NUMBER(PMIX_SUCCESS, status);
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
    PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, "described", PMIX_STRING);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Query_info(&query, 1, &results, &count));
    CHECK_NUMBER(3, count);
    const pmix_info_t *names = info_of(results, count, PMIX_QUERY_NAMESPACES);
    CHECK(names && names->value.type == PMIX_STRING && strstr(names->value.data.string, "described"));
    const pmix_info_t *table = info_of(results, count, PMIX_QUERY_LOCAL_PROC_TABLE);
    CHECK(table && table->value.type == PMIX_DATA_ARRAY && table->value.data.darray->size == 2);
    const pmix_info_t *size = info_of(results, count, PMIX_JOB_SIZE);
    CHECK(size && size->value.type == PMIX_UINT32 && size->value.data.uint32 == 5);
    if (results) PMIX_INFO_FREE(results, count);
    PMIX_ARGV_APPEND(status, query.keys, "no.such.key");
    CHECK_STATUS(PMIX_ERR_PARTIAL_SUCCESS, PMIx_Query_info(&query, 1, &results, &count));
    CHECK_NUMBER(3, count);
    if (results) PMIX_INFO_FREE(results, count);
    PMIX_QUERY_DESTRUCT(&query);
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, "no.such.key");
    CHECK(PMIx_Query_info(&query, 1, &results, &count) != PMIX_SUCCESS);
    CHECK(results == NULL && count == 0);
    PMIX_QUERY_DESTRUCT(&query);
}

int main(int argc, char **argv)
{
    if (argc > 1) return client(argv[1]);
    pid_t pids[2];
    struct modex wanted[2] = {{.done = DONE}, {.done = DONE}};

    host_start(&module);
    of_itself();
    generated();
    describe();
    environment();
    queries();
    /* Requested before the ranks exist: held until they have committed. Local values stay here. */
    for (uint32_t rank = 0; rank < 2; rank++) {
        pmix_proc_t proc = proc_of("described", rank);
        CHECK_STATUS(PMIX_SUCCESS, PMIx_server_dmodex_request(&proc, fetched, &wanted[rank]));
    }
    for (uint32_t rank = 0; rank < 2; rank++) pids[rank] = host_fork("described", rank, "read");
    for (uint32_t rank = 0; rank < 2; rank++) {
        CHECK_STATUS(PMIX_SUCCESS, done_wait(&wanted[rank].done));
        CHECK(wanted[rank].size > 0 && wanted[rank].remote && !wanted[rank].local);
    }
    for (uint32_t rank = 0; rank < 2; rank++) host_wait(pids[rank], 0);
    for (uint32_t rank = 0; rank < 2; rank++) CHECK_NUMBER(1, wanted[rank].done.count);
    struct done gone = DONE;
    pmix_proc_t proc = proc_of("described", 0);
    PMIx_server_deregister_client(&proc, op_done, &gone);
    done_wait(&gone);
    host_forget("described");
    host_forget("described"); /* harmless */
    /* The name can be used again. */
    host_run("described", 2, 2, "again");
    host_run("of-tool", 1, 1, "tool");
    host_stop();
    return finish();
}
