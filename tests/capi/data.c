/* Buffers: every type packed and unpacked, alone and in arrays; copy and print; payloads, load, unload, embed;
 * compression; reads beyond the buffer, or of another type. PMIx_Init chooses a packer, so this is a singleton. */
#include "samples.h"

static struct sample samples[64];

static void round_trip(struct sample *sample)
{
    pmix_data_buffer_t buffer;
    pmix_value_t found;
    int32_t count = 1;

    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &buffer, &sample->value, 1, PMIX_VALUE));
    CHECK(buffer.bytes_used > 0);
    PMIX_VALUE_CONSTRUCT(&found);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_unpack(NULL, &buffer, &found, &count, PMIX_VALUE));
    CHECK_NUMBER(1, count);
    /* The wire format of 4.x has no exit code in a process info. */
    if (found.type == PMIX_PROC_INFO) found.data.pinfo->exit_code = sample_proc_info.exit_code;
    if (!same_value(&sample->value, &found)) printf("round trip of %s\n", sample->name);
    CHECK(same_value(&sample->value, &found));
    PMIX_VALUE_DESTRUCT(&found);
    count = 1;
    CHECK_STATUS(PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER, PMIx_Data_unpack(NULL, &buffer, &found, &count, PMIX_VALUE));
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);

    char *text = NULL;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_print(&text, "prefix ", &sample->value, PMIX_VALUE));
    CHECK(text != NULL && strstr(text, "prefix") != NULL);
    free(text);

    pmix_value_t *copy = NULL;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_copy((void **)&copy, &sample->value, PMIX_VALUE));
    CHECK(copy != NULL && copy != &sample->value && same_value(&sample->value, copy));
    value_free(copy);
}

/* Number of bytes before the read position. */
static long position_of(const pmix_data_buffer_t *buffer) { return (long)(buffer->unpack_ptr - buffer->base_ptr); }

/* Regression: PRRTE reads until the end of the data is reported, also after an operation of no values, and it relies on
 * a read position behind a failure. Ours gave 0, and stayed. */
static void ends_and_failures(void)
{
    static const pmix_data_type_t integers[] = {PMIX_SIZE, PMIX_PID, PMIX_INT, PMIX_INT16, PMIX_INT64, PMIX_UINT32,
                                                PMIX_STATUS, PMIX_PROC_RANK, PMIX_IOF_CHANNEL};
    static const pmix_data_type_t others[] = {PMIX_STRING, PMIX_BYTE, PMIX_BOOL, PMIX_PROC, PMIX_INFO, PMIX_VALUE,
                                              PMIX_DOUBLE, PMIX_BYTE_OBJECT};
    pmix_data_buffer_t buffer;
    int32_t three[] = {1, 2, 3}, found[3], count;
    char room[1024] = "", *text = NULL;

    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &buffer, room, 0, integers[i]));
        count = 1;
        CHECK_STATUS(PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER, PMIx_Data_unpack(NULL, &buffer, room, &count, integers[i]));
        CHECK_NUMBER(0, count);
        CHECK_NUMBER(buffer.bytes_used, position_of(&buffer));
        PMIX_DATA_BUFFER_DESTRUCT(&buffer);
        /* with data behind */
        PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &buffer, room, 0, integers[i]));
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &buffer, three, 1, PMIX_INT32));
        count = 1;
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_unpack(NULL, &buffer, room, &count, integers[i]));
        CHECK_NUMBER(0, count);
        PMIX_DATA_BUFFER_DESTRUCT(&buffer);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &buffer, room, 0, others[i]));
        count = 1;
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_unpack(NULL, &buffer, room, &count, others[i]));
        CHECK_NUMBER(0, count);
        PMIX_DATA_BUFFER_DESTRUCT(&buffer);
    }
    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &buffer, three, 3, PMIX_INT32));
    count = 0;
    CHECK_STATUS(PMIX_ERR_UNPACK_INADEQUATE_SPACE, PMIx_Data_unpack(NULL, &buffer, found, &count, PMIX_INT32));
    CHECK_NUMBER(0, position_of(&buffer));
    count = 2;
    CHECK_STATUS(PMIX_ERR_UNPACK_INADEQUATE_SPACE, PMIx_Data_unpack(NULL, &buffer, found, &count, PMIX_INT32));
    CHECK(count == 2 && found[0] == 1 && found[1] == 2);
    CHECK_NUMBER(3, position_of(&buffer)); /* the count and two values, a byte each */
    /* a reader of other types meets the end, whatever the bytes mean */
    buffer.unpack_ptr = buffer.base_ptr;
    pmix_status_t status = PMIX_SUCCESS;
    for (int reads = 0; reads < 8 && status != PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER; reads++) {
        count = 1;
        status = PMIx_Data_unpack(NULL, &buffer, &text, &count, PMIX_STRING);
    }
    CHECK_STATUS(PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER, status);
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);
}

/* Types that stand alone, not as values. */
static void alone(void)
{
    pmix_data_buffer_t buffer;
    int32_t count;
    char *texts[] = {"one", NULL, "three"}, *found[3] = {NULL};
    uint32_t numbers[1000], numbers_found[1000];
    bool flags[] = {true, false}, flags_found[2];

    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    for (int i = 0; i < 1000; i++) numbers[i] = (uint32_t)i * 4294967U;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &buffer, texts, 3, PMIX_STRING));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &buffer, numbers, 1000, PMIX_UINT32));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &buffer, flags, 2, PMIX_BOOL));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &buffer, &sample_proc, 1, PMIX_PROC));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &buffer, sample_info, 2, PMIX_INFO));

    count = 3;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_unpack(NULL, &buffer, found, &count, PMIX_STRING));
    CHECK_NUMBER(3, count);
    CHECK_TEXT("one", found[0]);
    CHECK(found[1] == NULL);
    CHECK_TEXT("three", found[2]);
    free(found[0]);
    free(found[2]);
    /* In parts: if the capacity is too small, unpack fills it and returns this status. */
    count = 400;
    CHECK_STATUS(PMIX_ERR_UNPACK_INADEQUATE_SPACE, PMIx_Data_unpack(NULL, &buffer, numbers_found, &count, PMIX_UINT32));
    CHECK(count == 400 && memcmp(numbers, numbers_found, 400 * sizeof(uint32_t)) == 0);
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);

    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &buffer, numbers, 1000, PMIX_UINT32));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &buffer, flags, 2, PMIX_BOOL));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &buffer, &sample_proc, 1, PMIX_PROC));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &buffer, sample_info, 2, PMIX_INFO));
    count = 1000;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_unpack(NULL, &buffer, numbers_found, &count, PMIX_UINT32));
    CHECK(count == 1000 && memcmp(numbers, numbers_found, sizeof numbers) == 0);
    count = 2;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_unpack(NULL, &buffer, flags_found, &count, PMIX_BOOL));
    CHECK(flags_found[0] && !flags_found[1]);
    pmix_proc_t proc;
    count = 1;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_unpack(NULL, &buffer, &proc, &count, PMIX_PROC));
    CHECK(PMIX_CHECK_PROCID(&proc, &sample_proc));
    pmix_info_t infos[2];
    PMIX_INFO_CONSTRUCT(&infos[0]);
    PMIX_INFO_CONSTRUCT(&infos[1]);
    count = 2;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_unpack(NULL, &buffer, infos, &count, PMIX_INFO));
    CHECK_NUMBER(2, count);
    CHECK_TEXT("second", infos[1].key);
    CHECK(same_value(&sample_info[1].value, &infos[1].value));
    PMIX_INFO_DESTRUCT(&infos[0]);
    PMIX_INFO_DESTRUCT(&infos[1]);
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);
}

static void structures(void)
{
    pmix_data_buffer_t buffer;
    int32_t count = 1;
    pmix_app_t app, app_found;
    pmix_query_t query, query_found;
    pmix_pdata_t pdata, pdata_found;
    char *argv[] = {"prog", "-x", NULL}, *env[] = {"A=1", NULL}, *keys[] = {PMIX_QUERY_NAMESPACES, NULL};

    PMIX_APP_CONSTRUCT(&app);
    app.cmd = "prog";
    app.argv = argv;
    app.env = env;
    app.cwd = "/";
    app.maxprocs = 4;
    app.info = sample_info;
    app.ninfo = 2;
    PMIX_QUERY_CONSTRUCT(&query);
    query.keys = keys;
    query.qualifiers = sample_info;
    query.nqual = 2;
    PMIX_PDATA_CONSTRUCT(&pdata);
    pdata.proc = sample_proc;
    strcpy(pdata.key, "published");
    pdata.value = sample_info[1].value;

    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &buffer, &app, 1, PMIX_APP));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &buffer, &query, 1, PMIX_QUERY));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &buffer, &pdata, 1, PMIX_PDATA));
    PMIX_APP_CONSTRUCT(&app_found);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_unpack(NULL, &buffer, &app_found, &count, PMIX_APP));
    CHECK_TEXT("prog", app_found.cmd);
    CHECK_NUMBER(4, app_found.maxprocs);
    CHECK_NUMBER(2, app_found.ninfo);
    CHECK(app_found.argv && same_text(app_found.argv[1], "-x") && app_found.env && same_text(app_found.env[0], "A=1"));
    CHECK_TEXT("/", app_found.cwd);
    PMIX_APP_DESTRUCT(&app_found);
    PMIX_QUERY_CONSTRUCT(&query_found);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_unpack(NULL, &buffer, &query_found, &count, PMIX_QUERY));
    CHECK(query_found.keys && same_text(query_found.keys[0], PMIX_QUERY_NAMESPACES));
    CHECK_NUMBER(2, query_found.nqual);
    PMIX_QUERY_DESTRUCT(&query_found);
    PMIX_PDATA_CONSTRUCT(&pdata_found);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_unpack(NULL, &buffer, &pdata_found, &count, PMIX_PDATA));
    CHECK_TEXT("published", pdata_found.key);
    CHECK(PMIX_CHECK_PROCID(&pdata_found.proc, &sample_proc) && same_value(&pdata_found.value, &pdata.value));
    PMIX_PDATA_DESTRUCT(&pdata_found);
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);
}

static void payloads(void)
{
    pmix_data_buffer_t buffer, other;
    pmix_byte_object_t bytes = {NULL, 0};
    int32_t count = 1;
    int number = 41, found = 0;

    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    PMIX_DATA_BUFFER_CONSTRUCT(&other);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &buffer, &number, 1, PMIX_INT));
    number = 42;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &buffer, &number, 1, PMIX_INT));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_unpack(NULL, &buffer, &found, &count, PMIX_INT));
    CHECK_NUMBER(41, found);
    /* Only the unread part is copied, and unloaded; unloading leaves the buffer empty. */
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_copy_payload(&other, &buffer));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_unpack(NULL, &other, &found, &count, PMIX_INT));
    CHECK_NUMBER(42, found);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_unload(&buffer, &bytes));
    CHECK(bytes.size > 0 && bytes.bytes != NULL);
    CHECK_NUMBER(0, buffer.bytes_used);
    CHECK(buffer.base_ptr == NULL);
    PMIX_DATA_BUFFER_DESTRUCT(&other);
    PMIX_DATA_BUFFER_CONSTRUCT(&other);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_embed(&other, &bytes)); /* copies */
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_load(&buffer, &bytes)); /* takes over */
    CHECK(bytes.bytes == NULL && bytes.size == 0);
    found = 0;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_unpack(NULL, &buffer, &found, &count, PMIX_INT));
    CHECK_NUMBER(42, found);
    found = 0;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_unpack(NULL, &other, &found, &count, PMIX_INT));
    CHECK_NUMBER(42, found);
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);
    PMIX_DATA_BUFFER_DESTRUCT(&other);
}

static void compressed(void)
{
    size_t size = 100000, small_size = 0, back_size = 0;
    uint8_t *bytes = calloc(1, size), *small = NULL, *back = NULL;

    if (stock()) { /* Debian builds stock without zlib */
        free(bytes);
        return;
    }
    CHECK(PMIx_Data_compress(bytes, size, &small, &small_size));
    CHECK(small_size > 0 && small_size < size);
    CHECK(PMIx_Data_decompress(small, small_size, &back, &back_size));
    CHECK(back_size == size && back && memcmp(back, bytes, size) == 0);
    free(small);
    free(back);
    small = NULL;
    CHECK(!PMIx_Data_compress(bytes, 3, &small, &small_size)); /* would not shrink */
    free(bytes);
}

static void refused(void)
{
    pmix_data_buffer_t buffer;
    int32_t count = 1;
    int number = 1;
    pmix_value_t value;

    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    CHECK_STATUS(PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER, PMIx_Data_unpack(NULL, &buffer, &number, &count, PMIX_INT));
    CHECK_STATUS(PMIX_ERR_UNKNOWN_DATA_TYPE, PMIx_Data_pack(NULL, &buffer, &number, 1, 60000));
    CHECK(PMIx_Data_unpack(NULL, &buffer, &number, &count, 60000) != PMIX_SUCCESS);
    if (!stock()) { /* stock dereferences NULL, or reads on */
        CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Data_pack(NULL, NULL, &number, 1, PMIX_INT));
        CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Data_pack(NULL, &buffer, NULL, 1, PMIX_INT));
        CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Data_pack(NULL, &buffer, &number, -1, PMIX_INT));
        CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Data_unpack(NULL, NULL, &number, &count, PMIX_INT));
        CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Data_unpack(NULL, &buffer, &number, NULL, PMIX_INT));
        CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Data_print(NULL, NULL, &number, PMIX_INT));
        CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Data_copy(NULL, &number, PMIX_INT));
        CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Data_unload(NULL, NULL));
        CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Data_load(NULL, NULL));
        CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Data_copy_payload(NULL, NULL));
    }
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);

    /* Every truncation of a good buffer gives an error, never more. */
    pmix_byte_object_t whole = {NULL, 0};
    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    for (int i = 0; i < 64 && samples[i].name; i++) {
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, &buffer, &samples[i].value, 1, PMIX_VALUE));
    }
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_unload(&buffer, &whole));
    for (size_t size = 0; size < whole.size && !stock(); size++) { /* stock leaks and overreads some of these */
        pmix_byte_object_t part = {whole.bytes, size};
        PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_embed(&buffer, &part));
        pmix_status_t status;
        do {
            count = 1;
            PMIX_VALUE_CONSTRUCT(&value);
            status = PMIx_Data_unpack(NULL, &buffer, &value, &count, PMIX_VALUE);
            if (status == PMIX_SUCCESS) PMIX_VALUE_DESTRUCT(&value);
        } while (status == PMIX_SUCCESS);
        PMIX_DATA_BUFFER_DESTRUCT(&buffer);
    }
    free(whole.bytes);
    /* A count that no memory holds. */
    static char huge[] = {0x7f, (char)0xff, (char)0xff, (char)0xff, 0, 0, 0, 0};
    pmix_byte_object_t bad = {huge, sizeof huge};
    char *texts[2];
    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_embed(&buffer, &bad));
    count = 2;
    CHECK_UNLESS_STOCK("reads zero texts", PMIx_Data_unpack(NULL, &buffer, texts, &count, PMIX_STRING) != PMIX_SUCCESS);
    PMIX_DATA_BUFFER_DESTRUCT(&buffer);
}

int main(void)
{
    pmix_proc_t me;
    size_t count = samples_fill(samples);

    CHECK_STATUS(PMIX_ERR_UNREACH, PMIx_Init(&me, NULL, 0));
    for (size_t i = 0; i < count; i++) round_trip(&samples[i]);
    alone();
    ends_and_failures();
    structures();
    payloads();
    compressed();
    refused();
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    return finish();
}
