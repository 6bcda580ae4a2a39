use std::sync::Arc;

use crate::types::{Info, ProcId, Status};

/// What a process does about an event.
pub type Handler = Arc<dyn Fn(EventCall) + Send + Sync>;

/// One call of an event handler.
///
/// The handlers after it in the chain wait until the call is completed: with [`EventCall::complete`], from inside the
/// handler, later, or from another thread. A call that is dropped was one that did nothing
/// ([`Status::EVENT_NO_ACTION_TAKEN`]).
///
/// Source: PMIx Standard, "Event Notification" (`pmix_notification_fn_t`).
#[derive(Debug)]
pub struct EventCall {
    /// The registration that is called.
    pub handler: usize,
    /// What happened.
    pub status: Status,
    /// To or by whom; `None`: the host. The C interface shows an empty namespace and the undefined rank.
    pub source: Option<ProcId>,
    /// Details, then the handler's own name and object as given at its registration.
    pub info: Vec<Info>,
    /// What the handlers before this one said: for each of them its name with its status, then its results.
    pub results: Vec<Info>,
    /// The duty to say that the call is over.
    pub completion: Completion,
}

/// The duty to complete one call of an event handler. Spent exactly once; dropping it means that nothing was done.
#[derive(Debug)]
#[must_use = "the handlers after this one wait for the completion"]
pub struct Completion {}

impl EventCall {
    /// The handler is done. `status` [`Status::EVENT_ACTION_COMPLETE`] ends the chain; `results` go to the handlers
    /// after it.
    pub fn complete(self, status: Status, results: Vec<Info>) {
        self.completion.complete(status, results);
    }
}

impl Completion {
    /// As [`EventCall::complete`].
    pub fn complete(self, status: Status, results: Vec<Info>) {
        let _ = (status, results);
    }
}
