//! The server's own service for files: processes have files staged, moved and cached, each request on a thread of its
//! own.
//!
//! Requests are for the server's own user alone: the server acts with its own rights. A request ends with its time
//! limit, with its cancellation, and with the last connection of its process. Its thread looks for that between two
//! pieces of a file. One that still waits for a thread ends at once. The end of the server waits a moment for the
//! threads, so that they remove their temporary files. A dead file system holds it up no longer.
//!
//! The requester's job hears of the end by an event, if the request has a code for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use nix::unistd::geteuid;
use parking_lot::Mutex;

use super::loop_messages::{LoopMessage, LoopSender, ResultReceiver};
use super::service_desk::{ReplyTo, answer};
use super::storage_desk::{Receiver, THREAD, Threads};
use crate::events::{Event, is_of_programs};
use crate::keys;
use crate::runtime::shared::clock::Clock;
use crate::server::{HostCall, HostReply, Requester};
use crate::storage::{Directive, FileOrder, OrderResult, Storage};
use crate::types::codes::range::RANGE_CUSTOM;
use crate::types::{Info, Key, ProcId, Rank, Status, Text};

/// Threads for requests about files.
const THREADS_MAX: usize = 16;

/// Requests that wait for a thread.
const WAITING_MAX: usize = 256;

/// Time that the end of the server gives to the threads.
const END_WAIT_MAX: Duration = Duration::from_secs(1);

/// The service.
pub(super) struct FileDesk {
    /// The user of the server, for whom alone it acts.
    uid: u32,
    loop_sender: LoopSender,
    clock: Clock,
    server: ProcId,
    storage: Storage,
    threads: Arc<Threads>,
    open: Arc<OpenRequests>,
    end_wait_max: Duration,
}

/// The requests that have not ended, by number.
#[derive(Default)]
struct OpenRequests(Mutex<(u64, BTreeMap<u64, OpenRequest>)>);

struct OpenRequest {
    proc: ProcId,
    name: Option<Text>,
    end: Arc<AtomicI32>,
}

impl OpenRequests {
    /// Ends requests. The first reason counts. Returns their numbers.
    fn end(&self, is_meant: impl Fn(&OpenRequest) -> bool, status: Status) -> BTreeSet<u64> {
        let requests = self.0.lock();
        let meant = requests.1.iter().filter(|(_, request)| is_meant(request));
        let end = |(number, request): (&u64, &OpenRequest)| {
            let (none, status) = (Status::SUCCESS.to_raw(), status.to_raw());
            let _ = request.end.compare_exchange(none, status, Ordering::Relaxed, Ordering::Relaxed);
            *number
        };
        meant.map(end).collect()
    }
}

/// A place among the open requests, as long as it lives.
struct Place {
    open: Arc<OpenRequests>,
    number: u64,
    end: Arc<AtomicI32>,
}

impl Place {
    fn new(open: &Arc<OpenRequests>, proc: &ProcId, name: Option<&Text>) -> Self {
        let end = Arc::new(AtomicI32::new(Status::SUCCESS.to_raw()));
        let request = OpenRequest { proc: proc.clone(), name: name.cloned(), end: Arc::clone(&end) };
        let mut requests = open.0.lock();
        let number = requests.0;
        requests.0 = number.wrapping_add(1);
        requests.1.insert(number, request);
        Self { open: Arc::clone(open), number, end }
    }

    /// The reason to end.
    fn reason(&self) -> Option<Status> {
        Some(Status::from_raw(self.end.load(Ordering::Relaxed))).filter(|status| *status != Status::SUCCESS)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.0.lock().1.remove(&self.number);
    }
}

impl FileDesk {
    pub(super) fn new(loop_sender: LoopSender, clock: Clock, server: ProcId, storage: Storage) -> Self {
        let threads = Threads::new(THREAD, THREADS_MAX, WAITING_MAX);
        let (uid, open, end_wait_max) = (geteuid().as_raw(), Arc::default(), END_WAIT_MAX);
        Self { uid, loop_sender, clock, server, storage, threads, open, end_wait_max }
    }

    /// Whether a process has the user of this server, which has not changed since its start.
    fn is_own_user(&self, uid: u32) -> bool {
        uid == self.uid && geteuid().as_raw() == self.uid
    }

    /// Handles a request about files.
    pub(super) fn ask(&self, requester: &Requester, has_targets: bool, directives: &[Info], reply_to: ReplyTo) {
        let status = match Directive::read(directives) {
            _ if !self.is_own_user(requester.uid) => Status::ERR_NO_PERMISSIONS,
            // A request about files is not one about processes.
            _ if has_targets => Status::ERR_BAD_PARAM,
            // The event would seem to be the server's own.
            Ok(Directive::Carry(order)) if order.event.is_some_and(|code| !is_of_programs(code)) => {
                Status::ERR_BAD_PARAM
            }
            Ok(Directive::Carry(order)) => return self.carry_out(requester, order, reply_to),
            Ok(Directive::Cancel(name)) => {
                let has_name = |request: &OpenRequest| name.is_none() || request.name == name;
                let is_meant = |request: &OpenRequest| request.proc == requester.proc && has_name(request);
                match self.end(is_meant, Status::ERR_JOB_CANCELED) || name.is_none() {
                    true => Status::SUCCESS,
                    false => Status::ERR_NOT_FOUND,
                }
            }
            Err(status) => status,
        };
        answer(&self.loop_sender, reply_to, HostReply::Infos { status, info: Vec::new() });
    }

    fn carry_out(&self, requester: &Requester, order: FileOrder, reply_to: ReplyTo) {
        let place = Place::new(&self.open, &requester.proc, order.name.as_ref());
        let (clock, storage) = (self.clock, self.storage.clone());
        let deadline = order.timeout.map(|timeout| clock.now() + timeout);
        let number = place.number;
        let mut outcome = Outcome {
            place: Some(place),
            receiver: Receiver::new(self.loop_sender.clone(), reply_to),
            loop_sender: self.loop_sender.clone(),
            server: self.server.clone(),
            requester: requester.proc.clone(),
            name: order.name.clone(),
            event: order.event,
            result: None,
        };
        let work = move || {
            outcome.result = Some(OrderResult::without_files(Status::ERROR));
            let is_late = || deadline.is_some_and(|deadline| clock.now() >= deadline);
            let end = || outcome.reason().or_else(|| is_late().then_some(Status::ERR_TIMEOUT));
            let result = storage.carry_out(&order, &end);
            outcome.result = Some(result);
        };
        self.threads.run(requester.uid, number, Box::new(work));
    }

    /// Ends requests: those that wait now, and those that run after their next piece. Returns whether there was one.
    fn end(&self, is_meant: impl Fn(&OpenRequest) -> bool, status: Status) -> bool {
        let ended = self.open.end(is_meant, status);
        self.threads.withdraw(&ended);
        !ended.is_empty()
    }

    /// Whether a process has open requests.
    pub(super) fn has(&self, proc: &ProcId) -> bool {
        self.open.0.lock().1.values().any(|request| request.proc == *proc)
    }

    /// The last connection of a process has ended.
    pub(super) fn note_end(&self, proc: &ProcId) {
        self.end(|request| request.proc == *proc, Status::ERR_LOST_CONNECTION);
    }
}

/// The end of the server ends all requests.
impl Drop for FileDesk {
    fn drop(&mut self) {
        self.end(|_| true, Status::ERR_SERVER_NOT_AVAIL);
        self.threads.wait_until_idle(self.end_wait_max);
    }
}

/// A result that is told in any case: a provider may panic, and a request may get no thread.
struct Outcome {
    place: Option<Place>,
    receiver: Receiver,
    loop_sender: LoopSender,
    server: ProcId,
    requester: ProcId,
    name: Option<Text>,
    event: Option<Status>,
    /// `None`: it has no thread yet.
    result: Option<OrderResult>,
}

impl Drop for Outcome {
    fn drop(&mut self) {
        let refusal = self.reason().unwrap_or(Status::ERR_OUT_OF_RESOURCE);
        let result = self.result.take().unwrap_or_else(|| OrderResult::without_files(refusal));
        // The process may ask again as soon as it has the answer.
        self.place = None;
        if let Some(status) = self.event {
            let ignored = ResultReceiver::Callback(Box::new(|_| {}));
            let event = HostCall::NotifyEvent(self.event_of(status, &result));
            let _ = self.loop_sender.send(LoopMessage::Call(event, ignored));
        }
        let OrderResult { status, info } = result;
        self.receiver.answer(HostReply::Infos { status, info });
    }
}

impl Outcome {
    /// The reason to end.
    fn reason(&self) -> Option<Status> {
        self.place.as_ref().and_then(Place::reason)
    }

    /// The event for the requester's job.
    fn event_of(&self, status: Status, result: &OrderResult) -> Event {
        let info = |key: &'static str, value: crate::types::Value| Info::new(Key::from_static(key), value);
        let job = ProcId { namespace: self.requester.namespace.clone(), rank: Rank::Wildcard };
        let mut infos = result.of_event(self.name.as_ref());
        infos.push(info(keys::EVENT_NON_DEFAULT.name(), true.into()));
        infos.push(info(keys::EVENT_DO_NOT_CACHE.name(), true.into()));
        infos.push(info(keys::EVENT_CUSTOM_RANGE.name(), job.into()));
        Event { status, source: Some(self.server.clone()), range: RANGE_CUSTOM, info: infos }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    use super::*;
    use crate::events::DEVICE_LOST;
    use crate::runtime::server::poller::{Poller, Token, Waker};
    use crate::storage::{FileError, FileTask, Provider, StorageSystem};
    use crate::types::{Namespace, Value};

    /// Storage that never has read a file. One file has a defect, and one is on a dead file system.
    #[derive(Debug, Default)]
    struct Endless {
        ended: Arc<AtomicUsize>,
        alive: Mutex<Option<mpsc::Receiver<()>>>,
    }

    impl Provider for Endless {
        fn systems(&self) -> Vec<StorageSystem> {
            Vec::new()
        }

        fn carry_out(&self, task: &FileTask<'_>) -> Option<Result<PathBuf, FileError>> {
            assert!(!task.file.ends_with("defect"), "a defect of a provider");
            if task.file.ends_with("dead") {
                // The end of the sender is the answer.
                let _ = self.alive.lock().as_ref().map(mpsc::Receiver::recv);
            }
            loop {
                if let Err(error) = task.check() {
                    self.ended.fetch_add(1, Ordering::SeqCst);
                    return Some(Err(error));
                }
                std::thread::yield_now();
            }
        }
    }

    fn desk() -> FileDesk {
        desk_with(Endless::default())
    }

    fn desk_with(provider: Endless) -> FileDesk {
        let (loop_sender, _receiver) = LoopSender::new(Waker::new(&Poller::new().unwrap(), Token(0)).unwrap());
        let mut storage = Storage::default();
        storage.add(provider);
        FileDesk::new(loop_sender, Clock::start(), proc(9), storage)
    }

    fn proc(rank: u32) -> ProcId {
        ProcId { namespace: Namespace::from_bytes(b"job").unwrap(), rank: Rank::Process(rank) }
    }

    fn info(key: &'static str, value: impl Into<Value>) -> Info {
        Info::new(Key::from_static(key), value)
    }

    fn cache(file: &str, more: &[Info]) -> Vec<Info> {
        [&[info("modex.storage.cache", file)], more].concat()
    }

    fn ask(desk: &FileDesk, rank: u32, uid: u32, directives: &[Info]) -> mpsc::Receiver<HostReply> {
        let (sender, replies) = mpsc::channel();
        let reply_to = ReplyTo::Caller(Box::new(move |reply| drop(sender.send(reply))));
        desk.ask(&Requester { proc: proc(rank), object: 0, uid, gid: 0 }, false, directives, reply_to);
        replies
    }

    fn own(desk: &FileDesk, rank: u32, directives: &[Info]) -> mpsc::Receiver<HostReply> {
        ask(desk, rank, geteuid().as_raw(), directives)
    }

    fn status(replies: &mpsc::Receiver<HostReply>) -> Status {
        let HostReply::Infos { status, .. } = replies.recv().unwrap() else { panic!("no infos") };
        status
    }

    /// The server's rights are not those of another user.
    #[test]
    fn another_user_moves_no_files() {
        let desk = desk();
        for directives in [cache("/a", &[]), vec![info("modex.storage.cancel", true)]] {
            let refused = status(&ask(&desk, 0, geteuid().as_raw() + 1, &directives));
            assert_eq!(refused, Status::ERR_NO_PERMISSIONS);
        }
    }

    /// A requester could have the server say that a process was aborted.
    #[test]
    fn the_event_of_a_request_has_a_code_of_programs() {
        let (desk, base) = (desk(), Status::EXTERNAL_ERR_BASE);
        let refused = HostReply::Infos { status: Status::ERR_BAD_PARAM, info: Vec::new() };
        for code in [Status::ERR_PROC_ABORTED, Status::SUCCESS, Status::EVENT_JOB_END, DEVICE_LOST, base] {
            let directives = cache("/a", &[info("modex.storage.event", Value::Status(code.to_raw()))]);
            assert_eq!(own(&desk, 0, &directives).try_recv().as_ref(), Ok(&refused), "{code}");
        }
        let chosen = own(&desk, 0, &cache("/a", &[info("modex.storage.event", Value::Status(base.to_raw() - 1))]));
        assert_eq!(chosen.try_recv(), Err(mpsc::TryRecvError::Empty));
    }

    #[test]
    fn a_request_ends_with_its_cancellation_its_time_limit_and_its_process() {
        let desk = desk();
        let named = |name| cache("/a", &[info(keys::JOB_CTRL_ID.name(), name)]);
        let [first, second] = ["first", "second"].map(|name| own(&desk, 0, &named(name)));
        let others = own(&desk, 1, &named("first"));
        let cancel = |value: Value| status(&own(&desk, 0, &[info("modex.storage.cancel", value)]));
        assert_eq!(cancel("first".into()), Status::SUCCESS);
        assert_eq!(status(&first), Status::ERR_JOB_CANCELED);
        assert_eq!(cancel("third".into()), Status::ERR_NOT_FOUND);
        for open in [&second, &others] {
            assert_eq!(open.try_recv(), Err(mpsc::TryRecvError::Empty));
        }
        assert_eq!(cancel(true.into()), Status::SUCCESS);
        assert_eq!(status(&second), Status::ERR_JOB_CANCELED);
        assert!(desk.has(&proc(1)));
        desk.note_end(&proc(1));
        assert_eq!(status(&others), Status::ERR_LOST_CONNECTION);
        let late = own(&desk, 0, &cache("/a", &[info(keys::TIMEOUT.name(), 1_u32)]));
        assert_eq!(status(&late), Status::ERR_TIMEOUT);
        let at_end = own(&desk, 0, &cache("/a", &[]));
        drop(desk);
        assert_eq!(status(&at_end), Status::ERR_SERVER_NOT_AVAIL);
    }

    /// It ended when a thread was free.
    #[test]
    fn a_cancelled_request_that_waits_is_answered_at_once() {
        let desk = desk();
        let running: Vec<_> = (0..THREADS_MAX).map(|_| own(&desk, 0, &cache("/a", &[]))).collect();
        let [cancelled, orphan, kept] = [1, 2, 3].map(|rank| own(&desk, rank, &cache("/a", &[])));
        assert_eq!(status(&own(&desk, 1, &[info("modex.storage.cancel", true)])), Status::SUCCESS);
        desk.note_end(&proc(2));
        let ended = |status| {
            let OrderResult { status, info } = OrderResult::without_files(status);
            Ok(HostReply::Infos { status, info })
        };
        assert_eq!(cancelled.try_recv(), ended(Status::ERR_JOB_CANCELED));
        assert_eq!(orphan.try_recv(), ended(Status::ERR_LOST_CONNECTION));
        for open in running.iter().chain([&kept]) {
            assert_eq!(open.try_recv(), Err(mpsc::TryRecvError::Empty));
        }
        assert_eq!([1, 2, 3].map(|rank| desk.has(&proc(rank))), [false, false, true]);
    }

    /// A copy that was still under way left its temporary file.
    #[test]
    fn the_end_of_a_server_stops_its_requests_but_waits_for_no_dead_file_system() {
        let ended = Arc::new(AtomicUsize::new(0));
        let mut desk = desk_with(Endless { ended: Arc::clone(&ended), ..Endless::default() });
        desk.end_wait_max = Duration::from_hours(1);
        let open: Vec<_> = (0..=THREADS_MAX).map(|_| own(&desk, 0, &cache("/a", &[]))).collect();
        drop(desk);
        assert_eq!(ended.load(Ordering::SeqCst), THREADS_MAX, "the last one waited for a thread");
        assert!(open.iter().all(|open| status(open) == Status::ERR_SERVER_NOT_AVAIL));

        let (alive, dead) = mpsc::channel();
        let desk = desk_with(Endless { alive: Mutex::new(Some(dead)), ..Endless::default() });
        let kept = own(&desk, 0, &cache("/dead", &[]));
        drop(desk);
        assert_eq!(kept.try_recv(), Err(mpsc::TryRecvError::Empty));
        drop(alive);
        assert_eq!(status(&kept), Status::ERR_SERVER_NOT_AVAIL);
    }

    #[test]
    fn a_panic_of_a_provider_ends_one_request() {
        let desk = desk();
        for _ in 0..3 {
            assert_eq!(status(&own(&desk, 0, &cache("/defect", &[]))), Status::ERROR);
        }
    }

    #[test]
    fn waiting_requests_are_bounded() {
        let desk = desk();
        let many: Vec<_> = (0..=THREADS_MAX + WAITING_MAX).map(|_| own(&desk, 0, &cache("/a", &[]))).collect();
        let (beyond, within) = many.split_last().unwrap();
        assert_eq!(status(beyond), Status::ERR_OUT_OF_RESOURCE);
        drop(desk);
        assert!(within.iter().all(|open| status(open) == Status::ERR_SERVER_NOT_AVAIL));
    }
}
