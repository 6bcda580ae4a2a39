//! The environment of processes that are about to start.

use modex::Server;
use modex::types::{Namespace, Status};

use super::environment::Environment;
use super::state::{self, Job, ServerProcess};
use crate::argument::{In, InOut};
use crate::form::Argv;
use crate::from_c;
use crate::guard::{Failure, guard};
use crate::types::{pmix_proc_t, pmix_status_t};

/// Adds the variables that a process needs to find this server, and those that `PMIx_server_setup_local_support`
/// prepared for its job. The caller's array and its strings are libc's memory; the array may move. Works in a forked
/// child of the server as well, without waiting for the parent: Slurm calls it there, before `exec`.
///
/// The host registers the job first: otherwise the server refuses the process as a client, and a line of the log says
/// so. The variables of a tool need no registration. With the info `modex.strict_order` of `PMIx_server_init`, a job
/// that is unknown (`PMIX_ERR_INVALID_NAMESPACE`) or without local support (`PMIX_ERR_INVALID_OPERATION`) is refused.
///
/// If the job's description or its local support names Open MPI as the programming model, the process gets variables
/// such as `OMPI_COMM_WORLD_RANK`, unless the caller is a forked child. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_setup_fork(proc: In<'_, pmix_proc_t>, env: InOut<'_, Argv>) -> pmix_status_t {
    guard(|| {
        let process = state::here_or_in_parent()?;
        let proc = from_c::some_proc(proc, None)?;
        let mut environment = Environment::open(env.own("environment")?)?;
        let job = process.jobs.read(|jobs| jobs.get(&proc.namespace).cloned()).unwrap_or_default();
        if proc.namespace != process.server().proc().namespace {
            check_order(&process, &proc.namespace, &job)?;
        }
        Server::REMOVED_VARIABLES.iter().try_for_each(|name| environment.unset(name.as_bytes()))?;
        for (name, value) in process.server().variables_of(&proc)? {
            environment.set(name.as_bytes(), value.as_bytes())?;
        }
        // A forked child can't wait for the server's thread, which it does not have.
        if state::current().is_ok() {
            for (name, value) in process.server().variables_of_model(&proc) {
                environment.set(name.as_bytes(), value.as_bytes())?;
            }
        }
        job.changes.iter().try_for_each(|change| environment.apply(change))?;
        Ok(())
    })
}

/// OpenPMIx gives variables for any namespace, and hosts of tools count on that. A host that wants errors says so.
fn check_order(process: &ServerProcess, namespace: &Namespace, job: &Job) -> Result<(), Failure> {
    // The log has a lock, which a forked child must not wait for.
    let may_log = state::current().is_ok();
    match (process.is_order_strict, job.is_registered, job.is_supported) {
        (false, false, _) if may_log => {
            tracing::warn!(%namespace, "PMIx_server_setup_fork: the job is not registered; its processes can come as tools only");
        }
        (true, false, _) => return Err(Failure(Status::ERR_INVALID_NAMESPACE)),
        (true, true, false) => return Err(Failure(Status::ERR_INVALID_OPERATION)),
        _ => {}
    }
    Ok(())
}
