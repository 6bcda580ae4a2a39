//! The jobs of one server, by queries of the standard, and the operations that wait, by one of ours.

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use modex::ptl::rendezvous::Found;
use modex::types::codes::proc_state;
use modex::types::{AsStatus, Info, Key, Namespace, ProcId, ProcInfo, Query, Status, Text, Value};
use modex::usage::{process_stat, seconds_since_boot, ticks_per_second};
use modex::{AttachError, Client, Tool, ToolDirections, keys};
use serde::Serialize;

use crate::run::{OPERATIONS, REQUEST_COUNTS};

/// The time that a server gets to answer each question.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// A server and its jobs.
#[derive(Debug, Serialize)]
pub(crate) struct ServerReport {
    pub(crate) pid: Option<u32>,
    pub(crate) name: String,
    pub(crate) jobs: Vec<JobReport>,
    /// `None`: the server can't tell.
    pub(crate) operations: Option<Vec<String>>,
}

#[derive(Debug, Serialize)]
pub(crate) struct JobReport {
    pub(crate) name: String,
    pub(crate) age_s: Option<u64>,
    pub(crate) ranks: Vec<RankReport>,
}

#[derive(Debug, Serialize)]
pub(crate) struct RankReport {
    pub(crate) rank: Option<u32>,
    pub(crate) pid: u32,
    pub(crate) host: Option<String>,
    pub(crate) program: Option<String>,
    pub(crate) state: &'static str,
    /// Requests to the server on the open connections of the process. `None`: it has none, or the server can't tell.
    pub(crate) requests: Option<u64>,
    /// Whether the process has ended. Its number may mean another one by now.
    #[serde(skip)]
    pub(crate) has_ended: bool,
}

/// A connection to a server, for one question or several.
#[derive(Debug)]
pub(crate) struct Connection {
    tool: Tool,
    client: Arc<Client>,
    pid: Option<u32>,
}

impl Connection {
    pub(crate) fn open(found: &Found) -> Result<Self, AttachError> {
        let tool = Tool::builder().directions(directions(found)).connect()?;
        let client = tool.client()?;
        Ok(Self { tool, client, pid: found.contents.pid })
    }

    /// The jobs of the server now.
    pub(crate) fn report(&self) -> Result<ServerReport, Box<dyn std::error::Error>> {
        let Self { client, pid, .. } = self;
        let counts = ask(client, REQUEST_COUNTS, None)?;
        let counts: BTreeMap<&ProcId, u64> = counts.iter().flat_map(request_counts).collect();
        let names = ask(client, keys::QUERY_NAMESPACES.name(), None)?;
        let names = names.iter().filter_map(Value::as_str).flat_map(|names| names.split(','));
        let mut jobs = Vec::new();
        for name in names.filter(|name| !name.is_empty()) {
            let namespace = Namespace::new(name)?;
            let table = ask(client, keys::QUERY_PROC_TABLE.name(), Some(&namespace))?;
            let ranks: Vec<RankReport> = table.iter().flat_map(rows).map(|row| rank_report(row, &counts)).collect();
            let pids = ranks.iter().map(|rank| rank.pid).filter(|pid| *pid != 0);
            let age_s = pids.filter_map(age).max().or_else(|| age((*pid)?)).map(|age| age.as_secs());
            jobs.push(JobReport { name: name.to_owned(), age_s, ranks });
        }
        let operations = ask(client, OPERATIONS, None)?;
        let operations = operations.first().map(|value| elements(value).iter().map(text_of).collect());
        Ok(ServerReport { pid: *pid, name: client.server().to_string(), jobs, operations })
    }

    /// The server's own name.
    pub(crate) fn server(&self) -> &ProcId {
        self.client.server()
    }

    /// The values that the server has for a key about no job.
    pub(crate) fn values(&self, key: &str) -> Result<Vec<Value>, Box<dyn std::error::Error>> {
        ask(&self.client, key, None)
    }

    pub(crate) fn close(self) {
        // The end of the connection has the same effect.
        let _ = self.tool.finalize();
    }
}

/// Asks a server once.
pub(super) fn of(found: &Found) -> Result<ServerReport, Box<dyn std::error::Error>> {
    let connection = Connection::open(found)?;
    let report = connection.report()?;
    connection.close();
    Ok(report)
}

/// The way to a server, which gets some seconds to answer.
pub(crate) fn directions(found: &Found) -> ToolDirections {
    ToolDirections { file: Some(found.path.clone()), time_max: Some(ANSWER_TIME), ..ToolDirections::default() }
}

/// The values that a server has for a key; none if it does not know the key.
fn ask(client: &Client, key: &str, job: Option<&Namespace>) -> Result<Vec<Value>, Box<dyn std::error::Error>> {
    let qualifiers = job.map(|job| Info::new(Key::from_static(keys::NSPACE.name()), job.as_str()));
    let anew = Info::new(Key::from_static(keys::QUERY_REFRESH_CACHE.name()), true);
    let query = Query { keys: vec![Text::from(key)], qualifiers: qualifiers.into_iter().chain([anew]).collect() };
    let (sender, answers) = mpsc::channel();
    client.query(vec![query]).then(move |answer| {
        // The command may have given up.
        let _ = sender.send(answer);
    })?;
    let results = match answers.recv_timeout(ANSWER_TIME).map_err(|_| "it does not answer a query in time")? {
        Ok(answered) => answered.results,
        Err(error) if [Status::ERR_NOT_SUPPORTED, Status::ERR_NOT_FOUND].contains(&error.status()) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let is_asked = |info: &Info| info.key.as_str() == key;
    Ok(results.into_iter().filter(is_asked).map(|info| info.value).collect())
}

fn elements(value: &Value) -> &[Value] {
    match value {
        Value::DataArray(array) => &array.elements,
        _ => &[],
    }
}

fn rows(table: &Value) -> impl Iterator<Item = &ProcInfo> {
    elements(table).iter().filter_map(|row| match row {
        Value::ProcInfo(row) => Some(&**row),
        _ => None,
    })
}

fn request_counts(counts: &Value) -> impl Iterator<Item = (&ProcId, u64)> {
    elements(counts).iter().filter_map(|count| match count {
        Value::Pdata(pdata) => Some((&pdata.proc, pdata.value.as_u64()?)),
        _ => None,
    })
}

fn rank_report(row: &ProcInfo, requests: &BTreeMap<&ProcId, u64>) -> RankReport {
    let text = |text: &Option<Text>| text.as_ref().map(|text| text.to_string_lossy());
    RankReport {
        rank: row.proc.rank.process(),
        pid: row.pid,
        host: text(&row.hostname),
        program: text(&row.executable),
        state: state_in_words(row.state),
        requests: requests.get(&row.proc).copied(),
        has_ended: has_ended(row.state),
    }
}

/// Whether a process in this state runs no more.
const fn has_ended(state: u8) -> bool {
    use proc_state as state_of;
    matches!(
        state,
        state_of::PROC_STATE_TERMINATED
            | state_of::PROC_STATE_KILLED_BY_CMD
            | state_of::PROC_STATE_ABORTED
            | state_of::PROC_STATE_CALLED_ABORT
            | state_of::PROC_STATE_FAILED_TO_START
            | state_of::PROC_STATE_FAILED_TO_LAUNCH
            | state_of::PROC_STATE_ABORTED_BY_SIG
            | state_of::PROC_STATE_TERM_WO_SYNC
            | state_of::PROC_STATE_TERM_NON_ZERO
    )
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A state of a process (`pmix_proc_state_t`).
pub(crate) const fn state_in_words(state: u8) -> &'static str {
    use proc_state as state_of;
    match state {
        state_of::PROC_STATE_PREPPED => "expected",
        state_of::PROC_STATE_LAUNCH_UNDERWAY => "starting",
        state_of::PROC_STATE_RESTART => "restarting",
        state_of::PROC_STATE_TERMINATE => "ending",
        state_of::PROC_STATE_RUNNING => "running",
        state_of::PROC_STATE_CONNECTED => "connected",
        state_of::PROC_STATE_UNTERMINATED => "not ended",
        state_of::PROC_STATE_TERMINATED => "ended",
        state_of::PROC_STATE_ERROR => "in error",
        state_of::PROC_STATE_KILLED_BY_CMD => "killed by command",
        state_of::PROC_STATE_ABORTED | state_of::PROC_STATE_CALLED_ABORT => "aborted",
        state_of::PROC_STATE_FAILED_TO_START | state_of::PROC_STATE_FAILED_TO_LAUNCH => "not started",
        state_of::PROC_STATE_ABORTED_BY_SIG => "killed by signal",
        state_of::PROC_STATE_TERM_WO_SYNC => "ended without finalize",
        state_of::PROC_STATE_COMM_FAILED => "connection lost",
        state_of::PROC_STATE_SENSOR_BOUND_EXCEEDED => "over its limit",
        state_of::PROC_STATE_HEARTBEAT_FAILED => "no heartbeat",
        state_of::PROC_STATE_MIGRATING => "migrating",
        state_of::PROC_STATE_CANNOT_RESTART => "cannot restart",
        state_of::PROC_STATE_TERM_NON_ZERO => "failed",
        _ => "unknown",
    }
}

/// The time since the start of a process on this machine.
fn age(pid: u32) -> Option<Duration> {
    let started = process_stat(pid)?.started.checked_div(ticks_per_second())?;
    Some(Duration::try_from_secs_f64(seconds_since_boot()?).ok()?.saturating_sub(Duration::from_secs(started)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_a_process_follows_from_its_start() {
        assert!(age(std::process::id()).is_some_and(|age| age < Duration::from_secs(86_400)));
        assert!(age(1) >= age(std::process::id()));
        assert_eq!(age(u32::MAX), None);
    }

    #[test]
    fn states_have_words() {
        assert_eq!(
            (state_in_words(6), state_in_words(56), state_in_words(99)),
            ("connected", "connection lost", "unknown")
        );
    }
}
