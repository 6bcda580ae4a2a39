//! Who reads whose job: processes that are connected, in one group, or of jobs of which one has started the other. They are
//! handed the segments of each other's jobs, and read them as they read their own.
//!
//! A segment goes only to a process whose user is the one whose processes these are. When the last tie to a job ends, the
//! process is told to forget the segment, and gets it no more.

use std::collections::{BTreeMap, BTreeSet};

use super::collective::{Kind, Operation};
use super::core::Server;
use super::io::{Output, PeerId, StoreOffer};
use super::peer::Stage;
use super::registry::Presence;
use super::requests::GroupOperation;
use crate::gds::{KeyRef, Lookup, Publish, RealmRequest};
use crate::keys;
use crate::types::{Namespace, ProcId, Rank, Text, Value};

/// What ties processes of several jobs together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tie {
    /// They are connected: the participants as written.
    Connection(Vec<ProcId>),
    /// They are in a group of this name. Several groups may have it.
    Group(Text, u64),
    /// A process has started this job.
    Spawn(Namespace),
}

/// Who is tied to what.
#[derive(Debug, Default)]
struct Bond {
    namespaces: BTreeSet<Namespace>,
    here: BTreeSet<ProcId>,
}

/// All ties with a process here.
#[derive(Debug, Default)]
pub(super) struct Ties {
    bonds: BTreeMap<Tie, Bond>,
    last_group: u64,
}

/// What a process here may no longer read.
type Lost = Vec<(ProcId, Namespace)>;

impl Ties {
    fn add(&mut self, tie: Tie, namespaces: BTreeSet<Namespace>, here: impl IntoIterator<Item = ProcId>) {
        let bond = self.bonds.entry(tie).or_default();
        bond.namespaces.extend(namespaces);
        bond.here.extend(here);
    }

    /// Jobs that a process may read besides its own.
    fn reach(&self, proc: &ProcId) -> BTreeSet<Namespace> {
        let bonds = self.bonds.values().filter(|bond| bond.here.contains(proc));
        let others = bonds.flat_map(|bond| &bond.namespaces).filter(|namespace| **namespace != proc.namespace);
        others.cloned().collect()
    }

    /// Takes processes off the ties that are meant.
    fn part(&mut self, procs: &BTreeSet<ProcId>, is_meant: impl Fn(&Tie, &BTreeSet<Namespace>) -> bool) -> Lost {
        let before: Vec<(&ProcId, BTreeSet<Namespace>)> = procs.iter().map(|proc| (proc, self.reach(proc))).collect();
        for (tie, bond) in &mut self.bonds {
            if is_meant(tie, &bond.namespaces) {
                bond.here.retain(|proc| !procs.contains(proc));
            }
        }
        self.bonds.retain(|_, bond| !bond.here.is_empty());
        let mut lost = Vec::new();
        for (proc, namespaces) in before {
            let after = self.reach(proc);
            lost.extend(namespaces.into_iter().filter(|name| !after.contains(name)).map(|name| (proc.clone(), name)));
        }
        lost
    }

    /// Forgets a job: what it was tied to, and who was tied to it.
    fn forget_namespace(&mut self, namespace: &Namespace) -> Lost {
        let mut lost = Vec::new();
        for bond in self.bonds.values_mut() {
            bond.here.retain(|proc| proc.namespace != *namespace);
            if bond.namespaces.remove(namespace) {
                lost.extend(bond.here.iter().map(|proc| (proc.clone(), namespace.clone())));
            }
        }
        self.bonds.retain(|_, bond| !bond.here.is_empty() && !bond.namespaces.is_empty());
        lost
    }

    pub(super) fn len(&self) -> usize {
        self.bonds.len()
    }
}

impl<S: Publish> Server<S> {
    /// Whether the whole set is connected, as far as is known here.
    fn is_connected(&self, procs: &[ProcId]) -> bool {
        let namespaces: BTreeSet<&Namespace> = procs.iter().map(|proc| &proc.namespace).collect();
        self.ties.bonds.iter().any(|(tie, bond)| match tie {
            Tie::Connection(connected) => connected == procs,
            // A job is connected with whoever has started it.
            Tie::Spawn(_) => namespaces.iter().all(|namespace| bond.namespaces.contains(*namespace)),
            Tie::Group(..) => false,
        })
    }

    /// Whether a set is to be disconnected that is not connected.
    pub(super) fn parts_strangers(&self, operation: &Operation) -> bool {
        operation.signature.kind == Kind::Disconnect && !self.is_connected(&operation.signature.procs)
    }

    /// An operation has ended well: those who took part here read each other's jobs from now on, or no longer.
    pub(super) fn tie(&mut self, operation: &Operation) {
        let procs = &operation.signature.procs;
        let namespaces: BTreeSet<Namespace> = procs.iter().map(|proc| proc.namespace.clone()).collect();
        let is_here =
            |proc: &&ProcId| self.registry.client(proc).is_some_and(|client| client.presence == Presence::Connected);
        let here = &operation.contributed.iter().filter(is_here).cloned().collect();
        match &operation.signature.kind {
            Kind::Connect => self.bind(Tie::Connection(procs.clone()), namespaces, here),
            Kind::Group(GroupOperation::Construct, id) => {
                self.ties.last_group = self.ties.last_group.saturating_add(1);
                let members = self.groups.of_procs(id, here).flat_map(|group| &group.members);
                let namespaces = members.map(|proc| proc.namespace.clone()).chain(namespaces).collect();
                self.bind(Tie::Group(id.clone(), self.ties.last_group), namespaces, here);
            }
            Kind::Disconnect => {
                let are_among = |inner: &BTreeSet<Namespace>| inner.is_subset(&namespaces);
                let gone = here.union(&operation.departed).cloned().collect();
                let lost = self.ties.part(&gone, |tie, inner| match tie {
                    Tie::Connection(connected) => connected == procs,
                    Tie::Spawn(_) => are_among(inner),
                    Tie::Group(..) => false,
                });
                self.take_away(lost);
            }
            Kind::Group(GroupOperation::Destruct, id) => {
                let gone = here.union(&operation.departed).cloned().collect();
                self.untie_group(id, &gone);
            }
            Kind::Fence => {}
        }
    }

    /// Processes here are no longer in their group of this name.
    pub(super) fn untie_group(&mut self, id: &Text, procs: &BTreeSet<ProcId>) {
        let lost = self.ties.part(procs, |tie, _| matches!(tie, Tie::Group(name, _) if name == id));
        self.take_away(lost);
    }

    /// A process has ended, or has left: what tied it to others is gone.
    pub(super) fn untie(&mut self, proc: &ProcId) {
        let lost = self.ties.part(&BTreeSet::from([proc.clone()]), |_, _| true);
        self.take_away(lost);
    }

    /// A job is gone.
    pub(super) fn untie_namespace(&mut self, namespace: &Namespace) {
        let lost = self.ties.forget_namespace(namespace);
        self.take_away(lost);
    }

    /// A process here has started a job.
    pub(super) fn tie_spawned(&mut self, id: PeerId, child: &Namespace) {
        let Some(spawner) = self.peers.get(id).map(|peer| peer.proc.clone()) else { return };
        let namespaces = BTreeSet::from([child.clone(), spawner.namespace.clone()]);
        self.bind(Tie::Spawn(child.clone()), namespaces, &BTreeSet::from([spawner]));
    }

    /// A process here may be of a job that another has started, as its description says. It reads the other's job.
    pub(super) fn tie_to_parent(&mut self, proc: &ProcId) {
        let lookup = Lookup {
            rank: Rank::Wildcard,
            key: KeyRef::new(keys::PARENT_ID.name()),
            realm: RealmRequest::Default,
            audience: None,
        };
        let Ok(Value::Proc(parent)) = self.store.lookup(&proc.namespace, &lookup) else { return };
        if parent.namespace != proc.namespace {
            let namespaces = BTreeSet::from([proc.namespace.clone(), parent.namespace]);
            self.bind(Tie::Spawn(proc.namespace.clone()), namespaces, &BTreeSet::from([proc.clone()]));
        }
    }

    /// Only who is here is tied to anything, and only to jobs that are or may be known. For tests and simulations.
    pub(super) fn assert_ties_are_of_the_living(&self) {
        for (tie, Bond { namespaces, here }) in &self.ties.bonds {
            assert!(!here.is_empty(), "{tie:?} ties nobody");
            for proc in here {
                let presence = self.registry.client(proc).map(|client| client.presence);
                assert_eq!(presence, Some(Presence::Connected), "{proc} is tied by {tie:?}");
                assert!(namespaces.contains(&proc.namespace), "{proc} is tied by {tie:?} and no part of it");
            }
        }
    }

    fn bind(&mut self, tie: Tie, namespaces: BTreeSet<Namespace>, here: &BTreeSet<ProcId>) {
        let is_full = self.ties.len() >= self.config.limits.groups_max && !self.ties.bonds.contains_key(&tie);
        // A connection within one job has no other meaning than that it can be ended.
        let is_of_others = namespaces.len() > 1 || matches!(tie, Tie::Connection(_));
        if !is_of_others || here.is_empty() || is_full {
            return;
        }
        let before: Vec<BTreeSet<Namespace>> = here.iter().map(|proc| self.ties.reach(proc)).collect();
        self.ties.add(tie, namespaces, here.iter().cloned());
        for (proc, before) in here.iter().zip(before) {
            let news: Vec<Namespace> = self.ties.reach(proc).difference(&before).cloned().collect();
            for peer in self.peers.of_process(proc).collect::<Vec<_>>() {
                news.iter().for_each(|namespace| self.hand_over_segment(peer, namespace));
            }
        }
    }

    /// Hands over the segments of all jobs that a process is tied to: it has come (again).
    pub(super) fn hand_over_reach(&mut self, id: PeerId, proc: &ProcId) {
        for namespace in self.ties.reach(proc) {
            self.hand_over_segment(id, &namespace);
        }
    }

    fn hand_over_segment(&mut self, id: PeerId, namespace: &Namespace) {
        if self.has_segment(id, namespace) {
            self.outputs.push(Output::SendSegment(id, namespace.clone()));
        }
    }

    /// Whether a connection has been handed the segment of another job.
    pub(super) fn has_segment(&self, id: PeerId, namespace: &Namespace) -> bool {
        let Some(peer) = self.peers.get(id) else { return false };
        let reads = peer.store == StoreOffer::Segment && peer.stage == Stage::Admitted;
        reads
            && self.store.is_registered(namespace)
            && self.is_of_user(namespace, peer.credentials.uid, peer.credentials.gid)
            && self.ties.reach(&peer.proc).contains(namespace)
    }

    /// Whether a job's processes here are this user's, and nobody else's. Root, and the server's own user, read what is
    /// nobody's here.
    fn is_of_user(&self, namespace: &Namespace, uid: u32, gid: u32) -> bool {
        let Some(job) = self.registry.registered(namespace) else { return false };
        let mut owners = job.clients.values().map(|client| client.credentials).peekable();
        match owners.peek() {
            None => self.is_trusted(uid),
            Some(_) => owners.all(|owner| owner.uid == uid && owner.gid == gid),
        }
    }

    fn take_away(&mut self, lost: Lost) {
        for (proc, namespace) in lost {
            for peer in self.peers.of_process(&proc).collect::<Vec<_>>() {
                if self.peers.get(peer).is_some_and(|peer| peer.store == StoreOffer::Segment) {
                    self.outputs.push(Output::WithdrawSegment(peer, namespace.clone()));
                }
            }
        }
    }
}
