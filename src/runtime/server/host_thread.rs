use std::collections::BTreeSet;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crossbeam::channel::Sender;

use crate::server::{ClientConnected, ClientFinalized, DirectModex, HostData, HostResult, Upcall, UpcallId};
use crate::types::{AsStatus, Namespace, ProcId, Rank};

use super::host::{FenceReply, Host, Responder, Taker, call_service};
use super::job_queue::{JobReceiver, JobSender, queue};
use super::loop_messages::{HostResultCallback, LoopSender};
use super::request_quota::{Account, RequestOrigin};
use crate::runtime::shared::events;
use crate::runtime::shared::threads::{become_host_thread, spawn};

/// The thread that calls the host's functions, so that they may call the server and wait for it without stopping its
/// loop.
///
/// The thread ends after this is dropped. It is not joined: a host's function may wait for ever, and the end of the
/// server does not wait for it.
pub(super) struct HostThread {
    loop_sender: LoopSender,
    jobs: JobSender<Lane, HostJob>,
}

/// Work for the thread.
pub(super) enum HostJob {
    /// A function of the host.
    Upcall(UpcallId, Upcall),
    /// The result of a call of the host.
    Complete(HostResultCallback, HostResult<HostData>),
    /// A job, such as event handlers of the host's process.
    Run(events::Job),
}

/// A line of jobs. Jobs with a common lane keep their order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lane {
    /// Work of the host itself.
    Host,
    /// Requests of a process, and events about it.
    Of(Account),
    /// Changes of the events of the environment that this server needs.
    Environment,
    /// Fetches of a job's data. Several processes may wait for one fetch.
    Fetches(Namespace),
}

/// The placement of a job in the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct QueuePlacement {
    /// The user whose turns it takes; `None`: the host.
    pub(super) uid: Option<u32>,
    /// The lanes of the job; empty: the lane of the host.
    pub(super) lanes: BTreeSet<Lane>,
}

impl QueuePlacement {
    /// The placement of a job that a request may have caused, and that may be about a process.
    pub(super) fn new(origin: Option<&RequestOrigin>, about: Option<&ProcId>) -> Self {
        let about = about.map(|proc| Account::Process(proc.clone()));
        let lanes = origin.map(|origin| origin.account.clone()).into_iter().chain(about).map(Lane::Of).collect();
        Self { uid: origin.map(|origin| origin.uid), lanes }
    }

    /// The placement of an upcall.
    pub(super) fn of(upcall: &Upcall, origin: Option<&RequestOrigin>) -> Self {
        match upcall {
            Upcall::ClientConnected(ClientConnected { proc, .. })
            | Upcall::ClientFinalized(ClientFinalized { proc, .. }) => Self::new(origin, Some(proc)),
            Upcall::NotifyEvent(event) => Self::new(origin, event.source.as_ref()),
            Upcall::IofPull(requester, _) => Self::new(origin, Some(&requester.proc)),
            Upcall::RegisterEvents(_) | Upcall::DeregisterEvents(_) => Self::new(origin, None).and(Lane::Environment),
            Upcall::DirectModex(DirectModex { proc, .. }) => {
                let lanes = BTreeSet::from([Lane::Fetches(proc.namespace.clone())]);
                Self { uid: origin.map(|origin| origin.uid), lanes }
            }
            _ => Self::new(origin, None),
        }
    }

    /// Adds a lane.
    pub(super) fn and(mut self, lane: Lane) -> Self {
        self.lanes.insert(lane);
        self
    }
}

impl Lane {
    /// Whether the lane may be about a process, or about processes of a job (the wildcard rank).
    fn concerns(&self, proc: &ProcId) -> bool {
        match self {
            Self::Of(Account::Process(other)) => {
                other == proc || proc.rank == Rank::Wildcard && other.namespace == proc.namespace
            }
            Self::Fetches(namespace) => *namespace == proc.namespace,
            Self::Host | Self::Environment | Self::Of(Account::Tools(_)) => false,
        }
    }
}

impl HostThread {
    /// Starts the thread. It holds `is_alive` until its last job.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn start(host: Arc<dyn Host>, loop_sender: LoopSender, is_alive: Sender<()>) -> io::Result<Self> {
        let (jobs, receiver) = queue();
        let of_thread = loop_sender.clone();
        spawn("modex-host", move || {
            become_host_thread();
            serve(&*host, &of_thread, receiver);
            drop(is_alive);
        })?;
        Ok(Self { loop_sender, jobs })
    }

    /// The thread's way to the server's loop.
    pub(super) const fn loop_sender(&self) -> &LoopSender {
        &self.loop_sender
    }

    /// Runs a job after earlier ones with a common lane.
    pub(super) fn run_at(&self, mut placement: QueuePlacement, job: HostJob) {
        if placement.lanes.is_empty() {
            placement.lanes.insert(Lane::Host);
        }
        self.jobs.send(placement.uid, placement.lanes, job);
    }

    /// Runs the completion of a host's call that ends a process or a job (the wildcard rank). The host may then free
    /// its object of the process, so all upcalls with the object come before.
    pub(super) fn run_behind(&self, ended: &ProcId, job: HostJob) {
        self.jobs.send_behind(|lane| lane.concerns(ended), Lane::Host, job);
    }
}

fn serve(host: &dyn Host, loop_sender: &LoopSender, jobs: JobReceiver<Lane, HostJob>) {
    for job in jobs {
        // A panic fails this one request: its responder is dropped and answers with an error.
        let outcome = catch_unwind(AssertUnwindSafe(|| match job {
            HostJob::Upcall(id, upcall) => dispatch(host, loop_sender, id, upcall),
            HostJob::Complete(callback, result) => callback(result.read()),
            HostJob::Run(job) => job(),
        }));
        if outcome.is_err() {
            tracing::error!("a function of the host panicked; the request it served has failed");
        }
    }
}

fn dispatch(host: &dyn Host, loop_sender: &LoopSender, id: UpcallId, upcall: Upcall) {
    let taker = Taker::Core(id, loop_sender.clone());
    match upcall {
        Upcall::ClientConnected(client) => host.client_connected(client, Responder::new(taker)),
        Upcall::ClientFinalized(client) => host.client_finalized(client, Responder::new(taker)),
        Upcall::Abort(request) => host.abort(request, Responder::new(taker)),
        Upcall::Fence(request) => match request.read() {
            Ok(request) => host.fence(request, Responder::new(taker)),
            Err(error) => {
                tracing::error!(%error, "the data of a fence can't be read; it fails");
                Responder::<FenceReply>::new(taker).fail(error.status());
            }
        },
        Upcall::RegisterEvents(request) => host.register_events(request, Responder::new(taker)),
        Upcall::DeregisterEvents(codes) => host.deregister_events(codes, Responder::new(taker)),
        Upcall::NotifyEvent(event) => host.notify_event(event, Responder::new(taker)),
        Upcall::DirectModex(request) => host.direct_modex(request, Responder::new(taker)),
        Upcall::Service(requester, service) => call_service(host, requester, service, taker),
        Upcall::Connect(request) => host.connect(request, Responder::new(taker)),
        Upcall::Disconnect(request) => host.disconnect(request, Responder::new(taker)),
        Upcall::IofPull(requester, request) => host.iof_pull(requester, request, Responder::new(taker)),
        Upcall::ToolConnected(tool) => host.tool_connected(tool, Responder::new(taker)),
        Upcall::Group(request) => host.group(request, Responder::new(taker)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Event;
    use crate::server::AbortUpcall;
    use crate::types::Status;
    use crate::types::codes::range;

    fn proc(job: &str, rank: u32) -> ProcId {
        ProcId::new(Namespace::new(job).unwrap(), rank)
    }

    fn origin(uid: u32, proc: &ProcId) -> RequestOrigin {
        RequestOrigin { uid, account: Account::Process(proc.clone()), size_bytes: 0 }
    }

    fn abort(requester: &ProcId) -> Upcall {
        let (requester, procs) = (requester.clone(), Vec::new());
        Upcall::Abort(AbortUpcall { requester, object: 0, status: Status::ERROR, message: None, procs })
    }

    fn event(source: &ProcId) -> Event {
        Event { status: Status::GROUP_LEFT, source: Some(source.clone()), range: range::RANGE_GLOBAL, info: Vec::new() }
    }

    /// Aborts, events, fences and group operations had one line to the host, in order of arrival. So one user's fences
    /// waited for all earlier events of another user. Now all upcalls of a request take its user's turns.
    #[test]
    fn a_request_waits_for_few_requests_of_another_user() {
        let (sender, mut receiver) = queue();
        let send = |placement: QueuePlacement, name: &'static str| sender.send(placement.uid, placement.lanes, name);
        for rank in 0..16 {
            let (bob, bobs) = (proc("bob", rank), origin(66, &proc("bob", rank)));
            for _ in 0..100 {
                send(QueuePlacement::of(&abort(&bob), Some(&bobs)), "abort");
                send(QueuePlacement::of(&Upcall::NotifyEvent(event(&bob)), Some(&bobs)), "event");
                send(QueuePlacement::new(Some(&bobs), None).and(Lane::Of(Account::Process(proc("bob", 99)))), "fence");
            }
        }
        assert_eq!(receiver.next(), Some("abort"));
        let (alice, alices) = (proc("alice", 0), origin(1000, &proc("alice", 0)));
        send(QueuePlacement::of(&abort(&alice), Some(&alices)), "alice");
        assert!(receiver.by_ref().position(|name| name == "alice").unwrap() < 20);
    }

    /// All upcalls of one process keep their order, including its part in collective operations and the loss of its
    /// connection. Its user's turns do not change that.
    #[test]
    fn news_of_one_process_keep_their_order() {
        let (sender, receiver) = queue();
        let [bob, other] = [0, 1].map(|rank| proc("bob", rank));
        let [bobs, others] = [&bob, &other].map(|proc| origin(66, proc));
        let mut sent = Vec::new();
        let mut send = |placement: QueuePlacement| {
            sent.push(sent.len());
            sender.send(placement.uid, placement.lanes, sent.len() - 1);
        };
        for _ in 0..5 {
            send(QueuePlacement::of(&Upcall::NotifyEvent(event(&bob)), Some(&bobs)));
            send(QueuePlacement::of(&abort(&bob), Some(&bobs)));
            // A fence of both processes, completed by the other one.
            send(QueuePlacement::new(Some(&others), None).and(Lane::Of(Account::Process(bob.clone()))));
            // The loss of the process, without a request.
            send(QueuePlacement::new(None, Some(&bob)));
        }
        sender.send_behind(|lane| lane.concerns(&proc("bob", 0)), Lane::Host, sent.len());
        drop(sender);
        assert_eq!(receiver.collect::<Vec<_>>(), (0..=20).collect::<Vec<_>>());
    }

    #[test]
    fn the_end_of_a_job_concerns_its_processes_and_fetches() {
        let job = ProcId { rank: Rank::Wildcard, ..proc("bob", 0) };
        let lane = |proc: ProcId| Lane::Of(Account::Process(proc));
        let lanes = [lane(proc("bob", 7)), Lane::Fetches(job.namespace.clone()), lane(proc("alice", 7)), Lane::Host];
        assert_eq!(lanes.clone().map(|lane| lane.concerns(&job)), [true, true, false, false]);
        assert_eq!(lanes.map(|lane| lane.concerns(&proc("bob", 7))), [true, true, false, false]);
    }
}
