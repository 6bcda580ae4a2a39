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
//! The launcher cleans up in all cases. Ranks share a process group, which is killed before any rank is reaped. The
//! group's leader, a guardian process, does the same if the launcher itself is killed. The guardian also finds
//! processes that left the group. If both are killed at once, the kernel kills the group.

mod apps;
mod children;
mod cores;
mod elf;
mod forward;
mod guardian;
mod host;
mod job;
mod job_processes;
mod jobs;
mod last_output;
mod lines;
mod mpi_library;
mod orphans;
mod output_locks;
mod output_writer;
mod plan;
mod poller;
mod rank_id;
mod report;
mod session;
mod spawn_request;
mod suspension;
mod verdict;
mod waiting;

use std::ffi::OsString;
use std::time::Duration;

pub(super) use apps::{AppError, with_two_dashes};
use clap::{Args, ValueEnum};
pub(super) use cores::print as print_cores;
pub(super) use guardian::{Guardian, SUBCOMMAND as GUARDIAN, run as guardian};
pub(super) use job::JobError;
pub(super) use session::SessionDirectory;

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
}

/// The cores that ranks may run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Binding {
    /// Each rank on a core of its own, in turn; ranks share cores if there are more ranks than cores
    Core,
    /// Wherever the system puts them
    None,
}

#[derive(Args, Debug)]
#[command(
    override_usage = "modex run -n N [OPTIONS] -- PROGRAM [ARGS...] [: -n M [-x ...] [--wdir ...] PROGRAM2 [ARGS...]]...",
    after_help = "The exit status is that of the first rank that fails: its own, or 128 + signal; 124 after --timeout.\n\
                  It is 127 if a program is not found, and 126 if it can't be executed.\n\
                  Without a failure it is 1 if the ranks' output can't be written, as on a full disk.\n\
                  A rank that fails ends the job: the others get SIGTERM, and SIGKILL after --grace.\n\
                  A rank that joined fails, with status 1, if it leaves others behind and ends without finalizing.\n\
                  SIGINT (Ctrl-C) is passed on; ranks that ignore it get SIGTERM after --grace, then SIGKILL. SIGTERM,\n\
                  SIGHUP and SIGQUIT reach the ranks as SIGTERM; a second signal kills them. SIGUSR2 is passed on, and\n\
                  SIGUSR1 to ranks that it does not end. SIGTSTP (Ctrl-Z) stops ranks and launcher, SIGCONT continues both.\n\
                  SIGUSR1, --timeout and signals that end the job show each operation that waits, and for which ranks.\n\
                  Output comes in whole lines. A line over 64 KiB is passed on in parts while other ranks' output waits; it\n\
                  is broken only if its rank is silent for five seconds and others wait.\n\
                  --pmi auto looks at the program's file and the libraries that it needs. It sees no library that a script or\n\
                  interpreter loads: write --pmi pmi1 for Python with mpi4py on MPICH or Intel MPI.\n\
                  PMIx tools find the job by this command's process number, such as `pps --pid PID`.\n\
                  MODEX_LOG=off|error|warn|info|debug sets the level of the log; the default is warn."
)]
pub(super) struct RunOptions {
    #[command(flatten)]
    first: apps::AppOptions,

    /// Put "[rank,channel] " in front of every line of output, once a line of any length
    #[arg(long)]
    tag_output: bool,

    /// Reader of the launcher's standard input
    #[arg(long, value_enum, default_value_t = Input::RankZero, value_name = "WHO")]
    stdin: Input,

    /// Bind each rank to a core, or not
    #[arg(long, value_enum, default_value_t = Binding::None, value_name = "TO")]
    bind: Binding,

    /// End the job after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,

    /// Seconds that the ranks get to end after a failure or signal
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    grace: Duration,

    /// Protocol by which ranks join the job
    #[arg(long, value_enum, default_value_t = mpi_library::PmiChoice::Auto, value_name = "PROTOCOL")]
    pmi: mpi_library::PmiChoice,

    /// No TCP socket for ranks that use another PMIx library
    #[arg(long)]
    no_tcp: bool,

    /// Print the time that each phase of the start took
    #[arg(long)]
    report: bool,

    /// Program and arguments; a ':' separates programs
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

pub(super) fn run(options: &RunOptions) -> Outcome {
    #[expect(clippy::disallowed_methods, reason = "-x NAME passes on the launcher's own variable")]
    let apps = apps::split(&options.first, &options.command, |name| std::env::var_os(name))?;
    let plan = plan::Plan::new(apps, options.bind == Binding::Core)?;
    if let Some((rank_count, core_count)) = plan.shared_cores() {
        let cores = if core_count == 1 { "core" } else { "cores" };
        tracing::warn!("--bind core: {rank_count} ranks share {core_count} {cores}; start fewer, or use --bind none");
    }
    let settings = job::Settings {
        tag_output: options.tag_output,
        input: options.stdin,
        timeout: options.timeout,
        grace: options.grace,
        no_tcp: options.no_tcp,
        pmi: options.pmi,
        report: options.report,
    };
    match job::LaunchedJob::start(plan, settings) {
        Ok(job) => Ok(job.finish()?),
        // The command line is at fault, and the exit status shows it.
        Err(job::JobError::App(error)) => Err(error.into()),
        Err(error) => Err(error.into()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds, such as 10 or 0.5".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
