/* A tool that is a server: it gets a host's functions after its start, starts processes of its own, and other tools
 * find it. It starts a launcher that attaches back, and spawns through it. */
#include "host.h"

typedef pmix_status_t set_module_fn(pmix_server_module_t *module);

static atomic_int spawned, published, over, ready;

static void give_spawn(struct answer *answer)
{
    if (answer->count) { /* output before any process could request it */
        pmix_proc_t source = proc_of(answer->payload, 0);
        pmix_byte_object_t text = {.bytes = "hello\n", .size = 6};
        struct done delivered = DONE;
        pmix_status_t status =
            PMIx_server_IOF_deliver(&source, PMIX_FWD_STDOUT_CHANNEL, &text, NULL, 0, op_done, &delivered);
        CHECK_STATUS(PMIX_SUCCESS, done_result(&delivered, status));
    }
    answer->call.spawn(answer->status, answer->payload, answer->data);
}

static pmix_status_t up_pull(const pmix_proc_t procs[], size_t n, const pmix_info_t info[], size_t ninfo,
                             pmix_iof_channel_t channels, pmix_op_cbfunc_t callback, void *data)
{
    (void)info, (void)ninfo;
    if (n != 1 || strcmp(procs[0].nspace, "job-of-launcher")) return PMIX_ERR_NOT_FOUND;
    CHECK_NUMBER(PMIX_FWD_STDOUT_CHANNEL, channels & PMIX_FWD_STDOUT_CHANNEL);
    return answer_op(callback, data, PMIX_SUCCESS);
}

static pmix_status_t up_spawn(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo, const pmix_app_t apps[],
                              size_t napps, pmix_spawn_cbfunc_t callback, void *data)
{
    (void)proc;
    CHECK(napps == 1 && strcmp(apps[0].cmd, "program") == 0);
    atomic_fetch_add(&spawned, 1);
    struct answer *answer = answer_new(give_spawn, data, PMIX_SUCCESS);
    answer->call.spawn = callback;
    answer->payload = getenv("LAUNCHER") ? "job-of-launcher" : "job-of-tool";
    answer->count = info_of(info, ninfo, PMIX_FWD_STDOUT) != NULL;
    answer_later(answer);
    return PMIX_SUCCESS;
}

static pmix_status_t up_publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t n, pmix_op_cbfunc_t callback,
                                void *data)
{
    (void)proc, (void)info, (void)n;
    atomic_fetch_add(&published, 1);
    return answer_op(callback, data, PMIX_SUCCESS);
}

static pmix_status_t up_notify(pmix_status_t code, const pmix_proc_t *source, pmix_data_range_t range,
                               pmix_info_t info[], size_t n, pmix_op_cbfunc_t callback, void *data)
{
    (void)range;
    const pmix_info_t *where = info_of(info, n, "pmix.brkpnt");
    CHECK_STATUS(-58, code); /* PMIX_READY_FOR_DEBUG */
    CHECK_TEXT("held", source->nspace);
    CHECK(where && where->value.type == PMIX_STRING && strcmp(where->value.data.string, "pmix-init") == 0);
    atomic_fetch_add(&ready, 1);
    return answer_op(callback, data, PMIX_SUCCESS);
}

static pmix_server_module_t module = {.publish = up_publish, .spawn = up_spawn, .iof_pull = up_pull, .notify_event = up_notify};

static set_module_fn *set_module(void)
{
    set_module_fn *found;
    *(void **)&found = dlsym(RTLD_DEFAULT, "PMIx_tool_set_server_module");
    return found;
}

static void become_launcher(const char *name, const char *directory, const char *file, bool alone)
{
    pmix_info_t info[8];
    size_t count = 0;
    bool yes = true;

    memset(info, 0, sizeof info);
    PMIX_INFO_LOAD(&info[count++], PMIX_TOOL_NSPACE, name, PMIX_STRING);
    PMIX_INFO_LOAD(&info[count++], PMIX_LAUNCHER, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[count++], PMIX_SERVER_TMPDIR, directory, PMIX_STRING);
    PMIX_INFO_LOAD(&info[count++], PMIX_SYSTEM_TMPDIR, directory, PMIX_STRING);
    if (alone) PMIX_INFO_LOAD(&info[count++], PMIX_TOOL_DO_NOT_CONNECT, &yes, PMIX_BOOL);
    if (file) PMIX_INFO_LOAD(&info[count++], PMIX_LAUNCHER_RENDEZVOUS_FILE, file, PMIX_STRING);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_init(&me, info, count));
    for (size_t i = 0; i < count; i++) PMIX_INFO_DESTRUCT(&info[i]);
    CHECK_TEXT(name, me.nspace);
    CHECK_NUMBER(0, me.rank);
    answers_over = false;
    pthread_create(&answers_thread, NULL, answers_run, NULL);
}

static void check_spawn(const char *expected)
{
    pmix_app_t app;
    pmix_nspace_t job = "";

    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup("program");
    app.maxprocs = 1;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Spawn(NULL, 0, &app, 1, job));
    CHECK_TEXT(expected, job);
    PMIX_APP_DESTRUCT(&app);
}

/* A process of the tool's job. */
static int rank_of_tool(void)
{
    pmix_info_t info;

    client_start();
    CHECK_STATUS(PMIX_SUCCESS, put_text(PMIX_GLOBAL, "key", "value"));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Commit());
    fence_all(true);
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, me.rank == 0 ? "zero" : "one", "text", PMIX_STRING);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Publish(&info, 1));
    PMIX_INFO_DESTRUCT(&info);
    return client_end();
}

static void on_job_end(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                        pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void)id, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    CHECK_STATUS(PMIX_EVENT_JOB_END, status);
    atomic_store(&over, 1);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

/* The launcher that the tool starts; it is a server as well. It ends with the tool. */
static int launcher_of_tool(const char *directory)
{
    pmix_status_t end = PMIX_EVENT_JOB_END;
    pmix_proc_t *servers = NULL;
    size_t count = 0;

    become_launcher("il", directory, NULL, false);
    CHECK(getenv("PMIX_LAUNCHER_RNDZ_URI") == NULL && getenv("PMIX_KEEPALIVE_PIPE") == NULL);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_get_servers(&servers, &count));
    CHECK_NUMBER(1, count);
    if (count > 0) CHECK_TEXT("tool", servers[0].nspace);
    PMIX_PROC_FREE(servers, count);
    CHECK(PMIx_Register_event_handler(&end, 1, NULL, 0, on_job_end, NULL, NULL) >= 0);
    CHECK_STATUS(PMIX_SUCCESS, set_module()(&module));
    while (!atomic_load(&over)) usleep(1000);
    CHECK_NUMBER(1, atomic_load(&spawned));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_finalize());
    host_silent();
    return finish();
}

static pid_t start_launcher(const char *file, int pipe[2])
{
    char line[512] = "", number[16], self[4096];
    FILE *contact = fopen(file, "r");
    const char *program = getenv("CAPI_PROGRAM");

    if (!contact || !fgets(line, sizeof line, contact)) exit(2);
    fclose(contact);
    line[strcspn(line, "\n")] = 0;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = 0;
    snprintf(number, sizeof number, "%d", pipe[0]);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        close(pipe[1]);
        setenv("PMIX_LAUNCHER_RNDZ_URI", line, 1);
        setenv("PMIX_KEEPALIVE_PIPE", number, 1);
        setenv("LAUNCHER", host_directory, 1);
        execl(program ? program : self, program ? program : self, "launcher", NULL);
        _exit(127);
    }
    close(pipe[0]);
    return pid;
}

static void through_a_launcher(const char *file)
{
    pmix_proc_t il = proc_of("il", 0), own = me;
    pmix_info_t info[2];
    int ends[2], seconds = 60;
    bool yes = true;

    if (pipe(ends) != 0) exit(2);
    pid_t pid = start_launcher(file, ends);
    memset(info, 0, sizeof info);
    PMIX_INFO_LOAD(&info[0], PMIX_WAIT_FOR_CONNECTION, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &seconds, PMIX_INT);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_set_server(&il, info, 2));
    /* It may be attached before it gets its functions. */
    pmix_app_t app;
    pmix_nspace_t job = "";
    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup("program");
    app.maxprocs = 1;
    pmix_status_t status;
    pmix_info_t forward;
    int output[2], out = dup(1);
    char said[8] = "";
    size_t length = 0;
    ssize_t got;
    PMIX_INFO_CONSTRUCT(&forward);
    PMIX_INFO_LOAD(&forward, PMIX_FWD_STDOUT, &yes, PMIX_BOOL);
    if (pipe(output) != 0) exit(2);
    fflush(stdout);
    dup2(output[1], 1);
    while ((status = PMIx_Spawn(&forward, 1, &app, 1, job)) == PMIX_ERR_NOT_SUPPORTED) usleep(1000);
    /* The job's output is the tool's own. */
    while (length < 6 && (got = read(output[0], said + length, 6 - length)) > 0) length += (size_t)got;
    dup2(out, 1);
    close(out);
    close(output[0]);
    close(output[1]);
    CHECK_STATUS(PMIX_SUCCESS, status);
    CHECK_TEXT("job-of-launcher", job);
    CHECK_TEXT("hello\n", said);
    PMIX_APP_DESTRUCT(&app);
    close(ends[1]);
    host_wait(pid, 0);
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, PMIx_tool_disconnect(&il)); /* a server that has ended has left the list */
    pmix_info_t required = info[0];
    PMIX_INFO_LOAD(&required, PMIX_LAUNCHER, &yes, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&required);
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, PMIx_tool_set_server(&own, &required, 1));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_set_server(&own, NULL, 0));
    check_spawn("job-of-tool");
}

/* Starts held in its initialization, until the tool releases it: once as a client, once as a tool. */
static int held(void)
{
    const char *rank = getenv("PMIX_RANK");
    if (rank && strcmp(rank, "0") == 0) {
        client_start();
        return client_end();
    }
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_init(&me, NULL, 0));
    CHECK_TEXT("held", me.nspace);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_finalize());
    return finish();
}

static void hold_and_release(void)
{
    struct done described = DONE;
    pmix_nspace_t job = "held";
    pmix_info_t info[2];
    pid_t pids[2];
    uint32_t size = 2;
    bool yes = true;

    memset(info, 0, sizeof info);
    PMIX_INFO_LOAD(&info[0], PMIX_JOB_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[1], PMIX_DEBUG_STOP_IN_INIT, &yes, PMIX_BOOL);
    pmix_status_t status = PMIx_server_register_nspace(job, 2, info, 2, op_done, &described);
    CHECK_STATUS(PMIX_SUCCESS, done_result(&described, status));
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct done announced = DONE;
        pmix_proc_t proc = proc_of(job, rank);
        status = PMIx_server_register_client(&proc, geteuid(), getegid(), NULL, op_done, &announced);
        CHECK_STATUS(PMIX_SUCCESS, done_result(&announced, status));
        pids[rank] = host_fork(job, rank, "held");
    }
    while (atomic_load(&ready) < 2) usleep(1000);
    for (uint32_t rank = 0; rank < 2; rank++) CHECK_NUMBER(0, waitpid(pids[rank], NULL, WNOHANG));
    status = PMIx_Notify_event(-3 /* PMIX_DEBUGGER_RELEASE */, &me, PMIX_RANGE_LOCAL, NULL, 0, NULL, NULL);
    CHECK_STATUS(PMIX_SUCCESS, status);
    for (uint32_t rank = 0; rank < 2; rank++) host_wait(pids[rank], 0);
    host_forget(job);
}

static int tool(void)
{
    pmix_proc_t *servers = NULL;
    size_t count = 0;
    char file[64];

    strcpy(host_directory, "/tmp/capi-XXXXXX");
    if (!mkdtemp(host_directory)) exit(2);
    snprintf(file, sizeof file, "%s/contact", host_directory);
    CHECK_STATUS(PMIX_ERR_INIT, set_module()(&module));
    become_launcher("tool", host_directory, file, true);
    CHECK_NUMBER(0, access(file, R_OK));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_get_servers(&servers, &count));
    CHECK_NUMBER(1, count);
    if (count > 0) CHECK_TEXT("tool", servers[0].nspace);
    PMIX_PROC_FREE(servers, count);
    CHECK_STATUS(PMIX_SUCCESS, set_module()(&module));
    host_run("of-tool", 2, 2, "rank");
    CHECK_NUMBER(2, atomic_load(&published));
    host_forget("of-tool");
    hold_and_release();
    check_spawn("job-of-tool");
    through_a_launcher(file);
    CHECK_NUMBER(2, atomic_load(&spawned));
    host_silent();
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_finalize());
    CHECK_STATUS(PMIX_ERR_INIT, set_module()(&module));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_server_finalize());
    host_over();
    return finish();
}

int main(int argc, char **argv)
{
    if (!set_module()) { /* the function came with 4.2.4 */
        CHECK(stock());
        return finish();
    }
    if (argc == 1) return tool();
    if (strcmp(argv[1], "held") == 0) return held();
    return strcmp(argv[1], "rank") == 0 ? rank_of_tool() : launcher_of_tool(getenv("LAUNCHER"));
}
