//! Groups by invitation.

use modex::types::Status;

use super::asynchronous::{run, start};
use super::group::{begin_forming, form, name};
use crate::guard::{Failure, guard, guard_status};
use crate::operation::Operation;
use crate::types::{
    c_char, c_void, pmix_group_opt_t, pmix_info_cbfunc_t, pmix_info_t, pmix_op_cbfunc_t, pmix_proc_t, pmix_status_t,
};
use crate::{from_c, pointer, process};

/// Invites processes into a group and waits for their answers, limited by `PMIX_TIMEOUT`. The caller leads the group,
/// and is a member if `procs` names it. See the standard's function of the same name.
///
/// Support: implemented.
///
/// # Safety
/// `grp` is NULL or NUL-terminated, the arrays have as many elements as the counts say, `results` and `nresult` are NULL
/// or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Group_invite(
    grp: *const c_char,
    procs: *const pmix_proc_t,
    nprocs: usize,
    info: *const pmix_info_t,
    ninfo: usize,
    results: *mut *mut pmix_info_t,
    nresult: *mut usize,
) -> pmix_status_t {
    // SAFETY: the caller's contract.
    unsafe { pointer::clear_array(results, nresult) };
    guard_status(|| {
        // SAFETY: the caller's contract.
        let operation = unsafe { invitation(grp, procs, nprocs, info, ninfo) }?;
        // SAFETY: the caller's contract.
        unsafe { form(operation, results, nresult) }
    })
}

/// As [`PMIx_Group_invite`], with a callback.
///
/// Support: implemented.
///
/// # Safety
/// `grp` is NULL or NUL-terminated, the arrays have as many elements as the counts say. `cbfunc` is NULL or may be called
/// on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Group_invite_nb(
    grp: *const c_char,
    procs: *const pmix_proc_t,
    nprocs: usize,
    info: *const pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_info_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        let operation = unsafe { invitation(grp, procs, nprocs, info, ninfo) }?;
        // Without a callback no caller would get the result.
        let callback = cbfunc.ok_or(Failure(Status::ERR_BAD_PARAM))?;
        begin_forming(operation, Some(callback), cbdata)
    })
}

/// Answers an invitation; an acceptance waits until the leader has formed the group or given it up. An event handler
/// can't wait and gets `PMIX_ERR_WOULD_BLOCK`. See the standard's function of the same name.
///
/// Support: implemented.
///
/// # Safety
/// `grp` is NULL or NUL-terminated, `leader` is NULL or readable, `info` has `ninfo` elements, `results` and `nresult` are
/// NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Group_join(
    grp: *const c_char,
    leader: *const pmix_proc_t,
    opt: pmix_group_opt_t,
    info: *const pmix_info_t,
    ninfo: usize,
    results: *mut *mut pmix_info_t,
    nresult: *mut usize,
) -> pmix_status_t {
    // SAFETY: the caller's contract.
    unsafe { pointer::clear_array(results, nresult) };
    guard_status(|| {
        // SAFETY: the caller's contract.
        let operation = unsafe { answer(grp, leader, opt, info, ninfo) }?;
        // SAFETY: the caller's contract.
        unsafe { form(operation, results, nresult) }
    })
}

/// As [`PMIx_Group_join`], with a callback: the way to answer from an event handler.
///
/// Support: implemented.
///
/// # Safety
/// `grp` is NULL or NUL-terminated, `leader` is NULL or readable, `info` has `ninfo` elements. `cbfunc` is NULL or may be
/// called on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Group_join_nb(
    grp: *const c_char,
    leader: *const pmix_proc_t,
    opt: pmix_group_opt_t,
    info: *const pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_info_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        begin_forming(unsafe { answer(grp, leader, opt, info, ninfo) }?, cbfunc, cbdata)
    })
}

/// Leaves a group; the other members are notified (`PMIX_GROUP_LEFT`). See the standard's function of the same name.
///
/// Support: implemented.
///
/// # Safety
/// `grp` is NULL or NUL-terminated, `info` has `ninfo` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Group_leave(grp: *const c_char, info: *const pmix_info_t, ninfo: usize) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        run(unsafe { departure(grp, info, ninfo) }?)
    })
}

/// As [`PMIx_Group_leave`], with a callback.
///
/// Support: implemented.
///
/// # Safety
/// As [`PMIx_Group_leave`]. `cbfunc` is NULL or may be called on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Group_leave_nb(
    grp: *const c_char,
    info: *const pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        start(unsafe { departure(grp, info, ninfo) }?, cbfunc, cbdata)
    })
}

/// # Safety
/// `grp` is NULL or NUL-terminated, the arrays have as many elements as the counts say.
unsafe fn invitation(
    grp: *const c_char,
    procs: *const pmix_proc_t,
    nprocs: usize,
    info: *const pmix_info_t,
    ninfo: usize,
) -> Result<Operation, Failure> {
    let own = process::member()?.proc().namespace;
    // SAFETY: the caller's contract.
    let id = unsafe { name(grp) }?;
    // SAFETY: the caller's contract.
    let procs = unsafe { from_c::procs(procs, nprocs, Some(&own)) }?;
    // SAFETY: the caller's contract.
    let directives = unsafe { from_c::infos(info, ninfo) }?;
    Ok(Operation::GroupInvite { id, procs, directives })
}

/// # Safety
/// `grp` is NULL or NUL-terminated, `leader` is NULL or readable, `info` has `ninfo` elements.
unsafe fn answer(
    grp: *const c_char,
    leader: *const pmix_proc_t,
    opt: pmix_group_opt_t,
    info: *const pmix_info_t,
    ninfo: usize,
) -> Result<Operation, Failure> {
    let own = process::member()?.proc().namespace;
    // SAFETY: the caller's contract.
    let id = unsafe { name(grp) }?;
    // SAFETY: the caller's contract.
    let leader = unsafe { from_c::proc(leader, Some(&own)) }?;
    // SAFETY: the caller's contract.
    let directives = unsafe { from_c::infos(info, ninfo) }?;
    let is_accepted = match opt {
        DECLINE => false,
        ACCEPT => true,
        _ => return Err(Failure(Status::ERR_BAD_PARAM)),
    };
    Ok(Operation::GroupJoin { id, leader, is_accepted, directives })
}

/// # Safety
/// `grp` is NULL or NUL-terminated, `info` has `ninfo` elements.
unsafe fn departure(grp: *const c_char, info: *const pmix_info_t, ninfo: usize) -> Result<Operation, Failure> {
    process::member()?;
    // SAFETY: the caller's contract.
    let id = unsafe { name(grp) }?;
    // SAFETY: the caller's contract.
    let directives = unsafe { from_c::infos(info, ninfo) }?;
    Ok(Operation::GroupLeave { id, directives })
}

/// `PMIX_GROUP_DECLINE` and `PMIX_GROUP_ACCEPT`.
const DECLINE: pmix_group_opt_t = 0;
const ACCEPT: pmix_group_opt_t = 1;
