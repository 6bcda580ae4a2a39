use crate::client::CallError;
use crate::events::RegistrationError;
use crate::gds::AsStatus;
use crate::runtime::{EventCall, Stopped};
use crate::types::{Info, ProcId, Status};

use super::client::Client;
use super::server::{Server, ServerError};

/// Why a call about event handlers failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// The registration makes no sense, or its place is taken.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    /// No handler has this number.
    #[error("there is no event handler {id}; it was deregistered, or never registered")]
    Unknown {
        /// The number.
        id: usize,
    },
    /// The server refused or could not be asked.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The server in this process, or its host, refused.
    #[error("the event can't be registered or passed on: {0}")]
    Refused(Status),
    /// The server in this process has ended.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// No thread could be started for handlers and callbacks; nothing was begun.
    #[error("no thread for event handlers can be started: {}", .0)]
    Thread(std::io::ErrorKind),
}

impl AsStatus for EventError {
    fn status(&self) -> Status {
        match self {
            Self::Registration(error) => error.status(),
            Self::Unknown { .. } => Status::ERR_NOT_FOUND,
            Self::Call(error) => error.status(),
            Self::Refused(status) => *status,
            Self::Stopped(_) => Status::ERR_SERVER_NOT_AVAIL,
            Self::Thread(_) => Status::ERR_OUT_OF_RESOURCE,
        }
    }
}

impl Client {
    /// Has `handler` called for events with these codes (none: every event that is not marked otherwise, a default
    /// handler), and gives the registration's number, counted from 0. Handlers run on a thread of the client, one at a
    /// time; they may call any function of the client. When this returns, events are delivered; those that the server
    /// has kept follow.
    ///
    /// `directives`: `PMIX_EVENT_HDLR_*`, `PMIX_RANGE` with `PMIX_EVENT_CUSTOM_RANGE` (restrict by source),
    /// `PMIX_EVENT_AFFECTED_PROC(S)`, `PMIX_EVENT_RETURN_OBJECT` (handed back in each call), `PMIX_EVENT_ONESHOT`.
    ///
    /// # Errors
    /// [`EventError`].
    pub fn register_event_handler(
        &self,
        codes: &[Status],
        directives: &[Info],
        handler: impl Fn(EventCall) + Send + Sync + 'static,
    ) -> Result<usize, EventError> {
        let _ = (codes, directives, handler);
        todo!()
    }

    /// As [`Client::register_event_handler`], without waiting: the number goes to `done`, on the thread of the
    /// handlers, before any event does.
    ///
    /// # Errors
    /// [`EventError`]: `done` will not run.
    pub fn register_event_handler_with(
        &self,
        codes: &[Status],
        directives: &[Info],
        handler: impl Fn(EventCall) + Send + Sync + 'static,
        done: impl FnOnce(Result<usize, EventError>) + Send + 'static,
    ) -> Result<(), EventError> {
        let _ = (codes, directives, handler, done);
        todo!()
    }

    /// Ends a registration. When this returns the handler runs nowhere and will not be called again, except when a
    /// handler is what calls this.
    ///
    /// # Errors
    /// [`EventError::Unknown`], which is harmless.
    pub fn deregister_event_handler(&self, id: usize) -> Result<(), EventError> {
        let _ = id;
        todo!()
    }

    /// As [`Client::deregister_event_handler`], without waiting for a call that is under way: `done` runs when there
    /// is none, on the thread of the handlers.
    ///
    /// # Errors
    /// [`EventError`]: `done` will not run.
    pub fn deregister_event_handler_with(
        &self,
        id: usize,
        done: impl FnOnce(Result<(), EventError>) + Send + 'static,
    ) -> Result<(), EventError> {
        let _ = (id, done);
        todo!()
    }

    /// Tells those in range (`codes::range`) of an event; this process's own handlers among them. Other processes
    /// see this process as the source, whatever `source` says to its own handlers (`None`: this process).
    ///
    /// # Errors
    /// [`CallError`]: the server refused or could not be asked. Own handlers are called all the same.
    pub fn notify_event(
        &self,
        status: Status,
        source: Option<&ProcId>,
        range: u8,
        info: &[Info],
    ) -> Result<(), CallError> {
        let _ = (status, source, range, info);
        todo!()
    }

    /// As [`Client::notify_event`], without waiting.
    ///
    /// # Errors
    /// [`EventError`]: `done` will not run.
    pub fn notify_event_with(
        &self,
        status: Status,
        source: Option<&ProcId>,
        range: u8,
        info: &[Info],
        done: impl FnOnce(Result<(), CallError>) + Send + 'static,
    ) -> Result<(), EventError> {
        let _ = (status, source, range, info, done);
        todo!()
    }

    /// Delivers an event to this process's own handlers alone, on the calling thread, before it returns. What comes
    /// after a handler that completes its call later runs on the thread of the handlers.
    pub fn deliver_locally(&self, status: Status, source: Option<&ProcId>, info: &[Info]) {
        let _ = (status, source, info);
        todo!()
    }
}

impl Server {
    /// As [`Client::register_event_handler`], for handlers in the server's process. Numbers count from 1. Handlers run
    /// on the thread of the host's functions.
    ///
    /// A registration for codes of the environment asks the host: a function of the host must not wait for it and
    /// takes [`Server::register_event_handler_with`].
    ///
    /// # Errors
    /// [`EventError`].
    pub fn register_event_handler(
        &self,
        codes: &[Status],
        directives: &[Info],
        handler: impl Fn(EventCall) + Send + Sync + 'static,
    ) -> Result<usize, EventError> {
        let _ = (codes, directives, handler);
        todo!()
    }

    /// As [`Server::register_event_handler`], without waiting.
    ///
    /// # Errors
    /// [`EventError`]: `done` will not run.
    pub fn register_event_handler_with(
        &self,
        codes: &[Status],
        directives: &[Info],
        handler: impl Fn(EventCall) + Send + Sync + 'static,
        done: impl FnOnce(Result<usize, EventError>) + Send + 'static,
    ) -> Result<(), EventError> {
        let _ = (codes, directives, handler, done);
        todo!()
    }

    /// As [`Client::deregister_event_handler`].
    ///
    /// # Errors
    /// [`EventError`].
    pub fn deregister_event_handler(&self, id: usize) -> Result<(), EventError> {
        let _ = id;
        todo!()
    }

    /// As [`Client::deregister_event_handler_with`].
    ///
    /// # Errors
    /// [`EventError`]: `done` will not run.
    pub fn deregister_event_handler_with(
        &self,
        id: usize,
        done: impl FnOnce(Result<(), EventError>) + Send + 'static,
    ) -> Result<(), EventError> {
        let _ = (id, done);
        todo!()
    }

    /// Tells local clients in range (`codes::range`) and this process's own handlers of an event that the host
    /// knows of. `source` `None`: the host. The host is not told again.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn notify_event(
        &self,
        status: Status,
        source: Option<&ProcId>,
        range: u8,
        info: &[Info],
    ) -> Result<(), ServerError> {
        let _ = (status, source, range, info);
        todo!()
    }

    /// As [`Server::notify_event`], without waiting.
    ///
    /// # Errors
    /// [`ServerError::Stopped`]: `done` will not run.
    pub fn notify_event_with(
        &self,
        status: Status,
        source: Option<&ProcId>,
        range: u8,
        info: &[Info],
        done: impl FnOnce(Result<(), ServerError>) + Send + 'static,
    ) -> Result<(), ServerError> {
        let _ = (status, source, range, info, done);
        todo!()
    }
}
