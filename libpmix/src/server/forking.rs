//! Jobs that a tool starts itself: it has a server inside, no other server, and no host's function for spawns. The
//! processes are children of the tool on this machine. Most tools start one process, a launcher.
//!
//! OpenPMIx does the same in such a tool, with the same names of jobs. `child_watch` reads the output of the processes
//! and waits for their ends.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use modex::gds::registration::JobDescription;
use modex::keys::{self, TypedKey};
use modex::proto::Spawn;
use modex::ptl::LAUNCHER_SERVER_NAME;
use modex::runtime::understood::{OF_DEBUGGED_JOBS, OF_FORKED_APPS, OF_FORKED_JOBS};
use modex::types::codes::iof_channel::{FWD_STDERR_CHANNEL, FWD_STDOUT_CHANNEL};
use modex::types::{App, AsStatus, Info, InfoFlags, Namespace, ProcId, Status, Text, Value};
use modex::{Capabilities, EnvironmentChange, Host, Server};
use nix::fcntl::OFlag;
use nix::libc;
use nix::unistd::{getegid, geteuid, pipe2};

use super::child_watch;
use super::children::Spawned;
use super::state::{self, ServerProcess};
use super::upcall::ModuleHost;
use crate::output::OutputStyle;
use crate::process::{self, Member};

/// A tool starts a launcher rather than a job of this size.
const PROCESSES_MAX: u32 = 1024;

/// Whether this process starts jobs itself.
pub(crate) fn is_forking() -> bool {
    let is_tool = process::read(|state| state.tool_count > 0);
    let Ok(current) = state::current() else { return false };
    let capabilities = ModuleHost::new(Arc::clone(&current.bridge)).capabilities();
    is_tool && matches!(process::member(), Ok(Member::Server(_))) && !capabilities.contains(Capabilities::SPAWN)
}

/// Starts a job. Returns its name when all processes have started.
///
/// # Errors
/// No process of the job stays.
pub(crate) fn spawn(request: &Spawn) -> Result<Namespace, Status> {
    let process = state::current().map_err(|failure| failure.0)?;
    let is_nohup = is_set(request, keys::NOHUP);
    refuse_unmet(request, is_nohup)?;
    refuse_unread(request)?;
    let apps = counted(request)?;
    let job = new_name(process.server())?;
    register(&process, &job, request, &apps)?;
    let mut spawned = Spawned::default();
    let started = start_all(process.server(), &job, request, &apps, &mut spawned);
    let is_awaited = is_set(request, keys::NOTIFY_COMPLETION);
    let watched = started.and_then(|pipe| child_watch::watch(&process, &job, spawned, pipe, is_awaited));
    watched.map(|()| job.clone()).map_err(|error| {
        tracing::error!(%job, %error, "a tool can't start its job");
        child_watch::forget(&process, &job);
        match error.kind() {
            io::ErrorKind::NotFound => Status::ERR_JOB_EXE_NOT_FOUND,
            io::ErrorKind::PermissionDenied => Status::ERR_JOB_APP_NOT_EXECUTABLE,
            io::ErrorKind::NotADirectory => Status::ERR_JOB_WDIR_NOT_FOUND,
            _ => Status::ERR_JOB_FAILED_TO_LAUNCH,
        }
    })
}

/// Output of a process that outlives the tool does not pass through the tool, so it has no form.
fn refuse_unmet(request: &Spawn, is_nohup: bool) -> Result<(), Status> {
    let is_change = |info: &Info| EnvironmentChange::read(info).is_some();
    let is_output = |key: &str| !is_nohup && OutputStyle::is_directive(key);
    let is_of_job = |key: &str| is_output(key) || OF_DEBUGGED_JOBS.contains(&key) || OF_FORKED_JOBS.contains(&key);
    let of_job =
        |info: &&Info| keys::is_unmet(info, |key| is_change(info) || is_of_job(key) || OF_FORKED_APPS.contains(&key));
    let of_app = |info: &&Info| keys::is_unmet(info, |key| is_change(info) || OF_FORKED_APPS.contains(&key));
    let mut infos = request.apps.iter().flat_map(|app| &app.info);
    match request.job.iter().find(of_job).or_else(|| infos.find(of_app)) {
        Some(info) => {
            tracing::error!(key = %info.key, "a tool without another server can't honour this directive of a spawn; connect it to a launcher, or leave the directive out");
            Err(Status::ERR_NOT_SUPPORTED)
        }
        None => Ok(()),
    }
}

/// Only a launcher that knows the address of this tool reads directives for its own job. Whether the program is a
/// launcher is unknown.
fn refuse_unread(request: &Spawn) -> Result<(), Status> {
    let key = keys::LAUNCH_DIRECTIVES.name();
    for info in request.job.iter().filter(|info| info.key.as_str() == key) {
        let directives = infos_in(&info.value).ok_or_else(|| {
            tracing::error!(key, "the value of this directive is no array of infos");
            Status::ERR_BAD_PARAM
        })?;
        let is_required = |info: &Info| info.flags().contains(InfoFlags::REQUIRED);
        let is_read = is_held_tool(request) || request.apps.iter().all(knows_a_tool);
        if !is_read && (is_required(info) || directives.into_iter().any(is_required)) {
            tracing::error!(
                key,
                "only a launcher that waits for this tool reads this directive; add PMIX_SPAWN_TOOL and PMIX_DEBUG_STOP_IN_INIT, or \
                 PMIX_LAUNCHER_RNDZ_URI among the variables of the program"
            );
            return Err(Status::ERR_NOT_SUPPORTED);
        }
    }
    Ok(())
}

/// The infos in an array of them.
fn infos_in(value: &Value) -> Option<Vec<&Info>> {
    let Value::DataArray(array) = value else { return None };
    let infos = array.elements.iter().map(|element| if let Value::Info(info) = element { Some(&**info) } else { None });
    infos.collect()
}

/// Whether the program's variables have the address of a tool.
fn knows_a_tool(app: &App) -> bool {
    let name = keys::LAUNCHER_RNDZ_URI.name().as_bytes();
    app.environment.iter().any(|entry| entry.as_bytes().strip_prefix(name).is_some_and(|rest| rest.starts_with(b"=")))
}

/// The applications with their numbers of processes.
fn counted(request: &Spawn) -> Result<Vec<(&App, u32)>, Status> {
    let count = |app: &App| u32::try_from(app.processes_max).ok().filter(|count| *count > 0);
    let apps: Result<Vec<_>, _> =
        request.apps.iter().map(|app| count(app).map(|count| (app, count)).ok_or(Status::ERR_BAD_PARAM)).collect();
    let apps = apps?;
    let total: u64 = apps.iter().map(|(_, count)| u64::from(*count)).sum();
    if total > u64::from(PROCESSES_MAX) { Err(Status::ERR_JOB_INSUFFICIENT_RESOURCES) } else { Ok(apps) }
}

fn new_name(server: &Server) -> Result<Namespace, Status> {
    static LAST: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only the number counts.
    let number = LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    Namespace::new(&format!("{}:{number}", server.proc().namespace)).map_err(|_| Status::ERR_JOB_FAILED_TO_LAUNCH)
}

fn is_set(request: &Spawn, key: TypedKey<bool>) -> bool {
    request.job.iter().any(|info| info.key.as_str() == key.name() && info.value.as_bool() == Some(true))
}

/// Describes the job to the server, so that its processes may connect.
fn register(process: &ServerProcess, job: &Namespace, request: &Spawn, apps: &[(&App, u32)]) -> Result<(), Status> {
    let server = process.server();
    let count = apps.iter().map(|(_, count)| count).sum();
    let mut description = JobDescription::new(job)
        .server(server.proc().clone())
        .nodes([server.hostname()])
        .ranks_by_node(std::iter::once(0..count))
        .spawned_by(server.proc().clone());
    for (app, count) in apps {
        let directory = directory(request, app).unwrap_or_default();
        let argv = app.argv.iter().map(Text::to_string_lossy);
        description = description.app(*count, argv, directory.to_string_lossy());
    }
    for info in request.job.iter().filter(|info| OF_DEBUGGED_JOBS.contains(&info.key.as_str())) {
        description = description.job_value(info.key.clone(), info.value.clone());
    }
    let description = description.build().map_err(|_| Status::ERR_BAD_PARAM)?;
    server.register_namespace(job, count, description).wait().map_err(|error| error.status())?;
    let described = process.output.describe_job(job, &request.job, count);
    described.inspect_err(|_| child_watch::forget(process, job)).map_err(|error| error.status())?;
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    for rank in 0..count {
        let registered = server.register_client(&ProcId::new(job.clone(), rank), uid, gid).wait();
        registered.inspect_err(|_| child_watch::forget(process, job)).map_err(|error| error.status())?;
    }
    Ok(())
}

/// Starts the processes. Returns the end of a pipe that closes with this process, unless the job does not end with it.
fn start_all(
    server: &Server,
    job: &Namespace,
    request: &Spawn,
    apps: &[(&App, u32)],
    spawned: &mut Spawned,
) -> io::Result<Option<OwnedFd>> {
    let pipe = if is_set(request, keys::NOHUP) { None } else { Some(pipe2(OFlag::O_CLOEXEC)?) };
    let channels = request.channels_for_tool();
    let shown = |channel: u16| match &pipe {
        _ if channels & channel == 0 => Stdio::null(),
        Some(_) => Stdio::piped(),
        None => Stdio::inherit(),
    };
    let all = apps.iter().flat_map(|(app, count)| std::iter::repeat_n(app, usize::try_from(*count).unwrap_or(0)));
    for (rank, app) in (0..).zip(all) {
        let proc = ProcId::new(job.clone(), rank);
        let mut command = command(server, &proc, request, app)?;
        if let Some((inherited, _)) = &pipe {
            command.env(keys::KEEPALIVE_PIPE.name(), inherited.as_raw_fd().to_string());
        }
        // As from OpenPMIx: the input ends when the tool ends it, or ends itself.
        command.stdin(if pipe.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(shown(FWD_STDOUT_CHANNEL)).stderr(shown(FWD_STDERR_CHANNEL));
        close_others(&mut command, pipe.as_ref().map(|(inherited, _)| inherited.as_raw_fd()));
        let started = command.process_group(0).spawn();
        let program = command.get_program().to_string_lossy();
        let child = started.map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?;
        let pid = child.id();
        spawned.add(proc.clone(), child)?;
        server.describe_process(&proc, pid, &program).wait().map_err(io::Error::other)?;
    }
    Ok(pipe.map(|(_, own)| own))
}

/// Keeps the descriptors of the tool from a child, but for the standard streams and `kept`.
fn close_others(command: &mut Command, kept: Option<RawFd>) {
    let close = move || {
        // SAFETY: takes any numbers. Before Linux 5.11 it fails, and the program's descriptors are as the program has
        // made them.
        unsafe { libc::close_range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC.cast_signed()) };
        // SAFETY: changes a descriptor of the child.
        let is_kept = kept.is_none_or(|kept| unsafe { libc::fcntl(kept, libc::F_SETFD, 0) } == 0);
        if is_kept { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: both calls are safe between fork and exec.
    unsafe { command.pre_exec(close) };
}

fn command(server: &Server, proc: &ProcId, request: &Spawn, app: &App) -> io::Result<Command> {
    let text = |text: &Text| OsStr::from_bytes(text.as_bytes()).to_owned();
    let program = app.command.as_ref().or(app.argv.first()).map(text).unwrap_or_default();
    let mut command = match text_of(request, app, keys::FORKEXEC_AGENT) {
        Some(agent) => {
            let mut words = agent.as_bytes().split(|byte| *byte == b' ').filter(|word| !word.is_empty());
            let mut command = Command::new(OsStr::from_bytes(words.next().unwrap_or_default()));
            command.args(words.map(OsStr::from_bytes)).arg(program);
            command
        }
        None => {
            let mut command = Command::new(&program);
            command.arg0(app.argv.first().map_or(program, text));
            command
        }
    };
    command.args(app.argv.iter().skip(1).map(text));
    set_environment(&mut command, server, proc, request, app)?;
    if let Some(directory) = directory(request, app) {
        // The system reports a missing directory as a missing program.
        if !Path::new(&directory).is_dir() {
            let missing = format!("{} is not a directory", directory.display());
            return Err(io::Error::new(io::ErrorKind::NotADirectory, missing));
        }
        command.current_dir(directory);
    }
    Ok(command)
}

/// The environment of the tool, with the application's variables, the changes, and the way to the tool's server, in
/// this order.
fn set_environment(
    command: &mut Command,
    server: &Server,
    proc: &ProcId,
    request: &Spawn,
    app: &App,
) -> io::Result<()> {
    Server::REMOVED_VARIABLES.iter().for_each(|name| {
        command.env_remove(name);
    });
    if is_held_tool(request) {
        command.env(keys::LAUNCHER_RNDZ_URI.name(), server.uri());
    }
    for setting in &app.environment {
        let bytes = setting.as_bytes();
        // Entries without a name mean nothing.
        if let Some(at) = bytes.iter().position(|byte| *byte == b'=').filter(|at| *at > 0) {
            let (name, value) = bytes.split_at(at);
            command.env(OsStr::from_bytes(name), OsStr::from_bytes(value.get(1..).unwrap_or_default()));
        }
    }
    let changes: Vec<_> = request.job.iter().chain(&app.info).filter_map(EnvironmentChange::read).collect();
    let set: Vec<(OsString, Option<OsString>)> =
        command.get_envs().map(|(name, value)| (name.to_owned(), value.map(OsStr::to_owned))).collect();
    let old = |name: &OsStr| {
        let found = set.iter().find(|(known, _)| known == name);
        found.map_or_else(|| inherited(name), |(_, value)| value.clone())
    };
    for (name, value) in EnvironmentChange::merged(&changes, old) {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let rank = proc.rank.process().unwrap_or_default();
    // The tool finds the launcher by the name of its job.
    command.envs(LAUNCHER_SERVER_NAME.into_iter().zip([proc.namespace.to_string(), rank.to_string()]));
    command.envs(server.setup_fork(proc).map_err(io::Error::other)?);
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "children inherit the environment of a C program, which is an edge")]
fn inherited(name: &OsStr) -> Option<OsString> {
    std::env::var_os(name)
}

/// Whether the job is a launcher that waits for this tool.
fn is_held_tool(request: &Spawn) -> bool {
    let stops =
        |info: &Info| info.key.as_str() == keys::DEBUG_STOP_IN_INIT.name() && info.value.as_bool() != Some(false);
    is_set(request, keys::SPAWN_TOOL) && request.job.iter().any(stops)
}

/// The library fills in the directory of the application, so directives count more.
fn directory(request: &Spawn, app: &App) -> Option<OsString> {
    let of_app = || app.working_directory.as_ref().map(|text| OsString::from_vec(text.as_bytes().to_vec()));
    text_of(request, app, keys::WDIR).or_else(of_app).filter(|directory| !directory.is_empty())
}

/// A text among the directives. Those of the application count more than those of the job.
fn text_of(request: &Spawn, app: &App, key: TypedKey<str>) -> Option<OsString> {
    let found = app.info.iter().chain(&request.job).find(|info| info.key.as_str() == key.name())?;
    match &found.value {
        Value::String(text) => Some(OsString::from_vec(text.as_bytes().to_vec())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use modex::types::Key;

    use super::*;

    /// Regression: required directives for a launcher succeeded, though nothing read them, and so did a value of
    /// another type.
    #[test]
    fn directives_for_a_launcher_need_one_that_waits() {
        let info = |key: &'static str, value: Value| Info::new(Key::from_static(key), value);
        let required = |info: Info| Info { flags: InfoFlags::REQUIRED.bits(), ..info };
        let stop = || info(keys::DEBUG_STOP_IN_INIT.name(), Value::from(true));
        let directives = |infos: Vec<Info>| info(keys::LAUNCH_DIRECTIVES.name(), Value::info_array(infos));
        let refused = |job: Vec<Info>, variable: Option<&str>| {
            let app = App {
                command: None,
                argv: Vec::new(),
                environment: variable.into_iter().map(Text::from).collect(),
                working_directory: None,
                processes_max: 1,
                info: Vec::new(),
            };
            refuse_unread(&Spawn::new(job, vec![app])).err()
        };
        let unread = Some(Status::ERR_NOT_SUPPORTED);
        assert_eq!(refused(vec![directives(vec![required(stop())])], None), unread);
        assert_eq!(refused(vec![required(directives(vec![stop()]))], None), unread);
        assert_eq!(refused(vec![directives(vec![stop()])], None), None);
        let is_tool = info(keys::SPAWN_TOOL.name(), Value::from(true));
        assert_eq!(refused(vec![required(directives(vec![])), is_tool.clone()], None), unread);
        assert_eq!(refused(vec![required(directives(vec![])), is_tool, stop()], None), None);
        assert_eq!(refused(vec![required(directives(vec![]))], Some("PMIX_LAUNCHER_RNDZ_URI=a.0;tcp4://b:1")), None);
        let text = info(keys::LAUNCH_DIRECTIVES.name(), Value::from("x"));
        assert_eq!(refused(vec![text], None), Some(Status::ERR_BAD_PARAM));
    }
}
