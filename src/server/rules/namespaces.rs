//! The host's registrations, and their effects on waiting requests.

use crate::gds::Datastore;
use crate::gds::registration::{Description, ResourceChange};
use crate::keys;
use crate::server::interface::{
    Credentials, HostResult, Output, OutputSettings, PeerId, ProcessFacts, Reason, RegisterClient, RegisterNamespace,
    find,
};
use crate::server::state::{Concerned, OperationId, Presence, RegisteredClient, RegisteredJob, ServerCore};
use crate::types::{AsStatus, Info, Namespace, ProcId, Status, Time, Value};

impl<S: Datastore> ServerCore<S> {
    /// Describes a job. A repeated call replaces the values that it names; other values stay.
    pub(in crate::server) fn register_namespace(&mut self, now: Time, registration: &RegisterNamespace) -> HostResult {
        let RegisterNamespace { namespace, local_count, .. } = registration;
        self.evict_guests(now, namespace);
        if self.registry.job(namespace).is_none() {
            self.forwarding.begin_job(namespace);
        }
        match OutputSettings::of(output_infos(registration.description.infos())) {
            Ok(settings) => self.forwarding.describe_job(&self.registry, namespace, settings),
            Err(status) => tracing::warn!(%namespace, %status, "directives for the output of a job are wrong"),
        }
        let job_size = match self.store_description(registration) {
            Ok(job_size) => job_size,
            Err(error) => {
                tracing::error!(%namespace, %error, "registration refused");
                return HostResult::Failed { status: error.status(), reason: error.to_string() };
            }
        };
        self.described(now, namespace, *local_count, job_size, user_in(registration.description.infos()));
        self.inherit_pulls_of_description(now, namespace, output_infos(registration.description.infos()));
        tracing::info!(%namespace, local_count, job_size, "namespace registered");
        HostResult::Status(Status::SUCCESS)
    }

    /// The store has a job's new description.
    fn described(
        &mut self,
        now: Time,
        namespace: &Namespace,
        local_count: Option<u32>,
        job_size: Option<u32>,
        user: Option<u32>,
    ) {
        let job = self.registry.job_or_insert(namespace);
        let is_new = job.describe(local_count, job_size, user);
        tracing::debug!(%namespace, local_count, job_size = job.job_size(), "namespace described");
        self.registry.touch();
        self.outputs.push(Output::Described(namespace.clone()));
        self.wake(namespace);
        if is_new {
            self.hand_over_new(namespace);
        }
        self.tie_children_here(namespace);
        self.review_namespace(now, namespace);
    }

    /// Extends the description of a job. An unregistered job is an error.
    pub(in crate::server) fn extend_namespace(
        &mut self,
        now: Time,
        namespace: Namespace,
        description: Description,
    ) -> HostResult {
        if let Some(refusal) = self.refusal_of_extension(&namespace) {
            return refusal;
        }
        self.register_namespace(now, &RegisterNamespace { namespace, local_count: None, description, nodata: false })
    }

    /// Gives a job other resources. An unregistered job is an error.
    pub(in crate::server) fn change_resources(
        &mut self,
        now: Time,
        namespace: &Namespace,
        change: &ResourceChange,
    ) -> HostResult {
        if let Some(refusal) = self.refusal_of_extension(namespace) {
            return refusal;
        }
        match self.store.change_resources(namespace, change) {
            Ok(None) => {}
            Ok(Some(summary)) => self.described(now, namespace, None, summary.job_size, None),
            Err(error) => return HostResult::Failed { status: error.status(), reason: error.to_string() },
        }
        HostResult::Status(Status::SUCCESS)
    }

    fn refusal_of_extension(&self, namespace: &Namespace) -> Option<HostResult> {
        let is_known = self.registry.registered(namespace).is_some_and(|job| !job.is_of_tools());
        (!is_known).then(|| {
            let reason = format!("{namespace} is not registered; register it before its description is extended");
            HostResult::Failed { status: Status::ERR_NOT_FOUND, reason }
        })
    }

    /// Ends the tools that used a name before the host registered it: none goes on as a process of the host's job.
    /// Tools that the host admitted under it stay.
    fn evict_guests(&mut self, now: Time, namespace: &Namespace) {
        let Some(job) = self.registry.job(namespace).filter(|job| job.is_of_tools()) else { return };
        let is_evicted = |client: &RegisteredClient| client.is_guest() && !client.is_vouched_for();
        let ranks: Vec<u32> =
            job.clients().iter().filter(|(_, client)| is_evicted(client)).map(|(&rank, _)| rank).collect();
        for rank in ranks {
            self.deregister_client(now, &ProcId::new(namespace.clone(), rank));
        }
    }

    /// Publishes a job's description, and returns its number of processes, if given. The store gets even a namespace
    /// without data, because its processes may commit.
    fn store_description(&mut self, registration: &RegisterNamespace) -> Result<Option<u32>, S::Error> {
        let RegisterNamespace { namespace, description, nodata, .. } = registration;
        if !nodata {
            return Ok(self.store.register_description(namespace, description)?.job_size);
        }
        if !self.store.is_registered(namespace) {
            self.store.register(namespace, &[])?;
        }
        Ok(find(description.infos(), keys::JOB_SIZE).and_then(|info| info.value.as_u32()))
    }

    /// Announces a local process, perhaps before its namespace. A process announced again after its end starts anew. A
    /// connection under its name with other credentials is closed.
    pub(in crate::server) fn register_client(&mut self, now: Time, registration: &RegisterClient) -> Status {
        let RegisterClient { proc, uid, gid, object } = registration;
        let Some(rank) = proc.rank.process() else { return Status::ERR_BAD_PARAM };
        let credentials = Credentials { uid: *uid, gid: *gid };
        // A process beyond the job's size would never arrive, and operations would wait for it. Tools define no job
        // size.
        let hosts_job = self.registry.job(&proc.namespace).filter(|job| !job.is_of_tools());
        if hosts_job.and_then(RegisteredJob::job_size).is_some_and(|job_size| rank >= job_size) {
            return Status::ERR_BAD_PARAM;
        }
        if self.registry.client(proc).is_some_and(|client| client.credentials() != credentials) {
            self.deregister_client(now, proc);
        }
        let readers = self.readers_now(&proc.namespace);
        let commit_base = self.registry.commit_base();
        let job = self.registry.job_or_insert(&proc.namespace);
        let client = job.client_or_insert(rank, || RegisteredClient::expected(credentials, *object, commit_base));
        client.announce(credentials, *object);
        self.registry.touch();
        // The owners of these processes decide who may map their segment.
        self.review_readers(&proc.namespace, &readers);
        self.review_namespace(now, &proc.namespace);
        Status::SUCCESS
    }

    pub(in crate::server) fn describe_process(&mut self, facts: ProcessFacts) -> Status {
        let ProcessFacts { proc, pid, executable } = facts;
        if let Some(client) = self.registry.client_mut(&proc) {
            client.describe(pid, executable);
        }
        Status::SUCCESS
    }

    /// A local process has ended. Its data stays until its namespace is deregistered.
    pub(in crate::server) fn deregister_client(&mut self, now: Time, proc: &ProcId) -> Status {
        let Some(client) = self.registry.client_mut(proc) else { return Status::SUCCESS };
        let previous = client.deregister();
        self.registry.touch();
        match previous {
            // The host was faster than the end of the connection, or the process never connected.
            Presence::Expected | Presence::Connected => self.announce_end(now, proc),
            Presence::Finalized => self.end_invitations_of(now, proc),
            Presence::Lost | Presence::Deregistered => {}
        }
        for peer in self.peers_of(|other| other == proc) {
            self.dismiss(now, peer, Status::ERR_NOT_AVAILABLE, Reason::Deregistered);
        }
        self.untie(now, proc);
        self.clean_up_after(proc);
        self.review_namespace(now, &proc.namespace);
        Status::SUCCESS
    }

    /// Removes a job: pending requests end with a status, its connections are closed, its data is dropped.
    pub(in crate::server) fn deregister_namespace(&mut self, now: Time, namespace: &Namespace) -> Status {
        // The youngest first: none must continue because an older one has ended.
        let operations: Vec<OperationId> = self.collectives.with(namespace).rev().collect();
        for operation in operations {
            self.finish_operation(now, operation, Status::ERR_NOT_FOUND);
        }
        for upcall in self.upcalls.fetches_of(namespace) {
            self.cancel_upcall(upcall);
        }
        let ended = self.held_gets.about_ended(namespace);
        self.review(now, [ended]);
        for peer in self.peers_of(|proc| proc.namespace == *namespace) {
            self.dismiss(now, peer, Status::ERR_NOT_AVAILABLE, Reason::Deregistered);
        }
        self.untie_namespace(namespace);
        self.clean_up_after_job(namespace);
        self.deliver_all_of_job(namespace);
        self.forwarding.forget_namespace(namespace);
        self.groups.forget_namespace(namespace);
        self.given.forget_namespace(namespace);
        self.process_sets.forget_namespace(namespace);
        self.exchanges.forget_namespace(namespace);
        self.missed_fences.forget_namespace(namespace, &self.registry);
        self.invitations.forget_namespace(namespace, |proc| self.registry.client(proc).is_some());
        self.vacancies.forget_namespace(namespace);
        if self.registry.end(namespace, self.config.limits.jobs_ended_max).is_some() {
            self.registry.touch();
        }
        self.events.forget_namespace(namespace);
        if self.store.deregister(namespace) {
            self.outputs.push(Output::Described(namespace.clone()));
        }
        Status::SUCCESS
    }

    fn peers_of(&self, is_meant: impl Fn(&ProcId) -> bool) -> Vec<PeerId> {
        self.peers.iter().filter(|(_, peer)| is_meant(peer.proc())).map(|(id, _)| id).collect()
    }

    /// Reviews everything that depends on the processes of a namespace.
    pub(super) fn review_namespace(&mut self, now: Time, namespace: &Namespace) {
        self.review(now, [Concerned::Job(namespace.clone())]);
        self.advance_with(now, namespace);
    }
}

/// Directives for output in a job's description, perhaps among the job's own infos.
fn output_infos(description: &[Info]) -> impl Iterator<Item = &Info> {
    let inner = description.iter().filter(|info| info.key.as_str() == keys::JOB_INFO_ARRAY.name());
    let inner = inner.filter_map(|info| if let Value::DataArray(array) = &info.value { Some(array) } else { None });
    let inner = inner.flat_map(|array| &array.elements);
    let inner = inner.filter_map(|element| if let Value::Info(info) = element { Some(info.as_ref()) } else { None });
    description.iter().chain(inner)
}

/// The user in a job's description, perhaps among the job's own infos.
fn user_in(description: &[Info]) -> Option<u32> {
    let user = |info: &Info| (info.key.as_str() == keys::USERID.name()).then(|| info.value.as_u32()).flatten();
    let in_array = |info: &Info| match &info.value {
        Value::DataArray(array) if info.key.as_str() == keys::JOB_INFO_ARRAY.name() => {
            let infos = array.elements.iter();
            infos.filter_map(|element| if let Value::Info(info) = element { user(info) } else { None }).next()
        }
        _ => None,
    };
    description.iter().find_map(|info| user(info).or_else(|| in_array(info)))
}
