//! Processes of nodes and nodes of jobs.

use modex::types::{Namespace, Status};

use crate::argument::{CText, NamespaceText, Out, OutArray};
use crate::call;
use crate::client_request::{ClientRequest, Results};
use crate::guard::{Failure, guard};
use crate::types::{c_char, pmix_proc_t, pmix_status_t};
use crate::{from_c, memory, process, to_c};

/// The processes of a namespace (NULL or empty: of all) on a node (NULL: this one). Without processes there the result
/// is success, NULL and 0. The caller releases the array. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Resolve_peers<'a>(
    nodename: CText<'a>,
    nspace: NamespaceText<'a>,
    procs: Out<'a, *mut pmix_proc_t>,
    nprocs: Out<'a, usize>,
) -> pmix_status_t {
    let mut places = OutArray::cleared(procs, nprocs);
    guard(|| {
        process::member()?;
        let (procs, nprocs) = places.places("place for the processes", "place for their number")?;
        let node = from_c::text(nodename)?.map(|name| name.to_str().map(str::to_owned)).transpose();
        let node = node.map_err(|_| Failure(Status::ERR_BAD_PARAM))?;
        let namespace = namespace(nspace)?;
        match call::run(ClientRequest::ResolvePeers { node, namespace })?.results {
            Results::Procs(found) => {
                (*procs, *nprocs) = to_c::procs(&found)?.into_raw();
                Ok(())
            }
            _ => Err(Failure(Status::ERROR)),
        }
    })
}

/// The nodes of a namespace (NULL or empty: of all), as a list with commas. The caller releases the string. See the
/// standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Resolve_nodes(
    nspace: NamespaceText<'_>,
    mut nodelist: Out<'_, *mut c_char>,
) -> pmix_status_t {
    nodelist.clear();
    guard(|| {
        process::member()?;
        let place = nodelist.place("place for the list")?;
        let namespace = namespace(nspace)?;
        match call::run(ClientRequest::ResolveNodes { namespace })?.results {
            Results::Text(list) => {
                *place = memory::new_string(list.as_bytes())?;
                Ok(())
            }
            _ => Err(Failure(Status::ERROR)),
        }
    })
}

fn namespace(nspace: NamespaceText<'_>) -> Result<Option<Namespace>, Failure> {
    if nspace.get("namespace")?.is_none_or(<[u8]>::is_empty) {
        return Ok(None);
    }
    Ok(Some(from_c::namespace(nspace, None)?))
}
