/* A server for tests/interop/tools.rs that admits tools, with the library it is run with: tells of one job of three
 * processes, keeps what is published, and says what tools do and which events are raised, one line each. Ends when its input does. The words of its
 * command line are switched on: session, system, mute (no function for tools), silent (no function for queries). */
#include <pmix.h>
#include <pmix_server.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pmix_info_t kept;
static bool has_kept;
static int tools;

static pmix_status_t finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *data)
{
    (void)object;
    (void)done;
    (void)data;
    printf("finalized %s.%u\n", proc->nspace, proc->rank);
    fflush(stdout);
    return PMIX_OPERATION_SUCCEEDED;
}

static void tool_connected(pmix_info_t *info, size_t ninfo, pmix_tool_connection_cbfunc_t done, void *data)
{
    pmix_proc_t proc;
    size_t i;
    bool has_uid = false;

    PMIX_LOAD_PROCID(&proc, "", 0);
    for (i = 0; i < ninfo; i++) {
        if (PMIX_CHECK_KEY(&info[i], PMIX_NSPACE)) {
            PMIX_LOAD_NSPACE(proc.nspace, info[i].value.data.string);
        } else if (PMIX_CHECK_KEY(&info[i], PMIX_RANK)) {
            proc.rank = info[i].value.data.rank;
        } else if (PMIX_CHECK_KEY(&info[i], PMIX_USERID)) {
            has_uid = info[i].value.data.uint32 == (uint32_t)geteuid();
        }
    }
    if (!*proc.nspace) {
        snprintf(proc.nspace, sizeof proc.nspace, "assigned-%d", ++tools);
    }
    printf("tool %s.%u %s\n", proc.nspace, proc.rank, has_uid ? "mine" : "not mine");
    fflush(stdout);
    done(strcmp(proc.nspace, "unwanted") ? PMIX_SUCCESS : PMIX_ERR_NO_PERMISSIONS, &proc, data);
}

static pmix_status_t query(pmix_proc_t *proc, pmix_query_t *queries, size_t count, pmix_info_cbfunc_t done, void *data)
{
    static pmix_info_t answer;

    (void)proc;
    if (count != 1 || strcmp(queries[0].keys[0], PMIX_QUERY_NAMESPACES)) {
        return PMIX_ERR_NOT_FOUND;
    }
    PMIX_INFO_LOAD(&answer, PMIX_QUERY_NAMESPACES, "interop", PMIX_STRING);
    done(PMIX_SUCCESS, &answer, 1, data, NULL, NULL);
    return PMIX_SUCCESS;
}

static pmix_status_t publish(const pmix_proc_t *proc, const pmix_info_t *info, size_t ninfo, pmix_op_cbfunc_t done, void *data)
{
    size_t i;

    (void)proc;
    (void)done;
    (void)data;
    pthread_mutex_lock(&lock);
    for (i = 0; i < ninfo; i++) {
        if (strncmp(info[i].key, "pmix", 4)) {
            PMIx_Info_xfer(&kept, &info[i]);
            has_kept = true;
        }
    }
    pthread_mutex_unlock(&lock);
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t lookup(const pmix_proc_t *proc, char **keys, const pmix_info_t *info, size_t ninfo,
                            pmix_lookup_cbfunc_t done, void *data)
{
    pmix_pdata_t found;

    (void)info;
    (void)ninfo;
    if (!has_kept || strcmp(keys[0], kept.key)) {
        return PMIX_ERR_NOT_FOUND;
    }
    PMIX_PDATA_CONSTRUCT(&found);
    found.proc = *proc;
    PMIX_LOAD_KEY(found.key, kept.key);
    PMIx_Value_xfer(&found.value, &kept.value);
    done(PMIX_SUCCESS, &found, 1, data);
    return PMIX_SUCCESS;
}

static void raised(size_t handler, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *info, size_t ninfo,
                   pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void)handler;
    (void)info;
    (void)ninfo;
    (void)results;
    (void)nresults;
    printf("event %d of %s.%u\n", status, source->nspace, source->rank);
    fflush(stdout);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void listening(pmix_status_t status, size_t handler, void *data)
{
    (void)handler;
    *(volatile int *)data = status == PMIX_SUCCESS ? 1 : -1;
}

static void registered(pmix_status_t status, void *data)
{
    *(volatile int *)data = status == PMIX_SUCCESS ? 1 : -1;
}

int main(int argc, char **argv)
{
    pmix_server_module_t module = {.client_finalized = finalized, .tool_connected = tool_connected, .query = query,
                                   .publish = publish, .lookup = lookup};
    pmix_info_t info[6];
    volatile int is_registered = 0, is_listening = 0;
    bool yes = true;
    uint32_t size = 3;
    size_t count = 0;
    pmix_nspace_t job;
    char name[64];
    pmix_status_t status;
    int i;

    snprintf(name, sizeof name, "server-%d", (int)getpid());
    PMIX_INFO_LOAD(&info[count], PMIX_SERVER_NSPACE, name, PMIX_STRING); count++;
    PMIX_INFO_LOAD(&info[count], PMIX_SERVER_TOOL_SUPPORT, &yes, PMIX_BOOL); count++;
    PMIX_INFO_LOAD(&info[count], PMIX_SERVER_TMPDIR, getenv("TMPDIR"), PMIX_STRING); count++;
    for (i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "session")) {
            PMIX_INFO_LOAD(&info[count], PMIX_SERVER_SESSION_SUPPORT, &yes, PMIX_BOOL); count++;
        } else if (!strcmp(argv[i], "system")) {
            PMIX_INFO_LOAD(&info[count], PMIX_SERVER_SYSTEM_SUPPORT, &yes, PMIX_BOOL); count++;
        } else if (!strcmp(argv[i], "mute")) {
            module.tool_connected = NULL;
        } else if (!strcmp(argv[i], "silent")) {
            module.query = NULL;
        }
    }
    status = PMIx_server_init(&module, info, count);
    if (PMIX_SUCCESS != status) {
        printf("init %s\n", PMIx_Error_string(status));
        return 1;
    }
    PMIX_LOAD_NSPACE(job, "interop");
    PMIX_INFO_LOAD(&info[0], PMIX_JOB_SIZE, &size, PMIX_UINT32);
    status = PMIx_server_register_nspace(job, 0, info, 1, registered, (void *)&is_registered);
    while (PMIX_SUCCESS == status && !is_registered) {
        usleep(1000);
    }
    PMIx_Register_event_handler(NULL, 0, NULL, 0, raised, listening, (void *)&is_listening);
    while (!is_listening) {
        usleep(1000);
    }
    printf("ready %d\n", is_registered);
    fflush(stdout);
    while (getchar() != EOF) {}
    printf("end %s\n", PMIx_Error_string(PMIx_server_finalize()));
    return 0;
}
