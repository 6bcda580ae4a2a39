//! The server's host. A launcher of one node exchanges data with no other host, so it answers requests itself, or
//! passes them on to the launcher's loop.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use crossbeam::channel::Sender;
use modex::types::{Info, InfoFlags, Namespace, ProcId, Status, Time};
use modex::{
    AbortUpcall, Capabilities, Event, Host, HostFacts, IofPull, IofPush, JobControl, Log, Moment, QueryInfo, Requester,
    Responder, Spawn, keys,
};

use super::clock::Clock;
use super::hold::ToolNews;
use super::host_attributes;
use super::launcher_query::LauncherQuery;
use super::poller::Bell;
use super::report::ProcessPhase;

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
    Query { requester: ProcId, query: LauncherQuery, reply: Responder<Vec<Info>> },
    /// A process wants another job.
    Spawn(SpawnCall),
    /// A process wants to control others.
    Control {
        /// The process.
        requester: ProcId,
        /// The action and the targets.
        request: Box<JobControl>,
        /// The place for the answer.
        reply: Responder<Vec<Info>>,
    },
    /// A process logs.
    Log {
        /// The process.
        requester: ProcId,
        /// Its request.
        request: Box<Log>,
        /// The place for the answer.
        reply: Responder<()>,
    },
    /// A process wants the output of others.
    Pull {
        /// The process.
        requester: ProcId,
        /// Its request.
        request: Box<IofPull>,
        /// The place for the answer.
        reply: Responder<()>,
    },
    /// A process has input for others.
    Push {
        /// The process.
        requester: ProcId,
        /// Its request.
        request: Box<IofPush>,
        /// The place for the answer.
        reply: Responder<()>,
    },
    /// A process waits for a debugger.
    Stopped {
        /// The process.
        proc: ProcId,
        /// Its name for the place.
        breakpoint: String,
    },
    /// Something happened to the tool that has started the launcher.
    Tool(ToolNews),
    /// Something happened to a process of a job.
    Process {
        /// The process.
        proc: ProcId,
        /// The event.
        moment: ProcessNews,
    },
}

/// A process's request for another job.
#[derive(Debug)]
pub(super) struct SpawnCall {
    /// The process.
    pub(super) requester: ProcId,
    /// The job.
    pub(super) request: Box<Spawn>,
    /// The place for the answer.
    pub(super) reply: Responder<Namespace>,
}

/// An event of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessNews {
    /// The process connected.
    Connected,
    /// The process finalized.
    Finalized,
    /// The connection of the process ended without finalize.
    Left,
    /// The process is a tool, and has come.
    ToolAdmitted,
    /// The process is a tool, and has gone.
    ToolGone,
    /// The process reached a phase.
    Reached {
        /// The phase.
        phase: ProcessPhase,
        /// The time of the phase.
        at: Time,
    },
}

/// A job of which the launcher reports the phases.
#[derive(Debug)]
pub(super) struct TimedJob {
    namespace: Namespace,
    /// The fence's phases that each rank has reached. Only its first fence counts, and ranks may have millions.
    fenced: Vec<AtomicU8>,
}

impl TimedJob {
    pub(super) fn new(namespace: Namespace, rank_count: u32) -> Self {
        Self { namespace, fenced: (0..rank_count).map(|_| AtomicU8::new(0)).collect() }
    }

    /// Whether the report needs a moment of this phase.
    fn needs(&self, proc: &ProcId, phase: ProcessPhase) -> bool {
        let bit = match phase {
            ProcessPhase::FenceBegun => 1,
            ProcessPhase::Fenced => 2,
            _ => 0,
        };
        let rank = proc.rank.process().and_then(|rank| usize::try_from(rank).ok());
        let Some(reached) = rank.and_then(|rank| self.fenced.get(rank)) else { return false };
        proc.namespace == self.namespace && (bit == 0 || reached.fetch_or(bit, Ordering::Relaxed) & bit == 0)
    }
}

/// The host's functions, called on the server's threads.
#[derive(Debug)]
pub(super) struct LauncherHost {
    news: Sender<News>,
    bell: Bell,
    clock: Clock,
    /// The job of which the launcher reports the phases.
    timed: Option<TimedJob>,
    /// Made for the first query, so that it costs no launch.
    facts: OnceLock<HostFacts>,
}

impl LauncherHost {
    pub(super) fn new(news: Sender<News>, bell: Bell, clock: Clock, timed: Option<TimedJob>) -> Self {
        Self { news, bell, clock, timed, facts: OnceLock::new() }
    }

    /// Wakes the launcher's loop.
    fn tell(&self, news: News) {
        tell(&self.news, &self.bell, news);
    }

    /// A function that tells the launcher's loop of its tool.
    pub(super) fn tool_listener(&self) -> impl Fn(ToolNews) + Clone + Send + Sync + use<> {
        let (sender, bell) = (self.news.clone(), self.bell.clone());
        move |news| tell(&sender, &bell, News::Tool(news))
    }

    /// The loop reads this when it wakes up for another reason: the report must not change the measurement.
    fn note(&self, proc: &ProcId, moment: ProcessNews) {
        let _ = self.news.send(News::Process { proc: proc.clone(), moment });
    }
}

fn tell(sender: &Sender<News>, bell: &Bell, news: News) {
    // A closed channel means that the launcher is ending the jobs already.
    if sender.send(news).is_ok() {
        bell.wake();
    }
}

impl Host for LauncherHost {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ABORT
            | Capabilities::QUERY
            | Capabilities::SPAWN
            | Capabilities::JOB_CONTROL
            | Capabilities::LOG
            | Capabilities::IOF_PULL
            | Capabilities::IOF_PUSH
            | Capabilities::NOTIFY_EVENT
    }

    /// The end of a rank is the end of all jobs, so processes of other jobs alone can't be ended.
    fn abort(&self, request: AbortUpcall, reply: Responder<()>) {
        let is_of_others = |proc: &ProcId| proc.namespace != request.requester.namespace;
        if !request.procs.is_empty() && request.procs.iter().all(is_of_others) {
            return reply.fail(Status::ERR_PARAM_VALUE_NOT_SUPPORTED);
        }
        let message = request.message.as_ref().map_or_else(String::new, ToString::to_string);
        self.tell(News::Abort { requester: request.requester, status: request.status.to_raw(), message });
        reply.succeed(());
    }

    fn spawn(&self, requester: Requester, request: Spawn, reply: Responder<Namespace>) {
        self.tell(News::Spawn(SpawnCall { requester: requester.proc, request: Box::new(request), reply }));
    }

    fn job_control(&self, requester: Requester, request: JobControl, reply: Responder<Vec<Info>>) {
        self.tell(News::Control { requester: requester.proc, request: Box::new(request), reply });
    }

    fn log(&self, requester: Requester, request: Log, reply: Responder<()>) {
        self.tell(News::Log { requester: requester.proc, request: Box::new(request), reply });
    }

    fn iof_pull(&self, requester: Requester, request: IofPull, reply: Responder<()>) {
        self.tell(News::Pull { requester: requester.proc, request: Box::new(request), reply });
    }

    fn iof_push(&self, requester: Requester, request: IofPush, reply: Responder<()>) {
        self.tell(News::Push { requester: requester.proc, request: Box::new(request), reply });
    }

    /// Other nodes do not exist, so events need no forwarding. The launcher itself hears of ranks that wait for a
    /// debugger.
    fn notify_event(&self, mut event: Event, reply: Responder<()>) {
        let is_stop = event.status == Status::READY_FOR_DEBUG;
        // The launcher honours no other directive for events.
        let honoured = event.info.iter_mut().filter(|info| is_stop && info.key.as_str() == keys::BREAKPOINT.name());
        honoured.for_each(|info| info.flags &= !InfoFlags::REQUIRED.bits());
        if event.needs_a_host() {
            return reply.fail(Status::ERR_NOT_SUPPORTED);
        }
        if is_stop && let Some(proc) = event.source.clone() {
            let breakpoint = event.info.iter().find(|info| info.key.as_str() == keys::BREAKPOINT.name());
            let breakpoint = breakpoint.and_then(|info| info.value.as_str()).unwrap_or_default().to_owned();
            self.tell(News::Stopped { proc, breakpoint });
        }
        reply.succeed(());
    }

    /// Answers queries for supported attributes, and passes on those for facts of the launcher. The server answers all
    /// others.
    fn query(&self, requester: Requester, request: QueryInfo, reply: Responder<Vec<Info>>) {
        let Some((request, reply)) = self.facts.get_or_init(host_attributes::facts).answer(&requester, request, reply)
        else {
            return;
        };
        match LauncherQuery::read(&requester.proc, &request) {
            Some(query) => self.tell(News::Query { requester: requester.proc, query, reply }),
            None => reply.fail(Status::ERR_NOT_SUPPORTED),
        }
    }

    fn observed(&self, proc: &ProcId, moment: Moment) {
        if proc.rank.process().is_none() {
            return;
        }
        let (phase, age) = match moment {
            Moment::Left => return self.note(proc, ProcessNews::Left),
            Moment::ToolAdmitted => return self.note(proc, ProcessNews::ToolAdmitted),
            // A rank may wait for input that never comes now.
            Moment::ToolGone => {
                return self.tell(News::Process { proc: proc.clone(), moment: ProcessNews::ToolGone });
            }
            Moment::Finalized => {
                self.note(proc, ProcessNews::Finalized);
                (ProcessPhase::Finalized, Duration::ZERO)
            }
            Moment::InitBegun { age } => (ProcessPhase::InitBegun, age),
            Moment::Connected => {
                self.note(proc, ProcessNews::Connected);
                (ProcessPhase::Connected, Duration::ZERO)
            }
            Moment::Admitted => (ProcessPhase::Initialized, Duration::ZERO),
            Moment::FenceBegun => (ProcessPhase::FenceBegun, Duration::ZERO),
            Moment::Fenced => (ProcessPhase::Fenced, Duration::ZERO),
            _ => return,
        };
        if self.timed.as_ref().is_some_and(|job| job.needs(proc, phase)) {
            self.note(proc, ProcessNews::Reached { phase, at: self.clock.ago(age) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each fence of each rank sent news to a loop that sleeps.
    #[test]
    fn only_the_first_fence_of_each_rank_is_news() {
        let [job, other] = ["job", "job-1"].map(|name| Namespace::new(name).unwrap());
        let timed = TimedJob::new(job.clone(), 2);
        let phases = [ProcessPhase::InitBegun, ProcessPhase::FenceBegun, ProcessPhase::Fenced];
        let needed = |proc: &ProcId| phases.map(|phase| timed.needs(proc, phase));
        for rank in 0..2 {
            let proc = ProcId::new(job.clone(), rank);
            assert_eq!([needed(&proc), needed(&proc)], [[true; 3], [true, false, false]]);
        }
        assert_eq!([ProcId::new(job, 2), ProcId::new(other, 0)].map(|proc| needed(&proc)), [[false; 3]; 2]);
    }
}
