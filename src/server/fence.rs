//! Fences: what a contribution holds, and what the host's answer brings.

use std::collections::{BTreeMap, BTreeSet};

use super::collective::{Kind, OperationId};
use super::commit::add_commit_number;
use super::core::Server;
use super::directives::flag;
use super::host::FenceData;
use super::intake::{Gathered, Intake};
use super::outputs::Ticket;
use crate::gds::{AsStatus, Audience, Publish};
use crate::keys;
use crate::proto;
use crate::types::{Namespace, ProcId, Rank, Status, Time};

impl<S: Publish> Server<S> {
    /// A participant arrives at a fence.
    pub(super) fn fence(&mut self, now: Time, ticket: Ticket, proc: ProcId, mut fence: proto::Collective) {
        if fence.procs.is_empty() {
            fence.procs.push(ProcId::new(proc.namespace.clone(), Rank::Wildcard));
        }
        self.arrive(now, ticket, proc, Kind::Fence, fence);
    }

    /// The namespaces named, in order, and how many processes each has.
    pub(super) fn sizes_of(&self, procs: &[ProcId]) -> Vec<(Namespace, Option<u32>)> {
        let mut sizes: Vec<(Namespace, Option<u32>)> = Vec::new();
        for proc in procs {
            if sizes.iter().all(|(namespace, _)| *namespace != proc.namespace) {
                sizes.push((proc.namespace.clone(), self.job_size(&proc.namespace)));
            }
        }
        sizes
    }

    /// What the local participants contribute, and the commit number of each that it brings up to date.
    ///
    /// A fence carries what changed since the last one of the same participants that succeeded. The first of a set carries
    /// everything: nobody knows what the others have.
    pub(super) fn contribution(&self, id: OperationId) -> Result<(FenceData, Vec<(ProcId, u64)>), Status> {
        let Some(operation) = self.collectives.get(id) else { return Err(Status::ERROR) };
        let mut data = FenceData { collect: flag(&operation.directives, keys::COLLECT_DATA), blocks: Vec::new() };
        let mut collected = Vec::new();
        if !data.collect {
            return Ok((data, collected));
        }
        let before = self.exchanges.of(&operation.signature.procs);
        for proc in &operation.contributed {
            let (Some(client), Some(rank)) = (self.registry.client(proc), proc.rank.process()) else { continue };
            let since = before.and_then(|commits| commits.get(proc)).copied().unwrap_or(0);
            collected.push((proc.clone(), client.commits));
            if client.commits == since {
                continue;
            }
            let is_new = |key: &str| client.changes.get(key).is_none_or(|&commit| commit > since);
            let mut entries = self
                .store
                .posted_under(&proc.namespace, rank, Audience::OtherNodes, &is_new)
                .map_err(|error| error.status())?;
            if !entries.is_empty() {
                add_commit_number(&mut entries, client.commits);
                data.blocks.push((proc.clone(), entries));
            }
        }
        Ok((data, collected))
    }

    /// What the host has brought with its answer. All data is published before anybody is released. Gives the status
    /// that this leads to, and the namespaces that data came for.
    pub(super) fn take_gathered(
        &mut self,
        id: OperationId,
        mut status: Status,
        gathered: &Gathered,
    ) -> (Status, BTreeSet<Namespace>) {
        let mut filled = BTreeSet::new();
        if matches!(status, Status::SUCCESS | Status::ERR_PARTIAL_SUCCESS)
            && let Some(operation) = self.collectives.get(id)
        {
            let intake = Intake::new(&mut self.store, &mut self.registry, &operation.signature);
            let (namespaces, outcome) = intake.take(gathered, &operation.sizes);
            filled = namespaces;
            status = outcome.err().unwrap_or(status);
        }
        for namespace in &filled {
            self.wake(namespace);
        }
        if status == Status::SUCCESS {
            self.note_collected(id);
        }
        (status, filled)
    }

    fn note_collected(&mut self, id: OperationId) {
        let Some(operation) = self.collectives.get(id) else { return };
        if !operation.collected.is_empty() {
            self.exchanges.note(&operation.signature.procs, &operation.collected);
        }
    }
}

/// What sets of participants have exchanged: for each local process the commit that the others of the set have.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    sets: BTreeMap<Vec<ProcId>, Exchanged>,
    last: u64,
}

#[derive(Debug, Default)]
struct Exchanged {
    commits: BTreeMap<ProcId, u64>,
    /// When it was noted last, by the count of notes.
    noted: u64,
}

impl Exchanges {
    fn of(&self, procs: &[ProcId]) -> Option<&BTreeMap<ProcId, u64>> {
        self.sets.get(procs).map(|exchanged| &exchanged.commits)
    }

    fn note(&mut self, procs: &[ProcId], collected: &[(ProcId, u64)]) {
        self.last = self.last.saturating_add(1);
        let exchanged = self.sets.entry(procs.to_vec()).or_default();
        exchanged.noted = self.last;
        for (proc, commit) in collected {
            let newest = exchanged.commits.entry(proc.clone()).or_default();
            *newest = (*commit).max(*newest);
        }
        // What is forgotten is exchanged whole once more.
        if self.sets.len() > SETS_MAX
            && let Some(oldest) = self.sets.iter().min_by_key(|(_, exchanged)| exchanged.noted)
        {
            let oldest = oldest.0.clone();
            self.sets.remove(&oldest);
        }
    }

    pub(super) fn forget_namespace(&mut self, namespace: &Namespace) {
        self.sets.retain(|procs, _| procs.iter().all(|proc| proc.namespace != *namespace));
    }
}

/// Sets of participants whose exchanges are remembered.
const SETS_MAX: usize = 64;
