//! The server's own service of storage: queries that the host leaves are answered on threads of their own.
//!
//! A file system may answer late, or never: the server of a network file system may be down. So a look has a thread
//! until it ends. Threads are bounded, and each user has a share of them. Further requests wait, a bounded number for
//! each user. Root and the server's user may take all.
//!
//! Lists and fixed facts need no look. They have threads of their own, so looks do not hold them up.
//!
//! Questions about files are for the server's own user alone: the server looks with its own rights.

use std::collections::{BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::geteuid;
use parking_lot::{Condvar, Mutex};

use super::loop_messages::LoopSender;
use super::service_desk::{ReplyTo, answer, may_take_all};
use crate::runtime::shared::threads::spawn;
use crate::server::{HostReply, UserShares};
use crate::storage::{FILE_KEYS, Storage};
use crate::types::{Query, Status, Text};

/// The name of threads that look at storage.
pub(super) const THREAD: &str = "modex-storage";

/// Threads for looks at file systems.
const LOOKS_MAX: usize = 64;

/// Threads for lists and fixed facts.
const LISTS_MAX: usize = 4;

/// Requests that wait for threads of one kind.
const WAITING_MAX: usize = 2048;

/// Storage, the most bytes of an answer about it, and whether it takes directives.
pub(super) struct BoundedStorage {
    pub(super) storage: Storage,
    pub(super) bytes_max: usize,
    pub(super) stages_files: bool,
}

/// The service.
pub(super) struct StorageDesk {
    loop_sender: LoopSender,
    hostname: String,
    storage: Storage,
    bytes_max: usize,
    looks: Arc<Threads>,
    lists: Arc<Threads>,
}

impl StorageDesk {
    pub(super) fn new(loop_sender: LoopSender, hostname: String, source: BoundedStorage) -> Self {
        let BoundedStorage { storage, bytes_max, .. } = source;
        let threads = |threads_max| Threads::new(THREAD, threads_max, WAITING_MAX);
        let [looks, lists] = [LOOKS_MAX, LISTS_MAX].map(threads);
        Self { loop_sender, hostname, storage, bytes_max, looks, lists }
    }

    /// Answers queries of a user. Keys that the user may not ask for have no answer, and the status says so.
    pub(super) fn ask(&self, uid: u32, mut queries: Vec<Query>, reply_to: ReplyTo) {
        let mut receiver = Receiver::new(self.loop_sender.clone(), reply_to);
        let is_of_files = |key: &Text| FILE_KEYS.iter().any(|known| key.as_bytes() == known.as_bytes());
        let has_files = queries.iter().flat_map(|query| &query.keys).any(is_of_files);
        let is_refused = has_files && uid != geteuid().as_raw();
        if is_refused {
            queries.iter_mut().for_each(|query| query.keys.retain(|key| !is_of_files(key)));
            queries.retain(|query| !query.keys.is_empty());
        }
        let status = if is_refused { Status::ERR_NO_PERMISSIONS } else { Status::SUCCESS };
        if queries.is_empty() {
            return receiver.answer(HostReply::Infos { status, info: Vec::new() });
        }
        let threads = if Storage::needs_look(&queries) { &self.looks } else { &self.lists };
        let (hostname, storage, bytes_max) = (self.hostname.clone(), self.storage.clone(), self.bytes_max);
        let work = move || {
            receiver.without = Status::ERROR;
            let info = storage.answer(&queries, &hostname, bytes_max);
            receiver.answer(HostReply::Infos { status, info });
        };
        threads.run(uid, LOOK, Box::new(work));
    }
}

/// A receiver that gets an answer in any case: a provider may panic, and a request may get no thread.
pub(super) struct Receiver {
    loop_sender: LoopSender,
    reply_to: Option<ReplyTo>,
    /// The status without an answer.
    without: Status,
}

impl Receiver {
    pub(super) const fn new(loop_sender: LoopSender, reply_to: ReplyTo) -> Self {
        Self { loop_sender, reply_to: Some(reply_to), without: Status::ERR_OUT_OF_RESOURCE }
    }

    pub(super) fn answer(&mut self, reply: HostReply) {
        if let Some(reply_to) = self.reply_to.take() {
            answer(&self.loop_sender, reply_to, reply);
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.answer(HostReply::Status(self.without));
    }
}

/// A request. Its receiver gets an answer if it is dropped.
pub(super) type Work = Box<dyn FnOnce() + Send>;

/// Threads that answer requests, and the requests that wait for them. A thread ends if nothing waits.
pub(super) struct Threads {
    name: &'static str,
    threads_max: usize,
    waiting_max: usize,
    state: Mutex<Requests>,
    /// A request has ended.
    ended: Condvar,
}

#[derive(Default)]
struct Requests {
    /// By user.
    running: UserShares,
    waiting_shares: UserShares,
    /// With the user, and the caller's number.
    waiting: VecDeque<(u32, u64, Work)>,
}

/// Nothing withdraws a look, so it needs no number.
const LOOK: u64 = 0;

impl Threads {
    pub(super) fn new(name: &'static str, threads_max: usize, waiting_max: usize) -> Arc<Self> {
        Arc::new(Self { name, threads_max, waiting_max, state: Mutex::default(), ended: Condvar::new() })
    }

    /// Answers a request of a user, now or after others. One beyond the share is dropped.
    pub(super) fn run(self: &Arc<Self>, uid: u32, number: u64, work: Work) {
        let mut state = self.state.lock();
        if self.may_run(&state.running, uid) {
            state.running.take(uid, 1);
            drop(state);
            return self.start(uid, work);
        }
        if has_share(&state.waiting_shares, uid, self.waiting_max) {
            state.waiting_shares.take(uid, 1);
            return state.waiting.push_back((uid, number, work));
        }
        // The receiver may ask again.
        drop(state);
        drop(work);
    }

    /// Drops the requests with these numbers that still wait.
    pub(super) fn withdraw(&self, numbers: &BTreeSet<u64>) {
        let mut state = self.state.lock();
        let all = std::mem::take(&mut state.waiting);
        let (withdrawn, kept): (VecDeque<_>, _) = all.into_iter().partition(|(_, number, _)| numbers.contains(number));
        state.waiting = kept;
        for (uid, ..) in &withdrawn {
            state.waiting_shares.give_back(*uid, 1);
        }
        drop(state);
        drop(withdrawn);
    }

    /// Waits until no request runs, up to a time.
    pub(super) fn wait_until_idle(&self, time_max: Duration) {
        let mut state = self.state.lock();
        self.ended.wait_while_for(&mut state, |state| state.running.sum() > 0, time_max);
    }

    /// Whether a user has a share of the threads. Root and the server's user have one at least, so others can't hold
    /// them up.
    fn may_run(&self, running: &UserShares, uid: u32) -> bool {
        has_share(running, uid, self.threads_max) || may_take_all(uid) && running.of(uid) == 0
    }

    fn start(self: &Arc<Self>, uid: u32, work: Work) {
        let threads = Arc::clone(self);
        let body = move || {
            let mut next = Some((uid, work));
            while let Some((uid, work)) = next {
                // The panic hook reports a panic, and the receiver has an answer.
                let _ = catch_unwind(AssertUnwindSafe(work));
                next = threads.end(uid);
            }
        };
        if let Err(error) = spawn(self.name, body) {
            tracing::warn!(%error, name = self.name, "the server cannot start a thread for requests");
            let mut state = self.state.lock();
            state.running.give_back(uid, 1);
            // Without a thread nothing ends the wait.
            let is_idle = state.running.sum() == 0;
            let stranded = if is_idle { std::mem::take(&mut *state) } else { Requests::default() };
            drop(state);
            drop(stranded);
        }
    }

    /// Ends a request, and takes the first waiting one whose user has a share.
    fn end(&self, uid: u32) -> Option<(u32, Work)> {
        let mut state = self.state.lock();
        state.running.give_back(uid, 1);
        self.ended.notify_all();
        let at = state.waiting.iter().position(|(uid, ..)| self.may_run(&state.running, *uid))?;
        let (uid, _, work) = state.waiting.remove(at)?;
        state.waiting_shares.give_back(uid, 1);
        state.running.take(uid, 1);
        Some((uid, work))
    }
}

fn has_share(shares: &UserShares, uid: u32, max: usize) -> bool {
    if may_take_all(uid) { shares.sum() < max } else { shares.permit(uid, 1, max) }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::keys;
    use crate::runtime::server::poller::{Poller, Token, Waker};
    use crate::storage::{Provider, StorageSystem, Usage};
    use crate::types::{Info, Text, Value};

    /// A file system whose server is down, until the test has its sender.
    #[derive(Debug)]
    struct Dead(Mutex<mpsc::Receiver<()>>);

    impl Provider for Dead {
        fn systems(&self) -> Vec<StorageSystem> {
            vec![StorageSystem::new("dead")]
        }

        fn usage(&self, _: &StorageSystem) -> Usage {
            // The end of the sender is the answer.
            let _ = self.0.lock().recv();
            Usage { objects_max: Some(7), ..Usage::default() }
        }
    }

    fn bounded(storage: Storage) -> BoundedStorage {
        BoundedStorage { storage, bytes_max: usize::MAX, stages_files: false }
    }

    fn ask(desk: &StorageDesk, uid: u32, key: &str) -> mpsc::Receiver<HostReply> {
        let (sender, replies) = mpsc::channel();
        let reply_to = ReplyTo::Caller(Box::new(move |reply| drop(sender.send(reply))));
        desk.ask(uid, vec![Query { keys: vec![Text::from(key)], qualifiers: Vec::new() }], reply_to);
        replies
    }

    fn value(replies: &mpsc::Receiver<HostReply>) -> Value {
        let HostReply::Infos { info, .. } = replies.recv().unwrap() else { panic!("no infos") };
        let [Info { value, .. }] = &info[..] else { panic!("{info:?}") };
        value.clone()
    }

    /// The server's rights are not those of another user.
    #[test]
    fn another_user_learns_nothing_about_files() {
        let (loop_sender, _receiver) = LoopSender::new(Waker::new(&Poller::new().unwrap(), Token(0)).unwrap());
        let mut storage = Storage::default();
        storage.add(Dead(Mutex::new(mpsc::channel().1)));
        let desk = StorageDesk::new(loop_sender, "here".to_owned(), bounded(storage));
        let own = geteuid().as_raw();
        for key in FILE_KEYS {
            let refused = HostReply::Infos { status: Status::ERR_NO_PERMISSIONS, info: Vec::new() };
            assert_eq!(ask(&desk, own + 1, key).recv(), Ok(refused));
            let nothing = HostReply::Infos { status: Status::SUCCESS, info: Vec::new() };
            assert_eq!(ask(&desk, own, key).recv(), Ok(nothing), "no files are given");
        }
    }

    /// A desk whose provider waits for the end of the sender.
    fn dead() -> (StorageDesk, mpsc::Sender<()>) {
        let (loop_sender, _receiver) = LoopSender::new(Waker::new(&Poller::new().unwrap(), Token(0)).unwrap());
        let (alive, dead) = mpsc::channel();
        let mut storage = Storage::default();
        storage.add(Dead(Mutex::new(dead)));
        (StorageDesk::new(loop_sender, "here".to_owned(), bounded(storage)), alive)
    }

    #[test]
    fn a_dead_file_system_holds_up_neither_lists_nor_other_users() {
        let (desk, alive) = dead();
        let waiting: Vec<_> = (0..100).map(|_| ask(&desk, 66, keys::STORAGE_OBJECT_LIMIT.name())).collect();
        for uid in [66, 77] {
            let list = ask(&desk, uid, keys::QUERY_STORAGE_LIST.name());
            assert_eq!(value(&list), Value::from("dead"));
        }
        let other = ask(&desk, 77, keys::STORAGE_OBJECT_LIMIT.name());
        let looks = |uid| {
            let state = desk.looks.state.lock();
            (state.running.of(uid), state.waiting_shares.of(uid))
        };
        assert_eq!((looks(66), looks(77)), ((LOOKS_MAX / 2, 100 - LOOKS_MAX / 2), (1, 0)));
        drop(alive);
        waiting.iter().chain([&other]).for_each(|replies| assert_eq!(value(replies), Value::Uint64(7)));
        assert_eq!(desk.looks.state.lock().waiting_shares.sum(), 0);
    }

    #[test]
    fn the_waiting_requests_of_a_user_are_bounded() {
        let (desk, alive) = dead();
        let first = LOOKS_MAX / 2 + WAITING_MAX / 2;
        let waiting: Vec<_> = (0..=first).map(|_| ask(&desk, 66, keys::STORAGE_OBJECT_LIMIT.name())).collect();
        assert_eq!(waiting[first].recv(), Ok(HostReply::Status(Status::ERR_OUT_OF_RESOURCE)));
        drop(alive);
        waiting[..first].iter().for_each(|replies| assert_eq!(value(replies), Value::Uint64(7)));
    }

    /// Regression: two other users with a large job each held up the server's own user.
    #[test]
    fn the_servers_user_has_a_thread_of_its_own() {
        let threads = Threads::new("test", 2, 8);
        let (ends, end) = crossbeam::channel::bounded::<()>(0);
        let own = geteuid().as_raw();
        for uid in [66, 77, 88, own] {
            let end = end.clone();
            threads.run(
                uid,
                LOOK,
                Box::new(move || {
                    let _ = end.recv();
                }),
            );
        }
        let running = |uid| threads.state.lock().running.of(uid);
        assert_eq!([66, 77, 88, own].map(running), [1, 1, 0, 1]);
        drop(ends);
        threads.wait_until_idle(Duration::MAX);
    }

    /// A provider with a defect.
    #[derive(Debug)]
    struct Broken;

    impl Provider for Broken {
        fn systems(&self) -> Vec<StorageSystem> {
            panic!("a defect of a provider")
        }
    }

    #[test]
    fn a_panic_of_a_provider_ends_one_request_with_an_error() {
        let (loop_sender, _receiver) = LoopSender::new(Waker::new(&Poller::new().unwrap(), Token(0)).unwrap());
        let mut storage = Storage::default();
        storage.add(Broken);
        let desk = StorageDesk::new(loop_sender, "here".to_owned(), bounded(storage));
        for key in [keys::QUERY_STORAGE_LIST.name(), keys::STORAGE_OBJECT_LIMIT.name()] {
            for _ in 0..3 {
                assert_eq!(ask(&desk, 66, key).recv(), Ok(HostReply::Status(Status::ERROR)));
            }
        }
    }
}
