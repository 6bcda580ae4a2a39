/* External progress (PMIX_EXTERNAL_PROGRESS): callbacks, event handlers and functions of the host run inside PMIx_Progress
 * alone, on the thread that calls it. Calls that wait need no PMIx_Progress, and a finalization runs what is due. */
#include "host.h"

static pthread_t own_thread;
static bool in_progress;
static atomic_int calls;

static void called(void)
{
    CHECK(pthread_equal(pthread_self(), own_thread));
    CHECK(in_progress);
    atomic_fetch_add(&calls, 1);
}

static void progress(void)
{
    in_progress = true;
    PMIx_Progress();
    in_progress = false;
}

/* Nothing is called for a while; then PMIx_Progress calls it. */
static void comes(int count)
{
    int before = atomic_load(&calls);
    usleep(100000);
    CHECK_NUMBER(before, atomic_load(&calls));
    for (int i = 0; i < 10000 && atomic_load(&calls) < before + count; i++) progress(), usleep(1000);
    CHECK_NUMBER(before + count, atomic_load(&calls));
}

static void on_end(pmix_status_t status, void *data)
{
    (void)data;
    called();
    CHECK_STATUS(PMIX_SUCCESS, status);
    PMIx_Progress(); /* inside a call it returns at once */
}

static void on_registration(pmix_status_t status, size_t id, void *data)
{
    (void)id, (void)data;
    called();
    CHECK_STATUS(PMIX_SUCCESS, status);
}

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void)id, (void)status, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    called();
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static pmix_status_t on_publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t done,
                                void *data)
{
    (void)proc, (void)info, (void)ninfo, (void)done, (void)data;
    called();
    return PMIX_OPERATION_SUCCEEDED;
}

static void external(pmix_info_t *info)
{
    bool yes = true;
    PMIX_INFO_LOAD(info, PMIX_EXTERNAL_PROGRESS, &yes, PMIX_BOOL);
    PMIX_INFO_REQUIRED(info);
    own_thread = pthread_self();
    atomic_store(&calls, 0);
}

/* A handler gets an event of this process. */
static void events(void)
{
    pmix_status_t code = PMIX_EXTERNAL_ERR_BASE - 7;
    PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, on_registration, NULL);
    comes(1);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Notify_event(code, NULL, PMIX_RANGE_PROC_LOCAL, NULL, 0, on_end, NULL));
    comes(2);
}

static int client(void)
{
    pmix_info_t info;
    bool no = false;

    external(&info);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Init(&me, &info, 1));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Init(&me, &info, 1)); /* it contradicts nothing */
    PMIX_INFO_LOAD(&info, PMIX_EXTERNAL_PROGRESS, &no, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&info);
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, PMIx_Init(&me, &info, 1)); /* the first initialization has decided */
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));

    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence(NULL, 0, NULL, 0)); /* a call that waits needs no help */
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence_nb(NULL, 0, NULL, 0, on_end, NULL));
    comes(1);
    events();
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence(NULL, 0, NULL, 0));

    /* The finalization runs what is due, on this thread. */
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence_nb(NULL, 0, NULL, 0, on_end, NULL));
    usleep(100000);
    int before = atomic_load(&calls);
    in_progress = true;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    in_progress = false;
    CHECK_NUMBER(before + 1, atomic_load(&calls));
    PMIx_Progress(); /* after the end it does nothing */
    return finish();
}

/* A client publishes: the host's function runs inside PMIx_Progress. */
static int publisher(void)
{
    pmix_info_t datum;
    client_start();
    PMIX_INFO_LOAD(&datum, "capi.key", "value", PMIX_STRING);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Publish(&datum, 1));
    PMIX_INFO_DESTRUCT(&datum);
    return client_end();
}

static void upcalls(void)
{
    int before = atomic_load(&calls), status = -1;
    pmix_info_t size;
    uint32_t one = 1;
    pmix_proc_t proc = proc_of("of-upcalls", 0);
    PMIX_INFO_LOAD(&size, PMIX_JOB_SIZE, &one, PMIX_UINT32);
    CHECK_STATUS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_nspace("of-upcalls", 1, &size, 1, NULL, NULL));
    CHECK_STATUS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_client(&proc, geteuid(), getegid(), NULL, NULL, NULL));
    pid_t pid = host_fork("of-upcalls", 0, "publisher");
    while (waitpid(pid, &status, WNOHANG) == 0) progress(), usleep(1000);
    CHECK_NUMBER(0, status);
    CHECK_NUMBER(before + 1, atomic_load(&calls));
}

static void server(void)
{
    static pmix_server_module_t module;
    pmix_info_t info, datum;

    module.publish = on_publish;
    external(&info);
    host_start_with(&module, &info, 1);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_register_nspace("external", 1, NULL, 0, on_end, NULL));
    comes(1);
    CHECK_STATUS(PMIX_OPERATION_SUCCEEDED, PMIx_server_register_nspace("waits", 1, NULL, 0, NULL, NULL));
    events();
    PMIX_INFO_LOAD(&datum, "capi.key", "value", PMIX_STRING);
    /* A request of the host itself calls the host's function at once, on the thread of the request. */
    in_progress = true;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Publish_nb(&datum, 1, on_end, NULL));
    in_progress = false;
    comes(1); /* the callback */
    PMIX_INFO_DESTRUCT(&datum);
    upcalls();
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_register_nspace("late", 1, NULL, 0, on_end, NULL));
    int before = atomic_load(&calls);
    host_silent();
    in_progress = true;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_finalize());
    in_progress = false;
    CHECK_NUMBER(before + 1, atomic_load(&calls));
    host_over();
}

int main(int argc, char **argv)
{
    static pmix_server_module_t module;
    if (argc > 1) return strcmp(argv[1], "publisher") == 0 ? publisher() : client();
    if (stock()) { /* there, calls that wait need another thread in PMIx_Progress */
        CHECK(true);
        return finish();
    }
    server();
    host_start(&module);
    host_run("of-progress", 2, 2, "client");
    host_stop();
    return finish();
}
