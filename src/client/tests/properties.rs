//! Every call is done exactly once, for all inputs in all orders.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// An input of a client.
#[derive(Clone, Debug)]
enum Step {
    Call(Call),
    /// The server answers one of its requests.
    Answer(prop::sample::Index, AnswerKind),
    /// A reply without a request.
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

/// A client, its clock, and a server that remembers its requests.
struct World {
    client: ClientCore,
    now: Time,
    next_call: u64,
    /// Calls in flight.
    open: BTreeSet<CallId>,
    /// Requests that the server has not answered.
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
                self.input(ClientInput::Call(CallId(self.next_call), call));
            }
            Step::Answer(which, kind) => {
                let tags: Vec<Tag> = self.asked.keys().copied().collect();
                if !tags.is_empty() {
                    self.answer(tags[which.index(tags.len())], kind);
                }
            }
            Step::Stray(tag) if self.client.command_of(Tag(tag)).is_none() => {
                self.client.handle(self.now, ClientInput::Reply(Tag(tag), Reply::Status(Status::SUCCESS)));
                assert_eq!(outputs(&mut self.client), [ClientOutput::Report(Anomaly::UnknownTag(Tag(tag)))]);
            }
            Step::Stray(_) => {}
            Step::Wait(milliseconds) => {
                let end = self.now + Duration::from_millis(milliseconds);
                while let Some(due) = self.client.poll_timeout().filter(|&due| due <= end) {
                    self.now = self.now.max(due);
                    self.input(ClientInput::Timeout);
                    assert_ne!(self.client.poll_timeout(), Some(due), "an expired time limit must not stay due");
                }
                self.now = end;
            }
            Step::SegmentAvailable => self.input(ClientInput::SegmentAvailable(proc(0).namespace)),
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
        self.input(ClientInput::Reply(tag, reply));
    }

    fn lose(&mut self) {
        self.asked.clear();
        self.input(ClientInput::Lost(LossReason::EndOfFile));
    }

    fn input(&mut self, input: ClientInput) {
        self.client.handle(self.now, input);
        self.check_outputs();
    }

    fn check_outputs(&mut self) {
        while let Some(output) = self.client.poll_output() {
            assert!(!self.is_closed || matches!(output, ClientOutput::Done(_, Err(_))), "{output:?} after the close");
            match output {
                ClientOutput::Send(_, Request::DeregisterEvents(_)) => {}
                ClientOutput::Send(tag, request) => {
                    assert_eq!(self.asked.insert(tag, request), None, "tag {tag:?} was in use");
                }
                ClientOutput::Received(data) => self.received.push(data),
                ClientOutput::Done(call, result) => {
                    assert!(self.open.remove(&call), "{call:?} done twice or never made");
                    if let Ok(Outcome::Answered(data)) = result {
                        assert!(data.is_empty() || self.received.contains(&data), "done before received");
                    }
                }
                ClientOutput::Forget(_) | ClientOutput::Outdated => {}
                ClientOutput::Report(anomaly) => panic!("{anomaly:?}"),
                ClientOutput::Close => {
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
