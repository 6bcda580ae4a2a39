/* A server whose host has no function for queries answers those about the use of resources: for its own process, clients and tools. */
#include "host.h"

#include <fcntl.h>

/* One query for a key about a job, or about no job if that is NULL, with switches up to a NULL. */
static pmix_status_t ask(const char *key, const char *nspace, const char *const *switches, pmix_info_t **found, size_t *count)
{
    pmix_query_t query;
    pmix_status_t status;
    size_t given = 0, at = 0;

    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, key);
    CHECK_STATUS(PMIX_SUCCESS, status);
    while (switches && switches[given]) given++;
    if (given || nspace) PMIX_QUERY_QUALIFIERS_CREATE(&query, given + !!nspace);
    if (nspace) PMIX_INFO_LOAD(&query.qualifiers[at++], PMIX_NSPACE, nspace, PMIX_STRING);
    for (size_t i = 0; i < given; i++, at++) {
        PMIX_INFO_LOAD(&query.qualifiers[at], switches[i], NULL, PMIX_BOOL);
        query.qualifiers[at].flags |= PMIX_INFO_REQD;
    }
    *found = NULL;
    *count = 0;
    status = PMIx_Query_info(&query, 1, found, count);
    PMIX_QUERY_DESTRUCT(&query);
    return status;
}

#define SWITCHES(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The array of the one answer. */
static const pmix_data_array_t *array_of(const pmix_info_t *found, size_t count, const char *key)
{
    const pmix_info_t *info = info_of(found, count, key);
    bool is_array = count == 1 && info && info->value.type == PMIX_DATA_ARRAY && info->value.data.darray->type == PMIX_INFO;
    CHECK(is_array);
    return is_array ? info->value.data.darray : NULL;
}

/* Checks the sample of a rank: its name, its process and its memory in megabytes. Returns the process. */
static pid_t check_sample(const pmix_info_t *sample, const char *nspace, uint32_t rank)
{
    CHECK_TEXT("pmix.proc.res", sample->key);
    CHECK(sample->value.type == PMIX_DATA_ARRAY);
    if (sample->value.type != PMIX_DATA_ARRAY) return 0;
    const pmix_data_array_t *figures = sample->value.data.darray;
    const pmix_info_t *proc = info_of(figures->array, figures->size, PMIX_PROCID);
    const pmix_info_t *pid = info_of(figures->array, figures->size, PMIX_PROC_PID);
    const pmix_info_t *memory = info_of(figures->array, figures->size, "pmix.proc.rss");
    CHECK(proc && proc->value.type == PMIX_PROC && pid && pid->value.type == PMIX_PID);
    CHECK(memory && memory->value.type == PMIX_FLOAT && memory->value.data.fval > 0 && memory->value.data.fval < 1e6);
    if (!proc || !pid) return 0;
    CHECK_TEXT(nspace, proc->value.data.proc->nspace);
    CHECK_NUMBER(rank, proc->value.data.proc->rank);
    return pid->value.data.pid;
}

/* The number of this node in the job means this node. Ours knew no number, if its own process asked. */
static void check_node(const char *nspace, uint32_t node, pmix_status_t expected)
{
    pmix_query_t query;
    pmix_info_t *found = NULL;
    pmix_status_t status;
    size_t count = 0;

    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_QUERY_MEMORY_USAGE);
    CHECK_STATUS(PMIX_SUCCESS, status);
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 2);
    PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, nspace, PMIX_STRING);
    PMIX_INFO_LOAD(&query.qualifiers[1], PMIX_NODEID, &node, PMIX_UINT32);
    CHECK_STATUS(expected, PMIx_Query_info(&query, 1, &found, &count));
    if (found) PMIX_INFO_FREE(found, count);
    PMIX_QUERY_DESTRUCT(&query);
}

/* Each rank's memory, its mean, and its extremes. */
static void memory_of(const char *nspace, uint32_t ranks)
{
    pmix_info_t *found;
    size_t count;
    const pmix_data_array_t *array;

    check_node(nspace, 0, PMIX_SUCCESS);
    check_node(nspace, 7, PMIX_ERR_NOT_FOUND);
    CHECK_STATUS(PMIX_SUCCESS, ask(PMIX_QUERY_MEMORY_USAGE, nspace, NULL, &found, &count));
    if ((array = array_of(found, count, PMIX_QUERY_MEMORY_USAGE))) {
        CHECK_NUMBER(ranks, array->size);
        for (uint32_t i = 0; i < array->size; i++) CHECK(check_sample((pmix_info_t *)array->array + i, nspace, i) > 0);
    }
    PMIX_INFO_FREE(found, count);
    CHECK_STATUS(PMIX_SUCCESS, ask(PMIX_QUERY_MEMORY_USAGE, nspace, SWITCHES(PMIX_QUERY_REPORT_AVG, PMIX_QUERY_REPORT_MINMAX),
                                   &found, &count));
    if ((array = array_of(found, count, PMIX_QUERY_MEMORY_USAGE))) {
        const pmix_info_t *mean = info_of(array->array, array->size, PMIX_CLIENT_AVG_MEMORY);
        CHECK_NUMBER(3, array->size);
        CHECK(mean && mean->value.type == PMIX_FLOAT && mean->value.data.fval > 0);
        CHECK_TEXT("pmix.proc.res", ((pmix_info_t *)array->array)[1].key);
    }
    PMIX_INFO_FREE(found, count);
    CHECK_STATUS(PMIX_SUCCESS, ask("pmix.qry.pres", nspace, NULL, &found, &count));
    if ((array = array_of(found, count, "pmix.qry.pres"))) {
        CHECK_NUMBER(ranks, array->size);
        const pmix_data_array_t *figures = ((pmix_info_t *)array->array)->value.data.darray;
        CHECK(info_of(figures->array, figures->size, "pmix.proc.nthr") != NULL);
    }
    PMIX_INFO_FREE(found, count);
}

static void figure(const char *key)
{
    pmix_info_t *found;
    size_t count;
    CHECK_STATUS(PMIX_SUCCESS, ask(key, NULL, NULL, &found, &count));
    CHECK(count == 1 && found[0].value.type == PMIX_FLOAT && found[0].value.data.fval > 0);
    PMIX_INFO_FREE(found, count);
}

/* The memory of the server, the mean of its clients, and the load of the node. */
static void node(void)
{
    pmix_info_t *found;
    size_t count;
    const pmix_data_array_t *array;

    figure(PMIX_DAEMON_MEMORY);
    figure(PMIX_CLIENT_AVG_MEMORY);
    CHECK_STATUS(PMIX_SUCCESS, ask("pmix.qry.nres", NULL, NULL, &found, &count));
    if ((array = array_of(found, count, "pmix.qry.nres"))) {
        CHECK_TEXT("pmix.node.res", ((pmix_info_t *)array->array)->key);
        const pmix_data_array_t *figures = ((pmix_info_t *)array->array)->value.data.darray;
        CHECK(info_of(figures->array, figures->size, "pmix.node.la") && info_of(figures->array, figures->size, PMIX_HOSTNAME));
    }
    PMIX_INFO_FREE(found, count);
}

static void unknown(void)
{
    pmix_info_t *found;
    size_t count;
    CHECK(ask(PMIX_QUERY_MEMORY_USAGE, "no-such-job", NULL, &found, &count) != PMIX_SUCCESS && count == 0);
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, ask(PMIX_QUERY_MEMORY_USAGE, NULL, SWITCHES("some.switch"), &found, &count));
}

static void everything(const char *nspace)
{
    memory_of(nspace, 2);
    node();
    unknown();
}

/* Descriptors of the ranks that wait: one that tells the host of their start, and one whose end ends the wait. */
enum { TOLD = 40, END = 41 };

static int client(const char *role)
{
    char byte = 0;

    client_start();
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence(NULL, 0, NULL, 0));
    if (strcmp(role, "wait") == 0) {
        if (me.rank == 0) CHECK_NUMBER(1, write(TOLD, &byte, 1));
        CHECK_NUMBER(0, read(END, &byte, 1));
    }
    else if (me.rank == 0) everything(me.nspace);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence(NULL, 0, NULL, 0));
    return client_end();
}

static int tool(void)
{
    tool_start(NULL);
    everything("of-waiting");
    return tool_end();
}

/* The host and a tool ask while both ranks wait. */
static void while_waiting(void)
{
    int told[2], end[2];
    pid_t pids[2];
    char byte;

    CHECK(pipe2(told, O_CLOEXEC) == 0 && pipe2(end, O_CLOEXEC) == 0);
    CHECK(dup2(told[1], TOLD) == TOLD && dup2(end[0], END) == END);
    host_job("of-waiting", 2, 2);
    for (uint32_t i = 0; i < 2; i++) pids[i] = host_fork("of-waiting", i, "wait");
    CHECK(close(TOLD) == 0 && close(END) == 0 && close(told[1]) == 0 && close(end[0]) == 0);
    CHECK_NUMBER(1, read(told[0], &byte, 1));
    everything("of-waiting");
    CHECK_NUMBER(0, host_run_tool("tool"));
    CHECK(close(end[1]) == 0 && close(told[0]) == 0);
    for (uint32_t i = 0; i < 2; i++) host_wait(pids[i], 0);
}

/* A rank of a job with another rank elsewhere: the server knows its own processes alone. */
static int lone(void)
{
    pmix_info_t *found;
    size_t count;

    client_start();
    CHECK_STATUS(PMIX_ERR_PARTIAL_SUCCESS, ask(PMIX_QUERY_MEMORY_USAGE, NULL, NULL, &found, &count));
    CHECK_NUMBER(1, count);
    PMIX_INFO_FREE(found, count);
    CHECK_STATUS(PMIX_SUCCESS, ask(PMIX_QUERY_MEMORY_USAGE, NULL, SWITCHES(PMIX_QUERY_LOCAL_ONLY), &found, &count));
    CHECK(array_of(found, count, PMIX_QUERY_MEMORY_USAGE) != NULL);
    PMIX_INFO_FREE(found, count);
    return client_end();
}

static int host(void)
{
    static pmix_server_module_t module;
    pmix_info_t info[1];

    if (stock()) return host_idle(); /* it leaves these queries to its host */
    PMIX_INFO_LOAD(&info[0], PMIX_SERVER_SYSTEM_SUPPORT, NULL, PMIX_BOOL);
    host_start_with(&module, info, 1);
    host_run("of-clients", 2, 2, "client");
    while_waiting();
    host_run("of-two-nodes", 2, 1, "lone");
    host_stop();
    return finish();
}

int main(int argc, char **argv)
{
    if (argc == 1) return host();
    if (strcmp(argv[1], "tool") == 0) return tool();
    return strcmp(argv[1], "lone") == 0 ? lone() : client(argv[1]);
}
