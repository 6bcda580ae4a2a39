//! `modex events raise`: an event of this tool for other processes.

use clap::Args;
use modex::keys;
use modex::types::codes::range;
use modex::types::{DataArray, DataType, Info, Key, Namespace, ProcId, Rank, Status, Value};

use crate::Outcome;
use crate::ask::absence::Absence;
use crate::ask::arguments::{self, ArgumentError};
use crate::ask::names::RangeName;
use crate::ask::target::{ANSWER_TIME, Target, answer_within};
use crate::ctl;

#[derive(Args, Debug)]
#[command(after_long_help = HELP)]
pub(super) struct RaiseOptions {
    #[command(flatten)]
    target: Target,
    /// Code of the event: its name or number
    #[arg(value_name = "STATUS", allow_negative_numbers = true)]
    status: String,
    /// Processes that get it (PMIX_RANGE)
    #[arg(long, value_name = "RANGE", default_value = "session", conflicts_with = "job")]
    range: RangeName,
    /// Only processes of this job
    #[arg(short = 'n', long, value_name = "NAMESPACE")]
    job: Option<String>,
    /// Only these ranks of the job, such as 0,4-7
    #[arg(short, long, value_name = "RANKS", requires = "job", allow_hyphen_values = true)]
    ranks: Option<String>,
    /// A detail of the event; KEY alone is a true flag
    #[arg(long = "info", value_name = "KEY=VALUE")]
    infos: Vec<String>,
}

const HELP: &str = help!(
    "\
Examples:
  modex events raise PMIX_EVENT_NODE_DOWN --info PMIX_HOSTNAME=n7
  modex events raise 99 -n modex-4711 -r 0,4-7
  modex events raise 99 --info PMIX_EVENT_AFFECTED_PROC=modex-4711:0 --info PMIX_EVENT_NON_DEFAULT

Processes that have registered for the code get the event, and default handlers unless PMIX_EVENT_NON_DEFAULT
is among the details. The server keeps it for later registrations unless PMIX_EVENT_DO_NOT_CACHE is.
A program may end in its default handler, as those of Open MPI do.

Exit status:
  0  The server has taken the event
  1  It refuses, or can't be asked
  2  The command line makes no sense"
);

pub(super) fn run(options: &RaiseOptions) -> Outcome {
    let status = arguments::status(&options.status)?;
    let job = options.job.as_deref().map(arguments::namespace).transpose()?;
    let ranks = options.ranks.as_deref().map(ctl::ranks).transpose()?;
    let infos: Result<Vec<Info>, ArgumentError> = options.infos.iter().map(|word| arguments::qualifier(word)).collect();
    let mut infos = infos?;
    let range = match &job {
        None => options.range.code(),
        Some(job) => {
            infos.push(targets(job, ranks.as_deref()));
            range::RANGE_CUSTOM
        }
    };
    let tool = options.target.connect(job.as_ref(), Some(ANSWER_TIME))?;
    let client = tool.client()?;
    let raised = answer_within(ANSWER_TIME, client.notify_event(status, None, range, &infos))?;
    raised.map_err(|error| refusal(status, &error))?;
    let last = job.as_ref().and_then(|job| named(job, ranks.as_deref()).pop());
    let own = &client.proc().namespace;
    if let Some(absence) = last.and_then(|last| Absence::of(&client, &last, own, Some(ANSWER_TIME))) {
        // A host may know jobs of other nodes alone.
        eprintln!("warning: {absence}; on this node such processes have not got the event");
    }
    // The end of the connection has the same effect.
    let _ = tool.finalize();
    Ok(0)
}

fn refusal(status: Status, error: &modex::NotifyError) -> String {
    format!("the event {status} was not raised: {error}")
}

fn named(job: &Namespace, ranks: Option<&[u32]>) -> Vec<ProcId> {
    match ranks {
        None => vec![ProcId { namespace: job.clone(), rank: Rank::Wildcard }],
        Some(ranks) => ranks.iter().map(|rank| ProcId::new(job.clone(), *rank)).collect(),
    }
}

fn targets(job: &Namespace, ranks: Option<&[u32]>) -> Info {
    let elements = named(job, ranks).into_iter().map(Value::from).collect();
    let array = Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements }));
    Info::new(Key::from_static(keys::EVENT_CUSTOM_RANGE.name()), array)
}
