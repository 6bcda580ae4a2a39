//! Preparation of a job: on the node that starts it and on the nodes that run it.

use std::sync::Arc;

use modex::runtime::QueuedSetup;
use modex::runtime::understood::OF_FORWARDED_VARIABLES;
use modex::types::{AsStatus, Info, Namespace, Status};
use modex::{EnvironmentChange, EnvironmentPatterns, SetupError};

use super::completion::perform_at_once;
use super::long_work::perform_apart;
use super::state::{self, ServerProcess};
use crate::argument::{CText, Count, Items, NamespaceText};
use crate::callback::Callback;
use crate::from_c;
use crate::guard::{Failure, guard};
use crate::pointer::CallerData;
use crate::process;
use crate::to_c::{self, Array};
use crate::types::{pmix_info_t, pmix_op_cbfunc_t, pmix_setup_application_cbfunc_t, pmix_status_t};

/// Registers variables of this process that the processes of a job get. `pattern` has names of variables, separated by
/// `;`, with `?` for one character and `*` for the rest. The directive `modex.exclude_envars` has such a list of
/// variables that the job does not get. `PMIx_server_setup_application` reads the variables. Calls for one job add up.
/// See RFC0029.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Forward_envars<'a>(
    nspace: NamespaceText<'a>,
    pattern: CText<'a>,
    directives: Items<'a, pmix_info_t>,
    ndirs: Count<'a, pmix_info_t>,
) -> pmix_status_t {
    guard(|| {
        let process = state::current()?;
        let namespace = from_c::namespace(nspace, None)?;
        let text = from_c::text(pattern)?.ok_or(Failure(Status::ERR_BAD_PARAM))?;
        let wanted = patterns(&namespace, &text.to_string())?;
        let directives = from_c::infos(directives.counted(ndirs))?;
        from_c::refuse_others(&directives, &OF_FORWARDED_VARIABLES)?;
        let excluded = directives.iter().filter(|info| OF_FORWARDED_VARIABLES.contains(&info.key.as_str()));
        let excluded: Option<Vec<&str>> = excluded.map(|info| info.value.as_str()).collect();
        let excluded = excluded.ok_or(Failure(Status::ERR_BAD_PARAM))?;
        let none = EnvironmentPatterns::default();
        let unwanted = if excluded.is_empty() { none } else { patterns(&namespace, &excluded.join(";"))? };
        let forwarded = process.server().forward_variables(&namespace, &wanted, &unwanted);
        forwarded.map_err(|error| refused(&namespace, &error))
    })
}

fn patterns(namespace: &Namespace, text: &str) -> Result<EnvironmentPatterns, Failure> {
    text.parse().map_err(|error| {
        tracing::error!(%namespace, %error, "no variables can be forwarded to the job");
        Failure(Status::ERR_BAD_PARAM)
    })
}

/// Collects the data that the nodes of a job need for `PMIx_server_setup_local_support`. A job of several applications
/// may be set up once for each.
///
/// - Environment (`PMIX_SETUP_APP_ENVARS`): changes collected for the job's parents (`PMIX_PARENT_ID`), variables of this
///   process, and the changes of the environment among `info`, in this order.
/// - The variables are those of [`PMIx_Forward_envars`], those of the user (`PMIX_MCA_forward_envars`), and those of the
///   programming model (`PMIX_PROGRAMMING_MODEL`, `PMIX_PERSONALITY`). `docs/c-library.md` has the details.
/// - Fabric (`PMIX_SETUP_APP_NONENVARS`): for each `PMIX_ALLOC_FABRIC` a key, and endpoints on the server's fabric, or without one on
///   that of the delivered inventories. They are for the nodes and processes of `PMIX_NODE_MAP` and `PMIX_PROC_MAP`.
///
/// If this server lacks a part of a `PMIX_ALLOC_FABRIC`, it asks for it, in this order:
///
/// 1. the scheduler at `PMIX_SERVER_URI` among the infos
/// 2. without an address, the host's function `allocate`
/// 3. the scheduler of the node, if the host does not support that
///
/// The answer must come within 10 s, or the `PMIX_TIMEOUT` among the infos. The callback gets the errors then.
///
/// With `PMIX_SETUP_APP_ALL` it collects both. Without any of these keys, it collects both but the variables of the
/// user and of the programming model. A required info that can't be honoured is refused. The array belongs to the
/// library until the callback's release function is called. It is for this job alone. See the standard's function of
/// the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_setup_application<'a>(
    nspace: NamespaceText<'a>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_setup_application_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| {
        let server = state::current()?;
        let callback = cbfunc.with(cbdata).ok_or(Failure(Status::ERR_BAD_PARAM))?;
        // PRRTE's `prun` gives no name: it does not yet know its job's.
        let own = process::member()?.proc().namespace;
        let namespace = from_c::namespace(nspace, Some(&own))?;
        let infos = from_c::infos(info.counted(ninfo))?;
        let queued = server.server().queue_setup(&namespace, &infos).map_err(|error| refused(&namespace, &error))?;
        if !queued.may_wait() {
            let array = collect(&server, &queued, &namespace, &infos)?;
            server.server().defer(move || callback.call(Ok(array)))?;
            return Ok(());
        }
        // The host's own event loop may have to answer, so no thread of the host's waits.
        let collected = move |server: &ServerProcess| {
            let array = collect(server, &queued, &namespace, &infos).map_err(|Failure(status)| status);
            Ok((array, queued))
        };
        perform_apart(server, "modex-setup", collected, move |collected| match collected {
            Ok((array, queued)) => {
                callback.call(array);
                // The next setup of the job has its callback after this one's.
                drop(queued);
            }
            Err(status) => callback.call(Err(status)),
        })
    })
}

fn collect(
    process: &ServerProcess,
    queued: &QueuedSetup,
    namespace: &Namespace,
    infos: &[Info],
) -> Result<Array<pmix_info_t>, Failure> {
    let given = process.server().setup_queued(queued, namespace, infos);
    let infos = given.map_err(|error| refused(namespace, &error))?;
    Ok(to_c::infos(&infos)?)
}

/// Logs a refusal. The job can't start without it, and the status alone does not say which text is wrong.
fn refused(namespace: &Namespace, error: &SetupError) -> Failure {
    tracing::error!(%namespace, %error, "the job can't be set up");
    Failure(error.status())
}

/// Takes the array that `PMIx_server_setup_application` collected for a job. Changes of the environment are for
/// `PMIx_server_setup_fork`; those of several calls for a job add up. Fabric resources are found by the job's processes
/// with Get. Other infos are ignored. An array that was collected for another job is refused.
///
/// The job may be registered before or after. PRRTE, Open MPI 4.1 and psmgmt register it before, OpenPMIx's own test
/// programs after. With the info `modex.strict_order` of `PMIx_server_init`, a job that is not registered is refused.
/// See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_setup_local_support<'a>(
    nspace: NamespaceText<'a>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    perform_at_once(cbfunc, cbdata, |process| {
        let namespace = from_c::namespace(nspace, None)?;
        let infos: Vec<Info> = from_c::infos(info.counted(ninfo))?;
        if process.is_order_strict
            && !process.jobs.read(|jobs| jobs.get(&namespace).is_some_and(|job| job.is_registered))
        {
            tracing::error!(%namespace, "PMIx_server_setup_local_support: the job is not registered; register it first");
            return Err(Failure(Status::ERR_INVALID_NAMESPACE));
        }
        // Calls for one job may run on several threads. The environment of the last one has all changes.
        let _order = process.environment_order.lock();
        let changes = process.server().setup_local_support(&namespace, &infos);
        let changes: Arc<[EnvironmentChange]> = changes.map_err(|error| refused(&namespace, &error))?.into();
        process.jobs.change(|jobs| {
            let job = jobs.entry(namespace.clone()).or_default();
            (job.is_supported, job.changes) = (true, Arc::clone(&changes));
        });
        Ok(())
    })
}
