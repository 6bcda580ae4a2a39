//! The job on the command line waits for the tool that has started the launcher.

use modex::Spawn;

use super::{JobError, LaunchedJob};
use crate::run::hold::{HoldError, ToolNews};
use crate::run::jobs::Job;
use crate::run::life_events;
use crate::run::plan::InputTargets;
use crate::run::rank_id::FIRST_JOB;
use crate::run::spawn_request;
use crate::run::verdict::Cause;

/// The state of a job that waits for a tool.
pub(super) const WAITS: &str = "the job waits for a tool; to start it: modex events raise PMIX_DEBUGGER_RELEASE";

impl LaunchedJob {
    /// Whether the job waits for a tool.
    pub(super) fn is_held(&self) -> bool {
        self.hold.is_waiting() && !self.verdict.is_stopped()
    }

    /// Whether processes may start jobs.
    pub(super) fn permits_jobs(&self) -> bool {
        self.is_held() || self.verdict.permits_jobs()
    }

    /// Tells the tool, and tools that attach to the launcher, that the launcher waits.
    pub(super) fn report_waiting(&mut self) {
        let event = life_events::of_ready(self.server.proc());
        self.hold.tell_all(&event);
        self.raise(&event);
        if !self.hold.knows_tool() {
            self.say(&format!("modex: {WAITS}\n"));
        }
    }

    pub(super) fn take_tool_news(&mut self, news: ToolNews) {
        match news {
            ToolNews::Attached(attached) => {
                if self.hold.attached(*attached) && self.is_held() {
                    self.report_waiting();
                }
            }
            ToolNews::Released { by, tool } => self.hold.release(by, tool),
            // A tool may leave after the release, also before the job has started.
            ToolNews::Lost if !self.hold.awaits_release() => {}
            ToolNews::Lost | ToolNews::Ended => {
                let action = self.verdict.stop(self.clock.now(), Cause::ToolGone);
                self.act(action);
            }
        }
    }

    /// Starts the job if the tool has released the launcher.
    pub(super) fn start_released(&mut self) -> Result<(), JobError> {
        if let Some(failure) = self.hold.take_failure().filter(|_| self.is_held()) {
            return Err(failure.into());
        }
        if !self.is_held() || !self.hold.take_release() {
            return Ok(());
        }
        let started = self.direct().map_err(JobError::from).and_then(|()| self.begin());
        if let Err(error) = &started {
            self.report_failed_start(&self.plan.namespace, error.status());
        }
        started
    }

    /// Changes the job as the tool directs.
    fn direct(&mut self) -> Result<(), HoldError> {
        let job = self.hold.directives()?;
        if job.is_empty() {
            return Ok(());
        }
        let request = Spawn { job, apps: Vec::new() };
        let mut plan = self.plan.clone();
        plan.apps = spawn_request::directed(&request.job, plan.apps, &self.surroundings(None))?;
        plan.parent = self.hold.released_by().cloned();
        self.take_directives(&mut plan, &request)?;
        // The tool's input comes beside the launcher's own, and its output in a copy: the tool may pull it later or
        // never.
        if plan.io.input == InputTargets::Nobody {
            plan.io.input = self.plan.io.input;
        }
        plan.io.is_redirected = false;
        self.jobs.insert(FIRST_JOB, Job::of(&plan));
        self.plan = plan;
        Ok(())
    }
}
