//! Requests, their replies, and the limits of both.

use super::*;
use crate::proto::QueryInfo;

#[test]
fn a_fence_that_fails_names_who_was_missing() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, fence(&[])));
    let status = Status::ERR_PARTIAL_SUCCESS;
    let reply = Reply::Partial { status, results: Box::new(Reply::Procs(vec![proc(1), proc(4)])) };
    let error = error_of(&input(&mut client, at(0), ClientInput::Reply(tag, reply)), 1);
    assert_eq!(error.status(), status);
    assert!(
        error.to_string().ends_with("PMIX_ERR_PARTIAL_SUCCESS (-52): job:1, job:4 left before taking part"),
        "{error}"
    );
}

/// A request that the host does not answer ends with the caller's own time limit.
#[test]
fn a_request_with_a_time_limit_is_given_up_and_its_late_reply_belongs_to_nobody() {
    let mut client = client();
    let request = Request::from(QueryInfo::new(Vec::new()));
    let tag = sent_tag(&call(&mut client, at(0), 1, Call::ExchangeWithin(request, Duration::from_secs(2))));
    assert_eq!(client.poll_timeout(), Some(at(3000)), "a second more than the server has");
    let timed_out = Err(CallError::TimedOut { command: Command::QueryInfo });
    assert_eq!(input(&mut client, at(3000), ClientInput::Timeout), [ClientOutput::Done(CallId(1), timed_out)]);
    assert_eq!(input(&mut client, at(3001), ClientInput::Reply(tag, Reply::Infos(Vec::new()))), []);
}

/// Regression: one value of a wrong type ended the connection, and with it the job.
#[test]
fn a_request_that_can_not_be_sent_ends_alone() {
    let mut client = client();
    let first = sent_tag(&call(&mut client, at(0), 1, fence(&[])));
    let commit = sent_tag(&call(&mut client, at(0), 2, Call::Commit(Commit { parts: Vec::new() })));
    let reason = Unsendable::TooLarge { size_bytes: 20, limit: 16 };
    let error = error_of(&input(&mut client, at(0), ClientInput::NotSent(commit, reason)), 2);
    assert_eq!(error, CallError::NotSendable { command: Command::Commit, reason });
    assert_eq!(error.status(), Status::ERR_INVALID_VAL_LENGTH);
    let asked = sent_tag(&call(&mut client, at(0), 3, get(1, "k", &[])));
    call(&mut client, at(0), 4, get(1, "k", &[]));
    let ended = input(&mut client, at(0), ClientInput::NotSent(asked, Unsendable::NoForm));
    assert_eq!([error_of(&ended, 3), error_of(&ended, 4)].map(|error| error.status()), [Status::ERR_NOT_SUPPORTED; 2]);
    let ended = input(&mut client, at(1), ClientInput::Reply(first, Reply::Status(Status::SUCCESS)));
    assert_eq!(ended, [ClientOutput::Outdated, done(1, Outcome::Complete)]);
}

#[test]
fn data_of_other_jobs_in_a_reply_are_received_before_the_call_is_done() {
    let job = ProcId::new(Namespace::new("other").unwrap(), Rank::Wildcard);
    let entries = vec![Kval { key: Key::from_static("k"), value: Value::Uint32(1) }];
    let (name, data) = (crate::types::Text::from("other"), RankData { proc: job, entries: entries.clone() });
    let spawn = Request::from(crate::proto::Spawn { job: Vec::new(), apps: Vec::new() });
    let connect = Request::Connect(crate::proto::Collective { procs: vec![proc(0)], directives: Vec::new() });
    let group = crate::proto::Group { command: 24, id: None, procs: Vec::new(), directives: Vec::new() };
    let formed = Reply::Group {
        members: Vec::new(),
        context_id: None,
        info: Vec::new(),
        jobs: vec![(name.clone(), entries.clone())],
    };
    let partial = Reply::Partial { status: Status::ERR_PARTIAL_SUCCESS, results: Box::new(formed) };
    let cases = [
        (spawn, Reply::Spawned { namespace: name, entries }),
        (connect, Reply::Data(vec![data.clone()])),
        (Request::GroupConstruct(group), partial),
    ];
    for (request, reply) in cases {
        let mut client = client();
        let tag = sent_tag(&call(&mut client, at(0), 1, Call::Exchange(request)));
        let outputs = input(&mut client, at(1), ClientInput::Reply(tag, reply.clone()));
        let received = ClientOutput::Received(vec![data.clone()].into());
        assert_eq!(outputs, [received, ClientOutput::Done(CallId(1), Ok(Outcome::Reply(reply)))]);
    }
}

#[test]
fn a_fence_of_nobody_in_particular_is_one_of_the_whole_namespace() {
    let mut client = client();
    let sent = call(&mut client, at(0), 1, fence(&[]));
    let [ClientOutput::Send(tag, Request::Fence(fence))] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!(fence.procs, [proc(Rank::Wildcard)]);
    assert_eq!(client.command_of(*tag), Some(Command::Fence));
    let ended = input(&mut client, at(1), ClientInput::Reply(*tag, Reply::Status(Status::SUCCESS)));
    assert_eq!(ended, [ClientOutput::Outdated, done(1, Outcome::Complete)]);
    assert_eq!(client.command_of(*tag), None);
}

#[test]
fn replies_are_matched_by_tag_in_any_order() {
    let mut client = client();
    let first = sent_tag(&call(&mut client, at(0), 1, Call::Commit(Commit { parts: Vec::new() })));
    let second = sent_tag(&call(&mut client, at(0), 2, fence(&[])));
    assert_ne!(first, second);
    let ended = input(&mut client, at(1), ClientInput::Reply(second, Reply::Status(Status::OPERATION_SUCCEEDED)));
    assert_eq!(ended, [ClientOutput::Outdated, done(2, Outcome::Complete)]);
    let ended = input(&mut client, at(1), ClientInput::Reply(first, Reply::Status(Status::SUCCESS)));
    assert_eq!(ended, [done(1, Outcome::Complete)]);
}

#[test]
fn an_unknown_tag_is_reported_and_harms_nobody() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, fence(&[])));
    let stray = Tag(tag.0 + 1);
    assert_eq!(client.command_of(stray), None);
    let reported = input(&mut client, at(0), ClientInput::Reply(stray, Reply::Status(Status::SUCCESS)));
    assert_eq!(reported, [ClientOutput::Report(Anomaly::UnknownTag(stray))]);
    assert_eq!(client.calls_in_flight(), 1);
}

#[test]
fn a_second_reply_is_an_unknown_tag() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, fence(&[])));
    let _ = input(&mut client, at(0), ClientInput::Reply(tag, Reply::Status(Status::SUCCESS)));
    let reported = input(&mut client, at(0), ClientInput::Reply(tag, Reply::Status(Status::SUCCESS)));
    assert_eq!(reported, [ClientOutput::Report(Anomaly::UnknownTag(tag))]);
}

#[test]
fn the_servers_refusal_and_a_wrong_shape_are_errors() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, fence(&[])));
    let ended = input(&mut client, at(0), ClientInput::Reply(tag, Reply::Status(Status::ERR_NOT_SUPPORTED)));
    assert_eq!(error_of(&ended, 1).status(), Status::ERR_NOT_SUPPORTED);
    let tag = sent_tag(&call(&mut client, at(0), 2, fence(&[])));
    let ended = input(&mut client, at(0), ClientInput::Reply(tag, Reply::Data(Vec::new())));
    assert_eq!(error_of(&ended, 2), CallError::WrongReply { command: Command::Fence });
    let tag = sent_tag(&call(&mut client, at(0), 3, get(1, "k", &[])));
    let ended = input(&mut client, at(0), ClientInput::Reply(tag, Reply::IofPulled(1)));
    assert_eq!(error_of(&ended, 3), CallError::WrongReply { command: Command::Get });
}

#[test]
fn an_abort_is_sent_as_it_is() {
    let mut client = client();
    let abort = Abort { status: Status::ERROR, message: None, procs: Vec::new() };
    let sent = call(&mut client, at(0), 1, Call::Abort(abort.clone()));
    assert!(matches!(sent.as_slice(), [ClientOutput::Send(_, Request::Abort(sent))] if *sent == abort));
}

#[test]
fn an_exchange_gives_the_reply_as_it_came() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, Call::Exchange(Request::JobInfo)));
    let reply = Reply::JobInfo { namespace: "job".into(), entries: Vec::new() };
    let ended = input(&mut client, at(0), ClientInput::Reply(tag, reply.clone()));
    assert_eq!(ended, [done(1, Outcome::Reply(reply))]);
}

#[test]
fn a_request_without_reply_is_complete_when_sent() {
    let mut client = client();
    let ended = call(&mut client, at(0), 1, Call::Exchange(Request::DeregisterEvents(Vec::new())));
    assert!(matches!(ended.as_slice(), [ClientOutput::Send(..), last] if *last == done(1, Outcome::Complete)));
    assert_eq!(client.calls_in_flight(), 0);
}

/// Regression: a heartbeat was sent as a request for monitoring, which servers of OpenPMIx do not count. They reported
/// a live process as silent. The rule: a heartbeat is a message with its own tag, without an answer.
#[test]
fn a_heartbeat_is_a_message_of_its_own_without_an_answer() {
    let mut client = client();
    let monitor = Info::new(Key::from_static("pmix.monitor.beat"), true);
    let beat = Request::from(proto::Monitor { monitor, error: Status::SUCCESS, directives: Vec::new() });
    let ended = call(&mut client, at(0), 1, Call::Exchange(beat));
    let answered = done(1, Outcome::Reply(Reply::Infos(Vec::new())));
    assert!(matches!(ended.as_slice(), [ClientOutput::Send(Tag::HEARTBEAT, _), last] if *last == answered));
    assert_eq!(client.calls_in_flight(), 0);
}

#[test]
fn calls_in_flight_are_bounded_also_by_abandoned_requests() {
    let mut client = ClientCore::new(proc(0), ClientConfig { calls_max: 2, ..ClientConfig::default() });
    let _ = call(&mut client, at(0), 1, fence(&[timeout(1)]));
    let _ = call(&mut client, at(0), 2, fence(&[timeout(1)]));
    let refused = error_of(&call(&mut client, at(0), 3, fence(&[])), 3);
    assert_eq!(refused, CallError::TooManyCalls { command: Command::Fence, limit: 2 });
    let _ = input(&mut client, at(2000), ClientInput::Timeout);
    assert_eq!(client.calls_in_flight(), 0);
    assert_eq!(error_of(&call(&mut client, at(2000), 4, fence(&[])), 4).status(), Status::ERR_OUT_OF_RESOURCE);
    // A finalize is accepted at every limit.
    let _ = sent_tag(&call(&mut client, at(2000), 5, Call::Finalize));
}

#[test]
fn gets_that_wait_leave_room_for_other_calls() {
    let mut client = ClientCore::new(proc(0), ClientConfig { calls_max: 2, ..ClientConfig::default() });
    let _ = call(&mut client, at(0), 1, get(1, "a", &[]));
    let _ = call(&mut client, at(0), 2, get(1, "b", &[]));
    let refused = error_of(&call(&mut client, at(0), 3, get(2, "a", &[])), 3);
    assert_eq!(refused, CallError::TooManyCalls { command: Command::Get, limit: 2 });
    let _ = sent_tag(&call(&mut client, at(0), 4, fence(&[])));
    let _ = sent_tag(&call(&mut client, at(0), 5, Call::Exchange(Request::JobInfo)));
    assert_eq!(error_of(&call(&mut client, at(0), 6, fence(&[])), 6).status(), Status::ERR_OUT_OF_RESOURCE);
}

#[test]
fn an_id_in_use_is_reported_and_the_first_call_goes_on() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, fence(&[])));
    let reported = call(&mut client, at(0), 1, get(1, "k", &[]));
    assert_eq!(reported, [ClientOutput::Report(Anomaly::DuplicateCall(CallId(1)))]);
    let ended = input(&mut client, at(0), ClientInput::Reply(tag, Reply::Status(Status::SUCCESS)));
    assert_eq!(ended, [ClientOutput::Outdated, done(1, Outcome::Complete)]);
}

/// A wait for events has no request, but still one end.
#[test]
fn a_wait_for_events_ends_once_by_settlement_timeout_or_lost_connection() {
    let mut client = client();
    let await_for = |seconds: Option<u64>| Call::Await(Command::GroupJoin, seconds.map(Duration::from_secs));
    for (id, time) in [(1, None), (2, Some(5)), (3, Some(5))] {
        assert_eq!(call(&mut client, at(0), id, await_for(time)), []);
    }
    assert_eq!(client.poll_timeout(), Some(at(5000)), "nobody else keeps this time");
    assert_eq!(input(&mut client, at(1), ClientInput::Settle(CallId(2))), [done(2, Outcome::Complete)]);
    assert_eq!(input(&mut client, at(1), ClientInput::Settle(CallId(2))), []);
    let timed_out = Err(CallError::TimedOut { command: Command::GroupJoin });
    assert_eq!(input(&mut client, at(5000), ClientInput::Timeout), [ClientOutput::Done(CallId(3), timed_out)]);
    let lost = CallError::Lost { command: Command::GroupJoin, reason: LossReason::EndOfFile };
    assert_eq!(error_of(&input(&mut client, at(5001), ClientInput::Lost(LossReason::EndOfFile)), 1), lost);
}

/// Regression: the server could not read the request, and reported a caller's mistake as `PMIX_ERR_UNPACK_FAILURE`.
#[test]
fn a_request_that_names_nobody_is_a_mistake_and_is_not_sent() {
    let mut client = client();
    let nobody = ProcId { namespace: Namespace::in_value(b"").unwrap(), ..proc(0) };
    let procs = || vec![proc(0), nobody.clone()];
    let group = || proto::Group { command: 24, id: Some(Text::from("g")), procs: procs(), directives: Vec::new() };
    let collective = || Collective { procs: procs(), directives: Vec::new() };
    let calls = [
        Call::Fence { procs: procs(), directives: FenceDirectives::default() },
        Call::Abort(Abort { status: Status::ERROR, message: None, procs: procs() }),
        Call::Exchange(Request::Connect(collective())),
        Call::Exchange(Request::Disconnect(collective())),
        Call::ExchangeWithin(Request::GroupConstruct(group()), Duration::from_secs(1)),
        Call::Exchange(Request::GroupDestruct(group())),
        Call::Exchange(Request::from(proto::JobControl { targets: procs(), directives: Vec::new() })),
        Call::Exchange(Request::RefreshCache(nobody.clone())),
    ];
    for (id, asked) in (1..).zip(calls) {
        let ended = call(&mut client, at(0), id, asked);
        assert_eq!(ended.len(), 1, "{ended:?}");
        assert_eq!(error_of(&ended, id).status(), Status::ERR_BAD_PARAM);
    }
    assert_eq!(client.calls_in_flight(), 0);
}
