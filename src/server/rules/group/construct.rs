//! Construction and destruction of groups.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::directives::{ABORTED, membership, name_of, tolerates_deaths};
use crate::gds::Datastore;
use crate::gds::qualified::QUALIFIED_VALUE;
use crate::keys;
use crate::proto::{self, info_signed_by};
use crate::server::interface::{Capabilities, GroupOperation, find, flag};
use crate::server::rules::ending::{GroupData, Results};
use crate::server::state::{
    Collective, CollectiveKind, Group, GroupProgress, OperationId, OperationStage, Peer, RegisteredJob, RequestedData,
    ServerCore, Ticket, brings_about,
};
use crate::types::{Info, Key, Kval, ProcId, Rank, Status, Text, Time, Value};

impl<S: Datastore> ServerCore<S> {
    pub(in crate::server) fn construct_group(&mut self, now: Time, ticket: Ticket, proc: ProcId, group: proto::Group) {
        let Some(id) = name_of(&group) else { return self.outputs.reply_status(ticket, Status::ERR_BAD_PARAM) };
        if self.is_a_jobs_name(&id) {
            // It would stand for the job's processes in all their operations.
            return self.outputs.reply_status(ticket, Status::ERR_BAD_PARAM);
        }
        let user = self.peers.user_of(ticket.peer());
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
        let kind = CollectiveKind::Group(GroupOperation::Construct, id);
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
        self.arrive(now, ticket, proc, CollectiveKind::Group(GroupOperation::Destruct, id), request);
    }

    /// The failure of an operation if local members are missing and must not be.
    pub(in crate::server::rules) fn intolerable(&self, id: OperationId, status: Status) -> Option<Status> {
        let operation = self.collectives.get(id).filter(|_| status != Status::SUCCESS)?;
        let CollectiveKind::Group(what, name) = &operation.signature().kind else { return None };
        match what {
            GroupOperation::Construct => (!tolerates_deaths(operation.directives())).then_some(ABORTED),
            GroupOperation::Destruct => {
                let members = operation.remaining();
                let mut groups = self.groups.of(name, &members);
                let survives_deaths = operation.group().is_some_and(GroupProgress::survives_deaths)
                    || groups.any(|group| group.survives_deaths);
                (!survives_deaths).then_some(status)
            }
        }
    }

    /// The status of a locally successful operation with missing local members.
    pub(in crate::server::rules) fn tolerated(&self, id: OperationId, status: Status) -> Status {
        let Some(operation) = self.collectives.get(id) else { return status };
        match &operation.signature().kind {
            CollectiveKind::Group(GroupOperation::Construct, _)
                if !flag(operation.directives(), keys::GROUP_OPTIONAL) =>
            {
                Status::SUCCESS
            }
            CollectiveKind::Group(GroupOperation::Destruct, _) => Status::SUCCESS,
            _ => status,
        }
    }

    /// Records the new group, or its end.
    pub(in crate::server::rules) fn end_group(
        &mut self,
        what: GroupOperation,
        id: &Text,
        operation: &Collective,
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
        let is_of_here = operation.stage() == OperationStage::Gathering;
        let known = || if is_of_here { self.members_of(operation) } else { self.all_named(operation) };
        let members = membership(&info).map_or_else(known, Arc::new);
        let survives_deaths = flag(operation.directives(), keys::GROUP_NOTIFY_TERMINATION);
        let here: BTreeSet<ProcId> = operation.contributed().clone();
        let user = |proc: &ProcId| self.registry.client(proc).map(|client| client.credentials().uid);
        let users: BTreeSet<u32> = here.iter().filter_map(user).collect();
        let mut info = info;
        if is_of_here {
            info.extend(self.own_results(operation));
        }
        let context_id = find(&info, keys::GROUP_CONTEXT_ID).and_then(|info| info.value.as_u64());
        self.keep_given(id, context_id, &users, &here, &info);
        let doubtful = operation.left().cloned().collect();
        let group = Group { members: Arc::clone(&members), users, here, context_id, doubtful, survives_deaths };
        self.groups.insert(id, group);
        Results::Group(GroupData { members, context_id, info })
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
        let asks = |peer: &Peer| !peer.maps_segments() && here.contains(peer.proc());
        if self.peers.iter().any(|(_, peer)| asks(peer)) {
            self.given.keep(id, context_id, users, results);
        }
    }

    /// The contribution of a process to a group, for a Get that the store can't answer. Qualifiers other than a group's
    /// belong to posted values.
    pub(in crate::server::rules) fn given_to_group(
        &self,
        requested: &RequestedData,
        directives: &[Info],
    ) -> Option<Kval> {
        let key = requested.key.as_ref()?;
        let value = self.given.find(directives, &requested.proc, key)?;
        let of_group = [keys::GROUP_ID.name(), keys::GROUP_CONTEXT_ID.name()];
        let qualifiers = &requested.directives.qualifiers;
        if !qualifiers.iter().all(|info| of_group.contains(&info.key.as_str()))
            || self.value_for_peer(requested, key).is_ok()
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
    pub(in crate::server::rules) fn can_number(&self, id: OperationId) -> bool {
        let Some(operation) = self.collectives.get(id) else { return false };
        let mut namespaces = operation.signature().procs.namespaces();
        !flag(operation.directives(), keys::GROUP_ASSIGN_CONTEXT_ID)
            || !matches!(operation.signature().kind, CollectiveKind::Group(GroupOperation::Construct, _))
            || namespaces.all(|namespace| self.is_all_here(namespace))
    }

    /// The results that a host would return for a group of this node alone: its number, and the members' contributions.
    fn own_results(&mut self, operation: &Collective) -> Vec<Info> {
        let wants_number = flag(operation.directives(), keys::GROUP_ASSIGN_CONTEXT_ID);
        let number = wants_number.then(|| self.groups.next_number());
        let given = operation.directives().iter().filter(|info| info.key.as_str() == keys::GROUP_INFO.name());
        number.into_iter().chain(given.cloned()).collect()
    }

    /// The participants of an operation individually, in order, without those lost here.
    pub(super) fn members_of(&self, operation: &Collective) -> Arc<Vec<ProcId>> {
        let mut members = self.all_named(operation);
        if !operation.departed().is_empty() {
            Arc::make_mut(&mut members).retain(|proc| !operation.departed().contains(proc));
        }
        members
    }

    /// The participants of an operation individually, in order.
    fn all_named(&self, operation: &Collective) -> Arc<Vec<ProcId>> {
        if operation.signature().procs.iter().all(|entry| matches!(entry.rank, Rank::Process(_))) {
            return operation.signature().procs.shared();
        }
        let mut members = Vec::new();
        let members_max = self.config.limits.participants_max;
        for entry in operation.signature().procs.iter() {
            let numbered = |rank: u32| ProcId::new(entry.namespace.clone(), rank);
            if let Rank::Process(_) = entry.rank {
                members.push(entry.clone());
                continue;
            }
            let job = self.registry.job(&entry.namespace);
            match job.and_then(RegisteredJob::job_size).filter(|_| entry.rank == Rank::Wildcard) {
                Some(job_size) => members.extend((0..job_size).take(members_max).map(numbered)),
                None => members.extend(job.into_iter().flat_map(|job| job.clients().keys()).copied().map(numbered)),
            }
        }
        members.sort_unstable();
        members.dedup();
        members.truncate(members_max);
        Arc::new(members)
    }
}
