//! Forwarded output.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::client::{CallError, UNDERSTOOD_OF_REQUESTS, refuse_required, time_limit};
use crate::proto::{self, Command, Reply, Request};
use crate::runtime::Session;
use crate::server::IofOutput;
use crate::types::{Info, ProcId};

use super::client::Client;
use super::pending::sealed::Sealed;
use super::pending::{Operation, Pending};
use super::round_trip::RequestError;

impl Client {
    /// The most bytes that one [`Client::iof_push`] may have for the server and its host. Push more in several pieces.
    ///
    /// ```no_run
    /// # fn example(client: &modex::Client, input: &[u8]) -> Result<(), modex::RequestError> {
    /// for piece in input.chunks(client.push_bytes_max()) {
    ///     client.iof_push(vec![client.proc().clone()], Vec::new(), piece.to_vec()).wait()?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn push_bytes_max(&self) -> usize {
        self.session().push_bytes_max()
    }

    /// The key of the bytes (`u64`) that a pull has missed before a piece of output.
    pub const MISSED_OUTPUT: &'static str = crate::server::MISSED_OUTPUT;

    /// Asks for the output of processes (wildcard rank: all of a namespace) on some channels
    /// ([`crate::types::codes::iof_channel`], without standard input). It goes to `handler`, piece by piece, on a
    /// thread of the client; no bytes mean that the source has closed the channel. From then on the client reads its
    /// connection without a pending call. Returns the number for [`Client::iof_deregister`], counted from 1. With
    /// [`Pending::then`] output is handled after the callback.
    ///
    /// While a handler is slow, the server drops output beyond 32 MiB. The next piece of the same channel then has the
    /// number of dropped bytes as information [`Client::MISSED_OUTPUT`].
    ///
    /// The directives may bound what the server has kept, and let deliveries wait for more output
    /// ([`OutputSettings`](crate::OutputSettings)).
    ///
    /// Fails with [`RequestError`].
    pub fn iof_pull(
        &self,
        procs: Vec<ProcId>,
        directives: Vec<Info>,
        channels: u16,
        handler: impl Fn(IofOutput) + Send + Sync + 'static,
    ) -> Pending<Pull> {
        let handler = Arc::new(handler);
        Pending(Pull { session: Arc::clone(self.session()), procs, directives, channels, handler })
    }

    /// Takes the output that the server sends without a pull: that of the jobs that a tool spawns, on all channels but
    /// those with `PMIX_FWD_STDOUT` or its like = false. It goes to `handler` as in [`Client::iof_pull`]. A tool calls
    /// this before the spawn. Without a handler this output is dropped.
    ///
    /// # Errors
    /// No thread to run the handler could be started.
    pub fn take_output(&self, handler: impl Fn(IofOutput) + Send + Sync + 'static) -> std::io::Result<()> {
        self.session().take_output(Arc::new(handler))
    }

    /// Ends the forwarding that [`Client::iof_pull`] began. Output that arrived before may still be handled; later
    /// output is not.
    ///
    /// Fails with [`RequestError`].
    pub fn iof_deregister(&self, id: u64, directives: Vec<Info>) -> Pending<PullEnd> {
        Pending(PullEnd { session: Arc::clone(self.session()), id, directives })
    }
}

/// A request for output, as an operation whose result is the number of the pull.
pub struct Pull {
    session: Arc<Session>,
    procs: Vec<ProcId>,
    directives: Vec<Info>,
    channels: u16,
    handler: Arc<dyn Fn(IofOutput) + Send + Sync>,
}

impl Pull {
    /// Opens the pull here, and makes its request.
    fn open(&mut self) -> Result<(u64, Request, Option<Duration>), RequestError> {
        let limit = time_limit(&self.directives)?;
        let opened = self.session.open_pull(Arc::clone(&self.handler));
        let id = opened.map_err(|error| RequestError::Thread(error.kind()))?;
        let (procs, directives) = (std::mem::take(&mut self.procs), std::mem::take(&mut self.directives));
        let request = proto::IofPull { procs, directives, channels: self.channels, local_id: Some(id) };
        Ok((id, Request::IofPull(request), limit))
    }
}

impl Sealed for Pull {}

impl Operation for Pull {
    type Output = u64;
    type Error = RequestError;

    fn run(mut self) -> Result<u64, RequestError> {
        let (id, request, limit) = self.open()?;
        let reply = self.session.exchange(request, limit);
        let settled = settle_pull(&self.session, id, reply);
        self.session.release_pull(id);
        settled
    }

    fn run_with(
        mut self,
        callback: impl FnOnce(Result<u64, RequestError>) + Send + 'static,
    ) -> Result<(), RequestError> {
        let (id, request, limit) = self.open()?;
        let session = Arc::downgrade(&self.session);
        let begun = self.session.exchange_with(request, limit, move |reply| {
            callback(while_held(&session, Command::IofPull, |session| settle_pull(session, id, reply)));
            if let Some(session) = session.upgrade() {
                session.release_pull(id);
            }
        });
        begun.map_err(|error| {
            self.session.close_pull(id);
            RequestError::Thread(error.kind())
        })
    }
}

/// The end of a pull, as an operation.
pub struct PullEnd {
    session: Arc<Session>,
    id: u64,
    directives: Vec<Info>,
}

impl PullEnd {
    fn request(&mut self) -> Result<(Request, Option<Duration>), RequestError> {
        refuse_required(&self.directives, &UNDERSTOOD_OF_REQUESTS)?;
        let limit = time_limit(&self.directives)?;
        let reference = self.session.pull_reference(self.id).ok_or(RequestError::NoSuchPull { id: self.id })?;
        let directives = std::mem::take(&mut self.directives);
        Ok((Request::IofDeregister(proto::IofDeregister { directives, reference }), limit))
    }
}

impl Sealed for PullEnd {}

impl Operation for PullEnd {
    type Output = ();
    type Error = RequestError;

    fn run(mut self) -> Result<(), RequestError> {
        let (request, limit) = self.request()?;
        let reply = self.session.exchange(request, limit);
        self.session.close_pull(self.id);
        Ok(reply.map(drop)?)
    }

    fn run_with(
        mut self,
        callback: impl FnOnce(Result<(), RequestError>) + Send + 'static,
    ) -> Result<(), RequestError> {
        let (request, limit) = self.request()?;
        let (session, id) = (Arc::downgrade(&self.session), self.id);
        let begun = self.session.exchange_with(request, limit, move |reply| {
            if let Some(session) = session.upgrade() {
                session.close_pull(id);
            }
            callback(reply.map(drop).map_err(RequestError::Call));
        });
        begun.map_err(|error| RequestError::Thread(error.kind()))
    }
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
