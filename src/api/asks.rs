//! Requests of the typed functions of [`Client`](super::Client), and conversion of their replies.

use std::time::Duration;

use crate::client::{CallError, DirectiveError, time_limit};
use crate::gds::AsStatus;
use crate::keys;
use crate::proto::{self, Reply, Request};
use crate::server::Credential;
use crate::types::{App, Info, Key, Namespace, Pdata, ProcId, Query, Status, Text};

/// A request, its time limit, and the conversion of its reply.
pub(super) struct Ask<T> {
    pub(super) request: Request,
    pub(super) time_limit: Option<Duration>,
    pub(super) read: Box<dyn FnOnce(Reply) -> Option<T> + Send>,
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
    /// The number that the host assigned, if it was asked to.
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

type Asked<T> = Result<Ask<T>, RequestError>;

fn ask<T>(
    request: Request,
    directives: Result<Option<Duration>, DirectiveError>,
    read: impl FnOnce(Reply) -> Option<T> + Send + 'static,
) -> Asked<T> {
    Ok(Ask { request, time_limit: directives?, read: Box::new(read) })
}

pub(super) fn publish(info: Vec<Info>) -> Asked<()> {
    let limit = time_limit(&info);
    ask(Request::Publish(proto::Publish { uid: OWN_UID, info }), limit, done)
}

pub(super) fn lookup(keys: Vec<Key>, directives: Vec<Info>) -> Asked<Answered<Vec<Pdata>>> {
    let limit = time_limit(&directives);
    ask(Request::Lookup(keyed(keys, directives)), limit, |reply| {
        answered(reply, |results| match results {
            Reply::Lookup(found) => Some(found),
            Reply::Status(_) => Some(Vec::new()),
            _ => None,
        })
    })
}

pub(super) fn unpublish(keys: Vec<Key>, directives: Vec<Info>) -> Asked<()> {
    let limit = time_limit(&directives);
    ask(Request::Unpublish(keyed(keys, directives)), limit, done)
}

pub(super) fn spawn(job: Vec<Info>, apps: Vec<App>) -> Asked<Namespace> {
    let limit = time_limit(&job);
    let spawn = proto::Spawn { job, apps };
    if !spawn.has_valid_parents() {
        let key = Key::from_static(keys::PARENT_ID.name());
        return Err(DirectiveError::WrongValue { key, wanted: "a process" }.into());
    }
    ask(Request::Spawn(spawn), limit, |reply| match reply {
        Reply::Spawned { namespace, .. } => Namespace::from_bytes(namespace.as_bytes()).ok(),
        _ => None,
    })
}

pub(super) fn connect_processes(procs: Vec<ProcId>, directives: Vec<Info>) -> Asked<()> {
    let limit = time_limit(&directives);
    ask(Request::Connect(proto::Collective { procs, directives }), limit, |reply| match reply {
        // Without other jobs there is no job data.
        Reply::Data(_) | Reply::Status(_) => Some(()),
        _ => None,
    })
}

pub(super) fn disconnect_processes(procs: Vec<ProcId>, directives: Vec<Info>) -> Asked<()> {
    let limit = time_limit(&directives);
    ask(Request::Disconnect(proto::Collective { procs, directives }), limit, done)
}

pub(super) fn query(queries: Vec<Query>) -> Asked<Answered<Vec<Info>>> {
    let qualifiers: Vec<Info> = queries.iter().flat_map(|query| &query.qualifiers).cloned().collect();
    ask(Request::Query(queries), time_limit(&qualifiers), infos)
}

pub(super) fn log(data: Vec<Info>, directives: Vec<Info>) -> Asked<()> {
    let limit = time_limit(&directives);
    ask(Request::Log(proto::Log { timestamp: None, data, directives }), limit, done)
}

pub(super) fn allocate(directive: u8, info: Vec<Info>) -> Asked<Answered<Vec<Info>>> {
    let limit = time_limit(&info);
    ask(Request::Allocate(proto::Allocate { directive, info }), limit, infos)
}

pub(super) fn job_control(targets: Vec<ProcId>, directives: Vec<Info>) -> Asked<Answered<Vec<Info>>> {
    let limit = time_limit(&directives);
    ask(Request::JobControl(proto::JobControl { targets, directives }), limit, infos)
}

pub(super) fn monitor(monitor: Info, error: Status, directives: Vec<Info>) -> Asked<Answered<Vec<Info>>> {
    let limit = time_limit(&directives);
    ask(Request::Monitor(proto::Monitor { monitor, error, directives }), limit, infos)
}

pub(super) fn get_credential(directives: Vec<Info>) -> Asked<Credential> {
    let limit = time_limit(&directives);
    ask(Request::GetCredential(directives), limit, |reply| match reply {
        Reply::Credential { credential, info } => Some(Credential { bytes: credential, info }),
        _ => None,
    })
}

pub(super) fn validate_credential(credential: Vec<u8>, directives: Vec<Info>) -> Asked<Answered<Vec<Info>>> {
    let limit = time_limit(&directives);
    ask(Request::ValidateCredential(proto::ValidateCredential { credential, directives }), limit, infos)
}

pub(super) fn group_construct(id: &str, procs: Vec<ProcId>, directives: Vec<Info>) -> Asked<Answered<Group>> {
    let limit = time_limit(&directives);
    let is_wanted = |info: &Info| info.key.as_str() == keys::GROUP_ASSIGN_CONTEXT_ID.name();
    let wants_id = directives.iter().any(|info| is_wanted(info) && info.value.as_bool() == Some(true));
    let group = group(proto::Command::GroupConstruct, id, procs, directives);
    let id = Text::from(id);
    ask(Request::GroupConstruct(group), limit, move |reply| {
        answered(reply, |results| match results {
            // Our own layout uses 0 for a missing number.
            Reply::Group { members, context_id, info, .. } => {
                Some(Group { id, members, context_id: context_id.filter(|number| wants_id || *number != 0), info })
            }
            _ => None,
        })
    })
}

pub(super) fn group_destruct(id: &str, directives: Vec<Info>) -> Asked<()> {
    let limit = time_limit(&directives);
    let group = group(proto::Command::GroupDestruct, id, Vec::new(), directives);
    ask(Request::GroupDestruct(group), limit, done)
}

pub(super) fn resolve_peers(node: Option<&str>, namespace: Option<&Namespace>) -> Asked<Vec<ProcId>> {
    let namespace = namespace.map(|namespace| Text::from(namespace.as_str()));
    let request = Request::ResolvePeers(proto::ResolvePeers { node: node.map(Text::from), namespace });
    ask(request, Ok(None), |reply| match reply {
        Reply::Procs(procs) => Some(procs),
        _ => None,
    })
}

pub(super) fn resolve_nodes(namespace: Option<&Namespace>) -> Asked<Text> {
    let request = Request::ResolveNode(namespace.map(|namespace| Text::from(namespace.as_str())));
    ask(request, Ok(None), |reply| match reply {
        Reply::Nodes(names) => Some(names),
        _ => None,
    })
}

pub(super) fn iof_push(targets: Vec<ProcId>, directives: Vec<Info>, bytes: Vec<u8>) -> Asked<()> {
    let limit = time_limit(&directives);
    ask(Request::IofPush(proto::IofPush { targets, directives, bytes }), limit, done)
}

fn keyed(keys: Vec<Key>, directives: Vec<Info>) -> proto::Lookup {
    let keys = keys.iter().map(|key| Text::from(key.as_str())).collect();
    proto::Lookup { uid: OWN_UID, keys, directives }
}

fn group(command: proto::Command, id: &str, procs: Vec<ProcId>, directives: Vec<Info>) -> proto::Group {
    proto::Group { command: command.to_raw(), id: Some(Text::from(id)), procs, directives }
}

fn done(reply: Reply) -> Option<()> {
    matches!(reply, Reply::Status(_)).then_some(())
}

fn infos(reply: Reply) -> Option<Answered<Vec<Info>>> {
    answered(reply, |results| match results {
        Reply::Infos(infos) => Some(infos),
        // Servers of 4.2 answer a monitor request with a status alone.
        Reply::Status(_) => Some(Vec::new()),
        _ => None,
    })
}

/// Results with the server's status.
fn answered<T>(reply: Reply, read: impl FnOnce(Reply) -> Option<T>) -> Option<Answered<T>> {
    let (status, results) = match reply {
        Reply::Partial { status, results } => (status, *results),
        results => (Status::SUCCESS, results),
    };
    Some(Answered { status, results: read(results)? })
}

/// The server uses the uid that the kernel reports; the sent one is ignored.
const OWN_UID: u32 = u32::MAX;
