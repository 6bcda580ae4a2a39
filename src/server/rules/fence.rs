//! Fences: the contents of a contribution and of the host's answer.

use std::collections::BTreeSet;

use super::intake::Intake;
use crate::gds::{Audience, Datastore};
use crate::proto;
use crate::server::interface::FenceData;
use crate::server::state::{
    Collective, CollectiveKind, EVERYTHING, FenceRequest, Gathered, OperationId, OperationStage, ServerCore, Ticket,
    add_commit_number, brings_about,
};
use crate::types::{AsStatus, Namespace, ProcId, Rank, Status, Time};

impl<S: Datastore> ServerCore<S> {
    /// A participant arrives at a fence.
    pub(in crate::server) fn fence(&mut self, now: Time, ticket: Ticket, proc: ProcId, mut fence: proto::Collective) {
        if fence.procs.is_empty() {
            fence.procs.push(ProcId::new(proc.namespace.clone(), Rank::Wildcard));
        }
        let Some(id) = self.find_and_enter(now, ticket, proc.clone(), CollectiveKind::Fence, fence) else { return };
        if self.collectives.get(id).is_some_and(Collective::collects) {
            self.note_say(now, &proc);
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
    pub(super) fn contribution(&self, id: OperationId) -> Result<(FenceData, Vec<(ProcId, u64)>), Status> {
        let Some(operation) = self.collectives.get(id) else { return Err(Status::ERROR) };
        let mut data = FenceData { collect: operation.collects(), blocks: Vec::new() };
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
            let entries = match since {
                0 => self.store.posted(namespace, rank, audience),
                _ => self.store.posted_of(namespace, rank, audience, &client.changes().since(since)),
            };
            let mut entries = entries.map_err(|error| error.status())?;
            if !entries.is_empty() {
                let is_repeated = since == 0 && before.is_some_and(|exchanged| exchanged.has_failed);
                add_commit_number(&mut entries, last | if is_repeated { EVERYTHING } else { 0 });
                data.blocks.push((proc.clone(), entries));
            }
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
            let has_missed = self.missed_fences.is_missed(&operation.signature().procs);
            let intake = Intake::new(&mut self.store, &mut self.registry, operation.signature(), has_missed);
            let taken = intake.take(gathered, operation.fence().map_or(&[], |fence| &fence.sizes));
            (filled, whole) = (taken.filled, taken.whole);
            status = taken.failure.unwrap_or(status);
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

    /// A fence has ended after the host was asked. After a failed fence it is unknown which data the other servers have.
    pub(super) fn note_missed(&mut self, operation: &Collective, status: Status) {
        let is_good = brings_about(status);
        if !is_good && operation.stage() != OperationStage::Gathering && operation.collects() {
            self.exchanges.note_failed(&operation.signature().procs);
            self.missed_fences.note(&operation.signature().procs);
        }
    }
}
