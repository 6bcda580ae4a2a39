/* The functions that Open MPI 5 uses beyond those of 4.2.2, found by name as its loader finds them, and the array of
 * data that it needs to start. Programs compiled against 4.2.2 have them inline, so the headers may not declare them. */
#include "check.h"

/* Finds a function, or fails a check and skips what follows it. */
#define FIND(type, name, arguments) \
    type(*name) arguments = (type(*) arguments)(uintptr_t)dlsym(RTLD_DEFAULT, "PMIx_" #name); \
    CHECK(name != NULL); \
    if (!name) return

static void names(void)
{
    FIND(bool, Check_key, (const char *, const char *));
    FIND(bool, Check_nspace, (const char *, const char *));
    FIND(void, Load_key, (char *, const char *));
    FIND(void, Load_nspace, (char *, const char *));
    FIND(void, Load_procid, (pmix_proc_t *, const char *, pmix_rank_t));
    pmix_key_t key;
    pmix_nspace_t nspace;
    pmix_proc_t proc;
    char big[2000];

    memset(big, 'x', sizeof big);
    big[sizeof big - 1] = 0;
    CHECK(Check_key("a.key", "a.key") && !Check_key("a.key", "a.ke"));
    CHECK(Check_nspace("job", "job") && !Check_nspace("job", "jobs"));
    memset(key, 7, sizeof key);
    Load_key(key, "some.key");
    CHECK_TEXT("some.key", key);
    Load_key(key, big);
    CHECK_NUMBER(PMIX_MAX_KEYLEN, strnlen(key, sizeof key));
    Load_nspace(nspace, "job");
    CHECK_TEXT("job", nspace);
    Load_nspace(nspace, NULL); /* the empty namespace */
    CHECK_TEXT("", nspace);
    Load_procid(&proc, "job", 12);
    CHECK_TEXT("job", proc.nspace);
    CHECK_NUMBER(12, proc.rank);
}

/* `pmix_regex2_t` of 6.1, which older headers lack. */
struct typed_list {
    char *type;
    unsigned char *bytes;
    size_t len;
};

/* Lists with the name of their encoding, as PRRTE 4.1 and later make and read them. */
static void typed_lists(void)
{
    FIND(pmix_status_t, generate_regex2, (const char *, pmix_info_t *, size_t, struct typed_list *));
    FIND(pmix_status_t, parse_regex2, (const struct typed_list *, pmix_info_t *, size_t, char **));
    FIND(void, Regex2_destruct, (struct typed_list *));
    struct typed_list list = {NULL, NULL, 0}, other;
    char *text = NULL, *long_list = malloc(90001);
    pmix_info_t must;

    CHECK_STATUS(PMIX_ERR_INIT, generate_regex2("odin1", NULL, 0, &list));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_init(NULL, NULL, 0));
    CHECK_STATUS(PMIX_SUCCESS, generate_regex2("odin1,odin2,login", NULL, 0, &list));
    CHECK_TEXT("raw", list.type);
    CHECK(list.len == 18 && memcmp(list.bytes, "odin1,odin2,login", 18) == 0); /* with its NUL */
    CHECK_STATUS(PMIX_SUCCESS, parse_regex2(&list, NULL, 0, &text));
    CHECK_TEXT("odin1,odin2,login", text);
    free(text);
    other = list;
    other.len--; /* a list that no NUL ends */
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, parse_regex2(&other, NULL, 0, &text));
    other = list;
    other.type = "unknown";
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, parse_regex2(&other, NULL, 0, &text));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, parse_regex2(NULL, NULL, 0, &text));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, parse_regex2(&list, NULL, 0, NULL));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, generate_regex2(NULL, NULL, 0, &list));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, generate_regex2("a", NULL, 0, NULL));
    Regex2_destruct(&list);
    CHECK(list.bytes == NULL && list.len == 0);

    for (int i = 0; i < 9000; i++) snprintf(long_list + 10 * i, 11, "node%05d%s", i, i < 8999 ? "," : "");
    CHECK_STATUS(PMIX_SUCCESS, generate_regex2(long_list, NULL, 0, &list));
    CHECK_TEXT("compress", list.type);
    CHECK(list.len < 45000);
    CHECK_STATUS(PMIX_SUCCESS, parse_regex2(&list, NULL, 0, &text));
    CHECK(text && strcmp(long_list, text) == 0);
    free(text);
    Regex2_destruct(&list);
    free(long_list);

    CHECK_STATUS(PMIX_SUCCESS, generate_regex2("0,1;2;;3", NULL, 0, &list)); /* ranks on four nodes */
    CHECK_STATUS(PMIX_SUCCESS, parse_regex2(&list, NULL, 0, &text));
    CHECK_TEXT("0,1;2;;3", text);
    free(text);
    Regex2_destruct(&list);
    PMIX_INFO_CONSTRUCT(&must);
    PMIX_INFO_LOAD(&must, "some.directive", NULL, PMIX_BOOL);
    must.flags = PMIX_INFO_REQD;
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, generate_regex2("a", &must, 1, &list));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_finalize());
}

static void arrays(void)
{
    FIND(pmix_info_t *, Info_create, (size_t));
    FIND(void, Info_free, (pmix_info_t *, size_t));
    FIND(void, Info_construct, (pmix_info_t *));
    FIND(void, Info_destruct, (pmix_info_t *));
    FIND(void, Info_qualifier, (pmix_info_t *));
    FIND(pmix_proc_t *, Proc_create, (size_t));
    FIND(void, Proc_free, (pmix_proc_t *, size_t));
    FIND(void, Proc_construct, (pmix_proc_t *));
    FIND(pmix_app_t *, App_create, (size_t));
    FIND(void, App_free, (pmix_app_t *, size_t));
    FIND(void, Value_free, (pmix_value_t *, size_t));
    FIND(pmix_status_t, Argv_append_nosize, (char ***, const char *));
    pmix_info_t *infos = Info_create(3), info;
    uint32_t number = 4;

    CHECK(infos != NULL && infos[2].value.type == PMIX_UNDEF);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Info_load(&infos[0], "text", "hello", PMIX_STRING));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Info_load(&infos[1], "number", &number, PMIX_UINT32));
    Info_qualifier(&infos[1]);
    CHECK(infos[1].flags & 0x8);
    Info_free(infos, 3);
    memset(&info, 0xee, sizeof info);
    Info_construct(&info);
    CHECK(info.key[0] == 0 && info.value.type == PMIX_UNDEF);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Info_load(&info, "text", "hello", PMIX_STRING));
    Info_destruct(&info);

    pmix_proc_t *procs = Proc_create(2), proc;
    CHECK(procs != NULL && procs[1].nspace[0] == 0);
    Proc_free(procs, 2);
    memset(&proc, 0xee, sizeof proc);
    Proc_construct(&proc);
    CHECK(proc.nspace[0] == 0 && proc.rank == PMIX_RANK_UNDEF);

    pmix_app_t *apps = App_create(2);
    CHECK(apps != NULL);
    if (!apps) return;
    apps[0].cmd = strdup("command");
    CHECK_STATUS(PMIX_SUCCESS, Argv_append_nosize(&apps[0].argv, "one"));
    CHECK_STATUS(PMIX_SUCCESS, Argv_append_nosize(&apps[0].argv, "two"));
    CHECK_TEXT("two", apps[0].argv[1]);
    CHECK(apps[0].argv[2] == NULL);
    App_free(apps, 2);

    pmix_value_t *value = calloc(1, sizeof *value);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Value_load(value, "text", PMIX_STRING));
    Value_free(value, 1);
}

static void structures(void)
{
    FIND(void, Pdata_construct, (pmix_pdata_t *));
    FIND(void, Pdata_destruct, (pmix_pdata_t *));
    FIND(void, Query_construct, (pmix_query_t *));
    FIND(void, Cpuset_construct, (pmix_cpuset_t *));
    pmix_pdata_t pdata;
    pmix_query_t query;
    pmix_cpuset_t cpuset;

    memset(&pdata, 0xee, sizeof pdata);
    Pdata_construct(&pdata);
    CHECK(pdata.key[0] == 0 && pdata.value.type == PMIX_UNDEF);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Value_load(&pdata.value, "text", PMIX_STRING));
    Pdata_destruct(&pdata);
    memset(&query, 0xee, sizeof query);
    Query_construct(&query);
    CHECK(!query.keys && !query.qualifiers && query.nqual == 0);
    memset(&cpuset, 0xee, sizeof cpuset);
    Cpuset_construct(&cpuset);
    CHECK(!cpuset.source && !cpuset.bitmap);
}

static void buffers(void)
{
    FIND(pmix_data_buffer_t *, Data_buffer_create, (void));
    FIND(void, Data_buffer_release, (pmix_data_buffer_t *));
    FIND(void, Data_buffer_construct, (pmix_data_buffer_t *));
    FIND(void, Data_buffer_destruct, (pmix_data_buffer_t *));
    FIND(void, Data_buffer_load, (pmix_data_buffer_t *, char *, size_t));
    FIND(void, Data_buffer_unload, (pmix_data_buffer_t *, char **, size_t *));
    pmix_data_buffer_t *buffer = Data_buffer_create(), other;
    char *bytes = strdup("payload"), *out = NULL;
    size_t size = 0;

    CHECK(buffer && buffer->bytes_used == 0 && buffer->base_ptr == NULL);
    if (!buffer) return;
    Data_buffer_load(buffer, bytes, 8); /* takes ownership of the block */
    CHECK(buffer->base_ptr == bytes && buffer->bytes_used == 8);
    Data_buffer_unload(buffer, &out, &size); /* gives the block away */
    CHECK_NUMBER(8, size);
    CHECK(out && memcmp(out, "payload", 8) == 0 && buffer->base_ptr == NULL);
    free(out);
    Data_buffer_release(buffer);
    memset(&other, 0xee, sizeof other);
    Data_buffer_construct(&other);
    CHECK(other.bytes_used == 0 && other.base_ptr == NULL);
    Data_buffer_load(&other, strdup("x"), 2);
    Data_buffer_destruct(&other);
}

static void frameworks(void)
{
    char **list = dlsym(RTLD_DEFAULT, "pmix_framework_names");
    CHECK(list != NULL);
    size_t count = 0;
    while (list && list[count] && count < 1000) CHECK(strlen(list[count++]) > 0);
    CHECK(!list || count < 1000);
}

int main(void)
{
    CHECK(dlsym(RTLD_DEFAULT, "PMIx_Init") != NULL);
    if (stock() && !dlsym(RTLD_DEFAULT, "PMIx_Info_create")) return finish(); /* 4.2.2 has none of them */
    names();
    typed_lists();
    arrays();
    structures();
    buffers();
    frameworks();
    return finish();
}
