/*
 * The launcher of one of two nodes: a PMIx server and two of the job's four ranks. Even ranks are on node 0.
 * The servers' data of each fence go through files in DIRECTORY.
 * usage: host NODE DIRECTORY PROGRAM [ARGUMENT...]
 */
#include <pmix.h>
#include <pmix_server.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATH_SIZE 512

extern char **environ;
static pmix_nspace_t job = "test-job";
static char *names[] = {"node0", "node1"};
static int node, fences;
static const char *directory;
static volatile int done;

static void succeed(pmix_status_t status, const char *call)
{
    if (PMIX_SUCCESS == status || PMIX_OPERATION_SUCCEEDED == status)
        return;
    fprintf(stderr, "host: %s: %s\n", call, PMIx_Error_string(status));
    exit(1);
}

static void on_done(pmix_status_t status, void *cbdata)
{
    (void)cbdata;
    succeed(status, "operation");
    done = 1;
}

static void await(pmix_status_t status, const char *call)
{
    succeed(status, call);
    while (PMIX_SUCCESS == status && !done)
        usleep(1000);
    done = 0;
}

static pmix_status_t take(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t answer, void *cbdata)
{
    (void)proc, (void)object;
    if (NULL != answer)
        answer(PMIX_SUCCESS, cbdata);
    return PMIX_SUCCESS;
}

static void send_part(const char *data, size_t size)
{
    char path[PATH_SIZE], unfinished[PATH_SIZE];
    snprintf(unfinished, sizeof unfinished, "%s/unfinished.%d", directory, node);
    snprintf(path, sizeof path, "%s/fence.%d.%d", directory, fences, node);
    FILE *file = fopen(unfinished, "w");
    if (NULL == file || size != fwrite(data, 1, size, file) || 0 != fclose(file) || 0 != rename(unfinished, path))
        exit(1);
}

/* Appends the part of a node when it has come. */
static void receive_part(int from, char **data, size_t *size)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/fence.%d.%d", directory, fences, from);
    while (0 != access(path, R_OK))
        usleep(1000);
    FILE *file = fopen(path, "r");
    fseek(file, 0, SEEK_END);
    size_t more = (size_t)ftell(file);
    rewind(file);
    *data = realloc(*data, *size + more + 1);
    if (more != fread(*data + *size, 1, more, file))
        exit(1);
    *size += more;
    fclose(file);
}

static pmix_status_t fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo, char *data,
                           size_t size, pmix_modex_cbfunc_t answer, void *cbdata)
{
    (void)procs, (void)nprocs, (void)info, (void)ninfo;
    char *all = NULL;
    size_t all_size = 0;
    send_part(data, size);
    for (int from = 0; from < 2; from++)
        receive_part(from, &all, &all_size);
    fences++;
    answer(PMIX_SUCCESS, all, all_size, cbdata, (pmix_release_cbfunc_t)free, all);
    return PMIX_SUCCESS;
}

static pmix_server_module_t module = {.client_connected = take, .client_finalized = take, .fence_nb = fence};

static void describe(void)
{
    uint32_t count = 4;
    char *nodes, *processes;
    pmix_info_t infos[5];

    succeed(PMIx_generate_regex("node0,node1", &nodes), "generate_regex");
    succeed(PMIx_generate_ppn("0,2;1,3", &processes), "generate_ppn");
    PMIX_INFO_LOAD(&infos[0], PMIX_JOB_SIZE, &count, PMIX_UINT32);
    PMIX_INFO_LOAD(&infos[1], PMIX_UNIV_SIZE, &count, PMIX_UINT32);
    PMIX_INFO_LOAD(&infos[2], PMIX_LOCAL_PEERS, 0 == node ? "0,2" : "1,3", PMIX_STRING);
    PMIX_INFO_LOAD(&infos[3], PMIX_NODE_MAP, nodes, PMIX_STRING);
    PMIX_INFO_LOAD(&infos[4], PMIX_PROC_MAP, processes, PMIX_STRING);
    await(PMIx_server_register_nspace(job, 2, infos, 5, on_done, NULL), "register_nspace");
}

static pid_t start(pmix_rank_t rank, char **program)
{
    pmix_proc_t proc;
    char **environment = NULL;
    pmix_status_t status;

    PMIX_LOAD_PROCID(&proc, job, rank);
    await(PMIx_server_register_client(&proc, getuid(), getgid(), NULL, on_done, NULL), "register_client");
    for (char **variable = environ; NULL != *variable; variable++)
        PMIX_ARGV_APPEND(status, environment, *variable);
    (void)status;
    succeed(PMIx_server_setup_fork(&proc, &environment), "setup_fork");
    pid_t pid = fork();
    if (0 == pid) {
        execve(program[0], program, environment);
        _exit(127);
    }
    return pid;
}

int main(int argc, char **argv)
{
    int status, code = 0;
    pid_t pids[2];
    pmix_info_t info;

    if (argc < 4) {
        fputs("usage: host NODE DIRECTORY PROGRAM [ARGUMENT...]\n", stderr);
        return 2;
    }
    node = '1' == argv[1][0];
    directory = argv[2];
    PMIX_INFO_LOAD(&info, PMIX_HOSTNAME, names[node], PMIX_STRING);
    succeed(PMIx_server_init(&module, &info, 1), "server_init");
    describe();
    for (int i = 0; i < 2; i++)
        pids[i] = start((pmix_rank_t)(node + 2 * i), argv + 3);
    for (int i = 0; i < 2; i++) {
        waitpid(pids[i], &status, 0);
        code |= 0 != status;
    }
    succeed(PMIx_server_finalize(), "server_finalize");
    return code;
}
