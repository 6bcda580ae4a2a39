/* Sums a vector over all ranks, with every thread level granted, and compares each element with the formula. */
#include <mpi.h>
#include <stdio.h>

#define COUNT 20000

static double vector[COUNT];

int main(int argc, char **argv)
{
    int rank, size, level, most;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < COUNT; i++) vector[i] = (double)rank + i;
    MPI_Allreduce(MPI_IN_PLACE, vector, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; i++)
        if (vector[i] != size * (size - 1) / 2.0 + (double)size * i) MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Allreduce(&rank, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("allreduce size=%d most=%d\n", size, most);
    MPI_Finalize();
    return 0;
}
