/* A debugger and its launcher, which is a server of another library: it waits in PMIx_server_init for its release, and serves only the
 * debugger meanwhile, on the connection that it has made itself. The arguments of the debugger are the library's variable for the
 * launcher; the launcher has none. */
#include <pmix_server.h>
#include <pmix_tool.h>

#include "debugger.h"

static void on_event(size_t handler, pmix_status_t code, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *done_data)
{
    (void)handler, (void)code, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    if (write(events[1], "x", 1) != 1) abort();
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, done_data);
}

/* The debugger makes this file when it has the answer to its release. A launcher that ended before would take the answer with it. */
static const char *answered(void)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/answered", getenv("TMPDIR"));
    return path;
}

/* PRRTE's launchers answer here after their release. */
static void on_tool(pmix_info_t *info, size_t ninfo, pmix_tool_connection_cbfunc_t done, void *done_data)
{
    (void)info, (void)ninfo, (void)done, (void)done_data;
}

static int be_launcher(void)
{
    static pmix_server_module_t module = {.tool_connected = on_tool};
    pmix_info_t info[3];
    pmix_rank_t rank = 0;
    bool yes = true;

    PMIX_INFO_LOAD(&info[0], PMIX_SERVER_TOOL_SUPPORT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_SERVER_NSPACE, getenv("PMIX_SERVER_NSPACE"), PMIX_STRING);
    PMIX_INFO_LOAD(&info[2], PMIX_SERVER_RANK, &rank, PMIX_PROC_RANK);
    check(PMIx_server_init(&module, info, 3), "PMIx_server_init");
    printf("released\n");
    fflush(stdout);
    while (access(answered(), F_OK) != 0) usleep(1000);
    _exit(0);
}

int main(int argc, char **argv)
{
    pmix_status_t end = PMIX_EVENT_JOB_END, status = PMIX_SUCCESS;
    pmix_proc_t me, launcher;
    pmix_value_t *address;
    pmix_nspace_t job;
    pmix_info_t info[2];
    pmix_app_t app;
    char variable[512], byte;
    bool yes = true;
    int limit = 60;

    if (argc == 1) return be_launcher();
    if (pipe(events) != 0) return 2;
    PMIX_INFO_LOAD(&info[0], PMIX_TOOL_DO_NOT_CONNECT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_LAUNCHER, &yes, PMIX_BOOL);
    check(PMIx_tool_init(&me, info, 2), "PMIx_tool_init");
    status = PMIx_Register_event_handler(&end, 1, NULL, 0, on_event, NULL, NULL);
    if (status < 0) check(status, "PMIx_Register_event_handler");
    check(PMIx_Get(&me, PMIX_MYSERVER_URI, NULL, 0, &address), "PMIx_Get of the address");
    snprintf(variable, sizeof variable, "PMIX_LAUNCHER_RNDZ_URI=%s", address->data.string);
    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup(argv[0]);
    status = PMIX_SUCCESS;
    PMIX_ARGV_APPEND(status, app.argv, argv[0]);
    PMIX_ARGV_APPEND(status, app.env, variable);
    PMIX_ARGV_APPEND(status, app.env, argv[1]);
    app.maxprocs = 1;
    check(PMIx_Spawn(NULL, 0, &app, 1, job), "PMIx_Spawn");
    PMIX_LOAD_PROCID(&launcher, job, 0);
    PMIX_INFO_LOAD(&info[0], PMIX_WAIT_FOR_CONNECTION, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &limit, PMIX_INT);
    check(PMIx_tool_set_server(&launcher, info, 2), "PMIx_tool_set_server");
    PMIX_INFO_LOAD(&info[0], PMIX_EVENT_CUSTOM_RANGE, &launcher, PMIX_PROC);
    status = PMIx_Notify_event(PMIX_DEBUGGER_RELEASE, &me, PMIX_RANGE_CUSTOM, info, 1, NULL, NULL);
    check(status, "PMIx_Notify_event");
    FILE *file = fopen(answered(), "w");
    if (!file || fclose(file) != 0) return 2;
    if (read(events[0], &byte, 1) != 1) return 1;
    check(PMIx_tool_finalize(), "PMIx_tool_finalize");
    printf("the launcher has ended\n");
    return 0;
}
