/* Groups by invitation: accepted and declined inside and outside handlers, left, and the meaning of the group's name.
 * Groups of members that a host brings together. Stock 4.2.2 never tells the invitees the result, and has no leave and no
 * bootstrap, so these tests skip it. */
#include "host.h"

static struct done invited = DONE, joined = DONE, left = DONE, failed = DONE, complete = DONE;
static pmix_group_opt_t answer = PMIX_GROUP_ACCEPT;
static bool answers_inside;
static pmix_proc_t leader, about;

static const pmix_proc_t *affected(const pmix_info_t *info, size_t n)
{
    const pmix_info_t *found = info_of(info, n, PMIX_EVENT_AFFECTED_PROC);
    return found && found->value.type == PMIX_PROC ? found->value.data.proc : NULL;
}

static void check_members(const pmix_info_t *info, size_t n, uint32_t count)
{
    const pmix_info_t *id = info_of(info, n, PMIX_GROUP_ID), *members = info_of(info, n, PMIX_GROUP_MEMBERSHIP);
    CHECK(id && id->value.type == PMIX_STRING && strcmp(id->value.data.string, "club") == 0);
    CHECK(members && members->value.type == PMIX_DATA_ARRAY && members->value.data.darray->type == PMIX_PROC);
    if (!members) return;
    CHECK_NUMBER(count, members->value.data.darray->size);
    const pmix_proc_t *procs = members->value.data.darray->array;
    for (uint32_t i = 0; i < count; i++) CHECK_NUMBER(i, procs[i].rank);
}

static void on_joined(pmix_status_t status, pmix_info_t *info, size_t n, void *data, pmix_release_cbfunc_t release,
                      void *token)
{
    if (status == PMIX_SUCCESS && answer == PMIX_GROUP_ACCEPT) check_members(info, n, 3);
    if (release) release(token);
    done_with(data, status, n);
}

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t n,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void)id, (void)results, (void)nresults;
    if (affected(info, n)) about = *affected(info, n);
    if (status == PMIX_GROUP_INVITED) {
        leader = *source;
        const pmix_info_t *name = info_of(info, n, PMIX_GROUP_ID);
        CHECK(name && strcmp(name->value.data.string, "club") == 0);
        if (answers_inside) {
            CHECK_STATUS(PMIX_ERR_WOULD_BLOCK, PMIx_Group_join("club", source, answer, NULL, 0, NULL, NULL));
            CHECK_STATUS(PMIX_SUCCESS, PMIx_Group_join_nb("club", source, answer, NULL, 0, on_joined, &joined));
        }
        done_with(&invited, status, 0);
    }
    if (status == PMIX_GROUP_LEFT) done_with(&left, status, 0);
    if (status == PMIX_GROUP_INVITE_FAILED) done_with(&failed, status, 0);
    if (status == PMIX_GROUP_CONSTRUCT_COMPLETE) done_with(&complete, status, 0);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void invite(pmix_status_t expected, uint32_t members)
{
    pmix_proc_t all = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    pmix_info_t *results = NULL;
    size_t count = 7;
    CHECK_STATUS(expected, PMIx_Group_invite("club", &all, 1, NULL, 0, &results, &count));
    if (members) check_members(results, count, members);
    else CHECK(results == NULL && count == 0);
    if (results) PMIX_INFO_FREE(results, count);
}

static void join(pmix_status_t expected)
{
    pmix_info_t *results = NULL;
    size_t count = 7;
    done_wait(&invited);
    CHECK_STATUS(expected, PMIx_Group_join("club", &leader, PMIX_GROUP_ACCEPT, NULL, 0, &results, &count));
    if (expected == PMIX_SUCCESS) check_members(results, count, 3);
    if (results) PMIX_INFO_FREE(results, count);
}

static int client(bool declines)
{
    pmix_status_t codes[] = {PMIX_GROUP_INVITED, PMIX_GROUP_LEFT, PMIX_GROUP_INVITE_FAILED, PMIX_GROUP_CONSTRUCT_COMPLETE};
    struct done registered = DONE;
    client_start();
    pmix_proc_t club = proc_of("club", PMIX_RANK_WILDCARD);
    answers_inside = me.rank == 1;
    if (declines) answer = PMIX_GROUP_DECLINE; /* the answer inside the handler */
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Register_event_handler(codes, 4, NULL, 0, on_event, reg_done, &registered));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&registered));
    fence_all(false);
    pmix_status_t end = declines ? PMIX_GROUP_CONSTRUCT_ABORT : PMIX_SUCCESS;
    if (me.rank == 0) invite(end, declines ? 0 : 3);
    if (me.rank == 1) CHECK_STATUS(PMIX_SUCCESS, done_wait(&joined));
    if (me.rank == 2) join(end);
    if (declines) {
        if (me.rank == 0) {
            CHECK_STATUS(PMIX_GROUP_INVITE_FAILED, done_wait(&failed));
            CHECK_NUMBER(1, about.rank);
        }
        CHECK_STATUS(PMIX_ERR_NOT_FOUND, PMIx_Group_leave("club", NULL, 0));
        return client_end();
    }
    CHECK_STATUS(PMIX_GROUP_CONSTRUCT_COMPLETE, done_wait(&complete));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence(&club, 1, NULL, 0));
    if (me.rank == 2) {
        struct done gone = DONE;
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Group_leave_nb("club", NULL, 0, op_done, &gone));
        CHECK_STATUS(PMIX_SUCCESS, done_wait(&gone));
        CHECK_STATUS(PMIX_ERR_NOT_FOUND, PMIx_Group_leave("club", NULL, 0));
    } else {
        CHECK_STATUS(PMIX_GROUP_LEFT, done_wait(&left));
        CHECK_NUMBER(2, about.rank);
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence(&club, 1, NULL, 0));
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Group_destruct("club", NULL, 0));
    }
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Group_invite("club", NULL, 0, NULL, 0, NULL, NULL));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Group_invite_nb("club", &me, 1, NULL, 0, NULL, NULL));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Group_join("club", &me, 7, NULL, 0, NULL, NULL));
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Group_leave(NULL, NULL, 0));
    return client_end();
}

/* ---- Members that do not know each other, and a host that brings them together. Like PRRTE's daemons, it gives one of
 * the three processes an answer, which is for all. */
#ifndef PMIX_GROUP_BOOTSTRAP
#define PMIX_GROUP_BOOTSTRAP "pmix.grp.btstrp"
#endif
#define LEADERS 2
static int bootstrap_calls;

static pmix_status_t on_group(pmix_group_operation_t operation, char *name, const pmix_proc_t procs[], size_t nprocs,
                              const pmix_info_t infos[], size_t ninfos, pmix_info_cbfunc_t answer_it, void *data)
{
    const pmix_info_t *status = info_of(infos, ninfos, PMIX_LOCAL_COLLECTIVE_STATUS);
    CHECK(status && status->value.type == PMIX_STATUS && status->value.data.status == PMIX_SUCCESS);
    CHECK(strcmp(name, "club") == 0);
    if (operation != PMIX_GROUP_CONSTRUCT) return PMIX_OPERATION_SUCCEEDED;
    /* The added member names no process. */
    CHECK(info_of(infos, ninfos, PMIX_GROUP_BOOTSTRAP) ? nprocs == 1 : nprocs == 0 && procs == NULL);
    if (++bootstrap_calls < LEADERS + 1) return PMIX_SUCCESS;
    struct answer *answer = answer_new(give_infos, data, PMIX_SUCCESS);
    pmix_data_array_t *results;
    size_t number = 77;
    PMIX_DATA_ARRAY_CREATE(results, 2, PMIX_INFO);
    pmix_info_t *result = results->array;
    PMIX_INFO_LOAD(&result[0], PMIX_GROUP_CONTEXT_ID, &number, PMIX_SIZE);
    pmix_data_array_t members;
    PMIX_DATA_ARRAY_CONSTRUCT(&members, LEADERS + 1, PMIX_PROC);
    for (uint32_t i = 0; i < LEADERS + 1; i++) ((pmix_proc_t *)members.array)[i] = proc_of("bootstraps", i);
    PMIX_INFO_LOAD(&result[1], PMIX_GROUP_MEMBERSHIP, &members, PMIX_DATA_ARRAY);
    PMIX_DATA_ARRAY_DESTRUCT(&members);
    answer->call.info = answer_it;
    answer->payload = results;
    answer_later(answer);
    return PMIX_SUCCESS;
}

static int bootstrapping_client(void)
{
    pmix_info_t infos[3], *results = NULL;
    size_t leaders = LEADERS, count = 0;
    client_start();
    bool leads = me.rank < LEADERS;
    pmix_proc_t added = proc_of(me.nspace, LEADERS);
    pmix_data_array_t members = {.type = PMIX_PROC, .size = 1, .array = &added};
    PMIX_INFO_LOAD(&infos[0], PMIX_GROUP_ASSIGN_CONTEXT_ID, NULL, PMIX_BOOL);
    PMIX_INFO_LOAD(&infos[1], PMIX_GROUP_BOOTSTRAP, &leaders, PMIX_SIZE);
    PMIX_INFO_LOAD(&infos[2], PMIX_GROUP_ADD_MEMBERS, &members, PMIX_DATA_ARRAY);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Group_construct("club", leads ? &me : NULL, leads, infos, leads ? 3 : 1, &results,
                                                    &count));
    const pmix_info_t *number = info_of(results, count, PMIX_GROUP_CONTEXT_ID);
    CHECK(number && number->value.data.size == 77);
    if (results) PMIX_INFO_FREE(results, count);
    for (size_t i = 0; i < 3; i++) PMIX_INFO_DESTRUCT(&infos[i]);
    return client_end();
}

static void run(const char *role)
{
    pid_t pids[3];
    host_job(role, 3, 3);
    for (uint32_t rank = 0; rank < 3; rank++) pids[rank] = host_fork(role, rank, role);
    for (uint32_t rank = 0; rank < 3; rank++) host_wait(pids[rank], 0);
    host_forget(role);
}

static pmix_server_module_t module, module_with_groups = {.group = on_group};

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "bootstraps") == 0) return bootstrapping_client();
    if (argc > 1) return client(strcmp(argv[1], "declines") == 0);
    CHECK(PMIx_Get_version() != NULL);
    if (stock()) return finish();
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_Group_leave("club", NULL, 0));
    host_start(&module);
    run("accepts");
    run("declines");
    host_stop();
    host_start(&module_with_groups);
    run("bootstraps");
    host_stop();
    CHECK_NUMBER(LEADERS + 1, bootstrap_calls);
    return finish();
}
