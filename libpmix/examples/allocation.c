/* A scheduler in small: a host that gives nodes to tools, and takes them back.
 *
 *   cc allocation.c -o allocation -lpmix && ./allocation
 *
 * The program starts itself once more, as a tool that asks for nodes.
 */
#include <pmix.h>
#include <pmix_server.h>
#include <pmix_tool.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NODES = 4 };

static void check(pmix_status_t status, const char *call)
{
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "%s: %s\n", call, PMIx_Error_string(status));
        exit(1);
    }
}

/* The number of the allocation that has each node; 0: none. The library calls a host's functions on one thread, so
 * this needs no lock. */
static unsigned holders[NODES];

static unsigned nodes_of(unsigned allocation)
{
    unsigned count = 0;

    for (int i = 0; i < NODES; i++) count += holders[i] == allocation;
    return count;
}

/* All wanted nodes or none. */
static pmix_status_t take(unsigned allocation, uint64_t wanted)
{
    if (wanted == 0) return PMIX_ERR_BAD_PARAM;
    if (wanted > nodes_of(0)) return PMIX_ERR_OUT_OF_RESOURCE;
    for (int i = 0; i < NODES && wanted > 0; i++)
        if (holders[i] == 0) holders[i] = allocation, wanted--;
    return PMIX_SUCCESS;
}

static void release(void *array)
{
    pmix_data_array_t *infos = array;
    PMIX_DATA_ARRAY_FREE(infos);
}

/* Answers with the name, the number of nodes and the nodes of an allocation. */
static void describe(unsigned allocation, pmix_info_cbfunc_t answer, void *data)
{
    pmix_data_array_t *infos;
    char name[16], list[8 * NODES] = "";
    uint64_t count = nodes_of(allocation);

    for (int i = 0; i < NODES; i++) {
        size_t used = strlen(list);
        if (holders[i] == allocation) snprintf(list + used, sizeof list - used, "%sn%d", used > 0 ? "," : "", i);
    }
    snprintf(name, sizeof name, "%u", allocation);
    PMIX_DATA_ARRAY_CREATE(infos, 3, PMIX_INFO);
    pmix_info_t *info = infos->array;
    PMIX_INFO_LOAD(&info[0], PMIX_ALLOC_ID, name, PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_ALLOC_NUM_NODES, &count, PMIX_UINT64);
    PMIX_INFO_LOAD(&info[2], PMIX_ALLOC_NODE_LIST, list, PMIX_STRING);
    answer(PMIX_SUCCESS, info, infos->size, data, release, infos);
}

/* A refusal is the status that the function returns. A scheduler that must wait answers later, from any thread. */
static pmix_status_t allocate(const pmix_proc_t *requester, pmix_alloc_directive_t directive, const pmix_info_t info[],
                              size_t ninfo, pmix_info_cbfunc_t answer, void *data)
{
    static unsigned last;
    unsigned allocation = 0;
    uint64_t wanted = 0;
    pmix_status_t status = PMIX_SUCCESS;

    (void)requester; /* A real scheduler gives an allocation back to its owner alone. */
    for (size_t i = 0; i < ninfo; i++) {
        const pmix_value_t *value = &info[i].value;
        if (PMIX_CHECK_KEY(&info[i], PMIX_ALLOC_NUM_NODES) && value->type == PMIX_UINT64) wanted = value->data.uint64;
        else if (PMIX_CHECK_KEY(&info[i], PMIX_ALLOC_ID) && value->type == PMIX_STRING)
            allocation = (unsigned)strtoul(value->data.string, NULL, 10);
        else if (PMIX_INFO_IS_REQUIRED(&info[i])) return PMIX_ERR_NOT_SUPPORTED;
    }
    if (directive != PMIX_ALLOC_NEW && (allocation == 0 || nodes_of(allocation) == 0)) return PMIX_ERR_NOT_FOUND;
    switch (directive) {
    case PMIX_ALLOC_NEW: status = take(allocation = last + 1, wanted); break;
    case PMIX_ALLOC_EXTEND: status = take(allocation, wanted); break;
    case PMIX_ALLOC_RELEASE:
        for (int i = 0; i < NODES; i++)
            if (holders[i] == allocation) holders[i] = 0;
        break;
    default: return PMIX_ERR_NOT_SUPPORTED;
    }
    if (status != PMIX_SUCCESS) return status;
    if (allocation > last) last = allocation;
    describe(allocation, answer, data);
    return PMIX_SUCCESS;
}

/* Each tool gets a name. The library has compared the tool's user with the server's before. */
static void admit(pmix_info_t *info, size_t ninfo, pmix_tool_connection_cbfunc_t answer, void *data)
{
    pmix_proc_t tool;

    (void)info, (void)ninfo;
    PMIX_LOAD_PROCID(&tool, "tool", 0);
    answer(PMIX_SUCCESS, &tool, data);
}

/* Asks for an allocation, prints the answer, and keeps the name of the allocation. */
static void ask(const char *what, pmix_alloc_directive_t directive, uint64_t nodes, char name[16])
{
    pmix_info_t info[2], *results = NULL;
    size_t count = 0;
    pmix_status_t status;

    PMIX_INFO_LOAD(&info[0], PMIX_ALLOC_NUM_NODES, &nodes, PMIX_UINT64);
    PMIX_INFO_LOAD(&info[1], PMIX_ALLOC_ID, name, PMIX_STRING);
    status = PMIx_Allocation_request(directive, info, directive == PMIX_ALLOC_NEW ? 1 : 2, &results, &count);
    if (status != PMIX_SUCCESS) printf("%s: %s\n", what, PMIx_Error_string(status));
    for (size_t i = 0; i < count; i++)
        if (PMIX_CHECK_KEY(&results[i], PMIX_ALLOC_ID)) snprintf(name, 16, "%s", results[i].value.data.string);
        else if (PMIX_CHECK_KEY(&results[i], PMIX_ALLOC_NODE_LIST))
            printf("%s: allocation %s has [%s]\n", what, name, results[i].value.data.string);
    PMIX_INFO_FREE(results, count);
    PMIX_INFO_DESTRUCT(&info[0]);
    PMIX_INFO_DESTRUCT(&info[1]);
}

static int tool(pid_t server)
{
    pmix_proc_t me;
    pmix_info_t info;
    char mine[16] = "", other[16] = "";

    PMIX_INFO_LOAD(&info, PMIX_SERVER_PIDINFO, &server, PMIX_PID);
    check(PMIx_tool_init(&me, &info, 1), "PMIx_tool_init");
    PMIX_INFO_DESTRUCT(&info);
    ask("new", PMIX_ALLOC_NEW, 2, mine);
    ask("more", PMIX_ALLOC_EXTEND, 1, mine);
    ask("too many", PMIX_ALLOC_NEW, 2, other);
    ask("back", PMIX_ALLOC_RELEASE, 0, mine);
    ask("again", PMIX_ALLOC_NEW, 4, other);
    check(PMIx_tool_finalize(), "PMIx_tool_finalize");
    return 0;
}

int main(int argc, char **argv)
{
    pmix_server_module_t module = {.tool_connected = admit, .allocate = allocate};
    pmix_info_t info[3];
    bool yes = true;
    uint32_t rank = 0;
    char number[16];
    int status = 1;

    if (argc > 1) return tool((pid_t)strtol(argv[1], NULL, 10));
    PMIX_INFO_LOAD(&info[0], PMIX_SERVER_TOOL_SUPPORT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_SERVER_NSPACE, "scheduler", PMIX_STRING);
    PMIX_INFO_LOAD(&info[2], PMIX_SERVER_RANK, &rank, PMIX_PROC_RANK);
    check(PMIx_server_init(&module, info, 3), "PMIx_server_init");
    for (int i = 0; i < 3; i++) PMIX_INFO_DESTRUCT(&info[i]);
    snprintf(number, sizeof number, "%d", (int)getpid());
    switch (fork()) {
    case -1: perror("fork"); break;
    case 0:
        execl("/proc/self/exe", argv[0], number, NULL);
        perror("execl");
        _exit(127);
    default: wait(&status);
    }
    check(PMIx_server_finalize(), "PMIx_server_finalize");
    return status != 0;
}
