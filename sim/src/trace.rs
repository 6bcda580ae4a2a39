//! The trace of a run: a number for the comparison of two runs and, for people, text.

use std::collections::VecDeque;

use modex::proto::Reply;
use modex::server::{Answer, HostResult, Output};
use modex::types::{Status, Time};

/// The part of a run that is kept besides its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    Nothing,
    /// The last steps, as text.
    Text,
}

/// The steps of a run.
pub(super) struct Trace {
    hash: u64,
    steps: u64,
    lines: Option<VecDeque<String>>,
}

impl Trace {
    pub(super) fn new(keep: Keep) -> Self {
        Self { hash: 0, steps: 0, lines: (keep == Keep::Text).then(VecDeque::new) }
    }

    /// A step begins.
    pub(super) fn step(&mut self, now: Time) {
        self.steps += 1;
        self.words(&[self.steps, now.as_nanos()]);
    }

    pub(super) fn words(&mut self, words: &[u64]) {
        for word in words {
            self.hash = mixed(self.hash ^ word);
        }
    }

    /// Text for people; it costs nothing where nobody reads it.
    pub(super) fn line(&mut self, now: Time, text: impl FnOnce() -> String) {
        let steps = self.steps;
        if let Some(lines) = &mut self.lines {
            if lines.len() >= LINES_MAX {
                lines.pop_front();
            }
            let (seconds, microseconds) = (now.as_nanos() / 1_000_000_000, now.as_nanos() / 1000 % 1_000_000);
            lines.push_back(format!("{steps:6} {seconds:4}.{microseconds:06} {}", text()));
        }
    }

    pub(super) const fn steps(&self) -> u64 {
        self.steps
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default().into()
    }
}

/// The finalizer of splitmix64: every bit of the result depends on every bit of the argument, and none is lost.
const fn mixed(word: u64) -> u64 {
    let word = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// The number of lines that are kept. A run that a person might read keeps all.
const LINES_MAX: usize = 10_000;

/// An output in numbers.
pub(super) fn words_of(output: &Output) -> [u64; 4] {
    match output {
        Output::Admit(peer, slot) => [1, peer.0, u64::from(*slot), 0],
        Output::AdmitTool(peer, slot, _) => [2, peer.0, u64::from(*slot), 0],
        Output::Refuse(peer, _) => [3, peer.0, 0, 0],
        Output::Answer(peer, tag, answer) => [word_of(answer), peer.0, u64::from(tag.0), content_of(answer)],
        Output::Described(_) => [6, 0, 0, 0],
        Output::Forward(peer, _) => [7, peer.0, 0, 0],
        Output::HandOver(_) => [29, 0, 0, 0],
        Output::SendSegment(peer, _) => [8, peer.0, 0, 0],
        Output::WithdrawSegment(peer, _) => [17, peer.0, 0, 0],
        Output::Close(peer, _) => [9, peer.0, 0, 0],
        Output::Upcall(upcall, _) => [10, upcall.0, 0, 0],
        Output::Notify(peer, delivery) => [11, peer.0, words_of_status(delivery.event.status), 0],
        Output::Raise(_) => [12, 0, 0, 0],
        Output::Complete(call, result) => [13, call.0, 0, words_of_result(&result.clone().read())],
        Output::Cleanup(_) => [14, 0, 0, 0],
        Output::Wake(_) => [15, 0, 0, 0],
        Output::WantTopology => [18, 0, 0, 0],
        Output::Unfinished(peer) => [20, peer.0, 0, 0],
        Output::Discard(_) => [21, 0, 0, 0],
        Output::TellRemoval(peer, _) => [25, peer.0, 0, 0],
        Output::Inventories => [27, 0, 0, 0],
        Output::LookAtFile(look, _) => [24, look.peer.0, look.number, 0],
        Output::Look(upcall, ..) => [26, upcall.0, 0, 0],
        Output::Measure(upcall, ..) => [28, upcall.0, 0, 0],
    }
}

/// The number of the kind of an answer.
const fn word_of(answer: &Answer) -> u64 {
    match answer {
        Answer::Reply(_) => 4,
        Answer::JobInfo(_) => 5,
        Answer::Topology(_) => 16,
        Answer::JobData(_) => 19,
        Answer::Queries(_) => 22,
        Answer::Process(_) => 23,
        Answer::Hardware(_) => 28,
    }
}

fn content_of(answer: &Answer) -> u64 {
    match answer {
        Answer::Reply(reply) => words_of_reply(reply),
        Answer::Queries(answers) => words_of_status(answers.status()),
        _ => 0,
    }
}

fn words_of_reply(reply: &Reply) -> u64 {
    let count = |count: usize| (1 << 32) | u64::try_from(count).unwrap_or(0);
    match reply {
        Reply::Data(data) => count(data.iter().map(|of| of.entries.len()).sum()),
        other => words_of_status(status_of(other)),
    }
}

fn words_of_result(result: &HostResult) -> u64 {
    match result {
        HostResult::Status(status) | HostResult::Failed { status, .. } | HostResult::Answers(status, _) => {
            words_of_status(*status)
        }
        HostResult::Entries(entries) => (1 << 32) | u64::try_from(entries.len()).unwrap_or(0),
    }
}

fn words_of_status(status: Status) -> u64 {
    u64::from(status.to_raw().cast_unsigned())
}

/// The status that a reply is or carries.
pub(super) const fn status_of(reply: &Reply) -> Status {
    match reply {
        Reply::Status(status) | Reply::Partial { status, .. } => *status,
        _ => Status::SUCCESS,
    }
}

/// A text that fits into a line.
pub(super) fn brief(what: &impl std::fmt::Debug) -> String {
    let text = format!("{what:?}");
    match text.char_indices().nth(BRIEF_MAX) {
        Some((end, _)) => format!("{} ...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

const BRIEF_MAX: usize = 220;
