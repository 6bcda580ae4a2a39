//! The server of a job, among those of this user.

use modex::ptl::rendezvous::Found;
use modex::stderr_log::printable;
use modex::types::{Namespace, Query, Text};
use modex::{AttachError, Client, Tool, keys};

use crate::ask::{Target, TargetError};
use crate::ps;

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CtlError {
    #[error("no job {job} of this user runs here; {}", list_of(.known))]
    NoJob { job: Namespace, known: Vec<Namespace> },
    #[error("process {0} is no launcher of this user that admits tools; modex ps lists them")]
    NoServer(u32),
    #[error("the launcher has no jobs")]
    NoJobs,
    #[error("the launcher has several jobs; name that of the ranks: {known}")]
    WhichJob { known: String },
    #[error("{}: {reason}", printable(.named))]
    Refused { named: String, reason: String },
    #[error("cannot ask process {pid}: {reason}")]
    NoAnswer { pid: u32, reason: AttachError },
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Attach(#[from] AttachError),
}

fn list_of(jobs: &[Namespace]) -> String {
    if jobs.is_empty() { "none does".to_owned() } else { format!("there is: {}", listed(jobs)) }
}

/// The names of jobs in one line.
pub(super) fn listed(jobs: &[Namespace]) -> String {
    jobs.iter().map(|job| printable(job.as_str())).collect::<Vec<_>>().join(", ")
}

/// A connection to the server that options name or that has the job, and the jobs of this server.
pub(super) fn find(job: Option<&Namespace>, target: &Target) -> Result<(Tool, Vec<Namespace>), CtlError> {
    if target.is_place() {
        let (tool, known) = with_jobs(target.connect(job, None)?)?;
        return match job {
            Some(job) if !known.contains(job) => Err(CtlError::NoJob { job: job.clone(), known }),
            _ => Ok((tool, known)),
        };
    }
    let pid = target.pid;
    let mut servers = ps::servers();
    if let Some(pid) = pid {
        servers.retain(|server| server.contents.pid == Some(pid));
        if servers.is_empty() {
            return Err(CtlError::NoServer(pid));
        }
    }
    let launcher = job.and_then(launcher_of);
    servers.sort_by_key(|server| server.contents.pid != launcher);
    let mut known = Vec::new();
    let mut failure = None;
    for server in servers {
        let is_meant = pid.is_some() || (launcher.is_some() && server.contents.pid == launcher);
        match connect(&server) {
            Ok((tool, jobs)) if job.is_none_or(|job| jobs.contains(job)) => return Ok((tool, jobs)),
            Ok((_, jobs)) => known.extend(jobs),
            // The process has ended meanwhile.
            Err(_) if !server.path.exists() => {}
            Err(reason) if is_meant => {
                failure = failure.or_else(|| Some(CtlError::NoAnswer { pid: server.contents.pid?, reason }));
            }
            Err(_) => {}
        }
    }
    Err(match (failure, job) {
        (Some(failure), _) => failure,
        (None, Some(job)) => CtlError::NoJob { job: job.clone(), known },
        (None, None) => CtlError::NoJobs,
    })
}

/// The process number of the `modex run` that gave a job its name.
fn launcher_of(job: &Namespace) -> Option<u32> {
    job.as_str().strip_prefix("modex-")?.split('-').next()?.parse().ok()
}

fn connect(server: &Found) -> Result<(Tool, Vec<Namespace>), AttachError> {
    with_jobs(Tool::builder().directions(ps::directions(server)).connect()?)
}

fn with_jobs(tool: Tool) -> Result<(Tool, Vec<Namespace>), AttachError> {
    let mut jobs = namespaces(&*tool.client()?);
    // The tool has a name, too.
    jobs.retain(|job| *job != tool.proc().namespace);
    Ok((tool, jobs))
}

/// The jobs that the server names to this tool; none if it does not answer.
fn namespaces(client: &Client) -> Vec<Namespace> {
    let keys = vec![Text::from(keys::QUERY_NAMESPACES.name())];
    let Ok(answered) = client.query(vec![Query { keys, qualifiers: Vec::new() }]).wait() else { return Vec::new() };
    let list = answered.results.iter().find(|info| info.key.as_str() == keys::QUERY_NAMESPACES.name());
    let names = list.and_then(|list| list.value.as_str()).unwrap_or_default();
    names.split(',').filter_map(|name| Namespace::new(name).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_job_has_the_number_of_its_launcher() {
        let of = |name: &str| launcher_of(&Namespace::new(name).unwrap());
        assert_eq!(
            [of("modex-4711"), of("modex-4711-2"), of("modex-x"), of("a")],
            [Some(4711), Some(4711), None, None]
        );
    }
}
