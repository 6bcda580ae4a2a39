/*
 * Linked into pmixbench with --wrap=PMIx_Init and exported symbols: in its clients, when the last byte came from the server
 * within PMIx_Init, and how many came. These are measurements "job.last_byte" and "job.bytes" beside pmixbench's own; what a
 * client does with the bytes afterwards is in "client.init" alone. The library's calls of read() and recv() pass through here.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <dlfcn.h>
#include <pmix.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static _Atomic uint64_t last, bytes;
static ssize_t (*next_read)(int, void *, size_t);
static ssize_t (*next_recv)(int, void *, size_t, int);
static int is_client;
static char params[128];

pmix_status_t __real_PMIx_Init(pmix_proc_t *proc, pmix_info_t info[], size_t ninfo);
pmix_status_t __wrap_PMIx_Init(pmix_proc_t *proc, pmix_info_t info[], size_t ninfo);

static const char *option(int count, char **arguments, const char *name)
{
    size_t length = strlen(name);

    for (int i = 1; i < count; i++)
        if (0 == strncmp(arguments[i], name, length))
            return arguments[i] + length;
    return "";
}

static void learn(int count, char **arguments, char **environment) __attribute__((constructor));

static void learn(int count, char **arguments, char **environment)
{
    (void)environment;
    is_client = 0 == strcmp("client", option(count, arguments, "--role="));
    snprintf(params, sizeof params, "%s,nodes=%s,clients=%s,ranks=%s", option(count, arguments, "--scenario="),
             option(count, arguments, "--nodes="), option(count, arguments, "--clients="),
             option(count, arguments, "--ranks="));
}

/* Events within the process come through pipes and the like, not through sockets of the internet. */
static void note(int fd, ssize_t count)
{
    struct sockaddr_storage name;
    socklen_t size = sizeof name;

    if (!is_client || count <= 0 || 0 != getsockname(fd, (struct sockaddr *)&name, &size) || AF_INET != name.ss_family)
        return;
    atomic_store(&last, now_ns());
    atomic_fetch_add(&bytes, (uint64_t)count);
}

ssize_t read(int fd, void *buffer, size_t size)
{
    if (NULL == next_read)
        next_read = (ssize_t(*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
    ssize_t count = next_read(fd, buffer, size);
    note(fd, count);
    return count;
}

ssize_t recv(int fd, void *buffer, size_t size, int flags)
{
    if (NULL == next_recv)
        next_recv = (ssize_t(*)(int, void *, size_t, int))dlsym(RTLD_NEXT, "recv");
    ssize_t count = next_recv(fd, buffer, size, flags);
    note(fd, count);
    return count;
}

pmix_status_t __wrap_PMIx_Init(pmix_proc_t *proc, pmix_info_t info[], size_t ninfo)
{
    uint64_t start = now_ns();
    pmix_status_t status = __real_PMIx_Init(proc, info, ninfo);

    if (is_client && 0 != atomic_load(&last)) {
        sample("job.last_byte", params, "us", (double)(atomic_load(&last) - start) / 1e3);
        sample("job.bytes", params, "B", (double)atomic_load(&bytes));
        atomic_store(&last, 0);
        atomic_store(&bytes, 0);
    }
    return status;
}
