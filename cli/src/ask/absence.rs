//! The reason for a value that is not there: the server has no such job, or the job has no such rank.

use std::time::Duration;

use modex::stderr_log::printable;
use modex::types::{Namespace, ProcId, Query, Rank, Text};
use modex::{Client, GetError, keys};

/// The job or rank that is missing, and the value with it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Absence {
    #[error("the server has no namespace {wanted} that this user may ask about; {}", named(.known))]
    Namespace { wanted: Namespace, known: Vec<String> },
    #[error("namespace {namespace} has no rank {rank}; {}", ranks(*.job_size))]
    Rank { namespace: Namespace, rank: u32, job_size: u32 },
}

fn named(namespaces: &[String]) -> String {
    match namespaces {
        [] => "it has none".to_owned(),
        _ => format!("it has: {}", namespaces.join(", ")),
    }
}

fn ranks(job_size: u32) -> String {
    match job_size.checked_sub(1) {
        None => "it has none".to_owned(),
        Some(0) => "its only rank is 0".to_owned(),
        Some(last) => format!("its ranks are 0 to {last}"),
    }
}

impl Absence {
    /// Asks the server after a Get that found nothing. `None` if job and rank exist, or if the server does not say.
    pub(super) fn behind(
        error: &GetError,
        client: &Client,
        proc: &ProcId,
        own: &Namespace,
        time_max: Option<Duration>,
    ) -> Option<Self> {
        if !matches!(error, GetError::NotFound { .. } | GetError::NothingPosted { .. }) {
            return None;
        }
        Self::of(client, proc, own, time_max)
    }

    /// Asks the server about a process, or about all of a job. `None` if it exists, or if the server does not say.
    pub(super) fn of(client: &Client, proc: &ProcId, own: &Namespace, time_max: Option<Duration>) -> Option<Self> {
        let namespace = &proc.namespace;
        let job_size = job_size(client, namespace, time_max);
        match (proc.rank, job_size) {
            (Rank::Process(rank), Some(job_size)) if rank >= job_size => {
                Some(Self::Rank { namespace: namespace.clone(), rank, job_size })
            }
            (_, Some(_)) => None,
            (_, None) => {
                let mut known = namespaces(client)?;
                known.retain(|name| name != own.as_str());
                let is_known = known.iter().any(|name| name == namespace.as_str()) || namespace == own;
                (!is_known).then(|| Self::Namespace { wanted: namespace.clone(), known })
            }
        }
    }
}

fn job_size(client: &Client, namespace: &Namespace, time_max: Option<Duration>) -> Option<u32> {
    let job = ProcId { namespace: namespace.clone(), rank: Rank::Wildcard };
    let at_once = modex::GetOptions::new().immediate();
    let at_once = time_max.into_iter().fold(at_once, modex::GetOptions::timeout);
    client.get_value(&job, keys::JOB_SIZE.name(), &at_once).ok()?.into_value().ok()?.as_u32()
}

/// The jobs that the server names to this tool.
fn namespaces(client: &Client) -> Option<Vec<String>> {
    let keys = vec![Text::from(keys::QUERY_NAMESPACES.name())];
    let answered = client.query(vec![Query { keys, qualifiers: Vec::new() }]).wait().ok()?;
    let list = answered.results.iter().find(|info| info.key.as_str() == keys::QUERY_NAMESPACES.name())?;
    Some(list.value.as_str()?.split(',').filter(|name| !name.is_empty()).map(printable).collect())
}
