//! Spawned jobs and connected processes.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

use modex::keys;
use modex::proto::{Service, Spawn};
use modex::types::{App, Info, InfoFlags, Namespace, ProcId, Status, Text, Value};

use super::asynchronous::{run, start, start_with};
use crate::argument::{Count, Counted, Items, Out};
use crate::callback::Callback;
use crate::client_request::{Answer, ClientRequest, Results};
use crate::guard::{Failure, guard};
use crate::output::{OutputStyle, SpawnedOutput};
use crate::pointer::CallerData;
use crate::process::{self, Member};
use crate::server_role::ServerRole;
use crate::types::{
    pmix_app_t, pmix_info_t, pmix_iof_channel_t, pmix_nspace_t, pmix_op_cbfunc_t, pmix_proc_t, pmix_spawn_cbfunc_t,
    pmix_status_t,
};
use crate::{call, from_c, server, to_c};

/// Starts a job and waits until its processes have started. `nspace` gets its namespace. A tool writes the job's output
/// to its own, but for channels with `PMIX_FWD_STDOUT` or its like = false. See the standard's function of the same
/// name.
///
/// A tool with a server inside and no other server starts the processes itself, if its host has no function for that.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Spawn<'a>(
    job_info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    apps: Items<'a, pmix_app_t>,
    napps: Count<'a, pmix_app_t>,
    nspace: Out<'a, pmix_nspace_t>,
) -> pmix_status_t {
    guard(|| {
        let request = job(job_info.counted(ninfo), apps.counted(napps))?;
        let place = nspace.optional("place for the namespace")?;
        let shown = ShownSpawn::begin(&request)?;
        let namespace = match own_job(&request) {
            Some(job) => server::spawn_children(job)?,
            None => namespace_of(call::run(request)?)?,
        };
        shown.settle(&namespace);
        if let Some(place) = place {
            *place = to_c::namespace(&namespace);
        }
        Ok(())
    })
}

/// As [`PMIx_Spawn`], with a callback.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Spawn_nb<'a>(
    job_info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    apps: Items<'a, pmix_app_t>,
    napps: Count<'a, pmix_app_t>,
    cbfunc: Callback<pmix_spawn_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| {
        let request = job(job_info.counted(ninfo), apps.counted(napps))?;
        let callback = cbfunc.with(cbdata).ok_or(Failure(Status::ERR_BAD_PARAM))?;
        if let Some(job) = own_job(&request).cloned() {
            let start =
                move || callback.call(server::spawn_children(&job).map(|namespace| to_c::namespace(&namespace)));
            return Ok(process::member()?.defer(start)?);
        }
        let shown = ShownSpawn::begin(&request)?;
        start_with(request, move |result| {
            callback.call(result.and_then(namespace_of).map(|namespace| {
                shown.settle(&namespace);
                to_c::namespace(&namespace)
            }));
        })
    })
}

/// A job that this tool starts itself, because it has no other server.
fn own_job(request: &ClientRequest) -> Option<&Spawn> {
    match request {
        ClientRequest::Service(Service::Spawn(job)) if server::is_forking() => Some(job),
        _ => None,
    }
}

fn namespace_of(answer: Answer) -> Result<Namespace, Status> {
    match answer.results {
        Results::Namespace(namespace) => Ok(namespace),
        _ => Err(Status::ERROR),
    }
}

/// The output that a tool shows of the job that it starts.
fn forwarded(request: &ClientRequest) -> (pmix_iof_channel_t, OutputStyle) {
    match request {
        ClientRequest::Service(Service::Spawn(spawn)) => shown(spawn),
        _ => (0, OutputStyle::default()),
    }
}

/// The channels that a tool shows of its job, and their form. The server writes files.
fn shown(spawn: &Spawn) -> (pmix_iof_channel_t, OutputStyle) {
    let style = OutputStyle::of(&spawn.job);
    let is_hidden = style.is_file_only() || style.is_local == Some(false);
    (if is_hidden { 0 } else { spawn.channels_for_tool() }, style)
}

/// The receiver of the output of a spawned job.
enum ShownSpawn {
    /// The host or the launcher decides.
    Elsewhere,
    /// This tool shows the output.
    Here(Arc<SpawnedOutput>, u64),
    /// This server starts the job for a tool that is connected to it (`PMIX_PARENT_ID`). The tool gets these channels.
    AtTool(Arc<dyn ServerRole>, ProcId, pmix_iof_channel_t),
}

impl ShownSpawn {
    /// Prepares for output before the spawn is asked for.
    fn begin(request: &ClientRequest) -> Result<Self, Failure> {
        let is_tool = process::read(|state| state.tool_count > 0);
        let client = match process::member()? {
            Member::Client(client) if is_tool => client,
            Member::Server(role) if !is_tool => return Ok(Self::at_tool(role, request)),
            _ => return Ok(Self::Elsewhere),
        };
        let (channels, style) = forwarded(request);
        let spawned = Arc::clone(&client.spawned);
        client.show_spawned().map_err(|_| Failure(Status::ERR_OUT_OF_RESOURCE))?;
        let number = spawned.begin(channels, style);
        Ok(Self::Here(spawned, number))
    }

    /// A launcher of PRRTE names the tool that has started it.
    fn at_tool(role: Arc<dyn ServerRole>, request: &ClientRequest) -> Self {
        let ClientRequest::Service(Service::Spawn(spawn)) = request else { return Self::Elsewhere };
        match spawn.job.iter().find(|info| info.key.as_str() == keys::PARENT_ID.name()).map(|info| &info.value) {
            Some(Value::Proc(tool)) => Self::AtTool(role, (**tool).clone(), spawn.channels_for_tool()),
            _ => Self::Elsewhere,
        }
    }

    /// The spawn has succeeded.
    fn settle(self, job: &Namespace) {
        match &self {
            Self::Here(spawned, number) => spawned.settle(*number, Some(job.clone())),
            Self::AtTool(role, tool, channels) => {
                // A parent that is no tool here gets the output by other ways.
                let _ = role.server().forward_output(tool.clone(), job.clone(), *channels).then(|_| ());
            }
            Self::Elsewhere => {}
        }
    }
}

/// A spawn without an answer has failed.
impl Drop for ShownSpawn {
    fn drop(&mut self) {
        if let Self::Here(spawned, number) = self {
            spawned.settle(*number, None);
        }
    }
}

fn job(job_info: Counted<'_, pmix_info_t>, apps: Counted<'_, pmix_app_t>) -> Result<ClientRequest, Failure> {
    process::member()?;
    let job = from_c::infos(job_info)?;
    let apps = from_c::apps(apps)?;
    if apps.is_empty() {
        return Err(Failure(Status::ERR_BAD_PARAM));
    }
    let spawn = Spawn { job, apps };
    if !spawn.has_valid_parents() {
        return Err(Failure(Status::ERR_BAD_PARAM));
    }
    let (shown_channels, _) = shown(&spawn);
    let Spawn { mut job, apps } = spawn;
    // A tool that shows the output of its job gives it its form.
    if shown_channels != 0 && process::read(|state| state.tool_count > 0) && !server::is_forking() {
        for info in job.iter_mut().filter(|info| OutputStyle::is_form(info.key.as_str())) {
            info.flags &= !InfoFlags::REQUIRED.bits();
        }
    }
    Ok(Spawn::new(job, apps.into_iter().map(completed).collect()).into())
}

/// Completes an application with the parts that its description may omit: the program's name, the working directory,
/// and the library's parameters in the caller's environment.
fn completed(mut app: App) -> App {
    if app.argv.is_empty() {
        app.argv.extend(app.command.clone());
    }
    let says_where = |info: &Info| info.key.as_str() == keys::WDIR.name();
    if app.working_directory.is_none() && !app.info.iter().any(says_where) {
        let here = std::env::current_dir().ok();
        app.working_directory = here.and_then(|path| Text::new(path.into_os_string().into_vec()).ok());
    }
    for (name, value) in std::env::vars_os().filter(|(name, _)| name.as_bytes().starts_with(PARAMETER_PREFIX)) {
        let prefix = [name.as_bytes(), b"="].concat();
        if app.environment.iter().any(|entry| entry.as_bytes().starts_with(&prefix)) {
            continue;
        }
        app.environment.extend(Text::new([&prefix, value.as_bytes()].concat()));
    }
    app
}

/// Environment variables that set parameters of a PMIx library.
const PARAMETER_PREFIX: &[u8] = b"PMIX_MCA_";

/// Connects processes: the host treats them as belonging together. Each of them calls it. See the standard's function
/// of the same name.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Connect<'a>(
    procs: Items<'a, pmix_proc_t>,
    nprocs: Count<'a, pmix_proc_t>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
) -> pmix_status_t {
    guard(|| {
        let (procs, directives) = participants(procs.counted(nprocs), info.counted(ninfo))?;
        run(ClientRequest::Connect { procs, directives })
    })
}

/// As [`PMIx_Connect`], with a callback.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Connect_nb<'a>(
    procs: Items<'a, pmix_proc_t>,
    nprocs: Count<'a, pmix_proc_t>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| {
        let (procs, directives) = participants(procs.counted(nprocs), info.counted(ninfo))?;
        start(ClientRequest::Connect { procs, directives }, cbfunc, cbdata)
    })
}

/// Undoes [`PMIx_Connect`]; each of the processes calls it. See the standard's function of the same name.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Disconnect<'a>(
    procs: Items<'a, pmix_proc_t>,
    nprocs: Count<'a, pmix_proc_t>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
) -> pmix_status_t {
    guard(|| {
        let (procs, directives) = participants(procs.counted(nprocs), info.counted(ninfo))?;
        run(ClientRequest::Disconnect { procs, directives })
    })
}

/// As [`PMIx_Disconnect`], with a callback.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Disconnect_nb<'a>(
    procs: Items<'a, pmix_proc_t>,
    nprocs: Count<'a, pmix_proc_t>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| {
        let (procs, directives) = participants(procs.counted(nprocs), info.counted(ninfo))?;
        start(ClientRequest::Disconnect { procs, directives }, cbfunc, cbdata)
    })
}

fn participants(
    procs: Counted<'_, pmix_proc_t>,
    info: Counted<'_, pmix_info_t>,
) -> Result<(Vec<ProcId>, Vec<Info>), Failure> {
    let own = process::member()?.proc().namespace;
    let procs = from_c::procs(procs, Some(&own))?;
    let directives = from_c::infos(info)?;
    if procs.is_empty() { Err(Failure(Status::ERR_BAD_PARAM)) } else { Ok((procs, directives)) }
}
