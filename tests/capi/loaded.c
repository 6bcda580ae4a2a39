/* A library that is opened and closed, as by Open MPI, Slurm and Intel MPI: this program is not linked with it. The
 * host answers while the library is closed, and again after the next opening. A client closes it with an open request. */
#include "check.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

extern char **environ;

/* The functions, found by name; each has its prototype's type. */
#define FUNCTIONS(F)                                                                                                  \
    F(PMIx_Init) F(PMIx_Finalize) F(PMIx_Initialized) F(PMIx_Get) F(PMIx_Publish_nb) F(PMIx_Fence)                    \
    F(PMIx_Register_event_handler) F(PMIx_server_init) F(PMIx_server_finalize) F(PMIx_server_register_nspace)         \
    F(PMIx_server_register_client) F(PMIx_server_setup_fork) F(PMIx_Get_version)
#define DECLARE(name) static __typeof__(name) *p##name;
FUNCTIONS(DECLARE)

static void *library;
static char library_file[4096];

static bool is_mapped(void)
{
    char line[4400];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) found = found || strstr(line, "libpmix.so");
    fclose(maps);
    return found;
}

static void open_library(void)
{
    Dl_info where;
    library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        printf("%s\n", dlerror());
        exit(2);
    }
#define FIND(name) *(void **)&p##name = dlsym(library, #name);
    FUNCTIONS(FIND)
#define THERE(name) CHECK(p##name != NULL);
    FUNCTIONS(THERE)
    if (dladdr((void *)(uintptr_t)pPMIx_Get_version, &where)) snprintf(library_file, sizeof library_file, "%s", where.dli_fname);
}

static int finish_here(void)
{
    int failed = atomic_load(&checks_failed);
    printf("library %s\n%d checks, %d failed\n", library_file, atomic_load(&checks_done), failed);
    fflush(stdout);
    return failed ? 1 : 0;
}

/* ---- The client. */
static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t n,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void)id, (void)status, (void)source, (void)info, (void)n, (void)results, (void)nresults;
    if (done) done(PMIX_SUCCESS, NULL, 0, NULL, NULL, data);
}

static void life(void)
{
    static struct done unanswered;
    struct done registered = DONE;
    pmix_proc_t me, wild;
    pmix_value_t *size = NULL;
    pmix_status_t code = -5000;
    static pmix_info_t info; /* must outlive the request */

    unanswered = (struct done)DONE;
    open_library();
    CHECK_NUMBER(PMIX_SUCCESS, pPMIx_Init(&me, NULL, 0));
    wild = me;
    wild.rank = PMIX_RANK_WILDCARD;
    CHECK_NUMBER(PMIX_SUCCESS, pPMIx_Get(&wild, PMIX_JOB_SIZE, NULL, 0, &size));
    if (size) CHECK_NUMBER(1, size->data.uint32);
    free(size);
    CHECK_NUMBER(PMIX_SUCCESS, pPMIx_Register_event_handler(&code, 1, NULL, 0, on_event, reg_done, &registered));
    CHECK_NUMBER(PMIX_SUCCESS, done_wait(&registered));
    memset(&info, 0, sizeof info);
    strcpy(info.key, "never");
    info.value.type = PMIX_BOOL;
    CHECK_NUMBER(PMIX_SUCCESS, pPMIx_Publish_nb(&info, 1, op_done, &unanswered));
    CHECK_NUMBER(PMIX_SUCCESS, pPMIx_Fence(NULL, 0, NULL, 0)); /* the host has the request now */
    CHECK_NUMBER(PMIX_SUCCESS, pPMIx_Finalize(NULL, 0));
    CHECK_NUMBER(1, unanswered.count); /* accepted requests have called back when the last finalize returns */
    CHECK(unanswered.status != PMIX_SUCCESS);
    CHECK_NUMBER(0, pPMIx_Initialized());
    CHECK_NUMBER(0, dlclose(library));
}

/* ---- The host. */
static struct {
    pmix_op_cbfunc_t callback;
    void *data;
} due[8];
static atomic_int due_count;

static pmix_status_t up_publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t n, pmix_op_cbfunc_t callback,
                                void *data)
{
    (void)proc, (void)info, (void)n;
    int index = atomic_fetch_add(&due_count, 1);
    CHECK(index < 8);
    due[index % 8].callback = callback;
    due[index % 8].data = data;
    return PMIX_SUCCESS;
}

static pmix_server_module_t module = {.publish = up_publish};

static void load_text(pmix_info_t *info, const char *key, char *text)
{
    memset(info, 0, sizeof *info);
    strncpy(info->key, key, PMIX_MAX_KEYLEN);
    info->value.type = PMIX_STRING;
    info->value.data.string = text;
}

/* One session of a server, with one job of one client that has two sessions. */
static void serve(void)
{
    static char directory[] = "/tmp/capi-XXXXXX";
    pmix_info_t info[2];
    pmix_proc_t proc;
    uint32_t size = 1;
    struct done described = DONE, registered = DONE;
    char **env = NULL, self[4096], *given = getenv("CAPI_PROGRAM");

    strcpy(directory, "/tmp/capi-XXXXXX");
    CHECK(mkdtemp(directory) != NULL);
    open_library();
    load_text(&info[0], PMIX_SERVER_TMPDIR, directory);
    load_text(&info[1], PMIX_SYSTEM_TMPDIR, directory);
    CHECK_NUMBER(PMIX_SUCCESS, pPMIx_server_init(&module, info, 2));
    memset(info, 0, sizeof info);
    strcpy(info[0].key, PMIX_JOB_SIZE);
    info[0].value.type = PMIX_UINT32;
    info[0].value.data.uint32 = size;
    proc = proc_of("loaded", 0);
    pmix_status_t status = pPMIx_server_register_nspace(proc.nspace, 1, info, 1, op_done, &described);
    CHECK_NUMBER(PMIX_SUCCESS, done_result(&described, status));
    status = pPMIx_server_register_client(&proc, geteuid(), getegid(), NULL, op_done, &registered);
    CHECK_NUMBER(PMIX_SUCCESS, done_result(&registered, status));

    int count = 0, code = 0;
    while (environ[count]) count++;
    env = calloc((size_t)count + 1, sizeof *env);
    for (int i = 0; i < count; i++) env[i] = strdup(environ[i]);
    CHECK_NUMBER(PMIX_SUCCESS, pPMIx_server_setup_fork(&proc, &env));
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = 0;
    char *argv[] = {given ? given : self, (char *)"client", NULL};
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        execve(argv[0], argv, env);
        _exit(127);
    }
    for (char **each = env; *each; each++) free(*each);
    free(env);
    CHECK(waitpid(pid, &code, 0) == pid);
    CHECK_NUMBER(0, code);
    CHECK_NUMBER(PMIX_SUCCESS, pPMIx_server_finalize());
    CHECK_NUMBER(0, dlclose(library));
    CHECK_NUMBER(0, rmdir(directory));
}

static void answer_all(void)
{
    int count = atomic_load(&due_count);
    for (int i = 0; i < count && i < 8; i++) due[i].callback(PMIX_SUCCESS, due[i].data);
}

int main(int argc, char **argv)
{
    (void)argv;
    CHECK(!is_mapped());
    if (argc > 1) {
        life();
        life();
        return finish_here();
    }
    if (getenv("MODEX_CAPI_STOCK")) { /* stock really unloads, so late answers would call unmapped code */
        open_library();
        return finish_here();
    }
    serve();
    CHECK_NUMBER(2, due_count);
    answer_all(); /* while the library is closed */
    serve();
    CHECK_NUMBER(4, due_count);
    answer_all(); /* the first two again, which have no effect any more */
    return finish_here();
}
