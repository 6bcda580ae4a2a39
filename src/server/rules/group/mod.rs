//! Groups: named sets of processes with an order. Groups of this node alone are formed here. The host is asked if a
//! group has remote members, or needs a context number.

use std::collections::BTreeSet;
use std::sync::Arc;

mod bootstrap;
mod given;
mod group_table;
mod invitations;
mod leavers;
mod life;
mod mourning;
mod naming;
mod verdicts;

pub(in crate::server) use bootstrap::{BootstrapId, Bootstraps};
pub(in crate::server) use given::Given;
pub(in crate::server) use group_table::{Group, Groups};
pub(in crate::server) use invitations::Invitations;
pub(in crate::server) use mourning::Mourning;
pub(in crate::server) use verdicts::Vacancies;

use crate::events::Event;
use crate::gds::Datastore;
use crate::gds::qualified::QUALIFIED_VALUE;
use crate::keys;
use crate::proto::{self, RankData, Reply, info_signed_by};
use crate::server::dispatch::core::Server;
use crate::server::interface::config::Capabilities;
use crate::server::interface::directives::{find, flag};
use crate::server::interface::io::StoreOffer;
use crate::server::interface::requests::GroupOperation;
use crate::server::rules::connect::Results;
use crate::server::state::collective::{Operation, OperationId, Stage, brings_about};
use crate::server::state::outputs::Ticket;
use crate::server::state::peer::Peer;
use crate::server::state::signature::Kind;
use crate::server::state::waiting::Wanted;
use crate::types::{Info, Key, Kval, Namespace, ProcId, Rank, Status, Text, Time, Value};

/// The data about a group for its members.
pub(in crate::server) struct Formed {
    members: Arc<Vec<ProcId>>,
    context_id: Option<u64>,
    info: Vec<Info>,
}

impl<S: Datastore> Server<S> {
    pub(in crate::server) fn construct_group(&mut self, now: Time, ticket: Ticket, proc: ProcId, group: proto::Group) {
        let Some(id) = name_of(&group) else { return self.outputs.reply_status(ticket, Status::ERR_BAD_PARAM) };
        if self.is_a_jobs_name(&id) {
            // It would stand for the job's processes in all their operations.
            return self.outputs.reply_status(ticket, Status::ERR_BAD_PARAM);
        }
        let user = self.peers.get(ticket.peer()).map(|peer| peer.credentials.uid);
        if user.is_none_or(|uid| self.has_too_many_groups(&proc, uid, group.procs.len())) {
            return self.outputs.reply_status(ticket, Status::ERR_OUT_OF_RESOURCE);
        }
        let directives: Vec<Info> = group.directives.into_iter().map(|info| info_signed_by(&proc, info)).collect();
        let is_bootstrap = group.procs.is_empty() || find(&directives, keys::GROUP_BOOTSTRAP).is_some();
        let request = proto::Collective { procs: group.procs, directives };
        let has_host = self.config.capabilities.contains(Capabilities::GROUP);
        if is_bootstrap && !has_host {
            return self.gather_bootstrap(now, ticket, proc, id, request);
        }
        let kind = Kind::Group(GroupOperation::Construct, id);
        match is_bootstrap {
            true => self.bootstrap(now, ticket, proc, kind, request),
            false => self.arrive(now, ticket, proc, kind, request),
        }
    }

    /// Older peers do not repeat the members, so the group's original members count. A group that was not formed here
    /// can only be dissolved by processes that repeat them.
    pub(in crate::server) fn destruct_group(&mut self, now: Time, ticket: Ticket, proc: ProcId, group: proto::Group) {
        let Some(id) = name_of(&group) else { return self.outputs.reply_status(ticket, Status::ERR_BAD_PARAM) };
        let procs = self.groups.of_member(&id, &proc).map_or(group.procs, |group| group.members.to_vec());
        if procs.is_empty() {
            return self.outputs.reply_status(ticket, Status::ERR_NOT_FOUND);
        }
        let request = proto::Collective { procs, directives: group.directives };
        self.arrive(now, ticket, proc, Kind::Group(GroupOperation::Destruct, id), request);
    }

    /// The failure of an operation if local members are missing and must not be.
    pub(in crate::server) fn intolerable(&self, id: OperationId, status: Status) -> Option<Status> {
        let operation = self.collectives.get(id).filter(|_| status != Status::SUCCESS)?;
        let Kind::Group(what, name) = &operation.signature.kind else { return None };
        match what {
            GroupOperation::Construct => (!tolerates_deaths(&operation.directives)).then_some(ABORTED),
            GroupOperation::Destruct => {
                let members = operation.remaining();
                let mut groups = self.groups.of(name, &members);
                let survives_deaths = operation.survives_deaths || groups.any(|group| group.survives_deaths);
                (!survives_deaths).then_some(status)
            }
        }
    }

    /// The status of a locally successful operation with missing local members.
    pub(in crate::server) fn tolerated(&self, id: OperationId, status: Status) -> Status {
        let Some(operation) = self.collectives.get(id) else { return status };
        match &operation.signature.kind {
            Kind::Group(GroupOperation::Construct, _) if !flag(&operation.directives, keys::GROUP_OPTIONAL) => {
                Status::SUCCESS
            }
            Kind::Group(GroupOperation::Destruct, _) => Status::SUCCESS,
            _ => status,
        }
    }

    /// Records the new group, or its end.
    pub(in crate::server) fn end_group(
        &mut self,
        what: GroupOperation,
        id: &Text,
        operation: &Operation,
        status: Status,
        info: Vec<Info>,
    ) -> Results {
        if !brings_about(status) {
            return Results::Nothing;
        }
        if what == GroupOperation::Destruct {
            self.groups.remove(id, &operation.remaining());
            return Results::Nothing;
        }
        // Only the host knows the missing remote members. Without its list all servers use the common one.
        let is_of_here = operation.stage == Stage::Gathering;
        let known = || if is_of_here { self.members_of(operation) } else { self.all_named(operation) };
        let members = membership(&info).map_or_else(known, Arc::new);
        let survives_deaths = flag(&operation.directives, keys::GROUP_NOTIFY_TERMINATION);
        let here: BTreeSet<ProcId> = operation.contributed.clone();
        let user = |proc: &ProcId| self.registry.client(proc).map(|client| client.credentials.uid);
        let users: BTreeSet<u32> = here.iter().filter_map(user).collect();
        let mut info = info;
        if is_of_here {
            info.extend(self.own_results(operation));
        }
        let context_id = find(&info, keys::GROUP_CONTEXT_ID).and_then(|info| info.value.as_u64());
        self.keep_given(id, context_id, &users, &here, &info);
        let doubtful = operation.left.clone();
        let group = Group { members: Arc::clone(&members), users, here, context_id, doubtful, survives_deaths };
        self.groups.insert(id, group);
        Results::Group(Formed { members, context_id, info })
    }

    /// Stores the members' contributions if a local member must request them.
    fn keep_given(
        &mut self,
        id: &Text,
        context_id: Option<u64>,
        users: &BTreeSet<u32>,
        here: &BTreeSet<ProcId>,
        results: &[Info],
    ) {
        let asks = |peer: &Peer| peer.store == StoreOffer::Socket && here.contains(&peer.proc);
        if self.peers.iter().any(|(_, peer)| asks(peer)) {
            self.given.keep(id, context_id, users, results);
        }
    }

    /// The contribution of a process to a group, for a Get that the store can't answer. Qualifiers other than a group's
    /// belong to posted values.
    pub(in crate::server) fn given_to_group(&self, wanted: &Wanted, directives: &[Info]) -> Option<Kval> {
        let key = wanted.key.as_ref()?;
        let value = self.given.find(directives, &wanted.proc, key)?;
        let of_group = [keys::GROUP_ID.name(), keys::GROUP_CONTEXT_ID.name()];
        let qualifiers = &wanted.directives.qualifiers;
        if !qualifiers.iter().all(|info| of_group.contains(&info.key.as_str()))
            || self.value_for_peer(wanted, key).is_ok()
        {
            return None;
        }
        if qualifiers.is_empty() {
            return Some(Kval { key: key.clone(), value: value.clone() });
        }
        let infos = [Info::new(key.clone(), value.clone())].into_iter().chain(qualifiers.iter().cloned());
        Some(Kval { key: Key::from_static(QUALIFIED_VALUE), value: Value::info_array(infos.collect()) })
    }

    /// Whether this server can assign the requested number, if any, to a group of this node alone.
    pub(in crate::server) fn can_number(&self, id: OperationId) -> bool {
        let Some(operation) = self.collectives.get(id) else { return false };
        let mut namespaces = operation.signature.procs.namespaces();
        !flag(&operation.directives, keys::GROUP_ASSIGN_CONTEXT_ID)
            || !matches!(operation.signature.kind, Kind::Group(GroupOperation::Construct, _))
            || namespaces.all(|namespace| self.is_all_here(namespace))
    }

    /// The results that a host would return for a group of this node alone: its number, and the members' contributions.
    fn own_results(&mut self, operation: &Operation) -> Vec<Info> {
        let wants_number = flag(&operation.directives, keys::GROUP_ASSIGN_CONTEXT_ID);
        let number = wants_number.then(|| self.groups.next_number());
        let given = operation.directives.iter().filter(|info| info.key.as_str() == keys::GROUP_INFO.name());
        number.into_iter().chain(given.cloned()).collect()
    }

    /// The participants of an operation individually, in order, without those lost here.
    fn members_of(&self, operation: &Operation) -> Arc<Vec<ProcId>> {
        let mut members = self.all_named(operation);
        if !operation.departed.is_empty() {
            Arc::make_mut(&mut members).retain(|proc| !operation.departed.contains(proc));
        }
        members
    }

    /// The participants of an operation individually, in order.
    fn all_named(&self, operation: &Operation) -> Arc<Vec<ProcId>> {
        if operation.signature.procs.iter().all(|entry| matches!(entry.rank, Rank::Process(_))) {
            return operation.signature.procs.shared();
        }
        let mut members = Vec::new();
        let members_max = self.config.limits.participants_max;
        for entry in operation.signature.procs.iter() {
            let numbered = |rank: u32| ProcId::new(entry.namespace.clone(), rank);
            if let Rank::Process(_) = entry.rank {
                members.push(entry.clone());
                continue;
            }
            let job = self.registry.job(&entry.namespace);
            match job.and_then(|job| job.job_size).filter(|_| entry.rank == Rank::Wildcard) {
                Some(job_size) => members.extend((0..job_size).take(members_max).map(numbered)),
                None => members.extend(job.into_iter().flat_map(|job| job.clients.keys()).copied().map(numbered)),
            }
        }
        members.sort_unstable();
        members.dedup();
        members.truncate(members_max);
        Arc::new(members)
    }
}

impl Formed {
    /// All results of the host for our clients. OpenPMIx clients read infos only beside a context number. They do not
    /// check the type, and crash if an info is not a member's contribution.
    pub(in crate::server) fn reply<'a>(&self, jobs: impl Iterator<Item = &'a RankData>, is_own_client: bool) -> Reply {
        let named = |job: &RankData| (Text::from(job.proc.namespace.as_str()), job.entries.clone());
        let is_understood = |info: &&Info| is_own_client || self.context_id.is_some() && is_from_members(info);
        // The layout of our own release has no place for infos. No job of OpenPMIx has an empty name.
        let infos: Vec<Kval> = match is_own_client {
            true => self
                .info
                .iter()
                .map(|Info { key, value, .. }| Kval { key: key.clone(), value: value.clone() })
                .collect(),
            false => Vec::new(),
        };
        let nameless = (!infos.is_empty()).then(|| (Text::from(""), infos));
        Reply::Group {
            members: self.members.to_vec(),
            context_id: self.context_id,
            info: self.info.iter().filter(is_understood).cloned().collect(),
            jobs: jobs.map(named).chain(nameless).collect(),
        }
    }
}

/// Whether this is one member's contribution, or a list of several: infos whose first names the process.
fn is_from_members(info: &Info) -> bool {
    let infos_of = |value: &Value| match value {
        Value::DataArray(array) => {
            let info = |element: &Value| if let Value::Info(info) = element { Some((**info).clone()) } else { None };
            array.elements.iter().map(info).collect::<Option<Vec<Info>>>()
        }
        _ => None,
    };
    let is_bundle = |value: &Value| {
        let first = infos_of(value).and_then(|infos| infos.into_iter().next());
        first.is_some_and(|info| info.key.as_str() == keys::PROCID.name() && matches!(info.value, Value::Proc(_)))
    };
    match info.key.as_str() {
        key if key == keys::GROUP_INFO.name() => is_bundle(&info.value),
        key if key == keys::GROUP_INFO_ARRAY.name() => {
            infos_of(&info.value).is_some_and(|bundles| bundles.iter().all(|bundle| is_bundle(&bundle.value)))
        }
        _ => false,
    }
}

/// The status of a construction that lost members.
const ABORTED: Status = Status::GROUP_CONSTRUCT_ABORT;

fn name_of(group: &proto::Group) -> Option<Text> {
    group.id.clone().filter(|id| !id.as_bytes().is_empty() && id.as_bytes().len() <= Namespace::SIZE_BYTES_MAX)
}

/// The group of an event.
fn group_of(event: &Event) -> Option<Text> {
    match &find(&event.info, keys::GROUP_ID)?.value {
        Value::String(id) => Some(id.clone()),
        _ => None,
    }
}

/// Whether a group is formed of the remaining members.
fn tolerates_deaths(directives: &[Info]) -> bool {
    is_told_of_deaths(directives) || flag(directives, keys::GROUP_OPTIONAL)
}

/// Whether processes that form a group are informed about members that end before they arrive.
fn is_told_of_deaths(directives: &[Info]) -> bool {
    flag(directives, keys::GROUP_FT_COLLECTIVE) || flag(directives, keys::GROUP_NOTIFY_TERMINATION)
}

/// The members in the host's order.
fn membership(info: &[Info]) -> Option<Vec<ProcId>> {
    membership_in(&find(info, keys::GROUP_MEMBERSHIP)?.value)
}

fn membership_in(value: &Value) -> Option<Vec<ProcId>> {
    let Value::DataArray(array) = value else { return None };
    let member = |value: &Value| match value {
        Value::Proc(proc) if !proc.namespace.is_nobodys() => Some((**proc).clone()),
        _ => None,
    };
    let members = array.elements.iter().map(member).collect::<Option<Vec<ProcId>>>()?;
    let mut seen = BTreeSet::new();
    let members: Vec<ProcId> = members.into_iter().filter(|proc| seen.insert(proc.clone())).collect();
    (!members.is_empty()).then_some(members)
}
