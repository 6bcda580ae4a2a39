/*
 * A rank that exchanges values of every width with ranks of other byte orders, and checks each.
 * usage: rank [fences]   (below a launcher with fence, events and a name service; or with fences alone)
 */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CODE (-2147483)
#define WORD UINT64_C(0x0102030405060708)

static pmix_proc_t me;
static volatile int heard;

static void check(int holds, const char *what)
{
    if (holds)
        return;
    printf("rank %u: wrong: %s\n", me.rank, what);
    exit(1);
}

static void succeed(pmix_status_t status, const char *call)
{
    if (PMIX_SUCCESS == status || PMIX_OPERATION_SUCCEEDED == status)
        return;
    printf("rank %u: %s: %s\n", me.rank, call, PMIx_Error_string(status));
    exit(1);
}

/* The value with a number that differs from rank to rank. The last text is long enough to be compressed. */
static pmix_value_t value_of(int which, pmix_rank_t rank)
{
    static char bytes[1000], text[100000];
    static uint32_t numbers[3];
    static pmix_data_array_t array = {PMIX_UINT32, 3, numbers};
    pmix_value_t value;

    memset(&value, 0, sizeof value);
    switch (which) {
    case 0: value.type = PMIX_INT32; value.data.int32 = -123456 - (int)rank; break;
    case 1: value.type = PMIX_UINT64; value.data.uint64 = WORD + rank; break;
    case 2: value.type = PMIX_UINT16; value.data.uint16 = 0xabc0 + rank; break;
    case 3: value.type = PMIX_DOUBLE; value.data.dval = 3.25 + rank; break;
    case 4:
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (char)(i * 7 + rank);
        value.type = PMIX_BYTE_OBJECT;
        value.data.bo.bytes = bytes;
        value.data.bo.size = sizeof bytes;
        break;
    case 5:
        numbers[0] = 1, numbers[1] = 0x01020304, numbers[2] = rank;
        value.type = PMIX_DATA_ARRAY;
        value.data.darray = &array;
        break;
    default:
        memset(text, 'a' + (int)rank % 26, sizeof text - 1);
        value.type = PMIX_STRING;
        value.data.string = text;
    }
    return value;
}

enum { VALUES = 7 };

static int is_same(const pmix_value_t *found, const pmix_value_t *put)
{
    if (found->type != put->type)
        return 0;
    switch (put->type) {
    case PMIX_INT32: return found->data.int32 == put->data.int32;
    case PMIX_UINT64: return found->data.uint64 == put->data.uint64;
    case PMIX_UINT16: return found->data.uint16 == put->data.uint16;
    case PMIX_DOUBLE: return found->data.dval == put->data.dval;
    case PMIX_BYTE_OBJECT:
        return found->data.bo.size == put->data.bo.size
               && 0 == memcmp(found->data.bo.bytes, put->data.bo.bytes, put->data.bo.size);
    case PMIX_DATA_ARRAY:
        return PMIX_UINT32 == found->data.darray->type && found->data.darray->size == put->data.darray->size
               && 0 == memcmp(found->data.darray->array, put->data.darray->array, 3 * sizeof(uint32_t));
    default: return 0 == strcmp(found->data.string, put->data.string);
    }
}

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *cbdata)
{
    (void)id, (void)results, (void)nresults;
    for (size_t i = 0; i < ninfo; i++)
        if (0 == strcmp(info[i].key, "test.word"))
            heard = CODE == status && 0 == source->rank && PMIX_UINT64 == info[i].value.type
                    && WORD == info[i].value.data.uint64;
    if (NULL != done)
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

static uint32_t job_size(void)
{
    pmix_proc_t job;
    pmix_value_t *value;
    PMIX_LOAD_PROCID(&job, me.nspace, PMIX_RANK_WILDCARD);
    succeed(PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &value), "Get of the job's size");
    check(PMIX_UINT32 == value->type, "type of the job's size");
    uint32_t size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return size;
}

static void exchange(uint32_t size)
{
    pmix_info_t collect;
    bool yes = true;
    char key[32];

    for (int which = 0; which < VALUES; which++) {
        pmix_value_t value = value_of(which, me.rank);
        snprintf(key, sizeof key, "test.%d", which);
        succeed(PMIx_Put(PMIX_GLOBAL, key, &value), "Put");
    }
    succeed(PMIx_Commit(), "Commit");
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    succeed(PMIx_Fence(NULL, 0, &collect, 1), "Fence that collects");
    for (uint32_t rank = 0; rank < size; rank++)
        for (int which = 0; which < VALUES; which++) {
            pmix_proc_t peer;
            pmix_value_t *found, put = value_of(which, rank);
            PMIX_LOAD_PROCID(&peer, me.nspace, rank);
            snprintf(key, sizeof key, "test.%d", which);
            succeed(PMIx_Get(&peer, key, NULL, 0, &found), key);
            check(is_same(found, &put), key);
            PMIX_VALUE_RELEASE(found);
        }
}

/* The rank after the next one commits its value later than this Get begins, now and then. It is on the same node. */
static void fetch_late(uint32_t size)
{
    pmix_proc_t next;
    pmix_value_t value = value_of(1, me.rank), *found;
    PMIX_LOAD_PROCID(&next, me.nspace, (me.rank + 2) % size);
    succeed(PMIx_Put(PMIX_GLOBAL, "test.late", &value), "Put");
    succeed(PMIx_Commit(), "Commit");
    succeed(PMIx_Get(&next, "test.late", NULL, 0, &found), "late Get");
    value = value_of(1, next.rank);
    check(is_same(found, &value), "late value");
    PMIX_VALUE_RELEASE(found);
    succeed(PMIx_Fence(NULL, 0, NULL, 0), "Fence");
}

static void raise_event(void)
{
    uint64_t word = WORD;
    pmix_info_t info;
    if (0 == me.rank) {
        PMIX_INFO_LOAD(&info, "test.word", &word, PMIX_UINT64);
        succeed(PMIx_Notify_event(CODE, &me, PMIX_RANGE_NAMESPACE, &info, 1, NULL, NULL), "Notify_event");
    } else {
        while (!heard)
            usleep(1000);
    }
    succeed(PMIx_Fence(NULL, 0, NULL, 0), "Fence");
}

static void look_up(void)
{
    uint64_t word = WORD;
    pmix_info_t info;
    pmix_pdata_t found;
    if (0 == me.rank) {
        PMIX_INFO_LOAD(&info, "test.published", &word, PMIX_UINT64);
        succeed(PMIx_Publish(&info, 1), "Publish");
    }
    succeed(PMIx_Fence(NULL, 0, NULL, 0), "Fence");
    PMIX_PDATA_CONSTRUCT(&found);
    PMIX_LOAD_KEY(found.key, "test.published");
    succeed(PMIx_Lookup(&found, 1, NULL, 0), "Lookup");
    check(PMIX_UINT64 == found.value.type && WORD == found.value.data.uint64, "published value");
}

int main(int argc, char **argv)
{
    pmix_status_t code = CODE;
    int one = 1;

    succeed(PMIx_Init(&me, NULL, 0), "Init");
    uint32_t size = job_size();
    PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, NULL, NULL);
    exchange(size);
    fetch_late(size);
    if (argc < 2 || 0 != strcmp(argv[1], "fences")) {
        raise_event();
        look_up();
    }
    printf("rank %u of %u, %s-endian, %.15s: all values are right\n", me.rank, size, 1 == *(char *)&one ? "little" : "big",
           PMIx_Get_version());
    fflush(stdout);
    succeed(PMIx_Finalize(NULL, 0), "Finalize");
    return 0;
}
