/* A process asks who it is, where it runs and who is there, and waits for all others.
 *
 *   cc hello.c -o hello -lpmix && modex run -n 3 -- ./hello
 */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>

static void check(pmix_status_t status, const char *call)
{
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "%s: %s\n", call, PMIx_Error_string(status));
        exit(1);
    }
}

/* A number that the launcher has given to the job (the wildcard rank) or to one process. */
static uint32_t number(const pmix_proc_t *proc, const char *key)
{
    pmix_value_t *value;
    uint32_t found;

    check(PMIx_Get(proc, key, NULL, 0, &value), key);
    found = value->type == PMIX_UINT16 ? value->data.uint16 : value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return found;
}

int main(void)
{
    pmix_proc_t me, job;
    pmix_value_t *value;

    check(PMIx_Init(&me, NULL, 0), "PMIx_Init");
    PMIX_LOAD_PROCID(&job, me.nspace, PMIX_RANK_WILDCARD);
    printf("rank %u of %u, number %u of %u on its node\n", me.rank, number(&job, PMIX_JOB_SIZE), number(&me, PMIX_LOCAL_RANK),
           number(&job, PMIX_LOCAL_SIZE));

    /* A key that nobody has put is an error, and not an endless wait: all that the launcher says is here already. */
    if (PMIx_Get(&job, "example.nothing", NULL, 0, &value) == PMIX_ERR_NOT_FOUND) printf("rank %u found nothing\n", me.rank);

    /* No process leaves the fence before all have entered it. */
    fflush(stdout);
    check(PMIx_Fence(&job, 1, NULL, 0), "PMIx_Fence");
    if (me.rank == 0) printf("all processes were here\n");
    check(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
    return 0;
}
