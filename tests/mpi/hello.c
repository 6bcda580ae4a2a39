/* Says who it is: rank, size, number of its program in the job, its argument, and whom it shares memory with. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size, shared, found, *appnum, *universe;
    char host[256] = "";
    MPI_Comm node;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &shared);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &appnum, &found);
    if (!found) MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &found);
    if (!found || *universe < 1) MPI_Abort(MPI_COMM_WORLD, 4);
    gethostname(host, sizeof host - 1);
    printf("hello rank=%d size=%d app=%d argument=%s host=%s shared=%d\n", rank, size, *appnum,
           argc > 1 ? argv[1] : "-", host, shared);
    MPI_Comm_free(&node);
    MPI_Finalize();
    return 0;
}
