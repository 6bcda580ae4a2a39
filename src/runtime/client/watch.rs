//! Waits for events of other processes: an observer, a time limit, and one end.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::results::CallResult;
use super::session::Session;
use crate::client::{Call, CallError, CallId};
use crate::events::Registration;
use crate::proto::Command;
use crate::runtime::shared::event_error::EventError;
use crate::runtime::shared::events::EventCall;
use crate::runtime::shared::handler_calls::{self, EventProcess};
use crate::types::Status;

/// A wait for events. Clones share it. It ends once: with [`Watch::settle`], with its time limit, or with the
/// connection.
pub(super) struct Watch<T>(Arc<Mutex<Option<Watched<T>>>>);

struct Watched<T> {
    call: CallId,
    observer: Option<usize>,
    session: Weak<Session>,
    failure: Option<EventError>,
    /// The observer's calls that have settled it. Other handlers of these events wait until the end has run, so their
    /// requests reach the server after those of the end.
    settling: Vec<EventCall>,
    state: T,
}

/// The state at the end, and how it ended.
pub(super) struct Ended<T> {
    pub(super) state: T,
    pub(super) result: Result<(), EventError>,
}

impl<T> Clone for Watch<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Send + 'static> Watch<T> {
    /// Listens for events with these codes. `hear` returns whether it was the last one needed. `ready` runs once every
    /// later event is heard; `ended` runs at the end. Both run on the progress thread.
    ///
    /// # Errors
    /// There is no thread, and nothing will run.
    pub(super) fn begin(
        session: &Arc<Session>,
        what: (Command, Option<Duration>),
        codes: &[Status],
        state: T,
        hear: impl Fn(&mut T, &EventCall) -> bool + Send + Sync + 'static,
        ready: impl FnOnce(&Arc<Session>, &Self) + Send + 'static,
        ended: impl FnOnce(&Arc<Session>, Ended<T>) + Send + 'static,
    ) -> Result<(), EventError> {
        let watch = Self(Arc::new(Mutex::new(None)));
        let weak = Arc::downgrade(session);
        let (command, timeout) = what;
        let at_end = watch.clone();
        let begun = session.progress.begin(&session.link, |link| {
            // Held until the state is set, because the callback of the call may come at once.
            let mut watched = watch.0.lock();
            let call =
                link.start_with(Call::Await(command, timeout), Box::new(move |result| at_end.end(result, ended)));
            *watched =
                Some(Watched { call, observer: None, session: weak, failure: None, settling: Vec::new(), state });
        });
        begun.map_err(|error| EventError::Thread(error.kind()))?;
        let (here, there, whose) = (watch.clone(), watch.clone(), Arc::downgrade(session));
        let handler = Arc::new(move |call: EventCall| there.hear(call, &hear));
        let registered = handler_calls::enter_with(&**session, Registration::observer(codes), handler, move |id| {
            if let Some(session) = whose.upgrade() {
                here.registered(&session, id, ready);
            }
        });
        if let Err(error) = registered {
            watch.fail(error);
        }
        Ok(())
    }

    /// Reads the state; `None`: the wait has ended.
    pub(super) fn look<R>(&self, look: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.0.lock().as_mut().map(|watched| look(&mut watched.state))
    }

    /// Ends the wait with success.
    pub(super) fn settle(&self) {
        let settled = self.0.lock().as_ref().map(|watched| (watched.session.clone(), watched.call));
        if let Some((session, call)) = settled
            && let Some(session) = session.upgrade()
        {
            session.link.settle(call);
        }
    }

    /// Ends the wait with an error.
    pub(super) fn fail(&self, error: EventError) {
        if let Some(watched) = self.0.lock().as_mut() {
            watched.failure.get_or_insert(error);
        }
        self.settle();
    }

    fn hear(&self, call: EventCall, hear: impl Fn(&mut T, &EventCall) -> bool) {
        let mut watched = self.0.lock();
        if let Some(watched) = watched.as_mut()
            && hear(&mut watched.state, &call)
        {
            watched.settling.push(call);
        } else {
            return;
        }
        drop(watched);
        self.settle();
    }

    fn registered(
        &self,
        session: &Arc<Session>,
        id: Result<usize, EventError>,
        ready: impl FnOnce(&Arc<Session>, &Self),
    ) {
        match id {
            Ok(id) => {
                let is_over = match self.0.lock().as_mut() {
                    Some(watched) => {
                        watched.observer = Some(id);
                        false
                    }
                    None => true,
                };
                if is_over {
                    session.events().remove(id);
                } else {
                    ready(session, self);
                }
            }
            Err(error) => self.fail(error),
        }
    }

    fn end(&self, result: CallResult, ended: impl FnOnce(&Arc<Session>, Ended<T>)) {
        let Some(watched) = self.0.lock().take() else { return };
        let Watched { observer, session, failure, settling, state, .. } = watched;
        let Some(session) = session.upgrade() else { return };
        if let Some(id) = observer {
            session.events().remove(id);
        }
        let result = match failure {
            Some(error) => Err(error),
            None => result.map(drop).map_err(EventError::Call),
        };
        ended(&session, Ended { state, result });
        drop(settling);
    }
}

impl<T> Ended<T> {
    /// Whether the time limit ended it.
    pub(super) const fn is_late(&self) -> bool {
        matches!(self.result, Err(EventError::Call(CallError::TimedOut { .. })))
    }
}
