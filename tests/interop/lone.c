/* For tests/interop/tools.rs: a process that nobody launched, beside a system server. Says who it is, what it knows of its
 * job, and how Put, Commit, Get and Fence go. */
#include <pmix.h>

#include <stdio.h>

int main(void)
{
    pmix_proc_t me, job;
    pmix_value_t *found = NULL, value;
    pmix_status_t status = PMIx_Init(&me, NULL, 0);

    printf("init %s %s.%u\n", PMIx_Error_string(status), me.nspace, me.rank);
    if (PMIX_SUCCESS != status) {
        return 1;
    }
    PMIX_LOAD_PROCID(&job, me.nspace, PMIX_RANK_WILDCARD);
    status = PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &found);
    printf("size %s %u\n", PMIx_Error_string(status), PMIX_SUCCESS == status ? found->data.uint32 : 0);
    PMIX_VALUE_LOAD(&value, "here", PMIX_STRING);
    printf("put %s\n", PMIx_Error_string(PMIx_Put(PMIX_GLOBAL, "key", &value)));
    printf("commit %s\n", PMIx_Error_string(PMIx_Commit()));
    printf("fence %s\n", PMIx_Error_string(PMIx_Fence(NULL, 0, NULL, 0)));
    status = PMIx_Get(&me, "key", NULL, 0, &found);
    printf("get %s %s\n", PMIx_Error_string(status), PMIX_SUCCESS == status ? found->data.string : "");
    printf("finalize %s\n", PMIx_Error_string(PMIx_Finalize(NULL, 0)));
    return 0;
}
