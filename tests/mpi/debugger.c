/* A debugger without MPIR: a tool attaches to a running launcher, asks for the ranks and starts a daemon beside them on each node.
 * usage: debugger pid NUMBER | file PATH | search         as the tool
 *        debugger daemon                                  started by the tool */
#include <pmix_tool.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int ended;

static void fail(const char *step, pmix_status_t status)
{
    printf("%s: %s\n", step, PMIx_Error_string(status));
    fflush(stdout);
    exit(1);
}

static void tell(const char *who, const char *data, const char *job)
{
    pmix_query_t query;
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_status_t status;

    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, data);
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
    PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, job, PMIX_STRING);
    status = PMIx_Query_info(&query, 1, &results, &count);
    if (status != PMIX_SUCCESS) fail("query of processes", status);
    if (count != 1 || results[0].value.type != PMIX_DATA_ARRAY) fail("table", PMIX_ERR_TYPE_MISMATCH);
    pmix_proc_info_t *table = results[0].value.data.darray->array;
    for (size_t i = 0; i < results[0].value.data.darray->size; i++)
        printf("%s: rank %u pid %d on %s\n", who, table[i].proc.rank, (int)table[i].pid, table[i].hostname);
    PMIX_INFO_FREE(results, count);
    PMIX_QUERY_DESTRUCT(&query);
}

/* A daemon learns its target from its launcher, and the ranks of its own node from its server. */
static int daemon_of_node(void)
{
    pmix_proc_t me, all;
    pmix_value_t *target;
    pmix_status_t status;
    char host[256] = "", who[300];

    if ((status = PMIx_tool_init(&me, NULL, 0)) != PMIX_SUCCESS) fail("init of the daemon", status);
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    if ((status = PMIx_Get(&all, PMIX_DEBUG_TARGET, NULL, 0, &target)) != PMIX_SUCCESS) fail("target", status);
    gethostname(host, sizeof host - 1);
    snprintf(who, sizeof who, "daemon %u on %s", me.rank, host);
    tell(who, PMIX_QUERY_LOCAL_PROC_TABLE, target->data.proc->nspace);
    PMIX_VALUE_RELEASE(target);
    fflush(stdout);
    return PMIx_tool_finalize() == PMIX_SUCCESS ? 0 : 1;
}

static void on_end(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                   pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void)id, (void)status, (void)source, (void)results, (void)nresults;
    for (size_t i = 0; i < ninfo; i++)
        if (PMIX_CHECK_KEY(&info[i], PMIX_JOB_TERM_STATUS)) printf("daemons ended with %d\n", info[i].value.data.status);
    fflush(stdout);
    atomic_fetch_add(&ended, 1);
    if (done) done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void start_daemons(const char *program, const char *job)
{
    pmix_app_t app;
    pmix_info_t info[6];
    pmix_proc_t target;
    pmix_nspace_t daemons;
    pmix_status_t status, code = PMIX_EVENT_JOB_END;
    uint16_t one = 1;

    if ((status = PMIx_Register_event_handler(&code, 1, NULL, 0, on_end, NULL, NULL)) < 0) fail("handler", status);
    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup(program);
    PMIX_ARGV_APPEND(status, app.argv, program);
    PMIX_ARGV_APPEND(status, app.argv, "daemon");
    PMIX_LOAD_PROCID(&target, job, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&info[0], PMIX_DEBUGGER_DAEMONS, NULL, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_DEBUG_TARGET, &target, PMIX_PROC);
    PMIX_INFO_LOAD(&info[2], PMIX_DEBUG_DAEMONS_PER_NODE, &one, PMIX_UINT16);
    PMIX_INFO_LOAD(&info[3], PMIX_NOTIFY_COMPLETION, NULL, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[4], PMIX_FWD_STDOUT, NULL, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[5], PMIX_REQUESTOR_IS_TOOL, NULL, PMIX_BOOL);
    if ((status = PMIx_Spawn(info, 6, &app, 1, daemons)) != PMIX_SUCCESS) fail("spawn", status);
    PMIX_APP_DESTRUCT(&app);
    for (int i = 0; i < 2000 && !atomic_load(&ended); i++) usleep(10000);
}

static char *jobs(void)
{
    pmix_query_t query;
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_status_t status;

    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_QUERY_NAMESPACES);
    status = PMIx_Query_info(&query, 1, &results, &count);
    if (status != PMIX_SUCCESS) fail("query of namespaces", status);
    if (count != 1 || results[0].value.type != PMIX_STRING) fail("namespaces", PMIX_ERR_TYPE_MISMATCH);
    char *names = strdup(results[0].value.data.string);
    PMIX_INFO_FREE(results, count);
    PMIX_QUERY_DESTRUCT(&query);
    return names;
}

int main(int argc, char **argv)
{
    pmix_proc_t me;
    pmix_info_t info;
    pmix_status_t status;

    if (argc == 2 && strcmp(argv[1], "daemon") == 0) return daemon_of_node();
    if (argc < 2) return 2;
    int is_search = strcmp(argv[1], "search") == 0;
    pid_t number = argc == 3 ? atoi(argv[2]) : 0;
    if (strcmp(argv[1], "pid") == 0) PMIX_INFO_LOAD(&info, PMIX_SERVER_PIDINFO, &number, PMIX_PID);
    if (strcmp(argv[1], "file") == 0) PMIX_INFO_LOAD(&info, PMIX_TOOL_ATTACHMENT_FILE, argv[2], PMIX_STRING);
    status = PMIx_tool_init(&me, is_search ? NULL : &info, is_search ? 0 : 1);
    if (status != PMIX_SUCCESS) fail("init", status);
    char *names = jobs();
    printf("namespaces %s\n", names);
    /* The first job. The launcher itself has no entry, or the number 0. */
    char *job = strtok(names, ",");
    tell("tool", PMIX_QUERY_PROC_TABLE, job);
    if (!is_search) start_daemons(argv[0], job);
    free(names);
    status = PMIx_tool_finalize();
    if (status != PMIX_SUCCESS) fail("finalize", status);
    printf("detached\n");
    return 0;
}
