//! Waiting for a debugger inside `PMIx_Init`.

use std::sync::mpsc;

use modex::Client;
use modex::types::{AsStatus, Status};

/// Holds this process, if the job's description says so, until a debugger releases it.
///
/// # Errors
/// When the release can't arrive: a held process must not run on.
pub(crate) fn wait_if_held(client: &Client) -> Result<(), Status> {
    if !client.is_held() {
        return Ok(());
    }
    let (sender, receiver) = mpsc::channel();
    let id = client.on_release(move |status, _| {
        // The waiting thread may have gone on already.
        let _ = sender.send(status);
    });
    let id = id.map_err(|error| error.status())?;
    let outcome = match client.report_waiting().wait() {
        Err(error) if error.status() != Status::ERR_NOT_SUPPORTED => Err(error.status()),
        reported => {
            if reported.is_err() {
                // The server keeps the event for the handlers of its own process.
                tracing::error!(
                    "this process waits for a debugger, and its server's host tells no tool; attach to the server"
                );
            }
            receiver.recv().map_err(|_| Status::ERR_LOST_CONNECTION)
        }
    };
    // A wait for the end of a handler does not fail.
    let _ = client.deregister_event_handler(id).wait();
    match outcome? {
        Status::DEBUGGER_RELEASE => Ok(()),
        other => Err(other),
    }
}
