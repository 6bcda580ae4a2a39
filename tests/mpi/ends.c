/* Rank 1 (or the last) ends as its argument says; the others wait for it in vain.
 * usage: ends abort CODE | exit CODE | signal NUMBER | code CODE */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 3) MPI_Abort(MPI_COMM_WORLD, 2);
    int number = atoi(argv[2]);
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(argv[1], "code") == 0) { /* ends well, with a code of its own */
        MPI_Finalize();
        return rank == size - 1 ? number : 0;
    }
    if (rank == size - 1) {
        if (strcmp(argv[1], "abort") == 0) MPI_Abort(MPI_COMM_WORLD, number);
        if (strcmp(argv[1], "exit") == 0) _exit(number);
        signal(number, SIG_DFL);
        raise(number);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d passed the barrier\n", rank);
    return 0;
}
