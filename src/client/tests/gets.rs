//! Gets share requests, wait for each other, and see what came meanwhile.

use super::*;

#[test]
fn the_data_of_an_answer_are_received_before_the_call_is_done() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, get(1, "k", &[])));
    let ended = input(&mut client, at(0), Input::Reply(tag, Reply::Data(rank_data(1, "k"))));
    let data = rank_data(1, "k").into();
    assert_eq!(ended, [Output::Received(std::sync::Arc::clone(&data)), done(1, Outcome::Answered(data))]);
}

#[test]
fn data_of_a_narrowed_get_are_not_cached() {
    let mut client = client();
    let hostname = Info::new(Key::from_static(attribute::HOSTNAME), "n1");
    let tag = sent_tag(&call(&mut client, at(0), 1, get(1, "k", &[hostname])));
    let ended = input(&mut client, at(0), Input::Reply(tag, Reply::Data(rank_data(1, "k"))));
    assert_eq!(ended, [done(1, Outcome::Answered(rank_data(1, "k").into()))]);
}

#[test]
fn a_bare_success_to_a_get_says_look_at_the_segment() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, get(1, "k", &[])));
    let ended = input(&mut client, at(0), Input::Reply(tag, Reply::Status(Status::SUCCESS)));
    assert_eq!(ended, [done(1, Outcome::Answered(Vec::new().into()))]);
}

#[test]
fn equal_gets_share_one_request_and_its_answer() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, get(1, "k", &[])));
    assert_eq!(call(&mut client, at(0), 2, get(1, "k", &[])), []);
    let ended = input(&mut client, at(0), Input::Reply(tag, Reply::Status(Status::ERR_NOT_FOUND)));
    assert_eq!(error_of(&ended, 1), error_of(&ended, 2));
}

#[test]
fn another_key_of_the_same_process_waits_and_looks_again() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, get(1, "k", &[])));
    assert_eq!(call(&mut client, at(0), 2, get(1, "j", &[])), []);
    let ended = input(&mut client, at(0), Input::Reply(tag, Reply::Status(Status::ERR_NOT_FOUND)));
    assert_eq!(error_of(&ended, 1).status(), Status::ERR_NOT_FOUND);
    assert_eq!(ended[1..], [done(2, Outcome::LookAgain)]);
    assert_eq!(client.poll_timeout(), None);
}

#[test]
fn gets_of_different_processes_do_not_wait_for_each_other() {
    let mut client = client();
    let first = sent_tag(&call(&mut client, at(0), 1, get(1, "k", &[])));
    let second = sent_tag(&call(&mut client, at(0), 2, get(2, "k", &[])));
    assert_ne!(first, second);
}

// With one request per process and no bound on the wait, a Get for a key that exists would hang for ever behind one
// for a key that is never posted: the server holds the first and never learns of the second.
#[test]
fn a_get_does_not_wait_for_ever_behind_one_that_is_never_answered() {
    let mut client = client();
    let held = sent_tag(&call(&mut client, at(0), 1, get(1, "never", &[])));
    assert_eq!(call(&mut client, at(0), 2, get(1, "there", &[])), []);
    let due = client.poll_timeout().unwrap();
    let tag = sent_tag(&input(&mut client, due, Input::Timeout));
    let ended = input(&mut client, due, Input::Reply(tag, Reply::Data(Vec::new())));
    assert_eq!(ended, [done(2, Outcome::Answered(Vec::new().into()))]);
    assert_eq!(client.command_of(held), Some(Command::Get));
}

#[test]
fn a_get_that_joined_later_has_time_left_when_the_first_runs_out() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, get(1, "k", &[timeout(5)])));
    let _ = call(&mut client, at(4000), 2, get(1, "k", &[timeout(5)]));
    let ended = input(&mut client, at(5000), Input::Reply(tag, Reply::Status(Status::ERR_TIMEOUT)));
    assert_eq!(error_of(&ended, 1).status(), Status::ERR_TIMEOUT);
    assert_eq!(ended[1..], [done(2, Outcome::LookAgain)]);
}

#[test]
fn a_get_that_gave_up_leaves_its_request_to_those_who_joined() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, get(1, "k", &[timeout(1)])));
    let _ = call(&mut client, at(1500), 2, get(1, "k", &[timeout(1)]));
    let ended = input(&mut client, at(2000), Input::Timeout);
    assert_eq!(error_of(&ended, 1).status(), Status::ERR_TIMEOUT);
    assert_eq!(ended.len(), 1);
    let ended = input(&mut client, at(2100), Input::Reply(tag, Reply::Data(Vec::new())));
    assert_eq!(ended, [done(2, Outcome::Answered(Vec::new().into()))]);
}

#[test]
fn a_late_answer_to_nobody_is_still_received() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, get(1, "k", &[timeout(1)])));
    let _ = input(&mut client, at(2000), Input::Timeout);
    let late = input(&mut client, at(2100), Input::Reply(tag, Reply::Data(rank_data(1, "k"))));
    assert_eq!(late, [Output::Received(rank_data(1, "k").into())]);
}

#[test]
fn a_new_segment_wakes_the_gets_held_back_for_its_namespace() {
    let mut client = client();
    let _ = call(&mut client, at(0), 1, get(1, "k", &[]));
    let _ = call(&mut client, at(0), 2, get(1, "j", &[]));
    let other = Namespace::new("other").unwrap();
    assert_eq!(input(&mut client, at(0), Input::SegmentAvailable(other)), []);
    let woken = input(&mut client, at(0), Input::SegmentAvailable(proc(0).namespace));
    assert_eq!(woken, [done(2, Outcome::LookAgain)]);
    assert_eq!((client.calls_in_flight(), client.poll_timeout()), (1, None));
}
