use std::os::unix::net::UnixStream;
use std::thread::{scope, yield_now};

use nix::errno::Errno;

use super::*;
use crate::client::FenceDirectives;
use crate::gds::{CompletionNotice, Datastore, Store, StoreOptions};
use crate::proto::frame::{FrameBuffer, FutexWaitMark};
use crate::proto::{Command, Commit, Dialect, Reply, Tag};
use crate::ptl::{Received, Stream, StreamLimits};
use crate::runtime::client::received::ReceivedData;
use crate::runtime::shared::message_codec::{MessageCodec, message_buffer};
use crate::runtime::shared::peer_profile::PeerProfile;
use crate::types::{AsStatus, Key, Kval, Namespace, ProcId, Scope, Status, Value};

const CONNECTION: u32 = 5;
/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(1);

/// The server's side, done by hand: one connection, and the completion table of its namespace.
struct ByHand {
    store: Store,
    stream: Stream,
    inbox: FrameBuffer,
}

fn job() -> Namespace {
    Namespace::new("job").unwrap()
}

/// An admitted client with a slot.
fn with_slot(sleep_time_max: Duration) -> (Link, NamespaceReader, ByHand) {
    let mut store = Store::new(StoreOptions::new("srv.0".to_owned(), "node0"));
    store.register(&job(), &[]).unwrap();
    assert!(store.take_slot(&job(), CONNECTION, 1).unwrap());
    let reader = NamespaceReader::attach(store.handle(&job()).unwrap()).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let [ours, stream] = [ours, theirs].map(|socket| Stream::new(socket, StreamLimits::default()));
    let received = ReceivedData::new("node0".to_owned(), Dialect::OWN);
    let state = LinkState::new(ours, ProcId::new(job(), 0), CONNECTION, PeerProfile::ours(), received);
    let link = Link { sleep_time_max, ..Link::new(state, Clock::start()) };
    (link, reader, ByHand { store, stream, inbox: message_buffer() })
}

impl ByHand {
    /// The next message: its tag and its mark of a sleeping caller.
    fn next(&mut self) -> (Tag, Option<FutexWaitMark>) {
        let mut buffer = [0; 256];
        loop {
            if let Some(frame) = self.inbox.next_frame().unwrap() {
                return (frame.header.tag, FutexWaitMark::of_padding(frame.header.padding));
            }
            match self.stream.receive(&mut buffer).unwrap() {
                Received::Bytes(count) => self.inbox.feed(&buffer[..count]),
                Received::Nothing => yield_now(),
                Received::End => panic!("the client has gone"),
            }
        }
    }

    fn complete_waits(&mut self, tag: Tag, verdict: CompletionStatus) {
        self.store
            .complete_waits(&job(), &[CompletionNotice { connection: CONNECTION, request: tag.0, verdict }])
            .unwrap();
    }

    fn answer(&mut self, tag: Tag, status: Status) {
        let codec = MessageCodec::to_client(Dialect::OWN, 1 << 20, true);
        let bytes = codec.write_reply(tag, &Reply::Status(status), Command::Fence).unwrap();
        self.stream.queue(bytes, None).unwrap();
        self.stream.flush().unwrap();
    }
}

/// A process forked while its progress thread held the lock. The child called `fence` and waited for ever, because no
/// thread could release the lock. The rule: a call of a forked copy ends before it takes the lock.
#[test]
fn calls_of_a_forked_copy_take_no_lock() {
    let (link, reader, _server) = with_slot(LONG);
    let link = Link { fork_mark: Arc::new(ForkMark::of_a_parent()), ..link };
    let _held_at_the_fork = link.state.lock();
    let lost = |command| Err(CallError::Lost { command, reason: LossReason::Forked });
    let commit = commit_call;
    assert_eq!(link.call(commit()), lost(Command::Commit));
    assert_eq!(link.call_both(commit(), fence_call()), (lost(Command::Commit), lost(Command::Fence)));
    let both = link.fence(Some(commit()), fence_call(), Some(&reader));
    assert_eq!(both, (Some(lost(Command::Commit)), lost(Command::Fence)));
}

fn fence_call() -> Call {
    Call::Fence { procs: vec![ProcId::new(job(), 0)], directives: FenceDirectives::default() }
}

fn commit_call() -> Call {
    let entry = Kval { key: Key::new("endpoint").unwrap(), value: Value::from(7_u32) };
    Call::Commit(Commit { parts: vec![(Scope::Global, vec![entry])] })
}

/// A fence with a limit of its sleep, and the server's reaction.
fn fence(
    commit: Option<Call>,
    sleep_time_max: Duration,
    serve: impl FnOnce(&mut ByHand) + Send,
) -> (Option<CallResult>, CallResult) {
    let (link, reader, mut server) = with_slot(sleep_time_max);
    scope(|scope| {
        let caller = scope.spawn(|| link.fence(commit, fence_call(), Some(&reader)));
        serve(&mut server);
        caller.join().unwrap()
    })
}

#[test]
fn a_completion_in_shared_memory_needs_no_message() {
    let (_, fenced) = fence(None, LONG, |server| {
        let (tag, mark) = server.next();
        assert!(!mark.unwrap().has_forerunner && mark.unwrap().has_received(0));
        server.complete_waits(tag, CompletionStatus::Succeeded);
    });
    assert!(fenced.is_ok());
    let (committed, fenced) = fence(Some(commit_call()), LONG, |server| {
        let (commit, mark) = server.next();
        assert!(commit.is_deferred() && mark.is_none());
        let (tag, mark) = server.next();
        assert!(mark.unwrap().has_forerunner);
        server.complete_waits(tag, CompletionStatus::Succeeded);
    });
    assert!(committed.unwrap().is_ok() && fenced.is_ok());
}

#[test]
fn a_failure_is_read() {
    let (_, fenced) = fence(None, LONG, |server| {
        let (tag, _) = server.next();
        server.answer(tag, Status::ERR_TIMEOUT);
        server.complete_waits(tag, CompletionStatus::InMessage);
    });
    assert_eq!(fenced.unwrap_err().status(), Status::ERR_TIMEOUT);
}

/// The end of the last handler woke the callback thread twice: once only to learn that there are no more events to wait
/// for. When many processes end at once, each waits for every wake-up of the others. The rule: no thread is woken
/// without work.
#[test]
fn the_callback_thread_is_not_woken_without_work() {
    let (link, _, _server) = with_slot(LONG);
    link.prepare_progress().unwrap();
    link.listen(true);
    // The state of the thread during its wait for the socket.
    link.with(|state| state.beside = Some(Beside { deadline: None, watches_room: false }));
    link.listen(false);
    let wake = link.watchers.get().unwrap().wake_descriptor();
    assert_eq!(wake.read(), Err(Errno::EAGAIN));
    link.defer(|| {});
    assert_eq!(wake.read(), Ok(1));
}

/// A server without a verdict may have ended, or be about to write one.
#[test]
fn a_client_that_sleeps_too_long_asks_for_a_message() {
    let (_, fenced) = fence(None, SHORT, |server| {
        let (tag, _) = server.next();
        let (awake, mark) = server.next();
        assert_eq!((awake, mark), (Tag::AWAKE, None));
        server.answer(tag, Status::SUCCESS);
    });
    assert!(fenced.is_ok());
}

#[test]
fn the_end_of_the_server_is_seen() {
    let (_, fenced) = fence(None, SHORT, |server| {
        server.next();
        server.stream.shutdown();
    });
    assert_eq!(fenced.unwrap_err().status(), Status::ERR_LOST_CONNECTION);
}

/// The server wrote the verdict, and ended before the client looked.
#[test]
fn a_completion_before_the_end_of_the_server_counts() {
    for commit in [None, Some(commit_call())] {
        let has_commit = commit.is_some();
        let (committed, fenced) = fence(commit, SHORT, |server| {
            if has_commit {
                server.next();
            }
            let (tag, _) = server.next();
            server.next();
            server.complete_waits(tag, CompletionStatus::Succeeded);
            server.stream.shutdown();
        });
        assert!(fenced.is_ok());
        assert_eq!(committed.map(|committed| committed.is_ok()), has_commit.then_some(true));
    }
}

/// A fence to which all processes come late would cost two more messages each time.
#[test]
fn fences_that_take_long_are_awaited_awake() {
    let (link, reader, mut server) = with_slot(SHORT);
    let slept: Vec<bool> = (0..8)
        .map(|_| {
            scope(|scope| {
                let caller = scope.spawn(|| link.fence(None, fence_call(), Some(&reader)));
                let (tag, mark) = server.next();
                if mark.is_some() {
                    assert_eq!(server.next().0, Tag::AWAKE);
                }
                server.answer(tag, Status::SUCCESS);
                assert!(caller.join().unwrap().1.is_ok());
                mark.is_some()
            })
        })
        .collect();
    assert_eq!(slept, [true, true, false, true, false, false, false, true]);
}

#[test]
fn one_thread_sleeps_at_a_time() {
    let (link, reader, mut server) = with_slot(LONG);
    scope(|scope| {
        let callers = [(); 2].map(|()| scope.spawn(|| link.fence(None, fence_call(), Some(&reader))));
        let requests = [server.next(), server.next()];
        assert!(requests[0].1.is_some() && requests[1].1.is_none());
        server.answer(requests[1].0, Status::SUCCESS);
        server.complete_waits(requests[0].0, CompletionStatus::Succeeded);
        assert!(callers.into_iter().all(|caller| caller.join().unwrap().1.is_ok()));
    });
}

/// A verdict about another fence does not answer these commits.
#[test]
fn commits_without_a_sleeping_fence_are_forgotten() {
    let (link, reader, mut server) = with_slot(LONG);
    scope(|scope| {
        let caller = scope.spawn(|| {
            let without_slot = link.fence(Some(commit_call()), fence_call(), None);
            (without_slot, link.fence(None, fence_call(), Some(&reader)))
        });
        let requests = [server.next(), server.next()];
        assert!(requests.iter().all(|(_, mark)| mark.is_none()));
        requests.iter().for_each(|&(tag, _)| server.answer(tag, Status::SUCCESS));
        let (tag, mark) = server.next();
        let sent_bytes = server.stream.sent_bytes();
        assert!(mark.is_some_and(|mark| !mark.has_forerunner && mark.has_received(sent_bytes)));
        server.complete_waits(tag, CompletionStatus::Succeeded);
        let ((committed, fenced), later) = caller.join().unwrap();
        assert!(committed.unwrap().is_ok() && fenced.is_ok() && later.1.is_ok());
    });
}
