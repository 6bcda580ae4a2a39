//! Daemons of a debugger: jobs that start beside the processes of another job and do not count as ranks of it.
//!
//! Source: PMIx Standard, chapter on tools and debuggers.

use modex::Spawn;
use modex::keys::{self, TypedKey};
use modex::types::{Info, ProcId, Status, Value};

/// The directives, for a job or an application.
pub(super) const KNOWN: [&str; 4] = [
    keys::DEBUGGER_DAEMONS.name(),
    keys::DEBUG_TARGET.name(),
    keys::DEBUG_DAEMONS_PER_NODE.name(),
    keys::DEBUG_DAEMONS_PER_PROC.name(),
];

/// Why daemons can't be started.
#[derive(Debug, thiserror::Error)]
pub(super) enum DaemonsRefusal {
    /// Daemons and other ranks in one job.
    #[error("some of its applications are daemons of a debugger and others are not; spawn the daemons on their own")]
    Mixed,
    /// A number of daemons for each process or node of no job.
    #[error("it asks for daemons of a debugger and names no target")]
    NoTarget,
    /// A target that does not run.
    #[error("its target {target} does not run")]
    TargetGone {
        /// The target.
        target: String,
    },
    /// Two numbers of daemons.
    #[error("it asks for daemons of a debugger per node and per process; name one number")]
    Twice,
    /// A directive of the wrong type.
    #[error("the value of {key} has the wrong type")]
    WrongType {
        /// The directive.
        key: &'static str,
    },
}

impl DaemonsRefusal {
    /// The answer for the requester.
    pub(super) const fn status(&self) -> Status {
        match self {
            Self::Mixed => Status::ERR_NOT_SUPPORTED,
            Self::TargetGone { .. } => Status::ERR_NOT_FOUND,
            Self::NoTarget | Self::Twice | Self::WrongType { .. } => Status::ERR_BAD_PARAM,
        }
    }
}

/// What a request says about daemons.
#[derive(Debug, Default, PartialEq)]
pub(super) struct DebugDaemons {
    /// Whether its processes are daemons.
    pub(super) are_daemons: bool,
    /// Their target, as they get it.
    pub(super) target: Option<Info>,
    /// The number of processes of each application, if the target gives it.
    count: Option<u32>,
}

impl DebugDaemons {
    /// Reads a request. `targets` is the number of processes that a target has; zero if no job runs that has it.
    pub(super) fn of(request: &Spawn, targets: impl Fn(&ProcId) -> u32) -> Result<Self, DaemonsRefusal> {
        let flags = request.apps.iter().filter(|app| is_set(&app.info)).count();
        let is_whole = is_set(&request.job) || flags == request.apps.len();
        if flags > 0 && !is_whole {
            return Err(DaemonsRefusal::Mixed);
        }
        let infos = || request.job.iter().chain(request.apps.iter().flat_map(|app| &app.info));
        let numbers = [number(infos(), keys::DEBUG_DAEMONS_PER_NODE)?, number(infos(), keys::DEBUG_DAEMONS_PER_PROC)?];
        let Some(info) = infos().find(|info| info.key.as_str() == keys::DEBUG_TARGET.name()) else {
            return match numbers {
                [None, None] => Ok(Self { are_daemons: flags > 0 || is_set(&request.job), ..Self::default() }),
                _ => Err(DaemonsRefusal::NoTarget),
            };
        };
        let Value::Proc(target) = &info.value else {
            return Err(DaemonsRefusal::WrongType { key: keys::DEBUG_TARGET.name() });
        };
        let processes = targets(target);
        if processes == 0 {
            return Err(DaemonsRefusal::TargetGone { target: target.to_string() });
        }
        let count = match numbers {
            // The launcher has one node.
            [Some(of_node), None] => Some(of_node),
            [None, Some(of_process)] => Some(of_process.saturating_mul(processes)),
            [Some(_), Some(_)] => return Err(DaemonsRefusal::Twice),
            [None, None] => request.apps.iter().all(|app| app.processes_max == 0).then_some(processes),
        };
        Ok(Self { are_daemons: true, target: Some(info.clone()), count })
    }

    /// Gives each application its number of processes.
    pub(super) fn apply(&self, request: &mut Spawn) {
        let Some(count) = self.count else { return };
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        request.apps.iter_mut().for_each(|app| app.processes_max = count);
    }
}

fn is_set(infos: &[Info]) -> bool {
    let name = keys::DEBUGGER_DAEMONS.name();
    infos.iter().any(|info| info.key.as_str() == name && info.value.as_bool() == Some(true))
}

fn number<'a>(mut infos: impl Iterator<Item = &'a Info>, key: TypedKey<u16>) -> Result<Option<u32>, DaemonsRefusal> {
    let Some(info) = infos.find(|info| info.key.as_str() == key.name()) else { return Ok(None) };
    let number = info.value.as_u32().filter(|number| *number <= u16::MAX.into());
    number.map(Some).ok_or(DaemonsRefusal::WrongType { key: key.name() })
}

#[cfg(test)]
mod tests {
    use modex::types::{App, Key, Namespace, Rank, Text};

    use super::*;

    fn info(key: &'static str, value: impl Into<Value>) -> Info {
        Info::new(Key::from_static(key), value)
    }

    fn app(info: Vec<Info>, processes_max: i32) -> App {
        let command = Some(Text::from("daemon"));
        App { command, argv: Vec::new(), environment: Vec::new(), working_directory: None, processes_max, info }
    }

    fn target() -> Info {
        let job = Namespace::new("job").unwrap();
        info(keys::DEBUG_TARGET.name(), ProcId { namespace: job, rank: Rank::Wildcard })
    }

    /// The number of daemons beside a job of three processes.
    fn count(job: Vec<Info>, processes_max: i32) -> Result<i32, Status> {
        let mut request = Spawn::new(job, vec![app(Vec::new(), processes_max)]);
        let daemons = DebugDaemons::of(&request, |target| if target.rank == Rank::Wildcard { 3 } else { 0 });
        let daemons = daemons.map_err(|refusal| refusal.status())?;
        assert!(daemons.are_daemons && daemons.target == Some(target()));
        daemons.apply(&mut request);
        Ok(request.apps[0].processes_max)
    }

    #[test]
    fn the_target_gives_the_number_of_daemons() {
        let of_node = || info(keys::DEBUG_DAEMONS_PER_NODE.name(), Value::Uint16(2));
        let of_process = || info(keys::DEBUG_DAEMONS_PER_PROC.name(), Value::Uint16(2));
        assert_eq!(count(vec![target(), of_node()], 7), Ok(2));
        assert_eq!(count(vec![target(), of_process()], 7), Ok(6));
        assert_eq!([0, 7].map(|max| count(vec![target()], max)), [Ok(3), Ok(7)]);
        assert_eq!(count(vec![target(), of_node(), of_process()], 0), Err(Status::ERR_BAD_PARAM));
        let wrong = info(keys::DEBUG_DAEMONS_PER_NODE.name(), "two");
        assert_eq!(count(vec![target(), wrong], 0), Err(Status::ERR_BAD_PARAM));
        assert_eq!(count(vec![of_node()], 0), Err(Status::ERR_BAD_PARAM));
        let gone = info(keys::DEBUG_TARGET.name(), ProcId::new(Namespace::new("job").unwrap(), 9));
        assert_eq!(count(vec![gone], 0), Err(Status::ERR_NOT_FOUND));
        assert_eq!(count(vec![info(keys::DEBUG_TARGET.name(), "job")], 0), Err(Status::ERR_BAD_PARAM));
    }

    #[test]
    fn daemons_are_marked_by_the_job_or_by_all_applications() {
        let mark = || vec![info(keys::DEBUGGER_DAEMONS.name(), true)];
        let of = |job, apps| DebugDaemons::of(&Spawn::new(job, apps), |_| 0).map_err(|refusal| refusal.status());
        let are_daemons = |job, apps| of(job, apps).unwrap().are_daemons;
        assert!(are_daemons(mark(), vec![app(Vec::new(), 1)]) && are_daemons(Vec::new(), vec![app(mark(), 1)]));
        assert!(!are_daemons(Vec::new(), vec![app(Vec::new(), 1)]));
        assert_eq!(of(Vec::new(), vec![app(mark(), 1), app(Vec::new(), 1)]), Err(Status::ERR_NOT_SUPPORTED));
    }
}
