/*
 * Simulated nodes with different PMIx libraries: one server process per node, each with its own clients, all of one job.
 * The driver is the hosts' network: it carries what the servers exchange (fences, direct modex) and looks into nothing.
 *
 * usage: mixed_nodes CLIENTS-PER-NODE DIRECTORY...
 *
 * One node for each directory; its server and its clients find libpmix.so.2 there ("": the system's). A variable may
 * follow behind a comma: DIRECTORY,NAME=VALUE. Every client checks every value it gets and says what it saw:
 *
 *     node N library PATH        by each server and each client
 *     rank R keys K1 K2 ...      all that Get without a key gives of the next rank elsewhere
 *     rank R checked COUNT       at the end
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pmix.h>
#include <pmix_server.h>

extern char **environ;

#define JOB "mixed"
#define NODES_MAX 16
#define OPERATIONS_MAX 64

static int nodes, per_node, node, rank, checked;

static void fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "node %d rank %d: ", node, rank);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    exit(3);
}

static void must(const char *what, pmix_status_t status)
{
    if (PMIX_SUCCESS != status && PMIX_OPERATION_SUCCEEDED != status)
        fail("%s: %s (%d)", what, PMIx_Error_string(status), status);
}

/* As PMIx_Info_load, which release 3.2 has under its internal name only. */
static void load(pmix_info_t *info, const char *key, const void *data, pmix_data_type_t type)
{
    pmix_status_t (*whole)(pmix_info_t *, const char *, const void *, pmix_data_type_t) =
        dlsym(RTLD_DEFAULT, "PMIx_Info_load");
    void (*value)(pmix_value_t *, const void *, pmix_data_type_t) = dlsym(RTLD_DEFAULT, "pmix_value_load");
    memset(info, 0, sizeof *info);
    if (NULL != whole) {
        must(key, whole(info, key, data, type));
        return;
    }
    strncpy(info->key, key, PMIX_MAX_KEYLEN);
    value(&info->value, data, type);
}

static void say_library(const void *function)
{
    Dl_info info;
    if (0 == dladdr(function, &info))
        fail("no library");
    printf("node %d library %s\n", node, info.dli_fname);
    fflush(stdout);
}

static char *text(const char *format, ...)
{
    char *s;
    va_list args;
    va_start(args, format);
    if (vasprintf(&s, format, args) < 0)
        fail("out of memory");
    va_end(args);
    return s;
}

/* ---------------------------------------------------------------- messages between driver and servers */
enum { FENCE, FENCED, WANT, FETCHED };

struct header {
    uint32_t kind, from, status, rank;
    uint64_t id, size;
};

static int read_all(int fd, void *data, size_t size)
{
    for (char *at = data; size > 0;) {
        ssize_t n = read(fd, at, size);
        if (n < 0 && EINTR == errno)
            continue;
        if (n <= 0)
            return 0;
        at += n;
        size -= (size_t)n;
    }
    return 1;
}

static void write_all(int fd, const void *data, size_t size)
{
    for (const char *at = data; size > 0;) {
        ssize_t n = write(fd, at, size);
        if (n < 0 && EINTR == errno)
            continue;
        if (n <= 0)
            return;
        at += n;
        size -= (size_t)n;
    }
}

static void post(int fd, struct header header, const void *data)
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&one);
    write_all(fd, &header, sizeof header);
    write_all(fd, data, header.size);
    pthread_mutex_unlock(&one);
}

/* ---------------------------------------------------------------- the driver */
static struct {
    int arrived;
    char *data[NODES_MAX];
    size_t size[NODES_MAX];
} fences[OPERATIONS_MAX];

/* Everybody's part, beginning with another node each time: servers must not rely on an order. */
static void end_fence(uint64_t id, const int *fd)
{
    struct header done = {.kind = FENCED, .id = id};
    size_t at = 0;
    for (int i = 0; i < nodes; i++)
        done.size += fences[id].size[i];
    char *all = malloc(done.size + 1);
    for (int i = 0; i < nodes; i++) {
        int part = (int)((id + (uint64_t)i) % (uint64_t)nodes);
        if (fences[id].size[part] > 0)
            memcpy(all + at, fences[id].data[part], fences[id].size[part]);
        at += fences[id].size[part];
    }
    for (int i = 0; i < nodes; i++)
        post(fd[i], done, all);
    free(all);
}

static int carry(int from, const int *fd)
{
    struct header header;
    if (!read_all(fd[from], &header, sizeof header))
        return 0;
    char *data = malloc(header.size + 1);
    if (!read_all(fd[from], data, header.size))
        return 0;
    header.from = FETCHED == header.kind ? header.from : (uint32_t)from;
    switch (header.kind) {
    case FENCE:
        if (header.id >= OPERATIONS_MAX)
            fail("too many fences");
        fences[header.id].data[from] = data;
        fences[header.id].size[from] = header.size;
        if (++fences[header.id].arrived == nodes)
            end_fence(header.id, fd);
        return 1;
    case WANT:
        post(fd[header.rank / (uint32_t)per_node], header, data);
        break;
    case FETCHED:
        post(fd[header.from], header, data);
        break;
    }
    free(data);
    return 1;
}

/* Runs this program as a server, with the library that a node's word names. */
static pid_t start(const char *self, int fd, int number, char **words)
{
    pid_t pid = fork();
    if (0 != pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    char *word = strdup(words[number]), *next;
    char *directory = strsep(&word, ",");
    if ('\0' != directory[0])
        setenv("LD_LIBRARY_PATH", directory, 1);
    while (NULL != (next = strsep(&word, ",")))
        putenv(next);
    char *arguments[] = {(char *)self, "server", text("%d", dup(fd)), text("%d", number), text("%d", nodes),
                         text("%d", per_node), NULL};
    execv(self, arguments);
    _exit(127);
}

static int drive(const char *self, char **words)
{
    int fd[NODES_MAX], pair[2], failed = 0;
    pid_t pids[NODES_MAX];
    struct pollfd ready[NODES_MAX];
    for (int i = 0; i < nodes; i++) {
        if (0 != socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
            fail("socketpair");
        pids[i] = start(self, pair[1], i, words);
        close(pair[1]);
        fd[i] = pair[0];
        ready[i] = (struct pollfd){.fd = pair[0], .events = POLLIN};
    }
    for (int open = nodes; open > 0;) {
        poll(ready, (nfds_t)nodes, -1);
        for (int i = 0; i < nodes; i++) {
            if (ready[i].fd < 0 || 0 == ready[i].revents || carry(i, fd))
                continue;
            int status = 0;
            ready[i].fd = -1;
            open--;
            waitpid(pids[i], &status, 0);
            if (!WIFEXITED(status) || 0 != WEXITSTATUS(status)) {
                fprintf(stderr, "the server of node %d ended with status 0x%x\n", i, status);
                failed = 1;
            }
        }
        /* The others would wait for it for ever. */
        for (int i = 0; failed && i < nodes; i++)
            if (ready[i].fd >= 0)
                kill(-pids[i], SIGKILL);
    }
    return failed;
}

/* ---------------------------------------------------------------- a node's server */
static int network;
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static uint64_t fence_count, want_count;
static struct answer {
    pmix_modex_cbfunc_t function;
    void *data;
} fence_answers[OPERATIONS_MAX], want_answers[4096];

static pmix_status_t on_connected(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *data)
{
    (void)proc, (void)object, (void)done, (void)data;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo,
                              char *bytes, size_t size, pmix_modex_cbfunc_t done, void *data)
{
    (void)procs, (void)nprocs, (void)info, (void)ninfo;
    pthread_mutex_lock(&table);
    struct header header = {.kind = FENCE, .id = fence_count++, .size = size};
    if (header.id >= OPERATIONS_MAX)
        fail("too many fences");
    fence_answers[header.id] = (struct answer){done, data};
    pthread_mutex_unlock(&table);
    post(network, header, bytes);
    free(bytes);
    return PMIX_SUCCESS;
}

static pmix_status_t on_direct_modex(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                                     pmix_modex_cbfunc_t done, void *data)
{
    (void)info, (void)ninfo;
    pthread_mutex_lock(&table);
    struct header header = {.kind = WANT, .id = want_count++ % 4096, .rank = proc->rank, .size = 0};
    want_answers[header.id] = (struct answer){done, data};
    pthread_mutex_unlock(&table);
    post(network, header, NULL);
    return PMIX_SUCCESS;
}

static void on_data(pmix_status_t status, char *bytes, size_t size, void *data)
{
    struct header *header = data;
    header->kind = FETCHED;
    header->status = (uint32_t)status;
    header->size = PMIX_SUCCESS == status ? size : 0;
    post(network, *header, bytes);
    free(header);
}

static void *listen_to_network(void *unused)
{
    struct header header;
    (void)unused;
    while (read_all(network, &header, sizeof header)) {
        char *bytes = malloc(header.size + 1);
        if (!read_all(network, bytes, header.size))
            break;
        if (WANT == header.kind) {
            pmix_proc_t proc;
            struct header *kept = malloc(sizeof *kept);
            *kept = header;
            PMIX_LOAD_PROCID(&proc, JOB, header.rank);
            pmix_status_t status = PMIx_server_dmodex_request(&proc, on_data, kept);
            if (PMIX_SUCCESS != status)
                on_data(status, NULL, 0, kept);
            free(bytes);
            continue;
        }
        pthread_mutex_lock(&table);
        struct answer answer = FENCED == header.kind ? fence_answers[header.id] : want_answers[header.id];
        pthread_mutex_unlock(&table);
        answer.function((pmix_status_t)header.status, bytes, header.size, answer.data, free, bytes);
    }
    return NULL;
}

static void add(pmix_info_t **infos, size_t *count, const char *key, const void *value, pmix_data_type_t type)
{
    *infos = realloc(*infos, (*count + 1) * sizeof **infos);
    load(&(*infos)[(*count)++], key, value, type);
}

struct step {
    pthread_mutex_t lock;
    pthread_cond_t done;
    int is_done;
    pmix_status_t status;
};

static void on_step(pmix_status_t status, void *data)
{
    struct step *step = data;
    pthread_mutex_lock(&step->lock);
    step->is_done = 1;
    step->status = status;
    pthread_cond_signal(&step->done);
    pthread_mutex_unlock(&step->lock);
}

static void wait_for(const char *what, struct step *step, pmix_status_t status)
{
    must(what, status);
    if (PMIX_OPERATION_SUCCEEDED == status)
        return;
    pthread_mutex_lock(&step->lock);
    while (!step->is_done)
        pthread_cond_wait(&step->done, &step->lock);
    pthread_mutex_unlock(&step->lock);
    must(what, step->status);
}

#define STEP {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0}

static void describe_job(void)
{
    pmix_info_t *job = NULL;
    size_t count = 0;
    uint32_t size = (uint32_t)(nodes * per_node), local = (uint32_t)per_node, node_count = (uint32_t)nodes;
    char *names = text("mixnode0"), *ranks = text(""), *map, *peers = text("");
    for (int i = 1; i < nodes; i++)
        names = text("%s,mixnode%d", names, i);
    for (int r = 0; r < nodes * per_node; r++) {
        const char *between = 0 == r ? "" : 0 == r % per_node ? ";" : ",";
        ranks = text("%s%s%d", ranks, between, r);
        if (r / per_node == node)
            peers = text("%s%s%d", peers, 0 == r % per_node ? "" : ",", r);
    }
    must("generate_regex", PMIx_generate_regex(names, &map));
    add(&job, &count, PMIX_NODE_MAP, map, PMIX_REGEX);
    must("generate_ppn", PMIx_generate_ppn(ranks, &map));
    add(&job, &count, PMIX_PROC_MAP, map, PMIX_REGEX);
    add(&job, &count, PMIX_JOBID, "mixed.1", PMIX_STRING);
    add(&job, &count, PMIX_JOB_SIZE, &size, PMIX_UINT32);
    add(&job, &count, PMIX_UNIV_SIZE, &size, PMIX_UINT32);
    add(&job, &count, PMIX_MAX_PROCS, &size, PMIX_UINT32);
    add(&job, &count, PMIX_NUM_NODES, &node_count, PMIX_UINT32);
    add(&job, &count, PMIX_LOCAL_SIZE, &local, PMIX_UINT32);
    add(&job, &count, PMIX_LOCAL_PEERS, peers, PMIX_STRING);
    for (int r = 0; r < nodes * per_node; r++) {
        pmix_data_array_t array = {.type = PMIX_INFO};
        pmix_info_t *proc = NULL;
        pmix_rank_t number = (pmix_rank_t)r;
        uint16_t local_rank = (uint16_t)(r % per_node);
        uint32_t on = (uint32_t)(r / per_node);
        add(&proc, &array.size, PMIX_RANK, &number, PMIX_PROC_RANK);
        add(&proc, &array.size, PMIX_LOCAL_RANK, &local_rank, PMIX_UINT16);
        add(&proc, &array.size, PMIX_NODEID, &on, PMIX_UINT32);
        add(&proc, &array.size, PMIX_HOSTNAME, text("mixnode%u", on), PMIX_STRING);
        array.array = proc;
        add(&job, &count, PMIX_PROC_INFO_ARRAY, &array, PMIX_DATA_ARRAY);
    }
    struct step registered = STEP;
    wait_for("register_nspace", &registered,
             PMIx_server_register_nspace(JOB, per_node, job, count, on_step, &registered));
    for (int i = 0; i < per_node; i++) {
        struct step admitted = STEP;
        pmix_proc_t proc;
        PMIX_LOAD_PROCID(&proc, JOB, (pmix_rank_t)(node * per_node + i));
        wait_for("register_client", &admitted,
                 PMIx_server_register_client(&proc, getuid(), getgid(), NULL, on_step, &admitted));
    }
}

static pid_t start_client(const char *self, int number)
{
    char **environment = NULL;
    pmix_status_t added;
    pmix_proc_t proc;
    for (char **variable = environ; NULL != *variable; variable++) {
        PMIX_ARGV_APPEND(added, environment, *variable);
        must("environment", added);
    }
    PMIX_LOAD_PROCID(&proc, JOB, (pmix_rank_t)number);
    must("setup_fork", PMIx_server_setup_fork(&proc, &environment));
    pid_t pid = fork();
    if (0 != pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    char *arguments[] = {(char *)self, "client", text("%d", number), text("%d", node), text("%d", nodes),
                         text("%d", per_node), NULL};
    execve(self, arguments, environment);
    _exit(127);
}

static int serve(const char *self)
{
    /* Newer libraries have longer modules. */
    static union {
        pmix_server_module_t module;
        char room[2048];
    } host;
    host.module.client_connected = on_connected;
    host.module.client_finalized = on_connected;
    host.module.fence_nb = on_fence;
    host.module.direct_modex = on_direct_modex;
    pmix_info_t *infos = NULL;
    size_t count = 0;
    pmix_rank_t number = (pmix_rank_t)node;
    uint32_t id = (uint32_t)node;
    char *directory = text("%s/node%d", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", node);
    mkdir(directory, 0700);
    add(&infos, &count, PMIX_SERVER_TMPDIR, directory, PMIX_STRING);
    add(&infos, &count, PMIX_SYSTEM_TMPDIR, directory, PMIX_STRING);
    add(&infos, &count, PMIX_SERVER_NSPACE, "mixedserver", PMIX_STRING);
    add(&infos, &count, PMIX_SERVER_RANK, &number, PMIX_PROC_RANK);
    add(&infos, &count, PMIX_HOSTNAME, text("mixnode%d", node), PMIX_STRING);
    add(&infos, &count, PMIX_NODEID, &id, PMIX_UINT32);
    must("server_init", PMIx_server_init(&host.module, infos, count));
    say_library((void *)PMIx_server_init);
    pthread_t thread;
    pthread_create(&thread, NULL, listen_to_network, NULL);
    describe_job();
    pid_t pids[64];
    for (int i = 0; i < per_node; i++)
        pids[i] = start_client(self, node * per_node + i);
    for (int i = 0; i < per_node; i++) {
        int status;
        pid_t ended = wait(&status);
        if (!WIFEXITED(status) || 0 != WEXITSTATUS(status)) {
            fprintf(stderr, "node %d: a client ended with status 0x%x\n", node, status);
            for (int k = 0; k < per_node; k++)
                if (pids[k] != ended)
                    kill(pids[k], SIGKILL);
            return 4;
        }
    }
    must("server_finalize", PMIx_server_finalize());
    return 0;
}

/* ---------------------------------------------------------------- a client */
#define BYTES 5000
#define LONG 6000

/* What rank OF posts under a key in a round; every process knows it of every other. */
static void expected(const char *key, int of, int round, pmix_value_t *value)
{
    memset(value, 0, sizeof *value);
    if (0 == strcmp(key, "g.number")) {
        value->type = PMIX_UINT32;
        value->data.uint32 = 0xdead0000u + (uint32_t)(of * 100 + round);
    } else if (0 == strcmp(key, "g.size")) {
        value->type = PMIX_SIZE;
        value->data.size = ((size_t)1 << 40) + (size_t)of;
    } else if (0 == strcmp(key, "g.float")) {
        value->type = PMIX_DOUBLE;
        value->data.dval = of + 0.25;
    } else if (0 == strcmp(key, "g.proc")) {
        value->type = PMIX_PROC;
        value->data.proc = calloc(1, sizeof(pmix_proc_t));
        PMIX_LOAD_PROCID(value->data.proc, JOB, (pmix_rank_t)of);
    } else if (0 == strcmp(key, "g.array")) {
        uint64_t *numbers = calloc(3, sizeof *numbers);
        for (int i = 0; i < 3; i++)
            numbers[i] = (uint64_t)of << (20 * i);
        value->type = PMIX_DATA_ARRAY;
        value->data.darray = calloc(1, sizeof(pmix_data_array_t));
        *value->data.darray = (pmix_data_array_t){.type = PMIX_UINT64, .size = 3, .array = numbers};
    } else if (0 == strcmp(key, "r.bytes")) {
        value->type = PMIX_BYTE_OBJECT;
        value->data.bo.size = BYTES;
        value->data.bo.bytes = malloc(BYTES);
        uint32_t state = (uint32_t)of * 7919u + 1;
        for (int i = 0; i < BYTES; i++)
            value->data.bo.bytes[i] = (char)((state = state * 1664525u + 1013904223u) >> 24);
    } else if (0 == strcmp(key, "r.long")) {
        /* Long enough for OpenPMIx to compress it. */
        value->type = PMIX_STRING;
        value->data.string = malloc(LONG + 1);
        for (int i = 0; i < LONG; i++)
            value->data.string[i] = (char)('a' + (i / 100 + of) % 26);
        value->data.string[LONG] = '\0';
    } else {
        value->type = PMIX_STRING;
        value->data.string = text("%s of %d in round %d", key, of, round);
    }
}

static int is_same(const pmix_value_t *a, const pmix_value_t *b)
{
    if (a->type != b->type)
        return 0;
    switch (a->type) {
    case PMIX_UINT32:
        return a->data.uint32 == b->data.uint32;
    case PMIX_SIZE:
        return a->data.size == b->data.size;
    case PMIX_DOUBLE:
        return a->data.dval == b->data.dval;
    case PMIX_PROC:
        return PMIX_CHECK_PROCID(a->data.proc, b->data.proc);
    case PMIX_BYTE_OBJECT:
        return a->data.bo.size == b->data.bo.size && 0 == memcmp(a->data.bo.bytes, b->data.bo.bytes, a->data.bo.size);
    case PMIX_STRING:
        return 0 == strcmp(a->data.string, b->data.string);
    case PMIX_DATA_ARRAY:
        return a->data.darray->type == b->data.darray->type && a->data.darray->size == b->data.darray->size &&
               0 == memcmp(a->data.darray->array, b->data.darray->array, a->data.darray->size * sizeof(uint64_t));
    default:
        return 0;
    }
}

static void put(pmix_scope_t scope, const char *key, int round)
{
    pmix_value_t value;
    expected(key, rank, round, &value);
    must(key, PMIx_Put(scope, key, &value));
}

static void check(const char *key, int of, int round)
{
    pmix_value_t want, *found = NULL;
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, JOB, (pmix_rank_t)of);
    expected(key, of, round, &want);
    pmix_status_t status = PMIx_Get(&proc, key, NULL, 0, &found);
    if (PMIX_SUCCESS != status)
        fail("%s of %d: %s (%d)", key, of, PMIx_Error_string(status), status);
    /* 5.0 and 6.1 hand long strings over as they were compressed on the way, and so do stock clients of theirs. */
    if (PMIX_COMPRESSED_STRING == found->type && NULL != getenv("STAYS_COMPRESSED"))
        return;
    if (!is_same(found, &want))
        fail("%s of %d in round %d: another value, of type %d", key, of, round, found->type);
    checked++;
}

static void check_missing(const char *key, int of)
{
    pmix_value_t *found = NULL;
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, JOB, (pmix_rank_t)of);
    pmix_status_t status = PMIx_Get(&proc, key, NULL, 0, &found);
    if (PMIX_ERR_NOT_FOUND != status)
        fail("%s of %d: %s (%d), not \"not found\"", key, of, PMIx_Error_string(status), status);
    checked++;
}

static void fence(int collect, const pmix_proc_t *procs, size_t count)
{
    pmix_info_t info;
    bool yes = true;
    load(&info, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    must("fence", PMIx_Fence(procs, count, collect ? &info : NULL, collect ? 1 : 0));
}

/* Which of its keys a Get without one tells. */
static void say_keys(int of)
{
    pmix_value_t *found = NULL;
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, JOB, (pmix_rank_t)of);
    must("all keys", PMIx_Get(&proc, NULL, NULL, 0, &found));
    if (PMIX_DATA_ARRAY != found->type || PMIX_INFO != found->data.darray->type)
        fail("all keys of %d: type %d", of, found->type);
    const pmix_info_t *infos = found->data.darray->array;
    char *line = text("rank %d keys", rank);
    for (size_t i = 0; i < found->data.darray->size; i++)
        line = text("%s %s", line, infos[i].key);
    printf("%s\n", line);
    fflush(stdout);
}

/* Every rank waits for one of the node before it before it posts anything, so requests arrive before the data. */
static void chain(int size)
{
    if (node > 0)
        check("chain", rank - per_node, 0);
    put(PMIX_GLOBAL, "chain", 0);
    must("commit", PMIx_Commit());
    if (node == 0)
        check("chain", size - per_node + rank, 0);
}

static int work(void)
{
    static const char *const global[] = {"g.number", "g.text", "g.size", "g.float", "g.proc", "g.array"};
    static const char *const remote[] = {"r.bytes", "r.long"};
    int size = nodes * per_node;
    pmix_proc_t me, some[256];
    must("init", PMIx_Init(&me, NULL, 0));
    say_library((void *)PMIx_Init);
    if ((int)me.rank != rank)
        fail("is rank %u", me.rank);

    chain(size);

    /* A fence that collects. */
    for (size_t i = 0; i < sizeof global / sizeof *global; i++)
        put(PMIX_GLOBAL, global[i], 1);
    for (size_t i = 0; i < sizeof remote / sizeof *remote; i++)
        put(PMIX_REMOTE, remote[i], 1);
    put(PMIX_LOCAL, "l.text", 1);
    must("commit", PMIx_Commit());
    fence(1, NULL, 0);
    for (int of = 0; of < size; of++) {
        for (size_t i = 0; i < sizeof global / sizeof *global; i++)
            check(global[i], of, 1);
        if (of / per_node != node) {
            for (size_t i = 0; i < sizeof remote / sizeof *remote; i++)
                check(remote[i], of, 1);
            check_missing("l.text", of);
        } else {
            check("l.text", of, 1);
        }
    }
    say_keys((rank + per_node) % size);
    fence(0, NULL, 0);

    /* More of it, among some of the processes: data of the others stays where it is. */
    put(PMIX_GLOBAL, "some.text", 2);
    must("commit", PMIx_Commit());
    size_t count = 0;
    for (int of = 0; of < size; of++)
        if (0 != of % per_node) {
            PMIX_LOAD_PROCID(&some[count], JOB, (pmix_rank_t)of);
            count++;
        }
    if (0 != rank % per_node) {
        fence(1, some, count);
        for (int of = 0; of < size; of++)
            if (0 != of % per_node)
                check("some.text", of, 2);
    }

    /* Direct modex: of what is there, of what comes later, and of what nobody posts. */
    put(PMIX_REMOTE, "late.text", 3);
    put(PMIX_LOCAL, "late.local", 3);
    must("commit", PMIx_Commit());
    fence(0, NULL, 0);
    for (int of = 0; of < size; of++)
        if (of / per_node != node)
            check("late.text", of, 3);
        else
            check("late.local", of, 3);
    check_missing("never", (rank + per_node) % size);
    fence(0, NULL, 0);

    printf("rank %d checked %d\n", rank, checked);
    must("finalize", PMIx_Finalize(NULL, 0));
    return 0;
}

int main(int argc, char **argv)
{
    char *self = realpath("/proc/self/exe", NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    node = rank = -1;
    if (argc == 6 && 0 == strcmp(argv[1], "server")) {
        network = fcntl(atoi(argv[2]), F_DUPFD_CLOEXEC, 3);
        close(atoi(argv[2]));
        node = atoi(argv[3]);
        nodes = atoi(argv[4]);
        per_node = atoi(argv[5]);
        return serve(self);
    }
    if (argc == 6 && 0 == strcmp(argv[1], "client")) {
        rank = atoi(argv[2]);
        node = atoi(argv[3]);
        nodes = atoi(argv[4]);
        per_node = atoi(argv[5]);
        return work();
    }
    if (argc < 4 || argc - 2 > NODES_MAX) {
        fprintf(stderr, "usage: mixed_nodes CLIENTS-PER-NODE DIRECTORY DIRECTORY...\n");
        return 2;
    }
    per_node = atoi(argv[1]);
    nodes = argc - 2;
    return drive(self, argv + 2);
}
