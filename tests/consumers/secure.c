/* A server that has looked for libhwloc, and lives until its input ends. */
#include <pmix.h>
#include <pmix_server.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    bool yes = true;
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_SERVER_TOOL_SUPPORT, &yes, PMIX_BOOL);
    if (PMIx_server_init(NULL, &info, 1) != PMIX_SUCCESS) {
        return 1;
    }
    pmix_topology_t topology;
    memset(&topology, 0, sizeof topology);
    PMIx_Load_topology(&topology);
    printf("ready\n");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    return PMIx_server_finalize() == PMIX_SUCCESS ? 0 : 2;
}
