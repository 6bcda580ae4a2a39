//! A server that a tool has started, as a debugger starts a launcher, waits in `PMIx_server_init` until the tool
//! releases it.
//!
//! It serves the tool on its own connection meanwhile, as servers of OpenPMIx do. Its host answers other tools that
//! connect meanwhile.

use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use modex::types::codes::range::RANGE_SESSION;
use modex::types::{AsStatus, Info, Key, ProcId, Rank, Status, Value};
use modex::{Client, GetOptions, Server, ToolDirections, keys};

use super::state;
use crate::guard::Failure;
use crate::parent;

/// Waits for the tool that has started this process, if a tool has.
///
/// # Errors
/// When the tool can't be reached, or ends before the release: such a server must not run on.
pub(super) fn wait_for_tool() -> Result<(), Failure> {
    let Some(address) = parent::trusted_address() else { return Ok(()) };
    parent::forget_address();
    let process = state::current()?;
    let server = process.server();
    let (sender, receiver) = mpsc::channel();
    let heard = sender.clone();
    let own = server.register_event_handler(&[Status::DEBUGGER_RELEASE], &[], move |call| {
        // The waiting thread may have gone on already.
        let _ = heard.send(call.status);
        call.complete(Status::EVENT_ACTION_COMPLETE, Vec::new());
    });
    let own = own.wait()?;
    let waited = attach(server, address, sender).and_then(|attached| {
        let outcome = receiver.recv().map_err(|_| Failure(Status::ERR_LOST_CONNECTION));
        // A wait for the end of a handler does not fail.
        let _ = attached.client.deregister_event_handler(attached.registration).wait();
        outcome
    });
    let _ = server.deregister_event_handler(own).wait();
    match waited? {
        Status::DEBUGGER_RELEASE => Ok(()),
        other => {
            tracing::error!(
                "the PMIx server can't be started: the tool that has started it has gone before the release"
            );
            Err(Failure(other))
        }
    }
}

/// The tool, and the registration for its release.
struct Attached {
    client: Client,
    registration: usize,
}

/// Connects to the tool, keeps its directives for the host, and tells it that this process waits.
fn attach(server: &Server, address: String, sender: Sender<Status>) -> Result<Attached, Failure> {
    let directions = ToolDirections {
        name: Some(server.proc().clone()),
        address: Some(address),
        time_max: Some(CONNECT_TIME_MAX),
        ..ToolDirections::default()
    };
    let client = server.serve_parent(&directions).map_err(|error| {
        tracing::error!(%error, "the PMIx server can't be started: it can't reach the tool that has started it");
        Failure(error.status())
    })?;
    let job = ProcId { namespace: server.proc().namespace.clone(), rank: Rank::Wildcard };
    server.store_internal(&job, Key::from_static(keys::PARENT_ID.name()), client.server().clone())?;
    if let Some(directives) = directives(&client, &job) {
        server.store_internal(&job, Key::from_static(keys::LAUNCH_DIRECTIVES.name()), directives)?;
    }
    let registration = client.on_release(move |status, _| {
        // The waiting thread may have gone on already.
        let _ = sender.send(status);
    })?;
    let infos = [
        Info::new(Key::from_static(keys::NSPACE.name()), server.proc().namespace.as_str()),
        Info::new(Key::from_static(keys::EVENT_AFFECTED_PROC.name()), server.proc().clone()),
        Info::new(Key::from_static(keys::EVENT_NON_DEFAULT.name()), true),
    ];
    // The release may come all the same, so this is no failure.
    if let Err(error) = client.notify_event(Status::LAUNCHER_READY, None, RANGE_SESSION, &infos).wait() {
        tracing::debug!(%error, "this process can't tell its tool that it waits");
    }
    tracing::info!(tool = %client.server(), "this server waits for the tool that has started it");
    Ok(Attached { client, registration })
}

/// The tool's directives for the job of this launcher.
fn directives(client: &Client, job: &ProcId) -> Option<Value> {
    let found = client.get_value(job, keys::LAUNCH_DIRECTIVES.name(), &GetOptions::new().optional());
    found.ok()?.into_value().ok()
}

/// How long the tool may take to admit this process, and to describe its job.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
