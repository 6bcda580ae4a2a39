/* A launcher without a server starts processes itself. The children are shells, and this program again. */
#include "host.h"

#include <fcntl.h>

static atomic_int processes_over, jobs_over, job_code, held;
static char last_job[PMIX_MAX_NSLEN + 1];

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                 pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    const pmix_info_t *code = info_of(info, ninfo, PMIX_EXIT_CODE);

    (void)id, (void)source, (void)results, (void)nresults;
    if (status == PMIX_EVENT_JOB_END) {
        CHECK_UNLESS_STOCK("tells no exit status", code && code->value.type == PMIX_INT);
        if (code) atomic_store(&job_code, code->value.data.integer);
        atomic_fetch_add(&jobs_over, 1);
    } else {
        atomic_fetch_add(status == PMIX_EVENT_PROC_TERMINATED ? &processes_over : &held, 1);
    }
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void set_app(pmix_app_t *app, const char *program, const char *option, const char *text)
{
    pmix_status_t status = PMIX_SUCCESS;

    PMIX_APP_CONSTRUCT(app);
    app->cmd = strdup(program);
    PMIX_ARGV_APPEND(status, app->argv, program);
    if (option) PMIX_ARGV_APPEND(status, app->argv, option);
    if (text) PMIX_ARGV_APPEND(status, app->argv, text);
    CHECK_STATUS(PMIX_SUCCESS, status);
    app->maxprocs = 1;
}

static pmix_status_t spawn(pmix_info_t info[], size_t ninfo, int count, const char *script)
{
    pmix_app_t app;

    set_app(&app, "sh", "-c", script);
    app.maxprocs = count;
    pmix_status_t status = PMIx_Spawn(info, ninfo, &app, 1, last_job);
    PMIX_APP_DESTRUCT(&app);
    return status;
}

static void await(atomic_int *count, int wanted)
{
    while (atomic_load(count) < wanted) usleep(1000);
}

static void ends(void)
{
    char job[PMIX_MAX_NSLEN + 16];

    CHECK_STATUS(PMIX_SUCCESS, spawn(NULL, 0, 2, "test \"$PMIX_SERVER_NSPACE.$PMIX_SERVER_RANK\" = \"$PMIX_NAMESPACE.$PMIX_RANK\""
                                                 " && test -e \"/proc/self/fd/$PMIX_KEEPALIVE_PIPE\" && exit 3"));
    snprintf(job, sizeof job, "%s:1", me.nspace);
    CHECK_TEXT(job, last_job);
    await(&jobs_over, 1);
    if (stock()) return;
    CHECK_NUMBER(3, atomic_load(&job_code));
    CHECK_NUMBER(2, atomic_load(&processes_over));
}

static pmix_info_t change(const char *key, const char *name, const char *value)
{
    pmix_envar_t envar = {.envar = (char *)name, .value = (char *)value, .separator = ':'};
    pmix_info_t info;

    PMIX_INFO_LOAD(&info, key, &envar, PMIX_ENVAR);
    PMIX_INFO_REQUIRED(&info);
    return info;
}

/* Reads what the job writes through this process. */
static void output(void)
{
    pmix_info_t info[7] = {change(PMIX_SET_ENVAR, "SAID", "good"), change(PMIX_APPEND_ENVAR, "SAID", "bye")};
    int ends[2], out = dup(1);
    bool yes = true, no = false;
    char said[400] = "", expected[400];
    size_t length = 0;
    ssize_t got;

    PMIX_INFO_LOAD(&info[2], PMIX_UNSET_ENVAR, "HOME", PMIX_STRING);
    PMIX_INFO_LOAD(&info[3], PMIX_WDIR, host_directory, PMIX_STRING);
    PMIX_INFO_LOAD(&info[4], PMIX_IOF_TAG_OUTPUT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[5], PMIX_FWD_STDERR, &no, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[6], PMIX_FORKEXEC_AGENT, "env AGENT=agent", PMIX_STRING);
    for (int i = 2; i < 7; i++) PMIX_INFO_REQUIRED(&info[i]);
    if (pipe(ends) != 0) exit(2);
    fflush(stdout);
    dup2(ends[1], 1);
    pmix_status_t status = spawn(info, 7, 1, "echo hidden >&2; echo \"$SAID $HOME$AGENT $(pwd)\"");
    snprintf(expected, sizeof expected, "[%s,0]<stdout>: good:bye agent %s\n", last_job, host_directory);
    while (status == PMIX_SUCCESS && !strchr(said, '\n') &&
           (got = read(ends[0], said + length, sizeof said - 1 - length)) > 0)
        length += (size_t)got;
    dup2(out, 1);
    close(out);
    close(ends[0]);
    close(ends[1]);
    CHECK_STATUS(PMIX_SUCCESS, status);
    CHECK_TEXT(expected, said);
    await(&jobs_over, 2);
    CHECK_NUMBER(0, atomic_load(&job_code));
    for (int i = 0; i < 7; i++) PMIX_INFO_DESTRUCT(&info[i]);
}

static void spawned(pmix_status_t status, char *job, void *data)
{
    if (status == PMIX_SUCCESS) PMIX_LOAD_NSPACE(last_job, job);
    done_with(data, status, 0);
}

/* The library reads standard input and writes it to the children, which read its end, too. */
static void input(void)
{
    pmix_info_t push;
    pmix_proc_t all;
    int ends[2], in = dup(0), before = atomic_load(&jobs_over);
    const char *said = "hello\nmore\n";

    if (pipe(ends) != 0) exit(2);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    dup2(ends[0], 0);
    close(ends[0]);
    CHECK_STATUS(PMIX_SUCCESS, spawn(NULL, 0, 2, "test \"$(cat)\" = \"$(printf 'hello\\nmore')\" && exit 7"));
    all = proc_of(last_job, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&push, PMIX_IOF_PUSH_STDIN, NULL, PMIX_BOOL);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_IOF_push(&all, 1, NULL, &push, 1, NULL, NULL));
    PMIX_INFO_DESTRUCT(&push);
    if (write(ends[1], said, strlen(said)) != (ssize_t)strlen(said)) exit(2);
    close(ends[1]);
    await(&jobs_over, before + 1);
    CHECK_NUMBER(7, atomic_load(&job_code));
    dup2(in, 0);
    close(in);
}

/* The child waits in PMIx_Init for its release. */
static void held_child(void)
{
    const char *program = getenv("CAPI_PROGRAM");
    struct done done = DONE;
    pmix_info_t info, target;
    pmix_app_t app;
    pmix_proc_t proc;
    bool yes = true;

    set_app(&app, program, "child", NULL);
    PMIX_INFO_LOAD(&info, PMIX_DEBUG_STOP_IN_INIT, &yes, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&info);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Spawn_nb(&info, 1, &app, 1, spawned, &done));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&done));
    await(&held, 1);
    CHECK_NUMBER(2, atomic_load(&jobs_over));
    PMIX_LOAD_PROCID(&proc, last_job, 0);
    PMIX_INFO_LOAD(&target, PMIX_EVENT_CUSTOM_RANGE, &proc, PMIX_PROC);
    CHECK_STATUS(PMIX_SUCCESS,
                 PMIx_Notify_event(-3 /* PMIX_DEBUGGER_RELEASE */, &me, PMIX_RANGE_CUSTOM, &target, 1, NULL, NULL));
    await(&jobs_over, 3);
    CHECK_NUMBER(0, atomic_load(&job_code));
    PMIX_INFO_DESTRUCT(&target);
    PMIX_INFO_DESTRUCT(&info);
    PMIX_APP_DESTRUCT(&app);
}

static int child(void)
{
    pmix_proc_t job;
    pmix_value_t *parent = NULL;

    client_start();
    job = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(&job, PMIX_PARENT_ID, NULL, 0, &parent));
    CHECK(parent && strncmp(me.nspace, parent->data.proc->nspace, strlen(parent->data.proc->nspace)) == 0);
    PMIX_VALUE_RELEASE(parent);
    return client_end();
}

static void refused(void)
{
    pmix_info_t info[2];
    pmix_app_t app;
    bool yes = true;

    PMIX_INFO_LOAD(&info[0], PMIX_PREFIX, &yes, PMIX_BOOL);
    CHECK_STATUS(PMIX_SUCCESS, spawn(info, 1, 1, ":"));
    await(&jobs_over, 4);
    PMIX_INFO_REQUIRED(&info[0]);
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, spawn(info, 1, 1, ":"));
    /* The output of a process that stays does not pass through the tool. */
    PMIX_INFO_LOAD(&info[0], PMIX_NOHUP, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_IOF_TAG_OUTPUT, &yes, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&info[1]);
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, spawn(info, 2, 1, ":"));
    for (int i = 0; i < 2; i++) PMIX_INFO_DESTRUCT(&info[i]);
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, spawn(NULL, 0, 0, ":"));
    CHECK_STATUS(-234 /* PMIX_ERR_JOB_INSUFFICIENT_RESOURCES */, spawn(NULL, 0, 1000000, ":"));
    /* A directive of jobs: the job has it, not one of its applications. */
    set_app(&app, "sh", NULL, NULL);
    app.ninfo = 1;
    PMIX_INFO_CREATE(app.info, 1);
    PMIX_INFO_LOAD(&app.info[0], PMIX_NOHUP, &yes, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&app.info[0]);
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, PMIx_Spawn(NULL, 0, &app, 1, last_job));
    PMIX_APP_DESTRUCT(&app);
    set_app(&app, "sh", NULL, NULL);
    app.cwd = strdup("/no/such/directory");
    CHECK_STATUS(-233 /* PMIX_ERR_JOB_WDIR_NOT_FOUND */, PMIx_Spawn(NULL, 0, &app, 1, last_job));
    PMIX_APP_DESTRUCT(&app);
}

/* The process that has written its number to the pipe. */
static pid_t number_from(int file)
{
    char text[32] = "";
    for (size_t length = 0; !strchr(text, '\n') && length < sizeof text - 1; length++)
        if (read(file, text + length, 1) != 1) exit(2);
    return (pid_t)strtol(text, NULL, 10);
}

/* The tool ends its processes, but for those that are to stay. Nobody is left unreaped. */
static void end_of_tool(void)
{
    char path[64], script[256];
    pmix_info_t stays;
    bool yes = true;

    snprintf(path, sizeof path, "%s/numbers", host_directory);
    CHECK_NUMBER(0, mkfifo(path, 0600));
    int numbers = open(path, O_RDWR);
    snprintf(script, sizeof script, "echo $$ > %s; exec sleep 1000", path);
    CHECK_STATUS(PMIX_SUCCESS, spawn(NULL, 0, 1, script));
    pid_t ended = number_from(numbers);
    PMIX_INFO_LOAD(&stays, PMIX_NOHUP, &yes, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&stays);
    CHECK_STATUS(PMIX_SUCCESS, spawn(&stays, 1, 1, script));
    PMIX_INFO_DESTRUCT(&stays);
    pid_t staying = number_from(numbers);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_finalize());
    CHECK_NUMBER(5, atomic_load(&jobs_over));
    CHECK(kill(ended, 0) != 0);
    CHECK_NUMBER(0, kill(staying, SIGTERM));
    while (kill(staying, 0) == 0) usleep(1000);
    CHECK(waitpid(-1, NULL, WNOHANG) == -1);
    close(numbers);
    unlink(path);
}

static int tool(void)
{
    pmix_status_t codes[3] = {PMIX_EVENT_JOB_END, PMIX_EVENT_PROC_TERMINATED, -58 /* PMIX_READY_FOR_DEBUG */};
    pmix_info_t info[4];
    bool yes = true;

    if (!mkdtemp(host_directory)) exit(2);
    PMIX_INFO_LOAD(&info[0], PMIX_TOOL_DO_NOT_CONNECT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_LAUNCHER, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[2], PMIX_SERVER_TMPDIR, host_directory, PMIX_STRING);
    PMIX_INFO_LOAD(&info[3], PMIX_SYSTEM_TMPDIR, host_directory, PMIX_STRING);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_init(&me, info, 4));
    for (int i = 0; i < 4; i++) PMIX_INFO_DESTRUCT(&info[i]);
    CHECK(PMIx_Register_event_handler(codes, 3, NULL, 0, on_event, NULL, NULL) >= 0);
    ends();
    if (stock()) { /* 4.2.2 tells no status, ignores directives, and does not end what it has started */
        CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_finalize());
        return finish();
    }
    output();
    held_child();
    refused();
    input();
    end_of_tool();
    host_over();
    return finish();
}

int main(int argc, char **argv) { return argc > 1 && strcmp(argv[1], "child") == 0 ? child() : tool(); }
