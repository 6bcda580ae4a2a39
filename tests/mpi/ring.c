/* A token goes round the ring three times and grows by each rank it passes; then every rank talks to every other. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 3

int main(int argc, char **argv)
{
    int rank, size, token = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    for (int round = 0; round < ROUNDS; round++) {
        if (rank > 0) MPI_Recv(&token, 1, MPI_INT, previous, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        token += rank;
        if (size > 1) MPI_Send(&token, 1, MPI_INT, next, round, MPI_COMM_WORLD);
        if (rank == 0 && size > 1) MPI_Recv(&token, 1, MPI_INT, previous, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    int *out = malloc(sizeof(int) * (size_t)size), *in = malloc(sizeof(int) * (size_t)size);
    for (int peer = 0; peer < size; peer++) out[peer] = rank * 1000 + peer;
    MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
    for (int peer = 0; peer < size; peer++)
        if (in[peer] != peer * 1000 + rank) MPI_Abort(MPI_COMM_WORLD, 3);
    free(out);
    free(in);
    if (rank == 0) {
        if (token != ROUNDS * size * (size - 1) / 2) MPI_Abort(MPI_COMM_WORLD, 4);
        printf("ring size=%d token=%d\n", size, token);
    }
    MPI_Finalize();
    return 0;
}
