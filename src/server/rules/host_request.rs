//! Requests that only the host can answer: they go up with their requester, and the answer comes down.

use super::access::Action;
use super::cleanup::Taken;
use super::query::Questions;
use super::upcalls::{settled, status_of};
use crate::gds::Datastore;
use crate::keys;
use crate::proto::{Credential, JobControl, Log, Monitor, QueryInfo, Reply, Request, Service, Spawn, with_services};
use crate::server::dispatch::core::Server;
use crate::server::interface::config::Capabilities;
use crate::server::interface::directives::find;
use crate::server::interface::host::{HostReply, Upcall};
use crate::server::interface::io::PeerId;
use crate::server::interface::requests::{Requester, Signed, set};
use crate::server::state::outputs::Ticket;
use crate::server::state::pending::{Expected, Purpose};
use crate::types::{Info, Key, Namespace, Pdata, ProcId, Query, Status, Text, Time, Value, footprint};

impl<S: Datastore> Server<S> {
    /// Any request that the server does not answer itself.
    pub(in crate::server) fn pass(&mut self, now: Time, ticket: Ticket, proc: ProcId, request: Request) {
        let Some(requester) = self.requester(&ticket, proc) else { return self.outputs.forget(ticket) };
        match request {
            Request::Service(Service::JobControl(control)) => self.control_jobs(now, ticket, requester, control),
            Request::Service(Service::QueryInfo(QueryInfo { queries })) => {
                self.pass_queries(now, ticket, requester, queries);
            }
            Request::Service(service) => self.pass_service(now, ticket, requester, service),
            Request::IofPull(pull) => self.pull_output(now, ticket, requester, pull),
            Request::IofDeregister(pull) => self.end_pull(ticket, pull.reference),
            Request::ResolvePeers(question) => self.resolve_peers(ticket, &question),
            Request::ResolveNode(namespace) => self.resolve_nodes(ticket, namespace.as_ref()),
            Request::Connect(connect) => self.connect_processes(now, ticket, requester.proc, connect),
            Request::Disconnect(connect) => self.disconnect_processes(now, ticket, requester.proc, connect),
            Request::GroupConstruct(group) => self.construct_group(now, ticket, requester.proc, group),
            Request::GroupDestruct(group) => self.destruct_group(now, ticket, requester.proc, group),
            Request::GroupOther(group) => self.group_other(now, ticket, &requester.proc, &group),
            _ => self.outputs.reply_status(ticket, Status::ERR_NOT_SUPPORTED),
        }
    }

    fn pass_service(&mut self, now: Time, ticket: Ticket, requester: Requester, service: Service) {
        if let Service::Monitor(monitor) = &service
            && let Some(reply) = self.monitor(now, &ticket, monitor)
        {
            return self.outputs.reply(ticket, reply);
        }
        let permitted = self.permit_service(&requester, &service);
        let is_tool = self.is_tool(ticket.peer());
        match permitted.and_then(|()| service.of_peer(&requester, is_tool)) {
            Ok(service) => self.pass_up(now, ticket, requester, service),
            Err(status) => self.outputs.reply_status(ticket, status),
        }
    }

    /// Whether a request for the host names only processes that the requester may act on.
    fn permit_service(&self, requester: &Requester, service: &Service) -> Result<(), Status> {
        match service {
            Service::IofPush(push) => self.permit_all(requester, Action::PushInput, &push.targets),
            Service::Monitor(Monitor { monitor, directives, .. }) => {
                self.permit_named(requester, Action::Monitor, std::slice::from_ref(monitor))?;
                self.permit_named(requester, Action::Monitor, directives)
            }
            _ => Ok(()),
        }
    }

    /// Splits a job control: removals at the end of processes of the server's own user are this server's task; the rest
    /// is the host's.
    fn control_jobs(&mut self, now: Time, ticket: Ticket, requester: Requester, mut control: JobControl) {
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
                control.directives.sign(&requester);
                self.pass_up(now, ticket, requester, Service::JobControl(control));
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
        let mut for_host = self.for_host(&requester, &queries);
        if for_host.is_empty() && !queries.is_empty() {
            return self.answer_queries(ticket, Questions::new(requester, queries));
        }
        let is_withheld = for_host.len() < queries.len();
        for_host.sign(&requester);
        let upcall = Upcall::Service(requester.clone(), Service::QueryInfo(QueryInfo::new(for_host)));
        let questions = Questions { is_withheld, ..Questions::new(requester, queries) };
        let expected = Expected::Queries(Box::new(questions));
        self.ask_host(now, Purpose::Passed(ticket, expected), upcall);
    }

    /// Gives a service in the host's form to the host.
    fn pass_up(&mut self, now: Time, ticket: Ticket, requester: Requester, service: Service) {
        if !self.config.capabilities.contains(service.needs()) {
            return self.outputs.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
        }
        let purpose = Purpose::Passed(ticket, Expected::Answer(service.form()));
        self.ask_host(now, purpose, Upcall::Service(requester, service));
    }

    fn is_tool(&self, id: PeerId) -> bool {
        self.peers.get(id).is_some_and(|peer| peer.is_tool)
    }

    /// The requester behind a ticket, with the kernel's ids.
    pub(in crate::server) fn requester(&self, ticket: &Ticket, proc: ProcId) -> Option<Requester> {
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
            (Expected::Queries(asked), HostReply::Status(status)) if is_incomplete(status) => {
                return self.answer_queries(ticket, Questions { verdict: Some(status), ..*asked });
            }
            (Expected::Queries(asked), HostReply::Infos { status, info })
                if is_incomplete(status) || (status == Status::SUCCESS && asked.is_withheld) =>
            {
                let status = if status == Status::SUCCESS { Status::ERR_PARTIAL_SUCCESS } else { status };
                return self.answer_queries(ticket, Questions { verdict: Some(status), told: info, ..*asked });
            }
            (Expected::Answer(AnswerForm::Namespace), HostReply::Spawned(namespace)) => {
                self.spawned(ticket.peer(), &namespace)
            }
            (Expected::Answer(form), reply) => form.reply(reply),
            (Expected::Queries(_), reply) => AnswerForm::Infos.reply(reply),
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
    pub(in crate::server) fn job_data(&self, namespace: &Namespace) -> Vec<crate::types::Kval> {
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

macro_rules! services {
    ($(
        $(#[$doc:meta])*
        $service:ident = $code:literal, $capability:ident = $bit:literal,
        fn $method:ident($directives:ident) -> $answer:ty { $($fields:tt)* }
    )*) => {
        impl Service {
            /// The capability of a host that has the service.
            const fn needs(&self) -> Capabilities {
                match self {
                    $(Self::$service(_) => Capabilities::$capability,)*
                }
            }

            /// The form of the host's answer.
            #[must_use]
            pub const fn form(&self) -> AnswerForm {
                match self {
                    $(Self::$service(_) => <$answer as HasForm>::FORM,)*
                }
            }

            fn sign(&mut self, requester: &Requester) {
                match self {
                    $(Self::$service(request) => request.$directives.sign(requester),)*
                }
            }
        }
    };
}

with_services!(services);

/// The answer of a service.
trait HasForm {
    const FORM: AnswerForm;
}

macro_rules! answers {
    ($($answer:ty: $form:ident,)*) => {
        $(impl HasForm for $answer {
            const FORM: AnswerForm = AnswerForm::$form;
        })*
    };
}

answers! {
    (): Status,
    Vec<Pdata>: Lookup,
    Vec<Info>: Infos,
    Namespace: Namespace,
    Credential: Credential,
}

/// The form of a successful answer of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerForm {
    /// No data.
    Status,
    /// Published data.
    Lookup,
    /// Infos.
    Infos,
    /// The namespace of a job.
    Namespace,
    /// A credential.
    Credential,
}

impl AnswerForm {
    /// The reply that holds the host's answer.
    #[must_use]
    pub fn reply(self, reply: HostReply) -> Reply {
        match (self, reply) {
            (Self::Lookup, HostReply::Lookup { status, found }) => {
                with_status(settled(status), found.is_empty(), Reply::Lookup(found))
            }
            (Self::Infos, HostReply::Infos { status, info }) => {
                with_status(settled(status), info.is_empty(), Reply::Infos(info))
            }
            (Self::Credential, HostReply::Credential(credential)) => Reply::Credential(credential),
            (Self::Namespace, HostReply::Spawned(namespace)) => {
                Reply::Spawned { namespace: Text::from(namespace.as_str()), entries: Vec::new() }
            }
            (form, reply) => match (status_of(&reply), form) {
                (Status::SUCCESS, Self::Lookup) => Reply::Lookup(Vec::new()),
                (Status::SUCCESS, Self::Infos) => Reply::Infos(Vec::new()),
                (Status::SUCCESS, Self::Credential) => {
                    Reply::Credential(Credential { bytes: Vec::new(), info: Vec::new() })
                }
                // A job without a name is an error.
                (Status::SUCCESS, Self::Namespace) => Reply::Status(Status::ERROR),
                (status, _) => Reply::Status(status),
            },
        }
    }
}

impl Service {
    /// The request of a client or tool in the form for the host: the server adds its knowledge in place of any claims.
    ///
    /// # Errors
    /// The status for an invalid request.
    pub(in crate::server) fn of_peer(mut self, requester: &Requester, is_tool: bool) -> Result<Self, Status> {
        if matches!(&self, Self::Spawn(spawn) if !spawn.has_valid_parents()) {
            return Err(Status::ERR_BAD_PARAM);
        }
        self.sign(requester);
        match &mut self {
            Self::Spawn(spawn) => set_parent(spawn, requester, is_tool),
            Self::Log(log) => set_source(log, requester),
            _ => {}
        }
        self.forget_claims();
        Ok(self)
    }

    /// A request of the server's own process in the form for the host. A spawn may name another parent, because a server
    /// launches on behalf of others.
    #[must_use]
    pub fn of_server(mut self, requester: &Requester) -> Self {
        self.sign(requester);
        if let Self::Spawn(spawn) = &mut self {
            for (key, value) in [
                (keys::SPAWNED.name(), Value::Bool(true)),
                (keys::PARENT_ID.name(), Value::from(requester.proc.clone())),
            ] {
                if spawn.job.iter().all(|info| info.key.as_str() != key) {
                    spawn.job.push(Info::new(Key::from_static(key), value));
                }
            }
        }
        self
    }
}

/// Sets the parent of a job and its kind.
fn set_parent(spawn: &mut Spawn, requester: &Requester, is_tool: bool) {
    let Spawn { job, apps } = spawn;
    set(job, keys::SPAWNED, Value::Bool(true));
    set(job, keys::PARENT_ID, Value::from(requester.proc.clone()));
    let kinds = [keys::REQUESTOR_IS_TOOL, keys::REQUESTOR_IS_CLIENT];
    job.retain(|info| !kinds.iter().any(|kind| kind.name() == info.key.as_str()));
    set(job, if is_tool { keys::REQUESTOR_IS_TOOL } else { keys::REQUESTOR_IS_CLIENT }, Value::Bool(true));
    // A host may look for these keys in the infos of one application, too.
    let ours = [keys::USERID.name(), keys::GRPID.name(), keys::PARENT_ID.name()];
    apps.iter_mut().for_each(|app| app.info.retain(|info| !ours.contains(&info.key.as_str())));
}

/// Sets the source of a log, and its time if the requester sent one.
fn set_source(log: &mut Log, requester: &Requester) {
    set(&mut log.directives, keys::LOG_SOURCE, Value::from(requester.proc.clone()));
    if let Some(timestamp) = log.timestamp.filter(|&timestamp| timestamp > 0)
        && find(&log.directives, keys::LOG_TIMESTAMP).is_none()
    {
        set(&mut log.directives, keys::LOG_TIMESTAMP, Value::Time(timestamp));
    }
}

/// Results with a status. Without results only the status is sent, unless it is success.
pub(super) fn with_status(status: Status, is_empty: bool, results: Reply) -> Reply {
    match status {
        Status::SUCCESS => results,
        status if is_empty => Reply::Status(status),
        status => Reply::Partial { status, results: Box::new(results) },
    }
}
