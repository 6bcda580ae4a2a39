/* A gateway with static ports prepares launches: the processes of a job find their ports under the host's name for them. */
#include "host.h"

#define NETWORK "my.ports"

/* Asks for one port of a process, and sets up a job of two processes on this node with the answer. */
static void prepare(const char *nspace, const char *type, bool is_required, pmix_status_t expected)
{
    char host[256] = "";
    pmix_info_t info[3];
    pmix_data_array_t *wish;
    size_t one = 1;

    gethostname(host, sizeof host - 1);
    PMIX_DATA_ARRAY_CREATE(wish, 3, PMIX_INFO);
    pmix_info_t *parts = wish->array;
    PMIX_INFO_LOAD(&parts[0], "pmix.alloc.netid", NETWORK, PMIX_STRING);
    PMIX_INFO_LOAD(&parts[1], "pmix.alloc.nettype", type, PMIX_STRING);
    PMIX_INFO_LOAD(&parts[2], "pmix.alloc.endpts", &one, PMIX_SIZE);
    PMIX_INFO_LOAD(&info[2], "pmix.alloc.net", wish, PMIX_DATA_ARRAY);
    if (is_required) info[2].flags |= PMIX_INFO_REQD;
    PMIX_DATA_ARRAY_FREE(wish);
    host_set_up(nspace, host, "0,1", info, 3, expected);
}

/* The name and the ports first, and then what of the request was granted. */
static int client(const char *ports)
{
    pmix_value_t *value = NULL;
    bool at_once = true;
    pmix_info_t directive;

    client_start();
    pmix_proc_t job = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    if (strcmp(ports, "none") == 0) {
        PMIX_INFO_LOAD(&directive, PMIX_IMMEDIATE, &at_once, PMIX_BOOL);
        CHECK_STATUS(PMIX_ERR_NOT_FOUND, PMIx_Get(&job, NETWORK, &directive, 1, &value));
        PMIX_INFO_DESTRUCT(&directive);
        return client_end();
    }
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Get(&job, NETWORK, NULL, 0, &value));
    CHECK(value && value->type == PMIX_DATA_ARRAY);
    if (value && value->type == PMIX_DATA_ARRAY) {
        const pmix_info_t *infos = value->data.darray->array;
        size_t count = value->data.darray->size;
        const pmix_info_t *type = info_of(infos, count, "pmix.alloc.nettype");
        const pmix_info_t *plane = info_of(infos, count, "pmix.alloc.netplane");
        CHECK_NUMBER(4, count);
        CHECK_TEXT(NETWORK, infos[0].key);
        CHECK_TEXT(ports, infos[0].value.data.string);
        CHECK_TEXT("tcp", type ? type->value.data.string : NULL);
        CHECK_TEXT("10.0.0.0/8", plane ? plane->value.data.string : NULL);
    }
    if (value) PMIX_VALUE_RELEASE(value);
    return client_end();
}

static int host(void)
{
    static pmix_server_module_t module;
    pmix_info_t info;
    bool yes = true;

    if (stock()) return host_idle(); /* the component for ports is not built */
    setenv("PMIX_MCA_pnet", "tcp", 1);
    PMIX_INFO_LOAD(&info, PMIX_SERVER_GATEWAY, &yes, PMIX_BOOL);
    setenv("PMIX_MCA_pnet_tcp_static_ports", "tcp:41003-41000", 1);
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_server_init(&module, &info, 1));
    setenv("PMIX_MCA_pnet_tcp_static_ports", "udp:9;tcp:10.0.0.0/8:41000,41001-41004", 1);
    host_start_with(&module, &info, 1);
    prepare("first", "tcp", true, PMIX_SUCCESS);
    prepare("second", "tcp", true, PMIX_SUCCESS);
    /* One port is left. Only a job that needs two is refused. */
    prepare("third", "tcp", true, PMIX_ERR_OUT_OF_RESOURCE);
    prepare("third", "tcp", false, PMIX_SUCCESS);
    host_run("first", 2, 2, "41000,41001");
    host_run("second", 2, 2, "41002,41003");
    host_run("third", 2, 2, "none");
    /* The ports of an ended job are free again. */
    host_forget("first");
    prepare("fourth", "tcp", true, PMIX_SUCCESS);
    host_run("fourth", 2, 2, "41000,41001");
    host_stop();
    return finish();
}

int main(int argc, char **argv) { return argc == 1 ? host() : client(argv[1]); }
