/* A program that lets a debugger stop it: it waits in its own code if the job says so. debugger.c is the debugger.
 *
 *   cc debuggee.c -o debuggee -lpmix
 */
#include <pmix.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static sem_t released;

static void check(pmix_status_t status, const char *call)
{
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "%s: %s\n", call, PMIx_Error_string(status));
        exit(1);
    }
}

static void on_release(size_t handler, pmix_status_t code, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                       pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *done_data)
{
    (void)handler, (void)code, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    sem_post(&released);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, done_data);
}

/* Whether the job's description asks this program to wait. Here the value is true, for all ranks. */
static bool must_wait(const pmix_proc_t *job)
{
    pmix_value_t *value;
    bool must_stop;

    if (PMIx_Get(job, PMIX_DEBUG_STOP_IN_APP, NULL, 0, &value) != PMIX_SUCCESS) return false;
    must_stop = value->type == PMIX_BOOL && value->data.flag;
    PMIX_VALUE_RELEASE(value);
    return must_stop;
}

static void wait_for_debugger(const pmix_proc_t *me)
{
    pmix_status_t handler, code = PMIX_DEBUGGER_RELEASE;
    pmix_info_t info[2];
    bool yes = true;

    sem_init(&released, 0, 0);
    handler = PMIx_Register_event_handler(&code, 1, NULL, 0, on_release, NULL, NULL);
    if (handler < 0) check(handler, "PMIx_Register_event_handler");
    /* The launcher counts the ranks that wait, and tells the debugger when the last one does. */
    PMIX_INFO_LOAD(&info[0], PMIX_BREAKPOINT, "before-work", PMIX_STRING);
    /* A server of OpenPMIx keeps an event without this directive from its launcher. */
    PMIX_INFO_LOAD(&info[1], PMIX_EVENT_DO_NOT_CACHE, &yes, PMIX_BOOL);
    check(PMIx_Notify_event(PMIX_READY_FOR_DEBUG, me, PMIX_RANGE_RM, info, 2, NULL, NULL), "PMIx_Notify_event");
    PMIX_INFO_DESTRUCT(&info[0]);
    while (sem_wait(&released) != 0) continue;
    check(PMIx_Deregister_event_handler((size_t)handler, NULL, NULL), "PMIx_Deregister_event_handler");
}

int main(void)
{
    pmix_proc_t me, job;

    check(PMIx_Init(&me, NULL, 0), "PMIx_Init"); /* PMIX_DEBUG_STOP_IN_INIT waits here. */
    PMIX_LOAD_PROCID(&job, me.nspace, PMIX_RANK_WILDCARD);
    if (must_wait(&job)) wait_for_debugger(&me);
    printf("rank %u works\n", me.rank);
    fflush(stdout);
    check(PMIx_Fence(&job, 1, NULL, 0), "PMIx_Fence");
    check(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
    return 0;
}
