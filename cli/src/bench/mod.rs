//! `modex bench`: the cost of the operations on this machine.
//!
//! ```text
//!  scenario (get, put, ...) --> node: a server and one job --> workers: processes that measure
//!        |                                                          |
//!        +-- figures <-- percentiles <-- series of samples <--------+
//!               |
//!               +--> table, JSON, plot, comparison
//! ```
//!
//! Processes are this very program, started through the hidden `worker` subcommand. A sample of an operation that is
//! too short for the clock is the mean of a batch. Nothing is ever asserted here: figures are for people.

mod comparison;
mod fence;
mod figure;
mod get;
mod init;
mod launch;
mod measure;
mod mpi;
mod node;
mod output;
mod peer;
mod plot;
mod probe;
mod progress;
mod put;
mod ranks;
mod register;
mod shape;
mod syscalls;
mod worker;

use clap::{Args, Subcommand};
pub(crate) use launch::NOTHING;
pub(super) use progress::progress;

use super::Outcome;

#[derive(Args, Debug)]
pub(super) struct BenchOptions {
    #[command(subcommand)]
    scenario: Scenario,
}

#[derive(Debug, Subcommand)]
#[command(after_help = output::HELP)]
enum Scenario {
    /// Hot Gets of a job key and of a peer's fenced values, beside a hash probe in the first-level cache
    Get(get::GetBenchOptions),
    /// Puts, and commits of one and of many values
    Put(put::PutBenchOptions),
    /// Fences without data, with data, and whole rounds of put, commit, fence
    Fence(fence::FenceBenchOptions),
    /// Connecting and leaving, for the first time and again
    Init(init::InitBenchOptions),
    /// Registering jobs of growing size, bytes for each rank, and attaching to them
    Register(register::RegisterBenchOptions),
    /// `modex run` of the demo, beside the same run of programs that do nothing
    Launch(launch::LaunchBenchOptions),
    /// A program of yours under `modex run`: wall clock, phases of the start, and the share of PMIx
    Mpi(mpi::MpiBenchOptions),
    /// A process that measures (started by the others)
    #[command(hide = true)]
    Worker(worker::WorkerBenchOptions),
}

pub(super) fn run(options: &BenchOptions) -> Outcome {
    match &options.scenario {
        Scenario::Get(options) => get::run(options),
        Scenario::Put(options) => put::run(options),
        Scenario::Fence(options) => fence::run(options),
        Scenario::Init(options) => init::run(options),
        Scenario::Register(options) => register::run(options),
        Scenario::Launch(options) => launch::run(options),
        Scenario::Mpi(options) => mpi::run(options),
        Scenario::Worker(options) => worker::run(options),
    }
}
