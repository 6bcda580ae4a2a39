//! `modex events watch`: the events that a server delivers to this tool.

use std::error::Error;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use modex::types::{AsStatus, Namespace, Status};
use modex::{Client, EventCall};

use super::report::Report;
use crate::Outcome;
use crate::ask::arguments::{self, ArgumentError};
use crate::ask::target::{ANSWER_TIME, Target, answer_within, within};
use crate::printing::{complain, print_on};

#[derive(Args, Debug)]
#[command(after_long_help = HELP)]
pub(super) struct WatchOptions {
    #[command(flatten)]
    target: Target,
    /// Codes of events, as names or numbers; without them every event
    #[arg(value_name = "CODE", allow_negative_numbers = true)]
    codes: Vec<String>,
    /// Leave out events about other jobs
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// End after this many events
    #[arg(short, long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after this many seconds
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u32>,
    /// Print each event as a JSON object in one line
    #[arg(long)]
    json: bool,
}

const HELP: &str = help!(
    "\
Examples:
  modex events watch
  modex events watch -n modex-4711
  modex events watch PMIX_EVENT_JOB_END EVENT_PROC_TERMINATED --json | jq .code
  modex events watch -n modex-4711 --count 1 --timeout 60 PMIX_EVENT_JOB_END

A line has the time of the delivery, the code, the process that raised the event, the processes that it is
about, and its details. Events that the server has kept come first: at most 512, of the last two minutes.
The command ends with the server. Events of the system, such as PMIX_EVENT_NODE_DOWN, need a host that
reports them.

JSON object (--json): format (1), time, status (name or null), code (number), source (null, or namespace
and rank), affected[] of namespace and rank, and info[] of key, type and value.

Exit status:
  0  The number of events has come; without --count, the time is over or the server has ended
  1  Fewer events came than --count, or the server can't be asked or refuses
  2  The command line makes no sense"
);

/// A call of a handler, or the end of the watch.
enum Sighting {
    Event(Report),
    EndOfServer,
}

/// Events that wait to be printed. A handler waits for room, and the server drops events of a slow reader.
const WAITING_MAX: usize = 1024;

pub(super) fn run(options: &WatchOptions) -> Outcome {
    let codes: Result<Vec<Status>, ArgumentError> = options.codes.iter().map(|word| arguments::status(word)).collect();
    let codes = codes?;
    let job = options.namespace.as_deref().map(arguments::namespace).transpose()?;
    let until = options.timeout.and_then(|seconds| now().checked_add(Duration::from_secs(seconds.into())));
    let given = options.timeout.filter(|seconds| *seconds > 0).map(|seconds| Duration::from_secs(seconds.into()));
    let time_max = given.unwrap_or(ANSWER_TIME);
    let tool = options.target.connect(job.as_ref(), Some(time_max))?;
    let client = tool.client()?;
    let (sender, sightings) = mpsc::sync_channel(WAITING_MAX);
    register(&client, &codes, &sender, time_max)?;
    drop(sender);
    let printed = print_events(options, job.as_ref(), &sightings, until)?;
    let is_short = options.count.is_some_and(|count| printed.is_some_and(|printed| printed < count));
    if is_short {
        complain(&format!("{} of {} events came", printed.unwrap_or_default(), options.count.unwrap_or_default()));
    }
    // A handler may wait for room among the events; the end of the process ends the connection.
    Ok(u8::from(is_short))
}

/// Prints events until one of the ends. Returns their number, or `None` if the reader has gone.
fn print_events(
    options: &WatchOptions,
    job: Option<&Namespace>,
    sightings: &Receiver<Sighting>,
    until: Option<Instant>,
) -> std::io::Result<Option<u64>> {
    let mut printed = 0;
    while options.count.is_none_or(|count| printed < count) {
        let sighting = match until {
            None => sightings.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(until) => sightings.recv_timeout(until.saturating_duration_since(now())),
        };
        let Ok(Sighting::Event(report)) = sighting else { break };
        if job.is_some_and(|job| is_of_others(&report, job)) {
            continue;
        }
        let line = if options.json { report.json() } else { report.line() };
        if !print_on(&(line + "\n"))? {
            return Ok(None);
        }
        printed += 1;
    }
    Ok(Some(printed))
}

/// Whether an event is about processes, but about none of this job.
fn is_of_others(report: &Report, job: &Namespace) -> bool {
    let affected = report.affected();
    !affected.is_empty() && affected.iter().all(|proc| proc.namespace != *job)
}

/// Registers for these codes, or for all. A default handler gets no event that is marked for others, so all codes with
/// a name are listed, too.
fn register(
    client: &Client,
    codes: &[Status],
    sender: &SyncSender<Sighting>,
    time_max: Duration,
) -> Result<(), Box<dyn Error>> {
    let server = client.server().clone();
    let ends = sender.clone();
    let end = client.register_event_handler(&[Status::ERR_LOST_CONNECTION], &[], move |call| {
        if call.source.as_ref() == Some(&server) {
            let _ = ends.send(Sighting::EndOfServer);
        }
        call.complete(Status::SUCCESS, Vec::new());
    });
    within(time_max, end)?;
    if !codes.is_empty() {
        within(time_max, client.register_event_handler(codes, &[], reporter(sender, |_| true)))?;
        return Ok(());
    }
    let mut listed: Vec<Status> = Status::named().filter(|code| *code != Status::SUCCESS).collect();
    let all = client.register_event_handler(&listed, &[], reporter(sender, |_| true));
    match answer_within(time_max, all)? {
        Ok(_) => {}
        // Only some hosts report events of the system.
        Err(error) if error.status() == Status::ERR_NOT_SUPPORTED => {
            listed.retain(|code| !is_of_system(*code));
            within(time_max, client.register_event_handler(&listed, &[], reporter(sender, |_| true)))?;
        }
        Err(error) => return Err(error.into()),
    }
    let others = reporter(sender, move |code| !listed.contains(&code));
    within(time_max, client.register_event_handler(&[], &[], others))?;
    Ok(())
}

/// The standard's system events.
fn is_of_system(code: Status) -> bool {
    (Status::EVENT_SYS_OTHER..=Status::EVENT_SYS_BASE).contains(&code)
}

/// A handler that reports the events whose codes are wanted.
fn reporter(
    sender: &SyncSender<Sighting>,
    is_wanted: impl Fn(Status) -> bool + Send + Sync + 'static,
) -> impl Fn(EventCall) + Send + Sync + 'static {
    let sender = sender.clone();
    move |mut call: EventCall| {
        if is_wanted(call.status) {
            let infos = std::mem::take(&mut call.info);
            let report = Report { time: time_of_day(), status: call.status, source: call.source.clone(), infos };
            // The command may be ending.
            let _ = sender.send(Sighting::Event(report));
        }
        call.complete(Status::SUCCESS, Vec::new());
    }
}

#[expect(clippy::disallowed_methods, reason = "the user's limit is in real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "each line shows the time of the day")]
fn time_of_day() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use modex::keys;
    use modex::types::{Info, Key, ProcId};

    use super::*;

    #[test]
    fn an_event_without_processes_is_of_every_job() {
        let name = |text: &str| Namespace::new(text).unwrap();
        let about = |jobs: &[&str]| Report {
            time: Duration::ZERO,
            status: Status::EVENT_JOB_END,
            source: None,
            infos: jobs
                .iter()
                .map(|job| Info::new(Key::from_static(keys::EVENT_AFFECTED_PROC.name()), ProcId::new(name(job), 0)))
                .collect(),
        };
        let is_of_others = |jobs: &[&str]| is_of_others(&about(jobs), &name("a"));
        assert_eq!((is_of_others(&[]), is_of_others(&["b"]), is_of_others(&["b", "a"])), (false, true, false));
        assert!(is_of_system(Status::EVENT_NODE_DOWN) && !is_of_system(Status::EVENT_JOB_END));
    }
}
