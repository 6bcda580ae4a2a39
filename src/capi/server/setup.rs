//! Preparation of a job, where it is started and on the nodes that run it.

use crate::capi::from_c;
use crate::capi::guard::{Failure, guard, guard_or};
use crate::capi::types::{
    c_char, c_void, pmix_info_t, pmix_op_cbfunc_t, pmix_setup_application_cbfunc_t, pmix_status_t,
};
use crate::capi::{lent, to_c};
use crate::keys::{self, TypedKey};
use crate::types::{Info, Status};

use super::completion::perform_at_once;
use super::fork::Change;
use super::harvest::harvested;
use super::state;
use crate::capi::pointer::CallerData;

/// Collects what the nodes of a job need for `PMIx_server_setup_local_support`: the variables that the user has forwarded
/// (`PMIX_MCA_forward_envars`), and the changes of the environment among `info`, which come after them; with
/// `PMIX_SETUP_APP_NONENVARS` alone nothing, since there are no fabrics to prepare here. The array belongs to the library until the callback's release function is called. See the standard's
/// function of the same name.
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
        let wants_all = asked(keys::SETUP_APP_ALL) || asked(keys::SETUP_APP_ENVARS);
        let wants_variables = wants_all || !asked(keys::SETUP_APP_NONENVARS);
        infos.retain(|info| wants_variables && Change::of(info).is_some());
        if wants_variables {
            infos.splice(0..0, harvested());
        }
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

fn is_set(info: &Info, key: &str) -> bool {
    info.key.as_str() == key && info.value.as_bool() == Some(true)
}

/// Releases what a callback got.
unsafe extern "C" fn release(_: pmix_status_t, token: *mut c_void) {
    guard_or((), || lent::take_back(token));
}

/// Remembers what the processes of a job are to find in their environment, for `PMIx_server_setup_fork`: the array of
/// `PMIx_server_setup_application`. What it holds besides is not for this server. See the standard's function of the
/// same name.
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
        let changes = infos.iter().filter_map(Change::of).collect();
        process.environments.lock().insert(namespace, changes);
        Ok(())
    })
}
