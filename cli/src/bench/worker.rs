//! The hidden subcommand behind the scenarios: a process of a job that measures and prints its series as JSON.

use std::io::Write as _;

use clap::{Args, Subcommand};

use super::super::Outcome;
use super::{fence, get, init, put, syscalls};

#[derive(Args, Debug)]
pub(super) struct WorkerBenchOptions {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Hot Gets
    Get(get::GetTask),
    /// Gets between two marks, for a tracer of system calls
    QuietLoop(syscalls::SyscallTask),
    /// Puts and commits
    Put(put::PutTask),
    /// Fences
    Fence(fence::FenceTask),
    /// Connecting and leaving
    Init(init::InitTask),
}

pub(super) fn run(options: &WorkerBenchOptions) -> Outcome {
    let series = match &options.task {
        Task::Get(task) => get::measure(task)?,
        Task::QuietLoop(task) => syscalls::run(task)?,
        Task::Put(task) => put::measure(task)?,
        Task::Fence(task) => fence::measure(task)?,
        Task::Init(task) => init::measure(task)?,
    };
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&series)?)?;
    Ok(0)
}
