/* The library's own service of published data: a host without functions for it switches it on with an info. */
#include "host.h"

static void publish(const char *key, const char *text, pmix_persistence_t persistence, pmix_status_t expected)
{
    pmix_info_t info[2];
    PMIX_INFO_CONSTRUCT(&info[0]);
    PMIX_INFO_CONSTRUCT(&info[1]);
    PMIX_INFO_LOAD(&info[0], key, text, PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_PERSISTENCE, &persistence, PMIX_PERSIST);
    CHECK_STATUS(expected, PMIx_Publish(info, 2));
    PMIX_INFO_DESTRUCT(&info[0]);
    PMIX_INFO_DESTRUCT(&info[1]);
}

static void look_up(const char *key, const pmix_info_t *info, size_t count, pmix_status_t expected, const char *text)
{
    pmix_pdata_t data;
    PMIX_PDATA_CONSTRUCT(&data);
    strcpy(data.key, key);
    CHECK_STATUS(expected, PMIx_Lookup(&data, 1, info, count));
    if (text) CHECK(data.value.type == PMIX_STRING && strcmp(data.value.data.string, text) == 0);
    PMIX_PDATA_DESTRUCT(&data);
}

static int client(void)
{
    char *own[] = {"own", NULL};
    bool wait = true;
    int seconds = 60;
    pmix_info_t limits[2];

    client_start();
    PMIX_INFO_CONSTRUCT(&limits[0]);
    PMIX_INFO_CONSTRUCT(&limits[1]);
    PMIX_INFO_LOAD(&limits[0], PMIX_WAIT, &wait, PMIX_BOOL); /* as Open MPI does */
    PMIX_INFO_LOAD(&limits[1], PMIX_TIMEOUT, &seconds, PMIX_INT);
    /* Of the host, which publishes it late. */
    look_up("late", limits, 2, PMIX_SUCCESS, "of the host");
    if (me.rank == 0) {
        publish("own", "of rank 0", PMIX_PERSIST_SESSION, PMIX_SUCCESS);
        publish("own", "again", PMIX_PERSIST_SESSION, PMIX_ERR_DUPLICATE_KEY);
        publish("once", "for one", PMIX_PERSIST_FIRST_READ, PMIX_SUCCESS);
    }
    fence_all(false);
    if (me.rank == 1) {
        look_up("own", NULL, 0, PMIX_SUCCESS, "of rank 0");
        look_up("once", NULL, 0, PMIX_SUCCESS, "for one");
        look_up("once", NULL, 0, PMIX_ERR_NOT_FOUND, NULL);
        CHECK_STATUS(PMIX_ERR_NOT_FOUND, PMIx_Unpublish(own, NULL, 0));
        PMIX_INFO_REQUIRED(&limits[0]);
        strcpy(limits[0].key, "no.such.directive");
        look_up("own", limits, 1, PMIX_ERR_NOT_SUPPORTED, NULL);
    }
    fence_all(false);
    if (me.rank == 0) CHECK_STATUS(PMIX_SUCCESS, PMIx_Unpublish(own, NULL, 0));
    fence_all(false);
    look_up("own", NULL, 0, PMIX_ERR_NOT_FOUND, NULL);
    PMIX_INFO_DESTRUCT(&limits[0]);
    PMIX_INFO_DESTRUCT(&limits[1]);
    return client_end();
}

int main(int argc, char **argv)
{
    pmix_server_module_t module = {0};
    pmix_info_t on;
    bool yes = true;
    pid_t pids[2];

    (void)argv;
    if (argc > 1) return client();
    CHECK(true);
    if (stock()) return finish(); /* it has no such service */
    PMIX_INFO_CONSTRUCT(&on);
    PMIX_INFO_LOAD(&on, "modex.name_service", &yes, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&on);
    host_start_with(&module, &on, 1);
    host_job("names", 2, 2);
    for (uint32_t i = 0; i < 2; i++) pids[i] = host_fork("names", i, "client");
    publish("late", "of the host", PMIX_PERSIST_SESSION, PMIX_SUCCESS);
    for (uint32_t i = 0; i < 2; i++) host_wait(pids[i], 0);
    look_up("once", NULL, 0, PMIX_ERR_NOT_FOUND, NULL);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Unpublish(NULL, NULL, 0));
    look_up("late", NULL, 0, PMIX_ERR_NOT_FOUND, NULL);
    host_stop();
    PMIX_INFO_DESTRUCT(&on);
    return finish();
}
