//! Preparation of a job: on the node that starts it and on the nodes that run it.

use std::sync::Arc;

use modex::types::{AsStatus, Info, Namespace, Status};
use modex::{EnvironmentChange, SetupError};

use super::completion::perform_at_once;
use super::state;
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
        let infos = from_c::infos(info.counted(ninfo))?;
        let infos = process.server().setup_application(infos).map_err(|error| refused(&namespace, &error))?;
        let array = to_c::infos(&infos)?;
        process.server().defer(move || callback.call(array))?;
        Ok(())
    })
}

/// Logs a refusal.
fn refused(namespace: &Namespace, error: &SetupError) -> Failure {
    tracing::warn!(%namespace, %error, "the job can't be set up");
    Failure(error.status())
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
        let changes = process.server().setup_local_support(&namespace, &infos);
        let changes: Arc<[EnvironmentChange]> = changes.map_err(|error| refused(&namespace, &error))?.into();
        process.environments.change(|environments| {
            environments.insert(namespace.clone(), Arc::clone(&changes));
        });
        Ok(())
    })
}
