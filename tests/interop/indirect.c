/* A debugger that is a launcher without a server: PMIx_Spawn starts another launcher as its child, which waits for it. The
 * arguments are the command line of that launcher. The debugger prints the events that come. */
#include <pmix.h>
#include <pmix_tool.h>

#include "debugger.h"

static void on_event(size_t handler, pmix_status_t code, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *done_data)
{
    const char *job = "";

    (void)handler, (void)source, (void)results, (void)nresults;
    for (size_t i = 0; i < ninfo; i++)
        if (PMIX_CHECK_KEY(&info[i], PMIX_NSPACE)) job = info[i].value.data.string;
    printf("%d %s\n", code, job);
    fflush(stdout);
    if (write(events[1], &code, sizeof code) != sizeof code) abort();
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, done_data);
}

static void listen_to(pmix_status_t codes[], size_t count)
{
    pmix_status_t status = PMIx_Register_event_handler(codes, count, NULL, 0, on_event, NULL, NULL);

    if (status < 0) check(status, "PMIx_Register_event_handler");
}

static void await(pmix_status_t wanted)
{
    pmix_status_t code;

    do {
        if (read(events[0], &code, sizeof code) != sizeof code) exit(1);
    } while (code != wanted);
}

int main(int argc, char **argv)
{
    pmix_status_t ready = PMIX_LAUNCHER_READY, of_job[2] = {PMIX_LAUNCH_COMPLETE, PMIX_EVENT_JOB_END};
    pmix_status_t status = PMIX_SUCCESS;
    pmix_proc_t me, target;
    pmix_value_t *address;
    pmix_info_t info[2], directive;
    pmix_data_array_t directives = {.type = PMIX_INFO, .size = 1, .array = &directive};
    pmix_envar_t word = {.envar = "WORD", .value = "hello", .separator = ':'};
    pmix_nspace_t launcher;
    pmix_app_t app;
    char variable[512];
    bool yes = true;

    if (argc < 2 || pipe(events) != 0) return 2;
    PMIX_INFO_LOAD(&info[0], PMIX_TOOL_DO_NOT_CONNECT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_LAUNCHER, &yes, PMIX_BOOL);
    check(PMIx_tool_init(&me, info, 2), "PMIx_tool_init");
    listen_to(&ready, 1);
    check(PMIx_Get(&me, PMIX_MYSERVER_URI, NULL, 0, &address), "PMIx_Get of the address");
    snprintf(variable, sizeof variable, "PMIX_LAUNCHER_RNDZ_URI=%s", address->data.string);
    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup(argv[1]);
    status = PMIX_SUCCESS;
    for (int i = 1; argv[i] && status == PMIX_SUCCESS; i++) PMIX_ARGV_APPEND(status, app.argv, argv[i]);
    check(status, "PMIX_ARGV_APPEND");
    PMIX_ARGV_APPEND(status, app.env, variable);
    app.maxprocs = 1;
    PMIX_INFO_LOAD(&directive, PMIX_SET_ENVAR, &word, PMIX_ENVAR);
    PMIX_INFO_REQUIRED(&directive);
    PMIX_INFO_LOAD(&info[0], PMIX_LAUNCH_DIRECTIVES, &directives, PMIX_DATA_ARRAY);
    PMIX_INFO_LOAD(&info[1], PMIX_FWD_STDOUT, &yes, PMIX_BOOL);
    check(PMIx_Spawn(info, 2, &app, 1, launcher), "PMIx_Spawn");
    printf("started %s\n", launcher);
    fflush(stdout);
    await(PMIX_LAUNCHER_READY);
    PMIX_INFO_LOAD(&info[0], PMIX_SERVER_NSPACE, launcher, PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_PRIMARY_SERVER, &yes, PMIX_BOOL);
    check(PMIx_tool_attach_to_server(NULL, NULL, info, 2), "PMIx_tool_attach_to_server");
    listen_to(of_job, 2);
    PMIX_LOAD_PROCID(&target, launcher, 0);
    PMIX_INFO_LOAD(&info[0], PMIX_EVENT_CUSTOM_RANGE, &target, PMIX_PROC);
    check(PMIx_Notify_event(PMIX_DEBUGGER_RELEASE, &me, PMIX_RANGE_CUSTOM, info, 1, NULL, NULL), "PMIx_Notify_event");
    await(PMIX_LAUNCH_COMPLETE);
    await(PMIX_EVENT_JOB_END);
    await(PMIX_EVENT_JOB_END); /* the launcher's own end */
    /* In 4.2.2 PMIx_tool_finalize may wait for ever for a primary server that ends in this moment. */
    _exit(0);
}
