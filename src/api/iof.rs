//! Forwarded output.

use std::sync::{Arc, Weak};

use crate::client::{CallError, time_limit};
use crate::proto::{self, Command, Reply, Request};
use crate::runtime::Session;
use crate::server::IofOutput;
use crate::types::{Info, ProcId};

use super::asks::RequestError;
use super::client::Client;

impl Client {
    /// Asks for the output of processes (wildcard rank: all of a namespace) on some channels
    /// ([`crate::types::codes::iof_channel`], without standard input). It goes to `handler`, piece by piece, on a
    /// thread of the client; no bytes mean that the source has closed the channel. From then on the client reads its
    /// connection without a pending call. Returns the number for [`Client::iof_deregister`], counted from 1.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn iof_pull(
        &self,
        procs: Vec<ProcId>,
        directives: Vec<Info>,
        channels: u16,
        handler: impl Fn(IofOutput) + Send + Sync + 'static,
    ) -> Result<u64, RequestError> {
        let limit = time_limit(&directives)?;
        let id = self.open_pull(handler)?;
        let reply = self.session().exchange(pull(procs, directives, channels, id), limit);
        settle_pull(self.session(), id, reply)
    }

    /// As [`Client::iof_pull`], without waiting: the number goes to `callback`, on a thread of the client, never from
    /// inside this function.
    ///
    /// # Errors
    /// [`RequestError`]: the callback will not run.
    pub fn iof_pull_with(
        &self,
        procs: Vec<ProcId>,
        directives: Vec<Info>,
        channels: u16,
        handler: impl Fn(IofOutput) + Send + Sync + 'static,
        callback: impl FnOnce(Result<u64, RequestError>) + Send + 'static,
    ) -> Result<(), RequestError> {
        let limit = time_limit(&directives)?;
        let id = self.open_pull(handler)?;
        let session = Arc::downgrade(self.session());
        let request = pull(procs, directives, channels, id);
        let begun = self.session().exchange_with(request, limit, move |reply| {
            callback(while_held(&session, Command::IofPull, |session| settle_pull(session, id, reply)));
        });
        begun.map_err(|error| {
            self.session().close_pull(id);
            RequestError::Thread(error.kind())
        })
    }

    /// Ends the forwarding that [`Client::iof_pull`] began. Output that arrived before may still be handled; later
    /// output is not.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn iof_deregister(&self, id: u64, directives: Vec<Info>) -> Result<(), RequestError> {
        let limit = time_limit(&directives)?;
        let reply = self.session().exchange(self.deregistration(id, directives)?, limit);
        self.session().close_pull(id);
        Ok(reply.map(drop)?)
    }

    /// As [`Client::iof_deregister`], without waiting: the result goes to `callback`, on a thread of the client, never
    /// from inside this function.
    ///
    /// # Errors
    /// [`RequestError`]: the callback will not run.
    pub fn iof_deregister_with(
        &self,
        id: u64,
        directives: Vec<Info>,
        callback: impl FnOnce(Result<(), RequestError>) + Send + 'static,
    ) -> Result<(), RequestError> {
        let limit = time_limit(&directives)?;
        let request = self.deregistration(id, directives)?;
        let session = Arc::downgrade(self.session());
        let begun = self.session().exchange_with(request, limit, move |reply| {
            if let Some(session) = session.upgrade() {
                session.close_pull(id);
            }
            callback(reply.map(drop).map_err(RequestError::Call));
        });
        begun.map_err(|error| RequestError::Thread(error.kind()))
    }

    fn open_pull(&self, handler: impl Fn(IofOutput) + Send + Sync + 'static) -> Result<u64, RequestError> {
        self.session().open_pull(Arc::new(handler)).map_err(|error| RequestError::Thread(error.kind()))
    }

    fn deregistration(&self, id: u64, directives: Vec<Info>) -> Result<Request, RequestError> {
        let reference = self.session().pull_reference(id).ok_or(RequestError::NoSuchPull { id })?;
        Ok(Request::IofDeregister(proto::IofDeregister { directives, reference }))
    }
}

fn pull(procs: Vec<ProcId>, directives: Vec<Info>, channels: u16, id: u64) -> Request {
    Request::IofPull(proto::IofPull { procs, directives, channels, local_id: Some(id) })
}

/// Settles a pull after the server's answer.
fn settle_pull(session: &Session, id: u64, reply: Result<Reply, CallError>) -> Result<u64, RequestError> {
    let error = match reply {
        Ok(Reply::IofPulled(reference)) => {
            session.confirm_pull(id, reference);
            return Ok(id);
        }
        Ok(_) => CallError::WrongReply { command: Command::IofPull },
        Err(error) => error,
    };
    session.close_pull(id);
    Err(error.into())
}

fn while_held<T>(
    session: &Weak<Session>,
    command: Command,
    act: impl FnOnce(&Session) -> Result<T, RequestError>,
) -> Result<T, RequestError> {
    match session.upgrade() {
        Some(session) => act(&session),
        None => Err(RequestError::Call(CallError::Finalized { command })),
    }
}
