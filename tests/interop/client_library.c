/*
 * Linked into pmixbench with --wrap=posix_spawn: its clients load the PMIx library in the directory CLIENT_LIBRARY (none
 * there: the system's), whatever its servers run on. With CLIENT_LIBRARY_NOTES each of its processes notes on standard error
 * which file it has mapped as the PMIx library.
 */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int __real_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]);
int __wrap_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]);

int __wrap_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
    const char *library = getenv("CLIENT_LIBRARY");
    size_t count = 0, kept = 0;
    char setting[4096];

    while (NULL != environment[count])
        count++;
    char **own = calloc(count + 2, sizeof *own);
    if (NULL == own)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (0 != strncmp(environment[i], "LD_LIBRARY_PATH=", 16))
            own[kept++] = environment[i];
    if (NULL != library && '\0' != library[0]) {
        snprintf(setting, sizeof setting, "LD_LIBRARY_PATH=%s", library);
        own[kept++] = setting;
    }
    int status = __real_posix_spawn(pid, path, actions, attributes, arguments, own);
    free(own);
    return status;
}

static void note_library(int count, char **arguments, char **environment) __attribute__((constructor));

static void note_library(int count, char **arguments, char **environment)
{
    char line[4096];
    FILE *maps;

    (void)environment;
    if (NULL == getenv("CLIENT_LIBRARY_NOTES") || NULL == (maps = fopen("/proc/self/maps", "r")))
        return;
    const char *role = "driver";
    for (int i = 1; i < count; i++)
        if (0 == strncmp(arguments[i], "--role=", 7))
            role = arguments[i] + 7;
    while (NULL != fgets(line, sizeof line, maps)) {
        char *file = strchr(line, '/');
        if (NULL == file || NULL == strstr(file, "/libpmix.so"))
            continue;
        fprintf(stderr, "library of %s %s", role, file);
        break;
    }
    fclose(maps);
}
