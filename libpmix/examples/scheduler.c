/* A scheduler and a node that starts its job. They share no memory: the scheduler's words travel as bytes.
 *
 *   cc scheduler.c -o scheduler -lpmix
 *   ./scheduler plan 2 | ./scheduler launch
 *
 * "plan" knows the machine and decides what the job gets. "launch" is the daemon of the job's only node. It starts the
 * processes, which are this program as well ("process").
 *
 * The tutorial's machine has more nodes: exercises 3 and 4. Each process gets an endpoint on its fabric.
 *
 *   export PMIX_MCA_pnet=test PMIX_MCA_pnet_test_nverts="nodes:5;plane:d:3"
 *   ./scheduler plan test000,test001,test002 "0,1,2;3,4,5;6,7" | ./scheduler launch test001
 */
#include <pmix.h>
#include <pmix_server.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The functions take an array of this size, not any text. */
static const pmix_nspace_t JOB = "planned-job";
/* The key under which the processes find what the scheduler has allocated. */
#define NETWORK "example.network"

extern char **environ;

/* The end of a call whose result comes on the library's thread. */
struct call {
    sem_t ended;
    pmix_info_t *infos;
    size_t count;
};

static void check(pmix_status_t status, const char *call)
{
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "%s: %s\n", call, PMIx_Error_string(status));
        exit(1);
    }
}

static void await(pmix_status_t status, const char *name, struct call *call)
{
    if (status == PMIX_OPERATION_SUCCEEDED) return;
    check(status, name);
    while (sem_wait(&call->ended) != 0) continue;
}

static void on_end(pmix_status_t status, void *data)
{
    struct call *call = data;
    check(status, "a request to the server");
    sem_post(&call->ended);
}

/* The infos belong to the library until they are released. So this keeps a copy. */
static void keep(struct call *call, pmix_info_t infos[], size_t count)
{
    PMIX_INFO_CREATE(call->infos, count);
    call->count = count;
    for (size_t i = 0; i < count; i++) PMIX_INFO_XFER(&call->infos[i], &infos[i]);
}

static void on_inventory(pmix_status_t status, pmix_info_t *infos, size_t count, void *data, pmix_release_cbfunc_t release,
                         void *release_data)
{
    struct call *call = data;
    check(status, "PMIx_server_collect_inventory");
    keep(call, infos, count);
    if (release) release(release_data);
    sem_post(&call->ended);
}

static void on_setup(pmix_status_t status, pmix_info_t infos[], size_t count, void *data, pmix_op_cbfunc_t release,
                     void *release_data)
{
    struct call *call = data;
    check(status, "PMIx_server_setup_application");
    keep(call, infos, count);
    if (release) release(PMIX_SUCCESS, release_data);
    sem_post(&call->ended);
}

/* This host as the only node of a job. */
static void describe_local(uint32_t size, char host[256], char ranks[4096])
{
    check(gethostname(host, 256) == 0 ? PMIX_SUCCESS : PMIX_ERROR, "gethostname");
    for (uint32_t rank = 0; rank < size; rank++) {
        size_t used = strlen(ranks);
        snprintf(ranks + used, 4096 - used, rank == 0 ? "%u" : ",%u", rank);
    }
}

/* The job's nodes ("a,b") and the ranks of each ("0,1;2"), as the two maps that PMIx understands everywhere. */
static void load_maps(pmix_info_t info[2], const char *hosts, const char *ranks)
{
    char *nodes, *processes;

    check(PMIx_generate_regex(hosts, &nodes), "PMIx_generate_regex");
    check(PMIx_generate_ppn(ranks, &processes), "PMIx_generate_ppn");
    PMIX_INFO_LOAD(&info[0], PMIX_NODE_MAP, nodes, PMIX_REGEX);
    PMIX_INFO_LOAD(&info[1], PMIX_PROC_MAP, processes, PMIX_REGEX);
    free(nodes);
    free(processes);
}

/* The allocation that the scheduler wants: a key for the job's traffic, and an endpoint for each process. Nodes without network
 * interfaces give none, because the wish for them is not marked as required. */
static void load_allocation(pmix_info_t *info)
{
    pmix_data_array_t *wish;
    bool yes = true;
    size_t one = 1;

    PMIX_DATA_ARRAY_CREATE(wish, 3, PMIX_INFO);
    PMIX_INFO_LOAD((pmix_info_t *)wish->array, PMIX_ALLOC_FABRIC_ID, NETWORK, PMIX_STRING);
    PMIX_INFO_LOAD((pmix_info_t *)wish->array + 1, PMIX_ALLOC_FABRIC_SEC_KEY, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD((pmix_info_t *)wish->array + 2, PMIX_ALLOC_FABRIC_ENDPTS, &one, PMIX_SIZE);
    PMIX_INFO_LOAD(info, PMIX_ALLOC_FABRIC, wish, PMIX_DATA_ARRAY);
    PMIX_DATA_ARRAY_FREE(wish);
}

/* Writes the nodes, the ranks of each, and what every node of the job needs to know. */
static void send(const char *hosts, const char *ranks, struct call *setup)
{
    pmix_data_buffer_t buffer;
    pmix_byte_object_t bytes;

    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    check(PMIx_Data_pack(NULL, &buffer, &hosts, 1, PMIX_STRING), "PMIx_Data_pack");
    check(PMIx_Data_pack(NULL, &buffer, &ranks, 1, PMIX_STRING), "PMIx_Data_pack");
    check(PMIx_Data_pack(NULL, &buffer, &setup->count, 1, PMIX_SIZE), "PMIx_Data_pack");
    check(PMIx_Data_pack(NULL, &buffer, setup->infos, (int32_t)setup->count, PMIX_INFO), "PMIx_Data_pack");
    PMIX_DATA_BUFFER_UNLOAD(&buffer, bytes.bytes, bytes.size);
    fwrite(bytes.bytes, 1, bytes.size, stdout);
    free(bytes.bytes);
}

static void receive(char **hosts, char **ranks, struct call *setup)
{
    static char text[1 << 16];
    pmix_data_buffer_t buffer;
    char *bytes;
    size_t length = fread(text, 1, sizeof text, stdin);
    int32_t one = 1, count;

    bytes = malloc(length);
    memcpy(bytes, text, length);
    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    PMIX_DATA_BUFFER_LOAD(&buffer, bytes, length);
    check(PMIx_Data_unpack(NULL, &buffer, hosts, &one, PMIX_STRING), "PMIx_Data_unpack");
    check(PMIx_Data_unpack(NULL, &buffer, ranks, &one, PMIX_STRING), "PMIx_Data_unpack");
    check(PMIx_Data_unpack(NULL, &buffer, &setup->count, &one, PMIX_SIZE), "PMIx_Data_unpack");
    PMIX_INFO_CREATE(setup->infos, setup->count);
    count = (int32_t)setup->count;
    check(PMIx_Data_unpack(NULL, &buffer, setup->infos, &count, PMIX_INFO), "PMIx_Data_unpack");
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);
}

static void plan(const char *hosts, const char *ranks)
{
    pmix_server_module_t module = {0};
    struct call inventory = {0}, delivery = {0}, setup = {0};
    pmix_info_t info[4];
    pmix_envar_t limit = {"EXAMPLE_LIMIT", "60", '\0'};
    bool yes = true;

    sem_init(&inventory.ended, 0, 0), sem_init(&delivery.ended, 0, 0), sem_init(&setup.ended, 0, 0);
    PMIX_INFO_LOAD(&info[0], PMIX_SERVER_SCHEDULER, &yes, PMIX_BOOL);
    check(PMIx_server_init(&module, info, 1), "PMIx_server_init");
    /* Each node collects what it has. Here the scheduler's machine is the only node. Libraries without the directive ignore it. */
    PMIX_INFO_LOAD(&info[0], "modex.inventory", &yes, PMIX_BOOL);
    await(PMIx_server_collect_inventory(info, 1, on_inventory, &inventory), "PMIx_server_collect_inventory", &inventory);
    await(PMIx_server_deliver_inventory(inventory.infos, inventory.count, NULL, 0, on_end, &delivery),
          "PMIx_server_deliver_inventory", &delivery);
    /* What the job gets: the array is for PMIx alone. The scheduler passes it on as it is. */
    load_maps(info, hosts, ranks);
    load_allocation(&info[2]);
    PMIX_INFO_LOAD(&info[3], PMIX_SET_ENVAR, &limit, PMIX_ENVAR);
    await(PMIx_server_setup_application(JOB, info, 4, on_setup, &setup), "PMIx_server_setup_application", &setup);
    send(hosts, ranks, &setup);
    for (int i = 0; i < 4; i++) PMIX_INFO_DESTRUCT(&info[i]);
    PMIX_INFO_FREE(inventory.infos, inventory.count);
    PMIX_INFO_FREE(setup.infos, setup.count);
    check(PMIx_server_finalize(), "PMIx_server_finalize");
}

static void start(pmix_proc_t *proc, char *program)
{
    char **environment, *words[] = {program, "process", NULL};
    struct call call = {0};

    sem_init(&call.ended, 0, 0);
    await(PMIx_server_register_client(proc, getuid(), getgid(), NULL, on_end, &call), "PMIx_server_register_client", &call);
    PMIX_ARGV_COPY(environment, environ);
    check(PMIx_server_setup_fork(proc, &environment), "PMIx_server_setup_fork");
    fflush(NULL);
    if (fork() == 0) {
        execve(program, words, environment);
        perror(program);
        _exit(127);
    }
    PMIX_ARGV_FREE(environment);
}

/* The ranks of a node, cut out of those of all nodes, and the number of all ranks. */
static char *ranks_of(const char *host, char *hosts, char *ranks, uint32_t *size)
{
    char *end_of_host, *end_of_ranks;

    *size = 1;
    for (const char *letter = ranks; *letter; letter++) *size += *letter == ',' || *letter == ';';
    for (char *next = strtok_r(hosts, ",", &end_of_host), *list = strtok_r(ranks, ";", &end_of_ranks); next && list;
         next = strtok_r(NULL, ",", &end_of_host), list = strtok_r(NULL, ";", &end_of_ranks)) {
        if (!host || strcmp(next, host) == 0) return list;
    }
    return NULL;
}

static int launch(char *program, char *host)
{
    pmix_server_module_t module = {0};
    struct call setup = {0}, call = {0};
    pmix_info_t info[4];
    pmix_proc_t proc;
    char *hosts, *ranks, *local, *end = NULL;
    uint32_t size, local_size = 1;
    int status, failed = 0;

    sem_init(&setup.ended, 0, 0), sem_init(&call.ended, 0, 0);
    if (host) PMIX_INFO_LOAD(&info[0], PMIX_HOSTNAME, host, PMIX_STRING);
    check(PMIx_server_init(&module, info, host ? 1 : 0), "PMIx_server_init");
    if (host) PMIX_INFO_DESTRUCT(&info[0]);
    receive(&hosts, &ranks, &setup);
    await(PMIx_server_setup_local_support(JOB, setup.infos, setup.count, on_end, &call), "PMIx_server_setup_local_support", &call);
    load_maps(info, hosts, ranks);
    local = ranks_of(host, hosts, ranks, &size);
    check(local ? PMIX_SUCCESS : PMIX_ERR_NOT_FOUND, "the node in the job");
    for (const char *letter = local; *letter; letter++) local_size += *letter == ',';
    PMIX_INFO_LOAD(&info[2], PMIX_JOB_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[3], PMIX_LOCAL_SIZE, &local_size, PMIX_UINT32);
    await(PMIx_server_register_nspace(JOB, (int)local_size, info, 4, on_end, &call), "PMIx_server_register_nspace", &call);
    for (int i = 0; i < 4; i++) PMIX_INFO_DESTRUCT(&info[i]);
    PMIX_LOAD_PROCID(&proc, JOB, 0);
    for (char *rank = strtok_r(local, ",", &end); rank; rank = strtok_r(NULL, ",", &end)) {
        proc.rank = (pmix_rank_t)strtoul(rank, NULL, 10);
        start(&proc, program);
    }
    while (wait(&status) > 0) failed += status != 0;
    PMIX_INFO_FREE(setup.infos, setup.count);
    free(hosts);
    free(ranks);
    check(PMIx_server_finalize(), "PMIx_server_finalize");
    printf("%u processes have ended, %d of them with an error\n", local_size, failed);
    return failed > 0;
}

/* The infos in an info's value, if it is an array of them. */
static const pmix_info_t *infos_of(const pmix_value_t *value, size_t *count)
{
    bool is_array = value->type == PMIX_DATA_ARRAY && value->data.darray->type == PMIX_INFO;
    *count = is_array ? value->data.darray->size : 0;
    return is_array ? value->data.darray->array : NULL;
}

/* The number of endpoints of a process. Each process has an array, which begins with its rank. */
static size_t count_endpoints(const pmix_value_t *given, pmix_rank_t rank)
{
    size_t count, fact_count, endpoints = 0;
    const pmix_info_t *infos = infos_of(given, &count);

    for (size_t i = 0; i < count; i++) {
        const pmix_info_t *facts = infos_of(&infos[i].value, &fact_count);
        if (!PMIX_CHECK_KEY(&infos[i], PMIX_PROC_INFO_ARRAY) || fact_count != 2 || facts[0].value.data.rank != rank) continue;
        if (PMIX_CHECK_KEY(&facts[1], PMIX_FABRIC_ENDPT)) endpoints += facts[1].value.data.darray->size;
    }
    return endpoints;
}

/* The device of this process on the scheduler's fabric, if there is one. */
static void print_place(const pmix_proc_t *me)
{
    pmix_value_t *value;

    if (PMIx_Get(me, PMIX_FABRIC_ENDPT, NULL, 0, &value) != PMIX_SUCCESS) return;
    const pmix_endpoint_t *endpoints = value->data.darray->array;
    for (size_t i = 0; i < value->data.darray->size; i++) printf("rank %u is at %s\n", me->rank, endpoints[i].osname);
    PMIX_VALUE_RELEASE(value);
}

/* The value is an array: what the job has got under the name, and then the parts of the wish that were granted. */
static void process(void)
{
    pmix_proc_t me, job;
    pmix_value_t *value;
    const char *limit = getenv("EXAMPLE_LIMIT");
    size_t count, endpoints = 0, length = 0;

    check(PMIx_Init(&me, NULL, 0), "PMIx_Init");
    PMIX_LOAD_PROCID(&job, me.nspace, PMIX_RANK_WILDCARD);
    check(PMIx_Get(&job, NETWORK, NULL, 0, &value), "PMIx_Get of the allocation");
    const pmix_info_t *parts = infos_of(value, &count);
    for (size_t i = 0; i < count; i++) {
        if (PMIX_CHECK_KEY(&parts[i], NETWORK)) endpoints = count_endpoints(&parts[i].value, me.rank);
        if (PMIX_CHECK_KEY(&parts[i], PMIX_ALLOC_FABRIC_SEC_KEY)) length = parts[i].value.data.bo.size;
    }
    printf("rank %u has a limit of %s, a key of %zu bytes, endpoints: %zu\n", me.rank, limit ? limit : "nothing", length, endpoints);
    PMIX_VALUE_RELEASE(value);
    print_place(&me);
    check(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
}

int main(int argc, char **argv)
{
    uint32_t size = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    char host[256], ranks[4096] = "";

    if (argc == 3 && strcmp(argv[1], "plan") == 0 && size > 0 && size <= 512) {
        describe_local(size, host, ranks);
        return plan(host, ranks), 0;
    }
    if (argc == 4 && strcmp(argv[1], "plan") == 0) return plan(argv[2], argv[3]), 0;
    if ((argc == 2 || argc == 3) && strcmp(argv[1], "launch") == 0) return launch(argv[0], argv[2]);
    if (argc == 2 && strcmp(argv[1], "process") == 0) return process(), 0;
    fprintf(stderr, "usage: scheduler plan PROCESSES | scheduler launch\n"
                    "       scheduler plan NODES RANKS | scheduler launch NODE\n");
    return 1;
}
