/* Required means required at the C border: each attribute of the dictionary, marked so, goes to each function whose
 * directives the C library reads itself. Only attributes that PMIX_QUERY_ATTRIBUTE_SUPPORT lists for the function may
 * succeed. The client and the tool are this program again. */
#include "host.h"

#include <libgen.h>

#define ATTRIBUTES_MAX 2000

static char *names[ATTRIBUTES_MAX];
static size_t names_count;
static pmix_info_t *support;
static size_t support_count;

/* The keys of the dictionary, from the table beside the sources. */
static void read_names(void)
{
    char path[4096], here[] = __FILE__, line[8192];

    snprintf(path, sizeof path, "%s/../../spec/attributes.tsv", dirname(here));
    FILE *table = fopen(path, "r");
    CHECK(table != NULL);
    if (!table) exit(finish());
    while (fgets(line, sizeof line, table) && names_count < ATTRIBUTES_MAX) {
        strtok(line, "\t");
        char *key = strtok(NULL, "\t");
        if (key && strncmp(key, "pmix.", 5) == 0) names[names_count++] = strdup(key);
    }
    fclose(table);
    CHECK(names_count > 500 && names_count < ATTRIBUTES_MAX);
}

/* Asks for the attributes of all functions at all levels. */
static void read_support(void)
{
    const char *levels[] = {PMIX_CLIENT_ATTRIBUTES, PMIX_SERVER_ATTRIBUTES, PMIX_TOOL_ATTRIBUTES, PMIX_HOST_ATTRIBUTES};
    char *keys[] = {PMIX_QUERY_ATTRIBUTE_SUPPORT, NULL};
    pmix_info_t qualifiers[4];
    pmix_query_t query = {keys, qualifiers, 4};

    for (size_t i = 0; i < 4; i++) PMIX_INFO_LOAD(&qualifiers[i], levels[i], "all", PMIX_STRING);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Query_info(&query, 1, &support, &support_count));
    for (size_t i = 0; i < 4; i++) PMIX_INFO_DESTRUCT(&qualifiers[i]);
    CHECK(support_count > 0);
}

static bool is_listed(const char *function, const char *key)
{
    for (size_t i = 0; i < support_count; i++) {
        const pmix_data_array_t *level = support[i].value.data.darray;
        for (size_t j = 0; j < level->size; j++) {
            const pmix_info_t *entry = (const pmix_info_t *)level->array + j;
            if (strcmp(entry->key, function)) continue;
            const pmix_data_array_t *attributes = entry->value.data.darray;
            for (size_t k = 0; k < attributes->size; k++)
                if (!strcmp(((const pmix_regattr_t *)attributes->array)[k].string, key)) return true;
        }
    }
    return false;
}

/* Calls a function with each required attribute that it does not list. */
static void sweep(const char *function, pmix_status_t (*call)(pmix_info_t *directive))
{
    size_t refused = 0, unlisted = 0;

    for (size_t i = 0; i < names_count; i++) {
        pmix_info_t directive;
        if (is_listed(function, names[i])) continue;
        PMIX_INFO_LOAD(&directive, names[i], NULL, PMIX_BOOL);
        directive.flags = PMIX_INFO_REQD;
        pmix_status_t status = call(&directive);
        unlisted++;
        if (status == PMIX_ERR_NOT_SUPPORTED) refused++;
        else printf("%s with %s: %d\n", function, names[i], status);
        PMIX_INFO_DESTRUCT(&directive);
    }
    CHECK(unlisted > 500);
    CHECK_NUMBER(unlisted, refused);
}

/* ---- Functions of a server. */
static void on_inventory(pmix_status_t status, pmix_info_t info[], size_t count, void *data, pmix_release_cbfunc_t release,
                         void *release_data)
{
    (void)info, (void)count;
    if (release) release(release_data);
    op_done(status, data);
}

static pmix_status_t collect(pmix_info_t *directive)
{
    struct done done = DONE;
    return done_result(&done, PMIx_server_collect_inventory(directive, 1, on_inventory, &done));
}

static pmix_status_t deliver(pmix_info_t *directive)
{
    struct done done = DONE;
    return done_result(&done, PMIx_server_deliver_inventory(directive, 1, NULL, 0, op_done, &done));
}

static pmix_status_t deliver_as(pmix_info_t *directive)
{
    struct done done = DONE;
    return done_result(&done, PMIx_server_deliver_inventory(NULL, 0, directive, 1, op_done, &done));
}

static pmix_status_t deliver_output(pmix_info_t *directive)
{
    struct done done = DONE;
    pmix_proc_t source = proc_of("job", 0);
    pmix_byte_object_t bytes = {(char *)"a", 1};
    return done_result(&done, PMIx_server_IOF_deliver(&source, PMIX_FWD_STDOUT_CHANNEL, &bytes, directive, 1, op_done, &done));
}

static pmix_status_t (*forward_fn)(const char *, const char *, pmix_info_t *, size_t);
static pmix_status_t (*flow_fn)(pmix_proc_t *, pmix_iof_channel_t, bool, pmix_info_t *, size_t, pmix_op_cbfunc_t, void *);
static pmix_status_t (*generate_fn)(const char *, pmix_info_t *, size_t, void *);
static pmix_status_t (*parse_fn)(const void *, pmix_info_t *, size_t, char **);

/* `pmix_regex2_t` of 6.1, which older headers lack. */
static struct {
    char *type;
    unsigned char *bytes;
    size_t len;
} list;

static pmix_status_t forward(pmix_info_t *directive) { return forward_fn("job", "NO_SUCH_VARIABLE", directive, 1); }

static pmix_status_t flow(pmix_info_t *directive)
{
    struct done done = DONE;
    return done_result(&done, flow_fn(NULL, PMIX_FWD_STDIN_CHANNEL, false, directive, 1, op_done, &done));
}

static pmix_status_t generate(pmix_info_t *directive)
{
    return generate_fn("node1", directive, 1, &list);
}

static pmix_status_t parse(pmix_info_t *directive)
{
    char *text = NULL;
    pmix_status_t status = parse_fn(&list, directive, 1, &text);
    free(text);
    return status;
}

static void of_server(void)
{
    *(void **)&forward_fn = dlsym(RTLD_DEFAULT, "PMIx_Forward_envars");
    *(void **)&flow_fn = dlsym(RTLD_DEFAULT, "PMIx_server_IOF_flow_control");
    *(void **)&generate_fn = dlsym(RTLD_DEFAULT, "PMIx_generate_regex2");
    *(void **)&parse_fn = dlsym(RTLD_DEFAULT, "PMIx_parse_regex2");
    CHECK(forward_fn && flow_fn && generate_fn && parse_fn);
    sweep("PMIx_server_collect_inventory", collect);
    sweep("PMIx_server_deliver_inventory", deliver);
    sweep("PMIx_server_deliver_inventory", deliver_as);
    sweep("PMIx_server_IOF_deliver", deliver_output);
    sweep("PMIx_Forward_envars", forward);
    sweep("PMIx_server_IOF_flow_control", flow);
    sweep("PMIx_generate_regex2", generate);
    CHECK_STATUS(PMIX_SUCCESS, generate_fn("node1", NULL, 0, &list));
    sweep("PMIx_parse_regex2", parse);
    free(list.type);
    free(list.bytes);
}

/* ---- Functions of a client. The host forwards no output, so a pull that succeeded would be seen. */
static void on_output(size_t id, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *bytes,
                      pmix_info_t info[], size_t count)
{
    (void)id, (void)channel, (void)source, (void)bytes, (void)info, (void)count;
}

static pmix_status_t init(pmix_info_t *directive) { return PMIx_Init(NULL, directive, 1); }

static pmix_status_t finalize(pmix_info_t *directive) { return PMIx_Finalize(directive, 1); }

static pmix_status_t pull(pmix_info_t *directive)
{
    pmix_proc_t source = proc_of("job", 0);
    return PMIx_IOF_pull(&source, 1, directive, 1, PMIX_FWD_STDOUT_CHANNEL, on_output, NULL, NULL);
}

static pmix_status_t end_pull(pmix_info_t *directive) { return PMIx_IOF_deregister(1, directive, 1, NULL, NULL); }

static pmix_status_t push(pmix_info_t *directive)
{
    pmix_proc_t target = proc_of("job", 0);
    return PMIx_IOF_push(&target, 1, NULL, directive, 1, NULL, NULL);
}

static int client(void)
{
    pmix_proc_t proc;

    read_names();
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Init(&proc, NULL, 0));
    read_support();
    sweep("PMIx_Init", init);
    sweep("PMIx_Finalize", finalize);
    sweep("PMIx_IOF_pull", pull);
    sweep("PMIx_IOF_deregister", end_pull);
    sweep("PMIx_IOF_push", push);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    CHECK(!PMIx_Initialized());
    sweep("PMIx_Init", init);
    CHECK(!PMIx_Initialized());
    return finish();
}

/* ---- Functions of a tool. */
static pmix_proc_t own_server;

static pmix_status_t choose(pmix_info_t *directive) { return PMIx_tool_set_server(&own_server, directive, 1); }

static pmix_status_t attach(pmix_info_t *directive)
{
    pmix_proc_t tool, server;
    pmix_info_t infos[3] = {*directive};
    pid_t starter = getppid();

    PMIX_INFO_LOAD(&infos[1], PMIX_SERVER_TMPDIR, getenv("PLACE"), PMIX_STRING);
    PMIX_INFO_LOAD(&infos[2], PMIX_SERVER_PIDINFO, &starter, PMIX_PID);
    pmix_status_t status = PMIx_tool_attach_to_server(&tool, &server, infos, 3);
    PMIX_INFO_DESTRUCT(&infos[1]);
    return status;
}

static pmix_status_t init_tool(pmix_info_t *directive) { return PMIx_tool_init(NULL, directive, 1); }

static int tool(void)
{
    pmix_info_t place;
    pmix_proc_t proc, *servers = NULL;
    size_t count = 0;

    read_names();
    PMIX_INFO_LOAD(&place, PMIX_SERVER_TMPDIR, getenv("PLACE"), PMIX_STRING);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_init(&proc, &place, 1));
    PMIX_INFO_DESTRUCT(&place);
    read_support();
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_get_servers(&servers, &count));
    CHECK_NUMBER(1, count);
    if (count != 1) return finish();
    own_server = servers[0];
    PMIX_PROC_FREE(servers, count);
    sweep("PMIx_tool_set_server", choose);
    sweep("PMIx_tool_attach_to_server", attach);
    sweep("PMIx_tool_init", init_tool);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_finalize());
    return finish();
}

/* A host that forwards output, and honours no directive. */
static pmix_status_t give_output(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t directives[], size_t ndirs,
                                 pmix_iof_channel_t channels, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    (void)procs, (void)nprocs, (void)channels, (void)cbfunc, (void)cbdata;
    for (size_t i = 0; i < ndirs; i++)
        if (PMIX_INFO_IS_REQUIRED(&directives[i])) return PMIX_ERR_NOT_SUPPORTED;
    return PMIX_OPERATION_SUCCEEDED;
}

int main(int argc, char **argv)
{
    static pmix_server_module_t module = {.iof_pull = give_output};
    pmix_info_t tools;
    bool yes = true;

    if (argc > 1) return strcmp(argv[1], "tool") ? client() : tool();
    CHECK(PMIx_Get_version() != NULL);
    if (stock()) return finish(); /* 4.2.2 ignores the mark */
    PMIX_INFO_LOAD(&tools, PMIX_SERVER_TOOL_SUPPORT, &yes, PMIX_BOOL);
    host_start_with(&module, &tools, 1);
    read_names();
    read_support();
    of_server();
    host_run("job", 1, 1, "client");
    CHECK_NUMBER(0, host_run_tool("tool"));
    host_stop();
    PMIX_INFO_FREE(support, support_count);
    for (size_t i = 0; i < names_count; i++) free(names[i]);
    return finish();
}
