/* A process that initializes and finalizes PMIx ten thousand times, as MPI sessions do. Neither its resources nor its
 * server's grow: descriptors, mappings, threads, and the bytes from malloc. */
#include "host.h"

#include <dirent.h>
#include <malloc.h>

#define FIRST_LIVES 500
#define LIVES 10000
#define LIVES_OVER_TCP 1000
/* Growth allowed for all later sessions together: less than a byte for each. */
#define GROWTH_BYTES_MAX 8192
#define LOOKS_BEFORE_NAMED 2000

struct held {
    size_t descriptors, mappings, threads, bytes;
};

static size_t entries_of(const char *path)
{
    size_t count = 0;
    DIR *directory = opendir(path);
    while (directory && readdir(directory)) count++;
    if (directory) closedir(directory);
    return count;
}

/* Counts mappings of files and shared memory, because malloc and the system keep stacks for later. */
static size_t mappings(void)
{
    size_t count = 0;
    char line[4200];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) count += strchr(line, '/') != NULL;
    if (maps) fclose(maps);
    return count;
}

static struct held held(void)
{
    struct mallinfo2 heap = mallinfo2();
    struct held now = {entries_of("/proc/self/fd"), mappings(), entries_of("/proc/self/task"), heap.uordblks + heap.hblkhd};
    return now;
}

static bool has_grown(struct held now, struct held before)
{
    return now.descriptors > before.descriptors || now.mappings > before.mappings || now.threads > before.threads ||
           now.bytes > before.bytes + GROWTH_BYTES_MAX;
}

/* The kernel counts a joined thread for a moment longer, and a server notices the end of a connection later. Temporary
 * use ends; real growth stays until the alarm, and is printed before. */
static void check_growth(struct held before)
{
    struct held now = held();
    alarm(200);
    for (int looks = 1; has_grown(now, before) && !stock(); looks++) {
        if (looks == LOOKS_BEFORE_NAMED) {
            printf("leaves something with each life: descriptors %zu, mappings %zu, threads %zu, bytes %zu; were %zu, %zu, %zu, %zu\n",
                   now.descriptors, now.mappings, now.threads, now.bytes, before.descriptors, before.mappings,
                   before.threads, before.bytes);
            fflush(stdout);
        }
        usleep(1000);
        now = held();
    }
    CHECK_UNLESS_STOCK("leaves something with each life", !has_grown(now, before));
}

/* Valgrind and OpenPMIx need more time for each session. */
static int shortened(int lives)
{
    const char *preloaded = getenv("LD_PRELOAD");
    bool is_slow = stock() || (preloaded && strstr(preloaded, "valgrind"));
    return is_slow ? lives / 100 : lives;
}

static void live(int number)
{
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Init(&me, NULL, 0));
    pmix_proc_t job = proc_of(me.nspace, PMIX_RANK_WILDCARD);
    GET_NUMBER(1, &job, PMIX_JOB_SIZE, PMIX_UINT32, uint32);
    if (number % 8 == 0) {
        CHECK_STATUS(PMIX_SUCCESS, put_text(PMIX_GLOBAL, "endpoint", "the same each time"));
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Commit());
        fence_all(true);
        GET_TEXT("the same each time", &me, "endpoint");
    }
    CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
    alarm(200);
}

/* Regression: each such cycle left two descriptors. OpenPMIx 4.2.2 refuses PMIx_Init after PMIx_tool_init. */
static void check_two_roles(void)
{
    size_t before = 0;
    for (int cycle = 0; cycle < 20; cycle++) {
        CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_init(&me, NULL, 0));
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Init(&me, NULL, 0));
        CHECK_STATUS(PMIX_SUCCESS, PMIx_tool_finalize());
        CHECK_STATUS(PMIX_SUCCESS, PMIx_Finalize(NULL, 0));
        if (cycle == 0) before = held().descriptors;
    }
    CHECK(held().descriptors <= before);
}

static int client(const char *role)
{
    int lives = LIVES;
    if (strcmp(role, "over-tcp") == 0) {
        lives = LIVES_OVER_TCP;
        unsetenv("MODEX_SERVER_URI");
        unsetenv("MODEX_SERVER_TCP");
    }
    int first = shortened(FIRST_LIVES), all = strcmp(role, "few") == 0 ? first : shortened(lives);
    for (int number = 0; number < first; number++) live(number);
    struct held before = held();
    for (int number = first; number < all; number++) live(number);
    check_growth(before);
    if (strcmp(role, "few") == 0 && !stock()) check_two_roles();
    return finish();
}

/* The bytes that malloc caches for each thread count as used, and vary: disable these caches, here and in the clients. */
static void keep_nothing_at_hand(char **argv)
{
    const char *name = "GLIBC_TUNABLES", *program = getenv("CAPI_PROGRAM");
    if (getenv(name)) return;
    setenv(name, "glibc.malloc.tcache_count=0", 1);
    execv(program ? program : "/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    static pmix_server_module_t module;
    const char *roles[] = {"many", "over-tcp"};
    if (argc > 1) return client(argv[1]);
    keep_nothing_at_hand(argv);
    host_start(&module);
    host_run("few", 1, 1, "few");
    host_forget("few");
    for (int i = 0; i < 2; i++) {
        struct held before = held();
        host_run(roles[i], 1, 1, roles[i]);
        host_forget(roles[i]);
        check_growth(before);
    }
    host_stop();
    return finish();
}
