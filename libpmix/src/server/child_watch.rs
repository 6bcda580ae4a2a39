//! The thread of a job that this tool has started itself: it passes the output on, reaps the processes, and raises the
//! events about their ends.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::sync::{Arc, Weak};

use modex::runtime::spawn_thread;
use modex::types::codes::range::RANGE_PROC_LOCAL;
use modex::types::{Info, Key, Namespace, ProcId, Rank, Status, Value};
use modex::{IofOutput, keys};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::pipe2;
use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::children::{Forked, Job, Source, Spawned, number_of};
use super::state::ServerProcess;
use crate::process;

const PIECE_SIZE_BYTES: usize = 16 * 1024;

/// Waits for the processes on a thread. `keepalive` closes after the last one has ended.
///
/// # Errors
/// The processes have been killed.
pub(super) fn watch(
    process: &Arc<ServerProcess>,
    name: &Namespace,
    spawned: Spawned,
    keepalive: Option<OwnedFd>,
    is_awaited: bool,
) -> io::Result<()> {
    let (stop, reading) = pipe2(OFlag::O_CLOEXEC)?;
    let Spawned { running, sources, inputs } = spawned;
    let job = Job { running, inputs, reading: Some(reading), is_nohup: keepalive.is_none() };
    let forked = Arc::clone(&process.forked);
    let watch = Watch { forked, process: Arc::downgrade(process), name: name.clone(), is_awaited, first_failure: 0 };
    let run = move || {
        watch.run(sources, &stop);
        drop(keepalive);
    };
    process.forked.add(name, job, || spawn_thread("modex-child", run).map(drop))
}

/// Removes a job from the server.
pub(super) fn forget(process: &ServerProcess, job: &Namespace) {
    process.output.forget(job);
    if let Err(error) = process.server().deregister_namespace(job).wait() {
        tracing::warn!(%job, %error, "the job of a tool can't be removed");
    }
}

/// The thread of one job.
struct Watch {
    forked: Arc<Forked>,
    process: Weak<ServerProcess>,
    name: Namespace,
    /// Whether the tool wants to hear of the end of the job, if need be in its default handler.
    is_awaited: bool,
    /// The exit status of the first process that failed.
    first_failure: i32,
}

impl Watch {
    fn run(mut self, mut sources: Vec<Source>, stop: &OwnedFd) {
        let mut buffer = vec![0; PIECE_SIZE_BYTES];
        while !sources.is_empty() {
            let Some(ready) = wait_for_any(&sources, stop) else { break };
            let mut ready = ready.into_iter();
            sources.retain(|source| match source.channel {
                _ if ready.next() != Some(true) => true,
                Some(channel) => self.pass_output(&source.proc, channel, &source.file, &mut buffer),
                None => {
                    self.reap(&source.proc);
                    false
                }
            });
        }
        while let Some(proc) = self.in_job(|job| job.running.0.keys().next().cloned()) {
            self.reap(&proc);
        }
        let status = if self.first_failure == 0 { Status::SUCCESS } else { Status::ERR_JOB_NON_ZERO_TERM };
        let all = ProcId { namespace: self.name.clone(), rank: Rank::Wildcard };
        let of_job = info(keys::JOB_TERM_STATUS.name(), Value::Status(status.to_raw()));
        self.raise(Status::EVENT_JOB_END, all, self.first_failure, Some(of_job));
        if let Some(process) = self.process.upgrade() {
            forget(&process, &self.name);
        }
        self.forked.remove(&self.name);
    }

    fn in_job<R>(&self, act: impl FnOnce(&mut Job) -> Option<R>) -> Option<R> {
        self.forked.in_job(&self.name, act)
    }

    /// Waits for the end of a process.
    fn reap(&mut self, proc: &ProcId) {
        if let Some(number) = self.in_job(|job| job.running.0.get(proc).and_then(number_of)) {
            // A child that the program has reaped is no reason to wait.
            let is_interrupted = |error| error == rustix::io::Errno::INTR;
            while waitid(WaitId::Pid(number), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).is_err_and(is_interrupted)
            {
            }
        }
        self.forked.close_input(proc);
        // Under the lock, so that no signal goes to another process of this number.
        let status = self.in_job(|job| job.running.0.remove(proc).map(|mut child| child.wait()));
        self.forked.announce();
        // A program that reaps all its children hides the status.
        let Some(Ok(status)) = status else { return };
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
        if self.first_failure == 0 {
            self.first_failure = code;
        }
        self.raise(Status::EVENT_PROC_TERMINATED, proc.clone(), code, None);
    }

    /// Raises an event in this process alone. The server inside has handlers of its own, beside those of the
    /// connections.
    fn raise(&self, status: Status, whose: ProcId, code: i32, more: Option<Info>) {
        if self.forked.is_ending() {
            return;
        }
        let Some(process) = self.process.upgrade() else { return };
        let is_for_default = self.is_awaited && status == Status::EVENT_JOB_END;
        let mut infos = vec![
            info(keys::NSPACE.name(), self.name.as_str().into()),
            info(keys::EVENT_AFFECTED_PROC.name(), whose.into()),
            info(keys::EVENT_NON_DEFAULT.name(), (!is_for_default).into()),
            info(keys::EXIT_CODE.name(), Value::Int(code)),
        ];
        infos.extend(more);
        let own = process.server().proc();
        if let Err(error) = process.server().notify_event(status, Some(own), RANGE_PROC_LOCAL, &infos).wait() {
            tracing::warn!(job = %self.name, %error, "the tool does not hear of the end of its job");
        }
        // The connections of a tool share its handlers.
        if let Some(client) = process::read(|state| state.attached.first().cloned()) {
            client.deliver_locally(status, Some(own), &infos);
        }
    }

    /// Passes on a piece of output. Returns whether there may be more.
    fn pass_output(&self, source: &ProcId, channel: u16, mut file: &File, buffer: &mut [u8]) -> bool {
        let count = match file.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return true,
            read => read.unwrap_or(0),
        };
        if let Some(process) = self.process.upgrade() {
            let bytes = buffer.get(..count).unwrap_or_default();
            process.output.deliver(source, channel, bytes, &[]);
            let output = IofOutput { source: source.clone(), channel, bytes: bytes.to_vec(), info: Vec::new() };
            // Tools that have pulled it miss it only if the server ends.
            let _ = process.server().iof_deliver(output).wait();
        }
        count > 0
    }
}

/// Waits until something happens, and says which sources have something to read. `None`: the reading ends.
fn wait_for_any(sources: &[Source], stop: &OwnedFd) -> Option<Vec<bool>> {
    let files = sources.iter().map(|source| source.file.as_fd()).chain([stop.as_fd()]);
    let mut polled: Vec<_> = files.map(|file| PollFd::new(file, PollFlags::POLLIN)).collect();
    loop {
        match poll(&mut polled, PollTimeout::NONE) {
            Err(Errno::EINTR) => {}
            Err(_) => return None,
            Ok(_) => break,
        }
    }
    let mut ready: Vec<bool> =
        polled.iter().map(|file| file.revents().is_some_and(|events| !events.is_empty())).collect();
    if ready.pop() == Some(true) { None } else { Some(ready) }
}

fn info(key: &'static str, value: Value) -> Info {
    Info::new(Key::from_static(key), value)
}
