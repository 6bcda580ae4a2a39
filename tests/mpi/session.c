/* A communicator of all ranks without MPI_Init: a session, its group of processes, and a PMIx group below. */
#include <mpi.h>
#include <stdio.h>

static int failed(const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    printf("%s failed: %s\n", what, text);
    return 3;
}

int main(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int rank, size, sum, code;

    code = MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    if (code != MPI_SUCCESS) return failed("session", code);
    code = MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    if (code != MPI_SUCCESS) return failed("group", code);
    code = MPI_Comm_create_from_group(group, "modex.test", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    if (code != MPI_SUCCESS) return failed("communicator", code);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    printf("session rank=%d size=%d sum=%d\n", rank, size, sum);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
    return 0;
}
