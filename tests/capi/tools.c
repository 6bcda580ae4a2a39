/* Servers and their tools: roles that need no PMIX_SERVER_TOOL_SUPPORT, the logs of a gateway, servers that a file of
 * parameters names, and servers that end and start again. Each tool and each such server is this program again. */
#include "host.h"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* Names that 4.2.2 does not have. */
#define SYS_CONTROLLER "pmix.srv.ctrlr"
#define TO_SYS_CONTROLLER "pmix.cnct.ctrlr"
#define AVAILABLE_SERVERS "pmix.qry.asrvrs"
#define TO_SCHEDULER "pmix.cnct.sched"

/* ---- The log of the system is a socket of the test: the library connects to /dev/log. */
static char log_socket[sizeof host_directory + 8];

int connect(int fd, const struct sockaddr *address, socklen_t size)
{
    int (*real)(int, const struct sockaddr *, socklen_t) =
        (int (*)(int, const struct sockaddr *, socklen_t))(uintptr_t)dlsym(RTLD_NEXT, "connect");
    const struct sockaddr_un *place = (const struct sockaddr_un *)(const void *)address;
    struct sockaddr_un instead = {.sun_family = AF_UNIX};

    if (!log_socket[0] || address->sa_family != AF_UNIX || strcmp(place->sun_path, "/dev/log")) return real(fd, address, size);
    strcpy(instead.sun_path, log_socket);
    return real(fd, (const struct sockaddr *)(const void *)&instead, sizeof instead);
}

static int log_open(void)
{
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);

    snprintf(log_socket, sizeof log_socket, "%s/log", host_directory);
    strcpy(place.sun_path, log_socket);
    CHECK_NUMBER(0, bind(fd, (const struct sockaddr *)(const void *)&place, sizeof place));
    return fd;
}

/* The next message without its head, or an empty text. */
static const char *log_next(int fd)
{
    static char text[256];
    ssize_t size = recv(fd, text, sizeof text - 1, 0);

    text[size > 0 ? size : 0] = 0;
    char *head = strstr(text, "]: ");
    return head ? head + 3 : text;
}

static pmix_status_t log_text(const char *channel, const char *text, bool is_required)
{
    pmix_info_t info;
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, channel, text, PMIX_STRING);
    if (is_required) info.flags = PMIX_INFO_REQD;
    pmix_status_t status = PMIx_Log(&info, 1, NULL, 0);
    PMIX_INFO_DESTRUCT(&info);
    return status;
}

/* ---- A tool: connects as its argument says, and logs. The exit code has a bit for each success. */
static size_t places(pmix_info_t *info)
{
    PMIX_INFO_LOAD(&info[0], PMIX_SERVER_TMPDIR, getenv("PLACE"), PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_SYSTEM_TMPDIR, getenv("PLACE"), PMIX_STRING);
    return 2;
}

static int tool(const char *key)
{
    pmix_info_t info[4];
    size_t count = places(info);

    PMIX_INFO_LOAD(&info[count], PMIX_TOOL_NSPACE, "tool", PMIX_STRING);
    count++;
    if (strncmp(key, "uri:", 4) == 0) {
        PMIX_INFO_LOAD(&info[count], PMIX_SERVER_URI, key + 4, PMIX_STRING);
        count++;
    } else if (strcmp(key, "search")) {
        PMIX_INFO_LOAD(&info[count], key, NULL, PMIX_BOOL);
        count++;
    }
    pmix_status_t status = PMIx_tool_init(&me, info, count);
    for (size_t i = 0; i < count; i++) PMIX_INFO_DESTRUCT(&info[i]);
    if (status != PMIX_SUCCESS) return 0;
    int result = 1;
    if (log_text(PMIX_LOG_GLOBAL_SYSLOG, "of the tool", true) == PMIX_SUCCESS) result |= 2;
    if (log_text(PMIX_LOG_EMAIL, "of the tool", false) == PMIX_ERR_NOT_SUPPORTED) result |= 4;
    if (log_text(PMIX_LOG_STDOUT, "for all\n", true) == PMIX_SUCCESS) result |= 8;
    return PMIx_tool_finalize() == PMIX_SUCCESS ? result : 64;
}

static int files_with(const char *part)
{
    DIR *directory = opendir(host_directory);
    struct dirent *entry;
    int count = 0;

    while ((entry = readdir(directory))) count += strstr(entry->d_name, part) != NULL;
    closedir(directory);
    return count;
}

/* ---- Regression: a server with a role wrote no file and refused tools unless the host asked for tools as well. */
static void role(const char *key, const char *part, const char *connect_by, bool is_required)
{
    pmix_server_module_t none;
    pmix_info_t info;

    memset(&none, 0, sizeof none);
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, key, NULL, PMIX_BOOL);
    if (is_required) info.flags = PMIX_INFO_REQD;
    host_start_with(&none, &info, 1);
    printf("role %s\n", key);
    CHECK_NUMBER(1, files_with(part));
    int result = host_run_tool(connect_by);
    CHECK_NUMBER(1, result & 1);
    host_stop();
}

static void without_a_role(void)
{
    pmix_server_module_t none;
    pmix_info_t info[2];
    bool no = false;

    memset(&none, 0, sizeof none);
    host_start(&none);
    CHECK_NUMBER(0, files_with("pmix."));
    CHECK_NUMBER(0, host_run_tool("search"));
    host_stop();
    /* A host that refuses tools is obeyed. */
    PMIX_INFO_LOAD(&info[0], PMIX_SERVER_SYSTEM_SUPPORT, NULL, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_SERVER_TOOL_SUPPORT, &no, PMIX_BOOL);
    host_start_with(&none, info, 2);
    CHECK_NUMBER(0, files_with("pmix."));
    /* A further initialization gives the server no role. */
    info[0].flags = PMIX_INFO_REQD;
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_server_init(&none, info, 2));
    info[1].value.data.flag = true;
    info[1].flags = PMIX_INFO_REQD;
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, PMIx_server_init(&none, &info[1], 1));
    info[1].value.data.flag = false;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_init(&none, &info[1], 1));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_server_finalize());
    host_stop();
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, PMIx_server_init(&none, info, 2));
    CHECK_STATUS(PMIX_ERR_INIT, PMIx_server_finalize());
}

static void gateway(bool is_gateway)
{
    pmix_server_module_t none;
    pmix_info_t info;

    memset(&none, 0, sizeof none);
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, is_gateway ? PMIX_SERVER_GATEWAY : PMIX_SERVER_TOOL_SUPPORT, NULL, PMIX_BOOL);
    info.flags = PMIX_INFO_REQD;
    host_start_with(&none, &info, 1);
    int fd = log_open();
    /* The server's own log, then that of a tool. */
    CHECK_STATUS(is_gateway ? PMIX_SUCCESS : PMIX_ERR_NOT_SUPPORTED, log_text(PMIX_LOG_GLOBAL_SYSLOG, "everywhere", true));
    CHECK_TEXT(is_gateway ? "capi-host:0: everywhere" : "", log_next(fd));
    CHECK_STATUS(PMIX_SUCCESS, log_text(PMIX_LOG_LOCAL_SYSLOG, "here", true));
    CHECK_TEXT("capi-host:0: here", log_next(fd));
    char text[32] = "";
    FILE *out = tmpfile();
    int before = dup(1);
    fflush(stdout);
    CHECK(out && dup2(fileno(out), 1) == 1);
    int result = host_run_tool("search");
    CHECK_TEXT(is_gateway ? "tool:0: of the tool" : "", log_next(fd));
    close(fd);
    unlink(log_socket);
    log_socket[0] = 0;
    host_stop();
    dup2(before, 1);
    close(before);
    CHECK_NUMBER(is_gateway ? 15 : 5, result);
    rewind(out);
    CHECK(fgets(text, sizeof text, out) || !is_gateway);
    CHECK_TEXT(is_gateway ? "for all\n" : "", text);
    fclose(out);
}

/* ---- A file of parameters names servers. The tools get the name instead of the address. */
static void named(void)
{
    pmix_server_module_t none;
    pmix_info_t info;
    char path[sizeof host_directory + 16];

    memset(&none, 0, sizeof none);
    PMIX_INFO_LOAD(&info, PMIX_SERVER_TOOL_SUPPORT, NULL, PMIX_BOOL);
    host_start_with(&none, &info, 1);
    pmix_proc_t self = proc_of("capi-host", 0);
    pmix_value_t *uri = get(&self, PMIX_SERVER_URI, PMIX_STRING);
    snprintf(path, sizeof path, "%s/named", host_directory);
    FILE *file = fopen(path, "w");
    CHECK(file && uri && fprintf(file, "modex_server_prod = %s\nmodex_server_bad = nonsense\n", uri->data.string) > 0);
    if (file) fclose(file);
    value_free(uri);
    setenv("PMIX_MCA_mca_base_param_files", path, 1);
    chmod(path, 0644);
    CHECK_NUMBER(1, host_run_tool("uri:prod") & 1);
    CHECK_NUMBER(0, host_run_tool("uri:bad"));
    CHECK_NUMBER(0, host_run_tool("uri:unknown"));
    chmod(path, 0666); /* others could have written it */
    CHECK_NUMBER(0, host_run_tool("uri:prod"));
    unsetenv("PMIX_MCA_mca_base_param_files");
    unlink(path);
    host_stop();
}

/* A code of this program. */
#define OWN_CODE 4711

/* ---- Servers that end and start again. Each is this program again, which names tools. */
static void name_tool(pmix_info_t *info, size_t count, pmix_tool_connection_cbfunc_t done, void *data)
{
    pmix_proc_t proc = proc_of("", 0);

    for (size_t i = 0; i < count; i++)
        if (PMIX_CHECK_KEY(&info[i], PMIX_NSPACE)) PMIX_LOAD_NSPACE(proc.nspace, info[i].value.data.string);
    if (!proc.nspace[0]) strcpy(proc.nspace, "assigned");
    done(PMIX_SUCCESS, &proc, data);
}

static int serve(const char *nspace)
{
    pmix_server_module_t module;
    pmix_info_t info[4];
    size_t count = places(info);

    memset(&module, 0, sizeof module);
    module.tool_connected = name_tool;
    sigset_t raise_event;
    sigemptyset(&raise_event);
    sigaddset(&raise_event, SIGUSR1);
    sigprocmask(SIG_BLOCK, &raise_event, NULL);
    PMIX_INFO_LOAD(&info[count], PMIX_SERVER_NSPACE, nspace, PMIX_STRING);
    count++;
    PMIX_INFO_LOAD(&info[count], PMIX_SERVER_TOOL_SUPPORT, NULL, PMIX_BOOL);
    count++;
    pmix_status_t status = PMIx_server_init(&module, info, count);
    for (size_t i = 0; i < count; i++) PMIX_INFO_DESTRUCT(&info[i]);
    if (write(1, status == PMIX_SUCCESS ? "+" : "-", 1) != 1) return 2;
    for (int got; sigwait(&raise_event, &got) == 0;)
        PMIx_Notify_event(OWN_CODE, NULL, PMIX_RANGE_LOCAL, NULL, 0, NULL, NULL);
    return 3;
}

static pid_t server_start(const char *nspace)
{
    char self[4096], ready = 0, role[64];
    const char *valgrinded = getenv("CAPI_PROGRAM");
    int ends[2];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

    self[length > 0 ? length : 0] = 0;
    CHECK_NUMBER(0, pipe(ends));
    snprintf(role, sizeof role, "serve:%s", nspace);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        execl(valgrinded ? valgrinded : self, "tools", role, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    CHECK_NUMBER(1, read(ends[0], &ready, 1));
    CHECK_NUMBER('+', ready);
    close(ends[0]);
    return pid;
}

static void server_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static pmix_status_t ask(void)
{
    pmix_query_t query;
    pmix_info_t *found = NULL;
    size_t count = 0;
    pmix_status_t status;

    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_QUERY_SUPPORTED_KEYS);
    status = PMIx_Query_info(&query, 1, &found, &count);
    if (found) PMIX_INFO_FREE(found, count);
    PMIX_QUERY_DESTRUCT(&query);
    return status;
}

/* The attached servers as "one two", or the status. */
static const char *servers(void)
{
    static char text[256];
    pmix_proc_t *found = NULL;
    size_t count = 0;
    pmix_status_t status = PMIx_tool_get_servers(&found, &count);

    text[0] = 0;
    for (size_t i = 0; i < count && i < 3; i++) {
        if (i) strcat(text, " ");
        strncat(text, found[i].nspace, 60);
    }
    free(found);
    if (status != PMIX_SUCCESS) snprintf(text, sizeof text, "%d", status);
    return text;
}

/* The number of servers that a tool without a server finds. */
static size_t available(void)
{
    pmix_query_t query;
    pmix_info_t *results = NULL;
    pmix_status_t append;
    size_t count = 0, found = 0;

    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(append, query.keys, AVAILABLE_SERVERS);
    CHECK_STATUS(PMIX_SUCCESS, append);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Query_info(&query, 1, &results, &count));
    if (count == 1 && results[0].value.type == PMIX_DATA_ARRAY) found = results[0].value.data.darray->size;
    PMIX_INFO_FREE(results, count);
    PMIX_QUERY_DESTRUCT(&query);
    return found;
}

static atomic_int losses;

static void lost(size_t handler, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *info, size_t ninfo,
                 pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void)handler, (void)status, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    atomic_fetch_add(&losses, 1);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static pmix_status_t attach(const char *nspace, bool is_connect)
{
    pmix_info_t info;
    pmix_proc_t name;

    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_SERVER_NSPACE, nspace, PMIX_STRING);
    pmix_status_t status = is_connect ? PMIx_tool_connect_to_server(&name, &info, 1)
                                      : PMIx_tool_attach_to_server(&name, NULL, &info, 1);
    PMIX_INFO_DESTRUCT(&info);
    if (status == PMIX_SUCCESS) CHECK_TEXT("assigned", name.nspace);
    return status;
}

/* A tool without a connection, beside two servers. */
static void start_beside_two(pid_t *first, pid_t *second)
{
    pmix_info_t info[3];

    strcpy(host_directory, "/tmp/capi-XXXXXX");
    if (!mkdtemp(host_directory)) exit(2);
    setenv("PLACE", host_directory, 1);
    *first = server_start("one"), *second = server_start("two");
    size_t count = places(info);
    PMIX_INFO_LOAD(&info[count], PMIX_TOOL_DO_NOT_CONNECT, NULL, PMIX_BOOL);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_init(&me, info, count + 1));
    for (size_t i = 0; i <= count; i++) PMIX_INFO_DESTRUCT(&info[i]);
}

/* Regression: a tool without a connection and a name had a name that no server knew. A server that had ended stayed in the
 * list, and an attach by its name returned the dead connection. */
static void restarts(void)
{
    char unreachable[16];
    pid_t first, second;
    pmix_status_t code = PMIX_ERR_LOST_CONNECTION;
    pmix_proc_t one = proc_of("one", 0);
    struct done listening = DONE;

    snprintf(unreachable, sizeof unreachable, "%d", PMIX_ERR_UNREACH);
    start_beside_two(&first, &second);
    CHECK_TEXT("", me.nspace);
    CHECK_NUMBER(PMIX_RANK_UNDEF, me.rank);
    CHECK_TEXT(unreachable, servers());
    CHECK_STATUS(PMIX_ERR_UNREACH, ask());
    CHECK(available() >= 2); /* others may run on this machine */
    CHECK_STATUS(PMIX_SUCCESS, attach("one", false));
    CHECK_STATUS(PMIX_SUCCESS, attach("two", false));
    CHECK_TEXT("one two", servers());
    PMIx_Register_event_handler(&code, 1, NULL, 0, lost, reg_done, &listening);
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&listening));
    CHECK_STATUS(PMIX_SUCCESS, ask());
    /* The primary server ends. */
    server_kill(first);
    CHECK_STATUS(PMIX_ERR_UNREACH, ask());
    CHECK_TEXT("two", servers());
    CHECK_STATUS(PMIX_ERR_UNREACH, PMIx_tool_set_server(&one, NULL, 0));
    CHECK_STATUS(PMIX_ERR_UNREACH, attach("one", false));
    while (atomic_load(&losses) == 0) usleep(1000);
    first = server_start("one");
    CHECK_STATUS(PMIX_SUCCESS, attach("one", false));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_set_server(&one, NULL, 0));
    CHECK_TEXT("one two", servers());
    CHECK_STATUS(PMIX_SUCCESS, ask());
    /* It ends and starts again without a call in between. */
    server_kill(first);
    first = server_start("one");
    CHECK_STATUS(PMIX_SUCCESS, attach("one", true));
    CHECK_STATUS(PMIX_SUCCESS, ask());
    CHECK_TEXT("one two", servers());
    server_kill(first);
    first = server_start("one");
    CHECK_STATUS(PMIX_SUCCESS, attach("one", false));
    CHECK_STATUS(PMIX_SUCCESS, ask());
    /* Another server than the primary one ends. */
    server_kill(second);
    CHECK_TEXT("one", servers());
    CHECK_STATUS(PMIX_SUCCESS, ask());
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_finalize());
    server_kill(first);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", host_directory);
    CHECK_NUMBER(0, system(command));
}

static atomic_int first_calls, second_calls;

static void first_handler(size_t handler, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *info, size_t ninfo,
                          pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void)handler, (void)status, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    atomic_fetch_add(&first_calls, 1);
    done(PMIX_EVENT_NO_ACTION_TAKEN, NULL, 0, NULL, NULL, data);
}

static void second_handler(size_t handler, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *info, size_t ninfo,
                           pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void)handler, (void)status, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    atomic_fetch_add(&second_calls, 1);
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void await(atomic_int *count, int expected)
{
    while (atomic_load(count) < expected) usleep(1000);
    CHECK_NUMBER(expected, atomic_load(count));
}

/* Regression: handlers belonged to the server that was the primary one at their registration. An event of another server, and one
 * of the process itself after an attach, reached none of them. Numbers of handlers were given twice. */
static void handlers_of_all_servers(void)
{
    pid_t first, second;
    pmix_status_t lost_code = PMIX_ERR_LOST_CONNECTION, code = OWN_CODE;
    pmix_proc_t two = proc_of("two", 0);

    start_beside_two(&first, &second);
    /* This handler is older than all connections. */
    atomic_store(&losses, 0);
    CHECK(PMIx_Register_event_handler(&lost_code, 1, NULL, 0, lost, NULL, NULL) >= 0);
    CHECK_STATUS(PMIX_SUCCESS, attach("one", false));
    int number = PMIx_Register_event_handler(&code, 1, NULL, 0, first_handler, NULL, NULL);
    CHECK_STATUS(PMIX_SUCCESS, attach("two", false));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_set_server(&two, NULL, 0));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Notify_event(OWN_CODE, NULL, PMIX_RANGE_PROC_LOCAL, NULL, 0, NULL, NULL));
    await(&first_calls, 1);
    /* Regression: PMIX_ERR_UNREACH for the tool's own name. The tool then has no server, and its connections stay. */
    pmix_proc_t self = proc_of("assigned", 0);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_set_server(&self, NULL, 0));
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_set_server(&two, NULL, 0));
    CHECK_TEXT("two one", servers());
    /* Events of a server that is not the primary one any more. */
    kill(first, SIGUSR1);
    await(&first_calls, 2);
    /* One chain: the newer handler ends it. */
    int newer = PMIx_Register_event_handler(&code, 1, NULL, 0, second_handler, NULL, NULL);
    CHECK(newer >= 0 && newer != number);
    await(&second_calls, 2); /* a new handler gets the recent events */
    kill(first, SIGUSR1);
    await(&second_calls, 3);
    kill(second, SIGUSR1);
    await(&second_calls, 4);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Deregister_event_handler((size_t)newer, NULL, NULL));
    kill(second, SIGUSR1);
    await(&first_calls, 3);
    CHECK_NUMBER(4, atomic_load(&second_calls));
    /* The end of the primary server, without a call of the tool. */
    server_kill(second);
    await(&losses, 1);
    kill(first, SIGUSR1);
    await(&first_calls, 4);
    CHECK_TEXT("one", servers());
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Notify_event(OWN_CODE, NULL, PMIX_RANGE_PROC_LOCAL, NULL, 0, NULL, NULL));
    await(&first_calls, 5);
    /* The tool leaves its oldest server. */
    second = server_start("two");
    CHECK_STATUS(PMIX_SUCCESS, attach("two", true));
    pmix_proc_t one = proc_of("one", 0);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_disconnect(&one));
    server_kill(second);
    await(&losses, 2);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_finalize());
    server_kill(first);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", host_directory);
    CHECK_NUMBER(0, system(command));
}

/* Regression: a launcher with a server did not find the address of the server inside it. */
static void own_address(void)
{
    pmix_info_t info[4];

    strcpy(host_directory, "/tmp/capi-XXXXXX");
    if (!mkdtemp(host_directory)) exit(2);
    setenv("PLACE", host_directory, 1);
    pid_t server = server_start("one");
    size_t count = places(info);
    PMIX_INFO_LOAD(&info[count], PMIX_SERVER_NSPACE, "one", PMIX_STRING);
    PMIX_INFO_LOAD(&info[count + 1], PMIX_LAUNCHER, NULL, PMIX_BOOL);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_init(&me, info, count + 2));
    for (size_t i = 0; i < count + 2; i++) PMIX_INFO_DESTRUCT(&info[i]);
    CHECK_TEXT("one", servers());
    pmix_value_t *uri = get(&me, PMIX_MYSERVER_URI, PMIX_STRING);
    CHECK(uri && strncmp(uri->data.string, me.nspace, strlen(me.nspace)) == 0);
    if (uri) value_free(uri);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_finalize());
    server_kill(server);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", host_directory);
    CHECK_NUMBER(0, system(command));
}

int main(int argc, char **argv)
{
    if (argc > 1 && strncmp(argv[1], "serve:", 6) == 0) return serve(argv[1] + 6);
    if (argc > 1) return tool(argv[1]);
    CHECK(PMIx_Get_version() != NULL);
    if (stock()) return finish(); /* 4.2.2 has no system controller, and its gateway writes to the real log */
    without_a_role();
    role(PMIX_SERVER_SYSTEM_SUPPORT, "pmix.sys.", PMIX_CONNECT_TO_SYSTEM, false);
    role(PMIX_SERVER_SYSTEM_SUPPORT, "pmix.sys.", PMIX_CONNECT_TO_SYSTEM, true);
    role(PMIX_SERVER_SESSION_SUPPORT, ".tool.capi-host", "search", true);
    role(PMIX_SERVER_SCHEDULER, "pmix.sched.", TO_SCHEDULER, true);
    role(SYS_CONTROLLER, "pmix.sysctrlr.", TO_SYS_CONTROLLER, true);
    gateway(false);
    gateway(true);
    named();
    restarts();
    handlers_of_all_servers();
    own_address();
    return finish();
}
