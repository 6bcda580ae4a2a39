//! Fences: the contents of a contribution and of the host's answer.

use std::collections::BTreeSet;

use super::commit::about;
use super::intake::Intake;
use crate::gds::{Audience, Datastore};
use crate::proto;
use crate::server::interface::{CommittedValues, Contribution};
use crate::server::state::{
    Collective, CollectiveKind, EVERYTHING, FenceRequest, Gathered, OperationId, OperationStage, ServerCore, Ticket,
    brings_about,
};
use crate::types::{AsStatus, Namespace, ProcId, Rank, Scope, Status, Time};

impl<S: Datastore> ServerCore<S> {
    /// A participant arrives at a fence.
    pub(in crate::server) fn fence(&mut self, now: Time, ticket: Ticket, proc: ProcId, mut fence: proto::Collective) {
        if fence.procs.is_empty() {
            fence.procs.push(ProcId::new(proc.namespace.clone(), Rank::Wildcard));
        }
        let Some(id) = self.find_and_enter(now, ticket, proc.clone(), CollectiveKind::Fence, fence) else { return };
        if self.collectives.get(id).is_some_and(Collective::collects) {
            // Gets that waited for this arrival are bounded from now on.
            self.note_say(now, &proc);
            self.review(now, about(&proc));
        }
        self.advance_operation(now, id);
    }

    /// The named namespaces, in order, and the number of their processes.
    pub(super) fn sizes_of(&self, procs: &[ProcId]) -> Vec<(Namespace, Option<u32>)> {
        let mut sizes: Vec<(Namespace, Option<u32>)> = Vec::new();
        for proc in procs {
            if sizes.iter().all(|(namespace, _)| *namespace != proc.namespace) {
                sizes.push((proc.namespace.clone(), self.job_size(&proc.namespace)));
            }
        }
        sizes
    }

    /// The contribution of the local participants, and the commit number of each that it brings to the others.
    ///
    /// A fence carries the changes since the last successful one of the same participants. The first of a set carries
    /// all values, because the others' state is unknown. So does the first after a local failure, and it is marked so.
    /// The values are read on the way to the host. A newer value than the numbered commit's comes once more with the
    /// next fence.
    pub(super) fn contribution(&self, id: OperationId) -> Result<(Contribution, Vec<(ProcId, u64)>), Status> {
        let Some(operation) = self.collectives.get(id) else { return Err(Status::ERROR) };
        let mut data = Contribution { collect: operation.collects(), parts: Vec::new() };
        let mut collected = Vec::new();
        if !data.collect {
            return Ok((data, collected));
        }
        let before = self.exchanges.of(&operation.signature().procs);
        for proc in operation.contributed() {
            let (Some(client), Some(rank)) = (self.registry.client(proc), proc.rank.process()) else { continue };
            let since = before.and_then(|exchanged| exchanged.commits.get(proc)).copied().unwrap_or(0);
            let last = client.last_commit();
            collected.push((proc.clone(), last));
            if last == since {
                continue;
            }
            let (namespace, audience) = (&proc.namespace, Audience::OtherNodes);
            let changed = (since > 0).then(|| client.changes().since(since));
            let values = self.store.posted_later(namespace, rank, audience, changed);
            let values = values.map_err(|error| error.status())?;
            let is_repeated = since == 0 && before.is_some_and(|exchanged| exchanged.has_failed);
            let commit = Some(last | if is_repeated { EVERYTHING } else { 0 });
            data.parts.push((proc.clone(), CommittedValues { values, commit }));
        }
        Ok((data, collected))
    }

    /// Takes the host's data. All data is published before any participant is released. Returns the resulting status
    /// and the namespaces with new data. After a missed fence it also returns the processes whose data came completely.
    pub(super) fn take_gathered(
        &mut self,
        id: OperationId,
        mut status: Status,
        gathered: &Gathered,
    ) -> (Status, BTreeSet<Namespace>, BTreeSet<ProcId>) {
        let (mut filled, mut whole) = (BTreeSet::new(), BTreeSet::new());
        if brings_about(status)
            && let Some(operation) = self.collectives.get(id)
        {
            let wanted = (self.missed_fences.is_missed(&operation.signature().procs), self.has_copies());
            let intake = Intake::new(&mut self.store, &mut self.registry, operation.signature(), wanted);
            let taken = intake.take(gathered, operation.fence().map_or(&[], |fence| &fence.sizes));
            (filled, whole) = (taken.filled, taken.whole);
            status = taken.failure.unwrap_or(status);
            self.tell_removals(taken.removed.into_iter().map(|(proc, key)| (proc, Scope::Remote, key)));
        }
        for namespace in &filled {
            self.wake(namespace);
        }
        if status == Status::SUCCESS {
            self.note_collected(id);
        }
        (status, filled, whole)
    }

    fn note_collected(&mut self, id: OperationId) {
        let Some(operation) = self.collectives.get(id) else { return };
        if let Some(FenceRequest { collected, .. }) = operation.fence()
            && !collected.is_empty()
        {
            self.exchanges.note(&operation.signature().procs, collected);
        }
    }

    /// A fence has ended after the host was asked. After a failed fence it is unknown which data the other servers
    /// have.
    pub(super) fn note_missed(&mut self, operation: &Collective, status: Status) {
        let is_good = brings_about(status);
        if !is_good && operation.stage() != OperationStage::Gathering && operation.collects() {
            self.exchanges.note_failed(&operation.signature().procs);
            self.missed_fences.note(&operation.signature().procs);
        }
    }
}
