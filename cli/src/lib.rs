//! The `modex` command: run a job on this machine, inspect it, measure it. One file or folder for each subcommand.
//!
//! The command uses the public [`Server`](modex::Server) like any other host: it has no private access to the server.

/// The help about the variables of the log, for each command that has one.
macro_rules! log_help {
    () => {
        "  MODEX_LOG  Level of the log: off, error, warn, info or debug [default: warn]. If it is set, lines
             have the time. AREA=LEVEL sets the level of an area: MODEX_LOG=warn,iof=debug. The areas
             are collective, event, gds, get, host, iof, job, pmi, ptl, service, tool and topology
  MODEX_LOG_FORMAT
             Form of the log: text or json [default: text]
"
    };
}

pub mod abi;
mod ask;
mod bench;
#[cfg(test)]
#[path = "../../tests/support/cases.rs"]
mod cases;
mod ctl;
mod demo;
pub mod features;
mod freed_memory;
mod generate;
mod host;
mod info;
mod inspect;
mod log;
mod manual;
mod munge_programs;
mod origin;
mod output;
mod printing;
mod ps;
mod result_file;
mod run;
mod sim;
mod time_table;
mod top;
mod universal_time;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use modex::stderr_log;
use nix::sys::resource::{Resource, getrlimit};

/// PMIx from shared memory: run, inspect, ask and measure jobs on this machine.
#[derive(Debug, Parser)]
#[command(name = "modex", version, propagate_version = true, arg_required_else_help = true, after_long_help = HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const HELP: &str = concat!(
    "\
Examples:
  modex run -n 4 -- ./program arg
  modex ps
  modex top
  modex ctl modex-4711 pause
  modex output modex-4711 -r 0
  modex inspect
  modex get -n modex-4711 -r 0 PMIX_HOSTNAME
  modex query PMIX_QUERY_NAMESPACES
  modex events watch -n modex-4711

Exit status:
  0  Done
  1  An error, in one line on standard error
  2  The command line makes no sense

The status of `modex run` is that of the first rank that fails. The reader of an output may close its
pipe early, as `head` does: this is no error.

Environment:
",
    log_help!(),
    "  TMPDIR     Directory of the files by which jobs are found [default: /tmp]"
);

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a job on this machine with the embedded server
    Run(run::RunOptions),
    /// Run another launcher, such as Open MPI 5's mpirun, with this PMIx library
    Host(host::HostOptions),
    /// A program to run under `modex run`: exchanges values between all ranks and checks every one
    Demo(demo::DemoOptions),
    /// List the jobs of this user on this machine, and what they wait for
    Ps(ps::PsOptions),
    /// Show the processes of the jobs of this user, and what they use, again and again
    Top(top::TopOptions),
    /// Pause, resume, signal or end a job of this user
    Ctl(ctl::CtlOptions),
    /// Show what the ranks of a running job print, and pass on input to them
    #[command(visible_alias = "io")]
    Output(output::OutputOptions),
    /// Show the namespaces and segments of a live server
    Inspect(inspect::InspectOptions),
    /// Ask a live job for a value, as one of its processes would
    Get(ask::GetOptions),
    /// Ask a live server what it knows: namespaces, process tables, and what its host answers
    Query(ask::QueryOptions),
    /// List the attributes that client, server, tool and host support, for each function
    Attrs(ask::AttrsOptions),
    /// Raise events, and watch those that a live server delivers
    Events(ask::EventsOptions),
    /// Publish data that processes of a live job can look up
    Publish(ask::PublishOptions),
    /// Withdraw data that a tool of this user has published
    Unpublish(ask::UnpublishOptions),
    /// Look up data that a process of a live job has published
    Lookup(ask::LookupOptions),
    /// Measure this machine: get, put, fence, init, register, launch, mpi
    Bench(bench::BenchOptions),
    /// Run simulated clusters with faults, and check that every rule holds in every one of them
    Sim(sim::SimOptions),
    /// Show what is installed here, and which features and functions of PMIx work
    Info(info::InfoOptions),
    /// Print shell completions
    Completions(generate::CompletionOptions),
    /// Write the man pages
    Man(generate::ManOptions),
    /// Clean up after a launcher that was killed (started by `modex run`)
    #[command(name = run::GUARDIAN, hide = true)]
    Guardian,
    /// Become a program that stops before its first instruction (started by `modex run`)
    #[command(name = run::STOPPED_EXEC, hide = true)]
    StoppedExec {
        /// The program and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// End at once (the baseline of `modex bench launch`)
    #[command(name = bench::NOTHING, hide = true)]
    Nothing,
}

/// `modex demo` with a parser of its own.
#[derive(Debug, Parser)]
#[command(name = "modex demo", bin_name = "modex demo", version)]
#[command(about = "A program to run under `modex run`: exchanges values between all ranks and checks every one")]
struct Demo {
    #[command(flatten)]
    options: demo::DemoOptions,
}

/// Every rank of a demo job comes through here. The parser of all subcommands touches more memory than the rest of a
/// rank's start. So the demo has its own parser, and without options it needs none.
fn parse(words: Vec<OsString>) -> Command {
    match words.get(1) {
        Some(word) if word == "demo" && words.len() == 2 => Command::Demo(demo::DemoOptions::default()),
        Some(word) if word == "demo" => Command::Demo(Demo::parse_from(words.into_iter().skip(1)).options),
        Some(word) if word == run::STOPPED_EXEC => Command::StoppedExec { words: words.into_iter().skip(2).collect() },
        Some(word) if word == bench::NOTHING && words.len() == 2 => Command::Nothing,
        Some(word) if word == "run" => Cli::parse_from(run::with_two_dashes(words)).command,
        _ => Cli::parse_from(words).command,
    }
}

/// The program `modex-topology`; see its source.
#[must_use]
pub fn topology() -> ExitCode {
    run::print_cores()
}

/// Runs the command line and returns the exit status.
///
/// Errors are one line on standard error, with status 1; a misused command line gives status 2.
#[must_use]
pub fn main() -> ExitCode {
    // The parser alone may take more stack than a low limit leaves (`ulimit -s 64`).
    match getrlimit(Resource::RLIMIT_STACK) {
        Ok((limit, _)) if usize::try_from(limit).is_ok_and(|limit| limit < STACK_BYTES) => {
            stacker::grow(STACK_BYTES, run_command)
        }
        _ => run_command(),
    }
}

fn run_command() -> ExitCode {
    let command = parse(std::env::args_os().collect());
    let [level, format] = log_wishes();
    if command.shows_notices() || (command.shows_log() && (level.is_some() || format.is_some())) {
        log::install(level.as_deref(), format.as_deref());
    }
    let outcome = match command {
        Command::Run(options) => run::run(&options),
        Command::Host(options) => host::run(&options),
        Command::Demo(options) => demo::run(&options),
        Command::Ps(options) => ps::run(&options),
        Command::Top(options) => top::run(&options),
        Command::Ctl(options) => ctl::run(&options),
        Command::Output(options) => output::run(&options),
        Command::Inspect(options) => inspect::run(&options),
        Command::Get(options) => ask::get(&options),
        Command::Query(options) => ask::query(&options),
        Command::Attrs(options) => ask::attrs(&options),
        Command::Events(options) => ask::events(&options),
        Command::Publish(options) => ask::publish(&options),
        Command::Unpublish(options) => ask::unpublish(&options),
        Command::Lookup(options) => ask::lookup(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Sim(options) => sim::run(&options),
        Command::Info(options) => info::run(&options),
        Command::Completions(options) => generate::completions(&options),
        Command::Man(options) => generate::man(&options),
        Command::Guardian => Ok(run::guardian()),
        Command::StoppedExec { words } => Ok(run::become_program(&words)),
        Command::Nothing => Ok(0),
    };
    match outcome {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            // The reader may have gone; the exit status carries the result all the same.
            let _ = writeln!(io::stderr(), "modex: {}", stderr_log::printable(&error.to_string()));
            let is_of_words = error.is::<run::AppError>() || error.is::<ask::ArgumentError>();
            if is_of_words || error.is::<ctl::WordError>() || error.is::<inspect::OptionError>() {
                ExitCode::from(MISUSE)
            } else {
                let of_run = error.downcast_ref::<run::JobError>().map(run::JobError::shell_status);
                let of_host = error.downcast_ref::<host::HostError>().map(host::HostError::shell_status);
                of_run.or(of_host).map_or(ExitCode::FAILURE, ExitCode::from)
            }
        }
    }
}

impl Command {
    /// Whether a server or a reader of segments works in this process and may log messages. Ranks of a demo job start
    /// without one.
    const fn shows_notices(&self) -> bool {
        matches!(self, Self::Run(_) | Self::Bench(_) | Self::Inspect(_))
    }

    /// Whether the command has a log for a user who asks for one.
    const fn shows_log(&self) -> bool {
        !matches!(self, Self::Demo(_) | Self::Guardian | Self::StoppedExec { .. } | Self::Nothing)
    }
}

#[expect(clippy::disallowed_methods, reason = "an edge: the command has no other configuration for this")]
fn log_wishes() -> [Option<OsString>; 2] {
    [stderr_log::VARIABLE, log::FORMAT_VARIABLE].map(std::env::var_os)
}

/// Stack of the main thread where the limit is lower: Linux's usual limit.
const STACK_BYTES: usize = 8 << 20;

/// The status that the parser of the command line uses, too.
const MISUSE: u8 = 2;

/// The result of a subcommand: the exit status, or an error to print in one line.
type Outcome = Result<u8, Box<dyn std::error::Error>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_without_options_is_what_the_parser_makes_of_it() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect();
        let Command::Demo(parsed) = Cli::parse_from(["modex", "demo"]).command else { panic!("another subcommand") };
        let Command::Demo(short) = parse(words(&["modex", "demo"])) else { panic!("another subcommand") };
        assert_eq!(short, parsed);
        let Command::Demo(given) = parse(words(&["modex", "demo", "--rounds", "3"])) else {
            panic!("another subcommand")
        };
        assert_eq!(given, demo::DemoOptions { rounds: 3, ..parsed });
    }
}
