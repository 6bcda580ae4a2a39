//! Processes that this tool has started itself, as long as they run.
//!
//! - A process that has not been reaped keeps its number. So a signal reaches no other process.
//! - At its end the tool ends its processes, unless `PMIX_NOHUP` was asked for: SIGTERM, then SIGKILL.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

use modex::types::codes::iof_channel::{FWD_STDERR_CHANNEL, FWD_STDOUT_CHANNEL};
use modex::types::{Namespace, ProcId, Rank};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use parking_lot::{Condvar, Mutex};
use rustix::process::{PidfdFlags, pidfd_open};

use crate::child_input::ChildInput;

/// Signals at the end of the tool, and the time that the processes have after each. `modex run` takes two seconds for
/// its ranks.
const ENDING: [(Signal, Duration); 3] = [
    (Signal::SIGCONT, Duration::ZERO),
    (Signal::SIGTERM, Duration::from_secs(5)),
    (Signal::SIGKILL, Duration::from_secs(1)),
];
/// Time for the rest of the output of ended processes. A descendant may keep the pipe.
const OUTPUT_TIME_MAX: Duration = Duration::from_secs(1);

/// Processes of a job that have just been started, and their pipes.
#[derive(Default)]
pub(super) struct Spawned {
    pub(super) running: Running,
    pub(super) sources: Vec<Source>,
    pub(super) inputs: Inputs,
}

/// Standard inputs that are open.
pub(super) type Inputs = BTreeMap<ProcId, Arc<ChildInput>>;

/// A descriptor that becomes readable when something happens.
pub(super) struct Source {
    pub(super) proc: ProcId,
    /// The channel of an output. `None`: the process itself.
    pub(super) channel: Option<u16>,
    pub(super) file: File,
}

impl Spawned {
    /// # Errors
    /// Its standard input can't be prepared. The process is added.
    pub(super) fn add(&mut self, proc: ProcId, mut child: Child) -> io::Result<()> {
        let input = child.stdin.take().map(|input| ChildInput::new(OwnedFd::from(input)));
        let pipes = [
            (FWD_STDOUT_CHANNEL, child.stdout.take().map(OwnedFd::from)),
            (FWD_STDERR_CHANNEL, child.stderr.take().map(OwnedFd::from)),
        ];
        let outputs = pipes.into_iter().filter_map(|(channel, pipe)| Some((Some(channel), pipe?)));
        // Before Linux 5.3 a process is reaped when its output has ended.
        let end = number_of(&child).and_then(|number| pidfd_open(number, PidfdFlags::empty()).ok());
        let all = outputs.chain(end.map(|end| (None, end)));
        self.sources.extend(all.map(|(channel, file)| Source { proc: proc.clone(), channel, file: File::from(file) }));
        self.running.0.insert(proc.clone(), child);
        if let Some(input) = input.transpose()? {
            self.inputs.insert(proc, Arc::new(input));
        }
        Ok(())
    }
}

/// Processes that have not been reaped.
#[derive(Default)]
pub(super) struct Running(pub(super) BTreeMap<ProcId, Child>);

impl Running {
    /// Signals the processes, and those of their descendants that stayed in their groups.
    fn signal(&self, signal: Signal) {
        for number in self.0.values().filter_map(number_of) {
            // Nobody is left to get it if this fails.
            let _ = killpg(Pid::from_raw(number.as_raw_nonzero().get()), signal);
        }
    }
}

impl Drop for Running {
    /// Nobody will wait for these.
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        for child in self.0.values_mut() {
            // Its status is of no use.
            let _ = child.wait();
        }
    }
}

/// The jobs that this process has started itself.
#[derive(Default)]
pub(super) struct Forked {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

#[derive(Default)]
struct Jobs {
    of_name: BTreeMap<Namespace, Job>,
    /// Whether the tool ends. Nobody hears of the end of the processes any more.
    is_ending: bool,
}

pub(super) struct Job {
    pub(super) running: Running,
    /// The tool pushes to these.
    pub(super) inputs: Inputs,
    /// The output is read as long as this is open.
    pub(super) reading: Option<OwnedFd>,
    /// Whether it outlives the tool.
    pub(super) is_nohup: bool,
}

impl Jobs {
    fn ended_by_tool(&self) -> impl Iterator<Item = &Job> {
        self.of_name.values().filter(|job| !job.is_nohup)
    }
}

impl Forked {
    /// Adds a job whose thread `start` starts. The thread finds its job.
    ///
    /// # Errors
    /// The processes have been killed.
    pub(super) fn add(&self, name: &Namespace, job: Job, start: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut jobs = self.jobs.lock();
        if jobs.is_ending {
            return Err(io::Error::other("the tool has ended"));
        }
        start()?;
        jobs.of_name.insert(name.clone(), job);
        Ok(())
    }

    pub(super) fn in_job<R>(&self, name: &Namespace, act: impl FnOnce(&mut Job) -> Option<R>) -> Option<R> {
        self.jobs.lock().of_name.get_mut(name).and_then(act)
    }

    /// Takes the processes of these jobs out of a list of targets. Returns their inputs that are open.
    pub(super) fn take_inputs(&self, targets: &mut Vec<ProcId>) -> Vec<(ProcId, Arc<ChildInput>)> {
        let jobs = self.jobs.lock();
        let mut inputs = Inputs::new();
        targets.retain(|target| {
            let Some(job) = jobs.of_name.get(&target.namespace) else { return true };
            let found = job.inputs.iter().filter(|(proc, _)| target.rank == Rank::Wildcard || *proc == target);
            inputs.extend(found.map(|(proc, input)| (proc.clone(), Arc::clone(input))));
            false
        });
        inputs.into_iter().collect()
    }

    /// The process gets no more input.
    pub(super) fn close_input(&self, proc: &ProcId) {
        self.in_job(&proc.namespace, |job| job.inputs.remove(proc));
    }

    /// Removes a job that is over.
    pub(super) fn remove(&self, name: &Namespace) {
        self.jobs.lock().of_name.remove(name);
        self.announce();
    }

    /// Announces that a process has been reaped.
    pub(super) fn announce(&self) {
        self.changed.notify_all();
    }

    pub(super) fn is_ending(&self) -> bool {
        self.jobs.lock().is_ending
    }

    /// Ends the processes of all jobs but those that outlive the tool.
    pub(super) fn end(&self) {
        let mut jobs = self.jobs.lock();
        jobs.is_ending = true;
        for (signal, time) in ENDING {
            jobs.ended_by_tool().for_each(|job| job.running.signal(signal));
            let is_running = |jobs: &mut Jobs| jobs.ended_by_tool().any(|job| !job.running.0.is_empty());
            self.changed.wait_while_for(&mut jobs, is_running, time);
        }
        let has_output = |jobs: &mut Jobs| jobs.ended_by_tool().next().is_some();
        self.changed.wait_while_for(&mut jobs, has_output, OUTPUT_TIME_MAX);
        jobs.of_name.values_mut().filter(|job| !job.is_nohup).for_each(|job| job.reading = None);
        self.changed.wait_while_for(&mut jobs, has_output, OUTPUT_TIME_MAX);
    }
}

/// The number by which the system knows it.
pub(super) fn number_of(child: &Child) -> Option<rustix::process::Pid> {
    i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw)
}
