use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::gds::AsStatus;
use crate::proto::{Abort, Command, Commit, Get, RankData, Reply, Request, Tag};
use crate::types::{Info, Key, Kval, Namespace, ProcId, Rank, Status, Time, Value};

fn proc(rank: impl Into<Rank>) -> ProcId {
    ProcId::new(Namespace::new("job").unwrap(), rank)
}

fn client() -> Client {
    Client::new(proc(0), Config::default())
}

fn at(milliseconds: u64) -> Time {
    Time::ZERO + Duration::from_millis(milliseconds)
}

fn call(client: &mut Client, now: Time, id: u64, call: Call) -> Vec<Output> {
    client.handle(now, Input::Call(CallId(id), call));
    outputs(client)
}

fn input(client: &mut Client, now: Time, input: Input) -> Vec<Output> {
    client.handle(now, input);
    outputs(client)
}

fn outputs(client: &mut Client) -> Vec<Output> {
    std::iter::from_fn(|| client.poll_output()).collect()
}

fn fence(infos: &[Info]) -> Call {
    Call::Fence { procs: Vec::new(), directives: FenceDirectives::parse(infos).unwrap() }
}

fn get(rank: u32, key: &'static str, infos: &[Info]) -> Call {
    let directives = GetDirectives::parse(infos).unwrap();
    Call::Get(GetRequest::new(Some(proc(rank)), Some(Key::from_static(key)), directives, &proc(0)).unwrap())
}

fn timeout(seconds: i32) -> Info {
    Info::new(Key::from_static(attribute::TIMEOUT), seconds)
}

fn rank_data(rank: u32, key: &'static str) -> Vec<RankData> {
    vec![RankData { proc: proc(rank), entries: vec![Kval { key: Key::from_static(key), value: Value::Uint32(rank) }] }]
}

#[test]
fn a_fence_that_fails_names_who_was_missing() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, fence(&[])));
    let status = Status::ERR_PARTIAL_SUCCESS;
    let reply = Reply::Partial { status, results: Box::new(Reply::Procs(vec![proc(1), proc(4)])) };
    let error = error_of(&input(&mut client, at(0), Input::Reply(tag, reply)), 1);
    assert_eq!(error.status(), status);
    assert!(
        error.to_string().ends_with("PMIX_ERR_PARTIAL_SUCCESS (-52): job:1, job:4 left before taking part"),
        "{error}"
    );
}

fn sent_tag(outputs: &[Output]) -> Tag {
    match outputs {
        [Output::Send(tag, _)] => *tag,
        other => panic!("not one request: {other:?}"),
    }
}

fn done(id: u64, outcome: Outcome) -> Output {
    Output::Done(CallId(id), Ok(outcome))
}

fn error_of(outputs: &[Output], id: u64) -> CallError {
    let of_call = |output: &Output| match output {
        Output::Done(call, Err(error)) if *call == CallId(id) => Some(error.clone()),
        _ => None,
    };
    outputs.iter().find_map(of_call).unwrap()
}

/// What a host keeps silent about ends with the caller's own limit.
#[test]
fn a_request_with_a_time_limit_is_given_up_and_its_late_reply_belongs_to_nobody() {
    let mut client = client();
    let request = Request::Query(Vec::new());
    let tag = sent_tag(&call(&mut client, at(0), 1, Call::ExchangeWithin(request, Duration::from_secs(2))));
    assert_eq!(client.poll_timeout(), Some(at(3000)), "a second more than the server has");
    let timed_out = Err(CallError::TimedOut { command: Command::Query });
    assert_eq!(input(&mut client, at(3000), Input::Timeout), [Output::Done(CallId(1), timed_out)]);
    assert_eq!(input(&mut client, at(3001), Input::Reply(tag, Reply::Infos(Vec::new()))), []);
}

/// One value of a wrong type ended the connection, and with it the job.
#[test]
fn a_request_that_can_not_be_sent_ends_alone() {
    let mut client = client();
    let first = sent_tag(&call(&mut client, at(0), 1, fence(&[])));
    let commit = sent_tag(&call(&mut client, at(0), 2, Call::Commit(Commit { parts: Vec::new() })));
    let reason = Unsendable::TooLarge { size_bytes: 20, limit: 16 };
    let error = error_of(&input(&mut client, at(0), Input::NotSent(commit, reason)), 2);
    assert_eq!(error, CallError::NotSendable { command: Command::Commit, reason });
    assert_eq!(error.status(), Status::ERR_INVALID_VAL_LENGTH);
    let asked = sent_tag(&call(&mut client, at(0), 3, get(1, "k", &[])));
    call(&mut client, at(0), 4, get(1, "k", &[]));
    let ended = input(&mut client, at(0), Input::NotSent(asked, Unsendable::NoForm));
    assert_eq!([error_of(&ended, 3), error_of(&ended, 4)].map(|error| error.status()), [Status::ERR_NOT_SUPPORTED; 2]);
    let ended = input(&mut client, at(1), Input::Reply(first, Reply::Status(Status::SUCCESS)));
    assert_eq!(ended, [Output::Outdated, done(1, Outcome::Complete)]);
}

#[test]
fn data_of_other_jobs_in_a_reply_are_received_before_the_call_is_done() {
    let job = ProcId::new(Namespace::new("other").unwrap(), Rank::Wildcard);
    let entries = vec![Kval { key: Key::from_static("k"), value: Value::Uint32(1) }];
    let (name, data) = (crate::types::Text::from("other"), RankData { proc: job, entries: entries.clone() });
    let spawn = Request::Spawn(crate::proto::Spawn { job: Vec::new(), apps: Vec::new() });
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
        let outputs = input(&mut client, at(1), Input::Reply(tag, reply.clone()));
        let received = Output::Received(vec![data.clone()].into());
        assert_eq!(outputs, [received, Output::Done(CallId(1), Ok(Outcome::Reply(reply)))]);
    }
}

#[test]
fn a_fence_of_nobody_in_particular_is_one_of_the_whole_namespace() {
    let mut client = client();
    let sent = call(&mut client, at(0), 1, fence(&[]));
    let [Output::Send(tag, Request::Fence(fence))] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!(fence.procs, [proc(Rank::Wildcard)]);
    assert_eq!(client.command_of(*tag), Some(Command::Fence));
    let ended = input(&mut client, at(1), Input::Reply(*tag, Reply::Status(Status::SUCCESS)));
    assert_eq!(ended, [Output::Outdated, done(1, Outcome::Complete)]);
    assert_eq!(client.command_of(*tag), None);
}

#[test]
fn replies_are_matched_by_tag_in_any_order() {
    let mut client = client();
    let first = sent_tag(&call(&mut client, at(0), 1, Call::Commit(Commit { parts: Vec::new() })));
    let second = sent_tag(&call(&mut client, at(0), 2, fence(&[])));
    assert_ne!(first, second);
    let ended = input(&mut client, at(1), Input::Reply(second, Reply::Status(Status::OPERATION_SUCCEEDED)));
    assert_eq!(ended, [Output::Outdated, done(2, Outcome::Complete)]);
    let ended = input(&mut client, at(1), Input::Reply(first, Reply::Status(Status::SUCCESS)));
    assert_eq!(ended, [done(1, Outcome::Complete)]);
}

#[test]
fn an_unknown_tag_is_reported_and_harms_nobody() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, fence(&[])));
    let stray = Tag(tag.0 + 1);
    assert_eq!(client.command_of(stray), None);
    let reported = input(&mut client, at(0), Input::Reply(stray, Reply::Status(Status::SUCCESS)));
    assert_eq!(reported, [Output::Report(Anomaly::UnknownTag(stray))]);
    assert_eq!(client.calls_in_flight(), 1);
}

#[test]
fn a_second_reply_is_an_unknown_tag() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, fence(&[])));
    let _ = input(&mut client, at(0), Input::Reply(tag, Reply::Status(Status::SUCCESS)));
    let reported = input(&mut client, at(0), Input::Reply(tag, Reply::Status(Status::SUCCESS)));
    assert_eq!(reported, [Output::Report(Anomaly::UnknownTag(tag))]);
}

#[test]
fn the_servers_refusal_and_a_wrong_shape_are_errors() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, fence(&[])));
    let ended = input(&mut client, at(0), Input::Reply(tag, Reply::Status(Status::ERR_NOT_SUPPORTED)));
    assert_eq!(error_of(&ended, 1).status(), Status::ERR_NOT_SUPPORTED);
    let tag = sent_tag(&call(&mut client, at(0), 2, fence(&[])));
    let ended = input(&mut client, at(0), Input::Reply(tag, Reply::Data(Vec::new())));
    assert_eq!(error_of(&ended, 2), CallError::WrongReply { command: Command::Fence });
    let tag = sent_tag(&call(&mut client, at(0), 3, get(1, "k", &[])));
    let ended = input(&mut client, at(0), Input::Reply(tag, Reply::IofPulled(1)));
    assert_eq!(error_of(&ended, 3), CallError::WrongReply { command: Command::Get });
}

#[test]
fn an_abort_is_sent_as_it_is() {
    let mut client = client();
    let abort = Abort { status: Status::ERROR, message: None, procs: Vec::new() };
    let sent = call(&mut client, at(0), 1, Call::Abort(abort.clone()));
    assert!(matches!(sent.as_slice(), [Output::Send(_, Request::Abort(sent))] if *sent == abort));
}

#[test]
fn an_exchange_gives_the_reply_as_it_came() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, Call::Exchange(Request::JobInfo)));
    let reply = Reply::JobInfo { namespace: "job".into(), entries: Vec::new() };
    let ended = input(&mut client, at(0), Input::Reply(tag, reply.clone()));
    assert_eq!(ended, [done(1, Outcome::Reply(reply))]);
}

#[test]
fn a_request_without_reply_is_complete_when_sent() {
    let mut client = client();
    let ended = call(&mut client, at(0), 1, Call::Exchange(Request::DeregisterEvents(Vec::new())));
    assert!(matches!(ended.as_slice(), [Output::Send(..), last] if *last == done(1, Outcome::Complete)));
    assert_eq!(client.calls_in_flight(), 0);
}

#[test]
fn a_lost_connection_fails_what_is_outstanding_and_what_comes_later() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, get(1, "k", &[timeout(1)])));
    let _ = call(&mut client, at(0), 2, get(1, "j", &[]));
    let _ = call(&mut client, at(0), 3, fence(&[]));
    let ended = input(&mut client, at(1), Input::Lost(LossReason::EndOfFile));
    assert_eq!(ended.len(), 3);
    for id in 1..=3 {
        assert_eq!(error_of(&ended, id).status(), Status::ERR_LOST_CONNECTION);
    }
    assert_eq!((client.poll_timeout(), client.command_of(tag)), (None, None));
    assert_eq!(error_of(&call(&mut client, at(2), 4, fence(&[])), 4).status(), Status::ERR_LOST_CONNECTION);
    assert_eq!(input(&mut client, at(2), Input::Lost(LossReason::Broken)), []);
}

#[test]
fn finalize_ends_with_the_reply_and_closes() {
    let mut client = client();
    let open = sent_tag(&call(&mut client, at(0), 1, fence(&[])));
    let tag = sent_tag(&call(&mut client, at(0), 2, Call::Finalize));
    // What was under way may still end.
    let ended = input(&mut client, at(0), Input::Reply(open, Reply::Status(Status::SUCCESS)));
    assert_eq!(ended, [Output::Outdated, done(1, Outcome::Complete)]);
    let ended = input(&mut client, at(1), Input::Reply(tag, Reply::Status(Status::SUCCESS)));
    assert_eq!(ended, [done(2, Outcome::Complete), Output::Close]);
}

#[test]
fn end_of_file_instead_of_a_finalize_reply_is_success() {
    let mut client = client();
    let _ = call(&mut client, at(0), 1, fence(&[]));
    let _ = call(&mut client, at(0), 2, Call::Finalize);
    let ended = input(&mut client, at(1), Input::Lost(LossReason::EndOfFile));
    assert_eq!(error_of(&ended, 1).status(), Status::ERR_LOST_CONNECTION);
    assert_eq!(ended[1..], [done(2, Outcome::Complete), Output::Close]);
}

#[test]
fn a_process_that_lost_its_server_can_still_finalize() {
    let mut client = client();
    let _ = input(&mut client, at(0), Input::Lost(LossReason::Broken));
    assert_eq!(call(&mut client, at(0), 1, Call::Finalize), [done(1, Outcome::Complete)]);
    assert_eq!(error_of(&call(&mut client, at(0), 2, fence(&[])), 2), CallError::Finalized { command: Command::Fence });
}

#[test]
fn after_finalize_every_call_is_refused() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, Call::Exchange(Request::Finalize)));
    assert_eq!(error_of(&call(&mut client, at(0), 2, fence(&[])), 2).status(), Status::ERR_INIT);
    let _ = input(&mut client, at(0), Input::Reply(tag, Reply::Status(Status::SUCCESS)));
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
    let ended = input(&mut client, due, Input::Timeout);
    assert_eq!(error_of(&ended, 1).status(), Status::ERR_TIMEOUT);
    assert_eq!(ended.last(), Some(&Output::Close));
}

#[test]
fn a_silent_server_ends_a_call_after_its_timeout_and_the_grace() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, fence(&[timeout(2)])));
    assert_eq!(client.poll_timeout(), Some(at(3000)));
    assert_eq!(input(&mut client, at(2999), Input::Timeout), []);
    let ended = input(&mut client, at(3000), Input::Timeout);
    assert_eq!(error_of(&ended, 1).status(), Status::ERR_TIMEOUT);
    // The late reply belongs to nobody, but is no surprise.
    assert_eq!(client.command_of(tag), Some(Command::Fence));
    assert_eq!(input(&mut client, at(4000), Input::Reply(tag, Reply::Status(Status::SUCCESS))), []);
}

#[test]
fn a_call_without_a_timeout_has_no_deadline() {
    let mut client = client();
    let _ = call(&mut client, at(0), 1, fence(&[timeout(0)]));
    let _ = call(&mut client, at(0), 2, get(1, "k", &[]));
    assert_eq!(client.poll_timeout(), None);
}

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

#[test]
fn calls_in_flight_are_bounded_also_by_abandoned_requests() {
    let mut client = Client::new(proc(0), Config { calls_max: 2, ..Config::default() });
    let _ = call(&mut client, at(0), 1, fence(&[timeout(1)]));
    let _ = call(&mut client, at(0), 2, fence(&[timeout(1)]));
    let refused = error_of(&call(&mut client, at(0), 3, fence(&[])), 3);
    assert_eq!(refused, CallError::TooManyCalls { command: Command::Fence, limit: 2 });
    let _ = input(&mut client, at(2000), Input::Timeout);
    assert_eq!(client.calls_in_flight(), 0);
    assert_eq!(error_of(&call(&mut client, at(2000), 4, fence(&[])), 4).status(), Status::ERR_OUT_OF_RESOURCE);
    // The way out is never barred.
    let _ = sent_tag(&call(&mut client, at(2000), 5, Call::Finalize));
}

#[test]
fn an_id_in_use_is_reported_and_the_first_call_goes_on() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, fence(&[])));
    let reported = call(&mut client, at(0), 1, get(1, "k", &[]));
    assert_eq!(reported, [Output::Report(Anomaly::DuplicateCall(CallId(1)))]);
    let ended = input(&mut client, at(0), Input::Reply(tag, Reply::Status(Status::SUCCESS)));
    assert_eq!(ended, [Output::Outdated, done(1, Outcome::Complete)]);
}

/// What may happen to a client.
#[derive(Clone, Debug)]
enum Step {
    Call(Call),
    /// The server answers one of its requests.
    Answer(prop::sample::Index, AnswerKind),
    /// A reply to nothing.
    Stray(u32),
    Wait(u64),
    SegmentAvailable,
    Lose,
}

#[derive(Clone, Copy, Debug)]
enum AnswerKind {
    Success,
    Error(Status),
    Data,
    WrongShape,
}

fn any_call() -> impl Strategy<Value = Call> {
    let directives = prop_oneof![Just(Vec::new()), (0i32..3).prop_map(|seconds| vec![timeout(seconds)])];
    let key = prop::sample::select(vec!["a", "b", "c"]);
    prop_oneof![
        8 => (0u32..3, key, directives.clone()).prop_map(|(rank, key, infos)| get(rank, key, &infos)),
        2 => directives.prop_map(|infos| fence(&infos)),
        1 => Just(Call::Commit(Commit { parts: Vec::new() })),
        1 => Just(Call::Exchange(Request::JobInfo)),
        1 => Just(Call::Exchange(Request::DeregisterEvents(Vec::new()))),
    ]
}

fn any_answer() -> impl Strategy<Value = AnswerKind> {
    prop_oneof![
        3 => Just(AnswerKind::Success),
        1 => Just(AnswerKind::Error(Status::ERR_NOT_FOUND)),
        1 => Just(AnswerKind::Error(Status::ERR_TIMEOUT)),
        3 => Just(AnswerKind::Data),
        1 => Just(AnswerKind::WrongShape),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        60 => any_call().prop_map(Step::Call),
        40 => (any::<prop::sample::Index>(), any_answer()).prop_map(|(which, kind)| Step::Answer(which, kind)),
        3 => (0u32..200).prop_map(Step::Stray),
        20 => (0u64..1500).prop_map(Step::Wait),
        3 => Just(Step::SegmentAvailable),
        2 => Just(Step::Call(Call::Finalize)),
        1 => Just(Step::Lose),
    ]
}

/// A client, its clock, and a server that remembers what it was asked.
struct World {
    client: Client,
    now: Time,
    next_call: u64,
    /// Calls made and not done.
    open: BTreeSet<CallId>,
    /// Requests the server has not answered.
    asked: BTreeMap<Tag, Request>,
    received: Vec<std::sync::Arc<[RankData]>>,
    is_closed: bool,
}

impl World {
    fn new() -> Self {
        Self {
            client: client(),
            now: at(0),
            next_call: 0,
            open: BTreeSet::new(),
            asked: BTreeMap::new(),
            received: Vec::new(),
            is_closed: false,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Call(call) => {
                self.next_call += 1;
                self.open.insert(CallId(self.next_call));
                self.input(Input::Call(CallId(self.next_call), call));
            }
            Step::Answer(which, kind) => {
                let tags: Vec<Tag> = self.asked.keys().copied().collect();
                if !tags.is_empty() {
                    self.answer(tags[which.index(tags.len())], kind);
                }
            }
            Step::Stray(tag) if self.client.command_of(Tag(tag)).is_none() => {
                self.client.handle(self.now, Input::Reply(Tag(tag), Reply::Status(Status::SUCCESS)));
                assert_eq!(outputs(&mut self.client), [Output::Report(Anomaly::UnknownTag(Tag(tag)))]);
            }
            Step::Stray(_) => {}
            Step::Wait(milliseconds) => {
                let end = self.now + Duration::from_millis(milliseconds);
                while let Some(due) = self.client.poll_timeout().filter(|&due| due <= end) {
                    self.now = self.now.max(due);
                    self.input(Input::Timeout);
                    assert_ne!(self.client.poll_timeout(), Some(due), "an expired time limit must not stay due");
                }
                self.now = end;
            }
            Step::SegmentAvailable => self.input(Input::SegmentAvailable(proc(0).namespace)),
            Step::Lose => self.lose(),
        }
    }

    fn answer(&mut self, tag: Tag, kind: AnswerKind) {
        let request = self.asked.remove(&tag).unwrap();
        assert_eq!(self.client.command_of(tag), Some(request.command()));
        let reply = match (kind, &request) {
            (AnswerKind::Data, Request::Get(Get { proc, .. })) => {
                Reply::Data(rank_data(proc.rank.process().unwrap(), "a"))
            }
            (AnswerKind::Success | AnswerKind::Data, _) => Reply::Status(Status::SUCCESS),
            (AnswerKind::Error(status), _) => Reply::Status(status),
            (AnswerKind::WrongShape, _) => Reply::IofPulled(0),
        };
        self.input(Input::Reply(tag, reply));
    }

    fn lose(&mut self) {
        self.asked.clear();
        self.input(Input::Lost(LossReason::EndOfFile));
    }

    fn input(&mut self, input: Input) {
        self.client.handle(self.now, input);
        self.check_outputs();
    }

    fn check_outputs(&mut self) {
        while let Some(output) = self.client.poll_output() {
            assert!(!self.is_closed || matches!(output, Output::Done(_, Err(_))), "{output:?} after the close");
            match output {
                Output::Send(_, Request::DeregisterEvents(_)) => {}
                Output::Send(tag, request) => {
                    assert_eq!(self.asked.insert(tag, request), None, "tag {tag:?} was in use");
                }
                Output::Received(data) => self.received.push(data),
                Output::Done(call, result) => {
                    assert!(self.open.remove(&call), "{call:?} done twice or never made");
                    if let Ok(Outcome::Answered(data)) = result {
                        assert!(data.is_empty() || self.received.contains(&data), "done before received");
                    }
                }
                Output::Outdated => {}
                Output::Report(anomaly) => panic!("{anomaly:?}"),
                Output::Close => {
                    self.asked.clear();
                    self.is_closed = true;
                }
            }
        }
        assert_eq!(self.client.calls_in_flight(), self.open.len());
    }

    fn assert_nothing_is_left(&self) {
        assert_eq!(self.open, BTreeSet::new());
        assert_eq!(self.client.poll_timeout(), None);
    }
}

proptest! {
    #[test]
    fn every_call_is_done_exactly_once_when_the_connection_ends(
        steps in prop::collection::vec(any_step(), 0..120),
    ) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.lose();
        world.assert_nothing_is_left();
    }

    #[test]
    fn every_call_is_done_exactly_once_when_the_server_answers_all(
        steps in prop::collection::vec(any_step(), 0..120),
        order in prop::collection::vec((any::<prop::sample::Index>(), any_answer()), 256),
    ) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        for (which, kind) in order {
            world.step(Step::Answer(which, kind));
        }
        prop_assert!(world.asked.is_empty());
        world.assert_nothing_is_left();
    }

    #[test]
    fn every_call_with_a_timeout_ends_although_the_server_is_silent(
        calls in prop::collection::vec((0u32..3, prop::sample::select(vec!["a", "b"]), 1i32..5), 1..40),
    ) {
        let mut world = World::new();
        for (rank, key, seconds) in calls {
            world.step(Step::Call(get(rank, key, &[timeout(seconds)])));
        }
        world.step(Step::Wait(60_000));
        world.assert_nothing_is_left();
    }
}

/// What events bring about has no request, and still one end.
#[test]
fn what_events_bring_about_ends_once_by_being_settled_in_time_or_with_the_connection() {
    let mut client = client();
    let await_for = |seconds: Option<u64>| Call::Await(Command::GroupJoin, seconds.map(Duration::from_secs));
    for (id, time) in [(1, None), (2, Some(5)), (3, Some(5))] {
        assert_eq!(call(&mut client, at(0), id, await_for(time)), []);
    }
    assert_eq!(client.poll_timeout(), Some(at(5000)), "nobody else keeps this time");
    assert_eq!(input(&mut client, at(1), Input::Settle(CallId(2))), [done(2, Outcome::Complete)]);
    assert_eq!(input(&mut client, at(1), Input::Settle(CallId(2))), []);
    let timed_out = Err(CallError::TimedOut { command: Command::GroupJoin });
    assert_eq!(input(&mut client, at(5000), Input::Timeout), [Output::Done(CallId(3), timed_out)]);
    let lost = CallError::Lost { command: Command::GroupJoin, reason: LossReason::EndOfFile };
    assert_eq!(error_of(&input(&mut client, at(5001), Input::Lost(LossReason::EndOfFile)), 1), lost);
}
