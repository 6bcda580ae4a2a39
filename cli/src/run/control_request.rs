//! A process's request to control others (`PMIx_Job_control`), read into an action and its targets. No process gets a
//! signal here.
//!
//! Source: PMIx Standard, chapter on job control.

use std::collections::{BTreeMap, BTreeSet};

use modex::keys;
use modex::types::{AsStatus, Info, Namespace, ProcId, Rank, Status, Value};
use modex::{JobControl, ServerError};
use rustix::process::Signal;

use super::rank_id::RankId;

/// The action on the targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ControlAction {
    /// Stop the targets and their descendants.
    Pause,
    /// Continue them.
    Resume,
    /// Send them this signal.
    Signal(Signal),
    /// Ask them to end, and kill them after the grace period.
    Terminate,
    /// Kill them.
    Kill,
    /// Tell them to save their state under this name, in this way or as each of them wants.
    Checkpoint {
        /// The name.
        name: String,
        /// The way.
        method: Option<CheckpointMethod>,
    },
    /// Give the targets this name, as a process set.
    DefineProcessSet(String),
    /// Note the wishes of the targets.
    Note {
        /// How they want to be told to save their state.
        method: Option<CheckpointMethod>,
        /// Whether they want an alert before they are asked to end.
        is_preemptible: Option<bool>,
    },
}

/// How a process is told to save its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckpointMethod {
    /// By the event `PMIX_JCTRL_CHECKPOINT`.
    Event,
    /// By this signal.
    Signal(Signal),
}

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ControlRefusal {
    /// A directive that the launcher can't honour.
    #[error("modex run does not support {key}")]
    NotSupported {
        /// The directive.
        key: String,
    },
    /// A directive of the wrong type.
    #[error("the value of {key} has the wrong type")]
    WrongType {
        /// The directive.
        key: &'static str,
    },
    /// No action.
    #[error("it names no action that modex run supports")]
    NoAction,
    /// Several actions.
    #[error("it names several actions; send a request for each")]
    SeveralActions,
    /// A number that is no signal.
    #[error("{number} is not the number of a signal")]
    NoSignal {
        /// The number.
        number: i64,
    },
    /// A signal that the launcher can't send.
    #[error("modex run sends no signals of real time, such as {number}")]
    RealTime {
        /// Its number.
        number: i64,
    },
    /// A target that has not said how it saves its state.
    #[error("{0} has not told how it wants to hear of a checkpoint")]
    NoMethod(RankId),
    /// A target that is no process and no job.
    #[error("{0} names no process")]
    NoProcess(ProcId),
    /// A target that the launcher does not have.
    #[error("no process {0} runs under this launcher")]
    Unknown(ProcId),
    /// A process set with the name of a job.
    #[error("a process set can't have the name of the job {0}")]
    NameOfJob(String),
    /// The server refused a process set.
    #[error(transparent)]
    ProcessSet(#[from] ServerError),
    /// All targets have ended.
    #[error("its targets have ended")]
    Ended,
    /// The jobs are ending.
    #[error("the jobs of this launcher are ending")]
    Ending,
    /// The system refused a signal.
    #[error("the system permits the launcher no signal to a process, for example of a program with setuid")]
    Forbidden,
}

impl ControlRefusal {
    /// The answer for the requester.
    pub(super) fn status(&self) -> Status {
        match self {
            Self::NotSupported { .. } | Self::NoAction | Self::NoMethod(_) | Self::RealTime { .. } => {
                Status::ERR_NOT_SUPPORTED
            }
            Self::WrongType { .. }
            | Self::SeveralActions
            | Self::NoSignal { .. }
            | Self::NoProcess(_)
            | Self::NameOfJob(_) => Status::ERR_BAD_PARAM,
            Self::ProcessSet(error) => error.status(),
            Self::Unknown(_) | Self::Ended => Status::ERR_NOT_FOUND,
            Self::Ending => Status::ERR_JOB_CANCELED,
            Self::Forbidden => Status::ERR_NO_PERMISSIONS,
        }
    }
}

/// Actions of the standard that one machine's launcher does not have. A success without the action would be a lie.
const OTHER_ACTIONS: [&str; 7] = [
    keys::JOB_CTRL_CANCEL.name(),
    keys::JOB_CTRL_RESTART.name(),
    keys::JOB_CTRL_PROVISION.name(),
    keys::JOB_CTRL_PROVISION_IMAGE.name(),
    keys::JOB_CTRL_SEP.name(),
    // Removals for other users' processes; the server itself serves those of its own user.
    keys::REGISTER_CLEANUP.name(),
    keys::REGISTER_CLEANUP_DIR.name(),
];

/// Directives about saved states and preemption.
pub(super) const CHECKPOINTS: [&str; 5] = [
    keys::JOB_CTRL_CHECKPOINT.name(),
    keys::JOB_CTRL_CHECKPOINT_EVENT.name(),
    keys::JOB_CTRL_CHECKPOINT_SIGNAL.name(),
    keys::JOB_CTRL_CHECKPOINT_METHOD.name(),
    keys::JOB_CTRL_PREEMPTIBLE.name(),
];

/// Directives that change nothing here: the name of the request is for its cancellation, and it is over at once.
const OTHERS_KNOWN: [&str; 4] =
    [keys::JOB_CTRL_ID.name(), keys::USERID.name(), keys::GRPID.name(), keys::TIMEOUT.name()];

/// Linux's signals of real time.
const REAL_TIME: std::ops::RangeInclusive<i64> = 32..=64;

/// Actions that are on or off.
pub(super) const SWITCHES: [(&str, ControlAction); 4] = [
    (keys::JOB_CTRL_PAUSE.name(), ControlAction::Pause),
    (keys::JOB_CTRL_RESUME.name(), ControlAction::Resume),
    (keys::JOB_CTRL_TERMINATE.name(), ControlAction::Terminate),
    (keys::JOB_CTRL_KILL.name(), ControlAction::Kill),
];

/// The action of a request; none if it asks for nothing, as after the server's part of it.
pub(super) fn action(request: &JobControl) -> Result<Option<ControlAction>, ControlRefusal> {
    let mut found = checkpoint(&request.directives)?;
    for directive in &request.directives {
        let Some(action) = action_of(directive)? else { continue };
        if found.replace(action).is_some() {
            return Err(ControlRefusal::SeveralActions);
        }
    }
    if found.is_none() && turns_off_alerts(&request.directives) {
        return Ok(Some(ControlAction::Note { method: None, is_preemptible: Some(false) }));
    }
    let is_known = |info: &Info| {
        let key = info.key.as_str();
        [&OTHERS_KNOWN[..], &OTHER_ACTIONS, &CHECKPOINTS].iter().any(|known| known.contains(&key))
            || SWITCHES.iter().any(|(name, _)| *name == key)
    };
    if found.is_none() && !request.directives.iter().all(is_known) {
        return Err(ControlRefusal::NoAction);
    }
    Ok(found)
}

/// The action about saved states or preemption. A process tells its ways in an array, or by itself.
fn checkpoint(directives: &[Info]) -> Result<Option<ControlAction>, ControlRefusal> {
    let method = method_of(directives.iter())?;
    let find =
        |key: &'static str| directives.iter().find(|info| info.key.as_str() == key).map(|info| (key, &info.value));
    let preemptible = find(keys::JOB_CTRL_PREEMPTIBLE.name())
        .map(|(key, value)| value.as_bool().ok_or(ControlRefusal::WrongType { key }))
        .transpose()?;
    if let Some((key, name)) = find(keys::JOB_CTRL_CHECKPOINT.name()) {
        let name = name.as_str().ok_or(ControlRefusal::WrongType { key })?.to_owned();
        return match preemptible {
            Some(true) => Err(ControlRefusal::SeveralActions),
            _ => Ok(Some(ControlAction::Checkpoint { name, method })),
        };
    }
    let listed = match find(keys::JOB_CTRL_CHECKPOINT_METHOD.name()) {
        Some((key, Value::DataArray(array))) => {
            let infos = array.elements.iter().filter_map(|element| match element {
                Value::Info(info) => Some(&**info),
                _ => None,
            });
            Some(method_of(infos)?.ok_or_else(|| ControlRefusal::NotSupported { key: key.to_owned() })?)
        }
        Some((key, _)) => return Err(ControlRefusal::WrongType { key }),
        None => None,
    };
    let method = listed.or(method);
    // Beside another action, the end of alerts changes nothing.
    let is_wish = method.is_some() || preemptible == Some(true);
    Ok(is_wish.then_some(ControlAction::Note { method, is_preemptible: preemptible }))
}

/// Whether a request says that its targets want no alert. Beside another action this changes nothing.
fn turns_off_alerts(directives: &[Info]) -> bool {
    let is_meant =
        |info: &Info| info.key.as_str() == keys::JOB_CTRL_PREEMPTIBLE.name() && info.value.as_bool() == Some(false);
    directives.iter().any(is_meant)
}

/// The first way that the launcher has. Beside an event, a number is a time: both have one key.
fn method_of<'a>(infos: impl Iterator<Item = &'a Info> + Clone) -> Result<Option<CheckpointMethod>, ControlRefusal> {
    let [event, signalled] = [keys::JOB_CTRL_CHECKPOINT_EVENT.name(), keys::JOB_CTRL_CHECKPOINT_SIGNAL.name()];
    let find = |key: &str| infos.clone().find(|info| info.key.as_str() == key).map(|info| &info.value);
    if let Some(value) = find(event)
        && wants_event(event, value)?
    {
        return Ok(Some(CheckpointMethod::Event));
    }
    let Some(value) = find(signalled) else { return Ok(None) };
    let number = value.as_u64().and_then(|number| i64::try_from(number).ok());
    let number = number.ok_or(ControlRefusal::WrongType { key: signalled })?;
    Ok(Some(CheckpointMethod::Signal(signal(number)?)))
}

/// Whether a value asks for the event. OpenPMIx's examples give the event's code in place of a truth value.
fn wants_event(key: &'static str, value: &Value) -> Result<bool, ControlRefusal> {
    match value {
        Value::Status(code) if *code == Status::JCTRL_CHECKPOINT.to_raw() => Ok(true),
        Value::Status(_) => Err(ControlRefusal::NotSupported { key: key.to_owned() }),
        value => value.as_bool().ok_or(ControlRefusal::WrongType { key }),
    }
}

fn action_of(directive: &Info) -> Result<Option<ControlAction>, ControlRefusal> {
    let key = directive.key.as_str();
    if let Some((key, action)) = SWITCHES.into_iter().find(|(name, _)| *name == key) {
        let is_on = directive.value.as_bool().ok_or(ControlRefusal::WrongType { key })?;
        return Ok(is_on.then_some(action));
    }
    if key == keys::JOB_CTRL_SIGNAL.name() {
        let number = directive.value.as_u64().and_then(|number| i64::try_from(number).ok());
        let number = number.ok_or(ControlRefusal::WrongType { key: keys::JOB_CTRL_SIGNAL.name() })?;
        return signal(number).map(|signal| Some(ControlAction::Signal(signal)));
    }
    if key == keys::JOB_CTRL_DEFINE_PSET.name() {
        let name =
            directive.value.as_str().ok_or(ControlRefusal::WrongType { key: keys::JOB_CTRL_DEFINE_PSET.name() })?;
        return Ok(Some(ControlAction::DefineProcessSet(name.to_owned())));
    }
    let is_off = directive.value.as_bool() == Some(false);
    if CHECKPOINTS.contains(&key) {
        return Ok(None);
    }
    if OTHER_ACTIONS.contains(&key) && !is_off || keys::is_unmet(directive, |key| OTHERS_KNOWN.contains(&key)) {
        return Err(ControlRefusal::NotSupported { key: key.to_owned() });
    }
    Ok(None)
}

fn signal(number: i64) -> Result<Signal, ControlRefusal> {
    if REAL_TIME.contains(&number) {
        return Err(ControlRefusal::RealTime { number });
    }
    let signal = i32::try_from(number).ok().and_then(Signal::from_named_raw);
    signal.ok_or(ControlRefusal::NoSignal { number })
}

/// The ranks that can be controlled.
#[derive(Debug)]
pub(super) struct Ranks {
    /// The jobs of the ranks.
    pub(super) jobs: BTreeMap<Namespace, u32>,
    /// Ranks that have not ended.
    pub(super) running: BTreeSet<RankId>,
    /// The requester's own job, unless it is a tool.
    pub(super) of_requester: Option<u32>,
}

impl Ranks {
    /// The running ranks that a request means. `has_rank`: whether there is or was such a rank.
    pub(super) fn targets(
        &self,
        request: &JobControl,
        has_rank: impl Fn(RankId) -> bool,
    ) -> Result<BTreeSet<RankId>, ControlRefusal> {
        let running = self.running.iter().copied();
        if request.targets.is_empty() {
            // A tool has no job of its own. Tools of the reference mean the launcher then.
            return some(running.filter(|rank| self.of_requester.is_none_or(|job| rank.job == job)).collect());
        }
        let mut ranks = BTreeSet::new();
        let mut whole = BTreeSet::new();
        for target in &request.targets {
            let job = *self.jobs.get(&target.namespace).ok_or_else(|| ControlRefusal::Unknown(target.clone()))?;
            match target.rank {
                Rank::Process(rank) => {
                    let id = RankId { job, rank };
                    if !has_rank(id) {
                        return Err(ControlRefusal::Unknown(target.clone()));
                    }
                    ranks.extend(self.running.get(&id));
                }
                Rank::Wildcard | Rank::LocalNode | Rank::LocalPeers => drop(whole.insert(job)),
                _ => return Err(ControlRefusal::NoProcess(target.clone())),
            }
        }
        ranks.extend(running.filter(|rank| whole.contains(&rank.job)));
        some(ranks)
    }
}

fn some(ranks: BTreeSet<RankId>) -> Result<BTreeSet<RankId>, ControlRefusal> {
    if ranks.is_empty() { Err(ControlRefusal::Ended) } else { Ok(ranks) }
}

#[cfg(test)]
mod tests {
    use modex::types::Key;

    use super::*;
    use modex::types::InfoFlags;

    fn info(key: &'static str, value: impl Into<Value>) -> Info {
        Info::new(Key::from_static(key), value)
    }

    fn read(directives: Vec<Info>) -> Result<ControlAction, ControlRefusal> {
        action(&JobControl::new(Vec::new(), directives)).map(Option::unwrap)
    }

    #[test]
    fn a_request_has_one_action() {
        let pause = || info(keys::JOB_CTRL_PAUSE.name(), true);
        let named = info(keys::JOB_CTRL_ID.name(), "a");
        assert_eq!(read(vec![named, pause()]), Ok(ControlAction::Pause));
        assert_eq!(read(vec![info("own.key", 1_u32), pause()]), Ok(ControlAction::Pause));
        let kill = |value: Value| info(keys::JOB_CTRL_KILL.name(), value);
        assert_eq!(read(vec![kill(Value::Undefined)]), Ok(ControlAction::Kill));
        assert_eq!(read(vec![kill(Value::Bool(false)), pause()]), Ok(ControlAction::Pause));
        assert_eq!(read(vec![kill(Value::Bool(true)), pause()]), Err(ControlRefusal::SeveralActions));
        assert_eq!(read(vec![info("own.key", 1_u32)]), Err(ControlRefusal::NoAction));
        let nothing = vec![info(keys::JOB_CTRL_ID.name(), "a"), kill(Value::Bool(false))];
        assert_eq!(action(&JobControl::new(Vec::new(), nothing)), Ok(None));
        let wrong = ControlRefusal::WrongType { key: keys::JOB_CTRL_KILL.name() };
        assert_eq!(read(vec![kill(Value::from("yes"))]), Err(wrong));
    }

    #[test]
    fn signals_have_numbers() {
        let of = |value: Value| read(vec![info(keys::JOB_CTRL_SIGNAL.name(), value)]);
        assert_eq!(of(Value::Int(10)), Ok(ControlAction::Signal(Signal::USR1)));
        assert_eq!(of(Value::Uint8(9)), Ok(ControlAction::Signal(Signal::KILL)));
        assert_eq!(of(Value::Int(0)), Err(ControlRefusal::NoSignal { number: 0 }));
        assert_eq!(of(Value::Int(65)), Err(ControlRefusal::NoSignal { number: 65 }));
        assert_eq!(of(Value::Int(34)), Err(ControlRefusal::RealTime { number: 34 }));
        for value in [Value::Int(-1), Value::from("9"), Value::Uint64(u64::MAX)] {
            assert_eq!(of(value), Err(ControlRefusal::WrongType { key: keys::JOB_CTRL_SIGNAL.name() }));
        }
    }

    #[test]
    fn actions_and_required_directives_that_the_launcher_lacks_are_refused() {
        let kill = || info(keys::JOB_CTRL_KILL.name(), true);
        let refused = |key: &str| Err(ControlRefusal::NotSupported { key: key.to_owned() });
        let restart = keys::JOB_CTRL_RESTART.name();
        assert_eq!(read(vec![kill(), info(restart, "a")]), refused(restart));
        let set = keys::JOB_CTRL_DEFINE_PSET.name();
        assert_eq!(read(vec![info(set, 1_u32)]), Err(ControlRefusal::WrongType { key: set }));
        let preemptible = keys::JOB_CTRL_PREEMPTIBLE.name();
        assert_eq!(read(vec![kill(), info(preemptible, false)]), Ok(ControlAction::Kill));
        assert_eq!(read(vec![kill(), info(preemptible, true)]), Err(ControlRefusal::SeveralActions));
        let required = |key| Info { flags: InfoFlags::REQUIRED.bits(), ..info(key, "a") };
        assert_eq!(read(vec![kill(), required("own.key")]), refused("own.key"));
        assert_eq!(read(vec![kill(), required(keys::JOB_CTRL_ID.name())]), Ok(ControlAction::Kill));
    }

    #[test]
    fn a_checkpoint_has_a_name_and_a_way() {
        let (event, number) = (keys::JOB_CTRL_CHECKPOINT_EVENT.name(), keys::JOB_CTRL_CHECKPOINT_SIGNAL.name());
        let named = || info(keys::JOB_CTRL_CHECKPOINT.name(), "a");
        let of = |method| Ok(ControlAction::Checkpoint { name: "a".to_owned(), method });
        assert_eq!(read(vec![named()]), of(None));
        assert_eq!(read(vec![named(), info(event, true), info(number, 10)]), of(Some(CheckpointMethod::Event)));
        assert_eq!(read(vec![named(), info(number, 10)]), of(Some(CheckpointMethod::Signal(Signal::USR1))));
        let ways = |infos: Vec<Info>| info(keys::JOB_CTRL_CHECKPOINT_METHOD.name(), Value::info_array(infos));
        let noted = |method, is_preemptible| Ok(ControlAction::Note { method, is_preemptible });
        let by_event = Some(CheckpointMethod::Event);
        assert_eq!(read(vec![ways(vec![info("own.way", 1_u32), info(event, true)])]), noted(by_event, None));
        let refused = ControlRefusal::NotSupported { key: keys::JOB_CTRL_CHECKPOINT_METHOD.name().to_owned() };
        assert_eq!(read(vec![ways(vec![info("own.way", 1_u32)])]), Err(refused));
        let preemptible = info(keys::JOB_CTRL_PREEMPTIBLE.name(), true);
        assert_eq!(read(vec![preemptible.clone()]), noted(None, Some(true)));
        // A request of OpenPMIx's example `jctrl`.
        let code = |status: Status| info(event, Value::Status(status.to_raw()));
        let both = vec![info(number, 12), code(Status::JCTRL_CHECKPOINT)];
        assert_eq!(read(vec![preemptible, ways(both)]), noted(by_event, Some(true)));
        let refused = ControlRefusal::NotSupported { key: event.to_owned() };
        assert_eq!(read(vec![ways(vec![code(Status::JCTRL_CHECKPOINT_COMPLETE)])]), Err(refused));
        // The server adds the user and the group to a request.
        let signed = vec![
            info(keys::JOB_CTRL_PREEMPTIBLE.name(), false),
            info(keys::USERID.name(), 7_u32),
            info(keys::GRPID.name(), 7_u32),
        ];
        assert_eq!(read(signed), noted(None, Some(false)));
        assert_eq!(read(vec![named(), info(keys::JOB_CTRL_KILL.name(), true)]), Err(ControlRefusal::SeveralActions));
    }

    #[test]
    fn targets_are_processes_jobs_the_requesters_job_or_all() {
        let name = |text: &str| Namespace::new(text).unwrap();
        let jobs = BTreeMap::from([(name("a"), 0), (name("b"), 1)]);
        let id = |job, rank| RankId { job, rank };
        let running = BTreeSet::from([id(0, 0), id(0, 2), id(1, 0)]);
        let of = |targets: &[(&str, Rank)], requester: &str| {
            let named = targets.iter().map(|(job, rank)| ProcId { namespace: name(job), rank: *rank });
            let request = JobControl::new(named.collect(), Vec::new());
            let has_rank = |rank: RankId| rank.rank < [3, 1][rank.job as usize];
            let of_requester = jobs.get(&name(requester)).copied();
            let ranks = Ranks { jobs: jobs.clone(), running: running.clone(), of_requester };
            ranks
                .targets(&request, has_rank)
                .map(|ranks| ranks.into_iter().map(|rank| (rank.job, rank.rank)).collect::<Vec<_>>())
        };
        assert_eq!(of(&[], "b"), Ok(vec![(1, 0)]));
        assert_eq!(of(&[], "tool"), Ok(vec![(0, 0), (0, 2), (1, 0)]));
        assert_eq!(of(&[("a", Rank::Wildcard)], "b"), Ok(vec![(0, 0), (0, 2)]));
        assert_eq!(of(&[("a", 1.into()), ("b", 0.into())], "b"), Ok(vec![(1, 0)]));
        assert_eq!(of(&[("a", 1.into())], "b"), Err(ControlRefusal::Ended));
        let unknown = |job, rank| Err(ControlRefusal::Unknown(ProcId { namespace: name(job), rank }));
        assert_eq!(of(&[("a", 3.into())], "b"), unknown("a", 3.into()));
        assert_eq!(of(&[("a", 0.into()), ("c", Rank::Wildcard)], "b"), unknown("c", Rank::Wildcard));
        assert!(matches!(of(&[("a", Rank::Undefined)], "b"), Err(ControlRefusal::NoProcess(_))));
    }
}
