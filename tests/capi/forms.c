/* Data that a process packs for the library of another one. OpenPMIx clients take the encoding of release 3 here. */
#include "host.h"

#define MODULE_KEY "pmix.bfrops.mod" /* PMIX_BFROPS_MODULE, which is in no header */
#define QUERY "capi.sum"

static uint32_t numbers[] = {300, 70000};

/* Packs the numbers for a process. Returns the size of the data, 0 after a failure. */
static size_t pack(const pmix_proc_t *target, pmix_byte_object_t *packed)
{
    pmix_data_buffer_t buffer;
    size_t size;

    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(target, &buffer, numbers, 2, PMIX_UINT32));
    size = buffer.bytes_used;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_unload(&buffer, packed));
    return size;
}

/* Checks that data of a process has the numbers. */
static void unpack(const pmix_proc_t *source, const pmix_byte_object_t *packed)
{
    pmix_data_buffer_t buffer;
    uint32_t found[2] = {0, 0};
    int32_t count = 2;

    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_embed(&buffer, packed));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_unpack(source, &buffer, found, &count, PMIX_UINT32));
    CHECK(count == 2 && found[0] == numbers[0] && found[1] == numbers[1]);
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);
}

/* Sizes: a count and two numbers of 4 bytes each, or of as many 7-bit groups as needed. */
enum { FIXED = 12, FLEXIBLE = 6 };

/* ---- The client. Its query has data for the server, and the answer has data for the client. */
static int client(void)
{
    pmix_query_t query;
    pmix_info_t *results = NULL;
    pmix_value_t *server = NULL;
    size_t count = 0;
    pmix_byte_object_t packed, same;

    /* OpenPMIx has an encoding for each form of the server's address. Ours has one, whatever the address is. */
    if (stock()) {
        unsetenv("PMIX_SERVER_URI41");
        unsetenv("PMIX_SERVER_URI4");
    }
    client_start();
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(&me, PMIX_SERVER_NSPACE, NULL, 0, &server));
    pmix_proc_t host = proc_of(server ? server->data.string : "", 0);
    value_free(server);
    CHECK_NUMBER(stock() ? FIXED : FLEXIBLE, pack(&host, &packed));
    pack(NULL, &same);
    CHECK(packed.size == same.size && memcmp(packed.bytes, same.bytes, same.size) == 0);

    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(count, query.keys, QUERY);
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
    PMIX_INFO_LOAD(&query.qualifiers[0], "capi.data", &packed, PMIX_BYTE_OBJECT);
    count = 0;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Query_info(&query, 1, &results, &count));
    CHECK(count == 1 && results[0].value.type == PMIX_BYTE_OBJECT);
    if (count == 1 && results[0].value.type == PMIX_BYTE_OBJECT) {
        CHECK_NUMBER(packed.size, results[0].value.data.bo.size);
        unpack(NULL, &results[0].value.data.bo);
        unpack(&host, &results[0].value.data.bo);
        /* Data of a process that is not known has the server's form. */
        pmix_proc_t unknown = proc_of("unknown", 0);
        if (!stock()) unpack(&unknown, &results[0].value.data.bo);
    }
    PMIX_INFO_FREE(results, count);
    PMIX_QUERY_DESTRUCT(&query);
    PMIX_BYTE_OBJECT_DESTRUCT(&packed);
    PMIX_BYTE_OBJECT_DESTRUCT(&same);
    return client_end();
}

/* ---- The host. */
static pmix_status_t on_query(pmix_proc_t *proc, pmix_query_t *queries, size_t count, pmix_info_cbfunc_t callback, void *data)
{
    struct answer *answer = answer_new(give_infos, data, PMIX_SUCCESS);
    pmix_data_array_t *infos;
    pmix_byte_object_t packed;

    CHECK(count == 1 && queries[0].keys && strcmp(queries[0].keys[0], QUERY) == 0);
    const pmix_info_t *given = info_of(queries[0].qualifiers, queries[0].nqual, "capi.data");
    CHECK(given && given->value.type == PMIX_BYTE_OBJECT);
    if (given && given->value.type == PMIX_BYTE_OBJECT) unpack(proc, &given->value.data.bo);
    pack(proc, &packed);
    PMIX_DATA_ARRAY_CREATE(infos, 1, PMIX_INFO);
    PMIX_INFO_LOAD((pmix_info_t *)infos->array, QUERY, &packed, PMIX_BYTE_OBJECT);
    PMIX_BYTE_OBJECT_DESTRUCT(&packed);
    answer->payload = infos;
    answer->call.info = callback;
    answer_later(answer);
    return PMIX_SUCCESS;
}

/* Describes a job of another library, without processes here. */
static void describe(const char *nspace, const char *module)
{
    struct done done = DONE;
    pmix_info_t info;

    PMIX_INFO_LOAD(&info, MODULE_KEY, module, PMIX_STRING);
    pmix_status_t status = PMIx_server_register_nspace(nspace, 0, &info, 1, op_done, &done);
    CHECK_STATUS(PMIX_SUCCESS, done_result(&done, status));
    PMIX_INFO_DESTRUCT(&info);
}

static void described_jobs(void)
{
    static const unsigned char fixed[] = {0, 0, 0, 2, 0, 0, 1, 44, 0, 1, 17, 112};
    pmix_proc_t older = proc_of("older", 0), newer = proc_of("newer", PMIX_RANK_WILDCARD);
    pmix_byte_object_t packed;
    pmix_data_buffer_t buffer;
    pmix_coord_t coordinates;

    describe("older", "v3");
    describe("newer", "v41");
    CHECK_NUMBER(sizeof fixed, pack(&older, &packed));
    CHECK(packed.size == sizeof fixed && memcmp(packed.bytes, fixed, sizeof fixed) == 0);
    unpack(&older, &packed);
    PMIX_BYTE_OBJECT_DESTRUCT(&packed);
    CHECK_NUMBER(FLEXIBLE, pack(&newer, &packed));
    unpack(NULL, &packed);
    PMIX_BYTE_OBJECT_DESTRUCT(&packed);

    /* Release 3 has no coordinates. */
    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    memset(&coordinates, 0, sizeof coordinates);
    CHECK_STATUS(PMIX_ERR_UNKNOWN_DATA_TYPE, PMIx_Data_pack(&older, &buffer, &coordinates, 1, PMIX_COORD));
    CHECK_NUMBER(0, buffer.bytes_used);
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);
}

static void unknown_processes(void)
{
    pmix_proc_t unknown = proc_of("unknown", 0);
    pmix_data_buffer_t buffer;
    uint32_t found;
    int32_t count = 1;

    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, PMIx_Data_pack(&unknown, &buffer, numbers, 2, PMIX_UINT32));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &buffer, numbers, 1, PMIX_UINT32));
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, PMIx_Data_unpack(&unknown, &buffer, &found, &count, PMIX_UINT32));
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);
}

static int host(void)
{
    static pmix_server_module_t module;
    pmix_proc_t self = proc_of("capi-host", 0);
    pmix_byte_object_t packed;

    /* 4.2 waits for ever for the encoding of such jobs, and takes its own for a client of release 3. */
    if (stock()) return host_idle();
    module.query = on_query;
    host_start(&module);
    CHECK_NUMBER(FLEXIBLE, pack(&self, &packed));
    unpack(&self, &packed);
    PMIX_BYTE_OBJECT_DESTRUCT(&packed);
    unknown_processes();
    described_jobs();
    host_run("job", 2, 2, "client");
    host_stop();
    return finish();
}

int main(int argc, char **argv)
{
    (void)argv;
    return argc == 1 ? host() : client();
}
