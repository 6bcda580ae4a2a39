/* Puts values of many types, then prints every answer it gets: of the job, of its node, of each process, posted and
 * missing. What is printed must not depend on how the answer came: from a segment or over a socket. */
#include <pmix.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t me;

static void fail(const char *what, pmix_status_t status)
{
    fprintf(stderr, "%s of rank %u: %d (%s)\n", what, me.rank, status, PMIx_Error_string(status));
    exit(1);
}

static void bytes_of(const void *start, size_t size)
{
    const unsigned char *bytes = start;
    for (size_t i = 0; i < size; i++) printf("%02x", bytes[i]);
}

static void show(const pmix_value_t *value)
{
    printf(" type %u ", value->type);
    switch (value->type) {
    case PMIX_BOOL: printf("%d", value->data.flag); break;
    case PMIX_BYTE: case PMIX_UINT8: case PMIX_INT8: printf("%u", value->data.byte); break;
    case PMIX_STRING: printf("%s", value->data.string); break;
    case PMIX_SIZE: printf("%zu", value->data.size); break;
    case PMIX_INT: case PMIX_INT32: case PMIX_STATUS: printf("%d", value->data.int32); break;
    case PMIX_UINT: case PMIX_UINT32: case PMIX_PROC_RANK: printf("%u", value->data.uint32); break;
    case PMIX_INT16: case PMIX_UINT16: printf("%u", value->data.uint16); break;
    case PMIX_INT64: case PMIX_UINT64: printf("%llu", (unsigned long long)value->data.uint64); break;
    case PMIX_FLOAT: printf("%f", (double)value->data.fval); break;
    case PMIX_DOUBLE: printf("%f", value->data.dval); break;
    case PMIX_TIMEVAL: printf("%lld.%06lld", (long long)value->data.tv.tv_sec, (long long)value->data.tv.tv_usec); break;
    case PMIX_PROC: printf("rank %u", value->data.proc->rank); break;
    case PMIX_BYTE_OBJECT: bytes_of(value->data.bo.bytes, value->data.bo.size); break;
    default: printf("(not shown)");
    }
}

/* One answer. The job's name differs from run to run: not printed. */
static void ask(pmix_rank_t rank, const char *key, const pmix_info_t *directives, size_t count)
{
    pmix_proc_t proc = me;
    pmix_value_t *value = NULL;
    proc.rank = rank;
    pmix_status_t status = PMIx_Get(&proc, key, directives, count, &value);
    printf("rank %u asks %d for %s: %d", me.rank, (int)rank, key, status);
    if (status == PMIX_SUCCESS) {
        show(value);
        PMIX_VALUE_RELEASE(value);
    }
    printf("\n");
}

static void put(const char *name, pmix_scope_t scope, pmix_value_t *value)
{
    pmix_status_t status = PMIx_Put(scope, name, value);
    if (status != PMIX_SUCCESS) fail(name, status);
}

#define NUMBER(name, scope, kind, member, number)          \
    do {                                                   \
        pmix_value_t value_ = {.type = kind};              \
        value_.data.member = (number);                     \
        put(name, scope, &value_);                         \
    } while (0)

static const char *const posted[] = {"flag", "byte", "text", "empty", "size", "int", "int8", "int16", "int32", "int64",
                                     "uint", "uint16", "uint32", "uint64", "float", "double", "time", "status", "rank",
                                     "bytes", "local", "remote", "again"};

static void put_all(void)
{
    unsigned long long seed = 0x9e3779b97f4a7c15ull * (me.rank + 1);
    char text[64], bytes[3000];
    snprintf(text, sizeof text, "text of %u", me.rank);
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)((seed >> (i % 40)) + i);
    NUMBER("flag", PMIX_GLOBAL, PMIX_BOOL, flag, me.rank % 2);
    NUMBER("byte", PMIX_GLOBAL, PMIX_BYTE, byte, (unsigned char)seed);
    NUMBER("text", PMIX_GLOBAL, PMIX_STRING, string, text);
    NUMBER("empty", PMIX_GLOBAL, PMIX_STRING, string, "");
    NUMBER("size", PMIX_GLOBAL, PMIX_SIZE, size, (size_t)seed);
    NUMBER("int", PMIX_GLOBAL, PMIX_INT, integer, (int)seed);
    NUMBER("int8", PMIX_GLOBAL, PMIX_INT8, int8, (signed char)seed);
    NUMBER("int16", PMIX_GLOBAL, PMIX_INT16, int16, (short)seed);
    NUMBER("int32", PMIX_GLOBAL, PMIX_INT32, int32, (int)(seed >> 16));
    NUMBER("int64", PMIX_GLOBAL, PMIX_INT64, int64, (long long)seed);
    NUMBER("uint", PMIX_GLOBAL, PMIX_UINT, uint, (unsigned)seed & 0x7fffffff);
    NUMBER("uint16", PMIX_GLOBAL, PMIX_UINT16, uint16, (unsigned short)seed);
    NUMBER("uint32", PMIX_GLOBAL, PMIX_UINT32, uint32, (unsigned)seed);
    NUMBER("uint64", PMIX_GLOBAL, PMIX_UINT64, uint64, seed);
    NUMBER("float", PMIX_GLOBAL, PMIX_FLOAT, fval, 0.5f * (float)me.rank); /* travels as decimals: six behind the point */
    NUMBER("double", PMIX_GLOBAL, PMIX_DOUBLE, dval, -0.25 * me.rank);
    pmix_value_t time = {.type = PMIX_TIMEVAL};
    time.data.tv.tv_sec = (long)(seed >> 20);
    time.data.tv.tv_usec = 17;
    put("time", PMIX_GLOBAL, &time);
    NUMBER("status", PMIX_GLOBAL, PMIX_STATUS, status, -46);
    NUMBER("rank", PMIX_GLOBAL, PMIX_PROC_RANK, rank, me.rank);
    pmix_value_t object = {.type = PMIX_BYTE_OBJECT};
    object.data.bo.bytes = bytes;
    object.data.bo.size = sizeof bytes;
    put("bytes", PMIX_GLOBAL, &object);
    NUMBER("local", PMIX_LOCAL, PMIX_UINT32, uint32, 1);
    NUMBER("remote", PMIX_REMOTE, PMIX_UINT32, uint32, 2);
    NUMBER("again", PMIX_GLOBAL, PMIX_UINT32, uint32, 3);
}

static void meet(bool collect)
{
    pmix_info_t info;
    pmix_status_t status = PMIx_Commit();
    if (status != PMIX_SUCCESS) fail("commit", status);
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    status = PMIx_Fence(NULL, 0, &info, 1);
    if (status != PMIX_SUCCESS) fail("fence", status);
}

static const char *const of_job[] = {PMIX_JOB_SIZE, PMIX_UNIV_SIZE, PMIX_MAX_PROCS, PMIX_NUM_NODES, PMIX_LOCAL_SIZE,
                                     PMIX_LOCAL_PEERS, PMIX_LOCALLDR, PMIX_JOB_NUM_APPS, "pmix.nonesuch"};
static const char *const of_process[] = {PMIX_LOCAL_RANK, PMIX_NODE_RANK, PMIX_APPNUM, PMIX_NODEID, PMIX_HOSTNAME};

#define EACH(key, keys) \
    for (const char *const *key = keys; key < keys + sizeof keys / sizeof *keys; key++)

int main(void)
{
    pmix_info_t at_once, unasked;
    uint32_t size;
    pmix_value_t *value;
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    if (status != PMIX_SUCCESS) fail("init", status);
    pmix_proc_t job = me;
    job.rank = PMIX_RANK_WILDCARD;
    status = PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &value);
    if (status != PMIX_SUCCESS) fail("size of the job", status);
    size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    bool yes = true;
    PMIX_INFO_LOAD(&at_once, PMIX_IMMEDIATE, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&unasked, PMIX_OPTIONAL, &yes, PMIX_BOOL);

    put_all();
    meet(true);
    EACH(key, of_job) ask(PMIX_RANK_WILDCARD, *key, NULL, 0);
    for (pmix_rank_t rank = 0; rank < size; rank++) {
        EACH(key, of_process) ask(rank, *key, NULL, 0);
        EACH(key, posted) {
            /* What was put for other nodes a process of this one asks for without waiting: it will never come. */
            bool never = strcmp(*key, "remote") == 0;
            if (!never || rank != me.rank) ask(rank, *key, never ? &at_once : NULL, never ? 1 : 0);
        }
        ask(rank, "missing", &at_once, 1);
    }
    ask(size, "missing", &at_once, 1);
    /* Posted anew, and something more: asked of all but what the own library may keep from before. */
    NUMBER("more", PMIX_GLOBAL, PMIX_UINT32, uint32, me.rank + 100);
    meet(false);
    for (pmix_rank_t rank = 0; rank < size; rank++) ask(rank, "more", NULL, 0);
    status = PMIx_Finalize(NULL, 0);
    if (status != PMIX_SUCCESS) fail("finalize", status);
    return 0;
}
