//! The server's host. A launcher of one node exchanges data with no other host, so it answers requests itself. It tells
//! the launcher's loop about events.

use std::time::{Duration, Instant};

use crossbeam::channel::Sender;
use modex::types::{Info, ProcId, Status, Time};
use modex::{AbortUpcall, Capabilities, Host, Moment, QueryInfo, Requester, Responder};

use super::poller::Bell;
use super::report::ProcessPhase;
use super::waiting::OPERATIONS;

/// An event for the launcher's loop.
#[derive(Debug)]
pub(super) enum News {
    /// A rank wants the job to end.
    Abort {
        /// The requester.
        requester: ProcId,
        /// The status it gave.
        status: i32,
        /// Its message.
        message: String,
    },
    /// A process asks for the operations that wait.
    Operations(Responder<Vec<Info>>),
    /// A process connected under the name of a rank.
    Connected {
        /// The rank.
        rank: u32,
    },
    /// Such a process finalized.
    Finalized {
        /// The rank.
        rank: u32,
    },
    /// A rank's connection ended without finalize.
    Left {
        /// The rank.
        rank: u32,
    },
    /// A rank reached a phase.
    Reached {
        /// The rank.
        rank: u32,
        /// The phase.
        phase: ProcessPhase,
        /// The time of the phase.
        at: Time,
    },
}

/// The launcher's clock, shared by its threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    /// Starts it.
    #[expect(clippy::disallowed_methods, reason = "the launcher's only clock")]
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since the start.
    pub(super) fn now(self) -> Time {
        Time::ZERO + self.0.elapsed()
    }

    /// This duration before now, or the clock's start if that is later.
    fn ago(self, age: Duration) -> Time {
        Time::ZERO + self.now().since(Time::ZERO + age)
    }
}

/// The host's functions, called on the server's threads.
#[derive(Debug)]
pub(super) struct LauncherHost {
    news: Sender<News>,
    bell: Bell,
    clock: Clock,
    /// Whether the launcher reports the phases.
    times_phases: bool,
}

impl LauncherHost {
    pub(super) fn new(news: Sender<News>, bell: Bell, clock: Clock, times_phases: bool) -> Self {
        Self { news, bell, clock, times_phases }
    }
}

impl Host for LauncherHost {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ABORT | Capabilities::QUERY
    }

    fn abort(&self, request: AbortUpcall, reply: Responder<()>) {
        let message = request.message.as_ref().map_or_else(String::new, ToString::to_string);
        let news = News::Abort { requester: request.requester, status: request.status.to_raw(), message };
        // A closed channel means that the launcher is ending the job already.
        if self.news.send(news).is_ok() {
            self.bell.wake();
        }
        reply.succeed(());
    }

    /// Answers queries for the operations that wait, each in a request of its own. The server answers all others.
    fn query(&self, _: Requester, request: QueryInfo, reply: Responder<Vec<Info>>) {
        let mut keys = request.queries.iter().flat_map(|query| &query.keys).peekable();
        if keys.peek().is_none() || keys.any(|key| key.as_bytes() != OPERATIONS.as_bytes()) {
            return reply.fail(Status::ERR_NOT_SUPPORTED);
        }
        // A closed channel means that the launcher is ending the job already. The reply is then an error.
        if self.news.send(News::Operations(reply)).is_ok() {
            self.bell.wake();
        }
    }

    fn observed(&self, proc: &ProcId, moment: Moment) {
        let Some(rank) = proc.rank.process() else { return };
        let (phase, age) = match moment {
            Moment::Left => {
                let _ = self.news.send(News::Left { rank });
                return;
            }
            Moment::Finalized => {
                let _ = self.news.send(News::Finalized { rank });
                return;
            }
            Moment::InitBegun { age } => (ProcessPhase::InitBegun, age),
            Moment::Connected => {
                let _ = self.news.send(News::Connected { rank });
                (ProcessPhase::Connected, Duration::ZERO)
            }
            Moment::Admitted => (ProcessPhase::Initialized, Duration::ZERO),
            Moment::Fenced => (ProcessPhase::Fenced, Duration::ZERO),
            _ => return,
        };
        // The loop reads these when it wakes up for another reason: the report must not change the measurement.
        if self.times_phases {
            let _ = self.news.send(News::Reached { rank, phase, at: self.clock.ago(age) });
        }
    }
}
