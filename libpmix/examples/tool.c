/* A tool: it connects to a running server, asks it, and may end it.
 *
 *   cc tool.c -o tool -lpmix && ./tool 4711 && ./tool 4711 end
 *
 * The number is that of the server's process: of `modex run`, of server.c, or of another launcher with PMIx.
 */
#include <pmix.h>
#include <pmix_tool.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(pmix_status_t status, const char *call)
{
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "%s: %s\n", call, PMIx_Error_string(status));
        exit(1);
    }
}

/* Asks for a text. The server's host answers, or the library in it. */
static void ask(const char *key)
{
    pmix_query_t query;
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_status_t status;

    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, key);
    check(status, "PMIX_ARGV_APPEND");
    status = PMIx_Query_info(&query, 1, &results, &count);
    if (status != PMIX_SUCCESS) printf("%s: %s\n", key, PMIx_Error_string(status));
    for (size_t i = 0; i < count; i++)
        if (results[i].value.type == PMIX_STRING) printf("%s: %s\n", results[i].key, results[i].value.data.string);
    PMIX_INFO_FREE(results, count);
    PMIX_QUERY_DESTRUCT(&query);
}

int main(int argc, char **argv)
{
    pmix_proc_t me;
    pmix_info_t info, *results = NULL;
    pid_t server = argc > 1 ? (pid_t)strtol(argv[1], NULL, 10) : 0;
    size_t count = 0;
    bool yes = true;

    if (server <= 0) {
        fprintf(stderr, "usage: tool PROCESS [end]\n");
        return 1;
    }
    /* A tool has no launcher that says where the server is. With PMIX_SERVER_PIDINFO it finds the server's file. */
    PMIX_INFO_LOAD(&info, PMIX_SERVER_PIDINFO, &server, PMIX_PID);
    check(PMIx_tool_init(&me, &info, 1), "PMIx_tool_init");
    PMIX_INFO_DESTRUCT(&info);
    if (argc > 2 && strcmp(argv[2], "end") == 0) {
        PMIX_INFO_LOAD(&info, PMIX_JOB_CTRL_TERMINATE, &yes, PMIX_BOOL);
        check(PMIx_Job_control(NULL, 0, &info, 1, &results, &count), "PMIx_Job_control");
        PMIX_INFO_DESTRUCT(&info);
        PMIX_INFO_FREE(results, count);
        printf("the server ends\n");
    } else {
        ask(PMIX_QUERY_NAMESPACES);
        ask("example.weather");
    }
    PMIx_tool_finalize(); /* Its status says nothing here: the server may have gone. */
    return 0;
}
