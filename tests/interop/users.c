/* For tests/interop/users.rs: a process that asks for values of another job, and raises an event there. Says how that ends. */
#include <pmix.h>

#include <stdio.h>

int main(void)
{
    pmix_proc_t me, them, job;
    pmix_value_t *found = NULL;
    pmix_info_t infos[2];
    pmix_data_array_t *targets;
    pmix_status_t status = PMIx_Init(&me, NULL, 0);

    printf("init %s\n", PMIx_Error_string(status));
    if (PMIX_SUCCESS != status) {
        return 1;
    }
    PMIX_LOAD_PROCID(&them, "alices", 0);
    PMIX_LOAD_PROCID(&job, "alices", PMIX_RANK_WILDCARD);
    printf("value %s\n", PMIx_Error_string(PMIx_Get(&them, "global", NULL, 0, &found)));
    printf("size %s\n", PMIx_Error_string(PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &found)));
    PMIX_DATA_ARRAY_CREATE(targets, 1, PMIX_PROC);
    ((pmix_proc_t *) targets->array)[0] = them;
    PMIX_LOAD_KEY(infos[0].key, PMIX_EVENT_CUSTOM_RANGE);
    infos[0].flags = 0;
    infos[0].value.type = PMIX_DATA_ARRAY;
    infos[0].value.data.darray = targets;
    status = PMIx_Notify_event(4711, &me, PMIX_RANGE_CUSTOM, infos, 1, NULL, NULL);
    /* The reference's client does not tell what the server says. */
    if (PMIX_SUCCESS != status && PMIX_OPERATION_SUCCEEDED != status) {
        printf("event %s\n", PMIx_Error_string(status));
    }
    printf("finalize %s\n", PMIx_Error_string(PMIx_Finalize(NULL, 0)));
    return 0;
}
