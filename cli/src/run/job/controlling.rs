//! Requests of processes to pause, resume, signal and end others (`PMIx_Job_control`).

use std::collections::{BTreeMap, BTreeSet};

use modex::types::{Info, Namespace, ProcId, Time};
use modex::{JobControl, Responder};
use rustix::process::Signal;

use super::LaunchedJob;
use crate::run::control_request::{self, ControlAction, ControlRefusal, Ranks};
use crate::run::rank_id::RankId;
use crate::run::verdict::{Cause, EndRequest};

/// Requests served in one turn of the loop. Each one reads the process table of the system.
const SERVED_IN_TURN: usize = 4;

/// Signals that stop a process.
const STOPPING: [Signal; 4] = [Signal::STOP, Signal::TSTP, Signal::TTIN, Signal::TTOU];

/// A request that waits for its turn.
#[derive(Debug)]
pub(super) struct ControlCall {
    pub(super) request: Box<JobControl>,
    pub(super) reply: Responder<Vec<Info>>,
}

/// The ranks that were asked to end, and when each one is killed.
#[derive(Debug, Default)]
pub(super) struct Terminations(BTreeMap<RankId, Time>);

impl Terminations {
    /// The next end of a grace period.
    pub(super) fn next_tick(&self) -> Option<Time> {
        self.0.values().min().copied()
    }

    /// A second request does not prolong the time.
    pub(super) fn add(&mut self, ranks: &BTreeSet<RankId>, until: Time) {
        for rank in ranks {
            self.0.entry(*rank).or_insert(until);
        }
    }

    fn take_due(&mut self, now: Time) -> BTreeSet<RankId> {
        self.0.extract_if(.., |_, until| *until <= now).map(|(rank, _)| rank).collect()
    }
}

impl LaunchedJob {
    /// When the loop has to look at requests again, even without an event.
    pub(super) fn next_control(&self) -> Option<Time> {
        let is_due =
            !self.controls.is_empty() || !self.queries.is_empty() || self.can_log || self.forwarding.can_be_served();
        let later = [self.terminations.next_tick(), self.run_limits.next_tick()];
        if is_due { Some(Time::ZERO) } else { later.into_iter().flatten().min() }
    }

    /// Serves some of the requests that wait.
    pub(super) fn serve_controls(&mut self) {
        for _ in 0..SERVED_IN_TURN {
            let Some((requester, ControlCall { request, reply })) = self.controls.pop() else { return };
            match self.control(&requester, &request) {
                Ok(()) => reply.succeed(Vec::new()),
                Err(refusal) => {
                    tracing::info!(%requester, "the launcher refuses to control processes: {refusal}");
                    reply.fail(refusal.status());
                }
            }
        }
    }

    fn control(&mut self, requester: &ProcId, request: &JobControl) -> Result<(), ControlRefusal> {
        let Some(action) = control_request::action(request)? else { return Ok(()) };
        // A rank of an ended job is no tool, and must not mean all jobs.
        if self.jobs.number(&requester.namespace).is_none() && self.plan.names(&requester.namespace) {
            return Err(ControlRefusal::Ended);
        }
        // Some ranks of a job that starts could not be reached.
        let starting = self.spawning.starting_job();
        let is_known = |job: u32| Some(job) != starting;
        let ranks = Ranks {
            jobs: self.jobs.numbers().into_iter().filter(|(_, job)| is_known(*job)).collect(),
            running: self.verdict.running_ranks().filter(|rank| is_known(rank.job)).collect(),
            of_requester: self.jobs.number(&requester.namespace),
        };
        let targets = ranks.targets(request, |rank| self.children.has(rank))?;
        tracing::info!(%requester, ?action, rank_count = targets.len(), "a process controls ranks");
        match action {
            ControlAction::Pause => {
                self.note_pause()?;
                self.signal_trees(&targets, Signal::STOP)
            }
            ControlAction::Resume => self.signal_trees(&targets, Signal::CONT),
            ControlAction::Signal(signal) => {
                if STOPPING.contains(&signal) {
                    self.note_pause()?;
                }
                permitted(self.children.signal_ranks(&targets, signal))?;
                self.note_requests(requester, &targets, Some(signal.as_raw()));
                Ok(())
            }
            ControlAction::Terminate => self.end(requester, &targets, false),
            ControlAction::Kill => self.end(requester, &targets, true),
            ControlAction::DefineProcessSet(name) => self.define_process_set(&name, request, &targets),
            ControlAction::Checkpoint { name, method } => self.checkpoint(&targets, &name, method),
            ControlAction::Note { method, is_preemptible } => {
                self.checkpoints.note(&targets, method, is_preemptible);
                Ok(())
            }
        }
    }

    /// Names the targets. A whole job keeps its wildcard rank.
    fn define_process_set(
        &self,
        name: &str,
        request: &JobControl,
        targets: &BTreeSet<RankId>,
    ) -> Result<(), ControlRefusal> {
        if Namespace::new(name).is_ok_and(|name| self.plan.names(&name)) {
            return Err(ControlRefusal::NameOfJob(name.to_owned()));
        }
        let running = targets.iter().filter_map(|rank| {
            let namespace = self.jobs.namespace(rank.job)?.clone();
            Some(ProcId::new(namespace, rank.rank))
        });
        let members: Vec<ProcId> = if request.targets.is_empty() { running.collect() } else { request.targets.clone() };
        Ok(self.server.define_process_set(name, &members).wait()?)
    }

    /// Ends ranks. If no other rank runs, it is the end of the launcher.
    fn end(&mut self, requester: &ProcId, targets: &BTreeSet<RankId>, is_kill: bool) -> Result<(), ControlRefusal> {
        let now = self.clock.now();
        if !is_kill {
            self.alert(targets);
        }
        // A job that waits for a tool has no ranks yet.
        if !self.is_held() && self.verdict.are_all(targets) {
            let action = self.verdict.stop(now, Cause::Asked { by: self.name_of(requester), is_kill });
            if action.is_none() && is_kill {
                return self.signal_trees(targets, Signal::KILL);
            }
            self.act(action);
            return Ok(());
        }
        if is_kill {
            self.signal_trees(targets, Signal::KILL)?;
        } else {
            self.signal_trees(targets, Signal::TERM)?;
            self.terminations.add(targets, now + self.verdict.grace());
        }
        self.verdict.dismiss(targets);
        self.note_requests(requester, targets, is_kill.then_some(Signal::KILL.as_raw()));
        // A paused process gets its signal when it goes on.
        if self.has_paused_ranks && !is_kill { self.signal_trees(targets, Signal::CONT) } else { Ok(()) }
    }

    /// Notes that ranks stop. Ranks that have to end must not.
    fn note_pause(&mut self) -> Result<(), ControlRefusal> {
        if !self.verdict.permits_jobs() {
            return Err(ControlRefusal::Ending);
        }
        self.has_paused_ranks = true;
        Ok(())
    }

    /// Kills the ranks whose time to end is over.
    pub(super) fn end_terminations(&mut self) {
        let mut late = self.terminations.take_due(self.clock.now());
        late.retain(|rank| self.children.running(*rank).is_some());
        if !late.is_empty() {
            // The processes of the ranks need no descriptor. A process that may not be signalled stays.
            let _ = self.signal_trees(&late, Signal::KILL);
            let _ = self.children.signal_ranks(&late, Signal::KILL);
        }
    }

    fn note_requests(&mut self, requester: &ProcId, targets: &BTreeSet<RankId>, signal: Option<i32>) {
        let by = self.name_of(requester);
        targets.iter().for_each(|rank| self.verdict.note_request(*rank, EndRequest { by: by.clone(), signal }));
    }

    fn signal_trees(&self, targets: &BTreeSet<RankId>, signal: Signal) -> Result<(), ControlRefusal> {
        permitted(self.children.signal_trees(targets, signal))
    }

    /// A process in words.
    pub(super) fn name_of(&self, proc: &ProcId) -> String {
        self.jobs.rank(proc).map_or_else(|| proc.to_string(), |rank| rank.to_string())
    }
}

fn permitted(is_permitted: bool) -> Result<(), ControlRefusal> {
    if is_permitted { Ok(()) } else { Err(ControlRefusal::Forbidden) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_second_request_to_terminate_does_not_prolong_the_time() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let [first, second] = [0, 1].map(|rank| RankId { job: 0, rank });
        let mut terminations = Terminations::default();
        assert_eq!(terminations.next_tick(), None);
        terminations.add(&[first].into(), at(2));
        terminations.add(&[first, second].into(), at(3));
        assert_eq!((terminations.next_tick(), terminations.take_due(at(1))), (Some(at(2)), [].into()));
        assert_eq!((terminations.take_due(at(2)), terminations.next_tick()), ([first].into(), Some(at(3))));
    }
}
