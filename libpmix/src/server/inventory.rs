//! Hardware inventories: collected on each node, delivered where jobs are planned.

use std::time::Duration;

use modex::Server;
use modex::keys;
use modex::runtime::understood::{OF_ASKED_SERVERS, OF_COLLECTIONS, OF_INVENTORIES};
use modex::types::{AsStatus, Info, InfoFlags, Key, Status, Value};

use super::completion::perform;
use super::long_work::perform_apart;
use super::state::{self, ServerProcess};
use crate::argument::{Count, Items};
use crate::callback::{Bound, Callback};
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
/// fabric.
///
/// With one or more `PMIX_SERVER_URI` the library first asks the servers at these addresses. It delivers the inventories
/// of their nodes, as they are now, to this server. The array then has all known nodes. Each server has 10 s, and all
/// together have `PMIX_TIMEOUT` seconds, else 60. For each server without an answer the array has an info
/// `modex.inventory.failed` with its address and the reason. The status is `PMIX_ERR_PARTIAL_SUCCESS` then.
///
/// With the directive `modex.inventory.current` = true the machine is read again, so that changes since the start of the
/// server count. The inventory is delivered to this server, too. Other directives have no effect. See the standard's
/// function of the same name.
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
        let wanted = CollectDirectives::read(from_c::infos(directives.counted(ndirs))?)?;
        if wanted.takes_long() {
            let work = move |process: &ServerProcess| wanted.collect(process.server()).map_err(Failure);
            return perform_apart(process, "modex-inventory", work, move |collected| give(callback, collected));
        }
        let deferred = process.clone();
        process.server().defer(move || give(callback, wanted.collect(deferred.server())))?;
        Ok(())
    })
}

/// Gives the infos to a callback.
fn give(callback: Bound<pmix_info_cbfunc_t>, collected: Result<(Status, Vec<Info>), Status>) {
    let (status, infos) = collected.unwrap_or_else(|status| (status, Vec::new()));
    let array = to_c::infos(&infos).map(|array| (status, array));
    let (status, array) = array.unwrap_or_else(|error| (error.status(), Array::empty()));
    callback.call_with_release(status, array);
}

/// The directives of `PMIx_server_collect_inventory`.
struct CollectDirectives {
    wants_own_node: bool,
    wants_all_nodes: bool,
    /// Whether the machine is read again.
    is_current: bool,
    /// Servers that are asked first.
    addresses: Vec<String>,
    time_max: Duration,
}

impl CollectDirectives {
    fn read(directives: Vec<Info>) -> Result<Self, Failure> {
        let flags = [Server::INVENTORY, Server::ALL_INVENTORIES, Server::CURRENT_INVENTORY];
        let (flags, others): (Vec<Info>, Vec<Info>) =
            directives.into_iter().partition(|info| flags.contains(&info.key.as_str()));
        let of = |key: &'static str| others.iter().filter(move |info| info.key.as_str() == key).map(|info| &info.value);
        let address = |value: &Value| value.as_str().map(str::to_owned).ok_or(Failure(Status::ERR_BAD_PARAM));
        let addresses: Vec<String> = of(keys::SERVER_URI.name()).map(address).collect::<Result<_, _>>()?;
        let of_addresses: &[&str] = if addresses.is_empty() { &[] } else { &OF_ASKED_SERVERS };
        from_c::refuse_others(&others, &[&OF_COLLECTIONS, of_addresses].concat())?;
        let is_required = |info: &Info| info.flags().contains(InfoFlags::REQUIRED);
        if flags.iter().any(|info| is_required(info) && info.value.as_bool().is_none()) {
            return Err(Failure(Status::ERR_NOT_SUPPORTED));
        }
        let is_wanted =
            |key: &str| flags.iter().any(|info| info.key.as_str() == key && info.value.as_bool() == Some(true));
        let seconds = of(keys::TIMEOUT.name()).next().map(|value| value.as_u64().ok_or(Failure(Status::ERR_BAD_PARAM)));
        let seconds = seconds.transpose()?.filter(|&seconds| seconds > 0);
        Ok(Self {
            wants_own_node: is_wanted(Server::INVENTORY),
            wants_all_nodes: is_wanted(Server::ALL_INVENTORIES) || !addresses.is_empty(),
            is_current: is_wanted(Server::CURRENT_INVENTORY),
            addresses,
            time_max: Duration::from_secs(seconds.unwrap_or(SECONDS_MAX)),
        })
    }

    const fn takes_long(&self) -> bool {
        self.is_current || !self.addresses.is_empty()
    }

    /// A status, and the infos of the nodes and of servers without an answer.
    fn collect(&self, server: &Server) -> Result<(Status, Vec<Info>), Status> {
        let failed = match &self.addresses[..] {
            [] => Vec::new(),
            addresses => server.ask_for_inventories(addresses, self.time_max).map_err(|error| error.status())?.failed,
        };
        let current = self.is_current.then(|| server.collect_current_inventory()).transpose();
        let found = match current.map_err(|error| error.status())? {
            _ if self.wants_all_nodes => server.collect_inventories(),
            Some(own) => Ok(vec![own]),
            None if self.wants_own_node => server.collect_inventory().map(|own| vec![own]),
            None => Ok(Vec::new()),
        };
        let mut infos = Vec::new();
        for inventory in found.map_err(|error| error.status())? {
            let blob = inventory.encode().map_err(|_| Status::ERR_OUT_OF_RESOURCE)?;
            infos.push(Info::new(Key::from_static(keys::HOSTNAME.name()), inventory.node));
            infos.push(Info::new(Key::from_static(Server::INVENTORY), blob));
        }
        let status = if failed.is_empty() { Status::SUCCESS } else { Status::ERR_PARTIAL_SUCCESS };
        for failure in failed {
            tracing::warn!("{failure}");
            infos.push(Info::new(Key::from_static(FAILED), format!("{}: {}", failure.address, failure.reason)));
        }
        Ok((status, infos))
    }
}

/// Our own info: a server that gave no inventory, and the reason.
const FAILED: &str = "modex.inventory.failed";

/// Time for all servers without a `PMIX_TIMEOUT`. Each of thousands reads its machine.
const SECONDS_MAX: u64 = 60;

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
        from_c::refuse_others(&infos, &OF_INVENTORIES)?;
        let inventories = infos.into_iter().filter(|info| info.key.as_str() == Server::INVENTORY);
        let blobs: Result<Vec<Vec<u8>>, Failure> = inventories.map(blob_of).collect();
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
        serve(directory.path(), Given::File(file.clone()));
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
        // The file stands for the machine. Only the directive reads it again.
        let two = "<object type='Package'/><object type='Package'/>";
        std::fs::write(&file, format!("<topology version='2.0'><object type='Machine'>{two}</object></topology>"))
            .unwrap();
        let packages = |infos: Vec<Info>| match &infos.last().unwrap().value {
            Value::ByteObject(bytes) => Inventory::decode(bytes).unwrap().packages,
            value => panic!("{value:?}"),
        };
        assert_eq!(packages(collect().unwrap()), 1);
        let collect_current = || collect_with(&[Info::new(Key::from_static(Server::CURRENT_INVENTORY), true)]);
        assert_eq!(packages(collect_current().unwrap()), 2);
        // A pipe has no end, and stops no later reading.
        std::fs::remove_file(&file).unwrap();
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(collect_current(), Err(Status::ERROR));
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, xml).unwrap();
        assert_eq!(packages(collect_current().unwrap()), 1);
        serve(directory.path(), Given::Forbidden);
        let Some(Value::ByteObject(bytes)) = collect().unwrap().pop().map(|blob| blob.value) else { panic!("no blob") };
        let of_kernel = Inventory::decode(&bytes).unwrap();
        assert!(of_kernel.processors > 0 && of_kernel.packages == 0 && !of_kernel.memory.is_empty(), "{of_kernel:?}");
        drop(state::replace(None));
    }
}
