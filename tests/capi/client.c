/* The border of the client's functions: their refusals, the threads and times of callbacks, ownership, the count of
 * Init, forked children, and sessions after the last Finalize. `modex run -n 2 -- client costs` prints the cost of
 * calls. */
#include "host.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#define LONG_KEY_BYTES 600
static char blob[LONG_KEY_BYTES];
static struct done nested = DONE;
static atomic_int events;
static pthread_t event_thread;

static int thread_count(void)
{
    char line[256];
    int count = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, file)) sscanf(line, "Threads: %d", &count);
    fclose(file);
    return count;
}

/* The kernel counts a joined thread for a moment longer. */
static int thread_count_when_joined(void)
{
    int count = thread_count();
    for (int i = 0; count > 1 && i < 1000; i++) {
        usleep(1000);
        count = thread_count();
    }
    return count;
}

static pmix_info_t flag_info(const char *key)
{
    pmix_info_t info;
    memset(&info, 0, sizeof info);
    strncpy(info.key, key, PMIX_MAX_KEYLEN);
    info.value.type = PMIX_BOOL;
    info.value.data.flag = true;
    return info;
}

static pmix_info_t text_info(const char *key, char *text)
{
    pmix_info_t info = flag_info(key);
    info.value.type = PMIX_STRING;
    info.value.data.string = text;
    return info;
}

static void before_and_after(void)
{
    pmix_value_t *found;
    CHECK_NUMBER(0, PMIx_Initialized());
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Get(NULL, "x", NULL, 0, &found));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Commit());
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Fence(NULL, 0, NULL, 0));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Finalize(NULL, 0));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Deregister_event_handler(SIZE_MAX, NULL, NULL));
}

static void put_and_get(const pmix_proc_t *me, const pmix_proc_t *wild, pmix_proc_t *peer)
{
    pmix_value_t value, *found = NULL;
    pmix_info_t collect = flag_info(PMIX_COLLECT_DATA);
    char long_key[LONG_KEY_BYTES];
    uint32_t size = 0;

    memset(long_key, 'k', sizeof long_key - 1);
    long_key[sizeof long_key - 1] = 0;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(wild, PMIX_JOB_SIZE, NULL, 0, &found));
    size = found->data.uint32;
    CHECK_NUMBER(PMIX_UINT32, found->type);
    value_free(found);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(NULL, "pmix.vers.num", NULL, 0, &found));
    CHECK_NUMBER(PMIX_UINT32, found->type);
    value_free(found);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(NULL, PMIX_PROCID, NULL, 0, &found));
    CHECK(found->type == PMIX_PROC && found->data.proc->rank == me->rank);
    value_free(found);
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Get(NULL, NULL, NULL, 0, &found));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Get(wild, PMIX_JOB_SIZE, NULL, 0, NULL));
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, PMIx_Get(wild, "pmix.nonesuch", NULL, 0, &found));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Get(wild, long_key, NULL, 0, &found));

    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = blob;
    value.data.bo.size = 64;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Put(PMIX_GLOBAL, "blob", &value));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Put(PMIX_GLOBAL, long_key, &value));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Put(77, "blob", &value));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Put(PMIX_GLOBAL, "blob", NULL));
    value.type = 999;
    CHECK_STATUS(PMIX_ERR_UNKNOWN_DATA_TYPE, PMIx_Put(PMIX_GLOBAL, "blob", &value));
    value.type = PMIX_STRING;
    value.data.string = "0-3";
    /* MPI libraries put keys of the standard, and their peers read them. */
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Put(PMIX_GLOBAL, "pmix.own.note", &value));
    value.data.string = NULL;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Put(PMIX_GLOBAL, "null", &value));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Commit());
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence(wild, 1, &collect, 1));

    /* The empty name means the own job. */
    *peer = proc_of("", (me->rank + 1) % size);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(peer, "blob", NULL, 0, &found));
    CHECK(found->type == PMIX_BYTE_OBJECT && found->data.bo.size == 64 && !memcmp(found->data.bo.bytes, blob, 64));
    value_free(found);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(peer, "pmix.own.note", NULL, 0, &found));
    CHECK_TEXT("0-3", found->data.string);
    value_free(found);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(peer, "null", NULL, 0, &found));
    CHECK(found->type == PMIX_STRING && found->data.string == NULL);
    value_free(found);
    value.type = PMIX_UINT16;
    value.data.uint16 = 3;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Store_internal(peer, PMIX_LOCALITY, &value));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(peer, PMIX_LOCALITY, NULL, 0, &found));
    CHECK_NUMBER(3, found->data.uint16);
    value_free(found);
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Store_internal(NULL, "key", &value));
}

static void ways_to_return_a_value(const pmix_proc_t *peer)
{
    pmix_info_t directive = flag_info(PMIX_GET_STATIC_VALUES);
    pmix_value_t storage, *found = &storage, *again = NULL;

    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(peer, "blob", &directive, 1, &found));
    CHECK(found == &storage && storage.type == PMIX_BYTE_OBJECT && storage.data.bo.size == 64);
    PMIX_VALUE_DESTRUCT(&storage);
    found = NULL;
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Get(peer, "blob", &directive, 1, &found));
    directive = flag_info(PMIX_GET_POINTER_VALUES);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(peer, "blob", &directive, 1, &found));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(peer, "blob", &directive, 1, &again));
    CHECK(found == again && found->data.bo.size == 64);
    /* Regression: each such Get of a value that the library knows itself left one behind. 4.2.2 has no such value. */
    if (stock()) return;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(peer, "pmix.vers.num", &directive, 1, &found));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(peer, "pmix.vers.num", &directive, 1, &again));
    CHECK(found == again);
}

static void ignored(pmix_status_t status, pmix_value_t *value, void *data)
{
    (void)status, (void)value, (void)data;
}

/* A required directive that no library knows. */
static void required(const pmix_proc_t *peer, const pmix_proc_t *wild)
{
    pmix_info_t unknown = flag_info("vendor.thing"), known = flag_info(PMIX_OPTIONAL);
    pmix_value_t *found = NULL;

    PMIX_INFO_REQUIRED(&known);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(wild, PMIX_JOB_SIZE, &known, 1, &found));
    value_free(found);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(peer, "blob", &unknown, 1, &found));
    value_free(found);
    PMIX_INFO_REQUIRED(&unknown);
    CHECK_UNLESS_STOCK("passes over what it must honour",
                       PMIx_Get(peer, "blob", &unknown, 1, &found) == PMIX_ERR_NOT_SUPPORTED
                           && PMIx_Get(wild, PMIX_JOB_SIZE, &unknown, 1, &found) == PMIX_ERR_NOT_SUPPORTED
                           && PMIx_Get_nb(peer, "blob", &unknown, 1, ignored, NULL) == PMIX_ERR_NOT_SUPPORTED);
}

/* Blocking calls from a callback. */
static void value_done(pmix_status_t status, pmix_value_t *value, void *data)
{
    const pmix_proc_t *wild = data;
    pmix_value_t *found = NULL;
    CHECK(status == PMIX_SUCCESS && value && value->type == PMIX_UINT32);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(wild, PMIX_JOB_SIZE, NULL, 0, &found));
    value_free(found);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence(NULL, 0, NULL, 0));
    done_with(&nested, status, 0);
}

static void callbacks(pmix_proc_t *wild)
{
    struct done fenced = DONE;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get_nb(wild, PMIX_JOB_SIZE, NULL, 0, value_done, wild));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&nested));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence_nb(NULL, 0, NULL, 0, op_done, &fenced));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&fenced));
    CHECK(!pthread_equal(fenced.thread, pthread_self()));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Get_nb(wild, PMIX_JOB_SIZE, NULL, 0, NULL, NULL));
}

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *info, size_t ninfo,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t complete, void *data)
{
    (void)id, (void)status, (void)source, (void)results, (void)nresults;
    for (size_t i = 0; i < ninfo; i++) {
        if (strcmp(info[i].key, PMIX_EVENT_RETURN_OBJECT) == 0) CHECK(info[i].value.data.ptr == &events);
    }
    event_thread = pthread_self();
    atomic_fetch_add(&events, 1);
    complete(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
    /* A second completion completes nothing. */
    complete(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void events_and_counting(const pmix_proc_t *me)
{
    pmix_status_t code = PMIX_MODEL_DECLARED;
    pmix_info_t object = flag_info(PMIX_EVENT_RETURN_OBJECT);
    pmix_info_t model[2] = {text_info(PMIX_PROGRAMMING_MODEL, "MPI"), text_info(PMIX_MODEL_LIBRARY_NAME, "none")};
    struct done registered = DONE, gone = DONE;

    object.value.type = PMIX_POINTER;
    object.value.data.ptr = &events;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Register_event_handler(&code, 1, &object, 1, on_event, reg_done, &registered));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&registered));
    CHECK_NUMBER(0, registered.reference);
    CHECK_NUMBER(1, PMIx_Register_event_handler(NULL, 0, NULL, 0, on_event, NULL, NULL));

    /* A model is declared on the calling thread, before Init returns. */
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Init(NULL, model, 2));
    CHECK_NUMBER(1, atomic_load(&events));
    CHECK(pthread_equal(event_thread, pthread_self()));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    CHECK_NUMBER(1, PMIx_Initialized());

    CHECK_STATUS(PMIX_SUCCESS, PMIx_Notify_event(-4711, me, PMIX_RANGE_PROC_LOCAL, NULL, 0, NULL, NULL));
    while (atomic_load(&events) < 2) usleep(100);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Deregister_event_handler(SIZE_MAX, NULL, NULL));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Deregister_event_handler(registered.reference, op_done, &gone));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&gone));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Deregister_event_handler(1, NULL, NULL));
}

static void resolution_and_requests(pmix_proc_t *me, uint32_t size)
{
    char *nodes = NULL;
    pmix_proc_t *peers = NULL;
    size_t count = 0;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Resolve_nodes(me->nspace, &nodes));
    CHECK(nodes && *nodes);
    free(nodes);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Resolve_peers(NULL, me->nspace, &peers, &count));
    CHECK_NUMBER(size, count);
    free(peers);
    /* Without a callback the caller gets no result, but the request is accepted. */
    pmix_info_t cleanup = text_info("pmix.reg.cleanup", "/nonexistent");
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Job_control_nb(me, 1, &cleanup, 1, NULL, NULL));
    pmix_status_t not_in = stock() ? PMIX_ERR_NOT_SUPPORTED : PMIX_ERR_NOT_FOUND;
    CHECK_STATUS(not_in, PMIx_Group_leave("group", NULL, 0));
}

static void forked_child(const pmix_proc_t *wild)
{
    pid_t child = fork();
    if (child == 0) {
        pmix_value_t *found;
        bool refused = PMIx_Get(wild, PMIX_JOB_SIZE, NULL, 0, &found) == PMIX_ERR_INIT;
        refused = refused && PMIx_Fence(NULL, 0, NULL, 0) == PMIX_ERR_INIT;
        refused = refused && PMIx_Finalize(NULL, 0) == PMIX_ERR_INIT && !PMIx_Initialized();
        /* Success is SIGKILL: at an exit memcheck would report the memory of the parent's threads as lost. */
        if (refused) raise(SIGKILL);
        _exit(1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

#define MEASURE(name, count, call)                                                     \
    do {                                                                               \
        double begun_ = now_ns();                                                      \
        for (int i = 0; i < (count); i++) { call; }                                    \
        printf("%s: %.0f ns\n", name, (now_ns() - begun_) / (count));                  \
    } while (0)

/* Prints the cost of calls. Checks nothing. */
static void costs(const pmix_proc_t *me, const pmix_proc_t *wild, pmix_proc_t peer)
{
    pmix_value_t value, *found;
    pmix_info_t optional = flag_info(PMIX_OPTIONAL), pointer = flag_info(PMIX_GET_POINTER_VALUES);
    char key[32];
    for (int round = 0; round < 2; round++) {
        strcpy(peer.nspace, round ? me->nspace : "");
        MEASURE("get of the job", 1000000, PMIx_Get(wild, PMIX_JOB_SIZE, NULL, 0, &found); value_free(found));
        MEASURE("get of a peer", 1000000, PMIx_Get(&peer, "blob", NULL, 0, &found); value_free(found));
        MEASURE("get of a peer, optional", 1000000, PMIx_Get(&peer, "blob", &optional, 1, &found); value_free(found));
        MEASURE("get of a pointer", 100000, PMIx_Get(&peer, "blob", &pointer, 1, &found));
        value.type = PMIX_BYTE_OBJECT;
        value.data.bo.bytes = blob;
        value.data.bo.size = 64;
        MEASURE("put of 64 bytes", 1000, snprintf(key, sizeof key, "key.%d", i); PMIx_Put(PMIX_GLOBAL, key, &value));
    }
}

static void never_found(pmix_status_t status, pmix_value_t *value, void *data)
{
    CHECK(value == NULL);
    done_with(data, status, 0);
}

static int rank(bool measure)
{
    pmix_proc_t wild, peer;
    pmix_value_t *found = NULL;
    struct done never = DONE;

    memset(blob, 'b', sizeof blob);
    before_and_after();
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Init(&me, NULL, 0));
    CHECK_NUMBER(1, PMIx_Initialized());
    wild = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(&wild, PMIX_JOB_SIZE, NULL, 0, &found));
    uint32_t size = found->data.uint32;
    value_free(found);
    put_and_get(&me, &wild, &peer);
    ways_to_return_a_value(&peer);
    required(&peer, &wild);
    /* No thread before a callback needs it. */
    CHECK_NUMBER(1, thread_count());
    if (measure) costs(&me, &wild, peer);
    callbacks(&wild);
    events_and_counting(&me);
    resolution_and_requests(&me, size);
    forked_child(&wild);
    /* Open requests end with an error. Their callbacks have run when the last finalize returns. */
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get_nb(&peer, "never put", NULL, 0, never_found, &never));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    CHECK_NUMBER(1, never.count);
    CHECK(never.status != PMIX_SUCCESS);
    CHECK_NUMBER(1, thread_count_when_joined());
    before_and_after();
    for (int life = 0; life < 3; life++) {
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Init(&me, NULL, 0));
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(&wild, PMIX_JOB_SIZE, NULL, 0, &found));
        value_free(found);
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence(NULL, 0, NULL, 0));
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    }
    return finish();
}

int main(int argc, char **argv)
{
    static pmix_server_module_t module;
    if (argc > 1) return rank(strcmp(argv[1], "costs") == 0);
    /* Stock answers most of this wrongly: it calls back early, blocks, or counts below zero. */
    CHECK(PMIx_Get_version() != NULL);
    if (stock()) return finish();
    host_start(&module);
    host_run("border", 2, 2, "rank");
    host_stop();
    return finish();
}
