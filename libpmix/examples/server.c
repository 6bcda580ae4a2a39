/* A server for tools: it answers their questions until one of them ends it.
 *
 *   cc server.c -o server -lpmix && ./server &
 *   cc tool.c -o tool -lpmix && ./tool $! && ./tool $! end
 */
#include <pmix.h>
#include <pmix_server.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static sem_t over;

static void check(pmix_status_t status, const char *call)
{
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "%s: %s\n", call, PMIx_Error_string(status));
        exit(1);
    }
}

/* The host admits each tool and gives it a name. The library has compared the user of the tool before. */
static void admit(pmix_info_t *info, size_t ninfo, pmix_tool_connection_cbfunc_t answer, void *data)
{
    static uint32_t count;
    char name[32];
    pmix_proc_t tool;

    (void)info, (void)ninfo;
    snprintf(name, sizeof name, "tool-%u", ++count);
    PMIX_LOAD_PROCID(&tool, name, 0);
    answer(PMIX_SUCCESS, &tool, data);
}

static void release(void *array)
{
    pmix_data_array_t *infos = array;
    PMIX_DATA_ARRAY_FREE(infos);
}

/* The host is asked first. The library answers what the host has not found. */
static pmix_status_t query(pmix_proc_t *asker, pmix_query_t *queries, size_t nqueries, pmix_info_cbfunc_t answer, void *data)
{
    pmix_data_array_t *infos;

    (void)asker;
    for (size_t i = 0; i < nqueries; i++)
        for (char **key = queries[i].keys; key && *key; key++)
            if (strcmp(*key, "example.weather") == 0) {
                PMIX_DATA_ARRAY_CREATE(infos, 1, PMIX_INFO);
                PMIX_INFO_LOAD((pmix_info_t *)infos->array, *key, "sunny", PMIX_STRING);
                answer(PMIX_SUCCESS, infos->array, infos->size, data, release, infos);
                return PMIX_SUCCESS;
            }
    return PMIX_ERR_NOT_FOUND;
}

/* This host has no processes. So it honours one request alone, which ends the host itself. */
static pmix_status_t control(const pmix_proc_t *requester, const pmix_proc_t targets[], size_t ntargets,
                             const pmix_info_t directives[], size_t ndirectives, pmix_info_cbfunc_t answer, void *data)
{
    (void)targets, (void)ntargets;
    for (size_t i = 0; i < ndirectives; i++)
        if (PMIX_CHECK_KEY(&directives[i], PMIX_JOB_CTRL_TERMINATE)) {
            printf("%s ends the server\n", requester->nspace);
            answer(PMIX_SUCCESS, NULL, 0, data, NULL, NULL);
            sem_post(&over); /* After the answer, so that the answer leaves before the server ends. */
            return PMIX_SUCCESS;
        }
    return PMIX_ERR_NOT_SUPPORTED;
}

int main(void)
{
    pmix_server_module_t module = {.tool_connected = admit, .query = query, .job_control = control};
    pmix_info_t info[3];
    bool yes = true;
    uint32_t rank = 0;

    sem_init(&over, 0, 0);
    PMIX_INFO_LOAD(&info[0], PMIX_SERVER_TOOL_SUPPORT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_SERVER_NSPACE, "example-server", PMIX_STRING);
    PMIX_INFO_LOAD(&info[2], PMIX_SERVER_RANK, &rank, PMIX_PROC_RANK);
    check(PMIx_server_init(&module, info, 3), "PMIx_server_init");
    for (int i = 0; i < 3; i++) PMIX_INFO_DESTRUCT(&info[i]);
    printf("process %d serves tools\n", (int)getpid());
    fflush(stdout);
    while (sem_wait(&over) != 0) continue;
    check(PMIx_server_finalize(), "PMIx_server_finalize");
    return 0;
}
