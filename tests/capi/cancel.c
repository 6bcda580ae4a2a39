/* A thread that is cancelled (pthread_cancel) while it waits in a function of the library. The function goes on to its end,
 * and the thread ends after it. With the asynchronous type the process was aborted. */
#include "host.h"

/* ---- The host. It answers the first publish of a client after the second one. */
#define ENTERED 50 /* the client reads a byte here for each held publish */

static int entered;
static pmix_op_cbfunc_t held;
static void *held_data;

static pmix_status_t up_publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t n, pmix_op_cbfunc_t callback,
                                void *data)
{
    (void)proc;
    if (info_of(info, n, "held")) {
        held = callback, held_data = data;
        CHECK_NUMBER(1, write(entered, "", 1));
        return PMIX_SUCCESS;
    }
    answer_op(held, held_data, PMIX_SUCCESS);
    return answer_op(callback, data, PMIX_SUCCESS);
}

static pmix_server_module_t module = {.publish = up_publish};

static int host(void)
{
    int ends[2];
    CHECK_NUMBER(0, pipe(ends));
    CHECK_NUMBER(ENTERED, dup2(ends[0], ENTERED));
    entered = ends[1];
    host_start(&module);
    host_run("cancelled", 1, 1, "cancelled");
    host_forget("cancelled");
    host_stop();
    return finish();
}

/* ---- The client. */
static pmix_info_t held_info, other_info;

static pmix_status_t published;

static void *publish_held(void *type)
{
    CHECK_NUMBER(0, pthread_setcanceltype(*(int *)type, NULL));
    published = PMIx_Publish(&held_info, 1);
    pthread_testcancel();
    return NULL;
}

static int client(void)
{
    int types[] = {PTHREAD_CANCEL_DEFERRED, PTHREAD_CANCEL_ASYNCHRONOUS};
    char byte;

    client_start();
    PMIX_INFO_LOAD(&held_info, "held", "x", PMIX_STRING);
    PMIX_INFO_LOAD(&other_info, "other", "x", PMIX_STRING);
    /* Stock waits in a function that ends the thread at once, and keeps its locks. */
    for (int i = 0; !stock() && i < 2; i++) {
        pthread_t thread;
        void *result = NULL;
        published = PMIX_ERROR;
        CHECK_NUMBER(0, pthread_create(&thread, NULL, publish_held, &types[i]));
        CHECK_NUMBER(1, read(ENTERED, &byte, 1));
        CHECK_NUMBER(0, pthread_cancel(thread));
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Publish(&other_info, 1));
        CHECK_NUMBER(0, pthread_join(thread, &result));
        CHECK(result == PTHREAD_CANCELED);
        /* A thread of the asynchronous type ends in the function, after its work. */
        CHECK_STATUS(types[i] == PTHREAD_CANCEL_DEFERRED ? PMIX_SUCCESS : PMIX_ERROR, published);
    }
    PMIX_INFO_DESTRUCT(&held_info);
    PMIX_INFO_DESTRUCT(&other_info);
    fence_all(true);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    return finish();
}

int main(int argc, char **argv)
{
    (void)argv;
    return argc > 1 ? client() : host();
}
