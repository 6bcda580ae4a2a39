//! Read access to other jobs: processes are tied if they are connected or in one group, or if one's job has started the
//! other's. They get the segments of each other's jobs, and read them like their own.
//!
//! A segment goes only to a process with the user and group of that job's local processes. When the last tie to a job
//! ends, the process must forget the segment, and gets it no more.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::access::{Action, Object};
use crate::gds::Datastore;
use crate::server::interface::{GroupOperation, Output, PeerId};
use crate::server::state::{
    Collective, CollectiveKind, Handover, Jobs, Lost, Participants, Peer, Presence, RegisteredJob, ServerCore, Tie,
};
use crate::types::{Namespace, ProcId, Rank, Text, Time};

impl<S: Datastore> ServerCore<S> {
    /// Whether the whole set is connected, as far as this server knows.
    fn is_connected(&self, procs: &Participants, here: &BTreeSet<ProcId>) -> bool {
        let is_of_all = |(tie, jobs): (&Tie, &Jobs)| match tie {
            Tie::Connection(connected) => connected == procs,
            // A job is connected with its spawner.
            Tie::Spawn(_) => procs.namespaces().all(|namespace| jobs.contains(namespace)),
            Tie::Group(..) | Tie::Claim(..) => false,
        };
        here.iter().any(|proc| self.ties.of(proc).any(is_of_all))
    }

    /// Whether a disconnect names a set that is not connected.
    pub(super) fn parts_strangers(&self, operation: &Collective) -> bool {
        operation.signature().kind == CollectiveKind::Disconnect
            && !self.is_connected(&operation.signature().procs, operation.contributed())
    }

    /// A successful operation: its local participants read each other's jobs from now on, or no longer.
    pub(super) fn tie(&mut self, operation: &Collective) {
        let procs = &operation.signature().procs;
        let namespaces = self.agreed(operation);
        let is_here =
            |proc: &&ProcId| self.registry.client(proc).is_some_and(|client| client.presence() == Presence::Connected);
        let here = &operation.contributed().iter().filter(is_here).cloned().collect();
        match &operation.signature().kind {
            CollectiveKind::Connect => self.bind(&Tie::Connection(procs.clone()), namespaces, here),
            CollectiveKind::Group(GroupOperation::Construct, id) => {
                let members = self.groups.of_procs(id, here).flat_map(|group| ProcId::by_namespace(&group.members));
                let is_agreed = |namespace: &&Namespace| !self.refused(operation, namespace);
                let members = members.map(|(namespace, _)| namespace).filter(is_agreed).cloned();
                let namespaces = members.chain(namespaces).collect();
                let tie = Tie::Group(id.clone(), self.ties.next_group());
                self.bind(&tie, namespaces, here);
            }
            CollectiveKind::Disconnect => {
                let gone = here.union(operation.departed()).cloned().collect();
                let lost = self.ties.part(&gone, |tie, jobs| match tie {
                    Tie::Connection(connected) => connected == procs,
                    Tie::Spawn(_) => jobs.is_subset(&namespaces),
                    Tie::Group(..) | Tie::Claim(..) => false,
                });
                self.take_away(lost);
            }
            CollectiveKind::Group(GroupOperation::Destruct, id) => {
                let gone = here.union(operation.departed()).cloned().collect();
                self.untie_group(id, &gone);
            }
            CollectiveKind::Fence => {}
        }
    }

    /// Unties local processes that are no longer in their group of this name.
    pub(super) fn untie_group(&mut self, id: &Text, procs: &BTreeSet<ProcId>) {
        let lost =
            self.ties.part(procs, |tie, _| matches!(tie, Tie::Group(name, _) | Tie::Claim(name, _) if name == id));
        self.take_away(lost);
    }

    /// A process has ended or finalized: drops all its ties. Processes that are connected with it get an event.
    pub(super) fn untie(&mut self, now: Time, proc: &ProcId) {
        self.raise_end_without_disconnect(now, proc);
        let lost = self.ties.part(&BTreeSet::from([proc.clone()]), |_, _| true);
        self.take_away(lost);
    }

    /// A job is removed: drops all ties to it, and all ties of its processes.
    pub(super) fn untie_namespace(&mut self, namespace: &Namespace) {
        let lost = self.ties.readers_of(namespace).into_iter().map(|proc| (proc, namespace.clone())).collect();
        self.ties.forget_namespace(namespace);
        self.take_away(lost);
    }

    /// A job was registered: processes already tied to it get its segment.
    pub(super) fn hand_over_new(&mut self, namespace: &Namespace) {
        let readers = self.ties.readers_of(namespace);
        let peers = readers.iter().flat_map(|proc| self.peers.of_process(proc)).collect();
        self.hand_over_segments([(peers, vec![Handover::Give(namespace.clone())])]);
    }

    /// Connections of other jobs that have the segment of a job.
    pub(super) fn readers_now(&self, namespace: &Namespace) -> BTreeSet<PeerId> {
        let readers = self.ties.readers_of(namespace);
        let peers = readers.iter().flat_map(|proc| self.peers.of_process(proc));
        peers.filter(|peer| self.has_segment(*peer, namespace)).collect()
    }

    /// The local processes of a job have changed: some connections may map its segment now, or no longer.
    pub(super) fn review_readers(&mut self, namespace: &Namespace, before: &BTreeSet<PeerId>) {
        let now = self.readers_now(namespace);
        let [new, gone] = [now.difference(before), before.difference(&now)].map(|peers| peers.copied().collect());
        self.hand_over_segments([
            (new, vec![Handover::Give(namespace.clone())]),
            (gone, vec![Handover::Take(namespace.clone())]),
        ]);
    }

    /// A job was described, perhaps again: its connected processes may learn the job's spawner.
    pub(super) fn tie_children_here(&mut self, namespace: &Namespace) {
        let children =
            self.peers.iter().filter(|(_, peer)| peer.is_of_job(namespace) && peer.is_admitted() && !peer.is_tool());
        for proc in children.map(|(_, peer)| peer.proc().clone()).collect::<BTreeSet<_>>() {
            self.tie_to_parent(&proc);
        }
    }

    /// A local process has joined a group formed by invitation.
    pub(super) fn tie_joined(&mut self, id: &Text, proc: &ProcId, members: &[ProcId]) {
        // Names of unknown jobs would make each later change of the ties slow.
        let by_job = members.chunk_by(|one, other| one.namespace == other.namespace);
        let namespaces = by_job.filter_map(|procs| procs.first()).map(|proc| &proc.namespace);
        let namespaces = namespaces.filter(|namespace| self.registry.job(namespace).is_some()).cloned().collect();
        let tie = Tie::Claim(id.clone(), self.ties.next_group());
        self.bind(&tie, namespaces, &BTreeSet::from([proc.clone()]));
    }

    /// A local process has started a job.
    pub(super) fn tie_spawned(&mut self, id: PeerId, child: &Namespace) {
        let Some(spawner) = self.peers.proc_of(id).cloned() else { return };
        // The process may have left since its request.
        if self.registry.client(&spawner).is_none_or(|client| client.presence() != Presence::Connected) {
            return;
        }
        let namespaces = BTreeSet::from([child.clone(), spawner.namespace.clone()]);
        self.bind(&Tie::Spawn(child.clone()), namespaces, &BTreeSet::from([spawner]));
    }

    /// Ties a local process to the spawner of its job, if the description names one.
    pub(super) fn tie_to_parent(&mut self, proc: &ProcId) {
        if let Some(parent) = self.spawner(&proc.namespace, Rank::Wildcard) {
            let namespaces = BTreeSet::from([proc.namespace.clone(), parent.namespace]);
            self.bind(&Tie::Spawn(proc.namespace.clone()), namespaces, &BTreeSet::from([proc.clone()]));
        }
    }

    /// A number that changes when local processes reach more than before.
    pub(crate) const fn tie_revision(&self) -> u64 {
        self.ties.revision()
    }

    /// Only connected processes have ties. For tests and simulations.
    pub(in crate::server) fn assert_ties_are_of_the_living(&self) {
        for (proc, ties) in self.ties.iter() {
            let presence = self.registry.client(proc).map(|client| client.presence());
            assert_eq!(presence, Some(Presence::Connected), "{proc} is tied by {ties:?}");
            assert!(!ties.is_empty() && ties.len() <= self.config.limits.ties_per_process_max, "ties of {proc}");
        }
    }

    fn bind(&mut self, tie: &Tie, namespaces: BTreeSet<Namespace>, here: &BTreeSet<ProcId>) {
        // A connection within one job only means that it can be ended.
        if namespaces.len() < 2 && !matches!(tie, Tie::Connection(_)) {
            return;
        }
        let jobs = Arc::new(namespaces);
        let mut handovers = Vec::new();
        for proc in here {
            if self.ties.count(proc) >= self.config.limits.ties_per_process_max {
                continue;
            }
            let is_new = |job: &&Namespace| **job != proc.namespace && !self.ties.reaches(proc, job);
            let news = jobs.iter().filter(is_new).cloned().map(Handover::Give).collect();
            self.ties.insert(proc, tie, &jobs);
            handovers.push((self.peers.of_process(proc).collect(), news));
        }
        self.hand_over_segments(handovers);
    }

    /// Sends the segments of all jobs that a process is tied to, when it connects (again).
    pub(super) fn hand_over_reach(&mut self, id: PeerId, proc: &ProcId) {
        let reach = self.ties.reach(proc).into_iter().map(Handover::Give).collect();
        self.hand_over_segments([(vec![id], reach)]);
    }

    /// Gives or takes segments of other jobs. The first ones go at once, unless earlier ones wait: a reply that follows
    /// then comes behind them.
    fn hand_over_segments(&mut self, handovers: impl IntoIterator<Item = (Vec<PeerId>, Vec<Handover>)>) {
        let is_first = self.handovers.is_empty();
        for (peers, items) in handovers {
            self.handovers.push(peers, items);
        }
        if is_first {
            self.hand_over_some();
        }
        while self.handovers.len() > HANDOVERS_MAX {
            self.hand_over_some();
        }
    }

    /// Does some of the handovers that still apply.
    pub(super) fn hand_over_some(&mut self) {
        for _ in 0..HANDOVERS_PER_STEP {
            let Some((peer, handover)) = self.handovers.pop() else { return };
            match handover {
                Handover::Give(namespace) if self.has_segment(peer, &namespace) => {
                    self.outputs.push(Output::SendSegment(peer, namespace));
                }
                Handover::Take(namespace)
                    if self.peers.get(peer).is_some_and(Peer::maps_segments) && !self.has_segment(peer, &namespace) =>
                {
                    self.outputs.push(Output::WithdrawSegment(peer, namespace));
                }
                Handover::Give(_) | Handover::Take(_) => {}
            }
        }
    }

    /// Whether a connection has the segment of another job.
    pub(super) fn has_segment(&self, id: PeerId, namespace: &Namespace) -> bool {
        let Some(peer) = self.peers.get(id) else { return false };
        peer.maps_segments()
            && peer.is_admitted()
            && self.store.is_registered(namespace)
            && self.may(peer, Action::Map, Object::WholeJob(namespace))
            && self.is_of_group(namespace, peer.credentials().gid)
            && self.ties.reaches(peer.proc(), namespace)
    }

    /// Whether all local processes of a job have this group id.
    fn is_of_group(&self, namespace: &Namespace, gid: u32) -> bool {
        let job = self.registry.registered(namespace);
        job.is_some_and(|job| job.clients().values().all(|client| client.credentials().gid == gid))
    }

    /// The jobs that an operation ties together.
    pub(super) fn agreed(&self, operation: &Collective) -> BTreeSet<Namespace> {
        let namespaces = operation.signature().procs.namespaces();
        namespaces.filter(|namespace| !self.refused(operation, namespace)).cloned().collect()
    }

    /// Whether no process of a job has arrived, although some were expected here or named wrongly. Expected ones may
    /// have refused, and a rank beyond the job's size can't agree. The host decides about remote jobs.
    fn refused(&self, operation: &Collective, namespace: &Namespace) -> bool {
        let is_of_job = |proc: &&ProcId| proc.namespace == *namespace;
        let job_size = self.registry.job(namespace).and_then(RegisteredJob::job_size);
        let is_nobody = |proc: &ProcId| proc.rank.process().zip(job_size).is_some_and(|(rank, size)| rank >= size);
        let mut absent = operation.departed().iter().filter(is_of_job);
        let mut named = operation.signature().procs.iter().filter(is_of_job);
        (absent.next().is_some() || named.any(is_nobody))
            && !operation.contributed().iter().any(|proc| is_of_job(&proc))
    }

    fn take_away(&mut self, lost: Lost) {
        let peers_of = |proc: &ProcId| self.peers.of_process(proc).collect();
        let takes = lost.into_iter().map(|(proc, namespace)| (peers_of(&proc), vec![Handover::Take(namespace)]));
        let takes: Vec<_> = takes.collect();
        self.hand_over_segments(takes);
    }
}

/// Segments of other jobs handed over in one step. Each takes a system call of its own.
const HANDOVERS_PER_STEP: usize = 32;
/// Handovers that may wait, of about 10 bytes each. Beyond it they are done at once, because a process may join and
/// leave groups without end.
const HANDOVERS_MAX: usize = 1 << 22;
