//! Groups.

use modex::Group;
use modex::keys;
use modex::types::{DataArray, DataType, Info, Key, Namespace, Status, Value};

use super::asynchronous::{deliver_infos, run, start, start_with, store_infos};
use crate::guard::{Failure, guard, guard_status};
use crate::operation::{Answer, Operation, Results};
use crate::pointer::CallerData;
use crate::to_c;
use crate::types::{c_char, c_void, pmix_info_cbfunc_t, pmix_info_t, pmix_op_cbfunc_t, pmix_proc_t, pmix_status_t};
use crate::{call, from_c, pointer, process};

/// Forms a group; every member calls it. The results hold its name, its members and the host's data. A context number
/// comes first, because programs of OpenPMIx 4 read the first result. See the standard's function of the same name.
///
/// Support: implemented.
///
/// # Safety
/// `grp` is NULL or NUL-terminated, the arrays have as many elements as the counts say, `results` and `nresults` are NULL
/// or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Group_construct(
    grp: *const c_char,
    procs: *const pmix_proc_t,
    nprocs: usize,
    directives: *const pmix_info_t,
    ndirs: usize,
    results: *mut *mut pmix_info_t,
    nresults: *mut usize,
) -> pmix_status_t {
    // SAFETY: the caller's contract.
    unsafe { pointer::clear_array(results, nresults) };
    guard_status(|| {
        // SAFETY: the caller's contract.
        let operation = unsafe { construction(grp, procs, nprocs, directives, ndirs) }?;
        // SAFETY: the caller's contract.
        unsafe { form(operation, results, nresults) }
    })
}

/// As [`PMIx_Group_construct`], with a callback.
///
/// Support: implemented.
///
/// # Safety
/// `grp` is NULL or NUL-terminated, the arrays have as many elements as the counts say. `cbfunc` is NULL or may be called
/// on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Group_construct_nb(
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
        let operation = unsafe { construction(grp, procs, nprocs, info, ninfo) }?;
        begin_forming(operation, cbfunc, cbdata)
    })
}

/// Forms a group and waits for it; the results describe it. The caller has cleared the places.
///
/// # Safety
/// `results` and `count` are NULL or may be written.
pub(super) unsafe fn form(
    operation: Operation,
    results: *mut *mut pmix_info_t,
    count: *mut usize,
) -> Result<Status, Failure> {
    let answer = call::run(operation)?;
    let array = to_c::infos(&description(answer.results))?;
    // SAFETY: the caller's contract.
    unsafe { store_infos(array, results, count) };
    Ok(answer.status)
}

/// As [`form`], with a callback.
pub(super) fn begin_forming(
    operation: Operation,
    callback: Option<pmix_info_cbfunc_t>,
    data: *mut c_void,
) -> Result<(), Failure> {
    let data = CallerData::new(data);
    start_with(operation, move |result| {
        let described =
            result.map(|answer| Answer { status: answer.status, results: Results::Infos(description(answer.results)) });
        deliver_infos(described, callback, data);
    })
}

/// Dissolves a group; every member calls it. See the standard's function of the same name.
///
/// Support: implemented.
///
/// # Safety
/// `grp` is NULL or NUL-terminated, `info` has `ninfo` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Group_destruct(
    grp: *const c_char,
    info: *const pmix_info_t,
    ninfo: usize,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        run(unsafe { destruction(grp, info, ninfo) }?)
    })
}

/// As [`PMIx_Group_destruct`], with a callback.
///
/// Support: implemented.
///
/// # Safety
/// As [`PMIx_Group_destruct`]. `cbfunc` is NULL or may be called on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIx_Group_destruct_nb(
    grp: *const c_char,
    info: *const pmix_info_t,
    ninfo: usize,
    cbfunc: Option<pmix_op_cbfunc_t>,
    cbdata: *mut c_void,
) -> pmix_status_t {
    guard(|| {
        // SAFETY: the caller's contract.
        start(unsafe { destruction(grp, info, ninfo) }?, cbfunc, cbdata)
    })
}

/// # Safety
/// `grp` is NULL or NUL-terminated, the arrays have as many elements as the counts say.
unsafe fn construction(
    grp: *const c_char,
    procs: *const pmix_proc_t,
    nprocs: usize,
    directives: *const pmix_info_t,
    ndirs: usize,
) -> Result<Operation, Failure> {
    let own = process::member()?.proc().namespace;
    // SAFETY: the caller's contract.
    let id = unsafe { name(grp) }?;
    // SAFETY: the caller's contract.
    let procs = unsafe { from_c::procs(procs, nprocs, Some(&own)) }?;
    // SAFETY: the caller's contract.
    let directives = unsafe { from_c::infos(directives, ndirs) }?;
    // Without processes the caller is an additional member that others have named.
    Ok(Operation::GroupConstruct { id, procs, directives })
}

/// # Safety
/// `grp` is NULL or NUL-terminated, `info` has `ninfo` elements.
unsafe fn destruction(grp: *const c_char, info: *const pmix_info_t, ninfo: usize) -> Result<Operation, Failure> {
    process::member()?;
    // SAFETY: the caller's contract.
    let id = unsafe { name(grp) }?;
    // SAFETY: the caller's contract.
    let directives = unsafe { from_c::infos(info, ninfo) }?;
    Ok(Operation::GroupDestruct { id, directives })
}

/// A group's name obeys the rules for namespaces, because it can stand for one.
///
/// # Safety
/// `grp` is NULL or NUL-terminated.
pub(super) unsafe fn name(grp: *const c_char) -> Result<String, Failure> {
    // SAFETY: the caller's contract.
    let text = unsafe { pointer::text(grp, "name of the group") }?.ok_or(Failure(Status::ERR_BAD_PARAM))?;
    let name = Namespace::from_bytes(text.to_bytes()).map_err(|_| Failure(Status::ERR_BAD_PARAM))?;
    Ok(name.as_str().to_owned())
}

/// The standard's results for a group. The context number comes first: it is the only result of OpenPMIx 4, and
/// programs read it without a look at the key.
fn description(results: Results) -> Vec<Info> {
    let Results::Group(group) = results else { return Vec::new() };
    let Group { id, members, context_id, info } = *group;
    let elements = members.into_iter().map(Value::from).collect();
    let members = Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements }));
    let entry = |key: &'static str, value| Info::new(Key::from_static(key), value);
    let context_id = context_id.map(|id| entry(keys::GROUP_CONTEXT_ID.name(), Value::Size(id)));
    let mut described: Vec<Info> = context_id.into_iter().collect();
    described.push(entry(keys::GROUP_ID.name(), Value::String(id)));
    described.push(entry(keys::GROUP_MEMBERSHIP.name(), members));
    // The host's infos may repeat these keys.
    let is_said: Vec<Key> = described.iter().map(|info| info.key.clone()).collect();
    described.extend(info.into_iter().filter(|info| !is_said.contains(&info.key)));
    described
}

#[cfg(test)]
mod tests {
    use modex::types::ProcId;

    use super::*;

    /// Regression: the host's answer repeated facts with another type for the context number. The number was the third
    /// result, but programs written for OpenPMIx 4 read the first one.
    #[test]
    fn each_fact_about_a_group_is_told_once_and_its_number_first() {
        let context_id = Info::new(Key::from_static(keys::GROUP_CONTEXT_ID.name()), 7_u32);
        let detail = Info::new(Key::from_static("detail"), true);
        let members = vec![ProcId::new(Namespace::new("job").unwrap(), 0)];
        let info = vec![context_id, detail.clone()];
        let group = Group { id: "g".into(), members, context_id: Some(7), info };
        let described = description(Results::Group(Box::new(group)));
        let keys: Vec<&str> = described.iter().map(|info| info.key.as_str()).collect();
        let [id, membership, context_id] =
            [keys::GROUP_ID.name(), keys::GROUP_MEMBERSHIP.name(), keys::GROUP_CONTEXT_ID.name()];
        assert_eq!(keys, [context_id, id, membership, detail.key.as_str()]);
        assert_eq!(described[0].value, Value::Size(7));
    }
}
