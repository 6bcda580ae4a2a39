//! Initialization, finalization, and functions that need neither.

use std::sync::Arc;

use modex::client::UNDERSTOOD_OF_INIT;
use modex::keys;
use modex::runtime::has_more_rights_than_its_starter;
use modex::runtime::understood::OF_FINALIZE;
use modex::types::{Info, Key, Status, Value};
use modex::{Client, ConnectError};

use super::asynchronous::run;
use super::{debugger, events};
use crate::argument::{CText, Count, Items, Marked, Out};
use crate::client_request::ClientRequest;
use crate::guard::{Failure, guard, guard_or, guard_with_stack};
use crate::process::{self, Member, Membership};
use crate::repeated_init::is_same;
use crate::types::{c_char, c_int, pmix_info_t, pmix_proc_t, pmix_status_t};
use crate::{descriptors, from_c, munge, spoken, stand_in, stdin, to_c, tool, turns};

/// Makes this process a client; in a client it raises the count of initializations. A process that no launcher started
/// becomes a job of one: it gets `PMIX_ERR_UNREACH`, and all local functions work. Infos that describe a programming
/// model raise `PMIX_MODEL_DECLARED` in this process, on the calling thread, before this returns. See the standard's
/// function of the same name.
///
/// If the launcher's server can't be reached or refuses the process, it gets an error and is not initialized. OpenPMIx
/// goes on alone there, so that each rank of the job takes itself for the whole job. `proc` gets the launcher's name
/// for this process even then, or else an empty namespace and the undefined rank.
///
/// A further call must not contradict the first one or the facts: another value of a directive, another server, or
/// another name of this process is refused with `PMIX_ERR_BAD_PARAM`. With `PMIX_EXTERNAL_PROGRESS` functions of the
/// program run inside `PMIx_Progress` alone. Other required directives that are not about a programming model are not
/// supported.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Init<'a>(
    proc: Out<'a, pmix_proc_t>,
    info: Marked<'a>,
    ninfo: Count<'a, pmix_info_t>,
) -> pmix_status_t {
    let status = guard_with_stack(|| {
        let infos = from_c::infos(info.counted(ninfo))?;
        let place = proc.optional("place for the process")?;
        refuse_required(&infos)?;
        turns::choose(&infos, process::is_initialized())?;
        descriptors::occupy_closed();
        let joined = join(&infos).inspect_err(|_| turns::end_unless(process::is_initialized()));
        if let Some(place) = place {
            let name = joined.as_ref().map_or_else(|_| Client::launched_as(), |(member, _)| Some(member.proc()));
            *place = to_c::optional_proc(name.as_ref());
        }
        let (member, is_first) = joined?;
        let Member::Client(client) = &member else { return Ok(Status::SUCCESS) };
        events::declare_model(client, &infos);
        if !is_first {
            return Ok(Status::SUCCESS);
        }
        if let Err(status) = debugger::wait_if_held(client) {
            // The reason for the missing release is returned; the result of the end adds nothing.
            let _ = end();
            return Err(Failure(status));
        }
        Ok(if client.is_alone() { Status::ERR_UNREACH } else { Status::SUCCESS })
    });
    info.mark_if(status, ninfo)
}

/// Makes this process a client if it has no role, and raises the count. The flag says whether it became a client.
fn join(infos: &[Info]) -> Result<(Member, bool), Failure> {
    let _changes = process::begin_to_join();
    let known = process::member().ok();
    let is_first = known.is_none();
    if let Some(member) = &known {
        refuse_contradiction(member, infos)?;
    }
    let member = match known {
        Some(member) => member,
        None => Member::Client(Arc::new(Membership::new(connect()?))),
    };
    process::change(|state| {
        if state.client_count == 0 {
            state.init_directives = infos.to_vec();
        }
        state.client_count += 1;
        if let (true, Member::Client(client)) = (is_first, &member) {
            state.client = Some(Arc::clone(client));
        }
    });
    Ok((member, is_first))
}

/// Facts about this process and its server, which no initialization changes.
const FACTS: [&str; 6] = [
    keys::NSPACE.name(),
    keys::RANK.name(),
    keys::PROCID.name(),
    keys::SERVER_URI.name(),
    keys::SERVER_NSPACE.name(),
    keys::SERVER_RANK.name(),
];

fn refuse_required(infos: &[Info]) -> Result<(), Failure> {
    match keys::first_unmet(infos, &UNDERSTOOD_OF_INIT) {
        None => Ok(()),
        Some(key) => {
            tracing::error!(key = key.as_str(), "PMIx_Init does not honour a required directive; leave it out");
            Err(Failure(Status::ERR_NOT_SUPPORTED))
        }
    }
}

/// Refuses a further initialization that contradicts the first one.
fn refuse_contradiction(member: &Member, infos: &[Info]) -> Result<(), Failure> {
    let earlier = process::read(|state| state.init_directives.clone());
    let contradicts = |info: &&Info| match info.key.as_str() {
        key if UNDERSTOOD_OF_INIT.contains(&key) => false,
        key if FACTS.contains(&key) => fact(member, &info.key).is_some_and(|fact| !is_same(&fact, &info.value)),
        key => earlier.iter().any(|earlier| earlier.key.as_str() == key && earlier.value != info.value),
    };
    match infos.iter().find(contradicts) {
        None => Ok(()),
        Some(info) => {
            tracing::error!(key = info.key.as_str(), "a directive of PMIx_Init contradicts an earlier initialization");
            Err(Failure(Status::ERR_BAD_PARAM))
        }
    }
}

/// What this process knows of itself and its server.
fn fact(member: &Member, key: &Key) -> Option<Value> {
    let proc = member.proc();
    match key.as_str() {
        key if key == keys::NSPACE.name() => Some(Value::from(proc.namespace.as_str())),
        key if key == keys::RANK.name() => Some(Value::from(proc.rank)),
        key if key == keys::PROCID.name() => Some(Value::from(proc)),
        _ => {
            let Member::Client(client) = member else { return None };
            let optional = [Info::new(Key::from_static(keys::OPTIONAL.name()), true)];
            client.find(Some(proc), Some(key.clone()), &optional).ok()?.into_value().ok()
        }
    }
}

fn connect() -> Result<Client, Failure> {
    spoken::begin();
    let builder = Client::builder();
    // In a set-user-id process the environment must not decide whether libmunge is loaded.
    let builder = if has_more_rights_than_its_starter() { builder } else { builder.prover(munge::prover()) };
    match builder.connect() {
        Ok(client) => Ok(client),
        Err(ConnectError::NotLaunched) if let Some(client) = Client::connect_singleton() => Ok(client),
        Err(ConnectError::NotLaunched) => Client::alone().map_err(|_| Failure(Status::ERR_OUT_OF_RESOURCE)),
        Err(error) => {
            tracing::error!(%error, "PMIx_Init failed");
            Err(error.into())
        }
    }
}

/// Lowers the count of initializations; the last call leaves the job. Due callbacks have run when it returns, unless it
/// is called from a callback or a callback takes longer than a second. `PMIX_EMBED_BARRIER` adds a fence first; the
/// process leaves whatever its result. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Finalize<'a>(
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
) -> pmix_status_t {
    guard(|| {
        let wants_barrier = wants_barrier(&from_c::infos(info.counted(ninfo))?)?;
        let is_fenced = wants_barrier && process::read(|state| state.client_count) == 1;
        let barrier =
            if is_fenced { run(ClientRequest::Fence { procs: Vec::new(), directives: Vec::new() }) } else { Ok(()) };
        // A failed barrier does not keep this process. Programs end a tool with either function.
        let is_tool_only = process::read(|state| state.client_count == 0 && state.tool_count > 0);
        let left = if is_tool_only { tool::finalize() } else { end() };
        barrier.and(left)
    })
}

/// Whether the directives of `PMIx_Finalize` ask for a fence.
fn wants_barrier(infos: &[Info]) -> Result<bool, Failure> {
    from_c::refuse_others(infos, &OF_FINALIZE)?;
    let [key] = OF_FINALIZE;
    Ok(infos.iter().any(|info| info.key.as_str() == key && info.value.as_bool() == Some(true)))
}

/// The end of a process's last role.
enum Leaving {
    Nobody,
    Client(Arc<Membership>),
    /// The process was a tool, too.
    Tool,
}

fn end() -> Result<(), Failure> {
    let mut changes = process::begin();
    let leaving = process::change(|state| {
        state.client_count = state.client_count.checked_sub(1).ok_or(Status::ERR_INIT)?;
        if state.client_count == 0 {
            state.init_directives.clear();
        }
        let is_last = state.client_count == 0 && state.tool_count == 0;
        // A tool that has ended already leaves its servers with this role.
        let has_attached = !state.attached.is_empty();
        Ok::<_, Status>(match is_last {
            true if has_attached => Leaving::Tool,
            true => state.client.take().map_or(Leaving::Nobody, Leaving::Client),
            false => Leaving::Nobody,
        })
    })?;
    let client = match leaving {
        Leaving::Nobody => return Ok(()),
        Leaving::Tool => {
            drop(changes);
            return tool::end();
        }
        Leaving::Client(client) => client,
    };
    let _leaving = changes.leave();
    drop(changes);
    stdin::end();
    process::renew_copy();
    let left = turns::finish(move || {
        let left = client.leave();
        client.finish_output();
        left
    });
    turns::end_unless(process::is_initialized());
    Ok(left?)
}

/// Whether this process is initialized, in any role. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Initialized() -> c_int {
    guard_or(0, || c_int::from(process::is_initialized()))
}

/// Name and version of this library, then the release of the interface, such as `modex-0.1.0 4.2.9 (...)`. The string
/// belongs to the library. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Get_version() -> *const c_char {
    guard_or(stand_in::OWN_TEXT.as_ptr(), || stand_in::version_text().as_ptr())
}

/// Asks for the end of processes (none named: all of the caller's namespace). See the standard's function of the same
/// name.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Abort<'a>(
    status: c_int,
    msg: CText<'a>,
    procs: Items<'a, pmix_proc_t>,
    nprocs: Count<'a, pmix_proc_t>,
) -> pmix_status_t {
    guard(|| {
        let own = process::member()?.proc().namespace;
        let message = from_c::text(msg)?.map(|text| text.to_string_lossy()).unwrap_or_default();
        let procs = from_c::procs(procs.counted(nprocs), Some(&own))?;
        run(ClientRequest::Abort { status: Status::from_raw(status), message, procs })
    })
}

/// Runs the callbacks, event handlers and host functions that are due, on the caller's thread, if the process has asked
/// for `PMIX_EXTERNAL_PROGRESS`. They run nowhere else then. Without the directive this does nothing, and the library's
/// thread runs them. Messages need no help in either case. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Progress() {
    guard_or((), turns::run_due);
}

#[cfg(test)]
mod tests {
    use modex::types::{Key, Namespace, ProcId};
    use modex::{LocalHost, Server};

    use super::*;
    use crate::argument::as_c::as_c;
    use crate::stand_in::OWN_VERSION;

    /// Lock of the tests that change this process's role.
    static PROCESS: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

    /// The list of supported attributes is in the library, and their code is here.
    #[test]
    fn finalize_takes_the_attributes_of_the_list() {
        let is_taken = |name: &&'static str| {
            let info = Info::new(Key::from_static(name), true);
            wants_barrier(&[Info { flags: modex::types::InfoFlags::REQUIRED.bits(), ..info }]).is_ok()
        };
        let taken: std::collections::BTreeSet<&str> =
            keys::attributes().map(|attribute| attribute.name).filter(is_taken).collect();
        assert_eq!(taken, modex::runtime::attributes_of_library("PMIx_Finalize"));
    }

    #[test]
    fn an_init_that_fails_counts_for_nothing() {
        let _changes = PROCESS.lock();
        let nowhere = std::ptr::without_provenance_mut(8);
        let status = as_c!(PMIx_Init(nowhere, std::ptr::null_mut(), 0));
        assert_eq!((status, PMIx_Initialized()), (Status::ERR_BAD_PARAM.to_raw(), 0));
    }

    #[test]
    fn a_barrier_waits_for_the_other_processes() {
        let _changes = PROCESS.lock();
        let directory = tempfile::tempdir().unwrap();
        let server = Server::builder().tmpdir(directory.path()).start(LocalHost).unwrap();
        let namespace = Namespace::new("job").unwrap();
        let description = vec![Info::new(Key::from_static(keys::JOB_SIZE.name()), 2_u32)];
        server.register_namespace(&namespace, 2, description).wait().unwrap();
        let [own, other] = [0, 1].map(|rank| {
            let proc = ProcId::new(namespace.clone(), rank);
            let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
            server.register_client(&proc, uid, gid).wait().unwrap();
            Client::builder().env(server.setup_fork(&proc).unwrap()).connect().unwrap()
        });
        process::change(|state| {
            (state.client, state.client_count) = (Some(Arc::new(Membership::new(own))), 1);
        });
        std::thread::scope(|scope| {
            let leaving = scope.spawn(|| {
                let barrier = to_c::infos(&[Info::new(Key::from_static(keys::EMBED_BARRIER.name()), true)]).unwrap();
                as_c!(PMIx_Finalize(barrier.as_ptr(), barrier.len()))
            });
            while server.open_operations().unwrap().is_empty() {
                assert!(!leaving.is_finished(), "it left without the other process");
                std::thread::yield_now();
            }
            assert_eq!(PMIx_Initialized(), 1);
            other.fence(&modex::FenceOptions::new()).wait().unwrap();
            assert_eq!(leaving.join().unwrap(), Status::SUCCESS.to_raw());
        });
        assert_eq!(PMIx_Initialized(), 0);
        other.finalize().unwrap();
        server.shutdown();
    }

    /// Regression: a process whose server or peer had died got the error of the barrier, and stayed in the job for
    /// ever.
    #[test]
    fn a_barrier_that_fails_does_not_keep_a_process_from_leaving() {
        let _changes = PROCESS.lock();
        let directory = tempfile::tempdir().unwrap();
        let server = Server::builder().tmpdir(directory.path()).start(LocalHost).unwrap();
        let proc = ProcId::new(Namespace::new("job").unwrap(), 0);
        let description = vec![Info::new(Key::from_static(keys::JOB_SIZE.name()), 2_u32)];
        server.register_namespace(&proc.namespace, 2, description).wait().unwrap();
        let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        server.register_client(&proc, uid, gid).wait().unwrap();
        let client = Client::builder().env(server.setup_fork(&proc).unwrap()).connect().unwrap();
        process::change(|state| {
            (state.client, state.client_count) = (Some(Arc::new(Membership::new(client))), 1);
        });
        server.shutdown();
        let barrier = to_c::infos(&[Info::new(Key::from_static(keys::EMBED_BARRIER.name()), true)]).unwrap();
        let status = as_c!(PMIx_Finalize(barrier.as_ptr(), barrier.len()));
        assert_eq!((status, PMIx_Initialized()), (Status::ERR_LOST_CONNECTION.to_raw(), 0));
    }

    /// The headers, pkg-config and the library name the same release of the interface.
    #[test]
    fn headers_package_and_library_agree_on_the_release() {
        let header = include_str!("../../include/pmix_version.h");
        assert!(header.contains(&format!("#define PMIX_NUMERIC_VERSION {OWN_VERSION:#010x}")));
        let [_, major, minor, release] = OWN_VERSION.to_be_bytes();
        let makefile = include_str!("../../../Makefile");
        assert!(makefile.contains(&format!("PMIX_VERSION := {major}.{minor}.{release}\n")));
    }
}
