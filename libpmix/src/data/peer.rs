//! The form of data for another process.
//!
//! | the other process | its form |
//! |---|---|
//! | NULL, or a process of the own job | that of this library |
//! | a server that this process is connected to | that of the connection |
//! | a process that is connected to the server in this process | that of the first connection of its job |
//! | for a server, one of another job | the form that the job's description names (`PMIX_BFROPS_MODULE`) |

use modex::runtime::DataForm;
use modex::types::{AsStatus as _, Key, Namespace, ProcId, Rank, Status};
use modex::{Client, Server, keys};

use crate::argument::In;
use crate::from_c;
use crate::guard::Failure;
use crate::process::{self, Member};
use crate::types::pmix_proc_t;

/// The form of data for a process, or from it.
///
/// # Errors
/// `ERR_NOT_FOUND` when the form is unknown, `ERR_INIT` for a process without initialization, and when `proc` is no
/// process.
pub(super) fn form(proc: In<'_, pmix_proc_t>) -> Result<DataForm, Failure> {
    if proc.is_null() {
        return Ok(DataForm::OWN);
    }
    let member = process::member()?;
    let own = member.proc().namespace;
    let other = from_c::some_proc(proc, Some(&own))?.namespace;
    if other == own {
        return Ok(DataForm::OWN);
    }
    // A daemon may be a tool of another server, and a server itself.
    let is_meant = |client: &Client| client.server().namespace == other && !client.is_alone();
    if let Member::Client(client) = &member
        && is_meant(client)
    {
        return Ok(client.data_form());
    }
    let (attached, server) = process::read(|state| (state.attached.clone(), state.server.clone()));
    if let Some(client) = attached.iter().find(|client| is_meant(client)) {
        return Ok(client.data_form());
    }
    let server = server.ok_or(Failure(Status::ERR_NOT_FOUND))?;
    form_at_server(server.server(), other)
}

/// The form of data from a process. A client takes that of its server for a process that it does not know, as OpenPMIx
/// 6 does.
///
/// # Errors
/// As [`form`].
pub(super) fn form_of_source(proc: In<'_, pmix_proc_t>) -> Result<DataForm, Failure> {
    match (form(proc), process::member()) {
        (Err(Failure(Status::ERR_NOT_FOUND)), Ok(Member::Client(client))) => Ok(client.data_form()),
        (form, _) => form,
    }
}

fn form_at_server(server: &Server, other: Namespace) -> Result<DataForm, Failure> {
    if server.proc().namespace == other {
        return Ok(DataForm::OWN);
    }
    if let Some(form) = server.data_form(&other).map_err(|error| Failure(error.status()))? {
        return Ok(form);
    }
    let job = ProcId { namespace: other, rank: Rank::Wildcard };
    let module = server.find(Some(job), Some(Key::from_static(keys::BFROPS_MODULE.name())), Vec::new()).wait().ok();
    module.and_then(|module| DataForm::of_module(module.as_str()?)).ok_or(Failure(Status::ERR_NOT_FOUND))
}
