/* The whole life of a process in C, traced by its parent: see roles.rs, whose words it uses. Where the kernel may say no, and
 * where not, is marked by calls of getppid. */
#define _GNU_SOURCE
#include <pmix.h>

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <unistd.h>

#define RANKS 3
#define REPEATS 100

static const char *failed_at;
static pmix_status_t failure;

static bool good(const char *what, pmix_status_t status)
{
    if (status == PMIX_SUCCESS) return true;
    failed_at = what;
    failure = status;
    return false;
}

static void write_endpoint(char *text, unsigned rank)
{
    *text = 0;
    for (int i = 0; i < REPEATS; i++) text += sprintf(text, "endpoint of %u;", rank);
}

static bool put(unsigned rank)
{
    char text[REPEATS * 32];
    pmix_value_t value;
    memset(&value, 0, sizeof value);
    write_endpoint(text, rank);
    value.type = PMIX_STRING;
    value.data.string = text;
    return good("put", PMIx_Put(PMIX_GLOBAL, "endpoint", &value)) && good("commit", PMIx_Commit());
}

static bool fence(void)
{
    pmix_info_t infos[2];
    memset(infos, 0, sizeof infos);
    strncpy(infos[0].key, PMIX_COLLECT_DATA, PMIX_MAX_KEYLEN);
    infos[0].value.type = PMIX_BOOL;
    infos[0].value.data.flag = true;
    strncpy(infos[1].key, PMIX_TIMEOUT, PMIX_MAX_KEYLEN);
    infos[1].value.type = PMIX_INT;
    infos[1].value.data.integer = 30;
    return good("fence", PMIx_Fence(NULL, 0, infos, 2));
}

static bool get(const pmix_proc_t *me, unsigned rank)
{
    char text[REPEATS * 32];
    pmix_value_t *value = NULL;
    pmix_proc_t peer = *me;
    peer.rank = rank;
    if (!good("get", PMIx_Get(&peer, "endpoint", NULL, 0, &value))) return false;
    write_endpoint(text, rank);
    if (value->type != PMIX_STRING || strcmp(value->data.string, text) != 0) abort();
    PMIx_Value_free(value, 1);
    return true;
}

static bool live(void)
{
    pmix_proc_t me;
    if (!good("init", PMIx_Init(&me, NULL, 0))) return false;
    bool lived = put(me.rank) && fence();
    for (unsigned rank = 0; rank < RANKS && lived; rank++) lived = get(&me, rank);
    /* Whoever failed ends its use of the library as well. */
    pmix_status_t ended = PMIx_Finalize(NULL, 0);
    return lived && good("finalize", ended);
}

static int descriptors(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (readdir(directory) != NULL) count++;
    closedir(directory);
    return count;
}

/* On a thread of its own: the parent waits for the process, the tracer for the thread. */
static void *traced_life(void *unused)
{
    bool lived;
    (void)unused;
    long permission = ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    printf("traced thread %d, ptrace %s\n", (int)gettid(), permission == 0 ? "granted" : strerror(errno));
    raise(SIGSTOP);
    int before = descriptors();
    getppid();
    lived = live();
    getppid();
    if (descriptors() != before) {
        printf("left behind: %d descriptors, were %d, after %s\n", descriptors(), before, lived ? "all" : failed_at);
        fflush(stdout);
        _exit(1);
    }
    if (lived) printf("all answers are equal\n");
    else printf("error: %s: %s\n", failed_at, PMIx_Error_string(failure));
    fflush(stdout);
    _exit(0);
}

int main(void)
{
    pthread_t thread;
    setvbuf(stdout, NULL, _IOLBF, 4096);
    alarm(120);
    if (pthread_create(&thread, NULL, traced_life, NULL) != 0) return 2;
    pthread_join(thread, NULL);
    return 2;
}
