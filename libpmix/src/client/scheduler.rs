//! Requests that a scheduler answers: fabrics, sessions, blocks of resources.

use std::collections::BTreeMap;

use modex::fabrics::FabricHandle;
use modex::types::{Info, Key, LocalAddress, Status, Text, Value};
use modex::{FabricRegister, FabricUpdate, ResourceBlock, SessionControl, keys};

use parking_lot::Mutex;

use super::asynchronous::{infos_of, run, start, start_for_infos, start_with};
use crate::argument::{CText, Count, Counted, Items};
use crate::callback::Callback;
use crate::client_request::{Answer, ClientRequest, Results};
use crate::error::CError;
use crate::form::{Depth, destruct_list, read_list};
use crate::guard::{Failure, guard, guard_status};
use crate::pointer::{self, CallerData};
use crate::process::Member;
use crate::server::own_fabric;
use crate::types::{
    c_void, pmix_fabric_t, pmix_info_cbfunc_t, pmix_info_t, pmix_op_cbfunc_t, pmix_resource_block_directive_t,
    pmix_resource_unit_t, pmix_status_t,
};
use crate::{call, from_c, process, to_c, turns};

/// A fabric of the caller. It is NULL, plainly wrong, or a constructed fabric. Nobody else uses it until the function
/// returns or, with a callback, until the callback. If it has the mark of a registration, its infos are an array of the
/// library's (F1).
#[derive(Debug)]
#[repr(transparent)]
pub struct FabricPlace(*mut pmix_fabric_t);

// SAFETY: nobody else uses the fabric meanwhile (the promise of the type), and no thread owns it.
unsafe impl Send for FabricPlace {}

/// The registered fabrics of this process's own server, by the address of their infos.
static HELD: Mutex<BTreeMap<usize, Held>> = Mutex::new(BTreeMap::new());

/// A plane in the revision of a registration or update.
#[derive(Debug)]
struct Held {
    fabric: FabricHandle,
    /// Infos point to it. `None` if it would be too large.
    _matrix: Option<Matrix>,
}

/// The costs of each device with each device, row by row.
type Matrix = Box<[u16]>;

/// `module` of a registered fabric. Only the address counts.
static MARK: u8 = 0;

impl FabricPlace {
    fn get(&mut self) -> Result<&mut pmix_fabric_t, CError> {
        // SAFETY: the fabric is this argument's alone (the promise of the type), and the result borrows the argument.
        unsafe { pointer::unique(self.0, "fabric") }
    }

    fn is_registered(&mut self) -> Result<bool, CError> {
        Ok(self.get()?.module == mark())
    }

    /// Releases what the registration gave. The name and the index stay.
    fn clear(&mut self) -> Result<(), CError> {
        if self.is_registered()? {
            let fabric = self.get()?;
            drop(HELD.lock().remove(&fabric.info.addr()));
            // SAFETY: a registered fabric has an array of the library's (the promise of the type).
            unsafe { destruct_list::<pmix_info_t>(&mut fabric.info, &mut fabric.ninfo) };
            fabric.module = std::ptr::null_mut();
        }
        Ok(())
    }

    /// Takes the answer to a registration or an update. After an error the fabric is as before.
    fn fill(&mut self, answer: Answer) -> Result<Status, Failure> {
        if !answer.status.is_success() {
            return Err(Failure(answer.status));
        }
        let infos = infos_of(answer.results);
        let index = index_of(&infos)?;
        let (infos, held) = index.and_then(own_data).map_or((infos, None), |(infos, held)| (infos, Some(held)));
        let array = to_c::infos(&infos)?;
        self.clear()?;
        let fabric = self.get()?;
        (fabric.info, fabric.ninfo) = array.into_raw();
        // A program may have released another fabric's array at this address without its end.
        let mut kept = HELD.lock();
        kept.remove(&fabric.info.addr());
        kept.extend(held.map(|held| (fabric.info.addr(), held)));
        fabric.index = index.unwrap_or(fabric.index);
        fabric.module = mark();
        Ok(answer.status)
    }

    /// Takes the answer to an update. The server answers a failed one with the facts of its newest revision. They are
    /// the update of a fabric with an older one.
    fn renew(&mut self, answer: Answer) -> Result<Status, Failure> {
        let is_renewal = match &answer.results {
            Results::Infos(newest) if !answer.status.is_success() => self.is_older_than(newest)?,
            _ => false,
        };
        self.fill(if is_renewal { Answer { status: Status::SUCCESS, ..answer } } else { answer })
    }

    /// Whether the fabric is of an older revision than these infos. Only the handle of the server's own process knows
    /// its revision.
    fn is_older_than(&mut self, newest: &[Info]) -> Result<bool, CError> {
        let fabric = self.get()?;
        if let Some(held) = HELD.lock().get(&fabric.info.addr()) {
            return Ok(held.fabric.is_outdated());
        }
        // SAFETY: a registered fabric has an array of the library's (the promise of the type).
        let infos = unsafe { Counted::new(fabric.info, fabric.ninfo) };
        let infos = from_c::infos(infos)?;
        // A host may answer a failure with other infos.
        let of_plane = |infos: &[Info]| {
            let value = |key: &str| infos.iter().find(|info| info.key.as_str() == key).map(|info| info.value.clone());
            Some((value(keys::FABRIC_IDENTIFIER.name())?, value(keys::FABRIC_INDEX.name())?))
        };
        if of_plane(&infos).is_none() || of_plane(&infos) != of_plane(newest) {
            return Ok(false);
        }
        // The last info of an array has a flag that says so.
        let is_same = |(one, other): (&Info, &Info)| one.key == other.key && one.value == other.value;
        Ok(infos.len() != newest.len() || !infos.iter().zip(newest).all(is_same))
    }

    /// The fabric of a registration, and the number of its plane. An outdated one needs an update first.
    pub(super) fn held(&mut self) -> Result<(FabricHandle, usize), Failure> {
        if !self.is_registered()? {
            return Err(Failure(Status::ERR_BAD_PARAM));
        }
        let fabric = self.get()?;
        let handle = HELD.lock().get(&fabric.info.addr()).map(|held| held.fabric.clone());
        let handle = handle.ok_or(Failure(Status::ERR_NOT_SUPPORTED))?;
        if handle.is_outdated() { Err(Failure(Status::FABRIC_UPDATED)) } else { Ok((handle, fabric.index)) }
    }

    /// Takes the answer to a request with a callback.
    fn settle(mut self, take: Take, result: Result<Answer, Status>) -> Status {
        let filled = turns::in_turn(|| take(&mut self, result.map_err(Failure)?));
        match filled {
            Some(Ok(status) | Err(Failure(status))) => status,
            None => Status::ERR_UNREACH,
        }
    }
}

/// [`FabricPlace::fill`] or [`FabricPlace::renew`].
type Take = fn(&mut FabricPlace, Answer) -> Result<Status, Failure>;

fn mark() -> *mut c_void {
    (&raw const MARK).cast_mut().cast()
}

/// The number that the host gives to a fabric, if it gives one.
fn index_of(infos: &[Info]) -> Result<Option<usize>, Failure> {
    let Some(info) = infos.iter().find(|info| info.key.as_str() == keys::FABRIC_INDEX.name()) else { return Ok(None) };
    let index = info.value.as_u64().and_then(|index| usize::try_from(index).ok());
    index.map(Some).ok_or(Failure(Status::ERR_TYPE_MISMATCH))
}

/// The data of a plane of this process's own server, with its matrix of costs if that is not too large. Both are of one
/// revision. `None` if another process or the host has answered.
fn own_data(index: usize) -> Option<(Vec<Info>, Held)> {
    if !matches!(process::member(), Ok(Member::Server(_))) {
        return None;
    }
    let fabric = own_fabric()?;
    let mut infos = fabric.registration(index)?;
    let plane = fabric.planes().get(index)?;
    let devices = 0..u32::try_from(plane.device_count()).ok()?;
    let mut matrix = plane.block(devices.clone(), devices).map(Vec::into_boxed_slice);
    if let Some(matrix) = &mut matrix {
        let address = LocalAddress::new(matrix.as_mut_ptr().expose_provenance());
        infos.push(Info::new(Key::from_static(keys::FABRIC_COST_MATRIX.name()), Value::Pointer(address)));
    }
    Some((infos, Held { fabric, _matrix: matrix }))
}

/// Registers for the data of a fabric. The library stores the answer in the fabric: its infos, and `PMIX_FABRIC_INDEX`
/// among them as its index. A second registration without an end of the first fails with `PMIX_ERR_EXISTS`. See the
/// standard's function of the same name.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Fabric_register<'a>(
    mut fabric: FabricPlace,
    directives: Items<'a, pmix_info_t>,
    ndirs: Count<'a, pmix_info_t>,
) -> pmix_status_t {
    guard_status(|| register(&mut fabric, directives.counted(ndirs)))
}

pub(super) fn register(fabric: &mut FabricPlace, directives: Counted<'_, pmix_info_t>) -> Result<Status, Failure> {
    let request = registration(fabric, directives)?;
    fabric.fill(call::run(request).map_err(Failure)?)
}

/// As [`PMIx_Fabric_register`], with a callback.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Fabric_register_nb<'a>(
    mut fabric: FabricPlace,
    directives: Items<'a, pmix_info_t>,
    ndirs: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| {
        let request = registration(&mut fabric, directives.counted(ndirs))?;
        start_for_fabric(request, (fabric, FabricPlace::fill), cbfunc, cbdata)
    })
}

/// Brings the data of a registered fabric up to date. Without a registration it fails with `PMIX_ERR_BAD_PARAM`. If the
/// description can't be read, a fabric of an older revision than the server's gets the server's, and another one fails
/// and stays as it was. See the standard's function of the same name.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Fabric_update(mut fabric: FabricPlace) -> pmix_status_t {
    guard_status(|| bring_up_to_date(&mut fabric))
}

pub(super) fn bring_up_to_date(fabric: &mut FabricPlace) -> Result<Status, Failure> {
    let request = update(fabric)?;
    fabric.renew(call::run(request).map_err(Failure)?)
}

/// As [`PMIx_Fabric_update`], with a callback.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Fabric_update_nb(
    mut fabric: FabricPlace,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| {
        let request = update(&mut fabric)?;
        start_for_fabric(request, (fabric, FabricPlace::renew), cbfunc, cbdata)
    })
}

/// Ends a registration and releases its infos. A fabric without a registration stays as it is. See the standard's
/// function of the same name.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Fabric_deregister(mut fabric: FabricPlace) -> pmix_status_t {
    guard(|| deregister(&mut fabric))
}

/// As [`PMIx_Fabric_deregister`]. The end is immediate, so the result is `PMIX_OPERATION_SUCCEEDED` and the callback
/// does not run.
///
/// Support: implemented.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Fabric_deregister_nb(
    mut fabric: FabricPlace,
    _cbfunc: Callback<pmix_op_cbfunc_t>,
    _cbdata: CallerData,
) -> pmix_status_t {
    guard_status(|| deregister(&mut fabric).map(|()| Status::OPERATION_SUCCEEDED))
}

fn registration(fabric: &mut FabricPlace, directives: Counted<'_, pmix_info_t>) -> Result<ClientRequest, Failure> {
    process::member()?;
    if fabric.is_registered()? {
        return Err(Failure(Status::ERR_EXISTS));
    }
    Ok(FabricRegister::new(from_c::infos(directives)?).into())
}

fn update(fabric: &mut FabricPlace) -> Result<ClientRequest, Failure> {
    process::member()?;
    if !fabric.is_registered()? {
        return Err(Failure(Status::ERR_BAD_PARAM));
    }
    let index = u64::try_from(fabric.get()?.index).map_err(|_| Failure(Status::ERR_BAD_PARAM))?;
    Ok(FabricUpdate::new(index).into())
}

pub(super) fn deregister(fabric: &mut FabricPlace) -> Result<(), Failure> {
    process::member()?;
    Ok(fabric.clear()?)
}

/// Starts a request whose answer goes to a fabric. Without a callback the caller would not learn when.
fn start_for_fabric(
    request: ClientRequest,
    (fabric, take): (FabricPlace, Take),
    callback: Callback<pmix_op_cbfunc_t>,
    data: CallerData,
) -> Result<(), Failure> {
    let callback = callback.with(data).ok_or(Failure(Status::ERR_BAD_PARAM))?;
    start_with(request, move |result| callback.call(fabric.settle(take, result)))
}

/// Controls a session. Without a callback the caller waits, and success is `PMIX_OPERATION_SUCCEEDED`, as in the
/// reference implementation. See its function of the same name.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Session_control<'a>(
    session: u32,
    directives: Items<'a, pmix_info_t>,
    ndirs: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_info_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard_status(|| {
        process::member()?;
        let directives = from_c::infos(directives.counted(ndirs))?;
        let request = SessionControl::new(session, directives).into();
        if cbfunc.is_none() {
            return run(request).map(|()| Status::OPERATION_SUCCEEDED);
        }
        start_for_infos(request, cbfunc, cbdata).map(|()| Status::SUCCESS)
    })
}

/// Defines, extends, reduces or deletes a named block of resources. See the reference implementation's function of the
/// same name.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Resource_block<'a>(
    directive: pmix_resource_block_directive_t,
    block: CText<'a>,
    res: Items<'a, pmix_resource_unit_t>,
    nres: Count<'a, pmix_resource_unit_t>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
) -> pmix_status_t {
    guard(|| run(block_change(directive, block, res.counted(nres), info.counted(ninfo))?))
}

/// As [`PMIx_Resource_block`], with a callback.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_Resource_block_nb<'a>(
    directive: pmix_resource_block_directive_t,
    block: CText<'a>,
    res: Items<'a, pmix_resource_unit_t>,
    nres: Count<'a, pmix_resource_unit_t>,
    info: Items<'a, pmix_info_t>,
    ninfo: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard(|| start(block_change(directive, block, res.counted(nres), info.counted(ninfo))?, cbfunc, cbdata))
}

fn block_change(
    directive: pmix_resource_block_directive_t,
    block: CText<'_>,
    units: Counted<'_, pmix_resource_unit_t>,
    info: Counted<'_, pmix_info_t>,
) -> Result<ClientRequest, Failure> {
    process::member()?;
    let name = block.get("name of the block")?.map(Text::from);
    let units = read_list(units, "array of resource units", Depth::TOP)?;
    Ok(ResourceBlock::new(directive, name, units, from_c::infos(info)?).into())
}
