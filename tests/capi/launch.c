/* Preparation of a job: the data collected at its launcher reaches its processes, their environment and their Gets, and
 * no other job's processes. */
#include "host.h"

static const char odd[] = "a=b; \"c\"\n\t\x01\xff$(d)`e`\\";

/* Takes the array of a function that returns one, and releases it. */
static pmix_info_t *taken;
static size_t taken_count;

static void take(pmix_info_t *info, size_t count)
{
    if (count) PMIX_INFO_CREATE(taken, count);
    for (size_t i = 0; i < count; i++) PMIX_INFO_XFER(&taken[i], &info[i]);
    taken_count = count;
}

static void let_go(void)
{
    if (taken) PMIX_INFO_FREE(taken, taken_count);
    taken = NULL;
    taken_count = 0;
}

static void on_setup(pmix_status_t status, pmix_info_t info[], size_t count, void *data, pmix_op_cbfunc_t release,
                     void *release_data)
{
    take(info, count);
    if (release) release(PMIX_SUCCESS, release_data);
    done_with(data, status, 0);
}

static void on_inventory(pmix_status_t status, pmix_info_t *info, size_t count, void *data, pmix_release_cbfunc_t release,
                         void *release_data)
{
    take(info, count);
    if (release) release(release_data);
    done_with(data, status, 0);
}

/* This node's inventory, as a scheduler gets it. */
static void deliver(void)
{
    struct done none = DONE, collected = DONE, delivered = DONE;
    pmix_info_t wish;

    /* without a wish there is none: PRRTE passes on what it gets */
    pmix_status_t status = PMIx_server_collect_inventory(NULL, 0, on_inventory, &none);
    CHECK_STATUS(PMIX_SUCCESS, done_result(&none, status));
    CHECK_NUMBER(0, taken_count);
    let_go();
    PMIX_INFO_CONSTRUCT(&wish);
    PMIX_INFO_LOAD(&wish, "modex.inventory", NULL, PMIX_BOOL);
    status = PMIx_server_collect_inventory(&wish, 1, on_inventory, &collected);
    CHECK_STATUS(PMIX_SUCCESS, done_result(&collected, status));
    CHECK_UNLESS_STOCK("has no such inventory", taken_count == 2);
    status = PMIx_server_deliver_inventory(taken, taken_count, NULL, 0, op_done, &delivered);
    CHECK_STATUS(PMIX_SUCCESS, done_result(&delivered, status));
    let_go();
}

static void envar(pmix_info_t *info, const char *key, const char *name, const char *value, char separator)
{
    pmix_envar_t envar = {(char *)name, (char *)value, separator};
    PMIX_INFO_LOAD(info, key, &envar, PMIX_ENVAR);
}

/* Collects data for the nodes of a job with one local process. */
static void set_up(const char *nspace, pmix_status_t expected, bool wants_quality)
{
    pmix_info_t info[8], *wishes;
    char host[256] = "", *regex = NULL, *ppn = NULL;
    size_t count = 0, endpoints = 1, wish_count = wants_quality ? 4 : 3;
    bool yes = true;
    struct done done = DONE;
    pmix_data_array_t wish;

    memset(info, 0, sizeof info);
    gethostname(host, sizeof host - 1);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_generate_regex(host, &regex));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_generate_ppn("0", &ppn));
    PMIX_INFO_CREATE(wishes, wish_count);
    PMIX_INFO_LOAD(&wishes[0], "pmix.alloc.netid", "my.net", PMIX_STRING);
    PMIX_INFO_LOAD(&wishes[1], "pmix.alloc.endpts", &endpoints, PMIX_SIZE);
    PMIX_INFO_LOAD(&wishes[2], "pmix.alloc.nsec", &yes, PMIX_BOOL);
    if (wants_quality) {
        PMIX_INFO_LOAD(&wishes[3], "pmix.alloc.netqos", "gold", PMIX_STRING);
        PMIX_INFO_REQUIRED(&wishes[3]);
    }
    wish.type = PMIX_INFO;
    wish.size = wish_count;
    wish.array = wishes;
    PMIX_INFO_LOAD(&info[count++], PMIX_NODE_MAP, regex, PMIX_REGEX);
    PMIX_INFO_LOAD(&info[count++], PMIX_PROC_MAP, ppn, PMIX_REGEX);
    PMIX_INFO_LOAD(&info[count++], "pmix.alloc.net", &wish, PMIX_DATA_ARRAY);
    envar(&info[count++], PMIX_SET_ENVAR, "CAPI_ODD", odd, 0);
    envar(&info[count++], PMIX_SET_ENVAR, "CAPI_LIST", "old", 0);
    envar(&info[count++], PMIX_PREPEND_ENVAR, "CAPI_LIST", "new", ':');
    /* Hosts leave infos without a key in arrays that they size too large. OpenPMIx takes them. Ours refused the setup. */
    PMIX_INFO_CONSTRUCT(&info[count++]);
    pmix_status_t status = PMIx_server_setup_application(nspace, info, count, on_setup, &done);
    if (status == PMIX_SUCCESS) status = done_result(&done, status);
    CHECK_STATUS(expected, status);
    for (size_t i = 0; i < count; i++) PMIX_INFO_DESTRUCT(&info[i]);
    PMIX_INFO_FREE(wishes, wish_count);
    free(regex);
    free(ppn);
}

static void support(const char *nspace, pmix_status_t expected)
{
    struct done done = DONE;
    pmix_status_t status = PMIx_server_setup_local_support(nspace, taken, taken_count, op_done, &done);
    if (status == PMIX_SUCCESS) status = done_result(&done, status);
    CHECK_STATUS(expected, status);
}

/* Two calls for one process give the same environment. */
static void forks_alike(const char *nspace)
{
    pmix_proc_t proc = proc_of(nspace, 0);
    char **one = NULL, **other = NULL;

    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_setup_fork(&proc, &one));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_setup_fork(&proc, &other));
    for (size_t i = 0; one[i] || other[i]; i++) {
        CHECK(one[i] && other[i]);
        if (!one[i] || !other[i]) break;
        CHECK_TEXT(one[i], other[i]);
    }
    for (size_t i = 0; one[i]; i++) free(one[i]);
    for (size_t i = 0; other[i]; i++) free(other[i]);
    free(one);
    free(other);
}

static void run(const char *nspace, const char *role)
{
    pid_t pid = host_fork(nspace, 0, role);
    host_wait(pid, 0);
}

/* ---- Variables that the launcher forwards. Older headers do not declare the function. */
typedef pmix_status_t (*forward_fn)(const char *, const char *, const pmix_info_t *, size_t);

static const char *variable(char **env, const char *name)
{
    size_t length = strlen(name);
    for (; env && *env; env++)
        if (strncmp(*env, name, length) == 0 && (*env)[length] == '=') return *env + length + 1;
    return NULL;
}

/* Collects the environment of a job, and hands it to this node. */
static void prepare(const char *nspace, pmix_info_t *info, size_t count, pmix_status_t expected)
{
    struct done done = DONE;
    pmix_info_t all[3];
    bool yes = true;
    for (size_t i = 0; i < count; i++) all[i] = info[i];
    PMIX_INFO_LOAD(&all[count], PMIX_SETUP_APP_ENVARS, &yes, PMIX_BOOL);
    pmix_status_t status = PMIx_server_setup_application(nspace, all, count + 1, on_setup, &done);
    if (status == PMIX_SUCCESS) status = done_result(&done, status);
    CHECK_STATUS(expected, status);
    if (status != PMIX_SUCCESS) return;
    support(nspace, PMIX_SUCCESS);
}

static char **environment_of(const char *nspace)
{
    pmix_proc_t proc = proc_of(nspace, 0);
    char **env = NULL;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_setup_fork(&proc, &env));
    return env;
}

static void refuses_patterns(forward_fn forward)
{
    static const char *const none[] = {"", " ;,", "*OO", "A*B", "FOO_[A-Z]", "!x", "^x", "A;B C", "A=1"};
    pmix_info_t info;

    for (size_t i = 0; i < sizeof none / sizeof *none; i++) CHECK_STATUS(PMIX_ERR_BAD_PARAM, forward("f", none[i], NULL, 0));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, forward("f", NULL, NULL, 0));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, forward(NULL, "A", NULL, 0));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, forward("f", "A", NULL, 2));
    bool yes = true;
    PMIX_INFO_LOAD(&info, "modex.exclude_envars", &yes, PMIX_BOOL);
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, forward("f", "A", &info, 1));
    PMIX_INFO_DESTRUCT(&info);
    PMIX_INFO_LOAD(&info, "some.directive", &yes, PMIX_BOOL);
    CHECK_STATUS(PMIX_SUCCESS, forward("f", "A", &info, 1));
    PMIX_INFO_REQUIRED(&info);
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, forward("f", "A", &info, 1));
    PMIX_INFO_DESTRUCT(&info);
}

/* PMIx_Forward_envars: patterns, exceptions, several calls, one job alone. */
static void forwards(void)
{
    forward_fn forward = (forward_fn)(uintptr_t)dlsym(RTLD_DEFAULT, "PMIx_Forward_envars");
    pmix_info_t info;

    CHECK(forward != NULL);
    if (!forward) return;
    refuses_patterns(forward);
    setenv("CAPI_FWD_A", "a=1", 1), setenv("CAPI_FWD_B", "b", 1), setenv("CAPI_FWD_CC", "c", 1);
    setenv("CAPI_MORE", "m", 1), setenv("CAPI_USER", "u", 1);
    host_job("forward", 1, 1);
    PMIX_INFO_LOAD(&info, "modex.exclude_envars", "CAPI_FWD_B", PMIX_STRING);
    CHECK_STATUS(PMIX_SUCCESS, forward("forward", "CAPI_FWD_?", &info, 1));
    PMIX_INFO_DESTRUCT(&info);
    CHECK_STATUS(PMIX_SUCCESS, forward("forward", "CAPI_NONE,CAPI_MO*", NULL, 0));
    setenv("PMIX_MCA_forward_envars", "CAPI_USER", 1);
    prepare("forward", NULL, 0, PMIX_SUCCESS);
    char **env = environment_of("forward");
    CHECK_TEXT("a=1", variable(env, "CAPI_FWD_A"));
    CHECK_TEXT("m", variable(env, "CAPI_MORE"));
    CHECK_TEXT("u", variable(env, "CAPI_USER"));
    CHECK(!variable(env, "CAPI_FWD_B") && !variable(env, "CAPI_FWD_CC"));
    CHECK_TEXT("forward", variable(env, "PMIX_NAMESPACE"));
    PMIX_ARGV_FREE(env);
    host_job("neighbour", 1, 1);
    support("neighbour", PMIX_ERR_BAD_PARAM); /* the array of another job */
    let_go();
    env = environment_of("neighbour");
    CHECK(!variable(env, "CAPI_FWD_A"));
    PMIX_ARGV_FREE(env);

    /* What the user gives is no pattern: the launcher and the user hear of it. */
    char path[] = "/tmp/capi-err-XXXXXX", line[512] = "";
    int own = dup(2), file = mkstemp(path);
    CHECK(own >= 0 && dup2(file, 2) == 2);
    setenv("PMIX_MCA_forward_envars", "CAPI_[A-Z]", 1);
    prepare("forward", NULL, 0, PMIX_ERR_BAD_PARAM);
    unsetenv("PMIX_MCA_forward_envars");
    dup2(own, 2);
    CHECK(pread(file, line, sizeof line - 1, 0) > 0 && strstr(line, "PMIX_MCA_forward_envars") != NULL);
    close(own), close(file), unlink(path);
}

/* Variables of a programming model and of a parent; what is required and can't be done is refused. */
static void models(void)
{
    pmix_info_t info[2];
    pmix_proc_t parent = proc_of("parent", 0), unknown = proc_of("nobody", 0);

    setenv("OMPI_MCA_capi", "o", 1), setenv("OMPI_COMM_WORLD_RANK", "3", 1), setenv("MPIR_CVAR_CAPI", "m", 1);
    host_job("parent", 1, 1);
    PMIX_INFO_LOAD(&info[0], PMIX_PROGRAMMING_MODEL, "ompi", PMIX_STRING);
    PMIX_INFO_REQUIRED(&info[0]);
    prepare("parent", info, 1, PMIX_SUCCESS);
    let_go();
    PMIX_INFO_DESTRUCT(&info[0]);
    char **env = environment_of("parent");
    CHECK_TEXT("o", variable(env, "OMPI_MCA_capi"));
    CHECK(!variable(env, "MPIR_CVAR_CAPI"));
    CHECK_TEXT("0", variable(env, "OMPI_COMM_WORLD_RANK")); /* its own, and not the host's */
    CHECK_TEXT("1", variable(env, "OMPI_COMM_WORLD_LOCAL_SIZE"));
    PMIX_ARGV_FREE(env);

    /* The child of that job gets them, and its own. */
    host_job("child", 1, 1);
    PMIX_INFO_LOAD(&info[0], PMIX_PARENT_ID, &parent, PMIX_PROC);
    PMIX_INFO_REQUIRED(&info[0]);
    PMIX_INFO_LOAD(&info[1], PMIX_PROGRAMMING_MODEL, "MPICH", PMIX_STRING);
    prepare("child", info, 2, PMIX_SUCCESS);
    let_go();
    PMIX_INFO_DESTRUCT(&info[0]);
    PMIX_INFO_DESTRUCT(&info[1]);
    env = environment_of("child");
    CHECK_TEXT("o", variable(env, "OMPI_MCA_capi"));
    CHECK_TEXT("m", variable(env, "MPIR_CVAR_CAPI"));
    CHECK(!variable(env, "OMPI_COMM_WORLD_RANK"));
    PMIX_ARGV_FREE(env);

    PMIX_INFO_LOAD(&info[0], PMIX_PARENT_ID, &unknown, PMIX_PROC);
    PMIX_INFO_REQUIRED(&info[0]);
    prepare("child", info, 1, PMIX_ERR_NOT_FOUND);
    PMIX_INFO_DESTRUCT(&info[0]);
    PMIX_INFO_LOAD(&info[0], PMIX_PROGRAMMING_MODEL, "fortune telling", PMIX_STRING);
    PMIX_INFO_REQUIRED(&info[0]);
    prepare("child", info, 1, PMIX_ERR_NOT_SUPPORTED);
    PMIX_INFO_DESTRUCT(&info[0]);
    bool yes = true;
    PMIX_INFO_LOAD(&info[0], PMIX_WAIT, &yes, PMIX_BOOL); /* a key of the standard without a meaning here */
    PMIX_INFO_REQUIRED(&info[0]);
    prepare("child", info, 1, PMIX_ERR_NOT_SUPPORTED);
    PMIX_INFO_DESTRUCT(&info[0]);
}

/* Two applications of one job are set up one after the other. Regression: the second call removed the variables of the
 * first. */
static void several_calls(void)
{
    pmix_proc_t unknown = proc_of("unregistered", 0), own = proc_of("capi-host", 1);
    char **env = NULL;
    pmix_info_t info[2];

    for (int app = 0; app < 2; app++) {
        memset(info, 0, sizeof info);
        envar(&info[0], PMIX_SET_ENVAR, app ? "CAPI_APP_1" : "CAPI_APP_0", "yes", 0);
        envar(&info[1], PMIX_PREPEND_ENVAR, "CAPI_PATH", app ? "/one" : "/zero", ':');
        prepare("apps", info, 2, PMIX_SUCCESS);
        support("apps", PMIX_SUCCESS); /* the same array again changes nothing */
        let_go();
        PMIX_INFO_DESTRUCT(&info[0]);
        PMIX_INFO_DESTRUCT(&info[1]);
    }
    host_job("apps", 1, 1);
    env = environment_of("apps");
    CHECK_TEXT("yes", variable(env, "CAPI_APP_0"));
    CHECK_TEXT("yes", variable(env, "CAPI_APP_1"));
    CHECK_TEXT("/one:/zero", variable(env, "CAPI_PATH"));
    PMIX_ARGV_FREE(env);

    /* A host that starts a tool takes the variables of any name. OpenPMIx's own test of tools does. */
    env = NULL;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_setup_fork(&unknown, &env));
    CHECK_TEXT("unregistered", variable(env, "PMIX_NAMESPACE"));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_setup_fork(&own, &env));
    PMIX_ARGV_FREE(env);
    memset(info, 0, sizeof info);
    PMIX_INFO_LOAD(&info[0], "modex.setup", "99 apps", PMIX_STRING); /* of a later version */
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, PMIx_server_setup_local_support("apps", info, 1, NULL, NULL));
    PMIX_INFO_DESTRUCT(&info[0]);
}

/* A question that the host answers later. */
static struct done asked = DONE;
static pmix_info_cbfunc_t asked_callback;
static void *asked_data;

/* Answers for one job with what this server lacks. Its own thread may answer, so the setup waits on another one. */
static pmix_status_t up_allocate(const pmix_proc_t *proc, pmix_alloc_directive_t directive, const pmix_info_t info[],
                                 size_t n, pmix_info_cbfunc_t callback, void *data)
{
    (void)proc;
    CHECK_NUMBER(PMIX_ALLOC_EXTEND, directive);
    CHECK_REQUESTER(info, n);
    CHECK(info_of(info, n, PMIX_NODE_MAP) && info_of(info, n, PMIX_PROC_MAP) && info_of(info, n, "pmix.alloc.net"));
    const pmix_info_t *job = info_of(info, n, PMIX_NSPACE);
    if (job && strcmp(job->value.data.string, "ordered") == 0) {
        asked_callback = callback;
        asked_data = data;
        done_with(&asked, PMIX_SUCCESS, 0);
        return PMIX_SUCCESS;
    }
    if (!job || strcmp(job->value.data.string, "granted") != 0) return PMIX_ERR_NOT_SUPPORTED;
    pmix_data_array_t *parts, *infos;
    PMIX_DATA_ARRAY_CREATE(parts, 2, PMIX_INFO);
    PMIX_INFO_LOAD(&((pmix_info_t *)parts->array)[0], "my.net", "service level 3", PMIX_STRING);
    PMIX_INFO_LOAD(&((pmix_info_t *)parts->array)[1], "pmix.alloc.netqos", "gold", PMIX_STRING);
    PMIX_DATA_ARRAY_CREATE(infos, 1, PMIX_INFO);
    PMIX_INFO_LOAD((pmix_info_t *)infos->array, "my.net", parts, PMIX_DATA_ARRAY);
    PMIX_DATA_ARRAY_FREE(parts);
    struct answer *answer = answer_new(give_infos, data, PMIX_SUCCESS);
    answer->call.info = callback;
    answer->payload = infos;
    answer_later(answer);
    return PMIX_SUCCESS;
}

static pmix_server_module_t module = {.allocate = up_allocate};

/* The number of the callback is its reference. */
static void on_ordered(pmix_status_t status, pmix_info_t info[], size_t count, void *data, pmix_op_cbfunc_t release,
                       void *release_data)
{
    static size_t callbacks;
    (void)info;
    (void)count;
    if (release) release(PMIX_SUCCESS, release_data);
    done_with(data, status, ++callbacks);
}

static void begin_ordered(const char *id, const char *class_of_service, struct done *done)
{
    pmix_info_t info[3], parts[2];
    char *regex = NULL, *ppn = NULL;
    bool yes = true;
    pmix_data_array_t wish = {.type = PMIX_INFO, .size = 2, .array = parts};

    memset(info, 0, sizeof info);
    memset(parts, 0, sizeof parts);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_generate_regex("n0", &regex));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_generate_ppn("0", &ppn));
    PMIX_INFO_LOAD(&parts[0], "pmix.alloc.netid", id, PMIX_STRING);
    PMIX_INFO_LOAD(&parts[1], "pmix.alloc.nsec", &yes, PMIX_BOOL);
    if (class_of_service) {
        PMIX_INFO_LOAD(&parts[1], "pmix.alloc.netqos", class_of_service, PMIX_STRING);
        PMIX_INFO_REQUIRED(&parts[1]);
    }
    PMIX_INFO_LOAD(&info[0], PMIX_NODE_MAP, regex, PMIX_REGEX);
    PMIX_INFO_LOAD(&info[1], PMIX_PROC_MAP, ppn, PMIX_REGEX);
    PMIX_INFO_LOAD(&info[2], "pmix.alloc.net", &wish, PMIX_DATA_ARRAY);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_setup_application("ordered", info, 3, on_ordered, done));
    for (size_t i = 0; i < 3; i++) PMIX_INFO_DESTRUCT(&info[i]);
    for (size_t i = 0; i < 2; i++) PMIX_INFO_DESTRUCT(&parts[i]);
    free(regex);
    free(ppn);
}

/* A setup that asks nobody had its callback before an earlier one of its job, whose host took its time. The call must not wait: the host's
 * thread may have to answer. */
static void setups_have_an_order(void)
{
    struct done first = DONE, second = DONE;

    begin_ordered("first", "gold", &first);
    done_wait(&asked);
    begin_ordered("second", NULL, &second);
    asked_callback(PMIX_ERR_OUT_OF_RESOURCE, NULL, 0, asked_data, NULL, NULL);
    CHECK_STATUS(PMIX_ERR_OUT_OF_RESOURCE, done_wait(&first));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&second));
    CHECK(first.reference < second.reference);
}

static void host(void)
{
    pmix_info_t bad;

    host_start(&module);
    if (stock()) { /* stock has no data of the fabric */
        host_job("before", 1, 1);
        forks_alike("before");
        host_stop();
        return;
    }
    deliver();
    set_up("before", PMIX_SUCCESS, false);
    host_job("before", 1, 1);
    support("before", PMIX_SUCCESS);
    forks_alike("before");
    run("before", "prepared");
    let_go();

    set_up("after", PMIX_SUCCESS, false); /* in the other order */
    support("after", PMIX_SUCCESS);
    host_job("after", 1, 1);
    run("after", "prepared");
    let_go();

    host_job("other", 1, 1);
    run("other", "unprepared");
    forwards();
    models();
    several_calls();

    set_up("before", PMIX_ERR_NOT_SUPPORTED, true);
    CHECK_NUMBER(0, taken_count);
    set_up("granted", PMIX_SUCCESS, true);
    support("granted", PMIX_SUCCESS);
    host_job("granted", 1, 1);
    run("granted", "granted");
    let_go();
    setups_have_an_order();
    /* PRRTE's prun gives an empty name: it asks for the environment of a job that it has not yet spawned. */
    struct done unnamed = DONE;
    envar(&bad, PMIX_SET_ENVAR, "CAPI_UNNAMED", "yes", 0);
    pmix_status_t status = PMIx_server_setup_application("", &bad, 1, on_setup, &unnamed);
    CHECK_STATUS(PMIX_SUCCESS, status == PMIX_SUCCESS ? done_result(&unnamed, status) : status);
    CHECK(taken_count > 0);
    let_go();
    PMIX_INFO_DESTRUCT(&bad);
    memset(&bad, 0, sizeof bad);
    envar(&bad, PMIX_SET_ENVAR, "A=B", "c", 0);
    struct done refused = DONE; /* must not be called */
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_server_setup_application("other", &bad, 1, on_setup, &refused));
    PMIX_INFO_DESTRUCT(&bad);
    PMIX_INFO_LOAD(&bad, "", NULL, PMIX_BOOL); /* no library can fulfil this required directive */
    PMIX_INFO_REQUIRED(&bad);
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, PMIx_server_setup_application("other", &bad, 1, on_setup, &refused));
    PMIX_INFO_DESTRUCT(&bad);
    envar(&bad, PMIX_SET_ENVAR, "A=B", "c", 0);
    taken = &bad;
    taken_count = 1;
    support("other", PMIX_ERR_BAD_PARAM);
    taken = NULL;
    taken_count = 0;
    PMIX_INFO_DESTRUCT(&bad);
    host_stop();
}

/* The job's own array: its name with the available resources, then the granted part of the request. Granted endpoints are the process's own,
 * too. */
static void has_key(const pmix_value_t *value)
{
    CHECK_NUMBER(PMIX_DATA_ARRAY, value->type);
    const pmix_info_t *infos = value->data.darray->array;
    size_t count = value->data.darray->size;
    CHECK(count >= 2);
    CHECK_TEXT("my.net", infos[0].key);
    const pmix_info_t *key = info_of(infos, count, "pmix.alloc.nsec");
    CHECK(key && key->value.type == PMIX_BYTE_OBJECT && key->value.data.bo.size == 16);
    /* A test machine may have no interface but loopback. */
    const pmix_info_t *endpoints = info_of(infos, count, "pmix.alloc.endpts");
    CHECK((endpoints != NULL) == (infos[0].value.data.darray->size > 0));
    pmix_value_t *own = NULL;
    pmix_status_t status = PMIx_Get(&me, PMIX_FABRIC_ENDPT, NULL, 0, &own);
    CHECK_STATUS(endpoints ? PMIX_SUCCESS : PMIX_ERR_NOT_FOUND, status);
    if (status != PMIX_SUCCESS) return;
    CHECK(own->type == PMIX_DATA_ARRAY && own->data.darray->type == PMIX_ENDPOINT && own->data.darray->size == 1);
    PMIX_VALUE_RELEASE(own);
}

static int client(const char *role)
{
    bool is_granted = strcmp(role, "granted") == 0, is_prepared = is_granted || strcmp(role, "prepared") == 0;
    pmix_value_t *value = NULL;
    bool at_once = true;
    pmix_info_t info;

    client_start();
    if (is_prepared) {
        CHECK_TEXT(odd, getenv("CAPI_ODD"));
        CHECK_TEXT("new:old", getenv("CAPI_LIST"));
    } else CHECK(!getenv("CAPI_ODD") && !getenv("CAPI_LIST"));
    pmix_proc_t job = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_IMMEDIATE, &at_once, PMIX_BOOL);
    pmix_status_t status = PMIx_Get(&job, "my.net", &info, 1, &value);
    CHECK_STATUS(is_prepared ? PMIX_SUCCESS : PMIX_ERR_NOT_FOUND, status);
    if (status == PMIX_SUCCESS) {
        const pmix_info_t *infos = value->data.darray->array;
        if (is_granted) CHECK_TEXT("service level 3", infos[0].value.data.string);
        else has_key(value);
        PMIX_VALUE_RELEASE(value);
    }
    PMIX_INFO_DESTRUCT(&info);
    return client_end();
}

/* A host that asks for it gets errors instead of a warning: registration, support and fork have this order. */
static void strict_order(void)
{
    pmix_proc_t proc = proc_of("strict", 0);
    pmix_info_t strict;
    char **env = NULL;
    bool yes = true;

    PMIX_INFO_LOAD(&strict, "modex.strict_order", &yes, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&strict);
    host_start_with(&module, &strict, 1);
    support("strict", PMIX_ERR_INVALID_NAMESPACE);
    CHECK_STATUS(PMIX_ERR_INVALID_NAMESPACE, PMIx_server_setup_fork(&proc, &env));
    host_job("strict", 1, 1);
    CHECK_STATUS(PMIX_ERR_INVALID_OPERATION, PMIx_server_setup_fork(&proc, &env));
    CHECK(!env);
    support("strict", PMIX_SUCCESS);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_setup_fork(&proc, &env));
    PMIX_ARGV_FREE(env);
    host_stop();
    PMIX_INFO_DESTRUCT(&strict);
}

int main(int argc, char **argv)
{
    if (argc > 1) return client(argv[1]);
    host();
    if (!stock()) strict_order();
    return finish();
}
