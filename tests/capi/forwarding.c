/* Standard input that the library reads and pushes, and output that a server writes itself. */
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>

/* ---- Pushes that the host gets. */
static pthread_mutex_t pushes_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t pushes_changed = PTHREAD_COND_INITIALIZER;
static char pushed[16384];
static char first_ranks[64], pushed_ranks[64]; /* of the first push, and of this one */
static int push_count, end_count;
static pmix_nspace_t pushed_to;
static bool answers_held;
static _Atomic pmix_status_t push_answer = PMIX_SUCCESS;
static struct answer *held;

static pmix_status_t up_push(const pmix_proc_t *source, const pmix_proc_t targets[], size_t ntargets,
                             const pmix_info_t info[], size_t ninfo, const pmix_byte_object_t *bo,
                             pmix_op_cbfunc_t callback, void *data)
{
    (void)source, (void)info, (void)ninfo;
    struct answer *answer = answer_new(give_op, data, push_answer);
    answer->call.op = callback;
    pthread_mutex_lock(&pushes_lock);
    push_count++;
    strcpy(pushed_to, targets[0].nspace);
    pushed_ranks[0] = 0;
    for (size_t i = 0; i < ntargets; i++) {
        size_t length = strlen(pushed_ranks);
        snprintf(pushed_ranks + length, sizeof pushed_ranks - length, "%d ", (int)targets[i].rank);
    }
    if (push_count > 1) CHECK_TEXT(first_ranks, pushed_ranks);
    else strcpy(first_ranks, pushed_ranks);
    if (!bo || bo->size == 0) {
        end_count++;
        answer->status = PMIX_ERR_IOF_COMPLETE; /* as PRRTE answers the end */
    } else if (strlen(pushed) + bo->size < sizeof pushed) {
        CHECK(bo->size <= 4096); /* the pieces of OpenPMIx, which PRRTE has room for */
        strncat(pushed, bo->bytes, bo->size);
    }
    bool hold = answers_held;
    if (hold) held = answer;
    pthread_cond_broadcast(&pushes_changed);
    pthread_mutex_unlock(&pushes_lock);
    if (!hold) answer_later(answer);
    return PMIX_SUCCESS;
}

static pmix_server_module_t module = {.push_stdin = up_push};

static void pushes_forget(void)
{
    pthread_mutex_lock(&pushes_lock);
    pushed[0] = 0;
    push_count = end_count = 0;
    pthread_mutex_unlock(&pushes_lock);
}

static void pushes_wait(const char *text, int ends)
{
    pthread_mutex_lock(&pushes_lock);
    while (strcmp(pushed, text) != 0 || end_count < ends) pthread_cond_wait(&pushes_changed, &pushes_lock);
    CHECK_NUMBER(ends, end_count);
    pthread_mutex_unlock(&pushes_lock);
}

static void pushes_hold(bool hold)
{
    pthread_mutex_lock(&pushes_lock);
    answers_held = hold;
    struct answer *due = hold ? NULL : held;
    held = hold ? held : NULL;
    pthread_mutex_unlock(&pushes_lock);
    if (due) answer_later(due);
}

/* Makes a pipe this process's standard input, and returns the end to write to. */
static int input_open(void)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0 || dup2(ends[0], 0) < 0) exit(2);
    close(ends[0]);
    return ends[1];
}

static int input_unread(void)
{
    int count = -1;
    CHECK(ioctl(0, FIONREAD, &count) == 0);
    return count;
}

static void say(int to, const char *text) { CHECK_NUMBER(strlen(text), write(to, text, strlen(text))); }

static pmix_status_t push_with(const char *nspace, const char *key, bool value)
{
    pmix_proc_t target = proc_of(nspace ? nspace : "", 0);
    pmix_info_t info;
    struct done done = DONE;

    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, key, &value, PMIX_BOOL);
    pmix_status_t status = PMIx_IOF_push(nspace ? &target : NULL, nspace ? 1 : 0, NULL, &info, 1, op_done, &done);
    PMIX_INFO_DESTRUCT(&info);
    return done_result(&done, status);
}

/* The library reads, one piece an answer, and pushes the end once. */
static void read_by_the_library(void)
{
    int writer = input_open();

    pushes_hold(true);
    say(writer, "first ");
    CHECK_STATUS(PMIX_SUCCESS, push_with("target", PMIX_IOF_PUSH_STDIN, true));
    pushes_wait("first ", 0);
    CHECK_TEXT("target", pushed_to);
    say(writer, "second ");
    for (int i = 0; i < 50; i++) usleep(1000);
    CHECK_NUMBER(1, push_count); /* the host has not answered yet */
    CHECK_NUMBER(7, input_unread());
    pushes_hold(false);
    pushes_wait("first second ", 0);
    close(writer);
    pushes_wait("first second ", 1);
    pushes_forget();
}

/* Regression: PRRTE 3.0 and 4.1 copy a push into 8 KiB without a look at its size. */
static void pushed_at_once(void)
{
    static char text[10001];
    pmix_byte_object_t bytes = {.bytes = text, .size = sizeof text - 1};
    pmix_proc_t target = proc_of("target", 0);

    memset(text, 'x', sizeof text - 1);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_IOF_push(&target, 1, &bytes, NULL, 0, NULL, NULL));
    pushes_wait(text, 0);
    CHECK_NUMBER(3, push_count);
    pushes_forget();
}

/* A regular file goes to several ranks and to all, piece by piece, with its end. */
static void read_from_a_file(const pmix_rank_t *ranks, size_t count, const char *expected)
{
    char path[] = "/tmp/capi-in-XXXXXX", text[10001];
    pmix_proc_t targets[2];
    pmix_info_t info;
    int file = mkstemp(path);

    for (size_t i = 0; i < sizeof text - 1; i++) text[i] = (char)('a' + i % 23);
    text[sizeof text - 1] = 0;
    say(file, text);
    if (lseek(file, 0, SEEK_SET) != 0 || dup2(file, 0) < 0) exit(2);
    close(file);
    unlink(path);
    for (size_t i = 0; i < count; i++) targets[i] = proc_of("target", ranks[i]);
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_IOF_PUSH_STDIN, NULL, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&info);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_IOF_push(targets, count, NULL, &info, 1, NULL, NULL));
    PMIX_INFO_DESTRUCT(&info);
    pushes_wait(text, 1);
    CHECK_TEXT(expected, pushed_ranks);
    pushes_forget();
}

/* A request ends the reading, and the target's input stays open. */
static void ended_on_request(void)
{
    int writer = input_open();

    CHECK_STATUS(PMIX_SUCCESS, push_with("target", PMIX_IOF_PUSH_STDIN, true));
    say(writer, "x");
    pushes_wait("x", 0);
    CHECK_STATUS(PMIX_SUCCESS, push_with("other", PMIX_IOF_COMPLETE, true)); /* no target of ours */
    say(writer, "y");
    pushes_wait("xy", 0);
    CHECK_STATUS(PMIX_SUCCESS, push_with(NULL, PMIX_IOF_COMPLETE, true));
    say(writer, "z");
    for (int i = 0; i < 20; i++) usleep(1000);
    CHECK_NUMBER(1, input_unread());
    close(writer);
    /* again, ended by the other directive */
    writer = input_open();
    CHECK_STATUS(PMIX_SUCCESS, push_with("target", PMIX_IOF_PUSH_STDIN, true));
    CHECK_STATUS(PMIX_SUCCESS, push_with("target", PMIX_IOF_PUSH_STDIN, false));
    say(writer, "z");
    close(writer);
    for (int i = 0; i < 20; i++) usleep(1000);
    CHECK_NUMBER(1, input_unread());
    struct done unused = DONE;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_IOF_push(NULL, 0, NULL, NULL, 0, NULL, NULL));
    CHECK_STATUS(PMIX_OPERATION_SUCCEEDED, PMIx_IOF_push(NULL, 0, NULL, NULL, 0, op_done, &unused));
    CHECK_TEXT("xy", pushed);
    CHECK_NUMBER(0, end_count);
    pushes_forget();
}

/* The host makes the input pause, with its answer or with a call, and go on. The functions came after 6.1. */
static void paused_by_the_host(void)
{
    pmix_status_t (*flow)(const pmix_proc_t *, pmix_iof_channel_t, bool, const pmix_info_t *, size_t, pmix_op_cbfunc_t,
                          void *);
    const char *(*name)(uint8_t);
    *(void **)&flow = dlsym(RTLD_DEFAULT, "PMIx_server_IOF_flow_control");
    *(void **)&name = dlsym(RTLD_DEFAULT, "PMIx_Alloc_inheritance_string");
    CHECK(flow && name);
    if (!flow || !name) return;
    CHECK_TEXT("CHILD", name(2));
    CHECK_TEXT("UNSPECIFIED", name(0));
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, flow(NULL, PMIX_FWD_STDOUT_CHANNEL, true, NULL, 0, NULL, NULL));
    int writer = input_open();

    CHECK_STATUS(PMIX_OPERATION_SUCCEEDED, flow(NULL, PMIX_FWD_STDIN_CHANNEL, true, NULL, 0, NULL, NULL));
    CHECK_STATUS(PMIX_SUCCESS, push_with("target", PMIX_IOF_PUSH_STDIN, true));
    say(writer, "a");
    for (int i = 0; i < 20; i++) usleep(1000);
    CHECK_NUMBER(1, input_unread());
    CHECK_STATUS(PMIX_OPERATION_SUCCEEDED, flow(NULL, PMIX_FWD_STDIN_CHANNEL, false, NULL, 0, NULL, NULL));
    pushes_wait("a", 0);
    CHECK_STATUS(PMIX_OPERATION_SUCCEEDED, flow(NULL, PMIX_FWD_STDIN_CHANNEL, true, NULL, 0, NULL, NULL));
    say(writer, "b");
    for (int i = 0; i < 20; i++) usleep(1000);
    CHECK_NUMBER(1, input_unread());
    CHECK_STATUS(PMIX_OPERATION_SUCCEEDED, flow(NULL, PMIX_FWD_STDIN_CHANNEL, false, NULL, 0, NULL, NULL));
    pushes_wait("ab", 0);
    push_answer = -405; /* PMIX_ERR_IOF_XOFF */
    say(writer, "c");
    pushes_wait("abc", 0);
    push_answer = PMIX_SUCCESS;
    say(writer, "d");
    for (int i = 0; i < 20; i++) usleep(1000);
    CHECK_NUMBER(1, input_unread());
    pmix_proc_t other = proc_of("other", 0), own = proc_of("capi-host", PMIX_RANK_WILDCARD);
    CHECK_STATUS(PMIX_OPERATION_SUCCEEDED, flow(&other, PMIX_FWD_STDIN_CHANNEL, false, NULL, 0, NULL, NULL));
    CHECK_NUMBER(1, input_unread());
    CHECK_STATUS(PMIX_OPERATION_SUCCEEDED, flow(&own, PMIX_FWD_STDIN_CHANNEL, false, NULL, 0, NULL, NULL));
    pushes_wait("abcd", 0);
    close(writer);
    pushes_wait("abcd", 1);
    pushes_forget();
}

/* A finalize ends it, too; nothing closes the target's input. */
static void ended_by_finalize(void)
{
    int writer = input_open();

    CHECK_STATUS(PMIX_SUCCESS, push_with("target", PMIX_IOF_PUSH_STDIN, true));
    host_stop();
    say(writer, "z");
    close(writer);
    for (int i = 0; i < 20; i++) usleep(1000);
    CHECK_NUMBER(1, input_unread());
    CHECK_NUMBER(0, end_count);
}

/* ---- The same in a client. */
static int client(void)
{
    client_start();
    CHECK_STATUS(PMIX_SUCCESS, push_with("target", PMIX_IOF_PUSH_STDIN, true));
    fence_all(false); /* until the host has everything */
    return client_end();
}

static pmix_modex_cbfunc_t fence_callback;
static void *fence_data;

static pmix_status_t up_fence(const pmix_proc_t procs[], size_t n, const pmix_info_t info[], size_t ninfo, char *bytes,
                              size_t size, pmix_modex_cbfunc_t callback, void *data)
{
    (void)procs, (void)n, (void)info, (void)ninfo, (void)size;
    free(bytes);
    pthread_mutex_lock(&pushes_lock);
    fence_callback = callback;
    fence_data = data;
    pthread_cond_broadcast(&pushes_changed);
    pthread_mutex_unlock(&pushes_lock);
    return PMIX_SUCCESS;
}

static void pushed_by_a_client(void)
{
    int writer = input_open();

    host_job("pushers", 2, 1); /* rank 1 is on another node: the fence waits for the host */
    pid_t pid = host_fork("pushers", 0, "client");
    say(writer, "from a client");
    close(writer);
    pushes_wait("from a client", 1);
    pthread_mutex_lock(&pushes_lock);
    while (!fence_callback) pthread_cond_wait(&pushes_changed, &pushes_lock);
    pthread_mutex_unlock(&pushes_lock);
    fence_callback(PMIX_SUCCESS, NULL, 0, fence_data, NULL, NULL);
    host_wait(pid, 0);
    host_forget("pushers");
    pushes_forget();
}

/* ---- A terminal whose foreground is another process group. */
static int in_background(void)
{
    host_start(&module);
    CHECK_STATUS(PMIX_SUCCESS, push_with("target", PMIX_IOF_PUSH_STDIN, true));
    say(3, "r"); /* the reading has begun */
    pushes_wait("typed\n", 0);
    CHECK_STATUS(PMIX_SUCCESS, push_with(NULL, PMIX_IOF_COMPLETE, true));
    host_stop();
    return finish();
}

/* Leads a session on the terminal, and starts a job in its background. Ends with 0 if the job was never stopped. */
static int session(int terminal, int master)
{
    char self[4096], ready;
    int told[2], status = 0;
    const char *program = getenv("CAPI_PROGRAM");
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

    self[length > 0 ? length : 0] = 0;
    if (pipe(told) != 0 || setsid() < 0 || ioctl(terminal, TIOCSCTTY, 0) != 0) return 3;
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        dup2(terminal, 0);
        dup2(told[1], 3);
        execl(program ? program : self, program ? program : self, "background", NULL);
        _exit(127);
    }
    setpgid(pid, pid);
    if (write(master, "typed\n", 6) != 6 || read(told[0], &ready, 1) != 1) return 4;
    for (int i = 0; i < 300; i++) {
        if (waitpid(pid, &status, WNOHANG | WUNTRACED) != 0) {
            if (WIFSTOPPED(status)) kill(pid, SIGKILL);
            return 5; /* stopped, or over without its input */
        }
        usleep(1000);
    }
    signal(SIGTTOU, SIG_IGN);
    if (tcsetpgrp(terminal, pid) != 0) return 6;
    if (waitpid(pid, &status, WUNTRACED) != pid || !WIFEXITED(status)) return 7;
    return WEXITSTATUS(status);
}

static void terminal_in_background(void)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);

    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) exit(2);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
        _exit(terminal < 0 ? 2 : session(terminal, master));
    }
    host_wait(pid, 0);
    close(master);
}

/* ---- A spawn of the host itself: PRRTE's event loop wakes up only because the callback runs on the answering thread. */
static void give_spawned(struct answer *answer) { answer->call.spawn(PMIX_SUCCESS, "spawned", answer->data); }

static pmix_status_t up_spawn(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo, const pmix_app_t apps[],
                              size_t napps, pmix_spawn_cbfunc_t callback, void *data)
{
    (void)proc, (void)info, (void)ninfo, (void)apps, (void)napps;
    struct answer *answer = answer_new(give_spawned, data, PMIX_SUCCESS);
    answer->call.spawn = callback;
    usleep(1000);
    held = answer;
    return PMIX_SUCCESS;
}

static void spawn_done(pmix_status_t status, pmix_nspace_t nspace, void *data)
{
    CHECK_TEXT("spawned", nspace);
    done_with(data, status, 0);
}

static void spawned_by_the_host(void)
{
    struct done done = DONE;
    pmix_app_t app;

    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup("program");
    app.maxprocs = 1;
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Spawn_nb(NULL, 0, &app, 1, spawn_done, &done));
    struct answer *answer = held;
    held = NULL;
    answer_later(answer);
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&done));
    CHECK(pthread_equal(done.thread, answers_thread));
    PMIX_APP_DESTRUCT(&app);
}

/* ---- Output that the server writes. */
struct captured {
    int before, file;
    char path[32];
};

static struct captured capture(int descriptor)
{
    struct captured captured = {.path = "/tmp/capi-out-XXXXXX"};
    fflush(stdout);
    captured.before = dup(descriptor);
    captured.file = mkstemp(captured.path);
    if (captured.before < 0 || captured.file < 0 || dup2(captured.file, descriptor) < 0) exit(2);
    return captured;
}

static const char *text_of_file(const char *path)
{
    static char text[8192];
    int file = open(path, O_RDONLY);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    text[length > 0 ? length : 0] = 0;
    return length < 0 ? NULL : text;
}

static void release(int descriptor, struct captured captured)
{
    fflush(stdout);
    dup2(captured.before, descriptor);
    close(captured.before);
    close(captured.file);
}

static void deliver(const char *nspace, pmix_rank_t rank, pmix_iof_channel_t channel, const char *text, bool local)
{
    pmix_proc_t source = proc_of(nspace, rank);
    pmix_byte_object_t bytes = {.bytes = (char *)text, .size = strlen(text)};
    pmix_info_t info;

    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_IOF_LOCAL_OUTPUT, &local, PMIX_BOOL);
    CHECK_STATUS(PMIX_OPERATION_SUCCEEDED,
                 PMIx_server_IOF_deliver(&source, channel, &bytes, local ? NULL : &info, local ? 0 : 1, NULL, NULL));
}

static void describe(const char *nspace, const char *key, const char *path)
{
    pmix_info_t info[2];
    uint32_t size = 12;
    struct done done = DONE;

    memset(info, 0, sizeof info);
    PMIX_INFO_LOAD(&info[0], PMIX_JOB_SIZE, &size, PMIX_UINT32);
    if (path) PMIX_INFO_LOAD(&info[1], key, path, PMIX_STRING);
    else PMIX_INFO_LOAD(&info[1], key, NULL, PMIX_BOOL);
    pmix_status_t status = PMIx_server_register_nspace(nspace, 0, info, 2, op_done, &done);
    CHECK_STATUS(PMIX_SUCCESS, done_result(&done, status));
    PMIX_INFO_DESTRUCT(&info[0]);
    PMIX_INFO_DESTRUCT(&info[1]);
}

static void written_by_the_server(void)
{
    pmix_info_t local;
    bool yes = true;
    char directory[] = "/tmp/capi-dir-XXXXXX", path[128], command[64];

    if (!mkdtemp(directory)) exit(2);
    struct captured out = capture(1), error = capture(2);
    PMIX_INFO_CONSTRUCT(&local);
    PMIX_INFO_LOAD(&local, PMIX_IOF_LOCAL_OUTPUT, &yes, PMIX_BOOL);
    host_start_with(&module, &local, 1);
    describe("tagged", PMIX_IOF_TAG_OUTPUT, NULL);
    describe("merged", PMIX_IOF_MERGE_STDERR_STDOUT, NULL);
    describe("filed", PMIX_IOF_OUTPUT_TO_DIRECTORY, directory);
    deliver("plain", 0, PMIX_FWD_STDOUT_CHANNEL, "one\ntw", true);
    deliver("plain", 0, PMIX_FWD_STDOUT_CHANNEL, "o\n", true);
    deliver("plain", 0, PMIX_FWD_STDERR_CHANNEL, "wrong\n", true);
    deliver("tagged", 3, PMIX_FWD_STDOUT_CHANNEL, "three\n", true);
    deliver("merged", 0, PMIX_FWD_STDERR_CHANNEL, "four\n", true);
    deliver("filed", 7, PMIX_FWD_STDOUT_CHANNEL, "five\n", true);
    deliver("plain", 0, PMIX_FWD_STDOUT_CHANNEL, "elsewhere\n", false);
    deliver("plain", 1, PMIX_FWD_STDOUT_CHANNEL, "open", true);
    deliver("plain", 1, PMIX_FWD_STDOUT_CHANNEL, "", true); /* the end of the stream */
    host_stop();
    release(1, out);
    release(2, error);
    CHECK_TEXT("one\ntwo\n[tagged,3]<stdout>: three\nfour\nfive\nopen", text_of_file(out.path));
    CHECK_TEXT("wrong\n", text_of_file(error.path));
    snprintf(path, sizeof path, "%s/filed/rank.07/stdout", directory);
    CHECK_TEXT("five\n", text_of_file(path));
    unlink(out.path);
    unlink(error.path);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    CHECK_NUMBER(0, system(command));
    PMIX_INFO_DESTRUCT(&local);
}

/* Output that a server without an output directive writes itself. */
static void written_by_default(bool gateway, bool started_by_tool)
{
    struct captured out = capture(1);
    int lifeline[2];
    char number[16];
    pmix_info_t info;

    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_SERVER_GATEWAY, &gateway, PMIX_BOOL);
    if (started_by_tool) { /* the tool shows the output */
        if (pipe(lifeline) != 0) exit(2);
        snprintf(number, sizeof number, "%d", lifeline[0]);
        setenv("PMIX_KEEPALIVE_PIPE", number, 1);
    }
    host_start_with(&module, &info, 1);
    deliver("plain", 0, PMIX_FWD_STDOUT_CHANNEL, "one\n", true);
    host_stop();
    if (started_by_tool) {
        unsetenv("PMIX_KEEPALIVE_PIPE");
        close(lifeline[1]);
    }
    release(1, out);
    CHECK_TEXT(started_by_tool ? "" : "one\n", text_of_file(out.path));
    unlink(out.path);
}

/* A server that must not write writes nothing. */
static void not_written(void)
{
    struct captured out = capture(1);
    bool no = false;
    pmix_info_t info;

    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_IOF_LOCAL_OUTPUT, &no, PMIX_BOOL);
    host_start_with(&module, &info, 1);
    deliver("plain", 0, PMIX_FWD_STDOUT_CHANNEL, "one\n", true);
    host_stop();
    release(1, out);
    CHECK_TEXT("", text_of_file(out.path));
    unlink(out.path);
}

int main(int argc, char **argv)
{
    if (argc > 1) return strcmp(argv[1], "client") == 0 ? client() : in_background();
    module.fence_nb = up_fence;
    module.spawn = up_spawn;
    if (!stock()) { /* 4.2.2 reads on without an answer, and never stops */
        host_start(&module);
        read_by_the_library();
        pushed_at_once();
        read_from_a_file((pmix_rank_t[]){3, 5}, 2, "3 5 ");
        read_from_a_file((pmix_rank_t[]){PMIX_RANK_WILDCARD}, 1, "-2 ");
        ended_on_request();
        paused_by_the_host();
        spawned_by_the_host();
        pushed_by_a_client();
        ended_by_finalize();
        terminal_in_background();
        written_by_the_server(); /* 4.2.2 crashes there */
        written_by_default(false, false); /* there, too, unless the server is a gateway */
        written_by_default(true, false);
        written_by_default(true, true);
    }
    not_written();
    return finish();
}
