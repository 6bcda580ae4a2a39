/* A host that forks while other threads use its server, and asks for the environment in the child, as Slurm does. The
 * child has none of the server's threads, and a lock that one of them held stays locked there. */
#include "host.h"

#define FORKS_MAX 300
#define CHILD_SECONDS 60
/* The allocator of gcc's AddressSanitizer stays locked in a child if another thread was in it. */
#ifdef __SANITIZE_ADDRESS__
#define LOADS 0
#else
#define LOADS 3
#endif

static atomic_bool is_over;

/* ---- Threads that change the data that children read. */
static void *registrar(void *unused)
{
    char nspace[64];
    for (unsigned i = 0; !atomic_load(&is_over); i++) {
        struct done done = DONE, gone = DONE;
        snprintf(nspace, sizeof nspace, "busy-%u", i);
        CHECK_STATUS(PMIX_SUCCESS, done_result(&done, PMIx_server_register_nspace(nspace, 0, NULL, 0, op_done, &done)));
        PMIx_server_deregister_nspace(nspace, op_done, &gone);
        done_wait(&gone);
    }
    return unused;
}

/* The job whose processes are forked, too: each of its variables always has the same value for both. */
static void set_up(const char *nspace, unsigned number)
{
    char text[32];
    pmix_info_t info[2];
    pmix_envar_t one = {.envar = "FORKS_ONE", .value = text, .separator = ':'};
    pmix_envar_t other = {.envar = "FORKS_OTHER", .value = text, .separator = ':'};
    struct done done = DONE;

    snprintf(text, sizeof text, "%u", number);
    PMIX_INFO_LOAD(&info[0], PMIX_SET_ENVAR, &one, PMIX_ENVAR);
    PMIX_INFO_LOAD(&info[1], PMIX_SET_ENVAR, &other, PMIX_ENVAR);
    CHECK_STATUS(PMIX_SUCCESS, done_result(&done, PMIx_server_setup_local_support(nspace, info, 2, op_done, &done)));
    PMIX_INFO_DESTRUCT(&info[0]);
    PMIX_INFO_DESTRUCT(&info[1]);
}

static void *preparer(void *unused)
{
    for (unsigned i = 1; !atomic_load(&is_over); i++) set_up("forked", i);
    return unused;
}

static void env_free(char **env)
{
    for (char **each = env; each && *each; each++) free(*each);
    free(env);
}

static void *reader(void *unused)
{
    pmix_proc_t proc = proc_of("forked", 0);
    for (int i = 0; !atomic_load(&is_over); i++) {
        char **env = NULL, *regex = NULL;
        CHECK_STATUS(PMIX_SUCCESS, PMIx_server_setup_fork(&proc, &env));
        env_free(env);
        CHECK_STATUS(PMIX_SUCCESS, PMIx_generate_regex("n1,n2,n3", &regex));
        free(regex);
        CHECK(PMIx_Error_string(-(i % 200)) != NULL);
    }
    return unused;
}

/* ---- The child: it has only this thread. */
static const char *variable(char **env, const char *name)
{
    size_t length = strlen(name);
    for (; env && *env; env++)
        if (strncmp(*env, name, length) == 0 && (*env)[length] == '=') return *env + length + 1;
    return NULL;
}

/* 0, or the line number of the failed condition. */
#define MUST(condition) \
    do {                \
        if (!(condition)) return __LINE__; \
    } while (0)

static int child_checks(char ***env, uint32_t rank)
{
    static const char *const names[] = {
        "PMIX_NAMESPACE",          "PMIX_RANK",         "PMIX_SECURITY_MODE", "PMIX_BFROP_BUFFER_TYPE", "PMIX_GDS_MODULE",
        "PMIX_SERVER_TMPDIR",      "PMIX_SYSTEM_TMPDIR", "PMIX_HOSTNAME",     "PMIX_VERSION",           "PMIX_SERVER_URI2",
        "PMIX_SERVER_URI21",       "PMIX_SERVER_URI3",  "PMIX_SERVER_URI4",   "PMIX_SERVER_URI41",
    };
    pmix_proc_t proc = proc_of("forked", rank);
    char *text = NULL, number[16];
    int status;

    MUST(PMIx_server_setup_fork(&proc, env) == PMIX_SUCCESS);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) MUST(variable(*env, names[i]));
    snprintf(number, sizeof number, "%u", rank);
    MUST(strcmp(variable(*env, "PMIX_NAMESPACE"), "forked") == 0);
    MUST(strcmp(variable(*env, "PMIX_RANK"), number) == 0);
    const char *one = variable(*env, "FORKS_ONE"), *other = variable(*env, "FORKS_OTHER");
    MUST(stock() || (one && other && strcmp(one, other) == 0)); /* the stock server sets none of them */
    MUST(PMIx_generate_regex("n1,n2,n3", &text) == PMIX_SUCCESS);
    free(text);
    MUST(PMIx_generate_ppn("0,1;2,3;4", &text) == PMIX_SUCCESS);
    free(text);
    MUST(PMIx_Get_version() && PMIx_Error_string(PMIX_ERR_NOT_FOUND) && PMIx_Scope_string(PMIX_GLOBAL));
    PMIX_ARGV_APPEND(status, *env, "FORKS=last");
    MUST(status == PMIX_SUCCESS);
    if (!stock()) { /* stock waits for ever for a thread that does not exist here */
        MUST(PMIx_server_register_nspace("of-a-child", 0, NULL, 0, NULL, NULL) == PMIX_ERR_INIT);
        MUST(PMIx_server_setup_local_support("forked", NULL, 0, NULL, NULL) == PMIX_ERR_INIT);
    }
    return 0;
}

/* The lines of this file fit into an exit code. */
_Static_assert(__LINE__ < 250, "a line's number is an exit code");

/* A child that reads and ends, or that continues as a client. */
static pid_t fork_child(uint32_t rank, bool is_client)
{
    const char *valgrinded = getenv("CAPI_PROGRAM");
    fflush(stdout);
    pid_t pid = fork();
    if (pid) return pid;
    alarm(CHILD_SECONDS); /* a forked child has no alarm of its own; a hanging one must not survive */
    char **env = NULL;
    for (char **each = environ; *each; each++) {
        int status;
        PMIX_ARGV_APPEND(status, env, *each);
        if (status) _exit(251);
    }
    int failed = child_checks(&env, rank);
    if (failed) _exit(failed);
    /* Success. At a normal exit valgrind would search all the host's mappings for leaks, which takes minutes. */
    if (!is_client) execl("/bin/true", "true", (char *)NULL);
    char *argv[] = {valgrinded ? (char *)valgrinded : "/proc/self/exe", "client", NULL};
    execve(argv[0], argv, env);
    _exit(252);
}

static int client(void)
{
    pmix_proc_t peer;
    char text[64];

    client_start();
    peer = proc_of(me.nspace, 1 - me.rank);
    snprintf(text, sizeof text, "card of %u", me.rank);
    CHECK_STATUS(PMIX_SUCCESS, put_text(PMIX_GLOBAL, "card", text));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Commit());
    fence_all(true);
    snprintf(text, sizeof text, "card of %u", peer.rank);
    GET_TEXT(text, &peer, "card");
    return client_end();
}

static pmix_server_module_t module; /* nothing */

int main(int argc, char **argv)
{
    if (argc > 1) return strcmp(argv[1], "client") == 0 ? client() : 2;
    void *(*const loads[])(void *) = {registrar, preparer, reader};
    pthread_t threads[3];
    /* Valgrind runs one thread at a time: forks meet fewer unfinished operations there, and take longer. */
    int forks = getenv("LD_PRELOAD") && strstr(getenv("LD_PRELOAD"), "vgpreload") ? 5 : FORKS_MAX;

    host_start(&module);
    host_job("forked", 2, 2);
    set_up("forked", 0);
    for (int i = 0; i < LOADS; i++) pthread_create(&threads[i], NULL, loads[i], NULL);
    for (int i = 0; i < forks && atomic_load(&checks_failed) == 0; i++) host_wait(fork_child((uint32_t)i % 2, false), 0);
    pid_t clients[2] = {fork_child(0, true), fork_child(1, true)};
    for (int i = 0; i < 2; i++) host_wait(clients[i], 0);
    atomic_store(&is_over, true);
    for (int i = 0; i < LOADS; i++) pthread_join(threads[i], NULL);
    host_forget("forked");
    host_stop();
    return finish();
}
