/* Rank 0 publishes a name, and the last rank looks it up: before, meanwhile and afterwards. No port is opened: some
 * builds of MPICH and Intel MPI can't open one, whatever the launcher. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static char service[] = "modex test service";

static void expect(int is_right, int code)
{
    if (!is_right) MPI_Abort(MPI_COMM_WORLD, code);
}

static int look_up(char *found)
{
    return MPI_Lookup_name(service, MPI_INFO_NULL, found);
}

int main(int argc, char **argv)
{
    const char *port = "tag#7$description#host$port#4711$";
    char found[MPI_MAX_PORT_NAME] = "";
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == size - 1) expect(look_up(found) != MPI_SUCCESS, 3);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        expect(MPI_Publish_name(service, MPI_INFO_NULL, port) == MPI_SUCCESS, 5);
        expect(MPI_Publish_name(service, MPI_INFO_NULL, port) != MPI_SUCCESS, 6);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1) {
        expect(look_up(found) == MPI_SUCCESS, 7);
        expect(strcmp(found, port) == 0, 8);
        printf("found\n");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) expect(MPI_Unpublish_name(service, MPI_INFO_NULL, port) == MPI_SUCCESS, 9);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1) {
        expect(look_up(found) != MPI_SUCCESS, 10);
        printf("gone\n");
    }
    MPI_Finalize();
    return 0;
}
