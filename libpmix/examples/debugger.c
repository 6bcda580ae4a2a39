/* A small debugger: it starts a job that waits, or attaches to one that runs, and looks at the processes with daemons.
 *
 *   cc debugger.c -o debugger -lpmix && cc debuggee.c -o debuggee -lpmix
 *   modex run -n 2 -- sleep 1000 &                   # a launcher, and a job to attach to
 *   ./debugger $! launch exec 2 ./debuggee           # before the first instruction
 *   ./debugger $! launch init 2 ./debuggee           # in PMIx_Init
 *   ./debugger $! launch app 2 ./debuggee            # where the program wants it
 *   ./debugger $! attach modex-$!                    # pauses the job, looks at it, lets it go on
 *   ./debugger $! kill modex-$!
 *
 * The number is that of the launcher's process. A real debugger stops and reads the processes with ptrace. The daemons of this
 * one read their state from /proc.
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
    char place[32];
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
    for (size_t i = 0; i < ninfo; i++) {
        if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC)) PMIX_LOAD_NSPACE(event.job, info[i].value.data.proc->nspace);
        if (PMIX_CHECK_KEY(&info[i], PMIX_BREAKPOINT)) snprintf(event.place, sizeof event.place, "%s", info[i].value.data.string);
    }
    if (write(events[1], &event, sizeof event) != sizeof event) abort();
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, done_data);
}

/* Waits for this event of the job, and fails if the job ends before. */
static struct event await(const char *job, pmix_status_t code)
{
    struct event event;

    do {
        if (read(events[0], &event, sizeof event) != sizeof event) exit(1);
        if (!PMIX_CHECK_NSPACE(event.job, job)) event.code = PMIX_SUCCESS;
    } while (event.code != code && event.code != PMIX_EVENT_JOB_END);
    if (event.code != code) check(PMIX_ERR_JOB_TERMINATED, job);
    return event;
}

/* The table of a job's processes: of all nodes for the debugger, and of its own node for a daemon. */
static pmix_info_t *table_of(const char *key, const char *job, pmix_proc_info_t **rows, size_t *count)
{
    pmix_query_t query;
    pmix_info_t *results = NULL;
    pmix_status_t status;
    size_t nresults = 0;

    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, key);
    check(status, "PMIX_ARGV_APPEND");
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
    PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, job, PMIX_STRING);
    check(PMIx_Query_info(&query, 1, &results, &nresults), key);
    PMIX_QUERY_DESTRUCT(&query);
    if (nresults != 1 || results[0].value.type != PMIX_DATA_ARRAY) check(PMIX_ERR_TYPE_MISMATCH, key);
    *rows = results[0].value.data.darray->array;
    *count = results[0].value.data.darray->size;
    return results;
}

static void show_processes(const char *job)
{
    pmix_proc_info_t *rows;
    size_t count;
    pmix_info_t *table = table_of(PMIX_QUERY_PROC_TABLE, job, &rows, &count);

    for (size_t i = 0; i < count; i++) printf("rank %u is process %d\n", rows[i].proc.rank, (int)rows[i].pid);
    fflush(stdout);
    PMIX_INFO_FREE(table, 1);
}

/* A daemon. It takes every n-th process of its node, if n daemons of the debugger are there. */
static int look(void)
{
    pmix_proc_t me, job;
    pmix_value_t *target, *size;
    pmix_proc_info_t *rows;
    pmix_info_t *table;
    size_t count;
    char path[64], name[64], state;
    FILE *stat;

    check(PMIx_tool_init(&me, NULL, 0), "PMIx_tool_init of a daemon");
    PMIX_LOAD_PROCID(&job, me.nspace, PMIX_RANK_WILDCARD);
    check(PMIx_Get(&job, PMIX_DEBUG_TARGET, NULL, 0, &target), "PMIx_Get of the target");
    check(PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &size), "PMIx_Get of the number of daemons");
    table = table_of(PMIX_QUERY_LOCAL_PROC_TABLE, target->data.proc->nspace, &rows, &count);
    for (size_t i = me.rank; i < count; i += size->data.uint32) {
        snprintf(path, sizeof path, "/proc/%d/stat", (int)rows[i].pid);
        stat = fopen(path, "r");
        if (!stat || fscanf(stat, "%*d (%63[^)]) %c", name, &state) != 2) state = '?', name[0] = 0;
        if (stat) fclose(stat);
        printf("daemon %u sees rank %u: %s, %s\n", me.rank, rows[i].proc.rank, name, state == 'T' ? "stopped" : "not stopped");
    }
    fflush(stdout);
    PMIX_INFO_FREE(table, 1);
    PMIX_VALUE_RELEASE(target);
    PMIX_VALUE_RELEASE(size);
    check(PMIx_tool_finalize(), "PMIx_tool_finalize of a daemon");
    return 0;
}

static void load_app(pmix_app_t *app, const char *program, const char *argument, int count)
{
    pmix_status_t status;

    PMIX_APP_CONSTRUCT(app);
    app->cmd = strdup(program);
    PMIX_ARGV_APPEND(status, app->argv, program);
    if (argument) PMIX_ARGV_APPEND(status, app->argv, argument);
    check(status, "PMIX_ARGV_APPEND");
    app->maxprocs = count;
}

/* Starts daemons beside the processes of a job and waits for their end. `number` says how many of them. */
static void start_daemons(const char *program, const char *job, const char *number)
{
    pmix_app_t app;
    pmix_info_t info[3];
    pmix_proc_t target;
    pmix_nspace_t daemons;
    uint16_t one = 1;
    bool yes = true;

    load_app(&app, program, "daemon", 0);
    PMIX_LOAD_PROCID(&target, job, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&info[0], PMIX_DEBUGGER_DAEMONS, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_DEBUG_TARGET, &target, PMIX_PROC);
    PMIX_INFO_LOAD(&info[2], number, &one, PMIX_UINT16);
    for (int i = 0; i < 3; i++) PMIX_INFO_REQUIRED(&info[i]);
    check(PMIx_Spawn(info, 3, &app, 1, daemons), "PMIx_Spawn of daemons");
    await(daemons, PMIX_EVENT_JOB_END);
    for (int i = 0; i < 3; i++) PMIX_INFO_DESTRUCT(&info[i]);
    PMIX_APP_DESTRUCT(&app);
}

/* PMIX_JOB_CTRL_PAUSE, PMIX_JOB_CTRL_RESUME or PMIX_JOB_CTRL_KILL for all processes of a job. */
static void control(const char *job, const char *directive)
{
    pmix_proc_t all;
    pmix_info_t info, *results = NULL;
    size_t count = 0;
    bool yes = true;

    PMIX_LOAD_PROCID(&all, job, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&info, directive, &yes, PMIX_BOOL);
    check(PMIx_Job_control(&all, 1, &info, 1, &results, &count), directive);
    PMIX_INFO_FREE(results, count);
    PMIX_INFO_DESTRUCT(&info);
}

/* A process that waits in PMIx_Init or in its own code waits for this event. */
static void release(const pmix_proc_t *me, const char *job)
{
    pmix_proc_t all;
    pmix_info_t info;

    PMIX_LOAD_PROCID(&all, job, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&info, PMIX_EVENT_CUSTOM_RANGE, &all, PMIX_PROC);
    check(PMIx_Notify_event(PMIX_DEBUGGER_RELEASE, me, PMIX_RANGE_CUSTOM, &info, 1, NULL, NULL), "PMIx_Notify_event");
    PMIX_INFO_DESTRUCT(&info);
}

static void launch(const pmix_proc_t *me, char **argv)
{
    bool yes = true, is_exec = strcmp(argv[3], "exec") == 0;
    const char *stop = is_exec                           ? PMIX_DEBUG_STOP_ON_EXEC
                       : strcmp(argv[3], "init") == 0    ? PMIX_DEBUG_STOP_IN_INIT
                                                         : PMIX_DEBUG_STOP_IN_APP;
    pmix_app_t app;
    pmix_info_t info;
    pmix_nspace_t job;

    load_app(&app, argv[5], NULL, (int)strtol(argv[4], NULL, 10));
    PMIX_INFO_LOAD(&info, stop, &yes, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&info); /* A launcher that can't stop the job must not start it. */
    check(PMIx_Spawn(&info, 1, &app, 1, job), "PMIx_Spawn");
    PMIX_INFO_DESTRUCT(&info);
    PMIX_APP_DESTRUCT(&app);
    printf("the job waits at %s\n", await(job, PMIX_READY_FOR_DEBUG).place);
    show_processes(job);
    start_daemons(argv[0], job, PMIX_DEBUG_DAEMONS_PER_PROC);
    printf("released\n");
    fflush(stdout);
    if (is_exec) control(job, PMIX_JOB_CTRL_RESUME);
    else release(me, job);
    await(job, PMIX_EVENT_JOB_END);
    printf("the job has ended\n");
}

static void attach(const char *program, const char *job)
{
    show_processes(job);
    control(job, PMIX_JOB_CTRL_PAUSE);
    start_daemons(program, job, PMIX_DEBUG_DAEMONS_PER_NODE);
    control(job, PMIX_JOB_CTRL_RESUME);
    printf("detached\n");
}

int main(int argc, char **argv)
{
    pmix_status_t status, codes[2] = {PMIX_READY_FOR_DEBUG, PMIX_EVENT_JOB_END};
    pmix_proc_t me;
    pmix_info_t info;
    pid_t launcher = argc > 1 ? (pid_t)strtol(argv[1], NULL, 10) : 0;
    const char *command = argc > 2 ? argv[2] : "";

    if (argc == 2 && strcmp(argv[1], "daemon") == 0) return look();
    bool is_launch = argc == 6 && strcmp(command, "launch") == 0;
    if (launcher <= 0 || !(is_launch || (argc == 4 && (strcmp(command, "attach") == 0 || strcmp(command, "kill") == 0)))) {
        fprintf(stderr, "usage: debugger LAUNCHER launch exec|init|app COUNT PROGRAM | attach JOB | kill JOB\n");
        return 1;
    }
    if (pipe(events) != 0) return 1;
    PMIX_INFO_LOAD(&info, PMIX_SERVER_PIDINFO, &launcher, PMIX_PID);
    check(PMIx_tool_init(&me, &info, 1), "PMIx_tool_init");
    PMIX_INFO_DESTRUCT(&info);
    /* Before the job exists: its events may come before PMIx_Spawn has told its name. */
    status = PMIx_Register_event_handler(codes, 2, NULL, 0, on_event, NULL, NULL);
    if (status < 0) check(status, "PMIx_Register_event_handler");
    if (is_launch) launch(&me, argv);
    else if (strcmp(command, "attach") == 0) attach(argv[0], argv[3]);
    else control(argv[3], PMIX_JOB_CTRL_KILL);
    check(PMIx_tool_finalize(), "PMIx_tool_finalize");
    return 0;
}
