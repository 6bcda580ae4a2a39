/* Directives for forwarded output: its cache, the size of deliveries, the end of a channel, and the form of lines. */
#include "host.h"

#include <fcntl.h>

/* Descriptors of a client: commands to the host, and its answers. */
enum { COMMANDS = 50, ANSWERS = 51 };

/* ---- The host. */
static _Atomic int starts, stops, required;

static pmix_status_t up_pull(const pmix_proc_t procs[], size_t n, const pmix_info_t directives[], size_t ndirs,
                             pmix_iof_channel_t channels, pmix_op_cbfunc_t callback, void *data)
{
    (void)procs, (void)channels;
    CHECK_NUMBER(1, n);
    if (info_of(directives, ndirs, PMIX_IOF_STOP)) stops++;
    else starts++;
    for (size_t i = 0; i < ndirs; i++)
        if (PMIX_INFO_IS_REQUIRED(&directives[i])) required++;
    return answer_op(callback, data, PMIX_SUCCESS);
}

static pmix_server_module_t module = {.iof_pull = up_pull};

/* "RANK CHANNEL TEXT" delivers, with '~' for the end of a line. */
static void host_deliver(char *line)
{
    unsigned rank, channel;
    int at = 0;
    if (sscanf(line, "%u %u %n", &rank, &channel, &at) != 2) return;
    pmix_proc_t source = proc_of("elsewhere-job", rank);
    pmix_byte_object_t bytes = {.bytes = line + at, .size = strcspn(line + at, "\n")};
    for (size_t i = 0; i < bytes.size; i++)
        if (bytes.bytes[i] == '~') bytes.bytes[i] = '\n';
    CHECK_STATUS(PMIX_OPERATION_SUCCEEDED,
                 PMIx_server_IOF_deliver(&source, (pmix_iof_channel_t)channel, &bytes, NULL, 0, NULL, NULL));
}

/* Does as a client says, a line at a time. */
static void host_obey(int commands, int answers)
{
    FILE *in = fdopen(commands, "r");
    char line[256];
    while (fgets(line, sizeof line, in)) {
        host_deliver(line);
        dprintf(answers, "%d %d %d\n", starts, stops, required);
    }
    fclose(in);
    close(answers);
}

static void host_serve(void)
{
    int commands[2], answers[2];

    if (pipe2(commands, O_CLOEXEC) != 0 || pipe2(answers, O_CLOEXEC) != 0) exit(2);
    if (dup2(commands[1], COMMANDS) < 0 || dup2(answers[0], ANSWERS) < 0) exit(2);
    host_job("pullers", 1, 1);
    pid_t pid = host_fork("pullers", 0, "client");
    close(commands[1]), close(answers[0]), close(COMMANDS), close(ANSWERS);
    host_obey(commands[0], answers[1]);
    host_wait(pid, 0);
    host_forget("pullers");
}

/* ---- The client, or the host's own process. */
static int told[3];
static bool is_host;

static void tell(const char *command)
{
    char answer[64];
    ssize_t length;

    if (is_host) {
        char line[256];
        snprintf(line, sizeof line, "%s", command);
        host_deliver(line);
        return;
    }
    dprintf(COMMANDS, "%s\n", command);
    length = read(ANSWERS, answer, sizeof answer - 1);
    CHECK(length > 0);
    answer[length > 0 ? length : 0] = 0;
    CHECK_NUMBER(3, sscanf(answer, "%d %d %d", &told[0], &told[1], &told[2]));
}

/* What came, as "text|text|END|". */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char seen[1024];
static struct done *registered;
static bool is_early, is_misnumbered;

static void on_output(size_t id, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *payload,
                      pmix_info_t info[], size_t n)
{
    (void)channel;
    CHECK_TEXT("elsewhere-job", source->nspace);
    pthread_mutex_lock(&lock);
    if (registered) {
        if (registered->count == 0) is_early = true;
        else if (registered->reference != id) is_misnumbered = true;
    }
    strncat(seen, payload && payload->bytes ? payload->bytes : "", payload ? payload->size : 0);
    strcat(seen, "|");
    const pmix_info_t *end = info_of(info, n, PMIX_IOF_COMPLETE);
    if (end && end->value.data.flag) strcat(seen, "END|");
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void await(const char *text)
{
    pthread_mutex_lock(&lock);
    while (strlen(seen) < strlen(text)) pthread_cond_wait(&changed, &lock);
    CHECK_TEXT(text, seen);
    seen[0] = 0;
    pthread_mutex_unlock(&lock);
}

static pmix_info_t info_with(const char *key, const void *value, pmix_data_type_t type)
{
    pmix_info_t info;
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, key, value, type);
    PMIX_INFO_REQUIRED(&info);
    return info;
}

static pmix_info_t number(const char *key, uint32_t value) { return info_with(key, &value, PMIX_UINT32); }
static pmix_info_t flag(const char *key) { return info_with(key, NULL, PMIX_BOOL); }

static pmix_status_t pull(pmix_rank_t rank, pmix_iof_channel_t channels, pmix_info_t *info, size_t count,
                          pmix_iof_cbfunc_t function)
{
    pmix_proc_t source = proc_of("elsewhere-job", rank);
    pmix_status_t status = PMIx_IOF_pull(&source, 1, info, count, channels, function, NULL, NULL);
    for (size_t i = 0; i < count; i++) PMIX_INFO_DESTRUCT(&info[i]);
    return status;
}

static void end(pmix_status_t id)
{
    CHECK(id >= 0);
    CHECK_STATUS(PMIX_SUCCESS, PMIx_IOF_deregister((size_t)id, NULL, 0, NULL, NULL));
}

/* The host's start gave every channel 6 bytes. A pull asks for less, and for others. */
static void cached(void)
{
    pmix_info_t info[2] = {number(PMIX_IOF_CACHE_SIZE, 4), flag(PMIX_IOF_DROP_OLDEST)};
    pmix_proc_t source = proc_of("elsewhere-job", 0);
    struct done done = DONE;

    tell("0 2 abcd");
    tell("0 2 efgh");
    tell("0 4 01234567");
    registered = &done;
    CHECK_STATUS(PMIX_SUCCESS,
                 PMIx_IOF_pull(&source, 1, info, 2, PMIX_FWD_STDOUT_CHANNEL, on_output, reg_done, &done));
    CHECK_STATUS(PMIX_SUCCESS, done_wait(&done));
    for (int i = 0; i < 2; i++) PMIX_INFO_DESTRUCT(&info[i]);
    tell("0 2 live");
    await("cdef|live|");
    CHECK(!is_early && !is_misnumbered);
    registered = NULL;
    pmix_status_t second = pull(0, PMIX_FWD_STDERR_CHANNEL, NULL, 0, on_output);
    await("012345|");
    tell("0 4 "); /* no bytes */
    await("|END|");
    end((pmix_status_t)done.reference);
    end(second);
    CHECK_NUMBER(0, told[2]); /* the host needs to know none of it */
}

/* A delivery waits for its bytes, for its time, or for the end of the pull. */
static void collected(void)
{
    pmix_info_t info[2] = {number(PMIX_IOF_BUFFERING_SIZE, 4), number(PMIX_IOF_BUFFERING_TIME, 3600)};
    pmix_status_t first = pull(1, PMIX_FWD_STDOUT_CHANNEL, info, 2, on_output);

    tell("1 2 ab");
    tell("1 2 cd");
    await("abcd|");
    tell("1 2 e");
    end(first);
    await("e|");
    info[0] = number(PMIX_IOF_BUFFERING_TIME, 1);
    first = pull(1, PMIX_FWD_STDOUT_CHANNEL, info, 1, on_output);
    tell("1 2 f");
    tell("1 2 g");
    await("fg|");
    end(first);
}

static void overlapping(void)
{
    do tell(""); while (told[0] != told[1]); /* earlier stops reach the host in a moment */
    int starts_before = told[0], stops_before = told[1];
    pmix_status_t first = pull(2, PMIX_FWD_STDOUT_CHANNEL, NULL, 0, on_output);
    pmix_status_t second = pull(2, PMIX_FWD_STDOUT_CHANNEL, NULL, 0, on_output);

    tell("2 2 both");
    await("both|both|");
    CHECK_NUMBER(starts_before + 1, told[0]);
    end(first);
    tell("");
    CHECK_NUMBER(stops_before, told[1]);
    end(second);
    do tell(""); while (told[1] == stops_before); /* the host's thread gets it in a moment */
    CHECK_NUMBER(stops_before + 1, told[1]);
}

static void refused(void)
{
    pmix_info_t info = flag(PMIX_IOF_TAG_OUTPUT);
    pmix_byte_object_t bytes = {"x", 1};
    pmix_proc_t target = proc_of("elsewhere-job", 0);

    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, pull(0, PMIX_FWD_STDOUT_CHANNEL, &info, 1, on_output));
    info = number(PMIX_IOF_CACHE_SIZE, UINT32_MAX);
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, pull(0, PMIX_FWD_STDOUT_CHANNEL, &info, 1, on_output));
    info = info_with(PMIX_IOF_CACHE_SIZE, "many", PMIX_STRING);
    CHECK_STATUS(PMIX_ERR_BAD_PARAM, pull(0, PMIX_FWD_STDOUT_CHANNEL, &info, 1, on_output));
    info = flag(PMIX_IOF_DROP_OLDEST);
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, PMIx_IOF_push(&target, 1, &bytes, &info, 1, NULL, NULL));
    PMIX_INFO_DESTRUCT(&info);
}

static void refused_in_host(void)
{
    pmix_info_t info = flag(PMIX_IOF_TAG_OUTPUT);

    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, pull(0, PMIX_FWD_STDOUT_CHANNEL, &info, 1, on_output));
    info = number(PMIX_IOF_CACHE_SIZE, UINT32_MAX);
    CHECK_STATUS(PMIX_ERR_NOT_SUPPORTED, pull(0, PMIX_FWD_STDOUT_CHANNEL, &info, 1, on_output));
}

static const char *text_of_file(const char *path)
{
    static char text[8192];
    int file = open(path, O_RDONLY);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    text[length > 0 ? length : 0] = 0;
    return length < 0 ? "no file" : text;
}

/* Without a callback the library writes. Its files are whole at finalize. */
static void written(void)
{
    char directory[] = "/tmp/capi-pull-XXXXXX", command[64];
    static const char tagged[] = "[3]<stdout>: three\n";
    char path[256], rest[64];
    pmix_info_t info[3];
    int file, before;

    if (!mkdtemp(directory)) exit(2);
    snprintf(path, sizeof path, "%s/own", directory);
    fflush(stdout);
    file = open(path, O_WRONLY | O_CREAT, 0600);
    before = dup(1);
    if (file < 0 || before < 0 || dup2(file, 1) < 0) exit(2);
    info[0] = flag(PMIX_IOF_RANK_OUTPUT);
    pmix_status_t ranked = pull(3, PMIX_FWD_STDOUT_CHANNEL, info, 1, NULL);
    pmix_status_t raw = pull(4, PMIX_FWD_STDOUT_CHANNEL, NULL, 0, NULL);
    info[0] = info_with(PMIX_IOF_OUTPUT_TO_DIRECTORY, directory, PMIX_STRING);
    info[1] = flag(PMIX_IOF_MERGE_STDERR_STDOUT);
    info[2] = flag("pmix.iof.fonly");
    CHECK(pull(5, PMIX_FWD_STDOUT_CHANNEL | PMIX_FWD_STDERR_CHANNEL, info, 3, NULL) >= 0);
    snprintf(path, sizeof path, "%s/%%n-%%r", directory);
    info[0] = info_with(PMIX_IOF_OUTPUT_TO_FILE, path, PMIX_STRING);
    info[1] = flag("pmix.iof.fpt");
    info[2] = flag("pmix.iof.fonly");
    CHECK(pull(6, PMIX_FWD_STDOUT_CHANNEL, info, 3, NULL) >= 0);
    tell("4 2 wh");
    tell("3 2 three~");
    tell("4 2 ole~");
    tell("4 2 open");
    tell("5 2 out~");
    tell("5 4 error~");
    tell("6 2 six~");
    CHECK(ranked >= 0 && raw >= 0);
    if (is_host) host_stop();
    else CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    dup2(before, 1);
    close(before), close(file);
    snprintf(path, sizeof path, "%s/own", directory);
    /* Each pull has a thread: only the output of one is in order. Without directives it comes in pieces. */
    const char *text = text_of_file(path), *line = strstr(text, tagged);
    CHECK(line != NULL);
    snprintf(rest, sizeof rest, "%.*s%s", line ? (int)(line - text) : 0, text, line ? line + strlen(tagged) : "");
    CHECK_TEXT("whole\nopen", rest);
    snprintf(path, sizeof path, "%s/elsewhere-job/rank.5/stdout", directory);
    CHECK_TEXT("out\nerror\n", text_of_file(path));
    snprintf(path, sizeof path, "%s/elsewhere-job-6.out", directory);
    CHECK_TEXT("six\n", text_of_file(path));
    snprintf(command, sizeof command, "rm -rf %s", directory);
    CHECK_NUMBER(0, system(command));
}

static int client(void)
{
    client_start();
    cached();
    collected();
    overlapping();
    refused();
    written();
    return finish();
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) return client();
    pmix_info_t info = number(PMIX_IOF_CACHE_SIZE, UINT32_MAX);
    CHECK_UNLESS_STOCK("ignores it", PMIx_server_init(&module, &info, 1) == PMIX_ERR_NOT_SUPPORTED);
    PMIX_INFO_DESTRUCT(&info);
    if (stock()) { /* A server of 4.2.2 hangs in its own thread when a pull is answered. */
        CHECK_STATUS(PMIX_SUCCESS, PMIx_server_finalize());
        return finish();
    }
    bool no = false;
    pmix_info_t directives[2] = {number(PMIX_IOF_CACHE_SIZE, 6), info_with(PMIX_IOF_LOCAL_OUTPUT, &no, PMIX_BOOL)};
    host_start_with(&module, directives, 2);
    host_serve();
    /* Regression: a pull of the host's own process got no kept output, and refused these directives. */
    is_host = true;
    cached();
    collected();
    refused_in_host();
    written();
    return finish();
}
