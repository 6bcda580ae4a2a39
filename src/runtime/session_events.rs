//! Event handlers of a client.

use std::sync::{Arc, Weak};

use super::event_error::EventError;
use super::events::{Begun, EventHub, Handler, Job, Outside};
use super::link::{CallResult, Link};
use super::session::Session;
use crate::client::{Call, CallError, CallId};
use crate::events::{Event, Registration};
use crate::proto::{Notify, RegisterEvents, Request};
use crate::types::codes::range;
use crate::types::{Info, ProcId, Status};

/// The conversation, for the handlers. It outlives them, except while the session is dropped.
struct Conversation(Weak<Link>);

/// The handlers of a client, connected with its conversation.
pub(super) fn hub(proc: &ProcId, server: ProcId, link: &Arc<Link>) -> Arc<EventHub> {
    let hub = EventHub::new(proc.clone(), FIRST_HANDLER, link.clock(), Box::new(Conversation(Arc::downgrade(link))));
    link.with(|state| state.set_events(Arc::downgrade(&hub), server));
    hub
}

impl Outside for Conversation {
    fn defer(&self, job: Job) {
        if let Some(link) = self.0.upgrade() {
            link.defer(job);
        }
    }

    fn deregister(&self, codes: Vec<Status>) {
        if let Some(link) = self.0.upgrade() {
            // There is no answer.
            link.abandon(link.start(Call::Exchange(Request::DeregisterEvents(codes))));
        }
    }

    fn listen(&self, is_listening: bool) {
        if let Some(link) = self.0.upgrade() {
            link.listen(is_listening);
        }
    }
}

impl Session {
    /// Registers a handler, and waits until events for it are delivered.
    ///
    /// # Errors
    /// [`EventError`].
    pub fn register_event_handler(
        &self,
        codes: &[Status],
        directives: &[Info],
        handler: Handler,
    ) -> Result<usize, EventError> {
        let (begun, call) = self.begin_registration(codes, directives, handler)?;
        let answer = call.map_or(Ok(()), |call| answer_of(self.link.wait(call)));
        self.events.finish(begun, answer)
    }

    /// As [`Session::register_event_handler`]; the number goes to `done`, on the progress thread.
    ///
    /// # Errors
    /// [`EventError`]: `done` will not run.
    pub fn register_event_handler_with(
        &self,
        codes: &[Status],
        directives: &[Info],
        handler: Handler,
        done: impl FnOnce(Result<usize, EventError>) + Send + 'static,
    ) -> Result<(), EventError> {
        let (begun, call) = self.begin_registration(codes, directives, handler)?;
        let (id, events) = (begun.id, Arc::clone(&self.events));
        let finish = move |result| events.finish_with(begun, result, done);
        let handed_over = self.progress.begin(&self.link, |link| match call {
            Some(call) => link.hand_over(call, Box::new(|result| finish(answer_of(result)))),
            None => link.defer(|| finish(Ok(()))),
        });
        handed_over.map_err(|error| {
            self.events.remove(id);
            EventError::Thread(error.kind())
        })
    }

    /// Ends a registration, and waits until its handler runs nowhere, unless a handler is what calls this.
    ///
    /// # Errors
    /// [`EventError::Unknown`].
    pub fn deregister_event_handler(&self, id: usize) -> Result<(), EventError> {
        if !self.events.remove(id) {
            return Err(EventError::Unknown { id });
        }
        self.events.wait_until_returned(id);
        Ok(())
    }

    /// Ends a registration; `done` runs on the progress thread when the handler runs nowhere.
    ///
    /// # Errors
    /// [`EventError::Unknown`]: `done` will not run.
    pub fn deregister_event_handler_with(
        &self,
        id: usize,
        done: impl FnOnce(Result<(), EventError>) + Send + 'static,
    ) -> Result<(), EventError> {
        if !self.events.remove(id) {
            return Err(EventError::Unknown { id });
        }
        let begun = self.progress.begin(&self.link, |_| self.events.when_returned(id, Box::new(|| done(Ok(())))));
        begun.map_err(|error| EventError::Thread(error.kind()))
    }

    /// Tells those in range of an event. Own handlers are called on the progress thread.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn notify_event(&self, event: Event) -> Result<(), CallError> {
        match self.share(event) {
            Some(notify) => self.link.call(Call::Exchange(notify)).map(drop),
            None => Ok(()),
        }
    }

    /// As [`Session::notify_event`]; `done` runs on the progress thread.
    ///
    /// # Errors
    /// [`EventError::Thread`]: nobody was told, and `done` will not run.
    pub fn notify_event_with(
        &self,
        event: Event,
        done: impl FnOnce(Result<(), CallError>) + Send + 'static,
    ) -> Result<(), EventError> {
        let begun = self.progress.begin(&self.link, |link| match self.share(event) {
            Some(notify) => link.start_with(Call::Exchange(notify), Box::new(|result| done(result.map(drop)))),
            None => link.defer(|| done(Ok(()))),
        });
        begun.map_err(|error| EventError::Thread(error.kind()))
    }

    /// Calls own handlers, and nobody else's, on this thread.
    pub fn deliver_locally(&self, event: Event) {
        self.events.deliver_here(event);
    }

    /// Tells own handlers; gives the request that tells the others.
    fn share(&self, event: Event) -> Option<Request> {
        let Event { status, range, ref info, .. } = event;
        let notify = (range != range::RANGE_PROC_LOCAL && !self.is_alone())
            .then(|| Request::Notify(Notify { status, range, info: info.clone() }));
        let is_valid = event.has_valid_range();
        if is_valid && (notify.is_none() || event.is_meant_for(self.proc())) {
            self.events.raise(event);
        }
        notify
    }

    fn begin_registration(
        &self,
        codes: &[Status],
        directives: &[Info],
        handler: Handler,
    ) -> Result<(Begun, Option<CallId>), EventError> {
        let registration = Registration::parse(codes, directives)?;
        self.progress.begin(&self.link, |_| ()).map_err(|error| EventError::Thread(error.kind()))?;
        let ask = |begun: &Begun| {
            if self.is_alone() {
                return None;
            }
            let (codes, directives) = begun.request()?;
            Some(self.link.start(Call::Exchange(Request::RegisterEvents(RegisterEvents { codes, directives }))))
        };
        Ok(self.events.begin(registration, handler, ask)?)
    }
}

fn answer_of(result: CallResult) -> Result<(), EventError> {
    Ok(result.map(drop)?)
}

/// Clients count their handlers from 0.
const FIRST_HANDLER: usize = 0;
