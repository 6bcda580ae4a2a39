/* A host's module with every entry, and callbacks of every kind, with the headers' types. It is only compiled: an
 * argument of another type would be an error. */
#include <pmix_server.h>
#include <pmix_tool.h>

static pmix_status_t connected(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *data)
{
    (void) proc;
    (void) object;
    (void) done;
    (void) data;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo, char *blob,
                           size_t size, pmix_modex_cbfunc_t done, void *data)
{
    (void) procs;
    (void) nprocs;
    (void) info;
    (void) ninfo;
    done(PMIX_SUCCESS, blob, size, data, NULL, NULL);
    return PMIX_SUCCESS;
}

static void handler(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                    pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void) id;
    (void) status;
    (void) source;
    (void) info;
    (void) ninfo;
    (void) results;
    (void) nresults;
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void registered(pmix_status_t status, size_t id, void *data)
{
    (void) status;
    *(size_t *) data = id;
}

int main(void)
{
    static pmix_server_module_t module;
    pmix_status_t codes[1] = {PMIX_ERR_PROC_ABORTED};
    pmix_proc_t self;
    pmix_data_buffer_t buffer;
    pmix_value_t *value = NULL;
    char **env = NULL;
    int32_t number = 1;
    size_t id = 0;

    module.client_connected = connected;
    module.client_finalized = connected;
    module.fence_nb = fence;
    module.abort = NULL;
    module.direct_modex = NULL;
    module.publish = NULL;
    module.lookup = NULL;
    module.unpublish = NULL;
    module.spawn = NULL;
    module.connect = NULL;
    module.disconnect = NULL;
    module.register_events = NULL;
    module.deregister_events = NULL;
    module.listener = NULL;
    module.notify_event = NULL;
    module.query = NULL;
    module.tool_connected = NULL;
    module.log = NULL;
    module.allocate = NULL;
    module.job_control = NULL;
    module.monitor = NULL;
    module.get_credential = NULL;
    module.validate_credential = NULL;
    module.iof_pull = NULL;
    module.push_stdin = NULL;
    module.group = NULL;
    module.fabric = NULL;
    module.client_connected2 = NULL;
    module.tool_connected2 = NULL;
    module.log2 = NULL;
    module.session_control = NULL;
    module.resource_block = NULL;
    if (PMIx_server_init(&module, NULL, 0) != PMIX_SUCCESS) {
        return 1;
    }
    PMIX_LOAD_PROCID(&self, "job", 0);
    PMIx_server_setup_fork(&self, &env);
    PMIx_Register_event_handler(codes, 1, NULL, 0, handler, registered, &id);
    PMIx_Heartbeat();
    PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
    PMIx_Data_pack(NULL, &buffer, &number, 1, PMIX_INT32);
    if (PMIx_Get(&self, PMIX_JOB_SIZE, NULL, 0, &value) == PMIX_SUCCESS) {
        PMIX_VALUE_RELEASE(value);
    }
    PMIx_tool_connect_to_server(&self, NULL, 0);
    return PMIx_server_finalize() == PMIX_SUCCESS ? 0 : 1;
}
