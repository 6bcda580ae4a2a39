//! Endpoint data of a group with members on several nodes: the values that they have committed for other nodes.
//!
//! The request to the host carries the values of the local members, and its answer the values of all members. So a
//! member finds a value without a fence, and with `PMIX_IMMEDIATE`.
//!
//! Source: OpenPMIx from 6.0 on.

use std::collections::{BTreeMap, BTreeSet};

use crate::gds::{Audience, Datastore, qualified};
use crate::keys;
use crate::proto::{ENDPOINT_BYTES_MAX, contributions, endpoints, owner_of_endpoints};
use crate::server::interface::GroupOperation;
use crate::server::rules::commit::about;
use crate::server::state::{CollectiveKind, HostAnswer, OperationId, ServerCore, brings_about};
use crate::types::{Info, Kval, ProcId, Time, footprint};

impl<S: Datastore> ServerCore<S> {
    /// The values of the local processes that form a group over nodes, for the host. Clients of OpenPMIx send theirs
    /// with the request. Copying ends with the first process whose values exceed [`ENDPOINT_BYTES_MAX`].
    pub(in crate::server::rules) fn endpoints_for_host(&self, id: OperationId) -> Vec<Info> {
        let Some(operation) = self.collectives.get(id) else { return Vec::new() };
        let is_construct = matches!(operation.signature().kind, CollectiveKind::Group(GroupOperation::Construct, _));
        if !is_construct || operation.needs_only_notice() {
            return Vec::new();
        }
        let sent: BTreeSet<&ProcId> = operation.directives().iter().filter_map(owner_of_endpoints).collect();
        let (mut given, mut bytes_left) = (Vec::new(), ENDPOINT_BYTES_MAX);
        for proc in operation.contributed().iter().filter(|proc| !sent.contains(proc)) {
            let Some(endpoints) = self.endpoints_of(proc) else { continue };
            match bytes_left.checked_sub(footprint(&endpoints.value).unwrap_or(usize::MAX)) {
                Some(left) => bytes_left = left,
                None => {
                    tracing::warn!(
                        %proc,
                        limit = ENDPOINT_BYTES_MAX,
                        "members on other nodes get no endpoint data of this process and later ones; use a fence"
                    );
                    break;
                }
            }
            given.push(endpoints);
        }
        given
    }

    fn endpoints_of(&self, proc: &ProcId) -> Option<Info> {
        let rank = proc.rank.process()?;
        let posted = self.store.posted(&proc.namespace, rank, Audience::OtherNodes).ok()?;
        let is_given = |entry: &Kval| !entry.is_removal() && !qualified::public_key(entry.key.clone()).is_reserved();
        let given = posted.into_iter().filter(is_given);
        endpoints(proc, given.map(|Kval { key, value }| (key, value)))
    }

    /// Takes the values of remote members out of the host's answer. They are published before a local member hears of
    /// the group.
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
