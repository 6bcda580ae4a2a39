/* A tool at `modex run`: pulls the output of its job and writes it, or feeds its own standard input to ranks.
 *
 *     io-tool pull PID
 *     io-tool push PID [RANK ...]
 *
 * The tool ends with the job. Without ranks all get the input. */
#include <pmix_tool.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int ends[2];

static void on_end(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t n,
                   pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t callback, void *data)
{
    (void)id, (void)status, (void)source, (void)info, (void)n, (void)results, (void)nresults;
    if (write(ends[1], "e", 1) != 1) _exit(3);
    if (callback) callback(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void check(const char *what, pmix_status_t status)
{
    if (status >= 0) return;
    fprintf(stderr, "%s: %s\n", what, PMIx_Error_string(status));
    exit(1);
}

int main(int argc, char **argv)
{
    pmix_status_t codes[] = {PMIX_EVENT_JOB_END, PMIX_ERR_LOST_CONNECTION};
    size_t count = argc > 3 ? (size_t)argc - 3 : 1;
    pmix_proc_t me, procs[64];
    pmix_info_t info;
    char end;

    if (argc < 3 || count > 64 || pipe(ends) != 0) {
        fprintf(stderr, "usage: %s pull PID | push PID [RANK ...]\n", argv[0]);
        return 2;
    }
    pid_t pid = atoi(argv[2]);
    PMIX_INFO_LOAD(&info, PMIX_SERVER_PIDINFO, &pid, PMIX_PID);
    check("connect", PMIx_tool_init(&me, &info, 1));
    for (size_t i = 0; i < count; i++) {
        memset(&procs[i], 0, sizeof procs[i]);
        snprintf(procs[i].nspace, sizeof procs[i].nspace, "modex-%d", (int)pid);
        procs[i].rank = argc > 3 ? (pmix_rank_t)atoi(argv[3 + i]) : PMIX_RANK_WILDCARD;
    }
    check("wait for the end", PMIx_Register_event_handler(codes, 2, NULL, 0, on_end, NULL, NULL));
    if (strcmp(argv[1], "pull") == 0) {
        check("pull", PMIx_IOF_pull(procs, count, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, NULL, NULL, NULL));
    } else {
        PMIX_INFO_LOAD(&info, PMIX_IOF_PUSH_STDIN, NULL, PMIX_BOOL);
        check("push", PMIx_IOF_push(procs, count, NULL, &info, 1, NULL, NULL));
    }
    if (read(ends[0], &end, 1) != 1) return 3;
    check("end", PMIx_tool_finalize());
    return 0;
}
