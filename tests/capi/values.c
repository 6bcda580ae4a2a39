/* Values and infos: load, unload, transfer, compare and destruct of every type; arrays, info lists, argument vectors.
 * All of this works without PMIx_Init. */
#include "samples.h"

#include <stddef.h>

static struct sample samples[64];

static void loaded_and_transferred(struct sample *sample)
{
    pmix_value_t loaded, copy, *direct = NULL;
    pmix_info_t info, other;

    memset(&loaded, 0xee, sizeof loaded); /* load must set every needed field */
    PMIX_VALUE_CONSTRUCT(&loaded);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Value_load(&loaded, datum_of(&sample->value), sample->value.type));
    if (!same_value(&sample->value, &loaded)) printf("load of %s\n", sample->name);
    CHECK(same_value(&sample->value, &loaded));
    PMIX_VALUE_CONSTRUCT(&copy);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Value_xfer(&copy, &loaded));
    if (!same_value(&sample->value, &copy)) printf("transfer of %s\n", sample->name);
    CHECK(same_value(&sample->value, &copy));
    /* A deep copy: the first value may be freed. */
    PMIx_Value_destruct(&loaded);
    CHECK(same_value(&sample->value, &copy));
    PMIx_Value_destruct(&copy);

    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_CONSTRUCT(&other);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Info_load(&info, "some.key", datum_of(&sample->value), sample->value.type));
    CHECK_TEXT("some.key", info.key);
    CHECK(same_value(&sample->value, &info.value));
    PMIX_INFO_REQUIRED(&info);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Info_xfer(&other, &info));
    CHECK_TEXT("some.key", other.key);
    CHECK_NUMBER(info.flags, other.flags);
    CHECK(same_value(&sample->value, &other.value));
    PMIX_INFO_DESTRUCT(&info);
    PMIX_INFO_DESTRUCT(&other);

    PMIX_VALUE_CREATE(direct, 1);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Value_xfer(direct, &sample->value));
    CHECK(same_value(&sample->value, direct));
    PMIX_VALUE_RELEASE(direct);
}

static void compared(struct sample *sample)
{
    pmix_value_t copy;
    PMIX_VALUE_CONSTRUCT(&copy);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Value_xfer(&copy, &sample->value));
    switch (sample->value.type) {
    case PMIX_BOOL: case PMIX_STRING: case PMIX_SIZE: case PMIX_INT: case PMIX_INT64: case PMIX_UINT8: case PMIX_UINT64:
    case PMIX_DOUBLE: case PMIX_PROC_RANK:
        CHECK_NUMBER(PMIX_EQUAL, PMIx_Value_compare(&sample->value, &copy));
        break;
    default:
        break; /* not every type has an order */
    }
    PMIx_Value_destruct(&copy);
}

static void unloaded(void)
{
    pmix_value_t value;
    uint32_t number = 99, *at = &number;
    size_t size = 0;
    char *text = NULL;
    pmix_proc_t proc, *procp = &proc;

    PMIX_VALUE_CONSTRUCT(&value);
    value.type = PMIX_UINT32;
    value.data.uint32 = 17;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Value_unload(&value, (void **)&at, &size));
    CHECK_NUMBER(17, number);
    CHECK_NUMBER(sizeof(uint32_t), size);

    value.type = PMIX_STRING;
    value.data.string = "text to copy";
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Value_unload(&value, (void **)&text, &size));
    CHECK_TEXT("text to copy", text);
    CHECK(text != value.data.string);
    free(text);
    /* A string that is NULL leaves the outputs untouched. */
    text = "untouched";
    value.data.string = NULL;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Value_unload(&value, (void **)&text, &size));
    CHECK_TEXT("untouched", text);

    pmix_proc_t source = proc_of("job", 5);
    value.type = PMIX_PROC;
    value.data.proc = &source;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Value_unload(&value, (void **)&procp, &size));
    CHECK_NUMBER(5, proc.rank);
    CHECK_TEXT("job", proc.nspace);

    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = "bytes";
    value.data.bo.size = 5;
    char *bytes = NULL;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Value_unload(&value, (void **)&bytes, &size));
    CHECK_NUMBER(5, size);
    CHECK(bytes && memcmp(bytes, "bytes", 5) == 0);

    /* Without a destination. */
    void *none = NULL;
    value.type = PMIX_UINT32;
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Value_unload(&value, &none, &size));
    if (!stock()) {
        /* Stock dereferences these. */
        CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Value_unload(&value, NULL, &size));
        CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Value_unload(NULL, (void **)&at, &size));
        CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Value_unload(&value, (void **)&at, NULL));
    }
}

static void special(void)
{
    pmix_value_t value;
    pmix_info_t info;
    char long_key[2 * PMIX_MAX_KEYLEN];

    PMIX_VALUE_CONSTRUCT(&value);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Value_load(&value, NULL, PMIX_BOOL));
    CHECK(value.type == PMIX_BOOL && value.data.flag);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Value_load(&value, NULL, PMIX_STRING));
    CHECK(value.type == PMIX_STRING && value.data.string == NULL);
    PMIx_Value_destruct(&value);
    /* A regular expression is a text with a length of its own. */
    if (!stock()) { /* stock's loader of these exists after Init only, and crashes before */
        PMIX_VALUE_CONSTRUCT(&value);
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Value_load(&value, "raw:a,b,c", PMIX_REGEX));
        CHECK_NUMBER(PMIX_REGEX, value.type);
        CHECK_TEXT("raw:a,b,c", value.data.bo.bytes);
        CHECK_NUMBER(sizeof "raw:a,b,c", value.data.bo.size);
        PMIx_Value_destruct(&value);
    }

    /* Undefined and unknown types. */
    PMIX_VALUE_CONSTRUCT(&value);
    CHECK_UNLESS_STOCK("stock prints an error and says SUCCESS", PMIx_Value_load(&value, &value, 60000) != PMIX_SUCCESS);
    PMIX_VALUE_CONSTRUCT(&value);
    value.type = 60000;
    PMIx_Value_destruct(&value); /* nothing to free, no crash */

    if (!stock()) {
        /* Stock cuts the key (Info_load) or dereferences NULL. */
        memset(long_key, 'k', sizeof long_key);
        long_key[sizeof long_key - 1] = 0;
        PMIX_INFO_CONSTRUCT(&info);
        CHECK_EITHER(PMIX_SUCCESS, PMIX_ERR_BAD_PARAM, PMIx_Info_load(&info, long_key, "x", PMIX_STRING));
        CHECK(strnlen(info.key, sizeof info.key) <= PMIX_MAX_KEYLEN);
        PMIX_INFO_DESTRUCT(&info);
        CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Info_load(NULL, "key", "x", PMIX_STRING));
        CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Info_load(&info, NULL, "x", PMIX_STRING));
        CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Value_load(NULL, "x", PMIX_STRING));
        CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Value_xfer(NULL, &value));
        CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Value_xfer(&value, NULL));
        CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Info_xfer(NULL, &info));
        PMIx_Value_destruct(NULL);
        PMIx_Data_array_destruct(NULL);
    }
}

static void arrays(void)
{
    pmix_data_array_t *array;
    pmix_info_t *infos;

    PMIX_DATA_ARRAY_CREATE(array, 2, PMIX_INFO);
    infos = array->array;
    PMIX_INFO_LOAD(&infos[0], "one", "text", PMIX_STRING);
    PMIX_INFO_LOAD(&infos[1], "two", NULL, PMIX_BOOL);
    CHECK(PMIX_INFO_TRUE(&infos[1]));
    pmix_value_t value;
    PMIX_VALUE_CONSTRUCT(&value);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Value_load(&value, array, PMIX_DATA_ARRAY));
    CHECK(same_array(array, value.data.darray));
    PMIX_VALUE_DESTRUCT(&value);
    PMIX_DATA_ARRAY_FREE(array);

    static const pmix_data_type_t kinds[] = {PMIX_PROC, PMIX_VALUE, PMIX_PDATA, PMIX_QUERY, PMIX_APP, PMIX_STRING,
                                             PMIX_BYTE_OBJECT, PMIX_ENVAR, PMIX_COORD, PMIX_UINT64, PMIX_PROC_INFO};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        pmix_data_array_t empty;
        PMIX_DATA_ARRAY_CONSTRUCT(&empty, 3, kinds[i]);
        CHECK_NUMBER(3, empty.size);
        CHECK(empty.array != NULL);
        PMIx_Data_array_destruct(&empty);
        CHECK(empty.array == NULL);
    }
}

static void lists(void)
{
    void *list = PMIx_Info_list_start();
    pmix_data_array_t array;
    pmix_info_t info, *infos;
    uint32_t number = 5;

    CHECK(list != NULL);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Info_list_add(list, "number", &number, PMIX_UINT32));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Info_list_add(list, "text", "hello", PMIX_STRING));
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, "copied", "value", PMIX_STRING);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Info_list_xfer(list, &info));
    PMIX_INFO_DESTRUCT(&info);
    PMIX_DATA_ARRAY_CONSTRUCT(&array, 0, PMIX_UNDEF);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Info_list_convert(list, &array));
    PMIx_Info_list_release(list);
    CHECK_NUMBER(PMIX_INFO, array.type);
    CHECK_NUMBER(3, array.size);
    infos = array.array;
    if (array.size == 3) {
        CHECK_TEXT("number", infos[0].key);
        CHECK_NUMBER(5, infos[0].value.data.uint32);
        CHECK_TEXT("hello", infos[1].value.data.string);
        CHECK_TEXT("copied", infos[2].key);
        CHECK_TEXT("value", infos[2].value.data.string);
    }
    PMIx_Data_array_destruct(&array);

    list = PMIx_Info_list_start();
    PMIX_DATA_ARRAY_CONSTRUCT(&array, 0, PMIX_UNDEF);
    CHECK_STATUS(PMIX_ERR_EMPTY, PMIx_Info_list_convert(list, &array));
    CHECK_NUMBER(0, array.size);
    PMIx_Info_list_release(list);
    if (!stock()) CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Info_list_add(NULL, "key", "x", PMIX_STRING));
}

static void vectors(void)
{
    char **argv = NULL, **copy, *joined;
    int status, count;

    PMIX_ARGV_APPEND(status, argv, "one");
    CHECK_NUMBER(PMIX_SUCCESS, status);
    PMIX_ARGV_APPEND(status, argv, "two");
    PMIX_ARGV_PREPEND(status, argv, "zero");
    CHECK_NUMBER(PMIX_SUCCESS, status);
    PMIX_ARGV_COUNT(count, argv);
    CHECK_NUMBER(3, count);
    PMIX_ARGV_JOIN(joined, argv, ',');
    CHECK_TEXT("zero,one,two", joined);
    free(joined);
    PMIX_ARGV_COPY(copy, argv);
    PMIX_ARGV_FREE(argv);
    PMIX_ARGV_COUNT(count, copy);
    CHECK_NUMBER(3, count);
    CHECK_TEXT("two", copy[2]);
    PMIX_ARGV_FREE(copy);
    PMIX_ARGV_SPLIT(argv, "a,,b,c", ',');
    PMIX_ARGV_COUNT(count, argv);
    CHECK_NUMBER(3, count);
    CHECK_TEXT("b", argv[1]);
    PMIX_ARGV_FREE(argv);
}

static void texts(void)
{
    struct { const char *expected, *found; } names[] = {
        {"PMIX_INT", PMIx_Data_type_string(PMIX_INT)},
        {"PMIX_DATA_ARRAY", PMIx_Data_type_string(PMIX_DATA_ARRAY)},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) CHECK_TEXT(names[i].expected, names[i].found);
    CHECK(PMIx_Scope_string(PMIX_GLOBAL) && PMIx_Scope_string(250));
    CHECK(PMIx_Persistence_string(PMIX_PERSIST_APP) && PMIx_Persistence_string(250));
    CHECK(PMIx_Data_range_string(PMIX_RANGE_SESSION) && PMIx_Data_range_string(250));
    CHECK(PMIx_Data_type_string(60000) != NULL);
    CHECK(PMIx_Alloc_directive_string(PMIX_ALLOC_NEW) && PMIx_Alloc_directive_string(250));
    CHECK(PMIx_Proc_state_string(PMIX_PROC_STATE_RUNNING) && PMIx_Proc_state_string(250));
    CHECK(PMIx_Job_state_string(PMIX_JOB_STATE_RUNNING) && PMIx_Job_state_string(250));
    CHECK(PMIx_IOF_channel_string(PMIX_FWD_STDOUT_CHANNEL) != NULL);
    CHECK(PMIx_Link_state_string(PMIX_LINK_UP) && PMIx_Link_state_string(250));
    CHECK(PMIx_Device_type_string(PMIX_DEVTYPE_GPU) && PMIx_Device_type_string(0x4000));
    CHECK(PMIx_Error_string(PMIX_SUCCESS) && PMIx_Error_string(123456) && PMIx_Error_string(-123456));
    CHECK_TEXT("pmix.hname", PMIx_Get_attribute_string("PMIX_HOSTNAME"));
    CHECK_TEXT("PMIX_HOSTNAME", PMIx_Get_attribute_name("pmix.hname"));
    CHECK_TEXT("no.such.attribute", PMIx_Get_attribute_name("no.such.attribute"));
    char *directives = PMIx_Info_directives_string(PMIX_INFO_REQD);
    CHECK(directives != NULL);
    free(directives);
}

/* Data at odd addresses. Programs pass addresses of members of packed structures and of bytes in messages, and OpenPMIx
 * copies bytes. Ours returned PMIX_ERR_BAD_PARAM. Rule: data of a named type may lie at any address. */
static void unaligned(void)
{
    struct __attribute__((packed)) {
        char before;
        uint64_t number;
        double real;
        struct timeval moment;
        pmix_proc_t proc;
        pmix_byte_object_t bytes;
        pmix_info_t infos[2];
        char *texts[2];
        uint16_t numbers[3];
        pmix_proc_t room;
        uint32_t small;
    } at;
    pmix_value_t value;
    pmix_info_t info;
    size_t size = 0;
    void *place = (char *)&at + offsetof(__typeof__(at), small);
    pmix_data_buffer_t *buffer;

    memset(&at, 0, sizeof at);
    at.number = 0x1122334455667788ULL;
    at.real = 2.5;
    at.moment.tv_sec = 7;
    at.proc = proc_of("a-job", 5);
    at.bytes.bytes = "abc";
    at.bytes.size = 3;
    strcpy(at.infos[1].key, "second");
    at.infos[1].value.type = PMIX_STRING;
    at.infos[1].value.data.string = "text";
    at.texts[0] = "one";
    at.texts[1] = "two";
    at.numbers[2] = 300;
#define AT(member) ((void *)((char *)&at + offsetof(__typeof__(at), member)))
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Value_load(&value, AT(number), PMIX_UINT64));
    CHECK(value.data.uint64 == 0x1122334455667788ULL);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Value_load(&value, AT(real), PMIX_DOUBLE));
    CHECK(value.data.dval == 2.5);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Value_load(&value, AT(moment), PMIX_TIMEVAL));
    CHECK_NUMBER(7, value.data.tv.tv_sec);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Value_load(&value, AT(bytes), PMIX_BYTE_OBJECT));
    CHECK_NUMBER(3, value.data.bo.size);
    PMIx_Value_destruct(&value);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Value_load(&value, AT(proc), PMIX_PROC));
    CHECK_TEXT("a-job", value.data.proc->nspace);
    CHECK_NUMBER(5, value.data.proc->rank);
    place = AT(room);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Value_unload(&value, &place, &size));
    CHECK(at.room.rank == 5);
    PMIx_Value_destruct(&value);
    PMIX_INFO_CONSTRUCT(&info);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Info_load(&info, "key", AT(number), PMIX_UINT64));
    CHECK(info.value.data.uint64 == 0x1122334455667788ULL);
    PMIX_VALUE_CONSTRUCT(&value);
    value.type = PMIX_UINT32;
    value.data.uint32 = 99;
    place = AT(small);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Value_unload(&value, &place, &size));
    CHECK_NUMBER(99, at.small);
    PMIX_INFO_DESTRUCT(&info);
    if (stock()) return; /* stock packs nothing before PMIx_Init */

    PMIX_DATA_BUFFER_CREATE(buffer);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, buffer, AT(number), 1, PMIX_UINT64));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, buffer, AT(numbers), 3, PMIX_UINT16));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, buffer, AT(texts), 2, PMIX_STRING));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, buffer, AT(infos), 2, PMIX_INFO));
    at.number = 0;
    memset(at.numbers, 0, sizeof at.numbers);
    memset(at.infos, 0, sizeof at.infos);
    memset(at.texts, 0, sizeof at.texts);
    int32_t count = 1;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_unpack(NULL, buffer, AT(number), &count, PMIX_UINT64));
    CHECK(at.number == 0x1122334455667788ULL);
    count = 3;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_unpack(NULL, buffer, AT(numbers), &count, PMIX_UINT16));
    CHECK_NUMBER(300, at.numbers[2]);
    count = 2;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_unpack(NULL, buffer, AT(texts), &count, PMIX_STRING));
    CHECK_TEXT("two", at.texts[1]);
    count = 2;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_unpack(NULL, buffer, AT(infos), &count, PMIX_INFO));
    CHECK_TEXT("", at.infos[0].key); /* an info without a key is one, too */
    CHECK_TEXT("second", at.infos[1].key);
    CHECK_TEXT("text", at.infos[1].value.data.string);
    free(at.texts[0]);
    free(at.texts[1]);
    free(at.infos[1].value.data.string);
    PMIX_DATA_BUFFER_RELEASE(buffer);
}

int main(void)
{
    size_t count = samples_fill(samples);
    for (size_t i = 0; i < count; i++) {
        loaded_and_transferred(&samples[i]);
        compared(&samples[i]);
    }
    unloaded();
    special();
    arrays();
    lists();
    vectors();
    texts();
    unaligned();
    return finish();
}
