//! Jobs that processes of a running job ask for (`PMIx_Spawn`).

use modex::types::codes::range::RANGE_CUSTOM;
use modex::types::{Info, Key, Namespace, NamespaceError, ProcId, Rank, Status, Value};
use modex::{Responder, ServerError, Spawn, keys};

use super::{JobError, LaunchedJob, MpiSetup, variable};
use crate::run::apps::RANK_COUNT_MAX;
use crate::run::jobs::Job;
use crate::run::plan::Plan;
use crate::run::spawn_request::{self, SpawnRefusal, Surroundings};

/// Why a process gets no job.
#[derive(Debug, thiserror::Error)]
enum SpawnFailure {
    #[error(transparent)]
    Refused(#[from] SpawnRefusal),
    #[error("the jobs of this launcher are ending")]
    Ending,
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
            Self::Start(error) => error.status(),
            Self::Namespace(_) => Status::ERR_JOB_FAILED_TO_LAUNCH,
        }
    }
}

impl JobError {
    /// The status for a process that asked for the job.
    fn status(&self) -> Status {
        match self {
            Self::Spawn(error) => error.status(),
            _ => Status::ERR_JOB_FAILED_TO_LAUNCH,
        }
    }
}

impl LaunchedJob {
    /// Starts a job for a process, and answers when all its ranks have started.
    pub(super) fn serve_spawn(&mut self, requester: ProcId, request: &Spawn, reply: Responder<Namespace>) {
        match self.spawn(&requester, request) {
            Ok(namespace) => reply.succeed(namespace),
            Err(failure) => {
                tracing::warn!(%requester, "the job that a process asks for can't be spawned: {failure}");
                reply.fail(failure.status());
            }
        }
    }

    fn spawn(&mut self, requester: &ProcId, request: &Spawn) -> Result<Namespace, SpawnFailure> {
        if !self.verdict.permits_jobs() {
            return Err(SpawnFailure::Ending);
        }
        let room = u64::from(RANK_COUNT_MAX).saturating_sub(self.children.count() as u64);
        let surroundings = Surroundings {
            hostname: self.server.hostname(),
            session_directory: self.server.directory(),
            parent: self.jobs.app(requester),
            lookup: &variable,
        };
        let apps = spawn_request::read(request, room, &surroundings)?;
        let number = self.jobs.next_number();
        let mut plan = self.plan.spawned(number, requester.clone(), apps, self.children.count())?;
        plan.values = spawn_request::pmi_values(request).cloned().collect();
        let awaits =
            |info: &Info| info.key.as_str() == keys::NOTIFY_COMPLETION.name() && info.value.as_bool() == Some(true);
        let awaited_by = request.job.iter().any(awaits).then(|| requester.clone());
        self.jobs.insert(number, Job::of(&plan, awaited_by));
        self.verdict.add(number, plan.rank_count());
        match self.start_spawned(&plan) {
            Ok(()) => Ok(plan.namespace),
            Err(error) => {
                self.output_writer.close_job(number);
                self.remove(number);
                Err(error.into())
            }
        }
    }

    fn start_spawned(&mut self, plan: &Plan) -> Result<(), JobError> {
        let pmi = self.settings.pmi;
        let mpi_setups: Vec<MpiSetup> = plan.apps.iter().map(|app| MpiSetup::of(app, pmi, variable)).collect();
        self.output_writer.open_files(plan.job, plan.rank_count())?;
        self.register(plan)?;
        self.start_ranks(plan, &mpi_setups)
    }

    /// All ranks of a spawned job have ended. The names of its ranks stay if they may be the cause of the launcher's end.
    pub(super) fn end_spawned(&mut self, number: u32) {
        if !self.verdict.permits_jobs() {
            return;
        }
        let Some(job) = self.remove(number) else { return };
        let Some(awaited_by) = job.awaited_by else { return };
        if let Err(error) = self.report_end(&job.namespace, awaited_by) {
            tracing::warn!(job = %job.namespace, %error, "the launcher cannot report the end of a spawned job");
        }
    }

    fn report_end(&self, namespace: &Namespace, awaited_by: ProcId) -> Result<(), ServerError> {
        let info = |key, value: Value| Info::new(Key::from_static(key), value);
        let affected = ProcId { namespace: namespace.clone(), rank: Rank::Wildcard };
        let infos = [
            info(keys::EVENT_AFFECTED_PROC.name(), affected.into()),
            info(keys::JOB_TERM_STATUS.name(), Value::Status(Status::SUCCESS.to_raw())),
            info(keys::EVENT_CUSTOM_RANGE.name(), awaited_by.into()),
        ];
        let source = Some(self.server.proc());
        self.server.notify_event(Status::EVENT_JOB_END, source, RANGE_CUSTOM, &infos).wait()
    }

    fn remove(&mut self, number: u32) -> Option<Job> {
        self.children.remove(number);
        self.verdict.remove(number);
        self.speaks_pmi.retain(|id| id.job != number);
        let job = self.jobs.remove(number)?;
        if let Err(error) = self.server.deregister_namespace(&job.namespace).wait() {
            tracing::warn!(job = %job.namespace, %error, "the launcher cannot report the end of a job to the server");
        }
        Some(job)
    }
}
