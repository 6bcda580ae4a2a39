/* What an MPI library asks of PMIx between MPI_Init and MPI_Finalize, and with an argument (a directory) what a resource manager
 * asks for a job of two such processes on its node. For hot-functions.sh. */
#include <pmix.h>
#include <pmix_server.h>

#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void need(pmix_status_t status)
{
    if (status < 0) abort();
}

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                     pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *object)
{
    (void)id, (void)status, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    if (done) done(PMIX_SUCCESS, NULL, 0, NULL, NULL, object);
}

static void get(const pmix_proc_t *proc, const char *key)
{
    pmix_value_t *value = NULL;
    if (PMIx_Get(proc, key, NULL, 0, &value) == PMIX_SUCCESS) PMIx_Value_free(value, 1);
}

static int client(void)
{
    pmix_proc_t me, all, peer;
    pmix_status_t code = PMIX_ERR_PROC_ABORTED;
    pmix_value_t value = {.type = PMIX_STRING, .data.string = "endpoint"};
    pmix_info_t collect = {.value = {.type = PMIX_BOOL, .data.flag = true}};
    strcpy(collect.key, PMIX_COLLECT_DATA);

    need(PMIx_Init(&me, NULL, 0));
    all = peer = me;
    all.rank = PMIX_RANK_WILDCARD;
    pmix_status_t handler = PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, NULL, NULL);
    need(handler);
    get(&all, PMIX_JOB_SIZE);
    get(&all, PMIX_UNIV_SIZE);
    get(&all, PMIX_LOCAL_PEERS);
    get(&me, PMIX_LOCAL_RANK);
    get(&me, PMIX_LOCALITY_STRING);
    need(PMIx_Put(PMIX_GLOBAL, "endpoint", &value));
    need(PMIx_Commit());
    need(PMIx_Fence(&all, 1, &collect, 1));
    for (peer.rank = 0; peer.rank < 4; peer.rank++) {
        get(&peer, PMIX_HOSTNAME);
        get(&peer, "endpoint");
    }
    need(PMIx_Fence(&all, 1, NULL, 0));
    need(PMIx_Deregister_event_handler((size_t)handler, NULL, NULL));
    need(PMIx_Finalize(NULL, 0));
    return 0;
}

/* ---- The resource manager. */
static sem_t completed;

static void on_done(pmix_status_t status, void *object)
{
    (void)object;
    need(status);
    sem_post(&completed);
}

/* Waits for the callback of a call that will have one. */
static void complete(pmix_status_t status)
{
    need(status);
    if (status == PMIX_SUCCESS) sem_wait(&completed);
}

static pmix_status_t on_client(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *data)
{
    (void)proc, (void)object, (void)done, (void)data;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo, char *data,
                              size_t size, pmix_modex_cbfunc_t done, void *object)
{
    (void)procs, (void)nprocs, (void)info, (void)ninfo;
    done(PMIX_SUCCESS, data, size, object, free, data);
    return PMIX_SUCCESS;
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void load(pmix_info_t *info, const char *key, pmix_data_type_t type, const void *data)
{
    PMIx_Info_load(info, key, data, type);
}

static void load_number(pmix_info_t *info, const char *key, uint32_t number) { load(info, key, PMIX_UINT32, &number); }
static void load_small(pmix_info_t *info, const char *key, uint16_t number) { load(info, key, PMIX_UINT16, &number); }
static void load_rank(pmix_info_t *info, const char *key, pmix_rank_t rank) { load(info, key, PMIX_PROC_RANK, &rank); }

static void load_array(pmix_info_t *info, const char *key, pmix_info_t *infos, size_t count)
{
    pmix_data_array_t array = {.type = PMIX_INFO, .size = count, .array = infos};
    load(info, key, PMIX_DATA_ARRAY, &array);
}

static void describe(pmix_info_t job[16], const char *nspace, const char *host, const char *directory)
{
    pmix_info_t app[3], node[4], proc[8];
    char *nodes = NULL, *ranks = NULL;

    need(PMIx_generate_regex(host, &nodes));
    need(PMIx_generate_ppn("0,1", &ranks));
    load(&job[0], PMIX_NODE_MAP, PMIX_REGEX, nodes);
    load(&job[1], PMIX_PROC_MAP, PMIX_REGEX, ranks);
    load(&job[2], PMIX_JOBID, PMIX_STRING, nspace);
    load_number(&job[3], PMIX_UNIV_SIZE, 2);
    load_number(&job[4], PMIX_JOB_SIZE, 2);
    load_number(&job[5], PMIX_MAX_PROCS, 2);
    load_number(&job[6], PMIX_JOB_NUM_APPS, 1);
    load_number(&job[7], PMIX_NUM_NODES, 1);
    load_number(&job[8], PMIX_LOCAL_SIZE, 2);
    load_number(&job[9], PMIX_NODE_SIZE, 2);
    load(&job[10], PMIX_LOCAL_PEERS, PMIX_STRING, "0,1");
    load(&job[11], PMIX_TMPDIR, PMIX_STRING, directory);
    load_number(&app[0], PMIX_APPNUM, 0);
    load_number(&app[1], PMIX_APP_SIZE, 2);
    load_rank(&app[2], PMIX_APPLDR, 0);
    load_array(&job[12], PMIX_APP_INFO_ARRAY, app, COUNT(app));
    load_number(&node[0], PMIX_NODEID, 0);
    load(&node[1], PMIX_HOSTNAME, PMIX_STRING, host);
    load_number(&node[2], PMIX_NODE_SIZE, 2);
    load(&node[3], PMIX_LOCAL_PEERS, PMIX_STRING, "0,1");
    load_array(&job[13], PMIX_NODE_INFO_ARRAY, node, COUNT(node));
    for (uint16_t rank = 0; rank < 2; rank++) {
        load_rank(&proc[0], PMIX_RANK, rank);
        load_number(&proc[1], PMIX_APPNUM, 0);
        load_rank(&proc[2], PMIX_GLOBAL_RANK, rank);
        load_rank(&proc[3], PMIX_APP_RANK, rank);
        load_small(&proc[4], PMIX_LOCAL_RANK, rank);
        load_small(&proc[5], PMIX_NODE_RANK, rank);
        load_number(&proc[6], PMIX_NODEID, 0);
        load(&proc[7], PMIX_HOSTNAME, PMIX_STRING, host);
        load_array(&job[14 + rank], PMIX_PROC_INFO_ARRAY, proc, COUNT(proc));
    }
    free(nodes);
    free(ranks);
}

static int host(const char *program, const char *directory)
{
    static const pmix_nspace_t nspace = "hot";
    pmix_server_module_t module = {
        .client_connected = on_client, .client_finalized = on_client, .fence_nb = on_fence};
    pmix_info_t options[2], job[16];
    char name[256] = "";
    bool share = true;

    sem_init(&completed, 0, 0);
    gethostname(name, sizeof name - 1);
    load(&options[0], PMIX_SERVER_TMPDIR, PMIX_STRING, directory);
    load(&options[1], PMIX_SERVER_SHARE_TOPOLOGY, PMIX_BOOL, &share);
    need(PMIx_server_init(&module, options, COUNT(options)));
    describe(job, nspace, name, directory);
    complete(PMIx_server_register_nspace(nspace, 2, job, COUNT(job), on_done, NULL));
    for (pmix_rank_t rank = 0; rank < 2; rank++) {
        pmix_proc_t proc = {.rank = rank};
        strcpy(proc.nspace, nspace);
        complete(PMIx_server_register_client(&proc, getuid(), getgid(), NULL, on_done, NULL));
        char **environment = calloc(1, sizeof *environment);
        for (char **each = environ; *each; each++) need(PMIx_Argv_append_nosize(&environment, *each));
        need(PMIx_server_setup_fork(&proc, &environment));
        if (fork() == 0) {
            execve(program, (char *[]){(char *)program, NULL}, environment);
            _exit(127);
        }
        PMIx_Argv_free(environment);
    }
    for (int status = 0; wait(&status) > 0;)
        if (status != 0) abort();
    PMIx_server_deregister_nspace(nspace, on_done, NULL);
    sem_wait(&completed);
    need(PMIx_server_finalize());
    return 0;
}

int main(int argc, char **argv)
{
    return argc > 2 ? host(argv[1], argv[2]) : client();
}
