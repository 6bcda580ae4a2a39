/* A host that does what a script on its standard input says, and prints the answers: the same questions for every
 * library of the interface. Words are separated by tabs, bytes outside of printable ASCII are written %XX.
 *
 *   register NAMESPACE LOCALS     then entries up to `end`; prints "register STATUS"
 *   resources | unresources       the same; prints "resources STATUS"
 *     i KEY TYPE VALUE            an info; TYPE is the number of the data type
 *     a KEY | e                   an info that is an array of infos, up to `e`
 *     s KEY VALUE...              an info that is an array of strings
 *   client NAMESPACE RANK         announces a process of this user; prints "client STATUS"
 *   ask NAMESPACE RANK            starts that process, which does what stands up to `end`, one line printed for each:
 *     g NAMESPACE RANK KEY (KEY TYPE VALUE)*    Get; "-" for a NULL process or key; "!KEY" flags what qualifies the value
 *     q KEY (KEY TYPE VALUE)*                   Query with qualifiers
 *     p NODE NAMESPACE | n NAMESPACE            Resolve_peers, Resolve_nodes; "-" for NULL
 *     u KEY TYPE VALUE [SCOPE]                  Put (global unless said otherwise)
 *     w KEY TYPE VALUE (KEY TYPE VALUE)*        Put (global) of a qualified value: key and value, then the qualifiers
 *     c                                         Commit
 *     d NAMESPACE                               has the host deregister a namespace, and goes on when it is gone
 *   environment NAMESPACE RANK    prints what setup_fork adds, twice asked
 *   deregister NAMESPACE          prints "deregister"
 */
#include <pmix.h>
#include <pmix_server.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void die(const char *what, long code)
{
    fprintf(stderr, "%s: %ld\n", what, code);
    exit(3);
}

/* ---- Words. */
static char *line;
static size_t line_room;

static bool next_line(FILE *from)
{
    ssize_t size = getline(&line, &line_room, from);
    if (size <= 0) return false;
    if (line[size - 1] == '\n') line[size - 1] = '\0';
    return true;
}

static char *word(char **rest)
{
    char *from = strsep(rest, "\t"), *to = from;
    if (!from) die("a word is missing", 0);
    char *start = from;
    for (; *from; from++, to++) {
        unsigned code;
        if (*from == '%' && sscanf(from + 1, "%2x", &code) == 1) {
            *to = (char)code;
            from += 2;
        } else {
            *to = *from;
        }
    }
    *to = '\0';
    return start;
}

static const char *word_or_null(char **rest)
{
    char *text = word(rest);
    return strcmp(text, "-") ? text : NULL;
}

static void print_text(const char *text)
{
    for (; *text; text++) {
        if (*text > ' ' && *text <= '~' && *text != '%') putchar(*text);
        else printf("%%%02x", (unsigned char)*text);
    }
}

/* ---- Values. */
static void load(pmix_info_t *info, const char *key, int type, const char *text)
{
    pmix_value_t value;
    memset(&value, 0, sizeof value);
    value.type = (pmix_data_type_t)type;
    switch (type) {
    case PMIX_UNDEF: break;
    case PMIX_BOOL: value.data.flag = atoi(text); break;
    case PMIX_STRING: value.data.string = (char *)text; break;
    case PMIX_SIZE: value.data.size = strtoull(text, NULL, 10); break;
    case PMIX_INT: case PMIX_INT32: value.data.int32 = atoi(text); break;
    case PMIX_UINT16: value.data.uint16 = (uint16_t)atoi(text); break;
    case PMIX_UINT32: value.data.uint32 = (uint32_t)strtoul(text, NULL, 10); break;
    case PMIX_UINT64: value.data.uint64 = strtoull(text, NULL, 10); break;
    case PMIX_SCOPE: value.data.scope = (pmix_scope_t)atoi(text); break;
    case PMIX_PROC_RANK: value.data.rank = (pmix_rank_t)strtoul(text, NULL, 10); break;
    default: die("a script has a type this program does not load", type);
    }
    PMIX_LOAD_KEY(info->key, key);
    pmix_status_t status = PMIx_Value_xfer(&info->value, &value);
    if (status) die("Value_xfer", status);
}

static void show(const pmix_value_t *value);

static void show_array(const pmix_data_array_t *array)
{
    printf("[");
    for (size_t i = 0; array && i < array->size; i++) {
        if (i) printf(",");
        if (array->type == PMIX_INFO) {
            const pmix_info_t *info = (const pmix_info_t *)array->array + i;
            print_text(info->key);
            printf("=");
            show(&info->value);
        } else if (array->type == PMIX_STRING) {
            print_text(((char **)array->array)[i]);
        } else if (array->type == PMIX_PROC) {
            const pmix_proc_t *proc = (const pmix_proc_t *)array->array + i;
            print_text(proc->nspace);
            printf(":%u", proc->rank);
        } else {
            printf("?");
        }
    }
    printf("]");
}

static void show(const pmix_value_t *value)
{
    printf("%u:", value->type);
    switch (value->type) {
    case PMIX_BOOL: printf("%d", value->data.flag); break;
    case PMIX_BYTE: printf("%u", value->data.byte); break;
    case PMIX_STRING:
        if (value->data.string) print_text(value->data.string);
        else printf("(null)");
        break;
    case PMIX_SIZE: printf("%zu", value->data.size); break;
    case PMIX_INT: case PMIX_INT32: case PMIX_STATUS: printf("%d", value->data.int32); break;
    case PMIX_UINT16: printf("%u", value->data.uint16); break;
    case PMIX_UINT: case PMIX_UINT32: printf("%u", value->data.uint32); break;
    case PMIX_PROC_RANK: printf("%u", value->data.rank); break;
    case PMIX_UINT64: printf("%llu", (unsigned long long)value->data.uint64); break;
    case PMIX_PROC:
        print_text(value->data.proc->nspace);
        printf(":%u", value->data.proc->rank);
        break;
    case PMIX_DATA_ARRAY: show_array(value->data.darray); break;
    default: printf("?");
    }
}

static size_t qualifiers(char **rest, pmix_info_t *infos, size_t room)
{
    size_t count = 0;
    while (*rest) {
        if (count == room) die("too many qualifiers", (long)room);
        char *key = word(rest);
        int type = atoi(word(rest));
        load(&infos[count], *key == '!' ? key + 1 : key, type, word(rest));
        if (*key == '!') infos[count].flags |= 0x8; /* PMIX_INFO_QUALIFIER, of 4.1 and later */
        count++;
    }
    return count;
}

/* ---- The process that asks. */
static void get(char *rest)
{
    const char *name = word_or_null(&rest);
    pmix_proc_t proc;
    pmix_rank_t rank = (pmix_rank_t)strtoul(word(&rest), NULL, 10);
    PMIX_LOAD_PROCID(&proc, name ? name : "", rank);
    const char *key = word_or_null(&rest);
    pmix_info_t infos[8];
    memset(infos, 0, sizeof infos);
    size_t count = qualifiers(&rest, infos, 8);
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(name ? &proc : NULL, key, count ? infos : NULL, count, &value);
    printf("%d", status);
    if (status == PMIX_SUCCESS && !value) {
        printf(" (none)");
    } else if (status == PMIX_SUCCESS) {
        printf(" ");
        show(value);
        PMIX_VALUE_RELEASE(value);
    }
    for (size_t i = 0; i < count; i++) PMIX_INFO_DESTRUCT(&infos[i]);
}

static void query(char *rest)
{
    pmix_query_t question;
    memset(&question, 0, sizeof question);
    int appended;
    const char *key = word(&rest);
    PMIX_ARGV_APPEND(appended, question.keys, key);
    if (appended) die("a key", appended);
    pmix_info_t infos[8], *results = NULL;
    memset(infos, 0, sizeof infos);
    question.nqual = qualifiers(&rest, infos, 8);
    question.qualifiers = question.nqual ? infos : NULL;
    size_t count = 0;
    pmix_status_t status = PMIx_Query_info(&question, 1, &results, &count);
    printf("%d", status);
    for (size_t i = 0; i < count; i++) {
        printf(" ");
        show(&results[i].value);
    }
    if (results) PMIX_INFO_FREE(results, count);
    for (size_t i = 0; i < question.nqual; i++) PMIX_INFO_DESTRUCT(&infos[i]);
    PMIX_ARGV_FREE(question.keys);
}

static void peers(char *rest)
{
    const char *node = word_or_null(&rest), *name = word_or_null(&rest);
    pmix_proc_t *procs = NULL;
    size_t count = 0;
    printf("%d", PMIx_Resolve_peers(node, name, &procs, &count));
    for (size_t i = 0; i < count; i++) printf(" %s:%u", procs[i].nspace, procs[i].rank);
    if (procs) PMIX_PROC_FREE(procs, count);
}

static void nodes(char *rest)
{
    char *list = NULL;
    printf("%d", PMIx_Resolve_nodes(word_or_null(&rest), &list));
    if (list) printf(" %s", list);
    free(list);
}

static void put(char *rest)
{
    pmix_info_t info;
    memset(&info, 0, sizeof info);
    char *key = word(&rest);
    int type = atoi(word(&rest));
    load(&info, key, type, word(&rest));
    pmix_scope_t scope = rest ? (pmix_scope_t)atoi(word(&rest)) : PMIX_GLOBAL;
    printf("%d", PMIx_Put(scope, info.key, &info.value));
    PMIX_INFO_DESTRUCT(&info);
}

static void put_qualified(char *rest)
{
    pmix_data_array_t array = {.type = PMIX_INFO};
    pmix_value_t value = {.type = PMIX_DATA_ARRAY, .data.darray = &array};
    pmix_info_t *infos = calloc(8, sizeof *infos);
    array.array = infos;
    array.size = qualifiers(&rest, infos, 8);
    printf("%d", PMIx_Put(PMIX_GLOBAL, "pmix.qual.val", &value));
    PMIX_INFO_FREE(infos, array.size);
}

static int client(void)
{
    pmix_proc_t me;
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    if (status) die("Init", status);
    while (next_line(stdin)) {
        char *rest = line, *verb = word(&rest);
        switch (*verb) {
        case 'g': get(rest); break;
        case 'q': query(rest); break;
        case 'p': peers(rest); break;
        case 'n': nodes(rest); break;
        case 'u': put(rest); break;
        case 'w': put_qualified(rest); break;
        case 'c': printf("%d", PMIx_Commit()); break;
        case 'd': /* The host reads the third descriptor, and closes the fourth's other end when it has done so. */
            printf("%d", (int)(write(3, rest, strlen(rest) + 1) > 0 && read(4, &(char){0}, 1) >= 0));
            break;
        default: die("no such question", *verb);
        }
        printf("\n");
        fflush(stdout);
    }
    PMIx_Finalize(NULL, 0);
    return 0;
}

/* ---- The host. */
struct done {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_over;
    pmix_status_t status;
};

static void done_now(pmix_status_t status, void *data)
{
    struct done *done = data;
    pthread_mutex_lock(&done->lock);
    done->is_over = true;
    done->status = status;
    pthread_cond_signal(&done->changed);
    pthread_mutex_unlock(&done->lock);
}

static pmix_status_t wait_for(struct done *done, pmix_status_t status)
{
    if (status == PMIX_OPERATION_SUCCEEDED) return PMIX_SUCCESS;
    if (status) return status;
    pthread_mutex_lock(&done->lock);
    while (!done->is_over) pthread_cond_wait(&done->changed, &done->lock);
    pthread_mutex_unlock(&done->lock);
    return done->status;
}

#define DONE {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0}

/* Entries up to `end` or `e`, in an array that grows. */
static pmix_info_t *entries(size_t *count)
{
    size_t room = 16;
    pmix_info_t *infos = calloc(room, sizeof *infos);
    *count = 0;
    while (next_line(stdin)) {
        char *rest = line, *verb = word(&rest);
        if (!strcmp(verb, "end") || !strcmp(verb, "e")) return infos;
        if (*count == room) {
            infos = realloc(infos, 2 * room * sizeof *infos);
            memset(infos + room, 0, room * sizeof *infos);
            room *= 2;
        }
        pmix_info_t *info = &infos[*count];
        char *key = strdup(word(&rest));
        if (*verb == 'i') {
            int type = atoi(word(&rest));
            load(info, key, type, type == PMIX_UNDEF ? "" : word(&rest));
        } else {
            pmix_data_array_t *array = calloc(1, sizeof *array);
            array->type = *verb == 'a' ? PMIX_INFO : PMIX_STRING;
            if (*verb == 'a') {
                array->array = entries(&array->size);
            } else {
                char **texts = calloc(64, sizeof *texts);
                while (rest) texts[array->size++] = strdup(word(&rest));
                array->array = texts;
            }
            PMIX_LOAD_KEY(info->key, key);
            info->value.type = PMIX_DATA_ARRAY;
            info->value.data.darray = array;
        }
        free(key);
        *count += 1;
    }
    die("a script ends inside a list", 0);
    return NULL;
}

static void register_namespace(char *rest)
{
    pmix_nspace_t name;
    char *given = word(&rest);
    PMIX_LOAD_NSPACE(name, given);
    int locals = atoi(word(&rest));
    size_t count;
    struct done done = DONE;
    pmix_info_t *infos = entries(&count);
    printf("register %d\n", wait_for(&done, PMIx_server_register_nspace(name, locals, infos, count, done_now, &done)));
    PMIX_INFO_FREE(infos, count);
}

static void resources(bool is_new)
{
    size_t count;
    struct done done = DONE;
    pmix_info_t *infos = entries(&count);
    pmix_status_t status = is_new ? PMIx_server_register_resources(infos, count, done_now, &done)
                                  : PMIx_server_deregister_resources(infos, count, done_now, &done);
    printf("resources %d\n", wait_for(&done, status));
    PMIX_INFO_FREE(infos, count);
}

static void deregister(const char *name)
{
    pmix_nspace_t nspace;
    struct done done = DONE;
    PMIX_LOAD_NSPACE(nspace, name);
    PMIx_server_deregister_nspace(nspace, done_now, &done);
    wait_for(&done, PMIX_SUCCESS);
}

static pmix_proc_t process(char **rest)
{
    pmix_proc_t proc;
    char *name = word(rest);
    pmix_rank_t rank = (pmix_rank_t)strtoul(word(rest), NULL, 10);
    PMIX_LOAD_PROCID(&proc, name, rank);
    return proc;
}

static void announce(char *rest)
{
    pmix_proc_t proc = process(&rest);
    struct done done = DONE;
    printf("client %d\n", wait_for(&done, PMIx_server_register_client(&proc, geteuid(), getegid(), NULL, done_now, &done)));
}

static void ask(char *rest, char *program)
{
    pmix_proc_t proc = process(&rest);
    char **env = NULL, order[512];
    int orders[2], obeyed[2], status;
    FILE *questions = tmpfile();
    while (next_line(stdin) && strcmp(line, "end")) fprintf(questions, "%s\n", line);
    fflush(questions);
    rewind(questions);
    for (char **variable = environ; *variable; variable++) PMIX_ARGV_APPEND(status, env, *variable);
    if ((status = PMIx_server_setup_fork(&proc, &env))) die("setup_fork", status);
    fflush(stdout);
    if (pipe(orders) || pipe(obeyed)) die("pipe", 0);
    pid_t child = fork();
    if (child == 0) {
        char *const arguments[] = {program, "client", NULL};
        dup2(fileno(questions), 0);
        lseek(0, 0, SEEK_SET);
        /* Out of the way of the numbers that the process knows. */
        int to = dup(orders[1]), from = dup(obeyed[0]);
        dup2(to, 13), dup2(from, 14), dup2(13, 3), dup2(14, 4);
        for (int fd = 5; fd < 64; fd++) close(fd);
        execve("/proc/self/exe", arguments, env);
        _exit(4);
    }
    close(orders[1]), close(obeyed[0]);
    for (ssize_t size; (size = read(orders[0], order, sizeof order)) > 0;) {
        deregister(order);
        if (write(obeyed[1], "", 1) != 1) break;
    }
    close(orders[0]), close(obeyed[1]);
    fclose(questions);
    if (waitpid(child, &status, 0) != child || status) die("a process that asks has ended with", status);
    PMIX_ARGV_FREE(env);
}

static void environment(char *rest)
{
    pmix_proc_t proc = process(&rest);
    char **env = NULL;
    int status;
    PMIX_ARGV_APPEND(status, env, "ODD=\x01\xff=;\n'\"$(x) ");
    PMIX_ARGV_APPEND(status, env, "PMIX_RANK=of a job around");
    for (int time = 0; time < 2; time++) {
        status = PMIx_server_setup_fork(&proc, &env);
        printf("environment %d", status);
        for (char **variable = env; *variable; variable++) {
            printf(" ");
            print_text(*variable);
        }
        printf("\n");
    }
    PMIX_ARGV_FREE(env);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "client")) return client();
    char directory[] = "/tmp/retrieval-XXXXXX", command[64];
    pmix_server_module_t module;
    pmix_info_t infos[5];
    memset(&module, 0, sizeof module);
    memset(infos, 0, sizeof infos);
    if (!mkdtemp(directory)) die("mkdtemp", 0);
    load(&infos[0], PMIX_SERVER_TMPDIR, PMIX_STRING, directory);
    load(&infos[1], PMIX_SYSTEM_TMPDIR, PMIX_STRING, directory);
    load(&infos[2], PMIX_SERVER_NSPACE, PMIX_STRING, "host");
    load(&infos[3], PMIX_SERVER_RANK, PMIX_PROC_RANK, "0");
    load(&infos[4], PMIX_HOSTNAME, PMIX_STRING, "n0");
    pmix_status_t status = PMIx_server_init(&module, infos, 5);
    if (status) die("server_init", status);
    while (next_line(stdin)) {
        char *rest = line, *verb = word(&rest);
        if (!strcmp(verb, "register")) register_namespace(rest);
        else if (!strcmp(verb, "resources")) resources(true);
        else if (!strcmp(verb, "unresources")) resources(false);
        else if (!strcmp(verb, "client")) announce(rest);
        else if (!strcmp(verb, "ask")) ask(rest, argv[0]);
        else if (!strcmp(verb, "environment")) environment(rest);
        else if (!strcmp(verb, "deregister")) deregister(word(&rest)), printf("deregister\n");
        else die("no such order", *verb);
        fflush(stdout);
    }
    PMIx_server_finalize();
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}
