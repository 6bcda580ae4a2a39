/* A debugger that starts a launcher. It needs not understand the launcher's command line.
 *
 *   cc indirect.c -o indirect -lpmix && cc debuggee.c -o debuggee -lpmix
 *   modex run -n 1 -- sleep 1000 &                        # a launcher that starts the other launcher
 *   ./indirect $! modex run -n 2 -- ./debuggee
 *
 * The number is that of the first launcher's process. With the number 0 the debugger starts the other launcher itself. The launcher
 * of the job waits until the debugger releases it, and then starts its job as the debugger directs: the processes wait in PMIx_Init.
 * debugger.c shows what debuggers do next.
 */
#include <pmix.h>
#include <pmix_tool.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An event of a job, on its way from the library's thread to the debugger's own. */
struct event {
    pmix_status_t code;
    pmix_nspace_t job;
};
static int events[2];

static void check(pmix_status_t status, const char *call)
{
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "%s: %s\n", call, PMIx_Error_string(status));
        exit(1);
    }
}

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

/* Registers for events of the primary server. OpenPMIx registers each code with one server only. */
static void listen_to(pmix_status_t codes[], size_t count)
{
    pmix_status_t status = PMIx_Register_event_handler(codes, count, NULL, 0, on_event, NULL, NULL);

    if (status < 0) check(status, "PMIx_Register_event_handler");
}

/* Waits for this event of a job, of any job if it has no name yet, and fails if the job ends before. */
static void await(pmix_nspace_t job, pmix_status_t code)
{
    struct event event;

    do {
        if (read(events[0], &event, sizeof event) != sizeof event) exit(1);
        if (job[0] && !PMIX_CHECK_NSPACE(event.job, job)) event.code = PMIX_SUCCESS;
    } while (event.code != code && event.code != PMIX_EVENT_PROC_TERMINATED && event.code != PMIX_EVENT_JOB_END);
    if (event.code != code) check(PMIX_ERR_JOB_TERMINATED, event.job);
    PMIX_LOAD_NSPACE(job, event.job);
}

/* Starts a launcher that waits, with directives for its job. */
static void start_launcher(char *words[], pmix_nspace_t launcher)
{
    pmix_app_t app;
    pmix_info_t info[3], directive;
    pmix_data_array_t directives = {.type = PMIX_INFO, .size = 1, .array = &directive};
    pmix_status_t status = PMIX_SUCCESS;
    bool yes = true;

    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup(words[0]);
    for (int i = 0; words[i] && status == PMIX_SUCCESS; i++) PMIX_ARGV_APPEND(status, app.argv, words[i]);
    check(status, "PMIX_ARGV_APPEND");
    app.maxprocs = 1;
    PMIX_INFO_LOAD(&directive, PMIX_DEBUG_STOP_IN_INIT, &yes, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&directive);
    PMIX_INFO_LOAD(&info[0], PMIX_SPAWN_TOOL, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_DEBUG_STOP_IN_INIT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[2], PMIX_LAUNCH_DIRECTIVES, &directives, PMIX_DATA_ARRAY);
    for (int i = 0; i < 3; i++) PMIX_INFO_REQUIRED(&info[i]);
    check(PMIx_Spawn(info, 3, &app, 1, launcher), "PMIx_Spawn");
    for (int i = 0; i < 3; i++) PMIX_INFO_DESTRUCT(&info[i]);
    PMIX_INFO_DESTRUCT(&directive);
    PMIX_APP_DESTRUCT(&app);
}

/* Makes the launcher the server of this tool. Its name is that of the spawned process. */
static void attach(const char *launcher)
{
    pmix_info_t info[2];
    bool yes = true;

    PMIX_INFO_LOAD(&info[0], PMIX_SERVER_NSPACE, launcher, PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_PRIMARY_SERVER, &yes, PMIX_BOOL);
    check(PMIx_tool_attach_to_server(NULL, NULL, info, 2), "PMIx_tool_attach_to_server");
    for (int i = 0; i < 2; i++) PMIX_INFO_DESTRUCT(&info[i]);
}

/* Processes that wait for a debugger wait for this event. */
static void release(const pmix_proc_t *me, const char *job, pmix_rank_t rank)
{
    pmix_proc_t target;
    pmix_info_t info;

    PMIX_LOAD_PROCID(&target, job, rank);
    PMIX_INFO_LOAD(&info, PMIX_EVENT_CUSTOM_RANGE, &target, PMIX_PROC);
    check(PMIx_Notify_event(PMIX_DEBUGGER_RELEASE, me, PMIX_RANGE_CUSTOM, &info, 1, NULL, NULL), "PMIx_Notify_event");
    PMIX_INFO_DESTRUCT(&info);
}

int main(int argc, char **argv)
{
    pmix_status_t of_launcher[2] = {PMIX_LAUNCHER_READY, PMIX_EVENT_PROC_TERMINATED};
    pmix_status_t of_job[3] = {PMIX_LAUNCH_COMPLETE, PMIX_READY_FOR_DEBUG, PMIX_EVENT_JOB_END};
    pmix_nspace_t launcher, job = "";
    pmix_proc_t me;
    pmix_info_t info[2];
    pid_t first = argc > 2 ? (pid_t)strtol(argv[1], NULL, 10) : -1;
    bool is_alone = first == 0;

    if (first < 0 || pipe(events) != 0) {
        fprintf(stderr, "usage: indirect LAUNCHER COMMAND...\n");
        return 1;
    }
    PMIX_INFO_LOAD(&info[0], PMIX_LAUNCHER, &is_alone, PMIX_BOOL);
    if (is_alone) PMIX_INFO_LOAD(&info[1], PMIX_TOOL_DO_NOT_CONNECT, &is_alone, PMIX_BOOL);
    else PMIX_INFO_LOAD(&info[1], PMIX_SERVER_PIDINFO, &first, PMIX_PID);
    check(PMIx_tool_init(&me, info, 2), "PMIx_tool_init");
    for (int i = 0; i < 2; i++) PMIX_INFO_DESTRUCT(&info[i]);
    listen_to(of_launcher, 2);
    start_launcher(argv + 2, launcher);
    await(launcher, PMIX_LAUNCHER_READY);
    printf("the launcher waits\n");
    attach(launcher);
    listen_to(of_job, 3);
    release(&me, launcher, 0);
    await(job, PMIX_LAUNCH_COMPLETE);
    await(job, PMIX_READY_FOR_DEBUG);
    printf("the job waits\n");
    fflush(stdout);
    release(&me, job, PMIX_RANK_WILDCARD);
    await(job, PMIX_EVENT_JOB_END);
    printf("the job has ended\n");
    check(PMIx_tool_finalize(), "PMIx_tool_finalize");
    return 0;
}
