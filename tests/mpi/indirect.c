/* A debugger that starts a launcher of PRRTE, which waits for the debugger. The processes of the job wait, too.
 * usage: indirect init|app|exec release|detach|kill|terminate LAUNCHER... */
#include <signal.h>

#include <pmix_tool.h>

#include "../interop/debugger.h"

/* An event of a job, on its way from the library's thread. */
struct event {
    pmix_status_t code;
    pmix_nspace_t job;
};

static void on_event(size_t handler, pmix_status_t code, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *done_data)
{
    struct event event = {.code = code};

    (void)handler, (void)source, (void)results, (void)nresults;
    for (size_t i = 0; i < ninfo; i++)
        if (PMIX_CHECK_KEY(&info[i], PMIX_NSPACE)) PMIX_LOAD_NSPACE(event.job, info[i].value.data.string);
    if (write(events[1], &event, sizeof event) != sizeof event) abort();
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, done_data);
}

/* False if the launcher ended without a word about the job's end. A launcher of OpenPMIx may drop its last events. */
static bool await(pmix_nspace_t job, pmix_status_t wanted)
{
    struct event event;

    do {
        if (read(events[0], &event, sizeof event) != sizeof event) _exit(1);
        if (event.code == PMIX_ERR_LOST_CONNECTION && wanted == PMIX_EVENT_JOB_END) return false;
        if (event.code == PMIX_ERR_LOST_CONNECTION) check(event.code, "the launcher's end");
    } while (event.code != wanted || !PMIX_CHECK_NSPACE(event.job, job));
    PMIX_LOAD_NSPACE(job, event.job);
    return true;
}

static void release(const pmix_proc_t *me, const char *job, pmix_rank_t rank)
{
    pmix_proc_t target;
    pmix_info_t info[2];
    bool yes = true;

    PMIX_LOAD_PROCID(&target, job, rank);
    PMIX_INFO_LOAD(&info[0], PMIX_EVENT_CUSTOM_RANGE, &target, PMIX_PROC);
    PMIX_INFO_LOAD(&info[1], PMIX_EVENT_NON_DEFAULT, &yes, PMIX_BOOL);
    check(PMIx_Notify_event(PMIX_DEBUGGER_RELEASE, me, PMIX_RANGE_CUSTOM, info, 2, NULL, NULL), "PMIx_Notify_event");
}

/* Without a job it is for the launcher. */
static void control(const char *job, const char *directive, const void *value, pmix_data_type_t type)
{
    pmix_proc_t all;
    pmix_info_t info, *results = NULL;
    size_t count = 0;

    if (job) PMIX_LOAD_PROCID(&all, job, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&info, directive, value, type);
    check(PMIx_Job_control(job ? &all : NULL, job ? 1 : 0, &info, 1, &results, &count), directive);
    PMIX_INFO_FREE(results, count);
}

/* Starts the launcher with directives for its job. A launcher without hangup stays when the debugger has left. */
static void start(const char *stop, bool no_hangup, char *words[], pmix_nspace_t launcher)
{
    pmix_status_t status = PMIX_SUCCESS;
    pmix_app_t app;
    pmix_info_t info[4], directives[3];
    pmix_data_array_t array = {.type = PMIX_INFO, .size = 3, .array = directives};
    bool yes = true;

    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup(words[0]);
    for (int i = 0; words[i] && status == PMIX_SUCCESS; i++) PMIX_ARGV_APPEND(status, app.argv, words[i]);
    check(status, "PMIX_ARGV_APPEND");
    app.maxprocs = 1;
    PMIX_INFO_LOAD(&directives[0], stop, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&directives[1], PMIX_NOTIFY_JOB_EVENTS, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&directives[2], PMIX_FWD_STDOUT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[0], PMIX_SPAWN_TOOL, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_DEBUG_STOP_IN_INIT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[2], PMIX_LAUNCH_DIRECTIVES, &array, PMIX_DATA_ARRAY);
    PMIX_INFO_LOAD(&info[3], PMIX_NOHUP, &no_hangup, PMIX_BOOL);
    check(PMIx_Spawn(info, 4, &app, 1, launcher), "PMIx_Spawn");
}

int main(int argc, char **argv)
{
    pmix_status_t codes[3] = {PMIX_READY_FOR_DEBUG, PMIX_EVENT_JOB_END, PMIX_ERR_LOST_CONNECTION};
    pmix_proc_t me, launcher = {.rank = 0};
    pmix_nspace_t job = "";
    pmix_info_t info[3];
    bool yes = true;
    int limit = 60, go_on = SIGCONT, status;

    if (argc < 4 || pipe(events) != 0) return 2;
    bool is_exec = strcmp(argv[1], "exec") == 0, is_detached = strcmp(argv[2], "detach") == 0;
    const char *stop = is_exec                        ? PMIX_DEBUG_STOP_ON_EXEC
                       : strcmp(argv[1], "app") == 0 ? PMIX_DEBUG_STOP_IN_APP
                                                      : PMIX_DEBUG_STOP_IN_INIT;
    PMIX_INFO_LOAD(&info[0], PMIX_TOOL_DO_NOT_CONNECT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_LAUNCHER, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[2], PMIX_IOF_LOCAL_OUTPUT, &yes, PMIX_BOOL);
    check(PMIx_tool_init(&me, info, 3), "PMIx_tool_init");
    start(stop, is_detached, argv + 3, launcher.nspace);
    PMIX_INFO_LOAD(&info[0], PMIX_WAIT_FOR_CONNECTION, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &limit, PMIX_INT);
    check(PMIx_tool_set_server(&launcher, info, 2), "PMIx_tool_set_server");
    status = PMIx_Register_event_handler(codes, 3, NULL, 0, on_event, NULL, NULL);
    if (status < 0) check(status, "PMIx_Register_event_handler");
    printf("the launcher waits\n");
    fflush(stdout);
    release(&me, launcher.nspace, 0);
    await(job, PMIX_READY_FOR_DEBUG);
    printf("the job waits\n");
    fflush(stdout);
    if (strcmp(argv[2], "kill") == 0) control(job, PMIX_JOB_CTRL_KILL, &yes, PMIX_BOOL);
    else if (strcmp(argv[2], "terminate") == 0) control(NULL, PMIX_JOB_CTRL_TERMINATE, &yes, PMIX_BOOL);
    else if (is_exec) control(job, PMIX_JOB_CTRL_SIGNAL, &go_on, PMIX_INT);
    else release(&me, job, PMIX_RANK_WILDCARD);
    if (!is_detached) printf("%s has ended\n", await(job, PMIX_EVENT_JOB_END) ? "the job" : "the launcher");
    check(PMIx_tool_finalize(), "PMIx_tool_finalize");
    if (is_detached) printf("detached\n");
    return 0;
}
