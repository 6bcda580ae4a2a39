/* What an MPI library asks of PMIx between MPI_Init and MPI_Finalize, for hot-functions.sh. */
#include <pmix.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void need(pmix_status_t status)
{
    if (status < 0) abort();
}

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                     pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *object)
{
    (void)id, (void)status, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    if (done) done(PMIX_SUCCESS, NULL, 0, NULL, NULL, object);
}

static void get(const pmix_proc_t *proc, const char *key)
{
    pmix_value_t *value = NULL;
    if (PMIx_Get(proc, key, NULL, 0, &value) == PMIX_SUCCESS) PMIx_Value_free(value, 1);
}

int main(void)
{
    pmix_proc_t me, all, peer;
    pmix_status_t code = PMIX_ERR_PROC_ABORTED;
    pmix_value_t value = {.type = PMIX_STRING, .data.string = "endpoint"};
    pmix_info_t collect = {.value = {.type = PMIX_BOOL, .data.flag = true}};
    strcpy(collect.key, PMIX_COLLECT_DATA);

    need(PMIx_Init(&me, NULL, 0));
    all = peer = me;
    all.rank = PMIX_RANK_WILDCARD;
    pmix_status_t handler = PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, NULL, NULL);
    need(handler);
    get(&all, PMIX_JOB_SIZE);
    get(&all, PMIX_UNIV_SIZE);
    get(&all, PMIX_LOCAL_PEERS);
    get(&me, PMIX_LOCAL_RANK);
    get(&me, PMIX_LOCALITY_STRING);
    need(PMIx_Put(PMIX_GLOBAL, "endpoint", &value));
    need(PMIx_Commit());
    need(PMIx_Fence(&all, 1, &collect, 1));
    for (peer.rank = 0; peer.rank < 4; peer.rank++) {
        get(&peer, PMIX_HOSTNAME);
        get(&peer, "endpoint");
    }
    need(PMIx_Fence(&all, 1, NULL, 0));
    need(PMIx_Deregister_event_handler((size_t)handler, NULL, NULL));
    need(PMIx_Finalize(NULL, 0));
    return 0;
}
