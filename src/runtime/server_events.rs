//! Event handlers in the server's own process.

use std::sync::Arc;

use crossbeam::channel::bounded;

use super::commands::{Command, CommandSender, Completion};
use super::event_error::EventError;
use super::events::{Begun, Handler, Job, Outside};
use super::server_handle::{ServerHandle, Stopped};
use crate::events::{Event, Registration};
use crate::server::{HostCall, HostResult, RegisterEvents};
use crate::types::{Info, Status};

/// The server, for the handlers in its process. They run where the host's functions run.
pub(super) struct HostProcess(pub(super) CommandSender);

impl Outside for HostProcess {
    fn defer(&self, job: Job) {
        // A server that has ended calls no handlers.
        let _ = self.0.send(Command::Run(job));
    }

    fn deregister(&self, codes: Vec<Status>) {
        // Nobody waits for the result.
        let (waiter, _) = bounded(1);
        let _ = self.0.send(Command::Call(HostCall::DeregisterEvents(codes), Completion::Waiter(waiter)));
    }

    fn listen(&self, _: bool) {}
}

impl ServerHandle {
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
        let registration = Registration::parse(codes, directives)?;
        let ask = |begun: &Begun| {
            let (waiter, result) = bounded(1);
            let call = call_of(begun)?;
            Some(self.commands.send(Command::Call(call, Completion::Waiter(waiter))).map(|()| result))
        };
        let (begun, asked) = self.events.begin(registration, handler, ask)?;
        let answer = match asked {
            None => Ok(()),
            Some(Err(_)) => Err(EventError::Stopped(Stopped)),
            Some(Ok(result)) => result.recv().map_err(|_| EventError::Stopped(Stopped)).and_then(answer_of),
        };
        self.events.finish(begun, answer)
    }

    /// As [`ServerHandle::register_event_handler`]; the number goes to `done`, on the thread of the host's functions.
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
        let registration = Registration::parse(codes, directives)?;
        let events = Arc::clone(&self.events);
        let ask = |begun: &Begun| {
            let (call, begun) = (call_of(begun), begun.clone());
            let finish = move |answer| events.finish_with(begun, answer, done);
            match call {
                Some(call) => {
                    let callback = Box::new(|result| finish(answer_of(result)));
                    self.commands.send(Command::Call(call, Completion::Callback(callback)))
                }
                None => self.commands.send(Command::Run(Box::new(|| finish(Ok(()))))),
            }
        };
        let (begun, sent) = self.events.begin(registration, handler, ask)?;
        if sent.is_err() {
            self.events.remove(begun.id);
            return Err(EventError::Stopped(Stopped));
        }
        Ok(())
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

    /// Ends a registration; `done` runs on the thread of the host's functions when the handler runs nowhere.
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
        self.events.when_returned(id, Box::new(|| done(Ok(()))));
        Ok(())
    }

    /// Runs something on the thread of the host's functions.
    ///
    /// # Errors
    /// [`Stopped`]: it will not run.
    pub fn run(&self, job: Box<dyn FnOnce() + Send>) -> Result<(), Stopped> {
        self.commands.send(Command::Run(job)).map_err(|_| Stopped)
    }

    /// Calls the handlers of this process alone.
    pub fn raise_event(&self, event: Event) {
        self.events.raise(event);
    }
}

fn call_of(begun: &Begun) -> Option<HostCall> {
    let (codes, directives) = begun.request()?;
    Some(HostCall::RegisterEvents(RegisterEvents { codes, directives }))
}

fn answer_of(result: HostResult) -> Result<(), EventError> {
    match result {
        HostResult::Status(Status::SUCCESS) | HostResult::Entries(_) => Ok(()),
        HostResult::Status(status) | HostResult::Failed { status, .. } => Err(EventError::Refused(status)),
    }
}

/// Servers count their handlers from 1, as C programs expect.
pub(super) const FIRST_HANDLER: usize = 1;
