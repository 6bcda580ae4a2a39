//! Connecting and disconnecting processes: a rendezvous whose meaning is the host's. Connected processes get each
//! other's job data.

use std::collections::BTreeSet;

use super::ending::{Ending, Results};
use crate::gds::Datastore;
use crate::proto::{self, RankData, Reply};
use crate::server::interface::PeerId;
use crate::server::state::{Collective, CollectiveKind, Peer, ServerCore, Ticket, brings_about};
use crate::types::{Info, Namespace, ProcId, Rank, Status, Time};

/// Number of missing participants in a client's reply: enough to find the cause, in a message of bounded size.
const MISSING_NAMED_MAX: usize = 16;

impl<S: Datastore> ServerCore<S> {
    pub(in crate::server) fn connect_processes(
        &mut self,
        now: Time,
        ticket: Ticket,
        proc: ProcId,
        connect: proto::Collective,
    ) {
        if self.ties.count(&proc) >= self.config.limits.ties_per_process_max {
            return self.outputs.reply_status(ticket, Status::ERR_OUT_OF_RESOURCE);
        }
        self.arrive(now, ticket, proc, CollectiveKind::Connect, connect);
    }

    pub(in crate::server) fn disconnect_processes(
        &mut self,
        now: Time,
        ticket: Ticket,
        proc: ProcId,
        connect: proto::Collective,
    ) {
        self.arrive(now, ticket, proc, CollectiveKind::Disconnect, connect);
    }

    /// The effects of an operation that ends with this status.
    pub(super) fn ending(&mut self, operation: &Collective, status: Status, info: Vec<Info>) -> Ending {
        let is_good = brings_about(status);
        let results = match &operation.signature().kind {
            CollectiveKind::Connect if status == Status::SUCCESS => Results::Jobs,
            CollectiveKind::Group(what, id) => self.end_group(*what, id, operation, status, info),
            CollectiveKind::Fence if status == Status::ERR_PARTIAL_SUCCESS && !operation.departed().is_empty() => {
                Results::Missing(operation.departed().iter().take(MISSING_NAMED_MAX).cloned().collect())
            }
            CollectiveKind::Fence | CollectiveKind::Connect | CollectiveKind::Disconnect => Results::Nothing,
        };
        let jobs = match &results {
            Results::Nothing | Results::Missing(_) => Vec::new(),
            Results::Jobs | Results::Group(_) if !is_good => Vec::new(),
            Results::Jobs | Results::Group(_) => self.jobs_of(&self.agreed(operation)),
        };
        Ending { status, results, jobs }
    }

    /// The reply for one participant. It leaves out the participant's own job, and jobs whose segment it has.
    pub(super) fn reply_at_end(&self, ending: &Ending, id: PeerId) -> Reply {
        let peer = self.peers.get(id);
        let own = peer.map(|peer| &peer.proc().namespace);
        // OpenPMIx clients expect only the status of a fence.
        let is_own_client = peer.is_some_and(Peer::maps_segments);
        let is_for_peer =
            |job: &&RankData| Some(&job.proc.namespace) != own && !self.has_segment(id, &job.proc.namespace);
        let others = ending.jobs.iter().filter(is_for_peer);
        let results = match &ending.results {
            Results::Nothing => return Reply::Status(ending.status),
            Results::Missing(_) if !is_own_client => return Reply::Status(ending.status),
            Results::Missing(procs) => Reply::Procs(procs.clone()),
            Results::Jobs => Reply::Data(others.cloned().collect()),
            Results::Group(formed) => formed.reply(others, is_own_client),
        };
        match ending.status {
            Status::SUCCESS => results,
            status => Reply::Partial { status, results: Box::new(results) },
        }
    }

    /// Job data of all namespaces that took part. A single namespace needs none: all participants have it.
    fn jobs_of(&self, namespaces: &BTreeSet<Namespace>) -> Vec<RankData> {
        if namespaces.len() < 2 {
            return Vec::new();
        }
        let job = |namespace: &Namespace| RankData {
            proc: ProcId::new(namespace.clone(), Rank::Wildcard),
            entries: self.job_data(namespace),
        };
        namespaces.iter().map(job).filter(|job| !job.entries.is_empty()).collect()
    }
}
