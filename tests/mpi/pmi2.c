/* Uses every call of PMI-2, through Slurm's library: key space, attributes, names, spawn. Prints each wrong answer. */
#include <slurm/pmi2.h>
#include <stdio.h>
#include <string.h>

#define CHECK(condition) do { if (!(condition)) { printf("wrong in line %d: %s\n", __LINE__, #condition); return 1; } } while (0)

static char job[256], value[PMI2_MAX_VALLEN];
static int length, found;

static int as_child(int spawned)
{
    CHECK(spawned);
    CHECK(PMI2_KVS_Get(job, PMI2_ID_NULL, "greeting", value, sizeof value, &length) == PMI2_SUCCESS);
    printf("child says %s\n", value);
    return PMI2_Finalize();
}

static int spawn(const char *program)
{
    MPID_Info greeting = { .key = "greeting", .value = "semicolons; and blanks" };
    const MPID_Info *values[] = { &greeting };
    const char *commands[] = { program }, *arguments[] = { "child" }, **all_arguments[] = { arguments };
    char child[256] = "";
    int counts[] = { 1 }, errors[2] = { -1, -1 }, processes[] = { 2 };

    CHECK(PMI2_Job_Spawn(1, commands, counts, all_arguments, processes, NULL, NULL, 1, values, child, sizeof child,
                         errors) == PMI2_SUCCESS);
    CHECK(strcmp(child, job) != 0 && child[0] && errors[0] == 0 && errors[1] == 0);
    return 0;
}

int main(int argc, char **argv)
{
    int spawned, size, rank, application;
    char key[64];

    CHECK(PMI2_Init(&spawned, &size, &rank, &application) == PMI2_SUCCESS);
    CHECK(PMI2_Job_GetId(job, sizeof job) == PMI2_SUCCESS);
    if (argc > 1 && !strcmp(argv[1], "child")) return as_child(spawned);
    if (argc > 1 && rank == 1) return PMI2_Abort(1, argv[1]);
    CHECK(!spawned && size == 2 && application == 0);
    snprintf(key, sizeof key, "key-%d", rank);
    snprintf(value, sizeof value, "a;b;;c=%d;", rank);
    CHECK(PMI2_KVS_Put(key, value) == PMI2_SUCCESS);
    CHECK(PMI2_KVS_Fence() == PMI2_SUCCESS);
    snprintf(key, sizeof key, "key-%d", 1 - rank);
    CHECK(PMI2_KVS_Get(job, 1 - rank, key, value, sizeof value, &length) == PMI2_SUCCESS);
    CHECK(length == 9 && value[7] == '1' - rank && value[8] == ';');
    CHECK(PMI2_KVS_Get(job, PMI2_ID_NULL, "nothing", value, sizeof value, &length) != PMI2_SUCCESS);
    CHECK(PMI2_Info_GetJobAttr("PMI_process_mapping", value, sizeof value, &found) == PMI2_SUCCESS && found);
    CHECK(!strcmp(value, "(vector,(0,1,2))"));
    CHECK(PMI2_Info_GetJobAttr("universeSize", value, sizeof value, &found) == PMI2_SUCCESS && found);
    CHECK(PMI2_Info_GetJobAttr("no such", value, sizeof value, &found) == PMI2_SUCCESS && !found);
    if (rank == 0) {
        CHECK(PMI2_Info_PutNodeAttr("segment", "/shm;1") == PMI2_SUCCESS);
        CHECK(PMI2_Nameserv_publish("a service", NULL, "port;1") == PMI2_SUCCESS);
        CHECK(PMI2_Nameserv_publish("a service", NULL, "port;2") != PMI2_SUCCESS);
    }
    CHECK(PMI2_Info_GetNodeAttr("segment", value, sizeof value, &found, 1) == PMI2_SUCCESS && found);
    CHECK(!strcmp(value, "/shm;1"));
    CHECK(PMI2_KVS_Fence() == PMI2_SUCCESS);
    CHECK(PMI2_Nameserv_lookup("a service", NULL, value, sizeof value) == PMI2_SUCCESS && !strcmp(value, "port;1"));
    CHECK(PMI2_KVS_Fence() == PMI2_SUCCESS);
    if (rank == 0) {
        CHECK(PMI2_Nameserv_unpublish("a service", NULL) == PMI2_SUCCESS);
        CHECK(PMI2_Nameserv_lookup("a service", NULL, value, sizeof value) != PMI2_SUCCESS);
        CHECK(spawn(argv[0]) == 0);
    }
    CHECK(PMI2_Finalize() == PMI2_SUCCESS);
    printf("rank %d is done\n", rank);
    return 0;
}
