/* Common to debuggers: the end after an error, and the pipe by which handlers of events wake the program. */
#include <pmix.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int events[2];

static void check(pmix_status_t status, const char *call)
{
    if (status == PMIX_SUCCESS) return;
    printf("%s: %s\n", call, PMIx_Error_string(status));
    fflush(stdout);
    _exit(1);
}
