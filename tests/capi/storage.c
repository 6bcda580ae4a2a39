/* A server answers queries about storage that its host leaves: for its own process, a client and a tool. */
#include "host.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

/* One query: keys, and qualifiers with texts, each list up to a NULL. */
static pmix_status_t ask(const char *const *keys, const char *const *qualifiers, bool is_required, pmix_info_t **found,
                         size_t *count)
{
    pmix_query_t query;
    pmix_status_t status = PMIX_SUCCESS;
    size_t given = 0;

    PMIX_QUERY_CONSTRUCT(&query);
    for (; *keys; keys++) PMIX_ARGV_APPEND(status, query.keys, *keys);
    CHECK_STATUS(PMIX_SUCCESS, status);
    while (qualifiers && qualifiers[2 * given]) given++;
    if (given) PMIX_QUERY_QUALIFIERS_CREATE(&query, given);
    for (size_t i = 0; i < given; i++) {
        PMIX_INFO_LOAD(&query.qualifiers[i], qualifiers[2 * i], qualifiers[2 * i + 1], PMIX_STRING);
        if (is_required) query.qualifiers[i].flags |= PMIX_INFO_REQD;
    }
    *found = NULL;
    *count = 0;
    status = PMIx_Query_info(&query, 1, found, count);
    PMIX_QUERY_DESTRUCT(&query);
    return status;
}

#define KEYS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define AT(path) ((const char *const[]){"pmix.strg.path", path, NULL})

/* The figures of the root's file system. */
static void figures(void)
{
    pmix_info_t *found;
    size_t count;
    struct statvfs root;

    CHECK(statvfs("/", &root) == 0);
    CHECK_STATUS(PMIX_SUCCESS, ask(KEYS("pmix.strg.cap", "pmix.strg.capuse", "pmix.strg.minxfer", "pmix.strg.sxfer"),
                                   AT("/"), true, &found, &count));
    CHECK_NUMBER(4, count);
    const pmix_info_t *limit = info_of(found, count, "pmix.strg.cap");
    CHECK(limit && limit->value.type == PMIX_UINT64);
    if (limit) CHECK_NUMBER(root.f_blocks * root.f_frsize >> 20, limit->value.data.uint64);
    const pmix_info_t *used = info_of(found, count, "pmix.strg.capuse");
    CHECK(used && used->value.type == PMIX_DOUBLE && used->value.data.dval > 0);
    CHECK(used && used->value.data.dval <= (double)root.f_blocks * (double)root.f_frsize);
    const pmix_info_t *least = info_of(found, count, "pmix.strg.minxfer"), *best = info_of(found, count, "pmix.strg.sxfer");
    CHECK(least && least->value.type == PMIX_DOUBLE && least->value.data.dval == (double)root.f_frsize);
    CHECK(best && best->value.type == PMIX_DOUBLE && best->value.data.dval == (double)root.f_bsize);
    PMIX_INFO_FREE(found, count);
}

/* Whether a list with commas has a word. */
static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (;;) {
        size_t found = strcspn(list, ",");
        if (found == length && strncmp(list, word, length) == 0) return true;
        if (!list[found]) return false;
        list += found + 1;
    }
}

/* The id of the root's file system is in the list, and means it. */
static void ids(void)
{
    pmix_info_t *found, *all;
    size_t count, all_count;

    CHECK_STATUS(PMIX_SUCCESS, ask(KEYS("pmix.strg.id", "pmix.strg.type"), AT("/"), true, &found, &count));
    const pmix_info_t *id = info_of(found, count, "pmix.strg.id"), *kind = info_of(found, count, "pmix.strg.type");
    CHECK(id && id->value.type == PMIX_STRING && kind && kind->value.type == PMIX_STRING);
    CHECK_STATUS(PMIX_SUCCESS, ask(KEYS("pmix.strg.list"), NULL, false, &all, &all_count));
    const pmix_info_t *list = info_of(all, all_count, "pmix.strg.list");
    CHECK(list && list->value.type == PMIX_STRING && id && has_word(list->value.data.string, id->value.data.string));
    PMIX_INFO_FREE(all, all_count);
    if (!id) return;
    const char *const by_id[] = {"pmix.strg.id", id->value.data.string, NULL};
    CHECK_STATUS(PMIX_SUCCESS, ask(KEYS("pmix.strg.path", "pmix.strg.atype"), by_id, true, &all, &all_count));
    const pmix_info_t *path = info_of(all, all_count, "pmix.strg.path");
    CHECK(path && path->value.type == PMIX_STRING);
    if (path) CHECK_TEXT("/", path->value.data.string);
#ifdef PMIX_STOR_ACCESS_TYPE
    const pmix_info_t *access = info_of(all, all_count, "pmix.strg.atype");
    CHECK(access && access->value.type == PMIX_STOR_ACCESS_TYPE);
#endif
    PMIX_INFO_FREE(all, all_count);
    PMIX_INFO_FREE(found, count);
}

/* A client of 4.2 drops the values of a partial success. */
static size_t partly(size_t count) { return strncmp(PMIx_Get_version(), "OpenPMIx 4.", 11) == 0 ? 0 : count; }

/* What is unknown has no value: an id, another node, how long data stay. */
static void unknown(void)
{
    pmix_info_t *found;
    size_t count;
    const char *const no_id[] = {"pmix.strg.id", "no-such-storage", NULL}, *const elsewhere[] = {PMIX_HOSTNAME, "elsewhere", NULL};

    CHECK_STATUS(PMIX_ERR_NOT_FOUND, ask(KEYS("pmix.strg.cap"), no_id, false, &found, &count));
    CHECK_NUMBER(0, count);
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, ask(KEYS("pmix.strg.list"), elsewhere, true, &found, &count));
    CHECK_NUMBER(0, count);
    CHECK_STATUS(PMIX_ERR_PARTIAL_SUCCESS, ask(KEYS("pmix.strg.id", "pmix.strg.persist"), AT("/"), true, &found, &count));
    CHECK_NUMBER(partly(1), count);
    PMIX_INFO_FREE(found, count);
    const char *const strange[] = {"some.qualifier", "x", NULL};
    CHECK(ask(KEYS("pmix.strg.list"), strange, true, &found, &count) != PMIX_SUCCESS && count == 0);
}

/* Two queries differ in their system. Only one of them has an answer. */
static void two_systems(void)
{
    pmix_query_t query[2];
    pmix_info_t *found = NULL;
    size_t count = 0;
    pmix_status_t status;

    for (int i = 0; i < 2; i++) {
        PMIX_QUERY_CONSTRUCT(&query[i]);
        PMIX_ARGV_APPEND(status, query[i].keys, "pmix.strg.cap");
        CHECK_STATUS(PMIX_SUCCESS, status);
        PMIX_QUERY_QUALIFIERS_CREATE(&query[i], 1);
        PMIX_INFO_LOAD(query[i].qualifiers, "pmix.strg.path", i ? "/no/such/place" : "/", PMIX_STRING);
    }
    CHECK_STATUS(PMIX_ERR_PARTIAL_SUCCESS, PMIx_Query_info(query, 2, &found, &count));
    CHECK_NUMBER(partly(1), count);
    PMIX_INFO_FREE(found, count);
    for (int i = 0; i < 2; i++) PMIX_QUERY_DESTRUCT(&query[i]);
}

/* ---- Questions about files, beyond the standard. */
static void dependencies(void)
{
    pmix_info_t *found;
    size_t count;
    const char *const program[] = {"modex.storage.files", "/proc/self/exe", NULL};
    const char *const text[] = {"modex.storage.files", "/etc/passwd", NULL};
    bool has_libc = false;

    CHECK_STATUS(PMIX_SUCCESS, ask(KEYS("modex.storage.dependencies"), program, true, &found, &count));
    CHECK(count == 1 && found[0].value.type == PMIX_DATA_ARRAY && found[0].value.data.darray->type == PMIX_STRING);
    if (count == 1 && found[0].value.type == PMIX_DATA_ARRAY) {
        char **paths = found[0].value.data.darray->array;
        for (size_t i = 0; i < found[0].value.data.darray->size; i++) has_libc |= strstr(paths[i], "/libc.so") != NULL;
    }
    CHECK(has_libc);
    PMIX_INFO_FREE(found, count);
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, ask(KEYS("modex.storage.dependencies"), text, true, &found, &count));
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, ask(KEYS("modex.storage.retrieval"), NULL, false, &found, &count));
}

/* An empty file is everywhere at once. Some file systems do not tell which parts of other files are in memory. */
static void retrievals(void)
{
    pmix_query_t query;
    pmix_info_t *found = NULL;
    size_t count = 0;
    double slow = 1.0;
    char file[] = "/tmp/capi-empty-XXXXXX";
    int empty = mkstemp(file);
    const char *names[] = {"n0", "n1"};
    pmix_data_array_t nodes = {.type = PMIX_STRING, .size = 2, .array = names};
    pmix_status_t status;

    CHECK(empty >= 0);
    close(empty);
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, "modex.storage.retrieval");
    CHECK_STATUS(PMIX_SUCCESS, status);
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 4);
    PMIX_INFO_LOAD(&query.qualifiers[0], "modex.storage.files", file, PMIX_STRING);
    PMIX_INFO_LOAD(&query.qualifiers[1], "modex.storage.nodes", &nodes, PMIX_DATA_ARRAY);
    PMIX_INFO_LOAD(&query.qualifiers[2], "modex.storage.node_bandwidth", &slow, PMIX_DOUBLE);
    PMIX_INFO_LOAD(&query.qualifiers[3], "modex.storage.bandwidth", &slow, PMIX_DOUBLE);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Query_info(&query, 1, &found, &count));
    CHECK(count == 1 && found[0].value.type == PMIX_DATA_ARRAY);
    if (count == 1 && found[0].value.type == PMIX_DATA_ARRAY) {
        const pmix_data_array_t *times = found[0].value.data.darray;
        CHECK(times->type == PMIX_DOUBLE && times->size == 2);
        for (size_t i = 0; i < 2; i++) CHECK(((double *)times->array)[i] == 0.0);
    }
    unlink(file);
    PMIX_INFO_FREE(found, count);
    PMIX_QUERY_DESTRUCT(&query);
}

/* Everybody may read the users' names, and only root may write them. */
static void accesses(void)
{
    static const struct { uint32_t id; int bits; } users[] = {{0, 3}, {4711, 1}};
    for (int i = 0; i < 2; i++) {
        pmix_query_t query;
        pmix_info_t *found = NULL;
        size_t count = 0;
        uint32_t id = users[i].id;
        pmix_status_t status;

        PMIX_QUERY_CONSTRUCT(&query);
        PMIX_ARGV_APPEND(status, query.keys, "modex.storage.access");
        CHECK_STATUS(PMIX_SUCCESS, status);
        PMIX_QUERY_QUALIFIERS_CREATE(&query, 3);
        PMIX_INFO_LOAD(&query.qualifiers[0], "modex.storage.files", "/etc/passwd", PMIX_STRING);
        PMIX_INFO_LOAD(&query.qualifiers[1], "modex.storage.uid", &id, PMIX_UINT32);
        PMIX_INFO_LOAD(&query.qualifiers[2], "modex.storage.gid", &id, PMIX_UINT32);
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Query_info(&query, 1, &found, &count));
        CHECK_NUMBER(1, count);
#ifdef PMIX_STOR_ACCESS_TYPE
        CHECK(count == 1 && found[0].value.type == PMIX_STOR_ACCESS_TYPE && found[0].value.data.uint16 == users[i].bits);
#endif
        PMIX_INFO_FREE(found, count);
        PMIX_QUERY_DESTRUCT(&query);
    }
}

/* ---- Files are staged, moved and cached, beyond the standard. */
#define ENDED (-47110)

/* The end of a request, told by its callback or by an event. */
struct end {
    struct done done;
    char place[4096], failed[4096], name[64];
    pmix_status_t reported;
};
static struct end heard;

static void copy_text(char *to, size_t size, const pmix_info_t *info)
{
    if (info) CHECK(info->value.type == PMIX_STRING);
    snprintf(to, size, "%s", info && info->value.type == PMIX_STRING ? info->value.data.string : "");
}

static void note_end(struct end *end, pmix_status_t status, const pmix_info_t *infos, size_t count)
{
    const pmix_info_t *files = info_of(infos, count, "modex.storage.files");
    const pmix_info_t *reported = info_of(infos, count, "modex.storage.status");
    if (files) {
        CHECK(files->value.type == PMIX_DATA_ARRAY && files->value.data.darray->size == 1);
        snprintf(end->place, sizeof(end->place), "%s", ((char **)files->value.data.darray->array)[0]);
    }
    copy_text(end->failed, sizeof(end->failed), info_of(infos, count, "modex.storage.failed"));
    copy_text(end->name, sizeof(end->name), info_of(infos, count, PMIX_JOB_CTRL_ID));
    end->reported = reported && reported->value.type == PMIX_STATUS ? reported->value.data.status : PMIX_ERR_NOT_FOUND;
    done_with(&end->done, status, 0);
}

static void ended(pmix_status_t status, pmix_info_t *infos, size_t count, void *data, pmix_release_cbfunc_t release,
                  void *release_data)
{
    note_end(data, status, infos, count);
    if (release) release(release_data);
}

static void hear(size_t handler, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *infos, size_t count,
                 pmix_info_t *results, size_t results_count, pmix_event_notification_cbfunc_fn_t next, void *data)
{
    (void)handler, (void)source, (void)results, (void)results_count;
    note_end(&heard, status, infos, count);
    if (next) next(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

/* A request about one file, up to its callback. */
static pmix_status_t carry(struct end *end, const char *action, const char *file, const char *target)
{
    pmix_info_t info[4];
    pmix_status_t code = ENDED;
    size_t count = 3;

    PMIX_INFO_LOAD(&info[0], action, file, PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], "modex.storage.event", &code, PMIX_STATUS);
    PMIX_INFO_LOAD(&info[2], PMIX_JOB_CTRL_ID, "my-files", PMIX_STRING);
    if (target) PMIX_INFO_LOAD(&info[count++], "modex.storage.to", target, PMIX_STRING);
    for (size_t i = 0; i < count; i++) info[i].flags |= PMIX_INFO_REQD;
    *end = (struct end){.done = DONE};
    pmix_status_t status = PMIx_Job_control_nb(NULL, 0, info, count, ended, end);
    status = done_result(&end->done, status);
    for (size_t i = 0; i < count; i++) PMIX_INFO_DESTRUCT(&info[i]);
    return status;
}

/* Waits for the next event. */
static void hear_next(const char *place, const char *failed, pmix_status_t status)
{
    CHECK_STATUS(ENDED, done_wait(&heard.done));
    CHECK_STATUS(status, heard.reported);
    CHECK_TEXT(place, heard.place);
    CHECK_TEXT(failed, heard.failed);
    CHECK_TEXT("my-files", heard.name);
    heard = (struct end){.done = DONE};
}

static void check_content(const char *path)
{
    char content[32] = "";
    FILE *file = fopen(path, "r");
    CHECK(file && fgets(content, sizeof(content), file));
    if (file) fclose(file);
    CHECK_TEXT("something to read", content);
}

static void movements(void)
{
    char from[] = "/tmp/modex-from-XXXXXX", to[] = "/tmp/modex-to-XXXXXX", file[64], there[64];
    pmix_status_t code = ENDED;
    struct done registered = DONE;
    static struct end end;
    struct stat found;
    pmix_info_t strange[2];
    pmix_info_t *results = NULL;
    size_t count = 0;

    heard = (struct end){.done = DONE};
    CHECK(mkdtemp(from) && mkdtemp(to));
    snprintf(file, sizeof(file), "%s/data", from);
    snprintf(there, sizeof(there), "%s/data", to);
    FILE *new = fopen(file, "w");
    CHECK(new && fputs("something to read", new) >= 0 && fclose(new) == 0);
    PMIx_Register_event_handler(&code, 1, NULL, 0, hear, reg_done, &registered);
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&registered));

    CHECK_STATUS(PMIX_SUCCESS, carry(&end, "modex.storage.cache", file, NULL));
    CHECK_TEXT(file, end.place);
    hear_next(file, "", PMIX_SUCCESS);
    CHECK_STATUS(PMIX_SUCCESS, carry(&end, "modex.storage.stage", file, to));
    check_content(there);
    CHECK_TEXT(there, end.place);
    hear_next(there, "", PMIX_SUCCESS);
    CHECK_STATUS(PMIX_SUCCESS, carry(&end, "modex.storage.move", file, to));
    check_content(there);
    CHECK(stat(file, &found) != 0);
    hear_next(there, "", PMIX_SUCCESS);
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, carry(&end, "modex.storage.stage", file, to));
    hear_next("", file, PMIX_ERR_NOT_FOUND);
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, carry(&end, "modex.storage.stage", file, NULL));

    PMIX_INFO_LOAD(&strange[0], "modex.storage.cache", there, PMIX_STRING);
    PMIX_INFO_LOAD(&strange[1], PMIX_JOB_CTRL_KILL, NULL, PMIX_BOOL);
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, PMIx_Job_control(NULL, 0, strange, 2, &results, &count));
    CHECK_NUMBER(0, count);
    PMIX_INFO_DESTRUCT(&strange[0]);
    PMIX_INFO_LOAD(&strange[0], "modex.storage.cancel", "my-files", PMIX_STRING);
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, PMIx_Job_control(NULL, 0, strange, 1, &results, &count));
    for (int i = 0; i < 2; i++) PMIX_INFO_DESTRUCT(&strange[i]);

    struct done gone = DONE;
    PMIx_Deregister_event_handler(registered.reference, op_done, &gone);
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&gone));
    CHECK(unlink(there) == 0 && rmdir(from) == 0 && rmdir(to) == 0);
}

static void everything(void)
{
    movements();
    dependencies();
    retrievals();
    accesses();
    figures();
    ids();
    unknown();
    two_systems();
}

/* ---- A host with storage of its own: it knows one list. */
static pmix_status_t up_query(pmix_proc_t *proc, pmix_query_t *queries, size_t count, pmix_info_cbfunc_t callback,
                              void *data)
{
    (void)proc;
    bool is_list = count == 1 && strcmp(queries[0].keys[0], "pmix.strg.list") == 0;
    return answer_info(callback, data, is_list ? PMIX_SUCCESS : PMIX_ERR_NOT_SUPPORTED, is_list ? "pmix.strg.list" : NULL,
                       "of-host");
}

static void with_host(void)
{
    pmix_info_t *found;
    size_t count;

    CHECK_STATUS(PMIX_SUCCESS, ask(KEYS("pmix.strg.list"), NULL, false, &found, &count));
    CHECK(count == 1 && found[0].value.type == PMIX_STRING);
    if (count == 1) CHECK_TEXT("of-host", found[0].value.data.string);
    PMIX_INFO_FREE(found, count);
    figures();
    /* This host has not switched the directives on. */
    static struct end end;
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, carry(&end, "modex.storage.cache", "/etc/passwd", NULL));
}

/* Without the info the library knows no storage. */
static void nothing(void)
{
    pmix_info_t *found;
    size_t count;
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, ask(KEYS("pmix.strg.list"), NULL, false, &found, &count));
    CHECK_NUMBER(0, count);
}

/* A node has a number in the client's job. */
static void by_node(void)
{
    pmix_value_t *own = get(&me, PMIX_NODEID, PMIX_UINT32);
    if (!own) return;
    for (uint32_t more = 0; more < 2; more++) {
        pmix_query_t query;
        pmix_info_t *found = NULL;
        size_t count = 0;
        uint32_t node = own->data.uint32 + more;
        pmix_status_t status;

        PMIX_QUERY_CONSTRUCT(&query);
        PMIX_ARGV_APPEND(status, query.keys, "pmix.strg.list");
        CHECK_STATUS(PMIX_SUCCESS, status);
        PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
        PMIX_INFO_LOAD(query.qualifiers, PMIX_NODEID, &node, PMIX_UINT32);
        query.qualifiers[0].flags |= PMIX_INFO_REQD;
        CHECK_STATUS(more ? PMIX_ERR_NOT_FOUND : PMIX_SUCCESS, PMIx_Query_info(&query, 1, &found, &count));
        CHECK_NUMBER(more ? 0 : 1, count);
        PMIX_INFO_FREE(found, count);
        PMIX_QUERY_DESTRUCT(&query);
    }
    value_free(own);
}

static int client(const char *role)
{
    client_start();
    if (strcmp(role, "client") == 0) {
        everything();
        by_node();
    }
    else if (strcmp(role, "with-host") == 0) with_host();
    else nothing();
    return client_end();
}

static int tool(void)
{
    tool_start(NULL);
    everything();
    return tool_end();
}

/* A server with storage, if `switches` is 1, and with its directives, if it is 2. */
static void start(pmix_server_module_t *module, size_t switches)
{
    pmix_info_t info[3];
    PMIX_INFO_LOAD(&info[0], PMIX_SERVER_SYSTEM_SUPPORT, NULL, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], "modex.storage", NULL, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[2], "modex.storage.directives", NULL, PMIX_BOOL);
    host_start_with(module, info, 1 + switches);
}

/* Directives need storage. Required ones are refused, and optional ones are left out. */
static void directives_alone(pmix_server_module_t *module)
{
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, "modex.storage.directives", NULL, PMIX_BOOL);
    info.flags |= PMIX_INFO_REQD;
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, PMIx_server_init(module, &info, 1));
    info.flags = 0;
    host_start_with(module, &info, 1);
    host_stop();
}

static int host(void)
{
    static pmix_server_module_t module;

    if (stock()) return host_idle(); /* it leaves storage to its host */
    directives_alone(&module);
    start(&module, 2);
    everything();
    host_run("of-client", 1, 1, "client");
    if (!getenv("CAPI_CLIENT_LIBRARY_PATH")) CHECK_NUMBER(0, host_run_tool("tool"));
    host_stop();

    module.query = up_query;
    start(&module, 1);
    with_host();
    host_run("of-with-host", 1, 1, "with-host");
    host_stop();

    module.query = NULL;
    start(&module, 0);
    nothing();
    host_run("of-nothing", 1, 1, "nothing");
    host_stop();
    return finish();
}

int main(int argc, char **argv)
{
    if (argc == 1) return host();
    return strcmp(argv[1], "tool") == 0 ? tool() : client(argv[1]);
}
