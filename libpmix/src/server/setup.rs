//! Preparation of a job: on the node that starts it and on the nodes that run it.

use std::sync::Arc;

use modex::keys::{self, TypedKey};
use modex::topo::Inventories;
use modex::types::AsStatus;
use modex::types::{Info, InfoFlags, Key, Namespace, Status, Text, Value};
use modex::{Server, ServerError};

use super::allocation::{Layout, allocate, values_of};
use super::completion::perform_at_once;
use super::environment::Change;
use super::harvest::harvested;
use super::state::{self, ALLOTMENTS_MAX, Allotment, ServerProcess};
use crate::argument::{Count, Items, NamespaceText};
use crate::callback::Callback;
use crate::from_c;
use crate::guard::{Failure, guard};
use crate::pointer::CallerData;
use crate::to_c;
use crate::types::{pmix_info_t, pmix_op_cbfunc_t, pmix_setup_application_cbfunc_t, pmix_status_t};

/// Collects the data that the nodes of a job need for `PMIx_server_setup_local_support`:
///
/// - Environment (`PMIX_SETUP_APP_ENVARS`): the variables that the user forwards (`PMIX_MCA_forward_envars`), then the changes of
///   the environment among `info`.
/// - Fabric (`PMIX_SETUP_APP_NONENVARS`): for each `PMIX_ALLOC_FABRIC` a key, and endpoints on the interfaces of delivered
///   inventories, for the nodes and processes of `PMIX_NODE_MAP` and `PMIX_PROC_MAP`.
///
/// Without either key, or with `PMIX_SETUP_APP_ALL`, it collects both. The array belongs to the library until the callback's
/// release function is called. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_server_setup_application<'a>(
    nspace: NamespaceText<'a>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_setup_application_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| {
        let process = state::current()?;
        let callback = cbfunc.with(cbdata).ok_or(Failure(Status::ERR_BAD_PARAM))?;
        let namespace = from_c::namespace(nspace, None)?;
        let mut infos = from_c::infos(info.counted(ninfo))?;
        refuse_unknown(&infos)?;
        // An error here is reported once; later each node's server would report it.
        changes_of(&namespace, &infos)?;
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
        process.server().defer(move || callback.call(array))?;
        Ok(())
    })
}

/// Refuses required infos that are no attribute of the standard, such as those without a key: nothing can honour them.
fn refuse_unknown(infos: &[Info]) -> Result<(), Failure> {
    let is_required = |info: &&Info| info.flags().contains(InfoFlags::REQUIRED);
    match infos.iter().filter(is_required).find(|info| keys::by_name(info.key.as_str()).is_none()) {
        None => Ok(()),
        Some(Info { key, .. }) => {
            tracing::warn!(?key, "the job's application can't be set up: nothing honours this required info");
            Err(Failure(Status::ERR_NOT_SUPPORTED))
        }
    }
}

/// The fabric resources of a job.
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
        // The delivery checked these blobs and their number, so this can't fail.
        let _ = inventories.deliver(blobs);
    }
    inventories
}

fn is_set(info: &Info, key: &str) -> bool {
    info.key.as_str() == key && info.value.as_bool() == Some(true)
}

/// Takes the array that `PMIx_server_setup_application` collected for a job. Changes of the environment are for
/// `PMIx_server_setup_fork`. Fabric resources are found by the job's processes with Get. Other infos are ignored. See the
/// standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C" fn PMIx_server_setup_local_support<'a>(
    nspace: NamespaceText<'a>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    perform_at_once(cbfunc, cbdata, |process| {
        let namespace = from_c::namespace(nspace, None)?;
        let infos: Vec<Info> = from_c::infos(info.counted(ninfo))?;
        let changes = changes_of(&namespace, &infos)?;
        let values: Vec<Info> = infos.iter().flat_map(values_of).collect();
        give(process, &namespace, values)?;
        let changes: Arc<[Change]> = changes.into();
        process.environments.change(|environments| {
            environments.insert(namespace.clone(), Arc::clone(&changes));
        });
        Ok(())
    })
}

/// Makes values part of a job's description, now or when it is described. During a registration the state is unknown: the values
/// stay in `allocated`, and the registration looks there last. Each caller that adds takes all values left, in the order of the
/// calls. It holds the lock until the core has them, so that no older value follows a newer one.
fn give(process: &ServerProcess, namespace: &Namespace, values: Vec<Info>) -> Result<(), Failure> {
    if values.is_empty() {
        return Ok(());
    }
    let mut allocated = process.allocated.lock();
    let left = allocated.entry(namespace.clone()).or_default();
    if left.len() >= ALLOTMENTS_MAX {
        tracing::warn!(%namespace, ALLOTMENTS_MAX, "the job was set up so often without being registered; nothing is added");
        return Err(Failure(Status::ERR_OUT_OF_RESOURCE));
    }
    left.push(Allotment::from(values));
    if !process.described.lock().contains(namespace) {
        return Ok(());
    }
    match process.server().extend_namespace(namespace, left.concat()) {
        Ok(()) => {
            allocated.remove(namespace);
            Ok(())
        }
        Err(ServerError::Refused { status: Status::ERR_NOT_FOUND, .. }) => Ok(()),
        Err(error) => {
            // Values left by other calls stay.
            left.pop();
            Err(error.into())
        }
    }
}

/// The changes of the environment among infos.
fn changes_of(namespace: &Namespace, infos: &[Info]) -> Result<Vec<Change>, Failure> {
    let changes: Vec<Change> = infos.iter().filter_map(Change::of).collect();
    if let Some(name) = changes.iter().map(Change::name).find(|name| !is_variable(name)) {
        tracing::warn!(%namespace, ?name, "no variable can have this name; nothing is set up");
        return Err(Failure(Status::ERR_BAD_PARAM));
    }
    Ok(changes)
}

fn is_variable(name: &Text) -> bool {
    !name.as_bytes().is_empty() && !name.as_bytes().contains(&b'=')
}

#[cfg(test)]
mod tests {
    use modex::gds::registration::JobDescription;
    use modex::proto::exchange::ExchangeForm;
    use modex::types::{ProcId, Rank};

    use super::*;
    use crate::server::registration::{note, take};
    use crate::server::upcall::{Bridge, ModuleHost};
    use crate::topology::{Given, HostTopology};
    use crate::types::pmix_server_module_t;

    fn server(directory: &std::path::Path) -> ServerProcess {
        let bridge = Arc::new(Bridge::new(pmix_server_module_t::default(), ExchangeForm::default()));
        let topology = Arc::new(HostTopology::new(Given::Forbidden));
        let builder = Server::builder().hostname("n0").tmpdir(directory).topology(Arc::clone(&topology) as Arc<_>);
        let server = builder.start(ModuleHost::new(Arc::clone(&bridge))).unwrap();
        ServerProcess::new(server, bridge, topology)
    }

    /// Regression: values given during a registration created the job in the core, without a size or processes; or they were lost.
    #[test]
    fn what_a_job_gets_while_it_is_being_registered_waits_for_that_and_is_added() {
        let _only = state::ONLY_SERVER.lock();
        let directory = tempfile::tempdir().unwrap();
        let process = server(directory.path());
        let namespace = Namespace::new("job").unwrap();
        process.described.lock().insert(namespace.clone());
        assert!(give(&process, &namespace, value("site.colour", 7)).is_ok());
        assert_eq!(left(&process, &namespace), value("site.colour", 7), "the core knows no such job");
        register(&process, &namespace);
        // The registration looked before the values were there.
        note(&process, &namespace, Some(&[]), true);
        assert_eq!(left(&process, &namespace), []);
        // Calls are served in order, so the value is there when this one is.
        assert!(give(&process, &namespace, value("site.size", 8)).is_ok());
        let found = ["site.colour", "site.size"].map(|name| number(&process, &namespace, name));
        assert_eq!(found, [Some(7), Some(8)]);
    }

    /// Regression: of two calls before the registration only the second call's values were kept. A call that added its values to
    /// the job removed those that another call had left for the registration.
    #[test]
    fn what_several_calls_give_a_job_is_all_added() {
        let _only = state::ONLY_SERVER.lock();
        let directory = tempfile::tempdir().unwrap();
        let process = server(directory.path());
        let namespace = Namespace::new("job").unwrap();
        let given = |name, number| assert!(give(&process, &namespace, value(name, number)).is_ok());
        given("site.a", 1);
        given("site.b", 2);
        given("site.b", 2);
        let taken = take(&process, &namespace);
        assert_eq!(taken.concat(), [value("site.a", 1), value("site.b", 2), value("site.b", 2)].concat());
        process.described.lock().insert(namespace.clone());
        given("site.c", 3);
        assert_eq!(left(&process, &namespace), value("site.c", 3), "the others are in the description");
        // The core has the job now; the registering thread has not yet looked for values that came meanwhile.
        register(&process, &namespace);
        given("site.d", 4);
        assert_eq!(left(&process, &namespace), [], "it is all added, in its order");
        note(&process, &namespace, Some(&taken), true);
        given("site.e", 5);
        let found = ["site.a", "site.b", "site.c", "site.d", "site.e"].map(|name| number(&process, &namespace, name));
        assert_eq!(found, [None, None, Some(3), Some(4), Some(5)], "what was taken is not added again");
    }

    /// Regression: values left during a registration were added last, over newer values of a later call.
    #[test]
    fn the_newest_value_of_a_key_stands_whoever_adds_last() {
        let _only = state::ONLY_SERVER.lock();
        let directory = tempfile::tempdir().unwrap();
        let process = server(directory.path());
        let namespace = Namespace::new("job").unwrap();
        process.described.lock().insert(namespace.clone());
        assert!(give(&process, &namespace, value("site.c", 3)).is_ok());
        register(&process, &namespace);
        assert!(give(&process, &namespace, value("site.c", 4)).is_ok());
        note(&process, &namespace, Some(&[]), true);
        // Calls are served in order, so the noted values are there when this call returns.
        assert!(give(&process, &namespace, value("site.d", 5)).is_ok());
        assert_eq!(number(&process, &namespace, "site.c"), Some(4));
    }

    /// Regression: after a refused registration, the second registration of the job had none of its allocated values.
    #[test]
    fn what_a_job_was_given_outlives_a_registration_that_is_refused() {
        let _only = state::ONLY_SERVER.lock();
        let directory = tempfile::tempdir().unwrap();
        let process = server(directory.path());
        let namespace = Namespace::new("job").unwrap();
        assert!(give(&process, &namespace, value("site.a", 1)).is_ok());
        process.described.lock().insert(namespace.clone());
        let taken = take(&process, &namespace);
        assert!(give(&process, &namespace, value("site.b", 2)).is_ok());
        note(&process, &namespace, Some(&taken), false);
        assert_eq!(left(&process, &namespace), [value("site.a", 1), value("site.b", 2)].concat());
        assert!(!process.described.lock().contains(&namespace));
        process.described.lock().insert(namespace.clone());
        let taken = take(&process, &namespace);
        register(&process, &namespace);
        note(&process, &namespace, Some(&taken), true);
        assert_eq!(left(&process, &namespace), []);
    }

    /// Regression: a host that prepared a job again and again without registering it filled memory.
    #[test]
    fn a_job_is_given_so_much_before_it_is_registered_and_no_more() {
        let _only = state::ONLY_SERVER.lock();
        let directory = tempfile::tempdir().unwrap();
        let process = server(directory.path());
        let namespace = Namespace::new("job").unwrap();
        let give_one = || give(&process, &namespace, value("site.a", 1));
        for _ in 0..ALLOTMENTS_MAX {
            assert!(give_one().is_ok());
        }
        assert!(matches!(give_one(), Err(Failure(Status::ERR_OUT_OF_RESOURCE))));
        assert_eq!(left(&process, &namespace).len(), ALLOTMENTS_MAX);
        process.described.lock().insert(namespace.clone());
        let taken = take(&process, &namespace);
        register(&process, &namespace);
        note(&process, &namespace, Some(&taken), true);
        assert!(give_one().is_ok());
        assert_eq!(number(&process, &namespace, "site.a"), Some(1));
    }

    fn value(name: &'static str, number: u32) -> Vec<Info> {
        vec![Info::new(Key::from_static(name), number)]
    }

    /// Values left for the registration.
    fn left(process: &ServerProcess, namespace: &Namespace) -> Vec<Info> {
        process.allocated.lock().get(namespace).map_or_else(Vec::new, |left| left.concat())
    }

    fn register(process: &ServerProcess, namespace: &Namespace) {
        let ranks = std::iter::once(0..1);
        let description = JobDescription::new(namespace).nodes(["n0"]).ranks_by_node(ranks).build().unwrap();
        process.server().register_namespace(namespace, 1, description).unwrap();
    }

    fn number(process: &ServerProcess, namespace: &Namespace, name: &'static str) -> Option<u32> {
        let job = ProcId { namespace: namespace.clone(), rank: Rank::Wildcard };
        let found = process.server().get(&job, Some(&Key::from_static(name)), Vec::new()).ok()?;
        found.iter().find(|kval| kval.key.as_str() == name)?.value.as_u32()
    }
}
