/* Ranks that are killed at a moment given in advance, wherever they are then: before MPI_Init, in it, among messages, in
 * MPI_Finalize, or after it.
 * usage: killed ROUNDS [RANK MICROSECONDS]... */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

static void die(int signal_number)
{
    (void)signal_number;
    raise(SIGKILL);
}

/* The rank is known before MPI_Init from the launcher's variable alone. */
static void arm(int argc, char **argv)
{
    const char *own = getenv("OMPI_COMM_WORLD_RANK");
    for (int i = 2; own != NULL && i + 1 < argc; i += 2) {
        long microseconds = atol(argv[i + 1]);
        if (atoi(argv[i]) != atoi(own)) continue;
        struct itimerval after = {.it_value = {microseconds / 1000000, microseconds % 1000000 + 1}};
        signal(SIGALRM, die);
        setitimer(ITIMER_REAL, &after, NULL);
    }
}

int main(int argc, char **argv)
{
    int rank, size, sum = 0, rounds = argc > 1 ? atoi(argv[1]) : 0;

    arm(argc, argv);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int round = 0; round < rounds; round++) MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0) printf("sum %d of %d\n", sum, size);
    return 0;
}
