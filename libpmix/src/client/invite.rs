//! Groups by invitation.

use modex::types::Status;

use super::asynchronous::{run, start};
use super::group::{begin_forming, form, name};
use crate::argument::{CText, Count, Counted, In, Items, Out, OutArray};
use crate::callback::Callback;
use crate::client_request::ClientRequest;
use crate::guard::{Failure, guard, guard_status};
use crate::pointer::CallerData;
use crate::types::{pmix_group_opt_t, pmix_info_cbfunc_t, pmix_info_t, pmix_op_cbfunc_t, pmix_proc_t, pmix_status_t};
use crate::{from_c, process};

/// Invites processes into a group and waits for their answers, limited by `PMIX_TIMEOUT`. The caller leads the group,
/// and is a member if `procs` names it. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Group_invite<'a>(
    grp: CText<'a>,
    procs: Items<'a, pmix_proc_t>,
    nprocs: Count<'a, pmix_proc_t>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    results: Out<'a, *mut pmix_info_t>,
    nresult: Out<'a, usize>,
) -> pmix_status_t {
    let mut results = OutArray::cleared(results, nresult);
    guard_status(|| {
        let request = invitation(grp, procs.counted(nprocs), info.counted(ninfo))?;
        form(request, &mut results)
    })
}

/// As [`PMIx_Group_invite`], with a callback.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Group_invite_nb<'a>(
    grp: CText<'a>,
    procs: Items<'a, pmix_proc_t>,
    nprocs: Count<'a, pmix_proc_t>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_info_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| {
        let request = invitation(grp, procs.counted(nprocs), info.counted(ninfo))?;
        // Without a callback no caller would get the result.
        if cbfunc.is_none() {
            return Err(Failure(Status::ERR_BAD_PARAM));
        }
        begin_forming(request, cbfunc, cbdata)
    })
}

/// Answers an invitation; an acceptance waits until the leader has formed the group or given it up. An event handler
/// can't wait and gets `PMIX_ERR_WOULD_BLOCK`. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Group_join<'a>(
    grp: CText<'a>,
    leader: In<'a, pmix_proc_t>,
    opt: pmix_group_opt_t,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    results: Out<'a, *mut pmix_info_t>,
    nresult: Out<'a, usize>,
) -> pmix_status_t {
    let mut results = OutArray::cleared(results, nresult);
    guard_status(|| {
        let request = answer(grp, leader, opt, info.counted(ninfo))?;
        form(request, &mut results)
    })
}

/// As [`PMIx_Group_join`], with a callback: the way to answer from an event handler.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Group_join_nb<'a>(
    grp: CText<'a>,
    leader: In<'a, pmix_proc_t>,
    opt: pmix_group_opt_t,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_info_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| begin_forming(answer(grp, leader, opt, info.counted(ninfo))?, cbfunc, cbdata))
}

/// Leaves a group; the other members are notified (`PMIX_GROUP_LEFT`). See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Group_leave<'a>(
    grp: CText<'a>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
) -> pmix_status_t {
    guard(|| run(departure(grp, info.counted(ninfo))?))
}

/// As [`PMIx_Group_leave`], with a callback.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Group_leave_nb<'a>(
    grp: CText<'a>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| start(departure(grp, info.counted(ninfo))?, cbfunc, cbdata))
}

fn invitation(
    grp: CText<'_>,
    procs: Counted<'_, pmix_proc_t>,
    info: Counted<'_, pmix_info_t>,
) -> Result<ClientRequest, Failure> {
    let own = process::member()?.proc().namespace;
    let id = name(grp)?;
    let procs = from_c::procs(procs, Some(&own))?;
    let directives = from_c::infos(info)?;
    Ok(ClientRequest::GroupInvite { id, procs, directives })
}

fn answer(
    grp: CText<'_>,
    leader: In<'_, pmix_proc_t>,
    opt: pmix_group_opt_t,
    info: Counted<'_, pmix_info_t>,
) -> Result<ClientRequest, Failure> {
    let own = process::member()?.proc().namespace;
    let id = name(grp)?;
    let leader = from_c::proc(leader, Some(&own))?;
    let directives = from_c::infos(info)?;
    let is_accepted = match opt {
        DECLINE => false,
        ACCEPT => true,
        _ => return Err(Failure(Status::ERR_BAD_PARAM)),
    };
    Ok(ClientRequest::GroupJoin { id, leader, is_accepted, directives })
}

fn departure(grp: CText<'_>, info: Counted<'_, pmix_info_t>) -> Result<ClientRequest, Failure> {
    process::member()?;
    let id = name(grp)?;
    let directives = from_c::infos(info)?;
    Ok(ClientRequest::GroupLeave { id, directives })
}

/// `PMIX_GROUP_DECLINE` and `PMIX_GROUP_ACCEPT`.
const DECLINE: pmix_group_opt_t = 0;
const ACCEPT: pmix_group_opt_t = 1;
