//! The results of calls, on their way to the threads and callbacks that wait for them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::client::{CallError, CallId, Outcome};
use crate::runtime::shared::events::Job;

/// The result of a call to the server.
pub(super) type CallResult = Result<Outcome, CallError>;

/// Takes the result of a call, on the progress thread.
pub(super) type CallResultCallback = Box<dyn FnOnce(CallResult) + Send>;

/// Results on their way to their callers.
#[derive(Default)]
pub(super) struct Results {
    /// For calls that a thread will wait for.
    pub(super) kept: BTreeMap<CallId, CallResult>,
    /// Calls whose result goes to a callback.
    pub(super) callbacks: BTreeMap<CallId, CallResultCallback>,
    /// Callbacks with their results, and other jobs for the same thread.
    pub(super) ready: VecDeque<Job>,
    /// Calls whose results are dropped.
    pub(super) abandoned: BTreeSet<CallId>,
}

impl Results {
    /// Passes a result to the callback or the thread that wants it.
    pub(super) fn deliver(&mut self, id: CallId, result: CallResult) {
        if let Some(callback) = self.callbacks.remove(&id) {
            self.ready.push_back(Box::new(|| callback(result)));
        } else if !self.abandoned.remove(&id) {
            self.kept.insert(id, result);
        }
    }

    /// Runs a job on the progress thread, after the callbacks that are ready.
    pub(super) fn push(&mut self, job: Job) {
        self.ready.push_back(job);
    }

    /// Passes the result of a call to a callback, even if the result is there already.
    pub(super) fn give_to(&mut self, id: CallId, callback: CallResultCallback) {
        match self.kept.remove(&id) {
            Some(result) => self.ready.push_back(Box::new(|| callback(result))),
            None => drop(self.callbacks.insert(id, callback)),
        }
    }
}
