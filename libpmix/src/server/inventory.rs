//! Hardware inventories: collected on each node, delivered where jobs are planned.

use modex::Server;
use modex::keys;
use modex::types::{AsStatus, Info, InfoFlags, Key, Status, Value};

use super::completion::perform;
use super::state::{self, ServerProcess};
use crate::argument::{Count, Items};
use crate::callback::Callback;
use crate::from_c;
use crate::guard::{Failure, guard, guard_status};
use crate::pointer::CallerData;
use crate::to_c::{self, Array};
use crate::types::{pmix_info_cbfunc_t, pmix_info_t, pmix_op_cbfunc_t, pmix_status_t};

/// Collects the inventory of this node that the directives ask for. The array belongs to the library until the
/// callback's release function is called. Without a directive it is empty, as in OpenPMIx, and hosts that pass it on
/// pass nothing on.
///
/// With the directive `modex.inventory` = true the array holds the node's name and a versioned blob
/// (`modex.inventory`). The blob describes processors, caches, memory, network interfaces, GPUs and other devices, as
/// the node's topology has them. Without libhwloc, or if the machine may not be read, the blob holds the kernel's data:
/// processors and memory.
///
/// With the directive `modex.inventory.global` = true the array holds such a pair for each node that this server knows,
/// by name: its own, those that were delivered, and for other nodes of its fabric (`modex.fabric`) the devices in the
/// fabric. Other directives have no effect. See the standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_collect_inventory<'a>(
    directives: Items<'a, pmix_info_t>,
    ndirs: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_info_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| {
        let process = state::current()?;
        let callback = cbfunc.with(cbdata).ok_or(Failure(Status::ERR_BAD_PARAM))?;
        let is_own = |info: &Info| [Server::INVENTORY, Server::ALL_INVENTORIES].contains(&info.key.as_str());
        let (own, others): (Vec<Info>, Vec<Info>) =
            from_c::infos(directives.counted(ndirs))?.into_iter().partition(is_own);
        from_c::refuse_required(&others)?;
        if own.iter().any(|info| info.flags().contains(InfoFlags::REQUIRED) && info.value.as_bool().is_none()) {
            return Err(Failure(Status::ERR_NOT_SUPPORTED));
        }
        let is_wanted =
            |key: &str| own.iter().any(|info| info.key.as_str() == key && info.value.as_bool() == Some(true));
        let (of_node, of_all) = (is_wanted(Server::INVENTORY), is_wanted(Server::ALL_INVENTORIES));
        let deferred = process.clone();
        process.server().defer(move || {
            let infos = if of_node || of_all { collect(&deferred, of_all) } else { Ok(Vec::new()) };
            let (status, array) = match infos.and_then(|infos| to_c::infos(&infos).map_err(|error| error.status())) {
                Ok(array) => (Status::SUCCESS, array),
                Err(status) => (status, Array::empty()),
            };
            callback.call_with_release(status, array);
        })?;
        Ok(())
    })
}

fn collect(process: &ServerProcess, of_all: bool) -> Result<Vec<Info>, Status> {
    let server = process.server();
    let found = if of_all { server.collect_inventories() } else { server.collect_inventory().map(|own| vec![own]) };
    let mut infos = Vec::new();
    for inventory in found.map_err(|error| error.status())? {
        let blob = inventory.encode().map_err(|_| Status::ERR_OUT_OF_RESOURCE)?;
        infos.push(Info::new(Key::from_static(keys::HOSTNAME.name()), inventory.node));
        infos.push(Info::new(Key::from_static(Server::INVENTORY), blob));
    }
    Ok(infos)
}

/// Takes inventories that [`PMIx_server_collect_inventory`] collected on this or other nodes; a node's newer inventory
/// replaces its older one. A call takes all of its inventories or none. Queries and Gets for `modex.inventory`,
/// `PMIX_FABRIC_DEVICES` and `PMIX_FABRIC_DEVICE` read them. Other infos are ignored unless they are required. See the
/// standard's function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_server_deliver_inventory<'a>(
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    directives: Items<'a, pmix_info_t, 1>,
    ndirs: Count<'a, pmix_info_t, 1>,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard_status(|| {
        let infos = from_c::infos(info.counted(ninfo))?;
        from_c::refuse_required(&from_c::infos(directives.counted(ndirs))?)?;
        let (inventories, others): (Vec<Info>, Vec<Info>) =
            infos.into_iter().partition(|info| info.key.as_str() == Server::INVENTORY);
        let others: Vec<Info> = others.into_iter().filter(|info| info.key.as_str() != keys::HOSTNAME.name()).collect();
        from_c::refuse_required(&others)?;
        let blobs: Result<Vec<Vec<u8>>, Failure> = inventories.into_iter().map(blob_of).collect();
        let blobs = blobs?;
        perform(cbfunc, cbdata, |server| server.deliver_inventory(blobs))
    })
}

fn blob_of(info: Info) -> Result<Vec<u8>, Failure> {
    match info.value {
        Value::ByteObject(blob) => Ok(blob),
        _ => Err(Failure(Status::ERR_BAD_PARAM)),
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;
    use std::sync::{Arc, mpsc};

    use modex::proto::exchange::ExchangeForm;
    use modex::topo::Inventory;

    use super::*;
    use crate::argument::Counted;
    use crate::argument::as_c::as_c;
    use crate::server::upcall::{Bridge, ModuleHost};
    use crate::topology::{Given, HostTopology};
    use crate::types::{c_void, pmix_server_module_t};

    type Collected = Result<Vec<Info>, Status>;

    unsafe extern "C" fn collected(
        status: pmix_status_t,
        first: *mut pmix_info_t,
        count: usize,
        data: *mut c_void,
        release: Option<unsafe extern "C" fn(*mut c_void)>,
        token: *mut c_void,
    ) {
        // SAFETY: the library gives so many infos, alive until their release.
        let infos = from_c::infos(unsafe { Counted::new(first, count) }).unwrap();
        // SAFETY: the token came with the function, and is used once.
        unsafe { release.unwrap()(token) };
        // SAFETY: the test's sender, dropped here: the test goes on before `send` has returned.
        let sender = unsafe { Box::from_raw(data.cast::<mpsc::Sender<Collected>>()) };
        let status = Status::from_raw(status);
        sender.send(if status == Status::SUCCESS { Ok(infos) } else { Err(status) }).unwrap();
    }

    fn serve(directory: &std::path::Path, given: Given) {
        let bridge = Arc::new(Bridge::new(pmix_server_module_t::default(), ExchangeForm::default()));
        let topology = Arc::new(HostTopology::new(given));
        let builder = Server::builder().hostname("n0").tmpdir(directory).topology(Arc::clone(&topology) as Arc<_>);
        let server = builder.start(ModuleHost::new(Arc::clone(&bridge))).unwrap();
        state::replace(Some(Arc::new(ServerProcess::new(server, bridge, topology))));
    }

    fn collect_with(directives: &[Info]) -> Collected {
        let (sender, receiver) = mpsc::channel::<Collected>();
        let data = Box::into_raw(Box::new(sender)).cast();
        let callback = Some(collected as pmix_info_cbfunc_t);
        let array = to_c::infos(directives).unwrap();
        let (first, count) = (array.as_ptr().cast_mut(), array.len());
        assert_eq!(as_c!(PMIx_server_collect_inventory(first, count, callback, data)), 0);
        receiver.recv().unwrap()
    }

    fn collect() -> Collected {
        collect_with(&[Info::new(Key::from_static(Server::INVENTORY), true)])
    }

    fn deliver(infos: &[Info]) -> Status {
        let array = to_c::infos(infos).unwrap();
        let (first, count) = (array.as_ptr().cast_mut(), array.len());
        Status::from_raw(as_c!(PMIx_server_deliver_inventory(first, count, null_mut(), 0, None, null_mut())))
    }

    #[test]
    fn an_inventory_is_collected_and_delivered_in_c_and_what_is_none_is_refused() {
        let _only = state::ONLY_SERVER.lock();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("machine.xml");
        let xml = "<topology version='2.0'><object type='Machine'><object type='Package'/></object></topology>";
        std::fs::write(&file, xml).unwrap();
        serve(directory.path(), Given::File(file));
        // Regression: PRRTE's controller lost a daemon whose inventory it had not asked for.
        assert_eq!(collect_with(&[]), Ok(Vec::new()));
        let infos = collect().unwrap();
        let (name, blob) = (infos.first().unwrap(), infos.get(1).unwrap());
        assert_eq!((name.value.as_str(), blob.key.as_str()), (Some("n0"), Server::INVENTORY));
        let Value::ByteObject(bytes) = &blob.value else { panic!("{blob:?}") };
        assert_eq!(Inventory::decode(bytes).unwrap().packages, 1);
        assert_eq!(deliver(&infos), Status::OPERATION_SUCCEEDED);
        let damaged = Info::new(Key::from_static(Server::INVENTORY), vec![1_u8]);
        assert_eq!(deliver(&[damaged]), Status::ERR_BAD_PARAM);
        let required =
            Info { flags: modex::types::InfoFlags::REQUIRED.bits(), ..Info::new(Key::from_static("other"), 1_u32) };
        assert_eq!(deliver(&[required]), Status::ERR_NOT_SUPPORTED);
        serve(directory.path(), Given::Forbidden);
        let Some(Value::ByteObject(bytes)) = collect().unwrap().pop().map(|blob| blob.value) else { panic!("no blob") };
        let of_kernel = Inventory::decode(&bytes).unwrap();
        assert!(of_kernel.processors > 0 && of_kernel.packages == 0 && !of_kernel.memory.is_empty(), "{of_kernel:?}");
        drop(state::replace(None));
    }
}
