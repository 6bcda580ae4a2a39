//! Placement of processes, from the job descriptions.

use std::collections::BTreeSet;

use super::access::{Action, Object};
use crate::gds::{Datastore, KeyRef, Lookup, LookupError, NodeSelector, RealmRequest};
use crate::keys::{self, TypedKey};
use crate::proto::{self, Reply};
use crate::server::interface::PeerId;
use crate::server::state::{ServerCore, Ticket};
use crate::types::{Namespace, ProcId, Rank, Status, Text, ranks_in};

impl<S: Datastore> ServerCore<S> {
    /// The processes of a namespace, or of all, on a node.
    pub(in crate::server) fn resolve_peers(&mut self, ticket: Ticket, question: &proto::ResolvePeers) {
        let reply = match self.peers_on(ticket.peer(), question) {
            Ok(procs) => Reply::Procs(procs),
            Err(status) => Reply::Status(status),
        };
        self.outputs.reply(ticket, reply);
    }

    /// The nodes of a namespace, or of all.
    pub(in crate::server) fn resolve_nodes(&mut self, ticket: Ticket, namespace: Option<&Text>) {
        let reply = match self.nodes_of(ticket.peer(), namespace) {
            Ok(names) => Reply::Nodes(Text::from(names.join(","))),
            Err(status) => Reply::Status(status),
        };
        self.outputs.reply(ticket, reply);
    }

    fn peers_on(&self, asker: PeerId, question: &proto::ResolvePeers) -> Result<Vec<ProcId>, Status> {
        let node = match &question.node {
            Some(name) => NodeSelector::Name(name.to_str().map_err(|_| Status::ERR_BAD_PARAM)?),
            None => NodeSelector::Implied,
        };
        let mut procs = Vec::new();
        for namespace in self.meant(asker, question.namespace.as_ref())? {
            match self.text(namespace, keys::LOCAL_PEERS, RealmRequest::Node(node)) {
                Some(ranks) => procs.extend(ranks_in(&ranks).map(|rank| ProcId::new(namespace.clone(), rank))),
                // No process of the namespace is there. But without a known placement, the answer is unknown.
                None if question.namespace.is_none() || self.knows_places(namespace) => {}
                None => return Err(Status::ERR_DATA_VALUE_NOT_FOUND),
            }
        }
        Ok(procs)
    }

    fn nodes_of(&self, asker: PeerId, namespace: Option<&Text>) -> Result<Vec<String>, Status> {
        let mut names: Vec<String> = Vec::new();
        let mut seen = BTreeSet::new();
        for of in self.meant(asker, namespace)? {
            match self.text(of, keys::NODE_LIST, RealmRequest::Job) {
                Some(list) => {
                    let new = list.split(',').filter(|name| !name.is_empty() && seen.insert((*name).to_owned()));
                    names.extend(new.map(str::to_owned));
                }
                None if namespace.is_none() => {}
                None => return Err(Status::ERR_DATA_VALUE_NOT_FOUND),
            }
        }
        Ok(names)
    }

    /// The namespaces of a question that the asker may resolve. An empty name means all, like no name.
    fn meant(&self, asker: PeerId, namespace: Option<&Text>) -> Result<Vec<&Namespace>, Status> {
        let named = namespace.filter(|name| !name.as_bytes().is_empty());
        let is_meant = |of: &Namespace| named.is_none_or(|name| of.as_str().as_bytes() == name.as_bytes());
        let is_reached = |of: &Namespace| self.permit_peer(asker, Action::Resolve, Object::Job(of)).is_ok();
        let registered = self.registry.jobs().filter(|(_, job)| job.is_registered()).map(|(namespace, _)| namespace);
        let found: Vec<&Namespace> = registered.filter(|of| is_meant(of) && is_reached(of)).collect();
        if found.is_empty() && named.is_some() { Err(Action::Resolve.rule().refusal) } else { Ok(found) }
    }

    /// Whether the placement is known: a list of the nodes alone does not contain it.
    fn knows_places(&self, namespace: &Namespace) -> bool {
        let Some(list) = self.text(namespace, keys::NODE_LIST, RealmRequest::Job) else { return false };
        // A node's list may name all processes of a large job, so it is not copied.
        let has_peers = |name| {
            let realm = RealmRequest::Node(NodeSelector::Name(name));
            self.store.locate(namespace, &of_job(keys::LOCAL_PEERS, realm)).is_ok()
        };
        list.split(',').any(has_peers)
    }

    fn text(&self, namespace: &Namespace, key: TypedKey<str>, realm: RealmRequest<'_>) -> Option<String> {
        match self.store.lookup(namespace, &of_job(key, realm)) {
            Ok(value) => value.as_str().map(str::to_owned),
            Err(LookupError::NotFound { .. }) => None,
            Err(error) => {
                tracing::warn!(%namespace, %error, "a job's description can't be read");
                None
            }
        }
    }
}

const fn of_job<'a>(key: TypedKey<str>, realm: RealmRequest<'a>) -> Lookup<'a> {
    let key = KeyRef { name: key.name(), hash: key.hash() };
    Lookup { rank: Rank::Wildcard, key, realm, audience: None }
}
