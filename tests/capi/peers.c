/* Placement of processes on other nodes: the lists that a server makes on request (process maps in blocks and in turns)
 * and stored lists (any other map). They are read with every kind of ownership of the value, by PMIx_Query_info and by
 * PMIx_Resolve_peers. */
#include "host.h"

#define NODES 3

struct job {
    const char *name, *ppn;
    const char *peers[NODES];
    uint32_t sizes[NODES];
};

/* The first rank of the first node asks. */
static const struct job jobs[] = {
    {"blocks", "0,1,2;3,4,5;6,7", {"0,1,2", "3,4,5", "6,7"}, {3, 3, 2}},
    {"turns", "0,3,6;1,4,7;2,5", {"0,3,6", "1,4,7", "2,5"}, {3, 3, 2}},
    {"turns of two", "0,1,6,7;2,3;4,5", {"0,1,6,7", "2,3", "4,5"}, {4, 2, 2}},
    {"any", "0,7;1,2,5;3,4,6", {"0,7", "1,2,5", "3,4,6"}, {2, 3, 3}},
};
#define JOBS (sizeof jobs / sizeof *jobs)

static const char *name_of(int node)
{
    static char host[256];
    if (!host[0]) gethostname(host, sizeof host - 1);
    return node == 0 ? host : node == 1 ? "node-b" : "node-c";
}

static void describe(const struct job *job)
{
    char nodes[400], *regex = NULL, *ppn = NULL;
    pmix_info_t info[3];
    struct done described = DONE, announced = DONE;
    pmix_proc_t first = proc_of(job->name, 0);
    uint32_t size = 8;

    snprintf(nodes, sizeof nodes, "%s,%s,%s", name_of(0), name_of(1), name_of(2));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_generate_regex(nodes, &regex));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_generate_ppn(job->ppn, &ppn));
    PMIX_INFO_LOAD(&info[0], PMIX_NODE_MAP, regex, PMIX_REGEX);
    PMIX_INFO_LOAD(&info[1], PMIX_PROC_MAP, ppn, PMIX_REGEX);
    PMIX_INFO_LOAD(&info[2], PMIX_JOB_SIZE, &size, PMIX_UINT32);
    pmix_status_t status = PMIx_server_register_nspace(job->name, 1, info, 3, op_done, &described);
    CHECK_STATUS(PMIX_SUCCESS, done_result(&described, status));
    for (size_t i = 0; i < 3; i++) PMIX_INFO_DESTRUCT(&info[i]);
    free(regex);
    free(ppn);
    status = PMIx_server_register_client(&first, geteuid(), getegid(), NULL, op_done, &announced);
    CHECK_STATUS(PMIX_SUCCESS, done_result(&announced, status));
}

/* Whether the server is ours, with any library in this process. */
static bool is_ours_serving(void) { return getenv("MODEX_SERVER_URI") != NULL; }

enum ownership { OWNED, STATIC, POINTER };

static void check_value(const struct job *job, int node, const char *key, const pmix_value_t *value)
{
    if (strcmp(key, PMIX_LOCAL_SIZE) == 0) {
        CHECK_NUMBER(PMIX_UINT32, value->type);
        CHECK_NUMBER(job->sizes[node], value->data.uint32);
    } else {
        CHECK_NUMBER(PMIX_STRING, value->type);
        CHECK_TEXT(job->peers[node], value->type == PMIX_STRING ? value->data.string : "of another type");
    }
}

/* One Get, twice: a value that the library keeps for the caller must be there the second time, too. */
static void got(const struct job *job, int node, const char *key, bool by_number, enum ownership ownership)
{
    pmix_proc_t whole = proc_of(job->name, PMIX_RANK_WILDCARD);
    pmix_info_t info[3];
    uint32_t number = (uint32_t)node;
    size_t count = 2;

    memset(info, 0, sizeof info);
    PMIX_INFO_LOAD(&info[0], PMIX_NODE_INFO, NULL, PMIX_BOOL);
    if (by_number) PMIX_INFO_LOAD(&info[1], PMIX_NODEID, &number, PMIX_UINT32);
    else PMIX_INFO_LOAD(&info[1], PMIX_HOSTNAME, name_of(node), PMIX_STRING);
    if (ownership == STATIC) PMIX_INFO_LOAD(&info[count++], PMIX_GET_STATIC_VALUES, NULL, PMIX_BOOL);
    if (ownership == POINTER) PMIX_INFO_LOAD(&info[count++], PMIX_GET_POINTER_VALUES, NULL, PMIX_BOOL);
    const pmix_value_t *kept = NULL;
    for (int round = 0; round < 2; round++) {
        pmix_value_t storage, *value = &storage;
        PMIX_VALUE_CONSTRUCT(&storage);
        if (ownership != STATIC) value = NULL;
        pmix_status_t status = PMIx_Get(&whole, key, info, count, &value);
        CHECK_STATUS(PMIX_SUCCESS, status);
        if (status != PMIX_SUCCESS) break;
        check_value(job, node, key, value);
        if (ownership == STATIC) CHECK(value == &storage);
        if (ownership == POINTER) CHECK(round == 0 || kept == value);
        if (ownership == STATIC) PMIX_VALUE_DESTRUCT(&storage);
        if (ownership == OWNED) value_free(value);
        kept = value;
    }
    for (size_t i = 0; i < count; i++) PMIX_INFO_DESTRUCT(&info[i]);
}

static void queried(const struct job *job, int node)
{
    pmix_query_t query;
    pmix_info_t *results = NULL;
    size_t count = 0;
    int status;

    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_LOCAL_PEERS);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_LOCAL_SIZE);
    CHECK_NUMBER(PMIX_SUCCESS, status);
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 3);
    PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, job->name, PMIX_STRING);
    PMIX_INFO_LOAD(&query.qualifiers[1], PMIX_NODE_INFO, NULL, PMIX_BOOL);
    PMIX_INFO_LOAD(&query.qualifiers[2], PMIX_HOSTNAME, name_of(node), PMIX_STRING);
    pmix_status_t answered = PMIx_Query_info(&query, 1, &results, &count);
    CHECK_STATUS(PMIX_SUCCESS, answered);
    CHECK_NUMBER(2, count);
    for (size_t i = 0; i < count; i++) check_value(job, node, results[i].key, &results[i].value);
    PMIX_INFO_FREE(results, count);
    PMIX_QUERY_DESTRUCT(&query);
}

static void resolved(const struct job *job, int node)
{
    pmix_proc_t *procs = NULL;
    size_t count = 0;
    char ranks[64] = "";

    CHECK_STATUS(PMIX_SUCCESS, PMIx_Resolve_peers(name_of(node), job->name, &procs, &count));
    for (size_t i = 0; i < count; i++) {
        CHECK_TEXT(job->name, procs[i].nspace);
        snprintf(ranks + strlen(ranks), sizeof ranks - strlen(ranks), i ? ",%u" : "%u", procs[i].rank);
    }
    CHECK_TEXT(job->peers[node], ranks);
    PMIX_PROC_FREE(procs, count);
}

static int client(const char *own)
{
    client_start();
    const struct job *job = &jobs[atoi(own)];
    /* Stock always returns a value of its own. */
    enum ownership last = stock() ? OWNED : POINTER;
    for (int node = 0; node < NODES; node++) {
        for (enum ownership ownership = OWNED; ownership <= last; ownership++)
            for (int by_number = 0; by_number < 2; by_number++) {
                got(job, node, PMIX_LOCAL_PEERS, by_number, ownership);
                got(job, node, PMIX_LOCAL_SIZE, by_number, ownership);
            }
        resolved(job, node);
        if (is_ours_serving()) queried(job, node); /* stock's server has no such query */
    }
    /* Requests about another job go to the server. */
    const struct job *other = &jobs[(atoi(own) + 1) % JOBS];
    if (!stock() && is_ours_serving())
        for (int node = 0; node < NODES; node++) {
            got(other, node, PMIX_LOCAL_PEERS, false, OWNED);
            queried(other, node);
            resolved(other, node);
        }
    return client_end();
}

static pmix_server_module_t module; /* nothing */

int main(int argc, char **argv)
{
    if (argc > 1) return client(argv[1]);
    host_start(&module);
    for (size_t i = 0; i < JOBS; i++) describe(&jobs[i]);
    for (size_t i = 0; i < JOBS; i++) {
        char role[8];
        snprintf(role, sizeof role, "%zu", i);
        host_wait(host_fork(jobs[i].name, 0, role), 0);
    }
    for (size_t i = 0; i < JOBS; i++) host_forget(jobs[i].name);
    host_stop();
    return finish();
}
