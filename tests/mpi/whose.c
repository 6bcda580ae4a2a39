/* Tells which PMIx libraries are mapped into this process and into its ancestors of the job, from /proc/PID/maps:
 * "rank PATH", then for each ancestor that has one "orted PATH" or "mpirun PATH", with PRRTE "prted PATH" or "prterun PATH".
 * "announces TEXT" has the text of the rank's PMIx_Get_version, if that function is in sight. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void tell(const char *who, int pid)
{
    char name[64], line[4400], last[4400] = "";
    snprintf(name, sizeof name, "/proc/%d/maps", pid);
    FILE *maps = fopen(name, "r");
    if (!maps) {
        printf("whose %s unreadable\n", who);
        return;
    }
    while (fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/');
        if (!path || !(strstr(path, "libpmix.so") || strstr(path, "libmodex-pmix.so"))) continue;
        path[strcspn(path, "\n")] = 0;
        if (strcmp(path, last) == 0) continue;
        strcpy(last, path);
        printf("whose %s %s\n", who, path);
    }
    if (!*last) printf("whose %s none\n", who);
    fclose(maps);
}

static int is_launcher(const char *comm)
{
    const char *names[] = {"mpirun", "orterun", "orted", "prterun", "prted"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(comm, names[i]) == 0) return 1;
    return 0;
}

static int parent_of(int pid, char *comm)
{
    char name[64], line[256];
    int parent = 0;
    snprintf(name, sizeof name, "/proc/%d/status", pid);
    FILE *status = fopen(name, "r");
    if (!status) return 0;
    while (fgets(line, sizeof line, status)) {
        sscanf(line, "Name: %63s", comm);
        sscanf(line, "PPid: %d", &parent);
    }
    fclose(status);
    return parent;
}

int main(int argc, char **argv)
{
    char comm[64] = "";

    MPI_Init(&argc, &argv);
    tell("rank", getpid());
    const char *(*version)(void) = (const char *(*)(void))dlsym(RTLD_DEFAULT, "PMIx_Get_version");
    if (version) printf("announces %s\n", version());
    for (int pid = parent_of(getpid(), comm); pid > 1;) {
        int parent = parent_of(pid, comm);
        if (is_launcher(comm)) tell(comm, pid);
        pid = parent;
    }
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD); /* nobody goes before all have looked */
    MPI_Finalize();
    return 0;
}
