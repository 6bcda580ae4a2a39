//! Registration and deregistration of event handlers. Clients and the server's own process share it, but differ in the
//! other side of their requests and in the thread of the handlers.

use std::sync::Arc;

use super::event_error::EventError;
use super::events::{Begun, EventHub, EventLinkId, Handler, Job, WantedEvents};
use crate::events::Registration;
use crate::types::{Info, Status};

/// A process with handlers, and the other side that it asks for events.
pub(crate) trait EventProcess {
    /// A pending request.
    type Asked;

    fn events(&self) -> &Arc<EventHub>;

    /// The number of its link among those of the handlers.
    fn event_link_id(&self) -> EventLinkId;

    /// Runs `begin` after making sure that handlers and callbacks have a thread.
    ///
    /// # Errors
    /// There is no thread, or the caller wants to wait on that very thread. Nothing has begun.
    fn begin<R>(&self, codes: &[Status], waits: bool, begin: impl FnOnce() -> R) -> Result<R, EventError>;

    /// Asks for events; `None`: the process has no server to ask.
    fn ask(&self, wanted: WantedEvents) -> Result<Option<Self::Asked>, EventError>;

    fn wait(&self, asked: Self::Asked) -> Result<(), EventError>;

    /// As [`EventProcess::ask`]; the answer arrives on the handler thread.
    fn ask_with(&self, wanted: WantedEvents, answer: EventAnswer) -> Result<(), EventError>;

    /// Runs something on the handler thread.
    fn defer(&self, job: Job) -> Result<(), EventError>;
}

/// Takes an answer.
pub(crate) type EventAnswer = Box<dyn FnOnce(Result<(), EventError>) + Send>;

/// Registers a handler, and waits until events for it are delivered.
pub(crate) fn register(
    process: &impl EventProcess,
    codes: &[Status],
    directives: &[Info],
    handler: Handler,
) -> Result<usize, EventError> {
    let registration = Registration::parse(codes, directives)?;
    let hub = process.events();
    let ask = |begun: &Begun| begun.request().map(|wanted| process.ask(wanted));
    let by = process.event_link_id();
    let (begun, asked) = process.begin(codes, true, || hub.begin(by, registration, handler, ask))??;
    let answer = match asked.transpose().map(Option::flatten) {
        Ok(None) => Ok(()),
        Ok(Some(asked)) => process.wait(asked),
        Err(error) => Err(error),
    };
    hub.finish(begun, answer)
}

/// As [`register`]; `done` gets the number on the handler thread.
pub(crate) fn register_with(
    process: &impl EventProcess,
    codes: &[Status],
    directives: &[Info],
    handler: Handler,
    done: impl FnOnce(Result<usize, EventError>) + Send + 'static,
) -> Result<(), EventError> {
    enter_with(process, Registration::parse(codes, directives)?, handler, done)
}

/// As [`register_with`], for a parsed registration.
pub(crate) fn enter_with(
    process: &impl EventProcess,
    registration: Registration,
    handler: Handler,
    done: impl FnOnce(Result<usize, EventError>) + Send + 'static,
) -> Result<(), EventError> {
    let codes = registration.codes().to_vec();
    let hub = process.events();
    let ask = |begun: &Begun| {
        let (wanted, begun, events) = (begun.request(), begun.clone(), Arc::clone(hub));
        let finish: EventAnswer = Box::new(move |answer| events.finish_with(begun, answer, done));
        match wanted {
            Some(wanted) => process.ask_with(wanted, finish),
            None => process.defer(Box::new(|| finish(Ok(())))),
        }
    };
    let by = process.event_link_id();
    let (begun, asked) = process.begin(&codes, false, || hub.begin(by, registration, handler, ask))??;
    asked.inspect_err(|_| {
        hub.remove(begun.id);
    })
}

/// Ends a registration. Waits until no call of its handler runs, unless the caller is a handler itself. An unknown
/// number counts as ended.
pub(crate) fn deregister(process: &impl EventProcess, id: usize) {
    let hub = process.events();
    if hub.remove(id) {
        hub.wait_until_returned(id);
    }
}

/// As [`deregister`]; `done` runs on the handler thread once no call of the handler runs.
pub(crate) fn deregister_with(
    process: &impl EventProcess,
    id: usize,
    done: impl FnOnce() + Send + 'static,
) -> Result<(), EventError> {
    let hub = process.events();
    let deferred = process.begin(&[], false, || hub.remove_with(id, Box::new(done)))?;
    deferred.map_err(|_| EventError::Stopped(crate::runtime::shared::event_error::Stopped))
}
