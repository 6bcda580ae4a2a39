/* A server whose starter holds a pipe open. The end of the pipe raises an event in the server.
 * With the word "stale" the starter has passed the number of the pipe alone, with "file" that of a file. */
#include <pmix_server.h>

#include "debugger.h"

#include <fcntl.h>

static void on_end(size_t handler, pmix_status_t code, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                   pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *done_data)
{
    (void)handler, (void)code, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    if (write(events[1], "x", 1) != 1) abort();
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, done_data);
}

/* The library would get the number of a closed descriptor for its own. */
static int with_a_wrong_descriptor(const int keepalive[2], bool is_file)
{
    static pmix_server_module_t module;

    close(keepalive[0]);
    close(keepalive[1]);
    if (is_file && open("/dev/null", O_RDONLY) != keepalive[0]) return 2;
    check(PMIx_server_init(&module, NULL, 0), "PMIx_server_init");
    if (is_file && fcntl(keepalive[0], F_GETFD) != 0) return 3;
    check(PMIx_server_finalize(), "PMIx_server_finalize");
    if (is_file && fcntl(keepalive[0], F_GETFD) != 0) return 3;
    printf("served, %s\n", getenv("PMIX_KEEPALIVE_PIPE") ? "its variable stays" : "its variable is gone");
    return 0;
}

int main(int argc, char **argv)
{
    static pmix_server_module_t module;
    pmix_status_t end = PMIX_ERR_JOB_TERMINATED, status;
    pmix_proc_t parent;
    pmix_info_t info;
    char number[16], byte;
    int keepalive[2];

    if (pipe(keepalive) != 0 || pipe(events) != 0) return 2;
    snprintf(number, sizeof number, "%d", keepalive[0]);
    setenv("PMIX_KEEPALIVE_PIPE", number, 1);
    if (argc > 1) return with_a_wrong_descriptor(keepalive, strcmp(argv[1], "file") == 0);
    check(PMIx_server_init(&module, NULL, 0), "PMIx_server_init");
    /* As PRRTE asks for it. */
    PMIX_LOAD_PROCID(&parent, "PMIX_KEEPALIVE_PIPE", PMIX_RANK_UNDEF);
    PMIX_INFO_LOAD(&info, PMIX_EVENT_AFFECTED_PROC, &parent, PMIX_PROC);
    status = PMIx_Register_event_handler(&end, 1, &info, 1, on_end, NULL, NULL);
    if (status < 0) check(status, "PMIx_Register_event_handler");
    close(keepalive[1]);
    if (read(events[0], &byte, 1) != 1) return 1;
    printf("the starter has ended, %s\n", getenv("PMIX_KEEPALIVE_PIPE") ? "its variable not" : "and so has its variable");
    check(PMIx_server_finalize(), "PMIx_server_finalize");
    return 0;
}
