//! Registration of event handlers and its end, the same for a client and for a server's own process: they differ in whom
//! they ask and where handlers run.

use std::sync::Arc;

use super::event_error::EventError;
use super::events::{Begun, EventHub, Handler, Job};
use crate::events::Registration;
use crate::types::{Info, Status};

/// Who has handlers, and whom it asks for events.
pub(crate) trait Conversation {
    /// A question under way.
    type Asked;

    fn events(&self) -> &Arc<EventHub>;

    /// Begins something after which handlers and callbacks of this process have a thread to run on.
    ///
    /// # Errors
    /// There is no thread, or the caller, who is going to wait, is it. Nothing was begun.
    fn begin<R>(&self, codes: &[Status], waits: bool, begin: impl FnOnce() -> R) -> Result<R, EventError>;

    /// Asks for events; `None`: there is nobody to be asked.
    fn ask(&self, wanted: Wanted) -> Result<Option<Self::Asked>, EventError>;

    fn wait(&self, asked: Self::Asked) -> Result<(), EventError>;

    /// As [`Conversation::ask`]; the answer is given where handlers run.
    fn ask_with(&self, wanted: Wanted, answer: Answer) -> Result<(), EventError>;

    /// Runs something where handlers run.
    fn defer(&self, job: Job) -> Result<(), EventError>;
}

/// Codes (none: default handlers) and directives.
pub(crate) type Wanted = (Vec<Status>, Vec<Info>);

/// Takes an answer.
pub(crate) type Answer = Box<dyn FnOnce(Result<(), EventError>) + Send>;

/// Registers a handler, and waits until events for it are delivered.
pub(crate) fn register(
    conversation: &impl Conversation,
    codes: &[Status],
    directives: &[Info],
    handler: Handler,
) -> Result<usize, EventError> {
    let registration = Registration::parse(codes, directives)?;
    let hub = conversation.events();
    let ask = |begun: &Begun| begun.request().map(|wanted| conversation.ask(wanted));
    let (begun, asked) = conversation.begin(codes, true, || hub.begin(registration, handler, ask))??;
    let answer = match asked.transpose().map(Option::flatten) {
        Ok(None) => Ok(()),
        Ok(Some(asked)) => conversation.wait(asked),
        Err(error) => Err(error),
    };
    hub.finish(begun, answer)
}

/// As [`register`]; the number goes to `done`, where handlers run.
pub(crate) fn register_with(
    conversation: &impl Conversation,
    codes: &[Status],
    directives: &[Info],
    handler: Handler,
    done: impl FnOnce(Result<usize, EventError>) + Send + 'static,
) -> Result<(), EventError> {
    enter_with(conversation, Registration::parse(codes, directives)?, handler, done)
}

/// As [`register_with`], for a registration that is made already.
pub(crate) fn enter_with(
    conversation: &impl Conversation,
    registration: Registration,
    handler: Handler,
    done: impl FnOnce(Result<usize, EventError>) + Send + 'static,
) -> Result<(), EventError> {
    let codes = registration.codes().to_vec();
    let hub = conversation.events();
    let ask = |begun: &Begun| {
        let (wanted, begun, events) = (begun.request(), begun.clone(), Arc::clone(hub));
        let finish: Answer = Box::new(move |answer| events.finish_with(begun, answer, done));
        match wanted {
            Some(wanted) => conversation.ask_with(wanted, finish),
            None => conversation.defer(Box::new(|| finish(Ok(())))),
        }
    };
    let (begun, asked) = conversation.begin(&codes, false, || hub.begin(registration, handler, ask))??;
    asked.inspect_err(|_| {
        hub.remove(begun.id);
    })
}

/// Ends a registration, and waits until its handler runs nowhere, unless a handler is what calls this. A number that no
/// handler has counts as ended.
pub(crate) fn deregister(conversation: &impl Conversation, id: usize) {
    let hub = conversation.events();
    if hub.remove(id) {
        hub.wait_until_returned(id);
    }
}

/// As [`deregister`]; `done` runs where handlers run when this one runs nowhere.
pub(crate) fn deregister_with(
    conversation: &impl Conversation,
    id: usize,
    done: impl FnOnce() + Send + 'static,
) -> Result<(), EventError> {
    let hub = conversation.events();
    hub.remove(id);
    let waiting = conversation.begin(&[], false, || hub.when_returned(id, Box::new(done)))?;
    waiting.map_err(|_| EventError::Stopped(super::server_handle::Stopped))
}
