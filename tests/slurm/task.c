/* A task of a Slurm job step that uses PMIx alone.
 * usage: task fence | direct                   every task ends with 0 if what it saw is right
 *        task abort CODE | signal NUMBER       the last task ends so; the others wait for it in a fence
 *        task hang                             no task ends
 */
#include "../capi/check.h"

#include <signal.h>

static pmix_proc_t me;
static uint32_t size;

static uint32_t number_of(const char *key)
{
    pmix_proc_t wild = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    pmix_value_t *value = get(&wild, key, PMIX_UINT32);
    uint32_t number = value ? value->data.uint32 : 0;
    value_free(value);
    return number;
}

/* Every node has as many tasks as every other. */
static void check_job(void)
{
    const char *nodes = getenv("SLURM_STEP_NUM_NODES"), *tasks = getenv("SLURM_STEP_NUM_TASKS");
    char host[256] = "";

    CHECK(nodes && tasks);
    CHECK_NUMBER(atoi(tasks), size);
    CHECK_NUMBER(atoi(nodes), number_of(PMIX_NUM_NODES));
    CHECK_NUMBER(atoi(tasks) / atoi(nodes), number_of(PMIX_LOCAL_SIZE));
    GET_NUMBER(atoi(getenv("SLURM_LOCALID")), &me, PMIX_LOCAL_RANK, PMIX_UINT16, uint16);
    CHECK_NUMBER(atoi(getenv("SLURM_PROCID")), me.rank);
    gethostname(host, sizeof host - 1);
    GET_TEXT(host, &me, PMIX_HOSTNAME);
}

#define BLOB_BYTES 70000

static void put_all(int round)
{
    char key[64], text[64], *blob = malloc(BLOB_BYTES);
    pmix_value_t value;

    snprintf(key, sizeof key, "text.%d", round);
    snprintf(text, sizeof text, "round %d of rank %u", round, me.rank);
    CHECK_STATUS(PMIX_SUCCESS, put_text(PMIX_GLOBAL, key, text));
    memset(blob, 'a' + (int)me.rank, BLOB_BYTES);
    memset(&value, 0, sizeof value);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = blob;
    value.data.bo.size = BLOB_BYTES;
    snprintf(key, sizeof key, "blob.%d", round);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Put(PMIX_GLOBAL, key, &value));
    free(blob);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Commit());
}

static void check_all(int round)
{
    char key[64], text[64];
    for (uint32_t rank = 0; rank < size; rank++) {
        pmix_proc_t peer = proc_of(me.nspace, rank);
        snprintf(key, sizeof key, "text.%d", round);
        snprintf(text, sizeof text, "round %d of rank %u", round, rank);
        GET_TEXT(text, &peer, key);
        snprintf(key, sizeof key, "blob.%d", round);
        pmix_value_t *value = get(&peer, key, PMIX_BYTE_OBJECT);
        CHECK(value && value->data.bo.size == BLOB_BYTES && value->data.bo.bytes[BLOB_BYTES - 1] == 'a' + (int)rank);
        value_free(value);
    }
}

static void fence(bool collect)
{
    pmix_info_t info;
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence(NULL, 0, collect ? &info : NULL, collect ? 1 : 0));
    PMIX_INFO_DESTRUCT(&info);
}

int main(int argc, char **argv)
{
    const char *role = argc > 1 ? argv[1] : "";
    int number = argc > 2 ? atoi(argv[2]) : 0;

    CHECK_STATUS(PMIX_SUCCESS, PMIx_Init(&me, NULL, 0));
    size = number_of(PMIX_JOB_SIZE);
    check_job();
    if (strcmp(role, "fence") == 0) {
        for (int round = 0; round < 3; round++) {
            put_all(round);
            fence(true);
            check_all(round);
        }
        fence(false);
    } else if (strcmp(role, "direct") == 0) {
        put_all(0);
        fence(false); /* no data: each Get asks the server of the peer's node */
        check_all(0);
        fence(false);
    } else if (strcmp(role, "hang") == 0) {
        fence(false);
        if (me.rank == 0) puts("hangs"), fflush(stdout);
        for (;;) pause();
    } else {
        fence(false);
        if (me.rank == size - 1) {
            if (strcmp(role, "abort") == 0) PMIx_Abort(number, "as it was told", NULL, 0);
            else raise(number);
        }
        PMIx_Fence(NULL, 0, NULL, 0);
        for (;;) pause(); /* the step ends and takes every task with it */
    }
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    printf("server %s\n", getenv("MODEX_SERVER_URI") ? "ours" : "debian");
    return finish();
}
