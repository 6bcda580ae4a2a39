//! Lost connections, finalization, and servers that are silent.

use super::*;

#[test]
fn a_lost_connection_fails_what_is_outstanding_and_what_comes_later() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, get(1, "k", &[timeout(1)])));
    let _ = call(&mut client, at(0), 2, get(1, "j", &[]));
    let _ = call(&mut client, at(0), 3, fence(&[]));
    let ended = input(&mut client, at(1), ClientInput::Lost(LossReason::EndOfFile));
    assert_eq!(ended.len(), 3);
    for id in 1..=3 {
        assert_eq!(error_of(&ended, id).status(), Status::ERR_LOST_CONNECTION);
    }
    assert_eq!((client.poll_timeout(), client.command_of(tag)), (None, None));
    assert_eq!(error_of(&call(&mut client, at(2), 4, fence(&[])), 4).status(), Status::ERR_LOST_CONNECTION);
    assert_eq!(input(&mut client, at(2), ClientInput::Lost(LossReason::Broken)), []);
}

#[test]
fn finalize_ends_with_the_reply_and_closes() {
    let mut client = client();
    let open = sent_tag(&call(&mut client, at(0), 1, fence(&[])));
    let tag = sent_tag(&call(&mut client, at(0), 2, Call::Finalize));
    // A pending call may still end.
    let ended = input(&mut client, at(0), ClientInput::Reply(open, Reply::Status(Status::SUCCESS)));
    assert_eq!(ended, [ClientOutput::Outdated, done(1, Outcome::Complete)]);
    let ended = input(&mut client, at(1), ClientInput::Reply(tag, Reply::Status(Status::SUCCESS)));
    assert_eq!(ended, [done(2, Outcome::Complete), ClientOutput::Close]);
}

#[test]
fn end_of_file_instead_of_a_finalize_reply_is_success() {
    let mut client = client();
    let _ = call(&mut client, at(0), 1, fence(&[]));
    let _ = call(&mut client, at(0), 2, Call::Finalize);
    let ended = input(&mut client, at(1), ClientInput::Lost(LossReason::EndOfFile));
    assert_eq!(error_of(&ended, 1).status(), Status::ERR_LOST_CONNECTION);
    assert_eq!(ended[1..], [done(2, Outcome::Complete), ClientOutput::Close]);
}

#[test]
fn a_process_that_lost_its_server_can_still_finalize() {
    let mut client = client();
    let _ = input(&mut client, at(0), ClientInput::Lost(LossReason::Broken));
    assert_eq!(call(&mut client, at(0), 1, Call::Finalize), [done(1, Outcome::Complete)]);
    assert_eq!(error_of(&call(&mut client, at(0), 2, fence(&[])), 2), CallError::Finalized { command: Command::Fence });
}

#[test]
fn after_finalize_every_call_is_refused() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, Call::Exchange(Request::Finalize)));
    assert_eq!(error_of(&call(&mut client, at(0), 2, fence(&[])), 2).status(), Status::ERR_INIT);
    let _ = input(&mut client, at(0), ClientInput::Reply(tag, Reply::Status(Status::SUCCESS)));
    for (id, late) in [(3, get(1, "k", &[])), (4, Call::Finalize), (5, Call::Exchange(Request::JobInfo))] {
        assert!(matches!(error_of(&call(&mut client, at(0), id, late), id), CallError::Finalized { .. }));
    }
}

#[test]
fn finalize_waits_for_a_silent_server_for_a_bounded_time() {
    let mut client = client();
    let _ = call(&mut client, at(0), 1, Call::Finalize);
    let due = client.poll_timeout().unwrap();
    assert_eq!(due, at(10_000));
    let ended = input(&mut client, due, ClientInput::Timeout);
    assert_eq!(error_of(&ended, 1).status(), Status::ERR_TIMEOUT);
    assert_eq!(ended.last(), Some(&ClientOutput::Close));
}

#[test]
fn a_silent_server_ends_a_call_after_its_timeout_and_the_grace() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, fence(&[timeout(2)])));
    assert_eq!(client.poll_timeout(), Some(at(3000)));
    assert_eq!(input(&mut client, at(2999), ClientInput::Timeout), []);
    let ended = input(&mut client, at(3000), ClientInput::Timeout);
    assert_eq!(error_of(&ended, 1).status(), Status::ERR_TIMEOUT);
    // The late reply has no call, but its tag is known.
    assert_eq!(client.command_of(tag), Some(Command::Fence));
    assert_eq!(input(&mut client, at(4000), ClientInput::Reply(tag, Reply::Status(Status::SUCCESS))), []);
}

#[test]
fn a_call_without_a_timeout_has_no_deadline() {
    let mut client = client();
    let _ = call(&mut client, at(0), 1, fence(&[timeout(0)]));
    let _ = call(&mut client, at(0), 2, get(1, "k", &[]));
    assert_eq!(client.poll_timeout(), None);
}
