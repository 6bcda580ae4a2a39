/* The processes of a job tell each other of events. Rank 0 raises one, and all others wait for it.
 *
 *   cc events.c -o events -lpmix && modex run -n 3 -- ./events
 */
#include <pmix.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Programs choose their codes below PMIX_EXTERNAL_ERR_BASE. */
#define STORM_COMES (PMIX_EXTERNAL_ERR_BASE - 1)
/* The key of what an event says may be any text without the prefix "pmix". */
#define WIND_SPEED "example.wind"

static sem_t heard;
static pmix_proc_t me;

static void check(pmix_status_t status, const char *call)
{
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "%s: %s\n", call, PMIx_Error_string(status));
        exit(1);
    }
}

/* A handler runs on a thread of the library. It must not wait there, and it must say when it is done. */
static void on_storm(size_t handler, pmix_status_t code, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *done_data)
{
    (void)handler, (void)code, (void)results, (void)nresults;
    for (size_t i = 0; i < ninfo; i++)
        if (PMIX_CHECK_KEY(&info[i], WIND_SPEED) && source->rank != me.rank)
            printf("rank %u: rank %u has seen wind of %u m/s\n", me.rank, source->rank, info[i].value.data.uint32);
    sem_post(&heard);
    /* Further handlers of this process may see the event, too. PMIX_EVENT_ACTION_COMPLETE would keep it from them. */
    done(PMIX_EVENT_NO_ACTION_TAKEN, NULL, 0, NULL, NULL, done_data);
}

int main(void)
{
    pmix_status_t handler, code = STORM_COMES;
    pmix_proc_t job;
    pmix_info_t wind;
    uint32_t speed = 31;

    sem_init(&heard, 0, 0);
    check(PMIx_Init(&me, NULL, 0), "PMIx_Init");
    PMIX_LOAD_PROCID(&job, me.nspace, PMIX_RANK_WILDCARD);
    /* Without a callback the function waits, and gives the number of the handler or a negative status. */
    handler = PMIx_Register_event_handler(&code, 1, NULL, 0, on_storm, NULL, NULL);
    if (handler < 0) check(handler, "PMIx_Register_event_handler");
    check(PMIx_Fence(&job, 1, NULL, 0), "PMIx_Fence"); /* All are listening. */

    if (me.rank == 0) {
        PMIX_INFO_LOAD(&wind, WIND_SPEED, &speed, PMIX_UINT32);
        check(PMIx_Notify_event(code, &me, PMIX_RANGE_NAMESPACE, &wind, 1, NULL, NULL), "PMIx_Notify_event");
    } else {
        while (sem_wait(&heard) != 0) continue;
    }
    check(PMIx_Fence(&job, 1, NULL, 0), "PMIx_Fence"); /* All have heard. */
    check(PMIx_Deregister_event_handler((size_t)handler, NULL, NULL), "PMIx_Deregister_event_handler");
    check(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
    return 0;
}
