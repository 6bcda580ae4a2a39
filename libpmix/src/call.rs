//! The begin and the end of a request, written once for callers that wait and callers with a callback.

use std::sync::{Arc, OnceLock};

use modex::types::{AsStatus, Info, ProcId, Status};
use modex::{Client, FenceOptions, Pending, Server};

use super::client_request::{Answer, ClientRequest};
use super::process::{self, Member};

/// Makes a request and waits.
///
/// # Errors
/// The request's error; `ERR_INIT` when this process is not initialized.
pub(super) fn run(request: ClientRequest) -> Result<Answer, Status> {
    match process::member()? {
        Member::Client(client) => match request {
            ClientRequest::Abort { status, message, procs } => answer(client.abort(status, &message, procs)),
            request => begin(&client, request, Waiting),
        },
        Member::Server(role) => begin_in_server(role.server(), request, Waiting),
    }
}

/// Starts a request. `done` runs on a thread of the library, never inside this function.
///
/// # Errors
/// The request was not started, and `done` will not run.
pub(super) fn start(
    request: ClientRequest,
    done: impl FnOnce(Result<Answer, Status>) + Send + 'static,
) -> Result<(), Status> {
    let end = Calling(done);
    match process::member()? {
        // No server will ever answer, so the caller gets the error at once.
        Member::Client(client) if client.is_alone() && request.needs_a_server() => Err(Status::ERR_UNREACH),
        Member::Client(client) => begin(&client, request, end),
        Member::Server(role) => begin_in_server(role.server(), request, end),
    }
}

/// The way to the end of a request: a wait, or a callback.
trait Finish {
    type End;

    fn finish<O>(self, pending: Pending<O>) -> Result<Self::End, Status>
    where
        O: modex::Operation<Output: Into<Answer>, Error: AsStatus>;

    /// A pull, whose number the handler of the output needs.
    fn finish_pull<O>(self, pending: Pending<O>, id: Arc<OnceLock<u64>>) -> Result<Self::End, Status>
    where
        O: modex::Operation<Output = u64, Error: AsStatus>;
}

struct Waiting;

impl Finish for Waiting {
    type End = Answer;

    fn finish<O>(self, pending: Pending<O>) -> Result<Answer, Status>
    where
        O: modex::Operation<Output: Into<Answer>, Error: AsStatus>,
    {
        answer(pending.wait())
    }

    fn finish_pull<O>(self, pending: Pending<O>, id: Arc<OnceLock<u64>>) -> Result<Answer, Status>
    where
        O: modex::Operation<Output = u64, Error: AsStatus>,
    {
        let number = pending.wait();
        // Output may be on its way already. Its handler waits for the number, or for [`NO_NUMBER`].
        let _ = id.set(*number.as_ref().unwrap_or(&NO_NUMBER));
        answer(number)
    }
}

struct Calling<F>(F);

impl<F: FnOnce(Result<Answer, Status>) + Send + 'static> Finish for Calling<F> {
    type End = ();

    fn finish<O>(self, pending: Pending<O>) -> Result<(), Status>
    where
        O: modex::Operation<Output: Into<Answer>, Error: AsStatus>,
    {
        let begun = pending.then(move |result| self.0(answer(result)));
        begun.map_err(|error| error.status())
    }

    fn finish_pull<O>(self, pending: Pending<O>, id: Arc<OnceLock<u64>>) -> Result<(), Status>
    where
        O: modex::Operation<Output = u64, Error: AsStatus>,
    {
        let begun = pending.then(move |result| {
            // This runs once, so the number is set once.
            let _ = result.as_ref().map(|number| id.set(*number));
            self.0(answer(result));
        });
        begun.map_err(|error| error.status())
    }
}

/// Begins a request that a client and a server's own process have alike; `others` begins all others.
macro_rules! begin {
    ($request:ident, $role:ident, $end:ident, $($others:tt)*) => {
        match $request {
            ClientRequest::Fence { procs, directives } => $end.finish($role.fence(&fence_options(procs, directives))),
            ClientRequest::Service(service) => $end.finish($role.service(service)),
            ClientRequest::Connect { procs, directives } => $end.finish($role.connect_processes(procs, directives)),
            ClientRequest::Disconnect { procs, directives } => $end.finish($role.disconnect_processes(procs, directives)),
            ClientRequest::GroupConstruct { id, procs, directives } => {
                $end.finish($role.group_construct(&id, procs, directives))
            }
            ClientRequest::GroupDestruct { id, directives } => $end.finish($role.group_destruct(&id, directives)),
            ClientRequest::ResolvePeers { node, namespace } => {
                $end.finish($role.resolve_peers(node.as_deref(), namespace.as_ref()))
            }
            ClientRequest::ResolveNodes { namespace } => $end.finish($role.resolve_nodes(namespace.as_ref())),
            ClientRequest::IofPull { procs, directives, channels, handler, id } => {
                $end.finish_pull($role.iof_pull(procs, directives, channels, handler), id)
            }
            ClientRequest::IofDeregister { id, directives } => $end.finish($role.iof_deregister(id, directives)),
            ClientRequest::Notify { status, source, range, info } => {
                $end.finish($role.notify_event(status, source.as_ref(), range, &info))
            }
            $($others)*
        }
    };
}

fn begin<F: Finish>(client: &Client, request: ClientRequest, end: F) -> Result<F::End, Status> {
    begin! { request, client, end,
        // It has no callback in the standard.
        ClientRequest::Abort { .. } => Err(Status::ERR_NOT_SUPPORTED),
        ClientRequest::GroupInvite { id, procs, directives } => end.finish(client.group_invite(&id, procs, directives)),
        ClientRequest::GroupJoin { id, leader, is_accepted, directives } => {
            end.finish(client.group_join(&id, leader.as_ref(), is_accepted, directives))
        }
        ClientRequest::GroupLeave { id, directives } => end.finish(client.group_leave(&id, directives)),
    }
}

fn begin_in_server<F: Finish>(server: &Server, request: ClientRequest, end: F) -> Result<F::End, Status> {
    begin! { request, server, end,
        ClientRequest::Abort { status, message, procs } => end.finish(server.abort(status, &message, procs)),
        _ => Err(Status::ERR_NOT_SUPPORTED),
    }
}

/// Number of a refused pull.
const NO_NUMBER: u64 = u64::MAX;

fn fence_options(procs: Vec<ProcId>, directives: Vec<Info>) -> FenceOptions {
    directives.into_iter().fold(FenceOptions::new().procs(procs), FenceOptions::info)
}

fn answer<T: Into<Answer>, E: AsStatus>(result: Result<T, E>) -> Result<Answer, Status> {
    result.map(Into::into).map_err(|error| error.status())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Regression: a callback that asked for output, and waited, never returned: its answer was queued on its own
    /// thread.
    #[test]
    fn output_may_be_asked_for_where_callbacks_run() {
        let client = Arc::new(Client::alone().unwrap());
        let (sender, receiver) = mpsc::channel();
        let there = Arc::clone(&client);
        let job = move || {
            let (procs, id) = (vec![there.proc().clone()], Arc::new(OnceLock::new()));
            let pull =
                ClientRequest::IofPull { procs, directives: Vec::new(), channels: 2, handler: Box::new(drop), id };
            sender.send(begin(&there, pull, Waiting).map(|answer| answer.status)).unwrap();
        };
        client.later(job).unwrap();
        assert_eq!(receiver.recv().unwrap(), Err(Status::ERR_UNREACH));
    }
}
