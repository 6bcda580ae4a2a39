/* Rank 0 copies its standard input to standard output; every rank writes a line to each of its streams, the others only
 * if there was no input: their lines may come in the middle of it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static char bytes[65536];
    int rank;
    size_t total = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        size_t n;
        while ((n = fread(bytes, 1, sizeof bytes, stdin)) > 0) {
            total += n;
            if (fwrite(bytes, 1, n, stdout) != n) MPI_Abort(MPI_COMM_WORLD, 3);
        }
        fflush(stdout);
    }
    MPI_Bcast(&total, sizeof total, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank == 0 || total == 0) fprintf(stdout, "out of %d\n", rank);
    fprintf(stderr, "err of %d\n", rank);
    if (rank == 0) fprintf(stderr, "read %zu\n", total);
    MPI_Finalize();
    return 0;
}
