//! The server's own service of storage: queries that the host leaves are answered on a thread of their own.
//!
//! A file system may answer late, or never: the server of a network file system may be down. So each request has a thread, and
//! holds up no other one. The number of requests is bounded, and each user has a share.
//!
//! Questions about files are for the server's own user alone: the server looks with its own rights.

use std::sync::Arc;

use nix::unistd::geteuid;
use parking_lot::Mutex;

use super::loop_messages::LoopSender;
use super::service_desk::{ReplyTo, answer};
use crate::runtime::shared::threads::spawn;
use crate::server::{HostReply, UserShares};
use crate::storage::{FILE_KEYS, Storage};
use crate::types::{Query, Status};

/// Requests at a time. One user alone may have half of them.
const REQUESTS_MAX: usize = 64;

/// The service.
pub(super) struct StorageDesk {
    loop_sender: LoopSender,
    hostname: String,
    storage: Storage,
    requests: Arc<Mutex<UserShares>>,
}

impl StorageDesk {
    pub(super) fn new(loop_sender: LoopSender, hostname: String, storage: Storage) -> Self {
        Self { loop_sender, hostname, storage, requests: Arc::default() }
    }

    /// Answers queries of a user.
    pub(super) fn ask(&self, uid: u32, queries: Vec<Query>, reply_to: ReplyTo) {
        let mut keys = queries.iter().flat_map(|query| &query.keys);
        if uid != geteuid().as_raw() && keys.any(|key| FILE_KEYS.iter().any(|known| key.as_bytes() == known.as_bytes()))
        {
            return answer(&self.loop_sender, reply_to, HostReply::Status(Status::ERR_NO_PERMISSIONS));
        }
        let request = Request::begin(&self.requests, uid);
        let Some(request) = request else {
            return answer(&self.loop_sender, reply_to, HostReply::Status(Status::ERR_OUT_OF_RESOURCE));
        };
        // A thread that does not start leaves the receiver here.
        let receiver = Arc::new(Mutex::new(Some(reply_to)));
        let of_thread = Arc::clone(&receiver);
        let (loop_sender, hostname, storage) = (self.loop_sender.clone(), self.hostname.clone(), self.storage.clone());
        let body = move || {
            let info = storage.answer(&queries, &hostname);
            drop(request);
            if let Some(reply_to) = of_thread.lock().take() {
                answer(&loop_sender, reply_to, HostReply::Infos { status: Status::SUCCESS, info });
            }
        };
        if let Err(error) = spawn("modex-storage", body) {
            tracing::warn!(%error, "the server cannot start a thread that looks at storage");
            if let Some(reply_to) = receiver.lock().take() {
                answer(&self.loop_sender, reply_to, HostReply::Status(Status::ERR_OUT_OF_RESOURCE));
            }
        }
    }
}

/// A request without an answer, in the share of its user.
struct Request {
    requests: Arc<Mutex<UserShares>>,
    uid: u32,
}

impl Request {
    fn begin(requests: &Arc<Mutex<UserShares>>, uid: u32) -> Option<Self> {
        let mut shares = requests.lock();
        shares.permit(uid, 1, REQUESTS_MAX).then(|| {
            shares.take(uid, 1);
            Self { requests: Arc::clone(requests), uid }
        })
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.requests.lock().give_back(self.uid, 1);
    }
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
        let desk = StorageDesk::new(loop_sender, "here".to_owned(), storage);
        let own = geteuid().as_raw();
        for key in FILE_KEYS {
            let refused = HostReply::Status(Status::ERR_NO_PERMISSIONS);
            assert_eq!(ask(&desk, own + 1, key).recv(), Ok(refused));
            let nothing = HostReply::Infos { status: Status::SUCCESS, info: Vec::new() };
            assert_eq!(ask(&desk, own, key).recv(), Ok(nothing), "no files are given");
        }
    }

    #[test]
    fn a_dead_file_system_holds_up_neither_lists_nor_other_users() {
        let (loop_sender, _receiver) = LoopSender::new(Waker::new(&Poller::new().unwrap(), Token(0)).unwrap());
        let (alive, dead) = mpsc::channel();
        let mut storage = Storage::default();
        storage.add(Dead(Mutex::new(dead)));
        let desk = StorageDesk::new(loop_sender, "here".to_owned(), storage);
        let waiting: Vec<_> = (0..100).map(|_| ask(&desk, 66, keys::STORAGE_OBJECT_LIMIT.name())).collect();
        let refused = |replies: &mpsc::Receiver<HostReply>| {
            replies.try_recv() == Ok(HostReply::Status(Status::ERR_OUT_OF_RESOURCE))
        };
        assert_eq!(waiting.iter().filter(|replies| refused(replies)).count(), 100 - REQUESTS_MAX / 2);
        let list = ask(&desk, 77, keys::QUERY_STORAGE_LIST.name());
        assert_eq!(value(&list), Value::from("dead"));
        assert_eq!(desk.requests.lock().of(66), REQUESTS_MAX / 2);
        drop(alive);
        waiting.iter().take(REQUESTS_MAX / 2).for_each(|replies| assert_eq!(value(replies), Value::Uint64(7)));
        assert_eq!(desk.requests.lock().sum(), 0);
    }
}
