//! The events about the launcher's jobs, for ranks and tools that have registered for them.

use std::fmt::Display;
use std::time::{SystemTime, UNIX_EPOCH};

use modex::types::codes::range::RANGE_SESSION;
use modex::types::{Namespace, ProcId, Status};

use super::LaunchedJob;
use crate::run::life_events::{self, JobEnd, LifeEvent, RankEnd};
use crate::run::rank_id::RankId;
use crate::run::verdict::{Cause, Ending};

impl LaunchedJob {
    /// The first rank of a job has started, or the last one.
    pub(super) fn report_start(&self, namespace: &Namespace, is_complete: bool) {
        self.raise(&life_events::of_start(namespace, is_complete, seconds_since_epoch()));
    }

    /// All ranks of a job that wait for a debugger have reached this place.
    pub(super) fn report_stop(&self, job: u32, breakpoint: &str) {
        if let Some(namespace) = self.jobs.namespace(job) {
            self.raise(&life_events::of_stop(self.server.proc(), namespace, breakpoint, seconds_since_epoch()));
        }
    }

    /// A process has ended all jobs.
    pub(super) fn report_abort(&self, proc: &ProcId, status: i32, message: &str) {
        self.raise(&life_events::of_abort(proc, status, message, seconds_since_epoch()));
    }

    /// How a rank has ended, before the verdict about this end.
    pub(super) fn rank_end(&self, rank: RankId, ending: Ending) -> RankEnd {
        let is_requested = match ending {
            Ending::Signaled(signal) => self.verdict.has_request(rank, ending) || self.verdict.has_sent(signal),
            Ending::Exited(_) => false,
        };
        RankEnd { ending, is_requested, is_unfinalized: self.verdict.is_in(rank) && self.verdict.has_left(rank) }
    }

    /// A rank has ended.
    pub(super) fn report_rank_end(&self, rank: RankId, end: RankEnd) {
        let Some(proc) = self.jobs.proc(rank) else { return };
        for event in life_events::of_rank(&proc, end, seconds_since_epoch()) {
            self.raise(&event);
        }
    }

    /// All ranks of a job have ended.
    pub(super) fn report_job_end(&self, number: u32) {
        if let Some(namespace) = self.jobs.namespace(number) {
            let (end, awaited_by) = (self.job_end(number), self.jobs.awaited_by(number));
            let events = life_events::of_job(namespace, &end, awaited_by, seconds_since_epoch());
            events.iter().for_each(|event| self.raise(event));
        }
    }

    /// Some ranks of a job have started and were ended, because the others can't be started. The failed spawn tells its
    /// requester.
    pub(super) fn report_failed_start(&self, namespace: &Namespace, status: Status) {
        let end = JobEnd { status, failed: None, exit_code: 1, text: None };
        let events = life_events::of_job(namespace, &end, None, seconds_since_epoch());
        events.iter().for_each(|event| self.raise(event));
    }

    pub(super) fn job_end(&self, number: u32) -> JobEnd {
        let well = JobEnd { status: Status::SUCCESS, failed: None, exit_code: 0, text: None };
        if let Some(limit) = self.run_limits.overdue(number) {
            return JobEnd { status: Status::ERR_TIMEOUT, text: Some(Cause::Timeout(limit).to_string()), ..well };
        }
        if self.verdict.is_dismissed(number) {
            return JobEnd { status: Status::ERR_JOB_KILLED_BY_CMD, ..well };
        }
        let Some(cause) = self.verdict.cause() else {
            let Some((cause, ending)) = self.verdict.failure_apart(number) else { return well };
            let failed = cause.rank().and_then(|rank| self.jobs.proc(rank));
            let (status, exit_code) = (cause.job_status(), ending.shell_status());
            return JobEnd { status, failed, exit_code, text: Some(cause.to_string()) };
        };
        let culprit = cause.rank();
        let is_own = culprit.is_none_or(|rank| rank.job == number);
        if !is_own && self.verdict.has_succeeded(number) {
            return well;
        }
        JobEnd {
            status: if is_own { cause.job_status() } else { Status::ERR_JOB_KILLED_BY_CMD },
            failed: culprit.and_then(|rank| self.jobs.proc(rank)),
            exit_code: self.verdict.shell_status(),
            text: Some(cause.to_string()),
        }
    }

    /// The server handles the event before any later call, so nothing waits for it. A failure is only worth a note: the
    /// jobs go on. A tool that has started the launcher hears of all stages of the jobs.
    pub(super) fn raise(&self, event: &LifeEvent) {
        if event.range == RANGE_SESSION {
            self.hold.tell(event);
        }
        let status = event.status;
        let source = event.source().unwrap_or_else(|| self.server.proc().clone());
        let log = move |error: &dyn Display| tracing::debug!(%status, %error, "the launcher cannot raise an event");
        let pending = self.server.notify_event(status, Some(&source), event.range, &event.infos);
        let begun = pending.then(move |result| {
            if let Err(error) = result {
                log(&error);
            }
        });
        if let Err(error) = begun {
            log(&error);
        }
    }
}

impl Cause {
    /// The rank that is to blame.
    const fn rank(&self) -> Option<RankId> {
        match self {
            Self::Rank { rank, .. } | Self::Unfinalized { rank, .. } | Self::Left { rank, .. } => Some(*rank),
            Self::Abort { rank, .. } => *rank,
            Self::Asked { .. } | Self::Timeout(_) | Self::Signal(_) | Self::ToolGone => None,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "events carry the wall-clock time")]
fn seconds_since_epoch() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
