//! A process's request for another job (`PMIx_Spawn`), read into applications. No process is started here.
//!
//! Source: PMIx Standard, chapter on process management; RFC0022 for changes of the environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use modex::keys::{self, TypedKey};
use modex::output::{FileDirectives, UnmetFile};
use modex::types::{self, Envar, Info, InfoFlags, Key, Rank, Status, Text, Value};
use modex::{OutputSettings, Spawn};
use nix::fcntl::OFlag;

use super::apps::{App, is_executable};
use super::children::Channel;
use super::debug_daemons::{self, DaemonsRefusal};
use super::debug_stops::{DebugStops, StoppedRanks};
use super::io_request;
use super::plan::{InputTargets, JobIo};
use super::spawn_output::{self, OutputForm};

/// Why a job can't be spawned.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpawnRefusal {
    /// A directive that must be honoured, and can't.
    #[error("it requires {key}, which modex run does not know")]
    Required {
        /// The directive.
        key: String,
    },
    /// Directives for a launcher that are required, and that its program does not read.
    #[error(
        "it requires {key}, which a launcher that waits for its tool reads alone; add PMIX_SPAWN_TOOL and \
         PMIX_DEBUG_STOP_IN_INIT"
    )]
    Unread {
        /// The directive.
        key: &'static str,
    },
    /// A directive of the wrong type.
    #[error("the value of {key} has the wrong type")]
    WrongType {
        /// The directive.
        key: &'static str,
    },
    /// Changes of a variable that take too long.
    #[error("it changes the variable {name:?} too often; join the values before")]
    TooManyChanges {
        /// The variable.
        name: OsString,
    },
    /// Variables and directories that take too much memory.
    #[error("the variables and directories of its programs have more than {COPIED_BYTES_MAX} bytes")]
    TooMuchCopied,
    /// No application, or one without a program.
    #[error("it names no program")]
    NoProgram,
    /// A number of processes below one.
    #[error("it asks for {count} processes of {program:?}")]
    Count {
        /// The number.
        count: i32,
        /// The program.
        program: OsString,
    },
    /// Too many ranks at a time.
    #[error("it asks for {wanted} processes, and {room} more may run under this launcher")]
    NoRoom {
        /// The number asked for.
        wanted: u64,
        /// The number left.
        room: u64,
    },
    /// Another machine.
    #[error("it asks for the host {host}; modex run works on one machine")]
    Host {
        /// The host.
        host: String,
    },
    /// Lists of hosts that take too long.
    #[error("its lists of hosts have more than {HOST_BYTES_MAX} bytes; name this machine once")]
    TooManyHosts,
    /// A list of hosts that can't be read.
    #[error("its list of hosts {path:?} can't be read: {reason}")]
    HostFile {
        /// The file.
        path: OsString,
        /// The operating system's reason.
        reason: io::Error,
    },
    /// A time that is no number of seconds.
    #[error("the value of {key} is not a number of seconds")]
    NoTime {
        /// The directive.
        key: &'static str,
    },
    /// A rank that would have to stop, and that the job does not have.
    #[error("it has no rank {rank}, which {key} names")]
    StoppedRank {
        /// The directive.
        key: &'static str,
        /// The rank.
        rank: u32,
    },
    /// Ranks that can't wait in `PMIx_Init`.
    #[error("it requires ranks that wait in PMIx_Init, and its program {program:?} speaks PMI-1 or PMI-2")]
    NoInit {
        /// The program.
        program: OsString,
    },
    /// Daemons of a debugger that can't be started.
    #[error(transparent)]
    Daemons(DaemonsRefusal),
    /// A receiver of its standard input that it does not have.
    #[error("it has no rank {target} for its standard input")]
    StdinTarget {
        /// The receiver.
        target: String,
    },
    /// A copy, and no copy.
    #[error("it asks for a copy of output, and to redirect it")]
    Contradiction,
    /// Redirected output, and none that is forwarded.
    #[error("it requires PMIX_IOF_REDIRECT, and asks for neither PMIX_FWD_STDOUT nor PMIX_FWD_STDERR")]
    NothingRedirected,
    /// Directives for files that have no effect.
    #[error(transparent)]
    Files(UnmetFile),
    /// Standard error that is a part of standard output.
    #[error("it requires PMIX_FWD_STDERR, and its directives or modex run --merge give ranks one output")]
    Merged,
    /// A directory that does not exist.
    #[error("its directory {0:?} does not exist")]
    NoDirectory(PathBuf),
    /// A program that is not found.
    #[error("its program {0:?} is not found")]
    NotFound(OsString),
    /// A file that is no program.
    #[error("its program {0:?} can't be executed")]
    NotExecutable(OsString),
}

impl SpawnRefusal {
    /// The answer for the requester.
    pub(super) const fn status(&self) -> Status {
        match self {
            Self::Required { .. }
            | Self::Unread { .. }
            | Self::NothingRedirected
            | Self::Merged
            | Self::NoInit { .. } => Status::ERR_NOT_SUPPORTED,
            Self::Daemons(refusal) => refusal.status(),
            Self::Files(unmet) => unmet.status(),
            Self::WrongType { .. }
            | Self::NoTime { .. }
            | Self::StoppedRank { .. }
            | Self::Count { .. }
            | Self::StdinTarget { .. }
            | Self::Contradiction => Status::ERR_BAD_PARAM,
            Self::NoProgram => Status::ERR_JOB_NO_EXE_SPECIFIED,
            Self::NoRoom { .. } => Status::ERR_JOB_INSUFFICIENT_RESOURCES,
            Self::TooManyChanges { .. } | Self::TooMuchCopied | Self::TooManyHosts => Status::ERR_OUT_OF_RESOURCE,
            Self::Host { .. } | Self::HostFile { .. } => Status::ERR_JOB_FAILED_TO_MAP,
            Self::NoDirectory(_) => Status::ERR_JOB_WDIR_NOT_FOUND,
            Self::NotFound(_) => Status::ERR_JOB_EXE_NOT_FOUND,
            Self::NotExecutable(_) => Status::ERR_JOB_APP_NOT_EXECUTABLE,
        }
    }
}

/// The machine on which the job would run.
pub(super) struct Surroundings<'a> {
    /// Its name.
    pub(super) hostname: &'a str,
    /// The directory of the session.
    pub(super) session_directory: &'a Path,
    /// The program that asks, if it is a rank. Its job inherits the variables that its own command line set.
    pub(super) parent: Option<&'a App>,
    /// The launcher's own variables.
    pub(super) lookup: &'a dyn Fn(&str) -> Option<OsString>,
}

/// Facts that the server adds.
const ADDED: [&str; 6] = [
    keys::USERID.name(),
    keys::GRPID.name(),
    keys::SPAWNED.name(),
    keys::PARENT_ID.name(),
    keys::REQUESTOR_IS_CLIENT.name(),
    keys::REQUESTOR_IS_TOOL.name(),
];

/// Directives for a job or an application.
pub(super) const KNOWN: [&str; 11] = [
    keys::WDIR.name(),
    keys::SET_SESSION_CWD.name(),
    keys::PREFIX.name(),
    keys::HOST.name(),
    keys::HOSTFILE.name(),
    keys::SET_ENVAR.name(),
    keys::ADD_ENVAR.name(),
    keys::UNSET_ENVAR.name(),
    keys::PREPEND_ENVAR.name(),
    keys::APPEND_ENVAR.name(),
    keys::FIRST_ENVAR.name(),
];

/// Directives for a spawned job alone. They mean nothing for the job on the command line.
pub(super) const KNOWN_OF_SPAWN: [&str; 6] = [
    // A job never ends with the tool that has started it.
    keys::NOHUP.name(),
    keys::SPAWN_TOOL.name(),
    keys::LAUNCH_DIRECTIVES.name(),
    keys::TIMEOUT.name(),
    keys::SPAWN_TIMEOUT.name(),
    keys::IOF_REDIRECT.name(),
];

/// Directives for a job alone. The launcher raises the events for each job.
pub(super) const KNOWN_OF_JOB: [&str; 14] = [
    keys::NOTIFY_COMPLETION.name(),
    keys::NOTIFY_JOB_EVENTS.name(),
    keys::NOTIFY_PROC_TERMINATION.name(),
    keys::NOTIFY_PROC_ABNORMAL_TERMINATION.name(),
    keys::STDIN_TGT.name(),
    keys::FWD_STDIN.name(),
    keys::FWD_STDOUT.name(),
    keys::FWD_STDERR.name(),
    keys::IOF_INHERIT.name(),
    keys::IOF_COPY.name(),
    keys::JOB_TIMEOUT.name(),
    keys::DEBUG_STOP_ON_EXEC.name(),
    keys::DEBUG_STOP_IN_INIT.name(),
    keys::DEBUG_STOP_IN_APP.name(),
];

/// Most bytes of all lists of hosts of a request. Other ranks wait while the launcher reads them.
const HOST_BYTES_MAX: usize = 256 << 10;
/// A short list counts as so many bytes.
const HOST_LIST_BYTES_MIN: usize = 32;

/// Variable of the tutorial on debuggers: a launcher waits for a tool, of which it may not know the address.
pub(super) const PAUSE: &str = "PMIX_LAUNCHER_PAUSE_FOR_TOOL";

/// The work for all applications of a request.
#[derive(Debug, Default)]
struct Work {
    changed_bytes: usize,
    copied_bytes: usize,
    host_bytes: usize,
}

/// The applications of a request. `room` is the number of processes that may be started. [`program`] finds their files.
pub(super) fn read(request: &Spawn, room: u64, surroundings: &Surroundings<'_>) -> Result<Vec<App>, SpawnRefusal> {
    if request.apps.is_empty() {
        return Err(SpawnRefusal::NoProgram);
    }
    let wanted = request.apps.iter().map(|app| u64::try_from(app.processes_max).unwrap_or_default()).sum();
    if wanted > room {
        return Err(SpawnRefusal::NoRoom { wanted, room });
    }
    check_required(&request.job, |key| is_known(key) || is_of_job(key) || KNOWN_OF_SPAWN.contains(&key))?;
    let ends_with_tool = |info: &Info| info.value.as_bool() != Some(true) && info.flags().contains(InfoFlags::REQUIRED);
    if find(&request.job, keys::NOHUP).any(ends_with_tool) {
        return Err(SpawnRefusal::Required { key: keys::NOHUP.name().to_owned() });
    }
    find(&request.job, keys::LAUNCH_DIRECTIVES).try_for_each(|info| check_launch_directives(info, request))?;
    let directory = request.apps.first().and_then(|app| app.working_directory.as_ref()).map(os_string);
    let mut work = Work::default();
    check_hosts(&request.job, directory, surroundings, &mut work)?;
    request.apps.iter().map(|app| read_app(app, &request.job, surroundings, &mut work)).collect()
}

/// The programs of a command line as the directives of a tool change them.
pub(super) fn directed(
    job: &[Info],
    apps: Vec<App>,
    surroundings: &Surroundings<'_>,
) -> Result<Vec<App>, SpawnRefusal> {
    check_required(job, |key| ADDED.contains(&key) || KNOWN.contains(&key) || is_of_job(key))?;
    let mut work = Work::default();
    check_hosts(job, None, surroundings, &mut work)?;
    let apps = apps.into_iter().map(|app| direct(app, job, surroundings, &mut work));
    let apps = apps.collect::<Result<Vec<App>, _>>()?;
    apps.iter().try_for_each(|app| program(app, surroundings.lookup).map(drop))?;
    Ok(apps)
}

/// The directory of the command line counts more than that of the tool.
fn direct(app: App, job: &[Info], surroundings: &Surroundings<'_>, work: &mut Work) -> Result<App, SpawnRefusal> {
    let mut environment = Environment::of(&[], &Surroundings { parent: Some(&app), ..*surroundings });
    environment.direct(job, &[], work)?;
    let (environment, removed) = environment.finish();
    let directed = directed_directory(&[], job, surroundings)?;
    let working_directory = app.working_directory.clone().or(directed);
    let app = App { environment, removed, working_directory, ..app };
    work.add_app(&app)?;
    Ok(app)
}

/// The infos of `PMIX_LAUNCH_DIRECTIVES`.
pub(super) fn launch_directives(value: &Value) -> Result<Vec<Info>, SpawnRefusal> {
    let wrong = || SpawnRefusal::WrongType { key: keys::LAUNCH_DIRECTIVES.name() };
    let Value::DataArray(array) = value else { return Err(wrong()) };
    let infos = array.elements.iter().map(|element| match element {
        Value::Info(info) => Ok((**info).clone()),
        _ => Err(wrong()),
    });
    infos.collect()
}

/// Only a launcher that waits for a tool reads directives for its own job. Whether the program is a launcher is
/// unknown.
fn check_launch_directives(info: &Info, request: &Spawn) -> Result<(), SpawnRefusal> {
    let directives = launch_directives(&info.value)?;
    let is_required = |info: &Info| info.flags().contains(InfoFlags::REQUIRED);
    let name = keys::LAUNCHER_RNDZ_URI.name().as_bytes();
    let is_address = |entry: &Text| entry.as_bytes().strip_prefix(name).is_some_and(|rest| rest.starts_with(b"="));
    let is_read = is_held_tool(&request.job) || request.apps.iter().all(|app| app.environment.iter().any(is_address));
    let is_unmet = !is_read && (is_required(info) || directives.iter().any(is_required));
    if is_unmet { Err(SpawnRefusal::Unread { key: keys::LAUNCH_DIRECTIVES.name() }) } else { Ok(()) }
}

fn read_app(
    app: &types::App,
    job: &[Info],
    surroundings: &Surroundings<'_>,
    work: &mut Work,
) -> Result<App, SpawnRefusal> {
    check_required(&app.info, is_known)?;
    check_hosts(&app.info, app.working_directory.as_ref().map(os_string), surroundings, work)?;
    let program = app.command.as_ref().map(os_string).filter(|program| !program.is_empty());
    let program = program.ok_or(SpawnRefusal::NoProgram)?;
    let count = app.processes_max;
    let count = u32::try_from(count).ok().filter(|count| *count > 0);
    let count = count.ok_or_else(|| SpawnRefusal::Count { count: app.processes_max, program: program.clone() })?;
    let mut environment = Environment::of(&app.environment, surroundings);
    environment.direct(job, &app.info, work)?;
    if is_held_tool(job) {
        environment.set(OsStr::new(PAUSE), OsStr::new("1"), OsStr::new(""));
    }
    let (environment, removed) = environment.finish();
    let arguments = app.argv.iter().skip(1).map(os_string).collect();
    let working_directory = working_directory(app, job, surroundings)?;
    let app = App { count, program, arguments, environment, removed, working_directory };
    work.add_app(&app)?;
    Ok(app)
}

/// The libraries of clients always fill in the directory of the application, so directives count more.
fn working_directory(
    app: &types::App,
    job: &[Info],
    surroundings: &Surroundings<'_>,
) -> Result<Option<PathBuf>, SpawnRefusal> {
    let own = || app.working_directory.as_ref().map(os_string).filter(|directory| !directory.is_empty());
    Ok(directed_directory(&app.info, job, surroundings)?.or_else(|| own().map(PathBuf::from)))
}

/// The directory that the directives of an application name, or those of its job.
fn directed_directory(
    app: &[Info],
    job: &[Info],
    surroundings: &Surroundings<'_>,
) -> Result<Option<PathBuf>, SpawnRefusal> {
    for infos in [app, job] {
        if let Some(directory) = text(infos, keys::WDIR)? {
            return Ok(Some(directory.into()));
        }
        if is_set(infos, keys::SET_SESSION_CWD) {
            return Ok(Some(surroundings.session_directory.to_owned()));
        }
    }
    Ok(None)
}

/// Whether the job is a launcher that waits for a tool before it starts its own job.
fn is_held_tool(job: &[Info]) -> bool {
    let stops = |info: &Info| {
        info.key.as_str() == keys::DEBUG_STOP_IN_INIT.name() && matches!(StoppedRanks::of(&info.value), Some(Some(_)))
    };
    is_set(job, keys::SPAWN_TOOL) && job.iter().any(stops)
}

/// Values for the job's description: those that its requester has put into the key space of PMI-1, directives for kept
/// output and for the size of deliveries, those of a tool for a launcher, and whether tools that watch the spawner get
/// the output.
pub(super) fn described_values(request: &Spawn) -> impl Iterator<Item = Info> {
    let is_of_tool = |key: &str| [keys::LAUNCH_DIRECTIVES.name(), keys::SPAWN_TOOL.name()].contains(&key);
    let is_described = move |key: &str| key.starts_with("pmi.") || OutputSettings::is_directive(key) || is_of_tool(key);
    let refusal = Info::new(Key::from_static(keys::IOF_INHERIT.name()), false);
    let refusal = (!request.inherits_output()).then_some(refusal);
    request.job.iter().filter(move |info| is_described(info.key.as_str())).cloned().chain(refusal)
}

/// Whether the requester wants to hear of the job's end, if need be in its default handler.
pub(super) fn is_awaited(request: &Spawn) -> bool {
    is_set(&request.job, keys::NOTIFY_COMPLETION)
}

/// Whether the launcher has to show output that the requester gets.
pub(super) fn is_copied(request: &Spawn) -> bool {
    is_set(&request.job, keys::IOF_COPY)
}

/// The time that a request gives its job to start, and the time to run.
pub(super) fn time_limits(request: &Spawn) -> Result<(Option<Duration>, Option<Duration>), SpawnRefusal> {
    let limit = |key: TypedKey<i32>| {
        let Some(info) = find(&request.job, key).next() else { return Ok(None) };
        let seconds = info.value.as_u32().ok_or(SpawnRefusal::NoTime { key: key.name() })?;
        Ok((seconds > 0).then(|| Duration::from_secs(seconds.into())))
    };
    let of_start = [limit(keys::TIMEOUT)?, limit(keys::SPAWN_TIMEOUT)?];
    Ok((of_start.into_iter().flatten().min(), limit(keys::JOB_TIMEOUT)?))
}

/// The places at which ranks of a job with these programs wait for a debugger. The job has `rank_count` ranks.
pub(super) fn stops(request: &Spawn, rank_count: u32) -> Result<DebugStops, SpawnRefusal> {
    let stop = |key: &'static str| {
        let Some(info) = request.job.iter().find(|info| info.key.as_str() == key) else { return Ok(None) };
        let ranks = StoppedRanks::of(&info.value).ok_or(SpawnRefusal::WrongType { key })?;
        if let Some(rank) = ranks.as_ref().and_then(StoppedRanks::last).filter(|rank| *rank >= rank_count) {
            return Err(SpawnRefusal::StoppedRank { key, rank });
        }
        Ok(ranks.map(|ranks| (ranks, info.value.clone())))
    };
    Ok(DebugStops {
        on_exec: stop(keys::DEBUG_STOP_ON_EXEC.name())?.map(|(ranks, _)| ranks),
        in_init: stop(keys::DEBUG_STOP_IN_INIT.name())?,
        in_app: stop(keys::DEBUG_STOP_IN_APP.name())?,
    })
}

/// The wishes of a request for standard input and output. The job has `rank_count` ranks. `is_merged`:
/// these write standard error to standard output.
pub(super) fn io(request: &Spawn, rank_count: u32, is_merged: bool) -> Result<JobIo, SpawnRefusal> {
    let job = &request.job;
    let (form, files) = (OutputForm::of(job), FileDirectives::of(job));
    files.check_all(job).map_err(SpawnRefusal::Files)?;
    let target = find(job, keys::STDIN_TGT).next().map(|info| stdin_target(&info.value)).transpose()?;
    let is_of_tool = is_set(job, keys::REQUESTOR_IS_TOOL);
    let wants_input = find(job, keys::FWD_STDIN).next().and_then(|info| info.value.as_bool());
    let input = match target {
        Some(targets) => targets,
        None if wants_input.unwrap_or(is_of_tool) => InputTargets::One(0),
        None => InputTargets::Nobody,
    };
    if let InputTargets::One(rank) = input
        && rank >= rank_count
    {
        return Err(SpawnRefusal::StdinTarget { target: rank.to_string() });
    }
    // A tool gets the output of its job without directives.
    let wanted = if is_of_tool { request.channels_for_tool() } else { 0 };
    let kept_channels = [(keys::FWD_STDOUT, Channel::Out), (keys::FWD_STDERR, Channel::Error)]
        .map(|(key, channel)| is_set(job, key) || wanted & io_request::number(channel) != 0);
    let is_redirected = is_set(job, keys::IOF_REDIRECT);
    if is_redirected && is_set(job, keys::IOF_COPY) {
        return Err(SpawnRefusal::Contradiction);
    }
    if is_required(job, keys::IOF_REDIRECT) && !kept_channels.contains(&true) {
        return Err(SpawnRefusal::NothingRedirected);
    }
    if is_required(job, keys::FWD_STDERR) && (is_merged || form.is_merged) {
        return Err(SpawnRefusal::Merged);
    }
    Ok(JobIo { input, is_of_tool, form, files, kept_channels, is_redirected })
}

/// The receiver of standard input: a process of the job, its rank, or a word of other launchers.
fn stdin_target(value: &Value) -> Result<InputTargets, SpawnRefusal> {
    let of_rank = |rank: Rank| match rank {
        Rank::Process(rank) => Ok(InputTargets::One(rank)),
        Rank::Wildcard => Ok(InputTargets::All),
        Rank::Invalid | Rank::Undefined => Ok(InputTargets::Nobody),
        other => Err(SpawnRefusal::StdinTarget { target: other.to_string() }),
    };
    match value {
        Value::Proc(proc) => of_rank(proc.rank),
        Value::ProcRank(rank) => of_rank(*rank),
        Value::String(text) => match text.to_string_lossy().as_str() {
            "all" => Ok(InputTargets::All),
            "none" => Ok(InputTargets::Nobody),
            word => {
                word.parse().map(InputTargets::One).map_err(|_| SpawnRefusal::StdinTarget { target: word.to_owned() })
            }
        },
        other => {
            let number = other.as_u32().ok_or(SpawnRefusal::WrongType { key: keys::STDIN_TGT.name() })?;
            Ok(InputTargets::One(number))
        }
    }
}

/// Whether this is a directive for a job alone.
fn is_of_job(key: &str) -> bool {
    [&KNOWN_OF_JOB[..], &spawn_output::KNOWN, &FileDirectives::KEYS].iter().any(|known| known.contains(&key))
}

/// Whether this is a directive for an application.
fn is_known(key: &str) -> bool {
    ADDED.contains(&key) || KNOWN.contains(&key) || debug_daemons::KNOWN.contains(&key)
}

fn check_required(infos: &[Info], is_known: impl Fn(&str) -> bool) -> Result<(), SpawnRefusal> {
    // The target of standard input may have types that the standard does not name. Its reader refuses the others.
    let is_checked_later = |key: &str| key == keys::STDIN_TGT.name() && is_known(key);
    let is_refused = |info: &Info| keys::is_unmet(info, &is_known) && !is_checked_later(info.key.as_str());
    match infos.iter().find(|info| is_refused(info)) {
        Some(info) => Err(SpawnRefusal::Required { key: info.key.to_string() }),
        None => Ok(()),
    }
}

fn is_set(infos: &[Info], key: TypedKey<bool>) -> bool {
    find(infos, key).any(|info| info.value.as_bool() == Some(true))
}

fn is_required(infos: &[Info], key: TypedKey<bool>) -> bool {
    find(infos, key).any(|info| info.value.as_bool() == Some(true) && info.flags().contains(InfoFlags::REQUIRED))
}

/// Every host must be this machine. A list in a file is relative to the directory.
fn check_hosts(
    infos: &[Info],
    directory: Option<OsString>,
    surroundings: &Surroundings<'_>,
    work: &mut Work,
) -> Result<(), SpawnRefusal> {
    let own = surroundings.hostname;
    let short_own = own.split('.').next();
    let is_here =
        |host: &str| ["localhost", "127.0.0.1", "::1", own].contains(&host) || host.split('.').next() == short_own;
    let check = |host: &str| {
        // Others write the number of slots behind a host.
        let name =
            host.trim().split_once(':').filter(|(name, _)| !name.is_empty()).map_or(host.trim(), |(name, _)| name);
        if name.is_empty() || is_here(host.trim()) || is_here(name) {
            Ok(())
        } else {
            Err(SpawnRefusal::Host { host: name.to_owned() })
        }
    };
    for hosts in find(infos, keys::HOST) {
        let hosts = text_of(hosts, keys::HOST.name())?;
        work.add_hosts(hosts.len())?;
        hosts.to_string_lossy().split(',').try_for_each(check)?;
    }
    for file in find(infos, keys::HOSTFILE) {
        let path = text_of(file, keys::HOSTFILE.name())?;
        let place = Path::new(directory.as_deref().unwrap_or_default()).join(&path);
        let lines = read_hostfile(&place).map_err(|reason| SpawnRefusal::HostFile { path, reason })?;
        work.add_hosts(lines.len())?;
        let words = lines.lines().map(|line| line.split('#').next().unwrap_or_default());
        words.filter_map(|line| line.split_whitespace().next()).try_for_each(check)?;
    }
    Ok(())
}

impl Work {
    /// Counts the bytes of a program's variables and directory. A job's directives, and the variables of the rank that
    /// asks, are copied for each program.
    fn add_copied(&mut self, bytes: usize) -> Result<(), SpawnRefusal> {
        self.copied_bytes = self.copied_bytes.saturating_add(bytes);
        if self.copied_bytes > COPIED_BYTES_MAX { Err(SpawnRefusal::TooMuchCopied) } else { Ok(()) }
    }

    /// Counts the variables and the directory of an application.
    fn add_app(&mut self, app: &App) -> Result<(), SpawnRefusal> {
        let of_directory = app.working_directory.as_ref().map_or(0, |directory| directory.as_os_str().len());
        self.add_copied(app.environment.iter().fold(of_directory, |sum, (name, value)| sum + name.len() + value.len()))
    }

    /// Counts a list of hosts.
    fn add_hosts(&mut self, bytes: usize) -> Result<(), SpawnRefusal> {
        self.host_bytes = self.host_bytes.saturating_add(bytes.max(HOST_LIST_BYTES_MIN));
        if self.host_bytes > HOST_BYTES_MAX { Err(SpawnRefusal::TooManyHosts) } else { Ok(()) }
    }
}

/// Reads a file that a process names, or more of it than permitted. Neither a pipe nor a device may hold up the
/// launcher.
fn read_hostfile(path: &Path) -> io::Result<String> {
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut lines = String::new();
    file.take(HOST_BYTES_MAX as u64 + 1).read_to_string(&mut lines)?;
    Ok(lines)
}

/// The file of an application's program. The system says the same only when a process starts, and then some of the job
/// may run already.
pub(super) fn program(app: &App, lookup: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, SpawnRefusal> {
    if let Some(directory) = app.working_directory.as_ref().filter(|directory| !directory.is_dir()) {
        return Err(SpawnRefusal::NoDirectory(directory.clone()));
    }
    let path = app.program_path(lookup).filter(|path| path.exists());
    let path = path.ok_or_else(|| SpawnRefusal::NotFound(app.program.clone()))?;
    if !is_executable(&path) {
        return Err(SpawnRefusal::NotExecutable(app.program.clone()));
    }
    Ok(path)
}

fn find<T: ?Sized>(infos: &[Info], key: TypedKey<T>) -> impl Iterator<Item = &Info> {
    infos.iter().filter(move |info| info.key.as_str() == key.name())
}

fn text<T: ?Sized>(infos: &[Info], key: TypedKey<T>) -> Result<Option<OsString>, SpawnRefusal> {
    find(infos, key).next().map(|info| text_of(info, key.name())).transpose()
}

fn text_of(info: &Info, key: &'static str) -> Result<OsString, SpawnRefusal> {
    match &info.value {
        Value::String(text) => Ok(os_string(text)),
        _ => Err(SpawnRefusal::WrongType { key }),
    }
}

fn os_string(text: &Text) -> OsString {
    OsStr::from_bytes(text.as_bytes()).to_owned()
}

/// The variables of an application that differ from the launcher's.
struct Environment<'a> {
    /// The new value; none if the variable is removed.
    changes: BTreeMap<OsString, Option<OsString>>,
    lookup: &'a dyn Fn(&str) -> Option<OsString>,
}

/// Most bytes of values that the changes of a request may read. Each change reads the whole value, and other ranks
/// wait.
const CHANGED_BYTES_MAX: usize = 64 << 20;
/// A change of a short value counts as so many bytes.
const CHANGE_BYTES_MIN: usize = 256;

/// Most bytes of the variables and directories of all programs of a request.
const COPIED_BYTES_MAX: usize = 64 << 20;

/// A change of a variable by a value and a separator.
type Change<'a> = fn(&mut Environment<'a>, &OsStr, &OsStr, &OsStr);

impl<'a> Environment<'a> {
    /// `settings` have the form `NAME=value`; others are ignored, as by `execve`.
    fn of(settings: &[Text], surroundings: &Surroundings<'a>) -> Self {
        let of_app = settings.iter().filter_map(|setting| {
            let bytes = setting.as_bytes();
            let at = bytes.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
            let (name, value) = (bytes.get(..at)?, bytes.get(at + 1..)?);
            Some((OsStr::from_bytes(name).to_owned(), Some(OsStr::from_bytes(value).to_owned())))
        });
        let inherited = surroundings.parent.into_iter().flat_map(|parent| {
            let set = parent.environment.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
            let removed = parent.removed.iter().map(|name| (name.clone(), None));
            // A program of a launcher is none that waits.
            set.chain(removed).filter(|(name, _)| name != PAUSE)
        });
        Self { changes: inherited.chain(of_app).collect(), lookup: surroundings.lookup }
    }

    /// Applies the directives of a job and one of its applications.
    fn direct(&mut self, job: &[Info], app: &[Info], work: &mut Work) -> Result<(), SpawnRefusal> {
        let prefix = [app, job].iter().find_map(|infos| text(infos, keys::PREFIX).transpose()).transpose()?;
        if let Some(prefix) = prefix {
            self.add_prefix(Path::new(&prefix));
        }
        job.iter().chain(app).try_for_each(|directive| self.change(directive, work))
    }

    /// Applies one directive; others are for somebody else.
    fn change(&mut self, directive: &Info, work: &mut Work) -> Result<(), SpawnRefusal> {
        let key = directive.key.as_str();
        if key == keys::UNSET_ENVAR.name() {
            let name = text_of(directive, keys::UNSET_ENVAR.name())?;
            self.changes.insert(name, None);
            return Ok(());
        }
        let changes: [(TypedKey<_>, Change<'a>); 5] = [
            (keys::SET_ENVAR, Self::set),
            (keys::ADD_ENVAR, Self::add),
            (keys::PREPEND_ENVAR, Self::prepend),
            (keys::APPEND_ENVAR, Self::append),
            (keys::FIRST_ENVAR, Self::put_first),
        ];
        let Some((key, change)) = changes.into_iter().find(|(change, _)| change.name() == key) else { return Ok(()) };
        let Value::Envar(envar) = &directive.value else { return Err(SpawnRefusal::WrongType { key: key.name() }) };
        let Envar { name, value, separator } = &**envar;
        let name = name.as_ref().map(os_string).filter(|name| !name.is_empty() && !name.as_bytes().contains(&b'='));
        let name = name.ok_or(SpawnRefusal::WrongType { key: key.name() })?;
        let separator = [*separator];
        let separator = if separator == [0] { OsStr::new("") } else { OsStr::from_bytes(&separator) };
        let old_bytes = self.value(&name).map_or(0, |old| old.len());
        work.changed_bytes = work.changed_bytes.saturating_add(old_bytes).saturating_add(CHANGE_BYTES_MIN);
        if work.changed_bytes > CHANGED_BYTES_MAX {
            return Err(SpawnRefusal::TooManyChanges { name });
        }
        change(self, &name, &value.as_ref().map(os_string).unwrap_or_default(), separator);
        Ok(())
    }

    fn value(&self, name: &OsStr) -> Option<OsString> {
        match self.changes.get(name) {
            Some(change) => change.clone(),
            None => (self.lookup)(name.to_str()?),
        }
    }

    fn set(&mut self, name: &OsStr, value: &OsStr, _: &OsStr) {
        self.changes.insert(name.to_owned(), Some(value.to_owned()));
    }

    fn add(&mut self, name: &OsStr, value: &OsStr, separator: &OsStr) {
        if self.value(name).is_none() {
            self.set(name, value, separator);
        }
    }

    fn prepend(&mut self, name: &OsStr, value: &OsStr, separator: &OsStr) {
        let joined = self.value(name).map(|old| [value, &old].join(separator));
        self.set(name, joined.as_deref().unwrap_or(value), separator);
    }

    fn append(&mut self, name: &OsStr, value: &OsStr, separator: &OsStr) {
        let joined = self.value(name).map(|old| [&old, value].join(separator));
        self.set(name, joined.as_deref().unwrap_or(value), separator);
    }

    /// The value may stand in the variable already, and moves to its front.
    fn put_first(&mut self, name: &OsStr, value: &OsStr, separator: &OsStr) {
        if let ([byte], Some(old)) = (separator.as_bytes(), self.value(name)) {
            let others = old.as_bytes().split(|it| it == byte).filter(|part| *part != value.as_bytes());
            let others = others.map(OsStr::from_bytes).collect::<Vec<_>>().join(separator);
            self.changes.insert(name.to_owned(), Some(others).filter(|others| !others.is_empty()));
        }
        self.prepend(name, value, separator);
    }

    /// An installation of the program's libraries.
    fn add_prefix(&mut self, prefix: &Path) {
        let colon = OsStr::new(":");
        self.prepend(OsStr::new("PATH"), prefix.join("bin").as_os_str(), colon);
        self.prepend(OsStr::new("LD_LIBRARY_PATH"), prefix.join("lib").as_os_str(), colon);
    }

    /// The variables to set, and the variables to remove.
    fn finish(self) -> (Vec<(OsString, OsString)>, Vec<OsString>) {
        let (mut set, mut removed) = (Vec::new(), Vec::new());
        for (name, change) in self.changes {
            match change {
                Some(value) => set.push((name, value)),
                None => removed.push(name),
            }
        }
        (set, removed)
    }
}

#[cfg(test)]
mod tests {
    use modex::types::Key;

    use super::*;

    fn info<T: ?Sized>(key: TypedKey<T>, value: impl Into<Value>) -> Info {
        Info::new(Key::from_static(key.name()), value)
    }

    fn envar<T: ?Sized>(key: TypedKey<T>, name: &str, value: &str) -> Info {
        let text = |text: &str| Some(Text::from(text));
        info(key, Value::Envar(Box::new(Envar { name: text(name), value: text(value), separator: b':' })))
    }

    fn app(command: &str, info: Vec<Info>) -> types::App {
        types::App {
            command: Some(Text::from(command)),
            argv: vec![Text::from(command), Text::from("-x")],
            environment: vec![Text::from("OWN=app"), Text::from("junk"), Text::from("=x")],
            working_directory: None,
            processes_max: 2,
            info,
        }
    }

    /// Regression: required directives for a launcher that does not wait for its tool were taken, and nothing read
    /// them.
    #[test]
    fn directives_for_a_launcher_need_one_that_waits() {
        let required = Info { flags: InfoFlags::REQUIRED.bits(), ..info(keys::DEBUG_STOP_IN_INIT, true) };
        let directives = info(keys::LAUNCH_DIRECTIVES, Value::info_array(vec![required]));
        let held = [directives.clone(), info(keys::SPAWN_TOOL, true), info(keys::DEBUG_STOP_IN_INIT, true)];
        let refusal = read_of(vec![directives], vec![app("/bin/true", vec![])]).map(|_| ()).unwrap_err();
        assert_eq!(refusal.status(), Status::ERR_NOT_SUPPORTED, "{refusal}");
        assert!(read_of(held.to_vec(), vec![app("/bin/true", vec![])]).is_ok());
    }

    fn read_of(job: Vec<Info>, apps: Vec<types::App>) -> Result<Vec<App>, SpawnRefusal> {
        let lookup = |name: &str| match name {
            "PATH" => Some("/usr/bin:/bin".into()),
            "LIST" => Some("b:a:c".into()),
            _ => None,
        };
        let session_directory = Path::new("/tmp");
        let parent = App {
            environment: [("OF_PARENT", "x"), (PAUSE, "1")].map(|(name, value)| (name.into(), value.into())).into(),
            ..App::default()
        };
        let (hostname, parent) = ("node7.site", Some(&parent));
        let surroundings = Surroundings { hostname, session_directory, parent, lookup: &lookup };
        let apps = read(&Spawn::new(job, apps), 4, &surroundings)?;
        apps.iter().try_for_each(|app| program(app, lookup).map(drop))?;
        Ok(apps)
    }

    fn refusal(job: Vec<Info>, apps: Vec<types::App>) -> (Status, String) {
        let refusal = read_of(job, apps).unwrap_err();
        (refusal.status(), refusal.to_string())
    }

    #[test]
    fn an_application_has_its_program_arguments_and_processes() {
        let apps = read_of(Vec::new(), vec![app("sh", Vec::new()), app("/bin/sh", Vec::new())]).unwrap();
        assert_eq!((apps.len(), apps[0].count, &apps[0].arguments[..]), (2, 2, &["-x".into()][..]));
        let set = [("OF_PARENT", "x"), ("OWN", "app")];
        assert_eq!(apps[0].environment, set.map(|(name, value)| (name.into(), value.into())));
    }

    #[test]
    fn changes_of_the_environment_are_made_in_order_first_those_of_the_job() {
        let job = vec![
            envar(keys::SET_ENVAR, "A", "job"),
            envar(keys::ADD_ENVAR, "OWN", "job"),
            envar(keys::PREPEND_ENVAR, "LIST", "0"),
            envar(keys::PREPEND_ENVAR, "NEW", "only"),
        ];
        let of_app = vec![
            envar(keys::APPEND_ENVAR, "A", "app"),
            envar(keys::APPEND_ENVAR, "LIST", "9"),
            envar(keys::FIRST_ENVAR, "LIST", "a"),
            info(keys::UNSET_ENVAR, "NEW"),
            info(keys::UNSET_ENVAR, "PATHS"),
        ];
        let apps = read_of(job, vec![app("sh", of_app)]).unwrap();
        let set = [("A", "job:app"), ("LIST", "a:0:b:c:9"), ("OF_PARENT", "x"), ("OWN", "app")];
        assert_eq!(apps[0].environment, set.map(|(name, value)| (name.into(), value.into())));
        assert_eq!(apps[0].removed, ["NEW", "PATHS"].map(OsString::from));
    }

    /// Each change copies the value so far. 60,000 of them held the launcher up for a minute.
    #[test]
    fn changes_of_a_variable_read_so_many_bytes() {
        let changes = |count, bytes| {
            let change = || envar(keys::PREPEND_ENVAR, "LIST", &"x".repeat(bytes));
            vec![app("sh", std::iter::repeat_with(change).take(count).collect())]
        };
        assert!(read_of(Vec::new(), changes(100, 200)).is_ok());
        let many = std::iter::repeat_with(|| changes(400, 400))
            .take(4)
            .flatten()
            .map(|app| types::App { processes_max: 1, ..app });
        for apps in [changes(1000, 1000), many.collect()] {
            let (status, said) = refusal(Vec::new(), apps);
            assert_eq!((status, said.contains("\"LIST\"")), (Status::ERR_OUT_OF_RESOURCE, true), "{said}");
        }
    }

    #[test]
    fn directives_of_an_application_count_more_than_those_of_the_job() {
        let job = vec![info(keys::WDIR, "/usr"), info(keys::PREFIX, "/opt/a")];
        let of_app = vec![info(keys::WDIR, "/"), info(keys::PREFIX, "/opt/b")];
        let apps = read_of(job, vec![app("sh", of_app), app("sh", Vec::new())]).unwrap();
        let directories = apps.iter().map(|app| app.working_directory.clone().unwrap());
        assert_eq!(directories.collect::<Vec<_>>(), [Path::new("/"), Path::new("/usr")]);
        let path = |app: &App| app.environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
        assert_eq!(path(&apps[0]), Some("/opt/b/bin:/usr/bin:/bin".into()));
        assert_eq!(path(&apps[1]), Some("/opt/a/bin:/usr/bin:/bin".into()));
        let session = read_of(vec![info(keys::SET_SESSION_CWD, true)], vec![app("sh", Vec::new())]).unwrap();
        assert_eq!(session[0].working_directory, Some("/tmp".into()));
    }

    #[test]
    fn this_machine_has_several_names_and_others_are_refused() {
        for hosts in ["node7.site", "node7", "localhost:4,node7:2", "127.0.0.1", ""] {
            assert!(read_of(vec![info(keys::HOST, hosts)], vec![app("sh", Vec::new())]).is_ok(), "{hosts}");
        }
        let (status, reason) = refusal(vec![info(keys::HOST, "node7,node8")], vec![app("sh", Vec::new())]);
        assert_eq!(status, Status::ERR_JOB_FAILED_TO_MAP);
        assert!(reason.contains("node8") && reason.contains("one machine"), "{reason}");
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("hosts"), "# here\nlocalhost slots=4\n\nnode7:2 # too\n").unwrap();
        let here = Text::from(directory.path().to_str().unwrap());
        let with = |file: &str| types::App {
            working_directory: Some(here.clone()),
            ..app("sh", vec![info(keys::HOSTFILE, file)])
        };
        assert!(read_of(Vec::new(), vec![with("hosts")]).is_ok());
        // A pipe without a writer held up the launcher for ever, and a device filled its memory.
        nix::unistd::mkfifo(&directory.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for file in ["/no/such", "pipe", "/dev/zero", "."] {
            let (status, reason) = refusal(Vec::new(), vec![with(file)]);
            assert!(status == Status::ERR_JOB_FAILED_TO_MAP && reason.contains(file), "{reason}");
        }
        let program = directory.path().join("pipe");
        let (status, _) = refusal(Vec::new(), vec![app(program.to_str().unwrap(), Vec::new())]);
        assert_eq!(status, Status::ERR_JOB_APP_NOT_EXECUTABLE);
    }

    /// A directive of a megabyte and thousands of programs took gigabytes of the launcher.
    #[test]
    fn the_variables_and_directories_of_all_programs_have_so_many_bytes() {
        let large = "x".repeat(COPIED_BYTES_MAX / 3);
        let job = || vec![envar(keys::SET_ENVAR, "LARGE", &large)];
        let one = || types::App { processes_max: 1, ..app("sh", Vec::new()) };
        assert!(read_of(job(), vec![one(); 2]).is_ok());
        for directive in [job().remove(0), info(keys::WDIR, large.as_str())] {
            assert_eq!(refusal(vec![directive], vec![one(); 4]).0, Status::ERR_OUT_OF_RESOURCE);
        }
    }

    /// A list of 12 MB held the launcher up for three seconds.
    #[test]
    fn lists_of_hosts_have_so_many_bytes_in_all() {
        let hosts = |bytes: usize| info(keys::HOST, "node7,".repeat(bytes / 6).as_str());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hosts");
        std::fs::write(&path, "node7\n".repeat(HOST_BYTES_MAX / 12)).unwrap();
        let file = || info(keys::HOSTFILE, path.to_str().unwrap());
        let read_of = |job, of_app| read_of(job, vec![app("sh", of_app)]);
        assert!(read_of(vec![hosts(HOST_BYTES_MAX / 2)], vec![file()]).is_ok());
        let short = vec![info(keys::HOST, ""); HOST_BYTES_MAX / HOST_LIST_BYTES_MIN];
        assert!(read_of(Vec::new(), short.clone()).is_ok());
        for (job, of_app) in [
            (vec![hosts(HOST_BYTES_MAX + 6)], Vec::new()),
            (vec![hosts(HOST_BYTES_MAX / 2), file()], vec![hosts(6)]),
            (vec![file(), file()], vec![hosts(6)]),
            (short, vec![hosts(6)]),
        ] {
            let refusal = read_of(job, of_app).unwrap_err();
            assert_eq!(refusal.status(), Status::ERR_OUT_OF_RESOURCE, "{refusal}");
        }
    }

    #[test]
    fn required_output_directives_of_a_spawn_are_honoured_or_refused() {
        let read = |job: Vec<Info>, is_merged| io(&Spawn::new(job, Vec::new()), 1, is_merged).map_err(|it| it.status());
        let set = |key| info(key, true);
        let required = |key| Info { flags: InfoFlags::REQUIRED.bits(), ..info(key, true) };
        let [redirect, copy, out, error] = [keys::IOF_REDIRECT, keys::IOF_COPY, keys::FWD_STDOUT, keys::FWD_STDERR];
        assert!(read(vec![required(redirect), set(out)], false).unwrap().is_redirected);
        assert!(read(vec![set(redirect)], false).is_ok() && read(vec![set(error)], true).is_ok());
        assert!(read(vec![required(error)], false).is_ok());
        let merge = required(keys::IOF_MERGE_STDERR_STDOUT);
        let no_path = info(keys::IOF_OUTPUT_TO_FILE, 1_u32);
        let file = info(keys::IOF_OUTPUT_TO_FILE, "/tmp/f");
        let alone = required(keys::IOF_FILE_ONLY);
        assert!(read(vec![alone.clone(), file], false).unwrap().files.are_alone());
        for (job, is_merged, expected) in [
            (vec![required(error), merge], false, Status::ERR_NOT_SUPPORTED),
            (vec![alone], false, Status::ERR_NOT_SUPPORTED),
            (vec![no_path], false, Status::ERR_BAD_PARAM),
            (vec![required(redirect)], false, Status::ERR_NOT_SUPPORTED),
            (vec![required(error)], true, Status::ERR_NOT_SUPPORTED),
            (vec![set(redirect), set(copy), set(out)], false, Status::ERR_BAD_PARAM),
        ] {
            assert_eq!(read(job, is_merged), Err(expected));
        }
    }

    #[test]
    fn times_are_seconds_and_the_shorter_one_counts_for_the_start() {
        let limits = |job: Vec<Info>| time_limits(&Spawn::new(job, Vec::new())).map_err(|it| it.status());
        let second = |count| Some(Duration::from_secs(count));
        assert_eq!(limits(vec![]), Ok((None, None)));
        let all = vec![info(keys::TIMEOUT, 5), info(keys::SPAWN_TIMEOUT, 3), info(keys::JOB_TIMEOUT, 9_u32)];
        assert_eq!(limits(all), Ok((second(3), second(9))));
        assert_eq!(limits(vec![info(keys::TIMEOUT, 5), info(keys::SPAWN_TIMEOUT, 0)]), Ok((second(5), None)));
        for wrong in [info(keys::TIMEOUT, -1), info(keys::JOB_TIMEOUT, "5")] {
            assert_eq!(limits(vec![wrong]), Err(Status::ERR_BAD_PARAM));
        }
    }

    #[test]
    fn a_launcher_that_is_to_stop_gets_a_variable() {
        let has_pause_variable = |job: Vec<Info>| {
            let apps = read_of(job, vec![app("sh", Vec::new())]).unwrap();
            apps[0]
                .environment
                .iter()
                .any(|(name, value)| (name.as_os_str(), value.as_os_str()) == (PAUSE.as_ref(), "1".as_ref()))
        };
        let (tool, stop) = (info(keys::SPAWN_TOOL, true), |value: bool| info(keys::DEBUG_STOP_IN_INIT, value));
        assert!(has_pause_variable(vec![tool.clone(), stop(true)]));
        assert!(
            !has_pause_variable(vec![tool.clone(), stop(false)])
                && !has_pause_variable(vec![tool])
                && !has_pause_variable(vec![stop(true)])
        );
    }

    #[test]
    fn the_programs_of_a_command_line_change_as_a_tool_directs() {
        let lookup = |name: &str| (name == "PATH").then(|| "/usr/bin:/bin".into());
        let surroundings =
            Surroundings { hostname: "n0", session_directory: Path::new("/tmp"), parent: None, lookup: &lookup };
        let given =
            App { count: 3, program: "sh".into(), environment: vec![("LIST".into(), "a".into())], ..App::default() };
        let own = App { working_directory: Some("/usr".into()), ..given.clone() };
        let job = [envar(keys::PREPEND_ENVAR, "LIST", "b"), info(keys::WDIR, "/"), info(keys::UNSET_ENVAR, "GONE")];
        let directed = directed(&job, vec![given, own], &surroundings).unwrap();
        let found = directed.iter().map(|app| (app.count, &app.environment[..], app.working_directory.as_deref()));
        let list = [("LIST".into(), "b:a".into())];
        let expected = ["/", "/usr"].map(|place| (3, &list[..], Some(Path::new(place))));
        assert_eq!(found.collect::<Vec<_>>(), expected);
        assert!(directed.iter().all(|app| app.removed == ["GONE"]));
        let large = "x".repeat(COPIED_BYTES_MAX);
        let large = App { environment: vec![("LARGE".into(), large.into())], ..App::default() };
        assert!(matches!(super::directed(&[], vec![large], &surroundings), Err(SpawnRefusal::TooMuchCopied)));
        for (status, directive) in [
            (Status::ERR_NOT_SUPPORTED, info(keys::TIMEOUT, 1_i32)),
            (Status::ERR_NOT_SUPPORTED, info(keys::DEBUGGER_DAEMONS, true)),
            (Status::ERR_JOB_FAILED_TO_MAP, info(keys::HOST, "elsewhere")),
        ] {
            let required = Info { flags: InfoFlags::REQUIRED.bits(), ..directive };
            assert_eq!(super::directed(&[required], Vec::new(), &surroundings).unwrap_err().status(), status);
        }
    }

    #[test]
    fn a_job_outlives_its_tool() {
        let nohup = |value: bool| Info { flags: InfoFlags::REQUIRED.bits(), ..info(keys::NOHUP, value) };
        assert!(read_of(vec![nohup(true)], vec![app("sh", vec![])]).is_ok());
        assert_eq!(refusal(vec![nohup(false)], vec![app("sh", vec![])]).0, Status::ERR_NOT_SUPPORTED);
    }

    #[test]
    fn a_request_that_can_not_be_fulfilled_is_refused_with_its_reason() {
        let counted = |count| types::App { processes_max: count, ..app("sh", Vec::new()) };
        let nameless = types::App { command: None, ..app("sh", Vec::new()) };
        let lost = types::App { working_directory: Some(Text::from("/no/such")), ..app("sh", Vec::new()) };
        let mut required = info(keys::INDEX_ARGV, true);
        required.flags = InfoFlags::REQUIRED.bits();
        for (status, job, apps) in [
            (Status::ERR_JOB_NO_EXE_SPECIFIED, vec![], vec![]),
            (Status::ERR_JOB_NO_EXE_SPECIFIED, vec![], vec![nameless]),
            (Status::ERR_BAD_PARAM, vec![], vec![counted(0)]),
            (Status::ERR_BAD_PARAM, vec![], vec![counted(-1)]),
            (Status::ERR_BAD_PARAM, vec![info(keys::WDIR, 7_u32)], vec![counted(1)]),
            (Status::ERR_BAD_PARAM, vec![info(keys::SET_ENVAR, "A=B")], vec![counted(1)]),
            (Status::ERR_JOB_INSUFFICIENT_RESOURCES, vec![], vec![counted(3), counted(2)]),
            (Status::ERR_JOB_INSUFFICIENT_RESOURCES, vec![], vec![counted(i32::MAX), counted(i32::MAX)]),
            (Status::ERR_JOB_EXE_NOT_FOUND, vec![], vec![app("no-such-program", vec![])]),
            (Status::ERR_JOB_EXE_NOT_FOUND, vec![], vec![app("/no/such", vec![])]),
            (Status::ERR_JOB_APP_NOT_EXECUTABLE, vec![], vec![app("/etc/passwd", vec![])]),
            (Status::ERR_JOB_APP_NOT_EXECUTABLE, vec![], vec![app("/etc", vec![])]),
            (Status::ERR_JOB_WDIR_NOT_FOUND, vec![], vec![lost]),
            (Status::ERR_NOT_SUPPORTED, vec![required], vec![counted(1)]),
        ] {
            let told = format!("{job:?} {apps:?}");
            assert_eq!(refusal(job, apps).0, status, "{told}");
        }
        let mut of_job = info(keys::NOTIFY_COMPLETION, true);
        of_job.flags = InfoFlags::REQUIRED.bits();
        assert!(read_of(vec![of_job.clone()], vec![counted(1)]).is_ok());
        let unread = Info { value: "yes".into(), ..of_job.clone() };
        assert_eq!(refusal(vec![unread], vec![counted(1)]).0, Status::ERR_NOT_SUPPORTED, "it counted as false");
        let target = Info { flags: InfoFlags::REQUIRED.bits(), ..info(keys::STDIN_TGT, 0_u32) };
        assert!(read_of(vec![target], vec![counted(1)]).is_ok());
        assert_eq!(refusal(Vec::new(), vec![app("sh", vec![of_job])]).0, Status::ERR_NOT_SUPPORTED);
        let optional = vec![info(keys::INDEX_ARGV, true)];
        assert!(read_of(optional, vec![counted(1)]).is_ok());
    }
}
