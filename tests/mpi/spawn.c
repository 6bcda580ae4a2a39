/* Parents start children (this program again), join them in one communicator, compute, and part.
 * usage: spawn [HOST]   all children on this host */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define CHILDREN 2

static void together(MPI_Comm inter, int high, const char *who)
{
    MPI_Comm all;
    int rank, size, remote, sum;

    MPI_Comm_remote_size(inter, &remote);
    MPI_Intercomm_merge(inter, high, &all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all);
    if (sum != size * (size - 1) / 2) MPI_Abort(MPI_COMM_WORLD, 3);
    printf("%s merged=%d size=%d remote=%d\n", who, rank, size, remote);
    fflush(stdout);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&inter);
}

int main(int argc, char **argv)
{
    MPI_Comm parent, children;
    MPI_Info where = MPI_INFO_NULL;
    int codes[CHILDREN], rank;
    char *arguments[] = {"child", NULL};

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_parent(&parent);
    if (argc > 1 && strcmp(argv[1], "child") == 0) {
        if (parent == MPI_COMM_NULL) MPI_Abort(MPI_COMM_WORLD, 4);
        together(parent, 1, "child");
    } else {
        if (parent != MPI_COMM_NULL) MPI_Abort(MPI_COMM_WORLD, 5);
        if (argc > 1) {
            MPI_Info_create(&where);
            MPI_Info_set(where, "host", argv[1]);
        }
        MPI_Comm_spawn(argv[0], arguments, CHILDREN, where, 0, MPI_COMM_WORLD, &children, codes);
        if (rank == 0)
            for (int i = 0; i < CHILDREN; i++)
                if (codes[i] != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 6);
        if (where != MPI_INFO_NULL) MPI_Info_free(&where);
        together(children, 0, "parent");
    }
    MPI_Finalize();
    return 0;
}
