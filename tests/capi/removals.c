/* Values that a process removes again: PMIx_Put with the scopes of OpenPMIx 7.0. */
#include "host.h"

#ifndef PMIX_DEL_GLOBAL
#define PMIX_DEL_LOCAL 5
#define PMIX_DEL_REMOTE 6
#define PMIX_DEL_GLOBAL 7
#define PMIX_DEL_INTERNAL 8
#endif

static pmix_status_t put(pmix_scope_t scope, const char *key, uint32_t number)
{
    pmix_value_t value;
    PMIX_VALUE_LOAD(&value, &number, PMIX_UINT32);
    return PMIx_Put(scope, key, &value);
}

/* The value of a key, or 0 if there is none. */
static uint32_t now(pmix_proc_t proc, const char *key)
{
    pmix_info_t at_once;
    pmix_value_t *value = NULL;
    uint32_t number = 0;

    PMIX_INFO_LOAD(&at_once, PMIX_IMMEDIATE, NULL, PMIX_BOOL);
    pmix_status_t status = PMIx_Get(&proc, key, &at_once, 1, &value);
    if (status == PMIX_SUCCESS && value->type == PMIX_UINT32) number = value->data.uint32;
    else CHECK_NUMBER(PMIX_ERR_NOT_FOUND, status);
    if (value) PMIX_VALUE_RELEASE(value);
    return number;
}

static void fence(void)
{
    pmix_info_t collect;
    pmix_proc_t all = proc_of(me.nspace, PMIX_RANK_WILDCARD);

    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, NULL, PMIX_BOOL);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Fence(&all, 1, &collect, 1));
}

static int client(void)
{
    client_start();
    pmix_proc_t owner = proc_of(me.nspace, 0);
    bool owns = me.rank == 0;

    if (owns) {
        CHECK_STATUS(PMIX_SUCCESS, put(PMIX_GLOBAL, "gone", 1));
        CHECK_STATUS(PMIX_SUCCESS, put(PMIX_GLOBAL, "kept", 2));
        CHECK_STATUS(PMIX_SUCCESS, put(PMIX_INTERNAL, "own", 3));
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Commit());
    }
    fence();
    CHECK_NUMBER(1, now(owner, "gone"));
    fence();
    if (owns) {
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Put(PMIX_DEL_GLOBAL, "gone", NULL));
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Put(PMIX_DEL_GLOBAL, "never put", NULL));
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Put(PMIX_DEL_INTERNAL, "own", NULL));
        if (!stock()) { /* OpenPMIx takes any key */
            CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_Put(PMIX_DEL_GLOBAL, PMIX_JOB_SIZE, NULL));
            CHECK_STATUS(PMIX_ERR_BAD_PARAM, put(9, "kept", 9));
            CHECK_NUMBER(0, now(owner, "gone"));
        }
        CHECK_NUMBER(0, now(owner, "own"));
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Commit());
    }
    fence();
    CHECK_NUMBER(0, now(owner, "gone"));
    CHECK_NUMBER(2, now(owner, "kept"));
    fence();
    if (owns) {
        CHECK_STATUS(PMIX_SUCCESS, put(PMIX_GLOBAL, "gone", 4));
        CHECK_STATUS(PMIX_SUCCESS, put(PMIX_GLOBAL, "kept", 5));
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Put(PMIX_DEL_LOCAL, "kept", NULL));
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Commit());
    }
    fence();
    CHECK_NUMBER(4, now(owner, "gone"));
    CHECK_NUMBER(0, now(owner, "kept"));
    return client_end();
}

int main(int argc, char **argv)
{
    pmix_server_module_t module = {0};
    pmix_value_t *value = NULL;

    (void)argv;
    if (argc > 1) return client();
    CHECK(true);
    if (stock()) return finish(); /* 4.2.2 has no such scopes */
    host_start(&module);
    host_run("removals", 2, 2, "client");
    /* The process of the server has values of its own. */
    CHECK_STATUS(PMIX_SUCCESS, put(PMIX_GLOBAL, "mine", 1));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(NULL, "mine", NULL, 0, &value));
    PMIX_VALUE_RELEASE(value);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Put(PMIX_DEL_GLOBAL, "mine", NULL));
    CHECK_STATUS(PMIX_ERR_NOT_FOUND, PMIx_Get(NULL, "mine", NULL, 0, &value));
    host_forget("removals");
    host_stop();
    return finish();
}
