//! The events of the standard about the stages of a job: its start, the end of each rank, its own end.
//!
//! The events go to handlers that name their codes, and not to default handlers, because libraries of MPI abort in
//! these. A process that spawns a job may ask for the job's end in its default handler. The server keeps those about a
//! job for processes that register later. It does not keep those about a rank, because the ranks of a large job would
//! push out all other events.

use modex::events::FOR_DEFAULT_ALONE;
use modex::keys;
use modex::types::codes::proc_state;
use modex::types::codes::range::{RANGE_CUSTOM, RANGE_SESSION};
use modex::types::{DataArray, DataType, Info, Key, Namespace, ProcId, Rank, Status, Value};

use super::verdict::{Cause, Ending};

/// An event to raise.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LifeEvent {
    pub(super) status: Status,
    /// The processes that get it.
    pub(super) range: u8,
    pub(super) infos: Vec<Info>,
}

impl LifeEvent {
    /// The process in whose name the event is raised, if it is not the launcher. PRRTE raises the end of a job in the
    /// name of rank 0, and daemons of debuggers look for their job there.
    pub(super) fn source(&self) -> Option<ProcId> {
        let job = self.infos.iter().find(|info| info.key.as_str() == keys::NSPACE.name())?.value.as_str()?;
        let namespace = Namespace::new(job).ok().filter(|_| self.status == Status::EVENT_JOB_END)?;
        Some(ProcId::new(namespace, 0))
    }
}

/// The end of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RankEnd {
    pub(super) ending: Ending,
    /// Whether the launcher, or a process that may control ranks, has asked for the end.
    pub(super) is_requested: bool,
    /// Whether it was a member of the job and did not finalize.
    pub(super) is_unfinalized: bool,
}

/// The end of one job.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JobEnd {
    pub(super) status: Status,
    /// The first failed process.
    pub(super) failed: Option<ProcId>,
    pub(super) exit_code: u8,
    /// The reason, for people.
    pub(super) text: Option<String>,
}

impl RankEnd {
    /// The status of the standard for this end.
    pub(super) const fn status(self) -> Status {
        match self.ending {
            Ending::Signaled(_) if self.is_requested => Status::ERR_PROC_KILLED_BY_CMD,
            Ending::Signaled(_) => Status::ERR_PROC_ABORTED_BY_SIG,
            Ending::Exited(0) if self.is_unfinalized => Status::ERR_PROC_TERM_WO_SYNC,
            Ending::Exited(0) => Status::SUCCESS,
            Ending::Exited(_) => Status::ERR_EXIT_NONZERO_TERM,
        }
    }

    const fn state(self) -> u8 {
        match self.ending {
            Ending::Signaled(_) if self.is_requested => proc_state::PROC_STATE_KILLED_BY_CMD,
            Ending::Signaled(_) => proc_state::PROC_STATE_ABORTED_BY_SIG,
            Ending::Exited(0) if self.is_unfinalized => proc_state::PROC_STATE_TERM_WO_SYNC,
            Ending::Exited(0) => proc_state::PROC_STATE_TERMINATED,
            Ending::Exited(_) => proc_state::PROC_STATE_TERM_NON_ZERO,
        }
    }
}

impl Cause {
    /// The status of the standard for a job that this has ended.
    pub(super) const fn job_status(&self) -> Status {
        match self {
            Self::Rank { by: Some(_), .. } | Self::Left { by: Some(_), .. } | Self::Unfinalized { by: Some(_), .. } => {
                Status::ERR_JOB_KILLED_BY_CMD
            }
            Self::Rank { ending, .. } | Self::Left { failure: ending, .. } => match ending {
                Ending::Exited(_) => Status::ERR_JOB_NON_ZERO_TERM,
                Ending::Signaled(_) => Status::ERR_JOB_ABORTED_BY_SIG,
            },
            Self::Unfinalized { .. } => Status::ERR_JOB_TERM_WO_SYNC,
            Self::Abort { .. } => Status::ERR_JOB_ABORTED,
            Self::Asked { .. } | Self::Signal(_) => Status::ERR_JOB_KILLED_BY_CMD,
            Self::ToolGone => Status::ERR_JOB_CANCELED,
            Self::Timeout(_) => Status::ERR_TIMEOUT,
        }
    }
}

/// The launcher waits for its tool before it starts its job.
pub(super) fn of_ready(launcher: &ProcId) -> LifeEvent {
    let infos = vec![
        info(keys::NSPACE.name(), launcher.namespace.as_str().into()),
        info(keys::EVENT_AFFECTED_PROC.name(), launcher.clone().into()),
        info(keys::EVENT_NON_DEFAULT.name(), true.into()),
    ];
    LifeEvent { status: Status::LAUNCHER_READY, range: RANGE_SESSION, infos }
}

/// A job's first process has started, or its last one. `time` is in seconds since 1970.
pub(super) fn of_start(namespace: &Namespace, is_complete: bool, time: u64) -> LifeEvent {
    let status = if is_complete { Status::LAUNCH_COMPLETE } else { Status::EVENT_JOB_START };
    LifeEvent { status, range: RANGE_SESSION, infos: about_job(namespace, time) }
}

/// All ranks of a job that wait for a debugger have reached this place. Debuggers ask for the events of the job, or as
/// at PRRTE for those of the launcher.
pub(super) fn of_stop(launcher: &ProcId, namespace: &Namespace, breakpoint: &str, time: u64) -> LifeEvent {
    let mut infos = about_job(namespace, time);
    let job = ProcId { namespace: namespace.clone(), rank: Rank::Wildcard };
    let affected = [job, launcher.clone()].map(Value::from).to_vec();
    let affected = Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements: affected }));
    infos.push(info(keys::EVENT_AFFECTED_PROCS.name(), affected));
    infos.push(info(keys::BREAKPOINT.name(), breakpoint.into()));
    LifeEvent { status: Status::READY_FOR_DEBUG, range: RANGE_SESSION, infos }
}

/// Processes have to save their state under this name.
pub(super) fn of_checkpoint(procs: Vec<ProcId>, name: &str) -> LifeEvent {
    let infos = vec![info(keys::JOB_CTRL_CHECKPOINT.name(), name.into())];
    for_these(procs, Status::JCTRL_CHECKPOINT, infos)
}

/// Processes will be asked to end.
pub(super) fn of_preemption(procs: Vec<ProcId>) -> LifeEvent {
    for_these(procs, Status::JCTRL_PREEMPT_ALERT, Vec::new())
}

fn for_these(procs: Vec<ProcId>, status: Status, mut infos: Vec<Info>) -> LifeEvent {
    let elements = procs.into_iter().map(Value::from).collect();
    let procs = Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements }));
    infos.push(info(keys::EVENT_CUSTOM_RANGE.name(), procs));
    infos.push(info(keys::EVENT_NON_DEFAULT.name(), true.into()));
    infos.push(info(keys::EVENT_DO_NOT_CACHE.name(), true.into()));
    LifeEvent { status, range: RANGE_CUSTOM, infos }
}

/// A process has asked for the end of its job.
pub(super) fn of_abort(proc: &ProcId, exit_code: i32, message: &str, time: u64) -> LifeEvent {
    let mut infos = about(proc.clone(), time);
    infos.push(info(keys::EXIT_CODE.name(), Value::Int(exit_code)));
    infos.extend(text(message));
    LifeEvent { status: Status::ERR_PROC_REQUESTED_ABORT, range: RANGE_SESSION, infos }
}

/// A rank has ended. The second event is about an abnormal end alone, under the status of this end.
pub(super) fn of_rank(proc: &ProcId, end: RankEnd, time: u64) -> Vec<LifeEvent> {
    let mut infos = about(proc.clone(), time);
    infos.push(info(keys::EXIT_CODE.name(), Value::Int(end.ending.shell_status().into())));
    infos.push(info(keys::PROC_TERM_STATUS.name(), Value::Status(end.status().to_raw())));
    infos.push(info(keys::PROC_STATE_STATUS.name(), Value::ProcState(end.state())));
    infos.push(info(keys::EVENT_DO_NOT_CACHE.name(), true.into()));
    infos.extend(text(&end.ending.to_string()).filter(|_| end.status() != Status::SUCCESS));
    let abnormal = Some(end.status()).filter(|status| *status != Status::SUCCESS);
    let codes = [Some(Status::EVENT_PROC_TERMINATED), abnormal];
    let event = |status| LifeEvent { status, range: RANGE_SESSION, infos: infos.clone() };
    codes.into_iter().flatten().map(event).collect()
}

/// A job has ended. The second event is for the process that has spawned the job with `PMIX_NOTIFY_COMPLETION`, if that
/// process has no handler but a default one.
pub(super) fn of_job(namespace: &Namespace, end: &JobEnd, awaited_by: Option<&ProcId>, time: u64) -> Vec<LifeEvent> {
    let mut infos = about_job(namespace, time);
    infos.push(info(keys::JOB_TERM_STATUS.name(), Value::Status(end.status.to_raw())));
    infos.push(info(keys::EXIT_CODE.name(), Value::Int(end.exit_code.into())));
    infos.extend(end.failed.clone().map(|proc| info(keys::PROCID.name(), proc.into())));
    infos.extend(end.text.as_deref().and_then(text));
    let own = awaited_by.map(|proc| {
        let mut infos = infos.clone();
        infos.retain(|info| info.key.as_str() != keys::EVENT_NON_DEFAULT.name());
        infos.push(info(keys::EVENT_CUSTOM_RANGE.name(), proc.clone().into()));
        infos.push(info(FOR_DEFAULT_ALONE, true.into()));
        LifeEvent { status: Status::EVENT_JOB_END, range: RANGE_CUSTOM, infos }
    });
    let of_all = LifeEvent { status: Status::EVENT_JOB_END, range: RANGE_SESSION, infos };
    std::iter::once(of_all).chain(own).collect()
}

fn about_job(namespace: &Namespace, time: u64) -> Vec<Info> {
    about(ProcId { namespace: namespace.clone(), rank: Rank::Wildcard }, time)
}

fn about(proc: ProcId, time: u64) -> Vec<Info> {
    vec![
        info(keys::NSPACE.name(), proc.namespace.as_str().into()),
        info(keys::EVENT_AFFECTED_PROC.name(), proc.into()),
        info(keys::EVENT_TIMESTAMP.name(), Value::Time(time)),
        info(keys::EVENT_NON_DEFAULT.name(), true.into()),
    ]
}

fn text(text: &str) -> Option<Info> {
    (!text.is_empty()).then(|| info(keys::EVENT_TEXT_MESSAGE.name(), text.into()))
}

fn info(key: &'static str, value: Value) -> Info {
    Info::new(Key::from_static(key), value)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::run::rank_id::RankId;

    const ENDED: RankEnd = RankEnd { ending: Ending::Exited(0), is_requested: false, is_unfinalized: false };

    fn proc() -> ProcId {
        ProcId::new(Namespace::new("job").unwrap(), 3)
    }

    #[test]
    fn a_rank_that_ends_well_is_one_event_and_another_end_is_two() {
        for (end, expected) in [
            (ENDED, None),
            (RankEnd { is_requested: true, ..ENDED }, None),
            (RankEnd { is_unfinalized: true, ..ENDED }, Some(Status::ERR_PROC_TERM_WO_SYNC)),
            (RankEnd { ending: Ending::Exited(3), ..ENDED }, Some(Status::ERR_EXIT_NONZERO_TERM)),
            (RankEnd { ending: Ending::Signaled(9), ..ENDED }, Some(Status::ERR_PROC_ABORTED_BY_SIG)),
            (
                RankEnd { ending: Ending::Signaled(9), is_requested: true, ..ENDED },
                Some(Status::ERR_PROC_KILLED_BY_CMD),
            ),
        ] {
            let statuses: Vec<Status> = of_rank(&proc(), end, 7).iter().map(|event| event.status).collect();
            assert_eq!(
                statuses,
                [Some(Status::EVENT_PROC_TERMINATED), expected].into_iter().flatten().collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn no_event_reaches_default_handlers_and_each_has_a_time_and_a_process() {
        let end = JobEnd { status: Status::SUCCESS, failed: None, exit_code: 0, text: None };
        let namespace = proc().namespace;
        let mut events = vec![of_start(&namespace, false, 7), of_start(&namespace, true, 7)];
        events.extend(of_job(&namespace, &end, None, 7));
        events.push(of_abort(&proc(), 3, "", 7));
        events.extend(of_rank(&proc(), ENDED, 7));
        for LifeEvent { status, infos, .. } in events {
            let value = |key: &str| infos.iter().find(|info| info.key.as_str() == key).map(|info| &info.value);
            assert_eq!(value(keys::EVENT_NON_DEFAULT.name()), Some(&Value::Bool(true)), "{status}");
            assert_eq!(value(keys::EVENT_TIMESTAMP.name()), Some(&Value::Time(7)), "{status}");
            assert!(matches!(value(keys::EVENT_AFFECTED_PROC.name()), Some(Value::Proc(_))), "{status}");
            assert_eq!(value(keys::EVENT_TEXT_MESSAGE.name()), None, "{status}");
        }
    }

    #[test]
    fn a_spawner_that_wants_the_end_of_its_job_gets_it_in_its_default_handler() {
        let end = JobEnd { status: Status::SUCCESS, failed: None, exit_code: 0, text: None };
        let events = of_job(&proc().namespace, &end, Some(&ProcId::new(proc().namespace, 8)), 7);
        let has = |event: &LifeEvent, key: &str| event.infos.iter().any(|info| info.key.as_str() == key);
        let ranges: Vec<_> =
            events.iter().map(|event| (event.range, has(event, keys::EVENT_NON_DEFAULT.name()))).collect();
        assert_eq!(ranges, [(RANGE_SESSION, true), (RANGE_CUSTOM, false)]);
        assert!(has(&events[1], keys::EVENT_CUSTOM_RANGE.name()));
    }

    #[test]
    fn each_cause_of_a_jobs_end_has_a_status() {
        let failed = Cause::Abort { requester: "rank 0".into(), rank: None, status: 3, message: String::new() };
        assert_eq!(failed.job_status(), Status::ERR_JOB_ABORTED);
        assert_eq!(Cause::Timeout(Duration::ZERO).job_status(), Status::ERR_TIMEOUT);
        assert_eq!(Cause::Signal(2).job_status(), Status::ERR_JOB_KILLED_BY_CMD);
        let rank = RankId { job: 0, rank: 1 };
        let ended = |ending, by: Option<&str>| Cause::Rank { rank, ending, by: by.map(str::to_owned) }.job_status();
        assert_eq!(ended(Ending::Exited(3), None), Status::ERR_JOB_NON_ZERO_TERM);
        assert_eq!(ended(Ending::Signaled(9), None), Status::ERR_JOB_ABORTED_BY_SIG);
        for ending in [Ending::Exited(3), Ending::Signaled(9)] {
            assert_eq!(ended(ending, Some("tool")), Status::ERR_JOB_KILLED_BY_CMD);
        }
        assert_eq!(Cause::Unfinalized { rank, by: None }.job_status(), Status::ERR_JOB_TERM_WO_SYNC);
        let asked = Cause::Unfinalized { rank, by: Some("tool".into()) };
        assert_eq!(asked.job_status(), Status::ERR_JOB_KILLED_BY_CMD);
    }
}
