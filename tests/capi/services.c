/* The server as a passage: it passes a client's request with its directives and its requester to the host, if the host
 * has a function for it. The host's answer comes back: status, results, no results. */
#include "host.h"

/* ---- The host's side. */
static atomic_int upcalls;

static char published_text[64];
static pmix_proc_t publisher;

static pmix_status_t up_publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t n, pmix_op_cbfunc_t callback,
                                void *data)
{
    const pmix_info_t *entry = info_of(info, n, "service");
    atomic_fetch_add(&upcalls, 1);
    if (info_of(info, n, "twice")) return answer_op(callback, data, PMIX_ERR_DUPLICATE_KEY);
    if (info_of(info, n, "at once")) return PMIX_OPERATION_SUCCEEDED;
    CHECK(entry && entry->value.type == PMIX_STRING);
    const pmix_info_t *range = info_of(info, n, PMIX_RANGE);
    CHECK(range && range->value.type == PMIX_DATA_RANGE && range->value.data.range == PMIX_RANGE_SESSION);
    CHECK_REQUESTER(info, n);
    if (entry) snprintf(published_text, sizeof published_text, "%s", entry->value.data.string);
    publisher = *proc;
    return answer_op(callback, data, PMIX_SUCCESS);
}

static void give_lookup(struct answer *answer)
{
    pmix_pdata_t *found = answer->payload;
    answer->call.lookup(answer->status, found, answer->count, answer->data);
    if (found) PMIX_PDATA_FREE(found, answer->count);
}

static pmix_status_t up_lookup(const pmix_proc_t *proc, char **keys, const pmix_info_t info[], size_t n,
                               pmix_lookup_cbfunc_t callback, void *data)
{
    struct answer *answer = answer_new(give_lookup, data, PMIX_ERR_NOT_FOUND);
    bool all = true;

    atomic_fetch_add(&upcalls, 1);
    CHECK_NUMBER(0, proc->rank);
    CHECK_REQUESTER(info, n);
    answer->call.lookup = callback;
    for (char **key = keys; key && *key; key++) {
        if (strcmp(*key, "service") != 0 || !*published_text) {
            all = false;
            continue;
        }
        pmix_pdata_t *found;
        PMIX_PDATA_CREATE(found, 1);
        found->proc = publisher;
        snprintf(found->key, sizeof found->key, "service");
        PMIx_Value_load(&found->value, published_text, PMIX_STRING);
        answer->payload = found;
        answer->count = 1;
    }
    if (answer->count) answer->status = all ? PMIX_SUCCESS : PMIX_ERR_PARTIAL_SUCCESS;
    answer_later(answer);
    return PMIX_SUCCESS;
}

static pmix_status_t up_unpublish(const pmix_proc_t *proc, char **keys, const pmix_info_t info[], size_t n,
                                  pmix_op_cbfunc_t callback, void *data)
{
    (void)proc;
    atomic_fetch_add(&upcalls, 1);
    CHECK_REQUESTER(info, n);
    CHECK(!keys || (keys[0] && strcmp(keys[0], "service") == 0 && !keys[1]));
    published_text[0] = 0;
    return answer_op(callback, data, PMIX_SUCCESS);
}

static void give_spawn(struct answer *answer)
{
    pmix_nspace_t nspace;
    memset(nspace, 0, sizeof nspace);
    strcpy(nspace, answer->status == PMIX_SUCCESS ? "spawned-job" : "");
    answer->call.spawn(answer->status, nspace, answer->data);
}

static pmix_status_t up_spawn(const pmix_proc_t *proc, const pmix_info_t job[], size_t n, const pmix_app_t apps[],
                              size_t napps, pmix_spawn_cbfunc_t callback, void *data)
{
    atomic_fetch_add(&upcalls, 1);
    CHECK_NUMBER(0, proc->rank);
    CHECK_REQUESTER(job, n);
    CHECK(info_of(job, n, PMIX_PERSONALITY) != NULL);
    CHECK_NUMBER(2, napps);
    if (napps == 2) {
        CHECK_TEXT("./first", apps[0].cmd);
        CHECK_TEXT("-x", apps[0].argv[1]);
        CHECK(apps[0].argv[2] == NULL);
        CHECK(apps[0].env && strcmp(apps[0].env[0], "COLOUR=red") == 0);
        CHECK_NUMBER(3, apps[0].maxprocs);
        CHECK(info_of(apps[0].info, apps[0].ninfo, PMIX_WDIR) != NULL);
        CHECK_TEXT("./second", apps[1].cmd);
    }
    bool fail = info_of(job, n, "fail") != NULL;
    struct answer *answer = answer_new(give_spawn, data, fail ? PMIX_ERR_JOB_FAILED_TO_LAUNCH : PMIX_SUCCESS);
    answer->call.spawn = callback;
    answer_later(answer);
    return PMIX_SUCCESS;
}

/* Both processes are here, and OpenPMIx asks no host about those. PRRTE 3.0 frees memory twice if it is asked. */
static pmix_status_t up_connect(const pmix_proc_t procs[], size_t n, const pmix_info_t info[], size_t ninfo,
                                pmix_op_cbfunc_t callback, void *data)
{
    (void)procs, (void)n, (void)info, (void)ninfo;
    CHECK(!"a host connects processes of one node");
    return answer_op(callback, data, PMIX_SUCCESS);
}

static pmix_status_t up_query(pmix_proc_t *proc, pmix_query_t *queries, size_t n, pmix_info_cbfunc_t callback, void *data)
{
    atomic_fetch_add(&upcalls, 1);
    CHECK(proc->rank <= 1);
    CHECK(n >= 1 && queries[0].keys && queries[0].keys[0]);
    if (strcmp(queries[0].keys[0], "no.such.query") == 0) return PMIX_ERR_NOT_FOUND;
    struct answer *answer = answer_new(give_infos, data, PMIX_SUCCESS);
    pmix_data_array_t *infos;
    PMIX_DATA_ARRAY_CREATE(infos, 2, PMIX_INFO);
    PMIX_INFO_LOAD(&((pmix_info_t *)infos->array)[0], queries[0].keys[0], "first,second", PMIX_STRING);
    size_t number = 7;
    PMIX_INFO_LOAD(&((pmix_info_t *)infos->array)[1], "second.result", &number, PMIX_SIZE);
    answer->payload = infos;
    answer->call.info = callback;
    answer_later(answer);
    return PMIX_SUCCESS;
}

static void up_log(const pmix_proc_t *proc, const pmix_info_t data[], size_t ndata, const pmix_info_t directives[],
                   size_t ndirs, pmix_op_cbfunc_t callback, void *cbdata)
{
    (void)directives, (void)ndirs;
    atomic_fetch_add(&upcalls, 1);
    CHECK_NUMBER(0, proc->rank);
    const pmix_info_t *entry = info_of(data, ndata, "pmix.log.msg");
    CHECK(entry && entry->value.type == PMIX_BYTE_OBJECT && entry->value.data.bo.size == 4);
    answer_op(callback, cbdata, PMIX_SUCCESS);
}

static pmix_status_t up_allocate(const pmix_proc_t *proc, pmix_alloc_directive_t directive, const pmix_info_t info[],
                                 size_t n, pmix_info_cbfunc_t callback, void *data)
{
    (void)proc;
    atomic_fetch_add(&upcalls, 1);
    CHECK_NUMBER(PMIX_ALLOC_EXTEND, directive);
    const pmix_info_t *nodes = info_of(info, n, PMIX_ALLOC_NUM_NODES);
    CHECK(nodes && nodes->value.type == PMIX_UINT64 && nodes->value.data.uint64 == 3);
    CHECK_REQUESTER(info, n);
    return answer_info(callback, data, PMIX_SUCCESS, PMIX_ALLOC_ID, "grant-17");
}

static pmix_status_t up_job_control(const pmix_proc_t *proc, const pmix_proc_t targets[], size_t ntargets,
                                    const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t callback, void *data)
{
    (void)proc;
    atomic_fetch_add(&upcalls, 1);
    CHECK_NUMBER(1, ntargets);
    CHECK(ntargets == 1 && targets[0].rank == 1);
    CHECK(info_of(directives, ndirs, PMIX_JOB_CTRL_PAUSE) != NULL);
    CHECK_REQUESTER(directives, ndirs);
    return answer_info(callback, data, PMIX_SUCCESS, NULL, NULL);
}

static pmix_status_t up_monitor(const pmix_proc_t *proc, const pmix_info_t *monitor, pmix_status_t error,
                                const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t callback, void *data)
{
    (void)proc;
    atomic_fetch_add(&upcalls, 1);
    CHECK(monitor && strcmp(monitor->key, "my.monitor") == 0);
    CHECK_NUMBER(-500, error);
    CHECK_REQUESTER(directives, ndirs);
    return answer_info(callback, data, PMIX_SUCCESS, "monitor.id", "m1");
}

static void give_credential(struct answer *answer)
{
    pmix_byte_object_t bytes = {"secret\0bytes", 12};
    pmix_info_t info;
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_CRED_TYPE, "capi", PMIX_STRING);
    answer->call.credential(PMIX_SUCCESS, &bytes, &info, 1, answer->data);
    PMIX_INFO_DESTRUCT(&info);
}

static pmix_status_t up_get_credential(const pmix_proc_t *proc, const pmix_info_t directives[], size_t ndirs,
                                       pmix_credential_cbfunc_t callback, void *data)
{
    (void)proc;
    atomic_fetch_add(&upcalls, 1);
    CHECK_REQUESTER(directives, ndirs);
    struct answer *answer = answer_new(give_credential, data, PMIX_SUCCESS);
    answer->call.credential = callback;
    answer_later(answer);
    return PMIX_SUCCESS;
}

static void give_validation(struct answer *answer)
{
    pmix_info_t info;
    uint32_t uid = 4711;
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_USERID, &uid, PMIX_UINT32);
    answer->call.validation(answer->status, &info, 1, answer->data);
    PMIX_INFO_DESTRUCT(&info);
}

static pmix_status_t up_validate_credential(const pmix_proc_t *proc, const pmix_byte_object_t *credential,
                                            const pmix_info_t directives[], size_t ndirs,
                                            pmix_validation_cbfunc_t callback, void *data)
{
    (void)proc;
    atomic_fetch_add(&upcalls, 1);
    CHECK_REQUESTER(directives, ndirs);
    CHECK(credential->size == 12 && memcmp(credential->bytes, "secret\0bytes", 12) == 0);
    struct answer *answer = answer_new(give_validation, data, PMIX_SUCCESS);
    answer->call.validation = callback;
    answer_later(answer);
    return PMIX_SUCCESS;
}

static pmix_status_t up_iof_pull(const pmix_proc_t procs[], size_t n, const pmix_info_t directives[], size_t ndirs,
                                 pmix_iof_channel_t channels, pmix_op_cbfunc_t callback, void *data)
{
    atomic_fetch_add(&upcalls, 1);
    CHECK(n == 1 && strcmp(procs[0].nspace, "elsewhere-job") == 0);
    CHECK(channels & PMIX_FWD_STDOUT_CHANNEL || channels == PMIX_FWD_NO_CHANNELS);
    if (channels != PMIX_FWD_NO_CHANNELS) CHECK_REQUESTER(directives, ndirs);
    return answer_op(callback, data, PMIX_SUCCESS);
}

static pmix_status_t up_push_stdin(const pmix_proc_t *source, const pmix_proc_t targets[], size_t ntargets,
                                   const pmix_info_t directives[], size_t ndirs, const pmix_byte_object_t *bytes,
                                   pmix_op_cbfunc_t callback, void *data)
{
    atomic_fetch_add(&upcalls, 1);
    CHECK_NUMBER(0, source->rank);
    CHECK(ntargets == 1 && targets[0].rank == PMIX_RANK_WILDCARD);
    CHECK(bytes && bytes->size == 5 && memcmp(bytes->bytes, "input", 5) == 0);
    CHECK_REQUESTER(directives, ndirs);
    return answer_op(callback, data, PMIX_SUCCESS);
}

static pmix_status_t up_group(pmix_group_operation_t operation, char group[], const pmix_proc_t procs[], size_t n,
                              const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t callback, void *data)
{
    (void)procs, (void)directives, (void)ndirs;
    atomic_fetch_add(&upcalls, 1);
    CHECK_TEXT("my-group", group);
    if (operation != PMIX_GROUP_CONSTRUCT) return answer_info(callback, data, PMIX_SUCCESS, NULL, NULL);
    CHECK_NUMBER(2, n);
    struct answer *answer = answer_new(give_infos, data, PMIX_SUCCESS);
    pmix_data_array_t *infos;
    size_t context = 4242;
    PMIX_DATA_ARRAY_CREATE(infos, 1, PMIX_INFO);
    PMIX_INFO_LOAD((pmix_info_t *)infos->array, PMIX_GROUP_CONTEXT_ID, &context, PMIX_SIZE);
    answer->payload = infos;
    answer->call.info = callback;
    answer_later(answer);
    return PMIX_SUCCESS;
}

static pmix_server_module_t module = {
    .publish = up_publish,
    .lookup = up_lookup,
    .unpublish = up_unpublish,
    .spawn = up_spawn,
    .connect = up_connect,
    .disconnect = up_connect,
    .query = up_query,
    .log = up_log,
    .allocate = up_allocate,
    .job_control = up_job_control,
    .monitor = up_monitor,
    .get_credential = up_get_credential,
    .validate_credential = up_validate_credential,
    .iof_pull = up_iof_pull,
    .push_stdin = up_push_stdin,
    .group = up_group,
};

/* ---- The clients' side. */
static void name_service(void)
{
    pmix_info_t info[2];
    pmix_data_range_t range = PMIX_RANGE_SESSION;
    pmix_pdata_t data[2];
    char *keys[] = {"service", NULL};

    PMIX_INFO_LOAD(&info[0], "service", "at port 5", PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_RANGE, &range, PMIX_DATA_RANGE);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Publish(info, 2));
    PMIX_INFO_DESTRUCT(&info[0]);
    PMIX_INFO_LOAD(&info[0], "twice", "x", PMIX_STRING);
    CHECK_STATUS(PMIX_ERR_DUPLICATE_KEY, PMIx_Publish(info, 2));
    PMIX_INFO_DESTRUCT(&info[0]);
    PMIX_INFO_LOAD(&info[0], "at once", "x", PMIX_STRING);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Publish(info, 2));
    PMIX_INFO_DESTRUCT(&info[0]);

    PMIX_PDATA_CONSTRUCT(&data[0]);
    PMIX_PDATA_CONSTRUCT(&data[1]);
    strcpy(data[0].key, "service");
    strcpy(data[1].key, "other");
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Lookup(data, 1, NULL, 0));
    CHECK(data[0].value.type == PMIX_STRING && strcmp(data[0].value.data.string, "at port 5") == 0);
    CHECK(PMIX_CHECK_PROCID(&data[0].proc, &me));
    PMIX_PDATA_DESTRUCT(&data[0]);
    PMIX_PDATA_CONSTRUCT(&data[0]);
    strcpy(data[0].key, "service");
    /* Some keys found: their entries are filled in, the others stay undefined. */
    pmix_status_t status = PMIx_Lookup(data, 2, NULL, 0);
    /* A client of 4.2 drops the values of a partial success. Our server says success to it. */
    bool drops = strncmp(PMIx_Get_version(), "OpenPMIx 4.", 11) == 0;
    pmix_status_t partly = drops ? PMIX_SUCCESS : PMIX_ERR_PARTIAL_SUCCESS;
    CHECK_UNLESS_STOCK_SERVER("loses the partial success", status == partly);
    CHECK_UNLESS_STOCK_SERVER("drops what was found", data[0].value.type == PMIX_STRING);
    CHECK_NUMBER(PMIX_UNDEF, data[1].value.type);
    PMIX_PDATA_DESTRUCT(&data[0]);
    PMIX_PDATA_DESTRUCT(&data[1]);

    CHECK_STATUS(PMIX_SUCCESS, PMIx_Unpublish(keys, NULL, 0));
    PMIX_PDATA_CONSTRUCT(&data[0]);
    strcpy(data[0].key, "service");
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, PMIx_Lookup(data, 1, NULL, 0));
    PMIX_PDATA_DESTRUCT(&data[0]);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Unpublish(NULL, NULL, 0));
    PMIX_INFO_DESTRUCT(&info[1]);
}

static void looked_up(pmix_status_t status, pmix_pdata_t data[], size_t n, void *cbdata)
{
    CHECK(status != PMIX_SUCCESS || (n == 1 && strcmp(data[0].key, "service") == 0));
    done_with(cbdata, status, n);
}

static void name_service_without_blocking(void)
{
    struct done published = DONE, found = DONE, gone = DONE;
    pmix_info_t info[2];
    pmix_data_range_t range = PMIX_RANGE_SESSION;
    char *keys[] = {"service", NULL};

    PMIX_INFO_LOAD(&info[0], "service", "again", PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_RANGE, &range, PMIX_DATA_RANGE);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Publish_nb(info, 2, op_done, &published));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&published));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Lookup_nb(keys, NULL, 0, looked_up, &found));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&found));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Unpublish_nb(keys, NULL, 0, op_done, &gone));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&gone));
    CHECK_NUMBER(1, published.count);
    CHECK_NUMBER(1, found.count);
    PMIX_INFO_DESTRUCT(&info[0]);
    PMIX_INFO_DESTRUCT(&info[1]);
}

static void spawned(pmix_status_t status, pmix_nspace_t nspace, void *data)
{
    CHECK_TEXT("spawned-job", nspace);
    done_with(data, status, 0);
}

static void spawning(void)
{
    pmix_app_t apps[2];
    pmix_info_t job[2];
    pmix_nspace_t nspace;
    int status;

    PMIX_APP_CONSTRUCT(&apps[0]);
    PMIX_APP_CONSTRUCT(&apps[1]);
    apps[0].cmd = strdup("./first");
    PMIX_ARGV_APPEND(status, apps[0].argv, "./first");
    PMIX_ARGV_APPEND(status, apps[0].argv, "-x");
    PMIX_ARGV_APPEND(status, apps[0].env, "COLOUR=red");
    apps[0].maxprocs = 3;
    PMIX_INFO_CREATE(apps[0].info, 1);
    apps[0].ninfo = 1;
    PMIX_INFO_LOAD(apps[0].info, PMIX_WDIR, "/tmp", PMIX_STRING);
    apps[1].cmd = strdup("./second");
    apps[1].maxprocs = 1;
    CHECK_NUMBER(PMIX_SUCCESS, status);
    PMIX_INFO_LOAD(&job[0], PMIX_PERSONALITY, "ompi", PMIX_STRING);
    PMIX_INFO_LOAD(&job[1], "fail", NULL, PMIX_BOOL);
    memset(nspace, 0, sizeof nspace);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Spawn(job, 1, apps, 2, nspace));
    CHECK_TEXT("spawned-job", nspace);
    CHECK_STATUS(PMIX_ERR_JOB_FAILED_TO_LAUNCH, PMIx_Spawn(job, 2, apps, 2, nspace));
    /* The library passed a parent of a wrong type on, and the host read it as a process. */
    PMIX_INFO_DESTRUCT(&job[1]);
    PMIX_INFO_LOAD(&job[1], PMIX_PARENT_ID, "my job", PMIX_STRING);
    CHECK_UNLESS_STOCK("passes a mistyped parent on", PMIx_Spawn(job, 2, apps, 2, nspace) == PMIX_ERR_BAD_PARAM);
    struct done done = DONE;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Spawn_nb(job, 1, apps, 2, spawned, &done));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&done));
    PMIX_INFO_DESTRUCT(&job[0]);
    PMIX_INFO_DESTRUCT(&job[1]);
    PMIX_APP_DESTRUCT(&apps[0]);
    PMIX_APP_DESTRUCT(&apps[1]);
}

static void released(pmix_status_t status, pmix_info_t *info, size_t n, void *data, pmix_release_cbfunc_t release,
                     void *release_data)
{
    CHECK(n == 0 || info != NULL);
    if (release) release(release_data);
    done_with(data, status, n);
}

static void asking(void)
{
    pmix_query_t query[1];
    pmix_info_t *results = NULL;
    size_t count = 0;
    struct done done = DONE;
    int status;

    PMIX_QUERY_CONSTRUCT(&query[0]);
    PMIX_ARGV_APPEND(status, query[0].keys, "my.query");
    CHECK_NUMBER(PMIX_SUCCESS, status);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Query_info(query, 1, &results, &count));
    CHECK_NUMBER(2, count);
    if (count == 2) {
        CHECK_TEXT("my.query", results[0].key);
        CHECK_TEXT("first,second", results[0].value.data.string);
        CHECK_NUMBER(7, results[1].value.data.size);
    }
    if (results) PMIX_INFO_FREE(results, count);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Query_info_nb(query, 1, released, &done));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&done));
    CHECK_NUMBER(2, done.reference);
    PMIX_QUERY_DESTRUCT(&query[0]);

    PMIX_QUERY_CONSTRUCT(&query[0]);
    PMIX_ARGV_APPEND(status, query[0].keys, "no.such.query");
    results = NULL;
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, PMIx_Query_info(query, 1, &results, &count));
    PMIX_QUERY_DESTRUCT(&query[0]);
}

/* A qualifier asks for a group of results for each query, which OpenPMIx does not have. */
static void asking_in_groups(void)
{
    pmix_query_t queries[2];
    pmix_info_t *groups = NULL;
    size_t count = 0;
    struct done done = DONE;
    int status;

    for (int i = 0; i < 2; i++) {
        PMIX_QUERY_CONSTRUCT(&queries[i]);
        PMIX_ARGV_APPEND(status, queries[i].keys, "my.query");
        CHECK_NUMBER(PMIX_SUCCESS, status);
    }
    PMIX_QUERY_QUALIFIERS_CREATE(&queries[0], 1);
    PMIX_INFO_LOAD(&queries[0].qualifiers[0], "pmix.qry.res", NULL, PMIX_BOOL);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Query_info(queries, 2, &groups, &count));
    CHECK_NUMBER(2, count);
    for (size_t i = 0; i < count; i++) {
        CHECK_TEXT("pmix.qry.res", groups[i].key);
        const pmix_data_array_t *results = groups[i].value.data.darray;
        CHECK_NUMBER(2, results->size);
        CHECK_TEXT("first,second", ((const pmix_info_t *)results->array)[0].value.data.string);
    }
    if (groups) PMIX_INFO_FREE(groups, count);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Query_info_nb(queries, 2, released, &done));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&done));
    CHECK_NUMBER(2, done.reference);
    for (int i = 0; i < 2; i++) PMIX_QUERY_DESTRUCT(&queries[i]);
}

/* A key that the library answers and one for the host, in one query. The library passed both on, the host answered its
 * own, and the caller never got the other. The rule: the library's answer comes with the rest. */
static void asking_both(void)
{
#ifdef PMIX_QUERY_STABLE_ABI_VERSION
    const char *hosts[] = {"my.query", "no.such.query"};
    const size_t found[] = {3, 1};
    const pmix_status_t statuses[] = {PMIX_SUCCESS, PMIX_ERR_PARTIAL_SUCCESS};

    if (stock()) return; /* 4.2.2 answers its own key and drops the other; later releases answer both */
    for (int i = 0; i < 2; i++) {
        pmix_query_t query;
        pmix_info_t *results = NULL;
        size_t count = 0;
        struct done done = DONE;
        int status;

        PMIX_QUERY_CONSTRUCT(&query);
        PMIX_ARGV_APPEND(status, query.keys, PMIX_QUERY_STABLE_ABI_VERSION);
        PMIX_ARGV_APPEND(status, query.keys, hosts[i]);
        CHECK_NUMBER(PMIX_SUCCESS, status);
        CHECK_STATUS(statuses[i], PMIx_Query_info(&query, 1, &results, &count));
        CHECK_NUMBER(found[i], count);
        if (count) CHECK_TEXT(PMIX_QUERY_STABLE_ABI_VERSION, results[0].key);
        if (results) PMIX_INFO_FREE(results, count);
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Query_info_nb(&query, 1, released, &done));
        CHECK_STATUS(statuses[i], done_wait(&done));
        CHECK_NUMBER(found[i], done.reference);
        PMIX_QUERY_DESTRUCT(&query);
    }
#endif
}

static void controlling(void)
{
    pmix_info_t info, *results = NULL;
    pmix_byte_object_t bytes = {"data", 4};
    pmix_proc_t other = proc_of(me.nspace, 1);
    size_t count = 0;
    uint64_t nodes = 3;

    PMIX_INFO_LOAD(&info, "pmix.log.msg", &bytes, PMIX_BYTE_OBJECT);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Log(&info, 1, NULL, 0));
    struct done logged = DONE;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Log_nb(&info, 1, NULL, 0, op_done, &logged));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&logged));
    PMIX_INFO_DESTRUCT(&info);

    PMIX_INFO_LOAD(&info, PMIX_ALLOC_NUM_NODES, &nodes, PMIX_UINT64);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Allocation_request(PMIX_ALLOC_EXTEND, &info, 1, &results, &count));
    CHECK_NUMBER(1, count);
    if (count == 1) CHECK_TEXT("grant-17", results[0].value.data.string);
    if (results) PMIX_INFO_FREE(results, count);
    PMIX_INFO_DESTRUCT(&info);

    PMIX_INFO_LOAD(&info, PMIX_JOB_CTRL_PAUSE, NULL, PMIX_BOOL);
    results = NULL;
    count = 0;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Job_control(&other, 1, &info, 1, &results, &count));
    CHECK_NUMBER(0, count);
    /* Fire and forget, as MPI does. A server of 4.2.2 queues the answer on the host's thread while its own may still
     * send the previous one (its jctrl_cbfunc does not change threads). So it sometimes loses one of two answers. */
    if (!stock_server()) CHECK_STATUS(PMIX_SUCCESS, PMIx_Job_control_nb(&other, 1, &info, 1, NULL, NULL));
    struct done controlled = DONE;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Job_control_nb(&other, 1, &info, 1, released, &controlled));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&controlled));
    PMIX_INFO_DESTRUCT(&info);

    PMIX_INFO_LOAD(&info, "my.monitor", NULL, PMIX_BOOL);
    results = NULL;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Process_monitor(&info, -500, NULL, 0, &results, &count));
    CHECK_UNLESS_STOCK_SERVER("loses the results of a monitor request", count == 1);
    if (results) PMIX_INFO_FREE(results, count);
    PMIX_INFO_DESTRUCT(&info);

    /* The server watches for heartbeats itself. Ours asked the host, which has no heartbeats, so programs ended. */
    pmix_info_t every_hour;
    uint32_t seconds = 3600;
    PMIX_INFO_LOAD(&info, PMIX_MONITOR_HEARTBEAT, NULL, PMIX_POINTER);
    PMIX_INFO_LOAD(&every_hour, PMIX_MONITOR_HEARTBEAT_TIME, &seconds, PMIX_UINT32);
    results = NULL;
    CHECK_STATUS(PMIX_SUCCESS,
                 PMIx_Process_monitor(&info, PMIX_MONITOR_HEARTBEAT_ALERT, &every_hour, 1, &results, &count));
    PMIx_Heartbeat();
    if (results) PMIX_INFO_FREE(results, count);
    PMIX_INFO_DESTRUCT(&info);
    PMIX_INFO_DESTRUCT(&every_hour);
}

static void credentials(void)
{
    pmix_byte_object_t credential = {NULL, 0};
    pmix_info_t *results = NULL;
    size_t count = 0;

    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get_credential(NULL, 0, &credential));
    CHECK(credential.size == 12 && memcmp(credential.bytes, "secret\0bytes", 12) == 0);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Validate_credential(&credential, NULL, 0, &results, &count));
    CHECK_NUMBER(1, count);
    if (count == 1) CHECK_NUMBER(4711, results[0].value.data.uint32);
    if (results) PMIX_INFO_FREE(results, count);
    free(credential.bytes);
}

static struct done output = DONE;
static void on_output(size_t id, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *payload,
                      pmix_info_t info[], size_t n)
{
    (void)id, (void)info, (void)n;
    CHECK_NUMBER(PMIX_FWD_STDOUT_CHANNEL, channel);
    CHECK_TEXT("elsewhere-job", source->nspace);
    CHECK(payload && payload->size == 6 && memcmp(payload->bytes, "output", 6) == 0);
    done_with(&output, PMIX_SUCCESS, 0);
}

static void forwarding(void)
{
    pmix_proc_t source = proc_of("elsewhere-job", 0), target = proc_of("elsewhere-job", PMIX_RANK_WILDCARD);
    pmix_byte_object_t bytes = {"input", 5};

    struct done pulled = DONE, ended = DONE, pushed = DONE;
    pmix_status_t status = PMIx_IOF_push(&target, 1, &bytes, NULL, 0, op_done, &pushed);
    CHECK_STATUS(PMIX_SUCCESS, done_result(&pushed, status));
    if (stock_server()) { /* stock hangs in its own thread when a pull is answered */
        CHECK_STATUS(PMIX_SUCCESS, put_text(PMIX_GLOBAL, "pulled", "no"));
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Commit());
        return;
    }
    CHECK_STATUS(PMIX_SUCCESS, PMIx_IOF_pull(&source, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, on_output, reg_done, &pulled));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&pulled));
    CHECK_STATUS(PMIX_SUCCESS, put_text(PMIX_GLOBAL, "pulled", "yes"));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Commit()); /* the host delivers when it sees this */
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&output));
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED,
                 PMIx_IOF_pull(&source, 1, NULL, 0, PMIX_FWD_STDIN_CHANNEL, on_output, NULL, NULL));
    status = PMIx_IOF_deregister(pulled.reference, NULL, 0, op_done, &ended);
    CHECK_STATUS(PMIX_SUCCESS, done_result(&ended, status));
    pmix_status_t id = PMIx_IOF_pull(&source, 1, NULL, 0, PMIX_FWD_STDERR_CHANNEL | PMIX_FWD_STDOUT_CHANNEL, on_output,
                                     NULL, NULL);
    CHECK(id >= 0);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_IOF_deregister((size_t)id, NULL, 0, NULL, NULL));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_IOF_push(&target, 1, &bytes, NULL, 0, NULL, NULL));
}

/* Both ranks: connect, group, disconnect. */
static void together(void)
{
    pmix_proc_t both[2] = {proc_of(me.nspace, 0), proc_of(me.nspace, 1)};
    pmix_info_t info, *results = NULL;
    size_t count = 0;

    CHECK_STATUS(PMIX_SUCCESS, PMIx_Connect(both, 2, NULL, 0));
    struct done done = DONE;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Disconnect_nb(both, 2, NULL, 0, op_done, &done));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&done));

    PMIX_INFO_LOAD(&info, PMIX_GROUP_ASSIGN_CONTEXT_ID, NULL, PMIX_BOOL);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Group_construct("my-group", both, 2, &info, 1, &results, &count));
    const pmix_info_t *context = info_of(results, count, PMIX_GROUP_CONTEXT_ID);
    CHECK(context && context->value.type == PMIX_SIZE && context->value.data.size == 4242);
    if (results) PMIX_INFO_FREE(results, count);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Group_destruct("my-group", NULL, 0));
    PMIX_INFO_DESTRUCT(&info);
}

static int client(void)
{
    client_start();
    if (me.rank == 0) {
        name_service();
        name_service_without_blocking();
        spawning();
        asking();
        if (!stock()) asking_in_groups();
        asking_both();
        controlling();
        credentials();
        forwarding();
    }
    together();
    return client_end();
}

static void seen(pmix_status_t status, char *data, size_t size, void *cbdata)
{
    (void)data, (void)size;
    done_with(cbdata, status, 0);
}

/* Regression: a gateway asked its host, so the message of an MPI_Abort under PRRTE was lost. PRRTE collects such texts and gives
 * them to its first server. */
static void logging_in_the_server(void)
{
    int ends[2], kept = dup(2);
    char text[32] = "";
    pmix_info_t info;

    CHECK(pipe(ends) == 0 && dup2(ends[1], 2) == 2);
    pmix_info_t twice[2], directive;
    PMIX_INFO_LOAD(&info, PMIX_LOG_STDERR, "of the server\n", PMIX_STRING);
    PMIX_INFO_LOAD(&twice[0], PMIX_LOG_STDERR, "once\n", PMIX_STRING);
    PMIX_INFO_LOAD(&twice[1], PMIX_LOG_STDERR, "twice\n", PMIX_STRING);
    PMIX_INFO_LOAD(&directive, PMIX_LOG_ONCE, NULL, PMIX_BOOL);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Log(twice, 2, &directive, 1));
    pmix_status_t status = PMIx_Log(&info, 1, NULL, 0);
    /* The library's thread writes. */
    for (size_t size = 0; size < strlen("once\nof the server\n");) {
        ssize_t more = read(ends[0], text + size, sizeof text - 1 - size);
        if (more <= 0) break;
        size += (size_t)more;
    }
    dup2(kept, 2);
    close(kept);
    close(ends[1]);
    CHECK_STATUS(PMIX_SUCCESS, status);
    CHECK_TEXT("once\nof the server\n", text);
    close(ends[0]);
    PMIX_INFO_DESTRUCT(&directive);
    PMIX_INFO_LOAD(&directive, PMIX_LOG_XML_OUTPUT, NULL, PMIX_BOOL);
    directive.flags = PMIX_INFO_REQD;
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, PMIx_Log(&info, 1, &directive, 1));
    PMIX_INFO_DESTRUCT(&directive);
    for (size_t i = 0; i < 2; i++) PMIX_INFO_DESTRUCT(&twice[i]);
    PMIX_INFO_DESTRUCT(&info);
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) return client();
    pid_t pids[2];
    struct done pulled = DONE, delivered = DONE;
    pmix_proc_t first = proc_of("services", 0), source = proc_of("elsewhere-job", 0);
    pmix_byte_object_t bytes = {"output", 6};

    pmix_info_t info[2];
    bool no = false;
    memset(info, 0, sizeof info);
    PMIX_INFO_LOAD(&info[0], PMIX_SERVER_GATEWAY, NULL, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_IOF_LOCAL_OUTPUT, &no, PMIX_BOOL);
    host_start_with(&module, info, 2);
    host_job("services", 2, 2);
    if (!stock()) logging_in_the_server();
    for (uint32_t i = 0; i < 2; i++) pids[i] = host_fork("services", i, "client");
    /* Held until rank 0 has committed, which it does after its pull. */
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_dmodex_request(&first, seen, &pulled));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&pulled));
    if (!stock()) { /* stock's finalize crashes if output was never pulled */
        pmix_status_t status =
            PMIx_server_IOF_deliver(&source, PMIX_FWD_STDOUT_CHANNEL, &bytes, NULL, 0, op_done, &delivered);
        CHECK_STATUS(PMIX_SUCCESS, done_result(&delivered, status));
    }
    for (uint32_t i = 0; i < 2; i++) host_wait(pids[i], 0);
    CHECK(atomic_load(&upcalls) >= 20);
    host_stop();
    return finish();
}
