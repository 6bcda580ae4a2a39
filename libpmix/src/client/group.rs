//! Groups.

use modex::Group;
use modex::keys;
use modex::types::{DataArray, DataType, Info, Key, Namespace, Status, Value};

use super::asynchronous::{deliver_infos, run, start, start_with};
use crate::argument::{CText, Count, Counted, Items, Out, OutArray};
use crate::call;
use crate::callback::Callback;
use crate::client_request::{Answer, ClientRequest, Results};
use crate::guard::{Failure, guard, guard_status};
use crate::pointer::CallerData;
use crate::to_c;
use crate::types::{pmix_info_cbfunc_t, pmix_info_t, pmix_op_cbfunc_t, pmix_proc_t, pmix_status_t};
use crate::{from_c, process};

/// Forms a group; every member calls it. The results hold its name, its members and the host's data. A context number
/// comes first, because programs of OpenPMIx 4 read the first result. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Group_construct<'a>(
    grp: CText<'a>,
    procs: Items<'a, pmix_proc_t>,
    nprocs: Count<'a, pmix_proc_t>,
    directives: Items<'a, pmix_info_t>,
    ndirs: Count<'a, pmix_info_t>,
    results: Out<'a, *mut pmix_info_t>,
    nresults: Out<'a, usize>,
) -> pmix_status_t {
    let mut results = OutArray::cleared(results, nresults);
    guard_status(|| {
        let request = construction(grp, procs.counted(nprocs), directives.counted(ndirs))?;
        form(request, &mut results)
    })
}

/// As [`PMIx_Group_construct`], with a callback.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Group_construct_nb<'a>(
    grp: CText<'a>,
    procs: Items<'a, pmix_proc_t>,
    nprocs: Count<'a, pmix_proc_t>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_info_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| {
        let request = construction(grp, procs.counted(nprocs), info.counted(ninfo))?;
        begin_forming(request, cbfunc, cbdata)
    })
}

/// Forms a group and waits for it; the results describe it. The caller has cleared the places.
pub(super) fn form(request: ClientRequest, results: &mut OutArray<'_, pmix_info_t>) -> Result<Status, Failure> {
    let answer = call::run(request)?;
    let array = to_c::infos(&description(answer.results))?;
    results.put(array)?;
    Ok(answer.status)
}

/// As [`form`], with a callback.
pub(super) fn begin_forming(
    request: ClientRequest,
    callback: Callback<pmix_info_cbfunc_t>,
    data: CallerData,
) -> Result<(), Failure> {
    let callback = callback.with(data);
    start_with(request, move |result| {
        let described =
            result.map(|answer| Answer { status: answer.status, results: Results::Infos(description(answer.results)) });
        deliver_infos(described, callback);
    })
}

/// Dissolves a group; every member calls it. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Group_destruct<'a>(
    grp: CText<'a>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
) -> pmix_status_t {
    guard(|| run(destruction(grp, info.counted(ninfo))?))
}

/// As [`PMIx_Group_destruct`], with a callback.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Group_destruct_nb<'a>(
    grp: CText<'a>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| start(destruction(grp, info.counted(ninfo))?, cbfunc, cbdata))
}

fn construction(
    grp: CText<'_>,
    procs: Counted<'_, pmix_proc_t>,
    directives: Counted<'_, pmix_info_t>,
) -> Result<ClientRequest, Failure> {
    let own = process::member()?.proc().namespace;
    let id = name(grp)?;
    let procs = from_c::procs(procs, Some(&own))?;
    let directives = from_c::infos(directives)?;
    // Without processes the caller is an additional member that others have named.
    Ok(ClientRequest::GroupConstruct { id, procs, directives })
}

fn destruction(grp: CText<'_>, info: Counted<'_, pmix_info_t>) -> Result<ClientRequest, Failure> {
    process::member()?;
    let id = name(grp)?;
    let directives = from_c::infos(info)?;
    Ok(ClientRequest::GroupDestruct { id, directives })
}

/// A group's name obeys the rules for namespaces, because it can stand for one.
pub(super) fn name(grp: CText<'_>) -> Result<String, Failure> {
    let text = grp.get("name of the group")?.ok_or(Failure(Status::ERR_BAD_PARAM))?;
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
