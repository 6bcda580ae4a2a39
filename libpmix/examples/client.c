/* A process of a job: it publishes an endpoint, waits for all others and reads the next one's.
 *
 *   cc client.c -o client -lpmix && modex run -n 4 -- ./client
 */
#include <pmix.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static void check(pmix_status_t status, const char *call)
{
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "%s: %s\n", call, PMIx_Error_string(status));
        exit(1);
    }
}

int main(void)
{
    pmix_proc_t me, all, next;
    pmix_value_t *value, endpoint;
    pmix_info_t collect;
    char text[32];
    bool yes = true;
    uint32_t size;

    check(PMIx_Init(&me, NULL, 0), "PMIx_Init");
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    check(PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value), "PMIx_Get of the job's size");
    size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);

    snprintf(text, sizeof text, "10.0.0.%u:4711", me.rank);
    PMIX_VALUE_LOAD(&endpoint, text, PMIX_STRING);
    check(PMIx_Put(PMIX_GLOBAL, "example.endpoint", &endpoint), "PMIx_Put");
    PMIX_VALUE_DESTRUCT(&endpoint);
    check(PMIx_Commit(), "PMIx_Commit");
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    check(PMIx_Fence(&all, 1, &collect, 1), "PMIx_Fence");

    PMIX_LOAD_PROCID(&next, me.nspace, (me.rank + 1) % size);
    check(PMIx_Get(&next, "example.endpoint", NULL, 0, &value), "PMIx_Get of the endpoint");
    printf("rank %u of %u: rank %u listens at %s\n", me.rank, size, next.rank, value->data.string);
    PMIX_VALUE_RELEASE(value);
    check(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
    return 0;
}
