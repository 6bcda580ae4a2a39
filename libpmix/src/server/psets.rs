//! Process sets that the host defines.

use modex::ServerError;
use modex::types::Status;

use super::state;
use crate::argument::{CText, Count, Items};
use crate::from_c;
use crate::guard::{Failure, guard};
use crate::types::{pmix_proc_t, pmix_status_t};

/// Defines a process set, and notifies the clients of this node (`PMIX_PROCESS_SET_DEFINE`). A set of that name is
/// replaced. Queries find the set. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_define_process_set<'a>(
    members: Items<'a, pmix_proc_t>,
    nmembers: Count<'a, pmix_proc_t>,
    pset_name: CText<'a>,
) -> pmix_status_t {
    guard(|| {
        let process = state::current()?;
        let name = name_of(pset_name)?;
        let members = from_c::procs(members.counted(nmembers), None)?;
        process.bridge.facts.define_process_set(&name, members.clone())?;
        // Does not wait: the host may define sets from inside its functions.
        Ok(process.server().define_process_set(&name, &members).then(report)?)
    })
}

/// Removes a process set, and notifies the clients of this node (`PMIX_PROCESS_SET_DELETE`). See the standard's
/// function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_delete_process_set(pset_name: CText<'_>) -> pmix_status_t {
    guard(|| {
        let process = state::current()?;
        let name = name_of(pset_name)?;
        process.bridge.facts.delete_process_set(&name)?;
        Ok(process.server().delete_process_set(&name).then(report)?)
    })
}

fn name_of(name: CText<'_>) -> Result<String, Failure> {
    let name = from_c::text(name)?.ok_or(Failure(Status::ERR_BAD_PARAM))?;
    match name.to_str() {
        Ok(name) if !name.is_empty() => Ok(name.to_owned()),
        _ => Err(Failure(Status::ERR_BAD_PARAM)),
    }
}

/// Logs a refusal by the core: then only the host's own queries know the set.
fn report(result: Result<(), ServerError>) {
    if let Err(error) = result {
        tracing::warn!(%error, "processes are not told of a process set");
    }
}
