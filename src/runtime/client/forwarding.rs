//! Forwarded output of other processes, and the functions of this process that take it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::session::Session;
use crate::proto::notification;
use crate::server::IofOutput;

/// Takes forwarded output, on the progress thread.
pub type OutputHandler = Arc<dyn Fn(IofOutput) + Send + Sync>;

/// The takers of forwarded output, by this process's own numbers. Servers use 0 for output without a request.
#[derive(Default)]
pub(super) struct Pulls {
    last: u64,
    open: BTreeMap<u64, Pull>,
}

struct Pull {
    handler: OutputHandler,
    /// The server's number, once it has given one.
    reference: Option<u64>,
}

impl Pulls {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The job that passes a piece of output to its handler; `None`: the pull is closed.
    pub(super) fn job_for(&self, output: notification::Output) -> Option<Box<dyn FnOnce() + Send>> {
        let notification::Output { source, channels, reference, info, bytes } = output;
        let handler = Arc::clone(&self.open.get(&reference)?.handler);
        Some(Box::new(move || handler(IofOutput { source, channel: channels, bytes, info })))
    }

    fn insert(&mut self, handler: OutputHandler) -> u64 {
        self.last += 1;
        self.open.insert(self.last, Pull { handler, reference: None });
        self.last
    }
}

impl Session {
    /// Opens a pull before its request is sent, and starts the reading of the socket. Returns the number for the
    /// request.
    ///
    /// # Errors
    /// No thread to run the handler could be started.
    pub fn open_pull(&self, handler: OutputHandler) -> std::io::Result<u64> {
        self.progress.begin(&self.link, |link| link.change(|state| state.pulls.insert(handler)))
    }

    /// Keeps the server's number of a pull. Returns whether the pull is open.
    pub fn confirm_pull(&self, id: u64, reference: u64) -> bool {
        self.link().with(|state| match state.pulls.open.get_mut(&id) {
            Some(pull) => {
                pull.reference = Some(reference);
                true
            }
            None => false,
        })
    }

    /// The server's number of a pull; `None` if the pull is not open, or if the server has not granted it.
    #[must_use]
    pub fn pull_reference(&self, id: u64) -> Option<u64> {
        self.link().with(|state| state.pulls.open.get(&id)?.reference)
    }

    /// Closes a pull. Output that still comes for it is discarded.
    pub fn close_pull(&self, id: u64) {
        drop(self.link().with(|state| state.pulls.open.remove(&id)));
    }
}
