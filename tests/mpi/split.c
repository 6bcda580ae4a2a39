/* Divides the ranks into even and odd ones; rank 0 says how many each half counts. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, size, members = 0, one = 1, halves[2] = {0, 0}, sums[2];
    MPI_Comm half;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Allreduce(&one, &members, 1, MPI_INT, MPI_SUM, half);
    /* The last rank of each half has the lowest key. */
    int first;
    MPI_Comm_rank(half, &first);
    if (first == 0) halves[rank % 2] = members;
    MPI_Reduce(halves, sums, 2, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("split even=%d odd=%d\n", sums[0], sums[1]);
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
