//! Forwarded output of other processes, and the functions of this process that take it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::proto::notification;
use crate::server::IofOutput;

/// Takes forwarded output, on the progress thread.
pub type OutputHandler = Arc<dyn Fn(IofOutput) + Send + Sync>;

/// The takers of forwarded output, by this process's own numbers. Servers use 0 for output without a request.
#[derive(Default)]
pub(super) struct Pulls {
    last: u64,
    pub(super) open: BTreeMap<u64, OutputSubscription>,
}

pub(super) struct OutputSubscription {
    handler: OutputHandler,
    /// The server's number, once it has given one.
    pub(super) reference: Option<u64>,
}

impl Pulls {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The job that passes a piece of output to its handler; `None`: the pull is closed.
    pub(super) fn job_for(&self, output: notification::OutputNotice) -> Option<Box<dyn FnOnce() + Send>> {
        let notification::OutputNotice { source, channels, reference, info, bytes } = output;
        let handler = Arc::clone(&self.open.get(&reference)?.handler);
        Some(Box::new(move || handler(IofOutput { source, channel: channels, bytes, info })))
    }

    pub(super) fn insert(&mut self, handler: OutputHandler) -> u64 {
        self.last += 1;
        self.open.insert(self.last, OutputSubscription { handler, reference: None });
        self.last
    }
}
