//! `modex publish`, `modex unpublish` and `modex lookup`: data under names that processes and tools share.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::{Args, ValueEnum};
use modex::keys;
use modex::stderr_log::printable;
use modex::types::codes::{persistence, range};
use modex::types::{AsStatus, Info, Key, Pdata, Status, Value};
use serde_json::json;

use super::answer::{self, FORMAT};
use super::arguments;
use super::target::{ANSWER_TIME, Target, answer_within};
use crate::Outcome;
use crate::inspect::to_json;
use crate::printing::{complain, escaped_json, print};

#[derive(Args, Debug)]
#[command(after_long_help = PUBLISH_HELP)]
pub(crate) struct PublishOptions {
    #[command(flatten)]
    target: Target,
    /// Data: text, or TYPE:VALUE (number=uint32:5)
    #[arg(value_name = "KEY=VALUE", required = true)]
    data: Vec<String>,
    /// Processes that can look it up (PMIX_RANGE)
    #[arg(long, value_name = "RANGE", default_value = "session")]
    range: RangeName,
    /// End of the data (PMIX_PERSISTENCE)
    #[arg(long, value_name = "PERSISTENCE", default_value = "session")]
    persistence: PersistenceName,
    /// Give up after this many seconds
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u32>,
}

#[derive(Args, Debug)]
#[command(after_long_help = LOOKUP_HELP)]
pub(crate) struct LookupOptions {
    #[command(flatten)]
    target: Target,
    /// Keys to look up
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,
    /// Publishers whose data counts (PMIX_RANGE)
    #[arg(long, value_name = "RANGE", default_value = "session")]
    range: RangeName,
    /// Wait until all keys are published (PMIX_WAIT)
    #[arg(long)]
    wait: bool,
    /// Give up after this many seconds (PMIX_TIMEOUT), for the connection and again for the data; implies --wait.
    /// 0 is no limit
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u32>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
#[command(after_long_help = UNPUBLISH_HELP)]
pub(crate) struct UnpublishOptions {
    #[command(flatten)]
    target: Target,
    /// Keys to withdraw
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,
    /// Range in which they were published (PMIX_RANGE)
    #[arg(long, value_name = "RANGE", default_value = "session")]
    range: RangeName,
}

/// The ranges of a tool, which is in a namespace of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum RangeName {
    /// The server's own process
    Rm,
    /// The processes of this node
    Local,
    /// The processes of the session
    Session,
    /// All processes
    Global,
}

/// The ends of data that can outlive the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PersistenceName {
    /// The first lookup
    FirstRead,
    /// The end of the session: for `modex run`, its own end
    Session,
    /// No end as long as the server lives
    Indefinite,
}

const PUBLISH_HELP: &str = help!(
    "\
Examples:
  modex publish solver.port=4711
  modex publish --pid 4711 ranks=uint32:8 --persistence first-read

The server must answer PMIx_Publish, as that of `modex run` does. MPI_Lookup_name finds text that is published here.

Exit status:
  0  All data is published
  1  No data is published, or the server can't be asked
  2  The command line makes no sense"
);

const UNPUBLISH_HELP: &str = help!(
    "\
Examples:
  modex unpublish solver.port

It withdraws what this user has published with `modex publish` or another tool. Data of ranks is theirs.

Exit status:
  0  The data is withdrawn
  1  There is no such data, or the server can't be asked
  2  The command line makes no sense"
);

const LOOKUP_HELP: &str = help!(
    "\
Examples:
  modex lookup solver.port
  modex lookup --wait --timeout 10 solver.port solver.host --json

JSON document (--json): format (1), status (PMIX_SUCCESS; PMIX_ERR_PARTIAL_SUCCESS or PMIX_ERR_NOT_FOUND
if some or all keys are missing), and results[] of key, type, value, and namespace and rank of the publisher.

Exit status:
  0  All keys are found
  1  A key is not found, or the server can't be asked
  2  The command line makes no sense"
);

pub(crate) fn publish(options: &PublishOptions) -> Outcome {
    let data: Result<Vec<Info>, arguments::ArgumentError> =
        options.data.iter().map(|word| arguments::data(word)).collect();
    let mut infos = data?;
    infos.push(options.range.directive());
    let code = Value::Persistence(options.persistence.code());
    infos.push(Info::new(Key::from_static(keys::PERSISTENCE.name()), code));
    infos.extend(time_limit(options.timeout));
    let tool = options.target.connect(None, duration(options.timeout))?;
    tool.client()?.publish(infos).wait()?;
    // The end of the connection has the same effect.
    let _ = tool.finalize();
    Ok(0)
}

pub(crate) fn unpublish(options: &UnpublishOptions) -> Outcome {
    let keys: Result<Vec<Key>, arguments::ArgumentError> =
        options.keys.iter().map(|word| arguments::key(word)).collect();
    let tool = options.target.connect(None, Some(ANSWER_TIME))?;
    let withdrawn = answer_within(ANSWER_TIME, tool.client()?.unpublish(keys?, vec![options.range.directive()]))?;
    let _ = tool.finalize();
    match withdrawn {
        Ok(()) => Ok(0),
        Err(error) if error.status() == Status::ERR_NOT_FOUND => {
            complain("no tool of this user has published such data");
            Ok(1)
        }
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn lookup(options: &LookupOptions) -> Outcome {
    let keys: Result<Vec<Key>, arguments::ArgumentError> =
        options.keys.iter().map(|word| arguments::key(word)).collect();
    let keys = keys?;
    let mut directives = vec![options.range.directive()];
    if options.wait || options.timeout.is_some() {
        directives.push(Info::new(Key::from_static(keys::WAIT.name()), 0));
        directives.extend(time_limit(options.timeout));
    }
    let tool = options.target.connect(None, duration(options.timeout))?;
    let (status, found) = match tool.client()?.lookup(keys.clone(), directives).wait() {
        Ok(answered) => (answered.status, answered.results),
        Err(error) if error.status() == Status::ERR_NOT_FOUND => (Status::ERR_NOT_FOUND, Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let _ = tool.finalize();
    if !found.is_empty() || options.json {
        print(&shown(options, keys.len(), status, &found))?;
    }
    let names: BTreeSet<&Key> = found.iter().map(|data| &data.key).collect();
    let missing: Vec<String> =
        keys.iter().filter(|key| !names.contains(key)).map(|key| printable(key.as_str())).collect();
    if missing.is_empty() {
        return Ok(0);
    }
    complain(&format!("not published for this user: {}", missing.join(", ")));
    Ok(1)
}

/// One key shows its value alone, like `modex get`.
fn shown(options: &LookupOptions, key_count: usize, status: Status, found: &[Pdata]) -> String {
    let info = |data: &Pdata| Info::new(data.key.clone(), data.value.clone());
    if options.json {
        let result = |data: &Pdata| {
            json!({
                "key": data.key.as_str(),
                "type": data.value.data_type().name(),
                "value": to_json(&data.value),
                "namespace": data.proc.namespace.as_str(),
                "rank": to_json(&Value::ProcRank(data.proc.rank)),
            })
        };
        let results: Vec<_> = found.iter().map(result).collect();
        let status = status.name().map_or_else(|| json!(status.to_raw()), |name| json!(name));
        return escaped_json(&format!("{:#}\n", json!({ "format": FORMAT, "status": status, "results": results })));
    }
    match found {
        [one] if key_count == 1 => answer::text_of(&one.value) + "\n",
        several => answer::lines(&several.iter().map(info).collect::<Vec<_>>()),
    }
}

fn duration(seconds: Option<u32>) -> Option<Duration> {
    seconds.filter(|seconds| *seconds > 0).map(|seconds| Duration::from_secs(seconds.into()))
}

fn time_limit(seconds: Option<u32>) -> Option<Info> {
    seconds.map(|seconds| Info::new(Key::from_static(keys::TIMEOUT.name()), seconds))
}

impl RangeName {
    fn directive(self) -> Info {
        Info::new(Key::from_static(keys::RANGE.name()), Value::DataRange(self.code()))
    }

    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Rm => range::RANGE_RM,
            Self::Local => range::RANGE_LOCAL,
            Self::Session => range::RANGE_SESSION,
            Self::Global => range::RANGE_GLOBAL,
        }
    }
}

impl PersistenceName {
    const fn code(self) -> u8 {
        match self {
            Self::FirstRead => persistence::PERSIST_FIRST_READ,
            Self::Session => persistence::PERSIST_SESSION,
            Self::Indefinite => persistence::PERSIST_INDEF,
        }
    }
}
