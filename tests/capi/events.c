/* Event handlers: order and end of the chain, and the results of earlier handlers; ranges; events inside one process,
 * between clients, from the host and to the host; the model declaration that every MPI makes; the window for lost connections. */
#include "host.h"

#define MINE -5001
#define OTHER -5002
#define SAID -5021

/* ---- The chain: each handler notes its letter. */
static pthread_mutex_t trail_lock = PTHREAD_MUTEX_INITIALIZER;
static char trail[64];
static size_t results_seen[26];
static char stopper;

static void note(char letter)
{
    pthread_mutex_lock(&trail_lock);
    size_t length = strlen(trail);
    if (length + 1 < sizeof trail) trail[length] = letter;
    pthread_mutex_unlock(&trail_lock);
}

static void in_chain(char letter, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    note(letter);
    results_seen[letter - 'a'] = nresults;
    done(letter == stopper ? PMIX_EVENT_ACTION_COMPLETE : PMIX_EVENT_NO_ACTION_TAKEN, NULL, 0, NULL, NULL, data);
}

#define HANDLER(letter)                                                                                              \
    static void handler_##letter(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],     \
                                 size_t n, pmix_info_t *results, size_t nresults,                                    \
                                 pmix_event_notification_cbfunc_fn_t done, void *data)                               \
    {                                                                                                                \
        (void)id, (void)status, (void)source, (void)info, (void)n, (void)results;                                    \
        in_chain(#letter[0], nresults, done, data);                                                                  \
    }
HANDLER(a) HANDLER(b) HANDLER(c) HANDLER(d) HANDLER(e) HANDLER(f)

/* The last handler of every chain signals its end. */
static struct done chain_over = DONE;
static void handler_last(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t n,
                         pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void)id, (void)source, (void)info, (void)n, (void)results, (void)nresults;
    note('z');
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
    done_with(&chain_over, status, 0);
}

static size_t add(pmix_status_t *codes, size_t ncodes, const char *directive, const char *text, pmix_notification_fn_t handler,
                  const char *name)
{
    pmix_info_t info[2];
    struct done done = DONE;
    size_t n = 1;

    PMIX_INFO_LOAD(&info[0], PMIX_EVENT_HDLR_NAME, name, PMIX_STRING);
    if (directive) PMIX_INFO_LOAD(&info[n++], directive, text, text ? PMIX_STRING : PMIX_BOOL);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Register_event_handler(codes, ncodes, info, n, handler, reg_done, &done));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&done));
    for (size_t i = 0; i < n; i++) PMIX_INFO_DESTRUCT(&info[i]);
    return done.reference;
}

static void drop(size_t id)
{
    struct done done = DONE;
    CHECK_STATUS(PMIX_SUCCESS, done_result(&done, PMIx_Deregister_event_handler(id, op_done, &done)));
}

static void raise_here(pmix_status_t code, const char *directive)
{
    struct done done = DONE;
    pmix_info_t info;
    if (directive) PMIX_INFO_LOAD(&info, directive, NULL, PMIX_BOOL);
    pmix_status_t status =
        PMIx_Notify_event(code, &me, PMIX_RANGE_PROC_LOCAL, directive ? &info : NULL, directive ? 1 : 0, op_done, &done);
    CHECK_STATUS(PMIX_SUCCESS, done_result(&done, status));
    if (directive) PMIX_INFO_DESTRUCT(&info);
}

static void expect_trail(const char *expected, int chains)
{
    done_wait_for(&chain_over, chains);
    CHECK_TEXT(expected, trail);
    pthread_mutex_lock(&trail_lock);
    memset(trail, 0, sizeof trail);
    pthread_mutex_unlock(&trail_lock);
}

static void order(void)
{
    pmix_status_t mine[] = {MINE}, both[] = {MINE, OTHER};
    size_t ids[8], n = 0;

    ids[n++] = add(NULL, 0, PMIX_EVENT_HDLR_LAST, NULL, handler_last, "last");
    ids[n++] = add(NULL, 0, NULL, NULL, handler_d, "default");
    ids[n++] = add(both, 2, NULL, NULL, handler_c, "multi");
    ids[n++] = add(mine, 1, PMIX_EVENT_HDLR_APPEND, NULL, handler_b, "single-b");
    ids[n++] = add(mine, 1, PMIX_EVENT_HDLR_APPEND, NULL, handler_e, "single-e");
    if (!stock()) /* stock refuses this */
        ids[n++] = add(mine, 1, PMIX_EVENT_HDLR_BEFORE, "single-e", handler_f, "single-f");
    raise_here(MINE, NULL);
    expect_trail(stock() ? "becdz" : "bfecdz", 1);
    /* Each handler gets one more result than the previous one. */
    CHECK_NUMBER(0, results_seen['b' - 'a']);
    CHECK(results_seen['d' - 'a'] > results_seen['b' - 'a']);
    raise_here(OTHER, NULL);
    expect_trail("cdz", 2);
    ids[n++] = add(NULL, 0, PMIX_EVENT_HDLR_FIRST, NULL, handler_a, "first");
    if (!stock()) { /* in stock, only default handlers may follow it */
        raise_here(MINE, NULL);
        /* The two past events come first, to the new handler alone. */
        expect_trail("aaabfecdz", 3);
        raise_here(OTHER, NULL);
        expect_trail("acdz", 4);
    }
    /* A second handler that wants to be first overall is refused. */
    pmix_info_t info;
    struct done refused = DONE;
    PMIX_INFO_LOAD(&info, PMIX_EVENT_HDLR_FIRST, NULL, PMIX_BOOL);
    pmix_status_t status = PMIx_Register_event_handler(NULL, 0, &info, 1, handler_d, reg_done, &refused);
    CHECK_STATUS(PMIX_ERR_EVENT_REGISTRATION, done_result(&refused, status));
    PMIX_INFO_DESTRUCT(&info);
    while (n) drop(ids[--n]);
    /* The library refused a number without a handler, and the callback never ran: programs that deregister a guessed
     * number waited for ever (four of OpenPMIx's examples). Such a number counts as deregistered. */
    struct done unknown = DONE;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Deregister_event_handler(SIZE_MAX, op_done, &unknown));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&unknown));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Deregister_event_handler(SIZE_MAX, NULL, NULL));
}

/* Separate codes: stock caches events raised inside a process for later handlers. */
static void stopped(void)
{
    pmix_status_t mine[] = {-5011}, both[] = {-5011, -5012};
    size_t ids[3];
    int before = chain_over.count;

    memset(trail, 0, sizeof trail);
    ids[0] = add(both, 2, PMIX_EVENT_HDLR_LAST, NULL, handler_last, "last");
    ids[1] = add(mine, 1, PMIX_EVENT_HDLR_APPEND, NULL, handler_a, "a");
    ids[2] = add(mine, 1, PMIX_EVENT_HDLR_APPEND, NULL, handler_b, "b");
    stopper = 'a'; /* ends the chain: neither b nor the last run */
    raise_here(-5011, NULL);
    raise_here(-5012, NULL); /* a later event: when its chain is over, so is the first one's */
    expect_trail("az", before + 1);
    stopper = 0;
    for (int i = 0; i < 3; i++) drop(ids[i]);
}

/* A registration without a function was refused, and programs that check the status ended. OpenPMIx accepts it and
 * crashes at the first event. Rule: it takes no action, and the event goes on to the next handler. */
static void without_function(void)
{
    pmix_status_t mine[] = {-5013};
    size_t ids[2];
    int before = chain_over.count;

    ids[0] = add(mine, 1, PMIX_EVENT_HDLR_FIRST, NULL, NULL, "nothing");
    if (!stock()) {
        ids[1] = add(mine, 1, PMIX_EVENT_HDLR_LAST, NULL, handler_last, "last");
        raise_here(-5013, NULL);
        expect_trail("z", before + 1);
        drop(ids[1]);
    }
    drop(ids[0]);
}

/* ---- Between processes. */
static struct done heard = DONE, heard_from_host = DONE;
static char heard_text[64], host_text[64];
static pmix_proc_t heard_source;

static void on_peer(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t n,
                    pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void)results, (void)nresults;
    const pmix_info_t *text = info_of(info, n, "text");
    if (status == SAID) {
        snprintf(heard_text, sizeof heard_text, "%s", text ? text->value.data.string : "");
        heard_source = *source;
    } else snprintf(host_text, sizeof host_text, "%s", text ? text->value.data.string : "");
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
    done_with(status == SAID ? &heard : &heard_from_host, status, id);
}

static void tell(pmix_data_range_t range, const char *text)
{
    pmix_info_t info[2];
    struct done done = DONE;
    pmix_proc_t target = proc_of(me.nspace, 1);
    pmix_data_array_t targets = {PMIX_PROC, 1, &target};
    size_t n = 1;

    PMIX_INFO_LOAD(&info[0], "text", text, PMIX_STRING);
    if (range == PMIX_RANGE_CUSTOM) {
        PMIX_INFO_LOAD(&info[1], PMIX_EVENT_CUSTOM_RANGE, &targets, PMIX_DATA_ARRAY);
        n = 2;
    }
    CHECK_STATUS(PMIX_SUCCESS, done_result(&done, PMIx_Notify_event(SAID, &me, range, info, n, op_done, &done)));
    for (size_t i = 0; i < n; i++) PMIX_INFO_DESTRUCT(&info[i]);
}

static struct done declared = DONE;
static pthread_t declared_on;
static void on_model(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t n,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void)id, (void)source, (void)results, (void)nresults;
    const pmix_info_t *model = info_of(info, n, PMIX_PROGRAMMING_MODEL);
    CHECK_NUMBER(PMIX_MODEL_DECLARED, status);
    CHECK(model && strcmp(model->value.data.string, "MPI") == 0);
    declared_on = pthread_self();
    done(PMIX_EVENT_NO_ACTION_TAKEN, NULL, 0, NULL, NULL, data);
    done_with(&declared, status, 0);
}

static void model(void)
{
    pmix_status_t codes[] = {PMIX_MODEL_DECLARED};
    pmix_info_t info[2];
    size_t id = add(codes, 1, NULL, NULL, on_model, "model");

    PMIX_INFO_LOAD(&info[0], PMIX_PROGRAMMING_MODEL, "MPI", PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_MODEL_LIBRARY_NAME, "capi", PMIX_STRING);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Init(NULL, info, 2));
    CHECK_NUMBER(1, declared.count); /* delivered before Init returned, on this thread */
    CHECK(pthread_equal(declared_on, pthread_self()));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    PMIX_INFO_DESTRUCT(&info[0]);
    PMIX_INFO_DESTRUCT(&info[1]);
    drop(id);
}

static int client(void)
{
    pmix_status_t codes[] = {SAID}, from_host[] = {-5003};
    size_t ids[2];

    client_start();
    model();
    order();
    stopped();
    without_function();
    ids[0] = add(codes, 1, NULL, NULL, on_peer, "peer");
    ids[1] = add(from_host, 1, NULL, NULL, on_peer, "host");
    fence_all(false);
    if (me.rank == 0) tell(PMIX_RANGE_LOCAL, "to this node");
    else {
        done_wait_for(&heard, 1);
        CHECK_TEXT("to this node", heard_text);
        CHECK_NUMBER(0, heard_source.rank);
        CHECK_TEXT(me.nspace, heard_source.nspace);
    }
    fence_all(false);
    bool custom = !stock(); /* stock never reports that it is done with it */
    if (custom) {
        if (me.rank == 0) tell(PMIX_RANGE_CUSTOM, "to one");
        if (me.rank == 1) {
            done_wait_for(&heard, 2);
            CHECK_TEXT("to one", heard_text);
        }
        fence_all(false);
    }
    if (me.rank == 0) tell(PMIX_RANGE_NAMESPACE, "to all");
    else {
        done_wait_for(&heard, custom && me.rank == 1 ? 3 : 2);
        CHECK_TEXT("to all", heard_text);
    }
    /* The host sends its event when it has received rank 0's event. */
    done_wait_for(&heard_from_host, 1);
    CHECK_TEXT("from the host", host_text);
    fence_all(false);
    drop(ids[0]);
    drop(ids[1]);
    return client_end();
}

/* ---- The host. */
static struct done told = DONE, host_heard = DONE;
static atomic_int upcall_count;

static pmix_status_t up_notify(pmix_status_t code, const pmix_proc_t *source, pmix_data_range_t range, pmix_info_t info[],
                               size_t n, pmix_op_cbfunc_t callback, void *data)
{
    if (code == -5003 && stock()) return PMIX_OPERATION_SUCCEEDED; /* stock hands the host its own event back */
    CHECK_NUMBER(SAID, code);
    CHECK_NUMBER(0, source->rank);
    CHECK(range == PMIX_RANGE_NAMESPACE || range == PMIX_RANGE_CUSTOM); /* local ones stay here */
    CHECK(info_of(info, n, "text") != NULL);
    atomic_fetch_add(&upcall_count, 1);
    if (range == PMIX_RANGE_NAMESPACE) done_with(&told, code, 0);
    if (stock()) return PMIX_OPERATION_SUCCEEDED; /* stock frees its request twice when another thread answers */
    return answer_op(callback, data, PMIX_SUCCESS);
}

static atomic_int registrations;
static pmix_status_t up_register_events(pmix_status_t *codes, size_t n, const pmix_info_t info[], size_t ninfo,
                                        pmix_op_cbfunc_t callback, void *data)
{
    (void)codes, (void)n, (void)info, (void)ninfo;
    atomic_fetch_add(&registrations, 1);
    return answer_op(callback, data, PMIX_SUCCESS);
}

static pmix_status_t up_deregister_events(pmix_status_t *codes, size_t n, pmix_op_cbfunc_t callback, void *data)
{
    (void)codes, (void)n;
    return answer_op(callback, data, PMIX_SUCCESS);
}

static void on_host(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t n,
                    pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void)source, (void)info, (void)n, (void)results, (void)nresults;
    CHECK(id >= 1); /* a server's ids count from 1 */
    done(PMIX_EVENT_NO_ACTION_TAKEN, NULL, 0, NULL, NULL, data);
    if (status == SAID) done_with(&host_heard, status, id);
}

static pmix_server_module_t module = {
    .notify_event = up_notify,
    .register_events = up_register_events,
    .deregister_events = up_deregister_events,
};

/* ---- With a window, lost connections give one event about all. The window outlasts the test, so no report depends on time. */
static atomic_int reports, lost;
static void on_loss(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t n,
                    pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void)id, (void)status, (void)source, (void)results, (void)nresults;
    const pmix_info_t *all = info_of(info, n, PMIX_EVENT_AFFECTED_PROCS);
    atomic_fetch_add(&lost, all ? (int)all->value.data.darray->size : 1);
    atomic_fetch_add(&reports, 1);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

/* A rank that is lost, or one that sees how the server loses the others. */
static int client_of_window(const char *role)
{
    client_start();
    if (strcmp(role, "lost") == 0) _exit(0);
    for (pmix_rank_t rank = 1; rank <= 2; rank++) {
        pmix_proc_t both[] = {me, proc_of(me.nspace, rank)};
        CHECK(PMIx_Fence(both, 2, NULL, 0) != PMIX_SUCCESS);
    }
    return client_end();
}

static void window(const char *seconds, int expected)
{
    pmix_server_module_t none;
    struct done registered = DONE;
    pmix_status_t code = PMIX_ERR_LOST_CONNECTION;
    pid_t pids[3];

    memset(&none, 0, sizeof none);
    reports = lost = 0;
    if (seconds) setenv("PMIX_MCA_pmix_event_caching_window", seconds, 1);
    host_start(&none);
    unsetenv("PMIX_MCA_pmix_event_caching_window");
    PMIx_Register_event_handler(&code, 1, NULL, 0, on_loss, reg_done, &registered);
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&registered));
    host_job("window", 3, 3);
    for (uint32_t i = 0; i < 3; i++) pids[i] = host_fork("window", i, i ? "lost" : "watcher");
    for (uint32_t i = 0; i < 3; i++) host_wait(pids[i], 0);
    if (expected == 1) CHECK_NUMBER(0, atomic_load(&reports)); /* they wait for the end of the window, or of the server */
    host_stop();
    CHECK_NUMBER(expected, atomic_load(&reports));
    CHECK_NUMBER(2, atomic_load(&lost));
}

int main(int argc, char **argv)
{
    if (argc > 1) return strcmp(argv[1], "client") == 0 ? client() : client_of_window(argv[1]);
    pid_t pids[3];
    struct done registered = DONE, sent = DONE;
    pmix_info_t info[2];
    pmix_proc_t self = proc_of("capi-host", 0);

    host_start(&module);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Register_event_handler(NULL, 0, NULL, 0, on_host, reg_done, &registered));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&registered));
    host_job("events", 3, 3);
    for (uint32_t i = 0; i < 3; i++) pids[i] = host_fork("events", i, "client");
    done_wait_for(&told, 1);
    done_wait_for(&host_heard, 1); /* its own handlers receive its clients' events */
    PMIX_INFO_LOAD(&info[0], "text", "from the host", PMIX_STRING);
    pmix_status_t status = PMIx_Notify_event(-5003, &self, PMIX_RANGE_SESSION, info, 1, op_done, &sent);
    CHECK_STATUS(PMIX_SUCCESS, done_result(&sent, status));
    PMIX_INFO_DESTRUCT(&info[0]);
    for (uint32_t i = 0; i < 3; i++) host_wait(pids[i], 0);
    host_stop();
    if (!stock()) window(NULL, 2), window("3600", 1), window("soon", 2);
    return finish();
}
