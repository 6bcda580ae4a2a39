use std::sync::Arc;

use crate::client::CallError;
use crate::events::Event;
use crate::runtime::{EventCall, EventError, Session, handler_calls};
use crate::server::HostCall;
use crate::types::AsStatus;
use crate::types::codes::range;
use crate::types::{Info, ProcId, Status};

use super::client::Client;
use super::pending::sealed::Sealed;
use super::pending::{Operation, Pending};
use super::round_trip::RequestTarget;
use super::server::Server;
use super::server_call::{Begun, ServerCall};

/// The functions about handlers, the same for a client and for the server's own process.
macro_rules! handler_functions {
    ($who:ident, $first:literal, $thread:literal, $waits:literal) => {
        impl $who {
            /// Registers `handler` for events with these codes (none: a default handler, for every event that is not
            /// marked otherwise). The result is the registration's number, counted from
            #[doc = concat!($first, ".")]
            /// Handlers run on
            #[doc = concat!($thread, ",")]
            /// one at a time; they may call any function. When the result is there, events are delivered; events that
            /// the server has kept follow. The callback of [`Pending::then`] returns before any event comes.
            #[doc = $waits]
            ///
            /// `directives`: `PMIX_EVENT_HDLR_*`, `PMIX_RANGE` with `PMIX_EVENT_CUSTOM_RANGE` (restrict by source),
            /// `PMIX_EVENT_AFFECTED_PROC(S)`, `PMIX_EVENT_RETURN_OBJECT` (handed back in each call),
            /// `PMIX_EVENT_ONESHOT`.
            ///
            /// ```no_run
            /// use modex::types::Status;
            ///
            #[doc = concat!("# fn example(process: &modex::", stringify!($who), ") -> Result<(), modex::EventError> {")]
            /// let id = process.register_event_handler(&[Status::EVENT_NODE_DOWN], &[], |call| {
            ///     println!("{}", call.status);
            ///     call.complete(Status::SUCCESS, Vec::new());
            /// });
            /// let id = id.wait()?;
            /// process.deregister_event_handler(id).wait()?;
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// Fails with [`EventError`].
            pub fn register_event_handler(
                &self,
                codes: &[Status],
                directives: &[Info],
                handler: impl Fn(EventCall) + Send + Sync + 'static,
            ) -> Pending<HandlerRegistration> {
                let (codes, directives, handler) = (codes.to_vec(), directives.to_vec(), Arc::new(handler));
                Pending(HandlerRegistration { target: self.target(), codes, directives, handler })
            }

            /// Ends a registration. When the result is there, the handler will not be called again, and runs nowhere.
            /// [`Pending::wait`] does not wait for a running call if the caller is a handler, or if the handler has not
            /// returned for a second, because it may wait for a lock of the caller. The callback of [`Pending::then`]
            /// runs after a running call, on the thread of the handlers. An unknown number counts as ended.
            ///
            /// Fails with [`EventError`] if there is no thread for the callback. A wait does not fail.
            pub fn deregister_event_handler(&self, id: usize) -> Pending<HandlerEnd> {
                Pending(HandlerEnd { target: self.target(), id })
            }
        }
    };
}

handler_functions!(Client, "0", "a thread of the client", "");
handler_functions!(
    Server,
    "1",
    "the thread of the host's functions",
    "A registration for codes of the environment asks the host: a function of the host can't wait for that \
     ([`EventError::WouldBlock`]) and takes [`Pending::then`]."
);

/// The registration of an event handler, as an operation whose result is its number.
pub struct HandlerRegistration {
    target: RequestTarget,
    codes: Vec<Status>,
    directives: Vec<Info>,
    handler: Arc<dyn Fn(EventCall) + Send + Sync>,
}

impl Sealed for HandlerRegistration {}

impl Operation for HandlerRegistration {
    type Output = usize;
    type Error = EventError;

    fn run(self) -> Result<usize, EventError> {
        let Self { target, codes, directives, handler } = self;
        match target {
            RequestTarget::Session(session) => handler_calls::register(&*session, &codes, &directives, handler),
            RequestTarget::Host(own) => handler_calls::register(&*own, &codes, &directives, handler),
        }
    }

    fn run_with(self, callback: impl FnOnce(Result<usize, EventError>) + Send + 'static) -> Result<(), EventError> {
        let Self { target, codes, directives, handler } = self;
        match target {
            RequestTarget::Session(session) => {
                handler_calls::register_with(&*session, &codes, &directives, handler, callback)
            }
            RequestTarget::Host(own) => handler_calls::register_with(&*own, &codes, &directives, handler, callback),
        }
    }
}

/// The end of an event handler, as an operation.
pub struct HandlerEnd {
    target: RequestTarget,
    id: usize,
}

impl Sealed for HandlerEnd {}

impl Operation for HandlerEnd {
    type Output = ();
    type Error = EventError;

    fn run(self) -> Result<(), EventError> {
        match self.target {
            RequestTarget::Session(session) => handler_calls::deregister(&*session, self.id),
            RequestTarget::Host(own) => handler_calls::deregister(&*own, self.id),
        }
        Ok(())
    }

    fn run_with(self, callback: impl FnOnce(Result<(), EventError>) + Send + 'static) -> Result<(), EventError> {
        let end = || callback(Ok(()));
        match self.target {
            RequestTarget::Session(session) => handler_calls::deregister_with(&*session, self.id, end),
            RequestTarget::Host(own) => handler_calls::deregister_with(&*own, self.id, end),
        }
    }
}

impl Client {
    /// Notifies the processes in range (`codes::range`) of an event, including this process's own handlers. Other
    /// processes see this process as the source. `source` is for this process's own handlers (`None`: this process).
    ///
    /// Fails with [`NotifyError`] if the server refused or is unreachable. Own handlers are called all the same.
    pub fn notify_event(
        &self,
        status: Status,
        source: Option<&ProcId>,
        range: u8,
        info: &[Info],
    ) -> Pending<Notification> {
        let event = self.event(status, source, range, info);
        Pending(Notification { session: Arc::clone(self.session()), event })
    }

    /// Delivers an event to this process's own handlers alone, on the calling thread, before it returns. If a handler
    /// completes its call later, the handlers after it run on the thread of the handlers.
    pub fn deliver_locally(&self, status: Status, source: Option<&ProcId>, info: &[Info]) {
        self.session.deliver_locally(self.event(status, source, range::RANGE_PROC_LOCAL, info));
    }

    fn event(&self, status: Status, source: Option<&ProcId>, range: u8, info: &[Info]) -> Event {
        Event { status, source: Some(source.unwrap_or(self.proc()).clone()), range, info: info.to_vec() }
    }
}

/// A notification as an operation.
pub struct Notification {
    session: Arc<Session>,
    event: Event,
}

/// Reason of a failed notification.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NotifyError {
    /// The server refused or is unreachable.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The callback has no thread.
    #[error(transparent)]
    Event(#[from] EventError),
}

impl AsStatus for NotifyError {
    fn status(&self) -> Status {
        match self {
            Self::Call(error) => error.status(),
            Self::Event(error) => error.status(),
        }
    }
}

impl Notification {
    /// Without a server, no host can honour a required directive.
    fn check(&self) -> Result<(), NotifyError> {
        let has_server = self.event.range != range::RANGE_PROC_LOCAL && !self.session.is_alone();
        let is_refused = !has_server && self.event.needs_a_host();
        if is_refused { Err(EventError::Refused(Status::ERR_NOT_SUPPORTED).into()) } else { Ok(()) }
    }
}

impl Sealed for Notification {}

impl Operation for Notification {
    type Output = ();
    type Error = NotifyError;

    fn run(self) -> Result<(), NotifyError> {
        self.check()?;
        Ok(self.session.notify_event(self.event)?)
    }

    fn run_with(self, callback: impl FnOnce(Result<(), NotifyError>) + Send + 'static) -> Result<(), NotifyError> {
        self.check()?;
        Ok(self.session.notify_event_with(self.event, |result| callback(result.map_err(NotifyError::Call)))?)
    }
}

impl Server {
    /// Notifies local clients in range (`codes::range`) and this process's own handlers of an event of the host.
    /// `source` `None` means the host. The host gets no upcall for it. An event that must not leave this process goes
    /// to its handlers alone.
    ///
    /// Fails with [`ServerError`](super::ServerError).
    pub fn notify_event(
        &self,
        status: Status,
        source: Option<&ProcId>,
        range: u8,
        info: &[Info],
    ) -> Pending<ServerCall<()>> {
        let event = Event { status, source: source.cloned(), range, info: info.to_vec() };
        if range != range::RANGE_PROC_LOCAL {
            return self.call("tell of the event", HostCall::NotifyEvent(event));
        }
        let own = self.handle.own_process();
        let raiser = Arc::clone(own);
        Pending(ServerCall::begin(Arc::clone(own), move || {
            raiser.raise_event(event);
            Begun::Over(Ok(()))
        }))
    }
}
