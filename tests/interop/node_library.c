/*
 * Linked into pmixbench with --wrap=execv: chooses the PMIx library of each simulated node where its server is started.
 * NODE_LIBRARIES has one directory for each node, separated by colons; none between two colons: the system's library.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int __real_execv(const char *path, char *const arguments[]);
int __wrap_execv(const char *path, char *const arguments[]);

int __wrap_execv(const char *path, char *const arguments[])
{
    const char *libraries = getenv("NODE_LIBRARIES");
    for (int i = 1; NULL != libraries && NULL != arguments[i]; i++) {
        int node;
        if (1 != sscanf(arguments[i], "--node=%d", &node))
            continue;
        char *rest = strdup(libraries), *directory = NULL;
        for (int k = 0; k <= node; k++)
            directory = strsep(&rest, ":");
        if (NULL == directory)
            return -1;
        if ('\0' != directory[0])
            setenv("LD_LIBRARY_PATH", directory, 1);
        fprintf(stderr, "node %d library %s\n", node, directory);
    }
    return __real_execv(path, arguments);
}
