/* A host: it embeds a server, registers a job on this machine and starts the processes of the job.
 *
 *   cc host.c -o host -lpmix && ./host 4 ./client
 */
#include <pmix.h>
#include <pmix_server.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void check(pmix_status_t status, const char *call)
{
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "%s: %s\n", call, PMIx_Error_string(status));
        exit(1);
    }
}

/* All processes of the job are here. So the data of this server are the data of all. */
static pmix_status_t fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo, char *data,
                           size_t ndata, pmix_modex_cbfunc_t reply, void *reply_data)
{
    (void)procs, (void)nprocs, (void)info, (void)ninfo;
    reply(PMIX_SUCCESS, data, ndata, reply_data, free, data);
    return PMIX_SUCCESS;
}

static void finished(pmix_status_t status, void *semaphore)
{
    check(status, "a registration");
    sem_post(semaphore);
}

/* A registration gives its result to a callback, on the library's thread. */
static void await(pmix_status_t status, const char *call, sem_t *semaphore)
{
    if (status == PMIX_OPERATION_SUCCEEDED) return;
    check(status, call);
    while (sem_wait(semaphore) != 0) continue;
}

static void register_job(pmix_proc_t *job, uint32_t size, sem_t *done)
{
    pmix_info_t info[4];
    char host[256], *nodes, *processes, ranks[4096] = "";

    check(gethostname(host, sizeof host) == 0 ? PMIX_SUCCESS : PMIX_ERROR, "gethostname");
    for (uint32_t rank = 0; rank < size; rank++) {
        size_t used = strlen(ranks);
        snprintf(ranks + used, sizeof ranks - used, rank == 0 ? "%u" : ",%u", rank);
    }
    check(PMIx_generate_regex(host, &nodes), "PMIx_generate_regex");
    check(PMIx_generate_ppn(ranks, &processes), "PMIx_generate_ppn");
    PMIX_INFO_LOAD(&info[0], PMIX_JOB_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[1], PMIX_LOCAL_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[2], PMIX_NODE_MAP, nodes, PMIX_REGEX);
    PMIX_INFO_LOAD(&info[3], PMIX_PROC_MAP, processes, PMIX_REGEX);
    await(PMIx_server_register_nspace(job->nspace, (int)size, info, 4, finished, done), "PMIx_server_register_nspace", done);
    for (int i = 0; i < 4; i++) PMIX_INFO_DESTRUCT(&info[i]);
    free(nodes);
    free(processes);
}

static void start(pmix_proc_t *proc, char **program, sem_t *done)
{
    char **environment;

    await(PMIx_server_register_client(proc, getuid(), getgid(), NULL, finished, done), "PMIx_server_register_client", done);
    PMIX_ARGV_COPY(environment, environ);
    check(PMIx_server_setup_fork(proc, &environment), "PMIx_server_setup_fork");
    fflush(NULL);
    switch (fork()) {
    case -1: perror("fork"); exit(1);
    case 0:
        execve(program[0], program, environment);
        perror(program[0]);
        _exit(127);
    }
    PMIX_ARGV_FREE(environment);
}

int main(int argc, char **argv)
{
    pmix_server_module_t module = {.fence_nb = fence};
    pmix_proc_t proc;
    sem_t done;
    uint32_t size = argc > 2 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    int status, failed = 0;

    if (size == 0 || size > 512) {
        fprintf(stderr, "usage: host PROCESSES PROGRAM [ARGUMENT]...\n");
        return 1;
    }
    sem_init(&done, 0, 0);
    check(PMIx_server_init(&module, NULL, 0), "PMIx_server_init");
    PMIX_LOAD_PROCID(&proc, "job-1", PMIX_RANK_WILDCARD);
    register_job(&proc, size, &done);
    for (proc.rank = 0; proc.rank < size; proc.rank++) start(&proc, argv + 2, &done);
    while (wait(&status) > 0) failed += status != 0;
    PMIx_server_deregister_nspace(proc.nspace, finished, &done);
    while (sem_wait(&done) != 0) continue;
    check(PMIx_server_finalize(), "PMIx_server_finalize");
    printf("%u processes have ended, %d of them with an error\n", size, failed);
    return failed > 0;
}
