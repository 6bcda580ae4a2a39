/* A tool for tests/interop/tools.rs: does one thing with each word of its command line and says how it went, one line for
 * each, `word status [value]`. Works with every library since 4.2. */
#include <pmix_tool.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pmix_proc_t me;

static void say(const char *word, pmix_status_t status, const char *value)
{
    printf("%s %s %s\n", word, PMIx_Error_string(status), value ? value : "");
    fflush(stdout);
}

/* NAME=VALUE as a directive of PMIx_tool_init and PMIx_tool_attach_to_server. */
static size_t directives(char **words, size_t count, pmix_info_t *info)
{
    static bool yes = true;
    size_t i;

    for (i = 0; i < count; i++) {
        char *name = strdup(words[i]), *value = strchr(name, '=');
        uint32_t number;

        if (!value) {
            PMIX_INFO_LOAD(&info[i], name, &yes, PMIX_BOOL);
            free(name);
            continue;
        }
        *value++ = '\0';
        number = (uint32_t)atoi(value);
        if (!strcmp(name, PMIX_SERVER_PIDINFO)) {
            pid_t pid = atoi(value);
            PMIX_INFO_LOAD(&info[i], name, &pid, PMIX_PID);
        } else if (!strcmp(name, PMIX_TOOL_RANK)) {
            PMIX_INFO_LOAD(&info[i], name, &number, PMIX_PROC_RANK);
        } else if (!strcmp(name, PMIX_CONNECT_MAX_RETRIES) || !strcmp(name, PMIX_CONNECT_RETRY_DELAY)) {
            PMIX_INFO_LOAD(&info[i], name, &number, PMIX_UINT32);
        } else {
            PMIX_INFO_LOAD(&info[i], name, value, PMIX_STRING);
        }
        free(name);
    }
    return count;
}

static void query(const char *word, const char *key, const char *nspace)
{
    pmix_query_t query;
    pmix_info_t *found = NULL;
    pmix_status_t status;
    size_t count = 0, i;
    char text[4096] = "";

    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, key);
    if (nspace) {
        PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
        PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, nspace, PMIX_STRING);
    }
    status = PMIx_Query_info(&query, 1, &found, &count);
    for (i = 0; PMIX_SUCCESS == status && i < count; i++) {
        pmix_value_t *value = &found[i].value;
        size_t used = strlen(text);

        if (value->type == PMIX_STRING) {
            snprintf(text + used, sizeof text - used, "%s", value->data.string);
        } else if (value->type == PMIX_UINT32) {
            snprintf(text + used, sizeof text - used, "%u", value->data.uint32);
        } else if (value->type == PMIX_DATA_ARRAY && value->data.darray->type == PMIX_PROC_INFO) {
            pmix_proc_info_t *procs = value->data.darray->array;
            size_t n;
            for (n = 0; n < value->data.darray->size; n++, used = strlen(text)) {
                snprintf(text + used, sizeof text - used, "%u:%d:%s ", procs[n].proc.rank, (int)procs[n].pid,
                         procs[n].executable_name ? procs[n].executable_name : "");
            }
        }
    }
    say(word, status, text);
}

static void get(const char *nspace, const char *key)
{
    pmix_proc_t proc;
    pmix_value_t *value = NULL;
    pmix_status_t status;
    char text[64] = "";

    PMIX_LOAD_PROCID(&proc, nspace, PMIX_RANK_WILDCARD);
    status = PMIx_Get(&proc, key, NULL, 0, &value);
    if (PMIX_SUCCESS == status && value->type == PMIX_UINT32) {
        snprintf(text, sizeof text, "%u", value->data.uint32);
    }
    say("get", status, text);
}

static void publish_and_look(void)
{
    pmix_info_t info;
    pmix_pdata_t found;
    pmix_status_t status;

    PMIX_INFO_LOAD(&info, "tool.key", "tool value", PMIX_STRING);
    say("publish", PMIx_Publish(&info, 1), NULL);
    PMIX_PDATA_CONSTRUCT(&found);
    PMIX_LOAD_KEY(found.key, "tool.key");
    status = PMIx_Lookup(&found, 1, NULL, 0);
    say("lookup", status, PMIX_SUCCESS == status ? found.value.data.string : NULL);
}

static void list_servers(void)
{
    pmix_proc_t *servers = NULL;
    size_t count = 0, i;
    pmix_status_t status = PMIx_tool_get_servers(&servers, &count);
    char text[2048] = "";

    for (i = 0; PMIX_SUCCESS == status && i < count; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s.%u ", servers[i].nspace, servers[i].rank);
    }
    say("servers", status, text);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char heard[2][1024];
static int has_ended[2];

/* Forwarded output of rank 0: 0 is standard output, 1 is standard error. */
static void hear(size_t id, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *payload,
                 pmix_info_t info[], size_t ninfo)
{
    int which = PMIX_FWD_STDERR_CHANNEL == channel;
    size_t i;

    (void)id;
    pthread_mutex_lock(&lock);
    if (0 == source->rank && payload && payload->size > 0) {
        strncat(heard[which], payload->bytes, payload->size);
    }
    for (i = 0; i < ninfo; i++) {
        has_ended[which] |= 0 == source->rank && !strcmp(info[i].key, PMIX_IOF_COMPLETE);
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static pmix_status_t pushed = 1;

static void note_push(pmix_status_t status, void *data)
{
    (void)data;
    pthread_mutex_lock(&lock);
    pushed = status;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Without a callback, 4.2.2 waits on a lock that it has not initialized. */
static pmix_status_t push(pmix_proc_t *target, pmix_byte_object_t *bytes)
{
    pmix_status_t status = PMIx_IOF_push(target, 1, bytes, NULL, 0, note_push, NULL);

    if (PMIX_SUCCESS != status) {
        return status;
    }
    pthread_mutex_lock(&lock);
    while (1 == pushed) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
    return pushed;
}

static int ends; /* callbacks of the deregistration */
static pmix_status_t end_status;

static void pull_ended(pmix_status_t status, void *data)
{
    (void)data;
    pthread_mutex_lock(&lock);
    ends++;
    end_status = status;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* The form with a callback: without one, OpenPMIx 4.2.2 now and then waits for a lock that it has freed. */
static pmix_status_t end_pull(size_t pull)
{
    int before = ends;
    pmix_status_t status = PMIx_IOF_deregister(pull, NULL, 0, pull_ended, NULL);

    if (PMIX_SUCCESS != status) {
        return status;
    }
    pthread_mutex_lock(&lock);
    while (ends == before) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
    return end_status;
}

/* Pulls the output of a job, gives its rank 0 a line, and shows what the rank printed. */
static void talk(const char *nspace, const char *directive)
{
    pmix_proc_t all, first;
    pmix_byte_object_t line = {.bytes = "go\n", .size = 3};
    pmix_info_t info;
    pmix_status_t status;

    PMIX_LOAD_PROCID(&all, nspace, PMIX_RANK_WILDCARD);
    PMIX_LOAD_PROCID(&first, nspace, 0);
    PMIX_INFO_LOAD(&info, directive, NULL, PMIX_BOOL);
    PMIX_INFO_REQUIRED(&info);
    status = PMIx_IOF_pull(&all, 1, &info, 1, PMIX_FWD_STDOUT_CHANNEL | PMIX_FWD_STDERR_CHANNEL, hear, NULL, NULL);
    say("pull", status < 0 ? status : PMIX_SUCCESS, NULL);
    if (status < 0) {
        return;
    }
    say("push", push(&first, &line), NULL);
    pthread_mutex_lock(&lock);
    while (!has_ended[0] || !has_ended[1]) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
    say("heard", PMIX_SUCCESS, heard[0]);
    say("also", PMIX_SUCCESS, heard[1]);
    say("deregister", end_pull((size_t)status), NULL);
}

int main(int argc, char **argv)
{
    pmix_info_t info[16];
    pmix_status_t status;
    size_t count;
    int at = 1, end;
    char name[600];

    for (end = 1; end < argc && strcmp(argv[end], "--"); end++) {}
    count = directives(argv + 1, (size_t)(end - 1), info);
    status = PMIx_tool_init(&me, info, count);
    snprintf(name, sizeof name, "%s.%u", PMIX_SUCCESS == status ? me.nspace : "", PMIX_SUCCESS == status ? me.rank : 0);
    say("init", status, name);
    if (PMIX_SUCCESS != status) {
        return 1;
    }
    for (at = end + 1; at < argc; at++) {
        const char *word = argv[at];
        pmix_proc_t server;

        if (!strcmp(word, "namespaces")) {
            query(word, PMIX_QUERY_NAMESPACES, NULL);
        } else if (!strcmp(word, "table")) {
            query(word, PMIX_QUERY_PROC_TABLE, argv[++at]);
        } else if (!strcmp(word, "unknown")) {
            query(word, "no.such.key", NULL);
        } else if (!strcmp(word, "size")) {
            query(word, PMIX_JOB_SIZE, argv[++at]);
        } else if (!strcmp(word, "get")) {
            get(argv[++at], PMIX_JOB_SIZE);
        } else if (!strcmp(word, "publish")) {
            publish_and_look();
        } else if (!strcmp(word, "fence")) {
            say(word, PMIx_Fence(NULL, 0, NULL, 0), NULL);
        } else if (!strcmp(word, "servers")) {
            list_servers();
        } else if (!strcmp(word, "attach")) {
            count = directives(argv + ++at, 1, info);
            memset(&server, 0, sizeof server);
            status = PMIx_tool_attach_to_server(&me, &server, info, count);
            snprintf(name, sizeof name, "%s.%u as %s.%u", server.nspace, server.rank, me.nspace, me.rank);
            say(word, status, name);
        } else if (!strcmp(word, "choose") || !strcmp(word, "disconnect")) {
            PMIX_LOAD_PROCID(&server, argv[at + 1], 0);
            status = !strcmp(word, "choose") ? PMIx_tool_set_server(&server, NULL, 0) : PMIx_tool_disconnect(&server);
            say(word, status, argv[++at]);
        } else if (!strcmp(word, "talk")) {
            talk(argv[at + 1], argv[at + 2]);
            at += 2;
        } else if (!strcmp(word, "die")) {
            _Exit(7);
        } else if (!strcmp(word, "wait")) {
            (void)getchar();
        } else {
            say(word, PMIX_ERR_BAD_PARAM, "no such word");
        }
    }
    say("finalize", PMIx_tool_finalize(), NULL);
    return 0;
}
