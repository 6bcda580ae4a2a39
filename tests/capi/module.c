/* Server modules of every release: the pointer comes without a length, so any bytes may follow a short one. The modules
 * lie right before unreadable memory, before garbage, before addresses of data, and on the heap. Their memory is freed
 * when the server has started. */
#include "host.h"

#include <sys/mman.h>

enum after { UNREADABLE, GARBAGE, ADDRESSES, HEAP };

static atomic_int published, connected, finalized, grouped, logged;

static pmix_status_t up_publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t n, pmix_op_cbfunc_t callback,
                                void *data)
{
    (void)proc, (void)info, (void)n;
    atomic_fetch_add(&published, 1);
    return answer_op(callback, data, PMIX_SUCCESS);
}

static pmix_status_t up_connected(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t callback, void *data)
{
    (void)proc, (void)object, (void)callback, (void)data;
    atomic_fetch_add(&connected, 1);
    return PMIX_SUCCESS;
}

static pmix_status_t up_connected2(const pmix_proc_t *proc, void *object, pmix_info_t info[], size_t n,
                                   pmix_op_cbfunc_t callback, void *data)
{
    (void)proc, (void)object, (void)info, (void)n;
    atomic_fetch_add(&connected, 1);
    return answer_op(callback, data, PMIX_SUCCESS);
}

static pmix_status_t up_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t callback, void *data)
{
    (void)proc, (void)object;
    atomic_fetch_add(&finalized, 1);
    return answer_op(callback, data, PMIX_SUCCESS);
}

static pmix_status_t up_group(pmix_group_operation_t operation, char group[], const pmix_proc_t procs[], size_t n,
                              const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t callback, void *data)
{
    (void)group, (void)procs, (void)n, (void)directives, (void)ndirs;
    atomic_fetch_add(&grouped, 1);
    if (operation != PMIX_GROUP_CONSTRUCT) return answer_info(callback, data, PMIX_SUCCESS, NULL, NULL);
    struct answer *answer = answer_new(give_infos, data, PMIX_SUCCESS);
    pmix_data_array_t *infos;
    size_t context = 17;
    PMIX_DATA_ARRAY_CREATE(infos, 1, PMIX_INFO);
    PMIX_INFO_LOAD((pmix_info_t *)infos->array, PMIX_GROUP_CONTEXT_ID, &context, PMIX_SIZE);
    answer->payload = infos;
    answer->call.info = callback;
    answer_later(answer);
    return PMIX_SUCCESS;
}

static pmix_status_t up_log2(const pmix_proc_t *proc, const pmix_info_t data[], size_t ndata,
                             const pmix_info_t directives[], size_t ndirs, pmix_op_cbfunc_t callback, void *data2)
{
    (void)proc, (void)directives, (void)ndirs;
    CHECK(ndata == 1 && strcmp(data[0].key, PMIX_LOG_STDERR) == 0);
    atomic_fetch_add(&logged, 1);
    return answer_op(callback, data2, PMIX_SUCCESS);
}

static pmix_status_t up_tool2(pmix_info_t *info, size_t ninfo, pmix_tool_connection_cbfunc_t callback, void *data)
{
    (void)info, (void)ninfo, (void)callback, (void)data;
    return PMIX_ERR_NOT_SUPPORTED;
}

/* A client that logs. */
static int logger(void)
{
    pmix_info_t info;
    client_start();
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_LOG_STDERR, "text", PMIX_STRING);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Log(&info, 1, NULL, 0));
    PMIX_INFO_DESTRUCT(&info);
    return client_end();
}

/* A table of 6.1 that has younger entries alone: both of them, or one and its size. */
static void serve_younger(bool both)
{
    union {
        pmix_server_module_t module;
        void *entries[32];
    } table;
    pmix_info_t size;
    size_t bytes = sizeof table.entries;

    memset(&table, 0, sizeof table);
    table.module.client_connected2 = up_connected2;
    if (both) *(pmix_status_t (**)(pmix_info_t *, size_t, pmix_tool_connection_cbfunc_t, void *))&table.entries[28] = up_tool2;
    *(pmix_status_t (**)(const pmix_proc_t *, const pmix_info_t *, size_t, const pmix_info_t *, size_t, pmix_op_cbfunc_t,
                         void *))&table.entries[29] = up_log2;
    PMIX_INFO_CONSTRUCT(&size);
    PMIX_INFO_LOAD(&size, "modex.module_size", &bytes, PMIX_SIZE);
    size.flags = PMIX_INFO_REQD;
    host_start_with(&table.module, &size, both ? 0 : 1);
    PMIX_INFO_DESTRUCT(&size);
    atomic_store(&logged, 0);
    host_run("younger", 1, 1, "logger");
    CHECK_NUMBER(1, logged);
    /* A server that is no gateway passes its own texts to the host, too. */
    pmix_info_t text;
    PMIX_INFO_CONSTRUCT(&text);
    PMIX_INFO_LOAD(&text, PMIX_LOG_STDERR, "text", PMIX_STRING);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Log(&text, 1, NULL, 0));
    PMIX_INFO_DESTRUCT(&text);
    CHECK_NUMBER(2, logged);
    host_forget("younger");
    host_stop();
}

/* Regression: the infos were named in the documentation, and had no effect. */
static void own_services(void)
{
    static const char *const names[] = {"modex.name_service", PMIX_SERVER_ENABLE_MONITORING, "modex.credentials"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pmix_info_t info;
        PMIX_INFO_CONSTRUCT(&info);
        PMIX_INFO_LOAD(&info, names[i], NULL, PMIX_BOOL);
        info.flags = PMIX_INFO_REQD;
        host_start_with(NULL, &info, 1);
        PMIX_INFO_DESTRUCT(&info);
        host_stop();
    }
}

/* Regression: the table was read beyond the size that the host named. */
static void too_small(void)
{
    pmix_info_t info;
    size_t bytes = 199;
    pmix_server_module_t module;

    memset(&module, 0, sizeof module);
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, "modex.module_size", &bytes, PMIX_SIZE);
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_server_init(&module, &info, 1));
    PMIX_INFO_DESTRUCT(&info);
}

/* The entry behind offset 224, whose meaning depends on the release. */
static void never(void) { CHECK(!"an entry beyond 224 bytes is called"); }

static int client(const char *role)
{
    bool full = strcmp(role, "full") == 0;
    pmix_info_t info, *results = NULL;
    size_t count = 0;

    client_start();
    PMIX_INFO_LOAD(&info, "service", "text", PMIX_STRING);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Publish(&info, 1));
    PMIX_INFO_DESTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_GROUP_ASSIGN_CONTEXT_ID, NULL, PMIX_BOOL);
    pmix_status_t status = PMIx_Group_construct("group", &me, 1, &info, 1, &results, &count);
    /* A module without the function: our server numbers a group of this node alone itself, and never with 17. */
    bool numbered = full || !stock();
    CHECK_STATUS(numbered ? PMIX_SUCCESS : PMIX_ERR_NOT_SUPPORTED, status);
    const pmix_info_t *context = info_of(results, count, PMIX_GROUP_CONTEXT_ID);
    CHECK(!numbered || (context != NULL && (context->value.data.size == 17) == full));
    if (results) PMIX_INFO_FREE(results, count);
    if (numbered) CHECK_STATUS(PMIX_SUCCESS, PMIx_Group_destruct("group", NULL, 0));
    PMIX_INFO_DESTRUCT(&info);
    return client_end();
}

/* Places a copy right before memory of the kind `after`; the block is `*mapped` bytes from `*start`. */
static void *place(const void *source, size_t length, enum after after, void **start, size_t *mapped)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *mapped = 2 * page;
    unsigned char *memory = mmap(NULL, *mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    *start = memory;
    unsigned char *behind = memory + page;
    memcpy(behind - length, source, length);
    if (after == UNREADABLE) CHECK_NUMBER(0, mprotect(behind, page, PROT_NONE));
    else if (after == GARBAGE) memset(behind, 0x5a, page);
    else
        for (size_t i = 0; i < page; i += sizeof memory) memcpy(behind + i, &memory, sizeof memory);
    return behind - length;
}

/* A server with a module of `length` bytes, and one client. */
static void serve(size_t length, enum after after)
{
    bool full = length >= 224;
    union {
        pmix_server_module_t module;
        void (*entries[32])(void);
    } source;
    char nspace[32];
    void *module, *start = NULL;
    size_t mapped = 0;

    memset(&source, 0, sizeof source);
    for (size_t i = 28; i < 32; i++) source.entries[i] = never;
    source.module.publish = up_publish;
    source.module.client_finalized = up_finalized;
    source.module.group = up_group;
    if (full) source.module.client_connected2 = up_connected2;
    else source.module.client_connected = up_connected;
    if (after == HEAP) {
        module = malloc(length);
        memcpy(module, &source, length);
    } else module = place(&source, length, after, &start, &mapped);

    atomic_store(&published, 0);
    atomic_store(&connected, 0);
    atomic_store(&finalized, 0);
    atomic_store(&grouped, 0);
    host_start(module);
    if (after == HEAP) free(module);
    else CHECK_NUMBER(0, munmap(start, mapped));
    snprintf(nspace, sizeof nspace, "module-%zu-%d", length, (int)after);
    host_run(nspace, 1, 1, full ? "full" : "short");
    CHECK_NUMBER(1, published);
    CHECK_NUMBER(1, connected);
    CHECK_NUMBER(1, finalized);
    CHECK_NUMBER(full ? 2 : 0, grouped); /* the host hears of the construct and the destruct */
    host_forget(nspace);
    host_stop();
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "logger") == 0) return logger();
    if (argc > 1) return client(argv[1]);
    /* Stock reads as many bytes as its own release has. */
    CHECK(PMIx_Get_version() != NULL);
    if (stock()) return finish();
    static const enum after afters[] = {UNREADABLE, GARBAGE, ADDRESSES, HEAP};
    for (size_t i = 0; i < sizeof afters / sizeof *afters; i++) {
        serve(200, afters[i]);
        serve(224, afters[i]);
    }
    for (size_t length = 232; length <= 256; length += 8) serve(length, UNREADABLE);
    serve_younger(true);
    serve_younger(false);
    own_services();
    too_small();
    return finish();
}
