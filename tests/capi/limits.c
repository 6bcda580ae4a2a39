/* Hosts and clients under low limits: threads with 64 KiB of stack, clients in the smallest threads, `ulimit -s 64`, and no
 * descriptor left. */
#include "host.h"

#include <fcntl.h>

/* Stock's registration overflows a smaller stack. */
#define SMALL_STACK (stock() ? 1 << 20 : 64 << 10)
#define DESCRIPTORS_MAX 1024

static void in_thread(void *(*body)(void *), size_t stack)
{
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    CHECK_NUMBER(0, pthread_attr_setstacksize(&attributes, stack));
    CHECK_NUMBER(0, pthread_create(&thread, &attributes, body, NULL));
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

/* ---- Clients. */
static void *exchange(void *unused)
{
    char text[64];
    client_start();
    pmix_proc_t peer = proc_of(me.nspace, 1 - me.rank), job = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    snprintf(text, sizeof text, "card of %u", me.rank);
    CHECK_STATUS(PMIX_SUCCESS, put_text(PMIX_GLOBAL, "card", text));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Commit());
    fence_all(true);
    snprintf(text, sizeof text, "card of %u", peer.rank);
    GET_TEXT(text, &peer, "card");
    GET_NUMBER(2, &job, PMIX_JOB_SIZE, PMIX_UINT32, uint32);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    return unused;
}

/* Whether the last line of standard error, which is a file, has this text. Empties the file. */
static bool was_said(const char *text)
{
    char said[4096];
    ssize_t length = pread(STDERR_FILENO, said, sizeof said - 1, 0);
    said[length > 0 ? length : 0] = 0;
    return ftruncate(STDERR_FILENO, 0) == 0 && lseek(STDERR_FILENO, 0, SEEK_SET) == 0 && strstr(said, text);
}

/* A client without a descriptor for its socket got PMIX_ERR_COMM_FAILURE, and a text about its launcher. */
static void without_descriptors(void)
{
    FILE *said = tmpfile();
    int taken[DESCRIPTORS_MAX], count = 0;
    pmix_status_t status;

    CHECK(said && dup2(fileno(said), STDERR_FILENO) == STDERR_FILENO);
    while (count < DESCRIPTORS_MAX && (taken[count] = open("/dev/null", O_RDONLY)) >= 0) count++;
    CHECK(count > 0 && count < DESCRIPTORS_MAX);
    CHECK_STATUS(PMIX_ERR_OUT_OF_RESOURCE, PMIx_Init(&me, NULL, 0));
    CHECK(was_said("ulimit -n"));
    do {
        close(taken[--count]);
        status = PMIx_Init(&me, NULL, 0);
    } while (status == PMIX_ERR_OUT_OF_RESOURCE && count > 0);
    CHECK_STATUS(PMIX_SUCCESS, status);
    fence_all(true);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
}

/* Runs this program in another role, under a limit. The shell does not run under valgrind, which has limits of its own. */
static int under_limit(const char *limit, const char *role)
{
    char script[128], self[4096];
    const char *valgrinded = getenv("CAPI_PROGRAM");
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = 0;
    snprintf(script, sizeof script, "ulimit %s; exec \"$0\" %s", limit, role);
    execl("/bin/sh", "sh", "-c", script, valgrinded ? valgrinded : self, (char *)NULL);
    return 127;
}

static int client(const char *role)
{
    if (strcmp(role, "small-limit") == 0) return under_limit("-s 64", "exchange");
    if (strcmp(role, "few-descriptors") == 0) return under_limit("-n 64", "without-descriptors");
    if (strcmp(role, "small-thread") == 0) in_thread(exchange, SMALL_STACK);
    if (strcmp(role, "smallest-thread") == 0) in_thread(exchange, (size_t)sysconf(_SC_THREAD_STACK_MIN));
    if (strcmp(role, "exchange") == 0) exchange(NULL);
    if (strcmp(role, "without-descriptors") == 0) without_descriptors();
    return finish();
}

/* ---- The host. */
static pmix_server_module_t module; /* nothing */

static void *small_host(void *unused)
{
    host_start(&module);
    host_run("small-thread", 2, 2, "small-thread");
    host_run("small-limit", 2, 2, "small-limit");
    /* PMIx_Init ended with SIGSEGV. */
    if (!stock()) host_run("smallest-thread", 2, 2, "smallest-thread");
    if (!stock()) host_run("few-descriptors", 1, 1, "few-descriptors"); /* stock returns PMIX_ERR_UNREACH, and prints nothing */
    host_forget("small-thread");
    host_forget("small-limit");
    if (!stock()) host_forget("smallest-thread");
    if (!stock()) host_forget("few-descriptors");
    host_stop();
    return unused;
}

int main(int argc, char **argv)
{
    if (argc > 1) return client(argv[1]);
    in_thread(small_host, SMALL_STACK);
    return finish();
}
