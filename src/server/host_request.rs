//! Requests that only the host can answer: they go up with their requester, and the answer comes down.

use super::access::Action;
use super::cleanup::Taken;
use super::config::Capabilities;
use super::core::Server;
use super::directives::find;
use super::host::{HostReply, Upcall};
use super::io::PeerId;
use super::outputs::Ticket;
use super::pending::{Expected, Purpose};
use super::query::Questions;
use super::requests::{self, Requester};
use super::upcalls::{settled, status_of};
use crate::gds::Datastore;
use crate::keys;
use crate::proto::{self, Reply, Request};
use crate::types::{Key, Namespace, ProcId, Query, Status, Text, Time, Value, footprint};

/// A request in the host's form.
struct HostRequest {
    needs: Capabilities,
    upcall: Upcall,
    expected: Expected,
}

impl<S: Datastore> Server<S> {
    /// Any request that the server does not answer itself.
    pub(super) fn pass(&mut self, now: Time, ticket: Ticket, proc: ProcId, request: Request) {
        let Some(requester) = self.requester(&ticket, proc) else { return self.outputs.forget(ticket) };
        let passage = match request {
            Request::IofPull(pull) => return self.pull_output(now, ticket, requester, pull),
            Request::IofDeregister(pull) => return self.end_pull(ticket, pull.reference),
            Request::ResolvePeers(question) => return self.resolve_peers(ticket, &question),
            Request::ResolveNode(namespace) => return self.resolve_nodes(ticket, namespace.as_ref()),
            Request::Connect(connect) => return self.connect_processes(now, ticket, requester.proc, connect),
            Request::Disconnect(connect) => return self.disconnect_processes(now, ticket, requester.proc, connect),
            Request::GroupConstruct(group) => return self.construct_group(now, ticket, requester.proc, group),
            Request::GroupDestruct(group) => return self.destruct_group(now, ticket, requester.proc, group),
            Request::GroupOther(group) => return self.group_other(now, ticket, &requester.proc, &group),
            Request::JobControl(control) => return self.control_jobs(now, ticket, requester, control),
            Request::Query(queries) => return self.pass_queries(now, ticket, requester, queries),
            request => {
                if let Request::Monitor(monitor) = &request
                    && let Some(reply) = self.monitor(now, &ticket, monitor)
                {
                    return self.outputs.reply(ticket, reply);
                }
                let permitted = self.permit_request(&requester, &request);
                permitted.and_then(|()| passage_of(requester, request, self.is_tool(ticket.peer())))
            }
        };
        self.pass_up(now, ticket, passage);
    }

    /// Whether a request for the host names only processes that the requester may act on.
    fn permit_request(&self, requester: &Requester, request: &Request) -> Result<(), Status> {
        match request {
            Request::IofPush(push) => self.permit_all(requester, Action::PushInput, &push.targets),
            Request::Monitor(proto::Monitor { monitor, directives, .. }) => {
                self.permit_named(requester, Action::Monitor, std::slice::from_ref(monitor))?;
                self.permit_named(requester, Action::Monitor, directives)
            }
            _ => Ok(()),
        }
    }

    /// Splits a job control: removals at the end of processes of the server's own user are this server's task; the rest
    /// is the host's.
    fn control_jobs(&mut self, now: Time, ticket: Ticket, requester: Requester, mut control: proto::JobControl) {
        if let Some(info) = self.number_for_group(&requester.proc, &control) {
            return self.outputs.reply(ticket, Reply::Infos(vec![info]));
        }
        control.targets = match self.with_members(control.targets, &requester.proc) {
            Ok(targets) => targets,
            Err(status) => return self.outputs.reply_status(ticket, status),
        };
        let taken = self.take_cleanup(&requester, &control.targets, &mut control.directives);
        let is_permitted = match taken {
            Ok(Taken::Everything) => Ok(()),
            _ => self.permit_all(&requester, Action::Control, &control.targets),
        };
        match is_permitted.and(taken) {
            Ok(Taken::Everything) => self.outputs.reply(ticket, Reply::Infos(Vec::new())),
            Ok(Taken::Nothing | Taken::Part) => {
                let upcall = job_control_upcall(requester, control);
                let passage = HostRequest { needs: Capabilities::JOB_CONTROL, upcall, expected: Expected::Infos };
                self.pass_up(now, ticket, Ok(passage));
            }
            Err(status) => self.outputs.reply_status(ticket, status),
        }
    }

    /// Queries go to the host. This server answers what the host does not support, as far as it can.
    fn pass_queries(&mut self, now: Time, ticket: Ticket, requester: Requester, queries: Vec<Query>) {
        let key_count = queries.iter().map(|query| query.keys.len()).fold(0, usize::saturating_add);
        let qualifier_count =
            queries.iter().map(|query| query.qualifiers.len()).fold(queries.len(), usize::saturating_add);
        let keys_max = self.config.limits.query_keys_max;
        if key_count > keys_max || qualifier_count > keys_max.saturating_mul(QUALIFIERS_PER_KEY) {
            return self.outputs.reply_status(ticket, Status::ERR_OUT_OF_RESOURCE);
        }
        if !self.config.capabilities.contains(Capabilities::QUERY) {
            return self.answer_queries(ticket, Questions::new(requester, queries));
        }
        let for_host = self.for_host(&requester, &queries);
        if for_host.is_empty() && !queries.is_empty() {
            return self.answer_queries(ticket, Questions::new(requester, queries));
        }
        let is_withheld = for_host.len() < queries.len();
        let signed = requester.signed_queries(for_host);
        let upcall = Upcall::Query(requests::QueryRequest { requester: requester.clone(), queries: signed });
        let questions = Questions { is_withheld, ..Questions::new(requester, queries) };
        let expected = Expected::Answers(Box::new(questions));
        self.ask_host(now, Purpose::Passed(ticket, expected), upcall);
    }

    fn pass_up(&mut self, now: Time, ticket: Ticket, passage: Result<HostRequest, Status>) {
        match passage {
            Ok(HostRequest { needs, upcall, expected }) if self.config.capabilities.contains(needs) => {
                self.ask_host(now, Purpose::Passed(ticket, expected), upcall);
            }
            Ok(_) => self.outputs.reply_status(ticket, Status::ERR_NOT_SUPPORTED),
            Err(status) => self.outputs.reply_status(ticket, status),
        }
    }

    fn is_tool(&self, id: PeerId) -> bool {
        self.peers.get(id).is_some_and(|peer| peer.is_tool)
    }

    /// The requester behind a ticket, with the kernel's ids.
    pub(super) fn requester(&self, ticket: &Ticket, proc: ProcId) -> Option<Requester> {
        let credentials = self.peers.get(ticket.peer())?.credentials;
        let object = self.registry.client(&proc).map_or(0, |client| client.object);
        Some(Requester { proc, object, uid: credentials.uid, gid: credentials.gid })
    }

    /// The host's answer to a request that was passed up.
    pub(super) fn settle_passed(&mut self, ticket: Ticket, expected: Expected, reply: HostReply) {
        let reply = match (expected, reply) {
            (Expected::Pull(pull), reply) => match status_of(&reply) {
                Status::SUCCESS => return self.grant_pull(ticket, *pull),
                status => Reply::Status(status),
            },
            (Expected::Answers(asked), HostReply::Status(status)) if is_incomplete(status) => {
                return self.answer_queries(ticket, Questions { verdict: Some(status), ..*asked });
            }
            (Expected::Answers(asked), HostReply::Infos { status, info })
                if is_incomplete(status) || (status == Status::SUCCESS && asked.is_withheld) =>
            {
                let status = if status == Status::SUCCESS { Status::ERR_PARTIAL_SUCCESS } else { status };
                return self.answer_queries(ticket, Questions { verdict: Some(status), told: info, ..*asked });
            }
            (Expected::Lookup, HostReply::Lookup { status, found }) => {
                with_status(settled(status), found.is_empty(), Reply::Lookup(found))
            }
            (Expected::Infos | Expected::Answers(_), HostReply::Infos { status, info }) => {
                with_status(settled(status), info.is_empty(), Reply::Infos(info))
            }
            (Expected::Namespace, HostReply::Spawned(namespace)) => self.spawned(ticket.peer(), &namespace),
            (Expected::Credential, HostReply::Credential(requests::Credential { bytes, info })) => {
                Reply::Credential { credential: bytes, info }
            }
            (expected, reply) => match (status_of(&reply), expected) {
                (Status::SUCCESS, Expected::Lookup) => Reply::Lookup(Vec::new()),
                (Status::SUCCESS, Expected::Infos | Expected::Answers(_)) => Reply::Infos(Vec::new()),
                (Status::SUCCESS, Expected::Credential) => {
                    Reply::Credential { credential: Vec::new(), info: Vec::new() }
                }
                // A job without a name is an error.
                (Status::SUCCESS, Expected::Namespace) => Reply::Status(Status::ERROR),
                (status, _) => Reply::Status(status),
            },
        };
        self.outputs.reply(ticket, reply);
    }

    fn spawned(&mut self, spawner: PeerId, namespace: &Namespace) -> Reply {
        self.tie_spawned(spawner, namespace);
        let entries = if self.has_segment(spawner, namespace) { Vec::new() } else { self.job_data(namespace) };
        Reply::Spawned { namespace: Text::from(namespace.as_str()), entries }
    }

    /// The data about a job here, for a reply about something else. Empty if it is too much for a message: a peer that
    /// needs it can ask.
    pub(super) fn job_data(&self, namespace: &Namespace) -> Vec<crate::types::Kval> {
        let job = self.registry.registered(namespace);
        if job.is_none_or(|job| job.job_size.is_some_and(|size| size > JOB_DATA_RANKS_MAX)) {
            return Vec::new();
        }
        let entries = self.told_job(namespace).unwrap_or_default();
        let sizes = entries.iter().map(|entry| footprint(&entry.value).unwrap_or(usize::MAX));
        let is_small = sizes.fold(0, usize::saturating_add) <= self.config.limits.reply_bytes_max;
        if is_small { entries } else { Vec::new() }
    }
}

/// Largest job that is described in an answer about something else.
const JOB_DATA_RANKS_MAX: u32 = 4096;
/// Qualifiers of queries, and queries, for each allowed key.
const QUALIFIERS_PER_KEY: usize = 4;

/// Whether the host has left parts of a query unanswered that this server may answer.
const fn is_incomplete(status: Status) -> bool {
    matches!(status, Status::ERR_NOT_SUPPORTED | Status::ERR_NOT_FOUND | Status::ERR_PARTIAL_SUCCESS)
}

/// The upcall for a request; an error for an invalid or unknown one.
fn passage_of(requester: Requester, request: Request, is_tool: bool) -> Result<HostRequest, Status> {
    let (needs, expected, upcall) = match request {
        Request::Publish(publish) => (Capabilities::PUBLISH, Expected::Status, publish_upcall(requester, publish)),
        Request::Lookup(lookup) => (Capabilities::LOOKUP, Expected::Lookup, lookup_upcall(requester, lookup)?),
        Request::Unpublish(lookup) => (Capabilities::UNPUBLISH, Expected::Status, unpublish_upcall(requester, lookup)?),
        Request::Spawn(spawn) if !spawn.has_valid_parents() => return Err(Status::ERR_BAD_PARAM),
        Request::Spawn(spawn) => (
            Capabilities::SPAWN,
            Expected::Namespace,
            Upcall::Spawn(requests::Spawn::of_peer(requester, is_tool, spawn.job, spawn.apps)),
        ),
        Request::Log(log) => (Capabilities::LOG, Expected::Status, log_upcall(requester, log)),
        Request::Allocate(request) => (Capabilities::ALLOCATE, Expected::Infos, allocate_upcall(requester, request)),
        Request::Monitor(monitor) => (Capabilities::MONITOR, Expected::Infos, monitor_upcall(requester, monitor)),
        Request::GetCredential(directives) => {
            let directives = requester.signed(directives);
            let upcall = Upcall::GetCredential(requests::CredentialRequest { requester, directives });
            (Capabilities::GET_CREDENTIAL, Expected::Credential, upcall)
        }
        Request::ValidateCredential(proto::ValidateCredential { credential, directives }) => {
            let directives = requester.signed(directives);
            let request = requests::ValidateRequest { requester, credential, directives };
            (Capabilities::VALIDATE_CREDENTIAL, Expected::Infos, Upcall::ValidateCredential(request))
        }
        Request::IofPush(proto::IofPush { targets, directives, bytes }) => {
            let directives = requester.signed(directives);
            let upcall = Upcall::PushStdin(requests::PushStdin { requester, targets, directives, bytes });
            (Capabilities::PUSH_STDIN, Expected::Status, upcall)
        }
        _ => return Err(Status::ERR_NOT_SUPPORTED),
    };
    Ok(HostRequest { needs, upcall, expected })
}

fn publish_upcall(requester: Requester, publish: proto::Publish) -> Upcall {
    let info = requester.signed(publish.info);
    Upcall::Publish(requests::Publish { requester, info })
}

fn lookup_upcall(requester: Requester, lookup: proto::Lookup) -> Result<Upcall, Status> {
    let (keys, directives) = (keys_of(&lookup.keys)?, requester.signed(lookup.directives));
    Ok(Upcall::Lookup(requests::Lookup { requester, keys, directives }))
}

fn unpublish_upcall(requester: Requester, lookup: proto::Lookup) -> Result<Upcall, Status> {
    let (keys, directives) = (keys_of(&lookup.keys)?, requester.signed(lookup.directives));
    Ok(Upcall::Unpublish(requests::Unpublish { requester, keys, directives }))
}

fn keys_of(keys: &[Text]) -> Result<Vec<Key>, Status> {
    keys.iter().map(|key| Key::from_bytes(key.as_bytes()).map_err(|_| Status::ERR_BAD_PARAM)).collect()
}

fn log_upcall(requester: Requester, log: proto::Log) -> Upcall {
    let mut directives = requester.signed(log.directives);
    requests::set(&mut directives, keys::LOG_SOURCE, Value::from(requester.proc.clone()));
    if let Some(timestamp) = log.timestamp.filter(|&timestamp| timestamp > 0)
        && find(&directives, keys::LOG_TIMESTAMP).is_none()
    {
        requests::set(&mut directives, keys::LOG_TIMESTAMP, Value::Time(timestamp));
    }
    Upcall::Log(requests::Log { requester, data: log.data, directives })
}

fn allocate_upcall(requester: Requester, request: proto::Allocate) -> Upcall {
    let info = requester.signed(request.info);
    Upcall::Allocate(requests::Allocate { requester, directive: request.directive, info })
}

fn job_control_upcall(requester: Requester, control: proto::JobControl) -> Upcall {
    let directives = requester.signed(control.directives);
    Upcall::JobControl(requests::JobControl { requester, targets: control.targets, directives })
}

fn monitor_upcall(requester: Requester, request: proto::Monitor) -> Upcall {
    let proto::Monitor { monitor, error, directives } = request;
    let directives = requester.signed(directives);
    Upcall::Monitor(requests::Monitor { requester, monitor, error, directives })
}

/// Results with a status. Without results only the status is sent, unless it is success.
pub(super) fn with_status(status: Status, is_empty: bool, results: Reply) -> Reply {
    match status {
        Status::SUCCESS => results,
        status if is_empty => Reply::Status(status),
        status => Reply::Partial { status, results: Box::new(results) },
    }
}
