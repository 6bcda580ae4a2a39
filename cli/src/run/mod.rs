//! `modex run`: starts a job on this machine with the embedded server.
//!
//! ```text
//!  command line --> apps --> plan (ranks, environment, places) --> children (processes)
//!                                                                      |
//!  server's host ---- news ----> job: one loop over wake-ups <-- output, signals, ends
//!                                      |        \
//!                                      |         output_writer: a thread that writes for ranks and launcher
//!                                  verdict: go on, stop, kill --> exit status
//! ```
//!
//! The launcher cleans up in all cases. Ranks share a process group, which is killed before the ranks are reaped. Only
//! the ranks of a spawned job are reaped at its end; the guardian keeps the group's number. The group's leader, a
//! guardian process, does the same if the launcher itself is killed. The guardian also finds processes that left the
//! group. If both are killed at once, the kernel kills the group.

mod apps;
mod children;
mod clock;
mod control_request;
mod cores;
mod debug_daemons;
mod debug_stops;
mod destination;
mod directed_files;
mod exec_stop;
mod fair_queue;
mod forward;
mod guardian;
mod hold;
mod host;
mod host_attributes;
mod io_request;
mod job;
mod job_processes;
mod job_record;
mod jobs;
mod last_output;
mod launcher_query;
mod life_events;
mod line_form;
mod lines;
mod log_request;
mod mpi_library;
mod orphans;
mod output_locks;
mod output_writer;
mod plan;
mod poller;
mod rank_id;
mod rank_input;
mod ready_lines;
mod report;
mod report_document;
mod session;
mod spawn_output;
mod spawn_request;
mod suspension;
mod timeline_picture;
mod tool_pace;
mod verdict;
mod waiting;
mod waking_channel;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub(super) use apps::{AppError, with_two_dashes};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
pub(super) use cores::print as print_cores;
use destination::OutputFiles;
pub(super) use exec_stop::{SUBCOMMAND as STOPPED_EXEC, become_program};
pub(super) use forward::pass_input_on;
pub(super) use guardian::{Guardian, SUBCOMMAND as GUARDIAN, run as guardian};
use hold::ToolStart;
pub(super) use job::JobError;
use job_record::JobRecord;
pub(super) use launcher_query::{OPERATIONS, REQUEST_COUNTS};
use line_form::LineMarks;
pub(super) use lines::LineBuffer;
use modex::{Interfaces, InterfacesError};
pub(super) use mpi_library::PmiChoice;
use plan::InputTargets;
use report::{ReportWish, Reports};
pub(super) use report_document::{RankMoments, ReportDocument};
pub(super) use session::SessionDirectory;
pub(super) use suspension::{can_be_continued, stop_this_process};

use super::Outcome;

/// The reader of the launcher's standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Input {
    /// Rank 0
    #[value(name = "0")]
    RankZero,
    /// Every rank gets a copy; a rank that does not read holds up the others
    All,
    /// Nobody
    None,
    /// Nobody; each rank has a pipe that tools fill, as modex output --stdin does
    Tools,
}

impl Input {
    /// The ranks that have a pipe for it.
    const fn targets(self) -> InputTargets {
        match self {
            Self::RankZero => InputTargets::One(0),
            Self::All | Self::Tools => InputTargets::All,
            Self::None => InputTargets::Nobody,
        }
    }

    /// Whether ranks read the launcher's own input.
    const fn is_own(self) -> bool {
        matches!(self, Self::RankZero | Self::All)
    }
}

/// The cores that ranks may run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Binding {
    /// Each rank on a core of its own, in turn; ranks share cores if there are more ranks than cores
    #[value(alias = "core:overload-allowed")]
    Core,
    /// Wherever the system puts them
    None,
}

#[derive(Args, Debug)]
#[command(
    override_usage = "modex run -n N [OPTIONS] -- PROGRAM [ARGS...] [: -n M [-x ...] [--wdir ...] PROGRAM2 [ARGS...]]...",
    after_long_help = HELP
)]
pub(super) struct RunOptions {
    #[command(flatten)]
    first: apps::AppOptions,

    /// Put "[rank,channel] " in front of every line of output, once a line of any length
    #[arg(long)]
    tag_output: bool,

    /// Put the time in front of every line of output: UTC, such as 2026-10-07T10:34:56.789012Z
    #[arg(long, alias = "timestamp-output")]
    timestamp: bool,

    /// Send the ranks' standard error to their standard output, in the order written
    #[arg(long, alias = "merge-stderr-to-stdout")]
    merge: bool,

    /// Write the ranks' output to files and not to the terminal: DIR/rank.07.out and DIR/rank.07.err
    #[arg(long, alias = "output-filename", value_name = "DIR")]
    output: Option<PathBuf>,

    /// Append a JSON line to FILE for each text that a process logs to the job's record
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Reader of the launcher's standard input
    #[arg(long, value_enum, default_value_t = Input::RankZero, value_name = "WHO")]
    stdin: Input,

    /// Bind each rank to a core, or not
    #[arg(long, alias = "bind-to", value_enum, default_value_t = Binding::None, value_name = "TO")]
    bind: Binding,

    /// End the job after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,

    /// Seconds that the ranks get to end after a failure or signal
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    grace: Duration,

    /// Protocol by which ranks join the job
    #[arg(long, value_enum, default_value_t = PmiChoice::Auto, value_name = "PROTOCOL")]
    pmi: PmiChoice,

    /// No TCP socket for ranks that use another PMIx library
    #[arg(long)]
    no_tcp: bool,

    /// Admit tools on other machines, over these network interfaces: names and subnets with commas between them, or
    /// all. Tools prove their user by munge. The address for them is printed
    #[arg(long, value_name = "INTERFACES", value_parser = interfaces, conflicts_with = "no_tcp")]
    remote_tools: Option<Interfaces>,

    /// Print the time that each phase of the start took, or write each rank's phases to a file: a picture
    /// (FILE.svg), or JSON (FILE.json). Can be given several times
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = report::TABLE,
          value_parser = OsStringValueParser::new().try_map(ReportWish::of))]
    report: Vec<ReportWish>,

    #[command(flatten)]
    of_others: apps::OthersJobOptions,

    /// Program and arguments; a ':' separates programs
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

const HELP: &str = concat!(
    "\
Examples:
  modex run -n 4 -- ./program arg                               # four ranks of a program
  modex run -n 4 -x LD_LIBRARY_PATH=/opt/modex/lib ./program    # with a variable
  modex run -n 2 -x A=3 ./first : -n 1 --wdir /tmp ./second     # one job of two programs
  modex run -n 16 --output out --timestamp --merge ./program    # out/rank.00.out and so on
  modex run -n 8 --bind core --timeout 60 --report ./program    # a core each, a minute at most
  modex run -n 64 --report=start.svg ./program                  # the start of each rank as a picture
  modex run -n 2 --pmi pmi1 python3 script.py                   # mpi4py on MPICH or Intel MPI

Exit status:
  0      No rank failed
  1      The ranks' output or a report can't be written, as on a full disk, or the job can't be started
  2      The command line makes no sense
  124    --timeout ended the job
  126    A program can't be executed
  127    A program is not found
  128+N  Signal N ended the first rank that failed
  other  The status of the first rank that failed

A rank that fails ends the job: the others get SIGTERM, and SIGKILL after --grace.
A rank that joined fails, with status 1, if it leaves others behind and ends without finalizing.
A job of which no rank failed has status 1 if its standard output, or a file of its output, was lost.

Environment:
",
    log_help!(),
    "  TMPDIR     Parent of the directory for the job's files [default: /tmp]
  PMIX_LAUNCHER_RNDZ_URI
             Address of a tool; the job waits for the tool's release, PMIX_DEBUGGER_RELEASE
  PMIX_LAUNCHER_PAUSE_FOR_TOOL
             1: the job waits for the release by any tool
  PMIX_LAUNCHER_RNDZ_FILE
             File for the launcher's address, for tools
  PMIX_KEEPALIVE_PIPE
             Descriptor of a pipe; the job ends when its other end closes

The ranks get the launcher's environment, the variables of -x, and variables with which they join
the job, such as PMIX_RANK.

Signals:
  SIGINT (Ctrl-C) is passed on; ranks that ignore it get SIGTERM after --grace, then SIGKILL.
  SIGTERM, SIGHUP and SIGQUIT reach the ranks as SIGTERM; a second signal kills them.
  SIGUSR2 is passed on, and SIGUSR1 to ranks that it does not end.
  SIGTSTP (Ctrl-Z) stops ranks and launcher, SIGCONT continues both.
  SIGUSR1, --timeout and signals that end the job show each operation that waits, and for which ranks.
  So does `modex ps`.

Output:
  Output comes in whole lines. A line over 64 KiB is passed on in parts while other ranks' output
  waits; it is broken only if its rank is silent for five seconds and others wait.
  --output DIR makes the directory and a file for each rank and output, and replaces old files. All
  numbers have as many digits as the highest rank. The launcher's own lines stay on standard error.
  If a file can't be written to its end, one line says so, and the job goes on.
  --merge gives each rank one output for both, as 2>&1 does. Its tag is stdout, its file rank.N.out.
  Processes may take a copy, or redirect it (PMIx_IOF_pull, modex output).
  --timestamp shows the time at which the launcher read the end of the line, or 64 KiB of it.

JSON document (--report=FILE.json):
  job, ranks, version, date, machine, unit, moments[]; a rank's moments, in ms after the first spawn,
  are null if the rank did not reach them
  spawned        The launcher asked for the process
  init_begun     The process entered Init, near the start of main, if the client tells
  connected      Its connect message reached the server
  init_granted   The server admitted it
  fence_begun    Its request for its first fence reached the server
  fence_ended    The server released its first fence
  finalized      The server took its finalize
  ended          The launcher saw its end

Notes:
  The picture of --report shows the same moments of the first job, without those of spawned jobs.
  --pmi auto looks at the program's file and the libraries that it needs. It sees no library that a
  script or interpreter loads: write --pmi pmi1 for Python with mpi4py on MPICH or Intel MPI.
  PMIx tools find the job by this command's process number, such as `pps --pid PID`.
  Options of mpirun with the same meaning: -np, --bind-to core|none, --map-by slot|core|node, --rank-by
  slot|core|node, --oversubscribe, --allow-run-as-root, --output-filename DIR, --timestamp-output and
  --merge-stderr-to-stdout. Long options may have one dash."
);

pub(super) fn run(options: &RunOptions) -> Outcome {
    #[expect(clippy::disallowed_methods, reason = "-x NAME passes on the launcher's own variable")]
    let apps = apps::split(&options.first, &options.command, |name| std::env::var_os(name))?;
    options.of_others.refuse()?;
    apps::check_directory(options.output.as_deref())?;
    let plan = plan::Plan::new(apps, options.bind == Binding::Core)?;
    if let Some((rank_count, core_count)) = plan.shared_cores() {
        let cores = if core_count == 1 { "core" } else { "cores" };
        tracing::warn!("--bind core: {rank_count} ranks share {core_count} {cores}; start fewer, or use --bind none");
    }
    let files = match &options.output {
        Some(directory) => OutputFiles::create(directory, plan.rank_count(), options.merge)?,
        None => OutputFiles::default(),
    };
    let settings = job::Settings {
        marks: LineMarks { has_time: options.timestamp, has_tag: options.tag_output, is_xml: false }
            .or(LineMarks::of_parameters()),
        is_merged: options.merge,
        files,
        input: options.stdin,
        timeout: options.timeout,
        grace: options.grace,
        no_tcp: options.no_tcp,
        remote_tools: options.remote_tools.clone(),
        pmi: options.pmi,
        record: options.record.as_deref().map(JobRecord::open).transpose()?.map(Arc::new),
        reports: Reports::open(&options.report).map_err(job::JobError::from)?,
        tool_start: ToolStart::of_environment(),
    };
    match job::LaunchedJob::start(plan, settings).and_then(job::LaunchedJob::finish) {
        Ok(status) => Ok(status),
        // The command line is at fault, and the exit status shows it.
        Err(job::JobError::App(error)) => Err(error.into()),
        Err(error) => Err(error.into()),
    }
}

/// Interfaces on the command line.
fn interfaces(text: &str) -> Result<Interfaces, InterfacesError> {
    Interfaces::parse(if text == "all" { "" } else { text }, "")
}

/// A duration on the command line.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds, such as 10 or 0.5".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
