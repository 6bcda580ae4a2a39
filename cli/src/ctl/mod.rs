//! `modex ctl`: pauses, resumes, signals and ends jobs of this user, as a tool (`PMIx_Job_control`).
//!
//! - [`words`]: signals and lists of ranks as people write them
//! - [`server`]: the server of a job

mod server;
mod words;

use clap::{Args, Subcommand};
use modex::types::{AsStatus, Info, Key, Namespace, ProcId, Rank, Status, Value};
use modex::{Tool, keys};

use super::Outcome;
use super::ask::Target;
pub(super) use server::CtlError;
pub(super) use words::{WordError, ranks};

#[derive(Args, Debug)]
#[command(after_long_help = HELP)]
pub(super) struct CtlOptions {
    /// Job, as `modex ps` names it
    #[arg(value_name = "JOB", required_unless_present_any = ["pid", "uri", "file", "server"])]
    job: Option<String>,
    #[command(flatten)]
    target: Target,
    /// Ranks of the job, such as 0,4-7; all ranks by default
    #[arg(short, long, value_name = "RANKS", global = true)]
    ranks: Option<String>,
    #[command(subcommand)]
    action: CtlAction,
}

#[derive(Clone, Debug, Subcommand)]
enum CtlAction {
    /// Stop the ranks until they are resumed
    Pause,
    /// Let paused ranks go on
    Resume,
    /// Send the ranks a signal
    Signal {
        /// Number or name, such as 10, USR1 or SIGUSR1
        #[arg(value_name = "SIGNAL")]
        signal: String,
    },
    /// Ask the ranks to end, and kill them after the launcher's grace period
    Terminate,
    /// Kill the ranks
    Kill,
}

const HELP: &str = "\
Examples:
  modex ctl modex-4711 pause
  modex ctl modex-4711 resume
  modex ctl modex-4711 -r 0,4-7 signal USR1
  modex ctl modex-4711-1 terminate
  modex ctl --pid 4711 kill
  modex ctl --uri file:dvm.uri pause

Without a job, all jobs of the server are meant.
A rank that fails after such a request ends all jobs of its launcher. A spawned job that ends as a whole
ends alone. The command prints nothing if the launcher accepts the request.

Exit status:
  0  The launcher has accepted the request
  1  It refuses, there is no such job, or it can't be asked
  2  The command line makes no sense

Environment:
  TMPDIR, TEMP, TMP, PMIX_SERVER_TMPDIR, PMIX_SYSTEM_TMPDIR
      Directories in which servers are searched. Those of this user's other processes are
      searched, too";

pub(super) fn run(options: &CtlOptions) -> Outcome {
    let directive = options.action.directive()?;
    let (tool, targets) = connect(options.job.as_deref(), &options.target, options.ranks.as_deref())?;
    let client = tool.client()?;
    let named = named(&targets, options.ranks.as_deref());
    let controlled = client.job_control(targets, vec![directive]).wait();
    // The end of the connection has the same effect.
    drop(client);
    let _ = tool.finalize();
    match controlled {
        Ok(_) => Ok(0),
        Err(error) => Err(CtlError::Refused { named, reason: reason(error.status()) }.into()),
    }
}

/// A connection to the server of a job or to the one that options name, and the processes that the user means.
pub(super) fn connect(
    job: Option<&str>,
    target: &Target,
    ranks: Option<&str>,
) -> Result<(Tool, Vec<ProcId>), Box<dyn std::error::Error>> {
    let ranks = ranks.map(words::ranks).transpose()?;
    let job = job.map(words::job).transpose()?;
    let (tool, jobs) = server::find(job.as_ref(), target)?;
    Ok((tool, targets(job, ranks.as_deref(), jobs)?))
}

/// The answer of a launcher in words.
pub(super) fn reason(status: Status) -> String {
    let words = match status {
        Status::ERR_NOT_FOUND => "no such rank runs",
        Status::ERR_NO_PERMISSIONS => "this user may not control it",
        Status::ERR_NOT_SUPPORTED => "its launcher does not do this",
        Status::ERR_IOF_COMPLETE => "it takes no input, or its input has ended",
        Status::ERR_JOB_CANCELED => "it is ending",
        other => return format!("its launcher answered with {other}"),
    };
    format!("{words} ({status})")
}

/// The targets for a message. `ranks` is the list as the user wrote it.
pub(super) fn named(targets: &[ProcId], ranks: Option<&str>) -> String {
    let mut jobs: Vec<&str> = targets.iter().map(|target| target.namespace.as_str()).collect();
    jobs.dedup();
    let jobs = jobs.join(", ");
    ranks.map_or_else(|| jobs.clone(), |ranks| format!("rank {ranks} of {jobs}"))
}

/// The processes that the user means.
fn targets(job: Option<Namespace>, ranks: Option<&[u32]>, jobs: Vec<Namespace>) -> Result<Vec<ProcId>, CtlError> {
    let jobs = job.map_or(jobs, |job| vec![job]);
    match (&jobs[..], ranks) {
        ([], _) => Err(CtlError::NoJobs),
        (_, None) => Ok(jobs.into_iter().map(|namespace| ProcId { namespace, rank: Rank::Wildcard }).collect()),
        ([job], Some(ranks)) => Ok(ranks.iter().map(|rank| ProcId::new(job.clone(), *rank)).collect()),
        (several, Some(_)) => Err(CtlError::WhichJob { known: server::listed(several) }),
    }
}

impl CtlAction {
    fn directive(&self) -> Result<Info, WordError> {
        let (key, value) = match self {
            Self::Pause => (keys::JOB_CTRL_PAUSE.name(), Value::Bool(true)),
            Self::Resume => (keys::JOB_CTRL_RESUME.name(), Value::Bool(true)),
            Self::Signal { signal } => (keys::JOB_CTRL_SIGNAL.name(), Value::Int(words::signal(signal)?)),
            Self::Terminate => (keys::JOB_CTRL_TERMINATE.name(), Value::Bool(true)),
            Self::Kill => (keys::JOB_CTRL_KILL.name(), Value::Bool(true)),
        };
        Ok(Info::new(Key::from_static(key), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_need_one_job() {
        let name = |text: &str| Namespace::new(text).unwrap();
        let of = |job: Option<&str>, ranks, jobs: &[&str]| {
            targets(job.map(name), ranks, jobs.iter().copied().map(name).collect())
                .map(|targets| (targets.len(), named(&targets, ranks.map(|_| "0,2"))))
                .map_err(|error| error.to_string())
        };
        assert_eq!(of(Some("a"), None, &["a", "a-1"]), Ok((1, "a".to_owned())));
        assert_eq!(of(None, None, &["a", "a-1"]), Ok((2, "a, a-1".to_owned())));
        assert_eq!(of(None, Some(&[0, 2]), &["a"]), Ok((2, "rank 0,2 of a".to_owned())));
        assert!(of(None, Some(&[0]), &["a", "a-1"]).unwrap_err().ends_with(": a, a-1"));
        assert!(of(None, None, &[]).is_err());
    }
}
