//! `modex query`: facts that the server and its host know.

use std::time::Duration;

use clap::Args;
use modex::keys;
use modex::stderr_log::printable;
use modex::types::{Info, Key, Query, Status, Text, Value};
use serde_json::json;

use super::answer::{self, FORMAT};
use super::arguments;
use super::target::{Target, within};
use crate::run::seconds;
use crate::{Outcome, printing};

#[derive(Args, Debug)]
#[command(after_long_help = HELP)]
pub(crate) struct QueryOptions {
    #[command(flatten)]
    target: Target,
    /// Queries, as keys or as names of attributes
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,
    /// About this job (PMIX_NSPACE)
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// About this process of the job (PMIX_RANK)
    #[arg(short, long, value_name = "RANK", requires = "namespace", allow_hyphen_values = true)]
    rank: Option<String>,
    /// Any other qualifier. A repeated one of no standard key has an array of values
    #[arg(short, long = "qualifier", value_name = "KEY=VALUE")]
    qualifiers: Vec<String>,
    /// Give up after this many seconds without an answer
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    timeout: Duration,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

const HELP: &str = help!("\
Examples:
  modex query PMIX_QUERY_NAMESPACES
  modex query PMIX_QUERY_PROC_TABLE -n modex-4711
  modex query PMIX_QUERY_SUPPORTED_KEYS

JSON document (--json): format (1), status (PMIX_SUCCESS, or PMIX_ERR_PARTIAL_SUCCESS if not all is known), and results[]
of key, type and value.

Exit status:
  0  Everything is answered
  1  Something is not answered, or the server can't be asked
  2  The command line makes no sense");

pub(crate) fn run(options: &QueryOptions) -> Outcome {
    let mut qualifiers = Vec::new();
    if let Some(name) = &options.namespace {
        let namespace = arguments::namespace(name)?;
        qualifiers.push(Info::new(Key::from_static(keys::NSPACE.name()), namespace.as_str()));
    }
    if let Some(word) = &options.rank {
        qualifiers.push(Info::new(Key::from_static(keys::RANK.name()), Value::ProcRank(arguments::rank(word)?)));
    }
    qualifiers.extend(arguments::qualifiers(&options.qualifiers)?);
    let keys: Result<Vec<Text>, arguments::ArgumentError> =
        options.keys.iter().map(|word| Ok(Text::from(arguments::key(word)?.as_str()))).collect();
    let queries = vec![Query { keys: keys?, qualifiers }];
    let job = options.namespace.as_deref().map(arguments::namespace).transpose()?;
    let asked = queries.iter().flat_map(|query: &Query| query.keys.clone()).collect::<Vec<Text>>();
    let tool = options.target.connect(job.as_ref(), Some(options.timeout))?;
    let answered = within(options.timeout, tool.client()?.query(queries))?;
    // The end of the connection has the same effect.
    let _ = tool.finalize();
    let (status, results) = (answered.status, answered.results);
    let text = if options.json {
        let results: Vec<_> = results.iter().map(answer::json_of).collect();
        let status = status.name().map_or_else(|| json!(status.to_raw()), |name| json!(name));
        printing::escaped_json(&format!("{:#}\n", json!({ "format": FORMAT, "status": status, "results": results })))
    } else {
        answer::lines(&results)
    };
    printing::print(&text)?;
    if status == Status::SUCCESS {
        return Ok(0);
    }
    // The printed answer lacks a part of the request.
    let is_answered = |key: &&Text| results.iter().any(|info| info.key.as_str().as_bytes() == key.as_bytes());
    let unknown: Vec<String> =
        asked.iter().filter(|key| !is_answered(key)).map(|key| printable(&key.to_string_lossy())).collect();
    printing::complain(&complaint(status, &unknown));
    Ok(1)
}

/// The message for a partial answer that lacks these keys.
fn complaint(status: Status, unknown: &[String]) -> String {
    let answered = format!("the server answered with {status}");
    // Other errors carry no information about the known keys.
    if unknown.is_empty() || ![Status::ERR_PARTIAL_SUCCESS, Status::ERR_NOT_FOUND].contains(&status) {
        return answered;
    }
    format!(
        "{answered}; the server and its host lack: {} (PMIX_QUERY_SUPPORTED_KEYS lists their keys)",
        unknown.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_unknown_is_called_so() {
        let unknown = ["a".to_owned(), "b".to_owned()];
        let names_them =
            |status, unknown: &[String]| complaint(status, unknown).contains("the server and its host lack: a, b (");
        assert!(names_them(Status::ERR_PARTIAL_SUCCESS, &unknown));
        assert!(names_them(Status::ERR_NOT_FOUND, &unknown));
        for (status, unknown) in [(Status::ERR_PARTIAL_SUCCESS, &[][..]), (Status::ERR_NO_PERMISSIONS, &unknown)] {
            assert_eq!(complaint(status, unknown), format!("the server answered with {status}"));
        }
    }
}
