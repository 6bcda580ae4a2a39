/* Calls in unusual places: blocking calls and Finalize inside callbacks and event handlers; Finalize from atexit, from
 * another thread, and with open requests; a host that asks its own server inside an upcall, answers there, and
 * finalizes in a callback. */
#include "host.h"

/* ---- The clients: each role is a process. */
static struct done inside = DONE, told = DONE;
#define TOLD -5100

static void on_nothing(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t n,
                       pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void)id, (void)status, (void)source, (void)info, (void)n, (void)results, (void)nresults;
    done(PMIX_EVENT_NO_ACTION_TAKEN, NULL, 0, NULL, NULL, data);
}

/* Every call that waits for the server or for other processes. */
static void blocking_calls(void)
{
    pmix_proc_t wild = proc_of(me.nspace, PMIX_RANK_WILDCARD), other = proc_of(me.nspace, 1 - me.rank);
    pmix_info_t info;
    char key[32], text[32];
    static atomic_int round;
    int this_round = atomic_fetch_add(&round, 1);

    GET_NUMBER(2, &wild, PMIX_JOB_SIZE, PMIX_UINT32, uint32);
    snprintf(key, sizeof key, "key %d", this_round);
    snprintf(text, sizeof text, "text of %u", me.rank);
    CHECK_STATUS(PMIX_SUCCESS, put_text(PMIX_GLOBAL, key, text));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Commit());
    fence_all(true);
    snprintf(text, sizeof text, "text of %u", other.rank);
    GET_TEXT(text, &other, key);
    PMIX_INFO_LOAD(&info, "service", "text", PMIX_STRING);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Publish(&info, 1));
    PMIX_INFO_DESTRUCT(&info);
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, get_status(&other, "never put", PMIX_IMMEDIATE));
    /* Without a callback a registration waits for its end. */
    pmix_status_t code = -5101;
    pmix_status_t id = PMIx_Register_event_handler(&code, 1, NULL, 0, on_nothing, NULL, NULL);
    CHECK(id >= 0);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Deregister_event_handler((size_t)id, NULL, NULL));
}

static void in_op(pmix_status_t status, void *data)
{
    CHECK_STATUS(PMIX_SUCCESS, status);
    blocking_calls();
    done_with(data, status, 0);
}

static void in_value(pmix_status_t status, pmix_value_t *value, void *data)
{
    CHECK_STATUS(PMIX_SUCCESS, status);
    CHECK(value && value->type == PMIX_UINT32 && value->data.uint32 == 2);
    blocking_calls();
    CHECK(value && value->data.uint32 == 2); /* the value exists until the callback returns */
    done_with(data, status, 0);
}

static void in_handler(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t n,
                       pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void)id, (void)source, (void)info, (void)n, (void)results, (void)nresults;
    blocking_calls();
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
    done_with(&told, status, 0);
}

static void finalize_in_op(pmix_status_t status, void *data)
{
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    CHECK_NUMBER(0, PMIx_Initialized());
    done_with(data, status, 0);
}

static void finalize_in_handler(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t n,
                                pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void)id, (void)source, (void)info, (void)n, (void)results, (void)nresults;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data); /* the library no longer waits for it */
    done_with(&told, status, 0);
}

static size_t handle(pmix_notification_fn_t handler)
{
    pmix_status_t code = TOLD;
    struct done done = DONE;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Register_event_handler(&code, 1, NULL, 0, handler, reg_done, &done));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&done));
    return done.reference;
}

static void raise_local_event(void)
{
    struct done done = DONE;
    CHECK_STATUS(PMIX_SUCCESS, done_result(&done, PMIx_Notify_event(TOLD, &me, PMIX_RANGE_PROC_LOCAL, NULL, 0, op_done, &done)));
}

static void waiting_inside(void)
{
    pmix_proc_t wild = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    struct done value = DONE;

    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence_nb(NULL, 0, NULL, 0, in_op, &inside));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&inside));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get_nb(&wild, PMIX_JOB_SIZE, NULL, 0, in_value, &value));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&value));
    size_t id = handle(in_handler);
    raise_local_event();
    CHECK_STATUS(TOLD, done_wait(&told));
    struct done gone = DONE;
    CHECK_STATUS(PMIX_SUCCESS, done_result(&gone, PMIx_Deregister_event_handler(id, op_done, &gone)));
    /* While this thread waits for other processes, callbacks of this process wait, too, and both go on. */
    struct done first = DONE;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence_nb(NULL, 0, NULL, 0, in_op, &first));
    while (first.count == 0) {
        GET_NUMBER(2, &wild, PMIX_JOB_SIZE, PMIX_UINT32, uint32);
        usleep(1000);
    }
}

static void unanswered(void)
{
    pmix_info_t info;
    struct done done = DONE;
    PMIX_INFO_LOAD(&info, "never", NULL, PMIX_BOOL);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Publish_nb(&info, 1, op_done, &done));
    fence_all(false);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    CHECK_NUMBER(1, done.count);
    CHECK(done.status != PMIX_SUCCESS);
    PMIX_INFO_DESTRUCT(&info);
}

static void *finalize_thread(void *unused)
{
    (void)unused;
    pmix_proc_t wild = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    GET_NUMBER(2, &wild, PMIX_JOB_SIZE, PMIX_UINT32, uint32);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    return NULL;
}

static void at_exit(void)
{
    if (PMIx_Finalize(NULL, 0) != PMIX_SUCCESS || PMIx_Initialized()) _exit(3);
}

static int client(const char *role)
{
    pthread_t thread;

    client_start();
    if (strcmp(role, "waits") == 0) {
        waiting_inside();
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    } else if (strcmp(role, "op") == 0) {
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence_nb(NULL, 0, NULL, 0, finalize_in_op, &inside));
        done_wait(&inside);
    } else if (strcmp(role, "handler") == 0) {
        handle(finalize_in_handler);
        fence_all(false);
        /* The notification's callback may come after the end, or with a status that says so. */
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Notify_event(TOLD, &me, PMIX_RANGE_PROC_LOCAL, NULL, 0, op_done, &inside));
        done_wait(&told);
        done_wait(&inside);
    } else if (strcmp(role, "never") == 0) {
        unanswered();
    } else if (strcmp(role, "thread") == 0) {
        CHECK_NUMBER(0, pthread_create(&thread, NULL, finalize_thread, NULL));
        pthread_join(thread, NULL);
    } else if (strcmp(role, "exit") == 0) {
        CHECK_NUMBER(0, atexit(at_exit));
        handle(in_handler); /* so that the library has a thread to end */
        fence_all(false);
        return finish();
    }
    CHECK_NUMBER(0, PMIx_Initialized());
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Finalize(NULL, 0));
    return finish();
}

/* ---- The host. */
static atomic_int finalized, published;

static pmix_status_t up_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t callback, void *data)
{
    (void)proc, (void)object;
    atomic_fetch_add(&finalized, 1);
    return answer_op(callback, data, PMIX_SUCCESS);
}

static pmix_status_t up_publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t n, pmix_op_cbfunc_t callback,
                                void *data)
{
    pmix_proc_t wild = proc_of(proc->nspace, PMIX_RANK_WILDCARD), child = *proc;
    char **env = NULL;

    if (info_of(info, n, "never")) return PMIX_SUCCESS;
    /* The host asks its own server about the job while the server waits for the host. */
    GET_NUMBER(2, &wild, PMIX_JOB_SIZE, PMIX_UINT32, uint32);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_setup_fork(&child, &env));
    PMIX_ARGV_FREE(env);
    CHECK(put_text(PMIX_LOCAL, "host's", "own") == PMIX_SUCCESS);
    switch (atomic_fetch_add(&published, 1) % 3) {
    case 0: /* answered before the upcall returns, which the standard forbids */
        callback(PMIX_SUCCESS, data);
        return PMIX_SUCCESS;
    case 1: return PMIX_OPERATION_SUCCEEDED;
    default: return answer_op(callback, data, PMIX_SUCCESS);
    }
}

static pmix_server_module_t module = {.client_finalized = up_finalized, .publish = up_publish};

/* In the callback of a registration: the next one. */
static struct done chained = DONE;
static void register_more(pmix_status_t status, void *data)
{
    pmix_proc_t proc = proc_of("chained", 0);
    CHECK_STATUS(PMIX_SUCCESS, status);
    pmix_status_t more = PMIx_server_register_client(&proc, geteuid(), getegid(), NULL, op_done, data);
    if (more != PMIX_SUCCESS) done_with(data, more == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : more, 0);
}

static struct done ended = DONE;
static void finalize_server(pmix_status_t status, void *data)
{
    (void)status;
    done_with(data, PMIx_server_finalize(), 0);
}

int main(int argc, char **argv)
{
    static const char *const roles[] = {"waits", "op", "handler", "never", "thread", "exit"};
    if (argc > 1) return client(argv[1]);
    CHECK(PMIx_Get_version() != NULL);
    if (stock()) return finish(); /* it waits for itself in most of this */
    host_start(&module);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        atomic_store(&finalized, 0);
        host_run(roles[i], 2, 2, roles[i]);
        CHECK_NUMBER(2, finalized);
        host_forget(roles[i]);
    }
    pmix_info_t size;
    uint32_t number = 1;
    PMIX_INFO_LOAD(&size, PMIX_JOB_SIZE, &number, PMIX_UINT32);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_register_nspace("chained", 1, &size, 1, register_more, &chained));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&chained));
    host_stop();
    /* A server that ends in one of its callbacks. */
    host_start(&module);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_register_nspace("last", 1, &size, 1, finalize_server, &ended));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&ended));
    CHECK_NUMBER(1, ended.count);
    PMIX_INFO_DESTRUCT(&size);
    host_silent();
    host_over();
    return finish();
}
