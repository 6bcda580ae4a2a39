//! Requests of one message, and the conversion of their replies.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::client::{CallError, DirectiveError, time_limit};
use crate::keys;
use crate::proto::{self, AnswerForm, Command, Credential, Reply, Request, Service, ServiceAnswer, ServiceRequest};
use crate::runtime::{OwnProcess, Session, SharedTime, Stopped};
use crate::types::AsStatus;
use crate::types::{Info, Key, Namespace, Pdata, ProcId, Status, Text};

use super::pending::Operation;
use super::pending::sealed::Sealed;
use super::query_groups::GroupedQueries;

/// One request and its reply, as an operation whose result is a `T`.
pub struct RoundTrip<T> {
    target: RequestTarget,
    request: Request,
    /// Its time limit, or the reason why it can't be sent.
    time_limit: Result<Option<Duration>, DirectiveError>,
    read: Box<dyn FnOnce(Reply) -> Option<T> + Send>,
}

/// The target of a request: it gives the answer.
pub(super) enum RequestTarget {
    /// The server of a client.
    Session(Arc<Session>),
    /// The host, in the server's own process.
    Host(Arc<OwnProcess>),
}

/// Results, and a status that says whether they are complete.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered<T> {
    /// Success, or the host's status for partial results (`PARTIAL_SUCCESS`) or results with an error.
    pub status: Status,
    /// The results.
    pub results: T,
}

/// A group of processes.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name.
    pub id: Text,
    /// Its members; the position of each is its rank in the group.
    pub members: Vec<ProcId>,
    /// The number that the host assigned: for a client if it asked for one, in a server's own process if there is one.
    pub context_id: Option<u64>,
    /// Details.
    pub info: Vec<Info>,
}

/// Reason of a failed request.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The directives are invalid.
    #[error(transparent)]
    Directive(#[from] DirectiveError),
    /// The server or its host refused, is unreachable, or did not answer in time.
    #[error(transparent)]
    Call(#[from] CallError),
    /// No thread could be started for the callback; the request was not sent.
    #[error("no thread for the callback can be started: {}", .0)]
    Thread(std::io::ErrorKind),
    /// The number is not from [`Client::iof_pull`](super::Client::iof_pull).
    #[error("no output is pulled under number {id}; use the number that the pull has given")]
    NoSuchPull {
        /// The given number.
        id: u64,
    },
}

impl AsStatus for RequestError {
    fn status(&self) -> Status {
        match self {
            Self::Directive(error) => error.status(),
            Self::Call(error) => error.status(),
            Self::Thread(_) => Status::ERR_OUT_OF_RESOURCE,
            Self::NoSuchPull { .. } => Status::ERR_NOT_FOUND,
        }
    }
}

impl<T> RoundTrip<T> {
    pub(super) fn new(
        target: RequestTarget,
        request: impl Into<Request>,
        time_limit: Result<Option<Duration>, DirectiveError>,
        read: impl FnOnce(Reply) -> Option<T> + Send + 'static,
    ) -> Self {
        // Only the host limits the time of the server's own process.
        let time_limit = if matches!(target, RequestTarget::Host(_)) { Ok(None) } else { time_limit };
        Self { target, request: request.into(), time_limit, read: Box::new(read) }
    }

    /// A service, with its answer in the form for clients.
    pub(super) fn of<R>(target: RequestTarget, request: R) -> Self
    where
        R: ServiceRequest<Answer: ClientAnswer<Given = T>>,
    {
        Self::of_service(target, request.into(), <R::Answer as ClientAnswer>::read)
    }

    fn of_service(
        target: RequestTarget,
        service: Service,
        read: impl FnOnce(Reply) -> Option<T> + Send + 'static,
    ) -> Self {
        let time_limit = match &target {
            RequestTarget::Session(_) => check(&service).and_then(|()| time_limit_of(&service)),
            // The host checks the requests of its own process.
            RequestTarget::Host(_) => Ok(None),
        };
        Self::new(target, Request::Service(service), time_limit, read)
    }
}

impl RoundTrip<Reply> {
    /// A service whose answer is not converted.
    pub(super) fn unread(target: RequestTarget, service: Service) -> Self {
        let form = service.form();
        Self::of_service(target, service, move |reply| check_form(reply, form))
    }
}

impl<T> Sealed for RoundTrip<T> {}

impl<T: Send + 'static> Operation for RoundTrip<T> {
    type Output = T;
    type Error = RequestError;

    fn run(self) -> Result<T, RequestError> {
        let (time_limit, command) = (self.time_limit?, self.request.command());
        let reply = match GroupedQueries::of(&self.request) {
            None => self.target.exchange(self.request, time_limit)?,
            Some(grouped) => {
                let (mut grouped, time) = (grouped?, time_limit.map(SharedTime::begin));
                while let Some(request) = grouped.next() {
                    grouped.add(self.target.exchange(request, time.map(|time| time.left())));
                }
                grouped.finish()?
            }
        };
        result_of(reply, command, self.read)
    }

    fn run_with(self, callback: impl FnOnce(Result<T, RequestError>) + Send + 'static) -> Result<(), RequestError> {
        let (time_limit, command, read) = (self.time_limit?, self.request.command(), self.read);
        let deliver = move |reply: Result<Reply, CallError>| {
            callback(reply.map_err(RequestError::Call).and_then(|reply| result_of(reply, command, read)));
        };
        match GroupedQueries::of(&self.request) {
            None => self.target.exchange_with(self.request, time_limit, deliver),
            Some(grouped) => {
                let receiver: Receiver = Arc::new(Mutex::new(Some(Box::new(deliver))));
                ask_next(grouped?, &self.target, time_limit.map(SharedTime::begin), receiver)
            }
        }
    }
}

impl RequestTarget {
    fn exchange(&self, request: Request, time_limit: Option<Duration>) -> Result<Reply, CallError> {
        match self {
            Self::Session(session) => session.exchange(request, time_limit),
            Self::Host(own) => own.exchange(request),
        }
    }

    fn exchange_with(
        &self,
        request: Request,
        time_limit: Option<Duration>,
        deliver: impl FnOnce(Result<Reply, CallError>) + Send + 'static,
    ) -> Result<(), RequestError> {
        let command = request.command();
        match self {
            Self::Session(session) => {
                let begun = session.exchange_with(request, time_limit, deliver);
                begun.map_err(|error| RequestError::Thread(error.kind()))
            }
            Self::Host(own) => {
                let begun = own.exchange_with(request, deliver);
                begun.map_err(|Stopped| CallError::Refused { command, status: Status::ERR_INIT }.into())
            }
        }
    }

    /// The target as long as others keep it.
    fn weak(&self) -> Box<dyn Fn() -> Option<Self> + Send> {
        match self {
            Self::Session(session) => {
                let session = Arc::downgrade(session);
                Box::new(move || session.upgrade().map(Self::Session))
            }
            Self::Host(own) => {
                let own = Arc::downgrade(own);
                Box::new(move || own.upgrade().map(Self::Host))
            }
        }
    }
}

/// The receiver of a reply. Either the last query takes it, or the first one that can't be sent.
type Receiver = Arc<Mutex<Option<Box<dyn FnOnce(Result<Reply, CallError>) + Send>>>>;

/// Sends the next one of grouped queries, and the others after its reply. They share the time of the call.
fn ask_next(
    mut grouped: GroupedQueries,
    target: &RequestTarget,
    time: Option<SharedTime>,
    receiver: Receiver,
) -> Result<(), RequestError> {
    let Some(request) = grouped.next() else {
        give(&receiver, grouped.finish());
        return Ok(());
    };
    let command = request.command();
    let again = target.weak();
    target.exchange_with(request, time.map(|time| time.left()), move |reply| {
        grouped.add(reply);
        let sent = match again() {
            Some(target) => ask_next(grouped, &target, time, Arc::clone(&receiver)),
            None => Err(CallError::Finalized { command }.into()),
        };
        if let Err(error) = sent {
            give(&receiver, Err(CallError::Refused { command, status: error.status() }));
        }
    })
}

fn give(receiver: &Receiver, reply: Result<Reply, CallError>) {
    let taken = receiver.lock().take();
    if let Some(deliver) = taken {
        deliver(reply);
    }
}

/// The result in a reply. An error with unreadable results is returned as that error: servers of the reference append
/// an empty name to a failed spawn.
fn result_of<T>(reply: Reply, command: Command, read: impl FnOnce(Reply) -> Option<T>) -> Result<T, RequestError> {
    let status = match &reply {
        Reply::Partial { status, .. } => Some(*status),
        _ => None,
    };
    let unreadable = || match status {
        Some(status) => CallError::Refused { command, status },
        None => CallError::WrongReply { command },
    };
    read(reply).ok_or_else(|| RequestError::Call(unreadable()))
}

pub(super) fn connect_processes(target: RequestTarget, procs: Vec<ProcId>, directives: Vec<Info>) -> RoundTrip<()> {
    let limit = time_limit(&directives);
    RoundTrip::new(target, Request::Connect(proto::Collective { procs, directives }), limit, |reply| match reply {
        // Without other jobs there is no job data.
        Reply::Data(_) | Reply::Status(_) => Some(()),
        _ => None,
    })
}

pub(super) fn disconnect_processes(target: RequestTarget, procs: Vec<ProcId>, directives: Vec<Info>) -> RoundTrip<()> {
    let limit = time_limit(&directives);
    RoundTrip::new(target, Request::Disconnect(proto::Collective { procs, directives }), limit, done)
}

pub(super) fn group_construct(
    target: RequestTarget,
    id: &str,
    procs: Vec<ProcId>,
    directives: Vec<Info>,
) -> RoundTrip<Answered<Group>> {
    let limit = time_limit(&directives);
    let is_wanted = |info: &Info| info.key.as_str() == keys::GROUP_ASSIGN_CONTEXT_ID.name();
    let wants_id = directives.iter().any(|info| is_wanted(info) && info.value.as_bool() == Some(true));
    let group = group(proto::Command::GroupConstruct, id, procs, directives);
    // In the server's own process the host says itself whether there is a number.
    let keeps_id = wants_id || matches!(target, RequestTarget::Host(_));
    let id = Text::from(id);
    RoundTrip::new(target, Request::GroupConstruct(group), limit, move |reply| {
        answered(reply, |results| match results {
            // Our own layout uses 0 for a missing number.
            Reply::Group { members, context_id, info, .. } => {
                Some(Group { id, members, context_id: context_id.filter(|number| keeps_id || *number != 0), info })
            }
            _ => None,
        })
    })
}

pub(super) fn group_destruct(target: RequestTarget, id: &str, directives: Vec<Info>) -> RoundTrip<()> {
    let limit = time_limit(&directives);
    let group = group(proto::Command::GroupDestruct, id, Vec::new(), directives);
    RoundTrip::new(target, Request::GroupDestruct(group), limit, done)
}

pub(super) fn resolve_peers(
    target: RequestTarget,
    node: Option<&str>,
    namespace: Option<&Namespace>,
) -> RoundTrip<Vec<ProcId>> {
    let namespace = namespace.map(|namespace| Text::from(namespace.as_str()));
    let request = Request::ResolvePeers(proto::ResolvePeers { node: node.map(Text::from), namespace });
    RoundTrip::new(target, request, Ok(None), |reply| match reply {
        Reply::Procs(procs) => Some(procs),
        _ => None,
    })
}

pub(super) fn resolve_nodes(target: RequestTarget, namespace: Option<&Namespace>) -> RoundTrip<Text> {
    let request = Request::ResolveNode(namespace.map(|namespace| Text::from(namespace.as_str())));
    RoundTrip::new(target, request, Ok(None), |reply| match reply {
        Reply::Nodes(names) => Some(names),
        _ => None,
    })
}

fn group(command: proto::Command, id: &str, procs: Vec<ProcId>, directives: Vec<Info>) -> proto::Group {
    proto::Group { command: command.to_raw(), id: Some(Text::from(id)), procs, directives }
}

pub(super) fn done(reply: Reply) -> Option<()> {
    matches!(reply, Reply::Status(_)).then_some(())
}

/// The answer of a service, as a client gets it.
pub trait ClientAnswer: ServiceAnswer {
    /// Its form for clients.
    type Given;

    /// The answer in a reply; `None` for a reply of another form.
    #[doc(hidden)]
    fn read(reply: Reply) -> Option<Self::Given>;
}

impl ClientAnswer for () {
    type Given = ();

    fn read(reply: Reply) -> Option<()> {
        done(reply)
    }
}

impl ClientAnswer for Vec<Pdata> {
    type Given = Answered<Self>;

    fn read(reply: Reply) -> Option<Answered<Self>> {
        answered(reply, |results| match results {
            Reply::Lookup(found) => Some(found),
            Reply::Status(_) => Some(Self::new()),
            _ => None,
        })
    }
}

impl ClientAnswer for Vec<Info> {
    type Given = Answered<Self>;

    fn read(reply: Reply) -> Option<Answered<Self>> {
        answered(reply, |results| match results {
            Reply::Infos(infos) => Some(infos),
            // Servers of 4.2 answer a monitor request with a status alone.
            Reply::Status(_) => Some(Self::new()),
            _ => None,
        })
    }
}

impl ClientAnswer for Namespace {
    type Given = Self;

    fn read(reply: Reply) -> Option<Self> {
        match reply {
            Reply::Spawned { namespace, .. } => Self::from_bytes(namespace.as_bytes()).ok(),
            _ => None,
        }
    }
}

impl ClientAnswer for Credential {
    type Given = Self;

    fn read(reply: Reply) -> Option<Self> {
        match reply {
            Reply::Credential(credential) => Some(credential),
            _ => None,
        }
    }
}

/// The reply, if it has the form of an answer.
fn check_form(reply: Reply, form: AnswerForm) -> Option<Reply> {
    let has_form = match (form, results_of(&reply)) {
        (AnswerForm::Lookup, results) => matches!(results, Reply::Lookup(_) | Reply::Status(_)),
        (AnswerForm::Infos, results) => matches!(results, Reply::Infos(_) | Reply::Status(_)),
        (AnswerForm::Status, _) => matches!(reply, Reply::Status(_)),
        (AnswerForm::Credential, _) => matches!(reply, Reply::Credential(_)),
        (AnswerForm::Namespace, _) => {
            matches!(&reply, Reply::Spawned { namespace, .. } if Namespace::from_bytes(namespace.as_bytes()).is_ok())
        }
    };
    has_form.then_some(reply)
}

/// The time limit among the directives of a service.
fn time_limit_of(service: &Service) -> Result<Option<Duration>, DirectiveError> {
    match service.directives().as_slice() {
        [directives] => time_limit(directives),
        lists => time_limit(&lists.iter().copied().flatten().cloned().collect::<Vec<Info>>()),
    }
}

/// Refuses a request that no server accepts.
fn check(service: &Service) -> Result<(), DirectiveError> {
    match service {
        Service::Spawn(spawn) if !spawn.has_valid_parents() => {
            let key = Key::from_static(keys::PARENT_ID.name());
            Err(DirectiveError::WrongValue { key, wanted: "a process" })
        }
        _ => Ok(()),
    }
}

/// Results with the server's status.
fn answered<T>(reply: Reply, read: impl FnOnce(Reply) -> Option<T>) -> Option<Answered<T>> {
    let (status, results) = match reply {
        Reply::Partial { status, results } => (status, *results),
        results => (Status::SUCCESS, results),
    };
    Some(Answered { status, results: read(results)? })
}

/// The results of a reply, without their status.
fn results_of(reply: &Reply) -> &Reply {
    match reply {
        Reply::Partial { results, .. } => results,
        results => results,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::AsStatus;

    /// Regression: under a server of 4.2.2 a failed spawn ended with "wrong reply", and so did a granted monitor
    /// request.
    #[test]
    fn a_failed_spawn_has_the_hosts_status_and_a_bare_success_no_results() {
        let spawned = Reply::Spawned { namespace: Text::from(""), entries: Vec::new() };
        let status = Status::ERR_JOB_FAILED_TO_LAUNCH;
        let failed = Reply::Partial { status, results: Box::new(spawned) };
        let refused = result_of(failed, Command::Spawn, <Namespace as ClientAnswer>::read);
        assert_eq!(refused.unwrap_err().status(), status);
        let granted =
            result_of(Reply::Status(Status::SUCCESS), Command::Monitor, <Vec<Info> as ClientAnswer>::read).unwrap();
        assert_eq!(granted, Answered { status: Status::SUCCESS, results: Vec::new() });
    }

    fn accepts<T: ServiceAnswer>(reply: &Reply) -> bool {
        check_form(reply.clone(), T::FORM).is_some()
    }

    /// The C library got such a reply unread, and took a failed spawn for a success.
    #[test]
    fn an_unread_reply_is_refused_like_a_read_one() {
        let named = Reply::Spawned { namespace: Text::from("job"), entries: Vec::new() };
        let credential = Reply::Credential(Credential { bytes: vec![1], info: Vec::new() });
        let partial = |results: &Reply| Reply::Partial { status: Status::ERROR, results: Box::new(results.clone()) };
        let replies = [Reply::Status(Status::SUCCESS), Reply::Infos(Vec::new()), Reply::Lookup(Vec::new())];
        let replies = replies.into_iter().chain([named, credential]);
        for reply in replies.flat_map(|reply| [partial(&reply), reply]) {
            assert_eq!(accepts::<()>(&reply), <()>::read(reply.clone()).is_some(), "{reply:?}");
            assert_eq!(accepts::<Vec<Pdata>>(&reply), Vec::<Pdata>::read(reply.clone()).is_some(), "{reply:?}");
            assert_eq!(accepts::<Vec<Info>>(&reply), Vec::<Info>::read(reply.clone()).is_some(), "{reply:?}");
            assert_eq!(accepts::<Namespace>(&reply), Namespace::read(reply.clone()).is_some(), "{reply:?}");
            assert_eq!(accepts::<Credential>(&reply), Credential::read(reply.clone()).is_some(), "{reply:?}");
        }
        let spawn = Service::from(proto::Spawn::new(Vec::new(), Vec::new()));
        let failed = Reply::Spawned { namespace: Text::from("job"), entries: Vec::new() };
        assert_eq!(check_form(partial(&failed), spawn.form()), None);
    }
}
