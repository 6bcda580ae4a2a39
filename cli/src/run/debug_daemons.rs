//! Daemons of a debugger: jobs that start beside the processes of another job and do not count as ranks of it.
//!
//! Source: PMIx Standard, chapter on tools and debuggers.

use modex::Spawn;
use modex::keys::{self, TypedKey};
use modex::types::{Info, Namespace, ProcId, Rank, Status, Value};

/// The directives, for a job or an application.
pub(super) const KNOWN: [&str; 5] = [
    keys::DEBUGGER_DAEMONS.name(),
    keys::DEBUG_TARGET.name(),
    keys::DEBUG_JOB.name(),
    keys::DEBUG_DAEMONS_PER_NODE.name(),
    keys::DEBUG_DAEMONS_PER_PROC.name(),
];

/// Why daemons can't be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DaemonsRefusal {
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
    /// Two values of a directive, for two applications, or two targets.
    #[error("its directives have different values of {key}; spawn such daemons one after the other")]
    Different {
        /// The directive.
        key: &'static str,
    },
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
            Self::Mixed | Self::Different { .. } => Status::ERR_NOT_SUPPORTED,
            Self::TargetGone { .. } => Status::ERR_NOT_FOUND,
            Self::NoTarget | Self::Twice | Self::WrongType { .. } => Status::ERR_BAD_PARAM,
        }
    }
}

/// The part of a request that concerns daemons.
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
        let is_of_job = is_set(&request.job)?;
        let marks: Vec<bool> = request.apps.iter().map(|app| is_set(&app.info)).collect::<Result<_, _>>()?;
        let is_any = marks.contains(&true);
        if is_any && !is_of_job && marks.contains(&false) {
            return Err(DaemonsRefusal::Mixed);
        }
        let numbers = [number(request, keys::DEBUG_DAEMONS_PER_NODE)?, number(request, keys::DEBUG_DAEMONS_PER_PROC)?];
        let Some((info, target)) = target(request)? else {
            return match numbers {
                [None, None] => Ok(Self { are_daemons: is_any || is_of_job, ..Self::default() }),
                _ => Err(DaemonsRefusal::NoTarget),
            };
        };
        let processes = targets(&target);
        if processes == 0 {
            return Err(DaemonsRefusal::TargetGone { target: target.to_string() });
        }
        let count = match numbers {
            // The launcher has one node.
            [Some(of_node), None] => Some(of_node),
            [None, Some(of_process)] => Some(of_process.saturating_mul(processes)),
            [Some(_), Some(_)] => return Err(DaemonsRefusal::Twice),
            [None, None] if request.apps.iter().any(|app| app.processes_max != 0) => None,
            // Tools that use the old key want one for each node: their `PMIX_MAPBY` says `ppr:1:node`.
            [None, None] if info.key.as_str() == keys::DEBUG_JOB.name() => Some(1),
            [None, None] => Some(mapped_per_node(request).unwrap_or(processes)),
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

/// The target: a process, or with the old key (`PMIX_DEBUG_JOB`) the namespace of a job.
fn target(request: &Spawn) -> Result<Option<(&Info, ProcId)>, DaemonsRefusal> {
    let key = keys::DEBUG_TARGET.name();
    let target = match single(request, key)? {
        None => None,
        Some(info) => match &info.value {
            Value::Proc(target) => Some((info, (**target).clone())),
            _ => return Err(DaemonsRefusal::WrongType { key }),
        },
    };
    let key = keys::DEBUG_JOB.name();
    let Some(info) = single(request, key)? else { return Ok(target) };
    let namespace = info.value.as_str().and_then(|name| Namespace::new(name).ok());
    let namespace = namespace.ok_or(DaemonsRefusal::WrongType { key })?;
    match target {
        Some((_, target)) if target.namespace != namespace => Err(DaemonsRefusal::Different { key }),
        Some(target) => Ok(Some(target)),
        None => Ok(Some((info, ProcId { namespace, rank: Rank::Wildcard }))),
    }
}

/// The number of processes for each node in a directive of PRRTE: `PMIX_MAPBY` is `ppr:NUMBER:node`.
fn mapped_per_node(request: &Spawn) -> Option<u32> {
    let infos = request.job.iter().chain(request.apps.iter().flat_map(|app| &app.info));
    let mut mappings = infos.filter(|info| info.key.as_str() == keys::MAPBY.name());
    let number = mappings.find_map(|info| info.value.as_str()?.strip_prefix("ppr:")?.strip_suffix(":node"))?;
    number.parse().ok().filter(|number| *number > 0)
}

/// Whether these infos mark daemons.
fn is_set(infos: &[Info]) -> Result<bool, DaemonsRefusal> {
    let key = keys::DEBUGGER_DAEMONS.name();
    let Some(info) = infos.iter().find(|info| info.key.as_str() == key) else { return Ok(false) };
    info.value.as_bool().ok_or(DaemonsRefusal::WrongType { key })
}

/// A directive of the job or of its applications, which must agree.
fn single<'a>(request: &'a Spawn, key: &'static str) -> Result<Option<&'a Info>, DaemonsRefusal> {
    let infos = request.job.iter().chain(request.apps.iter().flat_map(|app| &app.info));
    let mut named = infos.filter(|info| info.key.as_str() == key);
    let first = named.next();
    match named.any(|other| first.is_some_and(|first| first.value != other.value)) {
        true => Err(DaemonsRefusal::Different { key }),
        false => Ok(first),
    }
}

fn number(request: &Spawn, key: TypedKey<u16>) -> Result<Option<u32>, DaemonsRefusal> {
    let Some(info) = single(request, key.name())? else { return Ok(None) };
    let number = info.value.as_u32().filter(|number| *number <= u16::MAX.into());
    number.map(Some).ok_or(DaemonsRefusal::WrongType { key: key.name() })
}

#[cfg(test)]
mod tests {
    use modex::types::{App, Key, Text};

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

    /// OpenPMIx's example of a debugger names the job by the old key and wants a daemon for each node. It was refused.
    #[test]
    fn the_old_name_of_a_target_means_one_daemon_for_each_node() {
        let of = |target: Info, processes_max| {
            let mut request = Spawn::new(vec![target.clone()], vec![app(Vec::new(), processes_max)]);
            let daemons = DebugDaemons::of(&request, |target| if target.namespace.as_str() == "job" { 3 } else { 0 });
            let daemons = daemons.map_err(|refusal| refusal.status())?;
            assert_eq!((daemons.are_daemons, daemons.target.as_ref()), (true, Some(&target)));
            daemons.apply(&mut request);
            Ok(request.apps[0].processes_max)
        };
        let job = |name: &str| info(keys::DEBUG_JOB.name(), name);
        assert_eq!([0, 2].map(|max| of(job("job"), max)), [Ok(1), Ok(2)]);
        assert_eq!(of(job("other"), 0), Err(Status::ERR_NOT_FOUND));
        assert_eq!(of(info(keys::DEBUG_JOB.name(), 1_u32), 0), Err(Status::ERR_BAD_PARAM));
        assert_eq!(count(vec![target(), job("job")], 0), Ok(3), "both names of one job");
        assert_eq!(count(vec![target(), job("other")], 0), Err(Status::ERR_NOT_SUPPORTED));
    }

    /// PRRTE's example `direct` asks for one daemon for each node in this way, and got one for each process.
    #[test]
    fn a_mapping_names_the_number_of_daemons_for_each_node() {
        let mapped = |policy: &str| count(vec![target(), info(keys::MAPBY.name(), policy)], 0);
        assert_eq!(["ppr:1:node", "ppr:2:node"].map(mapped), [Ok(1), Ok(2)]);
        assert_eq!(["slot", "ppr:0:node", "ppr:1:core"].map(mapped), [Ok(3); 3]);
    }

    #[test]
    fn daemons_are_marked_by_the_job_or_by_all_applications() {
        let mark = || vec![info(keys::DEBUGGER_DAEMONS.name(), true)];
        let of = |job, apps| DebugDaemons::of(&Spawn::new(job, apps), |_| 0).map_err(|refusal| refusal.status());
        let are_daemons = |job, apps| of(job, apps).unwrap().are_daemons;
        assert!(are_daemons(mark(), vec![app(Vec::new(), 1)]) && are_daemons(Vec::new(), vec![app(mark(), 1)]));
        assert!(!are_daemons(Vec::new(), vec![app(Vec::new(), 1)]));
        assert_eq!(of(Vec::new(), vec![app(mark(), 1), app(Vec::new(), 1)]), Err(Status::ERR_NOT_SUPPORTED));
        let wrong = vec![info(keys::DEBUGGER_DAEMONS.name(), "yes")];
        assert_eq!(of(wrong, vec![app(Vec::new(), 1)]), Err(Status::ERR_BAD_PARAM));
    }

    /// Regression: the directives of the first application held for all.
    #[test]
    fn applications_with_different_directives_are_refused() {
        let per_node = |number| app(vec![info(keys::DEBUG_DAEMONS_PER_NODE.name(), Value::Uint16(number))], 1);
        let of = |numbers: [u16; 2]| {
            let request = Spawn::new(vec![target()], numbers.map(per_node).to_vec());
            DebugDaemons::of(&request, |_| 3).map(|daemons| daemons.count).map_err(|refusal| refusal.status())
        };
        assert_eq!([of([2, 2]), of([2, 3])], [Ok(Some(2)), Err(Status::ERR_NOT_SUPPORTED)]);
    }
}
