use std::os::unix::net::UnixStream;

use super::*;
use crate::bfrops::DecodeLimits;
use crate::gds::{CompletionStatus, Store, StoreOptions};
use crate::proto::frame::{self, FutexWaitMark};
use crate::ptl::StreamLimits;
use crate::runtime::shared::message_codec::message_buffer;
use crate::server::IofOutput;
use crate::types::Namespace;

const COMMIT: Tag = Tag(101).deferred();
const FENCE: Tag = Tag(102);

fn job() -> Namespace {
    Namespace::new("job").unwrap()
}

/// An admitted client, and its end of the connection.
fn admitted() -> (Connection, Stream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let credentials = PeerCredentials::of_peer(&ours).unwrap();
    let [ours, theirs] = [ours, theirs].map(|socket| Stream::new(socket, StreamLimits::default()));
    let known = Known {
        codec: MessageCodec::to_client(Dialect::OWN, DecodeLimits::MESSAGE_BYTES_MAX, true),
        expects: Expects::Index,
        wants_refusal: false,
        inbox: message_buffer(),
        open: OpenRequests::default(),
        account: Account::Process(ProcId::new(job(), 0)),
        index: Some(7),
    };
    let poller = Arc::new(Poller::new().unwrap());
    (Connection { stage: Stage::Known(known), ..Connection::new(ours, poller, credentials, false) }, theirs)
}

fn open(connection: &mut Connection, tag: Tag, command: Command) {
    let Stage::Known(known) = &mut connection.stage else { panic!("it was admitted") };
    known.open.open(tag, command, 0).unwrap();
}

/// The tags of the messages that the client can read now.
fn tags_sent(client: &mut Stream) -> Vec<Tag> {
    let (mut inbox, mut buffer) = (message_buffer(), [0; 256]);
    while let Received::Bytes(count) = client.receive(&mut buffer).unwrap() {
        inbox.feed(&buffer[..count]);
    }
    let mut tags = Vec::new();
    while let Some(frame) = inbox.next_frame().unwrap() {
        tags.push(frame.header.tag);
    }
    tags
}

#[test]
fn an_answer_that_may_wait_goes_out_with_the_next_one() {
    let (mut connection, mut client) = admitted();
    let success = Reply::Status(Status::SUCCESS);
    connection.poller.watch(&connection.stream, Token(9)).unwrap();
    open(&mut connection, COMMIT, Command::Commit);
    open(&mut connection, FENCE, Command::Fence);
    connection.reply(COMMIT, &success).unwrap();
    assert!(!connection.flush(usize::MAX).unwrap());
    // The poller must not report room all the time either.
    connection.watch(Token(9)).unwrap();
    assert!(!connection.interest.writable);
    assert_eq!(tags_sent(&mut client), []);
    connection.reply(FENCE, &success).unwrap();
    connection.flush(usize::MAX).unwrap();
    assert_eq!(tags_sent(&mut client), [COMMIT, FENCE]);
}

/// A poller can't leave out the end of a peer. 256 connections with waiting requests filled every turn with their ends.
#[test]
fn an_end_behind_requests_is_reported_once() {
    let (mut connection, client) = admitted();
    let poller = Arc::clone(&connection.poller);
    poller.watch(&connection.stream, Token(9)).unwrap();
    drop(client);
    assert_eq!(poller.wait(None).unwrap().len(), 1);
    connection.end_behind_messages(Dropped::End);
    connection.watch(Token(9)).unwrap();
    assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap(), []);
}

#[test]
fn an_answer_that_nothing_is_to_follow_does_not_wait() {
    let (mut connection, mut client) = admitted();
    let success = Reply::Status(Status::SUCCESS);
    open(&mut connection, COMMIT, Command::Commit);
    connection.reply(COMMIT, &success).unwrap();
    connection.flush(usize::MAX).unwrap();
    assert_eq!(tags_sent(&mut client), [COMMIT]);
    // A reply to another thread of the process takes the waiting one along.
    for (tag, command) in [(COMMIT, Command::Commit), (FENCE, Command::Fence), (Tag(103), Command::Commit)] {
        open(&mut connection, tag, command);
    }
    connection.reply(COMMIT, &success).unwrap();
    connection.reply(Tag(103), &success).unwrap();
    connection.flush(usize::MAX).unwrap();
    assert_eq!(tags_sent(&mut client), [COMMIT, Tag(103)]);
}

/// The process waited in a Get, so it could not send the fence, and the commit's reply waited for ever.
#[test]
fn an_answer_does_not_wait_for_one_to_an_earlier_request() {
    let (mut connection, mut client) = admitted();
    open(&mut connection, Tag(100), Command::Get);
    open(&mut connection, COMMIT, Command::Commit);
    connection.reply(COMMIT, &Reply::Status(Status::SUCCESS)).unwrap();
    connection.flush(usize::MAX).unwrap();
    assert_eq!(tags_sent(&mut client), [COMMIT]);
}

/// A client that has a slot, and has asked for a fence that it awaits at a futex, with a commit before it or not.
fn sleeping(has_commit: bool) -> (Connection, Stream) {
    let (mut connection, client) = admitted();
    connection.assign_slot();
    if has_commit {
        open(&mut connection, COMMIT, Command::Commit);
    }
    await_by_futex(&mut connection, 0, has_commit);
    (connection, client)
}

fn await_by_futex(connection: &mut Connection, received_bytes: u64, has_forerunner: bool) {
    open(connection, FENCE, Command::Fence);
    let mut message = frame::encode(0, FENCE, &[]).unwrap();
    FutexWaitMark::new(received_bytes, has_forerunner).mark(&mut message);
    let mut inbox = message_buffer();
    inbox.feed(&message);
    let padding = inbox.next_frame().unwrap().unwrap().header.padding;
    connection.replies.note(FENCE, Command::Fence, padding);
}

fn awake(connection: &mut Connection, client: &mut Stream) -> Vec<Tag> {
    client.queue(frame::encode(0, Tag::AWAKE, &FENCE.to_bytes()).unwrap(), None).unwrap();
    client.flush().unwrap();
    connection.receive(&mut [0; 256]).unwrap();
    let store = Store::new(StoreOptions::new("server.0", "node0"));
    while connection.has_work() {
        assert!(connection.next_request(PeerId(1), &store).unwrap().is_none());
    }
    connection.flush(usize::MAX).unwrap();
    tags_sent(client)
}

const SUCCESS: Reply = Reply::Status(Status::SUCCESS);

#[test]
fn a_sleeper_is_told_of_a_success_and_gets_no_message() {
    for has_commit in [false, true] {
        let (mut connection, mut client) = sleeping(has_commit);
        if has_commit {
            assert_eq!(connection.reply(COMMIT, &SUCCESS).unwrap(), None);
        }
        assert_eq!(connection.reply(FENCE, &SUCCESS).unwrap(), Some(CompletionStatus::Succeeded));
        connection.flush(usize::MAX).unwrap();
        assert_eq!(tags_sent(&mut client), []);
        // The client woke a moment too early.
        let expected = if has_commit { vec![COMMIT, FENCE] } else { vec![FENCE] };
        assert_eq!(awake(&mut connection, &mut client), expected);
        assert_eq!(awake(&mut connection, &mut client), [], "once");
    }
}

#[test]
fn a_client_that_has_woken_gets_the_message() {
    let (mut connection, mut client) = sleeping(false);
    assert_eq!(awake(&mut connection, &mut client), []);
    assert_eq!(connection.reply(FENCE, &SUCCESS).unwrap(), None);
    connection.flush(usize::MAX).unwrap();
    assert_eq!(tags_sent(&mut client), [FENCE]);
    assert_eq!(awake(&mut connection, &mut client), []);
}

/// Tags are used again. A question about the later request must not be answered for the earlier one.
#[test]
fn a_completion_is_forgotten_with_the_next_request() {
    let (mut connection, mut client) = sleeping(false);
    assert_eq!(connection.reply(FENCE, &SUCCESS).unwrap(), Some(CompletionStatus::Succeeded));
    await_by_futex(&mut connection, 0, false);
    assert_eq!(awake(&mut connection, &mut client), []);
}

#[test]
fn a_sleeper_reads_what_is_no_mere_success() {
    let failure = Reply::Status(Status::ERR_TIMEOUT);
    let (mut connection, mut client) = sleeping(false);
    assert_eq!(connection.reply(FENCE, &failure).unwrap(), Some(CompletionStatus::InMessage));
    connection.flush(usize::MAX).unwrap();
    assert_eq!(tags_sent(&mut client), [FENCE]);
    let (mut connection, mut client) = sleeping(true);
    connection.reply(COMMIT, &failure).unwrap();
    assert_eq!(connection.reply(FENCE, &SUCCESS).unwrap(), Some(CompletionStatus::InMessage));
    connection.flush(usize::MAX).unwrap();
    assert_eq!(tags_sent(&mut client), [COMMIT, FENCE]);
}

/// A segment or event that was sent before the end of a fence must arrive before it.
#[test]
fn a_sleeper_reads_first_what_was_sent_first() {
    let notice = SegmentNotice { namespace: job(), layout_id: 0 };
    let announce = |connection: &mut Connection| connection.send_segment(Tag::SEGMENT, &notice, None).unwrap();
    let (mut connection, mut client) = sleeping(false);
    announce(&mut connection);
    assert_eq!(connection.reply(FENCE, &SUCCESS).unwrap(), Some(CompletionStatus::InMessage));
    connection.flush(usize::MAX).unwrap();
    assert_eq!(tags_sent(&mut client), [Tag::SEGMENT, FENCE]);
    // The message is on its way.
    let (mut connection, mut client) = admitted();
    connection.assign_slot();
    announce(&mut connection);
    connection.flush(usize::MAX).unwrap();
    await_by_futex(&mut connection, 0, false);
    assert_eq!(connection.reply(FENCE, &SUCCESS).unwrap(), Some(CompletionStatus::InMessage));
    connection.flush(usize::MAX).unwrap();
    assert_eq!(tags_sent(&mut client), [Tag::SEGMENT, FENCE]);
    await_by_futex(&mut connection, client.received_bytes(), false);
    assert_eq!(connection.reply(FENCE, &SUCCESS).unwrap(), Some(CompletionStatus::Succeeded));
}

/// Another thread of the process waits for that commit's reply.
#[test]
fn the_commit_of_another_thread_does_not_go_without_saying() {
    let (mut connection, mut client) = sleeping(false);
    open(&mut connection, COMMIT, Command::Commit);
    connection.reply(COMMIT, &SUCCESS).unwrap();
    assert_eq!(connection.reply(FENCE, &SUCCESS).unwrap(), Some(CompletionStatus::InMessage));
    connection.flush(usize::MAX).unwrap();
    assert_eq!(tags_sent(&mut client), [COMMIT, FENCE]);
    // The same holds for an unanswered commit.
    let (mut connection, _client) = sleeping(true);
    assert_eq!(connection.reply(FENCE, &SUCCESS).unwrap(), Some(CompletionStatus::InMessage));
}

#[test]
fn a_peer_without_a_slot_gets_a_message() {
    let (mut connection, mut client) = admitted();
    await_by_futex(&mut connection, 0, false);
    assert_eq!(connection.reply(FENCE, &SUCCESS).unwrap(), None);
    connection.flush(usize::MAX).unwrap();
    assert_eq!(tags_sent(&mut client), [FENCE]);
}

/// The host may have deregistered the process, and the slot must be free for the next one.
#[test]
fn closing_a_connection_frees_its_slot() {
    let (mut connection, _client) = sleeping(false);
    connection.close();
    assert_eq!(connection.free_slot(), Some((job(), 7)));
    assert_eq!(connection.free_slot(), None);
}

/// Output of this size for a connection that has room for 10,000 bytes. Returns the bytes that wait then.
fn wait_for_reader(connection: &mut Connection, size_bytes: usize) -> usize {
    let (source, bytes) = (ProcId::new(job(), 0), vec![b'x'; size_bytes]);
    let output = Arc::new(IofOutput { source, channel: 2, bytes, info: Vec::new() });
    connection.send_output(&Forwarded { reference: 1, output }, 10_000).unwrap();
    connection.stream.queued_bytes()
}

#[test]
fn a_reader_misses_output_until_half_of_its_room_is_free() {
    let (mut connection, _client) = admitted();
    wait_for_reader(&mut connection, 4000);
    let full = wait_for_reader(&mut connection, 4000);
    assert!(full > 8000);
    assert_eq!(wait_for_reader(&mut connection, 4000), full);
    connection.flush(full / 2).unwrap();
    let half = connection.stream.queued_bytes();
    assert!((1..6000).contains(&half), "{half} of {full} bytes");
    assert_eq!(wait_for_reader(&mut connection, 1500), half, "there is room, but less than half of all");
    connection.flush(usize::MAX).unwrap();
    assert!(wait_for_reader(&mut connection, 1500) > 1500);
}

/// One slow reader took the short waits of the host away from all others.
#[test]
fn a_reader_that_has_missed_output_counts_again_when_it_has_read_everything() {
    let (mut connection, _client) = admitted();
    let waiting = wait_for_reader(&mut connection, 9000);
    assert_eq!(connection.unread_output_bytes(), waiting);
    wait_for_reader(&mut connection, 9000);
    assert_eq!(connection.unread_output_bytes(), 0);
    connection.flush(waiting / 2).unwrap();
    wait_for_reader(&mut connection, 10);
    assert_eq!(connection.unread_output_bytes(), 0, "it has read a part");
    connection.flush(usize::MAX).unwrap();
    let waiting = wait_for_reader(&mut connection, 10);
    assert_eq!(connection.unread_output_bytes(), waiting);
}

/// The end was dropped like data, and a slow reader waited for it for ever.
#[test]
fn the_end_of_an_output_has_no_bound() {
    let (mut connection, mut client) = admitted();
    for bytes in [&b"first"[..], b"missed", b""] {
        let (source, bytes) = (ProcId::new(job(), 0), bytes.to_vec());
        let output = Arc::new(IofOutput { source, channel: 2, bytes, info: Vec::new() });
        connection.send_output(&Forwarded { reference: 1, output }, 1).unwrap();
    }
    connection.flush(usize::MAX).unwrap();
    assert_eq!(tags_sent(&mut client).len(), 2);
}

/// Regression: a refused connection whose turn to be written came when the turn's budget was spent stayed open for
/// ever.
#[test]
fn a_closing_connection_ends_without_a_budget_unless_something_is_queued() {
    let (mut connection, _client) = admitted();
    connection.admit(7, None, &ProcId::new(job(), 0)).unwrap();
    connection.close();
    assert!(!connection.flush(0).unwrap(), "its last message is not written yet");
    assert!(connection.flush(1 << 20).unwrap());
    let (mut refused, _client) = admitted();
    refused.close();
    assert!(refused.flush(0).unwrap());
}
