//! Queries, logging, allocations.

use modex::client::ask_for_groups;
use modex::keys;
use modex::runtime::available_servers;
use modex::types::{Info, Key, Query, Status};
use modex::{Allocate, Log, QueryInfo};

use super::asynchronous::{deliver_infos, infos_of, run, run_for_infos, start, start_for_infos, start_with};
use crate::argument::{Count, Counted, Items, Marked, Out, OutArray};
use crate::call;
use crate::callback::Callback;
use crate::client_request::{Answer, ClientRequest, Results};
use crate::guard::{Failure, guard, guard_status};
use crate::own_log::{self, LogRequest};
use crate::pointer::CallerData;
use crate::process::Member;
use crate::server_role::ServerRole;
use crate::to_c::Array;
use crate::types::{
    pmix_alloc_directive_t, pmix_info_cbfunc_t, pmix_info_t, pmix_op_cbfunc_t, pmix_query_t, pmix_status_t,
};
use crate::{from_c, process, to_c};

/// Queries the host. The server answers what the host does not support, also for the server's own process if the host
/// has no function for queries. Queries about the interface itself are answered here, also before the first
/// initialization. A process without a server finds the available servers.
///
/// The results of all queries are one list, as in OpenPMIx. With the qualifier `PMIX_QUERY_RESULTS` = true in one of
/// them, each of up to 64 queries has a group, in the order of the queries. The server answers all of these. See the
/// standard's function of the same name.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Query_info<'a>(
    queries: Items<'a, pmix_query_t>,
    nqueries: Count<'a, pmix_query_t>,
    results: Out<'a, *mut pmix_info_t>,
    nresults: Out<'a, usize>,
) -> pmix_status_t {
    let mut results = OutArray::cleared(results, nresults);
    guard_status(|| {
        let queries = questions(queries.counted(nqueries))?;
        let (known, rest) = divide(queries, is_alone());
        results.put(Array::<pmix_info_t>::empty())?;
        let answer = match rest.is_empty() {
            true => Answer::complete(Results::Infos(known)),
            false => {
                process::member()?;
                with_known(known, call::run(QueryInfo::new(rest).into())).map_err(Failure)?
            }
        };
        results.put(to_c::infos(&infos_of(answer.results))?)?;
        Ok(answer.status)
    })
}

/// As [`PMIx_Query_info`], with a callback.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Query_info_nb<'a>(
    queries: Items<'a, pmix_query_t>,
    nqueries: Count<'a, pmix_query_t>,
    cbfunc: Callback<pmix_info_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| {
        let queries = questions(queries.counted(nqueries))?;
        if cbfunc.is_none() {
            return Err(Failure(Status::ERR_BAD_PARAM));
        }
        let (known, rest) = divide(queries, is_alone());
        let callback = cbfunc.with(cbdata);
        if rest.is_empty() {
            let answer = Answer::complete(Results::Infos(known));
            return Ok(process::member()?.defer(move || deliver_infos(Ok(answer), callback))?);
        }
        let deliver = move |result| deliver_infos(with_known(known, result), callback);
        start_with(QueryInfo::new(rest).into(), deliver)
    })
}

fn questions(queries: Counted<'_, pmix_query_t>) -> Result<Vec<Query>, Failure> {
    let queries = from_c::queries(queries)?;
    if queries.is_empty() || queries.iter().any(|query| query.keys.is_empty()) {
        return Err(Failure(Status::ERR_BAD_PARAM));
    }
    Ok(queries)
}

/// Whether this process has no server, so that the library alone finds the servers to which a tool may attach.
fn is_alone() -> bool {
    matches!(process::member(), Ok(Member::Client(client)) if client.is_alone())
}

/// The answers to queries about the interface itself, and the queries without those keys. No version of the standard's
/// binary interface is stable yet, and this library claims none. `is_alone`: queries for available servers are
/// answered, too. A query with a required qualifier that is not honoured here is left, and so are queries in groups.
fn divide(queries: Vec<Query>, is_alone: bool) -> (Vec<Info>, Vec<Query>) {
    if ask_for_groups(&queries) {
        return (Vec::new(), queries);
    }
    let mut known: Vec<Info> = Vec::new();
    let about_interface = [keys::QUERY_STABLE_ABI_VERSION, keys::QUERY_PROVISIONAL_ABI_VERSION];
    // One search serves all queries of a call.
    let mut servers = None;
    let mut rest = Vec::new();
    for mut query in queries {
        if query.qualifiers.iter().any(is_unmet) {
            rest.push(query);
            continue;
        }
        query.keys.retain(|wanted| {
            let key = about_interface.iter().find(|key| key.name().as_bytes() == wanted.as_bytes());
            known.extend(key.map(|key| Info::new(Key::from_static(key.name()), "0.0")));
            let asks_for_servers = is_alone && wanted.as_bytes() == keys::QUERY_AVAIL_SERVERS.name().as_bytes();
            if asks_for_servers && servers.is_none() {
                let places = process::read(|state| state.tool_places.clone());
                servers = Some(available_servers(places.into_iter().flatten()));
            }
            key.is_none() && !asks_for_servers
        });
        if !query.keys.is_empty() {
            rest.push(query);
        }
    }
    known.extend(servers);
    (known, rest)
}

/// Whether a qualifier is required, and an answer found here does not honour it. Such an answer is fresh, and waits for
/// no peer.
fn is_unmet(qualifier: &Info) -> bool {
    let honoured = [keys::TIMEOUT.name(), keys::QUERY_REFRESH_CACHE.name()];
    keys::is_unmet(qualifier, |key| honoured.contains(&key))
}

/// The answers found here, then those of the server. If the server has none, the result is partial.
fn with_known(mut known: Vec<Info>, result: Result<Answer, Status>) -> Result<Answer, Status> {
    if known.is_empty() {
        return result;
    }
    let status = match result {
        Ok(answer) => {
            known.extend(infos_of(answer.results));
            answer.status
        }
        Err(_) => Status::ERR_PARTIAL_SUCCESS,
    };
    Ok(Answer { status, results: Results::Infos(known) })
}

/// Logs data, one info for each channel. A server writes texts for the standard output and error and for the log of the
/// system itself if it is a gateway (`PMIX_SERVER_GATEWAY` of `PMIx_server_init`) or its host has no log. Other
/// channels are not supported there. `PMIX_LOG_GLOBAL_SYSLOG` is a channel of gateways alone. See the standard's
/// function of the same name.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Log<'a>(
    data: Items<'a, pmix_info_t>,
    ndata: Count<'a, pmix_info_t>,
    directives: Items<'a, pmix_info_t, 1>,
    ndirs: Count<'a, pmix_info_t, 1>,
) -> pmix_status_t {
    guard(|| match entry(data.counted(ndata), directives.counted(ndirs))? {
        Some(request) => run(request),
        None => Ok(()),
    })
}

/// As [`PMIx_Log`], with a callback.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Log_nb<'a>(
    data: Items<'a, pmix_info_t>,
    ndata: Count<'a, pmix_info_t>,
    directives: Items<'a, pmix_info_t, 1>,
    ndirs: Count<'a, pmix_info_t, 1>,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| match entry(data.counted(ndata), directives.counted(ndirs))? {
        Some(request) => start(request, cbfunc, cbdata),
        None => {
            let Some(callback) = cbfunc.with(cbdata) else { return Ok(()) };
            Ok(process::member()?.defer(move || callback.call(Status::SUCCESS))?)
        }
    })
}

/// The request for the server or the host; `None` if it is done. As in OpenPMIx, a gateway writes itself, and so does a
/// server whose host has no log. PRRTE passes the texts of its processes to its first server, which is a gateway. It
/// would pass what it gets back to that server again.
fn entry(
    data: Counted<'_, pmix_info_t>,
    directives: Counted<'_, pmix_info_t>,
) -> Result<Option<ClientRequest>, Failure> {
    let member = process::member()?;
    let data = from_c::infos(data)?;
    let directives = from_c::infos(directives)?;
    if data.is_empty() {
        return Err(Failure(Status::ERR_BAD_PARAM));
    }
    match member {
        Member::Server(role) if role.writes_logs() => write_here(&*role, &data, &directives).map(|()| None),
        _ => Ok(Some(Log::new(data, directives).into())),
    }
}

/// Writes the texts to the channels of this process.
fn write_here(role: &dyn ServerRole, data: &[Info], directives: &[Info]) -> Result<(), Failure> {
    let has_global_syslog = role.has_global_syslog();
    let request = LogRequest { has_global_syslog, source: role.server().proc(), data, directives };
    let write_output = |stream, text: &[u8]| {
        role.write_log(stream, text);
        true
    };
    Ok(own_log::write(request, write_output)?)
}

/// Asks for a change of the allocation. See the standard's function of the same name.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Allocation_request<'a>(
    directive: pmix_alloc_directive_t,
    info: Marked<'a>,
    ninfo: Count<'a, pmix_info_t>,
    results: Out<'a, *mut pmix_info_t>,
    nresults: Out<'a, usize>,
) -> pmix_status_t {
    let mut results = OutArray::cleared(results, nresults);
    let status = guard_status(|| {
        let request = allocation(directive, info.counted(ninfo))?;
        run_for_infos(request, &mut results)
    });
    info.mark_if(status, ninfo)
}

/// As [`PMIx_Allocation_request`], with a callback.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Allocation_request_nb<'a>(
    directive: pmix_alloc_directive_t,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_info_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| {
        let request = allocation(directive, info.counted(ninfo))?;
        start_for_infos(request, cbfunc, cbdata)
    })
}

fn allocation(directive: pmix_alloc_directive_t, info: Counted<'_, pmix_info_t>) -> Result<ClientRequest, Failure> {
    process::member()?;
    let info = from_c::infos(info)?;
    Ok(Allocate::new(directive, info).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::argument::as_c::as_c;
    use crate::helpers::requests::PMIx_Info_free;
    use modex::types::InfoFlags;

    #[test]
    fn available_servers_are_found_here_only_without_a_server() {
        let wanted =
            || Query { keys: vec![keys::QUERY_AVAIL_SERVERS.name().into(), "else".into()], qualifiers: vec![] };
        let divided = |is_alone| {
            let (known, rest) = divide(vec![wanted(), wanted()], is_alone);
            (known.len(), rest.iter().map(|query| query.keys.len()).sum::<usize>())
        };
        assert_eq!(divided(true), (1, 2));
        assert_eq!(divided(false), (0, 4));
    }

    /// Regression: a required qualifier of a query that is answered here was ignored.
    #[test]
    fn a_query_with_a_required_qualifier_is_not_answered_here() {
        let asked = |key: &'static str, flags| {
            let keys = vec![keys::QUERY_AVAIL_SERVERS.name().into(), keys::QUERY_STABLE_ABI_VERSION.name().into()];
            let qualifiers = vec![Info { flags, ..Info::new(Key::from_static(key), 1_u32) }];
            let (known, rest) = divide(vec![Query { keys, qualifiers }], true);
            (known.len(), rest.len())
        };
        let required = InfoFlags::REQUIRED.bits();
        assert_eq!(asked(keys::NODEID.name(), required), (0, 1));
        assert_eq!([asked(keys::NODEID.name(), 0), asked(keys::TIMEOUT.name(), required)], [(2, 0); 2]);
    }

    #[test]
    fn the_version_of_the_interface_is_known_before_the_first_initialization() {
        let names = [keys::QUERY_STABLE_ABI_VERSION, keys::QUERY_PROVISIONAL_ABI_VERSION]
            .map(|key| std::ffi::CString::new(key.name()).unwrap());
        let mut keys = [names[0].as_ptr().cast_mut(), names[1].as_ptr().cast_mut(), std::ptr::null_mut()];
        let query = pmix_query_t { keys: keys.as_mut_ptr(), qualifiers: std::ptr::null_mut(), nqual: 0 };
        let (mut results, mut count) = (std::ptr::null_mut(), 0);
        let status = as_c!(PMIx_Query_info(&raw const query, 1, &raw mut results, &raw mut count));
        assert_eq!((status, count), (Status::SUCCESS.to_raw(), 2));
        as_c!(PMIx_Info_free(results, count));
    }
}
