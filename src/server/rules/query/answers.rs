//! The steps that answer the keys of queries.

use super::asking::{Asking, about_self};
use crate::gds::{Datastore, KeyRef, Lookup, NodeSelector, RealmRequest, qualified};
use crate::keys::{self, TypedKey};
use crate::server::interface::query_answers::{QUERY_QUALIFIERS, supported_keys};
use crate::server::interface::{
    Answer, HostData, HostResult, Output, OwnQuery, ProcessRow, QueryAnswer, QueryAnswers, Requester,
};
use crate::server::rules::access::{Action, Object};
use crate::server::rules::derived::{Derivation, Derived, may_be_derived};
use crate::server::rules::inventory::TopologyNeeded;
use crate::server::state::{
    Answering, CallTicket, Presence, QueryProgress, QueryScope, Questions, RegisteredClient, RegisteredJob,
    RequestedData, Rest, ServerCore, Ticket, Topology,
};
use crate::topo::derived::Derivable;
use crate::types::{Info, Key, Namespace, Query, Rank, Status, Text, Value};
use crate::{storage, usage};

/// Reasons for missing answers.
enum Unanswered {
    Refused(Status),
    /// The topology must be read first.
    NeedsTopology,
}

impl From<Status> for Unanswered {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

impl From<TopologyNeeded> for Unanswered {
    fn from(_: TopologyNeeded) -> Self {
        Self::NeedsTopology
    }
}

impl<S: Datastore> ServerCore<S> {
    /// The queries for the host. A query about a job that the requester may not query does not go up. It gets the
    /// answer for an unknown job.
    pub(in crate::server::rules) fn for_host(&self, requester: &Requester, queries: &[Query]) -> Vec<Query> {
        let may_query = |job: &Namespace| self.may(requester, Action::Query, Object::Job(job));
        let is_reached = |(index, query): &(usize, &Query)| {
            // A host may read any of several qualifiers of one key.
            jobs_named(&query.qualifiers).all(|job| may_query(&job))
                && QueryScope::of(query, requester, *index, self.config.answers_storage)
                    .map_or(true, |scope| may_query(&scope.namespace))
        };
        queries.iter().enumerate().filter(is_reached).map(|(_, query)| query.clone()).collect()
    }

    /// Answers each key of each query, in order, and equal ones once. The answer holds found keys only, one info each.
    pub(in crate::server::rules) fn answer_queries(&mut self, ticket: Ticket, questions: Questions) {
        // The topology may be available to the host alone.
        let topology = if self.config.answers_topology { Topology::Unasked } else { Topology::Absent };
        self.answer_queries_with(ticket, questions, topology);
    }

    /// The same with a known state of the topology.
    pub(in crate::server::rules) fn answer_queries_with(
        &mut self,
        ticket: Ticket,
        questions: Questions,
        topology: Topology,
    ) {
        let progress = QueryProgress::new(&questions.host_answers);
        self.proceed_queries(Box::new(Answering { ticket, questions, topology, progress }));
    }

    /// Answers the next keys.
    pub(in crate::server) fn proceed_queries(&mut self, mut answering: Box<Answering>) {
        let Answering { questions, topology, progress, .. } = &mut *answering;
        let outcome = self.answer_some(questions, topology, progress);
        if let Ok(false) = outcome {
            return self.leave_rest(answering.ticket.peer(), Rest::Queries(answering));
        }
        if let Err(Unanswered::Refused(status)) = outcome {
            let (ticket, garbage) = answering.into_parts();
            self.outputs.reply_status(ticket, status);
            return self.outputs.push(Output::Discard(garbage));
        }
        let Answering { ticket, questions, progress, .. } = *answering;
        match outcome {
            Ok(_) => {
                self.outputs
                    .answer(ticket, Answer::Queries(progress.end(questions.verdict, questions.runtime_refusal)));
            }
            Err(_) => self.defer_queries(ticket, questions),
        }
    }

    /// Answers queries of the server's own process at once: the host itself waits. Values that need the topology are
    /// not found; the host has functions for it.
    pub(in crate::server) fn answer_queries_of_host(&mut self, ticket: CallTicket, query: OwnQuery) {
        match self.answers_for_host(query) {
            Ok(answers) => self.outputs.complete_later(ticket, HostData::Queries(answers)),
            Err(status) => self.outputs.complete(ticket, HostResult::Status(status)),
        }
    }

    fn answers_for_host(&self, query: OwnQuery) -> Result<QueryAnswers, Status> {
        let OwnQuery { requester, queries, host_status: verdict, host_answers, runtime_refusal } = query;
        if self.is_beyond_limits(&queries) {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        let mut progress = QueryProgress::new(&host_answers);
        let questions = Questions { verdict, ..Questions::new(requester, queries) };
        loop {
            match self.answer_some(&questions, &Topology::Absent, &mut progress) {
                Ok(false) => {}
                Ok(true) => return Ok(progress.end(verdict, runtime_refusal)),
                Err(Unanswered::Refused(status)) => return Err(status),
                Err(Unanswered::NeedsTopology) => return Err(Status::ERR_NOT_FOUND),
            }
        }
    }

    /// Answers keys until the step has done enough. Returns whether all are answered.
    fn answer_some(
        &self,
        questions: &Questions,
        topology: &Topology,
        progress: &mut QueryProgress,
    ) -> Result<bool, Unanswered> {
        let Questions { requester, queries, verdict, .. } = questions;
        // The host's answers stay, even if a query can't be completed.
        let is_host_first = verdict.is_some();
        let mut units = UNITS_PER_STEP;
        while let Some((index, query)) = progress.next_query(queries) {
            let scope = match QueryScope::of(query, requester, index, self.config.answers_storage) {
                Ok(scope) => Some(scope),
                Err(refusal) if is_host_first => {
                    progress.refuse_query(refusal);
                    None
                }
                Err(refusal) => return Err(refusal.into()),
            };
            let mut asking =
                scope.as_ref().map(|scope| Asking::new(requester, scope, &query.qualifiers, topology.hardware()));
            while let Some((asking, name)) = asking.as_mut().zip(progress.next_key(query)) {
                if units == 0 || !self.answer_key(progress, asking, name, is_host_first, &mut units)? {
                    return Ok(false);
                }
                progress.end_key();
            }
            progress.end_query();
            units = units.saturating_sub(UNITS_PER_KEY);
            if units == 0 {
                return Ok(progress.next_query(queries).is_none());
            }
        }
        Ok(true)
    }

    /// Answers one key, or adds some rows to its table. Returns whether it is answered.
    fn answer_key(
        &self,
        progress: &mut QueryProgress,
        asking: &mut Asking<'_>,
        name: &Text,
        is_host_first: bool,
        units: &mut usize,
    ) -> Result<bool, Unanswered> {
        let is_supported = |key: &Key| self.supported_keys().any(|known| known == key.as_str());
        let Some(key) = progress.begin_key(asking.scope, name, is_supported) else { return Ok(true) };
        *units = units.saturating_sub(UNITS_PER_KEY.saturating_add(self.units_of_sets(&key)));
        let (requester, namespace) = (asking.requester, &asking.scope.namespace);
        let table = is_local_table(&key).zip(self.registry.job(namespace));
        let answer = match table.filter(|_| self.is_open(requester, namespace)) {
            Some((is_local, job)) => {
                if !self.add_rows(progress, namespace, job, is_local, units) {
                    return Ok(false);
                }
                Some(QueryAnswer::Table(key, namespace.clone(), progress.take_table()))
            }
            None => match self.fact(asking, &key) {
                Some(value) => Some(QueryAnswer::Info(Info { key, flags: 0, value })),
                None => self.fact_about_hardware(asking, key)?,
            },
        };
        let bytes_max = self.config.limits.query_bytes_max;
        match answer.map(|answer| progress.answer(answer, bytes_max)) {
            Some(true) => {}
            Some(false) if !is_host_first => return Err(Status::ERR_OUT_OF_RESOURCE.into()),
            Some(false) => progress.refuse_query(Status::ERR_OUT_OF_RESOURCE),
            None => progress.miss(),
        }
        Ok(true)
    }

    /// A fact that needs no look at the hardware.
    fn fact(&self, asking: &mut Asking<'_>, key: &Key) -> Option<Value> {
        if let Some(value) = self.fact_about_jobs(asking, key) {
            return Some(value);
        }
        asking.aim(key);
        if let Some(value) = about_self(asking, key) {
            return Some(value);
        }
        // Values that the host has registered take precedence over other sources.
        let requested = &asking.requested;
        let is_known = self.registry.registered(&requested.proc.namespace).is_some();
        let registered = if is_known && self.may_query(asking) { self.value_here(requested, key) } else { None };
        registered.or_else(|| self.fact_about_sets(asking, key)).or_else(|| self.fact_about_server(asking, key))
    }

    /// A fact of the fabric, the inventories or the topology.
    fn fact_about_hardware(&self, asking: &Asking<'_>, key: Key) -> Result<Option<QueryAnswer>, Unanswered> {
        let Asking { qualifiers, hardware, requested, .. } = asking;
        if !may_be_derived(qualifiers, &requested.directives.qualifiers) {
            return Ok(None);
        }
        let own = self.own_inventory_for(&key, qualifiers, *hardware)?;
        if let Some(value) = self.hardware_value(&key, qualifiers, own) {
            return Ok(Some(QueryAnswer::Hardware(key, value)));
        }
        let is_of_here = self.may_query(asking) && self.means_own_node(requested);
        let Some(derivable) = Derivable::of(key.as_str()).filter(|_| is_of_here) else { return Ok(None) };
        let of = Derivation { asker: Some(&asking.requester.proc), proc: &asking.meant };
        match self.derived(derivable, &of, *hardware) {
            Derived::Value(value) => Ok(Some(QueryAnswer::Info(Info { key, flags: 0, value }))),
            Derived::Nothing => Ok(None),
            Derived::NeedsTopology => Err(Unanswered::NeedsTopology),
        }
    }

    fn may_query(&self, asking: &Asking<'_>) -> bool {
        self.may(asking.requester, Action::Query, Object::Job(&asking.requested.proc.namespace))
    }

    /// The value that a Get would find under a key without waiting.
    fn value_here(&self, requested: &RequestedData, key: &Key) -> Option<Value> {
        let value = self.value_for_peer(requested, key).ok()?;
        if requested.directives.qualifiers.is_empty() { Some(value) } else { qualified::inner(&value) }
    }

    /// Facts about all jobs, and about the server's keys.
    fn fact_about_jobs(&self, asking: &Asking<'_>, key: &Key) -> Option<Value> {
        let name = keys::by_alternate(key.as_str()).map_or(key.as_str(), |attribute| attribute.name);
        let is = |known: &str| name == known;
        let requester = asking.requester;
        if is(keys::QUERY_NAMESPACES.name()) {
            let names: Vec<&str> = self.open_jobs(requester).map(|(name, _)| name.as_str()).collect();
            return Some(Value::from(names.join(",")));
        }
        if is(keys::QUERY_SUPPORTED_KEYS.name()) {
            return Some(Value::from(self.supported_keys().collect::<Vec<_>>().join(",")));
        }
        if is(keys::QUERY_SUPPORTED_QUALIFIERS.name()) {
            let of_storage = storage::QUALIFIERS.concat().into_iter().filter(|_| self.config.answers_storage);
            let known: Vec<&str> =
                QUERY_QUALIFIERS.into_iter().chain(usage::QUERY_QUALIFIERS).chain(of_storage).collect();
            return Some(Value::from(known.join(",")));
        }
        None
    }

    /// The keys outside job data that this server answers.
    fn supported_keys(&self) -> impl Iterator<Item = &'static str> {
        let has_storage = self.config.answers_storage;
        supported_keys().filter(move |key| has_storage || !storage::is_key(key))
    }

    /// The name and address of this server for its processes. As in other libraries they are values of each process, so
    /// a query without a rank, or for the job, means them, too.
    fn fact_about_server(&self, asking: &Asking<'_>, key: &Key) -> Option<Value> {
        let (own, RequestedData { proc, directives, .. }) = (&asking.requester.proc, &asking.requested);
        let is_own_rank = [own.rank, Rank::Undefined, Rank::Wildcard].contains(&proc.rank);
        if proc.namespace != own.namespace || !is_own_rank || !directives.qualifiers.is_empty() {
            return None;
        }
        let contact = self.config.contact.as_ref()?;
        match key.as_str() {
            key if key == keys::SERVER_NSPACE.name() => Some(Value::from(contact.proc.namespace.as_str())),
            key if key == keys::SERVER_RANK.name() => Some(Value::ProcRank(contact.proc.rank)),
            key if key == keys::SERVER_URI.name() => Some(Value::String(contact.uri.clone())),
            _ => None,
        }
    }

    /// The jobs that a requester may query.
    fn open_jobs(&self, requester: &Requester) -> impl Iterator<Item = (&Namespace, &RegisteredJob)> {
        self.registry.jobs().filter(|(namespace, _)| self.is_open(requester, namespace))
    }

    /// Whether a requester may query a job. Tools are no jobs.
    pub(super) fn is_open(&self, requester: &Requester, namespace: &Namespace) -> bool {
        let is_job = self.registry.registered(namespace).is_some_and(|job| !job.is_of_tools());
        is_job && self.may(requester, Action::Query, Object::Job(namespace))
    }

    /// Adds the next processes to a table, by rank. Returns whether these were the last.
    fn add_rows(
        &self,
        progress: &mut QueryProgress,
        namespace: &Namespace,
        job: &RegisteredJob,
        is_local: bool,
        units: &mut usize,
    ) -> bool {
        let start = progress.next_row();
        let mut ranks: Box<dyn Iterator<Item = u32>> = match job.job_size() {
            Some(size) if !is_local => Box::new(start..size.min(TABLE_RANKS_MAX)),
            _ => Box::new(job.clients().range(start..).map(|(rank, _)| *rank)),
        };
        for rank in ranks.by_ref() {
            if *units == 0 {
                progress.suspend_table(rank);
                return false;
            }
            *units -= 1;
            let client = job.clients().get(&rank);
            progress.add_row(ProcessRow {
                rank,
                pid: client.and_then(RegisteredClient::pid).unwrap_or(0),
                hostname: self.text_of(namespace, rank, keys::HOSTNAME),
                executable: client.and_then(RegisteredClient::executable).cloned(),
                state: client.map_or(STATE_UNKNOWN, state),
            });
        }
        true
    }

    fn text_of(&self, namespace: &Namespace, rank: u32, key: TypedKey<str>) -> Option<Text> {
        let rank = Rank::Process(rank);
        let lookup = Lookup { rank, key: KeyRef::new(key.name()), realm: RealmRequest::Default, audience: None };
        let implied = Lookup { realm: RealmRequest::Node(NodeSelector::Implied), ..lookup };
        let found = self.store.lookup(namespace, &lookup).or_else(|_| self.store.lookup(namespace, &implied));
        found.ok()?.as_str().map(Text::from)
    }
}

/// The jobs that qualifiers name, also a second one that contradicts the first.
fn jobs_named(qualifiers: &[Info]) -> impl Iterator<Item = Namespace> {
    let names_job = |info: &&Info| [keys::NSPACE.name(), keys::PROCID.name()].contains(&info.key.as_str());
    qualifiers.iter().filter(names_job).filter_map(|info| match &info.value {
        Value::Proc(proc) => Some(proc.namespace.clone()),
        Value::ProcNamespace(namespace) => Some(namespace.clone()),
        name => Namespace::new(name.as_str()?).ok(),
    })
}

/// Whether a key means the table of the local processes, or of all; `None`: it means no table.
fn is_local_table(key: &Key) -> Option<bool> {
    match key.as_str() {
        name if name == keys::QUERY_PROC_TABLE.name() => Some(false),
        name if name == keys::QUERY_LOCAL_PROC_TABLE.name() => Some(true),
        _ => None,
    }
}

/// The state in the standard's numbers (`pmix_proc_state_t`).
fn state(client: &RegisteredClient) -> u8 {
    match client.presence() {
        Presence::Expected if client.pid().is_some() => 5,
        Presence::Expected => 1,
        Presence::Connected => 6,
        // It has finalized; whether it has ended is unknown.
        Presence::Finalized => 5,
        Presence::Lost => 56,
        Presence::Deregistered => 20,
    }
}

/// Units of work in one step: a row of a table is one unit.
const UNITS_PER_STEP: usize = 128;
/// Units of work for each key.
const UNITS_PER_KEY: usize = 16;
/// State of a remote process, and of one that was never announced.
const STATE_UNKNOWN: u8 = 0;
/// Processes in one table: the limit of a message.
const TABLE_RANKS_MAX: u32 = 1 << 17;
