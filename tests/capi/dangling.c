/* Invalid pointers and impossible counts: each gives PMIX_ERR_BAD_PARAM, none a crash. Stock follows the pointers, so
 * only our library is tested. */
#include "host.h"

/* In the first page, and misaligned. They are not constants, because compilers know too much about constants. */
static void *volatile low = (void *)8, *volatile odd;
static volatile size_t all = SIZE_MAX, half = SIZE_MAX / 2;

#define REFUSED(call) CHECK_STATUS(PMIX_ERR_BAD_PARAM, call)

static pmix_info_t info, *results;
static pmix_value_t value, *found;
static pmix_proc_t proc;
static size_t count;
static char *keys[] = {"key", NULL}, *text;

static void values(void)
{
    REFUSED(PMIx_Put(PMIX_GLOBAL, low, &value));
    REFUSED(PMIx_Put(PMIX_GLOBAL, "key", low));
    REFUSED(PMIx_Put(PMIX_GLOBAL, "key", odd));
    REFUSED(PMIx_Store_internal(low, "key", &value));
    REFUSED(PMIx_Store_internal(odd, "key", &value));
    REFUSED(PMIx_Store_internal(&proc, low, &value));
    REFUSED(PMIx_Get(low, "key", NULL, 0, &found));
    REFUSED(PMIx_Get(odd, "key", NULL, 0, &found));
    REFUSED(PMIx_Get(&proc, low, NULL, 0, &found));
    REFUSED(PMIx_Get(&proc, "key", low, 1, &found));
    REFUSED(PMIx_Get(&proc, "key", &info, all, &found));
    REFUSED(PMIx_Get(&proc, "key", &info, half, &found));
    REFUSED(PMIx_Get(&proc, "key", NULL, 0, low));
    REFUSED(PMIx_Get(&proc, PMIX_JOB_SIZE, NULL, 0, odd));
    REFUSED(PMIx_Get_nb(&proc, low, NULL, 0, NULL, NULL));
    REFUSED(PMIx_Get_nb(&proc, "key", &info, all, NULL, NULL));
}

static void collectives(void)
{
    REFUSED(PMIx_Fence(low, 1, NULL, 0));
    REFUSED(PMIx_Fence(odd, 1, NULL, 0));
    REFUSED(PMIx_Fence(&proc, all, NULL, 0));
    REFUSED(PMIx_Fence(&proc, 1, low, 1));
    REFUSED(PMIx_Fence_nb(&proc, 1, &info, all, op_done, NULL));
    REFUSED(PMIx_Connect(low, 1, NULL, 0));
    REFUSED(PMIx_Connect(&proc, all, NULL, 0));
    REFUSED(PMIx_Disconnect(low, 1, NULL, 0));
    REFUSED(PMIx_Group_construct(low, &proc, 1, NULL, 0, &results, &count));
    REFUSED(PMIx_Group_construct("group", &proc, all, NULL, 0, &results, &count));
    REFUSED(PMIx_Group_invite("group", &proc, all, NULL, 0, &results, &count));
    REFUSED(PMIx_Group_join("group", low, PMIX_GROUP_ACCEPT, NULL, 0, &results, &count));
    REFUSED(PMIx_Abort(1, NULL, &proc, all));
}

static void requests(void)
{
    pmix_query_t query;
    pmix_pdata_t wanted;
    pmix_app_t app;
    pmix_nspace_t nspace;
    pmix_status_t code = PMIX_ERR_LOST_CONNECTION;
    memset(&query, 0, sizeof query);
    memset(&wanted, 0, sizeof wanted);
    memset(&app, 0, sizeof app);

    REFUSED(PMIx_Publish(low, 1));
    REFUSED(PMIx_Publish(odd, 1));
    REFUSED(PMIx_Publish(&info, all));
    REFUSED(PMIx_Publish(&info, half));
    REFUSED(PMIx_Lookup(low, 1, NULL, 0));
    REFUSED(PMIx_Lookup(&wanted, all, NULL, 0));
    REFUSED(PMIx_Unpublish(low, NULL, 0));
    REFUSED(PMIx_Unpublish(keys, &info, all));
    REFUSED(PMIx_Spawn(NULL, 0, low, 1, nspace));
    REFUSED(PMIx_Spawn(NULL, 0, &app, all, nspace));
    REFUSED(PMIx_Query_info(low, 1, &results, &count));
    REFUSED(PMIx_Query_info(&query, all, &results, &count));
    REFUSED(PMIx_Log(&info, all, NULL, 0));
    REFUSED(PMIx_Job_control(&proc, all, NULL, 0, &results, &count));
    REFUSED(PMIx_Allocation_request(PMIX_ALLOC_NEW, &info, all, &results, &count));
    REFUSED(PMIx_Process_monitor(&info, PMIX_ERR_TIMEOUT, &info, all, &results, &count));
    REFUSED(PMIx_Notify_event(PMIX_ERR_TIMEOUT, &proc, PMIX_RANGE_LOCAL, &info, all, NULL, NULL));
    REFUSED(PMIx_Notify_event(PMIX_ERR_TIMEOUT, low, PMIX_RANGE_LOCAL, NULL, 0, NULL, NULL));
    REFUSED(PMIx_Register_event_handler(low, 1, NULL, 0, NULL, NULL, NULL));
    REFUSED(PMIx_Register_event_handler(&code, all, NULL, 0, NULL, NULL, NULL));
    REFUSED(PMIx_IOF_pull(&proc, all, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, NULL, NULL, NULL));
    REFUSED(PMIx_Resolve_peers(low, me.nspace, (pmix_proc_t **)&results, &count));
    REFUSED(PMIx_Resolve_nodes(low, &text));
}

static void helpers(void)
{
    pmix_data_buffer_t *buffer;
    int32_t number = 1;

    PMIX_DATA_BUFFER_CREATE(buffer);
    REFUSED(PMIx_Data_pack(NULL, low, &number, 1, PMIX_INT32));
    REFUSED(PMIx_Data_pack(NULL, buffer, &number, -1, PMIX_INT32));
    REFUSED(PMIx_Data_pack(NULL, buffer, low, 1, PMIX_INFO));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Data_pack(NULL, buffer, &number, 1, PMIX_INT32));
    REFUSED(PMIx_Data_unpack(NULL, buffer, low, &number, PMIX_INT32));
    REFUSED(PMIx_Data_unpack(NULL, buffer, &number, low, PMIX_INT32));
    REFUSED(PMIx_Data_copy((void **)&results, low, PMIX_INFO));
    REFUSED(PMIx_Data_print(&text, "", low, PMIX_INFO));
    REFUSED(PMIx_Data_copy_payload(buffer, low));
    REFUSED(PMIx_Value_load(low, &number, PMIX_INT));
    REFUSED(PMIx_generate_regex(low, &text));
    REFUSED(PMIx_generate_ppn("1;2", low));
    REFUSED(PMIx_Init(low, NULL, 0));
    REFUSED(PMIx_Init(&proc, &info, all));
    PMIX_DATA_BUFFER_RELEASE(buffer);
}

static int client(void)
{
    client_start();
    if (!stock()) {
        values();
        collectives();
        requests();
        helpers();
    }
    /* These calls have done no harm. */
    CHECK_STATUS(PMIX_SUCCESS, put_text(PMIX_GLOBAL, "good", "value"));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Commit());
    fence_all(true);
    pmix_proc_t other = proc_of(me.nspace, 1 - me.rank);
    GET_TEXT("value", &other, "good");
    return client_end();
}

static pmix_server_module_t module;

static void serving(void)
{
    if (stock()) return;
    REFUSED(PMIx_server_init(low, NULL, 0));
    REFUSED(PMIx_server_init(odd, NULL, 0));
    REFUSED(PMIx_server_init(NULL, &info, all));
    REFUSED(PMIx_server_register_nspace("job", 1, &info, all, NULL, NULL));
    REFUSED(PMIx_server_register_nspace("job", 1, low, 1, NULL, NULL));
    REFUSED(PMIx_server_register_client(low, 0, 0, NULL, NULL, NULL));
    REFUSED(PMIx_server_setup_fork(low, (char ***)&text));
    REFUSED(PMIx_server_setup_fork(&proc, low));
    REFUSED(PMIx_server_dmodex_request(low, NULL, NULL));
}

int main(int argc, char **argv)
{
    (void)argv;
    odd = (char *)&info + 1;
    proc = proc_of("job", 0);
    PMIX_INFO_LOAD(&info, "key", NULL, PMIX_BOOL);
    value.type = PMIX_INT;
    if (argc > 1) return client();
    host_start(&module);
    serving();
    host_run("dangling", 2, 2, "client");
    host_stop();
    return finish();
}
