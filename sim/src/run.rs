//! A run from its first step to its verdict.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use modex::types::Time;

use super::faults::Canary;
use super::process::State;
use super::queue::QueuedEvent;
use super::rule::{Broken, Rule};
use super::setup::{JOB_LIMIT, JobSetup, Setup};
use super::trace::Keep;
use super::world::World;

/// The outcome of one seed.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Events taken.
    pub steps: u64,
    /// Requests that servers took.
    pub requests: u64,
    /// Faults that happened.
    pub faults: u64,
    /// A number that two runs share if and only if they had the same steps.
    pub hash: u64,
    /// The rule that did not hold, if any.
    pub broken: Option<Broken>,
    /// The last steps, as text, if they were wanted.
    pub lines: Vec<String>,
}

/// Runs a seed until nothing is left to happen or a rule is broken.
#[must_use]
pub fn run(seed: u64, setup: &Setup) -> Report {
    run_keeping(seed, setup, Keep::Nothing)
}

/// The same as [`run`], with the last steps as text.
#[must_use]
pub fn run_in_words(seed: u64, setup: &Setup) -> Report {
    run_keeping(seed, setup, Keep::Text)
}

/// Runs a seed twice and compares the second run with the first, step for step.
#[must_use]
pub fn run_twice(seed: u64, setup: &Setup) -> Report {
    let first = run(seed, setup);
    let second = run(seed, setup);
    if first.broken.is_some() || first.hash == second.hash {
        return first;
    }
    let what = format!(
        "{} steps with hash {:016x}, then {} steps with hash {:016x}",
        first.steps, first.hash, second.steps, second.hash
    );
    Report { broken: Some(Broken { rule: Rule::SameAgain, what }), ..second }
}

fn run_keeping(seed: u64, setup: &Setup, keep: Keep) -> Report {
    let (mut world, jobs) = World::new(seed, setup, keep);
    if setup.canary == Some(Canary::Memory) {
        world.leaked_runs = RUNS.with(|runs| runs.replace(runs.get() + 1)) + 1;
    }
    world.start_jobs(jobs);
    // An assertion of a core that fails is a finding like any other.
    let outcome = catch_unwind(AssertUnwindSafe(|| world.run()));
    let panicked = outcome.err().map(|cause| {
        let text = cause.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("an assertion failed");
        Broken { rule: Rule::Consistent, what: text.to_owned() }
    });
    Report {
        seed,
        steps: world.trace.steps(),
        requests: world.requests,
        faults: u64::from(world.fault_schedule.struck()),
        hash: world.trace.hash(),
        broken: panicked.or_else(|| world.rules.broken().cloned()),
        lines: world.trace.into_lines(),
    }
}

impl World {
    fn start_jobs(&mut self, jobs: Vec<JobSetup>) {
        for job in jobs {
            self.launch(job, Duration::ZERO);
        }
        self.plan_strikes();
        self.queue.plan(Time::ZERO + JOB_LIMIT, QueuedEvent::End);
    }

    /// Lets everything happen, until nothing is left or a rule is broken.
    fn run(&mut self) {
        while self.rules.broken().is_none() {
            let Some((at, event)) = self.queue.pop() else { break };
            self.now = at;
            self.rules.time_passes(at);
            self.trace.step(at);
            self.happen(event);
        }
        if self.rules.broken().is_none() {
            self.check_the_end();
        }
    }

    fn happen(&mut self, event: QueuedEvent) {
        match event {
            QueuedEvent::Start(process) => self.start(process),
            QueuedEvent::Wake(process) => self.wake(process),
            QueuedEvent::ToServer(peer, message) => self.at_server(peer, *message),
            QueuedEvent::ToClient(peer, message) => self.at_client(peer, *message),
            QueuedEvent::ServerTimer(server) => self.server_timer(server),
            QueuedEvent::ClientTimer(peer) => self.client_timer(peer),
            QueuedEvent::Answer(server, upcall, reply) => self.host_answers(server, upcall, *reply),
            QueuedEvent::Call(server, call, asker) => self.call(server, *call, asker),
            QueuedEvent::ExchangeTimer(number) => self.give_up_exchange(number),
            QueuedEvent::Strike(kind) => self.strike(kind),
            QueuedEvent::Restart(node) => self.restart(node),
            QueuedEvent::End => self.end(),
        }
    }

    /// At the end nothing remains.
    fn check_the_end(&mut self) {
        self.rules.all_answered();
        self.check_parties();
        for node in &self.nodes {
            let Some(server) = &node.server else { continue };
            let rules = &mut self.rules;
            for (what, count) in server.holdings() {
                rules.remains(what, count);
            }
            rules.remains("namespace in a store", usize::from(!server.store().is_empty()));
        }
        let alive = self.connections.values().filter(|connection| {
            let is_hung = self.process(connection.process).is_some_and(|of| of.state == State::Hung);
            !connection.is_client_gone && !is_hung
        });
        let (clients, calls) = alive.fold((0, 0), |(clients, calls), of| (clients + 1, calls + of.calls.len()));
        self.rules.remains("client that still waits for its server", clients);
        self.rules.remains("call of a client", calls);
        self.rules.remains("commit without an answer", self.commits.len());
        let allocated = self.allocations.as_ref().map_or(0, |of| of.account.remaining());
        self.rules.remains("allocation of an ended process", allocated);
        let every = if self.setup.is_large() { self.processes.len() / 1000 } else { 1 };
        for process in (0..self.processes.len()).step_by(every.max(1)) {
            self.read_again(u32::try_from(process).unwrap_or(u32::MAX));
        }
        if self.acting > 0 {
            let acting = self.acting;
            self.rules.breaks(Rule::AnsweredOnce, || format!("{acting} processes never came to an end"));
        }
    }
}

thread_local! {
    /// Runs of this thread, counted for [`Canary::Memory`].
    static RUNS: Cell<u64> = const { Cell::new(0) };
}
