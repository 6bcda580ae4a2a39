/* Put, commit, fence and get between the ranks of a job, blocking and not; the job's own data; Init counted; threads. */
#include "host.h"

#include <fcntl.h>

#define SIZE 4

static atomic_int connected, finalized, aborts;

static pmix_status_t up_connected(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t callback, void *data)
{
    (void)callback, (void)data; /* never called, as in the Slurm plugins before 5.0 */
    CHECK_NUMBER(1000 + proc->rank, (uintptr_t)object);
    atomic_fetch_add(&connected, 1);
    return PMIX_SUCCESS;
}

static pmix_status_t up_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t callback, void *data)
{
    CHECK_NUMBER(1000 + proc->rank, (uintptr_t)object);
    atomic_fetch_add(&finalized, 1);
    return answer_op(callback, data, PMIX_SUCCESS);
}

static pmix_status_t up_abort(const pmix_proc_t *proc, void *object, int status, const char msg[], pmix_proc_t procs[],
                              size_t nprocs, pmix_op_cbfunc_t callback, void *data)
{
    (void)procs, (void)nprocs;
    CHECK_NUMBER(1000 + proc->rank, (uintptr_t)object);
    CHECK_NUMBER(77, status);
    CHECK(proc->rank == 0 ? msg && strcmp(msg, "the end") == 0 : !msg || !*msg);
    atomic_fetch_add(&aborts, 1);
    return answer_op(callback, data, PMIX_SUCCESS);
}

static pmix_server_module_t module = {
    .client_connected = up_connected,
    .client_finalized = up_finalized,
    .abort = up_abort,
};

/* Keys that only a server may set. Regression: a rank could give its peers another size of the job. */
static void puts_of_server_keys(void)
{
    static const char *const keys[] = {PMIX_JOB_SIZE, PMIX_RANK, PMIX_NSPACE, PMIX_PARENT_ID, PMIX_SERVER_URI};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        CHECK_UNLESS_STOCK("takes them", put_text(PMIX_GLOBAL, keys[i], "mine") == PMIX_ERR_BAD_PARAM);
}

/* Regression: a further initialization that contradicted the first one, or required what Init does not do, succeeded. */
static void contradictions(void)
{
    pmix_info_t info;
    uint32_t other = me.rank + 1;
    bool yes = true;

    if (stock()) return; /* it takes everything */
    PMIX_INFO_LOAD(&info, PMIX_SERVER_URI, "elsewhere.0;tcp4://127.0.0.1:1", PMIX_STRING);
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Init(NULL, &info, 1));
    PMIX_INFO_DESTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_RANK, &other, PMIX_PROC_RANK);
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Init(NULL, &info, 1));
    PMIX_INFO_DESTRUCT(&info);
    PMIX_INFO_LOAD(&info, "some.directive", &yes, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&info);
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, PMIx_Init(NULL, &info, 1));
    CHECK(!(info.flags & PMIX_INFO_REQD_PROCESSED));
    PMIX_INFO_DESTRUCT(&info);
    /* The facts, and the models of several libraries, are no contradiction. */
    PMIX_INFO_LOAD(&info, PMIX_NSPACE, me.nspace, PMIX_STRING);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Init(NULL, &info, 1));
    CHECK(!(info.flags & PMIX_INFO_REQD_PROCESSED)); /* not required */
    PMIX_INFO_DESTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_PROGRAMMING_MODEL, "MPI", PMIX_STRING);
    PMIX_INFO_REQUIRED(&info);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Init(NULL, &info, 1));
    CHECK(info.flags & PMIX_INFO_REQD_PROCESSED);
    PMIX_INFO_DESTRUCT(&info);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    CHECK_NUMBER(1, PMIx_Initialized());
}

/* Processes of one node have all values that the server generates. */
static void generated_info(void)
{
    pmix_info_t info;
    bool yes = true, no = false;

    if (stock()) return; /* it ignores the directive */
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_GENERATED_JOB_INFO, &yes, PMIX_BOOL);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence(NULL, 0, &info, 1));
    PMIX_INFO_REQUIRED(&info);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence(NULL, 0, &info, 1));
    PMIX_INFO_DESTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_GENERATED_JOB_INFO, &no, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&info);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence(NULL, 0, &info, 1));
    PMIX_INFO_DESTRUCT(&info);
}

static void put_all(void)
{
    pmix_value_t value;
    char text[64], big[5000];
    uint64_t number = 1000 + me.rank;

    snprintf(text, sizeof text, "card of %u", me.rank);
    CHECK_STATUS(PMIX_SUCCESS, put_text(PMIX_GLOBAL, "card", text));
    CHECK_STATUS(PMIX_SUCCESS, put_text(PMIX_LOCAL, "local", text));
    CHECK_STATUS(PMIX_SUCCESS, put_text(PMIX_REMOTE, "remote", text));
    memset(&value, 0, sizeof value);
    value.type = PMIX_UINT64;
    value.data.uint64 = number;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Put(PMIX_GLOBAL, "number", &value));
    memset(big, 'a' + (int)me.rank, sizeof big);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = big;
    value.data.bo.size = sizeof big;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Put(PMIX_GLOBAL, "big", &value));
    /* Applications put this reserved key, and their peers read it. */
    snprintf(text, sizeof text, "host-of-%u", me.rank);
    CHECK_STATUS(PMIX_SUCCESS, put_text(PMIX_GLOBAL, PMIX_HOSTNAME, text));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Commit());
}

static void get_all(void)
{
    for (uint32_t rank = 0; rank < SIZE; rank++) {
        pmix_proc_t peer = proc_of(me.nspace, rank);
        char text[64];
        snprintf(text, sizeof text, "card of %u", rank);
        GET_TEXT(text, &peer, "card");
        GET_TEXT(text, &peer, "local");
        GET_NUMBER(1000 + rank, &peer, "number", PMIX_UINT64, uint64);
        pmix_value_t *value = get(&peer, "big", PMIX_BYTE_OBJECT);
        if (value) {
            CHECK_NUMBER(5000, value->data.bo.size);
            CHECK(value->data.bo.bytes[0] == 'a' + (int)rank && value->data.bo.bytes[4999] == 'a' + (int)rank);
            /* As MPI does: take the bytes out and free them. */
            char *stolen = value->data.bo.bytes;
            value->data.bo.bytes = NULL;
            value->data.bo.size = 0;
            free(stolen);
        }
        value_free(value);
        if (rank != me.rank) {
            pmix_status_t status = get_status(&peer, "remote", NULL);
            CHECK_UNLESS_STOCK("stock says NOT_FOUND or EXISTS_OUTSIDE_SCOPE", status == PMIX_ERR_EXISTS_OUTSIDE_SCOPE || status == PMIX_ERR_NOT_FOUND);
        }
        CHECK_STATUS(PMIX_ERR_NOT_FOUND, get_status(&peer, "never put", PMIX_OPTIONAL));
        CHECK_STATUS(PMIX_ERR_NOT_FOUND, get_status(&peer, "never put", PMIX_IMMEDIATE));
    }
}

static void job_data(void)
{
    pmix_proc_t wild = proc_of(me.nspace, PMIX_RANK_WILDCARD), none = proc_of("no-such-job", 0);
    char host[256] = "", *nodes = NULL;
    pmix_proc_t *peers = NULL;
    size_t count = 0;

    gethostname(host, sizeof host - 1);
    GET_NUMBER(SIZE, &wild, PMIX_JOB_SIZE, PMIX_UINT32, uint32);
    GET_NUMBER(SIZE, &wild, PMIX_UNIV_SIZE, PMIX_UINT32, uint32);
    GET_NUMBER(SIZE, &wild, PMIX_LOCAL_SIZE, PMIX_UINT32, uint32);
    GET_NUMBER(1, &wild, PMIX_NUM_NODES, PMIX_UINT32, uint32);
    GET_TEXT("0,1,2,3", &wild, PMIX_LOCAL_PEERS);
    GET_NUMBER(me.rank, &me, PMIX_LOCAL_RANK, PMIX_UINT16, uint16);
    GET_NUMBER(me.rank, &me, PMIX_NODE_RANK, PMIX_UINT16, uint16);
    GET_TEXT(me.nspace, &wild, PMIX_JOBID);
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, get_status(&wild, "pmix.no.such.key", NULL));
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, get_status(&wild, PMIX_TMPDIR, PMIX_OPTIONAL));
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, get_status(&none, PMIX_JOB_SIZE, PMIX_IMMEDIATE));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Resolve_peers(host, me.nspace, &peers, &count));
    CHECK_NUMBER(SIZE, count);
    if (count == SIZE) CHECK(strcmp(peers[3].nspace, me.nspace) == 0 && peers[3].rank == 3);
    free(peers);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Resolve_nodes(me.nspace, &nodes));
    CHECK_TEXT(host, nodes);
    free(nodes);
}

/* Results of a Get_nb callback. */
struct got {
    struct done done;
    char text[64];
    bool returned, early;
};

static void got(pmix_status_t status, pmix_value_t *value, void *data)
{
    struct got *got = data;
    if (status == PMIX_SUCCESS && value && value->type == PMIX_STRING) /* valid during the callback only */
        snprintf(got->text, sizeof got->text, "%s", value->data.string);
    got->early = !__atomic_load_n(&got->returned, __ATOMIC_ACQUIRE);
    done_with(&got->done, status, 0);
}

static void without_blocking(void)
{
    pmix_proc_t next = proc_of(me.nspace, (me.rank + 1) % SIZE);
    struct got later = {.done = DONE}, missing = {.done = DONE};
    pmix_info_t info;

    /* The peer puts this key after our request, and the answer comes then. */
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get_nb(&next, "late", NULL, 0, got, &later));
    __atomic_store_n(&later.returned, true, __ATOMIC_RELEASE);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence(NULL, 0, NULL, 0));
    char text[64];
    snprintf(text, sizeof text, "late card of %u", me.rank);
    CHECK_STATUS(PMIX_SUCCESS, put_text(PMIX_GLOBAL, "late", text));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Commit());
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&later.done));
    snprintf(text, sizeof text, "late card of %u", next.rank);
    CHECK_TEXT(text, later.text);
    CHECK(!later.early);
    CHECK_NUMBER(1, later.done.count);
    CHECK(!pthread_equal(later.done.thread, pthread_self()));

    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_OPTIONAL, NULL, PMIX_BOOL);
    pmix_status_t status = PMIx_Get_nb(&next, "never put", &info, 1, got, &missing);
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, done_result(&missing.done, status));

    /* Fences in a row; each callback exactly once and in order. */
    struct done fences[8];
    for (int i = 0; i < 8; i++) {
        struct done fresh = DONE;
        fences[i] = fresh;
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence_nb(NULL, 0, NULL, 0, op_done, &fences[i]));
        CHECK_STATUS(PMIX_SUCCESS, done_wait(&fences[i]));
    }
    for (int i = 0; i < 8; i++) CHECK_NUMBER(1, fences[i].count);
    PMIX_INFO_DESTRUCT(&info);
}

/* Two fences over disjoint halves are open at once; a process outside a fence is refused. */
static void halves(void)
{
    pmix_proc_t half[2] = {proc_of(me.nspace, me.rank < 2 ? 0 : 2), proc_of(me.nspace, me.rank < 2 ? 1 : 3)};
    pmix_proc_t turned[2] = {half[1], half[0]};
    pmix_proc_t other[2] = {proc_of(me.nspace, me.rank < 2 ? 2 : 0), proc_of(me.nspace, me.rank < 2 ? 3 : 1)};

    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence(me.rank % 2 ? half : turned, 2, NULL, 0));
    CHECK_UNLESS_STOCK_SERVER("stock waits for ever or succeeds", stock_server() || PMIx_Fence(other, 2, NULL, 0) != PMIX_SUCCESS);
}

/* Every thread may make calls. */
static void *reader(void *unused)
{
    (void)unused;
    for (int i = 0; i < 50; i++) {
        pmix_proc_t peer = proc_of(me.nspace, (uint32_t)i % SIZE);
        GET_NUMBER(1000 + peer.rank, &peer, "number", PMIX_UINT64, uint64);
    }
    return NULL;
}

static void *writer(void *name)
{
    for (int i = 0; i < 20; i++) CHECK_STATUS(PMIX_SUCCESS, put_text(PMIX_GLOBAL, name, "x"));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Commit());
    return NULL;
}

static void threads(void)
{
    pthread_t all[4];
    pthread_create(&all[0], NULL, reader, NULL);
    pthread_create(&all[1], NULL, reader, NULL);
    pthread_create(&all[2], NULL, writer, "thread-a");
    pthread_create(&all[3], NULL, writer, "thread-b");
    for (int i = 0; i < 4; i++) pthread_join(all[i], NULL);
}

/* Enters a fence, which the parent wants with all of its clones. */
static void fence_of_clones(bool is_parent)
{
    pmix_info_t info;

    PMIX_INFO_LOAD(&info, PMIX_ALL_CLONES_PARTICIPATE, NULL, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&info);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence(NULL, 0, &info, is_parent ? 1 : 0));
    PMIX_INFO_DESTRUCT(&info);
}

/* The parent's fence ends behind its clone's note. The clone writes it when the parent sleeps in the fence, or is about to. */
static int clones(void)
{
    int connected_ends[2], notes[2], starts[2];
    char note;

    CHECK(pipe(connected_ends) == 0 && pipe(notes) == 0 && pipe(starts) == 0);
    pid_t clone = fork();
    client_start();
    CHECK_NUMBER(0, me.rank);
    if (clone == 0) {
        CHECK_NUMBER(1, write(connected_ends[1], "c", 1));
        CHECK_NUMBER(1, read(starts[0], &note, 1));
        for (int i = 0; i < 100; i++) sched_yield();
        CHECK_NUMBER(1, write(notes[1], "n", 1));
        fence_of_clones(false);
        return client_end();
    }
    CHECK_NUMBER(1, read(connected_ends[0], &note, 1));
    CHECK_NUMBER(1, write(starts[1], "s", 1));
    fence_of_clones(true);
    CHECK_NUMBER(0, fcntl(notes[0], F_SETFL, O_NONBLOCK));
    CHECK_NUMBER(1, read(notes[0], &note, 1));
    host_wait(clone, 0);
    return client_end();
}

static int client(const char *role)
{
    pmix_proc_t again = proc_of("wrong", 9);

    if (strcmp(role, "clones") == 0) return clones();
    client_start();
    if (strcmp(role, "abort") == 0) {
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Abort(77, me.rank == 0 ? "the end" : NULL, NULL, 0));
        return finish(); /* without Finalize: the host decides */
    }
    if (strcmp(role, "cycle") == 0) {
        /* A second session after the last Finalize, as with MPI sessions. */
        CHECK_STATUS(PMIX_SUCCESS, put_text(PMIX_GLOBAL, "life", "first"));
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Commit());
        fence_all(true);
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
        CHECK_STATUS(PMIX_ERR_INIT, get_status(&me, "life", NULL));
        client_start();
        pmix_proc_t wild = proc_of(me.nspace, PMIX_RANK_WILDCARD);
        GET_NUMBER(2, &wild, PMIX_JOB_SIZE, PMIX_UINT32, uint32);
        /* Stock counts a Finalize as a departure: one rank gets PARTIAL_SUCCESS, the other waits for ever. */
        if (!stock_server()) CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence(NULL, 0, NULL, 0));
        return client_end();
    }
    CHECK_TEXT("modex", me.nspace);
    job_data();
    put_all();
    fence_all(true);
    get_all();
    without_blocking();
    halves();
    threads();
    puts_of_server_keys();
    contradictions();
    generated_info();
    /* Counted: only the last Finalize disconnects. */
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Init(&again, NULL, 0));
    CHECK(PMIX_CHECK_PROCID(&again, &me));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Init(NULL, NULL, 0));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    CHECK_NUMBER(1, PMIx_Initialized());
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence(NULL, 0, NULL, 0));
    return client_end();
}

int main(int argc, char **argv)
{
    if (argc > 1) return client(argv[1]);
    host_start(&module);
    host_run("modex", SIZE, SIZE, "exchange");
    CHECK_NUMBER(SIZE, atomic_load(&connected));
    CHECK_NUMBER(SIZE, atomic_load(&finalized));
    host_forget("modex");
    host_run("cycling", 2, 2, "cycle");
    CHECK_NUMBER(SIZE + 4, atomic_load(&finalized));
    host_run("aborting", 2, 2, "abort");
    CHECK_NUMBER(2, atomic_load(&aborts));
    if (!stock()) host_run("cloned", 1, 1, "clones"); /* stock ignores the directive */
    host_stop();
    return finish();
}
