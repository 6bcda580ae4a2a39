//! Jobs that processes of a running job ask for (`PMIx_Spawn`).

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::time::Duration;

use modex::runtime::poller::EVENTS_PER_TURN;
use modex::types::{Namespace, NamespaceError, ProcId, Status, Time};
use modex::{Responder, Spawn};

use super::forwarding::complete;
use super::{JobError, LAST_OUTPUT_TIME, LaunchedJob, MpiSetup, variable};
use crate::run::apps::{App, RANK_COUNT_MAX};
use crate::run::children::Channel;
use crate::run::debug_daemons::DebugDaemons;
use crate::run::debug_stops::{AT_EXEC, DebugStops};
use crate::run::forward::ForwardedStream;
use crate::run::hold::HoldError;
use crate::run::host::SpawnCall;
use crate::run::jobs::Job;
use crate::run::mpi_library::{PmiChoice, Protocol};
use crate::run::plan::Plan;
use crate::run::rank_id::RankId;
use crate::run::ready_lines::ReadyLines;
use crate::run::spawn_request::{self, SpawnRefusal, Surroundings};

/// Why a process gets no job.
#[derive(Debug, thiserror::Error)]
enum SpawnFailure {
    #[error(transparent)]
    Refused(#[from] SpawnRefusal),
    #[error("the jobs of this launcher are ending")]
    Ending,
    #[error("it did not start within {} s", .0.as_secs())]
    Late(Duration),
    #[error(transparent)]
    Start(#[from] JobError),
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
}

impl SpawnFailure {
    fn status(&self) -> Status {
        match self {
            Self::Refused(refusal) => refusal.status(),
            Self::Ending => Status::ERR_JOB_CANCELED,
            Self::Late(_) => Status::ERR_TIMEOUT,
            Self::Start(error) => error.status(),
            Self::Namespace(_) => Status::ERR_JOB_FAILED_TO_LAUNCH,
        }
    }
}

impl JobError {
    /// The status for a process that asked for the job.
    pub(super) fn status(&self) -> Status {
        match self {
            Self::Spawn(error) => error.status(),
            Self::Hold(HoldError::Directed(refusal)) => refusal.status(),
            Self::DirectedFiles(_) => Status::ERR_FILE_OPEN_FAILURE,
            _ => Status::ERR_JOB_FAILED_TO_LAUNCH,
        }
    }
}

/// The most ranks that start in one turn of the loop. With more, the output of others would wait behind wake-ups of
/// those that end at once.
const RANKS_PER_TURN: usize = 4;

/// The wake-ups of a rank that ends at once: its two outputs and its end.
const WAKEUPS_PER_RANK: usize = 3;
const _: () = assert!(RANKS_PER_TURN * WAKEUPS_PER_RANK < EVENTS_PER_TURN, "each turn has room for others");

/// How long the name of an ended job stays for the process that spawned it and wants its output.
const UNHEARD_TIME: Duration = Duration::from_secs(2);

/// The spawns under way.
#[derive(Debug, Default)]
pub(super) struct Spawning {
    waiting: VecDeque<WaitingCall>,
    under_way: Option<SpawnUnderWay>,
    /// The jobs that have ended, and when their output is closed. Their descendants may hold it for ever.
    ended: Vec<(Time, u32)>,
    /// The jobs that have ended and whose spawners may still pull their output, and when their names go.
    unheard: Vec<(Time, u32)>,
}

/// When a job must have started, and the time that this gave it.
type Deadline = Option<(Time, Duration)>;

/// A request that waits for its turn.
#[derive(Debug)]
struct WaitingCall {
    deadline: Result<Deadline, SpawnRefusal>,
    call: SpawnCall,
}

/// A request that has its turns.
#[derive(Debug)]
struct SpawnUnderWay {
    stage: Stage,
    deadline: Deadline,
    requester: ProcId,
    reply: Responder<Namespace>,
}

#[derive(Debug)]
enum Stage {
    Programs(SpawnedPrograms),
    Ranks(Box<StartingJob>),
}

/// The programs of a request. The launcher looks at one in each turn.
#[derive(Debug)]
struct SpawnedPrograms {
    request: Spawn,
    daemons: DebugDaemons,
    apps: Vec<App>,
    /// How the ranks of each program join, as far as the launcher has looked.
    mpi_setups: Vec<MpiSetup>,
}

/// A job whose ranks start, some in each turn.
#[derive(Debug)]
struct StartingJob {
    plan: Plan,
    mpi_setups: Vec<MpiSetup>,
    started: usize,
}

impl SpawnedPrograms {
    /// Looks at the next program: its file, and the libraries that it needs. Returns whether it was the last one.
    fn look_at_next(
        &mut self,
        pmi: PmiChoice,
        lookup: impl Fn(&str) -> Option<OsString>,
    ) -> Result<bool, SpawnRefusal> {
        if let Some(app) = self.apps.get(self.mpi_setups.len()) {
            let path = spawn_request::program(app, &lookup)?;
            self.mpi_setups.push(MpiSetup::of(app, Some(&path), pmi, lookup));
        }
        Ok(self.mpi_setups.len() == self.apps.len())
    }
}

impl Spawning {
    /// A process asks for a job.
    pub(super) fn add(&mut self, now: Time, call: SpawnCall) {
        let limit = spawn_request::time_limits(&call.request).map(|(limit, _)| limit);
        self.waiting
            .push_back(WaitingCall { deadline: limit.map(|limit| limit.map(|limit| (now + limit, limit))), call });
    }

    /// Removes a request whose time is over.
    fn take_late(&mut self, now: Time) -> Option<(Duration, SpawnCall)> {
        let is_late = |waiting: &WaitingCall| matches!(waiting.deadline, Ok(Some((until, _))) if now >= until);
        let late = self.waiting.iter().position(is_late)?;
        match self.waiting.remove(late)? {
            WaitingCall { deadline: Ok(Some((_, limit))), call } => Some((limit, call)),
            _ => None,
        }
    }

    /// The job of which some ranks have not started.
    pub(super) fn starting_job(&self) -> Option<u32> {
        match &self.under_way.as_ref()?.stage {
            Stage::Programs(_) => None,
            Stage::Ranks(starting) => Some(starting.plan.job),
        }
    }

    /// When there is something to do next. A paused launcher closes no output.
    pub(super) fn next_tick(&self, is_paused: bool) -> Option<Time> {
        if self.under_way.is_some() || !self.waiting.is_empty() {
            return Some(Time::ZERO);
        }
        let of_output = self.ended.iter().map(|(at, _)| *at).min().filter(|_| !is_paused);
        of_output.into_iter().chain(self.unheard.iter().map(|(at, _)| *at)).min()
    }
}

impl LaunchedJob {
    /// Begins one waiting spawn, or goes on with the one that was begun. So other work has its turns.
    pub(super) fn go_on_spawning(&mut self) {
        while let Some((limit, SpawnCall { requester, reply, .. })) = self.spawning.take_late(self.clock.now()) {
            refuse(&requester, &SpawnFailure::Late(limit), reply);
        }
        if self.spawning.under_way.is_none()
            && let Some(WaitingCall { deadline, call }) = self.spawning.waiting.pop_front()
        {
            let SpawnCall { requester, request, reply } = call;
            let begun = deadline.and_then(|deadline| Ok((deadline, self.read_request(&requester, *request)?)));
            match begun {
                Ok((deadline, programs)) => {
                    let stage = Stage::Programs(programs);
                    self.spawning.under_way = Some(SpawnUnderWay { stage, deadline, requester, reply });
                }
                Err(refusal) => refuse(&requester, &refusal.into(), reply),
            }
        }
        let Some(mut spawn) = self.spawning.under_way.take() else { return };
        match self.go_on_with(&mut spawn) {
            Ok(None) => self.spawning.under_way = Some(spawn),
            Ok(Some(namespace)) => spawn.reply.succeed(namespace),
            Err(failure) => {
                if let Stage::Ranks(starting) = &spawn.stage {
                    self.discard(starting.plan.job);
                    if starting.started > 0 {
                        self.report_failed_start(&starting.plan.namespace, failure.status());
                    }
                }
                refuse(&spawn.requester, &failure, spawn.reply);
            }
        }
    }

    /// One turn of a spawn. Returns the name of a job whose ranks have all started.
    fn go_on_with(&mut self, spawn: &mut SpawnUnderWay) -> Result<Option<Namespace>, SpawnFailure> {
        if !self.permits_jobs() {
            return Err(SpawnFailure::Ending);
        }
        if let Some((until, limit)) = spawn.deadline
            && self.clock.now() >= until
        {
            return Err(SpawnFailure::Late(limit));
        }
        match &mut spawn.stage {
            Stage::Programs(programs) => {
                if programs.look_at_next(self.settings.pmi, variable)? {
                    spawn.stage = Stage::Ranks(Box::new(self.begin_job(&spawn.requester, programs)?));
                }
                Ok(None)
            }
            Stage::Ranks(starting) => {
                self.start_some(starting)?;
                if starting.started < starting.plan.app_of_rank.len() {
                    return Ok(None);
                }
                self.note_start(&starting.plan);
                Ok(Some(starting.plan.namespace.clone()))
            }
        }
    }

    /// All ranks of a job have started.
    pub(super) fn note_start(&mut self, plan: &Plan) {
        self.report_start(&plan.namespace, true);
        if let Some(limit) = plan.run_limit {
            self.run_limits.start(plan.job, self.clock.now(), limit);
        }
        if plan.stops.on_exec.is_some() {
            self.report_stop(plan.job, AT_EXEC);
        }
    }

    fn read_request(&self, requester: &ProcId, mut request: Spawn) -> Result<SpawnedPrograms, SpawnRefusal> {
        let daemons = DebugDaemons::of(&request, |target| self.running_of(target)).map_err(SpawnRefusal::Daemons)?;
        daemons.apply(&mut request);
        let room = u64::from(RANK_COUNT_MAX).saturating_sub(self.children.count() as u64);
        let apps = spawn_request::read(&request, room, &self.surroundings(self.jobs.app(requester)))?;
        Ok(SpawnedPrograms { request, daemons, apps, mpi_setups: Vec::new() })
    }

    fn begin_job(&mut self, requester: &ProcId, programs: &mut SpawnedPrograms) -> Result<StartingJob, SpawnFailure> {
        let SpawnedPrograms { request, daemons, apps, mpi_setups } = programs;
        let (apps, mpi_setups) = (std::mem::take(apps), std::mem::take(mpi_setups));
        let number = self.jobs.next_number();
        let mut plan = self.plan.spawned(number, requester.clone(), apps)?;
        plan.node_rank_first = self.jobs.node_ranks(plan.rank_count());
        plan.choose_cores(self.jobs.cores());
        plan.global_rank_first = self.jobs.global_ranks(plan.rank_count());
        self.take_directives(&mut plan, request)?;
        // As under PRRTE, this tool shows the output, and its own output is the launcher's.
        plan.io.is_redirected |= self.hold.is_tool(requester) && !spawn_request::is_copied(request);
        plan.values.extend(daemons.target.take());
        if daemons.are_daemons {
            plan.stops = DebugStops::default();
        }
        self.jobs.insert(number, Job::of(&plan));
        self.verdict.add(number, plan.rank_count());
        if daemons.are_daemons {
            self.verdict.set_apart(number);
        }
        match self.prepare(&plan, &mpi_setups) {
            Ok(()) => Ok(StartingJob { plan, mpi_setups, started: 0 }),
            Err(error) => {
                self.discard(number);
                Err(error)
            }
        }
    }

    /// Changes a job as its requester directs.
    pub(super) fn take_directives(&self, plan: &mut Plan, request: &Spawn) -> Result<(), SpawnRefusal> {
        plan.io = spawn_request::io(request, plan.rank_count(), self.settings.is_merged)?;
        plan.is_awaited = spawn_request::is_awaited(request);
        plan.values = spawn_request::described_values(request).collect();
        (_, plan.run_limit) = spawn_request::time_limits(request)?;
        plan.stops = spawn_request::stops(request, plan.rank_count())?;
        Ok(())
    }

    /// The machine on which jobs run. `parent` is the program that asks for a job.
    pub(super) fn surroundings<'a>(&'a self, parent: Option<&'a App>) -> Surroundings<'a> {
        Surroundings {
            hostname: self.server.hostname(),
            session_directory: self.server.directory(),
            parent,
            lookup: &variable,
        }
    }

    /// The number of running processes that a target names.
    fn running_of(&self, target: &ProcId) -> u32 {
        let is_meant = |rank: &RankId| self.jobs.proc(*rank).is_some_and(|proc| target.covers(&proc));
        u32::try_from(self.verdict.running_ranks().filter(is_meant).count()).unwrap_or(u32::MAX)
    }

    fn prepare(&mut self, plan: &Plan, mpi_setups: &[MpiSetup]) -> Result<(), SpawnFailure> {
        self.expect_stops(plan, mpi_setups)?;
        self.open_files(plan)?;
        self.register(plan)?;
        Ok(())
    }

    /// Counts the ranks that will wait for a debugger.
    pub(super) fn expect_stops(&mut self, plan: &Plan, mpi_setups: &[MpiSetup]) -> Result<(), SpawnRefusal> {
        for (stopped, _) in plan.stops.in_init.iter().chain(&plan.stops.in_app) {
            self.awaited_stops.expect(plan.job, plan.rank_count(), stopped);
        }
        if let Some((stopped, _)) = &plan.stops.in_init {
            let speaks_pmi = |app: &usize| mpi_setups.get(*app).is_some_and(|it| it.protocol == Protocol::Pmi);
            let deaf = plan.ranks().find(|(id, app)| stopped.has(id.rank) && speaks_pmi(app));
            if let Some(app) = deaf.and_then(|(_, app)| plan.apps.get(app)) {
                return Err(SpawnRefusal::NoInit { program: app.program.clone() });
            }
        }
        Ok(())
    }

    fn start_some(&mut self, starting: &mut StartingJob) -> Result<(), JobError> {
        let StartingJob { plan, mpi_setups, started } = starting;
        for (id, app) in plan.ranks().skip(*started).take(RANKS_PER_TURN) {
            if let (Some(app), Some(mpi_setup)) = (plan.apps.get(app), mpi_setups.get(app)) {
                // The job may have to end before all its ranks have started.
                self.has_paused_ranks |= plan.stops.stops_on_exec(id.rank);
                self.start_rank(plan, id, app, mpi_setup)?;
            }
            *started += 1;
        }
        Ok(())
    }

    /// All ranks of a spawned job have ended. The names of its ranks stay if they may be the cause of the launcher's
    /// end.
    pub(super) fn end_spawned(&mut self, number: u32) {
        if self.verdict.is_stopped() {
            return;
        }
        if self.jobs.keeps_output(number) {
            return self.spawning.unheard.push((self.clock.now() + UNHEARD_TIME, number));
        }
        self.end_heard(number);
    }

    fn end_heard(&mut self, number: u32) {
        self.spawning.ended.push((self.clock.now() + LAST_OUTPUT_TIME, number));
        // A process that pulls gets the rest of the output before the server forgets the job.
        if !self.streams.values().any(|stream| stream.job() == number && stream.is_pulled) {
            self.remove(number);
        }
    }

    /// Ends the jobs whose spawners had their time to pull the output. They may pull that of each rank on its own.
    pub(super) fn end_unheard(&mut self) {
        let now = self.clock.now();
        let (left, due): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.spawning.unheard).into_iter().partition(|(at, _)| *at > now);
        self.spawning.unheard = left;
        for (_, job) in due {
            if !self.verdict.is_stopped() {
                self.end_heard(job);
            }
        }
    }

    /// Whether the output of a rank of this job is open.
    fn has_output(&self, job: u32) -> bool {
        let first = (RankId { job, rank: 0 }, Channel::Out);
        self.stream_of.range(first..).next().is_some_and(|((rank, _), _)| rank.job == job)
    }

    /// Forgets the ended jobs whose output has ended.
    fn remove_silent(&mut self) {
        let (open, silent): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.spawning.ended).into_iter().partition(|(_, job)| self.has_output(*job));
        self.spawning.ended = open;
        silent.into_iter().for_each(|(_, job)| self.remove(job));
    }

    /// Closes the output of ended jobs, after its last lines.
    pub(super) fn close_ended(&mut self) -> Result<(), JobError> {
        self.remove_silent();
        let now = self.clock.now();
        if self.is_paused || self.spawning.ended.iter().all(|(at, _)| *at > now) {
            return Ok(());
        }
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.spawning.ended).into_iter().partition(|(at, _)| *at <= now);
        self.spawning.ended = later;
        let of_due = |stream: &ForwardedStream| due.iter().any(|(_, job)| *job == stream.job());
        let left: Vec<(usize, u32)> =
            self.streams.iter().filter(|(_, stream)| of_due(stream)).map(|(at, stream)| (*at, stream.job())).collect();
        let mut unfinished = BTreeSet::new();
        for (index, job) in left {
            if !self.close_after_last_line(index)? {
                unfinished.insert(job);
            }
        }
        due.iter().filter(|(_, job)| !unfinished.contains(job)).for_each(|(_, job)| self.remove(*job));
        self.spawning.ended.extend(unfinished.into_iter().map(|job| (now + LAST_OUTPUT_TIME, job)));
        Ok(())
    }

    /// Passes on the rest of a stream and closes it. Returns whether the output had room.
    fn close_after_last_line(&mut self, index: usize) -> Result<bool, JobError> {
        loop {
            let Some(stream) = self.streams.get_mut(&index) else { return Ok(true) };
            if self.is_paused || !self.output_locks.admits(index, stream.destination()) {
                return Ok(false);
            }
            if !stream.take_last_turn() {
                break;
            }
            self.pump(index)?;
        }
        if let Some(stream) = self.streams.get_mut(&index) {
            let (destination, mut rest) = (stream.destination(), ReadyLines::default());
            stream.finish(&mut rest);
            self.push(index, destination, rest)?;
            self.close(index)?;
        }
        Ok(true)
    }

    /// Forgets a job that can't be started.
    fn discard(&mut self, number: u32) {
        self.output_writer.close_job(number);
        self.directed_files.discard(number);
        self.remove(number);
    }

    fn remove(&mut self, number: u32) {
        self.children.remove(number);
        self.verdict.remove(number);
        self.run_limits.remove(number);
        self.awaited_stops.remove(number);
        self.speaks_pmi.retain(|id| id.job != number);
        // The rest of its output goes to no process.
        for stream in self.streams.values_mut().filter(|stream| stream.job() == number) {
            complete(stream, &self.server);
            (stream.is_kept, stream.is_pulled) = (false, false);
        }
        let Some(job) = self.jobs.remove(number) else { return };
        if let Err(error) = self.server.deregister_namespace(&job.namespace).wait() {
            tracing::warn!(job = %job.namespace, %error, "the launcher cannot report the end of a job to the server");
        }
    }
}

fn refuse(requester: &ProcId, failure: &SpawnFailure, reply: Responder<Namespace>) {
    tracing::warn!(%requester, "the job that a process asks for can't be spawned: {failure}");
    reply.fail(failure.status());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 500 programs held the launcher up for more than a second.
    #[test]
    fn a_turn_looks_at_one_program() {
        let app = |program: &str| App { count: 1, program: program.into(), ..App::default() };
        let mut programs = SpawnedPrograms {
            request: Spawn::new(Vec::new(), Vec::new()),
            daemons: DebugDaemons::default(),
            apps: ["/bin/sh", "/bin/sh", "/no/such"].map(app).into(),
            mpi_setups: Vec::new(),
        };
        let mut look = || {
            let is_last = programs.look_at_next(PmiChoice::Auto, |_| None).map_err(|refusal| refusal.status());
            (is_last, programs.mpi_setups.len())
        };
        assert_eq!((look(), look()), ((Ok(false), 1), (Ok(false), 2)));
        assert_eq!(look(), (Err(Status::ERR_JOB_EXE_NOT_FOUND), 2));
        programs.apps.pop();
        assert_eq!(programs.look_at_next(PmiChoice::Auto, |_| None).ok(), Some(true));
    }
}
