/* A launched process that becomes a tool of another name. The library ignored PMIX_TOOL_NSPACE and PMIX_TOOL_RANK if
 * the environment names the process, and a server without support for tools refused the name. OpenPMIx 4.2.2 accepts
 * it. Rule: the tool's own name wins over the environment, at the server that started the process. */
#include "host.h"

static int client(void)
{
    pmix_rank_t rank = 3;
    pmix_info_t info[2];
    pmix_proc_t job = proc_of("of-named", PMIX_RANK_WILDCARD);

    PMIX_INFO_LOAD(&info[0], PMIX_TOOL_NSPACE, "my-tool", PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_TOOL_RANK, &rank, PMIX_PROC_RANK);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_init(&me, info, 2));
    PMIX_INFO_DESTRUCT(&info[0]);
    PMIX_INFO_DESTRUCT(&info[1]);
    CHECK_TEXT("my-tool", me.nspace);
    CHECK_NUMBER(3, me.rank);
    /* It is connected to the server that started it. */
    GET_NUMBER(1, &job, PMIX_JOB_SIZE, PMIX_UINT32, uint32);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_finalize());
    return finish();
}

static pmix_server_module_t module; /* nothing */

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) return client();
    host_start(&module);
    host_run("of-named", 1, 1, "named");
    host_stop();
    return finish();
}
