//! Endpoint data of a group with members on several nodes: the values that they have committed for other nodes.
//!
//! The request to the host carries those of the local members, and its answer those of all members. So a member finds a value
//! without a fence, and with `PMIX_IMMEDIATE`.
//!
//! Source: OpenPMIx from 6.0 on.

use std::collections::{BTreeMap, BTreeSet};

use crate::gds::{Audience, Datastore, qualified};
use crate::keys;
use crate::proto::{contributions, endpoints, owner_of_endpoints};
use crate::server::interface::GroupOperation;
use crate::server::rules::commit::about;
use crate::server::state::{CollectiveKind, HostAnswer, OperationId, ServerCore, brings_about};
use crate::types::{Info, Kval, ProcId, Time};

impl<S: Datastore> ServerCore<S> {
    /// The values of the local processes that form a group, for the host. Clients of OpenPMIx send theirs with the request.
    pub(in crate::server::rules) fn endpoints_for_host(&self, id: OperationId) -> Vec<Info> {
        let Some(operation) = self.collectives.get(id) else { return Vec::new() };
        if !matches!(operation.signature().kind, CollectiveKind::Group(GroupOperation::Construct, _)) {
            return Vec::new();
        }
        let sent: BTreeSet<&ProcId> = operation.directives().iter().filter_map(owner_of_endpoints).collect();
        let unsent = operation.contributed().iter().filter(|proc| !sent.contains(proc));
        unsent.filter_map(|proc| self.endpoints_of(proc)).collect()
    }

    fn endpoints_of(&self, proc: &ProcId) -> Option<Info> {
        let rank = proc.rank.process()?;
        let posted = self.store.posted(&proc.namespace, rank, Audience::OtherNodes).ok()?;
        let is_given = |entry: &Kval| !entry.is_removal() && !qualified::public_key(entry.key.clone()).is_reserved();
        let given = posted.into_iter().filter(is_given);
        endpoints(proc, given.map(|Kval { key, value }| (key, value)))
    }

    /// Takes the values of remote members out of the host's answer. They are published before a local member hears of the group.
    pub(in crate::server::rules) fn take_endpoints(&mut self, now: Time, answer: &mut HostAnswer) {
        let is_endpoints = |info: &Info| info.key.as_str() == keys::GROUP_ENDPT_DATA.name();
        let (given, info) = std::mem::take(&mut answer.info).into_iter().partition::<Vec<_>, _>(is_endpoints);
        answer.info = info;
        if !brings_about(answer.status) {
            return;
        }
        let mut of_members: BTreeMap<ProcId, Vec<Kval>> = BTreeMap::new();
        for ((proc, key), value) in contributions(&given) {
            of_members.entry(proc).or_default().push(Kval { key, value });
        }
        let mut changed = Vec::new();
        for (proc, entries) in of_members {
            let is_known = self.registry.registered(&proc.namespace).is_some();
            if is_known && self.registry.client(&proc).is_none() && self.publish_remote(&proc, entries).is_ok() {
                changed.extend(about(&proc));
            }
        }
        self.review(now, changed);
    }
}
