//! Requests that only the host can answer: they go up with their requester, and the answer comes down.

use super::access::Action;
use super::cleanup::CleanupPart;
use super::shared_monitoring::with_share;
use crate::gds::Datastore;
use crate::keys;
use crate::proto::{AnswerForm, JobControl, Monitor, QueryInfo, Reply, Request, Service};
use crate::server::interface::{
    Capabilities, HostReply, Output, OutputSettings, OwnQuery, PeerId, Requester, Signed, Upcall, UpcallId, timeout,
};
use crate::server::state::{
    Expected, Peer, Purpose, QueryScope, Questions, ServerCore, SpawnedOutput, Ticket, for_runtime,
};
use crate::storage::has_directive;
use crate::types::{Info, InfoFlags, Namespace, ProcId, Query, Status, Text, Time, Value, footprint};

impl<S: Datastore> ServerCore<S> {
    pub(in crate::server) fn pass_service(
        &mut self,
        now: Time,
        ticket: Ticket,
        requester: Requester,
        service: Service,
    ) {
        if let Service::Monitor(monitor) = &service
            && let Some(reply) = self.monitor(now, &ticket, monitor)
        {
            return self.outputs.reply(ticket, reply);
        }
        let mut service = service;
        let expected = match self.read_output_directives(ticket.peer(), &mut service) {
            Ok(expected) => expected,
            Err(status) => return self.outputs.reply_status(ticket, status),
        };
        let permitted = self.permit_service(&requester, &service);
        let is_tool = self.peers.get(ticket.peer()).is_some_and(Peer::is_tool);
        match permitted.and_then(|()| service.of_peer(&requester, is_tool)) {
            Ok(Service::Monitor(request)) if self.config.shares_monitoring => {
                self.share_monitoring(now, ticket, requester, request);
            }
            Ok(service) => self.pass_up(now, (ticket, expected), requester, service),
            Err(status) => self.outputs.reply_status(ticket, status),
        }
    }

    /// Whether a request requires facts about its requester that are not true. The server states these facts itself.
    pub(in crate::server) fn has_false_claim(&self, peer: PeerId, requester: &Requester, request: &Request) -> bool {
        match request {
            Request::Service(service) => {
                has_false_claim(requester, self.peers.get(peer).is_some_and(Peer::is_tool), service)
            }
            Request::IofPull(pull) => pull.directives.iter().any(|info| is_false_claim(requester, info)),
            _ => false,
        }
    }

    /// Takes the directives for output that this server honours. A push has none of them.
    fn read_output_directives(&self, peer: PeerId, service: &mut Service) -> Result<Expected, Status> {
        let kept_bytes_max = self.config.limits.kept_output_bytes_max;
        match service {
            Service::Spawn(spawn) => {
                let output = self.output_of_spawn(peer, spawn);
                // Without output for the spawner the host knows whether the server gets any.
                let settings = if output.channels != 0 || spawn.asks_for_output() {
                    OutputSettings::honoured(&mut spawn.job, kept_bytes_max)?
                } else {
                    OutputSettings::within(&spawn.job, kept_bytes_max)?
                };
                Ok(Expected::Spawned(SpawnedOutput { settings, ..output }))
            }
            Service::IofPush(push) => {
                let is_refused = |info: &Info| {
                    info.flags().contains(InfoFlags::REQUIRED) && OutputSettings::is_directive(info.key.as_str())
                };
                let is_refused = push.directives.iter().any(is_refused);
                if is_refused { Err(Status::ERR_NOT_SUPPORTED) } else { Ok(Expected::Answer(AnswerForm::Status)) }
            }
            service => Ok(Expected::Answer(service.form())),
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
    pub(in crate::server) fn control_jobs(
        &mut self,
        now: Time,
        ticket: Ticket,
        requester: Requester,
        mut control: JobControl,
    ) {
        if let Some(info) = self.number_for_group(&requester.proc, &control) {
            return self.outputs.reply(ticket, Reply::Infos(vec![info]));
        }
        if self.config.stages_files && has_directive(&control.directives) {
            return self.pass_file_order(now, ticket, requester, control);
        }
        control.targets = match self.with_members(control.targets, &requester.proc) {
            Ok(targets) => targets,
            Err(status) => return self.outputs.reply_status(ticket, status),
        };
        let taken = self.take_cleanup(&requester, &control.targets, &mut control.directives);
        let is_permitted = match taken {
            Ok(CleanupPart::Everything) => Ok(()),
            _ => self.permit_all(&requester, Action::Control, &control.targets),
        };
        match is_permitted.and(taken) {
            Ok(CleanupPart::Everything) => self.outputs.reply(ticket, Reply::Infos(Vec::new())),
            Ok(CleanupPart::Nothing | CleanupPart::Part) => {
                control.directives.sign(&requester);
                let service = Service::JobControl(control);
                self.pass_up(now, (ticket, Expected::Answer(service.form())), requester, service);
            }
            Err(status) => self.outputs.reply_status(ticket, status),
        }
    }

    /// Requests about files go to the runtime. Its file systems may answer late, so the client's time limit counts
    /// here, too.
    fn pass_file_order(&mut self, now: Time, ticket: Ticket, requester: Requester, control: JobControl) {
        let deadline = timeout(&control.directives).map(|timeout| now + timeout);
        let service = Service::JobControl(control);
        let purpose = Purpose::Passed(ticket, Expected::Answer(service.form()));
        self.ask_host_until(deadline, purpose, Upcall::Service(requester, service));
    }

    /// Queries go to the host. This server answers what the host does not support, as far as it can.
    pub(in crate::server) fn pass_queries(
        &mut self,
        now: Time,
        ticket: Ticket,
        requester: Requester,
        queries: Vec<Query>,
    ) {
        if self.is_beyond_limits(&queries) {
            return self.outputs.reply_status(ticket, Status::ERR_OUT_OF_RESOURCE);
        }
        if !self.config.capabilities.contains(Capabilities::QUERY) {
            return self.answer_rest(ticket, Questions::new(requester, queries));
        }
        let mut for_host = self.for_host(&requester, &queries);
        if for_host.is_empty() && !queries.is_empty() {
            return self.answer_rest(ticket, Questions::new(requester, queries));
        }
        let is_withheld = for_host.len() < queries.len();
        for_host.sign(&requester);
        let upcall = Upcall::Service(requester.clone(), Service::QueryInfo(QueryInfo::new(for_host)));
        let questions = Questions { is_withheld, ..Questions::new(requester, queries) };
        let expected = Expected::Queries(Box::new(questions));
        self.ask_host(now, Purpose::Passed(ticket, expected), upcall);
    }

    /// Answers what the host has left. The runtime comes first, because a file system may answer late: outside the
    /// core, without the host's time limit.
    fn answer_rest(&mut self, ticket: Ticket, questions: Questions) {
        let Questions { requester, queries, host_answers, .. } = &questions;
        let mut for_runtime = for_runtime(requester, queries, host_answers, self.config.answers_storage);
        if for_runtime.is_empty() {
            return self.answer_queries(ticket, questions);
        }
        // The runtime does not know the numbers of nodes, which are those of a job.
        for query in &mut for_runtime {
            let own_node = self.own_node_of(requester, query);
            let is_of_own_node = |info: &Info| {
                info.key.as_str() == keys::NODEID.name() && own_node.is_some() && info.value.as_u64() == own_node
            };
            query.qualifiers.retain(|info| !is_of_own_node(info));
        }
        let requester = requester.clone();
        let purpose = Purpose::Passed(ticket, Expected::Looks(Box::new(questions)));
        let id = self.upcalls.insert(purpose, None);
        self.outputs.push(Output::Look(id, requester, for_runtime));
    }

    /// The number of this node in the job that a query is about.
    pub fn own_node_of(&self, requester: &Requester, query: &Query) -> Option<u64> {
        let scope = QueryScope::of(query, requester, 0, self.config.answers_storage).ok()?;
        self.own_node_id(&scope.namespace)
    }

    /// Whether a request has too many queries, keys or qualifiers.
    pub(super) fn is_beyond_limits(&self, queries: &[Query]) -> bool {
        let key_count = queries.iter().map(|query| query.keys.len()).fold(0, usize::saturating_add);
        let qualifier_count =
            queries.iter().map(|query| query.qualifiers.len()).fold(queries.len(), usize::saturating_add);
        let keys_max = self.config.limits.query_keys_max;
        key_count > keys_max || qualifier_count > keys_max.saturating_mul(QUALIFIERS_PER_KEY)
    }

    /// Gives a service in the host's form to the host.
    pub(super) fn pass_up(
        &mut self,
        now: Time,
        (ticket, expected): (Ticket, Expected),
        requester: Requester,
        service: Service,
    ) {
        let is_for_host = self.config.capabilities.contains(service.needs());
        if !is_for_host && !self.is_own_service(&service) {
            return self.outputs.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
        }
        tracing::debug!(proc = %requester.proc, command = ?service.command(), is_for_host, "a request for a service");
        let purpose = Purpose::Passed(ticket, expected);
        // The host's time limit does not apply to services of the runtime. A lookup has its own limit.
        let timeout = self.config.host_timeout.filter(|_| is_for_host);
        self.ask_host_until(timeout.map(|timeout| now + timeout), purpose, Upcall::Service(requester, service));
    }

    /// The requester behind a connection, with the kernel's ids.
    pub(in crate::server) fn requester(&self, peer: PeerId, proc: ProcId) -> Option<Requester> {
        let credentials = self.peers.get(peer)?.credentials();
        let object = self.registry.client(&proc).map_or(0, |client| client.object());
        Some(Requester { proc, object, uid: credentials.uid, gid: credentials.gid })
    }

    /// The host's answer to a request that was passed up.
    pub(in crate::server) fn settle_passed(
        &mut self,
        now: Time,
        upcall: UpcallId,
        (ticket, expected): (Ticket, Expected),
        reply: HostReply,
    ) {
        let reply = match (expected, reply) {
            (Expected::Pull, reply) => return self.settle_pull(now, upcall, ticket, reply.status()),
            (Expected::Queries(asked), HostReply::Status(status)) if OwnQuery::is_left(status) => {
                return self.answer_rest(ticket, Questions { verdict: Some(status), ..*asked });
            }
            (Expected::Queries(asked), HostReply::Infos { status, info })
                if OwnQuery::is_left(status) || (status == Status::SUCCESS && asked.is_withheld) =>
            {
                let status = if status == Status::SUCCESS { Status::ERR_PARTIAL_SUCCESS } else { status };
                return self.answer_rest(ticket, Questions { verdict: Some(status), host_answers: info, ..*asked });
            }
            (Expected::Looks(mut asked), reply) => {
                let (found, refusal) = reply.into_looks();
                asked.host_answers.extend(found);
                asked.runtime_refusal = refusal;
                return self.answer_queries(ticket, *asked);
            }
            (Expected::Spawned(output), HostReply::Spawned(namespace)) => {
                if !self.registry.has_ended(&namespace) {
                    self.forwarding.describe_job(&self.registry, &namespace, output.settings);
                }
                let (spawner, reply) = (ticket.peer(), self.spawned(ticket.peer(), &namespace));
                self.outputs.reply(ticket, reply);
                self.forward_spawned(now, spawner, &namespace, output.inherits);
                return self.forward_to_spawner(now, spawner, namespace, output);
            }
            (Expected::Spawned(_), reply) => AnswerForm::Namespace.reply(reply),
            (Expected::Share(request), reply) => return self.ask_other_nodes(now, ticket, *request, reply),
            (Expected::Rest(found), reply) => AnswerForm::Infos.reply(with_share(found, reply)),
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
    pub(super) fn job_data(&self, namespace: &Namespace) -> Vec<crate::types::Kval> {
        let job = self.registry.registered(namespace);
        if job.is_none_or(|job| job.job_size().is_some_and(|size| size > JOB_DATA_RANKS_MAX)) {
            return Vec::new();
        }
        let entries = self.job_for_peers(namespace).unwrap_or_default();
        let sizes = entries.iter().map(|entry| footprint(&entry.value).unwrap_or(usize::MAX));
        let is_small = sizes.fold(0, usize::saturating_add) <= self.config.limits.reply_bytes_max;
        if is_small { entries } else { Vec::new() }
    }
}

/// Largest job that is described in an answer about something else.
const JOB_DATA_RANKS_MAX: u32 = 4096;
/// Qualifiers of queries, and queries, for each allowed key.
const QUALIFIERS_PER_KEY: usize = 4;

/// Whether a service requires facts about its requester that are not true.
pub(crate) fn has_false_claim(requester: &Requester, is_tool: bool, service: &Service) -> bool {
    let is_false = |info: &Info| is_false_claim(requester, info);
    match service {
        Service::Spawn(spawn) => {
            let mut infos = spawn.job.iter().chain(spawn.apps.iter().flat_map(|app| &app.info));
            infos.any(|info| is_false(info) || is_false_claim_of_spawn(requester, is_tool, info))
        }
        Service::Log(log) => log.directives.iter().any(|info| {
            is_false(info) || is_another(info, keys::LOG_SOURCE.name(), &Value::from(requester.proc.clone()))
        }),
        Service::Monitor(Monitor { directives, .. }) => directives.iter().any(|info| {
            is_false(info) || is_another(info, keys::MONITOR_PROXY.name(), &Value::from(requester.proc.clone()))
        }),
        service => service.directives().into_iter().flatten().any(is_false),
    }
}

/// Whether an entry requires another user or group of the requester than the server knows.
pub(super) fn is_false_claim(requester: &Requester, info: &Info) -> bool {
    let id = match info.key.as_str() {
        key if key == keys::USERID.name() => requester.uid,
        key if key == keys::GRPID.name() => requester.gid,
        _ => return false,
    };
    info.flags().contains(InfoFlags::REQUIRED) && info.value.as_u32() != Some(id)
}

/// Whether an entry of a spawn requires another parent, or another kind of parent.
fn is_false_claim_of_spawn(requester: &Requester, is_tool: bool, info: &Info) -> bool {
    is_another(info, keys::PARENT_ID.name(), &Value::from(requester.proc.clone()))
        || is_another(info, keys::SPAWNED.name(), &Value::Bool(true))
        || is_another(info, keys::REQUESTOR_IS_TOOL.name(), &Value::Bool(is_tool))
        || is_another(info, keys::REQUESTOR_IS_CLIENT.name(), &Value::Bool(!is_tool))
}

/// Whether an entry requires another value of a key.
fn is_another(info: &Info, key: &str, value: &Value) -> bool {
    info.key.as_str() == key && info.flags().contains(InfoFlags::REQUIRED) && info.value != *value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{Log, Spawn};
    use crate::types::{Key, Namespace, Rank};

    fn required(key: &'static str, value: impl Into<Value>) -> Info {
        Info { flags: InfoFlags::REQUIRED.bits(), ..Info::new(Key::from_static(key), value) }
    }

    #[test]
    fn required_facts_about_a_requester_must_be_true() {
        let proc = |rank| ProcId { namespace: Namespace::new("job").unwrap(), rank: Rank::Process(rank) };
        let requester = Requester { proc: proc(1), object: 0, uid: 7, gid: 8 };
        let is_false = |service: &Service| has_false_claim(&requester, false, service);
        let spawn = |info| Service::Spawn(Spawn { job: vec![info], apps: Vec::new() });
        for (key, truth, lie) in [
            (keys::USERID.name(), Value::Uint32(7), Value::Uint32(9)),
            (keys::GRPID.name(), Value::Uint32(8), Value::Uint32(9)),
            (keys::PARENT_ID.name(), Value::from(proc(1)), Value::from(proc(2))),
            (keys::SPAWNED.name(), Value::Bool(true), Value::Bool(false)),
            (keys::REQUESTOR_IS_TOOL.name(), Value::Bool(false), Value::Bool(true)),
            (keys::REQUESTOR_IS_CLIENT.name(), Value::Bool(true), Value::Bool(false)),
        ] {
            assert!(!is_false(&spawn(required(key, truth))), "{key}");
            assert!(is_false(&spawn(required(key, lie.clone()))), "{key}");
            assert!(!is_false(&spawn(Info::new(Key::from_static(key), lie))), "{key}");
        }
        let log = |source| {
            let directives = vec![required(keys::LOG_SOURCE.name(), proc(source))];
            Log { timestamp: None, data: Vec::new(), directives }
        };
        assert!(!is_false(&Service::Log(log(1))) && is_false(&Service::Log(log(2))));
    }
}
