/* A tool of a running PRRTE: starts a program three times, one job after the other, and twice at once, and waits for the ends.
 * usage: dvm URI PROGRAM */
#include <pmix_tool.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int ended;

static void on_end(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                   pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void)id, (void)status, (void)source, (void)results, (void)nresults;
    for (size_t i = 0; i < ninfo; i++)
        if (PMIX_CHECK_KEY(&info[i], PMIX_JOB_TERM_STATUS)) printf("ended with %d\n", info[i].value.data.status);
    fflush(stdout);
    atomic_fetch_add(&ended, 1);
    if (done) done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static int spawn(const char *program)
{
    pmix_app_t app;
    pmix_info_t info[3];
    char job[PMIX_MAX_NSLEN + 1];
    pmix_status_t status;
    bool yes = true;

    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup(program);
    PMIX_ARGV_APPEND(status, app.argv, program);
    app.maxprocs = 2;
    PMIX_INFO_LOAD(&info[0], PMIX_NOTIFY_COMPLETION, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_MAPBY, "slot:OVERSUBSCRIBE", PMIX_STRING);
    PMIX_INFO_LOAD(&info[2], PMIX_FWD_STDOUT, &yes, PMIX_BOOL);
    status = PMIx_Spawn(info, 3, &app, 1, job);
    if (status != PMIX_SUCCESS) printf("spawn: %s\n", PMIx_Error_string(status));
    return status == PMIX_SUCCESS;
}

static void wait_for(int count)
{
    for (int i = 0; i < 2000 && atomic_load(&ended) < count; i++) usleep(10000);
}

int main(int argc, char **argv)
{
    pmix_proc_t me;
    pmix_info_t info;
    pmix_status_t status, code = PMIX_EVENT_JOB_END;

    if (argc != 3) return 2;
    PMIX_INFO_LOAD(&info, PMIX_SERVER_URI, argv[1], PMIX_STRING);
    if ((status = PMIx_tool_init(&me, &info, 1)) != PMIX_SUCCESS) {
        printf("init: %s\n", PMIx_Error_string(status));
        return 3;
    }
    if (PMIx_Register_event_handler(&code, 1, NULL, 0, on_end, NULL, NULL) < 0) return 4;
    int count = 0;
    for (int i = 0; i < 3; i++) {
        count += spawn(argv[2]);
        wait_for(count);
    }
    count += spawn(argv[2]);
    count += spawn(argv[2]);
    wait_for(count);
    printf("%d of %d jobs ended\n", atomic_load(&ended), count);
    fflush(stdout);
    PMIx_tool_finalize();
    return count == 5 && atomic_load(&ended) == 5 ? 0 : 5;
}
