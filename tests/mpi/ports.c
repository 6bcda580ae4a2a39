/* Rank 0 opens a port and publishes it by name; rank 1 looks it up and connects; the name is gone afterwards.
 * With an argument there is one rank: "accept" or "connect", the two halves of the same in two jobs. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char service[64] = "modex-test-service";

static void talk(MPI_Comm other, int mine, int expected)
{
    int theirs = 0;
    MPI_Sendrecv(&mine, 1, MPI_INT, 0, 7, &theirs, 1, MPI_INT, 0, 7, other, MPI_STATUS_IGNORE);
    if (theirs != expected) MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Comm_disconnect(&other);
}

static void serve(int tell)
{
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm client;

    MPI_Open_port(MPI_INFO_NULL, port);
    if (MPI_Publish_name(service, MPI_INFO_NULL, port) != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 4);
    if (tell) MPI_Barrier(MPI_COMM_WORLD);
    printf("published\n");
    fflush(stdout);
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &client);
    talk(client, 11, 22);
    if (MPI_Unpublish_name(service, MPI_INFO_NULL, port) != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 5);
    MPI_Close_port(port);
    printf("served\n");
}

static void ask(void)
{
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm server;

    if (MPI_Lookup_name(service, MPI_INFO_NULL, port) != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 6);
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &server);
    talk(server, 22, 11);
    printf("connected\n");
}

int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME];
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 1) {
        if (strcmp(argv[1], "accept") == 0) serve(0);
        else ask();
    } else {
        if (rank == 0) serve(1);
        else {
            MPI_Barrier(MPI_COMM_WORLD);
            ask();
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1) {
            if (MPI_Lookup_name(service, MPI_INFO_NULL, port) == MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 8);
            printf("gone\n");
        }
    }
    MPI_Finalize();
    return 0;
}
