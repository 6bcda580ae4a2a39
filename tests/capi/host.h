/* A host and its clients in one program: a PMIx server that answers from a thread of its own. Each client is this
 * program again, with its role as an argument.
 *
 *     int main(int argc, char **argv) { return argc > 1 ? client(argv[1]) : host(); }
 */
#ifndef HOST_H
#define HOST_H

#include "check.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

extern char **environ;

static char host_directory[] = "/tmp/capi-XXXXXX";

/* ---- The host's thread: it answers after the upcall has returned, as the standard demands. */
struct answer {
    struct answer *next;
    void (*give)(struct answer *answer);
    union {
        pmix_op_cbfunc_t op;
        pmix_modex_cbfunc_t modex;
        pmix_lookup_cbfunc_t lookup;
        pmix_spawn_cbfunc_t spawn;
        pmix_info_cbfunc_t info;
        pmix_credential_cbfunc_t credential;
        pmix_validation_cbfunc_t validation;
    } call;
    void *data;
    pmix_status_t status;
    void *payload;
    size_t count;
    int times;
};

static struct answer *answers_first, **answers_last = &answers_first;
static pthread_mutex_t answers_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t answers_changed = PTHREAD_COND_INITIALIZER;
static bool answers_over;
static pthread_t answers_thread;

static UNUSED void answer_later(struct answer *answer)
{
    pthread_mutex_lock(&answers_lock);
    answer->next = NULL;
    *answers_last = answer;
    answers_last = &answer->next;
    pthread_cond_signal(&answers_changed);
    pthread_mutex_unlock(&answers_lock);
}

static UNUSED struct answer *answer_new(void (*give)(struct answer *), void *data, pmix_status_t status)
{
    struct answer *answer = calloc(1, sizeof *answer);
    answer->give = give;
    answer->data = data;
    answer->status = status;
    answer->times = 1;
    return answer;
}

static UNUSED void *answers_run(void *unused)
{
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&answers_lock);
        while (!answers_first && !answers_over) pthread_cond_wait(&answers_changed, &answers_lock);
        struct answer *answer = answers_first;
        if (!answer) {
            pthread_mutex_unlock(&answers_lock);
            return NULL;
        }
        answers_first = answer->next;
        if (!answers_first) answers_last = &answers_first;
        pthread_mutex_unlock(&answers_lock);
        answer->give(answer);
        free(answer);
    }
}

static UNUSED void give_op(struct answer *answer)
{
    for (int i = 0; i < answer->times; i++) answer->call.op(answer->status, answer->data);
}

/* Most upcalls need only a status. */
static UNUSED pmix_status_t answer_op(pmix_op_cbfunc_t callback, void *data, pmix_status_t status)
{
    struct answer *answer = answer_new(give_op, data, status);
    answer->call.op = callback;
    answer_later(answer);
    return PMIX_SUCCESS;
}

static UNUSED void infos_release(void *array)
{
    pmix_data_array_t *infos = array;
    PMIX_DATA_ARRAY_FREE(infos);
}

static UNUSED void give_infos(struct answer *answer)
{
    pmix_data_array_t *infos = answer->payload;
    answer->call.info(answer->status, infos ? infos->array : NULL, infos ? infos->size : 0, answer->data,
                      infos ? infos_release : NULL, infos);
}

/* Answers with one info, or none if `key` is NULL. */
static UNUSED pmix_status_t answer_info(pmix_info_cbfunc_t callback, void *data, pmix_status_t status, const char *key,
                                        const char *text)
{
    struct answer *answer = answer_new(give_infos, data, status);
    answer->call.info = callback;
    if (key) {
        pmix_data_array_t *infos;
        PMIX_DATA_ARRAY_CREATE(infos, 1, PMIX_INFO);
        PMIX_INFO_LOAD((pmix_info_t *)infos->array, key, text, PMIX_STRING);
        answer->payload = infos;
    }
    answer_later(answer);
    return PMIX_SUCCESS;
}

/* ---- Checks of upcalls: the info with this key, or NULL. */
static UNUSED const pmix_info_t *info_of(const pmix_info_t *infos, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(infos[i].key, key) == 0) return &infos[i];
    return NULL;
}

/* Every upcall of semantics.md 21.1 must carry the requester's ids, from the kernel, among its directives. Stock 4.2.2
 * adds the user to the name service's upcalls only, and the group to none. */
#define CHECK_REQUESTER(infos, count)                                                           \
    do {                                                                                        \
        const pmix_info_t *uid_ = info_of((infos), (count), PMIX_USERID);                       \
        const pmix_info_t *gid_ = info_of((infos), (count), PMIX_GRPID);                        \
        if (stock()) break;                                                                     \
        CHECK(uid_ && uid_->value.type == PMIX_UINT32 && uid_->value.data.uint32 == geteuid()); \
        CHECK(gid_ && gid_->value.type == PMIX_UINT32 && gid_->value.data.uint32 == getegid()); \
    } while (0)

/* ---- The server and its jobs. */
static UNUSED void host_start_with(pmix_server_module_t *module, const pmix_info_t *more, size_t count)
{
    pmix_info_t info[8];
    memset(info, 0, sizeof info);
    strcpy(host_directory, "/tmp/capi-XXXXXX"); /* one program may start several hosts in turn */
    answers_over = false;
    if (!mkdtemp(host_directory)) exit(2);
    PMIX_INFO_LOAD(&info[0], PMIX_SERVER_TMPDIR, host_directory, PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_SYSTEM_TMPDIR, host_directory, PMIX_STRING);
    PMIX_INFO_LOAD(&info[2], PMIX_SERVER_NSPACE, "capi-host", PMIX_STRING);
    uint32_t rank = 0;
    PMIX_INFO_LOAD(&info[3], PMIX_SERVER_RANK, &rank, PMIX_PROC_RANK);
    for (size_t i = 0; i < count; i++) info[4 + i] = more[i];
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_init(module, info, 4 + count));
    for (size_t i = 0; i < 4; i++) PMIX_INFO_DESTRUCT(&info[i]);
    pthread_create(&answers_thread, NULL, answers_run, NULL);
}

static UNUSED void host_start(pmix_server_module_t *module) { host_start_with(module, NULL, 0); }

/* Describes a job whose ranks are all local, or (size > local) on two nodes. */
static UNUSED void host_job(const char *nspace, uint32_t size, uint32_t local)
{
    pmix_info_t info[8];
    char host[256] = "", nodes[300], ranks[4096] = "", *regex = NULL, *ppn = NULL;
    struct done done = DONE;
    size_t count = 0;

    memset(info, 0, sizeof info);
    gethostname(host, sizeof host - 1);
    snprintf(nodes, sizeof nodes, size > local ? "%s,elsewhere" : "%s", host);
    for (uint32_t i = 0; i < size; i++) {
        const char *before = i == 0 ? "" : i == local ? ";" : ",";
        snprintf(ranks + strlen(ranks), sizeof ranks - strlen(ranks), "%s%u", before, i);
    }
    CHECK_STATUS(PMIX_SUCCESS, PMIx_generate_regex(nodes, &regex));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_generate_ppn(ranks, &ppn));
    PMIX_INFO_LOAD(&info[count++], PMIX_NODE_MAP, regex, PMIX_REGEX);
    PMIX_INFO_LOAD(&info[count++], PMIX_PROC_MAP, ppn, PMIX_REGEX);
    PMIX_INFO_LOAD(&info[count++], PMIX_JOB_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[count++], PMIX_UNIV_SIZE, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[count++], PMIX_MAX_PROCS, &size, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[count++], PMIX_JOBID, nspace, PMIX_STRING);
    pmix_status_t status = PMIx_server_register_nspace(nspace, (int)local, info, count, op_done, &done);
    CHECK_STATUS(PMIX_SUCCESS, done_result(&done, status));
    for (size_t i = 0; i < count; i++) PMIX_INFO_DESTRUCT(&info[i]);
    free(regex);
    free(ppn);
    for (uint32_t i = 0; i < local; i++) {
        struct done registered = DONE;
        pmix_proc_t proc = proc_of(nspace, i);
        status = PMIx_server_register_client(&proc, geteuid(), getegid(), (void *)(uintptr_t)(1000 + i), op_done, &registered);
        CHECK_STATUS(PMIX_SUCCESS, done_result(&registered, status));
    }
}

/* The clients may use another library than the host: tests/interop sets CAPI_CLIENT_LIBRARY_PATH to its folder (empty:
 * the system's, OpenPMIx 4.2.2). */
static UNUSED void host_set(char ***env, const char *name, const char *value)
{
    size_t count = 0, length = strlen(name);
    char *text = malloc(length + strlen(value) + 2);
    sprintf(text, "%s=%s", name, value);
    for (; (*env)[count]; count++)
        if (strncmp((*env)[count], text, length + 1) == 0) {
            free((*env)[count]);
            (*env)[count] = text;
            return;
        }
    *env = realloc(*env, (count + 2) * sizeof **env);
    (*env)[count] = text;
    (*env)[count + 1] = NULL;
}

static UNUSED void host_give_library(char ***env)
{
    const char *path = getenv("CAPI_CLIENT_LIBRARY_PATH");
    if (!path) return;
    host_set(env, "LD_LIBRARY_PATH", path);
    host_set(env, "MODEX_CAPI_STOCK", "1");
}

/* The path of this program. */
static UNUSED const char *own_program(void)
{
    static char self[4096];
    const char *valgrinded = getenv("CAPI_PROGRAM"); /* under valgrind, /proc/self/exe names valgrind */

    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = 0;
    return valgrinded ? valgrinded : self;
}

/* Starts one rank: this program again, with `role` as its argument. */
static UNUSED pid_t host_fork(const char *nspace, uint32_t rank, const char *role)
{
    pmix_proc_t proc = proc_of(nspace, rank);
    char **env = NULL, name[300];
    int count = 0;

    /* The environment in a launcher's form: a malloc'ed vector of malloc'ed texts. */
    while (environ[count]) count++;
    env = calloc((size_t)count + 1, sizeof *env);
    for (int i = 0; i < count; i++) env[i] = strdup(environ[i]);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_setup_fork(&proc, &env));
    host_give_library(&env);
    snprintf(name, sizeof name, "%s:%u", nspace, rank);
    char *argv[] = {(char *)own_program(), (char *)role, NULL};
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        execve(argv[0], argv, env);
        _exit(127);
    }
    for (char **each = env; *each; each++) free(*each);
    free(env);
    return pid;
}

/* Runs a tool: this program again, with `role` as its argument. PLACE is the directory of the server's files. Returns its exit
 * code. */
static UNUSED int host_run_tool(const char *role)
{
    const char *program = own_program();
    int status = 0;

    setenv("PLACE", host_directory, 1);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        execl(program, "tool", role, (char *)NULL);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Waits for a rank and expects this end: an exit code, or minus a signal. */
static UNUSED void host_wait(pid_t pid, int expected)
{
    int status = 0;
    waitpid(pid, &status, 0);
    int found = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    CHECK_NUMBER(expected, found);
}

/* Runs all local ranks of a new job in one role. */
static UNUSED void host_run(const char *nspace, uint32_t size, uint32_t local, const char *role)
{
    pid_t pids[64];
    host_job(nspace, size, local);
    for (uint32_t i = 0; i < local; i++) pids[i] = host_fork(nspace, i, role);
    for (uint32_t i = 0; i < local; i++) host_wait(pids[i], 0);
}

/* Data that a setup has collected. */
struct host_setup {
    struct done done;
    pmix_info_t *info;
    size_t count;
};

static UNUSED void host_on_setup(pmix_status_t status, pmix_info_t info[], size_t count, void *data, pmix_op_cbfunc_t release,
                                 void *release_data)
{
    struct host_setup *setup = data;
    if (status == PMIX_SUCCESS && count > 0) {
        PMIX_INFO_CREATE(setup->info, count);
        for (size_t i = 0; i < count; i++) PMIX_INFO_XFER(&setup->info[i], &info[i]);
        setup->count = count;
    }
    if (release) release(PMIX_SUCCESS, release_data);
    op_done(status, &setup->done);
}

/* Collects a job's data with infos and the ranks of each node ("0,1;2"), and takes it on this node. Destroys the infos, of which the
 * first two are for the maps. Returns the number of collected infos. */
static UNUSED size_t host_set_up(const char *nspace, const char *nodes, const char *ranks, pmix_info_t *info, size_t count,
                                 pmix_status_t expected)
{
    struct host_setup setup = {DONE, NULL, 0};
    struct done supported = DONE;
    char *regex = NULL, *ppn = NULL;

    CHECK_STATUS(PMIX_SUCCESS, PMIx_generate_regex(nodes, &regex));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_generate_ppn(ranks, &ppn));
    PMIX_INFO_LOAD(&info[0], PMIX_NODE_MAP, regex, PMIX_REGEX);
    PMIX_INFO_LOAD(&info[1], PMIX_PROC_MAP, ppn, PMIX_REGEX);
    pmix_status_t status = PMIx_server_setup_application(nspace, info, count, host_on_setup, &setup);
    if (status == PMIX_SUCCESS) status = done_result(&setup.done, status);
    CHECK_STATUS(expected, status);
    if (status == PMIX_SUCCESS) {
        status = PMIx_server_setup_local_support(nspace, setup.info, setup.count, op_done, &supported);
        CHECK_STATUS(PMIX_SUCCESS, status == PMIX_SUCCESS ? done_result(&supported, status) : status);
        PMIX_INFO_FREE(setup.info, setup.count);
    }
    for (size_t i = 0; i < count; i++) PMIX_INFO_DESTRUCT(&info[i]);
    free(regex);
    free(ppn);
    return setup.count;
}

/* Forgets a job. */
static UNUSED void host_forget(const char *nspace)
{
    struct done done = DONE;
    PMIx_server_deregister_nspace(nspace, op_done, &done);
    done_wait(&done);
}

/* Gives the due answers, then stops the thread. */
static UNUSED void host_silent(void)
{
    pthread_mutex_lock(&answers_lock);
    answers_over = true;
    pthread_cond_signal(&answers_changed);
    pthread_mutex_unlock(&answers_lock);
    pthread_join(answers_thread, NULL);
}

/* Cleans up after the end of the server. */
static UNUSED void host_over(void)
{
    /* Stock may leave its rendezvous files; ours leaves nothing. */
    CHECK_UNLESS_STOCK("leaves files", rmdir(host_directory) == 0);
    if (stock()) {
        char command[64];
        snprintf(command, sizeof command, "rm -rf %s", host_directory);
        CHECK_NUMBER(0, system(command));
    }
}

static UNUSED void host_stop(void)
{
    host_silent();
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_finalize());
    host_over();
}

/* A server without work, for a library that lacks the service of a chapter. */
static UNUSED int host_idle(void)
{
    static pmix_server_module_t module;
    host_start(&module);
    host_stop();
    return finish();
}

/* ---- The client side. */
static pmix_proc_t me;
static UNUSED void client_start(void) { CHECK_STATUS(PMIX_SUCCESS, PMIx_Init(&me, NULL, 0)); }
/* A tool of the server in PLACE. `choice`: a switch for the choice of the server, or NULL. */
static UNUSED void tool_start(const char *choice)
{
    pmix_info_t info[4];
    uint32_t rank = 3;
    size_t count = choice ? 4 : 3;

    PMIX_INFO_LOAD(&info[0], PMIX_SYSTEM_TMPDIR, getenv("PLACE"), PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_TOOL_NSPACE, "tool", PMIX_STRING);
    PMIX_INFO_LOAD(&info[2], PMIX_TOOL_RANK, &rank, PMIX_PROC_RANK);
    if (choice) PMIX_INFO_LOAD(&info[3], choice, NULL, PMIX_BOOL);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_init(&me, info, count));
    for (size_t i = 0; i < count; i++) PMIX_INFO_DESTRUCT(&info[i]);
}

static UNUSED int tool_end(void)
{
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_finalize());
    return finish();
}

static UNUSED int client_end(void)
{
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    return finish();
}
static UNUSED void fence_all(bool collect)
{
    pmix_info_t info;
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence(NULL, 0, &info, 1));
    PMIX_INFO_DESTRUCT(&info);
}

#endif
