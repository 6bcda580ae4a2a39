//! Callbacks that run once: with the result of their work, or with an error when the server ends.

use std::collections::BTreeMap;

use modex::types::Status;
use parking_lot::Mutex;

use crate::guard::Failure;

/// The callbacks of work that has not ended ([`super::long_work`]).
#[derive(Default)]
pub(super) struct OpenWork(Mutex<OpenCallbacks>);

#[derive(Default)]
struct OpenCallbacks {
    has_ended: bool,
    next: u64,
    by_number: BTreeMap<u64, Box<dyn FnOnce(Status) + Send>>,
}

/// A callback that runs once.
pub(super) struct OnceCallback<F>(Mutex<Option<F>>);

impl<F> OnceCallback<F> {
    pub(super) const fn new(callback: F) -> Self {
        Self(Mutex::new(Some(callback)))
    }

    pub(super) fn call<R>(&self, result: Result<R, Status>)
    where
        F: FnOnce(Result<R, Status>),
    {
        let callback = self.0.lock().take();
        if let Some(callback) = callback {
            callback(result);
        }
    }
}

impl OpenWork {
    /// Adds a callback, which takes an error. Returns its number.
    ///
    /// # Errors
    /// `ERR_INIT`: the server has ended.
    pub(super) fn add(&self, callback: impl FnOnce(Status) + Send + 'static) -> Result<u64, Failure> {
        let mut open = self.0.lock();
        if open.has_ended {
            return Err(Failure(Status::ERR_INIT));
        }
        let number = open.next;
        open.next += 1;
        open.by_number.insert(number, Box::new(callback));
        Ok(number)
    }

    /// Removes a callback whose work has ended.
    pub(super) fn remove(&self, number: u64) {
        let removed = self.0.lock().by_number.remove(&number);
        drop(removed);
    }

    /// Calls the callbacks whose work has not ended, because the server has ended. The work may go on, and its result is
    /// dropped.
    pub(super) fn end(&self) {
        let mut open = self.0.lock();
        open.has_ended = true;
        let callbacks = std::mem::take(&mut open.by_number);
        drop(open);
        callbacks.into_values().for_each(|callback| callback(Status::ERR_UNREACH));
    }
}
