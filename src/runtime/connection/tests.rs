use std::os::unix::net::UnixStream;

use super::super::lines::message_buffer;
use super::*;
use crate::bfrops::DecodeLimits;
use crate::ptl::StreamLimits;

const COMMIT: Tag = Tag(101).patient();
const FENCE: Tag = Tag(102);

/// A client that was admitted, and its end of the connection.
fn admitted() -> (Connection, Stream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let credentials = Credentials::of_peer(&ours).unwrap();
    let [ours, theirs] = [ours, theirs].map(|socket| Stream::new(socket, StreamLimits::default()));
    let known = Known {
        lines: Lines::to_client(Dialect::OWN, DecodeLimits::MESSAGE_BYTES_MAX, true),
        expects: Expects::Index,
        wants_refusal: false,
        inbox: message_buffer(),
        open: OpenRequests::default(),
        account: Account::Tools(0),
    };
    (Connection { stage: Stage::Known(known), ..Connection::new(ours, credentials, false) }, theirs)
}

fn open(connection: &mut Connection, tag: Tag, command: Command) {
    let Stage::Known(known) = &mut connection.stage else { panic!("it was admitted") };
    known.open.open(tag, command, 0).unwrap();
}

/// The tags of what the client can read now.
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
    let poller = Poller::new().unwrap();
    poller.watch(&connection.stream, Token(9)).unwrap();
    open(&mut connection, COMMIT, Command::Commit);
    open(&mut connection, FENCE, Command::Fence);
    connection.reply(COMMIT, &success).unwrap();
    assert!(!connection.flush().unwrap());
    // Nor does the poller report room all the time.
    connection.watch(&poller, Token(9)).unwrap();
    assert!(!connection.is_write_watched);
    assert_eq!(tags_sent(&mut client), []);
    connection.reply(FENCE, &success).unwrap();
    connection.flush().unwrap();
    assert_eq!(tags_sent(&mut client), [COMMIT, FENCE]);
}

#[test]
fn an_answer_that_nothing_is_to_follow_does_not_wait() {
    let (mut connection, mut client) = admitted();
    let success = Reply::Status(Status::SUCCESS);
    open(&mut connection, COMMIT, Command::Commit);
    connection.reply(COMMIT, &success).unwrap();
    connection.flush().unwrap();
    assert_eq!(tags_sent(&mut client), [COMMIT]);
    // What somebody else of the process asked for takes it along.
    for (tag, command) in [(COMMIT, Command::Commit), (FENCE, Command::Fence), (Tag(103), Command::Commit)] {
        open(&mut connection, tag, command);
    }
    connection.reply(COMMIT, &success).unwrap();
    connection.reply(Tag(103), &success).unwrap();
    connection.flush().unwrap();
    assert_eq!(tags_sent(&mut client), [COMMIT, Tag(103)]);
}

/// The fence could not be sent, and a Get before it was held for ever.
#[test]
fn an_answer_does_not_wait_for_one_to_an_earlier_request() {
    let (mut connection, mut client) = admitted();
    open(&mut connection, Tag(100), Command::Get);
    open(&mut connection, COMMIT, Command::Commit);
    connection.reply(COMMIT, &Reply::Status(Status::SUCCESS)).unwrap();
    connection.flush().unwrap();
    assert_eq!(tags_sent(&mut client), [COMMIT]);
}
