use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam::channel::Sender;

use crate::server::{HostResult, Upcall, UpcallId};
use crate::types::Namespace;

use super::commands::{Callback, CommandSender};
use super::events;
use super::host::{ClientConnected, ClientFinalized, DirectModex, Host, Responder};
use super::sleeper::{JobReceiver, JobSender, queue};
use super::threads::spawn;

/// Where the host's functions run, so that they may call the server and wait for it without stopping its loop.
///
/// The thread is started by the first job and ends when this is dropped.
pub(super) struct HostThread {
    host: Arc<dyn Host>,
    commands: CommandSender,
    /// Held by the thread as long as it has something to run, and here as long as it may get more.
    is_alive: Sender<()>,
    running: Option<Running>,
}

struct Running {
    jobs: JobSender<Lane, Job>,
    /// Not joined: a host's function may wait for as long as it likes, the end of the server does not wait for it.
    _thread: JoinHandle<()>,
}

/// One thing to run.
pub(super) enum Job {
    /// A function of the host.
    Upcall(UpcallId, Upcall),
    /// The result of one of the host's own calls.
    Complete(Callback, HostResult),
    /// The event handlers of the host's process, or anything else that is to run here.
    Run(events::Job),
}

/// Where jobs wait for each other. What one user asks of the host waits for none of what others ask; the rest keeps its order,
/// because it may be about the same processes.
#[derive(Debug, PartialEq, Eq)]
enum Lane {
    Common,
    /// Requests of this user's processes that are answered to them alone.
    User(u32),
    /// Fetches of this job's data.
    Job(Namespace),
}

impl Lane {
    fn of(job: &Job) -> Self {
        let Job::Upcall(_, upcall) = job else { return Self::Common };
        let requester = match upcall {
            Upcall::DirectModex { proc, .. } => return Self::Job(proc.namespace.clone()),
            Upcall::Publish(request) => &request.requester,
            Upcall::Lookup(request) => &request.requester,
            Upcall::Unpublish(request) => &request.requester,
            Upcall::Spawn(request) => &request.requester,
            Upcall::Query(request) => &request.requester,
            Upcall::Log(request) => &request.requester,
            Upcall::Allocate(request) => &request.requester,
            Upcall::JobControl(request) => &request.requester,
            Upcall::Monitor(request) => &request.requester,
            Upcall::GetCredential(request) => &request.requester,
            Upcall::ValidateCredential(request) => &request.requester,
            Upcall::IofPull(request) => &request.requester,
            Upcall::PushStdin(request) => &request.requester,
            _ => return Self::Common,
        };
        Self::User(requester.uid)
    }
}

impl HostThread {
    pub(super) fn new(host: Arc<dyn Host>, commands: CommandSender, is_alive: Sender<()>) -> Self {
        Self { host, commands, is_alive, running: None }
    }

    /// Where the thread sends what it has done.
    pub(super) const fn commands(&self) -> &CommandSender {
        &self.commands
    }

    /// Runs a job after those given before of its lane.
    ///
    /// # Errors
    /// No thread could be started.
    pub(super) fn run(&mut self, job: Job) -> io::Result<()> {
        let running = match self.running.take() {
            Some(running) => running,
            None => self.start()?,
        };
        let running = self.running.insert(running);
        // The thread outlives its sender: it catches what the host's functions throw.
        running.jobs.send(Lane::of(&job), job);
        Ok(())
    }

    fn start(&self) -> io::Result<Running> {
        let (jobs, receiver) = queue();
        let (host, commands) = (Arc::clone(&self.host), self.commands.clone());
        let is_alive = self.is_alive.clone();
        let thread = spawn("modex-host", move || {
            IS_HOST_THREAD.set(true);
            serve(&*host, &commands, receiver);
            drop(is_alive);
        })?;
        Ok(Running { jobs, _thread: thread })
    }
}

thread_local! {
    static IS_HOST_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Whether the caller is a function of a host, called by its server.
pub(super) fn is_host_thread() -> bool {
    IS_HOST_THREAD.get()
}

fn serve(host: &dyn Host, commands: &CommandSender, jobs: JobReceiver<Lane, Job>) {
    for job in jobs {
        // A panic costs the host this one request, whose responder is dropped on the way and answers with an error.
        let outcome = catch_unwind(AssertUnwindSafe(|| match job {
            Job::Upcall(id, upcall) => dispatch(host, commands, id, upcall),
            Job::Complete(callback, result) => callback(result),
            Job::Run(job) => job(),
        }));
        if outcome.is_err() {
            tracing::error!("a function of the host panicked; the request it served has failed");
        }
    }
}

fn dispatch(host: &dyn Host, commands: &CommandSender, id: UpcallId, upcall: Upcall) {
    let commands = commands.clone();
    match upcall {
        Upcall::ClientConnected { proc, object, directives } => {
            host.client_connected(ClientConnected { proc, object, directives }, Responder::new(id, commands));
        }
        Upcall::ClientFinalized { proc, object } => {
            host.client_finalized(ClientFinalized { proc, object }, Responder::new(id, commands));
        }
        Upcall::Abort(request) => host.abort(request, Responder::new(id, commands)),
        Upcall::Fence(request) => host.fence(request, Responder::new(id, commands)),
        Upcall::RegisterEvents(request) => host.register_events(request, Responder::new(id, commands)),
        Upcall::DeregisterEvents(codes) => host.deregister_events(codes, Responder::new(id, commands)),
        Upcall::NotifyEvent(event) => host.notify_event(event, Responder::new(id, commands)),
        Upcall::DirectModex { proc, directives } => {
            host.direct_modex(DirectModex { proc, directives }, Responder::new(id, commands));
        }
        Upcall::Publish(request) => host.publish(request, Responder::new(id, commands)),
        Upcall::Lookup(request) => host.lookup(request, Responder::new(id, commands)),
        Upcall::Unpublish(request) => host.unpublish(request, Responder::new(id, commands)),
        Upcall::Spawn(request) => host.spawn(request, Responder::new(id, commands)),
        Upcall::Connect(request) => host.connect(request, Responder::new(id, commands)),
        Upcall::Disconnect(request) => host.disconnect(request, Responder::new(id, commands)),
        Upcall::Query(request) => host.query(request, Responder::new(id, commands)),
        Upcall::Log(request) => host.log(request, Responder::new(id, commands)),
        Upcall::Allocate(request) => host.allocate(request, Responder::new(id, commands)),
        Upcall::JobControl(request) => host.job_control(request, Responder::new(id, commands)),
        Upcall::Monitor(request) => host.monitor(request, Responder::new(id, commands)),
        Upcall::GetCredential(request) => host.get_credential(request, Responder::new(id, commands)),
        Upcall::ValidateCredential(request) => host.validate_credential(request, Responder::new(id, commands)),
        Upcall::IofPull(request) => host.iof_pull(request, Responder::new(id, commands)),
        Upcall::PushStdin(request) => host.push_stdin(request, Responder::new(id, commands)),
        Upcall::ToolConnected(tool) => host.tool_connected(tool, Responder::new(id, commands)),
        Upcall::Group(request) => host.group(request, Responder::new(id, commands)),
    }
}
