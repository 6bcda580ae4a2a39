//! Preparation of a job, where it is started and on the nodes that run it.

use crate::api::{Server, ServerError};
use crate::capi::from_c;
use crate::capi::guard::{Failure, guard, guard_or};
use crate::capi::types::{
    c_char, c_void, pmix_info_t, pmix_op_cbfunc_t, pmix_setup_application_cbfunc_t, pmix_status_t,
};
use crate::capi::{lent, to_c};
use crate::gds::AsStatus;
use crate::keys::{self, TypedKey};
use crate::topo::Inventories;
use crate::types::{Info, Key, Namespace, Status, Text, Value};

use super::allocation::{Layout, allocate, values_of};
use super::completion::perform_at_once;
use super::fork::Change;
use super::harvest::harvested;
use super::state::{self, ServerProcess};
use crate::capi::pointer::CallerData;

/// Collects what the nodes of a job need for `PMIx_server_setup_local_support`: the variables that the user has forwarded
/// (`PMIX_MCA_forward_envars`), and the changes of the environment among `info`, which come after them
/// (`PMIX_SETUP_APP_ENVARS`); and for each `PMIX_ALLOC_FABRIC` what there is of it (`PMIX_SETUP_APP_NONENVARS`): a key, and
/// endpoints on the interfaces that delivered inventories name, for the nodes and processes of `PMIX_NODE_MAP` and
/// `PMIX_PROC_MAP`. Without either of the two, or with `PMIX_SETUP_APP_ALL`, both. The array belongs to the library until the
/// callback's release function is called. See the standard's function of the same name.
///
/// Support: implemented.
///
/// # Safety
/// `nspace` is NULL or NUL-terminated, `info` has `ninfo` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_server_setup_application(
    nspace: *const c_char,
    info: *mut pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_setup_application_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t {
    guard(|| {
        let process = state::current()?;
        let callback = cbfunc.ok_or(Failure(Status::ERR_BAD_PARAM))?;
        // SAFETY: the caller's contract.
        unsafe { from_c::namespace(nspace, None) }?;
        // SAFETY: the caller's contract.
        let mut infos = unsafe { from_c::infos(info, ninfo) }?;
        let asked = |key: TypedKey<bool>| infos.iter().any(|info| is_set(info, key.name()));
        let (variables, others) = (asked(keys::SETUP_APP_ENVARS), asked(keys::SETUP_APP_NONENVARS));
        let wants_all = asked(keys::SETUP_APP_ALL) || variables == others;
        let wants_variables = wants_all || variables;
        let allocated = if wants_all || others { allocated(&process, &infos)? } else { Vec::new() };
        infos.retain(|info| wants_variables && Change::of(info).is_some());
        if wants_variables {
            infos.splice(0..0, harvested());
        }
        infos.extend(allocated);
        let array = to_c::infos(&infos)?;
        let data = CallerData::new(cbdata);
        process.server().defer(move || {
            let (first, count) = (array.as_ptr().cast_mut(), array.len());
            let token = lent::lend(array);
            // SAFETY: the caller gave the function for this, and its data with it; the array lives until it is released.
            unsafe { callback(Status::SUCCESS.to_raw(), first, count, data.get(), Some(release), token) };
        })?;
        Ok(())
    })
}

/// What a job gets of the fabric.
fn allocated(process: &ServerProcess, infos: &[Info]) -> Result<Vec<Info>, Failure> {
    if !infos.iter().any(|info| info.key.as_str() == keys::ALLOC_FABRIC.name()) {
        return Ok(Vec::new());
    }
    let given = Layout::of(infos).and_then(|layout| allocate(infos, &layout, &delivered(process.server())));
    given.map_err(|error| {
        tracing::warn!(%error, "the job's application can't be set up");
        Failure(error.status())
    })
}

/// The inventories that were delivered to this server.
fn delivered(server: &Server) -> Inventories {
    let mut inventories = Inventories::default();
    let at_once = Info::new(Key::from_static(keys::IMMEDIATE.name()), true);
    let found = server.get(server.proc(), Some(&Key::from_static(Server::INVENTORY)), vec![at_once]);
    for entry in found.unwrap_or_default() {
        let Value::DataArray(array) = &entry.value else { continue };
        let blobs = array.elements.iter().filter_map(|blob| match blob {
            Value::ByteObject(blob) => Some(blob.as_slice()),
            _ => None,
        });
        // They were read when they were delivered, and are as many as can be.
        let _ = inventories.deliver(blobs);
    }
    inventories
}

fn is_set(info: &Info, key: &str) -> bool {
    info.key.as_str() == key && info.value.as_bool() == Some(true)
}

/// Releases what a callback got.
unsafe extern "C" fn release(_: pmix_status_t, token: *mut c_void) {
    guard_or((), || lent::take_back(token));
}

/// Takes what `PMIx_server_setup_application` has collected for a job: changes of the environment of its processes, for
/// `PMIx_server_setup_fork`, and what it got of the fabric, which its processes find by Get. What the array holds besides is
/// not for this server. See the standard's function of the same name.
///
/// Support: implemented.
///
/// # Safety
/// `nspace` is NULL or NUL-terminated, `info` has `ninfo` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_server_setup_local_support(
    nspace: *const c_char,
    info: *mut pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t {
    perform_at_once(cbfunc, cbdata, |process| {
        // SAFETY: the caller's contract.
        let namespace = unsafe { from_c::namespace(nspace, None) }?;
        // SAFETY: the caller's contract.
        let infos: Vec<Info> = unsafe { from_c::infos(info, ninfo) }?;
        let changes: Vec<Change> = infos.iter().filter_map(Change::of).collect();
        if let Some(name) = changes.iter().map(Change::name).find(|name| !is_variable(name)) {
            tracing::warn!(%namespace, ?name, "no variable can have this name; nothing is set up");
            return Err(Failure(Status::ERR_BAD_PARAM));
        }
        let values: Vec<Info> = infos.iter().flat_map(values_of).collect();
        give(process, &namespace, values)?;
        process.environments.lock().insert(namespace, changes);
        Ok(())
    })
}

/// Makes values part of a job's description, now or when it is described. While it is just being registered nobody can tell
/// which: what is in `allocated` then is looked at by whoever comes last, the registration or this.
fn give(process: &ServerProcess, namespace: &Namespace, values: Vec<Info>) -> Result<(), Failure> {
    if values.is_empty() {
        return Ok(());
    }
    for _ in 0..2 {
        let described = process.described.lock();
        if !described.contains(namespace) {
            process.allocated.lock().insert(namespace.clone(), values);
            return Ok(());
        }
        drop(described);
        match process.server().extend_namespace(namespace, values.clone()) {
            Err(ServerError::Refused { status: Status::ERR_NOT_FOUND, .. }) => {
                process.allocated.lock().insert(namespace.clone(), values.clone());
            }
            result => {
                process.allocated.lock().remove(namespace);
                return Ok(result?);
            }
        }
    }
    Ok(())
}

fn is_variable(name: &Text) -> bool {
    !name.as_bytes().is_empty() && !name.as_bytes().contains(&b'=')
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::capi::server::registration::note;
    use crate::capi::server::upcall::{Bridge, ModuleHost};
    use crate::capi::topology::{Given, HostTopology};
    use crate::capi::types::pmix_server_module_t;
    use crate::gds::registration::JobDescription;
    use crate::proto::exchange::ExchangeForm;
    use crate::types::{ProcId, Rank};

    fn server(directory: &std::path::Path) -> ServerProcess {
        let bridge = Arc::new(Bridge::new(pmix_server_module_t::default(), ExchangeForm::default()));
        let topology = Arc::new(HostTopology::new(Given::Forbidden));
        let builder = Server::builder().hostname("n0").tmpdir(directory).topology(Arc::clone(&topology) as Arc<_>);
        let server = builder.start(ModuleHost::new(Arc::clone(&bridge))).unwrap();
        ServerProcess::new(server, bridge, topology)
    }

    /// What a job got while it was just being registered began the job in the core, without a size or processes; or it was lost.
    #[test]
    fn what_a_job_gets_while_it_is_being_registered_waits_for_that_and_is_added() {
        let _only = state::ONLY_SERVER.lock();
        let directory = tempfile::tempdir().unwrap();
        let process = server(directory.path());
        let namespace = Namespace::new("job").unwrap();
        let value = || vec![Info::new(Key::from_static("site.colour"), 7_u32)];
        process.described.lock().insert(namespace.clone());
        assert!(give(&process, &namespace, value()).is_ok());
        assert_eq!(process.allocated.lock().get(&namespace), Some(&value()), "the core knows no such job");
        let description =
            JobDescription::new(&namespace).nodes(["n0"]).ranks_by_node(std::iter::once(0..1)).build().unwrap();
        process.server().register_namespace(&namespace, 1, description).unwrap();
        // The registration had looked before there was anything.
        note(&process, &namespace, Some(&[]), true);
        assert_eq!(process.allocated.lock().get(&namespace), None);
        // Calls are served in order, so the value is there when this one is.
        assert!(give(&process, &namespace, vec![Info::new(Key::from_static("site.size"), 8_u32)]).is_ok());
        let job = ProcId { namespace, rank: Rank::Wildcard };
        for (name, number) in [("site.colour", 7), ("site.size", 8)] {
            let found = process.server().get(&job, Some(&Key::from_static(name)), Vec::new()).unwrap();
            let found = found.iter().find(|kval| kval.key.as_str() == name);
            assert_eq!(found.and_then(|kval| kval.value.as_u32()), Some(number), "{name}");
        }
    }
}
