//! The local processes that a process may have monitored.

use super::access::{Action, Object};
use crate::gds::Datastore;
use crate::server::interface::{PeerId, Requester};
use crate::server::state::{Presence, QueryScope, RegisteredClient, RegisteredJob, ServerCore};
use crate::types::{ProcId, Query, Rank, Status};

/// A local process: its number from the host, and its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MonitoredProcess {
    /// Its name.
    pub(crate) proc: ProcId,
    /// Its number, if the host has told it.
    pub(crate) pid: Option<u32>,
    /// One of its connections.
    pub(crate) peer: Option<PeerId>,
}

/// Processes of one request.
pub(crate) const MONITORED_MAX: usize = 4096;

impl<S: Datastore> ServerCore<S> {
    /// The processes of a request that run here. A wildcard rank means all of its job.
    ///
    /// # Errors
    /// The status for the requester: it may not monitor one, there is no such process here, or there are too many.
    pub(crate) fn monitored(&self, requester: &Requester, procs: &[ProcId]) -> Result<Vec<MonitoredProcess>, Status> {
        let mut found = Vec::new();
        for proc in procs {
            self.permit(requester, Action::Monitor, Object::Job(&proc.namespace))?;
            let job = self.registry.job(&proc.namespace).ok_or(Status::ERR_NOT_FOUND)?;
            match proc.rank {
                Rank::Wildcard => found.extend(running(job, proc)),
                Rank::Process(rank) => {
                    let client = job.clients().get(&rank).filter(|client| runs(client)).ok_or(Status::ERR_NOT_FOUND)?;
                    found.push(monitored(proc.clone(), client));
                }
                _ => return Err(Status::ERR_BAD_PARAM),
            }
            if found.len() > MONITORED_MAX {
                return Err(Status::ERR_OUT_OF_RESOURCE);
            }
        }
        Ok(found)
    }

    /// All processes here that a process may have monitored.
    pub(crate) fn all_monitored(&self, requester: &Requester) -> Vec<MonitoredProcess> {
        let jobs = self.registry.namespaces().filter_map(|namespace| {
            let all = ProcId { namespace: namespace.clone(), rank: Rank::Wildcard };
            self.permit(requester, Action::Monitor, Object::Job(namespace)).ok()?;
            Some(running(self.registry.job(namespace)?, &all).collect::<Vec<_>>())
        });
        jobs.flatten().collect()
    }

    /// The processes that a query about the use of resources means: without a name those of the requester's job.
    ///
    /// # Errors
    /// The status for the requester: the qualifiers are invalid.
    pub(crate) fn measured_target(&self, requester: &Requester, query: &Query) -> Result<ProcId, Status> {
        let QueryScope { namespace, rank, .. } = QueryScope::of(query, requester, 0, self.config.answers_storage)?;
        let rank = if rank == Rank::Undefined { Rank::Wildcard } else { rank };
        Ok(ProcId { namespace, rank })
    }

    /// Whether a job, if all of it is named, has processes on other nodes.
    pub(crate) fn runs_elsewhere(&self, proc: &ProcId) -> bool {
        let job = self.registry.job(&proc.namespace).filter(|_| proc.rank == Rank::Wildcard);
        let sizes = job.and_then(|job| Some((usize::try_from(job.job_size()?).ok()?, job.clients().len())));
        sizes.is_some_and(|(all, here)| all > here)
    }

    /// Whether a process has a connection.
    pub(crate) fn has_connection(&self, proc: &ProcId) -> bool {
        self.registry.client(proc).is_some_and(|client| !client.connections().is_empty())
    }
}

fn running<'a>(job: &'a RegisteredJob, all: &'a ProcId) -> impl Iterator<Item = MonitoredProcess> + 'a {
    let clients = job.clients().iter().filter(|(_, client)| runs(client));
    clients.map(|(rank, client)| monitored(ProcId::new(all.namespace.clone(), *rank), client))
}

fn monitored(proc: ProcId, client: &RegisteredClient) -> MonitoredProcess {
    MonitoredProcess { proc, pid: client.pid(), peer: client.connections().first().copied() }
}

/// The number of an ended process may belong to another one.
fn runs(client: &RegisteredClient) -> bool {
    !matches!(client.presence(), Presence::Lost | Presence::Deregistered)
}
