use std::sync::Arc;

use super::link::Link;
use super::results::CallResult;
use crate::client::{CallError, CallId};

/// A fence on its way. In this process only [`StartedFence::wait`] and [`StartedFence::try_wait`] advance it; the
/// server works on it meanwhile. Dropping it does not cancel it.
#[must_use = "the result of the fence is lost"]
pub struct StartedFence {
    link: Arc<Link>,
    call: Option<CallId>,
}

impl StartedFence {
    /// A finished fence.
    pub(super) fn done(link: &Arc<Link>) -> Self {
        Self { link: Arc::clone(link), call: None }
    }

    pub(super) fn new(link: &Arc<Link>, call: CallId) -> Self {
        Self { link: Arc::clone(link), call: Some(call) }
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn wait(mut self) -> Result<(), CallError> {
        match self.call.take() {
            Some(call) => self.link.wait(call).map(drop),
            None => Ok(()),
        }
    }

    /// The result if it is there, else the fence again. Reads the bytes that have arrived, but never waits.
    ///
    /// # Errors
    /// The fence itself when it is not done yet.
    pub fn try_wait(mut self) -> Result<Result<(), CallError>, Self> {
        let done: Option<CallResult> = self.call.and_then(|call| self.link.try_take(call));
        match done {
            Some(result) => {
                self.call = None;
                Ok(result.map(drop))
            }
            None => Err(self),
        }
    }
}

impl Drop for StartedFence {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            self.link.abandon(call);
        }
    }
}

impl std::fmt::Debug for StartedFence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("StartedFence").field(&self.call).finish()
    }
}
